/* test_string_cut.c: cutting strings by each kind of step, strings that have nothing to cut at, and starts. */
#include "plan/rs_string_cut.h"

#include <stdio.h>

#include "rs_test.h"

static char leaves_text[256];

/* Returns the leaves of a string, joined by '|', or "no" if it cannot be cut. Leaves that the start covers are "*". */
static const char *cut(const rs_cut *c, const char *text) {
    rs_slice leaves[RS_CUT_LEAVES];
    uint32_t from;
    size_t used = 0;
    if (!rs_cut_run(c, rs_slice_of(text, strlen(text)), leaves, &from)) return "no";
    for (uint32_t i = 0; i < c->n_leaves; i++) {
        int size = i < from ? 1 : (int)rs_slice_left(&leaves[i]);
        used += (size_t)snprintf(leaves_text + used, sizeof leaves_text - used, "%s%.*s", i == 0 ? "" : "|", size,
                                 i < from ? "*" : (const char *)leaves[i].ptr);
    }
    return leaves_text;
}

#define LEAF {RS_CUT_LEAF, 0}

TEST(test_steps) {
    rs_cut first = {.n_steps = 3, .n_leaves = 2, .steps = {{RS_CUT_FIRST, '/'}, LEAF, LEAF}};
    rs_cut last = {.n_steps = 3, .n_leaves = 2, .steps = {{RS_CUT_LAST, '_'}, LEAF, LEAF}};
    rs_cut head = {.n_steps = 3, .n_leaves = 2, .steps = {{RS_CUT_HEAD, RS_CUT_LETTERS}, LEAF, LEAF}};
    rs_cut tail = {.n_steps = 3, .n_leaves = 2, .steps = {{RS_CUT_TAIL, RS_CUT_DIGITS}, LEAF, LEAF}};
    CHECK_STR(cut(&first, "a/b/c"), "a|b/c");
    CHECK_STR(cut(&first, "/"), "|");
    CHECK_STR(cut(&first, "more than eight bytes/and/more"), "more than eight bytes|and/more");
    CHECK_STR(cut(&first, "none"), "no");
    CHECK_STR(cut(&first, ""), "no");
    CHECK_STR(cut(&last, "ice_cream_0001"), "ice_cream|0001");
    CHECK_STR(cut(&last, "ice"), "no");
    CHECK_STR(cut(&head, "n01440764"), "n|01440764");
    CHECK_STR(cut(&head, "abc"), "abc|");
    CHECK_STR(cut(&head, "1a"), "no");
    CHECK_STR(cut(&tail, "x-7.12345678901"), "x-7.|12345678901");
    CHECK_STR(cut(&tail, "12x"), "no");
}

/* The search for digits compares eight bytes at a time. */
TEST(test_runs_of_digits) {
    rs_cut digits = {.n_steps = 3, .n_leaves = 2, .steps = {{RS_CUT_HEAD, RS_CUT_DIGITS}, LEAF, LEAF}};
    char text[32], expected[40];
    for (unsigned n = 1; n < 20; n++) {
        for (unsigned c = 1; c < 256; c++) {
            if (c >= '0' && c <= '9') continue;
            memset(text, (int)('0' + n % 10), n);
            memset(text + n, (int)c, 10);
            text[n + 10] = '\0';
            (void)snprintf(expected, sizeof expected, "%.*s|%s", (int)n, text, text + n);
            if (!CHECK_STR(cut(&digits, text), expected)) return;
        }
    }
}

/* The first and the last character of each class, and their neighbours. */
TEST(test_classes) {
    static const struct {
        rs_cut_class class;
        const char *chars;
    } cases[] = {{RS_CUT_DIGITS, "09"}, {RS_CUT_LETTERS, "AZaz\x80\xFF"}, {RS_CUT_SIGNS, "/:@[`{\x7F\x01"}};
    char text[3] = {0};
    for (size_t i = 0; i < 9; i++) {
        rs_cut head = {.n_steps = 3, .n_leaves = 2, .steps = {{RS_CUT_HEAD, (uint8_t)(i / 3)}, LEAF, LEAF}};
        for (size_t k = 0; cases[i % 3].chars[k] != '\0'; k++) {
            text[0] = cases[i % 3].chars[k];
            CHECK((strcmp(cut(&head, text), "no") != 0) == (cases[i % 3].class == (rs_cut_class)(i / 3)));
        }
    }
}

TEST(test_tree) {
    /* first '/': (last '_': leaf, leaf), (first '.': (leading letters: leaf, leaf), leaf) */
    rs_cut c = {.n_steps = 9,
                .n_leaves = 5,
                .steps = {{RS_CUT_FIRST, '/'},
                          {RS_CUT_LAST, '_'},
                          LEAF,
                          LEAF,
                          {RS_CUT_FIRST, '.'},
                          {RS_CUT_HEAD, RS_CUT_LETTERS},
                          LEAF,
                          LEAF,
                          LEAF}};
    CHECK_STR(cut(&c, "a_b_c/img12.jpg"), "a_b|c|img|12|jpg");
    CHECK_STR(cut(&c, "a_b_c/12.jpg"), "no");
    CHECK_STR(cut(&c, "abc/img12.jpg"), "no");
}

TEST(test_start) {
    rs_cut c = {.n_steps = 5, .n_leaves = 3, .steps = {{RS_CUT_FIRST, '/'}, LEAF, {RS_CUT_FIRST, '/'}, LEAF, LEAF}};
    rs_cut_set_start(&c, rs_slice_of("train/", 6), 2, 1);
    CHECK_STR(cut(&c, "train/a/b"), "*|a|b");
    CHECK_STR(cut(&c, "trains/a/b"), "trains|a|b");
    CHECK_STR(cut(&c, "tr"), "no");
    CHECK_STR(cut(&c, "train/a"), "no");
    rs_cut_set_start(&c, rs_slice_of("a longer start of three words/", 30), 2, 1);
    CHECK_STR(cut(&c, "a longer start of three words/a/b"), "*|a|b");
    CHECK_STR(cut(&c, "a longer start of three wordz/a/b"), "a longer start of three wordz|a|b");
}

TEST(test_narrow) {
    uint8_t bytes[RS_CUT_UNITS];
    const uint16_t wide[] = {'a', 0xFF, 0x100, 0xFFFF, 0x4E00};
    rs_slice s = rs_cut_narrow(rs_slice_of(wide, sizeof wide), bytes);
    CHECK_U64(rs_slice_left(&s), 5);
    CHECK(memcmp(s.ptr, "a\xFF\xFF\xFF\xFF", 5) == 0);
}
