/* test_csv_rows.c: the ends of rows in pieces equal those of a scan byte by byte, which also finds the first fault. */
#include "write/rs_lines.h"

#include "rs_test.h"

enum { MOST = 1000 };

/* The oracle: sets a byte of `ends` for each LF that ends a row. Returns the place of the first fault, or n. */
static size_t find_slowly(const uint8_t *text, size_t n, uint8_t quote, bool *ends, rs_csv_fault *fault) {
    bool in_quotes = false, closed = false, begin = true, after_return = false;
    memset(ends, 0, n * sizeof *ends);
    *fault = RS_CSV_FINE;
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = text[i];
        if (after_return && c != '\n') return *fault = RS_CSV_RETURN, i;
        after_return = false;
        if (in_quotes && c == quote) {
            in_quotes = false;
            closed = true;
        } else if (!in_quotes && quote != 0 && c == quote && (begin || closed)) {
            in_quotes = true;
            begin = closed = false;
        } else if (!in_quotes && (c == ',' || c == '\n' || c == '\r')) {
            begin = true;
            closed = false;
            ends[i] = c == '\n';
            after_return = c == '\r';
        } else if (closed) {
            return *fault = RS_CSV_TEXT, i;
        } else if (!in_quotes) {
            begin = false;
        }
    }
    return n;
}

static uint64_t next_random(uint64_t *state) {
    return *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

static size_t random_text(uint8_t *text, unsigned round, uint64_t *state) {
    static const char *const parts[] = {"a", "\n", ",", "\"a,\n\r\"\"\",", "\"b\"\n", "\r\n", "\"\"", "\"", "\r"};
    const unsigned kinds = 5 + round % 5;
    size_t n = 0, size = next_random(state) % (round % 2 == 0 ? 30 : MOST - 20);
    while (n < size) {
        unsigned kind = (unsigned)(next_random(state) >> 33) % (kinds * 4);
        const char *part = parts[kind < kinds ? kind : 0];
        memcpy(text + n, part, strlen(part));
        n += strlen(part);
    }
    return n;
}

TEST(test_rows) {
    uint8_t text[MOST];
    bool ends[MOST];
    uint64_t begins[MOST + RS_CSV_BLOCK], state = 1;
    rs_csv_fault fault;
    for (unsigned round = 0; round < 4000; round++) {
        const uint8_t quote = round % 7 == 0 ? 0 : '"';
        const size_t n = random_text(text, round, &state), stop = find_slowly(text, n, quote, ends, &fault);
        rs_csv_rows rows = {.delimiter = ',', .quote = quote};
        rs_lines lines = {.skip = RS_LINES_SKIP_NONE};
        uint32_t found = 0, expected = 0;
        for (size_t at = 0, piece; at < n && rows.fault == RS_CSV_FINE;) {
            piece = 1 + (size_t)(next_random(&state) >> 35) % 200;
            if (piece > n - at) piece = n - at;
            at += rs_lines_find_rows(&lines, &rows, text + at, piece, begins, &found, MOST + RS_CSV_BLOCK);
        }
        CHECK_U64(lines.at, stop);
        CHECK_U64(rows.fault, fault);
        for (size_t i = 0; i < stop; i++) {
            if (i != 0 && !ends[i - 1]) continue;
            CHECK_U64(begins[expected++], i);
            size_t end = i;
            while (end < stop && !ends[end]) end++;
            if (end < stop) CHECK_U64(rs_csv_rows_end(',', quote, text + i, n - i), end - i);
        }
        CHECK(found == expected || (found == expected + 1 && begins[expected] == stop));
    }
}

TEST(test_empty_rows_are_skipped) {
    static const char text[] = "\r\n1\n\n\"\n\"\n\r\n2";
    for (size_t piece = 1; piece < sizeof text; piece++) {
        rs_csv_rows rows = {.delimiter = ',', .quote = '"'};
        rs_lines lines = {.skip = RS_LINES_SKIP_EMPTY};
        uint64_t begins[RS_CSV_BLOCK + 3];
        uint32_t n = 0;
        for (size_t at = 0; at < sizeof text - 1;) {
            const size_t size = piece < sizeof text - 1 - at ? piece : sizeof text - 1 - at;
            at += rs_lines_find_rows(&lines, &rows, (const uint8_t *)text + at, size, begins, &n, RS_CSV_BLOCK + 3);
        }
        CHECK_U64(n, 3);
        CHECK(begins[0] == 2 && begins[1] == 5 && begins[2] == 11);
    }
}
