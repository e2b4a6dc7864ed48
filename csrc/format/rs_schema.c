/* rs_schema.c: parses, checks and compiles schema trees (rules 17 to 19 of FORMAT.md). */
#include "format/rs_schema.h"

#include <stdlib.h>

RS_STATIC_ASSERT(sizeof(rs_node) % RS_CACHE_LINE == 0, "each node begins at a cache line");

#include "format/rs_node_kinds.h"

static rs_status bad(rs_error *err, uint64_t offset, uint32_t node, const char *why) {
    return rs_error_set(err, RS_E_FMT_TREE, offset, "tree node %u: %s", node, why);
}

/* Takes the any value of a const or key off an aux. It may not have arrays outside. */
static rs_status skip_aux_value(rs_slice *aux, rs_error *err) {
    rs_budget budget = {.values = RS_FMT_TREE_BYTES, .bytes = RS_FMT_TREE_BYTES, .depth = RS_FMT_DEPTH};
    return rs_any_skip(aux, 0, &budget, err);
}

/* Returns the flag that an alphabet node may have: REST only without FIXED, for texts whose bytes give their length. */
static unsigned alphabet_flag(const rs_node *node) {
    const bool whole_bytes = node->param == RS_FMT_ALPHABET_BYTES || node->param == RS_FMT_ALPHABET_PADDED;
    return whole_bytes && (node->flags & RS_FMT_FLAG_FIXED) == 0 ? RS_FMT_FLAG_REST : RS_FMT_FLAG_FIXED;
}

/* Returns the flags that a node may have. */
static unsigned flags_of(const rs_node *n) {
    if (n->kind == RS_FMT_NODE_STR && n->param == 0) return 0; /* its length includes the width of the units */
    if (n->kind == RS_FMT_NODE_ALPHABET) return alphabet_flag(n);
    return rs_node_kind_of(n->kind)->flag;
}

static bool has_count(const rs_node *n) {
    switch (rs_node_kind_of(n->kind)->count) {
    case RS_COUNT_IF_FIXED: return (n->flags & RS_FMT_FLAG_FIXED) != 0;
    case RS_COUNT_ALWAYS: return true;
    default: return false;
    }
}

/* Checks count and aux of an alphabet node whose aux has 2 to 64 bytes. Returns NULL or the fault. */
static const char *check_alphabet(const rs_node *node) {
    const bool fixed = (node->flags & RS_FMT_FLAG_FIXED) != 0;
    if ((node->aux_size_bytes & (node->aux_size_bytes - 1)) != 0) return "its alphabet is not a power of two";
    for (uint32_t i = 0; i < node->aux_size_bytes; i++) {
        if (node->aux[i] >= 0x80) return "its alphabet is not ASCII";
    }
    if (fixed && (node->count == 0 || node->count > RS_FMT_ALPHABET_MAX)) return "its count is 0 or too large";
    if (node->param != RS_FMT_ALPHABET_UUID) return NULL;
    return node->aux_size_bytes == 16 && node->count == RS_FMT_UUID_DIGITS ? NULL : "a UUID has 32 digits of 16";
}

/* Checks the rules of param, count and aux that are not in the table of node kinds. Returns NULL or the fault. */
static const char *check_own_rules(const rs_node *n) {
    switch (n->kind) {
    case RS_FMT_NODE_STR: return n->param == 3 ? "its param is not a width of units" : NULL;
    case RS_FMT_NODE_DICT_CODED:
        if (n->aux_size_bytes % 4 != 0) return "its aux is not a list of table numbers";
        return n->param < 32 && n->count > UINT32_C(1) << n->param ? "its count is too large for its width" : NULL;
    case RS_FMT_NODE_DIGITS: return n->count > RS_FMT_DIGITS_MAX ? "its count is too large" : NULL;
    case RS_FMT_NODE_HEX: return n->count == 0 || n->count > RS_FMT_HEX_MAX ? "its count is 0 or too large" : NULL;
    case RS_FMT_NODE_ALPHABET: return check_alphabet(n);
    default: return NULL;
    }
}

