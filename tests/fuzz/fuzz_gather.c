/* fuzz_gather.c: fields of a damaged segment in batches. */
#include "mutator.h"
#include "readers.h"

FUZZ_SEGMENT(fuzz_read_gathers(&store, random))
