/* test_arrow_fields.c: exports of a field that some records lack, and of tuples. */
#include "rs_hand.h"
#include "rs_sources.h"

#include "rs_batches.h"

enum { N = 700, LACKING = 5 };

/* {"id": i, "k": k_of(i)}, without "k" in every seventh record, from number LACKING on. */
RECORD(add) {
    const bool lacks = i % 7 == LACKING;
    make_head(raw, 0x0F, lacks ? 1 : 2);
    make_str(raw, "id"), make_int(raw, (int64_t)i);
    if (!lacks) make_str(raw, "k"), make_int(raw, (int64_t)(i * 1001 % 5000) - 7);
}

static int64_t k_of(uint64_t i) { return (int64_t)(i * 1001 % 5000) - 7; }

/* An export of one field. Its path is compiled for each tree, as for other column reads. */
typedef struct field_export {
    batch_export o;
    rs_path_key key;
    rs_path_name name;
    rs_key_path path;
    rs_compiled_path compiled[SOURCES_TREES];
} field_export;

static field_export f;

static rs_status open_field(const built *b, const char *key) {
    memset(&f, 0, sizeof f);
    RS_TRY(open_over(&f.o, b));
    f.o.out.root->rows = false;
    f.key.units = (const uint8_t *)key, f.key.n = strlen(key), f.key.unit_bytes = 1;
    f.path.keys = &f.key, f.path.names = &f.name, f.path.n_keys = f.path.n_names = 1;
    return RS_OK;
}

static void close_field(void) {
    close_over(&f.o);
    for (unsigned t = 0; t < SOURCES_TREES; t++) rs_compiled_path_clear(&f.compiled[t]);
}

static rs_status run_field(uint64_t n, rs_arrow_stop *stop) {
    memset(stop, 0, sizeof *stop);
    for (;;) {
        const rs_store *store = &f.o.store;
        RS_TRY(rs_arrow_out_run(&f.o.out, &f.o.source, NULL, 0, 1, n, stop, &err));
        if (stop->why != RS_ARROW_BLOCK) return RS_OK;
        RS_TRY(rs_store_load_block(&f.o.store, stop->block, &err));
        uint32_t tree = store->blocks[stop->block].tree;
        rs_compiled_path *compiled = &f.compiled[tree];
        if (compiled->n_trees == 0) RS_TRY(sources_compile(compiled, &f.path, &store->trees[tree], &err));
        RS_TRY(rs_arrow_out_add_block(&f.o.out, &f.o.source, stop->block, compiled, &err));
    }
}

static rs_status read_field(uint64_t n, rs_arrow_stop *stop, struct ArrowArray *batch) {
    bool whole;
    RS_TRY(run_field(n, stop));
    RS_TRY(rs_arrow_out_resolve(&f.o.out, &whole, &err));
    CHECK(whole && stop->why == RS_ARROW_DONE);
    RS_TRY(rs_arrow_out_settle(&f.o.out, n, &err));
    RS_TRY(run_field(n, stop));
    return rs_arrow_out_batch(&f.o.out, 0, batch, &err);
}

/* Without a default the run stops at the first record that lacks the field. */
static void check_lacking(const built *b) {
    rs_arrow_stop stop;
    REQUIRE_OK(open_field(b, "k"), &err);
    CHECK_OK(run_field(N, &stop), &err);
    CHECK(stop.why == RS_ARROW_LACKING && stop.done == LACKING && stop.index == LACKING);
    CHECK(f.o.out.has_rest);
    close_field();
}

/* The default counts as a value of the field when its type is inferred. */
static void check_missing(const built *b, const uint8_t *missing, size_t size) {
    struct ArrowArray batch = {0};
    rs_arrow_stop stop;
    REQUIRE_OK(open_field(b, "k"), &err);
    f.o.out.missing = rs_slice_of(missing, size);
    if (CHECK_OK(read_field(N, &stop, &batch), &err)) {
        const bool is_float = *missing == RS_FMT_TAG_FLOAT;
        CHECK(f.o.out.has_rest && f.o.out.root->kind == (is_float ? RS_ARROW_KIND_FLOAT64 : RS_ARROW_KIND_INT64));
        for (uint64_t i = 0; i < N; i++) {
            const bool lacks = i % 7 == LACKING;
            const double got =
                is_float ? rs_load_f64((const uint8_t *)batch.buffers[1] + 8 * i) : (double)int_at(&batch, i);
            if (!CHECK(is_valid(&batch, i) == (is_float || !lacks))) break;
            if (is_valid(&batch, i) && !CHECK(got == (lacks ? 0.5 : (double)k_of(i)))) break;
        }
        batch.release(&batch);
    }
    close_field();
}

