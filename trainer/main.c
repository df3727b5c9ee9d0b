/* main.c - the front door: finds the subcommand, and turns its Status into the only exit there is.
 *
 * The log is opened on the console with the rank that the launcher's environment tells, long before MPI runs: what
 * happens before ranks know each other (help, a wrong option) is the same on all of them and is said by rank 0 alone.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "data/data.h"
#include "kernels/backend.h"
#include "trainer/cmd.h"
#include "trainer/comm/device_comm.h"
#include "trainer/config_keys.h"
#include "trainer/signals.h"
#include <stdlib.h>
#include <string.h>

#ifndef CONVOY_MPI
#define CONVOY_MPI 0
#endif
#ifndef CONVOY_CUDA
#define CONVOY_CUDA 0
#endif

static const CmdRow commands[] = {
    { "train", cmd_train, "CONFIG [--set key=value]...", "train a network; under mpirun, one on all ranks" },
    { "eval", cmd_eval, "CONFIG --checkpoint FILE [--set key=value]...",
      "evaluate a checkpoint on the validation set" },
    { "predict", cmd_predict, "CHECKPOINT IMAGE... [--json]", "say what images show" },
    { "export", cmd_export, "CHECKPOINT OUT [--names NAMES]", "write a checkpoint's weights for other programs" },
    { "launch", cmd_launch, "--hosts-script CMD [--min-hosts N] ... -- train CONFIG",
      "keep a run going over mpirun while hosts fail and return" },
    { "drain", cmd_drain, "[--wait SECONDS]", "ask the ranks of this host to save a checkpoint and leave" },
    { "bench", cmd_bench, "decode|loader|step|allreduce [CONFIG]", "measure one part by itself" },
    { "index", cmd_index, "DIR [--out FILE] [--check]", "list a dataset once, so that runs need not" },
    { "pack", cmd_pack, "DIR OUT [--verify]", "put a dataset's files into a few large ones" },
    { "inspect", cmd_inspect, "model|checkpoint|config|dataset|memory ...", "show a thing without running it" },
};
static const char tail[] = "  convoy --version\n"
                           "      versions of convoy and of the libraries in it\n\n"
                           "Every command has --help. Exit codes: 0 done, 64 command line or config, 65 data or "
                           "checkpoint, 70 internal or memory,\n"
                           "74 cannot write, 75 stopped with a checkpoint saved (run again to continue), 76 a peer was "
                           "lost, 78 environment.\n";

/* Rank according to the launcher (Open MPI, PMIx, MPICH); 0 where there is none. */
static int launcher_rank(void)
{
    static const char *const variables[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK" };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *text = getenv(variables[i]);
        int64_t rank;
        if (text && str_to_i64(text, &rank) && rank >= 0 && rank <= INT32_MAX) return (int)rank;
    }
    return 0;
}

static void print_cpu(StrBuf *text)
{
    char cpu[256];
    Backend *backend;
    if (backend_cpu_create(&backend, 0) != OK) {
        str_printf(text, "backend cpu: %s\n", status_message());
        return;
    }
    backend->v->describe(backend, cpu, sizeof cpu);
    str_printf(text, "backend cpu: %s\n", cpu);
    backend_destroy(backend);
}

static void print_cuda(StrBuf *text)
{
    char versions[1024], why[512], nccl[512];
    backend_cuda_versions(versions, sizeof versions);
    str_printf(text, "backend cuda: %s\n", versions);
    if (!CONVOY_CUDA) return;
    int devices = backend_cuda_devices(why, sizeof why);
    if (devices) str_printf(text, "cuda devices: %d\n", devices);
    else str_printf(text, "cuda devices: none: %s\n", why);
    device_comm_version(nccl, sizeof nccl);
    str_printf(text, "%s\n", nccl);
}

static Status print_version(void)
{
    StrBuf text = { 0 };
    str_printf(&text, "convoy %s\n", CONVOY_VERSION);
    print_cpu(&text);
    print_cuda(&text);
    str_printf(&text, "MPI: %s\n%s\nlibyaml %s\n", CONVOY_MPI ? "yes" : "no", data_library_versions(),
               config_yaml_version());
    Status status = text.failed ? fail(ERR_MEMORY, "out of memory printing the versions") : log_print(text.text);
    str_free(&text);
    return status;
}

int main(int argc, char **argv)
{
    signals_ignore_size_limit();
    int rank = launcher_rank();
    Status status = log_open(NULL, rank, LOG_INFO);
    if (status == OK && argc > 1 && strcmp(argv[1], "--version") == 0) status = print_version();
    else if (status == OK)
        status =
            cmd_dispatch("convoy", "command", commands, sizeof commands / sizeof commands[0], tail, argc - 1, argv + 1);
    if (rank != 0 && status != OK && status_message()[0] != '\0') {
        /* Failed before the ranks have met: rank 0 says why. mpirun ends a job at the first rank that fails; wait. */
        clock_sleep_s(0.3);
        status = cmd_silence(status);
    }
    cmd_report(status);
    log_close();
    return status_exit_code(status);
}
