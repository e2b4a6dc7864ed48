/* test_symbols.c: strings coded with symbol tables: round trips, rules, hostile tables and codes. */
#define RS_TEST_MAIN
#include "rs_make.h"
#include "symbols/rs_symbols_train.h"

static rs_error err;
static bool small_codes = false; /* the argument `small` of training and `shortest` of encoders */

enum { STRINGS_MAX = 4000 };

/* Each string has an allocation of exactly its size, so that the sanitizer sees a read beyond it. */
static rs_symbol_string strings[STRINGS_MAX];
static size_t n_strings;

static void drop_strings(void) {
    while (n_strings > 0) free((uint8_t *)(uintptr_t)strings[--n_strings].units);
}

static void add_string(const void *units, uint64_t n_units, unsigned unit_bytes) {
    if (n_strings == STRINGS_MAX) abort();
    strings[n_strings].units = make_exact(units, (size_t)n_units * unit_bytes);
    strings[n_strings++].n_units = n_units;
}

static uint64_t draw_state;
static uint32_t draw(uint32_t below) {
    draw_state = draw_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((draw_state >> 33) % below);
}

/* Adds n sentences from a vocabulary of 300 words, the same for both widths. 2-byte letters have nonzero high bytes. */
static void add_sentences(size_t n, unsigned unit_bytes) {
    static const char syllables[] = "thereandingouhasalornotiselkam";
    uint8_t text[2 * 400];
    draw_state = 1;
    while (n-- > 0) {
        size_t size = 0, words = 1 + draw(20);
        while (words-- > 0) {
            uint32_t word = draw(300), parts = 1 + word % 4;
            for (uint32_t k = 0; k < parts; k++, word = word * 7 + 3) {
                uint32_t at = word % 28;
                for (uint32_t i = 0; i < 2; i++) {
                    text[size * unit_bytes] = (uint8_t)syllables[at + i];
                    if (unit_bytes == 2) text[size * 2 + 1] = (uint8_t)(word % 300 < 100 ? 0x30 : 0x04);
                    size++;
                }
            }
            text[size * unit_bytes] = ' ';
            if (unit_bytes == 2) text[size * 2 + 1] = 0;
            size++;
        }
        add_string(text, size, unit_bytes);
    }
}

/* Trains a table for `strings`, or aborts. */
static rs_slice train(unsigned unit_bytes, rs_buffer *table) {
    if (rs_symbols_train(strings, n_strings, unit_bytes, small_codes, table, NULL, &err) != RS_OK) abort();
    return rs_slice_of(table->data, table->size_bytes);
}

/* Opens a table for decoding and for encoding. */
static bool open_both(rs_slice table, bool shortest, rs_symbols *symbols, rs_symbols_encoder **encoder) {
    return CHECK_OK(rs_symbols_open(table, symbols, &err), &err) &&
           CHECK_OK(rs_symbols_encoder_open(table, shortest, encoder, &err), &err);
}

/* Codes the string, checks that it decodes to itself, and returns the size of the codes. */
static size_t check_round_trip(const rs_symbols_encoder *encoder, const rs_symbols *symbols, const void *units,
                               uint64_t n_units) {
    uint64_t size = n_units * symbols->unit_bytes, got = 0, length = 0;
    uint8_t *out = (uint8_t *)malloc((size_t)size + RS_SYMBOLS_SLACK);
    rs_buffer codes = {0};
    if (out == NULL) abort();
    CHECK_OK(rs_symbols_encode(encoder, (const uint8_t *)units, n_units, &codes, &err), &err);
    size_t coded = codes.size_bytes;
    uint8_t *exact = make_exact(codes.data, coded);
    CHECK_OK(rs_symbols_length(symbols, rs_slice_of(exact, coded), &length, &err), &err);
    CHECK_U64(length, n_units);
    CHECK_OK(rs_symbols_decode(symbols, rs_slice_of(exact, coded), out, size + RS_SYMBOLS_SLACK, &got, &err), &err);
    CHECK_U64(got, size);
    CHECK(size == 0 || (got == size && memcmp(out, units, (size_t)size) == 0));
    free(out);
    free(exact);
    rs_buffer_clear(&codes);
    return coded;
}

