/* rs_string_template.c: cuts all strings by the cut of a sample, and chooses a kind of part for each leaf. */
#include "plan/rs_string_template.h"

#include <stdlib.h>

#include "format/rs_alphabet.h"

enum {
    DIGITS = 18,
    MAX_ENTRIES = 65536,
    GIVE_UP_AFTER = 4096,
    GIVE_UP_AFTER_LONG = 16384,
    LONG_ENTRY = 12,
    TABLE_BITS = 1600,
    TRIED = 1024,       /* strings that are cut first to see whether the template may save bits */
    PIECE = 2048,       /* strings that a thread cuts at a time */
    AHEAD = 16,         /* texts that are requested before they are read */
    TEXT_PART_BITS = 24 /* least gain of a text in parts, as in rs_plan_choose.c */
};
enum { NO_LEAF = 0xFF, LEAST_STRINGS = 16 };
#define MISFIT UINT32_MAX

/* Statistics of one leaf over all strings that fit. */
typedef struct column {
    rs_slice first;      /* the text of the first sampled string that fits */
    const uint8_t *last; /* the text of the previous string */
    size_t last_size;
    bool constant;               /* all texts so far are equal */
    bool wide;                   /* a text has units above 255 */
    bool zeros;                  /* a decimal text of several digits begins with 0 */
    bool collects;               /* the distinct texts are being collected */
    bool insists;                /* they are collected although numbers seem to take fewer bits */
    uint8_t stopped;             /* the bits of the numbers when collecting stopped for them; else 0 */
    uint8_t same;                /* the leaf that each text equals, in the sample at first, or NO_LEAF */
    bool decimal;                /* all texts so far are decimal digits */
    const rs_alphabet *alphabet; /* all texts so far have its form; NULL for none */
    size_t shortest, longest;    /* of the counted texts */
    uint64_t min, max;           /* of the decimal texts */
    uint64_t n, units;           /* number and units of all texts */
    uint64_t counted;            /* number of texts that differ from the previous text */
    rs_value_set *distinct;
    uint32_t n_half; /* number of distinct texts after half of the strings of a trial */
    rs_buffer bytes; /* the distinct texts as any values */
    rs_status status;
} column;

/* Where a leaf begins and ends in its string, in units. */
typedef struct place {
    uint16_t begin, end;
} place;

/* Strings that one thread has cut. */
typedef struct piece {
    uint32_t n_misfits;
    uint64_t changed; /* bit k: leaf k differs from the first string */
} piece;
RS_STATIC_ASSERT(RS_CUT_LEAVES <= 64, "bits for leaves");

/* Strings are cut in pieces, and then each leaf is counted over all strings, so that threads share both. */
typedef struct filler {
    rs_stats *stats;
    const rs_alternative *a;
    unsigned unit_bytes;
    rs_cut_guess guess;
    column columns[RS_CUT_LEAVES];
    uint8_t strict[RS_CUT_LEAVES]; /* the conditions on the texts of each leaf: see rs_leaf_fits */
    const rs_alphabet *alphabets[RS_CUT_LEAVES];
    place first[RS_CUT_LEAVES]; /* of the first sampled string that fits */
    uint32_t step, n, n_fits;   /* every step-th string is cut: their number, and how many of them fit */
    uint32_t *begins;           /* where the units of each of them begin, from the base of the values; or MISFIT */
    piece *pieces;
    place *places;                /* place i + k * stride: of leaf k in string i */
    size_t stride;                /* an odd number of cache lines: powers of two would share few sets of the caches */
    uint64_t constants;           /* bit k: leaf k is constant, in the sample at first, then in all strings */
    uint8_t order[RS_CUT_LEAVES]; /* the other leaves, long ones first, since threads should end together */
    rs_buffer misfits;            /* u32: the numbers of the strings that do not fit */
    rs_error *err;
} filler;

/* Sets *out to string i as units of 1 byte. Returns false when it is too long to cut. */
static bool string_at(const rs_stats *stats, const rs_alternative *a, uint32_t i, uint8_t *narrow, rs_slice *out) {
    unsigned unit = rs_alternative_unit_bytes(a);
    *out = rs_stats_units(stats, a->offsets[i], unit);
    if (rs_slice_left(out) > (size_t)RS_CUT_UNITS * unit) return false;
    if (unit == 2) *out = rs_cut_narrow(*out, narrow);
    return true;
}

/* ---- The sample ---- */

