/* worker.h - one image's way from source to slot, as one thread walks it. */
#ifndef CONVOY_DATA_LOAD_WORKER_H
#define CONVOY_DATA_LOAD_WORKER_H
#include "data/augment/augment.h"
#include "data/augment/policy.h"
#include "data/augment/view.h"
#include "data/decode/seek_store.h"
#include "data/source/source.h"

typedef struct Worker Worker; /* a thread's scratch: file bytes, decoder, resize rows */
/* seeks: for files that bring no seek index, found there, or made and put there; NULL: neither. */
Status worker_create(Worker **out, SeekStore *seeks);
void worker_destroy(Worker *w); /* NULL ok */
FREED_BY_POINTER(Worker, worker_destroy)

/* Reads (source_read) and decodes the whole of sample id to channels. *out is borrowed until the
 * next call. ERR_DATA = a bad sample, and the sentence starts with its name. */
Status worker_load(Worker *w, const Source *source, int64_t id, int size, int channels, Image *out);

/* Writes the view of sample id, which was read before, to out, [image_size, image_size, channels];
 * of a file only what the view needs is decoded. draw: training's; NULL: as evaluation shows it.
 * The sample's bytes may lie in worker_bytes(). */
Status worker_show(Worker *w, const Source *source, int64_t id, const Sample *sample,
                   const ViewOptions *o, const AugmentDraw *draw, uint8_t *out);
ByteBuf *worker_bytes(Worker *w); /* the worker's own buffer to read into */

/* Makes one view of a file by a plan that was drawn elsewhere; image_size is the plan's. */
Status worker_replay(Worker *w, const Sample *sample, const AugmentPlan *plan, const ViewOptions *o,
                     uint8_t *out);
/* Applies a plan of ops that was drawn elsewhere to a view of size x size. */
Status worker_apply_policy(Worker *w, const PolicyPlan *policy_plan, const ViewOptions *o, int size,
                           uint8_t *view);

/* What a worker has done so far. */
typedef struct WorkerTimes {
    double header_s, decode_s, resize_s, policy_s; /* the last: policy.h */
    /* JPEGs that our Huffman decoder read, and those of them that libjpeg had to read again */
    int64_t fast, left;
} WorkerTimes;
WorkerTimes worker_times(const Worker *w);
#endif
