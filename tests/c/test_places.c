/* test_places.c: sections of placed nodes: round trips in one or more parts; no read of a damaged section leaves it. */
#include "format/rs_places.h"
#include "rs_make.h"
#include "rs_test.h"
#include "write/rs_encode_placed.h"

static rs_error err;

/* Compiles a tree of n nodes, each given as kind, param, number of children and first child. Ints have the base 0. */
static rs_tree tree_of(const uint8_t (*kinds)[4], unsigned n) {
    uint8_t bytes[8 + 8 * 24 + 8] = {(uint8_t)n, 0, 0, 0, 8};
    rs_tree tree;
    for (unsigned i = 0; i < n; i++) {
        uint8_t *node = bytes + 8 + 24 * i;
        node[0] = kinds[i][0], node[1] = kinds[i][1], node[4] = kinds[i][2], node[8] = kinds[i][3];
        if (kinds[i][0] == INT) node[16] = 8;
    }
    if (rs_tree_compile(rs_slice_of(bytes, 8 + 24 * n + 8), 0, &tree, &err) != RS_OK) abort();
    return tree;
}

/* A tuple of a rising int, runs of a 5-bit int, and exceptions of a 7-bit int and `any`. */
static rs_tree tree_of_three(void) {
    static const uint8_t kinds[][4] = {{TUPLE, 0, 3, 1}, {RISING, 0, 1, 4}, {RUNS, 0, 1, 5}, {EXCEPTIONS, 0, 2, 6},
                                       {INT, 0, 0, 0},   {INT, 5, 0, 0},    {INT, 7, 0, 0},  {ANY, 0, 0, 0}};
    return tree_of(kinds, 8);
}

/* The values of the records, and the places made from them. */
static struct {
    uint32_t n;
    uint64_t numbers[RS_FMT_BLOCK_RECORDS];
    uint8_t runs[RS_FMT_BLOCK_RECORDS];
    uint8_t odd[RS_FMT_BLOCK_RECORDS]; /* the size of an exception; 0 for a usual value */
    rs_buffer places;
} made;

static void put(rs_places_part *part, const rs_tree *tree, uint32_t j, bool first) {
    const rs_node *kids = tree->nodes[0].children;
    part->local = j;
    CHECK_OK(rs_places_put_number(part, &kids[0], made.numbers[j], &err), &err);
    if (first || made.runs[j] != made.runs[j - 1]) {
        CHECK_OK(rs_buffer_append(&part->nodes[1].values, &made.runs[j], 1, &err), &err);
        CHECK_OK(rs_places_end_value(part, &kids[1], &err), &err);
    }
    if (made.odd[j] != 0) {
        CHECK_OK(rs_buffer_append(&part->nodes[2].values, "abcdefgh", made.odd[j], &err), &err);
        CHECK_OK(rs_places_end_value(part, &kids[2], &err), &err);
    }
}

static void write_places(const rs_tree *tree, unsigned n_parts) {
    rs_places_part parts[3];
    uint32_t j, k, end;
    memset(parts, 0, sizeof parts);
    for (k = 0, j = 0; k < n_parts; k++) {
        CHECK_OK(rs_places_part_begin(&parts[k], tree, &err), &err);
        end = k + 1 == n_parts ? made.n : made.n / n_parts * (k + 1);
        for (; j < end; j++) put(&parts[k], tree, j, j == 0 || j == made.n / n_parts * k);
    }
    made.places.size_bytes = 0;
    CHECK_OK(rs_places_write(parts, n_parts, tree, made.n, &made.places, &err), &err);
    for (k = 0; k < n_parts; k++) rs_places_part_clear(&parts[k]);
}

static rs_block block_of(void) {
    rs_block block = {0};
    block.n_records = made.n;
    block.heap_size_bytes = block.places_size_bytes = made.places.size_bytes;
    return block;
}