/* Codes strings unlike the trained ones: single units, repeated and random units, long strings, the empty string. */
static void check_any_string(const rs_symbols_encoder *encoder, const rs_symbols *symbols) {
    uint8_t units[3000];
    uint32_t unit_bytes = symbols->unit_bytes;
    check_round_trip(encoder, symbols, NULL, 0);
    for (uint32_t i = 0; i < (unit_bytes == 1 ? 256u : 65536u); i += i < 1024 ? 1 : 61) {
        rs_store_u16(units, (uint16_t)i);
        check_round_trip(encoder, symbols, units, 1);
    }
    memset(units, 0xFF, sizeof units); /* 0xFFFF */
    for (uint32_t n = 1; n < 40; n++) check_round_trip(encoder, symbols, units, n);
    memset(units, 0, sizeof units);
    for (uint32_t n = 1; n < 40; n++) check_round_trip(encoder, symbols, units, n);
    for (uint32_t i = 0; i < sizeof units; i++)
        units[i] = (uint8_t)(i % 2 == 0 ? i : 0xD8 + (i / 2) % 8); /* surrogates */
    check_round_trip(encoder, symbols, units, sizeof units / unit_bytes);
    for (uint32_t n = 0; n < 200; n++) {
        for (uint32_t i = 0; i < sizeof units; i++) units[i] = (uint8_t)draw(256);
        check_round_trip(encoder, symbols, units, draw(64));
    }
    check_round_trip(encoder, symbols, units, sizeof units / unit_bytes);
}

/* Trains a table, encodes `strings` and drops them. Checks that table and codes take at most `at_most` bytes. */
static void check_strings(unsigned unit_bytes, uint64_t at_most) {
    rs_buffer table = {0}, second_table = {0};
    rs_symbols_encoder *encoder = NULL;
    rs_symbols symbols;
    uint64_t estimate = 0;
    REQUIRE_OK(rs_symbols_train(strings, n_strings, unit_bytes, small_codes, &table, &estimate, &err), &err);
    REQUIRE_OK(rs_buffer_append(&second_table, &(uint8_t){'x'}, 1, &err), &err);
    REQUIRE_OK(rs_symbols_train(strings, n_strings, unit_bytes, small_codes, &second_table, NULL, &err), &err);
    CHECK_U64(second_table.size_bytes, table.size_bytes + 1);
    CHECK(second_table.size_bytes == table.size_bytes + 1 &&
          memcmp(second_table.data + 1, table.data, table.size_bytes) == 0);
    uint8_t *exact = make_exact(table.data, table.size_bytes);
    REQUIRE(open_both(rs_slice_of(exact, table.size_bytes), small_codes, &symbols, &encoder));
    CHECK_U64(symbols.unit_bytes, unit_bytes);
    uint64_t total = 0;
    for (size_t i = 0; i < n_strings; i++)
        total += check_round_trip(encoder, &symbols, strings[i].units, strings[i].n_units);
    CHECK(total + table.size_bytes <= at_most);
    CHECK(estimate >= total / 2 && estimate <= 2 * total + 16);
    check_any_string(encoder, &symbols);
    rs_symbols_encoder_close(encoder);
    rs_buffer_clear(&table);
    rs_buffer_clear(&second_table);
    free(exact);
    drop_strings();
}

static uint64_t total_units(void) {
    uint64_t units = 0;
    for (size_t i = 0; i < n_strings; i++) units += strings[i].n_units;
    return units;
}

TEST(test_sentences) {
    for (unsigned unit_bytes = 1; unit_bytes <= 2; unit_bytes++) {
        add_sentences(2000, unit_bytes);
        check_strings(unit_bytes, total_units() * unit_bytes / 2);
    }
}

