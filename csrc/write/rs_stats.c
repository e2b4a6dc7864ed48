/* rs_stats.c: reads values and files each under its position and alternative. */
#include "write/rs_stats.h"

#include <stdlib.h>

enum {
    MAX_ALTERNATIVES = 250,       /* of a position; with `any` they still fit the 256 children of a union */
    MAX_TUPLE = 64,               /* longer tuples are stored like lists */
    MAX_MERGED = 512,             /* keys of a struct that dicts of several key sets share */
    MAX_KEY_SETS = 2048,          /* key sets of all structs, because each dict is looked up among them */
    MAX_COMPARED = 1 << 25,       /* keys compared for merging, which bounds the time when all key sets differ */
    MAX_DISTINCT = 65536,         /* the most values of a table */
    KEPT_BYTES = 16 * 1024 * 1024 /* of all sets and offsets of the stats */
};

typedef struct rs_arena_chunk {
    struct rs_arena_chunk *next;
} chunk;

struct rs_kept_set {
    rs_value_set set;
    struct rs_kept_set *next;
};

void *rs_arena_take(rs_arena *self, size_t size) {
    chunk *c = (chunk *)calloc(1, sizeof(chunk) + 8 + size);
    if (c == NULL) return NULL;
    c->next = self->chunks;
    self->chunks = c;
    return (uint8_t *)c + sizeof(chunk) + 8; /* 16-aligned like calloc itself */
}

void rs_arena_clear(rs_arena *self) {
    while (self->chunks != NULL) {
        chunk *next = self->chunks->next;
        free(self->chunks);
        self->chunks = next;
    }
}

void rs_stats_clear(rs_stats *self) {
    struct rs_kept_set *kept;
    for (kept = self->sets; kept != NULL; kept = kept->next) rs_value_set_clear(&kept->set);
    rs_arena_clear(&self->arena);
    self->sets = NULL;
}

rs_value_set *rs_stats_new_set(rs_stats *self) {
    struct rs_kept_set *kept = (struct rs_kept_set *)rs_arena_take(&self->arena, sizeof *kept);
    if (kept == NULL) return NULL;
    kept->next = self->sets;
    self->sets = kept;
    return &kept->set;
}

static rs_status no_memory(rs_error *err) {
    return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory to infer a schema");
}

/* Returns a larger copy of an array of the arena. The old one stays until the arena is cleared. */
static void *grow(rs_stats *self, const void *old, size_t n, size_t capacity, size_t item) {
    void *grown = rs_arena_take(&self->arena, capacity * item);
    if (grown != NULL && n > 0) memcpy(grown, old, n * item);
    return grown;
}

static rs_status add_alternative(rs_stats *self, rs_position *at, uint8_t kind, uint32_t n_children,
                                 rs_alternative **out, rs_error *err) {
    rs_alternative *a;
    bool shape = kind == RS_FMT_NODE_STRUCT;
    bool too_many = at->n >= MAX_ALTERNATIVES || n_children > RS_FMT_TREE_NODES ||
                    self->n_nodes + n_children + 4 > RS_FMT_TREE_NODES ||
                    (shape && (self->n_key_sets >= RS_FMT_TREE_SHAPES || self->n_known >= MAX_KEY_SETS));
    if (kind != RS_FMT_NODE_ANY && too_many) {
        *out = NULL; /* the caller puts the value under `any` */
        return RS_OK;
    }
    if (at->n == at->capacity) {
        uint32_t capacity = at->capacity == 0 ? 1 : at->capacity * 2;
        rs_alternative *grown = (rs_alternative *)grow(self, at->alternatives, at->n, capacity, sizeof *grown);
        if (grown == NULL) return no_memory(err);
        at->alternatives = grown;
        at->capacity = capacity;
    }
    a = &at->alternatives[at->n];
    memset(a, 0, sizeof *a);
    a->kind = kind;
    a->n_children = n_children;
    if (n_children > 0) {
        a->children = (rs_position *)rs_arena_take(&self->arena, n_children * sizeof(rs_position));
        if (a->children == NULL) return no_memory(err);
    }
    /* One node for the alternative and one for a union above it. The children's alternatives count their own. */
    self->n_nodes += kind == RS_FMT_NODE_ANY ? 1 : 2;
    if (shape) self->n_key_sets++;
    at->last = at->n++;
    *out = a;
    return RS_OK;
}

