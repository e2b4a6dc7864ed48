/* rs_offsets.c: reads and writes block entries, and builds offset groups. */
#include "format/rs_offsets.h"

static bool inside(uint64_t off, uint64_t size, const rs_section *section) {
    return off >= section->off && off - section->off <= section->size_bytes &&
           size <= section->size_bytes - (off - section->off);
}

rs_status rs_block_read(rs_slice segment, const rs_directory *directory, uint64_t number, rs_block *out,
                        rs_error *err) {
    const rs_section *blocks = &directory->sections[RS_FMT_SECTION_BLOCKS];
    uint64_t at = blocks->off + number * RS_FMT_BLOCK_SIZE;
    uint8_t e[RS_FMT_BLOCK_SIZE];
    RS_ASSERT(number < blocks->count);
    memcpy(e, segment.ptr + at, sizeof e);
    return rs_block_parse(e, at, directory, out, err);
}

rs_status rs_block_parse(const uint8_t e[RS_FMT_BLOCK_SIZE], uint64_t at, const rs_directory *directory, rs_block *out,
                         rs_error *err) {
    const rs_section *heap = &directory->sections[RS_FMT_SECTION_HEAP];
    uint64_t index_size = 0, rows;
    out->first_record = rs_load_u64(e + RS_FMT_B_FIRST_RECORD);
    out->n_records = rs_load_u32(e + RS_FMT_B_N_RECORDS);
    out->tree = rs_load_u32(e + RS_FMT_B_TREE);
    out->heap_off = rs_load_u64(e + RS_FMT_B_HEAP_OFFSET);
    out->heap_size_bytes = rs_load_u64(e + RS_FMT_B_HEAP_SIZE);
    out->index_off = rs_load_u64(e + RS_FMT_B_INDEX_OFFSET);
    out->row_size_bytes = rs_load_u32(e + RS_FMT_B_ROW_SIZE);
    out->index_width = e[RS_FMT_B_INDEX_WIDTH];
    out->arrays_off = rs_load_u64(e + RS_FMT_B_ARRAYS_OFFSET);
    out->arrays_size_bytes = rs_load_u64(e + RS_FMT_B_ARRAYS_SIZE);
    out->heap_crc = rs_load_u32(e + RS_FMT_B_HEAP_CRC);
    out->arrays_crc = rs_load_u32(e + RS_FMT_B_ARRAYS_CRC);

    if (e[RS_FMT_B_RESERVED] != 0 || rs_load_u16(e + RS_FMT_B_RESERVED + 1) != 0 ||
        rs_load_u64(e + RS_FMT_B_RESERVED_2) != 0) {
        return rs_error_set(err, RS_E_FMT_RESERVED, at, "a reserved field of a block or table is not zero");
    }
    rows = (uint64_t)out->n_records * out->row_size_bytes; /* two numbers of 32 bits, so it cannot overflow */
    switch (out->index_width) {
    case 0:
        if (out->index_off != 0 || rows > out->heap_size_bytes) goto bad;
        break;
    case 2:
    case 4:
    case 8:
        index_size = ((uint64_t)out->n_records + RS_FMT_GROUP_RECORDS - 1) / RS_FMT_GROUP_RECORDS *
                     rs_offsets_group_size(out->index_width);
        if (out->row_size_bytes != 0 || out->index_off % 8 != 0 ||
            !inside(out->index_off, index_size, &directory->sections[RS_FMT_SECTION_OFFSETS])) {
            goto bad;
        }
        break;
    default: goto bad;
    }
    if (out->n_records == 0 || out->n_records > RS_FMT_BLOCK_RECORDS || out->first_record >= RS_FMT_RECORDS ||
        out->tree >= directory->sections[RS_FMT_SECTION_TREE_TABLE].count || out->heap_off % RS_FMT_ALIGNMENT != 0 ||
        out->arrays_off % RS_FMT_ALIGNMENT != 0 || !inside(out->heap_off, out->heap_size_bytes, heap) ||
        !inside(out->arrays_off, out->arrays_size_bytes, heap)) {
        goto bad;
    }
    return RS_OK;
bad:
    return rs_error_set(err, RS_E_FMT_BLOCK, at, "a block or table has a field out of range");
}

void rs_block_write(const rs_block *block, uint8_t out[RS_FMT_BLOCK_SIZE]) {
    memset(out, 0, RS_FMT_BLOCK_SIZE);
    rs_store_u64(out + RS_FMT_B_FIRST_RECORD, block->first_record);
    rs_store_u32(out + RS_FMT_B_N_RECORDS, block->n_records);
    rs_store_u32(out + RS_FMT_B_TREE, block->tree);
    rs_store_u64(out + RS_FMT_B_HEAP_OFFSET, block->heap_off);
    rs_store_u64(out + RS_FMT_B_HEAP_SIZE, block->heap_size_bytes);
    rs_store_u64(out + RS_FMT_B_INDEX_OFFSET, block->index_off);
    rs_store_u32(out + RS_FMT_B_ROW_SIZE, block->row_size_bytes);
    out[RS_FMT_B_INDEX_WIDTH] = (uint8_t)block->index_width;
    rs_store_u64(out + RS_FMT_B_ARRAYS_OFFSET, block->arrays_off);
    rs_store_u64(out + RS_FMT_B_ARRAYS_SIZE, block->arrays_size_bytes);
    rs_store_u32(out + RS_FMT_B_HEAP_CRC, block->heap_crc);
    rs_store_u32(out + RS_FMT_B_ARRAYS_CRC, block->arrays_crc);
}

rs_status rs_offsets_append(const uint64_t *ends, uint32_t n, rs_block *block, rs_buffer *out, rs_error *err) {
    uint64_t row = n > 0 ? ends[0] : 0, widest = 0;
    uint32_t i, w;
    bool equal = row <= UINT32_MAX;
    for (i = 0; i < n; i++) {
        uint64_t base = i < RS_FMT_GROUP_RECORDS ? 0 : ends[i / RS_FMT_GROUP_RECORDS * RS_FMT_GROUP_RECORDS - 1];
        if (ends[i] - base > widest) widest = ends[i] - base;
        equal = equal && ends[i] == row * (i + 1);
    }
    block->row_size_bytes = 0;
    block->index_width = 0;
    if (equal) {
        block->row_size_bytes = (uint32_t)row;
        return RS_OK;
    }
    w = widest <= UINT16_MAX ? 2 : widest <= UINT32_MAX ? 4 : 8;
    block->index_width = w;
    for (i = 0; i < n; i += RS_FMT_GROUP_RECORDS) {
        uint64_t base = i == 0 ? 0 : ends[i - 1];
        uint8_t *group;
        uint32_t k;
        RS_TRY(rs_buffer_append_zeros(out, (size_t)rs_offsets_group_size(w), err));
        group = out->data + out->size_bytes - rs_offsets_group_size(w);
        rs_store_u64(group, base);
        for (k = 0; k < RS_FMT_GROUP_RECORDS; k++) {
            uint64_t end = ends[i + k < n ? i + k : n - 1] - base;
            memcpy(group + 8 + (size_t)k * w, &end, w);
        }
    }
    return RS_OK;
}
