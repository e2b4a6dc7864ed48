/* test_verify.c: the deep check of a small segment with many features: flips, cuts, and sealed changes. */
#define RS_TEST_MAIN
#include "verify/rs_verify.h"
#include "rs_built.h"
#include "rs_stops.h"
#include "write/rs_builder.h"

static rs_error err;
static built small;
static built_layout layout;

enum { N_RECORDS = 605 };

/* The test closes the blocks itself: one has offset groups, one rows of one size, one arrays, one objects, one tables.
 * Each record of the first block ends with a list, whose count gives its end. */
RECORD(add) {
    static const char *const names[] = {"x", "yy", "zzz"};
    if (i < 70) {
        make_head(raw, 0x0F, 5);
        make_str(raw, "id"), make_int(raw, (int64_t)i), make_str(raw, "name"), make_str(raw, names[i % 3]);
        make_str(raw, "score"), (i % 2 == 0 ? make_tag(raw, 0) : make_float(raw, (double)i));
        make_str(raw, "flags"), make_head(raw, 0x0E, 2), make_tag(raw, 1 + i % 2), make_tag(raw, 2);
        make_str(raw, "more"), make_head(raw, 0x0D, i % 3);
        for (i %= 3; i > 0; i--) make_tag(raw, 1);
    } else if (i < 300) {
        make_int(raw, (int64_t)(i * i));
    } else if (i < 305) {
        make_array(raw, i < 303 ? 5 : 512, arrays->size_bytes);
        if (i >= 303 && rs_buffer_append_zeros(arrays, 1024, NULL) != RS_OK) abort();
    } else if (i >= 405) { /* entries of a table, codes of symbols, parts */
        char text[64];
        make_head(raw, 0x0E, 3);
        (void)snprintf(text, sizeof text, "the %s word of %s and %s", names[i % 3], names[i / 3 % 3], names[i / 9 % 3]);
        make_str(raw, text);
        (void)snprintf(text, sizeof text, "%s tells a %s tale of %llu times", i % 2 ? "nobody" : "somebody",
                       i % 7 ? "rather long" : "short", (unsigned long long)(i * i * 7919 % 10007));
        make_str(raw, text + i % 4);
        (void)snprintf(text, sizeof text, "img_%04llu.jpeg", (unsigned long long)(i * 37 % 9973));
        make_str(raw, text);
    } else if (i % 4 == 0) { /* a struct scalar */
        make_bytes(raw, "\x10\2\x14\2\0\1\1a\0\3\0", 11), make_bytes(raw, &i, 2);
    } else { /* objects of two classes, and within one a set, a dict */
        make_ext(raw, 25, names[i % 2]), make_head(raw, 0x0E, 2), make_int(raw, (int64_t)i);
        make_ext(raw, i % 2 == 0 ? 3 : 8, NULL), make_head(raw, i % 2 == 0 ? 0x0D : 0x0F, 1);
        if (i % 2 != 0) make_ext(raw, 13, NULL), make_int(raw, 9);
        make_str(raw, names[i % 3]);
    }
}

static bool is_last(uint64_t i) { return i == 69 || i == 299 || i == 304 || i == 404; }

static void make_small(void) {
    small = build_blocks(add, N_RECORDS, is_last, true);
    REQUIRE(small.data != NULL);
    built_read(&small, &layout);
    CHECK_U64(layout.n_blocks, 5);
    CHECK_U64(layout.header.features_required,
              (127 - 2) | RS_FMT_FEATURE_ENDS | RS_FMT_FEATURE_IN_BITS); /* the first seven except MAPPING */
    CHECK(layout.n_tables >= 2);
    CHECK(layout.blocks[0].index_width == RS_FMT_INDEX_LINES && layout.blocks[1].index_width == 0 &&
          layout.blocks[2].arrays_size_bytes == 2048);
    CHECK(layout.directory.sections[RS_FMT_SECTION_TREE_TABLE].count > 5); /* with the trees of tables */
    CHECK(layout.blocks[3].heap_size_bytes < 800 && layout.blocks[4].heap_size_bytes < 200 * 40); /* not raw */
    CHECK_OK(rs_verify_segment(rs_slice_of(small.data, small.size), NULL, NULL, &err), &err);
}

static bool within(uint64_t at, uint64_t off, uint64_t size) { return at >= off && at - off < size; }

