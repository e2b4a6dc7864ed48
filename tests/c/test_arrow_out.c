/* test_arrow_out.c: records as Arrow batches: places taken one by one, mixed types, stops, full batches.
 * prop/test_ways_out.py compares the values with pyarrow. */
#include "rs_batches.h"
#include "rs_columns.h"

enum { N = 5000 };

/* {"i": i - 50, "f": i / 3, "t": text, "l": [i] * (i % 3), "o": None or "x", "s": {"a": i}, "late": i, from 3000 on} */
RECORD(add) {
    char text[32];
    make_head(raw, 0x0F, i < 3000 ? 6 : 7);
    make_str(raw, "i"), make_int(raw, (int64_t)i - 50);
    make_str(raw, "f"), make_float(raw, (double)i / 3);
    (void)snprintf(text, sizeof text, "text %llu", (unsigned long long)(i * 7 % 1000));
    make_str(raw, "t"), make_str(raw, text);
    make_str(raw, "l"), make_head(raw, 0x0D, i % 3);
    for (uint64_t k = 0; k < i % 3; k++) make_int(raw, (int64_t)i);
    make_str(raw, "o");
    if (i % 4 == 0) make_tag(raw, 0);
    else make_str(raw, "x");
    make_str(raw, "s"), make_head(raw, 0x0F, 1), make_str(raw, "a"), make_int(raw, (int64_t)i);
    if (i >= 3000) make_str(raw, "late"), make_int(raw, (int64_t)i);
}

/* "k" is an int in even records and a str in odd ones, and "l" a list of such a value. */
RECORD(add_mixed) {
    make_head(raw, 0x0F, 3);
    make_str(raw, "i"), make_int(raw, (int64_t)i);
    make_str(raw, "k");
    if (i % 2 == 0) make_int(raw, (int64_t)i);
    else make_str(raw, "odd");
    make_str(raw, "l"), make_head(raw, 0x0D, 1);
    if (i % 2 == 0) make_int(raw, (int64_t)i);
    else make_str(raw, "odd");
}

RECORD(add_surrogate) {
    static const uint8_t lone[] = {0x80, 0xDC};
    make_head(raw, 0x0F, 1), make_str(raw, "t");
    if (i == 7) make_tag(raw, 0x0A), make_varint(raw, 1), make_bytes(raw, lone, 2);
    else make_str(raw, "plain");
}

/* Compares row k of a batch with record i of `add`. */
static bool same_row(const struct ArrowArray *batch, uint64_t k, uint64_t i) {
    struct ArrowArray **c = batch->children;
    char text[32];
    bool ok =
        int_at(c[0], k) == (int64_t)i - 50 && rs_load_f64((const uint8_t *)c[1]->buffers[1] + 8 * k) == (double)i / 3;
    (void)snprintf(text, sizeof text, "text %llu", (unsigned long long)(i * 7 % 1000));
    ok = ok && is_text(c[2], k, text) && offset_at(c[3], k + 1) - offset_at(c[3], k) == i % 3;
    for (uint32_t j = offset_at(c[3], k); ok && j < offset_at(c[3], k + 1); j++)
        ok = int_at(c[3]->children[0], j) == (int64_t)i;
    ok = ok && is_valid(c[4], k) == (i % 4 != 0) && (i % 4 == 0 || is_text(c[4], k, "x"));
    ok = ok && int_at(c[5]->children[0], k) == (int64_t)i;
    return ok && is_valid(c[6], k) == (i >= 3000) && (i < 3000 || int_at(c[6], k) == (int64_t)i);
}

/* Looks up the places of records 2900 to 3099 and takes them, as the Python binding does if only Python can compare the
 * keys. */
static void take_some(batch_export *o) {
    for (uint64_t i = 2900; i < 3100; i++) {
        rs_record record;
        rs_place place;
        REQUIRE_OK(rs_store_find(&o->store, i, &record, &err), &err);
        rs_cursor cursor = rs_store_cursor(&o->store, &record);
        REQUIRE_OK(rs_path_begin(&cursor, record.tree->nodes, &place, &err), &err);
        REQUIRE_OK(rs_arrow_out_take(&o->out, &cursor, &place, &err), &err);
    }
}

static void check_taken(bool compress) {
    static batch_export o;
    struct ArrowArray batch = {0};
    bool whole = false, ok = true;
    REQUIRE(open_built(&o, build(add, N, compress)));
    take_some(&o);
    CHECK_OK(rs_arrow_out_resolve(&o.out, &whole, &err), &err);
    CHECK(whole);
    CHECK_OK(rs_arrow_out_settle(&o.out, 200, &err), &err);
    take_some(&o);
    if (CHECK_OK(rs_arrow_out_batch(&o.out, 0, &batch, &err), &err)) {
        CHECK_U64(batch.length, 200);
        for (uint64_t i = 0; ok && i < 200; i++) ok = same_row(&batch, i, 2900 + i);
        CHECK(ok);
        batch.release(&batch);
    }
    close_over(&o);
}

