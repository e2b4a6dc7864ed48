/* test_column_read.c: columns of whole stores in every order against the records that went in; why a pass stops; and that a store whose
 * bytes were changed gives values or a status. */
#include <stdatomic.h>

#include "rs_built.h"
#include "os/rs_os.h"
#include "columns/rs_column_read.h"

static rs_error err;
enum { N = 70000 };

/* {"i": i, "t": text, "w": [i / 2] * (i % 3), "o": None or i, "late": i, from 1000 on}: several blocks and key sets. */
static void add(uint64_t i, rs_buffer *raw, rs_buffer *arrays) {
    (void)arrays;
    make_head(raw, 0x0F, i < 1000 ? 4 : 5);
    make_str(raw, "i"), make_int(raw, (int64_t)i);
    make_str(raw, "t"), make_units(raw, 0x09, (size_t)(i % 5), 1, (uint8_t)('a' + i % 7));
    make_str(raw, "w"), make_head(raw, 0x0D, i % 3);
    for (uint64_t k = 0; k < i % 3; k++) make_float(raw, (double)i / 2);
    make_str(raw, "o");
    if (i % 4 == 0) make_tag(raw, 0);
    else make_int(raw, (int64_t)i);
    if (i >= 1000) make_str(raw, "late"), make_int(raw, (int64_t)i);
}

static void add_fixed(uint64_t i, rs_buffer *raw, rs_buffer *arrays) {
    (void)arrays;
    make_head(raw, 0x0F, 2);
    make_str(raw, "i"), make_int(raw, (int64_t)(i * i));
    make_str(raw, "w"), make_head(raw, 0x0D, 2), make_float(raw, (double)i / 3), make_float(raw, (double)i / 7);
}

/* A store with a source over it, the key looked up in every struct by its `any` bytes. */
typedef struct opened {
    built b;
    rs_store store;
    rs_source source;
    rs_path_key key;
    rs_path_name name;
    rs_key_path path;
    rs_compiled_path compiled_paths[64]; /* by tree */
    const rs_compiled_path *of_field[64];
    rs_tree_paths paths[64];
    uint32_t order;
    const rs_tree_paths *by_block[64];
} opened;

static rs_status open_over(opened *o, const char *key) {
    memset(&o->source, 0, sizeof o->source), memset(o->compiled_paths, 0, sizeof o->compiled_paths),
        memset(o->by_block, 0, sizeof o->by_block);
    o->key.units = (const uint8_t *)key, o->key.n = strlen(key), o->key.unit_bytes = 1, o->key.is_index = false;
    memset(&o->name, 0, sizeof o->name);
    o->path.keys = &o->key, o->path.names = &o->name, o->path.n_keys = 1, o->path.n_names = 1;
    RS_TRY(rs_store_open(&o->store, built_slice(&o->b), NULL, &err));
    o->source.store = &o->store, o->source.of_block = o->by_block;
    if (o->store.n_blocks > 64 || o->store.n_trees > 64) abort();
    return RS_OK;
}

static void close_over(opened *o) {
    for (unsigned i = 0; i < 64; i++) rs_compiled_path_clear(&o->compiled_paths[i]);
    rs_store_close(&o->store);
}

/* Loads a block and compiles its path, as the Python binding does when the read stops at it. */
static rs_status know(opened *o, uint64_t block) {
    const rs_tree *tree;
    rs_compiled_path *compiled;
    RS_TRY(rs_store_load_block(&o->store, block, &err));
    uint32_t number = o->store.blocks[block].tree;
    tree = &o->store.trees[number], compiled = &o->compiled_paths[number];
    if (compiled->n_trees == 0) {
        RS_TRY(rs_compiled_path_open(compiled, &o->path, tree, &err));
        for (uint32_t i = 0; i < tree->n_nodes; i++) {
            const rs_node *node = &tree->nodes[i];
            const uint8_t *at = node->aux;
            if (node->kind != RS_FMT_NODE_STRUCT) continue;
            rs_compiled_path_set(compiled, 0, 0, i, RS_STEP_NONE);
            for (uint32_t k = 0; k < node->n_children; k++, at += 2 + at[1]) {
                if (at[1] == o->key.n && memcmp(at + 2, o->key.units, at[1]) == 0)
                    rs_compiled_path_set(compiled, 0, 0, i, (int32_t)k);
            }
        }
        rs_compiled_path_prepare(compiled);
    }
    o->of_field[number] = compiled;
    rs_tree_paths_set(&o->paths[number], &o->of_field[number], &o->order, 1);
    o->by_block[block] = &o->paths[number];
    return RS_OK;
}

