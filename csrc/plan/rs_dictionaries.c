/* rs_dictionaries.c: extends dictionaries by tables, and makes or reuses symbol tables. */
#include "plan/rs_dictionaries.h"

#include <stdlib.h>

#include "format/rs_any.h"

enum {
    MAX_ENTRIES = 1 << 20,         /* of one dictionary */
    KEPT_BYTES = 24 * 1024 * 1024, /* bytes of all entries; above it, dictionaries are not extended */
    SAMPLE_STEP = 16,              /* a symbol table is tried on every 16th string */
    DRIFT_PART = 20,               /* a table is replaced when its codes grow by more than 1/20 */
    MIN_UNITS = 1024,              /* fewer units are not worth a table */
    LITTLE_UNITS = 1 << 16,        /* the most units for which AUTO searches for the shortest codes */
    MAX_SEEN = 1 << 20,            /* the most large values that are remembered */
    SEEN_HASH_BITS = 40,           /* bits of the hash in a slot; the run takes the others */
    LENGTHS = 15,                  /* the longest lists of ints that may get a table for their length */
    NARROW,                        /* the class of strings with units of 1 byte */
    LENGTH_ENTRIES = 128           /* the fewest entries of one class that are worth a table */
};

static void close_dictionary(rs_dictionary *d) {
    rs_buffer_clear(&d->bytes);
    rs_value_set_clear(&d->entries);
    free(d);
}

void rs_dictionaries_clear(rs_dictionaries *self) {
    while (self->first != NULL) {
        rs_dictionary *next = self->first->next;
        close_dictionary(self->first);
        self->first = next;
    }
    while (self->symbols != NULL) {
        rs_symbol_table *next = self->symbols->next;
        rs_symbols_encoder_close(self->symbols->encoder);
        free(self->symbols);
        self->symbols = next;
    }
    rs_buffer_clear(&self->tables);
    rs_attempts_clear(&self->attempts);
    free(self->seen);
    self->seen = NULL;
    self->n_seen = self->seen_capacity = 0;
}

uint64_t rs_dictionaries_memory(const rs_dictionaries *self) {
    uint64_t bytes = self->tables.capacity_bytes + self->seen_capacity * sizeof *self->seen;
    for (const rs_dictionary *d = self->first; d != NULL; d = d->next) {
        bytes += sizeof *d + d->bytes.capacity_bytes + d->entries.n_slots * sizeof *d->entries.slots +
                 (uint64_t)d->entries.capacity * sizeof *d->entries.spans;
    }
    for (const rs_symbol_table *t = self->symbols; t != NULL; t = t->next)
        bytes += sizeof *t + rs_symbols_encoder_memory(t->encoder);
    return bytes;
}

void rs_dictionaries_begin_run(rs_dictionaries *self) { self->run++; }

/* Frees the entries of all but the two newest dictionaries of the position: later trees do not use them. Keeps those
 * of dictionaries used in this run, because one position id may occur in several children of a union. */
static void retire_dictionaries(rs_dictionaries *self, uint64_t position_id) {
    unsigned newer = 0;
    for (rs_dictionary *d = self->first; d != NULL; d = d->next) {
        if (d->position_id != position_id || newer++ < 2 || d->used == self->run) continue;
        self->kept_bytes -= d->bytes.size_bytes;
        rs_buffer_clear(&d->bytes);
        rs_value_set_clear(&d->entries);
    }
}

/* The same for encoders of symbol tables. */
static void retire_symbols(rs_dictionaries *self, uint64_t position_id, unsigned unit_bytes) {
    unsigned newer = 0;
    for (rs_symbol_table *t = self->symbols; t != NULL; t = t->next) {
        if (t->position_id != position_id || t->unit_bytes != unit_bytes) continue;
        if (newer++ < 2 || t->used == self->run) continue;
        rs_symbols_encoder_close(t->encoder);
        t->encoder = NULL;
    }
}

/* ---- Large values ---- */

/* Returns the slot of a value, or the empty slot where it belongs. */
static uint64_t *seen_slot(uint64_t *slots, uint32_t capacity, uint64_t hash) {
    uint64_t at = hash & (capacity - 1);
    while (slots[at] != 0 && slots[at] << (64 - SEEN_HASH_BITS) != hash << (64 - SEEN_HASH_BITS)) {
        at = (at + 1) & (capacity - 1);
    }
    return &slots[at];
}

