/* rs_format.h: the constants of FORMAT.md, roughly in its order. */
#pragma once

#include "base/rs_base.h"

#define RS_FMT_MAGIC "\x89RECS\r\n\x1a"
enum { RS_FMT_VERSION = 3 };
/* The file of a cache: its magic, where its header has the offset of the segment, and what divides the offsets of its
 * parts, the largest page size of the supported systems. */
#define RS_FMT_CACHE_MAGIC "\x89RSCACH\n"
enum { RS_FMT_CACHE_SEGMENT = 72, RS_FMT_CACHE_UNIT = 65536 };
/* Bits of features_required. */
#define RS_FMT_FEATURE_EXT UINT64_C(1)
#define RS_FMT_FEATURE_MAPPING UINT64_C(2)
#define RS_FMT_FEATURE_DTYPES UINT64_C(4)
#define RS_FMT_FEATURE_PACKED UINT64_C(8)
#define RS_FMT_FEATURE_TABLES UINT64_C(16)
#define RS_FMT_FEATURE_TEXT UINT64_C(32)
#define RS_FMT_FEATURE_OPTIONAL UINT64_C(64)
#define RS_FMT_FEATURE_MAP UINT64_C(128)
#define RS_FMT_FEATURE_PLACED UINT64_C(256)
#define RS_FMT_FEATURE_ALONE UINT64_C(512)
#define RS_FMT_FEATURE_FRONT UINT64_C(1024)
#define RS_FMT_FEATURE_ENDS UINT64_C(2048)
#define RS_FMT_FEATURE_NARROW UINT64_C(4096)
#define RS_FMT_FEATURE_LINE UINT64_C(8192)
#define RS_FMT_FEATURE_ALPHABET UINT64_C(32768)
#define RS_FMT_FEATURE_PAIRS UINT64_C(65536)
#define RS_FMT_FEATURE_RARE UINT64_C(131072)
#define RS_FMT_FEATURE_IN_BITS UINT64_C(262144)
#define RS_FMT_FEATURES_KNOWN UINT64_C(0x7BFFF) /* all of them: bits 0 to 18 without 14 */

/* Header fields. */
enum {
    RS_FMT_HEADER_SIZE = 128,
    RS_FMT_H_MAGIC = 0,
    RS_FMT_H_VERSION = 8,
    RS_FMT_H_READER_VERSION = 10,
    RS_FMT_H_HEADER_SIZE = 12,
    RS_FMT_H_FEATURES_REQUIRED = 16,
    RS_FMT_H_FEATURES_OPTIONAL = 24,
    RS_FMT_H_SEGMENT_SIZE = 32,
    RS_FMT_H_SEGMENT_ID = 40,
    RS_FMT_H_CREATED = 56,
    RS_FMT_H_CONTENT = 64,
    RS_FMT_H_DIRECTORY_COUNT = 68,
    RS_FMT_H_DIRECTORY_OFFSET = 72,
    RS_FMT_H_N_RECORDS = 80,
    RS_FMT_H_MAX_VALUES = 88,
    RS_FMT_H_MAX_BYTES = 96,
    RS_FMT_H_MAX_DEPTH = 104,
    RS_FMT_H_DIRECTORY_CRC = 108,
    RS_FMT_H_RAW_SIZE = 112,
    RS_FMT_H_HEADER_CRC = 124
};
/* The header of version 1. With the feature FRONT, sections may be placed from RS_FMT_FRONT to its checksum. */
enum { RS_FMT_LONG_VERSION = 1, RS_FMT_LONG_SIZE = 4096, RS_FMT_LONG_CRC = 4092, RS_FMT_FRONT = 128 };
enum { RS_FMT_SEGMENT_ID_SIZE = 16 };
enum { RS_FMT_CONTENT_LIST = 1, RS_FMT_CONTENT_MAPPING = 2 };

