/* rs_store.c: loads blocks, trees and tables on first use, and compares records with keys. */
#include "read/rs_store.h"

#include <stdlib.h>

#include "base/rs_crc.h"
#include "read/rs_path.h"
#include "read/rs_text.h"

rs_status rs_store_open_prepared(rs_store *self, rs_slice bytes, const rs_header *header, const rs_directory *directory,
                                 rs_error *err) {
    memset(self, 0, sizeof *self);
    self->header = *header;
    self->directory = *directory;
    self->segment = bytes;
    self->heap_left = self->directory.sections[RS_FMT_SECTION_HEAP].size_bytes;
    self->trees_left = self->directory.sections[RS_FMT_SECTION_TREES].size_bytes;
    self->groups = bytes.ptr + self->directory.sections[RS_FMT_SECTION_GROUPS].off;
    self->n_blocks = self->directory.sections[RS_FMT_SECTION_BLOCKS].count;
    self->n_trees = self->directory.sections[RS_FMT_SECTION_TREE_TABLE].count;
    self->n_tables = self->directory.sections[RS_FMT_SECTION_TABLES].count;
    /* calloc of a large table touches none of its pages, so opening takes constant time. */
    self->blocks = (rs_block *)calloc((size_t)self->n_blocks + 1, sizeof *self->blocks);
    self->trees = (rs_tree *)calloc((size_t)self->n_trees + 1, sizeof *self->trees);
    self->tables = (rs_table *)calloc((size_t)self->n_tables + 1, sizeof *self->tables);
    if (self->blocks == NULL || self->trees == NULL || self->tables == NULL) {
        rs_store_close(self);
        return rs_no_memory(err);
    }
    return RS_OK;
}

rs_status rs_store_open(rs_store *self, rs_slice bytes, const rs_limits *limits, rs_error *err) {
    rs_header header;
    rs_directory directory;
    memset(self, 0, sizeof *self);
    RS_TRY(rs_header_read(bytes, limits, &header, err));
    bytes.end = bytes.ptr + header.segment_size;
    RS_TRY(rs_directory_read(bytes, &header, 0, &directory, err));
    return rs_store_open_prepared(self, bytes, &header, &directory, err);
}

rs_status rs_store_open_keys(rs_store *self, const rs_store *values, rs_error *err) {
    rs_directory directory;
    memset(self, 0, sizeof *self);
    if (values->header.content != RS_FMT_CONTENT_MAPPING) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "the segment holds a list, not a mapping");
    }
    RS_TRY(rs_directory_read(values->segment, &values->header, 1, &directory, err));
    return rs_store_open_prepared(self, values->segment, &values->header, &directory, err);
}

rs_status rs_store_set_present(rs_store *self, const uint8_t *present, rs_error *err) {
    for (unsigned kind = RS_FMT_SECTION_GROUPS; kind <= RS_FMT_SECTION_TABLES; kind++) {
        const rs_section *section = &self->directory.sections[kind];
        if (kind == RS_FMT_SECTION_KEY_INDEX ||
            rs_crc32c(0, self->segment.ptr + section->off, (size_t)section->size_bytes) == section->crc) {
            continue;
        }
        return rs_error_set(err, RS_E_FMT_CHECKSUM, section->off, "the checksum of a section does not match");
    }
    self->known = (rs_block *)calloc((size_t)self->n_blocks + 1, sizeof *self->known);
    if (self->known == NULL) return rs_no_memory(err);
    self->present = present;
    return RS_OK;
}

/* Returns RS_E_STATE_ABSENT unless these bytes, which are within the segment, are there. */
static rs_status require(const rs_store *self, uint64_t off, uint64_t size, rs_error *err) {
    if (self->present == NULL || size == 0) return RS_OK;
    for (uint64_t chunk = off / RS_STORE_CHUNK; chunk <= (off + size - 1) / RS_STORE_CHUNK; chunk++) {
        if (self->present[chunk]) continue;
        (void)rs_error_set(err, RS_E_STATE_ABSENT, off, "%llu bytes are not here yet", (unsigned long long)size);
        if (err != NULL) err->needed = size;
        return RS_E_STATE_ABSENT;
    }
    return RS_OK;
}

