/* rs_verify.c: the deep check of a segment. */
#include "verify/rs_verify.h"

#include "base/rs_crc.h"
#include "format/rs_node_kinds.h"
#include "verify/rs_check.h"

/* The state shared by all parts of a check. */
typedef struct check {
    rs_store *store;
    rs_watch *watch; /* NULL for a check that cannot be stopped */
} check;

static rs_status check_crc(const check *self, uint64_t off, uint64_t size, uint32_t crc, const char *name,
                           rs_error *err) {
    const uint8_t *bytes = self->store->segment.ptr + off;
    uint32_t found = 0;
    uint64_t n;
    for (uint64_t done = 0; done < size; done += n) {
        n = size - done < RS_WATCH_EVERY ? size - done : RS_WATCH_EVERY;
        found = rs_crc32c(found, bytes + done, (size_t)n);
        RS_TRY(rs_watch_count(self->watch, n, err));
    }
    if (found == crc) return RS_OK;
    return rs_error_set(err, RS_E_FMT_CHECKSUM, off, "the checksum of the %s at %llu does not match", name,
                        (unsigned long long)off);
}

static rs_status check_section(const check *self, const rs_section *section, unsigned kind, rs_error *err) {
    return check_crc(self, section->off, section->size_bytes, section->crc, rs_section_name(kind), err);
}

/* The values and bytes that the rest of a store may hold (rule 43). */
typedef struct rest {
    uint64_t values;
    uint64_t bytes;
} rest;

/* Subtracts the values and bytes of a record or an entry: what its budget lost, and 1 for the value itself. */
static rs_status spend(rest *self, const rs_budget *begin, const rs_budget *end, rs_error *err) {
    const uint64_t values = begin->values - end->values + 1, bytes = begin->bytes - end->bytes;
    if (values > self->values || bytes > self->bytes) {
        return rs_error_set(err, RS_E_FMT_LIMIT, RS_NOWHERE,
                            "the records hold more than a segment of this size may become without limits=");
    }
    self->values -= values;
    self->bytes -= bytes;
    return RS_OK;
}

static rs_status check_one(const check *self, rs_cursor *cursor, const rs_tree *tree, rest *left, rs_error *err) {
    const rs_budget begin = cursor->budget;
    RS_TRY(rs_watch_count(self->watch, 1, err));
    RS_TRY(rs_check_record(cursor, tree, self->watch, err));
    return spend(left, &begin, &cursor->budget, err);
}

static rs_status check_records(const check *self, const rs_block *block, rest *left, rs_error *err) {
    rs_store *store = self->store;
    uint64_t heap = block->heap_size_bytes;
    for (uint32_t i = 0; i < block->n_records; i++) {
        uint64_t index = block->first_record + i;
        rs_record record;
        rs_cursor cursor;
        rs_status status = rs_store_find(store, index, &record, err);
        if (status == RS_OK && record.block != block) {
            status = rs_error_set(err, RS_E_FMT_BLOCK, RS_NOWHERE, "GROUPS leads to another block");
        }
        if (status == RS_OK && rs_slice_left(&record.bytes) > heap) {
            status = rs_error_set(err, RS_E_FMT_OFFSET, RS_NOWHERE, "the records of a block overlap");
        }
        if (status == RS_OK) {
            heap -= rs_slice_left(&record.bytes);
            cursor = rs_store_cursor(store, &record);
            status = check_one(self, &cursor, record.tree, left, err);
            if (status != RS_OK && err != NULL && err->offset == RS_NOWHERE) {
                err->offset = (uint64_t)(cursor.in.ptr - store->segment.ptr);
            }
        }
        if (status != RS_OK) {
            if (err != NULL) err->record = index;
            return status;
        }
    }
    return RS_OK;
}

static rs_status check_places(const rs_store *store, const rs_block *block, rs_error *err) {
    const rs_tree *tree = &store->trees[block->tree];
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        const rs_node *node = &tree->nodes[i];
        if (rs_node_is_placed(node)) RS_TRY(rs_placed_check(&block->placed[node->placed], node, err));
    }
    return RS_OK;
}

/* Checks every entry of a value table like a record. */
static rs_status check_entries(const check *self, const rs_table *table, rest *left, rs_error *err) {
    const rs_store *store = self->store;
    for (uint32_t i = 0; i < table->block.n_records; i++) {
        rs_record entry = {.block = &table->block, .tree = table->tree, .local = i};
        RS_TRY(rs_offsets_locate(store->segment.ptr, &table->block, i, &entry.bytes, err));
        rs_cursor cursor = rs_store_cursor(store, &entry);
        cursor.shared = true;
        RS_TRY(check_one(self, &cursor, table->tree, left, err));
    }
    return RS_OK;
}

