/* rs_symbols_train.c: trains symbol tables.
 *
 * Training reads a sample twice. The first pass comes from OnPair (see rs_symbols.h): it codes the sample with the
 * symbols so far, and two neighbours that occur together often enough become a new symbol. The second pass counts
 * the uses of each symbol when all are available. Symbols that save less than they take in the table are dropped, and
 * their uses become uses of their parts. The counts also give the cost and the order: the most frequent symbols get the
 * short codes. */
#include "symbols/rs_symbols_train.h"

#include "symbols/rs_symbols_match.h"

#include <stdlib.h>

enum {
    SAMPLE_BYTES = 1 << 20,       /* the most bytes of a sample */
    SAMPLE_BYTES_LEAST = 1 << 17, /* the fewest bytes of a sample, if there are enough */
    SAMPLE_PART_SMALL = 4,        /* within these limits, 1/4 of all bytes for a small table */
    SAMPLE_PART = 8,              /* 1/8 of all bytes for other tables */
    EXCERPT_BYTES = 4096,         /* of a string at a time, so that a long string is not the whole sample */
    EXCERPTS = SAMPLE_BYTES / EXCERPT_BYTES,
    CANDIDATES_MAX = 32768, /* the most symbols of the first pass */
    PAIR_BITS_MIN = 10,     /* binary logarithms of the size of the table of pairs */
    PAIR_BITS_MAX = 17,
    PAIR_COUNT_BITS = 2,
    PAIR_TAG_BITS = 16 - PAIR_COUNT_BITS,
    PAIR_THRESHOLD = 3,     /* the occurrences after which a pair becomes a symbol */
    SHORT_CODES = 250,      /* about the number of short codes of a table */
    COUNTED_USES = 4096,    /* more uses always give a short code */
    ESCAPE = CANDIDATES_MAX /* the number of the escape during training */
};

#define NO_PART UINT32_MAX /* a symbol of one unit, or the second part of a truncated pair */

/* The numbers of the two symbols in a symbol, or NO_PART. */
typedef struct parts {
    uint32_t left, right;
} parts;

/* The state of a training. */
typedef struct trainer {
    unsigned unit_bytes, max_units;
    unsigned sample_part;   /* SAMPLE_PART or SAMPLE_PART_SMALL */
    uint8_t *sample;        /* excerpts of strings, one after another */
    uint64_t *excerpt_ends; /* in units */
    uint64_t n_excerpts;
    uint64_t n_sampled, n_all; /* units of the sample, and of all strings */
    rs_matcher matcher;        /* finds symbols */
    uint16_t *pairs;           /* hash table of pairs: a tag and a count of PAIR_COUNT_BITS in each slot */
    unsigned pair_bits;
    uint8_t *n_units;           /* units of each symbol; 0 if it was dropped */
    parts *parts;               /* of each symbol */
    uint32_t *counts;           /* uses of each symbol in the sample, and of the escape (counts[ESCAPE]) */
    uint32_t *places;           /* the offset of each symbol in the pool, in units */
    uint32_t *order;            /* the symbols of the table in its order: numbers of candidates, or ESCAPE */
    uint32_t n_symbols, n_kept; /* number of candidates, and of symbols of the table */
} trainer;

static void trainer_clear(trainer *self) {
    rs_matcher_clear(&self->matcher);
    free(self->sample);
    free(self->excerpt_ends);
    free(self->pairs);
    free(self->n_units);
    free(self->parts);
    free(self->counts);
    free(self->places);
    free(self->order);
}

/* ---- The sample ---- */

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* Returns a step that visits all n strings, each far from earlier ones: neighbours are often similar, so a small sample
 * should have strings from everywhere. Multiples of the golden ratio are spread most evenly, so the step is near 0.618
 * n and coprime to n. n is below 2^48. */
static uint64_t stride(uint64_t n) {
    uint64_t step = n * 40503 / 65536 | 1;
    while (common_divisor(n, step) != 1) step += 2;
    return step % n;
}

/* Adds excerpt number `round` of a string to the sample. The `rounds` excerpts of a long string are spread over it.
 * Returns false if the string is too short for that excerpt. */
