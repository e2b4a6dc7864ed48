/* test_string_search.c: which cut a sample of strings suggests. */
#include "plan/rs_string_search.h"

#include <stdio.h>

#include "rs_test.h"

static char texts[RS_SAMPLE_STRINGS][128], kinds_text[256];
static rs_sample sample;
static rs_cut_guess guess;

static void begin(uint64_t n, unsigned unit_bytes) {
    memset(&sample, 0, sizeof sample);
    sample.n = n;
    sample.unit_bytes = unit_bytes;
}

static char *next(void) { return texts[sample.size]; }

static void add_next(void) {
    sample.strings[sample.size] = rs_slice_of(texts[sample.size], strlen(texts[sample.size]));
    sample.size++;
}

/* Returns the kinds of the leaves, or "none" without a cut. */
static const char *leaf_kinds(void) {
    static const char *const names[] = {"const", "same", "digits", "alphabet", "words", "text"};
    size_t used = 0;
    kinds_text[0] = '\0';
    if (!rs_cut_search(&sample, &guess)) return "none";
    for (uint32_t i = 0; i < guess.cut.n_leaves; i++) {
        used += (size_t)snprintf(kinds_text + used, sizeof kinds_text - used, "%s%s", i == 0 ? "" : " ",
                                 names[guess.leaves[i].kind]);
    }
    return kinds_text;
}

/* Underscores that join words of a part are not cut points; the underscore before the number is. */
TEST(test_joined_words) {
    static const char *const names[] = {"ice_cream", "pizza", "hot_and_sour_soup",
                                        "apple_pie", "steak", "beef_tartare"};
    uint32_t i;
    for (i = 0, begin(50000, 1); i < RS_SAMPLE_STRINGS; i++, add_next())
        (void)snprintf(next(), 128, "%s/%s_%04u.jpg", names[i / 22], names[i / 22], i * 7 % 1000);
    CHECK_STR(leaf_kinds(), "words same digits const");
}

TEST(test_fields) {
    uint32_t i, random = 1;
    for (i = 0, begin(50000, 1); i < RS_SAMPLE_STRINGS; i++, add_next()) {
        char *to = next() + snprintf(next(), 128, "wav/LJ%03u-%04u.wav|", i % 50, i * 31 % 400);
        for (uint32_t k = 0; k < 40; k++)
            random = random * 1664525 + 1013904223, to[k] = "eeee tttaaa oin."[random >> 28 & 15];
        to[40] = '\0';
    }
    CHECK(strncmp(leaf_kinds(), "const const digits digits const ", 32) == 0 && strstr(kinds_text, "text") != NULL);
    for (i = 0, begin(50000, 1); i < RS_SAMPLE_STRINGS; i++, add_next()) /* a date and a time */
        (void)snprintf(next(), 128, "2017-%02u-%02u %02u:%02u:%02u", i % 12 + 1, i * 5 % 28 + 1, i % 24, i * 7 % 60,
                       i * 11 % 60);
    CHECK_STR(leaf_kinds(), "const digits digits digits digits digits");
}

/* A few numbers have leading zeros or another width: their strings do not fit. */
TEST(test_strict) {
    uint32_t i;
    for (i = 0, begin(50000, 1); i < RS_SAMPLE_STRINGS; i++, add_next())
        (void)snprintf(next(), 128, i % 20 == 7 ? "id-0%u" : "id-%u", 100000 + i * i * 7919 % 900000);
    CHECK_STR(leaf_kinds(), "const digits");
    CHECK_U64(guess.leaves[1].strict, RS_STRICT_PLAIN);
    for (i = 0, begin(50000, 1); i < RS_SAMPLE_STRINGS; i++, add_next())
        (void)snprintf(next(), 128, i % 20 == 7 ? "0.%014u" : "0.%016u", i * i * 7919 % 900000);
    CHECK_STR(leaf_kinds(), "const digits");
    CHECK_U64(guess.leaves[1].strict, 16);
    CHECK(rs_leaf_fits(3, NULL, rs_slice_of("007", 3)) && !rs_leaf_fits(3, NULL, rs_slice_of("07", 2)));
    CHECK(!rs_leaf_fits(RS_STRICT_PLAIN, NULL, rs_slice_of("007", 3)) &&
          rs_leaf_fits(RS_STRICT_PLAIN, NULL, rs_slice_of("0", 1)));
    CHECK(!rs_leaf_fits(RS_STRICT_PLAIN, NULL, rs_slice_of("", 0)) && !rs_leaf_fits(2, NULL, rs_slice_of("1x", 2)));
    CHECK(rs_leaf_fits(0, NULL, rs_slice_of("x", 1)));
    CHECK(rs_leaf_fits(RS_STRICT_PLAIN, NULL, rs_slice_of("1234567890123456789", RS_STRICT_DIGITS)));
    CHECK(!rs_leaf_fits(RS_STRICT_PLAIN, NULL, rs_slice_of("1234567890123456789", RS_STRICT_DIGITS + 1)));
}

TEST(test_nothing) {
    uint32_t i, random = 1;
    for (i = 0, begin(50000, 1); i < RS_SAMPLE_STRINGS; i++, add_next()) { /* sentences */
        char *to = next();
        for (uint32_t k = 0; k < 40; k++)
            random = random * 1664525 + 1013904223, to[k] = "eeee tttaaa oin."[random >> 28 & 15];
        to[40] = '\0';
    }
    CHECK_STR(leaf_kinds(), "none");
    for (i = 0, begin(15, 1); i < 15; i++, add_next()) (void)snprintf(next(), 128, "img_%u.jpg", i);
    CHECK_STR(leaf_kinds(), "none"); /* too few */
}

/* A leaf with units above 255 is text, even if its bytes look like digits in narrow units. */
TEST(test_wide) {
    uint32_t i;
    for (i = 0, begin(50000, 2); i < RS_SAMPLE_STRINGS; i++, add_next())
        (void)snprintf(next(), 128, "a/%04u|\xFF\xFF\xFF", i * 7);
    CHECK_STR(leaf_kinds(), "const digits text");
}
