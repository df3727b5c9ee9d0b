/* rank_epochs.c - see rank_epochs.h. */
#include "trainer/train/rank_epochs.h"
#include "base/mem.h"

_Static_assert(sizeof(RankEpoch) == 2 * sizeof(double), "a RankEpoch travels as two numbers");

Status rank_epochs_gather(RankEpoch **out, Comm *comm, const Backend *backend, double seconds)
{
    const DeviceVTable *device = backend->v->device;
    RankEpoch *ranks = mem_calloc((size_t)comm->world, sizeof *ranks);
    *out = NULL;
    Status status = comm_agree(comm, ranks ? OK : ERR_MEMORY);
    if (status != OK) {
        mem_free(ranks);
        return status;
    }
    ranks[comm->rank] =
        (RankEpoch){ .seconds = seconds, .device = device ? device->device_index(backend) : -1 };
    CommJob job = {
        .kind = COMM_ALLGATHER, .type = COMM_F64, .data = ranks, .count = 2, .name = "epoch"
    };
    comm_post(comm, &job);
    comm_wait(comm, &job);
    *out = ranks;
    return OK;
}
