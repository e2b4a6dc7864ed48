/* readers_fields.c: reads fields by walks, as columns, and in batches. */
#include "read/rs_text.h"
#include "readers.h"

enum { BATCH = 96, FEW = 12 };

/* ---- Walks ---- */

/* A text can be assembled in two ways. The fast way may give up on any text and does not check limits. If it succeeds,
 * the slow way must agree or exceed a limit. */
static void compare_texts(const rs_cursor *cursor, const rs_place *place) {
    rs_cursor fast = *cursor, slow = *cursor;
    uint8_t out[RS_TEXT_INLINE + RS_TEXT_SLACK];
    rs_text text;
    rs_status status;
    int n;
    if (place->node == NULL) return;
    switch (place->node->kind) {
    case RS_FMT_NODE_SYMBOLS:
    case RS_FMT_NODE_CONCAT:
    case RS_FMT_NODE_DIGITS:
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET: break;
    default: return;
    }
    n = rs_text_short(&fast, place->node, place->body, place->bits, out);
    if (n < 0) return;
    rs_text_begin(&text);
    status = rs_text_take(&text, &slow, place->node, place->body, place->bits, NULL);
    FUZZ_MUST(status == RS_OK || status == RS_E_FMT_LIMIT);
    if (status == RS_OK) {
        FUZZ_MUST(text.n_units == (uint64_t)n && text.unit_bytes == 1 && slow.in.ptr == fast.in.ptr);
        FUZZ_MUST(n == 0 || memcmp(text.units, out, (size_t)n) == 0);
    }
    rs_text_clear(&text);
}

/* Reads the value at the end of a walk in every way, each with its own cursor. */
static void use_place(const rs_cursor *cursor, const rs_place *place, rs_buffer *scratch) {
    rs_cursor at = *cursor;
    rs_place p = *place;
    rs_column column = {{0}, 0, false};
    rs_run run;
    rs_run_shape shape;
    uint64_t n = 0, written;
    bool taken = false;
    if (rs_path_settle(&at, &p, NULL) != RS_OK || rs_path_is_lacking(&p)) return;
    (void)rs_path_is_none(&at, &p);
    compare_texts(&at, &p);
    {
        rs_cursor own = at;
        fuzz_any(rs_column_take_number(&column, &own, &p, &taken, NULL));
        own = at;
        fuzz_any(rs_column_take_list(&column, &own, &p, &n, &taken, NULL));
        rs_column_clear(&column);
    }
    {
        rs_cursor own = at;
        fuzz_any(rs_utf8_take(scratch, &own, &p, &taken, NULL));
        scratch->size_bytes = 0;
    }
    {
        rs_cursor own = at;
        taken = false;
        if (rs_run_take_list(&own, &p, &run, &taken, NULL) != RS_OK) return;
        if (!taken && rs_run_take_array(&own, &p, &run, &shape, &taken, NULL) != RS_OK) return;
    }
    if (taken && run.n <= FUZZ_VALUES && run.kind != RS_RUN_READY) {
        uint8_t *to = (uint8_t *)malloc((size_t)run.n * 8 + 1);
        FUZZ_MUST(to != NULL);
        fuzz_any(rs_run_write(&run, run.n, RS_DTYPE_FLOAT64, NULL, scratch, to, &written, NULL));
        fuzz_any(rs_run_write(&run, run.n, RS_DTYPE_INT16, NULL, scratch, to, &written, NULL));
        free(to);
    }
    scratch->size_bytes = 0;
}

