/* tree_maker.c: trees in breadth-first order; each node is chosen among the kinds allowed at its place. */
#include "tree_maker.h"

enum {
    LEAVES_FROM = 24, /* nodes from this number on have no children */
    CHILDREN = 5,
    NODES = LEAVES_FROM + (LEAVES_FROM + CHILDREN + 1) * (CHILDREN + 2),
    CHOICES = 256
};

/* The place of a node, which limits its kinds. */
enum {
    IN_STRUCT = 1, /* may be an optional key */
    IN_CONCAT = 2, /* a part of a str */
    IS_FIXED = 4,  /* has bodies of one size */
    IN_RISING = 8, /* the child of a rising node */
    IN_EXT = 16,   /* not an ext or dict-coded node */
    PLACED = 32,   /* may be a placed node */
    IS_LEAF = 64,  /* has no children */
    NO_OPTIONAL = 128
};

typedef struct made_node {
    uint8_t kind, param;
    uint16_t flags;
    uint32_t n_children, first_child, aux_off, aux_size, count;
    unsigned where, number; /* number: its position among its siblings */
} made_node;

typedef struct maker {
    rs_slice *in;
    const tree_tables *tables;
    made_node nodes[NODES];
    uint32_t n; /* nodes so far, including nodes still to be filled */
    rs_buffer aux;
} maker;

static void put(maker *m, const void *bytes, size_t n) {
    FUZZ_MUST(rs_buffer_append(&m->aux, bytes, n, NULL) == RS_OK);
}

static void put_number(maker *m, uint64_t value, unsigned n_bytes) {
    uint8_t le[8];
    rs_store_u64(le, value);
    put(m, le, n_bytes);
}

/* A key, or the str of a const: two letters that the input chooses. */
static void put_text(maker *m, unsigned number) {
    uint8_t text[4] = {RS_FMT_TAG_STR1, 2, 'a', 'a'};
    text[2] = (uint8_t)('a' + number % 26), text[3] = (uint8_t)('a' + number / 26 % 26);
    put(m, text, sizeof text);
}

static void put_const(maker *m, unsigned where) {
    static const uint8_t values[][6] = {{1, 0x00},          {1, 0x02},       {1, 0x95},    {2, 0x03, 0x80},
                                        {3, 0x0D, 1, 0x91}, {3, 0x0C, 1, 7}, {2, 0x0E, 0}, {5, 0x0F, 1, 0x91, 0x92, 0}};
    const unsigned choice = fuzz_take(m->in);
    if ((where & IN_CONCAT) != 0 || choice % 3 == 0) {
        put_text(m, choice);
    } else {
        const uint8_t *value = values[choice % 8];
        put(m, value + 1, choice % 8 == 7 ? 4 : value[0]);
    }
}

static void add_children(maker *m, made_node *node, uint32_t n, unsigned where) {
    FUZZ_MUST(n <= NODES - m->n);
    node->n_children = n;
    node->first_child = n == 0 ? 0 : m->n;
    for (uint32_t i = 0; i < n; i++) {
        made_node *child = &m->nodes[m->n++];
        memset(child, 0, sizeof *child);
        child->number = i;
        child->where = where;
        if (m->n > LEAVES_FROM) child->where |= IS_LEAF;
    }
}

/* Takes the width of a number. Half of the choices are whole bytes, which make a body. */
static uint8_t take_width(maker *m, unsigned max_width) {
    static const uint8_t whole[] = {8, 16, 32, 64};
    const unsigned choice = fuzz_take(m->in);
    const uint8_t width = choice % 2 == 0 ? whole[choice / 2 % 4] : (uint8_t)(choice / 2 % 65);
    return width > max_width ? (uint8_t)max_width : width;
}

static void fill_numbers(maker *m, made_node *node) {
    const unsigned floats = fuzz_take(m->in) & 1;
    node->param = fuzz_take(m->in) & 1;
    if ((fuzz_take(m->in) & 1) != 0) node->flags = RS_FMT_FLAG_FIXED, node->count = fuzz_take(m->in) % 40;
    put_number(m, fuzz_take_number(m->in, 8), 8);
    put_number(m, floats, 1);
    put_number(m, floats == 0 ? 0 : fuzz_take(m->in) % 23, 1);
    put_number(m, fuzz_take(m->in) % 17, 1);
    put_number(m, fuzz_take(m->in) % 65, 1);
    put_number(m, fuzz_take(m->in) % 65, 1);
    put_number(m, 0, 3);
}

