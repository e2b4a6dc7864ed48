/* rs_packer.c: dictionaries that grow, symbol tables that are used again. */
#include "rs_packer.h"

#include <stdlib.h>

enum {
    MAX_ENTRIES = 1 << 20,            /* of one dictionary: its numbers take a bit less than plain ones would */
    KEPT_BYTES = 24 * 1024 * 1024,    /* of all dictionaries: beyond, new ones begin */
    SAMPLE_STEP = 16,                 /* every so many strings are tried with an old table */
    MIN_UNITS = 1024                  /* fewer are not worth a table */
};

static void close_dictionary(rs_dictionary *d) {
    rs_buffer_clear(&d->bytes);
    rs_value_set_clear(&d->entries);
    free(d);
}

void rs_packer_clear(rs_packer *self) {
    while (self->dictionaries != NULL) {
        rs_dictionary *next = self->dictionaries->next;
        close_dictionary(self->dictionaries);
        self->dictionaries = next;
    }
    while (self->symbols != NULL) {
        rs_symbol_table *next = self->symbols->next;
        rs_symbols_encoder_close(self->symbols->encoder);
        free(self->symbols);
        self->symbols = next;
    }
    rs_buffer_clear(&self->tables);
}

static rs_status no_memory(rs_error *err) {
    return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory for tables");
}

/* What only trees before the last block's name is of no more use to a writer: its memory goes. */
static void retire_dictionaries(rs_packer *self, uint64_t path) {
    rs_dictionary *d;
    unsigned newer = 0;
    for (d = self->dictionaries; d != NULL; d = d->next) {
        if (d->path != path || newer++ < 2) continue;
        self->kept_bytes -= d->bytes.size_bytes;
        rs_buffer_clear(&d->bytes);
        rs_value_set_clear(&d->entries);
    }
}

static void retire_symbols(rs_packer *self, uint64_t path, unsigned unit_bytes) {
    rs_symbol_table *t;
    unsigned newer = 0;
    for (t = self->symbols; t != NULL; t = t->next) {
        if (t->path != path || t->unit_bytes != unit_bytes || newer++ < 2) continue;
        rs_symbols_encoder_close(t->encoder);
        t->encoder = NULL;
    }
}

/* The newest one of the path. */
static rs_dictionary *newest(const rs_packer *self, uint64_t path) {
    rs_dictionary *d;
    for (d = self->dictionaries; d != NULL; d = d->next) {
        if (d->path == path) return d;
    }
    return NULL;
}

rs_dictionary *rs_packer_find(const rs_packer *self, uint64_t path, uint32_t more) {
    rs_dictionary *d = newest(self, path);
    bool full = d != NULL && (d->n_tables == RS_FMT_DICT_TABLES || more > MAX_ENTRIES - d->entries.n ||
                              self->kept_bytes > KEPT_BYTES);
    return full && more > 0 ? NULL : d;
}

uint32_t rs_dictionary_find(const rs_dictionary *self, rs_slice value) {
    return rs_value_set_find(&self->entries, self->bytes.data, value, rs_value_set_hash(value));
}

static rs_status add_entry(rs_dictionary *d, rs_slice value, rs_error *err) {
    rs_span span;
    if (d->bytes.size_bytes > UINT32_MAX - rs_slice_left(&value)) return no_memory(err);
    span.off = (uint32_t)d->bytes.size_bytes;
    span.size_bytes = (uint32_t)rs_slice_left(&value);
    RS_TRY(rs_buffer_append(&d->bytes, value.ptr, rs_slice_left(&value), err));
    return rs_value_set_add(&d->entries, span, rs_value_set_hash(value), err);
}

static rs_status add_table(rs_packer *self, const rs_block *block, unsigned kind, uint32_t *number, rs_error *err) {
    uint8_t entry[RS_FMT_BLOCK_SIZE];
    rs_block_write(block, entry);
    rs_store_u64(entry + RS_FMT_B_TABLE_KIND, kind);
    *number = rs_packer_n_tables(self);
    return rs_buffer_append(&self->tables, entry, sizeof entry, err);
}

