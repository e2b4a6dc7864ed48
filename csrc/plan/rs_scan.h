/* rs_scan.h: the first pass over the raw `any` records of a block. It checks them, hashes the keys of each dict, and
 * tracks the maxima of values, bytes and depth over the records. rs_stats and rs_encode then walk the same bytes in the
 * same order and look up the hashes, dict by dict. */
#pragma once

#include "format/rs_any.h"

/* The result of the scans so far. Owns `key_sets`. Zero the struct before the first use, call rs_scan_reset between
 * blocks and rs_scan_clear at the end. One thread at a time may use it. */
typedef struct rs_scan {
    uint64_t *key_sets; /* a hash of the keys of each dict, in the order of the dicts' first bytes */
    size_t n_key_sets;
    size_t capacity;
    size_t next;         /* the number of the next dict in a walk after the scan */
    uint64_t max_values; /* this and the next two: the maxima over all records so far, of all blocks */
    uint64_t max_bytes;
    uint32_t max_depth;
    uint64_t n_values; /* of all records so far, including records that the builder took back */
    uint64_t features; /* bits of features_required that the records need */
} rs_scan;

/* Frees the memory and zeroes the struct. */
void rs_scan_clear(rs_scan *self);
/* Forgets the key sets of a block. The maxima, n_values and features stay: they hold for the whole segment. */
void rs_scan_reset(rs_scan *self);

/* Reads one record, which must be exactly one well-formed any value with its array data within arrays_size bytes. Else
 * RS_E_FMT_*; maxima and features are then unchanged, but key sets may have been added. RS_E_MEM. */
RS_NODISCARD rs_status rs_scan_record(rs_scan *self, rs_slice record, uint64_t arrays_size, rs_error *err);

/* The results of scanning one record, for a writer that counts while it makes the record. */
typedef struct rs_scan_counts {
    uint64_t values; /* the record itself, and the elements of each container in it; for a dict, its pairs */
    uint64_t features;
    uint32_t depth; /* the most containers nested in one another */
} rs_scan_counts;

/* Counts a record of size_bytes as rs_scan_record does, without reading it. The writer has made a valid any value and
 * has called rs_scan_add_key_set for each dict in it, in the order of their first bytes. */
void rs_scan_count_unchecked(rs_scan *self, uint64_t size_bytes, const rs_scan_counts *counts);
/* Raises the maxima for records that were scanned elsewhere. */
void rs_scan_raise(rs_scan *self, uint64_t max_values, uint64_t max_bytes, uint32_t max_depth);
/* Adds the hash of a dict's keys: RS_KEY_SET_SEED, changed by rs_schema_hash_key for each key in turn. RS_E_MEM. */
RS_NODISCARD rs_status rs_scan_add_key_set(rs_scan *self, uint64_t hash, rs_error *err);

/* Takes a varint of a value that rs_scan_record accepted. */
static inline uint64_t rs_scan_varint_unchecked(rs_slice *in) {
    uint64_t value = 0;
    (void)rs_take_varint(in, &value);
    return value;
}

/* Returns the end of a value that rs_scan_record accepted; NULL for an array or a value that holds others. */
static inline const uint8_t *rs_scan_plain_end_unchecked(rs_slice in) {
    uint8_t tag = *in.ptr++;
    if (rs_tag_is_int64(tag)) return in.ptr - 1 + rs_any_int_size(tag);
    if (tag < RS_FMT_TAG_INT8) return in.ptr;
    if (tag == RS_FMT_TAG_FLOAT) return in.ptr + 8;
    if (tag > RS_FMT_TAG_BYTES) return NULL;
    uint64_t n = rs_scan_varint_unchecked(&in);
    return in.ptr + (tag == RS_FMT_TAG_STR2 ? 2 * n : tag == RS_FMT_TAG_STR4 ? 4 * n : n);
}

/* The same for any value that rs_scan_record accepted. Adds the number of its dicts to *dicts. */
const uint8_t *rs_scan_end_unchecked(rs_slice in, size_t *dicts);

/* Takes a value that rs_scan_record accepted off `in`, and adds the number of its dicts to `next`. Checks nothing. */
static inline void rs_scan_skip_unchecked(rs_scan *self, rs_slice *in) {
    const uint8_t *end = rs_scan_plain_end_unchecked(*in);
    in->ptr = end != NULL ? end : rs_scan_end_unchecked(*in, &self->next);
}
