/* rs_packed_ints.c: packs and unpacks lists of numbers, and finds the scale of decimals. */
#include "format/rs_packed_ints.h"

enum { CHUNK = RS_FMT_NUMBERS_CHUNK, HISTORY = RS_FMT_STRIDE_MAX };

/* Returns the number to add to the 4 bits of a chunk, if they are not 0, to get its width. */
static unsigned width_base(unsigned max_width) { return max_width > 15 ? max_width - 15 : 0; }

static unsigned width_of(const uint8_t *widths, uint64_t chunk, unsigned base) {
    unsigned x = (unsigned)widths[chunk / 2] >> (chunk % 2 * 4) & 15u;
    return x == 0 ? 0 : x + base;
}

/* ---- Reading ---- */

/* Sets *out to the bytes of `chunks` chunks of 8 numbers, which is the sum of their widths. Reads sixteen widths at a
 * time, because this is most of the work of skipping a list. Returns false for a width above max_width. */
static bool sum_widths(const uint8_t *widths, uint64_t chunks, unsigned max_width, uint64_t *out) {
    const uint64_t low = UINT64_C(0x0F0F0F0F0F0F0F0F), ones = UINT64_C(0x0101010101010101), carry = ones << 4;
    const uint64_t over = ones * (max_width < 15 ? 15 - max_width : 0); /* added, it carries when x is too large */
    const uint64_t base = width_base(max_width);
    uint64_t bytes = chunks / 2 + chunks % 2, sum = 0, n_nonzero = 0, bad = 0;
    for (; bytes > 0; widths += 8) {
        uint64_t all = bytes < 8 ? rs_load_few_unchecked(widths, bytes) : rs_load_u64(widths), even, odd;
        if (bytes <= 8 && chunks % 2 != 0) all &= ~(UINT64_C(0xF0) << (bytes - 1) * 8); /* unused bits */
        even = all & low, odd = all >> 4 & low;
        bad |= (even + over) | (odd + over);
        sum += (even + odd) * ones >> 56; /* at most 16 times 15 */
        n_nonzero += (((even + low) >> 4 & ones) + ((odd + low) >> 4 & ones)) * ones >> 56;
        bytes -= bytes < 8 ? bytes : 8;
    }
    *out = sum + n_nonzero * base;
    return (bad & carry) == 0;
}

bool rs_packed_ints_take(const rs_node *node, uint64_t n, rs_slice *in, rs_packed_ints *out) {
    uint64_t head = n < node->stride ? n : node->stride, rest = n - head, chunks = rest / CHUNK + (rest % CHUNK != 0);
    unsigned left = (unsigned)(rest % CHUNK);
    uint64_t size;
    rs_slice at = *in;
    out->n = n;
    if (!rs_take(&at, (head * node->head_width + 7) / 8, &out->head)) return false;
    if (!rs_take(&at, chunks / 2 + chunks % 2, &out->widths)) return false;
    if (!sum_widths(out->widths, chunks, node->max_width, &size)) {
        out->n = 0;
        return false;
    }
    if (left != 0) {
        const unsigned width = width_of(out->widths, chunks - 1, width_base(node->max_width));
        const unsigned excess = width - (left * width + 7) / 8;
        if (excess > size) return false; /* only if another process has changed the widths */
        size -= excess;
    }
    if (!rs_take(&at, size, &out->chunks)) return false;
    out->node = node;
    out->end = at.ptr;
    rs_packed_ints_begin(out);
    *in = at;
    return true;
}

