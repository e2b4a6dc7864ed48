/* test_json_bounds.c: the bounds of JSON elements against a byte-by-byte scan, at every split. */
#include "write/rs_json_bounds.h"
#include "rs_test.h"

#include <stdlib.h>

enum { MAX_ENDS = 4096 };

typedef struct slow_scan {
    size_t ends[MAX_ENDS];
    size_t n_ends, consumed;
    bool closed, bad;
} slow_scan;

/* The definition, byte by byte, for texts that begin after the opening bracket. */
static void scan_slowly(const char *text, size_t n, bool object, slow_scan *out) {
    static char open[RS_JSON_DEPTH + 1];
    size_t depth = 1;
    bool in_string = false, escaped = false;
    memset(out, 0, sizeof *out);
    open[0] = object ? '{' : '[';
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        if (escaped) {
            escaped = false;
        } else if (c == '\\') {
            escaped = true;
        } else if (c == '"') {
            in_string = !in_string;
        }
        if (in_string) continue;
        if (c == '[' || c == '{') open[depth++] = c;
        if (c == ',' && depth == 1) out->ends[out->n_ends++] = i;
        if (c != ']' && c != '}') continue;
        if (open[--depth] != (c == ']' ? '[' : '{')) {
            out->bad = true;
            out->consumed = i;
            return;
        }
        if (depth != 0) continue;
        out->ends[out->n_ends++] = i;
        out->closed = true;
        out->consumed = i + 1;
        return;
    }
    out->consumed = n;
}

/* Scans in pieces that end at the cuts, and compares with the slow scan. */
static void check_cut(const char *text, size_t n, bool object, size_t cut, size_t second) {
    static slow_scan slow;
    rs_json_bounds bounds;
    rs_buffer ends = {0}, piece_ends = {0};
    rs_error err;
    rs_status status = RS_OK;
    const size_t cuts[3] = {cut, second, n};
    size_t at = 0, used = 0;
    scan_slowly(text, n, object, &slow);
    rs_json_bounds_begin(&bounds, object);
    for (unsigned piece = 0; piece < 3 && status == RS_OK && bounds.depth != 0; piece++) {
        /* An exact allocation, so that the sanitizer sees a read beyond the piece. */
        const size_t size = cuts[piece] - at;
        uint8_t *bytes = (uint8_t *)malloc(size + (size == 0));
        if (bytes == NULL) abort();
        memcpy(bytes, text + at, size);
        piece_ends.size_bytes = 0;
        status = rs_json_bounds_run(&bounds, bytes, size, &piece_ends, &used, &err);
        free(bytes);
        for (size_t i = 0; i < piece_ends.size_bytes; i += 8) {
            const uint64_t end = at + rs_load_u64(piece_ends.data + i);
            CHECK_OK(rs_buffer_append(&ends, &end, 8, &err), &err);
        }
        if (status != RS_OK) break;
        at += used;
    }
    CHECK_U64(status, slow.bad ? RS_E_FMT_VALUE : RS_OK);
    if (slow.bad) {
        CHECK_U64(at + err.offset, slow.consumed);
    } else {
        CHECK_U64(bounds.depth == 0, slow.closed);
        CHECK_U64(at, slow.consumed);
        CHECK_U64(bounds.n_commas, slow.n_ends - slow.closed);
    }
    CHECK_U64(ends.size_bytes / 8, slow.n_ends);
    for (size_t i = 0; i < slow.n_ends && i < ends.size_bytes / 8; i++) {
        CHECK_U64(rs_load_u64(ends.data + 8 * i), slow.ends[i]);
    }
    rs_buffer_clear(&ends);
    rs_buffer_clear(&piece_ends);
}

static const char *const TEXTS[] = {
    "]",
    "1, 2, 3] , 4",
    "{\"a\": [1, 2, {}], \"b\": \"]\"}, [[[]]], \"x, y\"]",
    "\"\\\"]\", \"\\\\\", \"\\\\\\\"\", \"\\u005d\"]]",
    "\"a long string over several blocks, with commas, [brackets], {braces} and \\\"quotes\\\", so that it does not "
    "end "
    "within the block in which it begins\", 2, [3, [4, 5]], {\"key\": [6, 7, \"8, 9\"]}, \"\\\\\\\\\\\\\\\\\\\\\\\\\\\\"
    "\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\"\", 1]",
    "1, [2}, 3]",
    "\"never closed, 1]",
    "[1, 2], {\"a\": 3",
};

TEST(test_cut_anywhere) {
    EACH (i, TEXTS) {
        const size_t n = strlen(TEXTS[i]);
        for (size_t cut = 0; cut <= n; cut++) {
            check_cut(TEXTS[i], n, false, cut, cut + (n - cut) / 2);
            check_cut(TEXTS[i], n, true, cut / 2, cut);
        }
    }
}

