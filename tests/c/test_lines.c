/* test_lines.c: the lines of a text in pieces equal those of a search byte by byte, and blocks of them read back. */
#include "rs_built.h"
#include "verify/rs_verify.h"
#include "write/rs_lines.h"

static rs_error err;

enum { MOST = 4096 };

static bool is_kept(rs_lines_skip skip, const uint8_t *line, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (skip == RS_LINES_SKIP_EMPTY ? line[i] != '\r' : memchr(" \t\r\v\f", line[i], 5) == NULL) return true;
    }
    return skip == RS_LINES_SKIP_NONE;
}

static uint32_t find_slowly(rs_lines_skip skip, const uint8_t *text, size_t n, uint64_t *begins) {
    uint32_t found = 0;
    for (size_t i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n && text[end] != '\n';) end++;
        if (is_kept(skip, text + i, end - i)) begins[found++] = i;
    }
    return found;
}

static uint64_t next_random(uint64_t *state) {
    return *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

TEST(test_pieces) {
    static const char bytes[] = "\n\n\r \tabcdefghijklmnop\"\\{\v";
    uint64_t expected[MOST], begins[MOST], state = 1;
    uint8_t text[MOST];
    for (unsigned round = 0; round < 600; round++) {
        const size_t size = next_random(&state) % (round < 300 ? 40 : MOST);
        const size_t letters = round % 3 == 0 ? sizeof bytes - 1 : 4 + round % 20;
        for (size_t i = 0; i < size; i++) text[i] = (uint8_t)bytes[(next_random(&state) >> 33) % letters];
        for (unsigned skip = 0; skip < 3; skip++) {
            rs_lines lines = {.skip = (rs_lines_skip)skip};
            uint32_t n = 0, most = 1 + (uint32_t)(next_random(&state) >> 40) % 50;
            uint32_t n_expected = find_slowly(lines.skip, text, size, expected);
            for (size_t at = 0, piece; at < size;) {
                piece = 1 + (size_t)(next_random(&state) >> 35) % 200;
                if (piece > size - at) piece = size - at;
                if (n == most) most += 1 + (uint32_t)(next_random(&state) >> 40) % 50;
                at += rs_lines_find(&lines, text + at, piece, begins, &n, most < MOST ? most : MOST);
                CHECK_U64(lines.at, at);
            }
            CHECK_U64(n, n_expected);
            CHECK(memcmp(begins, expected, n * sizeof *begins) == 0);
            rs_lines_clear(&lines);
        }
    }
}

/* Builds three blocks of lines of two files. */
static void build_lines(built *out) {
    static uint64_t begins[RS_FMT_BLOCK_RECORDS];
    static const uint8_t extra[] = {0x09, 1, 'a'};
    rs_segment_writer writer;
    rs_builder builder;
    rs_lines lines = {0};
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < RS_FMT_BLOCK_RECORDS; i++) begins[i] = 100 * (uint64_t)i + i * 37 % 91;
    REQUIRE_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    REQUIRE_OK(rs_builder_open(&builder, &writer, NULL, &err), &err);
    REQUIRE_OK(rs_lines_describe(&lines, rs_slice_of(extra, sizeof extra), &err), &err);
    REQUIRE_OK(rs_lines_append(&lines, &builder, begins, RS_FMT_BLOCK_RECORDS, &err), &err);
    REQUIRE_OK(rs_lines_append(&lines, &builder, begins, 7, &err), &err);
    REQUIRE_OK(rs_lines_describe(&lines, rs_slice_of(extra, sizeof extra), &err), &err);
    REQUIRE_OK(rs_lines_append(&lines, &builder, begins, 1, &err), &err);
    rs_lines_clear(&lines);
    if (CHECK_OK(rs_builder_finish(&builder, &err), &err)) *out = built_finish(&writer);
    rs_builder_close(&builder);
}

TEST(test_blocks) {
    built b;
    build_lines(&b);
    REQUIRE(b.data != NULL);
    CHECK_OK(rs_verify_segment(built_slice(&b), NULL, NULL, &err), &err);
    CHECK(b.size < 2 * RS_FMT_BLOCK_RECORDS);
    built_clear(&b);
}