static rs_status grow_seen(rs_dictionaries *self, rs_error *err) {
    const uint32_t capacity = self->seen_capacity == 0 ? 1024 : self->seen_capacity * 2;
    uint64_t *slots = (uint64_t *)calloc(capacity, sizeof *slots);
    if (slots == NULL) return rs_no_memory(err);
    for (uint32_t i = 0; i < self->seen_capacity; i++) {
        if (self->seen[i] != 0) *seen_slot(slots, capacity, self->seen[i]) = self->seen[i];
    }
    free(self->seen);
    self->seen = slots;
    self->seen_capacity = capacity;
    return RS_OK;
}

rs_status rs_dictionaries_remember_large(rs_dictionaries *self, uint64_t position_id, const rs_values *values,
                                         uint64_t *bytes, rs_error *err) {
    const uint64_t run = (uint64_t)(self->run + 1) << SEEN_HASH_BITS;
    *bytes = 0;
    for (uint32_t i = 0; i < values->n; i++) {
        uint64_t hash = rs_value_set_hash_with(rs_value_set_hash(rs_values_at(values, i)), position_id);
        if (self->n_seen >= self->seen_capacity / 2 && self->n_seen < MAX_SEEN) RS_TRY(grow_seen(self, err));
        uint64_t *slot = seen_slot(self->seen, self->seen_capacity, hash);
        if (*slot == 0 && self->n_seen < MAX_SEEN) {
            *slot = run | (hash & ((UINT64_C(1) << SEEN_HASH_BITS) - 1));
            self->n_seen++;
        } else if (*slot != 0 && *slot >> SEEN_HASH_BITS != run >> SEEN_HASH_BITS) {
            *bytes += values->spans[i].size_bytes;
        }
    }
    if (*bytes > KEPT_BYTES || self->kept_bytes > KEPT_BYTES - *bytes) *bytes = 0;
    return RS_OK;
}

/* Returns the newest dictionary of the position, or NULL. */
static rs_dictionary *newest(const rs_dictionaries *self, uint64_t position_id) {
    for (rs_dictionary *d = self->first; d != NULL; d = d->next) {
        if (d->position_id == position_id) return d;
    }
    return NULL;
}

static bool has_room(const rs_dictionaries *self, const rs_dictionary *d, uint32_t more) {
    if (more == 0) return true;
    return d->n_tables < RS_FMT_DICT_CODED_TABLES && more <= MAX_ENTRIES - d->entries.n &&
           self->kept_bytes <= KEPT_BYTES;
}

rs_dictionary *rs_dictionaries_find(const rs_dictionaries *self, uint64_t position_id, uint32_t more) {
    rs_dictionary *d = newest(self, position_id);
    return d != NULL && has_room(self, d, more) ? d : NULL;
}

static rs_status add_entry(rs_dictionary *d, rs_slice value, rs_error *err) {
    rs_span span;
    if (d->bytes.size_bytes > UINT32_MAX - rs_slice_left(&value)) return rs_no_memory(err);
    span.off = (uint32_t)d->bytes.size_bytes;
    span.size_bytes = (uint32_t)rs_slice_left(&value);
    RS_TRY(rs_buffer_append(&d->bytes, value.ptr, rs_slice_left(&value), err));
    return rs_value_set_add(&d->entries, span, rs_value_set_hash(value), err);
}

static rs_status add_table(rs_dictionaries *self, const rs_block *block, unsigned kind, uint32_t *number,
                           rs_error *err) {
    uint8_t entry[RS_FMT_BLOCK_SIZE];
    rs_block_write(block, entry);
    rs_store_u64(entry + RS_FMT_B_TABLE_KIND, kind);
    *number = rs_dictionaries_n_tables(self);
    return rs_buffer_append(&self->tables, entry, sizeof entry, err);
}

/* Lists the spans of the values that are not in `d` (NULL: an empty dictionary) and returns their number. */
static uint32_t list_new(const rs_dictionary *d, const rs_values *values, rs_span *spans) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < values->n; i++) {
        if (d == NULL || rs_dictionary_find(d, rs_values_at(values, i)) == UINT32_MAX) spans[n++] = values->spans[i];
    }
    return n;
}

