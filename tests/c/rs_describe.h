/* rs_describe.h: writes trees and plans as text, which tests compare with the expected text. */
#pragma once

#include "rs_test.h"

#include <stdarg.h>

static char description[65536];
static size_t description_size;

static inline void say(const char *format, ...) RS_PRINTF(1, 2);
static inline void say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    description_size +=
        (size_t)vsnprintf(description + description_size, sizeof description - description_size, format, args);
    va_end(args);
    if (description_size >= sizeof description) abort();
}

static inline void say_kind(unsigned kind) {
    static const char *const names[] = {"",     "any",     "const",  "int",    "float",   "bool", "str",     "bytes",
                                        "list", "tuple",   "struct", "union",  "ndarray", "ext",  "decimal", "numbers",
                                        "dict", "symbols", "concat", "digits", "hex",     "same", "optional"};
    static const char *const names_from_24[] = {"alphabet", "", "rising", "runs", "exceptions", "", "map"};
    say("%s", kind >= 24 ? names_from_24[kind - 24] : names[kind]);
}
