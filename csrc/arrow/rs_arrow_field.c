/* rs_arrow_field.c: grows the tree of fields, and fixes the types. */
#include "arrow/rs_arrow_field.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- The tree ---- */

static rs_status new_field(rs_arrow_field *parent, const char *name, size_t size, rs_arrow_field **out, rs_error *err) {
    rs_arrow_field *self = (rs_arrow_field *)calloc(1, sizeof *self);
    char *copy = (char *)malloc(size + 1);
    if (self == NULL || copy == NULL) {
        free(self);
        free(copy);
        return rs_no_memory(err);
    }
    if (size != 0) memcpy(copy, name, size);
    copy[size] = 0;
    self->name = copy;
    self->name_size = size;
    self->parent = parent;
    self->depth = parent == NULL ? 0 : parent->depth + 1;
    self->item_levels = parent == NULL ? 0 : parent->item_levels;
    self->utc = parent != NULL && parent->utc;
    self->min = INT64_MAX;
    self->max = INT64_MIN;
    *out = self;
    return RS_OK;
}

rs_status rs_arrow_field_new(rs_arrow_field **out, rs_error *err) { return new_field(NULL, NULL, 0, out, err); }

void rs_arrow_field_free(rs_arrow_field *self) {
    if (self == NULL) return;
    for (uint32_t i = 0; i < self->n_known; i++) rs_arrow_field_free(self->children[i]);
    rs_arrow_field_free(self->element);
    rs_buffer_clear(&self->valid);
    rs_column_clear(&self->numbers);
    rs_buffer_clear(&self->bytes);
    rs_buffer_clear(&self->offsets);
    rs_entries_clear(&self->entries);
    free(self->children);
    free(self->slots);
    free(self->name);
    free(self);
}

static rs_status count_field(rs_arrow_field *self, rs_error *err) {
    while (self->parent != NULL) self = self->parent;
    if (self->n_below++ < RS_ARROW_FIELDS) return RS_OK;
    return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "a table of more than %d fields", (int)RS_ARROW_FIELDS);
}

static bool has_name(const rs_arrow_field *self, const char *name, size_t size) {
    return self->name_size == size && memcmp(self->name, name, size) == 0;
}

/* Returns the slot of a name, or the empty slot where it belongs. */
static uint32_t *slot_of(const rs_arrow_field *self, const char *name, size_t size) {
    const uint32_t mask = 2 * self->children_capacity - 1;
    uint32_t at = 2166136261u;
    for (size_t i = 0; i < size; i++) at = (at ^ (uint8_t)name[i]) * 16777619u;
    for (at ^= at >> 15; self->slots[at & mask] != 0; at++) {
        if (has_name(self->children[self->slots[at & mask] - 1], name, size)) break;
    }
    return &self->slots[at & mask];
}

static void fill_slots(rs_arrow_field *self) {
    memset(self->slots, 0, 2 * (size_t)self->children_capacity * sizeof *self->slots);
    for (uint32_t i = 0; i < self->n_known; i++) {
        *slot_of(self, self->children[i]->name, self->children[i]->name_size) = i + 1;
    }
}

/* Makes room for more children, and twice as many slots. */
static rs_status grow(rs_arrow_field *self, rs_error *err) {
    const uint32_t capacity = self->children_capacity == 0 ? 8 : 2 * self->children_capacity;
    rs_arrow_field **grown = (rs_arrow_field **)realloc(self->children, capacity * sizeof(rs_arrow_field *));
    if (grown == NULL) return rs_no_memory(err);
    self->children = grown;
    uint32_t *slots = (uint32_t *)malloc(2 * (size_t)capacity * sizeof *slots);
    if (slots == NULL) return rs_no_memory(err);
    free(self->slots);
    self->slots = slots;
    self->children_capacity = capacity;
    fill_slots(self);
    return RS_OK;
}

