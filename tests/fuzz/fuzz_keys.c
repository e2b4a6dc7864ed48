/* fuzz_keys.c: lookups in a damaged mapping. */
#include "mutator.h"
#include "readers.h"

FUZZ_SEGMENT(fuzz_read_keys(&store, random))
