/* rs_infer.c: surveys values, plans a tree, makes its tables and writes its bytes. */
#include "write/rs_infer.h"

#include <stdlib.h>

#include "plan/rs_plan_choose.h"

enum { LITTLE_GAIN = 64 }; /* a shared table must save 1/64 of all bytes, because it slows reading */
#define LITTLE_TEXT_PATH UINT64_C(0x6C6974746C65) /* makes the position id of the shared table */

typedef struct infer {
    rs_stats *stats;
    rs_dictionaries *dictionaries;
    unsigned table_depth;
    rs_links *links;
    struct text *texts;    /* the symbols nodes without a shared table, in the order of settling */
    struct text **by_size; /* the same, the longest first */
    uint32_t n_texts, next_text;
    rs_error *err;
} infer;

/* A symbols node, and the search for its table. */
typedef struct text {
    rs_plan *plan;
    uint64_t units;
    rs_symbols_search search;
} text;

/* ---- Settling: making the tables of a plan, and filling in their numbers ---- */

static rs_status settle_dict_coded(infer *self, rs_plan *d) {
    rs_dictionary *dictionary;
    RS_TRY(rs_dictionaries_extend(self->dictionaries, d->position_id, d->fresh, &d->entries, self->table_depth + 1,
                                  &dictionary, self->err));
    uint8_t *aux = (uint8_t *)rs_arena_take(&self->stats->arena, 4 * (size_t)dictionary->n_tables);
    if (aux == NULL) return rs_no_memory(self->err);
    for (uint32_t i = 0; i < dictionary->n_tables; i++) rs_store_u32(aux + 4 * (size_t)i, dictionary->tables[i]);
    d->aux = rs_slice_of(aux, 4 * (size_t)dictionary->n_tables);
    d->count = dictionary->entries.n;
    d->param = (uint8_t)rs_bit_width(d->count - 1);
    d->link = dictionary;
    return RS_OK;
}

static unsigned unit_of(const rs_plan *d) { return d->of == NULL ? d->unit_bytes : rs_alternative_unit_bytes(d->of); }

/* Writes the strings of a plan to `out` and returns the end of what it wrote. */
static rs_symbol_string *list_strings(const infer *self, const rs_plan *d, rs_symbol_string *out) {
    if (d->without == NULL) {
        rs_plan_strings(self->stats, d->of, out);
        return out + d->of->n_offsets;
    }
    for (uint32_t i = 0; i < d->n; i++) {
        rs_slice units = rs_stats_units(self->stats, d->of->offsets[d->without->misfits[i]], unit_of(d));
        out->n_units = rs_slice_left(&units) / unit_of(d);
        out->units = units.ptr;
        out++;
    }
    return out;
}

/* Makes the plan a symbols node of the table, or a str node if `table` is NULL. */
static rs_status settle_strings(infer *self, rs_plan *d, rs_symbol_table *table) {
    d->kind = table == NULL ? RS_FMT_NODE_STR : RS_FMT_NODE_SYMBOLS;
    d->param = table == NULL ? (uint8_t)unit_of(d) : unit_of(d) == 4 ? RS_FMT_SYMBOLS_PAIRS : 0;
    if (table == NULL) return RS_OK;
    uint8_t *aux = (uint8_t *)rs_arena_take(&self->stats->arena, 4);
    if (aux == NULL) return rs_no_memory(self->err);
    rs_store_u32(aux, table->number);
    d->aux = rs_slice_of(aux, 4);
    d->link = table;
    return RS_OK;
}

/* Searches a table for a text. Errors stay in the search. */
static void search_symbols(const infer *self, text *t) {
    const rs_plan *d = t->plan;
    rs_symbol_string *strings = NULL;
    t->search.position_id = d->position_id;
    t->search.unit_bytes = unit_of(d);
    t->search.strings = d->texts;
    t->search.n = (size_t)d->n;
    if (d->texts == NULL) {
        t->search.strings = strings = (rs_symbol_string *)malloc((d->of->n_offsets + (size_t)1) * sizeof *strings);
        t->search.status = RS_E_MEM;
        if (strings == NULL) return;
        t->search.n = (size_t)(list_strings(self, d, strings) - strings);
        t->search.trained = d->without == NULL && d->of->prepared != NULL ? d->of->prepared->trained : NULL;
    }
    rs_dictionaries_search(self->dictionaries, &t->search);
    free(strings);
}

