/* test_header.c: rules 1 to 12 of FORMAT.md, each broken alone in a segment written out by hand: code and position. */
#include "format/rs_header.h"
#include "rs_make.h"

/* The hand-made segment has one record, `None`, in one block. The offsets of its sections and its directory. */
enum { HEAP = 4096, OFFSETS = 4160, GROUPS = 4160, BLOCKS = 4224, TREES = 4352, TABLE = 4416, DIRECTORY = 4480 };
enum { SIZE = DIRECTORY + 6 * 40, ENTRY = 40 };
enum { SEAL_DIRECTORY = 1, SEAL_HEADER = 2, SEAL = 3 };

static rs_error err;

static void put(uint8_t *at, uint64_t value, unsigned width) { memcpy(at, &value, width); }

static void seal(uint8_t *s, int which) {
    uint32_t count = rs_load_u32(s + 68);
    if ((which & SEAL_DIRECTORY) != 0 && count <= 7) rs_store_u32(s + 108, rs_crc32c(0, s + DIRECTORY, count * 40));
    if ((which & SEAL_HEADER) != 0) rs_store_u32(s + 4092, rs_crc32c(0, s, 4092));
}

/* Room for a seventh directory entry follows the segment. */
static uint8_t *make_segment(void) {
    static const struct {
        uint64_t offset, size, count;
    } sections[] = {{HEAP, 64, 1}, {OFFSETS, 0, 0}, {GROUPS, 4, 1}, {BLOCKS, 80, 1}, {TREES, 32, 1}, {TABLE, 16, 1}};
    uint8_t *s = (uint8_t *)calloc(1, SIZE + ENTRY);
    if (s == NULL) abort();
    memcpy(s, "\x89RECS\r\n\x1a", 8);
    put(s + 8, 1, 2), put(s + 10, 1, 2), put(s + 12, 4096, 4), put(s + 32, SIZE, 8), put(s + 64, 1, 4);
    put(s + 68, 6, 4), put(s + 72, DIRECTORY, 8), put(s + 80, 1, 8), put(s + 88, 1, 8), put(s + 96, 1, 8);
    for (unsigned i = 0; i < 6; i++) {
        uint8_t *e = s + DIRECTORY + i * ENTRY;
        put(e, i + 1, 2), put(e + 8, sections[i].offset, 8), put(e + 16, sections[i].size, 8);
        put(e + 24, sections[i].count, 8);
    }
    seal(s, SEAL);
    return s;
}

static rs_status read_both(const uint8_t *s, size_t size, const rs_limits *limits) {
    rs_header header;
    rs_directory directory;
    uint8_t *exact = make_exact(s, size);
    rs_slice slice = rs_slice_of(exact, size);
    rs_error_clear(&err);
    rs_status status = rs_header_read(slice, limits, &header, &err);
    if (status == RS_OK) status = rs_directory_read(slice, &header, 0, &directory, &err);
    free(exact);
    return status;
}

TEST(test_valid) {
    uint8_t *s = make_segment();
    CHECK_OK(read_both(s, SIZE, NULL), &err);
    CHECK_OK(read_both(s, SIZE + ENTRY, NULL), &err); /* rule 7: bytes beyond are ignored */
    put(s + 8, 9, 2), put(s + 24, UINT64_MAX, 8), put(s + 2000, 1, 1), seal(s, SEAL);
    CHECK_OK(read_both(s, SIZE, NULL), &err); /* a later writer, optional features, ignored bytes */
    free(s);
}

