/* rs_cache_seal.h: makes the file of a cache a segment too ("Sealed caches" in FORMAT.md). */
#pragma once

#include "base/rs_watch.h"
#include "cache/rs_cache.h"

/* Writes a segment of `values` into the file, a list or, with `keys`, a mapping, and sets the state to RS_CACHE_SEALED.
 * Call it in the state RS_CACHE_SEALING, with the lock of rs_cache_try_lock_seal. After an error its space is free.
 *   values: from rs_cache_find, in the order of the records. Their lengths are checked.
 *   keys:   the bytes of a mapping that was built with these keys in this order; ptr is NULL for a list.
 *   label:  the bytes of the LABEL section, which has n_pairs pairs.
 * RS_E_SPACE; RS_E_ARG_LIMIT for 2^32 values; RS_E_FMT_* for a damaged value; RS_E_SYS; RS_E_MEM; RS_E_STATE_STOPPED if
 * `watch` stops it. */
RS_NODISCARD rs_status rs_cache_seal(const rs_cache *self, rs_cache_arena *arena, const rs_cache_value *values,
                                     uint64_t n_values, rs_slice keys, rs_slice label, uint64_t n_pairs,
                                     rs_watch *watch, rs_error *err);
