/* decode_map.c: makes the dicts of map nodes; see decode.h. All keys of a map come before its values. */
#include "decode.h"

/* The keys of a map, or its values. */
typedef struct map_side {
    const rs_node *child;
    rs_slice group;
    const uint8_t *bodies; /* NULL when the child is not fixed */
    PyObject *all_keys;    /* the tuple of all keys, when their node is not fixed; else NULL */
} map_side;

static PyObject *failed(decode_state *self) {
    (void)codec_raise(&self->err);
    return NULL;
}

/* Releases an incomplete container, and returns NULL. */
static PyObject *dropped(PyObject *out) {
    Py_DECREF(out);
    return NULL;
}

/* Makes key or value i. */
static inline PyObject *side_value(decode_state *self, const map_side *side, uint64_t i) {
    const rs_node *child = side->child;
    if (side->all_keys != NULL) return Py_NewRef(PyTuple_GET_ITEM(side->all_keys, (Py_ssize_t)i));
    return decode_place(self, child, side->bodies == NULL ? NULL : side->bodies + i * child->size_bytes,
                        rs_decode_bits_unchecked(&side->group, i * child->bits, child->bits));
}

/* Makes the tuple of all n keys, whose node is not fixed. */
static PyObject *keys_of(decode_state *self, const map_side *side, uint64_t n) {
    if (n > PY_SSIZE_T_MAX) return PyErr_NoMemory();
    PyObject *out = PyTuple_New((Py_ssize_t)n);
    if (out == NULL) return NULL;
    for (uint64_t i = 0; i < n; i++) {
        PyObject *key = side_value(self, side, i);
        if (RS_UNLIKELY(key == NULL)) return dropped(out);
        PyTuple_SET_ITEM(out, (Py_ssize_t)i, key);
    }
    return out;
}

PyObject *decode_all_put(PyObject *dict, uint64_t n) {
    if (RS_LIKELY((uint64_t)PyDict_GET_SIZE(dict) == n)) return dict;
    (void)codec_corrupt("a dict with a repeated key");
    return dropped(dict);
}

/* Makes the dict of n keys and values. */
static PyObject *dict_of(decode_state *self, const map_side *keys, const map_side *values, uint64_t n) {
    PyObject *out = PyDict_New();
    if (RS_UNLIKELY(out == NULL)) return NULL;
    for (uint64_t i = 0; i < n; i++) {
        PyObject *key = decode_goes_on(self, i) ? side_value(self, keys, i) : NULL;
        if (RS_UNLIKELY(key == NULL)) return dropped(out);
        if (RS_UNLIKELY(decode_put(out, key, side_value(self, values, i)) < 0)) return dropped(out);
    }
    return decode_all_put(out, n);
}

static rs_status take_side(decode_state *self, map_side *side, uint64_t n) {
    return rs_decode_elements(&self->cursor, side->child, n, &side->group, &side->bodies, &self->err);
}

PyObject *decode_map(decode_state *self, const rs_node *node) {
    map_side keys = {node->children, {NULL, NULL}, NULL, NULL}, values = {node->children + 1, {NULL, NULL}, NULL, NULL};
    uint64_t n = 0;
    if (RS_UNLIKELY(rs_decode_map_head(&self->cursor, &n, &self->err) != RS_OK)) return failed(self);
    if (RS_UNLIKELY((self->work += n) >= DECODE_PAUSE && !decode_paused(self))) return NULL;
    if (RS_UNLIKELY(take_side(self, &keys, n) != RS_OK)) return failed(self);
    if (keys.bodies == NULL && (keys.all_keys = keys_of(self, &keys, n)) == NULL) return NULL;
    PyObject *out = RS_LIKELY(take_side(self, &values, n) == RS_OK) ? dict_of(self, &keys, &values, n) : failed(self);
    Py_XDECREF(keys.all_keys);
    rs_decode_leave(&self->cursor);
    return out;
}
