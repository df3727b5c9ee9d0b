/* contest.c - see contest.h. */
#include "kernels/cuda/contest.h"
#include "base/clock.h"
#include "base/log.h"
#include "kernels/cuda/pattern.h"
#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 3, SAMPLES = 2 * ROUNDS, LEAST_RUNS = 2, MOST_RUNS = 50 };
#define WARM_S    0.2
#define COLD_S    1.0 /* idle for longer: to be warmed again */
#define SAMPLE_MS 5.0
#define HOPELESS  2.0 /* times the fastest */

typedef struct Hall { /* while a contest is held */
    const CudaContest *c;
    cudaEvent_t start, stop;
    void *reference[CUDA_CONTEST_OUTPUTS];
    double *sums;
    double estimate[CUDA_CONTEST_MOST]; /* ms of a run */
    bool out[CUDA_CONTEST_MOST];
} Hall;

/* ---- runs ---- */

/* ms of one run, of `runs` in a row. */
static Status sample(const Hall *h, int which, int runs, double *ms)
{
    const CudaContest *c = h->c;
    float all = 0;
    TRY_CUDA(cudaEventRecord(h->start, c->stream));
    for (int i = 0; i < runs; i++) TRY(c->run(c->cookie, which, c->stream));
    TRY_CUDA(cudaEventRecord(h->stop, c->stream));
    TRY_CUDA(cudaEventSynchronize(h->stop));
    TRY_CUDA(cudaEventElapsedTime(&all, h->start, h->stop));
    *ms = (double)all / runs;
    return OK;
}

static int runs_of(double ms)
{
    const double wanted = ms > 0 ? ceil(SAMPLE_MS / ms) : MOST_RUNS;
    return wanted > MOST_RUNS ? MOST_RUNS : wanted < LEAST_RUNS ? LEAST_RUNS : (int)wanted;
}

/* -1: none is left */
static int fastest(const Hall *h)
{
    int best = -1;
    for (int i = 0; i < h->c->count; i++)
        if (!h->out[i] && (best < 0 || h->estimate[i] < h->estimate[best])) best = i;
    return best;
}

/* Once each: libraries load what they need. Who cannot run leaves. */
static void try_all(Hall *h)
{
    for (int i = 0; i < h->c->count; i++) {
        if (sample(h, i, 1, &h->estimate[i]) == OK) continue;
        h->out[i] = true;
        log_warning("%s: %s does not run: %s", h->c->what, h->c->names[i], status_message());
    }
}

/* ---- comparing ---- */

/* How far another order of sums, rounded once more, may lead: the root of the mean square of the
 * differences, as a share of that of the values. Half a unit in the last place is 2^-9 of a value
 * of bf16 at most and 2^-12 of one of f16, which makes 0.0016 and 0.0002 between two roundings; f32
 * covers operands of tf32, 0.0004. A border computed wrong is 0.05 and more. */
static double tolerance(const CudaContest *c)
{
    double most = 0.001;
    for (int i = 0; i < c->output_count; i++) {
        if (c->outputs[i].type == DTYPE_F16) most = fmax(most, 0.002);
        if (c->outputs[i].type == DTYPE_BF16) most = fmax(most, 0.008);
    }
    return most;
}

static Status open_comparison(Hall *h)
{
    const CudaContest *c = h->c;
    for (int i = 0; i < c->output_count; i++)
        TRY_CUDA(cudaMalloc(&h->reference[i], c->outputs[i].bytes));
    void *sums = NULL;
    TRY_CUDA(cudaMalloc(&sums, CONTEST_DIFFERENCE_BLOCKS * 2 * sizeof *h->sums));
    h->sums = sums;
    return OK;
}

/* What one run leaves: some contestants add to what is there, so that is the same before each. */
static Status compute(const Hall *h, int which)
{
    const CudaContest *c = h->c;
    for (int i = 0; i < c->output_count; i++)
        TRY(cuda_pattern_fill(c->outputs[i].data, c->outputs[i].bytes, c->stream));
    return c->run(c->cookie, which, c->stream);
}

static Status keep(const Hall *h)
{
    const CudaContest *c = h->c;
    for (int i = 0; i < c->output_count; i++)
        TRY_CUDA(cudaMemcpyAsync(h->reference[i], c->outputs[i].data, c->outputs[i].bytes,
                                 cudaMemcpyDeviceToDevice, c->stream));
    return OK;
}

static Status differ_in(const Hall *h, int output, double *difference)
{
    const CudaContestOutput *o = &h->c->outputs[output];
    double host[CONTEST_DIFFERENCE_BLOCKS][2], squares = 0, gaps = 0;
    TRY_CUDA(cudaMemsetAsync(h->sums, 0, sizeof host, h->c->stream));
    TRY_CUDA(cuda_launch_contest_difference(h->reference[output], o->data, o->type,
                                            (int64_t)(o->bytes / dtype_bytes(o->type)), h->sums,
                                            h->c->stream));
    TRY_CUDA(cudaMemcpyAsync(host, h->sums, sizeof host, cudaMemcpyDeviceToHost, h->c->stream));
    TRY_CUDA(cudaStreamSynchronize(h->c->stream));
    for (int i = 0; i < CONTEST_DIFFERENCE_BLOCKS; i++) {
        squares += host[i][0];
        gaps += host[i][1];
    }
    *difference = gaps == 0 ? 0 : sqrt(gaps / squares);
    return OK;
}