/* Writes the places of `part`, clears it, and opens a copy of exactly their size. The caller frees both results. */
static bool open_part(rs_places_part *part, const rs_tree *tree, uint8_t **bytes, rs_placed **placed) {
    made.places.size_bytes = 0;
    if (!CHECK_OK(rs_places_write(part, 1, tree, made.n, &made.places, &err), &err)) return false;
    rs_places_part_clear(part);
    rs_block block = block_of();
    *bytes = make_exact(made.places.data, made.places.size_bytes);
    return CHECK_OK(rs_places_open(*bytes, &block, tree, placed, &err), &err);
}

static void check_all(const rs_tree *tree) {
    rs_block block = block_of();
    rs_placed *placed;
    uint64_t number = 0, size = 0;
    const uint8_t *run = NULL;
    rs_slice odd = {NULL, NULL};
    bool is_odd = false, same = true;
    REQUIRE_OK(rs_places_open(made.places.data, &block, tree, &placed, &err), &err);
    for (uint32_t j = 0; j < made.n; j++) {
        CHECK_OK(rs_placed_number(&placed[0], j, &number, &err), &err);
        same = same && number == made.numbers[j];
        CHECK_OK(rs_placed_run(&placed[1], &tree->nodes[2], j, &run, &err), &err);
        same = same && run != NULL && *run == made.runs[j];
        CHECK_OK(rs_placed_exception(&placed[2], j, &is_odd, &odd, &err), &err);
        same = same && is_odd == (made.odd[j] != 0) && (!is_odd || rs_slice_left(&odd) == made.odd[j]);
    }
    CHECK(same);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_OK(rs_placed_check(&placed[i], &tree->nodes[1 + i], &err), &err);
        size += rs_placed_size(&placed[i], &tree->nodes[1 + i]);
    }
    for (uint32_t j = 0; j < made.n; j++) size += made.odd[j];
    CHECK_U64(size, made.places.size_bytes);
    free(placed);
}

/* Fills `made` for n records. `kind` selects the numbers. About one record in `rare` begins a run, and
 * about one is an exception. */
static void fill(uint32_t n, unsigned kind, uint32_t rare) {
    uint64_t number = make_random(UINT64_MAX);
    made.n = n;
    for (uint32_t j = 0; j < n; j++) {
        switch (kind) {
        case 0: number += 3; break;
        case 1: number -= 1000 - make_random(5); break;
        case 2: number += make_random(100) * make_random(100); break;
        case 3: number += j % 777 == 776 ? UINT64_C(1) << 40 : 1; break;
        case 4: number = make_random(UINT64_MAX); break;
        default: number = 5; break;
        }
        made.numbers[j] = number;
        made.runs[j] = j > 0 && make_random(rare) != 0 ? made.runs[j - 1] : (uint8_t)make_random(32);
        made.odd[j] = make_random(rare) == 0 ? (uint8_t)(1 + make_random(8)) : 0;
    }
}

TEST(test_round_trip) {
    static const uint32_t counts[] = {1, 2, 63, 64, 65, 128, 255, 256, 257, 1000, 65535, 65536};
    rs_tree tree = tree_of_three();
    EACH (i, counts) {
        for (unsigned kind = 0; kind < 6; kind++) {
            if (counts[i] > 1000 && kind > 3) continue;
            fill(counts[i], kind, kind % 3 == 0 ? 1000 : kind % 3 == 1 ? 20 : 3);
            for (unsigned parts = 1; parts <= 3; parts++) {
                write_places(&tree, parts);
                check_all(&tree);
            }
        }
    }
    rs_tree_clear(&tree);
}

/* The same values give the same bytes in any number of parts. Numbers on a line take no bits. */
TEST(test_bytes) {
    rs_tree tree = tree_of_three();
    rs_buffer one = {0};
    fill(5000, 2, 30);
    write_places(&tree, 1);
    CHECK_OK(rs_buffer_append(&one, made.places.data, made.places.size_bytes, &err), &err);
    write_places(&tree, 3);
    CHECK(one.size_bytes == made.places.size_bytes && memcmp(one.data, made.places.data, one.size_bytes) == 0);
    fill(65536, 0, 65536);
    memset(made.runs, 1, made.n), memset(made.odd, 0, made.n);
    write_places(&tree, 1);
    CHECK_U64(made.places.size_bytes, 12 + 24 + (8 + 512 + 1) + (8 + 512));
    rs_buffer_clear(&one);
    rs_tree_clear(&tree);
}

