/* test_best_fit.c: every token in one row, rows that are not empty, the best fit, wrong arguments, refused memory. */
#include "base/rs_best_fit.h"
#include "rs_failing.h"

enum { MOST = 400, ROWS = 300 };

static rs_error err;
static int64_t documents[MOST + ROWS], starts[MOST + ROWS], counts[MOST + ROWS], ends[ROWS];
static rs_best_fit_parts parts = {documents, starts, counts, ends};

/* xorshift64* (Vigna, 2016). */
static uint64_t sample(uint64_t *state) {
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* Packs, and checks rows and tokens. */
static void check_packed(const int64_t *sizes, uint64_t n, int64_t length, uint64_t rows) {
    int64_t seen[MOST] = {0}, tokens = 0, part = 0;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < n; i++) tokens += sizes[i];
    if (!CHECK_OK(rs_best_fit_pack(sizes, n, (uint64_t)length, rows, &parts, &err), &err)) return;
    for (uint64_t row = 0; row < rows; row++) {
        int64_t in_row = 0;
        wrong += part == ends[row] && tokens >= (int64_t)rows; /* an empty row */
        for (int64_t first = part; part < ends[row]; part++) {
            wrong += documents[part] < 0 || documents[part] >= (int64_t)n || counts[part] < 1 || starts[part] < 0;
            wrong += part > first && documents[part] <= documents[part - 1];
            seen[documents[part]] += counts[part];
            in_row += counts[part];
        }
        wrong += in_row > length;
    }
    for (uint64_t i = 0; i < n; i++) wrong += seen[i] != sizes[i];
    for (int64_t i = 0; i < part; i++) { /* as many tokens as the document has, and none twice */
        wrong += starts[i] + counts[i] > sizes[documents[i]];
        for (int64_t k = 0; k < i; k++) {
            wrong +=
                documents[k] == documents[i] && starts[k] < starts[i] + counts[i] && starts[i] < starts[k] + counts[k];
        }
    }
    if (!CHECK_U64(wrong, 0)) {
        (void)fprintf(stderr, "    n %llu, length %lld, rows %llu\n", (unsigned long long)n, (long long)length,
                      (unsigned long long)rows);
    }
}

TEST(test_every_token_is_in_one_row) {
    static const int64_t lengths[] = {1, 2, 7, 64, 1000, 65535, 65536, 1000000, INT32_MAX};
    uint64_t state = 9;
    EACH (k, lengths) {
        for (int round = 0; round < 60; round++) {
            int64_t sizes[MOST], tokens = 0;
            const uint64_t n = sample(&state) % (round % 2 == 0 ? 20 : MOST);
            const uint64_t most = (uint64_t)lengths[k] * (round % 3 == 0 ? 3 : 1) + 1;
            for (uint64_t i = 0; i < n; i++) {
                sizes[i] = (int64_t)(sample(&state) % most) * (sample(&state) % 4 != 0);
                if (tokens + sizes[i] > lengths[k] * (ROWS - 2)) sizes[i] = 0;
                tokens += sizes[i];
            }
            const uint64_t rows = (uint64_t)((tokens + lengths[k] - 1) / lengths[k]) + (uint64_t)(round % 3);
            check_packed(sizes, n, lengths[k], rows);
        }
    }
}

TEST(test_documents_go_where_they_fit_best) {
    static const int64_t sizes[] = {3, 9, 4, 6, 0, 1, 7};
    /* 9, 7 and 6 open the rows; 4 fills the row of 6, 3 that of 7, 1 that of 9. */
    static const int64_t expected[] = {1, 5, 0, 6, 2, 3};
    CHECK_OK(rs_best_fit_pack(sizes, 7, 10, 3, &parts, &err), &err);
    for (size_t i = 0; i < 6; i++) CHECK_U64(documents[i], expected[i]);
    CHECK(ends[0] == 2 && ends[1] == 4 && ends[2] == 6);
}

TEST(test_a_document_that_fits_nowhere_is_cut) {
    static const int64_t sizes[] = {6, 6, 6};
    CHECK_OK(rs_best_fit_pack(sizes, 3, 9, 2, &parts, &err), &err);
    CHECK(ends[0] == 2 && ends[1] == 4);
    CHECK(documents[1] == 2 && documents[3] == 2 && counts[1] == 3 && counts[3] == 3);
}

TEST(test_wrong_arguments) {
    const int64_t sizes[] = {3, -1};
    CHECK(rs_best_fit_pack(sizes, 2, 5, 2, &parts, &err) == RS_E_ARG_RANGE);
    CHECK(rs_best_fit_pack(sizes, 1, 2, 1, &parts, &err) == RS_E_ARG_RANGE);
    CHECK(rs_best_fit_pack(sizes, 1, 0, 1, &parts, &err) == RS_E_ARG_RANGE);
    CHECK(rs_best_fit_pack(sizes, 1, RS_BEST_FIT_MAX_LENGTH, 1, &parts, &err) == RS_E_ARG_RANGE);
    CHECK(rs_best_fit_pack(sizes, 1, 5, RS_BEST_FIT_MAX_ITEMS, &parts, NULL) == RS_E_ARG_RANGE);
    CHECK_OK(rs_best_fit_pack(NULL, 0, 5, 0, &parts, &err), &err);
}

TEST(test_refused_memory) {
    const int64_t sizes[] = {3, 4};
    rs_status status = RS_E_MEM;
    for (fail_at = 0; status == RS_E_MEM && fail_at < 20; fail_at++) {
        steps = 0, live = 0;
        counting = true;
        status = rs_best_fit_pack(sizes, 2, 5, 2, &parts, &err);
        counting = false;
        CHECK_U64(live, 0);
    }
    CHECK_OK(status, &err);
    CHECK_U64(fail_at, 8);
}
