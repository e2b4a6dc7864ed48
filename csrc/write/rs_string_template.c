/* rs_string_template.c: cuts strings into tokens where the class of their characters changes, and chooses a kind of
 * part for each column of tokens. */
#include "write/rs_string_template.h"

#include <stdlib.h>

#include "format/rs_packed_ints.h"

enum { VOTERS = 32, DIGITS = 18, SHORT_HEX = 4, MAX_ENTRY = 65536, SETTLED = 4096 };
enum { DECIMAL = 1, LOWER = 2, UPPER = 4 };

unsigned rs_template_class(rs_template_classes classes, uint8_t c) {
    bool digit = c >= '0' && c <= '9', letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 128;
    bool gap = c == ' ' || c == '\t' || c == ',' || c == ';' || c == '|';
    switch (classes) {
    case RS_TEMPLATE_WORDS: return digit || letter;
    case RS_TEMPLATE_FINE: return digit ? 2 : letter;
    case RS_TEMPLATE_PATHS: return gap || c == '/' || c == '\\';
    case RS_TEMPLATE_FIELDS: break;
    default: RS_ASSERT(false);
    }
    return gap;
}

/* The strings of the elected pattern, cut into tokens. Token k of string i is its units from cuts[i * stride + k] up to
 * cuts[i * stride + k + 1], where stride is n_tokens + 1. */
typedef struct table {
    const uint8_t *class_of;  /* the class of each character */
    const uint8_t *digits_of; /* of each character the mask of DECIMAL, LOWER and UPPER: the digits that it can be */
    rs_stats *stats;
    rs_slice *strings;
    uint16_t *cuts;
    uint32_t n, n_tokens;
    rs_template_classes classes;
} table;

/* Cuts one string and returns the number of tokens; 0 when there are too many or the string is empty or too long.
 * *pattern becomes a hash over the classes of the tokens. */
static uint32_t cut(const uint8_t *class_of, rs_slice s, uint16_t cuts[RS_TEMPLATE_PARTS_MAX + 1], uint64_t *pattern) {
    uint32_t n = 0, i, size = (uint32_t)rs_slice_left(&s);
    unsigned last = 9;
    *pattern = RS_KEY_SET_SEED;
    if (rs_slice_left(&s) == 0 || rs_slice_left(&s) > RS_TEMPLATE_UNITS) return 0;
    for (i = 0; i < size; i++) {
        unsigned class = class_of[s.ptr[i]];
        if (class == last) continue;
        if (n == RS_TEMPLATE_PARTS_MAX) return 0;
        cuts[n++] = (uint16_t)i;
        last = class;
        *pattern = (*pattern ^ class) * UINT64_C(0x100000001B3);
    }
    cuts[n] = (uint16_t)size;
    return n;
}

static rs_slice token(const table *t, uint32_t i, uint32_t k) {
    const uint16_t *cuts = t->cuts + (size_t)i * (t->n_tokens + 1);
    rs_slice out;
    out.ptr = t->strings[i].ptr + cuts[k];
    out.end = t->strings[i].ptr + cuts[k + 1];
    return out;
}

static bool equal(rs_slice a, rs_slice b) {
    size_t size = rs_slice_left(&a);
    return size == rs_slice_left(&b) && rs_equal_few(a.ptr, b.ptr, size);
}

/* Returns the most frequent pattern among VOTERS strings, spread evenly over all. *n_tokens becomes its number of
 * tokens. */
static uint64_t elect(const table *t, const rs_alternative *a, uint32_t *n_tokens) {
    uint64_t patterns[VOTERS], best = 0;
    uint32_t tokens[VOTERS], votes[VOTERS] = {0}, n = 0, i, k, most = 0;
    uint16_t cuts[RS_TEMPLATE_PARTS_MAX + 1];
    for (i = 0; i < VOTERS && i < a->n_where; i++) {
        uint64_t pattern;
        uint32_t where = a->where[(size_t)i * a->n_where / VOTERS % a->n_where];
        uint32_t count = cut(t->class_of, rs_stats_units(t->stats, where, 1), cuts, &pattern);
        for (k = 0; k < n && patterns[k] != pattern; k++) continue;
        if (k == n) {
            patterns[n] = pattern;
            tokens[n] = count;
            n++;
        }
        if (++votes[k] > most) {
            most = votes[k];
            best = pattern;
            *n_tokens = tokens[k];
        }
    }
    return best;
}