rs_status rs_arrow_field_child(rs_arrow_field *self, const char *name, size_t size, rs_arrow_field **out,
                               rs_error *err) {
    uint32_t at = self->hint + 1 < self->n_known ? self->hint + 1 : 0;
    /* Records mostly have the same keys in the same order. */
    if (self->n_known != 0 && !has_name(self->children[at], name, size)) {
        uint32_t *slot = slot_of(self, name, size);
        at = *slot == 0 ? self->n_known : *slot - 1;
    }
    if (at < self->n_known) {
        self->hint = at;
        *out = self->children[at];
        return RS_OK;
    }
    *out = NULL;
    if (self->closed || self->sealed) return RS_OK;
    if (size > 0 && memchr(name, 0, size) != NULL) {
        return rs_error_set(err, RS_E_ARG_TEXT, RS_NOWHERE, "a key has a NUL, which names of Arrow fields cannot have");
    }
    RS_TRY(count_field(self, err));
    if (self->n_known == self->children_capacity) RS_TRY(grow(self, err));
    RS_TRY(new_field(self, name, size, out, err));
    *slot_of(self, name, size) = self->n_known + 1;
    self->hint = self->n_known;
    self->children[self->n_known++] = *out;
    self->n_children = self->n_known;
    return RS_OK;
}

rs_status rs_arrow_field_named(rs_arrow_field *self, const uint8_t *units, uint64_t n, unsigned unit_bytes,
                               rs_arrow_field **out, rs_error *err) {
    rs_buffer name = {0};
    bool taken;
    if (unit_bytes == 1 && (n == 0 || rs_decode_widest_unchecked(units, n, 1) < 0x80)) {
        return rs_arrow_field_child(self, (const char *)units, (size_t)n, out, err);
    }
    rs_status status = rs_utf8_append(&name, units, n, unit_bytes, &taken, err);
    if (status == RS_OK && !taken) {
        status = rs_error_set(err, RS_E_ARG_TEXT, RS_NOWHERE,
                              "a key has a lone surrogate, but names of Arrow fields are UTF-8");
    }
    if (status == RS_OK) {
        status = rs_arrow_field_child(self, (const char *)name.data, name.size_bytes, out, err);
    }
    rs_buffer_clear(&name);
    return status;
}

rs_status rs_arrow_field_of_key(rs_arrow_field *self, rs_cursor *cursor, bool *is_name, rs_arrow_field **out,
                                rs_error *err) {
    const uint8_t *p;
    uint64_t units;
    *out = NULL;
    if (cursor->in.ptr == cursor->in.end) return RS_FAIL(rs_decode_truncated(err), RS_E_FMT_TRUNCATED);
    uint8_t tag = *cursor->in.ptr;
    *is_name = tag >= RS_FMT_TAG_STR1 && tag <= RS_FMT_TAG_STR4;
    if (!*is_name) return rs_path_any_pass(cursor, err);
    unsigned unit = 1u << (tag - RS_FMT_TAG_STR1);
    cursor->in.ptr++;
    RS_TRY(rs_decode_varint(cursor, &units, err));
    RS_TRY(rs_decode_units(cursor, units, unit, &p, err));
    return rs_arrow_field_named(self, p, units, unit, out, err);
}

rs_status rs_arrow_field_item(rs_arrow_field *self, uint32_t i, rs_arrow_field **out, rs_error *err) {
    char name[16];
    int size = snprintf(name, sizeof name, "%u", i);
    RS_TRY(rs_arrow_field_child(self, name, (size_t)size, out, err));
    if (*out != NULL) (*out)->item_levels = self->item_levels + 1;
    return RS_OK;
}

rs_status rs_arrow_field_element(rs_arrow_field *self, rs_arrow_field **out, rs_error *err) {
    if (self->element == NULL) {
        RS_TRY(count_field(self, err));
        RS_TRY(new_field(self, "item", 4, &self->element, err));
    }
    *out = self->element;
    return RS_OK;
}

