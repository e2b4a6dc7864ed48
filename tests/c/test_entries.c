/* test_entries.c: dict-coded entries in a column: each kind, several tables, each read once, invalid numbers. */
#include "columns/rs_entries.h"
#include "rs_make.h"

static rs_error err;
enum { GROUP = 8 + 64 * 2, HEAP = 512 };

static const char long_text[] = "a text that is longer than one copy takes";

/* A table of `any` values made by hand: its heap, then one group of offsets. */
typedef struct made_table {
    uint8_t bytes[HEAP + GROUP];
    uint64_t end;
    rs_tree tree;
    rs_table table;
} made_table;

static void open_table(made_table *m) {
    static const make_node any = {RS_FMT_NODE_ANY, 0, 0, 0, 0, 0, 0, 0};
    rs_buffer tree = {0};
    memset(m, 0, sizeof *m);
    make_tree(&tree, &any, 1, "", 0);
    if (make_compiled(&tree, &m->tree, &err) != RS_OK) abort();
    rs_buffer_clear(&tree);
    m->table.segment = m->bytes, m->table.tree = &m->tree, m->table.kind = RS_FMT_TABLE_VALUES;
    m->table.block.index_off = HEAP, m->table.block.index_width = 2;
    m->table.block.index_bits = 16;
}

/* Appends an entry and frees its bytes. */
static void put(made_table *m, rs_buffer *value) {
    const uint32_t n = m->table.block.n_records++;
    memcpy(m->bytes + m->end, value->data, value->size_bytes);
    m->end += value->size_bytes;
    for (uint32_t i = n; i < 64; i++) rs_store_u16(m->bytes + HEAP + 8 + 2 * i, (uint16_t)m->end);
    m->table.block.heap_size_bytes = m->table.block.rows_size_bytes = m->end;
    rs_buffer_clear(value);
}

typedef struct pair {
    made_table one, two;
    rs_dict_coded *dict;
    rs_node node;
} pair;

static rs_dict_coded *new_dict(uint32_t n, const rs_table *one, const rs_table *two) {
    rs_dict_coded *dict = (rs_dict_coded *)calloc(1, sizeof *dict + n * sizeof dict->at[0]);
    if (dict == NULL) abort();
    dict->n_tables = n;
    for (uint32_t i = 0; i < n; i++) {
        dict->at[i].table = i == 0 ? one : two;
        dict->at[i].first = dict->count;
        dict->at[i].end = dict->count += dict->at[i].table->block.n_records;
    }
    return dict;
}

static void open_pair(pair *p) {
    rs_buffer v = {0};
    open_table(&p->one), open_table(&p->two);
    make_tag(&v, 0), put(&p->one, &v);
    make_tag(&v, 2), put(&p->one, &v);
    make_int(&v, -70000000), put(&p->one, &v);
    make_float(&v, 0.1), put(&p->one, &v);
    make_str(&v, ""), put(&p->two, &v);
    make_str(&v, long_text), put(&p->two, &v);
    make_units(&v, 0x0A, 3, 2, 0xE9), put(&p->two, &v);
    make_head(&v, 0x0D, 1), make_int(&v, 7), put(&p->two, &v);
    make_units(&v, 0x0B, 1, 4, 0xFF), v.data[3] = 0xD8, put(&p->two, &v); /* U+D8FF: a surrogate has no UTF-8 */
    memset(&p->node, 0, sizeof p->node);
    p->dict = new_dict(2, &p->one.table, &p->two.table);
    p->node.kind = RS_FMT_NODE_DICT_CODED, p->node.fixed = true, p->node.coded = p->dict, p->node.bits = 4;
}

static void close_pair(pair *p) { rs_tree_clear(&p->one.tree), rs_tree_clear(&p->two.tree), free(p->dict); }

static rs_cursor cursor_of(uint64_t bytes) {
    rs_cursor c = {0};
    c.budget.values = 100, c.budget.bytes = bytes, c.budget.depth = 5, c.shared = false;
    return c;
}

static bool is_text(const rs_entries *entries, const rs_entry *e, const char *text) {
    return e->kind == RS_ENTRY_TEXT && e->size_bytes == strlen(text) &&
           memcmp(entries->text.data + e->bits, text, e->size_bytes) == 0;
}

