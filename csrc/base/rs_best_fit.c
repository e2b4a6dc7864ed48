/* rs_best_fit.c: best-fit decreasing in constant time per document. Rows are listed by their room, in up to 65,536
 * buckets; a bitmap of two levels finds the next bucket that has a row. Rows of up to 65,535 tokens have a bucket for
 * each number of tokens, so the fit is the best one; for longer rows it is the best one within a bucket. */
#include "base/rs_best_fit.h"

#include <stdlib.h>

enum { MAX_BUCKETS = 1 << 16, WORDS = MAX_BUCKETS / 64, DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };
#define NONE UINT32_MAX

typedef struct part {
    uint32_t document, row;
    int64_t start;
    uint32_t count;
} part;

typedef struct packer {
    uint64_t rows, length;
    uint64_t opened; /* the rows that have a part */
    uint64_t n_parts;
    part *parts;                 /* room for n + rows */
    uint32_t *rests;             /* of each document: its tokens after full rows */
    uint32_t *order, *swap;      /* room for n + rows each: documents, later parts */
    uint32_t *room, *next;       /* of each row: its free tokens, and the next row of its bucket */
    uint32_t *heads;             /* the first row of each bucket */
    unsigned shift;              /* a row with room r is in bucket r >> shift */
    uint64_t words[WORDS];       /* a bit for each bucket that has a row */
    uint64_t groups[WORDS / 64]; /* a bit for each word that is not 0 */
} packer;

static void close_packer(packer *self) {
    free(self->parts);
    free(self->rests);
    free(self->order);
    free(self->swap);
    free(self->room);
    free(self->next);
    free(self->heads);
}

/* Allocates for n documents. On failure nothing is left. */
static rs_status open_packer(packer *self, uint64_t n, rs_error *err) {
    const size_t most = (size_t)(n + self->rows), rows = (size_t)self->rows;
    while (self->length >> self->shift >= MAX_BUCKETS) self->shift++;
    const size_t buckets = (size_t)(self->length >> self->shift) + 1;
    self->parts = (part *)malloc((most + 1) * sizeof *self->parts);
    self->rests = (uint32_t *)malloc(((size_t)n + 1) * 4);
    self->order = (uint32_t *)malloc((most + 1) * 4);
    self->swap = (uint32_t *)malloc((most + 1) * 4);
    self->room = (uint32_t *)malloc((rows + 1) * 4);
    self->next = (uint32_t *)malloc((rows + 1) * 4);
    self->heads = (uint32_t *)malloc(buckets * 4);
    if (self->parts == NULL || self->rests == NULL || self->order == NULL || self->swap == NULL || self->room == NULL ||
        self->next == NULL || self->heads == NULL) {
        close_packer(self);
        return rs_no_memory(err);
    }
    memset(self->heads, 0xff, buckets * 4);
    return RS_OK;
}

/* ---- Rows by their room ---- */

/* The first bucket, from `bucket` on, that has a row; NONE if there is none. */
static uint32_t bucket_from(const packer *self, uint32_t bucket) {
    if (bucket >= MAX_BUCKETS) return NONE;
    uint32_t at = bucket / 64;
    uint64_t word = self->words[at] & (UINT64_MAX << bucket % 64);
    if (word != 0) return at * 64 + rs_lowest_bit(word);
    if (++at == WORDS) return NONE;
    word = self->groups[at / 64] & (UINT64_MAX << at % 64);
    for (uint32_t group = at / 64;;) {
        if (word != 0) {
            at = group * 64 + rs_lowest_bit(word);
            return at * 64 + rs_lowest_bit(self->words[at]);
        }
        if (++group == WORDS / 64) return NONE;
        word = self->groups[group];
    }
}

/* A row with the most room, within a bucket. At least one row must have room. */
static uint32_t roomiest(const packer *self) {
    uint32_t group = WORDS / 64 - 1;
    while (group > 0 && self->groups[group] == 0) group--;
    const uint32_t at = group * 64 + rs_bit_width(self->groups[group]) - 1;
    return self->heads[at * 64 + rs_bit_width(self->words[at]) - 1];
}

