/* rs_infer.c: a position is a place in the records (the value of one key, the elements of one list); an alternative is
 * one kind of value seen there. Reading fills them, emitting turns each position into a node: the alternative itself
 * where there is one, a union where there are several, and what fits nowhere into a last alternative `any`. */
#include "rs_infer.h"

#include <stdlib.h>

enum {
    MAX_ALTERNATIVES = 250,   /* of a position, so that `any` still fits a union's 256 */
    MAX_TUPLE = 64,           /* longer tuples are stored like lists */
    MAX_CONST_BYTES = 4096    /* a longer constant stays in the heap */
};

typedef struct position position;

typedef struct alternative {
    uint8_t kind;       /* node kind */
    uint8_t param;      /* list or tuple: the Python type */
    bool constant;      /* every value so far has the bytes of `first` */
    bool same_shape;    /* ndarray */
    uint32_t widths;    /* str: bit 0, 1, 2 for units of 1, 2, 4 bytes */
    uint32_t n_children;
    uint64_t n;         /* values seen */
    rs_slice first;     /* the first value's bytes */
    int64_t min, max;   /* int */
    uint64_t count_min, count_max; /* list */
    uint64_t shape_hash;           /* struct */
    rs_slice descriptor, shape;    /* ndarray; descriptor also ext: code and EXTRA */
    rs_slice *keys;     /* struct: n_children of them */
    position *children;
} alternative;

struct position {
    alternative *alternatives;
    uint32_t n, capacity, last;
};

/* Memory of one inference: freed as a whole. */
typedef struct chunk {
    struct chunk *next;
} chunk;

typedef struct infer {
    rs_scan *scan;
    chunk *chunks;
    uint32_t n_nodes, n_shapes;
    rs_error *err;
} infer;

static void *take_memory(infer *self, size_t size) {
    chunk *c = (chunk *)calloc(1, sizeof(chunk) + 8 + size);
    if (c == NULL) return NULL;
    c->next = self->chunks;
    self->chunks = c;
    return (uint8_t *)c + sizeof(chunk) + 8; /* 16-aligned like calloc itself */
}

static rs_status no_memory(infer *self) {
    return rs_error_set(self->err, RS_E_MEM, RS_NOWHERE, "no memory to infer a schema");
}

static rs_status add_alternative(infer *self, position *at, uint8_t kind, uint32_t n_children, alternative **out) {
    alternative *a;
    bool shape = kind == RS_FMT_NODE_STRUCT;
    if (kind != RS_FMT_NODE_ANY && (at->n >= MAX_ALTERNATIVES || (shape && self->n_shapes >= RS_FMT_TREE_SHAPES) ||
                                    n_children > RS_FMT_TREE_NODES ||
                                    self->n_nodes + n_children + 4 > RS_FMT_TREE_NODES)) {
        *out = NULL; /* the caller puts the value under `any` */
        return RS_OK;
    }
    if (at->n == at->capacity) {
        uint32_t capacity = at->capacity == 0 ? 1 : at->capacity * 2;
        alternative *grown = (alternative *)take_memory(self, capacity * sizeof *grown);
        if (grown == NULL) return no_memory(self);
        if (at->n > 0) memcpy(grown, at->alternatives, at->n * sizeof *grown);
        at->alternatives = grown;
        at->capacity = capacity;
    }
    a = &at->alternatives[at->n];
    memset(a, 0, sizeof *a);
    a->kind = kind;
    a->n_children = n_children;
    if (n_children > 0) {
        a->children = (position *)take_memory(self, n_children * sizeof(position));
        if (a->children == NULL) return no_memory(self);
    }
    /* One node for itself, one for a union above it; each child position brings its own. */
    self->n_nodes += kind == RS_FMT_NODE_ANY ? 1 : 2;
    if (shape) self->n_shapes++;
    at->last = at->n++;
    *out = a;
    return RS_OK;
}

