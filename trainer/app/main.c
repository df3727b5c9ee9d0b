/* main.c - the front door: finds the subcommand, and turns its Status into the only exit there is.
 *
 * The log is opened on the console with the rank that the launcher's environment tells, long before
 * MPI runs: what happens before ranks know each other (help, a wrong option) is the same on all of
 * them and is said by rank 0 alone.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "trainer/app/cmd/cmd.h"
#include "trainer/app/cmd/commands.h"
#include "trainer/engine/guard/signals.h"
#include "trainer/engine/session/build_info.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const CommandRow commands[] = {
    { "train", &cmd_train, "CONFIG|RUN [key=value]...",
      "train a network; under mpirun, one on all ranks" },
    { "eval", &cmd_eval, "RUN|CHECKPOINT|CONFIG [--checkpoint FILE] [key=value]...",
      "evaluate a run or a checkpoint on the validation set" },
    { "predict", &cmd_predict, "RUN|CHECKPOINT IMAGE...", "say what images show" },
    { "export", &cmd_export, "RUN|CHECKPOINT OUT [--names NAMES]",
      "write a checkpoint's weights for other programs" },
    { "launch", &cmd_launch, "-n N|--hosts-script CMD ... -- train CONFIG",
      "keep a run going over mpirun, on this host or while hosts fail and return" },
    { "stop", &cmd_stop, "RUN [--wait SECONDS]",
      "ask a run to save a checkpoint and leave, from any host" },
    { "drain", &cmd_drain, "[--run RUN] [--wait SECONDS]",
      "ask the ranks of this host to save a checkpoint and leave" },
    { "top", &cmd_top, "RUN [--once] [--every SECONDS]", "show how a run is doing" },
    { "doctor", &cmd_doctor, "[--gpus N] [--efa N] [--strict] [--json]",
      "look at this host: what would slow a run down" },
    { "scale", &cmd_scale, "CONFIG|RUN [key=value]...",
      "measure how epoch time changes with the number of ranks" },
    { "report", &cmd_report_runs, "RUN... [--out FILE]", "write a page about runs, with plots" },
    { "preview", &cmd_preview, "CONFIG|RUN --out FILE [key=value]...",
      "write a page that shows what a run would be shown" },
    { "find-lr", &cmd_find_lr, "CONFIG|RUN [--steps N] [key=value]...",
      "show how high a learning rate may be" },
    { "bench", &cmd_bench, "decode|loader|step|allreduce [CONFIG|RUN]",
      "measure one part by itself" },
    { "index", &cmd_index, "DIR [--out FILE] [--check]",
      "list a dataset once, so that runs need not" },
    { "pack", &cmd_pack, "DIR OUT [--verify]", "put a dataset's files into a few large ones" },
    { "inspect", &cmd_inspect, "model|checkpoint|config|dataset|memory ...",
      "show a thing without running it" },
};
static const char tail[] =
    "  convoy --version\n"
    "      versions of convoy and of the libraries in it\n\nEvery command "
    "has --help. Exit codes: 0 done, 64 command line or config, 65 data or "
    "checkpoint, 69 a health check failed, 70 internal or memory,\n71 "
    "training diverged, 74 cannot write, 75 stopped with a checkpoint saved (run again to "
    "continue), 76 a peer was lost, 78 environment.\n";

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

static Status print_version(void)
{
    StrBuf text = { 0 };
    build_info_describe(&text);
    return log_print_text(OK, &text);
}

/* Where standard input, output or error is closed, the next file that is opened would take its
 * place, and get what is printed. */
static Status fill_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return fail(ERR_ENV, "descriptor %d is closed, and /dev/null cannot be opened", fd);
    return OK;
}

/* What runs, or asks a run, ends as that ends; all other commands have an answer to print. */
static Status check_output(const char *command)
{
    static const char *const runs[] = { "train", "launch", "scale", "stop", "drain" };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        if (strcmp(command, runs[i]) == 0) return OK;
    return log_check_output();
}

int main(int argc, char **argv)
{
    Status status = fill_standard_descriptors();
    signals_ignore_size_limit();
    if (argc > 1 && strcmp(argv[1], "train") == 0) signals_install();
    int rank = launcher_rank();
    if (status == OK) status = log_open(NULL, rank, LOG_INFO);
    if (status == OK && argc > 1 && strcmp(argv[1], "--version") == 0) status = print_version();
    else if (status == OK)
        status = commands_dispatch("convoy", "command", commands,
                                   sizeof commands / sizeof commands[0], tail, argc - 1, argv + 1);
    if (status == OK && argc > 1) status = check_output(argv[1]);
    if (rank != 0 && status != OK && status_message()[0] != '\0') {
        /* Failed before the ranks have met: rank 0 says why. mpirun ends a job at the first rank
         * that fails; wait. */
        clock_sleep_s(0.3);
        status = cmd_silence(status);
    }
    cmd_report(status);
    log_close();
    return status_exit_code(status);
}
