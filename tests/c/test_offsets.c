/* test_offsets.c: offset groups of every width, built and read back, and rules 14 and 15 of FORMAT.md. */
#include "format/rs_offsets.h"
#include "rs_make.h"

static rs_error err;

/* ---- Groups: ends in, ends out ---- */

/* Each record is found between the end of the previous record and its own end. `segment` is the offset groups,
 * allocated exactly; the heap is never touched, only pointed into. */
static void check_located(const uint8_t *segment, rs_block *block, const uint64_t *ends, uint32_t n) {
    block->n_records = n, block->heap_size_bytes = block->rows_size_bytes = ends[n - 1];
    for (uint32_t i = 0; i < n; i++) {
        rs_slice slice = {NULL, NULL};
        rs_offsets_prefetch(segment, block, i);
        if (!CHECK_OK(rs_offsets_locate(segment, block, i, &slice, &err), &err)) break;
        CHECK_U64((uintptr_t)slice.ptr - (uintptr_t)segment, i == 0 ? 0 : ends[i - 1]);
        CHECK_U64((uintptr_t)slice.end - (uintptr_t)segment, ends[i]);
    }
}

static void check_groups(const uint64_t *ends, uint32_t n, uint32_t width) {
    rs_buffer out = {0};
    rs_block block = {0};
    REQUIRE_OK(rs_offsets_append(ends, n, false, &block, &out, &err), &err);
    CHECK_U64(block.index_width, width);
    CHECK_U64(block.index_bits, 8 * width);
    CHECK_U64(out.size_bytes, width == 0 ? 0 : (uint64_t)(n + 63) / 64 * (8 + 64 * width));
    uint8_t *segment = make_exact(out.data, out.size_bytes);
    check_located(segment, &block, ends, n);
    for (uint32_t i = n; width != 0 && i % 64 != 0; i++) { /* the ends past the last record repeat its end */
        const uint8_t *group = segment + (size_t)(i / 64) * (8 + 64 * width);
        CHECK_U64(rs_load_u64(group) + rs_load_uint_unchecked(group + 8 + (i % 64) * width, width), ends[n - 1]);
    }
    free(segment);
    rs_buffer_clear(&out);
}

/* Checks records of size a, except record `odd` of size b. */
static void check_sizes(uint32_t n, uint64_t a, uint32_t odd, uint64_t b, uint32_t width) {
    uint64_t *ends = (uint64_t *)calloc(n, sizeof *ends), end = 0;
    if (ends == NULL) abort();
    for (uint32_t i = 0; i < n; i++) ends[i] = end += i == odd ? b : a;
    check_groups(ends, n, width);
    free(ends);
}

TEST(test_widths) {
    static const uint32_t counts[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000, 65536};
    EACH (i, counts) {
        uint32_t n = counts[i];
        check_sizes(n, 7, n, 0, 0);
        check_sizes(n, 0, n, 0, 0);
        check_sizes(n, UINT32_MAX, n, 0, 0);
        if (n > 1) check_sizes(n, 7, n - 1, 8, 2);
        if (n > 1) check_sizes(n, 7, 0, 0, 2);
        if (n > 1) check_sizes(n, 1, n / 2, 70000, 4);
        if (n > 1) check_sizes(n, 1, n / 2, UINT64_C(1) << 33, 8);
    }
    check_sizes(1, UINT64_C(1) << 32, 1, 0, 8); /* the record is too large for a row size */
    check_sizes(64, 1, 0, UINT16_MAX - 63, 2);  /* the group's last end is the widest number */
    check_sizes(64, 1, 0, UINT16_MAX - 62, 4);
    check_sizes(64, 1, 0, UINT32_MAX - 63, 4);
    check_sizes(64, 1, 0, UINT32_MAX - UINT64_C(62), 8);
    check_sizes(65, 1000, 64, 1001, 2); /* the width depends on the size of a group, not of the heap */
}

/* ---- Ends as distances from a line ---- */

/* Returns the bits of a distance; 0 if the ends are not distances. */
static uint32_t check_lines(const uint64_t *ends, uint32_t n) {
    rs_buffer out = {0};
    rs_block block = {0};
    CHECK_OK(rs_offsets_append(ends, n, true, &block, &out, &err), &err);
    uint32_t bits = block.index_width == RS_FMT_INDEX_LINES ? block.index_bits : 0;
    CHECK(bits <= RS_FMT_INDEX_BITS);
    CHECK_U64(out.size_bytes,
              block.index_width == 0 ? 0 : (uint64_t)(n + 63) / 64 * (8 + 8 * (uint64_t)block.index_bits));
    uint8_t *segment = make_exact(out.data, out.size_bytes);
    check_located(segment, &block, ends, n);
    free(segment);
    rs_buffer_clear(&out);
    return bits;
}

