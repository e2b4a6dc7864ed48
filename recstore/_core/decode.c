/* decode.c: makes Python values from bytes; see decode.h. There are functions for any values, for fixed nodes (whose
 * body is checked and at a known address), for appended nodes (whose body is at the cursor), for rows, lists, texts and
 * entries of tables. Error paths are out of line. The checks have the same order as in rs_check.c, which walks the same
 * bytes without making values. */
#include "decode_str.h"

#include "read/rs_text.h"

/* Makes an int from an int64_t. A long has 64 bits on Linux and macOS. */
#if SIZEOF_LONG == 8
#define NEW_INT(value) PyLong_FromLong((long)(value))
#else
#define NEW_INT(value) PyLong_FromLongLong(value)
#endif

/* Returns NULL from the calling function, with an exception set, when a step of the core fails. */
#define TRY(call) \
    do { \
        if (RS_UNLIKELY((call) != RS_OK)) return failed(self); \
    } while (0)

COLD bool decode_paused(decode_state *self) {
    self->work = 0;
    return PyErr_CheckSignals() == 0;
}

/* Counts the n values of an entered container. Returns NULL from the calling function, with an exception set, when a
 * signal handler has raised it. */
#define COUNT(n) \
    do { \
        if (RS_UNLIKELY((self->work += (n)) >= DECODE_PAUSE && !decode_paused(self))) return NULL; \
    } while (0)

static COLD PyObject *failed(decode_state *self) {
    (void)codec_raise(&self->err);
    return NULL;
}

static COLD PyObject *corrupt(const char *what) {
    (void)codec_corrupt(what);
    return NULL;
}

/* Releases an incomplete container, and returns NULL. */
static COLD PyObject *dropped(PyObject *out) {
    Py_DECREF(out);
    return NULL;
}

static PyObject *container_value(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits);
static PyObject *appended_value(decode_state *self, const rs_node *node, uint64_t bits);
static PyObject *list_value(decode_state *self, const rs_node *node, const uint8_t *body);
static PyObject *dict_value(decode_state *self, const rs_node *node, uint64_t i);

/* ---- Texts ---- */

PyObject *decode_str(const uint8_t *units, uint64_t n, unsigned unit_bytes) {
    return RS_LIKELY(unit_bytes == 1) ? latin1_str(units, n) : wide_str(units, n, unit_bytes);
}

/* Makes a str that the core assembles, of any length and width. */
static APART PyObject *long_text_value(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits) {
    rs_text text;
    PyObject *out = NULL;
    rs_text_begin(&text);
    if (RS_LIKELY(rs_text_take(&text, &self->cursor, node, body, bits, &self->err) == RS_OK)) {
        out = decode_str(text.units, text.n_units, text.unit_bytes);
    } else {
        (void)codec_raise(&self->err);
    }
    rs_text_clear(&text);
    return out;
}

/* Makes a str that the core assembles from digits or parts. Most are short. */
static APART PyObject *text_value(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits) {
    uint8_t units[RS_TEXT_INLINE + RS_TEXT_SLACK];
    int n = rs_text_short(&self->cursor, node, body, bits, units);
    if (RS_UNLIKELY(n < 0)) return long_text_value(self, node, body, bits);
    TRY(rs_decode_spend_bytes(&self->cursor, (uint64_t)n, &self->err));
    return assembled_str(node, units, (uint64_t)n);
}

/* Makes the str of an alphabet or hex node, which is ASCII, in its place. */
static APART PyObject *letters_value(decode_state *self, const rs_node *node, const uint8_t *body) {
    uint64_t n = node->count;
    uint8_t one[1];
    if (!node->fixed) TRY(rs_decode_letters(&self->cursor, node, &n, &body, &self->err));
    const uint64_t length = rs_alphabet_length(node, n);
    TRY(rs_decode_spend_bytes(&self->cursor, length, &self->err));
    if (RS_UNLIKELY(length < 2)) { /* Python shares these */
        rs_alphabet_put_unchecked(node, body, n, one);
        return latin1_str(one, length);
    }
    PyObject *out = PyUnicode_New((Py_ssize_t)length, 127);
    if (RS_LIKELY(out != NULL)) rs_alphabet_put_unchecked(node, body, n, PyUnicode_1BYTE_DATA(out));
    return out;
}

/* Makes the str of a symbols node. A short str is decoded on the stack, without measuring it first. */
static APART PyObject *symbols_value(decode_state *self, const rs_node *node) {
    enum { SHORT = 128 };
    uint8_t units[SHORT * RS_SYMBOLS_COPY + RS_SYMBOLS_SLACK];
    unsigned unit_bytes = node->symbols->unit_bytes;
    rs_slice before = self->cursor.in;
    const uint8_t *codes;
    uint64_t n, size;
    TRY(rs_decode_counted(&self->cursor, node, &n, &codes, &self->err));
    if (RS_UNLIKELY(n > SHORT)) {
        self->cursor.in = before;
        return long_text_value(self, node, NULL, 0);
    }
    TRY(rs_symbols_decode(node->symbols, rs_slice_of(codes, (size_t)n), units, sizeof units, &size, &self->err));
    n = size >>= unit_bytes - 1;
    if (node->param == RS_FMT_SYMBOLS_PAIRS) TRY(rs_utf16_count(units, size, &n, &self->err));
    TRY(rs_decode_spend_bytes(&self->cursor, n, &self->err));
    if (n != size) return pairs_str(units, n);
    return unit_bytes == 1 ? assembled_str(node, units, n) : wide_str(units, n, unit_bytes);
}