/* Runs to the end, or to a stop that `know` does not settle. */
static rs_status run(opened *o, rs_column_read *got, const int64_t *positions, int64_t start, int64_t step, uint64_t n,
                     rs_column_read_stop *stop) {
    memset(stop, 0, sizeof *stop);
    for (;;) {
        RS_TRY(rs_column_read_run(got, &o->source, positions, start, step, n, stop, &err));
        if (stop->why != RS_COLUMN_READ_BLOCK) return RS_OK;
        RS_TRY(know(o, stop->block));
    }
}

static bool same_floats(const rs_column_read *g, uint64_t k, uint64_t i) {
    uint64_t begin = rs_load_u64(g->offsets.data + 8 * k), end = rs_load_u64(g->offsets.data + 8 * k + 8);
    bool ok = end - begin == i % 3;
    for (uint64_t j = begin; ok && j < end; j++) ok = rs_load_f64(g->numbers.values.data + 8 * j) == (double)i / 2;
    return ok;
}

static bool same_text(const rs_column_read *g, uint64_t k, uint64_t i) {
    uint64_t begin = rs_load_u64(g->offsets.data + 8 * k), end = rs_load_u64(g->offsets.data + 8 * k + 8);
    bool ok = end - begin == i % 5;
    for (uint64_t j = begin; ok && j < end; j++) ok = g->text.data[j] == 'a' + i % 7;
    return ok;
}

/* Reads field `key` in an order and compares each. */
static void check_order(opened *o, const char *key, const int64_t *positions, int64_t start, int64_t step, uint64_t n) {
    rs_column_read got = {0};
    rs_column_read_stop stop;
    uint64_t k;
    bool ok = true;
    REQUIRE_OK(open_over(o, key), &err);
    CHECK_OK(rs_column_read_open(&got, n, key[0] == 'o', &err), &err);
    CHECK_OK(run(o, &got, positions, start, step, n, &stop), &err);
    CHECK(stop.why == RS_COLUMN_READ_DONE && stop.done == n && got.n == n);
    for (k = 0; ok && k < n; k++) {
        uint64_t i = (uint64_t)(start + step * (positions == NULL ? (int64_t)k : positions[k]));
        if (key[0] == 't') ok = same_text(&got, k, i);
        else if (key[0] == 'w') ok = same_floats(&got, k, i);
        else if (key[0] == 'i') ok = rs_load_u64(got.numbers.values.data + 8 * k) == i;
        else
            ok = got.valid.data[k] == (i % 4 != 0) &&
                 rs_load_u64(got.numbers.values.data + 8 * k) == (i % 4 == 0 ? 0 : i);
    }
    if (!CHECK(ok)) (void)fprintf(stderr, "    %s, %llu\n", key, (unsigned long long)k);
    rs_column_read_clear(&got);
    close_over(o);
}

static void check_orders(bool compress) {
    static const char *const keys[] = {"i", "t", "w", "o"};
    static int64_t positions[5000];
    static opened o;
    for (size_t k = 0; k < 5000; k++) positions[k] = (int64_t)make_random(N);
    o.b = build(add, N, compress);
    REQUIRE(o.b.data != NULL);
    for (size_t k = 0; k < 4; k++) {
        check_order(&o, keys[k], NULL, 0, 1, N);
        check_order(&o, keys[k], NULL, N - 1, -1, N);
        check_order(&o, keys[k], NULL, 3, 17, 4000);
        check_order(&o, keys[k], NULL, 66000, 1, 300);
        check_order(&o, keys[k], positions, 0, 1, 5000);
        check_order(&o, keys[k], positions, N - 1, -1, 5000);
    }
    built_clear(&o.b);
}

TEST(test_orders) { check_orders(true); }
TEST(test_orders_of_any) { check_orders(false); }

