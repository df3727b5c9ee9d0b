/* make_timelines.c - prints timelines, whose names tests/tools/timelines.h explains:
 *
 *     make_timelines --all     a row for all of them, as tests/golden/timelines.txt has them
 *     make_timelines NAME      one, as the files of tests/golden/timelines/ have them
 *
 * A name without an ending, as the rows begin, is the timeline of the first checksum. */
#include "tests/tools/timelines.h"
#include <stdio.h>
#include <string.h>

static Status print_all(StrBuf *out)
{
    str_add(out, "# build/make_timelines --all; names and endings: tests/tools/timelines.h\n");
    for (int i = 0; i < model_count(); i++) TRY(timelines_rows(model_at(i), out));
    return OK;
}

int main(int argc, char **argv)
{
    StrBuf out = { 0 };
    Status status = argc == 2 ? OK : fail(ERR_USAGE, "usage: make_timelines --all|NAME");
    if (status == OK)
        status = strcmp(argv[1], "--all") == 0 ? print_all(&out) : timelines_text(argv[1], &out);
    if (status == OK && out.text) fputs(out.text, stdout);
    if (status != OK) fprintf(stderr, "%s\n", status_message());
    str_free(&out);
    return status != OK;
}
