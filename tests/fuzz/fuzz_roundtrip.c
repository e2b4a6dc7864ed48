/* fuzz_roundtrip.c: reads any bytes as a stream of values, writes them as records or pairs, checks the store, and
 * compares its records byte for byte. */
#include "readers.h"
#include "rs_raw.h"

enum { RECORDS = 300, NEST = 5, ELEMENTS = 9, SHAPES = 4 };

/* Two sources of choices: `shape` has the types of values, and is read again for similar records; `in` has the
 * values. */
typedef struct stream {
    rs_slice in, shape;
    uint8_t last_past_end; /* the last byte returned after the end of `in` */
    rs_buffer raw;
    uint64_t ends[RECORDS];
    size_t n;
} stream;

static void put_value(stream *s, unsigned depth);

static unsigned choose(stream *s) { return fuzz_take(&s->shape); }

/* After the end of the input the bytes ascend, so that short inputs have different values too. */
static unsigned value(stream *s) { return s->in.ptr != s->in.end ? *s->in.ptr++ : (s->last_past_end += 5); }

static uint64_t number_of(stream *s, unsigned n_bytes) {
    uint64_t number = 0;
    for (unsigned i = 0; i < n_bytes; i++) number |= (uint64_t)value(s) << (8 * i);
    return number;
}

static void put(stream *s, const void *bytes, size_t n) { make_bytes(&s->raw, bytes, n); }

/* Text in units of one byte: from the input, with a number, or one of a few words. */
static void put_text(stream *s) {
    static const char *const words[] = {"", "cat", "train2017/", "image_", ".jpg", "a longer piece of text"};
    const unsigned choice = choose(s);
    char text[96] = "";
    size_t n = 0;
    if (choice % 4 == 0) {
        for (n = 0; n < choice / 4 % 60; n++) text[n] = (char)value(s);
        make_tag(&s->raw, RS_FMT_TAG_STR1), make_varint(&s->raw, n), put(s, text, n);
    } else if (choice % 4 == 1) {
        make_str(&s->raw, words[choice / 4 % 6]);
    } else {
        (void)snprintf(text, sizeof text, choice % 8 == 2 ? "%s%08u%s" : "%s%x%s", words[choice / 8 % 6],
                       (unsigned)number_of(s, 3), words[choice / 16 % 6]);
        make_str(&s->raw, text);
    }
}

/* Text in wide units. As in Python's str, at least one unit needs the width. */
static void put_wide(stream *s, unsigned unit_bytes) {
    const unsigned n = 1 + value(s) % 20;
    make_tag(&s->raw, unit_bytes == 2 ? RS_FMT_TAG_STR2 : RS_FMT_TAG_STR4), make_varint(&s->raw, n);
    for (unsigned i = 0; i < n; i++) {
        uint32_t unit = (uint32_t)number_of(s, unit_bytes);
        if (unit_bytes == 4) unit %= 0x110000;
        if (i == 0 && unit_bytes == 2 && unit < 0x100) unit += 0x4E00;
        if (i == 0 && unit_bytes == 4 && unit < 0x10000) unit += 0x10000;
        put(s, &unit, unit_bytes);
    }
}

static void put_array(stream *s) {
    const unsigned n = value(s) % 30;
    const uint8_t head[] = {RS_FMT_TAG_NDARRAY, 0, 3, 1};
    put(s, head, sizeof head), make_varint(&s->raw, n);
    for (unsigned i = 0; i < 2 * n; i++) make_tag(&s->raw, value(s));
}

static void put_float(stream *s, unsigned choice) {
    double number;
    uint64_t bits;
    if (choice % 3 == 0) number = (double)(int32_t)number_of(s, 4) / 100;
    else if (choice % 3 == 1) number = (double)(int16_t)number_of(s, 2);
    else bits = number_of(s, 8), memcpy(&number, &bits, 8);
    make_float(&s->raw, number);
}

static void put_numbers(stream *s, unsigned choice) {
    const unsigned n = value(s) % 40;
    int64_t number = (int16_t)number_of(s, 2);
    make_head(&s->raw, (choice & 1) != 0 ? RS_FMT_TAG_TUPLE : RS_FMT_TAG_LIST, n);
    for (unsigned i = 0; i < n; i++) {
        number += (int8_t)value(s);
        if ((choice & 2) != 0) make_float(&s->raw, (double)number / 10);
        else make_int(&s->raw, number);
    }
}