/* Rows of one size in equal steps, over the end of a block. */
static void check_steps(opened *o, int64_t start, int64_t step, uint64_t n) {
    rs_column_read got = {0};
    rs_column_read_stop stop;
    bool ok = true;
    REQUIRE_OK(open_over(o, "w"), &err);
    CHECK_OK(rs_column_read_open(&got, n, true, &err), &err);
    CHECK_OK(run(o, &got, NULL, start, step, n, &stop), &err);
    CHECK(o->by_block[0] != NULL && rs_compiled_path_is_fixed(o->by_block[0]->of_field[0]) &&
          o->store.blocks[0].index_width == 0 && o->store.n_blocks == 2);
    CHECK(got.kind == RS_COLUMN_SEQUENCE && got.n == n && got.n_null == 0 && got.valid.size_bytes == n);
    for (uint64_t k = 0; ok && k < n; k++) {
        const double i = (double)(start + step * (int64_t)k);
        ok = rs_load_u64(got.offsets.data + 8 * k) == 2 * k && rs_load_f64(got.numbers.values.data + 16 * k) == i / 3 &&
             rs_load_f64(got.numbers.values.data + 16 * k + 8) == i / 7;
    }
    CHECK(ok);
    rs_column_read_clear(&got);
    close_over(o);
}

TEST(test_rows_of_one_size) {
    static opened o;
    o.b = build(add_fixed, N, true);
    REQUIRE(o.b.data != NULL);
    check_steps(&o, 0, 1, N);
    check_steps(&o, N - 1, -1, N);
    check_steps(&o, 1, 7, 9999);
    check_steps(&o, N - 2, -7, 9999);
    check_steps(&o, 5, 0, 100);
    built_clear(&o.b);
}

enum { DRIFT_N = 140000, DRIFT_PART = 70000 };

/* {"b": bool, "c": one of few numbers, "f": float, "l": [float, float], "m": int and later float, "n": None or int}: each
 * block has a tree of its own. */
static void add_drifting(uint64_t i, rs_buffer *raw, rs_buffer *arrays) {
    const uint64_t part = i / DRIFT_PART;
    (void)arrays;
    make_head(raw, 0x0F, 7);
    make_str(raw, "b"), make_tag(raw, i % 3 == 0 ? 2 : 1);
    make_str(raw, "c"), make_int(raw, (int64_t)(i * i % 37 * 1000003) - 50);
    make_str(raw, "f"), make_float(raw, part == 0 ? (double)i / 3 : (double)(i % 1000) / 10);
    make_str(raw, "l"), make_head(raw, 0x0D, 2);
    make_float(raw, part == 0 ? (double)i / 10 : (double)i / 7), make_float(raw, (double)(i % 640));
    make_str(raw, "i"), make_int(raw, (int64_t)(i << (part * 20)));
    make_str(raw, "m");
    if (part == 0) make_int(raw, (int64_t)i);
    else make_float(raw, (double)i + 0.5);
    make_str(raw, "n");
    if (i % 50 == 0) make_tag(raw, 0);
    else make_int(raw, (int64_t)i);
}

/* Records in random order come from blocks of several trees. They give what all records in order give. */
static void check_drifting(opened *o, const char *key, const int64_t *positions, uint64_t n) {
    rs_column_read all, got;
    rs_column_read_stop stop;
    uint64_t wrong = 0, item, count;
    memset(&all, 0, sizeof all), memset(&got, 0, sizeof got);
    REQUIRE_OK(open_over(o, key), &err);
    CHECK_OK(rs_column_read_open(&all, DRIFT_N, key[0] == 'n', &err), &err);
    CHECK_OK(run(o, &all, NULL, 0, 1, DRIFT_N, &stop), &err);
    CHECK_OK(rs_column_read_open(&got, n, key[0] == 'n', &err), &err);
    CHECK_OK(run(o, &got, positions, 0, 1, n, &stop), &err);
    CHECK(stop.why == RS_COLUMN_READ_DONE && got.n == n && got.kind == all.kind &&
          got.numbers.seen == all.numbers.seen);
    item = all.numbers.values.size_bytes / DRIFT_N, count = got.kind == RS_COLUMN_SEQUENCE ? 2 : 1;
    CHECK_U64(got.numbers.values.size_bytes, item * n);
    for (uint64_t k = 0; k < n; k++) {
        wrong += memcmp(got.numbers.values.data + k * item, all.numbers.values.data + (uint64_t)positions[k] * item,
                        item) != 0;
        if (count == 2) wrong += rs_load_u64(got.offsets.data + 8 * k) != 2 * k;
        if (got.nulls) wrong += got.valid.data[k] != all.valid.data[positions[k]];
    }
    if (!CHECK_U64(wrong, 0)) (void)fprintf(stderr, "    %s\n", key);
    rs_column_read_clear(&all), rs_column_read_clear(&got);
    close_over(o);
}

