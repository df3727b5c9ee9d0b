/* Scaling experiments: the points of a series, what makes one finished, and the records that a
 * report reads. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "trainer/app/scale/fabric.h"
#include "trainer/app/scale/series_run.h"
#include "trainer/app/scale/step_model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static char config_path[512];
static const char *sets[4];

static void open_series(Series *s, const char *more)
{
    static char dir[600];
    const char *text =
        "model:\n  name: resnet20\nscale:\n  ranks: [1, 2, 6]\n  repeats: 2\n  steps: 20\n  "
        "warmup_steps: 5\n";
    snprintf(config_path, sizeof config_path, "%s/c.yaml", test_scratch());
    snprintf(dir, sizeof dir, "scale.dir=%s/series", test_scratch());
    REQUIRE_OK(fs_write_atomic(config_path, text, strlen(text)));
    sets[0] = dir;
    sets[1] = more;
    REQUIRE_OK(series_open(s, config_path, sets, more ? 2 : 1));
}

/* Whether the command of p holds this word. */
static bool has_word(const Point *p, const Series *s, const char *word)
{
    Words words = { .count = 0 };
    series_point_command(p, s, &words);
    for (int i = 0; i < words.count; i++)
        if (strcmp(words.word[i], word) == 0) return true;
    return false;
}

TEST(repeats_are_the_outer_loop)
{
    static const char *const names[] = { "n1-r1", "n2-r1", "n6-r1", "n1-r2", "n2-r2", "n6-r2" };
    Series s;
    open_series(&s, NULL);
    CHECK_INT(s.point_count, 6);
    for (int i = 0; i < s.point_count; i++) {
        Point p;
        REQUIRE_OK(series_point(&p, &s, i));
        CHECK_STR(p.name, names[i]);
        CHECK(has_word(&p, &s, "train.max_steps=25") && has_word(&p, &s, "checkpoint.resume=none"));
        CHECK(has_word(&p, &s, "data.val=") && has_word(&p, &s, "train.batch_mode=per_rank"));
        CHECK(!has_word(&p, &s, "data.format=synthetic"));
        series_point_free(&p);
    }
    series_close(&s);
}

TEST(strong_scaling_keeps_the_global_batch)
{
    Series s;
    Config *c = NULL;
    Point p;
    const char *bad[] = { "scale.mode=strong", "train.global_batch=64" };
    open_series(&s, NULL);
    series_close(&s);
    CHECK_STATUS(config_load(&c, config_path, bad, 1), ERR_USAGE);
    CHECK_STATUS(config_load(&c, config_path, bad, 2), ERR_USAGE); /* not for 6 ranks */
    CHECK_CONTAINS(status_message(), "a multiple of 6 ranks");
    const char *good[] = { "scale.mode=strong", "train.global_batch=96", "scale.data=synthetic",
                           "scale.steps=0" };
    REQUIRE_OK(series_open(&s, config_path, good, 4));
    REQUIRE_OK(series_point(&p, &s, 0));
    CHECK(has_word(&p, &s, "train.batch_mode=global") && has_word(&p, &s, "data.format=synthetic"));
    CHECK(has_word(&p, &s, "train.epochs=3") && has_word(&p, &s, "train.max_steps=0"));
    series_point_free(&p);
    series_close(&s);
}

TEST(ranks_must_be_whole_and_ascending)
{
    static const char *const rows[] = { "scale.ranks=1.5", "scale.ranks=2,1", "scale.ranks=2,2",
                                        "scale.ranks=0", "scale.ranks=" };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Config *c = NULL;
        CHECK_STATUS(config_load(&c, NULL, &rows[i], 1), ERR_USAGE);
        CHECK_CONTAINS(status_message(), "scale.ranks");
    }
}

