/* cudnn_api.h - cuDNN's graph (backend) API: the library opened at run time, and short ways to make
 * and read its descriptors.
 *
 * A descriptor is made in one call from a table of attributes. cuDNN copies what it is given, so
 * parts may be destroyed as soon as the whole is made. */
#ifndef CONVOY_KERNELS_CUDA_CUDNN_CUDNN_API_H
#define CONVOY_KERNELS_CUDA_CUDNN_CUDNN_API_H
#include "base/process/library.h"
#include "base/status.h"
#include <cudnn_graph.h>
#include <stddef.h>
#include <stdint.h>

/* Device properties, plans as JSON and workspace sizes of engine configurations. */
#define CUDNN_OLDEST_VERSION 90800
#if CUDNN_VERSION < CUDNN_OLDEST_VERSION
#error "cuDNN 9.8 or newer is needed"
#endif

#define CUDNN_TEXT_OF(x)  CUDNN_TEXT_OF_(x)
#define CUDNN_TEXT_OF_(x) #x
#define CUDNN_COMPILED_VERSION                                                                     \
    CUDNN_TEXT_OF(CUDNN_MAJOR) "." CUDNN_TEXT_OF(CUDNN_MINOR) "." CUDNN_TEXT_OF(CUDNN_PATCHLEVEL)

#define CUDNN_FUNCTIONS(X)                                                                         \
    X(get_version, cudnnGetVersion)                                                                \
    X(get_cudart_version, cudnnGetCudartVersion)                                                   \
    X(graph_version_check, cudnnGraphVersionCheck)                                                 \
    X(get_error_string, cudnnGetErrorString)                                                       \
    X(get_last_error_string, cudnnGetLastErrorString)                                              \
    X(create, cudnnCreate)                                                                         \
    X(destroy, cudnnDestroy)                                                                       \
    X(set_stream, cudnnSetStream)                                                                  \
    X(create_descriptor, cudnnBackendCreateDescriptor)                                             \
    X(destroy_descriptor, cudnnBackendDestroyDescriptor)                                           \
    X(set_attribute, cudnnBackendSetAttribute)                                                     \
    X(get_attribute, cudnnBackendGetAttribute)                                                     \
    X(finalize, cudnnBackendFinalize)                                                              \
    X(execute, cudnnBackendExecute)

typedef struct CudnnApi {
    CUDNN_FUNCTIONS(LIBRARY_POINTER)
} CudnnApi;

/* Opens the library, which then stays open for the life of the process: cuDNN keeps threads and
 * state of its own. ERR_ENV if it is not there, incomplete, or of another major version than the
 * headers. */
Status cudnn_api_open(CudnnApi *out);

/* OK, or a sentence of what was tried, cuDNN's name of the error and its reason: ERR_MEMORY where
 * memory ran out, ERR_INTERNAL where cuDNN calls our parameters bad, else ERR_ENV. */
Status cudnn_api_status(const CudnnApi *api, cudnnStatus_t status, const char *what);
/* The innermost reason that cuDNN noted on this thread since the last call of this function; "" if
 * none. Notes pile up on calls that succeed too. */
void cudnn_api_last_reason(const CudnnApi *api, char *out, size_t bytes);

typedef struct CudnnAttribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    const void *values; /* of a descriptor attribute: addresses of cudnnBackendDescriptor_t */
} CudnnAttribute;

/* Creates a descriptor, sets its attributes and finalises it. *out is NULL on error. what: for the
 * sentence. */
Status cudnn_api_make(const CudnnApi *api, cudnnBackendDescriptor_t *out,
                      cudnnBackendDescriptorType_t type, const CudnnAttribute *attributes,
                      int count, const char *what);
/* The same with cuDNN's own answer, for calls that may be refused; *out is NULL unless the answer
 * is success. */
cudnnStatus_t cudnn_api_try_make(const CudnnApi *api, cudnnBackendDescriptor_t *out,
                                 cudnnBackendDescriptorType_t type,
                                 const CudnnAttribute *attributes, int count);
void cudnn_api_free(const CudnnApi *api, cudnnBackendDescriptor_t d); /* NULL ok */
/* Reads up to count values; returns how many there were, 0 where cuDNN refuses. */
int64_t cudnn_api_read(const CudnnApi *api, cudnnBackendDescriptor_t d,
                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t count, void *values);
/* A text attribute (JSON); returns to caller (mem_free), NUL-terminated. */
Status cudnn_api_read_text(const CudnnApi *api, cudnnBackendDescriptor_t d,
                           cudnnBackendAttributeName_t name, char **out, const char *what);
#endif
