/* comm_mpi.c - jobs carried by MPI, of which mpi_plugin.h knows the names.
 *
 * THREAD. One communication thread makes every MPI call from MPI_Init_thread to MPI_Finalize, so
 * MPI_THREAD_FUNNELED is enough ("main thread" is the one that initialises). Callers put jobs into
 * a queue under the lock and sleep on a condition until theirs is done. While nothing is in flight
 * the thread sleeps too; otherwise it polls, and naps between polls in which nothing moved.
 *
 * GROUPS of ranks have a communicator of their own. Its collectives are started in the one order of
 * all jobs, and none of them waits in a call, so ranks of different groups cannot wait in a circle.
 *
 * PIECES AND LANES. A job is cut into pieces, each one non-blocking collective of at most
 * PIECE_BYTES, and at most LANES of them are in flight. Pieces start in the order of the jobs,
 * which is the same on all ranks, hence so is the order of MPI calls on the communicator. Pieces of
 * several jobs may be in flight together. Cutting keeps counts far below INT_MAX, and it is what
 * makes large sums affordable: Open MPI 4.1's in-place MPI_Iallreduce of 100 MB at once costs about
 * three times the CPU time. A ring of Isend/Irecv gained too little to keep (one host, busy cores;
 * not measured across hosts).
 *
 * REPEATABILITY. Where pieces begin depends on the job alone, so MPI is asked for the same sums in
 * every run; that it gives the same bits on all ranks and in all runs is a property of its
 * algorithm, which tests/e2e/comm.sh checks.
 *
 * WATCHDOG. A piece that is not done after the timeout means a lost or hung peer. */
#include "trainer/engine/comm/comm_mpi.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "base/thread.h"
#include "trainer/engine/comm/peer_watchdog.h"

enum {
    LANES = 4,
    QUEUE_CAPACITY = 1024, /* jobs posted and not yet started; a post waits while it is full */
    PIECE_BYTES = 1 << 19,
    NAP_MIN_US = 20,
    NAP_MAX_US = 100,
    ABORT_PATIENCE_S = 5,
    OTHERS_SPEAK_S = 2 /* after rank 0 */
};

typedef struct Lane {
    CommJob *job; /* NULL: free */
    MpiHandle request;
    double started_s;
} Lane;

typedef struct MpiComm {
    Comm base; /* first: a Comm * is a MpiComm * */
    MpiLibrary library;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* for the thread: a job, stop, abort */
    /* for callers: a job is done, there is room, the thread has started or ended */
    pthread_cond_t changed;
    CommJob *queue[QUEUE_CAPACITY];
    size_t queue_first, queue_length;
    bool started, ended, stop, abort;
    int abort_code;
    Status start_status; /* of MPI_Init and set-up */
    char start_message[256];

    /* Below: the communication thread's own. */
    MpiHandle comm, group; /* group: of this rank, if it is grouped */
    bool grouped;
    CommJob *starting;  /* job whose pieces are being started, NULL if none */
    size_t next, total; /* its elements that have started, and all of them */
    Lane lanes[LANES];
    int busy_lanes;
    double polled_s; /* when the lanes were looked at last */
} MpiComm;

static const size_t type_bytes[] = { [COMM_F32] = sizeof(float),
                                     [COMM_F64] = sizeof(double),
                                     [COMM_I64] = sizeof(int64_t),
                                     [COMM_BYTES] = 1 };

/* ---- pieces ---- */

static size_t piece_limit(const CommJob *job)
{
    return PIECE_BYTES / type_bytes[job->type];
}

/* Where one rank's part of an allgather fits into one piece, one call does it; else every part is
 * broadcast by its owner. */
static bool gathers_by_broadcast(const CommJob *job)
{
    return job->kind == COMM_ALLGATHER && job->count > piece_limit(job);
}

/* Elements that the pieces of a job cover. */
static size_t job_total(const MpiComm *m, const CommJob *job)
{
    if (job->kind == COMM_BARRIER || job->kind == COMM_GROUP) return 1;
    return gathers_by_broadcast(job) ? job->count * (size_t)m->base.world : job->count;
}

/* Elements of the piece that begins at m->next: none crosses from one rank's part of an allgather
 * into another's. */
