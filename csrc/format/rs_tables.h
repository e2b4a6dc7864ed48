/* rs_tables.h: the tables that trees of many blocks share (FORMAT.md, Tables): value tables, which have trees of their
 * own, and symbol tables. It finds the bytes of an entry by the number in a dict-coded node. */
#ifndef RS_TABLES_H
#define RS_TABLES_H

#include "format/rs_offsets.h"
#include "format/rs_schema.h"
#include "format/rs_symbols.h"

/* A table that was checked. Borrows the segment. The store owns it and its tree. */
typedef struct rs_table {
    const uint8_t *segment;
    rs_block block;      /* where the entries lie; first_record means nothing */
    const rs_tree *tree; /* of a value table: the tree of its entries */
    rs_symbols symbols;  /* of a symbol table */
    unsigned kind;       /* RS_FMT_TABLE_VALUES or RS_FMT_TABLE_SYMBOLS; 0 until the table is read */
    void *slot;          /* a pointer for the reader's own use, such as a cache; NULL at first */
} rs_table;

/* The tables of one dict-coded node. The tree owns it. */
typedef struct rs_dict_coded {
    uint32_t n_tables;
    uint32_t count; /* the number of entries of all tables; also the count of the node */
    const rs_table *tables[RS_FMT_DICT_CODED_TABLES];
    uint32_t first[RS_FMT_DICT_CODED_TABLES + 1]; /* the number of each table's first entry, then count */
} rs_dict_coded;

/* Reads table `number`, which is below the count of TABLES, and checks rule 29. The caller sets out->tree. */
RS_NODISCARD rs_status rs_table_read(rs_slice segment, const rs_directory *directory, uint32_t number, rs_table *out,
                                     rs_error *err);

/* Returns the table of entry i, which is below coded->count. *local becomes the entry's number in that table. */
static inline const rs_table *rs_dict_coded_table(const rs_dict_coded *coded, uint32_t i, uint32_t *local) {
    uint32_t t = 0;
    while (i >= coded->first[t + 1]) t++;
    *local = i - coded->first[t];
    return coded->tables[t];
}

/* Sets *table to the table of entry i of a linked dict-coded node, and *out to the bytes of the entry. Both borrow from
 * the store. Errors: rule 31. Any thread. */
RS_NODISCARD static inline rs_status rs_dict_coded_find(const rs_node *node, uint64_t i, const rs_table **table,
                                                        rs_slice *out, rs_error *err) {
    uint32_t local;
    if (RS_UNLIKELY(i >= node->coded->count)) {
        (void)rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a dict-coded number has no entry");
        return RS_E_FMT_VALUE; /* a literal, so that the compiler knows that the outputs are set on success */
    }
    *table = rs_dict_coded_table(node->coded, (uint32_t)i, &local);
    return rs_offsets_locate((*table)->segment, &(*table)->block, local, out, err);
}

#endif
