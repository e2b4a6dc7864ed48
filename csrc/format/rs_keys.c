/* rs_keys.c: builds and opens key indexes, and hashes scalar keys. The rules are in FORMAT.md. */
#include "format/rs_keys.h"

#include <stdlib.h>

enum { LOOK_AHEAD = 16 }; /* number of keys between prefetching a slot and using it */

static uint64_t slots_for(uint64_t n) { return (8 * n + 4) / 5; }

static uint32_t width_for(uint64_t n) { return n <= UINT32_MAX ? 4 : 8; }

static uint64_t low_mask(uint32_t bits) { return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1; }

/* ---- Parsing ---- */

static rs_status bad_keys(rs_error *err, uint64_t offset, const char *message) {
    return rs_error_set(err, RS_E_FMT_KEYS, offset, "key index: %s", message);
}

rs_status rs_keys_open(rs_slice bytes, uint64_t offset, rs_keys *out, rs_error *err) {
    uint8_t h[RS_FMT_KEYS_HEAD_SIZE];
    uint64_t size = rs_slice_left(&bytes);
    if (size < sizeof h) return rs_error_set(err, RS_E_FMT_TRUNCATED, offset, "the key index is shorter than its head");
    memcpy(h, bytes.ptr, sizeof h); /* the mapped bytes may change, so one copy is checked and used */
    out->offset = offset;
    out->seed = rs_load_u64(h + RS_FMT_K_SEED);
    out->n_entries = rs_load_u64(h + RS_FMT_K_N_ENTRIES);
    out->n_slots = rs_load_u64(h + RS_FMT_K_N_SLOTS);
    out->n_opaque = rs_load_u64(h + RS_FMT_K_N_OPAQUE);
    out->longest_probe = rs_load_u64(h + RS_FMT_K_LONGEST_PROBE);
    out->slot_width = rs_load_u32(h + RS_FMT_K_SLOT_WIDTH);
    out->index_bits = rs_load_u32(h + RS_FMT_K_INDEX_BITS);
    out->factory = rs_load_u32(h + RS_FMT_K_FACTORY);
    if (rs_load_u32(h + RS_FMT_K_RESERVED) != 0 || rs_load_u64(h + RS_FMT_K_RESERVED + 4) != 0) {
        return rs_error_set(err, RS_E_FMT_RESERVED, offset + RS_FMT_K_RESERVED,
                            "key index: a reserved field is not zero");
    }
    if (out->factory > RS_FMT_FACTORY_LAST) {
        return rs_error_set(err, RS_E_FMT_VERSION, offset + RS_FMT_K_FACTORY,
                            "this reader does not know the default factory %u", out->factory);
    }
    /* With at most 2^48 entries no product or sum below overflows. */
    if (out->n_entries > RS_FMT_RECORDS || out->n_opaque > out->n_entries) {
        return bad_keys(err, offset + RS_FMT_K_N_ENTRIES, "the number of entries or of opaque entries is out of range");
    }
    if (out->n_slots != slots_for(out->n_entries - out->n_opaque)) {
        return bad_keys(err, offset + RS_FMT_K_N_SLOTS, "the number of slots does not fit the number of entries");
    }
    if (out->longest_probe > out->n_slots || (out->longest_probe == 0) != (out->n_slots == 0)) {
        return bad_keys(err, offset + RS_FMT_K_LONGEST_PROBE, "the longest probe is out of range");
    }
    if (out->slot_width != width_for(out->n_entries) || out->index_bits != rs_bit_width(out->n_entries)) {
        return bad_keys(err, offset + RS_FMT_K_SLOT_WIDTH, "slot width or index bits do not fit the number of entries");
    }
    uint64_t slots_size = rs_align_up(out->n_slots * out->slot_width, 8);
    if (size - sizeof h < slots_size || (size - sizeof h - slots_size) / 8 != out->n_opaque || size % 8 != 0) {
        return bad_keys(err, offset, "the size of the section does not match head, slots and opaque numbers");
    }
    out->slots = bytes.ptr + sizeof h;
    out->opaque = out->slots + slots_size;
    out->index_mask = low_mask(out->index_bits);
    out->check_mask = low_mask(8 * out->slot_width - out->index_bits);
    return RS_OK;
}

void rs_keys_bad_slot(const rs_keys *keys, uint64_t slot, rs_error *err) {
    (void)rs_error_set(err, RS_E_FMT_KEYS, keys->offset + RS_FMT_KEYS_HEAD_SIZE + slot * keys->slot_width,
                       "key index: slot %llu of %llu has the number of a missing entry", (unsigned long long)slot,
                       (unsigned long long)keys->n_slots);
}

