/* crc32c.h - CRC-32C (Castagnoli), the checksum of checkpoints, indexes, records and the config. */
#ifndef CONVOY_BASE_CRC32C_H
#define CONVOY_BASE_CRC32C_H
#include <stddef.h>
#include <stdint.h>

/* start with 0; chainable */
uint32_t crc32c_update(uint32_t crc, const void *data, size_t bytes);
/* the same without the CPU's instruction; for tests */
uint32_t crc32c_update_portable(uint32_t crc, const void *data, size_t bytes);
#endif
