/* rs_any.h: the self-describing `any` values: tags, array types, and the walk that checks and skips one.
 * Both the writing and the reading side rest on it. */
#ifndef RS_ANY_H
#define RS_ANY_H

#include "base/rs_bytes.h"
#include "base/rs_status.h"
#include "format/rs_format.h"

/* Array flags, dtype and, where asked for, shape, as they stand in `any` values and in the aux of ndarray nodes. */
typedef struct rs_array_type {
    uint8_t flags;
    uint8_t code;         /* dtype code without the endian bit */
    bool big_endian;
    uint8_t unit;         /* datetime64, timedelta64 */
    uint64_t multiple;    /* of the unit */
    uint64_t item_bytes;
    rs_slice descriptor;  /* flags and dtype as stored; borrows */
} rs_array_type;

/* Takes array flags and dtype off `in`. Any thread. */
RS_NODISCARD rs_status rs_array_type_take(rs_slice *in, rs_array_type *out, rs_error *err);
/* Takes ndim and shape off `in` into dims (room for RS_FMT_ARRAY_NDIM) and computes the bytes of data. */
RS_NODISCARD rs_status rs_array_shape_take(rs_slice *in, uint64_t item_bytes, uint32_t *ndim,
                                           uint64_t dims[RS_FMT_ARRAY_NDIM], uint64_t *data_bytes, rs_error *err);

/* Takes the data of an array off `in`: the bytes themselves, or the position of data stored outside, checked against
 * arrays_size and given through *outside (RS_NOWHERE for data that stands here). Any thread. */
RS_NODISCARD rs_status rs_array_data_skip(rs_slice *in, uint64_t data_bytes, uint64_t arrays_size, uint64_t *outside,
                                          rs_error *err);
/* Takes a whole array after its tag; *shape borrows the bytes of ndim and shape (empty for a scalar). Any thread. */
RS_NODISCARD rs_status rs_array_skip(rs_slice *in, uint64_t arrays_size, rs_array_type *type, rs_slice *shape,
                                     uint64_t *data_bytes, uint64_t *outside, rs_error *err);

/* What a walk over values may still spend; the header's promise about the largest record. */
typedef struct rs_budget {
    uint64_t values;
    uint64_t bytes;
    uint32_t depth; /* containers that may still be entered */
} rs_budget;

/* Takes one `any` value off `in`, checking all of it. `arrays_size` bounds arrays stored outside. Any thread. */
RS_NODISCARD rs_status rs_any_skip(rs_slice *in, uint64_t arrays_size, rs_budget *budget, rs_error *err);

/* Takes code and EXTRA of an ext value, which follow its tag, off `in`: *head borrows both. Checks them and that the
 * payload that follows is not itself an ext value. Any thread. */
RS_NODISCARD rs_status rs_any_ext_head(rs_slice *in, rs_slice *head, rs_error *err);
/* Takes one EXTRA off `in`, checking all of it. Any thread. */
RS_NODISCARD rs_status rs_any_extra_skip(rs_slice *in, rs_error *err);

/* Containers and ext values: what a `const` of them costs when it is expanded is not its own few bytes. */
static inline bool rs_tag_is_compound(uint8_t tag) {
    return tag == RS_FMT_TAG_LIST || tag == RS_FMT_TAG_TUPLE || tag == RS_FMT_TAG_DICT || tag == RS_FMT_TAG_EXT;
}

/* False for a value that is certainly no dict key (list, dict, array, ext codes of what has no hash). Reads at most two
 * bytes. */
bool rs_any_may_be_key(rs_slice value);

/* Hash over the keys of a dict, begun with RS_KEY_SET_SEED and continued with each key's `any` bytes: FNV-1a
 * (Fowler, Noll, Vo) over 8-byte steps; in memory only, never stored. */
#define RS_KEY_SET_SEED UINT64_C(0xCBF29CE484222325)
static inline uint64_t rs_schema_hash_key(uint64_t hash, const uint8_t *key, size_t size) {
    const uint64_t prime = UINT64_C(0x100000001B3);
    hash = (hash ^ size) * prime;
    for (; size >= 8; size -= 8, key += 8) {
        hash = (hash ^ rs_load_u64(key)) * prime;
        hash ^= hash >> 29;
    }
    for (; size > 0; size--, key++) hash = (hash ^ *key) * prime;
    return hash ^ (hash >> 32);
}

/* True for tags of small ints. */
static inline bool rs_tag_is_small(uint8_t tag) { return tag >= RS_FMT_TAG_SMALL; }
static inline int64_t rs_tag_small_value(uint8_t tag) { return (int64_t)tag - RS_FMT_TAG_ZERO; }
static inline bool rs_tag_is_int64(uint8_t tag) {
    return rs_tag_is_small(tag) || (tag >= RS_FMT_TAG_INT8 && tag <= RS_FMT_TAG_INT64);
}
/* Body bytes of INT8 to INT64. */
static inline unsigned rs_tag_int_size(uint8_t tag) { return 1u << (tag - RS_FMT_TAG_INT8); }
/* Bytes of an int of such a tag, the tag included. */
static inline unsigned rs_any_int_size(uint8_t tag) { return rs_tag_is_small(tag) ? 1 : 1 + rs_tag_int_size(tag); }
/* Sign-extends an int of 1, 2, 4 or 8 bytes; the caller has checked that they are there. */
static inline int64_t rs_load_int_unchecked(const uint8_t *p, unsigned size_bytes) {
    switch (size_bytes) {
    case 1: return (int8_t)*p;
    case 2: return (int16_t)rs_load_u16(p);
    case 4: return (int32_t)rs_load_u32(p);
    default: return (int64_t)rs_load_u64(p);
    }
}

/* Takes an int, of which rs_tag_is_int64, off a value that was checked before. */
static inline int64_t rs_any_take_int_unchecked(rs_slice *in) {
    const uint8_t *p = in->ptr;
    in->ptr += rs_any_int_size(*p);
    return rs_tag_is_small(*p) ? rs_tag_small_value(*p) : rs_load_int_unchecked(p + 1, rs_tag_int_size(*p));
}

#endif