/* One string that is longer than the sample's excerpts, and empty strings beside it. */
TEST(test_long_string) {
    static uint8_t text[100000];
    for (unsigned unit_bytes = 1; unit_bytes <= 2; unit_bytes++) {
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = (uint8_t)(unit_bytes == 1 ? i % 37 * 5 : i % 2 * 4 + i / 2 % 31);
        add_string(NULL, 0, unit_bytes);
        add_string(text, sizeof text / unit_bytes, unit_bytes);
        add_string(NULL, 0, unit_bytes);
        check_strings(unit_bytes, sizeof text / 4);
    }
}

/* The sample is spread over a string that is longer than the whole sample and changes along the way. */
TEST(test_huge_string) {
    const size_t size = 4 << 20;
    uint8_t *text = (uint8_t *)malloc(size);
    if (text == NULL) abort();
    for (size_t i = 0; i < size; i++)
        text[i] = (uint8_t)("0123456789abcdefghijklmnopqrstuvwxyz"[i % 9 + i / (size / 4) * 9]);
    add_string(text, size, 1);
    check_strings(1, size / 8);
    add_string(text, size / 2, 2);
    check_strings(2, size / 6);
    free(text);
}

/* NULs are units like others, also in the search for a shorter symbol within a longer one. */
TEST(test_nuls) {
    static const char *const words[] = {"ab\0", "b\0\0a", "\0ab", "ba\0b", "\0\0\0c", "cb"};
    static const uint8_t sizes[] = {3, 4, 3, 4, 4, 2};
    uint8_t text[2 * 256];
    unsigned k, size;
    for (unsigned unit_bytes = 1; unit_bytes <= 2; unit_bytes++) {
        draw_state = 5;
        for (unsigned i = 0; i < 2000; i++) {
            for (k = size = 0; k < 30; k++) {
                const uint32_t word = draw(6);
                for (unsigned j = 0; j < sizes[word]; j++, size++) {
                    text[size * unit_bytes] = (uint8_t)words[word][j];
                    if (unit_bytes == 2) text[2 * size + 1] = 0;
                }
            }
            add_string(text, size, unit_bytes);
        }
        check_strings(unit_bytes, total_units() * unit_bytes / 2);
    }
}

/* Three words. The first ends like the second without its NUL. If the third follows the first in the pool of symbols,
 * the second does not occur there. */
TEST(test_nul_behind_a_symbol) {
    static const char *const words[] = {"0123456789ab", "ab\0", "qrstuvw"};
    static const uint8_t sizes[] = {12, 3, 7};
    uint8_t text[2 * 12];
    for (unsigned unit_bytes = 1; unit_bytes <= 2; unit_bytes++) {
        for (unsigned i = 0; i < 1800; i++) {
            memset(text, 0, sizeof text);
            for (unsigned k = 0; k < sizes[i % 3]; k++) text[k * unit_bytes] = (uint8_t)words[i % 3][k];
            add_string(text, sizes[i % 3], unit_bytes);
        }
        check_strings(unit_bytes, total_units() * unit_bytes / 2);
    }
}

/* Strings of one repeated unit give only symbols of nearly the greatest length. */
TEST(test_one_unit) {
    static uint8_t text[20000];
    memset(text, 'a', sizeof text);
    add_string(text, sizeof text, 1);
    check_strings(1, sizeof text / 8);
    add_string(text, sizeof text / 2, 2);
    check_strings(2, sizeof text / 8);
}

/* Training fails if a table saves nothing, and leaves the buffer unchanged. */
TEST(test_nothing_gained) {
    uint8_t text[2000];
    rs_buffer table = {0};
    REQUIRE_OK(rs_buffer_append(&table, &(uint8_t){7}, 1, &err), &err);
    for (unsigned unit_bytes = 1; unit_bytes <= 2; unit_bytes++) {
        CHECK_CODE(rs_symbols_train(NULL, 0, unit_bytes, small_codes, &table, NULL, &err), RS_E_ARG_LIMIT, &err);
        add_string(NULL, 0, unit_bytes);
        CHECK_CODE(rs_symbols_train(strings, 1, unit_bytes, small_codes, &table, NULL, &err), RS_E_ARG_LIMIT, &err);
        add_string("abcd", 4 / unit_bytes, unit_bytes);
        CHECK_CODE(rs_symbols_train(strings, 2, unit_bytes, small_codes, &table, NULL, &err), RS_E_ARG_LIMIT, &err);
        draw_state = 5;
        for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)draw(256);
        add_string(text, sizeof text / unit_bytes, unit_bytes);
        CHECK_CODE(rs_symbols_train(strings, 3, unit_bytes, small_codes, &table, NULL, &err), RS_E_ARG_LIMIT, &err);
        drop_strings();
    }
    CHECK(table.size_bytes == 1 && table.data[0] == 7);
    rs_buffer_clear(&table);
}

