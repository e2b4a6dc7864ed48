/* rs_scan.c: the first pass over a block's raw records. */
#include "plan/rs_scan.h"

#include <stdlib.h>

void rs_scan_clear(rs_scan *self) {
    free(self->key_sets);
    memset(self, 0, sizeof *self);
}

void rs_scan_reset(rs_scan *self) {
    self->n_key_sets = 0;
    self->next = 0;
}

static rs_status add_key_set(rs_scan *self, size_t *index, rs_error *err) {
    if (self->n_key_sets == self->capacity) {
        size_t capacity = self->capacity < 512 ? 1024 : self->capacity * 2;
        uint64_t *key_sets = (uint64_t *)realloc(self->key_sets, capacity * sizeof *key_sets);
        if (key_sets == NULL) return rs_no_memory(err);
        self->key_sets = key_sets;
        self->capacity = capacity;
    }
    *index = self->n_key_sets++;
    return RS_OK;
}

rs_status rs_scan_add_key_set(rs_scan *self, uint64_t hash, rs_error *err) {
    size_t index = 0;
    RS_TRY(add_key_set(self, &index, err));
    self->key_sets[index] = hash;
    return RS_OK;
}

static rs_status scan_array(rs_scan *self, rs_slice *in, uint64_t arrays_size, rs_error *err) {
    rs_array_type type;
    rs_slice shape;
    uint64_t size, outside;
    in->ptr++;
    RS_TRY(rs_array_skip(in, arrays_size, &type, &shape, &size, &outside, err));
    if (type.code >= RS_FMT_DTYPE_STRUCT) self->features |= RS_FMT_FEATURE_DTYPES;
    if (type.width != 0) self->features |= RS_FMT_FEATURE_NARROW;
    return RS_OK;
}

/* Takes a value without elements off `in` if only its end needs a check. Else returns false and takes nothing. */
static inline bool take_plain(rs_slice *in) {
    const uint8_t *p = in->ptr;
    size_t left = rs_slice_left(in), size = 1;
    if (RS_UNLIKELY(left < 2)) return false;
    if (rs_tag_is_int64(*p)) size = rs_any_int_size(*p);
    else if (*p == RS_FMT_TAG_STR1 || *p == RS_FMT_TAG_BYTES) size = p[1] < 0x80 ? 2 + (size_t)p[1] : SIZE_MAX;
    else if (*p == RS_FMT_TAG_FLOAT) size = 9;
    else if (*p > RS_FMT_TAG_TRUE) return false;
    if (RS_UNLIKELY(size > left)) return false;
    in->ptr += size;
    return true;
}

static rs_status scan_value(rs_scan *self, rs_slice *in, uint64_t arrays_size, rs_budget *budget, rs_error *err) {
    uint8_t tag = in->ptr == in->end ? RS_FMT_TAG_NONE : *in->ptr;
    uint64_t n, hash = RS_KEY_SET_SEED;
    size_t key_set = 0;
    if (tag == RS_FMT_TAG_NDARRAY) return scan_array(self, in, arrays_size, err);
    if (tag == RS_FMT_TAG_EXT) {
        rs_slice head;
        self->features |= RS_FMT_FEATURE_EXT;
        in->ptr++;
        RS_TRY(rs_any_ext_head(in, &head, err));
        if (*head.ptr == RS_FMT_EXT_LINE) self->features |= RS_FMT_FEATURE_LINE;
        return scan_value(self, in, arrays_size, budget, err);
    }
    if (tag != RS_FMT_TAG_LIST && tag != RS_FMT_TAG_TUPLE && tag != RS_FMT_TAG_DICT) {
        return rs_any_skip(in, arrays_size, budget, err);
    }
    in->ptr++;
    if (!rs_take_varint(in, &n) || n > rs_slice_left(in)) {
        return rs_error_set(err, RS_E_FMT_TRUNCATED, RS_NOWHERE, "a container ends too early");
    }
    if (budget->depth == 0 || n > budget->values) {
        return rs_error_set(err, RS_E_FMT_LIMIT, RS_NOWHERE, "nested deeper than %d levels, or too many values",
                            RS_FMT_DEPTH);
    }
    budget->values -= n;
    budget->depth--;
    if (RS_FMT_DEPTH - budget->depth > self->max_depth) self->max_depth = RS_FMT_DEPTH - budget->depth;
    if (tag == RS_FMT_TAG_DICT) RS_TRY(add_key_set(self, &key_set, err));
    for (uint64_t i = 0; i < n; i++) {
        if (tag == RS_FMT_TAG_DICT) {
            const uint8_t *key = in->ptr;
            size_t key_sets = self->n_key_sets;
            /* scan_value reads keys too, because tuples in them count towards the depth. A dict in a key would add a
             * key set that later walks do not expect, so such a key is an error. */
            if (!take_plain(in)) {
                if (!rs_any_may_be_key(*in)) key_sets = SIZE_MAX;
                RS_TRY(scan_value(self, in, arrays_size, budget, err));
            }
            if (self->n_key_sets != key_sets) {
                return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a dict has a key that cannot be hashed");
            }
            hash = rs_schema_hash_key(hash, key, (size_t)(in->ptr - key));
        }
        if (!take_plain(in)) RS_TRY(scan_value(self, in, arrays_size, budget, err));
    }
    if (tag == RS_FMT_TAG_DICT) self->key_sets[key_set] = hash;
    budget->depth++;
    return RS_OK;
}

