/* rs_places.h: the places of a block: the data of its placed nodes beside the records (FORMAT.md, Placed nodes). */
#pragma once

#include "format/rs_offsets.h"
#include "format/rs_schema.h"

/* The section of one placed node in the places of one block. Its head was copied, and rule 40 checked. Borrows the
 * segment. Immutable, so any number of threads may read it. */
typedef struct rs_placed {
    const uint8_t *marks;  /* runs, exceptions */
    const uint8_t *data;   /* runs: the values; exceptions: the ends; rising: the residuals */
    const uint8_t *end;    /* the end of the places */
    const uint8_t *starts; /* rising with corners: the starts, after the corners */
    const uint8_t *corners;
    uint64_t base;
    int64_t step;
    uint32_t n_marks;
    uint32_t n_records; /* of the block */
    uint8_t form, shift, width;
} rs_placed;

/* Reads the heads of all sections of a checked block and checks rule 40. Sets *out to an array with an element for each
 * placed node, which the caller frees; NULL without placed nodes. RS_E_MEM. */
RS_NODISCARD rs_status rs_places_open(const uint8_t *segment, const rs_block *block, const rs_tree *tree,
                                      rs_placed **out, rs_error *err);

/* Checks rule 42, and the counts of rule 41, for a section of `node`. */
RS_NODISCARD rs_status rs_placed_check(const rs_placed *self, const rs_node *node, rs_error *err);

/* Returns the bytes of a section and of the u32 with its start, without the values of exceptions. */
uint64_t rs_placed_size(const rs_placed *self, const rs_node *node);

/* Returns the bytes of n_marks marks of a form among n_records records. */
uint64_t rs_marks_size(unsigned form, uint32_t n_records, uint32_t n_marks);

/* Fills `err`; out of line because it is rare. Returns RS_E_FMT_VALUE. */
RS_COLD rs_status rs_placed_bad(rs_error *err);

/* Sets *rank to the number of marked records up to and including record j, at most n_marks, and *marked to whether j is
 * marked. Rule 41. */
RS_NODISCARD static inline rs_status rs_placed_rank(const rs_placed *self, uint32_t j, uint32_t *rank, bool *marked,
                                                    rs_error *err) {
    if (self->form == RS_FMT_MARKS_BITS) {
        const uint8_t *p = self->marks + (size_t)(j / RS_FMT_MARKS_BITS_RECORDS) * RS_FMT_MARKS_BITS_SIZE;
        /* The bit of record j becomes the highest, so no bit of a later record is counted. */
        uint64_t bits = rs_load_u64(p + 2) << (63 - j % RS_FMT_MARKS_BITS_RECORDS);
        *rank = rs_load_u16(p) + rs_count_bits(bits);
        *marked = bits >> 63 != 0;
        if (RS_UNLIKELY(*rank > self->n_marks)) return (void)rs_placed_bad(err), RS_E_FMT_VALUE;
    } else {
        uint32_t n = (self->n_records + RS_FMT_MARKS_LOW_RECORDS - 1) / RS_FMT_MARKS_LOW_RECORDS;
        uint32_t part = j / RS_FMT_MARKS_LOW_RECORDS, low = j % RS_FMT_MARKS_LOW_RECORDS;
        uint32_t from = rs_load_u16(self->marks + 2 * (size_t)part), at = from;
        uint32_t to = part + 1 < n ? rs_load_u16(self->marks + 2 * (size_t)part + 2) : self->n_marks;
        const uint8_t *lows = self->marks + 2 * (size_t)n;
        if (RS_UNLIKELY(from > to || to > self->n_marks)) return (void)rs_placed_bad(err), RS_E_FMT_VALUE;
        for (uint32_t left = to - from; left > 0;) {
            uint32_t half = left / 2;
            bool below = lows[at + half] <= low;
            at = below ? at + half + 1 : at;
            left = below ? left - half - 1 : half;
        }
        *rank = at;
        *marked = at > from && lows[at - 1] == low;
    }
    return RS_OK;
}

/* Sets *out to the number of record j under a rising node. Rule 41. */
RS_NODISCARD static inline rs_status rs_placed_number(const rs_placed *self, uint32_t j, uint64_t *out, rs_error *err) {
    uint64_t line = self->base + (uint64_t)((int64_t)((uint64_t)self->step * j) >> self->shift);
    uint64_t size = (uint64_t)(self->end - self->data);
    if (self->form == RS_FMT_RISING_LINE) {
        *out = line + rs_load_bits_unchecked(self->data, size, (uint64_t)j * self->width, self->width);
        return RS_OK;
    } else {
        uint32_t f = j / RS_FMT_RISING_RECORDS, k = j % RS_FMT_RISING_RECORDS;
        uint64_t corners = (uint64_t)(self->starts - self->corners), begin = rs_load_u16(self->starts + 2 * (size_t)f);
        uint64_t end = rs_load_u16(self->starts + 2 * (size_t)f + 2);
        uint64_t a = rs_load_bits_unchecked(self->corners, corners, (uint64_t)f * self->width, self->width);
        uint64_t b = rs_load_bits_unchecked(self->corners, corners, (uint64_t)(f + 1) * self->width, self->width);
        uint64_t way = (uint64_t)((int64_t)((b - a) * k) >> 6);
        unsigned w = (unsigned)(end - begin);
        if (RS_UNLIKELY(begin > end || end - begin > 64 || 8 * end > size)) {
            return (void)rs_placed_bad(err), RS_E_FMT_VALUE;
        }
        *out = line + a + way;
        if (w != 0) {
            *out += rs_load_bits_unchecked(self->data + 8 * begin, 8 * (uint64_t)w, (uint64_t)k * w, w) -
                    (UINT64_C(1) << (w - 1));
        }
        return RS_OK;
    }
}

/* Sets *out to the value of record j under a runs node. All values of its child have the same size. Rule 41. */
RS_NODISCARD static inline rs_status rs_placed_run(const rs_placed *self, const rs_node *node, uint32_t j,
                                                   const uint8_t **out, rs_error *err) {
    uint32_t rank;
    bool marked;
    RS_TRY(rs_placed_rank(self, j, &rank, &marked, err));
    *out = self->data + (size_t)rank * (node->children->alone_bytes + node->children->size_bytes);
    return RS_OK;
}

/* Sets *is_exception to whether record j is marked under an exceptions node, and if so *out to the bytes of its value.
 * Rule 41. */
RS_NODISCARD static inline rs_status rs_placed_exception(const rs_placed *self, uint32_t j, bool *is_exception,
                                                         rs_slice *out, rs_error *err) {
    const uint8_t *values = self->data + 4 * (size_t)self->n_marks;
    uint32_t rank;
    RS_TRY(rs_placed_rank(self, j, &rank, is_exception, err));
    if (RS_LIKELY(!*is_exception)) return RS_OK;
    uint32_t begin = rank < 2 ? 0 : rs_load_u32(self->data + 4 * ((size_t)rank - 2));
    uint32_t end = rs_load_u32(self->data + 4 * ((size_t)rank - 1));
    if (RS_UNLIKELY(begin > end || end > (uint64_t)(self->end - values))) {
        return (void)rs_placed_bad(err), RS_E_FMT_VALUE;
    }
    *out = rs_slice_of(values + begin, end - begin);
    return RS_OK;
}
