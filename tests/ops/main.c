/* main.c - check: does a backend compute what kernels/op.h says?
 *
 *   check [--op=TEXT] [--seed=N]
 *   [--backend=ref|cpu[:fp32|:winograd|:winograd-other|:bf16|:products]|
 *              cuda[:fp32|:tf32|:bf16|:fp16]] [--threads=N]
 *   [--case=CASE] [--shapes=FOLDER] [--verbose] [--list] [--bench] [--cudnn]
 *
 * --op=conv takes every op with that in its name, --op==conv2d that one alone.
 *
 * First the float64 reference is checked against finite differences of itself; then every op of the
 * backend is compared with it, on fixed, drawn and network shapes. Each op runs in a child process
 * of its own: a crash or a hang costs one case, is reported with its name, and the next child goes
 * on behind it. (A backend's thread team does not survive fork, so it is created in the child.)
 * Passed cases are silent but for one line an op; a failed one is printed with the command that
 * runs it alone. The last line is "N passed, N failed, 0 skipped": what a backend
 * does not take is no case. */
#include "kernels/backend_cuda.h"
#include "kernels/cpu/cpu.h"

#include "tests/ops/check.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_SECONDS 60
#define MAX_CRASHES  5
#define TEXT_BYTES   512

typedef struct Options {
    const char *op, *backend, *one_case, *shapes;
    int64_t seed, threads;
    bool verbose, list, bench, cudnn, help;
} Options;

typedef struct Board { /* shared with the children */
    int passed, failed, next;
    double worst;
    char current[TEXT_BYTES];
} Board;

typedef struct BackendRow BackendRow;
typedef struct Session {
    Options options;
    Board *board;
    const BackendRow *row; /* of the backend under test */
    Subject subject;
    Backend *ref;
} Session;

/* A job is a list of equal things that a child works through; run(i) returns the verdict on thing
 * i. */
typedef struct Job {
    const char *name;
    int count;
    const Case *cases; /* NULL: gradients, thing i is row */
    int row;
} Job;

/* Without products of bf16 that some CPUs are fast at, which are cpu:products', and Winograd's
 * convolutions. */
static Status create_cpu(Backend **out, const Options *o, Precision precision)
{
    return backend_cpu_create(out, &(CpuOptions){ .threads = (int)o->threads,
                                                  .precision = precision,
                                                  .products = CPU_USE_NONE,
                                                  .winograd = CPU_USE_NONE });
}

static Status create_winograd(Backend **out, const Options *o, Precision precision)
{
    return backend_cpu_create(out, &(CpuOptions){ .threads = (int)o->threads,
                                                  .precision = precision,
                                                  .winograd = CPU_USE_EVERY });
}

/* With blocks of channels as CPUs with, or without, AVX-512 have them. */
static Status create_other_winograd(Backend **out, const Options *o, Precision precision)
{
    TRY(create_winograd(out, o, precision));
    CpuBackend *b = (CpuBackend *)*out;
    b->block = b->block == 8 ? 16 : 8;
    return OK;
}

static Status create_products(Backend **out, const Options *o, Precision precision)
{
    return backend_cpu_create(out, &(CpuOptions){ .threads = (int)o->threads,
                                                  .precision = precision,
                                                  .products = CPU_USE_EVERY });
}

static Status create_ref(Backend **out, const Options *o, Precision precision)
{
    (void)o;
    (void)precision;
    return backend_ref_create(out);
}

static Status create_cuda(Backend **out, const Options *o, Precision precision)
{
    const CudaOptions options = { .precision = precision,
                                  .batchnorm = o->cudnn ? KERNELS_CUDNN : KERNELS_OWN,
                                  .attention = o->cudnn ? KERNELS_CUDNN : KERNELS_OWN };
    return backend_cuda_create(out, &options);
}

