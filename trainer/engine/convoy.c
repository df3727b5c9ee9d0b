/* convoy.c - see include/convoy.h. */
#include "trainer/engine/include/convoy.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/files/kept_config.h"
#include "trainer/engine/guard/presence.h"
#include "trainer/engine/guard/run_lock.h"
#include "trainer/engine/guard/signals.h"
#include "trainer/engine/session/device.h"
#include "trainer/engine/train/meet.h"
#include "trainer/engine/train/train_run.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define JOIN_S 600.0 /* until ranks that do not come are given up */

struct ConvoyRanks {
    Comm *comm;
};

struct ConvoyEngine {
    Comm *comm; /* borrowed */
    Config *config;
};

struct ConvoyRecord {
    RecordKind kind;
    const void *record;
};

const char *convoy_message(void)
{
    return status_message();
}

const char *convoy_version(void)
{
    return version_text();
}

/* ---- ranks ---- */

int convoy_join(ConvoyRanks **out)
{
    ConvoyRanks *r = mem_calloc(1, sizeof *r);
    Status status = r ? comm_create(&r->comm, JOIN_S, signals_stop_requested) : ERR_MEMORY;
    if (status == OK) status = log_open(NULL, r->comm->rank, LOG_WARNING);
    *out = status == OK ? r : NULL;
    if (status != OK) convoy_leave(r);
    return status_exit_code(status);
}

void convoy_leave(ConvoyRanks *ranks)
{
    if (!ranks) return;
    comm_destroy(ranks->comm);
    mem_free(ranks);
    log_close();
}

int convoy_rank(const ConvoyRanks *ranks)
{
    return ranks->comm->rank;
}

int convoy_world(const ConvoyRanks *ranks)
{
    return ranks->comm->world;
}

/* ---- the engine ---- */

int convoy_open(ConvoyEngine **out, ConvoyRanks *ranks, const char *config,
                const char *const *settings, int count)
{
    ConvoyEngine *e = mem_calloc(1, sizeof *e);
    Status status = e ? config_load(&e->config, config, settings, count) : ERR_MEMORY;
    if (status == OK && e->config->run.dir[0] == '\0')
        status = fail(ERR_USAGE, "run.dir is not set; the run needs a folder for its checkpoints");
    status = comm_agree(ranks->comm, status);
    if (e) e->comm = ranks->comm;
    *out = status == OK ? e : NULL;
    if (status != OK) convoy_close(e);
    return status_exit_code(status);
}

void convoy_close(ConvoyEngine *engine)
{
    if (!engine) return;
    config_destroy(engine->config);
    mem_free(engine);
}

/* ---- what a run tells ---- */

double convoy_number(const ConvoyRecord *record, const char *field)
{
    return records_number(record->kind, record->record, field);
}

const char *convoy_text(const ConvoyRecord *record, const char *field)
{
    return records_text(record->kind, record->record, field);
}

typedef struct Told { /* whose run it is, and who hears of it */
    const ConvoyEngine *engine;
    ConvoyEvents events;
} Told;

static Status tell(void *self, RecordKind kind, const void *record)
{
    const ConvoyEvents *e = &((const Told *)self)->events;
    const ConvoyRecord r = { kind, record };
    int (*const calls[RECORD_KINDS])(void *, const ConvoyRecord *) = {
        [RECORD_START] = e->start,           [RECORD_RESUME] = e->resume, [RECORD_STEP] = e->step,
        [RECORD_EPOCH] = e->epoch,           [RECORD_EVAL] = e->eval,     [RECORD_SPENT] = e->spent,
        [RECORD_CHECKPOINT] = e->checkpoint,
    };
    int stop = 0;
    if (calls[kind]) stop = calls[kind](e->self, &r);
    else if (e->other && (kind == RECORD_ON_SAVE || kind == RECORD_DIVERGED))
        stop = e->other(e->self, record_defs[kind].event, &r);
    if (stop) signals_request_stop();
    return OK;
}

/* The folder is that of a run from here on, for convoy train, eval and report too. */
static Status begin_folder(void *self, bool resumed, int64_t step)
{
    const Told *t = self;
    (void)step;
    if (t->engine->comm->rank != 0) return OK;
    return kept_config_write(t->engine->config->run.dir, t->engine->config, !resumed);
}

static Status tell_start(void *self, const StartRecord *record, Energy *energy)
{
    (void)energy;
    return tell(self, RECORD_START, record);
}

/* ---- a run ---- */

/* Rank 0: nobody else writes there. *lock: to be closed; -1: none. */
static Status take_folder(int *lock, const char *dir)
{
    char *checkpoints = fs_join(dir, "checkpoints"), *file = fs_join(dir, RUN_LOCK_FILE);
    Status status = checkpoints && file ? fs_make_dirs(checkpoints) : ERR_MEMORY;
    if (status == OK && (*lock = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0)
        status = fail(ERR_IO, "%s: cannot open: %s", file, strerror(errno));
    if (status == OK) status = run_lock_take(*lock, dir, 0);
    mem_free(checkpoints);
    mem_free(file);
    return status;
}

static Status train(Comm *comm, Config *c, const RunEvents *events)
{
    const bool is_main = comm->rank == 0;
    Presence *presence = NULL;
    int lock = -1;
    comm_set_timeout(comm, c->comm.timeout_s);
    TRY(meet_ranks(comm, c, OK));
    device_settle(comm, c);
    Status status = comm_agree(comm, is_main ? take_folder(&lock, c->run.dir) : OK);
    if (status == OK)
        status =
            comm_agree(comm, presence_begin(&presence, c->run.dir, is_main ? PRESENCE_RUN : NULL));
    if (status == OK) status = train_run(comm, c, events);
    presence_end(presence);
    if (lock >= 0) close(lock);
    return status;
}

int convoy_train(ConvoyEngine *engine, const ConvoyEvents *events)
{
    Told told = { .engine = engine };
    if (events) told.events = *events;
    const RunEvents table = {
        .self = &told, .start = tell_start, .begin = begin_folder, .record = tell
    };
    signals_forget_stop();
    const Status status = train(engine->comm, engine->config, &table);
    return status_exit_code(status);
}

void convoy_stop(void)
{
    signals_request_stop();
}
