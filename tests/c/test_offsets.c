/* test_offsets.c: offset groups of every width, built and read back, and rules 14 and 15 of FORMAT.md. */
#include "format/rs_offsets.h"
#include "rs_make.h"

static rs_error err;

/* ---- Groups: ends in, ends out ---- */

/* `segment` is the offset groups, allocated exactly; the heap is never touched, only pointed into. */
static void check_groups(const uint64_t *ends, uint32_t n, uint32_t width) {
    rs_buffer out = {0};
    rs_block block;
    uint8_t *segment;
    uint32_t i;
    memset(&block, 0, sizeof block);
    REQUIRE_OK(rs_offsets_append(ends, n, &block, &out, &err), &err);
    CHECK_U64(block.index_width, width);
    CHECK_U64(out.size_bytes, width == 0 ? 0 : (uint64_t)(n + 63) / 64 * (8 + 64 * width));
    segment = make_exact(out.data, out.size_bytes);
    block.n_records = n, block.heap_size_bytes = ends[n - 1];
    for (i = 0; i < n; i++) {
        uint64_t begin = i == 0 ? 0 : ends[i - 1];
        rs_slice slice = {NULL, NULL};
        if (!CHECK_OK(rs_offsets_locate(segment, &block, i, &slice, &err), &err)) break;
        CHECK_U64((uintptr_t)slice.ptr - (uintptr_t)segment, begin);
        CHECK_U64((uintptr_t)slice.end - (uintptr_t)segment, ends[i]);
    }
    for (i = n; width != 0 && i % 64 != 0; i++) { /* those past the last record repeat its end */
        const uint8_t *group = segment + (size_t)(i / 64) * (8 + 64 * width);
        CHECK_U64(rs_load_u64(group) + rs_load_uint_unchecked(group + 8 + (i % 64) * width, width), ends[n - 1]);
    }
    free(segment);
    rs_buffer_clear(&out);
}

/* Records of size a, but the one numbered `odd` of size b. */
static void check_sizes(uint32_t n, uint64_t a, uint32_t odd, uint64_t b, uint32_t width) {
    uint64_t *ends = (uint64_t *)calloc(n, sizeof *ends), end = 0;
    uint32_t i;
    if (ends == NULL) abort();
    for (i = 0; i < n; i++) ends[i] = end += i == odd ? b : a;
    check_groups(ends, n, width);
    free(ends);
}

static void test_widths(void) {
    static const uint32_t counts[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000, 65536};
    size_t i;
    for (i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint32_t n = counts[i];
        check_sizes(n, 7, n, 0, 0);
        check_sizes(n, 0, n, 0, 0);
        check_sizes(n, UINT32_MAX, n, 0, 0);
        if (n > 1) check_sizes(n, 7, n - 1, 8, 2);
        if (n > 1) check_sizes(n, 7, 0, 0, 2);
        if (n > 1) check_sizes(n, 1, n / 2, 70000, 4);
        if (n > 1) check_sizes(n, 1, n / 2, UINT64_C(1) << 33, 8);
    }
    check_sizes(1, UINT64_C(1) << 32, 1, 0, 8); /* one record too large for a row */
    check_sizes(64, 1, 0, UINT16_MAX - 63, 2);  /* the group's last end is the widest number */
    check_sizes(64, 1, 0, UINT16_MAX - 62, 4);
    check_sizes(64, 1, 0, UINT32_MAX - 63, 4);
    check_sizes(64, 1, 0, UINT32_MAX - UINT64_C(62), 8);
    check_sizes(65, 1000, 64, 1001, 2); /* the width is that of a group, not of the heap */
}

/* Rule 15: base and ends out of bounds, ends that go down. */
static void test_bad_offsets(void) {
    static const struct {
        uint64_t base;
        uint16_t ends[3];
        rs_status code[3];
    } cases[] = {
        {0, {10, 20, 100}, {RS_OK, RS_OK, RS_OK}},
        {0, {10, 20, 101}, {RS_OK, RS_OK, RS_E_FMT_OFFSET}},
        {0, {10, 9, 9}, {RS_OK, RS_E_FMT_OFFSET, RS_OK}},
        {90, {10, 10, 11}, {RS_OK, RS_OK, RS_E_FMT_OFFSET}},
        {101, {0, 0, 0}, {RS_E_FMT_OFFSET, RS_E_FMT_OFFSET, RS_E_FMT_OFFSET}},
        {UINT64_MAX, {1, 1, 1}, {RS_E_FMT_OFFSET, RS_E_FMT_OFFSET, RS_E_FMT_OFFSET}},
        {UINT64_MAX - 5, {10, 10, 10}, {RS_E_FMT_OFFSET, RS_E_FMT_OFFSET, RS_E_FMT_OFFSET}},
    };
    size_t i, k;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t segment[64 + 8 + 128] = {0};
        rs_block block;
        rs_slice out;
        memset(&block, 0, sizeof block);
        block.n_records = 3, block.heap_size_bytes = 100, block.index_width = 2, block.index_off = 64;
        rs_store_u64(segment + 64, cases[i].base);
        memcpy(segment + 72, cases[i].ends, 6);
        for (k = 0; k < 3; k++) {
            CHECK_CODE(rs_offsets_locate(segment, &block, (uint32_t)k, &out, &err), cases[i].code[k], &err);
            if (cases[i].code[k] != RS_OK) CHECK_U64(err.offset, 64);
        }
    }
}

/* ---- Block entries (rule 14) ---- */

