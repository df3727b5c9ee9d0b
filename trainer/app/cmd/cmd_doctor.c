/* cmd_doctor.c - convoy doctor: looks at this host before a run does. */
#include "base/log.h"
#include "base/mem.h"
#include "base/process/process.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/app/doctor/doctor.h"
#include "trainer/engine/place/topology.h"
#include <stdio.h>

#define DEVICES_MAX   1024
#define CLOCKS_WAIT_S 60.0 /* for the other ranks */

static const ArgRow rows[] = {
    { "--gpus", "N", .help = "fail if there are fewer GPUs", .max = DEVICES_MAX },
    { "--efa", "N", .help = "fail if there are fewer EFA adapters", .max = DEVICES_MAX },
    { "--strict", .help = "treat warnings as failures" },
    { "--json", .help = "print one JSON object on one line" },
    { "--root", "DIR",
      .help = "read DIR/proc and DIR/sys instead (saved from another host) and ask no GPU" },
    { "--topology", "FILE",
      .help = "place ranks on the machine that lstopo wrote to FILE (lstopo FILE.xml), not on this "
              "one" },
    { "--ranks", "N", .help = "how many ranks to place (default: one per GPU)", .min = 1,
      .max = DOCTOR_RANKS_MAX },
    { "--data", "DIR",
      .help = "open and read files of the dataset in DIR for some seconds: files/s, MB/s, free "
              "space, and on Lustre the striping" },
    { "--clocks",
      .help = "under mpirun or srun --mpi=pmix, one rank per host: how far the clocks differ from "
              "that of rank 0" },
    ARG_ROW_END,
};

static Status print_report(const DoctorReport *r, bool json)
{
    StrBuf text = { 0 };
    if (json) doctor_add_json(r, process_host(), &text);
    else doctor_add_table(r, process_host(), &text);
    return log_print_text(OK, &text);
}

static const Finding *first_of(const DoctorReport *r, Verdict v)
{
    for (int i = 0; i < r->count; i++)
        if (r->finding[i].verdict == v) return &r->finding[i];
    return NULL;
}

static Status look(DoctorOptions *o, DoctorReport *r, const Args *args)
{
    char reason[DOCTOR_TEXT_BYTES] = "";
    Nvml *nvml FREED_BY(nvml_close_at) = NULL;
    if (!o->root[0] && nvml_open(&nvml, NULL) != OK)
        snprintf(reason, sizeof reason, "%s", status_message());
    o->nvml = nvml;
    o->no_nvml = reason;
    doctor_run(o, r);
    TRY(print_report(r, args_value(args, "--json") != NULL));
    Verdict worst = doctor_worst(r);
    if (worst == VERDICT_OK || (worst == VERDICT_WARN && !args_value(args, "--strict"))) return OK;
    return fail(ERR_HEALTH, "this host failed a check: %s", first_of(r, worst)->text);
}

static Status command(const Args *args)
{
    DoctorOptions o = { .root = "", .gpus = -1, .efa = -1 };
    TRY(args_whole(args, "--gpus", &o.gpus));
    TRY(args_whole(args, "--efa", &o.efa));
    TRY(args_whole(args, "--ranks", &o.ranks));
    o.data = args_value(args, "--data");
    if (args_value(args, "--root")) o.root = args_value(args, "--root");
    TRY(log_open(NULL, 0, LOG_INFO)); /* every host of a job speaks for itself */
    const char *described = args_value(args, "--topology");
    o.described = described != NULL;
    DoctorReport *r FREED = mem_alloc(sizeof *r);
    if (!r) return ERR_MEMORY;
    if (described || !o.root[0]) TRY(topology_open(&o.topology, described));
    Status status = OK;
    if (args_value(args, "--clocks")) status = comm_create(&o.comm, CLOCKS_WAIT_S, NULL);
    if (o.comm) comm_set_timeout(o.comm, CLOCKS_WAIT_S);
    if (status == OK) status = look(&o, r, args);
    comm_destroy(o.comm);
    topology_close(o.topology);
    return status;
}

const Command cmd_doctor = {
    .name = "doctor",
    .group = "Measure",
    .summary = "check this host for what would slow a run down or stop it",
    .about = "Checks this host: the CPUs that this process may use and which of them ranks get, "
             "limits, memory, /dev/shm, network interfaces, EFA and InfiniBand, GPUs (clocks, "
             "throttling, memory errors), energy counters, environment variables, libraries. Each "
             "finding is ok, warn or fail, with what to do. It changes nothing and takes a moment "
             "(--data: seconds). Exit code: 69 if a check fails, else 0. On all hosts of a job:",
    .examples = "srun --ntasks-per-node=1 convoy doctor --gpus 8 --efa 4 || exit 69\n"
                "mpirun --map-by ppr:1:node convoy doctor",
    .args = rows,
    .alone = command,
};
