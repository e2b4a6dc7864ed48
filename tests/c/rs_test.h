/* rs_test.h: checks for the C tests, one executable per test_<module>.c. A failed check is printed and counted,
 * and the test goes on. Checks do not depend on NDEBUG. Single-threaded; include from one file only. */
#pragma once

#include "base/rs_status.h"

#include <stdio.h>

typedef struct rs_test {
    void (*run)(void);
    const char *name;
    struct rs_test *next;
} rs_test;

static struct {
    unsigned long passed, failed;
    const char *name; /* the name of the running test */
    size_t row;       /* of EACH, from 1 on; 0 outside */
    const char *what; /* the row's name, or NULL */
    rs_test *first, *last;
} rs_test_state;

static inline bool rs_test_check(bool ok, const char *file, int line, const char *text) {
    if (ok) {
        rs_test_state.passed++;
    } else {
        rs_test_state.failed++;
        (void)fprintf(stderr, "%s:%d: %s: failed: %s\n", file, line,
                      rs_test_state.name == NULL ? "" : rs_test_state.name, text);
        if (rs_test_state.row != 0) {
            (void)fprintf(stderr, "    row %zu %s\n", rs_test_state.row - 1,
                          rs_test_state.what == NULL ? "" : rs_test_state.what);
        }
    }
    return ok;
}

static inline bool rs_test_check_u64(uint64_t a, uint64_t b, const char *file, int line, const char *text) {
    if (!rs_test_check(a == b, file, line, text)) {
        (void)fprintf(stderr, "    %llu (0x%llx) against %llu (0x%llx)\n", (unsigned long long)a, (unsigned long long)a,
                      (unsigned long long)b, (unsigned long long)b);
    }
    return a == b;
}

static inline bool rs_test_check_code(rs_status got, rs_status expected, const rs_error *err, const char *file,
                                      int line, const char *text) {
    if (!rs_test_check(got == expected, file, line, text)) {
        (void)fprintf(stderr, "    got %s, expected %s%s%s\n", rs_status_name(got), rs_status_name(expected),
                      err != NULL && got != RS_OK ? ": " : "", err != NULL && got != RS_OK ? err->message : "");
    }
    return got == expected;
}

/* Each is an expression that is true when the check holds. `err` may be NULL. */
#define CHECK(x) rs_test_check((x), __FILE__, __LINE__, #x)
#define CHECK_U64(a, b) rs_test_check_u64((uint64_t)(a), (uint64_t)(b), __FILE__, __LINE__, #a " == " #b)
#define CHECK_STR(a, b) rs_test_check(strcmp((a), (b)) == 0, __FILE__, __LINE__, #a " is " #b)
#define CHECK_CODE(expr, code, err) rs_test_check_code((expr), (code), (err), __FILE__, __LINE__, #expr)
#define CHECK_OK(expr, err) CHECK_CODE(expr, RS_OK, err)

/* Checks that return from the test when they fail, because it cannot continue. */
#define REQUIRE(x) \
    do { \
        if (!CHECK(x)) return; \
    } while (0)
#define REQUIRE_OK(expr, err) \
    do { \
        if (!CHECK_OK(expr, err)) return; \
    } while (0)

static inline bool rs_test_row(size_t i, size_t n, const char *what) {
    rs_test_state.row = i < n ? i + 1 : 0;
    rs_test_state.what = what;
    return i < n;
}

/* A loop over a table: `EACH(i, rows) { ... rows[i] ... }`. A failed check prints the number of the row; with
 * EACH_NAMED, also its `what`. */
#define EACH(i, table) for (size_t i = 0; rs_test_row(i, sizeof(table) / sizeof *(table), NULL); i++)
#define EACH_NAMED(i, table) \
    for (size_t i = 0; rs_test_row(i, sizeof(table) / sizeof *(table), \
                                   i < sizeof(table) / sizeof *(table) ? (table)[i].what : NULL); \
         i++)

/* A test: `TEST(test_x) { ... }`. The tests of a file run in the order of the file. */
#define TEST(test) \
    static void test(void); \
    __attribute__((constructor)) static void test##_is_here(void) { \
        static rs_test it = {test, #test, NULL}; \
        *(rs_test_state.last == NULL ? &rs_test_state.first : &rs_test_state.last->next) = &it; \
        rs_test_state.last = &it; \
    } \
    static void test(void)

static inline void rs_test_run(void) {
    for (const rs_test *it = rs_test_state.first; it != NULL; it = it->next) {
        rs_test_state.name = it->name, rs_test_state.row = 0;
        it->run();
    }
}

/* Returns the exit status. No check at all is a failure too. */
static inline int rs_test_finish(void) {
    (void)printf("%lu passed, %lu failed\n", rs_test_state.passed, rs_test_state.failed);
    return rs_test_state.failed == 0 && rs_test_state.passed > 0 ? 0 : 1;
}

#ifndef RS_TEST_MAIN /* defined by a file with a main of its own */
int main(void) {
    rs_test_run();
    return rs_test_finish();
}
#endif
