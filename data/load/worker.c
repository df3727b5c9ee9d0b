/* worker.c - read -> header -> decode the part that is shown -> resize, for one image on one
 * thread.
 *
 * All memory on this way is the worker's and grows to a high-water mark, so that after the largest
 * images have passed nothing of ours is allocated; a buffer that one giant has grown is given
 * back. */
#include "data/load/worker.h"
#include "base/clock.h"
#include "base/mem.h"
#include "data/decode/decoder.h"

#define TRIM_BYTES     ((size_t)64 << 20)
#define MAX_NAME_BYTES 768
#define WINDOW_MAX     (1 << 30) /* of a replay, so that its far end is an int too */
/* of the smallest picture for which a seek index is made: below, there is little to skip */
#define INDEXED_HEIGHT 128

struct Worker {
    ByteBuf file;
    ByteBuf converted; /* raw pixels after a change of channels */
    Decoder *decoder;
    ViewScratch view;
    WorkerTimes times;
    SeekStore *seeks;
    bool makes_index; /* of the file being shown */
    PolicyScratch policy;
};

Status worker_create(Worker **out, SeekStore *seeks)
{
    *out = NULL;
    Worker *w = mem_calloc(1, sizeof *w);
    if (!w) return ERR_MEMORY;
    w->seeks = seeks;
    Status status = decoder_create(&w->decoder);
    if (status == OK) *out = w;
    else worker_destroy(w);
    return status;
}

void worker_destroy(Worker *w)
{
    if (!w) return;
    decoder_destroy(w->decoder);
    byte_buf_free(&w->file);
    byte_buf_free(&w->converted);
    view_scratch_free(&w->view);
    policy_scratch_free(&w->policy);
    mem_free(w);
}

static Status note_name(Status status, const Source *source, int64_t id)
{
    char name[MAX_NAME_BYTES];
    source->kind->describe(source, id, name, sizeof name);
    return fail_note(status, "%s", name);
}

static void trim(Worker *w)
{
    decoder_trim(w->decoder);
    byte_buf_trim(&w->converted, TRIM_BYTES);
    view_scratch_trim(&w->view, TRIM_BYTES);
}

ByteBuf *worker_bytes(Worker *w)
{
    byte_buf_trim(&w->file, TRIM_BYTES);
    return &w->file;
}

Status worker_load(Worker *w, const Source *source, int64_t id, int size, int channels, Image *out)
{
    Sample sample;
    trim(w);
    TRY(source_read(source, id, size, worker_bytes(w), &sample));
    *out = sample.image;
    if (!sample.file.bytes) return image_convert(out, channels, &w->converted);
    Status status = decoder_decode(w->decoder, sample.file.bytes, sample.file.size, channels, out);
    return status == OK ? OK : note_name(status, source, id);
}

/* Adds the time since *start to *sum and starts anew. */
static void lap(double *start, double *sum)
{
    double now = clock_s();
    *sum += now - *start;
    *start = now;
}

/* id: of the sample in w->seeks; -1: it has no place there. */
static Status open_sample(Worker *w, const Sample *sample, int64_t id, const ViewOptions *o,
                          int *width, int *height)
{
    EncodedImage file = sample->file;
    bool from_store = o->seek_index != SEEK_OFF && !file.seek && w->seeks && id >= 0;
    if (o->seek_index == SEEK_OFF) file.seek = NULL;
    if (from_store) file.seek = seek_store_get(w->seeks, id, &file.seek_bytes);
    decoder_use_stock(w->decoder, o->decoder == HUFFMAN_STOCK);
    TRY(decoder_open(w->decoder, &file, width, height));
    w->makes_index = from_store && !file.seek && *height >= INDEXED_HEIGHT;
    decoder_make_index(w->decoder, w->makes_index ? seek_store_step(w->seeks) : 0);
    return OK;
}

