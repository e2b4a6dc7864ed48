/* rs_schema.c: parsing, checking and compiling of schema trees (rules 17 to 19 of FORMAT.md). */
#include "rs_schema.h"

#include <stdlib.h>

static rs_status bad(rs_error *err, uint64_t offset, uint32_t node, const char *why) {
    return rs_error_set(err, RS_E_FMT_TREE, offset, "tree node %u: %s", node, why);
}

/* A const's or a key's any value: budgets of a tree, no arrays outside. */
static rs_status skip_aux_value(rs_slice *aux, rs_error *err) {
    rs_budget budget = {RS_FMT_TREE_BYTES, RS_FMT_TREE_BYTES, RS_FMT_DEPTH};
    return rs_any_skip(aux, 0, &budget, err);
}

/* What of kind, param, flags, count and number of children the table of node kinds allows. */
static const char *check_fields(const rs_node *n) {
    bool fixed_flag = n->flags == RS_FMT_FLAG_FIXED;
    if (n->flags != 0 && !(fixed_flag && (n->kind == RS_FMT_NODE_LIST || n->kind == RS_FMT_NODE_NDARRAY))) {
        return "flags that mean nothing here";
    }
    if (n->count != 0 && !(n->kind == RS_FMT_NODE_LIST && fixed_flag)) return "a count where none belongs";
    switch (n->kind) {
    case RS_FMT_NODE_ANY:
    case RS_FMT_NODE_FLOAT:
    case RS_FMT_NODE_BOOL:
    case RS_FMT_NODE_BYTES:
        if (n->param != 0 || n->n_children != 0 || n->aux_size_bytes != 0) return "a leaf with parameters";
        return NULL;
    case RS_FMT_NODE_CONST:
    case RS_FMT_NODE_NDARRAY:
        return n->param != 0 || n->n_children != 0 ? "a leaf with parameters" : NULL;
    case RS_FMT_NODE_INT:
        return n->param > 64 || n->n_children != 0 || n->aux_size_bytes != 8 ? "an int that is malformed" : NULL;
    case RS_FMT_NODE_STR:
        if (n->n_children != 0 || n->aux_size_bytes != 0) return "a leaf with parameters";
        return n->param == 0 || n->param == 1 || n->param == 2 || n->param == 4 ? NULL : "a width that is not one";
    case RS_FMT_NODE_LIST:
        return n->param > 1 || n->n_children != 1 || n->aux_size_bytes != 0 ? "a list that is malformed" : NULL;
    case RS_FMT_NODE_TUPLE: return n->param > 1 || n->aux_size_bytes != 0 ? "a tuple that is malformed" : NULL;
    case RS_FMT_NODE_STRUCT: return n->param != 0 ? "a struct of an unknown type" : NULL;
    case RS_FMT_NODE_UNION:
        if (n->param != 0 || n->aux_size_bytes != 0) return "a union with parameters";
        return n->n_children < 2 || n->n_children > RS_FMT_UNION_CHILDREN ? "a union of too few or too many" : NULL;
    case RS_FMT_NODE_EXT:
        return n->n_children != 1 || n->aux_size_bytes == 0 ? "an ext that is malformed" : NULL;
    default: return "a kind with no meaning";
    }
}

static rs_status compile_array(rs_node *n, uint64_t offset, rs_error *err) {
    rs_slice aux = rs_slice_of(n->aux, n->aux_size_bytes);
    rs_array_type type;
    uint64_t dims[RS_FMT_ARRAY_NDIM];
    uint32_t ndim;
    bool scalar;
    RS_TRY(rs_array_type_take(&aux, &type, err));
    scalar = (type.flags & RS_FMT_ARRAY_SCALAR) != 0;
    n->item_bytes = type.item_bytes;
    n->data_bytes = type.item_bytes;
    if ((n->flags & RS_FMT_FLAG_FIXED) != 0) {
        if (scalar) return bad(err, offset, n->index, "a scalar with a shape");
        RS_TRY(rs_array_shape_take(&aux, type.item_bytes, &ndim, dims, &n->data_bytes, err));
    }
    if (aux.ptr != aux.end) return bad(err, offset, n->index, "aux holds more than a dtype");
    n->fixed = (scalar || (n->flags & RS_FMT_FLAG_FIXED) != 0) && n->data_bytes < RS_FMT_ARRAY_INLINE;
    n->size_bytes = n->fixed ? n->data_bytes : 0;
    return RS_OK;
}

