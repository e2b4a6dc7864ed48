/* rs_cache_seal.c: makes the file of a cache a segment too ("Sealed caches" in FORMAT.md). */
#include "cache/rs_cache_seal.h"

#include "base/rs_crc.h"
#include "format/rs_any.h"
#include "format/rs_header.h"
#include "format/rs_offsets.h"

/* The parts of the segment: its sections by kind, and those of the keys of a mapping. */
typedef struct sealing {
    const rs_cache *cache;
    rs_header header;
    rs_buffer sections[RS_FMT_SECTION_STORE_LAST + 1];
    rs_buffer keys; /* the bytes of the segment of keys between its header and its directory */
    rs_buffer directory;
    rs_directory places, key_places;
} sealing;

static uint64_t segment_offset(const rs_cache *cache, const uint8_t *p) {
    return cache->layout.table_end - cache->layout.segment + (uint64_t)(p - cache->data);
}

static void raise(uint64_t *to, uint64_t value) {
    if (value > *to) *to = value;
}

/* ---- Values ---- */

/* Checks the lengths within a value, and raises the limits in the header to it. */
static rs_status measure(sealing *self, const rs_cache_value *value, rs_error *err) {
    rs_slice in = value->body;
    rs_budget budget = {.values = UINT64_MAX, .bytes = UINT64_MAX, .depth = RS_FMT_DEPTH};
    const uint64_t arrays_size = rs_slice_left(&value->arrays);
    RS_TRY(rs_any_skip(&in, arrays_size, &budget, err));
    if (in.ptr != in.end) {
        return rs_error_set(err, RS_E_FMT_TRAILING, RS_NOWHERE, "a value of the cache has bytes after its end");
    }
    raise(&self->header.max_values, UINT64_MAX - budget.values + 1);
    raise(&self->header.max_bytes, rs_slice_left(&value->body));
    self->header.raw_size += rs_slice_left(&value->body) + arrays_size;
    return RS_OK;
}

static rs_status append_block(sealing *self, const rs_cache_value *value, uint64_t number, rs_error *err) {
    const uint8_t *start = value->form.ptr - RS_CACHE_VALUE_HEAD;
    const uint64_t size = rs_slice_left(&value->body), arrays_size = rs_slice_left(&value->arrays);
    const uint64_t begin = (uint64_t)(value->body.ptr - start);
    rs_block block = {.first_record = number, .n_records = 1, .heap_size_bytes = begin + size};
    rs_buffer *groups = &self->sections[RS_FMT_SECTION_GROUPS], *blocks = &self->sections[RS_FMT_SECTION_BLOCKS];
    RS_TRY(measure(self, value, err));
    RS_TRY(rs_offsets_append_one(begin, size, &block, &self->sections[RS_FMT_SECTION_OFFSETS], err));
    block.heap_off = block.arrays_off = segment_offset(self->cache, start);
    block.heap_crc = rs_crc32c(0, start, (size_t)block.heap_size_bytes);
    if (arrays_size != 0) {
        block.arrays_off = segment_offset(self->cache, value->arrays.ptr);
        block.arrays_size_bytes = arrays_size;
        block.arrays_crc = rs_crc32c(0, value->arrays.ptr, arrays_size);
    }
    if (number % RS_FMT_GROUP_RECORDS == 0) {
        RS_TRY(rs_buffer_append_zeros(groups, 4, err));
        rs_store_u32(groups->data + groups->size_bytes - 4, (uint32_t)number);
    }
    RS_TRY(rs_buffer_append_zeros(blocks, RS_FMT_BLOCK_SIZE, err));
    rs_block_write(&block, blocks->data + blocks->size_bytes - RS_FMT_BLOCK_SIZE);
    return RS_OK;
}

/* Appends the one tree: an any node. */
static rs_status append_tree(sealing *self, rs_error *err) {
    uint8_t tree[RS_FMT_TREE_HEAD_SIZE + RS_FMT_NODE_SIZE] = {1}, entry[RS_FMT_TREE_ENTRY_SIZE] = {0};
    tree[RS_FMT_TREE_HEAD_SIZE + RS_FMT_N_KIND] = RS_FMT_NODE_ANY;
    rs_store_u32(entry + 8, sizeof tree);
    rs_store_u32(entry + 12, rs_crc32c(0, tree, sizeof tree));
    RS_TRY(rs_buffer_append(&self->sections[RS_FMT_SECTION_TREES], tree, sizeof tree, err));
    return rs_buffer_append(&self->sections[RS_FMT_SECTION_TREE_TABLE], entry, sizeof entry, err);
}