/* ---- any values ---- */

/* Returns a dict key of n units of 1 byte, if possible from the cache. A new key replaces the key in its slot. */
static PyObject *cached_key(PyObject **keys, const uint8_t *units, uint64_t n) {
    uint64_t first = n >= 8 ? rs_load_u64(units) : rs_load_few_unchecked(units, n);
    uint64_t last = n >= 8 ? rs_load_u64(units + n - 8) : 0;
    /* Multiplicative hashing (Knuth, The Art of Computer Programming, volume 3, 6.4) of both ends of the key. */
    uint64_t mixed = (first ^ (last << 7 | last >> 57) ^ n << 3) * UINT64_C(0x9E3779B97F4A7C15);
    PyObject **entry = &keys[mixed >> 55];
    PyObject *key = *entry;
    if (key != NULL && (uint64_t)PyUnicode_GET_LENGTH(key) == n && memcmp(PyUnicode_DATA(key), units, (size_t)n) == 0) {
        Py_INCREF(key);
        return key;
    }
    key = latin1_str(units, n);
    if (key == NULL) return NULL;
    Py_XDECREF(*entry);
    Py_INCREF(key);
    *entry = key;
    return key;
}

/* Makes a key of an any dict. */
HOT PyObject *any_key(decode_state *self) {
    enum { LONGEST = 64 };
    const rs_slice *in = &self->cursor.in;
    if (self->keys != NULL && rs_slice_left(in) >= 2 && in->ptr[0] == RS_FMT_TAG_STR1) {
        uint64_t n = in->ptr[1];
        if (n >= 2 && n <= LONGEST && n <= rs_slice_left(in) - 2) {
            const uint8_t *units = in->ptr + 2;
            self->cursor.in.ptr = units + n;
            return cached_key(self->keys, units, n);
        }
    }
    return decode_any(self);
}

/* Returns false with an exception set, CorruptError for a key that cannot be hashed. Hashing a numpy date raises
 * ValueError if it has no unit, and OverflowError in some units if it is far from 1970. */
static bool is_key(PyObject *key) {
    if (RS_LIKELY(PyUnicode_CheckExact(key)) || PyObject_Hash(key) != -1) return true;
    if (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_ValueError) ||
        PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear(); /* codec_corrupt must not be called with an exception set */
        (void)codec_corrupt("a dict key that cannot be hashed");
    }
    return false;
}

int decode_put(PyObject *dict, PyObject *key, PyObject *value) {
    int set = value != NULL && is_key(key) ? PyDict_SetItem(dict, key, value) : -1;
    Py_DECREF(key);
    Py_XDECREF(value);
    return set;
}

static PyObject *any_dict(decode_state *self) {
    uint64_t n;
    TRY(rs_decode_varint(&self->cursor, &n, &self->err));
    TRY(rs_decode_enter(&self->cursor, n, &self->err));
    COUNT(n);
    PyObject *out = PyDict_New();
    if (RS_UNLIKELY(out == NULL)) return NULL;
    for (uint64_t i = 0; i < n; i++) {
        PyObject *key = decode_goes_on(self, i) ? any_key(self) : NULL;
        if (RS_UNLIKELY(key == NULL)) return dropped(out);
        if (RS_UNLIKELY(decode_put(out, key, decode_any(self)) < 0)) return dropped(out);
    }
    rs_decode_leave(&self->cursor);
    return decode_all_put(out, n);
}

HOT PyObject *new_sequence(uint64_t n, bool is_list) {
    if (RS_UNLIKELY(n > PY_SSIZE_T_MAX)) return PyErr_NoMemory();
    return is_list ? PyList_New((Py_ssize_t)n) : PyTuple_New((Py_ssize_t)n);
}

/* Sets item i, and takes over its reference. Reads the list's array again each time, because Python code that finds
 * the list through the garbage collector may have changed it. */
HOT void put_item(PyObject *out, bool is_list, uint64_t i, PyObject *item) {
    if (is_list) {
        PyList_SET_ITEM(out, (Py_ssize_t)i, item);
    } else {
        PyTuple_SET_ITEM(out, (Py_ssize_t)i, item);
    }
}

