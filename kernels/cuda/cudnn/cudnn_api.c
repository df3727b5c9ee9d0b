/* cudnn_api.c - see cudnn_api.h. */
#include "kernels/cuda/cudnn/cudnn_api.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>

static Status open_library(CudnnApi *api)
{
    static const char *const file_names[] = { "libcudnn_graph.so." CUDNN_TEXT_OF(CUDNN_MAJOR),
                                              NULL };
    const LibrarySymbol symbols[] = { CUDNN_FUNCTIONS(LIBRARY_SYMBOL) };
    const LibrarySpec spec = { .title = "cuDNN",
                               .file_names = file_names,
                               .symbols = symbols,
                               .symbol_count = sizeof symbols / sizeof symbols[0] };
    void *handle = NULL;
    return library_open(&handle, &spec);
}

Status cudnn_api_open(CudnnApi *out)
{
    TRY(open_library(out));
    const size_t version = out->get_version();
    if (version / 10000 != CUDNN_MAJOR || version < CUDNN_OLDEST_VERSION)
        return fail(
            ERR_ENV,
            "cuDNN %zu.%zu.%zu was found, but this convoy was built for %s and needs 9.8 or "
            "newer of version %d",
            version / 10000, version / 100 % 100, version % 100, CUDNN_COMPILED_VERSION,
            CUDNN_MAJOR);
    return cudnn_api_status(out, out->graph_version_check(),
                            "checking that cuDNN's libraries have the same version");
}

void cudnn_api_last_reason(const CudnnApi *api, char *out, size_t bytes)
{
    static const char mark[] = "Reason: ";
    char text[2048] = "";
    api->get_last_error_string(text, sizeof text);
    text[sizeof text - 1] = '\0';
    const char *reason = strstr(text, mark);
    reason = reason ? reason + strlen(mark) : text;
    snprintf(out, bytes, "%.*s", (int)strcspn(reason, "\n"), reason);
}

Status cudnn_api_status(const CudnnApi *api, cudnnStatus_t status, const char *what)
{
    char reason[256];
    if (status == CUDNN_STATUS_SUCCESS) return OK;
    const bool no_memory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    const bool our_fault = CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_BAD_PARAM;
    cudnn_api_last_reason(api, reason, sizeof reason);
    return fail(no_memory   ? ERR_MEMORY
                : our_fault ? ERR_INTERNAL
                            : ERR_ENV,
                "%s: %s (%d)%s%s", what, api->get_error_string(status), (int)status,
                reason[0] ? ": " : "", reason);
}

cudnnStatus_t cudnn_api_try_make(const CudnnApi *api, cudnnBackendDescriptor_t *out,
                                 cudnnBackendDescriptorType_t type,
                                 const CudnnAttribute *attributes, int count)
{
    *out = NULL;
    cudnnBackendDescriptor_t made = NULL;
    cudnnStatus_t status = api->create_descriptor(type, &made);
    for (int i = 0; i < count && status == CUDNN_STATUS_SUCCESS; i++) {
        const CudnnAttribute *a = &attributes[i];
        status = api->set_attribute(made, a->name, a->type, a->count, a->values);
    }
    if (status == CUDNN_STATUS_SUCCESS) status = api->finalize(made);
    if (status == CUDNN_STATUS_SUCCESS) *out = made;
    else cudnn_api_free(api, made);
    return status;
}

Status cudnn_api_make(const CudnnApi *api, cudnnBackendDescriptor_t *out,
                      cudnnBackendDescriptorType_t type, const CudnnAttribute *attributes,
                      int count, const char *what)
{
    char stale[8];
    /* Reading forgets: what calls before have noted is no reason for this one's failure. */
    cudnn_api_last_reason(api, stale, sizeof stale);
    return cudnn_api_status(api, cudnn_api_try_make(api, out, type, attributes, count), what);
}

void cudnn_api_free(const CudnnApi *api, cudnnBackendDescriptor_t d)
{
    if (d) api->destroy_descriptor(d);
}

int64_t cudnn_api_read(const CudnnApi *api, cudnnBackendDescriptor_t d,
                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t count, void *values)
{
    int64_t there = 0;
    return api->get_attribute(d, name, type, count, &there, values) == CUDNN_STATUS_SUCCESS ? there
                                                                                            : 0;
}

Status cudnn_api_read_text(const CudnnApi *api, cudnnBackendDescriptor_t d,
                           cudnnBackendAttributeName_t name, char **out, const char *what)
{
    int64_t bytes = 0, again = 0;
    *out = NULL;
    TRY(cudnn_api_status(api, api->get_attribute(d, name, CUDNN_TYPE_CHAR, 0, &bytes, NULL), what));
    char *text = mem_calloc((size_t)bytes + 1, 1);
    if (!text) return ERR_MEMORY;
    Status st = cudnn_api_status(
        api, api->get_attribute(d, name, CUDNN_TYPE_CHAR, bytes, &again, text), what);
    if (st == OK) *out = text;
    else mem_free(text);
    return st;
}
