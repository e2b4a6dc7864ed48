/* fuzz_columns.c: fields of a damaged segment as columns. */
#include "mutator.h"
#include "readers.h"

FUZZ_SEGMENT(fuzz_read_columns(&store, random))
