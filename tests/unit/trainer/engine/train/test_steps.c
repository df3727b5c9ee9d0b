/* test_steps.c - what the rules themselves add to the list of a step: every order that a timeline
 * makes of it is proved from what it says of its memory, and it says all of it. */
#include "base/mem.h"
#include "kernels/ops/update.h"
#include "tests/test.h"
#include "tests/tools/network.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/rules/averages.h"
#include "trainer/engine/rules/optimizer.h"
#include "trainer/engine/rules/sharpness.h"
#include <stdio.h>
#include <string.h>

typedef struct Rules {
    Network net;
    Config *config;
    Bucket *buckets;
    int bucket_count;
    Optimizer *optimizer;
    Averages *averages;
    Sharpness *sharpness;
} Rules;

static void open_rules(Rules *r, const char *const *sets, int count, bool loss_scale)
{
    const TrainPlan plan = { .total_steps = 100 };
    ModelOptions o = network_narrow(2, 16);
    o.graph.loss_scale = loss_scale;
    *r = (Rules){ 0 };
    REQUIRE_OK(network_open(&r->net, NETWORK_CPU, "resnet20", &o));
    REQUIRE_OK(config_load(&r->config, NULL, sets, count));
    Executor *x = r->net.executor;
    const Program *p = r->net.program;
    const size_t piece = executor_slab_bytes(x, SLAB_GRAD) / 4;
    REQUIRE_OK(plan_buckets(program_plan(p), program_graph(p), piece, piece, &r->buckets,
                            &r->bucket_count));
    REQUIRE_OK(
        optimizer_create(&r->optimizer, x, r->net.backend, r->config, r->buckets, r->bucket_count));
    if (sharpness_wanted(r->config))
        REQUIRE_OK(sharpness_create(&r->sharpness, x, r->config, optimizer_squares(r->optimizer)));
    REQUIRE_OK(averages_create(&r->averages, x, r->config, &plan));
}

static void close_rules(Rules *r)
{
    averages_destroy(r->averages);
    sharpness_destroy(r->sharpness);
    optimizer_destroy(r->optimizer);
    CHECK_INT(executor_step_count(r->net.executor), 0);
    mem_free(r->buckets);
    config_destroy(r->config);
    network_close(&r->net);
}

/* ---- what is found out of an operation's memory ---- */

static bool uses(const StepOp *op, Slab slab, size_t offset, size_t bytes, StepMode mode)
{
    for (int k = 0; k < step_use_count(op); k++) {
        const StepUse *u = &op->use[k];
        if (u->slab == slab && u->offset == offset && u->bytes == bytes && u->mode == mode)
            return true;
    }
    return false;
}

/* Of a bucket, gradients and for an update parameters and states of its range, and nothing else of
 * the slabs; of a direction the gradient of one tensor; a copy or a move of running statistics, all
 * of them. */
static void check_uses(const Rules *r, const StepOp *op)
{
    const Bucket *b = &r->buckets[op->bucket];
    const StepMode params = strcmp(op->name, "update") == 0 ? STEP_UPDATES : STEP_READS;
    int in_slabs = 0;
    for (int k = 0; k < step_use_count(op); k++) in_slabs += op->use[k].slab != SLAB_EXTERNAL;
    CHECK(step_traffic(op) > 0);
    if (!step_of_bucket(op)) return;
    if (strcmp(op->name, "direction") == 0) {
        CHECK(op->offset >= b->offset && op->offset + op->bytes <= b->offset + b->bytes);
        CHECK(uses(op, SLAB_GRAD, op->offset, op->bytes, STEP_UPDATES));
        CHECK(uses(op, SLAB_EXTERNAL, (uintptr_t)op->op->workspace, op->op->workspace_bytes,
                   STEP_UPDATES));
        CHECK_INT(in_slabs, 1);
        return;
    }
    CHECK(uses(op, SLAB_GRAD, b->offset, b->bytes, STEP_READS));
    CHECK_INT(in_slabs, op->when == STEP_UPDATE ? 2 : 1);
    if (op->when == STEP_UPDATE) CHECK(uses(op, SLAB_PARAM, b->offset, b->bytes, params));
}

/* ---- proofs ---- */

static void check_order(const Rules *r, TimelineReduce reduce, TimelineRun run, bool statistics)
{
    const Executor *x = r->net.executor;
    const Program *p = r->net.program;
    const TimelineOptions o = { .events = true,
                                .step = run,
                                .reduce = reduce,
                                .statistics = statistics,
                                .ops = executor_step(x, 0),
                                .op_count = executor_step_count(x),
                                .buckets = r->buckets,
                                .bucket_count = r->bucket_count };
    Timeline *t = NULL;
    REQUIRE_OK(timeline_create(&t, program_graph(p), program_plan(p), &o));
    CHECK_OK(timeline_check(t, program_graph(p), program_plan(p)));
    timeline_destroy(t);
}