/* Reads every record, and ignores errors. */
static void read_all(const rs_placed *placed, const rs_tree *tree) {
    uint64_t number = 0, sum = 0;
    const uint8_t *run = NULL;
    rs_slice odd = {NULL, NULL};
    bool is_odd = false;
    for (uint32_t j = 0; j < made.n; j++) {
        if (rs_placed_number(&placed[0], j, &number, NULL) == RS_OK) sum += number;
        if (rs_placed_run(&placed[1], &tree->nodes[2], j, &run, NULL) == RS_OK) sum += *run;
        if (rs_placed_exception(&placed[2], j, &is_odd, &odd, NULL) == RS_OK && is_odd && odd.ptr != odd.end) {
            sum += odd.end[-1];
        }
    }
    CHECK(sum != 1);
}

TEST(test_damaged) {
    rs_tree tree = tree_of_three();
    rs_placed *placed;
    for (uint32_t round = 0; round < 400; round++) {
        fill(200 + (uint32_t)make_random(400), round % 6, round % 2 == 0 ? 3 : 50);
        write_places(&tree, 1);
        rs_block block = block_of();
        if (round % 4 == 0) block.heap_size_bytes = block.places_size_bytes = make_random(made.places.size_bytes);
        /* Exact, for the sanitizer. */
        uint8_t *copy = (uint8_t *)malloc(block.heap_size_bytes + (block.heap_size_bytes == 0));
        REQUIRE(copy != NULL);
        memcpy(copy, made.places.data, block.heap_size_bytes);
        for (uint32_t k = 0; k < round % 7 && block.heap_size_bytes > 0; k++) {
            copy[make_random(k % 2 == 0 && block.heap_size_bytes > 100 ? 100 : block.heap_size_bytes)] =
                (uint8_t)make_random(256);
        }
        if (rs_places_open(copy, &block, &tree, &placed, &err) == RS_OK) {
            read_all(placed, &tree);
            memcpy(copy, made.places.data, block.heap_size_bytes); /* bytes change after the heads were read */
            for (uint32_t k = 12; k < block.heap_size_bytes; k++) copy[k] = (uint8_t)make_random(256);
            read_all(placed, &tree);
            CHECK(rs_placed_check(&placed[1], &tree.nodes[2], &err) <= RS_E_FMT_KEYS);
            free(placed);
        }
        free(copy);
    }
    rs_tree_clear(&tree);
}

/* A tuple of one rising int. */
static rs_tree tree_of_rising(void) {
    static const uint8_t kinds[][4] = {{TUPLE, 0, 1, 1}, {RISING, 0, 1, 2}, {INT, 0, 0, 0}};
    return tree_of(kinds, 3);
}

/* The last residual ends with the places, and no byte after it is read. */
TEST(test_rising_at_the_end) {
    rs_tree tree = tree_of_rising();
    unsigned forms = 0;
    for (unsigned i = 0; i < 40; i++) {
        rs_places_part part = {0};
        rs_placed *placed;
        uint64_t number = 0;
        uint8_t *exact;
        uint32_t wrong = 0;
        fill(128, 1 + i % 2, 20);
        REQUIRE_OK(rs_places_part_begin(&part, &tree, &err), &err);
        for (uint32_t j = 0; j < made.n; j++) {
            part.local = j;
            CHECK_OK(rs_places_put_number(&part, &tree.nodes[1], made.numbers[j], &err), &err);
        }
        REQUIRE(open_part(&part, &tree, &exact, &placed));
        for (uint32_t j = 0; j < made.n; j++) {
            wrong += rs_placed_number(&placed[0], j, &number, &err) != RS_OK || number != made.numbers[j];
        }
        CHECK_U64(wrong, 0);
        CHECK(placed[0].data < placed[0].end);
        forms |= 1u << placed[0].form;
        free(placed);
        free(exact);
    }
    CHECK(forms == (1u << RS_FMT_RISING_LINE | 1u << RS_FMT_RISING_CORNERS));
    rs_tree_clear(&tree);
}

