/* test_string_template.c: the parts of strings that follow one pattern, and strings that follow none. */
#include "rs_counted.h"

static rs_template template;
static char text[256];
static rs_alphabet alphabet; /* of the last part that has one, after part_kinds */

/* Returns the kinds of the parts, "none" without a template, or "failed". */
static const char *part_kinds(void) {
    static const char *const names[] = {"const", "same", "digits", "alphabet", "dict", "text"};
    bool alike = false;
    size_t used = 0;
    text[0] = '\0';
    if (!CHECK_OK(collect_stats(), &err) || !CHECK_U64(stats.root.n, 1)) return "failed";
    if (!CHECK_OK(rs_template_find(&stats, &stats.root.alternatives[0], &template, &alike, &err), &err))
        return "failed";
    if (!alike) used += (size_t)snprintf(text, sizeof text, "none");
    for (uint32_t i = 0; alike && i < template.n; i++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s", i == 0 ? "" : " ", names[template.at[i].kind]);
    }
    for (uint32_t i = 0; alike && i < template.n; i++) {
        if (template.at[i].kind == RS_PART_ALPHABET) alphabet = *template.at[i].alphabet;
    }
    clear_stats();
    return text;
}

enum { N = 600 };

TEST(test_kinds) {
    char s[64];
    for (unsigned i = 0; i < N; i++) (void)snprintf(s, sizeof s, "img_%u.jpg", i * 7), add_text(s);
    CHECK_STR(part_kinds(), "const digits const");
    CHECK(template.at[1].count == 0 && template.at[1].min == 0 && template.at[1].max == 7 * (N - 1));
    for (unsigned i = 0; i < N; i++) (void)snprintf(s, sizeof s, "n%08u_%u.JPEG", i * 31 % 577, i * 7919), add_text(s);
    CHECK_STR(part_kinds(), "const digits const digits const");
    CHECK(template.at[1].count == 8 && template.at[3].count == 0);
    for (unsigned i = 0; i < N; i++) (void)snprintf(s, sizeof s, "%u/%u.%u", i * 7, i * 7, i % 2), add_text(s);
    CHECK_STR(part_kinds(), "digits const same const digits");
    CHECK_U64(template.at[2].of, 0);
    for (unsigned i = 0; i < N; i++) (void)snprintf(s, sizeof s, "id-%08x", i * 2654435761u), add_text(s);
    CHECK_STR(part_kinds(), "const alphabet");
    CHECK(alphabet.count == 8 && alphabet.letters[15] == 'f');
    for (unsigned i = 0; i < N; i++) (void)snprintf(s, sizeof s, "id-%08X", i * 2654435761u), add_text(s);
    CHECK_STR(part_kinds(), "const alphabet");
    CHECK(alphabet.letters[15] == 'F');
    for (unsigned i = 0; i < N; i++)
        (void)snprintf(s, sizeof s, "a %c%c%c%c/%u", (int)('g' + i % 3), (int)('h' + i % 7), 'x', 'y', i), add_text(s);
    CHECK_STR(part_kinds(), "const dict const digits");
}

/* A number that a digits part cannot restore becomes text or an entry. */
TEST(test_odd_numbers) {
    char s[64];
    for (unsigned i = 0; i < N; i++)
        (void)snprintf(s, sizeof s, i % 2 == 0 ? "x-%u" : "x-0%u", i), add_text(s); /* not padded to one width */
    CHECK_STR(part_kinds(), "const text");
    for (unsigned i = 0; i < N; i++)
        (void)snprintf(s, sizeof s, "x-%u9999999999999999", i + 10000), add_text(s); /* 21 digits */
    CHECK(strstr(part_kinds(), "digits") == NULL);
    for (unsigned i = 0; i < N; i++) (void)snprintf(s, sizeof s, "x-%018u", i), add_text(s);
    CHECK_STR(part_kinds(), "const digits");
    CHECK_U64(template.at[1].count, 18);
    for (unsigned i = 0; i < N; i++)
        (void)snprintf(s, sizeof s, "x-%08x", i * 2654435761u),
            s[2 + i % 8] = (char)(s[2 + i % 8] >= 'a' ? s[2 + i % 8] - 32 : s[2 + i % 8]), add_text(s);
    CHECK(strstr(part_kinds(), "alphabet") == NULL || alphabet.bits == 5); /* letters of both cases */
}

