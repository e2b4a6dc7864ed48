/* test_plan.c: the form that a position gets, on both sides of each decision. */
#include "rs_counted.h"
#include "format/rs_packed_ints.h"
#include "rs_describe.h"

static void say_plan(const rs_plan *d) {
    say_kind(d->kind);
    if (d->kind == RS_FMT_NODE_INT || d->kind == RS_FMT_NODE_DECIMAL) say("%u", d->param);
    if (d->kind == RS_FMT_NODE_DECIMAL && d->aux.ptr[9] != 0) say("~%u", d->aux.ptr[9]);
    if (d->kind == RS_FMT_NODE_NUMBERS) say("/%u", d->aux.ptr[10]);
    if (d->kind == RS_FMT_NODE_OPTIONAL && d->param == 0) say("-key");
    if ((d->flags & RS_FMT_FLAG_FIXED) != 0) say("*%u", d->count);
    if (d->n_children == 0) return;
    for (uint32_t i = 0; i < d->n_children; i++) say(i == 0 ? "(" : ", "), say_plan(d->children[i]);
    say(")");
}

static const char *planned(void) {
    rs_dictionaries dictionaries = {0};
    rs_plan *root = NULL;
    rs_status status = collect_stats();
    description_size = 0;
    if (status == RS_OK) status = rs_plan_choose(&stats, &dictionaries, 0, &root, &err);
    if (status == RS_OK) say_plan(root);
    else say("%s", rs_status_name(status));
    rs_dictionaries_clear(&dictionaries);
    clear_stats();
    return description;
}

/* ---- Numbers ---- */

/* Plans n distinct ints below 1,000, with `odd` in place of every step-th. n is at most 1,000. */
static const char *ints_with(int64_t odd, uint32_t n, uint32_t step) {
    for (uint32_t i = 0; i < n; i++) add_int(i % step == step - 1 ? odd : (int64_t)(i * 7919 % 1000));
    return planned();
}

TEST(test_ints) {
    CHECK_STR(ints_with(999, 900, 100), "int10");
    CHECK_STR(ints_with(INT64_C(1) << 60, 900, 100), "exceptions(int10, any)");
    CHECK_STR(ints_with(-(INT64_C(1) << 60), 900, 100), "exceptions(int10, any)");
    CHECK_STR(ints_with(INT64_C(1) << 60, 60, 20), "int64"); /* too few to divide */
    CHECK_STR(ints_with(4000, 900, 100), "int12");           /* not far enough */
}

TEST(test_decimals) {
    for (uint32_t i = 0; i < 900; i++) add_float((double)(i * 7919 % 1000) / 100);
    CHECK_STR(planned(), "decimal10");
    for (uint32_t i = 0; i < 900; i++)
        add_float(i % 10 == 9 ? 1.0 / (i + 3) : (double)(i * 7919 % 1000) / 100); /* one in ten is not a decimal */
    CHECK_STR(planned(), "union(decimal10, float)");
    for (uint32_t i = 0; i < 900; i++)
        add_float(i % 2 == 0 ? 1e300 / (i + 3) : (double)(i * 7919 % 1000) / 100); /* half are not decimals */
    CHECK_STR(planned(), "float");
    for (uint32_t i = 0; i < 900; i++) { /* each up to 3 units in the last place off */
        double value = (double)(i * 7919 % 1000 + 1) / 100;
        uint64_t bits;
        memcpy(&bits, &value, 8), bits += i % 4, memcpy(&value, &bits, 8);
        add_float(value);
    }
    CHECK_STR(planned(), "decimal13~3");
    for (uint32_t i = 0; i < 900; i++) add_float(4503599627370497.0 + 2 * i); /* odd integers above 2^52 */
    CHECK_STR(planned(), "rising(decimal0)");
    for (uint32_t i = 0; i < 900; i++) add_float(i % 300 == 7 ? -0.0 : (double)(i * 7919 % 1000) / 100);
    CHECK_STR(planned(), "exceptions(decimal10, float)");
}

static const char *lists(unsigned tag, unsigned stride, uint64_t n, bool same_count) {
    for (uint64_t i = 0; i < 60; i++) {
        uint64_t count = same_count ? n : n - i % 3;
        make_head(&block.raw, tag, count);
        for (uint64_t k = 0; k < count; k++) {
            int64_t value =
                stride == 0 ? (int64_t)make_random(50) : (int64_t)(k * 3 + k % stride * 999983 + i * i * 1009);
            make_int(&block.raw, value);
        }
        make_record_end(&block);
    }
    return planned();
}

