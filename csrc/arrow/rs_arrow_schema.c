/* rs_arrow_schema.c: reads format strings, names and metadata of an ArrowSchema, and makes nodes of its types.
 * Source of the format strings: the Arrow specification, "The Arrow C data interface", "Data type description". */
#include "arrow/rs_arrow_schema.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rs_hash.h"
#include "base/rs_unicode.h"
#include "format/rs_any.h"
#include "write/rs_any_put.h"

/* The state of one compilation: sources[i] is the schema of node i. */
typedef struct rs_arrow_compiler {
    rs_arrow_schema *out;
    const rs_arrow_options *options;
    const struct ArrowSchema **sources;
    rs_error *err;
} rs_arrow_compiler;

void rs_arrow_schema_clear(rs_arrow_schema *self) {
    for (uint32_t i = 0; i < self->n_zones; i++) rs_zone_clear(&self->zones[i].zone);
    free(self->zones);
    free(self->nodes);
    rs_buffer_clear(&self->names);
    rs_buffer_clear(&self->keys);
    rs_buffer_clear(&self->ids);
    memset(self, 0, sizeof *self);
}

/* ---- Paths ---- */

/* Prepends n bytes to the text that begins at *at in `out`. Returns false if they do not fit. */
static bool prepend(char *out, size_t *at, const char *text, size_t n) {
    if (n > *at) return false;
    *at -= n;
    if (n > 0) memcpy(out + *at, text, n);
    return true;
}

/* Prepends the step from the parent to a node. Returns false if it does not fit. */
static bool prepend_step(const rs_arrow_schema *self, uint32_t node, char *out, size_t *at) {
    const rs_arrow_node *n = &self->nodes[node], *outer = &self->nodes[n->parent];
    switch (outer->kind) {
    case RS_ARROW_STRUCT: {
        const char *name = (const char *)self->names.data + n->name_off;
        size_t size = n->name_size;
        if (outer->is_entries) return true;
        if (size > 40) {
            size = 40;
            while (size > 0 && ((uint8_t)name[size] & 0xC0) == 0x80) size--; /* not within a character */
        }
        return prepend(out, at, name, size) && prepend(out, at, ".", 1);
    }
    case RS_ARROW_LIST:
    case RS_ARROW_LIST_VIEW:
    case RS_ARROW_FIXED_LIST: return prepend(out, at, "[]", 2);
    case RS_ARROW_MAP: return prepend(out, at, "{}", 2);
    default: return true;
    }
}

void rs_arrow_path(const rs_arrow_schema *self, uint32_t node, char out[RS_ARROW_PATH_SIZE]) {
    char text[RS_ARROW_PATH_SIZE - 2];
    size_t at = sizeof text;
    while (self->nodes[node].parent != RS_ARROW_NO_NODE && prepend_step(self, node, text, &at)) {
        node = self->nodes[node].parent;
    }
    out[0] = '$';
    memcpy(out + 1, text + at, sizeof text - at);
    out[1 + sizeof text - at] = '\0';
}

/* Sets an error about the type of a node. */
#define REFUSE(c, node, code, ...) refuse((c), (node), (code), __VA_ARGS__)
RS_COLD static rs_status refuse(rs_arrow_compiler *c, uint32_t node, rs_status code, const char *message,
                                const char *detail) {
    char path[RS_ARROW_PATH_SIZE];
    rs_arrow_path(c->out, node, path);
    return rs_error_set(c->err, code, RS_NOWHERE, "%s: %s%.80s", path, message, detail);
}

/* ---- Format strings ---- */

typedef struct rs_arrow_format {
    const char *text;
    uint8_t kind, width, unit;
} rs_arrow_format;

