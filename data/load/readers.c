/* readers.c - see readers.h.
 *
 * NUMBERS. oldest <= those read or being read < next <= oldest + READERS_MAX_AHEAD; number n lies
 * in items[n % READERS_MAX_AHEAD]. A reader takes a number only if what it will need is likely to
 * fit (may_start), which is asked again whenever an item is given back; since readers that wait
 * have no number yet, waking any one of them is right. Where nothing is ahead a reader always
 * starts: so decode threads, which release what they take, always get on.
 *
 * Decode threads wait each on a condition of its own, so that a read wakes only the one it is
 * for. */
#include "data/load/readers.h"
#include "base/byte_buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/trace.h"
#include "data/load/byte_ring.h"
#include "data/load/reader_count.h"
#include <stdio.h>
#include <string.h>

#define TRIM_BYTES  ((size_t)64 << 20)
#define FIRST_BYTES ((size_t)256 << 10) /* of a reader's buffer */
#define NOT_WAITING (-1)
/* the log tells of a number of readers that differs this much from the last one told */
#define SAID_FACTOR   2
#define FIRST_GUESS   ((size_t)128 << 10) /* bytes of a sample before any was read */
#define READS_MEASURE 4                   /* reads that a measure lasts, at least */

typedef enum ItemState { ITEM_FREE, ITEM_READING, ITEM_READY, ITEM_USED } ItemState;

typedef struct Item {
    ItemState state;
    int64_t number;
    Status status;
    char *reason; /* of a read that failed; owned */
    Sample sample;
    bool in_ring;
    int64_t piece; /* in_ring */
    ByteBuf own;   /* what the ring had no room for */
} Item;

typedef struct Waiter { /* one decode thread */
    pthread_cond_t ready;
    int64_t wants; /* number, NOT_WAITING */
} Waiter;

typedef struct Reader {
    Readers *readers;
    int lane; /* of the trace */
    pthread_t thread;
    ByteBuf buf;
} Reader;

struct Readers {
    ReadersOptions o;
    pthread_mutex_t lock;
    pthread_cond_t room; /* readers wait */
    Item *items;
    ByteRing *ring;
    Waiter *waiters;
    int waiting; /* decode threads */
    int idle;    /* readers */
    int64_t next, oldest;
    int reading;
    size_t mean_bytes, most_bytes;
    bool stopped;
    Reader threads[READERS_MAX];
    int started;
    ReaderCount size;
    int said;
    ReadersStats stats;
    ReaderMeasure measure; /* running */
    double measure_start_s, waiting_since_s;
};

static Item *item_of(const Readers *r, int64_t number)
{
    return &r->items[number % READERS_MAX_AHEAD];
}

/* ---- how far ahead ---- */

/* Is a number left, and will its bytes fit? Lock held. */
static bool may_start(const Readers *r)
{
    if (r->next >= r->o.reads || r->next >= r->oldest + READERS_MAX_AHEAD) return false;
    if (r->next == r->oldest) return true;
    size_t coming = (size_t)(r->reading + 1) * 2 * r->mean_bytes + r->most_bytes;
    return coming <= byte_ring_free(r->ring);
}

static void wake_reader(Readers *r)
{
    if (r->idle > 0 && may_start(r)) pthread_cond_signal(&r->room);
}

static bool take_number(Readers *r, int64_t *number)
{
    pthread_mutex_lock(&r->lock);
    while (!r->stopped && r->next < r->o.reads && !may_start(r)) {
        r->idle++;
        pthread_cond_wait(&r->room, &r->lock);
        r->idle--;
    }
    bool got = !r->stopped && r->next < r->o.reads;
    if (got) {
        *number = r->next++;
        r->reading++;
        *item_of(r, *number) = (Item){ .state = ITEM_READING, .number = *number };
        wake_reader(r);
    }
    pthread_mutex_unlock(&r->lock);
    return got;
}

/* ---- how many threads ---- */

static Status start_thread(Readers *r);

/* Says, where that is news, how many threads it takes. */
static void say_size(Readers *r)
{
    int64_t reads = latency_counts_total(&r->stats.reads);
    if (r->size.count < SAID_FACTOR * r->said || reads == 0) return;
    r->said = r->size.count;
    log_detail("%d threads read ahead (data.readers): a read takes %.1f ms, and %d decode threads "
               "should not wait for it%s",
               r->size.count, 1e3 * r->stats.reads.seconds / (double)reads, r->o.decoders,
               r->size.saturated ? "; the storage is at its limit" : "");
}

/* Waiting time, since the last call, of the decode threads that wait now; summed. */
static void count_waiting(Readers *r, double now_s)
{
    double starved_s = r->waiting * (now_s - r->waiting_since_s);
    r->measure.starved_s += starved_s;
    r->stats.starved_s += starved_s;
    r->waiting_since_s = now_s;
}

