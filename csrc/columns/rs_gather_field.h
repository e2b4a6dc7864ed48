/* rs_gather_field.h: one field of a gather (rs_gather.h): its form, specification and state. */
#pragma once

#include "columns/rs_entries.h"
#include "columns/rs_names.h"
#include "columns/rs_run.h"
#include "columns/rs_window.h"

enum {
    RS_GATHER_ROW_DIMS = 8, /* the most dimensions of a row */
    RS_GATHER_SHAPE = RS_GATHER_ROW_DIMS + 3,
    RS_GATHER_PARTS = 5,

    /* The forms of a field in the buffer, with their parts in order, for B records, m inner lists and R packed rows.
     * The forms up to PACKED take numbers. */
    RS_GATHER_VALUES = 0, /* values (B, row) */
    RS_GATHER_RAGGED = 1, /* values (total, row); i64 offsets (B + 1) */
    RS_GATHER_NESTED = 2, /* values (total, row); i64 inner offsets (m + 1); i64 outer offsets (B + 1) */
    RS_GATHER_PADDED = 3, /* values (B, width, row); i64 lengths (B) */
    RS_GATHER_PADDED_NESTED =
        4,                 /* values (B, width, inner width, row); i64 lengths (B); i64 inner lengths (B, width) */
    RS_GATHER_PACKED = 5,  /* values (R, length); i64 positions, i64 documents (R, length); i64 boundaries */
    RS_GATHER_TEXT = 6,    /* UTF-8 or bytes (total); i64 offsets (B + 1) */
    RS_GATHER_STRINGS = 7, /* no parts: the caller makes strings of the text of the field */
    RS_GATHER_CODES = 8,   /* i64 (B) */
    /* Columns, whose types the values decide. No parts: the caller takes `column` and `ends`. A missing value stops. */
    RS_GATHER_NUMBERS = 9,
    RS_GATHER_LISTS = 10, /* of numbers */

    RS_GATHER_RAISE = 0, /* measuring stops at a missing value */
    RS_GATHER_FILL = 1,  /* a missing value becomes the fill, or an empty list or text */
    RS_GATHER_MASK = 2,  /* as FILL, with one more part: bool (B), true for a value */

    /* Why a step stopped. */
    RS_GATHER_DONE = 0,
    RS_GATHER_BLOCK = 1,   /* the source has no paths for block number `block`: compile them, and measure again */
    RS_GATHER_UNSURE = 2,  /* look up the field of the record and call rs_gather_take, then measure again */
    RS_GATHER_LACKING = 3, /* the record lacks the field */
    RS_GATHER_NONE = 4,    /* the field is None */
    RS_GATHER_KIND = 5,    /* the form does not take this kind of value */
    RS_GATHER_LENGTH = 6,  /* a list or array has the wrong shape for the form */
    RS_GATHER_RANGE = 7,   /* the dtype cannot hold number `number` of the value */
    RS_GATHER_LONG = 8,    /* a list is longer than `length` or `inner_length` */
    RS_GATHER_UNNAMED = 9, /* the value is not one of the names */
    RS_GATHER_SHORT = 10   /* a list has only `number` tokens, fewer than its given row takes */
};

/* The specification of a field. Borrows everything. Immutable; any number of threads may read it. */
typedef struct rs_gather_spec {
    unsigned form, dtype, missing;
    uint32_t n_row;                    /* the shape of a row: the fixed dimensions after the form's own */
    uint64_t row[RS_GATHER_ROW_DIMS];  /* each 1 or more */
    uint64_t row_numbers;              /* their product */
    uint8_t fill[RS_DTYPE_MOST_BYTES]; /* an item of the dtype; for codes an i64 */
    uint64_t length;       /* padded: the width, 0 for the longest list; packed: tokens in a row, 1 or more */
    uint64_t inner_length; /* padded nested: the inner width, 0 for the longest list */
    uint64_t multiple;     /* a width from the longest list is rounded up to a multiple of it; 1 or more */
    bool truncate;         /* cut lists to `length` and `inner_length` */
    bool split;            /* packed: cut documents at the end of a row */
    const rs_names *names; /* codes */
    rs_slice absent;       /* an `any` value for records without the field; missing if ptr is NULL */
} rs_gather_spec;

/* One array in the buffer. */
typedef struct rs_gather_part {
    uint64_t off; /* bytes, a multiple of 64 */
    unsigned dtype;
    uint32_t ndim;
    uint64_t shape[RS_GATHER_SHAPE];
} rs_gather_part;

/* Rows that are packed already: record i of the batch is a document, and its row has counts[i] of its tokens, from
 * token starts[i] on. Row r has the records from ends[r - 1] (row 0: from 0) to ends[r] - 1. Borrows everything. */
typedef struct rs_gather_given {
    const int64_t *starts, *counts, *ends;
    uint64_t n_rows;
    bool cut; /* a run has only the tokens of its row, not the whole document */
} rs_gather_given;

