/* rs_lines.c: a line value is the number at which it begins, so a block of lines has no records, only places. */
#include "write/rs_lines.h"

#include "format/rs_schema.h"
#include "plan/rs_rising.h"

enum { NODES = 3 /* ext, rising, int */ };

void rs_lines_clear(rs_lines *self) {
    rs_buffer_clear(&self->tree);
    memset(self, 0, sizeof *self);
}

/* ---- Finding ---- */

/* Returns whether a line with this byte is not skipped. */
static inline bool keeps(rs_lines_skip skip, uint8_t c) {
    if (c > ' ' || skip == RS_LINES_SKIP_NONE) return true;
    if (c == '\n' || c == '\r') return false;
    return skip == RS_LINES_SKIP_EMPTY || !(c == ' ' || c == '\t' || c == '\v' || c == '\f');
}

/* Ends the open line before `next`. Returns whether the next line begins with a byte of this piece that keeps it; its
 * begin is then written. */
static inline bool next_line(rs_lines *self, const uint8_t *bytes, size_t n, size_t next, uint64_t *begins,
                             uint32_t *n_begins, uint32_t most) {
    self->begin = self->at + next;
    self->kept = *n_begins < most && next < n && keeps(self->skip, bytes[next]);
    if (self->kept) begins[(*n_begins)++] = self->begin;
    return self->kept;
}

/* Scans from byte i of a kept line on, up to a line whose first byte does not keep it. Returns where it stops. */
static size_t find_kept(rs_lines *self, const uint8_t *bytes, size_t n, size_t i, uint64_t *begins, uint32_t *n_begins,
                        uint32_t most) {
    while (i < n) {
        const uint8_t *end = (const uint8_t *)memchr(bytes + i, '\n', n - i);
        if (end == NULL) return n;
        i = (size_t)(end - bytes) + 1;
        if (!next_line(self, bytes, n, i, begins, n_begins, most)) return i;
    }
    return n;
}

size_t rs_lines_find(rs_lines *self, const uint8_t *bytes, size_t n, uint64_t *begins, uint32_t *n_begins,
                     uint32_t most) {
    size_t i = 0;
    while (i < n && (self->kept || *n_begins < most)) {
        if (self->kept) {
            i = find_kept(self, bytes, n, i, begins, n_begins, most);
        } else if (keeps(self->skip, bytes[i])) {
            begins[(*n_begins)++] = self->begin;
            self->kept = true;
        } else if (bytes[i++] == '\n') {
            self->begin = self->at + i;
        }
    }
    self->at += i;
    return i;
}

size_t rs_lines_find_rows(rs_lines *self, rs_csv_rows *rows, const uint8_t *bytes, size_t n, uint64_t *begins,
                          uint32_t *n_begins, uint32_t most) {
    size_t i = 0;
    if (n != 0 && !self->kept && *n_begins < most) {
        if (keeps(self->skip, bytes[0])) begins[(*n_begins)++] = self->begin;
        self->kept = true;
    }
    while (i < n && rows->fault == RS_CSV_FINE && most - *n_begins >= RS_CSV_BLOCK) {
        const unsigned size = n - i < RS_CSV_BLOCK ? (unsigned)(n - i) : RS_CSV_BLOCK;
        uint64_t ends = rs_csv_rows_scan(rows, bytes + i, size);
        for (; ends != 0; ends &= ends - 1) {
            const size_t next = i + rs_lowest_bit(ends) + 1;
            self->begin = self->at + next;
            self->kept = next < n;
            if (self->kept && keeps(self->skip, bytes[next])) begins[(*n_begins)++] = self->begin;
        }
        i += rows->fault == RS_CSV_FINE ? size : rows->fault_at;
    }
    self->at += i;
    return i;
}

/* ---- Writing ---- */

static void put_node(uint8_t *at, uint8_t kind, uint32_t child, uint32_t aux, uint32_t aux_size) {
    at[RS_FMT_N_KIND] = kind;
    rs_store_u32(at + RS_FMT_N_N_CHILDREN, child != 0);
    rs_store_u32(at + RS_FMT_N_FIRST_CHILD, child);
    rs_store_u32(at + RS_FMT_N_AUX_OFFSET, aux);
    rs_store_u32(at + RS_FMT_N_AUX_SIZE, aux_size);
}

