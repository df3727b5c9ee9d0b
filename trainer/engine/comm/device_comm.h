/* device_comm.h - sums of device memory over the ranks, enqueued on a stream, and the watchdog of
 * what the device does.
 *
 * TRANSPORTS. device_comm_choose() says how this world sums, the same on all ranks:
 *   DEVICE_COMM_SELF    one rank: a sum enqueues nothing, no library is needed
 *   DEVICE_COMM_NCCL    a device for each rank: NCCL, opened at run time
 *   DEVICE_COMM_STAGED  ranks share a device, which NCCL refuses, or this build has no NCCL (the
 *                       CUDA test double): the caller copies to pinned host memory and sums by
 *                       comm.h. Nothing may be enqueued here; the watchdog works as with the
 *                       others. Such a step cannot be captured.
 * A host is what NCCL takes for one: where the environment gives ranks NCCL_HOSTIDs of their own,
 * those that share a device use NCCL too, over sockets and in turns, so that one GPU is enough to
 * try it.
 *
 * ENQUEUE. allreduce returns when the sum is in the stream; it may be captured, after one run
 * outside a capture (NCCL connects lazily). All ranks enqueue the same sums in the same order,
 * captured or not alike, and all of one DeviceComm on one stream. Data must stay allocated until
 * the stream got there. Only one thread calls in here; it need not be the one that created.
 *
 * FAILURE. A failed call (ERR_PEER, ERR_ENV, ERR_MEMORY) means that this communicator is lost: end
 * the job by comm_abort(). A peer that is lost or hangs shows as an event that never comes.
 * device_comm_watch() tells the watchdog thread which one the caller expects next; it looks every
 * 50 ms at that event and at NCCL's own error. On an error, or when comm's timeout has passed since
 * the call, it logs rank, host, step and phase (comm_set_progress) and the operation, aborts the
 * communicator and ends the process with code 76, as comm.h's watchdog does. The operation that it
 * names is known inside a captured step too: each operation writes its number to pinned memory when
 * it begins and ends. Time in which the whole process stood still does not count against peers.
 *
 * CAPTURE. The watchdog asks for events while others capture: captures must be of the thread-local
 * mode. */
#ifndef CONVOY_TRAINER_ENGINE_COMM_DEVICE_COMM_H
#define CONVOY_TRAINER_ENGINE_COMM_DEVICE_COMM_H
#include "base/status.h"
#include "kernels/backend.h"
#include "trainer/engine/comm/comm.h"

typedef enum DeviceCommTransport {
    DEVICE_COMM_SELF,
    DEVICE_COMM_NCCL,
    DEVICE_COMM_STAGED
} DeviceCommTransport;

typedef struct DeviceComm DeviceComm;

/* Collective. device: index among the visible ones, DeviceVTable.device_index(). *out is the same
 * on all ranks; so is the error. */
Status device_comm_choose(DeviceCommTransport *out, Comm *comm, int device);
/* Collective. The number of ranks that use this rank's device, itself included: told by where the
 * device sits, because a scheduler may show each rank a single one, always of index 0. device -1:
 * this rank has none; then 1. */
Status device_comm_sharers(int *out, Comm *comm, int device);

/* "0000:3B:00.0", where a device sits on this host; "" where nothing tells. */
void device_comm_bus_id(int device, char *out, size_t bytes);

/* Collective; agreed on (comm_agree): all ranks have it or all get the error. Borrows comm and
 * backend until destroyed. The backend must have a DeviceVTable. max_ctas: most thread blocks that
 * NCCL may use (comm.max_ctas); 0 leaves it to NCCL. ERR_ENV naming what is missing: NCCL, a new
 * enough version, the device. A peer that does not come within comm's timeout ends the process with
 * code 76. Starts the watchdog thread. */
Status device_comm_create(DeviceComm **out, Comm *comm, Backend *backend,
                          DeviceCommTransport transport, int max_ctas);
/* NULL ok. Collective with NCCL; all that was enqueued must have finished, and captured steps that
 * hold operations of d must have been destroyed. A peer that does not come ends the process. */
void device_comm_destroy(DeviceComm *d);
DeviceCommTransport device_comm_transport(const DeviceComm *d);

/* Collective and agreed, once, with NCCL: from here on sums may go over groups of this many ranks
 * in a row; ranks divides the world. */
Status device_comm_group(DeviceComm *d, int ranks);
/* With NCCL: zero-filled device memory for sums, NCCL's own and registered with it, so that sums in
 * it need no copies, recorded or not alike. d owns it until it is destroyed; a few such blocks are
 * all there may be. All ranks must sum in such memory, at the same offset, or none. NCCL may take
 * more than bytes. Local. */
Status device_comm_alloc(DeviceComm *d, size_t bytes, void **out);
/* data[i] = sum over ranks, in place. type: DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64; 16-bit
 * sums are rounded to that type at every hop. name: for the watchdog ("bucket 3"); outlives d.
 * count 0 is fine. */
Status device_comm_allreduce(DeviceComm *d, void *data, size_t count, DType type, Stream *stream,
                             const char *name);
/* The same with NCCL, of from[i], which stays as it is. */
Status device_comm_allreduce_from(DeviceComm *d, const void *from, void *data, size_t count,
                                  DType type, Stream *stream, const char *name);
/* The same in place, with group over this rank's group alone. All sums of d go through one stream:
 * so two communicators never wait for each other. */
Status device_comm_allreduce_group(DeviceComm *d, void *data, size_t count, DType type, bool group,
                                   Stream *stream, const char *name);
/* The same for f32 data that travels as another type: cast into scratch (count elements of wire,
 * 16-byte aligned), summed there, cast back. wire DTYPE_F32: scratch is not used. */
Status device_comm_allreduce_as(DeviceComm *d, float *data, size_t count, DType wire, void *scratch,
                                Stream *stream, const char *name);

/* The caller will wait for event, which was recorded (outside of a capture) behind the work that it
 * stands for. Replaces what was watched before: a later event of the same stream stands for the
 * earlier one. The watchdog forgets the event when it has been reached; the event must stay alive
 * until then, or until watch is called with another one or NULL (nothing is expected). what: names
 * the work where no operation is under way ("step", "evaluation"); static. */
void device_comm_watch(DeviceComm *d, Event *event, const char *what);

/* "NCCL 2.28.9, compiled with 2.28.9", or why there is none */
void device_comm_version(char *out, size_t bytes);
#endif
