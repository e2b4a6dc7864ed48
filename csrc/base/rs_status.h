/* rs_status.h: the status codes of the core and the error that travels with one.
 * Numbers are pinned, grouped with gaps and never reused: FORMAT.md names them. */
#ifndef RS_STATUS_H
#define RS_STATUS_H

#include "base/rs_base.h"

typedef int rs_status;

/* code, number, text */
#define RS_STATUS_LIST(X)                                                                            \
    X(RS_OK, 0, "ok")                                                                                \
    X(RS_E_ARG_RANGE, 100, "argument out of range")                                                  \
    X(RS_E_ARG_LIMIT, 101, "the value passes a limit of the format")                                 \
    X(RS_E_FMT_MAGIC, 200, "not a recstore segment")                                                 \
    X(RS_E_FMT_VERSION, 201, "a format version or feature that this reader does not know")           \
    X(RS_E_FMT_TRUNCATED, 202, "the bytes end too early")                                            \
    X(RS_E_FMT_CHECKSUM, 203, "a checksum does not match")                                           \
    X(RS_E_FMT_SECTION, 204, "a section lies outside the segment, overlaps or is misaligned")        \
    X(RS_E_FMT_TREE, 205, "a schema tree is malformed")                                              \
    X(RS_E_FMT_BLOCK, 206, "a block entry is malformed")                                             \
    X(RS_E_FMT_OFFSET, 207, "a record offset is out of bounds")                                      \
    X(RS_E_FMT_TAG, 208, "a tag with no meaning")                                                    \
    X(RS_E_FMT_VALUE, 209, "a value is malformed")                                                   \
    X(RS_E_FMT_LIMIT, 210, "a record exceeds the limits declared or accepted")                       \
    X(RS_E_FMT_TRAILING, 211, "bytes are left over after a record")                                  \
    X(RS_E_FMT_RESERVED, 212, "a reserved field is not zero")                                        \
    X(RS_E_FMT_KEYS, 213, "the key index of a mapping is malformed")                                 \
    X(RS_E_STATE_FINISHED, 300, "the builder is already finished")                                   \
    X(RS_E_STATE_EXISTS, 301, "the name exists already")                                             \
    X(RS_E_STATE_BUSY, 302, "another process has it locked")                                         \
    X(RS_E_SYS, 400, "a system call failed")                                                         \
    X(RS_E_SYS_NOT_FOUND, 401, "no such segment")                                                    \
    X(RS_E_SYS_NOT_OURS, 402, "the file is not one that recstore made for this user")                \
    X(RS_E_MEM, 500, "out of memory")                                                                \
    X(RS_E_SPACE, 501, "not enough space for the segment")

enum {
#define RS_STATUS_ENUM(name, number, text) name = number,
    RS_STATUS_LIST(RS_STATUS_ENUM)
#undef RS_STATUS_ENUM
};

enum { RS_ERROR_MESSAGE_SIZE = 256 };

/* Owns nothing. Filled whenever a function that takes one returns a code other than RS_OK. */
typedef struct rs_error {
    rs_status code;
    int sys_errno;       /* errno of the failed call, 0 where none was */
    uint64_t offset;     /* byte position in the segment, UINT64_MAX where it means nothing */
    uint64_t record;     /* record number, UINT64_MAX where it means nothing */
    uint64_t needed;     /* RS_E_SPACE: bytes asked for */
    uint64_t available;  /* RS_E_SPACE: bytes the limit leaves */
    char message[RS_ERROR_MESSAGE_SIZE];
} rs_error;

/* Text of a code, a static string; "unknown status" for others. Any thread. */
const char *rs_status_text(rs_status code);
/* Identifier of a code ("RS_E_FMT_TAG"), a static string. Any thread. */
const char *rs_status_name(rs_status code);

/* Empties `err`; NULL is allowed. */
void rs_error_clear(rs_error *err);

/* Fills `err` (NULL is allowed) and returns `code`, so that a caller can `return rs_error_set(...)`.
 * Never allocates. */
RS_COLD rs_status rs_error_set(rs_error *err, rs_status code, uint64_t offset, const char *format, ...)
    RS_PRINTF(4, 5);
/* The same with the errno of a failed system call appended as text. */
RS_COLD rs_status rs_error_set_errno(rs_error *err, rs_status code, int sys_errno, const char *format, ...)
    RS_PRINTF(4, 5);

#define RS_NOWHERE UINT64_MAX

/* Passes a failure on. Only where nothing is held that would have to be released. */
#define RS_TRY(expr)                                   \
    do {                                               \
        rs_status rs_try_ = (expr);                    \
        if (RS_UNLIKELY(rs_try_ != RS_OK)) return rs_try_; \
    } while (0)

#endif
