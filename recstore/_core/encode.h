/* encode.h: writes Python values as any values (the raw records of a builder), and counts values and key sets for the
 * planner on the way. This is C for the reason in decode.h. The rare work (arrays, ext values, large ints, exceptions)
 * is in encode_other, in encode.pyx.
 *
 * The caller of each function holds the interpreter lock, and no exception is set. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/rs_buffer.h"
#include "plan/rs_scan.h"

/* The keys of the dicts written so far, as a prefix tree. A node stands for the keys up to its own and keeps their
 * hash, so most dicts need no hashing of keys. Each place in the records has its own tree, where a dict nearly always
 * has the keys of the previous dict. */
typedef struct encode_key {
    PyObject *key;              /* owned; NULL when the key is not a str, and in the root of a tree */
    struct encode_key *sibling; /* the next child of the same parent */
    struct encode_key *child;   /* the first of its children: prefixes longer by one key */
    struct encode_key *last;    /* the child that was used last; NULL when there is none */
    struct encode_key *below;   /* the root for dicts in the value of this key */
    struct encode_key *older;   /* the node that was made before this node */
    uint64_t hash;              /* of all keys so far, as in rs_scan */
    uint32_t size, n_children;
    uint8_t bytes[]; /* the key as an any value, with padding to copy it in steps of 32 bytes */
} encode_key;

/* Zero it before the first use; call encode_keys_clear at the end. */
typedef struct encode_keys {
    encode_key *top; /* its `below` is the root for dicts in the records */
    encode_key *newest;
    uint32_t n; /* the number of nodes */
} encode_keys;

/* Releases the keys and zeroes the struct. */
void encode_keys_clear(encode_keys *self);

/* The state of writing one value. It borrows everything. */
typedef struct encode_state {
    rs_buffer *raw;
    rs_buffer *arrays;      /* for the bytes of large arrays; NULL when there can be none */
    rs_buffer *array_slots; /* for the array slots of a parcel (csrc/write/rs_parcel.h), or NULL */
    PyObject *writer;       /* a trust.Writer or NULL */
    rs_scan *scan;          /* for the key sets, or NULL */
    encode_keys *keys;      /* NULL without key sets */
    rs_scan_counts counts;  /* `features` stays 0: only arrays and ext values have features */
    /* The number of calls of Python code. Such code, or another thread during a call, may change the containers that
     * are being written. The counts and key sets are right only while this is 0. */
    size_t python;
    size_t within_key;    /* not 0 in a dict key or a set */
    const uint8_t *limit; /* up to this address the buffer has room for a head, a number or a short key */
} encode_state;

/* Appends one value to self->raw. `depth` is the number of further levels of containers. Returns 0, or -1 with an
 * exception set; the buffers and the scan then hold a part of the value. */
int encode_put(encode_state *self, PyObject *value, int depth);

/* ---- Implemented in encode.pyx and codec.pyx ---- */

/* Appends a value that encode.c cannot write; raises for a container that is too deep. May call Python code and
 * encode_put. */
int encode_other(encode_state *self, PyObject *value, int depth);
int codec_raise(rs_error *err);
