/* cudnn_plan.c - plans by key: known, loaded from the cache, or chosen; and what runs them. */
#include "kernels/cuda/cudnn/cudnn_plan.h"
#include "base/log.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

CudnnPlan *cudnn_plan_find(const CudnnContext *c, const char *key)
{
    for (CudnnPlan *p = c->plans; p; p = p->next)
        if (strcmp(p->key, key) == 0) return p;
    return NULL;
}

static void unlink_plan(CudnnContext *c, const CudnnPlan *gone)
{
    CudnnPlan **link = &c->plans;
    while (*link != gone) link = &(*link)->next;
    *link = gone->next;
}

void cudnn_plan_destroy(const CudnnContext *c, CudnnPlan *p)
{
    if (!p) return;
    cudnn_api_free(&c->api, p->plan);
    mem_free(p->json);
    mem_free(p->key);
    mem_free(p);
}

/* Makes a plan of what the cache file has. Without the device's properties cuDNN would look for a
 * device here, and crash where there is none. */
Status cudnn_plan_load(const CudnnContext *c, CudnnPlan *p)
{
    const CudnnAttribute attributes[] = {
        { CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c->device },
        { CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)strlen(p->json),
          p->json },
    };
    ASSERT(c->device);
    return cudnn_api_make(&c->api, &p->plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, attributes, 2,
                          "loading a plan");
}

static bool usable(const CudnnContext *c, CudnnPlan *p, size_t workspace_limit)
{
    int64_t bytes = 0;
    if (p->plan || c->uncompiled) return true;
    Status st = cudnn_plan_load(c, p);
    if (st == OK && !cudnn_api_read(&c->api, p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                    CUDNN_TYPE_INT64, 1, &bytes))
        st = fail(ERR_DATA, "it has no workspace size");
    if (st == OK && (bytes < 0 || (size_t)bytes > workspace_limit))
        st = fail(ERR_DATA, "it needs %lld bytes of workspace", (long long)bytes);
    if (st == OK) p->workspace = (size_t)bytes;
    else log_warning("%s: the plan of %s is left out: %s", c->cache_path, p->key, status_message());
    return st == OK;
}

static Status add(CudnnContext *c, const PlanRequest *r, bool held, CudnnPlan **out)
{
    CudnnPlan *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    Status st = (p->key = mem_strdup(r->key)) ? OK : ERR_MEMORY;
    if (st == OK) st = cudnn_choose(c, r, p);
    if (st != OK) {
        cudnn_plan_destroy(c, p);
        return st;
    }
    snprintf(p->name, sizeof p->name, "cudnn engine %d", p->engine);
    p->held = held;
    p->next = c->plans;
    c->plans = p;
    c->unsaved = true;
    *out = p;
    return OK;
}

/* What was timed is saved at once: another process may have been first, and then its plan is
 * taken. */
Status cudnn_plan_get(CudnnContext *c, const PlanRequest *r, const CudnnPlan **out)
{
    bool refused = false;
    *out = NULL;
    CudnnPlan *p = cudnn_plan_find(c, r->key);
    if (!p && c->timed && c->cache_path && cudnn_cache_join(c)) p = cudnn_plan_find(c, r->key);
    while (!p || !usable(c, p, r->workspace_limit)) {
        if (p) {
            unlink_plan(c, p);
            cudnn_plan_destroy(c, p);
            refused = true;
        }
        TRY(add(c, r, refused, &p));
        if (c->timed) cudnn_plan_save(c);
    }
    p->held = true;
    *out = p;
    return OK;
}

/* ---- choices: entries of the same list, without a plan ---- */

bool cudnn_context_find_choice(const CudnnContext *c, const char *key, bool *taken)
{
    for (const CudnnPlan *p = c->plans; p; p = p->next) {
        if (!p->json || p->json[0] || strcmp(p->key, key) != 0) continue;
        *taken = p->engine != 0;
        return true;
    }
    return false;
}

Status cudnn_context_add_choice(CudnnContext *c, const char *key, bool taken, double ms)
{
    CudnnPlan *p = mem_calloc(1, sizeof *p);
    if (!p) return ERR_MEMORY;
    *p = (CudnnPlan){ .key = mem_strdup(key), .json = mem_strdup(""), .engine = taken, .ms = ms };
    if (!p->key || !p->json) {
        cudnn_plan_destroy(c, p);
        return ERR_MEMORY;
    }
    p->next = c->plans;
    c->plans = p;
    c->unsaved = true;
    if (c->timed) cudnn_plan_save(c);
    return OK;
}

void cudnn_plan_save(CudnnContext *c)
{
    if (!c->cache_path || !c->unsaved) return;
    c->unsaved = false;
    if (cudnn_cache_write(c) == OK) return;
    log_warning("cuDNN plans are not kept for the next start: %s", status_message());
    mem_free(c->cache_path);
    c->cache_path = NULL;
}

Status cudnn_plan_make_pack(const CudnnContext *c, cudnnBackendDescriptor_t *out, int operands,
                            void *const *data, void *workspace)
{
    static const int64_t ids[CUDNN_MAX_OPERANDS] = { 1, 2,  3,  4,  5,  6,  7,  8,
                                                     9, 10, 11, 12, 13, 14, 15, 16 };
    ASSERT(operands <= CUDNN_MAX_OPERANDS);
    const CudnnAttribute attributes[] = {
        { CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, operands, ids },
        { CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, operands, data },
        { CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace },
    };
    return cudnn_api_make(&c->api, out, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, attributes, 3,
                          "variant pack");
}

Status cudnn_plan_execute(CudnnContext *c, cudnnBackendDescriptor_t plan,
                          cudnnBackendDescriptor_t pack, cudaStream_t stream)
{
    ASSERT(c->handle);
    if (!c->stream_set || c->stream != stream) {
        TRY(cudnn_api_status(&c->api, c->api.set_stream(c->handle, stream), "cudnnSetStream"));
        c->stream = stream;
        c->stream_set = true;
    }
    return cudnn_api_status(&c->api, c->api.execute(c->handle, plan, pack), "cudnnBackendExecute");
}

/* ---- uses ---- */

Status cudnn_plan_use_bind(CudnnUse *u, int operands, void *const *data, void *workspace)
{
    const size_t bytes = (size_t)operands * sizeof *data;
    for (int i = 0; i < operands; i++) ASSERT(data[i]);
    cudnn_plan_save(u->context);
    if (u->pack && memcmp(data, u->data, bytes) == 0 && workspace == u->workspace) return OK;
    cudnn_plan_use_release(u);
    memcpy(u->data, data, bytes);
    u->workspace = workspace;
    return cudnn_plan_make_pack(u->context, &u->pack, operands, u->data, workspace);
}

Status cudnn_plan_use_run(const CudnnUse *u, cudaStream_t stream)
{
    ASSERT(u->pack);
    return cudnn_plan_execute(u->context, u->plan->plan, u->pack, stream);
}

void cudnn_plan_use_release(CudnnUse *u)
{
    if (u->pack) cudnn_api_free(&u->context->api, u->pack);
    u->pack = NULL;
}