/* Returns the number of string i of the sample among n: evenly spread groups of 4 neighbours, which show whether texts
 * repeat in a sorted list. */
static uint32_t sample_index(uint32_t i, uint32_t n) {
    const uint32_t groups = RS_SAMPLE_STRINGS / 4;
    return n <= RS_SAMPLE_STRINGS ? i : (uint32_t)((uint64_t)(i / 4) * (n - 4) / (groups - 1)) + i % 4;
}

static rs_status take_sample(filler *self, rs_sample *sample) {
    uint32_t n = self->a->n_offsets;
    uint8_t narrow[RS_CUT_UNITS];
    sample->n = n;
    sample->size = 0;
    sample->unit_bytes = self->unit_bytes;
    for (uint32_t i = 0; i < RS_SAMPLE_STRINGS && i < n; i++) {
        uint32_t at = sample_index(i, n);
        rs_slice s;
        if (!string_at(self->stats, self->a, at, narrow, &s)) continue;
        if (self->unit_bytes == 2) {
            uint8_t *copy = (uint8_t *)rs_arena_take(&self->stats->arena, rs_slice_left(&s) + 1);
            if (copy == NULL) return rs_no_memory(self->err);
            memcpy(copy, s.ptr, rs_slice_left(&s));
            s = rs_slice_of(copy, rs_slice_left(&s));
        }
        sample->strings[sample->size++] = s;
    }
    return RS_OK;
}

/* ---- Cutting the strings ---- */

/* Sets *s to string i and cuts it. Returns false when it does not fit. */
static bool cut_string(const filler *self, uint32_t i, uint8_t *narrow, rs_slice *s, rs_slice *leaves, uint32_t *from) {
    const rs_cut *cut = &self->guess.cut;
    if (!string_at(self->stats, self->a, i, narrow, s)) return false;
    if (!rs_cut_run(cut, *s, leaves, from)) return false;
    for (uint32_t k = *from; k < cut->n_leaves; k++) {
        if (self->strict[k] == 0 && self->alphabets[k] == NULL) continue;
        if (!rs_leaf_fits(self->strict[k], self->alphabets[k], leaves[k])) return false;
    }
    return true;
}

/* Keeps the places of the leaves of strings, so that they are cut only once. Stops when too few fit. */
static void cut_piece(void *work, uint32_t number) {
    const filler *self = (const filler *)work;
    const uint32_t begin = number * PIECE, end = self->n - begin < PIECE ? self->n : begin + PIECE;
    piece *own = &self->pieces[number];
    rs_slice leaves[RS_CUT_LEAVES], s;
    uint8_t narrow[RS_CUT_UNITS];
    uint32_t from;
    for (uint32_t i = begin; i < end && own->n_misfits <= 16 + self->n / 5; i++) {
        place *at = self->places + i;
        self->begins[i] = MISFIT;
        if (!cut_string(self, i * self->step, narrow, &s, leaves, &from)) {
            own->n_misfits++;
            continue;
        }
        const rs_slice units = rs_stats_units(self->stats, self->a->offsets[i * self->step], self->unit_bytes);
        self->begins[i] = (uint32_t)(units.ptr - self->stats->values.base);
        for (uint32_t k = 0; k < from; k++, at += self->stride) *at = self->first[k];
        for (uint32_t k = from; k < self->guess.cut.n_leaves; k++, at += self->stride) {
            const rs_slice leaf = rs_cut_load(&leaves[k]);
            at->begin = (uint16_t)(leaf.ptr - s.ptr);
            at->end = (uint16_t)(leaf.end - s.ptr);
            if ((self->constants >> k & 1) == 0 || rs_slice_equal(leaf, self->columns[k].first)) continue;
            own->changed |= UINT64_C(1) << k;
        }
    }
}

static void free_places(filler *self) {
    free(self->begins);
    free(self->pieces);
    free(self->places);
    self->begins = NULL;
    self->pieces = NULL;
    self->places = NULL;
}

