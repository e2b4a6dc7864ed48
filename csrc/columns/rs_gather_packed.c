/* rs_gather_packed.c: packs documents, lists of tokens, into rows of one length. Documents that may be cut at the end
 * of a row follow one another in the flattened rows. Whole documents go to the first row with room for them (first fit:
 * Garey, Graham, Ullman, "Worst-case analysis of memory allocation algorithms", 1972), which a tree over the rows finds
 * in logarithmic time. */
#include "columns/rs_gather_packed.h"

#include <stdlib.h>

static const rs_run *runs_of(const rs_gather_field *self) { return (const rs_run *)(const void *)self->runs.data; }

uint64_t rs_gather_packed_tokens(const rs_gather_field *self, uint64_t i) {
    const uint64_t n = runs_of(self)[i].n, length = self->spec->length;
    if (self->given != NULL) return (uint64_t)self->given->counts[i];
    return self->spec->split || n < length ? n : length;
}

static void set_start(rs_gather_field *self, uint64_t i, uint64_t start) {
    rs_store_u64(self->starts.data + 8 * i, start);
}

/* ---- Documents that are cut ---- */

static void pack_split(rs_gather_field *self, uint64_t n) {
    const uint64_t length = self->spec->length;
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t tokens = runs_of(self)[i].n;
        set_start(self, i, at);
        if (tokens == 0) continue;
        self->n_pieces += (at + tokens - 1) / length - at / length + 1; /* one for each row that it touches */
        at += tokens;
    }
    self->rows = at / length + (at % length != 0);
    self->n_pieces += at % length != 0; /* the padding of the last row */
}

/* ---- Documents that stay whole ---- */

/* A binary tree over `leaves` rows, a power of two: room[leaves + r] is the room in row r, and each inner node has the
 * maximum of its two children. */
typedef struct room_tree {
    uint64_t *room;
    uint64_t leaves;
} room_tree;

/* Returns the first row with room for n tokens, which must exist, and takes the room. */
static uint64_t first_fit(room_tree *self, uint64_t n, uint64_t *room_before) {
    uint64_t at = 1;
    while (at < self->leaves) at = self->room[2 * at] >= n ? 2 * at : 2 * at + 1;
    uint64_t row = at - self->leaves;
    *room_before = self->room[at];
    self->room[at] -= n;
    for (at /= 2; at > 0; at /= 2) {
        const uint64_t left = self->room[2 * at], right = self->room[2 * at + 1];
        self->room[at] = left > right ? left : right;
    }
    return row;
}

static rs_status pack_whole(rs_gather_field *self, uint64_t n, rs_error *err) {
    const uint64_t length = self->spec->length;
    room_tree rows = {NULL, 1};
    uint64_t n_full = 0;
    while (rows.leaves < n) rows.leaves *= 2;
    rows.room = (uint64_t *)malloc((size_t)rows.leaves * 2 * sizeof *rows.room);
    if (rows.room == NULL) return rs_no_memory(err);
    for (uint64_t i = 0; i < 2 * rows.leaves; i++) rows.room[i] = length;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t tokens = rs_gather_packed_tokens(self, i);
        uint64_t room;
        if (tokens == 0) {
            set_start(self, i, 0);
            continue;
        }
        uint64_t row = first_fit(&rows, tokens, &room);
        set_start(self, i, row * length + length - room);
        n_full += room == tokens;
        if (row + 1 > self->rows) self->rows = row + 1;
        self->n_pieces++;
    }
    self->n_pieces += self->rows - n_full; /* the padding of a row is a piece */
    free(rows.room);
    return RS_OK;
}

/* ---- Documents in given rows ---- */

static rs_status place_given(rs_gather_field *self, rs_error *err) {
    const rs_gather_given *given = self->given;
    const uint64_t length = self->spec->length;
    uint64_t i = 0;
    self->rows = given->n_rows;
    for (uint64_t row = 0; row < self->rows; row++) {
        uint64_t at = 0;
        for (; i < (uint64_t)given->ends[row]; i++) {
            const uint64_t tokens = (uint64_t)given->counts[i];
            if (tokens > length - at) {
                return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "row %llu has more tokens than the length of %llu",
                                    (unsigned long long)row, (unsigned long long)length);
            }
            set_start(self, i, row * length + at);
            at += tokens;
            self->n_pieces += tokens > 0;
        }
        self->n_pieces += at < length;
    }
    return RS_OK;
}

rs_status rs_gather_pack(rs_gather_field *self, uint64_t n, rs_error *err) {
    self->rows = self->n_pieces = 0;
    self->starts.size_bytes = 0;
    RS_TRY(rs_buffer_reserve(&self->starts, (size_t)n * 8, err));
    self->starts.size_bytes = (size_t)n * 8;
    if (self->given != NULL) return place_given(self, err);
    if (!self->spec->split) return pack_whole(self, n, err);
    pack_split(self, n);
    return RS_OK;
}

/* ---- Filling ---- */

/* Writes the boundaries: a piece ends with its document or its row. */
static void fill_boundaries(const int64_t *documents, uint64_t rows, uint64_t length, int64_t *to) {
    for (uint64_t row = 0; row < rows; row++, documents += length) {
        *to++ = (int64_t)(row * length);
        for (uint64_t i = 1; i < length; i++) {
            if (documents[i] != documents[i - 1]) *to++ = (int64_t)(row * length + i);
        }
    }
    *to = (int64_t)(rows * length);
}

void rs_gather_fill_packed(const rs_gather_field *self, uint64_t n, uint8_t *buffer) {
    const unsigned size = rs_dtype_bytes(self->spec->dtype);
    const uint64_t all = self->rows * self->spec->length;
    uint8_t *values = buffer + self->parts[0].off;
    int64_t *positions = (int64_t *)(void *)(buffer + self->parts[1].off);
    int64_t *documents = (int64_t *)(void *)(buffer + self->parts[2].off);
    if (all > 0) memset(documents, 0xff, (size_t)all * sizeof *documents); /* -1 */
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t start = rs_load_u64(self->starts.data + 8 * i), tokens = rs_gather_packed_tokens(self, i);
        const uint64_t first = self->given == NULL ? 0 : (uint64_t)self->given->starts[i];
        for (uint64_t k = 0; k < tokens; k++) {
            positions[start + k] = (int64_t)(first + k);
            documents[start + k] = (int64_t)i;
        }
    }
    for (uint64_t end = all; end > 0; end -= self->spec->length) { /* the padding of a row is at its end */
        for (uint64_t i = end; i > end - self->spec->length && documents[i - 1] < 0; i--) {
            positions[i - 1] = 0;
            memcpy(values + (i - 1) * size, self->spec->fill, size);
        }
    }
    fill_boundaries(documents, self->rows, self->spec->length, (int64_t *)(void *)(buffer + self->parts[3].off));
}
