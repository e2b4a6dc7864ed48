/* test_store.c: stores: round trips over one or more blocks, refused records, rules 13, 14 and 17. */
#include "rs_built.h"
#include "rs_raw.h"
#include "verify/rs_verify.h"
#include "write/rs_builder.h"
#include "verify/rs_check.h"

static rs_error err;

/* ---- Round trips ---- */

static bool same_record(rs_store *store, uint64_t i, built_record record) {
    rs_buffer expected = {0}, arrays = {0}, got = {0};
    bool ok = CHECK_OK(raw_record(store, i, &got, &err), &err);
    if (ok) {
        record(i, &expected, &arrays);
        ok = CHECK(got.size_bytes == expected.size_bytes);
        /* The position of an array outside, in the last one or two bytes, depends on the block. */
        ok = ok && CHECK(memcmp(got.data, expected.data, got.size_bytes - (arrays.size_bytes > 0 ? 2 : 0)) == 0);
    }
    rs_buffer_clear(&expected);
    rs_buffer_clear(&arrays);
    rs_buffer_clear(&got);
    if (!ok) (void)fprintf(stderr, "    record %llu\n", (unsigned long long)i);
    return ok;
}

enum { ANY_TREES = 1 << 20 }; /* at least one if there are records */

/* Builds a store, checks its number of blocks and trees, and reads all records from last to first, then in order. */
static void check_store(built_record record, uint64_t n, bool compress, uint64_t blocks, uint64_t trees) {
    built b = build(record, n, compress);
    rs_store store;
    REQUIRE(b.data != NULL);
    CHECK_OK(rs_verify_segment(built_slice(&b), NULL, NULL, &err), &err);
    if (CHECK_OK(rs_store_open(&store, built_slice(&b), NULL, &err), &err)) {
        CHECK_U64(store.header.n_records, n);
        CHECK_U64(store.n_blocks, blocks);
        CHECK(trees == ANY_TREES ? store.n_trees >= (blocks > 0) : store.n_trees == trees);
        for (uint64_t i = n; i-- > 0 && same_record(&store, i, record);) {
        }
        for (uint64_t i = 0; i < n && same_record(&store, i, record); i++) {
        }
        rs_store_close(&store);
    }
    built_clear(&b);
}

RECORD(add_none) { make_tag(raw, 0); }

RECORD(add_row) {
    char text[24];
    (void)snprintf(text, sizeof text, "name %llu", (unsigned long long)i);
    make_head(raw, 0x0F, 3);
    make_str(raw, "id"), make_int(raw, (int64_t)i), make_str(raw, "name"), make_str(raw, text);
    make_str(raw, "tags"), make_head(raw, 0x0D, i % 3);
    for (i %= 3; i > 0; i--) make_tag(raw, 2);
}

RECORD(add_random) {
    make_state = i * 2654435761u + 1;
    make_random_value(raw, 4);
}

TEST(test_counts) {
    static const uint64_t counts[] = {0, 1, 64, 65, 1000};
    static const built_record records[] = {add_none, add_row, add_random};
    EACH (i, counts) {
        for (size_t k = 0; k < 3; k++) {
            const uint64_t blocks = counts[i] > 0;
            check_store(records[k], counts[i], true, blocks, ANY_TREES); /* tables have trees */
            check_store(records[k], counts[i], false, blocks, blocks);
        }
    }
}

TEST(test_many_records) {
    check_store(add_row, 65536, true, 1, ANY_TREES);
    check_store(add_none, 2 * 65536 + 1, true, 3, 1); /* the blocks share one tree */
}

/* A block closes as soon as it passes 16 MiB: after 101, 102 and 113 records, and after 116, because the last two have
 * 9 MiB each. The second group lies in five blocks. */
RECORD(add_uneven) {
    if (i == 100 || i == 101 || i == 112) {
        make_units(raw, 0x0C, (17 << 20) + (size_t)i, 1, 0xAB);
    } else if (i == 114 || i == 115) {
        make_units(raw, 0x0C, 9 << 20, 1, 0xCD);
    } else {
        add_row(i, raw, arrays);
    }
}

