/* Automatic augmentation: tables equal torchvision's and timm's, plans give the bytes of
 * torchvision from the same parameters, draws have torchvision's distributions. Golden files:
 * scripts/golden/make_policy_golden.py, scripts/bench/replay_views.py. */
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "data/augment/mix.h"
#include "data/augment/policy.h"
#include "data/augment/policy_timm.h"
#include "data/augment/replay.h"
#include "data/augment/view.h"
#include "data/decode/decoder.h"
#include "tests/test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VIEW = 40 * 40 * 3 };

/* ---- tables ---- */

static void check_magnitudes(const char *line)
{
    char name[32];
    int policy = 0, bins = 0, width = 0, height = 0, used = 0, bin = 0;
    ImageOpKind kind;
    REQUIRE(sscanf(line, "magnitude %d %31s %d %d %d%n", &policy, name, &bins, &width, &height,
                   &used) == 5);
    REQUIRE(image_op_find(name, &kind));
    double got = 0;
    for (const char *at = line + used; *at == ' '; bin++) {
        char *end = NULL;
        double want = strtod(at, &end);
        CHECK(policy_magnitude((AutoPolicy)policy, kind, bin, bins, width, height, &got));
        if (got != want)
            fprintf(stderr, "%s policy %d, %d bins, bin %d\n", name, policy, bins, bin);
        CHECK(got == want);
        at = end;
    }
    CHECK_INT(bin, bin == 0 ? 0 : bins);
    if (bin == 0) CHECK(!policy_magnitude((AutoPolicy)policy, kind, 0, bins, width, height, &got));
}

static void check_sub_policy(const char *line)
{
    char name[32];
    int table = 0, index = 0, step = 0, bin = 0;
    double probability = 0;
    REQUIRE(sscanf(line, "sub %d %d %d %31s %lf %d", &table, &index, &step, name, &probability,
                   &bin) == 6);
    const SubPolicyStep *s = policy_sub_policy((AutoAugmentTable)table, index, step);
    CHECK_STR(image_op_name(s->kind), name);
    CHECK(s->probability == (float)probability);
    CHECK_INT(s->bin, bin);
}

static void check_timm(const char *line)
{
    static const double magnitudes[] = { 0, 0.25, 1, 3.7, 5, 6, 7, 8.37, 9, 9.999, 10 };
    enum { COUNT = sizeof magnitudes / sizeof magnitudes[0] };
    char name[32];
    int width = 0, height = 0, negative = 0, used = 0, i = 0, index = 0;
    ImageOpKind kind;
    REQUIRE(sscanf(line, "timm %31s %d %d %d%n", name, &width, &height, &negative, &used) == 4);
    REQUIRE(image_op_find(name, &kind));
    while (index < POLICY_TIMM_OPS && policy_timm_op(index, 0, false, 1, 1).kind != kind) index++;
    REQUIRE(index < POLICY_TIMM_OPS);
    for (const char *at = line + used; *at == ' ' && i < COUNT; i++) {
        char *end = NULL;
        const double want = strtod(at, &end),
                     got = policy_timm_op(index, magnitudes[i], negative != 0, width, height).value;
        if (got != want) fprintf(stderr, "%s %g: %.17g\n", name, magnitudes[i], got);
        CHECK(got == want);
        at = end;
    }
    CHECK_INT(i, kind == IMAGE_AUTOCONTRAST || kind == IMAGE_EQUALIZE || kind == IMAGE_INVERT
                     ? 0
                     : COUNT);
}

TEST(tables_are_those_of_torchvision_and_timm)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    int magnitudes = 0, steps = 0, timm = 0;
    REQUIRE_OK(fs_read_file("tests/golden/policies.txt", &text, &bytes));
    for (const char *line = strchr((const char *)text, '\n'); line && line[1];
         line = strchr(line + 1, '\n')) {
        bool sub = line[1] == 's', of_timm = line[1] == 't';
        steps += sub;
        timm += of_timm;
        magnitudes += !sub && !of_timm;
        if (sub) check_sub_policy(line + 1);
        else if (of_timm) check_timm(line + 1);
        else check_magnitudes(line + 1);
    }
    CHECK_INT(steps, AUTOAUGMENT_TABLE_COUNT * AUTOAUGMENT_SUB_POLICIES * 2);
    CHECK(magnitudes > 200);
    CHECK_INT(timm, 15 * 4);
    mem_free(text);
}