/* Cuts all strings of the elected pattern. *alike becomes false when too few strings have it. */
static rs_status fill(table *t, const rs_alternative *a, bool *alike, rs_error *err) {
    uint64_t elected, pattern;
    uint32_t i, misfits = 0;
    uint16_t cuts[RS_TEMPLATE_PARTS_MAX + 1];
    *alike = false;
    elected = elect(t, a, &t->n_tokens);
    if (t->n_tokens < 2) return RS_OK;
    t->strings = (rs_slice *)malloc(a->n_where * sizeof *t->strings);
    t->cuts = (uint16_t *)malloc((size_t)a->n_where * (t->n_tokens + 1) * sizeof *t->cuts);
    if (t->strings == NULL || t->cuts == NULL) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for parts");
    for (i = 0; i < a->n_where; i++) {
        rs_slice s = rs_stats_units(t->stats, a->where[i], 1);
        if (cut(t->class_of, s, cuts, &pattern) != t->n_tokens || pattern != elected) {
            if (++misfits > 16 + a->n_where / 10) return RS_OK;
            continue;
        }
        memcpy(t->cuts + (size_t)t->n * (t->n_tokens + 1), cuts, (t->n_tokens + 1) * sizeof *cuts);
        t->strings[t->n++] = s;
    }
    *alike = t->n >= 8 && misfits * 10 <= t->n;
    return RS_OK;
}

/* ---- Choosing the part for a column ---- */

/* Statistics of a column: token k of all strings. */
typedef struct column {
    bool constant;   /* all tokens so far are equal */
    bool zeros;      /* a decimal token of several digits begins with 0 */
    unsigned digits; /* the mask of digits_of that all characters so far have */
    size_t shortest, longest;
    uint64_t min, max; /* of the decimal tokens */
    uint64_t units;    /* of all tokens */
    uint64_t same;     /* bit j: each token so far equals that of column j */
} column;

static uint64_t number_of(rs_slice s) {
    uint64_t value = 0;
    for (; s.ptr != s.end; s.ptr++) value = value * 10 + (uint64_t)(*s.ptr - '0');
    return value;
}

static void note_token(column *c, const table *t, uint32_t i, uint32_t k) {
    rs_slice s = token(t, i, k), first = token(t, 0, k);
    size_t size = rs_slice_left(&s);
    const uint8_t *p;
    uint32_t j;
    c->constant = c->constant && equal(s, first);
    if (size < c->shortest) c->shortest = size;
    if (size > c->longest) c->longest = size;
    c->units += size;
    for (p = s.ptr; c->digits != 0 && p != s.end; p++) c->digits &= t->digits_of[*p];
    if ((c->digits & DECIMAL) != 0 && size <= DIGITS) {
        uint64_t value = number_of(s);
        if (value < c->min) c->min = value;
        if (value > c->max) c->max = value;
        c->zeros = c->zeros || (size > 1 && *s.ptr == '0');
    } else {
        c->digits &= ~(unsigned)DECIMAL;
    }
    for (j = 0; c->same >> j != 0; j++) {
        if ((c->same >> j & 1) != 0 && !equal(s, token(t, i, j))) c->same &= ~(UINT64_C(1) << j);
    }
}

/* Collects the distinct texts of column k, as any values in the arena. out->distinct stays NULL when there are too
 * many. */
static rs_status distinct_texts(table *t, uint32_t k, uint64_t units, rs_template_part *out, rs_error *err) {
    rs_value_set *set = rs_stats_new_set(t->stats);
    uint8_t *bytes = (uint8_t *)rs_arena_take(&t->stats->arena, (size_t)(units + 4 * (uint64_t)t->n + 16));
    uint64_t used = 0;
    uint32_t i;
    if (set == NULL || bytes == NULL) return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for parts");
    for (i = 0; i < t->n; i++) {
        rs_slice s = token(t, i, k), value;
        uint8_t *at = bytes + used;
        uint64_t hash, size = 1;
        rs_span span;
        at[0] = RS_FMT_TAG_STR1;
        size += rs_put_varint(at + 1, rs_slice_left(&s));
        memcpy(at + size, s.ptr, rs_slice_left(&s));
        size += rs_slice_left(&s);
        value = rs_slice_of(at, (size_t)size);
        hash = rs_value_set_hash(value);
        if (rs_value_set_find(set, bytes, value, hash) != UINT32_MAX) continue;
        if (set->n >= MAX_ENTRY || (i > SETTLED && set->n > i - i / 4)) return RS_OK;
        span.off = (uint32_t)used;
        span.size_bytes = (uint32_t)size;
        RS_TRY(rs_value_set_add(set, span, hash, err));
        used += size;
    }
    out->base = bytes;
    out->distinct = set;
    return RS_OK;
}

