/* cmd_inspect_config.c - convoy inspect config: every key, or what a config file will do: its
 * steps, its learning rates and the memory of a rank, before anything runs. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/app/cmd/command_run.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/engine/config/units.h"
#include "trainer/engine/plan/progressive.h"
#include "trainer/engine/plan/schedule.h"
#include "trainer/engine/plan/train_plan.h"
#include "trainer/engine/rules/param_rules.h"
#include "trainer/engine/session/memory.h"
#include "trainer/engine/session/session_open.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define GIB        ((double)(1 << 30))
#define IMAGES_MAX 1000000000000 /* so that steps can be counted, whatever train.epochs is */

static const ArgRow rows[] = {
    { "CONFIG|RUN", .help = "a config file, or the folder of a run",
      .flags = ARG_CONFIG | ARG_OPTIONAL },
    { "--epochs", "LIST",
      .help =
          "print instead the steps at which these epochs begin, such as 0,2.5,5; 0 is the first" },
    { "--ranks", "N", .help = "plan for N ranks without starting them", .min = 1, .max = 1 << 20 },
    { "--images", "N",
      .help = "plan for a training set of N images or sequences without opening it", .min = 1,
      .max = IMAGES_MAX },
    { "--markdown", .help = "print docs/config.md" },
    ARG_ROW_SET,
    ARG_ROW_END,
};

static Status print_keys(const Args *args)
{
    StrBuf text = { 0 };
    Status status =
        args_value(args, "--markdown") ? config_write_markdown(&text) : config_print_help(&text);
    return log_print_text(status, &text);
}

/* Those of data.train, unless they are said. *classes: of the data, where it is looked at. */
static Status count_images(int64_t *out, int64_t *classes, Comm *comm, const Config *c,
                           const Args *args)
{
    Session session;
    *classes = c->model.classes;
    if (args_value(args, "--images")) return args_whole(args, "--images", out);
    Status status = session_open_data(&session, c, comm);
    if (status == OK) {
        *out = dataset_images(session.train);
        *classes = session.classes;
    }
    const bool opened = session.train != NULL;
    session_close(&session);
    if (status == OK || opened) return status;
    return fail_note(status, "--images N would replace the training set");
}

/* step: from 0; one behind the run is its last. */
static void add_row(StrBuf *text, const char *name, const TrainPlan *p, const Schedule *s,
                    double step)
{
    const double last = (double)p->total_steps - 1;
    const int64_t at = (int64_t)fmin(fmax(step, 0), last);
    str_printf(text, "%-16s %12lld %12.3f  %.12g\n", name, (long long)at + 1,
               (double)train_plan_images(p, at) / (double)p->images, schedule_lr(s, at));
}

static void add_usual_rows(StrBuf *text, const TrainPlan *p, const Schedule *s)
{
    const double total = (double)p->total_steps;
    add_row(text, "first", p, s, 0);
    if (s->warmup_steps > 0) add_row(text, "second", p, s, 1);
    if (s->warmup_steps > 0 && s->warmup_steps < total)
        add_row(text, "after warm-up", p, s, ceil(s->warmup_steps));
    add_row(text, "at 1/4", p, s, floor(total / 4));
    add_row(text, "at 1/2", p, s, floor(total / 2));
    add_row(text, "at 3/4", p, s, floor(3 * total / 4));
    add_row(text, "last", p, s, total - 1);
}

/* A row for each epoch of the list; ERR_USAGE where it is none, or one lies behind the run. */
static Status add_epochs(StrBuf *text, const TrainPlan *p, const Schedule *s, const char *list)
{
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char word[32], name[40];
        double epoch;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        if (!str_to_double(word, &epoch) || epoch < 0)
            return fail(ERR_USAGE, "--epochs: \"%s\" is not an epoch", word);
        const double step = ceil(train_plan_steps(p, epoch) - 1e-9);
        if (step >= (double)p->total_steps)
            return fail(ERR_USAGE, "--epochs: the run ends before epoch %s", word);
        snprintf(name, sizeof name, "epoch %s", word);
        add_row(text, name, p, s, step);
    }
    return OK;
}

static void add_batches(StrBuf *text, const TrainPlan *p, const Units *u)
{
    TrainPlan at = *p;
    for (int64_t step = 0; step < p->total_steps; step = train_plan_phase_end(p, step)) {
        train_plan_enter(&at, step);
        str_printf(text, "global batch     %lld %s: per rank %lld %s of %lld",
                   (long long)at.global_batch, units_name(u, at.global_batch),
                   (long long)at.accumulate, at.accumulate == 1 ? "batch" : "micro-batches",
                   (long long)at.batch);
        if (p->phase_count > 0) str_printf(text, ", from step %lld", (long long)step + 1);
        str_add(text, "\n");
    }
}

/* "16 pixels to step 10, 24 to step 20, 32; evaluation 32". */
static void add_sizes(StrBuf *text, const TrainPlan *p, const Config *c)
{
    const int last = progressive_stage_count(c) - 1;
    str_add(text, "image sizes      ");
    for (int i = 0; i < last; i++)
        str_printf(text, "%lld to step %lld, ", (long long)progressive_image_size(c, i),
                   (long long)progressive_stage_end(c, p, i));
    str_printf(text, "%lld to train, %lld to evaluate\n",
               (long long)progressive_image_size(c, last), (long long)c->data.image_size);
}

