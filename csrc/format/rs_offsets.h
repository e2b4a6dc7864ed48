/* rs_offsets.h: finds the bytes of a record by its number: block entries, and offset groups of 64 records. */
#ifndef RS_OFFSETS_H
#define RS_OFFSETS_H

#include "base/rs_buffer.h"
#include "base/rs_bytes.h"
#include "base/rs_status.h"
#include "format/rs_format.h"
#include "format/rs_header.h"

/* A block entry that was checked. Owns nothing. */
typedef struct rs_block {
    uint64_t first_record;
    uint32_t n_records;
    uint32_t tree;
    uint64_t heap_off, heap_size_bytes;
    uint64_t index_off;
    uint32_t row_size_bytes;
    uint32_t index_width;
    uint64_t arrays_off, arrays_size_bytes;
    uint32_t heap_crc, arrays_crc;
} rs_block;

/* Reads block entry `number`, which is below the count of BLOCKS, and checks rule 14. Any thread. */
RS_NODISCARD rs_status rs_block_read(rs_slice segment, const rs_directory *directory, uint64_t number, rs_block *out,
                                     rs_error *err);

/* As rs_block_read, for a copy of the bytes of a block or table entry that stands at `at` in the segment. */
RS_NODISCARD rs_status rs_block_parse(const uint8_t entry[RS_FMT_BLOCK_SIZE], uint64_t at,
                                      const rs_directory *directory, rs_block *out, rs_error *err);

/* Writes the bytes of a block entry. */
void rs_block_write(const rs_block *block, uint8_t out[RS_FMT_BLOCK_SIZE]);

/* Returns the bytes of an offset group whose ends have `width` bytes. */
static inline uint64_t rs_offsets_group_size(uint32_t width) { return 8 + (uint64_t)RS_FMT_GROUP_RECORDS * width; }

/* Sets *out to the bytes of record number `local` of a checked block, and checks rule 15. *out borrows from the
 * segment. Any thread. */
RS_NODISCARD static inline rs_status rs_offsets_locate(const uint8_t *segment, const rs_block *block, uint32_t local,
                                                       rs_slice *out, rs_error *err) {
    const uint8_t *heap = segment + block->heap_off;
    if (block->index_width == 0) {
        out->ptr = heap + (uint64_t)local * block->row_size_bytes;
        out->end = out->ptr + block->row_size_bytes;
        return RS_OK;
    } else {
        uint32_t w = block->index_width, k = local % RS_FMT_GROUP_RECORDS;
        const uint8_t *group =
            segment + block->index_off + (uint64_t)(local / RS_FMT_GROUP_RECORDS) * rs_offsets_group_size(w);
        const uint8_t *ends = group + 8;
        uint64_t base = rs_load_u64(group);
        uint64_t begin = k == 0 ? 0 : rs_load_uint_unchecked(ends + (size_t)(k - 1) * w, w);
        uint64_t end = rs_load_uint_unchecked(ends + (size_t)k * w, w);
        if (RS_UNLIKELY(base > block->heap_size_bytes || end > block->heap_size_bytes - base || begin > end)) {
            (void)rs_error_set(err, RS_E_FMT_OFFSET, (uint64_t)(group - segment),
                               "record offsets %llu to %llu from %llu lie outside the block's heap",
                               (unsigned long long)begin, (unsigned long long)end, (unsigned long long)base);
            return RS_E_FMT_OFFSET; /* the literal, as in rs_decode.h */
        }
        out->ptr = heap + base + begin;
        out->end = heap + base + end;
        return RS_OK;
    }
}

/* Prefetches the offsets of record `local` of a checked block, or the record itself when the block has no offsets. */
static inline void rs_offsets_prefetch(const uint8_t *segment, const rs_block *block, uint32_t local) {
    uint32_t w = block->index_width;
    const uint8_t *group;
    if (w == 0) {
        RS_PREFETCH(segment + block->heap_off + (uint64_t)local * block->row_size_bytes);
        return;
    }
    group = segment + block->index_off + (uint64_t)(local / RS_FMT_GROUP_RECORDS) * rs_offsets_group_size(w);
    RS_PREFETCH(group);
    RS_PREFETCH(group + 8 + (size_t)(local % RS_FMT_GROUP_RECORDS) * w);
}

/* Appends the offset groups of n records, and sets index_width and row_size_bytes of `block`. Record i ends at ends[i],
 * from the start of the heap. When all records have the same size, there are no groups. RS_E_MEM. */
RS_NODISCARD rs_status rs_offsets_append(const uint64_t *ends, uint32_t n, rs_block *block, rs_buffer *out,
                                         rs_error *err);

#endif