static PyObject *any_sequence(decode_state *self, bool is_list) {
    rs_slice *in = &self->cursor.in;
    uint64_t n;
    TRY(rs_decode_varint(&self->cursor, &n, &self->err));
    if (RS_UNLIKELY(n > rs_slice_left(in))) return corrupt("a container has more elements than bytes");
    TRY(rs_decode_enter(&self->cursor, n, &self->err));
    COUNT(n);
    PyObject *out = new_sequence(n, is_list);
    if (RS_UNLIKELY(out == NULL)) return NULL;
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *p = in->ptr;
        size_t left = rs_slice_left(in);
        PyObject *item;
        /* Most long lists are lists of numbers. */
        if (left > 8 && *p == RS_FMT_TAG_FLOAT) {
            in->ptr = p + 9;
            item = PyFloat_FromDouble(rs_load_f64(p + 1));
        } else if (left > 0 && rs_tag_is_small(*p)) {
            in->ptr = p + 1;
            item = PyLong_FromLong((long)rs_tag_small_value(*p));
        } else {
            item = decode_any(self);
        }
        if (RS_UNLIKELY(item == NULL)) return dropped(out);
        put_item(out, is_list, i, item);
    }
    rs_decode_leave(&self->cursor);
    return out;
}

/* Calls `make` with the payload of an ext value, and takes over the reference to the payload, which may be NULL. */
static PyObject *call_maker(PyObject *make, PyObject *payload) {
    if (payload == NULL) return NULL;
    PyObject *value = PyObject_CallOneArg(make, payload);
    Py_DECREF(payload);
    return value;
}

static PyObject *any_ext(decode_state *self) {
    rs_slice head;
    TRY(rs_any_ext_head(&self->cursor.in, &head, &self->err));
    PyObject *make = codec_maker(self, head.ptr[0], head.ptr + 1, head.end - head.ptr - 1, NULL);
    if (make == NULL) return NULL;
    PyObject *value = call_maker(make, decode_any(self));
    Py_DECREF(make);
    return value;
}

static COLD PyObject *unknown_tag(decode_state *self, uint8_t tag) {
    (void)rs_error_set(&self->err, RS_E_FMT_VERSION, RS_NOWHERE, "this reader does not know tag 0x%02x", tag);
    return failed(self);
}

static PyObject *any_counted(decode_state *self, uint8_t tag) {
    const uint8_t *p;
    uint64_t n;
    TRY(rs_decode_varint(&self->cursor, &n, &self->err));
    TRY(rs_decode_take(&self->cursor, n, &p, &self->err));
    return tag == RS_FMT_TAG_BYTES ? PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)n) : codec_bigint(p, n);
}

PyObject *decode_any(decode_state *self) {
    const uint8_t *p;
    uint64_t n;
    unsigned size;
    PyObject *out;
    TRY(rs_decode_take(&self->cursor, 1, &p, &self->err));
    uint8_t tag = *p;
    if (rs_tag_is_small(tag)) return PyLong_FromLong((long)rs_tag_small_value(tag));
    switch (tag) {
    case RS_FMT_TAG_STR1:
    case RS_FMT_TAG_STR2:
    case RS_FMT_TAG_STR4:
        size = 1u << (tag - RS_FMT_TAG_STR1);
        TRY(rs_decode_varint(&self->cursor, &n, &self->err));
        TRY(rs_decode_units(&self->cursor, n, size, &p, &self->err));
        return decode_str(p, n, size);
    case RS_FMT_TAG_FLOAT:
        TRY(rs_decode_take(&self->cursor, 8, &p, &self->err));
        return PyFloat_FromDouble(rs_load_f64(p));
    case RS_FMT_TAG_INT8:
    case RS_FMT_TAG_INT16:
    case RS_FMT_TAG_INT32:
    case RS_FMT_TAG_INT64:
        size = rs_tag_int_size(tag);
        TRY(rs_decode_take(&self->cursor, size, &p, &self->err));
        return NEW_INT(rs_load_int_unchecked(p, size));
    case RS_FMT_TAG_NONE:
    case RS_FMT_TAG_FALSE:
    case RS_FMT_TAG_TRUE:
        out = tag == RS_FMT_TAG_NONE ? Py_None : tag == RS_FMT_TAG_TRUE ? Py_True : Py_False;
        Py_INCREF(out);
        return out;
    case RS_FMT_TAG_LIST: return any_sequence(self, true);
    case RS_FMT_TAG_TUPLE: return any_sequence(self, false);
    case RS_FMT_TAG_DICT: return any_dict(self);
    case RS_FMT_TAG_BYTES:
    case RS_FMT_TAG_BIGINT: return any_counted(self, tag);
    case RS_FMT_TAG_NDARRAY: return codec_any_array(self);
    case RS_FMT_TAG_EXT: return any_ext(self);
    default: return unknown_tag(self, tag);
    }
}

/* ---- Fixed nodes ---- */

/* Makes the value of a const without a cached value. Mutable values are made again each time, so that each record
 * belongs to its caller. NaNs are too, because they differ by identity. */
static PyObject *expand_const(decode_state *self, const rs_node *node) {
    rs_slice rest = self->cursor.in;
    if (node->aux[0] != RS_FMT_TAG_NDARRAY && node->aux[0] != RS_FMT_TAG_FLOAT) {
        TRY(rs_decode_spend_bytes(&self->cursor, node->aux_size_bytes, &self->err));
    }
    self->cursor.in = rs_slice_of(node->aux, node->aux_size_bytes);
    PyObject *value = decode_any(self);
    self->cursor.in = rest;
    if (value != NULL && node->aux[0] == RS_FMT_TAG_EXT && codec_keep_const(self, node, value) < 0) {
        return dropped(value);
    }
    return value;
}

