/* eval_tables.c - see eval_tables.h. */
#include "trainer/app/cmd/eval_tables.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data.h"
#include "trainer/app/report/csv.h"
#include "trainer/app/report/eval_page.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/session/augment_options.h"
#include <math.h>
#include <stdio.h>

#define MISTAKES  60
#define NAME_ROOM 24 /* of a class without a name */

typedef struct Tables { /* everything that is written is made of this */
    const Session *s;
    const Args *args;
    const EvalResult *result;
    const EvalImage *images; /* NULL: there is ap */
    const double *ap;
    double *confusion; /* [classes * classes] */
    double *unread;    /* [classes] */
    char **names;      /* [classes] */
} Tables;

static void count_confusion(Tables *t)
{
    const Dataset *d = t->s->val;
    for (int64_t i = 0; i < dataset_images(d); i++) {
        const int64_t label = dataset_label(d, i), predicted = (int64_t)t->images[i].predicted;
        if (predicted >= 0) t->confusion[label * t->s->classes + predicted]++;
        else t->unread[label]++;
    }
}

/* ---- CSV ---- */

/* Accuracy counts images that could not be decoded as wrong, as the sums over all classes do. */
static Status print_classes(const Tables *t, StrBuf *out)
{
    const Session *s = t->s;
    str_printf(out, "label,class,%s,%s\n", units_of(s->config)->many,
               t->ap ? "average_precision" : "correct,accuracy");
    for (int64_t c = 0; c < s->classes; c++) {
        const int64_t images =
            c < dataset_classes(s->val) ? dataset_class_images(s->val, (int)c) : 0;
        const double correct = t->ap ? 0 : t->confusion[c * s->classes + c];
        str_printf(out, "%lld", (long long)c);
        csv_text(out, t->names[c]);
        str_printf(out, ",%lld,", (long long)images);
        if (!t->ap) str_printf(out, "%.0f,", correct);
        if (images > 0) str_printf(out, "%.6f", t->ap ? t->ap[c] : correct / (double)images);
        str_add(out, "\n");
    }
    return OK;
}

static Status print_confusion(const Tables *t, StrBuf *out)
{
    const int64_t classes = t->s->classes;
    str_add(out, "class");
    for (int64_t c = 0; c < classes; c++) csv_text(out, t->names[c]);
    for (int64_t row = 0; row < classes; row++) {
        str_add(out, "\n");
        csv_text(out, t->names[row]);
        for (int64_t c = 0; c < classes; c++)
            str_printf(out, ",%.0f", t->confusion[row * classes + c]);
    }
    str_add(out, "\n");
    return OK;
}

/* ---- the page ---- */

typedef struct Mistakes {
    EvalMistake list[MISTAKES];
    int64_t ids[MISTAKES], count;
    int side, channels;
    Status status; /* of keeping pictures */
} Mistakes;

static void insert(Mistakes *m, const Tables *t, int64_t id)
{
    const EvalImage *image = &t->images[id];
    int64_t at = m->count < MISTAKES ? m->count++ : MISTAKES;
    for (; at > 0 && t->images[m->ids[at - 1]].confidence < image->confidence; at--)
        if (at < MISTAKES) m->ids[at] = m->ids[at - 1];
    if (at < MISTAKES) m->ids[at] = id;
}

static void keep_picture(void *cookie, int64_t index, const uint8_t *pixels)
{
    Mistakes *m = cookie;
    uint8_t *png = NULL;
    if (m->status == OK)
        m->status = png_write(&png, &m->list[index].bytes, pixels, m->side, m->side, m->channels);
    m->list[index].png = png;
}

static Status find_mistakes(Mistakes *m, const Tables *t)
{
    char path[4096];
    LoaderOptions options = { 0 };
    const Dataset *d = t->s->val;
    for (int64_t i = 0; i < dataset_images(d); i++) {
        const int64_t predicted = (int64_t)t->images[i].predicted;
        if (predicted >= 0 && predicted != dataset_label(d, i)) insert(m, t, i);
    }
    for (int64_t i = 0; i < m->count; i++) {
        const EvalImage *image = &t->images[m->ids[i]];
        dataset_describe_sample(d, m->ids[i], path, sizeof path);
        m->list[i] = (EvalMistake){ .path = mem_strdup(path),
                                    .label = dataset_label(d, m->ids[i]),
                                    .predicted = (int)image->predicted,
                                    .confidence = image->confidence,
                                    .given = image->given };
        if (!m->list[i].path) return ERR_MEMORY;
    }
    augment_options_fill(&options, t->s->config, DATA_VAL);
    m->side = options.view.image_size;
    m->channels = options.view.channels;
    TRY(spread_views_of(d, m->ids, m->count, &options.view, keep_picture, m));
    return m->status;
}