struct BackendRow {
    const char *name;
    Status (*create)(Backend **out, const Options *o, Precision precision);
    Precision precision;
    Subject subject; /* but for the backend itself */
};
static const BackendRow backends[] = {
    { "cpu:fp32",
      create_cpu,
      PRECISION_FP32,
      { .compute = DTYPE_F32, .fuses = { [FUSED_EVALUATION] = true }, .pad = 1 } },
    { "cpu:winograd",
      create_winograd,
      PRECISION_FP32,
      { .compute = DTYPE_F32,
        .fuses = { [FUSED_EVALUATION] = true },
        .winograd = true,
        .pad = 1 } },
    { "cpu:winograd-other",
      create_other_winograd,
      PRECISION_FP32,
      { .compute = DTYPE_F32,
        .fuses = { [FUSED_EVALUATION] = true },
        .winograd = true,
        .pad = 1 } },
    { "cpu:bf16",
      create_cpu,
      PRECISION_BF16,
      { .compute = DTYPE_BF16,
        .own_layouts = true,
        .wide_sums = true,
        .pairs = true,
        .fuses = { [FUSED_EVALUATION] = true },
        .pad = 1 } },
    { "cpu:products",
      create_products,
      PRECISION_BF16,
      { .compute = DTYPE_BF16,
        .own_layouts = true,
        .rounds_weights = true,
        .wide_sums = true,
        .pairs = true,
        .products_only = true,
        .pad = 1 } },
    { "ref",
      create_ref,
      PRECISION_FP32,
      { .compute = DTYPE_F32,
        .fuses = { [FUSED_TRAINING] = true, [FUSED_EVALUATION] = true },
        .pad = 1 } },
    { "cuda:fp32",
      create_cuda,
      PRECISION_FP32,
      { .compute = DTYPE_F32, .own_layouts = true, .pools_norms = true, .pad = 4 } },
    { "cuda:tf32",
      create_cuda,
      PRECISION_TF32,
      { .compute = DTYPE_F32, .tf32 = true, .own_layouts = true, .pools_norms = true, .pad = 4 } },
    { "cuda:bf16",
      create_cuda,
      PRECISION_BF16,
      { .compute = DTYPE_BF16,
        .own_layouts = true,
        .pools_norms = true,
        .signs_norms = true,
        .pad = 8 } },
    { "cuda:fp16",
      create_cuda,
      PRECISION_FP16,
      { .compute = DTYPE_F16,
        .own_layouts = true,
        .fuses = { [FUSED_TRAINING] = true },
        .pad = 8 } },
};
#define BACKENDS (sizeof backends / sizeof backends[0])

/* "cuda" means all its precisions. */
static bool is_meant(const BackendRow *row, const char *name)
{
    size_t n = strlen(name);
    return strncmp(row->name, name, n) == 0 && (row->name[n] == '\0' || row->name[n] == ':');
}

static Status create_subject(Session *s)
{
    s->subject = s->row->subject;
    if (s->options.cudnn) s->subject.rounds_dz = s->subject.rounds_weights = true;
    return s->row->create(&s->subject.backend, &s->options, s->row->precision);
}

/* Gradients are the reference's own; a device takes long to open, and there are many of them. */
static Status create_backends(Session *s, const Job *job)
{
    TRY(backend_ref_create(&s->ref));
    return job->cases ? create_subject(s) : OK;
}

static void set_current(Board *board, const char *text)
{
    size_t n = strlen(text) < TEXT_BYTES - 1 ? strlen(text) : TEXT_BYTES - 1;
    memcpy(board->current, text, n);
    board->current[n] = '\0';
}

static void describe_thing(const Job *job, int i, StrBuf *text)
{
    if (job->cases) case_format(&job->cases[i], text);
    else str_printf(text, "reference gradient of %s", job->name);
}

static void report_failure(const Session *s, const Job *job, int i, const char *text,
                           const char *what)
{
    report("FAIL %s\n     %s", text, what);
    if (!job->cases) {
        report("     again: check --seed=%lld --op=%s", (long long)s->options.seed, job->name);
        return;
    }
    Problem p;
    char shapes[256];
    if (problem_make(&job->cases[i], &p) == OK) {
        problem_format(&p, shapes, sizeof shapes);
        report("     shapes: %s", shapes);
    }
    report("     again: check --backend=%s --seed=%lld --case='%s'", s->row->name,
           (long long)s->options.seed, text);
}

static Status run_thing(Session *s, const Job *job, int i, Verdict *verdict)
{
    uint64_t seed = (uint64_t)s->options.seed;
    if (!job->cases) return gradient_check(job->row, s->ref, seed, verdict);
    if (s->options.bench) return bench_case(&job->cases[i], s->subject.backend, seed);
    return run_case(&job->cases[i], &s->subject, s->ref, seed, verdict);
}