rs_status rs_keys_opaque_entry(const rs_keys *keys, uint64_t i, uint64_t *entry, rs_error *err) {
    RS_ASSERT(i < keys->n_opaque);
    *entry = rs_load_u64(keys->opaque + 8 * i);
    if (*entry < keys->n_entries) return RS_OK;
    return bad_keys(err, keys->offset + (uint64_t)(keys->opaque - keys->slots) + RS_FMT_KEYS_HEAD_SIZE + 8 * i,
                    "an opaque number is out of range");
}

rs_status rs_key_probe_next_counted(const rs_keys *keys, rs_key_probe *self, uint64_t *entry, uint64_t *steps,
                                    rs_error *err) {
    const uint64_t first = self->slot;
    RS_TRY(rs_key_probe_next(keys, self, entry, err));
    uint64_t n_read = self->slot >= first ? self->slot - first : keys->n_slots - first + self->slot;
    if (n_read > *steps) return bad_keys(err, keys->offset, "its keys are too far from their first slots");
    *steps -= n_read;
    return RS_OK;
}

/* ---- Building ---- */

/* Returns whether entry i has a slot. */
static bool has_slot(const uint8_t *opaque, uint64_t i) { return opaque == NULL || opaque[i] == 0; }

static uint64_t count_opaque(const uint8_t *opaque, uint64_t n) {
    uint64_t count = 0;
    if (opaque != NULL) {
        for (uint64_t i = 0; i < n; i++) count += opaque[i] != 0;
    }
    return count;
}

static void write_head(const rs_keys *k, uint8_t *h) {
    memset(h, 0, RS_FMT_KEYS_HEAD_SIZE);
    rs_store_u64(h + RS_FMT_K_SEED, k->seed);
    rs_store_u64(h + RS_FMT_K_N_ENTRIES, k->n_entries);
    rs_store_u64(h + RS_FMT_K_N_SLOTS, k->n_slots);
    rs_store_u64(h + RS_FMT_K_N_OPAQUE, k->n_opaque);
    rs_store_u64(h + RS_FMT_K_LONGEST_PROBE, k->longest_probe);
    rs_store_u32(h + RS_FMT_K_SLOT_WIDTH, k->slot_width);
    rs_store_u32(h + RS_FMT_K_INDEX_BITS, k->index_bits);
    rs_store_u32(h + RS_FMT_K_FACTORY, k->factory);
}

/* Returns the first empty slot for the hash. A table is never full. Sets *steps to the number of slots read. */
static uint64_t free_slot(const rs_keys *k, uint64_t hash, uint64_t *steps) {
    uint64_t slot = rs_hash_scale(hash, k->n_slots);
    *steps = 1;
    while (rs_keys_slot_unchecked(k, slot) != 0) {
        slot = slot + 1 == k->n_slots ? 0 : slot + 1;
        (*steps)++;
    }
    return slot;
}

rs_status rs_keys_build(const uint64_t *hashes, const uint8_t *opaque, uint64_t n, uint64_t seed, uint32_t factory,
                        rs_buffer *out, rs_error *err) {
    RS_ASSERT(out->size_bytes % 8 == 0);
    if (n > RS_FMT_RECORDS || factory > RS_FMT_FACTORY_LAST) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "a key index cannot have %llu keys and default factory %u",
                            (unsigned long long)n, factory);
    }
    rs_keys k = {0};
    k.seed = seed;
    k.n_entries = n;
    k.n_opaque = count_opaque(opaque, n);
    k.n_slots = slots_for(n - k.n_opaque);
    k.slot_width = width_for(n);
    k.index_bits = rs_bit_width(n);
    k.factory = factory;
    k.check_mask = low_mask(8 * k.slot_width - k.index_bits);
    uint64_t slots_size = rs_align_up(k.n_slots * k.slot_width, 8);
    RS_TRY(rs_buffer_append_zeros(out, (size_t)(RS_FMT_KEYS_HEAD_SIZE + slots_size + 8 * k.n_opaque), err));
    uint8_t *numbers = out->data + out->size_bytes - 8 * k.n_opaque;
    uint8_t *slots = numbers - slots_size;
    uint8_t *head = slots - RS_FMT_KEYS_HEAD_SIZE;
    k.slots = slots;
    for (uint64_t i = 0; i < n; i++) {
        if (i + LOOK_AHEAD < n && k.n_slots != 0) rs_keys_prefetch(&k, hashes[i + LOOK_AHEAD]);
        if (has_slot(opaque, i)) {
            uint64_t steps, slot = free_slot(&k, hashes[i], &steps);
            uint64_t value = (hashes[i] & k.check_mask) << k.index_bits | (i + 1);
            memcpy(slots + slot * k.slot_width, &value, k.slot_width);
            if (steps > k.longest_probe) k.longest_probe = steps;
        } else {
            rs_store_u64(numbers, i);
            numbers += 8;
        }
    }
    write_head(&k, head);
    return RS_OK;
}