static bool take_excerpt(trainer *self, const rs_symbol_string *string, uint64_t round, uint64_t rounds) {
    const uint64_t excerpt_units = EXCERPT_BYTES / self->unit_bytes, n = string->n_units / excerpt_units;
    uint64_t first = round * (n / rounds ? n / rounds : 1) * excerpt_units;
    if (first >= string->n_units) return false;
    uint64_t units = string->n_units - first < excerpt_units ? string->n_units - first : excerpt_units;
    memcpy(self->sample + self->n_sampled * self->unit_bytes, string->units + first * self->unit_bytes,
           (size_t)(units * self->unit_bytes));
    self->n_sampled += units;
    self->excerpt_ends[self->n_excerpts++] = self->n_sampled;
    return true;
}

/* Returns how many bytes to sample, which may exceed all_bytes. A smaller sample makes training faster and the table
 * smaller, as suits a short text. */
static uint64_t sample_size(const trainer *self, uint64_t all_bytes) {
    uint64_t part = all_bytes / self->sample_part;
    return part < SAMPLE_BYTES_LEAST ? SAMPLE_BYTES_LEAST : part > SAMPLE_BYTES ? SAMPLE_BYTES : part;
}

static rs_status take_sample(trainer *self, const rs_symbol_string *strings, size_t n, rs_error *err) {
    const uint64_t excerpt_units = EXCERPT_BYTES / self->unit_bytes;
    bool more = n > 0;
    for (uint64_t i = 0; i < n; i++) self->n_all += strings[i].n_units;
    uint64_t sample_units = sample_size(self, self->n_all * self->unit_bytes) / self->unit_bytes;
    uint64_t capacity = self->n_all < sample_units + excerpt_units ? self->n_all : sample_units + excerpt_units;
    self->sample = (uint8_t *)malloc((size_t)(capacity * self->unit_bytes) + RS_SYMBOLS_COPY);
    /* Bounds the number of excerpts: no excerpt is empty, and at most two of each string are not full. */
    size_t n_ends = n < capacity / 2 ? 2 * n + EXCERPTS + 1 : (size_t)capacity + 1;
    self->excerpt_ends = (uint64_t *)malloc(n_ends * sizeof(uint64_t));
    if (self->sample == NULL || self->excerpt_ends == NULL) return rs_no_memory(err);
    uint64_t step = n > 0 ? stride(n) : 0;
    uint64_t rounds = sample_units / excerpt_units;
    for (uint64_t round = 0; round < rounds && more; round++) {
        uint64_t at = 0;
        more = false;
        for (uint64_t i = 0; i < n && self->n_sampled < sample_units; i++) {
            if (take_excerpt(self, &strings[at], round, rounds)) more = true;
            at = at + step >= n ? at + step - n : at + step;
        }
    }
    memset(self->sample + self->n_sampled * self->unit_bytes, 0, RS_SYMBOLS_COPY);
    return RS_OK;
}

/* ---- The two passes ---- */

static rs_status add_symbol(trainer *self, const uint8_t *units, unsigned n, uint32_t left, uint32_t right,
                            rs_error *err) {
    const parts made_of = {left, right};
    uint32_t number = self->n_symbols;
    RS_TRY(rs_matcher_add(&self->matcher, units, n, err));
    self->n_units[number] = (uint8_t)n;
    self->parts[number] = made_of;
    self->n_symbols++;
    return RS_OK;
}

/* Counts a pair of symbols, and returns whether it has occurred often enough. Other pairs with the same slot lower its
 * count, and take the slot when the count is at its lowest.
 *
 * The 32 bits of a pair are multiplied by an odd number. The high bits of the product choose the slot and the next bits
 * are the tag. Two pairs with the same slot and tag are rare, and count as one: small slots matter more, because
 * waiting for the slot takes a quarter of the time of training. */
static inline bool count_pair(trainer *self, uint32_t left, uint32_t right) {
    const uint32_t mixed = (left << 16 | right) * UINT32_C(0x9E3779B1);
    const uint32_t tag = mixed << self->pair_bits >> (32 - PAIR_TAG_BITS);
    const uint32_t count_mask = (1u << PAIR_COUNT_BITS) - 1;
    uint16_t *slot = &self->pairs[mixed >> (32 - self->pair_bits)];
    const uint32_t found = *slot, count = found & count_mask;
    if (count != 0 && found >> PAIR_COUNT_BITS == tag) {
        *slot = (uint16_t)(count + 1 < PAIR_THRESHOLD ? found + 1 : 0);
        return count + 1 == PAIR_THRESHOLD;
    }
    *slot = (uint16_t)(count > 1 ? found - 1 : tag << PAIR_COUNT_BITS | 1);
    return false;
}