static size_t put_path(const rs_arrow_field *self, char *to, size_t size) {
    const bool is_element = self->parent != NULL && self->parent->element == self;
    size_t n = 0;
    if (self->parent == NULL) return 0;
    n = put_path(self->parent, to, size);
    if (n + 1 >= size) return n;
    int more = snprintf(to + n, size - n, "%s%s", is_element ? "[]" : n == 0 ? "" : ".", is_element ? "" : self->name);
    return more < 0 ? n : n + (size_t)more < size ? n + (size_t)more : size - 1;
}

void rs_arrow_field_path(const rs_arrow_field *self, char *to, size_t size) {
    if (put_path(self, to, size) == 0) (void)snprintf(to, size, "$");
}

/* ---- Kinds of values ---- */

void rs_arrow_add_ints(rs_arrow_field *self, int64_t min, int64_t max) {
    rs_arrow_add_kind(self, RS_ARROW_SEEN_INT);
    if (min < self->min) self->min = min;
    if (max > self->max) self->max = max;
}

bool rs_arrow_add_tuple(rs_arrow_field *self, uint64_t n) {
    const bool has_items = n <= RS_ARROW_TUPLE_ITEMS && self->item_levels < RS_ARROW_ITEM_LEVELS;
    uint32_t items = has_items ? (uint32_t)n : UINT32_MAX;
    if ((self->seen & RS_ARROW_SEEN_TUPLE) != 0 && self->n_items != items) items = UINT32_MAX;
    self->n_items = items;
    rs_arrow_add_kind(self, RS_ARROW_SEEN_TUPLE);
    return has_items;
}

void rs_arrow_add_other(rs_arrow_field *self, unsigned code) {
    self->others |= UINT64_C(1) << (code & 63);
    rs_arrow_add_kind(self, RS_ARROW_SEEN_OTHER);
}

void rs_arrow_add_zone(rs_arrow_field *self, int32_t minutes, const char *name) {
    if (self->zone_known && (self->zone_minutes != minutes || strcmp(self->zone_name, name) != 0)) {
        minutes = 0;
        name = "";
    }
    self->zone_known = true;
    self->zone_minutes = minutes;
    (void)snprintf(self->zone_name, sizeof self->zone_name, "%s", name);
}

void rs_arrow_clear_kinds(rs_arrow_field *self) {
    self->seen = self->n_items = self->scale = self->digits = 0;
    self->min = INT64_MAX;
    self->max = INT64_MIN;
    self->others = 0;
    self->unit = 0;
    self->zone_known = self->present = self->dropped = false;
    self->alias = NULL;
    self->problem = RS_ARROW_PROBLEM_NONE;
    self->n_children = self->n_known;
    for (uint32_t i = 0; i < self->n_known; i++) rs_arrow_clear_kinds(self->children[i]);
    if (self->element != NULL) rs_arrow_clear_kinds(self->element);
}

/* ---- Types ---- */

/* Adds the kinds of values at `from` and its descendants to `self`, and makes `from` an alias. */
static rs_status merge(rs_arrow_field *self, rs_arrow_field *from, rs_error *err) {
    rs_arrow_field *to;
    if ((from->seen & RS_ARROW_SEEN_TUPLE) != 0) {
        const uint32_t items = from->n_items;
        if ((self->seen & RS_ARROW_SEEN_TUPLE) == 0) self->n_items = items;
        else if (self->n_items != items) self->n_items = UINT32_MAX;
    }
    self->seen |= from->seen;
    self->present |= from->present;
    if (from->min < self->min) self->min = from->min;
    if (from->max > self->max) self->max = from->max;
    if (from->scale > self->scale) self->scale = from->scale;
    if (from->digits > self->digits) self->digits = from->digits;
    self->others |= from->others;
    if (from->unit != 0) self->unit = self->unit == 0 || self->unit == from->unit ? from->unit : 1;
    if (from->zone_known) rs_arrow_add_zone(self, from->zone_minutes, from->zone_name);
    from->alias = self;
    for (uint32_t i = 0; i < from->n_known; i++) {
        RS_TRY(rs_arrow_field_child(self, from->children[i]->name, from->children[i]->name_size, &to, err));
        RS_TRY(merge(to, from->children[i], err));
    }
    if (from->element == NULL) return RS_OK;
    RS_TRY(rs_arrow_field_element(self, &to, err));
    return merge(to, from->element, err);
}

