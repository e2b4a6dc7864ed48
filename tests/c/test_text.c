/* test_text.c: strings made of parts: literal bytes, changing widths, symbols, entries, limits, damage. */
#include "rs_hand.h"
#include "format/rs_utf16.h"
#include "read/rs_path.h"
#include "read/rs_text.h"

#define LEAF(kind, param) {kind, param, 0, 0, 0, 0, 0, 0}
#define CONCAT_OF(n) {CONCAT, 0, 0, n, 1, 0, 0, 0}
#define SAME_AS(i) {SAME, 0, 0, 0, 0, 0, 0, i}

static rs_error err;

/* ---- Reading ---- */

/* Checks that rs_text_short, which ignores the budget, agrees with rs_text_take and moves the cursor as far. */
static void check_short(rs_cursor cursor, const rs_place *place, rs_status status, const rs_text *text,
                        const uint8_t *after) {
    const uint8_t *before = cursor.in.ptr;
    uint8_t units[RS_TEXT_INLINE + RS_TEXT_SLACK];
    int n = rs_text_short(&cursor, place->node, place->body, place->bits, units);
    if (n < 0) {
        CHECK(cursor.in.ptr == before);
    } else if (status == RS_OK) {
        CHECK(cursor.in.ptr == after && text->unit_bytes == 1 && text->n_units == (uint64_t)n);
        CHECK(memcmp(text->units, units, (size_t)n) == 0);
    } else {
        CHECK_CODE(status, RS_E_FMT_LIMIT, &err);
    }
}

/* Reads the text of a record. Begin `text` before and clear it afterwards. *left is the rest of the budget of bytes. */
static rs_status take(const rs_tree *tree, const void *bytes, size_t n, uint64_t max_bytes, rs_text *text,
                      uint64_t *left) {
    uint8_t *exact = make_exact(bytes, n);
    rs_cursor cursor = {0};
    rs_place place;
    cursor.in = rs_slice_of(exact, n);
    cursor.budget.values = 100, cursor.budget.bytes = max_bytes, cursor.budget.depth = 10, cursor.shared = false;
    rs_status status = rs_path_begin(&cursor, tree->nodes, &place, &err);
    rs_cursor begin = cursor;
    if (status == RS_OK) {
        status = rs_text_take(text, &cursor, place.node, place.body, place.bits, &err);
        check_short(begin, &place, status, text, cursor.in.ptr);
    }
    if (status == RS_OK && cursor.in.ptr != cursor.in.end) status = RS_E_FMT_TRAILING;
    *left = cursor.budget.bytes;
    free(exact);
    return status;
}

/* Whether the text has these units. */
static bool is_text(const rs_text *text, const uint32_t *units, size_t n) {
    if (!CHECK_U64(text->n_units, n)) return false;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = text->units + i * text->unit_bytes;
        uint32_t unit = text->unit_bytes == 1 ? *p : text->unit_bytes == 2 ? rs_load_u16(p) : rs_load_u32(p);
        if (!CHECK_U64(unit, units[i])) return false;
    }
    return true;
}

/* Loads tree 0 of the segment. */
static const rs_tree *open_tree(rs_store *store, const hand *h) {
    if (!CHECK_OK(rs_store_open(store, hand_slice(h), NULL, &err), &err)) abort();
    if (!CHECK_OK(rs_store_load_tree(store, 0, &err), &err)) abort();
    return &store->trees[0];
}

/* ---- Literals ---- */