TEST(test_trees_in_turns) {
    static const char *const keys[] = {"b", "c", "f", "l", "i", "m", "n"};
    static int64_t positions[9000];
    static opened o;
    for (unsigned k = 0; k < 9000; k++) positions[k] = (int64_t)make_random(DRIFT_N);
    positions[0] = DRIFT_N - 1, positions[8999] = DRIFT_N - 1; /* the last bytes of the heap */
    for (unsigned compress = 0; compress < 2; compress++) {
        o.b = build(add_drifting, DRIFT_N, compress);
        REQUIRE(o.b.data != NULL);
        for (unsigned k = 0; k < 7; k++) check_drifting(&o, keys[k], positions, 9000);
        built_clear(&o.b);
    }
}

TEST(test_stops) {
    static opened o;
    rs_column_read got;
    rs_column_read_stop stop;
    rs_cursor cursor;
    rs_place place = {NULL, NULL, 0};
    static const uint8_t nine[] = {0x99}, text[] = {0x09, 1, 'a'};
    bool fits;
    memset(&got, 0, sizeof got), memset(&cursor, 0, sizeof cursor);
    o.b = build(add, 2000, true);
    REQUIRE(o.b.data != NULL);
    REQUIRE_OK(open_over(&o, "late"), &err);
    CHECK_OK(rs_column_read_open(&got, 10, false, &err), &err);
    CHECK_OK(run(&o, &got, NULL, 1005, -1, 10, &stop), &err);
    CHECK(stop.why == RS_COLUMN_READ_LACKING && stop.done == 6 && stop.index == 999 && got.n == 6);
    cursor.in = rs_slice_of(text, sizeof text);
    CHECK_OK(rs_column_read_take(&got, &cursor, &place, &fits, &err), &err);
    CHECK(!fits && got.n == 6);
    cursor.in = rs_slice_of(nine, 1);
    CHECK_OK(rs_column_read_take(&got, &cursor, &place, &fits, &err), &err);
    CHECK(fits && got.n == 7 && rs_load_u64(got.numbers.values.data + 48) == 9);
    got.missing = rs_slice_of(nine, 1);
    CHECK_OK(run(&o, &got, NULL, 998, 1, 5, &stop), &err);
    CHECK(stop.why == RS_COLUMN_READ_DONE && got.n == 12);
    CHECK(rs_load_u64(got.numbers.values.data + 56) == 9 && rs_load_u64(got.numbers.values.data + 88) == 1002);
    got.missing = rs_slice_of(text, sizeof text);
    CHECK_OK(run(&o, &got, NULL, 5, 1, 5, &stop), &err);
    CHECK(stop.why == RS_COLUMN_READ_OTHER && got.n == 12);
    rs_column_read_clear(&got);
    close_over(&o);
    REQUIRE_OK(open_over(&o, "o"), &err);
    CHECK_OK(rs_column_read_open(&got, 10, false, &err), &err);
    CHECK_OK(run(&o, &got, NULL, 1, 1, 10, &stop), &err);
    CHECK(stop.why == RS_COLUMN_READ_OTHER && stop.index == 4 && got.n == 3);
    rs_column_read_clear(&got);
    CHECK_CODE(rs_column_read_open(&got, UINT64_MAX, false, &err), RS_E_MEM, &err);
    close_over(&o);
    built_clear(&o.b);
}