static void search_task(void *work, uint32_t number) {
    const infer *self = (const infer *)work;
    search_symbols(self, self->by_size[number]);
}

static rs_status settle_symbols(infer *self, rs_plan *d) {
    rs_symbol_table *table = NULL;
    if (d->link != NULL) return RS_OK; /* it has a shared table already */
    text *t = &self->texts[self->next_text++];
    RS_ASSERT(t->plan == d);
    if (rs_dictionaries_is_stale(self->dictionaries, &t->search)) {
        rs_symbols_search_clear(&t->search);
        search_symbols(self, t);
    }
    RS_TRY(rs_dictionaries_keep(self->dictionaries, &t->search, &table, self->err));
    return settle_strings(self, d, table);
}

/* Lists the symbols nodes without a table at `out` from number n on; if `out` is NULL, only counts them. Returns the
 * new number. */
static uint32_t list_texts(rs_plan *d, text *out, uint32_t n) {
    if (d->kind == RS_FMT_NODE_SYMBOLS && d->link == NULL) {
        if (out != NULL) {
            out[n].plan = d;
            for (size_t i = 0; d->texts != NULL && i < d->n; i++) out[n].units += d->texts[i].n_units;
            if (d->texts == NULL) out[n].units = d->of->total;
        }
        n++;
    }
    for (uint32_t i = 0; i < d->n_children; i++) n = list_texts(d->children[i], out, n);
    return n;
}

static int compare_units(const void *a, const void *b) {
    const uint64_t left = (*(text *const *)a)->units, right = (*(text *const *)b)->units;
    return left < right ? 1 : left > right ? -1 : 0;
}

/* Searches the tables of all symbols nodes. Threads share the searches, the longest texts first. */
static rs_status search_all(infer *self, rs_plan *root) {
    const uint32_t n = list_texts(root, NULL, 0);
    if (n == 0) return RS_OK;
    self->by_size = (text **)malloc(n * sizeof *self->by_size);
    self->texts = (text *)calloc(n, sizeof *self->texts);
    if (self->by_size == NULL || self->texts == NULL) return rs_no_memory(self->err);
    self->n_texts = list_texts(root, self->texts, 0);
    for (uint32_t i = 0; i < n; i++) self->by_size[i] = &self->texts[i];
    qsort(self->by_size, n, sizeof *self->by_size, compare_units);
    rs_crew_run(self->stats->choices->crew, search_task, self, n);
    return RS_OK;
}

/* ---- One symbol table for all positions with too little text for a table of their own ---- */

static bool has_little(const rs_plan *d, unsigned unit) {
    if (d->of == NULL || (d->kind != RS_FMT_NODE_SYMBOLS && d->kind != RS_FMT_NODE_STR)) return false;
    if (d->n < d->of->n) return false; /* some of the strings belong to another node */
    /* Strings of fewer than 4 units on average gain nothing, and there may be very many of them. */
    return (unit_of(d) == 1) == (unit == 1) && d->of->total <= RS_PLAN_LITTLE_TEXT &&
           d->of->total / 4 >= d->of->n_offsets;
}

/* Writes the plans with little text to out[n], out[n + 1] and so on; if `out` is NULL, only counts them. Returns n plus
 * their number. */
static uint32_t list_little(rs_plan *d, unsigned unit, rs_plan **out, uint32_t n) {
    if (has_little(d, unit)) {
        if (out != NULL) out[n] = d;
        n++;
    }
    for (uint32_t i = 0; i < d->n_children; i++) n = list_little(d->children[i], unit, out, n);
    return n;
}

