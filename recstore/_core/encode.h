/* encode.h: writes Python values as any values, the raw records of a builder, and counts meanwhile what a scan would
 * find out about them. It is C for the reason that decode.h gives. The rare work (arrays, ext values, large ints,
 * exceptions) is in encode.pyx, as the encode_other function below.
 *
 * The caller of each function holds the interpreter lock, and no exception is set. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/rs_buffer.h"
#include "plan/rs_scan.h"

/* The keys of the dicts that were written so far, as a tree of prefixes. A node stands for the keys from the first one
 * to its own, so that most dicts need no hashing of keys. The dicts at each place in the records have a tree of their
 * own, where the guess that a dict has the keys of the one before is nearly always right. */
typedef struct encode_key {
    PyObject *key;              /* owned; NULL when the key is no str, and in the root of a tree */
    struct encode_key *sibling; /* the next node with the same prefix */
    struct encode_key *child;   /* the first of the longer prefixes */
    struct encode_key *last;    /* the child that was needed last; NULL when there is none */
    struct encode_key *below;   /* the root for dicts within the value of this key */
    struct encode_key *older;   /* the node that was made before this one */
    uint64_t hash;              /* of all keys so far, as rs_scan has it */
    uint32_t size, n_children;
    uint8_t bytes[]; /* the key as an any value, and room to copy it in steps of 32 bytes */
} encode_key;

/* Zero it before the first use; call encode_keys_clear at the end. */
typedef struct encode_keys {
    encode_key *top; /* its `below` is the root for dicts within the records */
    encode_key *newest;
    uint32_t n; /* the number of nodes, which is limited */
} encode_keys;

/* Releases the keys and zeroes the struct. */
void encode_keys_clear(encode_keys *self);

/* The state of writing one value. It borrows everything. */
typedef struct encode_state {
    rs_buffer *raw;
    rs_buffer *arrays;      /* for the bytes of large arrays; NULL when there can be none */
    rs_buffer *array_slots; /* gets the array slots of a parcel (csrc/write/rs_parcel.h), or is NULL */
    PyObject *writer;       /* a trust.Writer or NULL */
    rs_scan *scan;          /* gets the key sets, or is NULL */
    encode_keys *keys;      /* NULL when key sets are not wanted */
    rs_scan_counts counts;  /* without features: arrays and ext values are not counted */
    /* How often Python code was called. Such code, or another thread during it, may change the containers that are
     * being written. The counts and key sets are right only while this is 0. */
    size_t python;
    size_t within_key;    /* not 0 within a dict key or a set */
    const uint8_t *limit; /* up to here the buffer has room for a head, a number or a short key */
} encode_state;

/* Appends one value to self->raw. `depth` is the number of further levels of containers. Returns -1 with an exception
 * set; the buffers and the scan then hold a part of the value. */
int encode_put(encode_state *self, PyObject *value, int depth);

/* ---- Implemented in encode.pyx ---- */

/* Appends a value that is no plain one or too deep. It may call Python code and encode_put. */
int encode_other(encode_state *self, PyObject *value, int depth);
int codec_raise(rs_error *err);