/* Checks param, flags, count, number of children and size of aux. Returns NULL or the fault. */
static const char *check_fields(const rs_node *n) {
    const rs_node_kind *kind = rs_node_kind_of(n->kind);
    if (kind == NULL) return "its kind is not valid";
    if ((n->flags & ~flags_of(n)) != 0) return "its kind does not have these flags";
    if (n->count != 0 && !has_count(n)) return "its count must be 0";
    if (n->param > kind->max_param) return "its kind does not have this param";
    if (n->n_children < kind->min_children || n->n_children > kind->max_children) {
        return "its number of children does not match its kind";
    }
    if (n->aux_size_bytes < kind->min_aux || n->aux_size_bytes > kind->max_aux) {
        return "the size of its aux does not match its kind";
    }
    return check_own_rules(n);
}

double rs_schema_divisor(unsigned scale) {
    static const double powers[RS_FMT_SCALE_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                        1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                        1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    return scale <= RS_FMT_SCALE_MAX ? powers[scale] : 1.0;
}

/* Sets the characters and sizes of an alphabet or hex node. */
static void compile_alphabet(rs_node *node) {
    static const char *const hex[] = {"0123456789abcdef", "0123456789ABCDEF"};
    const bool is_hex = node->kind == RS_FMT_NODE_HEX;
    node->letters = is_hex ? (const uint8_t *)hex[node->param] : node->aux;
    node->letter_form = is_hex ? RS_FMT_ALPHABET_ALL : node->param;
    node->letter_bits = is_hex ? 4 : (uint8_t)rs_bit_width(node->aux_size_bytes - 1);
    node->fixed = is_hex || (node->flags & RS_FMT_FLAG_FIXED) != 0;
    if (node->fixed) node->size_bytes = rs_alphabet_bytes(node->letter_bits, node->letter_form, node->count);
}

/* Sets bits or size_bytes of a node with an integer of param bits. */
static void compile_width(rs_node *n) {
    n->fixed = true;
    if (n->param == 8 || n->param == 16 || n->param == 32 || n->param == 64) {
        n->size_bytes = n->param / 8u;
    } else {
        n->bits = n->param;
    }
}

static rs_status compile_decimal(rs_node *n, uint64_t offset, rs_error *err) {
    n->base = rs_load_u64(n->aux);
    n->scale = n->aux[RS_FMT_DECIMAL_SCALE];
    n->correction = n->aux[RS_FMT_DECIMAL_CORRECTION];
    if (n->scale > RS_FMT_SCALE_MAX || n->correction > RS_FMT_CORRECTION_MAX || n->correction > n->param) {
        return bad(err, offset, n->index, "its scale or correction is out of range");
    }
    n->divisor = rs_schema_divisor(n->scale);
    compile_width(n);
    return RS_OK;
}

static rs_status compile_numbers(rs_node *n, uint64_t offset, rs_error *err) {
    const uint8_t *aux = n->aux;
    n->base = rs_load_u64(aux);
    n->number_kind = aux[RS_FMT_NUMBERS_KIND];
    n->scale = aux[RS_FMT_NUMBERS_SCALE];
    n->stride = aux[RS_FMT_NUMBERS_STRIDE];
    n->head_width = aux[RS_FMT_NUMBERS_HEAD_WIDTH];
    n->max_width = aux[RS_FMT_NUMBERS_MAX_WIDTH];
    if (n->number_kind > RS_FMT_NUMBERS_FLOATS || n->stride > RS_FMT_STRIDE_MAX || n->head_width > 64 ||
        n->max_width > 64 || n->scale > (n->number_kind == RS_FMT_NUMBERS_FLOATS ? RS_FMT_SCALE_MAX : 0) ||
        aux[RS_FMT_NUMBERS_RESERVED] != 0 || rs_load_u16(aux + RS_FMT_NUMBERS_RESERVED + 1) != 0) {
        return bad(err, offset, n->index, "a field of its aux is out of range");
    }
    n->divisor = rs_schema_divisor(n->scale);
    return RS_OK;
}

/* Checks that each child of a concat is text, or a `same` of an earlier child that is text. */
static rs_status check_parts(const rs_node *n, uint64_t offset, rs_error *err) {
    for (uint32_t i = 0; i < n->n_children; i++) {
        const rs_node *c = &n->children[i];
        bool text = rs_node_kind_of(c->kind)->part == RS_CONCAT_PART_YES;
        if (c->kind == RS_FMT_NODE_CONST) {
            text = *c->aux >= RS_FMT_TAG_STR1 && *c->aux <= RS_FMT_TAG_STR4;
        } else if (c->kind == RS_FMT_NODE_SAME) {
            text = c->count < i && n->children[c->count].kind != RS_FMT_NODE_SAME;
        }
        if (!text) return bad(err, offset, c->index, "it is part of a concat and not text");
    }
    return RS_OK;
}

static rs_status compile_optional(rs_node *n, uint64_t offset, rs_error *err) {
    const rs_node *child = n->children;
    if (child->bits > 63) return bad(err, offset, n->index, "an optional has too many bits");
    if (child->kind == RS_FMT_NODE_OPTIONAL && child->param == 0) {
        return bad(err, offset, child->index, "an optional key is the child of an optional");
    }
    n->bits = (uint8_t)(1 + child->bits);
    if (rs_node_is_rare(n) && child->bits != 0) {
        return bad(err, offset, n->index, "the child of a rare optional has bits");
    }
    n->fixed = child->fixed && child->size_bytes == 0 && !rs_node_is_rare(n);
    return RS_OK;
}

/* Computes the sizes of a placed node, and checks its children. */
static rs_status compile_placed(rs_node *n, uint64_t offset, rs_error *err) {
    const rs_node *child = n->children;
    if (n->kind == RS_FMT_NODE_EXCEPTIONS) {
        n->bits = child->bits;
        n->fixed = child->fixed;
        n->size_bytes = child->size_bytes;
        return RS_OK;
    }
    n->fixed = true;
    if (n->kind == RS_FMT_NODE_RUNS) {
        return child->fixed ? RS_OK : bad(err, offset, child->index, "the child of a runs is not fixed");
    }
    switch (child->kind) {
    case RS_FMT_NODE_DICT_CODED: return RS_OK;
    case RS_FMT_NODE_INT:
    case RS_FMT_NODE_DIGITS:
    case RS_FMT_NODE_DECIMAL:
        if (child->param == 0) return RS_OK; /* so a decimal has no correction */
        /* fall through */
    default: return bad(err, offset, child->index, "the child of a rising node must be a number without a width");
    }
}

static rs_status compile_array(rs_node *n, uint64_t offset, rs_error *err) {
    rs_slice aux = rs_slice_of(n->aux, n->aux_size_bytes);
    rs_array_type type;
    uint64_t dims[RS_FMT_ARRAY_NDIM];
    uint32_t ndim;
    RS_TRY(rs_array_type_take(&aux, &type, err));
    bool scalar = (type.flags & RS_FMT_ARRAY_SCALAR) != 0;
    n->item_bytes = type.item_bytes;
    n->data_bytes = type.item_bytes;
    if ((n->flags & RS_FMT_FLAG_FIXED) != 0) {
        if (scalar) return bad(err, offset, n->index, "a scalar has a shape");
        RS_TRY(rs_array_shape_take(&aux, type.item_bytes, &ndim, dims, &n->data_bytes, err));
    }
    if (aux.ptr != aux.end) return bad(err, offset, n->index, "its aux holds more than dtype and shape");
    n->data_bytes = rs_array_data_bytes(type.flags, type.item_bytes, n->data_bytes);
    n->fixed = (scalar || (n->flags & RS_FMT_FLAG_FIXED) != 0) && n->data_bytes < RS_FMT_ARRAY_INLINE;
    n->size_bytes = n->fixed ? n->data_bytes : 0;
    return RS_OK;
}

static rs_status compile_keys(rs_node *n, uint64_t offset, rs_error *err) {
    rs_slice aux = rs_slice_of(n->aux, n->aux_size_bytes);
    n->key_set_hash = RS_KEY_SET_SEED;
    for (uint32_t i = 0; i < n->n_children; i++) {
        const uint8_t *key = aux.ptr;
        if (!rs_any_may_be_key(aux)) return bad(err, offset, n->index, "a key cannot be hashed");
        RS_TRY(skip_aux_value(&aux, err));
        n->key_set_hash = rs_schema_hash_key(n->key_set_hash, key, (size_t)(aux.ptr - key));
        if (n->children[i].kind == RS_FMT_NODE_OPTIONAL && n->children[i].param == 0) n->partial = true;
    }
    return aux.ptr == aux.end ? RS_OK : bad(err, offset, n->index, "its aux holds more than the keys");
}

/* Computes the offsets and sizes of a tuple, struct or concat from its compiled children. */
static rs_status compile_row(rs_node *n, uint64_t offset, rs_error *err) {
    rs_node *children = (rs_node *)n->children;
    const bool in_bits = (n->flags & RS_FMT_FLAG_IN_BITS) != 0;
    uint64_t bits = 0, rare = 0;
    for (uint32_t i = 0; i < n->n_children; i++) {
        if (rs_node_is_rare(&children[i])) rare++;
        else bits += children[i].bits;
    }
    uint64_t at = n->rare_bytes = (rare + 7) / 8;
    bits += at;
    if (in_bits && (bits > 64 || rare != 0)) {
        return bad(err, offset, n->index, "its bits do not fit its parent's bit group");
    }
    n->bits = in_bits ? (uint8_t)bits : 0;
    uint64_t body = in_bits ? 0 : (bits + 7) / 8, rare_at = 8 * body;
    n->group_bytes = (uint32_t)body;
    if (rare != 0 && body + n->rare_bytes > RS_FMT_RARE_BYTES) {
        return bad(err, offset, n->index, "a rare group that is too large");
    }
    n->fixed = true;
    for (uint32_t i = 0; i < n->n_children; i++) {
        const bool is_rare = rs_node_is_rare(&children[i]);
        children[i].bit_off = (uint32_t)(is_rare ? rare_at++ : at);
        if (!is_rare) at += children[i].bits;
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
    n->bits = 0;
    while ((1u << n->bits) < n->n_children) n->bits++;
    n->fixed = true;
    for (uint32_t i = 0; i < n->n_children; i++) {
        const rs_node *c = &n->children[i];
        if (!c->fixed || c->alone_bytes + c->size_bytes != size) n->fixed = false;
    }
    n->size_bytes = n->fixed ? size : 0;
    return n->size_bytes < RS_FMT_FIXED_SIZE ? RS_OK : bad(err, offset, n->index, "a fixed body that is too large");
}

static rs_status compile_list(rs_node *n, uint64_t offset, rs_error *err) {
    const rs_node *child = n->children;
    uint64_t body;
    n->fixed = (n->flags & RS_FMT_FLAG_FIXED) != 0 && child->fixed;
    if (!n->fixed) return RS_OK;
    if (rs_mul_overflows(n->count, child->size_bytes, &body) || body >= RS_FMT_FIXED_SIZE) {
        return bad(err, offset, n->index, "a fixed body that is too large");
    }
    uint64_t bits = (uint64_t)n->count * child->bits;
    body += (bits + 7) / 8;
    if (body >= RS_FMT_FIXED_SIZE) return bad(err, offset, n->index, "a fixed body that is too large");
    n->size_bytes = body;
    return RS_OK;
}

static rs_status compile_const(rs_node *n, uint64_t offset, rs_error *err) {
    rs_slice aux = rs_slice_of(n->aux, n->aux_size_bytes);
    n->fixed = true;
    RS_TRY(skip_aux_value(&aux, err));
    if (aux.ptr != aux.end) return bad(err, offset, n->index, "its aux holds more than one any value");
    if (n->payload && *n->aux == RS_FMT_TAG_EXT) {
        return bad(err, offset, n->index, "the payload of an ext is itself an ext value");
    }
    n->units = n->aux[0] == RS_FMT_TAG_STR1 && n->aux[1] < 0x80 ? n->aux[1] : UINT64_MAX;
    return RS_OK;
}

/* Computes the sizes of one node. Its children, which have larger numbers, are compiled already. */
static rs_status compile_node(rs_node *n, uint64_t offset, rs_error *err) {
    rs_slice aux = rs_slice_of(n->aux, n->aux_size_bytes);
    switch ((rs_node_code)n->kind) {
    case RS_FMT_NODE_CONST: RS_TRY(compile_const(n, offset, err)); break;
    case RS_FMT_NODE_INT:
    case RS_FMT_NODE_DIGITS:
        n->base = rs_load_u64(n->aux);
        compile_width(n);
        break;
    case RS_FMT_NODE_DECIMAL: RS_TRY(compile_decimal(n, offset, err)); break;
    case RS_FMT_NODE_NUMBERS: RS_TRY(compile_numbers(n, offset, err)); break;
    case RS_FMT_NODE_DICT_CODED:
        n->fixed = true;
        n->bits = n->param;
        break;
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET: compile_alphabet(n); break;
    case RS_FMT_NODE_SAME: n->fixed = true; break;
    case RS_FMT_NODE_OPTIONAL: RS_TRY(compile_optional(n, offset, err)); break;
    case RS_FMT_NODE_RISING:
    case RS_FMT_NODE_RUNS:
    case RS_FMT_NODE_EXCEPTIONS: RS_TRY(compile_placed(n, offset, err)); break;
    case RS_FMT_NODE_FLOAT:
        n->fixed = true;
        n->size_bytes = 8;
        break;
    case RS_FMT_NODE_BOOL:
        n->fixed = true;
        n->bits = 1;
        break;
    case RS_FMT_NODE_LIST: RS_TRY(compile_list(n, offset, err)); break;
    case RS_FMT_NODE_CONCAT:
        RS_TRY(check_parts(n, offset, err));
        RS_TRY(compile_row(n, offset, err));
        break;
    case RS_FMT_NODE_STRUCT: RS_TRY(compile_keys(n, offset, err)); /* fall through */
    case RS_FMT_NODE_TUPLE: RS_TRY(compile_row(n, offset, err)); break;
    case RS_FMT_NODE_UNION: RS_TRY(compile_union(n, offset, err)); break;
    case RS_FMT_NODE_NDARRAY: RS_TRY(compile_array(n, offset, err)); break;
    case RS_FMT_NODE_EXT: /* it has the bits and body of the payload */
        RS_TRY(rs_any_extra_skip(&aux, err));
        if (aux.ptr != aux.end) return bad(err, offset, n->index, "its aux holds more than EXTRA");
        n->bits = n->children->bits;
        n->fixed = n->children->fixed;
        n->size_bytes = n->children->size_bytes;
        break;
    case RS_NODES_VARIABLE:
    case RS_FMT_NODE_MAP: break;
    }
    n->alone_bytes = (n->bits + 7u) / 8u;
    return RS_OK;
}

/* Reads stored node i into the tree. Its children must begin at node *next_child, which then moves past them. */
static rs_status read_node(const rs_tree *tree, uint32_t i, rs_slice aux, uint32_t *next_child, uint64_t offset,
                           rs_error *err) {
    const uint8_t *e = tree->bytes + RS_FMT_TREE_HEAD_SIZE + (size_t)i * RS_FMT_NODE_SIZE;
    rs_node *n = &tree->nodes[i];
    uint32_t first = rs_load_u32(e + RS_FMT_N_FIRST_CHILD), aux_off = rs_load_u32(e + RS_FMT_N_AUX_OFFSET);
    n->index = i;
    n->kind = e[RS_FMT_N_KIND];
    n->param = e[RS_FMT_N_PARAM];
    n->flags = rs_load_u16(e + RS_FMT_N_FLAGS);
    n->n_children = rs_load_u32(e + RS_FMT_N_N_CHILDREN);
    n->aux_size_bytes = rs_load_u32(e + RS_FMT_N_AUX_SIZE);
    n->count = rs_load_u32(e + RS_FMT_N_COUNT);
    if (n->kind != 0 && rs_node_kind_of(n->kind) == NULL) {
        return rs_error_set(err, RS_E_FMT_VERSION, offset, "tree node %u: this reader does not know kind %u", i,
                            n->kind);
    }
    if (n->kind == RS_FMT_NODE_EXT && (n->param == 0 || n->param > RS_FMT_EXT_LAST)) {
        return rs_error_set(err, RS_E_FMT_VERSION, offset, "tree node %u: this reader does not know ext code %u", i,
                            n->param);
    }
    if (aux_off > rs_slice_left(&aux) || n->aux_size_bytes > rs_slice_left(&aux) - aux_off) {
        return bad(err, offset, i, "its aux is out of range");
    }
    n->aux = aux.ptr + aux_off;
    const char *why = check_fields(n);
    if (why != NULL) return bad(err, offset, i, why);
    if (n->n_children == 0) return first == 0 ? RS_OK : bad(err, offset, i, "it has no children, but a first child");
    if (first != *next_child || n->n_children > tree->n_nodes - *next_child) {
        return bad(err, offset, i, "its children do not follow those of the nodes before");
    }
    n->children = &tree->nodes[first];
    *next_child += n->n_children;
    return RS_OK;
}

/* Checks the depth and levels of each node, and the number of structs. depth counts list, tuple, struct and map nodes,
 * levels counts all nodes with children. */
static rs_status check_depth(rs_tree *tree, uint64_t offset, rs_error *err) {
    uint32_t key_sets = 0;
    uint16_t depth[RS_FMT_TREE_NODES], levels[RS_FMT_TREE_NODES];
    for (uint32_t i = tree->n_nodes; i-- > 0;) {
        const rs_node *n = &tree->nodes[i];
        bool container = n->kind == RS_FMT_NODE_LIST || n->kind == RS_FMT_NODE_TUPLE || n->kind == RS_FMT_NODE_STRUCT ||
                         n->kind == RS_FMT_NODE_MAP;
        uint16_t max_depth = 0, max_levels = 0;
        for (uint32_t k = 0; k < n->n_children; k++) {
            uint32_t child = n->children[k].index;
            if (depth[child] > max_depth) max_depth = depth[child];
            if (levels[child] > max_levels) max_levels = levels[child];
        }
        depth[i] = (uint16_t)(max_depth + (container ? 1 : 0));
        /* The limit of levels bounds the recursion over chains of unions, which do not count as depth. */
        levels[i] = (uint16_t)(max_levels + (n->n_children > 0 ? 1 : 0));
        if (depth[i] > RS_FMT_DEPTH || levels[i] > 2 * RS_FMT_DEPTH) {
            return bad(err, offset, i, "it is nested too deeply");
        }
        if (n->kind == RS_FMT_NODE_STRUCT) key_sets++;
        tree->levels = levels[i];
    }
    if (key_sets > RS_FMT_TREE_SHAPES) return bad(err, offset, 0, "the tree has too many struct nodes");
    return RS_OK;
}

/* Checks that optional keys are children of structs only, and `same` children of concats only. */
static rs_status check_parents(const rs_tree *tree, uint64_t offset, rs_error *err) {
    const rs_node *root = &tree->nodes[0];
    if (root->kind == RS_FMT_NODE_SAME || (root->flags & (RS_FMT_FLAG_RARE | RS_FMT_FLAG_IN_BITS)) != 0 ||
        (root->kind == RS_FMT_NODE_OPTIONAL && root->param == 0)) {
        return bad(err, offset, 0, "the root is a node that only a parent may have");
    }
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        const rs_node *n = &tree->nodes[i];
        for (uint32_t k = 0; k < n->n_children; k++) {
            const rs_node *c = &n->children[k];
            if (c->kind == RS_FMT_NODE_SAME && n->kind != RS_FMT_NODE_CONCAT) {
                return bad(err, offset, c->index, "it is a same, but not a child of a concat");
            }
            if (c->kind == RS_FMT_NODE_OPTIONAL && c->param == 0 && n->kind != RS_FMT_NODE_STRUCT) {
                return bad(err, offset, c->index, "it is an optional key, but not a child of a struct");
            }
            if (rs_node_is_rare(c) && n->kind != RS_FMT_NODE_STRUCT) {
                return bad(err, offset, c->index, "it is rare, but not a child of a struct");
            }
        }
    }
    return RS_OK;
}

/* Numbers the placed nodes, and checks that a record has at most one value of each. */
static rs_status check_placed(rs_tree *tree, uint64_t offset, rs_error *err) {
    bool may_repeat[RS_FMT_TREE_NODES] = {false}; /* whether a record may have several values of the node */
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        rs_node *n = &tree->nodes[i];
        bool children_may_repeat = may_repeat[i];
        if (rs_node_is_placed(n)) {
            if (may_repeat[i]) {
                return bad(err, offset, i, "a placed node is at a position with several values in a record");
            }
            n->placed = tree->n_placed++;
        }
        switch (n->kind) {
        case RS_FMT_NODE_TUPLE:
        case RS_FMT_NODE_STRUCT:
        case RS_FMT_NODE_UNION:
        case RS_FMT_NODE_EXT:
        case RS_FMT_NODE_OPTIONAL:
        case RS_FMT_NODE_EXCEPTIONS: break;
        default: children_may_repeat = true;
        }
        for (uint32_t k = 0; k < n->n_children; k++) may_repeat[n->children[k].index] = children_may_repeat;
    }
    return RS_OK;
}

