/* class_names.c - a block of pointers and the text they point into. */
#include "data/source/class_names.h"
#include "base/fs.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

#define NUMBER_BYTES 12 /* a decimal int and its NUL */

/* Cuts text into lines in place; pointers to them go to names where that is not NULL. Trailing
 * empty lines count not.
 */
static int cut_lines(char *text, char **names)
{
    int count = 0;
    for (char *at = text; *at;) {
        char *end = at + strcspn(at, "\n"), *next = *end ? end + 1 : end;
        if (names) {
            *end = '\0';
            if (end > at && end[-1] == '\r') end[-1] = '\0';
            names[count] = at;
        }
        count++;
        at = next;
    }
    return count;
}

static Status check_names(const char *path, char *const *names, int *count)
{
    while (*count > 0 && names[*count - 1][0] == '\0') --*count;
    for (int i = 0; i < *count; i++)
        if (names[i][0] == '\0')
            return fail(ERR_DATA, "%s: line %d is empty, class %d has no name", path, i + 1, i);
    return *count > 0 ? OK : fail(ERR_DATA, "%s: no class names in it", path);
}

static Status names_of_file(const char *path, char ***names, int *count)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    TRY(fs_read_limited(path, FS_TEXT_BYTES, &text, &bytes));
    int lines = memchr(text, 0, bytes) ? 0 : cut_lines((char *)text, NULL);
    size_t table = (size_t)lines * sizeof **names;
    char **block = mem_alloc(table + bytes + 1);
    if (!block) {
        mem_free(text);
        return ERR_MEMORY;
    }
    char *copy = (char *)(block + lines);
    memcpy(copy, text, bytes + 1);
    mem_free(text);
    if (lines) cut_lines(copy, block);
    *names = block;
    *count = lines;
    return check_names(path, block, count);
}

Status class_names_read(const char *folder, const char *name, char ***names, int *count)
{
    *names = NULL;
    *count = 0;
    char *path = fs_join(folder, name);
    if (!path) return ERR_MEMORY;
    Status status = fs_exists(path) ? names_of_file(path, names, count) : OK;
    mem_free(path);
    if (status == OK) return OK;
    mem_free(*names);
    *names = NULL;
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