TEST(test_taken) { check_taken(true); }
TEST(test_taken_of_any) { check_taken(false); }

TEST(test_mixed_types) {
    static batch_export o;
    struct ArrowArray batch = {0};
    bool whole;
    REQUIRE(open_built(&o, build(add_mixed, 1000, true)));
    CHECK_OK(infer(&o, 0, 1, 1000, &whole), &err);
    CHECK(!whole && o.out.root->children[1]->problem == RS_ARROW_PROBLEM_MIXED);
    CHECK(o.out.root->children[0]->problem == RS_ARROW_PROBLEM_NONE);
    /* The even records have only ints. */
    rs_arrow_out_infer_all(&o.out);
    CHECK_OK(infer(&o, 0, 2, 500, &whole), &err);
    CHECK(whole && o.out.root->children[1]->kind == RS_ARROW_KIND_INT64);
    CHECK_OK(rs_arrow_out_settle(&o.out, 500, &err), &err);
    {
        rs_arrow_stop stop;
        CHECK_OK(run(&o, NULL, 0, 2, 500, &stop), &err);
        CHECK_OK(rs_arrow_out_batch(&o.out, 0, &batch, &err), &err);
        CHECK(batch.length == 500 && int_at(batch.children[1], 499) == 998);
        batch.release(&batch);
        /* A record whose type differs from all records seen during inference is an error, not a value. */
        CHECK_CODE(run(&o, NULL, 0, 1, 500, &stop), RS_E_FMT_VALUE, &err);
        CHECK_U64(stop.index, 1);
    }
    close_over(&o);
}

TEST(test_stops) {
    static batch_export o;
    struct ArrowArray batch = {0};
    rs_arrow_stop stop = {0};
    static const int64_t wrong[] = {0, 5, N, 1};
    built b = build(add, N, true);
    bool whole;
    REQUIRE(b.data != NULL);
    REQUIRE_OK(open_over(&o, &b), &err);
    CHECK_OK(rs_arrow_out_run(&o.out, &o.source, NULL, 0, 1, N, &stop, &err), &err);
    CHECK(stop.why == RS_ARROW_BLOCK && stop.block == 0 && stop.done == 0);
    CHECK_OK(infer(&o, 0, 1, N, &whole), &err);
    CHECK_OK(rs_arrow_out_settle(&o.out, N, &err), &err);
    CHECK_CODE(run(&o, wrong, 0, 1, 4, &stop), RS_E_ARG_RANGE, &err);
    CHECK_U64(stop.done, 2);
    close_over(&o);
    built_clear(&b);

    b = build(add_surrogate, 100, true);
    REQUIRE(b.data != NULL);
    REQUIRE_OK(open_over(&o, &b), &err);
    CHECK_CODE(read(&o, NULL, 0, 1, 100, &batch), RS_E_ARG_TEXT, &err);
    CHECK_OK(rs_arrow_begin(o.out.root, 0, &err), &err);
    CHECK_CODE(run(&o, NULL, 2, 1, 90, &stop), RS_E_ARG_TEXT, &err);
    CHECK_U64(stop.index, 7);
    close_over(&o);
    built_clear(&b);
}

/* A full batch ends before the last record. Stores of huge records get offsets of 64 bits. */
TEST(test_full_batches) {
    static batch_export o;
    struct ArrowSchema schema = {0};
    rs_arrow_stop stop;
    uint64_t at = 0, batches = 0;
    bool whole, ok = true;
    REQUIRE(open_built(&o, build(add, N, true)));
    CHECK_OK(infer(&o, 0, 1, N, &whole), &err);
    o.out.batch_bytes = 40000;
    o.out.wide = true;
    CHECK_OK(rs_arrow_out_settle(&o.out, N, &err), &err);
    while (ok && at < N) {
        struct ArrowArray batch = {0};
        if (!CHECK_OK(run(&o, NULL, (int64_t)at, 1, N - at, &stop), &err)) break;
        CHECK(stop.why == (at + stop.done < N ? RS_ARROW_FULL : RS_ARROW_DONE));
        if (!CHECK_OK(rs_arrow_out_batch(&o.out, N, &batch, &err), &err)) break;
        ok = CHECK_U64(batch.length, stop.done) && batch.length > 0;
        for (uint64_t k = 0; ok && k < stop.done; k++) {
            const struct ArrowArray *lists = batch.children[3];
            uint64_t i = at + k;
            ok = int_at(batch.children[0], k) == (int64_t)i - 50 &&
                 (uint64_t)(int_at(lists, k + 1) - int_at(lists, k)) == i % 3;
        }
        batch.release(&batch);
        at += stop.done;
        batches++;
    }
    CHECK(ok && batches > 5);
    CHECK_OK(rs_arrow_export_schema(o.out.root, &schema, &err), &err);
    CHECK_STR(schema.children[2]->format, "U");
    CHECK_STR(schema.children[3]->format, "+L");
    schema.release(&schema);
    close_over(&o);
}