static rs_status compile_keys(rs_node *n, uint64_t offset, rs_error *err) {
    rs_slice aux = rs_slice_of(n->aux, n->aux_size_bytes);
    uint32_t i;
    n->shape_hash = RS_SHAPE_SEED;
    for (i = 0; i < n->n_children; i++) {
        const uint8_t *key = aux.ptr;
        if (!rs_any_may_be_key(aux)) return bad(err, offset, n->index, "a key that cannot be hashed");
        RS_TRY(skip_aux_value(&aux, err));
        n->shape_hash = rs_schema_hash_key(n->shape_hash, key, (size_t)(aux.ptr - key));
    }
    return aux.ptr == aux.end ? RS_OK : bad(err, offset, n->index, "aux holds more than the keys");
}

/* Bits and sizes of a tuple or struct from its compiled children. */
static rs_status compile_row(rs_node *n, uint64_t offset, rs_error *err) {
    rs_node *children = (rs_node *)n->children;
    uint64_t bits = 0, body = 0;
    uint32_t i;
    n->fixed = true;
    for (i = 0; i < n->n_children; i++) {
        children[i].bit_off = (uint32_t)bits;
        bits += children[i].bits;
    }
    body = (bits + 7) / 8;
    n->group_bytes = (uint32_t)body;
    for (i = 0; i < n->n_children; i++) {
        if (!children[i].fixed) {
            n->fixed = false;
            continue;
        }
        children[i].body_off = (uint32_t)body;
        body += children[i].size_bytes;
        if (body >= RS_FMT_FIXED_SIZE) return bad(err, offset, n->index, "a fixed body that is too large");
    }
    n->head_bytes = (uint32_t)body;
    n->size_bytes = n->fixed ? body : 0;
    return RS_OK;
}

static rs_status compile_union(rs_node *n, uint64_t offset, rs_error *err) {
    uint64_t size = n->children[0].alone_bytes + n->children[0].size_bytes;
    uint32_t i;
    n->bits = 1;
    while ((1u << n->bits) < n->n_children) n->bits++;
    n->fixed = true;
    for (i = 0; i < n->n_children; i++) {
        const rs_node *c = &n->children[i];
        if (!c->fixed || c->alone_bytes + c->size_bytes != size) n->fixed = false;
    }
    n->size_bytes = n->fixed ? size : 0;
    return n->size_bytes < RS_FMT_FIXED_SIZE ? RS_OK : bad(err, offset, n->index, "a fixed body that is too large");
}

static rs_status compile_list(rs_node *n, uint64_t offset, rs_error *err) {
    const rs_node *child = n->children;
    uint64_t body, bits;
    n->fixed = (n->flags & RS_FMT_FLAG_FIXED) != 0 && child->fixed;
    if (!n->fixed) return RS_OK;
    if (rs_mul_overflows(n->count, child->size_bytes, &body) || body >= RS_FMT_FIXED_SIZE) {
        return bad(err, offset, n->index, "a fixed body that is too large");
    }
    bits = (uint64_t)n->count * child->bits;
    body += (bits + 7) / 8;
    if (body >= RS_FMT_FIXED_SIZE) return bad(err, offset, n->index, "a fixed body that is too large");
    n->size_bytes = body;
    return RS_OK;
}

