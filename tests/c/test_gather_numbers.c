/* test_gather_numbers.c: rare values of a gather: entries in unions, fixed lists, misshapen arrays, tensors. */
#include "rs_hand.h"
#include "rs_sources.h"
#include "columns/rs_gather.h"

#define LEAF(kind, param) {kind, param, 0, 0, 0, 0, 0, 0}

static rs_error err;
static rs_gather_spec spec;
static sources s;
static rs_gather g;
static uint8_t *buffer;
static built segment;

static void set_spec(unsigned form, unsigned dtype, unsigned missing) {
    memset(&spec, 0, sizeof spec);
    spec.form = form, spec.dtype = dtype, spec.missing = missing;
    spec.row_numbers = spec.multiple = 1;
}

static rs_status place(void) {
    uint64_t size;
    RS_TRY(rs_gather_layout(&g, &size, &err));
    free(buffer);
    buffer = (uint8_t *)aligned_alloc(64, (size_t)rs_align_up(size + 1, 64));
    if (buffer == NULL) abort();
    rs_gather_place(&g, buffer);
    return RS_OK;
}

static rs_status read_all(uint64_t n) {
    RS_TRY(rs_gather_begin(&g, n, &err));
    if (g.direct) RS_TRY(place());
    do {
        RS_TRY(rs_gather_measure(&g, &s.source, NULL, 0, 1, n, &err));
        if (g.stop.why == RS_GATHER_BLOCK) RS_TRY(sources_load_block(&s, g.stop.block, &err));
        else if (g.stop.why != RS_GATHER_DONE) return RS_OK;
    } while (g.done < n);
    if (g.direct) return RS_OK;
    RS_TRY(place());
    return g.stop.why == RS_GATHER_DONE ? rs_gather_fill(&g, buffer, &err) : RS_OK;
}

/* Gathers the field "a" of the first n records; the parts are then in `buffer`, until `done`. */
static bool gather(rs_slice bytes, uint64_t n) {
    static const char *const key = "a";
    if (!CHECK_OK(sources_open(&s, bytes, &key, 1, &err), &err)) return false;
    CHECK_OK(rs_gather_open(&g, &spec, 1, &err), &err);
    return CHECK_OK(read_all(n), &err);
}

static void done(void) {
    rs_gather_close(&g);
    sources_close(&s);
    built_clear(&segment);
}

/* Gathers from a segment made by the builder, which `done` clears. */
static bool gather_built(built b, uint64_t n) {
    segment = b;
    return CHECK(b.data != NULL) && gather(built_slice(&b), n);
}

static bool gather_hand(const hand *h, uint64_t n) {
    return gather(hand_slice(h), n) && CHECK(g.stop.why == RS_GATHER_DONE);
}

static const uint8_t *part(unsigned number) { return buffer + g.fields[0].parts[number].off; }

static int64_t i64_at(unsigned number, uint64_t i) { return (int64_t)rs_load_u64(part(number) + 8 * i); }

/* ---- Entries of tables ---- */

/* {"a": an int8, 5, in every fourth record; in the others an entry: `first`, None or `third`}. A gather reaches the
 * entry through the union, record by record. */
static void make_entries(hand *h, uint64_t n, const char *first, const char *third, size_t size) {
    static const make_node root[] = {{STRUCT, 0, 0, 1, 1, 8, 3, 0},
                                     {UNION, 0, 0, 2, 2, 0, 0, 0},
                                     {DICT_CODED, 2, 0, 0, 0, 0, 4, 3},
                                     {INT, 8, 0, 0, 0, 0, 8, 0}};
    (void)hand_tree(h, root, 4, "\0\0\0\0\0\0\0\0\x09\1a", 11);
    hand_values *entries = hand_table(h, hand_leaf(h, ANY, 0, 0));
    hand_put(entries, first, size), hand_put(entries, "\0", 1), hand_put(entries, third, size);
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t bytes[] = {i % 4 == 3, (uint8_t)(i % 4 == 3 ? 5 : i % 3)};
        hand_record(h, bytes, 2);
    }
    hand_finish(h, 0);
}