/* Unpacks `count` fields of `width` bits at p. `before` bytes before p and `left` bytes from p on may be read. */
static inline void unpack(const uint8_t *p, size_t before, size_t left, unsigned width, unsigned count, uint64_t *out) {
    const uint64_t mask = (UINT64_C(1) << (width & 63)) - 1;
    if (width == 0) {
        memset(out, 0, count * sizeof *out);
        return;
    }
    if (width > 56) {
        for (unsigned i = 0; i < count; i++) {
            out[i] = rs_load_bits_unchecked(p, ((uint64_t)count * width + 7) / 8, (uint64_t)i * width, width);
        }
        return;
    }
    if (RS_LIKELY(left >= (size_t)width + 8)) {
        for (unsigned i = 0; i < count; i++) {
            unsigned bit = i * width;
            out[i] = rs_load_u64(p + bit / 8) >> bit % 8 & mask;
        }
    } else if (RS_LIKELY(before + left >= 8)) {
        /* Near the end of the readable bytes, take the last fields from the upper bits of the last 8 bytes. */
        ptrdiff_t last = (ptrdiff_t)left - 8;
        for (unsigned i = 0; i < count; i++) {
            ptrdiff_t bit = (ptrdiff_t)(i * width), at = bit / 8 < last ? bit / 8 : last;
            out[i] = rs_load_u64(p + at) >> (bit - 8 * at) & mask;
        }
    } else {
        for (unsigned i = 0; i < count; i++) {
            out[i] = rs_load_bits_unchecked(p, ((uint64_t)count * width + 7) / 8, (uint64_t)i * width, width);
        }
    }
}

static unsigned next_head(rs_packed_ints *self, unsigned n, const int64_t **out) {
    const rs_node *node = self->node;
    int64_t *to = self->last + HISTORY - n;
    uint64_t size = ((uint64_t)n * node->head_width + 7) / 8;
    for (unsigned i = 0; i < n; i++) {
        to[i] = (int64_t)(node->base +
                          rs_load_bits_unchecked(self->head, size, (uint64_t)i * node->head_width, node->head_width));
    }
    self->done = n;
    *out = to;
    return n;
}

unsigned rs_packed_ints_next(rs_packed_ints *self, const int64_t **out) {
    const rs_node *node = self->node;
    uint64_t left = self->n - self->done, fields[CHUNK];
    unsigned stride = node->stride;
    int64_t *to = self->last + HISTORY;
    if (left == 0) return 0;
    if (self->done == 0 && stride != 0) return next_head(self, left < stride ? (unsigned)left : stride, out);
    unsigned count = left < CHUNK ? (unsigned)left : CHUNK;
    /* The widths may have changed since rs_packed_ints_take checked them, so they are checked again. */
    unsigned width = width_of(self->widths, self->chunk++, width_base(node->max_width));
    if (width > node->max_width || ((uint64_t)count * width + 7) / 8 > (uint64_t)(self->end - self->chunks)) width = 0;
    unpack(self->chunks, (size_t)(self->chunks - self->head), (size_t)(self->end - self->chunks), width, count, fields);
    self->chunks += (count * width + 7) / 8;
    if (stride == 0) {
        for (unsigned i = 0; i < count; i++) to[i] = (int64_t)(node->base + fields[i]);
    } else {
        for (unsigned i = 0; i < count; i++) {
            uint64_t z = fields[i] >> 1 ^ (0 - (fields[i] & 1));
            to[i] = (int64_t)((uint64_t)to[(int)i - (int)stride] + z);
        }
        memmove(self->last, self->last + count, HISTORY * sizeof *self->last);
        /* memmove has moved the chunk too: it now ends where the next one will begin. */
        to -= count;
    }
    self->done += count;
    *out = to;
    return count;
}

