/* test_attempts.c: a failed attempt for a position is reported until it is dropped, except in runs that repeat
 * attempts. */
#include "plan/rs_attempts.h"
#include "rs_test.h"

TEST(test_flags) {
    rs_attempts attempts = {0};
    CHECK(rs_attempts_known(&attempts, 7, 1) == 0);
    rs_attempts_drop(&attempts, 7, RS_POSITION_NO_TEMPLATE); /* nothing to drop */
    rs_attempts_add(&attempts, 7, RS_POSITION_NO_DICTIONARY);
    rs_attempts_add(&attempts, 7, RS_POSITION_NO_TEMPLATE);
    CHECK(rs_attempts_known(&attempts, 7, 2) == (RS_POSITION_NO_DICTIONARY | RS_POSITION_NO_TEMPLATE));
    CHECK(rs_attempts_known(&attempts, 8, 2) == 0);
    CHECK(rs_attempts_known(&attempts, 7, 16) == 0); /* a run that repeats all attempts */
    CHECK(rs_attempts_known(&attempts, 7, 17) != 0);
    rs_attempts_drop(&attempts, 7, RS_POSITION_NO_DICTIONARY);
    CHECK(rs_attempts_known(&attempts, 7, 2) == RS_POSITION_NO_TEMPLATE);
    rs_attempts_add(&attempts, 0, RS_POSITION_NO_TEMPLATE); /* 0 is not a position */
    CHECK(rs_attempts_known(&attempts, 0, 2) == 0);
    rs_attempts_clear(&attempts);
    CHECK(attempts.n == 0 && rs_attempts_known(&attempts, 7, 2) == 0);
}

TEST(test_many_positions) {
    rs_attempts attempts = {0}, copy = {0};
    uint32_t wrong = 0;
    for (uint64_t i = 1; i <= 40000; i++)
        rs_attempts_add(&attempts, i * UINT64_C(0x9E3779B97F4A7C15), RS_POSITION_NO_DICTIONARY);
    CHECK(attempts.used <= attempts.n / 2 && attempts.n == 65536); /* full: later positions are not recorded */
    for (uint64_t i = 1; i <= 32768; i++)
        wrong += rs_attempts_known(&attempts, i * UINT64_C(0x9E3779B97F4A7C15), 1) == 0;
    CHECK(wrong == 0);
    CHECK(rs_attempts_known(&attempts, UINT64_C(40000) * UINT64_C(0x9E3779B97F4A7C15), 1) == 0);
    rs_attempts_copy(&copy, &attempts);
    rs_attempts_drop(&attempts, 5 * UINT64_C(0x9E3779B97F4A7C15), RS_POSITION_NO_DICTIONARY);
    CHECK(rs_attempts_known(&copy, 5 * UINT64_C(0x9E3779B97F4A7C15), 1) !=
          0); /* a copy does not change with the original */
    rs_attempts_copy(&copy, &attempts);
    CHECK(rs_attempts_known(&copy, 5 * UINT64_C(0x9E3779B97F4A7C15), 1) == 0);
    rs_attempts_clear(&attempts);
    rs_attempts_copy(&copy, &attempts);
    CHECK(copy.slots == NULL && copy.n == 0);
    rs_attempts_clear(&copy);
}
