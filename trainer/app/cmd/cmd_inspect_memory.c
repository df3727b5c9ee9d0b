/* cmd_inspect_memory.c - convoy inspect memory CONFIG [--gpu FILE]: the bytes of a run before
 * anything runs. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/app/cmd/command_run.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/cmd/unread.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/session/memory.h"
#include "trainer/engine/session/session_open.h"

#define GIB (1 << 30)

static const ArgRow rows[] = {
    ARG_ROW_CONFIG,
    { "--gpu", "FILE",
      .help = "plan for the GPU that this file describes, such as configs/gpus/h200.json",
      .flags = ARG_READS },
    ARG_ROW_VERBOSE,
    ARG_ROW_SET,
    ARG_ROW_END,
};

static void add_report(const Session *s, StrBuf *text)
{
    MemoryReport r = memory_report(s);
    for (int i = 0; i < MEMORY_ITEM_COUNT; i++) {
        bool only_where_any =
            i == MEMORY_COPIES || i == MEMORY_AVERAGES || i == MEMORY_SIDE_WORKSPACE ||
            i == MEMORY_INPUTS || i == MEMORY_ALLREDUCE || i == MEMORY_HOST_REDUCE ||
            i == MEMORY_READ_AHEAD || i == MEMORY_SHARPNESS || i == MEMORY_TEACHER;
        if (only_where_any && r.bytes[i] == 0) continue;
        str_printf(text, "%-28s %15zu\n", memory_item_name(i), r.bytes[i]);
    }
    str_printf(text, "%-28s %15zu bytes, %.2f GiB per rank at %lld %s per micro-batch\n", "total",
               r.total, (double)r.total / GIB, (long long)s->plan.batch, units_of(s->config)->many);
    str_printf(text, "%-28s %15zu bytes if activations shared no memory\n", "",
               r.total - r.bytes[MEMORY_ACTIVATIONS] + r.activations_naive);
    if (s->backend->v->device) {
        str_printf(text, "%-28s %15zu bytes, %.2f GiB, the rest is host memory\n", "on the device",
                   r.device, (double)r.device / GIB);
    }
}

static Status add_device(Session *s, StrBuf *text)
{
    char device[256];
    int64_t largest = 0;
    size_t budget = memory_budget(s);
    if (budget == 0) return OK;
    s->backend->v->describe(s->backend, device, sizeof device);
    TRY(memory_largest_batch(s, budget, &largest));
    str_printf(text, "%-28s %s\n%-28s %s\n", "device", device, "chosen", s->device.reason);
    str_printf(text, "%-28s %15zu bytes, %.2f GiB", "available", budget, (double)budget / GIB);
    if (s->backend->v->device)
        str_printf(text, ", in addition to %.2f GiB for CUDA and its libraries\n",
                   (double)MEMORY_RESERVE / GIB);
    else str_add(text, " of this host's memory\n");
    str_printf(text, "%-28s %15lld %s per micro-batch\n", "largest batch per rank",
               (long long)largest, units_of(s->config)->many);
    return OK;
}

static Status print_report(Session *s)
{
    StrBuf text = { 0 };
    add_report(s, &text);
    Status status = add_device(s, &text);
    status = log_print_text(status, &text);
    return status == OK ? memory_check(s, OK) : status;
}

static Status report_memory(Comm *comm, Config *c, const Args *args)
{
    const char *gpu = args_value(args, "--gpu");
    uint8_t *properties FREED = NULL;
    size_t bytes = 0;
    Config local = *c; /* shares its strings; only plain fields change */
    Session session FREED_BY(session_close) = { 0 };
    if (!c->data.train || !fs_is_dir(c->data.train)) command_run_generate_images(&local);
    if (gpu) TRY(comm_agree(comm, fs_read_limited(gpu, FS_TEXT_BYTES, &properties, &bytes)));
    local.device.properties = (const char *)properties;
    Status status = session_open_plan(&session, &local, comm, SESSION_TRAIN);
    if (status == OK) status = print_report(&session);
    return gpu && status == ERR_DATA ? fail_note(status, "%s", gpu) : status;
}

const Command cmd_inspect_memory = {
    .name = "inspect memory",
    .summary = "list the memory that a run will take",
    .about =
        "Prints the memory that a rank of this training run will take, from the memory plan, and "
        "the largest batch that fits; trains nothing. If data.train does not exist, "
        "generated images replace it (model.classes, or 1000 classes). Exit code 70 if the "
        "config's own batch does not fit.",
    .args = rows,
    .by_ranks = report_memory,
    .ignores = UNREAD_BUT_IN_RUNS,
};