/* What the head of a value says about the alternative it belongs to. */
typedef struct head {
    uint8_t tag, kind, param;
    uint32_t n_children; /* of the alternative */
    uint64_t count;      /* elements of this value */
    uint64_t shape_hash;
    rs_slice descriptor;
} head;

static bool same_alternative(const alternative *a, const head *h) {
    if (a->kind != h->kind) return false;
    switch (h->kind) {
    case RS_FMT_NODE_LIST: return a->param == h->param;
    case RS_FMT_NODE_TUPLE: return a->n_children == h->n_children;
    case RS_FMT_NODE_STRUCT: return a->shape_hash == h->shape_hash && a->n_children == h->n_children;
    case RS_FMT_NODE_EXT:
    case RS_FMT_NODE_NDARRAY: {
        size_t size = (size_t)(a->descriptor.end - a->descriptor.ptr);
        return size == (size_t)(h->descriptor.end - h->descriptor.ptr) &&
               memcmp(a->descriptor.ptr, h->descriptor.ptr, size) == 0;
    }
    default: return true;
    }
}

/* Classifies the value at in->ptr without taking it. */
static void read_head(infer *self, rs_slice in, head *h) {
    memset(h, 0, sizeof *h);
    h->tag = *in.ptr++;
    if (rs_tag_is_int64(h->tag)) {
        h->kind = RS_FMT_NODE_INT;
        return;
    }
    switch (h->tag) {
    case RS_FMT_TAG_NONE: h->kind = RS_FMT_NODE_CONST; break;
    case RS_FMT_TAG_FALSE:
    case RS_FMT_TAG_TRUE: h->kind = RS_FMT_NODE_BOOL; break;
    case RS_FMT_TAG_FLOAT: h->kind = RS_FMT_NODE_FLOAT; break;
    case RS_FMT_TAG_STR1:
    case RS_FMT_TAG_STR2:
    case RS_FMT_TAG_STR4: h->kind = RS_FMT_NODE_STR; break;
    case RS_FMT_TAG_BYTES: h->kind = RS_FMT_NODE_BYTES; break;
    case RS_FMT_TAG_LIST:
        h->kind = RS_FMT_NODE_LIST;
        h->count = rs_scan_varint_unchecked(&in);
        h->n_children = 1;
        break;
    case RS_FMT_TAG_TUPLE:
        h->count = rs_scan_varint_unchecked(&in);
        h->param = 1;
        h->kind = h->count > MAX_TUPLE ? RS_FMT_NODE_LIST : RS_FMT_NODE_TUPLE;
        h->n_children = h->count > MAX_TUPLE ? 1 : (uint32_t)h->count;
        break;
    case RS_FMT_TAG_DICT:
        h->kind = RS_FMT_NODE_STRUCT;
        h->count = rs_scan_varint_unchecked(&in);
        h->n_children = h->count > UINT32_MAX ? UINT32_MAX : (uint32_t)h->count;
        h->shape_hash = self->scan->shapes[self->scan->next];
        break;
    case RS_FMT_TAG_NDARRAY: {
        rs_array_type type;
        h->kind = RS_FMT_NODE_NDARRAY;
        if (rs_array_type_take(&in, &type, NULL) != RS_OK) h->kind = RS_FMT_NODE_ANY;
        h->descriptor = type.descriptor;
        break;
    }
    case RS_FMT_TAG_EXT:
        h->kind = RS_FMT_NODE_EXT;
        h->n_children = 1;
        if (rs_any_ext_head(&in, &h->descriptor, NULL) != RS_OK) h->kind = RS_FMT_NODE_ANY;
        break;
    default: h->kind = RS_FMT_NODE_ANY; break;
    }
}

