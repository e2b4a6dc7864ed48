/* mutator.c: changes fields and parts of a segment. Follows the layout only while that stays within the bytes. */
#include "mutator.h"

#include "tree_maker.h"

enum { PARTS = 192, CHANGES = 4 };

typedef enum part_kind {
    PART_HEADER,
    PART_DIRECTORY, /* one entry */
    PART_BLOCK,     /* one entry of BLOCKS or TABLES */
    PART_TREE_ENTRY,
    PART_TREE,
    PART_KEYS,
    PART_SAVED,
    PART_BYTES /* any other bytes, such as heaps and offsets */
} part_kind;

typedef struct part {
    part_kind kind;
    uint64_t off, size;
} part;

typedef struct parts {
    uint8_t *data;
    uint64_t size;
    part items[PARTS];
    size_t n;
} parts;

/* A number within a part: its offset and its size in bytes. */
typedef struct field {
    uint16_t off, size;
} field;

static const field HEADER_FIELDS[] = {{8, 2},  {10, 2}, {12, 4}, {16, 8}, {24, 8}, {32, 8}, {64, 4},
                                      {68, 4}, {72, 8}, {80, 8}, {88, 8}, {96, 8}, {104, 4}};
static const field DIRECTORY_FIELDS[] = {{0, 2}, {2, 2}, {4, 4}, {8, 8}, {16, 8}, {24, 8}, {36, 4}};
static const field BLOCK_FIELDS[] = {{0, 8},  {8, 4},  {12, 4}, {16, 8}, {24, 8}, {32, 8}, {40, 4},
                                     {44, 1}, {45, 1}, {46, 2}, {48, 8}, {56, 8}, {72, 8}};
static const field TREE_ENTRY_FIELDS[] = {{0, 8}, {8, 4}};
static const field NODE_FIELDS[] = {{0, 1}, {1, 1}, {2, 2}, {4, 4}, {8, 4}, {12, 4}, {16, 4}, {20, 4}};
static const field KEYS_FIELDS[] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 4}, {44, 4}, {48, 4}, {52, 4}};
static const field SAVED_FIELDS[] = {{0, 4}, {4, 4}, {8, 8}, {16, 8}, {24, 8}, {32, 8}};

/* ---- Finding the parts ---- */

static bool within(const parts *self, uint64_t off, uint64_t size) {
    return off <= self->size && size <= self->size - off;
}

static void add(parts *self, part_kind kind, uint64_t off, uint64_t size) {
    if (self->n == PARTS || size == 0 || !within(self, off, size)) return;
    self->items[self->n].kind = kind, self->items[self->n].off = off, self->items[self->n].size = size;
    self->n++;
}

static uint64_t directory_of(const parts *self, uint64_t *count) {
    const uint64_t off = rs_load_u64(self->data + RS_FMT_H_DIRECTORY_OFFSET);
    *count = rs_load_u32(self->data + RS_FMT_H_DIRECTORY_COUNT);
    if (*count > RS_FMT_DIRECTORY_ENTRIES || !within(self, off, *count * RS_FMT_ENTRY_SIZE)) *count = 0;
    return off;
}

/* Sets *out to a section. Returns false if there is none within the bytes. */
static bool section_of(const parts *self, unsigned kind, unsigned store, part *out) {
    uint64_t count, at = directory_of(self, &count);
    for (uint64_t i = 0; i < count; i++, at += RS_FMT_ENTRY_SIZE) {
        const uint8_t *e = self->data + at;
        out->off = rs_load_u64(e + RS_FMT_E_OFFSET), out->size = rs_load_u64(e + RS_FMT_E_SIZE);
        if (rs_load_u16(e + RS_FMT_E_KIND) == kind && rs_load_u16(e + RS_FMT_E_STORE) == store) {
            return within(self, out->off, out->size);
        }
    }
    return false;
}

