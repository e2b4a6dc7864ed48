/* rs_numbers.c: packing and unpacking of lists of numbers; decimals found and checked. */
#include "rs_numbers.h"

enum { CHUNK = RS_FMT_NUMBERS_CHUNK, HISTORY = RS_FMT_STRIDE_MAX };

/* What a chunk's 4 bits add up to: see FORMAT.md. */
static unsigned width_base(unsigned max_width) { return max_width > 15 ? max_width - 15 : 0; }

static unsigned width_of(const uint8_t *widths, uint64_t chunk, unsigned base) {
    unsigned x = (unsigned)widths[chunk / 2] >> (chunk % 2 * 4) & 15u;
    return x == 0 ? 0 : x + base;
}

/* ---- Reading ---- */

bool rs_numbers_take(const rs_node *node, uint64_t n, rs_slice *in, rs_numbers *out) {
    uint64_t head = n < node->stride ? n : node->stride, rest = n - head, chunks = rest / CHUNK + (rest % CHUNK != 0);
    unsigned base = width_base(node->max_width), left = (unsigned)(rest % CHUNK);
    uint64_t i, size = 0;
    rs_slice at = *in;
    out->n = n;
    if (!rs_take(&at, (head * node->head_width + 7) / 8, &out->head)) return false;
    if (!rs_take(&at, chunks / 2 + chunks % 2, &out->widths)) return false;
    for (i = 0; i < chunks; i++) {
        unsigned width = width_of(out->widths, i, base);
        if (width > node->max_width) {
            out->n = 0;
            return false;
        }
        size += left != 0 && i + 1 == chunks ? (left * width + 7) / 8 : width;
    }
    if (!rs_take(&at, size, &out->chunks)) return false;
    out->node = node;
    out->end = at.ptr;
    rs_numbers_begin(out);
    *in = at;
    return true;
}

/* `count` fields of `width` bits from `p`, whose group has `size` bytes before the end of what may be read. */
static void unpack(const uint8_t *p, size_t left, unsigned width, unsigned count, uint64_t *out) {
    uint8_t copy[CHUNK * 8 + 8];
    unsigned i;
    if (width > 56) {
        for (i = 0; i < count; i++) {
            out[i] = rs_load_bits_unchecked(p, ((uint64_t)count * width + 7) / 8, (uint64_t)i * width, width);
        }
        return;
    }
    if (left < (size_t)width + 8) {
        size_t size = ((size_t)count * width + 7) / 8;
        memset(copy, 0, sizeof copy);
        memcpy(copy, p, size < left ? size : left);
        p = copy;
    }
    for (i = 0; i < count; i++) {
        unsigned bit = i * width;
        out[i] = rs_load_u64(p + bit / 8) >> bit % 8 & ((UINT64_C(1) << width) - 1);
    }
}

static unsigned next_head(rs_numbers *self, unsigned n, const int64_t **out) {
    const rs_node *node = self->node;
    int64_t *to = self->last + HISTORY - n;
    uint64_t size = ((uint64_t)n * node->head_width + 7) / 8;
    unsigned i;
    for (i = 0; i < n; i++) {
        to[i] = (int64_t)(node->base + rs_load_bits_unchecked(self->head, size, (uint64_t)i * node->head_width,
                                                              node->head_width));
    }
    self->done = n;
    *out = to;
    return n;
}

unsigned rs_numbers_next(rs_numbers *self, const int64_t **out) {
    const rs_node *node = self->node;
    uint64_t left = self->n - self->done, fields[CHUNK];
    unsigned count, width, i, stride = node->stride;
    int64_t *to = self->last + HISTORY;
    if (left == 0) return 0;
    if (self->done == 0 && stride != 0) return next_head(self, left < stride ? (unsigned)left : stride, out);
    count = left < CHUNK ? (unsigned)left : CHUNK;
    /* The widths are read a second time, from memory that others may have changed: bound what follows again. */
    width = width_of(self->widths, self->chunk++, width_base(node->max_width));
    if (width > node->max_width || ((uint64_t)count * width + 7) / 8 > (uint64_t)(self->end - self->chunks)) width = 0;
    unpack(self->chunks, (size_t)(self->end - self->chunks), width, count, fields);
    self->chunks += (count * width + 7) / 8;
    if (stride == 0) {
        for (i = 0; i < count; i++) to[i] = (int64_t)(node->base + fields[i]);
    } else {
        for (i = 0; i < count; i++) {
            uint64_t z = fields[i] >> 1 ^ (0 - (fields[i] & 1));
            to[i] = (int64_t)((uint64_t)to[(int)i - (int)stride] + z);
        }
        memmove(self->last, self->last + count, HISTORY * sizeof *self->last);
        /* The chunk moved with its history: it ends where the next one begins. */
        to -= count;
    }
    self->done += count;
    *out = to;
    return count;
}

/* ---- Writing ---- */

bool rs_numbers_from_float(double value, unsigned scale, int64_t *m) {
    double product = value * rs_schema_divisor(scale), back;
    if (!(product >= -9007199254740992.0 && product <= 9007199254740992.0)) return false;
    *m = rs_numbers_round(product);
    back = (double)*m / rs_schema_divisor(scale);
    return memcmp(&back, &value, 8) == 0;
}

bool rs_numbers_find_scale(double value, unsigned *scale) {
    unsigned s;
    int64_t m;
    for (s = *scale; s <= 15; s++) {
        if (rs_numbers_from_float(value, s, &m)) {
            *scale = s;
            return true;
        }
    }
    return false;
}

static uint64_t zigzag(int64_t later, int64_t earlier) {
    uint64_t d = (uint64_t)later - (uint64_t)earlier;
    return d << 1 ^ (0 - (d >> 63));
}