static size_t next_piece(const MpiComm *m)
{
    const CommJob *job = m->starting;
    size_t left =
        gathers_by_broadcast(job) ? job->count - m->next % job->count : m->total - m->next;
    return left < piece_limit(job) ? left : piece_limit(job);
}

static void start_piece(MpiComm *m, size_t elements, MpiHandle *request)
{
    CommJob *job = m->starting;
    const MpiTable *mpi = m->library.table;
    const size_t begin = m->next * type_bytes[job->type];
    const int count = (int)elements;
    char *data = job->data ? (char *)job->data + begin : NULL;
    const char *from = job->from ? (const char *)job->from + begin : NULL;
    switch (job->kind) {
    case COMM_GROUP:
        mpi->split(m->comm, m->base.rank / (int)job->count, m->base.rank, &m->group, request);
        m->grouped = true;
        break;
    case COMM_BARRIER:
        mpi->barrier(m->comm, request);
        break;
    case COMM_ALLREDUCE:
        mpi->allreduce(job->group ? m->group : m->comm, from, data, count, job->type, job->op,
                       request);
        break;
    case COMM_BROADCAST:
        mpi->broadcast(m->comm, data, count, job->type, job->root, request);
        break;
    case COMM_ALLGATHER:
        if (gathers_by_broadcast(job))
            mpi->broadcast(m->comm, data, count, job->type, (int)(m->next / job->count), request);
        else mpi->allgather(m->comm, data, count, job->type, request);
        break;
    }
}

/* ---- the communication thread ---- */

