/* jpeg_version.h - which libjpeg this is: the one that is loaded, not the one whose headers the
 * program was compiled with. */
#ifndef CONVOY_DATA_DECODE_JPEG_VERSION_H
#define CONVOY_DATA_DECODE_JPEG_VERSION_H
#include <stddef.h>
#include <stdint.h>

/* "libjpeg-turbo 3.2.0", or "libjpeg-turbo 3.2.0, compiled with 2.1.5" where they differ. */
void jpeg_version_text(char *text, size_t room);
/* The same for a library whose file has these bytes. */
void jpeg_version_of(const uint8_t *file, size_t bytes, char *text, size_t room);
#endif
