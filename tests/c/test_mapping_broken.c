/* test_mapping_broken.c: rules 5, 11, 12 and 24 to 28 of FORMAT.md, each broken alone; any damage gives a status. */
#define RS_TEST_MAIN
#include "rs_mapped.h"
#include "rs_stops.h"
#include "verify/rs_verify.h"

static rs_error err;
static built small, ordered;
static mapped_layout small_layout, ordered_layout;

/* Keys of every type that C can hash; the last two are a tuple and NaN. */
static void small_key(uint64_t i, rs_buffer *raw) {
    char text[16];
    (void)snprintf(text, sizeof text, "key %llu", (unsigned long long)i);
    if (i == 69) make_float(raw, 0), memset(raw->data + raw->size_bytes - 8, 0xFF, 8);
    else if (i == 68) make_head(raw, 0x0E, 1), make_int(raw, 5);
    else if (i == 67) make_tag(raw, 0);
    else if (i % 5 == 1) make_int(raw, (int64_t)i * 1000);
    else if (i % 5 == 2) make_float(raw, (double)i + 0.25);
    else if (i % 5 == 3) make_units(raw, 0x0C, (size_t)i, 1, 7);
    else make_str(raw, text);
}

static void small_value(uint64_t i, rs_buffer *raw) { make_int(raw, (int64_t)(i * i)); }

static void make_both(void) {
    static uint8_t opaque[70];
    static uint64_t order[120];
    mapped_input input = {small_key, small_value, 70, opaque, NULL, 0, 64},
                 twice = {small_key, small_value, 70, NULL, order, 60, 64};
    opaque[3] = opaque[69] = 1;
    small = map_build(&input, true);
    for (uint64_t i = 0; i < 60; i++) order[2 * i] = i, order[2 * i + 1] = 69 - i;
    ordered = map_build(&twice, true);
    REQUIRE(small.data != NULL && ordered.data != NULL);
    mapped_read(&small, &small_layout);
    mapped_read(&ordered, &ordered_layout);
    CHECK_OK(rs_verify_segment(built_slice(&small), NULL, NULL, &err), &err);
    CHECK_OK(rs_verify_segment(built_slice(&ordered), NULL, NULL, &err), &err);
    CHECK(small_layout.stores[1].sections[RS_FMT_SECTION_BLOCKS].count == 2);
    mapped_seal(&small, &small_layout);
    CHECK_OK(rs_verify_segment(built_slice(&small), NULL, NULL, &err), &err);
}

static rs_status open_both(rs_slice bytes) {
    rs_store values;
    rs_mapping m;
    rs_status status = rs_store_open(&values, bytes, NULL, &err);
    if (status != RS_OK) return status;
    status = rs_mapping_open(&m, &values, &err);
    if (status == RS_OK) rs_mapping_close(&m);
    rs_store_close(&values);
    return status;
}

/* A copy of `from` with `width` bytes at `at` set to `value`, sealed. */
static built changed(const built *from, const mapped_layout *layout, uint64_t at, uint64_t value, unsigned width) {
    built copy = {make_exact(from->data, from->size), from->size};
    memcpy(copy.data + at, &value, width);
    mapped_seal(&copy, layout);
    return copy;
}

static uint64_t entry_at(const built *b, const mapped_layout *layout, unsigned store, unsigned kind, unsigned field) {
    return (uint64_t)(mapped_entry(b, layout, store, kind) - b->data) + field;
}

/* ---- Header and directory ---- */

static void check_open(uint64_t at, uint64_t value, unsigned width, rs_status code, uint64_t offset) {
    built copy = changed(&small, &small_layout, at, value, width);
    if (!CHECK_CODE(open_both(built_slice(&copy)), code, &err) ||
        (offset != RS_NOWHERE && !CHECK_U64(err.offset, offset))) {
        (void)fprintf(stderr, "    %u bytes at %llu\n", width, (unsigned long long)at);
    }
    built_clear(&copy);
}

