/* test_arrow_request.c: types that a consumer requests. A field takes the type if no value is lost; else it keeps its
 * own. */
#include "rs_batches.h"
#include "arrow/rs_arrow_request.h"

static uint64_t bits_at(const struct ArrowArray *array, uint64_t k, unsigned size) {
    return rs_load_uint_unchecked((const uint8_t *)array->buffers[1] + size * k, size);
}

RECORD(add_fields) {
    const float single = (float)i;
    make_head(raw, 0x0F, 7);
    make_str(raw, "byte"), make_int(raw, (int64_t)(i * 37 % 256) - 128);
    make_str(raw, "plus"), make_uint(raw, i < 255 ? i : UINT64_MAX);
    make_str(raw, "single"), make_scalar(raw, 11, &single, 4);
    make_str(raw, "text"), make_units(raw, 0x09, (size_t)i % 20, 1, (uint8_t)('a' + i % 26));
    make_str(raw, "list"), make_head(raw, 0x0D, 1), make_int(raw, (int64_t)i);
    make_str(raw, "none"), make_tag(raw, 0);
    make_str(raw, "low"), make_int(raw, -((int64_t)(i * 37 % 256) << 47));
}

/* A view has the size of the text, and up to 12 bytes of text, padded with zeros. For longer text it has the first 4
 * bytes, the number of the buffer and the offset. */
static bool same_views(const struct ArrowArray *array) {
    const uint8_t *views = (const uint8_t *)array->buffers[1], *bytes = (const uint8_t *)array->buffers[2];
    uint64_t at = 0;
    for (uint64_t i = 0; i < 256; i++, views += 16) {
        const uint64_t n = i % 20;
        if (rs_load_u32(views) != n) return false;
        for (uint64_t k = 0; k < (n > 12 ? 4 : 12); k++) {
            if (views[4 + k] != (k < n ? (uint8_t)('a' + i % 26) : 0)) return false;
        }
        if (n > 12 && (rs_load_u32(views + 8) != 0 || rs_load_u32(views + 12) != at)) return false;
        for (uint64_t k = 0; k < n; k++, at++) {
            if (bytes[at] != (uint8_t)('a' + i % 26)) return false;
        }
    }
    return array->n_buffers == 4 && rs_load_u64((const uint8_t *)array->buffers[3]) == at;
}

/* Returns the type of field `f` if the consumer requests `wanted`, with elements of type `element` unless NULL. */
static const char *answer_to(const built *b, unsigned f, const char *wanted, const char *element) {
    static const char *const names[] = {"byte", "plus", "single", "text", "list", "none", "low"};
    static batch_export o;
    static char answer[64];
    struct ArrowSchema child_element = {.format = element, .name = ""}, *child_elements[] = {&child_element};
    struct ArrowSchema child = {
        .format = wanted, .name = names[f], .n_children = element != NULL, .children = child_elements};
    struct ArrowSchema other = {.format = "u", .name = "other"}, *children[] = {&other, &child};
    struct ArrowSchema root = {.format = "+s", .name = "", .n_children = 2, .children = children}, schema = {0};
    struct ArrowArray batch = {0};
    rs_arrow_stop stop;
    bool whole;
    answer[0] = 0;
    CHECK_OK(open_over(&o, b), &err);
    CHECK_OK(infer(&o, 0, 1, 256, &whole), &err);
    rs_arrow_request(o.out.root, &root);
    CHECK_OK(rs_arrow_out_settle(&o.out, 256, &err), &err);
    CHECK_OK(run(&o, NULL, 0, 1, 256, &stop), &err);
    CHECK_OK(rs_arrow_out_batch(&o.out, 0, &batch, &err), &err);
    if (CHECK_OK(rs_arrow_export_schema(o.out.root, &schema, &err), &err)) {
        (void)snprintf(answer, sizeof answer, "%s%s", schema.children[f]->format,
                       element != NULL ? schema.children[f]->children[0]->format : "");
        if (f == 0 && strcmp(answer, "s") == 0) CHECK((int16_t)bits_at(batch.children[0], 3, 2) == 111 - 128);
        if (f == 0 && strcmp(answer, "c") == 0) CHECK((int8_t)bits_at(batch.children[0], 255, 1) == 219 - 128);
        if (f == 0 && strcmp(answer, "g") == 0)
            CHECK(rs_load_f64((const uint8_t *)batch.children[0]->buffers[1]) == -128);
        if (f == 3 && strcmp(answer, "vu") == 0) CHECK(same_views(batch.children[3]));
        schema.release(&schema);
    }
    batch.release(&batch);
    close_over(&o);
    return answer;
}

TEST(test_requests) {
    static const struct {
        unsigned field;
        const char *wanted, *answer;
    } cases[] = {{0, "c", "c"}, {0, "s", "s"}, {0, "i", "i"},  {0, "l", "l"},   {0, "C", "l"},   {0, "L", "l"},
                 {0, "g", "g"}, {0, "f", "l"}, {0, "u", "l"},  {0, "b", "l"},   {0, "tdD", "l"}, {0, "vu", "l"},
                 {0, "", "l"},  {0, "?", "l"}, {1, "L", "L"},  {1, "l", "L"},   {1, "I", "L"},   {1, "g", "L"},
                 {2, "g", "g"}, {2, "f", "f"}, {2, "e", "f"},  {2, "i", "f"},   {2, "u", "f"},   {2, "Z", "f"},
                 {2, "b", "f"}, {3, "U", "U"}, {3, "u", "u"},  {3, "vu", "vu"}, {3, "z", "u"},   {3, "vz", "u"},
                 {3, "i", "u"}, {3, "g", "u"}, {3, "c", "u"},  {3, "L", "u"},   {3, "b", "u"},   {5, "i", "i"},
                 {5, "u", "u"}, {5, "U", "U"}, {5, "Z", "Z"},  {5, "vz", "vz"}, {5, "b", "b"},   {5, "+l", "n"},
                 {5, "e", "e"}, {5, "S", "S"}, {5, "+s", "n"}, {6, "g", "l"},   {6, "l", "l"}};
    built b = build(add_fields, 256, true);
    REQUIRE(b.data != NULL);
    EACH (i, cases) {
        CHECK_STR(answer_to(&b, cases[i].field, cases[i].wanted, NULL), cases[i].answer);
    }
    CHECK_STR(answer_to(&b, 4, "+l", "S"), "+lS");
    CHECK_STR(answer_to(&b, 4, "+L", "C"), "+LC");
    CHECK_STR(answer_to(&b, 4, "+l", "c"), "+ll");
    CHECK_STR(answer_to(&b, 4, "+s", "C"), "+ll");
    built_clear(&b);
}