/* Marks the children in tail position of `n`, which is in tail position. */
static void mark_tail(const rs_node *n, bool *tail) {
    switch (rs_node_kind_of(n->kind)->tail) {
    case RS_TAIL_EACH:
        for (uint32_t k = 0; k < n->n_children; k++) tail[n->children[k].index] = true;
        break;
    case RS_TAIL_LAST:
        for (uint32_t k = n->n_children; k-- > 0;) {
            if (n->children[k].fixed) continue;
            tail[n->children[k].index] = true;
            break;
        }
        break;
    case RS_TAIL_FIRST: tail[n->children[0].index] = true; break;
    default: break;
    }
}

/* Checks that only nodes in tail position have the flag REST. The nodes must be compiled, because tail position depends
 * on which nodes are fixed. */
static rs_status check_rests(const rs_tree *tree, uint64_t offset, rs_error *err) {
    bool tail[RS_FMT_TREE_NODES] = {false};
    tail[0] = true;
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        const rs_node *n = &tree->nodes[i];
        bool rest = (n->flags & RS_FMT_FLAG_REST) != 0;
        if (rest && !tail[i]) return bad(err, offset, i, "it has the flag REST and is not in tail position");
        if (tail[i]) mark_tail(n, tail);
    }
    return RS_OK;
}

