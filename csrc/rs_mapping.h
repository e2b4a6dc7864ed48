/* rs_mapping.h: a mapping is two stores in one segment, values and keys, with a table that finds the entry of a key
 * and, where keys came twice, the order of what is alive. Composition only. What a key hashes to and whether two are
 * equal is the caller's. */
#ifndef RS_MAPPING_H
#define RS_MAPPING_H

#include "rs_keys.h"
#include "rs_store.h"

/* ---- Reading ---- */

/* Owns the caches of the keys' store; borrows the segment's bytes. Beside it stands the rs_store of the values.
 * Lookups in `index` and `order` are free to every thread, `keys` is like any store: one thread at a time. */
typedef struct rs_mapping {
    rs_store keys;
    rs_keys index;
    const uint8_t *order;  /* NULL: entry e is record e of both stores */
    uint32_t order_width;  /* bytes of a number in `order` */
    uint64_t n_entries;    /* the length of the mapping */
} rs_mapping;

/* Rules 24 to 26 of FORMAT.md. `values` was opened on the segment, whose bytes outlive `self`; RS_E_ARG_RANGE where
 * it is a list's. On failure nothing is held. */
RS_NODISCARD rs_status rs_mapping_open(rs_mapping *self, const rs_store *values, rs_error *err);
void rs_mapping_close(rs_mapping *self);

/* Failing path, out of line. */
RS_COLD void rs_mapping_bad_order(const rs_mapping *self, uint64_t entry, rs_error *err);

/* The records of `entry`, which is below n_entries: of its key in self->keys, of its value in the values' store.
 * RS_E_FMT_KEYS when ORDER names none (rule 27). Any thread. */
RS_NODISCARD static inline rs_status rs_mapping_records(const rs_mapping *self, uint64_t entry, uint64_t *key,
                                                        uint64_t *value, rs_error *err) {
    const uint8_t *e;
    if (RS_LIKELY(self->order == NULL)) {
        *key = *value = entry;
        return RS_OK;
    }
    e = self->order + 2 * self->order_width * entry;
    *key = rs_load_uint_unchecked(e, self->order_width);
    *value = rs_load_uint_unchecked(e + self->order_width, self->order_width);
    if (RS_UNLIKELY(*key >= self->keys.header.n_records || *value >= self->keys.header.n_records)) {
        rs_mapping_bad_order(self, entry, err);
        return RS_E_FMT_KEYS;
    }
    return RS_OK;
}

/* ---- Building ---- */

/* Two builders that share a writer. Owns them, borrows the writer. Per entry the caller appends one `any` value to
 * keys.raw and one to values.raw (and arrays as rs_builder says), then calls rs_mapping_builder_end_pair; where
 * rs_builder_is_full says so of either it flushes that one. Zero records are fine. One thread at a time. The steps to
 * the end:
 *   1. rs_mapping_builder_write_tables: all records are written; no pair may follow;
 *   2. rs_keys_find_twins over the hashes of the keys, where keys may have come twice; rs_mapping_builder_open_keys
 *      reads keys back to compare them;
 *   3. rs_keys_build over the hashes of the entries that live; rs_mapping_builder_finish. */
typedef struct rs_mapping_builder {
    rs_builder values;
    rs_builder keys;
    rs_directory directories[2];
    bool tabled;
    bool finished;
} rs_mapping_builder;

/* Starts a mapping in an open, empty writer, which outlives the builder. `compress` as of rs_builder_open. */
RS_NODISCARD rs_status rs_mapping_builder_open(rs_mapping_builder *self, rs_segment_writer *writer, bool compress,
                                               rs_error *err);
void rs_mapping_builder_close(rs_mapping_builder *self);

/* Ends the pair that was appended. On failure nothing of it stays in `raw` (the caller drops arrays with
 * rs_mapping_builder_drop_pair) and the builder goes on as if it had not been given. err->record is the pair's
 * number. */
RS_NODISCARD rs_status rs_mapping_builder_end_pair(rs_mapping_builder *self, rs_error *err);
/* Drops what was appended to all four buffers since the last pair ended; the marks are arrays.size_bytes as of then. */
void rs_mapping_builder_drop_pair(rs_mapping_builder *self, size_t keys_arrays_mark, size_t values_arrays_mark);

/* Step 1. Needs no lock. RS_E_STATE_FINISHED when done already. */
RS_NODISCARD rs_status rs_mapping_builder_write_tables(rs_mapping_builder *self, rs_error *err);

/* Step 2: maps what is written so far and opens the keys' store on it. After RS_OK the caller closes the store and
 * then unmaps *data with rs_os_unmap(*data, *size_bytes), before step 3: a mapping left open would block sealing.
 * RS_E_STATE_FINISHED before step 1 or after step 3. On failure nothing is held. */
RS_NODISCARD rs_status rs_mapping_builder_open_keys(rs_mapping_builder *self, rs_store *keys, const uint8_t **data,
                                                    uint64_t *size_bytes, rs_error *err);

/* Step 3: `table` is what rs_keys_build made for the n entries; `order` is NULL when every record lives, else 2 n
 * numbers, for each entry the record of its key (ascending) and of its value. RS_E_ARG_RANGE where these do not fit
 * the records. `self` is then fit only to be closed; the caller finishes the writer. Needs no lock. */
RS_NODISCARD rs_status rs_mapping_builder_finish(rs_mapping_builder *self, const rs_buffer *table,
                                                 const uint64_t *order, uint64_t n, rs_error *err);

#endif