TEST(test_header_and_directory) {
    uint64_t keys_blocks = entry_at(&small, &small_layout, 1, 4, 0), index = entry_at(&small, &small_layout, 1, 7, 0);
    uint64_t keys_offsets = entry_at(&small, &small_layout, 1, 2, 0), dir = small_layout.header.directory_off;
    CHECK_U64(small_layout.header.directory_count, 12);
    check_open(16, 0, 8, RS_E_FMT_VERSION, 64); /* rule 5: content 2 without its bit */
    check_open(64, 1, 4, RS_E_FMT_VERSION, 64); /* and the bit without content 2 */
    check_open(64, 3, 4, RS_E_FMT_VERSION, 64);
    check_open(16, UINT64_C(1) << 40 | 2, 8, RS_E_FMT_VERSION, 16);
    check_open(68, 11, 4, RS_E_FMT_SECTION, dir);                 /* rule 11: KEY_INDEX missing */
    check_open(68, 6, 4, RS_E_FMT_SECTION, dir);                  /* all of store 1 missing */
    check_open(keys_blocks, 3, 2, RS_E_FMT_SECTION, keys_blocks); /* GROUPS twice */
    check_open(keys_blocks + 2, 2, 2, RS_E_FMT_VERSION, keys_blocks);
    check_open(keys_blocks, 10, 2, RS_E_FMT_VERSION, keys_blocks);
    check_open(keys_offsets, 1, 2, RS_E_FMT_SECTION, keys_offsets); /* HEAP of store 1 */
    check_open(index + 2, 0, 2, RS_E_FMT_SECTION, index);           /* KEY_INDEX of store 0 */
    check_open(keys_offsets + 2, 0, 2, RS_E_FMT_SECTION, keys_offsets);
    check_open(80, 0, 8, RS_E_FMT_BLOCK, 80); /* rule 12, of both stores */
    check_open(80, 64, 8, RS_E_FMT_SECTION, 80);
    check_open(80, 71, 8, RS_E_FMT_KEYS, RS_NOWHERE); /* rule 26 */
    check_open(index + 24, 69, 8, RS_E_FMT_KEYS, RS_NOWHERE);
}

TEST(test_index_at_open) {
    uint64_t head = small_layout.stores[1].sections[RS_FMT_SECTION_KEY_INDEX].off;
    uint64_t entry = entry_at(&small, &small_layout, 1, 7, 16);
    check_open(head + 8, 69, 8, RS_E_FMT_KEYS, head + 16);
    check_open(head + 16, 0, 8, RS_E_FMT_KEYS, head + 16);
    check_open(head + 24, 71, 8, RS_E_FMT_KEYS, head + 8);
    check_open(head + 32, 0, 8, RS_E_FMT_KEYS, head + 32);
    check_open(head + 40, 8, 4, RS_E_FMT_KEYS, head + 40);
    check_open(head + 48, 13, 4, RS_E_FMT_VERSION, head + 48);
    check_open(head + 60, 1, 4, RS_E_FMT_RESERVED, head + 52);
    check_open(entry, 63, 8, RS_E_FMT_TRUNCATED, head);
    check_open(entry, 64, 8, RS_E_FMT_KEYS, head);
}

TEST(test_order_at_open) {
    static const struct {
        unsigned field;
        uint64_t value;
        rs_status code;
    } cases[] = {{24, 59, RS_E_FMT_KEYS},
                 {24, 61, RS_E_FMT_KEYS},
                 {16, 479, RS_E_FMT_KEYS},
                 {16, 472, RS_E_FMT_KEYS},
                 {24, UINT64_MAX / 8 + 61, RS_E_FMT_KEYS},
                 {2, 0, RS_E_FMT_SECTION},
                 {0, 32768, RS_E_FMT_KEYS}};
    uint64_t at = entry_at(&ordered, &ordered_layout, 1, 8, 0);
    CHECK_U64(ordered_layout.stores[1].sections[RS_FMT_SECTION_ORDER].size_bytes, 480);
    EACH (i, cases) {
        built copy =
            changed(&ordered, &ordered_layout, at + cases[i].field, cases[i].value, cases[i].field < 4 ? 2 : 8);
        CHECK_CODE(open_both(built_slice(&copy)), cases[i].code, &err);
        built_clear(&copy);
    }
}

/* The size of ORDER fits its count, but not the entries of the key index. Then a header gives fewer records than
 * there are entries. */