static const rs_arrow_format FORMATS[] = {
    {"n", RS_ARROW_NULL, 0, 0},
    {"b", RS_ARROW_BOOL, 0, 0},
    {"c", RS_ARROW_INT, 1, 0},
    {"C", RS_ARROW_UINT, 1, 0},
    {"s", RS_ARROW_INT, 2, 0},
    {"S", RS_ARROW_UINT, 2, 0},
    {"i", RS_ARROW_INT, 4, 0},
    {"I", RS_ARROW_UINT, 4, 0},
    {"l", RS_ARROW_INT, 8, 0},
    {"L", RS_ARROW_UINT, 8, 0},
    {"_pli128", RS_ARROW_WIDE, 16, 0},
    {"_plu128", RS_ARROW_WIDE, 16, 0},
    {"e", RS_ARROW_FLOAT, 2, 0},
    {"f", RS_ARROW_FLOAT, 4, 0},
    {"g", RS_ARROW_FLOAT, 8, 0},
    {"z", RS_ARROW_BYTES, 4, 0},
    {"Z", RS_ARROW_BYTES, 8, 0},
    {"vz", RS_ARROW_BYTES_VIEW, 16, 0},
    {"u", RS_ARROW_TEXT, 4, 0},
    {"U", RS_ARROW_TEXT, 8, 0},
    {"vu", RS_ARROW_TEXT_VIEW, 16, 0},
    {"tdD", RS_ARROW_DATE, 4, 0},
    {"tdm", RS_ARROW_DATE, 8, 0},
    {"tts", RS_ARROW_TIME, 4, RS_ARROW_SECONDS},
    {"ttm", RS_ARROW_TIME, 4, RS_ARROW_MILLISECONDS},
    {"ttu", RS_ARROW_TIME, 8, RS_ARROW_MICROSECONDS},
    {"ttn", RS_ARROW_TIME, 8, RS_ARROW_NANOSECONDS},
    {"tDs", RS_ARROW_DURATION, 8, RS_ARROW_SECONDS},
    {"tDm", RS_ARROW_DURATION, 8, RS_ARROW_MILLISECONDS},
    {"tDu", RS_ARROW_DURATION, 8, RS_ARROW_MICROSECONDS},
    {"tDn", RS_ARROW_DURATION, 8, RS_ARROW_NANOSECONDS},
    {"tiM", RS_ARROW_INTERVAL, 4, 0},
    {"tiD", RS_ARROW_INTERVAL, 8, 0},
    {"tin", RS_ARROW_INTERVAL, 16, 0},
    {"+l", RS_ARROW_LIST, 4, 0},
    {"+L", RS_ARROW_LIST, 8, 0},
    {"+vl", RS_ARROW_LIST_VIEW, 4, 0},
    {"+vL", RS_ARROW_LIST_VIEW, 8, 0},
    {"+s", RS_ARROW_STRUCT, 0, 0},
    {"+m", RS_ARROW_MAP, 4, 0},
    {"+r", RS_ARROW_RUN_END, 0, 0},
};

/* The formats that begin with these characters and end with parameters. */
static const rs_arrow_format PREFIXES[] = {
    {"d:", RS_ARROW_DECIMAL, 16, 0},
    {"w:", RS_ARROW_FIXED_BYTES, 0, 0},
    {"tss:", RS_ARROW_TIMESTAMP, 8, RS_ARROW_SECONDS},
    {"tsm:", RS_ARROW_TIMESTAMP, 8, RS_ARROW_MILLISECONDS},
    {"tsu:", RS_ARROW_TIMESTAMP, 8, RS_ARROW_MICROSECONDS},
    {"tsn:", RS_ARROW_TIMESTAMP, 8, RS_ARROW_NANOSECONDS},
    {"+w:", RS_ARROW_FIXED_LIST, 0, 0},
    {"+ud:", RS_ARROW_DENSE_UNION, 1, 0},
    {"+us:", RS_ARROW_SPARSE_UNION, 1, 0},
};

static const rs_arrow_format *find_format(const char *format, const char **rest) {
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++) {
        if (strcmp(format, FORMATS[i].text) == 0) return &FORMATS[i];
    }
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++) {
        const size_t n = strlen(PREFIXES[i].text);
        if (strncmp(format, PREFIXES[i].text, n) == 0) {
            *rest = format + n;
            return &PREFIXES[i];
        }
    }
    return NULL;
}

/* Takes a decimal number of up to 10 digits, with a minus if that is allowed. */
static bool take_number(const char **at, bool may_be_negative, int64_t *out) {
    const char *p = *at;
    const bool negative = may_be_negative && *p == '-';
    int64_t value = 0;
    unsigned n = 0;
    if (negative) p++;
    for (; *p >= '0' && *p <= '9' && n < 10; p++, n++) value = value * 10 + (*p - '0');
    if (n == 0 || (*p >= '0' && *p <= '9')) return false;
    *out = negative ? -value : value;
    *at = p;
    return true;
}