TEST(test_strides) {
    char expected[16];
    for (unsigned stride = 1; stride <= 4; stride++) {
        (void)snprintf(expected, sizeof expected, "numbers/%u", stride);
        CHECK_STR(lists(0x0D, stride, 60, false), expected);
    }
    CHECK_STR(lists(0x0D, 1, 60, true), "numbers/1*60");
    CHECK_STR(lists(0x0E, 1, 80, true), "numbers/1*80");  /* a tuple too long for columns */
    CHECK_STR(lists(0x0D, 0, 40, true), "list*40(int6)"); /* no order in them: no deltas */
}

TEST(test_lists_of_floats) {
    for (uint64_t i = 0; i < 100; i++) { /* one list in twenty is noise */
        make_head(&block.raw, 0x0D, 8);
        for (uint64_t k = 0; k < 8; k++)
            make_float(&block.raw, i % 20 == 3 ? 1.0 / (double)(i + k + 3) : (double)(i * 1000 + k * 3) / 10);
        make_record_end(&block);
    }
    CHECK_STR(planned(), "union(numbers/1*8, list*8(float))");
    for (uint64_t i = 0; i < 100; i++) { /* one list has a scale at which the others would pass 2^53 */
        make_head(&block.raw, 0x0D, 8);
        for (uint64_t k = 0; k < 8; k++)
            make_float(&block.raw, i == 1 ? (double)(k + 1) / 1e12 : (double)(i * 10000000 + k * 3));
        make_record_end(&block);
    }
    CHECK_STR(planned(), "union(numbers/1*8, list*8(float))");
}

/* If the offsets of all lists take too much memory, none are used: the first ones would show only small numbers. */
TEST(test_missing_offsets) {
    for (uint32_t k = 0; k < 2; k++) {
        counted_kept_bytes = k == 0 ? 0 : 16 << 20; /* room only for the first offsets */
        for (uint32_t i = 0; i < 1000; i++) add_ints(0x0D, 3, i * 7919 % 1000 + (i > 64 ? INT64_C(1) << 40 : 0), 1);
        CHECK_STR(planned(), k == 0 ? "numbers/1*3" : "list*3(int64)");
    }
    counted_kept_bytes = 0;
}

/* ---- Texts and tables ---- */

TEST(test_texts) {
    char name[64];
    for (uint32_t i = 0; i < 900; i++) (void)snprintf(name, sizeof name, "img_%05u.jpg", i * 7 % 65536), add_text(name);
    CHECK_STR(planned(), "concat(const, digits, const)");
    for (uint32_t i = 0; i < 900; i++)
        (void)snprintf(name, sizeof name, i % 20 == 7 ? "other %u of them" : "img_%05u.jpg", i * 7 % 65536),
            add_text(name);
    (void)planned();
    CHECK(strncmp(description, "union(concat(const, digits, const), ", 36) == 0);
    for (uint32_t i = 0; i < 900; i++)
        (void)snprintf(name, sizeof name, "%016llx", (unsigned long long)i * 0x9E3779B97F4A7C15u), add_text(name);
    CHECK_STR(planned(), "hex");
    for (uint32_t i = 0; i < 900; i++) (void)snprintf(name, sizeof name, "word %u", i % 30), add_text(name);
    CHECK_STR(planned(), "dict");
    for (uint32_t i = 0; i < 900; i++) (void)snprintf(name, sizeof name, "%c", (int)('!' + i % 90)), add_text(name);
    CHECK_STR(planned(), "dict");
    for (uint32_t i = 0; i < 4; i++) (void)snprintf(name, sizeof name, "%u", i), add_text(name);
    CHECK_STR(planned(), "str"); /* a table costs more than it saves */
}

/* ---- Structs and unions ---- */

