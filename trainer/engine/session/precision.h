/* precision.h - in which precision a run computes: what train.precision means on a device, and what
 * a network would gain there. */
#ifndef CONVOY_TRAINER_ENGINE_SESSION_PRECISION_H
#define CONVOY_TRAINER_ENGINE_SESSION_PRECISION_H
#include "kernels/backend.h"
#include "models/models.h"
#include "trainer/engine/config/config.h"

typedef struct PrecisionFacts {
    int wanted;         /* train.precision */
    int kept;           /* what auto is in the run that goes on; CONFIG_OTHER: nothing */
    bool cuda, emulate; /* emulate: device.emulate */
    int capability;     /* of the GPU: 90 is 9.0 */
    CpuBf16 cpu;        /* the least that the CPU of a rank has */
    bool other_rank;    /* and this rank's has more */
    double amx_share;   /* precision_amx_share() of the network */
} PrecisionFacts;

typedef struct PrecisionChoice {
    Precision precision;
    char why[96];        /* ", train.precision is auto: ..."; "" where it was named */
    const char *warning; /* NULL: none */
} PrecisionChoice;

/* ERR_ENV naming train.precision where the device does not compute in what was named, or in what
 * the run began with. */
Status precision_choose(PrecisionChoice *out, const PrecisionFacts *f);
/* The share of the forward work that is in attention and convolutions of a shape that AMX takes. */
double precision_amx_share(const Graph *g);
/* Of the network that the configuration describes. */
Status precision_network_share(double *out, const Config *c);
#endif