TEST(test_split_groups) {
    check_store(add_uneven, 300, true, 5, ANY_TREES);
    check_store(add_uneven, 300, false, 5, ANY_TREES);
    check_store(add_uneven, 116, true, 4, ANY_TREES); /* nothing after a block that was just closed */
}

/* The 41st record of 200 KiB passes 8 MiB within a group, and each block ends with its group. */
RECORD(add_large) { make_units(raw, 0x09, (200 << 10) + (size_t)(i % 7), 1, 'L'); }

TEST(test_blocks_end_with_groups) { check_store(add_large, 200, true, 4, ANY_TREES); }

RECORD(add_with_array) {
    uint64_t n = i % 3 == 0 ? 100 : 600 + i % 40;
    size_t pad = (size_t)(rs_align_up(arrays->size_bytes, 64) - arrays->size_bytes);
    if (n >= 512 && rs_buffer_append_zeros(arrays, pad, NULL) != RS_OK) abort();
    make_array(raw, n, arrays->size_bytes);
    if (n >= 512 && rs_buffer_append_zeros(arrays, 2 * (size_t)n, NULL) != RS_OK) abort();
}

TEST(test_arrays_outside) {
    built b = build(add_with_array, 200, true);
    rs_store store;
    rs_record found;
    REQUIRE(b.data != NULL);
    CHECK_OK(rs_verify_segment(built_slice(&b), NULL, NULL, &err), &err);
    REQUIRE_OK(rs_store_open(&store, built_slice(&b), NULL, &err), &err);
    for (uint64_t i = 0; i < 200; i++) {
        REQUIRE_OK(rs_store_find(&store, i, &found, &err), &err);
        rs_cursor cursor = rs_store_cursor(&store, &found);
        CHECK_OK(rs_check_record(&cursor, found.tree, NULL, &err), &err);
        CHECK(((uintptr_t)cursor.arrays - (uintptr_t)b.data) % 64 == 0);
    }
    CHECK(found.block->arrays_size_bytes > 100000);
    rs_store_close(&store);
    built_clear(&b);
}

/* ---- The maxima of the header ---- */

/* {(i, (0,)): [None]}: a tuple within a tuple as key, which counts like any container. */
RECORD(add_tuple_key) {
    make_head(raw, 0x0F, 1);
    make_head(raw, 0x0E, 2), make_int(raw, (int64_t)i), make_head(raw, 0x0E, 1), make_int(raw, 0);
    make_head(raw, 0x0D, 1), make_tag(raw, 0);
}

TEST(test_header_maxima) {
    for (unsigned compress = 0; compress < 2; compress++) {
        built b = build(add_tuple_key, 100, compress == 1);
        rs_header header;
        REQUIRE(b.data != NULL);
        REQUIRE_OK(rs_header_read(built_slice(&b), NULL, &header, &err), &err);
        CHECK_U64(header.max_depth, 3);
        CHECK_U64(header.max_values, 1 + 1 + 2 + 1 + 1);
        CHECK_U64(header.max_bytes, 2 + 3 + 3 + 3);
        CHECK_U64(header.raw_size, 100 * 11);
        CHECK_U64(header.segment_size, b.size);
        built_clear(&b);
        check_store(add_tuple_key, 100, compress == 1, 1, ANY_TREES);
    }
}

/* If the header declares one value or one level less, the record is refused (rule 23). */
TEST(test_header_maxima_hold) {
    built b = build(add_tuple_key, 3, false);
    rs_store store;
    rs_record found;
    REQUIRE(b.data != NULL);
    REQUIRE_OK(rs_store_open(&store, built_slice(&b), NULL, &err), &err);
    REQUIRE_OK(rs_store_find(&store, 2, &found, &err), &err);
    store.header.max_values--;
    rs_cursor cursor = rs_store_cursor(&store, &found);
    CHECK_CODE(rs_check_record(&cursor, found.tree, NULL, &err), RS_E_FMT_LIMIT, &err);
    store.header.max_values++, store.header.max_depth--;
    cursor = rs_store_cursor(&store, &found);
    CHECK_CODE(rs_check_record(&cursor, found.tree, NULL, &err), RS_E_FMT_LIMIT, &err);
    rs_store_close(&store);
    built_clear(&b);
}