static rs_dictionary *add_dictionary(rs_dictionaries *self, uint64_t position_id) {
    rs_dictionary *d = (rs_dictionary *)calloc(1, sizeof *d);
    if (d == NULL) return NULL;
    d->position_id = position_id;
    d->made = d->used = self->run;
    d->next = self->first;
    self->first = d;
    retire_dictionaries(self, position_id);
    return d;
}

/* Writes the values `added` as one more table of `d`. */
static rs_status append_table(rs_dictionaries *self, rs_dictionary *d, const rs_values *added, unsigned table_depth,
                              rs_error *err) {
    rs_block block;
    uint32_t number = 0;
    RS_TRY(self->write_values(self->owner, added, d->position_id, table_depth, &block, err));
    RS_TRY(add_table(self, &block, RS_FMT_TABLE_VALUES, &number, err));
    for (uint32_t i = 0; i < added->n; i++) {
        RS_TRY(add_entry(d, rs_values_at(added, i), err));
        self->kept_bytes += added->spans[i].size_bytes;
    }
    rs_buffer_fit(&d->bytes); /* a store may have hundreds of dictionaries, and most get few more entries */
    d->tables[d->n_tables++] = number;
    return RS_OK;
}

/* Returns the number of elements of a list or tuple of ints, NARROW for a str with units of 1 byte; 0 for other values,
 * and for more than LENGTHS elements. */
static unsigned class_of(rs_slice value) {
    uint64_t n;
    if (*value.ptr == RS_FMT_TAG_STR1) return NARROW;
    if (*value.ptr != RS_FMT_TAG_LIST && *value.ptr != RS_FMT_TAG_TUPLE) return 0;
    value.ptr++;
    if (!rs_take_varint(&value, &n) || n > LENGTHS) return 0;
    for (uint64_t i = 0; i < n; i++) {
        if (value.ptr == value.end || !rs_tag_is_int64(*value.ptr)) return 0;
        value.ptr += rs_any_int_size(*value.ptr);
    }
    return (unsigned)n;
}

/* Writes values as new tables of `d`. In an empty dictionary, lists of ints get a table for each frequent length: its
 * rows have one size, so they need neither counts nor offsets. Strings of 1 byte a unit need no union apart. */
static rs_status append_tables(rs_dictionaries *self, rs_dictionary *d, const rs_values *added, unsigned table_depth,
                               rs_error *err) {
    uint32_t n_of[NARROW + 1] = {0}; /* values of each class */
    rs_values part = *added;
    rs_status status = RS_OK;
    bool divided = false;
    if (d->n_tables > 0 || added->n < LENGTH_ENTRIES) return append_table(self, d, added, table_depth, err);
    for (uint32_t i = 0; i < added->n; i++) n_of[class_of(rs_values_at(added, i))]++;
    for (uint32_t c = 1; c <= NARROW; c++) {
        if (n_of[c] >= LENGTH_ENTRIES && n_of[c] < added->n) divided = true;
        else n_of[c] = 0;
    }
    if (!divided) return append_table(self, d, added, table_depth, err);
    rs_span *spans = (rs_span *)malloc(added->n * sizeof *spans);
    if (spans == NULL) return rs_no_memory(err);
    part.spans = spans;
    n_of[0] = 1; /* the others come last */
    for (uint32_t c = NARROW + 1; c-- > 0 && status == RS_OK;) {
        if (n_of[c] == 0) continue;
        part.n = 0;
        for (uint32_t i = 0; i < added->n; i++) {
            unsigned own = class_of(rs_values_at(added, i));
            if ((n_of[own] == 0 ? 0 : own) == c) spans[part.n++] = added->spans[i];
        }
        if (part.n > 0) status = append_table(self, d, &part, table_depth, err);
    }
    free(spans);
    return status;
}

