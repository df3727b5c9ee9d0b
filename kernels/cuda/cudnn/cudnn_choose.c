/* cudnn_choose.c - which engine runs an operation graph: heuristics, what is left out and why, the
 * sentence when nothing is left. See cudnn_choose.h for the rules. */
#include "kernels/cuda/cudnn/cudnn_choose.h"
#include "base/log.h"
#include "base/mem.h"
#include "kernels/cuda/cudnn/cudnn_tune.h"
#include <stdio.h>
#include <string.h>

enum {
    MAX_CONFIGS = 64, /* of one heuristics mode; cuDNN 9.19 lists up to 40 */
    MAX_NOTES = 32,
    MAX_CANDIDATES = 2 * MAX_CONFIGS,
    MAX_TIMED = 8 /* half a second together (contest.h), once per operation and machine */
};

/* In the order in which candidates are taken. */
typedef enum Rank {
    RANK_PREFERRED,
    RANK_OTHER,
    RANK_COMPILED /* when the plan is made */,
    RANK_COUNT
} Rank;

typedef struct Candidate {
    cudnnBackendDescriptor_t config;
    int64_t engine, workspace;
    Rank rank;
} Candidate;

typedef struct Candidates {
    Candidate list[MAX_CANDIDATES];
    int count;
    int offered, avoided, too_big;
    int64_t least_workspace; /* of those that are too big */
    char reason[256];        /* why the last one was not listed or not finalised; "" if none */
} Candidates;

/* ---- what the heuristics offer ---- */

static unsigned notes_of(const CudnnApi *api, cudnnBackendDescriptor_t engine)
{
    cudnnBackendNumericalNote_t notes[MAX_NOTES];
    unsigned mask = 0;
    int64_t n = cudnn_api_read(api, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                               CUDNN_TYPE_NUMERICAL_NOTE, MAX_NOTES, notes);
    for (int64_t i = 0; i < n && i < MAX_NOTES; i++) mask |= 1u << notes[i];
    return mask;
}

static bool is_compiled(const CudnnApi *api, cudnnBackendDescriptor_t engine)
{
    cudnnBackendBehaviorNote_t notes[MAX_NOTES];
    int64_t n = cudnn_api_read(api, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                               CUDNN_TYPE_BEHAVIOR_NOTE, MAX_NOTES, notes);
    for (int64_t i = 0; i < n && i < MAX_NOTES; i++)
        if (notes[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) return true;
    return false;
}

static void count_too_big(Candidates *all, int64_t workspace)
{
    if (!all->too_big++ || workspace < all->least_workspace) all->least_workspace = workspace;
}

/* Whether the request can use config; fills out all but the descriptor. */
static bool consider(const CudnnContext *c, const PlanRequest *r, cudnnBackendDescriptor_t config,
                     Candidates *all, Candidate *out)
{
    const CudnnApi *api = &c->api;
    cudnnBackendDescriptor_t engine = NULL;
    unsigned notes = 0;
    *out = (Candidate){ .engine = -1 };
    bool readable =
        api->create_descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) == CUDNN_STATUS_SUCCESS &&
        cudnn_api_read(api, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                       &engine) == 1 &&
        cudnn_api_read(api, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                       &out->engine) == 1;
    if (readable) {
        notes = notes_of(api, engine);
        out->rank = is_compiled(api, engine)           ? RANK_COMPILED
                    : (notes & r->prefer) == r->prefer ? RANK_PREFERRED
                                                       : RANK_OTHER;
        cudnn_api_read(api, config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                       &out->workspace);
    }
    cudnn_api_free(api, engine);
    all->offered += readable;
    if (!readable) return false;
    if (notes & r->avoid) {
        all->avoided++;
        return false;
    }
    if (out->workspace <= (int64_t)r->workspace_limit) return true;
    count_too_big(all, out->workspace);
    return false;
}

/* Moves what is usable of configs to the candidates and frees the rest. */
static void sift(const CudnnContext *c, const PlanRequest *r, cudnnBackendDescriptor_t *configs,
                 int64_t listed, Candidates *all)
{
    for (int i = 0; i < MAX_CONFIGS && configs[i]; i++) {
        Candidate one;
        bool keep =
            i < listed && all->count < MAX_CANDIDATES && consider(c, r, configs[i], all, &one);
        if (keep) {
            one.config = configs[i];
            all->list[all->count++] = one;
        } else {
            cudnn_api_free(&c->api, configs[i]);
        }
    }
}

