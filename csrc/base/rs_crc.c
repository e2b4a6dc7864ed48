/* rs_crc.c: CRC-32C, with the SSE4.2 instruction if the processor has it, else with a table of half bytes. */
#include "base/rs_crc.h"

/* The remainders of the 16 half bytes modulo the polynomial 0x82F63B78 (reflected). Being constant, the table needs no
 * set-up at run time. */
static const uint32_t RS_CRC_NIBBLE[16] = {0x00000000u, 0x105EC76Fu, 0x20BD8EDEu, 0x30E349B1u, 0x417B1DBCu, 0x5125DAD3u,
                                           0x61C69362u, 0x7198540Du, 0x82F63B78u, 0x92A8FC17u, 0xA24BB5A6u, 0xB21572C9u,
                                           0xC38D26C4u, 0xD3D3E1ABu, 0xE330A81Au, 0xF36E6F75u};

static uint32_t crc_portable(uint32_t crc, const uint8_t *p, size_t size) {
    while (size-- > 0) {
        crc ^= *p++;
        crc = (crc >> 4) ^ RS_CRC_NIBBLE[crc & 15];
        crc = (crc >> 4) ^ RS_CRC_NIBBLE[crc & 15];
    }
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("sse4.2"))) static uint32_t crc_hardware(uint32_t crc, const uint8_t *p, size_t size) {
    uint64_t wide = crc;
    while (size >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide = __builtin_ia32_crc32di(wide, word);
        p += 8;
        size -= 8;
    }
    crc = (uint32_t)wide;
    while (size-- > 0) crc = __builtin_ia32_crc32qi(crc, *p++);
    return crc;
}
#endif

uint32_t rs_crc32c(uint32_t crc, const void *bytes, size_t size) {
    crc = ~crc;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("sse4.2")) return ~crc_hardware(crc, (const uint8_t *)bytes, size);
#endif
    return ~crc_portable(crc, (const uint8_t *)bytes, size);
}
