/* rs_arrow.h: the three structs of the Arrow C data interface and C stream interface, through which libraries of one
 * process exchange tables. Source: the Arrow specification, its pages on the two interfaces. The structs are an ABI:
 * their fields never change, and the guards below come from the specification, so a program may get the structs from
 * several headers.
 *
 * Lifetime. The producer fills a struct in the consumer's memory. A struct is live while its `release` is not NULL.
 * The consumer calls `release` of a live struct exactly once. That call frees everything that the struct refers to and
 * sets `release` to NULL; the consumer keeps the memory of the struct itself. Children and `dictionary` belong to their
 * parent and are released with it. To move a live struct, copy its bytes and set the source's `release` to NULL. An
 * array does not need its schema or its stream to be live.
 *
 * Threads. The specification does not allow two threads to use one struct at the same time. `release` and the functions
 * of a stream may be called on a thread other than the producer's, one call at a time. */
#pragma once

#include "base/rs_base.h"

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1 /* of a dictionary type: the order of the entries has a meaning */
#define ARROW_FLAG_NULLABLE 2           /* the field may hold nulls */
#define ARROW_FLAG_MAP_KEYS_SORTED 4    /* of a map type: the keys of each value are sorted */

/* The type of an array, and its name as a field. */
struct ArrowSchema {
    const char *format;   /* never NULL: the type, as a string of the specification, such as "+l" or "tsu:UTC" */
    const char *name;     /* UTF-8; NULL means "" */
    const char *metadata; /* NULL for none; else i32 count, then for each pair i32 size, bytes, i32 size, bytes */
    int64_t flags;        /* ARROW_FLAG_*, added up */
    int64_t n_children;
    struct ArrowSchema **children;  /* n_children pointers, none NULL; may be NULL when n_children is 0 */
    struct ArrowSchema *dictionary; /* the type of the entries; NULL when the type is not dictionary-encoded */
    void (*release)(struct ArrowSchema *);
    void *private_data; /* the producer's */
};

/* The values of an array. The struct gives no sizes of its buffers. */
struct ArrowArray {
    int64_t length;
    int64_t null_count; /* -1: not counted yet */
    int64_t offset;     /* number of values to skip before the first */
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers; /* n_buffers pointers; a validity bitmap may be NULL if no value is null */
    struct ArrowArray **children;
    struct ArrowArray *dictionary; /* the entries; NULL exactly when the schema's dictionary is NULL */
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

/* A sequence of arrays of one type. */
struct ArrowArrayStream {
    /* Fills *out with the type. Returns 0, or an errno code with nothing to release in *out. */
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    /* Fills *out with the next array, or with a released one at the end of the stream. Errors as above. */
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    /* Returns the message of the previous call, which failed: UTF-8, valid until the next call; or NULL. */
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#endif

/* Each releases a live struct and does nothing for a released one. NULL is not allowed. */
static inline void rs_arrow_schema_release(struct ArrowSchema *self) {
    if (self->release != NULL) self->release(self);
}

static inline void rs_arrow_array_release(struct ArrowArray *self) {
    if (self->release != NULL) self->release(self);
}

static inline void rs_arrow_stream_release(struct ArrowArrayStream *self) {
    if (self->release != NULL) self->release(self);
}

/* Each moves a struct from `from` to `to`. `from` is then released; the old bytes of `to` are ignored. */
static inline void rs_arrow_schema_move(struct ArrowSchema *from, struct ArrowSchema *to) {
    *to = *from;
    from->release = NULL;
}

static inline void rs_arrow_array_move(struct ArrowArray *from, struct ArrowArray *to) {
    *to = *from;
    from->release = NULL;
}

static inline void rs_arrow_stream_move(struct ArrowArrayStream *from, struct ArrowArrayStream *to) {
    *to = *from;
    from->release = NULL;
}
