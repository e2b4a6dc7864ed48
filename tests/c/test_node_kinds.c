/* test_node_kinds.c: the table of node kinds agrees with the constants; names of kinds, ext codes and sections. */
#include "format/rs_node_kinds.h"
#include "rs_test.h"

TEST(test_every_kind_has_a_row) {
    for (unsigned kind = 1; kind <= RS_FMT_NODE_LAST; kind++) {
        const rs_node_kind *row = rs_node_kind_of(kind);
        if (kind == 23 || kind == 25 || kind == 29) { /* reserved */
            CHECK(row == NULL);
            continue;
        }
        CHECK(row != NULL && row->name[0] != '\0' && row->min_children <= row->max_children &&
              row->min_aux <= row->max_aux);
        if (row != NULL) CHECK(row->count != RS_COUNT_IF_FIXED || (row->flag & RS_FMT_FLAG_FIXED) != 0);
        /* Only a kind with children can pass its tail on. */
        if (row != NULL) CHECK(row->tail == RS_TAIL_NONE || row->max_children > 0);
    }
    CHECK(rs_node_kind_of(0) == NULL && rs_node_kind_of(RS_FMT_NODE_LAST + 1) == NULL &&
          rs_node_kind_of(UINT32_MAX) == NULL);
}

TEST(test_rows_agree_with_constants) {
    CHECK_U64(rs_node_kind_of(RS_FMT_NODE_DECIMAL)->max_aux, RS_FMT_DECIMAL_AUX_SIZE);
    CHECK_U64(rs_node_kind_of(RS_FMT_NODE_NUMBERS)->max_aux, RS_FMT_NUMBERS_AUX_SIZE);
    CHECK_U64(rs_node_kind_of(RS_FMT_NODE_DICT_CODED)->max_aux, 4 * RS_FMT_DICT_CODED_TABLES);
    CHECK_U64(rs_node_kind_of(RS_FMT_NODE_DICT_CODED)->max_param, RS_FMT_DICT_CODED_WIDTH);
    CHECK_U64(rs_node_kind_of(RS_FMT_NODE_UNION)->max_children, RS_FMT_UNION_CHILDREN);
    CHECK_U64(rs_node_kind_of(RS_FMT_NODE_CONCAT)->max_children, RS_FMT_CONCAT_CHILDREN);
    CHECK_U64(rs_node_kind_of(RS_FMT_NODE_CONCAT)->feature, RS_FMT_FEATURE_TEXT);
    CHECK_U64(rs_node_kind_of(RS_FMT_NODE_OPTIONAL)->feature, RS_FMT_FEATURE_OPTIONAL);
    CHECK_U64(RS_FMT_NODE_LAST, RS_FMT_NODE_MAP);
    CHECK_U64(rs_node_kind_of(RS_FMT_NODE_MAP)->feature, RS_FMT_FEATURE_MAP);
    CHECK_U64(rs_node_kind_of(RS_FMT_NODE_ALPHABET)->feature, RS_FMT_FEATURE_ALPHABET);
    CHECK_U64(RS_FMT_EXT_LAST, RS_FMT_EXT_LINE);
}

TEST(test_names) {
    CHECK_STR(rs_node_name(RS_FMT_NODE_ANY), "any");
    CHECK_STR(rs_node_name(RS_FMT_NODE_DICT_CODED), "dict-coded");
    CHECK_STR(rs_node_name(RS_FMT_NODE_OPTIONAL), "optional");
    CHECK(rs_node_name(0) == NULL && rs_node_name(RS_FMT_NODE_LAST + 1) == NULL);
    for (unsigned i = 1; i <= RS_FMT_EXT_LAST; i++) CHECK(rs_ext_name(i) != NULL);
    CHECK_STR(rs_ext_name(RS_FMT_EXT_COMPLEX), "complex");
    CHECK_STR(rs_ext_name(RS_FMT_EXT_ORDEREDDICT), "OrderedDict");
    CHECK_STR(rs_ext_name(RS_FMT_EXT_LINE), "line");
    CHECK(rs_ext_name(0) == NULL && rs_ext_name(RS_FMT_EXT_LAST + 1) == NULL);
    for (unsigned i = 1; i <= RS_FMT_SECTION_LAST; i++) CHECK(rs_section_name(i) != NULL);
    CHECK_STR(rs_section_name(RS_FMT_SECTION_HEAP), "heap");
    CHECK_STR(rs_section_name(RS_FMT_SECTION_TREE_TABLE), "tree table");
    CHECK_STR(rs_section_name(RS_FMT_SECTION_LABEL), "label");
    CHECK(rs_section_name(0) == NULL && rs_section_name(RS_FMT_SECTION_LAST + 1) == NULL &&
          rs_section_name(65535) == NULL);
}