/* ---- The layout, spelled out ---- */

/* Two short codes and one two-byte code: "ab", the escape, "b"; the pool is "ab". */
static const uint8_t small[] = {1,   0, 2, 0, 3, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0x11, 0, 0, 'a',
                                'b', 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0, 0, 0,    0, 0};
/* The same with units of two bytes. */
static const uint8_t small_wide[] = {2,   0, 2, 0, 3, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0x11, 0, 0, 'a', 1,
                                     'b', 2, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0, 0, 0,    0, 0, 0};

/* One symbol, and a pool that reads like the entry of a second symbol. */
static const uint8_t one_symbol[] = {1, 0, 2, 0, 1, 0, 0, 0, 0x01, 0, 0, 0x01, 0, 0, 0,
                                     0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0,    0, 0, 0};

static void check_codes(const uint8_t *table, size_t size, const char *codes, size_t n, rs_status code,
                        const char *units, uint64_t n_bytes) {
    uint8_t *exact = make_exact(table, size), *coded = make_exact(codes, n), out[100 + RS_SYMBOLS_SLACK];
    rs_symbols symbols;
    uint64_t got = 77, length = 77;
    REQUIRE_OK(rs_symbols_open(rs_slice_of(exact, size), &symbols, &err), &err);
    CHECK_CODE(rs_symbols_decode(&symbols, rs_slice_of(coded, n), out, sizeof out, &got, &err), code, &err);
    CHECK_CODE(rs_symbols_length(&symbols, rs_slice_of(coded, n), &length, &err), code, &err);
    CHECK_U64(got, code == RS_OK ? n_bytes : 77);
    CHECK_U64(length, code == RS_OK ? n_bytes / symbols.unit_bytes : 77);
    if (code == RS_OK) CHECK(memcmp(out, units, (size_t)n_bytes) == 0);
    free(exact);
    free(coded);
}

TEST(test_layout) {
    check_codes(small, sizeof small, "", 0, RS_OK, "", 0);
    check_codes(small, sizeof small, "\0", 1, RS_OK, "ab", 2);
    check_codes(small, sizeof small, "\2\0\0\1\xFE", 5, RS_OK, "bab\xFE", 4);
    check_codes(small, sizeof small, "\0\0\0\0\0\0\0\1x\2\0\0", 12, RS_OK,
                "ababababababab"
                "xbab",
                18);
    check_codes(small, sizeof small, "\1", 1, RS_E_FMT_VALUE, NULL, 0); /* an escape without its unit */
    check_codes(small, sizeof small, "\2", 1, RS_E_FMT_VALUE, NULL, 0); /* half a code */
    check_codes(small, sizeof small, "\0\0\0\0\0\0\0\0\2", 9, RS_E_FMT_VALUE, NULL, 0);
    check_codes(small, sizeof small, "\0\0\0\0\0\0\0\1", 8, RS_E_FMT_VALUE, NULL, 0);
    check_codes(small, sizeof small, "\2\1", 2, RS_E_FMT_VALUE, NULL, 0); /* symbol 3 of 3 */
    check_codes(small, sizeof small, "\3\0", 2, RS_E_FMT_VALUE, NULL, 0);
    check_codes(small, sizeof small, "\xFF\xFF", 2, RS_E_FMT_VALUE, NULL, 0);
    check_codes(small, sizeof small, "\0\0\0\xFF\xFF\0\0\0\0", 9, RS_E_FMT_VALUE, NULL, 0);
    check_codes(one_symbol, sizeof one_symbol, "\0\0", 2, RS_OK, "\1\1", 2);
    check_codes(one_symbol, sizeof one_symbol, "\0\1", 2, RS_E_FMT_VALUE, NULL, 0);
    check_codes(small_wide, sizeof small_wide, "\2\0\0\1\xFE\xFF", 6, RS_OK, "b\2a\1b\2\xFE\xFF", 8);
    check_codes(small_wide, sizeof small_wide, "\1\xFE", 2, RS_E_FMT_VALUE, NULL, 0);
}

