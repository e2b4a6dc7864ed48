/* rs_offsets.c: reads and writes block entries, and builds offset groups. */
#include "format/rs_offsets.h"

enum {
    GROUPS = RS_FMT_BLOCK_RECORDS / RS_FMT_GROUP_RECORDS, /* the most offset groups of a block */
    FIT_ROUNDS = 4,
    SAVING_DIVISOR = 256 /* ends become distances if that saves more than 1/256 of the bytes of the block */
};

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
    out->index_bits = (uint16_t)(8 * out->index_width);
    if (out->index_width == RS_FMT_INDEX_LINES) out->index_bits = e[RS_FMT_B_INDEX_BITS];
    out->arrays_off = rs_load_u64(e + RS_FMT_B_ARRAYS_OFFSET);
    out->arrays_size_bytes = rs_load_u64(e + RS_FMT_B_ARRAYS_SIZE);
    out->heap_crc = rs_load_u32(e + RS_FMT_B_HEAP_CRC);
    out->arrays_crc = rs_load_u32(e + RS_FMT_B_ARRAYS_CRC);
    out->places_size_bytes = rs_load_u64(e + RS_FMT_B_PLACES_SIZE);
    out->root = NULL;
    out->placed = NULL;

    if (rs_load_u16(e + RS_FMT_B_RESERVED) != 0) {
        return rs_error_set(err, RS_E_FMT_RESERVED, at, "a reserved field of a block or table is not zero");
    }
    if (out->places_size_bytes > out->heap_size_bytes) goto bad;
    out->rows_size_bytes = out->heap_size_bytes - out->places_size_bytes;
    rows = (uint64_t)out->n_records * out->row_size_bytes; /* two numbers of 32 bits, so it cannot overflow */
    switch (out->index_width) {
    case 0:
        if (out->index_off != 0 || rows > out->rows_size_bytes) goto bad;
        break;
    case RS_FMT_INDEX_LINES:
    case 2:
    case 4:
    case 8:
        if (out->index_bits == 0 ||
            out->index_bits > (out->index_width == RS_FMT_INDEX_LINES ? RS_FMT_INDEX_BITS : 64)) {
            goto bad;
        }
        index_size = ((uint64_t)out->n_records + RS_FMT_GROUP_RECORDS - 1) / RS_FMT_GROUP_RECORDS *
                     rs_offsets_group_size(out->index_bits);
        if (out->row_size_bytes != 0 || out->index_off % 8 != 0 ||
            !inside(out->index_off, index_size, &directory->sections[RS_FMT_SECTION_OFFSETS])) {
            goto bad;
        }
        break;
    default: goto bad;
    }
    if (out->index_width != RS_FMT_INDEX_LINES && e[RS_FMT_B_INDEX_BITS] != 0) goto bad;
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
    if (block->index_width == RS_FMT_INDEX_LINES) out[RS_FMT_B_INDEX_BITS] = (uint8_t)block->index_bits;
    rs_store_u64(out + RS_FMT_B_ARRAYS_OFFSET, block->arrays_off);
    rs_store_u64(out + RS_FMT_B_ARRAYS_SIZE, block->arrays_size_bytes);
    rs_store_u32(out + RS_FMT_B_HEAP_CRC, block->heap_crc);
    rs_store_u32(out + RS_FMT_B_ARRAYS_CRC, block->arrays_crc);
    rs_store_u64(out + RS_FMT_B_PLACES_SIZE, block->places_size_bytes);
}

RS_COLD rs_status rs_offsets_outside(const uint8_t *segment, const uint8_t *group, uint64_t begin, uint64_t end,
                                     rs_error *err) {
    return rs_error_set(err, RS_E_FMT_OFFSET, (uint64_t)(group - segment),
                        "record offsets %llu to %llu lie outside the block's heap", (unsigned long long)begin,
                        (unsigned long long)end);
}

/* ---- Ends as distances from a line ---- */

