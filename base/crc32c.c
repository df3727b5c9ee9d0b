/* crc32c.c - the polynomial 0x82F63B78 (Castagnoli's, reflected), by instruction or by table.
 *
 * On x86-64 with SSE 4.2 the processor has an instruction for it; elsewhere eight tables take eight
 * bytes a step ("slicing by 8"). The tables are computed once, at the first use. */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82F63B78u

/* tables[k][v]: the effect of byte v followed by k zero bytes; constant after build_tables() */
static uint32_t tables[8][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void build_tables(void)
{
    for (uint32_t v = 0; v < 256; v++) {
        uint32_t crc = v;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) ? POLYNOMIAL : 0);
        tables[0][v] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (int v = 0; v < 256; v++)
            tables[k][v] = (tables[k - 1][v] >> 8) ^ tables[0][tables[k - 1][v] & 255];
    }
}

uint32_t crc32c_update_portable(uint32_t crc, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    pthread_once(&tables_once, build_tables);
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint32_t low =
            crc ^ (p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^
              tables[4][low >> 24] ^ tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^
              tables[0][p[7]];
    }
    for (; bytes > 0; bytes--) crc = (crc >> 8) ^ tables[0][(crc ^ *p++) & 255];
    return ~crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *data,
                                                               size_t bytes)
{
    const unsigned char *p = data;
    uint64_t wide = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; bytes > 0; bytes--) crc = _mm_crc32_u8(crc, *p++);
    return ~crc;
}

uint32_t crc32c_update(uint32_t crc, const void *data, size_t bytes)
{
    return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(crc, data, bytes)
                                            : crc32c_update_portable(crc, data, bytes);
}
#else
uint32_t crc32c_update(uint32_t crc, const void *data, size_t bytes)
{
    return crc32c_update_portable(crc, data, bytes);
}
#endif
