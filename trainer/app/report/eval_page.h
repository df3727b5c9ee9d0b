/* eval_page.h - a page about one evaluation: figures, how far probabilities can be believed, which
 * classes are taken for which, and the mistakes that the network was surest of. */
#ifndef CONVOY_TRAINER_APP_REPORT_EVAL_PAGE_H
#define CONVOY_TRAINER_APP_REPORT_EVAL_PAGE_H
#include "base/str.h"
#include <stdint.h>

/* Of probability, all as wide (Guo et al. 2017, "On calibration of modern neural networks"). */
enum { EVAL_PAGE_BINS = 15 };

typedef struct EvalMistake {
    char *path; /* as the dataset describes the sample */
    int label, predicted;
    double confidence, given; /* probabilities of the two */
    const uint8_t *png;       /* the view that the network saw; NULL: it could not be read again */
    size_t bytes;
} EvalMistake;

typedef struct EvalPage {
    const char *title, *checkpoint, *data;
    double loss, top1, top5;
    int64_t images, bad;
    int64_t classes;
    const char *const *class_names; /* [classes] */
    const double *confusion; /* [classes * classes]: images of a class (row) taken for another */
    /* [classes]: taken for none: not decoded, or of logits that are no finite numbers */
    const double *unread;
    struct {
        double images, confidence, right; /* the last two: sums */
    } bins[EVAL_PAGE_BINS];
    const EvalMistake *mistakes; /* the surest first */
    int64_t mistake_count;
} EvalPage;

/* Precision of class c: of what was taken for it, the share that is; recall: of what is it, the
 * share that was taken for it; F1: their harmonic mean. NaN where there is nothing to divide by. */
typedef struct EvalFigures {
    double images, precision, recall, f1;
} EvalFigures;
EvalFigures eval_page_figures(const EvalPage *p, int64_t c);
/* Expected calibration error: the mean over images of the distance between a bin's accuracy and its
 * mean confidence. */
double eval_page_calibration_error(const EvalPage *p);
void eval_page_write(StrBuf *out, const EvalPage *p);
#endif
