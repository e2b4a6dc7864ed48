/* rs_arrow_values.c: writes numbers, text and nested types as any values. */
#include "arrow/rs_arrow_values.h"

#include "base/rs_half.h"
#include "base/rs_unicode.h"
#include "format/rs_any.h"
#include "arrow/rs_arrow_times.h"

static uint8_t *put_value(rs_arrow_writer *self, uint32_t node, uint64_t i, uint8_t *p);

/* ---- Containers and errors ---- */

static uint8_t *broken(rs_arrow_writer *self, uint32_t node, const char *message) {
    return rs_arrow_fail(self, node, RS_E_IN_BROKEN, message);
}

/* Writes the head of a container of n values that is nested in `level` others. Fails if the record has too many
 * values. */
static uint8_t *put_container(rs_arrow_writer *self, uint32_t node, uint8_t tag, uint64_t n, uint32_t level,
                              uint8_t *p) {
    if (n > self->values_left) {
        return rs_arrow_fail(self, node, RS_E_IN_TYPE, RS_ARROW_TOO_MANY);
    }
    rs_arrow_count(self, n, level);
    p = rs_arrow_room(self, p, RS_PUT_HEAD_ROOM);
    return p == NULL ? NULL : rs_put_head(p, tag, n);
}

/* ---- Numbers ---- */

static inline double to_double(const uint8_t *values, uint64_t at, unsigned width) {
    float single;
    if (width == 8) return rs_load_f64(values + at * 8);
    if (width == 2) return rs_half_to_double(rs_load_u16(values + at * 2));
    memcpy(&single, values + at * 4, 4);
    return (double)single;
}

static uint8_t *put_decimal(rs_arrow_writer *self, const rs_arrow_node *node, const uint8_t *value, uint8_t *p) {
    uint64_t words[4];
    unsigned n = node->width / 8;
    self->counts.features |= RS_FMT_FEATURE_EXT;
    p = rs_arrow_room(self, p, RS_PUT_DECIMAL_ROOM);
    if (p == NULL) return NULL;
    if (node->width == 4) words[0] = (uint64_t)(int64_t)(int32_t)rs_load_u32(value), n = 1;
    else memcpy(words, value, node->width);
    return rs_put_decimal(p, words, n, node->scale);
}

static uint8_t *put_wide(rs_arrow_writer *self, const rs_arrow_node *node, const uint8_t *value, uint8_t *p) {
    const uint64_t low = rs_load_u64(value), high = rs_load_u64(value + 8);
    p = rs_arrow_room(self, p, RS_PUT_WIDE_ROOM + 1);
    if (p == NULL) return NULL;
    if (node->is_signed || high <= INT64_MAX) return rs_put_wide(p, (int64_t)high, low);
    p = rs_put_head(p, RS_FMT_TAG_BIGINT, 17);
    memcpy(p, value, 16);
    p[16] = 0;
    return p + 17;
}

/* ---- Text and bytes ---- */

static uint8_t *put_bytes(rs_arrow_writer *self, const uint8_t *bytes, uint64_t n, uint8_t *p) {
    p = rs_arrow_room(self, p, RS_PUT_HEAD_ROOM + n);
    if (p == NULL) return NULL;
    p = rs_put_head(p, RS_FMT_TAG_BYTES, n);
    if (n != 0) rs_copy_few(p, bytes, (size_t)n);
    return p + n;
}

/* Writes text that is not ASCII. */
static uint8_t *put_wide_text(rs_arrow_writer *self, uint32_t node, const uint8_t *bytes, uint64_t n, uint8_t *p) {
    uint64_t n_points;
    const unsigned unit = rs_unicode_measure(bytes, (size_t)n, &n_points);
    if (unit == 0) return rs_arrow_fail(self, node, RS_E_IN_BROKEN, "text that is not UTF-8");
    p = rs_arrow_room(self, p, RS_PUT_HEAD_ROOM + n_points * unit);
    if (p == NULL) return NULL;
    p = rs_put_head(p, unit == 1 ? RS_FMT_TAG_STR1 : unit == 2 ? RS_FMT_TAG_STR2 : RS_FMT_TAG_STR4, n_points);
    rs_unicode_widen_unchecked(bytes, (size_t)n, unit, p);
    return p + n_points * unit;
}

static inline uint8_t *put_text(rs_arrow_writer *self, uint32_t node, const uint8_t *bytes, uint64_t n, uint8_t *p) {
    if (RS_UNLIKELY(!rs_unicode_is_ascii(bytes, (size_t)n))) return put_wide_text(self, node, bytes, n, p);
    p = rs_arrow_room(self, p, RS_PUT_HEAD_ROOM + n);
    if (p == NULL) return NULL;
    p = rs_put_head(p, RS_FMT_TAG_STR1, n);
    if (n != 0) rs_copy_few(p, bytes, (size_t)n);
    return p + n;
}