/* ---- bytes ---- */

static uint32_t crc_of_replay(const char *file, const Replay *r, Decoder *decoder)
{
    static uint8_t out[MOST_VIEW];
    char path[128];
    uint8_t *bytes = NULL;
    size_t size = 0, total = (size_t)r->plan.size * (size_t)r->plan.size * 3;
    Image image = { 0 };
    ViewScratch view = { 0 };
    PolicyScratch scratch = { 0 };
    const ImageOpStyle style = { 0 };
    Picture picture = { out, r->plan.size, r->plan.size, 3 };
    snprintf(path, sizeof path, "tests/golden/images/%s", file);
    ASSERT(total <= sizeof out);
    CHECK_OK(fs_read_file(path, &bytes, &size));
    CHECK_OK(decoder_decode(decoder, bytes, size, 3, &image));
    CHECK_OK(view_make(&r->plan, RESIZE_BILINEAR, &image, 3, &view, out));
    CHECK_OK(policy_apply(&r->policy_plan, &style, &picture, &scratch));
    mem_free(bytes);
    view_scratch_free(&view);
    policy_scratch_free(&scratch);
    return crc32c_update(0, out, total);
}

TEST(given_parameters_give_the_bytes_of_torchvision)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    int lines = 0, chains = 0;
    Decoder *decoder = NULL;
    REQUIRE_OK(decoder_create(&decoder));
    REQUIRE_OK(fs_read_file("tests/golden/replays.txt", &text, &bytes));
    for (char *line = strchr((char *)text, '\n'); line && line[1];
         line = strchr(line + 1, '\n'), lines++) {
        char file[32], parameters[1024];
        uint32_t want = 0;
        Replay r;
        REQUIRE(sscanf(line + 1, "%31[^\t]\t%1023[^\t]\t%x", file, parameters, &want) == 3);
        REQUIRE_OK(replay_parse(parameters, &r));
        chains += r.policy_plan.chain_count;
        if (crc_of_replay(file, &r, decoder) == want) continue;
        fprintf(stderr, "differs: %.*s\n", (int)strcspn(line + 1, "\n"), line + 1);
        CHECK(!"the bytes of torchvision");
    }
    CHECK_INT(lines, 48);
    CHECK(chains > 20);
    decoder_destroy(decoder);
    mem_free(text);
}

TEST(replays_read_back)
{
    const PolicyOptions o = {
        .jitter = { 0.4, 0.4, 0.4, 0.1 }, .policy = POLICY_AUGMIX, .severity = 3, .erase = 1
    };
    StrBuf first = { 0 }, second = { 0 };
    for (int64_t id = 0; id < 50; id++) {
        const AugmentDraw draw = { .seed = 5, .epoch = 1, .sample = id };
        const ViewOptions view = { .augment = AUGMENT_IMAGENET, .image_size = 64 };
        Replay a = { .plan = augment_draw(&view, 300, 200, 64, &draw) }, b;
        policy_draw(&o, 64, 64, &draw, &a.policy_plan);
        a.erase = policy_draw_erase(o.erase, 64, 64, &draw);
        str_clear(&first);
        str_clear(&second);
        replay_print(&a, &first);
        REQUIRE_OK(replay_parse(first.text, &b));
        replay_print(&b, &second);
        CHECK_STR(second.text, first.text);
        CHECK_INT(b.policy_plan.chain_count, 3);
        CHECK(b.policy_plan.ops[0].value == a.policy_plan.ops[0].value &&
              b.policy_plan.chains[2].weight == a.policy_plan.chains[2].weight);
    }
    str_free(&first);
    str_free(&second);
}

