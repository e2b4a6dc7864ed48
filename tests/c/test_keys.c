/* test_keys.c: key tables: lookups, twins, broken heads and slots. */
#include "format/rs_keys.h"
#include "rs_make.h"

static rs_error err;

/* SplitMix64's finaliser (Steele, Lea, Flood 2014) without its first shift. */
static uint64_t mix(uint64_t v) {
    v = (v + UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xBF58476D1CE4E5B9);
    v = (v ^ v >> 27) * UINT64_C(0x94D049BB133111EB);
    return v ^ v >> 31;
}

typedef struct table {
    uint64_t *hashes;
    uint8_t *opaque;
    uint64_t n;
    uint8_t *bytes; /* of exactly the table's size */
    size_t size;
    rs_keys keys;
} table;

static table make_table(uint64_t n, uint64_t (*hash)(uint64_t), uint64_t opaque_every) {
    table t = {0};
    rs_buffer out = {0};
    t.n = n;
    t.hashes = (uint64_t *)calloc((size_t)n + 1, 8);
    t.opaque = (uint8_t *)calloc((size_t)n + 1, 1);
    if (t.hashes == NULL || t.opaque == NULL) abort();
    for (uint64_t i = 0; i < n; i++) {
        t.hashes[i] = hash(i);
        t.opaque[i] = opaque_every != 0 && i % opaque_every == 0;
    }
    CHECK_OK(rs_keys_build(t.hashes, opaque_every == 0 ? NULL : t.opaque, n, 42, RS_FMT_FACTORY_INT, &out, &err), &err);
    t.bytes = make_exact(out.data, out.size_bytes), t.size = out.size_bytes;
    rs_buffer_clear(&out);
    CHECK_OK(rs_keys_open(rs_slice_of(t.bytes, t.size), 0, &t.keys, &err), &err);
    return t;
}

static void table_clear(table *t) {
    free(t->hashes);
    free(t->opaque);
    free(t->bytes);
}

/* Returns whether `entry` is a candidate for `hash`. Sets *others to the number of candidates before it. */
static bool leads_to(const rs_keys *keys, uint64_t hash, uint64_t entry, uint64_t *others) {
    rs_key_probe probe = rs_key_probe_begin(keys, hash);
    *others = 0;
    for (;;) {
        uint64_t found = 0;
        if (!CHECK_OK(rs_key_probe_next(keys, &probe, &found, &err), &err) || found == RS_NOWHERE) return false;
        if (found == entry) return true;
        ++*others;
    }
}

static uint64_t one_place(uint64_t i) { return mix(i) >> 40 << 40 | UINT64_C(77); }
static uint64_t all_same(uint64_t i) { return i * 0 + UINT64_C(0xFEDCBA9876543210); }
static uint64_t at_the_end(uint64_t i) { return UINT64_MAX - i; }

static void check_all_found(uint64_t n, uint64_t (*hash)(uint64_t), uint64_t opaque_every) {
    table t = make_table(n, hash, opaque_every);
    uint64_t others, wrong = 0, n_opaque = 0, entry;
    for (uint64_t i = 0; i < n; i++) {
        bool is_opaque = opaque_every != 0 && t.opaque[i] != 0;
        if (leads_to(&t.keys, t.hashes[i], i, &others) == is_opaque) wrong++;
        if (is_opaque && CHECK_OK(rs_keys_opaque_entry(&t.keys, n_opaque++, &entry, &err), &err)) CHECK_U64(entry, i);
    }
    CHECK_U64(wrong, 0);
    CHECK_U64(t.keys.n_opaque, n_opaque);
    CHECK_U64(t.keys.n_slots, (8 * (n - n_opaque) + 4) / 5);
    CHECK(t.keys.n_entries == n && t.keys.seed == 42 && t.keys.factory == RS_FMT_FACTORY_INT && t.keys.slot_width == 4);
    CHECK(n >> t.keys.index_bits == 0 && (n == 0 || n >> (t.keys.index_bits - 1) == 1));
    table_clear(&t);
}

