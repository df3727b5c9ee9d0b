/* trace.c - see trace.h. */
#include "base/trace.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DAY_S    86400.0
#define SUBLANES 16

typedef struct Span {
    const char *name;
    int64_t number;
    double start_s, end_s;
} Span;

typedef struct Lane {
    char *name;
    bool spread;
    Span *spans;
    int64_t count;
    size_t capacity;
} Lane;

struct Trace {
    _Atomic bool on;
    double midnight_s; /* in clock_s() */
    pthread_mutex_t lock;
    Lane lanes[TRACE_LANES_MAX];
    int lane_count;
    int64_t lost;
};

Status trace_create(Trace **out)
{
    Trace *t = *out = mem_calloc(1, sizeof *t);
    if (!t) return ERR_MEMORY;
    double now_s = clock_unix_s();
    t->midnight_s = clock_s() - fmod(now_s, DAY_S);
    pthread_mutex_init(&t->lock, NULL);
    return OK;
}

void trace_destroy(Trace *t)
{
    if (!t) return;
    for (int i = 0; i < t->lane_count; i++) {
        mem_free(t->lanes[i].name);
        mem_free(t->lanes[i].spans);
    }
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
}

int trace_lane(Trace *t, const char *name, bool spread)
{
    int found = -1;
    if (!t) return -1;
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < t->lane_count && found < 0; i++)
        if (strcmp(t->lanes[i].name, name) == 0) found = i;
    char *copy = found < 0 && t->lane_count < TRACE_LANES_MAX ? mem_strdup(name) : NULL;
    if (copy) {
        found = t->lane_count++;
        t->lanes[found] = (Lane){ .name = copy, .spread = spread };
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

void trace_start(Trace *t)
{
    if (t) atomic_store(&t->on, true);
}

void trace_stop(Trace *t)
{
    if (t) atomic_store(&t->on, false);
}

bool trace_on(const Trace *t)
{
    return t && atomic_load_explicit(&t->on, memory_order_relaxed);
}

void trace_add(Trace *t, int lane, const char *name, int64_t number, double start_s, double end_s)
{
    if (!trace_on(t) || lane < 0) return;
    pthread_mutex_lock(&t->lock);
    Lane *l = &t->lanes[lane];
    if (mem_grow(&l->spans, (size_t)l->count, &l->capacity, sizeof *l->spans))
        l->spans[l->count++] = (Span){ name, number, start_s, end_s > start_s ? end_s : start_s };
    else t->lost++;
    pthread_mutex_unlock(&t->lock);
}

/* ---- writing ---- */

/* By start; of those that start together the longer one, which may hold the others, comes first. */
static int compare_spans(const void *a, const void *b)
{
    const Span *x = a, *y = b;
    if (x->start_s != y->start_s) return x->start_s < y->start_s ? -1 : 1;
    return x->end_s > y->end_s ? -1 : x->end_s < y->end_s;
}

static void add_metadata(JsonWriter *w, const char *kind, int rank, int thread, const char *name)
{
    json_begin_object(w, NULL);
    json_string(w, "name", kind);
    json_string(w, "ph", "M");
    json_int(w, "pid", rank);
    json_int(w, "tid", thread);
    json_begin_object(w, "args");
    json_string(w, "name", name);
    json_end_object(w);
    json_end_object(w);
}

static void add_span(JsonWriter *w, const Trace *t, const Span *s, int rank, int thread)
{
    json_begin_object(w, NULL);
    json_string(w, "name", s->name);
    json_string(w, "ph", "X");
    json_int(w, "pid", rank);
    json_int(w, "tid", thread);
    json_number(w, "ts", 1e6 * (s->start_s - t->midnight_s));
    json_number(w, "dur", 1e6 * (s->end_s - s->start_s));
    if (s->number != TRACE_NO_NUMBER) {
        json_begin_object(w, "args");
        json_int(w, "number", s->number);
        json_end_object(w);
    }
    json_end_object(w);
}

static Status add_lane(JsonWriter *w, const Trace *t, Lane *l, int rank, int first_thread)
{
    double busy_until_s[SUBLANES];
    int named = 0;
    for (int i = 0; i < SUBLANES; i++) busy_until_s[i] = -INFINITY;
    if (l->count > 0) qsort(l->spans, (size_t)l->count, sizeof *l->spans, compare_spans);
    for (int64_t i = 0; i < l->count; i++) {
        /* the first part of a spread lane that is free; the last one has to take what is left */
        const Span *s = &l->spans[i];
        int part = 0;
        while (l->spread && part < SUBLANES - 1 && busy_until_s[part] > s->start_s) part++;
        busy_until_s[part] = s->end_s;
        for (; named <= part; named++) {
            StrBuf name = { 0 };
            str_add(&name, l->name);
            if (named > 0) str_printf(&name, " %d", named + 1);
            const bool failed = name.failed;
            if (!failed) add_metadata(w, "thread_name", rank, first_thread + named, name.text);
            str_free(&name);
            if (failed) return ERR_MEMORY;
        }
        add_span(w, t, s, rank, first_thread + part);
    }
    return OK;
}

static Status add_all(Trace *t, StrBuf *text, int rank, const char *process)
{
    JsonWriter w = { .out = text };
    Status status = OK;
    json_begin_object(&w, NULL);
    json_string(&w, "displayTimeUnit", "ms");
    json_begin_object(&w, "otherData");
    json_int(&w, "spans_left_out", t->lost);
    json_end_object(&w);
    json_begin_array(&w, "traceEvents");
    add_metadata(&w, "process_name", rank, 0, process);
    for (int i = 0; i < t->lane_count && status == OK; i++)
        status = add_lane(&w, t, &t->lanes[i], rank, i * SUBLANES);
    json_end_array(&w);
    json_end_object(&w);
    str_add(text, "\n");
    return status == OK && !text->failed ? OK : fail(ERR_MEMORY, "out of memory writing a trace");
}

Status trace_write(Trace *t, const char *path, int rank, const char *process)
{
    StrBuf text = { 0 };
    pthread_mutex_lock(&t->lock);
    Status status = add_all(t, &text, rank, process);
    pthread_mutex_unlock(&t->lock);
    return fs_write_text(status, path, &text);
}