TEST(bad_replays_are_refused)
{
    static const struct {
        const char *line, *part;
    } rows[] = { { "box 1 2 3", "box takes 4" },
                 { "box 0 0 4 4 resize 4 4 size 4 op sheer_x 1", "unknown operation \"sheer_x\"" },
                 { "box 0 0 4 4 resize 4 4 size 4 op rotate", "needs a number" },
                 { "box 0 0 4 4 resize 4 4 size 4 op posterize 9", "0 to 8 bits" },
                 { "box 0 0 4 4 resize 4 4 size 4 zoom 2", "unknown key \"zoom\"" },
                 { "resize 4 4 size 4", "are required" } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Replay r;
        CHECK_STATUS(replay_parse(rows[i].line, &r), ERR_DATA);
        CHECK_CONTAINS(status_message(), rows[i].part);
    }
    char many[1024] = "box 0 0 4 4 resize 4 4 size 4";
    Replay r;
    for (int i = 0; i <= POLICY_PLAN_MAX_OPS; i++)
        strncat(many, " op invert 0", sizeof many - strlen(many) - 1);
    CHECK_STATUS(replay_parse(many, &r), ERR_DATA);
}

/* ---- distributions ---- */

static PolicyPlan drawn(const PolicyOptions *o, int64_t id)
{
    PolicyPlan r;
    policy_draw(o, 224, 224, &(AugmentDraw){ .seed = 8, .epoch = 2, .sample = id }, &r);
    return r;
}

TEST(randaugment_draws_ops_and_signs_evenly)
{
    enum { DRAWS = 20000, OPS = 14 };
    const PolicyOptions o = { .policy = POLICY_RANDAUGMENT, .ops = 2, .magnitude = 9, .bins = 31 };
    int count[IMAGE_OP_COUNT] = { 0 }, negative[IMAGE_OP_COUNT] = { 0 };
    for (int64_t id = 0; id < DRAWS; id++) {
        PolicyPlan r = drawn(&o, id);
        REQUIRE(r.op_count == 2 && r.chain_count == 0);
        for (int k = 0; k < 2; k++) {
            const ImageOp *op = &r.ops[k];
            bool factor = op->kind >= IMAGE_BRIGHTNESS && op->kind <= IMAGE_SHARPNESS;
            double magnitude = op->value - factor;
            count[op->kind]++;
            negative[op->kind] += magnitude < 0;
            if (factor) CHECK_NEAR(fabs(magnitude), 0.27, 1e-6);
            if (op->kind == IMAGE_SHEAR_X) CHECK_NEAR(fabs(magnitude), 0.09, 1e-6);
            if (op->kind == IMAGE_TRANSLATE_Y) CHECK_NEAR(fabs(magnitude), 224 * 45.0 / 331, 1e-3);
            if (op->kind == IMAGE_ROTATE) CHECK_NEAR(fabs(magnitude), 9, 1e-5);
            if (op->kind == IMAGE_POSTERIZE) CHECK_NEAR(op->value, 7, 0);
            if (op->kind == IMAGE_SOLARIZE) CHECK_NEAR(op->value, 178.5, 1e-4);
        }
    }
    for (int k = 0; k < IMAGE_OP_COUNT; k++) {
        bool used = k < IMAGE_INVERT;
        CHECK_NEAR(count[k], used ? 2.0 * DRAWS / OPS : 0, used ? 220 : 0);
        CHECK_NEAR(negative[k], image_op_mirrors((ImageOpKind)k) ? count[k] / 2 : 0, 120);
    }
}