TEST(test_every_key_is_found) {
    static const uint64_t counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 100, 255, 256, 1000};
    uint64_t (*hashes[])(uint64_t) = {mix, one_place, all_same, at_the_end};
    EACH (i, counts) {
        for (size_t h = 0; h < 4; h++) {
            check_all_found(counts[i], hashes[h], 0);
            check_all_found(counts[i], hashes[h], 1);
            check_all_found(counts[i], hashes[h], 3);
        }
    }
    check_all_found(200000, mix, 0);
}

/* The costs are bounded: bytes per key, slots per lookup, few false candidates. */
TEST(test_cost) {
    enum { N = 100000 };
    table t = make_table(N, mix, 0);
    uint64_t others, strangers = 0;
    CHECK(t.size <= 64 + N * 64 / 10 + 8);
    CHECK(t.keys.longest_probe < 100);
    for (uint64_t i = 0; i < N; i++) {
        if (leads_to(&t.keys, mix(i + N), RS_NOWHERE - 1, &others)) CHECK(false);
        strangers += others;
    }
    CHECK(strangers < N / 1000);
    table_clear(&t);
}

TEST(test_same_bytes) {
    table a = make_table(5000, mix, 7), b = make_table(5000, mix, 7);
    CHECK(a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0);
    table_clear(&a);
    table_clear(&b);
}

/* A table by hand: three keys, 5 slots, 2 index bits, 30 check bits. */
TEST(test_layout) {
    static const uint64_t hashes[] = {UINT64_C(0xF000000000000001), UINT64_C(0xF000000000000002), 0};
    static const uint32_t slots[] = {2 << 2 | 2, 3, 0, 0, 1 << 2 | 1};
    rs_buffer out = {0};
    REQUIRE_OK(rs_keys_build(hashes, NULL, 3, 0, 0, &out, &err), &err);
    const uint8_t *p = out.data;
    CHECK_U64(out.size_bytes, 64 + 24);
    CHECK(rs_load_u64(p) == 0 && rs_load_u64(p + 8) == 3 && rs_load_u64(p + 16) == 5 && rs_load_u64(p + 24) == 0);
    CHECK(rs_load_u64(p + 32) == 2 && rs_load_u32(p + 40) == 4 && rs_load_u32(p + 44) == 2 && rs_load_u32(p + 48) == 0);
    for (unsigned i = 0; i < 5; i++) CHECK_U64(rs_load_u32(p + 64 + 4 * i), slots[i]);
    CHECK_U64(rs_load_u32(p + 64 + 20), 0);
    rs_buffer_clear(&out);
}