/* Leaves the run of a point as a run would. */
static void leave_run(const Point *p, const char *config, bool done)
{
    char path[800];
    StrBuf b = { 0 };
    str_printf(
        &b,
        "{\"event\":\"start\",\"device\":\"cpu\",\"precision\":\"fp32\",\"world\":%lld,\"hosts\":1,"
        "\"images\":1000,\"global_batch\":%lld,\"compute_threads\":1,\"oversubscribed\":false}\n",
        (long long)p->ranks, 10 * (long long)p->ranks);
    for (int i = 1; i <= 25; i++)
        str_printf(&b,
                   "{\"event\":\"step\",\"epoch\":0,\"step\":%d,\"loss\":1,\"step_ms\":%d,\"data_"
                   "wait_ms\":0,\"comm_wait_ms\":5}\n",
                   i, i <= 5 ? 1000 : 50);
    if (done) str_add(&b, "{\"event\":\"done\",\"code\":0,\"reason\":\"completed\"}\n");
    REQUIRE_OK(fs_make_dirs(p->run_dir));
    snprintf(path, sizeof path, "%s/metrics.jsonl", p->run_dir);
    REQUIRE_OK(fs_write_atomic(path, b.text, b.length));
    snprintf(path, sizeof path, "%s/config.yaml", p->run_dir);
    REQUIRE_OK(fs_write_atomic(path, config, strlen(config)));
    str_free(&b);
}

/* The configuration with which a run of the point is started. */
static void point_config(const Point *p, StrBuf *out)
{
    const char *all[SERIES_SETS_MAX + 1] = { sets[0] };
    Config *c = NULL;
    for (int i = 0; i < p->set_count; i++) all[i + 1] = p->sets[i];
    REQUIRE_OK(config_load(&c, config_path, all, p->set_count + 1));
    REQUIRE_OK(config_dump_yaml(c, out));
    config_destroy(c);
}

static void check_found(const Point *p, const Series *s, Status want, bool want_finished)
{
    ReportRun run;
    bool finished = false;
    CHECK_STATUS(series_point_find(p, s, &run, &finished), want);
    CHECK(finished == want_finished || want != OK);
    report_run_free(&run);
}

TEST(a_point_is_finished_when_its_run_says_so)
{
    Series s;
    Point p;
    StrBuf config = { 0 };
    int finished = 0;
    open_series(&s, NULL);
    REQUIRE_OK(series_point(&p, &s, 1));
    point_config(&p, &config);
    check_found(&p, &s, OK, false); /* nothing there */
    leave_run(&p, config.text, false);
    check_found(&p, &s, OK, false); /* killed */
    leave_run(&p, config.text, true);
    check_found(&p, &s, OK, true);
    REQUIRE_OK(series_write(&s, &finished));
    CHECK_INT(finished, 1);
    char path[700];
    uint8_t *bytes = NULL;
    size_t size;
    snprintf(path, sizeof path, "%s/scale.jsonl", s.dir);
    REQUIRE_OK(fs_read_file(path, &bytes, &size));
    CHECK_CONTAINS((char *)bytes, "\"run\":\"n2-r1\",\"warmup_steps\":5,\"epoch_s\":2.5,");
    mem_free(bytes);
    leave_run(&p, "model:\n  name: resnet18\n", true);
    check_found(&p, &s, ERR_USAGE, false);
    CHECK_CONTAINS(status_message(),
                   "measured with other settings (model.name was \"resnet18\" and is \"resnet20\"");
    p.ranks = 3;
    leave_run(&p, config.text, true);
    p.ranks = 2;
    check_found(&p, &s, ERR_ENV, false);
    CHECK_CONTAINS(status_message(), "2 ranks were started and the run had 3");
    str_free(&config);
    series_point_free(&p);
    series_close(&s);
}

/* What series_print() says once the points up to this one are finished; mem_free. */
static char *printed(const Series *s, int finished)
{
    char path[700];
    uint8_t *text = NULL;
    size_t bytes;
    for (int i = 0; i < finished; i++) {
        Point p;
        StrBuf config = { 0 };
        CHECK_OK(series_point(&p, s, i));
        point_config(&p, &config);
        leave_run(&p, config.text, true);
        str_free(&config);
        series_point_free(&p);
    }
    snprintf(path, sizeof path, "%s/printed-%d", test_scratch(), finished);
    CHECK_OK(log_open(path, 0, LOG_INFO));
    CHECK_OK(series_print(s));
    log_close();
    CHECK_OK(fs_read_file(path, &text, &bytes));
    return (char *)text;
}

