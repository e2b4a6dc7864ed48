/* rs_symbols_train.c: the trainer of symbol tables, and the encoder.
 *
 * Training goes over a sample three times. The first pass is that of OnPair (see rs_symbols.h): it codes the sample
 * with the symbols it has, and two neighbours that were seen together often enough become one more symbol. The second
 * counts how often each symbol is used when all of them are there; those that save less than they take in the table
 * are dropped. The third counts again, which gives the cost, and the order: the most frequent get the short codes. */
#include "rs_symbols_train.h"

#include "rs_symbols_trie.h"

#include <stdlib.h>

enum {
    SAMPLE_BYTES = 1 << 20,
    PIECE_BYTES = 4096,       /* of a long string, so that no single one is the sample */
    CANDIDATES_MAX = 32768,   /* symbols of the first pass */
    PAIR_BITS_MIN = 10,
    PAIR_BITS_MAX = 17,
    PAIR_TAG_BITS = 15,
    ESCAPE = CANDIDATES_MAX   /* the number that stands for it while training */
};

/* A pair of symbols is 32 bits, of which a multiplication by an odd number makes others one to one: the first ones
 * choose the slot, the others are the tag, so a slot tells exactly whose count it is. */
typedef struct pair_slot {
    uint32_t tag;
    uint32_t count;
} pair_slot;

/* Everything that training holds. */
typedef struct trainer {
    unsigned unit_bytes, max_units;
    uint8_t *sample;      /* pieces of strings, one after another */
    uint64_t *piece_ends; /* in units */
    uint64_t n_pieces, n_sampled, n_all;
    rs_trie trie;
    pair_slot *pairs;
    unsigned pair_bits;
    uint32_t threshold;   /* times that a pair was seen before it is a symbol */
    uint8_t *symbols;     /* RS_SYMBOLS_COPY bytes each */
    uint8_t *n_units;     /* 0: dropped */
    uint32_t *ends;       /* nodes of the trie */
    uint32_t *counts;     /* uses in the sample; the escape is the last one */
    uint32_t *places;     /* units before the symbol in the pool */
    uint32_t *order;      /* of the table: candidates, or ESCAPE */
    uint32_t n_symbols, n_kept;
} trainer;

static rs_status no_memory(rs_error *err) {
    return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "out of memory for string symbols");
}