TEST(test_arguments) {
    rs_buffer out = {0};
    uint64_t hash = 1;
    CHECK_CODE(rs_keys_build(&hash, NULL, 1, 0, 13, &out, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_keys_build(&hash, NULL, RS_FMT_RECORDS + 1, 0, 0, &out, &err), RS_E_ARG_RANGE, &err);
    CHECK_CODE(rs_keys_find_twins(&hash, NULL, RS_FMT_RECORDS + 1, &out, &err), RS_E_ARG_RANGE, &err);
    CHECK_U64(out.size_bytes, 0);
    rs_buffer_clear(&out);
}

/* ---- Twins ---- */

static void check_twins(const uint64_t *hashes, const uint8_t *opaque, uint64_t n) {
    rs_buffer pairs = {0};
    uint64_t k, at = 0;
    REQUIRE_OK(rs_keys_find_twins(hashes, opaque, n, &pairs, &err), &err);
    for (uint64_t i = 0; i < n; i++) {
        if (opaque != NULL && opaque[i]) continue;
        for (k = 0; k < i && (hashes[k] != hashes[i] || (opaque != NULL && opaque[k])); k++) {
        }
        if (k == i) continue;
        if (!CHECK(at + 16 <= pairs.size_bytes)) break;
        CHECK_U64(rs_load_u64(pairs.data + at), k);
        CHECK_U64(rs_load_u64(pairs.data + at + 8), i);
        at += 16;
    }
    CHECK_U64(pairs.size_bytes, at);
    rs_buffer_clear(&pairs);
}

TEST(test_twins) {
    enum { N = 1000 };
    static uint64_t hashes[N], two_hashes[300000];
    static uint8_t opaque[N];
    rs_buffer pairs = {0};
    check_twins(hashes, NULL, 0);
    for (uint64_t round = 0; round < 6; round++) {
        for (uint64_t i = 0; i < N; i++) {
            hashes[i] = mix(make_random(round == 0 ? 1 : round == 1 ? 1000000000 : 200 * round));
            opaque[i] = make_random(5) == 0;
        }
        check_twins(hashes, NULL, N);
        check_twins(hashes, opaque, N);
    }
    /* Equal keys cost one step each, not one for each pair. */
    for (uint64_t i = 0; i < 300000; i++) two_hashes[i] = i % 2 == 0 ? 5 : 6;
    REQUIRE_OK(rs_keys_find_twins(two_hashes, NULL, 300000, &pairs, &err), &err);
    CHECK_U64(pairs.size_bytes, 16 * (300000 - 2));
    rs_buffer_clear(&pairs);
}

/* ---- Hostile bytes ---- */

TEST(test_broken_heads) {
    static const struct {
        unsigned rule, at, width;
        uint64_t value;
        rs_status code;
        uint64_t offset;
    } cases[] = {
        {24, 52, 4, 1, RS_E_FMT_RESERVED, 1052},
        {24, 56, 8, UINT64_C(1) << 63, RS_E_FMT_RESERVED, 1052},
        {24, 48, 4, 13, RS_E_FMT_VERSION, 1048},
        {25, 8, 8, 99, RS_E_FMT_KEYS, 1016}, /* fewer entries: fewer slots */
        {25, 8, 8, 101, RS_E_FMT_KEYS, 1016},
        {25, 8, 8, 9, RS_E_FMT_KEYS, 1008}, /* fewer entries than opaque ones */
        {25, 8, 8, UINT64_MAX, RS_E_FMT_KEYS, 1008},
        {25, 8, 8, (UINT64_C(1) << 48) + 1, RS_E_FMT_KEYS, 1008},
        {25, 16, 8, 0, RS_E_FMT_KEYS, 1016},
        {25, 16, 8, UINT64_MAX, RS_E_FMT_KEYS, 1016},
        {25, 24, 8, 9, RS_E_FMT_KEYS, 1016},
        {25, 24, 8, UINT64_MAX, RS_E_FMT_KEYS, 1008},
        {25, 32, 8, 0, RS_E_FMT_KEYS, 1032},
        {25, 32, 8, 145, RS_E_FMT_KEYS, 1032},
        {25, 32, 8, 144, RS_OK, 0},
        {25, 40, 4, 8, RS_E_FMT_KEYS, 1040},
        {25, 40, 4, 0, RS_E_FMT_KEYS, 1040},
        {25, 44, 4, 6, RS_E_FMT_KEYS, 1040},
        {25, 44, 4, 8, RS_E_FMT_KEYS, 1040},
        {25, 44, 4, UINT32_MAX, RS_E_FMT_KEYS, 1040},
    };
    table t = make_table(100, mix, 10);
    rs_keys keys;
    CHECK_U64(t.keys.n_slots, 144);
    EACH (i, cases) {
        uint8_t original[8];
        memcpy(original, t.bytes + cases[i].at, cases[i].width),
            memcpy(t.bytes + cases[i].at, &cases[i].value, cases[i].width);
        CHECK_CODE(rs_keys_open(rs_slice_of(t.bytes, t.size), 1000, &keys, &err), cases[i].code, &err);
        if (cases[i].code != RS_OK) CHECK_U64(err.offset, cases[i].offset);
        memcpy(t.bytes + cases[i].at, original, cases[i].width);
    }
    for (size_t i = 0; i <= t.size + 16; i++) {
        uint8_t *exact = (uint8_t *)calloc(1, t.size + 17);
        rs_status code = i < 64 ? RS_E_FMT_TRUNCATED : i == t.size ? RS_OK : RS_E_FMT_KEYS;
        if (exact == NULL) abort();
        memcpy(exact, t.bytes, i < t.size ? i : t.size);
        CHECK_CODE(rs_keys_open(rs_slice_of(exact, i), 0, &keys, &err), code, &err);
        free(exact);
    }
    table_clear(&t);
}

/* Lookups end even if slots name no entry, or a table has no empty slot. */
TEST(test_broken_slots) {
    table t = make_table(100, mix, 10);
    uint64_t entry = 0, steps;
    memset(t.bytes + 64, 0xFF, 4 * 144);
    rs_key_probe probe = rs_key_probe_begin(&t.keys, 5);
    CHECK_CODE(rs_key_probe_next(&t.keys, &probe, &entry, &err), RS_E_FMT_KEYS, &err);
    CHECK_U64(err.offset, 64 + 4 * rs_hash_scale(5, 144));
    for (uint64_t i = 0; i < 144; i++)
        rs_store_u32(t.bytes + 64 + 4 * i, UINT32_C(5) << 7); /* check bits and no entry */
    probe = rs_key_probe_begin(&t.keys, 5);
    CHECK_CODE(rs_key_probe_next(&t.keys, &probe, &entry, &err), RS_E_FMT_KEYS, &err);
    for (uint64_t i = 0; i < 144; i++)
        rs_store_u32(t.bytes + 64 + 4 * i, (UINT32_C(5) << 7) + 100); /* entry 99 over and over */
    probe = rs_key_probe_begin(&t.keys, 5);
    for (steps = 0; steps < 1000; steps++) {
        if (!CHECK_OK(rs_key_probe_next(&t.keys, &probe, &entry, &err), &err) || entry == RS_NOWHERE) break;
        CHECK_U64(entry, 99);
    }
    CHECK_U64(steps, t.keys.longest_probe);
    CHECK_OK(rs_key_probe_next(&t.keys, &probe, &entry, &err), &err);
    CHECK_U64(entry, RS_NOWHERE);
    rs_store_u64(t.bytes + t.size - 8, 100);
    CHECK_CODE(rs_keys_opaque_entry(&t.keys, 9, &entry, &err), RS_E_FMT_KEYS, &err);
    CHECK_U64(err.offset, t.size - 8);
    table_clear(&t);
}

/* Slots of 8 bytes. An index with slots this wide has too many entries for a test, so this table has only 5 slots,
 * all with one hash. */
TEST(test_wide_slots) {
    const uint64_t hash = UINT64_C(0x8000000076543210), first = UINT64_C(1) << 32, home = rs_hash_scale(hash, 5);
    uint64_t entry = 0;
    uint8_t *slots = (uint8_t *)malloc(5 * 8);
    rs_keys keys = {0};
    if (slots == NULL) abort();
    for (uint64_t i = 0; i < 5; i++) rs_store_u64(slots + 8 * i, (hash & 0x7FFFFFFF) << 33 | (first + i + 1));
    keys.slots = slots, keys.slot_width = 8, keys.n_slots = keys.longest_probe = 5;
    keys.n_entries = first + 5, keys.index_bits = 33;
    keys.index_mask = (UINT64_C(1) << 33) - 1, keys.check_mask = 0x7FFFFFFF;
    rs_key_probe probe = rs_key_probe_begin(&keys, hash);
    for (uint64_t i = 0; i < 5; i++) {
        CHECK_OK(rs_key_probe_next(&keys, &probe, &entry, &err), &err);
        CHECK_U64(entry, first + (home + i) % 5);
    }
    CHECK_OK(rs_key_probe_next(&keys, &probe, &entry, &err), &err);
    CHECK_U64(entry, RS_NOWHERE);
    probe = rs_key_probe_begin(&keys, hash ^ 1);
    CHECK_OK(rs_key_probe_next(&keys, &probe, &entry, &err), &err);
    CHECK_U64(entry, RS_NOWHERE);
    keys.n_entries = first + home; /* its first slot has the number of a missing entry */
    probe = rs_key_probe_begin(&keys, hash);
    CHECK_CODE(rs_key_probe_next(&keys, &probe, &entry, &err), RS_E_FMT_KEYS, &err);
    CHECK_U64(err.offset, RS_FMT_KEYS_HEAD_SIZE + 8 * home);
    free(slots);
}

/* Rule 45: keys with the same hash are adjacent, so the last ones are far from their first slot. All lookups together
 * may read 64 slots for each slot of the table, and 64 more. */
TEST(test_steps_of_a_check) {
    for (uint64_t n = 0; n < 300; n++) {
        table t = make_table(n, all_same, 0);
        const uint64_t max_steps = (t.keys.n_slots + 1) * RS_FMT_PROBE_MEAN;
        uint64_t steps = rs_keys_steps(&t.keys), i, steps_taken = 0;
        CHECK_U64(steps, max_steps);
        for (i = 0; i < n; i++) {
            rs_key_probe probe = rs_key_probe_begin(&t.keys, t.hashes[i]);
            uint64_t found = RS_NOWHERE;
            rs_status status;
            do {
                status = rs_key_probe_next_counted(&t.keys, &probe, &found, &steps, &err);
            } while (status == RS_OK && found != i && found != RS_NOWHERE);
            steps_taken += i + 1;
            if (!CHECK_CODE(status, steps_taken <= max_steps ? RS_OK : RS_E_FMT_KEYS, &err) || status != RS_OK) break;
            CHECK(found == i && steps == max_steps - steps_taken);
        }
        CHECK((i == n) == (n <= 204));
        table_clear(&t);
    }
}

/* ---- A simple key has the hash of its `any` form ---- */

TEST(test_hashes) {
    static const int64_t ints[] = {0,          -16,        -17,         111,       112,       127,
                                   128,        -128,       -129,        32767,     32768,     -32769,
                                   2147483647, 2147483648, -2147483649, INT64_MAX, INT64_MIN, 5000000000};
    static const uint8_t units[] = {'a', 0, 'b', 1, 0, 0, 0xFF, 0xFF, 0, 0, 0xFF, 0x10, 0, 1, 2, 3};
    rs_buffer form = {0};
    EACH (i, ints) {
        form.size_bytes = 0;
        make_int(&form, ints[i]);
        CHECK_U64(rs_keys_hash_int(9, ints[i]), rs_hash64(form.data, form.size_bytes, 9));
    }
    for (unsigned unit = 1; unit <= 4; unit *= 2) {
        for (size_t n = 0; n * unit <= sizeof units; n++) {
            form.size_bytes = 0;
            make_tag(&form, unit == 1   ? 0x09
                            : unit == 2 ? 0x0A
                                        : 0x0B),
                make_varint(&form, n), make_bytes(&form, units, n * unit);
            CHECK_U64(rs_keys_hash_str(9, unit, units, n), rs_hash64(form.data, form.size_bytes, 9));
        }
    }
    form.size_bytes = 0;
    make_tag(&form, 0x0C), make_varint(&form, 300);
    for (size_t i = 0; i < 300; i++) make_tag(&form, (unsigned)i & 0xFF);
    CHECK_U64(rs_keys_hash_bytes(9, form.data + 3, 300), rs_hash64(form.data, form.size_bytes, 9));
    rs_buffer_clear(&form);
}
