/* test_monitor.c - event files read back by our own TFRecord reader, metrics by their rules, GPUs
 * made up by a fake NVML (tests/fake_nvml). */
#include "base/arena.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "data/source/tfrecord.h"
#include "tests/test.h"
#include "trainer/app/monitor/event_file.h"
#include "trainer/app/monitor/gauges.h"
#include "trainer/app/monitor/monitor.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- event files ---- */

typedef struct Field { /* of a protocol buffer */
    int number, wire;
    uint64_t value; /* varint, or the bits of a fixed number */
    const uint8_t *data;
    size_t bytes;
} Field;

static uint64_t varint(const uint8_t **p)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        value |= (uint64_t)(**p & 127) << shift;
        if (!(*(*p)++ & 128)) return value;
    }
}

/* The fields of a message, in order; at most max. */
static int parse(const uint8_t *p, size_t bytes, Field *out, int max)
{
    const uint8_t *end = p + bytes;
    int count = 0;
    for (; p < end && count < max; count++) {
        Field *f = &out[count];
        uint64_t key = varint(&p);
        *f = (Field){ .number = (int)(key >> 3), .wire = (int)(key & 7) };
        if (f->wire == 0) f->value = varint(&p);
        else {
            f->bytes = f->wire == 2 ? varint(&p) : f->wire == 1 ? 8 : 4;
            f->data = p;
            for (size_t i = 0; f->wire != 2 && i < f->bytes; i++)
                f->value |= (uint64_t)p[i] << 8 * i;
            p += f->bytes;
        }
    }
    CHECK(p == end);
    return count;
}

static double as_double(const Field *f)
{
    double value;
    memcpy(&value, &f->value, sizeof value);
    return value;
}

static double as_float(const Field *f)
{
    float value;
    memcpy(&value, f->data, sizeof value);
    return (double)value;
}

static void check_bytes(const Field *f, const char *want)
{
    CHECK(f->bytes == strlen(want) && memcmp(f->data, want, f->bytes) == 0);
}

/* Opens the only file of dir, whose name begins with this. */
static Status open_only_file(ByteStream **out, const char *dir, const char *name)
{
    char **names = NULL;
    int64_t count = 0;
    TRY(fs_list(dir, &names, &count));
    CHECK_INT(count, 1);
    CHECK(str_starts_with(names[0], name));
    char *path = fs_join(dir, names[0]);
    Status status = byte_stream_open(out, path);
    mem_free(path);
    mem_free(names);
    return status;
}

static void next_event(ByteStream *s, ByteBuf *buf, Field *fields, int want)
{
    size_t bytes = 0;
    uint64_t offset;
    bool more = false;
    REQUIRE_OK(tfrecord_next(s, buf, &bytes, &offset, &more));
    REQUIRE(more);
    CHECK_INT(parse(buf->data, bytes, fields, 8), want);
}

