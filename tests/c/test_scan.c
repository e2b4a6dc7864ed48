/* test_scan.c: the first pass over records: key sets, the largest record, features, refused records. */
#include "plan/rs_scan.h"
#include "rs_make.h"

static rs_error err;
static rs_scan scan;
static rs_buffer raw;

/* Scans the record in `raw` from a copy of exactly its size, and empties `raw`. */
static rs_status scan_made(uint64_t arrays) {
    uint8_t *exact = make_exact(raw.data, raw.size_bytes);
    rs_status status = rs_scan_record(&scan, rs_slice_of(exact, raw.size_bytes), arrays, &err);
    free(exact);
    raw.size_bytes = 0;
    return status;
}

static void clear_scan(void) {
    rs_scan_clear(&scan);
    rs_buffer_clear(&raw);
}

static void make_dict(const char *a, const char *b) {
    make_head(&raw, 0x0F, 2);
    make_str(&raw, a), make_int(&raw, 1), make_str(&raw, b), make_int(&raw, 2);
}

TEST(test_key_sets) {
    make_dict("a", "b"), CHECK_OK(scan_made(0), &err);
    make_dict("a", "b"), CHECK_OK(scan_made(0), &err);
    make_dict("b", "a"), CHECK_OK(scan_made(0), &err);
    make_head(&raw, 0x0F, 0), CHECK_OK(scan_made(0), &err);
    REQUIRE(scan.n_key_sets == 4);
    CHECK(scan.key_sets[0] == scan.key_sets[1] && scan.key_sets[0] != scan.key_sets[2]); /* the order of keys counts */
    CHECK_U64(scan.key_sets[3], RS_KEY_SET_SEED);
    rs_scan_reset(&scan);
    CHECK(scan.n_key_sets == 0 && scan.max_values == 3);
    clear_scan();
}

/* Dicts are numbered by where they begin: outer before inner, also through lists and ext values. */
TEST(test_order_of_key_sets) {
    make_dict("x", "y"), CHECK_OK(scan_made(0), &err);
    uint64_t inner = scan.key_sets[0];
    make_head(&raw, 0x0F, 1), make_str(&raw, "k"), make_head(&raw, 0x0D, 3);
    make_dict("x", "y"), make_ext(&raw, 9, NULL), make_dict("x", "y"), make_ext(&raw, 25, "C");
    make_head(&raw, 0x0E, 1), make_dict("x", "y");
    CHECK_OK(scan_made(0), &err);
    REQUIRE(scan.n_key_sets == 5);
    uint64_t outer = scan.key_sets[1];
    CHECK(outer != inner && scan.key_sets[2] == inner && scan.key_sets[3] == inner && scan.key_sets[4] == inner);
    clear_scan();
}

TEST(test_totals) {
    make_int(&raw, 1), CHECK_OK(scan_made(0), &err);
    CHECK(scan.max_values == 1 && scan.max_bytes == 1 && scan.max_depth == 0 && scan.features == 0);
    make_head(&raw, 0x0D, 2), make_int(&raw, 1), make_head(&raw, 0x0E, 1), make_str(&raw, "abc");
    CHECK_OK(scan_made(0), &err); /* the list, 2 elements, and 1 in the tuple */
    CHECK(scan.max_values == 4 && scan.max_bytes == 10 && scan.max_depth == 2);
    make_int(&raw, 1), CHECK_OK(scan_made(0), &err);
    CHECK(scan.max_values == 4 && scan.max_bytes == 10 && scan.max_depth == 2);
    make_head(&raw, 0x0F, 1), make_head(&raw, 0x0E, 1), make_head(&raw, 0x0E, 1), make_int(&raw, 1), make_int(&raw, 1);
    CHECK_OK(scan_made(0), &err); /* tuples within a key count */
    CHECK(scan.max_values == 4 && scan.max_depth == 3);
    clear_scan();
}

/* An ext value and its EXTRA do not count; its payload does. */
TEST(test_ext) {
    make_ext(&raw, 25, "Name"), make_head(&raw, 0x0E, 2), make_int(&raw, 1), make_ext(&raw, 13, NULL),
        make_int(&raw, 2);
    CHECK_OK(scan_made(0), &err);
    CHECK(scan.max_values == 3 && scan.max_depth == 1 && scan.n_key_sets == 0);
    CHECK_U64(scan.features, RS_FMT_FEATURE_EXT);
    clear_scan();
}

