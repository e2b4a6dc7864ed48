/* test_dictionaries.c: dictionaries that grow, become full and are freed; symbol tables that are used again. */
#include "plan/rs_dictionaries.h"
#include "rs_make.h"

static rs_error err;
static rs_dictionaries dictionaries;
static const rs_choices choices = {.level = RS_LEVEL_AUTO};
static uint32_t written, last_n;
static uint64_t last_position_id;

static rs_status write_values(void *owner, const rs_values *values, uint64_t position_id, unsigned table_depth,
                              rs_block *out, rs_error *e) {
    (void)e;
    memset(out, 0, sizeof *out);
    CHECK(owner == &dictionaries && table_depth == 1);
    written++, last_n = values->n, last_position_id = position_id;
    return RS_OK;
}

static rs_status write_bytes(void *owner, const rs_buffer *bytes, rs_block *out, rs_error *e) {
    (void)owner, (void)e;
    memset(out, 0, sizeof *out);
    out->heap_size_bytes = bytes->size_bytes;
    written++;
    return RS_OK;
}

static void start(void) {
    memset(&dictionaries, 0, sizeof dictionaries);
    dictionaries.owner = &dictionaries, dictionaries.write_values = write_values,
    dictionaries.write_bytes = write_bytes, dictionaries.choices = &choices;
    written = 0;
    rs_dictionaries_begin_run(&dictionaries);
}

/* Adds n ints from `first` on, as `any` values of 5 bytes. */
static rs_dictionary *extend(uint64_t position_id, bool fresh, uint32_t first, uint32_t n) {
    rs_buffer bytes = {0};
    rs_span *spans = (rs_span *)calloc(n + 1, sizeof *spans);
    rs_values values = {NULL, spans, n};
    rs_dictionary *d = NULL;
    if (spans == NULL) abort();
    for (uint32_t i = 0; i < n; i++) {
        spans[i].off = (uint32_t)bytes.size_bytes;
        make_int(&bytes, (int64_t)first + i + (1 << 20));
        spans[i].size_bytes = (uint32_t)bytes.size_bytes - spans[i].off;
    }
    values.base = bytes.data;
    CHECK_OK(rs_dictionaries_extend(&dictionaries, position_id, fresh, &values, 1, &d, &err), &err);
    rs_buffer_clear(&bytes);
    free(spans);
    return d;
}

static uint32_t number_of(const rs_dictionary *d, uint32_t value) {
    rs_buffer bytes = {0};
    make_int(&bytes, (int64_t)value + (1 << 20));
    uint32_t number = rs_dictionary_find(d, rs_slice_of(bytes.data, bytes.size_bytes));
    rs_buffer_clear(&bytes);
    return number;
}

TEST(test_growing) {
    start();
    CHECK(rs_dictionaries_find(&dictionaries, 7, 0) == NULL);
    rs_dictionary *d = extend(7, false, 0, 10);
    CHECK(written == 1 && last_n == 10 && last_position_id == 7);
    CHECK(rs_dictionaries_find(&dictionaries, 7, 100) == d && rs_dictionaries_find(&dictionaries, 8, 0) == NULL);
    rs_dictionaries_begin_run(&dictionaries);
    CHECK(extend(7, false, 5, 10) == d); /* the first table has five of them */
    CHECK(written == 2 && last_n == 5 && d->n_tables == 2 && d->tables[1] == 1);
    CHECK(extend(7, false, 0, 15) == d && written == 2); /* nothing new: no table */
    CHECK(number_of(d, 0) == 0 && number_of(d, 14) == 14 && number_of(d, 15) == UINT32_MAX);
    CHECK_U64(rs_dictionaries_n_tables(&dictionaries), 2);
    rs_dictionaries_clear(&dictionaries);
}