/* From here on the job belongs to whoever waits for it. */
static void finish_job(MpiComm *m, CommJob *job)
{
    pthread_mutex_lock(&m->lock);
    job->finished_s = clock_s();
    job->done = 1;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

/* Takes the next posted job into m->starting. */
static bool take_job(MpiComm *m)
{
    pthread_mutex_lock(&m->lock);
    bool any = m->queue_length > 0;
    if (any) {
        if (m->queue_length == QUEUE_CAPACITY) pthread_cond_broadcast(&m->changed);
        m->starting = m->queue[m->queue_first];
        m->queue_first = (m->queue_first + 1) % QUEUE_CAPACITY;
        m->queue_length--;
    }
    pthread_mutex_unlock(&m->lock);
    if (!any) return false;
    m->starting->started_s = clock_s();
    m->next = 0;
    m->total = job_total(m, m->starting);
    return true;
}

static Lane *free_lane(MpiComm *m)
{
    for (int i = 0; i < LANES; i++)
        if (!m->lanes[i].job) return &m->lanes[i];
    return NULL;
}

/* Starts pieces while there are lanes and jobs. True if it started any. */
static bool start_pieces(MpiComm *m)
{
    bool any = false;
    while (m->busy_lanes < LANES && (m->starting || take_job(m))) {
        CommJob *job = m->starting;
        if (m->total == 0) { /* an empty job needs no message; it is empty on every rank */
            m->starting = NULL;
            finish_job(m, job);
            continue;
        }
        Lane *lane = free_lane(m);
        size_t elements = next_piece(m);
        start_piece(m, elements, &lane->request);
        lane->job = job;
        lane->started_s = clock_s();
        m->busy_lanes++;
        m->next += elements;
        if (m->next == m->total) m->starting = NULL;
        any = true;
    }
    return any;
}

static void end_piece(MpiComm *m, Lane *lane)
{
    CommJob *job = lane->job;
    lane->job = NULL;
    m->busy_lanes--;
    if (m->starting == job) return;
    for (int i = 0; i < LANES; i++) {
        if (m->lanes[i].job == job) return;
    }
    finish_job(m, job);
}

/* True if any piece is done. */
static bool poll_lanes(MpiComm *m)
{
    bool any = false;
    for (int i = 0; i < LANES; i++) {
        Lane *lane = &m->lanes[i];
        if (!lane->job || !m->library.table->test(&lane->request)) continue;
        any = true;
        end_piece(m, lane);
    }
    return any;
}

/* MPI_Finalize and MPI_Abort would wait for the peer that is gone. */
static _Noreturn void leave_hung(MpiComm *m, double waited_s, const char *operation)
{
    peer_watchdog_report(&m->base, waited_s, operation, "a peer was lost or hangs");
    peer_watchdog_exit(&m->base);
}

static void forgive_pause(MpiComm *m, double now)
{
    double pause_s = peer_watchdog_pause_s(&m->polled_s, now);
    for (int i = 0; i < LANES && pause_s > 0; i++) {
        Lane *lane = &m->lanes[i];
        if (lane->job) lane->started_s = peer_watchdog_forgive(lane->started_s, pause_s, now);
    }
}

static void watch(MpiComm *m)
{
    double timeout_s = m->base.timeout_s, now = clock_s();
    forgive_pause(m, now);
    if (timeout_s <= 0) return;
    for (int i = 0; i < LANES; i++) {
        const Lane *lane = &m->lanes[i];
        if (!lane->job || now - lane->started_s < timeout_s) continue;
        leave_hung(m, now - lane->started_s, lane->job->name ? lane->job->name : "unnamed");
    }
}

/* Sleeps while there is nothing to do. False when asked to stop and everything that was posted is
 * done. */
static bool await_work(MpiComm *m)
{
    pthread_mutex_lock(&m->lock);
    while (m->queue_length == 0 && !m->starting && m->busy_lanes == 0 && !m->stop && !m->abort)
        pthread_cond_wait(&m->wake, &m->lock);
    bool abort = m->abort;
    bool work = m->queue_length > 0 || m->starting || m->busy_lanes > 0;
    pthread_mutex_unlock(&m->lock);
    if (abort) m->library.table->abort(m->abort_code);
    return work;
}

/* Longer naps the longer nothing moves: messages that are on their way end soon, a peer that still
 * computes may take long. */
static void nap(int *nap_us)
{
    struct timespec t = { .tv_nsec = *nap_us * 1000L };
    nanosleep(&t, NULL);
    *nap_us = *nap_us * 2 < NAP_MAX_US ? *nap_us * 2 : NAP_MAX_US;
}

/* "Open MPI v4.1.4 (/usr/lib/libmpi.so.40)": of what a library says the first words, one blank
 * between them. */
static void name_library(MpiComm *m)
{
    char name[200] = "", *to = name;
    const char *from = m->library.table->version();
    for (; *from && !strchr(",\n", *from) && to < name + sizeof name - 1; from++)
        if (!isspace((unsigned char)*from)) *to++ = *from;
        else if (to > name && to[-1] != ' ') *to++ = ' ';
    snprintf(m->base.library, sizeof m->base.library, "%s (%s)", name, m->library.path);
}

static Status start_mpi(MpiComm *m)
{
    MpiPlace place = { 0 };
    const char *wrong = m->library.table->start(&m->comm, &place);
    if (wrong) return fail(ERR_ENV, "%s: %s", m->library.path, wrong);
    m->base.rank = place.rank;
    m->base.world = place.world;
    m->base.local_rank = place.local_rank;
    m->base.local_world = place.local_world;
    m->base.local_leader = place.local_leader;
    name_library(m);
    return OK;
}

static void announce(MpiComm *m, bool *flag)
{
    pthread_mutex_lock(&m->lock);
    *flag = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

static void *communicate(void *arg)
{
    MpiComm *m = arg;
    m->start_status = start_mpi(m);
    if (m->start_status != OK)
        snprintf(m->start_message, sizeof(m->start_message), "%s", status_message());
    announce(m, &m->started);
    int nap_us = NAP_MIN_US;
    while (m->start_status == OK && await_work(m)) {
        bool moved = start_pieces(m);
        moved = poll_lanes(m) || moved;
        if (moved) {
            nap_us = NAP_MIN_US;
            continue;
        }
        watch(m);
        if (m->busy_lanes > 0) nap(&nap_us);
    }
    if (m->grouped) m->library.table->free(&m->group);
    if (m->start_status == OK) {
        m->library.table->free(&m->comm);
        m->library.table->finalize();
    }
    announce(m, &m->ended);
    return NULL;
}

/* ---- what callers see ---- */

static void mpi_post(Comm *c, CommJob *job)
{
    MpiComm *m = (MpiComm *)c;
    ASSERT(job->type != COMM_BYTES || job->kind != COMM_ALLREDUCE);
    job->done = 0;
    pthread_mutex_lock(&m->lock);
    while (m->queue_length == QUEUE_CAPACITY) pthread_cond_wait(&m->changed, &m->lock);
    job->posted_s = clock_s();
    m->queue[(m->queue_first + m->queue_length) % QUEUE_CAPACITY] = job;
    m->queue_length++;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
}

static void mpi_wait(Comm *c, CommJob *job)
{
    MpiComm *m = (MpiComm *)c;
    pthread_mutex_lock(&m->lock);
    while (!job->done) pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

/* The thread calls MPI_Abort between two polls; if it is stuck inside MPI this process leaves
 * without it, which mpirun also notices. */
static void mpi_abort(Comm *c, int exit_code)
{
    MpiComm *m = (MpiComm *)c;
    pthread_mutex_lock(&m->lock);
    m->abort = true;
    m->abort_code = exit_code;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
    clock_sleep_s(ABORT_PATIENCE_S);
    _exit(exit_code);
}

static void release(MpiComm *m)
{
    pthread_cond_destroy(&m->wake);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

/* Waits for the end of the thread, no longer than the timeout: MPI_Finalize waits for peers and
 * cannot be polled. */
static void await_end(MpiComm *m)
{
    double timeout_s = m->base.timeout_s;
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += (time_t)timeout_s + 1;
    pthread_mutex_lock(&m->lock);
    while (!m->ended) {
        if (timeout_s <= 0) pthread_cond_wait(&m->changed, &m->lock);
        else if (pthread_cond_timedwait(&m->changed, &m->lock, &limit) != 0 && !m->ended)
            leave_hung(m, timeout_s, "MPI_Finalize");
    }
    pthread_mutex_unlock(&m->lock);
}

static void mpi_destroy(Comm *c)
{
    MpiComm *m = (MpiComm *)c;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
    await_end(m);
    pthread_join(m->thread, NULL);
    release(m);
}

static const CommVTable mpi_vtable = {
    .post = mpi_post, .wait = mpi_wait, .abort = mpi_abort, .destroy = mpi_destroy
};

/* MPI_Init cannot be called off, so who gives up on it ends the process. One rank speaks for all;
 * where rank 0 is what does not come, the others are left. */
static _Noreturn void leave_unstarted(double waited_s)
{
    if (waited_s == 0) {
        log_info("convoy: stopped on request while MPI was starting; there was nothing to save; "
                 "run the same command to continue");
        _exit(status_exit_code(ERR_STOPPED));
    }
    if (log_rank() != 0) clock_sleep_s(OTHERS_SPEAK_S);
    log_error(
        "rank %d on %s: MPI did not start within %.0f s (watchdog.start_s): a rank has not reached "
        "MPI_Init; check that the same convoy runs on all hosts and that they reach each other",
        log_rank(), process_host(), waited_s);
    _exit(EXIT_PEER_LOST);
}

static void await_start(MpiComm *m, double limit_s, bool (*stopped)(void))
{
    const double start_s = clock_s();
    struct timespec next;
    pthread_mutex_lock(&m->lock);
    while (!m->started) {
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec++;
        pthread_cond_timedwait(&m->changed, &m->lock, &next);
        if (m->started) break;
        if (stopped && stopped()) leave_unstarted(0);
        if (limit_s > 0 && clock_s() - start_s > limit_s) leave_unstarted(clock_s() - start_s);
    }
    pthread_mutex_unlock(&m->lock);
}

Status comm_mpi_create(Comm **out, const MpiLibrary *library, double start_s, bool (*stopped)(void))
{
    *out = NULL;
    MpiComm *m = mem_calloc(1, sizeof *m);
    if (!m) return ERR_MEMORY;
    m->base.v = &mpi_vtable;
    m->base.name = "mpi";
    m->library = *library;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->wake, &monotonic);
    pthread_cond_init(&m->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    Status status = thread_start(&m->thread, "comm", communicate, m);
    if (status != OK) {
        release(m);
        return status;
    }
    await_start(m, start_s, stopped);
    if (m->start_status != OK) {
        status = fail(m->start_status, "%s", m->start_message);
        mpi_destroy(&m->base);
        return status;
    }
    *out = &m->base;
    return OK;
}
