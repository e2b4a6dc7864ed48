/* rs_cell.h: cells. A cell describes a number, or a list of numbers of fixed length, at the same offset in all records
 * of a tree.
 *
 * Records in random order come from blocks of many trees. A cell holds the fields of node and path that reading needs,
 * so that the numbers of such records are read without a call, a walk or the choice of a loop. */
#pragma once

#include "base/rs_bytes.h"
#include "format/rs_packed_ints.h"

enum {
    RS_CELL_NONE = 0,      /* no number at a fixed offset */
    RS_CELL_BITS = 1,      /* an int (a base plus the stored number) or a float */
    RS_CELL_BOOL = 2,      /* a number of one bit */
    RS_CELL_DECIMAL = 3,   /* a base plus the stored number, divided by a power of ten */
    RS_CELL_CORRECTED = 4, /* a decimal with a correction */
    RS_CELL_CODED = 5,     /* the number of an entry of the dict-coded `node`; the type depends on the entry */

    RS_CELL_OF_BOOL = 1, /* the types of numbers, with the values of rs_column.h */
    RS_CELL_OF_INT = 2,
    RS_CELL_OF_FLOAT = 4
};

/* Borrows the node. Immutable once set, so any number of threads may read it. */
typedef struct rs_cell {
    uint8_t kind;       /* RS_CELL_ */
    uint8_t type;       /* RS_CELL_OF_ */
    bool is_narrow;     /* load 4 bytes for a number, else 8: fewer loads then reach into the next cache line */
    uint32_t count;     /* of a list: its length; 0 for a single number */
    uint64_t bit;       /* the offset of the first number in the record, in bits */
    uint64_t step_bits; /* from one number to the next */
    uint64_t mask;
    uint64_t base;
    double divisor;
    uint64_t least; /* a record of fewer bytes is truncated */
    uint64_t reach; /* the bytes loaded from the record's start: up to 8 more than the record has */
    const rs_node *node;
} rs_cell;

/* Sets the cell of a fixed node with its bits at `bit_off` bits and its body at `body_off` bytes of each record.
 * `least` is the least size of the records. Sets RS_CELL_NONE if a cell cannot describe the node. */
void rs_cell_set(rs_cell *self, const rs_node *node, uint64_t bit_off, uint64_t body_off, uint64_t least);

/* Returns the stored number at `bit`, under the conditions of rs_cell_load_unchecked. */
static inline uint64_t rs_cell_stored_unchecked(const rs_cell *self, const uint8_t *record, uint64_t bit) {
    const uint8_t *p = record + (bit >> 3);
    return (self->is_narrow ? rs_load_u32(p) : rs_load_u64(p)) >> (bit & 7) & self->mask;
}

/* Writes n numbers as i64 or f64, bools as bytes, and returns the byte after the last; n is self->count, or 1 for a
 * single number. The kind is neither RS_CELL_NONE nor RS_CELL_CODED. The caller has checked that the record has
 * `least` bytes, and that `reach` bytes from its start may be loaded. */
static inline uint8_t *rs_cell_load_unchecked(const rs_cell *self, const uint8_t *record, uint32_t n, uint8_t *to) {
    uint64_t bit = self->bit;
    for (uint32_t k = 0; k < n; k++, bit += self->step_bits) {
        const uint64_t stored = rs_cell_stored_unchecked(self, record, bit);
        switch (self->kind) {
        case RS_CELL_BITS: rs_store_u64(to, self->base + stored); break;
        case RS_CELL_DECIMAL: rs_store_f64(to, (double)(int64_t)(self->base + stored) / self->divisor); break;
        case RS_CELL_CORRECTED: rs_store_f64(to, rs_packed_ints_decimal(self->node, stored)); break;
        default: *to++ = (uint8_t)stored; continue;
        }
        to += 8;
    }
    return to;
}