static rs_status find_alternative(infer *self, position *at, const head *h, alternative **out) {
    uint32_t i;
    if (at->n > 0 && same_alternative(&at->alternatives[at->last], h)) {
        *out = &at->alternatives[at->last];
        return RS_OK;
    }
    for (i = 0; i < at->n; i++) {
        if (same_alternative(&at->alternatives[i], h)) {
            at->last = i;
            *out = &at->alternatives[i];
            return RS_OK;
        }
    }
    RS_TRY(add_alternative(self, at, h->kind, h->kind == RS_FMT_NODE_ANY ? 0 : h->n_children, out));
    if (*out == NULL) {
        head any = {0};
        any.kind = RS_FMT_NODE_ANY;
        return find_alternative(self, at, &any, out);
    }
    (*out)->param = h->param;
    (*out)->shape_hash = h->shape_hash;
    (*out)->descriptor = h->descriptor;
    return RS_OK;
}

static rs_status observe(infer *self, position *at, rs_slice *in);

static rs_status observe_struct(infer *self, alternative *a, rs_slice *in) {
    uint32_t i;
    bool fresh = a->n == 0 && a->n_children > 0;
    self->scan->next++;
    if (fresh) {
        a->keys = (rs_slice *)take_memory(self, a->n_children * sizeof *a->keys);
        if (a->keys == NULL) return no_memory(self);
    }
    for (i = 0; i < a->n_children; i++) {
        rs_budget budget = {UINT64_MAX, UINT64_MAX, RS_FMT_DEPTH};
        if (fresh) {
            a->keys[i].ptr = in->ptr;
            RS_TRY(rs_any_skip(in, UINT64_MAX, &budget, self->err));
            a->keys[i].end = in->ptr;
        } else {
            size_t size = (size_t)(a->keys[i].end - a->keys[i].ptr);
            /* Two shapes of one hash: nothing is wrong with the data, but this pass cannot go on. */
            if (size > rs_slice_left(in) || memcmp(in->ptr, a->keys[i].ptr, size) != 0) {
                return rs_error_set(self->err, RS_E_ARG_LIMIT, RS_NOWHERE, "two dict shapes share a hash");
            }
            in->ptr += size;
        }
        RS_TRY(observe(self, &a->children[i], in));
    }
    return RS_OK;
}

static rs_status observe_elements(infer *self, alternative *a, const head *h, rs_slice *in) {
    uint64_t i;
    if (a->kind == RS_FMT_NODE_LIST) {
        if (a->n == 0 || h->count < a->count_min) a->count_min = h->count;
        if (h->count > a->count_max) a->count_max = h->count;
    }
    for (i = 0; i < h->count; i++) {
        RS_TRY(observe(self, &a->children[a->kind == RS_FMT_NODE_LIST ? 0 : i], in));
    }
    return RS_OK;
}

static void observe_int(alternative *a, uint8_t tag, rs_slice *in) {
    int64_t value;
    if (rs_tag_is_small(tag)) {
        value = rs_tag_small_value(tag);
    } else {
        value = rs_load_int_unchecked(in->ptr, rs_tag_int_size(tag));
        in->ptr += rs_tag_int_size(tag);
    }
    if (a->n == 0 || value < a->min) a->min = value;
    if (a->n == 0 || value > a->max) a->max = value;
}

static rs_status observe_array(infer *self, alternative *a, rs_slice *in) {
    rs_array_type type;
    rs_slice shape;
    uint64_t size, outside;
    RS_TRY(rs_array_skip(in, UINT64_MAX, &type, &shape, &size, &outside, self->err));
    if (a->n == 0) {
        a->shape = shape;
        a->same_shape = true;
    } else if (a->same_shape) {
        size_t n = (size_t)(shape.end - shape.ptr);
        a->same_shape = n == (size_t)(a->shape.end - a->shape.ptr) && memcmp(shape.ptr, a->shape.ptr, n) == 0;
    }
    return RS_OK;
}