static void check_rules(const char *const *sets, int count, bool loss_scale)
{
    Rules r;
    open_rules(&r, sets, count, loss_scale);
    const TimelineRun last = r.sharpness ? TIMELINE_SECOND_PASS : TIMELINE_STEP;
    CHECK(r.bucket_count >= 3);
    for (int i = 0; i < executor_step_count(r.net.executor); i++)
        check_uses(&r, executor_step(r.net.executor, i));
    for (int reduce = TIMELINE_REDUCE_NONE; reduce <= TIMELINE_REDUCE_DEVICE; reduce++)
        for (int run = TIMELINE_STEP; run <= (int)last; run++)
            for (int statistics = 0; statistics <= (reduce != TIMELINE_REDUCE_NONE); statistics++)
                check_order(&r, (TimelineReduce)reduce, (TimelineRun)run, statistics);
    close_rules(&r);
}

TEST(steps_of_all_rules_are_proved)
{
    static const char *const plain[] = { "optimizer.name=sgd" };
    static const char *const lars[] = { "optimizer.name=lars", "optimizer.clip_norm=1",
                                        "optimizer.lookahead=timm" };
    static const char *const lamb[] = { "optimizer.name=lamb", "ema.decay=0.9",
                                        "optimizer.sam_rho=0.05", "optimizer.lookahead=airbench" };
    static const char *const adamw[] = { "optimizer.name=adamw", "log.grad_norm=true",
                                         "ema.decay=0.9", "optimizer.sam_rho=0.05" };
    static const char *const muon[] = { "optimizer.name=muon", "optimizer.clip_norm=1",
                                        "ema.decay=0.9", "optimizer.sam_rho=0.05" };
    for (int scale = 0; scale < 2; scale++) {
        check_rules(plain, 1, scale);
        check_rules(muon, 4, scale);
        check_rules(lars, 3, scale);
        check_rules(lamb, 4, scale);
        check_rules(adamw, 4, scale);
    }
}

/* What convoy inspect model --bytes says of updates, before there is a list, is what the list moves
 * in the end; tables and scalars are a few bytes beside. */
TEST(updates_move_what_their_rule_says)
{
    for (int k = 0; k < UPDATE_KIND_COUNT; k++) {
        char name[64];
        const char *const sets[] = { name, "optimizer.always_adapt=true" };
        const bool timm = k == UPDATE_LARS || k == UPDATE_LAMB;
        Rules r;
        double moved = 0;
        snprintf(name, sizeof name, "optimizer.name=%s", update_kind_names[k]);
        open_rules(&r, sets, timm ? 2 : 1, false);
        const Executor *x = r.net.executor;
        for (int i = 0; i < executor_step_count(x); i++) {
            const StepOp *op = executor_step(x, i);
            if (op->op && (op->op->kind == OP_UPDATE || op->op->kind == OP_TRUST_RATIO))
                moved += step_traffic(op);
        }
        const UpdateKind kind = (UpdateKind)k;
        const int passes =
            optimizer_rule_passes(kind, update_states(kind, r.config->optimizer.momentum),
                                  update_traits(kind)->trust != TRUST_NONE);
        const double grads = (double)executor_slab_bytes(x, SLAB_GRAD);
        CHECK_NEAR(moved / (passes * grads), 1, 0.02);
        close_rules(&r);
    }
}

/* A rule that says too little of itself is found out: one that asks for the norm before it is
 * there, and one that changes parameters while backward reads them. */
TEST(steps_with_a_wrong_turn_are_noticed)
{
    static const char *const sets[] = { "optimizer.name=sgd", "optimizer.clip_norm=1" };
    Rules r;
    open_rules(&r, sets, 2, false);
    Executor *x = r.net.executor;
    const Program *p = r.net.program;
    const StepWhen turns[] = { STEP_END, STEP_FORWARD };
    for (int fault = 0; fault < 2; fault++) {
        StepOp ops[64];
        const int count = executor_step_count(x);
        REQUIRE(count <= 64);
        memcpy(ops, executor_step(x, 0), (size_t)count * sizeof *ops);
        for (int i = 0; i < count; i++) {
            if (strcmp(ops[i].name, fault == 0 ? "norm" : "update") != 0) continue;
            ops[i].when = turns[fault];
            ops[i].bucket = 0;
        }
        const TimelineOptions o = { .events = true,
                                    .step = TIMELINE_STEP,
                                    .ops = ops,
                                    .op_count = count,
                                    .buckets = r.buckets,
                                    .bucket_count = r.bucket_count };
        Timeline *t = NULL;
        REQUIRE_OK(timeline_create(&t, program_graph(p), program_plan(p), &o));
        CHECK_STATUS(timeline_check(t, program_graph(p), program_plan(p)), ERR_INTERNAL);
        CHECK(strstr(status_message(), fault == 0 ? "norm" : "update") != NULL);
        timeline_destroy(t);
    }
    close_rules(&r);
}