/* "precision,scale" or "precision,scale,bits". */
static bool read_decimal(const char *p, rs_arrow_node *node) {
    int64_t precision, scale, bits = 128;
    if (!take_number(&p, false, &precision) || *p++ != ',' || !take_number(&p, true, &scale)) return false;
    if (*p == ',') {
        p++;
        if (!take_number(&p, false, &bits)) return false;
    }
    if (*p != '\0' || scale < INT32_MIN || scale > INT32_MAX) return false;
    if (bits != 32 && bits != 64 && bits != 128 && bits != 256) return false;
    node->scale = (int32_t)scale;
    node->width = (uint8_t)(bits / 8);
    return true;
}

static bool read_size(const char *p, rs_arrow_node *node) {
    return take_number(&p, false, &node->size) && *p == '\0' && node->size <= INT32_MAX;
}

/* Reads the type ids of a union, and appends their array to `ids`. */
static rs_status read_type_ids(rs_arrow_compiler *c, uint32_t number, const char *p, uint64_t n_children) {
    uint16_t ids[RS_ARROW_UNION_TYPES];
    const char *text = p;
    int64_t id;
    uint64_t n = 0;
    bool ok = true;
    for (size_t i = 0; i < RS_ARROW_UNION_TYPES; i++) ids[i] = RS_ARROW_NO_TYPE;
    while (ok && *p != '\0') {
        ok = (n == 0 || *p++ == ',') && take_number(&p, false, &id) && id < RS_ARROW_UNION_TYPES &&
             ids[id] == RS_ARROW_NO_TYPE;
        if (ok) ids[id] = (uint16_t)n++;
    }
    if (!ok || n != n_children) {
        return REFUSE(c, number, RS_E_IN_BROKEN, "a union does not have one type id for each child: ", text);
    }
    c->out->nodes[number].ids_off = c->out->ids.size_bytes;
    return rs_buffer_append(&c->out->ids, ids, sizeof ids, c->err);
}

/* ---- Zones ---- */

/* Reads an offset in Arrow's notation, such as "+05:30". */
static bool read_offset(const char *p, int32_t *offset_s) {
    if (strlen(p) != 6 || (p[0] != '+' && p[0] != '-') || p[3] != ':') return false;
    for (size_t i = 1; i < 6; i++) {
        if (i != 3 && (p[i] < '0' || p[i] > '9')) return false;
    }
    int32_t hours = (p[1] - '0') * 10 + (p[2] - '0');
    int32_t minutes = (p[4] - '0') * 10 + (p[5] - '0');
    if (hours > 23 || minutes > 59) return false;
    *offset_s = (p[0] == '-' ? -1 : 1) * (hours * 60 + minutes) * 60;
    return true;
}

/* Appends the tz of a datetime to `keys`: a timezone or a zoneinfo. */
static rs_status put_zone_value(rs_arrow_compiler *c, rs_arrow_zone *zone, const char *name) {
    uint8_t head[RS_PUT_EXT_ROOM + RS_PUT_HEAD_ROOM], *p = head;
    rs_buffer *keys = &c->out->keys;
    const size_t n = strlen(name);
    zone->value_off = keys->size_bytes;
    if (zone->is_fixed) {
        p = rs_put_head(rs_put_ext(p, RS_FMT_EXT_TIMEZONE), RS_FMT_TAG_TUPLE, 2);
        p = rs_put_none(rs_put_int(p, (int64_t)zone->offset_s * 1000000));
        RS_TRY(rs_buffer_append(keys, head, (size_t)(p - head), c->err));
    } else {
        p = rs_put_head(rs_put_ext(p, RS_FMT_EXT_ZONEINFO), RS_FMT_TAG_STR1, n);
        RS_TRY(rs_buffer_append(keys, head, (size_t)(p - head), c->err));
        RS_TRY(rs_buffer_append(keys, name, n, c->err));
    }
    zone->value_size = keys->size_bytes - zone->value_off;
    return RS_OK;
}

rs_status rs_arrow_zone_find(rs_arrow_schema *self, uint32_t number, int64_t utc_s, rs_zone_span *out, rs_error *err) {
    rs_arrow_zone *zone = &self->zones[number];
    /* `names` may have moved since the last call. */
    zone->zone.name = rs_slice_of(self->names.data + zone->name_off, zone->name_size);
    return rs_zone_find(&zone->zone, utc_s, self->find_zone, self->context, out, err);
}