static Status check_rules(const Session *s)
{
    ParamRule *rules FREED = mem_calloc((size_t)executor_state_count(s->executor), sizeof *rules);
    return rules ? param_rules_make(rules, s->executor, s->config) : ERR_MEMORY;
}

/* Of a rank of the plan, by the programs that it would run. What cannot be prepared on this machine
 * has a sentence in its place; a config that is wrong is an error. */
static Status describe_memory(char *out, size_t bytes, Comm *comm, const Config *c,
                              const TrainPlan *p, int ranks, int64_t classes)
{
    static char any_weights[] = "auto"; /* a file may be of classes that nobody has counted */
    Session session;
    Config local = *c; /* shares its strings; only plain fields change */
    int64_t least, most;
    train_plan_micros(p, &least, &most);
    local.data.synthetic_images = p->batch * most * comm->world;
    local.model.classes = classes;
    if (c->model.bn == BN_CHOICE_SYNC && c->model.bn_group == 0) local.model.bn_group = ranks;
    if (c->train.class_weights[0]) local.train.class_weights = any_weights;
    local.train.batch_mode = BATCH_PER_RANK;
    local.train.batch_per_rank = p->batch;
    if (p->phase_count == 0)
        local.train.accumulate = (ConfigList){ .count = 1, .values = { (double)p->accumulate } };
    Status status = session_open_plan(&session, &local, comm, SESSION_TRAIN);
    if (status == OK) status = check_rules(&session);
    if (status == OK) {
        const MemoryReport r = memory_report(&session);
        snprintf(out, bytes, "%.2f GiB per rank%s; convoy inspect memory lists its parts",
                 (double)r.total / GIB, session.backend->v->device ? ", host and device" : "");
    } else if (status == ERR_ENV || status == ERR_MEMORY) {
        snprintf(out, bytes, "not known on this machine: %s", status_message());
        status = OK;
    }
    session_close(&session);
    return status;
}

static Status print_plan(const Config *c, const TrainPlan *p, const Schedule *s, int ranks,
                         const char *memory, const char *epochs)
{
    StrBuf text = { 0 };
    Status status = OK;
    const Units *u = units_of(c);
    str_printf(&text, "%-16s %lld\nranks            %d\n", u->many, (long long)p->images, ranks);
    add_batches(&text, p, u);
    if (config_is_text(c))
        str_printf(&text, "longest sequence %lld tokens\n", (long long)c->data.tokens);
    else add_sizes(&text, p, c);
    str_printf(&text, "steps            %lld, %.3f per epoch\n", (long long)p->total_steps,
               train_plan_steps(p, c->train.epochs) / c->train.epochs);
    str_printf(&text, "memory           %s\n\n", memory);
    str_printf(&text, "%-16s %12s %12s  learning rate\n", "", "step", "epochs done");
    if (epochs) status = add_epochs(&text, p, s, epochs);
    else add_usual_rows(&text, p, s);
    return log_print_text(status, &text);
}

static Status tell_plan(Comm *comm, Config *c, const Args *args)
{
    int64_t ranks = comm->world, images = 0, classes = 0;
    char memory[1200];
    TrainPlan plan;
    TRY(args_whole(args, "--ranks", &ranks));
    TRY(count_images(&images, &classes, comm, c, args));
    TRY(comm_agree(comm, train_plan_check_norms(c, (int)ranks)));
    TRY(comm_agree(comm, train_plan_make(&plan, c, (int)ranks, images)));
    const Schedule s = schedule_from_config(c, &plan, (int)ranks);
    const char *epochs = args_value(args, "--epochs");
    const bool evaluates = c->data.val[0] || c->data.val_split > 0 || args_value(args, "--images");
    TRY(comm_agree(comm, train_plan_check_turns(c, &plan, evaluates)));
    /* generated images do; of a text its own words and lengths decide, where they are known */
    if (!config_is_text(c) || args_value(args, "--images")) c->data.format = DATA_SYNTHETIC;
    TRY(describe_memory(memory, sizeof memory, comm, c, &plan, (int)ranks, classes));
    return comm_agree(comm,
                      comm->rank == 0 ? print_plan(c, &plan, &s, (int)ranks, memory, epochs) : OK);
}

static Status command(const Args *args)
{
    const bool plan = args->config || args->set_count > 0 || args_value(args, "--ranks") ||
                      args_value(args, "--images") || args_value(args, "--epochs");
    if (plan && args_value(args, "--markdown"))
        return fail(ERR_USAGE, "--markdown lists all keys; it takes no other argument");
    return plan ? command_run(args, tell_plan) : print_keys(args);
}

const Command cmd_inspect_config = {
    .name = "inspect config",
    .summary = "list all config keys, or what a run by a config will do",
    .about =
        "Prints every key of a config file with its default, its values and what it does. With a "
        "CONFIG or a key it prints instead what a run by it would do: the number of steps; the "
        "learning rate at the start, after warm-up, at each quarter and at the end; the memory "
        "per rank on this machine. Steps count from 1, as in the records of a run.",
    .args = rows,
    .alone = command,
};
