/* rs_string_alphabet.c: tests how random a sample of strings is, and packs strings by an alphabet. */
#include "plan/rs_string_alphabet.h"

#include <stdlib.h>

#include "format/rs_alphabet.h"

enum {
    MISSING = 0xFF,  /* the number of a character that is not in the alphabet */
    SMALL = 32,      /* the most characters of an alphabet that is made for a sample */
    LOOKED_AT = 512, /* characters of each string that are counted */
    MIN_PAIRS = 64,  /* the fewest pairs of adjacent characters to judge by */
    MIN_LENGTH = 4,  /* the least average length of the strings */
    MIN_COUNTED = 16 /* the same if each has a count */
};

static const char *const known[] = {
    "0123456789abcdef",
    "0123456789ABCDEF",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};
enum { KNOWN = 4, KNOWN_HEX = 2 };

/* ---- Texts of a known alphabet ---- */

bool rs_alphabet_has_hyphens(rs_slice s) {
    const uint8_t *p = s.ptr;
    return rs_slice_left(&s) == RS_FMT_UUID_TEXT && p[8] == '-' && p[13] == '-' && p[18] == '-' && p[23] == '-';
}

/* Copies the digits of the text of a UUID. */
static rs_slice digits_of_uuid(rs_slice s, uint8_t to[RS_FMT_UUID_DIGITS]) {
    memcpy(to, s.ptr, 8);
    memcpy(to + 8, s.ptr + 9, 4);
    memcpy(to + 12, s.ptr + 14, 4);
    memcpy(to + 16, s.ptr + 19, 4);
    memcpy(to + 20, s.ptr + 24, 12);
    return rs_slice_of(to, RS_FMT_UUID_DIGITS);
}

/* Takes the padding off a text. */
static rs_slice without_padding(rs_slice s) {
    while (s.ptr != s.end && s.end[-1] == '=') s.end--;
    return s;
}

/* Returns whether the characters of a text denote whole bytes, so that the bits after these are zero. */
static bool denotes_bytes(const rs_alphabet *self, rs_slice s) {
    uint64_t n = rs_slice_left(&s), size = n * self->bits / 8;
    unsigned rest = (unsigned)(n * self->bits % 8);
    if ((8 * size + self->bits - 1) / self->bits != n) return false;
    return rest == 0 || (self->numbers[s.end[-1]] & ((1u << rest) - 1)) == 0;
}

static bool has_all(const uint8_t *numbers, rs_slice s) {
    uint8_t all = 0;
    for (; s.end - s.ptr >= 8; s.ptr += 8) {
        for (unsigned i = 0; i < 8; i++) all |= numbers[s.ptr[i]];
        if ((all & 0x80) != 0) return false;
    }
    while (s.ptr != s.end) all |= numbers[*s.ptr++];
    return (all & 0x80) == 0;
}

bool rs_alphabet_fits(const rs_alphabet *self, rs_slice text, uint64_t *n) {
    uint8_t digits[RS_FMT_UUID_DIGITS];
    if (self->form == RS_FMT_ALPHABET_UUID) {
        if (!rs_alphabet_has_hyphens(text)) return false;
        text = digits_of_uuid(text, digits);
    }
    if (self->form == RS_FMT_ALPHABET_PADDED) {
        const size_t length = rs_slice_left(&text), group = rs_alphabet_group(self->bits);
        text = without_padding(text);
        if (length % group != 0 || length - rs_slice_left(&text) >= group) return false;
    }
    *n = rs_slice_left(&text);
    if ((self->count != 0 && *n != self->count) || !has_all(self->numbers, text)) return false;
    if (self->form != RS_FMT_ALPHABET_BYTES && self->form != RS_FMT_ALPHABET_PADDED) return true;
    return denotes_bytes(self, text);
}

uint64_t rs_alphabet_bits(const rs_alphabet *self, uint64_t units, uint64_t n) {
    if (self->count != 0) return 8 * n * rs_alphabet_bytes(self->bits, self->form, self->count);
    return units * self->bits + 12 * n; /* a count, and on average half a byte to the next one */
}

