/* cuda_sweep.c - are there cuDNN engines for everything that the networks ask for? Needs cuDNN, no
 * GPU.
 *
 *   cuda_sweep [--gpu=LIST] [--precision=LIST] [--model=LIST] [--batch=LIST] [--fuse=none,all]
 *   [--workspace=MB]
 *              [--norms=offered|compiled] [--attention=offered|compiled] [--all] [--verbose]
 *
 * Prepares training (also with accumulating gradients) and evaluation of every network, at the
 * image size it was published with, on described devices (configs/gpus), which chooses and
 * finalises the plan of every convolution within the limit of workspace. With --all every other
 * engine that cuDNN offers for it is finalised, saved and loaded too; those that are compiled at
 * that moment, a second or more each, need something that answers for the driver
 * (tests/driver_shim).
 *
 * In fp16 networks are prepared without and with all fusions (device.fuse). Where there is no
 * engine for a fused convolution, its parts stay apart; but on sm_90 only what is known to have
 * none may: statistics behind the 7x7 window of the stem, ends of blocks before another window than
 * 1x1, their gradients behind a stride, and convolutions in groups.
 *
 * Convolutions with one filter for each channel, which our own kernels can do too, are cuDNN's here
 * (device.depthwise).
 *
 * With --norms training batch norms are cuDNN's (device.batchnorm=cudnn), and every one that may be
 * must be. All their engines are compiled when a plan is made, so they need tests/driver_shim too:
 * with --norms=offered it is enough that there is an engine; with --norms=compiled the chosen one
 * is compiled, and then loaded from what the cache would keep, seconds for each shape. With
 * --attention the same of attention (device.attention=cudnn), in 16 bits; networks of text, with
 * sequences of 512 tokens, in training on Hopper only. --all is for convolutions only.
 *
 * One program prepared is one test. The last line is "N passed, N failed, N skipped". Without cuDNN
 * it says so and tests nothing. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/cuda/cudnn/cudnn_context.h"
#include "kernels/cuda/cudnn/cudnn_plan.h"
#include "models/models.h"
#include "trainer/engine/exec/executor.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ENGINES = 128 };

typedef struct Sweep {
    /* lists, separated by commas; models may end in a star */
    const char *gpus, *precisions, *models, *batches;
    const char *fuse;              /* list of modes, in fp16 */
    const char *workspace;         /* limit in MB; NULL: the backend's own */
    const char *norms, *attention; /* NULL: our own */
    bool all, verbose;
    int passed, failed;
} Sweep;

/* Copies item number i of a list; false behind the end. */
static bool item_of(const char *list, int i, char *out, size_t bytes)
{
    for (; i > 0 && list; i--) list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL;
    if (!list) return false;
    snprintf(out, bytes, "%.*s", (int)strcspn(list, ","), list);
    return true;
}

/* No more images than take the pixels of 256 at 224 x 224: larger networks have smaller batches. */
static int64_t fitting_batch(const ModelDef *def, int64_t wanted)
{
    if (def->text) return wanted < 64 ? wanted : 64;
    const int64_t size = def->input.size, most = 256 * 224 * 224 / (size * size) / 8 * 8;
    return wanted < most ? wanted : most;
}

/* ---- fusions ---- */

static const char *const fuse_names[FUSE_MODE_COUNT] = { [FUSE_NONE] = "none", [FUSE_ALL] = "all" };

static bool may_be_refused(const CudaBackend *b, const Fusion *f)
{
    const OpShape *conv = &f->after[0];
    if (b->compute != DTYPE_F16 || b->options.fuse != FUSE_ALL || b->compute_capability < 90)
        return true;
    const Conv2dAttr *attr = conv->attr;
    if (attr->groups > 1) return true;
    if (conv->kind == OP_CONV2D_BWD_DATA_NORM)
        return conv->in[CONV_BWD_DATA_NORM_IN_RESIDUAL].rank && attr->stride_h > 1;
    if (conv->kind != OP_CONV2D_STATS) return false;
    const int64_t kernel_size = conv->in[CONV_STATS_IN_W].dims[2];
    return conv->in[CONV_STATS_IN_RESIDUAL].rank ? kernel_size > 1 : kernel_size > 3;
}

/* The backend's answer. */
typedef struct Asked {
    CudaBackend *b;
    int failed;
} Asked;

static bool ask_backend(void *cookie, const Fusion *f)
{
    Asked *a = cookie;
    const bool taken = a->b->base.v->fusion.takes(a->b, f);
    if (taken || may_be_refused(a->b, f)) return taken;
    a->failed++;
    printf("FAIL fusion %s is refused: %s\n", f->name, status_message());
    return false;
}

