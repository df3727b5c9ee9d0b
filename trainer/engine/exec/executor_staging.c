/* executor_staging.c - which weight gradients a device converts together (DeviceVTable.stage): rows
 * of those that follow each other on their lane.
 *
 * A row ends with its bucket, so whoever waits for a bucket's last gradient has all of them in the
 * type of the slab, and nobody is made to wait for a later bucket. One memory serves all rows: they
 * follow each other on the lane. Only what lies in the GRAD slab is staged, since nothing within a
 * run reads or overwrites that. */
#include "trainer/engine/exec/executor_internal.h"

/* of a row: little enough to be converted from the second-level cache of large devices */
#define STAGING_BYTES ((size_t)16 << 20)
#define NO_BUCKET     (-1)

typedef struct Row {
    OpInstance *ops[DEVICE_STAGE_MAX];
    int count, bucket;
    size_t bytes;
} Row;

/* Where the gradient that node makes lies in the GRAD slab, and what staging it takes; 0: it is not
 * staged. */
static size_t staged(const Program *p, int node, size_t *offset)
{
    const DeviceVTable *d = p->executor->backend->v->device;
    const TensorId made = graph_node(p->graph, node)->out[0];
    if (!d || made == TENSOR_NONE || p->plan->entries[made].slab != SLAB_GRAD) return 0;
    if (graph_tensor(p->graph, made)->last_writer != node) return 0; /* another adds to it */
    const size_t bytes = d->staging_bytes(&p->nodes[node]);
    *offset = p->plan->entries[made].offset;
    return bytes <= STAGING_BYTES ? bytes : 0;
}

size_t executor_staging_bytes(const Program *p)
{
    size_t bytes = 0, offset;
    for (int i = 0; i < graph_node_count(p->graph) && bytes < STAGING_BYTES; i++)
        bytes += staged(p, i, &offset);
    return bytes < STAGING_BYTES ? bytes : STAGING_BYTES;
}

static int bucket_of(size_t offset, const Bucket *buckets, int count)
{
    for (int k = 0; k < count; k++)
        if (offset >= buckets[k].offset && offset < buckets[k].offset + buckets[k].bytes) return k;
    return NO_BUCKET;
}

static Status end_row(const Executor *x, Row *row)
{
    Status status = OK;
    if (row->count > 0) status = x->backend->v->device->stage(row->ops, row->count, x->staging);
    *row = (Row){ .count = 0 };
    return status;
}

Status executor_stage(Program *p, const Bucket *buckets, int bucket_count)
{
    Executor *x = p->executor;
    Row row = { .count = 0 };
    size_t offset;
    for (int i = 0; i < graph_node_count(p->graph); i++) {
        const size_t bytes = staged(p, i, &offset);
        if (bytes == 0) continue;
        const int bucket = bucket_of(offset, buckets, bucket_count);
        if (bucket != row.bucket || row.count == DEVICE_STAGE_MAX ||
            row.bytes + bytes > x->staging_bytes)
            TRY(end_row(x, &row));
        row.ops[row.count++] = &p->nodes[i];
        row.bucket = bucket;
        row.bytes += bytes;
    }
    return end_row(x, &row);
}