TEST(test_lacking) {
    static const uint8_t none[] = {RS_FMT_TAG_NONE}, half[] = {RS_FMT_TAG_FLOAT, 0, 0, 0, 0, 0, 0, 0xE0, 0x3F};
    for (unsigned compress = 0; compress < 2; compress++) {
        built b = build(add, N, compress == 1);
        REQUIRE(b.data != NULL);
        check_lacking(&b);
        check_missing(&b, none, sizeof none);
        check_missing(&b, half, sizeof half);
        built_clear(&b);
    }
}

/* If all records have the field and the tree gives its type, the records are not read. */
TEST(test_sure) {
    struct ArrowArray batch = {0};
    rs_arrow_stop stop;
    built b = build(add, N, true);
    REQUIRE(b.data != NULL);
    REQUIRE_OK(open_field(&b, "id"), &err);
    if (CHECK_OK(read_field(N, &stop, &batch), &err)) {
        CHECK(!f.o.out.has_rest && batch.length == N);
        for (uint64_t i = 0; i < N && CHECK(int_at(&batch, i) == (int64_t)i); i++) {
        }
        batch.release(&batch);
    }
    close_field();
    built_clear(&b);
}

/* A batch is full when it reaches batch_bytes, not one record later. */
TEST(test_full) {
    rs_arrow_stop stop;
    bool whole;
    uint64_t bytes = 0;
    built b = build(add, N, true);
    REQUIRE(b.data != NULL);
    for (uint64_t n = 0; n < 2; n++) {
        REQUIRE_OK(open_field(&b, "id"), &err);
        CHECK_OK(run_field(N, &stop), &err);
        CHECK_OK(rs_arrow_out_resolve(&f.o.out, &whole, &err), &err);
        CHECK_OK(rs_arrow_out_settle(&f.o.out, N, &err), &err);
        f.o.out.max_records = 1;
        if (n == 1) f.o.out.batch_bytes = bytes;
        CHECK_OK(run_field(n == 0 ? 5 : N, &stop), &err);
        CHECK_U64(stop.done, 5);
        CHECK(stop.why == (n == 0 ? RS_ARROW_DONE : RS_ARROW_FULL));
        bytes = rs_arrow_batch_bytes(f.o.out.root);
        close_field();
    }
    built_clear(&b);
}

/* ---- Tuples and objects ---- */

enum { LONG = 70 };

/* {"p": ((i, "a"), (2 * i, "b")), "t": a tuple of LONG ints, "d": an object with one field, i * i} */
RECORD(add_tuples) {
    make_head(raw, 0x0F, 3), make_str(raw, "p"), make_head(raw, 0x0E, 2);
    make_head(raw, 0x0E, 2), make_int(raw, (int64_t)i), make_str(raw, "a");
    make_head(raw, 0x0E, 2), make_int(raw, (int64_t)(2 * i)), make_str(raw, "b");
    make_str(raw, "t"), make_head(raw, 0x0E, LONG);
    for (uint64_t k = 0; k < LONG; k++) make_int(raw, (int64_t)((i + k) * 7919 % 1000));
    make_str(raw, "d"), make_ext(raw, 25, "name"), make_head(raw, 0x0E, 1), make_int(raw, (int64_t)(i * i));
}

static bool same_tuples(const struct ArrowArray *batch, uint64_t i) {
    const struct ArrowArray *pairs = batch->children[0]->children[0], *items = batch->children[1]->children[0];
    bool ok = int_at(pairs->children[0], 2 * i) == (int64_t)i && is_text(pairs->children[1], 2 * i, "a");
    ok = ok && int_at(pairs->children[0], 2 * i + 1) == (int64_t)(2 * i) && is_text(pairs->children[1], 2 * i + 1, "b");
    for (uint64_t k = 0; ok && k < LONG; k++) ok = int_at(items, LONG * i + k) == (int64_t)((i + k) * 7919 % 1000);
    return ok && int_at(batch->children[2]->children[0], i) == (int64_t)(i * i);
}

TEST(test_tuples) {
    for (unsigned compress = 0; compress < 2; compress++) {
        REQUIRE(open_built(&f.o, build(add_tuples, N, compress == 1)));
        if (CHECK_OK(read_table(&f.o, N), &err)) {
            CHECK_STR(f.o.schema.children[0]->format, "+l");
            CHECK_STR(f.o.schema.children[0]->children[0]->format, "+s");
            CHECK_STR(f.o.schema.children[1]->format, "+l");
            CHECK_STR(f.o.schema.children[2]->format, "+s");
            CHECK_STR(f.o.schema.children[2]->children[0]->name, "field");
            for (uint64_t i = 0; i < N && CHECK(same_tuples(&f.o.batch, i)); i++) {
            }
        }
        close_over(&f.o);
    }
}