/* ---- what our own kernels could do too ---- */

/* As the cache would give them to the next start. */
static Status load_again(const CudnnContext *c)
{
    for (const CudnnPlan *p = c->plans; p; p = p->next) {
        CudnnPlan copy = { .key = p->key };
        const bool norm = str_starts_with(p->key, "norm "),
                   attention = str_starts_with(p->key, "attention ");
        if (!(norm || attention) || !p->plan) continue;
        TRY(cudnn_api_read_text(&c->api, p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                &copy.json, "plan"));
        const Status st = cudnn_plan_load(c, &copy);
        if (st == OK) cudnn_api_free(&c->api, copy.plan);
        mem_free(copy.json);
        if (st != OK) return fail_note(st, "%s", p->key);
    }
    return OK;
}

/* cuDNN must have engines for all shapes of which it was asked, and the plans of batch norms and of
 * attention must load. */
static void check_kernels(Sweep *s, Backend *b, const char *what)
{
    const CudnnContext *c = ((CudaBackend *)b)->cudnn;
    char says[512];
    b->v->describe_kernels(b, says, sizeof says);
    const bool asked = s->norms || s->attention;
    if (!asked && !says[0]) return;
    const double start = clock_s();
    const Status st = asked ? load_again(c) : OK;
    const bool taken = says[0] && !strstr(says, "without") && st == OK;
    s->passed += taken;
    s->failed += !taken;
    printf("%s%s by cuDNN: %s", taken ? "  " : "FAIL ", what, says[0] ? says : "none");
    if (st != OK) printf("; %s", status_message());
    else if (asked && !c->uncompiled) printf("; loaded again in %.2f s", clock_s() - start);
    printf("\n");
}

/* ---- programs ---- */

typedef enum ProgramKind { TRAINING, ACCUMULATING, EVALUATION, PROGRAM_KINDS } ProgramKind;

/* Full sequences of 512 tokens, of which a sixth is masked. */
static GraphOptions text_options(int64_t batch)
{
    enum { TOKENS = 512, WORDS = 50265 };
    return (GraphOptions){ .batch = batch,
                           .tokens = TOKENS,
                           .classes = WORDS,
                           .words = WORDS,
                           .masked = batch * TOKENS / 6 };
}

static GraphOptions image_options(const ModelDef *def, int64_t batch)
{
    const int64_t size = def->input.size;
    return (GraphOptions){ .batch = batch,
                           .channels = def->input.channels,
                           .height = size,
                           .width = size,
                           .classes = size <= 32 ? 10 : 1000,
                           .std = { 1, 1, 1 } };
}

static Status add_program(Executor *x, Backend *b, const ModelDef *def, int64_t batch,
                          Precision precision, ProgramKind kind)
{
    const bool training = kind != EVALUATION;
    Asked asked = { .b = (CudaBackend *)b };
    const FuseOptions fuse = { .add_into_batchnorm_bwd = b->v->fusion.add_into_batchnorm_bwd,
                               .takes = ask_backend,
                               .cookie = &asked };
    ModelOptions o = { .graph = def->text ? text_options(batch) : image_options(def, batch),
                       .width = 1,
                       .attention_dropout = -1 };
    o.graph.training = training;
    o.graph.loss_scale = training && precision == PRECISION_FP16;
    Graph *g = NULL;
    Program *ignored = NULL;
    TRY(model_build(&g, def, &o));
    Status st = training ? graph_fuse(g, &fuse) : OK;
    if (st == OK && asked.failed)
        st = fail(ERR_HEALTH, "%d fusions are refused that have engines", asked.failed);
    if (st == OK) return executor_add(x, g, kind == ACCUMULATING, &ignored);
    graph_destroy(g);
    return st;
}

static void sweep_model(Sweep *s, Backend *b, const char *gpu, Precision precision,
                        const ModelDef *def, int64_t batch)
{
    static const char *const kinds[PROGRAM_KINDS] = { "training", "accumulating training",
                                                      "evaluation" };
    Executor *x = NULL;
    Status st = executor_create(&x, b);
    /* gradients of packed sequences have reproducible engines on Hopper only */
    const bool forward_only =
        def->text && s->attention && ((CudaBackend *)b)->compute_capability / 10 != 9;
    for (int kind = forward_only ? EVALUATION : TRAINING; kind < PROGRAM_KINDS; kind++) {
        if (st == OK) st = add_program(x, b, def, batch, precision, (ProgramKind)kind);
        if (st == OK) {
            s->passed++;
            continue;
        }
        s->failed++;
        printf("FAIL %s %s %s batch %lld, %s: %s\n", gpu, precision_names[precision], def->name,
               (long long)batch, kinds[kind], status_message());
        break;
    }
    executor_destroy(x);
}