/* Cuts every `step`-th string. Sets *alike to false when too few fit. */
static rs_status cut_all(filler *self, uint32_t step, bool *alike) {
    const uint32_t n = (self->a->n_offsets + step - 1) / step, n_pieces = (n + PIECE - 1) / PIECE;
    uint32_t misfits = 0;
    free_places(self);
    self->constants = 0;
    for (uint32_t k = 0; k < self->guess.cut.n_leaves; k++) {
        if (self->columns[k].constant) self->constants |= UINT64_C(1) << k;
    }
    self->step = step;
    self->n = n;
    self->stride = ((((size_t)n + 15) / 16) | 1) * 16;
    self->begins = (uint32_t *)malloc(n * sizeof *self->begins);
    self->pieces = (piece *)calloc(n_pieces, sizeof *self->pieces);
    self->places = (place *)malloc(self->stride * self->guess.cut.n_leaves * sizeof *self->places);
    if (self->begins == NULL || self->pieces == NULL || self->places == NULL) return rs_no_memory(self->err);
    rs_crew_run(self->stats->choices->crew, cut_piece, self, n_pieces);
    for (uint32_t i = 0; i < n_pieces; i++) {
        misfits += self->pieces[i].n_misfits;
        self->constants &= ~self->pieces[i].changed;
    }
    self->n_fits = n - misfits;
    *alike = self->n_fits >= 8 && misfits * 5 < self->n_fits;
    return RS_OK;
}

/* ---- Statistics of all strings ---- */

static void add_digits(column *c, rs_slice s) {
    size_t size = rs_slice_left(&s);
    uint64_t value = 0;
    c->decimal = size > 0 && size <= DIGITS && rs_cut_number(s.ptr, size, &value);
    if (!c->decimal) return;
    if (value < c->min) c->min = value;
    if (value > c->max) c->max = value;
    c->zeros = c->zeros || (size > 1 && *s.ptr == '0');
}

/* Adds a text to the distinct texts of a column, or stops collecting them if there are too many. */
static rs_status add_word(column *c, rs_slice s) {
    uint8_t head[11] = {RS_FMT_TAG_STR1};
    size_t at = c->bytes.size_bytes;
    rs_span span;
    uint64_t give_up_after = c->units > c->n * LONG_ENTRY ? GIVE_UP_AFTER_LONG : GIVE_UP_AFTER;
    RS_TRY(rs_buffer_append(&c->bytes, head, 1 + rs_put_varint(head + 1, rs_slice_left(&s)), NULL));
    RS_TRY(rs_buffer_append(&c->bytes, s.ptr, rs_slice_left(&s), NULL));
    rs_slice value = rs_slice_of(c->bytes.data + at, c->bytes.size_bytes - at);
    uint64_t hash = rs_value_set_hash(value);
    if (rs_value_set_find(c->distinct, c->bytes.data, value, hash) != UINT32_MAX) {
        c->bytes.size_bytes = at;
        return RS_OK;
    }
    if (c->distinct->n >= MAX_ENTRIES || (c->n > give_up_after && c->distinct->n > c->n - c->n / 4)) {
        c->collects = false;
        return RS_OK;
    }
    span.off = (uint32_t)at;
    span.size_bytes = (uint32_t)(c->bytes.size_bytes - at);
    return rs_value_set_add(c->distinct, span, hash, NULL);
}

static rs_status add_new(const filler *self, column *c, rs_slice s) {
    size_t size = rs_slice_left(&s);
    uint64_t n;
    c->counted++;
    if (size < c->shortest) c->shortest = size;
    if (size > c->longest) c->longest = size;
    if (self->unit_bytes == 2 && !c->wide) c->wide = size > 0 && memchr(s.ptr, RS_CUT_WIDE, size) != NULL;
    if (c->decimal) add_digits(c, s);
    if (c->alphabet != NULL && !rs_alphabet_fits(c->alphabet, s, &n)) c->alphabet = NULL;
    if (!c->collects) return RS_OK;
    if (c->decimal && !c->insists && c->distinct->n > 1) {
        const unsigned bits = rs_bit_width(c->max - c->min);
        if (rs_bit_width(c->distinct->n - 1) >= bits) {
            c->collects = false;
            c->stopped = (uint8_t)bits;
            return RS_OK;
        }
    }
    return add_word(c, s);
}

/* Adds the first different text of a column that was constant so far. */
static rs_status add_first_change(const filler *self, column *c, rs_slice s) {
    c->constant = false;
    c->units = c->n * rs_slice_left(&c->first) + rs_slice_left(&s);
    c->collects = true;
    RS_TRY(add_new(self, c, c->first));
    c->last = s.ptr;
    c->last_size = rs_slice_left(&s);
    return add_new(self, c, s);
}

/* Takes a pointer and a size because a slice would go through memory: see rs_cut_load. */
static inline rs_status add_text(const filler *self, column *c, const uint8_t *text, size_t size) {
    bool repeated = size == c->last_size && rs_equal_few(text, c->last, size) && (c->constant || c->counted > 0);
    if (c->constant) return repeated ? RS_OK : add_first_change(self, c, rs_slice_of(text, size));
    c->units += size;
    c->last = text;
    c->last_size = size;
    return repeated ? RS_OK : add_new(self, c, rs_slice_of(text, size));
}

