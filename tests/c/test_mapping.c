/* test_mapping.c: mappings: repeated keys, keys compared in place, states of the builder. */
#include "rs_mapped.h"
#include "rs_raw.h"
#include "verify/rs_verify.h"
#include "write/rs_mapping_builder.h"
#include "verify/rs_check.h"

#include <sys/wait.h>
#include <unistd.h>

static rs_error err;
static built b; /* set by open_mapping */
static rs_store values;
static rs_mapping m;

/* ---- Keys and values ---- */

static void str_key(uint64_t i, rs_buffer *raw) {
    char text[32];
    (void)snprintf(text, sizeof text, "train/%05llu.jpg", (unsigned long long)i);
    make_str(raw, text);
}

/* str of each width, ints, bytes, floats, tuples: under a union or as `any`. */
static void mixed_key(uint64_t i, rs_buffer *raw) {
    uint8_t unit[4] = {0};
    rs_store_u32(unit, (uint32_t)(0x10000 + i));
    switch (i % 8) {
    case 0: str_key(i, raw); break;
    case 1: make_int(raw, (int64_t)i); break;
    case 2: make_tag(raw, 0x0A), make_varint(raw, 2), make_bytes(raw, unit, 2), make_bytes(raw, "a\x04", 2); break;
    case 3: make_tag(raw, 0x0B), make_varint(raw, 1), make_bytes(raw, unit, 4); break;
    case 4: make_units(raw, 0x0C, (size_t)i, 1, 'b'); break;
    case 5: make_float(raw, (double)i + 0.5); break;
    case 6: make_units(raw, 0x09, (size_t)i, 1, 0xE9); break;
    default: make_head(raw, 0x0E, 2), make_int(raw, (int64_t)i), make_str(raw, "x"); break;
    }
}

static void row_value(uint64_t i, rs_buffer *raw) {
    make_head(raw, 0x0F, 2);
    make_str(raw, "id"), make_int(raw, (int64_t)i), make_str(raw, "name"), str_key(i * 7, raw);
}

static void none_value(uint64_t i, rs_buffer *raw) { (void)i, make_tag(raw, 0); }

static bool open_mapping(const mapped_input *input, bool compress) {
    b = map_build(input, compress);
    return CHECK(b.data != NULL) && CHECK_OK(rs_store_open(&values, built_slice(&b), NULL, &err), &err) &&
           CHECK_OK(rs_mapping_open(&m, &values, &err), &err);
}

static void close_mapping(void) {
    rs_mapping_close(&m);
    rs_store_close(&values);
    built_clear(&b);
}

/* ---- Round trips ---- */

static bool same_record(rs_store *store, uint64_t record, uint64_t i, mapped_part part) {
    rs_buffer expected = {0}, got = {0};
    bool ok = CHECK_OK(raw_record(store, record, &got, &err), &err);
    if (ok) {
        part(i, &expected);
        ok = CHECK(got.size_bytes == expected.size_bytes && memcmp(got.data, expected.data, got.size_bytes) == 0);
    }
    rs_buffer_clear(&expected);
    rs_buffer_clear(&got);
    if (!ok) (void)fprintf(stderr, "    record %llu\n", (unsigned long long)record);
    return ok;
}

/* Looks up key i, comparing bytes. Returns its entry, or RS_NOWHERE. */
static uint64_t look_up(mapped_part part, uint64_t i) {
    rs_buffer key = {0}, got = {0};
    uint64_t entry = RS_NOWHERE, record, value;
    part(i, &key);
    rs_key_probe probe = rs_key_probe_begin(&m.index, rs_hash64(key.data, key.size_bytes, m.index.seed));
    for (;;) {
        if (!CHECK_OK(rs_key_probe_next(&m.index, &probe, &entry, &err), &err) || entry == RS_NOWHERE) break;
        if (!CHECK_OK(rs_mapping_records(&m, entry, &record, &value, &err), &err)) break;
        if (!CHECK_OK(raw_record(&m.keys, record, &got, &err), &err)) break;
        if (got.size_bytes == key.size_bytes && memcmp(got.data, key.data, key.size_bytes) == 0) break;
    }
    rs_buffer_clear(&key);
    rs_buffer_clear(&got);
    return entry;
}

/* A list cannot be opened as a mapping, and has neither the feature bit MAPPING nor sections of store 1. */
RECORD(list_record) { str_key(i, raw); }