void rs_arrow_set_kind(rs_arrow_field *self, unsigned kind) {
#define RS_ARROW_LAYOUT(name, format, width, layout) RS_ARROW_LAYOUT_##layout,
    static const uint8_t layouts[] = {RS_ARROW_KINDS(RS_ARROW_LAYOUT)};
    self->kind = (uint8_t)kind;
    self->layout = layouts[kind];
}

static void resolve_numbers(rs_arrow_field *self, uint32_t seen) {
    const uint32_t ints = seen & RS_ARROW_SEEN_INTS;
    const uint32_t negatives =
        RS_ARROW_SEEN_INT8 | RS_ARROW_SEEN_INT16 | RS_ARROW_SEEN_INT32 | (self->min < 0 ? RS_ARROW_SEEN_INT : 0);
    if (seen == RS_ARROW_SEEN_FLOAT16) rs_arrow_set_kind(self, RS_ARROW_KIND_FLOAT16);
    else if ((seen & ~(uint32_t)(RS_ARROW_SEEN_FLOAT16 | RS_ARROW_SEEN_FLOAT32)) == 0) {
        rs_arrow_set_kind(self, RS_ARROW_KIND_FLOAT32);
    } else if ((seen & RS_ARROW_SEEN_FLOATS) != 0) rs_arrow_set_kind(self, RS_ARROW_KIND_FLOAT64);
    else if ((ints & RS_ARROW_SEEN_UINT) != 0) {
        if ((ints & negatives) != 0) self->problem = RS_ARROW_PROBLEM_BIGINT;
        rs_arrow_set_kind(self, RS_ARROW_KIND_UINT64);
    } else if ((ints & RS_ARROW_SEEN_INT) != 0) rs_arrow_set_kind(self, RS_ARROW_KIND_INT64);
    else if (ints == RS_ARROW_SEEN_UINT8) rs_arrow_set_kind(self, RS_ARROW_KIND_UINT8);
    else if ((ints & ~(uint32_t)(RS_ARROW_SEEN_UINT8 | RS_ARROW_SEEN_UINT16)) == 0) {
        rs_arrow_set_kind(self, RS_ARROW_KIND_UINT16);
    } else if ((ints & (RS_ARROW_SEEN_INT8 | RS_ARROW_SEEN_INT16 | RS_ARROW_SEEN_INT32)) == 0) {
        rs_arrow_set_kind(self, RS_ARROW_KIND_UINT32);
    } else if ((ints & RS_ARROW_SEEN_UINT32) != 0) rs_arrow_set_kind(self, RS_ARROW_KIND_INT64);
    else if ((ints & (RS_ARROW_SEEN_INT32 | RS_ARROW_SEEN_UINT16)) != 0) rs_arrow_set_kind(self, RS_ARROW_KIND_INT32);
    else if (ints == RS_ARROW_SEEN_INT8) rs_arrow_set_kind(self, RS_ARROW_KIND_INT8);
    else rs_arrow_set_kind(self, RS_ARROW_KIND_INT16);
}

