/* rs_json_bounds.c: scans the text in blocks of 64 bytes. A mask has a bit for each byte of a block. Quotes that are
 * not escaped toggle between string and structure, so the mask of the bytes in strings is the running XOR of the
 * quotes, as in the first stage of simdjson (Langdale and Lemire, "Parsing Gigabytes of JSON per Second", 2019). Only
 * brackets and the commas at depth 1 are then visited one by one. */
#include "write/rs_json_bounds.h"

/* The masks of one block. */
typedef struct json_masks {
    uint64_t quotes, backslashes, brackets, commas;
} json_masks;

uint64_t rs_json_equal_portable(const uint8_t *bytes, uint8_t c) {
    const uint64_t sevens = UINT64_C(0x7F7F7F7F7F7F7F7F), ones = UINT64_C(0x0101010101010101);
    uint64_t mask = 0;
    for (unsigned i = 0; i < RS_JSON_BLOCK; i += 8) {
        const uint64_t x = rs_load_u64(bytes + i) ^ ones * c;
        /* The top bit of a byte of `zero` is set exactly if that byte of x is 0. The product gathers the eight bits. */
        const uint64_t zero = ~(((x & sevens) + sevens) | x | sevens);
        mask |= ((zero >> 7) * UINT64_C(0x0102040810204080) >> 56) << i;
    }
    return mask;
}

#if defined(__SSE2__) && (defined(__GNUC__) || defined(__clang__))
typedef char json_lanes __attribute__((vector_size(16)));

/* As rs_json_equal, for a block in four vectors. */
static inline uint64_t lanes_equal(const json_lanes *lanes, uint8_t c) {
    const char s = (char)c;
    const json_lanes all = {s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s};
    uint64_t mask = 0;
    for (unsigned i = 0; i < 4; i++) {
        mask |= (uint64_t)(uint32_t)__builtin_ia32_pmovmskb128((json_lanes)(lanes[i] == all)) << (16 * i);
    }
    return mask;
}

uint64_t rs_json_equal(const uint8_t *bytes, uint8_t c) {
    json_lanes lanes[4];
    memcpy(lanes, bytes, sizeof lanes);
    return lanes_equal(lanes, c);
}

static inline json_masks masks_of(const uint8_t *bytes) {
    const json_lanes bit = {32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32};
    json_lanes lanes[4];
    json_masks out;
    memcpy(lanes, bytes, sizeof lanes);
    out.quotes = lanes_equal(lanes, '"');
    out.backslashes = lanes_equal(lanes, '\\');
    out.commas = lanes_equal(lanes, ',');
    for (unsigned i = 0; i < 4; i++) lanes[i] |= bit; /* [ and { differ only in this bit, as do ] and } */
    out.brackets = lanes_equal(lanes, '{') | lanes_equal(lanes, '}');
    return out;
}
#else
uint64_t rs_json_equal(const uint8_t *bytes, uint8_t c) { return rs_json_equal_portable(bytes, c); }

static inline json_masks masks_of(const uint8_t *bytes) {
    json_masks out = {.quotes = rs_json_equal_portable(bytes, '"'),
                      .backslashes = rs_json_equal_portable(bytes, '\\'),
                      .commas = rs_json_equal_portable(bytes, ',')};
    out.brackets = rs_json_equal_portable(bytes, '{') | rs_json_equal_portable(bytes, '}') |
                   rs_json_equal_portable(bytes, '[') | rs_json_equal_portable(bytes, ']');
    return out;
}
#endif

/* Returns the mask of the bytes that a backslash escapes in a block of n. Sets self->escaped for the byte after it. */
static uint64_t escaped_bytes(rs_json_bounds *self, uint64_t backslashes, unsigned n) {
    uint64_t escaped = self->escaped;
    backslashes &= ~escaped;
    self->escaped = false;
    while (backslashes != 0) {
        const unsigned next = rs_lowest_bit(backslashes) + 1;
        if (next >= n) {
            self->escaped = true;
            break;
        }
        escaped |= UINT64_C(1) << next;
        backslashes &= backslashes - 1;
        backslashes &= ~(UINT64_C(1) << next);
    }
    return escaped;
}

/* Returns the mask of the bytes within strings, opening quotes included. Sets self->in_string for the next block. */
static inline uint64_t string_bytes(rs_json_bounds *self, uint64_t quotes) {
    for (unsigned shift = 1; shift < 64; shift *= 2) quotes ^= quotes << shift;
    if (self->in_string) quotes = ~quotes;
    self->in_string = quotes >> 63;
    return quotes;
}

/* Adds the commas of a mask, all of them between elements. The caller has reserved room in `ends`. */
static inline void take_commas(rs_json_bounds *self, uint64_t commas, uint64_t base, rs_buffer *ends) {
    for (; commas != 0; commas &= commas - 1) {
        self->n_commas++;
        if (ends != NULL) {
            rs_store_u64(ends->data + ends->size_bytes, base + rs_lowest_bit(commas));
            ends->size_bytes += 8;
        }
    }
}

