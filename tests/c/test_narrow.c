/* test_narrow.c: narrow arrays: each width and item size, exact bounds, and the widths that a writer chooses. */
#include "format/rs_narrow.h"

#include "base/rs_permute.h"
#include "columns/rs_run.h"
#include "rs_make.h"

enum { MAX_ITEMS = 700 };

static rs_error err;
static uint8_t items[8 * MAX_ITEMS], back[8 * MAX_ITEMS + 8];

/* Returns the data in memory of exactly its size, so that the sanitizer finds a read beyond it. */
static uint8_t *store_data(const uint64_t *fields, unsigned width, unsigned item_bytes, uint64_t n, uint64_t base,
                           uint64_t *size) {
    *size = item_bytes + (n * width + 7) / 8;
    CHECK_U64(rs_array_data_bytes((uint8_t)(width << RS_FMT_ARRAY_WIDTH_SHIFT), item_bytes, n * item_bytes), *size);
    uint8_t *data = (uint8_t *)calloc(1, (size_t)*size);
    if (data == NULL) abort();
    memcpy(data, &base, item_bytes);
    for (uint64_t i = 0; i < n; i++) rs_store_bits(data + item_bytes, i * width, width, fields[i]);
    return data;
}

static void check_width(unsigned width, unsigned item_bytes, uint64_t n, uint64_t base) {
    const uint64_t mask = UINT64_MAX >> (64 - 8 * item_bytes);
    uint64_t fields[MAX_ITEMS], size;
    for (uint64_t i = 0; i < n; i++) fields[i] = rs_mix64(i * 64 + width) >> (64 - width);
    uint8_t *data = store_data(fields, width, item_bytes, n, base, &size);
    for (uint64_t first = 0; first <= n; first += 8 * (1 + n / 16)) {
        memset(back, 0xA5, sizeof back);
        rs_narrow_read(data, width, item_bytes, n, first, n - first, back);
        for (uint64_t i = first; i < n; i++) {
            uint64_t item = 0;
            memcpy(&item, back + (i - first) * item_bytes, item_bytes);
            CHECK_U64(item, (base + fields[i]) & mask);
        }
        CHECK(back[(n - first) * item_bytes] == 0xA5);
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t item = base + fields[i];
        memcpy(items + i * item_bytes, &item, item_bytes);
    }
    rs_narrow_write(items, item_bytes, n, width, base, back);
    CHECK(memcmp(back, data, (size_t)size) == 0);
    free(data);
}

TEST(test_widths) {
    static const uint64_t counts[] = {0, 1, 7, 8, 9, 16, 63, 256, 257, MAX_ITEMS};
    static const uint64_t bases[] = {0, 5, UINT64_MAX - 99, UINT64_C(1) << 63};
    for (unsigned size = 1; size <= 8; size *= 2) {
        for (unsigned width = 1; width < 8 * size; width++) {
            EACH (k, counts) {
                for (unsigned b = 0; b < 4; b++) check_width(width, size, counts[k], bases[b]);
            }
        }
    }
}

static unsigned choose(uint8_t code, uint64_t n, int64_t low, uint64_t range, uint64_t *base) {
    const unsigned size = rs_narrow_item_bytes(code);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t item = (uint64_t)low + (i == n / 2 ? range : i % 2 * (range / 2));
        memcpy(items + i * size, &item, size);
    }
    return rs_narrow_choose(code, items, n, base);
}

TEST(test_choice) {
    uint64_t base;
    CHECK(choose(4, 500, 0, 49999, &base) == 16 && base == 0);
    CHECK(choose(5, 500, -100, 49999, &base) == 16 && base == (uint64_t)-100);
    CHECK(choose(5, 500, -100, 65535, &base) == 16 && choose(5, 500, -100, 65536, &base) == 20);
    CHECK(choose(4, 500, INT32_MIN, 255, &base) == 8 && choose(8, 500, 0, UINT32_MAX, &base) == 0);
    CHECK(choose(9, 500, INT64_MIN, UINT32_MAX, &base) == 32 && base == UINT64_C(1) << 63);
    CHECK(choose(9, 500, 0, UINT64_C(1) << 32, &base) == 0 && choose(5, 500, INT64_MIN, UINT64_MAX, &base) == 0);
    CHECK(choose(3, 500, 0, 255, &base) == 8 && choose(3, 500, -7, 256, &base) == 0);
    CHECK(choose(5, 64, 1, 0, &base) == 1 && base == 1 && choose(5, 64, 0, 1, &base) == 1);
    CHECK(choose(5, 7, 0, 1, &base) == 0 && choose(5, 8, 0, 1, &base) == 1); /* only 64 bytes or more are narrowed */
    CHECK(choose(4, 500, 0, (1 << 20) - 1, &base) == 20 && choose(4, 500, 0, 1 << 20, &base) == 0);
    CHECK(choose(2, 500, 0, 1, &base) == 0 && choose(6, 500, 0, 1, &base) == 0 && choose(1, 500, 0, 1, &base) == 0);
    CHECK(rs_narrow_choose(11, items, 500, &base) == 0 && rs_narrow_choose(0x84, items, 500, &base) == 0);
    CHECK(rs_narrow_choose(4, items, 0, &base) == 0);
}