static void resolve_times(rs_arrow_field *self, uint32_t seen) {
    if (seen == RS_ARROW_SEEN_DURATION || seen == RS_ARROW_SEEN_NAIVE || seen == RS_ARROW_SEEN_AWARE) self->unit = 'u';
    if (self->unit == 1) self->problem = RS_ARROW_PROBLEM_MIXED;
    if (seen == RS_ARROW_SEEN_DURATION || seen == RS_ARROW_SEEN_TIMEDELTA64)
        rs_arrow_set_kind(self, RS_ARROW_KIND_DURATION);
    else if (seen == RS_ARROW_SEEN_DATETIME64 && self->unit == 'D') rs_arrow_set_kind(self, RS_ARROW_KIND_DATE);
    else rs_arrow_set_kind(self, RS_ARROW_KIND_TIMESTAMP);
}

/* Sets the type of a field of scalars. */
static void resolve_scalars(rs_arrow_field *self, uint32_t seen) {
    const uint32_t numbers = RS_ARROW_SEEN_INTS | RS_ARROW_SEEN_FLOATS;
    self->problem = RS_ARROW_PROBLEM_NONE;
    if ((seen & numbers) != 0 && (seen & ~numbers) == 0) {
        resolve_numbers(self, seen);
        return;
    }
    switch (seen) {
    case 0: rs_arrow_set_kind(self, RS_ARROW_KIND_NULL); return;
    case RS_ARROW_SEEN_BOOL: rs_arrow_set_kind(self, RS_ARROW_KIND_BOOL); return;
    case RS_ARROW_SEEN_TEXT: rs_arrow_set_kind(self, RS_ARROW_KIND_TEXT); return;
    case RS_ARROW_SEEN_BYTES: rs_arrow_set_kind(self, RS_ARROW_KIND_BYTES); return;
    case RS_ARROW_SEEN_DATE: rs_arrow_set_kind(self, RS_ARROW_KIND_DATE); return;
    case RS_ARROW_SEEN_TIME: rs_arrow_set_kind(self, RS_ARROW_KIND_TIME); return;
    case RS_ARROW_SEEN_UUID: rs_arrow_set_kind(self, RS_ARROW_KIND_UUID); return;
    case RS_ARROW_SEEN_DECIMAL:
        rs_arrow_set_kind(self, RS_ARROW_KIND_DECIMAL);
        if (self->digits + self->scale > RS_ARROW_DIGITS) self->problem = RS_ARROW_PROBLEM_DIGITS;
        self->wide = self->digits + self->scale <= 38 ? 16 : 32;
        return;
    case RS_ARROW_SEEN_NAIVE:
    case RS_ARROW_SEEN_AWARE:
    case RS_ARROW_SEEN_DURATION:
    case RS_ARROW_SEEN_DATETIME64:
    case RS_ARROW_SEEN_TIMEDELTA64: resolve_times(self, seen); return;
    default: break;
    }
    rs_arrow_set_kind(self, RS_ARROW_KIND_NULL);
    self->problem = RS_ARROW_PROBLEM_MIXED;
    if ((seen & (seen - 1)) == 0 || (seen & ~(numbers | RS_ARROW_SEEN_BIGINT)) == 0) {
        if ((seen & RS_ARROW_SEEN_BIGINT) != 0) self->problem = RS_ARROW_PROBLEM_BIGINT;
        if (seen == RS_ARROW_SEEN_OTHER) self->problem = RS_ARROW_PROBLEM_OTHER;
    }
}

static rs_status resolve(rs_arrow_field *self, bool *whole, rs_error *err);

/* Sets the types of the children. Dropped ones come last. */
static rs_status resolve_children(rs_arrow_field *self, bool *whole, rs_error *err) {
    uint32_t n = 0;
    if (self->n_known == 0) return RS_OK;
    rs_arrow_field **sorted = (rs_arrow_field **)malloc(self->n_known * sizeof *sorted);
    if (sorted == NULL) return rs_no_memory(err);
    for (uint32_t i = 0; i < self->n_known; i++) {
        if (self->children[i]->present) sorted[n++] = self->children[i];
    }
    self->n_children = n;
    for (uint32_t i = 0; i < self->n_known; i++) {
        self->children[i]->dropped = !self->children[i]->present;
        if (self->children[i]->dropped) sorted[n++] = self->children[i];
    }
    memcpy(self->children, sorted, self->n_known * sizeof *sorted);
    free(sorted);
    fill_slots(self);
    self->hint = 0;
    for (uint32_t i = 0; i < self->n_children; i++) RS_TRY(resolve(self->children[i], whole, err));
    return RS_OK;
}