/* Residuals between corners have at most 64 bits, end within the places, and do not end before they begin. */
TEST(test_starts_of_residuals) {
    static const struct {
        uint16_t begin, end;
        rs_status code;
    } cases[] = {{0, 64, RS_OK},          {2, 66, RS_OK},          {66, 66, RS_OK},        {0, 65, RS_E_FMT_VALUE},
                 {0, 66, RS_E_FMT_VALUE}, {2, 67, RS_E_FMT_VALUE}, {2, 1, RS_E_FMT_VALUE}, {67, 67, RS_E_FMT_VALUE}};
    enum { STARTS = 4 + RS_FMT_RISING_HEAD_SIZE };
    rs_tree tree = tree_of_rising();
    EACH (i, cases) {
        uint8_t bytes[STARTS + 4 + 8 * 66] = {4};
        rs_placed *placed;
        uint64_t number = 0;
        rs_block block = {0};
        bytes[4 + RS_FMT_R_FORM] = RS_FMT_RISING_CORNERS;
        rs_store_u16(bytes + STARTS, cases[i].begin), rs_store_u16(bytes + STARTS + 2, cases[i].end);
        memset(bytes + STARTS + 4, 0xFF, sizeof bytes - STARTS - 4);
        block.n_records = 64;
        block.heap_size_bytes = block.places_size_bytes = sizeof bytes;
        uint8_t *exact = make_exact(bytes, sizeof bytes);
        REQUIRE_OK(rs_places_open(exact, &block, &tree, &placed, &err), &err);
        for (uint32_t j = 0; j < 64; j++) {
            if (!CHECK_CODE(rs_placed_number(&placed[0], j, &number, &err), cases[i].code, &err)) break;
            if (cases[i].code == RS_OK) CHECK_U64(number, cases[i].end == cases[i].begin ? 0 : INT64_MAX);
        }
        free(placed);
        free(exact);
    }
    rs_tree_clear(&tree);
}

TEST(test_heads) {
    static const struct {
        unsigned section, at;
        uint8_t value;
        rs_status code;
    } cases[] = {
        {0, 16, 48, RS_E_FMT_BLOCK},   {0, 17, 2, RS_E_FMT_BLOCK},    {0, 18, 65, RS_E_FMT_BLOCK},
        {0, 19, 1, RS_E_FMT_RESERVED}, {0, 23, 1, RS_E_FMT_RESERVED}, {1, 4, 2, RS_E_FMT_BLOCK},
        {1, 5, 1, RS_E_FMT_RESERVED},  {1, 7, 1, RS_E_FMT_RESERVED},  {1, 2, 1, RS_E_FMT_BLOCK},
        {2, 1, 255, RS_E_FMT_BLOCK},   {2, 5, 1, RS_E_FMT_RESERVED},
    };
    rs_tree tree = tree_of_three();
    rs_placed *placed;
    EACH (i, cases) {
        fill(300, 2, 20);
        write_places(&tree, 1);
        rs_block block = block_of();
        made.places.data[rs_load_u32(made.places.data + 4 * cases[i].section) + cases[i].at] = cases[i].value;
        CHECK_CODE(rs_places_open(made.places.data, &block, &tree, &placed, &err), cases[i].code, &err);
    }
    fill(300, 2, 20);
    write_places(&tree, 1);
    {
        rs_block block = block_of();
        rs_store_u32(made.places.data + 4, (uint32_t)made.places.size_bytes + 1);
        CHECK_CODE(rs_places_open(made.places.data, &block, &tree, &placed, &err), RS_E_FMT_BLOCK, &err);
        block.places_size_bytes = 0;
        CHECK_CODE(rs_places_open(made.places.data, &block, &tree, &placed, &err), RS_E_FMT_BLOCK, &err);
    }
    rs_tree_clear(&tree);
}

