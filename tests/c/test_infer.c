/* test_infer.c: records in, tree out: the chosen kinds as text; each tree compiles and takes its records. */
#include "plan/rs_string_cut.h"
#include "write/rs_infer.h"
#include "write/rs_encode.h"
#include "rs_make.h"
#include "rs_describe.h"

static rs_error err;
static make_block block;

/* ---- Trees as text: `struct(int5+-3, union(const, str0), list*4(bool))` ---- */

static void say_node(const rs_node *n) {
    say_kind(n->kind == RS_FMT_NODE_TUPLE && n->param != 1 ? RS_FMT_NODE_LIST
                                                           : n->kind); /* a tuple node makes lists too */
    if (n->kind == RS_FMT_NODE_INT) say("%u+%lld", n->param, (long long)n->base);
    if (n->kind == RS_FMT_NODE_STR) say("%u", n->param);
    if ((n->kind == RS_FMT_NODE_LIST || n->kind == RS_FMT_NODE_NUMBERS) && n->param == 1) say("-tuple");
    if (n->kind == RS_FMT_NODE_EXT) say("%u", n->param);
    if (n->flags != 0) say("*");
    if (n->kind == RS_FMT_NODE_LIST && n->flags != 0) say("%u", n->count);
    if (n->n_children == 0) return;
    say("(");
    for (uint32_t i = 0; i < n->n_children; i++) {
        if (i > 0) say(", ");
        say_node(&n->children[i]);
    }
    say(")");
}

/* Tables are not written here; test_block_encoding.c tests their contents. */
static uint32_t tables_written;

static rs_status drop_values(void *owner, const rs_values *values, uint64_t position_id, unsigned table_depth,
                             rs_block *out, rs_error *e) {
    (void)owner, (void)position_id, (void)table_depth, (void)e;
    memset(out, 0, sizeof *out);
    out->n_records = values->n;
    tables_written++;
    return RS_OK;
}

static rs_status drop_bytes(void *owner, const rs_buffer *bytes, rs_block *out, rs_error *e) {
    (void)owner, (void)bytes, (void)e;
    memset(out, 0, sizeof *out);
    tables_written++;
    return RS_OK;
}

static const rs_choices choices = {.level = RS_LEVEL_AUTO};
static rs_dictionaries dictionaries = {.write_values = drop_values, .write_bytes = drop_bytes, .choices = &choices};
static rs_links links;

/* Makes the tree of the block's first n records. Until clear_infer(), `links` and `dictionaries` can be used to encode. */
static rs_status infer(uint32_t n, rs_buffer *bytes) {
    rs_span *spans = (rs_span *)calloc(n + 1, sizeof *spans);
    rs_stats survey = {0};
    uint64_t begin = 0;
    for (uint32_t i = 0; i < n; i++) {
        spans[i].off = (uint32_t)begin;
        spans[i].size_bytes = (uint32_t)(block.ends[i] - begin);
        begin = block.ends[i];
    }
    survey.values.base = block.raw.data;
    survey.values.spans = spans;
    survey.values.n = n;
    survey.scan = &block.scan;
    survey.choices = dictionaries.choices = &choices;
    rs_status status = rs_infer_survey(&survey, 0, &err);
    if (status == RS_OK) status = rs_infer_tree(&survey, &dictionaries, 0, bytes, &links, &err);
    rs_stats_clear(&survey);
    free(spans);
    return status;
}

static void clear_infer(void) {
    rs_links_clear(&links);
    rs_dictionaries_clear(&dictionaries);
}

static const char *inferred(void) {
    rs_buffer bytes = {0};
    rs_tree tree;
    rs_status status = infer(block.n, &bytes);
    description_size = 0;
    if (status == RS_OK) status = make_compiled(&bytes, &tree, &err);
    if (status == RS_OK) {
        say_node(tree.nodes);
        rs_tree_clear(&tree);
    } else {
        say("%s", rs_status_name(status));
    }
    rs_buffer_clear(&bytes);
    clear_infer();
    make_block_clear(&block);
    return description;
}

