/* test_norm_sums.c - batch norm over ranks: networks whose batch is split over threads that sum
 * what ranks would, against one that has all of it. In float64 they agree to the last digit of the
 * float32 in which results are read; in float32 rounding moves elements over the kink of a ReLU. */
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/network.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { RANKS_MAX = 4, BATCH = 8 };

typedef struct Ranks { /* those that run beside each other */
    int count, sums;
    pthread_barrier_t meet;
    const OpTensor *tensor[RANKS_MAX];
} Ranks;

typedef struct Rank {
    Network network;
    Ranks *ranks;
    int number;
    double loss;
    Status status;
} Rank;

/* As MPI would, in an order that is the same for all. */
static Status sum_over_ranks(void *cookie, const SumRange *range, const OpTensor *tensor,
                             Stream *stream)
{
    const Rank *r = cookie;
    Ranks *all = r->ranks;
    (void)stream;
    CHECK(range->of == SUM_BATCHNORMS);
    all->tensor[r->number] = tensor;
    pthread_barrier_wait(&all->meet);
    if (r->number == 0) all->sums++;
    for (int64_t i = r->number; i < tensor_elements(&all->tensor[0]->desc); i += all->count) {
        double sum = 0;
        for (int k = 0; k < all->count; k++) sum += ((double *)all->tensor[k]->data)[i];
        for (int k = 0; k < all->count; k++) ((double *)all->tensor[k]->data)[i] = sum;
    }
    pthread_barrier_wait(&all->meet);
    return OK;
}

static Status run(Rank *r)
{
    float scalars[SCALAR_COUNT] = { 0 };
    scalars[SCALAR_GRAD_SCALE] = 1.0f / BATCH;
    TRY(executor_set_record(r->network.executor, "scalars", scalars));
    TRY(executor_run(r->network.executor, r->network.program,
                     &(RunOptions){ .sums = &(Sums){ .start = sum_over_ranks, .cookie = r } }));
    r->loss = program_stats(r->network.program)[STATS_LOSS_SUM];
    return OK;
}

static void *run_beside(void *rank)
{
    ((Rank *)rank)->status = run(rank);
    return NULL;
}

/* Rank number of all has its share of the images. */
static void open_rank(Rank *r, Ranks *all, int number, NetworkBackend backend, const char *model,
                      bool sync, const Network *whole)
{
    ModelOptions o = network_narrow(BATCH / all->count, 16);
    o.width = strcmp(model, "resnet20") == 0 ? 1 : o.width;
    o.graph.bn_ranks = sync ? all->count : 0;
    *r = (Rank){ .ranks = all, .number = number };
    REQUIRE_OK(network_open(&r->network, backend, model, &o));
    REQUIRE_OK(network_fill(&r->network));
    if (!whole) return;
    const size_t images = (size_t)(o.graph.batch * 16 * 16 * 3);
    memcpy(r->network.images, whole->images + (size_t)number * images, images);
    memcpy(r->network.labels, whole->labels + number * o.graph.batch,
           (size_t)o.graph.batch * sizeof(int32_t));
}

/* Of role ROLE_PARAM gradients, summed over ranks; of ROLE_BUFFER running statistics, of the rank
 * that is furthest off. The relative difference of all of them. */
static double differ(const Rank *whole, const Rank *ranks, int count, TensorRole role)
{
    const Graph *g = program_graph(whole->network.program);
    double error = 0, size = 0;
    for (TensorId id = 0; id < graph_tensor_count(g); id++) {
        const GraphTensor *t = graph_tensor(g, id);
        double *want = NULL, *got = NULL;
        int64_t n = 0;
        if (t->role != role) continue;
        CHECK_OK(network_read(&whole->network, role == ROLE_PARAM ? t->grad : id, &want, &n));
        double *left = mem_calloc((size_t)n, sizeof *left), *worst = want;
        for (int64_t i = 0; i < n; i++) size += want[i] * want[i];
        for (int r = 0; r < count; r++) {
            const Graph *h = program_graph(ranks[r].network.program);
            const TensorId same = graph_find(h, t->name);
            CHECK_OK(network_read(&ranks[r].network,
                                  role == ROLE_PARAM ? graph_tensor(h, same)->grad : same, &got,
                                  &n));
            for (int64_t i = 0; i < n; i++)
                left[i] =
                    role == ROLE_PARAM ? left[i] + got[i] : fmax(left[i], fabs(got[i] - worst[i]));
            mem_free(got);
        }
        for (int64_t i = 0; i < n; i++) {
            const double d = role == ROLE_PARAM ? left[i] - want[i] : left[i];
            error += d * d;
        }
        mem_free(left);
        mem_free(want);
    }
    return sqrt(error / size);
}

