/* sample_images.c - images: the view of each (worker.h), its class and what is to be erased. */
#include "base/mem.h"
#include "data/load/sample_maker.h"
#include "data/load/worker.h"
#include <string.h>

typedef struct ImageMaker {
    SampleMaker base;
    const Source *source;
    const ViewOptions *view;
    Worker *worker;
    size_t image_bytes;
} ImageMaker;

static void destroy(SampleMaker *m)
{
    worker_destroy(((ImageMaker *)m)->worker);
    mem_free(m);
}

static Status create(SampleMaker **out, const Source *source, const LoaderOptions *o)
{
    ImageMaker *m = mem_calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return ERR_MEMORY;
    m->source = source;
    m->view = &o->view;
    m->image_bytes = loader_image_bytes(o);
    Status status = worker_create(&m->worker);
    if (status == OK) *out = &m->base;
    else destroy(&m->base);
    return status;
}

static ByteBuf *bytes(SampleMaker *m)
{
    return worker_bytes(((ImageMaker *)m)->worker);
}

static Status make(SampleMaker *maker, const Sample *sample, const AugmentDraw *draw,
                   RingSlot *slot, int64_t index)
{
    const ImageMaker *m = (ImageMaker *)maker;
    TRY(worker_show(m->worker, m->source, draw->sample, sample, m->view, draw,
                    slot->images + (size_t)index * m->image_bytes));
    slot->labels[index] = m->source->kind->label(m->source, draw->sample);
    slot->erase[index] = (EraseBox){ 0 };
    if (m->view->training)
        slot->erase[index] = policy_draw_erase(m->view->policy.erase, m->view->image_size,
                                               m->view->image_size, draw);
    return OK;
}

static void blank(SampleMaker *maker, RingSlot *slot, int64_t index)
{
    const ImageMaker *m = (ImageMaker *)maker;
    memset(slot->images + (size_t)index * m->image_bytes, 0, m->image_bytes);
    slot->labels[index] = -1;
    slot->erase[index] = (EraseBox){ 0 };
}

const SampleMakerKind sample_images = {
    .create = create, .destroy = destroy, .bytes = bytes, .make = make, .blank = blank
};