static void add_int(int64_t value) {
    make_int(&block.raw, value);
    make_record_end(&block);
}

static void add_str(unsigned tag, size_t n) {
    make_units(&block.raw, tag, n, (size_t)1 << (tag - 0x09), 'a');
    make_record_end(&block);
}

/* ---- One kind each ---- */

static const char *ints(int64_t a, int64_t b) {
    add_int(a), add_int(b);
    return inferred();
}

TEST(test_ints) {
    CHECK_STR(ints(5, 5), "const");
    CHECK_STR(ints(5, 6), "int1+5");
    CHECK_STR(ints(-3, 4), "int3+-3");
    CHECK_STR(ints(0, 127), "int7+0");
    CHECK_STR(ints(0, 255), "int8+0");
    CHECK_STR(ints(1000, 1256), "int9+873"); /* half of the spare numbers of 9 bits are below */
    CHECK_STR(ints(0, (1 << 13) - 1), "int13+0");
    CHECK_STR(ints(0, 1 << 13), "int16+0");
    CHECK_STR(ints(0, 1 << 16), "int17+0");
    CHECK_STR(ints(0, (1 << 27) - 1), "int27+0");
    CHECK_STR(ints(0, 1 << 27), "int32+0");
    CHECK_STR(ints(0, INT64_C(1) << 32), "int33+0");
    CHECK_STR(ints(0, (INT64_C(1) << 56) - 1), "int56+0");
    CHECK_STR(ints(0, INT64_C(1) << 56), "int64+0");
    CHECK_STR(ints(INT64_MIN, INT64_MAX), "int64+-9223372036854775808");
}

TEST(test_leaves) {
    make_float(&block.raw, 1.5), make_record_end(&block), make_float(&block.raw, 2), make_record_end(&block);
    CHECK_STR(inferred(), "decimal");
    make_float(&block.raw, 1.0 / 3), make_record_end(&block), make_float(&block.raw, 1e300), make_record_end(&block);
    CHECK_STR(inferred(), "float");
    make_tag(&block.raw, 1), make_record_end(&block), make_tag(&block.raw, 2), make_record_end(&block);
    CHECK_STR(inferred(), "bool");
    make_tag(&block.raw, 0), make_record_end(&block);
    CHECK_STR(inferred(), "const");
    make_units(&block.raw, 0x0C, 3, 1, 1), make_record_end(&block), make_units(&block.raw, 0x0C, 4, 1, 1);
    make_record_end(&block);
    CHECK_STR(inferred(), "bytes");
    make_units(&block.raw, 0x07, 9, 1, 1), make_record_end(&block); /* ints beyond 64 bits have no node */
    CHECK_STR(inferred(), "any");
}

TEST(test_strings) {
    add_str(0x09, 1), add_str(0x09, 2);
    CHECK_STR(inferred(), "str1");
    add_str(0x0A, 1), add_str(0x0A, 2);
    CHECK_STR(inferred(), "str2");
    add_str(0x0B, 1), add_str(0x0B, 2);
    CHECK_STR(inferred(), "str4");
    add_str(0x09, 1), add_str(0x0B, 2);
    CHECK_STR(inferred(), "union(str1, str4)");
    add_str(0x09, 5), add_str(0x09, 5);
    CHECK_STR(inferred(), "const");
    add_str(0x09, 5); /* seen once: no constant */
    CHECK_STR(inferred(), "str1");
    add_str(0x09, 4093), add_str(0x09, 4093); /* 4,096 bytes with tag and count */
    CHECK_STR(inferred(), "const");
    add_str(0x09, 4094), add_str(0x09, 4094); /* too long for a constant: an entry of a table */
    CHECK_STR(inferred(), "dict");
}