typedef struct Row {
    NetworkBackend backend;
    const char *model;
    int ranks;
    bool sync;
    double of_loss, of_gradients, of_statistics; /* at most; not sync: at least */
} Row;

static void check_row(const Row *row)
{
    static Rank whole, ranks[RANKS_MAX];
    Ranks one = { .count = 1 }, all = { .count = row->ranks };
    pthread_t threads[RANKS_MAX];
    double loss = 0;
    open_rank(&whole, &one, 0, row->backend, row->model, false, NULL);
    REQUIRE_OK(run(&whole));
    REQUIRE(pthread_barrier_init(&all.meet, NULL, (unsigned)all.count) == 0);
    for (int r = 0; r < all.count; r++)
        open_rank(&ranks[r], &all, r, row->backend, row->model, row->sync, &whole.network);
    for (int r = 0; r < all.count; r++)
        REQUIRE(pthread_create(&threads[r], NULL, run_beside, &ranks[r]) == 0);
    for (int r = 0; r < all.count; r++) {
        pthread_join(threads[r], NULL);
        CHECK_OK(ranks[r].status);
        loss += ranks[r].loss;
    }
    const double of_loss = fabs(loss / whole.loss - 1),
                 gradients = differ(&whole, ranks, all.count, ROLE_PARAM),
                 statistics = differ(&whole, ranks, all.count, ROLE_BUFFER);
    printf("    %s, %d ranks: loss %.3g, gradients %.3g, statistics %.3g off\n", row->model,
           row->ranks, of_loss, gradients, statistics);
    CHECK((of_loss <= row->of_loss) == row->sync);
    CHECK((gradients <= row->of_gradients) == row->sync);
    CHECK((statistics <= row->of_statistics) == row->sync);
    CHECK((all.sums > 0) == row->sync);
    for (int r = 0; r < all.count; r++) network_close(&ranks[r].network);
    network_close(&whole.network);
    pthread_barrier_destroy(&all.meet);
}

static void check_rows(const Row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) check_row(&rows[i]);
}

TEST(ranks_are_one_batch_in_float64)
{
    static const Row rows[] = {
        { NETWORK_REF, "resnet18", 2, true, 1e-12, 3e-7, 3e-7 },
        { NETWORK_REF, "resnet18", 4, true, 1e-12, 3e-7, 3e-7 },
        { NETWORK_REF_FUSED, "resnet20", 2, true, 1e-12, 3e-7, 3e-7 },
        { NETWORK_REF, "efficientnet_b0", 4, true, 1e-12, 3e-7, 3e-7 },
        /* and that it can fail */
        { NETWORK_REF, "resnet18", 2, false, 1e-4, 1e-2, 1e-3 },
    };
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

/* Where an element changes sides of a ReLU, a hundredth of the gradients may. */
TEST(ranks_are_one_batch_on_the_cpu)
{
    static const Row rows[] = {
        { NETWORK_CPU, "resnet18", 2, true, 1e-5, 0.05, 1e-5 },
        { NETWORK_CPU_FUSED, "resnet20", 4, true, 1e-5, 0.05, 1e-5 },
        { NETWORK_CPU, "efficientnet_b0", 4, true, 1e-3, 0.05, 1e-3 },
        { NETWORK_CPU_BF16, "resnet20", 2, true, 1e-3, 0.2, 1e-3 },
        { NETWORK_CPU, "resnet20", 2, false, 1e-3, 0.2, 1e-3 },
    };
    check_rows(rows, sizeof rows / sizeof rows[0]);
}
