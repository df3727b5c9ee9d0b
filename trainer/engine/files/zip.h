/* zip.h - the files in a zip archive that are stored as they are: where each lies in its bytes. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_ZIP_H
#define CONVOY_TRAINER_ENGINE_FILES_ZIP_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct ZipEntry {
    const char *name; /* in the archive, without an end */
    size_t name_bytes;
    const uint8_t *data;
    size_t bytes;
} ZipEntry;

/* Calls take() with each file. ERR_DATA with the reason, not naming the archive, where a range
 * leaves it, or a file in it is compressed or encrypted. */
Status zip_walk(const uint8_t *archive, size_t bytes,
                Status (*take)(void *cookie, const ZipEntry *e), void *cookie);
#endif
