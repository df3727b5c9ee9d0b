/* spread.c - see spread.h. */
#include "data/load/spread.h"
#include "base/mem.h"
#include "data/load/dataset_internal.h"
#include "data/load/worker.h"

static Status show(const Dataset *d, Worker *worker, int64_t id, const ViewOptions *o,
                   uint8_t *pixels)
{
    Sample sample;
    bool hit = false;
    TRY(dataset_read(d, id, o->image_size, worker_bytes(worker), &sample, &hit));
    return worker_show(worker, dataset_source(d), id, &sample, o, NULL, pixels);
}

Status spread_views_of(const Dataset *d, const int64_t *ids, int64_t count, const ViewOptions *o,
                       SpreadTake take, void *cookie)
{
    const size_t side = (size_t)o->image_size;
    Worker *worker = NULL;
    uint8_t *pixels = mem_alloc(side * side * (size_t)o->channels);
    Status status = pixels ? worker_create(&worker, NULL) : ERR_MEMORY;
    for (int64_t i = 0; status == OK && i < count; i++) {
        status = show(d, worker, ids[i], o, pixels);
        if (status == OK) take(cookie, i, pixels);
        else if (status == ERR_DATA) status = OK;
    }
    worker_destroy(worker);
    mem_free(pixels);
    /* Inside data/, ERR_IO tells a failing file system from a bad file. */
    return status == ERR_IO ? ERR_DATA : status;
}

Status spread_views(const Dataset *d, int64_t count, const ViewOptions *o, SpreadTake take,
                    void *cookie)
{
    const int64_t all = dataset_images(d), wanted = count < all ? count : all;
    int64_t *ids = mem_alloc((size_t)wanted * sizeof *ids);
    if (!ids) return ERR_MEMORY;
    for (int64_t i = 0; i < wanted; i++) ids[i] = i * all / wanted;
    Status status = spread_views_of(d, ids, wanted, o, take, cookie);
    mem_free(ids);
    return status;
}
