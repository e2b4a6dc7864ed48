/* rs_cache.h: the file of a cache, which many processes fill and read at once ("Caches" in FORMAT.md). It is the only
 * file of recstore that changes while processes read it.
 *
 * A value is written to the file first and published last, by one compare-and-swap of its slot in a table that every
 * process maps writable. A slot changes once, from empty to published. So a reader never sees part of a value, and if
 * two processes write the same key, one of them succeeds. No process waits for another. Each writer appends to an
 * arena, a part of the file that it has locked. When a process ends, the kernel releases its locks, and another process
 * may continue the arena after the last value. */
#pragma once

#include "base/rs_buffer.h"
#include "base/rs_bytes.h"
#include "os/rs_os.h"

enum {
    RS_CACHE_HEADER = 4096,
    RS_CACHE_LABEL_MOST = 3072, /* the most bytes of the label in the header */
    RS_CACHE_LEVELS_MOST = 10,
    RS_CACHE_VALUE_HEAD = 40, /* bytes of a value before the form of its key */
    RS_CACHE_ID_SIZE = 16,
    RS_CACHE_PROCESSES = 512, /* rows of counters */
    RS_CACHE_COUNTERS = 6,    /* counters of a process */
    /* Offsets in the file. */
    RS_CACHE_NEXT_ARENA_AT = 4096,
    RS_CACHE_SEEN_AT = 4104, /* the number of values seen, then their bytes */
    RS_CACHE_SEALED_AT = 4120,
    RS_CACHE_ROWS_AT = 8192,
    RS_CACHE_ARENAS_AT = RS_CACHE_ROWS_AT + 64 * RS_CACHE_PROCESSES
};
/* The most slots of a cache with int keys. */
#define RS_CACHE_SLOTS_MOST ((uint64_t)1 << 40)

/* The layout of a cache, as stored in its header. */
typedef struct rs_cache_layout {
    uint64_t slots; /* 0: keys are hashed */
    uint64_t limit_bytes;
    uint64_t seed; /* of the hashes of keys */
    uint64_t created_ns;
    uint64_t table;     /* offset of the first level */
    uint64_t segment;   /* offset of the segment of a sealed cache */
    uint64_t table_end; /* also the start of the arenas */
    uint64_t arena_bytes;
    uint64_t n_arenas;
    bool kept; /* whether the file stays when no process uses it */
    uint32_t n_levels;
    uint8_t id[RS_CACHE_ID_SIZE];
    uint64_t level_slots[RS_CACHE_LEVELS_MOST];
    uint64_t chunk_bytes[RS_CACHE_LEVELS_MOST]; /* the unit in which space for a level is reserved */
    uint64_t first_chunk[RS_CACHE_LEVELS_MOST]; /* number of the level's first chunk */
    uint64_t level_offset[RS_CACHE_LEVELS_MOST];
} rs_cache_layout;

/* Returns the offset of the flags of the chunks, one byte per chunk. */
uint64_t rs_cache_chunks_at(const rs_cache_layout *layout);

/* The counters of one process, in the file. */
typedef struct rs_cache_process {
    uint64_t pid; /* 0: a free row */
    uint64_t start_time;
    uint64_t counters[RS_CACHE_COUNTERS];
} rs_cache_process;

/* An open cache. The functions below may be called from several threads at once, except open and close. */
typedef struct rs_cache {
    int fd; /* writable; holds the lease */
    rs_os_identity identity;
    rs_cache_layout layout;
    bool memory_backed;
    uint8_t *table;      /* the bytes before the arenas, mapped writable */
    const uint8_t *data; /* the arenas, mapped read-only */
    uint64_t data_bytes;
} rs_cache;

/* The space of one writer. Belongs to one thread of one process at a time: a forked child closes it and opens another.
 */
typedef struct rs_cache_arena {
    int fd;                 /* a descriptor of its own, which holds the lock */
    uint64_t index;         /* of the arena; RS_NOWHERE: none */
    uint64_t checked_bytes; /* bytes that may be written before the available memory is checked again */
} rs_cache_arena;

/* A value in the cache: the form of its key (empty for int keys), the key if it differs from its form, the value (key
 * and value are `any` values), and the bytes of large arrays. All are borrowed from the mapping and may change at any
 * time. */
typedef struct rs_cache_value {
    uint64_t hash; /* of the form; for int keys the slot */
    uint32_t crc;
    rs_slice form;
    rs_slice key;
    rs_slice body;
    rs_slice arrays;
} rs_cache_value;

typedef enum rs_cache_outcome {
    RS_CACHE_STORED,
    RS_CACHE_EXISTS, /* another writer published the key first */
    RS_CACHE_FULL    /* no space or no slot is left, or writers store no more */
} rs_cache_outcome;

/* Writes the header of a new cache to the empty file of `fd` and reserves the space before the table. `slots` is 0 for
 * hashed keys. RS_E_ARG_RANGE for too many slots, too high a limit or too long a label; RS_E_SYS_NOT_OURS on a network
 * file system; RS_E_SPACE; RS_E_SYS. */
RS_NODISCARD rs_status rs_cache_create(int fd, uint64_t slots, uint64_t limit_bytes, bool kept, rs_slice label,
                                       rs_error *err);

