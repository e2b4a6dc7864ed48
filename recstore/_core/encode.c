/* encode.c: writes Python values as any values; see encode.h. Each put function takes the address to write to and
 * returns the address after the value, or NULL with an exception set. The end of the buffer thus stays in a register,
 * and its size is stored only before code outside this file runs. */
#include "encode.h"

#include "write/rs_any_put.h"

enum {
    SLACK = 64,        /* room after the limit, for the longest write without a test: a copy of a short key */
    MAX_KEY = 64,      /* the most bytes of a key that is kept */
    MAX_CHILDREN = 8,  /* of a node: keys that are new in each dict are not worth keeping */
    MAX_KEYS = 1 << 14 /* nodes of all trees */
};

#define COLD __attribute__((noinline, cold))
#define HOT static inline __attribute__((always_inline))

static uint8_t *put(encode_state *self, uint8_t *at, PyObject *value, int depth, encode_key *place);

/* ---- Room ---- */

static void set_limit(encode_state *self) { self->limit = self->raw->data + self->raw->capacity_bytes - SLACK; }

/* Reserves `size` bytes and SLACK more. Returns the end of the written bytes, or NULL with an exception set. */
static COLD uint8_t *reserve(encode_state *self, size_t size) {
    rs_error err;
    if (rs_buffer_reserve(self->raw, size + SLACK, &err) != RS_OK) {
        (void)codec_raise(&err);
        return NULL;
    }
    set_limit(self);
    return self->raw->data + self->raw->size_bytes;
}

static COLD uint8_t *grow(encode_state *self, uint8_t *at, size_t size) {
    self->raw->size_bytes = (size_t)(at - self->raw->data);
    return reserve(self, size);
}

/* Makes room for `size` bytes and SLACK more. */
HOT uint8_t *room(encode_state *self, uint8_t *at, size_t size) {
    if (RS_LIKELY(at <= self->limit && size <= (size_t)(self->limit - at))) return at;
    return grow(self, at, size);
}

/* ---- Numbers and texts ---- */

static uint8_t *put_other(encode_state *self, uint8_t *at, PyObject *value, int depth) {
    self->raw->size_bytes = (size_t)(at - self->raw->data);
    Py_INCREF(value);
    int status = encode_other(self, value, depth);
    Py_DECREF(value);
    if (status < 0) return NULL;
    at = self->raw->data + self->raw->size_bytes;
    set_limit(self);
    return at;
}

HOT uint8_t *put_int(encode_state *self, uint8_t *at, PyObject *value) {
    int overflow = 0;
#if PY_VERSION_HEX >= 0x030C0000
    if (RS_LIKELY(PyUnstable_Long_IsCompact((PyLongObject *)value))) {
        return rs_put_int(at, PyUnstable_Long_CompactValue((PyLongObject *)value));
    }
#else
    Py_ssize_t n = Py_SIZE(value);
    if (RS_LIKELY(n >= -1 && n <= 1)) {
        return rs_put_int(at, n == 0 ? 0 : n * (int64_t)((PyLongObject *)value)->ob_digit[0]);
    }
#endif
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0 ? rs_put_int(at, number) : put_other(self, at, value, 1);
}

HOT uint8_t *put_units(encode_state *self, uint8_t *at, uint8_t tag, uint64_t n, const void *units, size_t size) {
    at = room(self, at, size);
    if (RS_UNLIKELY(at == NULL)) return NULL;
    at = rs_put_head(at, tag, n);
    rs_copy_few(at, (const uint8_t *)units, size);
    return at + size;
}

HOT uint8_t *put_str(encode_state *self, uint8_t *at, PyObject *value) {
#if PY_VERSION_HEX < 0x030C0000
    if (RS_UNLIKELY(PyUnicode_READY(value) < 0)) return NULL;
#endif
    unsigned kind = (unsigned)PyUnicode_KIND(value);
    uint64_t n = (uint64_t)PyUnicode_GET_LENGTH(value);
    return put_units(self, at, (uint8_t)(RS_FMT_TAG_STR1 + kind / 2), n, PyUnicode_DATA(value), (size_t)n * kind);
}

/* ---- Keys of dicts ---- */

void encode_keys_clear(encode_keys *self) {
    encode_key *node = self->newest;
    memset(self, 0, sizeof *self);
    while (node != NULL) {
        encode_key *older = node->older;
        Py_XDECREF(node->key);
        PyMem_Free(node);
        node = older;
    }
}

/* Returns a new node; NULL when there are MAX_KEYS, or without memory. */
static COLD encode_key *new_key(encode_keys *self, uint64_t hash, const uint8_t *bytes, size_t size) {
    if (self->n >= MAX_KEYS) return NULL;
    encode_key *node = (encode_key *)PyMem_Calloc(1, sizeof *node + MAX_KEY);
    if (node == NULL) return NULL;
    node->hash = hash;
    node->size = (uint32_t)size;
    if (size > 0) memcpy(node->bytes, bytes, size);
    node->older = self->newest;
    self->newest = node;
    self->n++;
    return node;
}

