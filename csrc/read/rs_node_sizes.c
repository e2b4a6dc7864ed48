/* rs_node_sizes.c: walks down the children of nodes. Skips values that it does not walk into, and adds their size to
 * their node. */
#include "read/rs_node_sizes.h"

#include "read/rs_path.h"

static rs_status add_value(rs_cursor *self, const rs_node *node, const uint8_t *body, uint64_t bits,
                           rs_node_size *sizes, rs_error *err);

/* Returns whether all values of a fixed node use the same nodes below it. */
static bool is_uniform(const rs_node *node) {
    if (node->kind == RS_FMT_NODE_UNION || node->kind == RS_FMT_NODE_OPTIONAL) return false;
    for (uint32_t i = 0; i < node->n_children; i++) {
        if (!is_uniform(&node->children[i])) return false;
    }
    return true;
}

/* Returns the bits of a node that count for itself: the rare group of a row counts for the row. */
static unsigned own_bits(const rs_node *child) { return rs_node_is_rare(child) ? 0 : child->bits; }

/* Returns the padding of the bit group of a tuple, struct or concat. */
static uint64_t group_padding(const rs_node *node) {
    uint64_t padding = node->bits + 8 * (uint64_t)node->group_bytes;
    for (uint32_t i = 0; i < node->n_children; i++) padding -= own_bits(&node->children[i]);
    return padding;
}

static uint64_t list_padding(const rs_node *child, uint64_t n) {
    uint64_t used = n * child->bits;
    return (used + 7) / 8 * 8 - used;
}

/* Adds n values of a fixed, uniform node. */
static void add_uniform(const rs_node *node, uint64_t n, rs_node_size *sizes) {
    rs_node_size *own = &sizes[node->index];
    own->values += n;
    switch (node->kind) {
    case RS_FMT_NODE_EXT: add_uniform(node->children, n, sizes); break;
    case RS_FMT_NODE_LIST:
        own->bits += n * (node->bits + list_padding(node->children, node->count));
        add_uniform(node->children, n * node->count, sizes);
        break;
    case RS_FMT_NODE_TUPLE:
    case RS_FMT_NODE_STRUCT:
    case RS_FMT_NODE_CONCAT:
        own->bits += n * group_padding(node);
        for (uint32_t i = 0; i < node->n_children; i++) add_uniform(&node->children[i], n, sizes);
        break;
    default: own->bits += n * (node->bits + 8 * node->size_bytes); break;
    }
}

static rs_status add_row(rs_cursor *self, const rs_node *node, const uint8_t *body, uint64_t bits, rs_node_size *sizes,
                         rs_error *err) {
    const uint8_t *head = body;
    bool nests = node->kind != RS_FMT_NODE_CONCAT; /* a concat is one value */
    const uint8_t *begin = self->in.ptr;
    rs_rare_group room;
    rs_slice group;
    RS_TRY(rs_decode_row(self, node, bits, &head, &group, &room, err));
    sizes[node->index].bits += group_padding(node);
    if (node->rare_bytes != 0) sizes[node->index].bits += 8 * ((uint64_t)(self->in.ptr - begin) - node->head_bytes);
    if (nests) RS_TRY(rs_decode_enter(self, rs_decode_row_count(node, &group), err));
    for (uint32_t i = 0; i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        RS_TRY(add_value(self, child, child->fixed ? head + child->body_off : NULL,
                         rs_decode_bits_unchecked(&group, child->bit_off, child->bits), sizes, err));
    }
    if (nests) rs_decode_leave(self);
    return RS_OK;
}

static rs_status add_elements(rs_cursor *self, const rs_node *child, uint64_t n, const rs_slice *group,
                              const uint8_t *bodies, rs_node_size *sizes, rs_error *err) {
    if (child->fixed && is_uniform(child)) {
        add_uniform(child, n, sizes);
        return RS_OK;
    }
    for (uint64_t i = 0; i < n; i++) {
        RS_TRY(add_value(self, child, child->fixed ? bodies + i * child->size_bytes : NULL,
                         rs_decode_bits_unchecked(group, i * child->bits, child->bits), sizes, err));
    }
    return RS_OK;
}