/* ---- Which alternative a value belongs to ---- */

/* The properties of a value that decide to which alternative it belongs. */
typedef struct head {
    uint8_t tag, kind, param, elements;
    uint32_t n_children; /* of the alternative */
    uint64_t count;      /* number of elements of this value */
    uint64_t key_set_hash;
    rs_slice descriptor; /* as in rs_alternative */
    rs_slice body;       /* dict: the bytes after tag and count */
} head;

static rs_key_set *find_key_set(rs_alternative *a, uint64_t hash) {
    uint32_t i;
    if (a->n_key_sets > 0 && a->key_sets[a->last_key_set].hash == hash) return &a->key_sets[a->last_key_set];
    for (i = 0; i < a->n_key_sets; i++) {
        if (a->key_sets[i].hash == hash) {
            a->last_key_set = i;
            return &a->key_sets[i];
        }
    }
    return NULL;
}

static bool same_alternative(rs_alternative *a, const head *h) {
    if (a->kind != h->kind) return false;
    switch (h->kind) {
    case RS_FMT_NODE_STR: return a->elements == h->elements;
    case RS_FMT_NODE_LIST:
        return a->param == h->param &&
               (a->elements == h->elements || h->elements == RS_ELEMENTS_NONE || a->elements == RS_ELEMENTS_NONE);
    case RS_FMT_NODE_TUPLE: return a->n_children == h->n_children;
    case RS_FMT_NODE_STRUCT: return find_key_set(a, h->key_set_hash) != NULL;
    case RS_FMT_NODE_EXT:
    case RS_FMT_NODE_NDARRAY: {
        size_t size = (size_t)(a->descriptor.end - a->descriptor.ptr);
        return size == (size_t)(h->descriptor.end - h->descriptor.ptr) &&
               memcmp(a->descriptor.ptr, h->descriptor.ptr, size) == 0;
    }
    default: return true;
    }
}

/* Returns what the n elements are that begin at in.ptr. It stops at the first element of another kind. */
static rs_elements elements_of(rs_slice in, uint64_t n) {
    uint64_t i;
    if (n == 0) return RS_ELEMENTS_NONE;
    if (*in.ptr == RS_FMT_TAG_FLOAT) {
        if (n > rs_slice_left(&in) / 9) return RS_ELEMENTS_MIXED;
        for (i = 0; i < n; i++) {
            if (in.ptr[9 * i] != RS_FMT_TAG_FLOAT) return RS_ELEMENTS_MIXED;
        }
        return RS_ELEMENTS_FLOATS;
    }
    for (i = 0; i < n; i++) {
        uint8_t tag = *in.ptr;
        if (!rs_tag_is_int64(tag)) return RS_ELEMENTS_MIXED;
        in.ptr += rs_any_int_size(tag);
    }
    return RS_ELEMENTS_INTS;
}

