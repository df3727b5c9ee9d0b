/* batch_layout.c - see batch_layout.h. */
#include "data/batch_layout.h"
#include "base/mem.h"
#include <string.h>

void batch_layout_add(BatchLayout *layout, const char *name, size_t count, size_t bytes)
{
    BatchField *field = &layout->fields[layout->count++];
    *field = (BatchField){ name, (layout->bytes + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN, 0 };
    const bool fits = mem_mul(count, bytes, &field->bytes) && field->bytes < SIZE_MAX / 2 &&
                      layout->bytes < SIZE_MAX / 2;
    layout->bytes = fits ? field->offset + field->bytes : SIZE_MAX;
}

void *batch_layout_at(const BatchLayout *layout, void *block, const char *name)
{
    for (int i = 0; i < layout->count; i++)
        if (strcmp(layout->fields[i].name, name) == 0)
            return (char *)block + layout->fields[i].offset;
    return NULL;
}
