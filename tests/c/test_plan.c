/* test_plan.c: which form a position gets, on both sides of what decides: exceptions, corrections, strides, counts, tables,
 * optional keys, unions, and what happens when a tree grows too large. */
#include "rs_counted.h"
#include "format/rs_packed_ints.h"
#include "rs_say.h"

static void say_plan(const rs_plan *d) {
    uint32_t i;
    say_kind(d->kind);
    if (d->kind == RS_FMT_NODE_INT || d->kind == RS_FMT_NODE_DECIMAL) say("%u", d->param);
    if (d->kind == RS_FMT_NODE_DECIMAL && d->aux.ptr[9] != 0) say("~%u", d->aux.ptr[9]);
    if (d->kind == RS_FMT_NODE_NUMBERS) say("/%u", d->aux.ptr[10]);
    if (d->kind == RS_FMT_NODE_OPTIONAL && d->param == 0) say("-key");
    if ((d->flags & RS_FMT_FLAG_FIXED) != 0) say("*%u", d->count);
    if (d->n_children == 0) return;
    for (i = 0; i < d->n_children; i++) say(i == 0 ? "(" : ", "), say_plan(d->children[i]);
    say(")");
}

static const char *planned(void) {
    rs_dictionaries dictionaries;
    rs_plan *root = NULL;
    rs_status status = look();
    memset(&dictionaries, 0, sizeof dictionaries);
    said_size = 0;
    if (status == RS_OK) status = rs_plan_choose(&stats, &dictionaries, 0, &root, &err);
    if (status == RS_OK) say_plan(root);
    else say("%s", rs_status_name(status));
    forget();
    return said;
}

/* ---- Numbers ---- */

/* n ints below 1,000 that do not repeat enough for a table, every step-th of them `odd`. */
static const char *ints_with(int64_t odd, uint32_t n, uint32_t step) {
    uint32_t i;
    for (i = 0; i < n; i++) add_int(i % step == step - 1 ? odd : (int64_t)(i * 7919 % 1000));
    return planned();
}

static void test_ints(void) {
    CHECK_STR(ints_with(999, 900, 100), "int10");
    CHECK_STR(ints_with(INT64_C(1) << 60, 900, 100), "union(int10, any)");
    CHECK_STR(ints_with(-(INT64_C(1) << 60), 900, 100), "union(int10, any)");
    CHECK_STR(ints_with(INT64_C(1) << 60, 60, 20), "int64"); /* too few to divide */
    CHECK_STR(ints_with(4000, 900, 100), "int12");           /* not far enough */
}

static void test_decimals(void) {
    uint32_t i;
    for (i = 0; i < 900; i++) add_float((double)(i * 7919 % 1000) / 100);
    CHECK_STR(planned(), "decimal10");
    for (i = 0; i < 900; i++)
        add_float(i % 10 == 9 ? 1.0 / (i + 3) : (double)(i * 7919 % 1000) / 100); /* one in ten is none */
    CHECK_STR(planned(), "union(decimal10, float)");
    for (i = 0; i < 900; i++)
        add_float(i % 2 == 0 ? 1e300 / (i + 3) : (double)(i * 7919 % 1000) / 100); /* half of them */
    CHECK_STR(planned(), "float");
    for (i = 0; i < 900; i++) { /* each a few units in the last place off */
        double value = (double)(i * 7919 % 1000 + 1) / 100;
        uint64_t bits;
        memcpy(&bits, &value, 8), bits += i % 4, memcpy(&value, &bits, 8);
        add_float(value);
    }
    CHECK_STR(planned(), "decimal13~3");
    for (i = 0; i < 900; i++) add_float(4503599627370497.0 + 2 * i); /* odd ones from 2^52 on */
    CHECK_STR(planned(), "decimal11");
    for (i = 0; i < 900; i++) add_float(i % 300 == 7 ? -0.0 : (double)(i * 7919 % 1000) / 100);
    CHECK_STR(planned(), "union(decimal10, float)");
}

static const char *lists(unsigned tag, unsigned stride, uint64_t n, bool same_count) {
    uint64_t i, k;
    for (i = 0; i < 60; i++) {
        uint64_t count = same_count ? n : n - i % 3;
        make_head(&block.raw, tag, count);
        for (k = 0; k < count; k++) {
            int64_t value =
                stride == 0 ? (int64_t)make_random(50) : (int64_t)(k * 3 + k % stride * 999983 + i * i * 1009);
            make_int(&block.raw, value);
        }
        make_record_end(&block);
    }
    return planned();
}

