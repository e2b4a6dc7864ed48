/* mutator.h: changes a segment where its layout gives a change a meaning, and mends its checksums, so that the damage
 * gets past them. */
#pragma once

#include "fuzz.h"

/* Changes some fields, nodes or bytes of the segment in place, and mostly mends its checksums. Bytes that are no
 * segment are changed without that knowledge. Returns the new size. */
size_t fuzz_mutate_segment(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* Sets every checksum of the segment to what its bytes give, as far as the layout can be followed. */
void fuzz_mend(uint8_t *data, size_t size);