/* Takes one value and files it. */
static rs_status observe(infer *self, position *at, rs_slice *in) {
    const uint8_t *begin = in->ptr;
    alternative *a;
    head h;
    read_head(self, *in, &h);
    RS_TRY(find_alternative(self, at, &h, &a));
    if (a->kind == RS_FMT_NODE_ANY) {
        rs_scan_skip_unchecked(self->scan, in);
    } else {
        in->ptr++;
        switch (a->kind) {
        case RS_FMT_NODE_INT: observe_int(a, h.tag, in); break;
        case RS_FMT_NODE_FLOAT: in->ptr += 8; break;
        case RS_FMT_NODE_STR: {
            unsigned shift = (unsigned)(h.tag - RS_FMT_TAG_STR1);
            a->widths |= 1u << shift;
            in->ptr += rs_scan_varint_unchecked(in) << shift;
            break;
        }
        case RS_FMT_NODE_BYTES: in->ptr += rs_scan_varint_unchecked(in); break;
        case RS_FMT_NODE_LIST:
        case RS_FMT_NODE_TUPLE:
            (void)rs_scan_varint_unchecked(in);
            RS_TRY(observe_elements(self, a, &h, in));
            break;
        case RS_FMT_NODE_STRUCT:
            (void)rs_scan_varint_unchecked(in);
            RS_TRY(observe_struct(self, a, in));
            break;
        case RS_FMT_NODE_NDARRAY: RS_TRY(observe_array(self, a, in)); break;
        case RS_FMT_NODE_EXT:
            in->ptr += rs_slice_left(&h.descriptor);
            RS_TRY(observe(self, a->children, in));
            break;
        default: break;
        }
    }
    if (a->n == 0) {
        a->first.ptr = begin;
        a->first.end = in->ptr;
        a->constant = true;
    } else if (a->constant) {
        size_t size = (size_t)(in->ptr - begin);
        a->constant = size == (size_t)(a->first.end - a->first.ptr) && memcmp(begin, a->first.ptr, size) == 0;
    }
    a->n++;
    return RS_OK;
}

/* ---- Emitting ---- */

/* What becomes a node: a position, or one alternative of a position that has several. */
typedef struct item {
    const position *at;
    const alternative *only;
} item;

typedef struct emitter {
    rs_buffer nodes, aux;
    item queue[RS_FMT_TREE_NODES];
    uint32_t n_queue;
    rs_error *err;
} emitter;

static bool worth_const(const alternative *a) {
    rs_budget budget = {UINT64_MAX, UINT64_MAX, RS_FMT_DEPTH};
    rs_slice value = a->first;
    size_t size = rs_slice_left(&value);
    if (!a->constant || size > MAX_CONST_BYTES || (a->n < 2 && size > 2)) return false;
    return rs_any_skip(&value, 0, &budget, NULL) == RS_OK; /* fails when array data is stored outside */
}

/* Bits of an int node: whole bytes where little is lost by it, because those need no shifting. */
static uint8_t int_width(int64_t min, int64_t max) {
    uint64_t range = (uint64_t)max - (uint64_t)min;
    unsigned bits = 0;
    while (bits < 64 && (bits == 0 ? range : range >> bits) != 0) bits++;
    if (bits > 56) return 64;
    if (bits >= 28 && bits <= 32) return 32;
    if (bits >= 14 && bits <= 16) return 16;
    return (uint8_t)bits;
}

static rs_status put_aux(emitter *self, uint8_t *node, const void *bytes, size_t size) {
    /* `node` points into self->nodes, which this does not touch. */
    uint32_t begin = rs_load_u32(node + RS_FMT_N_AUX_OFFSET), have = rs_load_u32(node + RS_FMT_N_AUX_SIZE);
    if (self->aux.size_bytes + size > RS_FMT_TREE_BYTES) {
        return rs_error_set(self->err, RS_E_ARG_LIMIT, RS_NOWHERE, "the tree grows too large");
    }
    if (have == 0) begin = (uint32_t)self->aux.size_bytes;
    rs_store_u32(node + RS_FMT_N_AUX_OFFSET, begin);
    rs_store_u32(node + RS_FMT_N_AUX_SIZE, have + (uint32_t)size);
    return rs_buffer_append(&self->aux, bytes, size, self->err);
}

