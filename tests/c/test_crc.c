/* test_crc.c: CRC-32C against RFC 3720, section B.4, and bit by bit at every size, start and split. */
#include "base/rs_crc.h"
#include "rs_test.h"

#include <stdlib.h>

/* The definition: reflected, polynomial 0x1EDC6F41, one bit at a time. */
static uint32_t slow_crc(uint32_t crc, const uint8_t *p, size_t n) {
    crc = ~crc;
    for (; n > 0; n--, p++) {
        crc ^= *p;
        for (unsigned bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0x82F63B78u & (0u - (crc & 1)));
    }
    return ~crc;
}

TEST(test_vectors) {
    static const uint8_t read_command[48] = {0x01, 0xC0, 0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0,
                                             0,    0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0,
                                             0,    0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0,    0};
    uint8_t bytes[32];
    memset(bytes, 0, sizeof bytes);
    CHECK_U64(rs_crc32c(0, bytes, 32), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof bytes);
    CHECK_U64(rs_crc32c(0, bytes, 32), 0x62A8AB43);
    for (unsigned i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
    CHECK_U64(rs_crc32c(0, bytes, 32), 0x46DD794E);
    for (unsigned i = 0; i < 32; i++) bytes[i] = (uint8_t)(31 - i);
    CHECK_U64(rs_crc32c(0, bytes, 32), 0x113FDB5C);
    CHECK_U64(rs_crc32c(0, read_command, 48), 0xD9963A56);
    CHECK_U64(rs_crc32c(0, "123456789", 9), 0xE3069283);
}

TEST(test_nothing) {
    CHECK_U64(rs_crc32c(0, NULL, 0), 0);
    CHECK_U64(rs_crc32c(0xE3069283u, NULL, 0), 0xE3069283);
}

/* Allocations have the exact size, so that the sanitizer sees a step of 8 bytes that reads too far. */
TEST(test_sizes_and_starts) {
    for (size_t n = 0; n < 100; n++) {
        for (size_t start = 0; start < 9; start++) {
            uint8_t *p = (uint8_t *)malloc(start + n + (start + n == 0));
            if (p == NULL) abort();
            for (size_t i = 0; i < start + n; i++) p[i] = (uint8_t)(i * i + 13 * n);
            CHECK_U64(rs_crc32c(0, p + start, n), slow_crc(0, p + start, n));
            free(p);
        }
    }
}

TEST(test_continued) {
    uint8_t bytes[257];
    uint32_t part;
    size_t second;
    for (size_t cut = 0; cut < sizeof bytes; cut++) bytes[cut] = (uint8_t)(cut * 197);
    uint32_t whole = slow_crc(0, bytes, sizeof bytes);
    for (size_t cut = 0; cut <= sizeof bytes; cut++) {
        part = rs_crc32c(0, bytes, cut);
        CHECK_U64(rs_crc32c(part, bytes + cut, sizeof bytes - cut), whole);
        second = cut + (sizeof bytes - cut) / 3;
        part = rs_crc32c(part, bytes + cut, second - cut);
        CHECK_U64(rs_crc32c(part, bytes + second, sizeof bytes - second), whole);
    }
}

/* Each flipped bit changes the checksum. */
TEST(test_flips) {
    uint8_t bytes[40] = {0};
    uint32_t whole = rs_crc32c(0, bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(rs_crc32c(0, bytes, sizeof bytes) != whole);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}
