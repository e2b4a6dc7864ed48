/* readers.c: reads records, sizes, keys and saved indexes. */
#include "readers.h"

#include "rs_raw.h"

/* Checks one record. If rs_check_record accepts it, rs_raw.h must turn it into a valid any value, and ends the process
 * if it cannot. Only keys of a map may be invalid, because Python checks them. */
static void read_record(rs_store *store, uint64_t index, rs_buffer *raw) {
    rs_record record;
    rs_budget budget = {.values = UINT64_MAX, .bytes = UINT64_MAX, .depth = 1000};
    rs_error err;
    if (rs_store_find(store, index, &record, NULL) != RS_OK) return;
    rs_cursor cursor = rs_store_cursor(store, &record);
    if (rs_check_record(&cursor, record.tree, NULL, NULL) != RS_OK) return;
    cursor = rs_store_cursor(store, &record);
    raw->size_bytes = 0;
    raw_alone(&cursor, record.tree->nodes, raw);
    rs_slice in = rs_slice_of(raw->data, raw->size_bytes);
    if (rs_any_skip(&in, UINT64_MAX, &budget, &err) == RS_OK) FUZZ_MUST(in.ptr == in.end);
    else FUZZ_MUST(strcmp(err.message, "a dict has a key that cannot be hashed") == 0);
}

void fuzz_read_records(rs_store *store) {
    rs_buffer raw = {0};
    for (uint64_t k = 0; k < fuzz_records(store); k++) read_record(store, fuzz_record(store, k), &raw);
    rs_buffer_clear(&raw);
}

static bool load_all(rs_store *store) {
    for (uint64_t i = 0; i < store->n_tables; i++) {
        if (rs_store_load_table(store, (uint32_t)i, NULL) != RS_OK) return false;
    }
    for (uint64_t i = 0; i < store->n_trees; i++) {
        if (rs_store_load_tree(store, (uint32_t)i, NULL) != RS_OK) return false;
    }
    for (uint64_t i = 0; i < store->n_blocks; i++) {
        if (rs_store_load_block(store, i, NULL) != RS_OK) return false;
    }
    return true;
}

void fuzz_read_sizes(rs_store *store) {
    uint64_t max_nodes = 1;
    if (!fuzz_is_small(store) || store->n_trees == 0 || !load_all(store)) return;
    for (uint64_t i = 0; i < store->n_trees; i++)
        max_nodes = store->trees[i].n_nodes > max_nodes ? store->trees[i].n_nodes : max_nodes;
    rs_node_size *sizes = (rs_node_size *)calloc((size_t)max_nodes, sizeof *sizes);
    FUZZ_MUST(sizes != NULL);
    for (uint64_t i = 0; i < store->n_blocks; i++) {
        if (store->blocks[i].n_records > FUZZ_VALUES) continue; /* nothing else limits the time for all blocks */
        if (rs_node_sizes_add_block(store, &store->blocks[i], sizes, NULL) != RS_OK) break;
    }
    for (uint64_t i = 0; i < store->n_tables; i++) {
        if (store->tables[i].kind != RS_FMT_TABLE_VALUES) continue;
        if (rs_node_sizes_add_table(store, &store->tables[i], sizes, NULL) != RS_OK) break;
    }
    free(sizes);
}

static void compare_key(rs_store *keys, uint64_t record, rs_scalar *scalar) {
    static const uint8_t text[] = "key";
    rs_store_scalar(keys, record, scalar);
    if (scalar->kind == RS_SCALAR_STR) {
        /* A str equals itself, because both sides read its units in the same way. */
        FUZZ_MUST(rs_store_key_equals_str(keys, record, scalar->unit_bytes, scalar->n != 0 ? scalar->units : text,
                                          scalar->n) != RS_KEY_DIFFERS);
    } else if (scalar->kind == RS_SCALAR_INT) {
        FUZZ_MUST(rs_store_key_equals_int(keys, record, scalar->integer) != RS_KEY_DIFFERS);
    }
    if (rs_store_key_equals_str(keys, record, 1, text, 3) == RS_KEY_EQUAL) FUZZ_MUST(scalar->kind == RS_SCALAR_STR);
    if (rs_store_key_equals_int(keys, record, 7) == RS_KEY_EQUAL) FUZZ_MUST(scalar->kind == RS_SCALAR_INT);
}

