/* rs_scan.h: the first pass over the raw `any` records of a block: which dict has which keys, how much the largest
 * record holds. infer and encode then walk the same bytes and ask it, dict by dict, in the same order. */
#ifndef RS_SCAN_H
#define RS_SCAN_H

#include "format/rs_any.h"

/* Owns `key_sets`. Zero it to begin, rs_scan_clear at the end, rs_scan_reset between blocks. Not thread-safe. */
typedef struct rs_scan {
    uint64_t *key_sets; /* a hash over the keys of each dict, in the order in which the dicts begin */
    size_t n_key_sets;
    size_t capacity;
    size_t next;         /* read position of the walk that follows */
    uint64_t max_values; /* over all records since the last reset of the totals by the caller */
    uint64_t max_bytes;
    uint32_t max_depth;
    uint64_t features; /* bits of features_required that the records need */
} rs_scan;

void rs_scan_clear(rs_scan *self);
/* Forgets the key sets of a block; maxima and features stay, they are the segment's. */
void rs_scan_reset(rs_scan *self);

/* Reads one record, which must be exactly one well-formed value; RS_E_FMT_* otherwise, and the totals are as before. */
RS_NODISCARD rs_status rs_scan_record(rs_scan *self, rs_slice record, uint64_t arrays_size, rs_error *err);

/* Passes over a value that rs_scan_record accepted, keeping `next` in step. Checks nothing. */
void rs_scan_skip_unchecked(rs_scan *self, rs_slice *in);

/* Reads a varint of a value that rs_scan_record accepted. */
static inline uint64_t rs_scan_varint_unchecked(rs_slice *in) {
    uint64_t value = 0;
    (void)rs_take_varint(in, &value);
    return value;
}

#endif