TEST(test_optional) {
    for (uint32_t i = 0; i < 200; i++) {
        make_head(&block.raw, 0x0F, 1 + i % 2);
        make_str(&block.raw, "a"), (i % 5 == 0 ? make_tag(&block.raw, 0) : make_int(&block.raw, i * 7 % 199));
        if (i % 2 != 0) make_str(&block.raw, "b"), make_int(&block.raw, i * 3 % 197);
        make_record_end(&block);
    }
    CHECK_STR(planned(), "struct(optional(int8), optional-key(int8))");
    for (uint32_t i = 0; i < 200; i++) (i % 2 == 0 ? add_tag(0) : add_int(i));
    CHECK_STR(planned(), "optional(int8)");
    for (uint32_t i = 0; i < 200; i++) (i % 3 == 0 ? add_tag(0) : i % 3 == 1 ? add_int(i) : add_tag(1 + i / 3 % 2));
    CHECK_STR(planned(), "union(const, int8, bool)");
    for (uint32_t i = 0; i < 200; i++) (i % 5 != 0 ? add_tag(0) : i % 2 == 0 ? add_int(i) : add_tag(1 + i / 10 % 2));
    CHECK_STR(planned(), "optional(union(int8, bool))");
}

/* ---- Choices ---- */

static const char *planned_without(uint64_t without) {
    choices.without = without;
    (void)planned();
    choices.without = 0;
    return description;
}

static void add_paths(void) {
    char name[32];
    for (uint32_t i = 0; i < 900; i++) {
        (void)snprintf(name, sizeof name, "img_%05u.jpg", i * 7919 % 65536), add_text(name);
    }
}

static void add_odd_ints(void) {
    for (uint32_t i = 0; i < 900; i++) add_int(i % 100 == 99 ? INT64_C(1) << 60 : (int64_t)(i * 7919 % 1000));
}

TEST(test_placed) {
    char name[32];
    for (uint32_t i = 0; i < 900; i++) add_int(5 + 3 * (int64_t)i);
    CHECK_STR(planned(), "rising(int0)");
    for (uint32_t i = 0; i < 3000; i++) add_int((int64_t)i * 1000 + i * 7919 % 61);
    CHECK_STR(planned(), "rising(int0)");
    for (uint32_t i = 0; i < 3000; i++) add_int((int64_t)(i * 7919 % 3001));
    CHECK_STR(planned(), "int12");
    for (uint32_t i = 0; i < 3000; i++) add_int((int64_t)(i / 300) * 7919 % 1000);
    CHECK_STR(planned(), "runs(int10)");
    for (uint32_t i = 0; i < 3000; i++)
        (void)snprintf(name, sizeof name, "a word %u", i / 100 * 7919 % 17), add_text(name);
    CHECK_STR(planned(), "runs(dict)");
    for (uint32_t i = 0; i < 3000; i++)
        (void)snprintf(name, sizeof name, "a word %u", i / 2 * 7919 % 3001), add_text(name);
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_CONCAT) | RS_FORM(RS_FMT_NODE_SYMBOLS)), "rising(dict)");
    for (uint32_t i = 0; i < 3000; i++) (i % 100 == 3 ? add_tag(0) : add_int((int64_t)i * 7));
    CHECK_STR(planned(), "optional(rising(int0))");
    for (uint32_t i = 0; i < 3000; i++) (i % 100 == 3 ? add_text("odd") : add_int((int64_t)(i * 7919 % 1001)));
    CHECK_STR(planned(), "exceptions(int10, const)");
    for (uint32_t i = 0; i < 3000; i++) (i % 20 == 3 ? add_text("odd") : add_int((int64_t)(i * 7919 % 1001)));
    CHECK_STR(planned(), "union(const, int10)");
    for (uint32_t i = 0; i < 30; i++) add_int(5 + 3 * (int64_t)i); /* too few */
    CHECK_STR(planned(), "int7");
}

