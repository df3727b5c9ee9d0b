/* imagenet_names.c - see imagenet_names.h. The file is in the program, so that it is there wherever
 * that is copied to, and so is its licence. */
#include "trainer/engine/files/imagenet_names.h"
#include "base/status.h"
#include <stdio.h>
#include <string.h>

__asm__(".section .rodata\n"
        "imagenet_lines: .incbin \"configs/names/imagenet1k.txt\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char imagenet_lines[] __attribute__((visibility("hidden")));

void imagenet_name(int64_t label, char *out, size_t bytes)
{
    const char *line = strstr(imagenet_lines, "\nn") + 1; /* behind the licence */
    ASSERT(label >= 0 && label < IMAGENET_CLASSES);
    while (label-- > 0) line = strchr(line, '\n') + 1;
    const char *name = strchr(line, '\t') + 1;
    snprintf(out, bytes, "%.*s", (int)strcspn(name, "\n"), name);
}
