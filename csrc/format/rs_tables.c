/* rs_tables.c: reads the elements of TABLES and checks them (rule 29 of FORMAT.md). */
#include "format/rs_tables.h"

rs_status rs_table_read_entry(rs_slice segment, const rs_directory *directory, uint32_t number, rs_table *out,
                              rs_error *err) {
    const rs_section *tables = &directory->sections[RS_FMT_SECTION_TABLES];
    uint64_t at = tables->off + (uint64_t)number * RS_FMT_BLOCK_SIZE, kind;
    uint8_t e[RS_FMT_BLOCK_SIZE];
    bool symbols;
    RS_ASSERT(number < tables->count);
    memset(out, 0, sizeof *out);
    memcpy(e, segment.ptr + at, sizeof e);
    kind = rs_load_u64(e + RS_FMT_B_TABLE_KIND);
    if (kind != RS_FMT_TABLE_VALUES && kind != RS_FMT_TABLE_SYMBOLS) {
        return rs_error_set(err, RS_E_FMT_VERSION, at, "table %u has a kind that this reader does not know", number);
    }
    symbols = kind == RS_FMT_TABLE_SYMBOLS;
    if (symbols) {
        if (rs_load_u32(e + RS_FMT_B_N_RECORDS) != 0 || rs_load_u32(e + RS_FMT_B_TREE) != 0 ||
            rs_load_u64(e + RS_FMT_B_INDEX_OFFSET) != 0 || rs_load_u32(e + RS_FMT_B_ROW_SIZE) != 0 ||
            e[RS_FMT_B_INDEX_WIDTH] != 0 || e[RS_FMT_B_INDEX_BITS] != 0) {
            goto bad;
        }
        rs_store_u32(e + RS_FMT_B_N_RECORDS, 1); /* so that rs_block_parse can check the other fields */
    }
    rs_store_u64(e + RS_FMT_B_FIRST_RECORD, 0);
    RS_TRY(rs_block_parse(e, at, directory, &out->block, err));
    if (out->block.arrays_size_bytes != 0 || out->block.places_size_bytes != 0) goto bad;
    out->segment = segment.ptr;
    out->kind = (unsigned)kind;
    return RS_OK;
bad:
    return rs_error_set(err, RS_E_FMT_BLOCK, at, "table %u has a field out of range", number);
}

rs_status rs_table_read(rs_slice segment, const rs_directory *directory, uint32_t number, rs_table *out,
                        rs_error *err) {
    RS_TRY(rs_table_read_entry(segment, directory, number, out, err));
    return rs_table_open_symbols(out, err);
}

rs_status rs_table_open_symbols(rs_table *self, rs_error *err) {
    if (self->kind != RS_FMT_TABLE_SYMBOLS) return RS_OK;
    rs_slice bytes = rs_slice_of(self->segment + self->block.heap_off, (size_t)self->block.heap_size_bytes);
    rs_status status = rs_symbols_open(bytes, &self->symbols, err);
    if (status != RS_OK && err != NULL && err->offset == RS_NOWHERE) err->offset = self->block.heap_off;
    return status;
}