rs_status rs_dictionaries_extend(rs_dictionaries *self, uint64_t position_id, bool fresh, const rs_values *values,
                                 unsigned table_depth, rs_dictionary **out, rs_error *err) {
    rs_dictionary *d = newest(self, position_id);
    rs_values added = *values;
    rs_span *spans = (rs_span *)malloc((values->n + (size_t)1) * sizeof *spans);
    rs_status status = RS_OK;
    if (spans == NULL) return rs_no_memory(err);
    if (fresh && d != NULL && d->made != self->run) d = NULL;
    added.spans = spans;
    added.n = list_new(d, values, spans);
    if (d == NULL || !has_room(self, d, added.n) || (fresh && added.n > values->n / 2)) {
        d = add_dictionary(self, position_id);
        if (d == NULL) status = rs_no_memory(err);
        else added.n = list_new(d, values, spans);
    }
    if (status == RS_OK) {
        d->used = self->run;
        *out = d;
        if (added.n > 0) status = append_tables(self, d, &added, table_depth, err);
    }
    free(spans);
    return status;
}

/* ---- Symbol tables ---- */

/* Codes a sample of the strings. */
static rs_status try_symbols(const rs_symbols_encoder *encoder, const rs_symbol_string *strings, size_t n,
                             rs_symbols_trial *out, rs_error *err) {
    rs_buffer scratch = {0};
    rs_status status = RS_OK;
    out->units = out->coded = 0;
    for (size_t i = 0; i < n && status == RS_OK; i += SAMPLE_STEP) {
        scratch.size_bytes = 0;
        status = rs_symbols_encode(encoder, strings[i].units, strings[i].n_units, &scratch, err);
        out->units += strings[i].n_units;
        out->coded += scratch.size_bytes;
    }
    rs_buffer_clear(&scratch);
    return status;
}

/* Extrapolates a trial to `total` units. */
static uint64_t coded_at(rs_symbols_trial tried, uint64_t total) {
    return tried.units == 0 ? 0 : (uint64_t)((double)tried.coded / (double)tried.units * (double)total);
}

static rs_symbol_table *newest_symbols(const rs_dictionaries *self, uint64_t position_id, unsigned unit_bytes) {
    for (rs_symbol_table *t = self->symbols; t != NULL; t = t->next) {
        if (t->position_id == position_id && t->unit_bytes == unit_bytes) return t;
    }
    return NULL;
}

/* Writes a symbol table and keeps it. Takes ownership of the encoder, also on failure. */
static rs_status keep_symbols(rs_dictionaries *self, uint64_t position_id, unsigned unit_bytes, const rs_buffer *bytes,
                              rs_symbols_encoder *encoder, rs_symbol_table **out, rs_error *err) {
    rs_symbol_table *t = (rs_symbol_table *)calloc(1, sizeof *t);
    rs_block block;
    rs_status status = t == NULL ? rs_no_memory(err) : self->write_bytes(self->owner, bytes, &block, err);
    if (status == RS_OK) status = add_table(self, &block, RS_FMT_TABLE_SYMBOLS, &t->number, err);
    if (status != RS_OK) {
        rs_symbols_encoder_close(encoder);
        free(t);
        return status;
    }
    t->position_id = position_id;
    t->unit_bytes = unit_bytes;
    t->size_bytes = bytes->size_bytes + RS_FMT_BLOCK_SIZE;
    t->encoder = encoder;
    t->used = self->run;
    t->next = self->symbols;
    self->symbols = t;
    retire_symbols(self, position_id, unit_bytes);
    *out = t;
    return RS_OK;
}

bool rs_dictionaries_use_small_codes(const rs_choices *choices, uint64_t units) {
    return choices->level == RS_LEVEL_SMALL || (choices->level == RS_LEVEL_AUTO && units <= LITTLE_UNITS);
}

/* Makes a table, with an encoder if the table and the codes of the strings, of `total` units, take fewer than `worth`
 * bytes. The size is estimated from the same sample of strings as later trials of the table, because training knows
 * only how well the table fits its own sample. */
