/* test_gather.c: gathers that stop; damage, also between the two steps; entries of tables; lack of memory at each
 * allocation. prop/test_gather.py compares each form with the records. */
#include "columns/rs_gather.h"

#include "rs_columns.h"
#include "rs_failing.h"
#include "rs_sources.h"

enum { N = 1500, BATCH = 700, FIELDS = 10 };

static rs_error err;

/* ---- A batch ---- */

static const char *const keys[FIELDS] = {"id", "score", "ring", "ring", "ring", "text", "word", "odd", "path", "odd"};
static rs_gather_spec specs[FIELDS];
static sources s;
static rs_gather g;
static int64_t positions[BATCH];
static uint8_t *buffer;
static uint64_t buffer_size;

static void set_spec(unsigned f, unsigned form, unsigned dtype, unsigned missing) {
    memset(&specs[f], 0, sizeof specs[f]);
    specs[f].form = form, specs[f].dtype = dtype, specs[f].missing = missing;
    specs[f].row_numbers = 1, specs[f].multiple = 1, specs[f].split = true;
}

static void set_specs(void) {
    set_spec(0, RS_GATHER_VALUES, RS_DTYPE_INT64, RS_GATHER_RAISE);
    set_spec(1, RS_GATHER_VALUES, RS_DTYPE_FLOAT32, RS_GATHER_MASK);
    set_spec(2, RS_GATHER_RAGGED, RS_DTYPE_FLOAT64, RS_GATHER_FILL);
    set_spec(3, RS_GATHER_PADDED, RS_DTYPE_FLOAT32, RS_GATHER_FILL);
    specs[3].multiple = 8;
    set_spec(4, RS_GATHER_PACKED, RS_DTYPE_FLOAT64, RS_GATHER_FILL);
    specs[4].length = 13, specs[4].split = false;
    set_spec(5, RS_GATHER_TEXT, RS_DTYPE_UINT8, RS_GATHER_FILL);
    set_spec(6, RS_GATHER_STRINGS, RS_DTYPE_UINT8, RS_GATHER_FILL);
    set_spec(7, RS_GATHER_VALUES, RS_DTYPE_FLOAT64, RS_GATHER_MASK);
    set_spec(8, RS_GATHER_TEXT, RS_DTYPE_UINT8, RS_GATHER_RAISE);
    set_spec(9, RS_GATHER_VALUES, RS_DTYPE_INT64, RS_GATHER_FILL);
    specs[9].fill[0] = 77;
}

/* Opens `g` over the first n of `fields` in a store. */
static bool open_gather(const built *b, const char *const *fields, unsigned n) {
    return CHECK_OK(sources_open(&s, built_slice(b), fields, n, &err), &err) &&
           CHECK_OK(rs_gather_open(&g, specs, n, &err), &err);
}

static void close_gather(void) {
    rs_gather_close(&g);
    sources_close(&s);
}

/* Measures the remaining records up to a stop. If the stop is for a block, loads it and continues. */
static rs_status measure(uint64_t n) {
    do {
        RS_TRY(rs_gather_measure(&g, &s.source, positions, 0, 1, n, &err));
        if (g.stop.why == RS_GATHER_BLOCK) {
            const bool was_counting = counting;
            counting = false; /* blocks belong to the store */
            rs_status status = sources_load_block(&s, g.stop.block, &err);
            counting = was_counting;
            RS_TRY(status);
        } else if (g.stop.why != RS_GATHER_DONE) {
            return RS_OK;
        }
    } while (g.done < n);
    return RS_OK;
}

static rs_status place(void) {
    const bool was_counting = counting;
    RS_TRY(rs_gather_layout(&g, &buffer_size, &err));
    counting = false;
    free(buffer);
    buffer = (uint8_t *)aligned_alloc(64, (size_t)rs_align_up(buffer_size + 1, 64));
    if (buffer == NULL) abort();
    counting = was_counting;
    rs_gather_place(&g, buffer);
    return RS_OK;
}

