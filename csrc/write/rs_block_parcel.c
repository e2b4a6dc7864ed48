/* rs_block_parcel.c: takes written blocks out of a worker's segment, and places them in the builder's. */
#include "write/rs_block_parcel.h"

#include "base/rs_crc.h"
#include "format/rs_schema.h"
#include "format/rs_tables.h"

/* The functions that read and check a segment's sections also read those of a parcel. A parcel begins with a head of
 * u64 numbers: the heap's bytes, the number of stores, then N_FIELDS for each store. The heap follows at HEAD_SIZE,
 * then OFFSETS, BLOCKS, TABLES, TREE_TABLE and TREES of each store. Offsets in BLOCKS and TABLES count from the start
 * of the parcel, offsets in TREE_TABLE from the start of TREES. Tables and trees have their numbers in the shard. */
enum { HEAD_SIZE = 256 };
typedef enum field {
    OFFSETS_BYTES,
    N_BLOCKS,
    N_TABLES,
    N_TREES,
    TREES_BYTES,
    MAX_VALUES,
    MAX_BYTES,
    MAX_DEPTH,
    FEATURES,
    RAW_SIZE,
    N_VALUES,
    N_FIELDS
} field;
RS_STATIC_ASSERT(16 + 8 * N_FIELDS * RS_BLOCK_PARCEL_STORES <= HEAD_SIZE, "the head has room");
RS_STATIC_ASSERT(HEAD_SIZE % RS_FMT_ALIGNMENT == 0, "heaps keep their alignment");

/* ---- Taking ---- */

/* Returns the offset of the store's first tree that has not been taken. */
static size_t untaken_trees_off(const rs_block_encoding *encoding) {
    if (encoding->taken_trees == encoding->n_trees) return encoding->trees.size_bytes;
    return (size_t)rs_load_u64(encoding->tree_table.data + (size_t)encoding->taken_trees * RS_FMT_TREE_ENTRY_SIZE);
}

static void put_head(const rs_builder *store, uint64_t *numbers) {
    const rs_block_encoding *encoding = &store->out.encoding;
    numbers[OFFSETS_BYTES] = store->out.offsets.size_bytes;
    numbers[N_BLOCKS] = rs_builder_n_blocks(store);
    numbers[N_TABLES] = rs_dictionaries_n_tables(&encoding->dictionaries) - encoding->taken_tables;
    numbers[N_TREES] = encoding->n_trees - encoding->taken_trees;
    numbers[TREES_BYTES] = rs_align_up(encoding->trees.size_bytes - untaken_trees_off(encoding), 8);
    numbers[MAX_VALUES] = store->scan.max_values;
    numbers[MAX_BYTES] = store->scan.max_bytes;
    numbers[MAX_DEPTH] = store->scan.max_depth;
    numbers[FEATURES] = store->features_required | store->scan.features;
    numbers[RAW_SIZE] = store->out.raw_size;
    numbers[N_VALUES] = store->scan.n_values;
}

/* Appends the bytes of `from` without the first `skip`. */
static rs_status append_rest(rs_buffer *out, const rs_buffer *from, size_t skip, rs_error *err) {
    if (from->size_bytes == skip) return RS_OK;
    return rs_buffer_append(out, from->data + skip, from->size_bytes - skip, err);
}

/* Appends the block or table entries after the first `skip` bytes. Makes their offsets, which count from the start of
 * the segment or of OFFSETS, count from the start of the parcel. */
static rs_status take_entries(const rs_buffer *entries, size_t skip, uint64_t offsets_at, rs_buffer *out,
                              rs_error *err) {
    size_t begin = out->size_bytes;
    const uint64_t heap = (uint64_t)HEAD_SIZE - RS_FMT_HEADER_SIZE; /* modulo 2^64 */
    RS_TRY(append_rest(out, entries, skip, err));
    rs_offsets_move(rs_buffer_at(out, begin), out->size_bytes - begin, heap, offsets_at);
    return RS_OK;
}

