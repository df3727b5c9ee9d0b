/* comm_nccl_absent.c - in place of comm_nccl.c in a build without NCCL. */
#include "trainer/comm/device_carrier.h"

const DeviceCarrierVTable *const device_carrier_nccl = NULL;