static rs_status read_batch(uint64_t n) {
    RS_TRY(rs_gather_begin(&g, n, &err));
    if (g.direct) RS_TRY(place());
    RS_TRY(measure(n));
    if (g.stop.why != RS_GATHER_DONE || g.direct) return RS_OK;
    RS_TRY(place());
    if (g.stop.why != RS_GATHER_DONE) return RS_OK;
    return rs_gather_fill(&g, buffer, &err);
}

static const uint8_t *part_of(unsigned f, unsigned part) { return buffer + g.fields[f].parts[part].off; }
static int64_t i64_of(unsigned f, unsigned part, uint64_t i) { return (int64_t)rs_load_u64(part_of(f, part) + 8 * i); }

/* ---- Stops ---- */

static rs_gather_stop stop_of(const built *b, const char *key, uint64_t first) {
    rs_gather_stop stop = {0};
    for (unsigned k = 0; k < 10; k++) positions[k] = (int64_t)(first + k);
    if (!open_gather(b, &key, 1)) return stop;
    CHECK_OK(read_batch(10), &err);
    stop = g.stop;
    close_gather();
    return stop;
}

static void check_stop(const built *b, const char *key, int why, uint64_t record, uint64_t number) {
    const rs_gather_stop stop = stop_of(b, key, 1);
    CHECK(stop.why == why && stop.field == 0);
    CHECK_U64(stop.record, record);
    CHECK_U64(stop.number, number);
}

static void check_stops(bool compress) {
    built b = build(columns_record, 1000, compress);
    static rs_names names;
    bool is_new;
    REQUIRE(b.data != NULL);
    set_spec(0, RS_GATHER_VALUES, RS_DTYPE_INT64, RS_GATHER_RAISE);
    check_stop(&b, "odd", RS_GATHER_NONE, 2, 0);
    check_stop(&b, "none", RS_GATHER_LACKING, 0, 0);
    check_stop(&b, "text", RS_GATHER_KIND, 0, 0);
    check_stop(&b, "at", RS_GATHER_KIND, 0, 0);
    check_stop(&b, "score", RS_GATHER_RANGE, 0, 0);
    set_spec(0, RS_GATHER_VALUES, RS_DTYPE_UINT8, RS_GATHER_RAISE);
    CHECK(stop_of(&b, "id", 80).record == 6);
    set_spec(0, RS_GATHER_VALUES, RS_DTYPE_FLOAT32, RS_GATHER_RAISE);
    specs[0].n_row = 1, specs[0].row[0] = specs[0].row_numbers = 1;
    check_stop(&b, "ring", RS_GATHER_LENGTH, 1, 0);
    set_spec(0, RS_GATHER_RAGGED, RS_DTYPE_INT32, RS_GATHER_RAISE);
    check_stop(&b, "ring", RS_GATHER_RANGE, 1, 1);
    check_stop(&b, "id", RS_GATHER_KIND, 0, 0);
    set_spec(0, RS_GATHER_TEXT, RS_DTYPE_UINT8, RS_GATHER_RAISE);
    check_stop(&b, "ring", RS_GATHER_KIND, 0, 0);
    set_spec(0, RS_GATHER_PADDED, RS_DTYPE_FLOAT32, RS_GATHER_RAISE);
    specs[0].length = 4;
    check_stop(&b, "ring", RS_GATHER_LONG, 4, 5);
    set_spec(0, RS_GATHER_CODES, RS_DTYPE_INT64, RS_GATHER_RAISE);
    memset(&names, 0, sizeof names);
    CHECK_OK(rs_names_add_int(&names, 3, &is_new, &err), &err);
    CHECK_OK(rs_names_add_int(&names, 6, &is_new, &err), &err);
    specs[0].names = &names;
    check_stop(&b, "id", RS_GATHER_UNNAMED, 2, 0);
    rs_names_clear(&names);
    built_clear(&b);
}

TEST(test_stops) { check_stops(true); }
TEST(test_stops_of_any_values) { check_stops(false); }