/* Opens the places and runs the deep check of section `i`. */
static rs_status check_marks(const rs_tree *tree, unsigned i) {
    rs_block block = block_of();
    rs_placed *placed;
    rs_status status = rs_places_open(made.places.data, &block, tree, &placed, &err);
    if (status != RS_OK) return status;
    status = rs_placed_check(&placed[i], &tree->nodes[1 + i], &err);
    free(placed);
    return status;
}

/* The deep check finds any flipped bit in the bits and counts of form 1, and in form 0 a mark of a record after the
 * last. */
TEST(test_marks_deep) {
    rs_tree tree = tree_of_three();
    unsigned form, forms = 0;
    for (unsigned i = 0; i < 20; i++) {
        const unsigned section = 1 + i / 2 % 2;
        rs_placed *placed;
        fill(300, 2, i % 2 == 0 ? 3 : 50);
        made.odd[299] = 1, made.runs[299] = made.runs[298] ^ 1; /* the last record is marked */
        write_places(&tree, 1);
        rs_block block = block_of();
        REQUIRE_OK(rs_places_open(made.places.data, &block, &tree, &placed, &err), &err);
        form = placed[section].form;
        uint8_t *marks = made.places.data + (placed[section].marks - made.places.data);
        size_t size = (size_t)rs_marks_size(form, made.n, placed[section].n_marks);
        free(placed);
        forms |= 1u << form;
        CHECK_OK(check_marks(&tree, section), &err);
        if (form == RS_FMT_MARKS_LOW) {
            CHECK(marks[size - 1] == 299 - RS_FMT_MARKS_LOW_RECORDS);
            marks[size - 1]++; /* record 300, of 300 */
            CHECK_CODE(check_marks(&tree, section), RS_E_FMT_BLOCK, &err);
            continue;
        }
        for (size_t k = 0; k < 8 * size; k++) {
            marks[k / 8] ^= (uint8_t)(1u << k % 8);
            if (!CHECK(check_marks(&tree, section) != RS_OK)) (void)fprintf(stderr, "    bit %u\n", (unsigned)k);
            marks[k / 8] ^= (uint8_t)(1u << k % 8);
        }
    }
    CHECK(forms == 3);
    rs_tree_clear(&tree);
}

/* In form 0, each part has the number of marks before it. A number above the number of all marks is refused. */
TEST(test_counts_of_marks) {
    static const uint32_t counts[] = {1, 256, 257, 300, 513};
    rs_tree tree = tree_of_three();
    unsigned section;
    for (unsigned i = 0; i < 2 * sizeof counts / sizeof counts[0]; i++) {
        rs_placed *placed;
        section = 1 + i % 2;
        fill(counts[i / 2], 2, 100);
        write_places(&tree, 1);
        rs_block block = block_of();
        REQUIRE_OK(rs_places_open(made.places.data, &block, &tree, &placed, &err), &err);
        CHECK(placed[section].form == RS_FMT_MARKS_LOW);
        uint8_t *marks = made.places.data + (placed[section].marks - made.places.data);
        uint32_t n_marks = placed[section].n_marks;
        free(placed);
        for (uint32_t part = 0; part * RS_FMT_MARKS_LOW_RECORDS < made.n; part++) {
            const uint16_t before = rs_load_u16(marks + 2 * (size_t)part);
            rs_store_u16(marks + 2 * (size_t)part, (uint16_t)(n_marks + 1));
            CHECK_CODE(check_marks(&tree, section), RS_E_FMT_VALUE, &err);
            rs_store_u16(marks + 2 * (size_t)part, before);
        }
        CHECK_OK(check_marks(&tree, section), &err);
    }
    rs_tree_clear(&tree);
}

/* If no record takes the alternative with a node of runs, the block has one run of zeros, as large as a value's bits
 * and body. */
