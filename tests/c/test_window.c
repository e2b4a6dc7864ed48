/* test_window.c: windows against single lookups; damaged offsets; the order and reach of the paths of a tree. */
#include "rs_columns.h"
#include "rs_sources.h"

enum { N = 2000 };

static const char *const keys[] = {"odd", "ring", "id", "score"};
static rs_error err;
static sources s;

static void open_all(const built *b) {
    if (!CHECK_OK(sources_open(&s, built_slice(b), keys, 4, &err), &err)) abort();
}

/* Locates n records in windows, and compares each with the result of rs_store_find. */
static void check_window(const int64_t *positions, int64_t start, int64_t step, uint64_t n) {
    static rs_window window;
    rs_window_stop stop;
    uint64_t done = 0;
    while (done < n) {
        if (!CHECK_OK(rs_window_locate(&window, &s.source, positions, start, step, done, n, &stop, &err), &err)) return;
        if (window.n == 0) {
            if (!CHECK(stop.block != RS_NOWHERE && s.by_block[stop.block] == NULL)) return;
            if (!CHECK_OK(sources_load_block(&s, stop.block, &err), &err)) return;
            continue;
        }
        CHECK(window.n <= RS_WINDOW_RECORDS && window.n <= n - done);
        for (uint64_t i = 0; i < window.n; i++) {
            const uint64_t index = rs_window_index_at(positions, start, step, done + i);
            rs_record record;
            if (!CHECK_OK(rs_store_find(&s.store, index, &record, &err), &err)) return;
            if (!CHECK(rs_window_index(&window, i) == index && window.records[i].ptr == record.bytes.ptr &&
                       window.records[i].end == record.bytes.end && window.blocks[i] == record.block &&
                       window.paths[i] == s.by_block[record.block - s.store.blocks])) {
                return;
            }
        }
        done += window.n;
    }
}

TEST(test_records) {
    static int64_t positions[3000];
    built b = build(columns_record, N, true);
    REQUIRE(b.data != NULL);
    for (uint64_t k = 0; k < 3000; k++) positions[k] = (int64_t)make_random(N);
    open_all(&b), check_window(positions, 0, 1, 3000), sources_close(&s);
    open_all(&b), check_window(NULL, 0, 1, N), sources_close(&s);
    open_all(&b), check_window(NULL, N - 1, -1, N), sources_close(&s);
    open_all(&b), check_window(NULL, 3, 17, 100), sources_close(&s);
    for (uint64_t k = 0; k < 3000; k++) positions[k] /= 2;
    open_all(&b), check_window(positions, 1, 2, 3000), sources_close(&s);
    built_clear(&b);
}

TEST(test_positions_without_records) {
    static const int64_t wrong[] = {N, N + 1, -1, INT64_MIN, INT64_MAX};
    static rs_window window;
    built b = build(columns_record, N, true);
    rs_window_stop stop;
    int64_t positions[] = {5, 6, 0, 7};
    REQUIRE(b.data != NULL);
    open_all(&b);
    CHECK_OK(sources_load_block(&s, 0, &err), &err);
    for (unsigned i = 0; i < 5; i++) {
        positions[2] = wrong[i];
        CHECK_OK(rs_window_locate(&window, &s.source, positions, 0, 1, 0, 4, &stop, &err), &err);
        CHECK_U64(window.n, 2);
        CHECK_CODE(rs_window_locate(&window, &s.source, positions, 0, 1, 2, 4, &stop, &err), RS_E_ARG_RANGE, &err);
        CHECK(window.n == 0 && stop.block == RS_NOWHERE);
        CHECK_U64(stop.index, (uint64_t)wrong[i]);
    }
    CHECK_OK(rs_window_locate(&window, &s.source, positions, 0, 1, 2, 2, &stop, &err), &err);
    CHECK_U64(window.n, 0);
    sources_close(&s);
    built_clear(&b);
}

/* Bytes of offsets or groups change at random. Each located record must be within its block. */
TEST(test_damaged_offsets) {
    static rs_window window;
    built sound = build(columns_record, 300, true), b;
    built_layout layout;
    unsigned failed = 0;
    REQUIRE(sound.data != NULL);
    built_read(&sound, &layout);
    for (unsigned round = 0; round < 300; round++) {
        rs_window_stop stop;
        b.data = make_exact(sound.data, sound.size), b.size = sound.size;
        for (unsigned k = 0; k < 4; k++) {
            const rs_section *section =
                &layout.directory.sections[round % 2 == 0 ? RS_FMT_SECTION_OFFSETS : RS_FMT_SECTION_GROUPS];
            b.data[section->off + make_random(section->size_bytes)] = (uint8_t)make_random(256);
        }
        if (sources_open(&s, built_slice(&b), keys, 4, &err) != RS_OK) {
            built_clear(&b);
            continue;
        }
        for (uint64_t i = 0; i < s.store.n_blocks; i++) (void)sources_load_block(&s, i, &err);
        for (uint64_t done = 0; done < 300; done += window.n) {
            if (rs_window_locate(&window, &s.source, NULL, 0, 1, done, 300, &stop, &err) != RS_OK || window.n == 0) {
                failed++;
                break;
            }
            for (uint64_t i = 0; i < window.n; i++) {
                const rs_block *block = window.blocks[i];
                const uint8_t *heap = b.data + block->heap_off;
                CHECK(window.records[i].ptr >= heap && window.records[i].ptr <= window.records[i].end &&
                      window.records[i].end <= heap + block->heap_size_bytes);
            }
        }
        sources_close(&s);
        built_clear(&b);
    }
    CHECK(failed > 10);
    built_clear(&sound);
}

TEST(test_order_and_reach) {
    built b = build(columns_record, N, true);
    REQUIRE(b.data != NULL);
    open_all(&b);
    REQUIRE_OK(sources_load_block(&s, 0, &err), &err);
    const rs_tree_paths *paths = s.by_block[0];
    CHECK(paths->n == 4 && paths->n_fixed > 0 && paths->n_fixed < 4 && paths->reach == UINT64_MAX);
    for (uint32_t k = 0; k < 4; k++) {
        CHECK(rs_compiled_path_is_fixed(paths->of_field[paths->order[k]]) == (k < paths->n_fixed));
        if (k > paths->n_fixed) {
            const rs_compiled_path *before = paths->of_field[paths->order[k - 1]];
            const rs_compiled_path *after = paths->of_field[paths->order[k]];
            CHECK(before->row != after->row || before->n_before < after->n_before);
        }
    }
    sources_close(&s);
    CHECK_OK(sources_open(&s, built_slice(&b), keys + 2, 1, &err), &err); /* "id" alone */
    CHECK_OK(sources_load_block(&s, 0, &err), &err);
    paths = s.by_block[0];
    CHECK(paths->n_fixed == 1 && paths->from < paths->reach && paths->reach <= paths->of_field[0]->least);
    sources_close(&s);
    built_clear(&b);
}
