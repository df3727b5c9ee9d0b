/* records.h - the records of a run (metrics.jsonl): a struct for each event, and a table of its
 * fields, by which they are written, read back and exported. docs/running.md lists the tables.
 *
 * What a record does not tell is NaN, -1, "" or false after reading, and NULL where a text need not
 * be there.
 *
 * In a run whose images have any number of labels (multi) evaluations have the mean average
 * precision, and no top1 and top5.
 *
 * In a run of a network that reads text the images of these structs are sequences, and some fields
 * have other names in the file (records_name()); text says that a record is of such a run, masks
 * that the network learns to fill in masked words. */
#ifndef CONVOY_TRAINER_ENGINE_EVENTS_RECORDS_H
#define CONVOY_TRAINER_ENGINE_EVENTS_RECORDS_H
#include "base/arena.h"
#include "base/json.h"
#include "trainer/engine/plan/cost.h"

#define RECORD_MEMBER(R, type, name, ...) RECORD_##type name;
#define RECORD_STRUCT(kind, Type)                                                                  \
    typedef struct Type {                                                                          \
        kind##_FIELDS(RECORD_MEMBER, )                                                             \
    } Type
#define RECORD_WHOLE  int64_t
#define RECORD_NUMBER double
#define RECORD_TEXT   const char *
#define RECORD_TRUTH  bool

/* Rows: C's type by that of the record, name, unit, when it is in a record. */
#define START_FIELDS(X, R)                                                                         \
    X(R, TEXT, model, "", ALWAYS)                                                                  \
    X(R, TEXT, dataset, "", ALWAYS)                                                                \
    X(R, TEXT, backend, "", ALWAYS)                                                                \
    X(R, TEXT, device, "", ALWAYS)    /* "cuda" */                                                 \
    X(R, TEXT, precision, "", ALWAYS) /* "bf16" */                                                 \
    X(R, TEXT, host, "", ALWAYS)                                                                   \
    X(R, TEXT, version, "", ALWAYS)                                                                \
    X(R, WHOLE, world, "ranks", ALWAYS)                                                            \
    X(R, WHOLE, hosts, "", ALWAYS)                                                                 \
    X(R, WHOLE, cpus, "", ALWAYS)            /* that rank 0 may run on */                          \
    X(R, WHOLE, compute_threads, "", ALWAYS) /* of a rank */                                       \
    X(R, TRUTH, oversubscribed, "", ALWAYS)  /* more ranks than CPUs, or GPUs, to compute on */    \
    X(R, WHOLE, images, "", ALWAYS)                                                                \
    X(R, WHOLE, val_images, "", ALWAYS)                                                            \
    X(R, WHOLE, classes, "", ALWAYS)                                                               \
    X(R, WHOLE, parameters, "", ALWAYS)                                                            \
    X(R, WHOLE, global_batch, "images", ALWAYS)                                                    \
    X(R, WHOLE, steps, "", ALWAYS)                                                                 \
    X(R, NUMBER, epochs, "", ALWAYS)        /* that the steps make */                              \
    X(R, NUMBER, data_seconds, "s", ALWAYS) /* Session has them */                                 \
    X(R, NUMBER, plans_seconds, "s", ALWAYS)                                                       \
    X(R, NUMBER, peak_tflops, "TFLOP/s", POSITIVE) /* utilization.h; 0: not known */               \
    X(R, TEXT, peak_source, "", WITH)                                                              \
    X(R, NUMBER, image_gflops, "GFLOP", WITH)                                                      \
    X(R, WHOLE, tokens, "", BY(R, text)) /* of the longest sequence */                             \
    X(R, WHOLE, words, "", BY(R, masks)) /* of the dictionary: the classes */
typedef struct StartRecord {
    START_FIELDS(RECORD_MEMBER, )
    bool text, masks;
    const char *device_reason; /* for device and precision, in one line; not recorded */
} StartRecord;

