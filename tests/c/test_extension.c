/* test_extension.c: adding saved indexes to a finished segment without changing its records; refused parts. */
#include "rs_test.h"
#include "rs_saved.h"
#include "read/rs_store.h"

static rs_error err;

static int64_t key_mod_3(uint64_t i) { return (int64_t)(i % 3); }

enum { N = 50 };

TEST(test_label_and_order) {
    static const char label[] = "\x04name\x01x";
    rs_segment_writer writer;
    rs_extension extension;
    saved_bytes one = {0}, two = {0};
    rs_store before, after;
    built list, out = {NULL, 0};
    REQUIRE(saved_list(key_mod_3, N, label, &writer, &list));
    saved_make(&one, RS_FMT_SAVED_RECORDS, key_mod_3, N);
    saved_make(&two, RS_FMT_SAVED_GROUPS, key_mod_3, N);
    if (CHECK_OK(rs_extension_begin(&extension, &writer, built_slice(&list), &err), &err) &&
        CHECK_OK(rs_extension_add(&extension, &one.parts, &err), &err) &&
        CHECK_OK(rs_extension_add(&extension, &two.parts, &err), &err) &&
        CHECK_OK(rs_extension_finish(&extension, &err), &err)) {
        out = built_finish(&writer);
    }
    rs_extension_clear(&extension);
    if (out.data != NULL && CHECK_OK(rs_verify_segment(built_slice(&out), NULL, NULL, &err), &err) &&
        CHECK_OK(rs_store_open(&before, built_slice(&list), NULL, &err), &err)) {
        if (CHECK_OK(rs_store_open(&after, built_slice(&out), NULL, &err), &err)) {
            const rs_section *a = &before.directory.label, *b = &after.directory.label;
            CHECK_U64(after.directory.n_saved_indexes, 2);
            CHECK(a->size_bytes == b->size_bytes && b->count == 1 && a->crc == b->crc && b->off > a->off);
            CHECK(memcmp(list.data + a->off, out.data + b->off, a->size_bytes) == 0);
            CHECK(after.directory.saved_indexes[1].off > after.directory.saved_indexes[0].off);
            CHECK(b->off > after.directory.saved_indexes[1].off);
            CHECK(memcmp(before.header.segment_id, after.header.segment_id, 16) != 0);
            CHECK_U64(after.header.created_ns, before.header.created_ns);
            CHECK_U64(after.header.n_records, N);
            CHECK(memcmp(list.data + RS_FMT_HEADER_SIZE, out.data + RS_FMT_HEADER_SIZE, a->off - RS_FMT_HEADER_SIZE) ==
                  0); /* the records and their tables */
            CHECK_U64(after.header.segment_size, out.size);
            rs_store_close(&after);
        }
        rs_store_close(&before);
    }
    saved_clear(&one), saved_clear(&two);
    built_clear(&list), built_clear(&out);
}

/* The segment's earlier indexes stay the same, byte for byte. A segment has at most 16 indexes. */
TEST(test_more_indexes) {
    built b = saved_build(RS_FMT_SAVED_GROUPS, key_mod_3, N);
    rs_segment_writer writer;
    rs_extension extension;
    saved_bytes bytes = {0};
    rs_header header;
    rs_directory directory;
    REQUIRE(b.data != NULL);
    CHECK_OK(rs_header_read(built_slice(&b), NULL, &header, &err), &err);
    CHECK_OK(rs_directory_read(built_slice(&b), &header, 0, &directory, &err), &err);
    REQUIRE_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    CHECK_OK(rs_segment_writer_append(&writer, b.data, b.size, &err), &err);
    saved_make(&bytes, RS_FMT_SAVED_RECORDS, key_mod_3, N);
    CHECK_OK(rs_extension_begin(&extension, &writer, built_slice(&b), &err), &err);
    for (uint32_t i = 1; i < RS_FMT_SAVED_INDEXES; i++)
        CHECK_OK(rs_extension_add(&extension, &bytes.parts, &err), &err);
    CHECK_CODE(rs_extension_add(&extension, &bytes.parts, &err), RS_E_ARG_LIMIT, &err);
    CHECK_OK(rs_extension_finish(&extension, &err), &err);
    rs_extension_clear(&extension);
    built out = built_finish(&writer);
    if (out.data != NULL) {
        const rs_section *old = &directory.saved_indexes[0];
        CHECK(memcmp(b.data + old->off, out.data + old->off, old->size_bytes) == 0);
        CHECK_OK(rs_header_read(built_slice(&out), NULL, &header, &err), &err);
        CHECK_OK(rs_directory_read(built_slice(&out), &header, 0, &directory, &err), &err);
        CHECK_U64(directory.n_saved_indexes, 16);
        CHECK_CODE(rs_verify_segment(built_slice(&out), NULL, NULL, &err), RS_E_FMT_KEYS,
                   &err); /* one path many times */
    }
    saved_clear(&bytes);
    built_clear(&b), built_clear(&out);
}

