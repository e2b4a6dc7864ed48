/* rs_stats.c: reads values and files each under its position and alternative. */
#include "plan/rs_stats.h"

#include "format/rs_utf16.h"
#include "plan/rs_rows.h"
#include "plan/rs_stats_structs.h"

enum {
    MAX_ALTERNATIVES = 250,          /* of a position; with `any` they still fit the 256 children of a union */
    MAX_TUPLE = 64,                  /* longer tuples are stored like lists */
    MAX_DISTINCT = 65536,            /* the most distinct values of an alternative */
    MAX_DICTS = 16384,               /* offsets of dicts that a position keeps */
    MANY_KEY_SETS = 64,              /* of a position whose keys may be data */
    MANY_STRUCTS = 16,               /* the same */
    KEPT_BYTES = 24 * 1024 * 1024,   /* of all sets and offsets of the stats */
    OFFSETS_BYTES = 16 * 1024 * 1024 /* sets and offsets after which no more offsets are kept */
};

struct rs_kept_set {
    rs_value_set set;
    struct rs_kept_set *next;
};

void rs_stats_clear(rs_stats *self) {
    for (struct rs_kept_set *kept = self->sets; kept != NULL; kept = kept->next) rs_value_set_clear(&kept->set);
    rs_arena_clear(&self->arena);
    self->sets = NULL;
}

uint64_t rs_stats_memory(const rs_stats *self) {
    uint64_t bytes = self->arena.size_bytes;
    for (const struct rs_kept_set *kept = self->sets; kept != NULL; kept = kept->next) {
        bytes += kept->set.n_slots * sizeof *kept->set.slots + (uint64_t)kept->set.capacity * sizeof(rs_span);
    }
    return bytes;
}

rs_value_set *rs_stats_new_set(rs_stats *self) {
    struct rs_kept_set *kept = (struct rs_kept_set *)rs_arena_take(&self->arena, sizeof *kept);
    if (kept == NULL) return NULL;
    kept->next = self->sets;
    self->sets = kept;
    return &kept->set;
}

void rs_stats_begin_part(rs_stats *part, const rs_stats *whole) {
    *part = *whole;
    memset(&part->arena, 0, sizeof part->arena);
    part->sets = NULL;
}

void rs_stats_end_part(rs_stats *part, rs_stats *whole) {
    struct rs_kept_set **sets = &part->sets;
    rs_arena_join(&whole->arena, &part->arena);
    while (*sets != NULL) sets = &(*sets)->next;
    *sets = whole->sets;
    whole->sets = part->sets;
    memset(part, 0, sizeof *part);
}

static rs_status add_alternative(rs_stats *self, rs_position *at, uint8_t kind, uint32_t n_children,
                                 rs_alternative **out, rs_error *err) {
    bool is_struct = kind == RS_FMT_NODE_STRUCT;
    bool over_limit = at->n >= MAX_ALTERNATIVES || n_children > RS_FMT_TREE_NODES ||
                      self->n_nodes + n_children + 4 > RS_FMT_TREE_NODES ||
                      (is_struct && (self->n_structs >= RS_FMT_TREE_SHAPES || self->n_key_sets >= RS_STATS_KEY_SETS));
    if (kind != RS_FMT_NODE_ANY && over_limit) {
        *out = NULL; /* the caller puts the value under `any` */
        return RS_OK;
    }
    if (at->n == at->capacity) {
        uint32_t capacity = at->capacity == 0 ? 1 : at->capacity * 2;
        rs_alternative *grown =
            (rs_alternative *)rs_arena_grow(&self->arena, at->alternatives, at->n, capacity, sizeof *grown);
        if (grown == NULL) return rs_no_memory(err);
        at->alternatives = grown;
        at->capacity = capacity;
    }
    rs_alternative *a = &at->alternatives[at->n];
    memset(a, 0, sizeof *a);
    a->kind = kind;
    a->n_children = n_children;
    if (n_children > 0) {
        a->children = (rs_position *)rs_arena_take(&self->arena, n_children * sizeof(rs_position));
        if (a->children == NULL) return rs_no_memory(err);
    }
    /* One node for the alternative and, except for `any`, one for a union above it. The children's alternatives count
     * their own. */
    self->n_nodes += kind == RS_FMT_NODE_ANY ? 1 : 2;
    if (is_struct) self->n_structs++;
    at->last = at->n++;
    *out = a;
    return RS_OK;
}

/* ---- The head of a value ---- */