/* Returns the ends of n records of random sizes below `limit`. */
static uint64_t *random_ends(uint32_t n, uint64_t limit, uint64_t seed) {
    uint64_t *ends = (uint64_t *)calloc(n, sizeof *ends), end = 0;
    if (ends == NULL) abort();
    for (uint32_t i = 0; i < n; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ends[i] = end += (seed >> 33) % limit;
    }
    return ends;
}

TEST(test_lines) {
    static const uint32_t counts[] = {2, 3, 63, 64, 65, 127, 128, 129, 1000, 65536};
    static const uint64_t limits[] = {2, 3, 8, 30, 100, 1000, 100000};
    EACH (i, counts) {
        EACH (k, limits) {
            uint64_t *ends = random_ends(counts[i], limits[k], i + 1);
            uint32_t bits = check_lines(ends, counts[i]);
            if (counts[i] > 100 && limits[k] < 10) CHECK(bits > 0 && bits < 8);
            if (limits[k] > 65536) CHECK(bits == 0); /* distances too wide to pay off */
            free(ends);
        }
    }
}

/* Ends that no line fits, and the bits of the distances for other ends. */
TEST(test_lines_at_their_limits) {
    uint64_t ends[128], end;
    uint32_t i;
    for (i = 0; i < 64; i++) ends[i] = i < 63 ? 0 : UINT32_MAX;
    CHECK_U64(check_lines(ends, 64), 0);
    ends[63] = UINT64_C(1) << 32; /* the heap is too large for a base of four bytes */
    CHECK_U64(check_lines(ends, 64), 0);
    ends[0] = 3, ends[1] = UINT64_C(1) << 20; /* the average is too large for the slope */
    CHECK_U64(check_lines(ends, 2), 0);
    for (i = 0, end = 0; i < 128; i++) ends[i] = end += i % 2; /* the distances take one bit */
    CHECK_U64(check_lines(ends, 128), 1);
    for (i = 0, end = 0; i < 128; i++) ends[i] = end += i == 64 ? 5000 : 1; /* the widest group decides */
    CHECK(check_lines(ends, 128) >= 12);
    for (i = 0; i < 128; i++) ends[i] = i < 127 ? 0 : 1;
    CHECK(check_lines(ends, 128) > 0);
}

/* Ends are read back for each width of the distances, even a rare one. */
TEST(test_lines_of_each_width) {
    const uint64_t base = 1000, slope = 70000;
    for (uint32_t bits = 1; bits <= RS_FMT_INDEX_BITS; bits++) {
        const uint64_t half = UINT64_C(1) << (bits - 1);
        uint8_t bytes[8 + 8 * RS_FMT_INDEX_BITS] = {0};
        uint64_t begin = base;
        rs_block block = {0};
        rs_store_u32(bytes, (uint32_t)base), rs_store_u32(bytes + 4, (uint32_t)slope);
        for (uint32_t i = 0; i < 64; i++)
            rs_store_bits(bytes + 8, (uint64_t)i * bits, bits, half + (half - 1) * i / 63);
        uint8_t *segment = make_exact(bytes, 8 + 8 * (size_t)bits);
        block.n_records = 64, block.heap_size_bytes = block.rows_size_bytes = UINT32_MAX;
        block.index_width = RS_FMT_INDEX_LINES, block.index_bits = (uint16_t)bits;
        for (uint32_t i = 0; i < 64; i++) {
            const uint64_t end = base + ((i + 1) * slope >> 16) + (half - 1) * i / 63;
            rs_slice out = {NULL, NULL};
            if (!CHECK_OK(rs_offsets_locate(segment, &block, i, &out, &err), &err)) break;
            CHECK_U64((uintptr_t)out.ptr - (uintptr_t)segment, begin);
            CHECK_U64((uintptr_t)out.end - (uintptr_t)segment, end);
            begin = end;
        }
        free(segment);
    }
}

