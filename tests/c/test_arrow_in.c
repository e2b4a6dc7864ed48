/* test_arrow_in.c: rows of Arrow arrays as any values; errors of broken schemas, arrays and streams name their place.
 * tests/py/sources/test_arrow_in.py and prop/test_arrow_in_prop.py compare each type with pyarrow. */
#include "rs_arrow_rows.h"

static const int32_t THREE[] = {7, -200, 3};
static const int32_t OFFSETS[] = {0, 1, 1, 4};

static arrow_made *table(void) {
    arrow_made *m = arrow_make("+s", "", 3, 1);
    arrow_add(m, arrow_ints("id", THREE, 3));
    return arrow_add(m, arrow_texts("u", "name", OFFSETS, 3, "abcd"));
}

/* Changes a table `t` and checks that it is refused. */
#define CHECK_BROKEN(change, text) \
    do { \
        arrow_made *t = table(); \
        change; \
        check_refused(t, RS_E_IN_BROKEN, text); \
    } while (0)

/* ---- Good arrays ---- */

/* The first nanosecond that 64 bits hold lies before the first whole microsecond that they hold. */
TEST(test_the_first_nanoseconds) {
    static const int64_t first[] = {INT64_MIN, INT64_MIN + 1};
    static const char *const formats[] = {"tsn:", "tDn"};
    rs_arrow_options floor = PLAIN;
    floor.nanoseconds = RS_ARROW_NANOSECONDS_FLOOR;
    for (unsigned f = 0; f < 2; f++) {
        arrow_made *m = arrow_set(arrow_make(formats[f], "", 2, 2), 1, first, sizeof first);
        rs_buffer expected = {0};
        for (unsigned i = 0; i < 2; i++) {
            make_ext(&expected, f == 0 ? RS_FMT_EXT_DATETIME : RS_FMT_EXT_TIMEDELTA, NULL);
            if (f == 0) make_head(&expected, 0x0E, 3);
            make_int(&expected, (f == 0 ? INT64_C(62135596800000000) : 0) - INT64_C(9223372036854776));
            if (f == 0) make_int(&expected, 0), make_tag(&expected, 0);
        }
        check_rows_as(m, &floor, &expected);
        check_refused(m, RS_E_IN_VALUE, f == 0 ? "$: a timestamp with a fraction" : "$: a duration with a fraction");
    }
}

/* The run ends may be a slice of an array too. */
TEST(test_run_ends_and_their_bounds) {
    static const int32_t ends[] = {-1, 2, 3, 9}, values[] = {5, 6, 7};
    for (unsigned off = 0; off < 2; off++) {
        arrow_made *m = arrow_make("+r", "", 4, 0);
        rs_buffer expected = {0};
        arrow_add(m, arrow_ints("run_ends", ends + 1 - off, 3 + off));
        arrow_add(m, arrow_ints("values", values, 3));
        m->array_children[0]->offset = off, m->array_children[0]->length = 3;
        m->array.offset = 1;
        make_int(&expected, 5), make_int(&expected, 6), make_int(&expected, 7), make_int(&expected, 7);
        check_rows(m, &expected);
        arrow_drop();
    }
}

TEST(test_wide_ints_of_polars) {
    static const uint64_t words[] = {5, 0, 0, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX};
    const uint8_t min_int128[] = {0x07, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80};
    const uint8_t two_to_127[] = {0x07, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0};
    uint8_t max_uint128[19];
    rs_buffer expected = {0};
    make_int(&expected, 5), make_bytes(&expected, min_int128, sizeof min_int128), make_int(&expected, -1);
    check_rows(arrow_set(arrow_make("_pli128", "", 3, 2), 1, words, sizeof words), &expected);
    memset(max_uint128, 0xFF, sizeof max_uint128);
    max_uint128[0] = 0x07, max_uint128[1] = 17, max_uint128[18] = 0;
    make_int(&expected, 5), make_bytes(&expected, two_to_127, sizeof two_to_127);
    make_bytes(&expected, max_uint128, sizeof max_uint128);
    check_rows(arrow_set(arrow_make("_plu128", "", 3, 2), 1, words, sizeof words), &expected);
    arrow_drop();
}

TEST(test_nothing_is_read_from_an_empty_array) {
    rs_buffer expected = {0};
    arrow_made *m = arrow_make("+s", "", 0, 1);
    arrow_add(m, arrow_make("u", "a", 0, 3));
    arrow_add(m, arrow_make("i", "b", 0, 2));
    arrow_add(m, arrow_add(arrow_make("+l", "c", 0, 2), arrow_make("vu", "item", 0, 3)));
    check_rows(m, &expected);
    arrow_drop();
}

