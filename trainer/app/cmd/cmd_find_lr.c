/* cmd_find_lr.c - convoy find-lr CONFIG: how high a learning rate may be (Smith 2017, "Cyclical
 * learning rates", section 3.3): it rises by the same factor from step to step while the network
 * trains, until the loss says that it was too much. */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/cmd/unread.h"
#include "trainer/engine/session/session_open.h"
#include "trainer/engine/train/first_weights.h"
#include "trainer/engine/train/stepper.h"
#include <math.h>

#define LR_MIN   1e-30
#define LR_MAX   1e6
#define MEMORY   0.95 /* of the mean of losses, from step to step */
#define TOO_MUCH 4    /* times the least mean */
#define FIRST    10   /* losses at least before the mean may be least */
#define FALL     0.02 /* of the first losses: less is nothing learnt */
#define RISE     1.1  /* of the least loss */
#define ROWS     32
#define BAR      48

static const ArgRow rows[] = {
    ARG_ROW_CONFIG,
    { "--steps", "N", .help = "at most N steps", .min = 20, .max = 1e5, .fallback = 100 },
    { "--from", "LR", .help = "learning rate of the first step (default 1e-6)", .min = LR_MIN,
      .max = LR_MAX },
    { "--to", "LR", .help = "learning rate of the last step (default 10)", .min = LR_MIN,
      .max = LR_MAX },
    { "--csv", "FILE", .help = "write step, learning rate, loss and mean loss of every step",
      .flags = ARG_WRITES },
    ARG_ROW_VERBOSE,
    ARG_ROW_SET,
    ARG_ROW_END,
};

typedef struct Range {
    int64_t steps; /* asked for, then done */
    double from, to;
    double *loss, *mean; /* [steps]; mean: of the losses so far, late ones weigh more */
    int64_t least;       /* the step with the least mean, from FIRST on */
} Range;

static double rate_at(const Range *r, double step, int64_t steps)
{
    return r->from * pow(r->to / r->from, steps > 1 ? step / (double)(steps - 1) : 0);
}

/* False where the loss has gone. */
static bool take(Range *r, int64_t step, double loss)
{
    const double before = step > 0 ? r->mean[step - 1] * (1 - pow(MEMORY, (double)step)) : 0;
    r->loss[step] = loss;
    r->mean[step] = (MEMORY * before + (1 - MEMORY) * loss) / (1 - pow(MEMORY, (double)step + 1));
    if (!isfinite(r->mean[step])) return false;
    if (step <= FIRST || r->mean[step] < r->mean[r->least]) r->least = step;
    return r->mean[step] <= TOO_MUCH * fmin(r->mean[r->least], r->mean[0]);
}

/* How far the losses of batches lie from each other where nothing is learnt: by differences from
 * step to step, in which a slow fall has no part. */
static double spread(const Range *r)
{
    double squares = 0;
    for (int64_t i = 1; i <= r->least; i++) squares += pow(r->loss[i] - r->loss[i - 1], 2);
    return sqrt(squares / (2 * (double)r->least));
}

/* Whether the mean fell by more than chance takes the least of n means below that of the
 * first half's losses: on noise alone less than one search in 400 passes, of 20 to 2000 steps
 * (simulated with normal losses). Where losses rise at once, the least that comes behind them is no
 * fall. */
static bool fell(const Range *r)
{
    if (r->steps <= FIRST) return false;
    const int64_t half = r->least / 2 > FIRST ? r->least / 2 : FIRST;
    const double noise =
        spread(r) * (0.2 * sqrt(log((double)r->steps)) + 2.3 * sqrt(0.01 + 1 / (double)half));
    double first = 0;
    for (int64_t i = 0; i < half; i++) first += r->loss[i] / (double)half;
    return r->mean[r->least] <= first - fmax(FALL * first, noise) && r->mean[r->least] < r->loss[0];
}

static Status rise(Session *s, Stepper *stepper, Range *r)
{
    const int64_t steps = r->steps;
    bool goes_on = true;
    for (int64_t step = 0; step < steps && goes_on; step++) {
        stepper_set_lr_factor(stepper, rate_at(r, (double)step, steps));
        StepResult result = stepper_run(stepper, step, OK, NULL);
        if (result.failed) return comm_agree(s->comm, result.own_status);
        r->steps = step + 1;
        const bool unmasked = result.unmasked && step > 0; /* then what was expected */
        goes_on = take(r, step, unmasked ? r->mean[step - 1] : result.loss);
    }
    return OK;
}

/* ---- what is said ---- */

static void add_row(StrBuf *text, const Range *r, int64_t step, double lr, double top)
{
    const double share = isfinite(r->mean[step]) ? fmin(r->mean[step] / top, 1) : 1;
    str_printf(text, "%6lld  %10.3g  %10.4g  ", (long long)step + 1, lr, r->mean[step]);
    for (int i = 0; i < (int)lround(BAR * share); i++) str_add(text, "#");
    str_add(text, "\n");
}