/* Rules 1, 4, 6, 7, 9 and 10 with the header of version 3: it covers 128 bytes, and sections begin after it. */
TEST(test_short_header) {
    uint8_t *s = make_segment();
    put(s + 10, 3, 2), put(s + 12, 128, 4), put(s + DIRECTORY + 8, 128, 8);
    rs_store_u32(s + 108, rs_crc32c(0, s + DIRECTORY, 6 * ENTRY)), rs_store_u32(s + 124, rs_crc32c(0, s, 124));
    CHECK_OK(read_both(s, SIZE, NULL), &err);
    CHECK_CODE(read_both(s, 127, NULL), RS_E_FMT_TRUNCATED, &err);
    CHECK_CODE(read_both(s, 128, NULL), RS_E_FMT_TRUNCATED, &err);
    s[123] ^= 1;
    CHECK_CODE(read_both(s, SIZE, NULL), RS_E_FMT_CHECKSUM, &err);
    CHECK_U64(err.offset, 124);
    s[123] ^= 1, s[128] ^= 1; /* of the heap */
    CHECK_OK(read_both(s, SIZE, NULL), &err);
    put(s + 16, RS_FMT_FEATURE_FRONT, 8), rs_store_u32(s + 124, rs_crc32c(0, s, 124));
    CHECK_OK(read_both(s, SIZE, NULL), &err);
    put(s + DIRECTORY + 8, 64, 8), rs_store_u32(s + 108, rs_crc32c(0, s + DIRECTORY, 6 * ENTRY));
    rs_store_u32(s + 124, rs_crc32c(0, s, 124));
    CHECK_CODE(read_both(s, SIZE, NULL), RS_E_FMT_SECTION, &err);
    put(s + 12, 4096, 4), rs_store_u32(s + 124, rs_crc32c(0, s, 124));
    CHECK_CODE(read_both(s, SIZE, NULL), RS_E_FMT_VALUE, &err);
    free(s);
}

/* Rules 1 and 7. */
TEST(test_truncated) {
    uint8_t *s = make_segment();
    for (size_t size = 0; size < SIZE; size++) {
        CHECK_CODE(read_both(s, size, NULL), RS_E_FMT_TRUNCATED, &err);
        CHECK_U64(err.offset, size);
    }
    free(s);
}

/* Rules 2 to 4 cover every byte of the header. */
TEST(test_every_header_byte) {
    uint8_t *s = make_segment();
    for (unsigned i = 0; i < 4096; i++) {
        rs_status code = i < 8 ? RS_E_FMT_MAGIC : i == 10 || i == 11 ? RS_E_FMT_VERSION : RS_E_FMT_CHECKSUM;
        s[i] ^= 0x40;
        CHECK_CODE(read_both(s, SIZE, NULL), code, &err);
        CHECK_U64(err.offset, i < 8 ? 0 : i == 10 || i == 11 ? 10 : 4092);
        s[i] ^= 0x40;
    }
    for (unsigned i = DIRECTORY; i < SIZE; i++) { /* rule 9 */
        s[i] ^= 1;
        CHECK_CODE(read_both(s, SIZE, NULL), RS_E_FMT_CHECKSUM, &err);
        CHECK_U64(err.offset, DIRECTORY);
        s[i] ^= 1;
    }
    free(s);
}

#define AT(kind, field) (DIRECTORY + ((kind) - 1) * ENTRY + (field))
#define AT_ENTRY(kind) AT(kind, 0)

