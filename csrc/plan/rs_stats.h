/* rs_stats.h: statistics of a run of values, from which a tree is planned. Every value is read; nothing is sampled. */
#pragma once

#include "plan/rs_alternatives.h"

/* Returns the units, of unit_bytes each, of the str at offset `where`. They borrow the values. */
static inline rs_slice rs_stats_units(const rs_stats *self, uint32_t where, unsigned unit_bytes) {
    rs_slice in = rs_stats_from(self, where);
    in.ptr++;
    uint64_t n = rs_scan_varint_unchecked(&in);
    return rs_slice_of(in.ptr, (size_t)(n * unit_bytes));
}

/* Reads all values. RS_E_ARG_LIMIT if two different key sets have the same hash; RS_E_MEM. */
RS_NODISCARD rs_status rs_stats_collect(rs_stats *self, rs_error *err);
/* Reads the values from number `first` on, after a call that read the values before it. self->scan must have scanned
 * these values alone. Errors of rs_stats_collect. */
RS_NODISCARD rs_status rs_stats_collect_more(rs_stats *self, uint32_t first, rs_error *err);
/* Decides about rows where lists were few. Comes once, after all values were read. RS_E_MEM. */
RS_NODISCARD rs_status rs_stats_end(rs_stats *self, rs_error *err);
/* Returns the bytes of memory that the stats own. */
uint64_t rs_stats_memory(const rs_stats *self);
/* Returns an empty set that lives as long as the stats; NULL if memory runs out. */
rs_value_set *rs_stats_new_set(rs_stats *self);
void rs_stats_clear(rs_stats *self);

/* Begins stats that share the results of `whole` but have an arena of their own, so that several threads may plan
 * different alternatives of `whole` at once. */
void rs_stats_begin_part(rs_stats *part, const rs_stats *whole);
/* Gives the memory of a part to `whole`. No other thread may use the arena of `whole` during the call. */
void rs_stats_end_part(rs_stats *part, rs_stats *whole);