/* A step takes the same time on any number of ranks, so an epoch takes less. */
TEST(two_numbers_of_ranks_make_a_table)
{
    static const char *const rows[] = {
        "     1      1      5.000         -      200.0    1.000    100.0                -",
        "     2      1      2.500         -      400.0    2.000    100.0                -",
        "     6      1      0.833         -     1200.0    6.000    100.0                -"
    };
    Series s;
    open_series(&s, NULL);
    for (int finished = 1; finished <= 3; finished++) {
        char *text = printed(&s, finished);
        CHECK((strstr(text, "speed-up") != NULL) == (finished >= 2));
        for (int i = 0; i < 3; i++)
            CHECK((strstr(text, rows[i]) != NULL) == (finished >= 2 && i < finished));
        mem_free(text);
    }
    series_close(&s);
}

TEST(printed_lines_need_whole_nodes)
{
    Series s;
    const SeriesRunOptions o = { .program = "/x/convoy" };
    open_series(&s, NULL);
    CHECK_STATUS(series_run_print(&s, &o, PRINT_SBATCH, 4), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "6 ranks are not a multiple of 4 ranks per node");
    series_close(&s);
}

/* ---- the model of step time ---- */

static const Fabric even = {
    .name = "even", .ranks_per_node = 4, .intra = { 1e-6, 100e9 }, .inter = { 10e-6, 10e9 }
};

TEST(ring_time_is_that_of_the_formula)
{
    CHECK_NEAR(fabric_allreduce_s(&even, 1e9, 1), 0, 0);
    /* one node: 2 (n-1) hops, 2 (n-1)/n of the bytes */
    CHECK_NEAR(fabric_allreduce_s(&even, 1e9, 4), 6e-6 + 1.5e9 / 100e9, 1e-12);
    /* two nodes: of 14 hops 2 are between them; the slower link decides */
    CHECK_NEAR(fabric_allreduce_s(&even, 1e9, 8), 12e-6 + 20e-6 + 1.75e9 / 10e9, 1e-12);
}

TEST(trees_are_taken_where_they_are_shorter)
{
    Fabric f = even;
    f.intra.tree_s = 5e-6;
    f.inter.tree_s = 20e-6;
    /* two nodes: a ring takes 12 and 20 us, a tree 2 (5 + 20) */
    CHECK_NEAR(fabric_allreduce_s(&f, 1e9, 8), 32e-6 + 1.75e9 / 10e9, 1e-12);
    /* 64 nodes, six levels: 2 (5 + 120) us against 126 hops between nodes */
    CHECK_NEAR(fabric_allreduce_s(&f, 0, 256), 250e-6, 1e-12);
    CHECK_NEAR(fabric_allreduce_s(&even, 0, 256), 384e-6 + 1260e-6, 1e-12);
    CHECK_NEAR(fabric_allreduce_s(&f, 0, 4), 6e-6, 1e-12);
}

TEST(sums_hide_behind_backward_as_far_as_they_can)
{
    /* two gradients of 8 MiB, each a bucket: at half of the step and at its end */
    const double elements = 2 << 20, bytes = 4 * elements;
    Gradient gradients[] = { { elements, 0.5 }, { elements, 1 } };
    StepModel m = { .gradients = gradients, .count = 2, .bucket_mb = 8 };
    double sum_s = fabric_allreduce_s(&even, bytes, 8);
    StepTime t = step_model_predict(&m, &even, 10 * sum_s, 8, 4);
    CHECK_INT(t.buckets, 2);
    CHECK_NEAR(t.step_s, 11 * sum_s, 1e-9); /* only the last one shows */
    CHECK_NEAR(t.efficiency, 10.0 / 11, 1e-9);
    /* computation is short: both show but for its half */
    t = step_model_predict(&m, &even, sum_s, 8, 4);
    CHECK_NEAR(t.step_s, 2.5 * sum_s, 1e-9);
    CHECK_NEAR(step_model_predict(&m, &even, sum_s, 1, 4).efficiency, 1, 0);
    CHECK(step_model_predict(&m, &even, sum_s, 8, 2).step_s < t.step_s);
    m.bucket_mb = 200; /* the cap of a small network: all in one of 8 MiB at most */
    CHECK_INT(step_model_predict(&m, &even, 1, 8, 4).buckets, 2);
}