void rs_packed_ints_read(rs_packed_ints *self, int64_t *out) {
    const rs_node *node = self->node;
    const uint8_t *chunks = self->chunks, *end = self->end;
    const uint64_t base = node->base, n = self->n;
    const unsigned stride = node->stride, width_least = width_base(node->max_width), max_width = node->max_width;
    uint64_t done = n < stride ? n : stride, size = (done * node->head_width + 7) / 8, fields[CHUNK];
    uint32_t chunk = 0;
    for (uint64_t i = 0; i < done; i++) {
        out[i] = (int64_t)(base + rs_load_bits_unchecked(self->head, size, i * node->head_width, node->head_width));
    }
    while (done < n) {
        unsigned count = n - done < CHUNK ? (unsigned)(n - done) : CHUNK;
        unsigned width = width_of(self->widths, chunk++, width_least);
        int64_t *to = out + done;
        /* The widths may have changed since rs_packed_ints_take checked them, so they are checked again. */
        if (width > max_width || (count * width + 7) / 8 > (size_t)(end - chunks)) width = 0;
        unpack(chunks, (size_t)(chunks - self->head), (size_t)(end - chunks), width, count, fields);
        chunks += (count * width + 7) / 8;
        if (stride == 0) {
            for (unsigned k = 0; k < count; k++) to[k] = (int64_t)(base + fields[k]);
        } else {
            const int64_t *from = to - stride;
            for (unsigned k = 0; k < count; k++) {
                to[k] = (int64_t)((uint64_t)from[k] + (fields[k] >> 1 ^ (0 - (fields[k] & 1))));
            }
        }
        done += count;
    }
    self->done = n;
}

/* ---- Writing ---- */

bool rs_packed_ints_from_float(double value, unsigned scale, int64_t *m) {
    double power = rs_schema_divisor(scale), product = value * power;
    if (!(product >= -9007199254740992.0 && product <= 9007199254740992.0)) return false;
    *m = rs_packed_ints_round(product);
    double back = (double)*m / power;
    return memcmp(&back, &value, 8) == 0;
}

bool rs_packed_ints_find_scale(double value, unsigned *scale) {
    int64_t m;
    for (unsigned s = *scale; s <= 15; s++) {
        if (rs_packed_ints_from_float(value, s, &m)) {
            *scale = s;
            return true;
        }
    }
    return false;
}

/* Converts 8 floats. Returns false if one is not a decimal, or not within 2^51 at the scale. Adding 1.5 * 2^52 rounds a
 * double to an integer in its lower bits. The loops have no branches, so compilers vectorize them. */
static bool eight_from_floats(const uint8_t *in, double power, int64_t *out) {
    const double rounder = 6755399441055744.0, limit = 2251799813685248.0;
    uint64_t differs = 0, bits[CHUNK], base;
    double values[CHUNK], sums[CHUNK];
    unsigned far = 0;
    for (unsigned i = 0; i < CHUNK; i++) values[i] = rs_load_f64(in + 9 * (size_t)i + 1);
    for (unsigned i = 0; i < CHUNK; i++) sums[i] = values[i] * power;
    for (unsigned i = 0; i < CHUNK; i++) far |= !(sums[i] > -limit) | !(sums[i] < limit);
    for (unsigned i = 0; i < CHUNK; i++) sums[i] += rounder;
    memcpy(bits, sums, sizeof bits);
    memcpy(&base, &rounder, 8);
    for (unsigned i = 0; i < CHUNK; i++) out[i] = (int64_t)(bits[i] - base);
    for (unsigned i = 0; i < CHUNK; i++) sums[i] = (sums[i] - rounder) / power;
    memcpy(bits, sums, sizeof bits);
    for (unsigned i = 0; i < CHUNK; i++) differs |= bits[i] ^ rs_load_u64(in + 9 * (size_t)i + 1);
    return (differs | far) == 0;
}

uint64_t rs_packed_ints_from_floats(const uint8_t *in, uint64_t n, unsigned scale, int64_t *out) {
    const double power = rs_schema_divisor(scale);
    uint64_t i = 0;
    while (i < n) {
        if (n - i >= CHUNK && eight_from_floats(in + 9 * i, power, out + i)) {
            i += CHUNK;
            continue;
        }
        for (uint64_t end = n - i < CHUNK ? n : i + CHUNK; i < end; i++) {
            if (!rs_packed_ints_from_float(rs_load_f64(in + 9 * i + 1), scale, &out[i])) return i;
        }
    }
    return n;
}

