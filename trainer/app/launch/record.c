/* record.c - see record.h. */
#include "trainer/app/launch/record.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/jsonl.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "trainer/app/launch/lock.h"
#include "trainer/app/launch/progress.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct Record {
    char *status_path;
    LaunchLock *lock;
    Jsonl events;
    StrBuf state; /* what goes to the status file */
    bool warned;
};

/* ---- opening ---- */

static Status open_parts(Record *r, const char *run_dir, double silent_s, double wait_s)
{
    r->status_path = fs_join(run_dir, "launch.status.json");
    if (!r->status_path) return ERR_MEMORY;
    TRY(fs_make_dirs(run_dir));
    TRY(lock_take(&r->lock, run_dir, silent_s, wait_s));
    TRY(jsonl_open(&r->events, run_dir, "launch.jsonl"));
    return jsonl_cut_torn_line(&r->events);
}

Status record_open(Record **out, const char *run_dir, double silent_s, double wait_s)
{
    *out = NULL;
    Record *r = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    r->events.fd = -1;
    Status status = open_parts(r, run_dir, silent_s, wait_s);
    if (status == OK) *out = r;
    else record_close(r);
    return status;
}

void record_close(Record *r)
{
    if (!r) return;
    lock_release(r->lock);
    jsonl_close(&r->events);
    mem_free(r->status_path);
    str_free(&r->state);
    mem_free(r);
}

bool record_renew_lock(Record *r)
{
    return lock_renew(r->lock);
}

/* ---- events ---- */

JsonWriter *record_begin(Record *r, const char *event)
{
    return jsonl_begin(&r->events, event);
}

void record_end(Record *r)
{
    int error = jsonl_end(&r->events);
    if (error && !r->warned)
        log_warning("%s: cannot be written: %s", r->events.path, strerror(error));
    r->warned = r->warned || error;
}

void record_hosts(JsonWriter *w, const char *key, const HostList *hosts)
{
    char text[HOST_NAME_BYTES + 16];
    json_begin_array(w, key);
    for (int i = 0; i < hosts->count; i++) {
        snprintf(text, sizeof text, "%s:%d", hosts->host[i].name, hosts->host[i].slots);
        json_string(w, NULL, text);
    }
    json_end_array(w);
}

/* ---- the status file ---- */

static void write_cooldowns(JsonWriter *w, const HostBook *book, double now, double unix_now)
{
    json_begin_array(w, "cooldown");
    for (int i = 0; i < book->count; i++) {
        double left_s = hosts_cooldown(book, book->note[i].name, now);
        if (left_s <= 0) continue;
        json_begin_object(w, NULL);
        json_string(w, "host", book->note[i].name);
        json_number(w, "until", unix_now + left_s);
        json_int(w, "strikes", book->note[i].strikes);
        json_end_object(w);
    }
    json_end_array(w);
}

void record_state(Record *r, const LaunchState *s)
{
    double now = clock_unix_s();
    str_clear(&r->state);
    JsonWriter w = { .out = &r->state };
    json_begin_object(&w, NULL);
    json_string(&w, "state", s->state);
    json_string(&w, "host", process_host());
    json_int(&w, "pid", getpid());
    json_number(&w, "time", now);
    json_number(&w, "since", s->since_s);
    json_int(&w, "attempt", s->attempt);
    json_int(&w, "restarts", s->restarts);
    json_int(&w, "max_restarts", s->max_restarts);
    json_int(&w, "min_hosts", s->min_hosts);
    json_int(&w, "max_hosts", s->max_hosts);
    json_int(&w, "ranks", hosts_ranks(s->hosts));
    record_hosts(&w, "hosts", s->hosts);
    write_cooldowns(&w, s->book, clock_s(), now);
    json_string(&w, "last", s->last);
    json_end_object(&w);
    str_add(&r->state, "\n");
    Status status = r->state.failed
                        ? fail(ERR_MEMORY, "out of memory")
                        : fs_write_atomic(r->status_path, r->state.text, r->state.length);
    if (status != OK && !r->warned) log_warning("%s", status_message());
    r->warned = r->warned || status != OK;
}

static double number_of(const JsonValue *v, const char *key)
{
    const double number = json_double(v, key);
    return isnan(number) ? 0 : number;
}

static void describe(StrBuf *out, const JsonValue *v, const char *run_dir)
{
    double now = clock_unix_s(), limit = number_of(v, "max_hosts");
    bool alive = lock_holder_lives(run_dir, json_text(v, "host", "?"), number_of(v, "time"));
    bool done = strcmp(json_text(v, "state", "?"), "done") == 0;
    str_printf(out, "run         %s\n", run_dir);
    str_printf(out, "supervisor  process %.0f on %s%s\n", number_of(v, "pid"),
               json_text(v, "host", "?"),
               alive  ? ""
               : done ? " (has ended)"
                      : " (disappeared)");
    str_printf(out, "state       %s for %.0f s\n", json_text(v, "state", "?"),
               now - number_of(v, "since"));
    str_printf(out, "hosts       %.0f ranks on", number_of(v, "ranks"));
    const JsonValue *hosts = json_get(v, "hosts");
    for (const JsonValue *h = hosts ? hosts->child : NULL; h; h = h->next)
        str_printf(out, " %s", h->string ? h->string : "?");
    str_printf(out, "; wanted %.0f to ", number_of(v, "min_hosts"));
    if (limit > 0) str_printf(out, "%.0f\n", limit);
    else str_add(out, "any number\n");
    const JsonValue *cooldown = json_get(v, "cooldown");
    for (const JsonValue *h = cooldown ? cooldown->child : NULL; h; h = h->next) {
        double left_s = number_of(h, "until") - now;
        if (left_s > 0)
            str_printf(out, "cooldown    %s for %.0f s, lost %.0f times\n",
                       json_text(h, "host", "?"), left_s, number_of(h, "strikes"));
    }
    str_printf(out, "started     %.0f times; %.0f of %.0f restarts after failures used\n",
               number_of(v, "attempt"), number_of(v, "restarts"), number_of(v, "max_restarts"));
    str_printf(out, "last step   %lld\n", (long long)progress_last_step(run_dir));
    if (json_text(v, "last", "?")[0])
        str_printf(out, "last        %s\n", json_text(v, "last", "?"));
}

Status record_print_state(const char *run_dir)
{
    uint8_t *text FREED = NULL;
    size_t bytes = 0;
    char *path FREED = fs_join(run_dir, "launch.status.json");
    Arena *arena FREED_BY(arena_destroy_at) = NULL;
    JsonValue *v = NULL;
    StrBuf out = { 0 };
    if (!path) return ERR_MEMORY;
    if (!fs_exists(path))
        return fail(ERR_USAGE, "%s: not a run of convoy launch: no %s", run_dir, path);
    TRY(fs_read_limited(path, FS_TEXT_BYTES, &text, &bytes));
    TRY(arena_create(&arena, 0));
    Status status = json_parse(arena, (const char *)text, bytes, &v);
    if (status != OK) return fail_note(status, "%s", path);
    TRY(json_make_visible(arena, v));
    describe(&out, v, run_dir);
    return log_print_text(OK, &out);
}
