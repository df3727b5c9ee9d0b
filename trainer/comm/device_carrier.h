/* device_carrier.h - what carries sums of device memory between ranks, as device_comm.c drives it:
 * NCCL (comm_nccl.c), or a stand-in of the unit tests.
 *
 * Functions that enqueue return when the operation is in the stream. One thread at a time may be in
 * any of them; only abort() may be called beside another one, which then fails. Where a call itself
 * takes longer than comm's timeout the process ends (watchdog.h). After an error only abort and
 * destroy are left. */
#ifndef CONVOY_TRAINER_COMM_DEVICE_CARRIER_H
#define CONVOY_TRAINER_COMM_DEVICE_CARRIER_H
#include "kernels/tensor.h"
#include "trainer/comm/device_comm.h"

typedef struct DeviceCarrier DeviceCarrier;
typedef struct DeviceCarrierId { /* names a new communicator; made by one rank, passed to all */
    char bytes[128];
} DeviceCarrierId;

typedef struct DeviceCarrierVTable {
    /* "NCCL 2.28.9, compiled with 2.28.9", or why it cannot be opened */
    void (*version)(char *out, size_t bytes);
    /* "0000:3B:00.0": where a device sits, the same for all processes of a host. ERR_ENV if there
     * is no such device. */
    Status (*device_id)(int device, char *out, size_t bytes);
    /* Local: opens the library, checks its version, makes device the thread's. max_ctas 0: the
     * library's own choice. Borrows comm. */
    Status (*open)(DeviceCarrier **out, Comm *comm, int device, int max_ctas);
    Status (*make_id)(DeviceCarrier *c, DeviceCarrierId *id);
    /* all ranks, at the same time */
    Status (*connect)(DeviceCarrier *c, const DeviceCarrierId *id);
    Status (*allreduce)(DeviceCarrier *c, void *data, size_t count, DType type, void *stream,
                        const char *name);
    Status (*broadcast)(DeviceCarrier *c, void *data, size_t bytes, int root, void *stream,
                        const char *name);
    Status (*group_begin)(DeviceCarrier *c);
    Status (*group_end)(DeviceCarrier *c, const char *name);
    /* ERR_PEER if something went wrong since, on another thread of the library */
    Status (*error)(DeviceCarrier *c);
    void (*abort)(DeviceCarrier *c); /* stops its operations on this rank; may be called again */
    /* NULL ok. Waits for the peers where connected and neither failed nor aborted. */
    void (*destroy)(DeviceCarrier *c);
} DeviceCarrierVTable;

extern const DeviceCarrierVTable *const device_carrier_nccl; /* NULL: built without NCCL */

/* device_comm_create, _choose and _sharers with another carrier in NCCL's place (NULL: none). */
Status device_comm_create_over(DeviceComm **out, Comm *comm, Backend *backend,
                               DeviceCommCarrier carrier, int max_ctas,
                               const DeviceCarrierVTable *v);
Status device_comm_choose_over(DeviceCommCarrier *out, Comm *comm, int device,
                               const DeviceCarrierVTable *v);
Status device_comm_sharers_over(int *out, Comm *comm, int device, const DeviceCarrierVTable *v);
#endif