TEST(test_a_name_of_no_bytes) {
    rs_buffer expected = {0};
    for (int i = 0; i < 3; i++) make_head(&expected, 0x0F, 1), make_str(&expected, ""), make_int(&expected, THREE[i]);
    check_rows(arrow_add(arrow_make("+s", "", 3, 1), arrow_ints("", THREE, 3)), &expected);
    arrow_drop();
}

TEST(test_wanted_columns) {
    const rs_slice names[] = {rs_slice_of("name", 4)}, other[] = {rs_slice_of("nam", 3)};
    rs_arrow_options options = PLAIN;
    rs_buffer expected = {0};
    static const char *const texts[] = {"a", "", "bcd"};
    arrow_made *m = table();
    options.columns = names;
    options.n_columns = 1;
    for (int i = 0; i < 3; i++)
        make_head(&expected, 0x0F, 1), make_str(&expected, "name"), make_str(&expected, texts[i]);
    check_rows_as(m, &options, &expected);
    options.columns = other;
    check_refused_as(m, &options, RS_E_ARG_RANGE, "the table has no column 'nam'; it has 'id', 'name'");
    m = table();
    m->schema.children[0]->name = NULL; /* stands for an empty name */
    check_refused_as(m, &options, RS_E_ARG_RANGE, "the table has no column 'nam'; it has '', 'name'");
    check_refused_as(arrow_ints("", THREE, 3), &options, RS_E_ARG_RANGE, "columns= is for tables");
    options.columns = names;
    m = table();
    m->schema.children[0]->name = "name";
    check_refused_as(m, &options, RS_E_ARG_RANGE, "the table has several columns 'name'");
    arrow_drop();
}

/* ---- Broken schemas ---- */

TEST(test_broken_types) {
    static const struct {
        const char *format, *text;
        rs_status code;
    } rows[] = {
        {"", "$.a: this version does not know the Arrow format ", RS_E_IN_TYPE},
        {"x", "$.a: this version does not know the Arrow format x", RS_E_IN_TYPE},
        {"ii", "$.a: this version does not know the Arrow format ii", RS_E_IN_TYPE},
        {"tsx:", "$.a: this version does not know the Arrow format tsx:", RS_E_IN_TYPE},
        {"w:", "$.a: a size in a type is not a number in range: ", RS_E_IN_BROKEN},
        {"w:-1", "$.a: a size in a type is not a number in range: -1", RS_E_IN_BROKEN},
        {"w:3x", "$.a: a size in a type is not a number in range: 3x", RS_E_IN_BROKEN},
        {"w:2147483648", "$.a: a size in a type is not a number in range: 2147483648", RS_E_IN_BROKEN},
        {"w:99999999999999999999", "$.a: a size in a type is not a number in range: ", RS_E_IN_BROKEN},
        {"d:10", "$.a: a size in a type is not a number in range: 10", RS_E_IN_BROKEN},
        {"d:10,2,100", "$.a: a size in a type is not a number in range: 10,2,100", RS_E_IN_BROKEN},
        {"d:10,2,128,1", "$.a: a size in a type is not a number in range: ", RS_E_IN_BROKEN},
        {"d:10,-9999999999", "$.a: a size in a type is not a number in range: ", RS_E_IN_BROKEN},
        {"+l", "$.a: a type has the wrong number of children, with the format +l", RS_E_IN_BROKEN},
        {"+m", "$.a: a type has the wrong number of children, with the format +m", RS_E_IN_BROKEN},
        {"+r", "$.a: a type has the wrong number of children, with the format +r", RS_E_IN_BROKEN},
        {"+w:2", "$.a: a type has the wrong number of children, with the format +w:2", RS_E_IN_BROKEN},
        {"+us:0", "$.a: a union does not have one type id for each child: ", RS_E_IN_BROKEN},
        {"+us:128", "$.a: a union does not have one type id for each child: ", RS_E_IN_BROKEN},
        {"tsu:Mars/Phobos", "$.a: unknown time zone Mars/Phobos", RS_E_IN_TYPE},
        {"tsu:\xC3\xA9", "$.a: unknown time zone ", RS_E_IN_TYPE},
        {"tsu:+24:00", "$.a: unknown time zone +24:00", RS_E_IN_TYPE},
    };
    EACH (i, rows) {
        arrow_made *m = arrow_make("+s", "", 0, 1);
        arrow_add(m, arrow_make(rows[i].format, "a", 0, 2));
        check_refused(m, rows[i].code, rows[i].text);
    }
}

