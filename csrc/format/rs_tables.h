/* rs_tables.h: the tables that trees of many blocks share (FORMAT.md, Tables): value tables, which have trees of their
 * own, and symbol tables. Finds the bytes of an entry by its number in a dict-coded node. */
#pragma once

#include "format/rs_offsets.h"
#include "format/rs_schema.h"
#include "format/rs_symbols.h"

/* A checked table. Borrows the segment. The store owns the table and its tree. */
typedef struct rs_table {
    const uint8_t *segment;
    rs_block block;      /* the location of the entries; first_record is not used */
    const rs_tree *tree; /* of a value table: the tree of its entries */
    rs_symbols symbols;  /* of a symbol table */
    unsigned kind;       /* RS_FMT_TABLE_VALUES or RS_FMT_TABLE_SYMBOLS; 0 until the table is read */
    void *slot;          /* for the reader, such as a cache; NULL at first */
} rs_table;

/* One table of a dict-coded node. */
typedef struct rs_coded_table {
    const rs_table *table;
    const uint8_t *rows;     /* its entries, if all have row_size_bytes bytes, else NULL */
    uint32_t row_size_bytes; /* copied, so that a read does not wait for the table */
    uint32_t first, end;     /* its entries have the numbers first to end - 1 among the node's entries */
} rs_coded_table;

/* The tables of one dict-coded node. The tree owns it. The fields that a read uses are adjacent, because a
 * large store has many of these structs, few of them in CPU caches. */
typedef struct rs_dict_coded {
    uint32_t n_tables;
    uint32_t count; /* the number of entries of all tables, equal to the count of the node */
    rs_coded_table at[];
} rs_dict_coded;

/* Reads table `number`, which is below the count of TABLES, and checks rule 29. The caller sets out->tree. */
RS_NODISCARD rs_status rs_table_read(rs_slice segment, const rs_directory *directory, uint32_t number, rs_table *out,
                                     rs_error *err);
/* The two steps of rs_table_read. The first reads only the element of TABLES, the second the heap of a symbol table. */
RS_NODISCARD rs_status rs_table_read_entry(rs_slice segment, const rs_directory *directory, uint32_t number,
                                           rs_table *out, rs_error *err);
RS_NODISCARD rs_status rs_table_open_symbols(rs_table *self, rs_error *err);

/* Returns the index in coded->at of the table with entry i, which is below coded->count. */
static inline uint32_t rs_dict_coded_table(const rs_dict_coded *coded, uint64_t i) {
    uint32_t t = 0;
    while (i >= coded->at[t].end) t++;
    return t;
}

/* Sets *table to the table of entry i of a linked dict-coded node, and *out to the bytes of the entry. Both borrow from
 * the store. Errors: rule 31. Any thread. */
RS_NODISCARD RS_INLINE rs_status rs_dict_coded_find(const rs_node *node, uint64_t i, const rs_table **table,
                                                    rs_slice *out, rs_error *err) {
    const rs_coded_table *at = node->coded->at;
    if (RS_UNLIKELY(i >= node->coded->count)) {
        (void)rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a dict-coded number has no entry");
        return RS_E_FMT_VALUE; /* a literal shows the compiler that this is never RS_OK */
    }
    while (i >= at->end) at++;
    *table = at->table;
    if (at->rows != NULL) {
        out->ptr = at->rows + (i - at->first) * at->row_size_bytes;
        out->end = out->ptr + at->row_size_bytes;
        return RS_OK;
    }
    return rs_offsets_locate(at->table->segment, &at->table->block, (uint32_t)i - at->first, out, err);
}
