/* fuzz_saved.c: the saved indexes of a damaged segment. */
#include "mutator.h"
#include "readers.h"

FUZZ_SEGMENT(fuzz_read_saved(&store))