/* ---- features_required has exactly the bits that the records need ---- */

RECORD(add_plain_array) { make_array(raw, 2, 0); }

RECORD(add_ext) { make_head(raw, 0x0D, 1), make_ext(raw, 25, "P"), make_head(raw, 0x0E, 1), make_int(raw, (int64_t)i); }

RECORD(add_struct_array) {
    static const uint8_t head[] = {0x10, 2, 20, 2, 0, 1, 1, 'a', 0, 3, 0};
    uint16_t data = (uint16_t)i;
    make_bytes(raw, head, sizeof head), make_bytes(raw, &data, 2);
}

RECORD(add_narrow_array) {
    const uint8_t value[] = {0x10, 8 << RS_FMT_ARRAY_WIDTH_SHIFT, 4, 1, 2, 0, 0, 0, 0, (uint8_t)i, 7};
    make_bytes(raw, value, sizeof value);
}

RECORD(add_longdouble_in_ext) {
    static const uint8_t value[] = {0x11, 29, 0, 0x10, 0, 21, 1, 0};
    make_bytes(raw, value, sizeof value);
}

TEST(test_features) {
    static const built_record records[] = {add_row,          add_plain_array,       add_ext,
                                           add_struct_array, add_longdouble_in_ext, add_narrow_array};
    static const uint64_t features[] = {0, 0, 1, 4, 5, RS_FMT_FEATURE_NARROW};
    static const uint64_t node_features[] = {RS_FMT_FEATURE_TEXT, 0, 0, 0, 0, 0}; /* if compressed, also these */
    EACH (i, features) {
        for (unsigned compress = 0; compress < 2; compress++) {
            built b = build(records[i], 100, compress != 0);
            REQUIRE(b.data != NULL);
            CHECK_U64(rs_load_u64(b.data + 16), features[i] | (compress != 0 ? node_features[i] : 0));
            built_clear(&b);
            check_store(records[i], 100, compress != 0, 1, 1);
        }
    }
}

/* [None, deque([None, deque(...)])]: a list, a union and an ext for each level. From 134 on the tree would pass 400
 * levels, and the block falls back to `any`, with 6 bytes for each level. */
static uint64_t deep_levels;

RECORD(add_deep) {
    make_head(raw, 0x0D, 2);
    for (uint64_t k = 1; k < deep_levels; k++) make_tag(raw, 0), make_ext(raw, 12, NULL), make_head(raw, 0x0D, 2);
    make_tag(raw, 0), make_int(raw, (int64_t)i);
}

TEST(test_trees_too_deep) {
    for (deep_levels = 130; deep_levels <= 200; deep_levels += deep_levels < 138 ? 1 : 31) {
        built b = build(add_deep, 1000, true);
        built_layout layout;
        REQUIRE(b.data != NULL);
        built_read(&b, &layout);
        CHECK(layout.blocks[0].heap_size_bytes < 1000 * 3 * deep_levels || deep_levels > 132);
        CHECK(layout.blocks[0].heap_size_bytes > 1000 * 5 * deep_levels || deep_levels < 136);
        built_clear(&b);
        check_store(add_deep, 300, true, 1, 1);
    }
}

/* ---- The builder's states ---- */

static void refuse(rs_builder *b, const void *bytes, size_t n, rs_status code) {
    size_t before = b->raw.size_bytes, key_sets = b->scan.n_key_sets;
    make_bytes(&b->raw, bytes, n);
    CHECK_CODE(rs_builder_end_record(b, &err), code, &err);
    CHECK_U64(err.record, b->n_records);
    CHECK(b->raw.size_bytes == before && b->scan.n_key_sets == key_sets);
    CHECK(b->scan.features == 0 && b->scan.max_depth <= 2);
}

