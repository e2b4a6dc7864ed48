/* rs_entries.h: caches the entries of value tables for column reads, gathers and Arrow export. Many records refer to
 * one entry, so each entry is read once: as a number, as UTF-8, or as another value. */
#pragma once

#include "read/rs_utf8.h"
#include "columns/rs_column.h"

enum {
    RS_ENTRY_NEW = 0, /* not read yet */
    RS_ENTRY_BOOL = RS_COLUMN_BOOL,
    RS_ENTRY_INT = RS_COLUMN_INT,
    RS_ENTRY_FLOAT = RS_COLUMN_FLOAT,
    RS_ENTRY_NONE = 8,
    RS_ENTRY_TEXT = 16,
    RS_ENTRY_OTHER = 32, /* another value, such as a container, which is not cached */
    RS_ENTRY_NUMBER = RS_ENTRY_BOOL | RS_ENTRY_INT | RS_ENTRY_FLOAT,

    RS_ENTRY_COPY = 16, /* the readable bytes from the start of every text, however short it is */

    RS_ENTRIES_NODES = 64 /* slots for bound nodes; a power of two */
};

/* A cached entry. */
typedef struct rs_entry {
    uint64_t bits;       /* of a number: its bits; of a text: its offset in rs_entries.text */
    uint32_t size_bytes; /* of a text */
    uint32_t kind;       /* an RS_ENTRY code */
} rs_entry;

/* The cached entries of one table, in its order. */
typedef struct rs_entries_of {
    const rs_table *table;
    rs_entry *entries;
} rs_entries_of;

/* The entries of the tables of one dict-coded node. */
typedef struct rs_entries_bound {
    const rs_node *node; /* NULL: none */
    rs_entry *of_table[RS_FMT_DICT_CODED_TABLES];
} rs_entries_bound;

/* The cache. Owns everything except tables and nodes. Zero the struct before the first use; call rs_entries_clear at
 * the end. One thread at a time may use it. */
typedef struct rs_entries {
    rs_entries_of *known;
    size_t n_known;
    rs_buffer text;
    rs_column number;        /* scratch, for reading one entry */
    rs_entries_bound *bound; /* RS_ENTRIES_NODES slots, by the hash of the node; NULL before any is bound */
} rs_entries;

/* Frees the memory and zeroes the struct. */
void rs_entries_clear(rs_entries *self);

/* As rs_entries_at, for an entry that is not cached yet or a node that is not bound. */
RS_NODISCARD rs_status rs_entries_read(rs_entries *self, const rs_cursor *cursor, const rs_node *node, uint64_t i,
                                       const rs_entry **out, rs_error *err);

/* Appends the text of an RS_ENTRY_TEXT entry. RS_E_MEM. */
RS_NODISCARD static inline rs_status rs_entries_append(const rs_entries *self, const rs_entry *entry, rs_buffer *out,
                                                       rs_error *err) {
    const uint8_t *from = self->text.data + entry->bits;
    RS_TRY(rs_buffer_reserve(out, (size_t)entry->size_bytes + RS_ENTRY_COPY, err));
    uint8_t *to = out->data + out->size_bytes;
    memcpy(to, from, RS_ENTRY_COPY); /* enough for most texts */
    if (entry->size_bytes > RS_ENTRY_COPY) memcpy(to, from, entry->size_bytes);
    out->size_bytes += entry->size_bytes;
    return RS_OK;
}

/* Returns the slot of a node in `bound`. There are many slots, as random reads alternate between trees with nodes of
 * their own. */
static inline size_t rs_entries_slot(const rs_node *node) {
    return (size_t)((uint64_t)(uintptr_t)node * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (RS_ENTRIES_NODES - 1);
}

/* Returns entry i of a linked dict-coded node, or NULL if it is not cached or does not exist. */
static inline const rs_entry *rs_entries_cached(const rs_entries *self, const rs_node *node, uint64_t i) {
    if (RS_UNLIKELY(self->bound == NULL)) return NULL;
    const rs_entries_bound *bound = &self->bound[rs_entries_slot(node)];
    if (RS_UNLIKELY(bound->node != node || i >= node->coded->count)) return NULL;
    uint32_t t = rs_dict_coded_table(node->coded, i);
    const rs_entry *out = bound->of_table[t] + (i - node->coded->at[t].first);
    return RS_LIKELY(out->kind != RS_ENTRY_NEW) ? out : NULL;
}

/* Sets *out to entry i of a linked dict-coded node, valid until rs_entries_clear. `cursor` is of a record and does
 * not change; its budget limits the read. Errors: rules 20 to 23 and 31 of FORMAT.md, RS_E_MEM. */
RS_NODISCARD static inline rs_status rs_entries_at(rs_entries *self, const rs_cursor *cursor, const rs_node *node,
                                                   uint64_t i, const rs_entry **out, rs_error *err) {
    *out = rs_entries_cached(self, node, i);
    if (RS_LIKELY(*out != NULL)) return RS_OK;
    return rs_entries_read(self, cursor, node, i, out, err);
}
