/* test_builder.c: blocks that the flusher's thread writes: the bytes are the same as without it, its failures come with
 * the next flush, and a forked child does not have the thread. */
#define _GNU_SOURCE
#include "rs_built.h"
#include "read/rs_mapping.h"
#include "write/rs_mapping_builder.h"

#include <sys/wait.h>
#include <unistd.h>

static rs_error err;

enum { BLOCK = RS_FMT_BLOCK_RECORDS };

/* Records of a different kind in every block; some have arrays outside, some are not worth a tree. */
static void add_mixed(uint64_t i, rs_buffer *raw, rs_buffer *arrays) {
    uint64_t kind = i / BLOCK % 4;
    char text[24];
    (void)arrays;
    (void)snprintf(text, sizeof text, "name %llu", (unsigned long long)i);
    if (kind == 0) {
        make_int(raw, (int64_t)(i * 7));
    } else if (kind == 1) {
        make_head(raw, 0x0F, 2);
        make_str(raw, "id"), make_int(raw, (int64_t)i), make_str(raw, "name"), make_str(raw, text);
    } else if (kind == 2) {
        make_head(raw, 0x0D, 2);
        make_str(raw, text), make_tag(raw, (uint8_t)(i % 3));
    } else {
        make_str(raw, text);
    }
}

/* Large enough that the bytes and not their number close the block. */
static void add_large(uint64_t i, rs_buffer *raw, rs_buffer *arrays) {
    static char text[100001];
    size_t n = i % 5 == 0 ? 100000 : 1000;
    (void)arrays;
    memset(text, (int)('a' + i % 20), n);
    text[n] = '\0';
    make_str(raw, text);
}

typedef struct made {
    rs_segment_writer writer;
    rs_flusher flusher;
    rs_builder builder;
    rs_mapping_builder pairs;
    rs_segment segment;
} made;

/* Everything but the id and the time of the header. */
static bool same_bytes(rs_segment *a, rs_segment *b) {
    uint64_t i, differ = 0;
    if (!CHECK_U64(a->size_bytes, b->size_bytes)) return false;
    for (i = RS_FMT_HEADER_SIZE; i < a->size_bytes; i++) differ += a->data[i] != b->data[i];
    return CHECK_U64(differ, 0);
}

