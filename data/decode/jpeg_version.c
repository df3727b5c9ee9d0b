/* jpeg_version.c - reads the file of the library: its functions do not tell the version, but among
 * its texts is one like "libjpeg-turbo version 3.2.0 (build 20261016)". */
#include "data/decode/jpeg_version.h"
#include "base/fs.h"
#include "base/mem.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h before it */

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x) /* expands x first: jconfig.h gives the version without quotes */

#define COMPILED_NAME    "libjpeg-turbo" /* others lack what jpeg_decoder.c needs */
#define COMPILED_VERSION TEXT(LIBJPEG_TURBO_VERSION)

#define VERSION " version "
#define BUILD   " (build "

void jpeg_version_of(const uint8_t *file, size_t bytes, char *text, size_t room)
{
    static const char same[] = COMPILED_NAME VERSION COMPILED_VERSION;
    const char *first = (const char *)file, *at = first, *last = first + bytes;
    for (; (at = memmem(at, (size_t)(last - at), BUILD, strlen(BUILD))); at++) {
        const char *start = at;
        while (start > first && start[-1] >= ' ' && start[-1] <= '~') start--;
        const char *mid = memmem(start, (size_t)(at - start), VERSION, strlen(VERSION));
        if (!mid || !memmem(start, (size_t)(mid - start), "jpeg", 4)) continue;
        const char *version = mid + strlen(VERSION);
        size_t length = (size_t)(at - start);
        bool differs = length != strlen(same) || memcmp(start, same, length) != 0;
        snprintf(text, room, "%.*s %.*s%s", (int)(mid - start), start, (int)(at - version), version,
                 differs ? ", compiled with " COMPILED_VERSION : "");
        return;
    }
    snprintf(text, room, "libjpeg of unknown version, compiled with %s %s", COMPILED_NAME,
             COMPILED_VERSION);
}

void jpeg_version_text(char *text, size_t room)
{
    struct jpeg_error_mgr errors;
    Dl_info library;
    uint8_t *file FREED = NULL;
    size_t bytes = 0;
    jpeg_std_error(&errors); /* its table of texts lies in the library */
    if (dladdr(errors.jpeg_message_table, &library) == 0 ||
        fs_read_limited(library.dli_fname, FS_TEXT_BYTES, &file, &bytes) != OK)
        bytes = 0;
    jpeg_version_of(file ? file : (const uint8_t *)"", bytes, text, room);
}
