# The functions and types of the C core that find lines and rows of text, as in c.pxd.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from recstore._core.c cimport rs_bool, rs_builder, rs_error, rs_slice, rs_status

cdef extern from "recstore.h" nogil:
    ctypedef enum rs_lines_skip:
        pass
    ctypedef struct rs_lines:
        rs_lines_skip skip
        rs_bool kept
        uint64_t begin
        uint64_t at
    void rs_lines_clear(rs_lines *self)
    size_t rs_lines_find(rs_lines *self, const uint8_t *bytes, size_t n, uint64_t *begins, uint32_t *n_begins,
                         uint32_t most)
    ctypedef enum rs_csv_place:
        RS_CSV_QUOTED
    ctypedef enum rs_csv_fault:
        RS_CSV_FINE, RS_CSV_TEXT, RS_CSV_RETURN
    uint32_t RS_CSV_BLOCK
    ctypedef struct rs_csv_rows:
        uint8_t delimiter
        uint8_t quote
        rs_bool after_return
        rs_csv_place place
        rs_csv_fault fault
    size_t rs_csv_rows_end(uint8_t delimiter, uint8_t quote, const uint8_t *bytes, size_t n)
    size_t rs_lines_find_rows(rs_lines *self, rs_csv_rows *rows, const uint8_t *bytes, size_t n, uint64_t *begins,
                              uint32_t *n_begins, uint32_t most)
    rs_status rs_lines_describe(rs_lines *self, rs_slice extra, rs_error *err)
    rs_status rs_lines_append(rs_lines *self, rs_builder *builder, const uint64_t *begins, uint32_t n, rs_error *err)
    rs_status rs_lines_append_heap(rs_lines *self, rs_builder *builder, rs_slice heap, uint32_t n, rs_error *err)
