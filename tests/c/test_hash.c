/* test_hash.c: XXH64 against published values and a slow implementation of the specification. */
#include "base/rs_hash.h"
#include "rs_make.h"

/* The input of the reference implementation's self-test: the high bytes of a repeated product. */
enum { SANITY = 2367 };
#define PRIME32 UINT64_C(2654435761)
static uint8_t sanity[SANITY];

TEST(make_sanity) {
    uint64_t generator = PRIME32;
    for (size_t i = 0; i < SANITY; i++, generator *= UINT64_C(11400714785074694797))
        sanity[i] = (uint8_t)(generator >> 56);
    CHECK(sanity[0] == 0);
}

TEST(test_published) {
    static const struct {
        size_t n;
        uint64_t seed, hash;
    } cases[] = {
        {0, 0, UINT64_C(0xEF46DB3751D8E999)},         {0, PRIME32, UINT64_C(0xAC75FDA2929B17EF)},
        {1, 0, UINT64_C(0xE934A84ADB052768)},         {1, PRIME32, UINT64_C(0x5014607643A9B4C3)},
        {4, 0, UINT64_C(0x9136A0DCA57457EE)},         {14, 0, UINT64_C(0x8282DCC4994E35C8)},
        {14, PRIME32, UINT64_C(0xC3BD6BF63DEB6DF0)},  {222, 0, UINT64_C(0xB641AE8CB691C174)},
        {222, PRIME32, UINT64_C(0x20CB8AB7AE10C14A)},
    };
    static const struct {
        const char *text;
        uint64_t hash;
    } texts[] = {
        {"a", UINT64_C(0xD24EC4F1A98C6E5B)},
        {"abc", UINT64_C(0x44BC2CF5AD770999)},
        {"message digest", UINT64_C(0x066ED728FCEEB3BE)},
        {"abcdefghijklmnopqrstuvwxyz", UINT64_C(0xCFE1F278FA89835C)},
    };
    EACH (i, cases) {
        CHECK_U64(rs_hash64(sanity, cases[i].n, cases[i].seed), cases[i].hash);
    }
    EACH (i, texts) {
        CHECK_U64(rs_hash64(texts[i].text, strlen(texts[i].text), 0), texts[i].hash);
    }
    CHECK_U64(rs_hash64(NULL, 0, 0), UINT64_C(0xEF46DB3751D8E999));
}

/* ---- The steps of the specification, byte by byte ---- */

static const uint64_t P[6] = {0,
                              UINT64_C(11400714785074694791),
                              UINT64_C(14029467366897019727),
                              UINT64_C(1609587929392839161),
                              UINT64_C(9650029242287828579),
                              UINT64_C(2870177450012600261)};

static uint64_t rotate_left(uint64_t v, int by) {
    while (by-- > 0) v = (v << 1) + (v >> 63);
    return v;
}

static uint64_t lane(const uint8_t *p, int bytes) {
    uint64_t v = 0;
    while (bytes-- > 0) v = v * 256 + p[bytes];
    return v;
}

static uint64_t spec_round(uint64_t a, uint64_t l) { return rotate_left(a + l * P[2], 31) * P[1]; }

static uint64_t slow(const uint8_t *p, uint64_t n, uint64_t seed) {
    uint64_t acc[4] = {seed + P[1] + P[2], seed + P[2], seed, seed - P[1]}, all = seed + P[5], left = n;
    if (n >= 32) {
        for (; left >= 32; left -= 32) {
            for (int i = 0; i < 4; i++, p += 8) acc[i] = spec_round(acc[i], lane(p, 8));
        }
        all = rotate_left(acc[0], 1) + rotate_left(acc[1], 7) + rotate_left(acc[2], 12) + rotate_left(acc[3], 18);
        for (int i = 0; i < 4; i++) all = (all ^ spec_round(0, acc[i])) * P[1] + P[4];
    }
    all += n;
    for (; left >= 8; left -= 8, p += 8) all = rotate_left(all ^ spec_round(0, lane(p, 8)), 27) * P[1] + P[4];
    for (; left >= 4; left -= 4, p += 4) all = rotate_left(all ^ (lane(p, 4) * P[1]), 23) * P[2] + P[3];
    for (; left > 0; left--, p++) all = rotate_left(all ^ (lane(p, 1) * P[5]), 11) * P[1];
    all = (all ^ (all >> 33)) * P[2];
    all = (all ^ (all >> 29)) * P[3];
    return all ^ (all >> 32);
}

TEST(test_against_slow) {
    for (uint64_t n = 0; n <= 300; n++) {
        uint8_t *exact = make_exact(sanity + n, n);
        for (uint64_t seed = 0; seed < 3; seed++) {
            uint64_t s = seed == 2 ? UINT64_MAX - n : seed * 12345;
            CHECK_U64(rs_hash64(exact, n, s), slow(exact, n, s));
        }
        free(exact);
    }
    CHECK_U64(rs_hash64(sanity, SANITY, 7), slow(sanity, SANITY, 7));
}

/* A head of up to 16 bytes, hashed with bytes that lie elsewhere, gives the hash of both joined. */
TEST(test_headed) {
    for (unsigned head = 0; head <= RS_HASH_HEAD_MAX; head++) {
        for (uint64_t n = 0; n < 100; n++) {
            uint8_t *h = make_exact(sanity, head), *b = make_exact(sanity + head, n);
            CHECK_U64(rs_hash64_headed(h, head, b, n, 99), slow(sanity, head + n, 99));
            free(h);
            free(b);
        }
    }
}

TEST(test_scale) {
    CHECK_U64(rs_hash_scale(0, UINT64_MAX), 0);
    CHECK_U64(rs_hash_scale(UINT64_MAX, 1), 0);
    CHECK_U64(rs_hash_scale(UINT64_MAX, 1000), 999);
    CHECK_U64(rs_hash_scale(UINT64_C(1) << 63, 1000), 500);
    CHECK_U64(rs_hash_scale(UINT64_MAX, UINT64_MAX), UINT64_MAX - 1);
    CHECK_U64(rs_hash_scale(UINT64_C(0x123456789ABCDEF0), UINT64_C(0xFEDCBA987654321)), UINT64_C(0x121FA00AD77D742));
}
