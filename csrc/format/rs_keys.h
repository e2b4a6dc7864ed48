/* rs_keys.h: the hash table of a mapping: from the hash of a key to the entries that may have it. The same bytes serve
 * as the section KEY_INDEX and as a table in process memory.
 *
 * Open addressing with linear probing over 4- or 8-byte slots at a load of 5/8: a slot holds an entry's number plus 1
 * and, in the bits that are left, check bits, so that a key that is not there seldom costs the reading of another.
 * The home comes from the high bits of the hash and the check bits from its low ones: neighbours share the former. The
 * table neither knows nor compares keys: that is the caller's, who has them. */
#ifndef RS_KEYS_H
#define RS_KEYS_H

#include "base/rs_buffer.h"
#include "base/rs_bytes.h"
#include "base/rs_hash.h"
#include "base/rs_status.h"
#include "format/rs_format.h"

/* A parsed table. Borrows the bytes it was opened on; plain values. Reading is free to every thread. */
typedef struct rs_keys {
    const uint8_t *slots;
    const uint8_t *opaque;   /* n_opaque numbers of 8 bytes */
    uint64_t offset;         /* of the table in its segment, for error positions */
    uint64_t seed;
    uint64_t n_entries;
    uint64_t n_slots;
    uint64_t n_opaque;
    uint64_t longest_probe;
    uint64_t index_mask;
    uint64_t check_mask;
    uint32_t slot_width;
    uint32_t index_bits;
    uint32_t factory;        /* RS_FMT_FACTORY_* */
} rs_keys;

/* Bytes of a number in the section ORDER. */
static inline uint32_t rs_keys_order_width(uint64_t n_records) { return n_records <= UINT32_MAX ? 4 : 8; }

/* Rules 24 and 25 of FORMAT.md: parses a whole table. `bytes` outlives `out`; `offset` is where it stands in the
 * segment, for error positions only (0 for a table in process memory). Any thread. */
RS_NODISCARD rs_status rs_keys_open(rs_slice bytes, uint64_t offset, rs_keys *out, rs_error *err);

/* Appends to `out` (whose size must be a multiple of 8) the table of n entries whose keys hash to `hashes`. `opaque`
 * is NULL or n bytes, not 0 for an entry without a canonical form, whose hash is not looked at. The same arguments
 * give the same bytes. n is at most RS_FMT_RECORDS and `factory` at most RS_FMT_FACTORY_LAST, else RS_E_ARG_RANGE.
 * On failure `out` is as it was. Needs no lock. */
RS_NODISCARD rs_status rs_keys_build(const uint64_t *hashes, const uint8_t *opaque, uint64_t n, uint64_t seed,
                                     uint32_t factory, rs_buffer *out, rs_error *err);

/* Finds records that probably have the same key: appends to `pairs`, for each record whose hash an earlier one has,
 * two u64: the first record with the hash, then this one; ascending in the second. So records that share a hash all
 * name the first of them. The caller compares the keys: equal hashes of unequal keys are rare, not impossible.
 * `opaque` as above: such records are left out. Takes some 7 bytes a record for the time of the call. Needs no lock. */
RS_NODISCARD rs_status rs_keys_find_twins(const uint64_t *hashes, const uint8_t *opaque, uint64_t n, rs_buffer *pairs,
                                          rs_error *err);

/* ---- Lookup ---- */

/* Where a lookup stands. Plain values. */
typedef struct rs_key_probe {
    uint64_t slot;
    uint64_t left;        /* slots that may still be looked at */
    uint64_t check_bits;
} rs_key_probe;

static inline rs_key_probe rs_key_probe_begin(const rs_keys *keys, uint64_t hash) {
    rs_key_probe p;
    p.slot = rs_hash_scale(hash, keys->n_slots);
    p.left = keys->longest_probe;
    p.check_bits = hash & keys->check_mask;
    return p;
}

static inline uint64_t rs_keys_slot_unchecked(const rs_keys *keys, uint64_t slot) {
    return keys->slot_width == 4 ? rs_load_u32(keys->slots + 4 * slot) : rs_load_u64(keys->slots + 8 * slot);
}

/* Failing path, out of line. */
RS_COLD void rs_keys_bad_slot(const rs_keys *keys, uint64_t slot, rs_error *err);

/* The next entry that may have the key, RS_NOWHERE when there is none. Each slot is loaded once; RS_E_FMT_KEYS for
 * one that names no entry. Ends after longest_probe slots whatever the bytes say. Any thread. */
RS_NODISCARD static inline rs_status rs_key_probe_next(const rs_keys *keys, rs_key_probe *self, uint64_t *entry,
                                                       rs_error *err) {
    while (self->left > 0) {
        uint64_t slot = self->slot, value = rs_keys_slot_unchecked(keys, slot), index;
        self->left--;
        self->slot = slot + 1 == keys->n_slots ? 0 : slot + 1;
        if (value == 0) break;
        index = (value & keys->index_mask) - 1;
        if (RS_UNLIKELY(index >= keys->n_entries)) {
            rs_keys_bad_slot(keys, slot, err);
            return RS_E_FMT_KEYS;
        }
        if (value >> keys->index_bits == self->check_bits) {
            *entry = index;
            return RS_OK;
        }
    }
    self->left = 0;
    *entry = RS_NOWHERE;
    return RS_OK;
}

/* Asks for the home slot of a hash ahead of its lookup. */
static inline void rs_keys_prefetch(const rs_keys *keys, uint64_t hash) {
    RS_PREFETCH(keys->slots + keys->slot_width * rs_hash_scale(hash, keys->n_slots));
}

/* The i-th opaque entry, i below n_opaque; RS_E_FMT_KEYS when it is none. Any thread. */
RS_NODISCARD rs_status rs_keys_opaque_entry(const rs_keys *keys, uint64_t i, uint64_t *entry, rs_error *err);

/* ---- Hashes of scalar keys; for the others the caller makes the canonical form and takes rs_hash64 of it
 * ---- */

/* A str of n units of unit_bytes (1, 2, 4), which must be the narrowest that holds it. Any thread. */
uint64_t rs_keys_hash_str(uint64_t seed, unsigned unit_bytes, const void *units, uint64_t n);
/* An int of 64 bits, and with it any number equal to it. Any thread. */
uint64_t rs_keys_hash_int(uint64_t seed, int64_t value);
uint64_t rs_keys_hash_bytes(uint64_t seed, const void *bytes, uint64_t n);

#endif