/* The ends of one group of up to 64 records. */
typedef struct group_ends {
    const uint64_t *ends;
    uint32_t n;
    uint64_t base;
} group_ends;

static group_ends group_at(const uint64_t *ends, uint32_t n, uint32_t i) {
    group_ends out = {ends + i, n - i < RS_FMT_GROUP_RECORDS ? n - i : RS_FMT_GROUP_RECORDS, i == 0 ? 0 : ends[i - 1]};
    return out;
}

/* Returns the distance of end k from a line. The ends are below 2^32. */
static int64_t distance(const group_ends *g, uint32_t k, uint64_t slope) {
    return (int64_t)(g->ends[k] - g->base) - (int64_t)((k + 1) * slope >> 16);
}

/* Finds the slope of a line through the base of the group with small distances to the ends, and returns the bits of the
 * largest distance. For the best line through a point, the largest distances above and below are equal, so each round
 * takes the slope that makes them equal (Remez, 1934). */
static unsigned fit(const group_ends *g, uint32_t *slope) {
    uint64_t candidate = ((g->ends[g->n - 1] - g->base) << 16) / g->n;
    unsigned best = RS_FMT_INDEX_BITS + 1;
    for (unsigned round = 0; round < FIT_ROUNDS && candidate <= UINT32_MAX; round++) {
        int64_t above = INT64_MIN, below = INT64_MAX;
        uint32_t highest = 0, lowest = 0;
        unsigned bits;
        for (uint32_t k = 0; k < g->n; k++) {
            const int64_t d = distance(g, k, candidate);
            if (d > above) above = d, highest = k;
            if (d < below) below = d, lowest = k;
        }
        for (bits = 1; above >> (bits - 1) > 0 || below >> (bits - 1) < -1; bits++) continue;
        if (bits < best) best = bits, *slope = (uint32_t)candidate;
        candidate = ((g->ends[highest] - g->base + (g->ends[lowest] - g->base)) << 16) / (highest + lowest + 2);
    }
    return best;
}

/* Chooses a slope for each group. Returns the bits of a distance; more than RS_FMT_INDEX_BITS if no line fits. */
static unsigned fit_all(const uint64_t *ends, uint32_t n, uint32_t slopes[GROUPS]) {
    unsigned widest = 1;
    if (ends[n - 1] > UINT32_MAX) return RS_FMT_INDEX_BITS + 1;
    for (uint32_t i = 0; i < n; i += RS_FMT_GROUP_RECORDS) {
        const group_ends g = group_at(ends, n, i);
        unsigned bits = fit(&g, &slopes[i / RS_FMT_GROUP_RECORDS]);
        if (bits > widest) widest = bits;
    }
    return widest;
}

static void put_line(const group_ends *g, uint32_t slope, unsigned bits, uint8_t *group) {
    rs_store_u32(group, (uint32_t)g->base);
    rs_store_u32(group + 4, slope);
    for (uint32_t k = 0; k < g->n; k++) {
        const uint64_t field = (uint64_t)distance(g, k, slope) + (UINT64_C(1) << (bits - 1));
        rs_store_bits(group + 8, (uint64_t)k * bits, bits, field);
    }
}

static void put_ends(const group_ends *g, uint32_t width, uint8_t *group) {
    rs_store_u64(group, g->base);
    for (uint32_t k = 0; k < RS_FMT_GROUP_RECORDS; k++) {
        const uint64_t end = g->ends[k < g->n ? k : g->n - 1] - g->base;
        memcpy(group + 8 + (size_t)k * width, &end, width);
    }
}

/* Sets row_size_bytes, or the width of ends in whole bytes. Returns whether there are offset groups. */
static bool choose_width(const uint64_t *ends, uint32_t n, rs_block *block) {
    const uint64_t row = n > 0 ? ends[0] : 0;
    uint64_t widest = 0;
    bool equal = row <= UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t base = i < RS_FMT_GROUP_RECORDS ? 0 : ends[i / RS_FMT_GROUP_RECORDS * RS_FMT_GROUP_RECORDS - 1];
        if (ends[i] - base > widest) widest = ends[i] - base;
        equal = equal && ends[i] == row * (i + 1);
    }
    block->row_size_bytes = equal ? (uint32_t)row : 0;
    block->index_width = equal ? 0 : widest <= UINT16_MAX ? 2 : widest <= UINT32_MAX ? 4 : 8;
    block->index_bits = (uint16_t)(8 * block->index_width);
    return !equal;
}