/* The fullest row with room for `count` tokens, within a bucket; NONE if there is none. */
static uint32_t fitting(const packer *self, uint32_t count) {
    const uint32_t bucket = count >> self->shift, own = self->heads[bucket];
    if (own != NONE && self->room[own] >= count) return own;
    const uint32_t found = bucket_from(self, bucket + 1);
    return found == NONE ? NONE : self->heads[found];
}

static void list_row(packer *self, uint32_t row) {
    const uint32_t bucket = self->room[row] >> self->shift;
    if (self->room[row] == 0) return;
    self->next[row] = self->heads[bucket];
    self->heads[bucket] = row;
    self->words[bucket / 64] |= UINT64_C(1) << bucket % 64;
    self->groups[bucket / 4096] |= UINT64_C(1) << bucket / 64 % 64;
}

/* Takes a row from the head of its bucket. */
static void unlist_row(packer *self, uint32_t row) {
    const uint32_t bucket = self->room[row] >> self->shift;
    self->heads[bucket] = self->next[row];
    if (self->heads[bucket] != NONE) return;
    self->words[bucket / 64] &= ~(UINT64_C(1) << bucket % 64);
    if (self->words[bucket / 64] == 0) self->groups[bucket / 4096] &= ~(UINT64_C(1) << bucket / 64 % 64);
}

/* ---- Parts ---- */

static void put(packer *self, uint32_t document, uint32_t row, int64_t start, uint32_t count) {
    self->parts[self->n_parts++] = (part){document, row, start, count};
}

static void put_in_row(packer *self, uint32_t document, uint32_t row, int64_t start, uint32_t count) {
    unlist_row(self, row);
    self->room[row] -= count;
    list_row(self, row);
    put(self, document, row, start, count);
}

static void open_row(packer *self, uint32_t document, int64_t start, uint32_t count) {
    const uint32_t row = (uint32_t)self->opened++;
    self->room[row] = (uint32_t)self->length - count;
    list_row(self, row);
    put(self, document, row, start, count);
}

/* Cuts documents into full rows. Lists those with a rest, and returns their number. */
static uint64_t take_full_rows(packer *self, const int64_t *counts, uint64_t n) {
    uint64_t n_rests = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t count = (uint64_t)counts[i], rest = count % self->length;
        for (uint64_t at = 0; at < count - rest; at += self->length) {
            open_row(self, i, (int64_t)at, (uint32_t)self->length);
        }
        self->rests[i] = (uint32_t)rest;
        if (rest > 0) self->order[n_rests++] = i;
    }
    return n_rests;
}

/* Sorts the listed documents by descending rest. Equal rests keep their order. A radix sort. */
static void sort_by_rest(packer *self, uint64_t n_rests) {
    uint32_t longest = 0;
    for (uint64_t i = 0; i < n_rests; i++) {
        if (self->rests[self->order[i]] > longest) longest = self->rests[self->order[i]];
    }
    for (unsigned shift = 0; shift < 32 && longest >> shift != 0; shift += DIGIT_BITS) {
        uint32_t starts[DIGITS + 1] = {0};
        for (uint64_t i = 0; i < n_rests; i++) {
            starts[((longest - self->rests[self->order[i]]) >> shift) % DIGITS + 1]++;
        }
        for (unsigned digit = 0; digit < DIGITS; digit++) starts[digit + 1] += starts[digit];
        for (uint64_t i = 0; i < n_rests; i++) {
            const uint32_t document = self->order[i];
            self->swap[starts[((longest - self->rests[document]) >> shift) % DIGITS]++] = document;
        }
        uint32_t *sorted = self->swap;
        self->swap = self->order;
        self->order = sorted;
    }
}

/* Places the rests. Those that fit in no row wait until all others are placed, and are then cut. The longest rests
 * each open a row until all rows are open, so that no row stays empty. */