#define STEP_FIELDS(X, R)                                                                          \
    X(R, WHOLE, epoch, "", ALWAYS)   /* from 0, as in all records */                               \
    X(R, WHOLE, step, "", ALWAYS)    /* from 1 */                                                  \
    X(R, NUMBER, epochs, "", ALWAYS) /* passes over the training set that are done behind it */    \
    X(R, NUMBER, loss, "", ALWAYS)                                                                 \
    X(R, NUMBER, lr, "", ALWAYS)                                                                   \
    X(R, NUMBER, images_per_s, "images/s", ALWAYS)                                                 \
    X(R, NUMBER, step_ms, "ms", ALWAYS)                                                            \
    X(R, NUMBER, data_wait_ms, "ms", ALWAYS)                                                       \
    X(R, NUMBER, comm_wait_ms, "ms", ALWAYS)                                                       \
    X(R, NUMBER, mfu, "share", POSITIVE)   /* 0: not known */                                      \
    X(R, NUMBER, loss_scale, "", POSITIVE) /* 0: there is none */                                  \
    X(R, WHOLE, skipped, "steps", WITH)                                                            \
    X(R, NUMBER, grad_norm, "", BY(R, measured))                                                   \
    X(R, NUMBER, tokens_per_s, "tokens/s", BY(R, text)) /* with <s> and </s> */                    \
    X(R, NUMBER, masked, "share", BY(R, masks))         /* of the tokens */                        \
    X(R, NUMBER, ppl, "", WITH)                         /* perplexity: exp(loss) */
typedef struct StepRecord {
    STEP_FIELDS(RECORD_MEMBER, )
    bool measured; /* there is a norm of gradients */
    bool text, masks;
    /* not recorded: of all ranks; by log.every it goes to metrics.jsonl; a row of the table of
     * log.format is due, with the penalty of the parameters that the step began with */
    int64_t images, tokens;
    bool recorded, has_row;
    double penalty, epochs_before;
    /* not recorded: since the record before; of training, over all parts (report_run.h) */
    double recent_images_per_s, recent_tokens_per_s, recent_mfu, elapsed_s;
} StepRecord;

/* What the input did in an epoch: sums of all ranks, or the rank that fared worst. */
#define INPUT_FIELDS(X, R)                                                                         \
    X(R, NUMBER, data_wait_percent, "%",                                                           \
      BY(R, has_input))                   /* in which the step waited for a batch */               \
    X(R, NUMBER, ready_batches, "", WITH) /* when one was asked for, mean */                       \
    X(R, NUMBER, decode_p50_ms, "ms", WITH)                                                        \
    X(R, NUMBER, decode_p99_ms, "ms", WITH)                                                        \
    X(R, NUMBER, read_p50_ms, "ms", WITH) /* an image; 0 where sources are in memory */            \
    X(R, NUMBER, read_p99_ms, "ms", WITH)                                                          \
    X(R, NUMBER, read_mb_per_s, "MB/s", WITH)                                                      \
    X(R, WHOLE, cache_hits, "reads", WITH)                                                         \
    X(R, WHOLE, replaced, "images", WITH)                                                          \
    X(R, WHOLE, decode_threads, "", WITH)                                                          \
    X(R, WHOLE, readers, "threads", WITH) /* of a rank, both */
typedef struct InputReport {
    INPUT_FIELDS(RECORD_MEMBER, )
    int64_t reads; /* not recorded, from here on; for batches of later, too */
    int more_decode_threads, more_readers; /* of a rank, that would have kept up; 0: none */
    bool storage_limit;                    /* the storage gives no more, whatever reads */
} InputReport;

typedef struct RankEpoch { /* an epoch as one rank saw it */
    double seconds;
    double device; /* index of its GPU on its host; below 0: it computes on the CPU */
} RankEpoch;

#define EPOCH_WORK_FIELDS(X, R)                                                                    \
    X(R, WHOLE, epoch, "", ALWAYS)                                                                 \
    X(R, NUMBER, seconds, "s", ALWAYS)                                                             \
    X(R, WHOLE, images, "", ALWAYS)                                                                \
    X(R, WHOLE, steps, "", ALWAYS)                                                                 \
    X(R, NUMBER, images_per_s, "images/s", ALWAYS)                                                 \
    X(R, WHOLE, tokens, "", BY(R, text))                                                           \
    X(R, NUMBER, tokens_per_s, "tokens/s", WITH)
#define EPOCH_ENERGY_FIELDS(X, R)                                                                  \
    X(R, NUMBER, energy_j, "J", BY(R, has_energy)) /* of its steps */                              \
    X(R, NUMBER, wait_energy_j, "J", WITH)         /* of that, in waits for data */                \
    X(R, NUMBER, joules_per_image, "J", WITH)                                                      \
    X(R, TEXT, energy_source, "", WITH) /* of energy_describe() */