TEST(test_not_alike) {
    char s[64];
    for (unsigned i = 0; i < 15; i++) (void)snprintf(s, sizeof s, "img_%u.jpg", i), add_text(s);
    CHECK_STR(part_kinds(), "none"); /* too few to tell */
    for (unsigned i = 0; i < N; i++) add_text(i % 4 == 0 ? "one" : i % 4 == 1 ? "one-two" : i % 4 == 2 ? "a-b-c" : "");
    CHECK_STR(part_kinds(), "none");
    for (unsigned i = 0; i < N; i++)
        (void)snprintf(s, sizeof s, i % 20 == 0 ? "- %u" : "img_%u.jpg", i), add_text(s); /* one misfit in 20 is few */
    CHECK_STR(part_kinds(), "const digits const");
    CHECK_U64(template.n_fits, N - N / 20);
    for (unsigned i = 0; i < N; i++)
        (void)snprintf(s, sizeof s, i % 5 == 0 ? "- %u" : "img_%u.jpg", i), add_text(s); /* one in 5 is too many */
    CHECK_STR(part_kinds(), "none");
    for (unsigned i = 0; i < N; i++) add_text("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z"); /* 51 parts */
    CHECK_STR(part_kinds(), "none");
}

/* Even if there are few strings, more than five in six must be alike. */
TEST(test_few_alike) {
    char s[64];
    for (unsigned i = 0; i < 40; i++) (void)snprintf(s, sizeof s, i % 4 == 3 ? "- %u" : "img_%u.jpg", i), add_text(s);
    CHECK_STR(part_kinds(), "none");
    for (unsigned i = 0; i < 40; i++) (void)snprintf(s, sizeof s, i % 8 == 3 ? "- %u" : "img_%u.jpg", i), add_text(s);
    CHECK_STR(part_kinds(), "const digits const");
    CHECK_U64(template.n_fits, 35);
}

/* Only the strings of the sample are alike. Its groups of four neighbours are spread evenly. */
TEST(test_sample_alike) {
    char s[64];
    for (unsigned i = 0; i < N; i++) {
        bool sampled = false;
        for (unsigned group = 0; group < RS_SAMPLE_STRINGS / 4; group++) {
            const unsigned first = group * (N - 4) / (RS_SAMPLE_STRINGS / 4 - 1);
            sampled = sampled || i - first < 4;
        }
        (void)snprintf(s, sizeof s, sampled ? "img_%u.jpg" : "- %u", i), add_text(s);
    }
    CHECK_STR(part_kinds(), "none");
}

/* Two numbers that are equal in all strings except one are separate parts, wherever that string is. */
TEST(test_not_the_same) {
    char s[64];
    unsigned k;
    for (unsigned odd = 0; odd < N; odd += 7) {
        for (unsigned wide = 0; wide < 2; wide++) {
            for (unsigned i = 0; i < N; i++) {
                const size_t n = (size_t)snprintf(s, sizeof s, "%u/%u", 1000 + i * 7, 1000 + i * 7 + (i == odd));
                make_tag(&block.raw, 0x09 + wide), make_varint(&block.raw, n + wide);
                if (wide == 1) make_bytes(&block.raw, "\1\1", 2);
                for (k = 0; k < n; k++) make_bytes(&block.raw, s + k, 1), make_bytes(&block.raw, "", wide);
                make_record_end(&block);
            }
            CHECK(strstr(part_kinds(), "same") == NULL && strstr(text, "digits const digits") != NULL);
            for (k = template.n - 1; template.at[k].kind != RS_PART_DIGITS; k--) {
            }
            CHECK(template.at[k].min >= 1000 && template.at[k].max <= 1000 + 7 * N && template.n_fits == N);
        }
    }
}

