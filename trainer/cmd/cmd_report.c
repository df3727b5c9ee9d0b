/* cmd_report.c - convoy report RUN...: a page about runs. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/cmd/args.h"
#include "trainer/cmd/cmd.h"
#include "trainer/report/report.h"

static const char help[] =
    "usage: convoy report RUN... [--out FILE]\n\nWrites one page about runs, readable in any "
    "browser without a network, and CSV files beside it. RUN is a run\nfolder (run.dir), or a "
    "folder of convoy scale, which stands for all of its runs. Unfinished runs are shown as\nfar "
    "as they got; what is missing is said.\n\n  convoy report runs/demo\n  convoy report runs/a "
    "runs/b runs/c --out compare.html\n\nThe page: loss, accuracy, images/s, waits for data and "
    "for gradient sums, energy and money, environment,\nconfiguration. Where runs differ in their "
    "number of ranks "
    "and in nothing else that matters, epoch time and efficiency against\nranks too, with 95 % "
    "intervals where there are three values or more.\n\n  --out FILE          the page, which ends "
    "in .html (default: report.html in RUN, or here for several). Beside\n                      "
    "it: .csv (the records) and .scaling.csv (epoch times)\n";

Status cmd_report_runs(int argc, char **argv)
{
    Args args;
    TRY(args_parse(&args, argc, argv, help));
    if (args.help) return OK;
    const char *out = args_value(&args, "--out");
    if (out && !str_ends_with_nocase(out, ".html"))
        return fail(ERR_USAGE, "--out %s: must end in .html", out);
    char *own =
        !out && args.positional_count == 1 ? fs_join(args.positional[0], "report.html") : NULL;
    if (!out && args.positional_count == 1 && !own) return ERR_MEMORY;
    Status status = report_write(out   ? out
                                 : own ? own
                                       : "report.html",
                                 args.positional, args.positional_count);
    mem_free(own);
    return status;
}
