/* rs_any.h: any values: tags, array types, and a walk that checks and skips a value. For readers and writers. */
#pragma once

#include "base/rs_bytes.h"
#include "base/rs_status.h"
#include "format/rs_format.h"

/* Array flags and dtype, as in any values and in the aux of ndarray nodes. */
typedef struct rs_array_type {
    uint8_t flags;
    uint8_t width; /* of a narrow array: the bits of a stored item; else 0 */
    uint8_t code;  /* dtype code without the big-endian bit */
    bool big_endian;
    uint8_t unit;      /* datetime64, timedelta64 */
    uint64_t multiple; /* datetime64, timedelta64: the multiple of the unit */
    uint64_t item_bytes;
    rs_slice descriptor; /* flags and dtype as stored, borrowed */
} rs_array_type;

/* The functions below check rules 20 to 23 of FORMAT.md for the bytes they take off `in`, but not array data, whether
 * EXTRA and payload suit the ext code, or whether dict keys are distinct. Any thread. */

/* Takes array flags and dtype. */
RS_NODISCARD rs_status rs_array_type_take(rs_slice *in, rs_array_type *out, rs_error *err);
/* Takes ndim and shape into dims, which has room for RS_FMT_ARRAY_NDIM, and computes the size of all items. */
RS_NODISCARD rs_status rs_array_shape_take(rs_slice *in, uint64_t item_bytes, uint32_t *ndim,
                                           uint64_t dims[RS_FMT_ARRAY_NDIM], uint64_t *data_bytes, rs_error *err);

/* Returns the size in bytes of an array's data, whose items take item_bytes each and all_bytes together. The data are
 * the items or, in a narrow array, base and bit group. all_bytes is below 2^63. */
static inline uint64_t rs_array_data_bytes(uint8_t flags, uint64_t item_bytes, uint64_t all_bytes) {
    const uint64_t width = flags >> RS_FMT_ARRAY_WIDTH_SHIFT, n = width == 0 ? 0 : all_bytes / item_bytes;
    return width == 0 ? all_bytes : item_bytes + n / 8 * width + (n % 8 * width + 7) / 8;
}

/* Takes the data of an array. Sets *outside to RS_NOWHERE for data in `in`, else to their offset in the arrays. Checks
 * that they end within arrays_size. */
RS_NODISCARD rs_status rs_array_data_skip(rs_slice *in, uint64_t data_bytes, uint64_t arrays_size, uint64_t *outside,
                                          rs_error *err);
/* Takes a whole array after its tag; *data_bytes is from rs_array_data_bytes. *shape borrows the bytes of ndim and
 * shape; it is empty for a scalar. */
RS_NODISCARD rs_status rs_array_skip(rs_slice *in, uint64_t arrays_size, rs_array_type *type, rs_slice *shape,
                                     uint64_t *data_bytes, uint64_t *outside, rs_error *err);

/* The limits for the rest of a record: the limits in the header, counted down. */
typedef struct rs_budget {
    uint64_t values;
    uint64_t bytes;
    uint32_t depth;                    /* the number of further levels of containers */
    uint64_t arrays_begin, arrays_end; /* skipping a value extends them to its array data outside, within the arrays */
} rs_budget;

/* Extends the range of the skipped arrays; `outside` is from rs_array_data_skip. */
static inline void rs_budget_add_array(rs_budget *self, uint64_t outside, uint64_t data_bytes) {
    if (outside == RS_NOWHERE) return;
    if (outside < self->arrays_begin) self->arrays_begin = outside;
    if (outside + data_bytes > self->arrays_end) self->arrays_end = outside + data_bytes;
}

/* Takes one any value and checks all of it. Arrays outside must be within arrays_size bytes. */
RS_NODISCARD rs_status rs_any_skip(rs_slice *in, uint64_t arrays_size, rs_budget *budget, rs_error *err);

/* Takes code and EXTRA of an ext value, after its tag; *head borrows both. Also checks that the payload, which follows,
 * is not an ext value itself. */
RS_NODISCARD rs_status rs_any_ext_head(rs_slice *in, rs_slice *head, rs_error *err);
/* Takes one EXTRA and checks all of it. */
RS_NODISCARD rs_status rs_any_extra_skip(rs_slice *in, rs_error *err);

/* Returns whether a tag belongs to a container or an ext value. Each expansion of a const with such a tag counts
 * against the budget, because it makes many values from a few bytes. */
static inline bool rs_tag_is_compound(uint8_t tag) {
    return tag == RS_FMT_TAG_LIST || tag == RS_FMT_TAG_TUPLE || tag == RS_FMT_TAG_DICT || tag == RS_FMT_TAG_EXT;
}

/* Returns false for a value that cannot be a dict key: a list, a dict, an array, or an ext value of a type without a
 * hash. Reads at most two bytes. Does not search tuples; the reader finds their errors when it hashes them. */
bool rs_any_may_be_key(rs_slice value);

/* Adds the any value of one key to the hash of a key set, which begins with RS_KEY_SET_SEED. A variant of FNV-1a
 * (Fowler, Noll, Vo) that takes 8 bytes at a time. Such hashes are never stored. */
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

/* Returns whether a tag is an int by itself, -16 to 111. */
static inline bool rs_tag_is_small(uint8_t tag) { return tag >= RS_FMT_TAG_SMALL; }
static inline int64_t rs_tag_small_value(uint8_t tag) { return (int64_t)tag - RS_FMT_TAG_ZERO; }
static inline bool rs_tag_is_int64(uint8_t tag) {
    return rs_tag_is_small(tag) || (tag >= RS_FMT_TAG_INT8 && tag <= RS_FMT_TAG_INT64);
}
/* Returns true for the tags of str, bytes, 64-bit ints and None. As a writer stores them, two dict keys with such tags
 * are equal in Python exactly if their bytes are. Keys of other types may equal keys of another type, as True and 1.0
 * equal 1, or define their own equality. */
static inline bool rs_tag_is_plain_key(uint8_t tag) {
    return (tag >= RS_FMT_TAG_STR1 && tag <= RS_FMT_TAG_BYTES) || rs_tag_is_int64(tag) || tag == RS_FMT_TAG_NONE;
}
/* Returns the number of bytes after a tag from INT8 to INT64. */
static inline unsigned rs_tag_int_size(uint8_t tag) { return 1u << (tag - RS_FMT_TAG_INT8); }
/* Returns the size in bytes of an int with a tag of rs_tag_is_int64, including the tag. */
static inline unsigned rs_any_int_size(uint8_t tag) { return rs_tag_is_small(tag) ? 1 : 1 + rs_tag_int_size(tag); }
/* Loads a signed int of 1, 2, 4 or 8 bytes. The caller has checked the bounds. */
static inline int64_t rs_load_int_unchecked(const uint8_t *p, unsigned size_bytes) {
    switch (size_bytes) {
    case 1: return (int8_t)*p;
    case 2: return (int16_t)rs_load_u16(p);
    case 4: return (int32_t)rs_load_u32(p);
    default: return (int64_t)rs_load_u64(p);
    }
}

/* Takes an int with a tag of rs_tag_is_int64. The caller has checked the bounds. */
static inline int64_t rs_any_take_int_unchecked(rs_slice *in) {
    const uint8_t *p = in->ptr;
    in->ptr += rs_any_int_size(*p);
    return rs_tag_is_small(*p) ? rs_tag_small_value(*p) : rs_load_int_unchecked(p + 1, rs_tag_int_size(*p));
}
