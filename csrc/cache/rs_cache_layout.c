/* rs_cache_layout.c: creates, opens and closes the file of a cache. */
#include "cache/rs_cache.h"

#include "base/rs_crc.h"
#include "format/rs_format.h"

enum {
    VERSION = 2,
    KEPT = 1, /* a flag */
    LABEL_AT = RS_CACHE_HEADER - 4 - RS_CACHE_LABEL_MOST,
    CHUNK_LEAST = 4096,    /* bytes */
    CHUNKS_MOST = 8192,    /* of a level */
    FIRST_LEVEL = 1 << 12, /* slots; each further level of hashed keys has four times as many */
    VALUE_LEAST = 64,      /* bytes */
    ARENA_LEAST = 1 << 20, /* bytes */
    ARENAS_MOST = 1 << 12, /* the most arenas for four times the limit */
    ARENAS_SPARE = 1 << 10 /* more arenas, for writers that have begun one */
};
#define LIMIT_MOST ((uint64_t)1 << 43) /* bytes; the offset of a value has 46 bits */

uint64_t rs_cache_chunks_at(const rs_cache_layout *layout) { return RS_CACHE_ARENAS_AT + 8 * layout->n_arenas; }

static uint64_t count_chunks(uint64_t slots, uint64_t chunk_bytes) {
    return (8 * slots + chunk_bytes - 1) / chunk_bytes;
}

static void add_level(rs_cache_layout *out, uint64_t slots, uint64_t *n_chunks) {
    uint64_t chunk = CHUNK_LEAST;
    while (count_chunks(slots, chunk) > CHUNKS_MOST) chunk *= 2;
    out->level_slots[out->n_levels] = slots;
    out->chunk_bytes[out->n_levels] = chunk;
    out->first_chunk[out->n_levels++] = *n_chunks;
    *n_chunks += count_chunks(slots, chunk);
}

/* Computes the layout that follows from slots and limit_bytes. */
static rs_status lay_out(rs_cache_layout *out, rs_error *err) {
    uint64_t n_chunks = 0;
    if (out->slots > RS_CACHE_SLOTS_MOST || out->limit_bytes > LIMIT_MOST) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE,
                            "a cache has at most %llu slots and %llu bytes, not %llu and %llu",
                            (unsigned long long)RS_CACHE_SLOTS_MOST, (unsigned long long)LIMIT_MOST,
                            (unsigned long long)out->slots, (unsigned long long)out->limit_bytes);
    }
    out->arena_bytes = ARENA_LEAST;
    while (4 * out->limit_bytes / out->arena_bytes > ARENAS_MOST) out->arena_bytes *= 2;
    out->n_arenas = 4 * out->limit_bytes / out->arena_bytes + ARENAS_SPARE;
    out->n_levels = 0;
    if (out->slots != 0) {
        add_level(out, out->slots, &n_chunks);
    } else {
        const uint64_t max_values = out->limit_bytes / VALUE_LEAST;
        uint64_t slots = FIRST_LEVEL;
        add_level(out, slots, &n_chunks);
        while (slots / 4 < max_values && out->n_levels < RS_CACHE_LEVELS_MOST) add_level(out, slots *= 4, &n_chunks);
    }
    out->table = rs_align_up(rs_cache_chunks_at(out) + n_chunks, RS_FMT_CACHE_UNIT);
    uint64_t at = out->table;
    for (uint32_t i = 0; i < out->n_levels; i++) {
        out->level_offset[i] = at;
        at = rs_align_up(at + 8 * out->level_slots[i], RS_FMT_CACHE_UNIT);
    }
    out->segment = at;
    out->table_end = at + RS_FMT_CACHE_UNIT;
    return RS_OK;
}

rs_status rs_cache_create(int fd, uint64_t slots, uint64_t limit_bytes, bool kept, rs_slice label, rs_error *err) {
    uint8_t head[RS_CACHE_HEADER] = {0};
    rs_cache_layout layout = {.slots = slots, .limit_bytes = limit_bytes};
    const size_t label_size = rs_slice_left(&label);
    RS_TRY(lay_out(&layout, err));
    if (label_size > RS_CACHE_LABEL_MOST) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "the label of a cache has %zu bytes, more than %d",
                            label_size, (int)RS_CACHE_LABEL_MOST);
    }
    if (rs_os_is_network(fd)) {
        return rs_error_set(
            err, RS_E_SYS_NOT_OURS, RS_NOWHERE,
            "the folder of a cache is on a network file system, which other machines may change; choose "
            "a local disk");
    }
    RS_TRY(rs_os_allocate(fd, 0, layout.table, err));
    RS_TRY(rs_os_truncate(fd, layout.table_end, err));
    memcpy(head, RS_FMT_CACHE_MAGIC, 8);
    rs_store_u32(head + 8, VERSION);
    rs_store_u32(head + 12, kept ? KEPT : 0);
    rs_store_u64(head + 16, slots);
    rs_store_u64(head + 24, limit_bytes);
    rs_store_u64(head + 40, rs_os_now_ns());
    RS_TRY(rs_os_random(head + 32, 8, err));
    RS_TRY(rs_os_random(head + 48, RS_CACHE_ID_SIZE, err));
    rs_store_u32(head + 64, (uint32_t)label_size);
    rs_store_u64(head + RS_FMT_CACHE_SEGMENT, layout.segment);
    if (label_size != 0) memcpy(head + LABEL_AT, label.ptr, label_size);
    rs_store_u32(head + RS_CACHE_HEADER - 4, rs_crc32c(0, head, RS_CACHE_HEADER - 4));
    return rs_os_write_at(fd, head, sizeof head, 0, err);
}

