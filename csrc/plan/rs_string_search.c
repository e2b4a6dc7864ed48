/* rs_string_search.c: tries ways to cut a sample of strings. It divides the strings into fields at the signs that
 * nearly all of them have in one order, and then each field further while that saves bits. */
#include "plan/rs_string_search.h"

enum {
    SIGNS = 48,           /* only the first signs of a string count */
    TOKENS = 10,          /* the most runs of one class into which a field is cut */
    MISFITS = 6,          /* at most 1/6 of the strings do not fit */
    DEPTH = 2,            /* how often a field is divided, besides the cut into runs */
    EVALUATIONS = 400,    /* columns measured before dividing stops, to bound the time */
    TABLE_BITS = 1600,    /* of a table of texts besides its entries */
    SYMBOLS_BYTES = 2048, /* the least cost of a symbol table */
    LONG_ENTRY = 12,      /* entries of more units are coded with symbols */
    SLOTS = 2 * RS_SAMPLE_STRINGS
};

/* A stretch of each string of the sample; set only for strings that fit. */
typedef struct column {
    rs_slice at[RS_SAMPLE_STRINGS];
} column;

/* A cut that is being made. */
typedef struct draft {
    rs_cut_step steps[RS_CUT_STEPS];
    rs_leaf_guess leaves[RS_CUT_LEAVES];
    uint64_t hashes[RS_CUT_LEAVES]; /* for each leaf, of all its texts in order */
    uint32_t n_steps, n_leaves, n_fits;
    uint64_t bits;   /* of the strings that fit */
    uint64_t excess; /* bits that alphabets need beyond the estimate for text, which is too low for their texts */
    bool fits[RS_SAMPLE_STRINGS];
    bool failed; /* too many steps, leaves or misfits */
} draft;

typedef struct search {
    const rs_sample *sample;
    uint64_t misfit_bits; /* of the strings that one misfit of the sample stands for */
    uint32_t evaluations;
    uint8_t signs[RS_SAMPLE_STRINGS][SIGNS];
    uint8_t n_signs[RS_SAMPLE_STRINGS];
    rs_alphabet alphabets[RS_CUT_ALPHABETS];
    uint32_t n_alphabets;
} search;

uint64_t rs_text_bits(uint64_t units, uint64_t digits, uint64_t n, unsigned unit_bytes) {
    uint64_t bytes = units * unit_bytes, plain = 8 * (bytes + n);
    uint64_t coded = 8 * (bytes * (unit_bytes == 1 ? 45 : 68 / unit_bytes) / 100 + digits / 5 + n + SYMBOLS_BYTES);
    return bytes >= SYMBOLS_BYTES && coded < plain ? coded : plain;
}

bool rs_leaf_fits(unsigned strict, const rs_alphabet *alphabet, rs_slice s) {
    size_t size = rs_slice_left(&s);
    uint64_t n;
    if (alphabet != NULL) return rs_alphabet_fits(alphabet, s, &n);
    if (strict == 0) return true;
    if (strict == RS_STRICT_PLAIN && (size == 0 || size > RS_STRICT_DIGITS || (*s.ptr == '0' && size > 1)))
        return false;
    if (strict != RS_STRICT_PLAIN && size != strict) return false;
    while (s.ptr != s.end && (uint8_t)(*s.ptr - '0') < 10) s.ptr++;
    return s.ptr == s.end;
}

static uint64_t hash_of(rs_slice s) {
    uint64_t h = rs_slice_left(&s) + 1;
    for (; s.end - s.ptr >= 8; s.ptr += 8) h = (h ^ rs_load_u64(s.ptr)) * UINT64_C(0x9E3779B97F4A7C15), h ^= h >> 29;
    h = (h ^ rs_load_few_unchecked(s.ptr, (uint64_t)(s.end - s.ptr))) * UINT64_C(0xBF58476D1CE4E5B9);
    return h ^ h >> 31;
}

/* ---- The cost of a leaf ---- */

/* Statistics of the texts of a column, over the strings that fit. */
typedef struct column_stats {
    uint32_t n, n_numbers;                   /* texts, and how many are numbers without leading zeros */
    uint32_t n_digits[RS_STRICT_DIGITS + 1]; /* [i]: how many are numbers of i digits */
    bool constant, decimal, wide;
    size_t shortest, longest;
    uint64_t min, max, units, digits, hash; /* digits: how many of the units are digits */
    uint32_t distinct, once, twice;         /* distinct texts; texts that occur once, and twice */
} column_stats;

