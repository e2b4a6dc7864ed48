/* test_permute.c: the permutation "feistel-1": a bijection for every n, pinned results, statistics with fixed seeds. */
#include "base/rs_permute.h"
#include "rs_test.h"

#include <stdlib.h>

static uint64_t at(uint64_t n, uint64_t seed, uint64_t i) {
    rs_permutation p;
    rs_permutation_init(&p, n, seed);
    return rs_permutation_at(&p, i);
}

/* xorshift64* (Vigna, 2016): arguments for the samples, unlike anything in the permutation itself. */
static uint64_t sample(uint64_t *state) {
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static uint32_t *make_counts(uint64_t n) {
    uint32_t *counts = (uint32_t *)calloc((size_t)n, sizeof *counts);
    if (counts == NULL) abort();
    return counts;
}

/* ---- Properties ---- */

TEST(test_mul_high) {
    static const uint64_t edges[] = {
        0, 1, 2, UINT32_MAX, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1, UINT64_MAX - 1, UINT64_MAX};
    uint64_t state = 1, wrong = 0;
    EACH (i, edges) {
        EACH (k, edges) {
            CHECK_U64(rs_mul_high_portable(edges[i], edges[k]), rs_mul_high(edges[i], edges[k]));
        }
    }
    for (size_t i = 0; i < 100000; i++) {
        uint64_t a = sample(&state), b = sample(&state) >> (i % 64);
        wrong += rs_mul_high_portable(a, b) != rs_mul_high(a, b);
    }
    CHECK_U64(wrong, 0);
    CHECK_U64(rs_mul_high_portable(UINT64_MAX, UINT64_MAX), UINT64_MAX - 1);
    CHECK_U64(rs_mul_high_portable(UINT64_C(1) << 63, 6), 3);
    CHECK_U64(rs_mul_high_portable(UINT64_C(0x123456789ABCDEF0), UINT64_C(0xFEDCBA9876543210)),
              UINT64_C(0x121FA00AD77D7422));
}

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static uint64_t undo_round(uint64_t half, uint64_t key, uint64_t other, uint64_t modulus) {
    const uint64_t amount = rs_mul_high(mix(key + other * UINT64_C(0x9E3779B97F4A7C15)), modulus);
    return half >= amount ? half - amount : half + modulus - amount;
}

/* Returns the position of an element, by inverting the description in rs_permute.h. This shows that long lists are
 * permuted, without reading them in full. */
static uint64_t position_of(const rs_permutation *p, uint64_t element) {
    if (p->n <= 1) return 0;
    do {
        uint64_t l = element % p->a, r = element / p->a;
        for (uint64_t pass = p->n < 4096 ? 4 : 1; pass-- > 0;) {
            for (int j = 7; j >= 0; j--) {
                if (j % 2 != 0) r = undo_round(r, p->keys[j], l + (pass << 32), p->b);
                else l = undo_round(l, p->keys[j], r + (pass << 32), p->a);
            }
        }
        element = l + p->a * r;
    } while (element >= p->n);
    return element;
}

/* Returns whether every element occurs once, and the inverse finds its position. */
static bool is_bijective(uint64_t n, uint64_t seed) {
    uint32_t *seen = make_counts(n + 1);
    rs_permutation p;
    uint64_t wrong = 0;
    rs_permutation_init(&p, n, seed);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t element = rs_permutation_at(&p, i);
        wrong += element >= n || seen[element]++ != 0 || position_of(&p, element) != i;
    }
    free(seen);
    return wrong == 0;
}

TEST(test_bijective) {
    static const uint64_t longer[] = {4095, 4096, 4097, 9409, 9410, 65535, 65536, 65537, 100000, 262144};
    for (uint64_t n = 0; n <= 2000; n++) {
        if (!CHECK(is_bijective(n, n * 3))) (void)fprintf(stderr, "    n %llu\n", (unsigned long long)n);
    }
    for (uint64_t n = 0; n <= 40; n++) {
        for (uint64_t seed = 0; seed < 50; seed++) CHECK(is_bijective(n, seed));
    }
    EACH (i, longer) CHECK(is_bijective(longer[i], UINT64_MAX - i));
}

/* Lists too long to read in full: positions at both ends and in between are found again. */
TEST(test_bijective_when_long) {
    static const uint64_t longer[] = {1000003,
                                      UINT32_MAX,
                                      UINT64_C(1) << 32,
                                      (UINT64_C(1) << 32) + 1,
                                      UINT64_C(999999999999),
                                      (UINT64_C(1) << 40) + 12345,
                                      UINT64_C(16777214) * 16777214,
                                      UINT64_C(16777214) * 16777214 + 1,
                                      RS_PERMUTE_MAX - 1,
                                      RS_PERMUTE_MAX};
    uint64_t state = 99;
    EACH (k, longer) {
        const uint64_t n = longer[k];
        uint64_t wrong = 0;
        rs_permutation p;
        rs_permutation_init(&p, n, sample(&state));
        CHECK(p.a % 2 == 0 && p.a * p.b >= n && p.a * p.b - n < p.a && p.a * p.a >= n && (p.a - 2) * (p.a - 2) < n);
        for (uint64_t i = 0; i < 30000; i++) {
            const uint64_t position = i < 5000 ? i : i < 10000 ? n - 1 - (i - 5000) : sample(&state) % n;
            const uint64_t element = rs_permutation_at(&p, position);
            wrong += element >= n || position_of(&p, element) != position;
            wrong += rs_permutation_at(&p, position_of(&p, position)) != position;
        }
        CHECK_U64(wrong, 0);
    }
}

