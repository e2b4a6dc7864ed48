/* test_gather_columns.c: columns over blocks of several trees, in every order; stops; positions that are wrong or
 * change. */
#include <stdatomic.h>

#include "rs_sources.h"
#include "os/rs_os.h"
#include "columns/rs_gather.h"

static rs_error err;

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

/* {"l": [i / 2, i / 2]}: rows of one size, which need no offsets. */
RECORD(add_fixed) {
    make_head(raw, 0x0F, 1), make_str(raw, "l"), make_head(raw, 0x0D, 2);
    make_float(raw, (double)i / 2), make_float(raw, (double)i / 2);
}

static built b;
static sources s;

static rs_status open_field(const char *key) { return sources_open(&s, built_slice(&b), &key, 1, &err); }

/* The column of a read, and its specification. */
typedef struct column {
    rs_gather core;
    rs_gather_spec spec;
    const rs_gather_field *field;
} column;

static rs_status begin(column *self, unsigned form, uint64_t n) {
    memset(self, 0, sizeof *self);
    self->spec.form = form, self->spec.row_numbers = 1;
    RS_TRY(rs_gather_open(&self->core, &self->spec, 1, &err));
    self->field = self->core.fields;
    return rs_gather_begin(&self->core, n, &err);
}

/* Reads to the end or to a stop. If the stop is for a block, loads it and continues. */
static rs_status run(column *got, const int64_t *positions, int64_t start, int64_t step, uint64_t n) {
    for (;;) {
        RS_TRY(rs_gather_measure(&got->core, &s.source, positions, start, step, n, &err));
        if (got->core.stop.why != RS_GATHER_BLOCK) return RS_OK;
        RS_TRY(sources_load_block(&s, got->core.stop.block, &err));
    }
}

static uint64_t end_of(const column *got, uint64_t k) { return rs_load_u64(got->field->ends.data + 8 * k); }

static unsigned form_of(const char *key) {
    return strchr("tlw", key[0]) == NULL ? RS_GATHER_NUMBERS : key[0] == 't' ? RS_GATHER_STRINGS : RS_GATHER_LISTS;
}

enum { N = 4000, PART = 2000 };

static bool after_part(uint64_t i) { return i % PART == PART - 1; }

/* Returns whether value k of a column is that of record i. */
static bool same_value(const column *got, const char *key, uint64_t k, uint64_t i) {
    const uint8_t *numbers = got->field->column.values.data;
    if (key[0] == 'i') return rs_load_u64(numbers + 8 * k) == i;
    const uint64_t first = end_of(got, k), end = end_of(got, k + 1);
    bool ok = end - first == (key[0] == 'l' ? 2 : i % (key[0] == 't' ? 5 : 3));
    for (uint64_t j = first; ok && j < end; j++) {
        ok = key[0] == 't' ? got->field->values.data[j] == 'a' + i % 7 : rs_load_f64(numbers + 8 * j) == (double)i / 2;
    }
    return ok;
}

/* Steps forward, backward and in place, and positions, cross from block to block. */
TEST(test_orders) {
    static const char *const keys[] = {"i", "t", "w", "l"};
    static int64_t positions[N];
    const struct {
        const int64_t *positions;
        int64_t start, step;
        uint64_t n;
    } orders[] = {{NULL, 0, 1, N},      {NULL, N - 1, -1, N}, {NULL, 3, 17, 235},       {NULL, N - 2, -7, 571},
                  {NULL, PART, 0, 100}, {positions, 0, 1, N}, {positions, N - 1, -1, N}};
    for (unsigned k = 0; k < N; k++) positions[k] = (int64_t)make_random(N);
    for (unsigned way = 0; way < 8; way++) {
        const char *key = keys[way / 2];
        b = build_blocks(key[0] == 'l' ? add_fixed : add, N, after_part, way % 2 == 0);
        REQUIRE(b.data != NULL);
        REQUIRE_OK(open_field(key), &err);
        EACH (at, orders) {
            column got;
            uint64_t wrong = 0;
            CHECK_OK(begin(&got, form_of(key), orders[at].n), &err);
            CHECK_OK(run(&got, orders[at].positions, orders[at].start, orders[at].step, orders[at].n), &err);
            CHECK(got.core.stop.why == RS_GATHER_DONE && got.core.done == orders[at].n);
            for (uint64_t k = 0; k < got.field->done; k++) {
                const int64_t step = orders[at].positions == NULL ? (int64_t)k : positions[k];
                wrong += !same_value(&got, key, k, (uint64_t)(orders[at].start + orders[at].step * step));
            }
            CHECK_U64(got.field->done, orders[at].n);
            CHECK_U64(wrong, 0);
            rs_gather_close(&got.core);
        }
        CHECK(s.store.n_blocks == 2 && (s.store.blocks[0].index_width == 0) == (key[0] == 'l'));
        CHECK(way != 6 || rs_compiled_path_is_fixed(s.by_block[0]->of_field[0]));
        sources_close(&s), built_clear(&b);
    }
}