/* For every length of symbol, every byte is changed in turn. Only equal bytes are coded as the symbol. */
TEST(test_every_byte_counts) {
    for (uint32_t unit_bytes = 1; unit_bytes <= 2; unit_bytes++) {
        for (uint32_t n = 1; n <= rs_symbols_max_units(unit_bytes); n++) {
            uint8_t table[8 + 2 * 3 + 16 + 16] = {(uint8_t)unit_bytes, 0, 1, 0, 2, 0, 0, 0, (uint8_t)n}, text[32];
            uint32_t size = n * unit_bytes;
            size_t table_size = 8 + 2 * 3 + size + 16;
            rs_symbols_encoder *encoder = NULL;
            rs_symbols symbols;
            for (uint32_t at = 0; at < size; at++) table[14 + at] = (uint8_t)(at + 1);
            REQUIRE(open_both(rs_slice_of(table, table_size), small_codes, &symbols, &encoder));
            memset(text, 0xEE, sizeof text);
            memcpy(text, table + 14, size);
            CHECK_U64(check_round_trip(encoder, &symbols, text, n), 1);
            CHECK_U64(check_round_trip(encoder, &symbols, text, n + 1), 1 + 2 + unit_bytes);
            CHECK_U64(check_round_trip(encoder, &symbols, text, 32 / unit_bytes),
                      1 + (32 / unit_bytes - n) * (2 + unit_bytes));
            CHECK_U64(check_round_trip(encoder, &symbols, text, n - 1), (n - 1) * (2 + unit_bytes));
            for (uint32_t at = 0; at < size; at++) {
                text[at] ^= 0x80;
                CHECK_U64(check_round_trip(encoder, &symbols, text, n), n * (2 + unit_bytes));
                CHECK_U64(check_round_trip(encoder, &symbols, text, 32 / unit_bytes),
                          32 / unit_bytes * (2 + unit_bytes));
                text[at] ^= 0x80;
            }
            rs_symbols_encoder_close(encoder);
        }
    }
}

/* Hundreds of symbols with the same first bytes. The bound holds if a pair becomes a symbol after a few occurrences,
 * not after its first. */
TEST(test_many_alike) {
    for (unsigned unit_bytes = 1; unit_bytes <= 2; unit_bytes++) {
        uint8_t text[2 * 8] = {0};
        draw_state = 3;
        for (uint32_t i = 0; i < 3000; i++) {
            uint32_t value = draw(500);
            for (uint32_t k = 0; k < 4; k++) text[k * unit_bytes] = 'a';
            for (uint32_t k = 4; k < 8; k++, value /= 5) text[k * unit_bytes] = (uint8_t)('0' + value % 5);
            add_string(text, 8, unit_bytes);
        }
        check_strings(unit_bytes, 3000 * 8 / 3);
    }
}

/* Hundreds of words of 8 bytes with the same hash, the product with the constant of rs_match_hash: only some of them
 * are found, so that no text is coded slowly. */
TEST(test_one_hash) {
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t inverse = factor;
    uint8_t text[8 * 20];
    for (int i = 0; i < 6; i++) inverse *= 2 - factor * inverse;
    draw_state = 3;
    for (uint32_t i = 0; i < 2000; i++) {
        for (uint32_t k = 0; k < 20; k++) rs_store_u64(text + 8 * k, (1 + draw(500)) * inverse);
        add_string(text, sizeof text, 1);
    }
    check_strings(1, total_units() * 3 / 4);
}