static uint64_t zigzag(int64_t later, int64_t earlier) {
    uint64_t d = (uint64_t)later - (uint64_t)earlier;
    return d << 1 ^ (0 - (d >> 63));
}

/* Sets the fields of up to 8 numbers at `numbers`, and returns their bitwise or. */
static inline uint64_t make_fields(const int64_t *numbers, unsigned count, unsigned stride, uint64_t base,
                                   uint64_t *fields) {
    uint64_t all = 0;
    if (stride == 0) {
        for (unsigned i = 0; i < count; i++) fields[i] = (uint64_t)numbers[i] - base;
    } else {
        for (unsigned i = 0; i < count; i++) fields[i] = zigzag(numbers[i], numbers[(int)i - (int)stride]);
    }
    for (unsigned i = 0; i < count; i++) all |= fields[i];
    return all;
}

/* As make_fields, for a chunk. The loop over a full chunk has a constant length, so compilers vectorize it. */
static uint64_t fields_of(const int64_t *numbers, uint64_t left, unsigned stride, uint64_t base, uint64_t *fields) {
    if (left >= CHUNK) return make_fields(numbers, CHUNK, stride, base, fields);
    return make_fields(numbers, (unsigned)left, stride, base, fields);
}

/* Stores `count` adjacent fields of `width` bits, by words: up to 8 bytes after them are overwritten. */
static void store_fields(uint8_t *to, const uint64_t *fields, unsigned count, unsigned width) {
    uint64_t word = 0;
    unsigned used = 0;
    for (unsigned i = 0; i < count; i++) {
        word |= fields[i] << used;
        used += width;
        if (used >= 64) {
            rs_store_u64(to, word);
            to += 8;
            used -= 64;
            word = used == 0 ? 0 : fields[i] >> (width - used);
        }
    }
    rs_store_u64(to, word);
}

static void extend_range(rs_packed_ints_sizes *sizes, int64_t number) {
    if (!sizes->any || number < sizes->min) sizes->min = number;
    if (!sizes->any || number > sizes->max) sizes->max = number;
    sizes->any = true;
}

void rs_packed_ints_measure(rs_packed_ints_sizes *sizes, const int64_t *numbers, uint64_t n, int64_t base) {
    uint64_t head = n < sizes->stride ? n : sizes->stride, chunks = 0, fields[CHUNK];
    if (n == 0) return;
    sizes->lists_by_head[head]++;
    for (uint64_t i = 0; i < head; i++) extend_range(sizes, numbers[i]);
    for (uint64_t i = head; i < n; i += CHUNK, chunks++) {
        uint64_t all = fields_of(numbers + i, n - i, sizes->stride, (uint64_t)base, fields);
        sizes->chunks[n - i < CHUNK ? n - i : CHUNK][rs_bit_width(all)]++;
    }
    sizes->width_bytes += chunks / 2 + chunks % 2;
}

static unsigned max_width_of(const rs_packed_ints_sizes *sizes) {
    unsigned widest = 0;
    for (unsigned count = 1; count <= CHUNK; count++) {
        for (unsigned width = 0; width <= 64; width++) {
            if (sizes->chunks[count][width] != 0 && width > widest) widest = width;
        }
    }
    return widest;
}

/* Returns the stored width of a chunk of `width` bits. It may be larger, because 4 bits cannot express all widths. */
static unsigned stored_width(unsigned width, unsigned max_width) {
    unsigned least = width_base(max_width) + 1;
    return width == 0 ? 0 : width < least ? least : width;
}

uint64_t rs_packed_ints_size(const rs_packed_ints_sizes *sizes) {
    unsigned max_width = max_width_of(sizes);
    unsigned head = sizes->any ? rs_bit_width((uint64_t)sizes->max - (uint64_t)sizes->min) : 0;
    uint64_t size = sizes->width_bytes;
    for (unsigned count = 1; count <= RS_FMT_STRIDE_MAX; count++) {
        size += sizes->lists_by_head[count] * (((uint64_t)count * head + 7) / 8);
    }
    for (unsigned count = 1; count <= CHUNK; count++) {
        for (unsigned width = 0; width <= 64; width++) {
            size += sizes->chunks[count][width] * (((uint64_t)count * stored_width(width, max_width) + 7) / 8);
        }
    }
    return size;
}