/* Counts the decimal digits of a text, 8 units at a time. */
static uint64_t count_digits(rs_slice s) {
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones * 0x80;
    uint64_t n = rs_slice_left(&s);
    for (; s.end - s.ptr >= 8; s.ptr += 8) {
        uint64_t off = rs_load_u64(s.ptr) ^ ones * 0x30; /* 0 to 9 in the byte of a digit */
        uint64_t other = (((off & ~tops) + ones * 0x76) | off) & tops;
        n -= (other >> 7) * ones >> 56;
    }
    for (; s.ptr != s.end; s.ptr++) n -= (uint8_t)(*s.ptr - '0') >= 10;
    return n;
}

static void add_number(column_stats *f, rs_slice s) {
    size_t size = rs_slice_left(&s);
    uint64_t value = 0;
    if (size == 1 || *s.ptr != '0') f->n_numbers++;
    f->n_digits[size]++;
    for (; s.ptr != s.end; s.ptr++) value = value * 10 + (uint64_t)(*s.ptr - '0');
    if (value < f->min) f->min = value;
    if (value > f->max) f->max = value;
}

/* `two_bytes`: the strings have units of 2 bytes. */
static void add_text(column_stats *f, rs_slice s, bool two_bytes) {
    size_t size = rs_slice_left(&s);
    uint64_t digits = count_digits(s);
    bool decimal = size > 0 && size <= RS_STRICT_DIGITS && digits == size;
    f->digits += digits;
    if (two_bytes && !f->wide) f->wide = size > 0 && memchr(s.ptr, RS_CUT_WIDE, size) != NULL;
    if (decimal) add_number(f, s);
    f->decimal = f->decimal && decimal;
    if (size < f->shortest) f->shortest = size;
    if (size > f->longest) f->longest = size;
    f->units += size;
}

static void measure_column(const search *self, const draft *d, const column *c, column_stats *f) {
    uint64_t slots[SLOTS];
    uint8_t counts[SLOTS];
    uint32_t first = 0, n_slots = 32;
    while (n_slots < 2 * self->sample->size) n_slots *= 2;
    memset(slots, 0, n_slots * sizeof *slots);
    memset(counts, 0, n_slots);
    memset(f, 0, sizeof *f);
    f->constant = f->decimal = true;
    f->shortest = SIZE_MAX;
    f->min = UINT64_MAX;
    for (uint32_t i = 0; i < self->sample->size; i++) {
        uint64_t at;
        if (!d->fits[i]) continue;
        if (f->n++ == 0) first = i;
        f->constant = f->constant && rs_slice_equal(c->at[i], c->at[first]);
        if (f->constant && f->n > 1) continue;
        uint64_t hash = hash_of(c->at[i]) | 1;
        f->hash = (f->hash ^ hash) * UINT64_C(0x100000001B3) + i;
        add_text(f, c->at[i], self->sample->unit_bytes == 2);
        for (at = hash >> 32 & (n_slots - 1); slots[at] != 0 && slots[at] != hash;) at = (at + 1) & (n_slots - 1);
        slots[at] = hash;
        counts[at]++;
        if (counts[at] == 1) f->distinct++, f->once++;
        else if (counts[at] == 2) f->once--, f->twice++;
        else if (counts[at] == 3) f->twice--;
    }
}

/* Estimates the number of distinct texts of all n strings: the bias-corrected estimator of Chao ("Nonparametric
 * estimation of the number of classes in a population", 1984). */
static uint64_t guess_distinct(const column_stats *f, uint64_t n) {
    uint64_t all = f->distinct + (uint64_t)f->once * (f->once - (f->once > 0)) / (2 * ((uint64_t)f->twice + 1));
    return f->distinct == f->n || all > n ? n : all;
}

static uint64_t bits_of_words(const column_stats *f, uint64_t n) {
    uint64_t distinct = guess_distinct(f, n), bytes = distinct * (f->units / f->n + 2);
    if (distinct > 65536 || distinct > n - n / 4) return UINT64_MAX;
    return n * rs_bit_width(distinct - 1) + bytes * (f->units / f->n > LONG_ENTRY ? 5 : 8) + TABLE_BITS;
}

/* Returns the bits of n numbers, or UINT64_MAX if too few texts are numbers. Sets *strict to the condition that the
 * most texts meet, or to 0 if all texts meet it. */
