/* rs_rising.c: sizes and writes lines and corners. */
#include "plan/rs_rising.h"

enum { MAX_START = 65535, FINE_SHIFT = 20 };

unsigned rs_marks_form(uint32_t n_records, uint32_t n_marks) {
    return rs_marks_size(RS_FMT_MARKS_LOW, n_records, n_marks) <= rs_marks_size(RS_FMT_MARKS_BITS, n_records, n_marks)
               ? RS_FMT_MARKS_LOW
               : RS_FMT_MARKS_BITS;
}

void rs_rising_fill(const uint32_t *locals, const uint64_t *known, uint32_t n_known, uint64_t *numbers,
                    uint32_t n_records) {
    uint32_t j = 0;
    for (; j < locals[0]; j++) numbers[j] = known[0];
    for (uint32_t i = 0; i + 1 < n_known; i++) {
        uint32_t gap = locals[i + 1] - locals[i];
        int64_t way = (int64_t)(known[i + 1] - known[i]) / (int64_t)gap;
        for (uint32_t k = 0; k < gap; k++) numbers[j++] = known[i] + (uint64_t)way * k;
    }
    for (; j < n_records; j++) numbers[j] = known[n_known - 1];
}

static uint64_t line_at(const rs_rising *r, uint32_t j) {
    return r->base + (uint64_t)((int64_t)((uint64_t)r->step * j) >> r->shift);
}

/* Returns corner f: the number of record 64 f, or of the last record if that is missing, minus the line. */
static int64_t corner_at(const uint64_t *numbers, uint32_t n, const rs_rising *r, uint32_t f) {
    uint32_t j = f * RS_FMT_RISING_RECORDS < n ? f * RS_FMT_RISING_RECORDS : n - 1;
    return (int64_t)(numbers[j] - line_at(r, j));
}

/* Sets residuals[] for up to 64 records from record 64 f on, and returns the bits per residual. */
static unsigned residuals_of(const uint64_t *numbers, uint32_t n, const rs_rising *r, uint32_t f, int64_t a, int64_t b,
                             int64_t residuals[RS_FMT_RISING_RECORDS]) {
    uint32_t j = f * RS_FMT_RISING_RECORDS;
    uint64_t all = 0;
    for (uint32_t k = 0; k < RS_FMT_RISING_RECORDS && j < n; k++, j++) {
        uint64_t way = (uint64_t)((int64_t)(((uint64_t)b - (uint64_t)a) * k) >> 6);
        int64_t z = (int64_t)(numbers[j] - line_at(r, j) - (uint64_t)a - way);
        residuals[k] = z;
        all |= (uint64_t)(z < 0 ? ~z : z) << 1 | (uint64_t)(z != 0);
    }
    return all >> 63 != 0 ? 64 : rs_bit_width(all);
}

/* Sizes one line: sets form, width and base, and size_bytes to the size of the section. It stops when the size exceeds
 * `most`. */
static void weigh_line(const uint64_t *numbers, uint32_t n, rs_rising *r, uint64_t most) {
    int64_t low = 0, high = 0;
    r->form = RS_FMT_RISING_LINE;
    r->base = numbers[0];
    for (uint32_t j = 0, end; j < n; j = end) {
        end = n - j < RS_FMT_RISING_RECORDS ? n : j + RS_FMT_RISING_RECORDS;
        for (uint32_t k = j; k < end; k++) {
            int64_t z = (int64_t)(numbers[k] - line_at(r, k));
            low = z < low ? z : low;
            high = z > high ? z : high;
        }
        r->width = (uint8_t)rs_bit_width((uint64_t)high - (uint64_t)low);
        r->size_bytes = RS_FMT_RISING_HEAD_SIZE + ((uint64_t)n * r->width + 7) / 8;
        if (r->size_bytes > most) return;
    }
    r->base += (uint64_t)low;
}

