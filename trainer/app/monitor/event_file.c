/* event_file.c - see event_file.h. */
#include "trainer/app/monitor/event_file.h"

#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/wire.h"
#include "data/source/tfrecord.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7
};
enum {
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    SESSION_LOG_STATUS = 1,
    STATUS_START = 1
};
enum {
    VALUE_BYTES = 96,
    SUMMARY_BYTES = EVENT_SCALARS_MAX * (VALUE_BYTES + 4),
    RECORD_BYTES = SUMMARY_BYTES + 64
};

struct EventFile {
    int fd;
    char *path;
    StrBuf value, summary, event, record; /* RECORD_BYTES each */
};

static void begin_event(EventFile *f, double unix_s, int64_t step)
{
    str_clear(&f->event);
    wire_put_double(&f->event, EVENT_WALL_TIME, unix_s);
    if (step > 0) wire_put_int(&f->event, EVENT_STEP, step);
}

static uint32_t checksum(const char *data, size_t bytes)
{
    return tfrecord_mask(crc32c_update(0, data, bytes));
}

static Status write_event(EventFile *f)
{
    StrBuf *r = &f->record;
    str_clear(r);
    wire_put_number(r, f->event.length, 8);
    wire_put_number(r, checksum(r->text, 8), 4);
    str_add_n(r, f->event.text, f->event.length);
    wire_put_number(r, checksum(f->event.text, f->event.length), 4);
    ASSERT(!f->event.failed && !r->failed); /* RECORD_BYTES were there before */
    if (fs_write_all(f->fd, r->text, r->length)) return OK;
    return fail(ERR_IO, "%s: cannot write: %s", f->path, strerror(errno));
}

static Status open_file(EventFile *f, const char *dir, const char *host, double unix_s)
{
    StrBuf path = { 0 };
    str_printf(&path, "%s/events.out.tfevents.%010lld.%s.%ld", dir, (long long)unix_s, host,
               (long)getpid());
    if (path.failed) return ERR_MEMORY;
    f->path = path.text;
    TRY(fs_make_dirs(dir));
    TRY(fs_open(&f->fd, f->path, O_WRONLY | O_CREAT | O_APPEND));
    begin_event(f, unix_s, 0);
    wire_put_text(&f->event, EVENT_VERSION, "brain.Event:2");
    return write_event(f);
}

Status event_file_create(EventFile **out, const char *dir, const char *host, double unix_s)
{
    *out = NULL;
    EventFile *f = mem_calloc(1, sizeof *f);
    if (!f) return ERR_MEMORY;
    f->fd = -1;
    bool room = str_reserve(&f->value, RECORD_BYTES) && str_reserve(&f->summary, RECORD_BYTES) &&
                str_reserve(&f->event, RECORD_BYTES) && str_reserve(&f->record, RECORD_BYTES);
    Status status = !room ? ERR_MEMORY : open_file(f, dir, host, unix_s);
    if (status != OK) event_file_close(f);
    else *out = f;
    return status;
}

Status event_file_restart(EventFile *f, double unix_s, int64_t step)
{
    str_clear(&f->value);
    wire_put_int(&f->value, SESSION_LOG_STATUS, STATUS_START);
    begin_event(f, unix_s, step);
    wire_put_message(&f->event, EVENT_SESSION_LOG, &f->value);
    return write_event(f);
}

Status event_file_add(EventFile *f, double unix_s, int64_t step, const EventScalar *scalars,
                      int count)
{
    ASSERT(count <= EVENT_SCALARS_MAX);
    str_clear(&f->summary);
    for (int i = 0; i < count; i++) {
        str_clear(&f->value);
        wire_put_text(&f->value, VALUE_TAG, scalars[i].tag);
        wire_put_float(&f->value, VALUE_SIMPLE, (float)scalars[i].value);
        wire_put_message(&f->summary, SUMMARY_VALUE, &f->value);
    }
    begin_event(f, unix_s, step);
    wire_put_message(&f->event, EVENT_SUMMARY, &f->summary);
    return write_event(f);
}

void event_file_close(EventFile *f)
{
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    str_free(&f->value);
    str_free(&f->summary);
    str_free(&f->event);
    str_free(&f->record);
    mem_free(f->path);
    mem_free(f);
}
