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

static const char help[] =
    "usage: convoy doctor [--gpus N] [--efa N] [--strict] [--json] [--root DIR] "
    "[--topology FILE] [--ranks N] [--data DIR] [--clocks]\n\nLooks at this "
    "host: CPUs that this process may use, which of them ranks get, limits, memory, /dev/shm, "
    "network interfaces, EFA "
    "and\nInfiniBand, GPUs (clocks, throttling, memory errors), counters of energy, "
    "environment\nvariables, libraries. "
    "Each finding is ok, warn\nor fail, with what to do. It changes nothing and takes a moment "
    "(--data: seconds). On "
    "all hosts of a job:\n\n  srun --ntasks-per-node=1 convoy doctor --gpus 8 --efa 4 || exit 69\n "
    " mpirun --map-by ppr:1:node convoy doctor\n\nExit code: 69 where something fails, else 0.\n\n "
    " --gpus N            fewer GPUs than this are a failure\n  --efa N             fewer EFA "
    "adapters than this are a failure\n  --strict            warnings count as failures\n  --json  "
    "            one JSON object on one line\n  --root DIR          reads DIR/proc and DIR/sys "
    "instead (another host's, as saved), and asks no GPU\n  --topology FILE     places ranks on "
    "the machine that lstopo has written to "
    "FILE (lstopo FILE.xml), not on this\n  --ranks N           how many are placed (default: one "
    "for each GPU)\n  --data DIR          opens and reads files of the dataset there for some "
    "seconds: files/s, MB/s, free space, on\n                      Lustre how a file is spread\n "
    " --clocks            under mpirun or srun --mpi=pmix, a rank a host: how far their clocks are "
    "from rank 0's\n";

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
    Nvml *nvml = NULL;
    if (!o->root[0] && nvml_open(&nvml, NULL) != OK)
        snprintf(reason, sizeof reason, "%s", status_message());
    o->nvml = nvml;
    o->no_nvml = reason;
    doctor_run(o, r);
    nvml_close(nvml);
    TRY(print_report(r, args_value(args, "--json") != NULL));
    Verdict worst = doctor_worst(r);
    if (worst == VERDICT_OK || (worst == VERDICT_WARN && !args_value(args, "--strict"))) return OK;
    return fail(ERR_HEALTH, "this host is not fit: %s", first_of(r, worst)->text);
}

static Status command(const Args *args)
{
    DoctorOptions o = { .root = "" };
    TRY(args_count(args, "--gpus", -1, 0, DEVICES_MAX, &o.gpus));
    TRY(args_count(args, "--efa", -1, 0, DEVICES_MAX, &o.efa));
    TRY(args_count(args, "--ranks", 0, 1, DOCTOR_RANKS_MAX, &o.ranks));
    o.data = args_value(args, "--data");
    if (args_value(args, "--root")) o.root = args_value(args, "--root");
    TRY(log_open(NULL, 0, LOG_INFO)); /* every host of a job speaks for itself */
    const char *described = args_value(args, "--topology");
    o.described = described != NULL;
    DoctorReport *r = mem_alloc(sizeof *r);
    if (!r) return ERR_MEMORY;
    if (described || !o.root[0]) {
        Status opened = topology_open(&o.topology, described);
        if (opened != OK) mem_free(r);
        TRY(opened);
    }
    Status status = OK;
    if (args_value(args, "--clocks")) status = comm_create(&o.comm, CLOCKS_WAIT_S, NULL);
    if (o.comm) comm_set_timeout(o.comm, CLOCKS_WAIT_S);
    if (status == OK) status = look(&o, r, args);
    comm_destroy(o.comm);
    topology_close(o.topology);
    mem_free(r);
    return status;
}

const Command cmd_doctor = { help, .alone = command };
