/* fuzz_arrow_in.c: rows of Arrow arrays as any values. The input chooses types and buffers. Buffers come without sizes,
 * so each buffer is as long as the specification says; numbers that the importer can check may be anything. */
#include "fuzz.h"
#include "rs_arrow_make.h"

enum { LENGTH = 12, NEST = 4, TEXT = 64, MAX_TYPES = 60, FORMAT = 24 };

/* The formats with one buffer of values, and the bits of a value. */
static const struct {
    const char *format;
    unsigned bits;
} PLAIN[] = {{"b", 1},         {"c", 8},         {"C", 8},           {"s", 16},
             {"S", 16},        {"i", 32},        {"I", 32},          {"l", 64},
             {"L", 64},        {"e", 16},        {"f", 32},          {"g", 64},
             {"w:5", 40},      {"w:0", 0},       {"d:10,2", 128},    {"d:40,-3,256", 256},
             {"d:5,2,32", 32}, {"d:9,0,64", 64}, {"tdD", 32},        {"tdm", 64},
             {"tts", 32},      {"ttm", 32},      {"ttu", 64},        {"ttn", 64},
             {"tss:", 64},     {"tsm:UTC", 64},  {"tsu:+01:30", 64}, {"tsn:Zone/One", 64},
             {"tDs", 64},      {"tDm", 64},      {"tDu", 64},        {"tDn", 64},
             {"tiM", 32},      {"tiD", 64},      {"tin", 128}};
enum { N_PLAIN = sizeof PLAIN / sizeof PLAIN[0] };

typedef struct source {
    rs_slice in;
    unsigned n_types;
} source;

static arrow_made *make_type(source *s, unsigned depth, int64_t least);

static unsigned take(source *s) { return fuzz_take(&s->in); }

static void *take_bytes(source *s, size_t n, size_t room) {
    uint8_t *bytes = (uint8_t *)arrow_keep(calloc(1, room + 1));
    for (size_t i = 0; i < n && s->in.ptr != s->in.end; i++) bytes[i] = (uint8_t)take(s);
    return bytes;
}

/* Sets a buffer of n bytes from the input, filled with zeros if the input ends. */
static void set_buffer(source *s, arrow_made *m, unsigned number, size_t n) {
    const void *bytes = take_bytes(s, n, n);
    arrow_set(m, number, bytes, n);
}

static size_t elements(const arrow_made *m) { return (size_t)(m->array.length + m->array.offset); }

/* Sets offsets that mostly ascend. Offsets of text are at most TEXT, the size of its data. */
static void set_offsets(source *s, arrow_made *m, unsigned number, unsigned width, bool text) {
    const size_t n = elements(m) + 1;
    uint8_t *bytes = (uint8_t *)arrow_keep(calloc(n, width));
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned choice = take(s);
        int64_t value = choice == 255 ? -1 : choice == 254 ? (text ? 0 : (int64_t)fuzz_take_number(&s->in, 8)) : at;
        if (choice < 250) at += choice % 5, value = at;
        if (text && value > TEXT) value = TEXT;
        memcpy(bytes + i * width, &value, width);
    }
    arrow_set(m, number, bytes, n * width);
}

/* Begins an array with a length, an offset and a count of nulls, without buffers. */
static arrow_made *begin(source *s, const char *format, int64_t least, int64_t n_buffers) {
    const unsigned choice = take(s);
    arrow_made *m = arrow_make(format, (choice & 1) != 0 ? "a" : "b", least, n_buffers);
    if ((choice & 6) == 6) m->array.offset = choice / 8 % 4;
    if ((choice & 0x60) == 0x60) m->array.null_count = (choice & 0x80) != 0 ? -1 : 1;
    if (m->array.null_count > m->array.length) m->array.null_count = m->array.length;
    m->schema.flags = ARROW_FLAG_NULLABLE;
    return m;
}

/* Adds a validity bitmap if the count of nulls is not 0. */
static arrow_made *add_validity(source *s, arrow_made *m) {
    if (m->array.null_count != 0) set_buffer(s, m, 0, elements(m) / 8 + 1);
    return m;
}

static arrow_made *make_text(source *s, unsigned choice, int64_t least) {
    static const char *const formats[] = {"u", "U", "z", "Z"};
    arrow_made *m = add_validity(s, begin(s, formats[choice % 4], least, 3));
    set_offsets(s, m, 1, choice % 2 == 0 ? 4 : 8, true);
    set_buffer(s, m, 2, TEXT);
    return m;
}

