/* cudnn_use.c - see cudnn_use.h. */
#include "kernels/cuda/cudnn/cudnn_use.h"
#include "base/log.h"
#include "base/mem.h"
#include "kernels/cuda/cudnn/cudnn_cache.h"
#include "kernels/cuda/cudnn/cudnn_choose.h"
#include <stdio.h>
#include <string.h>

static bool usable(const CudnnContext *c, CudnnPlan *p, size_t workspace_limit)
{
    int64_t bytes = 0;
    if (p->plan || c->uncompiled) return true;
    Status st = cudnn_plan_load(c, p);
    if (st == OK && !cudnn_api_read(&c->api, p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                    CUDNN_TYPE_INT64, 1, &bytes))
        st = fail(ERR_DATA, "it does not report its workspace size");
    if (st == OK && (bytes < 0 || (size_t)bytes > workspace_limit))
        st = fail(ERR_DATA, "it needs too much workspace: %lld bytes", (long long)bytes);
    if (st == OK) p->workspace = (size_t)bytes;
    else log_warning("%s: the plan of %s is not used: %s", c->cache_path, p->key, status_message());
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
Status cudnn_use_get(CudnnContext *c, const PlanRequest *r, const CudnnPlan **out)
{
    bool refused = false;
    *out = NULL;
    CudnnPlan *p = cudnn_plan_find(c, r->key);
    if (!p && c->timed && c->cache_path && cudnn_cache_join(c)) p = cudnn_plan_find(c, r->key);
    while (!p || !usable(c, p, r->workspace_limit)) {
        if (p) {
            CudnnPlan **link = &c->plans;
            while (*link != p) link = &(*link)->next;
            *link = p->next;
            cudnn_plan_destroy(c, p);
            refused = true;
        }
        /* Held where the file's plan was refused: saving joins the file, which would put that plan
         * in the place of the new one again. Else it may do so, and the loop looks at it. */
        TRY(add(c, r, refused, &p));
        if (c->timed) cudnn_cache_save(c);
    }
    p->held = true;
    *out = p;
    return OK;
}

Status cudnn_use_require(const CudnnContext *c, size_t oldest, const char *what)
{
    const size_t found = c->api.get_version();
    if (found >= oldest) return OK;
    return fail(ERR_ENV, "%s needs cuDNN %zu.%zu or newer, not %zu.%zu", what, oldest / 10000,
                oldest / 100 % 100, found / 10000, found / 100 % 100);
}

Status cudnn_use_bind(CudnnUse *u, int operands, void *const *data, void *workspace)
{
    const size_t bytes = (size_t)operands * sizeof *data;
    for (int i = 0; i < operands; i++) ASSERT(data[i]);
    cudnn_cache_save(u->context);
    if (u->pack && memcmp(data, u->data, bytes) == 0 && workspace == u->workspace) return OK;
    cudnn_use_release(u);
    memcpy(u->data, data, bytes);
    u->workspace = workspace;
    return cudnn_plan_make_pack(u->context, &u->pack, operands, u->data, workspace);
}

Status cudnn_use_run(const CudnnUse *u, cudaStream_t stream)
{
    ASSERT(u->pack);
    return cudnn_plan_execute(u->context, u->plan->plan, u->pack, stream);
}

void cudnn_use_release(CudnnUse *u)
{
    if (u->pack) cudnn_api_free(&u->context->api, u->pack);
    u->pack = NULL;
}
