/* test_writer_failing.c: memory or space runs out at many steps of building, extending, checking and importing: the
 * error comes back and nothing leaks. The linker replaces rs_segment_writer_append (CMakeLists.txt). */
#include "rs_arrow_make.h"
#include "rs_built.h"
#include "rs_columns.h"
#include "rs_failing.h"
#include "rs_saved.h"
#include "verify/rs_verify.h"
#include "symbols/rs_symbols_match.h"
#include "write/rs_builder.h"
#include "arrow/rs_arrow_in.h"

static rs_error err;
static uint64_t appends, refuse_at;

void __real_rs_buffer_fit(rs_buffer *self);
rs_status __real_rs_segment_writer_append(rs_segment_writer *self, const void *data, size_t size, rs_error *e);
void __wrap_rs_buffer_fit(rs_buffer *self);
rs_status __wrap_rs_segment_writer_append(rs_segment_writer *self, const void *data, size_t size, rs_error *e);

/* A buffer that does not become smaller is not a failure. */
void __wrap_rs_buffer_fit(rs_buffer *self) {
    const bool was_counting = counting;
    counting = false;
    __real_rs_buffer_fit(self);
    counting = was_counting;
}
rs_status __wrap_rs_segment_writer_append(rs_segment_writer *self, const void *data, size_t size, rs_error *e) {
    bool was_counting = counting;
    if (counting && appends++ >= refuse_at) return rs_error_set(e, RS_E_SPACE, RS_NOWHERE, "no room, says the test");
    counting = false; /* it reads system files through the C library, whose allocations are not wrapped */
    rs_status status = __real_rs_segment_writer_append(self, data, size, e);
    counting = was_counting;
    return status;
}

enum { RECORDS = 2 * COLUMNS_PART + 50 };

static bool only_maps;

/* Adds dicts whose keys are data. They become maps because their key sets are too many for structs. */
static rs_status add_maps(rs_builder *builder) {
    char key[16];
    for (uint64_t i = 0; i < 300; i++) {
        counting = false;
        make_head(&builder->raw, 0x0F, 2);
        for (uint64_t k = 0; k < 2; k++) {
            (void)snprintf(key, sizeof key, "id%u", (unsigned)(2 * i + k));
            make_str(&builder->raw, key);
            make_head(&builder->raw, 0x0F, 1), make_str(&builder->raw, "n"), make_int(&builder->raw, (int64_t)(i * k));
        }
        counting = true;
        RS_TRY(rs_builder_end_record(builder, &err));
    }
    return rs_builder_finish(builder, &err);
}

static rs_status add_all(rs_builder *builder) {
    if (only_maps) return add_maps(builder);
    for (uint64_t i = 0; i < RECORDS; i++) {
        counting = false; /* appending records, as the binding does, is not tested here */
        columns_record(i, &builder->raw, &builder->arrays);
        counting = true;
        RS_TRY(rs_builder_end_record(builder, &err));
        if ((i + 1) % COLUMNS_PART == 0) RS_TRY(rs_builder_flush(builder, &err));
    }
    return rs_builder_finish(builder, &err);
}

/* Builds the store, and counts the builder's allocations except those that appending records makes. */
static rs_status build_once(built *out) {
    rs_segment_writer writer;
    rs_builder builder;
    rs_status status = rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err);
    if (status != RS_OK) return status;
    steps = appends = 0;
    live = 0;
    counting = true;
    status = rs_builder_open(&builder, &writer, NULL, &err);
    if (status == RS_OK) {
        status = rs_buffer_reserve(&builder.raw, 1 << 20, &err);
        if (status == RS_OK) status = add_all(&builder);
    }
    rs_builder_close(&builder);
    counting = false;
    CHECK_U64((uint64_t)live, 0);
    if (status == RS_OK) *out = built_finish(&writer);
    rs_segment_writer_abort(&writer);
    return status;
}

static uint64_t n_steps, n_appends;