/* ---- what was chosen ---- */

static void print_plan(const CudnnPlan *p)
{
    printf("  %-120s engine %3d %9.1f MB\n", p->key, p->engine, (double)p->workspace / (1 << 20));
}

static void print_choices(const Sweep *s, const char *what, const CudnnContext *c, double seconds)
{
    int engines[MAX_ENGINES] = { 0 }, plans = 0;
    const CudnnPlan *most = c->plans;
    for (const CudnnPlan *p = c->plans; p; p = p->next) {
        plans++;
        if (p->engine >= 0 && p->engine < MAX_ENGINES) engines[p->engine]++;
        if (p->workspace > most->workspace) most = p;
        if (s->verbose) print_plan(p);
    }
    printf("%s: %d operations in %.1f s; engine:operations", what, plans, seconds);
    for (int i = 0; i < MAX_ENGINES; i++)
        if (engines[i]) printf(" %d:%d", i, engines[i]);
    if (c->exhaustive)
        printf("; of all offered, %d finalised and %d refused", c->finalised, c->refused);
    printf("\n");
    if (!most) return;
    printf("  most workspace:\n");
    print_plan(most);
    fflush(stdout);
}

/* ---- the loops ---- */

static void sweep_batches(Sweep *s, Backend *b, const char *gpu, Precision precision,
                          const ModelDef *def)
{
    char batch[32];
    int64_t images = 0;
    for (int k = 0; item_of(s->batches, k, batch, sizeof batch); k++) {
        if (str_to_i64(batch, &images) && images > 0) {
            sweep_model(s, b, gpu, precision, def, fitting_batch(def, images));
        } else {
            s->failed++;
            printf("FAIL no such batch: %s\n", batch);
        }
    }
}

/* Whether pattern is the name, or its beginning and a star. */
static bool matches(const char *pattern, const char *name)
{
    const size_t length = strcspn(pattern, "*");
    if (!pattern[length]) return strcmp(pattern, name) == 0;
    return !pattern[length + 1] && strncmp(pattern, name, length) == 0;
}

static void sweep_models(Sweep *s, Backend *b, const char *gpu, Precision precision)
{
    char pattern[32];
    for (int i = 0; item_of(s->models, i, pattern, sizeof pattern); i++) {
        bool any = false;
        for (int k = 0; k < model_count(); k++) {
            if (!matches(pattern, model_at(k)->name)) continue;
            sweep_batches(s, b, gpu, precision, model_at(k));
            any = true;
        }
        if (any) continue;
        s->failed++;
        printf("FAIL no such network: %s\n", pattern);
    }
}

static bool is_offered(const char *how)
{
    return how && strcmp(how, "offered") == 0;
}

static void sweep_precision(Sweep *s, const char *gpu, const char *properties, Precision precision,
                            FuseMode fuse)
{
    char what[64], fusions[512];
    Backend *b = NULL;
    const double start = clock_s();
    int64_t limit_mb = 0;
    if (s->workspace && !str_to_i64(s->workspace, &limit_mb)) limit_mb = 0;
    const CudaOptions o = { .precision = precision,
                            .fuse = fuse,
                            .batchnorm = s->norms ? KERNELS_CUDNN : KERNELS_OWN,
                            .depthwise = KERNELS_CUDNN,
                            .attention = s->attention ? KERNELS_CUDNN : KERNELS_OWN,
                            .properties = properties,
                            .workspace_limit = (size_t)limit_mb << 20 };
    snprintf(what, sizeof what, "%s %s%s", gpu, precision_names[precision],
             fuse == FUSE_ALL ? " fused" : "");
    if (backend_cuda_create(&b, &o) != OK) {
        s->failed++;
        printf("FAIL %s: %s\n", what, status_message());
        return;
    }
    CudnnContext *c = ((CudaBackend *)b)->cudnn;
    c->exhaustive = s->all;
    c->uncompiled = is_offered(s->norms) || is_offered(s->attention);
    sweep_models(s, b, gpu, precision);
    print_choices(s, what, c, clock_s() - start);
    b->v->fusion.describe(b, fusions, sizeof fusions);
    if (fusions[0]) printf("  fused: %s\n", fusions);
    check_kernels(s, b, what);
    backend_destroy(b);
}