rs_status rs_packer_extend(rs_packer *self, uint64_t path, bool fresh, const rs_values *values, unsigned hops,
                           rs_dictionary **out, rs_error *err) {
    rs_dictionary *d = fresh ? NULL : newest(self, path);
    rs_values added = *values;
    rs_block block;
    uint32_t i, number = 0;
    rs_span *spans;
    rs_status status;
    if (d == NULL) {
        d = (rs_dictionary *)calloc(1, sizeof *d);
        if (d == NULL) return no_memory(err);
        d->path = path;
        d->next = self->dictionaries;
        self->dictionaries = d;
        retire_dictionaries(self, path);
    }
    *out = d;
    spans = (rs_span *)malloc((values->n + 1) * sizeof *spans);
    if (spans == NULL) return no_memory(err);
    added.spans = spans;
    added.n = 0;
    for (i = 0; i < values->n; i++) {
        rs_slice value = rs_values_at(values, i);
        if (rs_dictionary_find(d, value) == UINT32_MAX) spans[added.n++] = values->spans[i];
    }
    status = added.n == 0 ? RS_OK : self->write_values(self->owner, &added, hops, &block, err);
    if (status == RS_OK && added.n > 0) status = add_table(self, &block, RS_FMT_TABLE_VALUES, &number, err);
    for (i = 0; status == RS_OK && i < added.n; i++) status = add_entry(d, rs_values_at(&added, i), err);
    if (status == RS_OK && added.n > 0) d->tables[d->n_tables++] = number;
    for (i = 0; i < added.n; i++) self->kept_bytes += added.spans[i].size_bytes;
    free(spans);
    return status;
}

/* ---- Symbol tables ---- */

static rs_status encode_sample(const rs_symbols_encoder *encoder, const rs_symbol_string *strings, size_t n,
                               rs_buffer *scratch, uint64_t *units, uint64_t *coded, rs_error *err) {
    size_t i;
    *units = 0;
    scratch->size_bytes = 0;
    for (i = 0; i < n; i += SAMPLE_STEP) {
        *units += strings[i].n_units;
        RS_TRY(rs_symbols_encode(encoder, strings[i].units, strings[i].n_units, scratch, err));
    }
    *coded = scratch->size_bytes;
    return RS_OK;
}

static rs_symbol_table *newest_symbols(const rs_packer *self, uint64_t path, unsigned unit_bytes) {
    rs_symbol_table *t;
    for (t = self->symbols; t != NULL; t = t->next) {
        if (t->path == path && t->unit_bytes == unit_bytes) return t;
    }
    return NULL;
}

/* Makes a table and, where it takes less than `worth` bytes with the strings' codes, keeps it. */
static rs_status make_symbols(rs_packer *self, uint64_t path, const rs_symbol_string *strings, size_t n,
                              unsigned unit_bytes, uint64_t worth, rs_buffer *bytes, rs_symbol_table **out,
                              rs_error *err) {
    rs_symbol_table *t;
    rs_block block;
    uint64_t coded;
    rs_status status = rs_symbols_train(strings, n, unit_bytes, bytes, &coded, err);
    if (status == RS_E_ARG_LIMIT) return RS_OK;
    RS_TRY(status);
    if (coded + bytes->size_bytes + RS_FMT_BLOCK_SIZE >= worth) return RS_OK;
    t = (rs_symbol_table *)calloc(1, sizeof *t);
    if (t == NULL) return no_memory(err);
    t->path = path;
    t->unit_bytes = unit_bytes;
    status = rs_symbols_encoder_open(rs_slice_of(bytes->data, bytes->size_bytes), &t->encoder, err);
    if (status == RS_OK) status = self->write_bytes(self->owner, bytes, &block, err);
    if (status == RS_OK) status = add_table(self, &block, RS_FMT_TABLE_SYMBOLS, &t->number, err);
    if (status != RS_OK) {
        rs_symbols_encoder_close(t->encoder);
        free(t);
        return status;
    }
    t->coded = coded;
    t->next = self->symbols;
    self->symbols = t;
    retire_symbols(self, path, unit_bytes);
    *out = t;
    return RS_OK;
}

rs_status rs_packer_symbols(rs_packer *self, uint64_t path, const rs_symbol_string *strings, size_t n,
                            unsigned unit_bytes, rs_symbol_table **out, rs_error *err) {
    rs_symbol_table *old = newest_symbols(self, path, unit_bytes), *made = NULL;
    uint64_t total = 0, units = 0, coded = 0, worth;
    rs_buffer scratch = {NULL, 0, 0};
    rs_status status = RS_OK;
    size_t i;
    *out = NULL;
    for (i = 0; i < n; i++) total += strings[i].n_units;
    worth = total * unit_bytes;
    if (old != NULL) {
        status = encode_sample(old->encoder, strings, n, &scratch, &units, &coded, err);
        if (status == RS_OK && units > 0) {
            uint64_t whole = (uint64_t)((double)coded / (double)units * (double)total);
            if (whole < worth) {
                worth = whole;
                *out = old;
            }
            /* As good as ever: a new table would cost its bytes, and its making, for nothing. */
            if (old->units > 0 && (double)coded / (double)units <= 1.02 * (double)old->coded / (double)old->units) {
                total = 0;
            }
        }
        scratch.size_bytes = 0;
    }
    if (status == RS_OK && total >= MIN_UNITS) {
        status = make_symbols(self, path, strings, n, unit_bytes, worth, &scratch, &made, err);
        if (made != NULL) {
            made->units = total;
            *out = made;
        }
    }
    rs_buffer_clear(&scratch);
    return status;
}