static rs_status append_pair(rs_buffer *pairs, uint64_t first, uint64_t later, rs_error *err) {
    uint8_t pair[16];
    rs_store_u64(pair, first);
    rs_store_u64(pair + 8, later);
    return rs_buffer_append(pairs, pair, sizeof pair, err);
}

/* A slot holds the number of a record plus 1. A hash is added only once, so the time for a key with n records is linear
 * in n, not quadratic. */
static rs_status collect_twins(rs_keys *k, uint8_t *slots, const uint64_t *hashes, const uint8_t *opaque,
                               rs_buffer *pairs, rs_error *err) {
    uint64_t n = k->n_entries;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t value;
        if (i + LOOK_AHEAD < n) rs_keys_prefetch(k, hashes[i + LOOK_AHEAD]);
        if (!has_slot(opaque, i)) continue;
        uint64_t slot = rs_hash_scale(hashes[i], k->n_slots);
        while ((value = rs_keys_slot_unchecked(k, slot)) != 0 && hashes[value - 1] != hashes[i]) {
            slot = slot + 1 == k->n_slots ? 0 : slot + 1;
        }
        if (value != 0) {
            RS_TRY(append_pair(pairs, value - 1, i, err));
        } else {
            value = i + 1;
            memcpy(slots + slot * k->slot_width, &value, k->slot_width);
        }
    }
    return RS_OK;
}

rs_status rs_keys_find_twins(const uint64_t *hashes, const uint8_t *opaque, uint64_t n, rs_buffer *pairs,
                             rs_error *err) {
    if (n > RS_FMT_RECORDS) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "%llu keys are too many", (unsigned long long)n);
    }
    if (n == 0) return RS_OK;
    rs_keys k = {0};
    k.n_entries = n;
    k.n_slots = slots_for(n);
    k.slot_width = width_for(n);
    uint8_t *slots = (uint8_t *)calloc((size_t)k.n_slots, k.slot_width);
    if (slots == NULL) return rs_no_memory(err);
    k.slots = slots;
    rs_status status = collect_twins(&k, slots, hashes, opaque, pairs, err);
    free(slots);
    return status;
}

/* ---- Hashes ---- */

uint64_t rs_keys_hash_str(uint64_t seed, unsigned unit_bytes, const void *units, uint64_t n) {
    uint8_t head[1 + 10];
    head[0] = (uint8_t)(unit_bytes == 1 ? RS_FMT_TAG_STR1 : unit_bytes == 2 ? RS_FMT_TAG_STR2 : RS_FMT_TAG_STR4);
    return rs_hash64_headed(head, 1 + rs_put_varint(head + 1, n), units, n * unit_bytes, seed);
}

uint64_t rs_keys_hash_bytes(uint64_t seed, const void *bytes, uint64_t n) {
    uint8_t head[1 + 10];
    head[0] = RS_FMT_TAG_BYTES;
    return rs_hash64_headed(head, 1 + rs_put_varint(head + 1, n), bytes, n, seed);
}

uint64_t rs_keys_hash_int(uint64_t seed, int64_t value) {
    uint8_t form[9];
    unsigned size = 8;
    if (value >= RS_FMT_SMALL_MIN && value <= RS_FMT_SMALL_MAX) {
        form[0] = (uint8_t)(RS_FMT_TAG_ZERO + value);
        return rs_hash64(form, 1, seed);
    }
    form[0] = RS_FMT_TAG_INT64;
    if (value >= INT8_MIN && value <= INT8_MAX) {
        form[0] = RS_FMT_TAG_INT8, size = 1;
    } else if (value >= INT16_MIN && value <= INT16_MAX) {
        form[0] = RS_FMT_TAG_INT16, size = 2;
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
        form[0] = RS_FMT_TAG_INT32, size = 4;
    }
    rs_store_u64(form + 1, (uint64_t)value);
    return rs_hash64(form, 1 + size, seed);
}
