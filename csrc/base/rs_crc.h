/* rs_crc.h: the checksum of segments, CRC-32C (Castagnoli polynomial, reflected; RFC 3720 section B.4). */
#pragma once

#include "base/rs_base.h"

/* Returns the checksum of all bytes so far: those with the checksum `crc` (0 for none), and the next `size` bytes.
 * `bytes` may be NULL when size is 0. Safe to call from any thread. */
uint32_t rs_crc32c(uint32_t crc, const void *bytes, size_t size);