static void walk(const rs_compiled_path *path, const rs_cursor *record, rs_buffer *scratch, uint64_t *seed) {
    rs_cursor cursor = *record, at;
    rs_place place, element;
    int found = RS_WALK_LACKING;
    bool is_there = false;
    if (rs_compiled_path_walk(path, &cursor, &place, &found, NULL) != RS_OK || found != RS_WALK_FOUND) return;
    use_place(&cursor, &place, scratch);
    at = cursor, element = place;
    if (rs_path_settle(&at, &element, NULL) != RS_OK || rs_path_is_lacking(&element)) return;
    if (rs_path_open(&at, &element, NULL) != RS_OK) return;
    if (rs_path_element(&at, &element, (int64_t)fuzz_below(seed, 7) - 3, &is_there, NULL) == RS_OK && is_there) {
        use_place(&at, &element, scratch);
    }
    at = cursor, element = place;
    if (rs_path_settle(&at, &element, NULL) != RS_OK || element.node == NULL || rs_path_is_lacking(&element)) return;
    if (element.node->kind == RS_FMT_NODE_MAP) {
        rs_map map;
        rs_cursor key_at;
        if (rs_map_begin(&map, &at, element.node, NULL) != RS_OK) return;
        for (uint64_t i = 0; i < map.n && i < FUZZ_RECORDS; i++) {
            if (rs_map_key(&map, &at, i, &key_at, &element, NULL) != RS_OK) return;
            use_place(&key_at, &element, scratch);
            at.budget = key_at.budget;
            if (map.key_at != NULL) break; /* reads only the first key */
        }
        rs_map_value(&map, 0, &element);
        if (map.n > 0 && rs_map_pass_value(&map, &at, 0, NULL) != RS_OK) return;
    } else if (element.node->kind == RS_FMT_NODE_STRUCT && element.node->n_children > 0) {
        if (rs_path_child(&at, &element, (uint32_t)fuzz_below(seed, element.node->n_children), NULL) == RS_OK) {
            use_place(&at, &element, scratch);
        }
    }
}

void fuzz_read_paths(rs_store *store, uint64_t seed) {
    fuzz_fields fields;
    rs_buffer scratch = {0};
    rs_record record;
    fuzz_fields_open(&fields, store, seed);
    for (uint64_t k = 0; k < fuzz_records(store); k++) {
        if (rs_store_find(store, fuzz_record(store, k), &record, NULL) != RS_OK) continue;
        uint64_t block = (uint64_t)(record.block - store->blocks);
        if (fields.source.of_block[block] == NULL && fuzz_fields_know(&fields, block) != RS_OK) break;
        rs_cursor cursor = rs_store_cursor(store, &record);
        for (uint32_t f = 0; f < fields.n; f++)
            walk(fields.source.of_block[block]->of_field[f], &cursor, &scratch, &seed);
    }
    rs_buffer_clear(&scratch);
    fuzz_fields_close(&fields);
}

/* ---- Columns, and batches of one field ---- */

/* Sets *place to the whole record. If a walk is unsure, the binding would look up the field instead. */
static rs_status place_of(rs_store *store, uint64_t index, rs_cursor *cursor, rs_place *place) {
    rs_record record;
    RS_TRY(rs_store_find(store, index, &record, NULL));
    *cursor = rs_store_cursor(store, &record);
    RS_TRY(rs_path_begin(cursor, record.tree->nodes, place, NULL));
    return rs_path_settle(cursor, place, NULL);
}

static rs_status measure(fuzz_fields *fields, const rs_source *source, rs_gather *gather, const int64_t *positions,
                         uint64_t n) {
    while (gather->done < n || gather->stop.why != RS_GATHER_DONE) {
        rs_cursor cursor;
        rs_place place;
        RS_TRY(rs_gather_measure(gather, source, positions, 0, 1, n, NULL));
        if (gather->stop.why == RS_GATHER_BLOCK) {
            RS_TRY(fuzz_fields_know(fields, gather->stop.block));
        } else if (gather->stop.why == RS_GATHER_UNSURE) {
            RS_TRY(place_of(fields->store, gather->stop.index, &cursor, &place));
            RS_TRY(rs_gather_take(gather, &cursor, rs_path_is_lacking(&place) ? NULL : &place, NULL));
            if (gather->stop.why != RS_GATHER_DONE) return RS_OK;
        } else if (gather->stop.why != RS_GATHER_DONE) {
            return RS_OK;
        }
    }
    return RS_OK;
}

