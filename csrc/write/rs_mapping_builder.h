/* rs_mapping_builder.h: makes a mapping: two builders of one segment, for keys and for values, then the hash table of
 * the keys. rs_mapping.h reads the result. */
#ifndef RS_MAPPING_BUILDER_H
#define RS_MAPPING_BUILDER_H

#include "format/rs_keys.h"
#include "write/rs_builder.h"

/* Two builders that share a writer. Owns them, borrows the writer. Per entry the caller appends one `any` value to
 * keys.raw and one to values.raw (and arrays as rs_builder says), then calls rs_mapping_builder_end_pair; where
 * rs_builder_is_full says so of either it flushes that one. Zero records are fine. One thread at a time. The steps to
 * the end:
 *   1. rs_mapping_builder_write_tables: all records are written; no pair may follow;
 *   2. rs_keys_find_twins over the hashes of the keys, where keys may have come twice; rs_mapping_builder_map_keys
 *      gives the keys to be read back and compared;
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

/* Keys as they are written so far, and the header and directory by which rs_store_open_prepared reads them. Owns the
 * mapped bytes. */
typedef struct rs_written_keys {
    rs_slice bytes;
    rs_header header;
    rs_directory directory;
} rs_written_keys;

/* Step 2: maps the segment as written so far. The caller ends with rs_written_keys_unmap before step 3: a mapping left
 * open would block sealing. RS_E_STATE_FINISHED before step 1 or after step 3. On failure nothing is held. */
RS_NODISCARD rs_status rs_mapping_builder_map_keys(rs_mapping_builder *self, rs_written_keys *out, rs_error *err);
void rs_written_keys_unmap(rs_written_keys *self);

/* Step 3: `table` is what rs_keys_build made for the n entries; `order` is NULL when every record lives, else 2 n
 * numbers, for each entry the record of its key (ascending) and of its value. RS_E_ARG_RANGE where these do not fit
 * the records. `self` is then fit only to be closed; the caller finishes the writer. Needs no lock. */
RS_NODISCARD rs_status rs_mapping_builder_finish(rs_mapping_builder *self, const rs_buffer *table,
                                                 const uint64_t *order, uint64_t n, rs_error *err);

#endif
