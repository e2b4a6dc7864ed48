/* test_arrow_walk.c: rare values as Arrow values, with trees and without, and malformed payloads. prop/test_ways_out.py
 * compares each kind of value with pyarrow. */
#include "rs_hand.h"
#include "rs_batches.h"

enum { N = 300, EPOCH = 719163 };

static const int64_t EPOCH_US = (int64_t)(EPOCH - 1) * 86400 * 1000000;

static uint64_t bits_at(const struct ArrowArray *array, uint64_t k, unsigned size) {
    return rs_load_uint_unchecked((const uint8_t *)array->buffers[1] + size * k, size);
}

/* {"time", "utc": a datetime in UTC, "decimal": an int with an exponent, "uuid"} */
RECORD(add_forms) {
    char text[32];
    (void)snprintf(text, sizeof text, "%uE+2", (unsigned)i);
    make_head(raw, 0x0F, 4);
    make_str(raw, "time"), make_ext(raw, 14, NULL), make_head(raw, 0x0E, 3);
    make_int(raw, (int64_t)i * 1000003), make_int(raw, 0), make_tag(raw, 0);
    make_str(raw, "utc"), make_ext(raw, 15, NULL), make_head(raw, 0x0E, 3);
    make_int(raw, EPOCH_US + (int64_t)i), make_int(raw, 0), make_ext(raw, 18, NULL), make_str(raw, "UTC");
    make_str(raw, "decimal"), make_ext(raw, 19, NULL), make_str(raw, text);
    make_str(raw, "uuid"), make_ext(raw, 21, NULL), make_units(raw, 0x0C, 16, 1, (uint8_t)i);
}

TEST(test_forms) {
    static const char *const formats[] = {"ttu", "tsu:UTC", "d:5,0", "w:16"};
    static batch_export o;
    for (unsigned compress = 0; compress < 2; compress++) {
        REQUIRE(open_built(&o, build(add_forms, N, compress == 1)));
        REQUIRE_OK(read_table(&o, N), &err);
        struct ArrowArray **c = o.batch.children;
        EACH (k, formats) CHECK_STR(o.schema.children[k]->format, formats[k]);
        for (uint64_t i = 0; i < N; i++) {
            if (!CHECK(int_at(c[0], i) == (int64_t)i * 1000003 && int_at(c[1], i) == (int64_t)i)) break;
            if (!CHECK(int_at(c[2], 2 * i) == (int64_t)i * 100 && int_at(c[2], 2 * i + 1) == 0)) break;
            if (!CHECK(((const uint8_t *)c[3]->buffers[1])[16 * i + 15] == (uint8_t)i)) break;
        }
        close_over(&o);
    }
}

/* ---- Types that the tree gives ---- */

RECORD(add_naive) {
    make_head(raw, 0x0F, 1), make_str(raw, "at"), make_ext(raw, 15, NULL), make_head(raw, 0x0E, 3);
    make_int(raw, EPOCH_US + (int64_t)(i * i)), make_int(raw, 0), make_tag(raw, 0);
}

/* The tree of a datetime without a zone gives its type; no record is read. */
TEST(test_naive_is_sure) {
    static batch_export o;
    bool whole;
    REQUIRE(open_built(&o, build(add_naive, N, true)));
    CHECK_OK(infer(&o, 0, 1, N, &whole), &err);
    CHECK(whole && !o.out.has_rest && o.out.root->children[0]->kind == RS_ARROW_KIND_TIMESTAMP);
    close_over(&o);
}

/* ---- Other byte orders, names, tuples ---- */

/* {"e with an accent": a big-endian int16 array, "f": a big-endian float32 array, "t": ("x", ("y", (2, 3.5)))} */
RECORD(add_odd) {
    const uint8_t name[] = {0x09, 1, 0xE9}, array[] = {0x10, 0, 0x83, 1, 2, (uint8_t)i, 1, 0xFF, 0xFE};
    const uint8_t single[] = {0x10, 0, 0x8B, 1, 1, 0x3F, 0xC0, 0, 0};
    make_head(raw, 0x0F, 3);
    make_bytes(raw, name, sizeof name), make_bytes(raw, array, sizeof array);
    make_str(raw, "f"), make_bytes(raw, single, sizeof single);
    make_str(raw, "t"), make_head(raw, 0x0E, 2), make_str(raw, "x"), make_head(raw, 0x0E, 2), make_str(raw, "y");
    make_head(raw, 0x0E, 2), make_int(raw, 2), make_float(raw, 3.5);
}