/* Finds the longest symbol at the beginning of the `left` bytes at p. RS_SYMBOLS_COPY bytes after them are readable. */
static inline rs_match find_in(const rs_matcher *matcher, const uint8_t *p, uint64_t left, unsigned unit_bytes) {
    return rs_matcher_find(matcher, p, left >= 16 ? 16 : (unsigned)left, unit_bytes);
}

/* The first pass. unit_bytes is the trainer's; callers pass a constant, so that the compiler makes a faster
 * copy of the function for each size. */
static inline rs_status find_symbols(trainer *self, unsigned unit_bytes, rs_error *err) {
    const uint8_t *units = self->sample;
    for (uint64_t excerpt = 0; excerpt < self->n_excerpts; excerpt++) {
        const uint8_t *end = self->sample + self->excerpt_ends[excerpt] * unit_bytes;
        uint32_t before = 0;
        unsigned n_before = 0;
        while (units != end) {
            const rs_match best = find_in(&self->matcher, units, (uint64_t)(end - units), unit_bytes);
            unsigned n = best.bytes / unit_bytes;
            uint32_t number = best.number;
            if (RS_UNLIKELY(self->n_symbols == CANDIDATES_MAX)) return RS_OK;
            if (n == 0) {
                number = self->n_symbols, n = 1;
                RS_TRY(add_symbol(self, units, 1, NO_PART, NO_PART, err));
            } else if (n_before < self->max_units && n_before != 0 && count_pair(self, before, number)) {
                uint32_t right = number;
                /* A pair that is too long is truncated: the next match begins within its second symbol. */
                if (n > self->max_units - n_before) n = self->max_units - n_before, right = NO_PART;
                number = self->n_symbols;
                RS_TRY(add_symbol(self, units - n_before * unit_bytes, n_before + n, before, right, err));
                units += n * unit_bytes;
                n_before += n, before = number;
                continue;
            }
            units += n * unit_bytes;
            n_before = n, before = number;
        }
    }
    return RS_OK;
}

/* The second pass counts how often each symbol is used when the sample is coded with all of them. */
static inline void count_uses(trainer *self, unsigned unit_bytes) {
    const uint8_t *p = self->sample;
    memset(self->counts, 0, self->n_symbols * sizeof *self->counts);
    self->counts[ESCAPE] = 0;
    for (uint64_t excerpt = 0; excerpt < self->n_excerpts; excerpt++) {
        const uint8_t *end = self->sample + self->excerpt_ends[excerpt] * unit_bytes;
        while (p != end) {
            const rs_match match = find_in(&self->matcher, p, (uint64_t)(end - p), unit_bytes);
            self->counts[match.bytes == 0 ? ESCAPE : match.number]++;
            p += match.bytes == 0 ? unit_bytes : match.bytes;
        }
    }
}

/* Returns the least number of uses with which a symbol is likely to get a short code. */
static uint32_t short_uses(const trainer *self) {
    uint32_t n_with[COUNTED_USES] = {0}, uses = COUNTED_USES, n = 0;
    for (uint32_t i = 0; i < self->n_symbols; i++) {
        n_with[self->counts[i] < COUNTED_USES ? self->counts[i] : COUNTED_USES - 1]++;
    }
    while (uses > 1 && n + n_with[uses - 1] <= SHORT_CODES) n += n_with[--uses];
    return uses;
}

/* Returns whether a symbol saves at least as many bytes as it takes. Without it, its two parts replace it; or, for a
 * symbol of one unit, the escape and the unit. A symbol of at least `least` uses has a short code. Each use counts as
 * at least a quarter of a byte, because one code is read faster than two. */
static bool is_worthwhile(const trainer *self, uint32_t number, uint32_t least) {
    const double scale = (double)self->n_all / (double)self->n_sampled;
    const parts *of = &self->parts[number];
    unsigned n = self->n_units[number];
    double each = self->unit_bytes;
    if (n > 1) {
        int bytes = 2 + (self->counts[number] >= least) - (self->counts[of->left] >= least);
        bytes -= of->right == NO_PART || self->counts[of->right] >= least;
        each = bytes > 0 ? bytes : 0.25;
    }
    double saved = scale * self->counts[number] * each;
    double taken = (double)RS_SYMBOLS_ENTRY + (n == 1 ? 0.5 : 0.5 * n) * self->unit_bytes + 1;
    return saved >= taken && (n == 1 || self->counts[number] >= 2);
}

