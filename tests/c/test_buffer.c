/* test_buffer.c: growth keeps the bytes; a failed growth changes nothing; a cleared buffer can be used again. */
#include "base/rs_buffer.h"
#include "rs_test.h"

static rs_error err;

/* The byte that the tests append at position i. */
static uint8_t pattern(size_t i) { return (uint8_t)(i * 31 + 7); }

static void append_pattern(rs_buffer *b) {
    const uint8_t next = pattern(b->size_bytes);
    CHECK_OK(rs_buffer_append(b, &next, 1, &err), &err);
}

static bool holds_pattern(const rs_buffer *b, size_t n) {
    size_t i;
    for (i = 0; i < n && b->data[i] == pattern(i); i++) {
    }
    return b->size_bytes >= n && i == n;
}

TEST(test_append) {
    rs_buffer b = {0};
    uint8_t chunk[300];
    for (size_t n = 0; n < 300; n++) { /* 0 + 1 + 2 + ... bytes: through several growths */
        for (size_t i = 0; i < n; i++) chunk[i] = pattern(b.size_bytes + i);
        REQUIRE_OK(rs_buffer_append(&b, chunk, n, &err), &err);
        CHECK(b.size_bytes == n * (n + 1) / 2 && b.size_bytes <= b.capacity_bytes);
    }
    CHECK(holds_pattern(&b, b.size_bytes));
    rs_buffer_clear(&b);
}

/* Appending no bytes allocates nothing, and its pointer may be NULL. */
TEST(test_nothing) {
    rs_buffer b = {0};
    CHECK_OK(rs_buffer_append(&b, NULL, 0, &err), &err);
    CHECK_OK(rs_buffer_append_zeros(&b, 0, &err), &err);
    CHECK_OK(rs_buffer_reserve(&b, 0, &err), &err);
    CHECK(b.data == NULL && b.size_bytes == 0 && b.capacity_bytes == 0);
    rs_buffer_clear(&b);
}

TEST(test_reserve) {
    rs_buffer b = {0};
    uint8_t *data;
    size_t capacity;
    REQUIRE_OK(rs_buffer_reserve(&b, 1000, &err), &err);
    CHECK(b.size_bytes == 0 && b.capacity_bytes >= 1000);
    data = b.data, capacity = b.capacity_bytes;
    for (size_t i = 0; i < capacity; i++) append_pattern(&b);
    CHECK(b.data == data && b.capacity_bytes == capacity); /* reserved memory is not moved */
    append_pattern(&b);
    CHECK(b.capacity_bytes > capacity && holds_pattern(&b, capacity + 1));
    capacity = b.capacity_bytes;
    REQUIRE_OK(rs_buffer_reserve(&b, capacity, &err), &err); /* more than a quarter is reserved exactly */
    CHECK_U64(b.capacity_bytes, b.size_bytes + capacity);
    rs_buffer_clear(&b);
}

TEST(test_zeros_and_varints) {
    static const struct {
        uint64_t value;
        size_t n;
        uint8_t bytes[10];
    } varints[] = {{0, 1, {0}},
                   {127, 1, {0x7F}},
                   {128, 2, {0x80, 1}},
                   {300, 2, {0xAC, 2}},
                   {UINT64_MAX, 10, {255, 255, 255, 255, 255, 255, 255, 255, 255, 1}}};
    rs_buffer b = {0};
    size_t i;
    for (i = 0; i < sizeof varints / sizeof varints[0]; i++) {
        append_pattern(&b);
        size_t at = b.size_bytes;
        REQUIRE_OK(rs_buffer_append_varint(&b, varints[i].value, &err), &err);
        CHECK(b.size_bytes == at + varints[i].n && memcmp(b.data + at, varints[i].bytes, varints[i].n) == 0);
    }
    size_t at = b.size_bytes;
    REQUIRE_OK(rs_buffer_append_zeros(&b, 5000, &err), &err);
    CHECK_U64(b.size_bytes, at + 5000);
    for (i = at; i < b.size_bytes && b.data[i] == 0; i++) {
    }
    CHECK_U64(i, b.size_bytes);
    rs_buffer_clear(&b);
}

/* Sizes that wrap, or that no allocator provides, give RS_E_MEM and leave the buffer unchanged. */
TEST(test_too_much) {
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4, (size_t)PTRDIFF_MAX + 1, (size_t)PTRDIFF_MAX};
    rs_buffer b = {0};
    for (size_t i = 0; i < 5; i++) append_pattern(&b);
    EACH (i, sizes) {
        rs_buffer before = b;
        rs_error_clear(&err);
        CHECK_CODE(rs_buffer_append_zeros(&b, sizes[i], &err), RS_E_MEM, &err);
        CHECK_U64(err.code, RS_E_MEM);
        CHECK_CODE(rs_buffer_reserve(&b, sizes[i], NULL), RS_E_MEM, NULL);
        CHECK(b.data == before.data && b.size_bytes == before.size_bytes && b.capacity_bytes == before.capacity_bytes);
        CHECK(holds_pattern(&b, 5));
    }
    rs_buffer_clear(&b);
}

TEST(test_clear) {
    rs_buffer b = {0};
    for (int round = 0; round < 3; round++) {
        REQUIRE_OK(rs_buffer_append_zeros(&b, 100, &err), &err);
        rs_buffer_clear(&b);
        CHECK(b.data == NULL && b.size_bytes == 0 && b.capacity_bytes == 0);
        rs_buffer_clear(&b);
    }
}