/* HEAP 4096 to 8192, OFFSETS 8192 to 8328 (one group of width 2), BLOCKS at 0 of the slice, two trees. */
static rs_status read_block(const rs_block *block, uint32_t at, uint64_t value, unsigned width) {
    rs_directory directory;
    uint8_t entry[RS_FMT_BLOCK_SIZE], *exact;
    rs_block out;
    rs_status status;
    memset(&directory, 0, sizeof directory);
    directory.sections[RS_FMT_SECTION_HEAP].off = 4096, directory.sections[RS_FMT_SECTION_HEAP].size_bytes = 4096;
    directory.sections[RS_FMT_SECTION_OFFSETS].off = 8192;
    directory.sections[RS_FMT_SECTION_OFFSETS].size_bytes = 8 + 64 * 2;
    directory.sections[RS_FMT_SECTION_BLOCKS].count = 1;
    directory.sections[RS_FMT_SECTION_TREE_TABLE].count = 2;
    rs_block_write(block, entry);
    memcpy(entry + at, &value, width);
    exact = make_exact(entry, sizeof entry);
    status = rs_block_read(rs_slice_of(exact, sizeof entry), &directory, 0, &out, &err);
    if (status == RS_OK && width == 0) CHECK(memcmp(&out, block, sizeof out) == 0);
    free(exact);
    return status;
}

static void test_block_of_rows(void) {
    static const struct {
        uint32_t at;
        uint64_t value;
        unsigned width;
        rs_status code;
    } cases[] = {
        {0, UINT64_C(1) << 48, 8, RS_E_FMT_BLOCK},
        {8, 0, 4, RS_E_FMT_BLOCK},
        {8, 65536, 4, RS_E_FMT_BLOCK},
        {8, 65537, 4, RS_E_FMT_BLOCK},
        {12, 1, 4, RS_OK},
        {12, 2, 4, RS_E_FMT_BLOCK},
        {16, 4097, 8, RS_E_FMT_BLOCK},
        {16, 4032, 8, RS_E_FMT_BLOCK},
        {16, 8192, 8, RS_E_FMT_BLOCK},
        {16, UINT64_MAX - 63, 8, RS_E_FMT_BLOCK},
        {24, 4096, 8, RS_OK},
        {24, 4097, 8, RS_E_FMT_BLOCK},
        {24, UINT64_MAX, 8, RS_E_FMT_BLOCK},
        {24, 99, 8, RS_E_FMT_BLOCK}, /* less than ten rows of ten */
        {32, 8, 8, RS_E_FMT_BLOCK},
        {40, 11, 4, RS_E_FMT_BLOCK},
        {40, UINT32_MAX, 4, RS_E_FMT_BLOCK},
        {44, 1, 1, RS_E_FMT_BLOCK},
        {44, 3, 1, RS_E_FMT_BLOCK},
        {44, 16, 1, RS_E_FMT_BLOCK},
        {44, 2, 1, RS_E_FMT_BLOCK}, /* a row size beside a width */
        {45, 1, 1, RS_E_FMT_RESERVED},
        {46, 1, 1, RS_E_FMT_RESERVED},
        {47, 1, 1, RS_E_FMT_RESERVED},
        {48, 4100, 8, RS_E_FMT_BLOCK},
        {48, 0, 8, RS_E_FMT_BLOCK},
        {56, 4096, 8, RS_E_FMT_BLOCK},
        {72, 1, 1, RS_E_FMT_RESERVED},
        {79, 1, 1, RS_E_FMT_RESERVED},
    };
    rs_block block = {5, 10, 0, 4096, 100, 0, 10, 0, 4224, 64, 0x12345678, 0x9ABCDEF0};
    size_t i;
    CHECK_OK(read_block(&block, 0, 0, 0), &err);
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (!CHECK_CODE(read_block(&block, cases[i].at, cases[i].value, cases[i].width), cases[i].code, &err)) {
            (void)fprintf(stderr, "    case %zu\n", i);
        }
        if (cases[i].code != RS_OK) CHECK_U64(err.offset, 0);
    }
    block.row_size_bytes = 0, block.n_records = 65536; /* records of no bytes */
    CHECK_OK(read_block(&block, 0, 0, 0), &err);
}

static void test_block_with_groups(void) {
    rs_block block = {0, 64, 0, 4096, 100, 8192, 0, 2, 4224, 0, 0, 0};
    CHECK_OK(read_block(&block, 0, 0, 0), &err);
    CHECK_CODE(read_block(&block, 8, 65, 4), RS_E_FMT_BLOCK, &err);    /* two groups do not fit */
    CHECK_CODE(read_block(&block, 32, 8196, 8), RS_E_FMT_BLOCK, &err); /* not 8-aligned */
    CHECK_CODE(read_block(&block, 32, 8200, 8), RS_E_FMT_BLOCK, &err);
    CHECK_CODE(read_block(&block, 32, 8184, 8), RS_E_FMT_BLOCK, &err);
    CHECK_CODE(read_block(&block, 32, UINT64_MAX - 7, 8), RS_E_FMT_BLOCK, &err);
    CHECK_CODE(read_block(&block, 44, 4, 1), RS_E_FMT_BLOCK, &err); /* wider groups do not fit */
    CHECK_CODE(read_block(&block, 44, 8, 1), RS_E_FMT_BLOCK, &err);
    CHECK_CODE(read_block(&block, 40, 1, 4), RS_E_FMT_BLOCK, &err);
}

int main(void) {
    RUN(test_widths);
    RUN(test_bad_offsets);
    RUN(test_block_of_rows);
    RUN(test_block_with_groups);
    return rs_test_finish("test_offsets");
}