TEST(event_file_has_tensorflows_records)
{
    static const uint8_t first_bytes[12] = { 0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22 };
    const EventScalar scalars[] = { { "train/loss", 1.5 }, { "eval/top1", (double)NAN } };
    EventFile *f = NULL;
    ByteStream *s = NULL;
    ByteBuf buf = { 0 };
    Field e[8], v[8];
    uint8_t start[12];
    size_t got;
    char *dir = fs_join(test_scratch(), "a/b");
    REQUIRE_OK(event_file_create(&f, dir, "node7", 1700000000.75));
    CHECK_OK(event_file_restart(f, 1700000001, 300));
    CHECK_OK(event_file_add(f, 1700000002.5, 70000, scalars, 2));
    event_file_close(f);

    REQUIRE_OK(open_only_file(&s, dir, "events.out.tfevents.1700000000.node7."));
    REQUIRE_OK(byte_stream_read(s, start, sizeof start, &got));
    CHECK(got == sizeof start && memcmp(start, first_bytes, sizeof start) == 0);
    byte_stream_close(s);
    REQUIRE_OK(open_only_file(&s, dir, "events.out.tfevents.1700000000.node7."));
    next_event(s, &buf, e, 2);
    CHECK(e[0].number == 1 && e[0].wire == 1 && e[1].number == 3);
    CHECK_NEAR(as_double(&e[0]), 1700000000.75, 0);
    check_bytes(&e[1], "brain.Event:2");

    next_event(s, &buf, e, 3); /* session_log { status: START } at step 300 */
    CHECK(e[1].number == 2 && e[1].value == 300 && e[2].number == 7);
    CHECK_INT(parse(e[2].data, e[2].bytes, v, 8), 1);
    CHECK(v[0].number == 1 && v[0].wire == 0 && v[0].value == 1);

    next_event(s, &buf, e, 3);
    CHECK_NEAR(as_double(&e[0]), 1700000002.5, 0);
    CHECK(e[1].number == 2 && e[1].value == 70000 && e[2].number == 5);
    CHECK_INT(parse(e[2].data, e[2].bytes, v, 8), 2);
    for (int i = 0; i < 2; i++) {
        Field part[8];
        CHECK(v[i].number == 1);
        CHECK_INT(parse(v[i].data, v[i].bytes, part, 8), 2);
        CHECK(part[0].number == 1 && part[1].number == 2 && part[1].wire == 5);
        check_bytes(&part[0], scalars[i].tag);
        if (i == 0) CHECK_NEAR(as_float(&part[1]), 1.5, 0);
        else CHECK(isnan(as_float(&part[1])));
    }
    size_t bytes;
    uint64_t offset;
    bool more = true;
    CHECK_OK(tfrecord_next(s, &buf, &bytes, &offset, &more));
    CHECK(!more);
    byte_stream_close(s);
    byte_buf_free(&buf);
    mem_free(dir);
}

TEST(event_file_says_that_it_cannot_write)
{
    EventFile *f = NULL;
    CHECK_STATUS(event_file_create(&f, "/dev/null/x", "h", 1), ERR_IO);
    CHECK(f == NULL);
}

/* ---- GPUs ---- */

TEST(nvml_tells_of_gpus)
{
    Nvml *n = NULL;
    GpuFacts facts;
    GpuState state;
    REQUIRE_OK(nvml_open(&n, CONVOY_FAKE_NVML));
    CHECK_INT(nvml_gpus(n), 2);
    CHECK_STR(nvml_driver(n), "555.42.06");
    nvml_facts(n, 0, &facts);
    CHECK_STR(facts.name, "Made-up GPU 0");
    CHECK_STR(facts.uuid, "GPU-00000000-0000-0000-0000-000000000000");
    CHECK_NEAR(facts.memory_bytes, 80.0 * (1 << 30), 0);
    CHECK_NEAR(facts.power_limit_w, 700, 1e-9);
    CHECK_NEAR(facts.sm_clock_max_mhz, 1980, 0);
    nvml_state(n, 0, &state);
    CHECK_NEAR(state.utilization, 0.97, 1e-12);
    CHECK_NEAR(state.memory_used_bytes, 10.0 * (1 << 30), 0);
    CHECK_NEAR(state.power_w, 312.5, 1e-9);
    CHECK_NEAR(state.temperature_c, 54, 0);
    CHECK_NEAR(state.sm_clock_mhz, 1755, 0);
    CHECK_NEAR(state.ecc_errors, 0, 0);
    nvml_state(n, 1, &state);
    CHECK(isnan(state.utilization));
    CHECK_INT(state.throttle_reasons, NVML_THROTTLE_HW_THERMAL);
    CHECK_NEAR(state.pcie_width, 8, 0);
    nvml_close(n);
    CHECK_STATUS(nvml_open(&n, "libno-such-library.so.1"), ERR_ENV);
    CHECK(n == NULL);
}

/* ---- a run that is watched ---- */

typedef struct Scalar { /* of an event file */
    uint64_t step;
    const char *tag;
    double value;
    int seen;
} Scalar;