/* ---- Keys ---- */

/* Copies the keys of a mapping, and raises the limits in the header to its limits. */
static rs_status copy_keys(sealing *self, rs_slice mapping, rs_error *err) {
    const rs_limits all = {UINT64_MAX, UINT64_MAX};
    rs_header header;
    RS_TRY(rs_header_read(mapping, &all, &header, err));
    RS_TRY(rs_directory_read(mapping, &header, 1, &self->key_places, err));
    if (header.n_records != self->header.n_records) {
        return rs_error_set(err, RS_E_FMT_KEYS, RS_NOWHERE, "the keys of the cache are not distinct");
    }
    RS_ASSERT(!header.is_long);
    self->header.features_required |= header.features_required;
    raise(&self->header.max_values, header.max_values);
    raise(&self->header.max_bytes, header.max_bytes);
    self->header.raw_size += header.raw_size;
    return rs_buffer_append(&self->keys, mapping.ptr + RS_FMT_HEADER_SIZE,
                            (size_t)(header.directory_off - RS_FMT_HEADER_SIZE), err);
}

/* Adds `delta` to the offsets in a section of block or table entries of the keys. */
static void move_entries(sealing *self, unsigned kind, uint64_t delta) {
    rs_section *section = &self->key_places.sections[kind];
    if (section->size_bytes == 0) return;
    uint8_t *entries = self->keys.data + section->off - RS_FMT_HEADER_SIZE;
    rs_offsets_move(entries, section->size_bytes, delta, delta);
    section->crc = rs_crc32c(0, entries, (size_t)section->size_bytes);
}

/* Moves the keys to `at`, an offset in the segment. */
static void move_keys(sealing *self, uint64_t at) {
    const uint64_t delta = at - RS_FMT_HEADER_SIZE;
    move_entries(self, RS_FMT_SECTION_BLOCKS, delta);
    move_entries(self, RS_FMT_SECTION_TABLES, delta);
    for (unsigned kind = RS_FMT_SECTION_HEAP; kind <= RS_FMT_SECTION_LAST; kind++) {
        if (self->key_places.sections[kind].off != 0) self->key_places.sections[kind].off += delta;
    }
}

/* ---- Writing ---- */

static uint64_t count_of(const sealing *self, unsigned kind) {
    const uint64_t size = self->sections[kind].size_bytes;
    if (kind == RS_FMT_SECTION_OFFSETS) return 0;
    return kind == RS_FMT_SECTION_GROUPS ? size / 4 : kind == RS_FMT_SECTION_BLOCKS ? self->header.n_records : 1;
}

/* Writes `bytes` to *at, an offset in the segment, and sets *at to the next aligned offset. */
static rs_status write_bytes(const sealing *self, const void *bytes, uint64_t size, uint64_t *at, rs_error *err) {
    RS_TRY(rs_os_write_at(self->cache->fd, bytes, (size_t)size, *at + self->cache->layout.segment, err));
    *at = rs_align_up(*at + size, RS_FMT_ALIGNMENT);
    return RS_OK;
}

static rs_status write_section(const sealing *self, const void *bytes, uint64_t size, uint64_t count, rs_section *out,
                               uint64_t *at, rs_error *err) {
    *out = (rs_section){.off = *at, .size_bytes = size, .count = count, .crc = rs_crc32c(0, bytes, (size_t)size)};
    return write_bytes(self, bytes, size, at, err);
}

static rs_status write_sections(sealing *self, uint64_t at, rs_slice label, uint64_t n_pairs, rs_error *err) {
    rs_section *heap = &self->places.sections[RS_FMT_SECTION_HEAP];
    const bool is_mapping = self->header.content == RS_FMT_CONTENT_MAPPING;
    rs_buffer *blocks = &self->sections[RS_FMT_SECTION_BLOCKS];
    heap->off = self->cache->layout.table_end - self->cache->layout.segment;
    heap->count = self->header.n_records;
    heap->size_bytes = at - heap->off;
    if (is_mapping) {
        heap->size_bytes += self->key_places.sections[RS_FMT_SECTION_HEAP].size_bytes;
        move_keys(self, at);
        RS_TRY(write_bytes(self, self->keys.data, self->keys.size_bytes, &at, err));
    }
    rs_offsets_move(blocks->data, blocks->size_bytes, 0, at);
    for (unsigned kind = RS_FMT_SECTION_OFFSETS; kind <= RS_FMT_SECTION_STORE_LAST; kind++) {
        const rs_buffer *section = &self->sections[kind];
        RS_TRY(write_section(self, section->data, section->size_bytes, count_of(self, kind),
                             &self->places.sections[kind], &at, err));
    }
    RS_TRY(write_section(self, label.ptr, rs_slice_left(&label), n_pairs, &self->places.label, &at, err));
    self->header.directory_off = at;
    RS_TRY(rs_directory_write(&self->places, is_mapping ? &self->key_places : NULL, &self->header, &self->directory,
                              err));
    RS_TRY(write_bytes(self, self->directory.data, self->directory.size_bytes, &at, err));
    self->header.segment_size = self->header.directory_off + self->directory.size_bytes;
    return RS_OK;
}

