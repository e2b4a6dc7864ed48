/* test_value_set.c: distinct values are numbered in the order in which they are added, and found by their bytes. */
#include "plan/rs_value_set.h"
#include "rs_make.h"

static rs_error err;

enum { N_VALUES = 100000 };

static rs_slice value_at(const rs_buffer *bytes, uint32_t i) { return rs_slice_of(bytes->data + 4 * (size_t)i, 4); }

TEST(test_empty_set) {
    rs_value_set set = {0};
    CHECK(rs_value_set_find(&set, NULL, rs_slice_of((const uint8_t *)"x", 1), 5) == UINT32_MAX);
    rs_value_set_clear(&set);
    rs_value_set_clear(&set);
}

TEST(test_many_values) {
    rs_value_set set = {0};
    rs_buffer bytes = {0};
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < 2 * N_VALUES; i++) make_bytes(&bytes, &i, 4);
    for (uint32_t i = 0; i < N_VALUES; i++) {
        rs_span span = {4 * i, 4};
        rs_slice value = value_at(&bytes, i);
        wrong += rs_value_set_find(&set, bytes.data, value, rs_value_set_hash(value)) != UINT32_MAX;
        REQUIRE_OK(rs_value_set_add(&set, span, rs_value_set_hash(value), &err), &err);
    }
    for (uint32_t i = 0; i < 2 * N_VALUES; i++) {
        rs_slice value = value_at(&bytes, i);
        wrong +=
            rs_value_set_find(&set, bytes.data, value, rs_value_set_hash(value)) != (i < N_VALUES ? i : UINT32_MAX);
    }
    CHECK_U64(wrong, 0);
    CHECK(set.n == N_VALUES && set.size_bytes == 4 * N_VALUES && set.n_slots >= 2 * (uint64_t)set.n);
    rs_value_set_clear(&set);
    CHECK(set.n == 0 && set.slots == NULL && set.spans == NULL);
    rs_buffer_clear(&bytes);
}

/* All values have one hash; bytes and length distinguish them. */
TEST(test_equal_hashes) {
    static const uint8_t bytes[32] = "abcabd";
    static const rs_span spans[] = {{0, 3}, {3, 3}, {0, 2}, {0, 0}, {0, 6}};
    rs_value_set set = {0};
    for (uint32_t i = 0; i < 5; i++) {
        rs_slice value = rs_slice_of(bytes + spans[i].off, spans[i].size_bytes);
        CHECK(rs_value_set_find(&set, bytes, value, UINT64_MAX) == UINT32_MAX);
        REQUIRE_OK(rs_value_set_add(&set, spans[i], UINT64_MAX, &err), &err);
    }
    for (uint32_t i = 0; i < 5; i++) {
        rs_slice value = rs_slice_of(bytes + spans[i].off, spans[i].size_bytes);
        CHECK_U64(rs_value_set_find(&set, bytes, value, UINT64_MAX), i);
    }
    rs_value_set_clear(&set);
}