/* Requires the offset groups of n records of a block. */
static rs_status require_offsets(const rs_store *self, const rs_block *block, uint32_t local, uint32_t n,
                                 rs_error *err) {
    if (block->index_width == 0) return RS_OK;
    const uint64_t group_size = rs_offsets_group_size(block->index_bits);
    const uint64_t first = local / RS_FMT_GROUP_RECORDS, last = (local + (uint64_t)n - 1) / RS_FMT_GROUP_RECORDS;
    return require(self, block->index_off + first * group_size, (last - first + 1) * group_size, err);
}

/* Requires all bytes of a block or table, and checks them: nothing has compared them with the hash of the file. */
static rs_status require_whole(const rs_store *self, const rs_block *block, rs_error *err) {
    if (self->present == NULL) return RS_OK;
    const uint8_t *p = self->segment.ptr;
    RS_TRY(require(self, block->heap_off, block->heap_size_bytes, err));
    RS_TRY(require(self, block->arrays_off, block->arrays_size_bytes, err));
    RS_TRY(require_offsets(self, block, 0, block->n_records, err));
    if (rs_crc32c(0, p + block->heap_off, (size_t)block->heap_size_bytes) != block->heap_crc ||
        (block->arrays_size_bytes != 0 && /* a table has none */
         rs_crc32c(0, p + block->arrays_off, (size_t)block->arrays_size_bytes) != block->arrays_crc)) {
        return rs_error_set(err, RS_E_FMT_CHECKSUM, block->heap_off, "the checksum of a block or table does not match");
    }
    return RS_OK;
}

void rs_store_close(rs_store *self) {
    if (self->trees != NULL) {
        for (uint64_t i = 0; i < self->n_trees; i++) rs_tree_clear(&self->trees[i]);
    }
    for (uint64_t i = 0; self->blocks != NULL && i < self->n_blocks; i++) free((void *)self->blocks[i].placed);
    for (uint64_t i = 0; self->known != NULL && i < self->n_blocks; i++) free((void *)self->known[i].placed);
    free(self->trees);
    free(self->tables);
    free(self->blocks);
    free(self->known);
    memset(self, 0, sizeof *self);
}

static rs_status load_tree(rs_store *self, uint32_t number, uint64_t tables_end, unsigned table_depth, rs_error *err);

/* Takes the heap and arrays of a block or table off heap_left, which bounds overlaps: else few bytes could become many
 * (rule 44). */
static rs_status take_heap(rs_store *self, const rs_block *block, rs_error *err) {
    const uint64_t left = self->heap_left, heap = block->heap_size_bytes;
    if (heap > left || block->arrays_size_bytes > left - heap) {
        return rs_error_set(err, RS_E_FMT_BLOCK, block->heap_off, "the heaps of blocks or tables overlap");
    }
    self->heap_left = left - heap - block->arrays_size_bytes;
    return RS_OK;
}

/* Sets the error for a block, tree or table that a frozen store has not loaded. */
static RS_COLD rs_status not_loaded(const rs_store *self, unsigned section, const char *name, uint64_t number,
                                    rs_error *err) {
    return rs_error_set(err, RS_E_FMT_BLOCK, self->directory.sections[section].off,
                        "%s %llu is damaged: the deep check, verify=\"full\", shows how", name,
                        (unsigned long long)number);
}

/* Reads table `number`. `table_depth` is the number of tables between its tree and a block. */
static rs_status load_table(rs_store *self, uint32_t number, unsigned table_depth, rs_error *err) {
    rs_table table;
    if (self->tables[number].kind != 0) return RS_OK;
    if (self->frozen) return not_loaded(self, RS_FMT_SECTION_TABLES, "table", number, err);
    RS_TRY(rs_table_read_entry(self->segment, &self->directory, number, &table, err));
    RS_TRY(require_whole(self, &table.block, err));
    RS_TRY(rs_table_open_symbols(&table, err));
    if (table.kind == RS_FMT_TABLE_VALUES) {
        RS_TRY(load_tree(self, table.block.tree, number, table_depth, err));
        table.tree = &self->trees[table.block.tree];
        table.block.root = table.tree->nodes;
        if (table.tree->n_placed > 0) {
            return rs_error_set(err, RS_E_FMT_TREE, RS_NOWHERE, "the tree of table %u has placed nodes", number);
        }
    }
    RS_TRY(take_heap(self, &table.block, err));
    self->tables[number] = table;
    return RS_OK;
}