/* Makes the value of a fixed node. Its body is at `body` and in bounds. */
HOT PyObject *fixed_value(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits) {
    PyObject *out;
    switch (node->kind) {
    case RS_FMT_NODE_FLOAT: return PyFloat_FromDouble(rs_load_f64(body));
    case RS_FMT_NODE_INT: return NEW_INT(rs_decode_int_unchecked(node, body, bits));
    case RS_FMT_NODE_CONST:
        out = (PyObject *)pointer_at(&node->slot);
        if (RS_UNLIKELY(out == NULL)) return expand_const(self, node);
        Py_INCREF(out);
        return out;
    case RS_FMT_NODE_BOOL: return Py_NewRef(bits ? Py_True : Py_False);
    case RS_FMT_NODE_DECIMAL: return PyFloat_FromDouble(rs_decode_decimal_unchecked(node, body, bits));
    case RS_FMT_NODE_DICT_CODED: return dict_value(self, node, bits);
    default: return container_value(self, node, body, bits);
    }
}

/* Makes the ints or floats of a list or tuple. Runs no Python code, so the array of items does not move. Returns false
 * with MemoryError set if memory runs out. */
static bool put_numbers(PyObject **items, const rs_node *child, uint64_t n, const rs_slice *group,
                        const uint8_t *bodies) {
    uint64_t i, base = child->base;
#define PUT_ALL(make) \
    do { \
        for (i = 0; i < n; i++) { \
            if (RS_UNLIKELY((items[i] = (make)) == NULL)) return false; \
        } \
        return true; \
    } while (0)
    if (child->kind == RS_FMT_NODE_FLOAT) PUT_ALL(PyFloat_FromDouble(rs_load_f64(bodies + 8 * i)));
    if (child->kind == RS_FMT_NODE_DECIMAL) {
        PUT_ALL(PyFloat_FromDouble(rs_decode_decimal_unchecked(
            child, bodies + i * child->size_bytes, rs_decode_bits_unchecked(group, i * child->bits, child->bits))));
    }
    switch (child->size_bytes) {
    case 0: PUT_ALL(NEW_INT((int64_t)(base + rs_decode_bits_unchecked(group, i * child->bits, child->bits))));
    case 1: PUT_ALL(NEW_INT((int64_t)(base + bodies[i])));
    case 2: PUT_ALL(NEW_INT((int64_t)(base + rs_load_u16(bodies + 2 * i))));
    case 4: PUT_ALL(NEW_INT((int64_t)(base + rs_load_u32(bodies + 4 * i))));
    default: PUT_ALL(NEW_INT((int64_t)(base + rs_load_u64(bodies + 8 * i))));
    }
#undef PUT_ALL
}

/* Makes a list or tuple of n elements with a fixed node. */
static PyObject *fixed_elements(decode_state *self, const rs_node *node, uint64_t n, const rs_slice *group,
                                const uint8_t *bodies) {
    const rs_node *child = node->children;
    bool is_list = node->param == 0;
    PyObject *out = new_sequence(n, is_list);
    if (RS_UNLIKELY(out == NULL)) return NULL;
    if (child->kind == RS_FMT_NODE_FLOAT || child->kind == RS_FMT_NODE_INT || child->kind == RS_FMT_NODE_DECIMAL) {
        PyObject **items = is_list ? ((PyListObject *)out)->ob_item : ((PyTupleObject *)out)->ob_item;
        return RS_LIKELY(put_numbers(items, child, n, group, bodies)) ? out : dropped(out);
    }
    for (uint64_t i = 0; i < n; i++) {
        PyObject *item = fixed_value(self, child, bodies + i * child->size_bytes,
                                     rs_decode_bits_unchecked(group, i * child->bits, child->bits));
        if (RS_UNLIKELY(item == NULL)) return dropped(out);
        put_item(out, is_list, i, item);
    }
    return out;
}

/* ---- Rows ---- */

HOT PyObject *child_value(decode_state *self, const rs_node *child, const uint8_t *head, const rs_slice *group) {
    uint64_t bits = child->bits != 0 ? rs_decode_bits_unchecked(group, child->bit_off, child->bits) : 0;
    return child->fixed ? fixed_value(self, child, head + child->body_off, bits) : appended_value(self, child, bits);
}

/* What a struct does not set: keys that it lacks, and None where the dict has it already. */
enum { SKIP_LACKING = 1, SKIP_NONE = 2 };

