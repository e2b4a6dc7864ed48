/* rs_columns.h: records whose fields get many different kinds of nodes, for tests that build whole stores. */
#pragma once

#include "rs_make.h"

/* The words change after every COLUMNS_PART records, so a block that ends there is followed by new words. */
enum { COLUMNS_PART = 400 };

static inline void columns_optional(uint64_t i, rs_buffer *raw) {
    make_head(raw, 0x0F, 1 + (i % 3 != 0));
    make_str(raw, "x"), make_int(raw, (int64_t)(i % 5));
    if (i % 3 != 0) make_str(raw, "y"), (i % 4 == 0 ? make_tag(raw, 0) : make_int(raw, (int64_t)i));
}

/* {"id", "score", "word", "text", "path", "ring", "at", "odd"}: ints, decimals, dict, symbols, concat, numbers, a table
 * of structs with optional keys, a union. */
static inline void columns_record(uint64_t i, rs_buffer *raw, rs_buffer *arrays) {
    static const char *const names[] = {"a red one", "green", "the blue", "yellowish"};
    char text[96];
    uint64_t part = i / COLUMNS_PART;
    (void)arrays;
    make_head(raw, 0x0F, 8);
    make_str(raw, "id"), make_int(raw, (int64_t)(i * 3));
    make_str(raw, "score"), make_float(raw, (double)(i * 37 % 1000) / 100);
    uint64_t k = i * 7 % 23; /* the strings have no common pattern, so no template fits */
    (void)snprintf(text, sizeof text, "%.*s, %s of %llu", (int)(k % 9) + 3, "ab cd, ef-gh ij", names[k % 4],
                   (unsigned long long)part);
    make_str(raw, "word"), make_str(raw, text);
    (void)snprintf(text, sizeof text, "%s and then %s goes%c%llu times", names[i % 4], names[i / 4 % 4],
                   (int)('a' + i % 26), (unsigned long long)(i * i % 911));
    make_str(raw, "text"), make_str(raw, text);
    (void)snprintf(text, sizeof text, "n%08llu/img_%04x.jpeg", (unsigned long long)(i % 9),
                   (unsigned)(i * 7919 % 65536));
    make_str(raw, "path"), make_str(raw, text);
    make_str(raw, "ring"), make_head(raw, 0x0D, i % 12);
    for (k = 0; k < i % 12; k++) make_float(raw, (double)(i * 10 + k * 3) / 10);
    make_str(raw, "at"), columns_optional(i % 40, raw);
    make_str(raw, "odd");
    if (i % 50 == 0) make_int(raw, (int64_t)(i << 40));
    else if (i % 3 == 0) make_tag(raw, 0);
    else make_int(raw, (int64_t)(i % 100));
}