/* Directory entries. */
enum {
    RS_FMT_ENTRY_SIZE = 40,
    RS_FMT_E_KIND = 0,
    RS_FMT_E_STORE = 2,
    RS_FMT_E_FLAGS = 4,
    RS_FMT_E_OFFSET = 8,
    RS_FMT_E_SIZE = 16,
    RS_FMT_E_COUNT = 24,
    RS_FMT_E_CRC = 32,
    RS_FMT_E_RESERVED = 36
};
/* X(NAME, number, "name") for each kind of section. */
#define RS_FMT_SECTION_ROWS(X) \
    X(HEAP, 1, "heap") \
    X(OFFSETS, 2, "offsets") \
    X(GROUPS, 3, "groups") \
    X(BLOCKS, 4, "blocks") \
    X(TREES, 5, "trees") \
    X(TREE_TABLE, 6, "tree table") \
    X(KEY_INDEX, 7, "key index") \
    X(ORDER, 8, "order") \
    X(TABLES, 9, "tables") \
    X(LABEL, 32768, "label") \
    X(SAVED_INDEX, 32769, "saved index")
#define RS_FMT_SECTION_NUMBER(name, number, text) RS_FMT_SECTION_##name = number,
enum { RS_FMT_SECTION_ROWS(RS_FMT_SECTION_NUMBER) };
/* The last kind that every store has, the last that a store may have, and the first that a reader may ignore. */
enum { RS_FMT_SECTION_STORE_LAST = 6, RS_FMT_SECTION_LAST = 9, RS_FMT_SECTION_OPTIONAL = 32768 };

/* Block entries. */
enum {
    RS_FMT_BLOCK_SIZE = 80,
    RS_FMT_B_FIRST_RECORD = 0,
    RS_FMT_B_N_RECORDS = 8,
    RS_FMT_B_TREE = 12,
    RS_FMT_B_HEAP_OFFSET = 16,
    RS_FMT_B_HEAP_SIZE = 24,
    RS_FMT_B_INDEX_OFFSET = 32,
    RS_FMT_B_ROW_SIZE = 40,
    RS_FMT_B_INDEX_WIDTH = 44,
    RS_FMT_B_INDEX_BITS = 45,
    RS_FMT_B_RESERVED = 46,
    RS_FMT_B_ARRAYS_OFFSET = 48,
    RS_FMT_B_ARRAYS_SIZE = 56,
    RS_FMT_B_HEAP_CRC = 64,
    RS_FMT_B_ARRAYS_CRC = 68,
    RS_FMT_B_PLACES_SIZE = 72
};

/* The index_width for ends as distances from a line, and the most bits of a distance. */
enum { RS_FMT_INDEX_LINES = 1, RS_FMT_INDEX_BITS = 32 };

/* Table entries: as block entries, with the table's kind in place of first_record. */
enum { RS_FMT_B_TABLE_KIND = RS_FMT_B_FIRST_RECORD, RS_FMT_TABLE_VALUES = 1, RS_FMT_TABLE_SYMBOLS = 2 };

/* Trees. */
enum { RS_FMT_TREE_ENTRY_SIZE = 16, RS_FMT_TREE_HEAD_SIZE = 8, RS_FMT_NODE_SIZE = 24 };
enum {
    RS_FMT_N_KIND = 0,
    RS_FMT_N_PARAM = 1,
    RS_FMT_N_FLAGS = 2,
    RS_FMT_N_N_CHILDREN = 4,
    RS_FMT_N_FIRST_CHILD = 8,
    RS_FMT_N_AUX_OFFSET = 12,
    RS_FMT_N_AUX_SIZE = 16,
    RS_FMT_N_COUNT = 20
};
/* FIXED: for list, numbers and alphabet (fixed count) and for ndarray (fixed shape). REST: for str, bytes, symbols and
 * alphabet. RARE: for optional. IN_BITS: for tuple and struct. */