static inline void pack(const uint8_t *numbers, unsigned bits, const uint8_t *from, uint64_t n, uint64_t size,
                        uint8_t *to) {
    for (; n > 0; to += bits) {
        const unsigned now = n < 8 ? (unsigned)n : 8;
        uint64_t word = 0;
        for (unsigned i = 0; i < now; i++) word = word << bits | numbers[from[i]];
        word = rs_swap_u64(word << (64 - bits * now));
        memcpy(to, &word, size < bits ? (size_t)size : bits);
        if (size <= bits) return;
        size -= bits, from += now, n -= now;
    }
}

void rs_alphabet_encode(const rs_alphabet *self, rs_slice text, uint64_t n, uint8_t *to) {
    uint8_t digits[RS_FMT_UUID_DIGITS];
    const uint64_t size = rs_alphabet_bytes(self->bits, self->form, n);
    if (self->form == RS_FMT_ALPHABET_UUID) text = digits_of_uuid(text, digits);
    switch (self->bits) {
    case 4: pack(self->numbers, 4, text.ptr, n, size, to); break;
    case 6: pack(self->numbers, 6, text.ptr, n, size, to); break;
    default: pack(self->numbers, self->bits, text.ptr, n, size, to);
    }
}

/* ---- The guess ---- */

/* A sample without padding and hyphens. */
typedef struct texts {
    const rs_slice *strings;
    const bool *fits;
    uint32_t n;
    bool uuid, padded;
    uint8_t digits[RS_FMT_UUID_DIGITS]; /* of one UUID */
} texts;

/* Sets *out to text i. Returns false if it does not count. */
static bool text_at(texts *self, uint32_t i, rs_slice *out) {
    if (self->fits != NULL && !self->fits[i]) return false;
    *out = self->strings[i];
    if (self->uuid) {
        if (!rs_alphabet_has_hyphens(*out)) return false;
        *out = digits_of_uuid(*out, self->digits);
    }
    if (self->padded) *out = without_padding(*out);
    return true;
}

static void use(rs_alphabet *self, const uint8_t *letters, unsigned n) {
    memset(self, 0, sizeof *self);
    memset(self->numbers, MISSING, sizeof self->numbers);
    for (self->bits = 1; 1u << self->bits < n;) self->bits++;
    for (unsigned i = 0; i < 1u << self->bits; i++) self->letters[i] = letters[i < n ? i : n - 1];
    for (unsigned i = 0; i < n; i++) self->numbers[letters[i]] = (uint8_t)i;
}

static uint32_t count_within(texts *self, const rs_alphabet *alphabet) {
    uint32_t n = 0;
    rs_slice s;
    for (uint32_t i = 0; i < self->n; i++) n += text_at(self, i, &s) && has_all(alphabet->numbers, s);
    return n;
}

/* Sets the alphabet to the characters of the texts, if they are few. */
static bool use_own(texts *self, rs_alphabet *out) {
    bool seen[256] = {false};
    uint8_t letters[SMALL];
    unsigned n = 0;
    rs_slice s;
    for (uint32_t i = 0; i < self->n; i++) {
        if (!text_at(self, i, &s)) continue;
        for (const uint8_t *p = s.ptr; p != s.end; p++) {
            if (seen[*p]) continue;
            if (n == SMALL || *p >= 0x80) return false;
            seen[*p] = true;
            n++;
        }
    }
    if (n < 2) return false;
    n = 0;
    for (unsigned c = 0; c < 128; c++) {
        if (seen[c]) letters[n++] = (uint8_t)c;
    }
    use(out, letters, n);
    return true;
}

/* Returns whether the adjacent pairs of characters repeat about as rarely as those of random texts: how often two pairs
 * are equal, over how often they would be. (Friedman, "The Index of Coincidence", 1920.) */