TEST(test_a_list_is_not_a_mapping) {
    b = build(list_record, 10, true);
    REQUIRE(b.data != NULL);
    REQUIRE_OK(rs_store_open(&values, built_slice(&b), NULL, &err), &err);
    CHECK(values.header.features_required == 0 && values.header.directory_count == 6);
    CHECK_CODE(rs_mapping_open(&m, &values, &err), RS_E_ARG_RANGE, &err);
    close_mapping();
}

/* ---- Keys that came twice ---- */

static void key_mod_70(uint64_t i, rs_buffer *raw) { str_key(i % 70, raw); }

TEST(test_order) {
    static uint64_t order[140];
    mapped_input input = {key_mod_70, row_value, 100, NULL, order, 70, 64};
    uint64_t k, v;
    for (uint64_t i = 0; i < 70; i++)
        order[2 * i] = i, order[2 * i + 1] = i < 30 ? i + 70 : i; /* the first 30 came again */
    REQUIRE(open_mapping(&input, true));
    CHECK_OK(rs_verify_segment(built_slice(&b), NULL, NULL, &err), &err);
    CHECK(m.n_entries == 70 && values.header.n_records == 100 && m.order_width == 4);
    CHECK_U64(m.keys.directory.sections[RS_FMT_SECTION_ORDER].size_bytes, 70 * 8);
    for (uint64_t i = 0; i < 70; i++) {
        CHECK_U64(look_up(str_key, i), i);
        REQUIRE_OK(rs_mapping_records(&m, i, &k, &v, &err), &err);
        CHECK(k == i && v == (i < 30 ? i + 70 : i));
        if (!same_record(&values, v, v, row_value)) break;
    }
    close_mapping();
}

/* ---- Keys compared in place ---- */

static void check_equals(const char *what, rs_key_match got, rs_key_match expected) {
    if (!CHECK(got == expected)) (void)fprintf(stderr, "    %s: %d, not %d\n", what, (int)got, (int)expected);
}

/* Looks up a key by its hash, comparing keys in place as the binding does. Returns its entry, or RS_NOWHERE. If `units`
 * is NULL, the key is `number`. */
static uint64_t find_key(uint64_t hash, unsigned unit, const uint8_t *units, uint64_t n, int64_t number) {
    rs_key_probe probe = rs_key_probe_begin(&m.index, hash);
    uint64_t entry = RS_NOWHERE, record, value;
    for (;;) {
        if (!CHECK_OK(rs_key_probe_next(&m.index, &probe, &entry, &err), &err) || entry == RS_NOWHERE)
            return RS_NOWHERE;
        if (!CHECK_OK(rs_mapping_records(&m, entry, &record, &value, &err), &err)) return RS_NOWHERE;
        rs_key_match match = units == NULL ? rs_store_key_equals_int(&m.keys, record, number)
                                           : rs_store_key_equals_str(&m.keys, record, unit, units, n);
        CHECK(match != RS_KEY_UNKNOWN);
        if (match == RS_KEY_EQUAL) return entry;
    }
}

static uint64_t find_str(unsigned unit, const uint8_t *units, uint64_t n) {
    return find_key(rs_keys_hash_str(m.index.seed, unit, units, n), unit, units, n, 0);
}

static uint64_t find_int(int64_t number) {
    return find_key(rs_keys_hash_int(m.index.seed, number), 0, NULL, 0, number);
}

static void check_fast_lookup(mapped_part key, uint64_t n, bool compress) {
    mapped_input input = {key, none_value, n, NULL, NULL, 0, 100};
    REQUIRE(open_mapping(&input, compress));
    for (uint64_t i = 0; i < n; i++) {
        rs_buffer raw = {0};
        rs_slice in;
        uint64_t units = 0, other = (i + 8) % n;
        key(i, &raw);
        uint8_t tag = raw.data[0];
        if (tag >= 0x09 && tag <= 0x0B) {
            unsigned unit = 1u << (tag - 0x09);
            in = rs_slice_of(raw.data + 1, raw.size_bytes - 1);
            if (!rs_take_varint(&in, &units)) abort();
            check_equals("itself", rs_store_key_equals_str(&m.keys, i, unit, in.ptr, units), RS_KEY_EQUAL);
            check_equals("shorter", rs_store_key_equals_str(&m.keys, i, unit, in.ptr, units - 1), RS_KEY_DIFFERS);
            check_equals("another", rs_store_key_equals_str(&m.keys, other, unit, in.ptr, units), RS_KEY_DIFFERS);
            check_equals("an int", rs_store_key_equals_int(&m.keys, i, 1), RS_KEY_DIFFERS);
            CHECK_U64(find_str(unit, in.ptr, units), i);
            raw.data[raw.size_bytes - 1] ^= 0x80;
            CHECK_U64(find_str(unit, in.ptr, units), RS_NOWHERE);
        } else {
            check_equals("not a str", rs_store_key_equals_str(&m.keys, i, 1, (const uint8_t *)"x", 1), RS_KEY_DIFFERS);
            if (tag == 0x04 || tag >= 0x80) {
                int64_t number = tag == 0x04 ? (int16_t)rs_load_u16(raw.data + 1) : tag - 0x90;
                CHECK_U64(find_int(number), i);
                CHECK_U64(find_int(number - 1), RS_NOWHERE);
            }
            if (tag >= 0x80) check_equals("an int", rs_store_key_equals_int(&m.keys, i, tag - 0x90), RS_KEY_EQUAL);
            if (tag == 0x08) check_equals("a float", rs_store_key_equals_int(&m.keys, i, 1), RS_KEY_UNKNOWN);
        }
        rs_buffer_clear(&raw);
    }
    close_mapping();
}