/* Drops symbols that do not save bytes, the newest first, so that all uses of a part are known when its turn comes. */
static void drop_symbols(trainer *self) {
    const uint32_t uses = short_uses(self);
    for (uint32_t i = self->n_symbols; i-- > 0;) {
        const parts *of = &self->parts[i];
        if (is_worthwhile(self, i, uses)) continue;
        self->n_units[i] = 0;
        self->counts[of->left == NO_PART ? ESCAPE : of->left] += self->counts[i];
        if (of->right != NO_PART) self->counts[of->right] += self->counts[i];
        self->counts[i] = 0;
    }
}

/* ---- The table ---- */

static int descending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Sorts symbols and escape by their number of uses, the most used first. Ties keep their order. Sets *n_short to the
 * number of short codes, and *coded_bytes to the bytes of the coded sample. */
static rs_status order_symbols(trainer *self, uint32_t *n_short, uint64_t *coded_bytes, rs_error *err) {
    uint64_t *keys = (uint64_t *)malloc((self->n_symbols + 1) * sizeof *keys);
    uint32_t n = 0;
    if (keys == NULL) return rs_no_memory(err);
    for (uint32_t i = 0; i < self->n_symbols; i++) {
        if (self->n_units[i] != 0) keys[n++] = (uint64_t)self->counts[i] << 32 | (UINT32_MAX - i);
    }
    keys[n++] = (uint64_t)self->counts[ESCAPE] << 32 | (UINT32_MAX - ESCAPE);
    qsort(keys, n, sizeof *keys, descending);
    *n_short = (RS_SYMBOLS_MAX - n) / 255 < 256 ? (RS_SYMBOLS_MAX - n) / 255 : 256;
    *coded_bytes = (uint64_t)self->counts[ESCAPE] * self->unit_bytes;
    for (uint32_t i = 0; i < n; i++) {
        self->order[i] = UINT32_MAX - (uint32_t)keys[i];
        *coded_bytes += (keys[i] >> 32) * (i < *n_short ? 1 : 2);
    }
    self->n_kept = n;
    free(keys);
    return RS_OK;
}

/* Records the place of each symbol that occurs within a symbol at `place` in the pool. */
static void place_within(trainer *self, const uint8_t *units, unsigned n, uint32_t place) {
    uint8_t padded[2 * RS_SYMBOLS_COPY] = {0};
    rs_match found[RS_MATCH_ALL];
    memcpy(padded, units, RS_SYMBOLS_COPY);
    for (unsigned from = 0; from < n; from++) {
        uint32_t n_found = rs_matcher_find_some(&self->matcher, padded + from * self->unit_bytes,
                                                (n - from) * self->unit_bytes, self->unit_bytes, RS_MATCH_ALL, found);
        for (uint32_t i = 0; i < n_found; i++) {
            uint32_t *at = &self->places[found[i].number];
            if (*at == UINT32_MAX) *at = place + from;
        }
    }
}

/* Appends the pool, the longest symbols first. Shorter symbols that occur within them take no more room. */
static rs_status write_pool(trainer *self, rs_buffer *out, rs_error *err) {
    uint32_t place = 0;
    for (uint32_t i = 0; i < self->n_symbols; i++) self->places[i] = UINT32_MAX;
    for (unsigned length = self->max_units; length > 0; length--) {
        for (uint32_t i = 0; i < self->n_kept; i++) {
            uint32_t number = self->order[i];
            const uint8_t *units = self->matcher.symbols + (size_t)number * RS_SYMBOLS_COPY;
            if (number == ESCAPE || self->n_units[number] != length || self->places[number] != UINT32_MAX) continue;
            self->places[number] = place;
            place_within(self, units, length, place);
            RS_TRY(rs_buffer_append(out, units, length * self->unit_bytes, err));
            place += length;
        }
    }
    return rs_buffer_append_zeros(out, RS_SYMBOLS_COPY, err);
}