TEST(test_broken_children) {
    arrow_made *m = arrow_add(arrow_make("i", "", 0, 2), arrow_make("i", "", 0, 2));
    check_refused(m, RS_E_IN_BROKEN, "$: a type has the wrong number of children, with the format i");
    CHECK_BROKEN(t->schema_children[1] = NULL, "$: a child of a type is missing");
    CHECK_BROKEN(t->schema.children = NULL, "$: the children of a type are missing");
    CHECK_BROKEN(t->schema.n_children = -1, "$: the number of children of a type is out of range");
    CHECK_BROKEN(t->schema.n_children = INT64_MAX, "$: the number of children of a type is out of range");
    CHECK_BROKEN(t->schema_children[0]->format = NULL, "$.id: a type without a format string");
    CHECK_BROKEN(t->schema_children[0]->release = NULL, "$.id: a released schema");
    m = table();
    m->schema_children[1]->name = "id";
    check_refused(m, RS_E_IN_TYPE, "$.id: two fields have this name");
    CHECK_BROKEN(t->schema_children[1]->name = "a\xFF", "$.a\xFF: the name of a field is not UTF-8");
    m = table();
    arrow_set_dictionary(arrow_make("u", "", 0, 3), m);
    arrow_set_dictionary(m, arrow_make("i", "", 0, 2));
    check_refused(m, RS_E_IN_BROKEN, "$: the indices of a dictionary are not ints");
    m = arrow_add(arrow_make("+m", "", 0, 2), arrow_make("i", "entries", 0, 2));
    check_refused(m, RS_E_IN_BROKEN, "$: the entries of a map are not structs of key and value");
    m = arrow_add(arrow_add(arrow_make("+r", "", 0, 0), arrow_make("c", "", 0, 2)), arrow_make("i", "", 0, 2));
    check_refused(m, RS_E_IN_BROKEN, "$: run ends are not ints of 16, 32 or 64 bits");
    m = arrow_add(arrow_add(arrow_make("+us:1,1", "", 0, 1), arrow_make("c", "", 0, 2)), arrow_make("i", "", 0, 2));
    check_refused(m, RS_E_IN_BROKEN, "$: a union does not have one type id for each child: ");
}

static arrow_made *nested(int levels) {
    arrow_made *m = arrow_ints("item", THREE, 1);
    static const int32_t offsets[] = {0, 1};
    while (levels-- > 0) {
        arrow_made *outer = arrow_make("+l", "item", 1, 2);
        m = arrow_add(arrow_set(outer, 1, offsets, sizeof offsets), m);
    }
    return m;
}

TEST(test_depth) {
    rs_buffer expected = {0};
    for (int i = 0; i < RS_ARROW_DEPTH - 1; i++) make_head(&expected, 0x0D, 1);
    make_int(&expected, 7);
    check_rows(nested(RS_ARROW_DEPTH - 1), &expected);
    arrow_drop();
    check_refused(nested(RS_ARROW_DEPTH), RS_E_IN_TYPE, "$");
    check_refused(nested(1000), RS_E_IN_TYPE, "$");
}

TEST(test_a_long_path_is_cut) {
    arrow_made *m = arrow_make("x", "inner", 0, 1);
    for (int i = 0; i < 20; i++) m = arrow_add(arrow_make("+s", "a name of some twenty bytes", 0, 1), m);
    check_refused(m, RS_E_IN_TYPE, "$");
}

TEST(test_metadata) {
    static const char uuid[] = "\2\0\0\0\1\0\0\0k\1\0\0\0v\24\0\0\0ARROW:extension:name\12\0\0\0arrow.uuid";
    static const char broken[] = "\1\0\0\0\377\377\377\377";
    const uint8_t bytes[16] = {1, 2, 3}, head[] = {0x11, 21, 0, 0x0C, 16};
    rs_buffer expected = {0};
    arrow_made *m = arrow_set(arrow_make("w:16", "", 1, 2), 1, bytes, sizeof bytes);
    m->schema.metadata = uuid;
    make_bytes(&expected, head, sizeof head), make_bytes(&expected, bytes, sizeof bytes);
    check_rows(m, &expected);
    m->schema.metadata = broken;
    make_bytes(&expected, head + 3, 2), make_bytes(&expected, bytes, sizeof bytes);
    check_rows(m, &expected);
    arrow_drop();
}

/* ---- Broken arrays ---- */