/* Fills *h for the value at in.ptr. */
static void read_head(const rs_stats *self, rs_slice in, head *h) {
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
    case RS_FMT_TAG_STR4:
        h->kind = RS_FMT_NODE_STR;
        h->elements = (uint8_t)(h->tag - RS_FMT_TAG_STR1);
        break;
    case RS_FMT_TAG_BYTES: h->kind = RS_FMT_NODE_BYTES; break;
    case RS_FMT_TAG_LIST:
    case RS_FMT_TAG_TUPLE:
        h->count = rs_scan_varint_unchecked(&in);
        h->param = h->tag == RS_FMT_TAG_TUPLE;
        if (h->param == 1 && h->count <= MAX_TUPLE) {
            h->kind = RS_FMT_NODE_TUPLE;
            h->n_children = (uint32_t)h->count;
        } else {
            h->kind = RS_FMT_NODE_LIST;
            h->n_children = 1;
            h->elements = (uint8_t)elements_of(in, h->count);
        }
        break;
    case RS_FMT_TAG_DICT:
        h->kind = RS_FMT_NODE_STRUCT;
        h->count = rs_scan_varint_unchecked(&in);
        h->n_children = h->count > UINT32_MAX ? UINT32_MAX : (uint32_t)h->count;
        h->key_set_hash = self->scan->key_sets[self->scan->next];
        h->body = in;
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

/* ---- Structs: a struct may hold dicts of several key sets whose keys stand in one common order ---- */

static bool same_key(const rs_slice *a, const rs_slice *b) {
    size_t size = (size_t)(a->end - a->ptr);
    return size == (size_t)(b->end - b->ptr) && memcmp(a->ptr, b->ptr, size) == 0;
}

/* Lists the n keys of a dict. */
static rs_status read_keys(rs_slice in, uint32_t n, rs_slice *keys) {
    uint32_t i;
    for (i = 0; i < n; i++) {
        rs_budget budget = {UINT64_MAX, UINT64_MAX, RS_FMT_DEPTH};
        keys[i].ptr = in.ptr;
        RS_TRY(rs_any_skip(&in, UINT64_MAX, &budget, NULL));
        keys[i].end = in.ptr;
        RS_TRY(rs_any_skip(&in, UINT64_MAX, &budget, NULL));
    }
    return RS_OK;
}

/* Returns whether these keys are equal in Python only when their bytes are equal. That is so for str, bytes, int and
 * None. But True, 1 and 1.0 are equal, and classes define their own equality. A struct that dicts of several key sets
 * share must not hold two keys that are equal in Python. */
static bool plain_keys(const rs_slice *keys, uint32_t n) {
    uint32_t i;
    for (i = 0; i < n; i++) {
        uint8_t tag = *keys[i].ptr;
        bool text = tag >= RS_FMT_TAG_STR1 && tag <= RS_FMT_TAG_BYTES;
        if (!text && !rs_tag_is_int64(tag) && tag != RS_FMT_TAG_NONE) return false;
    }
    return true;
}

/* Merges n keys of a dict with those of `a`, so that both keep their order. children[i] becomes the index of key i in
 * the merged order, *common the number of keys in both, *merged the number of keys in all. Returns false when the two
 * orders disagree. */
static bool merge_order(const rs_alternative *a, const rs_slice *keys, uint32_t n, uint32_t *children, uint32_t *common,
                        uint32_t *merged) {
    uint32_t at = 0, i, k, fresh = 0;
    *common = 0;
    for (i = 0; i < n; i++) {
        for (k = at; k < a->n_children && !same_key(&a->keys[k], &keys[i]); k++) continue;
        if (k < a->n_children) {
            children[i] = k + fresh;
            at = k + 1;
            ++*common;
            continue;
        }
        for (k = 0; k < at; k++) {
            if (same_key(&a->keys[k], &keys[i])) return false;
        }
        children[i] = at + fresh;
        fresh++;
    }
    *merged = a->n_children + fresh;
    return true;
}

static rs_status add_key_set(rs_stats *self, rs_alternative *a, uint64_t hash, uint32_t n, uint32_t *children,
                             rs_error *err) {
    if (a->n_key_sets == a->key_sets_capacity) {
        uint32_t capacity = a->key_sets_capacity == 0 ? 1 : a->key_sets_capacity * 2;
        rs_key_set *grown = (rs_key_set *)grow(self, a->key_sets, a->n_key_sets, capacity, sizeof *grown);
        if (grown == NULL) return no_memory(err);
        a->key_sets = grown;
        a->key_sets_capacity = capacity;
    }
    a->last_key_set = a->n_key_sets;
    a->key_sets[a->n_key_sets].hash = hash;
    a->key_sets[a->n_key_sets].n = n;
    a->key_sets[a->n_key_sets].children = children;
    a->n_key_sets++;
    self->n_known++;
    return RS_OK;
}

static uint64_t path_of_key(const rs_alternative *a, const rs_slice *key) {
    return rs_schema_hash_key(a->position_id, key->ptr, rs_slice_left(key));
}

/* Inserts the keys that are new into `a`. children[i] is the index of key i in the merged order of `merged` keys. */
static rs_status spread_children(rs_stats *self, rs_alternative *a, const rs_slice *keys, uint32_t n,
                                 const uint32_t *children, uint32_t merged, rs_error *err) {
    rs_position *positions = (rs_position *)rs_arena_take(&self->arena, merged * sizeof *positions);
    rs_slice *names = (rs_slice *)rs_arena_take(&self->arena, merged * sizeof *names);
    uint32_t *moved = (uint32_t *)rs_arena_take(&self->arena, (a->n_children + 1) * sizeof *moved);
    uint32_t i, k, old = 0, next = 0;
    if (positions == NULL || names == NULL || moved == NULL) return no_memory(err);
    for (k = 0; k < merged; k++) {
        while (next < n && children[next] < k) next++;
        if (next < n && children[next] == k && !(old < a->n_children && same_key(&a->keys[old], &keys[next]))) {
            names[k] = keys[next];
            positions[k].position_id = path_of_key(a, &keys[next]);
            continue;
        }
        names[k] = a->keys[old];
        positions[k] = a->children[old];
        moved[old++] = k;
    }
    for (i = 0; i < a->n_key_sets; i++) {
        for (k = 0; k < a->key_sets[i].n; k++) a->key_sets[i].children[k] = moved[a->key_sets[i].children[k]];
    }
    a->keys = names;
    a->children = positions;
    a->n_children = merged;
    return RS_OK;
}

/* Adds the key set of a dict to a struct of this position that has at least half of the keys in common with it, in one
 * order. *out becomes that struct, or NULL when there is none. */
static rs_status join_struct(rs_stats *self, rs_position *at, const head *h, rs_alternative **out, rs_error *err) {
    rs_slice *keys;
    uint32_t i, n = h->n_children, *children = NULL;
    *out = NULL;
    if (n == 0 || n > MAX_MERGED || at->closed || self->n_known >= MAX_KEY_SETS || self->n_compared >= MAX_COMPARED) {
        return RS_OK;
    }
    keys = (rs_slice *)malloc(n * sizeof *keys);
    if (keys == NULL) return no_memory(err);
    if (read_keys(h->body, n, keys) != RS_OK || !plain_keys(keys, n)) n = 0;
    for (i = 0; n > 0 && i < at->n; i++) {
        rs_alternative *a = &at->alternatives[i];
        uint32_t common, merged, least = n < a->n_children ? n : a->n_children;
        if (a->kind != RS_FMT_NODE_STRUCT || a->n_children == 0 || !plain_keys(a->keys, a->n_children)) continue;
        self->n_compared += (uint64_t)n * a->n_children;
        if (children == NULL) children = (uint32_t *)rs_arena_take(&self->arena, n * sizeof *children);
        if (children == NULL) {
            free(keys);
            return no_memory(err);
        }
        if (!merge_order(a, keys, n, children, &common, &merged) || common * 2 < least || merged > MAX_MERGED ||
            self->n_nodes + (merged - a->n_children) * 2 + 4 > RS_FMT_TREE_NODES) {
            continue;
        }
        if (merged > a->n_children) {
            rs_status status = spread_children(self, a, keys, n, children, merged, err);
            if (status != RS_OK) {
                free(keys);
                return status;
            }
        }
        free(keys);
        at->last = i;
        *out = a;
        return add_key_set(self, a, h->key_set_hash, n, children, err);
    }
    free(keys);
    return RS_OK;
}

static rs_status begin_struct(rs_stats *self, rs_alternative *a, const head *h, rs_error *err) {
    uint32_t i, *children = (uint32_t *)rs_arena_take(&self->arena, (a->n_children + 1) * sizeof *children);
    a->keys = (rs_slice *)rs_arena_take(&self->arena, (a->n_children + 1) * sizeof *a->keys);
    if (a->keys == NULL || children == NULL) return no_memory(err);
    RS_TRY(read_keys(h->body, a->n_children, a->keys));
    for (i = 0; i < a->n_children; i++) {
        children[i] = i;
        a->children[i].position_id = path_of_key(a, &a->keys[i]);
    }
    return add_key_set(self, a, h->key_set_hash, a->n_children, children, err);
}

/* Returns the alternative of the position for lists of mixed elements; NULL when there is none. */
static rs_alternative *mixed_lists(rs_position *at, uint8_t param) {
    uint32_t i;
    for (i = 0; i < at->n; i++) {
        rs_alternative *a = &at->alternatives[i];
        if (a->kind != RS_FMT_NODE_LIST || a->param != param || a->elements != RS_ELEMENTS_MIXED) continue;
        at->last = i;
        return a;
    }
    return NULL;
}

/* Gives the alternative and its children their position ids, which are the same in other runs, and looks up whether an
 * earlier run found no use for its distinct values. */
static void name_alternative(const rs_stats *self, const rs_position *at, rs_alternative *a) {
    const uint8_t what[3] = {a->kind, a->param, a->kind == RS_FMT_NODE_STR ? a->elements : 0};
    unsigned known = 0;
    uint32_t i;
    a->position_id = rs_schema_hash_key(at->position_id, what, sizeof what);
    if (self->dictionaries != NULL) known = rs_dictionaries_known(self->dictionaries, a->position_id);
    a->gave_up = at->payload || (known & RS_POSITION_NO_DICTIONARY) != 0;
    for (i = 0; i < a->n_children; i++) { /* begin_struct replaces those of a struct by ids made of its keys */
        a->children[i].position_id = rs_schema_hash_key(a->position_id, (const uint8_t *)&i, sizeof i);
        a->children[i].payload = a->kind == RS_FMT_NODE_EXT;
    }
}

static rs_status find_alternative(rs_stats *self, rs_position *at, const head *h, rs_alternative **out, rs_error *err) {
    uint32_t i;
    if (at->n > 0 && same_alternative(&at->alternatives[at->last], h)) {
        *out = &at->alternatives[at->last];
    } else {
        *out = NULL;
        for (i = 0; i < at->n && *out == NULL; i++) {
            if (!same_alternative(&at->alternatives[i], h)) continue;
            at->last = i;
            *out = &at->alternatives[i];
        }
        if (*out == NULL && h->kind == RS_FMT_NODE_STRUCT) RS_TRY(join_struct(self, at, h, out, err));
    }
    if (*out != NULL) {
        if ((*out)->kind == RS_FMT_NODE_LIST && (*out)->elements == RS_ELEMENTS_NONE) (*out)->elements = h->elements;
        return RS_OK;
    }
    RS_TRY(add_alternative(self, at, h->kind, h->kind == RS_FMT_NODE_ANY ? 0 : h->n_children, out, err));
    if (*out == NULL) {
        head any = {0};
        /* When there are too many alternatives, a list of numbers goes to the lists of mixed elements, if any. The
         * encoder would choose their node for it too. */
        *out = h->kind == RS_FMT_NODE_LIST ? mixed_lists(at, h->param) : NULL;
        if (*out != NULL) return RS_OK;
        at->closed = at->closed || h->kind == RS_FMT_NODE_STRUCT;
        any.kind = RS_FMT_NODE_ANY;
        return find_alternative(self, at, &any, out, err);
    }
    (*out)->param = h->param;
    (*out)->elements = h->elements;
    (*out)->descriptor = h->descriptor;
    name_alternative(self, at, *out);
    if (h->kind == RS_FMT_NODE_STRUCT) return begin_struct(self, *out, h, err);
    return RS_OK;
}

/* ---- Filing values under alternatives ---- */

static rs_status observe(rs_stats *self, rs_position *at, rs_slice *in, rs_error *err);

static rs_status same_hash(rs_error *err) {
    return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "two key sets of dicts have the same hash");
}