/* The state of one field. */
typedef struct rs_gather_field {
    const rs_gather_spec *spec;
    uint64_t item_bytes; /* of the dtype */
    unsigned type;       /* the rs_column.h type with the same bytes as the dtype; 0 if there is none */
    bool single;         /* the values are single numbers of the dtype */
    bool is_text;        /* RS_GATHER_TEXT or RS_GATHER_STRINGS */
    bool is_column;      /* RS_GATHER_NUMBERS or RS_GATHER_LISTS */
    uint64_t done;       /* number of records taken so far */
    uint64_t total;      /* rows of all runs so far; of all inner lists for nested forms */
    uint64_t longest;    /* rows of the longest run; the most inner lists of a record for nested forms */
    uint64_t inner_longest;
    uint8_t *to;       /* values of known size: the destination of the first record */
    uint8_t *valid;    /* RS_GATHER_MASK and strings: the destination of the first record's byte */
    rs_buffer values;  /* values of known size, for a later buffer; items of RS_RUN_READY runs and nested lists; text */
    rs_buffer valids;  /* the mask before there is a buffer */
    rs_buffer runs;    /* an rs_run for each record */
    rs_buffer ends;    /* u64, 0 first: after each record the number of inner lists, or the end of its text or list */
    rs_buffer counts;  /* u64: nested forms: the rows of each inner list */
    rs_buffer scratch; /* for rs_run_write */
    rs_buffer scratch_value; /* scratch: a value of known size, the text of a category */
    rs_column column;        /* the numbers of a column; scratch: a complex number, a category */
    rs_entries entries;
    rs_gather_part parts[RS_GATHER_PARTS];
    uint32_t n_parts;
    uint64_t rows;                /* packed: number of rows */
    uint64_t n_pieces;            /* packed: number of pieces, each between two boundaries */
    rs_buffer starts;             /* packed: u64, the beginning of each document in the flattened rows */
    const rs_gather_given *given; /* packed: NULL if the field packs the documents itself */
} rs_gather_field;

/* The place and reason of a stop. */
typedef struct rs_gather_stop {
    int why;
    uint32_t field;  /* the number of the field */
    uint64_t record; /* the number of the record in the batch */
    uint64_t index;  /* the number of the record in its store, while measuring */
    uint64_t block;
    uint64_t number;
} rs_gather_stop;

/* Returns RS_E_MEM for a batch beyond the address space. */
RS_COLD rs_status rs_gather_too_large(rs_error *err);
/* Prepares a field for a batch of n records, and drops the previous one. With `direct`, values of known size get their
 * destination later. RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_field_begin(rs_gather_field *self, uint64_t n, bool direct, rs_error *err);
/* Frees the memory of a field. */
void rs_gather_field_clear(rs_gather_field *self);

/* Returns whether the sizes of all parts of a form are known before measuring. */
static inline bool rs_gather_is_sized(unsigned form) { return form == RS_GATHER_VALUES || form == RS_GATHER_CODES; }

/* Returns how many dimensions before the row may have lengths that differ between records. */
static inline uint32_t rs_gather_free_dims(unsigned form) {
    return form == RS_GATHER_VALUES ? 0 : form == RS_GATHER_NESTED || form == RS_GATHER_PADDED_NESTED ? 2 : 1;
}

/* Returns the size in bytes of a value of known size. */
uint64_t rs_gather_value_bytes(const rs_gather_spec *spec);

/* Writes a number, given as an rs_column.h type and bits, as an item of the dtype at `to`. Returns whether it fits. */
static inline bool rs_gather_put_number(const rs_gather_field *self, unsigned type, uint64_t bits, uint8_t *to) {
    double number;
    if (type != RS_COLUMN_FLOAT) return rs_dtype_put_int(self->spec->dtype, (int64_t)bits, to);
    memcpy(&number, &bits, 8);
    return rs_dtype_put_float(self->spec->dtype, number, to);
}

/* As rs_gather_put_number, for the value of an int, bool, decimal or float node. Sets *taken to false for another. */
static inline bool rs_gather_put_node(const rs_gather_field *self, const rs_node *node, const uint8_t *body,
                                      uint64_t bits, uint8_t *to, bool *taken) {
    const unsigned dtype = self->spec->dtype;
    *taken = true;
    switch (node->kind) {
    case RS_FMT_NODE_INT: return rs_dtype_put_int(dtype, rs_decode_int_unchecked(node, body, bits), to);
    case RS_FMT_NODE_DECIMAL: return rs_dtype_put_float(dtype, rs_decode_decimal_unchecked(node, body, bits), to);
    case RS_FMT_NODE_FLOAT: return rs_dtype_put_float(dtype, rs_load_f64(body), to);
    case RS_FMT_NODE_BOOL: return rs_dtype_put_int(dtype, bits != 0, to);
    default: *taken = false; return false;
    }
}

/* Takes the value of a field of single numbers at an int, bool, decimal or float node. Returns false, and takes
 * nothing, for other nodes and for a number that the dtype cannot hold. */
static inline bool rs_gather_take_single(rs_gather_field *self, const rs_node *node, const uint8_t *body,
                                         uint64_t bits) {
    bool taken;
    if (!rs_gather_put_node(self, node, body, bits, self->to + self->done * self->item_bytes, &taken)) return false;
    if (self->valid != NULL) self->valid[self->done] = 1;
    self->done++;
    return true;
}

/* Adds the run of a value, and counts its rows. RS_E_MEM. */
RS_NODISCARD rs_status rs_gather_add_run(rs_gather_field *self, const rs_run *run, rs_error *err);
