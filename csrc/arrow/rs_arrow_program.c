/* rs_arrow_program.c: compiles trees for the export to Arrow. The recursion is as deep as trees and tables have levels:
 * at most 400, by rule 30 of FORMAT.md. */
#include "arrow/rs_arrow_program.h"

#include <stdlib.h>

#include "format/rs_node_kinds.h"

enum { MAX_OPS = 1 << 22, MANY_OPS = 1 << 16 };

/* ---- Memory ---- */

/* Grows an array of items of `size` bytes so that one more fits. */
static bool grow(void *array, size_t n, size_t *capacity, size_t size) {
    void **at = (void **)array;
    size_t new_capacity = *capacity == 0 ? 16 : 2 * *capacity;
    if (n < *capacity) return true;
    void *new_array = realloc(*at, new_capacity * size);
    if (new_array == NULL) return false;
    *at = new_array;
    *capacity = new_capacity;
    return true;
}

rs_status rs_arrow_program_alloc(rs_arrow_program *self, size_t n, size_t size, void *out, rs_error *err) {
    void *made = calloc(n + 1, size);
    if (made == NULL || !grow(&self->chunks, self->n_chunks, &self->chunks_capacity, sizeof *self->chunks)) {
        free(made);
        return rs_no_memory(err);
    }
    self->chunks[self->n_chunks++] = made;
    memcpy(out, &made, sizeof made);
    return RS_OK;
}

static rs_status new_ops(rs_arrow_program *self, uint32_t n, rs_arrow_op **out, rs_error *err) {
    size_t capacity = self->arrays_capacity;
    self->n_ops += n;
    if (self->n_ops > MAX_OPS) {
        return rs_error_set(err, RS_E_FMT_LIMIT, RS_NOWHERE, "the trees of the records have too many nodes");
    }
    RS_TRY(rs_arrow_program_alloc(self, n, sizeof **out, out, err));
    if (!grow(&self->arrays, self->n_arrays, &self->arrays_capacity, sizeof(rs_arrow_op *))) return rs_no_memory(err);
    if (!grow(&self->lengths, self->n_arrays, &capacity, sizeof *self->lengths)) return rs_no_memory(err);
    self->arrays[self->n_arrays] = *out;
    self->lengths[self->n_arrays++] = n;
    return RS_OK;
}

void rs_arrow_program_clear(rs_arrow_program *self) {
    for (size_t i = 0; i < self->n_chunks; i++) free(self->chunks[i]);
    free(self->chunks);
    free(self->arrays);
    free(self->lengths);
    free(self->known);
    memset(self, 0, sizeof *self);
}

/* ---- Compiled trees ---- */

static rs_arrow_known *find_known(rs_arrow_known *known, size_t capacity, const void *owner,
                                  const rs_arrow_field *field) {
    /* Multiplicative hashing of the two addresses (Knuth, volume 3, section 6.4). */
    uint64_t mixed = ((uint64_t)(uintptr_t)owner ^ (uint64_t)(uintptr_t)field << 17) * UINT64_C(0x9E3779B97F4A7C15);
    size_t i = (size_t)(mixed >> 32) & (capacity - 1);
    while (known[i].op != NULL && !(known[i].owner == owner && known[i].field == field)) i = (i + 1) & (capacity - 1);
    return &known[i];
}

static rs_arrow_op *find_op(const rs_arrow_program *self, const void *owner, const rs_arrow_field *field) {
    return self->known_capacity == 0 ? NULL : find_known(self->known, self->known_capacity, owner, field)->op;
}

static rs_status remember(rs_arrow_program *self, const void *owner, const rs_arrow_field *field, rs_arrow_op *op,
                          rs_error *err) {
    if (2 * (self->n_known + 1) > self->known_capacity) {
        size_t capacity = self->known_capacity == 0 ? 64 : 2 * self->known_capacity;
        rs_arrow_known *grown = (rs_arrow_known *)calloc(capacity, sizeof *grown);
        if (grown == NULL) return rs_no_memory(err);
        for (size_t i = 0; i < self->known_capacity; i++) {
            const rs_arrow_known *old = &self->known[i];
            if (old->op != NULL) *find_known(grown, capacity, old->owner, old->field) = *old;
        }
        free(self->known);
        self->known = grown;
        self->known_capacity = capacity;
    }
    rs_arrow_known *at = find_known(self->known, self->known_capacity, owner, field);
    at->owner = owner;
    at->field = field;
    at->op = op;
    self->n_known++;
    return RS_OK;
}