static rs_status settle_little(infer *self, rs_plan *root, unsigned unit) {
    uint32_t n = list_little(root, unit, NULL, 0);
    size_t n_strings = 0;
    rs_symbol_string *strings;
    rs_symbol_table *table = NULL;
    if (n < 2 || !rs_choices_allow(self->stats->choices, RS_FMT_NODE_SYMBOLS)) return RS_OK;
    rs_plan **plans = (rs_plan **)rs_arena_take(&self->stats->arena, n * sizeof *plans);
    rs_symbol_group *groups = (rs_symbol_group *)rs_arena_take(&self->stats->arena, n * sizeof *groups);
    if (plans == NULL || groups == NULL) return rs_no_memory(self->err);
    (void)list_little(root, unit, plans, 0);
    for (uint32_t i = 0; i < n; i++) n_strings += plans[i]->of->n_offsets;
    rs_symbol_string *end = strings = (rs_symbol_string *)malloc((n_strings + 1) * sizeof *strings);
    if (strings == NULL) return rs_no_memory(self->err);
    for (uint32_t i = 0; i < n; i++) {
        groups[i].strings = end;
        groups[i].n = plans[i]->of->n_offsets;
        end = list_strings(self, plans[i], end);
    }
    rs_status status =
        rs_dictionaries_share(self->dictionaries, self->stats->root.position_id ^ (LITTLE_TEXT_PATH + unit), groups, n,
                              unit, self->stats->raw_bytes / LITTLE_GAIN, &table, self->err);
    for (uint32_t i = 0; i < n && status == RS_OK && table != NULL; i++) {
        if (groups[i].joins) status = settle_strings(self, plans[i], table);
    }
    free(strings);
    return status;
}

