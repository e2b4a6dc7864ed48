/* rs_run.h: runs. A run is a sequence of adjacent numbers in the bytes of a record: the elements of a list, packed
 * numbers, or the items of a numpy array. A reader first finds the run of a value, which gives its length, and later
 * writes its numbers to their destination, as items of any dtype.
 *
 * Shared memory and files may change in between. So a run keeps the checked bounds of its bytes and the checked number
 * of numbers. A size is never loaded again without another check. */
#pragma once

#include "base/rs_buffer.h"
#include "read/rs_path.h"
#include "columns/rs_dtype.h"

enum {
    RS_RUN_LIST = 0,    /* elements of a list node: their bit group, then their bodies */
    RS_RUN_NUMBERS = 1, /* the numbers of a numbers node */
    RS_RUN_ITEMS = 2,   /* items of a numpy array, in the order of its memory */
    RS_RUN_READY = 3,   /* items of the final dtype, in the reader's memory: `at` is their offset there */

    RS_RUN_BFLOAT16 = 127 /* the code of bfloat16 items, for which numpy has no dtype */
};

/* A run. Borrows the bytes and the tree. */
typedef struct rs_run {
    const uint8_t *data;
    const rs_node *node; /* LIST: the node of the elements; NUMBERS: the numbers node; else NULL */
    uint64_t n;          /* number of numbers */
    uint64_t at;         /* LIST, NUMBERS, ITEMS: number of bytes at `data`; READY: the offset */
    uint8_t kind;        /* RS_RUN_ */
    uint8_t code;        /* ITEMS: the code of the dtype in FORMAT.md, or RS_RUN_BFLOAT16 */
    uint8_t width;       /* ITEMS: the bits of a stored item of a narrow array; else 0 */
    bool big_endian;     /* ITEMS */
} rs_run;

/* The shape of an array. */
typedef struct rs_run_shape {
    uint32_t ndim;
    bool fortran; /* the items are in Fortran order; false unless there are two or more dimensions */
    uint64_t n;   /* number of items */
    uint64_t dims[RS_FMT_ARRAY_NDIM];
} rs_run_shape;

/* Errors of the rs_run_take_ functions: rules 20 to 23 and 41 of FORMAT.md. Any thread, each with a cursor of its own.
 * */

/* Takes the list at a settled place if its node is a numbers node, or a list node whose child has only numbers.
 * Otherwise *taken becomes false and the cursor stays. */
RS_NODISCARD rs_status rs_run_take_list(rs_cursor *cursor, const rs_place *place, rs_run *out, bool *taken,
                                        rs_error *err);

/* Takes a numpy array or scalar of any dtype: of an ndarray node with its body at `body` or, if that is NULL, at the
 * cursor; for `node` NULL the any value at the cursor, after its tag. Sets type, shape and the stored bytes. */
RS_NODISCARD rs_status rs_run_array(rs_cursor *cursor, const rs_node *node, const uint8_t *body, rs_array_type *type,
                                    rs_run_shape *shape, rs_slice *data, rs_error *err);

/* As rs_run_take_list, for a numpy array or scalar, or a tensor, of numbers. */
RS_NODISCARD rs_status rs_run_take_array(rs_cursor *cursor, const rs_place *place, rs_run *out, rs_run_shape *shape,
                                         bool *taken, rs_error *err);

/* Writes `count` items, at most 256, of an array of bools, ints or floats: as i64, u64 or f64, 8 bytes each. */
void rs_run_load_items(uint8_t code, bool big_endian, const uint8_t *data, uint64_t count, uint64_t *to);

/* Writes `count` elements, from number `first` on, of a list of n that begins at `data`, 8 bytes each. `child` is an
 * int, bool, decimal or float node. Returns true for f64, false for i64. */
bool rs_run_load_list(const rs_node *child, uint64_t n, const uint8_t *data, uint64_t first, uint64_t count,
                      uint8_t *to);

/* Writes the first `n` numbers of a run, which has at least n, as adjacent items of a dtype. Sets *written to n, or the
 * index of the first number that the dtype cannot hold. `ready` is the memory of RS_RUN_READY runs, and may be NULL for
 * others. A caller may use one `scratch` for many calls. RS_E_MEM; RS_E_FMT_VALUE if packed numbers have changed.
 * Any thread, each with scratch of its own. */
RS_NODISCARD rs_status rs_run_write(const rs_run *self, uint64_t n, unsigned dtype, const uint8_t *ready,
                                    rs_buffer *scratch, uint8_t *to, uint64_t *written, rs_error *err);

/* As rs_run_write, for the `n` numbers from number `first` on; the run has at least first + n. *written counts from
 * `first`. Lists and arrays whose numbers have bytes of their own are not read before it, all others are. */
RS_NODISCARD rs_status rs_run_write_from(const rs_run *self, uint64_t first, uint64_t n, unsigned dtype,
                                         const uint8_t *ready, rs_buffer *scratch, rs_buffer *before, uint8_t *to,
                                         uint64_t *written, rs_error *err);

/* As rs_run_write, for all items of an array of two or more dimensions in Fortran order. Writes them in C order, but
 * writes none if the dtype cannot hold one; *written is then its index in Fortran order. */
RS_NODISCARD rs_status rs_run_write_fortran(const rs_run *self, const rs_run_shape *shape, unsigned dtype,
                                            rs_buffer *scratch, uint8_t *to, uint64_t *written, rs_error *err);