/* ---- Nodes ---- */

static rs_status compile(rs_arrow_program *self, rs_arrow_op *op, const rs_node *node, rs_arrow_field *field,
                         rs_error *err);

/* Makes n children of an op, child i for child i * step of its node and for the field fields[i] or, without `fields`,
 * for `field`. */
static rs_status compile_each(rs_arrow_program *self, rs_arrow_op *op, uint32_t n, uint32_t step,
                              rs_arrow_field **fields, rs_arrow_field *field, rs_error *err) {
    RS_TRY(new_ops(self, n, &op->children, err));
    op->n_children = n;
    for (uint32_t i = 0; i < n; i++) {
        RS_TRY(compile(self, &op->children[i], &op->node->children[i * step], fields != NULL ? fields[i] : field, err));
        op->sure = op->sure && op->children[i].sure;
    }
    return RS_OK;
}

/* Compiles the children of a node, all for one field. */
static rs_status compile_children(rs_arrow_program *self, rs_arrow_op *op, rs_arrow_field *field, rs_error *err) {
    return compile_each(self, op, op->node->n_children, 1, NULL, field, err);
}

/* Takes the key at `keys`, and sets *child to its field or NULL. */
static rs_status next_key(rs_arrow_program *self, rs_cursor *keys, rs_arrow_field *field, rs_arrow_field **child,
                          rs_error *err) {
    const uint8_t *p = keys->in.ptr;
    *child = NULL;
    if (p != keys->in.end && *p >= RS_FMT_TAG_STR1 && *p <= RS_FMT_TAG_STR4) {
        RS_TRY(rs_arrow_next_name(&keys->in, field, child, err));
    } else {
        RS_TRY(rs_path_any_pass(keys, err));
        if (!field->closed) rs_arrow_add_kind(field, RS_ARROW_SEEN_ODD_KEY);
    }
    if (*child == NULL) return RS_OK;
    if ((*child)->stamp == self->n_chunks) return rs_decode_bad_value(err, "a dict with a repeated key");
    (*child)->stamp = self->n_chunks; /* there is a chunk for each struct */
    return RS_OK;
}

static rs_status compile_struct(rs_arrow_program *self, rs_arrow_op *op, rs_error *err) {
    const rs_node *node = op->node;
    rs_cursor keys = {.in = rs_slice_of(node->aux, node->aux_size_bytes),
                      .budget = {.values = UINT64_MAX, .bytes = UINT64_MAX, .depth = RS_FMT_DEPTH}};
    rs_arrow_field **fields = NULL;
    rs_arrow_add_kind(op->field, RS_ARROW_SEEN_STRUCT);
    RS_TRY(rs_arrow_program_alloc(self, node->n_children, sizeof *fields, &fields, err));
    for (uint32_t i = 0; i < node->n_children; i++) {
        RS_TRY(next_key(self, &keys, op->field, &fields[i], err));
        op->odd_key |= fields[i] == NULL && !op->field->closed;
    }
    return compile_each(self, op, node->n_children, 1, fields, NULL, err);
}

/* Makes op->items: the fields of n items of a tuple. */
static rs_status make_items(rs_arrow_program *self, rs_arrow_op *op, uint32_t n, rs_error *err) {
    RS_TRY(rs_arrow_program_alloc(self, n, sizeof *op->items, &op->items, err));
    op->n_items = n;
    for (uint32_t i = 0; i < n; i++) RS_TRY(rs_arrow_field_item(op->field, i, &op->items[i], err));
    return RS_OK;
}

static rs_status compile_tuple(rs_arrow_program *self, rs_arrow_op *op, rs_error *err) {
    const rs_node *node = op->node;
    rs_arrow_field *element;
    if (node->param == 1 && rs_arrow_add_tuple(op->field, node->n_children)) {
        RS_TRY(make_items(self, op, node->n_children, err));
        return compile_each(self, op, node->n_children, 1, op->items, NULL, err);
    }
    if (node->param == 0) rs_arrow_add_kind(op->field, RS_ARROW_SEEN_LIST);
    RS_TRY(rs_arrow_field_element(op->field, &element, err));
    return compile_children(self, op, element, err);
}