/* Returns the text at a place, as units of 1 byte; `narrow` has room for them. */
static inline rs_slice text_at(const uint8_t *units, place at, unsigned unit_bytes, uint8_t *narrow) {
    const rs_slice s = rs_slice_of(units + (size_t)at.begin * unit_bytes, (size_t)(at.end - at.begin) * unit_bytes);
    return unit_bytes == 1 ? s : rs_cut_narrow(s, narrow);
}

/* Returns whether leaf k repeats leaf `of` in all strings, without units above 255. */
static bool repeats_leaf(const filler *self, uint32_t k, uint32_t of) {
    const place *at = self->places + k * self->stride, *other = self->places + of * self->stride;
    uint8_t narrow[2][RS_CUT_UNITS];
    for (uint32_t i = 0; i < self->n; i++) {
        const uint8_t *units = self->stats->values.base + self->begins[i];
        if (self->begins[i] == MISFIT) continue;
        const rs_slice s = text_at(units, at[i], self->unit_bytes, narrow[0]);
        if (!rs_slice_equal(s, text_at(units, other[i], self->unit_bytes, narrow[1]))) return false;
        if (self->unit_bytes == 2 && s.ptr != s.end && memchr(s.ptr, RS_CUT_WIDE, rs_slice_left(&s)) != NULL) {
            return false;
        }
    }
    return true;
}

/* Adds the texts of leaf k. A leaf touches a line or two of each string, which are requested some strings before. */
static rs_status count_texts(const filler *self, column *c, uint32_t k) {
    const uint32_t *begins = self->begins, n = self->n;
    const place *at = self->places + k * self->stride;
    const uint8_t *base = self->stats->values.base;
    const unsigned unit = self->unit_bytes;
    uint8_t narrow[2][RS_CUT_UNITS]; /* this text and the last one, when units have 2 bytes */
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t next = i + AHEAD;
        if (i == n / 2) c->n_half = c->distinct->n;
        if (next < n && begins[next] != MISFIT) {
            RS_PREFETCH(base + begins[next] + (size_t)at[next].begin * unit);
            RS_PREFETCH(base + begins[next] + (size_t)at[next].end * unit);
        }
        if (begins[i] == MISFIT) continue;
        const rs_slice s = text_at(base + begins[i], at[i], unit, narrow[c->n % 2]);
        RS_TRY(add_text(self, c, s.ptr, rs_slice_left(&s)));
        c->n++;
    }
    return RS_OK;
}

/* Returns whether a digits node can store all texts. */
static bool is_digits(const column *c) { return c->decimal && (!c->zeros || c->shortest == c->longest); }

/* Adds the texts of a leaf in all strings that fit. */
static void count_leaf(void *work, uint32_t number) {
    filler *self = (filler *)work;
    const uint32_t k = self->order[number];
    column *c = &self->columns[k];
    if (c->same != NO_LEAF) {
        if (repeats_leaf(self, k, c->same)) return;
        c->same = NO_LEAF;
        c->collects = true;
    }
    column before = *c;
    c->status = count_texts(self, c, k);
    if (c->status != RS_OK || c->stopped == 0) return;
    if (is_digits(c) && rs_bit_width(c->max - c->min) == c->stopped) return;
    before.insists = true; /* entries may take fewer bits after all */
    rs_value_set_clear(c->distinct);
    rs_buffer_clear(&c->bytes);
    *c = before;
    c->status = count_texts(self, c, k);
}

static rs_status keep_alphabet(filler *self, const rs_alphabet *alphabet, const rs_alphabet **out) {
    rs_alphabet *kept = (rs_alphabet *)rs_arena_take(&self->stats->arena, sizeof *kept);
    if (kept == NULL) return rs_no_memory(self->err);
    memcpy(kept, alphabet, sizeof *kept);
    *out = kept;
    return RS_OK;
}

