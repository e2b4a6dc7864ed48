/* rs_header.h: the header and the directory of a segment: parse with every rule checked, and write.
 * Knows nothing of mappings or records. */
#ifndef RS_HEADER_H
#define RS_HEADER_H

#include "base/rs_buffer.h"
#include "base/rs_bytes.h"
#include "base/rs_status.h"
#include "format/rs_format.h"

/* Plain values; owns nothing. */
typedef struct rs_header {
    uint16_t version;
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
} rs_header;

/* One section; off and size lie within the segment once rs_directory_read accepted them. */
typedef struct rs_section {
    uint64_t off;
    uint64_t size_bytes;
    uint64_t count;
    uint32_t crc;
} rs_section;

/* Sections of one store by kind; index 0 is unused, a section that is not there is all zero. HEAP is the one of the
 * segment. */
typedef struct rs_directory {
    rs_section sections[RS_FMT_SECTION_LAST + 1];
    rs_section label; /* of store 0; optional */
} rs_directory;

/* What a reader is willing to take. */
typedef struct rs_limits {
    uint64_t max_values; /* RS_FMT_READER_VALUES unless the caller says more */
    uint64_t max_bytes;  /* RS_FMT_READER_BYTES */
} rs_limits;

/* Rules 1 to 8 of FORMAT.md. `limits` NULL: the defaults. Any thread. */
RS_NODISCARD rs_status rs_header_read(rs_slice segment, const rs_limits *limits, rs_header *out, rs_error *err);

/* Rules 9 to 12 over the whole directory; gives the sections of `store`: 0, or 1 where header->content is a mapping.
 * `header` comes from rs_header_read of the same bytes. Any thread. */
RS_NODISCARD rs_status rs_directory_read(rs_slice segment, const rs_header *header, unsigned store, rs_directory *out,
                                         rs_error *err);

/* Writes the 4096 bytes of a header, checksum included. */
void rs_header_write(const rs_header *header, uint8_t out[RS_FMT_HEADER_SIZE]);

/* Appends the directory's entries, sorted as a builder writes sections: those of store 0, then those of the keys (NULL
 * for a list; ORDER left out when its off is 0), then the label of store 0 unless its off is 0. Fills count and crc of
 * `header`. */
RS_NODISCARD rs_status rs_directory_write(const rs_directory *directory, const rs_directory *keys, rs_header *header,
                                          rs_buffer *out, rs_error *err);

#endif