/* Loads offsets `at` and `at` + 1. Returns whether they are in order and not negative. */
static inline bool take_bounds(const rs_arrow_column *column, unsigned width, uint64_t at, uint64_t *begin,
                               uint64_t *end) {
    const int64_t a = rs_arrow_int(column->first, at, width), b = rs_arrow_int(column->first, at + 1, width);
    *begin = (uint64_t)a;
    *end = (uint64_t)b;
    return a >= 0 && a <= b;
}

static inline uint8_t *put_string(rs_arrow_writer *self, uint32_t number, uint64_t at, uint8_t *p) {
    const rs_arrow_node *node = &self->schema->nodes[number];
    const rs_arrow_column *column = &self->columns[number];
    const uint8_t *bytes = column->second;
    uint64_t begin, end;
    if (!take_bounds(column, node->width, at, &begin, &end)) {
        return broken(self, number, "the offsets of text or bytes are negative or decrease");
    }
    if (bytes == NULL && begin != end) return broken(self, number, "the data of text or bytes are missing");
    if (bytes != NULL) bytes += begin;
    return node->kind == RS_ARROW_TEXT ? put_text(self, number, bytes, end - begin, p)
                                       : put_bytes(self, bytes, end - begin, p);
}

/* Writes the value of a view. A view has 16 bytes: an i32 length, then up to 12 bytes of data. Longer data are in a
 * buffer; then the length is followed by the first 4 bytes of data, an i32 buffer number and an i32 offset. */
static uint8_t *put_view(rs_arrow_writer *self, uint32_t number, uint64_t at, uint8_t *p) {
    enum { VIEW_SIZE = 16, INLINE_SIZE = 12 };
    const rs_arrow_column *column = &self->columns[number];
    const uint8_t *view = column->first + at * VIEW_SIZE, *bytes = view + 4;
    const int32_t n = (int32_t)rs_load_u32(view);
    if (n > INLINE_SIZE) {
        const int32_t block = (int32_t)rs_load_u32(view + 8), off = (int32_t)rs_load_u32(view + 12);
        if (block < 0 || (uint64_t)block >= column->n_blocks) {
            return broken(self, number, "a view has the number of a missing buffer");
        }
        int64_t size = rs_arrow_int(column->block_sizes, (uint64_t)block, 8);
        if (off < 0 || size < off || n > size - off || column->blocks[block] == NULL) {
            return broken(self, number, "a view passes the end of its buffer");
        }
        bytes = (const uint8_t *)column->blocks[block] + off;
    } else if (n < 0) {
        return broken(self, number, "a view has a negative length");
    }
    return self->schema->nodes[number].kind == RS_ARROW_TEXT_VIEW ? put_text(self, number, bytes, (uint64_t)n, p)
                                                                  : put_bytes(self, bytes, (uint64_t)n, p);
}

static uint8_t *put_uuid(rs_arrow_writer *self, const uint8_t *bytes, uint8_t *p) {
    self->counts.features |= RS_FMT_FEATURE_EXT;
    p = rs_arrow_room(self, p, RS_PUT_EXT_ROOM);
    return p == NULL ? NULL : put_bytes(self, bytes, 16, rs_put_ext(p, RS_FMT_EXT_UUID));
}

/* ---- Lists ---- */

/* Writes the values from `begin` up to `end` of a child. */
static uint8_t *put_run(rs_arrow_writer *self, uint32_t node, uint64_t begin, uint64_t end, uint8_t *p) {
    const rs_arrow_node *child = &self->schema->nodes[node];
    const rs_arrow_column *column = &self->columns[node];
    if (column->validity == NULL && (child->kind == RS_ARROW_INT || child->kind == RS_ARROW_FLOAT)) {
        p = rs_arrow_room(self, p, (end - begin) * RS_PUT_INT_ROOM);
        if (p == NULL) return NULL;
        begin += column->offset;
        end += column->offset;
        if (child->kind == RS_ARROW_INT) {
            for (uint64_t i = begin; i < end; i++) p = rs_put_int(p, rs_arrow_int(column->first, i, child->width));
        } else {
            for (uint64_t i = begin; i < end; i++) p = rs_put_float(p, to_double(column->first, i, child->width));
        }
        return p;
    }
    for (uint64_t i = begin; i < end && p != NULL; i++) p = put_value(self, node, i, p);
    return p;
}