TEST(test_broken_numbers) {
    static const struct {
        int64_t length, offset, null_count, n_buffers, n_children;
        const char *text;
    } rows[] = {
        {-1, 0, 0, 2, 0, "$.id: an array has a length or offset that is out of range"},
        {INT64_MIN, 0, 0, 2, 0, "$.id: an array has a length or offset that is out of range"},
        {INT64_MAX, 1, 0, 2, 0, "$.id: an array has a length or offset that is out of range"},
        {3, -1, 0, 2, 0, "$.id: an array has a length or offset that is out of range"},
        {3, INT64_MAX, 0, 2, 0, "$.id: an array has a length or offset that is out of range"},
        {3, 0, -2, 2, 0, "$.id: an array has a null count out of range"},
        {3, 0, 4, 2, 0, "$.id: an array has a null count out of range"},
        {3, 0, 1, 2, 0, "$.id: an array has nulls, but no validity bitmap"},
        {3, 0, 0, 0, 0, "$.id: the number of buffers of an array does not match its type"},
        {3, 0, 0, 1, 0, "$.id: the number of buffers of an array does not match its type"},
        {3, 0, 0, 3, 0, "$.id: the number of buffers of an array does not match its type"},
        {3, 0, 0, -1, 0, "$.id: the number of buffers of an array does not match its type"},
        {3, 0, 0, 2, 1, "$.id: the number of children of an array does not match its type"},
        {3, 0, 0, 2, -1, "$.id: the number of children of an array does not match its type"},
        {2, 0, 0, 2, 0, "$.id: a child array is shorter than its parent needs"},
    };
    EACH (i, rows) {
        arrow_made *m = table();
        struct ArrowArray *id = m->array_children[0];
        id->length = rows[i].length, id->offset = rows[i].offset, id->null_count = rows[i].null_count;
        id->n_buffers = rows[i].n_buffers, id->n_children = rows[i].n_children;
        check_refused(m, RS_E_IN_BROKEN, rows[i].text);
    }
}

TEST(test_broken_pointers) {
    arrow_made *m = table();
    m->array_children[0] = NULL;
    check_refused(m, RS_E_IN_BROKEN, "$.id: an array is missing");
    CHECK_BROKEN(t->array.children = NULL, "$: the children of an array are missing");
    CHECK_BROKEN(t->array_children[0]->release = NULL, "$.id: a released array");
    CHECK_BROKEN(t->array_children[0]->buffers = NULL, "$.id: the buffers of an array are missing");
    CHECK_BROKEN(t->array_children[0]->buffers[1] = NULL, "$.id: a buffer of an array is missing");
    CHECK_BROKEN(t->array_children[1]->buffers[2] = NULL, "$.name: the data of text or bytes are missing");
    CHECK_BROKEN(t->array_children[0]->dictionary = t->array_children[1],
                 "$.id: only an array or only its type has a dictionary");
    m = arrow_set_dictionary(arrow_ints("", THREE, 1), arrow_ints("", THREE, 3));
    m->array.dictionary = NULL;
    check_refused(m, RS_E_IN_BROKEN, "$: only an array or only its type has a dictionary");
    m = arrow_make("vu", "", 1, 4);
    arrow_set(m, 1, "\1\0\0\0aaaabbbbcccc", 16), arrow_set(m, 2, "x", 1);
    check_refused(m, RS_E_IN_BROKEN, "$: an array of views lacks the sizes of its buffers");
}

TEST(test_broken_offsets) {
    static const int32_t falling[] = {0, 3, 1, 4}, negative[] = {-1, 0, 0, 0}, past[] = {0, 1, 2, 4};
    check_refused(arrow_texts("u", "", falling, 3, "abcd"), RS_E_IN_BROKEN,
                  "$: the offsets of text or bytes are negative or decrease");
    check_refused(arrow_texts("z", "", negative, 3, "abcd"), RS_E_IN_BROKEN,
                  "$: the offsets of text or bytes are negative or decrease");
    check_refused(arrow_add(arrow_set(arrow_make("+l", "", 3, 2), 1, falling, sizeof falling),
                            arrow_ints("item", THREE, 3)),
                  RS_E_IN_BROKEN, "$: the offsets of lists are negative or decrease");
    check_refused(arrow_add(arrow_set(arrow_make("+l", "", 3, 2), 1, past, sizeof past), arrow_ints("item", THREE, 3)),
                  RS_E_IN_BROKEN, "$: a list passes the end of its child array");
    check_refused(arrow_add(arrow_make("+w:2", "", 2, 1), arrow_ints("item", THREE, 3)), RS_E_IN_BROKEN,
                  "$[]: a child array is shorter than its parent needs");
    {
        static const int32_t offsets[] = {0, -1, 2, 1}, sizes[] = {1, 1, 2, -1};
        for (unsigned i = 1; i < 4; i++) {
            arrow_made *m = arrow_make("+vl", "", 1, 3);
            arrow_set(arrow_set(m, 1, offsets + i, 4), 2, sizes + i, 4);
            check_refused(arrow_add(m, arrow_ints("item", THREE, 3)), RS_E_IN_BROKEN,
                          i == 2 ? "$: a list passes the end of its child" : "$: a list view has a negative offset");
        }
    }
}

