/* test_notes.c: what failed for a position is known until it is dropped, except in the runs that repeat attempts. */
#include "plan/rs_notes.h"
#include "rs_test.h"

TEST(test_flags) {
    rs_notes notes = {0};
    CHECK(rs_notes_known(&notes, 7, 1) == 0);
    rs_notes_drop(&notes, 7, RS_POSITION_NO_TEMPLATE); /* nothing to drop */
    rs_notes_add(&notes, 7, RS_POSITION_NO_DICTIONARY);
    rs_notes_add(&notes, 7, RS_POSITION_NO_TEMPLATE);
    CHECK(rs_notes_known(&notes, 7, 2) == (RS_POSITION_NO_DICTIONARY | RS_POSITION_NO_TEMPLATE));
    CHECK(rs_notes_known(&notes, 8, 2) == 0);
    CHECK(rs_notes_known(&notes, 7, 16) == 0); /* a run that repeats all attempts */
    CHECK(rs_notes_known(&notes, 7, 17) != 0);
    rs_notes_drop(&notes, 7, RS_POSITION_NO_DICTIONARY);
    CHECK(rs_notes_known(&notes, 7, 2) == RS_POSITION_NO_TEMPLATE);
    rs_notes_add(&notes, 0, RS_POSITION_NO_TEMPLATE); /* 0 is no position */
    CHECK(rs_notes_known(&notes, 0, 2) == 0);
    rs_notes_clear(&notes);
    CHECK(notes.n == 0 && rs_notes_known(&notes, 7, 2) == 0);
}

TEST(test_many) {
    rs_notes notes = {0}, copy = {0};
    uint32_t wrong = 0;
    for (uint64_t i = 1; i <= 40000; i++)
        rs_notes_add(&notes, i * UINT64_C(0x9E3779B97F4A7C15), RS_POSITION_NO_DICTIONARY);
    CHECK(notes.used <= notes.n / 2 && notes.n == 65536); /* full: later positions are not noted */
    for (uint64_t i = 1; i <= 32768; i++) wrong += rs_notes_known(&notes, i * UINT64_C(0x9E3779B97F4A7C15), 1) == 0;
    CHECK(wrong == 0);
    CHECK(rs_notes_known(&notes, UINT64_C(40000) * UINT64_C(0x9E3779B97F4A7C15), 1) == 0);
    rs_notes_copy(&copy, &notes);
    rs_notes_drop(&notes, 5 * UINT64_C(0x9E3779B97F4A7C15), RS_POSITION_NO_DICTIONARY);
    CHECK(rs_notes_known(&copy, 5 * UINT64_C(0x9E3779B97F4A7C15), 1) !=
          0); /* a copy does not change with the original */
    rs_notes_copy(&copy, &notes);
    CHECK(rs_notes_known(&copy, 5 * UINT64_C(0x9E3779B97F4A7C15), 1) == 0);
    rs_notes_clear(&notes);
    rs_notes_copy(&copy, &notes);
    CHECK(copy.at == NULL && copy.n == 0);
    rs_notes_clear(&copy);
}