/* Marks and checks the nodes whose value is the payload of an ext, and counts the nodes with tables. */
static rs_status mark_payloads(rs_tree *tree, uint64_t offset, rs_error *err) {
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        const rs_node *n = &tree->nodes[i];
        bool passes = n->kind == RS_FMT_NODE_UNION || n->kind == RS_FMT_NODE_OPTIONAL || rs_node_is_placed(n);
        bool payload = n->kind == RS_FMT_NODE_EXT || (passes && n->payload);
        if ((n->kind == RS_FMT_NODE_EXT || n->kind == RS_FMT_NODE_DICT_CODED) && n->payload) {
            return bad(err, offset, i, "an ext or dict-coded node is the payload of an ext");
        }
        if (rs_node_names_tables(n)) tree->n_links++;
        if (!payload) continue;
        for (uint32_t k = 0; k < n->n_children; k++) tree->nodes[n->children[k].index].payload = true;
    }
    return RS_OK;
}

/* Gives each numbers node a child for its elements: see rs_path_element. */
static rs_status add_elements(rs_tree *tree, rs_error *err) {
    uint32_t i, n = 0;
    for (i = 0; i < tree->n_nodes; i++) n += tree->nodes[i].kind == RS_FMT_NODE_NUMBERS;
    if (n == 0) return RS_OK;
    tree->elements = (rs_node *)calloc(n, sizeof *tree->elements);
    if (tree->elements == NULL) return rs_no_memory(err);
    for (i = 0, n = 0; i < tree->n_nodes; i++) {
        rs_node *node = &tree->nodes[i];
        if (node->kind != RS_FMT_NODE_NUMBERS) continue;
        rs_node *element = &tree->elements[n++];
        element->kind = node->number_kind == RS_FMT_NUMBERS_INTS ? RS_FMT_NODE_INT : RS_FMT_NODE_DECIMAL;
        element->param = 64;
        element->bits = 64;
        element->fixed = true;
        element->index = i;
        element->scale = node->scale;
        element->divisor = node->divisor;
        node->children = element;
    }
    return RS_OK;
}