/* Makes views into two blocks of data. The last buffer has their sizes. */
static arrow_made *make_views(source *s, unsigned choice, int64_t least) {
    static const int64_t sizes[] = {TEXT, 7};
    arrow_made *m = add_validity(s, begin(s, choice % 2 == 0 ? "vu" : "vz", least, 5));
    set_buffer(s, m, 1, elements(m) * 16);
    set_buffer(s, m, 2, TEXT);
    set_buffer(s, m, 3, 7);
    return arrow_set(m, 4, sizes, sizeof sizes);
}

static arrow_made *make_list(source *s, unsigned choice, unsigned depth, int64_t least) {
    static const char *const formats[] = {"+l", "+L", "+vl", "+vL", "+w:3", "+m"};
    const unsigned which = choice % 6, width = which % 2 == 0 ? 4 : 8;
    arrow_made *m = add_validity(s, begin(s, formats[which], least, which == 4 ? 1 : which == 2 || which == 3 ? 3 : 2));
    if (which == 5) {
        const int64_t n = LENGTH;
        arrow_made *entries = begin(s, "+s", n, 1);
        entries->array.null_count = 0;
        arrow_add(entries, make_type(s, depth + 1, n + entries->array.offset));
        arrow_add(entries, make_type(s, depth + 1, n + entries->array.offset));
        set_offsets(s, m, 1, 4, false);
        return arrow_add(m, entries);
    }
    if (which != 4) set_offsets(s, m, 1, width, false);
    if (which == 2 || which == 3) set_offsets(s, m, 2, width, false);
    return arrow_add(m, make_type(s, depth + 1, which == 4 ? 3 * (int64_t)elements(m) : LENGTH));
}

static arrow_made *make_struct(source *s, unsigned choice, unsigned depth, int64_t least) {
    arrow_made *m = add_validity(s, begin(s, "+s", least, 1));
    for (unsigned i = 0; i < choice % (ARROW_CHILDREN + 1u); i++) {
        arrow_made *child = make_type(s, depth + 1, (int64_t)elements(m) - (take(s) == 255));
        static const char *const names[] = {"x", "y", "long name", "\xC3\xA9"};
        child->schema.name = names[i];
        arrow_add(m, child);
    }
    return m;
}

static arrow_made *make_union(source *s, unsigned choice, unsigned depth, int64_t least) {
    const bool dense = choice % 2 == 0;
    arrow_made *m = begin(s, dense ? "+ud:0,5" : "+us:0,5", least, dense ? 2 : 1);
    uint8_t *ids = (uint8_t *)take_bytes(s, elements(m), elements(m));
    for (size_t i = 0; i < elements(m); i++) {
        if (ids[i] < 0xF0) ids[i] = ids[i] % 2 == 0 ? 0 : 5;
    }
    m->array.null_count = 0;
    arrow_set(m, 0, ids, elements(m));
    if (dense) set_offsets(s, m, 1, 4, false);
    arrow_add(m, make_type(s, depth + 1, (int64_t)elements(m)));
    return arrow_add(m, make_type(s, depth + 1, (int64_t)elements(m)));
}

static arrow_made *make_runs(source *s, unsigned depth, int64_t least) {
    arrow_made *m = begin(s, "+r", least, 0);
    int32_t at = 0, values[LENGTH];
    m->array.null_count = 0;
    for (unsigned i = 0; i < LENGTH; i++) {
        const unsigned step = take(s);
        at += step == 255 ? -1 : 1 + (int32_t)(step % 7);
        values[i] = at;
    }
    arrow_made *ends = arrow_ints("run_ends", values, LENGTH);
    arrow_add(m, ends);
    return arrow_add(m, make_type(s, depth + 1, LENGTH));
}

static arrow_made *make_coded(source *s, unsigned choice, unsigned depth, int64_t least) {
    static const char *const formats[] = {"c", "S", "i", "L"};
    arrow_made *m = add_validity(s, begin(s, formats[choice % 4], least, 2));
    uint8_t *indices = (uint8_t *)arrow_keep(calloc(elements(m) + 1, 8));
    const unsigned width = 1u << choice % 4;
    for (size_t i = 0; i < elements(m); i++) indices[i * width] = (uint8_t)take(s) % (LENGTH + 1);
    arrow_set(m, 1, indices, elements(m) * width);
    return arrow_set_dictionary(m, make_type(s, depth + 1, LENGTH));
}

