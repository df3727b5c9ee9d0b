/* runlog.c - writes a run's records: JSON lines for programs, log lines for people.
 *
 * Records go to metrics.jsonl as jsonl.h says, through a buffer that runlog_open() sizes. */
#include "trainer/app/log/runlog.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/jsonl.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/files/kept_config.h"
#include "trainer/engine/guard/run_lock.h"
#include "trainer/engine/train/input_report.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOCK_WAIT_S 30.0
#define LINE_BYTES  32768 /* a sentence of 1 KiB or a path of 4 KiB, each byte escaped to six */

struct RunLog {
    int rank;
    LogFormat format;
    bool is_new, begun;
    bool titled; /* the table has its header */
    bool evaluated;
    EvalRecord last;
    char checkpoint[64];                /* the newest one's name */
    double host_s, total_host_s, hosts; /* since this start; by the run */
    char *dir;                          /* NULL: none, or another rank's */
    Jsonl metrics;                      /* not open: no file */
    StrBuf held;                        /* records until the run begins */
    StrBuf left;                        /* of the progress line */
};

/* ---- opening ---- */

static LogLevel console_level(const RunLog *r)
{
    return r->rank == 0 && r->format == LOG_FORMAT_JSON ? LOG_WARNING : LOG_INFO;
}

/* So long a rank of an earlier start, on a host that was cut off, may take to see that it is alone.
 * Less than the time after which the other ranks would take this one for lost. */
static double patience_s(const Config *config)
{
    if (!config) return 0;
    const double timeout_s = config->comm.timeout_s;
    return timeout_s > 0 ? fmin(LOCK_WAIT_S, timeout_s / 2) : LOCK_WAIT_S;
}

/* Grows the line buffer to its final size. */
static Status reserve_line(RunLog *r)
{
    StrBuf *line = &r->metrics.line;
    for (int i = 0; i < LINE_BYTES / 64; i++) str_printf(line, "%64s", "");
    bool failed = line->failed;
    str_clear(line);
    return failed ? fail(ERR_MEMORY, "out of memory for the run log") : OK;
}

static Status open_folder(RunLog *r, const char *dir, const Config *config)
{
    if (!(r->dir = mem_strdup(dir))) return ERR_MEMORY;
    TRY(fs_make_dirs(dir));
    TRY(jsonl_open(&r->metrics, dir, RUN_LOCK_FILE));
    TRY(run_lock_take(r->metrics.fd, dir, patience_s(config)));
    r->metrics.held = &r->held;
    /* those that failed before their start, any number, have at most said so */
    r->is_new = jsonl_count(&r->metrics, "{\"event\":\"start\"", 1) == 0;
    return OK;
}

Status runlog_open(RunLog **out, const char *dir, int rank, const Config *config)
{
    *out = NULL;
    RunLog *r = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    r->rank = rank;
    r->metrics.fd = -1;
    r->format = config ? config->log.format : LOG_FORMAT_LINE;
    Status status = rank == 0 && dir ? open_folder(r, dir, config) : OK;
    if (status == OK) status = log_open(NULL, rank, console_level(r));
    if (config) log_hold();
    else if (status == OK) status = runlog_begin(r, NULL, 1);
    if (status != OK) runlog_close(r);
    else *out = r;
    return status;
}

bool runlog_is_new(const RunLog *r)
{
    return r->is_new;
}

void runlog_close(RunLog *r)
{
    if (!r) return;
    jsonl_close(&r->metrics);
    /* Closes log.txt; the console stays open for what main may still have to say, and silent on
     * other ranks. Cannot fail without a path. */
    log_open(NULL, r->rank, LOG_INFO);
    log_release();
    str_free(&r->held);
    str_free(&r->left);
    mem_free(r->dir);
    mem_free(r);
}

/* ---- a rank's own file ---- */

static Status open_own(const char *path)
{
    char *folder FREED = fs_parent(path);
    if (!folder) return ERR_MEMORY;
    Status status = fs_make_dirs(folder);
    if (status == OK) status = log_add_file(path);
    return status == OK ? OK : fail_note(status, "log.file");
}

