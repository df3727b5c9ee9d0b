/* sample_images.c - images: the view of each (worker.h), its class, what is to be erased of it
 * and mixed with it. */
#include "base/mem.h"
#include "data/load/sample_maker.h"
#include "data/load/worker.h"
#include <string.h>

typedef struct ImageMaker {
    const Source *source;
    const ViewOptions *view;
    Worker *worker;
    size_t image_bytes;
    const BatchField *images, *labels, *erase;
} ImageMaker;

static size_t image_bytes(const ViewOptions *o)
{
    return (size_t)o->image_size * (size_t)o->image_size * (size_t)o->channels;
}

static void lay_out_images(const LoaderOptions *o, BatchLayout *out)
{
    const size_t batch = (size_t)o->batch;
    batch_layout_add(out, "images", batch, image_bytes(&o->view));
    batch_layout_add(out, "labels", batch, sizeof(int32_t));
    if (o->view.policy.erase > 0) batch_layout_add(out, "erase", batch, sizeof(EraseBox));
    if (o->mix.mixup > 0 || o->mix.cutmix > 0) batch_layout_add(out, "mix", 1, sizeof(MixValues));
}

static void destroy_maker(void *maker)
{
    ImageMaker *m = maker;
    if (m) worker_destroy(m->worker);
    mem_free(m);
}

static Status create_maker(void **out, const Source *source, const LoaderOptions *o,
                           const BatchLayout *layout)
{
    ImageMaker *m = mem_calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return ERR_MEMORY;
    m->source = source;
    m->view = &o->view;
    m->image_bytes = image_bytes(&o->view);
    m->images = batch_layout_find(layout, "images");
    m->labels = batch_layout_find(layout, "labels");
    m->erase = batch_layout_find(layout, "erase");
    Status status = worker_create(&m->worker);
    if (status == OK) *out = m;
    else destroy_maker(m);
    return status;
}

static ByteBuf *read_buffer(void *maker)
{
    const ImageMaker *m = maker;
    return worker_bytes(m->worker);
}

static void *at(void *block, const BatchField *field, int64_t index, size_t bytes)
{
    return (char *)block + field->offset + (size_t)index * bytes;
}

/* And the box. */
static void write_label(const ImageMaker *m, void *block, int64_t index, int32_t label,
                        const EraseBox *erase)
{
    memcpy(at(block, m->labels, index, sizeof label), &label, sizeof label);
    if (m->erase) memcpy(at(block, m->erase, index, sizeof *erase), erase, sizeof *erase);
}

static Status make_image(void *maker, const Sample *sample, const AugmentDraw *draw, void *block,
                         int64_t index)
{
    const ImageMaker *m = maker;
    const int size = m->view->image_size;
    EraseBox erase = { 0 };
    TRY(worker_show(m->worker, m->source, draw->sample, sample, m->view, draw,
                    at(block, m->images, index, m->image_bytes)));
    if (m->view->training) erase = policy_draw_erase(m->view->policy.erase, size, size, draw);
    write_label(m, block, index, m->source->kind->label(m->source, draw->sample), &erase);
    return OK;
}

static void blank_image(void *maker, void *block, int64_t index)
{
    const ImageMaker *m = maker;
    memset(at(block, m->images, index, m->image_bytes), 0, m->image_bytes);
    write_label(m, block, index, -1, &(EraseBox){ 0 });
}

static void finish_batch(const LoaderOptions *o, const BatchLayout *layout, const BatchPlace *place,
                         void *block)
{
    const BatchField *field = batch_layout_find(layout, "mix");
    MixDraw m = { .lambda = 1 };
    if (!field) return;
    if (o->view.training && !mix_is_over(&o->mix, place->position, place->samples))
        m = mix_draw(&o->mix, o->seed, place->step, place->first, o->view.image_size,
                     o->view.image_size);
    const MixValues values = { .lambda = (float)m.lambda,
                               .rest = (float)(1.0 - m.lambda),
                               .box = m.box,
                               .top = (float)m.top,
                               .left = (float)m.left,
                               .bottom = (float)m.bottom,
                               .right = (float)m.right };
    memcpy(at(block, field, 0, 0), &values, sizeof values);
}

const SampleMaker sample_images = { .layout = lay_out_images,
                                    .create = create_maker,
                                    .destroy = destroy_maker,
                                    .bytes = read_buffer,
                                    .make = make_image,
                                    .blank = blank_image,
                                    .finish = finish_batch };