/* Grows the number of threads where that is due. Lock held. */
static void resize(Readers *r, double now_s)
{
    ReaderMeasure *m = &r->measure;
    double mean_s = m->reads > 0 ? m->read_s / m->reads : 0;
    m->now_s = now_s;
    m->seconds = now_s - r->measure_start_s;
    if (r->stopped || r->o.threads > 0 || m->seconds < READER_COUNT_PERIOD_S ||
        m->seconds < READS_MEASURE * mean_s)
        return;
    count_waiting(r, now_s);
    int before = r->size.count;
    (void)reader_count_update(&r->size, m);
    while (r->started < r->size.count && start_thread(r) == OK) continue;
    r->size.count = r->started;
    r->stats.saturated = r->size.saturated;
    if (r->size.count < SAID_FACTOR * before) say_size(r); /* else it is still finding out */
    r->measure = (ReaderMeasure){ .decoders = r->o.decoders };
    r->measure_start_s = now_s;
}

/* ---- reading ---- */

static bool lies_in(const ByteBuf *buf, const uint8_t *p)
{
    return p && p >= buf->data && p < buf->data + buf->capacity;
}

/* Puts what was read where it stays: lent memory as it is, else into the ring, else the buffer
 * itself. */
static void keep_sample(Readers *r, Item *item, Sample *sample, ByteBuf *buf)
{
    const EncodedImage *file = &sample->file;
    if (!lies_in(buf, file->bytes)) return;
    size_t bytes = file->size + file->seek_bytes;
    pthread_mutex_lock(&r->lock);
    uint8_t *place = byte_ring_take(r->ring, bytes, &item->piece);
    item->in_ring = place != NULL;
    pthread_mutex_unlock(&r->lock);
    if (place) {
        memcpy(place, file->bytes, bytes);
        *sample = source_file_sample(place, file->size, file->seek_bytes);
        return;
    }
    item->own = *buf;
    *buf = (ByteBuf){ 0 };
}

static Status read_sample(Readers *r, Reader *me, Item *item, Sample *sample, bool *hit)
{
    *sample = (Sample){ 0 };
    int64_t id = r->o.sample_at(r->o.cookie, item->number);
    if (id < 0) return OK;
    byte_buf_trim(&me->buf, TRIM_BYTES);
    Status status = dataset_read(r->o.dataset, id, 0, &me->buf, sample, hit);
    if (status == OK) keep_sample(r, item, sample, &me->buf);
    else if (!(item->reason = mem_strdup(status_message()))) status = ERR_MEMORY;
    return status;
}

static void count_read(Readers *r, size_t bytes, bool hit, double seconds)
{
    r->measure.reads++;
    r->measure.read_s += seconds;
    latency_counts_add(&r->stats.reads, seconds);
    r->stats.hits += hit;
    if (hit) return;
    r->stats.bytes += (int64_t)bytes;
    if (bytes > r->most_bytes) r->most_bytes = bytes;
    if (r->most_bytes > r->o.ahead_bytes / 4) r->most_bytes = r->o.ahead_bytes / 4;
    r->mean_bytes = r->stats.bytes == (int64_t)bytes ? bytes : (15 * r->mean_bytes + bytes) / 16;
}

static void finish(Readers *r, Item *item, const Sample *sample, Status status, bool hit,
                   double seconds)
{
    double now_s = clock_s();
    pthread_mutex_lock(&r->lock);
    item->sample = *sample;
    item->status = status;
    item->state = ITEM_READY;
    r->reading--;
    if (sample->file.size > 0) count_read(r, sample->file.size, hit, seconds);
    for (int i = 0; r->waiting > 0 && i < r->o.decoders; i++)
        if (r->waiters[i].wants == item->number) pthread_cond_signal(&r->waiters[i].ready);
    resize(r, now_s);
    wake_reader(r);
    pthread_mutex_unlock(&r->lock);
}

static void *run_reader(void *arg)
{
    Reader *me = arg;
    Readers *r = me->readers;
    int64_t number = 0;
    while (take_number(r, &number)) {
        Item *item = item_of(r, number);
        Sample sample;
        bool hit = false;
        double start_s = clock_s();
        Status status = read_sample(r, me, item, &sample, &hit);
        double end_s = clock_s();
        if (trace_on(r->o.trace))
            trace_add(r->o.trace, me->lane, "read", r->o.sample_at(r->o.cookie, number), start_s,
                      end_s);
        finish(r, item, &sample, status, hit, end_s - start_s);
    }
    return NULL;
}

/* A thread that cannot be started is done without, unless it would be the first. */
static Status start_thread(Readers *r)
{
    Reader *reader = &r->threads[r->started];
    char name[24];
    snprintf(name, sizeof name, "read-%d", r->started);
    reader->readers = r;
    reader->lane = trace_lane(r->o.trace, name, false);
    TRY(thread_start(&reader->thread, name, run_reader, reader));
    r->started++;
    return OK;
}

/* ---- decode threads ---- */

