/* rs_decode.h: the cursor over the bytes of a record, and the checked steps that move it, for all readers of values.
 * The steps make no Python values; the binding does. */
#pragma once

#include "format/rs_alphabet.h"
#include "format/rs_any.h"
#include "format/rs_packed_ints.h"
#include "format/rs_places.h"
#include "format/rs_schema.h"
#include "format/rs_tables.h"

/* The state of reading a record. Borrows everything. One thread at a time may use it. */
typedef struct rs_cursor {
    rs_slice in;           /* the remaining bytes of the record, or of an entry */
    const uint8_t *arrays; /* the block's arrays */
    uint64_t arrays_size;
    rs_budget budget;
    bool shared;    /* `in` is within a table or places, which many records may use, so its bytes are counted */
    uint32_t local; /* the number of the record in its block */
    const rs_placed *placed; /* the sections of the placed nodes of the block; NULL without such nodes */
} rs_cursor;

/* These fill `err`; out of line because they are rare. The inline callers return a literal code (RS_FAIL), so that the
 * compiler knows that outputs are set on success. */
RS_COLD void rs_decode_truncated(rs_error *err);
RS_COLD void rs_decode_past_limit(rs_error *err);
RS_COLD void rs_decode_trailing(rs_error *err);
RS_COLD void rs_decode_set_bad_value(rs_error *err, const char *message);
#define RS_FAIL(call, code) ((call), (code))

RS_NODISCARD static inline rs_status rs_decode_bad_value(rs_error *err, const char *message) {
    return RS_FAIL(rs_decode_set_bad_value(err, message), RS_E_FMT_VALUE);
}

/* Enters a container of n elements: counts n values and one level against the budget. rs_decode_leave gives the
 * level back. RS_E_FMT_LIMIT. */
RS_NODISCARD static inline rs_status rs_decode_enter(rs_cursor *self, uint64_t n, rs_error *err) {
    if (RS_UNLIKELY(n > self->budget.values || self->budget.depth == 0)) {
        return RS_FAIL(rs_decode_past_limit(err), RS_E_FMT_LIMIT);
    }
    self->budget.values -= n;
    self->budget.depth--;
    return RS_OK;
}

static inline void rs_decode_leave(rs_cursor *self) { self->budget.depth++; }

/* Counts `size` bytes that many records may share (consts, entries, texts) against the budget. RS_E_FMT_LIMIT. */
RS_NODISCARD static inline rs_status rs_decode_spend_bytes(rs_cursor *self, uint64_t size, rs_error *err) {
    if (RS_UNLIKELY(size > self->budget.bytes)) return RS_FAIL(rs_decode_past_limit(err), RS_E_FMT_LIMIT);
    self->budget.bytes -= size;
    return RS_OK;
}

/* The functions that take bytes off the cursor return RS_E_FMT_TRUNCATED if too few are left. *out borrows them. */

RS_NODISCARD static inline rs_status rs_decode_take(rs_cursor *self, uint64_t n, const uint8_t **out, rs_error *err) {
    return RS_LIKELY(rs_take(&self->in, n, out)) ? RS_OK : RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
}

RS_NODISCARD static inline rs_status rs_decode_varint(rs_cursor *self, uint64_t *out, rs_error *err) {
    return RS_LIKELY(rs_take_varint(&self->in, out)) ? RS_OK : RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
}

/* Takes n units of unit_bytes bytes. */
RS_NODISCARD static inline rs_status rs_decode_units(rs_cursor *self, uint64_t n, unsigned unit_bytes,
                                                     const uint8_t **out, rs_error *err) {
    if (RS_UNLIKELY(n > rs_slice_left(&self->in) / unit_bytes)) {
        return RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
    }
    *out = self->in.ptr;
    self->in.ptr += n * unit_bytes;
    return RS_OK;
}

/* Counts n units or bytes at the cursor if many records may share them. */
RS_NODISCARD static inline rs_status rs_decode_spend_shared(rs_cursor *self, uint64_t n, rs_error *err) {
    return RS_LIKELY(!self->shared) ? RS_OK : rs_decode_spend_bytes(self, n, err);
}

/* Takes the bytes of a bytes or symbols node: a count and that many bytes, or with REST all remaining bytes. */
RS_NODISCARD static inline rs_status rs_decode_counted(rs_cursor *self, const rs_node *node, uint64_t *n,
                                                       const uint8_t **out, rs_error *err) {
    if ((node->flags & RS_FMT_FLAG_REST) != 0) {
        *n = rs_slice_left(&self->in);
    } else {
        RS_TRY(rs_decode_varint(self, n, err));
    }
    return rs_decode_take(self, *n, out, err);
}