static uint64_t bits_of_numbers(const search *self, const column_stats *f, uint64_t n, uint8_t *strict) {
    uint32_t size = 0, n_strict = f->n_numbers;
    *strict = RS_STRICT_PLAIN;
    for (uint32_t i = 1; i <= RS_STRICT_DIGITS; i++) {
        if (f->n_digits[i] > n_strict) n_strict = f->n_digits[i], size = i;
    }
    if (size != 0) *strict = (uint8_t)size;
    if (n_strict == f->n) *strict = 0;
    if ((f->n - n_strict) * MISFITS > f->n) return UINT64_MAX;
    return n * rs_bit_width(f->max - f->min) + (n_strict < f->n ? (f->n - n_strict) * self->misfit_bits + 2 * n : 0);
}

/* Finds the alphabet of a column. Returns false without one, or if there are too many alphabets. */
static bool guess_alphabet(search *self, const column *c, const draft *d, const column_stats *f, rs_leaf_guess *leaf) {
    rs_alphabet guess;
    uint32_t i = 0;
    if (f->units < 4 * (uint64_t)f->n || !rs_alphabet_guess(c->at, d->fits, self->sample->size, &guess)) return false;
    while (i < self->n_alphabets && memcmp(&self->alphabets[i], &guess, sizeof guess) != 0) i++;
    if (i == RS_CUT_ALPHABETS) return false;
    self->alphabets[i] = guess;
    if (i == self->n_alphabets) self->n_alphabets++;
    leaf->alphabet = (uint8_t)(i + 1);
    return true;
}

/* Chooses the kind of leaf for a column, and adds it to the draft. */
static void add_leaf(search *self, const column *c, draft *d) {
    column_stats f;
    rs_leaf_guess *leaf = &d->leaves[d->n_leaves];
    uint8_t strict;
    if (d->n_leaves == RS_CUT_LEAVES || d->n_steps == RS_CUT_STEPS) {
        d->failed = true;
        return;
    }
    self->evaluations++;
    d->steps[d->n_steps++].op = RS_CUT_LEAF;
    measure_column(self, d, c, &f);
    memset(leaf, 0, sizeof *leaf);
    d->hashes[d->n_leaves++] = f.constant ? 0 : f.hash;
    if (f.n == 0 || (f.constant && !f.wide)) return;
    for (uint32_t i = 0; i + 1 < d->n_leaves && !f.wide && !f.constant; i++) {
        if (d->hashes[i] != f.hash) continue;
        leaf->kind = RS_LEAF_SAME;
        leaf->of = (uint8_t)i;
        return;
    }
    uint64_t n = self->sample->n * f.n / self->sample->size;
    uint64_t bits = rs_text_bits(f.units * n / f.n, f.digits * n / f.n, n, f.wide ? 2 : 1);
    uint64_t excess = 0;
    leaf->kind = RS_LEAF_TEXT;
    if (f.wide) {
        d->bits += bits;
        return;
    }
    if (!f.decimal && guess_alphabet(self, c, d, &f, leaf)) {
        const uint64_t letters = rs_alphabet_bits(&self->alphabets[leaf->alphabet - 1], f.units * n / f.n, n);
        if (letters + n > bits) excess = letters + n - bits; /* a bit more, so that it beats text */
        bits = letters;
        leaf->kind = RS_LEAF_ALPHABET;
    }
    uint64_t other = bits_of_numbers(self, &f, n, &strict);
    if (other < bits) bits = other, leaf->kind = RS_LEAF_DIGITS, leaf->strict = strict;
    uint64_t words = bits_of_words(&f, n);
    leaf->repeats =
        words / 2 < bits || f.distinct < f.n - f.n / 4 || (leaf->kind == RS_LEAF_TEXT && f.units / f.n > LONG_ENTRY);
    if (words < bits) bits = words, leaf->kind = RS_LEAF_WORDS, leaf->strict = 0;
    d->bits += bits;
    if (leaf->kind == RS_LEAF_ALPHABET) d->excess += excess;
    const rs_alphabet *alphabet = leaf->kind == RS_LEAF_ALPHABET ? &self->alphabets[leaf->alphabet - 1] : NULL;
    for (uint32_t i = 0; i < self->sample->size && (leaf->strict != 0 || alphabet != NULL); i++) {
        if (!d->fits[i] || rs_leaf_fits(leaf->strict, alphabet, c->at[i])) continue;
        d->fits[i] = false;
        d->n_fits--;
    }
}