static bool is_random(texts *self, rs_alphabet *out) {
    uint16_t counts[64 * 64] = {0};
    uint64_t seen = 0, pairs = 0, equal = 0, letters = 0;
    rs_slice s;
    for (uint32_t i = 0; i < self->n; i++) {
        if (!text_at(self, i, &s) || !has_all(out->numbers, s) || s.ptr == s.end) continue;
        if (rs_slice_left(&s) > LOOKED_AT) s.end = s.ptr + LOOKED_AT;
        for (seen |= UINT64_C(1) << out->numbers[*s.ptr]; s.ptr + 1 != s.end; s.ptr++) {
            const unsigned second = out->numbers[s.ptr[1]];
            seen |= UINT64_C(1) << second;
            equal += counts[out->numbers[*s.ptr] * 64u + second]++;
            pairs++;
        }
    }
    if (pairs < MIN_PAIRS) return false;
    for (; seen != 0; seen &= seen - 1) letters++;
    const double ratio = (double)(equal * letters * letters) / ((double)pairs * (double)(pairs - 1) / 2);
    out->even = ratio < 1.3;
    return ratio < 1.5;
}

/* Chooses the form of the texts that the alphabet fits. */
static bool choose_form(texts *self, rs_alphabet *out) {
    size_t shortest = SIZE_MAX, longest = 0, total = 0, n = 0;
    bool bytes = true, uneven = false;
    rs_slice s;
    for (uint32_t i = 0; i < self->n; i++) {
        if (!text_at(self, i, &s) || !has_all(out->numbers, s)) continue;
        const size_t size = rs_slice_left(&s);
        if (size < shortest) shortest = size;
        if (size > longest) longest = size;
        total += size, n++;
        bytes = bytes && denotes_bytes(out, s);
        uneven = uneven || size * out->bits % 8 != 0;
    }
    if (n == 0 || (self->padded && !bytes)) return false;
    out->count = shortest == longest && longest <= RS_FMT_ALPHABET_MAX ? (uint32_t)longest : 0;
    out->form = RS_FMT_ALPHABET_ALL;
    if (bytes && (uneven || out->count == 0)) out->form = RS_FMT_ALPHABET_BYTES;
    if (total < n * (out->count == 0 && !bytes ? MIN_COUNTED : MIN_LENGTH)) return false;
    if (self->padded) out->form = RS_FMT_ALPHABET_PADDED;
    if (self->uuid) out->form = RS_FMT_ALPHABET_UUID;
    const bool hex = memcmp(out->letters, known[0], 16) == 0 || memcmp(out->letters, known[1], 16) == 0;
    const bool fixed = out->form == RS_FMT_ALPHABET_ALL && out->count != 0;
    out->kind = hex && fixed && out->bits == 4 ? RS_FMT_NODE_HEX : RS_FMT_NODE_ALPHABET;
    return true;
}

/* Returns whether `least` of the texts have this alphabet, seem random, and have a form. */
static bool suits(texts *self, uint32_t least, rs_alphabet *out) {
    if (count_within(self, out) < least || !choose_form(self, out)) return false;
    /* Symbols take more for hexadecimal digits than for usual text, even if these repeat. */
    return is_random(self, out) || (out->kind == RS_FMT_NODE_HEX && !self->uuid);
}

/* Sets *out to the first known alphabet from number `first` up to `end` that suits the texts. */
static bool choose_known(texts *self, unsigned first, unsigned end, uint32_t least, rs_alphabet *out) {
    for (unsigned i = first; i < end; i++) {
        use(out, (const uint8_t *)known[i], (unsigned)strlen(known[i]));
        if (suits(self, least, out)) return true;
    }
    return false;
}

bool rs_alphabet_guess(const rs_slice *strings, const bool *fits, uint32_t n, rs_alphabet *out) {
    texts self = {strings, fits, n, false, false, {0}};
    uint32_t all = 0, uuids = 0, padded = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (fits != NULL && !fits[i]) continue;
        all++;
        uuids += rs_alphabet_has_hyphens(strings[i]);
        padded += strings[i].ptr != strings[i].end && strings[i].end[-1] == '=';
    }
    const uint32_t most = all - all / 8;
    self.uuid = uuids >= most;
    self.padded = !self.uuid && padded > 0;
    if (all == 0) return false;
    if (choose_known(&self, 0, KNOWN_HEX, most, out)) return true;
    if (self.uuid) return false;
    if (use_own(&self, out) && suits(&self, all, out)) {
        out->even = false;
        return true;
    }
    if (choose_known(&self, KNOWN_HEX, KNOWN, most, out)) return true;
    return fits == NULL && choose_known(&self, 0, KNOWN, all / 4, out);
}