rs_status rs_store_load_table(rs_store *self, uint32_t number, rs_error *err) {
    return load_table(self, number, 0, err);
}

static rs_status bad_link(const rs_node *node, uint64_t at, const char *why, rs_error *err) {
    return rs_error_set(err, RS_E_FMT_TREE, at, "tree node %u: %s", node->index, why);
}

/* Links a dict-coded or symbols node with its tables, whose numbers must be below tables_end. Raises *levels to
 * the most levels of their trees, plus 1. */
static rs_status link_node(rs_store *self, rs_tree *tree, rs_node *node, uint64_t tables_end, unsigned table_depth,
                           uint32_t *levels, uint64_t at, rs_error *err) {
    uint32_t n = node->aux_size_bytes / 4;
    bool symbols = node->kind == RS_FMT_NODE_SYMBOLS;
    rs_dict_coded *coded = NULL;
    if (!symbols) {
        coded = (rs_dict_coded *)calloc(1, sizeof *coded + n * sizeof coded->at[0]);
        if (coded == NULL) return rs_no_memory(err);
        node->coded = coded; /* freed with the tree */
        coded->n_tables = n;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t number = rs_load_u32(node->aux + 4 * (size_t)i);
        if (number >= tables_end) {
            return bad_link(node, at, "it names a table that is missing or whose number is not below its own", err);
        }
        RS_TRY(load_table(self, number, table_depth + 1, err));
        const rs_table *table = &self->tables[number];
        if (number >= tree->tables_end) tree->tables_end = number + 1;
        if (table->kind != (symbols ? RS_FMT_TABLE_SYMBOLS : RS_FMT_TABLE_VALUES)) {
            return bad_link(node, at, "it names a table of the wrong kind", err);
        }
        if (symbols) {
            if (node->param == RS_FMT_SYMBOLS_PAIRS && table->symbols.unit_bytes != 2) {
                return bad_link(node, at, "its table has units of 1 byte", err);
            }
            node->symbols = &table->symbols;
            return RS_OK;
        }
        coded->at[i].table = table;
        if (table->block.index_width == 0) {
            coded->at[i].rows = table->segment + table->block.heap_off;
            coded->at[i].row_size_bytes = table->block.row_size_bytes;
        }
        coded->at[i].first = coded->count;
        coded->count += table->block.n_records; /* at most 64 times 65,536 */
        coded->at[i].end = coded->count;
        if (table->tree->levels + 1 > *levels) *levels = table->tree->levels + 1;
    }
    if (coded->count == node->count) return RS_OK;
    return bad_link(node, at, "its count is not the number of entries of its tables", err);
}

static rs_status link_tree(rs_store *self, rs_tree *tree, uint64_t tables_end, unsigned table_depth, uint64_t at,
                           rs_error *err) {
    uint32_t levels = 0;
    if (tree->n_links == 0) return RS_OK;
    if (table_depth > 2 * RS_FMT_DEPTH) {
        return rs_error_set(err, RS_E_FMT_TREE, at, "tables refer to tables too deeply");
    }
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        rs_node *node = &tree->nodes[i];
        if (!rs_node_names_tables(node)) continue;
        RS_TRY(link_node(self, tree, node, tables_end, table_depth, &levels, at, err));
    }
    tree->levels += levels;
    if (tree->levels > 2 * RS_FMT_DEPTH) {
        return rs_error_set(err, RS_E_FMT_TREE, at, "tree and tables are nested too deeply");
    }
    return RS_OK;
}

rs_status rs_store_load_tree(rs_store *self, uint32_t number, rs_error *err) {
    return load_tree(self, number, self->n_tables, 0, err);
}

