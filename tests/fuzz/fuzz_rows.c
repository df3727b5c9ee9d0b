/* fuzz_rows.c - a text file as rows of fields. First byte: which ending it has. */
#include "data/index/rows.h"
#include "tests/fuzz/fuzz.h"
#include <stdio.h>
#include <string.h>

int fuzz_rows(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "x.csv", "x.tsv", "x.txt" };
    char path[300], *fields[ROWS_FIELDS];
    Rows rows;
    int count = 0, line = 0;
    if (size < 1) return 0;
    const char *name = names[data[0] % 3];
    fuzz_write(name, data + 1, size - 1);
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    if (rows_open(&rows, path) == OK)
        while (rows_next(&rows, fields, &count) == OK && count > 0) {
            ASSERT(count <= ROWS_FIELDS && rows.line > line);
            line = rows.line;
            for (int i = 0; i < count; i++) {
                ASSERT(fields[i] >= rows.text && fields[i] + strlen(fields[i]) <= rows.end);
                fuzz_use((const uint8_t *)fields[i], strlen(fields[i]));
            }
        }
    rows_close(&rows);
    return 0;
}
