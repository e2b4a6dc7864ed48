/* rs_rows.c: looks at a sample of lists, and estimates their bytes as rows and as packed lists of numbers. */
#include "plan/rs_rows.h"

#include <stdlib.h>

#include "format/rs_packed_ints.h"

enum {
    LISTS = RS_ELEMENTS_FLOATS + 1, /* the alternatives of lists: of mixed values, ints, floats */
    STRIDES = 5,
    NODE_BYTES = 32,       /* of the tree, for each place */
    NO_KIND = 0xFF,        /* of a place whose values are all None */
    DIFFERENT_KINDS = 0xFE /* of a place */
};

static bool has_dicts(const rs_position *at) {
    for (uint32_t i = 0; i < at->n; i++) {
        const rs_alternative *a = &at->alternatives[i];
        if (a->kind == RS_FMT_NODE_ANY || a->kind == RS_FMT_NODE_STRUCT || a->kind == RS_FMT_NODE_MAP) return true;
        for (uint32_t k = 0; k < a->n_children; k++) {
            if (has_dicts(&a->children[k])) return true;
        }
    }
    return false;
}

uint32_t rs_rows_list(const rs_position *at, uint32_t *order) {
    const rs_alternative *lists[LISTS];
    uint32_t next[LISTS] = {0}, n_lists = 0, n = 0;
    for (uint32_t i = 0; i < at->n; i++) {
        const rs_alternative *a = &at->alternatives[i];
        if (a->kind == RS_FMT_NODE_CONST) continue;
        if (a->kind != RS_FMT_NODE_LIST || a->param != 0 || a->n_offsets < a->n || n_lists == LISTS) return 0;
        if (a->count_min != a->count_max || a->count_max < 2 || a->count_max > RS_ROWS_PLACES) return 0;
        if ((n_lists > 0 && a->count_max != lists[0]->count_max) || has_dicts(a->children)) return 0;
        lists[n_lists++] = a;
    }
    for (;;) {
        uint32_t first = n_lists;
        for (uint32_t i = 0; i < n_lists; i++) {
            if (next[i] == lists[i]->n) continue;
            if (first == n_lists || lists[i]->offsets[next[i]] < lists[first]->offsets[next[first]]) first = i;
        }
        if (first == n_lists) return n;
        if (n == RS_ROWS_SAMPLE) return 0;
        order[n++] = lists[first]->offsets[next[first]++];
    }
}

/* Returns a number for the kind of a value that is not None: all ints have one, and all strings. */
static uint8_t kind_of(uint8_t tag) {
    if (rs_tag_is_int64(tag)) return RS_FMT_TAG_INT64;
    if (tag == RS_FMT_TAG_STR2 || tag == RS_FMT_TAG_STR4) return RS_FMT_TAG_STR1;
    return tag == RS_FMT_TAG_TRUE ? RS_FMT_TAG_FALSE : tag;
}

static rs_slice elements_at(const rs_stats *stats, uint32_t where) {
    rs_slice in = rs_stats_from(stats, where);
    in.ptr++;
    (void)rs_scan_varint_unchecked(&in);
    return in;
}

/* Sets the kind of each place, and *scale to the least scale of all floats; 16 if one has none. */
static void find_kinds(const rs_stats *stats, const uint32_t *order, uint32_t n, uint32_t count, uint8_t *kinds,
                       unsigned *scale) {
    memset(kinds, NO_KIND, count);
    *scale = 0;
    for (uint32_t i = 0; i < n; i++) {
        rs_slice in = elements_at(stats, order[i]);
        for (uint32_t k = 0; k < count; k++) {
            const uint8_t tag = *in.ptr, kind = kind_of(tag);
            size_t dicts = 0;
            if (tag != RS_FMT_TAG_NONE) kinds[k] = kinds[k] == NO_KIND || kinds[k] == kind ? kind : DIFFERENT_KINDS;
            if (tag == RS_FMT_TAG_FLOAT && *scale < 16 && !rs_packed_ints_find_scale(rs_load_f64(in.ptr + 1), scale)) {
                *scale = 16;
            }
            in.ptr = rs_scan_end_unchecked(in, &dicts);
        }
    }
}

