/* sample_images.c - images: the view of each (worker.h), its class, what is to be erased of it
 * and mixed with it. */
#include "data/load/sample_maker.h"
#include <string.h>

static BatchLayout lay_out_images(const LoaderOptions *o)
{
    BatchLayout layout = { .count = 0 };
    const size_t batch = (size_t)o->batch, size = (size_t)o->view.image_size;
    batch_layout_add(&layout, "images", batch, size * size * (size_t)o->view.channels);
    batch_layout_add(&layout, "labels", batch, sizeof(int32_t));
    if (o->classes > 0) batch_layout_add(&layout, "targets", batch, index_label_bytes(o->classes));
    if (o->view.policy.erase > 0) batch_layout_add(&layout, "erase", batch, sizeof(EraseBox));
    if (o->mix.mixup > 0 || o->mix.cutmix > 0)
        batch_layout_add(&layout, "mix", 1, sizeof(MixValues));
    return layout;
}

static Status make_image(const SampleTask *t)
{
    const ViewOptions *view = &t->o->view;
    const size_t bytes =
        (size_t)view->image_size * (size_t)view->image_size * (size_t)view->channels;
    uint8_t *images = batch_layout_at(t->layout, t->block, "images");
    int32_t *labels = batch_layout_at(t->layout, t->block, "labels");
    EraseBox *erase = batch_layout_at(t->layout, t->block, "erase");
    uint8_t *targets = batch_layout_at(t->layout, t->block, "targets");
    const size_t target_bytes = index_label_bytes(t->o->classes);
    labels[t->index] = -1;
    if (targets) memset(targets + (size_t)t->index * target_bytes, 0, target_bytes);
    if (erase) erase[t->index] = (EraseBox){ 0 };
    images += (size_t)t->index * bytes;
    if (!t->sample) memset(images, 0, bytes);
    if (!t->sample) return OK;
    TRY(worker_show(t->worker, t->source, t->draw.sample, t->sample, view,
                    t->training ? &t->draw : NULL, images));
    labels[t->index] = targets ? 0 : t->source->kind->label(t->source, t->draw.sample);
    if (targets)
        memcpy(targets + (size_t)t->index * target_bytes,
               t->source->labels + (size_t)t->draw.sample * t->source->label_bytes,
               t->source->label_bytes);
    if (erase && t->training)
        erase[t->index] =
            policy_draw_erase(view->policy.erase, view->image_size, view->image_size, &t->draw);
    return OK;
}

static void mix_images(const LoaderOptions *o, Batch *batch, int64_t first, int64_t epoch)
{
    MixValues *out = batch_layout_at(batch->layout, batch->block, "mix");
    MixDraw m = { .lambda = 1 };
    if (!out) return;
    if (epoch >= 0 && !mix_is_over(&o->mix, epoch))
        m = mix_draw(&o->mix, o->seed, batch->step, first, o->view.image_size, o->view.image_size);
    *out = (MixValues){ (float)m.lambda, (float)(1.0 - m.lambda), m.box,         (float)m.top,
                        (float)m.left,   (float)m.bottom,         (float)m.right };
}

const SampleMaker sample_images = { lay_out_images, make_image, mix_images };