/* Sizes of one node; its children, which have larger numbers, are done already. */
static rs_status compile_node(rs_node *n, uint64_t offset, rs_error *err) {
    rs_slice aux = rs_slice_of(n->aux, n->aux_size_bytes);
    switch (n->kind) {
    case RS_FMT_NODE_CONST:
        n->fixed = true;
        RS_TRY(skip_aux_value(&aux, err));
        if (aux.ptr != aux.end) return bad(err, offset, n->index, "a const followed by more bytes");
        if (n->payload && *n->aux == RS_FMT_TAG_EXT) return bad(err, offset, n->index, "an ext directly within an ext");
        break;
    case RS_FMT_NODE_INT:
        n->fixed = true;
        n->base = rs_load_u64(n->aux);
        if (n->param == 8 || n->param == 16 || n->param == 32 || n->param == 64) {
            n->size_bytes = n->param / 8u;
        } else {
            n->bits = n->param;
        }
        break;
    case RS_FMT_NODE_FLOAT:
        n->fixed = true;
        n->size_bytes = 8;
        break;
    case RS_FMT_NODE_BOOL:
        n->fixed = true;
        n->bits = 1;
        break;
    case RS_FMT_NODE_LIST: RS_TRY(compile_list(n, offset, err)); break;
    case RS_FMT_NODE_STRUCT: RS_TRY(compile_keys(n, offset, err)); /* fall through */
    case RS_FMT_NODE_TUPLE: RS_TRY(compile_row(n, offset, err)); break;
    case RS_FMT_NODE_UNION: RS_TRY(compile_union(n, offset, err)); break;
    case RS_FMT_NODE_NDARRAY: RS_TRY(compile_array(n, offset, err)); break;
    case RS_FMT_NODE_EXT: /* transparent: bits and body are the payload's */
        RS_TRY(rs_any_extra_skip(&aux, err));
        if (aux.ptr != aux.end) return bad(err, offset, n->index, "EXTRA followed by more bytes");
        n->bits = n->children->bits;
        n->fixed = n->children->fixed;
        n->size_bytes = n->children->size_bytes;
        break;
    default: break;
    }
    n->alone_bytes = (n->bits + 7u) / 8u;
    return RS_OK;
}

/* Reads the stored entry of node i into `n`; `next_child` is where its children have to begin. */
static rs_status read_node(const rs_tree *tree, uint32_t i, rs_slice aux, uint32_t *next_child, uint64_t offset,
                           rs_error *err) {
    const uint8_t *e = tree->bytes + RS_FMT_TREE_HEAD_SIZE + (size_t)i * RS_FMT_NODE_SIZE;
    rs_node *n = &tree->nodes[i];
    uint32_t first = rs_load_u32(e + RS_FMT_N_FIRST_CHILD), aux_off = rs_load_u32(e + RS_FMT_N_AUX_OFFSET);
    const char *why;
    n->index = i;
    n->kind = e[RS_FMT_N_KIND];
    n->param = e[RS_FMT_N_PARAM];
    n->flags = rs_load_u16(e + RS_FMT_N_FLAGS);
    n->n_children = rs_load_u32(e + RS_FMT_N_N_CHILDREN);
    n->aux_size_bytes = rs_load_u32(e + RS_FMT_N_AUX_SIZE);
    n->count = rs_load_u32(e + RS_FMT_N_COUNT);
    if (n->kind > RS_FMT_NODE_LAST) {
        return rs_error_set(err, RS_E_FMT_VERSION, offset, "tree node %u is of kind %u, of a later version", i,
                            n->kind);
    }
    if (n->kind == RS_FMT_NODE_EXT && (n->param == 0 || n->param > RS_FMT_EXT_LAST)) {
        return rs_error_set(err, RS_E_FMT_VERSION, offset, "tree node %u: ext code %u is of a later version", i,
                            n->param);
    }
    if (aux_off > rs_slice_left(&aux) || n->aux_size_bytes > rs_slice_left(&aux) - aux_off) {
        return bad(err, offset, i, "aux out of range");
    }
    n->aux = aux.ptr + aux_off;
    why = check_fields(n);
    if (why != NULL) return bad(err, offset, i, why);
    if (n->n_children == 0) return first == 0 ? RS_OK : bad(err, offset, i, "a leaf with a first child");
    if (first != *next_child || n->n_children > tree->n_nodes - *next_child) {
        return bad(err, offset, i, "children out of order");
    }
    n->children = &tree->nodes[first];
    *next_child += n->n_children;
    return RS_OK;
}

/* The depth of containers at and below each node, root last; unions and leaves add none. */
static rs_status check_depth(const rs_tree *tree, uint64_t offset, rs_error *err) {
    uint32_t i, k, shapes = 0;
    uint16_t depth[RS_FMT_TREE_NODES], levels[RS_FMT_TREE_NODES];
    for (i = tree->n_nodes; i-- > 0;) {
        const rs_node *n = &tree->nodes[i];
        bool container = n->kind == RS_FMT_NODE_LIST || n->kind == RS_FMT_NODE_TUPLE || n->kind == RS_FMT_NODE_STRUCT;
        uint16_t deepest = 0, most = 0;
        for (k = 0; k < n->n_children; k++) {
            uint32_t child = n->children[k].index;
            if (depth[child] > deepest) deepest = depth[child];
            if (levels[child] > most) most = levels[child];
        }
        depth[i] = (uint16_t)(deepest + (container ? 1 : 0));
        /* Unions count here too: it keeps chains of them, which no writer makes, from nesting without end. */
        levels[i] = (uint16_t)(most + (n->n_children > 0 ? 1 : 0));
        if (depth[i] > RS_FMT_DEPTH || levels[i] > 2 * RS_FMT_DEPTH) return bad(err, offset, i, "nested too deep");
        if (n->kind == RS_FMT_NODE_STRUCT) shapes++;
    }
    if (shapes > RS_FMT_TREE_SHAPES) return bad(err, offset, 0, "too many struct nodes");
    return RS_OK;
}