/* Sets numbers[] to the numbers of a list at the scale, 0 for None. Returns false if a float has no such number. */
static bool take_numbers(rs_slice in, uint32_t count, unsigned scale, int64_t *numbers) {
    for (uint32_t k = 0; k < count; k++) {
        numbers[k] = 0;
        if (*in.ptr == RS_FMT_TAG_NONE) {
            in.ptr++;
        } else if (*in.ptr == RS_FMT_TAG_FLOAT) {
            if (!rs_packed_ints_from_float(rs_load_f64(in.ptr + 1), scale, &numbers[k])) return false;
            in.ptr += 9;
        } else {
            numbers[k] = rs_any_take_int_unchecked(&in);
        }
    }
    return true;
}

/* Returns whether rows of numbers take fewer bytes than packed lists. A place takes the bits of its range or, because
 * its node may be rising, of its largest step. Rows within rows share bytes with other values. */
static bool numbers_promise(const int64_t *numbers, uint32_t n, uint32_t count, bool in_row) {
    rs_packed_ints_sizes trials[STRIDES];
    uint64_t row = 0, best = UINT64_MAX;
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (uint32_t k = 0; k < count; k++) {
        int64_t min = INT64_MAX, max = INT64_MIN;
        uint64_t step = 0;
        for (uint32_t i = 0; i < n; i++) {
            const int64_t m = numbers[(size_t)i * count + k], last = i == 0 ? m : numbers[(size_t)(i - 1) * count + k];
            const uint64_t up = (uint64_t)m - (uint64_t)last;
            step |= m < last ? 0 - up : up;
            min = m < min ? m : min;
            max = m > max ? m : max;
        }
        const unsigned range = rs_bit_width((uint64_t)max - (uint64_t)min);
        const unsigned steps = 1 + rs_bit_width(step);
        row += range < steps ? range : steps;
        least = min < least ? min : least;
        most = max > most ? max : most;
    }
    row = in_row ? (row * n + 7) / 8 : (row + 7) / 8 * n;
    for (unsigned s = 0; s < STRIDES; s++) {
        memset(&trials[s], 0, sizeof trials[s]);
        trials[s].stride = s;
        for (uint32_t i = 0; i < n; i++) rs_packed_ints_measure(&trials[s], numbers + (size_t)i * count, count, least);
        if (rs_packed_ints_size(&trials[s]) < best) best = rs_packed_ints_size(&trials[s]);
    }
    const uint64_t plain = ((uint64_t)count * rs_bit_width((uint64_t)most - (uint64_t)least) + 7) / 8 * (uint64_t)n;
    if (plain < best) best = plain;
    return row + row / 16 + (uint64_t)count * NODE_BYTES / (n < RS_ROWS_SAMPLE ? 1 : 4) < best;
}

bool rs_rows_promise(const rs_stats *stats, const uint32_t *order, uint32_t n, uint32_t count, bool in_row) {
    uint8_t kinds[RS_ROWS_PLACES], first = NO_KIND;
    unsigned scale;
    bool promise = true;
    find_kinds(stats, order, n, count, kinds, &scale);
    for (uint32_t k = 0; k < count; k++) {
        if (kinds[k] == DIFFERENT_KINDS) return false;
        if (kinds[k] != NO_KIND && first != NO_KIND && kinds[k] != first) return true;
        if (kinds[k] != NO_KIND) first = kinds[k];
    }
    if ((first != RS_FMT_TAG_INT64 && first != RS_FMT_TAG_FLOAT) || scale == 16) return false;
    int64_t *numbers = (int64_t *)malloc((size_t)n * count * sizeof *numbers);
    if (numbers == NULL) return false;
    for (uint32_t i = 0; i < n && promise; i++) {
        promise = take_numbers(elements_at(stats, order[i]), count, scale, numbers + (size_t)i * count);
    }
    promise = promise && numbers_promise(numbers, n, count, in_row);
    free(numbers);
    return promise;
}