/* Two of fifteen ops, each applied half the time, at a strength about the one asked for. */
TEST(randaugment_of_timm_draws_as_timm_does)
{
    enum { DRAWS = 30000 };
    const PolicyOptions o = { .policy = POLICY_RANDAUGMENT_TIMM,
                              .ops = 2,
                              .magnitude = 9,
                              .deviation = 0.5,
                              .sampling = SAMPLING_RANDOM };
    int count[IMAGE_OP_COUNT] = { 0 }, ops = 0, negative = 0, cut = 0, cubic = 0;
    double sum = 0, squares = 0;
    for (int64_t id = 0; id < DRAWS; id++) {
        const PolicyPlan r = drawn(&o, id);
        REQUIRE(r.op_count <= 2 && r.chain_count == 0);
        for (int k = 0; k < r.op_count; k++, ops++) {
            count[r.ops[k].kind]++;
            cubic += r.cubic >> k & 1;
            if (r.ops[k].kind != IMAGE_ROTATE) continue;
            const double strength = fabs(r.ops[k].value) / 3;
            negative += r.ops[k].value < 0;
            cut += strength == 10;
            sum += strength;
            squares += (strength - 9) * (strength - 9);
            CHECK(strength > 6 && strength <= 10);
        }
    }
    const double rotates = count[IMAGE_ROTATE];
    CHECK_NEAR(ops, DRAWS, 400);
    CHECK_NEAR(cubic, ops / 2.0, 300);
    for (int k = 0; k < IMAGE_OP_COUNT; k++) {
        const bool used = (k >= IMAGE_ROTATE && k != IMAGE_HUE);
        CHECK_NEAR(count[k], used ? DRAWS / 15.0 : 0, used ? 200 : 0);
    }
    CHECK_NEAR(negative, rotates / 2, 110);
    CHECK_NEAR(sum / rotates, 9,
               0.05); /* 9 - 0.5 times what a normal loses beyond two deviations */
    CHECK_NEAR(sqrt(squares / rotates), 0.49, 0.03);
    CHECK_NEAR(cut / rotates, 0.0228, 0.012);
}

TEST(trivialaugment_draws_bins_evenly)
{
    enum { DRAWS = 40000, BINS = 31 };
    const PolicyOptions o = { .policy = POLICY_TRIVIALAUGMENT, .bins = BINS };
    int bins[BINS] = { 0 }, rotates = 0, negative = 0;
    for (int64_t id = 0; id < DRAWS; id++) {
        PolicyPlan r = drawn(&o, id);
        REQUIRE(r.op_count == 1);
        if (r.ops[0].kind != IMAGE_ROTATE) continue;
        rotates++;
        negative += r.ops[0].value < 0;
        bins[(int)rint(fabs(r.ops[0].value) / 4.5)]++;
    }
    CHECK_NEAR(rotates, DRAWS / 14.0, 220);
    CHECK_NEAR(negative, rotates * 15 / 31.0, 150); /* bin 0 has no sign to see */
    for (int i = 0; i < BINS; i++) CHECK_NEAR(bins[i], rotates / (double)BINS, 45);
}

TEST(autoaugment_follows_its_probabilities)
{
    enum { DRAWS = 50000 };
    const PolicyOptions o = { .policy = POLICY_AUTOAUGMENT, .table = AUTOAUGMENT_IMAGENET };
    double want[IMAGE_OP_COUNT] = { 0 };
    int count[IMAGE_OP_COUNT] = { 0 }, negative = 0;
    for (int i = 0; i < AUTOAUGMENT_SUB_POLICIES; i++)
        for (int k = 0; k < 2; k++) {
            const SubPolicyStep *s = policy_sub_policy(AUTOAUGMENT_IMAGENET, i, k);
            want[s->kind] += (double)s->probability / AUTOAUGMENT_SUB_POLICIES;
        }
    for (int64_t id = 0; id < DRAWS; id++) {
        PolicyPlan r = drawn(&o, id);
        for (int k = 0; k < r.op_count; k++) {
            count[r.ops[k].kind]++;
            negative += r.ops[k].kind == IMAGE_ROTATE && r.ops[k].value < 0;
        }
    }
    for (int k = 0; k < IMAGE_OP_COUNT; k++) CHECK_NEAR((double)count[k] / DRAWS, want[k], 0.01);
    CHECK_NEAR(negative, count[IMAGE_ROTATE] / 2, 200);
}