static rs_status put_children(emitter *self, uint8_t *node, uint32_t n, const position *children,
                              const alternative *alternatives) {
    uint32_t i;
    if (n > RS_FMT_TREE_NODES - self->n_queue) {
        return rs_error_set(self->err, RS_E_ARG_LIMIT, RS_NOWHERE, "the tree needs too many nodes");
    }
    rs_store_u32(node + RS_FMT_N_N_CHILDREN, n);
    if (n > 0) rs_store_u32(node + RS_FMT_N_FIRST_CHILD, self->n_queue);
    for (i = 0; i < n; i++) {
        item *it = &self->queue[self->n_queue++];
        it->at = children == NULL ? NULL : &children[i];
        it->only = children == NULL ? &alternatives[i] : NULL;
    }
    return RS_OK;
}

static rs_status emit_alternative(emitter *self, uint8_t *node, const alternative *a) {
    uint32_t i;
    node[RS_FMT_N_KIND] = a->kind;
    if (a->kind != RS_FMT_NODE_ANY && worth_const(a)) {
        node[RS_FMT_N_KIND] = RS_FMT_NODE_CONST;
        return put_aux(self, node, a->first.ptr, rs_slice_left(&a->first));
    }
    switch (a->kind) {
    case RS_FMT_NODE_CONST: return put_aux(self, node, a->first.ptr, rs_slice_left(&a->first));
    case RS_FMT_NODE_INT:
        node[RS_FMT_N_PARAM] = int_width(a->min, a->max);
        return put_aux(self, node, &a->min, 8);
    case RS_FMT_NODE_STR:
        node[RS_FMT_N_PARAM] = a->widths == 1 ? 1 : a->widths == 2 ? 2 : a->widths == 4 ? 4 : 0;
        return RS_OK;
    case RS_FMT_NODE_LIST:
        node[RS_FMT_N_PARAM] = a->param;
        if (a->count_min == a->count_max && a->count_max <= UINT32_MAX) {
            rs_store_u16(node + RS_FMT_N_FLAGS, RS_FMT_FLAG_FIXED);
            rs_store_u32(node + RS_FMT_N_COUNT, (uint32_t)a->count_max);
        }
        return put_children(self, node, 1, a->children, NULL);
    case RS_FMT_NODE_TUPLE:
        node[RS_FMT_N_PARAM] = a->param;
        return put_children(self, node, a->n_children, a->children, NULL);
    case RS_FMT_NODE_STRUCT:
        for (i = 0; i < a->n_children; i++) {
            RS_TRY(put_aux(self, node, a->keys[i].ptr, rs_slice_left(&a->keys[i])));
        }
        return put_children(self, node, a->n_children, a->children, NULL);
    case RS_FMT_NODE_NDARRAY:
        RS_TRY(put_aux(self, node, a->descriptor.ptr, rs_slice_left(&a->descriptor)));
        if (a->same_shape && (a->descriptor.ptr[0] & RS_FMT_ARRAY_SCALAR) == 0) {
            rs_store_u16(node + RS_FMT_N_FLAGS, RS_FMT_FLAG_FIXED);
            return put_aux(self, node, a->shape.ptr, rs_slice_left(&a->shape));
        }
        return RS_OK;
    case RS_FMT_NODE_EXT:
        node[RS_FMT_N_PARAM] = a->descriptor.ptr[0];
        RS_TRY(put_aux(self, node, a->descriptor.ptr + 1, rs_slice_left(&a->descriptor) - 1));
        return put_children(self, node, 1, a->children, NULL);
    default: return RS_OK;
    }
}

/* Whoever looks for the child that takes a value tries them in order: those that take more values than their
 * siblings come later, a tuple of any length after those of one length, and `any` last. */
static unsigned order_of(const alternative *a) {
    if (a->kind == RS_FMT_NODE_ANY) return 2;
    return a->kind == RS_FMT_NODE_LIST && a->param == 1 ? 1 : 0;
}