static void fill_array(maker *m, made_node *node) {
    static const uint8_t dtypes[][3] = {{1, 1},  {1, 3},    {1, 5},     {1, 7},     {1, 11},    {1, 12},
                                        {1, 14}, {1, 0x85}, {2, 15, 3}, {2, 16, 8}, {2, 17, 5}, {1, 21}};
    const uint8_t *dtype = dtypes[fuzz_take(m->in) % 12];
    const unsigned shape = fuzz_take(m->in), choice = fuzz_take(m->in);
    uint8_t flags = (uint8_t)(choice & 1);
    if ((choice & 6) == 6) flags |= RS_FMT_ARRAY_SCALAR;
    else if ((choice & 2) != 0) node->flags = RS_FMT_FLAG_FIXED;
    if (dtype[1] > 1 && dtype[1] <= 9 && (flags & RS_FMT_ARRAY_SCALAR) == 0 && (choice & 8) != 0) { /* narrow */
        flags |= (uint8_t)(choice >> 4 << RS_FMT_ARRAY_WIDTH_SHIFT);
    }
    put(m, &flags, 1);
    put(m, dtype + 1, dtype[0]);
    if (dtype[1] == 18 || dtype[1] == 19) put_number(m, 0x0109, 2);
    if (node->flags != 0) {
        put_number(m, 2, 1);
        put_number(m, shape % 5, 1);
        put_number(m, shape / 5 % 20, 1);
    }
}

static void fill_ext(maker *m, made_node *node) {
    static const uint8_t object[] = {0x0E, 3, 0x09, 1, 'm', 0x09, 1, 'q', 0x0E, 1, 0x09, 1, 'f'};
    static const uint8_t name[] = {0x0E, 2, 0x09, 1, 'm', 0x09, 1, 'q'};
    static const uint8_t path[] = {0x09, 9, 'P', 'o', 's', 'i', 'x', 'P', 'a', 't', 'h'};
    node->param = (uint8_t)(1 + fuzz_take(m->in) % RS_FMT_EXT_LAST);
    if (node->param == RS_FMT_EXT_ENUM) put(m, name, sizeof name);
    else if (node->param >= RS_FMT_EXT_NAMEDTUPLE && node->param <= RS_FMT_EXT_OBJECT) put(m, object, sizeof object);
    else if (node->param == RS_FMT_EXT_PATH) put(m, path, sizeof path);
    else put_number(m, 0, 1);
    add_children(m, node, 1, (node->where & (unsigned)~(IN_STRUCT | IN_CONCAT)) | IN_EXT);
}

static void fill_coded(maker *m, made_node *node) {
    const unsigned choice = fuzz_take(m->in), n = 1 + choice % m->tables->n_values;
    for (uint32_t i = 0; i < n; i++) {
        put_number(m, i, 4);
        node->count += m->tables->entries[i];
    }
    while (node->param < 32 && node->count > UINT32_C(1) << node->param) node->param++;
    if (node->param < 32 && (choice & 64) != 0) node->param++;
}

static void fill_alphabet(maker *m, made_node *node) {
    const unsigned choice = fuzz_take(m->in), bits = 1 + choice % 6;
    const bool fixed = (node->where & IS_FIXED) != 0 || (choice & 64) != 0;
    node->param = (uint8_t)(choice / 6 % 3);
    if (fixed) node->flags = RS_FMT_FLAG_FIXED, node->count = 1 + fuzz_take(m->in) % 40;
    for (unsigned i = 0; i < 1u << bits; i++) put_number(m, '0' + i, 1);
}