static rs_status open_bracket(rs_json_bounds *self, bool object, uint64_t at, rs_error *err) {
    const uint64_t bit = UINT64_C(1) << self->depth % 64;
    if (self->depth == RS_JSON_DEPTH) {
        return rs_error_set(err, RS_E_ARG_LIMIT, at, "more than %d brackets are open", RS_JSON_DEPTH);
    }
    uint64_t *word = &self->is_object[self->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    self->depth++;
    return RS_OK;
}

static rs_status close_bracket(rs_json_bounds *self, bool object, uint64_t at, rs_error *err) {
    const uint32_t depth = self->depth - 1;
    if ((self->is_object[depth / 64] >> depth % 64 & 1) != object) {
        return rs_error_set(err, RS_E_FMT_VALUE, at, object ? "} closes a [" : "] closes a {");
    }
    self->depth = depth;
    return RS_OK;
}

/* Scans a block of n bytes, padded with blanks. Sets *used to n, or fewer when the container ends. */
static rs_status scan_block(rs_json_bounds *self, const uint8_t *bytes, unsigned n, uint64_t base, rs_buffer *ends,
                            unsigned *used, rs_error *err) {
    json_masks masks = masks_of(bytes);
    *used = n;
    if (RS_UNLIKELY(masks.backslashes != 0 || self->escaped)) {
        masks.quotes &= ~escaped_bytes(self, masks.backslashes, n);
    }
    uint64_t outside = ~string_bytes(self, masks.quotes);
    masks.brackets &= outside;
    masks.commas &= outside;
    if (ends != NULL) RS_TRY(rs_buffer_reserve(ends, 8 * (RS_JSON_BLOCK + 1), err));
    while (masks.brackets != 0) {
        const unsigned at = rs_lowest_bit(masks.brackets);
        const uint64_t before = (UINT64_C(1) << at) - 1;
        const uint8_t bracket = bytes[at];
        if (self->depth == 1) take_commas(self, masks.commas & before, base, ends);
        masks.commas &= ~before;
        masks.brackets &= masks.brackets - 1;
        if (bracket == '[' || bracket == '{') {
            RS_TRY(open_bracket(self, bracket == '{', base + at, err));
            continue;
        }
        RS_TRY(close_bracket(self, bracket == '}', base + at, err));
        if (self->depth != 0) continue;
        if (ends != NULL) {
            rs_store_u64(ends->data + ends->size_bytes, base + at);
            ends->size_bytes += 8;
        }
        *used = at + 1;
        return RS_OK;
    }
    if (self->depth == 1) take_commas(self, masks.commas, base, ends);
    return RS_OK;
}

static inline bool is_blank(uint8_t c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

void rs_json_bounds_begin(rs_json_bounds *self, bool object) {
    memset(self, 0, sizeof *self);
    self->depth = 1;
    self->is_object[0] = object;
}

rs_status rs_json_bounds_run(rs_json_bounds *self, const uint8_t *bytes, size_t n, rs_buffer *ends, size_t *consumed,
                             rs_error *err) {
    size_t at = 0;
    unsigned used;
    RS_ASSERT(self->depth != 0);
    *consumed = 0;
    if (!self->filled) {
        size_t first = 0;
        while (first < n && is_blank(bytes[first])) first++;
        self->filled = first < n && bytes[first] != ']' && bytes[first] != '}';
    }
    for (; at < n; at += used) {
        if (RS_LIKELY(n - at >= RS_JSON_BLOCK)) {
            RS_TRY(scan_block(self, bytes + at, RS_JSON_BLOCK, at, ends, &used, err));
        } else {
            uint8_t padded[RS_JSON_BLOCK];
            memset(padded, ' ', sizeof padded);
            memcpy(padded, bytes + at, n - at);
            RS_TRY(scan_block(self, padded, (unsigned)(n - at), at, ends, &used, err));
        }
        if (self->depth == 0) {
            at += used;
            break;
        }
    }
    *consumed = at;
    return RS_OK;
}

/* The most digits that always fit 64 bits: 19, since 2^64 > 10^19; of a negative number only 18, since -2^63 >
 * -10^19. */
enum { FITS_UNSIGNED = 19, FITS_SIGNED = 18, HALF = FITS_SIGNED / 2 };

static inline bool is_digit(uint8_t c) { return (uint8_t)(c - '0') <= 9; }

bool rs_json_has_long_int(const uint8_t *bytes, size_t n) {
    size_t at = FITS_SIGNED, end;
    /* A longer run covers one of the positions FITS_SIGNED + 1 apart, so most bytes need not be read. */
    for (; at < n; at += FITS_SIGNED + 1) {
        /* It also covers the byte HALF before or HALF after, so few numbers in a text need a closer look. */
        const size_t after = at + HALF < n ? at + HALF : n - 1;
        if (!(is_digit(bytes[at]) & (is_digit(bytes[at - HALF]) | is_digit(bytes[after])))) continue;
        size_t first = end = at;
        while (first > 0 && is_digit(bytes[first - 1])) first--;
        while (end < n && is_digit(bytes[end])) end++;
        at = end;
        if (first > 0 && bytes[first - 1] == '.') continue;
        if (end - first > FITS_UNSIGNED) return true;
        if (end - first > FITS_SIGNED && first > 0 && bytes[first - 1] == '-') return true;
    }
    return false;
}
