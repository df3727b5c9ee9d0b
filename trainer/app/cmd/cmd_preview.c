/* cmd_preview.c - convoy preview CONFIG --out PAGE: what a run would be shown, before anything is
 * trained: images of the first step as the network sees them, classes, the learning rate. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/erase_noise.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/cmd/unread.h"
#include "trainer/app/report/html.h"
#include "trainer/app/report/plot.h"
#include "trainer/engine/plan/schedule.h"
#include "trainer/engine/session/augment_options.h"
#include "trainer/engine/session/session_open.h"
#include <math.h>
#include <stdio.h>

#define IMAGES_MAX  1024
#define EVAL_IMAGES 12
#define CLASS_ROWS  60 /* of more classes those with the fewest images */
#define POINTS      PLOT_BINS
#define BAR_WIDTH   240

static const ArgRow rows[] = {
    ARG_ROW_CONFIG,
    { "--out", "FILE", .help = "the page (.html), readable in any browser without a network",
      .flags = ARG_REQUIRED | ARG_WRITES },
    { "--images", "N", .help = "at most N training images", .min = 1, .max = IMAGES_MAX,
      .fallback = 48 },
    ARG_ROW_VERBOSE,
    ARG_ROW_SET,
    ARG_ROW_END,
};

typedef struct Page {
    const Session *s;
    StrBuf text;
    int side, channels; /* of the images */
    Status status;      /* of making pictures */
} Page;

static const char *class_name(const Session *s, int label)
{
    return dataset_class_name(s->train, label);
}

static void add_picture(Page *p, const uint8_t *pixels, const char *caption)
{
    uint8_t *png FREED = NULL;
    size_t bytes = 0;
    if (p->status == OK) p->status = png_write(&png, &bytes, pixels, p->side, p->side, p->channels);
    if (p->status == OK) {
        str_add(&p->text, "<figure>");
        html_picture(&p->text, png, bytes, caption);
        html_between(&p->text, "<figcaption>", caption, "</figcaption></figure>\n");
    }
}

/* ---- training images: what OP_INPUT does to them, taken back to bytes ---- */

static double value_of(const ConfigList *list, int channel)
{
    return list->values[list->count == 1 ? 0 : channel];
}

/* Normalised, and erased. */
static double input_at(const Page *p, const Batch *b, int64_t n, int y, int x, int c)
{
    const Config *config = p->s->config;
    const uint8_t *images = loader_field(b, "images");
    const EraseBox *erase = loader_field(b, "erase"), *box = erase ? &erase[n] : &(EraseBox){ 0 };
    const int32_t words[ERASE_COUNT] = {
        [ERASE_KEY_LOW] = (int32_t)box->key[0], [ERASE_KEY_HIGH] = (int32_t)box->key[1]
    };
    const int64_t at = ((n * p->side + y) * p->side + x) * p->channels + c;
    const bool inside =
        y >= box->top && y < box->top + box->height && x >= box->left && x < box->left + box->width;
    if (inside && config->data.erase_mode == ERASE_CONST) return 0;
    if (inside) return (double)erase_noise_at(words, config->data.erase_mode, c, y, x);
    return (images[at] / 255.0 - value_of(&config->data.mean, c)) / value_of(&config->data.std, c);
}

static uint8_t seen_at(const Page *p, const Batch *b, int64_t n, int y, int x, int c)
{
    const Config *config = p->s->config;
    const MixValues *given = loader_field(b, "mix"), none = { .lambda = 1 },
                    *mix = given ? given : &none;
    const int64_t other = op_input_neighbour(n, p->s->plan.batch);
    const bool in_box = y >= mix->top && y < mix->bottom && x >= mix->left && x < mix->right;
    double v = input_at(p, b, mix->box > 0 && in_box ? other : n, y, x, c);
    if (mix->box == 0 && mix->lambda < 1)
        v = (double)mix->lambda * v + (double)mix->rest * input_at(p, b, other, y, x, c);
    v = 255 * (v * value_of(&config->data.std, c) + value_of(&config->data.mean, c));
    return (uint8_t)lround(fmin(fmax(v, 0), 255));
}

enum { LABELS_BYTES = 400 };

/* The labels of an image of the batch. */
static void describe_labels(const Page *p, const Batch *b, int64_t n, char out[LABELS_BYTES])
{
    const int32_t *labels = loader_field(b, "labels");
    const uint8_t *targets = loader_field(b, "targets");
    const int64_t row = (p->s->classes + 7) / 8;
    if (targets) dataset_describe_labels(p->s->train, targets + n * row, out, LABELS_BYTES);
    else snprintf(out, LABELS_BYTES, "%s", class_name(p->s, labels[n]));
}