static rs_status load_tree(rs_store *self, uint32_t number, uint64_t tables_end, unsigned table_depth, rs_error *err) {
    const rs_section *table = &self->directory.sections[RS_FMT_SECTION_TREE_TABLE];
    const rs_section *section = &self->directory.sections[RS_FMT_SECTION_TREES];
    uint64_t at = table->off + (uint64_t)number * RS_FMT_TREE_ENTRY_SIZE;
    const uint8_t *e = self->segment.ptr + at;
    uint64_t off = rs_load_u64(e);
    uint32_t size = rs_load_u32(e + 8), crc = rs_load_u32(e + 12);
    rs_tree tree;
    if (self->trees[number].nodes != NULL) {
        if (self->trees[number].tables_end <= tables_end) return RS_OK;
        return rs_error_set(err, RS_E_FMT_TREE, at, "tree %u of a table refers to a table whose number is not lower",
                            number);
    }
    if (self->frozen) return not_loaded(self, RS_FMT_SECTION_TREE_TABLE, "tree", number, err);
    if (off % 8 != 0 || off > section->size_bytes || size > section->size_bytes - off) {
        return rs_error_set(err, RS_E_FMT_TREE, at, "tree %u lies outside its section", number);
    }
    off += section->off;
    RS_TRY(rs_tree_compile(rs_slice_of(self->segment.ptr + off, size), off, &tree, err));
    /* Check the checksum of the copy that was compiled, to detect a change of the bytes. */
    if (rs_crc32c(0, tree.bytes, tree.size_bytes) != crc) {
        rs_tree_clear(&tree);
        return rs_error_set(err, RS_E_FMT_CHECKSUM, off, "the checksum of tree %u does not match", number);
    }
    rs_status status = link_tree(self, &tree, tables_end, table_depth, off, err);
    /* A table uses only tables of lower numbers, so the tree can have been loaded through its own tables only if bytes
     * have changed. Using it would make a reference cycle. */
    if (status == RS_OK && self->trees[number].nodes != NULL) {
        status = rs_error_set(err, RS_E_FMT_TREE, off, "tree %u changed while it was read", number);
    }
    if (status == RS_OK && size > self->trees_left) {
        status = rs_error_set(err, RS_E_FMT_TREE, off, "tree %u overlaps another tree", number);
    }
    if (status != RS_OK) {
        rs_tree_clear(&tree);
        return status;
    }
    self->trees_left -= size;
    self->trees[number] = tree;
    return RS_OK;
}

/* Reads a block with its tree and places and, if it is `whole`, requires its records. */
static rs_status read_block(rs_store *self, uint64_t number, bool whole, rs_block *out, rs_error *err) {
    rs_block block;
    rs_placed *placed;
    RS_TRY(rs_block_read(self->segment, &self->directory, number, &block, err));
    RS_TRY(rs_store_load_tree(self, block.tree, err));
    if (whole) RS_TRY(require_whole(self, &block, err));
    RS_TRY(require(self, block.heap_off + block.rows_size_bytes, block.places_size_bytes, err));
    RS_TRY(rs_places_open(self->segment.ptr, &block, &self->trees[block.tree], &placed, err));
    rs_status status = self->known != NULL && self->known[number].n_records != 0 ? RS_OK : take_heap(self, &block, err);
    if (status != RS_OK) {
        free(placed);
        return status;
    }
    block.root = self->trees[block.tree].nodes;
    block.placed = placed; /* freed with the blocks */
    *out = block;
    return RS_OK;
}

rs_status rs_store_load_block(rs_store *self, uint64_t number, rs_error *err) {
    if (self->blocks[number].n_records != 0) return RS_OK;
    if (self->frozen && number == self->damaged) {
        if (err != NULL) *err = self->damage;
        return self->damage.code;
    }
    if (self->frozen) return not_loaded(self, RS_FMT_SECTION_BLOCKS, "block", number, err);
    return read_block(self, number, true, &self->blocks[number], err);
}