static int compare_hashes(const void *a, const void *b) {
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Makes the link of a struct with optional keys: the hashes of its key sets, in ascending order. */
static rs_status settle_struct(infer *self, rs_plan *d) {
    const rs_alternative *a = (const rs_alternative *)d->link;
    rs_key_set_hashes *set;
    RS_TRY(rs_links_new_key_sets(self->links, a->n_key_sets, &set, self->err));
    memcpy(set->hashes, a->key_sets, a->n_key_sets * sizeof *set->hashes);
    qsort(set->hashes, set->n, sizeof *set->hashes, compare_hashes);
    d->link = set;
    return RS_OK;
}

static rs_status settle(infer *self, rs_plan *d) {
    switch (d->kind) {
    case RS_FMT_NODE_DICT_CODED: return settle_dict_coded(self, d);
    case RS_FMT_NODE_SYMBOLS: return settle_symbols(self, d);
    case RS_FMT_NODE_STRUCT:
        if (d->link != NULL) RS_TRY(settle_struct(self, d));
        break;
    case RS_FMT_NODE_CONCAT:
        RS_TRY(rs_links_copy(self->links, d->link, ((const rs_template_cut *)d->link)->size_bytes, &d->link,
                             self->err));
        break;
    case RS_FMT_NODE_HEX:
    case RS_FMT_NODE_ALPHABET:
        RS_TRY(rs_links_copy(self->links, d->link, sizeof(rs_alphabet), &d->link, self->err));
        break;
    default: break;
    }
    for (uint32_t i = 0; i < d->n_children; i++) RS_TRY(settle(self, d->children[i]));
    return RS_OK;
}

/* ---- Writing the tree's bytes ---- */

/* The nodes written so far, and the queue of a breadth-first walk over the plan. */
typedef struct emitter {
    rs_buffer nodes, aux;
    const rs_plan *queue[RS_FMT_TREE_NODES];
    uint32_t n_queue;
    rs_links *links;
    rs_error *err;
} emitter;

static rs_status too_large(rs_error *err) {
    return rs_error_set(err, RS_E_ARG_LIMIT, RS_NOWHERE, "the tree grows too large");
}

static rs_status emit_node(emitter *self, uint32_t number) {
    const rs_plan *d = self->queue[number];
    RS_TRY(rs_buffer_append_zeros(&self->nodes, RS_FMT_NODE_SIZE, self->err));
    uint8_t *node = self->nodes.data + (size_t)number * RS_FMT_NODE_SIZE;
    node[RS_FMT_N_KIND] = d->kind;
    node[RS_FMT_N_PARAM] = d->param;
    rs_store_u16(node + RS_FMT_N_FLAGS, d->flags);
    rs_store_u32(node + RS_FMT_N_COUNT, d->count);
    rs_store_u32(node + RS_FMT_N_N_CHILDREN, d->n_children);
    if (d->n_children > 0) rs_store_u32(node + RS_FMT_N_FIRST_CHILD, self->n_queue);
    if (d->n_children > RS_FMT_TREE_NODES - self->n_queue) return too_large(self->err);
    for (uint32_t i = 0; i < d->n_children; i++) self->queue[self->n_queue++] = d->children[i];
    if (rs_slice_left(&d->aux) > 0) {
        if (self->aux.size_bytes + rs_slice_left(&d->aux) > RS_FMT_TREE_BYTES) return too_large(self->err);
        rs_store_u32(node + RS_FMT_N_AUX_OFFSET, (uint32_t)self->aux.size_bytes);
        rs_store_u32(node + RS_FMT_N_AUX_SIZE, (uint32_t)rs_slice_left(&d->aux));
        RS_TRY(rs_buffer_append(&self->aux, d->aux.ptr, rs_slice_left(&d->aux), self->err));
    }
    return d->link == NULL ? RS_OK : rs_links_add(self->links, number, d->link, self->err);
}

static rs_status append_tree(rs_buffer *out, const rs_buffer *nodes, const rs_buffer *aux, rs_error *err) {
    uint8_t sizes[RS_FMT_TREE_HEAD_SIZE];
    if (RS_FMT_TREE_HEAD_SIZE + nodes->size_bytes + aux->size_bytes > RS_FMT_TREE_BYTES) return too_large(err);
    rs_store_u32(sizes, (uint32_t)(nodes->size_bytes / RS_FMT_NODE_SIZE));
    rs_store_u32(sizes + 4, (uint32_t)aux->size_bytes);
    RS_TRY(rs_buffer_append(out, sizes, sizeof sizes, err));
    RS_TRY(rs_buffer_append(out, nodes->data, nodes->size_bytes, err));
    return rs_buffer_append(out, aux->data, aux->size_bytes, err);
}

static rs_status emit_tree(const rs_plan *root, rs_links *links, rs_buffer *out, rs_error *err) {
    emitter *self = (emitter *)calloc(1, sizeof *self);
    rs_status status = RS_OK;
    if (self == NULL) return rs_no_memory(err);
    self->err = err;
    self->links = links;
    self->queue[0] = root;
    self->n_queue = 1;
    for (uint32_t i = 0; status == RS_OK && i < self->n_queue; i++) status = emit_node(self, i);
    if (status == RS_OK) status = append_tree(out, &self->nodes, &self->aux, err);
    rs_buffer_clear(&self->nodes);
    rs_buffer_clear(&self->aux);
    free(self);
    return status;
}

void rs_infer_begin_survey(rs_stats *stats, uint64_t position_id) {
    stats->root.position_id = RS_KEY_SET_SEED ^ position_id;
}

rs_status rs_infer_survey(rs_stats *stats, uint64_t position_id, rs_error *err) {
    rs_infer_begin_survey(stats, position_id);
    RS_TRY(rs_stats_collect(stats, err));
    return rs_plan_prepare(stats, err);
}

rs_status rs_infer_tree(rs_stats *stats, rs_dictionaries *dictionaries, unsigned table_depth, rs_buffer *out,
                        rs_links *links, rs_error *err) {
    infer self = {.stats = stats, .dictionaries = dictionaries, .table_depth = table_depth, .links = links, .err = err};
    rs_plan *root = NULL;
    RS_TRY(rs_plan_choose(stats, dictionaries, table_depth, &root, err));
    RS_TRY(settle_little(&self, root, 1));
    RS_TRY(settle_little(&self, root, 2));
    rs_status status = search_all(&self, root);
    if (status == RS_OK) status = settle(&self, root);
    for (uint32_t i = 0; i < self.n_texts; i++) rs_symbols_search_clear(&self.texts[i].search);
    free(self.texts);
    free(self.by_size);
    RS_TRY(status);
    RS_TRY(rs_plan_move_rare(stats, root, err));
    rs_plan_join_bits(root);
    return emit_tree(root, links, out, err);
}

rs_status rs_infer_any_tree(rs_buffer *out, rs_error *err) {
    uint8_t tree[RS_FMT_TREE_HEAD_SIZE + RS_FMT_NODE_SIZE] = {1};
    tree[RS_FMT_TREE_HEAD_SIZE + RS_FMT_N_KIND] = RS_FMT_NODE_ANY;
    return rs_buffer_append(out, tree, sizeof tree, err);
}