static rs_status add_list(rs_cursor *self, const rs_node *node, const uint8_t *body, rs_node_size *sizes,
                          rs_error *err) {
    const rs_node *child = node->children;
    const uint8_t *begin = self->in.ptr, *bodies;
    rs_slice group;
    uint64_t n;
    RS_TRY(rs_decode_list(self, node, body, &n, &group, &bodies, err));
    sizes[node->index].bits += node->bits + list_padding(child, n);
    if (body == NULL) sizes[node->index].bits += 8 * ((uint64_t)(group.end - begin) - (n * child->bits + 7) / 8);
    RS_TRY(add_elements(self, child, n, &group, bodies, sizes, err));
    rs_decode_leave(self);
    return RS_OK;
}

static rs_status add_map(rs_cursor *self, const rs_node *node, rs_node_size *sizes, rs_error *err) {
    const uint8_t *begin = self->in.ptr, *bodies;
    rs_slice group;
    uint64_t n;
    RS_TRY(rs_decode_map_head(self, &n, err));
    sizes[node->index].bits += node->bits + 8 * (uint64_t)(self->in.ptr - begin);
    for (unsigned k = 0; k < 2; k++) {
        const rs_node *child = &node->children[k];
        RS_TRY(rs_decode_elements(self, child, n, &group, &bodies, err));
        sizes[node->index].bits += list_padding(child, n);
        RS_TRY(add_elements(self, child, n, &group, bodies, sizes, err));
    }
    rs_decode_leave(self);
    return RS_OK;
}

static rs_status add_union(rs_cursor *self, const rs_node *node, const uint8_t *body, uint64_t bits,
                           rs_node_size *sizes, rs_error *err) {
    const rs_node *child = node;
    uint64_t own = node->bits;
    bool fixed = body != NULL;
    RS_TRY(rs_decode_choose(self, &child, &body, &bits, err));
    own += 8 * (uint64_t)child->alone_bytes - child->bits;
    if (fixed) own += 8 * (node->size_bytes - child->alone_bytes - child->size_bytes);
    sizes[node->index].bits += own;
    return add_value(self, child, body, bits, sizes, err);
}

static rs_status add_optional(rs_cursor *self, const rs_node *node, const uint8_t *body, uint64_t bits,
                              rs_node_size *sizes, rs_error *err) {
    const rs_node *child = node->children;
    if ((bits & 1) == 0) {
        sizes[node->index].bits += own_bits(node) + (body == NULL ? 0 : 8 * node->size_bytes);
        return RS_OK;
    }
    sizes[node->index].bits += (uint64_t)own_bits(node) - child->bits;
    if (body == NULL && child->fixed) RS_TRY(rs_decode_take(self, child->size_bytes, &body, err));
    return add_value(self, child, body, bits >> 1, sizes, err);
}

static rs_status add_array(rs_cursor *self, const rs_node *node, rs_node_size *sizes, rs_error *err) {
    const uint8_t *data, *begin = self->in.ptr;
    uint64_t size;
    RS_TRY(rs_node_array_bytes(node, &self->in, &size, err));
    RS_TRY(rs_decode_array_data(self, size, &data, err));
    sizes[node->index].bits += node->bits + 8 * (uint64_t)(self->in.ptr - begin);
    if (size >= RS_FMT_ARRAY_INLINE) sizes[node->index].bits += 8 * size; /* the data are in the arrays of the block */
    return RS_OK;
}

/* A record with an exception also has room for the usual value if that is fixed. */
static rs_status add_exceptions(rs_cursor *self, const rs_node *node, const uint8_t *body, uint64_t bits,
                                rs_node_size *sizes, rs_error *err) {
    const rs_node *exception = &node->children[1];
    rs_outer outer;
    bool is_exception;
    RS_TRY(rs_decode_exception(self, node, &is_exception, &outer, err));
    if (!is_exception) return add_value(self, node->children, body, bits, sizes, err);
    sizes[node->index].bits += node->bits + (body == NULL ? 0 : 8 * node->size_bytes);
    sizes[exception->index].bits += 8 * (uint64_t)exception->alone_bytes - exception->bits;
    RS_TRY(rs_decode_take_alone(self, exception, &body, &bits, err));
    RS_TRY(add_value(self, exception, body, bits, sizes, err));
    return rs_decode_leave_entry(self, &outer, err);
}

