/* fuzz_arrow_out.c: records of a damaged segment to Arrow. */
#include "mutator.h"
#include "readers.h"

FUZZ_SEGMENT(fuzz_read_arrow(&store, random))