void rs_scan_raise(rs_scan *self, uint64_t max_values, uint64_t max_bytes, uint32_t max_depth) {
    if (max_values > self->max_values) self->max_values = max_values;
    if (max_bytes > self->max_bytes) self->max_bytes = max_bytes;
    if (max_depth > self->max_depth) self->max_depth = max_depth;
}

void rs_scan_count_unchecked(rs_scan *self, uint64_t size_bytes, const rs_scan_counts *counts) {
    rs_scan_raise(self, counts->values, size_bytes, counts->depth);
    self->n_values += counts->values;
    self->features |= counts->features;
}

rs_status rs_scan_record(rs_scan *self, rs_slice record, uint64_t arrays_size, rs_error *err) {
    rs_budget budget = {.values = UINT64_MAX - 1, .depth = RS_FMT_DEPTH};
    uint64_t size = rs_slice_left(&record), features = self->features;
    uint32_t max_depth = self->max_depth;
    rs_status status = scan_value(self, &record, arrays_size, &budget, err);
    if (status == RS_OK && record.ptr != record.end) {
        status = rs_error_set(err, RS_E_FMT_TRAILING, RS_NOWHERE, "a record has more than one value");
    }
    if (status != RS_OK) {
        self->features = features;
        self->max_depth = max_depth;
        return status;
    }
    uint64_t values = UINT64_MAX - 1 - budget.values + 1;
    self->n_values += values;
    if (values > self->max_values) self->max_values = values;
    if (size > self->max_bytes) self->max_bytes = size;
    return RS_OK;
}

const uint8_t *rs_scan_end_unchecked(rs_slice in, size_t *dicts) {
    const uint8_t *end = rs_scan_plain_end_unchecked(in);
    uint64_t n;
    if (end != NULL) return end;
    uint8_t tag = *in.ptr++;
    switch (tag) {
    case RS_FMT_TAG_DICT:
    case RS_FMT_TAG_LIST:
    case RS_FMT_TAG_TUPLE:
        n = rs_scan_varint_unchecked(&in);
        if (tag == RS_FMT_TAG_DICT) n *= 2, ++*dicts;
        for (; n > 0; n--) in.ptr = rs_scan_end_unchecked(in, dicts);
        return in.ptr;
    case RS_FMT_TAG_EXT: {
        rs_slice head;
        if (rs_any_ext_head(&in, &head, NULL) != RS_OK) return in.end;
        return rs_scan_end_unchecked(in, dicts);
    }
    default: {
        rs_array_type type;
        rs_slice shape;
        uint64_t size, outside;
        if (rs_array_skip(&in, UINT64_MAX, &type, &shape, &size, &outside, NULL) != RS_OK) return in.end;
        return in.ptr;
    }
    }
}