TEST(test_count_of_order) {
    static uint64_t order[136];
    mapped_input input = {small_key, small_value, 70, NULL, order, 68, 64};
    uint64_t at = entry_at(&ordered, &ordered_layout, 1, 8, 0);
    const rs_section *section = &ordered_layout.stores[1].sections[RS_FMT_SECTION_ORDER];
    mapped_layout layout;
    built copy = {make_exact(ordered.data, ordered.size), ordered.size};
    rs_store_u64(copy.data + at + 16, 472), rs_store_u64(copy.data + at + 24, 59);
    mapped_seal(&copy, &ordered_layout);
    CHECK_CODE(open_both(built_slice(&copy)), RS_E_FMT_KEYS, &err);
    CHECK_U64(err.offset, section->off);
    built_clear(&copy);
    for (uint64_t i = 0; i < 68; i++) order[2 * i] = i, order[2 * i + 1] = 69 - i;
    built original = map_build(&input, true);
    REQUIRE(original.data != NULL);
    mapped_read(&original, &layout);
    for (uint64_t i = 67; i <= 68; i++) {
        copy = changed(&original, &layout, RS_FMT_H_N_RECORDS, i, 8);
        CHECK_CODE(open_both(built_slice(&copy)), i < 68 ? RS_E_FMT_KEYS : RS_OK, &err);
        built_clear(&copy);
    }
    built_clear(&original);
}

/* ---- Rules that only the deep check verifies ---- */

static void check_verify(const built *from, const mapped_layout *layout, uint64_t at, uint64_t value, unsigned width,
                         rs_status code) {
    built copy = changed(from, layout, at, value, width);
    if (!CHECK_CODE(rs_verify_segment(built_slice(&copy), NULL, NULL, &err), code, &err)) {
        (void)fprintf(stderr, "    %u bytes at %llu\n", width, (unsigned long long)at);
    }
    built_clear(&copy);
}

TEST(test_rule_28) {
    const rs_section *s = &small_layout.stores[1].sections[RS_FMT_SECTION_KEY_INDEX];
    uint64_t slots = s->off + 64, opaque = s->off + s->size_bytes - 16, empty = 0, full = 0;
    uint64_t n_slots = rs_load_u64(small.data + s->off + 16);
    for (uint64_t i = 0; i < n_slots; i++) {
        uint32_t value = rs_load_u32(small.data + slots + 4 * i);
        if (value == 0) empty = slots + 4 * i;
        if (value != 0 && (value & 0x7F) == 1) full = slots + 4 * i; /* "key 0" */
    }
    REQUIRE(empty != 0 && full != 0);
    uint64_t slot = rs_load_u32(small.data + full);
    check_verify(&small, &small_layout, full, 0, 4, RS_E_FMT_KEYS);               /* a missing key */
    check_verify(&small, &small_layout, empty, slot, 4, RS_E_FMT_KEYS);           /* a key twice */
    check_verify(&small, &small_layout, full, slot ^ 1u << 31, 4, RS_E_FMT_KEYS); /* other check bits */
    CHECK_U64(err.record, 0);
    check_verify(&small, &small_layout, full, slot | 0x7F, 4, RS_E_FMT_KEYS); /* entry 126 */
    check_verify(&small, &small_layout, full, 0x80, 4, RS_E_FMT_KEYS);        /* no entry */
    check_verify(&small, &small_layout, s->off + 0, MAPPED_SEED + 1, 8, RS_E_FMT_KEYS);
    check_verify(&small, &small_layout, s->off + 32, 1, 8, RS_E_FMT_KEYS); /* shorter than the longest probe */
    check_verify(&small, &small_layout, s->off + 32, n_slots, 8, RS_OK);
    CHECK_U64(rs_load_u64(small.data + opaque), 3);
    check_verify(&small, &small_layout, opaque, 69, 8, RS_E_FMT_KEYS); /* entry 69 twice */
    check_verify(&small, &small_layout, opaque, 70, 8, RS_E_FMT_KEYS);
    check_verify(&small, &small_layout, opaque, 4, 8, RS_E_FMT_KEYS); /* has a slot too; 3 has none */
    check_verify(&small, &small_layout, opaque + 8, UINT64_MAX, 8, RS_E_FMT_KEYS);
    if (n_slots % 2 == 1) check_verify(&small, &small_layout, opaque - 4, 1, 4, RS_E_FMT_KEYS);
}

