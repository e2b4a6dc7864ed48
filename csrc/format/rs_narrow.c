/* rs_narrow.c: reads and writes the data of narrow arrays. */
#include "format/rs_narrow.h"

enum {
    LEAST_BYTES = 64, /* shorter arrays are not narrowed, because rows of one size are read faster */
    STEP = 1024       /* items between two checks of their range */
};

/* The widths that a writer chooses from: for flags, bytes, the tokens of most models, the tokens of the largest
 * vocabularies, and 32-bit numbers. They are few, because each width is another alternative of a union. */
static const uint8_t WIDTHS[] = {1, 8, 16, 20, 32};

/* ---- Reading ---- */

/* Widens fields of 8, 16 or 32 bits and adds the base. The loops have no branch, so compilers vectorize them. */
#define WIDEN(name, stored, item) \
    static void name(const uint8_t *from, uint64_t n, uint64_t base, uint8_t *out) { \
        for (uint64_t i = 0; i < n; i++) { \
            stored v; \
            memcpy(&v, from + i * sizeof v, sizeof v); \
            item value = (item)((item)base + v); \
            memcpy(out + i * sizeof value, &value, sizeof value); \
        } \
    }
WIDEN(widen_1_to_2, uint8_t, uint16_t)
WIDEN(widen_1_to_4, uint8_t, uint32_t)
WIDEN(widen_1_to_8, uint8_t, uint64_t)
WIDEN(widen_2_to_4, uint16_t, uint32_t)
WIDEN(widen_2_to_8, uint16_t, uint64_t)
WIDEN(widen_4_to_8, uint32_t, uint64_t)

static inline void put_item(uint8_t *out, unsigned item_bytes, uint64_t value) {
    switch (item_bytes) {
    case 1: *out = (uint8_t)value; break;
    case 2: rs_store_u16(out, (uint16_t)value); break;
    case 4: {
        const uint32_t low = (uint32_t)value;
        memcpy(out, &low, 4);
        break;
    }
    default: rs_store_u64(out, value);
    }
}

/* Writes the items of fields of up to 56 bits, eight at a time. `left` bytes may be read. Stops before a read could
 * pass the end, and returns how many items it wrote. Constant arguments for width and item_bytes make the shifts
 * constant. */
static inline uint64_t read_eights(const uint8_t *from, uint64_t left, unsigned width, unsigned item_bytes, uint64_t n,
                                   uint64_t base, uint8_t *out) {
    const uint64_t mask = (UINT64_C(1) << width) - 1;
    uint64_t i;
    for (i = 0; i + 8 <= n && left >= width + 8; i += 8, from += width, left -= width) {
        for (unsigned k = 0; k < 8; k++) {
            const uint64_t field = rs_load_u64(from + k * width / 8) >> (k * width % 8) & mask;
            put_item(out + (i + k) * item_bytes, item_bytes, base + field);
        }
    }
    return i;
}

static uint64_t read_eights_by_width(const uint8_t *from, uint64_t left, unsigned width, unsigned item_bytes,
                                     uint64_t n, uint64_t base, uint8_t *out) {
    if (width == 1 && item_bytes == 8) return read_eights(from, left, 1, 8, n, base, out);
    if (width == 1 && item_bytes == 4) return read_eights(from, left, 1, 4, n, base, out);
    if (width == 20 && item_bytes == 8) return read_eights(from, left, 20, 8, n, base, out);
    if (width == 20 && item_bytes == 4) return read_eights(from, left, 20, 4, n, base, out);
    return width > 56 ? 0 : read_eights(from, left, width, item_bytes, n, base, out);
}

void rs_narrow_read(const uint8_t *data, unsigned width, unsigned item_bytes, uint64_t n, uint64_t first,
                    uint64_t count, uint8_t *out) {
    const uint64_t base = rs_load_uint_unchecked(data, item_bytes), size = n / 8 * width + (n % 8 * width + 7) / 8;
    const uint8_t *group = data + item_bytes, *from = group + first / 8 * width;
    switch (width * 16 + item_bytes) {
    case 8 * 16 + 2: widen_1_to_2(from, count, base, out); return;
    case 8 * 16 + 4: widen_1_to_4(from, count, base, out); return;
    case 8 * 16 + 8: widen_1_to_8(from, count, base, out); return;
    case 16 * 16 + 4: widen_2_to_4(from, count, base, out); return;
    case 16 * 16 + 8: widen_2_to_8(from, count, base, out); return;
    case 32 * 16 + 8: widen_4_to_8(from, count, base, out); return;
    default: break;
    }
    uint64_t i = read_eights_by_width(from, size - first / 8 * width, width, item_bytes, count, base, out);
    for (; i < count; i++) {
        const uint64_t bit = i % 8 * width, start = first / 8 * width + i / 8 * width;
        put_item(out + i * item_bytes, item_bytes,
                 base + rs_load_bits_unchecked(group + start, size - start, bit, width));
    }
}