static bool same_alternative(rs_alternative *a, const rs_stats_head *h) {
    if (a->kind != h->kind) return false;
    switch (h->kind) {
    case RS_FMT_NODE_STR: return a->elements == h->elements;
    case RS_FMT_NODE_LIST:
        return a->param == h->param &&
               (a->elements == h->elements || h->elements == RS_ELEMENTS_NONE || a->elements == RS_ELEMENTS_NONE);
    case RS_FMT_NODE_TUPLE: return a->param == h->param && a->n_children == h->n_children;
    case RS_FMT_NODE_EXT:
    case RS_FMT_NODE_NDARRAY: return rs_slice_equal(a->descriptor, h->descriptor);
    default: return true;
    }
}

/* Returns the kind of the n elements at in.ptr. Sets *end to their end if all are numbers. */
static rs_elements elements_of(rs_slice in, uint64_t n, const uint8_t **end) {
    *end = in.ptr;
    if (n == 0) return RS_ELEMENTS_NONE;
    if (*in.ptr == RS_FMT_TAG_FLOAT) {
        if (n > rs_slice_left(&in) / 9) return RS_ELEMENTS_MIXED;
        for (uint64_t i = 0; i < n; i++) {
            if (in.ptr[9 * i] != RS_FMT_TAG_FLOAT) return RS_ELEMENTS_MIXED;
        }
        *end = in.ptr + 9 * n;
        return RS_ELEMENTS_FLOATS;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint8_t tag = *in.ptr;
        if (!rs_tag_is_int64(tag)) return RS_ELEMENTS_MIXED;
        in.ptr += rs_any_int_size(tag);
    }
    *end = in.ptr;
    return RS_ELEMENTS_INTS;
}

/* Returns the kind of node for a tag; `any` for containers, arrays, ext values and ints beyond 64 bits. */
static inline uint8_t kind_of_plain(uint8_t tag) {
    if (rs_tag_is_int64(tag)) return RS_FMT_NODE_INT;
    switch (tag) {
    case RS_FMT_TAG_NONE: return RS_FMT_NODE_CONST;
    case RS_FMT_TAG_FALSE:
    case RS_FMT_TAG_TRUE: return RS_FMT_NODE_BOOL;
    case RS_FMT_TAG_FLOAT: return RS_FMT_NODE_FLOAT;
    case RS_FMT_TAG_STR1:
    case RS_FMT_TAG_STR2:
    case RS_FMT_TAG_STR4: return RS_FMT_NODE_STR;
    case RS_FMT_TAG_BYTES: return RS_FMT_NODE_BYTES;
    default: return RS_FMT_NODE_ANY;
    }
}

/* Fills *h for the value at in.ptr. */
static void read_head(const rs_stats *self, rs_slice in, rs_stats_head *h) {
    memset(h, 0, sizeof *h);
    h->tag = *in.ptr++;
    switch (h->tag) {
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
            h->elements = (uint8_t)elements_of(in, h->count, &h->numbers_end);
        }
        h->body = in;
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
    default:
        h->kind = kind_of_plain(h->tag);
        if (h->kind == RS_FMT_NODE_STR) h->elements = (uint8_t)(h->tag - RS_FMT_TAG_STR1);
        if (h->tag == RS_FMT_TAG_STR4) {
            const uint64_t n = rs_scan_varint_unchecked(&in);
            uint64_t n_units;
            if (!rs_utf16_length(in.ptr, n, &n_units)) h->elements++;
        }
        break;
    }
}

/* ---- Finding the alternative of a value ---- */

/* Returns the position's alternative for lists of mixed elements and makes it the last; NULL if there is none. */
static rs_alternative *mixed_lists(rs_position *at, uint8_t param) {
    for (uint32_t i = 0; i < at->n; i++) {
        rs_alternative *a = &at->alternatives[i];
        if (a->kind != RS_FMT_NODE_LIST || a->param != param || a->elements != RS_ELEMENTS_MIXED) continue;
        at->last = i;
        return a;
    }
    return NULL;
}

/* Sets the position ids of the alternative and its children, which are the same in other runs, and uses the results of
 * attempts in earlier runs. */