/* Opens the cache of `fd`, a writable descriptor, which `out` owns after RS_OK. Checks the header by the rules of
 * FORMAT.md. */
RS_NODISCARD rs_status rs_cache_open(int fd, rs_cache *out, rs_error *err);

/* Reads the layout of a cache without opening it, and appends its label to `label`. */
RS_NODISCARD rs_status rs_cache_inspect(int fd, rs_cache_layout *out, rs_buffer *label, rs_error *err);

/* Counts the values of the cache of `fd`, a descriptor for reading. */
RS_NODISCARD rs_status rs_cache_count_file(int fd, uint64_t *out, rs_error *err);

/* Checks that the file still has the bytes before its arenas. Reading the table of a file that was cut kills the
 * process. The functions below that read the table check this themselves. RS_E_FMT_TRUNCATED. */
RS_NODISCARD rs_status rs_cache_check_file(const rs_cache *self, rs_error *err);

/* Unmaps and closes the file. Does nothing for a closed cache. */
void rs_cache_close(rs_cache *self);

/* Looks up a key by its hash and form; for int keys the hash is the slot, which is below layout.slots, and the form is
 * empty. Sets *found to whether the key has a value. */
RS_NODISCARD rs_status rs_cache_find(const rs_cache *self, uint64_t hash, rs_slice form, bool *found,
                                     rs_cache_value *out, rs_error *err);

/* Returns whether to store the value of the key with this hash. If all values together would exceed the limit, the hash
 * selects a random part of the keys that fits. Their size is estimated from the number of slots and the mean size of
 * the values so far. True for hashed keys, and until there are enough values. */
bool rs_cache_admits(const rs_cache *self, uint64_t hash);

/* Stores a value, whose parts are as in rs_cache_value; its crc is not read. The caller keeps `arena` between calls.
 * Nothing is stored unless *outcome is RS_CACHE_STORED. RS_E_SPACE when the disk or the memory is full; RS_E_ARG_RANGE
 * for a form of 4 GiB or more. */
RS_NODISCARD rs_status rs_cache_put(rs_cache *self, rs_cache_arena *arena, const rs_cache_value *value,
                                    rs_cache_outcome *outcome, rs_error *err);

/* Takes `size` bytes in new arenas, whatever the limit, and sets *offset to their place in the file. No writer uses
 * them until rs_cache_release_end, which gives them back unless they are `used`. RS_E_SPACE. */
RS_NODISCARD rs_status rs_cache_take_end(const rs_cache *self, rs_cache_arena *arena, uint64_t size, uint64_t *offset,
                                         rs_error *err);
void rs_cache_release_end(const rs_cache *self, rs_cache_arena *arena, uint64_t offset, uint64_t size, bool used);

typedef enum rs_cache_state {
    RS_CACHE_STORING = 0,
    RS_CACHE_SEALING = 1, /* writers store no more values, unless the process that seals ends */
    RS_CACHE_SEALED = 2   /* the file has a segment */
} rs_cache_state;

void rs_cache_set_state(const rs_cache *self, rs_cache_state state);
rs_cache_state rs_cache_get_state(const rs_cache *self);
/* Sets *locked to whether this arena now has the lock of the process that seals. Unlock it explicitly: a forked child
 * would keep it. RS_E_SYS on a system without locks on ranges. */
RS_NODISCARD rs_status rs_cache_try_lock_seal(const rs_cache *self, const rs_cache_arena *arena, bool *locked,
                                              rs_error *err);
void rs_cache_unlock_seal(const rs_cache *self, const rs_cache_arena *arena);

RS_NODISCARD rs_status rs_cache_open_arena(const rs_cache *self, rs_cache_arena *out, rs_error *err);
/* Releases the arena, so that another writer may continue it. */
void rs_cache_close_arena(rs_cache_arena *arena);

/* Visits the published values in the order of the table. *position is 0 at first; *found is false after the last value.
 */
RS_NODISCARD rs_status rs_cache_scan(const rs_cache *self, uint64_t *position, bool *found, rs_cache_value *out,
                                     rs_error *err);
/* Returns the number of published values, and sets *table_bytes to the reserved bytes of the table. Both are 0 if the
 * file has been cut. */
uint64_t rs_cache_count(const rs_cache *self, uint64_t *table_bytes);
/* Returns the bytes of all values, published or lost; 0 if the file has been cut. */
uint64_t rs_cache_used(const rs_cache *self);

/* Returns the RS_CACHE_PROCESSES rows of counters, or NULL if the file has been cut. */
rs_cache_process *rs_cache_rows(const rs_cache *self);
/* Returns the row of counters of a process, and makes one if it has none. NULL if all rows belong to running processes
 * or the file has been cut. */
rs_cache_process *rs_cache_claim_row(const rs_cache *self, uint64_t pid, uint64_t start_time);

/* Checks the checksum of a value, which rs_cache_find does not do. RS_E_FMT_CHECKSUM. Values of a file in memory have
 * no checksum. */
RS_NODISCARD rs_status rs_cache_check(const rs_cache *self, const rs_cache_value *value, rs_error *err);