/* Makes an array of max(`least`, 0) values after its offset. */
static arrow_made *make_type(source *s, unsigned depth, int64_t least) {
    const unsigned choice = take(s), kind = depth < NEST && s->n_types < MAX_TYPES ? choice % 12 : choice % 5;
    s->n_types++;
    if (least < 0) least = 0;
    switch (kind) {
    case 0:
    case 1:
    case 2: {
        const unsigned which = take(s) % N_PLAIN;
        arrow_made *m = add_validity(s, begin(s, PLAIN[which].format, least, 2));
        set_buffer(s, m, 1, (elements(m) * PLAIN[which].bits + 7) / 8);
        return m;
    }
    case 3: return make_text(s, choice / 12, least);
    case 4: return choice % 3 == 0 ? begin(s, "n", least, 0) : make_views(s, choice / 12, least);
    case 5:
    case 6: return make_list(s, choice / 12, depth, least);
    case 7: return make_union(s, choice / 12, depth, least);
    case 8: return make_runs(s, depth, least);
    case 9: return make_coded(s, choice / 12, depth, least);
    default: return make_struct(s, choice / 12, depth, least);
    }
}

/* ---- Importing ---- */

/* Every zone is one hour ahead of UTC. An answer covers two days. */
static rs_status find_zone(void *context, rs_slice zone, int64_t utc_s, rs_buffer *out, rs_error *err) {
    const rs_zone_span span = {utc_s - utc_s % 86400 - 86400, utc_s - utc_s % 86400 + 86400, 3600, 0};
    (void)context, (void)zone;
    return rs_buffer_append(out, &span, sizeof span, err);
}

static void import(const arrow_made *m, unsigned choice) {
    const rs_arrow_options options = {
        (choice & 1) != 0, (rs_arrow_nanoseconds)(choice / 2 % 3), NULL, 0, find_zone, NULL};
    rs_arrow_in in = {0};
    rs_parcel parcel = {0};
    uint64_t at = 0;
    if (rs_arrow_in_open(&in, &m->schema, &options, NULL) == RS_OK) {
        if (rs_arrow_in_bind(&in, &m->array, NULL) == RS_OK) {
            fuzz_any(rs_arrow_in_append_parcel(&in, &parcel, UINT64_MAX, FUZZ_BYTES, NULL));
        }
        /* Rows before an invalid one are complete, and each is a valid any value. */
        for (uint64_t i = 0; i < rs_parcel_n_records(&parcel); i++) {
            const uint64_t end = rs_load_u64(parcel.ends.data + 8 * i);
            rs_budget budget = {.values = UINT64_MAX, .bytes = UINT64_MAX, .depth = 1000};
            rs_slice row = rs_slice_of(parcel.raw.data + at, (size_t)(end - at));
            FUZZ_MUST(rs_any_skip(&row, parcel.arrays.size_bytes, &budget, NULL) == RS_OK && row.ptr == row.end);
            at = end;
        }
        rs_arrow_in_close(&in);
    }
    rs_parcel_clear(&parcel);
}

/* Breaks at most one field that a producer may get wrong. */
static void break_array(source *s, arrow_made *m) {
    switch (take(s) % 12) {
    case 0: m->array.length = -1; break;
    case 1: /* not for views: any number from three up is valid, and the last buffer has the sizes */
        if (m->buffers[4] == NULL) m->array.n_buffers += (int64_t)(take(s) % 3) - 1;
        break;
    case 2: m->array.null_count = (int64_t)fuzz_take_number(&s->in, 8); break;
    case 3: m->array.offset = -(int64_t)take(s); break;
    case 4: m->array.length = INT64_MAX - (int64_t)take(s); break;
    case 5: m->array.n_children -= m->array.n_children > 0; break;
    case 6: m->array.buffers = NULL; break;
    case 7: m->buffers[1] = NULL; break;
    default: break;
    }
}

/* Compiles a type whose format is any text. Its rows are not imported, because its buffers are unknown. */
static void compile_text(source *s) {
    const rs_arrow_options options = {false, RS_ARROW_NANOSECONDS_EXACT, NULL, 0, find_zone, NULL};
    arrow_made *m =
        arrow_make((const char *)take_bytes(s, FORMAT, FORMAT), (const char *)take_bytes(s, FORMAT, FORMAT), 0, 0);
    rs_arrow_in in = {0};
    if (take(s) % 2 == 0) arrow_add(m, make_type(s, NEST, 0));
    if (take(s) % 4 == 0) arrow_set_dictionary(m, make_type(s, NEST, 0));
    if (rs_arrow_in_open(&in, &m->schema, &options, NULL) == RS_OK) rs_arrow_in_close(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    source s = {{NULL, NULL}, 0};
    if (size > 4096) return 0;
    s.in = rs_slice_of(data, size);
    unsigned choice = take(&s);
    if (choice % 16 == 0) {
        compile_text(&s);
    } else {
        arrow_made *m = choice % 4 == 1 ? make_type(&s, 0, take(&s) % LENGTH)
                                        : make_struct(&s, 2 + choice / 16 % 3, 0, take(&s) % LENGTH);
        if (choice % 8 == 7) break_array(&s, m);
        import(m, choice / 16);
    }
    arrow_drop();
    return 0;
}

FUZZ_PLAIN