static rs_status begin_columns(filler *self, rs_slice first, const rs_slice *leaves) {
    for (uint32_t k = 0; k < self->guess.cut.n_leaves; k++) {
        column *c = &self->columns[k];
        const rs_leaf_guess *guess = &self->guess.leaves[k];
        if (c->distinct == NULL) c->distinct = rs_stats_new_set(self->stats);
        if (c->distinct == NULL) return rs_no_memory(self->err);
        c->decimal = true;
        if (guess->alphabet != 0) {
            RS_TRY(keep_alphabet(self, &self->guess.alphabets[guess->alphabet - 1], &c->alphabet));
        }
        c->shortest = SIZE_MAX;
        c->min = UINT64_MAX;
        self->strict[k] = guess->strict;
        if (guess->kind == RS_LEAF_ALPHABET) self->alphabets[k] = c->alphabet;
        c->collects = guess->repeats || guess->kind == RS_LEAF_WORDS;
        c->same = guess->kind == RS_LEAF_SAME ? guess->of : NO_LEAF;
        c->constant = guess->kind == RS_LEAF_CONST;
        c->first = leaves[k];
        c->last = leaves[k].ptr;
        c->last_size = rs_slice_left(&leaves[k]);
        self->first[k].begin = (uint16_t)(leaves[k].ptr - first.ptr);
        self->first[k].end = (uint16_t)(leaves[k].end - first.ptr);
    }
    return RS_OK;
}

/* Returns a guess at the work to count a leaf, from its text in one string. */
static size_t work_of(const filler *self, uint32_t k) {
    const column *c = &self->columns[k];
    return rs_slice_left(&c->first) + (c->collects ? 16 : 1);
}

/* Cuts every `step`-th string and adds its texts. Sets *alike to false when too few fit. */
static rs_status fill(filler *self, uint32_t step, bool *alike) {
    uint32_t n = 0;
    RS_TRY(cut_all(self, step, alike));
    if (!*alike) return RS_OK;
    for (uint32_t k = 0; k < self->guess.cut.n_leaves; k++) {
        uint32_t at = n;
        if ((self->constants >> k & 1) != 0) continue;
        for (n++; at > 0 && work_of(self, self->order[at - 1]) < work_of(self, k); at--) {
            self->order[at] = self->order[at - 1];
        }
        self->order[at] = (uint8_t)k;
    }
    rs_crew_run(self->n < PIECE ? NULL : self->stats->choices->crew, count_leaf, self, n);
    for (uint32_t k = 0; k < self->guess.cut.n_leaves; k++) {
        if (self->columns[k].status != RS_OK) return rs_no_memory(self->err);
    }
    return RS_OK;
}

/* Returns the bits of n texts that are entries of a table, from those of a trial. The number of entries grows with each
 * doubling of the strings, by less each time. */
static uint64_t bits_of_entries(const column *c, uint64_t tried, uint64_t n) {
    double entries = c->distinct->n, growth = c->n_half == 0 ? 1.0 : entries / c->n_half - 1.0;
    for (uint64_t of = tried; of < n; of *= 2, growth *= 0.9) entries *= 1.0 + growth;
    double size = (double)c->distinct->size_bytes / c->distinct->n;
    if (entries > (double)(n - n / 4)) return UINT64_MAX;
    return n * rs_bit_width((uint64_t)entries - 1) + (uint64_t)(entries * size * (size > LONG_ENTRY ? 5 : 8));
}

/* Returns a low estimate of the bits of all texts of a column from those of a trial. Sets *is_text if they are
 * neither numbers nor entries. */
static uint64_t guess_column(const filler *self, const column *c, bool *is_text) {
    const uint64_t n = self->a->n, scale = n / self->n_fits;
    if (c->constant || c->same != NO_LEAF) return 0;
    uint64_t bits = 8 * (c->units * scale * (self->unit_bytes == 1 ? 45 : 68) / 100 + n), other = UINT64_MAX;
    bool text = false;
    if (c->decimal) other = n * rs_bit_width(c->max - c->min);
    /* Symbols take more for random characters than for usual text. */
    if (c->alphabet != NULL) bits = rs_alphabet_bits(c->alphabet, c->units * scale, n);
    else if (bits < other) text = true;
    if (c->collects && c->distinct->n > 0) {
        uint64_t words = bits_of_entries(c, self->n_fits, n);
        if (words < other) other = words;
    }
    *is_text = *is_text || (text && bits < other);
    return bits < other ? bits : other;
}

/* Adds some of the strings, spread evenly, and decides whether a template may save enough bits. The columns are empty
 * before and after. */
