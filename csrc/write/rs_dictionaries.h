/* rs_dictionaries.h: what a store's writer remembers from block to block: the tables it wrote, and what stands in
 * them, so that a later block's tree can name them again. */
#ifndef RS_DICTIONARIES_H
#define RS_DICTIONARIES_H

#include "format/rs_offsets.h"
#include "write/rs_symbols_train.h"
#include "write/rs_value_set.h"

/* The entries of the tables that one place in the records (a position) refers to, in their order. */
typedef struct rs_dictionary {
    uint64_t position_id;
    uint64_t made, used;  /* in which run of values, first and last */
    uint32_t tables[RS_FMT_DICT_CODED_TABLES];
    uint32_t n_tables;
    rs_buffer bytes;      /* of the entries, as `any` values */
    rs_value_set entries; /* spans in `bytes` */
    struct rs_dictionary *next;
} rs_dictionary;

/* A symbol table of a position. */
typedef struct rs_symbol_table {
    uint64_t position_id;
    uint64_t used;         /* in which run of values, last */
    uint32_t number;
    unsigned unit_bytes;
    rs_symbols_encoder *encoder;
    uint64_t units, coded; /* of the block that it was made for: how well it does */
    struct rs_symbol_table *next;
} rs_symbol_table;

/* What was found out about a position in one block, so that the next ones need not try again. */
enum { RS_POSITION_NO_DICTIONARY = 1, RS_POSITION_NO_TEMPLATE = 2, RS_POSITION_NO_SHARED_TABLE = 4 };
typedef struct rs_position_note {
    uint64_t position_id;   /* 0: an empty slot */
    uint32_t run;    /* of which run */
    uint32_t flags;
} rs_position_note;

/* Writes values as a table, whose entry in TABLES it fills but for its kind: the builder's part, which knows
 * heaps, offsets and trees. `position_id` is that of the dictionary. `hops` tables lie between these values and a
 * block. */
typedef rs_status (*rs_write_values)(void *owner, const rs_values *values, uint64_t position_id, unsigned hops,
                                     rs_block *out, rs_error *err);
/* Writes the bytes of a symbol table. */
typedef rs_status (*rs_write_bytes)(void *owner, const rs_buffer *bytes, rs_block *out, rs_error *err);

/* Owns all of it. Zero it, set the functions; rs_dictionaries_clear at the end. Not thread-safe. */
typedef struct rs_dictionaries {
    void *owner;
    rs_write_values write_values;
    rs_write_bytes write_bytes;
    rs_buffer tables;      /* entries of TABLES */
    rs_dictionary *first;
    rs_symbol_table *symbols;
    uint64_t kept_bytes;   /* of entries of dictionaries */
    rs_position_note *notes;   /* by position: n_notes slots, a power of two, or none */
    uint32_t n_notes, used_notes;
    uint32_t run;          /* number of the run of values (a block's) whose tree is being made */
} rs_dictionaries;

void rs_dictionaries_clear(rs_dictionaries *self);

/* A further run of values begins: tables of earlier ones may be forgotten from now on, where newer ones stand for
 * them. */
void rs_dictionaries_begin_run(rs_dictionaries *self);

static inline uint32_t rs_dictionaries_n_tables(const rs_dictionaries *self) {
    return (uint32_t)(self->tables.size_bytes / RS_FMT_BLOCK_SIZE);
}

/* The dictionary of a position that may take `more` entries, or NULL. Lives as long as `self`. */
rs_dictionary *rs_dictionaries_find(const rs_dictionaries *self, uint64_t position_id, uint32_t more);

/* Adds those of `values` that are not there yet to the dictionary of a position, as a further table; to a new
 * dictionary when there is none that may take them, and when `fresh` unless a neighbour of this run just made one
 * that has most of them. *out keeps its entries at least until the next run. */
RS_NODISCARD rs_status rs_dictionaries_extend(rs_dictionaries *self, uint64_t position_id, bool fresh,
                                              const rs_values *values,
                                        unsigned hops, rs_dictionary **out, rs_error *err);

/* What is known of a position from one of the last runs: RS_PATH flags. */
unsigned rs_dictionaries_known(const rs_dictionaries *self, uint64_t position_id);
/* Remembers flags of a position for some runs. Without memory it forgets. */
void rs_dictionaries_note(rs_dictionaries *self, uint64_t position_id, unsigned flags);

/* The number of a value in a dictionary; UINT32_MAX when it is not there. */
uint32_t rs_dictionary_find(const rs_dictionary *self, rs_slice value);

/* A symbol table for strings: that of the position, where it still does nearly as well as when it was made, or a
 * new one. *out is NULL where none is worth it. */
RS_NODISCARD rs_status rs_dictionaries_symbols(rs_dictionaries *self, uint64_t position_id,
                                               const rs_symbol_string *strings, size_t n,
                                         unsigned unit_bytes, rs_symbol_table **out, rs_error *err);

/* The strings of one of the positions that may share a table. */
typedef struct rs_symbol_group {
    const rs_symbol_string *strings;
    size_t n;
    bool joins; /* whether they take at least a quarter less in it */
} rs_symbol_group;

/* The same for several positions at once, whose strings stand one after the other: a table that saves, in the groups
 * that join, `least` bytes more than it takes. */
RS_NODISCARD rs_status rs_dictionaries_share(rs_dictionaries *self, uint64_t position_id, rs_symbol_group *groups,
                                             uint32_t n,
                                       unsigned unit_bytes, uint64_t least, rs_symbol_table **out, rs_error *err);

#endif
