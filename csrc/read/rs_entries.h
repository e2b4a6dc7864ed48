/* rs_entries.h: what the entries of dict-coded nodes are to a column. Many records share an entry, so each that a
 * pass comes to is read once: as a number, as UTF-8, or as neither. */
#ifndef RS_ENTRIES_H
#define RS_ENTRIES_H

#include "read/rs_column.h"
#include "read/rs_utf8.h"

enum {
    RS_ENTRY_NEW = 0,   /* not read yet */
    RS_ENTRY_BOOL = RS_COLUMN_BOOL,
    RS_ENTRY_INT = RS_COLUMN_INT,
    RS_ENTRY_FLOAT = RS_COLUMN_FLOAT,
    RS_ENTRY_NONE = 8,
    RS_ENTRY_TEXT = 16,
    RS_ENTRY_OTHER = 32, /* a container, say: whoever needs it reads it */
    RS_ENTRY_NUMBER = RS_ENTRY_BOOL | RS_ENTRY_INT | RS_ENTRY_FLOAT,

    RS_ENTRY_COPY = 16   /* bytes of a text that may be read, however short it is */
};

typedef struct rs_entry {
    uint64_t bits; /* a number's; a text's offset in rs_entries.text */
    uint32_t size_bytes; /* of a text */
    uint32_t kind;
} rs_entry;

/* The entries of one table, in its order. */
typedef struct rs_entries_of {
    const rs_table *table;
    rs_entry *entries;
} rs_entries_of;

/* Owns all but tables and nodes. Zero it to begin, rs_entries_clear at the end. One thread at a time. */
typedef struct rs_entries {
    rs_entries_of *known;
    size_t n_known;
    rs_buffer text;
    rs_column number; /* of the entry at hand */
    const rs_node *node; /* the dict-coded node last asked about, and the entries of its tables */
    rs_entry *of_node[RS_FMT_DICT_CODED_TABLES];
} rs_entries;

void rs_entries_clear(rs_entries *self);

/* The failing and first-time path of rs_entries_at. */
RS_NODISCARD rs_status rs_entries_read(rs_entries *self, const rs_cursor *cursor, const rs_node *node, uint64_t i,
                                       const rs_entry **out, rs_error *err);

/* Entry i of a linked dict-coded node; *out stays until rs_entries_clear. `cursor` is that of a record: it lends
 * its budget and is not moved. Errors: rules 20 to 23 and 31 of FORMAT.md, memory. */
RS_NODISCARD static inline rs_status rs_entries_at(rs_entries *self, const rs_cursor *cursor, const rs_node *node,
                                                   uint64_t i, const rs_entry **out, rs_error *err) {
    if (RS_LIKELY(node == self->node && i < node->coded->count)) {
        uint32_t t = 0;
        while (i >= node->coded->first[t + 1]) t++;
        *out = self->of_node[t] + (i - node->coded->first[t]);
        if (RS_LIKELY((*out)->kind != RS_ENTRY_NEW)) return RS_OK;
    }
    return rs_entries_read(self, cursor, node, i, out, err);
}

#endif