enum { RS_FMT_FLAG_FIXED = 1, RS_FMT_FLAG_REST = 2, RS_FMT_FLAG_RARE = 4, RS_FMT_FLAG_IN_BITS = 8 };
enum { RS_FMT_RARE_BYTES = 64 /* the most bytes of the bit group and the rare group of a struct together */ };
/* X(NAME, number, "name", flag, count, param, children, aux, tail, part, feature) for each kind of node:
 *   flag      the flag that it may have; EITHER of the two
 *   count     whether its count is used: NONE, IF_FIXED (with the flag FIXED), ALWAYS
 *   param     the maximum
 *   children  the minimal and maximal number
 *   aux       the minimal and maximal size in bytes
 *   tail      which children of a node in tail position are too: NONE, EACH, FIRST, or LAST (the last not fixed)
 *   part      whether it may be part of a concat: NONE, SOMETIMES, YES
 *   feature   the bit that rs_tree_features returns for it
 * rs_schema.c has further rules for single kinds. The columns are aligned by hand. */
/* clang-format off */
#define RS_FMT_NODE_ROWS(X)                                                                            \
    X(ANY,        1,  "any",        NONE,  NONE,     0,   0, 0,    0, 0,    NONE, NONE,      NONE)     \
    X(CONST,      2,  "const",      NONE,  NONE,     0,   0, 0,    0, MANY, NONE, SOMETIMES, NONE)     \
    X(INT,        3,  "int",        NONE,  NONE,     64,  0, 0,    8, 8,    NONE, NONE,      NONE)     \
    X(FLOAT,      4,  "float",      NONE,  NONE,     0,   0, 0,    0, 0,    NONE, NONE,      NONE)     \
    X(BOOL,       5,  "bool",       NONE,  NONE,     0,   0, 0,    0, 0,    NONE, NONE,      NONE)     \
    X(STR,        6,  "str",        REST,  NONE,     4,   0, 0,    0, 0,    NONE, YES,       NONE)     \
    X(BYTES,      7,  "bytes",      REST,  NONE,     0,   0, 0,    0, 0,    NONE, NONE,      NONE)     \
    X(LIST,       8,  "list",       FIXED, IF_FIXED, 1,   1, 1,    0, 0,    NONE, NONE,      NONE)     \
    X(TUPLE,      9,  "tuple",      IN_BITS, NONE,   1,   0, MANY, 0, 0,    LAST, NONE,      NONE)     \
    X(STRUCT,     10, "struct",     IN_BITS, NONE,   0,   0, MANY, 0, MANY, LAST, NONE,      NONE)     \
    X(UNION,      11, "union",      NONE,  NONE,     0,   1, 256,  0, 0,    EACH, NONE,      NONE)     \
    X(NDARRAY,    12, "ndarray",    FIXED, NONE,     0,   0, 0,    0, MANY, NONE, NONE,      NONE)     \
    X(EXT,        13, "ext",        NONE,  NONE,     255, 1, 1,    1, MANY, EACH, NONE,      NONE)     \
    X(DECIMAL,    14, "decimal",    NONE,  NONE,     64,  0, 0,    10, 10,  NONE, NONE,      PACKED)   \
    X(NUMBERS,    15, "numbers",    FIXED, IF_FIXED, 1,   0, 0,    16, 16,  NONE, NONE,      PACKED)   \
    X(DICT_CODED, 16, "dict-coded", NONE,  ALWAYS,   32,  0, 0,    4, 256,  NONE, YES,       TABLES)   \
    X(SYMBOLS,    17, "symbols",    REST,  NONE,     1,   0, 0,    4, 4,    NONE, YES,       TABLES)   \
    X(CONCAT,     18, "concat",     NONE,  NONE,     0,   0, 64,   0, 0,    LAST, NONE,      TEXT)     \
    X(DIGITS,     19, "digits",     NONE,  ALWAYS,   64,  0, 0,    8, 8,    NONE, YES,       TEXT)     \
    X(HEX,        20, "hex",        NONE,  ALWAYS,   1,   0, 0,    0, 0,    NONE, YES,       TEXT)     \
    X(SAME,       21, "same",       NONE,  ALWAYS,   0,   0, 0,    0, 0,    NONE, SOMETIMES, TEXT)     \
    X(OPTIONAL,   22, "optional",   RARE,  NONE,     1,   1, 1,    0, 0,    EACH, NONE,      OPTIONAL) \
    X(ALPHABET,   24, "alphabet",   EITHER, IF_FIXED, 3,  0, 0,    2, 64,   NONE, YES,       ALPHABET) \
    X(RISING,     26, "rising",     NONE,  NONE,     0,   1, 1,    0, 0,    NONE, NONE,      PLACED)   \
    X(RUNS,       27, "runs",       NONE,  NONE,     0,   1, 1,    0, 0,    NONE, NONE,      PLACED)   \
    X(EXCEPTIONS, 28, "exceptions", NONE,  NONE,     0,   2, 2,    0, 0,    FIRST, NONE,     PLACED)   \
    X(MAP,        30, "map",        NONE,  NONE,     0,   2, 2,    0, 0,    NONE, NONE,      MAP)
