/* loop_spent.c - see loop_spent.h. */
#include "trainer/engine/train/loop_spent.h"

#include <math.h>

Status loop_spent_begin(Loop *l, Energy *energy)
{
    EnergyCover cover;
    char uuid[ENERGY_UUID_BYTES] = "";
    const DeviceVTable *device = l->s->backend->v->device;
    if (device) device->device_uuid(l->s->backend, uuid, sizeof uuid);
    l->spent.energy = energy;
    TRY(energy_add_gpus(energy, l->s->comm, uuid, &cover));
    l->spent.hosts = cover.hosts;
    energy_describe(&cover, l->spent.source);
    return OK;
}

/* Of all hosts, since the last time. *wait_share: of that time, mean over ranks. */
static Spent take(Loop *l, double *wait_share)
{
    Spent now;
    energy_read(l->spent.energy, &now);
    double sums[] = { now.host_s, now.gpu_j, now.cpu_j, now.assumed_j, l->spent.wait_s };
    comm_allreduce(l->s->comm, sums, sizeof sums / sizeof sums[0], COMM_F64, COMM_SUM, "spent");
    now = (Spent){ sums[0], sums[1], sums[2], sums[3] };
    Spent since = now;
    cost_add_times(&since, &l->spent.last, -1);
    const double seconds = since.host_s / (double)l->spent.hosts;
    *wait_share = fmin(1, sums[4] / l->s->comm->world / fmax(seconds, 1e-9));
    l->spent.last = now;
    l->spent.wait_s = 0;
    return since;
}

static void record(Loop *l, CostPart part, const Spent *s)
{
    cost_add(&l->spent.sums.part[part], s);
    const Config *c = l->s->config;
    const Spent total = cost_sum(&l->spent.sums);
    SpentRecord r = { .text = config_is_text(c),
                      .part = cost_part_names[part],
                      .step = l->spent.step,
                      .images = part == COST_TRAIN ? l->spent.images : 0,
                      .host_seconds = s->host_s,
                      .gpu_j = s->gpu_j,
                      .cpu_j = s->cpu_j,
                      .assumed_j = s->assumed_j,
                      .total_host_seconds = total.host_s,
                      .has_energy = l->spent.source[0] != '\0',
                      .total_j = cost_joules(&total),
                      .energy_source = l->spent.source,
                      .cost = cost_money(c, s),
                      .total_cost = cost_money(c, &total),
                      .currency = c->cost.currency,
                      .price_per_host_hour = c->cost.price_per_host_hour,
                      .price_per_kwh = c->cost.price_per_kwh,
                      .pue = c->cost.pue,
                      .price_note = c->cost.price_note };
    if (l->pending == OK) l->pending = run_events_record(l->events, RECORD_SPENT, &r);
}

void loop_spent_start(Loop *l)
{
    l->spent.step = l->start.step;
    l->spent.started = true;
    loop_spent_end(l, COST_START);
}

void loop_spent_finish(Loop *l)
{
    if (!l->spent.started) return;
    loop_spent_end(l, COST_TRAIN);
    loop_spent_end(l, COST_CHECKPOINT); /* commands for them too */
}

void loop_spent_end(Loop *l, CostPart part)
{
    double wait_share;
    if (part == COST_TRAIN && l->spent.images == 0) return;
    Spent s = take(l, &wait_share);
    if (part == COST_TRAIN) {
        Spent wait = { 0 };
        cost_add_times(&wait, &s, wait_share);
        cost_add_times(&s, &wait, -1);
        cost_add(&l->epoch.spent, &s);
        cost_add(&l->epoch.waited, &wait);
        if (wait_share > 0) record(l, COST_WAIT, &wait);
    }
    record(l, part, &s);
    l->spent.images = 0;
}
