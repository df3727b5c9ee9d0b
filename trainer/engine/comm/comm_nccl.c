/* comm_nccl.c - device memory summed by NCCL. The only file that includes nccl.h; the library is
 * opened at run time.
 *
 * NON-BLOCKING. The communicator is made with blocking = 0: calls may return ncclInProgress, and
 * the next one may only be made when ncclCommGetAsyncError no longer says so. That is what lets a
 * wait for a peer have an end, here (settle()) and in the watchdog of device_comm.c, and what makes
 * ncclCommAbort safe.
 *
 * MEMORY. In a recorded step NCCL registers by itself what it sums, in an ordinary one only what
 * was registered before. Registered memory may be cut into other pieces, which begin their sums at
 * other ranks: where a run is resumed its first steps are ordinary, so their bits could differ.
 * Hence memory for sums is registered from the start.
 *
 * VERSIONS. ncclConfig_t carries its own size, so a library older or newer than the header
 * understands it; fields that an older one does not know are left at their defaults here. */
#include "trainer/engine/comm/device_transport.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/process/library.h"
#include "trainer/engine/comm/peer_watchdog.h"

enum { OLDEST_VERSION = NCCL_VERSION(2, 19, 0), NAP_US = 20, SPINS = 200, BLOCKS = 4 };

#define NCCL_FUNCTIONS(X)                                                                          \
    X(get_version, ncclGetVersion)                                                                 \
    X(get_unique_id, ncclGetUniqueId)                                                              \
    X(init_rank, ncclCommInitRankConfig)                                                           \
    X(split, ncclCommSplit)                                                                        \
    X(finalize, ncclCommFinalize)                                                                  \
    X(destroy, ncclCommDestroy)                                                                    \
    X(abort, ncclCommAbort)                                                                        \
    X(async_error, ncclCommGetAsyncError)                                                          \
    X(error_string, ncclGetErrorString)                                                            \
    X(last_error, ncclGetLastError)                                                                \
    X(allreduce, ncclAllReduce)                                                                    \
    X(mem_alloc, ncclMemAlloc)                                                                     \
    X(mem_free, ncclMemFree)                                                                       \
    X(comm_register, ncclCommRegister)                                                             \
    X(comm_deregister, ncclCommDeregister)

/* Types of the library's functions, from its header. */
typedef struct NcclFunctions {
    NCCL_FUNCTIONS(LIBRARY_POINTER)
} NcclFunctions;

typedef struct NcclBlock { /* memory for sums */
    void *data, *handle;   /* handle: of its registration */
} NcclBlock;

typedef struct NcclTransport { /* a DeviceTransport * is a NcclTransport * */
    NcclFunctions f;
    Comm *comm;
    int max_ctas;
    /* NULL: not connected, or aborted; atomic for abort() beside other calls */
    _Atomic(ncclComm_t) nccl;
    _Atomic bool failed;
    NcclBlock blocks[BLOCKS];
    int block_count;
} NcclTransport;
_Static_assert(sizeof(ncclUniqueId) == sizeof(DeviceTransportId), "an id must fit");

static NcclTransport *self(DeviceTransport *c)
{
    return (NcclTransport *)c;
}

/* ---- the library ---- */