static rs_status compile(rs_tree *tree, uint64_t offset, rs_error *err) {
    uint32_t next_child = 1;
    if (tree->size_bytes < RS_FMT_TREE_HEAD_SIZE || tree->size_bytes > RS_FMT_TREE_BYTES) {
        return bad(err, offset, 0, "the tree is too small or too large");
    }
    tree->n_nodes = rs_load_u32(tree->bytes);
    uint32_t aux_size = rs_load_u32(tree->bytes + 4);
    if (tree->n_nodes == 0 || tree->n_nodes > RS_FMT_TREE_NODES) {
        return bad(err, offset, 0, "the tree has no nodes or too many");
    }
    uint64_t nodes_size = (uint64_t)tree->n_nodes * RS_FMT_NODE_SIZE;
    if (RS_FMT_TREE_HEAD_SIZE + nodes_size + aux_size != tree->size_bytes) {
        return bad(err, offset, 0, "nodes and aux do not fill the tree");
    }
    rs_slice aux = rs_slice_of(tree->bytes + RS_FMT_TREE_HEAD_SIZE + nodes_size, aux_size);
    tree->memory = calloc(1, tree->n_nodes * sizeof *tree->nodes + RS_CACHE_LINE - 1);
    if (tree->memory == NULL) return rs_no_memory(err);
    tree->nodes = (rs_node *)(void *)((uint8_t *)tree->memory + (-(uintptr_t)tree->memory & (RS_CACHE_LINE - 1)));
    for (uint32_t i = 0; i < tree->n_nodes; i++) RS_TRY(read_node(tree, i, aux, &next_child, offset, err));
    if (next_child != tree->n_nodes) return bad(err, offset, next_child, "it has no parent");
    RS_TRY(check_depth(tree, offset, err));
    RS_TRY(check_parents(tree, offset, err));
    RS_TRY(check_placed(tree, offset, err));
    RS_TRY(mark_payloads(tree, offset, err));
    for (uint32_t i = tree->n_nodes; i-- > 0;) {
        rs_status status = compile_node(&tree->nodes[i], offset, err);
        if (status == RS_E_FMT_VERSION) return status;
        /* An error within an aux means that the tree is malformed. */
        if (status != RS_OK) return status == RS_E_FMT_TREE ? status : bad(err, offset, i, "its aux is malformed");
    }
    RS_TRY(check_rests(tree, offset, err));
    return add_elements(tree, err);
}