TEST(test_without_failures) {
    built b = {NULL, 0};
    also_later = true;
    fail_at = refuse_at = UINT64_MAX;
    REQUIRE_OK(build_once(&b), &err);
    n_steps = steps, n_appends = appends;
    CHECK(n_steps > 200), CHECK(n_appends > 10);
    CHECK_U64(rs_load_u64(b.data + 16), RS_FMT_FEATURE_PACKED | RS_FMT_FEATURE_TABLES | RS_FMT_FEATURE_TEXT |
                                            RS_FMT_FEATURE_OPTIONAL | RS_FMT_FEATURE_PLACED | RS_FMT_FEATURE_ENDS);
    CHECK_OK(rs_verify_segment(built_slice(&b), NULL, NULL, &err), &err);
    built_clear(&b);
}

TEST(test_memory) {
    built b = {NULL, 0};
    refuse_at = UINT64_MAX;
    for (fail_at = 0; fail_at < n_steps; fail_at += 1 + fail_at / 40) {
        memset(&err, 0, sizeof err);
        if (!CHECK_CODE(build_once(&b), RS_E_MEM, &err) || !CHECK_CODE(err.code, RS_E_MEM, &err))
            (void)fprintf(stderr, "    allocation %llu\n", (unsigned long long)fail_at);
        built_clear(&b);
    }
}

/* Only one allocation fails, so that the error of a later step does not hide an ignored error. */
TEST(test_memory_once) {
    also_later = false;
    test_memory();
    also_later = true;
}

TEST(test_memory_of_maps) {
    built b = {NULL, 0};
    only_maps = true;
    fail_at = refuse_at = UINT64_MAX;
    if (CHECK_OK(build_once(&b), &err)) {
        CHECK(rs_load_u64(b.data + 16) & RS_FMT_FEATURE_MAP);
        CHECK_OK(rs_verify_segment(built_slice(&b), NULL, NULL, &err), &err);
        n_steps = steps;
        built_clear(&b);
        test_memory();
    }
    only_maps = false;
}

TEST(test_space) {
    built b = {NULL, 0};
    fail_at = UINT64_MAX;
    for (refuse_at = 0; refuse_at < n_appends; refuse_at++) {
        if (!CHECK_CODE(build_once(&b), RS_E_SPACE, &err))
            (void)fprintf(stderr, "    append %llu\n", (unsigned long long)refuse_at);
        built_clear(&b);
    }
}

/* ---- Saved indexes ---- */

static int64_t key_mod_3(uint64_t i) { return (int64_t)(i % 3); }

/* Adds an index of groups to `list`. The extension copies the label of the index. */
static rs_status extend_once(const built *list, const saved_bytes *bytes, built *out) {
    rs_segment_writer writer;
    rs_extension extension;
    rs_status status = rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err);
    if (status == RS_OK) status = rs_segment_writer_append(&writer, list->data, list->size, &err);
    if (status != RS_OK) return status;
    steps = appends = 0;
    live = 0;
    counting = true;
    status = rs_extension_begin(&extension, &writer, built_slice(list), &err);
    if (status == RS_OK) status = rs_extension_add(&extension, &bytes->parts, &err);
    if (status == RS_OK) status = rs_extension_finish(&extension, &err);
    rs_extension_clear(&extension);
    counting = false;
    CHECK_U64((uint64_t)live, 0);
    if (status == RS_OK) *out = built_finish(&writer);
    rs_segment_writer_abort(&writer);
    return status;
}

/* Runs the deep check of a list with an index once per allocation, at which memory runs out. */
static void check_failing(const built *b) {
    uint64_t n;
    fail_at = UINT64_MAX, steps = 0, counting = true;
    CHECK_OK(rs_verify_segment(built_slice(b), NULL, NULL, &err), &err);
    counting = false;
    for (n = steps, fail_at = 0; fail_at < n; fail_at++) {
        steps = 0, live = 0, counting = true;
        rs_status status = rs_verify_segment(built_slice(b), NULL, NULL, &err);
        counting = false;
        CHECK_CODE(status, RS_E_MEM, &err);
        CHECK_U64((uint64_t)live, 0);
    }
    fail_at = UINT64_MAX;
}