/* Adds lists of ints as any values: `n` of each of the lengths, in turn, then one list of a str. */
static rs_dictionary *extend_lists(const uint8_t *lengths, unsigned n_lengths, uint32_t n, uint32_t first) {
    rs_buffer bytes = {0};
    rs_span *spans = (rs_span *)calloc((size_t)n * n_lengths + 1, sizeof *spans);
    rs_values values = {NULL, spans, 0};
    rs_dictionary *d = NULL;
    if (spans == NULL) abort();
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < n_lengths; k++) {
            spans[values.n].off = (uint32_t)bytes.size_bytes;
            make_head(&bytes, RS_FMT_TAG_LIST, lengths[k]);
            for (uint32_t e = 0; e < lengths[k]; e++) make_int(&bytes, (int64_t)first + i + 1000 * e);
            spans[values.n].size_bytes = (uint32_t)bytes.size_bytes - spans[values.n].off;
            values.n++;
        }
    }
    spans[values.n].off = (uint32_t)bytes.size_bytes;
    make_head(&bytes, RS_FMT_TAG_LIST, 1), make_str(&bytes, "");
    spans[values.n++].size_bytes = 4;
    values.base = bytes.data;
    CHECK_OK(rs_dictionaries_extend(&dictionaries, 7, false, &values, 1, &d, &err), &err);
    for (uint32_t i = 0; i < values.n; i++) CHECK(rs_dictionary_find(d, rs_values_at(&values, i)) < d->entries.n);
    rs_buffer_clear(&bytes);
    free(spans);
    return d;
}

/* The first lists of ints of a dictionary get a table for each frequent length from 1 to 15, and a last table for the
 * other values. */
TEST(test_lengths) {
    static const uint8_t lengths[] = {2, 5, 0, 15, 16};
    start();
    rs_dictionary *d = extend_lists(lengths, 5, 200, 0);
    CHECK(d->n_tables == 4 && written == 4 && last_n == 401 && d->entries.n == 1001);
    CHECK(extend_lists(lengths, 5, 200, 5000) == d && d->n_tables == 5); /* more entries take one table */
    rs_dictionaries_clear(&dictionaries);
    start();
    d = extend_lists(lengths, 5, 127, 0); /* too few of each length */
    CHECK(d->n_tables == 1 && d->entries.n == 5 * 127 + 1);
    rs_dictionaries_clear(&dictionaries);
}

/* A dictionary has at most 64 tables; further values start another dictionary. */
TEST(test_full) {
    start();
    rs_dictionary *d = extend(7, false, 0, 1);
    for (uint32_t i = 1; i < RS_FMT_DICT_CODED_TABLES; i++) CHECK(extend(7, false, i, 1) == d);
    CHECK(rs_dictionaries_find(&dictionaries, 7, 0) == d && rs_dictionaries_find(&dictionaries, 7, 1) == NULL);
    CHECK(extend(7, false, 3, 5) == d); /* nothing new */
    rs_dictionary *next = extend(7, false, RS_FMT_DICT_CODED_TABLES - 1, 2);
    CHECK(next != d && d->n_tables == RS_FMT_DICT_CODED_TABLES && next->n_tables == 1);
    CHECK(number_of(next, RS_FMT_DICT_CODED_TABLES - 1) == 0); /* it has all requested values, even the known one */
    CHECK(rs_dictionaries_find(&dictionaries, 7, 0) == next);
    rs_dictionaries_clear(&dictionaries);
}

/* One run may have several dictionaries of one position. None is forgotten before its values are encoded. */
TEST(test_forgetting) {
    rs_dictionary *d[5];
    start();
    for (uint32_t i = 0; i < 5; i++) d[i] = extend(7, true, 1000 * i, 10);
    for (uint32_t i = 0; i < 5; i++) CHECK(d[i] != d[(i + 1) % 5] && number_of(d[i], 1000 * i + 9) == 9);
    CHECK(extend(7, true, 4002, 10) == d[4]); /* made in this run, and has most of them */
    rs_dictionaries_begin_run(&dictionaries);
    (void)extend(7, true, 9000, 10);
    for (uint32_t i = 0; i < 4; i++) CHECK(number_of(d[i], 1000 * i) == UINT32_MAX);
    CHECK(number_of(d[4], 4000) == 0); /* the second newest stays, because the last block's tree may name it */
    CHECK_U64(dictionaries.kept_bytes, 22 * 5);
    rs_dictionaries_clear(&dictionaries);
}