/* Sets the values of `out` except those to skip, and returns it. */
HOT PyObject *filled_struct(decode_state *self, const rs_node *node, const uint8_t *head, const rs_slice *group,
                            PyObject *out, unsigned skips) {
    const rs_node *child = node->children;
    PyObject *keys = PyTuple_GET_ITEM((PyObject *)node->slot, 0);
    if (RS_UNLIKELY(out == NULL)) return NULL;
    for (uint32_t i = 0; i < node->n_children; i++, child++) {
        if (skips != 0 && rs_decode_is_absent(child, group) && (skips >> child->param & 1) != 0) continue;
        PyObject *item = child_value(self, child, head, group);
        if (RS_UNLIKELY(item == NULL)) return dropped(out);
        int set = PyDict_SetItem(out, PyTuple_GET_ITEM(keys, i), item);
        Py_DECREF(item);
        if (RS_UNLIKELY(set < 0)) return dropped(out);
    }
    rs_decode_leave(&self->cursor);
    return out;
}

/* Makes the value of a struct with n of the keys: in a new dict or, when few keys are absent, in a copy of the template
 * without them, because a new dict would grow. */
static PyObject *partial_value(decode_state *self, const rs_node *node, const uint8_t *head, const rs_slice *group,
                               uint32_t n) {
    const uint32_t n_absent = node->n_children - n;
    const bool copies = !FREE_THREADED && n > 5 && n_absent * 4 <= node->n_children;
    PyObject *keys = PyTuple_GET_ITEM((PyObject *)node->slot, 0);
    TRY(rs_decode_enter(&self->cursor, n, &self->err));
    COUNT(n);
    PyObject *out = copies ? PyDict_Copy(PyTuple_GET_ITEM((PyObject *)node->slot, 1)) : PyDict_New();
    for (uint32_t i = 0; copies && n_absent != 0 && out != NULL && i < node->n_children; i++) {
        const rs_node *child = &node->children[i];
        if (!rs_decode_lacks_key(child, group)) continue;
        if (PyDict_DelItem(out, PyTuple_GET_ITEM(keys, i)) < 0) return dropped(out);
    }
    return filled_struct(self, node, head, group, out, (n_absent != 0 ? SKIP_LACKING : 0) | (copies ? SKIP_NONE : 0));
}

/* Makes the value of a struct with a rare group. Its large stack frame would slow down every other struct. */
static APART PyObject *rare_value(decode_state *self, const rs_node *node, const uint8_t *head) {
    rs_rare_group room;
    rs_slice group = rs_slice_of(head, node->group_bytes);
    TRY(rs_decode_rare(&self->cursor, node, &group, &room, &self->err));
    return partial_value(self, node, head, &group, rs_decode_row_count(node, &group));
}

/* Makes the value of a struct. The bodies of its children that are not fixed are at the cursor. */
static PyObject *struct_value(decode_state *self, const rs_node *node, const uint8_t *head, uint64_t bits) {
    uint8_t room[RS_CHILDREN_BITS_ROOM];
    const rs_slice group = rs_decode_children_bits(node, head, bits, room);
    if (RS_UNLIKELY(node->rare_bytes != 0)) return rare_value(self, node, head);
    if (RS_UNLIKELY(node->partial)) {
        uint32_t n = rs_decode_row_count(node, &group);
        if (n != node->n_children) return partial_value(self, node, head, &group, n);
    }
    TRY(rs_decode_enter(&self->cursor, node->n_children, &self->err));
    COUNT(node->n_children);
    /* A new dict grows with its sixth key, a copy of the template does not. For fewer keys a new dict is faster:
     * replacing a value takes longer than adding a key. Without the GIL, a copy would lock the template. */
    PyObject *out = !FREE_THREADED && node->n_children > 5 ? PyDict_Copy(PyTuple_GET_ITEM((PyObject *)node->slot, 1))
                                                           : PyDict_New();
    return filled_struct(self, node, head, &group, out, 0);
}

/* Makes the value of a tuple node, which is a tuple or a list. */
static PyObject *tuple_value(decode_state *self, const rs_node *node, const uint8_t *head, uint64_t bits) {
    const rs_node *child = node->children;
    uint8_t room[RS_CHILDREN_BITS_ROOM];
    const rs_slice group = rs_decode_children_bits(node, head, bits, room);
    const uint64_t n = node->n_children;
    bool is_list = node->param == 0;
    TRY(rs_decode_enter(&self->cursor, n, &self->err));
    COUNT(n);
    PyObject *out = new_sequence(n, is_list);
    if (RS_UNLIKELY(out == NULL)) return NULL;
    for (uint64_t i = 0; i < n; i++, child++) {
        PyObject *item = child_value(self, child, head, &group);
        if (RS_UNLIKELY(item == NULL)) return dropped(out);
        put_item(out, is_list, i, item);
    }
    rs_decode_leave(&self->cursor);
    return out;
}

/* Makes the value of a line from the byte where it begins, and the byte where the next record of the block begins, if
 * there is one: the line ends before it, so one read is enough. */
static APART PyObject *line_value(decode_state *self, PyObject *make, const rs_node *rising, const uint8_t *body) {
    PyObject *bytes[2] = {fixed_value(self, rising, body, 0), NULL}, *value = NULL;
    size_t n = self->cursor.local + 1 < self->cursor.placed[rising->placed].n_records ? 2 : 1;
    if (n == 2 && bytes[0] != NULL) {
        self->cursor.local++;
        bytes[1] = fixed_value(self, rising, body, 0);
        self->cursor.local--;
    }
    if (bytes[n - 1] != NULL) value = PyObject_Vectorcall(make, bytes, n, NULL);
    Py_XDECREF(bytes[0]);
    Py_XDECREF(bytes[1]);
    return value;
}