static bool fits_few(const search *self, const draft *d) {
    return (self->sample->size - d->n_fits) * MISFITS > self->sample->size;
}

static uint64_t weigh(const search *self, const draft *d) {
    uint64_t misfits = self->sample->size - d->n_fits;
    if (d->failed || fits_few(self, d)) return UINT64_MAX;
    return d->bits - d->excess + misfits * self->misfit_bits + (misfits > 0 ? 2 * self->sample->n : 0);
}

/* ---- Dividing a field ---- */

/* Adds a step to the draft and divides the column by it. A string that the step does not divide no longer fits. With
 * too many misfits the draft fails, and the columns are incomplete. */
static void divide(const search *self, rs_cut_op op, unsigned ch, const column *c, column *left, column *right,
                   draft *d) {
    if (d->n_steps == RS_CUT_STEPS) {
        d->failed = true;
        return;
    }
    d->steps[d->n_steps].op = (uint8_t)op;
    d->steps[d->n_steps++].c = (uint8_t)ch;
    for (uint32_t i = 0; i < self->sample->size && !d->failed; i++) {
        if (!d->fits[i] || rs_cut_divide(op, (uint8_t)ch, c->at[i], &left->at[i], &right->at[i])) continue;
        d->fits[i] = false;
        d->n_fits--;
        d->failed = fits_few(self, d);
    }
}

/* Sets `classes` to the classes of the runs in a text, and returns their number; 0 for too many. */
static uint32_t runs_of(rs_slice s, uint8_t classes[TOKENS]) {
    uint32_t n = 0;
    unsigned last = 9;
    for (; s.ptr != s.end; s.ptr++) {
        unsigned class = rs_cut_class_of(*s.ptr);
        if (class == last) continue;
        if (n == TOKENS) return 0;
        classes[n++] = (uint8_t)class;
        last = class;
    }
    return n;
}

/* Cuts a column into its runs if nearly all texts have the same classes of runs, at least two; else returns false. */
static bool cut_runs(search *self, const column *c, draft *d) {
    uint8_t classes[TOKENS], own[TOKENS];
    uint32_t n = 0, misfits = 0, seen = 0;
    column left;
    for (uint32_t i = 0; i < self->sample->size; i++) {
        if (!d->fits[i]) continue;
        if (seen++ == 0) {
            n = runs_of(c->at[i], classes);
            if (n < 2) return false;
        } else if (runs_of(c->at[i], own) != n || memcmp(own, classes, n) != 0) {
            d->fits[i] = false;
            d->n_fits--;
            if (++misfits * 16 > self->sample->size) return false;
        }
    }
    column rest = *c;
    for (uint32_t k = 0; k + 1 < n; k++) {
        divide(self, RS_CUT_HEAD, classes[k], &rest, &left, &rest, d);
        if (d->failed) return true;
        add_leaf(self, &left, d);
    }
    add_leaf(self, &rest, d);
    return true;
}

/* Returns the first or the last sign of a text; 0 if there is none. */
static uint8_t sign_of(rs_slice s, bool last) {
    for (; last && s.ptr != s.end; s.end--) {
        if (rs_cut_class_of(s.end[-1]) == RS_CUT_SIGNS) return s.end[-1];
    }
    for (; s.ptr != s.end; s.ptr++) {
        if (rs_cut_class_of(*s.ptr) == RS_CUT_SIGNS) return *s.ptr;
    }
    return 0;
}

/* Returns the most common first or last sign of the texts; 0 unless nearly all have it. */
static uint8_t common_sign(const search *self, const draft *d, const column *c, bool last) {
    uint32_t counts[128] = {0}, best = 0;
    for (uint32_t i = 0; i < self->sample->size; i++) {
        uint8_t found = d->fits[i] ? sign_of(c->at[i], last) : 0;
        if (found != 0 && ++counts[found] > counts[best]) best = found;
    }
    return counts[best] * 16 >= d->n_fits * 15 ? (uint8_t)best : 0;
}