/* Adds what one mode lists. Asked for a count, cuDNN answers with an upper bound; how many there
 * really are is known when they have been fetched, and none is an answer, not an error. */
static Status ask_mode(const CudnnContext *c, const PlanRequest *r, cudnnBackendDescriptor_t graph,
                       cudnnBackendHeurMode_t mode, Candidates *all)
{
    const CudnnApi *api = &c->api;
    const CudnnAttribute attributes[] = {
        { CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph },
        { CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode },
        { CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c->device },
    };
    cudnnBackendDescriptor_t heuristics = NULL, configs[MAX_CONFIGS] = { NULL };
    int64_t bound = 0, listed = 0;
    cudnnStatus_t status =
        cudnn_api_try_make(api, &heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, attributes, 3);
    if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) {
        cudnn_api_last_reason(api, all->reason, sizeof all->reason);
        return OK;
    }
    TRY(cudnn_api_status(api, status, "heuristics"));
    status = api->get_attribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &bound, NULL);
    if (bound > MAX_CONFIGS) bound = MAX_CONFIGS;
    for (int i = 0; i < bound && status == CUDNN_STATUS_SUCCESS; i++)
        status = api->create_descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]);
    if (status == CUDNN_STATUS_SUCCESS && bound > 0)
        status = api->get_attribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, bound, &listed, configs);
    Status st = cudnn_api_status(api, status, "heuristics");
    if (st == OK && listed < bound) cudnn_api_last_reason(api, all->reason, sizeof all->reason);
    sift(c, r, configs, st == OK ? listed : 0, all);
    cudnn_api_free(api, heuristics);
    return st;
}

static int count_ready(const Candidates *all)
{
    int n = 0;
    for (int i = 0; i < all->count; i++) n += all->list[i].rank != RANK_COMPILED;
    return n;
}

static Status collect(const CudnnContext *c, const PlanRequest *r, cudnnBackendDescriptor_t graph,
                      Candidates *all)
{
    static const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK };
    const int enough = c->exhaustive ? MAX_CANDIDATES : c->timed ? MAX_TIMED : 1;
    char stale[8];
    /* forgets what earlier calls have noted */
    cudnn_api_last_reason(&c->api, stale, sizeof stale);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0] && count_ready(all) < enough; i++)
        TRY(ask_mode(c, r, graph, modes[i], all));
    return OK;
}

/* ---- from candidates to a plan ---- */

/* Finalises the plan of one candidate; false if cuDNN or the workspace limit refuses it. */
static bool make_plan(const CudnnContext *c, const PlanRequest *r, const Candidate *one,
                      Candidates *all, CudnnPlan *out)
{
    const CudnnAttribute attribute = { CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one->config };
    int64_t workspace = -1;
    *out = (CudnnPlan){ .engine = (int)one->engine, .workspace = (size_t)one->workspace };
    if (one->rank == RANK_COMPILED && c->uncompiled) return true;
    if (one->rank == RANK_COMPILED) log_debug("cuDNN compiles a kernel for %s", r->key);
    if (cudnn_api_try_make(&c->api, &out->plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &attribute,
                           1) != CUDNN_STATUS_SUCCESS) {
        cudnn_api_last_reason(&c->api, all->reason, sizeof all->reason);
        return false;
    }
    cudnn_api_read(&c->api, out->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                   1, &workspace);
    out->workspace = (size_t)workspace;
    if (workspace >= 0 && out->workspace <= r->workspace_limit) return true;
    cudnn_api_free(&c->api, out->plan);
    out->plan = NULL;
    count_too_big(all, workspace);
    return false;
}

/* Up to wanted plans, by rank; of compiled ones just one, if there is no other or if it is to be
 * timed with them. Returns how many. */