/* Marks payloads; parents come before their children. */
static rs_status mark_payloads(rs_tree *tree, uint64_t offset, rs_error *err) {
    uint32_t i, k;
    for (i = 0; i < tree->n_nodes; i++) {
        const rs_node *n = &tree->nodes[i];
        bool payload = n->kind == RS_FMT_NODE_EXT || (n->kind == RS_FMT_NODE_UNION && n->payload);
        if (n->kind == RS_FMT_NODE_EXT && n->payload) return bad(err, offset, i, "an ext directly within an ext");
        if (!payload) continue;
        for (k = 0; k < n->n_children; k++) tree->nodes[n->children[k].index].payload = true;
    }
    return RS_OK;
}

static rs_status compile(rs_tree *tree, uint64_t offset, rs_error *err) {
    uint32_t aux_size, i, next_child = 1;
    uint64_t nodes_size;
    rs_slice aux;
    if (tree->size_bytes < RS_FMT_TREE_HEAD_SIZE || tree->size_bytes > RS_FMT_TREE_BYTES) {
        return bad(err, offset, 0, "a tree of that size");
    }
    tree->n_nodes = rs_load_u32(tree->bytes);
    aux_size = rs_load_u32(tree->bytes + 4);
    if (tree->n_nodes == 0 || tree->n_nodes > RS_FMT_TREE_NODES) {
        return bad(err, offset, 0, "a tree of that many nodes");
    }
    nodes_size = (uint64_t)tree->n_nodes * RS_FMT_NODE_SIZE;
    if (RS_FMT_TREE_HEAD_SIZE + nodes_size + aux_size != tree->size_bytes) {
        return bad(err, offset, 0, "nodes and aux do not fill the tree");
    }
    aux = rs_slice_of(tree->bytes + RS_FMT_TREE_HEAD_SIZE + nodes_size, aux_size);
    tree->nodes = (rs_node *)calloc(tree->n_nodes, sizeof *tree->nodes);
    if (tree->nodes == NULL) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for a tree");
    for (i = 0; i < tree->n_nodes; i++) RS_TRY(read_node(tree, i, aux, &next_child, offset, err));
    if (next_child != tree->n_nodes) return bad(err, offset, next_child, "no parent");
    RS_TRY(check_depth(tree, offset, err));
    RS_TRY(mark_payloads(tree, offset, err));
    for (i = tree->n_nodes; i-- > 0;) {
        rs_status status = compile_node(&tree->nodes[i], offset, err);
        if (status == RS_E_FMT_VERSION) return status;
        /* Whatever is wrong with a value within aux, it is the tree that is malformed. */
        if (status != RS_OK) return status == RS_E_FMT_TREE ? status : bad(err, offset, i, "aux holds no such value");
    }
    return RS_OK;
}

rs_status rs_tree_compile(rs_slice bytes, uint64_t offset, rs_tree *out, rs_error *err) {
    rs_status status;
    memset(out, 0, sizeof *out);
    if (rs_slice_left(&bytes) > RS_FMT_TREE_BYTES) return bad(err, offset, 0, "a tree of that size");
    out->size_bytes = (uint32_t)rs_slice_left(&bytes);
    out->bytes = (uint8_t *)malloc((size_t)out->size_bytes + 1);
    if (out->bytes == NULL) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for a tree");
    memcpy(out->bytes, bytes.ptr, out->size_bytes);
    status = compile(out, offset, err);
    if (status != RS_OK) rs_tree_clear(out);
    return status;
}

void rs_tree_clear(rs_tree *self) {
    free(self->nodes);
    free(self->bytes);
    memset(self, 0, sizeof *self);
}
