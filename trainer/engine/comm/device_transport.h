/* device_transport.h - what carries sums of device memory between ranks, as device_comm.c drives
 * it: NCCL (comm_nccl.c), or a stand-in of the unit tests.
 *
 * allreduce() returns when the sum is in the stream. One thread at a time may be in any function;
 * only abort() may be called beside another one, which then fails. Where a call itself takes longer
 * than comm's timeout the process ends (peer_watchdog.h). After an error only abort and destroy are
 * left. */
#ifndef CONVOY_TRAINER_ENGINE_COMM_DEVICE_TRANSPORT_H
#define CONVOY_TRAINER_ENGINE_COMM_DEVICE_TRANSPORT_H
#include "kernels/dtype.h"
#include "trainer/engine/comm/device_comm.h"

typedef struct DeviceTransport DeviceTransport;
typedef struct DeviceTransportId { /* names a new communicator; made by one rank, passed to all */
    char bytes[128];
} DeviceTransportId;

typedef struct DeviceTransportVTable {
    /* "NCCL 2.28.9, compiled with 2.28.9", or why it cannot be opened */
    void (*version)(char *out, size_t bytes);
    /* "0000:3B:00.0": where a device sits, the same for all processes of a host. ERR_ENV if there
     * is no such device. */
    Status (*device_id)(int device, char *out, size_t bytes);
    /* Local: opens the library, checks its version, makes device the thread's. max_ctas 0: the
     * library's own choice. Borrows comm. */
    Status (*open)(DeviceTransport **out, Comm *comm, int device, int max_ctas);
    Status (*make_id)(DeviceTransport *c, DeviceTransportId *id);
    /* all ranks, at the same time */
    Status (*connect)(DeviceTransport *c, const DeviceTransportId *id);
    /* all ranks, once connected: another one among this rank's group, `ranks` in a row */
    Status (*split)(DeviceTransport *c, int ranks, DeviceTransport **out);
    /* Once connected, and not in a capture: see device_comm_alloc(). */
    Status (*alloc)(DeviceTransport *c, size_t bytes, void **out);
    /* from: what is summed, data itself or apart from it */
    Status (*allreduce)(DeviceTransport *c, const void *from, void *data, size_t count, DType type,
                        void *stream, const char *name);
    /* ERR_PEER if something went wrong since, on another thread of the library */
    Status (*error)(DeviceTransport *c);
    void (*abort)(DeviceTransport *c); /* stops its operations on this rank; may be called again */
    /* NULL ok. Waits for the peers where connected and neither failed nor aborted. */
    void (*destroy)(DeviceTransport *c);
} DeviceTransportVTable;

extern const DeviceTransportVTable *const device_transport_nccl; /* NULL: built without NCCL */

/* device_comm_create, _choose and _sharers with another transport in NCCL's place (NULL: none). */
Status device_transport_create_comm(DeviceComm **out, Comm *comm, Backend *backend,
                                    DeviceCommTransport transport, int max_ctas,
                                    const DeviceTransportVTable *v);
Status device_transport_choose(DeviceCommTransport *out, Comm *comm, int device,
                               const DeviceTransportVTable *v);
Status device_transport_sharers(int *out, Comm *comm, int device, const DeviceTransportVTable *v);
#endif