/* Fills the fields of a node by its kind, and adds its children. */
static void fill(maker *m, made_node *node) {
    const unsigned below = node->where & (unsigned)(IN_EXT | IS_LEAF), fixed = node->where & IS_FIXED;
    const unsigned row = node->where & (unsigned)(PLACED | IS_FIXED | IS_LEAF);
    uint32_t n;
    node->aux_off = (uint32_t)m->aux.size_bytes;
    switch (node->kind) {
    case RS_FMT_NODE_CONST: put_const(m, node->where); break;
    case RS_FMT_NODE_INT:
        node->param = (node->where & IN_RISING) != 0 ? 0 : take_width(m, 64);
        put_number(m, fuzz_take_number(m->in, 8), 8);
        break;
    case RS_FMT_NODE_STR: node->param = (uint8_t)(1u << fuzz_take(m->in) % 4 & 7); break;
    case RS_FMT_NODE_LIST:
        if (fixed != 0 || (fuzz_take(m->in) & 1) != 0) {
            node->flags = RS_FMT_FLAG_FIXED, node->count = fuzz_take(m->in) % 9;
        }
        node->param = fuzz_take(m->in) & 1;
        add_children(m, node, 1, fixed | (node->where & IS_LEAF));
        break;
    case RS_FMT_NODE_TUPLE:
        n = fuzz_take(m->in);
        node->param = n & 1;
        if ((n & 6) == 6 && node != m->nodes) node->flags = RS_FMT_FLAG_IN_BITS;
        add_children(m, node, fuzz_take(m->in) % (CHILDREN + 1), row);
        break;
    case RS_FMT_NODE_STRUCT:
        add_children(m, node, fuzz_take(m->in) % (CHILDREN + 1), row | IN_STRUCT);
        n = fuzz_take(m->in);
        if (n >= 160 && node != m->nodes) node->flags = RS_FMT_FLAG_IN_BITS;
        for (uint32_t i = 0; i < node->n_children; i++) put_text(m, n % 20 + i);
        break;
    case RS_FMT_NODE_UNION: add_children(m, node, 1 + fuzz_take(m->in) % CHILDREN, below | (row & PLACED)); break;
    case RS_FMT_NODE_NDARRAY: fill_array(m, node); break;
    case RS_FMT_NODE_EXT: fill_ext(m, node); break;
    case RS_FMT_NODE_DECIMAL: {
        const unsigned width = (node->where & IN_RISING) != 0 ? 0 : take_width(m, 64);
        node->param = (uint8_t)width;
        put_number(m, fuzz_take_number(m->in, 8), 8);
        put_number(m, fuzz_take(m->in) % 23, 1);
        put_number(m, fuzz_take(m->in) % (1 + (width < 32 ? width : 32)), 1);
        break;
    }
    case RS_FMT_NODE_NUMBERS: fill_numbers(m, node); break;
    case RS_FMT_NODE_DICT_CODED: fill_coded(m, node); break;
    case RS_FMT_NODE_SYMBOLS:
        node->param = m->tables->symbols == 2 ? fuzz_take(m->in) & 1 : 0;
        put_number(m, m->tables->n_values, 4);
        break;
    case RS_FMT_NODE_CONCAT: add_children(m, node, fuzz_take(m->in) % (CHILDREN + 2), IN_CONCAT | fixed); break;
    case RS_FMT_NODE_DIGITS:
        node->param = (node->where & IN_RISING) != 0 ? 0 : take_width(m, 64);
        node->count = fuzz_take(m->in) % 21;
        put_number(m, fuzz_take_number(m->in, 8), 8);
        break;
    case RS_FMT_NODE_HEX: node->param = fuzz_take(m->in) & 1, node->count = 1 + fuzz_take(m->in) % 40; break;
    case RS_FMT_NODE_ALPHABET: fill_alphabet(m, node); break;
    case RS_FMT_NODE_SAME: break; /* it repeats the first part, which is another node */
    case RS_FMT_NODE_OPTIONAL:
        n = (node->where & IN_STRUCT) != 0 ? fuzz_take(m->in) : 1;
        node->param = n & 1;
        if ((n & 6) == 6) node->flags = RS_FMT_FLAG_RARE;
        add_children(m, node, 1, below | (row & PLACED) | NO_OPTIONAL);
        break;
    case RS_FMT_NODE_RISING: add_children(m, node, 1, IN_RISING | (node->where & IN_EXT)); break;
    case RS_FMT_NODE_RUNS: add_children(m, node, 1, IS_FIXED | IS_LEAF | (node->where & IN_EXT)); break;
    case RS_FMT_NODE_EXCEPTIONS: add_children(m, node, 2, below | IS_LEAF | (node->where & PLACED)); break;
    case RS_FMT_NODE_MAP: add_children(m, node, 2, node->where & IS_LEAF); break;
    default: break;
    }
    node->aux_size = (uint32_t)(m->aux.size_bytes - node->aux_off);
}

/* Whether a node at this place may have this kind. */
static bool may_be(const maker *m, const made_node *node, uint8_t kind) {
    const unsigned where = node->where;
    if (kind == RS_FMT_NODE_DICT_CODED && m->tables->n_values == 0) return false;
    if (kind == RS_FMT_NODE_SYMBOLS && m->tables->symbols == 0) return false;
    if ((where & IN_RISING) != 0) return kind == RS_FMT_NODE_INT || kind == RS_FMT_NODE_DIGITS;
    if ((where & IN_CONCAT) != 0) {
        if (kind == RS_FMT_NODE_SAME) return node->number > 0;
        if ((where & IS_FIXED) != 0 &&
            (kind == RS_FMT_NODE_STR || kind == RS_FMT_NODE_SYMBOLS || kind == RS_FMT_NODE_ALPHABET))
            return false;
        return rs_node_kind_of(kind)->part != RS_CONCAT_PART_NONE;
    }
    if (kind == RS_FMT_NODE_SAME) return false;
    if ((where & IS_LEAF) != 0 && rs_node_kind_of(kind)->max_children > 0) return false;
    if ((where & IN_EXT) != 0 && (kind == RS_FMT_NODE_EXT || kind == RS_FMT_NODE_DICT_CODED)) return false;
    if ((where & NO_OPTIONAL) != 0 && kind == RS_FMT_NODE_OPTIONAL) return false;
    if (kind >= RS_FMT_NODE_RISING && kind <= RS_FMT_NODE_EXCEPTIONS) return (where & PLACED) != 0;
    if ((where & IS_FIXED) == 0) return true;
    return kind == RS_FMT_NODE_CONST || (kind >= RS_FMT_NODE_INT && kind <= RS_FMT_NODE_BOOL) ||
           kind == RS_FMT_NODE_DECIMAL || kind == RS_FMT_NODE_DICT_CODED || kind == RS_FMT_NODE_DIGITS ||
           kind == RS_FMT_NODE_HEX || kind == RS_FMT_NODE_TUPLE;
}