static void test_strides(void) {
    char wanted[16];
    unsigned stride;
    for (stride = 1; stride <= 4; stride++) {
        (void)snprintf(wanted, sizeof wanted, "numbers/%u", stride);
        CHECK_STR(lists(0x0D, stride, 60, false), wanted);
    }
    CHECK_STR(lists(0x0D, 1, 60, true), "numbers/1*60");
    CHECK_STR(lists(0x0E, 1, 80, true), "numbers/1*80");  /* a tuple too long for columns */
    CHECK_STR(lists(0x0D, 0, 40, true), "list*40(int6)"); /* no order in them: no deltas */
}

static void test_lists_of_floats(void) {
    uint64_t i, k;
    for (i = 0; i < 100; i++) { /* one list in twenty is noise */
        make_head(&block.raw, 0x0D, 8);
        for (k = 0; k < 8; k++)
            make_float(&block.raw, i % 20 == 3 ? 1.0 / (double)(i + k + 3) : (double)(i * 1000 + k * 3) / 10);
        make_record_end(&block);
    }
    CHECK_STR(planned(), "union(numbers/1*8, list*8(float))");
}

/* ---- Texts and tables ---- */

static void test_texts(void) {
    char name[64];
    uint32_t i;
    for (i = 0; i < 900; i++) (void)snprintf(name, sizeof name, "img_%05u.jpg", i * 7 % 65536), add_text(name);
    CHECK_STR(planned(), "concat(const, digits, const)");
    for (i = 0; i < 900; i++)
        (void)snprintf(name, sizeof name, i % 20 == 7 ? "other %u of them" : "img_%05u.jpg", i * 7 % 65536),
            add_text(name);
    (void)planned();
    CHECK(strncmp(said, "union(concat(const, digits, const), ", 36) == 0);
    for (i = 0; i < 900; i++)
        (void)snprintf(name, sizeof name, "%016llx", (unsigned long long)i * 0x9E3779B97F4A7C15u), add_text(name);
    CHECK(strcmp(planned(), "symbols") == 0); /* alone it is one word: parts need two */
    for (i = 0; i < 900; i++) (void)snprintf(name, sizeof name, "word %u", i % 30), add_text(name);
    CHECK_STR(planned(), "dict");
    for (i = 0; i < 900; i++) (void)snprintf(name, sizeof name, "%c", (int)('!' + i % 90)), add_text(name);
    CHECK_STR(planned(), "dict");
    for (i = 0; i < 4; i++) (void)snprintf(name, sizeof name, "%u", i), add_text(name);
    CHECK_STR(planned(), "str"); /* a table costs more than it saves */
}

/* ---- Structs and unions ---- */

static void test_optional(void) {
    uint32_t i;
    for (i = 0; i < 200; i++) {
        make_head(&block.raw, 0x0F, 1 + i % 2);
        make_str(&block.raw, "a"), (i % 5 == 0 ? make_tag(&block.raw, 0) : make_int(&block.raw, i * 7 % 199));
        if (i % 2 != 0) make_str(&block.raw, "b"), make_int(&block.raw, i * 3 % 197);
        make_record_end(&block);
    }
    CHECK_STR(planned(), "struct(optional(int8), optional-key(int8))");
    for (i = 0; i < 200; i++) (i % 2 == 0 ? add_tag(0) : add_int(i));
    CHECK_STR(planned(), "optional(int8)");
    for (i = 0; i < 200; i++) (i % 3 == 0 ? add_tag(0) : i % 3 == 1 ? add_int(i) : add_tag(1 + i / 3 % 2));
    CHECK_STR(planned(), "union(const, int8, bool)");
}

/* 600 columns of six parts each would be 4,201 nodes. */
static void test_too_many_nodes(void) {
    char name[16];
    uint32_t i, k;
    for (i = 0; i < 40; i++) {
        make_head(&block.raw, 0x0F, 600);
        for (k = 0; k < 600; k++) {
            (void)snprintf(name, sizeof name, "c%u", k), make_str(&block.raw, name);
            (void)snprintf(name, sizeof name, "%04u-%02u-%02u:%u", i * k % 9973, i % 12, (i + k) % 28, i * 37 % 101),
                make_str(&block.raw, name);
        }
        make_record_end(&block);
    }
    (void)planned();
    CHECK(strncmp(said, "struct(", 7) == 0);
    CHECK(strstr(said, "concat") == NULL);
}

int main(void) {
    RUN(test_ints);
    RUN(test_decimals);
    RUN(test_strides);
    RUN(test_lists_of_floats);
    RUN(test_texts);
    RUN(test_optional);
    RUN(test_too_many_nodes);
    return rs_test_finish("test_plan");
}