static rs_status try_some(filler *self, rs_slice first, const rs_slice *leaves, bool *promising) {
    const uint64_t n = self->a->n, coded = rs_text_bits(self->a->total, 0, n, self->unit_bytes);
    const uint64_t plain = coded > self->guess.plain ? coded : self->guess.plain;
    uint64_t bits = 0;
    bool is_text = false;
    RS_TRY(fill(self, (uint32_t)(n / TRIED), promising));
    for (uint32_t k = 0; k < self->guess.cut.n_leaves && *promising; k++) {
        bits += guess_column(self, &self->columns[k], &is_text);
    }
    if (is_text) bits += plain / 10 + TEXT_PART_BITS * n;
    *promising = *promising && bits < plain;
    for (uint32_t k = 0; k < self->guess.cut.n_leaves; k++) {
        rs_value_set *distinct = self->columns[k].distinct;
        rs_value_set_clear(distinct);
        rs_buffer_clear(&self->columns[k].bytes);
        memset(&self->columns[k], 0, sizeof self->columns[k]);
        self->columns[k].distinct = distinct;
    }
    return begin_columns(self, first, leaves);
}

/* ---- Choosing the part for a leaf ---- */

static rs_status keep_words(filler *self, column *c, rs_template_part *out) {
    uint8_t *bytes = (uint8_t *)rs_arena_take(&self->stats->arena, c->bytes.size_bytes + 1);
    if (bytes == NULL) return rs_no_memory(self->err);
    memcpy(bytes, c->bytes.data, c->bytes.size_bytes);
    out->base = bytes;
    out->distinct = c->distinct;
    return RS_OK;
}

/* Keeps the texts of leaf k for its symbol table. */
static rs_status keep_texts(filler *self, uint32_t k, rs_template_part *out) {
    const place *at = self->places + k * self->stride;
    rs_symbol_string *texts =
        (rs_symbol_string *)rs_arena_take(&self->stats->arena, (size_t)self->n_fits * sizeof *texts);
    if (texts == NULL) return rs_no_memory(self->err);
    out->texts = texts;
    for (uint32_t i = 0; i < self->n; i++) {
        if (self->begins[i] == MISFIT) continue;
        texts->units = self->stats->values.base + self->begins[i] + (size_t)at[i].begin * self->unit_bytes;
        texts->n_units = (size_t)(at[i].end - at[i].begin);
        texts++;
    }
    return RS_OK;
}

/* Chooses the cheapest part for a column. Sets *bits to the bits of all its texts. */
static rs_status choose_column(filler *self, uint32_t k, rs_template_part *out, uint64_t *bits) {
    column *c = &self->columns[k];
    uint64_t n = self->n_fits;
    memset(out, 0, sizeof *out);
    out->kind = RS_PART_CONST;
    out->first = c->first;
    *bits = 0;
    if (c->constant) return RS_OK;
    if (c->same != NO_LEAF) {
        out->kind = RS_PART_SAME;
        out->of = c->same;
        return RS_OK;
    }
    out->kind = RS_PART_TEXT;
    out->units = c->units;
    *bits = rs_text_bits(c->units, c->decimal ? c->units : 0, n, self->unit_bytes);
    if (c->wide) return RS_OK;
    if (is_digits(c)) {
        uint64_t cost = n * rs_bit_width(c->max - c->min);
        if (cost < *bits) {
            out->kind = RS_PART_DIGITS;
            out->min = c->min;
            out->max = c->max;
            out->count = c->zeros ? (uint32_t)c->longest : 0;
            *bits = cost;
        }
    }
    if (c->alphabet != NULL) {
        uint64_t cost = rs_alphabet_bits(c->alphabet, c->units, n);
        if (cost < *bits || out->kind == RS_PART_TEXT) { /* the estimate of text is too low for random characters */
            out->kind = RS_PART_ALPHABET;
            out->alphabet = c->alphabet;
            *bits = cost;
        }
    }
    if (!c->collects || c->distinct->n == 0) return RS_OK;
    uint64_t cost = c->distinct->size_bytes * (c->distinct->size_bytes / c->distinct->n > LONG_ENTRY ? 5 : 8);
    cost += n * rs_bit_width(c->distinct->n - 1) + TABLE_BITS;
    if (cost < *bits) {
        out->kind = RS_PART_DICT_CODED;
        RS_TRY(keep_words(self, c, out));
        *bits = cost;
    }
    return RS_OK;
}

/* ---- The parts in their order ---- */

/* Joins the parts of leaves and the characters between them into a template. Adjacent constants become one. */
typedef struct joiner {
    rs_template *out;
    uint8_t *texts; /* room for all constants */
    size_t used;
    bool too_many;
} joiner;