/* Makes the value of an ext node from the value of its child. `body` is NULL when the node is not fixed. */
static PyObject *node_ext(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits) {
    PyObject *make = (PyObject *)pointer_at(&node->slot);
    if (make != NULL) {
        Py_INCREF(make);
    } else {
        make = codec_maker(self, node->param, node->aux, node->aux_size_bytes, (void **)&((rs_node *)node)->slot);
        if (make == NULL) return NULL;
    }
    PyObject *value;
    if (node->param == RS_FMT_EXT_LINE && node->children->kind == RS_FMT_NODE_RISING) {
        value = line_value(self, make, node->children, body);
    } else {
        value = call_maker(make, body != NULL ? fixed_value(self, node->children, body, bits)
                                              : appended_value(self, node->children, bits));
    }
    Py_DECREF(make);
    return value;
}

/* Returns None for an absent optional value. Sets CorruptError for an absent key: a struct skips its absent keys. */
static PyObject *absent_value(const rs_node *node) {
    if (RS_UNLIKELY(node->param == 0)) return corrupt("an optional key is not a child of a struct");
    Py_INCREF(Py_None);
    return Py_None;
}

/* Makes the value that an exceptions node stores for this record alone. */
static APART PyObject *own_value(decode_state *self, const rs_node *node, const rs_outer *outer) {
    PyObject *value = decode_alone(self, &node->children[1]);
    if (RS_UNLIKELY(value == NULL)) return NULL;
    if (RS_UNLIKELY(rs_decode_leave_entry(&self->cursor, outer, &self->err) != RS_OK)) {
        (void)codec_raise(&self->err);
        return dropped(value);
    }
    return value;
}

/* Makes the value of an exceptions node. `body` is NULL when the node is not fixed. */
static APART PyObject *exceptions_value(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits) {
    rs_outer outer;
    bool is_exception;
    TRY(rs_decode_exception(&self->cursor, node, &is_exception, &outer, &self->err));
    if (RS_UNLIKELY(is_exception)) return own_value(self, node, &outer);
    return body != NULL ? fixed_value(self, node->children, body, bits) : appended_value(self, node->children, bits);
}

/* Makes the value of a rising or runs node. Its large stack frame would slow down every other kind. */
static APART PyObject *placed_value(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits) {
    TRY(rs_decode_placed(&self->cursor, &node, &body, &bits, &self->err));
    return fixed_value(self, node, body, bits);
}

/* Makes the value of a fixed node of the kinds that fixed_value does not handle. */
static PyObject *container_value(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits) {
    const rs_node *child;
    rs_slice group;
    switch ((rs_node_code)node->kind) {
    case RS_FMT_NODE_STRUCT: return struct_value(self, node, body, bits);
    case RS_FMT_NODE_TUPLE: return tuple_value(self, node, body, bits);
    case RS_FMT_NODE_LIST: return list_value(self, node, body);
    case RS_FMT_NODE_UNION:
        if (RS_UNLIKELY(bits >= node->n_children)) return corrupt("a union number is out of range");
        child = &node->children[bits];
        group = rs_slice_of(body, child->alone_bytes);
        return fixed_value(self, child, body + child->alone_bytes, rs_decode_bits_unchecked(&group, 0, child->bits));
    case RS_FMT_NODE_EXT: return node_ext(self, node, body, bits);
    case RS_FMT_NODE_OPTIONAL:
        return (bits & 1) == 0 ? absent_value(node) : fixed_value(self, node->children, body, bits >> 1);
    case RS_FMT_NODE_RISING:
    case RS_FMT_NODE_RUNS: return placed_value(self, node, body, bits);
    case RS_FMT_NODE_EXCEPTIONS: return exceptions_value(self, node, body, bits);
    case RS_FMT_NODE_CONCAT:
    case RS_FMT_NODE_DIGITS: return text_value(self, node, body, bits);
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET: return letters_value(self, node, body);
    case RS_NODES_NUMBER: /* fixed_value makes these three kinds */
    case RS_FMT_NODE_CONST:
    case RS_FMT_NODE_DICT_CODED:
    case RS_NODES_VARIABLE:
    case RS_FMT_NODE_NUMBERS:
    case RS_FMT_NODE_MAP:
    case RS_FMT_NODE_SAME:
    case RS_FMT_NODE_NDARRAY: break;
    }
    return codec_node_array(self, node, body);
}

/* ---- Entries of tables ---- */

/* Returns the bytes that a kept value takes from the budget. Decoding it took at least as many (see entry_value), so
 * that a record that was read once can be read again. */
HOT uint64_t kept_cost(PyObject *value) {
    if (PyUnicode_CheckExact(value)) return (uint64_t)PyUnicode_GET_LENGTH(value);
    return PyBytes_CheckExact(value) ? (uint64_t)PyBytes_GET_SIZE(value) : 0;
}

