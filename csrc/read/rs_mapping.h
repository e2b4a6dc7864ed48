/* rs_mapping.h: reads a mapping: two stores in one segment, values and keys, with a key index and, if keys were
 * repeated, the ORDER of the entries. rs_mapping_builder.h builds it. The caller hashes and compares keys. */
#pragma once

#include "format/rs_keys.h"
#include "read/rs_store.h"

/* The keys of a mapping, and the index. The caller has the rs_store of the values. Owns the caches of the keys' store;
 * borrows the segment's bytes. Any thread may use `index` and `order`; one thread at a time may use `keys`. */
typedef struct rs_mapping {
    rs_store keys;
    rs_keys index;
    const uint8_t *order; /* the bytes of ORDER; NULL if entry e is record e of both stores */
    uint32_t order_width; /* bytes of a number in `order` */
    uint64_t n_entries;   /* the length of the mapping */
} rs_mapping;

/* Opens the keys and the index of the mapping with the values `values`, and checks rules 24 to 26 of FORMAT.md. The
 * segment's bytes must outlive `self`. RS_E_ARG_RANGE if the segment is a list. On failure `self` owns nothing. */
RS_NODISCARD rs_status rs_mapping_open(rs_mapping *self, const rs_store *values, rs_error *err);
/* Frees the caches and zeroes the struct. */
void rs_mapping_close(rs_mapping *self);

/* Fills `err` for rs_mapping_records; out of line because it is rare. */
RS_COLD void rs_mapping_bad_order(const rs_mapping *self, uint64_t entry, rs_error *err);

/* Sets *key and *value to the numbers of the records of `entry` in self->keys and in the store of the values. `entry`
 * is below n_entries. RS_E_FMT_KEYS if ORDER has the number of a missing record (rule 27). Any thread. */
RS_NODISCARD static inline rs_status rs_mapping_records(const rs_mapping *self, uint64_t entry, uint64_t *key,
                                                        uint64_t *value, rs_error *err) {
    if (RS_LIKELY(self->order == NULL)) {
        *key = *value = entry;
        return RS_OK;
    }
    const uint8_t *e = self->order + 2 * self->order_width * entry;
    *key = rs_load_uint_unchecked(e, self->order_width);
    *value = rs_load_uint_unchecked(e + self->order_width, self->order_width);
    if (RS_UNLIKELY(*key >= self->keys.header.n_records || *value >= self->keys.header.n_records)) {
        rs_mapping_bad_order(self, entry, err);
        return RS_E_FMT_KEYS;
    }
    return RS_OK;
}