/* Takes the value of a bytes node. */
RS_NODISCARD static inline rs_status rs_decode_bytes(rs_cursor *self, const rs_node *node, uint64_t *n,
                                                     const uint8_t **out, rs_error *err) {
    RS_TRY(rs_decode_counted(self, node, n, out, err));
    return rs_decode_spend_shared(self, *n, err);
}

/* Takes the body of an alphabet node that is not fixed: *n characters, whose rs_alphabet_bytes bytes are at *out. */
RS_NODISCARD static inline rs_status rs_decode_letters(rs_cursor *self, const rs_node *node, uint64_t *n,
                                                       const uint8_t **out, rs_error *err) {
    const unsigned bits = node->letter_bits;
    if ((node->flags & RS_FMT_FLAG_REST) != 0) {
        const uint64_t left = rs_slice_left(&self->in);
        *n = (8 * left + bits - 1) / bits;
        return rs_decode_take(self, left, out, err);
    }
    RS_TRY(rs_decode_varint(self, n, err));
    /* So many characters take more bytes than any record has, and their bits would overflow. */
    if (RS_UNLIKELY(*n > UINT64_MAX / 16)) return RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
    return rs_decode_take(self, rs_alphabet_bytes(bits, node->letter_form, *n), out, err);
}

/* Takes the str of a str node: *n units of *unit_bytes each. RS_E_FMT_VALUE. */
RS_NODISCARD static inline rs_status rs_decode_str_units(rs_cursor *self, const rs_node *node, uint64_t *n,
                                                         unsigned *unit_bytes, const uint8_t **units, rs_error *err) {
    *unit_bytes = node->param;
    if ((node->flags & RS_FMT_FLAG_REST) != 0) {
        uint64_t left = rs_slice_left(&self->in);
        *n = left / node->param;
        if (RS_UNLIKELY(*n * node->param != left)) return rs_decode_bad_value(err, "a str ends within a unit");
        return rs_decode_units(self, *n, *unit_bytes, units, err);
    }
    RS_TRY(rs_decode_varint(self, n, err));
    if (node->param == 0) {
        if (RS_UNLIKELY((*n & 3) == 3)) return rs_decode_bad_value(err, "the unit size of a str is not 1, 2 or 4");
        *unit_bytes = 1u << (*n & 3);
        *n >>= 2;
    }
    return rs_decode_units(self, *n, *unit_bytes, units, err);
}

/* As rs_decode_str_units, for a str that is a value, not a part of a concat: counts shared units. */
RS_NODISCARD static inline rs_status rs_decode_str(rs_cursor *self, const rs_node *node, uint64_t *n,
                                                   unsigned *unit_bytes, const uint8_t **units, rs_error *err) {
    RS_TRY(rs_decode_str_units(self, node, n, unit_bytes, units, err));
    return rs_decode_spend_shared(self, *n, err);
}

/* Takes the count and numbers of a numbers node; *out is not set if the count is 0. Enters the container. */
RS_NODISCARD static inline rs_status rs_decode_numbers(rs_cursor *self, const rs_node *node, uint64_t *n,
                                                       rs_packed_ints *out, rs_error *err) {
    *n = node->count;
    if ((node->flags & RS_FMT_FLAG_FIXED) == 0) RS_TRY(rs_decode_varint(self, n, err));
    RS_TRY(rs_decode_enter(self, *n, err));
    if (RS_UNLIKELY(*n != 0 && !rs_packed_ints_take(node, *n, &self->in, out))) {
        if (out->n != 0) return RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
        return rs_decode_bad_value(err, "a chunk of packed numbers is wider than max_width");
    }
    return RS_OK;
}

/* The fields of a cursor that change while an entry of a table or an exception is read. */
typedef struct rs_outer {
    rs_slice in;
    uint64_t arrays_size;
    bool shared;
} rs_outer;

static inline rs_outer rs_decode_outer(const rs_cursor *self) {
    rs_outer outer = {self->in, self->arrays_size, self->shared};
    return outer;
}

static inline void rs_decode_return(rs_cursor *self, const rs_outer *outer) {
    self->in = outer->in;
    self->arrays_size = outer->arrays_size;
    self->shared = outer->shared;
}

/* Moves the cursor to entry i of a dict-coded node, a value of the root of (*table)->tree that stands alone.
 * rs_decode_leave_entry moves it back. */
