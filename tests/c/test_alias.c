/* test_alias.c: weighted draws: exact tables, pinned draws, keys. Keys are fixed, so a bound holds in every run or in
 * none. */
#include "base/rs_alias.h"
#include "rs_test.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_WEIGHTS = 5000 };

/* xorshift64* (Vigna, 2016), a generator unlike that of the draws. */
static uint64_t sample(uint64_t *state) {
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static uint64_t other_of(const rs_alias *table, uint64_t slot) { return ((const uint32_t *)table->others)[slot]; }

/* Compares the share of each number in the slots of the table with its weight. */
static void check_shares(const double *weights, uint64_t n) {
    double *shares = (double *)calloc((size_t)n, sizeof *shares), sum = 0;
    uint64_t wrong = 0;
    rs_alias table;
    rs_error err;
    if (shares == NULL) abort();
    for (uint64_t i = 0; i < n; i++) sum += weights[i];
    if (CHECK_OK(rs_alias_init(&table, weights, n, &err), &err)) {
        for (uint64_t i = 0; i < n; i++) {
            const double own = (double)table.thresholds[i] / 18446744073709551616.0;
            wrong += other_of(&table, i) >= n;
            shares[i] += own / (double)n;
            shares[other_of(&table, i)] += (1 - own) / (double)n;
            wrong += weights[i] == 0 && table.thresholds[i] != 0;
            wrong += weights[other_of(&table, i)] == 0;
        }
        for (uint64_t i = 0; i < n; i++) wrong += fabs(shares[i] - weights[i] / sum) > 1e-12;
        if (!CHECK_U64(wrong, 0)) (void)fprintf(stderr, "    n %llu\n", (unsigned long long)n);
        rs_alias_clear(&table);
    }
    free(shares);
}

TEST(test_tables_hold_the_weights) {
    static double weights[MAX_WEIGHTS];
    uint64_t state = 3;
    for (uint64_t n = 1; n < 300; n++) {
        for (uint64_t i = 0; i < n; i++) weights[i] = (double)(sample(&state) >> 40);
        check_shares(weights, n);
        for (uint64_t i = 0; i < n; i++)
            weights[i] = i % 3 == 0 ? 0 : 1e-300 * (double)i; /* some are 0, all are tiny */
        weights[n - 1] = 1e-300;
        check_shares(weights, n);
        for (uint64_t i = 0; i < n; i++)
            weights[i] = 0.1; /* equal weights: the slots left over by rounding go to one number each */
        check_shares(weights, n);
        weights[n / 2] = 1e300; /* one number has nearly all the weight */
        check_shares(weights, n);
    }
    for (uint64_t i = 0; i < MAX_WEIGHTS; i++) weights[i] = 1.0 / (double)(i + 1);
    check_shares(weights, MAX_WEIGHTS);
}

TEST(test_bad_weights) {
    static const double bad[] = {-1, -1e-300, NAN, INFINITY, -INFINITY};
    double weights[4] = {1, 2, 3, 4};
    rs_alias table;
    rs_error err;
    EACH (k, bad) {
        weights[2] = bad[k];
        CHECK_CODE(rs_alias_init(&table, weights, 4, &err), RS_E_ARG_RANGE, &err);
        CHECK_U64(err.record, 2);
        CHECK(table.thresholds == NULL && table.others == NULL);
        CHECK_CODE(rs_alias_init(&table, weights, 4, NULL), RS_E_ARG_RANGE, NULL);
    }
    weights[0] = weights[1] = weights[2] = weights[3] = 0;
    CHECK_CODE(rs_alias_init(&table, weights, 4, &err), RS_E_ARG_RANGE, &err);
    CHECK_U64(err.record, RS_NOWHERE);
    CHECK_CODE(rs_alias_init(&table, weights, 0, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_alias_init(&table, weights, RS_PERMUTE_MAX + 1, &err), RS_E_ARG_RANGE, &err);
    weights[0] = weights[1] = 1e308;
    CHECK_CODE(rs_alias_init(&table, weights, 4, &err), RS_E_ARG_RANGE, &err);
    CHECK_U64(err.record, RS_NOWHERE);
    rs_alias_clear(&table);
    rs_alias_clear(&table);
}

TEST(test_bytes_of_tables) {
    static const double weights[] = {3, 0, 1, 7, 0.5};
    uint64_t thresholds[5];
    uint32_t others[5];
    rs_alias table, copy;
    rs_error err;
    REQUIRE_OK(rs_alias_init(&table, weights, 5, &err), &err);
    memcpy(thresholds, table.thresholds, sizeof thresholds);
    memcpy(others, table.others, sizeof others);
    if (CHECK_OK(rs_alias_of_bytes(&copy, 5, thresholds, 40, others, 20, &err), &err)) {
        CHECK(copy.n == 5 && memcmp(copy.thresholds, thresholds, 40) == 0 && memcmp(copy.others, others, 20) == 0);
        rs_alias_clear(&copy);
    }
    CHECK_CODE(rs_alias_of_bytes(&copy, 5, thresholds, 39, others, 20, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_alias_of_bytes(&copy, 5, thresholds, 40, others, 40, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_alias_of_bytes(&copy, 0, thresholds, 0, others, 0, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_alias_of_bytes(&copy, UINT64_MAX, thresholds, 40, others, 20, &err), RS_E_ARG_RANGE, &err);
    others[4] = 5;
    CHECK_CODE(rs_alias_of_bytes(&copy, 5, thresholds, 40, others, 20, &err), RS_E_ARG_RANGE, &err);
    CHECK(copy.thresholds == NULL && copy.others == NULL);
    rs_alias_clear(&table);
}

/* 4 bytes hold each number of a table of up to 2^32 numbers. */
TEST(test_width_of_numbers) {
    CHECK_U64(rs_alias_width(1), 4);
    CHECK_U64(rs_alias_width(UINT64_C(1) << 32), 4);
    CHECK_U64(rs_alias_width((UINT64_C(1) << 32) + 1), 8);
    CHECK_U64(rs_alias_width(RS_PERMUTE_MAX), 8);
}

TEST(test_runs_are_single_draws) {
    static const double weights[] = {3, 0, 1, 7, 0.5};
    static const uint64_t firsts[] = {0, 1, 999, UINT64_C(1) << 40}, steps[] = {1, 2, 0, 1000003};
    static const uint64_t periods[] = {1, 10, 64, UINT64_MAX};
    rs_alias table;
    rs_error err;
    REQUIRE_OK(rs_alias_init(&table, weights, 5, &err), &err);
    for (size_t f = 0; f < 4; f++) {
        for (size_t s = 0; s < 4; s++) {
            for (size_t p = 0; p < 4; p++) {
                for (size_t count = 0; count < 70; count++) {
                    int64_t out[71], below[71];
                    uint64_t wrong = 0;
                    out[count] = below[count] = -5;
                    rs_alias_run(&table, 9, firsts[f], steps[s], periods[p], count, out);
                    for (uint64_t i = 0; i < count; i++) below[i] = (int64_t)(i * 1000);
                    rs_alias_below(9, firsts[f], steps[s], periods[p], count, below, below);
                    for (uint64_t i = 0; i < count; i++) {
                        const uint64_t draw = (firsts[f] + steps[s] * i) % periods[p];
                        wrong += (uint64_t)out[i] != rs_alias_at(&table, rs_alias_word(9, 2 * draw));
                        wrong += (uint64_t)below[i] != rs_mul_high(rs_alias_word(9, 2 * draw + 1), i * 1000);
                        wrong += out[i] == 1 || (i == 0 ? below[i] != 0 : below[i] >= (int64_t)(i * 1000));
                    }
                    CHECK_U64(wrong, 0);
                    CHECK(out[count] == -5 && below[count] == -5);
                }
            }
        }
    }
    rs_alias_clear(&table);
}

/* Draws of tests/ref/alias.py, which follows only the comment at the top of rs_alias.h. They never change. */
TEST(test_pinned) {
    static const double weights[] = {3, 0, 1, 7, 0.5};
    static const int64_t drawn[] = {0, 3, 0, 3, 3, 3, 3, 3, 0, 0, 3, 3, 0, 0, 3, 0, 3, 3, 0, 0};
    static const unsigned expected[] = {0, 0, 0, 0, 2};
    double keys[4], other_weights[4] = {3, 1, 7, 0.5};
    rs_alias table;
    rs_error err;
    int64_t out[20];
    REQUIRE_OK(rs_alias_init(&table, weights, 5, &err), &err);
    rs_alias_run(&table, 42, 0, 1, UINT64_MAX, 20, out);
    for (uint64_t i = 0; i < 20; i++) CHECK_U64(out[i], drawn[i]);
    rs_alias_clear(&table);
    for (uint64_t k = 0; k < 5; k++) { /* the number whose key is smallest, for five draws */
        unsigned least = 0;
        rs_alias_keys(other_weights, 4, 42 + k, keys);
        for (uint64_t i = 1; i < 4; i++) least = keys[i] < keys[least] ? (unsigned)i : least;
        CHECK_U64(least, expected[k]);
    }
}

TEST(test_keys_are_logarithms) {
    enum { N = 3000 };
    static double weights[N], keys[N];
    uint64_t wrong = 0, first = 0;
    for (uint64_t i = 0; i < N; i++) weights[i] = i == 7 ? 0 : i == 8 ? 5e-324 : 1 + (double)(i % 9);
    rs_alias_keys(weights, N, 12, keys);
    for (uint64_t i = 0; i < N; i++) {
        const double u = ((double)(rs_alias_word(12, i) >> 11) + 0.5) / 9007199254740992.0;
        const double expected = -log(u) / weights[i];
        if (i == 7 || i == 8) continue;
        wrong += fabs(keys[i] - expected) > 1e-14 * fabs(expected);
    }
    CHECK_U64(wrong, 0);
    CHECK(isinf(keys[7]) && keys[8] < keys[7] && keys[8] > 1e300);
    /* The heavier of two numbers is drawn first as often as its weight says: 3 times in 4. */
    for (uint64_t i = 0; i < 10000; i++) {
        const double two[2] = {3, 1};
        double key[2];
        rs_alias_keys(two, 2, i * 1000003, key);
        first += key[0] < key[1];
    }
    CHECK(first > 7500 - 217 && first < 7500 + 217);
}