TEST(test_refused_records) {
    static const uint8_t later[] = {0x12}, cut[] = {0x0D, 2, 0x90}, two[] = {0x90, 0x90};
    static const uint8_t dicts[] = {0x0F, 1, 0x90, 0x0F, 1, 0x90, 0x12};
    static const uint8_t list_key[] = {0x0F, 1, 0x0D, 0, 0x90}, dict_in_key[] = {0x0F, 1, 0x0E, 1, 0x0F, 0, 0x90};
    static const uint8_t ext_cut[] = {0x0D, 1, 0x0D, 1, 0x0D, 2, 0x11, 7, 0, 0},
                         dict_in_ext_key[] = {0x0F, 1, 0x11, 4, 0, 0x0F, 0, 0x90};
    rs_segment_writer writer;
    rs_builder builder;
    rs_segment segment;
    rs_store store;
    REQUIRE_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    REQUIRE_OK(rs_builder_open(&builder, &writer, NULL, &err), &err);
    for (uint64_t i = 0; i < 100; i++) {
        add_row(i, &builder.raw, &builder.arrays);
        REQUIRE_OK(rs_builder_end_record(&builder, &err), &err);
        refuse(&builder, later, sizeof later, RS_E_FMT_VERSION);
        refuse(&builder, cut, sizeof cut, RS_E_FMT_TRUNCATED);
        refuse(&builder, two, sizeof two, RS_E_FMT_TRAILING);
        refuse(&builder, dicts, sizeof dicts, RS_E_FMT_VERSION);
        refuse(&builder, list_key, sizeof list_key, RS_E_FMT_VALUE);
        refuse(&builder, dict_in_key, sizeof dict_in_key, RS_E_FMT_VALUE);
        refuse(&builder, ext_cut, sizeof ext_cut, RS_E_FMT_TRUNCATED);
        refuse(&builder, dict_in_ext_key, sizeof dict_in_ext_key, RS_E_FMT_VALUE);
        make_tag(&builder.raw, 0);
        rs_builder_drop_record(&builder, builder.arrays.size_bytes);
    }
    REQUIRE_OK(rs_builder_finish(&builder, &err), &err);
    CHECK_CODE(rs_builder_finish(&builder, &err), RS_E_STATE_FINISHED, &err);
    make_tag(&builder.raw, 0);
    CHECK_CODE(rs_builder_end_record(&builder, &err), RS_E_STATE_FINISHED, &err);
    rs_builder_close(&builder);
    rs_builder_close(&builder);
    REQUIRE_OK(rs_segment_writer_finish(&writer, &segment, &err), &err);
    CHECK_OK(rs_verify_segment(rs_slice_of(segment.data, segment.size_bytes), NULL, NULL, &err), &err);
    REQUIRE_OK(rs_store_open(&store, rs_slice_of(segment.data, segment.size_bytes), NULL, &err), &err);
    CHECK_U64(store.header.n_records, 100);
    for (uint64_t i = 0; i < 100 && same_record(&store, i, add_row); i++) {
    }
    rs_store_close(&store);
    rs_segment_close(&segment);
}

/* ---- Changed stores with matching checksums: the errors of rs_store_find ---- */

static rs_status find_with(built *b, uint64_t index, bool frozen) {
    rs_store store;
    rs_record found;
    rs_status status = rs_store_open(&store, built_slice(b), NULL, &err);
    if (status != RS_OK) return status;
    if (frozen) CHECK_OK(rs_store_freeze(&store, &err), &err);
    status = rs_store_find(&store, index, &found, &err);
    rs_store_close(&store);
    return status;
}

static rs_status find_in(built *b, uint64_t index) { return find_with(b, index, false); }

