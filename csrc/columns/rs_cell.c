/* rs_cell.c: makes cells of nodes. */
#include "columns/rs_cell.h"

#include "base/rs_base.h"
#include "format/rs_any.h"
#include "format/rs_format.h"

/* Sets the cell of a const node that is a number. A mask of 0 drops the bits of records. */
static void set_const(rs_cell *self, const rs_node *node) {
    const uint8_t *p = node->aux;
    const uint64_t size = node->aux_size_bytes;
    if (size == 0) return;
    self->kind = RS_CELL_BITS, self->type = RS_CELL_OF_INT, self->mask = 0;
    if (rs_tag_is_small(*p) && size == 1) {
        self->base = (uint64_t)rs_tag_small_value(*p);
    } else if (rs_tag_is_int64(*p) && size == 1 + (uint64_t)rs_tag_int_size(*p)) {
        self->base = (uint64_t)rs_load_int_unchecked(p + 1, rs_tag_int_size(*p));
    } else if (*p == RS_FMT_TAG_FLOAT && size == 9) {
        self->base = rs_load_u64(p + 1), self->type = RS_CELL_OF_FLOAT;
    } else {
        self->kind = RS_CELL_NONE, self->type = 0;
    }
}

/* Sets kind, type, and the conversion of a stored number. */
static void set_number(rs_cell *self, const rs_node *node) {
    const uint64_t bits = node->size_bytes != 0 ? node->size_bytes * 8 : node->bits;
    self->mask = bits == 0 ? 0 : UINT64_MAX >> (64 - bits);
    self->base = 0;
    switch (node->kind) {
    case RS_FMT_NODE_INT: self->kind = RS_CELL_BITS, self->type = RS_CELL_OF_INT, self->base = node->base; break;
    case RS_FMT_NODE_FLOAT: self->kind = RS_CELL_BITS, self->type = RS_CELL_OF_FLOAT; break;
    case RS_FMT_NODE_BOOL: self->kind = RS_CELL_BOOL, self->type = RS_CELL_OF_BOOL; break;
    case RS_FMT_NODE_DECIMAL:
        self->kind = node->correction == 0 ? RS_CELL_DECIMAL : RS_CELL_CORRECTED;
        self->type = RS_CELL_OF_FLOAT, self->base = node->base, self->divisor = node->divisor;
        break;
    case RS_FMT_NODE_DICT_CODED: self->kind = RS_CELL_CODED; break;
    default: break;
    }
}

void rs_cell_set(rs_cell *self, const rs_node *node, uint64_t bit_off, uint64_t body_off, uint64_t least) {
    const rs_node *number = node;
    memset(self, 0, sizeof *self);
    self->least = least;
    if (node->kind == RS_FMT_NODE_CONST) {
        set_const(self, node);
        self->reach = 8;
        return;
    }
    if (node->kind == RS_FMT_NODE_LIST) {
        if (node->count == 0) return;
        number = node->children;
        self->count = node->count;
        /* The bits of all elements, and then their bodies. */
        bit_off = body_off * 8, body_off += ((uint64_t)node->count * number->bits + 7) / 8;
    }
    if (!rs_node_is_number(number) && node->kind != RS_FMT_NODE_DICT_CODED) return;
    self->node = number;
    self->bit = number->size_bytes != 0 ? body_off * 8 : bit_off;
    self->step_bits = number->size_bytes != 0 ? number->size_bytes * 8 : number->bits;
    uint64_t last = self->bit + (self->count > 0 ? self->count - 1 : 0) * self->step_bits;
    self->is_narrow = number->size_bytes != 0 ? number->size_bytes <= 4 : number->bits <= 25;
    self->reach = (last >> 3) + (self->is_narrow ? 4 : 8);
    /* More than 57 bits that begin within a byte may need more than 8 bytes; in a list, any number may begin there. */
    if (number->size_bytes == 0 && number->bits > 57) return;
    set_number(self, number);
}