static rs_status resolve_list(rs_arrow_field *self, bool *whole, rs_error *err) {
    rs_arrow_field *element;
    RS_TRY(rs_arrow_field_element(self, &element, err));
    element->dropped = false;
    rs_arrow_set_kind(self, RS_ARROW_KIND_LIST);
    return resolve(element, whole, err);
}

static rs_status merge_items(rs_arrow_field *self, rs_error *err) {
    rs_arrow_field *element;
    RS_TRY(rs_arrow_field_element(self, &element, err));
    for (uint32_t i = 0; i < self->n_known; i++) RS_TRY(merge(element, self->children[i], err));
    return RS_OK;
}

/* Returns whether the items of tuples are all numbers, all text or the like: then the tuples become lists. */
static bool items_alike(const rs_arrow_field *self) {
    const uint32_t numbers = RS_ARROW_SEEN_INTS | RS_ARROW_SEEN_FLOATS;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < self->n_known; i++) seen |= self->children[i]->seen;
    seen &= ~(uint32_t)RS_ARROW_SEEN_NULL;
    if ((seen & ~numbers) == 0 || (seen & (seen - 1)) == 0) return true;
    return (seen & ~(uint32_t)(RS_ARROW_SEEN_LIST | RS_ARROW_SEEN_TUPLE)) == 0;
}

static rs_status resolve(rs_arrow_field *self, bool *whole, rs_error *err) {
    const uint32_t seen = self->seen & ~(uint32_t)RS_ARROW_SEEN_NULL;
    rs_status status = RS_OK;
    self->problem = RS_ARROW_PROBLEM_NONE;
    if (self->depth > RS_ARROW_FIELD_DEPTH) {
        rs_arrow_set_kind(self, RS_ARROW_KIND_NULL);
        self->problem = RS_ARROW_PROBLEM_DEPTH;
    } else if (seen == RS_ARROW_SEEN_STRUCT) {
        rs_arrow_set_kind(self, RS_ARROW_KIND_STRUCT);
        status = resolve_children(self, whole, err);
    } else if (seen == RS_ARROW_SEEN_TUPLE && self->n_items != UINT32_MAX && (self->rows || !items_alike(self))) {
        rs_arrow_set_kind(self, RS_ARROW_KIND_STRUCT);
        status = resolve_children(self, whole, err);
    } else if (seen != 0 && (seen & ~(uint32_t)(RS_ARROW_SEEN_LIST | RS_ARROW_SEEN_TUPLE)) == 0) {
        if ((seen & RS_ARROW_SEEN_TUPLE) != 0) RS_TRY(merge_items(self, err));
        status = resolve_list(self, whole, err);
    } else {
        resolve_scalars(self, seen);
        if ((seen & RS_ARROW_SEEN_ODD_KEY) != 0 &&
            (seen & ~(uint32_t)(RS_ARROW_SEEN_ODD_KEY | RS_ARROW_SEEN_STRUCT)) == 0) {
            self->problem = RS_ARROW_PROBLEM_KEY;
        }
    }
    if (self->problem != RS_ARROW_PROBLEM_NONE) *whole = false;
    return status;
}

rs_status rs_arrow_resolve(rs_arrow_field *root, bool *whole, rs_error *err) {
    *whole = true;
    return resolve(root, whole, err);
}

void rs_arrow_seal(rs_arrow_field *self) {
    self->sealed = true;
    for (uint32_t i = 0; i < self->n_known; i++) rs_arrow_seal(self->children[i]);
    if (self->element != NULL) rs_arrow_seal(self->element);
}