static void sort_alternatives(position *at) {
    uint32_t i, k;
    for (i = 1; i < at->n; i++) {
        for (k = i; k > 0 && order_of(&at->alternatives[k - 1]) > order_of(&at->alternatives[k]); k--) {
            alternative moved = at->alternatives[k];
            at->alternatives[k] = at->alternatives[k - 1];
            at->alternatives[k - 1] = moved;
        }
    }
}

static rs_status emit_item(emitter *self, uint32_t i) {
    item it = self->queue[i];
    uint8_t *node;
    RS_TRY(rs_buffer_append_zeros(&self->nodes, RS_FMT_NODE_SIZE, self->err));
    node = self->nodes.data + (size_t)i * RS_FMT_NODE_SIZE;
    if (it.only != NULL) return emit_alternative(self, node, it.only);
    if (it.at->n == 1) return emit_alternative(self, node, &it.at->alternatives[0]);
    if (it.at->n == 0) {
        node[RS_FMT_N_KIND] = RS_FMT_NODE_ANY;
        return RS_OK;
    }
    sort_alternatives((position *)it.at);
    node[RS_FMT_N_KIND] = RS_FMT_NODE_UNION;
    return put_children(self, node, it.at->n, NULL, it.at->alternatives);
}

static rs_status append_tree(rs_buffer *out, const rs_buffer *nodes, const rs_buffer *aux, rs_error *err) {
    uint8_t sizes[RS_FMT_TREE_HEAD_SIZE];
    rs_store_u32(sizes, (uint32_t)(nodes->size_bytes / RS_FMT_NODE_SIZE));
    rs_store_u32(sizes + 4, (uint32_t)aux->size_bytes);
    RS_TRY(rs_buffer_append(out, sizes, sizeof sizes, err));
    RS_TRY(rs_buffer_append(out, nodes->data, nodes->size_bytes, err));
    return rs_buffer_append(out, aux->data, aux->size_bytes, err);
}

static rs_status emit_tree(const position *root, rs_buffer *out, rs_error *err) {
    emitter *self = (emitter *)calloc(1, sizeof *self);
    rs_status status = RS_OK;
    uint32_t i;
    if (self == NULL) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory to infer a schema");
    self->err = err;
    self->queue[0].at = root;
    self->n_queue = 1;
    for (i = 0; status == RS_OK && i < self->n_queue; i++) status = emit_item(self, i);
    if (status == RS_OK &&
        RS_FMT_TREE_HEAD_SIZE + self->nodes.size_bytes + self->aux.size_bytes > RS_FMT_TREE_BYTES) {
        status = rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "the tree grows too large");
    }
    if (status == RS_OK) status = append_tree(out, &self->nodes, &self->aux, err);
    rs_buffer_clear(&self->nodes);
    rs_buffer_clear(&self->aux);
    free(self);
    return status;
}

rs_status rs_infer_tree(rs_slice raw, const uint64_t *ends, uint32_t n, rs_scan *scan, rs_buffer *out, rs_error *err) {
    infer self = {scan, NULL, 0, 0, err};
    position root = {NULL, 0, 0, 0};
    rs_status status = RS_OK;
    uint32_t i;
    scan->next = 0;
    for (i = 0; status == RS_OK && i < n; i++) {
        rs_slice record;
        record.ptr = raw.ptr + (i == 0 ? 0 : ends[i - 1]);
        record.end = raw.ptr + ends[i];
        status = observe(&self, &root, &record);
    }
    if (status == RS_OK) status = emit_tree(&root, out, err);
    while (self.chunks != NULL) {
        chunk *next = self.chunks->next;
        free(self.chunks);
        self.chunks = next;
    }
    return status;
}

rs_status rs_infer_any_tree(rs_buffer *out, rs_error *err) {
    uint8_t tree[RS_FMT_TREE_HEAD_SIZE + RS_FMT_NODE_SIZE] = {1};
    tree[RS_FMT_TREE_HEAD_SIZE + RS_FMT_N_KIND] = RS_FMT_NODE_ANY;
    return rs_buffer_append(out, tree, sizeof tree, err);
}