/* A str of one unit of 2 bytes. */
static void wide_key(uint64_t i, rs_buffer *raw) {
    uint8_t unit[2] = {(uint8_t)(i % 8), (uint8_t)(1 + i / 8)};
    make_tag(raw, 0x0A), make_varint(raw, 1), make_bytes(raw, unit, 2);
}

TEST(test_fast_lookup) {
    for (unsigned compress = 0; compress < 2; compress++) {
        check_fast_lookup(str_key, 300, compress == 1);
        check_fast_lookup(mixed_key, 300, compress == 1);
        check_fast_lookup(wide_key, 200, compress == 1);
    }
}

/* One str in units of 2 and of 4 though 1 would do; None; a numpy scalar; a large int; True. */
static void odd_key(uint64_t i, rs_buffer *raw) {
    static const uint8_t two[] = {0x0A, 2, 'a', 0, 'b', 0}, four[] = {0x0B, 2, 'a', 0, 0, 0, 'b', 0, 0, 0};
    static const uint8_t scalar[] = {0x10, 2, 16, 4, 'a', 0, 0, 0};
    switch (i) {
    case 0: make_bytes(raw, two, sizeof two); break;
    case 1: make_bytes(raw, four, sizeof four); break;
    case 2: make_tag(raw, 0); break;
    case 3: make_bytes(raw, scalar, sizeof scalar); break;
    case 4: make_units(raw, 0x07, 9, 1, 1); break;
    default: make_tag(raw, 0x02); break;
    }
}

/* A str is the same key in units of any width: it is hashed in the narrowest. */
TEST(test_wide_units) {
    static const uint8_t narrow[] = {0x09, 2, 'a', 'b'};
    mapped_input input = {odd_key, none_value, 2, NULL, NULL, 0, 0};
    for (unsigned width = 0; width < 2; width++) {
        const uint64_t hash = rs_hash64(narrow, sizeof narrow, MAPPED_SEED);
        rs_segment_writer writer;
        rs_mapping_builder builder;
        rs_segment segment;
        uint64_t hashes[2];
        REQUIRE_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
        CHECK_OK(rs_mapping_builder_open(&builder, &writer, NULL, &err), &err);
        odd_key(width, &builder.keys.raw), none_value(0, &builder.values.raw);
        CHECK_OK(rs_mapping_builder_end_pair(&builder, &err), &err);
        CHECK_OK(rs_mapping_builder_write_tables(&builder, &err), &err);
        hashes[0] = hash, input.n = 1;
        CHECK_OK(mapped_finish(&builder, &input, hashes, &err), &err);
        bool finished = CHECK_OK(rs_segment_writer_finish(&writer, &segment, &err), &err);
        if (finished) {
            CHECK_OK(rs_verify_segment(rs_slice_of(segment.data, (size_t)segment.size_bytes), NULL, NULL, &err), &err);
            rs_segment_close(&segment);
        }
        rs_mapping_builder_close(&builder);
        rs_segment_writer_abort(&writer);
    }
}

