/* rs_verify.h: the deep check: every rule of FORMAT.md over a whole segment. The reference for "valid", but for
 * what only the reader of values can tell: that dict keys can be hashed and differ, and which hashes the keys of a
 * mapping have that are no scalars. */
#ifndef RS_VERIFY_H
#define RS_VERIFY_H

#include "read/rs_mapping.h"

/* Checks header, directory, all checksums, blocks, trees and every record, of a mapping both stores and the key
 * index. `err->record` tells the record at fault. Reads all bytes: seconds for gigabytes; needs no lock. `limits`
 * NULL: the defaults. */
RS_NODISCARD rs_status rs_verify_segment(rs_slice segment, const rs_limits *limits, rs_error *err);

/* Rules 27 and 28 over a mapping whose records have been checked. Keys that are None, bool, int of 64 bits, float,
 * str or bytes are hashed and looked up; of all others it is checked that the table holds them once, and the caller,
 * who can make their canonical forms, looks them up: each must be the first of equal keys that rs_key_probe_next
 * leads to. `err->record` is the key's record in self->keys. One thread at a time. */
RS_NODISCARD rs_status rs_verify_keys(rs_mapping *self, rs_error *err);

#endif