static rs_status add_zone(rs_arrow_compiler *c, uint32_t number, const char *name, uint32_t *out) {
    rs_arrow_schema *self = c->out;
    rs_arrow_zone *zone = (rs_arrow_zone *)realloc(self->zones, (self->n_zones + 1) * sizeof *zone);
    rs_zone_span span;
    if (zone == NULL) return rs_no_memory(c->err);
    self->zones = zone;
    zone += self->n_zones;
    memset(zone, 0, sizeof *zone);
    zone->is_fixed = read_offset(name, &zone->offset_s);
    if (!zone->is_fixed &&
        (!rs_unicode_is_ascii((const uint8_t *)name, strlen(name)) || c->options->find_zone == NULL)) {
        return REFUSE(c, number, RS_E_IN_TYPE, "unknown time zone ", name);
    }
    *out = self->n_zones++;
    zone->name_off = self->names.size_bytes;
    zone->name_size = strlen(name);
    RS_TRY(rs_buffer_append(&self->names, name, zone->name_size, c->err));
    RS_TRY(put_zone_value(c, zone, name));
    return zone->is_fixed ? RS_OK : rs_arrow_zone_find(self, *out, 0, &span, c->err);
}

static rs_status set_zone(rs_arrow_compiler *c, uint32_t number, const char *name) {
    rs_arrow_node *node = &c->out->nodes[number];
    if (*name == '\0') return RS_OK;
    for (uint32_t i = 0; i < c->out->n_zones; i++) {
        const rs_arrow_zone *zone = &c->out->zones[i];
        if (zone->name_size == strlen(name) &&
            memcmp(c->out->names.data + zone->name_off, name, zone->name_size) == 0) {
            node->zone = i;
            return RS_OK;
        }
    }
    return add_zone(c, number, name, &node->zone);
}

/* ---- Extension types ---- */

/* Returns whether `metadata` names the extension type `type`. */
static bool is_extension(const char *metadata, const char *type) {
    static const char key[] = "ARROW:extension:name";
    const uint8_t *p = (const uint8_t *)metadata;
    int32_t n, k;
    if (p == NULL) return false;
    for (n = (int32_t)rs_load_u32(p), p += 4; n > 0; n--) {
        k = (int32_t)rs_load_u32(p), p += 4;
        if (k < 0) return false;
        bool is_name = (size_t)k == sizeof key - 1 && memcmp(p, key, sizeof key - 1) == 0;
        p += k;
        k = (int32_t)rs_load_u32(p), p += 4;
        if (k < 0) return false;
        if (is_name) return (size_t)k == strlen(type) && memcmp(p, type, (size_t)k) == 0;
        p += k;
    }
    return false;
}

/* ---- Nodes ---- */

static rs_status read_prefixed(rs_arrow_compiler *c, uint32_t number, const char *rest, uint64_t n_children) {
    rs_arrow_node *node = &c->out->nodes[number];
    bool ok = true;
    switch (node->kind) {
    case RS_ARROW_DECIMAL: ok = read_decimal(rest, node); break;
    case RS_ARROW_FIXED_BYTES:
    case RS_ARROW_FIXED_LIST: ok = read_size(rest, node); break;
    case RS_ARROW_TIMESTAMP: return set_zone(c, number, rest);
    case RS_ARROW_SPARSE_UNION:
    case RS_ARROW_DENSE_UNION: return read_type_ids(c, number, rest, n_children);
    default: break;
    }
    return ok ? RS_OK : REFUSE(c, number, RS_E_IN_BROKEN, "a size in a type is not a number in range: ", rest);
}

/* Reads the type of the indices of a dictionary-encoded array. */
static rs_status read_index_type(rs_arrow_compiler *c, uint32_t number, const rs_arrow_format *format) {
    rs_arrow_node *node = &c->out->nodes[number];
    if (format == NULL || (format->kind != RS_ARROW_INT && format->kind != RS_ARROW_UINT)) {
        return REFUSE(c, number, RS_E_IN_BROKEN, "the indices of a dictionary are not ints", "");
    }
    node->kind = RS_ARROW_DICTIONARY;
    node->width = format->width;
    node->is_signed = format->kind == RS_ARROW_INT;
    return RS_OK;
}

