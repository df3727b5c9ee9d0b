/* make_tracecheck.c - whether a trace keeps its word: make_tracecheck FILE [LANE]... For tests/e2e.
 *
 * FILE must be a JSON object of Chrome's trace format; every span lies in a lane that has a name,
 * and of two spans of a lane one holds the other or they do not overlap. Each LANE must be there,
 * with spans. Prints "LANE SPANS" of all lanes, and "step N" for each span of a step; or what is
 * wrong, and exits 1. */
#include "base/arena.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDING_US 1e-3
enum { LANES_MAX = 512, DEPTH_MAX = 64 };

typedef struct Span {
    int64_t lane;
    double start, end;
    const char *name;
} Span;

typedef struct Lane {
    int64_t id;
    const char *name;
    int spans;
} Lane;

static Lane lanes[LANES_MAX];
static int lane_count;

static Lane *lane_of(int64_t id)
{
    for (int i = 0; i < lane_count; i++)
        if (lanes[i].id == id) return &lanes[i];
    return NULL;
}

static double number(const JsonValue *event, const char *key, double missing)
{
    const JsonValue *v = json_get(event, key);
    return v && v->type == JSON_NUMBER ? v->number : missing;
}

static const char *text(const JsonValue *object, const char *key)
{
    const JsonValue *v = json_get(object, key);
    return v && v->type == JSON_STRING ? v->string : "";
}

static Status read_names(const JsonValue *events)
{
    for (const JsonValue *e = events->child; e; e = e->next) {
        if (strcmp(text(e, "ph"), "M") || strcmp(text(e, "name"), "thread_name")) continue;
        int64_t id = (int64_t)number(e, "tid", -1);
        if (id < 0 || lane_of(id) || lane_count == LANES_MAX)
            return fail(ERR_DATA, "lane %lld again", (long long)id);
        lanes[lane_count++] = (Lane){ id, text(json_get(e, "args"), "name"), 0 };
    }
    return OK;
}

static Status read_spans(const JsonValue *events, Span *out, int *count)
{
    for (const JsonValue *e = events->child; e; e = e->next) {
        if (strcmp(text(e, "ph"), "X")) continue;
        Span s = { .lane = (int64_t)number(e, "tid", -1),
                   .start = number(e, "ts", -1),
                   .name = text(e, "name") };
        double duration = number(e, "dur", -1);
        Lane *lane = lane_of(s.lane);
        if (!lane || !s.name[0] || s.start < 0 || duration < 0)
            return fail(ERR_DATA, "a span is not complete");
        if (s.start > 86400e6 * 2) return fail(ERR_DATA, "%s does not start on this day", s.name);
        s.end = s.start + duration;
        lane->spans++;
        if (!strcmp(s.name, "step"))
            printf("step %.0f\n", number(json_get(e, "args"), "number", -1));
        out[(*count)++] = s;
    }
    return OK;
}

static int compare(const void *a, const void *b)
{
    const Span *x = a, *y = b;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

/* spans are sorted. */
static Status check_nesting(const Span *spans, int count)
{
    const Span *open[DEPTH_MAX];
    int depth = 0;
    for (int i = 0; i < count; i++) {
        const Span *s = &spans[i];
        while (depth > 0 &&
               (open[depth - 1]->lane != s->lane || open[depth - 1]->end <= s->start + ROUNDING_US))
            depth--;
        if (depth > 0 && s->end > open[depth - 1]->end + ROUNDING_US)
            return fail(ERR_DATA, "lane %s: %s begins in %s and ends behind it",
                        lane_of(s->lane)->name, s->name, open[depth - 1]->name);
        if (depth == DEPTH_MAX) return fail(ERR_DATA, "too deep");
        open[depth++] = s;
    }
    return OK;
}

static Status check_lanes(char *const *wanted, int count)
{
    for (int i = 0; i < lane_count; i++) printf("%s %d\n", lanes[i].name, lanes[i].spans);
    for (int k = 0; k < count; k++) {
        bool found = false;
        for (int i = 0; i < lane_count; i++)
            found = found || (!strcmp(lanes[i].name, wanted[k]) && lanes[i].spans > 0);
        if (!found) return fail(ERR_DATA, "no spans in a lane %s", wanted[k]);
    }
    return OK;
}

static Status check_file(Arena *arena, const char *path, char *const *wanted, int wanted_count)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    JsonValue *root = NULL;
    int count = 0, total = 0;
    TRY(fs_read_file(path, &data, &bytes));
    TRY(json_parse(arena, (const char *)data, bytes, &root));
    const JsonValue *events = json_get(root, "traceEvents");
    if (!events || events->type != JSON_ARRAY) return fail(ERR_DATA, "no traceEvents");
    for (const JsonValue *e = events->child; e; e = e->next) total++;
    Span *spans = mem_calloc((size_t)total + 1, sizeof *spans);
    if (!spans) return ERR_MEMORY;
    TRY(read_names(events));
    TRY(read_spans(events, spans, &count));
    qsort(spans, (size_t)count, sizeof *spans, compare);
    TRY(check_nesting(spans, count));
    TRY(check_lanes(wanted, wanted_count));
    mem_free(spans);
    mem_free(data);
    return OK;
}

int main(int argc, char **argv)
{
    Arena *arena = NULL;
    Status status = argc > 1 ? arena_create(&arena, 1 << 20)
                             : fail(ERR_USAGE, "usage: make_tracecheck FILE [LANE]...");
    if (status == OK) status = check_file(arena, argv[1], argv + 2, argc - 2);
    if (status != OK) printf("%s: %s\n", argc > 1 ? argv[1] : "make_tracecheck", status_message());
    arena_destroy(arena);
    return status != OK;
}
