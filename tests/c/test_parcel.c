/* test_parcel.c: records sent through parcels give the same store; malformed parcels are refused. */
#include "rs_built.h"
#include "write/rs_parcel.h"
#include "write/rs_builder.h"

static rs_error err;

enum { ARRAY = RS_FMT_ARRAY_INLINE + 100 };

/* Puts an ndarray of int8 whose data is in `arrays`. Sets *raw_off to the offset in `raw` of the data's position. */
static void put_array(rs_buffer *raw, rs_buffer *arrays, uint64_t i, uint64_t *raw_off) {
    uint8_t data[ARRAY + 64];
    size_t n = ARRAY + i % 64, gap = (size_t)(rs_align_up(arrays->size_bytes, 64) - arrays->size_bytes);
    memset(data, (int)(i % 250), n);
    make_tag(raw, 0x10), make_tag(raw, 0), make_tag(raw, 2), make_tag(raw, 1);
    if (rs_buffer_append_varint(raw, n, NULL) != RS_OK) abort();
    if (rs_buffer_append_zeros(arrays, gap, NULL) != RS_OK) abort();
    *raw_off = raw->size_bytes;
    if (rs_buffer_append_varint(raw, arrays->size_bytes / 64, NULL) != RS_OK) abort();
    if (rs_buffer_append(arrays, data, n, NULL) != RS_OK) abort();
}

/* Puts record i: a list of i % 3 arrays, each followed by i. */
static void put_record(uint64_t i, rs_buffer *raw, rs_buffer *arrays, rs_buffer *array_slots) {
    uint64_t slot[2];
    make_head(raw, 0x0D, i % 3 * 2);
    for (uint64_t k = 0; k < i % 3; k++) {
        put_array(raw, arrays, i + k, &slot[0]);
        slot[1] = ARRAY + (i + k) % 64;
        if (array_slots != NULL && rs_buffer_append(array_slots, slot, sizeof slot, NULL) != RS_OK) abort();
        make_int(raw, (int64_t)i);
    }
}

static void add_direct(uint64_t i, rs_buffer *raw, rs_buffer *arrays) { put_record(i, raw, arrays, NULL); }

static void fill(rs_parcel *parcel, uint64_t from, uint64_t to) {
    for (; from < to; from++) {
        put_record(from, &parcel->raw, &parcel->arrays, &parcel->array_slots);
        REQUIRE_OK(rs_parcel_end_record(parcel, &err), &err);
    }
}

static uint8_t *pack(rs_parcel *parcel, size_t *n) {
    *n = rs_parcel_packed_size(parcel);
    uint8_t *out = (uint8_t *)malloc(*n);
    if (out == NULL) abort();
    rs_parcel_pack(parcel, out);
    CHECK(rs_parcel_size(parcel) == 0);
    return out;
}

/* Parcels of changing sizes, over more than one block. */
TEST(test_through_parcels) {
    rs_parcel parcel = {0};
    rs_segment_writer writer;
    rs_pipeline *pipeline;
    rs_builder builder;
    rs_segment segment;
    uint64_t n = 40000, step = 1, differ = 0;
    built direct = build(add_direct, n, true);
    REQUIRE(direct.data != NULL);
    REQUIRE_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    REQUIRE_OK(rs_builder_open(&builder, &writer, NULL, &err), &err);
    REQUIRE_OK(rs_pipeline_open(&pipeline, 2, &err), &err);
    builder.pipeline = pipeline;
    for (uint64_t i = 0; i < n; i += step, step = step * 3 % 1000 + 1) {
        rs_parcel_reader reader;
        size_t size;
        fill(&parcel, i, i + step < n ? i + step : n);
        uint8_t *packed = pack(&parcel, &size);
        REQUIRE_OK(rs_parcel_open(rs_slice_of(packed, size), &reader, &err), &err);
        REQUIRE_OK(rs_parcel_append_all(&reader, &builder, &err), &err);
        free(packed);
    }
    REQUIRE_OK(rs_builder_finish(&builder, &err), &err);
    rs_builder_close(&builder);
    rs_pipeline_close(pipeline);
    REQUIRE_OK(rs_segment_writer_finish(&writer, &segment, &err), &err);
    if (CHECK_U64(segment.size_bytes, direct.size)) {
        for (uint64_t i = RS_FMT_HEADER_SIZE; i < direct.size; i++) differ += segment.data[i] != direct.data[i];
        CHECK_U64(differ, 0);
    }
    rs_segment_close(&segment);
    rs_parcel_clear(&parcel);
    built_clear(&direct);
}