#define EPOCH_FIELDS(X, R) EPOCH_WORK_FIELDS(X, R) INPUT_FIELDS(X, R) EPOCH_ENERGY_FIELDS(X, R)
typedef struct EpochRecord {
    EPOCH_WORK_FIELDS(RECORD_MEMBER, )
    union { /* the same fields, as one and each */
        InputReport input;
        struct {
            INPUT_FIELDS(RECORD_MEMBER, )
        };
    };
    EPOCH_ENERGY_FIELDS(RECORD_MEMBER, )
    bool has_input, has_energy, text;
    /* not recorded: of all ranks, with log.format epoch, else NULL */
    const RankEpoch *ranks;
    int world;
    int64_t rank_batch;
    /* not recorded, by report_run.h: the last recorded step at its end; images of a step; the
     * process's first, when caches were cold; its process began in the middle of it */
    int64_t steps_before, batch;
    bool first, partial;
} EpochRecord;

/* Of a classification, of masked words (whose top1 is the share of them found), of images with any
 * number of labels. */
typedef enum EvalKind { EVAL_CLASSES, EVAL_MASKED, EVAL_MULTI, EVAL_KINDS } EvalKind;
/* The metrics of an evaluation. Rows: name, unit, whether more is better, the kind of evaluation
 * whose best it decides, when it is in a record, and when its value for averaged weights is. map:
 * mean average precision over the map_classes classes that an image has. */
#define METRIC_LIST(M, X, R)                                                                       \
    M(X, R, loss, "", false, EVAL_MASKED, ALWAYS, BY(R, has_ema))                                  \
    M(X, R, top1, "share", true, EVAL_CLASSES, KNOWN, BY_KNOWN(R, has_ema))                        \
    M(X, R, top5, "share", true, EVAL_KINDS, KNOWN, BY_KNOWN(R, has_ema))                          \
    M(X, R, map, "share", true, EVAL_MULTI, BY(R, multi), BY_KNOWN(R, has_ema))