/* A None entry is a missing value, and the record after it has its own value. */
TEST(test_entries_of_unions) {
    hand h = {0};
    make_entries(&h, 90, "\4\xE8\3", "\4\xB8\xB", 3);
    set_spec(RS_GATHER_VALUES, RS_DTYPE_INT64, RS_GATHER_MASK);
    spec.fill[0] = 7;
    if (gather_hand(&h, 90)) {
        for (uint64_t i = 0; i < 90; i++) {
            const int64_t expected = i % 4 == 3 ? 5 : i % 3 == 0 ? 1000 : i % 3 == 1 ? 7 : 3000;
            if (!CHECK(i64_at(0, i) == expected && part(1)[i] == (expected != 7))) break;
        }
    }
    done();
    set_spec(RS_GATHER_VALUES, RS_DTYPE_INT64, RS_GATHER_RAISE);
    CHECK(gather(hand_slice(&h), 90) && g.stop.why == RS_GATHER_NONE && g.stop.record == 1);
    done();
    hand_clear(&h);
}

/* Entries may be floats. Each byte of 0.3 and -1e300 counts. */
TEST(test_entries_of_floats) {
    const double values[] = {0.3, 0, -1e300};
    char first[9], third[9];
    hand h = {0};
    first[0] = third[0] = RS_FMT_TAG_FLOAT;
    rs_store_f64((uint8_t *)first + 1, values[0]), rs_store_f64((uint8_t *)third + 1, values[2]);
    make_entries(&h, 90, first, third, 9);
    set_spec(RS_GATHER_VALUES, RS_DTYPE_FLOAT64, RS_GATHER_MASK);
    if (gather_hand(&h, 90)) {
        for (uint64_t i = 0; i < 90; i++) {
            const bool present = i % 4 == 3 || i % 3 != 1;
            if (!CHECK(rs_load_f64(part(0) + 8 * i) == (i % 4 == 3 ? 5 : values[i % 3]) && part(1)[i] == present))
                break;
        }
    }
    done();
    hand_clear(&h);
}

/* ---- Lists within a fixed record ---- */

/* {"a": n elements, each an int8 or a bool}, as bits of the choices and bytes of the elements: element i is
 * i % 2 or 10 + i. */
static void check_fixed_list(uint32_t n) {
    make_node nodes[] = {{STRUCT, 0, 0, 1, 1, 8, 3, 0},
                         {LIST, 0, 1, 1, 2, 0, 0, n},
                         {UNION, 0, 0, 2, 3, 0, 0, 0},
                         {INT, 8, 0, 0, 0, 0, 8, 0},
                         LEAF(BOOL, 0)};
    uint8_t record[64] = {0};
    const uint32_t group = (n + 7) / 8;
    hand h = {0};
    for (uint32_t i = 0; i < n; i++) {
        record[i / 8] |= (uint8_t)((i % 3 == 0) << (i % 8));
        record[group + i] = (uint8_t)(i % 3 == 0 ? i % 2 : 10 + i);
    }
    (void)hand_tree(&h, nodes, 5, "\0\0\0\0\0\0\0\0\x09\1a", 11);
    hand_record(&h, record, group + n), hand_record(&h, record, group + n);
    hand_finish(&h, 0);
    CHECK_OK(hand_check(&h, 0, &err), &err);
    set_spec(RS_GATHER_RAGGED, RS_DTYPE_INT64, RS_GATHER_RAISE);
    if (gather_hand(&h, 2) && CHECK(i64_at(1, 2) == 2 * (int64_t)n)) {
        for (uint32_t i = 0; i < 2 * n; i++) {
            const uint32_t k = i % n;
            if (!CHECK(i64_at(0, i) == (k % 3 == 0 ? k % 2 : 10 + k))) break;
        }
    }
    done();
    hand_clear(&h);
}

TEST(test_fixed_lists) {
    for (uint32_t n = 1; n <= 33; n++) check_fixed_list(n);
}