/* Returns whether the value of an entry is immutable, so that records may share it. */
static bool may_keep(const rs_node *root, PyObject *value) {
#ifdef Py_GIL_DISABLED
    (void)root, (void)value;
    return false; /* two threads could write to the same slot */
#else
    if (root->kind == RS_FMT_NODE_EXT) return DECODE_IMMUTABLE >> root->param & 1;
    return PyUnicode_CheckExact(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
           PyBytes_CheckExact(value) || value == Py_None;
#endif
}

static PyObject *entry_value(decode_state *self, const rs_node *node, uint64_t i) {
    uint64_t before = self->cursor.budget.bytes;
    const rs_table *table;
    rs_outer outer;
    TRY(rs_decode_enter_entry(&self->cursor, node, i, &table, &outer, &self->err));
    PyObject *value = decode_alone(self, table->tree->nodes);
    if (RS_UNLIKELY(value == NULL)) return NULL;
    if (RS_UNLIKELY(rs_decode_leave_entry(&self->cursor, &outer, &self->err) != RS_OK)) {
        (void)codec_raise(&self->err);
        return dropped(value);
    }
    if (may_keep(table->tree->nodes, value) && kept_cost(value) <= before - self->cursor.budget.bytes) {
        const uint32_t local = (uint32_t)i - node->coded->at[rs_dict_coded_table(node->coded, i)].first;
        if (RS_UNLIKELY(codec_keep_entry(self, table, local, value) < 0)) return dropped(value);
    }
    return value;
}

static PyObject *dict_value(decode_state *self, const rs_node *node, uint64_t i) {
    if (RS_LIKELY(i < node->coded->count)) {
        const rs_coded_table *at = &node->coded->at[rs_dict_coded_table(node->coded, i)];
        const uint32_t local = (uint32_t)i - at->first;
        PyObject **kept_values = (PyObject **)at->table->slot;
        if (RS_LIKELY(kept_values != NULL && kept_values[local] != NULL)) {
            PyObject *value = kept_values[local];
            TRY(rs_decode_spend_bytes(&self->cursor, kept_cost(value), &self->err));
            Py_INCREF(value);
            return value;
        }
    }
    return entry_value(self, node, i);
}

/* ---- Appended nodes ---- */

/* Makes the items of unpacked numbers. Returns false with MemoryError set if memory runs out. */
static bool put_unpacked(PyObject **items, const rs_node *node, const int64_t *numbers, uint64_t n) {
    if (node->number_kind == RS_FMT_NUMBERS_INTS) {
        for (uint64_t i = 0; i < n; i++) {
            if (RS_UNLIKELY((items[i] = NEW_INT(numbers[i])) == NULL)) return false;
        }
    } else {
        double divisor = node->divisor;
        for (uint64_t i = 0; i < n; i++) {
            if (RS_UNLIKELY((items[i] = PyFloat_FromDouble((double)numbers[i] / divisor)) == NULL)) return false;
        }
    }
    return true;
}

/* Makes the items of packed numbers. Returns false with MemoryError set if memory runs out. */
static bool put_packed(PyObject **items, rs_packed_ints *numbers) {
    const int64_t *chunk;
    int64_t unpacked[256];
    unsigned n;
    if (RS_LIKELY(numbers->n <= sizeof unpacked / sizeof unpacked[0])) {
        rs_packed_ints_read(numbers, unpacked);
        return put_unpacked(items, numbers->node, unpacked, numbers->n);
    }
    for (; (n = rs_packed_ints_next(numbers, &chunk)) != 0; items += n) {
        if (RS_UNLIKELY(!put_unpacked(items, numbers->node, chunk, n))) return false;
    }
    return true;
}

static APART PyObject *numbers_value(decode_state *self, const rs_node *node) {
    bool is_list = node->param == 0;
    rs_packed_ints numbers;
    uint64_t n;
    TRY(rs_decode_numbers(&self->cursor, node, &n, &numbers, &self->err));
    COUNT(n);
    PyObject *out = new_sequence(n, is_list);
    if (RS_UNLIKELY(out == NULL)) return NULL;
    if (n != 0) {
        PyObject **items = is_list ? ((PyListObject *)out)->ob_item : ((PyTupleObject *)out)->ob_item;
        if (RS_UNLIKELY(!put_packed(items, &numbers))) return dropped(out);
    }
    rs_decode_leave(&self->cursor);
    return out;
}

/* Makes the value of an any node. Its bytes count against the budget if many records may use them. */
static PyObject *any_value(decode_state *self, const rs_node *node) {
    rs_slice *in = &self->cursor.in;
    const uint8_t *begin = in->ptr;
    if (node->payload && rs_slice_left(in) > 0 && *in->ptr == RS_FMT_TAG_EXT) {
        return corrupt("the payload of an ext value is itself an ext value");
    }
    PyObject *value = decode_any(self);
    if (RS_UNLIKELY(self->cursor.shared && value != NULL) &&
        rs_decode_spend_bytes(&self->cursor, (uint64_t)(in->ptr - begin), &self->err) != RS_OK) {
        (void)codec_raise(&self->err);
        return dropped(value);
    }
    return value;
}

static PyObject *list_value(decode_state *self, const rs_node *node, const uint8_t *body) {
    const rs_node *child = node->children;
    bool is_list = node->param == 0;
    const uint8_t *bodies;
    rs_slice group;
    uint64_t n = 0;
    TRY(rs_decode_list(&self->cursor, node, body, &n, &group, &bodies, &self->err));
    COUNT(n);
    if (bodies != NULL) {
        PyObject *out = fixed_elements(self, node, n, &group, bodies);
        rs_decode_leave(&self->cursor);
        return out;
    }
    PyObject *out = new_sequence(n, is_list);
    if (RS_UNLIKELY(out == NULL)) return NULL;
    for (uint64_t i = 0; i < n; i++) {
        PyObject *item = appended_value(self, child, rs_decode_bits_unchecked(&group, i * child->bits, child->bits));
        if (RS_UNLIKELY(item == NULL)) return dropped(out);
        put_item(out, is_list, i, item);
    }
    rs_decode_leave(&self->cursor);
    return out;
}

/* Makes the value of a node that is not fixed, with its body at the cursor. */
static PyObject *appended_value(decode_state *self, const rs_node *node, uint64_t bits) {
    const uint8_t *p;
    uint64_t n = 0;
    unsigned unit_bytes = 0;
    switch ((rs_node_code)node->kind) {
    case RS_FMT_NODE_STR:
        TRY(rs_decode_str(&self->cursor, node, &n, &unit_bytes, &p, &self->err));
        return decode_str(p, n, unit_bytes);
    case RS_FMT_NODE_LIST: return list_value(self, node, NULL);
    case RS_FMT_NODE_MAP: return decode_map(self, node);
    case RS_FMT_NODE_STRUCT:
    case RS_FMT_NODE_TUPLE:
        TRY(rs_decode_take(&self->cursor, node->head_bytes, &p, &self->err));
        return node->kind == RS_FMT_NODE_STRUCT ? struct_value(self, node, p, bits) : tuple_value(self, node, p, bits);
    case RS_FMT_NODE_UNION:
        if (RS_UNLIKELY(bits >= node->n_children)) return corrupt("a union number is out of range");
        return decode_alone(self, &node->children[bits]);
    case RS_FMT_NODE_ANY: return any_value(self, node);
    case RS_FMT_NODE_BYTES:
        TRY(rs_decode_bytes(&self->cursor, node, &n, &p, &self->err));
        return PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)n);
    case RS_FMT_NODE_EXT: return node_ext(self, node, NULL, bits);
    case RS_FMT_NODE_NUMBERS: return numbers_value(self, node);
    case RS_FMT_NODE_SYMBOLS: return symbols_value(self, node);
    case RS_FMT_NODE_ALPHABET: return letters_value(self, node, NULL);
    case RS_FMT_NODE_CONCAT: return text_value(self, node, NULL, bits);
    case RS_FMT_NODE_EXCEPTIONS: return exceptions_value(self, node, NULL, bits);
    case RS_FMT_NODE_OPTIONAL:
        if ((bits & 1) == 0) return absent_value(node);
        if (!node->children->fixed) return appended_value(self, node->children, bits >> 1);
        TRY(rs_decode_take(&self->cursor, node->children->size_bytes, &p, &self->err));
        return fixed_value(self, node->children, p, bits >> 1);
    case RS_NODES_FIXED:
    case RS_FMT_NODE_NDARRAY: break;
    }
    return codec_node_array(self, node, NULL);
}