static const struct {
    unsigned rule, at, width;
    uint64_t value;
    int reseal;
    rs_status code;
    uint64_t offset;
} broken[] = {
    {3, 10, 2, 0, 0, RS_E_FMT_VERSION, 10},
    {3, 10, 2, 2, SEAL, RS_E_FMT_VERSION, 10},
    {4, 10, 2, 3, SEAL, RS_E_FMT_CHECKSUM, 124}, /* a short header has its checksum elsewhere */
    {4, 4092, 4, 0, 0, RS_E_FMT_CHECKSUM, 4092},
    {5, 16, 8, 1, SEAL, RS_OK, RS_NOWHERE},       /* ext values */
    {5, 16, 8, 4, SEAL, RS_OK, RS_NOWHERE},       /* dtypes */
    {5, 16, 8, 255 - 2, SEAL, RS_OK, RS_NOWHERE}, /* the first eight features but MAPPING */
    {5, 16, 8, 1024, SEAL, RS_OK, RS_NOWHERE},    /* FRONT, though no section is within the header */
    {5, 16, 8, 16384, SEAL, RS_E_FMT_VERSION, 16},
    {5, 16, 8, UINT64_C(1) << 63, SEAL, RS_E_FMT_VERSION, 16},
    {5, 64, 4, 0, SEAL, RS_E_FMT_VERSION, 64},
    {5, 64, 4, 2, SEAL, RS_E_FMT_VERSION, 64},
    {6, 12, 4, 4095, SEAL, RS_E_FMT_VALUE, 12},
    {6, 12, 4, 8192, SEAL, RS_E_FMT_VALUE, 12},
    {6, 104, 4, 201, SEAL, RS_E_FMT_VALUE, 104},
    {6, 104, 4, 200, SEAL, RS_OK, RS_NOWHERE},
    {7, 32, 8, SIZE + 1, SEAL, RS_E_FMT_TRUNCATED, SIZE},
    {7, 32, 8, UINT64_MAX, SEAL, RS_E_FMT_TRUNCATED, SIZE},
    {7, 32, 8, 4095, SEAL, RS_E_FMT_TRUNCATED, SIZE},
    {8, 88, 8, 268435456, SEAL, RS_OK, RS_NOWHERE},
    {8, 88, 8, 268435457, SEAL, RS_E_FMT_LIMIT, 88},
    {8, 96, 8, UINT64_C(4294967296), SEAL, RS_OK, RS_NOWHERE},
    {8, 96, 8, UINT64_C(4294967297), SEAL, RS_E_FMT_LIMIT, 96},
    {9, 68, 4, 65, SEAL, RS_E_FMT_SECTION, 68},
    {9, 68, 4, 7, SEAL, RS_E_FMT_SECTION, 72}, /* one entry more than the segment has room for */
    {9, 72, 8, DIRECTORY + 8, SEAL, RS_E_FMT_SECTION, 72},
    {9, 72, 8, DIRECTORY + 64, SEAL, RS_E_FMT_SECTION, 72},
    {9, 72, 8, 0, SEAL, RS_E_FMT_SECTION, 72},
    {9, 72, 8, UINT64_MAX - 63, SEAL, RS_E_FMT_SECTION, 72},
    {9, 108, 4, 1, SEAL_HEADER, RS_E_FMT_CHECKSUM, DIRECTORY},
    {10, AT(1, 8), 8, 4032, SEAL, RS_E_FMT_SECTION, AT_ENTRY(1)},      /* within the header */
    {10, AT(2, 8), 8, HEAP, SEAL, RS_E_FMT_SECTION, AT_ENTRY(2)},      /* overlaps the heap */
    {10, AT(2, 8), 8, BLOCKS, SEAL, RS_E_FMT_SECTION, AT_ENTRY(3)},    /* not sorted */
    {10, AT(1, 16), 8, 65, SEAL, RS_E_FMT_SECTION, AT_ENTRY(2)},       /* reaches into the next */
    {10, AT(6, 8), 8, TABLE + 1, SEAL, RS_E_FMT_SECTION, AT_ENTRY(6)}, /* not aligned */
    {10, AT(6, 8), 8, DIRECTORY, SEAL, RS_E_FMT_SECTION, AT_ENTRY(6)}, /* beyond the directory's start */
    {10, AT(6, 8), 8, UINT64_MAX - 63, SEAL, RS_E_FMT_SECTION, AT_ENTRY(6)},
    {10, AT(6, 16), 8, 65, SEAL, RS_E_FMT_SECTION, AT_ENTRY(6)},
    {10, AT(6, 16), 8, UINT64_MAX, SEAL, RS_E_FMT_SECTION, AT_ENTRY(6)},
    {10, AT(3, 24), 8, 2, SEAL, RS_E_FMT_SECTION, AT_ENTRY(3)},
    {10, AT(4, 24), 8, 0, SEAL, RS_E_FMT_SECTION, AT_ENTRY(4)},
    {10, AT(4, 24), 8, (UINT64_MAX / 80 + 1) + 1, SEAL, RS_E_FMT_SECTION, AT_ENTRY(4)}, /* the product wraps */
    {10, AT(6, 16), 8, 17, SEAL, RS_E_FMT_SECTION, AT_ENTRY(6)},
    {11, AT(2, 0), 2, 1, SEAL, RS_E_FMT_SECTION, AT_ENTRY(2)},   /* HEAP twice */
    {11, AT(2, 0), 2, 32768, SEAL, RS_E_FMT_SECTION, DIRECTORY}, /* OFFSETS missing */
    {11, 68, 4, 5, SEAL, RS_E_FMT_SECTION, DIRECTORY},           /* TREE_TABLE missing */
    {11, 68, 4, 0, SEAL, RS_E_FMT_SECTION, DIRECTORY},
    {11, AT(5, 0), 2, 7, SEAL, RS_E_FMT_VERSION, AT_ENTRY(5)},
    {11, AT(5, 0), 2, 32767, SEAL, RS_E_FMT_VERSION, AT_ENTRY(5)},
    {11, AT(5, 2), 2, 1, SEAL, RS_E_FMT_VERSION, AT_ENTRY(5)}, /* the keys of a mapping */
    {11, AT(4, 4), 4, 1, SEAL, RS_E_FMT_RESERVED, AT_ENTRY(4)},
    {11, AT(4, 36), 4, 1, SEAL, RS_E_FMT_RESERVED, AT_ENTRY(4)},
    {12, 80, 8, 0, SEAL, RS_E_FMT_BLOCK, 80},
    {12, 80, 8, (UINT64_C(1) << 48) + 1, SEAL, RS_E_FMT_BLOCK, 80},
    {12, 80, 8, UINT64_MAX, SEAL, RS_E_FMT_BLOCK, 80},
    {10, 80, 8, 65, SEAL, RS_E_FMT_SECTION, 80}, /* 65 records need two groups */
    {10, 80, 8, UINT64_C(1) << 48, SEAL, RS_E_FMT_SECTION, 80},
};

