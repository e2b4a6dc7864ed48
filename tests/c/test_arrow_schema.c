/* test_arrow_schema.c: types whose format string has parameters, good and broken, and extension types. */
#include "rs_arrow_rows.h"

TEST(test_offsets_of_zones) {
    static const struct {
        const char *format;
        int64_t minutes;
    } good[] = {
        {"tsu:+05:30", 330}, {"tsu:-00:45", -45}, {"tsu:+23:59", 1439}, {"tsu:-19:08", -1148}, {"tsu:+00:00", 0}};
    static const char *const bad[] = {"tsu:+5:30",  "tsu:+24:00", "tsu:+00:60",  "tsu:*05:30", "tsu:+05-30",
                                      "tsu:+0a:30", "tsu:+05:3/", "tsu:+05:300", "tsu:Nowhere"};
    static const int64_t epoch_us = INT64_C(719162) * 86400 * 1000000;
    rs_buffer expected = {0};
    EACH (i, good) {
        const int64_t us = 7;
        make_ext(&expected, 15, NULL), make_head(&expected, 0x0E, 3);
        make_int(&expected, epoch_us + 7 + good[i].minutes * 60000000), make_int(&expected, 0);
        make_ext(&expected, 17, NULL), make_head(&expected, 0x0E, 2);
        make_int(&expected, good[i].minutes * 60000000), make_tag(&expected, 0);
        check_rows(arrow_set(arrow_make(good[i].format, "", 1, 2), 1, &us, 8), &expected);
        arrow_drop();
    }
    EACH (i, bad) {
        check_refused(arrow_make(bad[i], "", 0, 2), RS_E_IN_TYPE, "$: unknown time zone ");
    }
}

TEST(test_decimals_of_each_width) {
    static const struct {
        const char *format;
        size_t bytes;
    } cases[] = {{"d:9,2,32", 4}, {"d:9,2,64", 8}, {"d:9,2", 16}, {"d:9,2,128", 16}, {"d:9,2,256", 32}};
    static const char *const bad[] = {"d:9", "d:9,", "d:9,2,", "d:9,2,65", "d:9,2,64,", "d:9+2", "d:9,2+64", "d:,2"};
    uint8_t bytes[32];
    rs_buffer expected = {0};
    memset(bytes, 0xFF, sizeof bytes);
    rs_store_u32(bytes, (uint32_t)-1234);
    EACH (i, cases) {
        make_ext(&expected, 19, NULL), make_str(&expected, "-12.34");
        check_rows(arrow_set(arrow_make(cases[i].format, "", 1, 2), 1, bytes, cases[i].bytes), &expected);
        arrow_drop();
    }
    EACH (i, bad) check_refused(arrow_make(bad[i], "", 0, 2), RS_E_IN_BROKEN, "$");
}

/* An int8 of the extension bool8 is a bool. The name on another width, other names and broken metadata are ignored. */
TEST(test_bool8) {
    static const char bool8[] = "\1\0\0\0\24\0\0\0ARROW:extension:name\13\0\0\0arrow.bool8";
    static const char no_value[] = "\1\0\0\0\24\0\0\0ARROW:extension:name\377\377\377\377";
    static const char other[] = "\1\0\0\0\24\0\0\0ARROW:extension:name\13\0\0\0arrow.bool9";
    static const char no_key[] = "\1\0\0\0\377\377\377\377", no_name[] = "\1\0\0\0\1\0\0\0k\1\0\0\0v";
    /* Two pairs; a negative length in the first leads far before the metadata. */
    static const char far_key[] = "\2\0\0\0\0\0\0\200", far_value[] = "\2\0\0\0\1\0\0\0k\0\0\0\200";
    static const char *const metadata[] = {bool8, no_value, other, no_key, no_name, far_key, far_value, NULL};
    const int8_t bytes[] = {0, 1, 5};
    const int16_t wide[] = {0, 1, 5};
    rs_buffer expected = {0};
    for (unsigned i = 0; i < 9; i++) {
        arrow_made *m = i < 8 ? arrow_set(arrow_make("c", "", 3, 2), 1, bytes, sizeof bytes)
                              : arrow_set(arrow_make("s", "", 3, 2), 1, wide, sizeof wide);
        m->schema.metadata = i < 8 ? metadata[i] : bool8;
        if (i == 0) make_tag(&expected, 1), make_tag(&expected, 2), make_tag(&expected, 2);
        else make_int(&expected, 0), make_int(&expected, 1), make_int(&expected, 5);
        check_rows(m, &expected);
        arrow_drop();
    }
}