TEST(test_positions_and_sizes) {
    built b = build(columns_record, 500, true);
    const char *key = "id";
    REQUIRE(b.data != NULL);
    set_spec(0, RS_GATHER_VALUES, RS_DTYPE_INT64, RS_GATHER_RAISE);
    REQUIRE(open_gather(&b, &key, 1));
    positions[0] = 4, positions[1] = 500;
    CHECK_CODE(read_batch(2), RS_E_ARG_RANGE, &err);
    CHECK(g.stop.record == 1 && g.stop.field == UINT32_MAX);
    CHECK_CODE(rs_gather_begin(&g, UINT64_MAX / 2, &err), RS_E_MEM, &err);
    positions[1] = 499;
    CHECK_OK(read_batch(2), &err); /* after an error the state can be used again */
    CHECK(i64_of(0, 0, 1) == 499 * 3);
    close_gather();
    built_clear(&b);
}

/* ---- Damage ---- */

/* After random changes to heap, offsets, groups and tables, reading gives values, stops or errors, within bounds. Half
 * of the rounds also change bytes between the two steps. */
static void check_damage(built_record record, const char *const *fields, bool compress) {
    built sound = build(record, 300, compress), b;
    built_layout layout;
    unsigned failed = 0;
    REQUIRE(sound.data != NULL);
    built_read(&sound, &layout);
    for (unsigned round = 0; round < 100; round++) {
        const uint64_t begin = RS_FMT_HEADER_SIZE, end = layout.directory.sections[RS_FMT_SECTION_BLOCKS].off;
        b.data = make_exact(sound.data, sound.size), b.size = sound.size;
        for (unsigned k = 0; k < 3; k++) b.data[begin + make_random(end - begin)] = (uint8_t)make_random(256);
        for (unsigned k = 0; k < 200; k++) positions[k] = (int64_t)make_random(300);
        if (sources_open(&s, built_slice(&b), fields, FIELDS, &err) != RS_OK) {
            built_clear(&b);
            continue;
        }
        CHECK_OK(rs_gather_open(&g, specs, FIELDS, &err), &err);
        CHECK_OK(rs_gather_begin(&g, 200, &err), &err);
        bool ok = measure(200) == RS_OK && g.stop.why == RS_GATHER_DONE;
        ok = ok && place() == RS_OK && g.stop.why == RS_GATHER_DONE;
        for (unsigned k = 0; ok && round % 2 == 1 && k < 500; k++) {
            b.data[begin + make_random(end - begin)] = (uint8_t)make_random(256);
        }
        ok = ok && rs_gather_fill(&g, buffer, &err) == RS_OK && g.stop.why == RS_GATHER_DONE;
        failed += !ok;
        close_gather();
        built_clear(&b);
    }
    CHECK(failed > 0 && failed < 100);
    built_clear(&sound);
}

TEST(test_damage) {
    set_specs();
    check_damage(columns_record, keys, true);
    check_damage(columns_record, keys, false);
}

/* ---- Arrays and lists of lists ---- */

static const char *const array_keys[FIELDS] = {"a", "a", "grid", "grid", "lists", "lists", "z", "n", "a", "lists"};

static void add_grid(uint64_t i, rs_buffer *raw) {
    uint8_t head[] = {0x10, 0, 3, 2, 2, 3}, item[2]; /* int16, shape (2, 3), every second one in Fortran order */
    head[1] = (uint8_t)(i % 2);
    make_bytes(raw, head, sizeof head);
    for (uint64_t k = 0; k < 6; k++) rs_store_u16(item, (uint16_t)(i + k)), make_bytes(raw, item, 2);
}