static rs_status observe_struct(rs_stats *self, rs_alternative *a, const head *h, rs_slice *in, rs_error *err) {
    const rs_key_set *shape = find_key_set(a, h->key_set_hash);
    uint32_t i, n = shape->n;
    const uint32_t *children = shape->children;
    self->scan->next++;
    /* Two key sets may share a hash. The data are right, but this code cannot tell the two apart. */
    if (h->n_children != n) return same_hash(err);
    for (i = 0; i < n; i++) {
        const rs_slice *key = &a->keys[children[i]];
        size_t size = (size_t)(key->end - key->ptr);
        if (size > rs_slice_left(in) || !rs_equal_few(in->ptr, key->ptr, size)) return same_hash(err);
        in->ptr += size;
        RS_TRY(observe(self, &a->children[children[i]], in, err));
    }
    return RS_OK;
}

/* Takes the elements of a list of numbers off `in` unseen. rs_plan_numbers reads them all when it chooses their
 * node. */
static void pass_numbers(const head *h, rs_slice *in) {
    uint64_t i;
    if (h->elements == RS_ELEMENTS_FLOATS) {
        in->ptr += 9 * h->count;
        return;
    }
    for (i = 0; i < h->count; i++) {
        in->ptr += rs_any_int_size(*in->ptr);
    }
}

