/* make_jsonlcheck.c - whether a metrics.jsonl keeps its word: make_jsonlcheck FILE. For tests/e2e.
 *
 * Every line must be one JSON object with a known "event" and the fields of that event (null where
 * a number may be NaN), the file must end in a newline and training's last event must be
 * done. Prints what is wrong, with its line, and exits 1; or exits 0. */
#include "base/arena.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS_MAX = 14 };

typedef struct EventRow {
    const char *name;
    const char *numbers[FIELDS_MAX]; /* fields that are numbers */
    const char *nullable;            /* one of those that may be null */
    const char *text;                /* a field that is a string */
} EventRow;

static const EventRow events[] = {
    { "start",
      { "world", "hosts", "cpus", "compute_threads", "images", "steps", "global_batch",
        "data_seconds", "plans_seconds" },
      NULL,
      "model" },
    { "step",
      { "epoch", "step", "loss", "lr", "images_per_s", "step_ms", "data_wait_ms", "comm_wait_ms" },
      "loss",
      NULL },
    { "epoch",
      { "epoch", "seconds", "images", "images_per_s", "data_wait_percent", "ready_batches",
        "decode_p50_ms", "read_p99_ms", "read_mb_per_s", "cache_hits", "replaced", "decode_threads",
        "readers" },
      NULL,
      NULL },
    { "eval", { "epoch", "step", "images", "loss", "top1", "top5" }, "loss", NULL },
    { "checkpoint", { "step" }, NULL, "path" },
    { "on_save", { "step", "code", "seconds" }, NULL, "outcome" },
    { "spent", { "step", "host_seconds", "total_host_seconds" }, NULL, "part" },
    { "gpu", { "gpu", "throttle_reasons" }, NULL, "uuid" },
    { "resume", { "step" }, NULL, NULL },
    { "diverged", { "step", "loss", "lr_factor", "rollbacks" }, "loss", "tensor" },
    { "done", { "code" }, NULL, "reason" },
};

static const EventRow *find_event(const JsonValue *record)
{
    const JsonValue *event = json_get(record, "event");
    for (size_t i = 0; event && event->type == JSON_STRING && i < sizeof events / sizeof events[0];
         i++)
        if (!strcmp(event->string, events[i].name)) return &events[i];
    return NULL;
}

/* Of a run on text the images are sequences; where images have any number of labels, map stands for
 * top1 and top5. */
static const JsonValue *find_number(const JsonValue *record, const char *name)
{
    char other[64];
    const JsonValue *v = json_get(record, name);
    if (strncmp(name, "top", 3) == 0 && json_get(record, "map"))
        return v ? NULL : json_get(record, "map");
    if (v || strncmp(name, "images", 6) != 0) return v;
    snprintf(other, sizeof other, "sequences%s", name + 6);
    return json_get(record, other);
}

static Status check_fields(const EventRow *row, const JsonValue *record)
{
    for (int i = 0; i < FIELDS_MAX && row->numbers[i]; i++) {
        const char *name = row->numbers[i];
        const JsonValue *v = find_number(record, name);
        bool may_be_null = row->nullable && !strcmp(row->nullable, name);
        if (v && (v->type == JSON_NUMBER || (v->type == JSON_NULL && may_be_null))) continue;
        return fail(ERR_DATA, "%s: %s is missing or no number", row->name, name);
    }
    const JsonValue *text = row->text ? json_get(record, row->text) : NULL;
    if (!row->text || (text && text->type == JSON_STRING)) return OK;
    return fail(ERR_DATA, "%s: %s is missing or no string", row->name, row->text);
}

/* *last: the event of this line, unless it is convoy eval's, which may come at any time. */
static Status check_line(Arena *arena, const char *line, size_t bytes, const EventRow **last)
{
    JsonValue *record = NULL;
    TRY(json_parse(arena, line, bytes, &record));
    const EventRow *row = find_event(record);
    if (!row) return fail(ERR_DATA, "not an object with a known event");
    if (!json_get(record, "checkpoint")) *last = row;
    return check_fields(row, record);
}

static Status check_file(Arena *arena, const char *text)
{
    const EventRow *row = NULL;
    int64_t number = 0;
    while (*text) {
        const char *end = strchr(text, '\n');
        if (!end) return fail(ERR_DATA, "no newline at the end");
        number++;
        Status status = check_line(arena, text, (size_t)(end - text), &row);
        if (status != OK) return fail_note(status, "line %lld", (long long)number);
        text = end + 1;
    }
    if (row && !strcmp(row->name, "done")) return OK;
    return fail(ERR_DATA, "the last event is %s, not done", row ? row->name : "none");
}

int main(int argc, char **argv)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    Arena *arena = NULL;
    Status status = argc == 2 ? OK : fail(ERR_USAGE, "usage: make_jsonlcheck FILE");
    if (status == OK) status = arena_create(&arena, 0);
    if (status == OK) status = fs_read_file(argv[1], &data, &bytes);
    if (status == OK && strlen((const char *)data) != bytes)
        status = fail(ERR_DATA, "a NUL byte in it");
    if (status == OK) status = check_file(arena, (const char *)data);
    if (status != OK) printf("%s: %s\n", argc > 1 ? argv[1] : "make_jsonlcheck", status_message());
    arena_destroy(arena);
    mem_free(data);
    return status != OK;
}