/* Names with different signs are not cut, except at the separators of paths or fields. */
TEST(test_separators) {
    static const char *const names[] = {"x6u_kE", "a-b-cd", "qwert", "_zu--i", "o.o"}, *const deep[] = {"a/b", "c",
                                                                                                        "/d_e/f-"};
    char s[64];
    for (unsigned i = 0; i < N; i++)
        (void)snprintf(s, sizeof s, "%u id%03u/%s/%04u.wav", i % 2, i * 7 % 40, names[i * 3 % 5], i), add_text(s);
    CHECK_STR(part_kinds(), "digits const digits const dict const digits const");
    for (unsigned i = 0; i < N; i++)
        (void)snprintf(s, sizeof s, "%s|%s", deep[i * 7 % 3], names[i * 3 % 5]), add_text(s);
    CHECK_STR(part_kinds(), "dict const dict");
    for (unsigned i = 0; i < N; i++)
        (void)snprintf(s, sizeof s, "img %u/%u", i, i % 7), add_text(s); /* alike in all their signs: cut there */
    CHECK_STR(part_kinds(), "const digits const digits");
}

/* Units of 2 bytes are narrowed to be cut. A misfit does not use the memory of the last string that fits. */
TEST(test_wide) {
    static const uint16_t sign[] = {0x0101};
    char s[64];
    for (unsigned i = 0; i < N; i++) {
        bool fits = i % 20 != 7;
        size_t n = (size_t)snprintf(s, sizeof s, fits ? "/img_%u.jpg" : "- %u", i % 20 == 8 ? 90000 + i : 10000 + i);
        make_tag(&block.raw, 0x0A), make_varint(&block.raw, n + 1), make_bytes(&block.raw, sign, 2);
        for (unsigned k = 0; k < n; k++) make_bytes(&block.raw, s + k, 1), make_bytes(&block.raw, "", 1);
        make_record_end(&block);
    }
    CHECK(strstr(part_kinds(), "digits") != NULL);
    for (unsigned k = 0; k < template.n; k++) {
        if (template.at[k].kind != RS_PART_DIGITS) continue;
        CHECK(template.at[k].min == 10000 && template.at[k].max == 90000 + N - 12);
    }
}

/* Checks the texts of a part in all strings that fit. They borrow units from the records, in the same width. */
static void check_texts(unsigned unit) {
    static const uint16_t sign[] = {0x0101};
    const rs_symbol_string *texts;
    char s[64];
    uint32_t n = 0;
    bool alike = false;
    for (uint32_t i = 0; i < N; i++) {
        size_t size = (size_t)snprintf(s, sizeof s, i % 20 == 7 ? "- %u" : i % 2 == 0 ? "/x-%u" : "/x-0%u", i);
        make_tag(&block.raw, 0x08 + unit), make_varint(&block.raw, size + unit - 1);
        make_bytes(&block.raw, sign, 2 * (unit - 1));
        for (uint32_t k = 0; k < size; k++) make_bytes(&block.raw, s + k, 1), make_bytes(&block.raw, "", unit - 1);
        make_record_end(&block);
    }
    CHECK_OK(collect_stats(), &err);
    CHECK_OK(rs_template_find(&stats, &stats.root.alternatives[0], &template, &alike, &err), &err);
    REQUIRE(alike && template.at[template.n - 1].kind == RS_PART_TEXT && template.n_fits == N - N / 20);
    for (uint32_t i = 0; i < N / 20; i++) CHECK_U64(template.misfits[i], 20 * i + 7);
    texts = template.at[template.n - 1].texts;
    for (uint32_t i = 0; i < N; i++) {
        size_t size = (size_t)snprintf(s, sizeof s, i % 2 == 0 ? "%u" : "0%u", i);
        if (i % 20 == 7) continue;
        CHECK_U64(texts[n].n_units, size);
        for (uint32_t k = 0; k < size; k++) CHECK(texts[n].units[k * unit] == (uint8_t)s[k]);
        n++;
    }
    clear_stats();
}

TEST(test_texts) { check_texts(1), check_texts(2); }