RS_NODISCARD static inline rs_status rs_decode_enter_entry(rs_cursor *self, const rs_node *node, uint64_t i,
                                                           const rs_table **table, rs_outer *outer, rs_error *err) {
    *outer = rs_decode_outer(self);
    self->arrays_size = 0;
    self->shared = true;
    return rs_dict_coded_find(node, i, table, &self->in, err);
}

/* Moves the cursor back from an entry or exception. RS_E_FMT_TRAILING if bytes of it are left. */
RS_NODISCARD static inline rs_status rs_decode_leave_entry(rs_cursor *self, const rs_outer *outer, rs_error *err) {
    if (RS_UNLIKELY(self->in.ptr != self->in.end)) return RS_FAIL(rs_decode_trailing(err), RS_E_FMT_TRAILING);
    rs_decode_return(self, outer);
    return RS_OK;
}

/* Steps from a rising or runs node to its fixed child: sets *node, *body and *bits to the child's. Errors: rule 41. */
RS_NODISCARD static inline rs_status rs_decode_placed(const rs_cursor *self, const rs_node **node, const uint8_t **body,
                                                      uint64_t *bits, rs_error *err) {
    const rs_placed *placed = &self->placed[(*node)->placed];
    const rs_node *child = (*node)->children;
    if ((*node)->kind == RS_FMT_NODE_RISING) {
        RS_TRY(rs_placed_number(placed, self->local, bits, err));
        *body = placed->data; /* the body has no bytes */
    } else {
        RS_TRY(rs_placed_run(placed, *node, self->local, body, err));
        rs_slice group = rs_slice_of(*body, child->alone_bytes);
        *bits = rs_load_bits_unchecked(group.ptr, child->alone_bytes, 0, child->bits);
        *body += child->alone_bytes;
    }
    *node = child;
    return RS_OK;
}

/* Sets *is_exception to whether the record is an exception of an exceptions node. If so, moves the cursor to its value,
 * a value of child 1 that stands alone; rs_decode_leave_entry moves it back. Errors: rule 41. */
RS_NODISCARD static inline rs_status rs_decode_exception(rs_cursor *self, const rs_node *node, bool *is_exception,
                                                         rs_outer *outer, rs_error *err) {
    rs_slice value;
    RS_TRY(rs_placed_exception(&self->placed[node->placed], self->local, is_exception, &value, err));
    if (RS_LIKELY(!*is_exception)) return RS_OK;
    *outer = rs_decode_outer(self);
    self->in = value;
    self->shared = true;
    return RS_OK;
}

/* Takes the bit group of n elements, which is empty if the child has no bits. */
RS_NODISCARD static inline rs_status rs_decode_group(rs_cursor *self, const rs_node *child, uint64_t n, rs_slice *out,
                                                     rs_error *err) {
    uint64_t group_bits;
    if (RS_UNLIKELY(rs_mul_overflows(n, child->bits, &group_bits) || group_bits > UINT64_MAX - 7)) {
        return RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
    }
    RS_TRY(rs_decode_take(self, (group_bits + 7) / 8, &out->ptr, err));
    out->end = self->in.ptr;
    return RS_OK;
}

/* Takes the count of a list and its bit group. Enters the container. */
RS_NODISCARD static inline rs_status rs_decode_list_head(rs_cursor *self, const rs_node *node, uint64_t *n,
                                                         rs_slice *group, rs_error *err) {
    if ((node->flags & RS_FMT_FLAG_FIXED) != 0) {
        *n = node->count;
    } else {
        RS_TRY(rs_decode_varint(self, n, err));
    }
    RS_TRY(rs_decode_enter(self, *n, err));
    return rs_decode_group(self, node->children, *n, group, err);
}

/* Takes the bodies of n elements of a fixed child. */
RS_NODISCARD static inline rs_status rs_decode_fixed_elements(rs_cursor *self, const rs_node *child, uint64_t n,
                                                              const uint8_t **out, rs_error *err) {
    uint64_t size;
    if (RS_UNLIKELY(rs_mul_overflows(n, child->size_bytes, &size))) {
        return RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
    }
    return rs_decode_take(self, size, out, err);
}

/* Takes the number of entries of a map, and enters the dict. */
RS_NODISCARD static inline rs_status rs_decode_map_head(rs_cursor *self, uint64_t *n, rs_error *err) {
    RS_TRY(rs_decode_varint(self, n, err));
    return rs_decode_enter(self, *n, err);
}

/* As rs_decode_list_head, for a list whose body is at `body`, or at the cursor if that is NULL, with the bodies of its
 * elements; *bodies becomes NULL for a child that is not fixed. */