static void read_extension(rs_arrow_node *node, const char *metadata) {
    if (node->kind == RS_ARROW_FIXED_BYTES && node->size == 16 && is_extension(metadata, "arrow.uuid")) {
        node->kind = RS_ARROW_UUID;
    } else if (node->kind == RS_ARROW_INT && node->width == 1 && is_extension(metadata, "arrow.bool8")) {
        node->kind = RS_ARROW_BOOL8;
    }
}

/* Sets the fields of a node that come from its own format string and metadata. */
static rs_status read_type(rs_arrow_compiler *c, uint32_t number) {
    const struct ArrowSchema *schema = c->sources[number];
    rs_arrow_node *node = &c->out->nodes[number];
    const char *rest = "";
    if (schema->release == NULL) return REFUSE(c, number, RS_E_IN_BROKEN, "a released schema", "");
    if (schema->format == NULL) return REFUSE(c, number, RS_E_IN_BROKEN, "a type without a format string", "");
    if (schema->n_children < 0 || schema->n_children > RS_ARROW_NODES) {
        return REFUSE(c, number, RS_E_IN_BROKEN, "the number of children of a type is out of range", "");
    }
    const rs_arrow_format *format = find_format(schema->format, &rest);
    if (schema->dictionary != NULL) return read_index_type(c, number, format);
    if (format == NULL) {
        return REFUSE(c, number, RS_E_IN_TYPE, "this version does not know the Arrow format ", schema->format);
    }
    node->kind = format->kind;
    node->width = format->width;
    node->unit = format->unit;
    node->is_signed = strcmp(format->text, "_plu128") != 0;
    RS_TRY(read_prefixed(c, number, rest, (uint64_t)schema->n_children));
    read_extension(&c->out->nodes[number], schema->metadata);
    return RS_OK;
}

/* Adds a node for `schema`, which is child `source` of `parent`. */
static rs_status add_node(rs_arrow_compiler *c, const struct ArrowSchema *schema, uint32_t parent, uint32_t source) {
    rs_arrow_schema *self = c->out;
    if (schema == NULL) return REFUSE(c, parent, RS_E_IN_BROKEN, "a child of a type is missing", "");
    if (self->n_nodes == RS_ARROW_NODES) return REFUSE(c, parent, RS_E_IN_TYPE, "the table has too many columns", "");
    if (self->n_nodes == self->nodes_capacity) {
        const uint32_t capacity = self->nodes_capacity == 0 ? 16 : self->nodes_capacity * 2;
        rs_arrow_node *nodes = (rs_arrow_node *)realloc(self->nodes, capacity * sizeof *nodes);
        if (nodes == NULL) return rs_no_memory(c->err);
        self->nodes = nodes;
        const struct ArrowSchema **sources =
            (const struct ArrowSchema **)realloc((void *)c->sources, capacity * sizeof *sources);
        if (sources == NULL) return rs_no_memory(c->err);
        c->sources = sources;
        self->nodes_capacity = capacity;
    }
    c->sources[self->n_nodes] = schema;
    rs_arrow_node *node = &self->nodes[self->n_nodes++];
    memset(node, 0, sizeof *node);
    node->parent = parent;
    node->source = source;
    node->zone = RS_ARROW_NO_ZONE;
    if (parent == RS_ARROW_NO_NODE) return RS_OK;
    node->depth = (uint16_t)(self->nodes[parent].depth + 1);
    if (node->depth >= RS_ARROW_DEPTH) {
        return REFUSE(c, parent, RS_E_IN_TYPE, "types are nested more than 200 levels deep", "");
    }
    return RS_OK;
}

/* ---- Names ---- */

