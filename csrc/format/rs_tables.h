/* rs_tables.h: what trees of many blocks share (FORMAT.md, Tables): tables of values, under trees of their own, and
 * symbol tables; from a dict-coded node's number to the bytes of its entry. */
#ifndef RS_TABLES_H
#define RS_TABLES_H

#include "format/rs_offsets.h"
#include "format/rs_schema.h"
#include "format/rs_symbols.h"

/* One table, checked and linked. Borrows the segment; the store that holds it owns it and its tree. */
typedef struct rs_table {
    const uint8_t *segment;
    rs_block block;        /* values: where they lie; first_record means nothing */
    const rs_tree *tree;   /* values */
    rs_symbols symbols;    /* symbols */
    unsigned kind;         /* RS_FMT_TABLE_VALUES or RS_FMT_TABLE_SYMBOLS; 0: not read yet */
    void *slot;            /* for whoever reads: what this process keeps with the table; NULL at first */
} rs_table;

/* The tables of one dict-coded node. Owned by the store. */
typedef struct rs_dict_coded {
    uint32_t n_tables;
    uint32_t count;                          /* entries in all: that of the node */
    const rs_table *tables[RS_FMT_DICT_CODED_TABLES];
    uint32_t first[RS_FMT_DICT_CODED_TABLES + 1];  /* the number of each table's first entry, then count */
} rs_dict_coded;

/* Reads and checks entry `number`, below the count, of TABLES (rule 29); the tree is the caller's to set. */
RS_NODISCARD rs_status rs_table_read(rs_slice segment, const rs_directory *directory, uint32_t number, rs_table *out,
                                     rs_error *err);

/* The table of entry i, below coded->count; *local is its number there. */
static inline const rs_table *rs_dict_coded_table(const rs_dict_coded *coded, uint32_t i, uint32_t *local) {
    uint32_t t = 0;
    while (i >= coded->first[t + 1]) t++;
    *local = i - coded->first[t];
    return coded->tables[t];
}

/* Where entry i of a linked dict-coded node lies, and the table it is of. Errors: rule 31. Any thread. */
RS_NODISCARD static inline rs_status rs_dict_coded_find(const rs_node *node, uint64_t i, const rs_table **table,
                                                  rs_slice *out, rs_error *err) {
    uint32_t local;
    if (RS_UNLIKELY(i >= node->coded->count)) {
        (void)rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a dict-coded number of no entry");
        return RS_E_FMT_VALUE; /* the literal: the compiler then knows that the outputs are set on success */
    }
    *table = rs_dict_coded_table(node->coded, (uint32_t)i, &local);
    return rs_offsets_locate((*table)->segment, &(*table)->block, local, out, err);
}

#endif
