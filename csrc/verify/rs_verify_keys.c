/* rs_verify_keys.c: the deep check of a key index. It makes the canonical forms of scalar keys itself (FORMAT.md,
 * Keys). */
#include "verify/rs_verify.h"

#include <stdlib.h>

/* Whether this file can hash a key: yes; only Python can; never, because it has no canonical form (NaN). */
typedef enum form { FORM_KNOWN, FORM_OTHER, FORM_NONE } form;

static rs_status bad_entry(rs_error *err, uint64_t entry, const char *message) {
    return rs_error_set(err, RS_E_FMT_KEYS, RS_NOWHERE, "key index: entry %llu %s", (unsigned long long)entry, message);
}

/* Turns a float that equals a 64-bit int into the int, and returns whether the key can be hashed. */
static form normalize(rs_scalar *key) {
    if (key->kind == RS_SCALAR_FLOAT) {
        double d = key->number;
        if (d != d) return FORM_NONE;
        if (d >= -9223372036854775808.0 && d < 9223372036854775808.0 && d == (double)(int64_t)d) {
            key->kind = RS_SCALAR_INT;
            key->integer = (int64_t)d;
        } else if ((d > 9007199254740992.0 || d < -9007199254740992.0) && d - d == 0.0) {
            return FORM_OTHER; /* equal to an int beyond 64 bits */
        }
    }
    return key->kind == RS_SCALAR_UNKNOWN || key->kind == RS_SCALAR_BIGINT || key->kind == RS_SCALAR_TUPLE ? FORM_OTHER
                                                                                                           : FORM_KNOWN;
}

static uint32_t unit_at(const rs_scalar *s, uint64_t i) {
    if (s->unit_bytes == 1) return s->units[i];
    return s->unit_bytes == 2 ? rs_load_u16(s->units + 2 * i) : rs_load_u32(s->units + 4 * i);
}

static rs_status hash_str(const rs_scalar *s, uint64_t seed, rs_buffer *scratch, uint64_t *hash, rs_error *err) {
    uint32_t widest = rs_decode_widest_unchecked(s->units, s->n, s->unit_bytes), unit;
    unsigned width = widest < 0x100 ? 1 : widest < 0x10000 ? 2 : 4;
    if (width == s->unit_bytes) {
        *hash = rs_keys_hash_str(seed, width, s->units, s->n);
        return RS_OK;
    }
    scratch->size_bytes = 0;
    RS_TRY(rs_buffer_reserve(scratch, (size_t)(s->n * width), err));
    for (uint64_t i = 0; i < s->n; i++) {
        unit = unit_at(s, i);
        memcpy(scratch->data + i * width, &unit, width);
    }
    *hash = rs_keys_hash_str(seed, width, scratch->data, s->n);
    return RS_OK;
}

static rs_status hash_scalar(const rs_scalar *s, uint64_t seed, rs_buffer *scratch, uint64_t *hash, rs_error *err) {
    uint8_t small[9] = {RS_FMT_TAG_NONE};
    switch (s->kind) {
    case RS_SCALAR_STR: return hash_str(s, seed, scratch, hash, err);
    case RS_SCALAR_BYTES: *hash = rs_keys_hash_bytes(seed, s->units, s->n); return RS_OK;
    case RS_SCALAR_INT: *hash = rs_keys_hash_int(seed, s->integer); return RS_OK;
    case RS_SCALAR_FLOAT:
        small[0] = RS_FMT_TAG_FLOAT;
        rs_store_f64(small + 1, s->number);
        *hash = rs_hash64(small, 9, seed);
        return RS_OK;
    default: *hash = rs_hash64(small, 1, seed); return RS_OK;
    }
}

/* Returns whether two normalized keys of FORM_KNOWN are equal. */
static bool same_scalar(const rs_scalar *a, const rs_scalar *b) {
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case RS_SCALAR_INT: return a->integer == b->integer;
    case RS_SCALAR_FLOAT: return a->number == b->number;
    case RS_SCALAR_BYTES: return a->n == b->n && (a->n == 0 || memcmp(a->units, b->units, (size_t)a->n) == 0);
    case RS_SCALAR_STR:
        if (a->n != b->n) return false;
        for (uint64_t i = 0; i < a->n; i++) {
            if (unit_at(a, i) != unit_at(b, i)) return false;
        }
        return true;
    default: return true;
    }
}

/* Looks up the key of `entry`. Of the entries with an equal key, the probe must reach this entry first. *steps is the
 * number of slots that the check may still read. */