/* Positions are taken modulo n, and n is capped at RS_PERMUTE_MAX. Every result is in bounds. */
TEST(test_any_argument) {
    static const uint64_t lengths[] = {0,         1, 2, 3, 5, 9, 1000, 4096, 5000, RS_PERMUTE_MAX, RS_PERMUTE_MAX + 1,
                                       UINT64_MAX};
    uint64_t state = 5;
    EACH (k, lengths) {
        uint64_t bound = lengths[k] > RS_PERMUTE_MAX ? RS_PERMUTE_MAX : lengths[k], wrong = 0;
        rs_permutation p;
        rs_permutation_init(&p, lengths[k], sample(&state));
        CHECK_U64(p.n, bound);
        for (uint64_t i = 0; i < 2000; i++) {
            const uint64_t any = i < 500 ? i : i < 1000 ? UINT64_MAX - i : sample(&state) >> (i % 64);
            const uint64_t allowed = bound == 0 ? 1 : bound;
            wrong += rs_permutation_at(&p, any) >= allowed;
            wrong += bound != 0 && rs_permutation_at(&p, any) != rs_permutation_at(&p, any % bound);
        }
        CHECK_U64(wrong, 0);
    }
}

/* A run equals the single elements at its positions, for any first position, step and count, even past the end. */
TEST(test_runs) {
    static const uint64_t lengths[] = {
        0, 1, 2, 3, 7, 8, 9, 100, 4095, 4096, 5000, 1000003, UINT64_C(4294967296), RS_PERMUTE_MAX - 1, RS_PERMUTE_MAX};
    static const size_t counts[] = {0, 1, 7, 8, 9, 16, 300};
    uint64_t state = 11;
    EACH (k, lengths) {
        const uint64_t n = lengths[k];
        rs_permutation p;
        rs_permutation_init(&p, n, sample(&state));
        for (size_t turn = 0; turn < 40; turn++) {
            const uint64_t any = sample(&state) >> 15, m = n == 0 ? 1 : n;
            const uint64_t firsts[] = {0, m - 1, any % m, any, m - m / 3}, steps[] = {1, 0, 2, 8, m - 1, m, any, m + 3};
            const uint64_t first = firsts[turn % 5], step = steps[turn % 8];
            EACH (c, counts) {
                int64_t out[302];
                uint64_t wrong = 0;
                out[counts[c]] = -5;
                rs_permutation_run(&p, first, step, counts[c], out);
                for (uint64_t i = 0; i < counts[c]; i++) {
                    /* first + step * i modulo n; no product here is above 2^58 */
                    const uint64_t position = n == 0 ? 0 : (first % n + step % n * i) % n;
                    wrong += (uint64_t)out[i] != rs_permutation_at(&p, position);
                }
                if (!CHECK_U64(wrong, 0) || !CHECK(out[counts[c]] == -5)) {
                    (void)fprintf(stderr, "    n %llu first %llu step %llu\n", (unsigned long long)n,
                                  (unsigned long long)first, (unsigned long long)step);
                }
            }
        }
        rs_permutation_run(&p, 5, 7, 0, NULL);
    }
}

TEST(test_seeds_of_numbers) {
    CHECK_U64(rs_permutation_seed(77, 0), 77);
    CHECK_U64(rs_permutation_seed(0, 1), UINT64_C(0x5692161d100b05e5)); /* mix(1), by tests/ref/permute.py */
    CHECK_U64(rs_permutation_seed(UINT64_MAX, 1), UINT64_C(0x5692161d100b05e4));
    for (uint64_t a = 0; a < 30; a++) { /* the seed of number b is not the seed a + b */
        for (uint64_t b = 1; b < 30; b++) CHECK(rs_permutation_seed(a, b) != rs_permutation_seed(a + b, 0));
    }
}

/* ---- Pinned results, computed by tests/ref/permute.py: they never change ---- */

