/* rs_store.c: reading side: caches of blocks and compiled trees, filled when first needed. */
#include "rs_store.h"

#include <stdlib.h>

#include "rs_crc.h"

rs_status rs_store_open(rs_store *self, rs_slice bytes, const rs_limits *limits, rs_error *err) {
    memset(self, 0, sizeof *self);
    RS_TRY(rs_header_read(bytes, limits, &self->header, err));
    bytes.end = bytes.ptr + self->header.segment_size;
    RS_TRY(rs_directory_read(bytes, &self->header, &self->directory, err));
    self->segment = bytes;
    self->groups = bytes.ptr + self->directory.sections[RS_FMT_SECTION_GROUPS].off;
    self->n_blocks = self->directory.sections[RS_FMT_SECTION_BLOCKS].count;
    self->n_trees = self->directory.sections[RS_FMT_SECTION_TREE_TABLE].count;
    /* calloc of a large table touches no page of it, so opening stays constant in time. */
    self->blocks = (rs_block *)calloc((size_t)self->n_blocks + 1, sizeof *self->blocks);
    self->trees = (rs_tree *)calloc((size_t)self->n_trees + 1, sizeof *self->trees);
    if (self->blocks == NULL || self->trees == NULL) {
        rs_store_close(self);
        return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "no memory to open a store");
    }
    return RS_OK;
}

void rs_store_close(rs_store *self) {
    uint64_t i;
    if (self->trees != NULL) {
        for (i = 0; i < self->n_trees; i++) rs_tree_clear(&self->trees[i]);
    }
    free(self->trees);
    free(self->blocks);
    memset(self, 0, sizeof *self);
}

rs_status rs_store_load_tree(rs_store *self, uint32_t number, rs_error *err) {
    const rs_section *table = &self->directory.sections[RS_FMT_SECTION_TREE_TABLE];
    const rs_section *section = &self->directory.sections[RS_FMT_SECTION_TREES];
    uint64_t at = table->off + (uint64_t)number * RS_FMT_TREE_ENTRY_SIZE;
    const uint8_t *e = self->segment.ptr + at;
    uint64_t off = rs_load_u64(e);
    uint32_t size = rs_load_u32(e + 8), crc = rs_load_u32(e + 12);
    rs_tree tree;
    if (self->trees[number].nodes != NULL) return RS_OK;
    if (off % 8 != 0 || off > section->size_bytes || size > section->size_bytes - off) {
        return rs_error_set(err, RS_E_FMT_TREE, at, "tree %u lies outside its section", number);
    }
    off += section->off;
    RS_TRY(rs_tree_compile(rs_slice_of(self->segment.ptr + off, size), off, &tree, err));
    /* Over the copy that was compiled, so that a change in between cannot pass. */
    if (rs_crc32c(0, tree.bytes, tree.size_bytes) != crc) {
        rs_tree_clear(&tree);
        return rs_error_set(err, RS_E_FMT_CHECKSUM, off, "the checksum of tree %u does not match", number);
    }
    self->trees[number] = tree;
    return RS_OK;
}

rs_status rs_store_load_block(rs_store *self, uint64_t number, rs_error *err) {
    rs_block block;
    if (self->blocks[number].n_records != 0) return RS_OK;
    RS_TRY(rs_block_read(self->segment, &self->directory, number, &block, err));
    RS_TRY(rs_store_load_tree(self, block.tree, err));
    self->blocks[number] = block;
    return RS_OK;
}

rs_status rs_store_find_slowly(rs_store *self, uint64_t index, uint64_t block, rs_record *out, rs_error *err) {
    uint64_t first = block, steps;
    for (steps = 0; steps < RS_FMT_GROUP_RECORDS && block < self->n_blocks; steps++, block++) {
        const rs_block *b;
        RS_TRY(rs_store_load_block(self, block, err));
        b = &self->blocks[block];
        if (index < b->first_record) break;
        if (index - b->first_record < b->n_records) {
            out->block = b;
            out->tree = &self->trees[b->tree];
            return rs_offsets_locate(self->segment.ptr, b, (uint32_t)(index - b->first_record), &out->bytes, err);
        }
    }
    return rs_error_set(err, RS_E_FMT_BLOCK,
                        self->directory.sections[RS_FMT_SECTION_GROUPS].off + index / RS_FMT_GROUP_RECORDS * 4,
                        "record %llu is not where its group says, in block %llu", (unsigned long long)index,
                        (unsigned long long)first);
}