TEST(test_every_rule) {
    EACH (i, broken) {
        uint8_t *s = make_segment();
        put(s + broken[i].at, broken[i].value, broken[i].width);
        seal(s, broken[i].reseal);
        CHECK_CODE(read_both(s, SIZE, NULL), broken[i].code, &err);
        if (broken[i].code != RS_OK) {
            CHECK_U64(err.offset, broken[i].offset);
            CHECK_U64(err.code, broken[i].code);
        }
        free(s);
    }
}

/* Rule 10 with the feature FRONT: the heap may lie within the header, before the checksum. */
TEST(test_front) {
    static const struct {
        uint64_t off, size;
        rs_status code;
    } cases[] = {
        {128, 64, RS_OK},
        {128, 4092 - 128, RS_OK},
        {4032, 60, RS_OK},
        {4096, 64, RS_OK},
        {64, 64, RS_E_FMT_SECTION},
        {0, 0, RS_E_FMT_SECTION},
        {128, 4092 - 127, RS_E_FMT_SECTION},
        {4032, 61, RS_E_FMT_SECTION},
        {4032, UINT64_MAX, RS_E_FMT_SECTION},
        {192 + 1, 1, RS_E_FMT_SECTION},
    };
    EACH (i, cases) {
        uint8_t *s = make_segment();
        put(s + AT(1, 8), cases[i].off, 8), put(s + AT(1, 16), cases[i].size, 8);
        put(s + 16, RS_FMT_FEATURE_FRONT, 8), seal(s, SEAL);
        CHECK_CODE(read_both(s, SIZE, NULL), cases[i].code, &err);
        if (cases[i].code != RS_OK) CHECK_U64(err.offset, AT_ENTRY(1));
        put(s + 16, 0, 8), seal(s, SEAL);
        CHECK_CODE(read_both(s, SIZE, NULL), cases[i].off == HEAP ? RS_OK : RS_E_FMT_SECTION, &err);
        free(s);
    }
}