/* A frozen store reads like any other and reports all damage, but loads nothing more. */
TEST(test_frozen) {
    built c = build(add_uneven, 300, true);
    built_layout layout;
    rs_store store;
    rs_record found;
    REQUIRE(c.data != NULL);
    built_read(&c, &layout);
    REQUIRE_OK(rs_store_open(&store, built_slice(&c), NULL, &err), &err);
    CHECK_OK(rs_store_freeze(&store, &err), &err);
    for (uint64_t i = 0; i < store.n_blocks; i++) CHECK(store.blocks[i].n_records > 0);
    for (uint64_t i = 0; i < store.n_tables; i++) CHECK(store.tables[i].kind != 0);
    for (uint64_t i = 0; i < 300 && same_record(&store, i, add_uneven); i++) {
    }
    CHECK_OK(rs_store_freeze(&store, &err), &err);
    rs_store_close(&store);
    /* Two damaged blocks: the first gives its own error, the second a general one. */
    for (uint64_t i = 1; i < 3; i++)
        memset(built_section(&c, &layout, RS_FMT_SECTION_BLOCKS) + i * RS_FMT_BLOCK_SIZE + 46, 1, 1);
    built_seal(&c, &layout);
    REQUIRE_OK(rs_store_open(&store, built_slice(&c), NULL, &err), &err);
    CHECK_OK(rs_store_freeze(&store, &err), &err);
    CHECK(store.damaged == 1);
    CHECK_OK(rs_store_find(&store, 0, &found, &err), &err);
    CHECK_CODE(rs_store_find(&store, layout.blocks[1].first_record, &found, &err), RS_E_FMT_RESERVED, &err);
    CHECK_CODE(rs_store_load_block(&store, 2, &err), RS_E_FMT_BLOCK, &err);
    CHECK_OK(rs_store_load_block(&store, 3, &err), &err);
    rs_store_close(&store);
    built_clear(&c);
}

/* Copies the chunks of a range of bytes from the whole segment. */
static void fetch(const built *whole, built *part, uint8_t *present, uint64_t off, uint64_t size) {
    for (uint64_t chunk = off / RS_STORE_CHUNK; size > 0 && chunk <= (off + size - 1) / RS_STORE_CHUNK; chunk++) {
        const size_t begin = (size_t)chunk * RS_STORE_CHUNK, left = whole->size - begin;
        memcpy(part->data + begin, whole->data + begin, left < RS_STORE_CHUNK ? left : RS_STORE_CHUNK);
        present[chunk] = 1;
    }
}

/* Reads some records of a segment that is still being fetched, and then loads its blocks. */
static void check_absent(built_record record, uint64_t n, bool compress) {
    built whole = build(record, n, compress), part = {0};
    built_layout layout;
    rs_store store, expected;
    REQUIRE(whole.data != NULL);
    built_read(&whole, &layout);
    part.data = (uint8_t *)malloc(whole.size), part.size = whole.size;
    uint8_t *present = (uint8_t *)calloc(whole.size / RS_STORE_CHUNK + 1, 1);
    REQUIRE(part.data != NULL && present != NULL);
    memset(part.data, 0xA5, part.size);
    fetch(&whole, &part, present, 0, RS_FMT_HEADER_SIZE);
    fetch(&whole, &part, present, layout.header.directory_off, whole.size - layout.header.directory_off);
    for (unsigned kind = RS_FMT_SECTION_GROUPS; kind <= RS_FMT_SECTION_TABLES; kind++) {
        fetch(&whole, &part, present, layout.directory.sections[kind].off, layout.directory.sections[kind].size_bytes);
    }
    REQUIRE_OK(rs_store_open(&expected, built_slice(&whole), NULL, &err), &err);
    REQUIRE_OK(rs_store_open(&store, built_slice(&part), NULL, &err), &err);
    REQUIRE_OK(rs_store_set_present(&store, present, &err), &err);
    unsigned n_absent = 0;
    for (uint64_t i = 0; i < n; i += n / 9) {
        rs_record got, right;
        REQUIRE_OK(rs_store_find(&expected, i, &right, &err), &err);
        while (rs_store_find(&store, i, &got, &err) == RS_E_STATE_ABSENT) {
            fetch(&whole, &part, present, err.offset, err.needed);
            n_absent++;
        }
        CHECK(got.local == right.local && rs_slice_left(&got.bytes) == rs_slice_left(&right.bytes));
        CHECK(memcmp(got.bytes.ptr, right.bytes.ptr, rs_slice_left(&right.bytes)) == 0);
    }
    CHECK(n_absent > 1 && memchr(present, 0, part.size / RS_STORE_CHUNK) != NULL);
    for (uint64_t i = 0; i < store.n_blocks; i++) {
        while (rs_store_load_block(&store, i, &err) == RS_E_STATE_ABSENT) {
            fetch(&whole, &part, present, err.offset, err.needed);
        }
        CHECK_OK(rs_store_load_block(&store, i, &err), &err);
    }
    CHECK(memcmp(part.data + layout.blocks[0].heap_off, whole.data + layout.blocks[0].heap_off,
                 (size_t)layout.blocks[0].heap_size_bytes) == 0);
    rs_store_close(&store);
    /* A block that is loaded as a whole has its checksum checked. */
    part.data[layout.blocks[0].heap_off] ^= 1;
    REQUIRE_OK(rs_store_open(&store, built_slice(&part), NULL, &err), &err);
    REQUIRE_OK(rs_store_set_present(&store, present, &err), &err);
    CHECK_CODE(rs_store_load_block(&store, 0, &err), RS_E_FMT_CHECKSUM, &err);
    rs_store_close(&store);
    rs_store_close(&expected);
    free(present);
    built_clear(&part);
    built_clear(&whole);
}