static void keep_index(Worker *w, int64_t id)
{
    const uint8_t *index = NULL;
    size_t bytes = 0;
    if (w->makes_index) decoder_index(w->decoder, &index, &bytes);
    if (bytes > 0) seek_store_put(w->seeks, id, index, bytes);
}

/* After open_sample, where the sample is a file. */
static Status show(Worker *w, const Sample *sample, const AugmentPlan *plan, const ViewOptions *o,
                   ResizeFilter filter, double start_s, uint8_t *out)
{
    Image image = sample->image;
    ImageBox needed = view_needs(plan, filter);
    lap(&start_s, &w->times.header_s);
    if (sample->file.bytes) TRY(decoder_read(w->decoder, &needed, &image));
    lap(&start_s, &w->times.decode_s);
    TRY(view_make(plan, filter, &image, o->channels, &w->view, out));
    lap(&start_s, &w->times.resize_s);
    return OK;
}

static Status make_view(Worker *w, const Sample *sample, int64_t id, const ViewOptions *o,
                        const AugmentDraw *draw, uint8_t *out)
{
    double start_s = clock_s();
    int width = sample->image.box.width, height = sample->image.box.height;
    trim(w);
    if (sample->file.bytes) TRY(open_sample(w, sample, id, o, &width, &height));
    /* Raw pixels (MNIST, synthetic) are no photographs with a border to cut off: they are only
     * brought to size. */
    int resize = !sample->file.bytes || o->eval_resize == 0 ? o->image_size : o->eval_resize;
    AugmentPlan plan = draw ? augment_draw(o, width, height, resize, draw)
                            : augment_center(width, height, resize, o->image_size);
    TRY(show(w, sample, &plan, o, augment_filter(o->interpolation, draw), start_s, out));
    if (sample->file.bytes) keep_index(w, id);
    return OK;
}

Status worker_replay(Worker *w, const Sample *sample, const AugmentPlan *plan, const ViewOptions *o,
                     uint8_t *out)
{
    double start_s = clock_s();
    int width, height;
    trim(w);
    ASSERT(sample->file.bytes);
    TRY(open_sample(w, sample, -1, o, &width, &height));
    if (plan->box_x < 0 || plan->box_width > width - plan->box_x || plan->box_y < 0 ||
        plan->box_height > height - plan->box_y)
        return fail(ERR_DATA, "the box exceeds the image of %d x %d pixels", width, height);
    if (plan->window_x > WINDOW_MAX || plan->window_x < -WINDOW_MAX ||
        plan->window_y > WINDOW_MAX || plan->window_y < -WINDOW_MAX)
        return fail(ERR_DATA, "the window is more than %d pixels away", WINDOW_MAX);
    return show(w, sample, plan, o, augment_filter(o->interpolation, NULL), start_s, out);
}

Status worker_apply_policy(Worker *w, const PolicyPlan *policy_plan, const ViewOptions *o, int size,
                           uint8_t *view)
{
    const Picture picture = { view, size, size, o->channels };
    const ImageOpStyle style = policy_style(&o->policy);
    return policy_apply(policy_plan, &style, &picture, &w->policy);
}

Status worker_show(Worker *w, const Source *source, int64_t id, const Sample *sample,
                   const ViewOptions *o, const AugmentDraw *draw, uint8_t *out)
{
    const Picture picture = { out, o->image_size, o->image_size, o->channels };
    Status status = make_view(w, sample, id, o, draw, out);
    double start_s = clock_s();
    if (status == OK && draw) status = policy_augment(&o->policy, draw, &picture, &w->policy);
    lap(&start_s, &w->times.policy_s);
    return status == ERR_DATA ? note_name(status, source, id) : status;
}

WorkerTimes worker_times(const Worker *w)
{
    JpegDecoderCounts counts = decoder_counts(w->decoder);
    WorkerTimes times = w->times;
    times.fast = counts.fast;
    times.left = counts.left;
    return times;
}