static rs_status take_store(rs_builder *store, uint64_t heap_size, size_t begin, rs_buffer *out, rs_error *err) {
    rs_block_encoding *encoding = &store->out.encoding;
    size_t from = untaken_trees_off(encoding);
    uint64_t offsets_at = out->size_bytes - begin;
    RS_TRY(append_rest(out, &store->out.offsets, 0, err));
    RS_TRY(take_entries(&store->out.blocks, 0, offsets_at, out, err));
    RS_TRY(take_entries(&encoding->dictionaries.tables, (size_t)encoding->taken_tables * RS_FMT_BLOCK_SIZE, offsets_at,
                        out, err));
    size_t i = out->size_bytes;
    RS_TRY(append_rest(out, &encoding->tree_table, (size_t)encoding->taken_trees * RS_FMT_TREE_ENTRY_SIZE, err));
    for (; i < out->size_bytes; i += RS_FMT_TREE_ENTRY_SIZE) {
        rs_store_u64(out->data + i, rs_load_u64(out->data + i) - from);
    }
    RS_TRY(append_rest(out, &encoding->trees, from, err));
    /* The offsets of the next store are aligned. */
    RS_TRY(rs_buffer_append_zeros(
        out, (size_t)(rs_align_up(encoding->trees.size_bytes - from, 8)) - (encoding->trees.size_bytes - from), err));
    /* The encoding compares sizes, so they must not shrink. */
    encoding->taken_bytes += heap_size + store->out.offsets.size_bytes;
    encoding->taken_tables = rs_dictionaries_n_tables(&encoding->dictionaries);
    encoding->taken_trees = encoding->n_trees;
    store->out.offsets.size_bytes = store->out.blocks.size_bytes = store->out.groups.size_bytes = 0;
    store->out.raw_size = 0;
    store->scan.n_values = 0;
    return RS_OK;
}

static rs_status take_heap(const rs_segment_writer *writer, rs_buffer *out, rs_error *err) {
    const uint8_t *data;
    if (writer->position == RS_FMT_HEADER_SIZE) return RS_OK;
    RS_TRY(rs_os_map(writer->fd, writer->position, &data, err));
    rs_status status =
        rs_buffer_append(out, data + RS_FMT_HEADER_SIZE, (size_t)writer->position - RS_FMT_HEADER_SIZE, err);
    rs_os_unmap(data, writer->position);
    return status;
}

static rs_status take_all(rs_builder *const *stores, unsigned n, rs_buffer *out, rs_error *err) {
    rs_segment_writer *writer = stores[0]->writer;
    uint64_t numbers[HEAD_SIZE / 8] = {0};
    size_t begin = out->size_bytes;
    unsigned i;
    RS_TRY(rs_segment_writer_align(writer, RS_FMT_ALIGNMENT, err));
    numbers[0] = writer->position - RS_FMT_HEADER_SIZE;
    numbers[1] = n;
    for (i = 0; i < n; i++) put_head(stores[i], numbers + 2 + (size_t)i * N_FIELDS);
    for (i = 0; i < n; i++) {
        if (numbers[2 + i * N_FIELDS + N_BLOCKS] != 0) break;
    }
    if (i == n && numbers[0] == 0) return RS_OK;
    RS_TRY(rs_buffer_append(out, numbers, sizeof numbers, err));
    RS_TRY(take_heap(writer, out, err));
    for (i = 0; i < n; i++) RS_TRY(take_store(stores[i], numbers[0], begin, out, err));
    return rs_segment_writer_rewind(writer, RS_FMT_HEADER_SIZE, err);
}

rs_status rs_block_parcel_take(rs_builder *const *stores, unsigned n, rs_buffer *out, rs_error *err) {
    rs_pipeline *pipeline = stores[0]->pipeline;
    RS_ASSERT(n >= 1 && n <= RS_BLOCK_PARCEL_STORES);
    if (pipeline == NULL) return take_all(stores, n, out, err);
    RS_TRY(rs_pipeline_status(pipeline, err));
    rs_pipeline_hold(pipeline);
    rs_status status = take_all(stores, n, out, err);
    rs_pipeline_release(pipeline);
    return status;
}