/* Sets the name and the key of the last node, a field of a struct. */
static rs_status read_name(rs_arrow_compiler *c) {
    rs_arrow_schema *self = c->out;
    const uint32_t number = self->n_nodes - 1;
    rs_arrow_node *node = &self->nodes[number];
    const char *name = c->sources[number]->name == NULL ? "" : c->sources[number]->name;
    const size_t n = strlen(name);
    uint64_t n_points;
    const unsigned unit = rs_unicode_measure((const uint8_t *)name, n, &n_points);
    node->name_off = self->names.size_bytes;
    node->name_size = n;
    RS_TRY(rs_buffer_append(&self->names, name, n, c->err));
    if (unit == 0) return REFUSE(c, number, RS_E_IN_BROKEN, "the name of a field is not UTF-8", "");
    node->key_off = self->keys.size_bytes;
    RS_TRY(rs_buffer_reserve(&self->keys, RS_PUT_HEAD_ROOM + (size_t)n_points * unit, c->err));
    uint8_t *p = rs_put_head(self->keys.data + node->key_off,
                             unit == 1   ? RS_FMT_TAG_STR1
                             : unit == 2 ? RS_FMT_TAG_STR2
                                         : RS_FMT_TAG_STR4,
                             n_points);
    rs_unicode_widen_unchecked((const uint8_t *)name, n, unit, p);
    p += n_points * unit;
    node->key_size = (size_t)(p - self->keys.data) - node->key_off;
    self->keys.size_bytes = node->key_off + node->key_size;
    return RS_OK;
}

/* Rejects a struct with two fields of one name: its dict would lose one of them. */
static rs_status check_names(rs_arrow_compiler *c, uint32_t parent) {
    const rs_arrow_schema *self = c->out;
    const rs_arrow_node *outer = &self->nodes[parent];
    size_t capacity = 4;
    uint32_t duplicate = 0;
    while (capacity < (size_t)outer->n_children * 2) capacity *= 2;
    uint32_t *slots = (uint32_t *)calloc(capacity, sizeof *slots);
    if (slots == NULL) return rs_no_memory(c->err);
    for (uint32_t i = outer->first_child; duplicate == 0 && i < outer->first_child + outer->n_children; i++) {
        const rs_arrow_node *node = &self->nodes[i];
        const uint8_t *name = self->names.data + node->name_off;
        size_t at = (size_t)rs_hash64(name, node->name_size, 0) & (capacity - 1);
        for (; slots[at] != 0; at = (at + 1) & (capacity - 1)) {
            const rs_arrow_node *other = &self->nodes[slots[at]];
            if (other->name_size == node->name_size &&
                (node->name_size == 0 || memcmp(self->names.data + other->name_off, name, node->name_size) == 0)) {
                duplicate = i;
                break;
            }
        }
        slots[at] = i;
    }
    free(slots);
    if (duplicate == 0) return RS_OK;
    return REFUSE(c, duplicate, RS_E_IN_TYPE, "two fields have this name; rename one of them, or choose other columns",
                  "");
}

/* ---- Children ---- */

static const char *name_of(const struct ArrowSchema *field) {
    return field == NULL || field->name == NULL ? "" : field->name;
}

/* Sets the error for a missing column, which lists as many of the table's columns as fit. */
RS_COLD static rs_status no_column(rs_arrow_compiler *c, const struct ArrowSchema *schema, rs_slice name) {
    char columns[160];
    size_t size = 0;
    columns[0] = '\0';
    for (int64_t k = 0; k < schema->n_children && size < sizeof columns - 1; k++) {
        const int n =
            snprintf(columns + size, sizeof columns - size, "%s'%s'", k == 0 ? "" : ", ", name_of(schema->children[k]));
        size += n < 0 ? 0 : (size_t)n;
    }
    return rs_error_set(c->err, RS_E_ARG_RANGE, RS_NOWHERE, "the table has no column '%.*s'; it has %s",
                        (int)(rs_slice_left(&name) < 60 ? rs_slice_left(&name) : 60), (const char *)name.ptr,
                        schema->n_children == 0 ? "none" : columns);
}

/* The children of a struct by the hashes of their names. A slot has 1 + the index of a child, or 0. Only the first two
 * children of each name have slots. */
typedef struct child_names {
    const struct ArrowSchema *schema;
    int64_t *slots;
    size_t mask;
} child_names;

/* Looks up a name. Sets *n to the count of children with this name, at most 2, and *first to the index of the first, or
 * to n_children if there is none. Returns the free slot for another child of this name if *n is below 2. */
static size_t find_child(const child_names *self, const char *name, size_t size, int64_t *first, unsigned *n) {
    size_t at = (size_t)rs_hash64(name, size, 0) & self->mask;
    *first = self->schema->n_children;
    *n = 0;
    for (; self->slots[at] != 0 && *n < 2; at = (at + 1) & self->mask) {
        const int64_t k = self->slots[at] - 1;
        const char *child_name = name_of(self->schema->children[k]);
        if (strlen(child_name) != size || (size != 0 && memcmp(child_name, name, size) != 0)) continue;
        if ((*n)++ == 0) *first = k;
    }
    return at;
}

