/* rs_mapping.h: a mapping is two stores in one segment, values and keys, with a table that finds the entry of a key
 * and, where keys came twice, the order of the entries that live. This is its reader; rs_mapping_builder.h makes one.
 * Composition only. The caller hashes and compares keys. */
#ifndef RS_MAPPING_H
#define RS_MAPPING_H

#include "format/rs_keys.h"
#include "read/rs_store.h"

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

#endif
