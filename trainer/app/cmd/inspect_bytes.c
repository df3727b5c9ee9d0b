/* inspect_bytes.c - see inspect_bytes.h.
 *
 * The step is planned as a run would plan it on that GPU: fused where its cuDNN has engines, as
 * device.fuse=all takes them, because auto would have to measure. What follows the last gradient is
 * counted for one rank, which sums nothing. Times are a model, whose rates and shares of them only
 * a run on a GPU can put right. */
#include "trainer/app/cmd/inspect_bytes.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/ops/muon.h"
#include "kernels/ops/update.h"
#include "trainer/app/cmd/command_run.h"
#include "trainer/engine/plan/progressive.h"
#include "trainer/engine/rules/optimizer.h"
#include "trainer/engine/session/device_rates.h"
#include "trainer/engine/session/memory.h"
#include "trainer/engine/session/session_open.h"
#include <math.h>
#include <stdio.h>

/* ---- the model ---- */

/* What the best of kernels reach: of an H200 4.3 TB/s and 790 TFLOP/s in 16 bits. */
static const double best_bytes = 4.3 / 4.8, best_flops = 790 / 989.4;
/* Of that our own kernels, which wait for memory; products by a library where they do, and where
 * they compute. */
static const double own_bytes = 0.88, product_bytes = 0.80;
/* Of fp32's FLOP/s, in any precision: our attention's tiles lie in shared memory, and Muon's
 * matrices are small. */
static const double attention_flops = 0.3;
#define FORWARD 0.52
#define DATA    0.59
#define WEIGHTS 0.46
static const double product_flops[OP_COUNT] = { [OP_CONV2D] = FORWARD,
                                                [OP_CONV2D_STATS] = FORWARD,
                                                [OP_LINEAR] = FORWARD,
                                                [OP_ATTENTION] = FORWARD,
                                                [OP_ATTENTION_BWD] = DATA,
                                                [OP_CONV2D_BWD_DATA] = DATA,
                                                [OP_CONV2D_BWD_DATA_NORM] = DATA,
                                                [OP_LINEAR_BWD_DATA] = DATA,
                                                [OP_CONV2D_BWD_WEIGHTS] = WEIGHTS,
                                                [OP_CONV2D_BWD_WEIGHTS_NORM] = WEIGHTS,
                                                [OP_LINEAR_BWD_WEIGHTS] = WEIGHTS };

/* ---- the budget ---- */

typedef struct Row {
    int count;
    double bytes, flops, least_ms, expected_ms;
} Row;

typedef struct Budget {
    const Session *session;
    const DeviceRates *gpu;
    Row kinds[OP_COUNT], sum;
} Budget;

static void add(Row *to, const Row *r)
{
    to->count++;
    to->bytes += r->bytes;
    to->flops += r->flops;
    to->least_ms += r->least_ms;
    to->expected_ms += r->expected_ms;
}

/* least: at the rates that a GPU reaches at best; expected: at those of kernels of its kind. */
static void add_work(Budget *b, OpKind kind, bool product, double bytes, double flops)
{
    const double ms = 1e-9, by_bytes = ms * bytes / (b->gpu->bytes * best_bytes),
                 by_flops = ms * flops / (b->gpu->flops[b->session->device.precision] * best_flops);
    Row r = {
        .bytes = bytes, .flops = flops, .least_ms = by_bytes, .expected_ms = by_bytes / own_bytes
    };
    if (product) {
        ASSERT(product_flops[kind] > 0);
        r.least_ms = fmax(by_bytes, by_flops);
        r.expected_ms = fmax(by_bytes / product_bytes, by_flops / product_flops[kind]);
    } else if (kind == OP_ATTENTION || kind == OP_ATTENTION_BWD || kind == OP_MUON)
        r.expected_ms =
            fmax(r.expected_ms,
                 ms * flops / (b->gpu->flops[PRECISION_FP32] * best_flops * attention_flops));
    add(&b->kinds[kind], &r);
    add(&b->sum, &r);
}

static void add_nodes(Budget *b, const Program *p)
{
    const Graph *g = program_graph(p);
    for (int i = 0; i < graph_node_count(g); i++) {
        OpTraffic traffic;
        const double bytes = program_node_traffic(p, i, &traffic);
        add_work(b, graph_node(g, i)->kind, traffic.product, bytes, graph_node_flops(g, i));
    }
}