TEST(test_every_kind) {
    static pair p;
    const rs_cursor cursor = cursor_of(1000);
    const rs_entry *e[9], *again = NULL;
    rs_entries entries = {0};
    double tenth = 0.1;
    open_pair(&p);
    for (uint32_t i = 9; i-- > 0;) CHECK_OK(rs_entries_at(&entries, &cursor, &p.node, i, &e[i], &err), &err);
    CHECK(e[0]->kind == RS_ENTRY_NONE);
    CHECK(e[1]->kind == RS_ENTRY_BOOL && e[1]->bits == 1);
    CHECK(e[2]->kind == RS_ENTRY_INT && (int64_t)e[2]->bits == -70000000);
    CHECK(e[3]->kind == RS_ENTRY_FLOAT && memcmp(&e[3]->bits, &tenth, 8) == 0);
    CHECK(is_text(&entries, e[4], "") && is_text(&entries, e[5], long_text));
    CHECK(is_text(&entries, e[6], "\xC3\xA9\xC3\xA9\xC3\xA9"));
    CHECK(e[7]->kind == RS_ENTRY_OTHER && e[8]->kind == RS_ENTRY_OTHER);
    CHECK(entries.text.capacity_bytes - e[4]->bits >= RS_ENTRY_COPY && entries.n_known == 2);
    size_t text_bytes = entries.text.size_bytes;
    for (uint32_t i = 0; i < 9; i++) {
        CHECK_OK(rs_entries_at(&entries, &cursor, &p.node, i, &again, &err), &err);
        CHECK(again == e[i]);
    }
    CHECK_U64(entries.text.size_bytes, text_bytes); /* nothing was read again */
    CHECK_CODE(rs_entries_at(&entries, &cursor, &p.node, 9, &again, &err), RS_E_FMT_VALUE, &err);
    CHECK_CODE(rs_entries_at(&entries, &cursor, &p.node, UINT64_MAX, &again, &err), RS_E_FMT_VALUE, &err);
    rs_entries_clear(&entries);
    CHECK(entries.known == NULL && entries.text.data == NULL);
    close_pair(&p);
}

/* Two nodes that name the same table share its cached entries. */
TEST(test_nodes_in_turn) {
    static pair p;
    const rs_cursor cursor = cursor_of(1000);
    const rs_entry *first = NULL, *second = NULL;
    rs_entries entries = {0};
    rs_node other;
    open_pair(&p);
    rs_dict_coded *other_dict = new_dict(1, &p.two.table, NULL);
    other = p.node, other.coded = other_dict;
    CHECK_OK(rs_entries_at(&entries, &cursor, &p.node, 5, &first, &err), &err);
    CHECK_OK(rs_entries_at(&entries, &cursor, &other, 1, &second, &err), &err);
    CHECK(first == second && entries.n_known == 2);
    CHECK_OK(rs_entries_at(&entries, &cursor, &p.node, 5, &second, &err), &err);
    CHECK(first == second);
    CHECK_CODE(rs_entries_at(&entries, &cursor, &other, 5, &second, &err), RS_E_FMT_VALUE, &err);
    rs_entries_clear(&entries);
    free(other_dict);
    close_pair(&p);
}

/* Malformed entries are refused, and not counted as read. */
TEST(test_broken) {
    static pair p;
    const rs_cursor cursor = cursor_of(1000);
    const rs_entry *e = NULL;
    rs_entries entries = {0};
    open_pair(&p);
    p.one.bytes[p.one.end - 9] = RS_FMT_TAG_STR1; /* the float becomes a str that goes beyond its entry */
    p.one.bytes[p.one.end - 8] = 100;
    CHECK_CODE(rs_entries_at(&entries, &cursor, &p.node, 3, &e, &err), RS_E_FMT_TRUNCATED, &err);
    CHECK_CODE(rs_entries_at(&entries, &cursor, &p.node, 3, &e, &err), RS_E_FMT_TRUNCATED, &err);
    rs_store_u16(p.one.bytes + HEAP + 8 + 2, 60000);
    CHECK_CODE(rs_entries_at(&entries, &cursor, &p.node, 1, &e, &err), RS_E_FMT_OFFSET, &err);
    CHECK_OK(rs_entries_at(&entries, &cursor, &p.node, 0, &e, &err), &err);
    rs_entries_clear(&entries);
    close_pair(&p);
}
