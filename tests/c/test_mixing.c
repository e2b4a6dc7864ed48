/* test_mixing.c: draws from several sources: their proportions, pinned draws, and draws that go on from a state. */
#include "base/rs_mixing.h"
#include "rs_test.h"

#include <string.h>

enum { MAX_SOURCES = 40, DRAWS = 100000, WINDOW = 10000, MAX_LENGTH = 5000 };

static int64_t from[DRAWS], number[DRAWS], lengths[MAX_SOURCES][DRAWS];

/* Sources whose weights differ up to 1000 times. */
static void set_up(rs_mixing_source *sources, size_t n, uint64_t seed) {
    int64_t left = RS_MIXING_WHOLE;
    memset(sources, 0, n * sizeof *sources);
    for (size_t k = 0; k < n; k++) {
        const int64_t most = left / (int64_t)(n - k) * 2;
        const int64_t drawn = most / 1000 + (int64_t)rs_mul_high(rs_mix64(seed + k), (uint64_t)most / 2);
        sources[k].weight = k == n - 1 ? left : drawn;
        sources[k].end = INT64_MAX, sources[k].length = 1, sources[k].key = rs_mix64(seed * 50 + k);
        left -= sources[k].weight;
    }
}

static int64_t length_of(const rs_mixing_source *source, int64_t item) {
    return source->lengths == NULL ? source->length : source->lengths[item];
}

/* The largest distance of a source from its share of the amount, over all windows of WINDOW draws. */
static int64_t worst(const rs_mixing_source *sources, size_t n) {
    static int64_t amounts[MAX_SOURCES];
    int64_t total = 0, out = 0;
    memset(amounts, 0, sizeof amounts);
    for (size_t i = 0; i < DRAWS; i++) {
        const int64_t length = length_of(&sources[from[i]], number[i]);
        total += length, amounts[from[i]] += length;
        if (i >= WINDOW) {
            const int64_t before = length_of(&sources[from[i - WINDOW]], number[i - WINDOW]);
            total -= before, amounts[from[i - WINDOW]] -= before;
        }
        for (size_t k = 0; i + 1 >= WINDOW && k < n; k++) {
            const int64_t share = sources[k].weight * total / RS_MIXING_WHOLE;
            const int64_t distance = amounts[k] > share ? amounts[k] - share : share - amounts[k];
            if (distance > out) out = distance;
        }
    }
    return out;
}

TEST(test_windows_have_the_proportions) {
    rs_mixing_source sources[MAX_SOURCES];
    for (size_t n = 1; n <= MAX_SOURCES; n += n < 5 ? 1 : 7) {
        set_up(sources, n, n);
        CHECK_U64(rs_mixing_run(sources, n, DRAWS, 0, 1, from, number), DRAWS);
        CHECK(worst(sources, n) <= 3);
        set_up(sources, n, n + 100);
        for (size_t k = 0; k < n; k++) {
            for (size_t i = 0; i < DRAWS; i++) /* some are 0, and the longest are rare */
                lengths[k][i] = MAX_LENGTH / (1 + (int64_t)(rs_mix64(k * DRAWS + i) % (MAX_LENGTH * 2)));
            sources[k].lengths = lengths[k];
        }
        CHECK_U64(rs_mixing_run(sources, n, DRAWS, 0, 1, from, number), DRAWS);
        CHECK(worst(sources, n) <= MAX_LENGTH + 2 * RS_MIXING_RANDOM);
    }
}

TEST(test_pinned_draws) { /* these never change */
    static const int64_t expected[] = {2, 0, 1, 0, 0, 0, 1, 0, 1, 0, 2, 0, 0, 0, 1, 0};
    rs_mixing_source sources[3] = {{.weight = RS_MIXING_WHOLE / 8 * 5, .end = INT64_MAX, .length = 1, .key = 1},
                                   {.weight = RS_MIXING_WHOLE / 4, .end = INT64_MAX, .length = 1, .key = 2},
                                   {.weight = RS_MIXING_WHOLE / 8, .end = INT64_MAX, .length = 1, .key = 3}};
    CHECK_U64(rs_mixing_run(sources, 3, 16, 0, 1, from, number), 16);
    for (size_t i = 0; i < 16; i++) CHECK_U64((uint64_t)from[i], (uint64_t)expected[i]);
}

TEST(test_a_run_goes_on_from_the_state) {
    rs_mixing_source whole[12], parts[12];
    static int64_t later[DRAWS], later_number[DRAWS];
    set_up(whole, 12, 9);
    set_up(parts, 12, 9);
    CHECK_U64(rs_mixing_run(whole, 12, 1000, 0, 1, from, number), 1000);
    size_t got = 0;
    for (uint64_t at = 0, size = 1; at < 1000; at += size, size = size % 17 + 1) { /* every third draw from number 2 */
        const uint64_t draws = size < 1000 - at ? size : 1000 - at, skip = (2 + 3 * 1000 - at) % 3;
        CHECK_U64(rs_mixing_run(parts, 12, draws, skip, 3, later + got, later_number + got), draws);
        got = (at + draws) / 3;
    }
    CHECK_U64(got, 333);
    for (size_t i = 0; i < got; i++) {
        CHECK_U64((uint64_t)later[i], (uint64_t)from[2 + 3 * i]);
        CHECK_U64((uint64_t)later_number[i], (uint64_t)number[2 + 3 * i]);
    }
    for (size_t k = 0; k < 12; k++) CHECK(whole[k].behind == parts[k].behind && whole[k].drawn == parts[k].drawn);
}

TEST(test_stops_at_an_end) {
    rs_mixing_source sources[3];
    set_up(sources, 3, 4);
    sources[1].end = 5;
    const uint64_t draws = rs_mixing_run(sources, 3, DRAWS, 0, 1, from, number);
    CHECK(draws < DRAWS && sources[1].drawn == 5 && from[draws - 1] == 1);
    sources[1].weight = 0; /* not drawn any more */
    CHECK_U64(rs_mixing_run(sources, 3, 100, 0, 1, from, number), 100);
    CHECK(sources[1].drawn == 5 && sources[0].drawn + sources[2].drawn == (int64_t)draws + 95);
    CHECK_U64(rs_mixing_run(sources, 0, 100, 0, 1, from, number), 0);
    sources[0].weight = sources[2].weight = 0;
    CHECK_U64(rs_mixing_run(sources, 3, 100, 0, 1, from, number), 0);
}

TEST(test_longest_items) {
    rs_mixing_source sources[2];
    set_up(sources, 2, 6);
    sources[0].length = RS_MIXING_MAX_LENGTH;
    CHECK_U64(rs_mixing_run(sources, 2, DRAWS, 0, 1, from, number), DRAWS);
    CHECK(sources[0].behind + sources[1].behind == 0);
}