TEST(terms_add_what_they_say)
{
    const double elements = 2 << 20, bytes = 4 * elements;
    Gradient gradients[] = { { elements, 0.5 }, { elements, 1 } };
    StepModel m = { .gradients = gradients, .count = 2, .bucket_mb = 8, .operations = 100 };
    double both_s = fabric_allreduce_s(&even, 2 * bytes, 8), compute_s = 2;
    CHECK_NEAR(step_model_compute_s(&m, 32, 64, 128), 0.5, 1e-12);
    m.terms = (StepTerms){ .operation_s = 1e-3, .fixed_s = 0.1 };
    /* 128 images take 2 s, of which 0.2 are of none */
    CHECK_NEAR(step_model_compute_s(&m, 128, 64, 128), 2, 1e-12);
    CHECK_NEAR(step_model_compute_s(&m, 32, 64, 128), 0.2 + 1.8 / 4, 1e-12);
    m.terms.fixed_s = 1.9;
    CHECK(isnan(step_model_compute_s(&m, 32, 64, 128)));
    m.terms = (StepTerms){ .no_overlap = true };
    StepTime t = step_model_predict(&m, &even, compute_s, 8, 4);
    CHECK_NEAR(t.step_s, compute_s + both_s, 1e-12);
    CHECK_INT(t.buckets, 1);
    /* the largest of 8 normal deviates is 1.4236 on average, of 512 3.0376 (David, Nagaraja) */
    m.terms.spread = 0.1;
    t = step_model_predict(&m, &even, compute_s, 8, 4);
    CHECK_NEAR(t.step_s, compute_s * 1.14236 + both_s, 2 * 0.1 * 0.02);
    t = step_model_predict(&m, &even, compute_s, 512, 4);
    CHECK_NEAR((t.step_s - t.allreduce_s) / compute_s, 1.30376, 0.002);
    CHECK_NEAR(step_model_predict(&m, &even, compute_s, 1, 4).step_s, compute_s, 0);
    m.terms.no_overlap = false;
    t = step_model_predict(&m, &even, compute_s, 8, 4);
    CHECK_NEAR(t.step_s, compute_s * 1.14236 + both_s / 2, 2 * 0.1 * 0.02);
}

/* Each of ResNet-50's 53 batch norms sums over its group, forward and backward. */
TEST(batch_norms_over_ranks_wait_for_sums)
{
    static const char *const group[] = { "model.bn=sync", "model.bn_group=2" };
    StepTime t[3];
    for (int i = 0; i <= 2; i++) {
        Config *c = NULL;
        StepModel m;
        REQUIRE_OK(config_load(&c, NULL, group, i));
        REQUIRE_OK(step_model_create(&m, c));
        CHECK_INT(m.norms, i ? 106 : 0);
        m.terms.no_overlap = true;
        t[i] = step_model_predict(&m, &even, 1, 8, 4);
        step_model_destroy(&m);
        config_destroy(c);
    }
    const double bytes = 2 * 53120 * 4;
    CHECK_NEAR(t[1].step_s - t[0].step_s, 106 * 32e-6 + 1.75 * bytes / 10e9, 1e-9);
    CHECK_NEAR(t[2].step_s - t[0].step_s, 106 * 2e-6 + bytes / 100e9, 1e-9);
}

TEST(gradients_of_a_network_are_all_there)
{
    Config *c = NULL;
    StepModel m;
    double elements = 0;
    REQUIRE_OK(config_load(&c, NULL, NULL, 0)); /* ResNet-50, 1000 classes */
    REQUIRE_OK(step_model_create(&m, c));
    for (int i = 0; i < m.count; i++) {
        elements += m.gradients[i].elements;
        CHECK(m.gradients[i].ready > 0.3 && m.gradients[i].ready <= 1 + 1e-9);
        if (i > 0) CHECK(m.gradients[i].ready >= m.gradients[i - 1].ready);
    }
    CHECK_NEAR(elements, 25557032, 0);
    CHECK_NEAR(m.statistics, 53120, 0);
    step_model_destroy(&m);
    config_destroy(c);
}