TEST(test_features) {
    static const uint8_t plain[] = {0x10, 2, 2, 7}, record[] = {0x10, 2, 20, 1, 0, 0, 7};
    make_bytes(&raw, plain, sizeof plain), CHECK_OK(scan_made(0), &err);
    CHECK_U64(scan.features, 0);
    make_head(&raw, 0x0D, 1), make_bytes(&raw, record, sizeof record), CHECK_OK(scan_made(0), &err);
    CHECK_U64(scan.features, RS_FMT_FEATURE_DTYPES);
    make_ext(&raw, 7, NULL), make_tag(&raw, 0), CHECK_OK(scan_made(0), &err);
    CHECK_U64(scan.features, RS_FMT_FEATURE_DTYPES | RS_FMT_FEATURE_EXT);
    rs_scan_reset(&scan);
    CHECK_U64(scan.features, RS_FMT_FEATURE_DTYPES | RS_FMT_FEATURE_EXT);
    clear_scan();
}

TEST(test_refused) {
    static const struct {
        rs_status code;
        size_t n;
        uint8_t bytes[24];
    } cases[] = {
        {RS_E_FMT_TRUNCATED, 0, {0}},
        {RS_E_FMT_TRUNCATED, 4, {0x0D, 1, 0x0D, 1}},
        {RS_E_FMT_TRUNCATED, 11, {0x0D, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1}},
        {RS_E_FMT_TRAILING, 2, {0x90, 0x90}},
        {RS_E_FMT_TRAILING, 5, {0x11, 7, 0, 0, 0x90}},
        {RS_E_FMT_VERSION, 3, {0x0D, 1, 0x12}},
        {RS_E_FMT_VERSION, 4, {0x11, 32, 0, 0}},
        {RS_E_FMT_VALUE, 7, {0x11, 4, 0, 0x11, 7, 0, 0}},
        {RS_E_FMT_VALUE, 5, {0x0F, 1, 0x0D, 0, 0x90}},             /* a list as key */
        {RS_E_FMT_VALUE, 7, {0x0F, 1, 0x0E, 1, 0x0F, 0, 0x90}},    /* a dict within a key */
        {RS_E_FMT_VALUE, 8, {0x0F, 1, 0x11, 4, 0, 0x0F, 0, 0x90}}, /* a dict in the payload of a key */
        {RS_E_FMT_VALUE, 8, {0x0F, 1, 0x11, 3, 0, 0x0D, 0, 0x90}}, /* a set as key */
        {RS_E_FMT_VALUE, 7, {0x10, 0, 2, 1, 0x80, 8, 0}},          /* array data outside, and no arrays */
        {RS_E_FMT_TRUNCATED, 12, {0x0D, 2, 0x11, 7, 0, 0, 0x10, 2, 20, 1, 0, 0}}, /* features met before the end */
    };
    EACH (i, cases) {
        make_bytes(&raw, cases[i].bytes, cases[i].n);
        CHECK_CODE(scan_made(0), cases[i].code, &err);
        CHECK(scan.max_values == 0 && scan.max_bytes == 0 && scan.max_depth == 0 && scan.features == 0);
    }
    clear_scan();
}

TEST(test_depth) {
    for (unsigned ext = 0; ext < 2; ext++) {
        for (unsigned n = 199; n <= 201; n++) {
            for (unsigned i = 0; i < n; i++) {
                if (ext != 0) make_ext(&raw, 3, NULL);
                make_head(&raw, 0x0D, i + 1 < n);
            }
            CHECK_CODE(scan_made(0), n <= 200 ? RS_OK : RS_E_FMT_LIMIT, &err);
            CHECK_U64(scan.max_depth, n <= 200 ? n : 200);
        }
        clear_scan();
    }
}

/* Skipping any value counts as many key sets as scanning it found. */
TEST(test_skip_stays_in_step) {
    for (unsigned round = 0; round < 3000; round++) {
        make_random_value(&raw, round % 6);
        uint8_t *exact = make_exact(raw.data, raw.size_bytes);
        rs_slice in = rs_slice_of(exact, raw.size_bytes);
        rs_scan_reset(&scan);
        CHECK_OK(rs_scan_record(&scan, in, UINT64_MAX, &err), &err);
        CHECK_U64(scan.next, 0);
        rs_scan_skip_unchecked(&scan, &in);
        CHECK(in.ptr == in.end && scan.next == scan.n_key_sets);
        free(exact);
        raw.size_bytes = 0;
    }
    clear_scan();
}