rs_status rs_store_know_block(rs_store *self, uint64_t number, const rs_block **out, rs_error *err) {
    if (self->known == NULL || self->blocks[number].n_records != 0) {
        *out = &self->blocks[number];
        return rs_store_load_block(self, number, err);
    }
    *out = &self->known[number];
    return self->known[number].n_records != 0 ? RS_OK : read_block(self, number, false, &self->known[number], err);
}

rs_status rs_store_freeze(rs_store *self, rs_error *err) {
    if (self->frozen) return RS_OK;
    self->damaged = RS_NOWHERE;
    for (uint64_t i = 0; i < self->n_blocks; i++) {
        rs_error why;
        rs_status status = rs_store_load_block(self, i, &why);
        if (status == RS_OK) continue;
        if (status == RS_E_MEM) {
            if (err != NULL) *err = why;
            return status;
        }
        if (self->damaged == RS_NOWHERE) self->damaged = i, self->damage = why;
    }
    for (uint64_t i = 0; i < self->n_tables; i++) {
        if (rs_store_load_table(self, (uint32_t)i, err) == RS_E_MEM) return RS_E_MEM;
    }
    self->frozen = true;
    return RS_OK;
}

rs_status rs_store_no_record(const rs_store *self, uint64_t index, rs_error *err) {
    return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "record %lld is out of range: the store has %llu",
                        (long long)index, (unsigned long long)self->header.n_records);
}

rs_status rs_store_no_block(const rs_store *self, uint64_t index, rs_error *err) {
    return rs_error_set(err, RS_E_FMT_BLOCK,
                        self->directory.sections[RS_FMT_SECTION_GROUPS].off + index / RS_FMT_GROUP_RECORDS * 4,
                        "record %llu is not in the block of its group or a later one", (unsigned long long)index);
}

/* Skips a value that stands alone, to add its arrays to the budget of the cursor. */
static rs_status add_arrays(rs_cursor *cursor, const rs_node *node, rs_slice value, rs_error *err) {
    uint64_t bits;
    const uint8_t *body;
    cursor->in = value;
    RS_TRY(rs_decode_take_alone(cursor, node, &body, &bits, err));
    return body != NULL ? RS_OK : rs_path_pass(cursor, node, bits, err);
}

/* Requires the arrays of a record. */
static rs_status require_arrays(const rs_store *self, const rs_record *record, rs_error *err) {
    const rs_block *block = record->block;
    const rs_tree *tree = record->tree;
    if (self->present == NULL || block->arrays_size_bytes == 0) return RS_OK;
    rs_cursor cursor = rs_store_cursor(self, record);
    cursor.budget.arrays_begin = UINT64_MAX;
    RS_TRY(add_arrays(&cursor, tree->nodes, record->bytes, err));
    /* Skipping does not see the exceptions in the places. */
    for (uint32_t i = 0; i < tree->n_nodes && tree->n_placed > 0; i++) {
        const rs_node *node = &tree->nodes[i];
        rs_slice value;
        bool is_exception;
        if (node->kind != RS_FMT_NODE_EXCEPTIONS) continue;
        RS_TRY(rs_placed_exception(&block->placed[node->placed], record->local, &is_exception, &value, err));
        if (is_exception) RS_TRY(add_arrays(&cursor, &node->children[1], value, err));
    }
    if (cursor.budget.arrays_end == 0) return RS_OK;
    return require(self, block->arrays_off + cursor.budget.arrays_begin,
                   cursor.budget.arrays_end - cursor.budget.arrays_begin, err);
}

rs_status rs_store_find_slowly(rs_store *self, uint64_t index, uint64_t block, rs_record *out, rs_error *err) {
    for (uint64_t steps = 0; steps < RS_FMT_GROUP_RECORDS && block < self->n_blocks; steps++, block++) {
        const rs_block *b;
        RS_TRY(rs_store_know_block(self, block, &b, err));
        if (index < b->first_record) break;
        if (index - b->first_record < b->n_records) {
            out->block = b;
            out->tree = &self->trees[b->tree];
            out->local = (uint32_t)(index - b->first_record);
            RS_TRY(require_offsets(self, b, out->local, 1, err));
            RS_TRY(rs_offsets_locate(self->segment.ptr, b, out->local, &out->bytes, err));
            RS_TRY(require(self, (uint64_t)(out->bytes.ptr - self->segment.ptr), rs_slice_left(&out->bytes), err));
            return require_arrays(self, out, err);
        }
    }
    return rs_store_no_block(self, index, err);
}

