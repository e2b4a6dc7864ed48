/* test_string_alphabet.c: the alphabet and form of strings, and their bytes. */
#include "plan/rs_string_alphabet.h"
#include "rs_test.h"

#include "format/rs_alphabet.h"

enum { N = 128, LONGEST = 80 };

static char texts[N][LONGEST];
static rs_slice strings[N];
static rs_alphabet found;
static uint64_t state = 1;

static unsigned random_below(unsigned n) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(state >> 33) % n;
}

/* Fills string i with `size` characters of `letters`, drawn at random, after `before` and before `after`. */
static void draw(uint32_t i, const char *before, const char *letters, unsigned size, const char *after) {
    const size_t begin = strlen(before);
    memcpy(texts[i], before, begin);
    for (unsigned k = 0; k < size; k++) texts[i][begin + k] = letters[random_below((unsigned)strlen(letters))];
    memcpy(texts[i] + begin + size, after, strlen(after));
    strings[i] = rs_slice_of(texts[i], begin + size + strlen(after));
}

static bool guess(void) { return rs_alphabet_guess(strings, NULL, N, &found); }

#define LOWER "0123456789abcdef"
#define UPPER "0123456789ABCDEF"
#define BASE64 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

TEST(test_hex) {
    for (uint32_t i = 0; i < N; i++) draw(i, "", LOWER, 32, "");
    CHECK(guess() && found.kind == RS_FMT_NODE_HEX && found.even && found.count == 32 && found.letters[15] == 'f');
    draw(9, "", LOWER, 31, "g"); /* rare odd strings do not count */
    CHECK(guess() && found.kind == RS_FMT_NODE_HEX && found.count == 32);
    for (uint32_t i = 0; i < N; i++) draw(i, "", UPPER, 16 + i % 20, "");
    CHECK(guess() && found.kind == RS_FMT_NODE_ALPHABET && found.bits == 4 && found.count == 0);
    CHECK(found.form == RS_FMT_ALPHABET_ALL);
    for (uint32_t i = 0; i < N; i++) draw(i, "", UPPER, 2 * (i % 20), "");
    CHECK(guess() && found.form == RS_FMT_ALPHABET_BYTES && found.count == 0);
    for (uint32_t i = 0; i < N; i++) draw(i, "", LOWER "ABCDEF", 32, "");
    CHECK(guess() && found.bits == 5 && !found.even);
    for (uint32_t i = 0; i < N; i++) draw(i, "", i % 2 == 0 ? LOWER : "etaoin shrdlu,.;:!?ABCDEFGHIJKLMNOP", 32, "");
    CHECK(guess() && found.kind == RS_FMT_NODE_HEX);
}

TEST(test_base64) {
    for (uint32_t i = 0; i < N; i++) draw(i, "", BASE64, 21, "A==");
    CHECK(guess() && found.form == RS_FMT_ALPHABET_PADDED && found.count == 22 && found.bits == 6);
    for (uint32_t i = 0; i < N; i++) draw(i, "", "-_" BASE64, 12, "");
    for (uint32_t i = 0; i < N; i++) {
        for (char *p = texts[i]; *p != '\0'; p++) *p = *p == '+' || *p == '/' ? '-' : *p;
    }
    CHECK(guess() && found.form == RS_FMT_ALPHABET_ALL && found.count == 12 && found.letters[63] == '_');
    for (uint32_t i = 0; i < N; i++)
        draw(i, "", BASE64, 10, (const char[2]){"AEIMQUYcgkosw048"[random_below(16)], '\0'});
    CHECK(guess() && found.form == RS_FMT_ALPHABET_BYTES && found.count == 11);
}

TEST(test_uuid) {
    for (uint32_t i = 0; i < N; i++) {
        draw(i, "", LOWER, 36, "");
        texts[i][8] = texts[i][13] = texts[i][18] = texts[i][23] = '-';
    }
    CHECK(guess() && found.form == RS_FMT_ALPHABET_UUID && found.count == 32);
}

