/* rs_plan_prepare.c: the part of planning that does not depend on dictionaries: templates of strings, packed nodes of
 * numbers. It is most of the work, and any thread can do it for any run. */
#include "plan/rs_plan.h"

#include "format/rs_utf16.h"

#include <stdlib.h>

enum { FEW = 4096 /* the most distinct values, with few bytes, for which only a dict-coded node is tried */ };

bool rs_plan_is_constant(const rs_stats *stats, const rs_alternative *a, size_t most) {
    rs_budget budget = {.values = UINT64_MAX, .bytes = UINT64_MAX, .depth = RS_FMT_DEPTH};
    rs_slice value = a->first;
    size_t size = rs_slice_left(&value);
    if (a->kind == RS_FMT_NODE_ANY || !rs_choices_allow(stats->choices, RS_FMT_NODE_CONST)) return false;
    if (a->kind == RS_FMT_NODE_CONST) return true;
    if (!a->constant || size > most || (a->n < 2 && size > 2)) return false;
    return rs_any_skip(&value, 0, &budget, NULL) == RS_OK; /* fails when array data is stored outside */
}

bool rs_plan_has_few(const rs_alternative *a) {
    if (a->distinct == NULL) return a->constant && rs_slice_left(&a->first) <= a->raw_bytes / 64;
    if (a->distinct->n == 0 || a->distinct->n > FEW || a->distinct->size_bytes > a->raw_bytes / 64) return false;
    /* Ints of the same width need no table. */
    return a->kind != RS_FMT_NODE_INT ||
           rs_bit_width((uint64_t)a->max - (uint64_t)a->min) > rs_bit_width(a->distinct->n - 1);
}

static rs_status find_template(rs_stats *stats, const rs_alternative *a, rs_prepared *out, rs_error *err) {
    rs_template template;
    bool alike;
    if (!rs_choices_allow(stats->choices, RS_FMT_NODE_CONCAT)) return RS_OK;
    if (!rs_choices_allow(stats->choices, RS_FMT_NODE_CONST)) return RS_OK; /* for constants between parts */
    if (a->elements > 1 || a->n_offsets < a->n || (a->known & RS_POSITION_NO_TEMPLATE) != 0) return RS_OK;
    RS_TRY(rs_template_find(stats, a, &template, &alike, err));
    if (!alike) return RS_OK;
    rs_template *kept = (rs_template *)rs_arena_take(&stats->arena, sizeof *kept);
    if (kept == NULL) return rs_no_memory(err);
    *kept = template;
    out->template = kept;
    return RS_OK;
}

void rs_plan_strings(const rs_stats *stats, const rs_alternative *a, rs_symbol_string *out) {
    const unsigned unit = rs_alternative_unit_bytes(a);
    if (unit == 4) memcpy(out, a->prepared->pairs, a->n_offsets * sizeof *out);
    for (uint32_t i = 0; i < a->n_offsets && unit < 4; i++) {
        rs_slice units = rs_stats_units(stats, a->offsets[i], unit);
        out[i].units = units.ptr;
        out[i].n_units = rs_slice_left(&units) / unit;
    }
}

/* Puts all strings with units of 4 bytes and without surrogates into UTF-16. */
static rs_status find_pairs(rs_stats *stats, const rs_alternative *a, rs_prepared *out, rs_error *err) {
    uint64_t total = 0, n_units = 0;
    if (a->elements != 2 || a->n_offsets < a->n || !rs_choices_allow(stats->choices, RS_FMT_NODE_SYMBOLS)) return RS_OK;
    for (uint32_t i = 0; i < a->n_offsets; i++) {
        const rs_slice points = rs_stats_units(stats, a->offsets[i], 4);
        (void)rs_utf16_length(points.ptr, rs_slice_left(&points) / 4, &n_units);
        total += n_units;
    }
    rs_symbol_string *strings = (rs_symbol_string *)rs_arena_take(&stats->arena, a->n_offsets * sizeof *strings);
    uint8_t *to = (uint8_t *)rs_arena_take(&stats->arena, (size_t)total * 2 + 2);
    if (strings == NULL || to == NULL) return rs_no_memory(err);
    for (uint32_t i = 0; i < a->n_offsets; i++) {
        const rs_slice points = rs_stats_units(stats, a->offsets[i], 4);
        strings[i].units = to;
        to = rs_utf16_encode_unchecked(points.ptr, rs_slice_left(&points) / 4, to);
        strings[i].n_units = (uint64_t)(to - strings[i].units) / 2;
    }
    out->pairs = strings;
    return RS_OK;
}

/* Returns whether a symbol table for the strings is probably wanted and not there: in the first run, for text without a
 * template that is too much to share a table, with few repeated bytes. */
static bool wants_symbols(const rs_stats *stats, const rs_alternative *a, const rs_prepared *prepared) {
    const unsigned unit = rs_alternative_unit_bytes(a);
    if (stats->hints != NULL || prepared->template != NULL || a->n_offsets < a->n) return false;
    if (unit == 4 && prepared->pairs == NULL) return false;
    if (a->total <= RS_PLAN_LITTLE_TEXT || !rs_choices_allow(stats->choices, RS_FMT_NODE_SYMBOLS)) return false;
    if (a->distinct != NULL && a->distinct->size_bytes < a->raw_bytes - a->raw_bytes / 4) return false;
    return rs_text_bits(a->total, 0, a->n, unit) < 8 * (a->total * unit + a->counts_bytes);
}

