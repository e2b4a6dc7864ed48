/* rs_keys.h: the key index of a mapping, a hash table from the hash of a key to the entries that may have the key. The
 * section KEY_INDEX has the same bytes as a table in process memory.
 *
 * The table has open addressing with linear probing, slots of 4 or 8 bytes, and a load of at most 5/8. A slot holds the
 * number of an entry plus 1 and, in its other bits, check bits of the hash, so that looking up a missing key rarely
 * reads another key. The first slot of a hash comes from its high bits and the check bits from its low bits, because
 * hashes in adjacent slots often share the high bits. The table has no keys: the caller compares them. */
#pragma once

#include "base/rs_buffer.h"
#include "base/rs_bytes.h"
#include "base/rs_hash.h"
#include "base/rs_status.h"
#include "format/rs_format.h"

/* An open key index. Borrows the bytes that it was opened on. Any number of threads may read it. */
typedef struct rs_keys {
    const uint8_t *slots;
    const uint8_t *opaque; /* n_opaque numbers of 8 bytes */
    uint64_t offset;       /* of the index in its segment, for error positions */
    uint64_t seed;
    uint64_t n_entries;
    uint64_t n_slots;
    uint64_t n_opaque;
    uint64_t longest_probe;
    uint64_t index_mask;
    uint64_t check_mask;
    uint32_t slot_width;
    uint32_t index_bits;
    uint32_t factory; /* RS_FMT_FACTORY_* */
} rs_keys;

/* Returns the bytes of a number in the section ORDER. */
static inline uint32_t rs_keys_order_width(uint64_t n_records) { return n_records <= UINT32_MAX ? 4 : 8; }

/* Opens a key index and checks rules 24 and 25 of FORMAT.md. `bytes` must outlive `out`. `offset` is their offset in
 * the segment, for error positions only; 0 for a table in process memory. Any thread. */
RS_NODISCARD rs_status rs_keys_open(rs_slice bytes, uint64_t offset, rs_keys *out, rs_error *err);

/* Appends the key index of n entries to `out`, whose size must be a multiple of 8. hashes[e] is the hash of the key of
 * entry e. `opaque` is NULL, or n bytes that are not 0 for keys without a canonical form, whose hashes are ignored. The
 * same arguments give the same bytes. RS_E_ARG_RANGE when n is above RS_FMT_RECORDS or `factory` above
 * RS_FMT_FACTORY_LAST; RS_E_MEM. On failure `out` is unchanged. Needs no lock. */
RS_NODISCARD rs_status rs_keys_build(const uint64_t *hashes, const uint8_t *opaque, uint64_t n, uint64_t seed,
                                     uint32_t factory, rs_buffer *out, rs_error *err);

/* Finds records that may share a key. For each record with the hash of an earlier record, appends two u64 to `pairs`:
 * the first record with the hash, then this record. The second numbers ascend. The caller compares the keys, because
 * different keys may have equal hashes. Skips `opaque` records, as above. Takes about 7 bytes of memory per record
 * during the call. RS_E_ARG_RANGE when n is above RS_FMT_RECORDS; RS_E_MEM. Needs no lock. */
RS_NODISCARD rs_status rs_keys_find_twins(const uint64_t *hashes, const uint8_t *opaque, uint64_t n, rs_buffer *pairs,
                                          rs_error *err);

/* ---- Lookup ---- */

/* The state of a lookup. Owns nothing. */
typedef struct rs_key_probe {
    uint64_t slot; /* the next slot */
    uint64_t left; /* the number of slots that may still be read */
    uint64_t check_bits;
} rs_key_probe;

/* Begins the lookup of a hash. */
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

/* Fills `err` for a slot with the number of a missing entry; out of line because it is rare. */
RS_COLD void rs_keys_bad_slot(const rs_keys *keys, uint64_t slot, rs_error *err);

/* Sets *entry to the next entry that may have the key, or RS_NOWHERE. RS_E_FMT_KEYS for a slot with the number of a
 * missing entry. Each slot is loaded once, and a lookup ends after longest_probe slots, even if the bytes change. Any
 * thread, each with a probe of its own. */
RS_NODISCARD static inline rs_status rs_key_probe_next(const rs_keys *keys, rs_key_probe *self, uint64_t *entry,
                                                       rs_error *err) {
    while (self->left > 0) {
        uint64_t slot = self->slot, value = rs_keys_slot_unchecked(keys, slot);
        self->left--;
        self->slot = slot + 1 == keys->n_slots ? 0 : slot + 1;
        if (value == 0) break;
        uint64_t index = (value & keys->index_mask) - 1;
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

/* Returns how many slots a check may read to look up every entry once (rule 45). */
static inline uint64_t rs_keys_steps(const rs_keys *keys) { return (keys->n_slots + 1) * RS_FMT_PROBE_MEAN; }
/* As rs_key_probe_next, and subtracts the slots it reads from *steps. RS_E_FMT_KEYS if it reads more than *steps. */
RS_NODISCARD rs_status rs_key_probe_next_counted(const rs_keys *keys, rs_key_probe *self, uint64_t *entry,
                                                 uint64_t *steps, rs_error *err);

/* Prefetches the first slot of a hash. n_slots must not be 0. */
static inline void rs_keys_prefetch(const rs_keys *keys, uint64_t hash) {
    RS_PREFETCH(keys->slots + keys->slot_width * rs_hash_scale(hash, keys->n_slots));
}

/* Sets *entry to opaque number i, which is below n_opaque. RS_E_FMT_KEYS for a missing entry. Any thread. */
RS_NODISCARD rs_status rs_keys_opaque_entry(const rs_keys *keys, uint64_t i, uint64_t *entry, rs_error *err);

/* ---- Hashes of scalar keys. For other keys the caller makes the canonical form and calls rs_hash64. ---- */

/* Each returns the hash of the canonical form of a key. Any thread. A str has n units of unit_bytes (1, 2 or 4), the
 * narrowest that can hold it. All numbers equal to an int have the same hash. `units` and `bytes` may be NULL when n is
 * 0. */
uint64_t rs_keys_hash_str(uint64_t seed, unsigned unit_bytes, const void *units, uint64_t n);
uint64_t rs_keys_hash_int(uint64_t seed, int64_t value);
uint64_t rs_keys_hash_bytes(uint64_t seed, const void *bytes, uint64_t n);
