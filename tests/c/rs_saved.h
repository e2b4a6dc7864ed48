/* rs_saved.h: lists with saved indexes. Record i is {"k": key(i)}; key(i) is an int. */
#pragma once

#include "rs_built.h"
#include "verify/rs_verify.h"
#include "write/rs_extension.h"
#include "write/rs_group_rows.h"

enum { SAVED_SEED = 0x5EED };

/* The any value of the path ("k",). */
static const uint8_t SAVED_PATH[] = {0x0E, 1, 0x0E, 1, 0x09, 1, 'k'};

typedef int64_t (*saved_key)(uint64_t i);

/* The bytes of an index; zero it to begin. */
typedef struct saved_bytes {
    rs_buffer keys, numbers;
    rs_saved_index_parts parts;
} saved_bytes;

static inline void saved_clear(saved_bytes *b) {
    rs_buffer_clear(&b->keys);
    rs_buffer_clear(&b->numbers);
    memset(b, 0, sizeof *b);
}

/* Groups n records by comparing each with all before it. Sets group_of, and returns the number of groups. */
static inline uint64_t saved_groups(saved_key key, uint64_t n, uint64_t *group_of) {
    uint64_t j, n_groups = 0;
    for (uint64_t i = 0; i < n; i++) {
        for (j = 0; j < i && key(j) != key(i); j++) {
        }
        group_of[i] = j < i ? group_of[j] : n_groups++;
    }
    return n_groups;
}

/* Makes the parts of an index of `kind` over n records. */
static inline void saved_make(saved_bytes *out, uint32_t kind, saved_key key, uint64_t n) {
    uint64_t *group_of = (uint64_t *)calloc(n + 1, 8), *hashes = (uint64_t *)calloc(n + 1, 8);
    uint64_t *pairs = (uint64_t *)calloc(2 * n + 2, 8);
    rs_error err;
    bool in_order = true;
    if (group_of == NULL || hashes == NULL || pairs == NULL) abort();
    uint64_t n_groups = saved_groups(key, n, group_of);
    for (uint64_t i = n; i-- > 0;)
        hashes[group_of[i]] = rs_keys_hash_int(SAVED_SEED, key(i)), pairs[2 * group_of[i]] = i;
    for (uint64_t i = 0; i < n; i++) pairs[2 * group_of[i] + 1] = i;
    CHECK_OK(rs_keys_build(hashes, NULL, n_groups, SAVED_SEED, 0, &out->keys, &err), &err);
    if (kind == RS_FMT_SAVED_GROUPS) {
        CHECK_OK(rs_group_rows(group_of, n, n_groups, 4, true, &out->numbers, &out->numbers, &in_order, &err), &err);
    } else if (n_groups < n) {
        in_order = false;
        for (uint64_t i = 0; i < 2 * n_groups; i++) make_bytes(&out->numbers, &pairs[i], 4);
    }
    out->parts.kind = kind;
    out->parts.in_order = in_order;
    out->parts.n_records = n;
    out->parts.path = rs_slice_of(SAVED_PATH, sizeof SAVED_PATH);
    out->parts.keys = rs_slice_of(out->keys.data, out->keys.size_bytes);
    out->parts.numbers = rs_slice_of(out->numbers.data, out->numbers.size_bytes);
    free(group_of), free(hashes), free(pairs);
}

/* Opens `writer`, writes the whole list, and copies its bytes to `segment`. The key of record i is key(i). */
static inline bool saved_list(saved_key key, uint64_t n, const char *label, rs_segment_writer *writer, built *segment) {
    rs_builder builder;
    rs_error err;
    bool ok = CHECK_OK(rs_segment_writer_open(writer, RS_BACKING_ANONYMOUS, NULL, NULL, &err), &err) &&
              CHECK_OK(rs_builder_open(&builder, writer, NULL, &err), &err);
    segment->data = NULL;
    if (!ok) return false;
    if (label != NULL) builder.label = rs_slice_of(label, strlen(label)), builder.label_pairs = 1;
    for (uint64_t i = 0; i < n; i++) {
        make_head(&builder.raw, 0x0F, 1), make_str(&builder.raw, "k"), make_int(&builder.raw, key(i));
        ok &= CHECK_OK(rs_builder_end_record(&builder, &err), &err);
    }
    ok &= CHECK_OK(rs_builder_finish(&builder, &err), &err);
    rs_builder_close(&builder);
    if (ok) {
        const uint8_t *data;
        ok = CHECK_OK(rs_os_map(writer->fd, writer->position, &data, &err), &err);
        if (ok) {
            segment->size = (size_t)writer->position;
            segment->data = make_exact(data, segment->size);
            rs_os_unmap(data, writer->position);
        }
    }
    return ok;
}

/* Builds a list of n records with one saved index. */
static inline built saved_build(uint32_t kind, saved_key key, uint64_t n) {
    rs_segment_writer writer;
    rs_extension extension;
    rs_error err;
    saved_bytes bytes = {0};
    built list, out = {NULL, 0};
    if (!saved_list(key, n, NULL, &writer, &list)) return out;
    saved_make(&bytes, kind, key, n);
    if (CHECK_OK(rs_extension_begin(&extension, &writer, built_slice(&list), &err), &err) &&
        CHECK_OK(rs_extension_add(&extension, &bytes.parts, &err), &err) &&
        CHECK_OK(rs_extension_finish(&extension, &err), &err)) {
        out = built_finish(&writer);
    }
    rs_extension_clear(&extension);
    saved_clear(&bytes);
    built_clear(&list);
    return out;
}

/* Makes the checksums of the saved indexes, the directory and the header match again. */
static inline void saved_seal(built *b, const rs_header *header, const rs_directory *directory) {
    uint8_t *entries = b->data + header->directory_off;
    uint32_t first = header->directory_count - directory->n_saved_indexes - (directory->label.off != 0);
    for (uint32_t i = 0; i < directory->n_saved_indexes; i++) {
        const rs_section *s = &directory->saved_indexes[i];
        rs_store_u32(entries + 40 * (first + i) + 32, rs_crc32c(0, b->data + s->off, s->size_bytes));
    }
    rs_store_u32(b->data + 108, rs_crc32c(0, entries, 40 * (size_t)header->directory_count));
    rs_store_u32(b->data + RS_FMT_H_HEADER_CRC, rs_crc32c(0, b->data, RS_FMT_H_HEADER_CRC));
}