static rs_status child_names_open(child_names *self, const struct ArrowSchema *schema, rs_error *err) {
    size_t capacity = 4;
    int64_t first;
    unsigned n;
    while (capacity < (size_t)schema->n_children * 2) capacity *= 2;
    self->schema = schema;
    self->mask = capacity - 1;
    self->slots = (int64_t *)calloc(capacity, sizeof *self->slots);
    if (self->slots == NULL) return rs_no_memory(err);
    for (int64_t k = 0; k < schema->n_children; k++) {
        const char *name = name_of(schema->children[k]);
        size_t at = find_child(self, name, strlen(name), &first, &n);
        if (n < 2) self->slots[at] = k + 1;
    }
    return RS_OK;
}

/* Adds the fields of the outermost struct that the options name. */
static rs_status add_columns_by_name(rs_arrow_compiler *c, const child_names *names) {
    const struct ArrowSchema *schema = names->schema;
    int64_t k;
    unsigned n;
    for (size_t i = 0; i < c->options->n_columns; i++) {
        const rs_slice name = c->options->columns[i];
        (void)find_child(names, (const char *)name.ptr, rs_slice_left(&name), &k, &n);
        if (n == 0) return no_column(c, schema, name);
        if (n > 1) {
            return rs_error_set(c->err, RS_E_ARG_RANGE, RS_NOWHERE,
                                "the table has several columns '%.*s'; rename all of them but one",
                                (int)(rs_slice_left(&name) < 60 ? rs_slice_left(&name) : 60), (const char *)name.ptr);
        }
        RS_TRY(add_node(c, schema->children[k], 0, (uint32_t)k));
        RS_TRY(read_name(c));
    }
    return RS_OK;
}

static rs_status add_columns(rs_arrow_compiler *c, const struct ArrowSchema *schema) {
    child_names names;
    RS_TRY(child_names_open(&names, schema, c->err));
    rs_status status = add_columns_by_name(c, &names);
    free(names.slots);
    return status;
}

static bool has_child_count(const rs_arrow_node *node, int64_t n) {
    switch (node->kind) {
    case RS_ARROW_LIST:
    case RS_ARROW_LIST_VIEW:
    case RS_ARROW_FIXED_LIST:
    case RS_ARROW_MAP: return n == 1;
    case RS_ARROW_RUN_END: return n == 2;
    case RS_ARROW_STRUCT:
    case RS_ARROW_SPARSE_UNION:
    case RS_ARROW_DENSE_UNION: return true;
    default: return n == 0;
    }
}

static rs_status add_children(rs_arrow_compiler *c, uint32_t number) {
    const struct ArrowSchema *schema = c->sources[number];
    const rs_arrow_node node = c->out->nodes[number];
    const uint32_t first = c->out->n_nodes;
    c->out->nodes[number].first_child = first;
    c->out->nodes[number].n_source_children = (uint64_t)schema->n_children;
    if (!has_child_count(&node, schema->n_children)) {
        return REFUSE(c, number, RS_E_IN_BROKEN, "a type has the wrong number of children, with the format ",
                      schema->format);
    }
    if (schema->n_children > 0 && schema->children == NULL) {
        return REFUSE(c, number, RS_E_IN_BROKEN, "the children of a type are missing", "");
    }
    if (node.kind == RS_ARROW_DICTIONARY) {
        RS_TRY(add_node(c, schema->dictionary, number, 0));
    } else if (number == 0 && c->options->columns != NULL) {
        RS_TRY(add_columns(c, schema));
    } else {
        for (int64_t i = 0; i < schema->n_children; i++) {
            RS_TRY(add_node(c, schema->children[i], number, (uint32_t)i));
            if (node.kind == RS_ARROW_STRUCT) RS_TRY(read_name(c));
        }
    }
    c->out->nodes[number].n_children = c->out->n_nodes - first;
    return RS_OK;
}