static void start(made *m, bool beside) {
    memset(m, 0, sizeof *m);
    REQUIRE_OK(rs_segment_writer_open(&m->writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    REQUIRE_OK(rs_builder_open(&m->builder, &m->writer, true, &err), &err);
    if (beside) m->builder.flusher = &m->flusher;
}

static bool add(made *m, built_record record, uint64_t from, uint64_t to) {
    for (; from < to; from++) {
        record(from, &m->builder.raw, &m->builder.arrays);
        if (!CHECK_OK(rs_builder_end_record(&m->builder, &err), &err)) return false;
        if (!rs_builder_is_full(&m->builder)) continue;
        if (!CHECK_OK(rs_builder_flush_beside(&m->builder, &err), &err)) return false;
    }
    return true;
}

static void stop(made *m) {
    rs_builder_close(&m->builder);
    rs_mapping_builder_close(&m->pairs);
    rs_segment_writer_abort(&m->writer);
    rs_segment_close(&m->segment);
}

static void build_list(made *m, built_record record, uint64_t n, bool beside) {
    start(m, beside);
    if (!add(m, record, 0, n)) return;
    REQUIRE_OK(rs_builder_finish(&m->builder, &err), &err);
    CHECK(m->flusher.builder == NULL);
    rs_builder_close(&m->builder);
    REQUIRE_OK(rs_segment_writer_finish(&m->writer, &m->segment, &err), &err);
}

static void same_list(built_record record, uint64_t n) {
    made a, b;
    build_list(&a, record, n, true);
    build_list(&b, record, n, false);
    (void)same_bytes(&a.segment, &b.segment);
    stop(&a);
    stop(&b);
}

static void test_the_same_bytes(void) {
    same_list(add_mixed, 10);
    same_list(add_mixed, BLOCK);
    same_list(add_mixed, BLOCK + 1);
    same_list(add_mixed, 6 * BLOCK + 100);
    same_list(add_large, 3000);
}

static void add_pairs(made *m, uint64_t n, bool beside) {
    uint64_t i;
    memset(m, 0, sizeof *m);
    REQUIRE_OK(rs_segment_writer_open(&m->writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    REQUIRE_OK(rs_mapping_builder_open(&m->pairs, &m->writer, true, &err), &err);
    if (beside) m->pairs.keys.flusher = m->pairs.values.flusher = &m->flusher;
    for (i = 0; i < n; i++) {
        make_int(&m->pairs.keys.raw, (int64_t)i);
        add_mixed(i, &m->pairs.values.raw, &m->pairs.values.arrays);
        REQUIRE_OK(rs_mapping_builder_end_pair(&m->pairs, &err), &err);
        if (rs_builder_is_full(&m->pairs.keys)) REQUIRE_OK(rs_builder_flush_beside(&m->pairs.keys, &err), &err);
        if (rs_builder_is_full(&m->pairs.values)) REQUIRE_OK(rs_builder_flush_beside(&m->pairs.values, &err), &err);
    }
}

/* Keys and values fill up at one record: their blocks go one after another, in that order. */
static void test_the_same_bytes_of_pairs(void) {
    made a, b;
    rs_os_identity size;
    uint8_t *bytes[2] = {NULL, NULL};
    uint64_t i;
    add_pairs(&a, 3 * BLOCK + 5, true);
    add_pairs(&b, 3 * BLOCK + 5, false);
    REQUIRE_OK(rs_mapping_builder_write_tables(&a.pairs, &err), &err);
    REQUIRE_OK(rs_mapping_builder_write_tables(&b.pairs, &err), &err);
    CHECK_U64(a.writer.position, b.writer.position);
    CHECK_OK(rs_os_identify(a.writer.fd, &size, &err), &err);
    for (i = 0; i < 2; i++) {
        bytes[i] = (uint8_t *)malloc((size_t)a.writer.position);
        REQUIRE(bytes[i] != NULL);
        CHECK(pread(i == 0 ? a.writer.fd : b.writer.fd, bytes[i], (size_t)a.writer.position, 0) ==
              (ssize_t)a.writer.position);
    }
    CHECK(memcmp(bytes[0], bytes[1], (size_t)a.writer.position) == 0);
    free(bytes[0]);
    free(bytes[1]);
    stop(&a);
    stop(&b);
}

/* The builder is closed while its thread is writing. */
static void test_closed_in_between(void) {
    made m;
    start(&m, true);
    (void)add(&m, add_mixed, 0, BLOCK);
    CHECK(m.flusher.builder == &m.builder);
    stop(&m);
    CHECK(m.flusher.builder == NULL);
    add_pairs(&m, BLOCK, true);
    CHECK(m.flusher.builder == &m.pairs.values);
    stop(&m);
    CHECK(m.flusher.builder == NULL);
}

static void test_a_failure_comes_with_the_next_block(void) {
    made m;
    rs_error again;
    int fd;
    start(&m, true);
    fd = m.writer.fd;
    m.writer.fd = -1;
    (void)add(&m, add_mixed, 0, BLOCK);
    add_mixed(0, &m.builder.raw, &m.builder.arrays);
    CHECK_OK(rs_builder_end_record(&m.builder, &err), &err);
    CHECK_CODE(rs_builder_flush_beside(&m.builder, &err), RS_E_SYS, &err);
    CHECK(m.flusher.builder == NULL);
    CHECK_CODE(rs_builder_flush_beside(&m.builder, &again), RS_E_SYS, &again);
    CHECK_STR(again.message, err.message);
    CHECK_CODE(rs_builder_finish(&m.builder, &again), RS_E_SYS, &again);
    m.writer.fd = fd;
    stop(&m);

    /* Of another builder of the same flusher. */
    add_pairs(&m, BLOCK - 1, true);
    fd = m.writer.fd;
    m.writer.fd = -1;
    CHECK_OK(rs_builder_flush_beside(&m.pairs.keys, &err), &err);
    CHECK_CODE(rs_builder_flush_beside(&m.pairs.values, &err), RS_E_SYS, &err);
    CHECK_CODE(rs_mapping_builder_write_tables(&m.pairs, &err), RS_E_SYS, &err);
    m.writer.fd = fd;
    stop(&m);
}

static void test_a_forked_child(void) {
    made m;
    int status = -1;
    pid_t pid;
    start(&m, true);
    (void)add(&m, add_mixed, 0, BLOCK);
    CHECK(m.flusher.builder == &m.builder);
    pid = fork();
    if (pid == 0) {
        bool ok = add(&m, add_mixed, BLOCK, 2 * BLOCK - 1);
        ok = rs_builder_flush_beside(&m.builder, &err) == RS_E_STATE_FINISHED && ok;
        ok = rs_builder_finish(&m.builder, &err) == RS_E_STATE_FINISHED && ok;
        rs_builder_close(&m.builder);
        rs_segment_writer_abort(&m.writer);
        _exit(ok ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    (void)add(&m, add_mixed, BLOCK, 3 * BLOCK);
    CHECK_OK(rs_builder_finish(&m.builder, &err), &err);
    stop(&m);
}

int main(void) {
    RUN(test_the_same_bytes);
    RUN(test_the_same_bytes_of_pairs);
    RUN(test_closed_in_between);
    RUN(test_a_failure_comes_with_the_next_block);
    RUN(test_a_forked_child);
    return rs_test_finish("test_builder");
}
