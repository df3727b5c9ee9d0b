/* records.c - see records.h. */
#include "trainer/engine/events/records.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define ALWAYS                        FIELD_ALWAYS, 0
#define KNOWN                         FIELD_KNOWN, 0
#define POSITIVE                      FIELD_POSITIVE, 0
#define WITH                          FIELD_WITH, 0
#define BY(R, member)                 FIELD_BY, offsetof(R, member)
#define BY_KNOWN(R, member)           FIELD_BY_KNOWN, offsetof(R, member)
#define ROW(R, type, name, unit, ...) { #name, FIELD_##type, offsetof(R, name), unit, __VA_ARGS__ },
#define TABLE(kind, event, Type)                                                                   \
    static const RecordField event##_fields[] = { kind##_FIELDS(ROW, Type) };
#define DEF(kind, event, Type)                                                                     \
    { #event, event##_fields, sizeof event##_fields / sizeof event##_fields[0] },

RECORD_LIST(TABLE)
const RecordDef record_defs[RECORD_KINDS] = { RECORD_LIST(DEF) };

#define METRIC(X, R, name, unit, more_is_better, decides, ...)                                     \
    { #name, unit, more_is_better, decides, offsetof(R, name), offsetof(R, ema_##name) },
const MetricDef metric_defs[RECORD_METRICS] = { METRIC_LIST(METRIC, , EvalRecord) };

/* Where a record says that it is of a run on text; 0: all its names are the same there. */
static const size_t text_at[RECORD_KINDS] = { [RECORD_START] = offsetof(StartRecord, text),
                                              [RECORD_STEP] = offsetof(StepRecord, text),
                                              [RECORD_EPOCH] = offsetof(EpochRecord, text),
                                              [RECORD_EVAL] = offsetof(EvalRecord, text),
                                              [RECORD_SPENT] = offsetof(SpentRecord, text) };
static const char *const names[][2] = { { "images", "sequences" },
                                        { "val_images", "val_sequences" },
                                        { "images_per_s", "sequences_per_s" },
                                        { "image_gflops", "sequence_gflops" },
                                        { "joules_per_image", "joules_per_sequence" } };

const char *records_name(const char *field, bool text)
{
    for (size_t i = 0; text && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], field) == 0) return names[i][1];
    return field;
}

static bool of_text(RecordKind kind, const void *record)
{
    return text_at[kind] && *((const bool *)record + text_at[kind]);
}

typedef union Value {
    int64_t whole;
    double number;
    const char *text;
    bool truth;
} Value;
static const size_t value_bytes[] = { sizeof(int64_t), sizeof(double), sizeof(char *),
                                      sizeof(bool) };

static Value value_of(const RecordField *f, const void *record)
{
    Value v = { 0 };
    memcpy(&v, (const char *)record + f->offset, value_bytes[f->type]);
    return v;
}

/* Whether the record has the field; before: whether it has the one before. */
static bool is_in(const RecordField *f, const void *record, const Value *v, bool before)
{
    switch (f->when) {
    case FIELD_ALWAYS:
        break;
    case FIELD_KNOWN:
        return f->type == FIELD_NUMBER ? !isnan(v->number)
               : f->type == FIELD_TEXT ? v->text != NULL
                                       : v->truth;
    case FIELD_POSITIVE:
        return f->type == FIELD_NUMBER ? v->number > 0 : v->whole > 0;
    case FIELD_BY:
        return *((const bool *)record + f->by);
    case FIELD_BY_KNOWN:
        return *((const bool *)record + f->by) && !isnan(v->number);
    case FIELD_WITH:
        return before;
    }
    return true;
}

void records_write(JsonWriter *w, RecordKind kind, const void *record)
{
    const RecordDef *def = &record_defs[kind];
    const bool text = of_text(kind, record);
    bool in = true;
    for (int i = 0; i < def->count; i++) {
        const RecordField *f = &def->fields[i];
        const Value v = value_of(f, record);
        const char *name = records_name(f->name, text);
        if (!(in = is_in(f, record, &v, in))) continue;
        switch (f->type) {
        case FIELD_WHOLE:
            json_int(w, name, v.whole);
            break;
        case FIELD_NUMBER:
            json_number(w, name, v.number);
            break;
        case FIELD_TEXT:
            json_string(w, name, v.text);
            break;
        case FIELD_TRUTH:
            json_bool(w, name, v.truth);
            break;
        }
    }
}

/* NULL if there is no such field, or if it is not set in this record. */
static const RecordField *field_told(RecordKind kind, const void *record, const char *name,
                                     Value *out)
{
    const bool text = of_text(kind, record);
    bool in = true;
    for (int i = 0; i < record_defs[kind].count; i++) {
        const RecordField *f = &record_defs[kind].fields[i];
        *out = value_of(f, record);
        in = is_in(f, record, out, in);
        if (strcmp(f->name, name) == 0 || strcmp(records_name(f->name, text), name) == 0)
            return in ? f : NULL;
    }
    return NULL;
}

