/* rs_offsets.h: finds the bytes of a record by its number: block entries, and offset groups of 64 records. */
#pragma once

#include "base/rs_buffer.h"
#include "base/rs_bytes.h"
#include "base/rs_status.h"
#include "format/rs_format.h"
#include "format/rs_header.h"

/* A checked block entry. Owns nothing. */
typedef struct rs_block {
    uint64_t first_record;
    uint32_t n_records;
    uint32_t tree;
    uint64_t heap_off, heap_size_bytes; /* heap_size_bytes includes the places */
    uint64_t index_off;
    uint32_t row_size_bytes;
    uint16_t index_width;
    uint16_t index_bits; /* bits of one end in an offset group; 0 when index_width is 0 */
    uint64_t arrays_off, arrays_size_bytes;
    uint32_t heap_crc, arrays_crc;
    uint64_t places_size_bytes;
    uint64_t rows_size_bytes;       /* the bytes of the heap before the places */
    const struct rs_node *root;     /* of its tree, once the store has read the block: a read waits for one load less */
    const struct rs_placed *placed; /* the sections of its tree's placed nodes (rs_places.h); NULL without such nodes */
} rs_block;

/* Reads block entry `number`, which is below the count of BLOCKS, and checks rule 14. Any thread. */
RS_NODISCARD rs_status rs_block_read(rs_slice segment, const rs_directory *directory, uint64_t number, rs_block *out,
                                     rs_error *err);

/* As rs_block_read, for a copy of the bytes of a block or table entry at offset `at` in the segment. */
RS_NODISCARD rs_status rs_block_parse(const uint8_t entry[RS_FMT_BLOCK_SIZE], uint64_t at,
                                      const rs_directory *directory, rs_block *out, rs_error *err);

/* Writes the bytes of a block entry. */
void rs_block_write(const rs_block *block, uint8_t out[RS_FMT_BLOCK_SIZE]);

/* Returns the bytes of an offset group with ends of `bits` bits each. */
static inline uint64_t rs_offsets_group_size(uint32_t bits) { return 8 + (uint64_t)RS_FMT_GROUP_RECORDS / 8 * bits; }

/* Returns the offset group of record `local` of a block that has offset groups. */
static inline const uint8_t *rs_offsets_group(const uint8_t *segment, const rs_block *block, uint32_t local) {
    return segment + block->index_off +
           (uint64_t)(local / RS_FMT_GROUP_RECORDS) * rs_offsets_group_size(block->index_bits);
}

/* Returns the end of record k of a group, from the start of the heap, for ends stored as distances from a line. */
static inline uint64_t rs_offsets_line_end(const uint8_t *group, uint32_t k, uint32_t bits) {
    const uint64_t on_line = rs_load_u32(group) + ((k + 1) * (uint64_t)rs_load_u32(group + 4) >> 16);
    const uint64_t field = rs_load_bits_unchecked(group + 8, (uint64_t)RS_FMT_GROUP_RECORDS / 8 * bits, k * bits, bits);
    return on_line + field - (UINT64_C(1) << (bits - 1));
}

/* Sets *begin and *end to the beginning and end of record k of a group, as from rs_offsets_line_end. Two ends of at
 * most 28 bits, the usual case, need one load of the 8 bytes up to the last byte of the second. These bytes never begin
 * before the group, because 8 bytes precede the fields. */
static inline void rs_offsets_line_ends(const uint8_t *group, uint32_t k, uint32_t bits, uint64_t *begin,
                                        uint64_t *end) {
    const uint64_t base = rs_load_u32(group), slope = rs_load_u32(group + 4);
    if (RS_LIKELY(bits <= 28)) {
        const uint32_t last = ((k + 1) * bits + 7) / 8, at = 64 - 8 * last + k * bits;
        const uint64_t word = rs_load_u64(group + last), mask = (UINT64_C(1) << bits) - 1;
        const uint64_t half = UINT64_C(1) << (bits - 1);
        const uint64_t before = base + (k * slope >> 16) + (word >> (at - bits) & mask) - half;
        *end = base + ((k + 1) * slope >> 16) + (word >> at & mask) - half;
        *begin = k == 0 ? base : before;
    } else {
        *end = rs_offsets_line_end(group, k, bits);
        *begin = k == 0 ? base : rs_offsets_line_end(group, k - 1, bits);
    }
}

