/* rs_arrow_make.h: Arrow schemas and arrays made by hand, good and broken. Buffers have their exact size, for the
 * sanitizer. Everything lives until arrow_drop. Include from one file only. */
#pragma once

#include "arrow/rs_arrow.h"
#include "rs_make.h"

enum { ARROW_MAX_ALLOCATIONS = 5000, ARROW_CHILDREN = 4, ARROW_BUFFERS = 6 };

/* A type with its array, and how often each was released. */
typedef struct arrow_made {
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct ArrowSchema *schema_children[ARROW_CHILDREN];
    struct ArrowArray *array_children[ARROW_CHILDREN];
    const void *buffers[ARROW_BUFFERS];
    unsigned schemas_released, arrays_released;
} arrow_made;

static struct {
    void *memory[ARROW_MAX_ALLOCATIONS];
    size_t n;
} arrow_allocations;

static inline void *arrow_keep(void *memory) {
    if (memory == NULL || arrow_allocations.n == ARROW_MAX_ALLOCATIONS) abort();
    return arrow_allocations.memory[arrow_allocations.n++] = memory;
}

/* Frees all types and arrays. */
static inline void arrow_drop(void) {
    while (arrow_allocations.n > 0) free(arrow_allocations.memory[--arrow_allocations.n]);
}

static inline void arrow_release_schema(struct ArrowSchema *self) {
    ((arrow_made *)self->private_data)->schemas_released++;
    self->release = NULL;
}

static inline void arrow_release_array(struct ArrowArray *self) {
    ((arrow_made *)self->private_data)->arrays_released++;
    self->release = NULL;
}

/* An array of `length` values with n_buffers buffers, all NULL so far, and no nulls. */
static inline arrow_made *arrow_make(const char *format, const char *name, int64_t length, int64_t n_buffers) {
    arrow_made *m = (arrow_made *)arrow_keep(calloc(1, sizeof *m));
    m->schema.format = format;
    m->schema.name = name;
    m->schema.children = m->schema_children;
    m->schema.release = arrow_release_schema;
    m->schema.private_data = m;
    m->array.length = length;
    m->array.n_buffers = n_buffers;
    m->array.buffers = m->buffers;
    m->array.children = m->array_children;
    m->array.release = arrow_release_array;
    m->array.private_data = m;
    return m;
}

static inline arrow_made *arrow_set(arrow_made *m, unsigned buffer, const void *bytes, size_t size) {
    m->buffers[buffer] = arrow_keep(make_exact(bytes, size));
    return m;
}

static inline arrow_made *arrow_add(arrow_made *parent, arrow_made *child) {
    parent->schema_children[parent->schema.n_children++] = &child->schema;
    parent->array_children[parent->array.n_children++] = &child->array;
    return parent;
}

static inline arrow_made *arrow_set_dictionary(arrow_made *m, arrow_made *entries) {
    m->schema.dictionary = &entries->schema;
    m->array.dictionary = &entries->array;
    return m;
}

/* i32 numbers without nulls. */
static inline arrow_made *arrow_ints(const char *name, const int32_t *values, int64_t n) {
    return arrow_set(arrow_make("i", name, n, 2), 1, values, (size_t)n * sizeof *values);
}

/* Text or another type with i32 offsets and data. */
static inline arrow_made *arrow_texts(const char *format, const char *name, const int32_t *offsets, int64_t n,
                                      const char *data) {
    arrow_made *m = arrow_make(format, name, n, 3);
    return arrow_set(arrow_set(m, 1, offsets, (size_t)(n + 1) * sizeof *offsets), 2, data, strlen(data));
}
