/* rs_saved_index.h: reads SAVED_INDEX sections, which find the records of a list by the value of one field, and writes
 * their heads. The caller hashes and compares keys, and reads the fields. */
#pragma once

#include "format/rs_header.h"
#include "format/rs_keys.h"

/* An open saved index. Borrows the bytes that it was opened on. Any number of threads may read it. */
typedef struct rs_saved_index {
    uint32_t kind; /* RS_FMT_SAVED_* */
    bool in_order;
    uint32_t width; /* bytes of a record number */
    uint64_t n_records;
    rs_slice path; /* one any value, not checked */
    rs_slice keys; /* the bytes of `index` */
    rs_keys index;
    /* Numbers of `width` bytes each; NULL for arrays that the index does not have. */
    const uint8_t *order;  /* the first and the last record of each entry */
    const uint8_t *starts; /* the first row of the group of each entry; then n_records */
    const uint8_t *rows;   /* n_records record numbers, group after group */
} rs_saved_index;

/* Opens a SAVED_INDEX section of a segment of n_records records and checks rule 36 of FORMAT.md. `segment` must outlive
 * `out`. RS_E_FMT_VERSION for an unknown kind; the caller ignores such a section. Any thread. */
RS_NODISCARD rs_status rs_saved_index_open(rs_slice segment, const rs_section *section, uint64_t n_records,
                                           rs_saved_index *out, rs_error *err);

/* Fills `err` for a group, row or entry (`part`) that leads to a missing record; out of line because it is rare. */
RS_COLD void rs_saved_index_bad_number(rs_error *err, const char *part, uint64_t number);

/* Sets *begin and *end to the bounds of the rows of group `entry`, which is below index.n_entries. RS_E_FMT_KEYS for
 * missing rows (rule 37). For kind 2. Any thread. */
RS_NODISCARD static inline rs_status rs_saved_index_group(const rs_saved_index *self, uint64_t entry, uint64_t *begin,
                                                          uint64_t *end, rs_error *err) {
    const uint8_t *at = self->starts + entry * self->width;
    *begin = rs_load_uint_unchecked(at, self->width);
    *end = rs_load_uint_unchecked(at + self->width, self->width);
    if (RS_LIKELY(*begin < *end && *end <= self->n_records)) return RS_OK;
    rs_saved_index_bad_number(err, "group", entry);
    return RS_E_FMT_KEYS;
}

/* Sets *record to the record at `row`, below n_records. RS_E_FMT_KEYS for a missing record (rule 37). For kind 2. Any
 * thread. */
RS_NODISCARD static inline rs_status rs_saved_index_row(const rs_saved_index *self, uint64_t row, uint64_t *record,
                                                        rs_error *err) {
    *record = self->rows == NULL ? row : rs_load_uint_unchecked(self->rows + row * self->width, self->width);
    if (RS_LIKELY(*record < self->n_records)) return RS_OK;
    rs_saved_index_bad_number(err, "row", row);
    return RS_E_FMT_KEYS;
}

/* Sets *first and *last to the first and last record of `entry`, which is below index.n_entries. RS_E_FMT_KEYS for a
 * missing record (rule 37). For kind 1. Any thread. */
RS_NODISCARD static inline rs_status rs_saved_index_records(const rs_saved_index *self, uint64_t entry, uint64_t *first,
                                                            uint64_t *last, rs_error *err) {
    *first = *last = entry;
    if (self->order == NULL) return RS_OK;
    const uint8_t *at = self->order + 2 * entry * self->width;
    *first = rs_load_uint_unchecked(at, self->width);
    *last = rs_load_uint_unchecked(at + self->width, self->width);
    if (RS_LIKELY(*first < self->n_records && *last < self->n_records)) return RS_OK;
    rs_saved_index_bad_number(err, "entry", entry);
    return RS_E_FMT_KEYS;
}

/* The parts of a saved index for a writer. Borrows the slices. */
typedef struct rs_saved_index_parts {
    uint32_t kind;
    bool in_order;
    uint64_t n_records;
    rs_slice path;    /* one any value */
    rs_slice keys;    /* the bytes from rs_keys_build, with factory 0 */
    rs_slice numbers; /* the record numbers */
} rs_saved_index_parts;

/* Appends the bytes of a saved index before its key index: head, path and zeros. `out` must be empty. RS_E_ARG_RANGE
 * for a path that is empty or longer than RS_FMT_INDEX_PATH; RS_E_MEM. */
RS_NODISCARD rs_status rs_saved_index_write_head(const rs_saved_index_parts *parts, rs_buffer *out, rs_error *err);