/* {"b": bool, "c": one of few numbers, "f": float, "l": [float, float], "i": int, "m": int and later float}:
 * each block has a tree of its own. */
RECORD(add_drifting) {
    const uint64_t part = i / PART;
    make_head(raw, 0x0F, 6);
    make_str(raw, "b"), make_tag(raw, i % 3 == 0 ? 2 : 1);
    make_str(raw, "c"), make_int(raw, (int64_t)(i * i % 37 * 1000003) - 50);
    make_str(raw, "f"), make_float(raw, part == 0 ? (double)i / 3 : (double)(i % 1000) / 10);
    make_str(raw, "l"), make_head(raw, 0x0D, 2);
    make_float(raw, part == 0 ? (double)i / 10 : (double)i / 7), make_float(raw, (double)(i % 640));
    make_str(raw, "i"), make_int(raw, (int64_t)(i << (part * 20)));
    make_str(raw, "m");
    if (part == 0) make_int(raw, (int64_t)i);
    else make_float(raw, (double)i + 0.5);
}

/* Records in random order, or in steps, come from blocks of several trees. They give the same values as a read of all
 * records in order. */
static void check_drifting(const char *key, const int64_t *positions, int64_t start, int64_t step, uint64_t n) {
    column all, got;
    uint64_t wrong = 0, count = key[0] == 'l' ? 2 : 1;
    REQUIRE_OK(open_field(key), &err);
    CHECK_OK(begin(&all, form_of(key), N), &err);
    CHECK_OK(run(&all, NULL, 0, 1, N), &err);
    CHECK_OK(begin(&got, form_of(key), n), &err);
    CHECK_OK(run(&got, positions, start, step, n), &err);
    const rs_column *numbers = &got.field->column, *in_order = &all.field->column;
    CHECK(got.core.stop.why == RS_GATHER_DONE && got.field->done == n && numbers->seen == in_order->seen);
    const uint64_t item = count * rs_column_item_bytes(numbers);
    CHECK_U64(numbers->values.size_bytes, item * n);
    for (uint64_t k = 0; k < n; k++) {
        const int64_t i = start + step * (positions == NULL ? (int64_t)k : positions[k]);
        const uint8_t *expected = in_order->values.data + (uint64_t)i * item;
        wrong += memcmp(numbers->values.data + k * item, expected, (size_t)item) != 0;
        if (count == 2) wrong += end_of(&got, k) != 2 * k;
    }
    if (!CHECK_U64(wrong, 0)) (void)fprintf(stderr, "    %s\n", key);
    rs_gather_close(&all.core), rs_gather_close(&got.core);
    sources_close(&s);
}

TEST(test_trees_in_turns) {
    static const char *const keys[] = {"b", "c", "f", "l", "i", "m"};
    static int64_t positions[9000];
    for (unsigned k = 0; k < 9000; k++) positions[k] = (int64_t)make_random(N);
    positions[0] = N - 1, positions[8999] = N - 1; /* the last bytes of the heap */
    for (unsigned compress = 0; compress < 2; compress++) {
        b = build_blocks(add_drifting, N, after_part, compress);
        REQUIRE(b.data != NULL);
        for (unsigned k = 0; k < 6; k++) {
            check_drifting(keys[k], positions, 0, 1, 9000);
            check_drifting(keys[k], NULL, N - 1, -1, N);
            check_drifting(keys[k], NULL, N - 2, -7, 571);
        }
        built_clear(&b);
    }
}