/* Returns whether a checksum covers the byte. Other bytes are padding. */
static bool is_covered(uint64_t at) {
    if (at < RS_FMT_HEADER_SIZE || at >= layout.header.directory_off) return true;
    for (uint64_t i = 2; i <= RS_FMT_SECTION_TABLES; i++) {
        if (within(at, layout.directory.sections[i].off, layout.directory.sections[i].size_bytes)) return true;
    }
    for (uint64_t i = 0; i < layout.n_blocks; i++) {
        const rs_block *b = &layout.blocks[i];
        if (within(at, b->heap_off, b->heap_size_bytes) || within(at, b->arrays_off, b->arrays_size_bytes)) return true;
    }
    for (uint64_t i = 0; i < layout.n_tables; i++) {
        if (within(at, layout.tables[i].heap_off, layout.tables[i].heap_size_bytes)) return true;
    }
    return false;
}

static bool is_format_code(rs_status status) { return status >= RS_E_FMT_MAGIC && status <= RS_E_FMT_RESERVED; }

TEST(test_every_flip) {
    size_t padding = 0;
    for (size_t i = 0; i < small.size; i++) {
        uint8_t bit = (uint8_t)(1u << make_random(8));
        small.data[i] ^= bit;
        rs_status status = rs_verify_segment(built_slice(&small), NULL, NULL, &err);
        if (!is_covered(i)) padding++;
        if (!CHECK(is_covered(i) ? is_format_code(status) : status == RS_OK)) {
            (void)fprintf(stderr, "    byte %zu: %s\n", i, rs_status_name(status));
        }
        small.data[i] ^= bit;
    }
    CHECK(padding < 1000);
    CHECK_OK(rs_verify_segment(built_slice(&small), NULL, NULL, &err), &err);
}

TEST(test_every_cut) {
    for (size_t n = 0; n < small.size; n++) {
        uint8_t *exact = make_exact(small.data, n);
        CHECK_CODE(rs_verify_segment(rs_slice_of(exact, n), NULL, NULL, &err), RS_E_FMT_TRUNCATED, &err);
        free(exact);
    }
}

/* With changed bytes and matching checksums, only the rules protect the reader. */
TEST(test_sealed_changes) {
    built copy = {make_exact(small.data, small.size), small.size};
    uint64_t refused = 0;
    for (uint64_t round = 0; round < 6000; round++) {
        uint64_t n = 1 + make_random(3), at;
        for (uint64_t i = 0; i < n; i++) {
            /* Changes in the header's reserved bytes and in arrays have no effect. */
            do at = make_random(small.size);
            while (within(at, 120, 4) || within(at, layout.blocks[2].arrays_off, 2048));
            if (make_random(3) == 0) {
                copy.data[at] ^= (uint8_t)(1u << make_random(8));
            } else {
                copy.data[at] = (uint8_t)make_random(256);
            }
        }
        built_seal(&copy, &layout);
        rs_status status = rs_verify_segment(built_slice(&copy), NULL, NULL, &err);
        CHECK(status == RS_OK || is_format_code(status));
        refused += status != RS_OK;
        memcpy(copy.data, small.data, small.size);
    }
    CHECK(refused > 100);
    built_clear(&copy);
}

/* ---- Rules that only the deep check verifies ---- */

static rs_status verify_with(unsigned section, uint64_t at, uint64_t value, unsigned width) {
    built copy = {make_exact(small.data, small.size), small.size};
    memcpy((section == 0 ? copy.data : built_section(&copy, &layout, section)) + at, &value, width);
    built_seal(&copy, &layout);
    rs_status status = rs_verify_segment(built_slice(&copy), NULL, NULL, &err);
    built_clear(&copy);
    return status;
}

TEST(test_rule_16) {
    CHECK_CODE(verify_with(4, 80, 71, 8), RS_E_FMT_BLOCK, &err);       /* a gap before the second block */
    CHECK_CODE(verify_with(4, 80, 69, 8), RS_E_FMT_BLOCK, &err);       /* it overlaps the first */
    CHECK_CODE(verify_with(4, 320 + 8, 199, 4), RS_E_FMT_BLOCK, &err); /* the last holds too few */
    CHECK_CODE(verify_with(0, 80, N_RECORDS + 1, 8), RS_E_FMT_BLOCK, &err);
    CHECK_CODE(verify_with(0, 80, N_RECORDS - 1, 8), RS_E_FMT_BLOCK, &err);
}