static rs_template_part *add_part(joiner *self, const rs_template_part *part) {
    if (self->out->n == RS_FMT_CONCAT_CHILDREN) {
        self->too_many = true;
        return &self->out->at[0];
    }
    self->out->at[self->out->n] = *part;
    return &self->out->at[self->out->n++];
}

static void add_constant(joiner *self, const uint8_t *text, size_t size) {
    rs_template_part *last = self->out->n == 0 ? NULL : &self->out->at[self->out->n - 1];
    if (size == 0) return;
    memcpy(self->texts + self->used, text, size);
    if (last != NULL && last->kind == RS_PART_CONST) {
        last->first.end += size;
    } else {
        rs_template_part part = {.first = rs_slice_of(self->texts + self->used, size)};
        (void)add_part(self, &part);
    }
    self->used += size;
}

/* Walks over the steps of the cut: the character at which a step divides follows all leaves of its left side. */
static void join_parts(joiner *self, const rs_cut *cut, const rs_template_part *leaves, rs_template_cut *link) {
    const uint8_t *between[RS_CUT_LEAVES]; /* NULL for no character; pointers, since NUL is a character too */
    uint32_t n = 0, leaf = 0;
    for (uint32_t i = 0; i < cut->n_steps; i++) {
        const rs_cut_step *step = &cut->steps[i];
        if (step->op != RS_CUT_LEAF) {
            between[n++] = step->op == RS_CUT_FIRST || step->op == RS_CUT_LAST ? &step->c : NULL;
            continue;
        }
        link->parts[leaf] = RS_TEMPLATE_NO_PART;
        if (leaves[leaf].kind == RS_PART_CONST) {
            add_constant(self, leaves[leaf].first.ptr, rs_slice_left(&leaves[leaf].first));
        } else {
            rs_template_part *part = add_part(self, &leaves[leaf]);
            link->parts[leaf] = (uint8_t)(part - self->out->at);
            if (part->kind == RS_PART_SAME) part->of = link->parts[part->of];
        }
        leaf++;
        if (n > 0 && between[--n] != NULL) add_constant(self, between[n], 1);
    }
}

/* Writes the constants of the leaves to the link. */
static void write_constants(rs_template_cut *link, const rs_template_part *leaves) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < link->cut.n_leaves; i++) {
        size_t size = leaves[i].kind == RS_PART_CONST ? rs_slice_left(&leaves[i].first) : 0;
        if (size > 0) memcpy(link->texts + used, leaves[i].first.ptr, size);
        used += (uint32_t)size;
        link->ends[i] = (uint16_t)used;
    }
}

static rs_status make_template(filler *self, rs_template *out, bool *found) {
    rs_template_part leaves[RS_CUT_LEAVES];
    const rs_cut *cut = &self->guess.cut;
    joiner join = {out, NULL, 0, false};
    uint64_t bits;
    size_t size = 0;
    out->n = 0;
    out->bits = 0;
    out->n_fits = self->n_fits;
    out->plain = self->guess.plain;
    *found = false;
    for (uint32_t k = 0; k < cut->n_leaves; k++) {
        RS_TRY(choose_column(self, k, &leaves[k], &bits));
        if (leaves[k].kind == RS_PART_TEXT) RS_TRY(keep_texts(self, k, &leaves[k]));
        out->bits += bits;
        if (leaves[k].kind == RS_PART_CONST) size += rs_slice_left(&leaves[k].first);
    }
    if (size > UINT16_MAX) return RS_OK;
    out->bits = (out->bits / self->n_fits + 7) / 8 * 8 * self->n_fits;
    join.texts = (uint8_t *)rs_arena_take(&self->stats->arena, size + RS_CUT_LEAVES);
    out->cut = (rs_template_cut *)rs_arena_take(&self->stats->arena, sizeof *out->cut + size);
    if (join.texts == NULL || out->cut == NULL) return rs_no_memory(self->err);
    out->cut->size_bytes = (uint32_t)(sizeof *out->cut + size);
    out->cut->unit_bytes = (uint8_t)self->unit_bytes;
    out->cut->cut = *cut;
    join_parts(&join, cut, leaves, out->cut);
    write_constants(out->cut, leaves);
    /* A single text or a single entry of a table is not a template. */
    *found = !join.too_many && (out->n > 1 || out->at[0].kind == RS_PART_DIGITS || out->at[0].kind == RS_PART_ALPHABET);
    return RS_OK;
}

/* ---- Strings of one alphabet ---- */