/* Every scalar of the file is one of the table, and stands there once. */
static void check_scalars(const char *dir, Scalar *want, int count)
{
    ByteStream *s = NULL;
    ByteBuf buf = { 0 };
    Field e[8], v[16], part[8];
    size_t bytes = 0;
    uint64_t offset;
    bool more = true;
    REQUIRE_OK(open_only_file(&s, dir, "events.out.tfevents."));
    while (tfrecord_next(s, &buf, &bytes, &offset, &more) == OK && more) {
        if (parse(buf.data, bytes, e, 8) < 3 || e[2].number != 5) continue;
        int scalars = parse(e[2].data, e[2].bytes, v, 16), known = 0;
        for (int i = 0; i < scalars; i++) {
            REQUIRE(parse(v[i].data, v[i].bytes, part, 8) == 2);
            for (int k = 0; k < count; k++) {
                if (e[1].value != want[k].step || part[0].bytes != strlen(want[k].tag) ||
                    memcmp(part[0].data, want[k].tag, part[0].bytes) != 0)
                    continue;
                CHECK_NEAR(as_float(&part[1]), want[k].value, 1e-6 * want[k].value);
                want[k].seen++;
                known++;
            }
        }
        CHECK_INT(known, scalars);
    }
    for (int k = 0; k < count; k++) CHECK_INT(want[k].seen, 1);
    byte_stream_close(s);
    byte_buf_free(&buf);
}

static StepRecord some_step(int64_t step)
{
    return (StepRecord){ .step = step,
                         .loss = 1.5,
                         .lr = 0.25,
                         .measured = step != 1,
                         .grad_norm = 3,
                         .recent_images_per_s = 800,
                         .recent_mfu = step == 1 ? 0 : 0.375,
                         .step_ms = 125,
                         .data_wait_ms = 500,
                         .comm_wait_ms = 750 };
}