/* Of one tensor gradient and momentum, then in every step of the iteration the matrix three times;
 * its squares are small beside that, or stay on the chip. */
static void add_directions(Budget *b)
{
    const Executor *x = b->session->executor;
    for (int i = 0; i < executor_state_count(x); i++) {
        const TensorDesc *d = &executor_state(x, i)->desc;
        if (executor_state_trains(x, i) && muon_takes(d))
            add_work(b, OP_MUON, false, (6.0 + 3 * MUON_STEPS) * (double)tensor_plain_bytes(d),
                     op_flops(OP_MUON, NULL, &d, NULL));
    }
}

/* What goes over all parameters, or their gradients. */
static void add_update(Budget *b)
{
    const Config *c = b->session->config;
    const UpdateKind kind = (UpdateKind)c->optimizer.name;
    const MemoryReport m = memory_report(b->session);
    const double grads = (double)m.bytes[MEMORY_GRADS], copies = (double)m.bytes[MEMORY_COPIES],
                 averages = (double)m.bytes[MEMORY_AVERAGES];
    const int passes = optimizer_rule_passes(kind, update_states(kind, c->optimizer.momentum),
                                             update_traits(kind)->trust != TRUST_NONE);
    if (b->session->device.precision == PRECISION_FP16)
        add_work(b, OP_FINITE_CHECK, false, grads, 0);
    if (optimizer_needs_norm(c)) add_work(b, OP_GRAD_SQUARES, false, grads, 0);
    if (update_traits(kind)->orthogonal) add_directions(b);
    add_work(b, OP_UPDATE, false, passes * grads + copies, 0);
    if (averages > 0) add_work(b, OP_LERP, false, 3 * averages, 0);
}

/* ---- the table ---- */

/* What the table is about: MB and GFLOP of an image, or kB and MFLOP of a token. */
typedef struct Unit {
    const char *name, *bytes, *flops;
    double count, byte, flop; /* a byte and a FLOP in these units */
} Unit;

static Unit unit_of(const Session *s)
{
    const double batch = (double)s->plan.global_batch;
    return config_is_text(s->config)
               ? (Unit){ "tokens/s",  "kB/token",
                         "MFLOP/tok", batch * (double)s->config->data.tokens,
                         1e-3,        1e-6 }
               : (Unit){ "images/s", "MB/image", "GFLOP/img", batch, 1e-6, 1e-9 };
}

static void print_row(StrBuf *text, const char *name, const Row *r, const Unit *u)
{
    str_printf(text, "%-24s %6d %10.2f %10.3f %10.3f %10.3f\n", name, r->count,
               r->bytes / u->count * u->byte, r->flops / u->count * u->flop, r->least_ms,
               r->expected_ms);
}

static void print_head(const Session *s, const char *device, StrBuf *text)
{
    char fused[512] = "", kernels[512] = "", one[64];
    const BackendVTable *v = s->backend->v;
    const int64_t size = progressive_image_size(s->config, s->stage);
    if (v->fusion.describe) v->fusion.describe(s->backend, fused, sizeof fused);
    if (config_is_text(s->config))
        snprintf(one, sizeof one, "sequences of %lld tokens", (long long)s->config->data.tokens);
    else
        snprintf(one, sizeof one, "images of %lld x %lld pixels", (long long)size, (long long)size);
    str_printf(text, "%s in %s, %lld %s per step, on %s\n", s->config->model.name,
               precision_names[s->device.precision], (long long)s->plan.global_batch, one, device);
    str_printf(text, "fused (device.fuse): %s\n", fused[0] ? fused : "nothing");
    if (v->describe_kernels) v->describe_kernels(s->backend, kernels, sizeof kernels);
    if (kernels[0]) str_printf(text, "run by cuDNN: %s\n", kernels);
    str_printf(
        text,
        "an estimate, not a measurement, without kernel launches and gaps. least: at %.0f %% "
        "of the data sheet's memory rate or %.0f %% of its FLOP/s;\nexpected: Convoy's "
        "kernels at %.0f %% of that memory rate, products at %.0f %%, or of FLOP/s at %.0f "
        "%% forward, %.0f %% for data gradients, %.0f %% for weight gradients\n\n",
        100 * best_bytes, 100 * best_flops, 100 * own_bytes, 100 * product_bytes, 100 * FORWARD,
        100 * DATA, 100 * WEIGHTS);
}