static void describe_target(const Page *p, const Batch *b, int64_t n, char *out, size_t bytes)
{
    char own[LABELS_BYTES], others[LABELS_BYTES];
    const MixValues *mix = loader_field(b, "mix");
    describe_labels(p, b, n, own);
    describe_labels(p, b, op_input_neighbour(n, p->s->plan.batch), others);
    if (!mix || mix->lambda >= 1) snprintf(out, bytes, "%s", own);
    else
        snprintf(out, bytes, "%.0f %% %s, %.0f %% %s", 100 * (double)mix->lambda, own,
                 100 * (double)mix->rest, others);
}

/* *count: how many are still to be shown. */
static Status add_batch(Page *p, const Batch *b, int64_t *count)
{
    char target[1024];
    uint8_t *pixels = mem_alloc((size_t)p->side * (size_t)p->side * (size_t)p->channels);
    if (!pixels) return ERR_MEMORY;
    for (int64_t n = 0; n<p->s->plan.batch && * count> 0; n++, --*count) {
        uint8_t *to = pixels;
        for (int y = 0; y < p->side; y++)
            for (int x = 0; x < p->side; x++)
                for (int c = 0; c < p->channels; c++) *to++ = seen_at(p, b, n, y, x, c);
        describe_target(p, b, n, target, sizeof target);
        add_picture(p, pixels, target);
    }
    mem_free(pixels);
    return p->status;
}

static Status add_training(Page *p, int64_t count)
{
    Loader *loader FREED_BY(loader_destroy_at) = NULL;
    LoaderOptions options = session_loader_options(p->s, DATA_TRAIN);
    options.view.image_size = (int)progressive_image_size(p->s->config, 0);
    p->side = options.view.image_size;
    p->channels = options.view.channels;
    TRY(loader_create(&loader, p->s->train, &options));
    html_heading(&p->text, "Training: the first images of the run");
    html_note(&p->text, "Cut, augmented, erased and mixed as the network sees them; targets below, "
                        "without label smoothing.");
    str_add(&p->text, "<div class=\"pictures\">\n");
    Status status = OK;
    for (bool more = true; status == OK && count > 0 && more;) {
        Batch batch;
        double wait_s = 0;
        status = loader_next(loader, &batch, &more, &wait_s);
        if (status != OK || !more) break;
        status = add_batch(p, &batch, &count);
        loader_release(loader, &batch);
    }
    str_add(&p->text, "</div>\n");
    return status;
}

/* ---- evaluation images ---- */

static void take(void *cookie, int64_t index, const uint8_t *pixels)
{
    Page *p = cookie;
    const Dataset *d = p->s->val;
    const int64_t all = dataset_images(d), wanted = EVAL_IMAGES < all ? EVAL_IMAGES : all;
    char labels[LABELS_BYTES];
    const int64_t id = index * all / wanted;
    const uint8_t *row = dataset_labels(d, id);
    if (row) dataset_describe_labels(d, row, labels, sizeof labels);
    add_picture(p, pixels, row ? labels : dataset_class_name(d, dataset_label(d, id)));
}

static Status add_evaluation(Page *p)
{
    LoaderOptions options = { 0 };
    if (!p->s->val) return OK;
    augment_options_fill(&options, p->s->config, DATA_VAL);
    p->side = options.view.image_size;
    html_heading(&p->text, "Evaluation");
    str_add(&p->text, "<div class=\"pictures\">\n");
    TRY(spread_views(p->s->val, EVAL_IMAGES, &options.view, take, p));
    str_add(&p->text, "</div>\n");
    return p->status;
}

/* ---- classes ---- */

static void add_class(Page *p, int label, int64_t most)
{
    const Session *s = p->s;
    const int64_t images = dataset_class_images(s->train, label);
    html_row(&p->text);
    html_cell(&p->text, class_name(s, label));
    html_whole(&p->text, images);
    html_whole(&p->text, s->val && label < dataset_classes(s->val)
                             ? dataset_class_images(s->val, label)
                             : -1);
    html_number(&p->text, s->class_weights ? (double)s->class_weights[label] : (double)NAN, 3);
    str_printf(&p->text,
               "<td><svg width=\"%d\" height=\"12\" role=\"img\" aria-label=\"%lld\"><rect "
               "width=\"%.1f\" height=\"12\" fill=\"%s\"/></svg></td>",
               BAR_WIDTH, (long long)images, BAR_WIDTH * (double)images / (double)most,
               html_colour(0));
    html_row_end(&p->text);
}

