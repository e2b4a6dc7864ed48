/* rs_entries.c: reads the entries of tables into the cache. */
#include "columns/rs_entries.h"

#include <stdlib.h>

void rs_entries_clear(rs_entries *self) {
    for (size_t i = 0; i < self->n_known; i++) free(self->known[i].entries);
    free(self->known);
    free(self->bound);
    rs_buffer_clear(&self->text);
    rs_column_clear(&self->number);
    memset(self, 0, sizeof *self);
}

/* Finds or makes the cache of a table. A linear search is enough: tables are few, and calls are rare. */
static rs_status find_table(rs_entries *self, const rs_table *table, rs_entry **out, rs_error *err) {
    for (size_t i = 0; i < self->n_known; i++) {
        if (self->known[i].table == table) {
            *out = self->known[i].entries;
            return RS_OK;
        }
    }
    rs_entries_of *grown = (rs_entries_of *)realloc(self->known, (self->n_known + 1) * sizeof *grown);
    if (grown == NULL) return rs_no_memory(err);
    self->known = grown;
    /* calloc gives zeroed pages that take no memory until an entry on them is read. */
    *out = (rs_entry *)calloc((size_t)table->block.n_records + 1, sizeof **out);
    if (*out == NULL) return rs_no_memory(err);
    grown[self->n_known].table = table;
    grown[self->n_known].entries = *out;
    self->n_known++;
    return RS_OK;
}

static rs_status read_text(rs_entries *self, rs_cursor *cursor, const rs_place *place, rs_entry *entry, rs_error *err) {
    const size_t before = self->text.size_bytes;
    bool taken;
    RS_TRY(rs_utf8_take(&self->text, cursor, place, &taken, err));
    if (taken && self->text.size_bytes - before > UINT32_MAX) {
        self->text.size_bytes = before;
        taken = false;
    }
    if (taken) RS_TRY(rs_buffer_reserve(&self->text, RS_ENTRY_COPY, err));
    entry->bits = before;
    entry->size_bytes = (uint32_t)(self->text.size_bytes - before);
    entry->kind = taken ? RS_ENTRY_TEXT : RS_ENTRY_OTHER;
    return RS_OK;
}

static rs_status read_entry(rs_entries *self, rs_cursor cursor, const rs_node *node, uint64_t i, rs_entry *entry,
                            rs_error *err) {
    rs_place place;
    bool taken;
    place.node = node, place.body = NULL, place.bits = i;
    RS_TRY(rs_path_settle(&cursor, &place, err));
    if (rs_path_is_none(&cursor, &place)) {
        entry->kind = RS_ENTRY_NONE;
        return RS_OK;
    }
    rs_cursor again = cursor;
    rs_column_empty(&self->number);
    RS_TRY(rs_column_take_number(&self->number, &cursor, &place, &taken, err));
    if (!taken) return read_text(self, &again, &place, entry, err);
    const uint8_t *data = self->number.values.data;
    entry->bits = self->number.seen == RS_COLUMN_BOOL ? *data : rs_load_u64(data);
    entry->kind = self->number.seen;
    return RS_OK;
}

rs_status rs_entries_read(rs_entries *self, const rs_cursor *cursor, const rs_node *node, uint64_t i,
                          const rs_entry **out, rs_error *err) {
    const rs_dict_coded *coded = node->coded;
    if (i >= coded->count) return rs_decode_bad_value(err, "a dict-coded number has no entry");
    if (self->bound == NULL) {
        self->bound = (rs_entries_bound *)calloc(RS_ENTRIES_NODES, sizeof *self->bound);
        if (self->bound == NULL) return rs_no_memory(err);
    }
    rs_entries_bound *bound = &self->bound[rs_entries_slot(node)];
    if (bound->node != node) {
        bound->node = NULL;
        for (uint32_t t = 0; t < coded->n_tables; t++)
            RS_TRY(find_table(self, coded->at[t].table, &bound->of_table[t], err));
        bound->node = node;
    }
    uint32_t t = rs_dict_coded_table(coded, i);
    *out = bound->of_table[t] + (i - coded->at[t].first);
    if ((*out)->kind != RS_ENTRY_NEW) return RS_OK;
    return read_entry(self, *cursor, node, i, bound->of_table[t] + (i - coded->at[t].first), err);
}