TEST(test_unions) {
    add_int(1), add_int(2), make_tag(&block.raw, 0), make_record_end(&block), add_str(0x09, 3);
    CHECK_STR(inferred(), "union(const, int1+1, str1)");
    make_units(&block.raw, 0x07, 9, 1, 1), make_record_end(&block), add_int(1), add_int(2); /* `any` comes last */
    CHECK_STR(inferred(), "union(int1+1, any)");
}

/* ---- Containers ---- */

static void add_sequence(unsigned tag, uint64_t n, int64_t first) {
    make_head(&block.raw, tag, n);
    for (uint64_t i = 0; i < n; i++) make_int(&block.raw, first + (int64_t)i);
    make_record_end(&block);
}

static void add_bools(uint64_t n) {
    make_head(&block.raw, 0x0D, n);
    for (; n > 0; n--) make_tag(&block.raw, 1 + n % 2);
    make_record_end(&block);
}

TEST(test_sequences) {
    add_sequence(0x0D, 3, 0), add_sequence(0x0D, 4, 0);
    CHECK_STR(inferred(), "numbers");
    add_sequence(0x0D, 4, 0), add_sequence(0x0D, 4, 1);
    CHECK_STR(inferred(), "list*4(int3+0)");
    add_sequence(0x0E, 2, 0), add_sequence(0x0E, 2, 1);
    CHECK_STR(inferred(), "tuple(int1+0, int1+1)");
    add_sequence(0x0E, 2, 0), add_sequence(0x0E, 1, 0);
    CHECK_STR(inferred(),
              "union(tuple(const, const), tuple(const))"); /* a small int seen once is cheaper in the tree */
    add_sequence(0x0E, 65, 0), add_sequence(0x0E, 66, 0);
    CHECK_STR(inferred(), "numbers-tuple");
    add_sequence(0x0D, 0, 0), add_sequence(0x0D, 0, 0);
    CHECK_STR(inferred(), "const");
    add_sequence(0x0D, 0, 0), add_sequence(0x0D, 2, 0);
    CHECK_STR(inferred(), "numbers");
    add_bools(3), add_bools(4); /* not numbers: the elements are a position of their own */
    CHECK_STR(inferred(), "list(bool)");
}

static void add_struct(const char *a, const char *b, int64_t value) {
    make_head(&block.raw, 0x0F, 2);
    make_str(&block.raw, a), make_int(&block.raw, value), make_str(&block.raw, b),
        make_float(&block.raw, (double)value);
    make_record_end(&block);
}

TEST(test_structs) {
    add_struct("a", "b", 0), add_struct("a", "b", 1);
    CHECK_STR(inferred(), "struct(int1+0, decimal)");
    add_struct("a", "b", 0), add_struct("a", "b", 1), add_struct("b", "a", 0), add_struct("b", "a", 1);
    CHECK_STR(inferred(), "union(struct(int1+0, decimal), struct(int1+0, decimal))"); /* the order of keys is kept */
    add_struct("a", "b", 7), add_struct("a", "b", 7);
    CHECK_STR(inferred(), "const");
    make_head(&block.raw, 0x0F, 0), make_record_end(&block);
    CHECK_STR(inferred(), "const");
}

/* The tree of [{"a": 5}, {"a": 6}], byte for byte. */
TEST(test_tree_bytes) {
    static const uint8_t expected[] = {2, 0, 0, 0, 11, 0, 0, 0, 10, 0, 0, 0, 1,   0, 0, 0, 1, 0, 0, 0, 0, 0, 0,
                                       0, 3, 0, 0, 0,  0, 0, 0, 0,  3, 1, 0, 0,   0, 0, 0, 0, 0, 0, 0, 0, 3, 0,
                                       0, 0, 8, 0, 0,  0, 0, 0, 0,  0, 9, 1, 'a', 5, 0, 0, 0, 0, 0, 0, 0};
    rs_buffer bytes = {0};
    for (int64_t i = 5; i < 7; i++) {
        make_head(&block.raw, 0x0F, 1), make_str(&block.raw, "a"), make_int(&block.raw, i);
        make_record_end(&block);
    }
    REQUIRE_OK(infer(2, &bytes), &err);
    CHECK(bytes.size_bytes == sizeof expected && memcmp(bytes.data, expected, sizeof expected) == 0);
    rs_buffer_clear(&bytes);
    clear_infer();
    make_block_clear(&block);
}

