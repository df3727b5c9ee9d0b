/* checks_clock.c - how far this host's clock is from that of rank 0's host.
 *
 * Each rank reads its clock between two barriers, and rank 0 reads its own before the first and
 * behind the second: the moment lies between. Every try bounds the difference; what all allow is
 * left. */
#include "base/clock.h"
#include "base/process/process.h"
#include "trainer/app/doctor/doctor.h"
#include <math.h>
#include <stdio.h>

enum { TRIES = 20 };
#define SKEW_MUCH_S 0.5

void doctor_clock_bound(double before, double here, double after, double *least, double *most)
{
    if (here - after > *least) *least = here - after;
    if (here - before < *most) *most = here - before;
}

static void measure_clock(Comm *comm, double *least, double *most)
{
    *least = -INFINITY;
    *most = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        double times[2] = { clock_unix_s(), 0 };
        comm_barrier(comm, "clocks");
        double here = clock_unix_s();
        comm_barrier(comm, "clocks");
        times[1] = clock_unix_s();
        comm_broadcast(comm, times, sizeof times, 0, "clocks");
        doctor_clock_bound(times[0], here, times[1], least, most);
    }
}

void doctor_check_clocks(const DoctorOptions *o, DoctorReport *r)
{
    char first[64] = "";
    double least, most;
    if (!o->comm) return;
    snprintf(first, sizeof first, "%s", process_host());
    comm_broadcast(o->comm, first, sizeof first, 0, "clocks");
    measure_clock(o->comm, &least, &most);
    double skew = 0.5 * (least + most), slack = 0.5 * fabs(most - least);
    bool much = fabs(skew) - slack > SKEW_MUCH_S;
    if (o->comm->world == 1)
        doctor_find(r, VERDICT_OK, "", "one rank: no other clock to compare with");
    else if (o->comm->rank > 0)
        DOCTOR_JUDGE(r, much, VERDICT_WARN,
                     "run chrony or similar on all hosts: times in logs and files cannot be "
                     "compared between hosts",
                     "rank %d: clock %.1f ms %s that of rank 0 on %s (to %.1f ms)", o->comm->rank,
                     fabs(skew) * 1e3, skew < 0 ? "behind" : "ahead of", first, slack * 1e3);
    else doctor_find(r, VERDICT_OK, "", "rank 0: the reference clock for the other ranks");
}