static rs_status look_up(rs_mapping *self, uint64_t entry, uint64_t hash, const rs_scalar *key, uint64_t *steps,
                         rs_error *err) {
    rs_key_probe probe = rs_key_probe_begin(&self->index, hash);
    for (;;) {
        uint64_t found, record, value;
        rs_scalar other;
        RS_TRY(rs_key_probe_next_counted(&self->index, &probe, &found, steps, err));
        if (found == entry) return RS_OK;
        if (found == RS_NOWHERE) return bad_entry(err, entry, "is not found by its key");
        RS_TRY(rs_mapping_records(self, found, &record, &value, err));
        rs_store_scalar(&self->keys, record, &other);
        if (normalize(&other) == FORM_KNOWN && same_scalar(key, &other)) {
            return bad_entry(err, entry, "has the same key as another entry");
        }
    }
}

static rs_status check_entry(rs_mapping *self, uint64_t entry, bool is_opaque, rs_buffer *scratch, uint64_t *steps,
                             rs_error *err) {
    uint64_t record, value, hash;
    rs_scalar key;
    rs_status status;
    RS_TRY(rs_mapping_records(self, entry, &record, &value, err));
    if (is_opaque) return RS_OK;
    rs_store_scalar(&self->keys, record, &key);
    switch (normalize(&key)) {
    case FORM_NONE: status = bad_entry(err, entry, "has the key NaN and is not among the opaque entries"); break;
    case FORM_OTHER: return RS_OK;
    default:
        RS_TRY(hash_scalar(&key, self->index.seed, scratch, &hash, err));
        status = look_up(self, entry, hash, &key, steps, err);
    }
    if (status != RS_OK && err != NULL) err->record = record;
    return status;
}

rs_status rs_verify_slots(const rs_keys *keys, uint8_t *seen, rs_watch *watch, rs_error *err) {
    uint64_t entry, last = 0;
    for (uint64_t i = 0; i < keys->n_opaque; i++) {
        RS_TRY(rs_keys_opaque_entry(keys, i, &entry, err));
        if (i > 0 && entry <= last) return bad_entry(err, entry, "is out of order among the opaque entries");
        last = entry;
        seen[entry] = RS_SEEN_OPAQUE;
    }
    for (uint64_t i = 0; i < keys->n_slots; i++) {
        RS_TRY(rs_watch_count(watch, 1, err));
        uint64_t slot = rs_keys_slot_unchecked(keys, i);
        if (slot == 0) continue;
        entry = (slot & keys->index_mask) - 1;
        if (entry >= keys->n_entries) {
            rs_keys_bad_slot(keys, i, err);
            return RS_E_FMT_KEYS;
        }
        if (seen[entry] != 0) return bad_entry(err, entry, "has two slots, or one although it is opaque");
        seen[entry] = RS_SEEN_SLOT;
    }
    for (uint64_t i = 0; i < keys->n_entries; i++) {
        if (seen[i] == 0) return bad_entry(err, i, "has no slot and is not opaque");
    }
    for (const uint8_t *p = keys->slots + keys->n_slots * keys->slot_width; p < keys->opaque; p++) {
        if (*p != 0) {
            return rs_error_set(err, RS_E_FMT_KEYS, RS_NOWHERE, "key index: bytes after the slots are not zero");
        }
    }
    return RS_OK;
}

static rs_status check_order(const rs_mapping *self, rs_watch *watch, rs_error *err) {
    uint64_t key, value, last = 0;
    if (self->order == NULL) return RS_OK;
    for (uint64_t i = 0; i < self->n_entries; i++) {
        RS_TRY(rs_watch_count(watch, 1, err));
        RS_TRY(rs_mapping_records(self, i, &key, &value, err));
        if (i > 0 && key <= last) {
            rs_mapping_bad_order(self, i, err);
            return RS_E_FMT_KEYS;
        }
        last = key;
    }
    return RS_OK;
}

rs_status rs_verify_keys(rs_mapping *self, rs_watch *watch, rs_error *err) {
    uint8_t *seen = (uint8_t *)calloc((size_t)self->n_entries + 1, 1);
    rs_buffer scratch = {0};
    uint64_t steps = rs_keys_steps(&self->index);
    if (seen == NULL) return rs_no_memory(err);
    rs_status status = rs_verify_slots(&self->index, seen, watch, err);
    if (status == RS_OK) status = check_order(self, watch, err);
    for (uint64_t i = 0; status == RS_OK && i < self->n_entries; i++) {
        /* A lookup may read some dozens of slots. */
        status = rs_watch_count(watch, 64, err);
        if (status == RS_OK) status = check_entry(self, i, seen[i] == RS_SEEN_OPAQUE, &scratch, &steps, err);
    }
    rs_buffer_clear(&scratch);
    free(seen);
    return status;
}
