/* test_names.c: names and their numbers: texts and ints, thousands of them. */
#include "columns/rs_names.h"

#include "rs_test.h"

static rs_error err;

TEST(test_names) {
    static const uint8_t eight[8] = {7};
    rs_names names = {0};
    char text[32];
    bool is_new;
    CHECK(rs_names_of_text(&names, (const uint8_t *)"a", 1) == RS_NAMES_NONE);
    CHECK(rs_names_of_int(&names, 0) == RS_NAMES_NONE);
    for (int64_t i = 0; i < 5000; i++) {
        const int n = snprintf(text, sizeof text, "name %lld", (long long)i);
        if (i % 2 == 0) CHECK_OK(rs_names_add_text(&names, (const uint8_t *)text, (uint64_t)n, &is_new, &err), &err);
        else CHECK_OK(rs_names_add_int(&names, i - 2500, &is_new, &err), &err);
        CHECK(is_new);
    }
    for (int64_t i = 0; i < 5000; i++) {
        const int n = snprintf(text, sizeof text, "name %lld", (long long)i);
        const int64_t expected = i % 2 == 0 ? i : RS_NAMES_NONE;
        CHECK(rs_names_of_text(&names, (const uint8_t *)text, (uint64_t)n) == expected);
        CHECK(rs_names_of_int(&names, i - 2500) == (i % 2 == 0 ? RS_NAMES_NONE : i));
    }
    CHECK_OK(rs_names_add_int(&names, 1 - 2500, &is_new, &err), &err);
    CHECK(!is_new && names.n == 5000);
    /* A text with the bytes of an int is another name. */
    CHECK_OK(rs_names_add_int(&names, 7, &is_new, &err), &err);
    CHECK_OK(rs_names_add_text(&names, eight, 8, &is_new, &err), &err);
    CHECK(is_new && rs_names_of_text(&names, eight, 8) == 5000);
    CHECK_OK(rs_names_add_text(&names, NULL, 0, &is_new, &err), &err);
    CHECK(is_new && rs_names_of_text(&names, NULL, 0) == 5001);
    rs_names_clear(&names);
    CHECK(names.n == 0 && rs_names_of_int(&names, 7) == RS_NAMES_NONE);
}
