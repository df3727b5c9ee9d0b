/* cudnn_context.c - a device as cuDNN sees it: the real one, or one described by a JSON text. */
#include "kernels/cuda/cudnn/cudnn_context.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "kernels/cuda/cudnn/cudnn_cache.h"
#include "kernels/cuda/cudnn/cudnn_plan.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* A text that cuDNN does not take is the user's mistake, not ours. */
static Status blame_text(Status st)
{
    char why[512];
    if (st != ERR_INTERNAL) return st;
    snprintf(why, sizeof why, "%s", status_message());
    return fail(ERR_DATA, "%s", why);
}

/* The descriptor of the device's properties, and their JSON. */
static Status describe_device(CudnnContext *c, int device, const char *properties)
{
    const int32_t id = device;
    const CudnnAttribute by_id = { CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &id };
    const CudnnAttribute by_text = { CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                     properties ? (int64_t)strlen(properties) : 0, properties };
    Status st = cudnn_api_make(&c->api, &c->device, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
                               properties ? &by_text : &by_id, 1, "device properties");
    if (st != OK) return properties ? blame_text(st) : st;
    return cudnn_api_read_text(&c->api, c->device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                               &c->properties, "device properties as JSON");
}

static Status number_in(const JsonValue *object, const char *key, int64_t *out)
{
    const JsonValue *v = json_get(object, key);
    if (!v || v->type != JSON_NUMBER || !v->is_integer)
        return fail(ERR_DATA, "device properties have no %s", key);
    *out = v->integer;
    return OK;
}

static Status read_numbers(CudnnContext *c)
{
    Arena *arena = NULL;
    JsonValue *root = NULL;
    Status st = arena_create(&arena, 0);
    if (st == OK) st = json_parse(arena, c->properties, strlen(c->properties), &root);
    if (st == OK) st = number_in(root, "deviceVer", &c->device_version);
    if (st == OK) st = number_in(root, "multiProcessorCount", &c->sm_count);
    arena_destroy(arena);
    return st;
}

/* FOLDER/cudnn-91900-sm90-132-timed.plans */
static Status name_cache(CudnnContext *c, const char *folder)
{
    StrBuf name = { 0 };
    if (!folder || !folder[0]) return OK;
    c->timed = c->handle != NULL;
    str_printf(&name, "%s/cudnn-%zu-sm%lld-%lld-%s.plans", folder, c->api.get_version(),
               (long long)c->device_version / 10, (long long)c->sm_count,
               c->timed ? "timed" : "heuristic");
    c->cache_path = name.text;
    return name.failed ? ERR_MEMORY : OK;
}

static Status fill(CudnnContext *c, const CudaBackend *b, const char *properties,
                   const char *plan_cache)
{
    TRY(cudnn_api_open(&c->api));
    if (!properties) TRY(cudnn_api_status(&c->api, c->api.create(&c->handle), "cudnnCreate"));
    TRY(describe_device(c, b->options.device, properties));
    TRY(read_numbers(c));
    TRY(name_cache(c, plan_cache));
    if (c->cache_path) cudnn_cache_read(c);
    return OK;
}

Status cudnn_context_create(CudnnContext **out, CudaBackend *b, const char *properties,
                            const char *plan_cache)
{
    *out = NULL;
    CudnnContext *c = mem_calloc(1, sizeof *c);
    if (!c) return ERR_MEMORY;
    Status st = fill(c, b, properties, plan_cache);
    if (st == OK) *out = c;
    else cudnn_context_destroy(c);
    return st;
}

void cudnn_context_destroy(CudnnContext *c)
{
    if (!c) return;
    cudnn_cache_save(c);
    for (CudnnPlan *p = c->plans, *next; p; p = next) {
        next = p->next;
        cudnn_plan_destroy(c, p);
    }
    if (c->device) cudnn_api_free(&c->api, c->device);
    if (c->handle) c->api.destroy(c->handle);
    mem_free(c->cache_path);
    mem_free(c->properties);
    mem_free(c);
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
    if (c->timed) cudnn_cache_save(c);
    return OK;
}

/* ---- what others ask ---- */

bool cudnn_context_times(const CudnnContext *c)
{
    return c->timed;
}

/* Without the driver cuDNN takes a second for each graph to find that it has no engine. A machine
 * without a GPU may have the driver, and then its kernels can be compiled for a device that is only
 * described. */
bool cudnn_context_compiles(const CudnnContext *c)
{
    if (c->handle) return true;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver) dlclose(driver);
    return driver != NULL;
}

void cudnn_context_leave_stream(CudnnContext *c)
{
    if (c->handle) c->api.set_stream(c->handle, NULL);
    /* the next stream may have the same address and must be set all the same */
    c->stream_set = false;
}

bool cudnn_context_version(char *out, size_t bytes)
{
    CudnnApi api;
    if (cudnn_api_open(&api) != OK) {
        snprintf(out, bytes, "%s", status_message());
        return false;
    }
    const size_t version = api.get_version();
    snprintf(out, bytes, "cuDNN %zu.%zu.%zu for CUDA %zu", version / 10000, version / 100 % 100,
             version % 100, api.get_cudart_version() / 1000);
    return true;
}

uint64_t cudnn_context_library(void)
{
    CudnnApi api;
    if (cudnn_api_open(&api) != OK) return 0;
    return (uint64_t)api.get_version() << 32 | (uint32_t)api.get_cudart_version();
}

const char *cudnn_context_compiled_version(void)
{
    return CUDNN_COMPILED_VERSION;
}
