/* report.c - lines on stdout. Flushed at once: a child that crashes must not take its last words
 * along. */
#include "tests/ops/check.h"

#include <stdarg.h>
#include <stdio.h>

void report(const char *format, ...)
{
    char line[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    fputs(line, stdout);
    fputs("\n", stdout);
    fflush(stdout);
}