/* The entries are in the order of their sections; entries with equal offsets are in the order of their kinds. */
TEST(test_sorted_entries) {
    static const uint8_t expected[] = {4, 6, 1, 2, 3, 5};
    uint8_t *s = make_segment();
    rs_header header;
    rs_directory directory;
    rs_buffer out = {0};
    REQUIRE_OK(rs_header_read(rs_slice_of(s, SIZE), NULL, &header, &err), &err);
    REQUIRE_OK(rs_directory_read(rs_slice_of(s, SIZE), &header, 0, &directory, &err), &err);
    directory.sections[RS_FMT_SECTION_BLOCKS].off = 128, directory.sections[RS_FMT_SECTION_TREE_TABLE].off = 256;
    REQUIRE_OK(rs_directory_write(&directory, NULL, &header, &out, &err), &err);
    for (unsigned i = 0; i < 6; i++) CHECK_U64(rs_load_u16(out.data + i * ENTRY), expected[i]);
    rs_buffer_clear(&out);
    free(s);
}

/* Rule 12 for a segment without blocks, and the caller's own limits. */
TEST(test_no_blocks_and_limits) {
    rs_limits limits = {4, 9};
    uint8_t *s = make_segment();
    put(s + AT(4, 16), 0, 8), put(s + AT(4, 24), 0, 8), seal(s, SEAL);
    CHECK_CODE(read_both(s, SIZE, NULL), RS_E_FMT_BLOCK, &err);
    put(s + 80, 0, 8), put(s + AT(3, 16), 0, 8), put(s + AT(3, 24), 0, 8), seal(s, SEAL);
    CHECK_OK(read_both(s, SIZE, NULL), &err);
    put(s + 88, 4, 8), put(s + 96, 9, 8), seal(s, SEAL);
    CHECK_OK(read_both(s, SIZE, &limits), &err);
    limits.max_bytes = 8;
    CHECK_CODE(read_both(s, SIZE, &limits), RS_E_FMT_LIMIT, &err);
    CHECK_U64(err.offset, 96);
    limits.max_values = 3;
    CHECK_CODE(read_both(s, SIZE, &limits), RS_E_FMT_LIMIT, &err);
    CHECK_U64(err.offset, 88);
    free(s);
}

/* A reader ignores a section of an optional kind that it does not know. */
TEST(test_optional_section) {
    uint8_t *s = make_segment(), *e = s + DIRECTORY + 6 * ENTRY;
    put(s + 68, 7, 4), put(s + 32, SIZE + ENTRY, 8);
    put(e, 32768, 2), put(e + 2, 77, 2), put(e + 8, TABLE + 64, 8);
    seal(s, SEAL);
    CHECK_OK(read_both(s, SIZE + ENTRY, NULL), &err);
    put(e + 4, 1, 4), seal(s, SEAL);
    CHECK_CODE(read_both(s, SIZE + ENTRY, NULL), RS_E_FMT_RESERVED, &err);
    put(e + 4, 0, 4), put(e + 8, TABLE, 8), seal(s, SEAL);
    CHECK_CODE(read_both(s, SIZE + ENTRY, NULL), RS_E_FMT_SECTION, &err);
    CHECK_U64(err.offset, DIRECTORY + 6 * ENTRY);
    free(s);
}

/* The label is an optional section. It is found for store 0, and its bytes are not read. */
TEST(test_label) {
    uint8_t *s = make_segment(), *e = s + DIRECTORY + 6 * ENTRY;
    rs_header header;
    rs_directory directory;
    rs_slice bytes = rs_slice_of(s, SIZE + ENTRY);
    put(s + 68, 7, 4), put(s + 32, SIZE + ENTRY, 8);
    put(e, 32768, 2), put(e + 8, TABLE + 64, 8), put(e + 24, 3, 8), put(e + 32, 77, 4);
    seal(s, SEAL);
    REQUIRE_OK(rs_header_read(bytes, NULL, &header, &err), &err);
    CHECK_OK(rs_directory_read(bytes, &header, 0, &directory, &err), &err);
    CHECK_U64(directory.label.off, TABLE + 64);
    CHECK_U64(directory.label.count, 3);
    CHECK_U64(directory.label.crc, 77);
    put(e + 2, 1, 2), seal(s, SEAL);
    REQUIRE_OK(rs_header_read(bytes, NULL, &header, &err), &err);
    CHECK_OK(rs_directory_read(bytes, &header, 0, &directory, &err), &err);
    CHECK_U64(directory.label.off, 0);
    free(s);
}