void rs_packed_ints_aux(const rs_packed_ints_sizes *sizes, unsigned kind, unsigned scale, int64_t base,
                        uint8_t aux[RS_FMT_NUMBERS_AUX_SIZE]) {
    int64_t first = sizes->stride == 0 ? base : sizes->any ? sizes->min : 0;
    memset(aux, 0, RS_FMT_NUMBERS_AUX_SIZE);
    rs_store_u64(aux, (uint64_t)first);
    aux[RS_FMT_NUMBERS_KIND] = (uint8_t)kind;
    aux[RS_FMT_NUMBERS_SCALE] = (uint8_t)scale;
    aux[RS_FMT_NUMBERS_STRIDE] = (uint8_t)sizes->stride;
    aux[RS_FMT_NUMBERS_HEAD_WIDTH] =
        (uint8_t)(sizes->stride != 0 && sizes->any ? rs_bit_width((uint64_t)sizes->max - (uint64_t)sizes->min) : 0);
    aux[RS_FMT_NUMBERS_MAX_WIDTH] = (uint8_t)max_width_of(sizes);
}

static rs_status misfit(rs_error *err) {
    return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "a list of numbers does not fit its schema node");
}

/* Writes the widths and the chunks of the numbers from `first` on at `to`, which has room for them and 8 more bytes.
 * Returns the end; NULL if a number does not fit. */
static uint8_t *put_chunks(const rs_node *node, const int64_t *numbers, uint64_t first, uint64_t n, uint8_t *to) {
    const unsigned base = width_base(node->max_width), stride = node->stride;
    uint64_t chunks = (n - first) / CHUNK + ((n - first) % CHUNK != 0), fields[CHUNK];
    uint8_t *widths = to;
    memset(widths, 0, (size_t)(chunks / 2 + chunks % 2));
    to += chunks / 2 + chunks % 2;
    for (uint64_t k = 0; k < chunks; k++, first += CHUNK) {
        unsigned count = n - first < CHUNK ? (unsigned)(n - first) : CHUNK;
        unsigned width = rs_bit_width(fields_of(numbers + first, n - first, stride, node->base, fields));
        if (width > node->max_width) return NULL;
        width = stored_width(width, node->max_width);
        if (width == 0) continue;
        widths[k / 2] |= (uint8_t)((width - base) << (k % 2 * 4));
        store_fields(to, fields, count, width);
        to += (count * width + 7) / 8;
    }
    return to;
}

rs_status rs_packed_ints_append(const rs_node *node, const int64_t *numbers, uint64_t n, rs_buffer *out,
                                rs_error *err) {
    uint64_t head = n < node->stride ? n : node->stride, chunks = (n - head) / CHUNK + 1;
    uint64_t head_bytes = (head * node->head_width + 7) / 8, fields[RS_FMT_STRIDE_MAX];
    /* A chunk takes at most max_width bytes, and at most 1 for its width. */
    RS_TRY(rs_buffer_reserve(out, (size_t)(head_bytes + chunks * (node->max_width + 1u) + 8), err));
    uint8_t *to = out->data + out->size_bytes;
    for (uint64_t i = 0; i < head; i++) {
        fields[i] = (uint64_t)numbers[i] - node->base;
        if (node->head_width < 64 && fields[i] >> node->head_width != 0) return misfit(err);
    }
    store_fields(to, fields, (unsigned)head, node->head_width);
    to = put_chunks(node, numbers, head, n, to + head_bytes);
    if (to == NULL) return misfit(err);
    out->size_bytes = (size_t)(to - out->data);
    return RS_OK;
}
