/* fuzz_paths.c: compiled paths through the records of a damaged segment, and the values at their ends. */
#include "mutator.h"
#include "readers.h"

FUZZ_SEGMENT(fuzz_read_paths(&store, random))