/* Writing gives the hand-made bytes again. */
TEST(test_write) {
    uint8_t *s = make_segment(), written[4096] = {0};
    rs_header header;
    rs_directory directory;
    rs_buffer out = {0};
    REQUIRE_OK(rs_header_read(rs_slice_of(s, SIZE), NULL, &header, &err), &err);
    REQUIRE_OK(rs_directory_read(rs_slice_of(s, SIZE), &header, 0, &directory, &err), &err);
    header.directory_count = 0, header.directory_crc = 0;
    REQUIRE_OK(rs_directory_write(&directory, NULL, &header, &out, &err), &err);
    rs_header_write(&header, written);
    CHECK_U64(out.size_bytes, 6 * ENTRY);
    CHECK(memcmp(out.data, s + DIRECTORY, 6 * ENTRY) == 0);
    CHECK(memcmp(written, s, 4096) == 0);
    header.is_long = false, header.segment_size = 128;
    rs_header_write(&header, written);
    CHECK_OK(rs_header_read(rs_slice_of(written, 128), NULL, &header, &err), &err);
    CHECK(!header.is_long && memcmp(written + 128, s + 128, 4096 - 128) == 0);
    rs_buffer_clear(&out);
    free(s);
}

/* Without limits, the size of the segment bounds the declared maxima (rule 43). With limits, they stay as declared. */
TEST(test_bounds_by_segment_size) {
    const rs_limits limits = {UINT64_C(1) << 40, UINT64_C(1) << 41};
    uint8_t *s = make_segment();
    rs_header header;
    REQUIRE_OK(rs_header_read(rs_slice_of(s, SIZE), NULL, &header, &err), &err);
    CHECK(header.max_values == 1 && header.max_bytes == 1);
    CHECK_U64(header.most_values, 64 * SIZE);
    CHECK_U64(header.most_bytes, 1024 * SIZE);
    put(s + 88, 64 * SIZE, 8), put(s + 96, 1024 * SIZE, 8), seal(s, SEAL);
    REQUIRE_OK(rs_header_read(rs_slice_of(s, SIZE), NULL, &header, &err), &err);
    CHECK(header.max_values == 64 * SIZE && header.max_bytes == 1024 * SIZE);
    put(s + 88, 64 * SIZE + 1, 8), put(s + 96, 1024 * SIZE + 1, 8), seal(s, SEAL);
    REQUIRE_OK(rs_header_read(rs_slice_of(s, SIZE), NULL, &header, &err), &err);
    CHECK(header.max_values == 64 * SIZE && header.max_bytes == 1024 * SIZE);
    REQUIRE_OK(rs_header_read(rs_slice_of(s, SIZE), &limits, &header, &err), &err);
    CHECK(header.max_values == 64 * SIZE + 1 && header.max_bytes == 1024 * SIZE + 1);
    CHECK(header.most_values == UINT64_MAX && header.most_bytes == UINT64_MAX);
    free(s);
    CHECK_U64(rs_header_least_size(0, 0), 1);
    CHECK_U64(rs_header_least_size(64000, 1024), 1001);
    CHECK_U64(rs_header_least_size(64, 1024000), 1001);
}

/* Rule 12: there are at most as many blocks as records. Without a heap there is room for a second block. */
TEST(test_more_blocks_than_records) {
    uint8_t *s = make_segment();
    uint8_t *blocks = s + DIRECTORY + 3 * ENTRY;
    put(s + DIRECTORY + 16, 0, 8), put(s + DIRECTORY + ENTRY + 8, HEAP, 8), put(s + DIRECTORY + 2 * ENTRY + 8, HEAP, 8);
    put(blocks + 8, GROUPS, 8), put(blocks + 16, 160, 8), put(blocks + 24, 2, 8);
    seal(s, SEAL);
    CHECK_CODE(read_both(s, SIZE, NULL), RS_E_FMT_BLOCK, &err);
    CHECK_U64(err.offset, RS_FMT_H_N_RECORDS);
    put(s + 80, 2, 8), seal(s, SEAL);
    CHECK_OK(read_both(s, SIZE, NULL), &err);
    free(s);
}