#define RS_FMT_NODE_NUMBER(name, number, ...) RS_FMT_NODE_##name = number,
typedef enum rs_node_code { RS_FMT_NODE_ROWS(RS_FMT_NODE_NUMBER) } rs_node_code;
enum { RS_FMT_NODE_LAST = RS_FMT_NODE_MAP, RS_FMT_NODE_END };
/* Kinds that readers treat alike. A reader switches over rs_node_code without `default`, so the compiler names each
 * reader that lacks a new kind. A kind except any and const is in one of the first five groups: numbers, text, steps to
 * the node of the value, lists, others. FIXED: the values are always fixed. VARIABLE: never, and without children. */
#define RS_NODES_NUMBER RS_FMT_NODE_INT: case RS_FMT_NODE_FLOAT: case RS_FMT_NODE_BOOL: case RS_FMT_NODE_DECIMAL
#define RS_NODES_TEXT RS_FMT_NODE_STR: case RS_FMT_NODE_SYMBOLS: case RS_FMT_NODE_CONCAT: \
    case RS_FMT_NODE_DIGITS: case RS_FMT_NODE_HEX: case RS_FMT_NODE_ALPHABET
#define RS_NODES_STEP RS_FMT_NODE_UNION: case RS_FMT_NODE_OPTIONAL: case RS_FMT_NODE_DICT_CODED: \
    case RS_FMT_NODE_RISING: case RS_FMT_NODE_RUNS: case RS_FMT_NODE_EXCEPTIONS
#define RS_NODES_LIST RS_FMT_NODE_LIST: case RS_FMT_NODE_NUMBERS: case RS_FMT_NODE_TUPLE
#define RS_NODES_OTHER RS_FMT_NODE_BYTES: case RS_FMT_NODE_STRUCT: case RS_FMT_NODE_NDARRAY: \
    case RS_FMT_NODE_EXT: case RS_FMT_NODE_SAME: case RS_FMT_NODE_MAP
#define RS_NODES_FIXED RS_NODES_NUMBER: case RS_FMT_NODE_CONST: case RS_FMT_NODE_DICT_CODED: \
    case RS_FMT_NODE_DIGITS: case RS_FMT_NODE_HEX: case RS_FMT_NODE_SAME: case RS_FMT_NODE_RISING: \
    case RS_FMT_NODE_RUNS
#define RS_NODES_VARIABLE RS_FMT_NODE_ANY: case RS_FMT_NODE_STR: case RS_FMT_NODE_BYTES: case RS_FMT_NODE_SYMBOLS
/* clang-format on */
enum { RS_FMT_UNION_CHILDREN = 256, RS_FMT_CONCAT_CHILDREN = 64 };

