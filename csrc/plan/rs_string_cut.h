/* rs_string_cut.h: cuts strings of one pattern into stretches. A cut is a binary tree of steps in preorder. A step
 * either divides a stretch in two or makes it a *leaf*. The left side is cut first. The character at which FIRST or
 * LAST divides belongs to no leaf. */
#pragma once

#include "base/rs_bytes.h"

enum {
    RS_CUT_LEAVES = 40, /* the most leaves of a cut */
    RS_CUT_STEPS = 2 * RS_CUT_LEAVES,
    RS_CUT_UNITS = 2048, /* a longer string is not cut */
    RS_CUT_WIDE = 0xFF   /* replaces each 2-byte unit above 255 */
};

typedef enum rs_cut_op {
    RS_CUT_LEAF = 0,
    RS_CUT_FIRST = 1, /* divides at the first character `c` */
    RS_CUT_LAST = 2,  /* divides at the last character `c` */
    RS_CUT_HEAD = 3,  /* divides after the leading run of characters of class `c`, at least one */
    RS_CUT_TAIL = 4   /* divides before the trailing run of characters of class `c`, at least one */
} rs_cut_op;

typedef enum rs_cut_class { RS_CUT_SIGNS = 0, RS_CUT_LETTERS = 1, RS_CUT_DIGITS = 2 } rs_cut_class;

typedef struct rs_cut_step {
    uint8_t op, c;
} rs_cut_step;

/* A cut. `start` is the common prefix of most strings: the leaves before leaf start_leaf, each with the character after
 * it. It is empty at first. rs_cut_run compares it as a whole, and continues with step start_step. */
typedef struct rs_cut {
    uint16_t n_steps, n_leaves;
    uint16_t start_step, start_leaf, start_size;
    rs_cut_step steps[RS_CUT_STEPS];
    uint8_t start[RS_CUT_UNITS / 8];
} rs_cut;

/* Loads a slice that was just stored, one pointer at a time: the processor cannot forward two stores of 8 bytes to one
 * load of 16, and waits a dozen cycles. */
static inline rs_slice rs_cut_load(const rs_slice *s) {
    rs_slice out;
    out.ptr = *(const uint8_t *const volatile *)&s->ptr;
    out.end = *(const uint8_t *const volatile *)&s->end;
    return out;
}

/* Letters are the ASCII letters and all units from 128 on. */
static inline rs_cut_class rs_cut_class_of(uint8_t c) {
    uint8_t lower = c | 0x20;
    if ((uint8_t)(c - '0') < 10) return RS_CUT_DIGITS;
    return (uint8_t)(lower - 'a') < 26 || c >= 128 ? RS_CUT_LETTERS : RS_CUT_SIGNS;
}

/* Reads n decimal digits, at most 18, eight at a time. Returns false when another character is among them. */
static inline bool rs_cut_number(const uint8_t *p, size_t n, uint64_t *out) {
    static const uint32_t powers[8] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
    const uint64_t zeros = UINT64_C(0x3030303030303030);
    uint64_t value = 0;
    for (size_t k; n > 0; n -= k, p += k) {
        k = n < 8 ? n : 8;
        uint64_t w = k == 8 ? rs_load_u64(p) : rs_load_few_unchecked(p, k) << (64 - 8 * k) | zeros >> (8 * k);
        w ^= zeros;
        if (((w | (w + UINT64_C(0x7676767676767676))) & UINT64_C(0x8080808080808080)) != 0) return false;
        w = w * 10 + (w >> 8); /* pairs of digits, then fours, then eight */
        w = ((w & UINT64_C(0xFF000000FF)) * UINT64_C(0xF424000000064) +
             ((w >> 16) & UINT64_C(0xFF000000FF)) * UINT64_C(0x271000000001)) >>
            32;
        value = value * (k == 8 ? 100000000 : powers[k]) + w;
    }
    *out = value;
    return true;
}

/* Cuts a string of 1-byte units. leaves[i] becomes leaf i, a stretch of `s`. Sets *from to the first leaf after the
 * start if `s` begins with the start, else to 0; earlier leaves are not set. Returns false when a step finds nothing to
 * divide at. */
bool rs_cut_run(const rs_cut *self, rs_slice s, rs_slice *leaves, uint32_t *from);

/* Divides a string by a step that is not a LEAF. Returns false when the step finds nothing to divide at. */
bool rs_cut_divide(rs_cut_op op, uint8_t c, rs_slice s, rs_slice *left, rs_slice *right);

/* Sets the start to `text`, which ends with the character after leaf start_leaf - 1. Does nothing if `text` is too
 * long. */
void rs_cut_set_start(rs_cut *self, rs_slice text, uint32_t start_step, uint32_t start_leaf);

/* Writes a string of 2-byte units as one byte per unit at `to`, which has room for them, and returns the bytes. */
rs_slice rs_cut_narrow(rs_slice wide, uint8_t *to);