/* Compiles a list or numbers node. Short tuples of one length get a field for each item while n_ops < MANY_OPS. */
static rs_status compile_list(rs_arrow_program *self, rs_arrow_op *op, rs_error *err) {
    const rs_node *node = op->node;
    const bool is_fixed = (node->flags & RS_FMT_FLAG_FIXED) != 0;
    rs_arrow_field *element;
    if (node->param == 0) {
        rs_arrow_add_kind(op->field, RS_ARROW_SEEN_LIST);
    } else if (!is_fixed) {
        (void)rs_arrow_add_tuple(op->field, UINT64_MAX);
        op->sure = false; /* the tuples may still have one length */
    } else if (self->n_ops >= MANY_OPS) {
        (void)rs_arrow_add_tuple(op->field, UINT64_MAX);
    } else if (rs_arrow_add_tuple(op->field, node->count)) {
        RS_TRY(make_items(self, op, node->count, err));
        return compile_each(self, op, op->n_items, 0, op->items, NULL, err);
    }
    RS_TRY(rs_arrow_field_element(op->field, &element, err));
    return compile_each(self, op, 1, 0, NULL, element, err);
}

static rs_status compile_const(rs_arrow_op *op, rs_error *err) {
    rs_cursor cursor = {.in = rs_slice_of(op->node->aux, op->node->aux_size_bytes), .budget = {.depth = RS_FMT_DEPTH}};
    cursor.budget.values = cursor.budget.bytes = op->node->aux_size_bytes;
    return rs_arrow_infer_any(op->field, &cursor, err);
}

static rs_status compile_array(rs_arrow_op *op, rs_error *err) {
    const rs_node *node = op->node;
    rs_slice aux = rs_slice_of(node->aux, node->aux_size_bytes);
    rs_array_type type;
    uint32_t ndim = 0;
    RS_TRY(rs_array_type_take(&aux, &type, err));
    if ((node->flags & RS_FMT_FLAG_FIXED) != 0 && aux.ptr != aux.end) {
        ndim = *aux.ptr;
    } else if ((type.flags & RS_FMT_ARRAY_SCALAR) == 0) {
        op->sure = false; /* each array has its own number of dimensions */
        return RS_OK;
    }
    return rs_arrow_infer_array(op->field, &type, ndim, err);
}

/* ---- Ext nodes ---- */

/* Compiles the payload of an object with n named fields. */
static rs_status compile_object(rs_arrow_program *self, rs_arrow_op *op, rs_slice names, uint64_t n, rs_error *err) {
    const rs_node *payload = op->node->children;
    RS_TRY(new_ops(self, 1, &op->children, err));
    op->n_children = 1;
    rs_arrow_op *child = op->children;
    child->node = payload;
    child->field = op->field;
    child->named = true;
    child->sure = true;
    if (n > RS_FMT_TREE_NODES) return rs_decode_bad_value(err, "too many names");
    RS_TRY(rs_arrow_program_alloc(self, (size_t)n, sizeof *child->items, &child->items, err));
    child->n_items = (uint32_t)n;
    for (uint64_t i = 0; i < n; i++) RS_TRY(rs_arrow_next_name(&names, op->field, &child->items[i], err));
    rs_arrow_add_kind(op->field, RS_ARROW_SEEN_STRUCT);
    if (payload->kind == RS_FMT_NODE_TUPLE && payload->n_children == n) {
        RS_TRY(compile_each(self, child, child->n_items, 1, child->items, NULL, err));
    } else if ((payload->kind == RS_FMT_NODE_LIST || payload->kind == RS_FMT_NODE_NUMBERS) && payload->count == n &&
               (payload->flags & RS_FMT_FLAG_FIXED) != 0) {
        RS_TRY(compile_each(self, child, child->n_items, 0, child->items, NULL, err));
    } else if (payload->kind == RS_FMT_NODE_CONST || payload->kind == RS_FMT_NODE_ANY) {
        child->sure = false;
    } else {
        rs_arrow_add_other(op->field, op->node->param);
    }
    op->sure = op->sure && child->sure;
    return RS_OK;
}

