/* mutator.h: changes fields and parts of a segment by its layout, and repairs the checksums. */
#pragma once

#include "fuzz.h"

/* Changes some fields, nodes or bytes of the segment in place, and mostly mends its checksums. An input that is not a
 * segment is changed without a layout. Returns the new size. */
size_t fuzz_mutate_segment(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* Defines a target that runs the statement `read` on a damaged segment's `store`; `random` is a seed. */
#define FUZZ_SEGMENT(read) \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { \
        const uint64_t random = fuzz_seed(data, size); \
        rs_store store; \
        (void)random; \
        if (!fuzz_open(&store, rs_slice_of(data, size))) return 0; \
        read; \
        rs_store_close(&store); \
        return 0; \
    } \
    FUZZ_MUTATED

/* The mutator of a target that reads segments. */
#define FUZZ_MUTATED \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) { \
        return fuzz_mutate_segment(data, size, max_size, seed); \
    }

/* Computes every checksum of the segment again, as far as the layout can be followed. */
void fuzz_mend(uint8_t *data, size_t size);
