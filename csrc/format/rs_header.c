/* rs_header.c: reads and writes the header and the directory. The rules are in FORMAT.md. */
#include "format/rs_header.h"

#include "base/rs_crc.h"

/* Returns the content that a segment with these features must have (rule 5). */
static uint32_t content_for(uint64_t features) {
    return (features & RS_FMT_FEATURE_MAPPING) != 0 ? RS_FMT_CONTENT_MAPPING : RS_FMT_CONTENT_LIST;
}

/* Rule 8. */
static rs_status accept(const rs_header *h, const rs_limits *limits, rs_error *err) {
    uint64_t values = limits != NULL ? limits->max_values : RS_FMT_READER_VALUES;
    uint64_t bytes = limits != NULL ? limits->max_bytes : RS_FMT_READER_BYTES;
    if (h->max_values <= values && h->max_bytes <= bytes) return RS_OK;
    return rs_error_set(err, RS_E_FMT_LIMIT, h->max_values > values ? RS_FMT_H_MAX_VALUES : RS_FMT_H_MAX_BYTES,
                        "the largest record holds %llu values in %llu bytes, this reader accepts %llu and %llu",
                        (unsigned long long)h->max_values, (unsigned long long)h->max_bytes, (unsigned long long)values,
                        (unsigned long long)bytes);
}