Status runlog_file_name(char **out, const Config *config, int rank, int world)
{
    char *name FREED = NULL;
    *out = NULL;
    TRY(config_file_name(&name, "log.file", config->log.file, rank, world));
    if (!name) return OK;
    *out = fs_join(name[0] == '/' ? "" : config->run.dir, name);
    return *out ? OK : ERR_MEMORY;
}

/* ---- beginning ---- */

static Status begin_folder(RunLog *r, const Config *config)
{
    char *checkpoints FREED = fs_join(r->dir, "checkpoints");
    char *text FREED = fs_join(r->dir, "log.txt");
    if (!checkpoints || !text) return ERR_MEMORY;
    TRY(jsonl_cut_torn_line(&r->metrics));
    if (config) TRY(fs_make_dirs(checkpoints));
    if (config) TRY(kept_config_write(r->dir, config, r->is_new));
    TRY(log_open(text, r->rank, console_level(r)));
    TRY(reserve_line(r));
    int error = jsonl_append(&r->metrics, &r->held);
    r->metrics.held = NULL;
    return error ? fail(ERR_IO, "%s: cannot write: %s", r->metrics.path, strerror(error)) : OK;
}

Status runlog_begin(RunLog *r, const Config *config, int world)
{
    char *own FREED = NULL;
    if (r->begun) return OK;
    if (config) TRY(runlog_file_name(&own, config, r->rank, world));
    if (r->metrics.fd >= 0) TRY(begin_folder(r, config));
    if (own) TRY(open_own(own));
    log_release();
    str_free(&r->held);
    r->begun = true;
    return OK;
}

/* ---- records ---- */

/* 0 or an errno. Nothing where there is no file. */
static int try_write(RunLog *r, RecordKind kind, const void *record)
{
    if (!r || r->metrics.fd < 0) return 0;
    records_write(jsonl_begin(&r->metrics, record_defs[kind].event), kind, record);
    const int error = jsonl_end(&r->metrics);
    if (r->format == LOG_FORMAT_JSON && !r->metrics.line.failed)
        (void)log_print(r->metrics.line.text);
    return error;
}

/* People count epochs from 1, records from 0. */
static long long shown(int64_t epoch)
{
    return (long long)epoch + 1;
}

/* What trains on what, with what, for how long, and where it is kept; the rest is detail. */
static void say_start(RunLog *r, const StartRecord *s)
{
    char val[64] = ", no validation set", data[96];
    r->hosts = (double)s->hosts;
    if (s->val_images > 0)
        snprintf(val, sizeof val, ", %lld for validation", (long long)s->val_images);
    const long long samples = s->images, classes = s->classes, tokens = s->tokens;
    if (s->text)
        snprintf(data, sizeof data, "%lld %s of at most %lld tokens, %lld %s", samples,
                 units_name(&units_text, samples), tokens, classes, s->masks ? "words" : "classes");
    else
        snprintf(data, sizeof data, "%lld %s of %lld classes", samples,
                 units_name(&units_images, samples), classes);
    log_info("%s (%.3g M parameters): %s%s", s->model, 1e-6 * (double)s->parameters, data, val);
    log_info("%lld %s on %s (%s, %s), global batch %lld, %lld %s (%.4g %s)", (long long)s->world,
             s->world == 1 ? "rank" : "ranks", s->host, s->device, s->precision,
             (long long)s->global_batch, (long long)s->steps, s->steps == 1 ? "step" : "steps",
             s->epochs, s->epochs == 1 ? "epoch" : "epochs");
    if (r->dir) log_info("run folder: %s", r->dir);
    log_detail("dataset: %s; backend: %s", s->dataset, s->backend);
    log_detail("%s", s->device_reason);
}

void runlog_row(RunLog *r, const ConsoleRow *row)
{
    char text[CONSOLE_TEXT_BYTES];
    if (r->rank != 0) return;
    if (!r->titled) log_info("%s", console_table_header);
    r->titled = true;
    console_table_row(row, text);
    log_info("%s", text);
}

static const Units *units(bool text)
{
    return text ? &units_text : &units_images;
}

