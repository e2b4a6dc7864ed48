/* rs_string_cut.c: runs a cut over a string. */
#include "plan/rs_string_cut.h"

static const uint64_t ONES = UINT64_C(0x0101010101010101), TOPS = UINT64_C(0x8080808080808080);

enum { SHORT_WORDS = 4 /* words of 8 bytes that are searched here; memchr searches the rest */ };

/* Returns the number of the first byte of a word whose top bit is set. There must be one. */
static inline unsigned first_marked(uint64_t tops) { return rs_lowest_bit(tops) / 8; }

/* Marks the zero bytes of a word. Only the first mark is exact. */
static inline uint64_t zero_bytes(uint64_t word) { return (word - ONES) & ~word & TOPS; }

/* Marks the bytes of a word that are not of a class. */
static inline uint64_t other_bytes(uint64_t word, rs_cut_class c) {
    const uint64_t high = word & TOPS, low = word & ~TOPS, small = low | ONES * 0x20;
    const uint64_t digits = (low + ONES * (0x80 - '0')) & ~(low + ONES * (0x80 - '9' - 1)) & ~high;
    const uint64_t letters = ((small + ONES * (0x80 - 'a')) & ~(small + ONES * (0x80 - 'z' - 1))) | high;
    return (c == RS_CUT_DIGITS ? ~digits : c == RS_CUT_LETTERS ? ~letters : digits | letters) & TOPS;
}

/* Returns the first byte c of [p, end), or NULL. Most stretches are a few bytes, for which memchr takes longer. */
static const uint8_t *find_first(const uint8_t *p, const uint8_t *end, uint8_t c) {
    const uint64_t all = ONES * c;
    for (unsigned i = 0; end - p >= 8; p += 8) {
        uint64_t found = zero_bytes(rs_load_u64(p) ^ all);
        if (found != 0) return p + first_marked(found);
        if (++i == SHORT_WORDS) return (const uint8_t *)memchr(p + 8, c, (size_t)(end - p - 8));
    }
    for (; p != end; p++) {
        if (*p == c) return p;
    }
    return NULL;
}

static const uint8_t *find_last(const uint8_t *p, const uint8_t *end, uint8_t c) {
    while (end - p >= 8 && zero_bytes(rs_load_u64(end - 8) ^ ONES * c) == 0) end -= 8;
    while (end != p) {
        if (*--end == c) return end;
    }
    return NULL;
}

/* Returns whether n bytes are equal, n at least 1. Most starts, such as those of paths, are a few words. */
static inline bool equal_words(const uint8_t *a, const uint8_t *b, size_t n) {
    if (n < 8 || n > 64) return memcmp(a, b, n) == 0;
    for (; n > 8; n -= 8, a += 8, b += 8) {
        if (rs_load_u64(a) != rs_load_u64(b)) return false;
    }
    return rs_load_u64(a + n - 8) == rs_load_u64(b + n - 8);
}

/* `c` is a constant. */
static inline const uint8_t *end_of(const uint8_t *p, const uint8_t *end, rs_cut_class c) {
    for (; end - p >= 8; p += 8) {
        uint64_t other = other_bytes(rs_load_u64(p), c);
        if (other != 0) return p + first_marked(other);
    }
    while (p != end && rs_cut_class_of(*p) == c) p++;
    return p;
}

static const uint8_t *end_of_class(const uint8_t *p, const uint8_t *end, rs_cut_class c) {
    if (c == RS_CUT_DIGITS) return end_of(p, end, RS_CUT_DIGITS);
    return c == RS_CUT_LETTERS ? end_of(p, end, RS_CUT_LETTERS) : end_of(p, end, RS_CUT_SIGNS);
}

static const uint8_t *begin_of_class(const uint8_t *p, const uint8_t *end, rs_cut_class c) {
    while (end - p >= 8 && other_bytes(rs_load_u64(end - 8), c) == 0) end -= 8;
    while (end != p && rs_cut_class_of(end[-1]) == c) end--;
    return end;
}

/* Divides *s by a step. Sets *s to the left side, and returns the beginning of the right side; NULL if the step does
 * not divide it. */
static inline const uint8_t *divide(unsigned op, uint8_t c, rs_slice *s) {
    const uint8_t *p;
    switch (op) {
    case RS_CUT_FIRST:
    case RS_CUT_LAST:
        p = op == RS_CUT_FIRST ? find_first(s->ptr, s->end, c) : find_last(s->ptr, s->end, c);
        if (p == NULL) return NULL;
        s->end = p;
        return p + 1;
    case RS_CUT_HEAD:
        p = end_of_class(s->ptr, s->end, (rs_cut_class)c);
        if (p == s->ptr) return NULL;
        break;
    default:
        p = begin_of_class(s->ptr, s->end, (rs_cut_class)c);
        if (p == s->end) return NULL;
        break;
    }
    s->end = p;
    return p;
}

bool rs_cut_divide(rs_cut_op op, uint8_t c, rs_slice s, rs_slice *left, rs_slice *right) {
    rs_slice side = s;
    const uint8_t *p = divide(op, c, &side);
    if (p == NULL) return false;
    *left = side;
    *right = rs_slice_of(p, (size_t)(s.end - p));
    return true;
}

bool rs_cut_run(const rs_cut *self, rs_slice s, rs_slice *leaves, uint32_t *from) {
    rs_slice rest[RS_CUT_LEAVES]; /* the right sides that are still to be cut */
    const rs_cut_step *step = self->steps, *last = self->steps + self->n_steps;
    uint32_t n_rest = 0, leaf = 0;
    if (self->start_size > 0 && rs_slice_left(&s) >= self->start_size &&
        equal_words(s.ptr, self->start, self->start_size)) {
        s.ptr += self->start_size;
        step += self->start_step;
        leaf = self->start_leaf;
    }
    *from = leaf;
    for (; step != last; step++) {
        if (step->op == RS_CUT_LEAF) {
            leaves[leaf++] = s;
            if (n_rest > 0) s = rs_cut_load(&rest[--n_rest]);
            continue;
        }
        const uint8_t *end = s.end;
        const uint8_t *p = divide(step->op, step->c, &s);
        if (p == NULL) return false;
        rest[n_rest].ptr = p;
        rest[n_rest++].end = end;
    }
    return true;
}

void rs_cut_set_start(rs_cut *self, rs_slice text, uint32_t start_step, uint32_t start_leaf) {
    size_t size = rs_slice_left(&text);
    if (size > sizeof self->start) return;
    memcpy(self->start, text.ptr, size);
    self->start_size = (uint16_t)size;
    self->start_step = (uint16_t)start_step;
    self->start_leaf = (uint16_t)start_leaf;
}

rs_slice rs_cut_narrow(rs_slice wide, uint8_t *to) {
    size_t n = rs_slice_left(&wide) / 2;
    for (size_t i = 0; i < n; i++) {
        uint16_t unit = rs_load_u16(wide.ptr + 2 * i);
        to[i] = unit > 0xFF ? RS_CUT_WIDE : (uint8_t)unit;
    }
    return rs_slice_of(to, n);
}
