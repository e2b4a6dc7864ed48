/* test_saved_index.c: checking saved indexes: the error for each broken field. */
#include "rs_test.h"
#include "rs_saved.h"
#include "rs_stops.h"
#include "format/rs_saved_index.h"

static rs_error err;

static int64_t key_distinct(uint64_t i) { return (int64_t)(i * 7919 % 10007) - 5000; }
static int64_t key_sorted(uint64_t i) { return (int64_t)(i / 3); }
static int64_t key_mixed(uint64_t i) { return (int64_t)(i * 7919 % 41); }

typedef struct saved_segment {
    built b;
    rs_header header;
    rs_directory directory;
    rs_saved_index index;
} saved_segment;

/* Opens the only saved index of a segment. */
static bool open_built(saved_segment *out, built b) {
    out->b = b;
    return CHECK(b.data != NULL) && CHECK_OK(rs_header_read(built_slice(&b), NULL, &out->header, &err), &err) &&
           CHECK_OK(rs_directory_read(built_slice(&b), &out->header, 0, &out->directory, &err), &err) &&
           CHECK_U64(out->directory.n_saved_indexes, 1) &&
           CHECK_OK(rs_saved_index_open(built_slice(&b), &out->directory.saved_indexes[0], out->header.n_records,
                                        &out->index, &err),
                    &err);
}

/* ---- Broken indexes ---- */

typedef struct change {
    uint32_t kind;
    saved_key key;
    int part; /* 0: the head; 1: the path; 2: the key index; 3: the record numbers */
    uint64_t off, value;
    unsigned size;
    rs_status code;
    bool at_open; /* else only the deep check finds it */
} change;

/* With key_mixed, 60 records have 41 keys; with key_sorted 20, in order. */
enum { N = 60, ENTRIES = 41 };

static const change CHANGES[] = {
    {1, key_mixed, 0, RS_FMT_S_RESERVED, 1, 1, RS_E_FMT_RESERVED, true},
    {1, key_mixed, 0, RS_FMT_S_RESERVED + 31, 1, 1, RS_E_FMT_RESERVED, true},
    {1, key_mixed, 0, RS_FMT_S_IN_ORDER, 2, 4, RS_E_FMT_KEYS, true},
    {1, key_mixed, 0, RS_FMT_S_IN_ORDER, 1, 4, RS_E_FMT_KEYS, true},
    {1, key_mixed, 0, RS_FMT_S_N_RECORDS, N + 1, 8, RS_E_FMT_KEYS, true},
    {1, key_mixed, 0, RS_FMT_S_PATH_SIZE, 0, 8, RS_E_FMT_KEYS, true},
    {1, key_mixed, 0, RS_FMT_S_PATH_SIZE, 65537, 8, RS_E_FMT_KEYS, true},
    {1, key_mixed, 0, RS_FMT_S_PATH_SIZE, 65536, 8, RS_E_FMT_TRUNCATED, true},
    {1, key_mixed, 0, RS_FMT_S_PATH_SIZE, UINT64_MAX, 8, RS_E_FMT_KEYS, true},
    {1, key_mixed, 0, RS_FMT_S_KEYS_SIZE, UINT64_MAX - 7, 8, RS_E_FMT_TRUNCATED, true},
    {1, key_mixed, 0, RS_FMT_S_KEYS_SIZE, 1 << 20, 8, RS_E_FMT_TRUNCATED, true},
    {1, key_mixed, 0, RS_FMT_S_KEYS_SIZE, 8, 8, RS_E_FMT_TRUNCATED, true},
    {1, key_distinct, 0, RS_FMT_S_IN_ORDER, 0, 4, RS_E_FMT_KEYS, true},
    {2, key_sorted, 0, RS_FMT_S_IN_ORDER, 0, 4, RS_E_FMT_KEYS, true},
    {2, key_mixed, 0, RS_FMT_S_IN_ORDER, 1, 4, RS_E_FMT_KEYS, true},
    {2, key_mixed, 0, RS_FMT_S_KIND, 1, 4, RS_E_FMT_KEYS, true},
    {1, key_mixed, 2, RS_FMT_K_FACTORY, 1, 4, RS_E_FMT_KEYS, true},
    {1, key_mixed, 2, RS_FMT_K_FACTORY, 99, 4, RS_E_FMT_KEYS, true},
    {1, key_mixed, 2, RS_FMT_K_N_ENTRIES, ENTRIES - 1, 8, RS_E_FMT_KEYS, true},
    {1, key_mixed, 2, RS_FMT_K_N_SLOTS, 1, 8, RS_E_FMT_KEYS, true},
    {1, key_mixed, 1, 0, 0x0D, 1, RS_E_FMT_KEYS, false},      /* a list in place of a tuple */
    {1, key_mixed, 1, 1, 2, 1, RS_E_FMT_KEYS, false},         /* a tuple of two steps, cut */
    {1, key_mixed, 1, 5, 0, 1, RS_E_FMT_KEYS, false},         /* a byte is left over */
    {1, key_mixed, 2, 64, 0, 4, RS_E_FMT_KEYS, false},        /* an emptied slot */
    {1, key_mixed, 2, 64, 63, 4, RS_E_FMT_KEYS, false},       /* a slot that has the number of a missing entry */
    {1, key_mixed, 3, 8, 0, 4, RS_E_FMT_KEYS, false},         /* the first records do not increase */
    {1, key_mixed, 3, 4 * 2 * 5, N, 4, RS_E_FMT_KEYS, false}, /* no such record */
    {1, key_mixed, 3, 4 * 2 * 5 + 4, N, 4, RS_E_FMT_KEYS, false},
    {1, key_mixed, 3, 4, 42, 4, RS_E_FMT_KEYS, false},            /* the last record of another entry */
    {1, key_mixed, 3, 4 * 2 * 5 + 4, 3, 4, RS_E_FMT_KEYS, false}, /* the last record before the first */
    {2, key_mixed, 3, 0, 1, 4, RS_E_FMT_KEYS, false},             /* a gap before the first group */
    {2, key_mixed, 3, 4, 0, 4, RS_E_FMT_KEYS, false},             /* an empty group */
    {2, key_mixed, 3, 8, 3, 4, RS_E_FMT_KEYS, false},             /* rows moved from a group to the next */
    {2, key_mixed, 3, 4 * ENTRIES, N - 1, 4, RS_E_FMT_KEYS, false},
    {2, key_mixed, 3, 4 * ENTRIES, N + 1, 4, RS_E_FMT_KEYS, false},
    {2, key_mixed, 3, 4 * (ENTRIES + 1), N, 4, RS_E_FMT_KEYS, false},
    {2, key_mixed, 3, 4 * (ENTRIES + 2), 0, 4, RS_E_FMT_KEYS, false}, /* a record twice */
    {2, key_sorted, 3, 8, 4, 4, RS_OK, false}, /* only Python reads the keys, which show the fault */
    {2, key_sorted, 3, 80, N - 1, 4, RS_E_FMT_KEYS, false},
};