TEST(test_not_random) {
    static const char *const words[] = {"apple", "banana", "cherry", "grape", "lemon", "melon", "orange", "peach"};
    for (uint32_t i = 0; i < N; i++) draw(i, words[random_below(8)], "aeinorst", 2, words[random_below(8)]);
    CHECK(!guess());
    for (uint32_t i = 0; i < N; i++) draw(i, "5f1d7a84c0b9", LOWER, 6, ""); /* hexadecimal, but one part repeats */
    CHECK(guess() && found.kind == RS_FMT_NODE_HEX && !found.even);
    for (uint32_t i = 0; i < N; i++) draw(i, "", "0123456789 ", 1, "");
    CHECK(!guess());
}

/* Each text that fits comes back from its bytes. */
static void check_text(const char *letters, unsigned form, uint32_t count, const char *text, bool fits) {
    char back[LONGEST + 1] = {0};
    uint8_t bytes[LONGEST];
    rs_alphabet alphabet = {.form = (uint8_t)form, .count = count};
    rs_node node = {.letters = (const uint8_t *)letters, .letter_form = (uint8_t)form};
    rs_slice s = rs_slice_of(text, strlen(text));
    uint64_t n;
    while (1u << alphabet.bits < strlen(letters)) alphabet.bits++;
    node.letter_bits = alphabet.bits;
    memset(alphabet.numbers, 0xFF, sizeof alphabet.numbers);
    for (unsigned i = 0; letters[i] != '\0'; i++) alphabet.numbers[(uint8_t)letters[i]] = (uint8_t)i;
    CHECK(rs_alphabet_fits(&alphabet, s, &n) == fits);
    if (!fits) return;
    memset(bytes, 0xAA, sizeof bytes);
    rs_alphabet_encode(&alphabet, s, n, bytes);
    CHECK_U64(rs_alphabet_length(&node, n), strlen(text));
    rs_alphabet_put_unchecked(&node, bytes, n, (uint8_t *)back);
    CHECK_STR(back, text);
    CHECK(bytes[rs_alphabet_bytes(node.letter_bits, form, n)] == 0xAA); /* nothing is written after the bytes */
}

TEST(test_round_trip) {
    static const char *const texts_of[] = {"", "a", "0f", "abc", "0123456", "fedcba98", "0123456789abcdef0"};
    for (unsigned i = 0; i < sizeof texts_of / sizeof *texts_of; i++) {
        check_text(LOWER, RS_FMT_ALPHABET_ALL, 0, texts_of[i], true);
        check_text(LOWER, RS_FMT_ALPHABET_BYTES, 0, texts_of[i], strlen(texts_of[i]) % 2 == 0);
    }
    check_text(LOWER, RS_FMT_ALPHABET_ALL, 0, "abG", false);
    check_text(LOWER, RS_FMT_ALPHABET_ALL, 4, "abc", false);
    check_text(BASE64, RS_FMT_ALPHABET_PADDED, 0, "TQ==", true);
    check_text(BASE64, RS_FMT_ALPHABET_PADDED, 0, "TR==", false); /* bits after the last byte */
    check_text(BASE64, RS_FMT_ALPHABET_PADDED, 0, "TQ=", false);
    check_text(BASE64, RS_FMT_ALPHABET_PADDED, 0, "TWFu====", false);
    check_text(BASE64, RS_FMT_ALPHABET_PADDED, 0, "TWFuTWE=", true);
    check_text(BASE64, RS_FMT_ALPHABET_BYTES, 0, "TWFuT", false); /* no bytes have five characters */
    check_text(BASE64, RS_FMT_ALPHABET_BYTES, 0, "TWFuTWFuTWFuTWFu+/8", true);
    check_text("ACGT", RS_FMT_ALPHABET_ALL, 0, "GATTACAGATTACA", true);
    check_text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", RS_FMT_ALPHABET_PADDED, 0, "MZXW6YTBOI======", true);
    check_text(UPPER, RS_FMT_ALPHABET_UUID, 32, "00112233-4455-6677-8899-AABBCCDDEEFF", true);
    check_text(UPPER, RS_FMT_ALPHABET_UUID, 32, "00112233-4455-6677-88990AABBCCDDEEFF", false);
}
