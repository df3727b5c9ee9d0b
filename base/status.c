/* status.c - the per-thread sentence behind a Status, and the table of names and exit codes.
 *
 * The sentence lives in thread-local storage, so threads never see each other's errors; it is
 * written through a second buffer because an argument of fail() may be the sentence itself
 * (fail(code, "%s: again", status_message())). */
#include "base/status.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_BYTES 1024

static _Thread_local char message[MESSAGE_BYTES];
static _Atomic(StatusTell) told; /* NULL: nobody yet */

typedef struct StatusRow {
    const char *name;
    int exit_code;
} StatusRow;

static const StatusRow rows[] = {
    /* index: -status */
    { "ok", 0 },        { "usage", 64 },       { "data", 65 },     { "health", 69 },
    { "internal", 70 }, { "memory", 70 },      { "io", 74 },       { "stopped", 75 },
    { "peer", 76 },     { "environment", 78 }, { "diverged", 71 },
};

Status fail(Status code, const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    ASSERT(code != OK);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(message, text, sizeof message);
    return code;
}

Status fail_note(Status code, const char *format, ...)
{
    char text[2 * MESSAGE_BYTES + 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, MESSAGE_BYTES, format, args);
    va_end(args);
    size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, ": %s", message);
    memcpy(message, text, sizeof message - 1); /* the last byte stays 0 */
    return code;
}

const char *status_message(void)
{
    return message;
}

static const StatusRow *row_of(Status status)
{
    int index = -(int)status;
    ASSERT(index >= 0 && index < (int)(sizeof rows / sizeof rows[0]));
    return &rows[index];
}

const char *status_name(Status status)
{
    return row_of(status)->name;
}

int status_exit_code(Status status)
{
    return row_of(status)->exit_code;
}

void status_tell_broken(StatusTell tell)
{
    told = tell;
}

void assert_failed(const char *file, int line, const char *cond)
{
    StatusTell tell = told;
    if (tell) tell(file, line, cond);
    else
        dprintf(STDERR_FILENO, "convoy: error: rank 0: %s:%d: broken invariant: %s\n", file, line,
                cond);
    abort();
}
