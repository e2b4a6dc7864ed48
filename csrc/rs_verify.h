/* rs_verify.h: the deep check: every rule of FORMAT.md over a whole segment. The reference for "valid". */
#ifndef RS_VERIFY_H
#define RS_VERIFY_H

#include "rs_header.h"

/* Checks header, directory, all checksums, blocks, trees and every record. `err->record` tells the record at fault. Reads all
 * bytes: seconds for gigabytes; needs no lock. `limits` NULL: the defaults. */
RS_NODISCARD rs_status rs_verify_segment(rs_slice segment, const rs_limits *limits, rs_error *err);

#endif