static uint64_t lesser(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Rules 8 and 43. A segment so large that the products overflow cannot be mapped. */
static rs_status check_limits(rs_header *h, const rs_limits *limits, rs_error *err) {
    RS_TRY(accept(h, limits, err));
    h->most_values = h->most_bytes = UINT64_MAX;
    if (limits != NULL || h->segment_size > UINT64_MAX / RS_FMT_BECOMES_BYTES) return RS_OK;
    h->most_values = h->segment_size * RS_FMT_BECOMES_VALUES;
    h->most_bytes = h->segment_size * RS_FMT_BECOMES_BYTES;
    h->max_values = lesser(h->max_values, h->most_values);
    h->max_bytes = lesser(h->max_bytes, h->most_bytes);
    return RS_OK;
}

static rs_status check_size(uint64_t size, uint32_t header_size, rs_error *err) {
    if (size >= header_size) return RS_OK;
    return rs_error_set(err, RS_E_FMT_TRUNCATED, size, "the file has %llu bytes, fewer than a header",
                        (unsigned long long)size);
}

uint64_t rs_header_least_size(uint64_t values, uint64_t raw_size) {
    uint64_t for_values = values / RS_FMT_BECOMES_VALUES + 1, for_bytes = raw_size / RS_FMT_BECOMES_BYTES + 1;
    return for_values > for_bytes ? for_values : for_bytes;
}

uint32_t rs_header_size(const rs_header *header) { return header->is_long ? RS_FMT_LONG_SIZE : RS_FMT_HEADER_SIZE; }

/* Rules 1, 3 and 4, for the first bytes of a segment of `size` bytes. Sets the version and is_long of *out. */
static rs_status check_bytes(const uint8_t *p, uint64_t size, rs_header *out, rs_error *err) {
    const unsigned reader_version = rs_load_u16(p + RS_FMT_H_READER_VERSION);
    out->version = rs_load_u16(p + RS_FMT_H_VERSION);
    out->is_long = reader_version == RS_FMT_LONG_VERSION;
    if (!out->is_long && reader_version != RS_FMT_VERSION) {
        return rs_error_set(err, RS_E_FMT_VERSION, RS_FMT_H_READER_VERSION,
                            "the segment needs a reader of format version %u, this one reads versions up to %d",
                            reader_version, RS_FMT_VERSION);
    }
    RS_TRY(check_size(size, rs_header_size(out), err));
    const uint32_t crc_at = rs_header_size(out) - 4;
    if (rs_crc32c(0, p, crc_at) != rs_load_u32(p + crc_at)) {
        return rs_error_set(err, RS_E_FMT_CHECKSUM, crc_at, "the header's checksum does not match");
    }
    return RS_OK;
}

rs_status rs_header_read(rs_slice segment, const rs_limits *limits, rs_header *out, rs_error *err) {
    const uint8_t *p = segment.ptr;
    uint64_t size = rs_slice_left(&segment);
    uint8_t copy[RS_FMT_LONG_SIZE]; /* the mapped bytes may change, so one copy is checked and used */

    if (size > 0 && memcmp(p, RS_FMT_MAGIC, size < 8 ? size : 8) != 0) { /* also for a short file */
        return rs_error_set(err, RS_E_FMT_MAGIC, 0, "the first 8 bytes are not the magic of a recstore segment");
    }
    RS_TRY(check_size(size, RS_FMT_HEADER_SIZE, err));
    memcpy(copy, p, (size_t)lesser(size, sizeof copy));
    p = copy;
    RS_TRY(check_bytes(p, size, out, err));
    out->features_required = rs_load_u64(p + RS_FMT_H_FEATURES_REQUIRED);
    out->content = rs_load_u32(p + RS_FMT_H_CONTENT);
    if ((out->features_required & ~RS_FMT_FEATURES_KNOWN) != 0 || out->content != content_for(out->features_required)) {
        return rs_error_set(err, RS_E_FMT_VERSION,
                            (out->features_required & ~RS_FMT_FEATURES_KNOWN) != 0 ? RS_FMT_H_FEATURES_REQUIRED
                                                                                   : RS_FMT_H_CONTENT,
                            "the segment uses features 0x%llx (content %u) that this reader does not know",
                            (unsigned long long)out->features_required, out->content);
    }
    out->max_depth = rs_load_u32(p + RS_FMT_H_MAX_DEPTH);
    if (rs_load_u32(p + RS_FMT_H_HEADER_SIZE) != rs_header_size(out) || out->max_depth > RS_FMT_DEPTH) {
        return rs_error_set(err, RS_E_FMT_VALUE,
                            out->max_depth > RS_FMT_DEPTH ? RS_FMT_H_MAX_DEPTH : RS_FMT_H_HEADER_SIZE,
                            "header size or depth out of range");
    }
    out->segment_size = rs_load_u64(p + RS_FMT_H_SEGMENT_SIZE);
    if (out->segment_size > size || out->segment_size < rs_header_size(out)) {
        return rs_error_set(err, RS_E_FMT_TRUNCATED, size, "the header says %llu bytes, but the file has %llu",
                            (unsigned long long)out->segment_size, (unsigned long long)size);
    }
    memcpy(out->segment_id, p + RS_FMT_H_SEGMENT_ID, RS_FMT_SEGMENT_ID_SIZE);
    out->created_ns = rs_load_u64(p + RS_FMT_H_CREATED);
    out->directory_count = rs_load_u32(p + RS_FMT_H_DIRECTORY_COUNT);
    out->directory_off = rs_load_u64(p + RS_FMT_H_DIRECTORY_OFFSET);
    out->directory_crc = rs_load_u32(p + RS_FMT_H_DIRECTORY_CRC);
    out->n_records = rs_load_u64(p + RS_FMT_H_N_RECORDS);
    out->max_values = rs_load_u64(p + RS_FMT_H_MAX_VALUES);
    out->max_bytes = rs_load_u64(p + RS_FMT_H_MAX_BYTES);
    out->raw_size = rs_load_u64(p + RS_FMT_H_RAW_SIZE);
    return check_limits(out, limits, err);
}

/* Returns the bytes of an element of a section whose count is checked; 0 for other sections. */
static uint64_t element_size(unsigned kind) {
    switch (kind) {
    case RS_FMT_SECTION_GROUPS: return 4;
    case RS_FMT_SECTION_BLOCKS:
    case RS_FMT_SECTION_TABLES: return RS_FMT_BLOCK_SIZE;
    case RS_FMT_SECTION_TREE_TABLE: return RS_FMT_TREE_ENTRY_SIZE;
    default: return 0;
    }
}

/* Checks rule 12, and the counts of GROUPS (rule 10) and TABLES (rule 29). */
static rs_status check_counts(const rs_header *header, const rs_directory *dir, rs_error *err) {
    uint64_t n = header->n_records;
    uint64_t blocks = dir->sections[RS_FMT_SECTION_BLOCKS].count;
    uint64_t groups = dir->sections[RS_FMT_SECTION_GROUPS].count, tables = dir->sections[RS_FMT_SECTION_TABLES].count;
    if (n > RS_FMT_RECORDS || (n == 0) != (blocks == 0) || blocks > n || blocks > UINT32_MAX ||
        dir->sections[RS_FMT_SECTION_TREE_TABLE].count > UINT32_MAX) {
        return rs_error_set(err, RS_E_FMT_BLOCK, RS_FMT_H_N_RECORDS, "%llu records in %llu blocks",
                            (unsigned long long)n, (unsigned long long)blocks);
    }
    if (tables > UINT32_MAX) {
        return rs_error_set(err, RS_E_FMT_BLOCK, RS_FMT_H_N_RECORDS, "%llu tables", (unsigned long long)tables);
    }
    if (groups != (n + RS_FMT_GROUP_RECORDS - 1) / RS_FMT_GROUP_RECORDS) {
        return rs_error_set(err, RS_E_FMT_SECTION, RS_FMT_H_N_RECORDS, "%llu groups for %llu records",
                            (unsigned long long)groups, (unsigned long long)n);
    }
    return RS_OK;
}

/* The directory entries read so far. */
typedef struct directory_reader {
    const rs_header *header;
    rs_directory stores[2];
    uint32_t seen[2];     /* for each store, bit k: it has a section of kind k */
    uint64_t end_of_last; /* the end of the previous section */
} directory_reader;

/* Returns the kinds that a store must have, a bit for each. */
static uint32_t kinds_needed(const rs_header *header, unsigned store) {
    uint32_t all = (1u << (RS_FMT_SECTION_STORE_LAST + 1)) - 2; /* 1 to STORE_LAST */
    if (store == 0) return all;
    if (header->content != RS_FMT_CONTENT_MAPPING) return 0;
    return (all & ~(1u << RS_FMT_SECTION_HEAP)) | 1u << RS_FMT_SECTION_KEY_INDEX;
}

/* Returns the kinds that a store may have. */
static uint32_t kinds_allowed(const rs_header *header, unsigned store) {
    bool has_keys = store == 1 && header->content == RS_FMT_CONTENT_MAPPING;
    bool exists = store == 0 || has_keys;
    return kinds_needed(header, store) | (has_keys ? 1u << RS_FMT_SECTION_ORDER : 0) |
           (exists ? 1u << RS_FMT_SECTION_TABLES : 0);
}

/* Returns whether version 1 defines this kind and store for segments of this content. */
static bool is_known(const rs_header *header, unsigned kind, unsigned store) {
    if (header->content == RS_FMT_CONTENT_MAPPING) return kind <= RS_FMT_SECTION_LAST && store <= 1;
    return (kind <= RS_FMT_SECTION_STORE_LAST || kind == RS_FMT_SECTION_TABLES) && store == 0;
}

static void add_optional(directory_reader *self, unsigned kind, unsigned store, const rs_section *section) {
    rs_directory *out = &self->stores[0];
    if (store != 0) return;
    if (kind == RS_FMT_SECTION_LABEL) out->label = *section;
    if (kind == RS_FMT_SECTION_SAVED_INDEX && self->header->content == RS_FMT_CONTENT_LIST &&
        out->n_saved_indexes < RS_FMT_SAVED_INDEXES) {
        out->saved_indexes[out->n_saved_indexes++] = *section;
    }
}

static rs_status read_entry(directory_reader *self, const uint8_t *e, uint64_t at, rs_error *err) {
    unsigned kind = rs_load_u16(e + RS_FMT_E_KIND), store = rs_load_u16(e + RS_FMT_E_STORE);
    uint64_t directory_off = self->header->directory_off, expected;
    rs_section s = {.off = rs_load_u64(e + RS_FMT_E_OFFSET),
                    .size_bytes = rs_load_u64(e + RS_FMT_E_SIZE),
                    .count = rs_load_u64(e + RS_FMT_E_COUNT),
                    .crc = rs_load_u32(e + RS_FMT_E_CRC)};
    if (rs_load_u32(e + RS_FMT_E_FLAGS) != 0 || rs_load_u32(e + RS_FMT_E_RESERVED) != 0) {
        return rs_error_set(err, RS_E_FMT_RESERVED, at, "a reserved field of a directory entry is not zero");
    }
    if (s.off % RS_FMT_ALIGNMENT != 0 || s.off < self->end_of_last || s.off > directory_off ||
        s.size_bytes > (s.off < rs_header_size(self->header) ? RS_FMT_LONG_CRC : directory_off) - s.off) {
        return rs_error_set(err, RS_E_FMT_SECTION, at, "section %u at %llu with %llu bytes is out of place", kind,
                            (unsigned long long)s.off, (unsigned long long)s.size_bytes);
    }
    self->end_of_last = s.off + s.size_bytes;
    if (kind >= RS_FMT_SECTION_OPTIONAL) {
        add_optional(self, kind, store, &s);
        return RS_OK;
    }
    if (kind == 0) return rs_error_set(err, RS_E_FMT_SECTION, at, "a section has kind 0");
    if (!is_known(self->header, kind, store)) {
        return rs_error_set(err, RS_E_FMT_VERSION, at, "this reader does not know section kind %u of store %u", kind,
                            store);
    }
    if ((kinds_allowed(self->header, store) & 1u << kind) == 0) {
        return rs_error_set(err, RS_E_FMT_SECTION, at, "section %u does not belong to store %u", kind, store);
    }
    if ((self->seen[store] & 1u << kind) != 0) {
        return rs_error_set(err, RS_E_FMT_SECTION, at, "section %u occurs twice", kind);
    }
    self->seen[store] |= 1u << kind;
    if (element_size(kind) != 0 &&
        (rs_mul_overflows(s.count, element_size(kind), &expected) || expected != s.size_bytes)) {
        return rs_error_set(err, RS_E_FMT_SECTION, at, "section %u: count and size disagree", kind);
    }
    self->stores[store].sections[kind] = s;
    return RS_OK;
}

static rs_status check_complete(const directory_reader *self, unsigned store, rs_error *err) {
    uint32_t missing = kinds_needed(self->header, store) & ~self->seen[store], kind = 0;
    if (missing == 0) return RS_OK;
    while ((missing & 1u << kind) == 0) kind++;
    return rs_error_set(err, RS_E_FMT_SECTION, self->header->directory_off, "section %u is missing", kind);
}

rs_status rs_directory_read(rs_slice segment, const rs_header *header, unsigned store, rs_directory *out,
                            rs_error *err) {
    uint8_t entries[RS_FMT_DIRECTORY_ENTRIES * RS_FMT_ENTRY_SIZE];
    uint64_t off = header->directory_off;
    RS_ASSERT(store == 0 || (store == 1 && header->content == RS_FMT_CONTENT_MAPPING));
    if (header->directory_count > RS_FMT_DIRECTORY_ENTRIES) {
        return rs_error_set(err, RS_E_FMT_SECTION, RS_FMT_H_DIRECTORY_COUNT, "%u directory entries",
                            header->directory_count);
    }
    uint64_t size = (uint64_t)header->directory_count * RS_FMT_ENTRY_SIZE;
    if (off % RS_FMT_ALIGNMENT != 0 || off < rs_header_size(header) || off > header->segment_size ||
        size > header->segment_size - off) {
        return rs_error_set(err, RS_E_FMT_SECTION, RS_FMT_H_DIRECTORY_OFFSET, "the directory lies outside the segment");
    }
    memcpy(entries, segment.ptr + off, (size_t)size);
    if (rs_crc32c(0, entries, (size_t)size) != header->directory_crc) {
        return rs_error_set(err, RS_E_FMT_CHECKSUM, off, "the directory's checksum does not match");
    }
    directory_reader reader = {0};
    reader.header = header;
    reader.end_of_last =
        (header->features_required & RS_FMT_FEATURE_FRONT) != 0 ? RS_FMT_FRONT : rs_header_size(header);
    for (uint32_t i = 0; i < header->directory_count; i++) {
        RS_TRY(read_entry(&reader, entries + (size_t)i * RS_FMT_ENTRY_SIZE, off + (uint64_t)i * RS_FMT_ENTRY_SIZE,
                          err));
    }
    RS_TRY(check_complete(&reader, 0, err));
    RS_TRY(check_counts(header, &reader.stores[0], err));
    if (header->content == RS_FMT_CONTENT_MAPPING) {
        RS_TRY(check_complete(&reader, 1, err));
        RS_TRY(check_counts(header, &reader.stores[1], err));
    }
    /* The heaps of the keys are in the HEAP of store 0. */
    reader.stores[1].sections[RS_FMT_SECTION_HEAP] = reader.stores[0].sections[RS_FMT_SECTION_HEAP];
    *out = reader.stores[store];
    return RS_OK;
}

void rs_header_write(const rs_header *h, uint8_t *out) {
    const unsigned version = h->is_long ? RS_FMT_LONG_VERSION : RS_FMT_VERSION;
    const uint32_t size = rs_header_size(h);
    memset(out, 0, RS_FMT_FRONT);
    memcpy(out + RS_FMT_H_MAGIC, RS_FMT_MAGIC, 8);
    rs_store_u16(out + RS_FMT_H_VERSION, (uint16_t)version);
    rs_store_u16(out + RS_FMT_H_READER_VERSION, (uint16_t)version);
    rs_store_u32(out + RS_FMT_H_HEADER_SIZE, size);
    rs_store_u64(out + RS_FMT_H_FEATURES_REQUIRED, h->features_required);
    rs_store_u64(out + RS_FMT_H_SEGMENT_SIZE, h->segment_size);
    memcpy(out + RS_FMT_H_SEGMENT_ID, h->segment_id, RS_FMT_SEGMENT_ID_SIZE);
    rs_store_u64(out + RS_FMT_H_CREATED, h->created_ns);
    rs_store_u32(out + RS_FMT_H_CONTENT, h->content);
    rs_store_u32(out + RS_FMT_H_DIRECTORY_COUNT, h->directory_count);
    rs_store_u64(out + RS_FMT_H_DIRECTORY_OFFSET, h->directory_off);
    rs_store_u64(out + RS_FMT_H_N_RECORDS, h->n_records);
    rs_store_u64(out + RS_FMT_H_MAX_VALUES, h->max_values);
    rs_store_u64(out + RS_FMT_H_MAX_BYTES, h->max_bytes);
    rs_store_u32(out + RS_FMT_H_MAX_DEPTH, h->max_depth);
    rs_store_u32(out + RS_FMT_H_DIRECTORY_CRC, h->directory_crc);
    rs_store_u64(out + RS_FMT_H_RAW_SIZE, h->raw_size);
    rs_store_u32(out + size - 4, rs_crc32c(0, out, size - 4));
}

static rs_status write_entry(const rs_section *s, unsigned kind, unsigned store, rs_buffer *out, rs_error *err) {
    RS_TRY(rs_buffer_append_zeros(out, RS_FMT_ENTRY_SIZE, err));
    uint8_t *e = out->data + out->size_bytes - RS_FMT_ENTRY_SIZE;
    rs_store_u16(e + RS_FMT_E_KIND, (uint16_t)kind);
    rs_store_u16(e + RS_FMT_E_STORE, (uint16_t)store);
    rs_store_u64(e + RS_FMT_E_OFFSET, s->off);
    rs_store_u64(e + RS_FMT_E_SIZE, s->size_bytes);
    rs_store_u64(e + RS_FMT_E_COUNT, s->count);
    rs_store_u32(e + RS_FMT_E_CRC, s->crc);
    return RS_OK;
}

/* Sorts n entries by the offsets of their sections. The sort is stable. */
static void sort_entries(uint8_t *entries, uint32_t n) {
    uint32_t k;
    for (uint32_t i = 1; i < n; i++) {
        uint8_t moved[RS_FMT_ENTRY_SIZE];
        uint64_t off = rs_load_u64(entries + (size_t)i * RS_FMT_ENTRY_SIZE + RS_FMT_E_OFFSET);
        memcpy(moved, entries + (size_t)i * RS_FMT_ENTRY_SIZE, sizeof moved);
        for (k = i; k > 0; k--) {
            uint8_t *before = entries + (size_t)(k - 1) * RS_FMT_ENTRY_SIZE;
            if (rs_load_u64(before + RS_FMT_E_OFFSET) <= off) break;
            memcpy(before + RS_FMT_ENTRY_SIZE, before, RS_FMT_ENTRY_SIZE);
        }
        memcpy(entries + (size_t)k * RS_FMT_ENTRY_SIZE, moved, sizeof moved);
    }
}

/* Appends the entry of TABLES, if the store has tables. */
static rs_status write_tables(const rs_directory *directory, unsigned store, rs_buffer *out, rs_error *err) {
    const rs_section *tables = &directory->sections[RS_FMT_SECTION_TABLES];
    return tables->off == 0 ? RS_OK : write_entry(tables, RS_FMT_SECTION_TABLES, store, out, err);
}

rs_status rs_directory_write(const rs_directory *directory, const rs_directory *keys, rs_header *header, rs_buffer *out,
                             rs_error *err) {
    size_t begin = out->size_bytes;
    for (unsigned kind = 1; kind <= RS_FMT_SECTION_STORE_LAST; kind++) {
        RS_TRY(write_entry(&directory->sections[kind], kind, 0, out, err));
    }
    RS_TRY(write_tables(directory, 0, out, err));
    for (unsigned kind = RS_FMT_SECTION_HEAP + 1; keys != NULL && kind <= RS_FMT_SECTION_STORE_LAST; kind++) {
        RS_TRY(write_entry(&keys->sections[kind], kind, 1, out, err));
    }
    if (keys != NULL) {
        RS_TRY(write_tables(keys, 1, out, err));
        RS_TRY(write_entry(&keys->sections[RS_FMT_SECTION_KEY_INDEX], RS_FMT_SECTION_KEY_INDEX, 1, out, err));
        if (keys->sections[RS_FMT_SECTION_ORDER].off != 0) {
            RS_TRY(write_entry(&keys->sections[RS_FMT_SECTION_ORDER], RS_FMT_SECTION_ORDER, 1, out, err));
        }
    }
    for (unsigned i = 0; i < directory->n_saved_indexes; i++) {
        RS_TRY(write_entry(&directory->saved_indexes[i], RS_FMT_SECTION_SAVED_INDEX, 0, out, err));
    }
    if (directory->label.off != 0) RS_TRY(write_entry(&directory->label, RS_FMT_SECTION_LABEL, 0, out, err));
    header->directory_count = (uint32_t)((out->size_bytes - begin) / RS_FMT_ENTRY_SIZE);
    sort_entries(out->data + begin, header->directory_count);
    header->directory_crc = rs_crc32c(0, out->data + begin, out->size_bytes - begin);
    return RS_OK;
}