static void check_odd(bool compress) {
    static batch_export o;
    REQUIRE(open_built(&o, build(add_odd, N, compress)));
    REQUIRE_OK(read_table(&o, N), &err);
    struct ArrowSchema **c = o.schema.children;
    CHECK_STR(c[0]->name, "\xC3\xA9");
    CHECK_STR(c[0]->children[0]->format, "s");
    CHECK_STR(c[1]->children[0]->format, "f");
    CHECK_STR(c[2]->format, "+s");
    CHECK_STR(c[2]->children[1]->format, "+s");
    CHECK_STR(c[2]->children[1]->children[1]->format, "+l"); /* within two tuples: a list */
    CHECK_STR(c[2]->children[1]->children[1]->children[0]->format, "g");
    const struct ArrowArray *items = o.batch.children[0]->children[0];
    for (uint64_t i = 0; i < N; i++) {
        const uint32_t one = (uint32_t)bits_at(o.batch.children[1]->children[0], i, 4);
        if (!CHECK((int16_t)bits_at(items, 2 * i, 2) == (int16_t)(i % 256 << 8 | 1))) break;
        if (!CHECK((int16_t)bits_at(items, 2 * i + 1, 2) == -2) || !CHECK(one == 0x3FC00000)) break;
    }
    close_over(&o);
}

TEST(test_odd_of_any) { check_odd(false); }
TEST(test_odd_of_trees) { check_odd(true); }

/* {"t": ("x", ("y", (i, "z")))}: the innermost items are elements of a list, which must have one type. */
RECORD(add_deep) {
    make_head(raw, 0x0F, 1), make_str(raw, "t");
    make_head(raw, 0x0E, 2), make_str(raw, "x"), make_head(raw, 0x0E, 2), make_str(raw, "y");
    make_head(raw, 0x0E, 2), make_int(raw, (int64_t)i), make_str(raw, "z");
}

TEST(test_deep_tuples) {
    static batch_export o;
    for (unsigned k = 0; k < 2; k++) {
        bool whole = true;
        REQUIRE(open_built(&o, build(add_deep, N, k == 0)));
        CHECK_OK(infer(&o, 0, 1, N, &whole), &err);
        CHECK(!whole);
        close_over(&o);
    }
}

static int64_t offset_minutes;

RECORD(add_offset) {
    make_head(raw, 0x0F, 1), make_str(raw, "at");
    make_ext(raw, 15, NULL), make_head(raw, 0x0E, 3), make_int(raw, EPOCH_US + (int64_t)i), make_int(raw, 0);
    make_ext(raw, 17, NULL), make_head(raw, 0x0E, 2), make_int(raw, offset_minutes * 60000000), make_tag(raw, 0);
}

/* Arrow has no offset of a day or more: such times are exported in UTC. */
TEST(test_offsets_of_a_day) {
    static const struct {
        int64_t minutes;
        const char *format;
    } cases[] = {{-1439, "tsu:-23:59"}, {-1440, "tsu:UTC"}, {1439, "tsu:+23:59"}, {1440, "tsu:UTC"}};
    static batch_export o;
    EACH (k, cases) {
        offset_minutes = cases[k].minutes;
        REQUIRE(open_built(&o, build(add_offset, 10, false)));
        REQUIRE_OK(read_table(&o, 10), &err);
        CHECK_STR(o.schema.children[0]->format, cases[k].format);
        CHECK(int_at(o.batch.children[0], 9) == 9 - cases[k].minutes * 60000000);
        close_over(&o);
    }
}

static uint8_t second_unit;

/* {"t": two of numpy's datetimes}; the first counts milliseconds. */
RECORD(add_datetimes) {
    const uint8_t first[] = {0x10, 2, 18, 8, 1, (uint8_t)i, 0, 0, 0, 0, 0, 0, 0};
    const uint8_t second[] = {0x10, 2, 18, second_unit, 1, (uint8_t)i, 1, 0, 0, 0, 0, 0, 0};
    make_head(raw, 0x0F, 1), make_str(raw, "t"), make_head(raw, 0x0E, 2);
    make_bytes(raw, first, sizeof first), make_bytes(raw, second, sizeof second);
}