/* The child's life. Never returns to the parent's code. */
static int work(Session *s, const Job *job)
{
    Board *board = s->board;
    if (create_backends(s, job) != OK) {
        report("FAIL %s", status_message());
        return 1;
    }
    while (board->next < job->count) {
        int i = board->next;
        StrBuf text = { 0 };
        Verdict verdict = { 0 };
        describe_thing(job, i, &text);
        set_current(board, text.text ? text.text : "");
        alarm(CASE_SECONDS);
        Status st = run_thing(s, job, i, &verdict);
        alarm(0);
        if (st != OK) report_failure(s, job, i, board->current, status_message());
        if (st == OK && s->options.verbose)
            report("ok   %s (%.3f of the bound)", board->current, verdict.worst);
        if (verdict.worst > board->worst) board->worst = verdict.worst;
        if (st == OK) board->passed++;
        else board->failed++;
        str_free(&text);
        board->next++;
    }
    if (job->cases) backend_destroy(s->subject.backend);
    backend_destroy(s->ref);
    return 0;
}

/* Runs work in children until the job is done. */
static void run_job(Session *s, const Job *job)
{
    Board *board = s->board;
    int passed = board->passed, failed = board->failed;
    board->next = 0;
    board->worst = 0;
    for (int crashes = 0; board->next < job->count;) {
        int state = 0;
        pid_t child = fork();
        if (child == 0) _exit(work(s, job));
        bool lost = child < 0 || waitpid(child, &state, 0) != child || !WIFEXITED(state) ||
                    WEXITSTATUS(state) != 0;
        if (!lost) break;
        if (WIFSIGNALED(state)) {
            bool timed_out = WTERMSIG(state) == SIGALRM;
            report_failure(s, job, board->next, board->current,
                           timed_out ? "took too long" : strsignal(WTERMSIG(state)));
        }
        board->failed++;
        board->next++;
        bool hopeless = !WIFSIGNALED(state) || ++crashes == MAX_CRASHES;
        if (!hopeless) continue;
        report("FAIL %s: gave up with %d cases left", job->name, job->count - board->next);
        board->failed += job->count - board->next;
        break;
    }
    if (s->options.bench) return;
    report("%-24s %5d passed %3d failed   worst error %.3f of its bound", job->name,
           board->passed - passed, board->failed - failed, board->worst);
}

static void drop_untaken(CaseList *list, const Subject *subject)
{
    int kept = 0;
    for (int i = 0; i < list->count; i++) {
        Case *c = &list->cases[i];
        /* its fractions are not exact */
        if (subject->winograd && c->variant.mode == MODE_EXACT) c->variant.mode = MODE_FLOAT;
        if (subject_takes(subject, c)) list->cases[kept++] = *c;
    }
    list->count = kept;
}

static Status run_family(Session *s, OpKind kind)
{
    const Options *o = &s->options;
    const Family *f = family_of(kind);
    if (!f) return fail(ERR_INTERNAL, "op %s has no family of cases", op_name(kind));
    CaseList list = { 0 };
    Status st = case_list_family(&list, f, (uint64_t)o->seed, o->shapes);
    drop_untaken(&list, &s->row->subject);
    Job job = { op_name(kind), list.count, list.cases, 0 };
    for (int i = 0; st == OK && o->list && i < list.count; i++) {
        StrBuf text = { 0 };
        case_format(&list.cases[i], &text);
        report("%s", text.text ? text.text : "");
        str_free(&text);
    }
    if (st == OK && !o->list && list.count > 0) run_job(s, &job);
    mem_free(list.cases);
    return st;
}

static bool is_asked_for(const Session *s, const char *name)
{
    const char *op = s->options.op;
    if (!op) return true;
    return op[0] == '=' ? strcmp(name, op + 1) == 0 : strstr(name, op) != NULL;
}

static void run_gradients(Session *s)
{
    for (int row = 0; row < gradient_count(); row++) {
        char name[64];
        gradient_name(row, name, sizeof name);
        Job job = { name, 1, NULL, row };
        if (is_asked_for(s, name)) run_job(s, &job);
    }
}

static Status run_one_case(Session *s)
{
    Case c;
    TRY(case_parse(s->options.one_case, &c));
    Problem p;
    TRY(problem_make(&c, &p));
    Job job = { op_name(c.family->kind), 1, &c, 0 };
    run_job(s, &job);
    return OK;
}

static Status run_bench(Session *s)
{
    CaseList list = { 0 };
    StrBuf path = { 0 };
    str_printf(&path, "%s/bench.txt", s->options.shapes);
    Status st = path.failed ? ERR_MEMORY : case_list_bench(&list, path.text);
    for (int i = 0; st == OK && i < list.count; i++) {
        Job job = { op_name(list.cases[i].family->kind), 1, &list.cases[i], 0 };
        if (is_asked_for(s, job.name)) run_job(s, &job);
    }
    str_free(&path);
    mem_free(list.cases);
    return st;
}