/* Sets the bounds of list `at` within its child. Returns false after an error. */
static bool take_list(rs_arrow_writer *self, uint32_t number, uint64_t at, uint64_t *begin, uint64_t *end) {
    const rs_arrow_node *node = &self->schema->nodes[number];
    const rs_arrow_column *column = &self->columns[number];
    if (node->kind == RS_ARROW_FIXED_LIST) {
        *begin = at * (uint64_t)node->size;
        *end = *begin + (uint64_t)node->size;
        return true; /* rs_arrow_columns_bind has checked the child's length */
    }
    if (node->kind == RS_ARROW_LIST_VIEW) {
        const int64_t off = rs_arrow_int(column->first, at, node->width);
        const int64_t size = rs_arrow_int(column->second, at, node->width);
        *begin = (uint64_t)off;
        if (off < 0 || size < 0 || rs_add_overflows(*begin, (uint64_t)size, end)) {
            return broken(self, number, "a list view has a negative offset or size") != NULL;
        }
    } else if (!take_bounds(column, node->width, at, begin, end)) {
        return broken(self, number, "the offsets of lists are negative or decrease") != NULL;
    }
    if (*end > self->columns[node->first_child].length) {
        return broken(self, number, "a list passes the end of its child array") != NULL;
    }
    return true;
}

static uint8_t *put_list(rs_arrow_writer *self, uint32_t number, uint64_t at, uint8_t *p) {
    uint64_t begin, end;
    if (!take_list(self, number, at, &begin, &end)) return NULL;
    p = put_container(self, number, RS_FMT_TAG_LIST, end - begin, self->schema->nodes[number].level, p);
    return p == NULL ? NULL : put_run(self, self->schema->nodes[number].first_child, begin, end, p);
}

/* Writes a map as a list of tuples (key, value). */
static uint8_t *put_map(rs_arrow_writer *self, uint32_t number, uint64_t at, uint8_t *p) {
    const uint32_t entries = self->schema->nodes[number].first_child;
    const uint32_t key = self->schema->nodes[entries].first_child;
    uint64_t begin, end;
    if (!take_list(self, number, at, &begin, &end)) return NULL;
    p = put_container(self, number, RS_FMT_TAG_LIST, end - begin, self->schema->nodes[number].level, p);
    begin += self->columns[entries].offset;
    end += self->columns[entries].offset;
    for (uint64_t i = begin; i < end && p != NULL; i++) {
        p = put_container(self, number, RS_FMT_TAG_TUPLE, 2, self->schema->nodes[number].level + 1u, p);
        if (p != NULL) p = put_value(self, key, i, p);
        if (p != NULL) p = put_value(self, key + 1, i, p);
    }
    return p;
}

/* ---- Structs ---- */

static bool take_index(rs_arrow_writer *self, uint32_t number, uint64_t at, uint64_t *out);
static uint64_t find_run(rs_arrow_writer *self, uint32_t number, uint64_t at);
static uint32_t take_member(rs_arrow_writer *self, uint32_t number, uint64_t at, uint64_t *i);

/* Returns whether value i is None. For a broken value, sets the error and returns false. */
static bool is_none(rs_arrow_writer *self, uint32_t number, uint64_t i) {
    const rs_arrow_node *node = &self->schema->nodes[number];
    const rs_arrow_column *column = &self->columns[number];
    uint64_t at = i + column->offset;
    uint32_t member;
    if (!rs_arrow_is_valid(column, i)) return true;
    switch (node->kind) {
    case RS_ARROW_NULL: return true;
    case RS_ARROW_DICTIONARY: return take_index(self, number, at, &at) && is_none(self, node->first_child, at);
    case RS_ARROW_RUN_END: return is_none(self, node->first_child + 1, find_run(self, number, at));
    case RS_ARROW_SPARSE_UNION:
    case RS_ARROW_DENSE_UNION:
        member = take_member(self, number, at, &at);
        return member != RS_ARROW_NO_NODE && is_none(self, member, at);
    default: return false;
    }
}

/* Returns the number of fields of a struct that are not None, and sets the hash of their keys. */
static uint64_t present_fields(rs_arrow_writer *self, const rs_arrow_node *node, uint64_t at, uint64_t *hash) {
    uint64_t n = 0;
    *hash = RS_KEY_SET_SEED;
    for (uint32_t i = node->first_child; i < node->first_child + node->n_children; i++) {
        const rs_arrow_node *field = &self->schema->nodes[i];
        if (is_none(self, i, at)) continue;
        *hash = rs_schema_hash_key(*hash, self->schema->keys.data + field->key_off, field->key_size);
        n++;
    }
    return n;
}

