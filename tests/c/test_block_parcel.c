/* test_block_parcel.c: blocks sent through parcels equal the blocks of one builder; malformed parcels are refused. */
#include "rs_built.h"
#include "write/rs_block_parcel.h"

#include <fcntl.h>
#include <unistd.h>

static rs_error err;

enum { N = 70000, WORDS = 900 };

/* A dict-coded str and an int, so that there are tables and trees. */
RECORD(put) {
    char word[24];
    int n = snprintf(word, sizeof word, "%llu of words", (unsigned long long)(i * i % WORDS));
    make_head(raw, 0x0D, 2);
    make_head(raw, 0x09, (uint64_t)n);
    make_bytes(raw, (const uint8_t *)word, (size_t)n);
    make_int(raw, (int64_t)i);
}

typedef struct side {
    rs_segment_writer writer;
    rs_builder builder;
    rs_pipeline *pipeline;
} side;

static void side_open(side *s, unsigned threads) {
    memset(s, 0, sizeof *s);
    REQUIRE_OK(rs_segment_writer_open(&s->writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    REQUIRE_OK(rs_builder_open(&s->builder, &s->writer, NULL, &err), &err);
    if (threads > 0) REQUIRE_OK(rs_pipeline_open(&s->pipeline, threads, &err), &err);
    s->builder.pipeline = s->pipeline;
}

static void side_close(side *s) {
    rs_builder_close(&s->builder);
    rs_pipeline_close(s->pipeline);
    rs_segment_writer_abort(&s->writer);
}

/* Adds records, and places each block as it is written; with `at_end`, places all blocks at the end. */
static void send(side *from, side *to, rs_placing *placing, uint64_t n, bool at_end) {
    rs_builder *source = &from->builder, *target = &to->builder;
    rs_buffer out = {0};
    for (uint64_t i = 0; i <= n; i++) {
        bool last = i == n;
        if (!last) {
            put(i, &source->raw, &source->arrays);
            REQUIRE_OK(rs_builder_end_record(source, &err), &err);
        }
        if (!last && !rs_builder_is_full(source)) continue;
        REQUIRE_OK(last ? rs_builder_flush(source, &err) : rs_builder_flush_beside(source, &err), &err);
        if (at_end && !last) continue;
        REQUIRE_OK(rs_block_parcel_take(&source, 1, &out, &err), &err);
        if (out.size_bytes == 0) continue;
        REQUIRE_OK(rs_block_parcel_place(rs_slice_of(out.data, out.size_bytes), &target, placing, 1, &err), &err);
        out.size_bytes = 0;
    }
    rs_buffer_clear(&out);
}

/* Returns the segment of a builder that gets all blocks of another as parcels. */
static built through(unsigned threads, bool at_end) {
    built out = {NULL, 0};
    side from, to;
    rs_placing placing = {0};
    side_open(&from, threads);
    side_open(&to, 0);
    send(&from, &to, &placing, N, at_end);
    CHECK_U64(to.builder.n_records, N);
    if (CHECK_OK(rs_builder_finish(&to.builder, &err), &err)) out = built_finish(&to.writer);
    rs_placing_clear(&placing);
    side_close(&from);
    side_close(&to);
    return out;
}

TEST(test_as_one_builder) {
    static const struct {
        unsigned threads;
        bool at_end;
    } ways[] = {{0, false}, {3, false}, {1, true}};
    built direct = build(put, N, true);
    REQUIRE(direct.data != NULL);
    EACH (i, ways) {
        built placed = through(ways[i].threads, ways[i].at_end);
        if (CHECK_U64(placed.size, direct.size)) { /* the headers have an id and a time */
            CHECK(memcmp(placed.data + RS_FMT_HEADER_SIZE, direct.data + RS_FMT_HEADER_SIZE,
                         placed.size - RS_FMT_HEADER_SIZE) == 0);
        }
        built_clear(&placed);
    }
    built_clear(&direct);
}

RECORD(put_int) { make_int(raw, (int64_t)(i * i)); }

/* A write that fails in a thread ends the waits of the caller. */
TEST(test_failed_write) {
    side from;
    rs_builder *source = &from.builder;
    rs_buffer out = {0};
    int read_only = open("/dev/null", O_RDONLY);
    side_open(&from, 1);
    REQUIRE(read_only >= 0 && dup2(read_only, from.writer.fd) >= 0);
    for (uint64_t i = 0; i < 20000; i++) {
        put_int(i, &source->raw, &source->arrays);
        REQUIRE_OK(rs_builder_end_record(source, &err), &err);
    }
    CHECK(rs_builder_flush(source, &err) >= RS_E_SYS);
    CHECK(rs_block_parcel_take(&source, 1, &out, &err) >= RS_E_SYS);
    rs_pipeline_hold(from.pipeline); /* the write may fail after take has read the status */
    rs_pipeline_release(from.pipeline);
    CHECK_U64(out.size_bytes, 0);
    close(read_only);
    side_close(&from);
}

static rs_status place_exact(side *to, const uint8_t *data, size_t n) {
    rs_builder *target = &to->builder;
    rs_placing placing = {0};
    uint8_t *exact = make_exact(data, n);
    rs_status status = rs_block_parcel_place(rs_slice_of(exact, n), &target, &placing, 1, &err);
    rs_placing_clear(&placing);
    free(exact);
    return status;
}

/* Changes two numbers in the head of a parcel so that its sections still add up to its size: it is refused. */
static void check_sum(side *to, rs_buffer *out, size_t first, uint64_t first_more, size_t second,
                      uint64_t second_more) {
    uint8_t head[256];
    memcpy(head, out->data, sizeof head);
    rs_store_u64(out->data + 16 + 8 * first, rs_load_u64(head + 16 + 8 * first) + first_more);
    rs_store_u64(out->data + 16 + 8 * second, rs_load_u64(head + 16 + 8 * second) + second_more);
    CHECK_CODE(place_exact(to, out->data, out->size_bytes), RS_E_FMT_VALUE, &err);
    memcpy(out->data, head, sizeof head);
}

/* The first number is the bytes of the offsets, the second the number of blocks, of 80 bytes each, the fifth the bytes
 * of the trees. */
static void check_sums(side *to, rs_buffer *out) {
    const uint64_t blocks = rs_load_u64(out->data + 16) / RS_FMT_BLOCK_SIZE + 1;
    check_sum(to, out, 0, 0 - blocks * RS_FMT_BLOCK_SIZE, 1, blocks); /* negative */
    check_sum(to, out, 0, 4, 4, (uint64_t)-4);                        /* not a multiple of 8 */
}

/* A truncated parcel is refused. A parcel with a changed byte is refused, or placed without reading beyond its end. */
TEST(test_broken) {
    side from, to;
    rs_builder *source = &from.builder;
    rs_buffer out = {0};
    size_t refused = 0;
    side_open(&from, 0);
    side_open(&to, 0);
    for (uint64_t i = 0; i < 2000; i++) {
        put(i, &source->raw, &source->arrays);
        REQUIRE_OK(rs_builder_end_record(source, &err), &err);
    }
    REQUIRE_OK(rs_builder_flush(source, &err), &err);
    REQUIRE_OK(rs_block_parcel_take(&source, 1, &out, &err), &err);
    for (size_t at = 0; at < out.size_bytes; at += 97) CHECK(place_exact(&to, out.data, at) != RS_OK);
    CHECK_U64(to.builder.n_records, 0);
    for (size_t at = 0; at < out.size_bytes; at += at < 256 ? 1 : 61) {
        uint8_t was = out.data[at];
        out.data[at] = (uint8_t)(was ^ (at % 2 == 0 ? 0xFF : 0x01));
        refused += place_exact(&to, out.data, out.size_bytes) != RS_OK;
        out.data[at] = was;
    }
    CHECK(refused > 60);
    check_sums(&to, &out);
    CHECK_OK(place_exact(&to, out.data, out.size_bytes), &err);
    rs_buffer_clear(&out);
    side_close(&from);
    side_close(&to);
}