rs_status rs_offsets_append(const uint64_t *ends, uint32_t n, bool lines, rs_block *block, rs_buffer *out,
                            rs_error *err) {
    const uint64_t n_groups = ((uint64_t)n + RS_FMT_GROUP_RECORDS - 1) / RS_FMT_GROUP_RECORDS;
    uint32_t slopes[GROUPS];
    RS_ASSERT(n <= RS_FMT_BLOCK_RECORDS);
    if (!choose_width(ends, n, block)) return RS_OK;
    uint64_t plain = n_groups * rs_offsets_group_size(block->index_bits);
    /* Large records gain too little for the extra instructions of each read. */
    if (lines && plain > (ends[n - 1] + plain) / SAVING_DIVISOR) {
        const unsigned bits = fit_all(ends, n, slopes);
        const uint64_t size = n_groups * rs_offsets_group_size(bits);
        if (bits <= RS_FMT_INDEX_BITS && size < plain && plain - size > (ends[n - 1] + plain) / SAVING_DIVISOR) {
            block->index_width = RS_FMT_INDEX_LINES;
            block->index_bits = (uint16_t)bits;
        }
    }
    for (uint32_t i = 0; i < n; i += RS_FMT_GROUP_RECORDS) {
        const group_ends g = group_at(ends, n, i);
        const uint64_t size = rs_offsets_group_size(block->index_bits);
        RS_TRY(rs_buffer_append_zeros(out, (size_t)size, err));
        uint8_t *group = out->data + out->size_bytes - size;
        if (block->index_width != RS_FMT_INDEX_LINES) put_ends(&g, block->index_width, group);
        else put_line(&g, slopes[i / RS_FMT_GROUP_RECORDS], block->index_bits, group);
    }
    return RS_OK;
}

rs_status rs_offsets_append_one(uint64_t begin, uint64_t size, rs_block *block, rs_buffer *out, rs_error *err) {
    const uint64_t end = begin + size;
    const group_ends g = {&end, 1, begin};
    /* A line takes 16 bytes in place of 520, but its fields limit `begin` and `size`. */
    const bool line = begin <= UINT32_MAX && size <= UINT16_MAX;
    block->index_off = out->size_bytes;
    block->index_width = line ? RS_FMT_INDEX_LINES : 8;
    block->index_bits = line ? 1 : 64;
    RS_TRY(rs_buffer_append_zeros(out, (size_t)rs_offsets_group_size(block->index_bits), err));
    uint8_t *group = out->data + block->index_off;
    if (line) put_line(&g, (uint32_t)size << 16, 1, group);
    else put_ends(&g, 8, group);
    return RS_OK;
}

void rs_offsets_move(uint8_t *entries, uint64_t size_bytes, uint64_t heap, uint64_t index) {
    for (uint64_t i = 0; i < size_bytes; i += RS_FMT_BLOCK_SIZE) {
        uint8_t *e = entries + i;
        const uint64_t at = rs_load_u64(e + RS_FMT_B_INDEX_OFFSET) + index;
        rs_store_u64(e + RS_FMT_B_HEAP_OFFSET, rs_load_u64(e + RS_FMT_B_HEAP_OFFSET) + heap);
        rs_store_u64(e + RS_FMT_B_ARRAYS_OFFSET, rs_load_u64(e + RS_FMT_B_ARRAYS_OFFSET) + heap);
        rs_store_u64(e + RS_FMT_B_INDEX_OFFSET, e[RS_FMT_B_INDEX_WIDTH] == 0 ? 0 : at);
    }
}