/* Packed nodes. */
enum {
    RS_FMT_DECIMAL_AUX_SIZE = 10,
    RS_FMT_DECIMAL_SCALE = 8,
    RS_FMT_DECIMAL_CORRECTION = 9,
    RS_FMT_NUMBERS_AUX_SIZE = 16,
    RS_FMT_NUMBERS_KIND = 8,
    RS_FMT_NUMBERS_SCALE = 9,
    RS_FMT_NUMBERS_STRIDE = 10,
    RS_FMT_NUMBERS_HEAD_WIDTH = 11,
    RS_FMT_NUMBERS_MAX_WIDTH = 12,
    RS_FMT_NUMBERS_RESERVED = 13,
    RS_FMT_NUMBERS_INTS = 0,
    RS_FMT_NUMBERS_FLOATS = 1,
    RS_FMT_NUMBERS_CHUNK = 8,
    RS_FMT_SCALE_MAX = 22,
    RS_FMT_CORRECTION_MAX = 32,
    RS_FMT_STRIDE_MAX = 16
};
/* Text nodes. The param of symbols of UTF-16. */
enum { RS_FMT_SYMBOLS_PAIRS = 1 };
enum { RS_FMT_DIGITS_MAX = 20, RS_FMT_HEX_MAX = 65535, RS_FMT_ALPHABET_MAX = 65535 };
/* The params of an alphabet node, and the shape of the text of a UUID. */
enum { RS_FMT_ALPHABET_ALL = 0, RS_FMT_ALPHABET_BYTES = 1, RS_FMT_ALPHABET_PADDED = 2, RS_FMT_ALPHABET_UUID = 3 };
enum { RS_FMT_UUID_DIGITS = 32, RS_FMT_UUID_TEXT = 36 };
/* Places. */
enum {
    RS_FMT_PLACED_HEAD_SIZE = 8, /* before the marks of runs and exceptions */
    RS_FMT_P_COUNT = 0,
    RS_FMT_P_FORM = 4,
    RS_FMT_P_RESERVED = 5,
    RS_FMT_MARKS_LOW = 0,
    RS_FMT_MARKS_LOW_RECORDS = 256,
    RS_FMT_MARKS_BITS = 1,
    RS_FMT_MARKS_BITS_RECORDS = 64,
    RS_FMT_MARKS_BITS_SIZE = 10, /* a count and 64 bits */
    RS_FMT_RISING_HEAD_SIZE = 24,
    RS_FMT_R_BASE = 0,
    RS_FMT_R_STEP = 8,
    RS_FMT_R_SHIFT = 16,
    RS_FMT_R_FORM = 17,
    RS_FMT_R_WIDTH = 18,
    RS_FMT_R_RESERVED = 19,
    RS_FMT_RISING_LINE = 0,
    RS_FMT_RISING_CORNERS = 1,
    RS_FMT_RISING_RECORDS = 64, /* between two corners */
    RS_FMT_RISING_SHIFT_MAX = 47
};
/* A dict-coded node's tables. */
enum { RS_FMT_DICT_CODED_TABLES = 64, RS_FMT_DICT_CODED_WIDTH = 32 };

/* any values. */
enum {
    RS_FMT_TAG_NONE = 0x00,
    RS_FMT_TAG_FALSE = 0x01,
    RS_FMT_TAG_TRUE = 0x02,
    RS_FMT_TAG_INT8 = 0x03,
    RS_FMT_TAG_INT16 = 0x04,
    RS_FMT_TAG_INT32 = 0x05,
    RS_FMT_TAG_INT64 = 0x06,
    RS_FMT_TAG_BIGINT = 0x07,
    RS_FMT_TAG_FLOAT = 0x08,
    RS_FMT_TAG_STR1 = 0x09,
    RS_FMT_TAG_STR2 = 0x0A,
    RS_FMT_TAG_STR4 = 0x0B,
    RS_FMT_TAG_BYTES = 0x0C,
    RS_FMT_TAG_LIST = 0x0D,
    RS_FMT_TAG_TUPLE = 0x0E,
    RS_FMT_TAG_DICT = 0x0F,
    RS_FMT_TAG_NDARRAY = 0x10,
    RS_FMT_TAG_EXT = 0x11,
    RS_FMT_TAG_SMALL = 0x80,
    RS_FMT_TAG_ZERO = 0x90
};
enum { RS_FMT_SMALL_MIN = -16, RS_FMT_SMALL_MAX = 111 };