TEST(test_text_that_is_not_utf8) {
    static const char *const texts[] = {"\x80",
                                        "\xC0\x80",
                                        "\xC3",
                                        "\xE0\x9F\xBF",
                                        "\xED\xA0\x80",
                                        "\xF0\x8F\xBF\xBF",
                                        "\xF4\x90\x80\x80",
                                        "\xFF",
                                        "aaaaaaaaaaaa\xE2\x82"};
    EACH (i, texts) {
        const int32_t offsets[] = {0, (int32_t)strlen(texts[i])};
        check_refused(arrow_texts("u", "", offsets, 1, texts[i]), RS_E_IN_BROKEN, "$: text that is not UTF-8");
    }
}

TEST(test_broken_views) {
    static const struct {
        int32_t length, block, offset;
        const char *text;
    } rows[] = {
        {-1, 0, 0, "$: a view has a negative length"},
        {INT32_MIN, 0, 0, "$: a view has a negative length"},
        {13, 1, 0, "$: a view has the number of a missing buffer"},
        {13, -1, 0, "$: a view has the number of a missing buffer"},
        {13, 0, -1, "$: a view passes the end of its buffer"},
        {13, 0, 8, "$: a view passes the end of its buffer"},
        {13, 0, INT32_MAX, "$: a view passes the end of its buffer"},
        {21, 0, 0, "$: a view passes the end of its buffer"},
    };
    const int64_t size = 20;
    EACH (i, rows) {
        arrow_made *m = arrow_make("vu", "", 1, 4);
        const int32_t view[] = {rows[i].length, 0, rows[i].block, rows[i].offset};
        arrow_set(arrow_set(m, 1, view, sizeof view), 2, "01234567890123456789", 20);
        check_refused(arrow_set(m, 3, &size, sizeof size), RS_E_IN_BROKEN, rows[i].text);
    }
}

TEST(test_broken_dictionaries) {
    static const int32_t past[] = {0, 3}, negative[] = {0, -1};
    const uint8_t far[] = {200};
    check_refused(arrow_set_dictionary(arrow_ints("", past, 2), arrow_ints("", THREE, 3)), RS_E_IN_BROKEN,
                  "$: an index passes the end of the dictionary");
    check_refused(arrow_set_dictionary(arrow_ints("", negative, 2), arrow_ints("", THREE, 3)), RS_E_IN_BROKEN,
                  "$: an index passes the end of the dictionary");
    check_refused(arrow_set_dictionary(arrow_set(arrow_make("C", "", 1, 2), 1, far, 1), arrow_ints("", THREE, 3)),
                  RS_E_IN_BROKEN, "$: an index passes the end of the dictionary");
}

static arrow_made *runs(const int32_t *ends, int64_t n, int64_t length) {
    arrow_made *m = arrow_add(arrow_make("+r", "", length, 0), arrow_ints("run_ends", ends, n));
    return arrow_add(m, arrow_ints("values", THREE, 3));
}

TEST(test_broken_runs) {
    static const int32_t early[] = {1, 2, 3}, same[] = {1, 1, 5}, falling[] = {3, 2, 5}, zero[] = {0, 2, 5};
    const uint8_t bits = 0x03;
    check_refused(runs(early, 3, 4), RS_E_IN_BROKEN, "$: the runs end before the array does");
    check_refused(runs(early, 0, 1), RS_E_IN_BROKEN, "$: the runs end before the array does");
    check_refused(runs(same, 3, 4), RS_E_IN_BROKEN, "$: the run ends do not increase");
    check_refused(runs(falling, 3, 4), RS_E_IN_BROKEN, "$: the run ends do not increase");
    check_refused(runs(zero, 3, 4), RS_E_IN_BROKEN, "$: the run ends do not increase");
    arrow_made *m = runs(early, 3, 3);
    m->array_children[1]->length = 2;
    check_refused(m, RS_E_IN_BROKEN, "$: there are fewer values than runs");
    m = runs(early, 3, 3);
    m->array_children[0]->null_count = 1;
    m->array_children[0]->buffers[0] = &bits;
    check_refused(m, RS_E_IN_BROKEN, "$: a run end is null");
}

/* Each run-ended array of a table is checked. */
TEST(test_broken_runs_below) {
    static const int32_t same[] = {1, 1, 5};
    arrow_made *m = arrow_make("+s", "", 3, 1);
    arrow_add(m, arrow_ints("id", THREE, 3));
    arrow_add(m, runs(same, 3, 3))->schema_children[1]->name = "r";
    check_refused(m, RS_E_IN_BROKEN, "$.r: the run ends do not increase");
}

