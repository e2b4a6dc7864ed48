/* test_builder.c: blocks written by threads: the same bytes for any number of threads, lasting failures, forks, no
 * memory. The linker replaces the allocator and rs_os_thread_start with functions of this file (CMakeLists.txt). */
#define _GNU_SOURCE
#define RS_TEST_MAIN
#include "rs_built.h"
#include "base/rs_permute.h"
#include "read/rs_mapping.h"
#include "verify/rs_verify.h"
#include "write/rs_mapping_builder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static rs_error err;

/* ---- Memory and threads that are refused ---- */

static atomic_bool refuse_threads, refuse_elsewhere;
static atomic_llong allocations_left; /* with refuse_elsewhere: how many allocations of other threads still succeed */
static pthread_t main_thread;
static atomic_uint n_started; /* threads that were requested */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
rs_status __real_rs_os_thread_start(rs_os_thread *self, void (*run)(void *argument), void *argument, rs_error *e);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
rs_status __wrap_rs_os_thread_start(rs_os_thread *self, void (*run)(void *argument), void *argument, rs_error *e);

static bool may_have(void) {
    if (!atomic_load(&refuse_elsewhere) || pthread_equal(pthread_self(), main_thread)) return true;
    return atomic_fetch_sub(&allocations_left, 1) > 0;
}

void *__wrap_malloc(size_t size) { return may_have() ? __real_malloc(size) : NULL; }
void *__wrap_calloc(size_t n, size_t size) { return may_have() ? __real_calloc(n, size) : NULL; }
void *__wrap_realloc(void *old, size_t size) { return may_have() ? __real_realloc(old, size) : NULL; }
rs_status __wrap_rs_os_thread_start(rs_os_thread *self, void (*run)(void *argument), void *argument, rs_error *e) {
    atomic_fetch_add(&n_started, 1);
    if (atomic_load(&refuse_threads)) return rs_error_set(e, RS_E_SYS, RS_NOWHERE, "no thread, says the test");
    return __real_rs_os_thread_start(self, run, argument, e);
}

/* ---- Records ---- */

enum { BLOCK = RS_FMT_BLOCK_RECORDS };

