/* test_any.c: the walk over `any` values: literal bytes of every tag, rules 20 to 23, budgets, arrays. */
#include "format/rs_any.h"
#include "rs_make.h"

static rs_error err;

/* Skips one value in an exact allocation; RS_E_FMT_TRAILING when bytes are left. */
static rs_status skip(const void *bytes, size_t n, uint64_t arrays, rs_budget *budget) {
    uint8_t *exact = make_exact(bytes, n);
    rs_slice in = rs_slice_of(exact, n);
    rs_status status = rs_any_skip(&in, arrays, budget, &err);
    if (status == RS_OK && in.ptr != in.end) status = RS_E_FMT_TRAILING;
    free(exact);
    return status;
}

static rs_status skip_freely(const void *bytes, size_t n) {
    rs_budget budget = {.values = 1000, .bytes = 1000, .depth = 200};
    return skip(bytes, n, 1024, &budget);
}

static const struct {
    rs_status code;
    size_t n;
    uint8_t bytes[40];
} cases[] = {
    {RS_OK, 1, {0x00}},
    {RS_OK, 1, {0x01}},
    {RS_OK, 1, {0x02}},
    {RS_OK, 2, {0x03, 0x80}},
    {RS_OK, 3, {0x04, 0, 0x80}},
    {RS_OK, 5, {0x05, 0, 0, 0, 0x80}},
    {RS_OK, 9, {0x06, 0, 0, 0, 0, 0, 0, 0, 0x80}},
    {RS_OK, 11, {0x07, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
    {RS_OK, 9, {0x08, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F}},
    {RS_OK, 4, {0x09, 2, 'h', 0xE9}},
    {RS_OK, 4, {0x0A, 1, 0x00, 0xD8}}, /* a lone surrogate */
    {RS_OK, 6, {0x0B, 1, 0xFF, 0xFF, 0x10, 0x00}},
    {RS_OK, 3, {0x0C, 1, 0xFF}},
    {RS_OK, 2, {0x0D, 0}},
    {RS_OK, 4, {0x0D, 2, 0x90, 0x00}},
    {RS_OK, 4, {0x0E, 2, 0x90, 0x00}},
    {RS_OK, 4, {0x0F, 1, 0x90, 0x00}},
    {RS_OK, 1, {0x80}},
    {RS_OK, 1, {0xFF}},
    {RS_OK, 9, {0x10, 0, 3, 1, 2, 1, 0, 2, 0}}, /* int16[2] */
    {RS_OK, 5, {0x10, 2, 0x83, 0, 1}},          /* a big-endian int16 scalar */
    {RS_OK, 5, {0x10, 1, 1, 0, 1}},             /* a bool array of no dimensions */
    {RS_E_FMT_TRUNCATED, 0, {0}},
    {RS_E_FMT_VERSION, 1, {0x12}},
    {RS_E_FMT_VERSION, 1, {0x7F}},
    {RS_E_FMT_VALUE, 6, {0x0B, 1, 0x00, 0x00, 0x11, 0x00}},
    {RS_E_FMT_TRUNCATED, 2, {0x0D, 1}},
    {RS_E_FMT_LIMIT, 12, {0x0D, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0}},
    {RS_E_FMT_TRUNCATED, 11, {0x0C, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}},
    {RS_E_FMT_TRUNCATED, 11, {0x0B, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 0}}, /* 4 n wraps to 0 */
    {RS_E_FMT_VALUE, 5, {0x0F, 1, 0x0D, 0, 0}},
    {RS_E_FMT_VALUE, 5, {0x0F, 1, 0x0F, 0, 0}},
    {RS_E_FMT_VALUE, 7, {0x0F, 1, 0x10, 0, 2, 1, 0}},
    {RS_E_FMT_TRUNCATED, 4, {0x0F, 1, 0x10, 2}},
    {RS_E_FMT_TRUNCATED, 3, {0x0F, 1, 0x90}}, /* a key without a value */
    {RS_OK, 5, {0x0F, 1, 0x0E, 0, 0}},
    {RS_E_FMT_VALUE, 4, {0x10, 4, 1, 0}},
    {RS_E_FMT_TAG, 4, {0x10, 0, 0, 0}},
    {RS_E_FMT_TAG, 4, {0x10, 0, 0x80, 0}},
    {RS_E_FMT_VERSION, 4, {0x10, 0, 23, 0}},
    {RS_E_FMT_VERSION, 4, {0x10, 0, 127, 0}},
    {RS_E_FMT_VALUE, 4, {0x10, 0, 2, 65}},
    {RS_E_FMT_VALUE, 5, {0x10, 0, 16, 5, 0}}, /* U of 5 bytes */
    {RS_OK, 6, {0x10, 2, 15, 2, 'a', 'b'}},
    {RS_OK, 13, {0x10, 2, 18, 9, 1, 0, 0, 0, 0, 0, 0, 0}},
    {RS_E_FMT_TRUNCATED, 5, {0x10, 2, 19, 14, 1}},
    {RS_E_FMT_TAG, 5, {0x10, 2, 18, 15, 1}},
    {RS_E_FMT_VALUE, 15, {0x10, 0, 5, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0}}, /* 2^60 int64 */
    {RS_E_FMT_VALUE,
     16,
     {0x10, 0, 5, 2, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0}}, /* (0, 2^60) */
    {RS_E_FMT_TRUNCATED, 6, {0x10, 0, 2, 1, 2, 7}},
    {RS_OK, 7, {0x10, 0, 2, 1, 0x80, 0x08, 0}}, /* 1024 bytes of the 1024 in the arrays */
    {RS_E_FMT_VALUE, 7, {0x10, 0, 2, 1, 0x81, 0x08, 0}},
    {RS_E_FMT_VALUE, 7, {0x10, 0, 2, 1, 0x80, 0x08, 1}},
    /* Ext values: an EXTRA, then a payload. */
    {RS_OK, 4, {0x11, 7, 0x00, 0x00}},
    {RS_OK, 4, {0x11, 30, 0x00, 0x90}},
    {RS_OK, 5, {0x11, 12, 0x91, 0x0D, 0}},
    {RS_OK, 6, {0x11, 12, 0x04, 0, 1, 0x00}},          /* an int16 as EXTRA */
    {RS_OK, 7, {0x11, 12, 0x07, 2, 0, 1, 0x00}},       /* a long int as EXTRA */
    {RS_OK, 7, {0x11, 22, 0x0A, 1, 0x00, 0xD8, 0x00}}, /* a str of 2-byte units */
    {RS_OK, 18, {0x11, 24, 0x0E, 3, 9, 1, 'm', 9, 1, 'P', 0x0E, 1, 9, 1, 'x', 0x0E, 1, 0x91}},
    {RS_OK, 12, {0x11, 24, 0x0E, 1, 0x0E, 1, 0x0E, 1, 0x0E, 1, 0x00, 0x00}}, /* 4 tuples deep */
    {RS_E_FMT_VALUE, 14, {0x11, 24, 0x0E, 1, 0x0E, 1, 0x0E, 1, 0x0E, 1, 0x0E, 1, 0x00, 0x00}},
    {RS_OK, 7, {0x11, 3, 0x00, 0x0D, 1, 0x0C, 0}},
    {RS_OK, 9, {0x11, 4, 0x00, 0x0E, 1, 0x11, 7, 0x00, 0x00}}, /* ext within a container within ext */
    {RS_E_FMT_VALUE, 7, {0x11, 4, 0x00, 0x11, 7, 0x00, 0x00}}, /* and directly */
    {RS_E_FMT_VALUE, 7, {0x11, 4, 0x11, 7, 0x00, 0x00, 0x00}}, /* ext as EXTRA */
    {RS_E_FMT_VALUE, 9, {0x11, 4, 0x0E, 1, 0x11, 7, 0x00, 0x00, 0x00}},
    {RS_E_FMT_VALUE, 5, {0x11, 4, 0x0F, 0, 0x00}}, /* a dict, a list, bytes, a bool, an array as EXTRA */
    {RS_E_FMT_VALUE, 5, {0x11, 4, 0x0D, 0, 0x00}},
    {RS_E_FMT_VALUE, 5, {0x11, 4, 0x0C, 0, 0x00}},
    {RS_E_FMT_VALUE, 4, {0x11, 4, 0x01, 0x00}},
    {RS_E_FMT_VALUE, 8, {0x11, 4, 0x10, 0, 2, 1, 0, 0x00}},
    {RS_E_FMT_VALUE, 4, {0x11, 4, 0x7F, 0x00}},
    {RS_E_FMT_TRUNCATED, 13, {0x11, 4, 0x0E, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0x00}},
    {RS_E_FMT_VERSION, 4, {0x11, 0, 0x00, 0x00}},
    {RS_E_FMT_VERSION, 4, {0x11, 32, 0x00, 0x00}},
    {RS_E_FMT_VERSION, 4, {0x11, 255, 0x00, 0x00}},
    {RS_OK, 8, {0x0F, 1, 0x11, 4, 0x00, 0x0E, 0, 0x00}}, /* a frozenset as key; a set; a bytearray */
    {RS_E_FMT_VALUE, 8, {0x0F, 1, 0x11, 3, 0x00, 0x0D, 0, 0x00}},
    {RS_E_FMT_VALUE, 8, {0x0F, 1, 0x11, 2, 0x00, 0x0C, 0, 0x00}},
    /* Struct dtypes: item size, aligned, n; name, offset, dtype, ndim of each field. */
    {RS_OK, 17, {0x10, 0, 20, 4, 0, 1, 1, 'a', 0, 3, 0, 1, 1, 0, 0, 0, 0}},
    {RS_OK, 7, {0x10, 2, 20, 1, 1, 0, 0}}, /* no fields */
    {RS_OK, 19, {0x10, 0, 20, 4, 0, 2, 1, 'a', 0, 3, 0, 2, 0xC3, 0xA9, 2, 0x83, 0, 1, 0}},
    {RS_OK, 23, {0x10, 2, 20, 4, 0, 1, 1, 'a', 0, 20, 4, 0, 1, 1, 'b', 3, 6, 0, 0}},
    {RS_OK, 17, {0x10, 0, 20, 4, 0, 1, 1, 'a', 0, 3, 1, 2, 0}},          /* int16[2] in an array of no dimensions */
    {RS_E_FMT_VALUE, 13, {0x10, 0, 20, 4, 0, 1, 1, 'a', 0, 3, 1, 3, 0}}, /* int16[3] */
    {RS_E_FMT_VALUE, 12, {0x10, 0, 20, 4, 0, 1, 1, 'a', 3, 3, 0, 0}},    /* ends beyond the item */
    {RS_E_FMT_VALUE, 21, {0x10, 0,    20,   4,    0,    1,    1, 'a', 0xFF, 0xFF, 0xFF,
                          0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 3,   0,    0}},
    {RS_E_FMT_VALUE, 7, {0x10, 2, 20, 0, 2, 0, 0}},                    /* an aligned flag of 2 */
    {RS_E_FMT_VALUE, 11, {0x10, 0, 20, 4, 0, 1, 0, 0, 3, 0, 0}},       /* a name of no bytes */
    {RS_E_FMT_VALUE, 12, {0x10, 0, 20, 4, 0, 1, 1, 0xFF, 0, 3, 0, 0}}, /* not UTF-8; overlong; a surrogate */
    {RS_E_FMT_VALUE, 13, {0x10, 0, 20, 4, 0, 1, 2, 0xC0, 0x80, 0, 3, 0, 0}},
    {RS_E_FMT_VALUE, 14, {0x10, 0, 20, 4, 0, 1, 3, 0xED, 0xA0, 0x80, 0, 3, 0, 0}},
    {RS_E_FMT_VALUE, 12, {0x10, 0, 20, 4, 0, 1, 1, 0xE2, 0, 3, 0, 0}}, /* a character cut off */
    {RS_E_FMT_TAG, 6, {0x10, 0, 20 | 0x80, 4, 0, 0}},
    {RS_E_FMT_TAG, 12, {0x10, 0, 20, 4, 0, 1, 1, 'a', 0, 0, 0, 0}}, /* a field without a dtype; with an unknown dtype */
    {RS_E_FMT_VERSION, 12, {0x10, 0, 20, 4, 0, 1, 1, 'a', 0, 23, 0, 0}},
    {RS_E_FMT_VALUE, 10, {0x10, 0, 20, 0x80, 0x80, 0x80, 0x80, 8, 0, 0}},
    {RS_E_FMT_TRUNCATED, 7, {0x10, 0, 20, 4, 0, 0x80, 0x08}}, /* 1024 fields are allowed, 1025 are not */
    {RS_E_FMT_VALUE, 8, {0x10, 0, 20, 4, 0, 0x81, 0x08, 0}},
    {RS_OK, 19, {0x10, 2, 21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {RS_OK, 35, {0x10, 2, 22 | 0x80}},
    {RS_E_FMT_VALUE, 16, {0x10, 0, 2, 1, 0x80, 0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}},
};

TEST(test_literals) {
    EACH (i, cases) {
        size_t n = cases[i].n;
        CHECK_CODE(skip_freely(cases[i].bytes, n), cases[i].code, &err);
        for (size_t cut = 0; cases[i].code == RS_OK && cut < n; cut++) {
            CHECK_CODE(skip_freely(cases[i].bytes, cut), RS_E_FMT_TRUNCATED, &err);
        }
    }
}

/* Skips n lists, one within another. */
static rs_status skip_nested(uint32_t n, rs_budget *budget) {
    rs_buffer bytes = {0};
    for (uint32_t i = 0; i < n; i++) make_head(&bytes, 0x0D, i + 1 < n);
    rs_status status = skip(bytes.data, bytes.size_bytes, 0, budget);
    rs_buffer_clear(&bytes);
    return status;
}

/* Rule 23: a value reduces the budget of values, and gives back its depth. A value beyond either limit is refused. */
TEST(test_budgets) {
    static const uint8_t value[] = {0x0D, 3, 0x0E, 1, 0x90, 0x0F, 1, 0x90, 0x90, 0x0D, 0};
    rs_budget budget = {.values = 5, .depth = 2};
    CHECK_OK(skip(value, sizeof value, 0, &budget), &err);
    CHECK(budget.values == 0 && budget.depth == 2);
    budget.values = 4, budget.depth = 2;
    CHECK_CODE(skip(value, sizeof value, 0, &budget), RS_E_FMT_LIMIT, &err);
    budget.values = 5, budget.depth = 1;
    CHECK_CODE(skip(value, sizeof value, 0, &budget), RS_E_FMT_LIMIT, &err);
    budget.values = 1000, budget.depth = 200;
    CHECK_OK(skip_nested(200, &budget), &err);
    CHECK_CODE(skip_nested(201, &budget), RS_E_FMT_LIMIT, &err);
}

/* n containers, one within another, each the payload of an ext value. Ext values add no depth. */
TEST(test_ext_budgets) {
    for (uint32_t n = 199; n <= 201; n++) {
        rs_budget budget = {.values = 1000, .depth = 200};
        rs_buffer bytes = {0};
        for (uint32_t i = 0; i < n; i++)
            make_ext(&bytes, 3, i % 2 == 0 ? NULL : "x"), make_head(&bytes, 0x0D, i + 1 < n);
        CHECK_CODE(skip(bytes.data, bytes.size_bytes, 0, &budget), n <= 200 ? RS_OK : RS_E_FMT_LIMIT, &err);
        if (n <= 200) CHECK(budget.values == 1000 - (n - 1) && budget.depth == 200);
        rs_buffer_clear(&bytes);
    }
}

/* Skips structs within structs: 8 levels are allowed, and 1024 fields in all levels together. */
static rs_status skip_dtype(unsigned levels, unsigned fields) {
    static const uint8_t scalar[] = {0x10, 2}, one[] = {20, 0, 0, 1, 1, 'a', 0}, end[] = {3, 1, 0};
    rs_buffer bytes = {0};
    make_bytes(&bytes, scalar, 2);
    for (unsigned i = 1; i < levels; i++) make_bytes(&bytes, one, sizeof one);
    make_bytes(&bytes, "\x14\0\0", 3), make_varint(&bytes, fields);
    for (unsigned i = 0; i < fields; i++) make_bytes(&bytes, "\1f\0", 3), make_bytes(&bytes, end, sizeof end);
    for (unsigned i = 1; i < levels; i++) make_tag(&bytes, 0);
    rs_status status = skip_freely(bytes.data, bytes.size_bytes);
    rs_buffer_clear(&bytes);
    return status;
}

TEST(test_dtype_limits) {
    CHECK_OK(skip_dtype(1, 1024), &err);
    CHECK_CODE(skip_dtype(1, 1025), RS_E_FMT_VALUE, &err);
    CHECK_OK(skip_dtype(8, 1017), &err);
    CHECK_CODE(skip_dtype(8, 1018), RS_E_FMT_VALUE, &err);
    CHECK_CODE(skip_dtype(9, 1), RS_E_FMT_VALUE, &err);
    CHECK_CODE(skip_dtype(100, 1), RS_E_FMT_VALUE, &err);
}

/* Takes the parts of ext values one by one, as the codec does. */
TEST(test_ext_head) {
    static const uint8_t bytes[] = {10, 9, 3, 'i', 'n', 't', 0x0F, 0};
    rs_slice in = rs_slice_of(bytes, sizeof bytes), head;
    REQUIRE_OK(rs_any_ext_head(&in, &head, &err), &err);
    CHECK(head.ptr == bytes && head.end == bytes + 6 && in.ptr == bytes + 6);
    in = rs_slice_of(bytes + 1, 5);
    REQUIRE_OK(rs_any_extra_skip(&in, &err), &err);
    CHECK(in.ptr == bytes + 6);
    in = rs_slice_of(bytes, 0);
    CHECK_CODE(rs_any_ext_head(&in, &head, &err), RS_E_FMT_TRUNCATED, &err);
}

TEST(test_may_be_key) {
    static const uint8_t list[] = {0x0D}, dict[] = {0x0F}, array[] = {0x10, 1}, scalar[] = {0x10, 2}, tuple[] = {0x0E};
    static const uint8_t not_keys[] = {2, 3, 8, 9, 10, 11, 12, 29, 30, 31};
    uint8_t ext[2] = {0x11, 0};
    for (unsigned code = 1; code < 256; code++) {
        ext[1] = (uint8_t)code;
        CHECK(rs_any_may_be_key(rs_slice_of(ext, 2)) == (memchr(not_keys, (int)code, sizeof not_keys) == NULL));
    }
    CHECK(!rs_any_may_be_key(rs_slice_of(list, 1)) && !rs_any_may_be_key(rs_slice_of(dict, 1)));
    CHECK(!rs_any_may_be_key(rs_slice_of(array, 2)) && rs_any_may_be_key(rs_slice_of(scalar, 2)));
    CHECK(rs_any_may_be_key(rs_slice_of(tuple, 1)) && rs_any_may_be_key(rs_slice_of(tuple, 0)));
}

TEST(test_array_parts) {
    static const uint8_t bytes[] = {1, 0x8C, 2, 3, 2, 9, 9};
    rs_slice in = rs_slice_of(bytes, sizeof bytes), shape;
    rs_array_type type;
    uint64_t size, outside, dims[RS_FMT_ARRAY_NDIM];
    uint32_t ndim;
    REQUIRE_OK(rs_array_type_take(&in, &type, &err), &err);
    CHECK(type.flags == 1 && type.code == 12 && type.big_endian && type.item_bytes == 8);
    CHECK(type.descriptor.ptr == bytes && type.descriptor.end == bytes + 2 && in.ptr == bytes + 2);
    REQUIRE_OK(rs_array_shape_take(&in, 8, &ndim, dims, &size, &err), &err);
    CHECK(ndim == 2 && dims[0] == 3 && dims[1] == 2 && size == 48 && in.ptr == bytes + 5);
    in = rs_slice_of(bytes, sizeof bytes);
    CHECK_CODE(rs_array_skip(&in, 0, &type, &shape, &size, &outside, &err), RS_E_FMT_TRUNCATED, &err);
    CHECK(shape.ptr == bytes + 2 && shape.end == bytes + 5 && size == 48);
}

/* Rule 22 holds for data outside the record, at every position around the end of the arrays. */
TEST(test_array_outside) {
    uint64_t outside;
    for (uint64_t arrays = 1000; arrays < 1300; arrays++) {
        for (uint64_t position = 0; position < 8; position++) {
            uint8_t bytes[1];
            rs_slice in = rs_slice_of(bytes, 1);
            bool ok = 64 * position + 1024 <= arrays;
            bytes[0] = (uint8_t)position;
            CHECK_CODE(rs_array_data_skip(&in, 1024, arrays, &outside, &err), ok ? RS_OK : RS_E_FMT_VALUE, &err);
            if (ok) CHECK_U64(outside, 64 * position);
        }
    }
}

/* Random values: the walk ends with the value, and neither a cut nor a changed byte leads beyond the allocation. */
TEST(test_random) {
    rs_buffer bytes = {0};
    for (unsigned round = 0; round < 2000; round++) {
        bytes.size_bytes = 0;
        make_random_value(&bytes, 4);
        if (!CHECK_OK(skip_freely(bytes.data, bytes.size_bytes), &err)) break;
        for (size_t i = 0; i < bytes.size_bytes && i < 64; i++) {
            uint8_t was = bytes.data[i];
            CHECK(skip_freely(bytes.data, i) != RS_OK);
            bytes.data[i] = (uint8_t)make_random(256);
            (void)skip_freely(bytes.data, bytes.size_bytes);
            bytes.data[i] = was;
        }
    }
    rs_buffer_clear(&bytes);
}
