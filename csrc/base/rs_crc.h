/* rs_crc.h: CRC-32C (Castagnoli polynomial, reflected, as in RFC 3720 section B.4). */
#ifndef RS_CRC_H
#define RS_CRC_H

#include "base/rs_base.h"

/* Checksum of `size` bytes, continuing from `crc` (0 to begin). Any thread; NULL is allowed when size is 0. */
uint32_t rs_crc32c(uint32_t crc, const void *bytes, size_t size);

#endif