/* {"a": (an int8, a bool, an int8)}, as one bit and two bytes. */
TEST(test_fixed_tuples) {
    static const make_node nodes[] = {{STRUCT, 0, 0, 1, 1, 8, 3, 0},
                                      {TUPLE, 1, 0, 3, 2, 0, 0, 0},
                                      {INT, 8, 0, 0, 0, 0, 8, 0},
                                      LEAF(BOOL, 0),
                                      {INT, 8, 0, 0, 0, 0, 8, 0}};
    static const int64_t expected[] = {5, 1, 7, 5, 1, 7};
    hand h = {0};
    (void)hand_tree(&h, nodes, 5, "\0\0\0\0\0\0\0\0\x09\1a", 11);
    hand_record(&h, "\1\5\7", 3), hand_record(&h, "\1\5\7", 3);
    hand_finish(&h, 0);
    set_spec(RS_GATHER_RAGGED, RS_DTYPE_INT64, RS_GATHER_RAISE);
    if (gather_hand(&h, 2)) CHECK(i64_at(1, 2) == 6 && memcmp(part(0), expected, sizeof expected) == 0);
    done();
    hand_clear(&h);
}

/* {"a": "\u00e9" and two hexadecimal digits}: a text of parts that are not all ASCII. */
TEST(test_parts_of_text) {
    static const make_node nodes[] = {{STRUCT, 0, 0, 1, 1, 0, 3, 0},
                                      {CONCAT, 0, 0, 2, 2, 0, 0, 0},
                                      {CONST, 0, 0, 0, 0, 3, 3, 0},
                                      {HEX, 0, 0, 0, 0, 0, 0, 2}};
    hand h = {0};
    (void)hand_tree(&h, nodes, 4, "\x09\1a\x09\1\xE9", 6);
    hand_record(&h, "\xAB", 1), hand_record(&h, "\x12", 1);
    hand_finish(&h, 0);
    set_spec(RS_GATHER_TEXT, RS_DTYPE_UINT8, RS_GATHER_RAISE);
    if (gather_hand(&h, 2)) {
        CHECK(i64_at(1, 2) == 8 && memcmp(part(0),
                                          "\xC3\xA9"
                                          "ab"
                                          "\xC3\xA9"
                                          "12",
                                          8) == 0);
    }
    done();
    hand_clear(&h);
}

/* ---- Arrays ---- */

/* Appends an int16 array of this shape in C order, whose numbers count up from `first`. */
static void put_array(rs_buffer *raw, uint32_t ndim, const uint64_t *dims, unsigned first) {
    const uint8_t head[] = {0x10, 0, 3};
    uint64_t n = 1;
    make_bytes(raw, head, 3), make_varint(raw, ndim);
    for (uint64_t i = 0; i < ndim; i++) make_varint(raw, dims[i]), n *= dims[i];
    for (uint64_t i = 0; i < n; i++) {
        uint8_t item[2];
        rs_store_u16(item, (uint16_t)(first + i));
        make_bytes(raw, item, 2);
    }
}

static void put_key(rs_buffer *raw) { make_head(raw, 0x0F, 1), make_str(raw, "a"); }

static void put2(rs_buffer *raw, uint64_t a, uint64_t b, unsigned first) {
    const uint64_t dims[] = {a, b};
    put_array(raw, 2, dims, first);
}

static unsigned which; /* selects the last record of add_misshapen */
static bool in_list;

/* An array (2, 3), or a list that ends with it. In record 4 the array has another shape, which does not fit. */
RECORD(add_misshapen) {
    static const uint64_t flat[] = {3}, deep[] = {2, 3, 1};
    put_key(raw);
    if (in_list) make_head(raw, 0x0D, 2), put2(raw, 2, 3, 1);
    if (i < 4) put2(raw, 2, 3, 7);
    else if (which == 0) put2(raw, 2, 2, 7);
    else if (which == 1) put2(raw, 1, 3, 7);
    else if (which == 2) put_array(raw, 1, flat, 7);
    else put_array(raw, 3, deep, 7);
}

TEST(test_misshapen_arrays) {
    for (unsigned k = 0; k < 8; k++) {
        which = k / 2, in_list = k % 2 == 1;
        set_spec(in_list ? RS_GATHER_RAGGED : RS_GATHER_VALUES, RS_DTYPE_INT64, RS_GATHER_RAISE);
        spec.n_row = 2, spec.row[0] = 2, spec.row[1] = 3, spec.row_numbers = 6;
        CHECK(gather_built(build(add_misshapen, 5, false), 5) && g.stop.why == RS_GATHER_LENGTH && g.stop.record == 4);
        done();
    }
}