static rs_status observe_elements(rs_stats *self, rs_alternative *a, const head *h, rs_slice *in, rs_error *err) {
    uint64_t i;
    bool list = a->kind == RS_FMT_NODE_LIST;
    if (list) {
        if (a->n == 0 || h->count < a->count_min) a->count_min = h->count;
        if (h->count > a->count_max) a->count_max = h->count;
        a->total += h->count;
        a->counts_bytes += rs_varint_size(h->count);
        if (a->elements == RS_ELEMENTS_INTS || a->elements == RS_ELEMENTS_FLOATS) {
            pass_numbers(h, in);
            return RS_OK;
        }
    }
    for (i = 0; i < h->count; i++) RS_TRY(observe(self, &a->children[list ? 0 : i], in, err));
    return RS_OK;
}

static void observe_int(rs_alternative *a, uint8_t tag, rs_slice *in) {
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

static rs_status observe_array(rs_alternative *a, rs_slice *in, rs_error *err) {
    rs_array_type type;
    rs_slice shape;
    uint64_t size, outside;
    RS_TRY(rs_array_skip(in, UINT64_MAX, &type, &shape, &size, &outside, err));
    if (a->n == 0) {
        a->shape = shape;
        a->same_shape = true;
    } else if (a->same_shape) {
        size_t n = (size_t)(shape.end - shape.ptr);
        a->same_shape = n == (size_t)(a->shape.end - a->shape.ptr) && memcmp(shape.ptr, a->shape.ptr, n) == 0;
    }
    return RS_OK;
}

static void observe_units(rs_alternative *a, unsigned shift, rs_slice *in) {
    uint64_t n = rs_scan_varint_unchecked(in);
    a->total += n;
    a->counts_bytes += rs_varint_size(n);
    in->ptr += n << shift;
}

static rs_status observe_body(rs_stats *self, rs_alternative *a, const head *h, rs_slice *in, rs_error *err) {
    in->ptr++;
    switch (a->kind) {
    case RS_FMT_NODE_INT: observe_int(a, h->tag, in); return RS_OK;
    case RS_FMT_NODE_FLOAT: in->ptr += 8; return RS_OK;
    case RS_FMT_NODE_STR: observe_units(a, (unsigned)(h->tag - RS_FMT_TAG_STR1), in); return RS_OK;
    case RS_FMT_NODE_BYTES: observe_units(a, 0, in); return RS_OK;
    case RS_FMT_NODE_LIST:
    case RS_FMT_NODE_TUPLE: (void)rs_scan_varint_unchecked(in); return observe_elements(self, a, h, in, err);
    case RS_FMT_NODE_STRUCT: (void)rs_scan_varint_unchecked(in); return observe_struct(self, a, h, in, err);
    case RS_FMT_NODE_NDARRAY: return observe_array(a, in, err);
    case RS_FMT_NODE_EXT: in->ptr += rs_slice_left(&h->descriptor); return observe(self, a->children, in, err);
    default: return RS_OK;
    }
}

/* Returns whether `distinct` of n values are too many for a table to be worth it. */
static bool too_many(uint64_t distinct, uint64_t n) {
    if (distinct >= MAX_DISTINCT) return true;
    if (n < 1024) return false;
    return distinct > (n < 4096 ? n - n / 8 : n < 16384 ? n - n / 4 : n - n * 3 / 8);
}

static void give_up(rs_stats *self, rs_alternative *a) {
    if (a->distinct != NULL) {
        self->kept_bytes -= (uint64_t)a->distinct->capacity * 24;
        rs_value_set_clear(a->distinct);
    }
    a->distinct = NULL;
    a->gave_up = true;
}

static rs_status note_distinct(rs_stats *self, rs_alternative *a, rs_slice value, rs_error *err) {
    uint64_t hash;
    rs_span span;
    if (a->distinct == NULL) {
        a->distinct = rs_stats_new_set(self);
        if (a->distinct == NULL) return no_memory(err);
    }
    hash = rs_value_set_hash(value);
    if (rs_value_set_find(a->distinct, self->values.base, value, hash) != UINT32_MAX) return RS_OK;
    if (too_many(a->distinct->n, a->n) || self->kept_bytes > KEPT_BYTES) {
        give_up(self, a);
        return RS_OK;
    }
    span.off = (uint32_t)(value.ptr - self->values.base);
    span.size_bytes = (uint32_t)rs_slice_left(&value);
    self->kept_bytes -= (uint64_t)a->distinct->capacity * 24;
    RS_TRY(rs_value_set_add(a->distinct, span, hash, err));
    self->kept_bytes += (uint64_t)a->distinct->capacity * 24;
    return RS_OK;
}

static rs_status note_place(rs_stats *self, rs_alternative *a, const uint8_t *begin, rs_error *err) {
    if (a->n_where < a->n) return RS_OK; /* some offsets are missing already, and an incomplete list is not used */
    if (a->n_where == a->where_capacity) {
        uint32_t capacity = a->where_capacity == 0 ? 64 : a->where_capacity * 2, *grown;
        if (self->kept_bytes > KEPT_BYTES || capacity == 0) return RS_OK;
        grown = (uint32_t *)grow(self, a->where, a->n_where, capacity, sizeof *grown);
        if (grown == NULL) return no_memory(err);
        self->kept_bytes += (uint64_t)capacity * 4;
        a->where = grown;
        a->where_capacity = capacity;
    }
    a->where[a->n_where++] = (uint32_t)(begin - self->values.base);
    return RS_OK;
}

static bool wants_place(const rs_alternative *a) {
    return a->kind == RS_FMT_NODE_FLOAT || a->kind == RS_FMT_NODE_STR || a->kind == RS_FMT_NODE_INT ||
           (a->kind == RS_FMT_NODE_LIST && a->elements != RS_ELEMENTS_MIXED);
}

/* Takes one value off `in` and files it under its alternative of the position. */
static rs_status observe(rs_stats *self, rs_position *at, rs_slice *in, rs_error *err) {
    rs_slice value;
    rs_alternative *a;
    uint32_t number;
    head h;
    value.ptr = in->ptr;
    read_head(self, *in, &h);
    RS_TRY(find_alternative(self, at, &h, &a, err));
    number = (uint32_t)(a - at->alternatives);
    if (a->kind == RS_FMT_NODE_ANY) {
        rs_scan_skip_unchecked(self->scan, in);
    } else {
        RS_TRY(observe_body(self, a, &h, in, err));
    }
    a = &at->alternatives[number];
    value.end = in->ptr;
    if (a->n == 0) {
        a->first = value;
        a->constant = true;
    } else if (a->constant) {
        a->constant = rs_slice_left(&value) == rs_slice_left(&a->first) &&
                      rs_equal_few(value.ptr, a->first.ptr, rs_slice_left(&value));
    }
    a->raw_bytes += rs_slice_left(&value);
    if (wants_place(a)) RS_TRY(note_place(self, a, value.ptr, err));
    a->n++;
    /* Constant values need no table, so distinct values are collected from the first value on that differs. */
    if (!a->gave_up && h.kind != RS_FMT_NODE_BOOL && h.kind != RS_FMT_NODE_CONST) {
        if (a->distinct == NULL && !a->constant && a->n > 1) RS_TRY(note_distinct(self, a, a->first, err));
        if (a->distinct != NULL) RS_TRY(note_distinct(self, a, value, err));
    }
    return RS_OK;
}

rs_status rs_stats_collect(rs_stats *self, rs_error *err) {
    uint32_t i;
    self->scan->next = 0;
    for (i = 0; i < self->values.n; i++) {
        rs_slice value = rs_values_at(&self->values, i);
        RS_TRY(observe(self, &self->root, &value, err));
    }
    return RS_OK;
}
