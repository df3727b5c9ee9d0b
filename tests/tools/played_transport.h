/* played_transport.h - a device that is this process and a transport that records what it is asked,
 * for tests of what stands above NCCL. */
#ifndef CONVOY_TESTS_TOOLS_PLAYED_TRANSPORT_H
#define CONVOY_TESTS_TOOLS_PLAYED_TRANSPORT_H
#include "trainer/engine/comm/device_transport.h"
#include <stdatomic.h>

enum { PLAYED_DEVICE = 1000 }; /* its index, which no machine has */
struct Stream {
    int copies; /* to and from the device */
    bool stuck; /* in a sum: what is enqueued behind it never happens */
};
struct Event {
    _Atomic bool done;
};
extern Backend played_device;

/* What the transport does when it is asked. */
typedef struct Played {
    Status open_status, connect_status;
    _Atomic Status async_status; /* read by the watchdog */
    _Atomic int questions;       /* for errors, so far */
    double call_s;               /* how long a call takes */
    bool stick;                  /* sums begin and never end */
} Played;
extern Played played;
extern char played_calls[512]; /* "allreduce bucket 0;cast to f32;" ... of device and transport */
extern const DeviceTransportVTable played_transport;
#endif