/* Empty arrays of two dimensions, then an array of one dimension, which does not fit. */
RECORD(add_flat_after_no_lists) {
    static const uint64_t flat[] = {3};
    put_key(raw);
    if (i < 4) put2(raw, 0, 0, 0);
    else put_array(raw, 1, flat, 7);
}

RECORD(add_flat_after_empty_lists) {
    static const uint64_t flat[] = {3};
    put_key(raw);
    if (i < 4) put2(raw, 3, 0, 0);
    else put_array(raw, 1, flat, 7);
}

TEST(test_flat_arrays) {
    static const built_record records[] = {add_flat_after_no_lists, add_flat_after_empty_lists};
    for (unsigned k = 0; k < 2; k++) {
        set_spec(RS_GATHER_NESTED, RS_DTYPE_INT64, RS_GATHER_RAISE);
        CHECK(gather_built(build(records[k], 5, false), 5) && g.stop.why == RS_GATHER_LENGTH && g.stop.record == 4);
        done();
    }
}

static uint32_t extra; /* dimensions after the row's own */

/* Arrays whose rows have the most dimensions allowed. */
RECORD(add_deep) {
    static const uint64_t dims[] = {1, 2, 1, 1, 2, 1, 1, 2, 1, 1};
    put_key(raw);
    if (in_list) make_head(raw, 0x0D, 1);
    put_array(raw, RS_GATHER_ROW_DIMS + extra, dims, (unsigned)(100 * i));
}

TEST(test_most_dimensions) {
    static const uint64_t row[RS_GATHER_ROW_DIMS] = {1, 2, 1, 1, 2, 1, 1, 2};
    for (unsigned k = 0; k < 4; k++) {
        extra = k / 2, in_list = k % 2 == 1;
        set_spec(in_list ? RS_GATHER_RAGGED : RS_GATHER_VALUES, RS_DTYPE_INT64, RS_GATHER_RAISE);
        spec.n_row = RS_GATHER_ROW_DIMS, spec.row_numbers = 8;
        memcpy(spec.row, row, sizeof row);
        if (gather_built(build(add_deep, 3, false), 3)) {
            CHECK(g.stop.why == (extra == 0 ? RS_GATHER_DONE : RS_GATHER_LENGTH));
            if (extra == 0) CHECK(i64_at(0, 7) == 7 && i64_at(0, 23) == 207);
        }
        done();
    }
}

/* ---- Tensors ---- */

static bool is_bfloat16;

/* A tensor of two int16 numbers or, as their bits, of two bfloat16 numbers, which numpy lacks. */
RECORD(add_tensor) {
    static const uint64_t two[] = {2};
    put_key(raw);
    make_tag(raw, RS_FMT_TAG_EXT), make_tag(raw, RS_FMT_EXT_TENSOR);
    if (is_bfloat16) make_str(raw, "bfloat16");
    else make_tag(raw, RS_FMT_TAG_NONE);
    size_t at = raw->size_bytes;
    put_array(raw, 1, two, (unsigned)((is_bfloat16 ? 0x3F80 : 0) + 2 * i));
    if (is_bfloat16) raw->data[at + 2] = 7;
}

TEST(test_tensors) {
    for (unsigned k = 0; k < 4; k++) {
        is_bfloat16 = k / 2 == 1;
        set_spec(RS_GATHER_RAGGED, RS_DTYPE_FLOAT64, RS_GATHER_RAISE);
        if (gather_built(build(add_tensor, 60, k % 2 == 1), 60) && CHECK(g.stop.why == RS_GATHER_DONE) &&
            CHECK(i64_at(1, 60) == 120)) {
            for (uint64_t i = 0; i < 120; i++) {
                const double expected = is_bfloat16 ? 1 + (double)i / 128 : (double)i;
                if (!CHECK(rs_load_f64(part(0) + 8 * i) == expected)) break;
            }
        }
        done();
    }
}