/* The widths and flags that the array of a dtype may have. */
TEST(test_widths_of_dtypes) {
    for (unsigned code = 1; code <= 14; code++) {
        for (unsigned width = 0; width < 64; width++) {
            for (unsigned flags = 0; flags < 4; flags++) {
                const uint8_t bytes[] = {(uint8_t)(width << 2 | flags), (uint8_t)code},
                              big[] = {bytes[0], (uint8_t)(code | 0x80)};
                rs_slice in = rs_slice_of(bytes, 2), in_big = rs_slice_of(big, 2);
                rs_array_type type;
                const bool is_int = code >= 2 && code <= 9;
                const bool ok = width == 0 || (is_int && flags < 2 && width < 8 * rs_narrow_item_bytes((uint8_t)code));
                CHECK_CODE(rs_array_type_take(&in, &type, &err), ok ? RS_OK : RS_E_FMT_VALUE, &err);
                if (ok) CHECK(type.width == width && type.code == code);
                CHECK_CODE(rs_array_type_take(&in_big, &type, &err), width == 0 ? RS_OK : RS_E_FMT_VALUE, &err);
            }
        }
    }
}

TEST(test_cuts) {
    static const uint8_t bytes[] = {0x10 << 2, 4, 1, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; /* 3 items of 16 bits */
    rs_array_type type;
    rs_slice shape;
    uint64_t size, outside;
    for (size_t n = 0; n <= sizeof bytes; n++) {
        rs_slice in = rs_slice_of(bytes, n);
        CHECK_CODE(rs_array_skip(&in, 0, &type, &shape, &size, &outside, &err),
                   n == sizeof bytes ? RS_OK : RS_E_FMT_TRUNCATED, &err);
    }
    CHECK_U64(size, 10);
}

/* A run of a narrow array is written as items of other dtypes, up to the first item that the dtype cannot hold. */
TEST(test_runs) {
    static const unsigned dtypes[] = {RS_DTYPE_INT32, RS_DTYPE_INT64, RS_DTYPE_UINT64, RS_DTYPE_FLOAT64};
    uint64_t fields[MAX_ITEMS], size, written;
    rs_buffer scratch = {0};
    for (uint64_t i = 0; i < MAX_ITEMS; i++) fields[i] = i * 37 % 65536;
    uint8_t *data = store_data(fields, 16, 4, MAX_ITEMS, 7, &size);
    EACH (k, dtypes) {
        const rs_run run = {data, NULL, MAX_ITEMS, size, RS_RUN_ITEMS, 4, 16, false};
        CHECK_OK(rs_run_write(&run, MAX_ITEMS, dtypes[k], NULL, &scratch, back, &written, &err), &err);
        CHECK_U64(written, MAX_ITEMS);
        for (uint64_t i = 0; i < MAX_ITEMS; i++) {
            const uint64_t expected = 7 + fields[i];
            if (dtypes[k] == RS_DTYPE_FLOAT64) CHECK(rs_load_f64(back + 8 * i) == (double)expected);
            else
                CHECK_U64(rs_load_uint_unchecked(back + rs_dtype_bytes(dtypes[k]) * i, rs_dtype_bytes(dtypes[k])),
                          expected);
        }
        CHECK_OK(rs_run_write(&run, MAX_ITEMS, RS_DTYPE_UINT8, NULL, &scratch, back, &written, &err), &err);
        CHECK_U64(written, 7); /* 7 + 37 * 7 is 266 */
    }
    free(data);
    rs_buffer_clear(&scratch);
}
