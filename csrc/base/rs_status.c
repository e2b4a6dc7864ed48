/* rs_status.c: the texts of the status codes, and the functions that fill an rs_error. */
#include "base/rs_status.h"

#include <stdarg.h>
#include <stdio.h>

const char *rs_status_text(rs_status code) {
    switch (code) {
#define RS_STATUS_TEXT(name, number, text) \
    case number: return text;
        RS_STATUS_LIST(RS_STATUS_TEXT)
#undef RS_STATUS_TEXT
    default: return "unknown status";
    }
}

const char *rs_status_name(rs_status code) {
    switch (code) {
#define RS_STATUS_NAME(name, number, text) \
    case number: return #name;
        RS_STATUS_LIST(RS_STATUS_NAME)
#undef RS_STATUS_NAME
    default: return "unknown status";
    }
}

void rs_error_clear(rs_error *err) {
    if (err == NULL) return;
    err->code = RS_OK;
    err->sys_errno = 0;
    err->offset = RS_NOWHERE;
    err->record = RS_NOWHERE;
    err->needed = 0;
    err->available = 0;
    err->message[0] = '\0';
}

rs_status rs_error_set(rs_error *err, rs_status code, uint64_t offset, const char *format, ...) {
    va_list args;
    if (err == NULL) return code;
    rs_error_clear(err);
    err->code = code;
    err->offset = offset;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return code;
}

rs_status rs_no_memory(rs_error *err) { return rs_error_set(err, RS_E_MEM, RS_NOWHERE, "out of memory"); }

rs_status rs_error_set_errno(rs_error *err, rs_status code, int sys_errno, const char *format, ...) {
    va_list args;
    if (err == NULL) return code;
    rs_error_clear(err);
    err->code = code;
    err->sys_errno = sys_errno;
    va_start(args, format);
    int n = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof err->message) {
        /* strerror is not thread-safe everywhere. The Python binding turns the number into text. */
        (void)snprintf(err->message + n, sizeof err->message - (size_t)n, " (errno %d)", sys_errno);
    }
    return code;
}