static void name_alternative(const rs_stats *self, const rs_position *at, rs_alternative *a) {
    const bool pairs = a->kind == RS_FMT_NODE_STR && a->elements == 2;
    const uint8_t parts[3] = {a->kind, a->param, pairs ? 1 : a->kind == RS_FMT_NODE_STR ? a->elements : 0};
    a->position_id = rs_schema_hash_key(at->position_id, parts, sizeof parts) ^ (pairs ? RS_PAIRS_POSITION : 0);
    if (self->hints != NULL && self->choices->level != RS_LEVEL_SMALL)
        a->known = (uint8_t)rs_attempts_known(self->hints, a->position_id, self->run);
    a->gave_up = at->payload || (a->known & RS_POSITION_NO_DICTIONARY) != 0 || a->kind == RS_FMT_NODE_BOOL ||
                 a->kind == RS_FMT_NODE_CONST;
    for (uint32_t i = 0; i < a->n_children; i++) { /* for a struct, rs_stats_begin_struct replaces these ids */
        a->children[i].position_id = rs_schema_hash_key(a->position_id, (const uint8_t *)&i, sizeof i);
        a->children[i].payload = a->kind == RS_FMT_NODE_EXT;
        a->children[i].in_row = a->kind == RS_FMT_NODE_STRUCT || a->kind == RS_FMT_NODE_TUPLE;
    }
}

/* Returns the position's alternative for values with this head and makes it the last; NULL if there is none. */
static rs_alternative *known_alternative(rs_position *at, const rs_stats_head *h) {
    if (h->kind == RS_FMT_NODE_STRUCT) return rs_stats_find_struct(at, h->key_set_hash);
    if (at->n > 0 && same_alternative(&at->alternatives[at->last], h)) return &at->alternatives[at->last];
    for (uint32_t i = 0; i < at->n; i++) {
        if (!same_alternative(&at->alternatives[i], h)) continue;
        at->last = i;
        return &at->alternatives[i];
    }
    return NULL;
}