static void trainer_clear(trainer *self) {
    rs_trie_clear(&self->trie);
    free(self->sample);
    free(self->piece_ends);
    free(self->pairs);
    free(self->symbols);
    free(self->n_units);
    free(self->ends);
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

/* A step that visits all n places, far from those just visited: neighbours are alike, and the first pass would spend
 * its symbols on the first of them. */
static uint64_t stride(uint64_t n) {
    uint64_t step = n * 5 / 8 | 1;
    while (common_divisor(n, step) != 1) step += 2;
    return step % n;
}

static rs_status take_sample(trainer *self, const rs_symbol_string *strings, size_t n, rs_error *err) {
    const uint64_t sample_units = SAMPLE_BYTES / self->unit_bytes, piece_units = PIECE_BYTES / self->unit_bytes;
    uint64_t most = 0, step, at = 0, i;
    for (i = 0; i < n; i++) {
        self->n_all += strings[i].n_units;
        most += strings[i].n_units < piece_units ? strings[i].n_units : piece_units;
    }
    if (most > sample_units + piece_units) most = sample_units + piece_units;
    self->sample = (uint8_t *)malloc((size_t)(most * self->unit_bytes + 1));
    self->piece_ends = (uint64_t *)malloc((n < most ? n + 1 : (size_t)most + 1) * sizeof *self->piece_ends);
    if (self->sample == NULL || self->piece_ends == NULL) return no_memory(err);
    if (n == 0) return RS_OK;
    step = stride(n);
    for (i = 0; i < n && self->n_sampled < sample_units; i++) {
        const rs_symbol_string *string = &strings[at];
        uint64_t units = string->n_units < piece_units ? string->n_units : piece_units;
        at = at + step >= n ? at + step - n : at + step;
        if (units == 0) continue;
        memcpy(self->sample + self->n_sampled * self->unit_bytes, string->units, (size_t)(units * self->unit_bytes));
        self->n_sampled += units;
        self->piece_ends[self->n_pieces++] = self->n_sampled;
    }
    return RS_OK;
}

/* ---- The passes ---- */

static rs_status add_symbol(trainer *self, const uint8_t *units, unsigned n, rs_error *err) {
    uint32_t number = self->n_symbols;
    RS_TRY(rs_trie_add(&self->trie, units, n, number, &self->ends[number], err));
    memset(self->symbols + (size_t)number * RS_SYMBOLS_COPY, 0, RS_SYMBOLS_COPY);
    memcpy(self->symbols + (size_t)number * RS_SYMBOLS_COPY, units, n * self->unit_bytes);
    self->n_units[number] = (uint8_t)n;
    self->n_symbols++;
    return RS_OK;
}

/* True when the two were seen together often enough. A pair takes over a slot whose count others have brought down. */
static inline bool count_pair(trainer *self, uint32_t left, uint32_t right) {
    uint32_t mixed = (left << 16 | right) * UINT32_C(0x9E3779B1), tag = mixed & ((UINT32_C(1) << (32 - self->pair_bits)) - 1);
    pair_slot *slot = &self->pairs[mixed >> (32 - self->pair_bits)];
    if (slot->count != 0 && slot->tag == tag) {
        if (++slot->count < self->threshold) return false;
        slot->count = 0;
        return true;
    }
    if (slot->count > 1) {
        slot->count--;
    } else {
        slot->tag = tag, slot->count = 1;
    }
    return false;
}

/* The first pass. */
static inline rs_status find_symbols(trainer *self, unsigned unit_bytes, rs_error *err) {
    const uint8_t *units = self->sample;
    uint64_t piece;
    for (piece = 0; piece < self->n_pieces; piece++) {
        const uint8_t *end = self->sample + self->piece_ends[piece] * unit_bytes;
        uint32_t before = 0;
        unsigned n_before = 0;
        while (units != end) {
            uint32_t best = rs_trie_match(&self->trie, units, (uint64_t)(end - units) / unit_bytes, unit_bytes);
            unsigned n = best & ((1u << RS_TRIE_BEST_BITS) - 1);
            uint32_t number = (best >> RS_TRIE_BEST_BITS) - 1;
            if (RS_UNLIKELY(self->n_symbols == CANDIDATES_MAX)) return RS_OK;
            if (best == 0) {
                number = self->n_symbols, n = 1;
                RS_TRY(add_symbol(self, units, 1, err));
            } else if (n_before < self->max_units && n_before != 0 && count_pair(self, before, number)) {
                /* What is too long for one symbol is cut: the next begins in the middle of the second. */
                if (n > self->max_units - n_before) n = self->max_units - n_before;
                number = self->n_symbols;
                RS_TRY(add_symbol(self, units - n_before * unit_bytes, n_before + n, err));
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

static inline void count_uses(trainer *self, unsigned unit_bytes) {
    const uint8_t *units = self->sample;
    uint64_t piece;
    rs_trie_settle(&self->trie, self->ends, self->n_units, self->n_symbols);
    memset(self->counts, 0, (ESCAPE + 1) * sizeof *self->counts);
    for (piece = 0; piece < self->n_pieces; piece++) {
        const uint8_t *end = self->sample + self->piece_ends[piece] * unit_bytes;
        while (units != end) {
            uint32_t best = rs_trie_match(&self->trie, units, (uint64_t)(end - units) / unit_bytes, unit_bytes);
            if (RS_UNLIKELY(best == 0)) {
                self->counts[ESCAPE]++;
                units += unit_bytes;
            } else {
                self->counts[(best >> RS_TRIE_BEST_BITS) - 1]++;
                units += (best & ((1u << RS_TRIE_BEST_BITS) - 1)) * unit_bytes;
            }
        }
    }
}

/* Drops what saves less than it takes: where a symbol is missing, two others stand for it, one byte or two longer. */
static void drop_symbols(trainer *self) {
    double scale = (double)self->n_all / (double)self->n_sampled;
    uint32_t i;
    for (i = 0; i < self->n_symbols; i++) {
        unsigned n = self->n_units[i];
        double saved = scale * self->counts[i] * (n == 1 ? self->unit_bytes : 1.5);
        double taken = RS_SYMBOLS_ENTRY + (n == 1 ? 0.5 : 0.5 * n) * self->unit_bytes + 1;
        if (saved < taken || (n > 1 && self->counts[i] < 2)) self->n_units[i] = 0;
    }
}

/* ---- The table ---- */

static int descending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Puts symbols and escape in order of their uses, the earlier first among equals; *coded_bytes: of the sample. */
static rs_status order_symbols(trainer *self, uint32_t *n_short, uint64_t *coded_bytes, rs_error *err) {
    uint64_t *keys = (uint64_t *)malloc((self->n_symbols + 1) * sizeof *keys);
    uint32_t i, n = 0;
    if (keys == NULL) return no_memory(err);
    for (i = 0; i < self->n_symbols; i++) {
        if (self->n_units[i] != 0) keys[n++] = (uint64_t)self->counts[i] << 32 | (UINT32_MAX - i);
    }
    keys[n++] = (uint64_t)self->counts[ESCAPE] << 32 | (UINT32_MAX - ESCAPE);
    qsort(keys, n, sizeof *keys, descending);
    *n_short = (RS_SYMBOLS_MAX - n) / 255 < 256 ? (RS_SYMBOLS_MAX - n) / 255 : 256;
    *coded_bytes = (uint64_t)self->counts[ESCAPE] * self->unit_bytes;
    for (i = 0; i < n; i++) {
        self->order[i] = UINT32_MAX - (uint32_t)keys[i];
        *coded_bytes += (keys[i] >> 32) * (i < *n_short ? 1 : 2);
    }
    self->n_kept = n;
    free(keys);
    return RS_OK;
}

/* Notes where in the pool the symbols are that occur within one that lies there. */
static void place_within(trainer *self, const uint8_t *units, unsigned n, uint32_t place) {
    unsigned from;
    for (from = 0; from < n; from++) {
        unsigned left = n - from;
        while (left > 0) {
            uint32_t best = rs_trie_match(&self->trie, units + from * self->unit_bytes, left, self->unit_bytes);
            uint32_t number = (best >> RS_TRIE_BEST_BITS) - 1;
            if (best == 0) break;
            if (self->places[number] == UINT32_MAX) self->places[number] = place + from;
            left = (best & ((1u << RS_TRIE_BEST_BITS) - 1)) - 1;
        }
    }
}

/* Appends the pool, the longest symbols first: others are often a part of them, and take no room then. */
static rs_status write_pool(trainer *self, rs_buffer *out, rs_error *err) {
    uint32_t place = 0, i;
    unsigned length;
    for (i = 0; i < self->n_symbols; i++) self->places[i] = UINT32_MAX;
    for (length = self->max_units; length > 0; length--) {
        for (i = 0; i < self->n_kept; i++) {
            uint32_t number = self->order[i];
            const uint8_t *units = self->symbols + (size_t)number * RS_SYMBOLS_COPY;
            if (number == ESCAPE || self->n_units[number] != length || self->places[number] != UINT32_MAX) continue;
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
    uint32_t i;
    head[0] = (uint8_t)self->unit_bytes;
    rs_store_u16(head + 2, (uint16_t)n_short);
    rs_store_u32(head + 4, self->n_kept);
    if (status == RS_OK) {
        status = rs_buffer_reserve(out, RS_SYMBOLS_HEAD + (size_t)RS_SYMBOLS_ENTRY * self->n_kept + pool.size_bytes, err);
    }
    if (status == RS_OK) status = rs_buffer_append(out, head, sizeof head, err);
    for (i = 0; i < self->n_kept && status == RS_OK; i++) {
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
    self->pairs = (pair_slot *)calloc((size_t)1 << self->pair_bits, sizeof *self->pairs);
    self->symbols = (uint8_t *)malloc((size_t)(candidates + 1) * RS_SYMBOLS_COPY);
    self->n_units = (uint8_t *)malloc((size_t)candidates + 1);
    self->ends = (uint32_t *)malloc((size_t)(candidates + 1) * sizeof *self->ends);
    self->counts = (uint32_t *)malloc((ESCAPE + 1) * sizeof *self->counts);
    self->places = (uint32_t *)malloc((size_t)(candidates + 1) * sizeof *self->places);
    self->order = (uint32_t *)malloc((size_t)(candidates + 1) * sizeof *self->order);
    if (self->pairs == NULL || self->symbols == NULL || self->n_units == NULL || self->ends == NULL ||
        self->counts == NULL || self->places == NULL || self->order == NULL) {
        return no_memory(err);
    }
    return rs_trie_init(&self->trie, self->unit_bytes, err);
}

/* With unit_bytes a constant in each branch, the passes are compiled for both. */
static rs_status run_passes(trainer *self, rs_error *err) {
    if (self->unit_bytes == 1) {
        RS_TRY(find_symbols(self, 1, err));
        count_uses(self, 1);
        drop_symbols(self);
        count_uses(self, 1);
    } else {
        RS_TRY(find_symbols(self, 2, err));
        count_uses(self, 2);
        drop_symbols(self);
        count_uses(self, 2);
    }
    return RS_OK;
}

static rs_status train(trainer *self, const rs_symbol_string *strings, size_t n, rs_buffer *out, uint64_t *coded_bytes,
                       rs_error *err) {
    size_t before = out->size_bytes;
    uint32_t n_short = 0;
    uint64_t coded = 0;
    RS_TRY(take_sample(self, strings, n, err));
    RS_TRY(trainer_init(self, err));
    RS_TRY(run_passes(self, err));
    RS_TRY(order_symbols(self, &n_short, &coded, err));
    RS_TRY(write_table(self, n_short, out, err));
    if (self->n_sampled != 0) coded = (uint64_t)((double)coded * ((double)self->n_all / (double)self->n_sampled));
    if (coded_bytes != NULL) *coded_bytes = coded;
    if (coded + (out->size_bytes - before) >= self->n_all * self->unit_bytes) {
        out->size_bytes = before;
        return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "a symbol table would not make these strings smaller");
    }
    return RS_OK;
}

rs_status rs_symbols_train(const rs_symbol_string *strings, size_t n, unsigned unit_bytes, rs_buffer *table_out,
                           uint64_t *coded_bytes, rs_error *err) {
    size_t before = table_out->size_bytes;
    trainer self;
    rs_status status;
    RS_ASSERT(unit_bytes == 1 || unit_bytes == 2);
    memset(&self, 0, sizeof self);
    self.unit_bytes = unit_bytes;
    self.max_units = rs_symbols_max_units(unit_bytes);
    self.threshold = 4;
    status = train(&self, strings, n, table_out, coded_bytes, err);
    if (status != RS_OK) table_out->size_bytes = before;
    trainer_clear(&self);
    return status;
}

/* ---- The encoder ---- */

struct rs_symbols_encoder {
    rs_trie trie;
    uint32_t n_short;
    uint32_t escape;
};

static rs_status fill_trie(rs_symbols_encoder *self, const rs_symbols *symbols, rs_error *err) {
    uint32_t *ends = (uint32_t *)malloc((symbols->n_symbols + 1) * sizeof *ends), i;
    uint8_t *n_units = (uint8_t *)malloc(symbols->n_symbols + 1);
    rs_status status = ends == NULL || n_units == NULL ? no_memory(err) : RS_OK;
    self->escape = UINT32_MAX;
    for (i = 0; i < symbols->n_symbols && status == RS_OK; i++) {
        uint32_t entry = rs_symbols_entry_unchecked(symbols, i);
        n_units[i] = entry & ((1u << RS_SYMBOLS_LENGTH_BITS) - 1);
        ends[i] = 0;
        if (n_units[i] == 0) {
            if (self->escape == UINT32_MAX) self->escape = i;
        } else {
            const uint8_t *units = symbols->pool + (size_t)(entry >> RS_SYMBOLS_LENGTH_BITS) * symbols->unit_bytes;
            status = rs_trie_add(&self->trie, units, n_units[i], i, &ends[i], err);
        }
    }
    if (status == RS_OK && self->escape == UINT32_MAX) {
        status = rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "a symbol table without an escape");
    }
    if (status == RS_OK) rs_trie_settle(&self->trie, ends, n_units, symbols->n_symbols);
    free(ends);
    free(n_units);
    return status;
}

rs_status rs_symbols_encoder_open(rs_slice table, rs_symbols_encoder **out, rs_error *err) {
    rs_symbols symbols;
    rs_symbols_encoder *self;
    rs_status status;
    RS_TRY(rs_symbols_open(table, &symbols, err));
    self = (rs_symbols_encoder *)calloc(1, sizeof *self);
    if (self == NULL) return no_memory(err);
    self->n_short = symbols.n_short;
    status = rs_trie_init(&self->trie, symbols.unit_bytes, err);
    if (status == RS_OK) status = fill_trie(self, &symbols, err);
    if (status != RS_OK) {
        rs_symbols_encoder_close(self);
        return status;
    }
    *out = self;
    return RS_OK;
}

void rs_symbols_encoder_close(rs_symbols_encoder *self) {
    if (self == NULL) return;
    rs_trie_clear(&self->trie);
    free(self);
}

/* Writes the code of a symbol; both bytes are there to be written. */
static inline uint8_t *put_code(uint8_t *p, uint32_t number, uint32_t n_short) {
    uint32_t high = (number - n_short) >> 8;
    p[0] = (uint8_t)(number < n_short ? number : n_short + high);
    p[1] = (uint8_t)(number - n_short);
    return p + (number < n_short ? 1 : 2);
}

static inline uint8_t *encode_units(const rs_symbols_encoder *self, const uint8_t *units, uint64_t n, uint8_t *p,
                                    unsigned unit_bytes) {
    while (n > 0) {
        uint32_t best = rs_trie_match(&self->trie, units, n, unit_bytes);
        unsigned length = best & ((1u << RS_TRIE_BEST_BITS) - 1);
        if (RS_UNLIKELY(best == 0)) {
            p = put_code(p, self->escape, self->n_short);
            memcpy(p, units, unit_bytes);
            p += unit_bytes;
            length = 1;
        } else {
            p = put_code(p, (best >> RS_TRIE_BEST_BITS) - 1, self->n_short);
        }
        units += length * unit_bytes;
        n -= length;
    }
    return p;
}

rs_status rs_symbols_encode(const rs_symbols_encoder *self, const uint8_t *units, uint64_t n_units, rs_buffer *out,
                            rs_error *err) {
    unsigned unit_bytes = self->trie.unit_bytes;
    uint64_t most;
    uint8_t *begin, *end;
    if (rs_mul_overflows(n_units, 2 + unit_bytes, &most)) return no_memory(err);
    if (most == 0) return RS_OK;
    RS_TRY(rs_buffer_reserve(out, (size_t)most, err));
    begin = out->data + out->size_bytes;
    end = unit_bytes == 1 ? encode_units(self, units, n_units, begin, 1) : encode_units(self, units, n_units, begin, 2);
    out->size_bytes += (size_t)(end - begin);
    return RS_OK;
}

uint64_t rs_symbols_encoded_size(const rs_symbols_encoder *self, const uint8_t *units, uint64_t n_units) {
    unsigned unit_bytes = self->trie.unit_bytes;
    uint64_t size = 0;
    while (n_units > 0) {
        uint32_t best = rs_trie_match(&self->trie, units, n_units, unit_bytes);
        uint32_t length = best & ((1u << RS_TRIE_BEST_BITS) - 1), number = (best >> RS_TRIE_BEST_BITS) - 1;
        if (best == 0) length = 1, number = self->escape, size += unit_bytes;
        size += number < self->n_short ? 1 : 2;
        units += length * unit_bytes;
        n_units -= length;
    }
    return size;
}
