/* cudnn_context_emu.c - stands for cuDNN's context where convolutions are plain loops (conv_plan_emu.c). */
#include "base/mem.h"
#include "kernels/cuda/cudnn_graph.h"
#include <stdio.h>

struct CudnnContext {
    char *properties;
};

/* Nothing is measured here: an emulated device is equally slow at everything. */
bool cudnn_context_times(const CudnnContext *c)
{
    (void)c;
    return false;
}

void cudnn_context_leave_stream(CudnnContext *c)
{
    (void)c;
}

bool cudnn_choice_find(const CudnnContext *c, const char *key, bool *taken)
{
    (void)c;
    (void)key;
    (void)taken;
    return false;
}

Status cudnn_choice_add(CudnnContext *c, const char *key, bool taken, double ms)
{
    (void)c;
    (void)key;
    (void)taken;
    (void)ms;
    return OK;
}

Status cudnn_context_create(CudnnContext **out, CudaBackend *b, const char *properties, const char *plan_cache)
{
    (void)b;
    (void)plan_cache;
    if (!(*out = mem_calloc(1, sizeof **out))) return ERR_MEMORY;
    (*out)->properties = mem_strdup(properties ? properties : "{}");
    if ((*out)->properties) return OK;
    cudnn_context_destroy(*out);
    *out = NULL;
    return ERR_MEMORY;
}

void cudnn_context_destroy(CudnnContext *c)
{
    if (!c) return;
    mem_free(c->properties);
    mem_free(c);
}

const char *cudnn_context_properties(const CudnnContext *c)
{
    return c->properties;
}

bool cudnn_version(char *out, size_t bytes)
{
    snprintf(out, bytes, "plain loops for cuDNN");
    return true;
}

const char *cudnn_compiled_version(void)
{
    return "none";
}
