/* pipeline.h - one image's way from source to slot, as one thread walks it. */
#ifndef CONVOY_DATA_PIPELINE_H
#define CONVOY_DATA_PIPELINE_H
#include "data/augment.h"
#include "data/source.h"
#include "data/view.h"

typedef struct Worker Worker; /* a thread's scratch: file bytes, decoder, resize rows */
Status worker_create(Worker **out);
void worker_destroy(Worker *w); /* NULL ok */

/* Reads and decodes sample id to channels. *view is borrowed until the next call; *raw: the source had pixels, not a
 * file. Errors as Source.read: ERR_DATA = a bad sample, and the sentence starts with its name. */
Status worker_load(Worker *w, const Source *source, int64_t id, int image_size, int channels, ImageView *view,
                   bool *raw, size_t *bytes_read);

typedef struct ViewOptions { /* what the network is to see */
    int image_size, eval_resize, channels;
    Augment augment;
    ResizeFilter filter;
    bool training;
} ViewOptions;

/* Writes the view of sample id, which was read before, to out, [image_size, image_size, channels]; draw is used in
 * training only. The sample's bytes may lie in worker_bytes(). */
Status worker_show(Worker *w, const Source *source, int64_t id, const Sample *sample, const ViewOptions *o,
                   const AugmentDraw *draw, uint8_t *out);
ByteBuf *worker_bytes(Worker *w); /* the worker's own buffer to read into */
#endif