/* Compares the key of each candidate of a lookup. */
static void look_up(rs_mapping *mapping, uint64_t hash, rs_scalar *scalar) {
    uint64_t entry, key, value;
    if (mapping->index.n_slots == 0) return;
    rs_keys_prefetch(&mapping->index, hash);
    rs_key_probe probe = rs_key_probe_begin(&mapping->index, hash);
    for (uint64_t steps = 0; steps < 1000; steps++) {
        if (rs_key_probe_next(&mapping->index, &probe, &entry, NULL) != RS_OK || entry == RS_NOWHERE) return;
        FUZZ_MUST(entry < mapping->n_entries);
        if (rs_mapping_records(mapping, entry, &key, &value, NULL) == RS_OK) compare_key(&mapping->keys, key, scalar);
    }
}

void fuzz_read_keys(rs_store *values, uint64_t seed) {
    rs_mapping mapping;
    rs_scalar scalar;
    uint64_t entry, key, value;
    if (rs_mapping_open(&mapping, values, NULL) != RS_OK) return;
    uint64_t n = mapping.n_entries < FUZZ_RECORDS ? mapping.n_entries : FUZZ_RECORDS;
    for (uint64_t i = 0; i < n; i++) {
        if (rs_mapping_records(&mapping, i, &key, &value, NULL) != RS_OK) continue;
        FUZZ_MUST(key < values->header.n_records && value < values->header.n_records);
        rs_store_prefetch_offsets(&mapping.keys, key);
        rs_store_prefetch(&mapping.keys, key);
        compare_key(&mapping.keys, key, &scalar);
        if (scalar.kind == RS_SCALAR_INT) {
            look_up(&mapping, rs_keys_hash_int(mapping.index.seed, scalar.integer), &scalar);
        } else if (scalar.kind == RS_SCALAR_STR && scalar.unit_bytes == 1) {
            look_up(&mapping, rs_keys_hash_str(mapping.index.seed, 1, scalar.units, scalar.n), &scalar);
        }
        look_up(&mapping, fuzz_random(&seed), &scalar);
    }
    for (uint64_t i = 0; i < mapping.index.n_opaque && i < FUZZ_RECORDS; i++) {
        if (rs_keys_opaque_entry(&mapping.index, i, &entry, NULL) == RS_OK) FUZZ_MUST(entry < mapping.n_entries);
    }
    if (fuzz_is_small(&mapping.keys)) fuzz_any(rs_verify_keys(&mapping, NULL, NULL));
    fuzz_read_records(&mapping.keys);
    rs_mapping_close(&mapping);
}

static void read_saved(const rs_saved_index *index, const rs_store *store) {
    uint64_t begin, end, record, last;
    for (uint64_t entry = 0; entry < index->index.n_entries && entry < FUZZ_RECORDS; entry++) {
        if (index->kind == RS_FMT_SAVED_GROUPS) {
            if (rs_saved_index_group(index, entry, &begin, &end, NULL) != RS_OK) continue;
            for (; begin < end && end - begin < FUZZ_VALUES; begin++) {
                if (rs_saved_index_row(index, begin, &record, NULL) != RS_OK) break;
                FUZZ_MUST(record < store->header.n_records);
            }
        } else if (rs_saved_index_records(index, entry, &record, &last, NULL) == RS_OK) {
            FUZZ_MUST(record < store->header.n_records && last < store->header.n_records);
        }
    }
}

void fuzz_read_saved(rs_store *store) {
    for (uint32_t i = 0; i < store->directory.n_saved_indexes; i++) {
        rs_saved_index index;
        uint64_t entry;
        if (rs_saved_index_open(store->segment, &store->directory.saved_indexes[i], store->header.n_records, &index,
                                NULL) != RS_OK) {
            continue;
        }
        read_saved(&index, store);
        if (index.index.n_slots == 0) continue;
        rs_key_probe probe = rs_key_probe_begin(&index.index, rs_keys_hash_int(index.index.seed, i));
        fuzz_any(rs_key_probe_next(&index.index, &probe, &entry, NULL));
    }
    fuzz_any(rs_verify_saved_indexes(store, NULL, NULL));
}

void fuzz_read_all(rs_store *store, uint64_t seed) {
    fuzz_read_records(store);
    fuzz_read_sizes(store);
    fuzz_read_paths(store, seed);
    fuzz_read_columns(store, seed);
    fuzz_read_gathers(store, seed);
    fuzz_read_arrow(store, seed);
    fuzz_read_keys(store, seed);
    fuzz_read_saved(store);
}