/* ---- Comparing keys ---- */

/* Compares two texts of n units. Widths may differ: a str need not be stored in the narrowest units. */
static rs_key_match same_units(const uint8_t *a, unsigned a_bytes, const uint8_t *b, unsigned b_bytes, uint64_t n) {
    if (a_bytes == b_bytes) return memcmp(a, b, (size_t)(n * a_bytes)) == 0 ? RS_KEY_EQUAL : RS_KEY_DIFFERS;
    for (uint64_t i = 0; i < n; i++) {
        if (rs_load_unit(a, a_bytes, i) != rs_load_unit(b, b_bytes, i)) return RS_KEY_DIFFERS;
    }
    return RS_KEY_EQUAL;
}

/* Takes n units of a str or bytes. */
static void take_units(rs_cursor *c, rs_scalar *out, rs_scalar_kind kind, uint64_t n, unsigned unit_bytes) {
    if (rs_decode_units(c, n, unit_bytes, &out->units, NULL) != RS_OK) return;
    out->kind = kind;
    out->n = n;
    out->unit_bytes = unit_bytes;
}

/* Reads the any value at the cursor. */
static void take_any(rs_cursor *c, rs_scalar *out) {
    const uint8_t *p;
    uint64_t n;
    if (!rs_take(&c->in, 1, &p)) return;
    uint8_t tag = *p;
    if (rs_tag_is_small(tag)) {
        out->kind = RS_SCALAR_INT;
        out->integer = rs_tag_small_value(tag);
    } else if (rs_tag_is_int64(tag)) {
        if (!rs_take(&c->in, rs_tag_int_size(tag), &p)) return;
        out->kind = RS_SCALAR_INT;
        out->integer = rs_load_int_unchecked(p, rs_tag_int_size(tag));
    } else if (tag == RS_FMT_TAG_FLOAT) {
        if (!rs_take(&c->in, 8, &p)) return;
        out->kind = RS_SCALAR_FLOAT;
        out->number = rs_load_f64(p);
    } else if (tag == RS_FMT_TAG_NONE) {
        out->kind = RS_SCALAR_NONE;
    } else if (tag == RS_FMT_TAG_FALSE || tag == RS_FMT_TAG_TRUE) {
        out->kind = RS_SCALAR_INT;
        out->integer = tag == RS_FMT_TAG_TRUE;
    } else if (tag >= RS_FMT_TAG_STR1 && tag <= RS_FMT_TAG_BYTES) {
        if (!rs_take_varint(&c->in, &n)) return;
        if (tag == RS_FMT_TAG_BYTES) take_units(c, out, RS_SCALAR_BYTES, n, 1);
        else take_units(c, out, RS_SCALAR_STR, n, 1u << (tag - RS_FMT_TAG_STR1));
    } else if (tag == RS_FMT_TAG_BIGINT || tag == RS_FMT_TAG_TUPLE) {
        out->kind = tag == RS_FMT_TAG_TUPLE ? RS_SCALAR_TUPLE : RS_SCALAR_BIGINT;
        c->in.ptr = c->in.end;
    }
}

/* Assembles a str from symbols, parts or digits. A long one stays RS_SCALAR_UNKNOWN. */
static void take_text(rs_cursor *c, const rs_node *node, const uint8_t *body, uint64_t bits, rs_scalar *out) {
    rs_text text;
    rs_text_begin(&text);
    if (rs_text_take(&text, c, node, body, bits, NULL) == RS_OK && text.n_units <= RS_SCALAR_TEXT / text.unit_bytes) {
        memcpy(out->within, text.units, (size_t)(text.n_units * text.unit_bytes));
        out->kind = RS_SCALAR_STR;
        out->units = out->within;
        out->n = text.n_units;
        out->unit_bytes = text.unit_bytes;
    }
    rs_text_clear(&text);
}