/* Returns the root for the dicts in the value of `place`, or NULL. */
HOT encode_key *root_below(encode_state *self, encode_key *place) {
    if (place == NULL) return NULL;
    if (RS_UNLIKELY(place->below == NULL)) place->below = new_key(self->keys, RS_KEY_SET_SEED, NULL, 0);
    return place->below;
}

/* Returns the child of `node` for the key of these bytes, perhaps a new one; NULL for a key that is not kept. */
static encode_key *find_key(encode_state *self, encode_key *node, PyObject *key, const uint8_t *bytes, size_t size) {
    for (encode_key *child = node->child; child != NULL; child = child->sibling) {
        if (child->size == size && rs_equal_few(child->bytes, bytes, size)) {
            node->last = child;
            return child;
        }
    }
    if (size > MAX_KEY || node->n_children >= MAX_CHILDREN) return NULL;
    encode_key *child = new_key(self->keys, rs_schema_hash_key(node->hash, bytes, size), bytes, size);
    if (child == NULL) return NULL;
    if (PyUnicode_CheckExact(key)) {
        Py_INCREF(key);
        child->key = key;
    }
    child->sibling = node->child;
    node->child = node->last = child;
    node->n_children++;
    return child;
}

/* Writes a key. Moves *node to the key's node, and adds the key to *hash. */
HOT uint8_t *put_key(encode_state *self, uint8_t *at, PyObject *key, int depth, encode_key **node, uint64_t *hash) {
    encode_key *last = *node == NULL ? NULL : (*node)->last;
    if (RS_LIKELY(last != NULL && last->key == key)) {
        at = room(self, at, 0);
        if (RS_UNLIKELY(at == NULL)) return NULL;
        memcpy(at, last->bytes, 32);
        if (RS_UNLIKELY(last->size > 32)) memcpy(at + 32, last->bytes + 32, 32);
        *node = last;
        *hash = last->hash;
        return at + last->size;
    }
    size_t begin = (size_t)(at - self->raw->data);
    self->within_key++;
    at = put(self, at, key, depth, NULL);
    self->within_key--;
    if (RS_UNLIKELY(at == NULL) || self->scan == NULL) return at;
    const uint8_t *bytes = self->raw->data + begin;
    size_t size = (size_t)(at - bytes);
    if (last != NULL && last->size == size && rs_equal_few(last->bytes, bytes, size)) *node = last;
    else if (*node != NULL) *node = find_key(self, *node, key, bytes, size);
    *hash = *node != NULL ? (*node)->hash : rs_schema_hash_key(*hash, bytes, size);
    return at;
}

/* ---- Containers ---- */

static uint8_t *changed(const char *what) {
    PyErr_Format(PyExc_RuntimeError, "a %s changed while it was being stored", what);
    return NULL;
}

/* Continues a hash over the identity of a dict's keys, in their order. */
HOT size_t with_key(size_t order, PyObject *key) { return (order ^ (size_t)key) * (size_t)UINT64_C(1099511628211); }

#ifdef Py_GIL_DISABLED
#define LOCKED Py_BEGIN_CRITICAL_SECTION
#define UNLOCKED Py_END_CRITICAL_SECTION
#else
#define LOCKED(object)
#define UNLOCKED()
#endif

static size_t order_now(PyObject *dict) {
    Py_ssize_t pos = 0;
    size_t order = 0;
    PyObject *key;
    LOCKED(dict);
    while (PyDict_Next(dict, &pos, &key, NULL)) order = with_key(order, key);
    UNLOCKED();
    return order;
}

/* Counts a container of n elements, and writes its head. */
HOT uint8_t *put_begin(encode_state *self, uint8_t *at, uint8_t tag, uint64_t n, int depth) {
    uint32_t level = (uint32_t)(RS_FMT_DEPTH - depth + 1);
    self->counts.values += n;
    if (level > self->counts.depth) self->counts.depth = level;
    return rs_put_head(at, tag, n);
}

/* Writes the n pairs of `pairs`: `dict` itself or, in a free-threaded interpreter, a copy of it. */
static uint8_t *put_pairs(encode_state *self, uint8_t *at, PyObject *dict, PyObject *pairs, Py_ssize_t n, int depth,
                          encode_key *node, uint64_t *hash) {
    Py_ssize_t pos = 0, seen = 0;
    size_t order = 0, python = self->python;
    PyObject *key, *item;
    while (PyDict_Next(pairs, &pos, &key, &item)) {
        bool runs_code = !PyUnicode_CheckExact(key); /* which might remove key and value from the dict */
        order = with_key(order, key);
        if (RS_UNLIKELY(runs_code)) Py_INCREF(key), Py_INCREF(item);
        at = put_key(self, at, key, depth - 1, &node, hash);
        if (RS_LIKELY(at != NULL)) at = put(self, at, item, depth - 1, node);
        if (RS_UNLIKELY(runs_code)) Py_DECREF(key), Py_DECREF(item);
        if (RS_UNLIKELY(at == NULL)) return NULL;
        seen++;
        if (PyDict_GET_SIZE(dict) != n) break;
    }
    /* If Python code cleared and refilled the dict, a key may have come twice and another never, at the same size. */
    if (seen != n || PyDict_GET_SIZE(dict) != n || (self->python != python && order_now(dict) != order)) {
        return changed("dict");
    }
    return at;
}

