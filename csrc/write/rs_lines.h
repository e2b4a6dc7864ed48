/* rs_lines.h: finds the lines of a text file, and writes where they begin as blocks of line values (FORMAT.md, ext
 * value 31). The text comes in pieces, cut anywhere. */
#pragma once

#include "write/rs_builder.h"
#include "write/rs_csv_rows.h"

/* Which lines are skipped. A CR alone does not count as text. */
typedef enum rs_lines_skip {
    RS_LINES_SKIP_NONE = 0,
    RS_LINES_SKIP_EMPTY,
    RS_LINES_SKIP_BLANK /* lines of ASCII whitespace */
} rs_lines_skip;

/* The lines of one file. Zero the struct and set `skip`, and `at` and `begin` to the offset of the first piece, where a
 * line begins; rs_lines_clear ends it. One thread at a time may use it. */
typedef struct rs_lines {
    rs_lines_skip skip;
    bool kept;      /* the open line is not skipped: its begin was written. Of CSV: its first byte was seen */
    uint64_t begin; /* of the open line, from the start of the file */
    uint64_t at;    /* of the next piece */
    /* The tree of the file's blocks, which names the file. */
    rs_buffer tree;
    uint64_t tree_values; /* bytes of a line as an any value */
    uint32_t tree_number;
    bool has_number;
} rs_lines;

/* Frees everything. */
void rs_lines_clear(rs_lines *self);

/* Scans the next n bytes. Writes where lines begin to begins[*n_begins] and following, and adds their number to
 * *n_begins, at most up to `most`. Returns the number of scanned bytes: n, or fewer when there are `most`. */
size_t rs_lines_find(rs_lines *self, const uint8_t *bytes, size_t n, uint64_t *begins, uint32_t *n_begins,
                     uint32_t most);

/* As rs_lines_find for the rows of CSV, which are skipped by their first byte. Stops when fewer than RS_CSV_BLOCK
 * further begins fit, and before the byte of a fault of `rows`. */
size_t rs_lines_find_rows(rs_lines *self, rs_csv_rows *rows, const uint8_t *bytes, size_t n, uint64_t *begins,
                          uint32_t *n_begins, uint32_t most);

/* Makes the tree. `extra` is the EXTRA of the lines, an any value. RS_E_MEM; RS_E_FMT_TREE if EXTRA is too large. */
RS_NODISCARD rs_status rs_lines_describe(rs_lines *self, rs_slice extra, rs_error *err);
/* Flushes the builder and adds a block of n lines, at most RS_FMT_BLOCK_RECORDS, after rs_lines_describe. Returns the
 * errors of rs_builder_flush. */
RS_NODISCARD rs_status rs_lines_append(rs_lines *self, rs_builder *builder, const uint64_t *begins, uint32_t n,
                                       rs_error *err);
/* As rs_lines_append, with the heap of a block of n lines that another store of the file has. */
RS_NODISCARD rs_status rs_lines_append_heap(rs_lines *self, rs_builder *builder, rs_slice heap, uint32_t n,
                                            rs_error *err);