TEST(test_broken) {
    EACH (i, CHANGES) {
        const change *c = &CHANGES[i];
        saved_segment o;
        uint8_t *parts[4];
        rs_status status;
        if (open_built(&o, saved_build(c->kind, c->key, N))) {
            parts[0] = o.b.data + o.directory.saved_indexes[0].off;
            parts[1] = parts[0] + 64;
            parts[2] = parts[0] + (o.index.keys.ptr - parts[0]);
            parts[3] = parts[0] + (o.index.keys.end - parts[0]);
            memcpy(parts[c->part] + c->off, &c->value, c->size);
            saved_seal(&o.b, &o.header, &o.directory);
            status = rs_saved_index_open(built_slice(&o.b), &o.directory.saved_indexes[0], N, &o.index, &err);
            if (!CHECK_CODE(status, c->at_open ? c->code : RS_OK, &err)) (void)fprintf(stderr, "    change %zu\n", i);
            status = rs_verify_segment(built_slice(&o.b), NULL, NULL, &err);
            if (!CHECK_CODE(status, c->code, &err)) (void)fprintf(stderr, "    change %zu\n", i);
        }
        built_clear(&o.b);
    }
}

TEST(test_sizes) {
    saved_segment o;
    rs_section s;
    if (open_built(&o, saved_build(2, key_mixed, N))) {
        for (uint64_t off = 0; off < o.directory.saved_indexes[0].size_bytes; off++) {
            s = o.directory.saved_indexes[0];
            s.size_bytes = off;
            CHECK(rs_saved_index_open(built_slice(&o.b), &s, N, &o.index, &err) != RS_OK);
        }
        s = o.directory.saved_indexes[0];
        s.count++;
        CHECK_CODE(rs_saved_index_open(built_slice(&o.b), &s, N, &o.index, &err), RS_E_FMT_KEYS, &err);
        CHECK_CODE(rs_saved_index_open(built_slice(&o.b), &o.directory.saved_indexes[0], N + 1, &o.index, &err),
                   RS_E_FMT_KEYS, &err);
    }
    built_clear(&o.b);
}

/* The check ignores the content of an index of a later kind, but the index's checksum finds a changed bit. */
TEST(test_later_kind_and_checksum) {
    saved_segment o;
    if (open_built(&o, saved_build(1, key_distinct, N))) {
        uint8_t *head = o.b.data + o.directory.saved_indexes[0].off;
        memset(head, 0xFF, 64);
        rs_store_u32(head, 3);
        saved_seal(&o.b, &o.header, &o.directory);
        CHECK_CODE(rs_saved_index_open(built_slice(&o.b), &o.directory.saved_indexes[0], N, &o.index, &err),
                   RS_E_FMT_VERSION, &err);
        CHECK_OK(rs_verify_segment(built_slice(&o.b), NULL, NULL, &err), &err);
        head[70] ^= 1;
        CHECK_CODE(rs_verify_segment(built_slice(&o.b), NULL, NULL, &err), RS_E_FMT_CHECKSUM, &err);
    }
    built_clear(&o.b);
}

/* The caller can stop the check of a long index. */
TEST(test_every_stop) {
    for (uint32_t kind = 1; kind <= 2; kind++) {
        built b = saved_build(kind, key_mixed, N);
        if (CHECK(b.data != NULL)) (void)stops_everywhere(&b);
        built_clear(&b);
    }
}
