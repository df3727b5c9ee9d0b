/* event_file.c - see event_file.h. Protocol buffers: a field is (number << 3 | wire type), then its
 * value. */
#include "trainer/monitor/event_file.h"

#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/source/tfrecord.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
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

typedef struct Message {
    uint8_t data[RECORD_BYTES];
    size_t bytes;
} Message;

struct EventFile {
    int fd;
    char *path;
    Message summary, event, record;
};

/* ---- protocol buffers ---- */

static void put(Message *m, const void *data, size_t bytes)
{
    ASSERT(m->bytes + bytes <= sizeof m->data);
    memcpy(m->data + m->bytes, data, bytes);
    m->bytes += bytes;
}

static void put_little_endian(Message *m, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) put(m, &(uint8_t){ (uint8_t)(value >> 8 * i) }, 1);
}

static void put_varint(Message *m, uint64_t value)
{
    for (; value > 127; value >>= 7) put(m, &(uint8_t){ (uint8_t)(value | 128) }, 1);
    put(m, &(uint8_t){ (uint8_t)value }, 1);
}

static void put_key(Message *m, int field, int wire)
{
    put_varint(m, (uint64_t)field << 3 | (uint64_t)wire);
}

static void put_double(Message *m, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(m, field, WIRE_64);
    put_little_endian(m, bits, 8);
}

static void put_float(Message *m, int field, double value)
{
    uint32_t bits;
    memcpy(&bits, &(float){ (float)value }, sizeof bits);
    put_key(m, field, WIRE_32);
    put_little_endian(m, bits, 4);
}

static void put_bytes(Message *m, int field, const void *data, size_t bytes)
{
    put_key(m, field, WIRE_BYTES);
    put_varint(m, bytes);
    put(m, data, bytes);
}

/* ---- records ---- */

static void begin_event(EventFile *f, double unix_s, int64_t step)
{
    f->event.bytes = 0;
    put_double(&f->event, EVENT_WALL_TIME, unix_s);
    if (step <= 0) return;
    put_key(&f->event, EVENT_STEP, WIRE_VARINT);
    put_varint(&f->event, (uint64_t)step);
}

static Status write_event(EventFile *f)
{
    Message *r = &f->record;
    r->bytes = 0;
    put_little_endian(r, f->event.bytes, 8);
    put_little_endian(r, tfrecord_mask(crc32c_update(0, r->data, 8)), 4);
    put(r, f->event.data, f->event.bytes);
    put_little_endian(r, tfrecord_mask(crc32c_update(0, f->event.data, f->event.bytes)), 4);
    for (size_t done = 0; done < r->bytes;) {
        ssize_t n = write(f->fd, r->data + done, r->bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return fail(ERR_IO, "%s: cannot write: %s", f->path, strerror(n < 0 ? errno : ENOSPC));
        done += (size_t)n;
    }
    return OK;
}

static Status open_file(EventFile *f, const char *dir, const char *host, double unix_s)
{
    static const char version[] = "brain.Event:2";
    StrBuf path = { 0 };
    str_printf(&path, "%s/events.out.tfevents.%010lld.%s.%ld", dir, (long long)unix_s, host,
               (long)getpid());
    if (path.failed) return ERR_MEMORY;
    f->path = path.text;
    TRY(fs_make_dirs(dir));
    f->fd = open(f->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (f->fd < 0) return fail(ERR_IO, "%s: cannot open for writing: %s", f->path, strerror(errno));
    begin_event(f, unix_s, 0);
    put_bytes(&f->event, EVENT_VERSION, version, sizeof version - 1);
    return write_event(f);
}

Status event_file_create(EventFile **out, const char *dir, const char *host, double unix_s)
{
    *out = NULL;
    EventFile *f = mem_calloc(1, sizeof *f);
    if (!f) return ERR_MEMORY;
    f->fd = -1;
    Status status = open_file(f, dir, host, unix_s);
    if (status != OK) event_file_close(f);
    else *out = f;
    return status;
}

Status event_file_restart(EventFile *f, double unix_s, int64_t step)
{
    Message log = { .bytes = 0 };
    put_key(&log, SESSION_LOG_STATUS, WIRE_VARINT);
    put_varint(&log, STATUS_START);
    begin_event(f, unix_s, step);
    put_bytes(&f->event, EVENT_SESSION_LOG, log.data, log.bytes);
    return write_event(f);
}

Status event_file_add(EventFile *f, double unix_s, int64_t step, const EventScalar *scalars,
                      int count)
{
    Message value;
    ASSERT(count <= EVENT_SCALARS_MAX);
    f->summary.bytes = 0;
    for (int i = 0; i < count; i++) {
        value.bytes = 0;
        put_bytes(&value, VALUE_TAG, scalars[i].tag, strlen(scalars[i].tag));
        put_float(&value, VALUE_SIMPLE, scalars[i].value);
        put_bytes(&f->summary, SUMMARY_VALUE, value.data, value.bytes);
    }
    begin_event(f, unix_s, step);
    put_bytes(&f->event, EVENT_SUMMARY, f->summary.data, f->summary.bytes);
    return write_event(f);
}

void event_file_close(EventFile *f)
{
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    mem_free(f->path);
    mem_free(f);
}