static rs_status compile_ext(rs_arrow_program *self, rs_arrow_op *op, rs_error *err) {
    const rs_node *node = op->node;
    rs_slice extra = rs_slice_of(node->aux, node->aux_size_bytes), names;
    uint64_t n;
    switch (node->param) {
    case RS_FMT_EXT_TENSOR:
        if (extra.ptr == extra.end || *extra.ptr != RS_FMT_TAG_NONE) break;
        return compile_children(self, op, op->field, err);
    case RS_FMT_EXT_ORDEREDDICT:
    case RS_FMT_EXT_COUNTER:
    case RS_FMT_EXT_DEFAULTDICT:
    case RS_FMT_EXT_SET:
    case RS_FMT_EXT_DEQUE:
    case RS_FMT_EXT_BYTEARRAY:
    case RS_FMT_EXT_PATH: return compile_children(self, op, op->field, err);
    case RS_FMT_EXT_NAMEDTUPLE:
    case RS_FMT_EXT_DATACLASS:
    case RS_FMT_EXT_ATTRS:
    case RS_FMT_EXT_OBJECT:
        RS_TRY(rs_arrow_names(extra, &names, &n, err));
        if (names.ptr == NULL) break;
        return compile_object(self, op, names, n, err);
    case RS_FMT_EXT_DATE: rs_arrow_add_kind(op->field, RS_ARROW_SEEN_DATE); return RS_OK;
    case RS_FMT_EXT_TIME: rs_arrow_add_kind(op->field, RS_ARROW_SEEN_TIME); return RS_OK;
    case RS_FMT_EXT_UUID: rs_arrow_add_kind(op->field, RS_ARROW_SEEN_UUID); return RS_OK;
    case RS_FMT_EXT_TIMEDELTA:
        rs_arrow_add_kind(op->field, RS_ARROW_SEEN_DURATION);
        op->sure = node->children->kind == RS_FMT_NODE_INT; /* else it may have more than 64 bits */
        return RS_OK;
    case RS_FMT_EXT_DATETIME:
        if (node->children->kind == RS_FMT_NODE_TUPLE && node->children->n_children == 3 &&
            node->children->children[2].kind == RS_FMT_NODE_CONST &&
            *node->children->children[2].aux == RS_FMT_TAG_NONE) {
            rs_arrow_add_kind(op->field, RS_ARROW_SEEN_NAIVE);
        } else {
            op->sure = false;
        }
        return RS_OK;
    case RS_FMT_EXT_DECIMAL: op->sure = false; return RS_OK;
    default: break;
    }
    rs_arrow_add_other(op->field, node->param);
    return RS_OK;
}

/* Adds the kinds of all entries of a table of any values. There are usually fewer entries than records. */
static rs_status infer_entries(rs_arrow_program *self, rs_arrow_op *op, const rs_table *table, rs_error *err) {
    if (find_op(self, table, op->field) != NULL) return RS_OK;
    for (uint32_t i = 0; i < table->block.n_records; i++) {
        rs_cursor cursor = {.budget = {.values = UINT64_MAX, .bytes = UINT64_MAX, .depth = RS_FMT_DEPTH},
                            .shared = true};
        RS_TRY(rs_offsets_locate(table->segment, &table->block, i, &cursor.in, err));
        RS_TRY(rs_arrow_infer_any(op->field, &cursor, err));
    }
    return remember(self, table, op->field, op, err);
}

static rs_status compile_tables(rs_arrow_program *self, rs_arrow_op *op, rs_error *err) {
    const rs_dict_coded *coded = op->node->coded;
    RS_TRY(rs_arrow_program_alloc(self, coded->n_tables, sizeof *op->tables, &op->tables, err));
    for (uint32_t t = 0; t < coded->n_tables; t++) {
        const rs_table *table = coded->at[t].table;
        RS_TRY(rs_arrow_compile(self, table->tree, op->field, &op->tables[t], err));
        if (table->tree->nodes->kind == RS_FMT_NODE_ANY) RS_TRY(infer_entries(self, op, table, err));
        else op->sure = op->sure && op->tables[t]->sure;
    }
    return RS_OK;
}