/* A dict with distinct keys, from one of a few sets, as in records, or chosen by the input. */
static void put_dict(stream *s, unsigned depth) {
    const unsigned choice = choose(s), n = choice % (ELEMENTS + 1);
    make_head(&s->raw, RS_FMT_TAG_DICT, n);
    for (unsigned i = 0; i < n; i++) {
        char key[16];
        if (choice / 16 % 4 == 3) {
            make_int(&s->raw, (int64_t)(i * 1000 + value(s)));
        } else {
            (void)snprintf(key, sizeof key, "%c%u", (int)('a' + i), choice / 16 % 4 == 2 ? value(s) : 0);
            make_str(&s->raw, key);
        }
        put_value(s, depth + 1);
    }
}

static void put_ext(stream *s) {
    switch (choose(s) % 4) {
    case 0: make_ext(&s->raw, RS_FMT_EXT_DATE, NULL), make_int(&s->raw, 1 + (int64_t)number_of(s, 2)); break;
    case 1: make_ext(&s->raw, RS_FMT_EXT_TIMEDELTA, NULL), make_int(&s->raw, (int32_t)number_of(s, 4)); break;
    case 2:
        make_ext(&s->raw, RS_FMT_EXT_NAMEDTUPLE, "Point");
        make_head(&s->raw, RS_FMT_TAG_TUPLE, 1), make_int(&s->raw, value(s));
        break;
    default: make_ext(&s->raw, RS_FMT_EXT_DECIMAL, NULL), make_str(&s->raw, "1.5"); break;
    }
}

static void put_value(stream *s, unsigned depth) {
    const unsigned choice = choose(s);
    unsigned n;
    switch (choice % (depth < NEST ? 16u : 12u)) {
    case 0: make_tag(&s->raw, choice / 16 % 3); break;
    case 1: make_int(&s->raw, (int8_t)value(s)); break;
    case 2: make_int(&s->raw, (int64_t)number_of(s, 8)); break;
    case 3: make_int(&s->raw, (int64_t)(s->n * (choice / 16)) + value(s) % 3); break;
    case 4: put_float(s, choice / 16); break;
    case 5:
    case 6: put_text(s); break;
    case 7: put_wide(s, (choice & 16) != 0 ? 2 : 4); break;
    case 8:
        n = value(s) % 40;
        make_head(&s->raw, RS_FMT_TAG_BYTES, n);
        for (unsigned i = 0; i < n; i++) make_tag(&s->raw, value(s));
        break;
    case 9: put_array(s); break;
    case 10: put_ext(s); break;
    case 11: put_numbers(s, choice / 16); break;
    case 12:
        n = choose(s) % ELEMENTS;
        make_head(&s->raw, (choice & 16) != 0 ? RS_FMT_TAG_TUPLE : RS_FMT_TAG_LIST, n);
        for (unsigned i = 0; i < n; i++) put_value(s, depth + 1);
        break;
    default: put_dict(s, depth); break;
    }
}

/* Puts records: most have one of a few shapes, as the planner expects. */
static void put_records(stream *s, rs_slice in) {
    const unsigned n = 1 + (unsigned)fuzz_take_number(&in, 2) % RECORDS, n_shapes = 1 + fuzz_take(&in) % SHAPES;
    const size_t size = rs_slice_left(&in) / (SHAPES + 1);
    s->last_past_end = 0;
    s->in = rs_slice_of(in.ptr + SHAPES * size, rs_slice_left(&in) - SHAPES * size);
    for (s->n = 0; s->n < n; s->n++) {
        const unsigned choice = value(s);
        s->shape = rs_slice_of(in.ptr + (choice % 16 == 15 ? choice : choice % n_shapes * size) % (size + 1), size);
        put_value(s, 0);
        s->ends[s->n] = s->raw.size_bytes;
    }
}

static rs_slice record_of(const stream *s, uint64_t i) {
    const uint64_t begin = i == 0 ? 0 : s->ends[i - 1];
    return rs_slice_of(s->raw.data + begin, (size_t)(s->ends[i] - begin));
}

static void append(rs_builder *builder, rs_slice record) {
    FUZZ_MUST(rs_buffer_append(&builder->raw, record.ptr, rs_slice_left(&record), NULL) == RS_OK);
}

/* ---- Building and reading back ---- */

static void build_list(const stream *s, rs_segment_writer *writer, const rs_choices *choices) {
    rs_builder builder;
    FUZZ_MUST(rs_builder_open(&builder, writer, choices, NULL) == RS_OK);
    for (uint64_t i = 0; i < s->n; i++) {
        append(&builder, record_of(s, i));
        FUZZ_MUST(rs_builder_end_record(&builder, NULL) == RS_OK);
        /* Blocks of one group of records, then of two, so that a few records make several blocks. */
        if (i % 64 == 63 && (i / 64) % 2 == 0) FUZZ_MUST(rs_builder_flush(&builder, NULL) == RS_OK);
    }
    FUZZ_MUST(rs_builder_finish(&builder, NULL) == RS_OK);
    rs_builder_close(&builder);
}

