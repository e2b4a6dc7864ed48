/* rs_verify.h: the deep check of a whole segment by the rules of FORMAT.md. Only Python can check the rest: text in
 * arrays, that dict keys are hashable and distinct, the steps of the paths of saved indexes, and the keys that
 * rs_verify_saved_indexes and rs_verify_keys leave out. */
#pragma once

#include "base/rs_watch.h"
#include "format/rs_saved_index.h"
#include "read/rs_mapping.h"

/* Checks header, directory, all checksums, blocks, trees, tables and every record; for a list its saved indexes, for a
 * mapping both stores and the key index. Reads all bytes, which takes seconds for gigabytes. err->record becomes the
 * number of the record at fault. `limits` may be NULL for the defaults, and `watch` for a check that cannot be stopped;
 * RS_E_STATE_STOPPED if it stops the check. Needs no lock; any thread. */
RS_NODISCARD rs_status rs_verify_segment(rs_slice segment, const rs_limits *limits, rs_watch *watch, rs_error *err);

/* Checks the slots and opaque numbers of a key index (rules 27 and 28), but not the keys. `seen` has n_entries zeros;
 * the byte of each entry becomes RS_SEEN_SLOT or RS_SEEN_OPAQUE. `watch` as above. Any thread. */
enum { RS_SEEN_SLOT = 1, RS_SEEN_OPAQUE = 2 };
RS_NODISCARD rs_status rs_verify_slots(const rs_keys *keys, uint8_t *seen, rs_watch *watch, rs_error *err);

/* Checks rules 36 and 38 for all saved indexes of a list, but not that records have the keys of their entries: the
 * caller reads the fields, and checks that the first key of each entry leads to the entry. `watch` as above. Any
 * thread. */
RS_NODISCARD rs_status rs_verify_saved_indexes(const rs_store *store, rs_watch *watch, rs_error *err);

/* Checks rules 27, 28 and 45 for a mapping whose records have been checked. Hashes and looks up keys that are None,
 * bool, 64-bit int, str, bytes, or a float that equals no int beyond 64 bits, except a str that rs_store_scalar does
 * not read. For other keys it only checks that the index has them once. The caller makes their canonical forms and
 * looks them up: each must be the first equal key from rs_key_probe_next. err->record becomes the number of the key's
 * record in self->keys. `watch` as above. One thread at a time. */
RS_NODISCARD rs_status rs_verify_keys(rs_mapping *self, rs_watch *watch, rs_error *err);
