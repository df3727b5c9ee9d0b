/* cmd.c - see cmd.h. */
#include "trainer/app/cmd/cmd.h"
#include "base/log.h"

Status cmd_silence(Status status)
{
    return status == OK ? OK : fail(status, "%s", "");
}

Status cmd_report(Status status)
{
    if (status == OK || status_message()[0] == '\0') return status;
    if (status == ERR_STOPPED) log_info("%s: %s", log_program(), status_message());
    else log_error("%s", status_message());
    return cmd_silence(status);
}