bool readers_take(Readers *r, int decoder, int64_t number, Sample *sample, Status *status)
{
    Item *item = item_of(r, number);
    Waiter *me = &r->waiters[decoder];
    pthread_mutex_lock(&r->lock);
    while (!r->stopped && !(item->state == ITEM_READY && item->number == number)) {
        count_waiting(r, clock_s());
        r->waiting++;
        me->wants = number;
        pthread_cond_wait(&me->ready, &r->lock);
        count_waiting(r, clock_s());
        me->wants = NOT_WAITING;
        r->waiting--;
    }
    bool got = !r->stopped;
    if (got) {
        *sample = item->sample;
        *status = item->status;
    }
    pthread_mutex_unlock(&r->lock);
    if (got && *status != OK) fail(*status, "%s", item->reason ? item->reason : "out of memory");
    return got;
}

void readers_release(Readers *r, int64_t number, double decode_s)
{
    Item *item = item_of(r, number);
    byte_buf_free(&item->own);
    mem_free(item->reason);
    item->reason = NULL;
    pthread_mutex_lock(&r->lock);
    if (item->in_ring) byte_ring_give(r->ring, item->piece);
    item->in_ring = false;
    item->state = ITEM_USED;
    for (Item *first = item_of(r, r->oldest); first->state == ITEM_USED;
         first = item_of(r, ++r->oldest))
        first->state = ITEM_FREE;
    r->measure.images++;
    r->measure.decode_s += decode_s;
    wake_reader(r);
    pthread_mutex_unlock(&r->lock);
}

/* ---- life ---- */

static Status build_readers(Readers *r)
{
    int remembered = r->o.dataset->learned->readers;
    r->size.count = r->o.threads > 0 ? r->o.threads : remembered > 0 ? remembered : READERS_FIRST;
    r->said = r->size.count > READERS_FIRST ? r->size.count : READERS_FIRST;
    r->mean_bytes = r->most_bytes = FIRST_GUESS;
    r->items = mem_calloc(READERS_MAX_AHEAD, sizeof *r->items);
    r->waiters = mem_calloc((size_t)r->o.decoders, sizeof *r->waiters);
    for (int i = 0; r->waiters && i < r->o.decoders; i++) {
        r->waiters[i].wants = NOT_WAITING;
        pthread_cond_init(&r->waiters[i].ready, NULL);
    }
    if (!r->items || !r->waiters) return ERR_MEMORY;
    /* For all that there may ever be, so that growing allocates nothing; memory is taken only as it
     * is written to. */
    for (int i = 0; i < (r->o.threads > 0 ? r->o.threads : READERS_MAX); i++)
        TRY(byte_buf_reserve(&r->threads[i].buf, FIRST_BYTES));
    /* Samples get their places in the order in which reads end: a few more than the window may lie
     * in between. */
    TRY(byte_ring_create(&r->ring, r->o.ahead_bytes, READERS_MAX_AHEAD + READERS_MAX));
    r->measure.decoders = r->o.decoders;
    r->measure_start_s = r->waiting_since_s = clock_s();
    pthread_mutex_lock(&r->lock); /* the first thread may start more */
    Status status = start_thread(r);
    while (r->started > 0 && r->started < r->size.count && start_thread(r) == OK) continue;
    r->size.count = r->started;
    pthread_mutex_unlock(&r->lock);
    return status;
}

Status readers_create(Readers **out, const ReadersOptions *o)
{
    *out = NULL;
    ASSERT(o->ahead_bytes > 0 && o->decoders > 0 && o->threads <= READERS_MAX);
    Readers *r = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    r->o = *o;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->room, NULL);
    Status status = build_readers(r);
    if (status == OK) *out = r;
    else readers_destroy(r);
    return status;
}

void readers_stop(Readers *r)
{
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->stopped = true;
    pthread_cond_broadcast(&r->room);
    for (int i = 0; i < r->o.decoders; i++) pthread_cond_signal(&r->waiters[i].ready);
    pthread_mutex_unlock(&r->lock);
}

void readers_destroy(Readers *r)
{
    if (!r) return;
    /* A reader that is at work may still start others, until it sees that all has stopped. */
    for (int i = 0; i < r->started; i++) pthread_join(r->threads[i].thread, NULL);
    for (int i = 0; i < READERS_MAX; i++) byte_buf_free(&r->threads[i].buf);
    if (r->o.threads == 0 && r->started > 0) {
        say_size(r);
        r->o.dataset->learned->readers = r->started;
    }
    for (int i = 0; r->items && i < READERS_MAX_AHEAD; i++) {
        byte_buf_free(&r->items[i].own);
        mem_free(r->items[i].reason);
    }
    for (int i = 0; r->waiters && i < r->o.decoders; i++)
        pthread_cond_destroy(&r->waiters[i].ready);
    pthread_cond_destroy(&r->room);
    pthread_mutex_destroy(&r->lock);
    mem_free(r->items);
    mem_free(r->waiters);
    byte_ring_destroy(r->ring);
    mem_free(r);
}

void readers_stats(Readers *r, ReadersStats *out)
{
    pthread_mutex_lock(&r->lock);
    count_waiting(r, clock_s());
    r->stats.threads = r->started;
    *out = r->stats;
    pthread_mutex_unlock(&r->lock);
}