static rs_status train_symbols(rs_stats *stats, const rs_alternative *a, rs_prepared *out, rs_error *err) {
    if (!wants_symbols(stats, a, out)) return RS_OK;
    rs_trained *trained = (rs_trained *)rs_arena_take(&stats->arena, sizeof *trained);
    rs_symbol_string *strings = (rs_symbol_string *)malloc(((size_t)a->n_offsets + 1) * sizeof *strings);
    if (trained == NULL || strings == NULL) {
        free(strings);
        return rs_no_memory(err);
    }
    rs_buffer table = {0};
    const bool small = rs_dictionaries_use_small_codes(stats->choices, a->total);
    rs_plan_strings(stats, a, strings);
    rs_status status =
        rs_symbols_train(strings, a->n_offsets, rs_alternative_unit_bytes(a), small, &table, &trained->coded, err);
    free(strings);
    if (status == RS_E_ARG_LIMIT) status = RS_OK; /* and `table` is empty */
    uint8_t *bytes = (uint8_t *)rs_arena_take(&stats->arena, table.size_bytes + 1);
    if (status == RS_OK && bytes == NULL) status = rs_no_memory(err);
    if (status == RS_OK) {
        if (table.size_bytes > 0) memcpy(bytes, table.data, table.size_bytes);
        trained->bytes = rs_slice_of(bytes, table.size_bytes);
        out->trained = trained;
    }
    rs_buffer_clear(&table);
    return status;
}

rs_status rs_plan_prepare_alternative(rs_stats *stats, rs_alternative *a, rs_error *err) {
    rs_prepared *out = a->prepared;
    if (out != NULL) return RS_OK;
    out = (rs_prepared *)rs_arena_take(&stats->arena, sizeof *out);
    if (out == NULL) return rs_no_memory(err);
    out->n_fits = a->n;
    a->prepared = out;
    switch (a->kind) {
    case RS_FMT_NODE_STR:
        RS_TRY(find_template(stats, a, out, err));
        RS_TRY(find_pairs(stats, a, out, err));
        RS_TRY(train_symbols(stats, a, out, err));
        break;
    case RS_FMT_NODE_INT:
        out->bits = a->n * rs_plan_width((uint64_t)a->max - (uint64_t)a->min);
        RS_TRY(rs_plan_ints(stats, a, &out->packed, &out->bits, &out->n_fits, err));
        break;
    case RS_FMT_NODE_FLOAT:
        out->bits = a->n * 64;
        RS_TRY(rs_plan_floats(stats, a, &out->packed, &out->bits, &out->n_fits, err));
        break;
    case RS_FMT_NODE_LIST:
        if (a->elements != RS_ELEMENTS_INTS && a->elements != RS_ELEMENTS_FLOATS) break;
        out->bits =
            a->total * 64 + (a->count_min == a->count_max && a->count_max <= UINT32_MAX ? 0 : 8 * a->counts_bytes);
        RS_TRY(rs_plan_numbers(stats, a, &out->packed, &out->bits, &out->n_fits, err));
        break;
    default: break;
    }
    return RS_OK;
}

static uint32_t list_position(const rs_stats *stats, const rs_position *at, rs_alternative **out, uint32_t n);

/* Lists an alternative and its descendants at `out` from number n on, and returns the new number. */
static uint32_t list_alternative(const rs_stats *stats, rs_alternative *a, rs_alternative **out, uint32_t n) {
    bool numbers = a->elements == RS_ELEMENTS_INTS || a->elements == RS_ELEMENTS_FLOATS;
    if (rs_plan_is_constant(stats, a, RS_PLAN_CONST_BYTES) || rs_plan_has_few(a)) return n;
    if (a->kind == RS_FMT_NODE_STR || a->kind == RS_FMT_NODE_INT || a->kind == RS_FMT_NODE_FLOAT ||
        (a->kind == RS_FMT_NODE_LIST && numbers)) {
        if (out != NULL) out[n] = a;
        n++;
    }
    for (uint32_t k = 0; k < a->n_children; k++) n = list_position(stats, &a->children[k], out, n);
    return n;
}

/* Lists the alternatives of a position and of its map. */
static uint32_t list_position(const rs_stats *stats, const rs_position *at, rs_alternative **out, uint32_t n) {
    for (uint32_t i = 0; i < at->n; i++) n = list_alternative(stats, &at->alternatives[i], out, n);
    return at->map == NULL ? n : list_alternative(stats, &at->map->as_map, out, n);
}

uint32_t rs_plan_list(const rs_stats *stats, rs_alternative **out) {
    return list_position(stats, &stats->root, out, 0);
}

rs_status rs_plan_prepare(rs_stats *stats, rs_error *err) {
    RS_TRY(rs_stats_end(stats, err));
    uint32_t n = rs_plan_list(stats, NULL);
    rs_alternative **list = (rs_alternative **)rs_arena_take(&stats->arena, n * sizeof *list);
    if (list == NULL) return rs_no_memory(err);
    (void)rs_plan_list(stats, list);
    for (uint32_t i = 0; i < n; i++) RS_TRY(rs_plan_prepare_alternative(stats, list[i], err));
    return RS_OK;
}
