/* reader_count.c - see reader_count.h. */
#include "data/load/reader_count.h"
#include <math.h>

#define STARVED_SHARE 0.01 /* of the decode threads' time; below it nothing has to change */
#define MARGIN        1.25
#define STEP_MAX      4    /* times as many at once: a first measure may be wrong */
#define GAIN_LEAST    1.05 /* a growth that brings less brought nothing */
#define FAILURES_MAX  2

static void judge_growth(ReaderCount *c, const ReaderMeasure *m)
{
    if (c->rate <= 0) return;
    bool gained = m->reads / m->seconds >= GAIN_LEAST * c->rate;
    c->failures = gained ? 0 : c->count >= 2 * c->before ? FAILURES_MAX : c->failures + 1;
    c->rate = 0;
    if (c->failures < FAILURES_MAX) return;
    c->saturated = true;
    c->failures = 0;
    c->retry_s = m->now_s + READER_COUNT_PATIENCE_S;
}

static int wanted(const ReaderCount *c, const ReaderMeasure *m)
{
    double most = STEP_MAX * (double)c->count, want = most;
    if (m->images > 0 && m->decode_s > 0 && m->reads > 0)
        want = ceil(MARGIN * m->decoders * m->images / m->decode_s * m->read_s / m->reads);
    if (want > most) want = most;
    if (want < c->count + 1) want = c->count + 1; /* the decode threads did wait */
    return want > READERS_MAX ? READERS_MAX : (int)want;
}

bool reader_count_update(ReaderCount *c, const ReaderMeasure *m)
{
    judge_growth(c, m);
    if (m->starved_s <= STARVED_SHARE * m->decoders * m->seconds) {
        c->saturated = false;
        return false;
    }
    if (m->now_s < c->retry_s || c->count >= READERS_MAX) return false;
    int want = wanted(c, m);
    c->saturated = false;
    c->rate = m->reads / m->seconds;
    c->before = c->count;
    c->count = want;
    return true;
}
