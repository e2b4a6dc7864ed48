/* rs_group_rows.c: a counting sort of records by group (Knuth, The Art of Computer Programming, volume 3, 5.2). */
#include "write/rs_group_rows.h"

#include <stdlib.h>

/* Sets at[g], zeroed before, to the first row of group g, at[n_groups] to n, and *ascending to whether no record is in
 * a lower group than the record before it. */
static rs_status count_rows(const uint64_t *group_of, uint64_t n, uint64_t n_groups, uint64_t *at, bool *ascending,
                            rs_error *err) {
    uint64_t sum = 0;
    *ascending = true;
    for (uint64_t i = 0; i < n; i++) {
        if (group_of[i] >= n_groups) {
            return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "record %llu is in group %llu of %llu",
                                (unsigned long long)i, (unsigned long long)group_of[i], (unsigned long long)n_groups);
        }
        at[group_of[i]]++;
        if (i > 0 && group_of[i] < group_of[i - 1]) *ascending = false;
    }
    for (uint64_t i = 0; i < n_groups; i++) {
        uint64_t count = at[i];
        at[i] = sum;
        sum += count;
    }
    at[n_groups] = sum;
    return RS_OK;
}

static rs_status append_numbers(const uint64_t *numbers, uint64_t n, uint32_t width, rs_buffer *out, rs_error *err) {
    RS_TRY(rs_buffer_reserve(out, (size_t)(n * width), err));
    for (uint64_t i = 0; i < n; i++) {
        memcpy(out->data + out->size_bytes, &numbers[i], width);
        out->size_bytes += width;
    }
    return RS_OK;
}

rs_status rs_group_rows(const uint64_t *group_of, uint64_t n, uint64_t n_groups, uint32_t width, bool may_be_in_order,
                        rs_buffer *starts, rs_buffer *rows, bool *in_order, rs_error *err) {
    uint64_t *at = (uint64_t *)calloc((size_t)n_groups + 1, sizeof *at);
    bool ascending;
    RS_ASSERT(width == 4 || width == 8);
    if (at == NULL) return rs_no_memory(err);
    rs_status status = count_rows(group_of, n, n_groups, at, &ascending, err);
    if (status == RS_OK) status = append_numbers(at, n_groups + 1, width, starts, err);
    *in_order = status == RS_OK && may_be_in_order && ascending;
    if (status == RS_OK && !*in_order) status = rs_buffer_reserve(rows, (size_t)(n * width), err);
    if (status == RS_OK && !*in_order && n != 0) {
        uint8_t *out = rows->data + rows->size_bytes;
        for (uint64_t i = 0; i < n; i++) memcpy(out + at[group_of[i]]++ * width, &i, width);
        rows->size_bytes += (size_t)(n * width);
    }
    free(at);
    return status;
}