static void add_array(uint64_t n) {
    make_array(&block.raw, n, 0);
    make_record_end(&block);
}

TEST(test_arrays) {
    add_array(2), add_array(3);
    CHECK_STR(inferred(), "ndarray");
    add_array(600), add_array(600); /* outside: no constant, and no body of fixed size */
    CHECK_STR(inferred(), "ndarray*");
    add_array(2), add_array(2);
    CHECK_STR(inferred(), "const");
}

static void add_ext(unsigned code, const char *name, int64_t payload) {
    make_ext(&block.raw, code, name), make_int(&block.raw, payload);
    make_record_end(&block);
}

TEST(test_ext) {
    add_ext(13, NULL, 5), add_ext(13, NULL, 6);
    CHECK_STR(inferred(), "ext13(int1+5)");
    add_ext(13, NULL, 5), add_ext(13, NULL, 5);
    CHECK_STR(inferred(), "const");
    add_ext(13, NULL, 5), add_ext(16, NULL, 6), add_ext(13, NULL, 6), add_ext(16, NULL, 7), add_int(1), add_int(2);
    CHECK_STR(inferred(), "union(ext13(int1+5), ext16(int1+6), int1+1)");
    add_ext(25, "A", 0), add_ext(25, "B", 0), add_ext(25, "A", 1), add_ext(25, "B", 2); /* EXTRA differs */
    CHECK_STR(inferred(), "union(ext25(int1+0), ext25(int2+0))");
    add_ext(25, "A", 0), add_ext(25, "A", 1), make_ext(&block.raw, 25, "A"), make_tag(&block.raw, 0),
        make_record_end(&block);
    CHECK_STR(inferred(), "ext25(optional(int1+0))");
}

/* Dicts within payloads: infer and encode ask for key sets in the order in which scan met them. */
TEST(test_ext_of_dicts) {
    for (int64_t i = 0; i < 2; i++) {
        make_head(&block.raw, 0x0F, 2);
        make_str(&block.raw, "x"), make_ext(&block.raw, 8, NULL);
        make_head(&block.raw, 0x0F, 1), make_str(&block.raw, "inner"), make_int(&block.raw, i);
        make_str(&block.raw, "y"), make_head(&block.raw, 0x0F, 1), make_str(&block.raw, "other"),
            make_int(&block.raw, i);
        make_record_end(&block);
    }
    CHECK_STR(inferred(), "struct(ext8(struct(int1+0)), struct(int1+0))");
}

/* A position has a limited number of classes. Objects of other classes are stored as `any`. */
TEST(test_many_classes) {
    char name[8];
    for (unsigned i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof name, "C%u", i);
        for (unsigned k = 0; k < 2; k++) add_ext(25, name, k);
    }
    (void)inferred();
    CHECK(strncmp(description, "union(ext25(int1+0), ", 21) == 0);
    CHECK_STR(description + description_size - 6, ", any)");
}

/* ---- Limits ---- */

/* Adds a text of repeated words and random letters. Positions of such texts should share one symbol table. */
static void add_text_of(unsigned seed) {
    static const char *const words[] = {"republic ", "kingdom ", "of the ", "united ", "island "};
    char text[64] = "";
    unsigned used = 0;
    for (unsigned i = 0; i < 4; i++) {
        used += (unsigned)snprintf(text + used, sizeof text - used, "%s%c%c", words[(seed * 7 + i * seed) % 5],
                                   (int)('a' + seed * (i + 3) % 23), (int)('a' + seed * (i + 11) % 19));
    }
    make_str(&block.raw, text);
}