PyObject *decode_alone(decode_state *self, const rs_node *node) {
    const uint8_t *start, *body;
    uint64_t bits = 0;
    if (node->bits != 0) {
        TRY(rs_decode_take(&self->cursor, node->alone_bytes, &start, &self->err));
        rs_slice group = rs_slice_of(start, node->alone_bytes);
        bits = rs_decode_bits_unchecked(&group, 0, node->bits);
    }
    if (!node->fixed) return appended_value(self, node, bits);
    TRY(rs_decode_take(&self->cursor, node->size_bytes, &body, &self->err));
    return fixed_value(self, node, body, bits);
}

static COLD PyObject *trailing(decode_state *self, PyObject *value) {
    Py_DECREF(value);
    (void)rs_error_set(&self->err, RS_E_FMT_TRAILING, RS_NOWHERE, "bytes are left over after a record");
    return failed(self);
}

PyObject *decode_record(decode_state *self, const rs_block *block) {
    PyObject *value = decode_alone(self, block->root);
    if (RS_UNLIKELY(value != NULL && self->cursor.in.ptr != self->cursor.in.end)) return trailing(self, value);
    return value;
}

PyObject *decode_place(decode_state *self, const rs_node *node, const uint8_t *body, uint64_t bits) {
    if (node == NULL) return decode_any(self);
    return node->fixed ? fixed_value(self, node, body, bits) : appended_value(self, node, bits);
}
