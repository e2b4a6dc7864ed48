/* rs_narrow.h: narrow arrays, whose integer items are stored in fewer bits, as distances from a base (FORMAT.md, any
 * values). Any thread may call the functions. */
#pragma once

#include "format/rs_any.h"

/* Returns the bytes of an item of an integer dtype by its code. */
static inline unsigned rs_narrow_item_bytes(uint8_t code) { return 1u << ((code - RS_FMT_DTYPE_INT8) & 3); }

/* Writes `count` items of item_bytes (1, 2, 4 or 8) each, from item `first` on. `first` is a multiple of 8. `data` is
 * the base and the bit group of all n items; the caller has checked their size. */
void rs_narrow_read(const uint8_t *data, unsigned width, unsigned item_bytes, uint64_t n, uint64_t first,
                    uint64_t count, uint8_t *out);

/* Returns the width that a writer chooses for n items of a dtype, and sets *base; 0 if it does not narrow them. */
unsigned rs_narrow_choose(uint8_t code, const uint8_t *items, uint64_t n, uint64_t *base);
/* Writes the base and bit group of n items, rs_array_data_bytes bytes. `width` and `base` are from rs_narrow_choose. */
void rs_narrow_write(const uint8_t *items, unsigned item_bytes, uint64_t n, unsigned width, uint64_t base,
                     uint8_t *out);
