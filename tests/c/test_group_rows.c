/* test_group_rows.c: records sorted by their groups, against a plain search. */
#include "rs_test.h"
#include "rs_make.h"
#include "write/rs_group_rows.h"

static rs_error err;

static void check(const uint64_t *group_of, uint64_t n, uint64_t n_groups, uint32_t width, bool may_be_in_order,
                  bool in_order) {
    rs_buffer starts = {0}, rows = {0};
    bool got = !in_order;
    uint64_t row = 0, wrong = 0;
    if (CHECK_OK(rs_group_rows(group_of, n, n_groups, width, may_be_in_order, &starts, &rows, &got, &err), &err)) {
        CHECK(got == in_order);
        CHECK_U64(starts.size_bytes, (n_groups + 1) * width);
        CHECK_U64(rows.size_bytes, in_order ? 0 : n * width);
        for (uint64_t g = 0; g < n_groups; g++) {
            wrong += rs_load_uint_unchecked(starts.data + g * width, width) != row;
            for (uint64_t i = 0; i < n; i++) {
                if (group_of[i] != g) continue;
                wrong += (in_order ? row : rs_load_uint_unchecked(rows.data + row * width, width)) != i;
                row++;
            }
        }
        wrong += rs_load_uint_unchecked(starts.data + n_groups * width, width) != n;
        CHECK_U64(wrong, 0);
    }
    rs_buffer_clear(&starts);
    rs_buffer_clear(&rows);
}

TEST(test_orders) {
    static const uint64_t mixed[] = {0, 1, 0, 2, 1, 0}, sorted[] = {0, 0, 1, 2, 2}, one[] = {0, 0, 0};
    for (uint32_t width = 4; width <= 8; width += 4) {
        check(mixed, 6, 3, width, true, false);
        check(mixed, 6, 3, width, false, false);
        check(sorted, 5, 3, width, true, true);
        check(sorted, 5, 3, width, false, false);
        check(one, 3, 1, width, true, true);
        check(NULL, 0, 0, width, true, true);
        check(mixed, 6, 5, width, true, false); /* the groups 3 and 4 are empty */
    }
}

TEST(test_random) {
    uint64_t group_of[500];
    for (uint64_t round = 0; round < 20; round++) {
        uint64_t n_groups = 1 + make_random(40);
        for (uint64_t i = 0; i < 500; i++) group_of[i] = make_random(n_groups);
        check(group_of, 500, n_groups, round % 2 ? 4 : 8, true, n_groups == 1);
    }
}

TEST(test_no_such_group) {
    static const uint64_t beyond[] = {0, 1, 2};
    rs_buffer starts = {0}, rows = {0};
    bool in_order;
    CHECK_CODE(rs_group_rows(beyond, 3, 2, 4, true, &starts, &rows, &in_order, &err), RS_E_ARG_RANGE, &err);
    rs_buffer_clear(&starts);
    rs_buffer_clear(&rows);
}
