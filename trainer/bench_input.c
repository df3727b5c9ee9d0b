/* bench_input.c - loader: what the input side delivers when nothing trains. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/bench.h"
#include "trainer/session.h"
#include <stdlib.h>

Config bench_config(const Config *c)
{
    Config local = *c;
    if (!c->data.train || c->data.train[0] == '\0') local.data.format = CONFIG_FORMAT_SYNTHETIC;
    local.data.val = NULL;
    return local;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* ---- loader ---- */

static Status take_batches(Loader *loader, int64_t count, double *wait_s, double *seconds)
{
    double start = clock_s();
    for (int64_t i = 0; i < count; i++) {
        Batch batch;
        bool more = true;
        TRY(loader_next(loader, &batch, &more, wait_s));
        ASSERT(more);
        loader_release(loader, &batch);
    }
    *seconds = clock_s() - start;
    return OK;
}

static Status run_loader(Session *s, const BenchOptions *o, double *seconds, LoaderStats *stats)
{
    Loader *loader;
    LoaderOptions options = session_loader_options(s, DATA_TRAIN);
    double wait_s = 0, warmup_s;
    options.last_step = -1;
    TRY(loader_create(&loader, s->train, &options));
    Status status = take_batches(loader, o->warmup, &wait_s, &warmup_s);
    if (status == OK) status = take_batches(loader, o->steps, &wait_s, seconds);
    loader_stats(loader, stats);
    loader_destroy(loader);
    return status;
}

Status bench_loader(Comm *comm, const Config *c, const BenchOptions *o)
{
    Config local = bench_config(c);
    Session s;
    LoaderStats stats = { 0 };
    double seconds = 0;
    Status status = session_open_data(&s, &local, comm);
    if (status == OK) status = comm_agree(comm, run_loader(&s, o, &seconds, &stats));
    if (status == OK) {
        double slowest = seconds;
        comm_allreduce(comm, &slowest, 1, COMM_F64, COMM_MAX, "bench");
        double images = (double)(o->steps * s.plan.batch * comm->world);
        log_info("images %.0f", images);
        log_info("decode_threads %d", s.threads.decode);
        log_info("readers %d", stats.readers);
        log_info("images_per_s %.1f", images / slowest);
        log_info("decode_ms_per_image %.3f", stats.images > 0 ? stats.decode.seconds * 1e3 / (double)stats.images : 0);
        log_info("megabytes_read %.2f", (double)stats.bytes_read * 1e-6);
    }
    session_close(&s);
    return status;
}