enum { PPL_BYTES = 32 };
/* " ppl 609.13"; "" where no masked words are to be filled in. */
static const char *ppl_text(const StepRecord *s, char out[PPL_BYTES])
{
    out[0] = '\0';
    if (records_unmasked(s)) snprintf(out, PPL_BYTES, " (no masked word)");
    else if (s->masks) snprintf(out, PPL_BYTES, " ppl %.5g", s->ppl);
    return out;
}

static void say_step(const StepRecord *s)
{
    char ppl[PPL_BYTES];
    log_note("epoch %lld step %lld loss %.6g%s lr %.6g %.1f %s, %.1f ms: data wait %.1f, comm "
             "wait %.1f",
             shown(s->epoch), (long long)s->step, s->loss, ppl_text(s, ppl), s->lr,
             records_speed(s), units(s->text)->speed, s->step_ms, s->data_wait_ms, s->comm_wait_ms);
}

static void print_rank_epochs(const EpochRecord *e)
{
    char text[CONSOLE_TEXT_BYTES];
    for (int i = 0; i < e->world; i++) {
        console_epoch_line(e->epoch, i, &e->ranks[i], e->rank_batch, e->steps, text);
        log_info("%s", text);
    }
}

static void say_epoch(RunLog *r, const EpochRecord *e)
{
    char input[512], tokens[48] = "";
    const Units *u = units(e->text);
    if (e->ranks && r->rank == 0) print_rank_epochs(e);
    if (e->text) snprintf(tokens, sizeof tokens, " (%lld tokens)", (long long)e->tokens);
    log_info("epoch %lld done: %lld %s%s in %.1f s, %.1f %s", shown(e->epoch), (long long)e->images,
             units_name(u, e->images), tokens, e->seconds,
             e->text ? e->tokens_per_s : e->images_per_s, u->speed);
    if (e->energy_j > 0)
        log_info("epoch %lld energy: %.4g kJ, %.4g J/%s, %.1f %% of it waiting for data",
                 shown(e->epoch), 1e-3 * e->energy_j, e->joules_per_image, u->one,
                 100 * e->wait_energy_j / e->energy_j);
    if (e->has_input) {
        input_report_describe(&e->input, input, sizeof input);
        log_info("epoch %lld input: %s", shown(e->epoch), input);
    }
}

static void say_masked_eval(const char *where, const EvalRecord *e)
{
    log_info("%seval: loss %.4f, ppl %.5g, %.2f %% of the masked words found, %lld %s, "
             "%lld tokens, %.1f %% masked",
             where, e->loss, e->ppl, 100 * e->top1, (long long)e->images,
             units_name(&units_text, e->images), (long long)e->tokens, 100 * e->masked);
    if (e->has_ema)
        log_info("%seval of averaged weights: loss %.4f, ppl %.5g, %.2f %% of the masked words "
                 "found",
                 where, e->ema_loss, exp(e->ema_loss), 100 * e->ema_top1);
}

static void say_eval(RunLog *r, const EvalRecord *e)
{
    r->evaluated = true;
    r->last = *e;
    char where[64] = "", more[48] = ""; /* third-party weights have no step */
    if (e->step > 0)
        snprintf(where, sizeof where, "epoch %lld step %lld ", shown(e->epoch), (long long)e->step);
    if (e->masks) {
        say_masked_eval(where, e);
        return;
    }
    if (e->multi) snprintf(more, sizeof more, " of %lld classes", (long long)e->map_classes);
    else if (e->classes > 5) snprintf(more, sizeof more, ", top-5 %.2f %%", 100 * e->top5);
    const char *share = records_share_name(e->multi);
    log_info("%seval on %lld %s: loss %.4f, %s %.2f %%%s", where, (long long)e->images,
             units_name(units(e->text), e->images), e->loss, share, 100 * records_share(e, false),
             more);
    if (e->has_ema)
        log_info("%seval of averaged weights: loss %.4f, %s %.2f %%", where, e->ema_loss, share,
                 100 * records_share(e, true));
}

static void keep_name(RunLog *r, const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(r->checkpoint, sizeof r->checkpoint, "%s", slash ? slash + 1 : path);
}