static void print_table(const Budget *b, StrBuf *text)
{
    const Unit u = unit_of(b->session);
    str_printf(text, "%-24s %6s %10s %10s %10s %10s\n", "operation", "runs", u.bytes, u.flops,
               "least ms", "expect ms");
    for (int k = 0; k < OP_COUNT; k++)
        if (b->kinds[k].count) print_row(text, op_name((OpKind)k), &b->kinds[k], &u);
    print_row(text, "sum", &b->sum, &u);
    str_printf(text, "%-24s %6s %10s %10s %10.0f %10.0f\n", u.name, "", "", "",
               1e3 * u.count / b->sum.least_ms, 1e3 * u.count / b->sum.expected_ms);
}

static Status print_budget(const Session *s)
{
    Budget b = { .session = s };
    StrBuf text = { 0 };
    char device[256];
    s->backend->v->describe(s->backend, device, sizeof device);
    b.gpu = device_rates_find(device, s->device.precision);
    if (!b.gpu)
        return fail(ERR_DATA, "%s: the rates of this GPU in %s are unknown", device,
                    precision_names[s->device.precision]);
    add_nodes(&b, s->first);
    for (int64_t i = 1; i < s->plan.accumulate; i++) add_nodes(&b, s->more);
    add_update(&b);
    print_head(s, device, &text);
    print_table(&b, &text);
    return log_print_text(OK, &text);
}

static Status report_bytes(Comm *comm, Config *c, const Args *args)
{
    const char *gpu = args_value(args, "--gpu");
    uint8_t *properties FREED = NULL;
    size_t bytes = 0;
    if (comm->world > 1)
        return fail(ERR_USAGE, "--bytes describes one rank; start it without mpirun");
    if (c->optimizer.sam_rho > 0)
        return fail(ERR_USAGE, "--bytes counts one pass per step; leave optimizer.sam_rho out");
    if (c->train.accumulate.count > 1)
        return fail(ERR_USAGE, "--bytes describes one step; give train.accumulate one value");
    TRY(fs_read_limited(gpu, FS_TEXT_BYTES, &properties, &bytes));
    Config local = *c; /* shares its strings; only plain fields change */
    local.device.properties = (const char *)properties;
    Session session FREED_BY(session_close) = { 0 };
    Status status = session_open_plan(&session, &local, comm, SESSION_TRAIN);
    if (status == OK) status = print_budget(&session);
    return status == ERR_DATA ? fail_note(status, "%s", gpu) : status;
}

/* The network on images as it was published with; the last word on a key counts. */
Status inspect_bytes(const Args *args)
{
    const ModelDef *def = model_find(args->positional[0]);
    const char *size = args_value(args, "--image-size"), *classes = args_value(args, "--classes");
    char texts[4][96], published[16];
    const char *const first[] = {
        texts[0],
        texts[1],
        texts[2],
        texts[3],
        "data.format=synthetic",
        def->text ? "data.synthetic_images=100000" : "data.synthetic_images=100000000",
        def->text ? "train.batch_per_rank=32" : "train.batch_per_rank=256",
        "device.fuse=all",
        "data.mean=0", /* these two of images alone */
        "data.std=1"
    };
    const int own = sizeof first / sizeof first[0] - (def->text ? 2 : 0);
    Args with = *args;
    with.config = NULL;
    with.set_count = 0;
    if (args->set_count + own > ARGS_SET_MAX)
        return fail(ERR_USAGE, "--bytes allows at most %d keys", ARGS_SET_MAX - own);
    snprintf(published, sizeof published, "%d", def->input.size);
    snprintf(texts[0], sizeof texts[0], "model.name=%s", def->name);
    snprintf(texts[1], sizeof texts[1], "model.in_channels=%d",
             def->text ? 3 : def->input.channels);
    snprintf(texts[2], sizeof texts[2], "model.classes=%s",
             classes     ? classes
             : def->text ? "0"
                         : "1000");
    snprintf(texts[3], sizeof texts[3], "data.image_size=%s",
             size        ? size
             : def->text ? "224"
                         : published);
    for (int i = 0; i < own; i++) with.sets[with.set_count++] = first[i];
    for (int i = 0; i < args->set_count; i++) with.sets[with.set_count++] = args->sets[i];
    return command_run(&with, report_bytes);
}