static rs_symbol_table *table_of(const rs_symbol_string *strings, size_t n, unsigned unit) {
    rs_symbols_search search = {.position_id = 7, .unit_bytes = unit, .strings = strings, .n = n};
    rs_symbol_table *table = NULL;
    rs_dictionaries_search(&dictionaries, &search);
    CHECK(!rs_dictionaries_is_stale(&dictionaries, &search));
    CHECK_OK(rs_dictionaries_keep(&dictionaries, &search, &table, &err), &err);
    CHECK(rs_dictionaries_is_stale(&dictionaries, &search) == (table != NULL && table != search.old));
    rs_symbols_search_clear(&search);
    return table;
}

static rs_symbol_table *symbols(const char *format, uint32_t n, unsigned unit) {
    static char texts[2000][40];
    static uint8_t wide[2000][80];
    rs_symbol_string strings[2000];
    for (uint32_t i = 0; i < n; i++) {
        (void)snprintf(texts[i], sizeof texts[i], format, i * 7919 % 1000);
        strings[i].n_units = strlen(texts[i]);
        for (uint32_t k = 0; k < strings[i].n_units; k++) wide[i][2 * k] = (uint8_t)texts[i][k], wide[i][2 * k + 1] = 4;
        strings[i].units = unit == 1 ? (const uint8_t *)texts[i] : wide[i];
    }
    return table_of(strings, n, unit);
}

TEST(test_symbols) {
    start();
    CHECK(symbols("few %u", 20, 1) == NULL && written == 0); /* not worth a table */
    rs_symbol_table *first = symbols("the same words and %u", 2000, 1);
    REQUIRE(first != NULL);
    CHECK(first->unit_bytes == 1 && first->number == 0 && written == 1);
    rs_dictionaries_begin_run(&dictionaries);
    CHECK(symbols("the same words and %u", 1500, 1) == first && written == 1);
    rs_symbol_table *other =
        symbols("nothing like it, %u XYZ", 2000, 1); /* the old table codes them badly, so they get a new one */
    CHECK(other != NULL && other != first && written == 2);
    rs_symbol_table *third = symbols("the same words and %u", 2000, 2); /* units of 2 bytes */
    CHECK(third != NULL && third->unit_bytes == 2 && written == 3);
    CHECK(first->encoder != NULL); /* used in this run */
    rs_dictionaries_begin_run(&dictionaries);
    CHECK(symbols("QQQQ 0000 %u WWWW 0000", 2000, 1) != NULL && written == 4);
    CHECK(first->encoder == NULL && other->encoder != NULL && third->encoder != NULL);
    rs_dictionaries_clear(&dictionaries);
}

TEST(test_random_strings) {
    static uint8_t noise[40000];
    rs_symbol_string strings[1000];
    start();
    for (uint32_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)make_random(256);
    for (uint32_t i = 0; i < 1000; i++) strings[i].units = noise + 40 * i, strings[i].n_units = 40;
    CHECK(table_of(strings, 1000, 1) == NULL && written == 0);
    rs_dictionaries_clear(&dictionaries);
}

/* Returns the symbol table for n sentences of 12 words drawn from 6,000. */
static rs_symbol_table *sentences(uint32_t n) {
    static char words[6000][8], text[24000][12 * 8];
    static rs_symbol_string strings[24000];
    for (uint32_t i = 0; words[0][0] == 0 && i < 6000; i++) {
        for (uint32_t k = 0; k < 7; k++) words[5999 - i][k] = (char)('a' + make_random(26));
        words[5999 - i][7] = ' ';
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < 12; k++) memcpy(text[i] + 8 * k, words[make_random(6000)], 8);
        strings[i].units = (const uint8_t *)text[i];
        strings[i].n_units = sizeof text[i];
    }
    rs_dictionaries_begin_run(&dictionaries);
    return table_of(strings, n, 1);
}

/* A table fits its training strings better than other strings of the same kind, but those do not need another table. */
TEST(test_more_of_the_same_kind) {
    start();
    rs_symbol_table *first = sentences(24000);
    CHECK(first != NULL && written == 1);
    for (unsigned run = 0; run < 4; run++) CHECK(sentences(24000) == first && written == 1);
    rs_dictionaries_clear(&dictionaries);
}
