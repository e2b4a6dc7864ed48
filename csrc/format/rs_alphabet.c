/* rs_alphabet.c: makes the texts of alphabet and hex nodes. */
#include "format/rs_alphabet.h"

/* Writes n characters from `size` bytes. The compiler unrolls it for a constant number of bits. */
static inline void put_letters(const uint8_t *letters, unsigned bits, const uint8_t *from, uint64_t size, uint64_t n,
                               uint8_t *to) {
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    for (; size >= 8 && n >= 8; size -= bits, n -= 8, from += bits, to += 8) {
        const uint64_t word = rs_swap_u64(rs_load_u64(from));
        for (unsigned i = 0; i < 8; i++) to[i] = letters[word >> (64 - bits * (i + 1)) & mask];
    }
    for (; n > 0; from += bits, to += 8) {
        const uint64_t now = n < 8 ? n : 8, used = size < bits ? size : bits;
        const uint64_t word = used == 0 ? 0 : rs_swap_u64(rs_load_few_unchecked(from, used));
        for (unsigned i = 0; i < now; i++) to[i] = letters[word >> (64 - bits * (i + 1)) & mask];
        n -= now;
        size -= used;
    }
}

/* Writes n characters of 4 bits from `size` bytes, hexadecimal digits eight at a time without a table. */
static void put_fours(const uint8_t *letters, const uint8_t *from, uint64_t size, uint64_t n, uint8_t *to) {
    const uint64_t ones = UINT64_C(0x0101010101010101), gap = (uint64_t)letters[10] - letters[0] - 10;
    const bool hex = memcmp(letters, "0123456789", 10) == 0 &&
                     (memcmp(letters + 10, "abcdef", 6) == 0 || memcmp(letters + 10, "ABCDEF", 6) == 0);
    for (; hex && n >= 8; size -= 4, n -= 8, from += 4, to += 8) {
        uint64_t word = rs_load_u32(from);
        word = (word | word << 16) & UINT64_C(0x0000FFFF0000FFFF);
        word = (word | word << 8) & UINT64_C(0x00FF00FF00FF00FF);
        word = (word >> 4 | word << 8) & UINT64_C(0x0F0F0F0F0F0F0F0F);
        const uint64_t above = (word + ones * 6) >> 4 & ones; /* 1 for each number from 10 on */
        rs_store_u64(to, word + ones * letters[0] + above * gap);
    }
    put_letters(letters, 4, from, size, n, to);
}

void rs_alphabet_put_unchecked(const rs_node *node, const uint8_t *body, uint64_t n, uint8_t *to) {
    const uint8_t *letters = node->letters;
    const unsigned bits = node->letter_bits, form = node->letter_form;
    const uint64_t size = rs_alphabet_bytes(bits, form, n);
    if (form == RS_FMT_ALPHABET_UUID) {
        uint8_t digits[RS_FMT_UUID_DIGITS];
        put_fours(letters, body, size, RS_FMT_UUID_DIGITS, digits);
        memcpy(to, digits, 8), to[8] = '-';
        memcpy(to + 9, digits + 8, 4), to[13] = '-';
        memcpy(to + 14, digits + 12, 4), to[18] = '-';
        memcpy(to + 19, digits + 16, 4), to[23] = '-';
        memcpy(to + 24, digits + 20, 12);
        return;
    }
    switch (bits) {
    case 2: put_letters(letters, 2, body, size, n, to); break;
    case 4: put_fours(letters, body, size, n, to); break;
    case 5: put_letters(letters, 5, body, size, n, to); break;
    case 6: put_letters(letters, 6, body, size, n, to); break;
    default: put_letters(letters, bits, body, size, n, to);
    }
    for (uint64_t length = rs_alphabet_length(node, n); n < length; n++) to[n] = '=';
}