/* {"t": (i, i % 2 == 1)}: a tuple whose items share one node. Each item has its own type. */
TEST(test_tuples_of_one_node) {
    static const make_node nodes[] = {{STRUCT, 0, 0, 1, 1, 8, 3, 0},
                                      {LIST, 1, 1, 1, 2, 0, 0, 2},
                                      {UNION, 0, 0, 2, 3, 0, 0, 0},
                                      {INT, 8, 0, 0, 0, 0, 8, 0},
                                      {BOOL, 0, 0, 0, 0, 0, 0, 0}};
    struct ArrowArray batch = {0};
    rs_arrow_stop stop;
    hand h = {0};
    built b;
    bool whole;
    (void)hand_tree(&h, nodes, 5, "\0\0\0\0\0\0\0\0\x09\1t", 11);
    for (uint8_t i = 0; i < 50; i++) {
        const uint8_t record[] = {2, i, i % 2};
        hand_record(&h, record, 3);
    }
    hand_finish(&h, 0);
    b.data = h.data, b.size = h.size;
    if (CHECK_OK(open_over(&f.o, &b), &err)) {
        CHECK_OK(infer(&f.o, 0, 1, 50, &whole), &err);
        if (!whole) { /* the tree allows more types than the records have */
            rs_arrow_out_infer_all(&f.o.out);
            CHECK_OK(infer(&f.o, 0, 1, 50, &whole), &err);
        }
        CHECK(whole);
        CHECK_OK(rs_arrow_out_settle(&f.o.out, 50, &err), &err);
        CHECK_OK(run(&f.o, NULL, 0, 1, 50, &stop), &err);
        if (CHECK_OK(rs_arrow_out_batch(&f.o.out, 0, &batch, &err), &err) && CHECK(batch.length == 50)) {
            const struct ArrowArray *items = batch.children[0];
            const uint8_t *bits = (const uint8_t *)items->children[1]->buffers[1];
            for (uint8_t i = 0; i < 50; i++) {
                if (!CHECK(int_at(items->children[0], i) == i && (bits[i / 8] >> i % 8 & 1) == i % 2)) break;
            }
            batch.release(&batch);
        }
        close_over(&f.o);
    }
    hand_clear(&h);
}

/* Records (a, b), two ints or two texts under one node: one item is exported, the other skipped. */
static void check_wanted_item(bool text, unsigned wanted) {
    static const char *const items[] = {"0", "1"};
    const make_node nodes[] = {{LIST, 1, 1, 1, 1, 0, 0, 2},
                               {text ? STR : INT, text ? 1 : 8, 0, 0, 0, 0, text ? 0 : 8, 0}};
    struct ArrowArray batch = {0};
    rs_arrow_field *item;
    hand h = {0};
    built b;
    (void)hand_tree(&h, nodes, 2, "\0\0\0\0\0\0\0\0", 8);
    for (uint8_t i = 0; i < 50; i++) {
        const uint8_t texts[] = {1, 'a', 2, 'b', 'c'}, ints[] = {i, i + 50};
        hand_record(&h, text ? texts : ints, text ? sizeof texts : sizeof ints);
    }
    hand_finish(&h, 0);
    b.data = h.data, b.size = h.size;
    REQUIRE_OK(open_over(&f.o, &b), &err);
    CHECK_OK(rs_arrow_field_child(f.o.out.root, items[wanted], 1, &item, &err), &err);
    f.o.out.root->closed = true;
    if (CHECK_OK(read(&f.o, NULL, 0, 1, 50, &batch), &err)) {
        const struct ArrowArray *one = batch.children[0];
        CHECK(batch.n_children == 1 && one->length == 50);
        for (uint8_t i = 0; i < 50; i++) {
            if (text && !CHECK(is_text(one, i, wanted == 0 ? "a" : "bc"))) break;
            if (!text && !CHECK(int_at(one, i) == (int64_t)i + (wanted == 0 ? 0 : 50))) break;
        }
        batch.release(&batch);
    }
    close_over(&f.o);
    hand_clear(&h);
}

TEST(test_wanted_items) {
    for (unsigned k = 0; k < 4; k++) check_wanted_item(k / 2 == 1, k % 2);
}
