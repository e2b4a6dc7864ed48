/* rs_permute.c: the permutation "feistel-1", as specified at the top of rs_permute.h. */
#include "base/rs_permute.h"

#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)
/* LANES walks fill the pipeline: a round is a chain of four dependent multiplications. */
enum { ROUNDS = 8, SHORT_PASSES = 4, SHORT_BELOW = 4096, LANES = 8 };

static inline uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline uint64_t amount(uint64_t key, uint64_t half, uint64_t modulus) {
    return rs_mul_high(mix(key + half * GOLDEN), modulus);
}

/* (a + b) mod modulus, for a and b below the modulus. Halves are below 2^25, so the sum cannot overflow. */
static inline uint64_t add_mod(uint64_t a, uint64_t b, uint64_t modulus) {
    uint64_t sum = a + b;
    return sum >= modulus ? sum - modulus : sum;
}

/* Splits x into the halves x mod a and x div a. Most lists are short enough for a 32-bit division, which is much
 * faster than a 64-bit one on older processors. */
static inline void split(uint64_t x, uint64_t a, uint64_t *l, uint64_t *r) {
    if (RS_LIKELY((x | a) <= UINT32_MAX)) {
        *l = (uint32_t)x % (uint32_t)a, *r = (uint32_t)x / (uint32_t)a;
    } else {
        *l = x % a, *r = x / a;
    }
}

static inline bool is_short(const rs_permutation *self) { return self->n < SHORT_BELOW; }

/* One step of the walk. With a constant `passes` the compiler unrolls its loop: a tenth less time for long lists. */
static inline uint64_t step_forward(const rs_permutation *self, uint64_t x, uint64_t passes) {
    const uint64_t a = self->a, b = self->b;
    uint64_t l, r;
    split(x, a, &l, &r);
    for (uint64_t p = 0; p < passes; p++) {
        for (int j = 0; j < ROUNDS; j += 2) {
            l = add_mod(l, amount(self->keys[j], r + (p << 32), a), a);
            r = add_mod(r, amount(self->keys[j + 1], l + (p << 32), b), b);
        }
    }
    return l + a * r;
}

/* The least even number whose square is at least n, for n from 2 to RS_PERMUTE_MAX. */
static uint64_t even_side(uint64_t n) {
    uint64_t below = 0; /* the greatest number whose square is below n */
    for (uint64_t bit = UINT64_C(1) << 24; bit != 0; bit >>= 1) {
        if ((below + bit) * (below + bit) < n) below += bit;
    }
    return (below + 2) & ~UINT64_C(1);
}

void rs_permutation_init(rs_permutation *self, uint64_t n, uint64_t seed) {
    self->n = n > RS_PERMUTE_MAX ? RS_PERMUTE_MAX : n;
    self->a = self->n > 1 ? even_side(self->n) : 1;
    self->b = self->n > 1 ? (self->n - 1) / self->a + 1 : 1;
    for (unsigned j = 0; j < ROUNDS; j++) self->keys[j] = mix(seed + (j + 1) * GOLDEN);
}

/* The walk from cell i to the first cell below n. Cell i must be below n or on the way from such a cell: each step
 * permutes the a * b cells, so the cycle returns to the start. A walk from any other cell could stay in a cycle without
 * elements. */
static inline uint64_t walk(const rs_permutation *self, uint64_t i) {
    do {
        i = is_short(self) ? step_forward(self, i, SHORT_PASSES) : step_forward(self, i, 1);
    } while (i >= self->n);
    return i;
}

uint64_t rs_permutation_at(const rs_permutation *self, uint64_t i) {
    const uint64_t n = self->n;
    if (n <= 1) return 0;
    return walk(self, RS_UNLIKELY(i >= n) ? i % n : i);
}

/* ---- Runs ---- */

uint64_t rs_mix64(uint64_t z) { return mix(z); }

/* A position as its halves, and the step as halves: the next position without a division. */
typedef struct {
    uint64_t l, r, step_l, step_r;
} halves;

static inline void advance(halves *at, uint64_t a) {
    at->l += at->step_l, at->r += at->step_r;
    if (at->l >= a) at->l -= a, at->r++;
}

/* One step of the walk for LANES positions at once, in place. */
static inline void lanes_forward(const rs_permutation *self, uint64_t *l, uint64_t *r, uint64_t passes) {
    const uint64_t a = self->a, b = self->b;
    for (uint64_t p = 0; p < passes; p++) {
        for (int j = 0; j < ROUNDS; j += 2) {
            const uint64_t even = self->keys[j], odd = self->keys[j + 1];
            for (int k = 0; k < LANES; k++) l[k] = add_mod(l[k], amount(even, r[k] + (p << 32), a), a);
            for (int k = 0; k < LANES; k++) r[k] = add_mod(r[k], amount(odd, l[k] + (p << 32), b), b);
        }
    }
}

/* Writes the elements at `count` positions from `first`. All positions are below n. */
static void run_within(const rs_permutation *self, uint64_t first, uint64_t step, size_t count, int64_t *out) {
    const uint64_t n = self->n, a = self->a;
    halves at;
    size_t i = 0;
    split(first, a, &at.l, &at.r);
    split(step, a, &at.step_l, &at.step_r);
    for (; count - i >= LANES; i += LANES) {
        uint64_t l[LANES], r[LANES];
        for (int k = 0; k < LANES; k++, advance(&at, a)) l[k] = at.l, r[k] = at.r;
        if (is_short(self)) lanes_forward(self, l, r, SHORT_PASSES);
        else lanes_forward(self, l, r, 1);
        for (int k = 0; k < LANES; k++) {
            uint64_t x = l[k] + a * r[k];
            if (RS_UNLIKELY(x >= n)) x = walk(self, x);
            out[i + (size_t)k] = (int64_t)x;
        }
    }
    for (; i < count; i++, advance(&at, a)) out[i] = (int64_t)walk(self, at.l + a * at.r);
}

void rs_permutation_run(const rs_permutation *self, uint64_t first, uint64_t step, size_t count, int64_t *out) {
    const uint64_t n = self->n;
    size_t done = 0;
    if (n <= 1) {
        if (count > 0) memset(out, 0, count * sizeof *out);
        return;
    }
    first %= n, step %= n;
    while (done < count) { /* one iteration for each time that the positions wrap */
        const uint64_t fit = step == 0 ? count - done : (n - 1 - first) / step + 1;
        const size_t turn = fit < count - done ? (size_t)fit : count - done;
        run_within(self, first, step, turn, out + done);
        done += turn;
        first = (first + step * turn) % n; /* below 2n: the last position of the turn was below n */
    }
}