rs_status rs_tree_compile(rs_slice bytes, uint64_t offset, rs_tree *out, rs_error *err) {
    memset(out, 0, sizeof *out);
    if (rs_slice_left(&bytes) > RS_FMT_TREE_BYTES) return bad(err, offset, 0, "the tree is too large");
    out->size_bytes = (uint32_t)rs_slice_left(&bytes);
    out->bytes = (uint8_t *)calloc(1, (size_t)out->size_bytes + RS_AUX_SLACK);
    if (out->bytes == NULL) return rs_no_memory(err);
    memcpy(out->bytes, bytes.ptr, out->size_bytes);
    rs_status status = compile(out, offset, err);
    if (status != RS_OK) rs_tree_clear(out);
    return status;
}

void rs_tree_take_rests(rs_tree *self) {
    bool tail[RS_FMT_TREE_NODES] = {false};
    tail[0] = true;
    for (uint32_t i = 0; i < self->n_nodes; i++) {
        rs_node *n = &self->nodes[i];
        if (!tail[i]) continue;
        mark_tail(n, tail);
        if ((flags_of(n) & RS_FMT_FLAG_REST) == 0) continue;
        n->flags |= RS_FMT_FLAG_REST;
        rs_store_u16(self->bytes + RS_FMT_TREE_HEAD_SIZE + (size_t)i * RS_FMT_NODE_SIZE + RS_FMT_N_FLAGS, n->flags);
    }
}