/* ---- Writing ---- */

/* Extends the range from *low to *high to n more items. */
#define RANGE(name, item) \
    static void name(const uint8_t *from, uint64_t n, uint64_t *low, uint64_t *high) { \
        item min = (item) * low, max = (item) * high; \
        for (uint64_t i = 0; i < n; i++) { \
            item v; \
            memcpy(&v, from + i * sizeof v, sizeof v); \
            min = v < min ? v : min; \
            max = v > max ? v : max; \
        } \
        *low = (uint64_t)min; \
        *high = (uint64_t)max; \
    }
RANGE(range_i2, int16_t)
RANGE(range_i4, int32_t)
RANGE(range_i8, int64_t)
RANGE(range_u2, uint16_t)
RANGE(range_u4, uint32_t)
RANGE(range_u8, uint64_t)

typedef void (*range_of)(const uint8_t *from, uint64_t n, uint64_t *low, uint64_t *high);

/* Returns the least of the WIDTHS that holds `range`; 0 if none does, or if it does not save a third of the data. */
static unsigned width_for(uint64_t range, unsigned item_bytes, uint64_t n) {
    const uint64_t all = n * item_bytes;
    for (size_t i = 0; i < sizeof WIDTHS; i++) {
        const unsigned width = WIDTHS[i];
        const uint64_t size = rs_array_data_bytes((uint8_t)(width << RS_FMT_ARRAY_WIDTH_SHIFT), item_bytes, all);
        if (width >= 8 * item_bytes || size > all - all / 3) return 0;
        if (range >> width == 0) return width;
    }
    return 0;
}

unsigned rs_narrow_choose(uint8_t code, const uint8_t *items, uint64_t n, uint64_t *base) {
    static const range_of ranges[] = {NULL, range_i2, range_i4, range_i8, NULL, range_u2, range_u4, range_u8};
    const unsigned size = rs_narrow_item_bytes(code);
    const uint64_t mask = UINT64_MAX >> (64 - 8 * size);
    uint64_t high, count;
    unsigned width = 0;
    if (code < RS_FMT_DTYPE_INT8 || code > RS_FMT_DTYPE_UINT64 || size == 1 || n < LEAST_BYTES / size) return 0;
    uint64_t low = high = rs_load_uint_unchecked(items, size);
    for (uint64_t i = 0; i < n; i += count) {
        count = n - i < STEP ? n - i : STEP;
        ranges[code - RS_FMT_DTYPE_INT8](items + i * size, count, &low, &high);
        width = width_for((high - low) & mask, size, n);
        if (width == 0) return 0;
    }
    *base = low;
    return width;
}

/* Subtracts the base and stores the low bytes. */
#define SHORTEN(name, item, stored) \
    static void name(const uint8_t *items, uint64_t n, uint64_t base, uint8_t *out) { \
        for (uint64_t i = 0; i < n; i++) { \
            item v; \
            memcpy(&v, items + i * sizeof v, sizeof v); \
            stored field = (stored)(v - (item)base); \
            memcpy(out + i * sizeof field, &field, sizeof field); \
        } \
    }
SHORTEN(shorten_2_to_1, uint16_t, uint8_t)
SHORTEN(shorten_4_to_1, uint32_t, uint8_t)
SHORTEN(shorten_8_to_1, uint64_t, uint8_t)
SHORTEN(shorten_4_to_2, uint32_t, uint16_t)
SHORTEN(shorten_8_to_2, uint64_t, uint16_t)
SHORTEN(shorten_8_to_4, uint64_t, uint32_t)

void rs_narrow_write(const uint8_t *items, unsigned item_bytes, uint64_t n, unsigned width, uint64_t base,
                     uint8_t *out) {
    const uint64_t mask = UINT64_MAX >> (64 - 8 * item_bytes);
    put_item(out, item_bytes, base);
    out += item_bytes;
    switch (width * 16 + item_bytes) {
    case 8 * 16 + 2: shorten_2_to_1(items, n, base, out); return;
    case 8 * 16 + 4: shorten_4_to_1(items, n, base, out); return;
    case 8 * 16 + 8: shorten_8_to_1(items, n, base, out); return;
    case 16 * 16 + 4: shorten_4_to_2(items, n, base, out); return;
    case 16 * 16 + 8: shorten_8_to_2(items, n, base, out); return;
    case 32 * 16 + 8: shorten_8_to_4(items, n, base, out); return;
    default: break;
    }
    memset(out, 0, (size_t)(n / 8 * width + (n % 8 * width + 7) / 8));
    for (uint64_t i = 0; i < n; i++) {
        rs_store_bits(out + i / 8 * width, i % 8 * width, width,
                      (rs_load_uint_unchecked(items + i * item_bytes, item_bytes) - base) & mask);
    }
}