TEST(test_refused_and_dropped) {
    static const uint8_t cut[] = {0x0D, 2, 0x90};
    rs_parcel parcel = {0};
    rs_parcel_reader reader;
    rs_buffer raw = {0}, arrays = {0}, expected = {0}, wanted_arrays = {0};
    size_t arrays_mark, slots_mark, n;
    fill(&parcel, 0, 3);
    arrays_mark = parcel.arrays.size_bytes, slots_mark = parcel.array_slots.size_bytes;
    make_bytes(&parcel.raw, cut, sizeof cut);
    CHECK_CODE(rs_parcel_end_record(&parcel, &err), RS_E_FMT_TRUNCATED, &err);
    CHECK_U64(err.record, 3);
    rs_parcel_drop_record(&parcel, arrays_mark, slots_mark);
    fill(&parcel, 5, 6);
    rs_parcel_pop_record(&parcel, arrays_mark, slots_mark);
    fill(&parcel, 3, 4);
    uint8_t *packed = pack(&parcel, &n);
    REQUIRE_OK(rs_parcel_open(rs_slice_of(packed, n), &reader, &err), &err);
    CHECK_U64(reader.n_records, 4);
    while (reader.next < 4) {
        put_record(reader.next, &expected, &wanted_arrays, NULL);
        REQUIRE_OK(rs_parcel_next(&reader, &raw, &arrays, &err), &err);
    }
    CHECK(raw.size_bytes == expected.size_bytes && memcmp(raw.data, expected.data, raw.size_bytes) == 0);
    CHECK(arrays.size_bytes == wanted_arrays.size_bytes &&
          memcmp(arrays.data, wanted_arrays.data, arrays.size_bytes) == 0);
    free(packed);
    rs_buffer_clear(&raw), rs_buffer_clear(&arrays), rs_buffer_clear(&expected), rs_buffer_clear(&wanted_arrays);
    rs_parcel_clear(&parcel);
}

static rs_status read_all(const uint8_t *packed, size_t n) {
    rs_buffer raw = {0}, arrays = {0};
    rs_parcel_reader reader;
    uint8_t *exact = make_exact(packed, n);
    rs_status status = rs_parcel_open(rs_slice_of(exact, n), &reader, &err);
    while (status == RS_OK && reader.next < reader.n_records) status = rs_parcel_next(&reader, &raw, &arrays, &err);
    rs_buffer_clear(&raw);
    rs_buffer_clear(&arrays);
    free(exact);
    return status;
}

/* A parcel that is cut anywhere is refused. A parcel with any number changed is refused or gives records, and nothing
 * beyond its end is read. */
TEST(test_pieces_that_do_not_hold_together) {
    static const uint64_t odd[] = {0, 1, 5, 0x7F, UINT64_MAX, UINT64_MAX / 8, UINT64_MAX / 16 + 1, (uint64_t)1 << 63};
    rs_parcel parcel = {0};
    size_t n, refused = 0;
    fill(&parcel, 0, 6);
    size_t numbers = 32 + 6 * 8 + parcel.array_slots.size_bytes;
    uint8_t *packed = pack(&parcel, &n);
    CHECK_OK(read_all(packed, n), &err);
    for (size_t i = 0; i < n; i++) CHECK_CODE(read_all(packed, i), RS_E_FMT_TRUNCATED, &err);
    for (size_t i = 0; i < numbers; i += 8) {
        uint64_t before = rs_load_u64(packed + i);
        EACH (k, odd) {
            rs_store_u64(packed + i, odd[k]);
            rs_status status = read_all(packed, n);
            CHECK(status == RS_OK || status == RS_E_FMT_TRUNCATED || status == RS_E_FMT_VALUE);
            refused += status != RS_OK;
        }
        rs_store_u64(packed + i, before);
    }
    CHECK(refused > numbers / 8 * 4);
    free(packed);
    rs_parcel_clear(&parcel);
}