/* Sizes corners, as weigh_line. size_bytes becomes UINT64_MAX if the residuals are too large for the u16 starts. */
static void weigh_corners(const uint64_t *numbers, uint32_t n, rs_rising *r) {
    int64_t residuals[RS_FMT_RISING_RECORDS], a, b, high;
    uint32_t frames = (n + RS_FMT_RISING_RECORDS - 1) / RS_FMT_RISING_RECORDS;
    uint64_t widths = 0;
    r->form = RS_FMT_RISING_CORNERS;
    r->base = numbers[0];
    int64_t low = high = a = corner_at(numbers, n, r, 0);
    for (uint32_t f = 0; f < frames; f++, a = b) {
        b = corner_at(numbers, n, r, f + 1);
        low = b < low ? b : low;
        high = b > high ? b : high;
        widths += residuals_of(numbers, n, r, f, a, b, residuals);
    }
    r->width = (uint8_t)rs_bit_width((uint64_t)high - (uint64_t)low);
    r->base += (uint64_t)low; /* corners count from the lowest, so none is negative */
    r->size_bytes =
        RS_FMT_RISING_HEAD_SIZE + ((uint64_t)(frames + 1) * r->width + 7) / 8 + 2 * ((uint64_t)frames + 1) + 8 * widths;
    if (widths > MAX_START) r->size_bytes = UINT64_MAX;
}

void rs_rising_choose(const uint64_t *numbers, uint32_t n, rs_rising *out) {
    int64_t way = (int64_t)(numbers[n - 1] - numbers[0]), span = n > 1 ? (int64_t)n - 1 : 1;
    rs_rising first = {.step = n > 1 ? (int64_t)(numbers[1] - numbers[0]) : 0};
    memset(out, 0, sizeof *out);
    /* The line through the first and the last number, in parts of 2^-20 if the products stay within 64 bits. */
    out->shift = way < INT64_C(1) << 42 && way > -(INT64_C(1) << 42) ? FINE_SHIFT : 0;
    out->step = way * (INT64_C(1) << out->shift) / span;
    rs_rising line = *out;
    weigh_corners(numbers, n, out); /* mostly the smallest, so the lines are soon too large */
    weigh_line(numbers, n, &line, out->size_bytes);
    if (line.size_bytes <= out->size_bytes) *out = line;
    weigh_line(numbers, n, &first, out->size_bytes);
    if (first.size_bytes <= out->size_bytes) *out = first;
}

rs_status rs_rising_append(const uint64_t *numbers, uint32_t n, rs_buffer *out, rs_error *err) {
    uint32_t frames = (n + RS_FMT_RISING_RECORDS - 1) / RS_FMT_RISING_RECORDS, widths = 0;
    int64_t residuals[RS_FMT_RISING_RECORDS];
    rs_rising r;
    rs_rising_choose(numbers, n, &r);
    RS_TRY(rs_buffer_append_zeros(out, (size_t)r.size_bytes, err));
    uint8_t *head = out->data + out->size_bytes - r.size_bytes;
    rs_store_u64(head + RS_FMT_R_BASE, r.base);
    rs_store_u64(head + RS_FMT_R_STEP, (uint64_t)r.step);
    head[RS_FMT_R_SHIFT] = r.shift;
    head[RS_FMT_R_FORM] = r.form;
    head[RS_FMT_R_WIDTH] = r.width;
    uint8_t *corners = head + RS_FMT_RISING_HEAD_SIZE;
    if (r.form == RS_FMT_RISING_LINE) {
        for (uint32_t j = 0; j < n; j++) {
            rs_store_bits(corners, (uint64_t)j * r.width, r.width, numbers[j] - line_at(&r, j));
        }
        return RS_OK;
    }
    uint8_t *starts = corners + ((uint64_t)(frames + 1) * r.width + 7) / 8;
    uint8_t *data = starts + 2 * ((size_t)frames + 1);
    for (uint32_t f = 0; f <= frames; f++) {
        int64_t a = corner_at(numbers, n, &r, f), b = corner_at(numbers, n, &r, f + 1);
        unsigned w = f < frames ? residuals_of(numbers, n, &r, f, a, b, residuals) : 0;
        uint64_t half = w == 0 ? 0 : UINT64_C(1) << (w - 1);
        rs_store_bits(corners, (uint64_t)f * r.width, r.width, (uint64_t)a);
        rs_store_u16(starts + 2 * (size_t)f, (uint16_t)widths);
        for (uint32_t j = 0; w != 0 && j < RS_FMT_RISING_RECORDS && f * RS_FMT_RISING_RECORDS + j < n; j++) {
            rs_store_bits(data + 8 * (size_t)widths, (uint64_t)j * w, w, (uint64_t)residuals[j] + half);
        }
        widths += w;
    }
    return RS_OK;
}