/* Adds the first entries of BLOCKS or TABLES, and the bytes that they name. */
static void add_blocks(parts *self, unsigned kind, unsigned store) {
    part s;
    if (!section_of(self, kind, store, &s)) return;
    for (uint64_t i = 0; i < s.size / RS_FMT_BLOCK_SIZE && i < 12; i++) {
        const uint64_t at = s.off + RS_FMT_BLOCK_SIZE * i;
        const uint8_t *e = self->data + at;
        const uint64_t heap = rs_load_u64(e + RS_FMT_B_HEAP_OFFSET), size = rs_load_u64(e + RS_FMT_B_HEAP_SIZE);
        const uint64_t places = rs_load_u64(e + RS_FMT_B_PLACES_SIZE);
        add(self, PART_BLOCK, at, RS_FMT_BLOCK_SIZE);
        add(self, PART_BYTES, heap, size);
        if (places <= size) add(self, PART_BYTES, heap + size - places, places);
        add(self, PART_BYTES, rs_load_u64(e + RS_FMT_B_ARRAYS_OFFSET), rs_load_u64(e + RS_FMT_B_ARRAYS_SIZE));
        add(self, PART_BYTES, rs_load_u64(e + RS_FMT_B_INDEX_OFFSET), 24);
    }
}

static void add_trees(parts *self, unsigned store) {
    part table, trees;
    if (!section_of(self, RS_FMT_SECTION_TREE_TABLE, store, &table) ||
        !section_of(self, RS_FMT_SECTION_TREES, store, &trees)) {
        return;
    }
    for (uint64_t i = 0; i < table.size / RS_FMT_TREE_ENTRY_SIZE && i < 12; i++) {
        const uint64_t at = table.off + RS_FMT_TREE_ENTRY_SIZE * i;
        const uint64_t off = rs_load_u64(self->data + at), size = rs_load_u32(self->data + at + 8);
        add(self, PART_TREE_ENTRY, at, RS_FMT_TREE_ENTRY_SIZE);
        if (off > trees.size || size > trees.size - off) continue;
        /* Twice, because trees decide how everything else is read. */
        add(self, PART_TREE, trees.off + off, size);
        add(self, PART_TREE, trees.off + off, size);
    }
}

static void find_parts(parts *self, uint8_t *data, uint64_t size) {
    uint64_t count;
    memset(self, 0, sizeof *self);
    self->data = data, self->size = size;
    add(self, PART_HEADER, 0, RS_FMT_FRONT);
    uint64_t at = directory_of(self, &count);
    for (uint64_t i = 0; i < count; i++, at += RS_FMT_ENTRY_SIZE) {
        const uint8_t *e = data + at;
        const unsigned kind = rs_load_u16(e + RS_FMT_E_KIND);
        const uint64_t off = rs_load_u64(e + RS_FMT_E_OFFSET), section_size = rs_load_u64(e + RS_FMT_E_SIZE);
        add(self, PART_DIRECTORY, at, RS_FMT_ENTRY_SIZE);
        if (kind == RS_FMT_SECTION_KEY_INDEX) add(self, PART_KEYS, off, section_size);
        else if (kind == RS_FMT_SECTION_SAVED_INDEX) add(self, PART_SAVED, off, section_size);
        else add(self, PART_BYTES, off, section_size);
    }
    for (unsigned store = 0; store < 2; store++) {
        add_blocks(self, RS_FMT_SECTION_BLOCKS, store);
        add_blocks(self, RS_FMT_SECTION_TABLES, store);
        add_trees(self, store);
    }
}

/* ---- Changing the parts ---- */

