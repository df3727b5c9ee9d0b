/* comm_nccl_absent.c - in place of comm_nccl.c in a build without NCCL. */
#include "trainer/engine/comm/device_transport.h"

const DeviceTransportVTable *const device_transport_nccl = NULL;