static void place_rests(packer *self, const int64_t *counts, uint64_t n_rests) {
    uint64_t n_waiting = 0;
    for (uint64_t i = 0; i < n_rests; i++) {
        const uint32_t document = self->order[i], rest = self->rests[document];
        const int64_t start = counts[document] - rest;
        if (self->opened < self->rows) {
            open_row(self, document, start, rest);
            continue;
        }
        const uint32_t row = fitting(self, rest);
        if (row == NONE) self->order[n_waiting++] = document;
        else put_in_row(self, document, row, start, rest);
    }
    for (uint64_t i = 0; i < n_waiting; i++) {
        const uint32_t document = self->order[i];
        for (uint32_t rest = self->rests[document]; rest > 0;) {
            uint32_t row = fitting(self, rest);
            if (row == NONE) row = roomiest(self);
            const uint32_t count = self->room[row] < rest ? self->room[row] : rest;
            put_in_row(self, document, row, counts[document] - rest, count);
            rest -= count;
        }
    }
}

/* Fills the rows that are still empty with halves of parts: there are fewer parts than rows, one in each. */
static void fill_empty_rows(packer *self, uint64_t tokens) {
    for (uint64_t i = 0; self->opened < self->rows && self->n_parts < tokens; i = (i + 1) % self->n_parts) {
        part *from = &self->parts[i];
        const uint32_t half = from->count / 2;
        if (half == 0) continue;
        from->count -= half;
        put(self, from->document, (uint32_t)self->opened++, from->start + from->count, half);
    }
}

/* Writes the parts by row, and the parts of a row by document: two counting sorts. `counters` has room for the greater
 * of the numbers of documents and rows. */
static void write_parts(packer *self, uint64_t n, uint32_t *counters, rs_best_fit_parts *out) {
    memset(counters, 0, (size_t)n * 4);
    memset(out->ends, 0, (size_t)self->rows * sizeof *out->ends);
    for (uint64_t i = 0; i < self->n_parts; i++) {
        counters[self->parts[i].document]++;
        out->ends[self->parts[i].row]++;
    }
    uint32_t before = 0;
    for (uint64_t i = 0; i < n; i++) before += counters[i], counters[i] = before - counters[i];
    for (uint64_t i = 0; i < self->n_parts; i++) self->order[counters[self->parts[i].document]++] = (uint32_t)i;
    int64_t end = 0;
    for (uint64_t row = 0; row < self->rows; row++) end += out->ends[row], out->ends[row] = end - out->ends[row];
    for (uint64_t i = 0; i < self->n_parts; i++) { /* an end is a cursor until its row is complete */
        const part *from = &self->parts[self->order[i]];
        const size_t at = (size_t)out->ends[from->row]++;
        out->documents[at] = from->document, out->starts[at] = from->start, out->counts[at] = from->count;
    }
}

rs_status rs_best_fit_pack(const int64_t *counts, uint64_t n, uint64_t length, uint64_t rows, rs_best_fit_parts *out,
                           rs_error *err) {
    packer self = {.rows = rows, .length = length};
    uint64_t tokens = 0;
    if (n >= RS_BEST_FIT_MAX_ITEMS || rows >= RS_BEST_FIT_MAX_ITEMS || length >= RS_BEST_FIT_MAX_LENGTH || length == 0)
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "too many documents or rows, or a wrong length of rows");
    for (uint64_t i = 0; i < n; i++) {
        if (counts[i] < 0) return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "a document has a negative length");
        if ((uint64_t)counts[i] > rows * length - tokens)
            return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "the documents have more tokens than the rows hold");
        tokens += (uint64_t)counts[i];
    }
    RS_TRY(open_packer(&self, n, err));
    const uint64_t n_rests = take_full_rows(&self, counts, n);
    sort_by_rest(&self, n_rests);
    place_rests(&self, counts, n_rests);
    fill_empty_rows(&self, tokens);
    write_parts(&self, n, self.swap, out);
    close_packer(&self);
    return RS_OK;
}
