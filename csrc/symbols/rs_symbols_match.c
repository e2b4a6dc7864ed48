/* rs_symbols_match.c: builds the matcher of a table's symbols. */
#include "symbols/rs_symbols_match.h"

#include <stdlib.h>

RS_STATIC_ASSERT(sizeof(rs_match_entry) == 16, "four entries should fill a cache line");

void rs_matcher_clear(rs_matcher *self) {
    free(self->heads);
    free(self->entries);
    free(self->shorts);
    free(self->singles);
    memset(self, 0, sizeof *self);
}

/* The symbols while they are divided into groups. The symbols of a group have the same first bytes. */
typedef struct grouping {
    const uint8_t *const *units;
    const uint8_t *n_units;
    uint32_t n;
    uint32_t *group_of; /* the group of each symbol, or UINT32_MAX */
    uint32_t *order;    /* the symbols with groups, the longest first */
    uint32_t n_ordered;
    uint32_t *sizes; /* the size of each group; put_entries replaces it with the number of the group's next entry */
    uint32_t *heads; /* the first bytes of each group */
    uint32_t n_groups;
} grouping;

static uint32_t head_of(const uint8_t *units, unsigned head_bytes) {
    uint32_t head = 0;
    memcpy(&head, units, head_bytes);
    return head;
}

/* Returns the slot of these first bytes, or the empty slot where they belong. */
static uint64_t *find_slot(const rs_matcher *self, uint32_t head) {
    uint64_t mask = UINT64_MAX >> self->shift, slot = rs_matcher_slot(self, head);
    while (self->heads[slot] != 0 && self->heads[slot] >> 32 != head) slot = (slot + 1) & mask;
    return &self->heads[slot];
}

/* Makes a match of a symbol of `bytes` bytes; `rest` of them are compared with an entry. */
static uint32_t match_of(uint32_t number, uint32_t bytes, uint32_t rest) {
    uint32_t shift = rest < 8 ? 63 - 8 * rest : 0, flag = rest < 8 ? 0 : RS_MATCH_LONG;
    return number << RS_MATCH_NUMBER_SHIFT | flag | shift << RS_MATCH_LENGTH_BITS | bytes;
}

/* Gives pages to the high bytes of symbols shorter than the key of the hash table. Returns the number of pages. */
static uint32_t number_pages(rs_matcher *self, const grouping *groups) {
    uint32_t n = 1;
    for (uint32_t i = 0; i < groups->n; i++) {
        uint32_t bytes = groups->n_units[i] * self->unit_bytes;
        if (bytes == 0 || bytes >= rs_matcher_head_bytes(self->unit_bytes)) continue;
        uint16_t *page = &self->pages[groups->units[i][self->unit_bytes == 1 ? 0 : 1]];
        if (*page == 0) *page = (uint16_t)n++;
    }
    return n;
}

/* Adds a symbol shorter than the key of the hash table to `shorts` and, if it has one byte, to `singles`. */
static void take_short(rs_matcher *self, const uint8_t *units, uint32_t bytes, uint32_t number) {
    uint32_t match = match_of(number, bytes, 0);
    uint32_t *page = &self->shorts[(uint32_t)self->pages[units[self->unit_bytes == 1 ? 0 : 1]] << 8];
    if (bytes == 2) {
        page[units[self->unit_bytes == 1 ? 1 : 0]] = match;
        return;
    }
    self->singles[*units] = match;
    for (uint32_t i = 0; i < 256; i++) page[i] = page[i] == 0 ? match : page[i];
}

/* Adds short symbols to the arrays, and divides the others into groups. Until put_entries, each slot of the hash table
 * holds the number of a group + 1. */
static void take_symbols(rs_matcher *self, grouping *groups) {
    const unsigned head_bytes = rs_matcher_head_bytes(self->unit_bytes);
    for (uint32_t i = 0; i < groups->n; i++) {
        uint32_t bytes = groups->n_units[i] * self->unit_bytes;
        groups->group_of[i] = UINT32_MAX;
        if (bytes == 0) continue;
        if (bytes < head_bytes) {
            take_short(self, groups->units[i], bytes, i);
            continue;
        }
        uint32_t head = head_of(groups->units[i], head_bytes);
        uint64_t *slot = find_slot(self, head);
        if (*slot == 0) {
            groups->heads[groups->n_groups] = head;
            groups->sizes[groups->n_groups] = 0;
            *slot = (uint64_t)head << 32 | ++groups->n_groups;
        }
        uint32_t group = (uint32_t)*slot - 1;
        if (groups->sizes[group] == RS_MATCH_MAX) continue;
        groups->sizes[group]++;
        groups->group_of[i] = group;
    }
}