/* Sets the paths of a source whose only field is number f. */
static void one_field(const fuzz_fields *fields, uint32_t f, rs_tree_paths *paths, const rs_tree_paths **of_block) {
    static uint32_t order[1];
    for (uint64_t b = 0; b < fields->store->n_blocks; b++) {
        const rs_block *block = &fields->store->blocks[b];
        if (fields->source.of_block[b] == NULL) continue;
        rs_tree_paths_set(&paths[block->tree], &fields->trees[block->tree].of_field[f], order, 1);
        of_block[b] = &paths[block->tree];
    }
}

static uint64_t choose_positions(const rs_store *store, int64_t *positions) {
    const uint64_t n = fuzz_records(store) < BATCH ? fuzz_records(store) : BATCH;
    for (uint64_t k = 0; k < n; k++) positions[k] = (int64_t)fuzz_record(store, k);
    return n;
}

/* Allocates the buffer of a batch. Returns false if it has no layout or is too large for a fuzz run. */
static bool place_buffer(rs_gather *gather, uint8_t **buffer) {
    uint64_t size = 0;
    if (rs_gather_layout(gather, &size, NULL) != RS_OK || gather->stop.why != RS_GATHER_DONE) return false;
    if (size > FUZZ_BYTES) return false;
    free(*buffer);
    *buffer = (uint8_t *)malloc((size_t)size + 1);
    FUZZ_MUST(*buffer != NULL);
    rs_gather_place(gather, *buffer);
    return true;
}

static void read_batch(fuzz_fields *fields, const rs_source *source, rs_gather *gather, const int64_t *positions,
                       uint64_t n) {
    uint8_t *buffer = NULL;
    if (rs_gather_begin(gather, n, NULL) == RS_OK && (!gather->direct || place_buffer(gather, &buffer)) &&
        measure(fields, source, gather, positions, n) == RS_OK && gather->stop.why == RS_GATHER_DONE &&
        !gather->direct && place_buffer(gather, &buffer)) {
        fuzz_any(rs_gather_fill(gather, buffer, NULL));
    }
    free(buffer);
}

/* Sets the spec of single numbers, or of rows of them, whose bytes may be those of the record. */
static void set_numbers(rs_gather_spec *spec, uint64_t *seed) {
    static const unsigned dtypes[] = {RS_DTYPE_INT64, RS_DTYPE_FLOAT64, RS_DTYPE_BOOL, RS_DTYPE_INT16};
    memset(spec, 0, sizeof *spec);
    spec->form = RS_GATHER_VALUES;
    spec->dtype = dtypes[fuzz_below(seed, 4)];
    spec->missing = (unsigned)fuzz_below(seed, 3);
    spec->row_numbers = spec->multiple = 1;
    spec->n_row = (uint32_t)fuzz_below(seed, 3);
    for (uint32_t k = 0; k < spec->n_row; k++) spec->row_numbers *= spec->row[k] = 1 + fuzz_below(seed, 4);
}

/* Reads a batch of one field. */
static void read_numbers(fuzz_fields *fields, const rs_source *source, const int64_t *positions, uint64_t n) {
    rs_gather_spec spec;
    rs_gather gather;
    set_numbers(&spec, &fields->seed);
    if (rs_gather_open(&gather, &spec, 1, NULL) != RS_OK) return;
    read_batch(fields, source, &gather, positions, n);
    rs_gather_close(&gather);
}