static void format_version(int version, char *out, size_t bytes)
{
    snprintf(out, bytes, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

static Status check_version(const NcclFunctions *f)
{
    int version = 0;
    char found[32], oldest[32];
    if (f->get_version(&version) != ncclSuccess)
        return fail(ERR_ENV, "NCCL does not report its version");
    if (version >= OLDEST_VERSION && version / 10000 == NCCL_MAJOR) return OK;
    format_version(version, found, sizeof found);
    format_version(OLDEST_VERSION, oldest, sizeof oldest);
    return fail(ERR_ENV, "found NCCL %s, but %s or newer with major version %d is required", found,
                oldest, NCCL_MAJOR);
}

static Status open_library(NcclFunctions *api, void **library)
{
    static const char *const names[] = { "libnccl.so.2", NULL };
    const LibrarySymbol symbols[] = { NCCL_FUNCTIONS(LIBRARY_SYMBOL) };
    const LibrarySpec spec = { .title = "NCCL",
                               .file_names = names,
                               .symbols = symbols,
                               .symbol_count = sizeof symbols / sizeof symbols[0] };
    TRY(library_open(library, &spec));
    Status status = check_version(api);
    if (status == OK) return OK;
    library_close(*library);
    *library = NULL;
    return status;
}

static void nccl_version(char *out, size_t bytes)
{
    NcclFunctions f;
    void *library = NULL;
    char found[32], compiled[32];
    int version = 0;
    if (open_library(&f, &library) != OK) {
        snprintf(out, bytes, "%s", status_message());
        return;
    }
    f.get_version(&version);
    format_version(NCCL_VERSION_CODE, compiled, sizeof compiled);
    format_version(version, found, sizeof found);
    snprintf(out, bytes, "NCCL %s, compiled with %s", found, compiled);
    library_close(library);
}

/* ---- errors ---- */

/* After a failed call or an asynchronous error. */
static Status broken(NcclTransport *n, ncclResult_t result, const char *call, const char *name)
{
    const char *detail = n->f.last_error(n->nccl);
    n->failed = true;
    Status status =
        result == ncclInvalidArgument || result == ncclInvalidUsage ? ERR_ENV : ERR_PEER;
    return fail(status, "NCCL: %s%s%s: %s%s%s", call, name ? " of " : "", name ? name : "",
                n->f.error_string(result), detail && detail[0] ? ": " : "", detail ? detail : "");
}

static void nap(void)
{
    struct timespec t = { .tv_nsec = NAP_US * 1000L };
    nanosleep(&t, NULL);
}

/* Waits until the communicator may be used again. A peer that does not answer ends the process. */
static Status settle(NcclTransport *n, ncclResult_t result, const char *call, const char *name)
{
    double since_s = clock_s(), polled_s = since_s;
    for (int i = 0; result == ncclSuccess || result == ncclInProgress; i++) {
        ncclResult_t asked = n->f.async_error(n->nccl, &result);
        if (asked != ncclSuccess) result = asked;
        if (result != ncclInProgress) break;
        double now = clock_s(), timeout_s = n->comm->timeout_s;
        since_s = peer_watchdog_forgive(since_s, peer_watchdog_pause_s(&polled_s, now), now);
        if (timeout_s > 0 && now - since_s > timeout_s) {
            peer_watchdog_report(n->comm, now - since_s, name ? name : call,
                                 "NCCL: a peer was lost or hangs");
            peer_watchdog_exit(n->comm);
        }
        if (i > SPINS) nap();
    }
    return result == ncclSuccess ? OK : broken(n, result, call, name);
}

static Status usable(const NcclTransport *n, const char *name)
{
    if (n->nccl && !n->failed) return OK;
    return fail(ERR_PEER, "NCCL: %s: the communicator was aborted or has failed", name);
}

static Status nccl_error(DeviceTransport *c)
{
    NcclTransport *n = self(c);
    ncclResult_t result = ncclSuccess;
    if (!n->nccl) return OK;
    ncclResult_t asked = n->f.async_error(n->nccl, &result);
    if (asked != ncclSuccess) result = asked;
    return result == ncclSuccess || result == ncclInProgress
               ? OK
               : broken(n, result, "communicator", NULL);
}

/* ---- life ---- */

static Status nccl_device_id(int device, char *out, size_t bytes)
{
    cudaError_t error = cudaDeviceGetPCIBusId(out, (int)bytes, device);
    if (error == cudaSuccess) return OK;
    return fail(ERR_ENV, "CUDA device %d: %s", device, cudaGetErrorString(error));
}

static void nccl_abort(DeviceTransport *c)
{
    NcclTransport *n = self(c);
    n->failed = true;
    ncclComm_t comm = atomic_exchange(&n->nccl, NULL);
    if (comm) n->f.abort(comm);
}

/* Their registrations go first, where there still is what they were made with. */
static void release_blocks(NcclTransport *n, bool registered)
{
    for (int i = 0; i < n->block_count; i++) {
        const NcclBlock *b = &n->blocks[i];
        if (!registered && b->data) n->f.mem_free(b->data);
        else if (registered && b->handle && n->nccl && !n->failed)
            n->f.comm_deregister(n->nccl, b->handle);
    }
}

static void nccl_destroy(DeviceTransport *c)
{
    NcclTransport *n = self(c);
    if (!n) return;
    release_blocks(n, true);
    if (n->nccl && !n->failed &&
        settle(n, n->f.finalize(n->nccl), "ncclCommFinalize", NULL) == OK) {
        n->f.destroy(n->nccl);
        n->nccl = NULL;
    }
    nccl_abort(c);
    release_blocks(n, false);
    mem_free(n);
}

static Status nccl_open(DeviceTransport **out, Comm *comm, int device, int max_ctas)
{
    *out = NULL;
    NcclTransport *n = mem_calloc(1, sizeof *n);
    if (!n) return ERR_MEMORY;
    n->comm = comm;
    n->max_ctas = max_ctas;
    /* stays open: threads that NCCL leaves behind, and its handler at exit, run in it */
    void *library;
    Status status = open_library(&n->f, &library);
    cudaError_t error = status == OK ? cudaSetDevice(device) : cudaSuccess;
    if (error != cudaSuccess)
        status = fail(ERR_ENV, "NCCL: CUDA device %d: %s", device, cudaGetErrorString(error));
    if (status != OK) nccl_destroy((DeviceTransport *)n);
    else *out = (DeviceTransport *)n;
    return status;
}

static Status nccl_make_id(DeviceTransport *c, DeviceTransportId *id)
{
    NcclTransport *n = self(c);
    ncclUniqueId unique;
    ncclResult_t result = n->f.get_unique_id(&unique);
    if (result != ncclSuccess) return broken(n, result, "ncclGetUniqueId", NULL);
    memcpy(id->bytes, unique.internal, sizeof id->bytes);
    return OK;
}

static Status nccl_connect(DeviceTransport *c, const DeviceTransportId *id)
{
    NcclTransport *n = self(c);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;
    config.blocking = 0;
    if (n->max_ctas > 0) config.maxCTAs = n->max_ctas;
    memcpy(unique.internal, id->bytes, sizeof unique.internal);
    ncclComm_t comm = NULL;
    ncclResult_t result = n->f.init_rank(&comm, n->comm->world, unique, n->comm->rank, &config);
    n->nccl = comm;
    if (!comm) return broken(n, result, "ncclCommInitRankConfig", NULL);
    return settle(n, result, "ncclCommInitRankConfig", NULL);
}

/* With nothing else under way: NCCL wants that of a split. */
static Status nccl_split(DeviceTransport *c, int ranks, DeviceTransport **out)
{
    NcclTransport *n = self(c), *group = mem_calloc(1, sizeof *group);
    *out = (DeviceTransport *)group;
    if (!group) return ERR_MEMORY;
    *group = (NcclTransport){ .f = n->f, .comm = n->comm, .max_ctas = n->max_ctas };
    ncclComm_t comm = NULL;
    ncclResult_t result =
        n->f.split(n->nccl, n->comm->rank / ranks, n->comm->rank, &comm, NULL); /* as its parent */
    TRY(settle(n, result, "ncclCommSplit", NULL));
    group->nccl = comm;
    if (!comm) return broken(n, ncclInternalError, "ncclCommSplit", NULL);
    return settle(group, ncclSuccess, "ncclCommSplit", NULL);
}

static Status nccl_alloc(DeviceTransport *c, size_t bytes, void **out)
{
    NcclTransport *n = self(c);
    *out = NULL;
    TRY(usable(n, "memory for sums"));
    ASSERT(n->block_count < BLOCKS);
    NcclBlock *b = &n->blocks[n->block_count++];
    ncclResult_t result = n->f.mem_alloc(&b->data, bytes);
    if (result != ncclSuccess)
        return fail(ERR_MEMORY,
                    "NCCL: ncclMemAlloc: %s: cannot allocate %.1f MB for sums; comm.zero_copy: "
                    "false does not need it",
                    n->f.error_string(result), (double)bytes / 1e6);
    cudaError_t error = cudaMemset(b->data, 0, bytes);
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (error != cudaSuccess)
        return fail(ERR_ENV, "memory for sums: %s", cudaGetErrorString(error));
    TRY(settle(n, n->f.comm_register(n->nccl, b->data, bytes, &b->handle), "ncclCommRegister",
               "memory for sums"));
    *out = b->data;
    return OK;
}

/* ---- operations ---- */

static Status nccl_type(DType type, ncclDataType_t *out)
{
    switch (type) {
    case DTYPE_F32:
        *out = ncclFloat32;
        return OK;
    case DTYPE_F64:
        *out = ncclFloat64;
        return OK;
    case DTYPE_BF16:
        *out = ncclBfloat16;
        return OK;
    case DTYPE_F16:
        *out = ncclFloat16;
        return OK;
    case DTYPE_I32:
    case DTYPE_U8:
    case DTYPE_I64:
    case DTYPE_COUNT:
        break;
    }
    return fail(ERR_INTERNAL, "NCCL: sums of %s are not supported", dtype_name(type));
}

static Status nccl_allreduce(DeviceTransport *c, const void *from, void *data, size_t count,
                             DType type, void *stream, const char *name)
{
    NcclTransport *n = self(c);
    ncclDataType_t t = ncclFloat32;
    TRY(usable(n, name));
    TRY(nccl_type(type, &t));
    return settle(n, n->f.allreduce(from, data, count, t, ncclSum, n->nccl, stream),
                  "ncclAllReduce", name);
}

static const DeviceTransportVTable nccl_vtable = {
    .version = nccl_version,
    .device_id = nccl_device_id,
    .open = nccl_open,
    .make_id = nccl_make_id,
    .connect = nccl_connect,
    .split = nccl_split,
    .alloc = nccl_alloc,
    .allreduce = nccl_allreduce,
    .error = nccl_error,
    .abort = nccl_abort,
    .destroy = nccl_destroy,
};
const DeviceTransportVTable *const device_transport_nccl = &nccl_vtable;