/* put_value for the field of a struct, with the usual kinds of values inline. There is room for an int. */
static inline uint8_t *put_field(rs_arrow_writer *self, uint32_t number, uint64_t i, uint8_t *p) {
    const rs_arrow_node *node = &self->schema->nodes[number];
    const rs_arrow_column *column = &self->columns[number];
    const uint64_t at = i + column->offset;
    if (!rs_arrow_is_valid(column, i)) return rs_put_none(p);
    if (node->kind == RS_ARROW_INT) return rs_put_int(p, rs_arrow_int(column->first, at, node->width));
    if (node->kind == RS_ARROW_FLOAT) return rs_put_float(p, to_double(column->first, at, node->width));
    if (node->kind == RS_ARROW_TEXT) return put_string(self, number, at, p);
    return put_value(self, number, i, p);
}

static uint8_t *put_struct(rs_arrow_writer *self, uint32_t number, uint64_t at, uint8_t *p) {
    const rs_arrow_schema *schema = self->schema;
    const rs_arrow_node *node = &schema->nodes[number];
    const uint32_t first = node->first_child, end = first + node->n_children;
    const bool drop = schema->drop_missing;
    uint64_t n = node->n_children, hash = node->key_set_hash;
    if (drop) n = present_fields(self, node, at, &hash);
    if (self->scan != NULL) {
        const rs_status status = rs_scan_add_key_set(self->scan, hash, self->err);
        if (status != RS_OK) {
            self->status = status;
            return NULL;
        }
    }
    p = put_container(self, number, RS_FMT_TAG_DICT, n, node->level, p);
    for (uint32_t i = first; i < end && p != NULL; i++) {
        const rs_arrow_node *field = &schema->nodes[i];
        if (drop && is_none(self, i, at)) continue;
        p = rs_arrow_room(self, p, field->key_size + RS_PUT_INT_ROOM);
        if (p == NULL) return NULL;
        rs_copy_few(p, schema->keys.data + field->key_off, field->key_size);
        p = put_field(self, i, at, p + field->key_size);
    }
    return self->status == RS_OK ? p : NULL;
}

/* ---- Types with values in a child ---- */

static bool take_index(rs_arrow_writer *self, uint32_t number, uint64_t at, uint64_t *out) {
    const rs_arrow_node *node = &self->schema->nodes[number];
    const uint8_t *indices = self->columns[number].first;
    const int64_t index = rs_arrow_int(indices, at, node->width);
    *out = node->is_signed ? (uint64_t)index : rs_load_uint_unchecked(indices + at * node->width, node->width);
    if (*out < self->columns[node->first_child].length) return true; /* a negative index wraps to a large number */
    return broken(self, number, "an index passes the end of the dictionary") != NULL;
}

static int64_t run_end(const rs_arrow_writer *self, uint32_t ends, uint64_t run) {
    const rs_arrow_column *column = &self->columns[ends];
    return rs_arrow_int(column->first, run + column->offset, self->schema->nodes[ends].width);
}

/* Returns the run with element `at`, which must exist. Starts at the last run found, because values are mostly read in
 * order. */
static uint64_t find_run(rs_arrow_writer *self, uint32_t number, uint64_t at) {
    const uint32_t ends = self->schema->nodes[number].first_child;
    rs_arrow_column *column = &self->columns[number];
    uint64_t low = column->run, high = self->columns[ends].length - 1;
    if (low > 0 && (uint64_t)run_end(self, ends, low - 1) > at) low = 0;
    if (low < high && (uint64_t)run_end(self, ends, low) <= at) low++;
    while (low < high && (uint64_t)run_end(self, ends, low) <= at) {
        const uint64_t middle = low + (high - low) / 2;
        if ((uint64_t)run_end(self, ends, middle) <= at) low = middle + 1;
        else high = middle;
    }
    column->run = low;
    return low;
}

/* Returns the union's member with element `at`, and sets *i to its position there; RS_ARROW_NO_NODE after an error. */
static uint32_t take_member(rs_arrow_writer *self, uint32_t number, uint64_t at, uint64_t *i) {
    const rs_arrow_node *node = &self->schema->nodes[number];
    const rs_arrow_column *column = &self->columns[number];
    const int8_t id = (int8_t)column->first[at];
    uint16_t child = RS_ARROW_NO_TYPE;
    if (id >= 0) child = rs_load_u16(self->schema->ids.data + node->ids_off + (size_t)id * 2);
    if (child == RS_ARROW_NO_TYPE) {
        (void)broken(self, number, "a union has an unknown type id");
        return RS_ARROW_NO_NODE;
    }
    *i = at;
    if (node->kind == RS_ARROW_DENSE_UNION) {
        const int64_t off = rs_arrow_int(column->second, at, 4);
        *i = (uint64_t)off;
        if (off < 0 || *i >= self->columns[node->first_child + child].length) {
            (void)broken(self, number, "an offset of a union passes the end of its child array");
            return RS_ARROW_NO_NODE;
        }
    }
    return node->first_child + child;
}

