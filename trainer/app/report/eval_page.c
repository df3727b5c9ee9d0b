/* eval_page.c - see eval_page.h. */
#include "trainer/app/report/eval_page.h"
#include "base/mem.h"
#include "trainer/app/report/html.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define HEAT_CLASSES 40 /* with more, the matrix is no picture any more */
#define PAIRS        30
#define BAR_WIDTH    220

static double cell(const EvalPage *p, int64_t row, int64_t column)
{
    return p->confusion[row * p->classes + column];
}

EvalFigures eval_page_figures(const EvalPage *p, int64_t c)
{
    double taken = 0, images = p->unread[c], right = cell(p, c, c);
    for (int64_t i = 0; i < p->classes; i++) {
        images += cell(p, c, i);
        taken += cell(p, i, c);
    }
    return (EvalFigures){ images, right / taken, right / images, 2 * right / (taken + images) };
}

double eval_page_calibration_error(const EvalPage *p)
{
    double distance = 0, images = 0;
    for (int b = 0; b < EVAL_PAGE_BINS; b++) {
        distance += fabs(p->bins[b].confidence - p->bins[b].right);
        images += p->bins[b].images;
    }
    return distance / images;
}

static void add_figure(StrBuf *out, const char *name, double value, int digits)
{
    html_row(out);
    html_cell(out, name);
    html_number(out, value, digits);
    html_row_end(out);
}

/* Means over the classes that there are images of; a class that nothing was taken for has a
 * precision of 0 in it, as scikit-learn's. */
static EvalFigures mean_figures(const EvalPage *p)
{
    EvalFigures sum = { 0 };
    double classes = 0;
    for (int64_t c = 0; c < p->classes; c++) {
        const EvalFigures f = eval_page_figures(p, c);
        if (f.images == 0) continue;
        classes++;
        sum.precision += isfinite(f.precision) ? f.precision : 0;
        sum.recall += f.recall;
        sum.f1 += f.f1;
    }
    return (EvalFigures){ classes, sum.precision / classes, sum.recall / classes,
                          sum.f1 / classes };
}

static void add_summary(StrBuf *out, const EvalPage *p)
{
    const EvalFigures mean = mean_figures(p);
    html_note(out, p->checkpoint);
    html_note(out, p->data);
    html_table(out, (const char *const[]){ "<", "" }, 2);
    add_figure(out, "images", (double)p->images, 0);
    if (p->bad > 0) add_figure(out, "images that could not be decoded", (double)p->bad, 0);
    add_figure(out, "top-1, %", 100 * p->top1, 2);
    add_figure(out, "top-5, %", 100 * p->top5, 2);
    add_figure(out, "loss", p->loss, 4);
    add_figure(out, "mean precision over classes, %", 100 * mean.precision, 2);
    add_figure(out, "mean recall, %", 100 * mean.recall, 2);
    add_figure(out, "mean F1, %", 100 * mean.f1, 2);
    add_figure(out, "expected calibration error, %", 100 * eval_page_calibration_error(p), 2);
    html_table_end(out);
}

static void add_bar(StrBuf *out, double share, const char *colour)
{
    const double width = isfinite(share) ? BAR_WIDTH * share : 0;
    str_printf(out,
               "<td><svg width=\"%d\" height=\"12\" role=\"img\" aria-label=\"%.0f %%\"><rect "
               "width=\"%.1f\" height=\"12\" fill=\"%s\"/></svg></td>",
               BAR_WIDTH, isfinite(share) ? 100 * share : 0, width, colour);
}

static void add_calibration(StrBuf *out, const EvalPage *p)
{
    static const char *const heads[] = { "<probability",        "images",
                                         "mean probability, %", "correct, %",
                                         "<mean probability",   "<correct" };
    char text[32];
    html_heading(out, "Calibration");
    html_note(out, "Images by the probability of the predicted class. Where fewer are correct than "
                   "the mean probability says, the network is overconfident.");
    html_table(out, heads, 6);
    for (int b = 0; b < EVAL_PAGE_BINS; b++) {
        const double n = p->bins[b].images;
        const double mean = p->bins[b].confidence / n, right = p->bins[b].right / n;
        if (n == 0) continue;
        html_row(out);
        snprintf(text, sizeof text, "%.0f to %.0f %%", 100.0 * b / EVAL_PAGE_BINS,
                 100.0 * (b + 1) / EVAL_PAGE_BINS);
        html_cell(out, text);
        html_whole(out, (int64_t)n);
        html_number(out, 100 * mean, 1);
        html_number(out, 100 * right, 1);
        add_bar(out, mean, html_colour(0));
        add_bar(out, right, html_colour(1));
        html_row_end(out);
    }
    html_table_end(out);
}

