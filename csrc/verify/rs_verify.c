/* rs_verify.c: the deep check of a segment. */
#include "verify/rs_verify.h"

#include "base/rs_crc.h"
#include "format/rs_node_kinds.h"
#include "verify/rs_check.h"

static rs_status check_crc(const rs_store *store, uint64_t off, uint64_t size, uint32_t crc, const char *what,
                           rs_error *err) {
    if (rs_crc32c(0, store->segment.ptr + off, (size_t)size) == crc) return RS_OK;
    return rs_error_set(err, RS_E_FMT_CHECKSUM, off, "the checksum of the %s at %llu does not match", what,
                        (unsigned long long)off);
}

static rs_status check_section(const rs_store *store, const rs_section *section, unsigned kind, rs_error *err) {
    return check_crc(store, section->off, section->size_bytes, section->crc, rs_section_name(kind), err);
}

static rs_status check_records(rs_store *store, const rs_block *block, rs_error *err) {
    uint32_t i;
    for (i = 0; i < block->n_records; i++) {
        uint64_t index = block->first_record + i;
        rs_record record;
        rs_cursor cursor;
        rs_status status = rs_store_find(store, index, &record, err);
        if (status == RS_OK && record.block != block) {
            status = rs_error_set(err, RS_E_FMT_BLOCK, RS_NOWHERE, "GROUPS leads to another block");
        }
        if (status == RS_OK) {
            cursor = rs_store_cursor(store, &record);
            status = rs_check_record(&cursor, record.tree, err);
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

/* Checks every entry of a value table, as a record is checked. */
static rs_status check_entries(const rs_store *store, const rs_table *table, rs_error *err) {
    uint32_t i;
    for (i = 0; i < table->block.n_records; i++) {
        rs_record entry;
        rs_cursor cursor;
        entry.block = &table->block;
        entry.tree = table->tree;
        RS_TRY(rs_offsets_locate(store->segment.ptr, &table->block, i, &entry.bytes, err));
        cursor = rs_store_cursor(store, &entry);
        cursor.shared = true;
        RS_TRY(rs_check_record(&cursor, table->tree, err));
    }
    return RS_OK;
}

static rs_status check_tables(rs_store *store, rs_error *err) {
    uint64_t i;
    RS_TRY(check_section(store, &store->directory.sections[RS_FMT_SECTION_TABLES], RS_FMT_SECTION_TABLES, err));
    for (i = 0; i < store->n_tables; i++) {
        const rs_table *table = &store->tables[i];
        RS_TRY(rs_store_load_table(store, (uint32_t)i, err));
        RS_TRY(check_crc(store, table->block.heap_off, table->block.heap_size_bytes, table->block.heap_crc, "table",
                         err));
        if (table->kind == RS_FMT_TABLE_VALUES) RS_TRY(check_entries(store, table, err));
    }
    return RS_OK;
}

static rs_status check_store(rs_store *store, rs_error *err) {
    uint64_t i, next = 0;
    unsigned kind;
    for (kind = RS_FMT_SECTION_OFFSETS; kind <= RS_FMT_SECTION_TREE_TABLE; kind++) {
        RS_TRY(check_section(store, &store->directory.sections[kind], kind, err));
    }
    if (store->directory.label.off != 0) {
        RS_TRY(check_section(store, &store->directory.label, RS_FMT_SECTION_LABEL, err));
    }
    for (i = 0; i < store->directory.n_saved_indexes; i++) {
        RS_TRY(check_section(store, &store->directory.saved_indexes[i], RS_FMT_SECTION_SAVED_INDEX, err));
    }
    if (store->n_tables > 0) RS_TRY(check_tables(store, err));
    for (i = 0; i < store->n_trees; i++) RS_TRY(rs_store_load_tree(store, (uint32_t)i, err));
    for (i = 0; i < store->n_blocks; i++) {
        const rs_block *block = &store->blocks[i];
        RS_TRY(rs_store_load_block(store, i, err));
        if (block->first_record != next) {
            return rs_error_set(err, RS_E_FMT_BLOCK, store->directory.sections[RS_FMT_SECTION_BLOCKS].off,
                                "block %llu begins at record %llu, not %llu", (unsigned long long)i,
                                (unsigned long long)block->first_record, (unsigned long long)next);
        }
        next += block->n_records;
        if (next > store->header.n_records) break;
        RS_TRY(check_crc(store, block->heap_off, block->heap_size_bytes, block->heap_crc, "heap", err));
        RS_TRY(check_crc(store, block->arrays_off, block->arrays_size_bytes, block->arrays_crc, "arrays", err));
        RS_TRY(check_records(store, block, err));
    }
    if (next != store->header.n_records) {
        return rs_error_set(err, RS_E_FMT_BLOCK, store->directory.sections[RS_FMT_SECTION_BLOCKS].off,
                            "the blocks hold %llu records, the header says %llu", (unsigned long long)next,
                            (unsigned long long)store->header.n_records);
    }
    return RS_OK;
}

/* Checks the keys of a mapping: their store, the checksums of KEY_INDEX and ORDER, and the key index. */
static rs_status check_mapping(const rs_store *values, rs_error *err) {
    rs_mapping mapping;
    rs_status status;
    const rs_section *index, *order;
    RS_TRY(rs_mapping_open(&mapping, values, err));
    index = &mapping.keys.directory.sections[RS_FMT_SECTION_KEY_INDEX];
    order = &mapping.keys.directory.sections[RS_FMT_SECTION_ORDER];
    status = check_store(&mapping.keys, err);
    if (status == RS_OK) status = check_section(values, index, RS_FMT_SECTION_KEY_INDEX, err);
    if (status == RS_OK && order->off != 0) status = check_section(values, order, RS_FMT_SECTION_ORDER, err);
    if (status == RS_OK) status = rs_verify_keys(&mapping, err);
    rs_mapping_close(&mapping);
    return status;
}

rs_status rs_verify_segment(rs_slice segment, const rs_limits *limits, rs_error *err) {
    rs_store store;
    rs_status status;
    RS_TRY(rs_store_open(&store, segment, limits, err));
    status = check_store(&store, err);
    if (status == RS_OK) status = rs_verify_saved_indexes(&store, err);
    if (status == RS_OK && store.header.content == RS_FMT_CONTENT_MAPPING) status = check_mapping(&store, err);
    rs_store_close(&store);
    return status;
}