/* The maps {7: "a", -200: ""} and {3: "bcd"} if `text` is "abcd". */
static arrow_made *a_map(const char *text) {
    static const int32_t ends[] = {0, 2, 3};
    arrow_made *m = arrow_set(arrow_make("+m", "", 2, 2), 1, ends, sizeof ends),
               *pairs = arrow_make("+s", "entries", 3, 1);
    arrow_add(arrow_add(pairs, arrow_ints("key", THREE, 3)), arrow_texts("u", "value", OFFSETS, 3, text));
    return arrow_add(m, pairs);
}

TEST(test_maps) {
    rs_buffer expected = {0};
    make_head(&expected, 0x0D, 2);
    make_head(&expected, 0x0E, 2), make_int(&expected, 7), make_str(&expected, "a");
    make_head(&expected, 0x0E, 2), make_int(&expected, -200), make_str(&expected, "");
    make_head(&expected, 0x0D, 1), make_head(&expected, 0x0E, 2), make_int(&expected, 3), make_str(&expected, "bcd");
    check_rows(a_map("abcd"), &expected);
    arrow_drop();
    check_refused(a_map("ab\x80"
                        "d"),
                  RS_E_IN_BROKEN, "${}: text that is not UTF-8");
    arrow_made *m = a_map("abcd");
    m->schema_children[0]->n_children = 1;
    check_refused(m, RS_E_IN_BROKEN, "$: the entries of a map are not structs of key and value");
}

static arrow_made *a_union(const char *format, const int8_t *ids, const int32_t *offsets, int64_t n) {
    arrow_made *m = arrow_set(arrow_make(format, "", n, offsets == NULL ? 1 : 2), 0, ids, (size_t)n);
    if (offsets != NULL) arrow_set(m, 1, offsets, (size_t)n * 4);
    return arrow_add(arrow_add(m, arrow_ints("i", THREE, 3)), arrow_texts("u", "s", OFFSETS, 3, "abcd"));
}

TEST(test_broken_unions) {
    static const int8_t unknown[] = {3}, negative[] = {-1}, good[] = {5};
    static const int32_t past[] = {3}, below[] = {-1};
    check_refused(a_union("+us:5,0", unknown, NULL, 1), RS_E_IN_BROKEN, "$: a union has an unknown type id");
    check_refused(a_union("+us:5,0", negative, NULL, 1), RS_E_IN_BROKEN, "$: a union has an unknown type id");
    check_refused(a_union("+ud:5,0", good, past, 1), RS_E_IN_BROKEN, "$: an offset of a union passes the end");
    check_refused(a_union("+ud:5,0", good, below, 1), RS_E_IN_BROKEN, "$: an offset of a union passes the end");
    arrow_made *m = a_union("+us:5,0", good, NULL, 1);
    m->array_children[1]->length = 0;
    check_refused(m, RS_E_IN_BROKEN, "$: a child array is shorter than its parent needs");
    m = a_union("+ud:5,0", good, past, 1);
    m->buffers[1] = NULL;
    check_refused(m, RS_E_IN_BROKEN, "$: a buffer of an array is missing");
}

/* A list of nulls takes no memory in the producer, but a byte for each value here. */
TEST(test_a_record_of_too_many_values) {
    static const int64_t offsets[] = {0, (INT64_C(1) << 28) + 1};
    arrow_made *m = arrow_set(arrow_make("+L", "", 1, 2), 1, offsets, sizeof offsets);
    check_refused(arrow_add(m, arrow_make("n", "item", offsets[1], 0)), RS_E_IN_TYPE,
                  "$: a record of more than 268,435,456 values");
    m = arrow_add(arrow_make("+w:2147483647", "", 1, 1), arrow_make("n", "item", INT64_C(1) << 40, 0));
    check_refused(m, RS_E_IN_TYPE, "$: a record of more than 268,435,456 values");
}

/* ---- After an error ---- */