TEST(augmix_weights_sum_to_one)
{
    enum { DRAWS = 5000 };
    const PolicyOptions o = { .policy = POLICY_AUGMIX, .severity = 3 };
    int depths[4] = { 0 }, ops = 0;
    double own = 0;
    for (int64_t id = 0; id < DRAWS; id++) {
        PolicyPlan r = drawn(&o, id);
        REQUIRE(r.op_count == 0 && r.chain_count == 3);
        double sum = (double)r.own_weight;
        own += sum / DRAWS;
        for (int i = 0; i < 3; i++) {
            sum += (double)r.chains[i].weight;
            REQUIRE(r.chains[i].count >= 1 && r.chains[i].count <= 3);
            depths[r.chains[i].count]++;
            ops += r.chains[i].count;
            for (int k = 0; k < r.chains[i].count; k++) {
                const ImageOp *op = &r.ops[r.chains[i].first + k];
                /* bins 0 to 2 of 30 degrees */
                if (op->kind == IMAGE_ROTATE) CHECK(fabs(op->value) < 6.7);
            }
        }
        CHECK_NEAR(sum, 1, 1e-6);
    }
    CHECK_NEAR(own, 0.5, 0.02);
    for (int d = 1; d <= 3; d++) CHECK_NEAR(depths[d], DRAWS, 220);
    CHECK_NEAR(ops, 6 * DRAWS, 400);
}

TEST(jitter_draws_factors_in_any_order)
{
    enum { DRAWS = 12000 };
    const PolicyOptions o = { .jitter = { 0.4, 0.5, 2.0, 0.1 } };
    static const ImageOpKind kinds[4] = { IMAGE_BRIGHTNESS, IMAGE_CONTRAST, IMAGE_COLOR,
                                          IMAGE_HUE };
    static const double low[4] = { 0.6, 0.5, 0, -0.1 }, high[4] = { 1.4, 1.5, 3, 0.1 };
    int place[4][4] = { { 0 } };
    double mean[4] = { 0 };
    for (int64_t id = 0; id < DRAWS; id++) {
        PolicyPlan r = drawn(&o, id);
        REQUIRE(r.op_count == 4);
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 4; k++) {
                if (r.ops[i].kind != kinds[k]) continue;
                place[k][i]++;
                mean[k] += r.ops[i].value / DRAWS;
                CHECK(r.ops[i].value >= low[k] && r.ops[i].value <= high[k]);
            }
    }
    for (int k = 0; k < 4; k++) {
        CHECK_NEAR(mean[k], (low[k] + high[k]) / 2, (high[k] - low[k]) / 80);
        for (int i = 0; i < 4; i++) CHECK_NEAR(place[k][i], DRAWS / 4, 200);
    }
    const PolicyOptions two = { .jitter = { 0, 0.4, 0, 0.2 } };
    CHECK_INT(drawn(&two, 1).op_count, 2);
}

TEST(erased_boxes_follow_their_distribution)
{
    enum { DRAWS = 30000, S = 224 };
    double area = 0, log_ratio = 0, squares = 0;
    int erased = 0, at_top = 0;
    for (int64_t id = 0; id < DRAWS; id++) {
        EraseBox b = policy_draw_erase(0.75, S, S, &(AugmentDraw){ .seed = 8, .sample = id });
        if (b.height == 0) continue;
        REQUIRE(b.top >= 0 && b.left >= 0 && b.width > 0 && b.top + b.height <= S &&
                b.left + b.width <= S);
        erased++;
        double r = log((double)b.height / b.width);
        area += (double)b.height * b.width / (S * S);
        log_ratio += r;
        squares += r * r;
        at_top += b.top == 0;
    }
    CHECK_NEAR((double)erased / DRAWS, 0.75, 0.01);
    /* References: means of 30,000 boxes of torchvision's RandomErasing.get_params on a 224 x 224
     * image. */
    CHECK_NEAR(area / erased, 0.1746, 0.003);
    CHECK_NEAR(log_ratio / erased, -0.0063, 0.02);
    CHECK_NEAR(squares / erased, 0.4752, 0.02);
    CHECK_NEAR((double)at_top / erased, 0.0104, 0.004);
    CHECK_INT(policy_draw_erase(0, S, S, &(AugmentDraw){ .seed = 1 }).height, 0);
    for (int id = 0; id < 500; id++) { /* as torchvision, no side is the image's */
        EraseBox b = policy_draw_erase(1, 4, 4, &(AugmentDraw){ .seed = 8, .sample = id });
        CHECK(b.width < 4 && b.height < 4);
    }
}

/* ---- mixup and cutmix ---- */

