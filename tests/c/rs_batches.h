/* rs_batches.h: exports a store as Arrow batches, as the Python binding does. Include from one file only. */
#pragma once

#include "rs_built.h"
#include "arrow/rs_arrow_out.h"

static rs_error err;

/* A store with an export over it, and the batch and schema that read_table makes. */
typedef struct batch_export {
    built owned; /* set by open_built */
    rs_store store;
    const rs_tree_paths *of_block[64];
    rs_source source;
    rs_arrow_out out;
    struct ArrowArray batch;
    struct ArrowSchema schema;
} batch_export;

static inline rs_status open_over(batch_export *o, const built *b) {
    memset(o, 0, sizeof *o);
    RS_TRY(rs_store_open(&o->store, built_slice(b), NULL, &err));
    if (o->store.n_blocks > 64) abort();
    o->source.store = &o->store, o->source.of_block = o->of_block;
    RS_TRY(rs_arrow_out_open(&o->out, &err));
    o->out.root->rows = true;
    return RS_OK;
}

/* As open_over, but close_over clears `b`. */
static inline bool open_built(batch_export *o, built b) {
    bool ok = CHECK(b.data != NULL) && CHECK_OK(open_over(o, &b), &err);
    o->owned = b;
    return ok;
}

static inline void close_over(batch_export *o) {
    if (o->schema.release != NULL) o->schema.release(&o->schema);
    if (o->batch.release != NULL) o->batch.release(&o->batch);
    rs_arrow_out_clear(&o->out);
    rs_store_close(&o->store);
    built_clear(&o->owned);
}

/* Runs and loads each block that the run stops for, as the Python binding does, until it stops for another reason. */
static inline rs_status run(batch_export *o, const int64_t *positions, int64_t start, int64_t step, uint64_t n,
                            rs_arrow_stop *stop) {
    memset(stop, 0, sizeof *stop);
    for (;;) {
        RS_TRY(rs_arrow_out_run(&o->out, &o->source, positions, start, step, n, stop, &err));
        if (stop->why != RS_ARROW_BLOCK) return RS_OK;
        RS_TRY(rs_store_load_block(&o->store, stop->block, &err));
        RS_TRY(rs_arrow_out_add_block(&o->out, &o->source, stop->block, NULL, &err));
    }
}

/* Infers the types of n records. Sets *whole to whether all fields have a type. */
static inline rs_status infer(batch_export *o, int64_t start, int64_t step, uint64_t n, bool *whole) {
    rs_arrow_stop stop;
    RS_TRY(run(o, NULL, start, step, n, &stop));
    return rs_arrow_out_resolve(&o->out, whole, &err);
}

/* Makes one batch of n records. */
static inline rs_status read(batch_export *o, const int64_t *positions, int64_t start, int64_t step, uint64_t n,
                             struct ArrowArray *batch) {
    rs_arrow_stop stop;
    bool whole;
    RS_TRY(run(o, positions, start, step, n, &stop));
    RS_TRY(rs_arrow_out_resolve(&o->out, &whole, &err));
    if (!whole) return RS_E_ARG_RANGE;
    RS_TRY(rs_arrow_out_settle(&o->out, n, &err));
    RS_TRY(run(o, positions, start, step, n, &stop));
    return rs_arrow_out_batch(&o->out, 0, batch, &err);
}

/* Makes one batch of the first n records, and its schema. close_over releases both. */
static inline rs_status read_table(batch_export *o, uint64_t n) {
    RS_TRY(read(o, NULL, 0, 1, n, &o->batch));
    return rs_arrow_export_schema(o->out.root, &o->schema, &err);
}

static inline bool is_valid(const struct ArrowArray *array, uint64_t k) {
    const uint8_t *bits = (const uint8_t *)array->buffers[0];
    return bits == NULL || (bits[k / 8] >> (k % 8) & 1) != 0;
}

static inline int64_t int_at(const struct ArrowArray *array, uint64_t k) {
    return (int64_t)rs_load_u64((const uint8_t *)array->buffers[1] + 8 * k);
}

static inline uint32_t offset_at(const struct ArrowArray *array, uint64_t k) {
    return rs_load_u32((const uint8_t *)array->buffers[1] + 4 * k);
}

static inline bool is_text(const struct ArrowArray *array, uint64_t k, const char *text) {
    uint32_t begin = offset_at(array, k), end = offset_at(array, k + 1);
    return end - begin == strlen(text) && memcmp((const char *)array->buffers[2] + begin, text, end - begin) == 0;
}