/* ---- Placing ---- */

/* The part of a parcel that belongs to one store. Borrows the parcel. */
typedef struct part {
    uint64_t numbers[N_FIELDS];
    rs_directory directory; /* of sections within the parcel */
    const uint8_t *tree_table, *trees;
    uint64_t features; /* that the trees need */
    rs_buffer placed;  /* the bytes of the trees, with the builder's table numbers */
} part;

void rs_placing_clear(rs_placing *self) {
    rs_buffer_clear(&self->trees);
    memset(self, 0, sizeof *self);
}

static rs_status contradiction(rs_error *err) {
    return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a parcel of blocks contradicts itself");
}

/* Takes the section of `count` elements of `size` bytes at *at. */
static bool take_section(rs_slice packed, uint64_t count, uint64_t size, uint64_t *at, rs_section *out) {
    if (count > (rs_slice_left(&packed) - *at) / size) return false;
    out->off = *at;
    out->count = count;
    out->size_bytes = count * size;
    *at += out->size_bytes;
    return true;
}

static bool open_part(rs_slice packed, const rs_section *heap, const rs_placing *placing, uint64_t *at, part *out) {
    rs_section *sections = out->directory.sections, trees;
    const uint64_t *numbers = out->numbers;
    sections[RS_FMT_SECTION_HEAP] = *heap;
    if (numbers[OFFSETS_BYTES] % 8 != 0 ||
        !take_section(packed, numbers[OFFSETS_BYTES], 1, at, &sections[RS_FMT_SECTION_OFFSETS]) ||
        !take_section(packed, numbers[N_BLOCKS], RS_FMT_BLOCK_SIZE, at, &sections[RS_FMT_SECTION_BLOCKS]) ||
        !take_section(packed, numbers[N_TABLES], RS_FMT_BLOCK_SIZE, at, &sections[RS_FMT_SECTION_TABLES]) ||
        !take_section(packed, numbers[N_TREES], RS_FMT_TREE_ENTRY_SIZE, at, &sections[RS_FMT_SECTION_TREE_TABLE]) ||
        !take_section(packed, numbers[TREES_BYTES], 1, at, &trees)) {
        return false;
    }
    out->tree_table = packed.ptr + sections[RS_FMT_SECTION_TREE_TABLE].off;
    out->trees = packed.ptr + trees.off;
    sections[RS_FMT_SECTION_TREE_TABLE].count += placing->trees.size_bytes / 4; /* the trees of earlier parcels */
    return numbers[N_BLOCKS] <= UINT32_MAX && numbers[N_TABLES] <= UINT32_MAX - placing->n_tables &&
           placing->n_tables + numbers[N_TABLES] <= UINT32_MAX - (uint64_t)placing->first_table &&
           numbers[MAX_DEPTH] <= RS_FMT_DEPTH && (numbers[FEATURES] & ~RS_FMT_FEATURES_KNOWN) == 0;
}

/* Replaces the shard's table numbers in a tree with the builder's. */
static bool shift_tables(const rs_placing *placing, uint64_t n_tables, rs_tree *tree) {
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        const rs_node *node = &tree->nodes[i];
        uint8_t *aux = tree->bytes + (node->aux_size_bytes == 0 ? 0 : node->aux - tree->bytes);
        if (!rs_node_names_tables(node)) continue;
        for (size_t k = 0; k + 4 <= node->aux_size_bytes; k += 4) {
            uint32_t number = rs_load_u32(aux + k);
            if (number >= n_tables) return false;
            rs_store_u32(aux + k, placing->first_table + number);
        }
    }
    return true;
}