/* Records of four kinds, which change from block to block. */
RECORD(add_mixed) {
    uint64_t kind = i / BLOCK % 4;
    char text[24];
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

/* Large records: the bytes of a block close it, not its number of records. */
RECORD(add_large) {
    static char text[100001];
    size_t n = i % 5 == 0 ? 100000 : 1000;
    memset(text, (int)('a' + i % 20), n);
    text[n] = '\0';
    make_str(raw, text);
}

/* Like add_large, but records 700, 1700, ... have 20 MiB, so that the bytes of their blocks move during the survey. */
RECORD(add_giant) {
    enum { GIANT = 20 << 20 };
    uint8_t head[11] = {RS_FMT_TAG_BYTES};
    if (i % 1000 != 700) {
        add_large(i, raw, arrays);
        return;
    }
    make_bytes(raw, head, 1 + rs_put_varint(head + 1, GIANT));
    REQUIRE_OK(rs_buffer_append_zeros(raw, GIANT, &err), &err);
}

/* Values of seven kinds, drawn by a generator that depends only on the record's number. 9,000 of every 27,000 records
 * have only one kind. */
RECORD(add_random) {
    uint64_t x = rs_mix64(i + UINT64_C(0x9E3779B97F4A7C15)), kind = x % 7;
    char text[40];
    if (i / 9000 % 3 == 1) kind = 6;
    (void)snprintf(text, sizeof text, "dir%llu/img_%05llu.jpg", (unsigned long long)(x >> 8) % 20,
                   (unsigned long long)i);
    switch (kind) {
    case 0: make_int(raw, (int64_t)(x >> 20)); break;
    case 1: make_str(raw, text); break;
    case 2: make_tag(raw, (uint8_t)(x >> 9) % 3); break;
    case 3: make_float(raw, (double)(x >> 40) / 100); break;
    case 4:
        make_head(raw, 0x0D, x >> 8 & 7);
        for (uint64_t k = 0; k < (x >> 8 & 7); k++) make_int(raw, (int64_t)(x >> (9 + k) & 1023));
        break;
    case 5:
        make_head(raw, 0x0F, 1);
        make_str(raw, x >> 8 & 1 ? "a" : "b"), make_float(raw, (double)i);
        break;
    default:
        make_head(raw, 0x0F, 2);
        make_str(raw, "path"), make_str(raw, text), make_str(raw, "label"), make_int(raw, (int64_t)(x >> 50));
    }
}

/* Pairs of alike ints and texts. Block 3 has one odd value at its end, block 5 longer texts, and block 8 larger ints. */
RECORD(add_alike) {
    uint64_t x = rs_mix64(i + 1), block = i / BLOCK;
    char text[64];
    (void)snprintf(text, sizeof text, "%s-%llx", block == 5 ? "a text that is far longer than the others" : "text",
                   (unsigned long long)(x >> 44));
    make_head(raw, 0x0F, 2);
    make_str(raw, "n");
    if (i == 4 * BLOCK - 2) make_float(raw, 0.5);
    else make_int(raw, (int64_t)(x % (block == 8 ? 1000000 : 100000)));
    make_str(raw, "text"), make_str(raw, text);
}

typedef struct fixture {
    rs_segment_writer writer;
    rs_pipeline *pipeline;
    rs_builder builder;
    rs_mapping_builder pairs;
    rs_segment segment;
} fixture;

/* Compares everything but the headers, which have an id and a time. */
static bool same_bytes(rs_segment *a, rs_segment *b) {
    uint64_t differ = 0;
    if (!CHECK_U64(a->size_bytes, b->size_bytes)) return false;
    for (uint64_t i = RS_FMT_HEADER_SIZE; i < a->size_bytes; i++) differ += a->data[i] != b->data[i];
    return CHECK_U64(differ, 0);
}

static void start(fixture *m, unsigned threads) {
    memset(m, 0, sizeof *m);
    REQUIRE_OK(rs_segment_writer_open(&m->writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    REQUIRE_OK(rs_builder_open(&m->builder, &m->writer, NULL, &err), &err);
    if (threads > 0) REQUIRE_OK(rs_pipeline_open(&m->pipeline, threads, &err), &err);
    m->builder.pipeline = m->pipeline;
}

static rs_status add(fixture *m, built_record record, uint64_t from, uint64_t to) {
    for (; from < to; from++) {
        record(from, &m->builder.raw, &m->builder.arrays);
        RS_TRY(rs_builder_end_record(&m->builder, &err));
        if (rs_builder_is_full(&m->builder)) RS_TRY(rs_builder_flush_beside(&m->builder, &err));
    }
    return RS_OK;
}

static void stop(fixture *m) {
    rs_builder_close(&m->builder);
    rs_mapping_builder_close(&m->pairs);
    rs_pipeline_close(m->pipeline);
    rs_segment_writer_abort(&m->writer);
    rs_segment_close(&m->segment);
}

static void finish(fixture *m) {
    REQUIRE_OK(rs_builder_finish(&m->builder, &err), &err);
    rs_builder_close(&m->builder);
    REQUIRE_OK(rs_segment_writer_finish(&m->writer, &m->segment, &err), &err);
}

static void build_list(fixture *m, built_record record, uint64_t n, unsigned threads) {
    start(m, threads);
    REQUIRE_OK(add(m, record, 0, n), &err);
    finish(m);
}

static const unsigned numbers_of_threads[] = {1, 3};

static void same_list(built_record record, uint64_t n) {
    fixture plain, other;
    build_list(&plain, record, n, 0);
    EACH (i, numbers_of_threads) {
        build_list(&other, record, n, numbers_of_threads[i]);
        (void)same_bytes(&plain.segment, &other.segment);
        stop(&other);
    }
    stop(&plain);
}

TEST(test_the_same_bytes) {
    same_list(add_mixed, 10);
    same_list(add_mixed, BLOCK);
    same_list(add_mixed, 5 * BLOCK + 1);
    same_list(add_random, 2 * BLOCK + 7);
}

static uint64_t trees_of(const fixture *m) {
    rs_store store;
    if (!CHECK_OK(rs_store_open(&store, rs_slice_of(m->segment.data, m->segment.size_bytes), NULL, &err), &err)) {
        return 0;
    }
    uint64_t n = store.n_trees;
    rs_store_close(&store);
    return n;
}

/* Blocks that are alike share the tree of the first one, and the others get trees of their own. */
TEST(test_blocks_that_are_alike) {
    fixture m;
    build_list(&m, add_alike, 3 * BLOCK, 0);
    CHECK_U64(trees_of(&m), 1);
    stop(&m);
    build_list(&m, add_alike, 9 * BLOCK, 2);
    CHECK(trees_of(&m) > 1 && trees_of(&m) < 9);
    CHECK_OK(rs_verify_segment(rs_slice_of(m.segment.data, m.segment.size_bytes), NULL, NULL, &err), &err);
    stop(&m);
    same_list(add_alike, 9 * BLOCK);
}

/* A build starts threads only if its work takes longer than starting them. A single block may be enough. */
TEST(test_threads_of_small_builds) {
    const uint64_t n[] = {1, 100, 2000, 20000};
    for (size_t i = 0; i < 4; i++) {
        fixture m;
        atomic_store(&n_started, 0);
        build_list(&m, add_mixed, n[i], 2);
        if (n[i] <= 2000) CHECK_U64(atomic_load(&n_started), 0);
        else CHECK(atomic_load(&n_started) > 0);
        stop(&m);
    }
}

TEST(test_giant_records) { same_list(add_giant, 2000); }

TEST(test_threads_that_cannot_be_started) {
    fixture plain, other;
    build_list(&plain, add_mixed, 3 * BLOCK + 5, 0);
    atomic_store(&refuse_threads, true);
    build_list(&other, add_mixed, 3 * BLOCK + 5, 3);
    CHECK(rs_pipeline_n_running(other.pipeline) == 0);
    atomic_store(&refuse_threads, false);
    (void)same_bytes(&plain.segment, &other.segment);
    stop(&other);
    stop(&plain);
}

/* A wait returns now and then, so that the caller can check for signals, even if the caller does the work itself. */
TEST(test_waits_come_back) {
    enum { BLOCKS = 200 };
    fixture m;
    uint64_t waits = 0;
    atomic_store(&refuse_threads, true);
    start(&m, 3);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        add_mixed(i, &m.builder.raw, &m.builder.arrays);
        REQUIRE_OK(rs_builder_end_record(&m.builder, &err), &err);
        REQUIRE_OK(rs_builder_hand_over(&m.builder, &err), &err);
    }
    while (!rs_builder_wait(&m.builder, true, 1)) waits++;
    CHECK(waits >= BLOCKS / 64);
    CHECK(rs_builder_wait(&m.builder, true, 1));
    CHECK_OK(rs_builder_finish(&m.builder, &err), &err);
    CHECK_U64(m.builder.n_records, BLOCKS);
    stop(&m);
    atomic_store(&refuse_threads, false);
}

static rs_status add_pairs(fixture *m, uint64_t n, unsigned threads) {
    memset(m, 0, sizeof *m);
    RS_TRY(rs_segment_writer_open(&m->writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err));
    RS_TRY(rs_mapping_builder_open(&m->pairs, &m->writer, NULL, &err));
    if (threads > 0) RS_TRY(rs_pipeline_open(&m->pipeline, threads, &err));
    m->pairs.keys.pipeline = m->pairs.values.pipeline = m->pipeline;
    for (uint64_t i = 0; i < n; i++) {
        make_int(&m->pairs.keys.raw, (int64_t)(i * 0x9E3779B97F4A7C15));
        add_mixed(i, &m->pairs.values.raw, &m->pairs.values.arrays);
        RS_TRY(rs_mapping_builder_end_pair(&m->pairs, &err));
        if (rs_builder_is_full(&m->pairs.keys)) RS_TRY(rs_builder_flush_beside(&m->pairs.keys, &err));
        if (rs_builder_is_full(&m->pairs.values)) RS_TRY(rs_builder_flush_beside(&m->pairs.values, &err));
    }
    return RS_OK;
}

static void build_pairs(fixture *m, uint64_t n, unsigned threads) {
    REQUIRE_OK(add_pairs(m, n, threads), &err);
    REQUIRE_OK(rs_mapping_builder_write_tables(&m->pairs, &err), &err);
    REQUIRE_OK(rs_segment_writer_finish(&m->writer, &m->segment, &err), &err);
}

/* Keys and values fill their blocks at the same record. The block of keys is written first. */
TEST(test_the_same_bytes_of_pairs) {
    fixture plain, other;
    build_pairs(&plain, 3 * BLOCK + 5, 0);
    EACH (i, numbers_of_threads) {
        build_pairs(&other, 3 * BLOCK + 5, numbers_of_threads[i]);
        (void)same_bytes(&plain.segment, &other.segment);
        stop(&other);
    }
    stop(&plain);
}

/* Some records are removed right after they are added, even the first of a chunk: the key sets must still match. */
TEST(test_records_taken_back) {
    fixture a, b;
    start(&a, 2);
    start(&b, 0);
    for (uint64_t i = 0; i < BLOCK; i++) {
        built_record record = i % 3 == 0 ? add_mixed : add_random;
        record(i, &a.builder.raw, &a.builder.arrays), record(i, &b.builder.raw, &b.builder.arrays);
        REQUIRE_OK(rs_builder_end_record(&a.builder, &err), &err);
        REQUIRE_OK(rs_builder_end_record(&b.builder, &err), &err);
        if (i % 5 == 4) {
            add_random(i + 1, &a.builder.raw, &a.builder.arrays);
            REQUIRE_OK(rs_builder_end_record(&a.builder, &err), &err);
            rs_builder_pop_record(&a.builder);
        }
    }
    CHECK(a.builder.open != NULL);
    finish(&a), finish(&b);
    (void)same_bytes(&a.segment, &b.segment);
    stop(&a);
    stop(&b);
}

/* The builder is closed while its threads are at work. */
TEST(test_closed_in_between) {
    fixture m;
    for (uint64_t n = BLOCK / 8; n <= 2 * BLOCK; n += BLOCK / 2 + 1000) {
        start(&m, 3);
        CHECK_OK(add(&m, add_random, 0, n), &err);
        stop(&m);
        CHECK_OK(add_pairs(&m, n, 2), &err);
        stop(&m);
    }
}

TEST(test_an_idle_builder_has_no_thread) {
    fixture m;
    start(&m, 3);
    CHECK_OK(add(&m, add_mixed, 0, 2 * BLOCK + 10), &err);
    while (rs_pipeline_n_running(m.pipeline) > 0) (void)usleep(1000);
    CHECK_OK(add(&m, add_mixed, 2 * BLOCK + 10, 3 * BLOCK), &err); /* threads are started again */
    CHECK_OK(rs_builder_finish(&m.builder, &err), &err);
    stop(&m);
}

TEST(test_a_failure_stays) {
    fixture m;
    rs_error again;
    start(&m, 2);
    int fd = m.writer.fd;
    m.writer.fd = -1;
    CHECK_OK(add(&m, add_mixed, 0, 100), &err);
    if (rs_builder_hand_over(&m.builder, &err) != RS_OK) CHECK(err.code == RS_E_SYS); /* the thread failed already */
    while (!rs_builder_wait(&m.builder, true, 100)) continue;
    add_mixed(0, &m.builder.raw, &m.builder.arrays);
    CHECK_OK(rs_builder_end_record(&m.builder, &err), &err);
    CHECK_CODE(rs_builder_flush_beside(&m.builder, &err), RS_E_SYS, &err);
    CHECK_CODE(rs_builder_flush_beside(&m.builder, &again), RS_E_SYS, &again);
    CHECK_STR(again.message, err.message);
    CHECK_CODE(rs_builder_finish(&m.builder, &again), RS_E_SYS, &again);
    m.writer.fd = fd;
    stop(&m);

    /* Another builder of the same pipeline fails too. */
    CHECK_OK(add_pairs(&m, 100, 2), &err);
    fd = m.writer.fd;
    m.writer.fd = -1;
    if (rs_builder_hand_over(&m.pairs.keys, &err) != RS_OK) CHECK(err.code == RS_E_SYS);
    while (!rs_builder_wait(&m.pairs.keys, true, 100)) continue;
    CHECK_CODE(rs_builder_flush_beside(&m.pairs.values, &err), RS_E_SYS, &err);
    CHECK_CODE(rs_mapping_builder_write_tables(&m.pairs, &err), RS_E_SYS, &err);
    m.writer.fd = fd;
    stop(&m);
}

TEST(test_a_forked_child) {
    fixture m;
    int status = -1;
    start(&m, 2);
    CHECK_OK(add(&m, add_mixed, 0, 2 * BLOCK + 20000), &err);
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = add(&m, add_mixed, 2 * BLOCK + 20000, 2 * BLOCK + 20010) == RS_OK;
        ok = rs_builder_flush_beside(&m.builder, &err) == RS_E_STATE_FINISHED && ok;
        ok = rs_builder_finish(&m.builder, &err) == RS_E_STATE_FINISHED && ok;
        rs_builder_close(&m.builder);
        rs_pipeline_close(m.pipeline);
        rs_segment_writer_abort(&m.writer);
        _exit(ok ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK_OK(add(&m, add_mixed, 2 * BLOCK + 20000, 3 * BLOCK), &err);
    CHECK_OK(rs_builder_finish(&m.builder, &err), &err);
    stop(&m);
}

/* Only the threads' allocations fail, after the first n. The build fails, or succeeds if the memory was for an optional
 * attempt. The sanitizers check that nothing leaks. */
TEST(test_memory_refused_in_threads) {
    fixture m;
    long long n = 0;
    unsigned failed = 0;
    for (long long step = 1; n < 40000; n += step, step += step / 2 + 1) {
        start(&m, 2);
        atomic_store(&allocations_left, n);
        atomic_store(&refuse_elsewhere, true);
        rs_status status = add(&m, add_random, 0, BLOCK + 3000);
        if (status == RS_OK) status = rs_builder_finish(&m.builder, &err);
        atomic_store(&refuse_elsewhere, false);
        if (status != RS_OK) CHECK_CODE(status, RS_E_MEM, &err), failed++;
        stop(&m);
    }
    CHECK(failed > 5); /* 11 at present: it depends on how many allocations are those of threads */
}

int main(void) {
    main_thread = pthread_self();
    rs_test_run();
    return rs_test_finish();
}