/* Returns the last character of the common prefix of the texts if it occurs only there within the prefix; else 0. */
static uint8_t end_of_prefix(const search *self, const draft *d, const column *c) {
    rs_slice prefix = {NULL, NULL};
    for (uint32_t i = 0; i < self->sample->size; i++) {
        const rs_slice s = c->at[i];
        if (!d->fits[i]) continue;
        if (prefix.ptr == NULL) prefix = s;
        size_t n = 0;
        while (n < rs_slice_left(&prefix) && n < rs_slice_left(&s) && prefix.ptr[n] == s.ptr[n]) n++;
        prefix.end = prefix.ptr + n;
    }
    if (prefix.ptr == prefix.end) return 0;
    const size_t before = rs_slice_left(&prefix) - 1;
    return memchr(prefix.ptr, prefix.ptr[before], before) == NULL ? prefix.ptr[before] : 0;
}

static void cut_field(search *self, const column *c, unsigned depth, draft *d);

/* Divides a column once, and both sides further; replaces *best when that costs less. */
static void try_division(search *self, rs_cut_op op, unsigned ch, const column *c, unsigned depth, const draft *before,
                         draft *best) {
    draft trial = *before;
    column left, right;
    divide(self, op, ch, c, &left, &right, &trial);
    if (weigh(self, &trial) >= weigh(self, best)) return;
    cut_field(self, &left, depth - 1, &trial);
    if (weigh(self, &trial) >= weigh(self, best)) return;
    cut_field(self, &right, depth - 1, &trial);
    if (weigh(self, &trial) < weigh(self, best)) *best = trial;
}

/* Returns whether the last leaf has an alphabet whose characters are drawn evenly, so that nothing divides it. */
static bool is_even(const search *self, const draft *d) {
    return self->alphabets[d->leaves[d->n_leaves - 1].alphabet - 1].even;
}

/* Cuts a field in the cheapest way. */
static void cut_field(search *self, const column *c, unsigned depth, draft *d) {
    draft best = *d, trial = *d;
    add_leaf(self, c, &best);
    unsigned kind = best.leaves[best.n_leaves - 1].kind;
    if (kind != RS_LEAF_CONST && kind != RS_LEAF_SAME && kind != RS_LEAF_DIGITS && !best.failed &&
        self->evaluations < EVALUATIONS) {
        bool alike = cut_runs(self, c, &trial);
        if (alike && weigh(self, &trial) < weigh(self, &best)) best = trial;
        if (!alike && depth > 0 && !(kind == RS_LEAF_ALPHABET && is_even(self, &best))) {
            uint8_t first = common_sign(self, d, c, false);
            uint8_t last = common_sign(self, d, c, true);
            uint8_t prefix = kind == RS_LEAF_ALPHABET ? end_of_prefix(self, d, c) : 0;
            if (prefix != 0 && prefix != first) try_division(self, RS_CUT_FIRST, prefix, c, depth, d, &best);
            if (last != 0) try_division(self, RS_CUT_LAST, last, c, depth, d, &best);
            if (first != 0) try_division(self, RS_CUT_FIRST, first, c, depth, d, &best);
            try_division(self, RS_CUT_TAIL, RS_CUT_DIGITS, c, depth, d, &best);
            try_division(self, RS_CUT_HEAD, RS_CUT_DIGITS, c, depth, d, &best);
            try_division(self, RS_CUT_HEAD, RS_CUT_LETTERS, c, depth, d, &best);
        }
    }
    *d = best;
}

/* Cuts all strings at the n signs in turn, and the fields between them further. */
static void cut_fields(search *self, const uint8_t *signs, uint32_t n, draft *d) {
    column left, rest;
    memset(d, 0, sizeof *d);
    memset(d->fits, 1, self->sample->size);
    d->n_fits = self->sample->size;
    memcpy(rest.at, self->sample->strings, self->sample->size * sizeof rest.at[0]);
    for (uint32_t i = 0; i < n && weigh(self, d) != UINT64_MAX; i++) {
        divide(self, RS_CUT_FIRST, signs[i], &rest, &left, &rest, d);
        if (d->failed) return;
        cut_field(self, &left, DEPTH, d);
    }
    cut_field(self, &rest, DEPTH, d);
}

/* ---- The signs at which all strings are cut ---- */

/* Returns whether a text begins with a UUID up to its end or another sign than a hyphen. */
static bool begins_with_uuid(rs_slice s) {
    const rs_slice uuid = rs_slice_of(s.ptr, RS_FMT_UUID_TEXT);
    uint32_t n_signs = 0;
    if (rs_slice_left(&s) < RS_FMT_UUID_TEXT || !rs_alphabet_has_hyphens(uuid)) return false;
    for (const uint8_t *p = uuid.ptr; p != uuid.end; p++) n_signs += rs_cut_class_of(*p) == RS_CUT_SIGNS;
    if (n_signs != 4) return false;
    return uuid.end == s.end || (rs_cut_class_of(*uuid.end) == RS_CUT_SIGNS && *uuid.end != '-');
}