static Status say(const Range *r, int64_t asked)
{
    const int64_t every = (r->steps + ROWS - 1) / ROWS;
    /* the loss of a step is that before its own update */
    const double best = rate_at(r, (double)(r->least - 1), asked);
    StrBuf text = { 0 };
    str_printf(&text, "%6s  %10s  %10s\n", "step", "rate", "mean loss");
    for (int64_t i = 0; i < r->steps; i += every)
        add_row(&text, r, i, rate_at(r, (double)i, asked), 2 * r->mean[0]);
    if (!fell(r))
        str_add(&text,
                "the loss never fell by more than its noise: the rates are too high or too low,\n"
                "the steps too few (--steps), the batches too small, or the network cannot "
                "learn\nfrom this data\n");
    else if (r->mean[r->steps - 1] <= RISE * r->mean[r->least])
        str_add(&text, "the loss had not risen by the end; give a higher --to\n");
    else
        str_printf(&text,
                   "the mean loss is lowest at a rate of %.3g; a tenth of that is a good start:\n"
                   "optimizer.lr=%.2g optimizer.lr_scaling=none\n",
                   best, best / 10);
    return log_print_text(OK, &text);
}

static Status write_csv(const Range *r, int64_t asked, const char *path)
{
    StrBuf text = { 0 };
    str_add(&text, "step,lr,loss,mean\n");
    for (int64_t i = 0; i < r->steps; i++)
        str_printf(&text, "%lld,%.9g,%.9g,%.9g\n", (long long)i + 1, rate_at(r, (double)i, asked),
                   r->loss[i], r->mean[i]);
    return fs_write_text(OK, path, &text);
}

static Status find(Session *s, Range *r, const char *csv)
{
    Loader *loader FREED_BY(loader_destroy_at) = NULL;
    Stepper *stepper FREED_BY(stepper_destroy_at) = NULL;
    const int64_t asked = r->steps;
    LoaderOptions options = session_loader_options(s, DATA_TRAIN);
    options.last_step = -1;
    prefetch_loader_options(s->train_input, &options);
    TRY(comm_agree(s->comm, s->comm->rank == 0 ? first_weights_make(s) : OK));
    if (first_weights_needed(s)) TRY(session_broadcast(s));
    Status status = stepper_create(&stepper, s);
    if (status == OK) status = loader_create(&loader, s->train, &options);
    if (status == OK) status = stepper_set_loader(stepper, loader);
    TRY(comm_agree(s->comm, status));
    status = rise(s, stepper, r);
    if (status == OK && s->comm->rank == 0) status = say(r, asked);
    if (status == OK && s->comm->rank == 0 && csv) status = write_csv(r, asked, csv);
    return comm_agree(s->comm, status);
}

/* One rate for all steps, which the steps' factors make others of. */
static void prepare(Config *c)
{
    static char none[] = "";
    c->data.val = none;
    c->optimizer.lr = 1;
    c->optimizer.lr_scaling = LR_NONE;
    c->schedule.name = SCHEDULE_CONSTANT;
    c->schedule.warmup_epochs = 0;
    c->schedule.warmup_steps = 0;
    c->ema.decay = c->ema.half_life = 0;
    c->optimizer.lookahead = LOOKAHEAD_OFF;
}

static Status run(Comm *comm, Config *c, const Args *args)
{
    Range r = { .from = 1e-6, .to = 10 };
    Session s FREED_BY(session_close) = { 0 };
    Config local = *c;
    TRY(args_whole(args, "--steps", &r.steps));
    TRY(args_number(args, "--from", &r.from));
    TRY(args_number(args, "--to", &r.to));
    if (r.to <= r.from)
        return fail(ERR_USAGE, "--to %g must be greater than --from %g", r.to, r.from);
    const char *csv = args_value(args, "--csv");
    TRY(comm_agree(comm, csv && comm->rank == 0 ? fs_check_writable(csv) : OK));
    prepare(&local);
    double *loss FREED = mem_calloc((size_t)r.steps, sizeof *loss);
    double *mean FREED = mem_calloc((size_t)r.steps, sizeof *mean);
    r.loss = loss;
    r.mean = mean;
    TRY(comm_agree(comm, loss && mean ? OK : ERR_MEMORY));
    TRY(session_open(&s, &local, comm, SESSION_TRAIN, NULL));
    TRY(session_commit(&s));
    return find(&s, &r, csv);
}

const Command cmd_find_lr = {
    .name = "find-lr",
    .group = "Measure",
    .summary = "find a usable learning rate",
    .about =
        "Trains for a few steps, each with a higher learning rate than the one before, and shows "
        "how the loss responds; under mpirun on all ranks. Starts from the weights of a new run "
        "(model.init), saves nothing, and stops early where the loss reaches four times its "
        "minimum. The rate is optimizer.lr with optimizer.lr_scaling none, at the peak of the "
        "schedule.",
    .args = rows,
    .by_ranks = run,
    .ignores =
        "optimizer.lr optimizer.lr_scaling optimizer.lookahead schedule ema " UNREAD_BUT_IN_RUNS,
};