TEST(test_saved_indexes) {
    rs_segment_writer writer;
    saved_bytes bytes = {0};
    built list, out = {NULL, 0};
    uint64_t n, m;
    fail_at = refuse_at = UINT64_MAX;
    REQUIRE(saved_list(key_mod_3, 50, "\x04name\x01x", &writer, &list));
    rs_segment_writer_abort(&writer);
    saved_make(&bytes, RS_FMT_SAVED_GROUPS, key_mod_3, 50);
    CHECK_OK(extend_once(&list, &bytes, &out), &err);
    n = steps, m = appends;
    CHECK(n >= 3 && m >= 5);
    for (fail_at = 0; fail_at < n; fail_at++) CHECK_CODE(extend_once(&list, &bytes, &out), RS_E_MEM, &err);
    fail_at = UINT64_MAX;
    for (refuse_at = 0; refuse_at < m; refuse_at++) CHECK_CODE(extend_once(&list, &bytes, &out), RS_E_SPACE, &err);
    refuse_at = UINT64_MAX;
    check_failing(&out);
    saved_clear(&bytes);
    built_clear(&list), built_clear(&out);
}

/* ---- One failing allocation, for code that would ignore it and continue ---- */

static rs_status match_once(void) {
    rs_matcher matcher;
    steps = 0, live = 0, counting = true;
    rs_status status = rs_matcher_init(&matcher, 1, 0, &err);
    for (uint32_t i = 0; i < 1000 && status == RS_OK; i++) {
        uint8_t units[3] = {(uint8_t)(i >> 5 | 64), (uint8_t)(i & 31), 'x'};
        status = rs_matcher_add(&matcher, units, sizeof units, &err);
    }
    rs_matcher_clear(&matcher);
    counting = false;
    CHECK_U64((uint64_t)live, 0);
    return status;
}

/* The allocation of each array of a matcher fails in turn, also while it grows. */
TEST(test_matcher) {
    uint64_t n;
    fail_at = UINT64_MAX;
    CHECK_OK(match_once(), &err);
    n = steps, also_later = false;
    for (fail_at = 0; fail_at < n; fail_at++) CHECK_CODE(match_once(), RS_E_MEM, &err);
    also_later = true;
}

/* Appends the rows of a table to a builder, then drops the builder. Counts only allocations of the import. */
static rs_status append_once(const arrow_made *m) {
    static const rs_arrow_options plain = {false, RS_ARROW_NANOSECONDS_EXACT, NULL, 0, NULL, NULL};
    rs_segment_writer writer;
    rs_builder builder;
    rs_arrow_in in = {0};
    CHECK_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    CHECK_OK(rs_builder_open(&builder, &writer, NULL, &err), &err);
    steps = 0, counting = true;
    rs_status status = rs_arrow_in_open(&in, &m->schema, &plain, &err);
    if (status == RS_OK) status = rs_arrow_in_bind(&in, &m->array, &err);
    if (status == RS_OK) status = rs_arrow_in_append(&in, &builder, UINT64_MAX, &err);
    counting = false;
    rs_arrow_in_close(&in);
    rs_builder_close(&builder);
    rs_segment_writer_abort(&writer);
    return status;
}

/* Each allocation of an import of rows fails in turn, including those for key sets. */
TEST(test_arrow_rows) {
    static const int32_t ids[] = {7, -200, 3};
    const arrow_made *m = arrow_add(arrow_make("+s", "", 3, 1), arrow_ints("id", ids, 3));
    uint64_t n;
    fail_at = refuse_at = UINT64_MAX;
    CHECK_OK(append_once(m), &err);
    n = steps, also_later = false;
    for (fail_at = 0; fail_at < n; fail_at++) CHECK_CODE(append_once(m), RS_E_MEM, &err);
    also_later = true;
    arrow_drop();
}
