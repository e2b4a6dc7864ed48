/* readers_arrow.c: exports records to Arrow and imports them again, which checks the length of each buffer. */
#include "readers.h"

enum { ARROW_RECORDS = 64 };

typedef struct export_state {
    fuzz_fields *fields;
    uint32_t field;
    rs_source source;
    rs_arrow_out out;
} export_state;

static rs_status look_up(export_state *s, uint64_t index) {
    rs_record record;
    rs_place place;
    RS_TRY(rs_store_find(s->fields->store, index, &record, NULL));
    rs_cursor cursor = rs_store_cursor(s->fields->store, &record);
    RS_TRY(rs_path_begin(&cursor, record.tree->nodes, &place, NULL));
    RS_TRY(rs_path_settle(&cursor, &place, NULL));
    if (rs_path_is_lacking(&place)) return rs_arrow_out_take_missing(&s->out, NULL);
    return rs_arrow_out_take(&s->out, &cursor, &place, NULL);
}

static rs_status run(export_state *s, const int64_t *positions, uint64_t n, rs_arrow_stop *stop) {
    memset(stop, 0, sizeof *stop);
    for (;;) {
        RS_TRY(rs_arrow_out_run(&s->out, &s->source, positions, 0, 1, n, stop, NULL));
        if (stop->why == RS_ARROW_BLOCK) {
            const rs_compiled_path *path = NULL;
            RS_TRY(fuzz_fields_know(s->fields, stop->block));
            if (s->field != 0) path = s->fields->source.of_block[stop->block]->of_field[s->field];
            RS_TRY(rs_arrow_out_add_block(&s->out, &s->source, stop->block, path, NULL));
        } else if (stop->why == RS_ARROW_UNSURE) {
            RS_TRY(look_up(s, stop->index));
            stop->done++;
        } else {
            return RS_OK;
        }
    }
}

/* Reads the batch back as any values. Some may fit no record, such as numbers of another width, but the batch must
 * follow the Arrow C interface. */
static void import(const struct ArrowSchema *schema, const struct ArrowArray *batch) {
    const rs_arrow_options options = {false, RS_ARROW_NANOSECONDS_FLOOR, NULL, 0, NULL, NULL};
    rs_arrow_in in = {0};
    rs_parcel parcel = {0};
    if (rs_arrow_in_open(&in, schema, &options, NULL) == RS_OK) {
        rs_status status = rs_arrow_in_bind(&in, batch, NULL);
        FUZZ_MUST(status != RS_E_IN_BROKEN);
        if (status == RS_OK) status = rs_arrow_in_append_parcel(&in, &parcel, UINT64_MAX, FUZZ_BYTES, NULL);
        FUZZ_MUST(status != RS_E_IN_BROKEN);
        rs_arrow_in_close(&in);
    }
    rs_parcel_clear(&parcel);
}

/* Sets random formats, because a consumer may request any schema. */
static void change_formats(struct ArrowSchema *schema, uint64_t *seed) {
    static const char *const formats[] = {"c", "L", "i", "g", "f", "U", "vu", "Z", "vz", "+L", "+l", "n", "b", "u", ""};
    if (fuzz_below(seed, 2) == 0) schema->format = formats[fuzz_below(seed, sizeof formats / sizeof formats[0])];
    for (int64_t i = 0; i < schema->n_children; i++) change_formats(schema->children[i], seed);
}

static void request(rs_arrow_field *root, uint64_t seed) {
    struct ArrowSchema schema;
    if (rs_arrow_export_schema(root, &schema, NULL) != RS_OK) return;
    change_formats(&schema, &seed);
    rs_arrow_request(root, &schema);
    rs_arrow_schema_release(&schema);
}

static void read_batch(export_state *s, const int64_t *positions, uint64_t n) {
    struct ArrowSchema schema;
    struct ArrowArray batch;
    rs_arrow_stop stop;
    bool whole = false;
    if (run(s, positions, n, &stop) != RS_OK || stop.why != RS_ARROW_DONE) return;
    if (rs_arrow_out_resolve(&s->out, &whole, NULL) != RS_OK || !whole) return;
    if (s->fields->seed % 4 == 1) rs_arrow_request_views(s->out.root);
    if (s->fields->seed % 4 > 1) request(s->out.root, s->fields->seed);
    if (rs_arrow_out_settle(&s->out, n, NULL) != RS_OK) return;
    if (run(s, positions, n, &stop) != RS_OK) return;
    if (rs_arrow_export_schema(s->out.root, &schema, NULL) != RS_OK) return;
    if (rs_arrow_out_batch(&s->out, 0, &batch, NULL) == RS_OK) {
        FUZZ_MUST((uint64_t)batch.length == stop.done);
        import(&schema, &batch);
        rs_arrow_array_release(&batch);
    }
    rs_arrow_schema_release(&schema);
}

void fuzz_read_arrow(rs_store *store, uint64_t seed) {
    static const uint8_t none[] = {RS_FMT_TAG_NONE};
    int64_t positions[ARROW_RECORDS];
    const uint64_t n = fuzz_records(store) < ARROW_RECORDS ? fuzz_records(store) : ARROW_RECORDS;
    fuzz_fields fields;
    for (uint64_t k = 0; k < n; k++) positions[k] = (int64_t)fuzz_record(store, k);
    fuzz_fields_open(&fields, store, seed);
    for (uint32_t f = 0; f < fields.n; f += 2) {
        export_state *s = (export_state *)calloc(1, sizeof *s);
        FUZZ_MUST(s != NULL);
        s->fields = &fields, s->field = f;
        s->source.store = store;
        s->source.of_block = (const rs_tree_paths **)calloc((size_t)store->n_blocks + 1, sizeof(rs_tree_paths *));
        FUZZ_MUST(s->source.of_block != NULL);
        if (rs_arrow_out_open(&s->out, NULL) == RS_OK) {
            s->out.root->rows = f == 0;
            if (f % 4 == 0) s->out.missing = rs_slice_of(none, sizeof none);
            read_batch(s, positions, n);
        }
        rs_arrow_out_clear(&s->out);
        free(s->source.of_block);
        free(s);
    }
    fuzz_fields_close(&fields);
}