/* Items of one unit become a list of that unit; different units have no common type. */
TEST(test_units_of_items) {
    static batch_export o;
    for (unsigned k = 0; k < 4; k++) {
        struct ArrowArray batch = {0};
        struct ArrowSchema schema = {0};
        second_unit = k / 2 == 0 ? 8 : 7;
        REQUIRE(open_built(&o, build(add_datetimes, N, k % 2 == 1)));
        if (k / 2 == 1) {
            CHECK_CODE(read(&o, NULL, 0, 1, N, &batch), RS_E_ARG_RANGE, &err);
        } else if (CHECK_OK(read(&o, NULL, 0, 1, N, &batch), &err)) {
            REQUIRE_OK(rs_arrow_export_schema(o.out.root, &schema, &err), &err);
            CHECK_STR(schema.children[0]->format, "+l");
            CHECK_STR(schema.children[0]->children[0]->format, "tsm:");
            for (uint64_t i = 0; i < 2 * N; i++) {
                const int64_t expected = (int64_t)(i / 2 % 256 + i % 2 * 256);
                if (!CHECK(int_at(batch.children[0]->children[0], i) == expected)) break;
            }
            schema.release(&schema);
            batch.release(&batch);
        }
        close_over(&o);
    }
}

/* {"t": (i, "x", i)}, in odd records (i,) */
RECORD(add_short) {
    make_head(raw, 0x0F, 1), make_str(raw, "t"), make_head(raw, 0x0E, i % 2 == 0 ? 3 : 1), make_int(raw, (int64_t)i);
    if (i % 2 == 0) make_str(raw, "x"), make_int(raw, (int64_t)i);
}

/* A tuple shorter than those seen during inference has None for its missing items. */
TEST(test_short_tuples) {
    static batch_export o;
    struct ArrowArray batch = {0};
    rs_arrow_stop stop;
    bool whole = false;
    REQUIRE(open_built(&o, build(add_short, N, false)));
    CHECK_OK(infer(&o, 0, 2, N / 2, &whole), &err);
    CHECK(whole);
    CHECK_OK(rs_arrow_out_settle(&o.out, N, &err), &err);
    CHECK_OK(run(&o, NULL, 0, 1, N, &stop), &err);
    REQUIRE_OK(rs_arrow_out_batch(&o.out, 0, &batch, &err), &err);
    for (uint64_t i = 0; i < N; i++) {
        struct ArrowArray **items = batch.children[0]->children;
        if (!CHECK(int_at(items[0], i) == (int64_t)i && is_valid(items[2], i) == (i % 2 == 0))) break;
        if (i % 2 == 0 && !CHECK(is_text(items[1], i, "x") && int_at(items[2], i) == (int64_t)i)) break;
    }
    batch.release(&batch);
    close_over(&o);
}

/* {"t": (i, "x"), "p": (i, -i)} */
RECORD(add_pairs) {
    make_head(raw, 0x0F, 2);
    make_str(raw, "t"), make_head(raw, 0x0E, 2), make_int(raw, (int64_t)i), make_str(raw, "x");
    make_str(raw, "p"), make_head(raw, 0x0E, 2), make_int(raw, (int64_t)i), make_int(raw, -(int64_t)i);
}

/* Offsets have 64 bits if the largest record may have 1 GiB or more when UTF-8 doubles its size. */
TEST(test_wide_by_the_header) {
    static const uint64_t sizes[] = {(1 << 29) - 1, 1 << 29};
    static batch_export o;
    built b = build(add_pairs, 64, true);
    bool whole;
    REQUIRE(b.data != NULL);
    for (unsigned i = 0; i < 2; i++) {
        REQUIRE_OK(open_over(&o, &b), &err);
        o.store.header.max_bytes = sizes[i]; /* as in a store of gigabytes */
        CHECK_OK(infer(&o, 0, 1, 64, &whole), &err);
        CHECK(whole && o.out.wide == (i == 1));
        close_over(&o);
    }
    built_clear(&b);
}