TEST(test_odd_keys) {
    static const uint8_t all[6] = {1, 1, 1, 1, 1, 1};
    mapped_input input = {odd_key, none_value, 6, all, NULL, 0, 0};
    rs_scalar s;
    const uint8_t *ab = (const uint8_t *)"ab";
    REQUIRE(open_mapping(&input, false));
    CHECK_OK(rs_verify_segment(built_slice(&b), NULL, NULL, &err), &err);
    CHECK(m.index.n_slots == 0 && m.index.n_opaque == 6);
    check_equals("units of 2", rs_store_key_equals_str(&m.keys, 0, 1, ab, 2), RS_KEY_EQUAL);
    check_equals("units of 4", rs_store_key_equals_str(&m.keys, 1, 1, ab, 2), RS_KEY_EQUAL);
    check_equals("units of 4", rs_store_key_equals_str(&m.keys, 1, 1, (const uint8_t *)"ac", 2), RS_KEY_DIFFERS);
    check_equals("None", rs_store_key_equals_str(&m.keys, 2, 1, ab, 2), RS_KEY_DIFFERS);
    check_equals("None", rs_store_key_equals_int(&m.keys, 2, 0), RS_KEY_DIFFERS);
    check_equals("a numpy str", rs_store_key_equals_str(&m.keys, 3, 1, ab, 1), RS_KEY_UNKNOWN);
    check_equals("a large int", rs_store_key_equals_str(&m.keys, 4, 1, ab, 2), RS_KEY_DIFFERS);
    check_equals("a large int", rs_store_key_equals_int(&m.keys, 4, 1), RS_KEY_UNKNOWN);
    check_equals("True", rs_store_key_equals_int(&m.keys, 5, 1), RS_KEY_EQUAL);
    rs_store_scalar(&m.keys, 2, &s);
    CHECK(s.kind == RS_SCALAR_NONE);
    b.data[m.keys.blocks[0].heap_off + 1] = 3; /* the first key claims three units, and has two */
    check_equals("cut short", rs_store_key_equals_str(&m.keys, 0, 1, ab, 2), RS_KEY_UNKNOWN);
    b.data[m.keys.blocks[0].heap_off + 1] = 1;
    check_equals("bytes left", rs_store_key_equals_str(&m.keys, 0, 1, ab, 1), RS_KEY_UNKNOWN);
    close_mapping();
}

/* ---- The builder's states ---- */

static void refuse(rs_mapping_builder *builder, uint8_t key, uint8_t value) {
    size_t key_bytes = builder->keys.raw.size_bytes, value_bytes = builder->values.raw.size_bytes,
           key_sets = builder->keys.scan.n_key_sets;
    uint64_t n = builder->keys.n_records;
    make_tag(&builder->keys.raw, key), make_tag(&builder->values.raw, value);
    CHECK_CODE(rs_mapping_builder_end_pair(builder, &err), RS_E_FMT_VERSION, &err);
    CHECK_U64(err.record, n);
    CHECK(builder->keys.raw.size_bytes == key_bytes && builder->values.raw.size_bytes == value_bytes &&
          builder->keys.scan.n_key_sets == key_sets);
    CHECK(builder->keys.n_records == n && builder->values.n_records == n);
    make_tag(&builder->keys.raw, 0), make_tag(&builder->values.raw, 0);
    rs_mapping_builder_drop_pair(builder, builder->keys.arrays.size_bytes, builder->values.arrays.size_bytes);
    CHECK(builder->keys.raw.size_bytes == key_bytes && builder->values.raw.size_bytes == value_bytes);
}

/* A child process with all memory mappings of its parent. It lives until end_child closes the pipe. */
typedef struct child {
    pid_t pid;
    int ends[2];
} child;