#define METRIC_FIELD(X, R, name, unit, more, decides, when, ...) X(R, NUMBER, name, unit, when)
#define METRIC_EMA_FIELD(X, R, name, unit, more, decides, when, ema_when)                          \
    X(R, NUMBER, ema_##name, unit, ema_when)

#define EVAL_FIELDS(X, R)                                                                          \
    X(R, WHOLE, epoch, "", ALWAYS)                                                                 \
    X(R, WHOLE, step, "", ALWAYS)                                                                  \
    X(R, NUMBER, epochs, "", ALWAYS) /* as a step's */                                             \
    X(R, WHOLE, images, "", ALWAYS)                                                                \
    METRIC_LIST(METRIC_FIELD, X, R)                                                                \
    METRIC_LIST(METRIC_EMA_FIELD, X, R)       /* of averaged weights */                            \
    X(R, TRUTH, ema_best, "", BY(R, has_ema)) /* by those the best is chosen */                    \
    X(R, WHOLE, map_classes, "", BY(R, multi))                                                     \
    X(R, TEXT, checkpoint, "", KNOWN) /* what convoy eval evaluated; NULL: by the run itself */    \
    X(R, TRUTH, foreign, "", KNOWN) /* of other images or weights: no point of the run's curve */  \
    X(R, WHOLE, tokens, "", BY(R, text))                                                           \
    X(R, NUMBER, masked, "share", BY(R, masks)) /* of the tokens */                                \
    X(R, NUMBER, ppl, "", WITH)                 /* exp(loss) */
typedef struct EvalRecord {
    EVAL_FIELDS(RECORD_MEMBER, )
    bool has_ema, text, masks, multi;
    /* not recorded; the last two by report_run.h: as a step's; by the run until its end */
    int64_t classes;
    double elapsed_s;
    Spent spent;
} EvalRecord;

#define CHECKPOINT_FIELDS(X, R)                                                                    \
    X(R, WHOLE, step, "", ALWAYS)                                                                  \
    X(R, TEXT, path, "", ALWAYS)
RECORD_STRUCT(CHECKPOINT, CheckpointRecord);

#define ON_SAVE_FIELDS(X, R)                                                                       \
    X(R, WHOLE, step, "", ALWAYS)                                                                  \
    X(R, TEXT, outcome, "", ALWAYS)                                                                \
    X(R, WHOLE, code, "", ALWAYS)                                                                  \
    X(R, NUMBER, seconds, "s", ALWAYS)
RECORD_STRUCT(ON_SAVE, OnSaveRecord);

/* Of a GPU of rank 0's host; NaN: it does not tell. */
#define GPU_FIELDS(X, R)                                                                           \
    X(R, WHOLE, gpu, "", ALWAYS)                                                                   \
    X(R, TEXT, uuid, "", ALWAYS)                                                                   \
    X(R, NUMBER, utilization, "share", KNOWN)                                                      \
    X(R, NUMBER, utilization_min, "share", KNOWN)                                                  \
    X(R, NUMBER, utilization_max, "share", KNOWN)                                                  \
    X(R, NUMBER, memory_used_bytes, "bytes", KNOWN)                                                \
    X(R, NUMBER, power_w, "W", KNOWN)                                                              \
    X(R, NUMBER, temperature_c, "degrees Celsius", KNOWN)                                          \
    X(R, NUMBER, sm_clock_mhz, "MHz", KNOWN)                                                       \
    X(R, WHOLE, throttle_reasons, "bits of NVML", ALWAYS)
RECORD_STRUCT(GPU, GpuRecord);

/* When a part of a run ends. */
#define SPENT_FIELDS(X, R)                                                                         \
    X(R, TEXT, part, "", ALWAYS) /* of cost_part_names */                                          \
    X(R, WHOLE, step, "", ALWAYS)                                                                  \
    X(R, WHOLE, images, "", POSITIVE) /* trained on in it */                                       \
    X(R, NUMBER, host_seconds, "s", ALWAYS)                                                        \
    X(R, NUMBER, gpu_j, "J", BY(R, has_energy))                                                    \
    X(R, NUMBER, cpu_j, "J", WITH)                                                                 \
    X(R, NUMBER, assumed_j, "J", WITH)                                                             \
    X(R, NUMBER, total_host_seconds, "s", ALWAYS) /* by the run so far */                          \
    X(R, NUMBER, total_j, "J", BY(R, has_energy))                                                  \
    X(R, TEXT, energy_source, "", WITH)                                                            \
    X(R, NUMBER, cost, "currency", KNOWN) /* NaN: no price is known */                             \
    X(R, NUMBER, total_cost, "currency", WITH)                                                     \
    X(R, TEXT, currency, "", WITH)                                                                 \
    X(R, NUMBER, price_per_host_hour, "currency", WITH)                                            \
    X(R, NUMBER, price_per_kwh, "currency", WITH)                                                  \
    X(R, NUMBER, pue, "", WITH)                                                                    \
    X(R, TEXT, price_note, "", WITH)
typedef struct SpentRecord {
    SPENT_FIELDS(RECORD_MEMBER, )
    bool has_energy, text;
} SpentRecord;

#define RESUME_FIELDS(X, R)                                                                        \
    X(R, WHOLE, step, "", ALWAYS)                                                                  \
    X(R, TEXT, path, "", ALWAYS)                                                                   \
    X(R, TEXT, changed, "",                                                                        \
      ALWAYS) /* keys that the checkpoint's part had otherwise; "" for none */                     \
    X(R, TRUTH, other_val, "", KNOWN) /* no evaluation before was of the same images */
RECORD_STRUCT(RESUME, ResumeRecord);

#define DIVERGED_FIELDS(X, R)                                                                      \
    X(R, WHOLE, step, "", ALWAYS)                                                                  \
    X(R, NUMBER, loss, "", ALWAYS)                                                                 \
    X(R, TEXT, tensor, "", ALWAYS) /* the first that is not finite; "": none */                    \
    X(R, TEXT, then, "", ALWAYS)   /* "rollback", "stop" */                                        \
    X(R, NUMBER, lr_factor, "",                                                                    \
      ALWAYS) /* of the learning rate from here on, where the run goes back */                     \
    X(R, WHOLE, rollbacks, "", ALWAYS) /* this one too */
RECORD_STRUCT(DIVERGED, DivergedRecord);

#define DONE_FIELDS(X, R)                                                                          \
    X(R, WHOLE, code, "", ALWAYS)  /* exit code */                                                 \
    X(R, TEXT, reason, "", ALWAYS) /* "completed" or the error sentence */
RECORD_STRUCT(DONE, DoneRecord);

#define RECORD_LIST(X)                                                                             \
    X(START, start, StartRecord)                                                                   \
    X(STEP, step, StepRecord)                                                                      \
    X(EPOCH, epoch, EpochRecord)                                                                   \
    X(EVAL, eval, EvalRecord)                                                                      \
    X(CHECKPOINT, checkpoint, CheckpointRecord)                                                    \
    X(ON_SAVE, on_save, OnSaveRecord)                                                              \
    X(GPU, gpu, GpuRecord)                                                                         \
    X(SPENT, spent, SpentRecord)                                                                   \
    X(RESUME, resume, ResumeRecord)                                                                \
    X(DIVERGED, diverged, DivergedRecord)                                                          \
    X(DONE, done, DoneRecord)

#define RECORD_KIND(kind, event, Type)  RECORD_##kind,
#define RECORD_UNION(kind, event, Type) Type event;
typedef enum RecordKind { RECORD_LIST(RECORD_KIND) RECORD_KINDS } RecordKind;
typedef struct RunRecord { /* any of them */
    RecordKind kind;       /* RECORD_KINDS: none that is known */
    double time;           /* Unix seconds */
    union {
        RECORD_LIST(RECORD_UNION)
    };
} RunRecord;

typedef enum FieldType { FIELD_WHOLE, FIELD_NUMBER, FIELD_TEXT, FIELD_TRUTH } FieldType;
typedef enum FieldWhen {
    FIELD_ALWAYS,
    FIELD_KNOWN,    /* not NaN, NULL or false */
    FIELD_POSITIVE, /* above 0 */
    FIELD_BY,       /* a bool of the struct says so */
    FIELD_BY_KNOWN, /* the same, and it is not NaN */
    FIELD_WITH      /* as the field before */
} FieldWhen;
typedef struct RecordField {
    const char *name;
    FieldType type;
    size_t offset;
    const char *unit; /* "": none */
    FieldWhen when;
    size_t by; /* where that bool is */
} RecordField;
typedef struct RecordDef {
    const char *event;
    const RecordField *fields;
    int count;
} RecordDef;
extern const RecordDef record_defs[RECORD_KINDS];
/* The name of a field in the records of a run on images or on text. */
const char *records_name(const char *field, bool text);

typedef struct MetricDef {
    const char *name, *unit;
    bool more_is_better;
    EvalKind decides;          /* EVAL_KINDS: in none */
    size_t offset, ema_offset; /* in an EvalRecord */
} MetricDef;
#define METRIC_COUNT(...) +1
enum { RECORD_METRICS = 0 METRIC_LIST(METRIC_COUNT, , ) };
extern const MetricDef metric_defs[RECORD_METRICS];
/* What decides, of the weights by which the best is chosen. */
double records_score(const EvalRecord *e);
enum { RECORDS_SCORE_BYTES = 64 };
/* "top-1 71.20 %", "mAP 71.20 %", of masked words "loss 2.1000 (ppl 8.1662)", by the kind of e. A
 * score below 0: there is none. */
void records_format_score(const EvalRecord *e, double score, char out[RECORDS_SCORE_BYTES]);
EvalKind records_kind(const EvalRecord *e);
double records_share(const EvalRecord *e, bool ema); /* top1 or map */
const char *records_share_name(bool multi);          /* "top-1" or "mAP" */
/* Whether an evaluation is better than one of that score (NaN: than none); never where the loss is
 * not finite. */
bool records_better(const EvalRecord *e, double score);
/* A number of a record by its name (either of two), a truth as 0 or 1; NaN if there is no such
 * field, or if it is not set in this record. */
double records_number(RecordKind kind, const void *record, const char *name);
double records_number_at(const void *record, size_t offset); /* of a field that is one */
/* Not one word was masked in this step: it has no loss. */
bool records_unmasked(const StepRecord *s);
/* Samples a second as people read it: images, or tokens. */
double records_speed(const StepRecord *s);
/* A text of it likewise; NULL. Borrowed from the record. */
const char *records_text(RecordKind kind, const void *record, const char *name);

/* Writes the fields of one of the structs, by its kind. Allocates nothing. */
void records_write(JsonWriter *w, RecordKind kind, const void *record);
/* Texts lie where those of the object do. object NULL: for one that tells nothing. */
void records_read_as(RecordKind kind, void *record, const JsonValue *object);
void records_read(RunRecord *out, const JsonValue *object); /* by its event */
/* Copies the texts of a record into arena. */
Status records_keep_texts(RunRecord *r, Arena *arena);
#endif