/* X(NAME, code, "name") for each code of ext values. */
#define RS_FMT_EXT_ROWS(X) \
    X(COMPLEX, 1, "complex") \
    X(BYTEARRAY, 2, "bytearray") \
    X(SET, 3, "set") \
    X(FROZENSET, 4, "frozenset") \
    X(RANGE, 5, "range") \
    X(SLICE, 6, "slice") \
    X(ELLIPSIS, 7, "Ellipsis") \
    X(ORDEREDDICT, 8, "OrderedDict") \
    X(COUNTER, 9, "Counter") \
    X(DEFAULTDICT, 10, "defaultdict") \
    X(CHAINMAP, 11, "ChainMap") \
    X(DEQUE, 12, "deque") \
    X(DATE, 13, "date") \
    X(TIME, 14, "time") \
    X(DATETIME, 15, "datetime") \
    X(TIMEDELTA, 16, "timedelta") \
    X(TIMEZONE, 17, "timezone") \
    X(ZONEINFO, 18, "ZoneInfo") \
    X(DECIMAL, 19, "Decimal") \
    X(FRACTION, 20, "Fraction") \
    X(UUID, 21, "UUID") \
    X(PATH, 22, "path") \
    X(ENUM, 23, "enum") \
    X(NAMEDTUPLE, 24, "namedtuple") \
    X(DATACLASS, 25, "dataclass") \
    X(ATTRS, 26, "attrs") \
    X(OBJECT, 27, "object") \
    X(PICKLED, 28, "pickled") \
    X(TENSOR, 29, "tensor") \
    X(STRINGDTYPE, 30, "StringDType") \
    X(LINE, 31, "line")
#define RS_FMT_EXT_NUMBER(name, number, text) RS_FMT_EXT_##name = number,
enum { RS_FMT_EXT_ROWS(RS_FMT_EXT_NUMBER) RS_FMT_EXT_END, RS_FMT_EXT_LAST = RS_FMT_EXT_END - 1 };

/* Arrays. */
enum { RS_FMT_ARRAY_FORTRAN = 1, RS_FMT_ARRAY_SCALAR = 2, RS_FMT_ARRAY_WIDTH_SHIFT = 2, RS_FMT_ARRAY_NDIM = 64 };
enum {
    RS_FMT_DTYPE_BOOL = 1,
    RS_FMT_DTYPE_INT8 = 2,
    RS_FMT_DTYPE_INT64 = 5,
    RS_FMT_DTYPE_UINT64 = 9,
    RS_FMT_DTYPE_COMPLEX128 = 14,
    RS_FMT_DTYPE_S = 15,
    RS_FMT_DTYPE_U = 16,
    RS_FMT_DTYPE_V = 17,
    RS_FMT_DTYPE_DATETIME = 18,
    RS_FMT_DTYPE_TIMEDELTA = 19,
    RS_FMT_DTYPE_STRUCT = 20,
    RS_FMT_DTYPE_LONGDOUBLE = 21,
    RS_FMT_DTYPE_CLONGDOUBLE = 22,
    RS_FMT_DTYPE_LAST = 22,
    RS_FMT_DTYPE_BIG_ENDIAN = 0x80,
    RS_FMT_DTYPE_UNIT_GAP = 3,
    RS_FMT_DTYPE_UNIT_LAST = 14
};