/* If inference saw only records with tuples, a list in a later record is an error, not a row of None: here {"t": []}
 * after {"t": (5, True)}. The tree is made by hand, because writers make no tuple node for lists without elements. */
TEST(test_list_among_tuples) {
    static const make_node nodes[] = {{STRUCT, 0, 0, 1, 1, 0, 3, 0}, {UNION, 0, 0, 2, 2, 0, 0, 0},
                                      {TUPLE, 1, 0, 2, 4, 0, 0, 0},  {TUPLE, 0, 0, 0, 0, 0, 0, 0},
                                      {INT, 8, 0, 0, 0, 3, 8, 0},    {BOOL, 0, 0, 0, 0, 0, 0, 0}};
    static batch_export o;
    static hand h;
    rs_arrow_stop stop;
    built b;
    bool whole = false;
    (void)hand_tree(&h, nodes, 6, "\x09\1t\0\0\0\0\0\0\0", 11);
    hand_record(&h, "\0\1\5", 3), hand_record(&h, "\1", 1);
    hand_finish(&h, 0);
    b.data = h.data, b.size = h.size;
    REQUIRE_OK(open_over(&o, &b), &err);
    CHECK_OK(infer(&o, 0, 1, 2, &whole), &err); /* this compiles the tree */
    rs_arrow_out_infer_all(&o.out);
    CHECK_OK(infer(&o, 0, 1, 1, &whole), &err);
    CHECK(whole && o.out.root->children[0]->kind == RS_ARROW_KIND_STRUCT);
    CHECK_OK(rs_arrow_out_settle(&o.out, 2, &err), &err);
    CHECK_CODE(run(&o, NULL, 0, 1, 2, &stop), RS_E_FMT_VALUE, &err);
    CHECK_U64(stop.index, 1);
    close_over(&o);
    hand_clear(&h);
}

/* {"d": an object with the field "field"}, in even records of another class, which has "other" too. */
RECORD(add_objects) {
    make_head(raw, 0x0F, 1), make_str(raw, "d");
    if (i % 2 == 1) {
        make_ext(raw, 25, "Less"), make_head(raw, 0x0E, 1), make_int(raw, (int64_t)i);
        return;
    }
    make_tag(raw, 0x11), make_tag(raw, 25);
    make_head(raw, 0x0E, 3), make_str(raw, "module"), make_str(raw, "More");
    make_head(raw, 0x0E, 2), make_str(raw, "field"), make_str(raw, "other");
    make_head(raw, 0x0E, 2), make_int(raw, (int64_t)i), make_int(raw, (int64_t)i * 3);
}

/* An object has None for the fields that only objects of another class have. */
TEST(test_objects_of_two_classes) {
    static batch_export o;
    for (unsigned k = 0; k < 2; k++) {
        REQUIRE(open_built(&o, build(add_objects, N, k == 1)));
        REQUIRE_OK(read_table(&o, N), &err);
        for (uint64_t i = 0; i < N; i++) {
            struct ArrowArray **c = o.batch.children[0]->children;
            if (!CHECK(int_at(c[0], i) == (int64_t)i && is_valid(c[1], i) == (i % 2 == 0))) break;
            if (i % 2 == 0 && !CHECK(int_at(c[1], i) == (int64_t)i * 3)) break;
        }
        close_over(&o);
    }
}

/* {"d": a Decimal, in three of four records with an exponent}. Few are distinct, so a table holds them. */
RECORD(add_small_decimals) {
    const unsigned n = (unsigned)(i % 40) + 1;
    char text[32];
    if (i % 4 == 0) (void)snprintf(text, sizeof text, "%uE-7", n);
    else if (i % 4 == 1) (void)snprintf(text, sizeof text, "-%u.5E-8", n % 10);
    else if (i % 4 == 2) (void)snprintf(text, sizeof text, "0E-9");
    else (void)snprintf(text, sizeof text, "%u", n);
    make_head(raw, 0x0F, 1), make_str(raw, "d"), make_ext(raw, 19, NULL), make_str(raw, text);
}

