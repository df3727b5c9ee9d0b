/* memory.c - see memory.h. */
#include "trainer/memory.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/str.h"
#include "trainer/cmd.h"
#include "trainer/optim.h"
#include "trainer/run.h"

static const char *const item_names[MEMORY_ITEM_COUNT] = {
    [MEMORY_PARAMS] = "parameters",         [MEMORY_GRADS] = "gradients",
    [MEMORY_OPTIMIZER] = "optimizer state", [MEMORY_BUFFERS] = "running statistics",
    [MEMORY_ACTIVATIONS] = "activations",   [MEMORY_WORKSPACE] = "workspace",
    [MEMORY_SLOTS] = "batch slots",         [MEMORY_CHECKPOINT] = "checkpoint staging (rank 0)",
};

const char *memory_item_name(MemoryItem item)
{
    return item_names[item];
}

static size_t slot_bytes(const Session *s)
{
    const Config *c = s->config;
    LoaderOptions o = session_loader_options(s, DATA_VAL);
    size_t image = (size_t)(c->data.image_size * c->data.image_size * c->model.in_channels);
    size_t loader = (size_t)o.slots * (size_t)s->plan.batch * image;
    return loader * (size_t)((s->first != NULL) + (s->eval != NULL));
}

static size_t staging_bytes(const Session *s)
{
    size_t bytes = 0;
    for (int i = 0; i < executor_state_count(s->executor); i++) {
        size_t plain = tensor_plain_bytes(&executor_state(s->executor, i)->desc);
        bytes +=
            executor_state_is_param(s->executor, i) ? plain * (size_t)(1 + optimizer_states_needed(s->config)) : plain;
    }
    return bytes;
}

MemoryReport memory_report(const Session *s)
{
    MemoryReport r = { 0 };
    ExecutorMemory m;
    executor_memory(s->executor, &m);
    r.bytes[MEMORY_PARAMS] = m.params;
    r.bytes[MEMORY_GRADS] = m.grads;
    r.bytes[MEMORY_BUFFERS] = m.buffers;
    r.bytes[MEMORY_ACTIVATIONS] = m.activations;
    r.bytes[MEMORY_WORKSPACE] = m.workspace;
    r.bytes[MEMORY_SLOTS] = slot_bytes(s);
    if (s->first) {
        r.bytes[MEMORY_OPTIMIZER] = m.params * (size_t)optimizer_states_needed(s->config);
        r.bytes[MEMORY_CHECKPOINT] = s->comm->rank == 0 ? staging_bytes(s) : 0;
    }
    r.activations_naive = m.activations_naive;
    for (int i = 0; i < MEMORY_ITEM_COUNT; i++) r.total += r.bytes[i];
    return r;
}

/* ---- convoy inspect memory ---- */

static const char help[] =
    "usage: convoy inspect memory CONFIG [--set key=value]...\n"
    "\n"
    "Prints the memory that a rank of this training run will take, from the memory plan; trains nothing. Where "
    "data.train is\n"
    "not set or not there, synthetic data stands in for it (model.classes, or 1000 classes).\n"
    "\n"
    "  --set key=value     overrides a key of CONFIG; may be repeated (convoy inspect config lists them)\n";

static void print_report(const Session *s)
{
    StrBuf text = { 0 };
    MemoryReport r = memory_report(s);
    for (int i = 0; i < MEMORY_ITEM_COUNT; i++) str_printf(&text, "%-28s %15zu\n", memory_item_name(i), r.bytes[i]);
    str_printf(&text, "%-28s %15zu bytes, %.2f GiB per rank at %lld images a micro-batch\n", "total", r.total,
               (double)r.total / (1 << 30), (long long)s->plan.batch);
    str_printf(&text, "%-28s %15zu bytes if activations shared no memory\n", "",
               r.total - r.bytes[MEMORY_ACTIVATIONS] + r.activations_naive);
    log_print(text.text ? text.text : "");
    str_free(&text);
}

static Status report_memory(Comm *comm, const Config *c, const Args *args)
{
    Session session;
    (void)args;
    Config local = *c; /* shares its strings; only plain fields change */
    if (!c->data.train || !fs_is_dir(c->data.train)) local.data.format = CONFIG_FORMAT_SYNTHETIC;
    Status status = session_open(&session, &local, comm, SESSION_TRAIN);
    if (status == OK) print_report(&session);
    session_close(&session);
    return status;
}

Status inspect_memory(int argc, char **argv)
{
    Args args;
    TRY(args_parse(&args, argc, argv, help));
    return args.help ? OK : run_with_config(&args, report_memory);
}