TEST(test_rows_before_and_after_a_bad_one) {
    static const int32_t days[] = {0, INT32_MAX, 1};
    const uint8_t first[] = {0x11, 13, 0, 0x05, 0x3B, 0xF9, 0x0A, 0},
                  third[] = {0x11, 13, 0, 0x05, 0x3C, 0xF9, 0x0A, 0};
    arrow_made *m = arrow_set(arrow_make("tdD", "", 3, 2), 1, days, sizeof days);
    rs_arrow_in in = {0};
    rs_parcel parcel = {0};
    rs_buffer expected = {0};
    rs_error err;
    REQUIRE_OK(rs_arrow_in_open(&in, &m->schema, &PLAIN, &err), &err);
    REQUIRE_OK(rs_arrow_in_bind(&in, &m->array, &err), &err);
    CHECK_CODE(rs_arrow_in_append_parcel(&in, &parcel, UINT64_MAX, SIZE_MAX, &err), RS_E_IN_VALUE, &err);
    CHECK_U64(err.record, 1);
    CHECK_U64(in.next, 1);
    in.next = 2;
    CHECK_OK(rs_arrow_in_append_parcel(&in, &parcel, UINT64_MAX, SIZE_MAX, &err), &err);
    make_bytes(&expected, first, sizeof first), make_bytes(&expected, third, sizeof third);
    CHECK_U64(rs_parcel_n_records(&parcel), 2);
    CHECK(parcel.raw.size_bytes == expected.size_bytes &&
          memcmp(parcel.raw.data, expected.data, expected.size_bytes) == 0);
    rs_arrow_in_close(&in);
    rs_parcel_clear(&parcel);
    rs_buffer_clear(&expected);
    arrow_drop();
}

TEST(test_limits_of_one_call) {
    arrow_made *m = table();
    rs_arrow_in in = {0};
    rs_parcel parcel = {0};
    rs_error err;
    REQUIRE_OK(rs_arrow_in_open(&in, &m->schema, &PLAIN, &err), &err);
    REQUIRE_OK(rs_arrow_in_bind(&in, &m->array, &err), &err);
    CHECK_OK(rs_arrow_in_append_parcel(&in, &parcel, 2, SIZE_MAX, &err), &err);
    CHECK_U64(in.next, 2);
    CHECK_OK(rs_arrow_in_append_parcel(&in, &parcel, 2, rs_parcel_size(&parcel), &err), &err);
    CHECK_U64(in.next, 2);
    CHECK_OK(rs_arrow_in_append_parcel(&in, &parcel, 0, SIZE_MAX, &err), &err);
    CHECK_U64(in.next, 2);
    m->array.length = -1;
    CHECK_CODE(rs_arrow_in_bind(&in, &m->array, &err), RS_E_IN_BROKEN, &err);
    CHECK_U64(in.n_rows, 0);
    rs_arrow_in_close(&in);
    rs_parcel_clear(&parcel);
    arrow_drop();
}

/* ---- Streams ---- */

typedef struct stream_state {
    arrow_made *made;
    int arrays, fail_at, code; /* number of arrays; the call of get_next that fails, and its code */
    int calls, released;
    const char *message;
    bool bad_array, fail_schema, released_schema;
} stream_state;

static int stream_schema(struct ArrowArrayStream *self, struct ArrowSchema *out) {
    stream_state *s = (stream_state *)self->private_data;
    if (s->fail_schema) return s->code;
    *out = s->made->schema;
    if (s->released_schema) out->release = NULL;
    return 0;
}

static int stream_next(struct ArrowArrayStream *self, struct ArrowArray *out) {
    stream_state *s = (stream_state *)self->private_data;
    int call = s->calls++;
    *out = s->made->array; /* also when it fails: a producer may leave anything behind */
    if (call == s->fail_at) return s->code;
    if (call >= s->arrays) out->release = NULL;
    if (s->bad_array) out->n_buffers = 9;
    return 0;
}

static const char *stream_message(struct ArrowArrayStream *self) {
    return ((stream_state *)self->private_data)->message;
}

static void stream_release(struct ArrowArrayStream *self) {
    ((stream_state *)self->private_data)->released++;
    self->release = NULL;
}

static struct ArrowArrayStream stream_of(stream_state *state) {
    struct ArrowArrayStream stream = {stream_schema, stream_next, stream_message, stream_release, state};
    state->made = table();
    return stream;
}

/* Reads a stream to its end or first error; *rows is the number of rows. A further call must not reach the producer. */
static rs_status drain(stream_state *state, uint64_t *rows, rs_error *err) {
    struct ArrowArrayStream stream = stream_of(state);
    struct ArrowArray array = {0};
    rs_arrow_in in = {0};
    rs_status status = rs_arrow_in_open_stream(&in, &stream, &PLAIN, err);
    *rows = 0;
    while (status == RS_OK && !in.ended) {
        status = rs_arrow_in_next(&in, &stream, &array, err);
        *rows += in.n_rows;
    }
    int calls = state->calls;
    if (in.ended) CHECK_OK(rs_arrow_in_next(&in, &stream, &array, err), err);
    CHECK_U64(state->calls, calls);
    CHECK(array.release == NULL);
    rs_arrow_in_close(&in);
    rs_arrow_stream_release(&stream);
    rs_arrow_stream_release(&stream);
    CHECK_U64(state->released, 1);
    return status;
}