static void sweep_fusions(Sweep *s, const char *gpu, const char *properties, Precision precision)
{
    char name[16];
    for (int i = 0; item_of(s->fuse, i, name, sizeof name); i++) {
        int mode = FUSE_NONE;
        while (mode < FUSE_MODE_COUNT && strcmp(fuse_names[mode], name) != 0) mode++;
        if (mode < FUSE_MODE_COUNT) {
            sweep_precision(s, gpu, properties, precision, (FuseMode)mode);
        } else {
            s->failed++;
            printf("FAIL no such mode of fusion: %s\n", name);
        }
    }
}

static void sweep_gpu(Sweep *s, const char *gpu)
{
    char path[64], name[16];
    uint8_t *properties = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "configs/gpus/%s.json", gpu);
    if (fs_read_file(path, &properties, &bytes) != OK) {
        s->failed++;
        printf("FAIL %s: %s\n", gpu, status_message());
        return;
    }
    for (int i = 0; item_of(s->precisions, i, name, sizeof name); i++) {
        int precision = 0;
        while (precision < PRECISION_COUNT && strcmp(precision_names[precision], name) != 0)
            precision++;
        if (precision == PRECISION_FP16) {
            sweep_fusions(s, gpu, (char *)properties, (Precision)precision);
        } else if (precision < PRECISION_COUNT) {
            sweep_precision(s, gpu, (char *)properties, (Precision)precision, FUSE_NONE);
        } else {
            s->failed++;
            printf("FAIL no such precision: %s\n", name);
        }
    }
    mem_free(properties);
}

static bool parse(Sweep *s, int argc, char **argv)
{
    const struct {
        const char *name;
        const char **value;
    } lists[] = { { "--gpu=", &s->gpus },     { "--precision=", &s->precisions },
                  { "--model=", &s->models }, { "--batch=", &s->batches },
                  { "--fuse=", &s->fuse },    { "--workspace=", &s->workspace },
                  { "--norms=", &s->norms },  { "--attention=", &s->attention } };
    for (int i = 1; i < argc; i++) {
        const bool all = strcmp(argv[i], "--all") == 0, verbose = strcmp(argv[i], "--verbose") == 0;
        bool known = all || verbose;
        s->all = s->all || all;
        s->verbose = s->verbose || verbose;
        for (size_t k = 0; k < sizeof lists / sizeof lists[0] && !known; k++) {
            known = str_starts_with(argv[i], lists[k].name);
            if (known) *lists[k].value = argv[i] + strlen(lists[k].name);
        }
        if (!known) {
            printf(
                "usage: cuda_sweep [--gpu=LIST] [--precision=LIST] [--model=LIST] [--batch=LIST] "
                "[--fuse=none,all] [--workspace=MB] [--norms=offered|compiled] "
                "[--attention=offered|compiled] [--all] [--verbose]\n");
            return false;
        }
    }
    const char *const how[] = { s->norms, s->attention };
    for (int i = 0; i < 2; i++) {
        if (!how[i]) continue;
        if (!is_offered(how[i]) && strcmp(how[i], "compiled") != 0) {
            printf("--norms and --attention are offered or compiled\n");
            return false;
        }
        if (s->all) {
            printf("--all makes all engines of convolutions; of batch norms and attention each "
                   "takes seconds: leave --norms and --attention out\n");
            return false;
        }
    }
    return true;
}

/* cuDNN will look for the driver by name and find this one, loaded already. */
static bool load_driver_shim(void)
{
    if (dlopen(CONVOY_DRIVER_SHIM, RTLD_NOW | RTLD_GLOBAL)) return true;
    printf("FAIL %s\n", dlerror());
    return false;
}

int main(int argc, char **argv)
{
    char gpu[32], version[256];
    Sweep s = { .gpus = "h200,h100,a100",
                .precisions = "fp32,tf32,bf16,fp16",
                .models = "*",
                .batches = "1,64,256",
                .fuse = "none,all" };
    if (!parse(&s, argc, argv)) return 64;
    if ((s.all || s.norms || s.attention) && !load_driver_shim()) return 1;
    if (!cudnn_context_version(version, sizeof version)) {
        printf("skip sweep: %s\n0 passed, 0 failed, 1 skipped\n", version);
        return 0;
    }
    const double start = clock_s();
    printf("%s\n", version);
    if (s.verbose) log_open(NULL, 0, LOG_DEBUG);
    for (int i = 0; item_of(s.gpus, i, gpu, sizeof gpu); i++) sweep_gpu(&s, gpu);
    printf("%.0f s\n%d passed, %d failed, 0 skipped\n", clock_s() - start, s.passed, s.failed);
    return s.failed ? 1 : 0;
}