/* Text that changes its nature: hexadecimal digits, then sentences. */
TEST(test_digits_then_sentences) {
    uint8_t text[32];
    draw_state = 3;
    for (uint32_t i = 0; i < 1500; i++) {
        for (uint32_t k = 0; k < sizeof text; k++) text[k] = (uint8_t)"0123456789abcdef"[draw(16)];
        add_string(text, sizeof text, 1);
    }
    add_sentences(1500, 1);
    check_strings(1, total_units() / 2);
}

/* A decode without enough capacity fails, and writes nothing beyond it. */
TEST(test_room) {
    uint8_t codes[40] = {0}, *out = (uint8_t *)malloc(80 + RS_SYMBOLS_SLACK);
    rs_symbols symbols;
    uint64_t got;
    if (out == NULL) abort();
    REQUIRE_OK(rs_symbols_open(rs_slice_of(small, sizeof small), &symbols, &err), &err);
    CHECK_OK(rs_symbols_decode(&symbols, rs_slice_of(codes, 40), out, 80 + RS_SYMBOLS_SLACK, &got, &err), &err);
    CHECK_U64(got, 80);
    free(out);
    for (uint64_t capacity = 0; capacity < RS_SYMBOLS_SLACK + 70; capacity++) {
        out = (uint8_t *)malloc((size_t)capacity + 1);
        if (out == NULL) abort();
        out[capacity] = 0xA5;
        CHECK_CODE(rs_symbols_decode(&symbols, rs_slice_of(codes, 40), out, capacity, &got, &err), RS_E_SPACE, &err);
        CHECK(out[capacity] == 0xA5);
        free(out);
    }
}

/* ---- Hostile tables ---- */

/* Opens `small` with one byte changed, or truncated to `size`. */
static rs_status open_changed(size_t size, size_t at, unsigned value) {
    uint8_t bytes[sizeof small];
    rs_symbols symbols;
    memcpy(bytes, small, sizeof small);
    if (at < sizeof small) bytes[at] = (uint8_t)value;
    uint8_t *exact = make_exact(bytes, size);
    rs_status status = rs_symbols_open(rs_slice_of(exact, size), &symbols, &err);
    if (status == RS_OK) {
        rs_symbols_encoder *encoder = NULL;
        rs_status opened = rs_symbols_encoder_open(rs_slice_of(exact, size), small_codes, &encoder, &err);
        if (CHECK(opened == RS_OK || opened == RS_E_ARG_RANGE) && opened == RS_OK) check_any_string(encoder, &symbols);
        if (opened == RS_OK) rs_symbols_encoder_close(encoder);
    }
    free(exact);
    return status;
}

TEST(test_bad_tables) {
    static const struct {
        size_t at;
        unsigned value;
        rs_status code;
    } cases[] = {
        {0, 1, RS_OK},
        {0, 0, RS_E_FMT_VALUE},
        {0, 3, RS_E_FMT_VALUE},
        {0, 4, RS_E_FMT_VALUE},
        {0, 2, RS_E_FMT_VALUE}, /* "ab" is one unit then, and the first symbol has two */
        {1, 1, RS_E_FMT_RESERVED},
        {2, 0, RS_OK},
        {2, 255, RS_OK},
        {3, 1, RS_E_FMT_VALUE}, /* 258 short codes */
        {4, 2, RS_OK},          /* the third entry is part of the pool then */
        {4, 255, RS_E_FMT_TRUNCATED},
        {4, 4, RS_E_FMT_TRUNCATED},
        {6, 1, RS_E_FMT_VALUE}, /* more symbols than codes */
        {7, 255, RS_E_FMT_VALUE},
        {8, 0x03, RS_E_FMT_VALUE},
        {8, 0x12, RS_E_FMT_VALUE},
        {8, 0x20, RS_OK}, /* an escape is valid at any place */
        {8, 0x30, RS_OK},
        {8, 0x0F, RS_E_FMT_VALUE},
        {9, 1, RS_E_FMT_VALUE},
        {10, 0x80, RS_E_FMT_VALUE},
        {12, 0xFF, RS_OK}, /* the start of an escape is ignored */
        {11, 0x02, RS_OK}, /* without an escape it decodes, but does not encode */
    };
    EACH (i, cases) {
        CHECK_CODE(open_changed(sizeof small, cases[i].at, cases[i].value), cases[i].code, &err);
    }
    for (size_t size = 0; size < sizeof small; size++) {
        rs_status code = size < 8 + 9 + 16 ? RS_E_FMT_TRUNCATED : RS_E_FMT_VALUE;
        CHECK_CODE(open_changed(size, sizeof small, 0), code, &err);
    }
}

