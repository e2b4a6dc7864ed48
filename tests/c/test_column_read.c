/* test_column_read.c: columns of whole stores in every order; stops; changed bytes and positions. */
#include <stdatomic.h>

#include "rs_sources.h"
#include "os/rs_os.h"
#include "columns/rs_column_read.h"

static rs_error err;
enum { N = 70000 };

/* {"i": i, "t": text, "w": [i / 2] * (i % 3), "o": None or i, "late": i, from 1000 on}: several blocks and key sets. */
RECORD(add) {
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

RECORD(add_fixed) {
    make_head(raw, 0x0F, 2);
    make_str(raw, "i"), make_int(raw, (int64_t)(i * i));
    make_str(raw, "w"), make_head(raw, 0x0D, 2), make_float(raw, (double)i / 3), make_float(raw, (double)i / 7);
}

static built b;
static sources s;

static rs_status open_field(const char *key) { return sources_open(&s, built_slice(&b), &key, 1, &err); }

/* Reads to the end or to a stop. If the stop is for a block, loads it and continues. */
static rs_status run(rs_column_read *got, const int64_t *positions, int64_t start, int64_t step, uint64_t n,
                     rs_column_read_stop *stop) {
    memset(stop, 0, sizeof *stop);
    for (;;) {
        RS_TRY(rs_column_read_run(got, &s.source, positions, start, step, n, stop, &err));
        if (stop->why != RS_COLUMN_READ_BLOCK) return RS_OK;
        RS_TRY(sources_load_block(&s, stop->block, &err));
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

/* Reads field `key` in an order and compares each value. */
static void check_order(const char *key, const int64_t *positions, int64_t start, int64_t step, uint64_t n) {
    rs_column_read got = {0};
    rs_column_read_stop stop;
    uint64_t k;
    bool ok = true;
    REQUIRE_OK(open_field(key), &err);
    CHECK_OK(rs_column_read_open(&got, n, key[0] == 'o', &err), &err);
    CHECK_OK(run(&got, positions, start, step, n, &stop), &err);
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
    sources_close(&s);
}

static void check_orders(bool compress) {
    static const char *const keys[] = {"i", "t", "w", "o"};
    static int64_t positions[5000];
    for (size_t k = 0; k < 5000; k++) positions[k] = (int64_t)make_random(N);
    b = build(add, N, compress);
    REQUIRE(b.data != NULL);
    for (size_t k = 0; k < 4; k++) {
        check_order(keys[k], NULL, 0, 1, N);
        check_order(keys[k], NULL, N - 1, -1, N);
        check_order(keys[k], NULL, 3, 17, 4000);
        check_order(keys[k], NULL, 66000, 1, 300);
        check_order(keys[k], positions, 0, 1, 5000);
        check_order(keys[k], positions, N - 1, -1, 5000);
    }
    built_clear(&b);
}

TEST(test_orders) { check_orders(true); }
TEST(test_orders_of_any) { check_orders(false); }

/* Reads rows of one size in equal steps from a store of two blocks. */
static void check_steps(int64_t start, int64_t step, uint64_t n) {
    rs_column_read got = {0};
    rs_column_read_stop stop;
    bool ok = true;
    REQUIRE_OK(open_field("w"), &err);
    CHECK_OK(rs_column_read_open(&got, n, true, &err), &err);
    CHECK_OK(run(&got, NULL, start, step, n, &stop), &err);
    CHECK(s.by_block[0] != NULL && rs_compiled_path_is_fixed(s.by_block[0]->of_field[0]) &&
          s.store.blocks[0].index_width == 0 && s.store.n_blocks == 2);
    CHECK(got.kind == RS_COLUMN_SEQUENCE && got.n == n && got.n_null == 0 && got.valid.size_bytes == n);
    for (uint64_t k = 0; ok && k < n; k++) {
        const double i = (double)(start + step * (int64_t)k);
        ok = rs_load_u64(got.offsets.data + 8 * k) == 2 * k && rs_load_f64(got.numbers.values.data + 16 * k) == i / 3 &&
             rs_load_f64(got.numbers.values.data + 16 * k + 8) == i / 7;
    }
    CHECK(ok);
    rs_column_read_clear(&got);
    sources_close(&s);
}

TEST(test_rows_of_one_size) {
    b = build(add_fixed, N, true);
    REQUIRE(b.data != NULL);
    check_steps(0, 1, N);
    check_steps(N - 1, -1, N);
    check_steps(1, 7, 9999);
    check_steps(N - 2, -7, 9999);
    check_steps(5, 0, 100);
    built_clear(&b);
}

enum { DRIFT_N = 140000, DRIFT_PART = 70000 };

/* {"b": bool, "c": one of few numbers, "f": float, "l": [float, float], "i": int, "m": int and later float,
 * "n": None or int}: each block has a tree of its own. */
RECORD(add_drifting) {
    const uint64_t part = i / DRIFT_PART;
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

/* Records in random order come from blocks of several trees. They give the same values as a read of all records in
 * order. */
static void check_drifting(const char *key, const int64_t *positions, uint64_t n) {
    rs_column_read all, got;
    rs_column_read_stop stop;
    uint64_t wrong = 0, item, count;
    memset(&all, 0, sizeof all), memset(&got, 0, sizeof got);
    REQUIRE_OK(open_field(key), &err);
    CHECK_OK(rs_column_read_open(&all, DRIFT_N, key[0] == 'n', &err), &err);
    CHECK_OK(run(&all, NULL, 0, 1, DRIFT_N, &stop), &err);
    CHECK_OK(rs_column_read_open(&got, n, key[0] == 'n', &err), &err);
    CHECK_OK(run(&got, positions, 0, 1, n, &stop), &err);
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
    sources_close(&s);
}

TEST(test_trees_in_turns) {
    static const char *const keys[] = {"b", "c", "f", "l", "i", "m", "n"};
    static int64_t positions[9000];
    for (unsigned k = 0; k < 9000; k++) positions[k] = (int64_t)make_random(DRIFT_N);
    positions[0] = DRIFT_N - 1, positions[8999] = DRIFT_N - 1; /* the last bytes of the heap */
    for (unsigned compress = 0; compress < 2; compress++) {
        b = build(add_drifting, DRIFT_N, compress);
        REQUIRE(b.data != NULL);
        for (unsigned k = 0; k < 7; k++) check_drifting(keys[k], positions, 9000);
        built_clear(&b);
    }
}

TEST(test_stops) {
    rs_column_read got;
    rs_column_read_stop stop;
    rs_cursor cursor;
    rs_place place = {NULL, NULL, 0};
    static const uint8_t nine[] = {0x99}, text[] = {0x09, 1, 'a'};
    bool fits;
    memset(&got, 0, sizeof got), memset(&cursor, 0, sizeof cursor);
    b = build(add, 2000, true);
    REQUIRE(b.data != NULL);
    REQUIRE_OK(open_field("late"), &err);
    CHECK_OK(rs_column_read_open(&got, 10, false, &err), &err);
    CHECK_OK(run(&got, NULL, 1005, -1, 10, &stop), &err);
    CHECK(stop.why == RS_COLUMN_READ_LACKING && stop.done == 6 && stop.index == 999 && got.n == 6);
    cursor.in = rs_slice_of(text, sizeof text);
    CHECK_OK(rs_column_read_take(&got, &cursor, &place, &fits, &err), &err);
    CHECK(!fits && got.n == 6);
    cursor.in = rs_slice_of(nine, 1);
    CHECK_OK(rs_column_read_take(&got, &cursor, &place, &fits, &err), &err);
    CHECK(fits && got.n == 7 && rs_load_u64(got.numbers.values.data + 48) == 9);
    got.missing = rs_slice_of(nine, 1);
    CHECK_OK(run(&got, NULL, 998, 1, 5, &stop), &err);
    CHECK(stop.why == RS_COLUMN_READ_DONE && got.n == 12);
    CHECK(rs_load_u64(got.numbers.values.data + 56) == 9 && rs_load_u64(got.numbers.values.data + 88) == 1002);
    got.missing = rs_slice_of(text, sizeof text);
    CHECK_OK(run(&got, NULL, 5, 1, 5, &stop), &err);
    CHECK(stop.why == RS_COLUMN_READ_OTHER && got.n == 12);
    rs_column_read_clear(&got);
    sources_close(&s);
    REQUIRE_OK(open_field("o"), &err);
    CHECK_OK(rs_column_read_open(&got, 10, false, &err), &err);
    CHECK_OK(run(&got, NULL, 1, 1, 10, &stop), &err);
    CHECK(stop.why == RS_COLUMN_READ_OTHER && stop.index == 4 && got.n == 3);
    rs_column_read_clear(&got);
    CHECK_CODE(rs_column_read_open(&got, UINT64_MAX, false, &err), RS_E_MEM, &err);
    sources_close(&s);
    built_clear(&b);
}

/* Changes bytes of the heap, offsets and groups at random: each read gives an error or values, and stays in bounds. */
TEST(test_damage) {
    static const char *const keys[] = {"i", "t", "w", "o"};
    built sound = build(add, 300, true);
    built_layout layout;
    REQUIRE(sound.data != NULL);
    built_read(&sound, &layout);
    for (unsigned round = 0; round < 400; round++) {
        rs_column_read got = {0};
        rs_column_read_stop stop;
        b.data = make_exact(sound.data, sound.size), b.size = sound.size;
        for (unsigned k = 0; k < 3; k++) {
            const uint64_t begin = RS_FMT_HEADER_SIZE, end = layout.directory.sections[RS_FMT_SECTION_BLOCKS].off;
            b.data[begin + make_random(end - begin)] = (uint8_t)make_random(256);
        }
        if (open_field(keys[round % 4]) == RS_OK) {
            if (rs_column_read_open(&got, 300, round % 8 > 3, &err) != RS_OK) abort();
            (void)run(&got, NULL, 299, -1, 300, &stop);
            CHECK(got.n <= 300 && stop.done <= 300);
            rs_column_read_clear(&got);
            sources_close(&s);
        }
        built_clear(&b);
    }
    built_clear(&sound);
}

/* ---- Positions out of range ---- */

TEST(test_positions_out_of_range) {
    static const int64_t wrong[] = {2000, 2001, -1, INT64_MIN, INT64_MAX, INT64_C(1) << 40};
    rs_column_read got;
    rs_column_read_stop stop;
    int64_t positions[300];
    b = build(add, 2000, true);
    REQUIRE(b.data != NULL);
    REQUIRE_OK(open_field("i"), &err);
    for (uint64_t at = 0; at < 300; at += 299) { /* the first of a window, and one within the second window */
        for (uint64_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            memset(&got, 0, sizeof got);
            for (uint64_t k = 0; k < 300; k++) positions[k] = (int64_t)(k * 7 % 2000);
            positions[at] = wrong[i];
            CHECK_OK(rs_column_read_open(&got, 300, false, &err), &err);
            CHECK_CODE(run(&got, positions, 0, 1, 300, &stop), RS_E_ARG_RANGE, &err);
            CHECK(stop.done == at && got.n == at);
            rs_column_read_clear(&got);
        }
    }
    memset(&got, 0, sizeof got);
    CHECK_OK(rs_column_read_open(&got, 10, false, &err), &err);
    CHECK_CODE(run(&got, NULL, 1995, 1, 10, &stop), RS_E_ARG_RANGE, &err);
    rs_column_read_clear(&got);
    memset(&got, 0, sizeof got);
    CHECK_OK(rs_column_read_open(&got, 10, false, &err), &err);
    CHECK_CODE(run(&got, NULL, INT64_MIN, INT64_MIN, 10, &stop), RS_E_ARG_RANGE, &err);
    rs_column_read_clear(&got);
    sources_close(&s), built_clear(&b);
}

/* Another thread writes to the positions while they are read: each read gives values or an error, or stops at a record
 * that lacks the field. */
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
    static int64_t positions[256];
    changing c = {positions, false};
    rs_os_thread thread;
    b = build(add, 2000, true);
    REQUIRE(b.data != NULL);
    REQUIRE_OK(open_field("late"), &err); /* the first 1,000 records lack it: reads stop at them */
    REQUIRE_OK(rs_os_thread_start(&thread, change, &c, &err), &err);
    for (unsigned round = 0; round < 2000; round++) {
        rs_column_read got = {0};
        rs_column_read_stop stop;
        CHECK_OK(rs_column_read_open(&got, 256, false, &err), &err);
        rs_status status = run(&got, positions, 0, 1, 256, &stop);
        if (!CHECK(status == RS_OK || status == RS_E_ARG_RANGE)) round = 2000;
        if (status == RS_OK && stop.why == RS_COLUMN_READ_LACKING && !CHECK(stop.index < 1000)) round = 2000;
        rs_column_read_clear(&got);
    }
    atomic_store(&c.stop, true);
    rs_os_thread_join(&thread);
    sources_close(&s), built_clear(&b);
}