TEST(event_files_tell_of_steps_evaluations_and_gpus)
{
    Scalar want[] = {
        { 1, "train/loss", 1.5, 0 },
        { 1, "train/lr", 0.25, 0 },
        { 1, "train/images_per_s", 800, 0 },
        { 1, "time/step_s", 0.125, 0 },
        { 1, "time/data_wait_s", 0.5, 0 },
        { 1, "time/comm_wait_s", 0.75, 0 },
        { 3, "train/loss", 1.5, 0 },
        { 3, "train/lr", 0.25, 0 },
        { 3, "train/images_per_s", 800, 0 },
        { 3, "time/step_s", 0.125, 0 },
        { 3, "time/data_wait_s", 0.5, 0 },
        { 3, "time/comm_wait_s", 0.75, 0 },
        { 3, "train/grad_norm", 3, 0 },
        { 3, "train/mfu", 0.375, 0 },
        { 3, "eval/loss", 2, 0 },
        { 3, "eval/top1", 0.5, 0 },
        { 3, "eval/top5", 0.625, 0 },
        { 3, "eval/ema_loss", 1.75, 0 },
        { 3, "eval/ema_top1", 0.75, 0 },
        { 3, "eval/ema_top5", 0.875, 0 },
        { 4, "eval/loss", 1, 0 },
        { 4, "eval/map", 0.25, 0 },
        { 3, "gpu0/utilization", 0.97, 0 },
        { 3, "gpu0/memory_gb", 10.73741824, 0 },
        { 3, "gpu0/power_w", 312.5, 0 },
        { 3, "gpu0/sm_clock_mhz", 1755, 0 },
        { 3, "gpu1/memory_gb", 11.811160064, 0 },
        { 3, "gpu1/power_w", 313.5, 0 },
        { 3, "gpu1/sm_clock_mhz", 1005, 0 },
    };
    char run_dir[512], *dir = fs_join(test_scratch(), "tensorboard");
    const char *const sets[] = { "monitor.tensorboard=true", "monitor.gpu=on", run_dir };
    GpuRecord gpus[GAUGES_GPUS_MAX];
    int count = 0;
    ByteStream *s = NULL;
    ByteBuf buf = { 0 };
    Field e[8];
    Config *c = NULL;
    Comm *comm = NULL;
    Nvml *fake = NULL; /* once it is there, it is taken for the driver's */
    Monitor *m = NULL;
    REQUIRE_OK(nvml_open(&fake, CONVOY_FAKE_NVML));
    REQUIRE_OK(comm_self_create(&comm));
    snprintf(run_dir, sizeof run_dir, "run.dir=%s", test_scratch());
    REQUIRE_OK(config_load(&c, NULL, sets, 3));
    c->monitor.every_s = 0.01;
    REQUIRE_OK(monitor_create(&m, c, comm, false));
    REQUIRE(m != NULL);
    monitor_run(m, 10, NULL);
    CHECK_OK(monitor_begin(m, false, 0));
    for (int64_t i = 1; i <= 3; i++) {
        StepRecord step = some_step(i);
        step.recorded = i != 2;
        monitor_step(m, &step);
    }
    monitor_eval(m, &(EvalRecord){ .step = 3,
                                   .loss = 2,
                                   .top1 = 0.5,
                                   .top5 = 0.625,
                                   .has_ema = true,
                                   .ema_loss = 1.75,
                                   .ema_top1 = 0.75,
                                   .ema_top5 = 0.875,
                                   .ema_map = (double)NAN });
    monitor_eval(m, &(EvalRecord){ .step = 4,
                                   .loss = 1,
                                   .top1 = (double)NAN,
                                   .top5 = (double)NAN,
                                   .map = 0.25,
                                   .multi = true });
    for (int i = 0; i < 1000 && !monitor_take_gpus(m, gpus, &count); i++) clock_sleep_s(0.01);
    CHECK_INT(count, 2);
    monitor_destroy(m);
    check_scalars(dir, want, (int)(sizeof want / sizeof want[0]));
    REQUIRE_OK(open_only_file(&s, dir, "events.out.tfevents."));
    next_event(s, &buf, e, 2);
    next_event(s, &buf, e, 2); /* session_log { status: START }, at step 0, of a first start too */
    CHECK(e[0].number == 1 && e[1].number == 7);
    byte_stream_close(s);
    byte_buf_free(&buf);
    config_destroy(c);
    comm_destroy(comm);
    nvml_close(fake);
    mem_free(dir);
}

/* ---- gauges ---- */

TEST(means_of_looks_are_of_what_was_known)
{
    const double nan = (double)NAN;
    const struct {
        double utilization, power_w, mean, least, most, power;
    } rows[] = { { nan, nan, nan, nan, nan, nan },
                 { 0.5, nan, 0.5, 0.5, 0.5, nan },
                 { nan, 300, 0.5, 0.5, 0.5, 300 },
                 { 0.9, nan, 0.7, 0.5, 0.9, 300 },
                 { 0.1, 100, 0.5, 0.1, 0.9, 200 } };
    GpuSamples looks = { 0 };
    GpuGauges g = { 0 };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const double want[] = { rows[i].mean, rows[i].least, rows[i].most, rows[i].power,
                                rows[i].mean / 2 };
        gauges_add_sample(&g, &looks,
                          &(GpuState){ .utilization = rows[i].utilization,
                                       .memory_utilization = rows[i].utilization / 2,
                                       .power_w = rows[i].power_w,
                                       .sm_clock_mhz = i });
        const double got[] = { g.state.utilization, g.utilization_min, g.utilization_max,
                               g.state.power_w, g.state.memory_utilization };
        for (int k = 0; k < 5; k++) {
            if (isnan(want[k])) CHECK(isnan(got[k]));
            else CHECK_NEAR(got[k], want[k], 1e-12);
        }
        CHECK_NEAR(g.state.sm_clock_mhz, i, 0);
    }
}

/* ---- metrics ---- */