TEST(test_escape_is_needed) {
    uint8_t bytes[sizeof small];
    rs_symbols_encoder *encoder = NULL;
    memcpy(bytes, small, sizeof small);
    bytes[11] = 0x02;
    CHECK_CODE(rs_symbols_encoder_open(rs_slice_of(bytes, sizeof bytes), small_codes, &encoder, &err), RS_E_ARG_RANGE,
               &err);
    CHECK(encoder == NULL);
    CHECK_CODE(rs_symbols_encoder_open(rs_slice_of(bytes, 5), small_codes, &encoder, &err), RS_E_FMT_TRUNCATED, &err);
    rs_symbols_encoder_close(NULL);
}

/* Decodes any bytes: an error or some units, never an access out of bounds. */
static void decode_anything(const rs_symbols *symbols, const uint8_t *codes, size_t n) {
    uint8_t *exact = make_exact(codes, n), *out = (uint8_t *)malloc(16 * n + RS_SYMBOLS_SLACK);
    uint64_t got = 0, length = 0;
    if (out == NULL) abort();
    rs_status decoded = rs_symbols_decode(symbols, rs_slice_of(exact, n), out, 16 * n + RS_SYMBOLS_SLACK, &got, &err);
    rs_status measured = rs_symbols_length(symbols, rs_slice_of(exact, n), &length, &err);
    CHECK(decoded == RS_OK || decoded == RS_E_FMT_VALUE);
    CHECK(measured == decoded);
    if (decoded == RS_OK && measured == RS_OK) CHECK_U64(length * symbols->unit_bytes, got);
    free(exact);
    free(out);
}

/* Bits flip after the table was opened, because a mapped file may change. The codes are random. */
TEST(test_bytes_that_change) {
    for (unsigned unit_bytes = 1; unit_bytes <= 2; unit_bytes++) {
        rs_buffer table = {0};
        rs_symbols symbols;
        uint8_t codes[100];
        add_sentences(500, unit_bytes);
        (void)train(unit_bytes, &table);
        size_t size = table.size_bytes;
        uint8_t *exact = make_exact(table.data, size);
        REQUIRE_OK(rs_symbols_open(rs_slice_of(exact, size), &symbols, &err), &err);
        for (size_t round = 0; round < 3000; round++) {
            for (size_t i = 0; i < 20; i++) exact[draw((uint32_t)size)] ^= (uint8_t)(1u << draw(8));
            for (size_t i = 0; i < sizeof codes; i++) codes[i] = (uint8_t)draw(draw(4) == 0 ? 256 : symbols.n_short);
            decode_anything(&symbols, codes, draw(sizeof codes));
        }
        memset(exact, 0xFF, size);
        decode_anything(&symbols, codes, sizeof codes);
        memset(exact, 0, size);
        decode_anything(&symbols, codes, sizeof codes);
        free(exact);
        rs_buffer_clear(&table);
        drop_strings();
    }
}

/* ---- The shortest codes ---- */

/* Returns the size of the shortest codes of n units. Tries every symbol of the table at every unit. */
static uint64_t fewest_bytes(const rs_symbols *symbols, const uint8_t *units, uint64_t n) {
    uint64_t *costs = (uint64_t *)malloc((size_t)(n + 1) * sizeof *costs);
    uint32_t unit_bytes = symbols->unit_bytes;
    if (costs == NULL) abort();
    costs[n] = 0;
    for (uint64_t i = n; i-- > 0;) {
        costs[i] = UINT64_MAX;
        for (uint32_t k = 0; k < symbols->n_symbols; k++) {
            uint32_t entry = rs_symbols_entry_unchecked(symbols, k), length = entry & 15;
            uint64_t cost = (k < symbols->n_short ? 1 : 2) + (length == 0 ? unit_bytes : 0);
            if (length > n - i || memcmp(symbols->pool + (size_t)(entry >> 4) * unit_bytes, units + i * unit_bytes,
                                         length * unit_bytes) != 0) {
                continue;
            }
            cost += costs[i + (length == 0 ? 1 : length)];
            if (cost < costs[i]) costs[i] = cost;
        }
    }
    uint64_t fewest = costs[0];
    free(costs);
    return fewest;
}