/* {"a": an array, sometimes in the block's arrays, "grid", "lists": lists of pairs, "z": complex, "n"}. */
RECORD(add_arrays) {
    const uint64_t n = i % 20 == 0 ? 600 + i : i % 40;
    make_head(raw, 0x0F, 5);
    make_str(raw, "a"), make_array(raw, n, arrays->size_bytes);
    if (n >= 512 && rs_buffer_append_zeros(arrays, (size_t)rs_align_up(2 * n, 64), NULL) != RS_OK) abort();
    make_str(raw, "grid"), add_grid(i, raw);
    make_str(raw, "lists"), make_head(raw, 0x0D, i % 4);
    for (uint64_t k = 0; k < i % 4; k++) {
        make_head(raw, 0x0D, 2), make_int(raw, (int64_t)(i * 10 + k));
        if (i % 7 == 0) make_float(raw, 0.5);
        else make_int(raw, (int64_t)k);
    }
    make_str(raw, "z"), make_ext(raw, 1, NULL), make_head(raw, 0x0E, 2), make_float(raw, (double)i), make_float(raw, 2);
    make_str(raw, "n"), make_int(raw, i % 9 == 0 ? INT64_C(1) << 40 : (int64_t)i);
}

static void set_row(unsigned f, uint32_t n_row, uint64_t first, uint64_t second) {
    specs[f].n_row = n_row;
    specs[f].row[0] = first, specs[f].row[1] = second;
    specs[f].row_numbers = n_row == 2 ? first * second : first;
}

static void set_array_specs(void) {
    set_spec(0, RS_GATHER_RAGGED, RS_DTYPE_INT64, RS_GATHER_FILL);
    set_spec(1, RS_GATHER_PADDED, RS_DTYPE_FLOAT32, RS_GATHER_FILL);
    specs[1].length = 30, specs[1].truncate = true;
    set_spec(2, RS_GATHER_VALUES, RS_DTYPE_INT16, RS_GATHER_FILL);
    set_row(2, 2, 2, 3);
    set_spec(3, RS_GATHER_RAGGED, RS_DTYPE_FLOAT64, RS_GATHER_MASK);
    set_row(3, 1, 3, 0);
    set_spec(4, RS_GATHER_NESTED, RS_DTYPE_FLOAT32, RS_GATHER_FILL);
    set_spec(5, RS_GATHER_PADDED_NESTED, RS_DTYPE_FLOAT64, RS_GATHER_FILL);
    set_spec(6, RS_GATHER_VALUES, RS_DTYPE_COMPLEX64, RS_GATHER_FILL);
    set_spec(7, RS_GATHER_VALUES, RS_DTYPE_FLOAT16, RS_GATHER_FILL);
    set_spec(8, RS_GATHER_PACKED, RS_DTYPE_INT16, RS_GATHER_FILL);
    specs[8].length = 64;
    set_spec(9, RS_GATHER_RAGGED, RS_DTYPE_FLOAT32, RS_GATHER_FILL);
    set_row(9, 1, 2, 0);
}

TEST(test_damaged_arrays) {
    set_array_specs();
    check_damage(add_arrays, array_keys, true);
    check_damage(add_arrays, array_keys, false);
}

/* {"n": i % 5 lists; list k has (i + k) % 6 numbers} */
RECORD(add_nested) {
    make_head(raw, 0x0F, 1), make_str(raw, "n"), make_head(raw, 0x0D, i % 5);
    for (uint64_t k = 0; k < i % 5; k++) {
        make_head(raw, 0x0D, (i + k) % 6);
        for (uint64_t j = 0; j < (i + k) % 6; j++) make_int(raw, (int64_t)(i * 100 + k * 10 + j));
    }
}

/* The first record with too many lists, or with a list that is too long. */
TEST(test_padded_nested_too_long) {
    static const struct {
        uint64_t length, inner, record, number;
    } cases[] = {{3, 0, 4, 4}, {0, 4, 3, 5}, {0, 1, 2, 2}};
    built b = build(add_nested, 300, true);
    const char *key = "n";
    REQUIRE(b.data != NULL);
    for (unsigned k = 0; k < 300; k++) positions[k] = (int64_t)k;
    EACH (c, cases) {
        set_spec(0, RS_GATHER_PADDED_NESTED, RS_DTYPE_INT32, RS_GATHER_RAISE);
        specs[0].length = cases[c].length, specs[0].inner_length = cases[c].inner;
        REQUIRE(open_gather(&b, &key, 1));
        CHECK_OK(read_batch(300), &err);
        CHECK(g.stop.why == RS_GATHER_LONG);
        CHECK_U64(g.stop.record, cases[c].record);
        CHECK_U64(g.stop.number, cases[c].number);
        close_gather();
    }
    built_clear(&b);
}

