/* rs_any_put.c: ints of more than 64 bits, and Decimals. */
#include "write/rs_any_put.h"

uint8_t *rs_put_wide(uint8_t *p, int64_t high, uint64_t low) {
    const uint64_t sign = (uint64_t)(high >> 63);
    uint64_t top = (uint64_t)high ^ sign, bottom = low ^ sign;
    unsigned bits = 0;
    uint8_t bytes[16];
    if (top == 0 && bottom <= INT64_MAX) return rs_put_int(p, (int64_t)low);
    if (top != 0) bits = 64, bottom = top;
    for (; bottom != 0; bottom >>= 1) bits++;
    unsigned n = bits / 8 + 1;
    rs_store_u64(bytes, low);
    rs_store_u64(bytes + 8, (uint64_t)high);
    p = rs_put_head(p, RS_FMT_TAG_BIGINT, n);
    memcpy(p, bytes, n); /* at most 16: without its sign the number has at most 127 bits */
    return p + n;
}

enum { LIMBS = 8, DIGITS = 80 };

/* Writes the decimal digits of a number to the end of `out`, which has DIGITS bytes. The number has n limbs of 32 bits,
 * the least significant first. Returns the number of digits, at least 1. Destroys the limbs. */
static unsigned to_digits(uint32_t limbs[LIMBS], unsigned n, uint8_t *out) {
    unsigned count = 0;
    while (n > 0 && limbs[n - 1] == 0) n--;
    while (n > 0) {
        uint64_t rest = 0;
        for (unsigned i = n; i-- > 0;) {
            rest = rest << 32 | limbs[i];
            limbs[i] = (uint32_t)(rest / 1000000000);
            rest %= 1000000000;
        }
        while (n > 0 && limbs[n - 1] == 0) n--;
        for (unsigned k = 0; k < 9 && (n > 0 || rest != 0); k++, rest /= 10)
            out[DIGITS - ++count] = (uint8_t)('0' + rest % 10);
    }
    if (count == 0) out[DIGITS - ++count] = '0';
    return count;
}

/* Writes E and an exponent with its sign. */
static uint8_t *put_exponent(uint8_t *p, int64_t exponent) {
    uint8_t digits[20];
    unsigned n = 0;
    uint64_t rest = exponent < 0 ? (uint64_t)-exponent : (uint64_t)exponent;
    *p++ = 'E';
    *p++ = exponent < 0 ? '-' : '+';
    for (; rest != 0 || n == 0; rest /= 10) digits[n++] = (uint8_t)('0' + rest % 10);
    while (n > 0) *p++ = digits[--n];
    return p;
}

/* Writes the text of the n digits times 10^-scale. */
static uint8_t *put_decimal_text(uint8_t *p, const uint8_t *digits, unsigned n, int32_t scale) {
    const int64_t exponent = -(int64_t)scale, left = exponent + n; /* digits left of the point */
    if (exponent <= 0 && left > -6) {
        if (left <= 0) {
            *p++ = '0';
            *p++ = '.';
            memset(p, '0', (size_t)-left);
            p += -left;
            memcpy(p, digits, n);
            return p + n;
        }
        memcpy(p, digits, (size_t)left);
        p += left;
        if (left < n) {
            *p++ = '.';
            memcpy(p, digits + left, n - (size_t)left);
            p += n - (size_t)left;
        }
        return p;
    }
    *p++ = digits[0];
    if (n > 1) {
        *p++ = '.';
        memcpy(p, digits + 1, n - 1);
        p += n - 1;
    }
    return left == 1 ? p : put_exponent(p, left - 1);
}

uint8_t *rs_put_decimal(uint8_t *p, const uint64_t *words, unsigned n_words, int32_t scale) {
    uint32_t limbs[LIMBS];
    uint8_t digits[DIGITS], text[RS_PUT_DECIMAL_ROOM], *end = text;
    const bool negative = (words[n_words - 1] >> 63) != 0;
    uint64_t carry = negative ? 1 : 0;
    for (unsigned i = 0; i < n_words * 2; i++) {
        uint32_t limb = (uint32_t)(words[i / 2] >> (32 * (i & 1)));
        carry += negative ? (uint32_t)~limb : limb;
        limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    unsigned n = to_digits(limbs, n_words * 2, digits);
    if (negative) *end++ = '-';
    end = put_decimal_text(end, digits + DIGITS - n, n, scale);
    p = rs_put_head(rs_put_ext(p, RS_FMT_EXT_DECIMAL), RS_FMT_TAG_STR1, (uint64_t)(end - text));
    memcpy(p, text, (size_t)(end - text));
    return p + (end - text);
}