static void add_classes(Page *p)
{
    static const char *const heads[] = { "<class", "training", "evaluation", "weight", "<" };
    const Dataset *d = p->s->train;
    const int classes = dataset_classes(d);
    int64_t least = INT64_MAX, most = 0;
    for (int c = 0; c < classes; c++) {
        const int64_t images = dataset_class_images(d, c);
        least = images < least ? images : least;
        most = images > most ? images : most;
    }
    int *labels FREED = mem_alloc((size_t)classes * sizeof *labels);
    if (!labels) {
        p->text.failed = true;
        return;
    }
    for (int c = 0; c < classes; c++) { /* sorted as they come in, where they are many */
        int at = c;
        for (; classes > CLASS_ROWS && at > 0; at--) {
            if (dataset_class_images(d, labels[at - 1]) <= dataset_class_images(d, c)) break;
            labels[at] = labels[at - 1];
        }
        labels[at] = c;
    }
    html_heading(&p->text, "Classes");
    html_notef(&p->text, "%d classes of %lld to %lld training images%s.", classes, (long long)least,
               (long long)most, classes > CLASS_ROWS ? "; those with the fewest" : "");
    html_table(&p->text, heads, 5);
    for (int c = 0; c < classes && c < CLASS_ROWS; c++) add_class(p, labels[c], most);
    html_table_end(&p->text);
}

/* ---- the learning rate ---- */

static void add_schedule(Page *p)
{
    const TrainPlan *plan = &p->s->plan;
    const Schedule schedule = schedule_from_config(p->s->config, plan, p->s->comm->world);
    const int64_t last = plan->total_steps - 1, count = last < POINTS ? last + 1 : POINTS;
    PlotPoint points[POINTS];
    for (int64_t i = 0; i < count; i++) {
        const int64_t step = count > 1 ? i * last / (count - 1) : 0;
        points[i] = (PlotPoint){ (double)train_plan_images(plan, step) / (double)plan->images,
                                 schedule_lr(&schedule, step), (double)NAN, (double)NAN, NULL };
    }
    const PlotSeries series = { .points = points, .count = count, .marked_x = (double)NAN };
    html_heading(&p->text, "Learning rate");
    html_notef(&p->text, "%lld steps of %lld images, %.4g epochs.", (long long)plan->total_steps,
               (long long)plan->global_batch, p->s->config->train.epochs);
    str_add(&p->text, "<div class=\"plots\">\n");
    plot_svg(&p->text, &(Plot){ .title = "Learning rate",
                                .x_label = "epochs",
                                .y_label = "learning rate",
                                .series = &series,
                                .count = 1,
                                .strips = true,
                                .y_low = 0,
                                .y_high = (double)NAN,
                                .lines = { (double)NAN, (double)NAN } });
    str_add(&p->text, "</div>\n");
}

/* ---- the page ---- */

static Status write_page(const Session *s, int64_t images, const char *out)
{
    char title[256];
    Page p = { .s = s };
    snprintf(title, sizeof title, "Preview of %s", s->config->model.name);
    html_begin(&p.text, title, 0);
    html_note(&p.text, s->config->data.train);
    Status status = add_training(&p, images);
    if (status == OK) status = add_evaluation(&p);
    if (status == OK) add_classes(&p);
    if (status == OK) add_schedule(&p);
    html_end(&p.text);
    status = fs_write_text(status, out, &p.text);
    if (status == OK) log_info("wrote %s", out);
    return status;
}

static Status preview(Comm *comm, Config *c, const Args *args)
{
    const char *out = args_value(args, "--out");
    int64_t images = 0;
    Session s FREED_BY(session_close) = { 0 };
    if (!str_ends_with_nocase(out, ".html"))
        return fail(ERR_USAGE, "--out %s: must end in .html", out);
    if (config_is_text(c))
        return fail(ERR_USAGE, "model.name: %s reads text; a preview shows images", c->model.name);
    TRY(args_whole(args, "--images", &images));
    TRY(comm_agree(comm, comm->rank == 0 ? fs_check_writable(out) : OK));
    TRY(session_open_data(&s, c, comm));
    return comm_agree(comm, comm->rank == 0 ? write_page(&s, images, out) : OK);
}

const Command cmd_preview = {
    .name = "preview",
    .group = "Prepare",
    .summary = "write a page of the images that a run would train on",
    .about =
        "Writes a page that shows what a run would train on, and trains nothing: images of its "
        "first step, cropped, augmented, erased and mixed as the network receives them, with "
        "their labels; evaluation images; the number of images per class; the learning rate.",
    .args = rows,
    .by_ranks = preview,
    .ignores = "log " UNREAD_BUT_IN_RUNS,
};
