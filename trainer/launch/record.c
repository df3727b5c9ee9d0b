/* record.c - see record.h. */
#include "trainer/launch/record.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "trainer/jsonl.h"
#include "trainer/launch/progress.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define HOST_BYTES   256
#define LOCK_TRIES   5
#define LOCK_PAUSE_S 0.05

struct Record {
    char *lock_path, *status_path;
    int lock_fd;
    char host[HOST_BYTES];
    Jsonl events;
    StrBuf state; /* what goes to the status file */
    bool warned;
};

typedef struct Holder { /* what a lock file says */
    char host[HOST_BYTES];
    int64_t pid;
    double time_s;
} Holder;

static void own_host(char *out, size_t bytes)
{
    if (gethostname(out, bytes) != 0) snprintf(out, bytes, "unknown");
    out[bytes - 1] = '\0';
}

/* ---- the lock ---- */

/* Reads "HOST PID TIME"; an empty or foreign file gives no host. */
static Holder read_holder(int fd)
{
    char text[512] = { 0 };
    long long pid = 0;
    Holder h = { .host = "" };
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0 || sscanf(text, "%255s %lld %lf", h.host, &pid, &h.time_s) != 3) return (Holder){ .host = "" };
    h.pid = pid;
    return h;
}

static void write_holder(const Record *r, double time_s)
{
    char text[512];
    int n = snprintf(text, sizeof text, "%s %ld %.0f\n", r->host, (long)getpid(), time_s);
    if (pwrite(r->lock_fd, text, (size_t)n, 0) != n || ftruncate(r->lock_fd, n) != 0)
        log_warning("%s: cannot be renewed: %s", r->lock_path, strerror(errno));
}

/* convoy launch --status holds the lock for an instant to see whether it is free: so not at the first try alone. */
static bool try_lock(int fd)
{
    for (int i = 0; i < LOCK_TRIES; i++, clock_sleep_s(LOCK_PAUSE_S))
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    return false;
}

