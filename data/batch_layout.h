/* batch_layout.h - a batch is one block of memory with named fields in it, one for each input of
 * the network that a batch brings. Whoever makes batches says which there are; whoever computes
 * finds its inputs by these names, which are the graph's. Types and shapes are the inputs'. */
#ifndef CONVOY_DATA_BATCH_LAYOUT_H
#define CONVOY_DATA_BATCH_LAYOUT_H
#include <stddef.h>

typedef struct BatchField {
    const char *name; /* borrowed */
    size_t offset, bytes;
} BatchField;
typedef struct BatchLayout {
    BatchField fields[12];
    int count;
    size_t bytes; /* of the block; SIZE_MAX: more than there can be */
} BatchLayout;

/* Adds a field of count elements, bytes each, at an aligned offset. */
void batch_layout_add(BatchLayout *layout, const char *name, size_t count, size_t bytes);
/* Address of a field in a block, or NULL if the layout has no field of that name. */
void *batch_layout_at(const BatchLayout *layout, void *block, const char *name);
#endif
