/* class_names.c - a block of pointers and the text they point into. */
#include "data/index/class_names.h"
#include "base/fs.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

#define NUMBER_BYTES 12 /* a decimal int and its NUL */

static Status check_names(const char *path, char *const *names, int *count)
{
    while (*count > 0 && names[*count - 1][0] == '\0') --*count;
    for (int i = 0; i < *count; i++)
        if (names[i][0] == '\0')
            return fail(ERR_DATA, "%s: line %d is empty, so class %d has no name", path, i + 1, i);
    return *count > 0 ? OK : fail(ERR_DATA, "%s: contains no class names", path);
}

static Status names_of_file(const char *path, char ***names, int *count)
{
    uint8_t *text FREED = NULL;
    size_t bytes = 0;
    TRY(fs_read_limited(path, FS_TEXT_BYTES, &text, &bytes));
    int lines = 1;
    for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    if (memchr(text, 0, bytes)) lines = 0; /* no text */
    size_t table = (size_t)lines * sizeof **names;
    char **block = mem_alloc(table + bytes + 1);
    if (!block) return ERR_MEMORY;
    char *at = (char *)(block + lines);
    memcpy(at, text, bytes + 1);
    for (int i = 0; i < lines; i++) {
        block[i] = at;
        at += strcspn(at, "\n");
        if (at > block[i] && at[-1] == '\r') at[-1] = '\0';
        *at++ = '\0';
    }
    *names = block;
    *count = lines;
    return check_names(path, block, count);
}

Status class_names_read(const char *folder, const char *name, char ***names, int *count)
{
    *names = NULL;
    *count = 0;
    char *path FREED = fs_join(folder, name);
    if (!path) return ERR_MEMORY;
    Status status = fs_exists(path) ? names_of_file(path, names, count) : OK;
    if (status != OK) mem_free(*names);
    if (status != OK) *names = NULL;
    return status;
}

char **class_names_numbers(int count)
{
    const size_t n = (size_t)count;
    char **names = mem_alloc(n * (sizeof *names + NUMBER_BYTES));
    for (size_t i = 0; names && i < n; i++) {
        names[i] = (char *)(names + n) + i * NUMBER_BYTES;
        snprintf(names[i], NUMBER_BYTES, "%d", (int)i);
    }
    return names;
}