/* Field i of the packed numbers. */
static uint64_t field_of(const int64_t *numbers, uint64_t i, unsigned stride, uint64_t base) {
    return stride == 0 ? (uint64_t)numbers[i] - base : zigzag(numbers[i], numbers[i - stride]);
}

static unsigned chunk_width(const int64_t *numbers, uint64_t at, unsigned count, unsigned stride, uint64_t base) {
    uint64_t all = 0;
    unsigned i;
    for (i = 0; i < count; i++) all |= field_of(numbers, at + i, stride, base);
    return rs_numbers_width(all);
}

static void note_stored(rs_numbers_plan *plan, int64_t number) {
    if (!plan->any || number < plan->min) plan->min = number;
    if (!plan->any || number > plan->max) plan->max = number;
    plan->any = true;
}

void rs_numbers_measure(rs_numbers_plan *plan, const int64_t *numbers, uint64_t n, int64_t base) {
    uint64_t head = n < plan->stride ? n : plan->stride, i, chunks = 0;
    if (n == 0) return;
    plan->n_lists++;
    plan->head_bits_of[head]++;
    for (i = 0; i < head; i++) note_stored(plan, numbers[i]);
    for (i = head; i < n; i += CHUNK, chunks++) {
        unsigned count = n - i < CHUNK ? (unsigned)(n - i) : CHUNK;
        plan->chunks[count][chunk_width(numbers, i, count, plan->stride, (uint64_t)base)]++;
    }
    plan->width_bytes += chunks / 2 + chunks % 2;
}

static unsigned max_width_of(const rs_numbers_plan *plan) {
    unsigned width, count, most = 0;
    for (count = 1; count <= CHUNK; count++) {
        for (width = 0; width <= 64; width++) {
            if (plan->chunks[count][width] != 0 && width > most) most = width;
        }
    }
    return most;
}

/* The width that a chunk of `width` bits is given: its 4 bits cannot name each. */
static unsigned given_width(unsigned width, unsigned max_width) {
    unsigned least = width_base(max_width) + 1;
    return width == 0 ? 0 : width < least ? least : width;
}

uint64_t rs_numbers_size(const rs_numbers_plan *plan) {
    unsigned max_width = max_width_of(plan);
    unsigned head = plan->any ? rs_numbers_width((uint64_t)plan->max - (uint64_t)plan->min) : 0;
    uint64_t size = plan->width_bytes;
    unsigned count, width;
    for (count = 1; count <= RS_FMT_STRIDE_MAX; count++) {
        size += plan->head_bits_of[count] * (((uint64_t)count * head + 7) / 8);
    }
    for (count = 1; count <= CHUNK; count++) {
        for (width = 0; width <= 64; width++) {
            size += plan->chunks[count][width] * (((uint64_t)count * given_width(width, max_width) + 7) / 8);
        }
    }
    return size;
}

void rs_numbers_aux(const rs_numbers_plan *plan, unsigned kind, unsigned scale, int64_t base,
                    uint8_t aux[RS_FMT_NUMBERS_AUX_SIZE]) {
    int64_t first = plan->stride == 0 ? base : plan->any ? plan->min : 0;
    memset(aux, 0, RS_FMT_NUMBERS_AUX_SIZE);
    rs_store_u64(aux, (uint64_t)first);
    aux[RS_FMT_NUMBERS_KIND] = (uint8_t)kind;
    aux[RS_FMT_NUMBERS_SCALE] = (uint8_t)scale;
    aux[RS_FMT_NUMBERS_STRIDE] = (uint8_t)plan->stride;
    aux[RS_FMT_NUMBERS_HEAD_WIDTH] =
        (uint8_t)(plan->stride != 0 && plan->any ? rs_numbers_width((uint64_t)plan->max - (uint64_t)plan->min) : 0);
    aux[RS_FMT_NUMBERS_MAX_WIDTH] = (uint8_t)max_width_of(plan);
}

static rs_status misfit(rs_error *err) {
    return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "numbers that do not fit their node");
}

rs_status rs_numbers_append(const rs_node *node, const int64_t *numbers, uint64_t n, rs_buffer *out, rs_error *err) {
    uint64_t head = n < node->stride ? n : node->stride, rest = n - head, i, k;
    uint64_t chunks = rest / CHUNK + (rest % CHUNK != 0);
    unsigned base = width_base(node->max_width);
    size_t at = out->size_bytes, widths;
    RS_TRY(rs_buffer_append_zeros(out, (size_t)((head * node->head_width + 7) / 8), err));
    for (i = 0; i < head; i++) {
        uint64_t field = (uint64_t)numbers[i] - node->base;
        if (node->head_width < 64 && field >> node->head_width != 0) return misfit(err);
        rs_store_bits(out->data + at, i * node->head_width, node->head_width, field);
    }
    widths = out->size_bytes;
    RS_TRY(rs_buffer_append_zeros(out, (size_t)(chunks / 2 + chunks % 2), err));
    for (k = 0; k < chunks; k++) {
        uint64_t first = head + k * CHUNK;
        unsigned count = n - first < CHUNK ? (unsigned)(n - first) : CHUNK, width;
        width = chunk_width(numbers, first, count, node->stride, node->base);
        if (width > node->max_width) return misfit(err);
        width = given_width(width, node->max_width);
        if (width != 0) out->data[widths + k / 2] |= (uint8_t)((width - base) << (k % 2 * 4));
        at = out->size_bytes;
        RS_TRY(rs_buffer_append_zeros(out, ((size_t)count * width + 7) / 8, err));
        for (i = 0; i < count; i++) {
            rs_store_bits(out->data + at, i * width, width, field_of(numbers, first + i, node->stride, node->base));
        }
    }
    return RS_OK;
}
