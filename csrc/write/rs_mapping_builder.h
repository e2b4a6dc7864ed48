/* rs_mapping_builder.h: builds a mapping: two stores in one segment, for keys and for values, and the key index.
 * rs_mapping.h reads it. */
#pragma once

#include "format/rs_keys.h"
#include "write/rs_builder.h"

/* A mapping that is being built: two builders that share a writer. Owns the builders, borrows the writer. For each pair
 * the caller appends one any value to keys.raw and one to values.raw (arrays as in rs_builder), calls
 * rs_mapping_builder_end_pair, and flushes each builder whose block is full. There may be no pairs. One thread at a
 * time may use the builder. The steps at the end:
 *   1. rs_mapping_builder_write_tables writes all records. No pair may follow.
 *   2. If keys may repeat: rs_keys_find_twins over the hashes of the keys. rs_mapping_builder_map_keys reads keys back
 *      to compare them.
 *   3. rs_keys_build over the hashes of the entries whose records are not dead, then rs_mapping_builder_finish. */
typedef struct rs_mapping_builder {
    rs_builder values;
    rs_builder keys;
    rs_directory directories[2]; /* of values and of keys */
    bool tables_written;         /* step 1 has begun */
    bool finished;
} rs_mapping_builder;

/* Starts a mapping in an open, empty writer, which must outlive the builder. `choices` as for rs_builder_open. */
RS_NODISCARD rs_status rs_mapping_builder_open(rs_mapping_builder *self, rs_segment_writer *writer,
                                               const rs_choices *choices, rs_error *err);
/* Closes both builders and zeroes the struct. */
void rs_mapping_builder_close(rs_mapping_builder *self);

/* Ends the pair that was appended. If one of its records is invalid, the pair is dropped from both `raw` buffers;
 * err->record is its number, and further pairs may follow. The caller drops its arrays with
 * rs_mapping_builder_drop_pair. RS_E_STATE_FINISHED after step 1; RS_E_MEM. */
RS_NODISCARD rs_status rs_mapping_builder_end_pair(rs_mapping_builder *self, rs_error *err);
/* As rs_mapping_builder_end_pair, but does not read a record whose counts are not NULL (see
 * rs_builder_end_record_unchecked). A key with counts has no dict. */
RS_NODISCARD rs_status rs_mapping_builder_end_counted_pair(rs_mapping_builder *self, const rs_scan_counts *key,
                                                           const rs_scan_counts *value, rs_error *err);
/* Drops the bytes that were appended to `raw` and `arrays` of both builders since the last pair ended. The marks are
 * the sizes of the two `arrays` at that time. */
void rs_mapping_builder_drop_pair(rs_mapping_builder *self, size_t keys_arrays_mark, size_t values_arrays_mark);

/* Step 1: flushes both builders and writes the sections of both stores. Needs no lock. RS_E_STATE_FINISHED when it was
 * called before. */
RS_NODISCARD rs_status rs_mapping_builder_write_tables(rs_mapping_builder *self, rs_error *err);

/* The keys written so far, with header and directory for rs_store_open_prepared. Owns the mapped memory. */
typedef struct rs_written_keys {
    rs_slice bytes; /* the segment so far */
    rs_header header;
    rs_directory directory;
} rs_written_keys;

/* Step 2: maps the segment written so far. The caller must call rs_written_keys_unmap before step 3, because mapped
 * memory may block sealing. RS_E_STATE_FINISHED before step 1 or after step 3. On failure nothing is mapped. */
RS_NODISCARD rs_status rs_mapping_builder_map_keys(rs_mapping_builder *self, rs_written_keys *out, rs_error *err);
/* Unmaps the memory and zeroes the struct. */
void rs_written_keys_unmap(rs_written_keys *self);

/* Step 3: writes the key index, ORDER, directory and header. `table` has the bytes from rs_keys_build for the n
 * entries. `order` is NULL when no record is dead; else it has 2 n numbers: for each entry the record of its key
 * (ascending) and the record of its value. RS_E_ARG_RANGE when these do not fit the records; RS_E_STATE_FINISHED before
 * step 1 or on a second call. Afterwards `self` may only be closed, and the caller finishes the writer. Needs no
 * lock. */
RS_NODISCARD rs_status rs_mapping_builder_finish(rs_mapping_builder *self, const rs_buffer *table,
                                                 const uint64_t *order, uint64_t n, rs_error *err);