/* The words' table is used twice, so its gradient is complete with the embedding's. */
TEST(buckets_of_roberta_large_end_with_its_words)
{
    Config *c = NULL;
    StepModel m;
    StepBucket b = { 0 };
    double elements = 0, ready = 0;
    int buckets = 0;
    REQUIRE_OK(config_load(&c, NULL, NULL, 0));
    REQUIRE_OK(step_model_create_like(&m, c, "roberta_large"));
    CHECK_INT(m.tokens, 512);
    while (step_model_next_bucket(&m, &b)) {
        CHECK(b.elements * 4 <= 200 * 1048576.0 && b.ready > 1.0 / 3 && b.ready >= ready);
        elements += b.elements;
        ready = b.ready;
        buckets++;
    }
    CHECK_NEAR(elements, 355411033, 0);
    CHECK_NEAR(b.elements, 50265 * 1024, 0); /* the words, which are last, alone */
    CHECK_NEAR(ready, 1, 0);
    CHECK_INT(b.gradients, m.count);
    CHECK_INT(buckets, 7); /* the rest of 1,216 MB in six of at most 200 MiB */
    step_model_destroy(&m);
    CHECK_STATUS(step_model_create_like(&m, c, "robberta"), ERR_USAGE);
    CHECK_CONTAINS(status_message(), "unknown network robberta");
    config_destroy(c);
}

/* AWS, 2019: 160 V100 of p3.16xlarge, 256 images each: 98,000 images/s, "90 to 100 %". So 612 to
 * 681 alone. */
TEST(model_agrees_with_160_gpus_of_aws)
{
    Config *c = NULL;
    StepModel m;
    Fabric f;
    REQUIRE_OK(config_load(&c, NULL, NULL, 0));
    REQUIRE_OK(step_model_create(&m, c));
    REQUIRE_OK(fabric_read(&f, "configs/fabrics/p3.16xlarge.json"));
    for (double rate = 612; rate <= 681; rate += 23) {
        double efficiency = step_model_predict(&m, &f, 256 / rate, 160, 4).efficiency;
        CHECK(efficiency > 0.9 && efficiency < 1);
    }
    step_model_destroy(&m);
    config_destroy(c);
}

/* nccl-tests on H100 (ZiyanIshani/vpbenchmarking), of which configs/fabrics/dgx-h100.json holds the
 * largest size alone: what was measured at the size of gradients, in us. */