/* An encoder for the shortest codes finds the division into symbols with the fewest bytes; the other one finds none
 * that is shorter. */
TEST(test_shortest_codes) {
    rs_buffer table = {0};
    for (unsigned unit_bytes = 1; unit_bytes <= 2; unit_bytes++) {
        rs_symbols_encoder *shortest = NULL, *quick = NULL;
        rs_symbols symbols;
        add_sentences(600, unit_bytes);
        table.size_bytes = 0;
        rs_slice bytes = train(unit_bytes, &table);
        REQUIRE(open_both(bytes, true, &symbols, &shortest));
        REQUIRE_OK(rs_symbols_encoder_open(bytes, false, &quick, &err), &err);
        for (size_t i = 0; i < n_strings; i++) {
            const rs_symbol_string *s = &strings[i];
            uint64_t fewest = fewest_bytes(&symbols, s->units, s->n_units);
            CHECK_U64(check_round_trip(shortest, &symbols, s->units, s->n_units), fewest);
            CHECK(check_round_trip(quick, &symbols, s->units, s->n_units) >= fewest);
        }
        drop_strings();
        rs_symbols_encoder_close(shortest);
        rs_symbols_encoder_close(quick);
    }
    rs_buffer_clear(&table);
}

/* If the escape is the first symbol after the one-byte symbols, it takes two bytes and a unit: "abc" is "a" and "bc",
 * not "ab" and an escaped "c". */
TEST(test_escape_behind_short_codes) {
    static const uint8_t table[] = {1,   0,   2,   0, 4, 0, 0, 0, 0x02, 0, 0, 0x01, 0, 0, 0, 0, 0, 0x12, 0, 0,
                                    'a', 'b', 'c', 0, 0, 0, 0, 0, 0,    0, 0, 0,    0, 0, 0, 0, 0, 0,    0};
    rs_symbols_encoder *encoder = NULL;
    rs_symbols symbols;
    REQUIRE(open_both(rs_slice_of(table, sizeof table), true, &symbols, &encoder));
    CHECK(symbols.n_short == 2 && symbols.n_symbols == 4);
    CHECK_U64(check_round_trip(encoder, &symbols, "abc", 3), fewest_bytes(&symbols, (const uint8_t *)"abc", 3));
    rs_symbols_encoder_close(encoder);
}

/* A string coded in several parts is as short as the same string coded at once. */
TEST(test_shortest_codes_of_long_strings) {
    static uint8_t text[8000];
    rs_buffer table = {0};
    size_t size = 0;
    rs_symbols_encoder *shortest = NULL;
    rs_symbols symbols;
    add_sentences(600, 1);
    rs_slice bytes = train(1, &table);
    REQUIRE(open_both(bytes, true, &symbols, &shortest));
    for (size_t i = 0; i < n_strings && strings[i].n_units <= sizeof text - size; i++) {
        memcpy(text + size, strings[i].units, (size_t)strings[i].n_units);
        size += (size_t)strings[i].n_units;
    }
    for (size_t i = 480; i < 560; i++) {
        CHECK_U64(check_round_trip(shortest, &symbols, text, i), fewest_bytes(&symbols, text, i));
    }
    CHECK_U64(check_round_trip(shortest, &symbols, text, size), fewest_bytes(&symbols, text, size));
    drop_strings();
    rs_symbols_encoder_close(shortest);
    rs_buffer_clear(&table);
}

int main(void) {
    small_codes = true;
    rs_test_run();
    small_codes = false;
    rs_test_run();
    return rs_test_finish();
}