TEST(test_stops) {
    column got;
    rs_cursor cursor;
    rs_place place = {NULL, NULL, 0};
    static const uint8_t nine[] = {0x99}, text[] = {0x09, 1, 'a'};
    const rs_gather_stop *stop = &got.core.stop;
    memset(&cursor, 0, sizeof cursor);
    b = build(add, 2000, true);
    REQUIRE(b.data != NULL);
    REQUIRE_OK(open_field("late"), &err);
    CHECK_OK(begin(&got, RS_GATHER_NUMBERS, 10), &err);
    CHECK_OK(run(&got, NULL, 1005, -1, 10), &err);
    CHECK(stop->why == RS_GATHER_LACKING && stop->record == 6 && stop->index == 999 && got.field->done == 6);
    cursor.in = rs_slice_of(text, sizeof text);
    CHECK_OK(rs_gather_take(&got.core, &cursor, &place, &err), &err);
    CHECK(stop->why == RS_GATHER_KIND && got.field->done == 6);
    cursor.in = rs_slice_of(nine, 1);
    CHECK_OK(rs_gather_take(&got.core, &cursor, &place, &err), &err);
    CHECK(stop->why == RS_GATHER_DONE && got.field->done == 7);
    got.spec.absent = rs_slice_of(nine, 1);
    CHECK_OK(run(&got, NULL, 1005, -1, 10), &err);
    CHECK(stop->why == RS_GATHER_DONE && got.field->done == 10);
    for (uint64_t k = 0; k < 10; k++)
        CHECK_U64(rs_load_u64(got.field->column.values.data + 8 * k), k < 6 ? 1005 - k : 9);
    rs_gather_close(&got.core);
    CHECK_OK(begin(&got, RS_GATHER_NUMBERS, 10), &err);
    got.spec.absent = rs_slice_of(text, sizeof text);
    CHECK_OK(run(&got, NULL, 5, 1, 5), &err);
    CHECK(stop->why == RS_GATHER_KIND && stop->index == 5 && got.field->done == 0);
    rs_gather_close(&got.core);
    sources_close(&s);
    REQUIRE_OK(open_field("o"), &err);
    CHECK_OK(begin(&got, RS_GATHER_NUMBERS, 10), &err);
    CHECK_OK(run(&got, NULL, 1, 1, 10), &err);
    CHECK(stop->why == RS_GATHER_NONE && stop->index == 4 && got.field->done == 3);
    rs_gather_close(&got.core);
    CHECK_CODE(begin(&got, RS_GATHER_NUMBERS, UINT64_MAX), RS_E_MEM, &err);
    rs_gather_close(&got.core);
    sources_close(&s);
    built_clear(&b);
}

/* ---- Positions out of range ---- */

TEST(test_positions_out_of_range) {
    static const int64_t wrong[] = {2000, 2001, -1, INT64_MIN, INT64_MAX, INT64_C(1) << 40};
    column got;
    int64_t positions[300];
    b = build(add, 2000, true);
    REQUIRE(b.data != NULL);
    REQUIRE_OK(open_field("i"), &err);
    for (uint64_t at = 0; at < 300; at += 299) { /* the first of a window, and one within the second window */
        for (uint64_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            for (uint64_t k = 0; k < 300; k++) positions[k] = (int64_t)(k * 7 % 2000);
            positions[at] = wrong[i];
            CHECK_OK(begin(&got, RS_GATHER_NUMBERS, 300), &err);
            CHECK_CODE(run(&got, positions, 0, 1, 300), RS_E_ARG_RANGE, &err);
            CHECK(got.core.done == at && got.field->done == at);
            rs_gather_close(&got.core);
        }
    }
    CHECK_OK(begin(&got, RS_GATHER_NUMBERS, 10), &err);
    CHECK_CODE(run(&got, NULL, 1995, 1, 10), RS_E_ARG_RANGE, &err);
    rs_gather_close(&got.core);
    CHECK_OK(begin(&got, RS_GATHER_NUMBERS, 10), &err);
    CHECK_CODE(run(&got, NULL, INT64_MIN, INT64_MIN, 10), RS_E_ARG_RANGE, &err);
    rs_gather_close(&got.core);
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
        column got;
        CHECK_OK(begin(&got, RS_GATHER_NUMBERS, 256), &err);
        rs_status status = run(&got, positions, 0, 1, 256);
        if (!CHECK(status == RS_OK || status == RS_E_ARG_RANGE)) round = 2000;
        if (status == RS_OK && got.core.stop.why == RS_GATHER_LACKING && !CHECK(got.core.stop.index < 1000))
            round = 2000;
        rs_gather_close(&got.core);
    }
    atomic_store(&c.stop, true);
    rs_os_thread_join(&thread);
    sources_close(&s), built_clear(&b);
}