/* Rows are shaded by their share, from white to the first colour. */
static void add_heat(StrBuf *out, const EvalPage *p)
{
    html_note(out, "Rows are true classes, columns are predicted classes.");
    str_add(out, "<div class=\"wide\"><table>\n<tr><th class=\"text\"></th>");
    for (int64_t c = 0; c < p->classes; c++) html_between(out, "<th>", p->class_names[c], "</th>");
    str_add(out, "</tr>\n");
    for (int64_t row = 0; row < p->classes; row++) {
        const double images = eval_page_figures(p, row).images;
        html_row(out);
        html_cell(out, p->class_names[row]);
        for (int64_t c = 0; c < p->classes; c++) {
            const double n = cell(p, row, c), share = images > 0 ? sqrt(n / images) : 0;
            str_printf(out, "<td style=\"background:rgba(0,114,178,%.3f);color:%s\">", share,
                       share > 0.75 ? "#fff" : "var(--ink)");
            if (n > 0) str_printf(out, "%.0f", n);
            str_add(out, "</td>");
        }
        html_row_end(out);
    }
    html_table_end(out);
}

typedef struct Pair {
    double images;
    int64_t row, column;
} Pair;

static int by_images(const void *pa, const void *pb)
{
    const Pair *a = pa, *b = pb;
    if (a->images != b->images) return a->images > b->images ? -1 : 1;
    return a->row != b->row ? (a->row < b->row ? -1 : 1) : a->column < b->column ? -1 : 1;
}

/* The pairs that are taken for each other most, of any number of classes. */
static void add_pairs(StrBuf *out, const EvalPage *p)
{
    static const char *const heads[] = { "<true class", "<predicted class", "images",
                                         "share of the class, %" };
    int64_t count = 0;
    for (int64_t i = 0; i < p->classes * p->classes; i++)
        count += p->confusion[i] > 0 && i / p->classes != i % p->classes;
    Pair *pairs FREED = mem_alloc((size_t)count * sizeof *pairs + 1);
    if (!pairs) {
        out->failed = true;
        return;
    }
    count = 0;
    for (int64_t i = 0; i < p->classes * p->classes; i++)
        if (p->confusion[i] > 0 && i / p->classes != i % p->classes)
            pairs[count++] = (Pair){ p->confusion[i], i / p->classes, i % p->classes };
    qsort(pairs, (size_t)count, sizeof *pairs, by_images);
    html_note(out, "The most frequent mistakes:");
    html_table(out, heads, 4);
    for (int64_t i = 0; i < count && i < PAIRS; i++) {
        html_row(out);
        html_cell(out, p->class_names[pairs[i].row]);
        html_cell(out, p->class_names[pairs[i].column]);
        html_whole(out, (int64_t)pairs[i].images);
        html_number(out, 100 * pairs[i].images / eval_page_figures(p, pairs[i].row).images, 1);
        html_row_end(out);
    }
    html_table_end(out);
}

static void add_classes(StrBuf *out, const EvalPage *p)
{
    static const char *const heads[] = { "<class", "images", "precision, %", "recall, %", "F1, %" };
    html_heading(out, "Classes");
    html_table(out, heads, 5);
    for (int64_t c = 0; c < p->classes; c++) {
        const EvalFigures f = eval_page_figures(p, c);
        html_row(out);
        html_cell(out, p->class_names[c]);
        html_whole(out, (int64_t)f.images);
        html_number(out, 100 * f.precision, 1);
        html_number(out, 100 * f.recall, 1);
        html_number(out, 100 * f.f1, 1);
        html_row_end(out);
    }
    html_table_end(out);
}

static void add_mistakes(StrBuf *out, const EvalPage *p)
{
    html_heading(out, "The most confident mistakes");
    if (p->mistake_count == 0) html_note(out, "None.");
    str_add(out, "<div class=\"pictures\">\n");
    for (int64_t i = 0; i < p->mistake_count; i++) {
        const EvalMistake *m = &p->mistakes[i];
        str_add(out, "<figure>");
        if (m->png) html_picture(out, m->png, m->bytes, p->class_names[m->label]);
        html_between(out, "<figcaption>predicted <b>", p->class_names[m->predicted], "</b>");
        str_printf(out, " (%.1f %%)", 100 * m->confidence);
        html_between(out, "<br>true class ", p->class_names[m->label], "");
        str_printf(out, " (%.1f %%)", 100 * m->given);
        html_between(out, "<br>", m->path, "</figcaption></figure>\n");
    }
    str_add(out, "</div>\n");
}

void eval_page_write(StrBuf *out, const EvalPage *p)
{
    html_begin(out, p->title, 0);
    add_summary(out, p);
    add_calibration(out, p);
    html_heading(out, "Confusion matrix");
    if (p->classes <= HEAT_CLASSES) add_heat(out, p);
    add_pairs(out, p);
    add_classes(out, p);
    add_mistakes(out, p);
    html_end(out);
}