TEST(test_parts_that_do_not_fit) {
    rs_segment_writer writer;
    rs_extension extension;
    saved_bytes good = {0}, factory = {0};
    rs_saved_index_parts parts;
    built list;
    static const uint8_t long_path[RS_FMT_INDEX_PATH + 1] = {0};
    REQUIRE(saved_list(key_mod_3, N, NULL, &writer, &list));
    saved_make(&good, RS_FMT_SAVED_RECORDS, key_mod_3, N);
    CHECK_OK(rs_keys_build((const uint64_t[]){1, 2, 3}, NULL, 3, SAVED_SEED, 1, &factory.keys, &err), &err);
    REQUIRE_OK(rs_extension_begin(&extension, &writer, built_slice(&list), &err), &err);
#define REFUSED(change) \
    do { \
        parts = good.parts; \
        change; \
        CHECK_CODE(rs_extension_add(&extension, &parts, &err), RS_E_ARG_RANGE, &err); \
    } while (0)
    REFUSED(parts.kind = 3);
    REFUSED(parts.kind = RS_FMT_SAVED_GROUPS);
    REFUSED(parts.in_order = true);
    REFUSED(parts.n_records = N - 1);
    REFUSED(parts.numbers.end -= 4);
    REFUSED(parts.path.end = parts.path.ptr);
    REFUSED(parts.path = rs_slice_of(long_path, sizeof long_path));
    REFUSED(parts.keys = rs_slice_of(factory.keys.data, factory.keys.size_bytes));
#undef REFUSED
    CHECK_OK(rs_extension_add(&extension, &good.parts, &err), &err);
    rs_extension_clear(&extension);
    rs_segment_writer_abort(&writer);
    saved_clear(&good), saved_clear(&factory);
    built_clear(&list);
}

TEST(test_other_segments) {
    rs_segment_writer writer;
    rs_extension extension;
    built list;
    REQUIRE(saved_list(key_mod_3, N, NULL, &writer, &list));
    rs_store_u32(list.data + 64, 2), rs_store_u64(list.data + 16, RS_FMT_FEATURE_MAPPING);
    rs_store_u32(list.data + RS_FMT_H_HEADER_CRC, rs_crc32c(0, list.data, RS_FMT_H_HEADER_CRC));
    CHECK_CODE(rs_extension_begin(&extension, &writer, built_slice(&list), &err), RS_E_ARG_RANGE, &err);
    list.data[0] ^= 1;
    CHECK_CODE(rs_extension_begin(&extension, &writer, built_slice(&list), &err), RS_E_FMT_MAGIC, &err);
    rs_segment_writer_abort(&writer);
    built_clear(&list);
}

TEST(test_rewind) {
    rs_segment_writer writer;
    rs_segment segment;
    REQUIRE_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    CHECK_OK(rs_segment_writer_append(&writer, "abcdef", 6, &err), &err);
    CHECK_CODE(rs_segment_writer_rewind(&writer, 7, &err), RS_E_ARG_RANGE, &err);
    CHECK_OK(rs_segment_writer_rewind(&writer, 6, &err), &err);
    CHECK_OK(rs_segment_writer_rewind(&writer, 2, &err), &err);
    CHECK_OK(rs_segment_writer_append(&writer, "XY", 2, &err), &err);
    if (CHECK_OK(rs_segment_writer_finish(&writer, &segment, &err), &err)) {
        CHECK_U64(segment.size_bytes, 4);
        CHECK(memcmp(segment.data, "abXY", 4) == 0);
        rs_segment_close(&segment);
    }
    rs_segment_writer_abort(&writer);
}
