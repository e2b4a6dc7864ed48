/* rs_status.h: the status codes of the core, and the struct that describes an error. The number of a code never changes
 * and is never reused. FORMAT.md names the codes RS_E_FMT_*. */
#pragma once

#include "base/rs_base.h"

typedef int rs_status;

/* code, number, text */
#define RS_STATUS_LIST(X) \
    X(RS_OK, 0, "ok") \
    X(RS_E_ARG_RANGE, 100, "argument out of range") \
    X(RS_E_ARG_LIMIT, 101, "the value exceeds a limit of the format") \
    X(RS_E_ARG_TEXT, 103, "a text that UTF-8 cannot express") \
    X(RS_E_FMT_MAGIC, 200, "not a recstore segment") \
    X(RS_E_FMT_VERSION, 201, "a format version or feature that this reader does not know") \
    X(RS_E_FMT_TRUNCATED, 202, "the bytes end too early") \
    X(RS_E_FMT_CHECKSUM, 203, "a checksum does not match") \
    X(RS_E_FMT_SECTION, 204, "a section lies outside the segment, overlaps or is misaligned") \
    X(RS_E_FMT_TREE, 205, "a schema tree is malformed") \
    X(RS_E_FMT_BLOCK, 206, "a block entry is malformed") \
    X(RS_E_FMT_OFFSET, 207, "a record offset is out of bounds") \
    X(RS_E_FMT_TAG, 208, "a tag with no meaning") \
    X(RS_E_FMT_VALUE, 209, "a value is malformed") \
    X(RS_E_FMT_LIMIT, 210, "a record exceeds the limits declared or accepted") \
    X(RS_E_FMT_TRAILING, 211, "bytes are left over after a record") \
    X(RS_E_FMT_RESERVED, 212, "a reserved field is not zero") \
    X(RS_E_FMT_KEYS, 213, "the key index of a mapping is malformed") \
    X(RS_E_STATE_FINISHED, 300, "the builder is already finished") \
    X(RS_E_STATE_EXISTS, 301, "the name exists already") \
    X(RS_E_STATE_BUSY, 302, "another process has locked the file") \
    X(RS_E_STATE_STOPPED, 303, "the caller has ended the work") \
    X(RS_E_STATE_ABSENT, 304, "the bytes are not here yet") \
    X(RS_E_SYS, 400, "a system call failed") \
    X(RS_E_SYS_NOT_FOUND, 401, "no such segment") \
    X(RS_E_SYS_NOT_OURS, 402, "recstore did not make this file for this user") \
    X(RS_E_MEM, 500, "out of memory") \
    X(RS_E_SPACE, 501, "not enough space for the segment") \
    X(RS_E_IN_BROKEN, 600, "the input table breaks a rule of the Arrow C data interface") \
    X(RS_E_IN_TYPE, 601, "the input table has a column of a type that cannot be stored") \
    X(RS_E_IN_VALUE, 602, "the input table holds a value that cannot be stored") \
    X(RS_E_IN_FAILED, 603, "the producer of a table failed")

enum {
#define RS_STATUS_ENUM(name, number, text) name = number,
    RS_STATUS_LIST(RS_STATUS_ENUM)
#undef RS_STATUS_ENUM
};

enum { RS_ERROR_MESSAGE_SIZE = 256 };

/* Describes an error, and owns nothing. A function with an rs_error argument fills it when it does not return RS_OK. */
typedef struct rs_error {
    rs_status code;
    int sys_errno;      /* errno of the failed system call; 0 when no call failed */
    uint64_t offset;    /* byte position in the segment, or RS_NOWHERE */
    uint64_t record;    /* record number, or RS_NOWHERE */
    uint64_t needed;    /* with RS_E_SPACE: the requested bytes; with RS_E_STATE_ABSENT: their number, from offset */
    uint64_t available; /* with RS_E_SPACE: the bytes that the limit leaves */
    char message[RS_ERROR_MESSAGE_SIZE];
} rs_error;

/* Returns the text of a code, a static string; "unknown status" for a number without a code. Any thread. */
const char *rs_status_text(rs_status code);
/* Returns the identifier of a code, such as "RS_E_FMT_TAG", a static string; "unknown status" likewise. Any thread. */
const char *rs_status_name(rs_status code);

/* Empties `err`; NULL is allowed. */
void rs_error_clear(rs_error *err);

/* Fills `err` (NULL is allowed) and returns `code`, for `return rs_error_set(...)`. `offset` is a byte position in the
 * segment or RS_NOWHERE. The message is cut to RS_ERROR_MESSAGE_SIZE - 1 bytes. Allocates nothing. */
RS_COLD rs_status rs_error_set(rs_error *err, rs_status code, uint64_t offset, const char *format, ...) RS_PRINTF(4, 5);
/* Fills `err` (NULL is allowed) with RS_E_MEM and returns that code. */
RS_COLD rs_status rs_no_memory(rs_error *err);
/* As rs_error_set without an offset. Stores the errno of a system call and appends its number to the message. */
RS_COLD rs_status rs_error_set_errno(rs_error *err, rs_status code, int sys_errno, const char *format, ...)
    RS_PRINTF(4, 5);

#define RS_NOWHERE UINT64_MAX

/* Returns the status of `expr` if it is not RS_OK. For functions with nothing to release. */
#define RS_TRY(expr) \
    do { \
        rs_status rs_try_ = (expr); \
        if (RS_UNLIKELY(rs_try_ != RS_OK)) return rs_try_; \
    } while (0)
