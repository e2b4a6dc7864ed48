/* decode.h: the hot half of _codec: from the bytes of a record to Python objects, with the Python API, since most of
 * that time is object creation and what Cython adds around each temporary showed in profiles. What is cold (raising,
 * arrays, classes, what a tree needs before its first record) stays in _codec.pyx, as the codec_ functions below.
 *
 * Every function is called with an exception-free thread state and the interpreter lock held. Those that give a
 * PyObject * give a new reference, or NULL with an exception set. */
#ifndef RS_PY_DECODE_H
#define RS_PY_DECODE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "read/rs_decode.h"

/* Entries of a program's cache of dict keys. */
enum { DECODE_KEYS = 512 };

/* Codes of ext values that never change and hold nothing that does: one object of them may stand for many values. */
#define DECODE_IMMUTABLE \
    (UINT64_C(1) << RS_FMT_EXT_COMPLEX | UINT64_C(1) << RS_FMT_EXT_RANGE | UINT64_C(1) << RS_FMT_EXT_ELLIPSIS | \
     UINT64_C(1) << RS_FMT_EXT_DATE | UINT64_C(1) << RS_FMT_EXT_TIMEDELTA | UINT64_C(1) << RS_FMT_EXT_TIMEZONE | \
     UINT64_C(1) << RS_FMT_EXT_ZONEINFO | UINT64_C(1) << RS_FMT_EXT_DECIMAL | UINT64_C(1) << RS_FMT_EXT_FRACTION | \
     UINT64_C(1) << RS_FMT_EXT_UUID | UINT64_C(1) << RS_FMT_EXT_PATH)

/* One decode. On the caller's stack, one thread; borrows everything.
 *
 * Objects of a process stand in the nodes: rs_node.slot of a tree whose rs_tree.program is set holds, borrowed from
 * that program, of a struct `(keys, template)`, a tuple of keys and a dict of them to copy; of a const the value, NULL
 * where it is made afresh; of an ndarray the dtype; of an ext the function that makes the value, NULL until the first.
 * The trees of its tables have their programs too then. rs_table.slot of a table of values is NULL, or an array of the
 * values of its entries that this process keeps (codec_keep_entry), each NULL until the first. */
typedef struct decode_state {
    rs_cursor cursor;   /* what is left of the record, and what it may still cost */
    PyObject *program;  /* the Program that makes what is cold */
    PyObject *owner;    /* the Owner whose bytes large arrays look at; NULL: arrays are copied */
    PyObject **keys;    /* DECODE_KEYS str, each owned or NULL: keys of dicts that no tree describes. NULL: no cache */
    rs_error err;       /* what the core said last */
} decode_state;

/* A node standing alone at the cursor: its bit group, then its body. */
PyObject *decode_alone(decode_state *self, const rs_node *node);
/* A whole record: the root of a tree standing alone, and nothing after it. */
PyObject *decode_record(decode_state *self, const rs_tree *tree);
/* The value at a place as rs_path.h defines it; node NULL: the `any` value at the cursor. `body` has node->size_bytes
 * bytes where the node is fixed, else it is ignored. */
PyObject *decode_place(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits);
/* One `any` value. */
PyObject *decode_any(decode_state *self);
/* n units of 1, 2 or 4 bytes as a str of the narrowest kind that holds them: bytes from outside may lie about that, and
 * comparing a wider one breaks. CorruptError for a unit above 0x10FFFF. */
PyObject *decode_str(const uint8_t *units, uint64_t n, unsigned unit_bytes);

/* ---- Implemented in _codec.pyx ---- */

/* Sets the exception that an error of the core stands for; -1 always. */
int codec_raise(rs_error *err);
/* Sets CorruptError; -1 always. */
int codec_corrupt(const char *what);
/* An int of n bytes, two's complement. */
PyObject *codec_bigint(const uint8_t *data, uint64_t n);
/* An array of an `any` value, after its tag. */
PyObject *codec_any_array(decode_state *self);
/* The value of an ndarray node; body NULL: it is taken from the cursor. */
PyObject *codec_node_array(decode_state *self, const rs_node *node, const uint8_t *body);
/* The function that makes ext values of a head (code and EXTRA) of `size` bytes from their payloads; `slot`, which may
 * be NULL, keeps it where that is allowed. */
PyObject *codec_maker(decode_state *self, uint8_t code, const uint8_t *extra, Py_ssize_t size, void **slot);
/* Keeps the value of a const that is an ext value in its slot if it can never change. -1 with an exception. */
int codec_keep_const(decode_state *self, const rs_node *node, PyObject *value);
/* Keeps the value of entry `local` of a table, where there is still room for it: it can never change. -1 with an
 * exception. */
int codec_keep_entry(decode_state *self, const rs_table *table, uint32_t local, PyObject *value);

#endif