RS_NODISCARD static inline rs_status rs_decode_list(rs_cursor *self, const rs_node *node, const uint8_t *body,
                                                    uint64_t *n, rs_slice *group, const uint8_t **bodies,
                                                    rs_error *err) {
    const rs_node *child = node->children;
    *bodies = NULL;
    if (body == NULL) {
        RS_TRY(rs_decode_list_head(self, node, n, group, err));
        return child->fixed ? rs_decode_fixed_elements(self, child, *n, bodies, err) : RS_OK;
    }
    *n = node->count;
    group->ptr = body;
    group->end = *bodies = body + (*n * child->bits + 7) / 8;
    return rs_decode_enter(self, *n, err);
}

/* Takes the bit group of n values of a map's child, which the budget has counted, and their bodies if the child is
 * fixed. Else *bodies becomes NULL, and the first body is at the cursor. */
RS_NODISCARD static inline rs_status rs_decode_elements(rs_cursor *self, const rs_node *child, uint64_t n,
                                                        rs_slice *group, const uint8_t **bodies, rs_error *err) {
    RS_TRY(rs_decode_group(self, child, n, group, err));
    *bodies = NULL;
    return child->fixed ? rs_decode_fixed_elements(self, child, n, bodies, err) : RS_OK;
}

/* Returns the value of an int or digits node from its bits or its body, which has node->size_bytes bytes. */
static inline int64_t rs_decode_int_unchecked(const rs_node *node, const uint8_t *body, uint64_t bits) {
    uint64_t stored = node->size_bytes != 0 ? rs_load_uint_unchecked(body, (unsigned)node->size_bytes) : bits;
    return (int64_t)(node->base + stored);
}

/* As rs_decode_int_unchecked, for a decimal node. */
static inline double rs_decode_decimal_unchecked(const rs_node *node, const uint8_t *body, uint64_t bits) {
    return rs_packed_ints_decimal(node, node->size_bytes != 0 ? rs_load_uint_unchecked(body, (unsigned)node->size_bytes)
                                                              : bits);
}

/* Loads a field of n_bits from a bit group. The caller has checked the bounds. */
static inline uint64_t rs_decode_bits_unchecked(const rs_slice *group, uint64_t bit_off, unsigned n_bits) {
    return rs_load_bits_unchecked(group->ptr, (uint64_t)(group->end - group->ptr), bit_off, n_bits);
}

/* Returns bit bit_off of a bit group that has it. */
static inline bool rs_decode_bit_unchecked(const rs_slice *group, uint32_t bit_off) {
    return (group->ptr[bit_off >> 3] >> (bit_off & 7) & 1) != 0;
}

/* Returns whether a child of a tuple or struct is an optional without a value. */
static inline bool rs_decode_is_absent(const rs_node *child, const rs_slice *group) {
    return child->kind == RS_FMT_NODE_OPTIONAL && !rs_decode_bit_unchecked(group, child->bit_off);
}

/* Returns whether a struct does not have the key of a child, whose optional then stands for the key. */
static inline bool rs_decode_lacks_key(const rs_node *child, const rs_slice *group) {
    return child->param == 0 && rs_decode_is_absent(child, group);
}

enum { RS_CHILDREN_BITS_ROOM = 16 }; /* words that begin in the bits end in the room */

/* Returns the bit group of a tuple, struct or concat without a rare group: the one at `head`; but if the node has bits,
 * `bits`, which are those of its children, as a copy in `room`. */
static inline rs_slice rs_decode_children_bits(const rs_node *node, const uint8_t *head, uint64_t bits,
                                               uint8_t room[RS_CHILDREN_BITS_ROOM]) {
    if (RS_LIKELY(node->bits == 0)) return rs_slice_of(head, node->group_bytes);
    rs_store_u64(room, bits);
    rs_store_u64(room + 8, 0);
    return rs_slice_of(room, RS_CHILDREN_BITS_ROOM);
}

/* Room for a bit group, the rare group after it, and words that begin in them. */
typedef struct rs_rare_group {
    uint8_t bytes[RS_FMT_RARE_BYTES + 8];
} rs_rare_group;

/* Takes the rare group of a struct at the cursor. *group is the bit group of the struct, and becomes a copy of it in
 * *room, with the rare group after it. */
RS_NODISCARD rs_status rs_decode_rare(rs_cursor *self, const rs_node *node, rs_slice *group, rs_rare_group *room,
                                      rs_error *err);