static rs_status write_table(trainer *self, uint32_t n_short, rs_buffer *out, rs_error *err) {
    uint8_t head[RS_SYMBOLS_HEAD] = {0};
    rs_buffer pool = {0};
    rs_status status = write_pool(self, &pool, err);
    head[0] = (uint8_t)self->unit_bytes;
    rs_store_u16(head + 2, (uint16_t)n_short);
    rs_store_u32(head + 4, self->n_kept);
    if (status == RS_OK) status = rs_buffer_append(out, head, sizeof head, err);
    for (uint32_t i = 0; i < self->n_kept && status == RS_OK; i++) {
        uint32_t number = self->order[i], entry = 0;
        uint8_t bytes[4];
        if (number != ESCAPE) entry = self->places[number] << RS_SYMBOLS_LENGTH_BITS | self->n_units[number];
        rs_store_u32(bytes, entry);
        status = rs_buffer_append(out, bytes, RS_SYMBOLS_ENTRY, err);
    }
    if (status == RS_OK) status = rs_buffer_append(out, pool.data, pool.size_bytes, err);
    rs_buffer_clear(&pool);
    return status;
}

/* ---- Training ---- */

static rs_status trainer_init(trainer *self, rs_error *err) {
    uint64_t candidates = self->n_sampled < CANDIDATES_MAX ? self->n_sampled : CANDIDATES_MAX;
    self->pair_bits = PAIR_BITS_MIN;
    while (self->pair_bits < PAIR_BITS_MAX && (uint64_t)1 << self->pair_bits < self->n_sampled) self->pair_bits++;
    self->pairs = (uint16_t *)calloc((size_t)1 << self->pair_bits, sizeof *self->pairs);
    self->n_units = (uint8_t *)malloc((size_t)candidates + 1);
    self->parts = (parts *)malloc((size_t)(candidates + 1) * sizeof *self->parts);
    self->counts = (uint32_t *)malloc((ESCAPE + 1) * sizeof *self->counts);
    self->places = (uint32_t *)malloc((size_t)(candidates + 1) * sizeof *self->places);
    self->order = (uint32_t *)malloc((size_t)(candidates + 1) * sizeof *self->order);
    if (self->pairs == NULL || self->n_units == NULL || self->parts == NULL || self->counts == NULL ||
        self->places == NULL || self->order == NULL) {
        return rs_no_memory(err);
    }
    return rs_matcher_init(&self->matcher, self->unit_bytes, 0, err);
}

static rs_status train(trainer *self, const rs_symbol_string *strings, size_t n, unsigned plain_bytes, rs_buffer *out,
                       uint64_t *coded_bytes, rs_error *err) {
    size_t before = out->size_bytes;
    uint32_t n_short = 0;
    uint64_t coded = 0;
    RS_TRY(take_sample(self, strings, n, err));
    RS_TRY(trainer_init(self, err));
    if (self->unit_bytes == 1) {
        RS_TRY(find_symbols(self, 1, err));
        count_uses(self, 1);
    } else {
        RS_TRY(find_symbols(self, 2, err));
        count_uses(self, 2);
    }
    drop_symbols(self);
    RS_TRY(order_symbols(self, &n_short, &coded, err));
    RS_TRY(write_table(self, n_short, out, err));
    if (self->n_sampled != 0) coded = (uint64_t)((double)coded * ((double)self->n_all / (double)self->n_sampled));
    if (coded_bytes != NULL) *coded_bytes = coded;
    if (coded + (out->size_bytes - before) >= self->n_all * plain_bytes) {
        out->size_bytes = before;
        return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "a symbol table would not make these strings smaller");
    }
    return RS_OK;
}

rs_status rs_symbols_train(const rs_symbol_string *strings, size_t n, unsigned unit_bytes, bool small,
                           rs_buffer *table_out, uint64_t *coded_bytes, rs_error *err) {
    size_t before = table_out->size_bytes;
    RS_ASSERT(unit_bytes == 1 || unit_bytes == 2 || unit_bytes == 4);
    trainer self = {0};
    self.unit_bytes = unit_bytes == 1 ? 1 : 2;
    self.max_units = rs_symbols_max_units(self.unit_bytes);
    self.sample_part = small ? SAMPLE_PART_SMALL : SAMPLE_PART;
    rs_status status = train(&self, strings, n, unit_bytes, table_out, coded_bytes, err);
    if (status != RS_OK) table_out->size_bytes = before;
    trainer_clear(&self);
    return status;
}