/* Rule 15: any bytes give a record within the heap or an error. */
TEST(test_bad_lines) {
    uint64_t seed = 1;
    for (unsigned bits = 1; bits <= RS_FMT_INDEX_BITS; bits++) {
        for (unsigned round = 0; round < 200; round++) {
            uint8_t bytes[8 + 8 * RS_FMT_INDEX_BITS];
            rs_block block = {0};
            for (size_t i = 0; i < sizeof bytes; i++) {
                seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
                bytes[i] = (uint8_t)(seed >> (round % 3 == 0 && i < 8 ? 63 : 40));
            }
            uint8_t *segment = make_exact(bytes, 8 + 8 * (size_t)bits);
            block.n_records = 64, block.heap_size_bytes = block.rows_size_bytes = seed >> (round % 60);
            block.index_width = RS_FMT_INDEX_LINES, block.index_bits = (uint16_t)bits;
            for (size_t i = 0; i < 64; i++) {
                rs_slice out;
                rs_status status = rs_offsets_locate(segment, &block, (uint32_t)i, &out, &err);
                if (status == RS_OK) {
                    const uint64_t begin = (uintptr_t)out.ptr - (uintptr_t)segment;
                    CHECK(begin <= (uintptr_t)out.end - (uintptr_t)segment);
                    CHECK((uintptr_t)out.end - (uintptr_t)segment <= block.heap_size_bytes);
                } else {
                    CHECK_CODE(status, RS_E_FMT_OFFSET, &err);
                }
            }
            free(segment);
        }
    }
}

/* Rule 15 refuses a base or end out of bounds, and ends that descend. */
TEST(test_bad_offsets) {
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
    EACH (i, cases) {
        uint8_t segment[64 + 8 + 128] = {0};
        rs_block block = {0};
        rs_slice out;
        block.n_records = 3, block.heap_size_bytes = block.rows_size_bytes = 100, block.index_off = 64;
        block.index_width = 2, block.index_bits = 16;
        rs_store_u64(segment + 64, cases[i].base);
        memcpy(segment + 72, cases[i].ends, 6);
        for (size_t k = 0; k < 3; k++) {
            CHECK_CODE(rs_offsets_locate(segment, &block, (uint32_t)k, &out, &err), cases[i].code[k], &err);
            if (cases[i].code[k] != RS_OK) CHECK_U64(err.offset, 64);
        }
    }
}

/* The sum of the base and an end of 8 bytes is not taken modulo 2^64. */
TEST(test_wide_ends) {
    uint8_t segment[8 + 8 * 64] = {0};
    rs_block block = {0};
    rs_slice out;
    block.n_records = 2, block.heap_size_bytes = block.rows_size_bytes = 100;
    block.index_width = 8, block.index_bits = 64;
    rs_store_u64(segment, 50);
    rs_store_u64(segment + 8, UINT64_MAX - 49); /* with the base: 0 */
    rs_store_u64(segment + 16, 10);
    CHECK_CODE(rs_offsets_locate(segment, &block, 0, &out, &err), RS_E_FMT_OFFSET, &err);
    CHECK_CODE(rs_offsets_locate(segment, &block, 1, &out, &err), RS_E_FMT_OFFSET, &err);
}

/* ---- Block entries (rule 14) ---- */

/* Reads a changed block entry. HEAP is 4096 to 8192, OFFSETS 8192 to 8328 (one group of width 2). */
static rs_status read_block(const rs_block *block, uint32_t at, uint64_t value, unsigned width) {
    rs_directory directory = {0};
    uint8_t entry[RS_FMT_BLOCK_SIZE];
    rs_block out;
    directory.sections[RS_FMT_SECTION_HEAP].off = 4096, directory.sections[RS_FMT_SECTION_HEAP].size_bytes = 4096;
    directory.sections[RS_FMT_SECTION_OFFSETS].off = 8192;
    directory.sections[RS_FMT_SECTION_OFFSETS].size_bytes = 8 + 64 * 2;
    directory.sections[RS_FMT_SECTION_BLOCKS].count = 1;
    directory.sections[RS_FMT_SECTION_TREE_TABLE].count = 2;
    rs_block_write(block, entry);
    memcpy(entry + at, &value, width);
    uint8_t *exact = make_exact(entry, sizeof entry);
    rs_status status = rs_block_read(rs_slice_of(exact, sizeof entry), &directory, 0, &out, &err);
    if (status == RS_OK && width == 0) CHECK(memcmp(&out, block, sizeof out) == 0);
    free(exact);
    return status;
}