/* Adds a value. Its body is at `body` or, if that is NULL, at the cursor, which moves past it. */
static rs_status add_value(rs_cursor *self, const rs_node *node, const uint8_t *body, uint64_t bits,
                           rs_node_size *sizes, rs_error *err) {
    const uint8_t *begin = self->in.ptr;
    sizes[node->index].values++;
    switch ((rs_node_code)node->kind) {
    case RS_FMT_NODE_LIST: return add_list(self, node, body, sizes, err);
    case RS_FMT_NODE_MAP: return add_map(self, node, sizes, err);
    case RS_FMT_NODE_TUPLE:
    case RS_FMT_NODE_STRUCT:
    case RS_FMT_NODE_CONCAT: return add_row(self, node, body, bits, sizes, err);
    case RS_FMT_NODE_UNION: return add_union(self, node, body, bits, sizes, err);
    case RS_FMT_NODE_OPTIONAL: return add_optional(self, node, body, bits, sizes, err);
    case RS_FMT_NODE_EXCEPTIONS: return add_exceptions(self, node, body, bits, sizes, err);
    case RS_FMT_NODE_EXT: return add_value(self, node->children, body, bits, sizes, err);
    case RS_FMT_NODE_NDARRAY:
        if (body == NULL) return add_array(self, node, sizes, err);
        break;
    case RS_NODES_FIXED:
    case RS_NODES_VARIABLE:
    case RS_FMT_NODE_NUMBERS:
    case RS_FMT_NODE_ALPHABET: break;
    }
    if (body == NULL) RS_TRY(rs_path_pass(self, node, bits, err));
    sizes[node->index].bits += node->bits + 8 * (body == NULL ? (uint64_t)(self->in.ptr - begin) : node->size_bytes);
    return RS_OK;
}

/* Adds all values of a run under a tree: the records of a block, or the entries of a table. */
static rs_status add_run(const rs_store *store, const rs_block *block, const rs_tree *tree, bool shared,
                         rs_node_size *sizes, rs_error *err) {
    const rs_node *root = tree->nodes;
    for (uint32_t i = 0; i < block->n_records; i++) {
        rs_slice bytes;
        const uint8_t *body;
        uint64_t bits;
        RS_TRY(rs_offsets_locate(store->segment.ptr, block, i, &bytes, err));
        rs_cursor cursor = rs_store_cursor_over(store, block, i, bytes);
        cursor.shared = shared;
        RS_TRY(rs_decode_take_alone(&cursor, root, &body, &bits, err));
        sizes[0].bits += 8 * (uint64_t)root->alone_bytes - root->bits;
        RS_TRY(add_value(&cursor, root, body, bits, sizes, err));
        if (cursor.in.ptr != cursor.in.end) return RS_FAIL(rs_decode_trailing(err), RS_E_FMT_TRAILING);
    }
    return RS_OK;
}

rs_status rs_node_sizes_add_block(const rs_store *store, const rs_block *block, rs_node_size *sizes, rs_error *err) {
    const rs_tree *tree = &store->trees[block->tree];
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        const rs_node *node = &tree->nodes[i];
        if (!rs_node_is_placed(node)) continue;
        sizes[i].bits += 8 * rs_placed_size(&block->placed[node->placed], node);
        if (node->kind != RS_FMT_NODE_EXCEPTIONS) sizes[node->children->index].values += block->n_records;
    }
    return add_run(store, block, tree, false, sizes, err);
}

rs_status rs_node_sizes_add_table(const rs_store *store, const rs_table *table, rs_node_size *sizes, rs_error *err) {
    return add_run(store, &table->block, table->tree, true, sizes, err);
}