TEST(model_agrees_with_sums_of_gradients_on_h100)
{
    static const struct {
        int ranks;
        double bytes, us;
    } rows[] = { { 8, 33554432, 200.39 },
                 { 8, 67108864, 328.56 },
                 { 32, 33554432, 373.03 },
                 { 32, 67108864, 579.49 } };
    Fabric f;
    REQUIRE_OK(fabric_read(&f, "configs/fabrics/dgx-h100.json"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double share = fabric_allreduce_s(&f, rows[i].bytes, rows[i].ranks) / (1e-6 * rows[i].us);
        CHECK(share > 0.845 && share < 0.915);
    }
}

/* Published times of a step of Inception on a Titan X (caffe2's convnet benchmarks): what its
 * smallest and largest batch say of those between. */
TEST(steps_take_a_time_and_one_of_their_images)
{
    const double ms_16 = 72.7, ms_128 = 450.6;
    StepModel m = { .terms.fixed_s = 1e-3 * (ms_16 - (ms_128 - ms_16) / 7) };
    CHECK_NEAR(1e3 * step_model_compute_s(&m, 32, 128 / (1e-3 * ms_128), 128), 127.5, 1.3);
    CHECK_NEAR(1e3 * step_model_compute_s(&m, 64, 128 / (1e-3 * ms_128), 128), 233.6, 2.3);
}

/* MLPerf's images/s of a GPU over those of a GPU of 8, each with its own batch: 69.4, 61.5 and
 * 39.4 %. What docs/laboratory/scaling-measurements.md says of the model, term by term. */
typedef struct MlperfCase {
    bool trees, grouped; /* grouped: the batch norms of 3,584 GPUs, over two each */
    double rate;         /* of one GPU in steps of 400, in the network of the three rows */
    StepTerms terms;
    double want[3];
} MlperfCase;

static double mlperf_rate(const MlperfCase *k, double rate, int row)
{
    static const struct {
        int ranks, batch;
    } rows[] = { { 64, 50 }, { 512, 40 }, { 3584, 16 }, { 8, 400 } };
    static const char *const group[] = { "model.bn=sync", "model.bn_group=2" };
    Config *c = NULL;
    StepModel m;
    Fabric f;
    CHECK_OK(fabric_read(&f, "configs/fabrics/dgx-h100.json"));
    if (!k->trees) f.intra.tree_s = f.inter.tree_s = 0;
    CHECK_OK(config_load(&c, NULL, group, k->grouped && row == 2 ? 2 : 0));
    CHECK_OK(step_model_create(&m, c));
    m.terms = k->terms;
    double compute_s = step_model_compute_s(&m, rows[row].batch, rate, 400);
    double step_s = step_model_predict(&m, &f, compute_s, rows[row].ranks, 2).step_s;
    step_model_destroy(&m);
    config_destroy(c);
    return rows[row].batch / step_s;
}

TEST(model_against_mlperf_is_as_the_page_says)
{
    static const StepTerms none = { .spread = 0 }, at_once = { .no_overlap = true },
                           launches = { .operation_s = 3.4e-6, .no_overlap = true },
                           fixed = { 3.4e-6, 0.29e-3, 0, true },
                           all = { 3.4e-6, 0.29e-3, 0.015, true };
    const MlperfCase cases[] = {
        { false, false, 7162, none, { 85.6, 13.7, 0.8 } },
        { true, false, 7162, none, { 94.9, 89.9, 53.8 } },
        { true, false, 7162, at_once, { 94.0, 90.5, 76.6 } },
        { true, false, 7162, launches, { 84.2, 79.2, 57.9 } },
        { true, false, 7162, fixed, { 81.8, 76.4, 54.1 } },
        { true, false, 7162, all, { 80.8, 74.9, 52.9 } },
        { true, true, 7162, all, { 80.8, 74.9, 45.3 } },
        { true, true, 7162 * 28.8 / 33.0, all, { 72.2, 67.4, 42.4 } },
        { true, true, 7162 * 26.4 / 33.0, all, { 67.1, 62.9, 40.6 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double base = mlperf_rate(&cases[i], 7162, 3);
        for (int row = 0; row < 3; row++) {
            double share = 100 * mlperf_rate(&cases[i], cases[i].rate, row) / base;
            CHECK_NEAR(share, cases[i].want[row], 0.0501);
        }
    }
}

/* Efficiencies of docs/laboratory/scaling-measurements.md, in percent. */
TEST(model_of_what_else_was_published_is_as_the_page_says)
{
    static const struct {
        const char *network, *fabric;
        int batch, ranks, element_bytes;
        double rate, spread, want;
    } rows[] = {
        { "resnet50", "big-basin", 32, 8, 4, 139, 0, 99.8 },
        { "resnet50", "big-basin", 32, 256, 4, 139, 0, 95.0 },
        { "resnet50", "big-basin", 32, 8, 4, 139, 0.015, 97.7 },
        { "resnet50", "big-basin", 32, 256, 4, 139, 0.015, 91.3 },
        { "resnet50", "big-basin", 64, 8, 4, 219, 0, 99.9 },
        { "resnet101", "horovod-roce", 64, 512, 4, 115, 0, 95.9 },
        { "resnet50", "dgx-h100", 2560, 8, 2, 3079, 0, 100.0 },
        { "resnet50", "dgx-h100", 256, 8, 2, 2791, 0, 99.9 },
        { "resnet50", "p4d.24xlarge-efa", 256, 8, 2, 1582, 0, 99.9 },
        { "resnet50", "p4d.24xlarge-efa", 256, 8, 2, 3410, 0, 99.8 },
        { "resnet50", "p4d.24xlarge-efa", 256, 256, 4, 2470, 0, 94.4 },
        { "resnet50", "p4d.24xlarge-efa", 256, 32, 4, 2470, 0, 98.8 },
        { "resnet50", "p4d.24xlarge-efa1", 256, 32, 4, 2470, 0, 95.5 },
        { "resnet50", "p4d.24xlarge-tcp", 256, 32, 4, 2470, 0, 84.5 },
        { "resnet50", "p4d.24xlarge-efa1", 256, 256, 4, 2470, 0, 91.2 },
        { "resnet50", "p4d.24xlarge-tcp", 256, 256, 4, 2470, 0, 67.5 },
        { "resnet50", "p3dn.24xlarge-efa", 256, 8, 2, 1376, 0, 99.9 },
        { "efficientnet_b4", "p4d.24xlarge-efa", 128, 32, 4, 331, 0, 99.8 },
        { "efficientnet_b4", "p4d.24xlarge-efa", 128, 64, 4, 331, 0, 99.6 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const double compute_s = rows[i].batch / rows[i].rate;
        char path[128];
        Config *c = NULL;
        StepModel m;
        Fabric f;
        snprintf(path, sizeof path, "configs/fabrics/%s.json", rows[i].fabric);
        REQUIRE_OK(fabric_read(&f, path));
        REQUIRE_OK(config_load(&c, NULL, NULL, 0));
        REQUIRE_OK(step_model_create_like(&m, c, rows[i].network));
        m.terms.spread = rows[i].spread;
        StepTime t = step_model_predict(&m, &f, compute_s, rows[i].ranks, rows[i].element_bytes);
        CHECK_NEAR(100 * t.efficiency, rows[i].want, 0.0501);
        step_model_destroy(&m);
        config_destroy(c);
    }
}

TEST(every_fabric_file_can_be_read)
{
    char **names = NULL;
    int64_t count = 0;
    REQUIRE_OK(fs_list("configs/fabrics", &names, &count));
    CHECK(count >= 5);
    for (int64_t i = 0; i < count; i++) {
        char path[512];
        Fabric f;
        snprintf(path, sizeof path, "configs/fabrics/%s", names[i]);
        CHECK_OK(fabric_read(&f, path));
        CHECK(f.intra.bytes_per_s >= f.inter.bytes_per_s);
    }
    mem_free(names);
}

#define LINK "\"latency_us\":1,\"busbw_gb_per_s\":1,\"latency_source\":\"s\",\"busbw_source\":\"s\""

TEST(broken_fabric_files_are_named)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "{", "JSON" },
        { "{\"name\":\"x\"}", "ranks_per_node is missing" },
        { "{\"name\":\"x\",\"ranks_per_node\":8,\"intra\":3}", "intra is missing" },
        { "{\"name\":\"x\",\"ranks_per_node\":8,\"intra\":{\"latency_us\":0}}", "latency_us" },
        { "{\"name\":\"x\",\"ranks_per_node\":8,\"intra\":{\"latency_us\":1,\"busbw_gb_per_s\":1}}",
          "latency_source is missing" },
        { "{\"name\":\"x\",\"ranks_per_node\":8,\"intra\":{" LINK ",\"tree_latency_us\":1}}",
          "tree_latency_source is missing" },
        { "{\"name\":\"x\",\"ranks_per_node\":8,\"intra\":{" LINK
          ",\"tree_latency_us\":1,\"tree_latency_source\":\"s\"},\"inter\":{" LINK "}}",
          "tree_latency_us is set in only one of intra and inter" }
    };
    char path[600];
    snprintf(path, sizeof path, "%s/f.json", test_scratch());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Fabric f;
        REQUIRE_OK(fs_write_atomic(path, rows[i].text, strlen(rows[i].text)));
        CHECK_STATUS(fabric_read(&f, path), ERR_DATA);
        CHECK_CONTAINS(status_message(), rows[i].says);
        CHECK_CONTAINS(status_message(), path);
    }
}