/* Builds a mapping from numbers to the records. */
static void build_mapping(const stream *s, rs_segment_writer *writer, const rs_choices *choices) {
    rs_mapping_builder builder;
    rs_buffer table = {0};
    uint64_t hashes[RECORDS];
    FUZZ_MUST(rs_mapping_builder_open(&builder, writer, choices, NULL) == RS_OK);
    for (uint64_t i = 0; i < s->n; i++) {
        make_int(&builder.keys.raw, (int64_t)(i * 3));
        append(&builder.values, record_of(s, i));
        FUZZ_MUST(rs_mapping_builder_end_pair(&builder, NULL) == RS_OK);
        hashes[i] = rs_keys_hash_int(s->n, (int64_t)(i * 3));
    }
    FUZZ_MUST(rs_mapping_builder_write_tables(&builder, NULL) == RS_OK);
    FUZZ_MUST(rs_keys_build(hashes, NULL, s->n, s->n, 0, &table, NULL) == RS_OK);
    FUZZ_MUST(rs_mapping_builder_finish(&builder, &table, NULL, s->n, NULL) == RS_OK);
    rs_buffer_clear(&table);
    rs_mapping_builder_close(&builder);
}

static void check_record(rs_store *store, const stream *s, uint64_t i, rs_buffer *raw) {
    const rs_slice wanted = record_of(s, i);
    FUZZ_MUST(raw_record(store, i, raw, NULL) == RS_OK);
    FUZZ_MUST(raw->size_bytes == rs_slice_left(&wanted) && memcmp(raw->data, wanted.ptr, raw->size_bytes) == 0);
}

static void check_mapping(rs_store *store, const stream *s) {
    rs_mapping mapping;
    uint64_t entry;
    FUZZ_MUST(rs_mapping_open(&mapping, store, NULL) == RS_OK && mapping.n_entries == s->n);
    for (uint64_t i = 0; i < s->n; i++) {
        rs_key_probe probe = rs_key_probe_begin(&mapping.index, rs_keys_hash_int(s->n, (int64_t)(i * 3)));
        do FUZZ_MUST(rs_key_probe_next(&mapping.index, &probe, &entry, NULL) == RS_OK && entry != RS_NOWHERE);
        while (entry != i);
        FUZZ_MUST(rs_store_key_equals_int(&mapping.keys, i, (int64_t)(i * 3)) == RS_KEY_EQUAL);
    }
    rs_mapping_close(&mapping);
}

static void check(rs_slice bytes, const stream *s, bool mapping, uint64_t seed) {
    rs_store store;
    rs_buffer raw = {0};
    FUZZ_MUST(rs_verify_segment(bytes, NULL, NULL, NULL) == RS_OK);
    FUZZ_MUST(rs_store_open(&store, bytes, NULL, NULL) == RS_OK && store.header.n_records == s->n);
    for (uint64_t i = 0; i < s->n; i++) check_record(&store, s, i, &raw);
    if (mapping) check_mapping(&store, s);
    rs_buffer_clear(&raw);
    fuzz_read_columns(&store, seed);
    fuzz_read_gathers(&store, seed);
    fuzz_read_arrow(&store, seed);
    rs_store_close(&store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rs_slice in = rs_slice_of(data, size);
    static stream s;
    rs_segment_writer writer;
    rs_segment segment;
    if (size > FUZZ_INPUT) return 0;
    unsigned choice = fuzz_take(&in);
    rs_choices choices = rs_choices_of((rs_level)(choice & 3));
    put_records(&s, in);
    FUZZ_MUST(rs_segment_writer_open(&writer, RS_BACKING_ANONYMOUS, NULL, NULL, NULL) == RS_OK);
    if ((choice & 4) != 0) build_mapping(&s, &writer, &choices);
    else build_list(&s, &writer, &choices);
    FUZZ_MUST(rs_segment_writer_finish(&writer, &segment, NULL) == RS_OK);
    check(rs_slice_of(segment.data, (size_t)segment.size_bytes), &s, (choice & 4) != 0, fuzz_seed(data, size));
    rs_segment_close(&segment);
    rs_segment_writer_abort(&writer);
    rs_buffer_clear(&s.raw);
    return 0;
}

FUZZ_PLAIN