static void fill(Gauges *g)
{
    gauges_init(g);
    g->run = "resnet \"50\"\\";
    g->model = "resnet50";
    g->host = "node7";
    g->trains = true;
    g->step = 1200;
    g->recorded.loss = 2.5;
    g->images = 1e6;
    g->eval.top1 = 0.75;
    g->gpu_count = 2;
    for (int i = 0; i < 2; i++) {
        g->gpu[i] = (GpuGauges){ .index = i, .facts = { .uuid = "GPU-1" } };
        g->gpu[i].state = (GpuState){ .utilization = i ? (double)NAN : 0.97,
                                      .memory_utilization = i ? (double)NAN : 0.41,
                                      .memory_used_bytes = 3000.0 * (1 << 20),
                                      .power_w = 300,
                                      .temperature_c = (double)NAN,
                                      .sm_clock_mhz = 1755 };
        g->gpu[i].utilization_min = g->gpu[i].utilization_max = (double)NAN;
        g->gpu[i].facts.memory_bytes = 8e10;
    }
}

/* Each metric has HELP and TYPE once, right before its samples; counters, and only they, end in
 * _total. */
static void check_prometheus_rules(char *text)
{
    char name[128] = "", type[32] = "";
    for (char *line = text, *end; *line; line = end + 1) {
        char sample[128], rest[64];
        REQUIRE((end = strchr(line, '\n')) != NULL);
        *end = '\0';
        if (str_starts_with(line, "# HELP ")) {
            CHECK(sscanf(line, "# HELP %127s %63s", name, rest) == 2);
            type[0] = '\0';
        } else if (str_starts_with(line, "# TYPE ")) {
            CHECK(sscanf(line, "# TYPE %127s %31s", sample, type) == 2);
            CHECK_STR(sample, name);
            CHECK(str_ends_with_nocase(name, "_total") == (strcmp(type, "counter") == 0));
        } else {
            CHECK(sscanf(line, "%127[a-z0-9_]{", sample) == 1 && type[0]);
            CHECK_STR(sample, name);
            CHECK(!strstr(line, "nan"));
        }
        *end = '\n';
    }
}

TEST(prometheus_text_keeps_the_conventions)
{
    Gauges *g = mem_calloc(1, sizeof *g);
    StrBuf text = { 0 };
    REQUIRE(g != NULL);
    fill(g);
    gauges_add_prometheus(g, &text);
    REQUIRE(!text.failed);
    check_prometheus_rules(text.text);
    CHECK_CONTAINS(text.text,
                   "\n# TYPE convoy_step gauge\nconvoy_step{run=\"resnet \\\"50\\\"\\\\\"} 1200\n");
    CHECK_CONTAINS(text.text, "\nconvoy_images_total{run=\"resnet \\\"50\\\"\\\\\"} 1000000\n");
    CHECK_CONTAINS(text.text, "\nconvoy_eval_top1_ratio{run=\"resnet \\\"50\\\"\\\\\"} 0.75\n");
    CHECK_CONTAINS(text.text, ",gpu=\"1\",uuid=\"GPU-1\",host=\"node7\"} 1755000000\n");
    CHECK(!strstr(text.text, "convoy_eval_loss") && !strstr(text.text, "gpu_temperature"));
    g->trains = false;
    str_clear(&text);
    gauges_add_prometheus(g, &text);
    CHECK(!strstr(text.text, "convoy_step{") && strstr(text.text, "convoy_gpu_power_watts{"));
    str_free(&text);
    mem_free(g);
}