/* Checks a header and fills the layout. */
static rs_status read_header(const uint8_t *head, rs_cache_layout *out, uint32_t *label_size, rs_error *err) {
    rs_cache_layout layout = {0};
    if (memcmp(head, RS_FMT_CACHE_MAGIC, 8) != 0) {
        return rs_error_set(err, RS_E_FMT_MAGIC, 0, "not a recstore cache");
    }
    if (rs_load_u32(head + 8) != VERSION) {
        return rs_error_set(err, RS_E_FMT_VERSION, 8,
                            "a cache of version %lu, which this version cannot read; `recstore rm NAME` removes it",
                            (unsigned long)rs_load_u32(head + 8));
    }
    if (rs_crc32c(0, head, RS_CACHE_HEADER - 4) != rs_load_u32(head + RS_CACHE_HEADER - 4)) {
        return rs_error_set(err, RS_E_FMT_CHECKSUM, 0, "the header of the cache does not match its checksum");
    }
    layout.kept = (rs_load_u32(head + 12) & KEPT) != 0;
    layout.slots = rs_load_u64(head + 16);
    layout.limit_bytes = rs_load_u64(head + 24);
    layout.seed = rs_load_u64(head + 32);
    layout.created_ns = rs_load_u64(head + 40);
    memcpy(layout.id, head + 48, RS_CACHE_ID_SIZE);
    *label_size = rs_load_u32(head + 64);
    if (*label_size > RS_CACHE_LABEL_MOST || lay_out(&layout, NULL) != RS_OK ||
        rs_load_u64(head + RS_FMT_CACHE_SEGMENT) != layout.segment) {
        return rs_error_set(err, RS_E_FMT_VALUE, 16, "the header of the cache has a number out of range");
    }
    *out = layout;
    return RS_OK;
}

/* Reads and checks the header, and that the file has the bytes before its arenas. */
static rs_status inspect(int fd, uint8_t head[RS_CACHE_HEADER], rs_cache_layout *out, uint32_t *label_size,
                         rs_os_identity *identity, rs_error *err) {
    const uint8_t *mapped;
    RS_TRY(rs_os_identify(fd, identity, err));
    if (identity->size_bytes < RS_CACHE_HEADER) {
        return rs_error_set(err, RS_E_FMT_TRUNCATED, identity->size_bytes, "the file is too short for a cache");
    }
    RS_TRY(rs_os_map(fd, RS_CACHE_HEADER, &mapped, err));
    memcpy(head, mapped, RS_CACHE_HEADER);
    rs_os_unmap(mapped, RS_CACHE_HEADER);
    RS_TRY(read_header(head, out, label_size, err));
    if (identity->size_bytes < out->table_end) {
        return rs_error_set(err, RS_E_FMT_TRUNCATED, identity->size_bytes, "the file of the cache has been cut");
    }
    return RS_OK;
}

rs_status rs_cache_inspect(int fd, rs_cache_layout *out, rs_buffer *label, rs_error *err) {
    uint8_t head[RS_CACHE_HEADER];
    rs_os_identity identity;
    uint32_t label_size;
    RS_TRY(inspect(fd, head, out, &label_size, &identity, err));
    return rs_buffer_append(label, head + LABEL_AT, label_size, err);
}

rs_status rs_cache_open(int fd, rs_cache *out, rs_error *err) {
    uint8_t head[RS_CACHE_HEADER];
    uint32_t label_size;
    rs_cache cache = {.fd = fd, .memory_backed = rs_os_is_memory_backed(fd)};
    RS_TRY(inspect(fd, head, &cache.layout, &label_size, &cache.identity, err));
    cache.data_bytes = cache.layout.n_arenas * cache.layout.arena_bytes;
    /* A mapping keeps the lease of its descriptor. These mappings have a descriptor of their own, so the lease ends
     * with `fd` even while views of the arenas are alive. */
    int mapped;
    RS_TRY(rs_os_reopen_writable(fd, &mapped, err));
    rs_status code = rs_os_map_writable(mapped, cache.layout.table_end, &cache.table, err);
    if (code == RS_OK) {
        code = rs_os_map_from(mapped, cache.layout.table_end, cache.data_bytes, &cache.data, err);
        if (code != RS_OK) rs_os_unmap(cache.table, cache.layout.table_end);
    }
    rs_os_close(&mapped);
    if (code == RS_OK) *out = cache;
    return code;
}

void rs_cache_close(rs_cache *self) {
    rs_os_unmap(self->table, self->layout.table_end);
    rs_os_unmap(self->data, self->data_bytes);
    self->table = NULL;
    self->data = NULL;
    rs_os_close(&self->fd);
}