TEST(test_runs_of_no_value) {
    static const uint8_t kinds[][4] = {
        {TUPLE, 0, 2, 1}, {RUNS, 0, 1, 3}, {RUNS, 0, 1, 4}, {FLOAT, 0, 0, 0}, {BOOL, 0, 0, 0}};
    const uint8_t *run = NULL;
    uint64_t size = 0;
    rs_places_part part = {0};
    rs_placed *placed;
    uint8_t *exact;
    rs_tree tree = tree_of(kinds, 5);
    REQUIRE_OK(rs_places_part_begin(&part, &tree, &err), &err);
    made.n = 100;
    REQUIRE(open_part(&part, &tree, &exact, &placed));
    for (unsigned i = 0; i < 2; i++) {
        CHECK_OK(rs_placed_check(&placed[i], &tree.nodes[1 + i], &err), &err);
        CHECK_OK(rs_placed_run(&placed[i], &tree.nodes[1 + i], made.n - 1, &run, &err), &err);
        CHECK_U64(rs_placed_size(&placed[i], &tree.nodes[1 + i]),
                  12 + rs_marks_size(placed[i].form, made.n, 0) + (i == 0 ? 8 : 1));
        CHECK(memcmp(run, "\0\0\0\0\0\0\0", i == 0 ? 8 : 1) == 0);
        size += rs_placed_size(&placed[i], &tree.nodes[1 + i]);
    }
    CHECK_U64(size, made.places.size_bytes);
    free(placed);
    free(exact);
    rs_tree_clear(&tree);
}

/* In runs of floats a value has a body. In runs of a union of floats and ints it also has bits before the body. */
TEST(test_runs_with_bodies) {
    static const uint8_t kinds[][4] = {{TUPLE, 0, 2, 1}, {RUNS, 0, 1, 3},  {RUNS, 0, 1, 4}, {FLOAT, 0, 0, 0},
                                       {UNION, 0, 2, 5}, {FLOAT, 0, 0, 0}, {INT, 64, 0, 0}};
    uint8_t value[9];
    rs_places_part part = {0};
    rs_placed *placed;
    uint8_t *exact;
    rs_tree tree = tree_of(kinds, 7);
    REQUIRE_OK(rs_places_part_begin(&part, &tree, &err), &err);
    made.n = 300;
    for (uint32_t j = 0; j < made.n; j += 30) {
        part.local = j;
        memset(value, (int)j / 30 + 1, sizeof value);
        for (unsigned i = 0; i < 2; i++) {
            CHECK_OK(rs_buffer_append(&part.nodes[i].values, value, 8 + i, &err), &err);
            CHECK_OK(rs_places_end_value(&part, &tree.nodes[1 + i], &err), &err);
        }
    }
    REQUIRE(open_part(&part, &tree, &exact, &placed));
    for (unsigned i = 0; i < 2; i++) {
        const uint8_t *run = NULL;
        CHECK_OK(rs_placed_check(&placed[i], &tree.nodes[1 + i], &err), &err);
        for (uint32_t j = 0; j < made.n; j++) {
            memset(value, (int)j / 30 + 1, sizeof value);
            CHECK_OK(rs_placed_run(&placed[i], &tree.nodes[1 + i], j, &run, &err), &err);
            if (!CHECK(memcmp(run, value, 8 + i) == 0)) break;
        }
    }
    free(placed);
    free(exact);
    rs_tree_clear(&tree);
}

/* Records without a value get numbers interpolated between neighbours; at either end, the nearest number. */
TEST(test_fill) {
    static const uint32_t locals[] = {2, 4, 7};
    static const uint64_t known[] = {10, 20, 50};
    static const uint64_t expected[] = {10, 10, 10, 15, 20, 30, 40, 50, 50};
    uint64_t numbers[9];
    rs_rising_fill(locals, known, 3, numbers, 9);
    CHECK(memcmp(numbers, expected, sizeof expected) == 0);
}