TEST(cutmix_boxes_leave_lambda)
{
    enum { DRAWS = 20000, S = 224 };
    const MixOptions o = { .cutmix = 1 };
    double mean = 0;
    for (int64_t step = 0; step < DRAWS; step++) {
        MixDraw m = mix_draw(&o, 3, step, 0, S, S);
        REQUIRE(m.box && m.left >= 0 && m.top >= 0 && m.right <= S && m.bottom <= S);
        REQUIRE(m.left <= m.right && m.top <= m.bottom);
        CHECK_NEAR(m.lambda, 1 - (double)((m.right - m.left) * (m.bottom - m.top)) / (S * S),
                   1e-12);
        mean += m.lambda / DRAWS;
    }
    /* Runs that go on with a later version draw as before. */
    CHECK_NEAR(mix_draw(&o, 3, 5, 32, S, S).lambda, 0.8920200892857143, 1e-12);
    CHECK_NEAR(mean, 0.6829, 0.006); /* reference: torchvision's draws; the border cuts boxes off */
}

TEST(a_share_of_the_batches_is_mixed_until_an_epoch)
{
    enum { DRAWS = 4000 };
    const MixOptions all = { .mixup = 0.2, .cutmix = 1 },
                     said = { .mixup = 0.2, .cutmix = 1, .prob = 1, .switch_prob = 0.5 },
                     part = { .mixup = 0.2, .cutmix = 1, .prob = 0.3, .switch_prob = 0.5 },
                     some = { .mixup = 0.2, .cutmix = 1, .switch_prob = 0.8 };
    int mixed = 0, boxes = 0;
    for (int64_t step = 0; step < DRAWS; step++) {
        const MixDraw a = mix_draw(&all, 3, step, 32, 224, 224),
                      b = mix_draw(&said, 3, step, 32, 224, 224),
                      c = mix_draw(&part, 3, step, 32, 224, 224);
        CHECK(a.lambda == b.lambda && a.box == b.box && a.top == b.top && a.right == b.right);
        /* those that are mixed are mixed as without */
        CHECK(c.lambda == 1 || (c.lambda == a.lambda && c.box == a.box && c.left == a.left));
        CHECK(c.lambda != 1 || (!c.box && c.right == 0));
        mixed += c.lambda != 1;
        boxes += mix_draw(&some, 3, step, 32, 224, 224).box;
    }
    CHECK_NEAR(mixed, 0.3 * DRAWS, 120); /* a box may lie outside */
    CHECK_NEAR(boxes, 0.8 * DRAWS, 100);
    const MixOptions ends = { .mixup = 1, .off_epoch = 2 };
    CHECK(!mix_is_over(&ends, 0 * 12 / 36) && !mix_is_over(&ends, 5 * 12 / 36));
    CHECK(mix_is_over(&ends, 6 * 12 / 36) && mix_is_over(&ends, 100 * 12 / 36));
    CHECK(!mix_is_over(&all, 1200 / 36));
    /* a step across the border has the epoch of its first image */
    CHECK(!mix_is_over(&ends, 6 * 10 / 32) && mix_is_over(&ends, 7 * 10 / 32));
}

TEST(both_mixings_take_turns)
{
    enum { DRAWS = 20000 };
    const MixOptions o = { .mixup = 0.2, .cutmix = 1 };
    int boxes = 0, ends = 0;
    double mean = 0;
    for (int64_t step = 0; step < DRAWS; step++) {
        MixDraw m = mix_draw(&o, 3, step, 32, 224, 224), same = mix_draw(&o, 3, step, 32, 224, 224);
        CHECK(m.lambda == same.lambda && m.box == same.box && m.left == same.left);
        boxes += m.box;
        if (m.box) continue;
        mean += m.lambda;
        ends += m.lambda < 0.1 || m.lambda > 0.9;
    }
    CHECK_NEAR(boxes, DRAWS / 2, 300);
    CHECK_NEAR(mean / (DRAWS - boxes), 0.5, 0.02);
    CHECK_NEAR((double)ends / (DRAWS - boxes), 0.6747, 0.02); /* reference: 40,000 draws of torch */
    MixDraw none = mix_draw(&(MixOptions){ 0 }, 3, 1, 0, 224, 224);
    CHECK(none.lambda == 1 && !none.box);
}