/* The keys of well-formed tables that no writer makes, except int_one: two equal keys; NaN, True or -0.0 hashed as it
 * is. */
static void same_key(uint64_t i, rs_buffer *raw) { i < 2 ? make_str(raw, "same") : small_key(i, raw); }
static void int_one(uint64_t i, rs_buffer *raw) { i == 1 ? make_int(raw, 1) : small_key(i + 2, raw); }
static void nan_key(uint64_t i, rs_buffer *raw) { small_key(i == 1 ? 69 : i + 2, raw); }
static void true_key(uint64_t i, rs_buffer *raw) { i == 1 ? make_tag(raw, 2) : int_one(i, raw); }
static void negative_zero(uint64_t i, rs_buffer *raw) { i == 1 ? make_float(raw, -0.0) : small_key(i + 2, raw); }

TEST(test_keys_of_no_writer) {
    static const struct {
        mapped_part key;
        rs_status code;
    } cases[] = {{same_key, RS_E_FMT_KEYS},
                 {nan_key, RS_E_FMT_KEYS},
                 {int_one, RS_OK},
                 {true_key, RS_E_FMT_KEYS},
                 {negative_zero, RS_E_FMT_KEYS}}; /* hashed as they are, not as the ints they equal */
    EACH (i, cases) {
        mapped_input input = {cases[i].key, small_value, 20, NULL, NULL, 0, 0};
        built b = map_build(&input, i % 2 == 0);
        REQUIRE(b.data != NULL);
        CHECK_CODE(rs_verify_segment(built_slice(&b), NULL, NULL, &err), cases[i].code, &err);
        if (cases[i].code != RS_OK) CHECK_U64(err.record, 1);
        built_clear(&b);
    }
}

TEST(test_order_deep) {
    uint64_t off = ordered_layout.stores[1].sections[RS_FMT_SECTION_ORDER].off;
    check_verify(&ordered, &ordered_layout, off + 8, 0, 4, RS_E_FMT_KEYS);  /* record 0 again */
    check_verify(&ordered, &ordered_layout, off + 8, 70, 4, RS_E_FMT_KEYS); /* no record */
    check_verify(&ordered, &ordered_layout, off + 12, 70, 4, RS_E_FMT_KEYS);
    CHECK_U64(err.offset, off + 8);
    check_verify(&ordered, &ordered_layout, off + 12, 5, 4, RS_OK);              /* C does not check the value */
    check_verify(&ordered, &ordered_layout, off + 59 * 8, 60, 4, RS_E_FMT_KEYS); /* another key than the slot's */
}

/* Two entries change places, in ORDER and in their slots: each key is found, but the keys no longer rise. */
TEST(test_order_rises) {
    const rs_section *s = &ordered_layout.stores[1].sections[RS_FMT_SECTION_KEY_INDEX];
    const uint64_t order = ordered_layout.stores[1].sections[RS_FMT_SECTION_ORDER].off;
    const uint64_t n_slots = rs_load_u64(ordered.data + s->off + RS_FMT_K_N_SLOTS);
    built copy = {make_exact(ordered.data, ordered.size), ordered.size};
    unsigned found = 0;
    for (uint64_t i = 0; i < n_slots; i++) {
        uint8_t *slot = copy.data + s->off + RS_FMT_KEYS_HEAD_SIZE + 4 * i;
        const uint32_t value = rs_load_u32(slot), entry = value & 0x3F; /* of 60 entries, in 6 bits */
        if (entry != 6 && entry != 7) continue;
        rs_store_u32(slot, value ^ 6 ^ 7);
        found++;
    }
    CHECK_U64(found, 2);
    memcpy(copy.data + order + 8 * 5, ordered.data + order + 8 * 6, 8);
    memcpy(copy.data + order + 8 * 6, ordered.data + order + 8 * 5, 8);
    mapped_seal(&copy, &ordered_layout);
    CHECK_CODE(rs_verify_segment(built_slice(&copy), NULL, NULL, &err), RS_E_FMT_KEYS, &err);
    CHECK_U64(err.offset, order + 8 * 6);
    built_clear(&copy);
}