/* Rule 44: the heap of the second block reaches to the end of all heaps. */
TEST(test_heaps_overlap) {
    const rs_section *heaps = &layout.directory.sections[RS_FMT_SECTION_HEAP];
    built copy = {make_exact(small.data, small.size), small.size};
    built_layout changed = layout;
    changed.blocks[1].heap_size_bytes = heaps->off + heaps->size_bytes - layout.blocks[1].heap_off;
    rs_store_u64(built_section(&copy, &layout, RS_FMT_SECTION_BLOCKS) + RS_FMT_BLOCK_SIZE + RS_FMT_B_HEAP_SIZE,
                 changed.blocks[1].heap_size_bytes);
    built_seal(&copy, &changed);
    CHECK_CODE(rs_verify_segment(built_slice(&copy), NULL, NULL, &err), RS_E_FMT_BLOCK, &err);
    built_clear(&copy);
}

/* GROUPS must lead to the record's own block, even if another block claims the record. */
TEST(test_group_of_another_block) {
    built copy = {make_exact(small.data, small.size), small.size};
    rs_store_u64(built_section(&copy, &layout, RS_FMT_SECTION_BLOCKS) + RS_FMT_BLOCK_SIZE + RS_FMT_B_FIRST_RECORD, 64);
    rs_store_u32(built_section(&copy, &layout, RS_FMT_SECTION_GROUPS) + 4, 1);
    built_seal(&copy, &layout);
    CHECK_CODE(rs_verify_segment(built_slice(&copy), NULL, NULL, &err), RS_E_FMT_BLOCK, &err);
    CHECK_U64(err.record, 64);
    built_clear(&copy);
}

TEST(test_records_at_fault) {
    const rs_block *b = &layout.blocks[0];
    const uint64_t heap = b->heap_off, at = 8 + b->index_bits; /* the low byte of the field of record 8 */
    const uint8_t low = small.data[layout.directory.sections[RS_FMT_SECTION_OFFSETS].off + at];
    REQUIRE(b->index_width == RS_FMT_INDEX_LINES && low > 0 && low < 255);
    /* The end of record 8, one byte earlier and one byte later: its last value then does not end with the record. */
    CHECK_CODE(verify_with(2, at, low - 1u, 1), RS_E_FMT_TRUNCATED, &err);
    CHECK_U64(err.record, 8);
    CHECK(err.offset >= heap && err.offset <= heap + b->heap_size_bytes);
    CHECK_CODE(verify_with(2, at, low + 1u, 1), RS_E_FMT_TRUNCATED, &err);
    CHECK_U64(err.record, 8);
    CHECK_CODE(verify_with(2, 0, UINT32_MAX, 4), RS_E_FMT_OFFSET, &err); /* the base */
    CHECK_U64(err.record, 0);
    CHECK_CODE(verify_with(0, 88, 1, 8), RS_E_FMT_LIMIT, &err); /* max_values */
    CHECK_U64(err.record, 0);
    CHECK_CODE(verify_with(0, 104, 1, 4), RS_E_FMT_LIMIT, &err); /* max_depth */
}

TEST(test_limits) {
    rs_limits limits = {layout.header.max_values, layout.header.max_bytes};
    CHECK_OK(rs_verify_segment(built_slice(&small), &limits, NULL, &err), &err);
    limits.max_values--;
    CHECK_CODE(rs_verify_segment(built_slice(&small), &limits, NULL, &err), RS_E_FMT_LIMIT, &err);
}

/* A long list, whose elements are counted one by one. */
RECORD(long_record) {
    make_head(raw, 0x0D, 5000);
    for (uint64_t k = 0; k < 5000; k++) make_tag(raw, (uint8_t)((i + k) % 3));
}

TEST(test_every_stop) {
    built lists = build(long_record, 3, true);
    uint64_t small_work = stops_everywhere(&small);
    CHECK(small_work > N_RECORDS + layout.blocks[2].arrays_size_bytes);
    REQUIRE(lists.data != NULL);
    uint64_t lists_work = stops_everywhere(&lists);
    CHECK(lists_work >= 15000);
    built_clear(&lists);
}

int main(void) {
    make_small();
    if (small.data != NULL && layout.n_blocks == 5) rs_test_run();
    return rs_test_finish();
}