TEST(test_without) {
    add_paths();
    CHECK_STR(planned_without(0), "concat(const, digits, const)");
    add_paths();
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_CONCAT)), "symbols");
    add_paths();
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_CONCAT) | RS_FORM(RS_FMT_NODE_SYMBOLS)), "str");
    add_paths();
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_DIGITS)), "concat(const, str, const)");
    add_paths();
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_STR)), "any");
    add_odd_ints();
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_UNION) | RS_FORM(RS_FMT_NODE_RISING)), "int64");
    for (uint32_t i = 0; i < 900; i++) (i % 3 == 0 ? add_tag(0) : i % 3 == 1 ? add_int(i) : add_tag(1 + i / 3 % 2));
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_UNION)), "any");
    for (uint32_t i = 0; i < 200; i++) (i % 2 == 0 ? add_tag(0) : add_int(i));
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_UNION)), "optional(int8)");
    for (uint32_t i = 0; i < 200; i++) (i % 2 == 0 ? add_tag(0) : add_int(i));
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_OPTIONAL)), "union(const, int8)");
    for (uint32_t i = 0; i < 200; i++) add_dict(i % 2 == 0 ? "a" : "ab", i % 177);
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_OPTIONAL)), "union(struct(int8), struct(int8, int8))");
    for (uint32_t i = 0; i < 900; i++) add_ints(0x0D, 8, i * 3 % 901, 1);
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_NUMBERS) | RS_FORM(RS_FMT_NODE_TUPLE)), "list*8(int64)");
    for (uint32_t i = 0; i < 900; i++) add_ints(0x0D, 8, i * 3 % 901, 1);
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_NUMBERS) | RS_FORM(RS_FMT_NODE_TUPLE) | RS_FORM(RS_FMT_NODE_INT)),
              "list*8(any)");
    for (uint32_t i = 0; i < 900; i++) add_float((double)(i * 7919 % 1000) / 100);
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_DECIMAL)), "float");
    for (uint32_t i = 0; i < 900; i++) add_int(i % 5 * 1000000);
    CHECK_STR(planned_without(0), "dict");
    for (uint32_t i = 0; i < 900; i++) add_int(i % 5 * 1000000);
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_DICT_CODED)), "int22");
    for (uint32_t i = 0; i < 900; i++) add_int(7000);
    CHECK_STR(planned_without(RS_FORM(RS_FMT_NODE_CONST) | RS_FORM(RS_FMT_NODE_DICT_CODED)), "int0");
}

/* Lists of one length become rows when their places differ in type or size; lists of other lengths stay lists beside
 * them. */
TEST(test_rows) {
    for (uint32_t i = 0; i < 900; i++) {
        make_head(&block.raw, 0x0D, 3), make_int(&block.raw, i * 7919 % 1000),
            make_int(&block.raw, 70000 + i % 5 * 3000);
        make_tag(&block.raw, i % 2), make_record_end(&block);
    }
    CHECK_STR(planned(), "tuple(int10, dict, optional(const))");
    for (uint32_t i = 0; i < 900; i++) add_ints(0x0D, i < 300 ? 8 : i % 9, i * 7919 % 1000, 90000);
    CHECK(strncmp(planned(), "union(tuple(int10, ", 19) == 0);
    for (uint32_t i = 0; i < 900; i++) add_ints(0x0D, 8, i * 7919 % 1000, 0);
    CHECK(strstr(planned(), "tuple") == NULL);
}

static void add_sentences(void) {
    static const char *const words[] = {"house", "of", "the", "a river", "boat", "they", "went", "never"};
    char text[128];
    for (uint32_t i = 0; i < 900; i++) {
        uint32_t n = (uint32_t)make_random(8) + 1, used = 0;
        for (uint32_t k = 0; k < n; k++) {
            used +=
                (uint32_t)snprintf(text + used, sizeof text - used, "%s%s", k == 0 ? "" : " ", words[make_random(8)]);
        }
        add_text(text);
    }
}

/* FAST uses no symbols, not even in parts of texts. SMALL makes a table where AUTO only estimates its bits. */
TEST(test_levels) {
    add_sentences();
    CHECK(strstr(planned(), "symbols") != NULL);
    choices = rs_choices_of(RS_LEVEL_FAST);
    add_sentences();
    CHECK(strstr(planned(), "symbols") == NULL);
    choices = rs_choices_of(RS_LEVEL_SMALL);
    add_sentences();
    CHECK(strstr(planned(), "symbols") != NULL);
    choices = rs_choices_of(RS_LEVEL_AUTO);
    CHECK(choices.without == 0);
}

/* 600 columns, each with several parts, exceed the limit of 4,096 nodes. */
TEST(test_too_many_nodes) {
    char name[16];
    for (uint32_t i = 0; i < 40; i++) {
        make_head(&block.raw, 0x0F, 600);
        for (uint32_t k = 0; k < 600; k++) {
            (void)snprintf(name, sizeof name, "c%u", k), make_str(&block.raw, name);
            (void)snprintf(name, sizeof name, "%04u-%02u-%02u:%u", i * k % 9973, i % 12, (i + k) % 28, i * 37 % 101),
                make_str(&block.raw, name);
        }
        make_record_end(&block);
    }
    (void)planned();
    CHECK(strncmp(description, "struct(", 7) == 0);
    CHECK(strstr(description, "concat") == NULL);
}