/* Chooses the cheapest part for column k. *bits becomes the bits of all its tokens. */
static rs_status choose_column(table *t, uint32_t k, const column *c, rs_template_part *out, uint64_t *bits,
                               rs_error *err) {
    uint64_t n = t->n, cost;
    memset(out, 0, sizeof *out);
    out->kind = RS_PART_CONST;
    out->first = token(t, 0, k);
    *bits = 0;
    if (c->constant) return RS_OK;
    if (c->same != 0) {
        out->kind = RS_PART_SAME;
        while ((c->same >> out->of & 1) == 0) out->of++;
        return RS_OK;
    }
    out->kind = RS_PART_TEXT;
    *bits = 8 * (c->units + n);
    if ((c->digits & DECIMAL) != 0 && (!c->zeros || c->shortest == c->longest)) {
        cost = n * rs_packed_ints_width(c->max - c->min);
        if (cost < *bits) {
            out->kind = RS_PART_DIGITS;
            out->min = c->min;
            out->max = c->max;
            out->count = c->zeros ? (uint32_t)c->longest : 0;
            *bits = cost;
        }
    }
    if ((c->digits & (LOWER | UPPER)) != 0 && c->shortest == c->longest && c->longest >= SHORT_HEX) {
        cost = n * 8 * ((c->longest + 1) / 2);
        if (cost < *bits) {
            out->kind = RS_PART_HEX;
            out->count = (uint32_t)c->longest;
            out->upper = (c->digits & LOWER) == 0;
            *bits = cost;
        }
    }
    RS_TRY(distinct_texts(t, k, c->units, out, err));
    if (out->distinct == NULL) return RS_OK;
    cost = n * rs_packed_ints_width(out->distinct->n - 1) + 8 * out->distinct->size_bytes + 1600;
    if (cost < *bits) {
        out->kind = RS_PART_DICT_CODED;
        *bits = cost;
    }
    return RS_OK;
}

/* Joins neighbouring constant parts into one. */
static void join_constants(rs_template *template) {
    uint32_t from, to = 0, moved[RS_TEMPLATE_PARTS_MAX];
    for (from = 0; from < template->n; from++) {
        rs_template_part *p = &template->at[from];
        /* The tokens of one string stand side by side, so their texts are one text. */
        if (to > 0 && p->kind == RS_PART_CONST && template->at[to - 1].kind == RS_PART_CONST) {
            template->at[to - 1].first.end = p->first.end;
            moved[from] = to - 1;
            continue;
        }
        if (p->kind == RS_PART_SAME) p->of = moved[p->of];
        moved[from] = to;
        template->at[to++] = *p;
    }
    template->n = to;
}

static rs_status columns(table *t, rs_template *out, rs_error *err) {
    uint64_t variable = 0, bits; /* variable: mask of the columns that a later one may repeat */
    uint32_t i, k;
    out->classes = t->classes;
    out->n = t->n_tokens;
    out->bits = 0;
    out->n_fits = t->n;
    for (k = 0; k < t->n_tokens; k++) {
        column c = {true, false, DECIMAL | LOWER | UPPER, SIZE_MAX, 0, UINT64_MAX, 0, 0, 0};
        c.same = variable;
        for (i = 0; i < t->n; i++) note_token(&c, t, i, k);
        RS_TRY(choose_column(t, k, &c, &out->at[k], &bits, err));
        out->bits += bits;
        if (out->at[k].kind != RS_PART_CONST && out->at[k].kind != RS_PART_SAME) variable |= UINT64_C(1) << k;
    }
    out->bits = (out->bits / t->n + 7) / 8 * 8 * t->n;
    join_constants(out);
    return RS_OK;
}

static void fill_digits(uint8_t digits_of[256]) {
    unsigned c;
    for (c = 0; c < 256; c++) {
        bool digit = c >= '0' && c <= '9';
        digits_of[c] = (uint8_t)((digit ? DECIMAL : 0) | (digit || (c >= 'a' && c <= 'f') ? LOWER : 0) |
                                 (digit || (c >= 'A' && c <= 'F') ? UPPER : 0));
    }
}

rs_status rs_template_find(rs_stats *stats, const rs_alternative *a, rs_template *out, bool *found, rs_error *err) {
    uint8_t class_of[256], digits_of[256];
    unsigned classes, c;
    *found = false;
    if (a->n_where < a->n || a->n < 16) return RS_OK;
    fill_digits(digits_of);
    for (classes = RS_TEMPLATE_WORDS; classes < RS_TEMPLATE_CLASSES; classes++) {
        table t = {class_of, digits_of, stats, NULL, NULL, 0, 0, (rs_template_classes)classes};
        bool alike;
        rs_template some;
        rs_status status;
        /* Names with signs at different positions ("x6u_kE", "x-6ukE") follow one pattern only when they are not cut at
         * signs, so the coarse classes are tried when the fine ones found nothing. */
        if (classes == RS_TEMPLATE_PATHS && *found) break;
        for (c = 0; c < 256; c++) class_of[c] = (uint8_t)rs_template_class((rs_template_classes)classes, (uint8_t)c);
        status = fill(&t, a, &alike, err);
        if (status == RS_OK && alike) {
            status = columns(&t, &some, err);
            if (status == RS_OK && (!*found || some.bits < out->bits)) *out = some;
            *found = status == RS_OK;
        }
        free(t.strings);
        free(t.cuts);
        RS_TRY(status);
    }
    return RS_OK;
}