static uint8_t choose_kind(maker *m, const made_node *node) {
    unsigned choice = fuzz_take(m->in);
    for (unsigned i = 0; i < CHOICES; i++, choice++) {
        const uint8_t kind = (uint8_t)(1 + choice % RS_FMT_NODE_LAST);
        if (rs_node_kind_of(kind) != NULL && may_be(m, node, kind)) return kind;
    }
    return RS_FMT_NODE_CONST;
}

static void write_tree(const maker *m, rs_buffer *out) {
    uint8_t bytes[RS_FMT_NODE_SIZE];
    rs_store_u32(bytes, m->n), rs_store_u32(bytes + 4, (uint32_t)m->aux.size_bytes);
    FUZZ_MUST(rs_buffer_append(out, bytes, RS_FMT_TREE_HEAD_SIZE, NULL) == RS_OK);
    for (uint32_t i = 0; i < m->n; i++) {
        const made_node *n = &m->nodes[i];
        bytes[0] = n->kind, bytes[1] = n->param;
        rs_store_u16(bytes + RS_FMT_N_FLAGS, n->flags);
        rs_store_u32(bytes + RS_FMT_N_N_CHILDREN, n->n_children);
        rs_store_u32(bytes + RS_FMT_N_FIRST_CHILD, n->first_child);
        rs_store_u32(bytes + RS_FMT_N_AUX_OFFSET, n->aux_off);
        rs_store_u32(bytes + RS_FMT_N_AUX_SIZE, n->aux_size);
        rs_store_u32(bytes + RS_FMT_N_COUNT, n->count);
        FUZZ_MUST(rs_buffer_append(out, bytes, RS_FMT_NODE_SIZE, NULL) == RS_OK);
    }
    FUZZ_MUST(rs_buffer_append(out, m->aux.data, m->aux.size_bytes, NULL) == RS_OK);
}

/* Lets values at the end of a record take the rest of it. */
static void take_rests(rs_buffer *tree) {
    rs_tree compiled;
    if (rs_tree_compile(rs_slice_of(tree->data, tree->size_bytes), 0, &compiled, NULL) != RS_OK) return;
    rs_tree_take_rests(&compiled);
    memcpy(tree->data, compiled.bytes, compiled.size_bytes);
    rs_tree_clear(&compiled);
}

void fuzz_make_tree(rs_slice *in, const tree_tables *tables, rs_buffer *out) {
    maker m = {0};
    m.in = in, m.tables = tables, m.n = 1;
    m.nodes[0].where = tables->placed ? PLACED : 0;
    for (uint32_t i = 0; i < m.n; i++) {
        m.nodes[i].kind = choose_kind(&m, &m.nodes[i]);
        fill(&m, &m.nodes[i]);
    }
    write_tree(&m, out);
    rs_buffer_clear(&m.aux);
    if ((fuzz_take(in) & 1) != 0) take_rests(out);
}

void fuzz_replace_tree(uint8_t *tree, uint64_t size, uint64_t *random) {
    const tree_tables none = {0, {0}, 0, false};
    uint8_t choices[128];
    rs_buffer made = {0};
    for (size_t i = 0; i < sizeof choices; i++) choices[i] = (uint8_t)fuzz_random(random);
    rs_slice in = rs_slice_of(choices, (size_t)fuzz_below(random, sizeof choices));
    fuzz_make_tree(&in, &none, &made);
    if (made.size_bytes <= size) {
        memcpy(tree, made.data, made.size_bytes);
        memset(tree + made.size_bytes, 0, (size_t)(size - made.size_bytes));
        rs_store_u32(tree + 4, rs_load_u32(tree + 4) + (uint32_t)(size - made.size_bytes));
    }
    rs_buffer_clear(&made);
}
