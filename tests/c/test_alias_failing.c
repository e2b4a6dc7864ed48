/* test_alias_failing.c: tables of weights while each allocation in turn fails. */
#include "base/rs_alias.h"
#include "rs_failing.h"

enum { N = 5 };

/* Makes a table from the bytes of `from`; if it is NULL, from weights, then from the bytes of that table. Each
 * allocation is refused once. */
static void check_each(const rs_alias *from) {
    static const double weights[N] = {3, 0, 1, 7, 0.5};
    rs_status status = RS_E_MEM;
    rs_alias table;
    rs_error err;
    for (fail_at = 0; status == RS_E_MEM && fail_at < 10; fail_at++) {
        steps = 0, live = 0;
        counting = true;
        status = from == NULL ? rs_alias_init(&table, weights, N, &err)
                              : rs_alias_of_bytes(&table, N, from->thresholds, 8 * N, from->others, 4 * N, &err);
        counting = false;
        CHECK_U64(live, status == RS_OK ? 2 : 0);
        if (status != RS_OK) CHECK(table.n == 0 && table.thresholds == NULL && table.others == NULL);
    }
    CHECK_OK(status, &err);
    CHECK_U64(fail_at - 1, from == NULL ? 4 : 2);
    if (status == RS_OK && from == NULL) check_each(&table);
    if (status == RS_OK) rs_alias_clear(&table);
}

TEST(test_no_memory) { check_each(NULL); }