Status runlog_record(RunLog *r, RecordKind kind, const void *record)
{
    const CheckpointRecord *saved = record;
    const ResumeRecord *resumed = record;
    const SpentRecord *spent = record;
    switch (kind) {
    case RECORD_START:
        say_start(r, record);
        break;
    case RECORD_STEP:
        say_step(record);
        break;
    case RECORD_EPOCH:
        say_epoch(r, record);
        break;
    case RECORD_EVAL:
        say_eval(r, record);
        break;
    case RECORD_SPENT:
        r->host_s += spent->host_seconds;
        r->total_host_s = spent->total_host_seconds;
        break;
    case RECORD_CHECKPOINT:
        if (r->rank == 0) log_info("step %lld: saved %s", (long long)saved->step, saved->path);
        keep_name(r, saved->path);
        break;
    case RECORD_RESUME:
        keep_name(r, resumed->path);
        break;
    case RECORD_ON_SAVE:
    case RECORD_GPU:
    case RECORD_DIVERGED:
    case RECORD_DONE:
    case RECORD_KINDS:
        break;
    }
    const int error = try_write(r, kind, record);
    return error ? fail(ERR_IO, "%s: cannot write: %s", r->metrics.path, strerror(error)) : OK;
}

static void print_result(const RunLog *r)
{
    char lines[CONSOLE_RESULT_LINES][CONSOLE_TEXT_BYTES];
    static const char ended[] = "\"code\":0,\"reason\":\"completed\"}";
    const ConsoleResult result = { .checkpoint = r->checkpoint,
                                   .this_s = r->host_s / r->hosts,
                                   .total_s = r->total_host_s / r->hosts,
                                   .iteration = 1 + jsonl_count(&r->metrics, ended, INT64_MAX - 1),
                                   .evaluated = r->evaluated,
                                   .multi = r->last.multi,
                                   .accuracy = records_share(&r->last, false),
                                   .loss = r->last.loss };
    const int count = console_result_table(&result, lines);
    for (int i = 0; i < count; i++) log_info("%s", lines[i]);
}

void runlog_done(RunLog *r, int code, const char *reason)
{
    if (r && r->format == LOG_FORMAT_EPOCH && code == 0 && r->metrics.fd >= 0 && r->host_s > 0)
        print_result(r);
    /* No fail() here: the run has its outcome, and the sentence of that must still be there for
     * main to print. */
    const int error = try_write(r, RECORD_DONE, &(DoneRecord){ code, reason });
    if (error)
        log_warning("%s: cannot write the last record: %s", r->metrics.path, strerror(error));
}

void runlog_progress(RunLog *r, const StepRecord *s, int64_t total_steps, double eta_s)
{
    char input[32] = "", ppl[PPL_BYTES];
    if (r->rank != 0 || r->format != LOG_FORMAT_LINE) return;
    str_clear(&r->left);
    if (eta_s >= 0 && eta_s < 1e9) str_add_duration(&r->left, eta_s);
    else str_add(&r->left, "?");
    const double wait = s->step_ms > 0 ? 100 * s->data_wait_ms / s->step_ms : 0;
    if (wait >= 1) snprintf(input, sizeof input, ", data wait %.0f %%", wait);
    log_progress("epoch %lld step %lld/%lld loss %.4f%s lr %.4g %.1f %s, %s left%s",
                 shown(s->epoch), (long long)s->step, (long long)total_steps, s->loss,
                 ppl_text(s, ppl), s->lr, records_speed(s), units(s->text)->speed,
                 r->left.failed ? "?" : r->left.text, input);
}

void runlog_last_words(const RunLog *r, int code, const char *reason)
{
    StrBuf line FREED_BY(str_free) = { 0 };
    JsonWriter w = { .out = &line };
    if (!r || !r->begun || r->metrics.fd < 0) return;
    json_begin_object(&w, NULL);
    json_string(&w, "event", "done");
    json_number(&w, "time", clock_unix_s());
    records_write(&w, RECORD_DONE, &(DoneRecord){ code, reason });
    json_end_object(&w);
    str_add(&line, "\n");
    if (jsonl_append(&r->metrics, &line) != 0)
        log_warning("%s: cannot write the last record", r->metrics.path);
}
