/* rs_header.h: reads, checks and writes the header and the directory of a segment. */
#pragma once

#include "base/rs_buffer.h"
#include "base/rs_bytes.h"
#include "base/rs_status.h"
#include "format/rs_format.h"

/* The fields of a header. Owns nothing. */
typedef struct rs_header {
    uint16_t version;
    bool is_long; /* has RS_FMT_LONG_SIZE bytes, as in version 1, and else RS_FMT_HEADER_SIZE */
    uint32_t content;
    uint64_t features_required;
    uint64_t segment_size;
    uint8_t segment_id[RS_FMT_SEGMENT_ID_SIZE];
    uint64_t created_ns;
    uint32_t directory_count;
    uint64_t directory_off;
    uint32_t directory_crc;
    uint64_t n_records;
    uint64_t max_values;
    uint64_t max_bytes;
    uint32_t max_depth;
    uint64_t raw_size;
    uint64_t most_values; /* the limit of all records together, by rule 43; not stored. UINT64_MAX with rs_limits */
    uint64_t most_bytes;  /* likewise */
} rs_header;

/* The directory entry of a section. After rs_directory_read the section is within the segment. */
typedef struct rs_section {
    uint64_t off;
    uint64_t size_bytes;
    uint64_t count;
    uint32_t crc;
} rs_section;

/* The sections of one store, by kind. Index 0 is unused; a missing section is all zero. HEAP is the same for both
 * stores of a mapping. */
typedef struct rs_directory {
    rs_section sections[RS_FMT_SECTION_LAST + 1];
    /* Optional sections, only in the directory of store 0. */
    rs_section label;
    rs_section saved_indexes[RS_FMT_SAVED_INDEXES];
    uint32_t n_saved_indexes;
} rs_directory;

/* The most values and bytes of a record that a reader accepts. They replace the defaults and rule 43. */
typedef struct rs_limits {
    uint64_t max_values; /* default RS_FMT_READER_VALUES */
    uint64_t max_bytes;  /* default RS_FMT_READER_BYTES */
} rs_limits;

/* Reads the header and checks rules 1 to 8 of FORMAT.md. `limits` may be NULL for the defaults: then rule 43
 * lowers max_values and max_bytes of *out. Any thread. */
RS_NODISCARD rs_status rs_header_read(rs_slice segment, const rs_limits *limits, rs_header *out, rs_error *err);

/* Checks rules 9 to 12 and the count of rule 29 for the whole directory, and sets *out to the sections of `store`: 0,
 * or 1 for the keys of a mapping. `header` comes from rs_header_read of the same bytes. Any thread. */
RS_NODISCARD rs_status rs_directory_read(rs_slice segment, const rs_header *header, unsigned store, rs_directory *out,
                                         rs_error *err);

/* Returns a sufficient size, by rule 43, for a segment whose records have `values` values and raw_size bytes as any
 * values. */
uint64_t rs_header_least_size(uint64_t values, uint64_t raw_size);

/* Returns the size of a header in bytes. */
uint32_t rs_header_size(const rs_header *header);

/* Writes a header and its checksum to `out`, which has rs_header_size bytes. Those of a long header from RS_FMT_FRONT
 * to the checksum stay: they are zero or sections. */
void rs_header_write(const rs_header *header, uint8_t *out);

/* Appends the directory entries, sorted by the offsets of their sections. Entries with equal offsets are in this order:
 * store 0, the keys (`keys` is NULL for a list), the saved indexes, LABEL. Leaves out TABLES, ORDER and LABEL if their
 * off is 0. Sets directory_count and directory_crc of `header`. RS_E_MEM. */
RS_NODISCARD rs_status rs_directory_write(const rs_directory *directory, const rs_directory *keys, rs_header *header,
                                          rs_buffer *out, rs_error *err);