static Status run_backend(Session *s)
{
    if (s->options.one_case) return run_one_case(s);
    if (s->options.bench) return run_bench(s);
    if (!s->options.list) report("%s against the reference:", s->row->name);
    for (int kind = 0; kind < OP_COUNT; kind++)
        if (is_asked_for(s, op_name((OpKind)kind))) TRY(run_family(s, (OpKind)kind));
    return OK;
}

/* The first line, from a child because only children create backends. */
static bool print_first_line(Session *s)
{
    int state;
    pid_t child = fork();
    if (child == 0) {
        char text[128];
        if (create_subject(s) != OK) {
            report("check: %s", status_message());
            _exit(1);
        }
        s->subject.backend->v->describe(s->subject.backend, text, sizeof text);
        report("check: backend %s (%s), seed %lld", s->row->name, text, (long long)s->options.seed);
        _exit(0);
    }
    return child > 0 && waitpid(child, &state, 0) == child && WIFEXITED(state) &&
           WEXITSTATUS(state) == 0;
}

static Status run_all(Session *s)
{
    bool known = false, gradients = !s->options.one_case && !s->options.bench && !s->options.list;
    for (size_t i = 0; i < BACKENDS; i++) {
        if (!is_meant(&backends[i], s->options.backend)) continue;
        s->row = &backends[i];
        if (!print_first_line(s)) return fail(ERR_ENV, "backend %s cannot be had", s->row->name);
        if (!known && gradients) {
            report("reference against central differences:");
            run_gradients(s);
        }
        known = true;
        TRY(run_backend(s));
    }
    return known ? OK : fail(ERR_USAGE, "no backend is called \"%s\"", s->options.backend);
}

/* ---- command line ---- */

static bool take_text(const char *argument, const char *name, const char **out)
{
    size_t n = strlen(name);
    if (strncmp(argument, name, n) != 0 || argument[n] != '=') return false;
    *out = argument + n + 1;
    return true;
}

static bool take_flag(const char *argument, const char *name, bool *out)
{
    if (strcmp(argument, name) != 0) return false;
    return *out = true;
}

static Status take_number(const char *argument, const char *text, int64_t *out)
{
    return str_to_i64(text, out) && *out >= 0
               ? OK
               : fail(ERR_USAGE, "%s: needs a number of 0 or more", argument);
}

static Status parse_options(int count, char **arguments, Options *o)
{
    *o = (Options){ .backend = "cpu", .shapes = "tests/ops/shapes", .seed = 1 };
    for (int i = 1; i < count; i++) {
        const char *a = arguments[i], *number;
        if (take_text(a, "--op", &o->op) || take_text(a, "--backend", &o->backend) ||
            take_text(a, "--case", &o->one_case))
            continue;
        if (take_text(a, "--shapes", &o->shapes) || take_flag(a, "--verbose", &o->verbose) ||
            take_flag(a, "--list", &o->list))
            continue;
        if (take_flag(a, "--cudnn", &o->cudnn)) continue;
        if (take_flag(a, "--bench", &o->bench) || take_flag(a, "--help", &o->help)) continue;
        if (take_text(a, "--seed", &number)) TRY(take_number(a, number, &o->seed));
        else if (take_text(a, "--threads", &number)) TRY(take_number(a, number, &o->threads));
        else return fail(ERR_USAGE, "unknown option %s", a);
    }
    return OK;
}

int main(int count, char **arguments)
{
    Session s = { 0 };
    Status st = parse_options(count, arguments, &s.options);
    if (st == OK && s.options.help) {
        report("check [--op=TEXT] [--backend=ref|cpu[:PRECISION]|cuda[:PRECISION]] [--seed=N] "
               "[--threads=N] "
               "[--case=CASE] "
               "[--shapes=FOLDER] [--verbose] [--list] [--bench] [--cudnn]");
        return 0;
    }
    s.board =
        mmap(NULL, sizeof *s.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.board == MAP_FAILED) return 1;
    memset(s.board, 0, sizeof *s.board);
    if (st == OK) st = run_all(&s);
    if (st != OK) report("check: %s", status_message());
    if (st == OK && s.options.list) return 0;
    int failed = s.board->failed + (st != OK);
    bool ran = s.board->passed + failed > 0;
    if (!ran) report("check: nothing matches");
    report("%d passed, %d failed, 0 skipped", s.board->passed, failed);
    return failed == 0 && ran ? 0 : 1;
}
