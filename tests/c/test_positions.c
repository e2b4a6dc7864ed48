/* test_positions.c: copies of every integer type, positions from either end, masks. */
#include "base/rs_positions.h"
#include "rs_test.h"

#include <stdlib.h>

enum { N_POSITIONS = 3000 };

/* Stores a number as an integer of the type `as`. */
static void put(uint8_t *to, int64_t number, const rs_integers *as) {
    uint8_t bytes[8];
    memcpy(bytes, &number, 8);
    for (unsigned i = 0; i < as->item_bytes; i++) to[as->is_swapped ? as->item_bytes - 1 - i : i] = bytes[i];
}

TEST(test_copies_of_every_type) {
    static const int64_t numbers[] = {0,          1,         127, 128,  255,    32767,       65535,    2147483647,
                                      4294967295, INT64_MAX, -1,  -128, -32768, -2147483647, INT64_MIN};
    enum { N = sizeof numbers / sizeof numbers[0], APART = 11 };
    for (unsigned bits = 8; bits <= 64; bits *= 2) {
        for (unsigned form = 0; form < 16; form++) { /* signed, swapped, apart, backwards */
            uint8_t bytes[N * APART + 1];
            int64_t out[N];
            uint64_t wrong = 0;
            rs_integers from = {NULL, 0, N, bits / 8, (form & 1) != 0, (form & 2) != 0};
            const int64_t apart = (form & 4) != 0 ? APART : (int64_t)bits / 8;
            from.stride_bytes = (form & 8) != 0 ? -apart : apart;
            from.first = bytes + 1 + ((form & 8) != 0 ? apart * (N - 1) : 0); /* not aligned */
            for (size_t i = 0; i < N; i++)
                put((uint8_t *)from.first + from.stride_bytes * (int64_t)i, numbers[i], &from);
            rs_positions_copy(&from, out);
            for (size_t i = 0; i < N; i++) {
                const uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
                uint64_t expected = (uint64_t)numbers[i] & mask;
                if ((form & 1) != 0 && (expected >> (bits - 1)) != 0) expected |= ~mask;
                wrong += (uint64_t)out[i] != expected;
            }
            CHECK_U64(wrong, 0);
        }
    }
}

TEST(test_one_number_many_times) {
    const uint8_t three = 3;
    const rs_integers from = {&three, 0, 5, 1, false, false};
    int64_t out[5];
    rs_positions_copy(&from, out);
    for (size_t i = 0; i < 5; i++) CHECK_U64(out[i], 3);
}

TEST(test_positions_from_either_end) {
    int64_t io[4] = {0, 9, -1, -10};
    CHECK_U64(rs_positions_settle(io, 4, 10, false), 4);
    CHECK(io[0] == 0 && io[1] == 9 && io[2] == 9 && io[3] == 0);
    CHECK_U64(rs_positions_settle(io, 0, 0, false), 0);
}

TEST(test_out_of_range) {
    static const int64_t wrong[] = {10, 11, -11, INT64_MAX, INT64_MIN};
    static int64_t io[N_POSITIONS];
    EACH (i, wrong) {
        for (uint64_t at = 0; at < N_POSITIONS; at += 499) {
            for (uint64_t k = 0; k < N_POSITIONS; k++) io[k] = k % 2 != 0 ? -3 : 7;
            io[at] = wrong[i];
            CHECK_U64(rs_positions_settle(io, N_POSITIONS, 10, false), at);
            CHECK(rs_positions_undo(io[at], 10, false) == wrong[i]);
            io[0] = wrong[i];
            CHECK_U64(rs_positions_settle(io, 1, INT64_MAX, false), wrong[i] < INT64_MAX && wrong[i] != INT64_MIN);
        }
    }
    io[0] = -1; /* of an unsigned type: 2^64 - 1 */
    CHECK_U64(rs_positions_settle(io, 1, 10, true), 0);
    CHECK(rs_positions_undo(io[0], 10, true) == -1);
    io[0] = 0;
    CHECK_U64(rs_positions_settle(io, 1, 0, false), 0);
}

TEST(test_settle_or_drop) {
    int64_t io[6] = {0, 9, 10, -10, -11, INT64_MIN}, huge[2] = {-1, 3};
    static const int64_t expected[6] = {0, 9, -1, 0, -1, -1};
    rs_positions_settle_or_drop(io, 6, 10, false);
    CHECK(memcmp(io, expected, sizeof io) == 0);
    rs_positions_settle_or_drop(huge, 2, 10, true);
    CHECK(huge[0] == -1 && huge[1] == 3);
}

TEST(test_masks) {
    static uint8_t mask[N_POSITIONS];
    for (unsigned pattern = 1; pattern < 40; pattern++) {
        uint64_t expected = 0, wrong = 0;
        for (uint64_t i = 0; i < N_POSITIONS; i++) {
            mask[i] = (uint8_t)(i % pattern == 0 ? pattern : 0); /* any byte but 0 is true */
            expected += i % pattern == 0;
        }
        uint64_t n = rs_positions_count(mask, N_POSITIONS);
        CHECK_U64(n, expected);
        int64_t *out = (int64_t *)malloc((n + 1) * sizeof *out); /* exact, for the sanitizer */
        if (out == NULL) abort();
        CHECK_U64(rs_positions_of_mask(mask, N_POSITIONS, out), n);
        for (uint64_t i = 0; i < n; i++) wrong += (uint64_t)out[i] != i * pattern;
        CHECK_U64(wrong, 0);
        free(out);
    }
    CHECK_U64(rs_positions_count(mask, 0), 0);
}

TEST(test_steps_and_narrow) {
    int64_t out[4];
    uint8_t narrow[16];
    uint32_t last;
    rs_positions_steps(out, 4, 9, -3);
    CHECK(out[0] == 9 && out[1] == 6 && out[2] == 3 && out[3] == 0);
    out[3] = UINT32_MAX;
    rs_positions_narrow(out, 4, narrow);
    memcpy(&last, narrow + 12, 4);
    CHECK_U64(last, UINT32_MAX);
    CHECK(narrow[0] == 9 && narrow[4] == 6 && narrow[8] == 3);
    rs_positions_steps(out, 1, INT64_MAX, INT64_MAX);
    CHECK(out[0] == INT64_MAX);
}