/* difference: [count] of each from `first`, in the output where it is largest. */
static Status compare_with(const Hall *h, int first, double *difference)
{
    TRY(compute(h, first));
    TRY(keep(h));
    for (int i = 0; i < h->c->count; i++) {
        difference[i] = 0;
        if (h->out[i] || i == first) continue;
        TRY(compute(h, i));
        for (int k = 0; k < h->c->output_count; k++) {
            double one = 0;
            TRY(differ_in(h, k, &one));
            if (!(one <= difference[i])) difference[i] = one;
        }
    }
    return OK;
}

static void count_votes(const Hall *h, const double *difference, int *agree, int *all)
{
    *agree = *all = 0;
    for (int i = 0; i < h->c->count; i++) {
        *all += !h->out[i];
        *agree += !h->out[i] && difference[i] <= tolerance(h->c);
    }
}

static Status judge(Hall *h)
{
    const CudaContest *c = h->c;
    double difference[CUDA_CONTEST_MOST];
    int believed = -1, first = -1, agree = 0, all = 0;
    for (int i = 0; i < c->count && believed < 0; i++) {
        if (h->out[i]) continue;
        if (first < 0) first = i;
        TRY(compare_with(h, i, difference));
        count_votes(h, difference, &agree, &all);
        if (2 * agree > all) believed = i;
    }
    if (believed < 0 && first >= 0) TRY(compare_with(h, believed = first, difference));
    for (int i = 0; i < c->count; i++) {
        if (h->out[i] || difference[i] <= tolerance(c)) continue;
        h->out[i] = true;
        log_warning("%s: %s is not used: its result differs from %s's by %.2g of its size", c->what,
                    c->names[i], c->names[believed], difference[i]);
    }
    return OK;
}

/* ---- timing ---- */

static Status warm_up(const Hall *h)
{
    const int which = fastest(h);
    const double begin_s = clock_s();
    double ms;
    if (begin_s - *h->c->busy_s < COLD_S) return OK;
    while (clock_s() - begin_s < WARM_S) TRY(sample(h, which, runs_of(h->estimate[which]), &ms));
    return OK;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static Status time_in_turns(const Hall *h, const bool *timed, double *ms)
{
    const int count = h->c->count;
    double times[CUDA_CONTEST_MOST][SAMPLES];
    for (int s = 0; s < SAMPLES; s++)
        for (int k = 0; k < count; k++) {
            const int i = s % 2 ? count - 1 - k : k;
            if (timed[i]) TRY(sample(h, i, runs_of(h->estimate[i]), &times[i][s]));
        }
    for (int i = 0; i < count; i++) {
        if (!timed[i]) continue;
        qsort(times[i], SAMPLES, sizeof times[i][0], compare_doubles);
        ms[i] = (times[i][ROUNDS - 1] + times[i][ROUNDS]) / 2;
    }
    return OK;
}

static Status estimate(Hall *h, int i)
{
    TRY(sample(h, i, LEAST_RUNS, &h->estimate[i]));
    return sample(h, i, runs_of(h->estimate[i]), &h->estimate[i]);
}

static Status time_all(Hall *h, double *ms)
{
    bool timed[CUDA_CONTEST_MOST] = { false };
    TRY(warm_up(h));
    for (int i = 0; i < h->c->count; i++)
        if (!h->out[i]) TRY(estimate(h, i));
    const double best = h->estimate[fastest(h)];
    for (int i = 0; i < h->c->count; i++) {
        ms[i] = h->out[i] ? -1 : h->estimate[i];
        timed[i] = !h->out[i] && h->estimate[i] <= HOPELESS * best;
    }
    TRY(time_in_turns(h, timed, ms));
    *h->c->busy_s = clock_s();
    return OK;
}

/* ---- the contest ---- */

static Status hold(Hall *h, double *ms)
{
    TRY_CUDA(cudaEventCreateWithFlags(&h->start, cudaEventDefault));
    TRY_CUDA(cudaEventCreateWithFlags(&h->stop, cudaEventDefault));
    try_all(h);
    if (h->c->output_count) {
        TRY(open_comparison(h));
        TRY(judge(h));
    }
    return fastest(h) < 0 ? OK : time_all(h, ms);
}

Status cuda_contest_hold(const CudaContest *c, double *ms)
{
    Hall h = { .c = c };
    ASSERT(c->count <= CUDA_CONTEST_MOST && c->output_count <= CUDA_CONTEST_OUTPUTS);
    for (int i = 0; i < c->count; i++) ms[i] = -1;
    const Status st = hold(&h, ms);
    for (int i = 0; i < c->output_count; i++)
        if (h.reference[i]) cudaFree(h.reference[i]);
    if (h.sums) cudaFree(h.sums);
    if (h.start) cudaEventDestroy(h.start);
    if (h.stop) cudaEventDestroy(h.stop);
    return st;
}