/* Returns whether a child is a rare optional of a record that does not even store the byte of its bit, so it has no
 * value. `group` is the bit group of the struct. */
static inline bool rs_decode_lacks(const rs_node *row, const rs_node *child, const rs_slice *group) {
    return rs_node_is_rare(child) && !rs_decode_bit_unchecked(group, (child->bit_off >> 3) - row->group_bytes);
}

/* Takes the head of a tuple, struct or concat with its own `bits`, unless *head is it already, and the rare group. Sets
 * *group to all bits of its children, which are in the record or in *room. */
RS_NODISCARD static inline rs_status rs_decode_row(rs_cursor *self, const rs_node *node, uint64_t bits,
                                                   const uint8_t **head, rs_slice *group, rs_rare_group *room,
                                                   rs_error *err) {
    if (*head == NULL) RS_TRY(rs_decode_take(self, node->head_bytes, head, err));
    *group = rs_decode_children_bits(node, *head, bits, room->bytes);
    return RS_LIKELY(node->rare_bytes == 0) ? RS_OK : rs_decode_rare(self, node, group, room, err);
}

/* Returns the number of elements of a tuple or struct: its children without the absent keys. */
static inline uint32_t rs_decode_row_count(const rs_node *node, const rs_slice *group) {
    uint32_t n = node->n_children;
    if (RS_LIKELY(!node->partial)) return n;
    for (uint32_t i = 0; i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        n -= (uint32_t)rs_decode_lacks_key(child, group);
    }
    return n;
}

/* Takes a value that stands alone at the cursor: its bits and, if the node is fixed, its body. Else *body becomes NULL,
 * and the body is at the cursor. */
RS_NODISCARD static inline rs_status rs_decode_take_alone(rs_cursor *self, const rs_node *node, const uint8_t **body,
                                                          uint64_t *bits, rs_error *err) {
    const uint8_t *p;
    RS_TRY(rs_decode_take(self, node->alone_bytes, &p, err));
    rs_slice group = rs_slice_of(p, node->alone_bytes);
    *bits = rs_decode_bits_unchecked(&group, 0, node->bits);
    *body = NULL;
    return node->fixed ? rs_decode_take(self, node->size_bytes, body, err) : RS_OK;
}

/* Steps from a union to the child that its bits name: sets *node, *body and *bits to the child's. Before the call, the
 * child's value stands alone at *body or, if that is NULL, at the cursor. */
RS_NODISCARD static inline rs_status rs_decode_choose(rs_cursor *self, const rs_node **node, const uint8_t **body,
                                                      uint64_t *bits, rs_error *err) {
    if (RS_UNLIKELY(*bits >= (*node)->n_children)) return rs_decode_bad_value(err, "a union number is out of range");
    const rs_node *child = *node = &(*node)->children[*bits];
    if (*body == NULL) return rs_decode_take_alone(self, child, body, bits, err);
    rs_slice group = rs_slice_of(*body, child->alone_bytes);
    *bits = rs_decode_bits_unchecked(&group, 0, child->bits);
    *body += child->alone_bytes;
    return RS_OK;
}

/* Returns an upper bound for n units that is as wide as the widest unit (ASCII, 1, 2 or 4 bytes), for making a str
 * object. For units of 4 bytes it is the maximum. The caller has taken the n * unit_bytes bytes. */
static inline uint32_t rs_decode_widest_unchecked(const uint8_t *units, uint64_t n, unsigned unit_bytes) {
    uint64_t i = 0;
    uint32_t widest = 0;
    if (unit_bytes == 4) {
        for (; i < n; i++) {
            uint32_t unit = rs_load_u32(units + 4 * i);
            if (unit > widest) widest = unit;
        }
        return widest;
    } else {
        uint64_t all = 0, size = n * unit_bytes;
        if (size >= 8) {
            for (; i + 8 < size; i += 8) all |= rs_load_u64(units + i);
            all |= rs_load_u64(units + size - 8);
        } else if (size > 0) {
            all = rs_load_few_unchecked(units, size);
        }
        all |= all >> 32;
        all |= all >> 16;
        return unit_bytes == 2 ? (uint32_t)(all & 0xFFFF) : (uint32_t)((all | all >> 8) & 0xFF);
    }
}

/* Takes the data of an array of data_bytes bytes. *out points to them in the record or in the block's arrays, and is
 * valid as long as the segment is mapped. */
RS_NODISCARD rs_status rs_decode_array_data(rs_cursor *self, uint64_t data_bytes, const uint8_t **out, rs_error *err);
