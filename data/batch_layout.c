/* batch_layout.c - see batch_layout.h. */
#include "data/batch_layout.h"
#include "base/mem.h"
#include <string.h>

void batch_layout_add(BatchLayout *layout, const char *name, size_t count, size_t bytes)
{
    BatchField field = { .name = name };
    ASSERT(layout->count < BATCH_FIELDS_MAX);
    if (!mem_mul(count, bytes, &field.bytes) || field.bytes > SIZE_MAX / 2 ||
        layout->bytes > SIZE_MAX / 2) {
        layout->bytes = SIZE_MAX;
        return;
    }
    field.offset = (layout->bytes + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
    layout->bytes = field.offset + field.bytes;
    layout->fields[layout->count++] = field;
}

const BatchField *batch_layout_find(const BatchLayout *layout, const char *name)
{
    for (int i = 0; i < layout->count; i++)
        if (strcmp(layout->fields[i].name, name) == 0) return &layout->fields[i];
    return NULL;
}