/* Bytes of heap, offsets and groups changed at random: a status or values, within bounds. */
TEST(test_damage) {
    static const char *const keys[] = {"i", "t", "w", "o"};
    static opened o;
    built sound = build(add, 300, true);
    built_layout layout;
    REQUIRE(sound.data != NULL);
    built_read(&sound, &layout);
    for (unsigned round = 0; round < 400; round++) {
        rs_column_read got = {0};
        rs_column_read_stop stop;
        o.b.data = make_exact(sound.data, sound.size), o.b.size = sound.size;
        for (unsigned k = 0; k < 3; k++) {
            uint64_t end = layout.directory.sections[RS_FMT_SECTION_BLOCKS].off;
            o.b.data[4096 + make_random(end - 4096)] = (uint8_t)make_random(256);
        }
        if (open_over(&o, keys[round % 4]) == RS_OK) {
            if (rs_column_read_open(&got, 300, round % 8 > 3, &err) != RS_OK) abort();
            (void)run(&o, &got, NULL, 299, -1, 300, &stop);
            CHECK(got.n <= 300 && stop.done <= 300);
            rs_column_read_clear(&got);
            close_over(&o);
        }
        built_clear(&o.b);
    }
    built_clear(&sound);
}

/* ---- Positions that are no records ---- */

TEST(test_positions_out_of_range) {
    static const int64_t wrong[] = {2000, 2001, -1, INT64_MIN, INT64_MAX, INT64_C(1) << 40};
    static opened o;
    rs_column_read got;
    rs_column_read_stop stop;
    int64_t positions[300];
    o.b = build(add, 2000, true);
    REQUIRE(o.b.data != NULL);
    REQUIRE_OK(open_over(&o, "i"), &err);
    for (uint64_t at = 0; at < 300; at += 299) { /* the first of a window, and one in the middle of the second */
        for (uint64_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            memset(&got, 0, sizeof got);
            for (uint64_t k = 0; k < 300; k++) positions[k] = (int64_t)(k * 7 % 2000);
            positions[at] = wrong[i];
            CHECK_OK(rs_column_read_open(&got, 300, false, &err), &err);
            CHECK_CODE(run(&o, &got, positions, 0, 1, 300, &stop), RS_E_ARG_RANGE, &err);
            CHECK(stop.done == at && got.n == at);
            rs_column_read_clear(&got);
        }
    }
    memset(&got, 0, sizeof got);
    CHECK_OK(rs_column_read_open(&got, 10, false, &err), &err);
    CHECK_CODE(run(&o, &got, NULL, 1995, 1, 10, &stop), RS_E_ARG_RANGE, &err);
    rs_column_read_clear(&got);
    memset(&got, 0, sizeof got);
    CHECK_OK(rs_column_read_open(&got, 10, false, &err), &err);
    CHECK_CODE(run(&o, &got, NULL, INT64_MIN, INT64_MIN, 10, &stop), RS_E_ARG_RANGE, &err);
    rs_column_read_clear(&got);
    close_over(&o), built_clear(&o.b);
}

/* Another thread writes to the positions while they are read: values or a status, and no index beyond the records. */
typedef struct changing {
    volatile int64_t *positions;
    atomic_bool stop;
} changing;

static void change(void *argument) {
    changing *c = (changing *)argument;
    for (uint64_t i = 0; !atomic_load(&c->stop); i++)
        c->positions[i % 256] = i % 3 == 0 ? INT64_C(1) << 40 : (int64_t)(i % 2000);
}

TEST(test_positions_that_change) {
    static opened o;
    static int64_t positions[256];
    changing c = {positions, false};
    rs_os_thread thread;
    o.b = build(add, 2000, true);
    REQUIRE(o.b.data != NULL);
    REQUIRE_OK(open_over(&o, "late"), &err); /* which the first 1,000 records lack: a stop says where */
    REQUIRE_OK(rs_os_thread_start(&thread, change, &c, &err), &err);
    for (unsigned round = 0; round < 2000; round++) {
        rs_column_read got = {0};
        rs_column_read_stop stop;
        CHECK_OK(rs_column_read_open(&got, 256, false, &err), &err);
        rs_status status = run(&o, &got, positions, 0, 1, 256, &stop);
        if (!CHECK(status == RS_OK || status == RS_E_ARG_RANGE)) round = 2000;
        if (status == RS_OK && stop.why == RS_COLUMN_READ_LACKING && !CHECK(stop.index < 1000)) round = 2000;
        rs_column_read_clear(&got);
    }
    atomic_store(&c.stop, true);
    rs_os_thread_join(&thread);
    close_over(&o), built_clear(&o.b);
}