TEST(test_pinned) {
    static const struct {
        uint64_t n, seed, i, element;
    } pins[] = {
        {1, 5, 0, 0},
        {2, 0, 0, 0},
        {2, 1, 0, 0},
        {3, 0, 0, 1},
        {3, 0, 1, 2},
        {3, 0, 2, 0},
        {9, 1, 8, 5},
        {10, 12345, 9, 7},
        {1000, 0, 0, 846},
        {1000, 0, 999, 797},
        {1000, UINT64_MAX, 500, 869},
        {4095, 7, 4094, 3027},
        {4096, 7, 4095, 3880},
        {4097, 7, 4096, 1664},
        {65536, 42, 1, 32601},
        {1000000, 42, 0, 383909},
        {1000000, 42, 999999, 763281},
        {1000003, UINT64_C(9223372036854775808), 123456, 489150},
        {UINT64_C(4294967296), 1, UINT64_C(4294967295), 302994734},
        {UINT64_C(4294967297), 1, UINT64_C(4294967296), 1876087015},
        {UINT64_C(1000000000000), 99, UINT64_C(100000000000), UINT64_C(783278162869)},
        {UINT64_C(281474976710655), 3, 0, UINT64_C(158266491791789)},
        {UINT64_C(281474976710656), 3, UINT64_C(281474976710655), UINT64_C(83384434483950)},
        {UINT64_C(281474976710656), UINT64_MAX, UINT64_C(140737488355328), UINT64_C(104137502603572)},
    };
    static const uint64_t orders[2][16] = {{5, 1, 6, 3, 13, 14, 2, 7, 11, 10, 4, 12, 8, 0, 9, 15},
                                           {12, 13, 6, 8, 9, 14, 5, 0, 1, 7, 2, 11, 3, 4, 15, 10}};
    EACH (k, pins) {
        CHECK_U64(at(pins[k].n, pins[k].seed, pins[k].i), pins[k].element);
    }
    for (size_t k = 0; k < 2; k++) {
        for (uint64_t i = 0; i < 16; i++) CHECK_U64(at(16, k + 1, i), orders[k][i]);
    }
}

/* ---- Statistics ---- */

/* Returns whether counts are as equal as random counts: Pearson's chi-square, with the mean df and the variance 2 df,
 * is within eight standard deviations of its mean. Each cell must expect twenty or more. */
static bool is_uniform(const uint32_t *counts, uint64_t cells) {
    double total = 0, sum = 0, df = (double)(cells - 1);
    for (uint64_t i = 0; i < cells; i++) total += counts[i];
    double expected = total / (double)cells;
    for (uint64_t i = 0; i < cells; i++) sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    double off = sum - df;
    if (expected >= 20 && off * off < 64 * 2 * df) return true;
    (void)fprintf(stderr, "    chi-square %.1f, %.0f cells of %.1f\n", sum, (double)cells, expected);
    return false;
}

/* Returns the number of an order among the n! orders of its length: its Lehmer code. */
static uint64_t rank_of(const uint64_t *order, uint64_t n) {
    uint64_t rank = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t smaller = 0;
        for (uint64_t k = i + 1; k < n; k++) smaller += order[k] < order[i];
        rank = rank * (n - i) + smaller;
    }
    return rank;
}

TEST(test_all_orders_of_a_few) {
    static const struct {
        uint64_t n, orders, seeds;
    } cases[] = {{2, 2, 100000}, {3, 6, 100000}, {4, 24, 200000}, {5, 120, 200000}, {6, 720, 100000}};
    EACH (k, cases) {
        uint32_t *counts = make_counts(cases[k].orders);
        uint64_t missing = 0;
        for (uint64_t seed = 0; seed < cases[k].seeds; seed++) {
            uint64_t order[8];
            rs_permutation p;
            rs_permutation_init(&p, cases[k].n, seed);
            for (uint64_t i = 0; i < cases[k].n; i++) order[i] = rs_permutation_at(&p, i);
            counts[rank_of(order, cases[k].n)]++;
        }
        for (uint64_t i = 0; i < cases[k].orders; i++) missing += counts[i] == 0;
        CHECK_U64(missing, 0);
        CHECK(is_uniform(counts, cases[k].orders));
        free(counts);
    }
}

/* Half of all orders are odd. This fails if both halves of the cipher have an odd number of values. */
TEST(test_parity) {
    static const uint64_t lengths[] = {7, 8, 9, 15, 24, 25, 36, 49, 81, 100, 121};
    EACH (k, lengths) {
        const uint64_t n = lengths[k];
        uint32_t counts[2] = {0, 0};
        for (uint64_t seed = 0; seed < 5000; seed++) {
            uint8_t seen[128] = {0};
            uint32_t odd = 0;
            rs_permutation p;
            rs_permutation_init(&p, n, seed);
            for (uint64_t i = 0; i < n; i++) { /* a cycle of m elements is m - 1 exchanges */
                uint64_t element = i;
                while (!seen[element]) {
                    seen[element] = 1;
                    element = rs_permutation_at(&p, element);
                    odd ^= element != i;
                }
            }
            counts[odd]++;
        }
        CHECK(is_uniform(counts, 2));
    }
}