static void take_body(rs_cursor *c, const rs_node *node, const uint8_t *body, uint64_t bits, rs_scalar *out) {
    const uint8_t *units;
    uint64_t n;
    unsigned unit_bytes;
    switch (node->kind) {
    case RS_FMT_NODE_CONST: {
        rs_cursor aux = *c;
        aux.in = rs_slice_of(node->aux, node->aux_size_bytes);
        take_any(&aux, out);
        break;
    }
    case RS_FMT_NODE_INT:
        out->kind = RS_SCALAR_INT;
        out->integer = rs_decode_int_unchecked(node, body, bits);
        break;
    case RS_FMT_NODE_BOOL:
        out->kind = RS_SCALAR_INT;
        out->integer = bits != 0;
        break;
    case RS_FMT_NODE_FLOAT:
        out->kind = RS_SCALAR_FLOAT;
        out->number = rs_load_f64(body);
        break;
    case RS_FMT_NODE_STR:
        if (rs_decode_str(c, node, &n, &unit_bytes, &units, NULL) != RS_OK) break;
        c->in.ptr = units;
        take_units(c, out, RS_SCALAR_STR, n, unit_bytes);
        break;
    case RS_FMT_NODE_BYTES:
        if (rs_decode_bytes(c, node, &n, &units, NULL) != RS_OK) break;
        c->in.ptr = units;
        take_units(c, out, RS_SCALAR_BYTES, n, 1);
        break;
    case RS_FMT_NODE_DECIMAL:
        out->kind = RS_SCALAR_FLOAT;
        out->number = rs_decode_decimal_unchecked(node, body, bits);
        break;
    case RS_FMT_NODE_SYMBOLS:
    case RS_FMT_NODE_CONCAT:
    case RS_FMT_NODE_DIGITS:
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET: take_text(c, node, body, bits, out); break;
    case RS_FMT_NODE_NUMBERS:
        if (node->param == 1) out->kind = RS_SCALAR_TUPLE;
        c->in.ptr = c->in.end;
        break;
    case RS_FMT_NODE_TUPLE:
        if (node->param == 1) out->kind = RS_SCALAR_TUPLE;
        c->in.ptr = c->in.end;
        break;
    default: break;
    }
}

void rs_store_scalar(rs_store *self, uint64_t index, rs_scalar *out) {
    rs_place place;
    rs_record record;
    out->kind = RS_SCALAR_UNKNOWN;
    if (rs_store_find(self, index, &record, NULL) != RS_OK) return;
    rs_cursor cursor = rs_store_cursor(self, &record);
    if (rs_path_begin(&cursor, record.tree->nodes, &place, NULL) != RS_OK) return;
    if (place.node == NULL) take_any(&cursor, out);
    else take_body(&cursor, place.node, place.body, place.bits, out);
    if (cursor.in.ptr != cursor.in.end) out->kind = RS_SCALAR_UNKNOWN;
}

rs_key_match rs_store_key_equals_str(rs_store *self, uint64_t index, unsigned unit_bytes, const uint8_t *units,
                                     uint64_t n) {
    rs_scalar key;
    rs_store_scalar(self, index, &key);
    if (key.kind == RS_SCALAR_UNKNOWN) return RS_KEY_UNKNOWN;
    if (key.kind != RS_SCALAR_STR || key.n != n) return RS_KEY_DIFFERS;
    return same_units(key.units, key.unit_bytes, units, unit_bytes, n);
}

rs_key_match rs_store_key_equals_int(rs_store *self, uint64_t index, int64_t value) {
    rs_scalar key;
    rs_store_scalar(self, index, &key);
    switch (key.kind) {
    case RS_SCALAR_INT: return key.integer == value ? RS_KEY_EQUAL : RS_KEY_DIFFERS;
    case RS_SCALAR_NONE:
    case RS_SCALAR_STR:
    case RS_SCALAR_BYTES:
    case RS_SCALAR_TUPLE: return RS_KEY_DIFFERS;
    default: return RS_KEY_UNKNOWN;
    }
}