rs_status rs_lines_describe(rs_lines *self, rs_slice extra, rs_error *err) {
    uint8_t head[RS_FMT_TREE_HEAD_SIZE + NODES * RS_FMT_NODE_SIZE] = {NODES};
    uint8_t *node = head + RS_FMT_TREE_HEAD_SIZE;
    const size_t size = rs_slice_left(&extra);
    if (size > RS_FMT_TREE_BYTES - sizeof head - 8) {
        return rs_error_set(err, RS_E_FMT_TREE, RS_NOWHERE, "the description of a text file is too large");
    }
    self->tree.size_bytes = 0;
    self->has_number = false;
    self->tree_values = 2 + size + 9; /* tag, code, EXTRA; an int of 8 bytes */
    rs_store_u32(head + 4, (uint32_t)size + 8);
    put_node(node, RS_FMT_NODE_EXT, 1, 0, (uint32_t)size);
    node[RS_FMT_N_PARAM] = RS_FMT_EXT_LINE;
    put_node(node + RS_FMT_NODE_SIZE, RS_FMT_NODE_RISING, 2, (uint32_t)size, 0);
    put_node(node + 2 * RS_FMT_NODE_SIZE, RS_FMT_NODE_INT, 0, (uint32_t)size, 8);
    RS_TRY(rs_buffer_append(&self->tree, head, sizeof head, err));
    RS_TRY(rs_buffer_append(&self->tree, extra.ptr, size, err));
    return rs_buffer_append_zeros(&self->tree, 8, err); /* the base of the int */
}

static rs_status write_block(rs_lines *self, rs_builder *builder, rs_slice places, rs_block *block, rs_error *err) {
    const rs_slice arrays = rs_slice_of(NULL, 0);
    rs_block_writer *out = &builder->out;
    if (!self->has_number) {
        RS_TRY(rs_block_encoding_append_tree(&out->encoding, self->tree.data, self->tree.size_bytes, &self->tree_number,
                                             err));
        self->has_number = true;
    }
    block->tree = self->tree_number;
    block->heap_size_bytes = block->places_size_bytes = rs_slice_left(&places);
    RS_TRY(rs_block_encoding_write(out->writer, &places, 1, &block->heap_off, &block->heap_crc, err));
    RS_TRY(rs_block_encoding_write(out->writer, &arrays, 1, &block->arrays_off, &block->arrays_crc, err));
    return rs_block_writer_add_entry(out, block, err);
}

rs_status rs_lines_append(rs_lines *self, rs_builder *builder, const uint64_t *begins, uint32_t n, rs_error *err) {
    rs_buffer places = {0};
    uint8_t start[4];
    rs_store_u32(start, sizeof start);
    rs_status status = rs_buffer_append(&places, start, sizeof start, err);
    if (status == RS_OK) status = rs_rising_append(begins, n, &places, err);
    if (status == RS_OK) {
        status = rs_lines_append_heap(self, builder, rs_slice_of(places.data, places.size_bytes), n, err);
    }
    rs_buffer_clear(&places);
    return status;
}

rs_status rs_lines_append_heap(rs_lines *self, rs_builder *builder, rs_slice heap, uint32_t n, rs_error *err) {
    rs_block block = {.n_records = n};
    RS_ASSERT(n > 0 && n <= RS_FMT_BLOCK_RECORDS);
    RS_TRY(rs_builder_flush(builder, err));
    block.first_record = builder->n_records;
    RS_TRY(write_block(self, builder, heap, &block, err));
    builder->n_records += n;
    builder->features_required |= RS_FMT_FEATURE_EXT | RS_FMT_FEATURE_PLACED | RS_FMT_FEATURE_LINE;
    builder->scan.n_values += n;
    rs_scan_raise(&builder->scan, 1, self->tree_values, 0);
    builder->out.raw_size += (uint64_t)n * 9;
    return RS_OK;
}