void fuzz_read_columns(rs_store *store, uint64_t seed) {
    static const uint8_t zero[] = {RS_FMT_TAG_ZERO};
    static const unsigned forms[] = {RS_GATHER_NUMBERS, RS_GATHER_LISTS, RS_GATHER_STRINGS};
    int64_t positions[BATCH];
    const uint64_t n = choose_positions(store, positions);
    fuzz_fields fields;
    fuzz_fields_open(&fields, store, seed);
    for (uint64_t b = 0; b < store->n_blocks && b < FUZZ_RECORDS; b++) {
        if (fuzz_fields_know(&fields, b) != RS_OK) break;
    }
    for (uint32_t f = 0; f < fields.n; f++) {
        rs_tree_paths *paths = (rs_tree_paths *)calloc((size_t)store->n_trees + 1, sizeof *paths);
        const rs_tree_paths **of_block = (const rs_tree_paths **)calloc((size_t)store->n_blocks + 1, sizeof *of_block);
        const rs_source source = {store, of_block};
        rs_gather gather;
        FUZZ_MUST(paths != NULL && of_block != NULL);
        one_field(&fields, f, paths, of_block);
        for (unsigned form = 0; form < sizeof forms / sizeof forms[0]; form++) {
            rs_gather_spec spec = {.form = forms[form], .row_numbers = 1};
            if (f % 3 == 0) spec.absent = rs_slice_of(zero, sizeof zero);
            if (rs_gather_open(&gather, &spec, 1, NULL) != RS_OK) continue;
            if (rs_gather_begin(&gather, n, NULL) == RS_OK &&
                measure(&fields, &source, &gather, f % 2 == 0 ? positions : NULL, n) == RS_OK &&
                gather.stop.why == RS_GATHER_DONE) {
                FUZZ_MUST(gather.fields->done == n);
            }
            rs_gather_close(&gather);
        }
        for (unsigned k = 0; k < 6; k++) { /* few records are read by themselves */
            read_numbers(&fields, &source, k < 2 ? NULL : positions, k % 2 == 0 || n < FEW ? n : FEW);
        }
        free(of_block);
        free(paths);
    }
    fuzz_fields_close(&fields);
}

/* ---- Batches of several fields ---- */

static void set_spec(rs_gather_spec *spec, uint64_t *seed, const rs_names *names) {
    static const uint8_t zero[] = {RS_FMT_TAG_ZERO};
    memset(spec, 0, sizeof *spec);
    spec->form = (unsigned)fuzz_below(seed, RS_GATHER_CODES + 1);
    spec->dtype = (unsigned)fuzz_below(seed, RS_DTYPES);
    spec->missing = (unsigned)fuzz_below(seed, 3);
    spec->row_numbers = 1;
    if (spec->form <= RS_GATHER_PADDED && fuzz_below(seed, 3) == 0) {
        spec->n_row = 1;
        spec->row[0] = spec->row_numbers = 1 + fuzz_below(seed, 4);
    }
    spec->multiple = 1 + fuzz_below(seed, 8);
    spec->truncate = fuzz_below(seed, 2) == 0;
    spec->split = fuzz_below(seed, 2) == 0;
    if (spec->form == RS_GATHER_PACKED) spec->length = 1 + fuzz_below(seed, 40);
    else if (fuzz_below(seed, 2) == 0) spec->length = fuzz_below(seed, 12), spec->inner_length = fuzz_below(seed, 5);
    if (spec->form == RS_GATHER_TEXT || spec->form == RS_GATHER_STRINGS) spec->dtype = RS_DTYPE_UINT8;
    if (spec->form == RS_GATHER_CODES) spec->dtype = RS_DTYPE_INT64, spec->names = names;
    if (fuzz_below(seed, 3) == 0) spec->absent = rs_slice_of(zero, sizeof zero);
}

void fuzz_read_gathers(rs_store *store, uint64_t seed) {
    static const uint8_t name[] = "aa";
    int64_t positions[BATCH];
    const uint64_t n = choose_positions(store, positions);
    rs_gather_spec specs[FUZZ_FIELDS];
    rs_names names = {0};
    fuzz_fields fields;
    rs_gather gather;
    bool is_new;
    FUZZ_MUST(rs_names_add_text(&names, name, 2, &is_new, NULL) == RS_OK);
    FUZZ_MUST(rs_names_add_int(&names, 0, &is_new, NULL) == RS_OK);
    fuzz_fields_open(&fields, store, seed);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t f = 0; f < fields.n; f++) set_spec(&specs[f], &fields.seed, &names);
        if (rs_gather_open(&gather, specs, fields.n, NULL) != RS_OK) continue;
        read_batch(&fields, &fields.source, &gather, positions, n);
        read_batch(&fields, &fields.source, &gather, positions, n / 2);
        rs_gather_close(&gather);
    }
    fuzz_fields_close(&fields);
    rs_names_clear(&names);
}
