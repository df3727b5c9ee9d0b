/* library_versions.c - names the image libraries that this program was compiled with. */
#include "data/decode/library_versions.h"
#include <spng.h>
#include <stdio.h> /* jpeglib.h uses FILE and does not include it */
#include <jpeglib.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x) /* expands x first: jconfig.h gives the version without quotes */

#ifdef LIBJPEG_TURBO_VERSION
#define JPEG_NAME "libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION)
#else
#define JPEG_NAME "libjpeg " TEXT(JPEG_LIB_VERSION)
#endif

const char *library_versions(void)
{
    return JPEG_NAME ", libspng " TEXT(SPNG_VERSION_MAJOR) "." TEXT(SPNG_VERSION_MINOR) "." TEXT(
        SPNG_VERSION_PATCH);
}