static rs_status compile(rs_arrow_program *self, rs_arrow_op *op, const rs_node *node, rs_arrow_field *field,
                         rs_error *err) {
    op->node = node;
    op->field = field;
    op->sure = true;
    if (field == NULL || rs_arrow_infer_leaf(field, node)) return RS_OK;
    switch ((rs_node_code)node->kind) {
    case RS_FMT_NODE_STRUCT: return compile_struct(self, op, err);
    case RS_FMT_NODE_TUPLE: return compile_tuple(self, op, err);
    case RS_FMT_NODE_LIST:
    case RS_FMT_NODE_NUMBERS: return compile_list(self, op, err);
    case RS_FMT_NODE_OPTIONAL:
        if (node->param == 1) rs_arrow_add_kind(field, RS_ARROW_SEEN_NULL);
        return compile_children(self, op, field, err);
    case RS_FMT_NODE_UNION:
    case RS_FMT_NODE_RUNS:
    case RS_FMT_NODE_EXCEPTIONS: return compile_children(self, op, field, err);
    case RS_FMT_NODE_RISING:
        /* The width of an int node does not bound the numbers of a rising node, which are not in the records. */
        if (node->children->kind == RS_FMT_NODE_INT) rs_arrow_add_ints(field, INT64_MIN, INT64_MAX);
        return compile_children(self, op, field, err);
    case RS_FMT_NODE_DICT_CODED: return compile_tables(self, op, err);
    case RS_FMT_NODE_CONST: return compile_const(op, err);
    case RS_FMT_NODE_NDARRAY: return compile_array(op, err);
    case RS_FMT_NODE_EXT: return compile_ext(self, op, err);
    case RS_FMT_NODE_ANY:
    case RS_FMT_NODE_MAP: op->sure = false; break;
    case RS_NODES_NUMBER:
    case RS_NODES_TEXT:
    case RS_FMT_NODE_BYTES:
    case RS_FMT_NODE_SAME: break;
    }
    return RS_OK;
}

static rs_status compile_known(rs_arrow_program *self, const void *owner, const rs_node *node, rs_arrow_field *field,
                               rs_arrow_op **out, rs_error *err) {
    *out = find_op(self, owner, field);
    if (*out != NULL) return RS_OK;
    RS_TRY(new_ops(self, 1, out, err));
    RS_TRY(compile(self, *out, node, field, err));
    return remember(self, owner, field, *out, err);
}

rs_status rs_arrow_compile(rs_arrow_program *self, const rs_tree *tree, rs_arrow_field *field, rs_arrow_op **out,
                           rs_error *err) {
    return compile_known(self, tree, tree->nodes, field, out, err);
}

rs_status rs_arrow_compile_node(rs_arrow_program *self, const rs_node *node, rs_arrow_field *field, rs_arrow_op **out,
                                rs_error *err) {
    return compile_known(self, node, node, field, out, err);
}

rs_status rs_arrow_compile_place(rs_arrow_program *self, const rs_node *node, rs_arrow_field *field, bool only_known,
                                 rs_arrow_op **out, rs_error *err) {
    if (!only_known) return rs_arrow_compile_node(self, node, field, out, err);
    *out = find_op(self, node, field);
    return RS_OK;
}

rs_status rs_arrow_compile_entry(rs_arrow_program *self, const rs_node *node, rs_arrow_field *field, bool only_known,
                                 rs_arrow_op **out, rs_error *err) {
    const rs_node_kind *kind = rs_node_kind_of(node->kind);
    RS_TRY(rs_arrow_compile_place(self, node, field, only_known, out, err));
    if (kind->max_children > 0 || kind->part == RS_CONCAT_PART_SOMETIMES || node->kind == RS_FMT_NODE_DICT_CODED) {
        self->shares = true;
    }
    /* The field may have been merged into another one after the op was made. */
    for (size_t i = 0; *out == NULL && i < self->n_arrays; i++) {
        rs_arrow_op *op = self->arrays[i];
        if (self->lengths[i] != 1 || op->node != node || op->field != field) continue;
        *out = op;
        return remember(self, node, field, op, err);
    }
    return RS_OK;
}

/* ---- After the types are known ---- */

static void settle_struct(rs_arrow_op *op) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->n_children; i++) n += op->children[i].field != NULL;
    op->whole = op->field->layout == RS_ARROW_LAYOUT_STRUCT && n == op->field->n_children && !op->node->partial;
}

void rs_arrow_program_settle(rs_arrow_program *self) {
    for (size_t i = 0; i < self->n_arrays; i++) {
        for (uint32_t k = 0; k < self->lengths[i]; k++) {
            rs_arrow_op *op = &self->arrays[i][k];
            if (op->field == NULL) continue;
            op->field = rs_arrow_resolved(op->field);
            for (uint32_t j = 0; j < op->n_items; j++) {
                if (op->items[j] != NULL) op->items[j] = rs_arrow_resolved(op->items[j]);
            }
        }
    }
    for (size_t i = 0; i < self->n_arrays; i++) {
        for (uint32_t k = 0; k < self->lengths[i]; k++) {
            if (self->arrays[i][k].field != NULL) settle_struct(&self->arrays[i][k]);
        }
    }
}