static rs_status write_header(sealing *self, rs_error *err) {
    uint8_t bytes[RS_FMT_HEADER_SIZE] = {0};
    self->header.created_ns = rs_os_now_ns();
    RS_TRY(rs_os_random(self->header.segment_id, sizeof self->header.segment_id, err));
    rs_header_write(&self->header, bytes);
    /* After a power cut, a file with this header has all bytes of the segment, and one that is sealed has a header. */
    RS_TRY(rs_os_sync(self->cache->fd, err));
    RS_TRY(rs_os_write_at(self->cache->fd, bytes, sizeof bytes, self->cache->layout.segment, err));
    return rs_os_sync(self->cache->fd, err);
}

/* Makes all parts in memory, and sets *size to a bound on their bytes in the file. */
static rs_status make_parts(sealing *self, const rs_cache_value *values, rs_slice keys, rs_watch *watch, uint64_t *size,
                            rs_error *err) {
    for (uint64_t i = 0; i < self->header.n_records; i++) {
        RS_TRY(append_block(self, &values[i], i, err));
        RS_TRY(rs_watch_count(watch, (uint64_t)(values[i].arrays.end - values[i].form.ptr), err));
    }
    RS_TRY(append_tree(self, err));
    if (keys.ptr != NULL) RS_TRY(copy_keys(self, keys, err));
    *size = self->keys.size_bytes + RS_FMT_DIRECTORY_ENTRIES * (RS_FMT_ENTRY_SIZE + RS_FMT_ALIGNMENT);
    for (unsigned kind = 1; kind <= RS_FMT_SECTION_STORE_LAST; kind++) *size += self->sections[kind].size_bytes;
    return RS_OK;
}

static rs_status seal(sealing *self, rs_cache_arena *arena, const rs_cache_value *values, rs_slice keys, rs_slice label,
                      uint64_t n_pairs, rs_watch *watch, rs_error *err) {
    uint64_t at, size = 0;
    RS_TRY(make_parts(self, values, keys, watch, &size, err));
    size += rs_slice_left(&label);
    RS_TRY(rs_cache_take_end(self->cache, arena, size, &at, err));
    rs_status code = write_sections(self, at - self->cache->layout.segment, label, n_pairs, err);
    if (code == RS_OK) code = write_header(self, err);
    if (code == RS_OK) rs_cache_set_state(self->cache, RS_CACHE_SEALED);
    rs_cache_release_end(self->cache, arena, at, size, code == RS_OK);
    return code;
}

rs_status rs_cache_seal(const rs_cache *self, rs_cache_arena *arena, const rs_cache_value *values, uint64_t n_values,
                        rs_slice keys, rs_slice label, uint64_t n_pairs, rs_watch *watch, rs_error *err) {
    sealing all = {.cache = self};
    if (n_values > UINT32_MAX) {
        return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "a segment has less than 2^32 blocks, not %llu",
                            (unsigned long long)n_values);
    }
    all.header.content = keys.ptr == NULL ? RS_FMT_CONTENT_LIST : RS_FMT_CONTENT_MAPPING;
    all.header.features_required = RS_FMT_FEATURE_EXT | RS_FMT_FEATURE_DTYPES | RS_FMT_FEATURE_ENDS;
    all.header.n_records = n_values;
    all.header.max_depth = RS_FMT_DEPTH;
    const rs_status code = seal(&all, arena, values, keys, label, n_pairs, watch, err);
    for (unsigned kind = 0; kind <= RS_FMT_SECTION_STORE_LAST; kind++) rs_buffer_clear(&all.sections[kind]);
    rs_buffer_clear(&all.keys);
    rs_buffer_clear(&all.directory);
    return code;
}