static rs_status check_tree(const rs_placing *placing, uint64_t number, part *p, rs_error *err) {
    const uint8_t *e = p->tree_table + number * RS_FMT_TREE_ENTRY_SIZE;
    uint64_t off = rs_load_u64(e), size = rs_load_u32(e + 8);
    rs_tree tree;
    rs_status status = RS_OK;
    if (off > p->numbers[TREES_BYTES] || size > p->numbers[TREES_BYTES] - off ||
        rs_crc32c(0, p->trees + off, (size_t)size) != rs_load_u32(e + 12)) {
        return contradiction(err);
    }
    RS_TRY(rs_tree_compile(rs_slice_of(p->trees + off, (size_t)size), off, &tree, err));
    if (!shift_tables(placing, placing->n_tables + p->numbers[N_TABLES], &tree)) status = contradiction(err);
    p->features |= rs_tree_features(&tree);
    if (status == RS_OK) status = rs_buffer_append(&p->placed, tree.bytes, tree.size_bytes, err);
    rs_tree_clear(&tree);
    return status;
}

static rs_status check_part(rs_slice packed, const rs_placing *placing, part *p, rs_error *err) {
    rs_table table;
    rs_block block;
    for (uint64_t i = 0; i < p->numbers[N_TREES]; i++) RS_TRY(check_tree(placing, i, p, err));
    for (uint64_t i = 0; i < p->numbers[N_TABLES]; i++) {
        RS_TRY(rs_table_read(packed, &p->directory, (uint32_t)i, &table, err));
    }
    for (uint64_t i = 0; i < p->numbers[N_BLOCKS]; i++) RS_TRY(rs_block_read(packed, &p->directory, i, &block, err));
    return RS_OK;
}

static rs_status open_parcel(rs_slice packed, const rs_placing *placings, unsigned n, part *parts, rs_section *heap,
                             rs_error *err) {
    uint64_t at = HEAD_SIZE;
    if (rs_slice_left(&packed) < HEAD_SIZE || rs_load_u64(packed.ptr + 8) != n) return contradiction(err);
    memset(heap, 0, sizeof *heap);
    if (!take_section(packed, rs_load_u64(packed.ptr), 1, &at, heap) || heap->size_bytes % RS_FMT_ALIGNMENT != 0) {
        return contradiction(err);
    }
    for (unsigned i = 0; i < n; i++) {
        memcpy(parts[i].numbers, packed.ptr + 16 + (size_t)i * sizeof parts[i].numbers, sizeof parts[i].numbers);
        if (!open_part(packed, heap, &placings[i], &at, &parts[i])) return contradiction(err);
    }
    if (at != rs_slice_left(&packed)) return contradiction(err);
    for (unsigned i = 0; i < n; i++) RS_TRY(check_part(packed, &placings[i], &parts[i], err));
    return RS_OK;
}

static rs_status place_trees(rs_builder *store, rs_placing *placing, const part *p, rs_error *err) {
    size_t at = 0;
    for (uint64_t i = 0; i < p->numbers[N_TREES]; i++) {
        size_t size = rs_load_u32(p->tree_table + i * RS_FMT_TREE_ENTRY_SIZE + 8);
        uint32_t number;
        uint8_t bytes[4];
        RS_TRY(rs_block_encoding_add_tree(&store->out.encoding, p->placed.data + at, size, &number, err));
        rs_store_u32(bytes, number);
        RS_TRY(rs_buffer_append(&placing->trees, bytes, sizeof bytes, err));
        at += size;
    }
    return RS_OK;
}

/* Converts a checked entry of the parcel to one of the builder's store. `heap` is added to the offsets of heap and
 * arrays; the index offset counts from the start of OFFSETS again. */
static void move_entry(const rs_builder *store, const rs_placing *placing, const part *p, uint64_t heap,
                       rs_block *block) {
    block->tree = rs_load_u32(placing->trees.data + 4 * (size_t)block->tree);
    block->heap_off += heap;
    block->arrays_off += heap;
    if (block->index_width != 0) {
        block->index_off += store->out.offsets.size_bytes - p->directory.sections[RS_FMT_SECTION_OFFSETS].off;
    }
}

