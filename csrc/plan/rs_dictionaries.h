/* rs_dictionaries.h: the tables of a store that is being written. Their contents are kept from block to block, so that
 * the trees of later blocks can use the same tables. */
#pragma once

#include "format/rs_offsets.h"
#include "symbols/rs_symbols_train.h"
#include "plan/rs_choices.h"
#include "plan/rs_attempts.h"
#include "plan/rs_value_set.h"

/* The value tables of the dict-coded node of one position, with all their entries in order. */
typedef struct rs_dictionary {
    uint64_t position_id;
    uint64_t made, used; /* the run that made it, and the last run that used it */
    uint32_t tables[RS_FMT_DICT_CODED_TABLES];
    uint32_t n_tables;
    rs_buffer bytes;      /* the entries as any values */
    rs_value_set entries; /* spans in `bytes` */
    struct rs_dictionary *next;
} rs_dictionary;

/* A symbol table of a position. */
typedef struct rs_symbol_table {
    uint64_t position_id;
    uint64_t used;   /* the last run that used it */
    uint32_t number; /* of the table in TABLES */
    unsigned unit_bytes;
    rs_symbols_encoder *encoder; /* NULL once freed, because the position has two newer tables */
    uint64_t units, coded;       /* units, and bytes of their codes, that later trials are compared with */
    uint64_t size_bytes;         /* of the table in the segment, its element of TABLES included */
    struct rs_symbol_table *next;
} rs_symbol_table;

/* A function of the owner, which knows heaps, offsets and trees: writes the heap of a value table for the dictionary of
 * `position_id` and fills *out, the table's element of TABLES without its kind. `table_depth` is the number of tables
 * between these values and a block. */
typedef rs_status (*rs_write_values)(void *owner, const rs_values *values, uint64_t position_id, unsigned table_depth,
                                     rs_block *out, rs_error *err);
/* The same for the bytes of a symbol table. */
typedef rs_status (*rs_write_bytes)(void *owner, const rs_buffer *bytes, rs_block *out, rs_error *err);

/* All tables of a store. Zero the struct and set owner, functions and choices; call rs_dictionaries_clear at the end.
 * It owns everything but the owner and the choices. One thread at a time may use it. */
typedef struct rs_dictionaries {
    void *owner;
    rs_write_values write_values;
    rs_write_bytes write_bytes;
    rs_buffer tables;         /* the bytes of TABLES */
    rs_dictionary *first;     /* the newest; `next` leads to older ones */
    rs_symbol_table *symbols; /* likewise */
    uint64_t kept_bytes;      /* bytes of the entries of all dictionaries */
    rs_attempts attempts;     /* attempts that failed in the runs so far */
    uint64_t *seen; /* a hash table of the large values of all runs: each slot holds the run + 1 and bits of a hash */
    uint32_t n_seen, seen_capacity;
    uint32_t run;              /* the number of the current run: the values of one block */
    const rs_choices *choices; /* borrowed */
} rs_dictionaries;

/* Frees everything. */
void rs_dictionaries_clear(rs_dictionaries *self);

/* Returns the bytes of memory of everything but the attempts. */
uint64_t rs_dictionaries_memory(const rs_dictionaries *self);

/* Begins the run of the next block. Afterwards the memory of a dictionary or encoder of an earlier run may be freed as
 * soon as its position has two newer ones. */
void rs_dictionaries_begin_run(rs_dictionaries *self);

/* Returns the number of tables written so far. */
static inline uint32_t rs_dictionaries_n_tables(const rs_dictionaries *self) {
    return (uint32_t)(self->tables.size_bytes / RS_FMT_BLOCK_SIZE);
}

/* Remembers the large values of a position. Sets *bytes to the bytes of the values that earlier runs had too: they are
 * likely to repeat, so entries for them pay. Sets it to 0 when a dictionary lacks the room for them. RS_E_MEM. */
RS_NODISCARD rs_status rs_dictionaries_remember_large(rs_dictionaries *self, uint64_t position_id,
                                                      const rs_values *values, uint64_t *bytes, rs_error *err);

/* Returns the newest dictionary of a position; NULL without one, or when it lacks room for `more` entries. It lives as
 * long as `self`. */
rs_dictionary *rs_dictionaries_find(const rs_dictionaries *self, uint64_t position_id, uint32_t more);