/* ---- Entries of tables in records of several shapes, which are walked ---- */

static const char *const colours[] = {"a colour like red", "a colour like green", "a colour like blue"};

/* None, or {"c": one of three texts, "v": one of four multiples of 2^50}, with the keys in two orders. */
RECORD(add_few) {
    const int64_t value = (int64_t)(i % 4) << 50;
    if (i % 10 == 0) {
        make_tag(raw, 0);
        return;
    }
    make_head(raw, 0x0F, 2);
    if (i % 2 == 0) make_str(raw, "c"), make_str(raw, colours[i % 3]);
    make_str(raw, "v"), make_int(raw, value);
    if (i % 2 != 0) make_str(raw, "c"), make_str(raw, colours[i % 3]);
}

TEST(test_entries_of_walked_records) {
    static const char *const fields[] = {"c", "c", "v"};
    static rs_names names;
    bool is_new;
    memset(&names, 0, sizeof names);
    for (unsigned k = 0; k < 3; k++) {
        CHECK_OK(rs_names_add_text(&names, (const uint8_t *)colours[k], strlen(colours[k]), &is_new, &err), &err);
    }
    set_spec(0, RS_GATHER_TEXT, RS_DTYPE_UINT8, RS_GATHER_FILL);
    set_spec(1, RS_GATHER_CODES, RS_DTYPE_INT64, RS_GATHER_FILL);
    set_spec(2, RS_GATHER_VALUES, RS_DTYPE_INT64, RS_GATHER_MASK);
    specs[1].names = &names;
    memset(specs[1].fill, 0xFF, 8);
    for (unsigned way = 0; way < 2; way++) {
        built b = build(add_few, 1000, way == 0);
        REQUIRE(b.data != NULL);
        REQUIRE(open_gather(&b, fields, 3));
        for (unsigned k = 0; k < BATCH; k++) positions[k] = (int64_t)make_random(1000);
        CHECK_OK(read_batch(BATCH), &err);
        CHECK(g.stop.why == RS_GATHER_DONE);
        for (unsigned k = 0; k < BATCH; k++) {
            const uint64_t i = (uint64_t)positions[k], begin = (uint64_t)i64_of(0, 1, k);
            const char *colour = i % 10 == 0 ? "" : colours[i % 3];
            const uint64_t size = (uint64_t)i64_of(0, 1, k + 1) - begin;
            bool ok = size == strlen(colour) && memcmp(part_of(0, 0) + begin, colour, size) == 0;
            ok = ok && i64_of(1, 0, k) == (i % 10 == 0 ? -1 : (int64_t)(i % 3));
            ok = ok && part_of(2, 1)[k] == (i % 10 != 0);
            if (!CHECK(ok && i64_of(2, 0, k) == (i % 10 == 0 ? 0 : (int64_t)(i % 4) << 50))) break;
        }
        close_gather();
        built_clear(&b);
    }
    rs_names_clear(&names);
}

/* ---- Memory ---- */

TEST(test_memory) {
    built b = build(columns_record, N, true);
    uint64_t total = UINT64_MAX;
    REQUIRE(b.data != NULL);
    set_specs();
    REQUIRE_OK(sources_open(&s, built_slice(&b), keys, FIELDS, &err), &err);
    for (fail_at = UINT64_MAX; fail_at == UINT64_MAX || fail_at < total; fail_at++) {
        steps = 0;
        counting = true;
        rs_status status = rs_gather_open(&g, specs, FIELDS, &err);
        if (status == RS_OK) {
            status = read_batch(100);
            rs_gather_close(&g);
        }
        counting = false;
        if (fail_at == UINT64_MAX) {
            total = steps;
            CHECK_OK(status, &err);
            CHECK(total > 30);
        } else if (!CHECK_CODE(status, RS_E_MEM, &err)) {
            (void)fprintf(stderr, "    allocation %llu\n", (unsigned long long)fail_at);
        }
    }
    sources_close(&s);
    built_clear(&b);
}