/* The head of KEY_INDEX. */
enum {
    RS_FMT_KEYS_HEAD_SIZE = 64,
    RS_FMT_K_SEED = 0,
    RS_FMT_K_N_ENTRIES = 8,
    RS_FMT_K_N_SLOTS = 16,
    RS_FMT_K_N_OPAQUE = 24,
    RS_FMT_K_LONGEST_PROBE = 32,
    RS_FMT_K_SLOT_WIDTH = 40,
    RS_FMT_K_INDEX_BITS = 44,
    RS_FMT_K_FACTORY = 48,
    RS_FMT_K_RESERVED = 52
};
/* Default factories of a mapping: none, list, dict, set, str, float, bool, tuple, bytes, frozenset, complex, bytearray,
 * int. */
enum { RS_FMT_FACTORY_NONE = 0, RS_FMT_FACTORY_INT = 12, RS_FMT_FACTORY_LAST = 12 };

/* The head and the kinds of SAVED_INDEX. */
enum {
    RS_FMT_SAVED_HEAD_SIZE = 64,
    RS_FMT_S_KIND = 0,
    RS_FMT_S_IN_ORDER = 4,
    RS_FMT_S_N_RECORDS = 8,
    RS_FMT_S_PATH_SIZE = 16,
    RS_FMT_S_KEYS_SIZE = 24,
    RS_FMT_S_RESERVED = 32
};
enum { RS_FMT_SAVED_RECORDS = 1, RS_FMT_SAVED_GROUPS = 2 };

/* The ordinal of 1970-01-01, from which other formats count days. */
#define RS_FMT_EPOCH_ORDINAL INT64_C(719163)

/* Limits. */
enum {
    RS_FMT_GROUP_RECORDS = 64,
    RS_FMT_BLOCK_RECORDS = 65536,
    RS_FMT_BLOCK_RAW = 8388608,
    RS_FMT_BLOCK_RAW_HARD = 16777216,
    RS_FMT_TREE_NODES = 4096,
    RS_FMT_TREE_SHAPES = 1024,
    RS_FMT_TREE_BYTES = 1048576,
    RS_FMT_DEPTH = 200,
    RS_FMT_EXTRA_DEPTH = 4,
    RS_FMT_DTYPE_LEVELS = 8,
    RS_FMT_DTYPE_FIELDS = 1024,
    RS_FMT_TEXT_PARTS = 8192,
    RS_FMT_ARRAY_INLINE = 1024,
    RS_FMT_ALIGNMENT = 64,
    RS_FMT_DIRECTORY_ENTRIES = 64,
    RS_FMT_SAVED_INDEXES = 16,
    RS_FMT_INDEX_PATH = 65536,
    RS_FMT_TABLE_LEVELS = 8,
    RS_FMT_PROBE_MEAN = 64
};
#define RS_FMT_READER_VALUES UINT64_C(268435456)
#define RS_FMT_READER_BYTES UINT64_C(4294967296)
#define RS_FMT_BECOMES_VALUES UINT64_C(64)
#define RS_FMT_BECOMES_BYTES UINT64_C(1024)
#define RS_FMT_RECORDS (UINT64_C(1) << 48)
#define RS_FMT_FIXED_SIZE (UINT64_C(1) << 31)

RS_STATIC_ASSERT(RS_FMT_H_HEADER_CRC + 4 == RS_FMT_HEADER_SIZE, "the checksum ends the header");
RS_STATIC_ASSERT(RS_FMT_B_PLACES_SIZE + 8 == RS_FMT_BLOCK_SIZE, "block entry");
RS_STATIC_ASSERT(RS_FMT_K_RESERVED + 12 == RS_FMT_KEYS_HEAD_SIZE, "head of KEY_INDEX");
RS_STATIC_ASSERT(RS_FMT_S_RESERVED + 32 == RS_FMT_SAVED_HEAD_SIZE, "head of SAVED_INDEX");
RS_STATIC_ASSERT(RS_FMT_N_COUNT + 4 == RS_FMT_NODE_SIZE, "node entry");