RS_COLD rs_status rs_offsets_outside(const uint8_t *segment, const uint8_t *group, uint64_t begin, uint64_t end,
                                     rs_error *err);

/* Sets *out to the bytes of record `local` of a checked block, by rule 15. It borrows the segment. Any thread. */
RS_NODISCARD RS_INLINE rs_status rs_offsets_locate(const uint8_t *segment, const rs_block *block, uint32_t local,
                                                   rs_slice *out, rs_error *err) {
    const uint8_t *heap = segment + block->heap_off;
    if (block->index_width == 0) {
        out->ptr = heap + (uint64_t)local * block->row_size_bytes;
        out->end = out->ptr + block->row_size_bytes;
        return RS_OK;
    } else {
        const uint32_t w = block->index_width, k = local % RS_FMT_GROUP_RECORDS;
        const uint8_t *group = rs_offsets_group(segment, block, local);
        uint64_t begin, end;
        bool outside;
        if (w == RS_FMT_INDEX_LINES) {
            rs_offsets_line_ends(group, k, block->index_bits, &begin, &end);
            outside = end > block->rows_size_bytes || begin > end;
        } else {
            const uint64_t base = rs_load_u64(group);
            begin = k == 0 ? 0 : rs_load_uint_unchecked(group + 8 + (size_t)(k - 1) * w, w);
            end = rs_load_uint_unchecked(group + 8 + (size_t)k * w, w);
            /* This must come before the base is added, because the sums are modulo 2^64. */
            outside = base > block->rows_size_bytes || end > block->rows_size_bytes - base || begin > end;
            begin += base;
            end += base;
        }
        if (RS_UNLIKELY(outside)) {
            (void)rs_offsets_outside(segment, group, begin, end, err);
            return RS_E_FMT_OFFSET; /* a literal, as in RS_FAIL */
        }
        out->ptr = heap + begin;
        out->end = heap + end;
        return RS_OK;
    }
}

/* Prefetches the offsets of record `local` of a checked block, or the record itself if the block has no offsets. */
static inline void rs_offsets_prefetch(const uint8_t *segment, const rs_block *block, uint32_t local) {
    if (block->index_width == 0) {
        RS_PREFETCH(segment + block->heap_off + (uint64_t)local * block->row_size_bytes);
        return;
    }
    const uint8_t *group = rs_offsets_group(segment, block, local);
    RS_PREFETCH(group);
    RS_PREFETCH(group + 8 + (size_t)(local % RS_FMT_GROUP_RECORDS) * block->index_bits / 8);
}

/* Adds `heap` to the offsets of heap and arrays in block or table entries, and `index` to those of offset groups,
 * modulo 2^64. */
void rs_offsets_move(uint8_t *entries, uint64_t size_bytes, uint64_t heap, uint64_t index);

/* Appends the offset group of a block whose only record has `size` bytes from `begin` on, and sets index_off,
 * index_width and index_bits of `block`. RS_E_MEM. */
RS_NODISCARD rs_status rs_offsets_append_one(uint64_t begin, uint64_t size, rs_block *block, rs_buffer *out,
                                             rs_error *err);

/* Appends the offset groups of n records, n at most RS_FMT_BLOCK_RECORDS, and sets index_width, index_bits and
 * row_size_bytes of `block`. Record i ends at ends[i], from the start of the heap. Records of one size have no groups.
 * With `lines`, the ends become distances from a line if that saves enough. RS_E_MEM. */
RS_NODISCARD rs_status rs_offsets_append(const uint64_t *ends, uint32_t n, bool lines, rs_block *block, rs_buffer *out,
                                         rs_error *err);