static uint64_t times(uint64_t n, uint64_t factor) { return n > UINT64_MAX / factor ? UINT64_MAX : n * factor; }

static rs_status check_tables(const check *self, rs_error *err) {
    rs_store *store = self->store;
    rest left = {times(store->header.most_values, RS_FMT_TABLE_LEVELS),
                 times(store->header.most_bytes, RS_FMT_TABLE_LEVELS)};
    RS_TRY(check_section(self, &store->directory.sections[RS_FMT_SECTION_TABLES], RS_FMT_SECTION_TABLES, err));
    for (uint64_t i = 0; i < store->n_tables; i++) {
        const rs_table *table = &store->tables[i];
        RS_TRY(rs_store_load_table(store, (uint32_t)i, err));
        RS_TRY(check_crc(self, table->block.heap_off, table->block.heap_size_bytes, table->block.heap_crc, "table",
                         err));
        if (table->kind == RS_FMT_TABLE_VALUES) RS_TRY(check_entries(self, table, &left, err));
    }
    return RS_OK;
}

static rs_status check_store(const check *self, rs_error *err) {
    rs_store *store = self->store;
    rest left = {store->header.most_values, store->header.most_bytes};
    uint64_t next = 0;
    for (unsigned kind = RS_FMT_SECTION_OFFSETS; kind <= RS_FMT_SECTION_TREE_TABLE; kind++) {
        RS_TRY(check_section(self, &store->directory.sections[kind], kind, err));
    }
    if (store->directory.label.off != 0) {
        RS_TRY(check_section(self, &store->directory.label, RS_FMT_SECTION_LABEL, err));
    }
    for (uint64_t i = 0; i < store->directory.n_saved_indexes; i++) {
        RS_TRY(check_section(self, &store->directory.saved_indexes[i], RS_FMT_SECTION_SAVED_INDEX, err));
    }
    if (store->n_tables > 0) RS_TRY(check_tables(self, err));
    for (uint64_t i = 0; i < store->n_trees; i++) RS_TRY(rs_store_load_tree(store, (uint32_t)i, err));
    for (uint64_t i = 0; i < store->n_blocks; i++) {
        const rs_block *block = &store->blocks[i];
        RS_TRY(rs_store_load_block(store, i, err));
        if (block->first_record != next) {
            return rs_error_set(err, RS_E_FMT_BLOCK, store->directory.sections[RS_FMT_SECTION_BLOCKS].off,
                                "block %llu begins at record %llu, not %llu", (unsigned long long)i,
                                (unsigned long long)block->first_record, (unsigned long long)next);
        }
        next += block->n_records;
        if (next > store->header.n_records) break;
        RS_TRY(check_crc(self, block->heap_off, block->heap_size_bytes, block->heap_crc, "heap", err));
        RS_TRY(check_crc(self, block->arrays_off, block->arrays_size_bytes, block->arrays_crc, "arrays", err));
        RS_TRY(check_places(store, block, err));
        RS_TRY(check_records(self, block, &left, err));
    }
    if (next != store->header.n_records) {
        return rs_error_set(err, RS_E_FMT_BLOCK, store->directory.sections[RS_FMT_SECTION_BLOCKS].off,
                            "the blocks hold %llu records, the header says %llu", (unsigned long long)next,
                            (unsigned long long)store->header.n_records);
    }
    return RS_OK;
}

/* Checks the keys of a mapping: their store, the checksums of KEY_INDEX and ORDER, and the key index. */
static rs_status check_mapping(const check *values, rs_error *err) {
    rs_mapping mapping;
    check keys = *values;
    RS_TRY(rs_mapping_open(&mapping, values->store, err));
    keys.store = &mapping.keys;
    const rs_section *index = &mapping.keys.directory.sections[RS_FMT_SECTION_KEY_INDEX];
    const rs_section *order = &mapping.keys.directory.sections[RS_FMT_SECTION_ORDER];
    rs_status status = check_store(&keys, err);
    if (status == RS_OK) status = check_section(values, index, RS_FMT_SECTION_KEY_INDEX, err);
    if (status == RS_OK && order->off != 0) status = check_section(values, order, RS_FMT_SECTION_ORDER, err);
    if (status == RS_OK) status = rs_verify_keys(&mapping, values->watch, err);
    rs_mapping_close(&mapping);
    return status;
}

rs_status rs_verify_segment(rs_slice segment, const rs_limits *limits, rs_watch *watch, rs_error *err) {
    rs_store store;
    const check all = {&store, watch};
    RS_TRY(rs_store_open(&store, segment, limits, err));
    rs_status status = check_store(&all, err);
    if (status == RS_OK) status = rs_verify_saved_indexes(&store, watch, err);
    if (status == RS_OK && store.header.content == RS_FMT_CONTENT_MAPPING) status = check_mapping(&all, err);
    rs_store_close(&store);
    return status;
}
