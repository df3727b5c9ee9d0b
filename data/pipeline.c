/* pipeline.c - read -> decode -> augment for one image on one thread.
 *
 * All memory on this way is the worker's and grows to a high-water mark, so that after the largest images have passed
 * nothing of ours is allocated; a buffer that one giant has grown is given back. */
#include "data/pipeline.h"
#include "base/mem.h"
#include "data/decode.h"

#define TRIM_BYTES     ((size_t)64 << 20)
#define MAX_NAME_BYTES 768

struct Worker {
    ByteBuf file;
    ByteBuf converted; /* raw pixels after a change of channels */
    Decoder *decoder;
    ViewScratch view;
};

Status worker_create(Worker **out)
{
    *out = NULL;
    Worker *w = mem_calloc(1, sizeof *w);
    if (!w) return ERR_MEMORY;
    Status status = decoder_create(&w->decoder);
    if (status != OK) {
        worker_destroy(w);
        return status;
    }
    *out = w;
    return OK;
}

void worker_destroy(Worker *w)
{
    if (!w) return;
    decoder_destroy(w->decoder);
    buf_free(&w->file);
    buf_free(&w->converted);
    view_scratch_free(&w->view);
    mem_free(w);
}

static void trim(Worker *w)
{
    decoder_trim(w->decoder);
    buf_trim(&w->converted, TRIM_BYTES);
    view_scratch_trim(&w->view, TRIM_BYTES);
}

ByteBuf *worker_bytes(Worker *w)
{
    buf_trim(&w->file, TRIM_BYTES);
    return &w->file;
}

/* Decodes what was read, where it is encoded. */
static Status decode(Worker *w, const Source *source, int64_t id, const Sample *sample, int channels, ImageView *view)
{
    if (!sample->encoded) {
        *view = sample->image;
        return image_convert(view, channels, &w->converted);
    }
    Status status = decoder_decode(w->decoder, sample->data, sample->bytes, channels, view);
    if (status != OK) {
        char name[MAX_NAME_BYTES];
        source->kind->describe(source, id, name, sizeof name);
        return fail_note(status, "%s", name);
    }
    return OK;
}

Status worker_load(Worker *w, const Source *source, int64_t id, int image_size, int channels, ImageView *view,
                   bool *raw, size_t *bytes_read)
{
    Sample sample;
    trim(w);
    TRY(source->kind->read(source, id, image_size, worker_bytes(w), &sample));
    *bytes_read = sample.bytes;
    *raw = !sample.encoded;
    return decode(w, source, id, &sample, channels, view);
}

Status worker_show(Worker *w, const Source *source, int64_t id, const Sample *sample, const ViewOptions *o,
                   const AugmentDraw *draw, uint8_t *out)
{
    ImageView image;
    trim(w);
    TRY(decode(w, source, id, sample, o->channels, &image));
    /* Raw pixels (MNIST, synthetic) are no photographs with a border to cut off: they are only brought to size. */
    int resize = !sample->encoded || o->eval_resize == 0 ? o->image_size : o->eval_resize;
    AugmentPlan plan = o->training ? augment_draw(o->augment, image.width, image.height, resize, o->image_size, draw)
                                   : augment_center(image.width, image.height, resize, o->image_size);
    PixelBox pixels = image_as_box(&image);
    return view_make(&plan, o->filter, &pixels, o->channels, &w->view, out);
}