static void fill_bins(EvalPage *p, const Tables *t)
{
    for (int64_t i = 0; i < dataset_images(t->s->val); i++) {
        const EvalImage *image = &t->images[i];
        if (image->predicted < 0) continue;
        int b = (int)ceil(image->confidence * EVAL_PAGE_BINS) - 1;
        b = b < 0 ? 0 : b >= EVAL_PAGE_BINS ? EVAL_PAGE_BINS - 1 : b;
        p->bins[b].images++;
        p->bins[b].confidence += image->confidence;
        p->bins[b].right += image->predicted == dataset_label(t->s->val, i);
    }
}

static Status print_page(const Tables *t, StrBuf *out)
{
    char data[4200], title[256];
    Mistakes m = { .count = 0 };
    const EvalResult *r = t->result;
    const Config *c = t->s->config;
    snprintf(title, sizeof title, "Evaluation of %s", c->model.name);
    snprintf(data, sizeof data, "%s%s", c->data.val_split > 0 ? "held out of " : "",
             c->data.val_split > 0 ? c->data.train : c->data.val);
    EvalPage p = { .title = title,
                   .checkpoint = t->args->checkpoint,
                   .data = data,
                   .loss = r->loss,
                   .top1 = r->top1,
                   .top5 = r->top5,
                   .images = r->images,
                   .bad = r->bad,
                   .classes = t->s->classes,
                   .class_names = (const char *const *)t->names,
                   .confusion = t->confusion,
                   .unread = t->unread,
                   .mistakes = m.list };
    fill_bins(&p, t);
    Status status = find_mistakes(&m, t);
    p.mistake_count = m.count;
    if (status == OK) eval_page_write(out, &p);
    for (int64_t i = 0; i < m.count; i++) {
        mem_free(m.list[i].path);
        mem_free((void *)(uintptr_t)m.list[i].png);
    }
    return status;
}

/* ---- all of them ---- */

static const struct {
    const char *option;
    Status (*print)(const Tables *t, StrBuf *out);
} tables[] = { { "--per-class", print_classes },
               { "--confusion", print_confusion },
               { "--gallery", print_page } };
enum { TABLES = sizeof tables / sizeof tables[0] };

bool eval_tables_wanted(const Args *args)
{
    bool wanted = false;
    for (int i = 0; i < TABLES; i++) wanted = wanted || args_value(args, tables[i].option);
    return wanted;
}

Status eval_tables_check(const Args *args, const Config *c)
{
    for (int i = 0; i < TABLES; i++) {
        const char *path = args_value(args, tables[i].option);
        if (path && config_is_masked(c))
            return fail(ERR_USAGE, "%s: %s (model.name) learns masked words, not classes",
                        tables[i].option, c->model.name);
        if (path && tables[i].print != print_classes && c->data.labels == LABELS_MULTI)
            return fail(ERR_USAGE,
                        "%s: requires data.labels: single; --per-class has the average "
                        "precision of each class",
                        tables[i].option);
        if (path && tables[i].print == print_page && config_is_text(c))
            return fail(ERR_USAGE, "%s: shows images; %s (model.name) reads text", tables[i].option,
                        c->model.name);
        if (path && tables[i].print == print_page && !str_ends_with_nocase(path, ".html"))
            return fail(ERR_USAGE, "%s %s: must end in .html", tables[i].option, path);
        if (path) TRY(fs_check_writable(path));
    }
    return OK;
}

static Status write_all(const Tables *t)
{
    Status status = OK;
    for (int i = 0; i < TABLES && status == OK; i++) {
        const char *path = args_value(t->args, tables[i].option);
        StrBuf text = { 0 };
        if (!path) continue;
        status = fs_write_text(tables[i].print(t, &text), path, &text);
        if (status == OK && !str_starts_with(path, "/dev/")) log_info("wrote %s", path);
    }
    return status;
}

/* A class beyond those of the data has no name: its number in the page. */
static Status name_classes(Tables *t)
{
    char number[NAME_ROOM];
    for (int64_t c = 0; c < t->s->classes; c++) {
        const bool named = c < dataset_classes(t->s->val);
        snprintf(number, sizeof number, "%lld", (long long)c);
        t->names[c] = mem_strdup(named ? dataset_class_name(t->s->val, (int)c) : number);
        if (!t->names[c]) return ERR_MEMORY;
    }
    return OK;
}

Status eval_tables_write(const Session *s, const Args *args, const EvalResult *r,
                         const EvalTables *details)
{
    const size_t classes = (size_t)s->classes;
    const size_t cells = details->ap ? 1 : classes * classes;
    Tables t = { .s = s,
                 .args = args,
                 .result = r,
                 .images = details->images,
                 .ap = details->ap,
                 .confusion = mem_calloc(cells, sizeof(double)),
                 .unread = mem_calloc(classes, sizeof(double)),
                 .names = mem_calloc(classes, sizeof(char *)) };
    Status status = t.confusion && t.unread && t.names ? name_classes(&t) : ERR_MEMORY;
    if (status == OK && t.images) count_confusion(&t);
    if (status == OK) status = write_all(&t);
    for (size_t c = 0; t.names && c < classes; c++) mem_free(t.names[c]);
    mem_free(t.names);
    mem_free(t.unread);
    mem_free(t.confusion);
    return status;
}
