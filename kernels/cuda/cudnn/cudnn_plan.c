/* cudnn_plan.c - see cudnn_plan.h. */
#include "kernels/cuda/cudnn/cudnn_plan.h"
#include "base/mem.h"
#include <string.h>

CudnnPlan *cudnn_plan_find(const CudnnContext *c, const char *key)
{
    for (CudnnPlan *p = c->plans; p; p = p->next)
        if (strcmp(p->key, key) == 0) return p;
    return NULL;
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

Status cudnn_plan_make_pack(const CudnnContext *c, cudnnBackendDescriptor_t *out, int operands,
                            void *const *data, void *workspace)
{
    static const int64_t ids[CUDNN_MAX_OPERANDS] = {
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24
    };
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
