/* decode.h: makes Python values from the bytes of a record. This is C because Cython's handling of temporaries made the
 * same code slower. The rare work (exceptions, arrays, classes, preparing a tree) is in codec.pyx, as the codec_
 * functions below.
 *
 * The caller of each function holds the interpreter lock, and no exception is set. A function that returns PyObject *
 * returns a new reference, or NULL with an exception set. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "read/rs_decode.h"
#include "threads.h"

/* The number of slots of a store's cache of dict keys. */
enum { DECODE_KEYS = 512 };

/* The number of values of a long record between two checks for signals, so that Ctrl-C works. */
enum { DECODE_PAUSE = 1 << 20 };
/* The number of pairs of one dict between two such checks. With equal hashes, each pair takes time proportional to the
 * size of the dict. */
enum { DECODE_PAIRS = 256 };

/* The codes of ext values that are deeply immutable, so records may share them. Bit k is code k. */
#define DECODE_IMMUTABLE \
    (UINT64_C(1) << RS_FMT_EXT_COMPLEX | UINT64_C(1) << RS_FMT_EXT_RANGE | UINT64_C(1) << RS_FMT_EXT_ELLIPSIS | \
     UINT64_C(1) << RS_FMT_EXT_DATE | UINT64_C(1) << RS_FMT_EXT_TIMEDELTA | UINT64_C(1) << RS_FMT_EXT_TIMEZONE | \
     UINT64_C(1) << RS_FMT_EXT_ZONEINFO | UINT64_C(1) << RS_FMT_EXT_DECIMAL | UINT64_C(1) << RS_FMT_EXT_FRACTION | \
     UINT64_C(1) << RS_FMT_EXT_UUID | UINT64_C(1) << RS_FMT_EXT_PATH)

/* The state of decoding one record. It is on the caller's stack, for one thread, and borrows everything.
 *
 * Nodes cache Python objects. When rs_tree.program is set, the program owns the objects in the slots of the tree's
 * nodes (rs_node.slot), and the trees of its tables have programs too. The slot holds
 * - for a struct `(keys, template)`, a tuple of the keys and a dict with these keys to copy;
 * - for a const its value, or NULL when each record gets a new one or, for an ext value, before its first use;
 * - for an ndarray its dtype;
 * - for text that is assembled NULL, or any pointer once a str was not ASCII;
 * - for an ext the function that makes the value, NULL before its first use or when it may not be kept.
 * rs_table.slot of a value table is NULL or an array of the decoded entries that this process keeps
 * (codec_keep_entry); an entry that is not kept is NULL. */
typedef struct decode_state {
    rs_cursor cursor;  /* the remaining bytes and budget */
    PyObject *program; /* the Program of the tree */
    PyObject *owner;   /* the Owner of the mapping, for arrays that are views of it; NULL when arrays are copied */
    uint64_t work;     /* the values in containers since the last check for signals; 0 at first */
    PyObject **keys;   /* a cache of DECODE_KEYS dict keys of any values, each a str or NULL; NULL for no cache */
    rs_error err;      /* the error of the last call of the core */
} decode_state;

/* Makes the value of a standalone node at the cursor. */
PyObject *decode_alone(decode_state *self, const rs_node *node);
/* Makes the value of a whole record or entry of a block, which must fill the cursor's bytes. */
PyObject *decode_record(decode_state *self, const rs_block *block);
/* Makes the value at a place of rs_path.h; for `node` NULL, the any value at the cursor. `body` is the body of a fixed
 * node, and is ignored for others. */
PyObject *decode_place(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits);
/* Runs signal handlers. Returns false with an exception set when a handler has raised it. */
bool decode_paused(decode_state *self);
/* Before pair i of a dict, checks for signals from time to time. Returns false as decode_paused does. */
static inline bool decode_goes_on(decode_state *self, uint64_t i) {
    return RS_LIKELY(i % DECODE_PAIRS != DECODE_PAIRS - 1) || decode_paused(self);
}
/* Makes the dict of a map node, whose body is at the cursor. */
PyObject *decode_map(decode_state *self, const rs_node *node);
/* Puts a pair into a dict, and takes over both references. `value` is NULL when it could not be made. Returns 0, or -1
 * with an exception set: CorruptError for a key that cannot be hashed. */
int decode_put(PyObject *dict, PyObject *key, PyObject *value);
/* Returns a dict after n pairs were put into it. When two had the same key, releases the dict, sets CorruptError and
 * returns NULL. */
PyObject *decode_all_put(PyObject *dict, uint64_t n);
/* Makes the any value at the cursor. */
PyObject *decode_any(decode_state *self);
/* Makes a str of n units of 1, 2 or 4 bytes. The str has the narrowest kind that holds them, as the interpreter
 * requires; the stored units may be wider. Sets CorruptError for a unit above 0x10FFFF. */
PyObject *decode_str(const uint8_t *units, uint64_t n, unsigned unit_bytes);

/* ---- Implemented in codec.pyx ---- */

/* Sets the exception for an error of the core and returns -1. */
int codec_raise(rs_error *err);
/* Sets CorruptError and returns -1. */
int codec_corrupt(const char *what);
/* Makes an int of n bytes in two's complement. */
PyObject *codec_bigint(const uint8_t *data, uint64_t n);
/* Makes the array of an any value, after its tag. */
PyObject *codec_any_array(decode_state *self);
/* Makes the value of an ndarray node. When `body` is NULL, the body is at the cursor. */
PyObject *codec_node_array(decode_state *self, const rs_node *node, const uint8_t *body);
/* Returns the function that makes ext values of this code and EXTRA (`size` bytes) from their payloads. Keeps it in
 * *slot, if `slot` is not NULL and the function may be kept. */
PyObject *codec_maker(decode_state *self, uint8_t code, const uint8_t *extra, Py_ssize_t size, void **slot);
/* Keeps the ext value of a const in its slot if it is immutable. Returns 0, or -1 with an exception set. */
int codec_keep_const(decode_state *self, const rs_node *node, PyObject *value);
/* Keeps the immutable value of entry `local` of a table if there is room. Returns 0, or -1 with an exception set. */
int codec_keep_entry(decode_state *self, const rs_table *table, uint32_t local, PyObject *value);