static rs_status make_symbols(rs_symbols_search *self, bool small, uint64_t total, uint64_t worth) {
    const rs_trained *trained = self->trained;
    uint64_t coded = trained == NULL ? 0 : trained->coded;
    rs_status status;
    if (trained == NULL) {
        status = rs_symbols_train(self->strings, self->n, self->unit_bytes, small, &self->bytes, &coded, NULL);
    } else {
        status = rs_buffer_append(&self->bytes, trained->bytes.ptr, rs_slice_left(&trained->bytes), NULL);
    }
    if (status == RS_E_ARG_LIMIT || (status == RS_OK && self->bytes.size_bytes == 0)) return RS_OK;
    RS_TRY(status);
    const uint64_t size = self->bytes.size_bytes + RS_FMT_BLOCK_SIZE;
    const rs_slice bytes = rs_slice_of(self->bytes.data, self->bytes.size_bytes);
    if (coded + size >= worth) return RS_OK;
    RS_TRY(rs_symbols_encoder_open(bytes, small, &self->encoder, NULL));
    RS_TRY(try_symbols(self->encoder, self->strings, self->n, &self->made, NULL));
    if (coded_at(self->made, total) + size < worth) return RS_OK;
    rs_symbols_encoder_close(self->encoder);
    self->encoder = NULL;
    return RS_OK;
}

/* Returns whether to reuse an old table without trying a new one: it codes nearly as well as before, or the bytes lost
 * since then are at most the size of a new table. */
static bool still_good(const rs_symbol_table *old, rs_symbols_trial now, uint64_t total) {
    const rs_symbols_trial then = {old->units, old->coded};
    uint64_t coded = coded_at(now, total), before = coded_at(then, total);
    return coded <= before || coded - before <= before / DRIFT_PART || coded - before <= old->size_bytes;
}

/* Strings with units of 4 bytes come as UTF-16. */
static unsigned table_unit_bytes(const rs_symbols_search *s) { return s->unit_bytes == 1 ? 1 : 2; }

static rs_status search(const rs_dictionaries *self, rs_symbols_search *s) {
    uint64_t total = 0;
    for (size_t i = 0; i < s->n; i++) total += s->strings[i].n_units;
    uint64_t worth = total * s->unit_bytes;
    s->old = newest_symbols(self, s->position_id, table_unit_bytes(s));
    if (s->old != NULL) RS_TRY(try_symbols(s->old->encoder, s->strings, s->n, &s->now, NULL));
    s->uses_old = s->now.units > 0 && coded_at(s->now, total) < worth;
    if (s->uses_old) worth = coded_at(s->now, total);
    s->tries = total >= MIN_UNITS &&
               (s->now.units == 0 || self->choices->level == RS_LEVEL_SMALL || !still_good(s->old, s->now, total));
    return s->tries ? make_symbols(s, rs_dictionaries_use_small_codes(self->choices, total), total, worth) : RS_OK;
}

void rs_dictionaries_search(const rs_dictionaries *self, rs_symbols_search *s) { s->status = search(self, s); }

void rs_symbols_search_clear(rs_symbols_search *s) {
    rs_symbols_encoder_close(s->encoder);
    rs_buffer_clear(&s->bytes);
    memset(s, 0, sizeof *s);
}

bool rs_dictionaries_is_stale(const rs_dictionaries *self, const rs_symbols_search *s) {
    return newest_symbols(self, s->position_id, table_unit_bytes(s)) != s->old;
}

rs_status rs_dictionaries_keep(rs_dictionaries *self, rs_symbols_search *s, rs_symbol_table **out, rs_error *err) {
    rs_symbols_encoder *encoder = s->encoder;
    *out = NULL;
    if (s->status != RS_OK) return rs_no_memory(err);
    if (encoder != NULL) {
        s->encoder = NULL;
        RS_TRY(keep_symbols(self, s->position_id, table_unit_bytes(s), &s->bytes, encoder, out, err));
        (*out)->units = s->made.units;
        (*out)->coded = s->made.coded;
    } else if (s->uses_old) {
        *out = s->old;
        if (s->tries) { /* no table is better, so later runs need not try again */
            s->old->units = s->now.units;
            s->old->coded = s->now.coded;
        }
    }
    if (*out != NULL) (*out)->used = self->run;
    return RS_OK;
}

/* ---- Tables that several positions share ---- */

/* Sums over the groups that join: units, bytes of their codes, bytes saved. */
typedef struct weight {
    uint64_t units, coded, saved;
} weight;