/* Adds 19 random characters, from a separate generator so that they are the same in each run. */
static void add_letters(unsigned *state) {
    char letters[20] = "";
    for (unsigned k = 0; k < 19; k++)
        *state = *state * 1664525 + 1013904223, letters[k] = (char)(' ' + (*state >> 16) % 90);
    make_str(&block.raw, letters);
}

static void add_name(unsigned number) {
    char name[32];
    (void)snprintf(name, sizeof name, "frame_%u.video.jpeg", number);
    make_str(&block.raw, name);
}

/* Positions with little text share a symbol table. Text that it would hardly shrink stays plain. */
TEST(test_little_text) {
    static const char *const keys[] = {"a", "b", "c", "d"};
    unsigned random = 1;
    for (unsigned i = 0; i < 120; i++) {
        make_head(&block.raw, 0x0F, 5);
        for (unsigned k = 0; k < 4; k++) make_str(&block.raw, keys[k]), add_text_of(i * 4 + k + 1);
        make_str(&block.raw, "e"), add_letters(&random);
        make_record_end(&block);
    }
    tables_written = 0;
    CHECK_STR(inferred(), "struct(symbols, symbols, symbols, symbols, str1)");
    CHECK_U64(tables_written, 1);
    for (unsigned i = 0; i < 120; i++) { /* a table would save nothing, so none is written */
        make_head(&block.raw, 0x0F, 4);
        for (unsigned k = 0; k < 4; k++) make_str(&block.raw, keys[k]), add_letters(&random);
        make_record_end(&block);
    }
    tables_written = 0;
    CHECK_STR(inferred(), "struct(str1, str1, str1, str1)");
    CHECK_U64(tables_written, 0);
    for (unsigned i = 0; i < 100; i++) { /* a template fits all strings but a few, which do not get a table */
        make_head(&block.raw, 0x0F, 4);
        for (unsigned k = 0; k < 4; k++)
            make_str(&block.raw, keys[k]), i * 7 % 25 == k ? add_text_of(i) : add_name(i * 37);
        make_record_end(&block);
    }
    tables_written = 0;
    (void)inferred();
    CHECK(strncmp(description, "struct(union(concat(const, digits, const), str1), ", 50) == 0);
    CHECK_U64(tables_written, 0);
}

/* If a position has too many key sets, its dicts are stored as maps. If a key is not plain, a map cannot hold them, and
 * the dicts beyond the limit are stored as `any`. */
static void check_many_shapes(bool plain) {
    char key[8];
    for (unsigned i = 0; i < 300; i++) {
        for (unsigned k = 0; k < 2; k++) {
            (void)snprintf(key, sizeof key, "k%u", i);
            make_head(&block.raw, 0x0F, 1), make_str(&block.raw, key), make_int(&block.raw, k);
            make_record_end(&block);
        }
    }
    if (plain) {
        CHECK_STR(inferred(), "map(concat(const, digits), int1+0)");
        return;
    }
    make_head(&block.raw, 0x0F, 1), make_float(&block.raw, 0.5), make_int(&block.raw, 1);
    make_record_end(&block);
    (void)inferred();
    CHECK(strncmp(description, "union(struct(int1+0), ", 22) == 0);
    CHECK_STR(description + description_size - 6, ", any)");
}

TEST(test_many_shapes) {
    check_many_shapes(true);
    check_many_shapes(false);
}

/* Dicts of more keys than a tree may have nodes. */
TEST(test_many_keys) {
    char key[8];
    for (unsigned k = 0; k < 2; k++) {
        make_head(&block.raw, 0x0F, 5000);
        for (unsigned i = 0; i < 5000; i++) {
            (void)snprintf(key, sizeof key, "k%u", i);
            make_str(&block.raw, key), make_int(&block.raw, (int64_t)(i * (k + 1)));
        }
        make_record_end(&block);
    }
    CHECK_STR(inferred(), "map(concat(const, digits), int16+0)");
}