/* Lists the symbols with groups, the longest first; symbols of equal length keep their order. */
static void order_symbols(grouping *groups) {
    uint32_t ends[RS_SYMBOLS_COPY + 1] = {0}, at = 0;
    for (uint32_t i = 0; i < groups->n; i++) {
        if (groups->group_of[i] != UINT32_MAX) ends[groups->n_units[i]]++;
    }
    for (uint32_t length = RS_SYMBOLS_COPY + 1; length-- > 0;) {
        at += ends[length];
        ends[length] = at - ends[length];
    }
    groups->n_ordered = at;
    for (uint32_t i = 0; i < groups->n; i++) {
        if (groups->group_of[i] != UINT32_MAX) groups->order[ends[groups->n_units[i]]++] = i;
    }
}

/* Writes the entries, group after group. The entries of a group have descending lengths. The last entry is the match
 * for the first two bytes of the group, which always fits. */
static void put_entries(rs_matcher *self, grouping *groups) {
    const unsigned head_bytes = rs_matcher_head_bytes(self->unit_bytes);
    uint32_t at = 0;
    for (uint32_t i = 0; i < groups->n_groups; i++) {
        uint32_t size = groups->sizes[i];
        uint8_t first[4];
        rs_store_u32(first, groups->heads[i]);
        *find_slot(self, groups->heads[i]) = (uint64_t)groups->heads[i] << 32 | (at + 1);
        groups->sizes[i] = at;
        at += size + 1;
        self->entries[at - 1].match = match_of(0, 0, 0) | rs_matcher_short(self, first, self->unit_bytes);
    }
    for (uint32_t i = 0; i < groups->n_ordered; i++) {
        uint32_t number = groups->order[i], size = groups->n_units[number] * self->unit_bytes;
        rs_match_entry *entry = &self->entries[groups->sizes[groups->group_of[number]]++];
        uint8_t bytes[RS_SYMBOLS_COPY] = {0};
        memcpy(bytes, groups->units[number], size);
        entry->low = rs_load_u64(bytes + head_bytes);
        entry->high = rs_load_u32(bytes + head_bytes + 8);
        entry->match = match_of(number, size, size - head_bytes);
    }
}

rs_status rs_matcher_init(rs_matcher *self, const uint8_t *const *units, const uint8_t *n_units, uint32_t n,
                          unsigned unit_bytes, rs_error *err) {
    grouping groups = {units, n_units, n, NULL, NULL, 0, NULL, NULL, 0};
    unsigned bits = 8;
    uint32_t n_entries = 0;
    bool ok = false;
    memset(self, 0, sizeof *self);
    self->unit_bytes = unit_bytes;
    while ((uint64_t)1 << bits < 2 * (uint64_t)n) bits++;
    self->shift = 64 - bits;
    uint32_t n_pages = number_pages(self, &groups);
    self->heads = (uint64_t *)calloc((size_t)1 << bits, sizeof *self->heads);
    self->shorts = (uint32_t *)calloc((size_t)n_pages * 256, sizeof *self->shorts);
    self->singles = (uint32_t *)calloc(256, sizeof *self->singles);
    groups.group_of = (uint32_t *)malloc((n + 1) * sizeof *groups.group_of);
    groups.order = (uint32_t *)malloc((n + 1) * sizeof *groups.order);
    groups.sizes = (uint32_t *)malloc((n + 1) * sizeof *groups.sizes);
    groups.heads = (uint32_t *)malloc((n + 1) * sizeof *groups.heads);
    if (self->heads != NULL && self->shorts != NULL && self->singles != NULL && groups.group_of != NULL &&
        groups.order != NULL && groups.sizes != NULL && groups.heads != NULL) {
        take_symbols(self, &groups);
        order_symbols(&groups);
        n_entries = groups.n_groups + groups.n_ordered;
        self->entries = (rs_match_entry *)calloc((size_t)n_entries + 1, sizeof *self->entries);
        ok = self->entries != NULL;
    }
    if (ok) {
        put_entries(self, &groups);
        self->memory_bytes = sizeof *self->heads << bits;
        self->memory_bytes += (uint64_t)n_entries * sizeof *self->entries + ((uint64_t)n_pages + 1) * 1024;
    } else {
        rs_matcher_clear(self);
    }
    free(groups.group_of);
    free(groups.order);
    free(groups.sizes);
    free(groups.heads);
    return ok ? RS_OK : rs_no_memory(err);
}
