# The functions and types of the C core that order, draw and pack records, as in c.pxd.
from libc.stdint cimport int64_t, uint64_t

from recstore._core.c cimport rs_error, rs_status

cdef extern from "recstore.h" nogil:
    uint64_t RS_PERMUTE_MAX
    ctypedef struct rs_permutation:
        uint64_t n
    void rs_permutation_init(rs_permutation *self, uint64_t n, uint64_t seed)
    uint64_t rs_permutation_at(const rs_permutation *self, uint64_t i)
    void rs_permutation_run(const rs_permutation *self, uint64_t first, uint64_t step, size_t count, int64_t *out)
    uint64_t rs_mix64(uint64_t z)
    uint64_t rs_permutation_seed(uint64_t seed, uint64_t number)

    ctypedef struct rs_alias:
        uint64_t n
        uint64_t *thresholds
        void *others
    unsigned rs_alias_width(uint64_t n)
    rs_status rs_alias_init(rs_alias *self, const double *weights, uint64_t n, rs_error *err)
    rs_status rs_alias_of_bytes(rs_alias *self, uint64_t n, const void *thresholds, size_t thresholds_bytes,
                                const void *others, size_t others_bytes, rs_error *err)
    void rs_alias_clear(rs_alias *self)
    void rs_alias_run(const rs_alias *self, uint64_t key, uint64_t first, uint64_t step, uint64_t period, size_t count,
                      int64_t *out)
    void rs_alias_below(uint64_t key, uint64_t first, uint64_t step, uint64_t period, size_t count,
                        const int64_t *bounds, int64_t *out)
    void rs_alias_keys(const double *weights, uint64_t n, uint64_t key, double *out)

    ctypedef struct rs_best_fit_parts:
        int64_t *documents
        int64_t *starts
        int64_t *counts
        int64_t *ends
    rs_status rs_best_fit_pack(const int64_t *counts, uint64_t n, uint64_t length, uint64_t rows,
                               rs_best_fit_parts *out, rs_error *err)

    int64_t RS_MIXING_WHOLE, RS_MIXING_MAX_LENGTH
    ctypedef struct rs_mixing_source:
        int64_t weight, behind, drawn, end, first, length
        const int64_t *lengths
        uint64_t key
    uint64_t rs_mixing_run(rs_mixing_source *sources, size_t n, uint64_t draws, uint64_t skip, uint64_t step,
                           int64_t *out_sources, int64_t *out_numbers)