/* ---- Damage of any kind ---- */

static bool is_format_code(rs_status status) { return status >= RS_E_FMT_MAGIC && status <= RS_E_FMT_KEYS; }

TEST(test_every_flip) {
    size_t unseen = 0;
    for (size_t i = 0; i < small.size; i++) {
        uint8_t bit = (uint8_t)(1u << make_random(8));
        small.data[i] ^= bit;
        rs_status status = rs_verify_segment(built_slice(&small), NULL, NULL, &err);
        CHECK(status == RS_OK || is_format_code(status));
        unseen += status == RS_OK;
        small.data[i] ^= bit;
    }
    CHECK(unseen < 1000); /* padding between sections */
}

TEST(test_every_cut) {
    for (size_t n = 0; n < small.size; n += n < 2048 ? 97 : 1) {
        uint8_t *exact = make_exact(small.data, n);
        CHECK_CODE(rs_verify_segment(rs_slice_of(exact, n), NULL, NULL, &err), RS_E_FMT_TRUNCATED, &err);
        free(exact);
    }
}

/* Reads everything, even data that fails the deep check. */
static void read_all(built *b) {
    rs_store values;
    rs_mapping m;
    rs_scalar s;
    uint64_t k, v, entry = 0;
    if (rs_store_open(&values, built_slice(b), NULL, &err) != RS_OK) return;
    if (rs_mapping_open(&m, &values, &err) == RS_OK) {
        for (uint64_t i = 0; i < m.n_entries && i < 100; i++) {
            rs_key_probe probe = rs_key_probe_begin(&m.index, i * UINT64_C(0x9E3779B97F4A7C15));
            while (rs_key_probe_next(&m.index, &probe, &entry, &err) == RS_OK && entry != RS_NOWHERE)
                CHECK(entry < m.n_entries);
            if (rs_mapping_records(&m, i, &k, &v, &err) == RS_OK) {
                rs_store_prefetch_offsets(&values, v), rs_store_prefetch(&values, v);
                rs_store_scalar(&m.keys, k, &s), rs_store_scalar(&values, v, &s);
            }
        }
        for (uint64_t i = 0; i < m.index.n_opaque && i < 100; i++)
            CHECK(rs_keys_opaque_entry(&m.index, i, &k, &err) != RS_OK || k < m.n_entries);
        rs_mapping_close(&m);
    }
    rs_store_close(&values);
}

static void check_sealed_changes(const built *from, const mapped_layout *layout, uint64_t rounds) {
    built copy = {make_exact(from->data, from->size), from->size};
    uint64_t refused = 0, tables = layout->stores[0].sections[RS_FMT_SECTION_OFFSETS].off;
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t n = 1 + make_random(3);
        while (n-- > 0) {
            uint64_t kind = make_random(4);
            uint64_t at = kind == 0   ? make_random(120)
                          : kind == 1 ? make_random(copy.size)
                                      : tables + make_random(copy.size - tables);
            if (make_random(3) == 0) copy.data[at] ^= (uint8_t)(1u << make_random(8));
            else copy.data[at] = (uint8_t)make_random(256);
        }
        mapped_seal(&copy, layout);
        rs_status status = rs_verify_segment(built_slice(&copy), NULL, NULL, &err);
        CHECK(status == RS_OK || is_format_code(status));
        refused += status != RS_OK;
        read_all(&copy);
        memcpy(copy.data, from->data, from->size);
    }
    CHECK(refused > rounds / 10 && refused < rounds);
    built_clear(&copy);
}

TEST(test_sealed_changes) {
    check_sealed_changes(&small, &small_layout, 2000);
    check_sealed_changes(&ordered, &ordered_layout, 2000);
}

TEST(test_every_stop) {
    CHECK(stops_everywhere(&small) > 64 * 68);
    (void)stops_everywhere(&ordered);
}

int main(void) {
    make_both();
    if (small.data != NULL && ordered.data != NULL) rs_test_run();
    return rs_test_finish();
}
