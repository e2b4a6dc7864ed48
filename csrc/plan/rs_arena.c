/* rs_arena.c: takes memory in chunks. */
#include "plan/rs_arena.h"

#include <stdlib.h>

#include "os/rs_os.h"

enum {
    ARENA_CHUNK = 16 * 1024 - 32,  /* bytes of a usual chunk of the arena */
    PAGES_CHUNK = 256 * 1024 - 32, /* bytes of a usual chunk of a large arena */
    PAGES_LEAST = 64 * 1024 - 32,  /* chunks of at least this size have pages of their own */
    CHUNK_HEAD = 32
};

/* The head of a piece of memory, CHUNK_HEAD bytes aligned to 16, that is divided among the callers of rs_arena_take. */
typedef struct rs_arena_chunk {
    struct rs_arena_chunk *next;
    size_t used, capacity; /* bytes after the head */
    bool pages;            /* whether rs_os_pages made it */
} chunk;
RS_STATIC_ASSERT(sizeof(chunk) <= CHUNK_HEAD, "the head of a chunk");

/* Makes a chunk. A large one is mapped: other threads free it, and malloc would keep it for the thread that took it. */
static chunk *new_chunk(size_t capacity) {
    const bool pages = capacity >= PAGES_LEAST;
    if (capacity > SIZE_MAX - CHUNK_HEAD) return NULL;
    chunk *c = (chunk *)(pages ? rs_os_pages(CHUNK_HEAD + capacity) : calloc(1, CHUNK_HEAD + capacity));
    if (c == NULL) return NULL;
    c->capacity = capacity;
    c->pages = pages;
    return c;
}

void *rs_arena_take(rs_arena *self, size_t size) {
    const size_t room = (size + 15) & ~(size_t)15;
    const size_t usual = self->size_bytes < PAGES_CHUNK ? ARENA_CHUNK : PAGES_CHUNK;
    chunk *c = self->chunks;
    if (room < size) return NULL;
    if (c == NULL || room > c->capacity - c->used) {
        bool large = room > usual / 4;
        c = new_chunk(large ? room : usual);
        if (c == NULL) return NULL;
        self->size_bytes += c->capacity;
        if (large) c->used = room;
        if (large && self->chunks != NULL) { /* goes after the chunk that still has room */
            c->next = self->chunks->next;
            self->chunks->next = c;
            return (uint8_t *)c + CHUNK_HEAD;
        }
        c->next = self->chunks;
        self->chunks = c;
        if (large) return (uint8_t *)c + CHUNK_HEAD;
    }
    c->used += room;
    return (uint8_t *)c + CHUNK_HEAD + c->used - room;
}

void rs_arena_clear(rs_arena *self) {
    while (self->chunks != NULL) {
        chunk *next = self->chunks->next;
        if (self->chunks->pages) rs_os_pages_free(self->chunks, CHUNK_HEAD + self->chunks->capacity);
        else free(self->chunks);
        self->chunks = next;
    }
    self->size_bytes = 0;
}

void *rs_arena_grow(rs_arena *self, const void *old, size_t n, size_t capacity, size_t item) {
    void *grown = rs_arena_take(self, capacity * item);
    if (grown != NULL && n > 0) memcpy(grown, old, n * item);
    return grown;
}

void rs_arena_join(rs_arena *self, rs_arena *part) {
    chunk **link = self->chunks == NULL ? &self->chunks : &self->chunks->next, *rest = *link;
    *link = part->chunks; /* after the chunk that still has room */
    while (*link != NULL) link = &(*link)->next;
    *link = rest;
    self->size_bytes += part->size_bytes;
    part->chunks = NULL;
    part->size_bytes = 0;
}