TEST(test_absent_bytes) {
    check_absent(add_row, 60000, false);
    check_absent(add_large, 40, false);
    check_absent(add_with_array, 2000, true);
}

TEST(test_broken_tables) {
    static const struct {
        unsigned section, at, width;
        uint64_t value;
        rs_status code;
    } cases[] = {
        {3, 4, 4, 2, RS_E_FMT_BLOCK}, /* rule 13: no such block */
        {3, 4, 4, UINT32_MAX, RS_E_FMT_BLOCK},
        {3, 4, 4, 1, RS_E_FMT_BLOCK}, /* a block beyond the record */
        {3, 4, 4, 0, RS_OK},
        {4, 0, 8, 65, RS_E_FMT_BLOCK}, /* the block begins after its first record */
        {4, 0, 8, 101, RS_E_FMT_BLOCK},
        {4, 8, 4, 64, RS_E_FMT_BLOCK},    /* and ends before the requested record */
        {4, 12, 4, 1000, RS_E_FMT_BLOCK}, /* rule 14 */
        {4, 45, 1, 1, RS_E_FMT_BLOCK},    /* bits of an index that the block lacks */
        {4, 46, 1, 1, RS_E_FMT_RESERVED},
        {6, 0, 8, 4, RS_E_FMT_TREE}, /* not 8-aligned */
        {6, 0, 8, UINT64_C(1) << 40, RS_E_FMT_TREE},
        {6, 8, 4, UINT32_MAX, RS_E_FMT_TREE},
        {6, 8, 4, 0, RS_E_FMT_TREE},
        {5, 0, 4, 0, RS_E_FMT_TREE},     /* a tree without nodes */
        {5, 8, 1, 23, RS_E_FMT_VERSION}, /* a root of a later kind */
    };
    built c = build(add_uneven, 103, true);
    built_layout layout;
    REQUIRE(c.data != NULL);
    built_read(&c, &layout);
    CHECK(layout.n_blocks == 3 && layout.blocks[1].first_record == 101);
    EACH (i, cases) {
        uint8_t *at = built_section(&c, &layout, cases[i].section) + cases[i].at, was[8];
        memcpy(was, at, cases[i].width), memcpy(at, &cases[i].value, cases[i].width);
        built_seal(&c, &layout);
        CHECK_CODE(find_in(&c, 64), cases[i].code, &err);
        CHECK_CODE(find_with(&c, 64, true), cases[i].code, &err);
        memcpy(at, was, cases[i].width);
    }
    built_seal(&c, &layout);
    CHECK_OK(find_in(&c, 64), &err);
    built_section(&c, &layout, RS_FMT_SECTION_TREE_TABLE)[12] ^= 1; /* rule 17: the tree's own checksum */
    CHECK_CODE(find_in(&c, 64), RS_E_FMT_CHECKSUM, &err);
    built_clear(&c);
}