static Status take_lock(Record *r)
{
    r->lock_fd = open(r->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (r->lock_fd < 0) return fail(ERR_IO, "%s: cannot open for writing: %s", r->lock_path, strerror(errno));
    bool locked = try_lock(r->lock_fd);
    int error = errno;
    Holder h = read_holder(r->lock_fd);
    double age_s = clock_unix_s() - h.time_s;
    bool far_away = h.host[0] && strcmp(h.host, r->host) != 0 && age_s < RECORD_FRESH_S;
    if (!locked && error != EWOULDBLOCK) return fail(ERR_IO, "%s: cannot be locked: %s", r->lock_path, strerror(error));
    if (!locked || far_away) {
        close(r->lock_fd); /* what stands in it belongs to the other */
        r->lock_fd = -1;
        return fail(ERR_ENV, "%s: another convoy launch has this run (process %lld on %s)", r->lock_path,
                    (long long)h.pid, h.host[0] ? h.host : "this host");
    }
    write_holder(r, clock_unix_s());
    return OK;
}

void record_renew_lock(Record *r)
{
    write_holder(r, clock_unix_s());
}

/* ---- opening ---- */

static Status open_parts(Record *r, const char *run_dir)
{
    own_host(r->host, sizeof r->host);
    r->lock_path = fs_join(run_dir, "launch.lock");
    r->status_path = fs_join(run_dir, "launch.status.json");
    if (!r->lock_path || !r->status_path) return ERR_MEMORY;
    TRY(fs_make_dirs(run_dir));
    TRY(take_lock(r));
    TRY(jsonl_open(&r->events, run_dir, "launch.jsonl"));
    return jsonl_cut_torn_line(&r->events);
}

Status record_open(Record **out, const char *run_dir)
{
    *out = NULL;
    Record *r = mem_calloc(1, sizeof *r);
    if (!r) return ERR_MEMORY;
    r->events.fd = r->lock_fd = -1;
    Status status = open_parts(r, run_dir);
    if (status == OK) *out = r;
    else record_close(r);
    return status;
}

void record_close(Record *r)
{
    if (!r) return;
    if (r->lock_fd >= 0) {
        write_holder(r, 0); /* free for a supervisor on any host */
        close(r->lock_fd);
    }
    jsonl_close(&r->events);
    mem_free(r->lock_path);
    mem_free(r->status_path);
    str_free(&r->state);
    mem_free(r);
}

/* ---- events ---- */

JsonWriter *record_begin(Record *r, const char *event)
{
    return jsonl_begin(&r->events, event);
}

static void warn_once(Record *r, const char *path, int error)
{
    if (!r->warned) log_warning("%s: cannot be written: %s", path, strerror(error));
    r->warned = true;
}

void record_end(Record *r)
{
    int error = jsonl_end(&r->events);
    if (error) warn_once(r, r->events.path, error);
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
    json_string(&w, "host", r->host);
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
    Status status = r->state.failed ? fail(ERR_MEMORY, "out of memory")
                                    : fs_write_atomic(r->status_path, r->state.text, r->state.length);
    if (status != OK && !r->warned) log_warning("%s", status_message());
    r->warned = r->warned || status != OK;
}

static double number_of(const JsonValue *v, const char *key)
{
    const JsonValue *field = json_get(v, key);
    return field && field->type == JSON_NUMBER ? field->number : 0;
}

static const char *string_of(const JsonValue *v, const char *key)
{
    const JsonValue *field = json_get(v, key);
    return field && field->type == JSON_STRING ? field->string : "?";
}

/* Whether the supervisor that wrote the status lives: on this host its lock tells, from elsewhere the time. */
static bool is_alive(const char *run_dir, const JsonValue *v)
{
    char host[HOST_BYTES];
    own_host(host, sizeof host);
    if (strcmp(host, string_of(v, "host")) != 0) return clock_unix_s() - number_of(v, "time") < RECORD_FRESH_S;
    char *path = fs_join(run_dir, "launch.lock");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    mem_free(path);
    if (fd < 0) return false;
    bool is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return !is_free;
}

static void describe(StrBuf *out, const JsonValue *v, const char *run_dir)
{
    double now = clock_unix_s(), limit = number_of(v, "max_hosts");
    bool alive = is_alive(run_dir, v), done = strcmp(string_of(v, "state"), "done") == 0;
    str_printf(out, "run         %s\n", run_dir);
    str_printf(out, "supervisor  process %.0f on %s%s\n", number_of(v, "pid"), string_of(v, "host"),
               alive  ? ""
               : done ? " (has ended)"
                      : " (gone without a word)");
    str_printf(out, "state       %s for %.0f s\n", string_of(v, "state"), now - number_of(v, "since"));
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
            str_printf(out, "cooldown    %s for %.0f s, lost %.0f times\n", string_of(h, "host"), left_s,
                       number_of(h, "strikes"));
    }
    str_printf(out, "started     %.0f times; %.0f of %.0f restarts after failures used\n", number_of(v, "attempt"),
               number_of(v, "restarts"), number_of(v, "max_restarts"));
    str_printf(out, "last step   %lld\n", (long long)progress_last_step(run_dir));
    if (string_of(v, "last")[0]) str_printf(out, "last        %s\n", string_of(v, "last"));
}

static Status print_text(const char *run_dir, const char *path, const char *text, size_t bytes)
{
    Arena *arena = NULL;
    JsonValue *v = NULL;
    StrBuf out = { 0 };
    TRY(arena_create(&arena, 0));
    Status status = json_parse(arena, text, bytes, &v);
    if (status != OK) status = fail_note(status, "%s", path);
    if (status == OK) {
        describe(&out, v, run_dir);
        status = out.failed ? fail(ERR_MEMORY, "out of memory") : log_print(out.text);
    }
    str_free(&out);
    arena_destroy(arena);
    return status;
}

Status record_print_state(const char *run_dir)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    char *path = fs_join(run_dir, "launch.status.json");
    if (!path) return ERR_MEMORY;
    Status status = fs_exists(path) ? fs_read_file(path, &text, &bytes)
                                    : fail(ERR_DATA, "%s: no run of convoy launch (%s is missing)", run_dir, path);
    if (status == OK) status = print_text(run_dir, path, (const char *)text, bytes);
    mem_free(text);
    mem_free(path);
    return status;
}