TEST(test_made_texts) {
    static const char letters[] = "\"\"\\\\[]{},,::  ab01[{";
    static const char closing[] = "[1, {\"a\": 2}], \"b\", ";
    uint64_t state = 2017;
    char text[400];
    for (unsigned round = 0; round < 20000; round++) {
        size_t n = round % 300;
        for (size_t i = 0; i < n; i++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
            /* Every second text keeps its brackets in order, because most random texts end early. */
            text[i] =
                round % 2 != 0 ? closing[i % (sizeof closing - 1)] : letters[(state >> 33) % (sizeof letters - 1)];
        }
        if (n != 0 && round % 3 == 0) text[(state >> 20) % n] = letters[(state >> 40) % (sizeof letters - 1)];
        check_cut(text, n, round % 5 == 0, n / 3, n - n / 4);
    }
}

TEST(test_filled) {
    static const struct {
        const char *text;
        bool filled;
    } rows[] = {{"]", false}, {" \n\t\r ]", false}, {"1]", true}, {" \"\"]", true}, {"  ", false}, {"[]]", true}};
    size_t n, used;
    rs_error err;
    EACH (i, rows) {
        rs_json_bounds bounds;
        n = strlen(rows[i].text);
        rs_json_bounds_begin(&bounds, false);
        for (size_t at = 0; at < n && bounds.depth != 0; at += used) {
            REQUIRE_OK(rs_json_bounds_run(&bounds, (const uint8_t *)rows[i].text + at, 1, NULL, &used, &err), &err);
        }
        CHECK_U64(bounds.filled, rows[i].filled);
    }
}

TEST(test_depth) {
    static uint8_t text[2 * RS_JSON_DEPTH];
    rs_json_bounds bounds;
    rs_error err;
    size_t used;
    memset(text, '[', RS_JSON_DEPTH);
    memset(text + RS_JSON_DEPTH - 1, ']', RS_JSON_DEPTH);
    rs_json_bounds_begin(&bounds, false);
    CHECK_OK(rs_json_bounds_run(&bounds, text, 2 * RS_JSON_DEPTH - 1, NULL, &used, &err), &err);
    CHECK_U64(bounds.depth, 0);
    CHECK_U64(used, 2 * RS_JSON_DEPTH - 1);
    memset(text, '[', RS_JSON_DEPTH);
    rs_json_bounds_begin(&bounds, false);
    CHECK_CODE(rs_json_bounds_run(&bounds, text, sizeof text, NULL, &used, &err), RS_E_ARG_LIMIT, &err);
    CHECK_U64(err.offset, RS_JSON_DEPTH - 1);
}

TEST(test_long_ints) {
    static const struct {
        const char *text;
        bool found;
    } rows[] = {
        {"", false},
        {"9999999999999999999", false},
        {"18446744073709551616", true},
        {"-9223372036854775808", true},
        {"-922337203685477580", false},
        {"[1.23456789012345678901234567890]", false},
        {"[12345678901234567890.5]", true},
        {"[0.1234567890123456789012, 12345678901234567890]", true},
        {"x12345678901234567890x", true},
        {"1234567890123456789 1234567890123456789", false},
    };
    char text[100];
    EACH (i, rows) {
        CHECK_U64(rs_json_has_long_int((const uint8_t *)rows[i].text, strlen(rows[i].text)), rows[i].found);
    }
    for (size_t at = 0; at + 20 <= sizeof text; at++) {
        memset(text, ' ', sizeof text);
        memset(text + at, '7', 20);
        CHECK(rs_json_has_long_int((const uint8_t *)text, sizeof text));
        CHECK(rs_json_has_long_int((const uint8_t *)text, at + 20));
        CHECK(!rs_json_has_long_int((const uint8_t *)text, at + 19));
    }
}

TEST(test_masks) {
    uint8_t block[RS_JSON_BLOCK];
    for (unsigned i = 0; i < RS_JSON_BLOCK; i++) block[i] = (uint8_t)(i * 37 % 251);
    for (unsigned c = 0; c < 256; c++) {
        uint64_t expected = 0;
        block[c % RS_JSON_BLOCK] = (uint8_t)c;
        for (unsigned i = 0; i < RS_JSON_BLOCK; i++) expected |= (uint64_t)(block[i] == c) << i;
        CHECK_U64(rs_json_equal(block, (uint8_t)c), expected);
        CHECK_U64(rs_json_equal_portable(block, (uint8_t)c), expected);
    }
}