rs_status rs_node_array_bytes(const rs_node *node, rs_slice *in, uint64_t *data_bytes, rs_error *err) {
    uint64_t dims[RS_FMT_ARRAY_NDIM];
    uint32_t ndim;
    *data_bytes = node->data_bytes;
    if ((node->flags & RS_FMT_FLAG_FIXED) != 0 || (node->aux[0] & RS_FMT_ARRAY_SCALAR) != 0) return RS_OK;
    RS_TRY(rs_array_shape_take(in, node->item_bytes, &ndim, dims, data_bytes, err));
    *data_bytes = rs_array_data_bytes(node->aux[0], node->item_bytes, *data_bytes);
    return RS_OK;
}

uint64_t rs_tree_features(const rs_tree *self) {
    uint64_t features = 0;
    for (uint32_t i = 0; i < self->n_nodes; i++) {
        const rs_node *n = &self->nodes[i];
        if ((n->flags & RS_FMT_FLAG_REST) != 0) features |= RS_FMT_FEATURE_TEXT;
        if (n->kind == RS_FMT_NODE_UNION && n->n_children == 1) features |= RS_FMT_FEATURE_ALONE;
        if (rs_node_is_rare(n)) features |= RS_FMT_FEATURE_RARE;
        if ((n->flags & RS_FMT_FLAG_IN_BITS) != 0) features |= RS_FMT_FEATURE_IN_BITS;
        if (n->kind == RS_FMT_NODE_EXT && n->param == RS_FMT_EXT_LINE) features |= RS_FMT_FEATURE_LINE;
        if (n->kind == RS_FMT_NODE_SYMBOLS && n->param == RS_FMT_SYMBOLS_PAIRS) features |= RS_FMT_FEATURE_PAIRS;
        features |= rs_node_kind_of(n->kind)->feature;
    }
    return features;
}

void rs_tree_clear(rs_tree *self) {
    for (uint32_t i = 0; self->nodes != NULL && i < self->n_nodes; i++) free((void *)self->nodes[i].coded);
    free(self->elements);
    free(self->memory);
    free(self->bytes);
    memset(self, 0, sizeof *self);
}
