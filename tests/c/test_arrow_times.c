/* test_arrow_times.c: intervals, and times at the limits of a record. Other times are in test_arrow_in.c. */
#include "rs_arrow_rows.h"
#include "arrow/rs_arrow_times.h"

static rs_error err;

/* Writes a value of zeros in a record that may have `left` more values. */
static rs_status put_one(unsigned kind, unsigned width, uint64_t left) {
    static const uint8_t zeros[16] = {0};
    rs_arrow_node node = {0};
    rs_arrow_schema schema = {0};
    rs_arrow_column column = {0};
    rs_arrow_writer writer = {0};
    rs_buffer raw = {0};
    if (rs_buffer_reserve(&raw, 256, NULL) != RS_OK) abort();
    node.kind = (uint8_t)kind, node.width = (uint8_t)width, node.zone = RS_ARROW_NO_ZONE;
    node.parent = RS_ARROW_NO_NODE;
    schema.nodes = &node, schema.n_nodes = 1;
    column.first = zeros, column.length = 1;
    writer.schema = &schema, writer.columns = &column, writer.raw = &raw, writer.err = &err;
    writer.end = raw.data + raw.capacity_bytes, writer.values_left = left;
    uint8_t *end = rs_arrow_put_time(&writer, 0, 0, raw.data);
    CHECK((end == NULL) == (writer.status != RS_OK));
    rs_status status = writer.status;
    rs_buffer_clear(&raw);
    return status;
}

/* An interval is a tuple of three, and a record of more values than a reader accepts is refused. */
TEST(test_room_for_values) {
    static const unsigned widths[] = {4, 8, 16};
    for (unsigned i = 0; i < 3; i++) {
        for (uint64_t left = 0; left < 6; left++) {
            CHECK_CODE(put_one(RS_ARROW_INTERVAL, widths[i], left), left < 3 ? RS_E_IN_TYPE : RS_OK, &err);
            if (left < 3) CHECK(strcmp(err.message, "$: " RS_ARROW_TOO_MANY) == 0);
        }
    }
}

static void put_triple(rs_buffer *out, int64_t months, int64_t days, int64_t nanoseconds) {
    make_head(out, 0x0E, 3), make_int(out, months), make_int(out, days), make_int(out, nanoseconds);
}

/* An interval of any width becomes (months, days, nanoseconds). */
TEST(test_intervals) {
    static const int32_t months[] = {14, -3}, days[] = {2, 86400001, -7, -1};
    static const uint32_t all[] = {14, UINT32_MAX, 5, 1, UINT32_MAX, 2, UINT32_MAX, UINT32_MAX};
    rs_buffer expected = {0};
    put_triple(&expected, 14, 0, 0), put_triple(&expected, -3, 0, 0);
    check_rows(arrow_set(arrow_make("tiM", "", 2, 2), 1, months, sizeof months), &expected);
    put_triple(&expected, 0, 2, INT64_C(86400001) * 1000000), put_triple(&expected, 0, -7, -1000000);
    check_rows(arrow_set(arrow_make("tiD", "", 2, 2), 1, days, sizeof days), &expected);
    put_triple(&expected, 14, -1, (INT64_C(1) << 32) + 5), put_triple(&expected, -1, 2, -1);
    check_rows(arrow_set(arrow_make("tin", "", 2, 2), 1, all, sizeof all), &expected);
    arrow_drop();
}

/* The depth of a record is the depth of its deepest value, even if that is not the last: here an interval follows a
 * list of intervals. */
TEST(test_depth_of_a_record) {
    static const int32_t months[] = {14, -3}, ends[] = {0, 1, 2};
    arrow_made *list = arrow_set(arrow_make("+l", "a", 2, 2), 1, ends, sizeof ends), *m = arrow_make("+s", "", 2, 1);
    rs_segment_writer writer;
    rs_builder builder;
    rs_arrow_in in = {0};
    rs_scan scan = {0};
    arrow_add(list, arrow_set(arrow_make("tiM", "item", 2, 2), 1, months, sizeof months));
    arrow_add(arrow_add(m, list), arrow_set(arrow_make("tiM", "b", 2, 2), 1, months, sizeof months));
    REQUIRE_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    REQUIRE_OK(rs_builder_open(&builder, &writer, NULL, &err), &err);
    REQUIRE_OK(rs_arrow_in_open(&in, &m->schema, &PLAIN, &err), &err);
    REQUIRE_OK(rs_arrow_in_bind(&in, &m->array, &err), &err);
    REQUIRE_OK(rs_arrow_in_append(&in, &builder, 1, &err), &err);
    CHECK_OK(rs_scan_record(&scan, rs_slice_of(builder.raw.data, builder.raw.size_bytes), 0, &err), &err);
    CHECK_U64(builder.scan.max_depth, 3);
    CHECK_U64(scan.max_depth, 3);
    CHECK_U64(builder.scan.max_values, scan.max_values);
    CHECK_U64(builder.scan.max_bytes, scan.max_bytes);
    rs_scan_clear(&scan);
    rs_builder_close(&builder);
    rs_segment_writer_abort(&writer);
    rs_arrow_in_close(&in);
    arrow_drop();
}
