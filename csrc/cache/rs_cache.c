/* rs_cache.c: looks up, stores and counts the values of a cache. */
#include "cache/rs_cache.h"

#include "base/rs_crc.h"
#include "base/rs_hash.h"
#include "base/rs_permute.h"

enum {
    LINE = 8, /* slots that a search reads in one level: a line of the processor's cache */
    TAG_BITS = 24,
    ALIGNMENT = 64,    /* of values and of their arrays */
    SEEN_LEAST = 32,   /* values seen before rs_cache_admits refuses any */
    CHECKED = 32 << 20 /* bytes that a writer may write between two checks of the available memory */
};

/* ---------------------------------------------------------------- numbers that processes share */

static uint64_t *number_at(const rs_cache *self, uint64_t offset) { return (uint64_t *)(void *)(self->table + offset); }

static uint64_t load(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void store(uint64_t *p, uint64_t value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }
static uint64_t add(uint64_t *p, uint64_t n) { return __atomic_fetch_add(p, n, __ATOMIC_RELAXED); }

static bool swap(uint64_t *p, uint64_t from, uint64_t to) {
    return __atomic_compare_exchange_n(p, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static uint64_t *used_of(const rs_cache *self, uint64_t arena) {
    return number_at(self, RS_CACHE_ARENAS_AT + 8 * arena);
}

static uint64_t begun_arenas(const rs_cache *self) {
    const uint64_t n = load(number_at(self, RS_CACHE_NEXT_ARENA_AT));
    return n < self->layout.n_arenas ? n : self->layout.n_arenas;
}

/* Sets *size to the bytes of the arenas that the file has. The mapping must not be read beyond them. */
static rs_status check_size(const rs_cache *self, uint64_t *size, rs_error *err) {
    rs_os_identity now;
    RS_TRY(rs_os_identify(self->fd, &now, err));
    if (RS_UNLIKELY(now.size_bytes < self->layout.table_end)) {
        return rs_error_set(err, RS_E_FMT_TRUNCATED, now.size_bytes, "the file of the cache has been cut");
    }
    *size = now.size_bytes - self->layout.table_end;
    if (*size > self->data_bytes) *size = self->data_bytes;
    return RS_OK;
}

rs_status rs_cache_check_file(const rs_cache *self, rs_error *err) {
    uint64_t size;
    return check_size(self, &size, err);
}

uint64_t rs_cache_used(const rs_cache *self) {
    uint64_t sum = 0, file_size;
    if (check_size(self, &file_size, NULL) != RS_OK) return 0;
    const uint64_t n = begun_arenas(self);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t used = load(used_of(self, i));
        sum += used < self->layout.arena_bytes ? used : self->layout.arena_bytes;
    }
    return sum;
}

/* ---------------------------------------------------------------- the table */

/* Returns slot number `i` of a level, or NULL if its chunk has no space yet: then the slot is empty. A mapped page
 * without space must not be read: that would allocate it, or end the process on a full disk. */
static uint64_t *slot_of(const rs_cache *self, uint32_t level, uint64_t i, uint8_t **out_flag) {
    const rs_cache_layout *l = &self->layout;
    uint8_t *flag = self->table + rs_cache_chunks_at(l) + l->first_chunk[level] + 8 * i / l->chunk_bytes[level];
    if (out_flag != NULL) *out_flag = flag;
    if (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) return NULL;
    return number_at(self, l->level_offset[level] + 8 * i);
}

/* Sets *out to a slot, and reserves the space of its chunk. Several processes may do so at once: no bytes change. */
static rs_status reserve_slot(const rs_cache *self, uint32_t level, uint64_t i, uint64_t **out, rs_error *err) {
    const rs_cache_layout *l = &self->layout;
    uint8_t *flag;
    *out = slot_of(self, level, i, &flag);
    if (*out != NULL) return RS_OK;
    const uint64_t size = l->chunk_bytes[level], from = l->level_offset[level] + 8 * i / size * size;
    const uint64_t end = l->level_offset[level] + 8 * l->level_slots[level];
    RS_TRY(rs_os_allocate(self->fd, from, from + size < end ? from + size : end, err));
    __atomic_store_n(flag, (uint8_t)1, __ATOMIC_RELEASE);
    *out = slot_of(self, level, i, NULL);
    return RS_OK;
}

static uint64_t tag_of(uint64_t hash) { return hash & (((uint64_t)1 << TAG_BITS) - 1); }

/* Returns the first slot of the line of a hash in a level. The high bits of the hash choose the line; its low bits are
 * the tag. */
static uint64_t line_of(const rs_cache *self, uint32_t level, uint64_t hash) {
    return LINE * rs_hash_scale(hash, self->layout.level_slots[level] / LINE);
}

/* The progress of a search. Zero it at first. */
typedef struct place {
    uint32_t level;
    uint32_t step;
} place;

/* Sets *i to the slot of a place in its level. Returns false after the last place. */
static bool slot_at(const rs_cache *self, uint64_t hash, const place *at, uint64_t *i) {
    if (at->level >= self->layout.n_levels) return false;
    *i = self->layout.slots != 0 ? hash : line_of(self, at->level, hash) + at->step;
    return true;
}

static void advance(const rs_cache *self, place *at) {
    if (self->layout.slots == 0 && ++at->step < LINE) return;
    at->step = 0;
    at->level++;
}

/* ---------------------------------------------------------------- reading */

static RS_COLD rs_status damaged(const rs_cache *self, uint64_t at, rs_error *err) {
    return rs_error_set(err, RS_E_FMT_VALUE, self->layout.table_end + at, "a value of the cache is damaged");
}

/* Takes the value that an entry of the table leads to. `size` is from check_size. */
static rs_status value_of(const rs_cache *self, uint64_t entry, uint64_t size, rs_cache_value *out, rs_error *err) {
    const uint64_t offset = (entry >> TAG_BITS) * ALIGNMENT, at = offset - self->layout.table_end;
    if (offset < self->layout.table_end || at >= size) return damaged(self, at, err);
    rs_slice in = rs_slice_of(self->data + at, size - at);
    const uint8_t *head, *form, *key, *body, *gap, *arrays;
    if (!rs_take(&in, RS_CACHE_VALUE_HEAD, &head)) return damaged(self, at, err);
    const uint32_t form_size = rs_load_u32(head + 4);
    const uint64_t key_size = rs_load_u64(head + 16), body_size = rs_load_u64(head + 24);
    const uint64_t arrays_size = rs_load_u64(head + 32);
    if (!rs_take(&in, form_size, &form) || !rs_take(&in, key_size, &key) || !rs_take(&in, body_size, &body)) {
        return damaged(self, at, err);
    }
    const uint64_t end = (uint64_t)(in.ptr - self->data);
    if (!rs_take(&in, arrays_size == 0 ? 0 : rs_align_up(end, ALIGNMENT) - end, &gap)) return damaged(self, at, err);
    if (!rs_take(&in, arrays_size, &arrays)) return damaged(self, at, err);
    out->crc = rs_load_u32(head);
    out->hash = rs_load_u64(head + 8);
    out->form = rs_slice_of(form, form_size);
    out->key = rs_slice_of(key, key_size);
    out->body = rs_slice_of(body, body_size);
    out->arrays = rs_slice_of(arrays, arrays_size);
    return tag_of(out->hash) == tag_of(entry) ? RS_OK : damaged(self, at, err);
}

/* As value_of, for a `size` that was read before the entry: the file may have grown since. */
static rs_status published_value(const rs_cache *self, uint64_t entry, uint64_t size, rs_cache_value *out,
                                 rs_error *err) {
    if (value_of(self, entry, size, out, NULL) == RS_OK) return RS_OK;
    RS_TRY(check_size(self, &size, err));
    return value_of(self, entry, size, out, err);
}

static bool has_key(const rs_cache_value *value, uint64_t hash, rs_slice form) {
    const size_t n = rs_slice_left(&form);
    return value->hash == hash && rs_slice_left(&value->form) == n &&
           (n == 0 || memcmp(value->form.ptr, form.ptr, n) == 0);
}

rs_status rs_cache_find(const rs_cache *self, uint64_t hash, rs_slice form, bool *found, rs_cache_value *out,
                        rs_error *err) {
    place at = {0, 0};
    uint64_t size = 0, i;
    *found = false;
    RS_TRY(check_size(self, &size, err));
    for (; slot_at(self, hash, &at, &i); advance(self, &at)) {
        const uint64_t *slot = slot_of(self, at.level, i, NULL);
        const uint64_t entry = slot == NULL ? 0 : load(slot);
        if (entry == 0) return RS_OK; /* slots fill in the order of the search and are never emptied */
        if (tag_of(entry) != tag_of(hash)) continue;
        RS_TRY(published_value(self, entry, size, out, err));
        *found = has_key(out, hash, form);
        if (*found) return RS_OK;
    }
    if (self->layout.slots == 0) return RS_OK;
    return rs_error_set(err, RS_E_FMT_VALUE, RS_NOWHERE, "a slot of the cache leads to another value");
}

/* Fills the head of a value, except its checksum, and returns the checksum, or 0 if it is not `wanted`. Checksums
 * guard against restarts of the machine, which files in memory do not survive. */
static uint32_t crc_of(const rs_cache_value *value, uint8_t head[RS_CACHE_VALUE_HEAD], bool wanted) {
    const rs_slice parts[] = {value->form, value->key, value->body, value->arrays};
    rs_store_u32(head + 4, (uint32_t)rs_slice_left(&value->form));
    rs_store_u64(head + 8, value->hash);
    rs_store_u64(head + 16, rs_slice_left(&value->key));
    rs_store_u64(head + 24, rs_slice_left(&value->body));
    rs_store_u64(head + 32, rs_slice_left(&value->arrays));
    if (!wanted) return 0;
    uint32_t crc = rs_crc32c(0, head + 4, RS_CACHE_VALUE_HEAD - 4);
    for (int i = 0; i < 4; i++) crc = rs_crc32c(crc, parts[i].ptr, rs_slice_left(&parts[i]));
    return crc;
}

rs_status rs_cache_check(const rs_cache *self, const rs_cache_value *value, rs_error *err) {
    uint8_t head[RS_CACHE_VALUE_HEAD];
    if (self->memory_backed || crc_of(value, head, true) == value->crc) return RS_OK;
    return rs_error_set(err, RS_E_FMT_CHECKSUM, RS_NOWHERE, "a value of the cache does not match its checksum");
}

rs_status rs_cache_scan(const rs_cache *self, uint64_t *position, bool *found, rs_cache_value *out, rs_error *err) {
    const rs_cache_layout *l = &self->layout;
    uint64_t size = 0, before = 0;
    *found = false;
    RS_TRY(check_size(self, &size, err));
    for (uint32_t level = 0; level < l->n_levels; before += l->level_slots[level++]) {
        while (*position < before + l->level_slots[level]) {
            const uint64_t i = *position - before, per_chunk = l->chunk_bytes[level] / 8;
            const uint64_t *slot = slot_of(self, level, i, NULL);
            const uint64_t next = (i / per_chunk + 1) * per_chunk, last = l->level_slots[level];
            *position = slot == NULL ? before + (next < last ? next : last) : *position + 1;
            const uint64_t entry = slot == NULL ? 0 : load(slot);
            if (entry == 0) continue;
            *found = true;
            return published_value(self, entry, size, out, err);
        }
    }
    return RS_OK;
}

uint64_t rs_cache_count(const rs_cache *self, uint64_t *table_bytes) {
    const rs_cache_layout *l = &self->layout;
    uint64_t n = 0, size;
    *table_bytes = 0;
    if (check_size(self, &size, NULL) != RS_OK) return 0;
    for (uint32_t level = 0; level < l->n_levels; level++) {
        const uint64_t per_chunk = l->chunk_bytes[level] / 8;
        for (uint64_t first = 0; first < l->level_slots[level]; first += per_chunk) {
            const uint64_t *slot = slot_of(self, level, first, NULL);
            const uint64_t left = l->level_slots[level] - first, n_slots = left < per_chunk ? left : per_chunk;
            if (slot == NULL) continue;
            *table_bytes += 8 * n_slots;
            for (uint64_t i = 0; i < n_slots; i++) n += load(slot + i) != 0;
        }
    }
    return n;
}

rs_status rs_cache_count_file(int fd, uint64_t *out, rs_error *err) {
    rs_cache cache = {.fd = fd};
    rs_buffer label = {0};
    uint64_t table_bytes;
    const uint8_t *mapped;
    const rs_status code = rs_cache_inspect(fd, &cache.layout, &label, err);
    rs_buffer_clear(&label);
    if (code != RS_OK) return code;
    RS_TRY(rs_os_map(fd, cache.layout.table_end, &mapped, err));
    cache.table = (uint8_t *)(uintptr_t)mapped; /* counting writes nothing */
    *out = rs_cache_count(&cache, &table_bytes);
    rs_os_unmap(mapped, cache.layout.table_end);
    return RS_OK;
}

/* ---------------------------------------------------------------- admission */

bool rs_cache_admits(const rs_cache *self, uint64_t hash) {
    uint64_t file_size;
    if (check_size(self, &file_size, NULL) != RS_OK) return true; /* rs_cache_put reports the error */
    const uint64_t n = load(number_at(self, RS_CACHE_SEEN_AT)), bytes = load(number_at(self, RS_CACHE_SEEN_AT + 8));
    if (self->layout.slots == 0 || n < SEEN_LEAST) return true;
    const double expected = (double)bytes / (double)n * (double)self->layout.slots;
    const double share = (double)self->layout.limit_bytes / expected;
    /* Aims at less than the whole limit, because by chance more keys may be chosen than expected. */
    return share >= 1 ||
           (double)(rs_mix64(hash ^ self->layout.seed) >> 11) < share * (31.0 / 32) * (double)((uint64_t)1 << 53);
}

/* Counts a value of size_bytes, head and padding included, for rs_cache_admits. */
static void note_size(const rs_cache *self, uint64_t size_bytes) {
    add(number_at(self, RS_CACHE_SEEN_AT + 8), size_bytes);
    add(number_at(self, RS_CACHE_SEEN_AT), 1);
}

/* ---------------------------------------------------------------- arenas */

rs_status rs_cache_open_arena(const rs_cache *self, rs_cache_arena *out, rs_error *err) {
    int fd;
    RS_TRY(rs_os_reopen_writable(self->fd, &fd, err));
    *out = (rs_cache_arena){.fd = fd, .index = RS_NOWHERE};
    return RS_OK;
}

void rs_cache_close_arena(rs_cache_arena *arena) { rs_os_close(&arena->fd); }

static void leave_arena(rs_cache_arena *arena) {
    if (arena->index != RS_NOWHERE) rs_os_unlock_range(arena->fd, arena->index, 1);
    arena->index = RS_NOWHERE;
}

/* Returns the end of the last value of an arena, where the next value goes. A damaged file may store any number. */
static uint64_t end_of(const rs_cache *self, uint64_t arena) {
    const uint64_t used = load(used_of(self, arena));
    return used < self->layout.arena_bytes ? rs_align_up(used, ALIGNMENT) : self->layout.arena_bytes;
}

static uint64_t arenas_for(const rs_cache *self, uint64_t size) { return (size - 1) / self->layout.arena_bytes + 1; }

static bool are_empty(const rs_cache *self, uint64_t first, uint64_t n) {
    for (uint64_t i = first; i < first + n; i++) {
        if (load(used_of(self, i)) != 0) return false;
    }
    return true;
}

/* Begins and locks `n` new arenas. Sets *out to the first, or to RS_NOWHERE if fewer than `n` are left. */
static rs_status begin_arenas(const rs_cache *self, int fd, uint64_t n, uint64_t *out, rs_error *err) {
    for (;;) {
        bool locked;
        *out = RS_NOWHERE;
        if (n > self->layout.n_arenas - begun_arenas(self)) return RS_OK;
        const uint64_t first = add(number_at(self, RS_CACHE_NEXT_ARENA_AT), n);
        if (first > self->layout.n_arenas || n > self->layout.n_arenas - first) return RS_OK;
        RS_TRY(rs_os_try_lock_range(fd, first, n, &locked, err));
        *out = first;
        /* Otherwise another writer that searched for space was faster: it uses or has filled one of these arenas. */
        if (locked && are_empty(self, first, n)) return RS_OK;
        if (locked) rs_os_unlock_range(fd, first, n);
    }
}

/* Returns whether the `n` arenas from `first` on have space for a value of `size` bytes. A single arena may hold other
 * values; several must be empty. */
static bool have_space(const rs_cache *self, uint64_t first, uint64_t n, uint64_t size) {
    const uint64_t max_end = n == 1 ? self->layout.arena_bytes - size : 0;
    for (uint64_t i = first; i < first + n; i++) {
        if (end_of(self, i) > max_end) return false;
    }
    return true;
}

/* Finds and locks `n` adjacent arenas that have space and no writer. */
static rs_status find_arenas(const rs_cache *self, int fd, uint64_t n, uint64_t size, uint64_t *out, rs_error *err) {
    const uint64_t begun = rs_os_has_range_locks() ? begun_arenas(self) : 0;
    *out = RS_NOWHERE;
    for (uint64_t i = 0; i < begun && n <= begun - i; i++) {
        bool locked;
        if (!have_space(self, i, n, size)) continue;
        RS_TRY(rs_os_try_lock_range(fd, i, n, &locked, err));
        if (!locked) continue;
        if (have_space(self, i, n, size)) {
            *out = i;
            return RS_OK;
        }
        rs_os_unlock_range(fd, i, n);
    }
    return RS_OK;
}

/* Sets *first to the arena and *at to the place in it for a value of `size` bytes. *first is RS_NOWHERE if no arena has
 * space. A value larger than an arena takes several empty arenas. */
static rs_status place_value(const rs_cache *self, rs_cache_arena *arena, uint64_t size, uint64_t *first, uint64_t *at,
                             rs_error *err) {
    const uint64_t bytes = self->layout.arena_bytes;
    if (arena->index != RS_NOWHERE && size <= bytes) {
        const uint64_t end = end_of(self, arena->index);
        if (end <= bytes - size) {
            *first = arena->index, *at = end;
            return RS_OK;
        }
    }
    leave_arena(arena);
    *at = 0;
    const uint64_t n = arenas_for(self, size);
    RS_TRY(find_arenas(self, arena->fd, n, size, first, err));
    if (*first == RS_NOWHERE) RS_TRY(begin_arenas(self, arena->fd, n, first, err));
    if (*first == RS_NOWHERE || n > 1) return RS_OK;
    arena->index = *first;
    *at = end_of(self, *first);
    return RS_OK;
}

/* Marks `size` bytes from `at` in arena `first` as used. They may reach into the next arenas. */
static void take_space(const rs_cache *self, uint64_t first, uint64_t at, uint64_t size) {
    const uint64_t bytes = self->layout.arena_bytes;
    for (uint64_t end = at + size; end != 0; first++) {
        const uint64_t n = end < bytes ? end : bytes;
        store(used_of(self, first), n);
        end -= n;
    }
}

/* Undoes take_space for bytes that were not published. */
static void give_back_space(const rs_cache *self, uint64_t first, uint64_t at, uint64_t size) {
    const uint64_t last = first + (at + size - 1) / self->layout.arena_bytes;
    for (uint64_t i = last; i > first; i--) store(used_of(self, i), 0);
    store(used_of(self, first), at);
}

/* Checks the available memory every CHECKED bytes, because the kernel kills a process that exceeds its limit. */
static rs_status require_memory(const rs_cache *self, rs_cache_arena *arena, uint64_t size, rs_error *err) {
    if (!self->memory_backed) return RS_OK;
    if (arena->checked_bytes < size) {
        const uint64_t more = size > CHECKED ? size : CHECKED;
        if (rs_os_require_memory(NULL, more, err) == RS_OK) {
            arena->checked_bytes = more;
        } else {
            RS_TRY(rs_os_require_memory(NULL, size, err));
            arena->checked_bytes = size;
        }
    }
    arena->checked_bytes -= size;
    return RS_OK;
}

rs_status rs_cache_take_end(const rs_cache *self, rs_cache_arena *arena, uint64_t size, uint64_t *offset,
                            rs_error *err) {
    const uint64_t bytes = self->layout.arena_bytes;
    uint64_t first;
    RS_TRY(require_memory(self, arena, size, err));
    RS_TRY(begin_arenas(self, arena->fd, arenas_for(self, size), &first, err));
    if (first == RS_NOWHERE) {
        return rs_error_set(err, RS_E_SPACE, RS_NOWHERE, "the cache has no arenas for %llu bytes",
                            (unsigned long long)size);
    }
    take_space(self, first, 0, size);
    *offset = self->layout.table_end + first * bytes;
    return RS_OK;
}

void rs_cache_release_end(const rs_cache *self, rs_cache_arena *arena, uint64_t offset, uint64_t size, bool used) {
    const uint64_t bytes = self->layout.arena_bytes;
    const uint64_t first = (offset - self->layout.table_end) / bytes, n = arenas_for(self, size);
    if (!used) {
        give_back_space(self, first, 0, size);
        (void)swap(number_at(self, RS_CACHE_NEXT_ARENA_AT), first + n, first);
    }
    rs_os_unlock_range(arena->fd, first, n);
}

/* ---------------------------------------------------------------- the state */

void rs_cache_set_state(const rs_cache *self, rs_cache_state state) {
    store(number_at(self, RS_CACHE_SEALED_AT), (uint64_t)state);
}

rs_cache_state rs_cache_get_state(const rs_cache *self) {
    const uint64_t state = load(number_at(self, RS_CACHE_SEALED_AT));
    return state < RS_CACHE_SEALED ? (rs_cache_state)state : RS_CACHE_SEALED;
}

rs_status rs_cache_try_lock_seal(const rs_cache *self, const rs_cache_arena *arena, bool *locked, rs_error *err) {
    if (!rs_os_has_range_locks()) {
        return rs_error_set(err, RS_E_SYS, RS_NOWHERE, "this system cannot lock a part of a file, as sealing needs");
    }
    return rs_os_try_lock_range(arena->fd, self->layout.n_arenas, 1, locked, err);
}

void rs_cache_unlock_seal(const rs_cache *self, const rs_cache_arena *arena) {
    rs_os_unlock_range(arena->fd, self->layout.n_arenas, 1);
}

/* Sets *out to whether values are stored. Lets writers continue after a process ended while it sealed the cache. */
static rs_status may_store(const rs_cache *self, const rs_cache_arena *arena, bool *out, rs_error *err) {
    bool locked = false;
    if (rs_cache_get_state(self) == RS_CACHE_SEALING) RS_TRY(rs_cache_try_lock_seal(self, arena, &locked, err));
    if (locked) {
        (void)swap(number_at(self, RS_CACHE_SEALED_AT), RS_CACHE_SEALING, RS_CACHE_STORING);
        rs_cache_unlock_seal(self, arena);
    }
    *out = rs_cache_get_state(self) == RS_CACHE_STORING;
    return RS_OK;
}

/* ---------------------------------------------------------------- storing */

static rs_status write_value(const rs_cache *self, uint64_t offset, const rs_cache_value *value, rs_error *err) {
    uint8_t head[RS_CACHE_VALUE_HEAD] = {0};
    const uint32_t crc = crc_of(value, head, !self->memory_backed);
    rs_store_u32(head, crc);
    const rs_slice parts[] = {rs_slice_of(head, sizeof head), value->form, value->key, value->body};
    for (int i = 0; i < 4; i++) {
        RS_TRY(rs_os_write_at(self->fd, parts[i].ptr, rs_slice_left(&parts[i]), offset, err));
        offset += rs_slice_left(&parts[i]);
    }
    return rs_os_write_at(self->fd, value->arrays.ptr, rs_slice_left(&value->arrays), rs_align_up(offset, ALIGNMENT),
                          err);
}

/* Publishes an entry in the first empty slot of its search, unless a slot before it has the key. */
static rs_status publish(const rs_cache *self, const rs_cache_value *value, uint64_t entry, rs_cache_outcome *outcome,
                         rs_error *err) {
    place at = {0, 0};
    uint64_t i, size = 0, *slot;
    rs_cache_value other;
    for (; slot_at(self, value->hash, &at, &i); advance(self, &at)) {
        RS_TRY(reserve_slot(self, at.level, i, &slot, err));
        *outcome = RS_CACHE_STORED;
        uint64_t current = load(slot);
        if (current == 0 && swap(slot, 0, entry)) return RS_OK;
        if (current == 0) current = load(slot);
        *outcome = RS_CACHE_EXISTS;
        if (self->layout.slots != 0) return RS_OK;
        if (tag_of(current) != tag_of(entry)) continue;
        RS_TRY(check_size(self, &size, err));
        RS_TRY(value_of(self, current, size, &other, err));
        if (has_key(&other, value->hash, value->form)) return RS_OK;
    }
    *outcome = RS_CACHE_FULL;
    return RS_OK;
}

/* Sets *out to the bytes that a value takes. */
static rs_status size_of(const rs_cache_value *value, uint64_t *out, rs_error *err) {
    const rs_slice parts[] = {value->form, value->key, value->body};
    uint64_t size = RS_CACHE_VALUE_HEAD;
    for (int i = 0; i < 3; i++) size += rs_slice_left(&parts[i]); /* no sum of sizes in memory overflows */
    if (rs_slice_left(&value->form) > UINT32_MAX) {
        return rs_error_set(err, RS_E_ARG_RANGE, RS_NOWHERE, "a key of a cache is too long");
    }
    *out = rs_align_up(size, ALIGNMENT) + rs_align_up(rs_slice_left(&value->arrays), ALIGNMENT);
    return RS_OK;
}

rs_status rs_cache_put(rs_cache *self, rs_cache_arena *arena, const rs_cache_value *value, rs_cache_outcome *outcome,
                       rs_error *err) {
    const uint64_t limit = self->layout.limit_bytes, bytes = self->layout.arena_bytes;
    uint64_t size = 0, file_size, first, at;
    bool stores;
    *outcome = RS_CACHE_FULL;
    RS_TRY(size_of(value, &size, err));
    RS_TRY(check_size(self, &file_size, err));
    RS_TRY(may_store(self, arena, &stores, err));
    if (!stores) return RS_OK;
    note_size(self, size);
    const uint64_t used = rs_cache_used(self);
    if (size > limit || used > limit - size) return RS_OK;
    RS_TRY(require_memory(self, arena, size, err));
    RS_TRY(place_value(self, arena, size, &first, &at, err));
    if (first == RS_NOWHERE) return RS_OK;
    const uint64_t offset = self->layout.table_end + first * bytes + at;
    rs_status code = write_value(self, offset, value, err);
    if (code == RS_OK) {
        /* Take the space before publishing: if the process is killed in between, only the space is lost. */
        take_space(self, first, at, size);
        code = publish(self, value, offset / ALIGNMENT << TAG_BITS | tag_of(value->hash), outcome, err);
        if (code != RS_OK || *outcome != RS_CACHE_STORED) give_back_space(self, first, at, size);
    }
    if (size > bytes) rs_os_unlock_range(arena->fd, first, arenas_for(self, size));
    return code;
}

/* ---------------------------------------------------------------- counters of processes */

rs_cache_process *rs_cache_rows(const rs_cache *self) {
    uint64_t file_size;
    if (check_size(self, &file_size, NULL) != RS_OK) return NULL;
    return (rs_cache_process *)(void *)(self->table + RS_CACHE_ROWS_AT);
}

rs_cache_process *rs_cache_claim_row(const rs_cache *self, uint64_t pid, uint64_t start_time) {
    rs_cache_process *rows = rs_cache_rows(self);
    if (rows == NULL) return NULL;
    for (int i = 0; i < RS_CACHE_PROCESSES; i++) {
        if (load(&rows[i].pid) == pid && load(&rows[i].start_time) == start_time) return &rows[i];
    }
    for (int reclaim = 0; reclaim <= 1; reclaim++) {
        for (int i = 0; i < RS_CACHE_PROCESSES; i++) {
            const uint64_t row_pid = load(&rows[i].pid);
            if (reclaim ? rs_os_is_running((int64_t)row_pid) : row_pid != 0) continue;
            if (!swap(&rows[i].pid, row_pid, pid)) continue;
            store(&rows[i].start_time, start_time);
            for (int k = 0; k < RS_CACHE_COUNTERS; k++) store(&rows[i].counters[k], 0);
            return &rows[i];
        }
    }
    return NULL;
}
