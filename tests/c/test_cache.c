/* test_cache.c: the file of a cache, filled, shared, full, damaged and cut; and the system calls below it. */
#define _GNU_SOURCE
#define RS_TEST_MAIN
#include "base/rs_crc.h"
#include "base/rs_hash.h"
#include "cache/rs_cache_seal.h"
#include "format/rs_segment.h"
#include "read/rs_store.h"
#include "rs_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 64 << 20, HEAD = RS_CACHE_VALUE_HEAD, SLOT_BYTES = 8 };

static rs_error err;
static rs_cache cache;
static rs_cache_arena arena;

/* ---- A cache in a file, and values made from a number ---- */

static rs_status create(uint64_t slots, uint64_t limit, const char *label) {
    const int fd = open(at("cache"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    rs_status code = rs_cache_create(fd, slots, limit, false, rs_slice_of((const uint8_t *)label, strlen(label)), &err);
    if (code == RS_OK) code = rs_cache_open(fd, &cache, &err);
    if (code != RS_OK) (void)close(fd);
    return code;
}

static rs_status begin(uint64_t slots, uint64_t limit) {
    const rs_status code = create(slots, limit, "label");
    return code == RS_OK ? rs_cache_open_arena(&cache, &arena, &err) : code;
}

static void end(void) {
    rs_cache_close_arena(&arena);
    rs_cache_close(&cache);
}

typedef struct made_value {
    char form[24], body[40];
    uint8_t *arrays;
    rs_cache_value value;
} made_value;

/* Value number n, with `arrays_size` bytes of arrays. The caller frees out->arrays. */
static void make(uint64_t n, size_t arrays_size, made_value *out) {
    const int form_size = snprintf(out->form, sizeof out->form, "key %llu", (unsigned long long)n);
    const int body_size = snprintf(out->body, sizeof out->body, "the body of value %llu", (unsigned long long)n);
    out->arrays = malloc(arrays_size + 1);
    for (size_t i = 0; i < arrays_size; i++) out->arrays[i] = (uint8_t)(n + i);
    out->value = (rs_cache_value){.hash = n,
                                  .body = rs_slice_of((uint8_t *)out->body, (size_t)body_size),
                                  .arrays = rs_slice_of(out->arrays, arrays_size)};
    if (cache.layout.slots != 0) return;
    out->value.hash = rs_hash64(out->form, (uint64_t)form_size, cache.layout.seed);
    out->value.form = rs_slice_of((uint8_t *)out->form, (size_t)form_size);
    if (n % 2 == 1) out->value.key = rs_slice_of((uint8_t *)out->form, 1);
}

static rs_status put_with(rs_cache_arena *target, uint64_t n, size_t arrays_size, rs_cache_outcome *outcome) {
    made_value made;
    make(n, arrays_size, &made);
    const rs_status code = rs_cache_put(&cache, target, &made.value, outcome, &err);
    free(made.arrays);
    return code;
}

static rs_cache_outcome put(uint64_t n, size_t arrays_size) {
    rs_cache_outcome outcome = RS_CACHE_FULL;
    CHECK_OK(put_with(&arena, n, arrays_size, &outcome), &err);
    return outcome;
}

static bool same(rs_slice a, rs_slice b) {
    return rs_slice_left(&a) == rs_slice_left(&b) &&
           (rs_slice_left(&a) == 0 || memcmp(a.ptr, b.ptr, rs_slice_left(&a)) == 0);
}

/* Finds value number n and checks its checksum. If found, sets *equal to whether it equals the value of make(). */
static rs_status get(uint64_t n, size_t arrays_size, bool *found, bool *equal) {
    rs_cache_value got;
    made_value made;
    make(n, arrays_size, &made);
    rs_status code = rs_cache_find(&cache, made.value.hash, made.value.form, found, &got, &err);
    if (code == RS_OK && *found) {
        *equal = same(got.form, made.value.form) && same(got.key, made.value.key) && same(got.body, made.value.body) &&
                 same(got.arrays, made.value.arrays);
        code = rs_cache_check(&cache, &got, &err);
    }
    free(made.arrays);
    return code;
}

static bool has(uint64_t n, size_t arrays_size) {
    bool found = false, equal = false;
    CHECK_OK(get(n, arrays_size, &found, &equal), &err);
    CHECK(!found || equal);
    return found;
}

static uint64_t arenas_begun(void) { return rs_load_u64(cache.table + RS_CACHE_NEXT_ARENA_AT); }

/* ---- Filling and reading ---- */

static void fill_and_read(uint64_t slots) {
    uint64_t position = 0, sum = 0, table_bytes, n;
    bool found;
    rs_cache_value value;
    REQUIRE_OK(begin(slots, LIMIT), &err);
    CHECK(!has(3, 0) && rs_cache_used(&cache) == 0 && rs_cache_count(&cache, &table_bytes) == 0 && table_bytes == 0);
    CHECK(put(3, 100) == RS_CACHE_STORED && put(8, 0) == RS_CACHE_STORED && put(5, 1) == RS_CACHE_STORED);
    CHECK(put(8, 7) == RS_CACHE_EXISTS);
    CHECK(has(3, 100) && has(8, 0) && has(5, 1) && !has(4, 0));
    CHECK_U64(rs_cache_count(&cache, &table_bytes), 3);
    CHECK(table_bytes >= 3 * SLOT_BYTES);
    CHECK_OK(rs_cache_count_file(cache.fd, &n, &err), &err);
    CHECK_U64(n, 3);
    for (;;) {
        REQUIRE_OK(rs_cache_scan(&cache, &position, &found, &value, &err), &err);
        if (!found) break;
        CHECK_OK(rs_cache_check(&cache, &value, &err), &err);
        sum += rs_slice_left(&value.arrays);
    }
    CHECK_U64(sum, 101);
    end();
}

TEST(test_int_keys) {
    REQUIRE(folder_begin("cache"));
    fill_and_read(9);
}

TEST(test_hashed_keys) { fill_and_read(0); }

TEST(test_many_hashed_keys) {
    enum { N = 40000 };
    uint64_t position = 0, n = 0, table_bytes;
    bool found = true;
    rs_cache_value value;
    REQUIRE_OK(begin(0, LIMIT), &err);
    for (uint64_t i = 0; i < N; i++) REQUIRE(put(i, 0) == RS_CACHE_STORED);
    for (uint64_t i = 0; i < N; i += 7) REQUIRE(has(i, 0));
    for (uint64_t i = N; i < N + 1000; i++) CHECK(!has(i, 0));
    CHECK_U64(rs_cache_count(&cache, &table_bytes), N);
    CHECK(table_bytes <= 64 * N);
    for (; found; n += found) REQUIRE_OK(rs_cache_scan(&cache, &position, &found, &value, &err), &err);
    CHECK_U64(n, N);
    end();
}

TEST(test_a_value_larger_than_an_arena) {
    REQUIRE_OK(begin(0, (uint64_t)4 * LIMIT), &err);
    const size_t large = 2 * (size_t)cache.layout.arena_bytes + 5;
    CHECK(put(0, 10) == RS_CACHE_STORED && put(1, large) == RS_CACHE_STORED);
    CHECK_U64(arenas_begun(), 4);
    const uint64_t used = rs_cache_used(&cache);
    CHECK(put(1, large) == RS_CACHE_EXISTS && rs_cache_used(&cache) == used);
    CHECK(put(2, 1000) == RS_CACHE_STORED);
    CHECK(has(0, 10) && has(1, large) && has(2, 1000));
    end();
}

TEST(test_the_limit) {
    uint64_t n = 0;
    REQUIRE_OK(begin(100, 1 << 16), &err);
    CHECK(put(99, 1 << 16) == RS_CACHE_FULL);
    while (n < 99 && put(n, 10000) == RS_CACHE_STORED) n++;
    CHECK_U64(n, 6);
    CHECK(rs_cache_used(&cache) <= 1 << 16 && !has(n, 10000));
    CHECK(put(98, 10) == RS_CACHE_STORED);
    for (uint64_t i = 0; i < n; i++) CHECK(has(i, 10000));
    end();
}

TEST(test_a_part_of_the_keys_fits) {
    uint64_t n = 0;
    REQUIRE_OK(begin(1000, 500000), &err);
    for (uint64_t i = 0; i < 31; i++) CHECK(put(i, 900) == RS_CACHE_STORED);
    for (uint64_t i = 0; i < 1000; i++) n += rs_cache_admits(&cache, i);
    CHECK_U64(n, 1000);
    CHECK(put(31, 900) == RS_CACHE_STORED);
    for (uint64_t i = n = 0; i < 1000; i++) n += rs_cache_admits(&cache, i);
    CHECK(n > 400 && n < 600);
    end();
}

/* ---- Arenas ---- */

TEST(test_an_arena_is_continued) {
    rs_cache_arena other;
    rs_cache_outcome outcome;
    REQUIRE_OK(begin(0, LIMIT), &err);
    REQUIRE_OK(rs_cache_open_arena(&cache, &other, &err), &err);
    CHECK(put(0, 100) == RS_CACHE_STORED);
    CHECK_U64(arenas_begun(), 1);
    CHECK_OK(put_with(&other, 1, 100, &outcome), &err);
    CHECK_U64(arenas_begun(), 2); /* the first one has a writer */
    rs_cache_close_arena(&arena);
    rs_cache_close_arena(&other);
    const uint64_t used = rs_cache_used(&cache);
    for (uint64_t n = 2; n < 12; n++) {
        REQUIRE_OK(rs_cache_open_arena(&cache, &arena, &err), &err);
        CHECK(put(n, 100) == RS_CACHE_STORED);
        rs_cache_close_arena(&arena);
    }
    if (rs_os_has_range_locks()) CHECK_U64(arenas_begun(), 2);
    CHECK(rs_cache_used(&cache) > used);
    for (uint64_t n = 0; n < 12; n++) CHECK(has(n, 100));
    rs_cache_close(&cache);
}

TEST(test_a_reader_of_a_growing_file) {
    enum { N = 10000 };
    REQUIRE_OK(begin(N, LIMIT), &err);
    const pid_t writer = fork();
    if (writer == 0) {
        rs_cache_outcome outcome;
        bool good = rs_cache_open_arena(&cache, &arena, &err) == RS_OK;
        for (uint64_t n = 0; n < N && good; n++) good = put_with(&arena, n, 0, &outcome) == RS_OK;
        _exit(good ? 0 : 1);
    }
    rs_cache_value value;
    for (uint64_t n = 0; n < N;) {
        bool found;
        REQUIRE_OK(rs_cache_find(&cache, n, rs_slice_of(NULL, 0), &found, &value, &err), &err);
        if (found) n++;
        else (void)usleep(20);
    }
    int status;
    CHECK(waitpid(writer, &status, 0) == writer && status == 0);
    end();
}

TEST(test_an_arena_that_another_writer_took_first) {
    rs_cache_outcome outcome;
    rs_cache_arena other;
    if (!rs_os_has_range_locks()) return;
    REQUIRE_OK(begin(0, LIMIT), &err);
    REQUIRE_OK(rs_cache_open_arena(&cache, &other, &err), &err);
    /* A writer counted arena 0 and was stopped before it locked it. Another writer puts a value there and leaves. */
    rs_store_u64(cache.table + RS_CACHE_NEXT_ARENA_AT, 1);
    CHECK_OK(put_with(&other, 0, 100, &outcome), &err);
    CHECK_U64(arenas_begun(), 1);
    rs_cache_close_arena(&other);
    rs_store_u64(cache.table + RS_CACHE_NEXT_ARENA_AT, 0); /* the first writer goes on */
    CHECK(put(1, (size_t)cache.layout.arena_bytes) == RS_CACHE_STORED);
    CHECK(has(0, 100) && has(1, (size_t)cache.layout.arena_bytes));
    end();
}

TEST(test_a_lost_race_gives_its_space_back) {
    REQUIRE_OK(begin(0, LIMIT), &err);
    CHECK(put(0, 1000) == RS_CACHE_STORED);
    const uint64_t used = rs_cache_used(&cache);
    for (int i = 0; i < 100; i++) CHECK(put(0, 1000) == RS_CACHE_EXISTS);
    CHECK_U64(rs_cache_used(&cache), used);
    CHECK(put(1, 1000) == RS_CACHE_STORED && has(0, 1000) && has(1, 1000));
    end();
}

/* ---- Processes ---- */

TEST(test_processes_put_the_same_keys) {
    enum { N = 500, WRITERS = 4 };
    uint64_t table_bytes;
    pid_t writers[WRITERS];
    REQUIRE_OK(begin(0, LIMIT), &err);
    for (int w = 0; w < WRITERS; w++) {
        writers[w] = fork();
        if (writers[w] != 0) continue;
        rs_cache_outcome outcome;
        bool good = rs_cache_open_arena(&cache, &arena, &err) == RS_OK;
        for (uint64_t i = 0; i < N; i++) {
            good = good && put_with(&arena, (i + (uint64_t)w * 100) % N, 50, &outcome) == RS_OK;
            if (w == 0 && i == N / 2) (void)raise(SIGKILL);
        }
        _exit(good ? 0 : 1);
    }
    for (int w = 0; w < WRITERS; w++) {
        int status = -1;
        CHECK(waitpid(writers[w], &status, 0) == writers[w]);
        CHECK(w == 0 ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK_U64(rs_cache_count(&cache, &table_bytes), N);
    for (uint64_t i = 0; i < N; i++) CHECK(has(i, 50));
    end();
}

TEST(test_rows_of_processes) {
    REQUIRE_OK(begin(0, LIMIT), &err);
    rs_cache_process *rows = rs_cache_rows(&cache), *own_row = rs_cache_claim_row(&cache, (uint64_t)getpid(), 7);
    REQUIRE(own_row == &rows[0]);
    own_row->counters[2] = 9;
    CHECK(rs_cache_claim_row(&cache, (uint64_t)getpid(), 7) == own_row && own_row->counters[2] == 9);
    for (int i = 1; i < RS_CACHE_PROCESSES; i++) rows[i].pid = 1, rows[i].start_time = (uint64_t)i;
    CHECK(rs_cache_claim_row(&cache, (uint64_t)getpid(), 8) == NULL);
    rows[5].pid = (uint64_t)1 << 30, rows[5].counters[1] = 3; /* not a process */
    CHECK(rs_cache_claim_row(&cache, (uint64_t)getpid(), 8) == &rows[5] && rows[5].counters[1] == 0);
    end();
}

/* ---- Damage ---- */

/* Changes the bytes at an offset of the file. */
static void write_at(uint64_t offset, const void *bytes, size_t n) {
    CHECK(pwrite(cache.fd, bytes, n, (off_t)offset) == (ssize_t)n);
}

static void read_at(uint64_t offset, void *bytes, size_t n) {
    CHECK(pread(cache.fd, bytes, n, (off_t)offset) == (ssize_t)n);
}

static bool is_format(rs_status code) {
    return code == RS_E_FMT_VALUE || code == RS_E_FMT_CHECKSUM || code == RS_E_FMT_TRUNCATED;
}

/* Reads everything in a damaged cache. Each call gives RS_OK or a format error; each value found by its key with RS_OK
 * is unchanged. */
static void read_damaged(void) {
    uint64_t position = 0, table_bytes;
    rs_cache_value value;
    bool found = true, equal = false;
    for (uint64_t n = 0; n < 4; n++) {
        const rs_status code = get(n, 100 * n, &found, &equal);
        CHECK(code == RS_OK ? !found || equal : is_format(code));
    }
    found = true;
    for (int i = 0; found && i < 8; i++) {
        const rs_status code = rs_cache_scan(&cache, &position, &found, &value, &err);
        CHECK(code == RS_OK || is_format(code));
        if (code != RS_OK || !found) continue;
        const rs_status check_code = rs_cache_check(&cache, &value, &err);
        CHECK(check_code == RS_OK || check_code == RS_E_FMT_CHECKSUM);
    }
    CHECK(rs_cache_count(&cache, &table_bytes) <= 4096);
}

/* Flips each bit of n bytes of the file in turn, or every third. Reads everything each time. */
static void flip_bits(uint64_t offset, uint64_t n, unsigned step) {
    for (uint64_t i = offset; i < offset + n; i++) {
        uint8_t right;
        if (pread(cache.fd, &right, 1, (off_t)i) != 1) return; /* the end of the file */
        for (unsigned bit = (unsigned)(i % step); bit < 8; bit += step) {
            const uint8_t wrong = (uint8_t)(right ^ (1u << bit));
            write_at(i, &wrong, 1);
            read_damaged();
        }
        write_at(i, &right, 1);
    }
}

TEST(test_damage) {
    for (uint64_t slots = 0; slots <= 4; slots += 4) {
        uint64_t slot, found = 0;
        REQUIRE_OK(begin(slots, LIMIT), &err);
        for (uint64_t n = 0; n < 4; n++) CHECK(put(n, 100 * n) == RS_CACHE_STORED);
        flip_bits(cache.layout.table_end, rs_cache_used(&cache), 3);
        for (uint64_t i = 0; i < cache.layout.level_slots[0] && found < 4; i++) {
            const uint64_t offset = cache.layout.level_offset[0] + SLOT_BYTES * i;
            read_at(offset, &slot, sizeof slot);
            if (slot == 0) continue;
            found++;
            flip_bits(offset, SLOT_BYTES, 1);
        }
        CHECK_U64(found, 4);
        if (slots == 0) flip_bits(rs_cache_chunks_at(&cache.layout), 64, 1);
        for (uint64_t n = 0; n < 4; n++) CHECK(has(n, 100 * n));
        end();
    }
}

/* Whatever numbers the counters hold, every value that is stored is found. */
TEST(test_damaged_counters) {
    static const uint64_t numbers[] = {0,         1,
                                       63,        64,
                                       1 << 24,   (1 << 24) - 1,
                                       1 << 25,   1 << 30,
                                       1u << 31,  UINT32_MAX,
                                       INT64_MAX, (uint64_t)INT64_MAX + 1,
                                       1089,      UINT64_MAX - 1,
                                       UINT64_MAX};
    EACH (i, numbers) {
        for (int what = 0; what < 5; what++) {
            const uint64_t offsets[] = {RS_CACHE_NEXT_ARENA_AT, RS_CACHE_ARENAS_AT, RS_CACHE_ARENAS_AT + 8,
                                        RS_CACHE_SEEN_AT, RS_CACHE_SEEN_AT + 8};
            REQUIRE_OK(begin(0, LIMIT), &err);
            if (what == 2) rs_store_u64(cache.table + RS_CACHE_NEXT_ARENA_AT, 2);
            rs_store_u64(cache.table + offsets[what], numbers[i]);
            (void)rs_cache_admits(&cache, 1);
            bool stored[4];
            for (uint64_t n = 0; n < 4; n++) {
                rs_cache_outcome outcome = RS_CACHE_FULL;
                CHECK_OK(put_with(&arena, n, n == 2 ? 20 << 20 : 100 * n, &outcome), &err);
                stored[n] = outcome == RS_CACHE_STORED;
            }
            for (uint64_t n = 0; n < 4; n++) CHECK(has(n, n == 2 ? 20 << 20 : 100 * n) == stored[n]);
            end();
        }
    }
}

/* ---- The header ---- */

static rs_status reopen(void) {
    rs_cache out;
    rs_cache_layout layout;
    rs_buffer label = {0};
    uint64_t n;
    int fd = -1;
    if (rs_os_reopen_writable(cache.fd, &fd, &err) != RS_OK) return RS_E_SYS;
    const rs_status code = rs_cache_open(fd, &out, &err);
    if (code == RS_OK) {
        rs_cache_close(&out);
    } else {
        (void)close(fd);
    }
    CHECK(rs_cache_inspect(cache.fd, &layout, &label, NULL) == code);
    CHECK(rs_cache_count_file(cache.fd, &n, NULL) == code);
    rs_buffer_clear(&label);
    return code;
}

TEST(test_the_header) {
    uint8_t head[RS_CACHE_HEADER];
    rs_cache_layout layout;
    rs_buffer label = {0};
    REQUIRE_OK(begin(77, LIMIT), &err);
    REQUIRE_OK(rs_cache_inspect(cache.fd, &layout, &label, &err), &err);
    CHECK(layout.slots == 77 && layout.limit_bytes == LIMIT && label.size_bytes == 5);
    CHECK(memcmp(label.data, "label", 5) == 0);
    rs_buffer_clear(&label);
    read_at(0, head, sizeof head);
    for (uint64_t i = 0; i < sizeof head; i++) {
        const uint8_t wrong = head[i] ^ 0x40;
        write_at(i, &wrong, 1);
        CHECK_CODE(reopen(), i < 8 ? RS_E_FMT_MAGIC : i < 12 ? RS_E_FMT_VERSION : RS_E_FMT_CHECKSUM, &err);
        write_at(i, &head[i], 1);
    }
    CHECK_OK(reopen(), &err);
    end();
}

/* A header with a number out of range is refused, even with a valid checksum. */
TEST(test_numbers_of_the_header) {
    static const struct {
        const char *what;
        uint64_t offset, number;
        rs_status code;
    } rows[] = {
        {"slots", 16, (uint64_t)RS_CACHE_SLOTS_MOST + 1, RS_E_FMT_VALUE},
        {"all bits of slots", 16, UINT64_MAX, RS_E_FMT_VALUE},
        {"limit", 24, ((uint64_t)1 << 43) + 1, RS_E_FMT_VALUE},
        {"all bits of limit", 24, UINT64_MAX, RS_E_FMT_VALUE},
        {"segment", 72, 0, RS_E_FMT_VALUE},
        {"segment and one", 72, (1 << 17) + 1, RS_E_FMT_VALUE},
        {"label", 64, RS_CACHE_LABEL_MOST + 1, RS_E_FMT_VALUE},
        {"all bits of label", 64, UINT32_MAX, RS_E_FMT_VALUE},
    };
    EACH_NAMED (i, rows) {
        uint8_t head[RS_CACHE_HEADER];
        REQUIRE_OK(begin(77, LIMIT), &err);
        read_at(0, head, sizeof head);
        rs_store_u64(head + rows[i].offset, rows[i].number);
        rs_store_u32(head + RS_CACHE_HEADER - 4, rs_crc32c(0, head, RS_CACHE_HEADER - 4));
        write_at(0, head, sizeof head);
        CHECK_CODE(reopen(), rows[i].code, &err);
        end();
    }
}

TEST(test_a_cut_file) {
    rs_cache_outcome outcome;
    rs_cache_value value;
    uint64_t position = 0, table_bytes, n;
    bool found, equal;
    REQUIRE_OK(begin(0, LIMIT), &err);
    CHECK(put(1, 100) == RS_CACHE_STORED);
    CHECK(ftruncate(cache.fd, (off_t)cache.layout.table_end + 8) == 0);
    CHECK_CODE(get(1, 100, &found, &equal), RS_E_FMT_VALUE, &err);
    const uint64_t sizes[] = {cache.layout.table_end - 1, RS_CACHE_HEADER, 1, 0};
    EACH (i, sizes) {
        CHECK(ftruncate(cache.fd, (off_t)sizes[i]) == 0);
        CHECK_CODE(get(1, 100, &found, &equal), RS_E_FMT_TRUNCATED, &err);
        CHECK_CODE(put_with(&arena, 2, 100, &outcome), RS_E_FMT_TRUNCATED, &err);
        CHECK_CODE(rs_cache_scan(&cache, &position, &found, &value, &err), RS_E_FMT_TRUNCATED, &err);
        CHECK_CODE(rs_cache_count_file(cache.fd, &n, &err), RS_E_FMT_TRUNCATED, &err);
        CHECK(rs_cache_count(&cache, &table_bytes) == 0 && rs_cache_used(&cache) == 0);
        CHECK(rs_cache_rows(&cache) == NULL && rs_cache_claim_row(&cache, 1, 1) == NULL);
        CHECK(rs_cache_admits(&cache, 1));
        CHECK_CODE(reopen(), RS_E_FMT_TRUNCATED, &err);
    }
    end();
}

/* ---- Sealed caches ---- */

enum { N_SEALED = 200 };

/* Stores the any value of a str of 300 n bytes in slot n. */
static rs_cache_outcome put_str(uint64_t n) {
    static uint8_t body[5 + 300 * N_SEALED];
    rs_cache_outcome outcome = RS_CACHE_FULL;
    body[0] = RS_FMT_TAG_STR1;
    const size_t head = 1 + rs_put_varint(body + 1, 300 * n);
    memset(body + head, 'a' + (int)(n % 20), (size_t)(300 * n));
    const rs_cache_value value = {.hash = n, .body = rs_slice_of(body, head + (size_t)(300 * n))};
    CHECK_OK(rs_cache_put(&cache, &arena, &value, &outcome, &err), &err);
    return outcome;
}

static rs_status seal_all(uint64_t n) {
    static rs_cache_value values[N_SEALED];
    const uint8_t label[] = {1, 'a', 1, 'b'};
    uint64_t position = 0;
    bool found = true;
    for (uint64_t i = 0; i < n && found; i++) {
        CHECK_OK(rs_cache_scan(&cache, &position, &found, &values[i], &err), &err);
    }
    rs_cache_set_state(&cache, RS_CACHE_SEALING);
    return rs_cache_seal(&cache, &arena, values, n, rs_slice_of(NULL, 0), rs_slice_of(label, sizeof label), 1, NULL,
                         &err);
}

TEST(test_a_sealed_cache_is_a_segment) {
    rs_segment segment;
    rs_store store;
    rs_record record;
    bool locked;
    REQUIRE_OK(begin(N_SEALED, LIMIT), &err);
    for (uint64_t n = N_SEALED; n-- > 0;) CHECK(put_str(n) == RS_CACHE_STORED);
    CHECK_OK(rs_cache_try_lock_seal(&cache, &arena, &locked, &err), &err);
    CHECK(locked && rs_cache_get_state(&cache) == RS_CACHE_STORING);
    REQUIRE_OK(seal_all(N_SEALED), &err);
    CHECK(rs_cache_get_state(&cache) == RS_CACHE_SEALED && put_str(3) == RS_CACHE_FULL);
    REQUIRE_OK(rs_segment_open_path(&segment, at("cache"), true, &err), &err);
    REQUIRE_OK(rs_store_open(&store, rs_slice_of(segment.data, segment.size_bytes), NULL, &err), &err);
    CHECK_U64(store.header.n_records, N_SEALED);
    for (uint64_t n = 0; n < N_SEALED; n++) {
        REQUIRE_OK(rs_store_find(&store, n, &record, &err), &err);
        CHECK(rs_slice_left(&record.bytes) >= 300 * n && record.bytes.ptr[0] == RS_FMT_TAG_STR1);
        CHECK(n == 0 || record.bytes.end[-1] == 'a' + (int)(n % 20));
    }
    rs_store_close(&store);
    rs_segment_close(&segment);
    const uint64_t segment_at = cache.layout.segment;
    CHECK(ftruncate(cache.fd, (off_t)segment_at) == 0);
    CHECK_CODE(rs_segment_open_path(&segment, at("cache"), true, &err), RS_E_FMT_TRUNCATED, &err);
    const uint64_t wrong[] = {segment_at + 64, segment_at - 1, UINT64_MAX};
    EACH (i, wrong) {
        uint8_t bytes[8];
        rs_store_u64(bytes, wrong[i]);
        write_at(72, bytes, 8);
        CHECK_CODE(rs_segment_open_path(&segment, at("cache"), true, &err), RS_E_FMT_VALUE, &err);
    }
    end();
}

TEST(test_damaged_values_are_not_sealed) {
    const uint8_t bytes_after_it = 0xFF, too_long = 9;
    REQUIRE_OK(begin(1, LIMIT), &err);
    CHECK(put_str(0) == RS_CACHE_STORED);
    write_at(cache.layout.table_end + HEAD + 1, &too_long, 1);
    CHECK_CODE(seal_all(1), RS_E_FMT_TRUNCATED, &err);
    write_at(cache.layout.table_end + HEAD, &bytes_after_it, 1);
    CHECK_CODE(seal_all(1), RS_E_FMT_TRAILING, &err);
    CHECK(rs_cache_get_state(&cache) == RS_CACHE_SEALING);
    CHECK(put_str(0) == RS_CACHE_EXISTS && rs_cache_get_state(&cache) == RS_CACHE_STORING);
    end();
}

TEST(test_limits_of_creation) {
    char label[RS_CACHE_LABEL_MOST + 2];
    memset(label, 'x', sizeof label - 1);
    label[sizeof label - 1] = 0;
    CHECK_CODE(create((uint64_t)RS_CACHE_SLOTS_MOST + 1, LIMIT, ""), RS_E_ARG_RANGE, &err);
    CHECK_CODE(create(1, ((uint64_t)1 << 43) + 1, ""), RS_E_ARG_RANGE, &err);
    CHECK_CODE(create(1, LIMIT, label), RS_E_ARG_RANGE, &err);
    label[RS_CACHE_LABEL_MOST] = 0;
    REQUIRE_OK(create(1, LIMIT, label), &err);
    rs_cache_close(&cache);
    rs_cache_close(&cache);
}

/* ---- rs_os_shared.c ---- */

TEST(test_reserved_space) {
    struct stat st;
    uint8_t *writable, byte = 7;
    const uint8_t *data;
    int fd = open(at("space"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(pwrite(fd, &byte, 1, 5) == 1);
    REQUIRE_OK(rs_os_allocate(fd, 0, 1 << 20, &err), &err);
    REQUIRE_OK(rs_os_allocate(fd, 9, 9, &err), &err);
    CHECK(fstat(fd, &st) == 0 && st.st_size == 1 << 20);
#if defined(__linux__)
    CHECK(st.st_blocks * 512 >= 1 << 20);
#endif
    CHECK_CODE(rs_os_allocate(fd, 9, 8, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_os_allocate(fd, 0, UINT64_MAX, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_os_map_writable(fd, 0, &writable, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_os_map_from(fd, UINT64_MAX, 1, &data, &err), RS_E_ARG_RANGE, &err);
    REQUIRE_OK(rs_os_map_writable(fd, 1 << 20, &writable, &err), &err);
    REQUIRE_OK(rs_os_map_from(fd, 1 << 16, 1 << 16, &data, &err), &err);
    CHECK_U64(writable[5], 7);
    writable[(1 << 16) + 3] = 9;
    CHECK_U64(data[3], 9);
    rs_os_unmap(data, 1 << 16);
    rs_os_unmap(writable, 1 << 20);
    CHECK(!rs_os_is_network(fd));
    rs_os_close(&fd);
    CHECK_CODE(rs_os_allocate(-1, 0, 1, &err), RS_E_SYS, &err);
    CHECK_CODE(rs_os_map_writable(-1, 1, &writable, &err), RS_E_SYS, &err);
    CHECK_CODE(rs_os_reopen_writable(-1, &fd, &err), RS_E_SYS, &err);
}

TEST(test_range_locks) {
    bool locked = false;
    int one = open(at("space"), O_RDWR | O_CLOEXEC), other = -1;
    if (rs_os_has_range_locks()) {
        REQUIRE_OK(rs_os_reopen_writable(one, &other, &err), &err);
        CHECK_OK(rs_os_try_lock_range(one, 10, 5, &locked, &err), &err);
        CHECK(locked);
        CHECK_OK(rs_os_try_lock_range(other, 14, 1, &locked, &err), &err);
        CHECK(!locked);
        CHECK_OK(rs_os_try_lock_range(other, 15, 1, &locked, &err), &err);
        CHECK(locked);
        rs_os_unlock_range(one, 14, 1);
        CHECK_OK(rs_os_try_lock_range(other, 14, 1, &locked, &err), &err);
        CHECK(locked);
        rs_os_close(&one);
        CHECK_OK(rs_os_try_lock_range(other, 10, 4, &locked, &err), &err);
        CHECK(locked);
        rs_os_close(&other);
        CHECK_CODE(rs_os_try_lock_range(-1, 0, 1, &locked, &err), RS_E_SYS, &err);
    }
    rs_os_close(&one);
}

TEST(test_running_processes) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    CHECK(rs_os_is_running(child)); /* not reaped */
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(!rs_os_is_running(child));
    CHECK(rs_os_is_running(getpid()) && rs_os_is_running(1));
    CHECK(!rs_os_is_running(0) && !rs_os_is_running(-1) && !rs_os_is_running(INT64_MAX));
}

int main(void) {
    rs_test_run();
    folder_end();
    return rs_test_finish();
}