/* Makes a template of one part if all of a sample has one alphabet, whose characters are drawn so evenly that nothing
 * else is shorter. The strings may be of any length. */
static rs_status find_alphabet(filler *self, rs_template *out, bool *found) {
    rs_slice strings[RS_SAMPLE_STRINGS];
    const uint32_t n = self->a->n_offsets, size = n < RS_SAMPLE_STRINGS ? n : RS_SAMPLE_STRINGS;
    rs_alphabet guess;
    uint64_t n_letters, bytes = 0;
    for (uint32_t i = 0; i < size; i++) {
        strings[i] = rs_stats_units(self->stats, self->a->offsets[sample_index(i, n)], 1);
    }
    if (!rs_alphabet_guess(strings, NULL, size, &guess) || !guess.even) return RS_OK;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        rs_slice s = rs_stats_units(self->stats, self->a->offsets[i], 1);
        if (!rs_alphabet_fits(&guess, s, &n_letters)) {
            RS_TRY(rs_buffer_append(&self->misfits, &i, sizeof i, self->err));
            continue;
        }
        bytes +=
            rs_alphabet_bytes(guess.bits, guess.form, n_letters) + (guess.count == 0 ? rs_varint_size(n_letters) : 0);
        out->n_fits++;
    }
    if (out->n_fits < n / 8) {
        self->misfits.size_bytes = 0;
        return RS_OK;
    }
    out->n = 1;
    out->bits = 8 * bytes;
    out->plain = 8 * (self->a->total + self->a->counts_bytes);
    out->at[0].kind = RS_PART_ALPHABET;
    *found = true;
    return keep_alphabet(self, &guess, &out->at[0].alphabet);
}

static rs_status find(filler *self, rs_template *out, bool *found) {
    rs_sample sample;
    rs_slice leaves[RS_CUT_LEAVES];
    uint32_t from;
    if (self->unit_bytes == 1) RS_TRY(find_alphabet(self, out, found));
    if (*found) return RS_OK;
    RS_TRY(take_sample(self, &sample));
    if (!rs_cut_search(&sample, &self->guess)) return RS_OK;
    uint16_t start = self->guess.cut.start_size;
    self->guess.cut.start_size = 0;
    bool alike = rs_cut_run(&self->guess.cut, sample.strings[self->guess.first], leaves, &from);
    RS_ASSERT(alike);
    self->guess.cut.start_size = start;
    const rs_slice first = sample.strings[self->guess.first];
    RS_TRY(begin_columns(self, first, leaves));
    if (self->a->n >= 8 * TRIED) RS_TRY(try_some(self, first, leaves, &alike));
    if (alike) RS_TRY(fill(self, 1, &alike));
    if (!alike) return RS_OK;
    const uint64_t begin = (UINT64_C(1) << self->guess.cut.start_leaf) - 1;
    if ((self->constants & begin) != begin) self->guess.cut.start_size = 0; /* it holds for constant leaves only */
    for (uint32_t i = 0; i < self->n; i++) {
        if (self->begins[i] == MISFIT) RS_TRY(rs_buffer_append(&self->misfits, &i, sizeof i, self->err));
    }
    return make_template(self, out, found);
}

static rs_status keep_misfits(filler *self, rs_template *out) {
    uint32_t *misfits = (uint32_t *)rs_arena_take(&self->stats->arena, self->misfits.size_bytes + 1);
    if (misfits == NULL) return rs_no_memory(self->err);
    if (self->misfits.size_bytes > 0) memcpy(misfits, self->misfits.data, self->misfits.size_bytes);
    out->misfits = misfits;
    return RS_OK;
}

rs_status rs_template_find(rs_stats *stats, const rs_alternative *a, rs_template *out, bool *found, rs_error *err) {
    *found = false;
    if (a->n_offsets < a->n || a->n < LEAST_STRINGS) return RS_OK;
    filler *self = (filler *)calloc(1, sizeof *self);
    if (self == NULL) return rs_no_memory(err);
    self->stats = stats;
    self->a = a;
    self->unit_bytes = rs_alternative_unit_bytes(a);
    self->err = err;
    rs_status status = find(self, out, found);
    if (status == RS_OK && *found) status = keep_misfits(self, out);
    rs_buffer_clear(&self->misfits);
    free_places(self);
    for (uint32_t k = 0; k < RS_CUT_LEAVES; k++) rs_buffer_clear(&self->columns[k].bytes);
    free(self);
    return status;
}