static rs_status place_table(rs_slice packed, rs_builder *store, const rs_placing *placing, const part *p,
                             uint64_t number, uint64_t heap, rs_error *err) {
    uint8_t entry[RS_FMT_BLOCK_SIZE];
    rs_table table;
    RS_TRY(rs_table_read(packed, &p->directory, (uint32_t)number, &table, err));
    if (table.kind == RS_FMT_TABLE_SYMBOLS) {
        table.block.n_records = table.block.tree = 0;
        table.block.heap_off += heap;
        table.block.arrays_off += heap;
    } else {
        move_entry(store, placing, p, heap, &table.block);
    }
    rs_block_write(&table.block, entry);
    rs_store_u64(entry + RS_FMT_B_TABLE_KIND, table.kind);
    return rs_buffer_append(&store->out.encoding.dictionaries.tables, entry, sizeof entry, err);
}

static rs_status place_part(rs_slice packed, rs_builder *store, rs_placing *placing, const part *p, uint64_t heap,
                            rs_error *err) {
    const rs_section *offsets = &p->directory.sections[RS_FMT_SECTION_OFFSETS];
    rs_block block;
    RS_TRY(place_trees(store, placing, p, err));
    for (uint64_t i = 0; i < p->numbers[N_TABLES]; i++) RS_TRY(place_table(packed, store, placing, p, i, heap, err));
    for (uint64_t i = 0; i < p->numbers[N_BLOCKS]; i++) {
        RS_TRY(rs_block_read(packed, &p->directory, i, &block, err));
        move_entry(store, placing, p, heap, &block);
        block.first_record = store->n_records;
        RS_TRY(rs_block_writer_add_entry(&store->out, &block, err));
        store->n_records += block.n_records;
    }
    RS_TRY(rs_buffer_append(&store->out.offsets, packed.ptr + offsets->off, (size_t)offsets->size_bytes, err));
    placing->n_tables += (uint32_t)p->numbers[N_TABLES];
    store->features_required |= p->numbers[FEATURES] | p->features;
    rs_scan_raise(&store->scan, p->numbers[MAX_VALUES], p->numbers[MAX_BYTES], (uint32_t)p->numbers[MAX_DEPTH]);
    store->out.raw_size += p->numbers[RAW_SIZE];
    store->scan.n_values += p->numbers[N_VALUES];
    return RS_OK;
}

static rs_status place_all(rs_slice packed, rs_builder *const *stores, rs_placing *placings, unsigned n, part *parts,
                           rs_error *err) {
    rs_segment_writer *writer = stores[0]->writer;
    rs_section heap;
    RS_TRY(open_parcel(packed, placings, n, parts, &heap, err));
    RS_TRY(rs_segment_writer_align(writer, RS_FMT_ALIGNMENT, err));
    uint64_t shift = writer->position - HEAD_SIZE; /* modulo 2^64; the sum with an offset in the parcel is right */
    RS_TRY(rs_segment_writer_append(writer, packed.ptr + heap.off, (size_t)heap.size_bytes, err));
    for (unsigned i = 0; i < n; i++) RS_TRY(place_part(packed, stores[i], &placings[i], &parts[i], shift, err));
    return RS_OK;
}

rs_status rs_block_parcel_place(rs_slice packed, rs_builder *const *stores, rs_placing *placings, unsigned n,
                                rs_error *err) {
    part parts[RS_BLOCK_PARCEL_STORES];
    RS_ASSERT(n >= 1 && n <= RS_BLOCK_PARCEL_STORES);
    memset(parts, 0, sizeof parts);
    for (unsigned i = 0; i < n; i++) {
        RS_TRY(rs_builder_flush(stores[i], err));
        if (placings[i].begun) continue;
        placings[i].begun = true;
        placings[i].first_table = rs_dictionaries_n_tables(&stores[i]->out.encoding.dictionaries);
    }
    rs_status status = place_all(packed, stores, placings, n, parts, err);
    for (unsigned i = 0; i < n; i++) rs_buffer_clear(&parts[i].placed);
    return status;
}