TEST(numbers_of_a_run_are_told_in_base_units)
{
    Gauges *g = mem_calloc(1, sizeof *g);
    StrBuf text = { 0 }, want = { 0 };
    REQUIRE(g != NULL);
    gauges_init(g);
    g->run = "r", g->model = "m", g->host = "h", g->version = "v", g->trains = true;
    const struct {
        const char *name;
        double *value;
    } rows[] = { { "step", &g->step },
                 { "planned_steps", &g->total_steps },
                 { "epoch", &g->epoch },
                 { "ranks", &g->world },
                 { "loss", &g->recorded.loss },
                 { "learning_rate", &g->recorded.lr },
                 { "grad_norm", &g->recorded.grad_norm },
                 { "images_per_second", &g->recorded.recent_images_per_s },
                 { "images_total", &g->images },
                 { "step_seconds_total", &g->step_seconds },
                 { "data_wait_seconds_total", &g->data_wait_seconds },
                 { "comm_wait_seconds_total", &g->comm_wait_seconds },
                 { "eval_loss", &g->eval.loss },
                 { "eval_top1_ratio", &g->eval.top1 },
                 { "eval_top5_ratio", &g->eval.top5 },
                 { "eval_step", &g->eval_step },
                 { "checkpoint_step", &g->checkpoint_step },
                 { "checkpoint_timestamp_seconds", &g->checkpoint_unix_s },
                 { "start_timestamp_seconds", &g->start_unix_s },
                 { "update_timestamp_seconds", &g->update_unix_s } };
    const int count = sizeof rows / sizeof rows[0];
    for (int i = 0; i < count; i++) *rows[i].value = i + 0.5;
    gauges_add_prometheus(g, &text);
    REQUIRE(!text.failed);
    for (int i = 0; i < count; i++) {
        str_clear(&want);
        str_printf(&want, "\nconvoy_%s{run=\"r\"} %d.5\n", rows[i].name, i);
        CHECK_CONTAINS(text.text, want.text);
    }
    str_free(&want);
    str_free(&text);
    mem_free(g);
}

/* The metrics that the line defines are the numbers that it has. */
static void check_emf_line(const JsonValue *line, const char *metric, double want)
{
    const JsonValue *aws = json_get(line, "_aws"), *directive = json_get(aws, "CloudWatchMetrics");
    CHECK_NEAR(json_get(aws, "Timestamp")->number, 1700000000500.0, 0);
    REQUIRE(directive && directive->type == JSON_ARRAY && directive->child);
    CHECK_STR(json_get(directive->child, "Namespace")->string, "Convoy");
    const JsonValue *dimensions = json_get(directive->child, "Dimensions");
    for (const JsonValue *d = dimensions->child->child; d; d = d->next) {
        const JsonValue *value = json_get(line, d->string);
        CHECK(value && value->type == JSON_STRING);
    }
    int defined = 0, numbers = 0;
    for (const JsonValue *m = json_get(directive->child, "Metrics")->child; m;
         m = m->next, defined++) {
        const JsonValue *value = json_get(line, json_get(m, "Name")->string);
        CHECK(value && value->type == JSON_NUMBER && json_get(m, "Unit"));
    }
    for (const JsonValue *v = line->child; v; v = v->next) numbers += v->type == JSON_NUMBER;
    CHECK(defined > 0 && defined == numbers);
    const JsonValue *value = json_get(line, metric);
    CHECK_NEAR(value ? value->number : (double)NAN, want, 1e-9);
}

TEST(emf_lines_define_what_they_hold)
{
    static const struct {
        const char *metric;
        double value;
    } want[3] = { { "eval_top1", 75 },
                  { "nvidia_smi_utilization_gpu", 97 },
                  { "nvidia_smi_memory_used", 3000 } };
    Gauges *g = mem_calloc(1, sizeof *g);
    StrBuf text = { 0 };
    Arena *arena = NULL;
    JsonValue *line = NULL;
    REQUIRE(g != NULL);
    REQUIRE_OK(arena_create(&arena, 0));
    fill(g);
    gauges_add_emf(g, 1700000000.5, &text);
    REQUIRE(!text.failed);
    const char *p = text.text;
    for (int i = 0; i < 3; i++) {
        const char *end = strchr(p, '\n');
        REQUIRE(end != NULL);
        REQUIRE_OK(json_parse(arena, p, (size_t)(end - p), &line));
        check_emf_line(line, want[i].metric, want[i].value);
        p = end + 1;
    }
    CHECK(*p == '\0');
    arena_destroy(arena);
    str_free(&text);
    mem_free(g);
}