TEST(test_small_decimals) {
    static batch_export o;
    for (unsigned k = 0; k < 2; k++) {
        REQUIRE(open_built(&o, build(add_small_decimals, 10 * N, k == 1)));
        REQUIRE_OK(read_table(&o, 10 * N), &err);
        CHECK_STR(o.schema.children[0]->format, "d:11,9");
        for (int64_t i = 0; i < 10 * N; i++) {
            const int64_t n = i % 40 + 1;
            const int64_t expected = i % 4 == 0   ? n * 100
                                     : i % 4 == 1 ? -(n % 10 * 10 + 5)
                                     : i % 4 == 2 ? 0
                                                  : n * 1000000000;
            if (!CHECK(int_at(o.batch.children[0], 2 * (uint64_t)i) == expected)) break;
            if (!CHECK(int_at(o.batch.children[0], 2 * (uint64_t)i + 1) == (expected < 0 ? -1 : 0))) break;
        }
        close_over(&o);
    }
}

/* ---- Malformed payloads ---- */

static const char *bad;
static size_t bad_size;

/* From record 5 on, an ext value that no writer makes. The builder accepts any payload. */
RECORD(add_bad) {
    make_head(raw, 0x0F, 1), make_str(raw, "x");
    if (i < 5) make_tag(raw, 0);
    else make_bytes(raw, bad, bad_size);
}

#define BAD(text) {text, sizeof(text) - 1}

TEST(test_bad_payloads) {
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {
        BAD("\x11\x0D\0\x09\1x"),                      /* date: a str */
        BAD("\x11\x10\0\x0E\0"),                       /* timedelta: a tuple */
        BAD("\x11\x0E\0\x90"),                         /* time: not a tuple */
        BAD("\x11\x0F\0\x0E\2\x90\x90"),               /* datetime: two parts */
        BAD("\x11\x0F\0\x0E\3\0\x90\0"),               /* None microseconds */
        BAD("\x11\x0F\0\x0E\3\x90\x90\x91"),           /* an int for a zone */
        BAD("\x11\x0F\0\x0E\3\x90\x90\x11\x0D\0\x91"), /* a date for a zone */
        BAD("\x11\x0F\0\x0E\3\x90\x90\x11\x11\0\x91"), /* a timezone that is not a tuple */
        BAD("\x11\x0F\0\x0E\3\x90\x90\x11\x11\0\x0E\1\x91"),
        BAD("\x11\x0F\0\x0E\3\x90\x90\x11\x11\0\x0E\3\x91\0\0"),
        BAD("\x11\x13\0\x90"),      /* Decimal: an int */
        BAD("\x11\x13\0\x09\0"),    /* no digits */
        BAD("\x11\x13\0\x09\1-"),   /* no digits after a sign */
        BAD("\x11\x13\0\x09\1."),   /* no digits at a point */
        BAD("\x11\x13\0\x09\3-E1"), /* no digits before an exponent */
        BAD("\x11\x13\0\x09\3"
            "1x2"),
        BAD("\x11\x13\0\x09\3"
            "1E+"),
        BAD("\x11\x13\0\x09\4"
            "1E+x"),
        BAD("\x11\x13\0\x09\4"
            "1..2"),
        BAD("\x11\x15\0\x09\2xx"),                                  /* UUID: a str */
        BAD("\x11\x15\0\x0C\2xx"),                                  /* too short */
        BAD("\x11\x19\x0E\3\x09\1m\x09\1q\x0E\1\x09\1n\x0D\1\x90"), /* dataclass: a list */
        BAD("\x11\x19\x0E\3\x09\1m\x09\1q\x0E\1\x09\1n\x0E\2\x90\x90"),
    };
    static batch_export o;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        struct ArrowArray batch = {0};
        bad = cases[i / 2].bytes, bad_size = cases[i / 2].size;
        built b = build(add_bad, 10, i % 2 == 0);
        REQUIRE(b.data != NULL);
        rs_status status = open_over(&o, &b);
        if (status == RS_OK) status = read(&o, NULL, 0, 1, 10, &batch);
        if (status == RS_OK) batch.release(&batch);
        if (!CHECK(status == RS_E_FMT_VALUE)) {
            (void)fprintf(stderr, "    case %u, compressed %u: %s\n", (unsigned)i / 2, i % 2 == 0,
                          rs_status_name(status));
        }
        close_over(&o);
        built_clear(&b);
    }
}