static rs_status find_alternative(rs_stats *self, rs_position *at, const rs_stats_head *h, rs_alternative **out,
                                  rs_error *err) {
    *out = known_alternative(at, h);
    if (*out == NULL && h->kind == RS_FMT_NODE_STRUCT) RS_TRY(rs_stats_join_struct(self, at, h, out, err));
    if (*out != NULL) {
        if ((*out)->kind == RS_FMT_NODE_LIST && (*out)->elements == RS_ELEMENTS_NONE) (*out)->elements = h->elements;
        return RS_OK;
    }
    RS_TRY(add_alternative(self, at, h->kind, h->kind == RS_FMT_NODE_ANY ? 0 : h->n_children, out, err));
    if (*out == NULL && h->kind == RS_FMT_NODE_TUPLE && h->param == 0) {
        rs_stats_head list = *h; /* the encoder tries lists before `any` */
        list.kind = RS_FMT_NODE_LIST;
        list.n_children = 1;
        return find_alternative(self, at, &list, out, err);
    }
    if (*out == NULL) {
        rs_stats_head any = {0};
        /* With too many alternatives, a list of numbers joins the lists of mixed elements, as it does in the
         * encoder. */
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
    if (h->kind == RS_FMT_NODE_STRUCT) return rs_stats_begin_struct(self, at, *out, h, err);
    return RS_OK;
}

/* ---- Distinct values ---- */

/* Returns whether the distinct values are too many for a table. Large values may repeat in later blocks. */
static bool too_many(const rs_alternative *a) {
    const uint64_t distinct = a->distinct->n, n = a->n;
    if (distinct >= MAX_DISTINCT) return true;
    if (n < 1024 || rs_alternative_is_large(a)) return false;
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

/* Adds a new value, or gives up. */
static rs_status add_distinct(rs_stats *self, rs_alternative *a, rs_slice value, uint64_t hash, rs_error *err) {
    rs_span span;
    if (too_many(a) || self->kept_bytes > KEPT_BYTES) {
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

/* Begins the set with the first two values that differ. */
static rs_status begin_distinct(rs_stats *self, rs_alternative *a, rs_slice value, uint64_t hash, rs_error *err) {
    a->distinct = rs_stats_new_set(self);
    if (a->distinct == NULL) return rs_no_memory(err);
    RS_TRY(add_distinct(self, a, a->first, a->first_hash, err));
    return a->distinct == NULL ? RS_OK : add_distinct(self, a, value, hash, err);
}

/* Counts a value of an alternative whose values so far are all equal. */
static rs_status count_constant(rs_stats *self, rs_alternative *a, rs_slice value, const uint64_t *hash,
                                uint64_t *above, rs_error *err) {
    size_t size = rs_slice_left(&value);
    uint64_t own = a->first_hash;
    a->constant = a->n == 0 || (size == rs_slice_left(&a->first) && rs_equal_few(value.ptr, a->first.ptr, size));
    if (a->n == 0 || !a->constant) own = hash != NULL ? *hash : rs_value_set_hash(value);
    if (a->n == 0) {
        a->first = value;
        a->first_span.off = (uint32_t)(value.ptr - self->values.base);
        a->first_span.size_bytes = (uint32_t)size;
        a->first_hash = own;
    }
    a->n++;
    if (above != NULL) *above = own;
    /* Constant values need no table, so distinct values are collected from the first different value on. */
    return a->gave_up || a->constant ? RS_OK : begin_distinct(self, a, value, own, err);
}

/* Counts a value of the alternative. `hash` is the hash of a container; if it is NULL, the bytes are hashed if needed.
 * Sets *above (may be NULL) to the hash, for the container around the value. */
static inline rs_status count_value(rs_stats *self, rs_alternative *a, rs_slice value, const uint64_t *hash,
                                    uint64_t *above, rs_error *err) {
    a->raw_bytes += rs_slice_left(&value);
    if (RS_UNLIKELY(a->constant || a->n == 0)) return count_constant(self, a, value, hash, above, err);
    a->n++;
    if (a->gave_up && above == NULL) return RS_OK;
    uint64_t own = hash != NULL ? *hash : rs_value_set_hash(value);
    if (above != NULL) *above = own;
    if (a->gave_up || rs_value_set_find(a->distinct, self->values.base, value, own) != UINT32_MAX) return RS_OK;
    return add_distinct(self, a, value, own, err);
}

static rs_status grow_offsets(rs_stats *self, rs_alternative *a, rs_error *err) {
    uint32_t capacity = a->offsets_capacity == 0 ? 64 : a->offsets_capacity * 2;
    if (self->kept_bytes > OFFSETS_BYTES || capacity == 0) return RS_OK;
    uint32_t *grown = (uint32_t *)rs_arena_grow(&self->arena, a->offsets, a->n_offsets, capacity, sizeof *grown);
    if (grown == NULL) return rs_no_memory(err);
    self->kept_bytes += (uint64_t)capacity * 4;
    a->offsets = grown;
    a->offsets_capacity = capacity;
    return RS_OK;
}

/* Records the offset of the value that is about to be counted. */
static inline rs_status add_offset(rs_stats *self, rs_alternative *a, const uint8_t *begin, rs_error *err) {
    if (RS_UNLIKELY(a->n_offsets == a->offsets_capacity)) {
        if (a->n_offsets < a->n) return RS_OK; /* an incomplete list of offsets is not used */
        RS_TRY(grow_offsets(self, a, err));
        if (a->n_offsets == a->offsets_capacity) return RS_OK;
    }
    a->offsets[a->n_offsets++] = (uint32_t)(begin - self->values.base);
    return RS_OK;
}

/* ---- Filing values under alternatives ---- */

static rs_status observe(rs_stats *self, rs_position *at, rs_slice *in, uint64_t *above, rs_error *err);
static rs_status observe_compound(rs_stats *self, rs_position *at, rs_slice *in, uint64_t *above, rs_error *err);

static rs_status hash_collision(rs_error *err) {
    return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "two key sets of dicts have the same hash");
}

/* The next two functions take the elements of a container off `in`, and add their hashes to *hash (may be NULL). */

static rs_status observe_struct(rs_stats *self, rs_alternative *a, const rs_stats_head *h, rs_slice *in, uint64_t *hash,
                                rs_error *err) {
    uint64_t part = 0;
    uint32_t child = 0;
    self->scan->next++;
    for (uint32_t i = 0; i < h->n_children; i++, child++) {
        while (child < a->n_children &&
               !rs_slice_starts_with(*in, a->keys[child].ptr, rs_slice_left(&a->keys[child]))) {
            child++;
        }
        /* Two key sets may share a hash. This code cannot distinguish them, although the data are valid. */
        if (child == a->n_children) return hash_collision(err);
        in->ptr += rs_slice_left(&a->keys[child]);
        RS_TRY(observe(self, &a->children[child], in, hash == NULL ? NULL : &part, err));
        if (hash != NULL) *hash = rs_value_set_hash_with(*hash, part);
    }
    return RS_OK;
}

static rs_status observe_elements(rs_stats *self, rs_alternative *a, const rs_stats_head *h, rs_slice *in,
                                  uint64_t *hash, rs_error *err) {
    const uint8_t *begin = in->ptr;
    uint64_t part = 0;
    bool list = a->kind == RS_FMT_NODE_LIST;
    if (list) {
        if (a->n == 0 || h->count < a->count_min) a->count_min = h->count;
        if (h->count > a->count_max) a->count_max = h->count;
        a->total += h->count;
        a->counts_bytes += rs_varint_size(h->count);
        if (a->elements != RS_ELEMENTS_MIXED) {
            /* rs_plan_numbers reads the numbers. An empty list keeps its hash, which must stay the same when the
             * alternative later gets other elements. */
            if (hash != NULL && h->count > 0) {
                *hash = rs_value_set_hash(rs_slice_of(in->ptr, (size_t)(h->numbers_end - in->ptr)));
            }
            in->ptr = h->numbers_end;
            return RS_OK;
        }
    }
    for (uint64_t i = 0; i < h->count; i++) {
        RS_TRY(observe(self, &a->children[list ? 0 : i], in, hash == NULL ? NULL : &part, err));
        if (hash != NULL) *hash = rs_value_set_hash_with(*hash, part);
    }
    if (!list && hash != NULL && h->numbers_end != NULL && h->elements != RS_ELEMENTS_MIXED) {
        *hash = rs_value_set_hash(rs_slice_of(begin, (size_t)(in->ptr - begin))); /* as for a list that is not a row */
    }
    return RS_OK;
}

static rs_status observe_array(rs_alternative *a, rs_slice *in, rs_error *err) {
    rs_array_type type;
    rs_slice shape;
    uint64_t size, outside;
    in->ptr++;
    RS_TRY(rs_array_skip(in, UINT64_MAX, &type, &shape, &size, &outside, err));
    if (a->n == 0) {
        a->shape = shape;
        a->same_shape = true;
    } else if (a->same_shape) {
        a->same_shape = rs_slice_equal(shape, a->shape);
    }
    return RS_OK;
}

/* ---- Dicts as maps ---- */

/* Takes the entries of a dict off `in` as entries of a map. */
static rs_status observe_map(rs_stats *self, rs_alternative *a, uint64_t count, rs_slice *in, uint64_t *hash,
                             rs_error *err) {
    uint64_t part = 0, *above = hash == NULL ? NULL : &part;
    self->scan->next++;
    a->total += count;
    a->counts_bytes += rs_varint_size(count);
    for (uint64_t i = 0; i < 2 * count; i++) {
        RS_TRY(observe(self, &a->children[i % 2], in, above, err));
        if (hash != NULL) *hash = rs_value_set_hash_with(*hash, part);
    }
    return RS_OK;
}

/* Returns whether a map can hold a dict: whether all its keys are plain. */
static bool fits_map(rs_slice in, uint64_t n) {
    size_t dicts = 0;
    for (; n > 0; n--) {
        if (!rs_tag_is_plain_key(*in.ptr)) return false;
        in.ptr = rs_scan_plain_end_unchecked(in);
        in.ptr = rs_scan_end_unchecked(in, &dicts);
    }
    return true;
}

static void swap_counts(rs_stats *self, rs_dict_map *map) {
    uint32_t n_nodes = self->n_nodes, n_structs = self->n_structs, n_key_sets = self->n_key_sets;
    self->n_nodes = map->n_nodes, self->n_structs = map->n_structs, self->n_key_sets = map->n_key_sets;
    map->n_nodes = n_nodes, map->n_structs = n_structs, map->n_key_sets = n_key_sets;
}

/* Also files a dict under the map of the position. `value` begins at its tag. A dict that does not fit ends the map. */
static rs_status file_in_map(rs_stats *self, rs_position *at, rs_slice value, rs_error *err) {
    const uint8_t *begin = value.ptr++;
    uint64_t n = rs_scan_varint_unchecked(&value), hash = n;
    rs_alternative *a = &at->map->as_map;
    if (!fits_map(value, n)) {
        at->maps = RS_MAPS_NEVER;
        at->map = NULL;
        return RS_OK;
    }
    swap_counts(self, at->map);
    rs_status status = observe_map(self, a, n, &value, a->gave_up ? NULL : &hash, err);
    if (status == RS_OK) {
        status = count_value(self, a, rs_slice_of(begin, (size_t)(value.ptr - begin)), &hash, NULL, err);
    }
    swap_counts(self, at->map);
    return status;
}

/* Files an earlier dict in the map. Its key sets are scanned again. */
static rs_status file_again(rs_stats *self, rs_position *at, rs_scan *scan, uint32_t where, rs_error *err) {
    rs_scan *current = self->scan;
    rs_slice value = rs_stats_from(self, where);
    size_t dicts = 0;
    value.end = rs_scan_end_unchecked(value, &dicts);
    rs_scan_reset(scan);
    RS_TRY(rs_scan_record(scan, value, UINT64_MAX, err));
    self->scan = scan;
    rs_status status = file_in_map(self, at, value, err);
    self->scan = current;
    return status;
}

/* Begins the map of a position with all dicts so far. It may use half of the nodes and key sets of a tree. */
static rs_status begin_map(rs_stats *self, rs_position *at, rs_error *err) {
    rs_dict_map *map = (rs_dict_map *)rs_arena_take(&self->arena, sizeof *map);
    rs_scan scan = {0};
    rs_status status = RS_OK;
    if (map == NULL) return rs_no_memory(err);
    map->n_nodes = RS_FMT_TREE_NODES / 2, map->n_structs = RS_FMT_TREE_SHAPES / 2,
    map->n_key_sets = RS_STATS_KEY_SETS / 2;
    map->as_map.kind = RS_FMT_NODE_MAP;
    map->as_map.n_children = 2;
    map->as_map.children = (rs_position *)rs_arena_take(&self->arena, 2 * sizeof(rs_position));
    if (map->as_map.children == NULL) return rs_no_memory(err);
    name_alternative(self, at, &map->as_map);
    at->map = map;
    at->maps = RS_MAPS_BOTH;
    for (uint32_t i = 0; i < at->n_dicts && status == RS_OK && at->map != NULL; i++) {
        status = file_again(self, at, &scan, at->dicts[i], err);
    }
    rs_scan_clear(&scan);
    return status;
}

/* Sets at->maps for the first dict, from the choices and the results of earlier runs. */
static void begin_dicts(const rs_stats *self, rs_position *at) {
    unsigned known = 0;
    if (self->hints != NULL && self->choices->level != RS_LEVEL_SMALL) {
        known = rs_attempts_known(self->hints, at->position_id, self->run);
    }
    at->maps = (known & RS_POSITION_MAP) != 0 ? RS_MAPS_ONLY : RS_MAPS_MAY;
    if ((known & RS_POSITION_NO_MAP) != 0 || !rs_choices_allow(self->choices, RS_FMT_NODE_MAP)) {
        at->maps = RS_MAPS_NEVER;
    }
}

/* Keeps the offset of a dict, to file it again as a map. */
static rs_status add_dict_offset(rs_stats *self, rs_position *at, const uint8_t *begin, rs_error *err) {
    if (at->n_dicts == at->dicts_capacity) {
        uint32_t capacity = at->dicts_capacity == 0 ? 16 : at->dicts_capacity * 2;
        if (capacity > MAX_DICTS || self->kept_bytes > OFFSETS_BYTES) {
            at->maps = RS_MAPS_NEVER;
            return RS_OK;
        }
        uint32_t *grown = (uint32_t *)rs_arena_grow(&self->arena, at->dicts, at->n_dicts, capacity, sizeof *grown);
        if (grown == NULL) return rs_no_memory(err);
        self->kept_bytes += (uint64_t)capacity * 4;
        at->dicts = grown;
        at->dicts_capacity = capacity;
    }
    at->dicts[at->n_dicts++] = (uint32_t)(begin - self->values.base);
    return RS_OK;
}

/* Returns whether the keys of a dict may be data: no struct takes it, or the position has many key sets, and either
 * many structs or one with more than twice as many keys as the dict. */
static bool may_be_map(const rs_position *at, const rs_alternative *a, const rs_stats_head *h) {
    if (a->kind == RS_FMT_NODE_ANY) return true;
    return at->used_slots >= MANY_KEY_SETS && (at->n >= MANY_STRUCTS || a->n_children / 2 > h->n_children);
}

/* Finds the alternative of a dict, and files the dict also under the position's map, if any. `value` begins at its
 * tag. */
static rs_status find_for_dict(rs_stats *self, rs_position *at, rs_slice value, rs_stats_head *h, rs_alternative **out,
                               rs_error *err) {
    size_t next = self->scan->next;
    if (at->maps == RS_MAPS_UNKNOWN) begin_dicts(self, at);
    if (at->maps == RS_MAPS_ONLY && fits_map(h->body, h->count)) {
        h->kind = RS_FMT_NODE_MAP;
        h->n_children = 2;
    }
    RS_TRY(find_alternative(self, at, h, out, err));
    if (at->maps == RS_MAPS_MAY && may_be_map(at, *out, h)) RS_TRY(begin_map(self, at, err));
    if (at->maps == RS_MAPS_MAY) return add_dict_offset(self, at, value.ptr, err);
    if (at->maps != RS_MAPS_BOTH) return RS_OK;
    RS_TRY(file_in_map(self, at, value, err));
    self->scan->next = next;
    if (at->map != NULL && (*out)->kind == RS_FMT_NODE_ANY) {
        size_t dicts = 0;
        at->map->any_dicts++;
        at->map->any_dict_bytes += (uint64_t)(rs_scan_end_unchecked(value, &dicts) - value.ptr);
    }
    return RS_OK;
}

/* ---- Lists as rows ---- */

/* Makes the head of a list that of a row, if the position files lists of this length as rows. */
static void begin_row(const rs_position *at, rs_stats_head *h) {
    if (h->param != 0 || at->row_count == 0 || h->count != at->row_count) return;
    h->kind = RS_FMT_NODE_TUPLE;
    h->n_children = at->row_count;
}

/* Returns whether the offset of the next list, of `count` elements, is needed: for packed numbers or for rows. */
static bool needs_offset(const rs_position *at, const rs_alternative *a, uint64_t count) {
    if (a->elements != RS_ELEMENTS_MIXED) return true;
    return at->n_lists < RS_ROWS_SAMPLE && (a->n == 0 || (count == a->count_min && count == a->count_max));
}

/* Files the lists of the position so far, at the offsets `order`, as rows in place of lists. */
static rs_status file_rows(rs_stats *self, rs_position *at, const uint32_t *order, uint32_t n, uint32_t count,
                           rs_error *err) {
    uint32_t kept = 0;
    at->row_count = (uint8_t)count;
    for (uint32_t i = 0; i < at->n; i++) {
        if (at->alternatives[i].kind == RS_FMT_NODE_CONST) at->alternatives[kept++] = at->alternatives[i];
    }
    at->n = kept;
    at->last = 0;
    for (uint32_t i = 0; i < n; i++) {
        rs_slice in = rs_stats_from(self, order[i]);
        RS_TRY(observe_compound(self, at, &in, NULL, err));
    }
    return RS_OK;
}

/* Decides whether the lists of a position so far become rows. */
static rs_status try_rows(rs_stats *self, rs_position *at, rs_error *err) {
    uint32_t order[RS_ROWS_SAMPLE], count;
    uint32_t n = rs_rows_list(at, order);
    at->n_lists = RS_ROWS_SAMPLE;
    if (n < RS_ROWS_LEAST || !rs_choices_allow(self->choices, RS_FMT_NODE_TUPLE)) return RS_OK;
    rs_slice in = rs_stats_from(self, order[0]);
    in.ptr++;
    count = (uint32_t)rs_scan_varint_unchecked(&in);
    return rs_rows_promise(self, order, n, count, at->in_row) ? file_rows(self, at, order, n, count, err) : RS_OK;
}

static rs_status end_position(rs_stats *self, rs_position *at, rs_error *err) {
    if (at->n_lists > 0 && at->n_lists < RS_ROWS_SAMPLE) RS_TRY(try_rows(self, at, err));
    for (uint32_t i = 0; i < at->n; i++) {
        rs_alternative *a = &at->alternatives[i];
        for (uint32_t k = 0; k < a->n_children; k++) RS_TRY(end_position(self, &a->children[k], err));
    }
    return RS_OK;
}

rs_status rs_stats_end(rs_stats *self, rs_error *err) { return end_position(self, &self->root, err); }

/* ---- Filing any value ---- */

/* Files a container, an array, an ext value or an int beyond 64 bits. */
static rs_status observe_compound(rs_stats *self, rs_position *at, rs_slice *in, uint64_t *above, rs_error *err) {
    const uint8_t *begin = in->ptr;
    rs_alternative *a;
    rs_stats_head h;
    uint64_t own, *hash = NULL;
    read_head(self, *in, &h);
    if (h.kind == RS_FMT_NODE_LIST) begin_row(at, &h);
    if (h.kind == RS_FMT_NODE_STRUCT) RS_TRY(find_for_dict(self, at, *in, &h, &a, err));
    else RS_TRY(find_alternative(self, at, &h, &a, err));
    if (above != NULL || !a->gave_up) hash = &own;
    own = a->kind == RS_FMT_NODE_STRUCT ? h.key_set_hash : h.count;
    if (a->kind == RS_FMT_NODE_LIST && needs_offset(at, a, h.count)) RS_TRY(add_offset(self, a, begin, err));
    switch (a->kind) {
    case RS_FMT_NODE_LIST:
    case RS_FMT_NODE_TUPLE:
        in->ptr = h.body.ptr;
        RS_TRY(observe_elements(self, a, &h, in, hash, err));
        break;
    case RS_FMT_NODE_STRUCT:
        in->ptr = h.body.ptr;
        RS_TRY(observe_struct(self, a, &h, in, hash, err));
        break;
    case RS_FMT_NODE_MAP:
        in->ptr = h.body.ptr;
        RS_TRY(observe_map(self, a, h.count, in, hash, err));
        break;
    case RS_FMT_NODE_EXT:
        in->ptr += 1 + rs_slice_left(&h.descriptor);
        RS_TRY(observe(self, a->children, in, hash, err));
        break;
    default:
        if (a->kind == RS_FMT_NODE_NDARRAY) RS_TRY(observe_array(a, in, err));
        else rs_scan_skip_unchecked(self->scan, in);
        hash = NULL; /* count_value makes it from the bytes */
        break;
    }
    const bool decides =
        a->kind == RS_FMT_NODE_LIST && a->param == 0 && at->n_lists < RS_ROWS_SAMPLE && ++at->n_lists == RS_ROWS_SAMPLE;
    RS_TRY(count_value(self, a, rs_slice_of(begin, (size_t)(in->ptr - begin)), hash, above, err));
    return decides ? try_rows(self, at, err) : RS_OK;
}

static void observe_int(rs_alternative *a, rs_slice *in) {
    int64_t value = rs_any_take_int_unchecked(in);
    if (a->n == 0 || value < a->min) a->min = value;
    if (a->n == 0 || value > a->max) a->max = value;
}

static void observe_units(rs_alternative *a, unsigned shift, rs_slice *in) {
    in->ptr++;
    uint64_t n = rs_scan_varint_unchecked(in);
    a->total += n;
    a->counts_bytes += rs_varint_size(n);
    in->ptr += n << shift;
}

/* Takes one value off `in` and files it under its alternative. Sets *above (may be NULL) to its hash. */
static rs_status observe(rs_stats *self, rs_position *at, rs_slice *in, uint64_t *above, rs_error *err) {
    const uint8_t *begin = in->ptr;
    uint8_t tag = *begin, kind = kind_of_plain(tag);
    rs_alternative *a = at->n > 0 ? &at->alternatives[at->last] : NULL;
    if (kind == RS_FMT_NODE_ANY) return observe_compound(self, at, in, above, err);
    if (a == NULL || a->kind != kind ||
        (kind == RS_FMT_NODE_STR && (tag == RS_FMT_TAG_STR4 || a->elements != tag - RS_FMT_TAG_STR1))) {
        rs_stats_head h;
        read_head(self, *in, &h);
        RS_TRY(find_alternative(self, at, &h, &a, err));
    }
    switch (a->kind) {
    case RS_FMT_NODE_INT:
        RS_TRY(add_offset(self, a, begin, err));
        observe_int(a, in);
        break;
    case RS_FMT_NODE_FLOAT:
        RS_TRY(add_offset(self, a, begin, err));
        in->ptr += 9;
        break;
    case RS_FMT_NODE_STR:
        RS_TRY(add_offset(self, a, begin, err));
        observe_units(a, (unsigned)(tag - RS_FMT_TAG_STR1), in);
        break;
    case RS_FMT_NODE_BYTES: observe_units(a, 0, in); break;
    case RS_FMT_NODE_ANY: rs_scan_skip_unchecked(self->scan, in); break;
    default: in->ptr++; break;
    }
    return count_value(self, a, rs_slice_of(begin, (size_t)(in->ptr - begin)), NULL, above, err);
}

rs_status rs_stats_collect(rs_stats *self, rs_error *err) { return rs_stats_collect_more(self, 0, err); }

rs_status rs_stats_collect_more(rs_stats *self, uint32_t first, rs_error *err) {
    self->scan->next = 0;
    for (uint32_t i = first; i < self->values.n; i++) {
        rs_slice value = rs_values_at(&self->values, i);
        self->raw_bytes += rs_slice_left(&value);
        RS_TRY(observe(self, &self->root, &value, NULL, err));
    }
    return RS_OK;
}