/* Returns the number of nested containers of a value of the node itself, without its children. */
static unsigned own_levels(const rs_arrow_schema *self, const rs_arrow_node *node) {
    switch (node->kind) {
    case RS_ARROW_LIST:
    case RS_ARROW_LIST_VIEW:
    case RS_ARROW_FIXED_LIST:
    case RS_ARROW_TIME:
    case RS_ARROW_INTERVAL: return 1;
    case RS_ARROW_STRUCT: return node->is_entries ? 0 : 1;
    case RS_ARROW_MAP: return 2; /* a list of tuples */
    case RS_ARROW_TIMESTAMP: return node->zone != RS_ARROW_NO_ZONE && self->zones[node->zone].is_fixed ? 2 : 1;
    default: return 0;
    }
}

/* Sets is_entries and the level of a node from its parent, and checks the level. */
static rs_status set_level(rs_arrow_compiler *c, uint32_t number) {
    rs_arrow_schema *self = c->out;
    rs_arrow_node *node = &self->nodes[number];
    const rs_arrow_node *outer = node->parent == RS_ARROW_NO_NODE ? NULL : &self->nodes[node->parent];
    node->is_entries = outer != NULL && outer->kind == RS_ARROW_MAP;
    node->level = outer == NULL ? 0 : (uint16_t)(outer->level + own_levels(self, outer));
    if (node->level + own_levels(self, node) <= RS_FMT_DEPTH) return RS_OK;
    return REFUSE(c, number, RS_E_IN_TYPE, "types are nested more than 200 levels deep", "");
}

static void set_key_set(rs_arrow_schema *self, rs_arrow_node *node) {
    node->key_set_hash = RS_KEY_SET_SEED;
    for (uint32_t i = node->first_child; i < node->first_child + node->n_children; i++) {
        const rs_arrow_node *field = &self->nodes[i];
        node->key_set_hash = rs_schema_hash_key(node->key_set_hash, self->keys.data + field->key_off, field->key_size);
    }
}

/* Checks the children of a node, which have been read, and sets its level and key set. */
static rs_status check_children(rs_arrow_compiler *c, uint32_t number) {
    const rs_arrow_schema *self = c->out;
    const rs_arrow_node *node = &self->nodes[number], *child = &self->nodes[node->first_child];
    RS_TRY(set_level(c, number));
    if (node->kind == RS_ARROW_MAP && (child->kind != RS_ARROW_STRUCT || child->n_children != 2)) {
        return REFUSE(c, number, RS_E_IN_BROKEN, "the entries of a map are not structs of key and value", "");
    }
    if (node->kind == RS_ARROW_RUN_END && (child->kind != RS_ARROW_INT || child->width == 1)) {
        return REFUSE(c, number, RS_E_IN_BROKEN, "run ends are not ints of 16, 32 or 64 bits", "");
    }
    if (node->kind != RS_ARROW_STRUCT || node->is_entries) return RS_OK;
    set_key_set(c->out, &c->out->nodes[number]);
    return check_names(c, number);
}

static rs_status compile(rs_arrow_compiler *c, const struct ArrowSchema *schema) {
    RS_TRY(add_node(c, schema, RS_ARROW_NO_NODE, 0));
    for (uint32_t i = 0; i < c->out->n_nodes; i++) {
        RS_TRY(read_type(c, i));
        if (i == 0 && c->options->columns != NULL && c->out->nodes[0].kind != RS_ARROW_STRUCT) {
            return rs_error_set(c->err, RS_E_ARG_RANGE, RS_NOWHERE, "columns= is for tables; this is a single column");
        }
        RS_TRY(add_children(c, i));
    }
    for (uint32_t i = 0; i < c->out->n_nodes; i++) RS_TRY(check_children(c, i));
    return RS_OK;
}

rs_status rs_arrow_schema_compile(rs_arrow_schema *self, const struct ArrowSchema *schema,
                                  const rs_arrow_options *options, rs_error *err) {
    rs_arrow_compiler compiler = {self, options, NULL, err};
    self->drop_missing = options->drop_missing;
    self->nanoseconds = options->nanoseconds;
    self->find_zone = options->find_zone;
    self->context = options->context;
    rs_status status =
        rs_buffer_reserve(&self->names, 1, err); /* no offset may be added to NULL, even if all names are empty */
    if (status == RS_OK) status = compile(&compiler, schema);
    free((void *)compiler.sources);
    if (status != RS_OK) rs_arrow_schema_clear(self);
    return status;
}