static void begin_child(child *self) {
    REQUIRE(pipe(self->ends) == 0);
    self->pid = fork();
    REQUIRE(self->pid >= 0);
    if (self->pid == 0) {
        char byte;
        (void)close(self->ends[1]);
        _exit(read(self->ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    (void)close(self->ends[0]);
}

static void end_child(const child *self) {
    int status = 1;
    (void)close(self->ends[1]);
    CHECK(waitpid(self->pid, &status, 0) == self->pid && status == 0);
}

/* Reads keys back while the segment is still being written. The forked child keeps the memory mapped; the segment can
 * still be finished. */
static void read_back(rs_mapping_builder *builder, uint64_t n, child *forked) {
    rs_store keys;
    rs_written_keys written;
    REQUIRE_OK(rs_mapping_builder_map_keys(builder, &written, &err), &err);
    REQUIRE_OK(rs_store_open_prepared(&keys, written.bytes, &written.header, &written.directory, &err), &err);
    CHECK_U64(keys.header.n_records, n);
    for (uint64_t i = 0; i < n && same_record(&keys, i, i, str_key); i++) {
    }
    begin_child(forked);
    rs_store_close(&keys);
    rs_written_keys_unmap(&written);
}

TEST(test_builder_states) {
    rs_segment_writer writer;
    rs_mapping_builder builder;
    rs_segment segment;
    rs_written_keys written;
    rs_buffer table = {0}, wrong = {0};
    static uint64_t hashes[100], order[200];
    child forked;
    REQUIRE_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
    REQUIRE_OK(rs_mapping_builder_open(&builder, &writer, NULL, &err), &err);
    CHECK_CODE(rs_mapping_builder_map_keys(&builder, &written, &err), RS_E_STATE_FINISHED, &err);
    CHECK_CODE(rs_mapping_builder_finish(&builder, &table, NULL, 0, &err), RS_E_STATE_FINISHED, &err);
    for (uint64_t i = 0; i < 100; i++) {
        refuse(&builder, 0x7F, 0);
        refuse(&builder, 0, 0x7F);
        str_key(i, &builder.keys.raw);
        hashes[i] = rs_hash64(builder.keys.raw.data + builder.keys.raw.size_bytes - 17, 17, MAPPED_SEED);
        row_value(i, &builder.values.raw);
        REQUIRE_OK(rs_mapping_builder_end_pair(&builder, &err), &err);
        if (i == 30) REQUIRE_OK(rs_builder_flush(&builder.keys, &err), &err);
        order[2 * i] = order[2 * i + 1] = i;
    }
    REQUIRE_OK(rs_mapping_builder_write_tables(&builder, &err), &err);
    CHECK_CODE(rs_mapping_builder_write_tables(&builder, &err), RS_E_STATE_FINISHED, &err);
    make_tag(&builder.keys.raw, 0);
    CHECK_CODE(rs_mapping_builder_end_pair(&builder, &err), RS_E_STATE_FINISHED, &err);
    read_back(&builder, 100, &forked);
    REQUIRE_OK(rs_keys_build(hashes, NULL, 100, MAPPED_SEED, 3, &table, &err), &err);
    REQUIRE_OK(rs_keys_build(hashes, NULL, 99, MAPPED_SEED, 3, &wrong, &err), &err);
    CHECK_CODE(rs_mapping_builder_finish(&builder, &wrong, NULL, 99, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_mapping_builder_finish(&builder, &wrong, NULL, 100, &err), RS_E_ARG_RANGE, &err);
    REQUIRE_OK(rs_mapping_builder_finish(&builder, &table, NULL, 100, &err), &err);
    CHECK_CODE(rs_mapping_builder_finish(&builder, &table, NULL, 100, &err), RS_E_STATE_FINISHED, &err);
    CHECK_CODE(rs_mapping_builder_map_keys(&builder, &written, &err), RS_E_STATE_FINISHED, &err);
    rs_mapping_builder_close(&builder);
    rs_mapping_builder_close(&builder);
    REQUIRE_OK(rs_segment_writer_finish(&writer, &segment, &err), &err);
    end_child(&forked);
    CHECK_OK(rs_verify_segment(rs_slice_of(segment.data, segment.size_bytes), NULL, NULL, &err), &err);
    rs_segment_close(&segment);
    rs_buffer_clear(&table);
    rs_buffer_clear(&wrong);
}

/* Invalid orders are refused: key records that do not rise, or a record that does not exist. */
TEST(test_refused_orders) {
    static const uint64_t orders[][4] = {{0, 0, 0, 1}, {1, 0, 0, 1}, {0, 0, 3, 1}, {0, 3, 1, 1}, {0, 2, 2, 2}};
    for (size_t i = 0; i < 5; i++) {
        mapped_input input = {str_key, none_value, 3, NULL, NULL, 0, 0};
        uint64_t hashes[3];
        rs_segment_writer writer;
        rs_mapping_builder builder;
        rs_buffer table = {0};
        REQUIRE_OK(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err);
        REQUIRE_OK(rs_mapping_builder_open(&builder, &writer, NULL, &err), &err);
        REQUIRE_OK(mapped_add(&builder, &input, hashes, &err), &err);
        REQUIRE_OK(rs_keys_build(hashes, NULL, 2, 0, 0, &table, &err), &err);
        CHECK_CODE(rs_mapping_builder_finish(&builder, &table, orders[i], 2, &err), i == 4 ? RS_OK : RS_E_ARG_RANGE,
                   &err);
        rs_buffer_clear(&table);
        rs_mapping_builder_close(&builder);
        rs_segment_writer_abort(&writer);
    }
}