TEST(test_a_stream) {
    stream_state state = {.arrays = 3, .fail_at = -1};
    rs_error err;
    uint64_t rows;
    CHECK_OK(drain(&state, &rows, &err), &err);
    CHECK_U64(rows, 9);
    CHECK_U64(state.calls, 4);
    CHECK_U64(state.made->arrays_released, 3);
    CHECK_U64(state.made->schemas_released, 1);
    arrow_drop();
}

TEST(test_streams_that_fail) {
    static const struct {
        stream_state state;
        rs_status code;
        const char *message;
        unsigned n_rows, released; /* the array that a failed call wrote is not released */
    } rows[] = {
        {{.fail_at = 1, .code = 5, .message = "the disk is gone"}, RS_E_IN_FAILED, "the disk is gone", 3, 1},
        {{.fail_at = 0, .code = 12}, RS_E_IN_FAILED, "no message", 0, 0},
        {{.fail_at = 0, .code = 12, .message = ""}, RS_E_IN_FAILED, "no message", 0, 0},
        {{.fail_at = -1, .code = 22, .fail_schema = true, .message = "no schema"}, RS_E_IN_FAILED, "no schema", 0, 0},
        {{.fail_at = -1, .released_schema = true}, RS_E_IN_BROKEN, "$: a released schema", 0, 0},
        {{.fail_at = -1, .bad_array = true}, RS_E_IN_BROKEN, NULL, 0, 1},
    };
    EACH (i, rows) {
        stream_state state = rows[i].state;
        rs_error err;
        uint64_t n;
        state.arrays = 3;
        CHECK_CODE(drain(&state, &n, &err), rows[i].code, &err);
        if (rows[i].message != NULL) CHECK_STR(err.message, rows[i].message);
        if (rows[i].code == RS_E_IN_FAILED) CHECK_U64(err.sys_errno, state.code);
        CHECK_U64(n, rows[i].n_rows);
        CHECK_U64(state.made->arrays_released, rows[i].released);
    }
    arrow_drop();
}

TEST(test_streams_without_functions) {
    stream_state state = {.arrays = 1, .fail_at = -1};
    rs_arrow_in in = {0};
    rs_error err;
    for (unsigned i = 0; i < 3; i++) {
        struct ArrowArrayStream stream = stream_of(&state);
        if (i == 0) stream.get_schema = NULL;
        if (i == 1) stream.get_next = NULL;
        if (i == 2) stream.release = NULL;
        CHECK_CODE(rs_arrow_in_open_stream(&in, &stream, &PLAIN, &err), RS_E_IN_BROKEN, &err);
    }
    {
        struct ArrowArrayStream stream = stream_of(&state);
        stream.get_last_error = NULL;
        state.fail_schema = true;
        state.code = 5;
        CHECK_CODE(rs_arrow_in_open_stream(&in, &stream, &PLAIN, &err), RS_E_IN_FAILED, &err);
        CHECK_STR(err.message, "no message");
    }
    arrow_drop();
}

/* ---- Into a builder ---- */

TEST(test_a_builder_gets_whole_blocks) {
    enum { ROWS = 200000 };
    int64_t *values = (int64_t *)arrow_keep(malloc(ROWS * sizeof *values));
    arrow_made *m = arrow_make("l", "", ROWS, 2);
    rs_segment_writer writer;
    rs_segment segment;
    rs_builder builder;
    rs_arrow_in in = {0};
    rs_error err;
    unsigned calls = 0;
    for (int64_t i = 0; i < ROWS; i++) values[i] = i * 1000003;
    m->buffers[1] = values;
    REQUIRE_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    REQUIRE_OK(rs_builder_open(&builder, &writer, NULL, &err), &err);
    REQUIRE_OK(rs_arrow_in_open(&in, &m->schema, &PLAIN, &err), &err);
    REQUIRE_OK(rs_arrow_in_bind(&in, &m->array, &err), &err);
    for (; in.next < in.n_rows; calls++) {
        REQUIRE_OK(rs_arrow_in_append(&in, &builder, UINT64_MAX, &err), &err);
    }
    CHECK_U64(calls, 4); /* three blocks of 65,536 records, and the rest */
    CHECK_U64(builder.n_records, ROWS);
    CHECK_OK(rs_builder_finish(&builder, &err), &err);
    CHECK_CODE(rs_arrow_in_bind(&in, &m->array, &err), RS_OK, &err);
    CHECK_CODE(rs_arrow_in_append(&in, &builder, 1, &err), RS_E_STATE_FINISHED, &err);
    rs_builder_close(&builder);
    REQUIRE_OK(rs_segment_writer_finish(&writer, &segment, &err), &err);
    rs_segment_close(&segment);
    rs_arrow_in_close(&in);
    arrow_drop();
}