/* Returns whether record i has key k. About one record in `step` has it. */
static bool has_key(uint32_t i, uint32_t k, uint32_t step) { return ((i * 12 + k) * 2654435761u >> 16) % step == 0; }

/* Adds 3,000 records with up to 12 keys and the key "all". */
static void add_sparse(uint32_t step, bool text) {
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t count = 1;
        for (uint32_t k = 0; k < 12; k++) count += has_key(i, k, step);
        make_head(&block.raw, 0x0F, count);
        for (uint32_t k = 0; k < 12; k++) {
            char key[8];
            if (!has_key(i, k, step)) continue;
            (void)snprintf(key, sizeof key, "k%02u", k);
            make_str(&block.raw, key), make_int(&block.raw, (int64_t)(i * 2654435761u >> 20 & 0x7FF));
        }
        make_str(&block.raw, "all");
        if (text) make_str(&block.raw, i % 2 == 0 ? "even" : "odd and more");
        else make_int(&block.raw, (int64_t)(i % 2));
        make_record_end(&block);
    }
}

/* A rare value is stored in a body, a frequent one in the bit group. */
TEST(test_rare_keys) {
    add_sparse(6, true);
    CHECK(strstr(inferred(), "optional(union(int11") != NULL);
    add_sparse(6, false); /* a row gives up its fixed size if that saves most of its bytes */
    CHECK(strstr(inferred(), "optional(union(int11") != NULL);
    add_sparse(1, true);
    CHECK(strstr(inferred(), "union(int11") == NULL);
}

TEST(test_any_tree) {
    rs_buffer bytes = {0};
    rs_tree tree;
    REQUIRE_OK(rs_infer_any_tree(&bytes, &err), &err);
    REQUIRE_OK(make_compiled(&bytes, &tree, &err), &err);
    CHECK(bytes.size_bytes == 32 && tree.n_nodes == 1 && tree.nodes[0].kind == RS_FMT_NODE_ANY);
    rs_tree_clear(&tree);
    rs_buffer_clear(&bytes);
}

/* ---- Random blocks: every record fits the tree of its block; test_store.c reads such records back ---- */

static bool encode_one(const rs_tree *tree, rs_slice raw) {
    rs_buffer out = {0};
    bool ok = CHECK_OK(rs_encode_record(tree, raw, &block.scan, &out, &err), &err);
    rs_buffer_clear(&out);
    return ok;
}

static void check_random_block(uint32_t n, unsigned depth) {
    rs_buffer bytes = {0};
    rs_tree tree;
    for (uint32_t i = 0; i < n; i++) {
        make_random_value(&block.raw, depth);
        make_record_end(&block);
    }
    REQUIRE_OK(infer(n, &bytes), &err);
    REQUIRE_OK(make_compiled(&bytes, &tree, &err), &err);
    rs_links_apply(&links, &tree);
    block.scan.next = 0;
    for (uint32_t i = 0; i < n && encode_one(&tree, make_record(&block, i)); i++) {
    }
    CHECK_U64(block.scan.next, block.scan.n_key_sets);
    rs_tree_clear(&tree);
    rs_buffer_clear(&bytes);
    clear_infer();
    make_block_clear(&block);
}

/* Strings of 2-byte units with one pattern, and bytes. The n bytes of a bytes value equal the beginning of a string of
 * n units, and the rest of that string follows in memory. The value is still bytes. */