/* The hyphens of a UUID do not count, so that it becomes one part. */
static void list_signs(search *self) {
    for (uint32_t i = 0; i < self->sample->size; i++) {
        rs_slice s = self->sample->strings[i];
        uint32_t n = 0;
        bool begins = true; /* a field begins here */
        for (; s.ptr != s.end && n < SIGNS; s.ptr++) {
            if (begins && begins_with_uuid(s)) s.ptr += RS_FMT_UUID_TEXT - 1;
            begins = rs_cut_class_of(*s.ptr) == RS_CUT_SIGNS;
            if (begins) self->signs[i][n++] = *s.ptr;
        }
        self->n_signs[i] = (uint8_t)n;
    }
}

static uint32_t count_sign(const search *self, uint32_t i, uint8_t c) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < self->n_signs[i]; k++) n += self->signs[i][k] == c;
    return n;
}

/* Marks each sign that occurs the same number of times, at least once, in nine of ten strings. */
static void find_steady(const search *self, bool steady[128]) {
    bool seen[128] = {false};
    memset(steady, 0, 128 * sizeof *steady);
    for (uint32_t i = 0; i < self->sample->size; i += 4) {
        for (uint32_t k = 0; k < self->n_signs[i]; k++) seen[self->signs[i][k]] = true;
    }
    for (uint32_t c = 0; c < 128; c++) {
        uint32_t votes[SIGNS + 1] = {0}, best = 0;
        if (!seen[c]) continue;
        for (uint32_t i = 0; i < self->sample->size; i++) {
            uint32_t n = count_sign(self, i, (uint8_t)c);
            if (++votes[n] > votes[best]) best = n;
        }
        steady[c] = best > 0 && votes[best] * 10 >= self->sample->size * 9u;
    }
}

/* Lists the marked signs of string i at `out`, and returns their number. */
static uint32_t marked_signs(const search *self, uint32_t i, const bool marked[128], uint8_t out[SIGNS]) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < self->n_signs[i]; k++) {
        if (marked[self->signs[i][k]]) out[n++] = self->signs[i][k];
    }
    return n;
}

/* Sets `out` to the sequence of marked signs that most strings have; to any sequence without a majority.
 * Returns its length. */
static uint32_t elect_order(const search *self, const bool marked[128], uint8_t out[SIGNS]) {
    uint8_t own[SIGNS], best[SIGNS];
    uint32_t n_best = 0, votes = 0;
    for (uint32_t i = 0; i < self->sample->size; i++) { /* the majority vote of Boyer and Moore */
        uint32_t n = marked_signs(self, i, marked, own);
        if (votes == 0) memcpy(best, own, sizeof best), n_best = n;
        if (n == n_best && memcmp(own, best, n) == 0) votes++;
        else votes--;
    }
    memcpy(out, best, sizeof best);
    return n_best;
}

/* Sets `out` to the common prefix of the signs of nine in ten strings, and returns its length. */
static uint32_t common_begin(const search *self, uint8_t out[SIGNS]) {
    bool alive[RS_SAMPLE_STRINGS];
    uint32_t n;
    memset(alive, 1, sizeof alive);
    for (n = 0; n < SIGNS; n++) {
        uint32_t votes[128] = {0}, best = 0;
        for (uint32_t i = 0; i < self->sample->size; i++) {
            uint8_t c = self->n_signs[i] > n ? self->signs[i][n] : 0;
            if (alive[i] && c != 0 && ++votes[c] > votes[best]) best = c;
        }
        if (votes[best] * 10 < self->sample->size * 9u) return n;
        for (uint32_t i = 0; i < self->sample->size; i++) {
            alive[i] = alive[i] && self->n_signs[i] > n && self->signs[i][n] == best;
        }
        out[n] = (uint8_t)best;
    }
    return n;
}

static bool has_text(const draft *d) {
    for (uint32_t i = 0; i < d->n_leaves; i++) {
        if (d->leaves[i].kind == RS_LEAF_TEXT) return true;
    }
    return false;
}