double records_number_at(const void *record, size_t offset)
{
    return *(const double *)(const void *)((const char *)record + offset);
}

double records_number(RecordKind kind, const void *record, const char *name)
{
    Value v;
    const RecordField *f = field_told(kind, record, name, &v);
    if (!f || f->type == FIELD_TEXT) return (double)NAN;
    return f->type == FIELD_NUMBER ? v.number : f->type == FIELD_WHOLE ? (double)v.whole : v.truth;
}

const char *records_text(RecordKind kind, const void *record, const char *name)
{
    Value v;
    const RecordField *f = field_told(kind, record, name, &v);
    return f && f->type == FIELD_TEXT ? v.text : NULL;
}

bool records_unmasked(const StepRecord *s)
{
    return s->masks && s->masked == 0;
}

double records_speed(const StepRecord *s)
{
    return s->text ? s->tokens_per_s : s->images_per_s;
}

EvalKind records_kind(const EvalRecord *e)
{
    return e->multi ? EVAL_MULTI : e->masks ? EVAL_MASKED : EVAL_CLASSES;
}

static const MetricDef *deciding(const EvalRecord *e)
{
    int i = 0;
    while (metric_defs[i].decides != records_kind(e)) i++;
    return &metric_defs[i];
}

double records_share(const EvalRecord *e, bool ema)
{
    if (e->multi) return ema ? e->ema_map : e->map;
    return ema ? e->ema_top1 : e->top1;
}

double records_score(const EvalRecord *e)
{
    return records_number_at(e, e->ema_best ? deciding(e)->ema_offset : deciding(e)->offset);
}

const char *records_share_name(bool multi)
{
    return multi ? "mAP" : "top-1";
}

void records_format_score(const EvalRecord *e, double score, char out[RECORDS_SCORE_BYTES])
{
    const double loss = score < 0 ? (double)INFINITY : score;
    if (e->masks) snprintf(out, RECORDS_SCORE_BYTES, "loss %.4f (ppl %.5g)", loss, exp(loss));
    else
        snprintf(out, RECORDS_SCORE_BYTES, "%s %.2f %%", records_share_name(e->multi),
                 100 * fmax(score, 0));
}

bool records_better(const EvalRecord *e, double score)
{
    const double own = records_score(e);
    if (!isfinite(e->ema_best ? e->ema_loss : e->loss)) return false;
    return isnan(score) || (deciding(e)->more_is_better ? own > score : own < score);
}

static Value value_in(const RecordField *f, const char *name, const JsonValue *object)
{
    switch (f->type) {
    case FIELD_WHOLE:
        return (Value){ .whole = json_whole(object, name) };
    case FIELD_NUMBER:
        return (Value){ .number = json_double(object, name) };
    case FIELD_TEXT:
        return (Value){ .text = json_text(object, name, f->when == FIELD_KNOWN ? NULL : "") };
    case FIELD_TRUTH:
        break;
    }
    return (Value){ .truth = json_truth(object, name) };
}

void records_read_as(RecordKind kind, void *record, const JsonValue *object)
{
    bool text = false;
    for (int i = 0; i < record_defs[kind].count; i++) {
        const RecordField *f = &record_defs[kind].fields[i];
        const char *other = records_name(f->name, true);
        const bool renamed = other != f->name && json_get(object, other);
        const char *name = renamed ? other : f->name;
        const Value v = value_in(f, name, object);
        memcpy((char *)record + f->offset, &v, value_bytes[f->type]);
        if (f->when == FIELD_BY) *((bool *)record + f->by) = json_get(object, name) != NULL;
        text = text || renamed;
    }
    if (text_at[kind]) *((bool *)record + text_at[kind]) = text;
}

void records_read(RunRecord *out, const JsonValue *object)
{
    const char *event = json_text(object, "event", "");
    int kind = 0;
    while (kind < RECORD_KINDS && strcmp(event, record_defs[kind].event) != 0) kind++;
    *out = (RunRecord){ .kind = (RecordKind)kind, .time = json_double(object, "time") };
    if (kind < RECORD_KINDS) records_read_as(out->kind, &out->start, object);
}

Status records_keep_texts(RunRecord *r, Arena *arena)
{
    const RecordDef *def = &record_defs[r->kind];
    for (int i = 0; i < def->count; i++) {
        const char **text = (const char **)(void *)((char *)&r->start + def->fields[i].offset);
        if (def->fields[i].type != FIELD_TEXT || !*text) continue;
        if (!(*text = arena_strdup(arena, *text))) return ERR_MEMORY;
    }
    return OK;
}
