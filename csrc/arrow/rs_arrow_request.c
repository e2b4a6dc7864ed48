/* rs_arrow_request.c: casts that lose nothing. */
#include "arrow/rs_arrow_request.h"

/* Returns the kind of a format string of bools, numbers, text or bytes; -1 for others. */
static int kind_of(const char *format) {
    static const char letters[] = "bcsilCSIefguzL";
    static const uint8_t kinds[] = {
        RS_ARROW_KIND_BOOL,    RS_ARROW_KIND_INT8,   RS_ARROW_KIND_INT16,  RS_ARROW_KIND_INT32,   RS_ARROW_KIND_INT64,
        RS_ARROW_KIND_UINT8,   RS_ARROW_KIND_UINT16, RS_ARROW_KIND_UINT32, RS_ARROW_KIND_FLOAT16, RS_ARROW_KIND_FLOAT32,
        RS_ARROW_KIND_FLOAT64, RS_ARROW_KIND_TEXT,   RS_ARROW_KIND_BYTES,  RS_ARROW_KIND_UINT64,
    };
    if (strcmp(format, "vu") == 0) return RS_ARROW_KIND_TEXT;
    if (strcmp(format, "vz") == 0) return RS_ARROW_KIND_BYTES;
    if (format[0] == 0 || format[1] != 0) return -1;
    if (format[0] == 'U') return RS_ARROW_KIND_TEXT;
    if (format[0] == 'Z') return RS_ARROW_KIND_BYTES;
    const char *at = strchr(letters, format[0]);
    return at == NULL ? -1 : kinds[at - letters];
}

typedef struct bounds {
    int64_t min;
    uint64_t max; /* 0 if all values are negative */
} bounds;

/* Sets *out to the bounds of an integer kind. Returns false for other kinds. */
static bool kind_bounds(int kind, bounds *out) {
    const int at = kind - RS_ARROW_KIND_INT8;
    if (kind >= RS_ARROW_KIND_INT8 && kind <= RS_ARROW_KIND_INT64) {
        out->max = (uint64_t)INT64_MAX >> (64 - (8 << at));
        out->min = -(int64_t)out->max - 1;
    } else if (kind >= RS_ARROW_KIND_UINT8 && kind <= RS_ARROW_KIND_UINT64) {
        out->max = UINT64_MAX >> (64 - (8 << (kind - RS_ARROW_KIND_UINT8)));
        out->min = 0;
    } else {
        return false;
    }
    return true;
}

/* As kind_bounds, for the field's values, whose bounds may be narrower than those of its kind. */
static bool value_bounds(const rs_arrow_field *self, bounds *out) {
    if (!kind_bounds(self->kind, out)) return false;
    if ((self->seen & RS_ARROW_SEEN_INTS) == RS_ARROW_SEEN_INT) {
        out->min = self->min;
        out->max = self->max < 0 ? 0 : (uint64_t)self->max;
    }
    return true;
}

static bool fits(const rs_arrow_field *self, int kind) {
    bounds values, room;
    if (self->kind == RS_ARROW_KIND_NULL) return true;
    if (self->kind >= RS_ARROW_KIND_FLOAT16 && self->kind <= RS_ARROW_KIND_FLOAT64) {
        return kind >= self->kind && kind <= RS_ARROW_KIND_FLOAT64;
    }
    if (!value_bounds(self, &values)) return false;
    if (kind == RS_ARROW_KIND_FLOAT64) { /* 2^53: all integers up to it are doubles */
        return values.max <= UINT64_C(1) << 53 && values.min >= -(INT64_C(1) << 53);
    }
    return kind_bounds(kind, &room) && values.min >= room.min && values.max <= room.max;
}

static void request_child(rs_arrow_field *child, const struct ArrowSchema *requested) {
    for (int64_t i = 0; i < requested->n_children; i++) {
        const struct ArrowSchema *at = requested->children[i];
        if (at->name != NULL && strcmp(at->name, child->name) == 0) {
            rs_arrow_request(child, at);
            return;
        }
    }
}

void rs_arrow_request_views(rs_arrow_field *self) {
    if (self->layout == RS_ARROW_LAYOUT_BYTES) self->views = true;
    self->zone_minutes = 0;
    if (self->layout == RS_ARROW_LAYOUT_LIST) {
        self->wide = 1;
        rs_arrow_request_views(self->element);
    }
    for (uint32_t i = 0; self->layout == RS_ARROW_LAYOUT_STRUCT && i < self->n_children; i++) {
        rs_arrow_request_views(self->children[i]);
    }
}

void rs_arrow_request(rs_arrow_field *self, const struct ArrowSchema *requested) {
    const char *format = requested->format;
    if (format == NULL) return;
    if (self->kind == RS_ARROW_KIND_STRUCT) {
        for (uint32_t i = 0; strcmp(format, "+s") == 0 && i < self->n_children; i++)
            request_child(self->children[i], requested);
        return;
    }
    if (self->kind == RS_ARROW_KIND_LIST) {
        if (strcmp(format, "+l") != 0 && strcmp(format, "+L") != 0) return;
        self->wide = format[1] == 'L';
        if (requested->n_children == 1) rs_arrow_request(self->element, requested->children[0]);
        return;
    }
    int kind = kind_of(format);
    if (kind < 0) return;
    if (kind != self->kind) {
        if (!fits(self, kind)) return;
        rs_arrow_set_kind(self, (unsigned)kind);
    }
    if (self->layout != RS_ARROW_LAYOUT_BYTES) return;
    self->views = format[0] == 'v';
    self->wide = format[0] == 'U' || format[0] == 'Z';
}