static int make_plans(const CudnnContext *c, const PlanRequest *r, Candidates *all, int wanted,
                      CudnnPlan *plans)
{
    int made = 0;
    const bool beside = r->compiled == COMPILED_TOO && wanted > 1;
    /* keeps one place for the compiled one, whatever the number of others */
    wanted -= beside;
    for (int rank = 0; rank < (r->compiled == COMPILED_NEVER ? RANK_COMPILED : RANK_COUNT);
         rank++) {
        if (rank == RANK_COMPILED) wanted = beside ? made + 1 : made ? made : 1;
        for (int i = 0; i < all->count && made < wanted; i++)
            if ((int)all->list[i].rank == rank)
                made += make_plan(c, r, &all->list[i], all, &plans[made]);
    }
    return made;
}

static Status save_plan(const CudnnContext *c, CudnnPlan *plan)
{
    return cudnn_api_read_text(&c->api, plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                               &plan->json, "plan as JSON");
}

/* For the plan sweep: makes, saves and loads the plans of all candidates. */
static Status try_all(CudnnContext *c, const PlanRequest *r, Candidates *all)
{
    Status st = OK;
    for (int i = 0; i < all->count && st == OK; i++) {
        CudnnPlan plan;
        const bool made = make_plan(c, r, &all->list[i], all, &plan);
        c->finalised += made;
        c->refused += !made;
        if (!made) {
            log_debug("%s: engine %d is not finalised: %s", r->key, plan.engine, all->reason);
            continue;
        }
        st = save_plan(c, &plan);
        cudnn_api_free(&c->api, plan.plan);
        if (st == OK) st = cudnn_plan_load(c, &plan);
        if (st == OK) cudnn_api_free(&c->api, plan.plan);
        else fail_note(st, "%s, engine %d", r->key, plan.engine);
        mem_free(plan.json);
    }
    return st;
}

/* The fastest of plans if they are to be timed, else the first. Timing that fails costs a warning:
 * training can go on with the heuristics' choice. */
static int pick(CudnnContext *c, const PlanRequest *r, const CudnnPlan *plans, int count,
                double *ms)
{
    int fastest = 0;
    if (!c->timed || cudnn_tune(c, r, plans, count, &fastest, ms) == OK) return fastest;
    log_warning("%s: engines cannot be timed; the first of %d is used: %s", r->key, count,
                status_message());
    *ms = 0;
    return 0;
}

static Status none_fits(const PlanRequest *r, const Candidates *all)
{
    char why[256] = "it offers none";
    if (all->offered)
        snprintf(why, sizeof why,
                 "of %d that it offers, %d are inexact or not reproducible and %d need more than "
                 "%zu MB of workspace (%lld MB or more)",
                 all->offered, all->avoided, all->too_big, r->workspace_limit >> 20,
                 (long long)(all->least_workspace >> 20));
    return fail(ERR_ENV, "cuDNN has no engine for %s: %s%s%s", r->key, why,
                all->reason[0] ? "; it says " : "", all->reason);
}

static Status choose_among(CudnnContext *c, const PlanRequest *r, Candidates *all, CudnnPlan *out)
{
    CudnnPlan plans[MAX_TIMED];
    double ms = 0;
    if (c->exhaustive) TRY(try_all(c, r, all));
    int count = make_plans(c, r, all, c->timed ? MAX_TIMED : 1, plans);
    if (!count) return none_fits(r, all);
    int taken = pick(c, r, plans, count, &ms);
    for (int i = 0; i < count; i++)
        if (i != taken) cudnn_api_free(&c->api, plans[i].plan);
    out->plan = plans[taken].plan;
    out->workspace = plans[taken].workspace;
    out->engine = plans[taken].engine;
    out->ms = ms;
    return c->cache_path ? save_plan(c, out) : OK;
}

Status cudnn_choose(CudnnContext *c, const PlanRequest *r, CudnnPlan *plan)
{
    cudnnBackendDescriptor_t graph = NULL;
    Candidates *all = mem_calloc(1, sizeof *all);
    if (!all) return ERR_MEMORY;
    Status st = r->make_graph(c, r->operation, &graph);
    if (st == OK) st = collect(c, r, graph, all);
    if (st == OK) st = choose_among(c, r, all, plan);
    for (int i = 0; i < all->count; i++) cudnn_api_free(&c->api, all->list[i].config);
    cudnn_api_free(&c->api, graph);
    mem_free(all);
    return st;
}
