/* cudnn_context_emu.c - stands for cuDNN's context where convolutions are plain loops
 * (conv_plan_emu.c). */
#include "base/mem.h"
#include "kernels/cuda/cudnn/cudnn_context.h"
#include "tests/emu/cudnn_emu.h"
#include <stdio.h>
#include <string.h>

typedef struct Choice {
    struct Choice *next;
    char *key;
    bool taken;
} Choice;

struct CudnnContext {
    char *properties;
    bool times;
    Choice *choices;
    int added;
};

/* Nothing is measured here unless a test wants it: an emulated device is equally slow at
 * everything. */
bool cudnn_context_times(const CudnnContext *c)
{
    return c->times;
}

bool cudnn_context_compiles(const CudnnContext *c)
{
    (void)c;
    return true;
}

void cudnn_context_leave_stream(CudnnContext *c)
{
    (void)c;
}

void emu_cudnn_time(CudnnContext *c)
{
    c->times = true;
}

int emu_cudnn_choices(const CudnnContext *c)
{
    return c->added;
}

bool cudnn_context_find_choice(const CudnnContext *c, const char *key, bool *taken)
{
    const Choice *one = c->choices;
    while (one && strcmp(one->key, key) != 0) one = one->next;
    if (one) *taken = one->taken;
    return one != NULL;
}

Status cudnn_context_add_choice(CudnnContext *c, const char *key, bool taken, double ms)
{
    Choice *one = mem_calloc(1, sizeof *one);
    (void)ms;
    if (!one) return ERR_MEMORY;
    *one = (Choice){ c->choices, mem_strdup(key), taken };
    c->choices = one;
    c->added++;
    return one->key ? OK : ERR_MEMORY;
}

Status cudnn_context_create(CudnnContext **out, CudaBackend *b, const char *properties,
                            const char *plan_cache)
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
    for (Choice *one = c->choices, *next; one; one = next) {
        next = one->next;
        mem_free(one->key);
        mem_free(one);
    }
    mem_free(c->properties);
    mem_free(c);
}

bool cudnn_context_version(char *out, size_t bytes)
{
    snprintf(out, bytes, "plain loops for cuDNN");
    return true;
}

uint64_t cudnn_context_library(void)
{
    return 1;
}

const char *cudnn_context_compiled_version(void)
{
    return "none";
}