TEST(test_block_of_rows) {
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
        {24, 99, 8, RS_E_FMT_BLOCK}, /* ten rows of ten bytes need 100 */
        {32, 8, 8, RS_E_FMT_BLOCK},
        {40, 11, 4, RS_E_FMT_BLOCK},
        {40, UINT32_MAX, 4, RS_E_FMT_BLOCK},
        {44, 1, 1, RS_E_FMT_BLOCK},
        {44, 3, 1, RS_E_FMT_BLOCK},
        {44, 16, 1, RS_E_FMT_BLOCK},
        {44, 2, 1, RS_E_FMT_BLOCK}, /* a row size and a width */
        {45, 1, 1, RS_E_FMT_BLOCK}, /* bits and a row size */
        {46, 1, 1, RS_E_FMT_RESERVED},
        {47, 1, 1, RS_E_FMT_RESERVED},
        {48, 4100, 8, RS_E_FMT_BLOCK},
        {48, 0, 8, RS_E_FMT_BLOCK},
        {56, 4096, 8, RS_E_FMT_BLOCK},
        {72, 1, 1, RS_E_FMT_BLOCK}, /* the last record would reach into the places */
        {79, 1, 1, RS_E_FMT_BLOCK},
        {72, 101, 1, RS_E_FMT_BLOCK},
    };
    rs_block block = {5, 10, 0, 4096, 100, 0, 10, 0, 0, 4224, 64, 0x12345678, 0x9ABCDEF0, 0, 100, NULL, NULL};
    CHECK_OK(read_block(&block, 0, 0, 0), &err);
    EACH (i, cases) {
        CHECK_CODE(read_block(&block, cases[i].at, cases[i].value, cases[i].width), cases[i].code, &err);
        if (cases[i].code != RS_OK) CHECK_U64(err.offset, 0);
    }
    block.row_size_bytes = 9;
    CHECK_OK(read_block(&block, 72, 10, 8), &err); /* the last 10 bytes of the heap are places */
    CHECK_CODE(read_block(&block, 72, 11, 8), RS_E_FMT_BLOCK, &err);
    block.row_size_bytes = 0, block.n_records = 65536; /* records of no bytes */
    CHECK_OK(read_block(&block, 0, 0, 0), &err);
}

TEST(test_block_with_groups) {
    rs_block block = {0, 64, 0, 4096, 100, 8192, 0, 2, 16, 4224, 0, 0, 0, 0, 100, NULL, NULL};
    CHECK_OK(read_block(&block, 0, 0, 0), &err);
    CHECK_CODE(read_block(&block, 8, 65, 4), RS_E_FMT_BLOCK, &err);    /* two groups do not fit */
    CHECK_CODE(read_block(&block, 32, 8196, 8), RS_E_FMT_BLOCK, &err); /* not 8-aligned */
    CHECK_CODE(read_block(&block, 32, 8200, 8), RS_E_FMT_BLOCK, &err);
    CHECK_CODE(read_block(&block, 32, 8184, 8), RS_E_FMT_BLOCK, &err);
    CHECK_CODE(read_block(&block, 32, UINT64_MAX - 7, 8), RS_E_FMT_BLOCK, &err);
    CHECK_CODE(read_block(&block, 44, 4, 1), RS_E_FMT_BLOCK, &err); /* wider groups do not fit */
    CHECK_CODE(read_block(&block, 44, 8, 1), RS_E_FMT_BLOCK, &err);
    CHECK_CODE(read_block(&block, 40, 1, 4), RS_E_FMT_BLOCK, &err);
    CHECK_CODE(read_block(&block, 45, 16, 1), RS_E_FMT_BLOCK, &err); /* bits and whole bytes */
    block.index_width = RS_FMT_INDEX_LINES;
    CHECK_OK(read_block(&block, 0, 0, 0), &err);
    CHECK_CODE(read_block(&block, 45, 0, 1), RS_E_FMT_BLOCK, &err);
    CHECK_CODE(read_block(&block, 45, 17, 1), RS_E_FMT_BLOCK, &err); /* wider groups do not fit */
    CHECK_CODE(read_block(&block, 45, 33, 1), RS_E_FMT_BLOCK, &err);
    block.n_records = 128, block.index_bits = 7; /* two groups of 64 bytes */
    CHECK_OK(read_block(&block, 0, 0, 0), &err);
    CHECK_CODE(read_block(&block, 45, 8, 1), RS_E_FMT_BLOCK, &err);
}