/* Makes sure that a dictionary of the position holds all `values`, and writes the missing ones as one more table. Makes
 * a new dictionary when the position has none with room. With `fresh`, it makes a new one unless a dictionary of this
 * run holds at least half of the values. *out lives as long as `self`, and keeps its entries at least until the next
 * run. RS_E_MEM, and the errors of write_values. */
RS_NODISCARD rs_status rs_dictionaries_extend(rs_dictionaries *self, uint64_t position_id, bool fresh,
                                              const rs_values *values, unsigned table_depth, rs_dictionary **out,
                                              rs_error *err);

/* Returns the number of a value among the dictionary's entries, UINT32_MAX when it is missing. */
static inline uint32_t rs_dictionary_find(const rs_dictionary *self, rs_slice value) {
    return rs_value_set_find(&self->entries, self->bytes.data, value, rs_value_set_hash(value));
}

/* A symbol table that was trained before its strings are settled. */
typedef struct rs_trained {
    rs_slice bytes; /* none: a table would not make the strings smaller */
    uint64_t coded; /* as rs_symbols_train returns it */
} rs_trained;

/* Returns whether to search for the smallest codes for text of `units` units. For little text that takes a millisecond,
 * and the table is a large part of a small store. */
bool rs_dictionaries_use_small_codes(const rs_choices *choices, uint64_t units);

/* The result of coding some strings with a table. */
typedef struct rs_symbols_trial {
    uint64_t units, coded; /* units, and bytes of their codes */
} rs_symbols_trial;

/* The search for a symbol table for n strings. Zero it and set the first five fields. Call rs_symbols_search_clear at
 * the end. */
typedef struct rs_symbols_search {
    uint64_t position_id;
    unsigned unit_bytes;             /* 4: the strings are the UTF-16 of strings with such units */
    const rs_symbol_string *strings; /* borrowed until the end of rs_dictionaries_search */
    size_t n;
    const rs_trained *trained;   /* a table to try if a new one is tried, else NULL; borrowed like `strings` */
    rs_symbol_table *old;        /* the newest table of the position, or NULL */
    rs_symbols_trial now;        /* of `old` */
    bool uses_old, tries;        /* `old` saves bytes; a new table was trained */
    rs_buffer bytes;             /* the new table */
    rs_symbols_encoder *encoder; /* of the new table if it is better, else NULL */
    rs_symbols_trial made;       /* of the new table */
    rs_status status;            /* RS_OK or RS_E_MEM */
} rs_symbols_search;

/* Finds or makes a symbol table. The position's table is reused while it codes nearly as well as when it was made,
 * except at the level SMALL; else a new one is tried: `trained`, or if that is NULL one that is trained now. Several
 * threads may search at once while `self` does not change. */
void rs_dictionaries_search(const rs_dictionaries *self, rs_symbols_search *s);
/* Returns whether the position has got another table since the search, which must then be repeated. */
bool rs_dictionaries_is_stale(const rs_dictionaries *self, const rs_symbols_search *s);
/* Keeps the found table. Sets *out to NULL when no table saves bytes; a table lives as long as `self`. RS_E_MEM, and
 * the errors of write_bytes. */
RS_NODISCARD rs_status rs_dictionaries_keep(rs_dictionaries *self, rs_symbols_search *s, rs_symbol_table **out,
                                            rs_error *err);
void rs_symbols_search_clear(rs_symbols_search *s);

/* The strings of one position, for a symbol table that several positions may share. */
typedef struct rs_symbol_group {
    const rs_symbol_string *strings;
    size_t n;
    bool joins; /* output: the table saves more than a quarter of the bytes */
} rs_symbol_group;

/* Finds or makes one symbol table for n groups, n not 0. The strings of the groups are adjacent in one array. The
 * table must save more than `least` bytes in the groups that join; a new table must save its own bytes too. Else *out
 * becomes NULL, and the failed attempt is recorded. Errors of rs_dictionaries_keep. */
RS_NODISCARD rs_status rs_dictionaries_share(rs_dictionaries *self, uint64_t position_id, rs_symbol_group *groups,
                                             uint32_t n, unsigned unit_bytes, uint64_t least, rs_symbol_table **out,
                                             rs_error *err);
