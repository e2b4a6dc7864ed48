/* fuzz.h: the functions of every fuzz target, and helpers: random numbers with a seed, the bytes of an input one after
 * another, and segments opened with limits that keep an execution short.
 *
 * A target is one file fuzz_<name>.c. libFuzzer drives it, built by `nox -s fuzz`; replay.c drives the same file in
 * every test run. Both give the same result for the same input: a target has no state between two inputs. */
#pragma once

#include <stdlib.h>

#include "recstore.h"

/* Defined by a target: reads one input, and returns 0. A finding ends the process, by a sanitizer or by FUZZ_MUST. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Changes an input in place, up to max_size bytes, and returns its new size. Also defined by the target. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
/* Changes bytes without knowledge of their meaning. Defined by libFuzzer or by replay.c. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* The mutator of a target whose input has no layout. */
#define FUZZ_PLAIN \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) { \
        (void)seed; \
        return LLVMFuzzerMutate(data, size, max_size); \
    }

/* An invariant: it holds for any bytes. */
#define FUZZ_MUST(x) \
    do { \
        if (!(x)) abort(); \
    } while (0)

/* Accepts any status. */
static inline void fuzz_any(rs_status status) { (void)status; }

/* ---- Random numbers (splitmix64, Steele, Lea and Flood 2014) ---- */

static inline uint64_t fuzz_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* A number below `end`, which is not 0. */
static inline uint64_t fuzz_below(uint64_t *state, uint64_t end) { return fuzz_random(state) % end; }

/* A seed that is the same for the same input. */
static inline uint64_t fuzz_seed(const uint8_t *data, size_t size) { return rs_hash64(data, size, 15); }

/* ---- The bytes of an input as a source of choices. After the end they are 0. ---- */

static inline unsigned fuzz_take(rs_slice *in) { return in->ptr != in->end ? *in->ptr++ : 0; }

static inline uint64_t fuzz_take_number(rs_slice *in, unsigned n_bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < n_bytes; i++) value |= (uint64_t)fuzz_take(in) << (8 * i);
    return value;
}

/* ---- Segments ---- */

enum {
    FUZZ_VALUES = 1 << 14, /* the most values of a record that a target reads */
    FUZZ_BYTES = 1 << 20,
    FUZZ_RECORDS = 48,         /* the most records that a target reads of one store */
    FUZZ_ALL_VALUES = 1 << 24, /* the most values of all records together, if a target reads all */
    FUZZ_INPUT = 1 << 16       /* longer inputs are skipped, because they are slow and find nothing more */
};

/* Opens the segment, and lowers the limits that its header declares, so that an execution ends soon. */
static inline bool fuzz_open(rs_store *store, rs_slice bytes) {
    if (rs_slice_left(&bytes) > FUZZ_INPUT || rs_store_open(store, bytes, NULL, NULL) != RS_OK) return false;
    if (store->header.max_values > FUZZ_VALUES) store->header.max_values = FUZZ_VALUES;
    if (store->header.max_bytes > FUZZ_BYTES) store->header.max_bytes = FUZZ_BYTES;
    return true;
}

/* Returns the number of the k-th record to read. Covers a small store, else the first, the last, and some between. */
static inline uint64_t fuzz_record(const rs_store *store, uint64_t k) {
    const uint64_t n = store->header.n_records;
    if (n <= FUZZ_RECORDS || k < FUZZ_RECORDS / 2) return k;
    return k < FUZZ_RECORDS - 4 ? (k * UINT64_C(0x9E3779B97F4A7C15) >> 8) % n : n - (FUZZ_RECORDS - k);
}

static inline uint64_t fuzz_records(const rs_store *store) {
    return store->header.n_records < FUZZ_RECORDS ? store->header.n_records : FUZZ_RECORDS;
}

/* Returns whether one execution may read all records and entries: they have at most FUZZ_ALL_VALUES values. */
static inline bool fuzz_is_small(const rs_store *store) {
    uint64_t n = store->header.n_records;
    const rs_section *tables = &store->directory.sections[RS_FMT_SECTION_TABLES];
    for (uint64_t i = 0; i < store->n_tables; i++) {
        n += rs_load_u32(store->segment.ptr + tables->off + RS_FMT_BLOCK_SIZE * i + RS_FMT_B_N_RECORDS);
    }
    return n <= FUZZ_ALL_VALUES / (1 + store->header.max_values);
}

/* A copy that a target may change, in an allocation of exactly its size. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t size) {
    uint8_t *copy = (uint8_t *)malloc(size + (size == 0));
    FUZZ_MUST(copy != NULL);
    if (size != 0) memcpy(copy, data, size);
    return copy;
}