static void try_fields(search *self, const uint8_t *signs, uint32_t n, draft *best) {
    draft trial;
    if (n > RS_CUT_LEAVES - 2) return;
    cut_fields(self, signs, n, &trial);
    if (weigh(self, &trial) < weigh(self, best)) *best = trial;
}

static void try_all(search *self, draft *best) {
    static const char *const sets[] = {" \t,;|/\\:", " \t,;|", "|\t"};
    uint8_t signs[SIGNS], last[SIGNS];
    bool marked[128];
    best->failed = true;
    find_steady(self, marked);
    uint32_t n_last = elect_order(self, marked, last);
    try_fields(self, last, n_last, best);
    for (uint32_t k = 0; k < sizeof sets / sizeof sets[0] && (best->failed || has_text(best)); k++) {
        for (uint32_t c = 0; c < 128; c++) marked[c] = marked[c] && c != 0 && strchr(sets[k], (int)c) != NULL;
        uint32_t n = elect_order(self, marked, signs);
        if (n == n_last && memcmp(signs, last, n) == 0) continue;
        try_fields(self, signs, n, best);
        memcpy(last, signs, sizeof last);
        n_last = n;
    }
    if (!best->failed && !has_text(best)) return;
    if (n_last > 0) try_fields(self, NULL, 0, best);
    uint32_t n = common_begin(self, signs);
    if (n > 0) try_fields(self, signs, n, best);
}

/* Sets the start of a cut: its leading constant leaves, each ended by the character of a FIRST step. `first` is the
 * number of a string that fits. */
static void set_start(const search *self, const draft *d, uint32_t first, rs_cut *out) {
    uint32_t step = 0, leaf = 0, from;
    rs_slice leaves[RS_CUT_LEAVES];
    while (d->steps[step].op == RS_CUT_FIRST && d->steps[step + 1].op == RS_CUT_LEAF &&
           d->leaves[leaf].kind == RS_LEAF_CONST) {
        step += 2;
        leaf++;
    }
    rs_slice text = self->sample->strings[first];
    if (leaf == 0 || !rs_cut_run(out, text, leaves, &from)) return;
    text.end = leaves[leaf - 1].end + 1;
    rs_cut_set_start(out, text, step, leaf);
}

/* Returns whether a template of a single part may be of use: its texts may be numbers or texts of an alphabet. */
static bool is_useful_alone(const search *self, const draft *d) {
    uint32_t i = 0;
    while (!d->fits[i]) i++;
    const rs_slice s = self->sample->strings[i];
    return d->leaves[0].alphabet != 0 || (s.ptr != s.end && rs_cut_class_of(*s.ptr) == RS_CUT_DIGITS);
}

bool rs_cut_search(const rs_sample *sample, rs_cut_guess *out) {
    search self;
    uint64_t units = 0, digits = 0;
    uint32_t i;
    if (sample->size < 16) return false;
    draft best = {0};
    self.sample = sample;
    self.evaluations = self.n_alphabets = 0;
    memset(self.alphabets, 0, sizeof self.alphabets);
    for (i = 0; i < sample->size; i++) {
        const uint8_t *p = sample->strings[i].ptr;
        units += rs_slice_left(&sample->strings[i]);
        for (; p != sample->strings[i].end; p++) digits += rs_cut_class_of(*p) == RS_CUT_DIGITS;
    }
    uint64_t plain = rs_text_bits(units * sample->n / sample->size, digits * sample->n / sample->size, sample->n,
                                  sample->unit_bytes);
    self.misfit_bits = plain / sample->size + 16 * sample->n / sample->size;
    list_signs(&self);
    try_all(&self, &best);
    if (weigh(&self, &best) >= (has_text(&best) ? plain - plain / 10 : plain)) return false;
    if (best.n_leaves == 1 && !is_useful_alone(&self, &best)) return false;
    memset(out, 0, sizeof *out);
    out->cut.n_steps = (uint16_t)best.n_steps;
    out->cut.n_leaves = (uint16_t)best.n_leaves;
    memcpy(out->cut.steps, best.steps, sizeof best.steps);
    memcpy(out->leaves, best.leaves, sizeof best.leaves);
    memcpy(out->alphabets, self.alphabets, sizeof self.alphabets);
    out->bits = weigh(&self, &best) + best.excess;
    out->plain = plain + best.excess;
    for (i = 0; !best.fits[i]; i++) continue;
    out->first = i;
    set_start(&self, &best, i, &out->cut);
    return true;
}