static uint8_t *put_inner(rs_arrow_writer *self, uint32_t number, uint64_t at, uint8_t *p) {
    const rs_arrow_node *node = &self->schema->nodes[number];
    uint32_t member;
    uint64_t i;
    switch (node->kind) {
    case RS_ARROW_DICTIONARY: return take_index(self, number, at, &i) ? put_value(self, node->first_child, i, p) : NULL;
    case RS_ARROW_RUN_END: return put_value(self, node->first_child + 1, find_run(self, number, at), p);
    default: member = take_member(self, number, at, &i); break;
    }
    return member == RS_ARROW_NO_NODE ? NULL : put_value(self, member, i, p);
}

/* ---- Any type ---- */

/* Writes value i, which is below the length of the node's column. */
static uint8_t *put_value(rs_arrow_writer *self, uint32_t number, uint64_t i, uint8_t *p) {
    const rs_arrow_node *node = &self->schema->nodes[number];
    const rs_arrow_column *column = &self->columns[number];
    const uint64_t at = i + column->offset;
    p = rs_arrow_room(self, p, RS_PUT_INT_ROOM);
    if (p == NULL) return NULL;
    if (!rs_arrow_is_valid(column, i)) return rs_put_none(p);
    switch (node->kind) {
    case RS_ARROW_NULL: return rs_put_none(p);
    case RS_ARROW_BOOL: return rs_put_bool(p, (column->first[at >> 3] >> (at & 7) & 1) != 0);
    case RS_ARROW_BOOL8: return rs_put_bool(p, column->first[at] != 0);
    case RS_ARROW_INT: return rs_put_int(p, rs_arrow_int(column->first, at, node->width));
    case RS_ARROW_UINT:
        p = rs_arrow_room(self, p, RS_PUT_WIDE_ROOM);
        return p == NULL ? NULL : rs_put_uint(p, rs_load_uint_unchecked(column->first + at * node->width, node->width));
    case RS_ARROW_WIDE: return put_wide(self, node, column->first + at * 16, p);
    case RS_ARROW_FLOAT: return rs_put_float(p, to_double(column->first, at, node->width));
    case RS_ARROW_TEXT:
    case RS_ARROW_BYTES: return put_string(self, number, at, p);
    case RS_ARROW_TEXT_VIEW:
    case RS_ARROW_BYTES_VIEW: return put_view(self, number, at, p);
    case RS_ARROW_FIXED_BYTES:
        return put_bytes(self, node->size == 0 ? NULL : column->first + at * (uint64_t)node->size, (uint64_t)node->size,
                         p);
    case RS_ARROW_UUID: return put_uuid(self, column->first + at * 16, p);
    case RS_ARROW_DECIMAL: return put_decimal(self, node, column->first + at * node->width, p);
    case RS_ARROW_DATE:
    case RS_ARROW_TIME:
    case RS_ARROW_TIMESTAMP:
    case RS_ARROW_DURATION:
    case RS_ARROW_INTERVAL: return rs_arrow_put_time(self, number, at, p);
    case RS_ARROW_LIST:
    case RS_ARROW_LIST_VIEW:
    case RS_ARROW_FIXED_LIST: return put_list(self, number, at, p);
    case RS_ARROW_MAP: return put_map(self, number, at, p);
    case RS_ARROW_STRUCT: return put_struct(self, number, at, p);
    default: return put_inner(self, number, at, p);
    }
}

rs_status rs_arrow_append_value(rs_arrow_writer *self, uint64_t i) {
    rs_buffer *raw = self->raw;
    self->begin = raw->size_bytes;
    self->values_left = RS_FMT_READER_VALUES - 1;
    self->counts.features = 0;
    self->counts.depth = 0;
    self->status = rs_buffer_reserve(raw, 256, self->err);
    if (self->status != RS_OK) return self->status;
    self->end = raw->data + raw->capacity_bytes;
    uint8_t *p = put_value(self, 0, i, raw->data + raw->size_bytes);
    if (p == NULL) return self->status;
    raw->size_bytes = (size_t)(p - raw->data);
    self->counts.values = RS_FMT_READER_VALUES - self->values_left;
    return RS_OK;
}