static const struct {
    const char *what;
    rs_status code;
    make_node nodes[6];
    uint32_t n_nodes;
    const char *aux;
    uint32_t aux_size;
    const char *bytes;
    size_t size;
    uint32_t units[24];
    size_t n;
    unsigned unit_bytes;
    /* clang-format off */
} literals[] = {
    {"no parts", RS_OK, {LEAF(CONCAT, 0)}, 1, "", 0, "", 0, {0}, 0, 1},
    {"a str", RS_OK, {CONCAT_OF(1), LEAF(STR, 1)}, 2, "", 0, "\2ab", 3, {'a', 'b'}, 2, 1},
    {"a rest", RS_OK, {CONCAT_OF(2), LEAF(STR, 1), {STR, 2, 2, 0, 0, 0, 0, 0}}, 3, "", 0, "\1a\xAC\x20", 4, {'a', 0x20AC}, 2, 2},
    {"half a unit", RS_E_FMT_VALUE, {CONCAT_OF(1), {STR, 2, 2, 0, 0, 0, 0, 0}}, 2, "", 0, "\xAC\x20\x20", 3, {0}, 0, 0},
    {"const, str, same, digits",
     RS_OK,
     {CONCAT_OF(4), {CONST, 0, 0, 0, 0, 0, 4, 0}, LEAF(STR, 1), SAME_AS(1), {DIGITS, 4, 0, 0, 0, 4, 8, 2}},
     5,
     "\x09\2a-\0\0\0\0\0\0\0\0",
     12,
     "\3\1x",
     3,
     {'a', '-', 'x', 'x', '0', '3'},
     6,
     1},
    {"1 to 2 to 4 units",
     RS_OK,
     {CONCAT_OF(5), LEAF(STR, 1), LEAF(STR, 2), LEAF(STR, 4), LEAF(STR, 1), LEAF(STR, 2)},
     6,
     "",
     0,
     "\2\xE9"
     "b\1\xAC\x20\1\x00\xF6\x01\x00\1c\1\x00\xD8",
     16,
     {0xE9, 'b', 0x20AC, 0x1F600, 'c', 0xD800},
     6,
     4},
    {"4 at once", RS_OK, {CONCAT_OF(3), LEAF(STR, 1), LEAF(STR, 4), SAME_AS(0)}, 4, "", 0, "\2ab\1\x00\xF6\x01\x00", 8, {'a', 'b', 0x1F600, 'a', 'b'}, 5, 4},
    {"str of width 0", RS_OK, {CONCAT_OF(2), LEAF(STR, 0), LEAF(STR, 0)}, 3, "", 0, "\5\xAC\x20\4x", 5, {0x20AC, 'x'}, 2, 2},
    {"str of k 3", RS_E_FMT_VALUE, {CONCAT_OF(1), LEAF(STR, 0)}, 2, "", 0, "\3", 1, {0}, 0, 0},
    {"a bad code point", RS_E_FMT_VALUE, {CONCAT_OF(2), LEAF(STR, 1), LEAF(STR, 4)}, 3, "", 0, "\1a\1\0\0\x11\0", 7, {0}, 0, 0},
    {"digits", RS_OK, {{DIGITS, 0, 0, 0, 0, 0, 8, 3}}, 1, "\7\0\0\0\0\0\0\0", 8, "", 0, {'0', '0', '7'}, 3, 1},
    {"digits of 64 bits",
     RS_OK,
     {{DIGITS, 64, 0, 0, 0, 0, 8, 0}},
     1,
     "\0\0\0\0\0\0\0\0",
     8,
     "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
     8,
     {'1', '8', '4', '4', '6', '7', '4', '4', '0', '7', '3', '7', '0', '9', '5', '5', '1', '6', '1', '5'},
     20,
     1},
    {"digits that wrap",
     RS_OK,
     {{DIGITS, 8, 0, 0, 0, 0, 8, 20}},
     1,
     "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
     8,
     "\1",
     1,
     {'0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0'},
     20,
     1},
    {"hex", RS_OK, {{HEX, 0, 0, 0, 0, 0, 0, 3}}, 1, "", 0, "\xAB\xC7", 2, {'a', 'b', 'c'}, 3, 1},
    {"HEX", RS_OK, {{HEX, 1, 0, 0, 0, 0, 0, 4}}, 1, "", 0, "\xAB\xC0", 2, {'A', 'B', 'C', '0'}, 4, 1},
    {"DNA in bytes", RS_OK, {{ALPHABET, 1, 2, 0, 0, 0, 4, 0}}, 1, "ACGT", 4, "\x1B", 1, {'A', 'C', 'G', 'T'}, 4, 1},
    {"padded", RS_OK, {{ALPHABET, 2, 0, 0, 0, 0, 8, 0}}, 1, "01234567", 8, "\3\x53", 2, {'2', '4', '6', '=', '=', '=', '=', '='}, 8, 1},
    {"letters that are missing", RS_E_FMT_TRUNCATED, {{ALPHABET, 0, 0, 0, 0, 0, 2, 0}}, 1, "01", 2, "\x09\xFF", 2, {0}, 0, 1},
    {"more letters than any memory has", RS_E_FMT_TRUNCATED, {{ALPHABET, 1, 0, 0, 0, 0, 2, 0}}, 1, "01", 2, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1", 10, {0}, 0, 1},
    {"hex after wide units",
     RS_OK,
     {CONCAT_OF(3), {CONST, 0, 0, 0, 0, 0, 4, 0}, {HEX, 0, 0, 0, 0, 0, 0, 2}, {DIGITS, 8, 0, 0, 0, 4, 8, 0}},
     4,
     "\x0A\1\xAC\x20\0\0\0\0\0\0\0\0",
     12,
     "\xF0\x7B",
     2,
     {0x20AC, 'f', '0', '1', '2', '3'},
     6,
     2},
};
/* clang-format on */

TEST(test_literals) {
    EACH_NAMED (i, literals) {
        hand h = {0};
        rs_store store;
        rs_text text;
        uint64_t left;
        uint8_t bytes[32];
        (void)hand_tree(&h, literals[i].nodes, literals[i].n_nodes, literals[i].aux, literals[i].aux_size);
        hand_finish(&h, 0);
        const rs_tree *tree = open_tree(&store, &h);
        rs_text_begin(&text);
        CHECK_CODE(take(tree, literals[i].bytes, literals[i].size, 100, &text, &left), literals[i].code, &err);
        if (literals[i].code == RS_OK) {
            (void)is_text(&text, literals[i].units, literals[i].n);
            CHECK(text.unit_bytes == literals[i].unit_bytes && left == 100 - literals[i].n);
            CHECK_OK(take(tree, literals[i].bytes, literals[i].size, literals[i].n, &text, &left), &err);
            CHECK(literals[i].n == 0 ||
                  take(tree, literals[i].bytes, literals[i].size, literals[i].n - 1, &text, &left) == RS_E_FMT_LIMIT);
        }
        memcpy(bytes, literals[i].bytes, literals[i].size);
        for (size_t cut = 0; cut < literals[i].size; cut++)
            CHECK(take(tree, bytes, cut, 100, &text, &left) != RS_E_FMT_TRAILING);
        for (size_t k = 0; k < 256 * literals[i].size; k++) { /* any changed byte gives a status, never a crash */
            bytes[k / 256] = (uint8_t)k;
            CHECK(take(tree, bytes, literals[i].size, 1000, &text, &left) != RS_E_MEM);
            memcpy(bytes, literals[i].bytes, literals[i].size);
        }
        rs_text_clear(&text);
        rs_store_close(&store), hand_clear(&h);
    }
}

/* ---- Long texts: they move from inline to allocated memory, and widen in place ---- */

TEST(test_growing) {
    static const make_node nodes[] = {CONCAT_OF(3), LEAF(STR, 1), LEAF(STR, 2), {STR, 4, 2, 0, 0, 0, 0, 0}};
    static const size_t lengths[] = {0, 1, 511, 512, 1023, 1024, 1025, 5000};
    hand h = {0};
    rs_store store;
    size_t i;
    (void)hand_tree(&h, nodes, 4, NULL, 0), hand_finish(&h, 0);
    const rs_tree *tree = open_tree(&store, &h);
    for (size_t a = 0; a < 8; a++) {
        for (size_t b = 0; b < 8; b++) {
            for (size_t c = 0; c < 8; c += 3) {
                size_t n = lengths[a] + lengths[b] + lengths[c];
                uint32_t *units = (uint32_t *)calloc(n + 1, 4);
                rs_buffer bytes = {0};
                rs_text text;
                uint64_t left;
                if (units == NULL) abort();
                for (i = 0; i < n; i++)
                    units[i] = (uint32_t)(i < lengths[a] ? i % 256 : i < lengths[a] + lengths[b] ? i % 60000 : i);
                make_varint(&bytes, lengths[a]);
                for (i = 0; i < lengths[a]; i++) make_bytes(&bytes, &units[i], 1);
                make_varint(&bytes, lengths[b]);
                for (; i < lengths[a] + lengths[b]; i++) make_bytes(&bytes, &units[i], 2);
                for (; i < n; i++) make_bytes(&bytes, &units[i], 4);
                rs_text_begin(&text);
                CHECK_OK(take(tree, bytes.data, bytes.size_bytes, n, &text, &left), &err);
                if (!is_text(&text, units, n))
                    (void)fprintf(stderr, "    lengths %zu, %zu, %zu\n", lengths[a], lengths[b], lengths[c]);
                CHECK_OK(take(tree, bytes.data, bytes.size_bytes, n, &text, &left), &err); /* a text is used again */
                CHECK_U64(text.n_units, n);
                rs_text_clear(&text);
                rs_buffer_clear(&bytes), free(units);
            }
        }
    }
    rs_store_close(&store), hand_clear(&h);
}

/* ---- Symbols ---- */

/* Writes a table of "the ", the escape and "a" in units of 1 or 2 bytes, and returns its size. */
static size_t symbol_bytes(uint8_t *out, uint8_t unit, uint8_t n_short) {
    static const char pool[] = "the a";
    size_t at = 8;
    memset(out, 0, 64);
    out[0] = unit, out[2] = n_short, out[4] = 3;
    out[at] = 4, at += 6; /* 4 units from 0; the escape */
    out[at] = 4 << 4 | 1, at += 3;
    for (size_t i = 0; i < 5; i++, at += unit) out[at] = (uint8_t)pool[i];
    return at + 16;
}

static void make_symbols(hand *h, uint8_t unit, uint8_t n_short) {
    uint8_t bytes[64];
    size_t n = symbol_bytes(bytes, unit, n_short);
    hand_symbols(h, bytes, n);
}

TEST(test_symbols) {
    static const make_node once[] = {{SYMBOLS, 0, 2, 0, 0, 0, 4, 0}};
    static const make_node twice[] = {CONCAT_OF(5), LEAF(STR, 4), {SYMBOLS, 0, 0, 0, 0, 0, 4, 0},
                                      SAME_AS(1),   LEAF(STR, 1), {SYMBOLS, 0, 2, 0, 0, 4, 4, 0}};
    static const uint32_t tables[] = {0, 1}, the[] = {'t', 'h', 'e', ' ', '!', 'a'},
                          joined[] = {0x1F600, 'a', 't', 'h', 'e', ' ', 'a', 't', 'h', 'e', ' ', 'x', 'a', 0x20AC};
    hand h = {0};
    rs_store store;
    rs_text text;
    uint64_t left;
    (void)hand_tree(&h, once, 1, tables, 4);
    (void)hand_tree(&h, twice, 6, tables, 8);
    make_symbols(&h, 1, 255), make_symbols(&h, 2, 255);
    hand_finish(&h, 0);
    (void)open_tree(&store, &h);
    REQUIRE_OK(rs_store_load_tree(&store, 1, &err), &err);
    rs_text_begin(&text);
    CHECK_OK(take(&store.trees[0], "\0\1!\2", 4, 6, &text, &left), &err);
    CHECK(is_text(&text, the, 6) && text.unit_bytes == 1 && left == 0);
    CHECK_CODE(take(&store.trees[0], "\0\1!\2", 4, 5, &text, &left), RS_E_FMT_LIMIT, &err);
    CHECK_CODE(take(&store.trees[0], "\0\1", 2, 9, &text, &left), RS_E_FMT_VALUE, &err); /* an escape cut short */
    CHECK_CODE(take(&store.trees[0], "\3", 1, 9, &text, &left), RS_E_FMT_VALUE, &err);   /* no symbol */
    CHECK_CODE(take(&store.trees[0], "\xFF", 1, 9, &text, &left), RS_E_FMT_VALUE, &err); /* half a code */
    CHECK_CODE(take(&store.trees[1], "\1\x00\xF6\x01\x00\2\2\0\1x\2\1\xAC\x20", 14, 99, &text, &left), RS_OK, &err);
    CHECK(is_text(&text, joined, 14) && text.unit_bytes == 4);
    rs_text_clear(&text);
    rs_store_close(&store), hand_clear(&h);
}

/* UTF-16 with a pair at each place, and with each half of it alone. */
TEST(test_utf16) {
    for (uint32_t n = 1; n < 20; n++) {
        for (uint32_t at = 0; at < n; at++) {
            uint8_t *points = (uint8_t *)malloc(4 * (size_t)n), *units = (uint8_t *)malloc(2 * (size_t)n + 4);
            uint8_t *back = (uint8_t *)malloc(4 * (size_t)n);
            uint64_t length, got;
            if (points == NULL || units == NULL || back == NULL) abort();
            for (uint32_t i = 0; i < n; i++) rs_store_u32(points + 4 * i, i == at ? 0x1F600 : 0xE000 + i);
            CHECK(rs_utf16_length(points, n, &length));
            CHECK_U64(length, n + 1);
            CHECK_U64((uint64_t)(rs_utf16_encode_unchecked(points, n, units) - units), 2 * length);
            CHECK_OK(rs_utf16_count(units, length, &got, &err), &err);
            CHECK_U64(got, n);
            rs_utf16_decode_unchecked(units, n, back);
            CHECK(memcmp(back, points, 4 * (size_t)n) == 0);
            for (uint32_t half = 0; half < 2; half++) {
                rs_store_u32(points + 4 * at, half == 0 ? 0xD83D : 0xDE00);
                CHECK(!rs_utf16_length(points, n, &length));
                (void)rs_utf16_encode_unchecked(points, n, units);
                CHECK_CODE(rs_utf16_count(units, n, &got, &err), RS_E_FMT_VALUE, &err);
            }
            free(points), free(units), free(back);
        }
    }
}

/* Texts of UTF-16 of all sizes, in which pairs begin in one symbol and end in the next. */
TEST(test_pairs) {
    static const uint8_t table[8 + 6 + 6 + 16] = {2, 0,    255, 0, 2,   0, 0,    0,    2, 0,
                                                  0, 0x21, 0,   0, 'a', 0, 0x3D, 0xD8, 0, 0xDE};
    static const make_node nodes[] = {CONCAT_OF(2), LEAF(STR, 1), {SYMBOLS, 1, 2, 0, 0, 0, 4, 0}};
    const uint32_t zero = 0;
    hand h = {0};
    rs_store store;
    (void)hand_tree(&h, nodes, 3, &zero, 4), hand_symbols(&h, table, sizeof table), hand_finish(&h, 0);
    const rs_tree *tree = open_tree(&store, &h);
    for (uint32_t n = 1; n <= 9000; n = n * 2 + 1) {
        rs_buffer bytes = {0};
        rs_text text;
        uint64_t left;
        make_varint(&bytes, 1), make_bytes(&bytes, "z", 1);
        for (uint32_t i = 0; i < n; i++) make_bytes(&bytes, "\0\1", 2);
        rs_text_begin(&text);
        CHECK_CODE(take(tree, bytes.data, bytes.size_bytes, 2 * n, &text, &left), RS_E_FMT_LIMIT, &err);
        if (CHECK_OK(take(tree, bytes.data, bytes.size_bytes, 2 * n + 1, &text, &left), &err)) {
            bool same = CHECK_U64(text.n_units, 2 * n + 1) && CHECK_U64(text.unit_bytes, 4);
            for (uint64_t i = 1; same && i < text.n_units; i++)
                same = CHECK_U64(rs_load_u32(text.units + 4 * i), i % 2 == 1 ? 'a' : 0x1F600);
        }
        CHECK_CODE(take(tree, bytes.data, bytes.size_bytes - 1, 2 * n + 1, &text, &left), RS_E_FMT_VALUE, &err);
        rs_text_clear(&text);
        rs_buffer_clear(&bytes);
    }
    rs_store_close(&store), hand_clear(&h);
}

/* Symbols of the greatest length after a part with wider units: the capacity fits them, and is not much larger. */
static void check_long_symbols(uint8_t unit, uint8_t first) {
    const uint32_t length = unit == 1 ? 15 : 8, zero = 0;
    make_node nodes[] = {CONCAT_OF(2), LEAF(STR, 0), {SYMBOLS, 0, 2, 0, 0, 0, 4, 0}};
    uint8_t table[8 + 3 + 16 + 16] = {unit, 0, 255, 0, 1, 0, 0, 0, (uint8_t)length};
    hand h = {0};
    rs_store store;
    for (uint32_t i = 0; i < length; i++) table[11 + i * unit] = (uint8_t)('a' + i);
    nodes[1].param = first;
    (void)hand_tree(&h, nodes, 3, &zero, 4), hand_symbols(&h, table, 8 + 3 + length * unit + 16), hand_finish(&h, 0);
    const rs_tree *tree = open_tree(&store, &h);
    for (uint32_t n = 1; n <= 1500; n = n * 2 + 1) {
        rs_buffer bytes = {0};
        rs_text text;
        uint64_t left;
        make_varint(&bytes, 1), make_bytes(&bytes, "z\0\0\0", first);
        if (rs_buffer_append_zeros(&bytes, n, NULL) != RS_OK) abort();
        rs_text_begin(&text);
        if (CHECK_OK(take(tree, bytes.data, bytes.size_bytes, 1 + length * n, &text, &left), &err)) {
            bool same = CHECK_U64(text.n_units, 1 + length * n) && CHECK_U64(left, 0);
            same = same && CHECK(text.unit_bytes == (first > unit ? first : unit) && text.units[0] == 'z');
            for (uint64_t at = 1; same && at < text.n_units; at++) {
                same = text.units[at * text.unit_bytes] == 'a' + (at - 1) % length;
            }
            CHECK(same && text.capacity <= 2 * (RS_TEXT_INLINE + 16 * n * text.unit_bytes / unit));
        }
        rs_text_clear(&text), rs_buffer_clear(&bytes);
    }
    rs_store_close(&store), hand_clear(&h);
}

TEST(test_long_symbols) {
    for (uint8_t unit = 1; unit <= 2; unit++) {
        for (uint8_t first = 1; first <= 4; first *= 2) check_long_symbols(unit, first);
    }
}

/* ---- Entries as parts ---- */

static rs_status take_entry(const make_node *nodes, uint32_t n_nodes, const void *aux, uint32_t aux_size,
                            const void *entry, size_t size, const uint32_t *units, size_t n) {
    static const make_node root[] = {CONCAT_OF(2), {DICT_CODED, 0, 0, 0, 0, 0, 4, 1}, SAME_AS(0)};
    static const uint32_t zero = 0;
    hand h = {0};
    rs_store store;
    rs_text text;
    uint64_t left;
    uint32_t twice[32];
    (void)hand_tree(&h, root, 3, &zero, 4);
    hand_table_of(&h, hand_tree(&h, nodes, n_nodes, aux, aux_size), entry, size);
    hand_finish(&h, 0);
    rs_text_begin(&text);
    rs_status status = take(open_tree(&store, &h), "", 0, 100, &text, &left);
    memcpy(twice, units, 4 * n), memcpy(twice + n, units, 4 * n);
    if (status == RS_OK) CHECK(is_text(&text, twice, 2 * n) && left == 100 - 2 * n);
    rs_text_clear(&text), rs_store_close(&store), hand_clear(&h);
    return status;
}

TEST(test_entries) {
    static const make_node any = LEAF(ANY, 0), str = LEAF(STR, 1), rest = {STR, 1, 2, 0, 0, 0, 0, 0},
                           bytes = LEAF(BYTES, 0), integer = {INT, 8, 0, 0, 0, 0, 8, 0},
                           hex = {HEX, 0, 0, 0, 0, 0, 0, 1}, word = {CONST, 0, 0, 0, 0, 0, 3, 0};
    static const make_node optional_str[] = {{OPTIONAL, 1, 0, 1, 1, 0, 0, 0}, LEAF(STR, 1)},
                           optional_hex[] = {{OPTIONAL, 1, 0, 1, 1, 0, 0, 0}, {HEX, 0, 0, 0, 0, 0, 0, 1}};
    static const make_node bytes_or_str[] = {{UNION, 0, 0, 2, 1, 0, 0, 0}, LEAF(BYTES, 0), LEAF(STR, 1)};
    static const make_node hex_or_int[] = {
        {UNION, 0, 0, 2, 1, 0, 0, 0}, {HEX, 0, 0, 0, 0, 0, 0, 1}, {INT, 8, 0, 0, 0, 0, 8, 0}};
    static const make_node list[] = {{LIST, 0, 0, 1, 1, 0, 0, 0}, LEAF(STR, 1)},
                           concat[] = {CONCAT_OF(2), LEAF(STR, 1), SAME_AS(0)};
    static const uint32_t a[] = {'a'}, aa[] = {'a', 'a'};
    CHECK_OK(take_entry(&str, 1, NULL, 0, "\1a", 2, a, 1), &err);
    CHECK_OK(take_entry(&rest, 1, NULL, 0, "a", 1, a, 1), &err);
    CHECK_OK(take_entry(&any, 1, NULL, 0, "\x09\1a", 3, a, 1), &err);
    CHECK_OK(take_entry(&any, 1, NULL, 0, "\x0B\1a\0\0\0", 6, a, 1), &err);
    CHECK_OK(take_entry(&word, 1, "\x09\1a", 3, "", 0, a, 1), &err);
    CHECK_OK(take_entry(&hex, 1, NULL, 0, "\xA0", 1, a, 1), &err);
    CHECK_OK(take_entry(optional_str, 2, NULL, 0, "\1\1a", 3, a, 1), &err);
    CHECK_OK(take_entry(optional_hex, 2, NULL, 0, "\1\xA0", 2, a, 1), &err);
    CHECK_OK(take_entry(bytes_or_str, 3, NULL, 0, "\1\1a", 3, a, 1), &err);
    CHECK_OK(take_entry(hex_or_int, 3, "\0\0\0\0\0\0\0\0", 8, "\0\xA0", 2, a, 1), &err);
    CHECK_OK(take_entry(concat, 3, NULL, 0, "\1a", 2, aa, 2), &err);
    CHECK_CODE(take_entry(hex_or_int, 3, "\0\0\0\0\0\0\0\0", 8, "\1\xA0", 2, a, 1), RS_E_FMT_VALUE, &err);
    CHECK_CODE(take_entry(bytes_or_str, 3, NULL, 0, "\0\1a", 3, a, 1), RS_E_FMT_VALUE, &err);
    CHECK_CODE(take_entry(optional_str, 2, NULL, 0, "\0", 1, a, 1), RS_E_FMT_VALUE, &err); /* None */
    CHECK_CODE(take_entry(&any, 1, NULL, 0, "\x0C\1a", 3, a, 1), RS_E_FMT_VALUE, &err);
    CHECK_CODE(take_entry(&any, 1, NULL, 0, "", 0, a, 1), RS_E_FMT_TRUNCATED, &err);
    CHECK_CODE(take_entry(&any, 1, NULL, 0, "\x0B\1\0\0\x11\0", 6, a, 1), RS_E_FMT_VALUE, &err);
    CHECK_CODE(take_entry(&word, 1, "\x0C\1a", 3, "", 0, a, 1), RS_E_FMT_VALUE, &err);
    CHECK_CODE(take_entry(&bytes, 1, NULL, 0, "\1a", 2, a, 1), RS_E_FMT_VALUE, &err);
    CHECK_CODE(take_entry(&integer, 1, "\0\0\0\0\0\0\0\0", 8, "a", 1, a, 1), RS_E_FMT_VALUE, &err);
    CHECK_CODE(take_entry(list, 2, NULL, 0, "\1\1a", 3, a, 1), RS_E_FMT_VALUE, &err);
    CHECK_CODE(take_entry(&str, 1, NULL, 0, "\1ab", 3, a, 1), RS_E_FMT_TRAILING, &err);
    CHECK_CODE(take_entry(&str, 1, NULL, 0, "\2a", 2, a, 1), RS_E_FMT_TRUNCATED, &err);
}

/* Takes the short text of a concat that repeats one entry, which is coded in symbols with units of 1 or 2 bytes.
 * Returns its length, or -1 as rs_text_short does. rs_text_take must return `code` for the same text. */
static int take_short(uint8_t unit, const void *codes, size_t size, rs_status code,
                      uint8_t out[RS_TEXT_INLINE + RS_TEXT_SLACK]) {
    static const make_node root[] = {CONCAT_OF(2), {DICT_CODED, 0, 0, 0, 0, 0, 4, 1}, SAME_AS(0)},
                           coded[] = {{SYMBOLS, 0, 2, 0, 0, 0, 4, 0}};
    static const uint32_t tables[] = {0, 1};
    hand h = {0};
    rs_store store;
    rs_cursor cursor = {0};
    rs_text text;
    uint64_t left;
    (void)hand_tree(&h, root, 3, &tables[1], 4);
    make_symbols(&h, unit, 255);
    hand_table_of(&h, hand_tree(&h, coded, 1, &tables[0], 4), codes, size);
    hand_finish(&h, 0);
    const rs_tree *tree = open_tree(&store, &h);
    rs_text_begin(&text);
    CHECK_CODE(take(tree, "", 0, 10000, &text, &left), code, &err);
    cursor.in = rs_slice_of((const uint8_t *)"", 0);
    int n = rs_text_short(&cursor, tree->nodes, (const uint8_t *)"", 0, out);
    if (n >= 0) CHECK(code == RS_OK && text.n_units == (uint64_t)n && memcmp(text.units, out, (size_t)n) == 0);
    rs_text_clear(&text), rs_store_close(&store), hand_clear(&h);
    return n;
}

TEST(test_short_symbols) {
    static const uint8_t zeros[300] = {0}; /* the codes of 300 times "the " */
    uint8_t out[RS_TEXT_INLINE + RS_TEXT_SLACK];
    CHECK(take_short(1, "\0\1!\2", 4, RS_OK, out) == 12 && memcmp(out, "the !athe !a", 12) == 0);
    CHECK(take_short(1, "", 0, RS_OK, out) == 0);
    CHECK(take_short(1, zeros, 100, RS_OK, out) == 800);
    CHECK(take_short(1, zeros, 200, RS_OK, out) == -1); /* no room for the second */
    CHECK(take_short(1, zeros, 300, RS_OK, out) == -1); /* no room for the first */
    CHECK(take_short(2, "\0\1!\0\2", 5, RS_OK, out) == -1);
    CHECK(take_short(1, "\0\1", 2, RS_E_FMT_VALUE, out) == -1);
    CHECK(take_short(1, "\3", 1, RS_E_FMT_VALUE, out) == -1);
}

/* ---- Limits ---- */

/* Takes the text of `depth` nested concats of 64 equal entries each. The innermost entry is a str of these bytes. */
static rs_status take_tower(uint32_t depth, const char *bytes, size_t size, uint64_t max_bytes, uint64_t *n_units) {
    make_node nodes[65] = {{CONCAT, 0, 0, 64, 1, 0, 0, 0}};
    hand h = {0};
    rs_store store;
    rs_text text;
    uint64_t left;
    uint32_t k;
    for (k = 1; k <= 64; k++) nodes[k].kind = DICT_CODED, nodes[k].aux_size = 4, nodes[k].count = 1;
    k = depth - 1;
    (void)hand_tree(&h, nodes, 65, &k, 4);
    hand_table_of(&h, hand_leaf(&h, STR, 1, 2), bytes, size);
    for (uint32_t i = 0; i + 1 < depth; i++) hand_table_of(&h, hand_tree(&h, nodes, 65, &i, 4), "", 0);
    hand_finish(&h, 0);
    rs_text_begin(&text);
    rs_status status = take(open_tree(&store, &h), "", 0, max_bytes, &text, &left);
    *n_units = text.n_units;
    CHECK(text.capacity <= 4 * (max_bytes + size + RS_TEXT_INLINE));
    rs_text_clear(&text), rs_store_close(&store), hand_clear(&h);
    return status;
}

TEST(test_limits) {
    uint64_t n;
    CHECK_OK(take_tower(1, "ab", 2, 128, &n), &err);
    CHECK_U64(n, 128);
    CHECK_CODE(take_tower(1, "ab", 2, 127, &n), RS_E_FMT_LIMIT, &err);
    CHECK_OK(take_tower(2, "ab", 2, 8192, &n), &err);
    CHECK_U64(n, 8192);
    CHECK_CODE(take_tower(2, "ab", 2, 8191, &n), RS_E_FMT_LIMIT, &err);
    CHECK_OK(take_tower(2, "", 0, 0, &n), &err);
    CHECK_CODE(take_tower(3, "", 0, 1000, &n), RS_E_FMT_LIMIT, &err); /* 64^3 empty parts */
    CHECK_CODE(take_tower(100, "", 0, 1000, &n), RS_E_FMT_LIMIT, &err);
    CHECK_CODE(take_tower(100, "ab", 2, 1000, &n), RS_E_FMT_LIMIT, &err);
}

/* ---- Keys that are compared in place ---- */

/* Reads record 0, which has these bytes under this tree, as a scalar. */
static void scalar_of(const make_node *nodes, uint32_t n_nodes, const void *aux, uint32_t aux_size, const void *bytes,
                      size_t size, rs_scalar *out) {
    hand h = {0};
    rs_store store;
    make_symbols(&h, 1, 255);
    hand_record(&h, bytes, size);
    hand_finish(&h, hand_tree(&h, nodes, n_nodes, aux, aux_size));
    if (CHECK_OK(rs_store_open(&store, hand_slice(&h), NULL, &err), &err)) {
        rs_store_scalar(&store, 0, out);
        rs_store_close(&store);
    }
    hand_clear(&h);
}

static bool is_word(const rs_scalar *key, const char *word) {
    return key->kind == RS_SCALAR_STR && key->unit_bytes == 1 && key->n == strlen(word) &&
           memcmp(key->within, word, key->n) == 0;
}

TEST(test_scalars) {
    static const make_node hex = {HEX, 0, 0, 0, 0, 0, 0, 3}, digits = {DIGITS, 4, 0, 0, 0, 0, 8, 3},
                           decimal = {DECIMAL, 8, 0, 0, 0, 0, 10, 0}, tuple = {NUMBERS, 1, 0, 0, 0, 0, 16, 0},
                           flag = LEAF(BOOL, 0), list = {NUMBERS, 0, 0, 0, 0, 0, 16, 0},
                           symbols = {SYMBOLS, 0, 2, 0, 0, 0, 4, 0};
    static const make_node pair[] = {CONCAT_OF(2), LEAF(STR, 1), SAME_AS(0)},
                           optional_str[] = {{OPTIONAL, 1, 0, 1, 1, 0, 0, 0}, LEAF(STR, 1)};
    static const uint8_t zeros[16] = {0}, scaled[10] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 0};
    rs_scalar key;
    rs_buffer bytes = {0};
    scalar_of(&hex, 1, NULL, 0, "\xAB\xC0", 2, &key), CHECK(is_word(&key, "abc"));
    scalar_of(&digits, 1, zeros, 8, "\7", 1, &key), CHECK(is_word(&key, "007"));
    scalar_of(pair, 3, NULL, 0, "\2ab", 3, &key), CHECK(is_word(&key, "abab"));
    scalar_of(&symbols, 1, zeros, 4, "\0\2", 2, &key), CHECK(is_word(&key, "the a"));
    scalar_of(&decimal, 1, scaled, 10, "\x7B", 1, &key), CHECK(key.kind == RS_SCALAR_FLOAT && key.number == 12.3);
    scalar_of(&flag, 1, NULL, 0, "\1", 1, &key), CHECK(key.kind == RS_SCALAR_INT && key.integer == 1);
    scalar_of(&tuple, 1, zeros, 16, "\0", 1, &key), CHECK(key.kind == RS_SCALAR_TUPLE);
    scalar_of(&list, 1, zeros, 16, "\0", 1, &key), CHECK(key.kind == RS_SCALAR_UNKNOWN);
    scalar_of(optional_str, 2, NULL, 0, "\0", 1, &key), CHECK(key.kind == RS_SCALAR_NONE);
    scalar_of(optional_str, 2, NULL, 0, "\1\1a", 3, &key), CHECK(key.kind == RS_SCALAR_STR && key.n == 1);
    scalar_of(pair, 3, NULL, 0, "\2a", 2, &key), CHECK(key.kind == RS_SCALAR_UNKNOWN); /* malformed */
    scalar_of(pair, 3, NULL, 0, "\1ab", 3, &key), CHECK(key.kind == RS_SCALAR_UNKNOWN);
    scalar_of(&symbols, 1, zeros, 4, "\3", 1, &key), CHECK(key.kind == RS_SCALAR_UNKNOWN);
    for (size_t n = 510; n <= 514; n++) { /* longer texts than a scalar has room for */
        bytes.size_bytes = 0;
        make_varint(&bytes, n);
        if (rs_buffer_append_zeros(&bytes, n, NULL) != RS_OK) abort();
        scalar_of(pair, 3, NULL, 0, bytes.data, bytes.size_bytes, &key);
        CHECK(key.kind == (n <= RS_SCALAR_TEXT / 2 ? RS_SCALAR_STR : RS_SCALAR_UNKNOWN));
    }
    rs_buffer_clear(&bytes);
}