TEST(test_bytes_beside_parts) {
    enum { UNITS = 15, N = 400 };
    rs_buffer bytes = {0}, encoded[2] = {{0}, {0}};
    uint8_t memory[2 + 2 * UNITS], units[2 * UNITS], *exact;
    rs_tree tree;
    for (uint32_t i = 0; i < N; i++) {
        char text[UNITS];
        (void)snprintf(text, sizeof text, "/img_%u.jpg", 10000 + i * 7919 % 89989);
        for (uint32_t k = 0; k < UNITS; k++) rs_store_u16(units + 2 * k, k == 0 ? 0x0101 : (uint16_t)text[k - 1]);
        if (i % 4 == 0) make_units(&block.raw, 0x0C, 10 + i % 9, 1, (uint8_t)i);
        else make_tag(&block.raw, 0x0A), make_varint(&block.raw, UNITS), make_bytes(&block.raw, units, sizeof units);
        make_record_end(&block);
    }
    REQUIRE_OK(infer(block.n, &bytes), &err);
    REQUIRE_OK(make_compiled(&bytes, &tree, &err), &err);
    rs_links_apply(&links, &tree);
    description_size = 0, say_node(tree.nodes);
    CHECK(strstr(description, "concat") != NULL && strstr(description, "bytes") > strstr(description, "concat"));
    block.scan.next = 0;
    for (uint32_t i = 0; i < 2; i++) {
        memory[0] = 0x0C, memory[1] = UNITS;
        memcpy(memory + 2, units, sizeof units);
        if (i == 1) memset(memory + 2 + UNITS, 0, UNITS);
        exact = make_exact(memory, sizeof memory);
        CHECK_OK(rs_encode_record(&tree, rs_slice_of(exact, 2 + UNITS), &block.scan, &encoded[i], &err), &err);
        free(exact);
    }
    CHECK(encoded[0].size_bytes == encoded[1].size_bytes && encoded[0].size_bytes > UNITS);
    CHECK(memcmp(encoded[0].data, encoded[1].data, encoded[0].size_bytes) == 0);
    rs_tree_clear(&tree);
    clear_infer();
    make_block_clear(&block);
    rs_buffer_clear(&bytes), rs_buffer_clear(&encoded[0]), rs_buffer_clear(&encoded[1]);
}

/* A text too long to be cut does not fit the parts, whichever text was cut before it. */
TEST(test_too_long_for_parts) {
    rs_buffer bytes = {0}, out = {0};
    rs_tree tree;
    make_block fitting = {0}, longer = {0};
    for (unsigned i = 0; i < 600; i++) add_name(i * 37), make_record_end(&block);
    REQUIRE_OK(infer(block.n, &bytes), &err);
    REQUIRE_OK(make_compiled(&bytes, &tree, &err), &err);
    rs_links_apply(&links, &tree);
    CHECK(tree.nodes[0].kind == RS_FMT_NODE_CONCAT);
    make_str(&fitting.raw, "frame_10000.video.jpeg");
    for (unsigned i = 1; i <= 18; i++) {
        const rs_slice first = rs_slice_of(fitting.raw.data, fitting.raw.size_bytes);
        longer.raw.size_bytes = 0;
        make_units(&longer.raw, 0x09, RS_CUT_UNITS + i, 1, 'x');
        rs_status fitting_status = rs_encode_record(&tree, first, &block.scan, &out, &err);
        rs_status longer_status =
            rs_encode_record(&tree, rs_slice_of(longer.raw.data, longer.raw.size_bytes), &block.scan, &out, &err);
        CHECK_OK(fitting_status, &err);
        CHECK_CODE(longer_status, RS_E_ARG_RANGE, &err);
    }
    make_block_clear(&fitting), make_block_clear(&longer);
    rs_tree_clear(&tree);
    clear_infer();
    make_block_clear(&block);
    rs_buffer_clear(&bytes), rs_buffer_clear(&out);
}

TEST(test_random) {
    for (unsigned round = 0; round < 300; round++) check_random_block(1 + (uint32_t)make_random(60), round % 5);
    check_random_block(MAKE_RECORDS, 4);
}
