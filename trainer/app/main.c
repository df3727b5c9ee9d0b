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
#include "trainer/app/cmd/help.h"
#include "trainer/engine/guard/signals.h"
#include "trainer/engine/session/build_info.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const Command *const commands[] = {
    &cmd_train,   &cmd_launch,      &cmd_stop,   &cmd_drain,        /* train */
    &cmd_top,     &cmd_report_runs,                                 /* look */
    &cmd_eval,    &cmd_predict,     &cmd_export,                    /* use */
    &cmd_find_lr, &cmd_bench,       &cmd_scale,  &cmd_doctor,       /* measure */
    &cmd_inspect, &cmd_preview,     &cmd_index,  &cmd_pack,   NULL, /* prepare */
};
static const Command convoy = {
    .name = "",
    .summary = "train image classifiers, on one machine or many",
    .about = "convoy COMMAND --help explains a command; convoy --version prints versions. Exit "
             "codes: 0 done, 64 wrong command line or config, 65 unusable data or checkpoint, 69 a "
             "check failed, 70 internal error or out of memory, 71 diverged, 74 cannot write, 75 "
             "stopped and saved, 76 lost a rank, 78 environment.",
    .commands = commands,
};

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

static Status print_tables(void)
{
    StrBuf text = { 0 };
    help_add_tables(&text, &convoy);
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
    else if (status == OK && argc > 1 && strcmp(argv[1], "--tables") == 0) status = print_tables();
    else if (status == OK) status = commands_run(&convoy, argc - 1, argv + 1);
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