static void store_number(uint8_t *p, unsigned size, uint64_t value) {
    for (unsigned i = 0; i < size; i++) p[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t load_number(const uint8_t *p, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++) value |= (uint64_t)p[i] << (8 * i);
    return value;
}

/* A number that a check may get wrong, such as one near 0, `old`, a power of two, or the size or offset of a part. */
static uint64_t interesting(const parts *self, uint64_t old, uint64_t *random) {
    const uint64_t delta = fuzz_below(random, 5) - 2;
    switch (fuzz_below(random, 9)) {
    case 0: return old + 1;
    case 1: return old - 1;
    case 2: return (UINT64_C(1) << fuzz_below(random, 64)) + delta;
    case 3: return delta;
    case 4: return self->size + delta;
    case 5: return fuzz_below(random, 40);
    case 6: return self->items[fuzz_below(random, self->n)].off + 64 * delta;
    case 7: return old ^ UINT64_C(1) << fuzz_below(random, 64);
    default: return old * 2 + delta;
    }
}

static void change_field(const parts *self, uint64_t base, uint64_t room, const field *fields, size_t n,
                         uint64_t *random) {
    const field *f = &fields[fuzz_below(random, n)];
    uint8_t *p = self->data + base + f->off;
    if ((uint64_t)f->off + f->size > room) return;
    store_number(p, f->size, interesting(self, load_number(p, f->size), random));
}

/* Changes bytes whose fields are unknown: a number, bit, byte or long varint, a moved run, or the driver's changes. */
static void change_bytes(const parts *self, const part *p, uint64_t *random) {
    uint8_t *bytes = self->data + p->off;
    const uint64_t at = fuzz_below(random, p->size), left = p->size - at;
    const uint64_t from = fuzz_below(random, p->size);
    unsigned width = 1u << fuzz_below(random, 4);
    switch (fuzz_below(random, 6)) {
    case 0: bytes[at] ^= (uint8_t)(1u << fuzz_below(random, 8)); break;
    case 1: bytes[at] = (uint8_t)fuzz_random(random); break;
    case 2:
        if (width <= left) store_number(bytes + at, width, interesting(self, load_number(bytes + at, width), random));
        break;
    case 3: /* moves the bytes, so that lengths before them are wrong */
        memmove(bytes + at, bytes + from, (size_t)(left < p->size - from ? left : p->size - from));
        break;
    case 4:
        for (; width > 0 && at + width <= p->size; width--) bytes[at + width - 1] = (uint8_t)(0x80 + (width & 1));
        break;
    default: (void)LLVMFuzzerMutate(bytes, (size_t)p->size, (size_t)p->size); break;
    }
}

static void change_tree(const parts *self, const part *p, uint64_t *random) {
    uint8_t *tree = self->data + p->off;
    uint64_t n = p->size < 4 ? 0 : rs_load_u32(tree);
    part aux = *p;
    if (n == 0 || n > (p->size - 4) / RS_FMT_NODE_SIZE) {
        change_bytes(self, p, random);
        return;
    }
    uint64_t i = RS_FMT_TREE_HEAD_SIZE + RS_FMT_NODE_SIZE * fuzz_below(random, n);
    uint64_t j = RS_FMT_TREE_HEAD_SIZE + RS_FMT_NODE_SIZE * fuzz_below(random, n);
    aux.off += RS_FMT_TREE_HEAD_SIZE + RS_FMT_NODE_SIZE * n;
    aux.size = p->size < RS_FMT_TREE_HEAD_SIZE + RS_FMT_NODE_SIZE * n
                   ? 0
                   : p->size - (RS_FMT_TREE_HEAD_SIZE + RS_FMT_NODE_SIZE * n);
    switch (fuzz_below(random, 8)) {
    case 0: /* another tree, valid by itself, over the same records */ fuzz_replace_tree(tree, p->size, random); break;
    case 1: memmove(tree + i, tree + j, i < j ? 8 : 4); break;
    case 2:
        if (j + RS_FMT_NODE_SIZE <= p->size && i + RS_FMT_NODE_SIZE <= p->size) {
            memmove(tree + i, tree + j, RS_FMT_NODE_SIZE);
        }
        break;
    case 3: tree[i] = (uint8_t)fuzz_below(random, RS_FMT_NODE_END + 1); break;
    case 4:
    case 5:
        if (aux.size > 0) {
            change_bytes(self, &aux, random);
            break;
        }
        /* fall through */
    default: change_field(self, p->off + i, p->size - i, NODE_FIELDS, sizeof NODE_FIELDS / sizeof(field), random);
    }
}

#define CHANGE_FIELDS(fields) change_field(self, p->off, p->size, fields, sizeof fields / sizeof(field), random)

/* Chooses a part. Rarely chooses a part where most changes make opening fail. */
static const part *choose(const parts *self, uint64_t *random) {
    const part *p = &self->items[fuzz_below(random, self->n)];
    for (unsigned tries = 0; tries < 4; tries++) {
        const bool breaks_opening = p->kind == PART_HEADER || p->kind == PART_DIRECTORY || p->kind == PART_TREE_ENTRY;
        if (!breaks_opening || fuzz_below(random, 4) == 0) break;
        p = &self->items[fuzz_below(random, self->n)];
    }
    return p;
}

static void change(const parts *self, uint64_t *random) {
    const part *p = choose(self, random);
    switch (p->kind) {
    case PART_HEADER: CHANGE_FIELDS(HEADER_FIELDS); break;
    case PART_DIRECTORY: CHANGE_FIELDS(DIRECTORY_FIELDS); break;
    case PART_BLOCK: CHANGE_FIELDS(BLOCK_FIELDS); break;
    case PART_TREE_ENTRY: CHANGE_FIELDS(TREE_ENTRY_FIELDS); break;
    case PART_TREE: change_tree(self, p, random); break;
    case PART_KEYS:
        if (fuzz_below(random, 2) == 0) CHANGE_FIELDS(KEYS_FIELDS);
        else change_bytes(self, p, random);
        break;
    case PART_SAVED:
        if (fuzz_below(random, 2) == 0) CHANGE_FIELDS(SAVED_FIELDS);
        else change_bytes(self, p, random);
        break;
    case PART_BYTES: change_bytes(self, p, random); break;
    }
}

size_t fuzz_mutate_segment(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    uint64_t random = seed;
    parts all;
    if (size < RS_FMT_HEADER_SIZE || memcmp(data, RS_FMT_MAGIC, 8) != 0) return LLVMFuzzerMutate(data, size, max_size);
    find_parts(&all, data, size);
    for (uint64_t n = 1 + fuzz_below(&random, CHANGES); n > 0; n--) change(&all, &random);
    switch (fuzz_below(&random, 32)) {
    case 0: return LLVMFuzzerMutate(data, size, max_size); /* nothing is mended */
    case 1: break;
    case 2: size -= (size_t)fuzz_below(&random, size - RS_FMT_HEADER_SIZE + 1); /* fall through */
    default: fuzz_mend(data, size);
    }
    return size;
}

/* ---- Mending ---- */

static void mend_at(const parts *self, uint64_t at, uint64_t off, uint64_t size) {
    if (within(self, at, 4) && within(self, off, size)) {
        rs_store_u32(self->data + at, rs_crc32c(0, self->data + off, (size_t)size));
    }
}

static void mend_trees(const parts *self, unsigned store) {
    part table, trees;
    if (!section_of(self, RS_FMT_SECTION_TREE_TABLE, store, &table) ||
        !section_of(self, RS_FMT_SECTION_TREES, store, &trees)) {
        return;
    }
    for (uint64_t i = 0; i < table.size / RS_FMT_TREE_ENTRY_SIZE; i++) {
        const uint64_t at = table.off + RS_FMT_TREE_ENTRY_SIZE * i;
        const uint64_t off = rs_load_u64(self->data + at), size = rs_load_u32(self->data + at + 8);
        if (off <= trees.size && size <= trees.size - off) mend_at(self, at + 12, trees.off + off, size);
    }
}

static void mend_blocks(const parts *self, unsigned kind, unsigned store) {
    part s;
    if (!section_of(self, kind, store, &s)) return;
    for (uint64_t i = 0; i < s.size / RS_FMT_BLOCK_SIZE && i < 256; i++) {
        const uint64_t at = s.off + RS_FMT_BLOCK_SIZE * i;
        const uint8_t *e = self->data + at;
        mend_at(self, at + RS_FMT_B_HEAP_CRC, rs_load_u64(e + RS_FMT_B_HEAP_OFFSET),
                rs_load_u64(e + RS_FMT_B_HEAP_SIZE));
        if (kind == RS_FMT_SECTION_TABLES) continue;
        mend_at(self, at + RS_FMT_B_ARRAYS_CRC, rs_load_u64(e + RS_FMT_B_ARRAYS_OFFSET),
                rs_load_u64(e + RS_FMT_B_ARRAYS_SIZE));
    }
}

void fuzz_mend(uint8_t *data, size_t size) {
    parts all = {0};
    uint64_t count;
    all.data = data, all.size = size;
    if (size < RS_FMT_HEADER_SIZE) return;
    uint64_t directory = directory_of(&all, &count);
    for (unsigned store = 0; store < 2; store++) {
        mend_blocks(&all, RS_FMT_SECTION_BLOCKS, store);
        mend_blocks(&all, RS_FMT_SECTION_TABLES, store);
        mend_trees(&all, store);
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t at = directory + RS_FMT_ENTRY_SIZE * i;
        if (rs_load_u16(data + at + RS_FMT_E_KIND) == RS_FMT_SECTION_HEAP) continue;
        mend_at(&all, at + RS_FMT_E_CRC, rs_load_u64(data + at + RS_FMT_E_OFFSET),
                rs_load_u64(data + at + RS_FMT_E_SIZE));
    }
    mend_at(&all, RS_FMT_H_DIRECTORY_CRC, directory, count * RS_FMT_ENTRY_SIZE);
    const bool is_long = rs_load_u16(data + RS_FMT_H_READER_VERSION) == RS_FMT_LONG_VERSION;
    const uint64_t crc_at = is_long ? RS_FMT_LONG_CRC : RS_FMT_H_HEADER_CRC;
    mend_at(&all, crc_at, 0, crc_at);
}