/* Codes the strings of all groups and decides which groups join. */
static rs_status weigh_groups(const rs_symbols_encoder *encoder, rs_symbol_group *groups, uint32_t n,
                              unsigned unit_bytes, weight *out, rs_error *err) {
    rs_buffer scratch = {0};
    rs_status status = RS_OK;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < n && status == RS_OK; i++) {
        uint64_t units = 0;
        scratch.size_bytes = 0;
        for (size_t k = 0; k < groups[i].n && status == RS_OK; k++) {
            const rs_symbol_string *s = &groups[i].strings[k];
            units += s->n_units;
            status = rs_symbols_encode(encoder, s->units, s->n_units, &scratch, err);
        }
        uint64_t plain = units * unit_bytes;
        /* Plain strings are read faster, so a group must save over a quarter. */
        groups[i].joins = scratch.size_bytes < plain - plain / 4;
        if (!groups[i].joins) continue;
        out->units += units;
        out->coded += scratch.size_bytes;
        out->saved += plain - scratch.size_bytes;
    }
    rs_buffer_clear(&scratch);
    return status;
}

/* Makes a table for the groups and keeps it when it saves more than `least` bytes plus its own size. Else *out is
 * unchanged. */
static rs_status make_shared(rs_dictionaries *self, uint64_t position_id, rs_symbol_group *groups, uint32_t n,
                             unsigned unit_bytes, uint64_t least, rs_buffer *bytes, rs_symbol_table **out,
                             rs_error *err) {
    rs_symbols_encoder *encoder;
    uint64_t coded, units = 0;
    weight sums;
    size_t n_strings = (size_t)(groups[n - 1].strings - groups[0].strings) + groups[n - 1].n;
    for (size_t i = 0; i < n_strings; i++) units += groups[0].strings[i].n_units;
    if (units < MIN_UNITS) return RS_OK;
    bool small = rs_dictionaries_use_small_codes(self->choices, units);
    rs_status status = rs_symbols_train(groups[0].strings, n_strings, unit_bytes, small, bytes, &coded, err);
    if (status == RS_E_ARG_LIMIT) return RS_OK;
    RS_TRY(status);
    RS_TRY(rs_symbols_encoder_open(rs_slice_of(bytes->data, bytes->size_bytes), small, &encoder, err));
    status = weigh_groups(encoder, groups, n, unit_bytes, &sums, err);
    if (status != RS_OK || sums.saved <= least + bytes->size_bytes + RS_FMT_BLOCK_SIZE) {
        rs_symbols_encoder_close(encoder);
        return status;
    }
    RS_TRY(keep_symbols(self, position_id, unit_bytes, bytes, encoder, out, err));
    (*out)->units = sums.units;
    (*out)->coded = sums.coded;
    return RS_OK;
}

rs_status rs_dictionaries_share(rs_dictionaries *self, uint64_t position_id, rs_symbol_group *groups, uint32_t n,
                                unsigned unit_bytes, uint64_t least, rs_symbol_table **out, rs_error *err) {
    rs_symbol_table *old = newest_symbols(self, position_id, unit_bytes), *made = NULL;
    rs_buffer bytes = {0};
    weight sums = {0, 0, 0};
    *out = NULL;
    if ((rs_attempts_known(&self->attempts, position_id, self->run) & RS_POSITION_NO_SHARED_TABLE) != 0) return RS_OK;
    if (old != NULL) {
        RS_TRY(weigh_groups(old->encoder, groups, n, unit_bytes, &sums, err));
        if (sums.saved > least) *out = old;
    }
    /* An old table that still codes well is kept, as in rs_dictionaries_search. */
    if (*out == NULL || (double)sums.coded / (double)sums.units > 1.05 * (double)old->coded / (double)old->units) {
        if (*out != NULL) least = sums.saved;
        rs_status status = make_shared(self, position_id, groups, n, unit_bytes, least, &bytes, &made, err);
        rs_buffer_clear(&bytes);
        RS_TRY(status);
        if (made != NULL) *out = made;
        else if (*out != NULL) RS_TRY(weigh_groups(old->encoder, groups, n, unit_bytes, &sums, err));
    }
    if (*out == NULL) {
        rs_attempts_add(&self->attempts, position_id, RS_POSITION_NO_SHARED_TABLE);
        return RS_OK;
    }
    (*out)->used = self->run;
    rs_attempts_drop(&self->attempts, position_id, RS_POSITION_NO_SHARED_TABLE);
    return RS_OK;
}