static uint8_t *put_dict(encode_state *self, uint8_t *at, PyObject *dict, int depth, encode_key *place) {
    uint64_t hash = RS_KEY_SET_SEED;
    size_t number = 0;
    rs_error err;
    PyObject *pairs = dict;
#ifdef Py_GIL_DISABLED
    pairs = PyDict_Copy(dict);
    if (pairs == NULL) return NULL;
#endif
    Py_ssize_t n = PyDict_GET_SIZE(pairs);
    at = put_begin(self, at, RS_FMT_TAG_DICT, (uint64_t)n, depth);
    if (self->scan != NULL) {
        number = self->scan->n_key_sets;
        if (RS_UNLIKELY(rs_scan_add_key_set(self->scan, hash, &err) != RS_OK)) {
            (void)codec_raise(&err);
            if (pairs != dict) Py_DECREF(pairs);
            return NULL;
        }
    }
    at = put_pairs(self, at, dict, pairs, n, depth, root_below(self, place), &hash);
    if (pairs != dict) Py_DECREF(pairs);
    if (self->scan != NULL) self->scan->key_sets[number] = hash;
    return at;
}

static uint8_t *put_list(encode_state *self, uint8_t *at, PyObject *list, int depth, encode_key *place) {
    Py_ssize_t n = PyList_GET_SIZE(list), i;
    at = put_begin(self, at, RS_FMT_TAG_LIST, (uint64_t)n, depth);
    for (i = 0; i < n && i < PyList_GET_SIZE(list); i++) {
#ifdef Py_GIL_DISABLED /* another thread may remove the item from the list */
        PyObject *item = PyList_GetItemRef(list, i);
        if (item == NULL) {
            PyErr_Clear();
            break;
        }
        at = put(self, at, item, depth - 1, place);
        Py_DECREF(item);
#else
        at = put(self, at, PyList_GET_ITEM(list, i), depth - 1, place);
#endif
        if (RS_UNLIKELY(at == NULL)) return NULL;
    }
    return i == n && PyList_GET_SIZE(list) == n ? at : changed("list");
}

static uint8_t *put_tuple(encode_state *self, uint8_t *at, PyObject *tuple, int depth, encode_key *place) {
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    at = put_begin(self, at, RS_FMT_TAG_TUPLE, (uint64_t)n, depth);
    for (Py_ssize_t i = 0; i < n; i++) {
        at = put(self, at, PyTuple_GET_ITEM(tuple, i), depth - 1, place);
        if (RS_UNLIKELY(at == NULL)) return NULL;
    }
    return at;
}

static uint8_t *put_container(encode_state *self, uint8_t *at, PyObject *value, int depth, encode_key *place) {
    PyTypeObject *type = Py_TYPE(value);
    if (depth == 0 || (type != &PyDict_Type && type != &PyList_Type && type != &PyTuple_Type)) {
        return put_other(self, at, value, depth);
    }
    /* Python code during the call may release the container around this one. */
    Py_INCREF(value);
    if (type == &PyDict_Type) at = put_dict(self, at, value, depth, place);
    else if (type == &PyList_Type) at = put_list(self, at, value, depth, place);
    else at = put_tuple(self, at, value, depth, place);
    Py_DECREF(value);
    return at;
}

/* Writes a value. The keys of its dicts are below `place`, which may be NULL. */
static uint8_t *put(encode_state *self, uint8_t *at, PyObject *value, int depth, encode_key *place) {
    PyTypeObject *type = Py_TYPE(value);
    at = room(self, at, 0);
    if (RS_UNLIKELY(at == NULL)) return NULL;
    if (type == &PyUnicode_Type) return put_str(self, at, value);
    if (type == &PyLong_Type) return put_int(self, at, value);
    if (type == &PyFloat_Type) return rs_put_float(at, PyFloat_AS_DOUBLE(value));
    if (value == Py_None) return rs_put_none(at);
    if (value == Py_True || value == Py_False) return rs_put_bool(at, value == Py_True);
    if (type == &PyBytes_Type) {
        size_t size = (size_t)PyBytes_GET_SIZE(value);
        return put_units(self, at, RS_FMT_TAG_BYTES, size, PyBytes_AS_STRING(value), size);
    }
    return put_container(self, at, value, depth, place);
}

int encode_put(encode_state *self, PyObject *value, int depth) {
    encode_key *place = NULL;
    uint8_t *at = reserve(self, 0); /* an empty buffer may have no memory */
    if (at == NULL) return -1;
    if (self->keys != NULL && self->python == 0) {
        if (self->keys->top == NULL) self->keys->top = new_key(self->keys, 0, NULL, 0);
        place = self->keys->top;
    }
    at = put(self, at, value, depth, place);
    if (at == NULL) return -1;
    self->raw->size_bytes = (size_t)(at - self->raw->data);
    return 0;
}
