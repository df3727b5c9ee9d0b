/* device_marks.c - numbers of operations, copied by the stream itself. */
#include "trainer/engine/comm/device_marks.h"

#include <stdio.h>
#include <string.h>

enum { CODES = 2 * DEVICE_MARKS_NAMES + 1 };

static Status fill_codes(DeviceMarks *m, int32_t *host)
{
    Backend *b = m->backend;
    Stream *stream = NULL;
    for (int i = 0; i < CODES; i++) host[i] = i;
    TRY(b->v->stream_create(b, LANE_COPY, &stream));
    Status status = b->v->device->copy_in(b, m->codes, host, CODES * sizeof *host, stream);
    if (status == OK) status = b->v->stream_wait(b, stream);
    b->v->stream_destroy(b, stream);
    return status;
}

Status device_marks_init(DeviceMarks *m, Backend *backend)
{
    void *host = NULL, *codes = NULL, *reached = NULL;
    memset(m, 0, sizeof *m);
    m->backend = backend;
    const DeviceVTable *device = backend->v->device;
    Status status = backend->v->alloc(backend, CODES * sizeof *m->codes, &codes);
    m->codes = codes;
    if (status == OK) status = device->alloc_pinned(backend, sizeof *m->reached, &reached);
    m->reached = reached;
    if (status == OK) status = device->alloc_pinned(backend, CODES * sizeof *m->codes, &host);
    if (status == OK) status = fill_codes(m, host);
    if (host) device->free_pinned(backend, host);
    if (status != OK) device_marks_deinit(m);
    return status;
}

void device_marks_deinit(DeviceMarks *m)
{
    if (m->codes) m->backend->v->free(m->backend, m->codes);
    if (m->reached) m->backend->v->device->free_pinned(m->backend, m->reached);
    m->codes = m->reached = NULL;
}

static int index_of(DeviceMarks *m, const char *name)
{
    const int count = m->name_count;
    for (int i = 0; i < count; i++)
        if (m->names[i] == name || strcmp(m->names[i], name) == 0) return i;
    if (count == DEVICE_MARKS_NAMES) return count - 1;
    m->names[count] = count == DEVICE_MARKS_NAMES - 1 ? "a later operation" : name;
    m->name_count = count + 1; /* after the name: describe() runs on another thread */
    return count;
}

static Status enqueue(DeviceMarks *m, Stream *stream, int code)
{
    Backend *b = m->backend;
    return b->v->device->copy_out(b, m->reached, m->codes + code, sizeof *m->codes, stream);
}

Status device_marks_begin(DeviceMarks *m, Stream *stream, const char *name)
{
    return enqueue(m, stream, 2 * index_of(m, name) + 1);
}

Status device_marks_end(DeviceMarks *m, Stream *stream, const char *name)
{
    return enqueue(m, stream, 2 * index_of(m, name) + 2);
}

bool device_marks_describe(const DeviceMarks *m, const char *what, char *out, size_t bytes)
{
    int code = m->reached ? *(volatile const int32_t *)m->reached : 0; /* the device writes it */
    int index = (code - 1) / 2;
    bool known = code > 0 && index < m->name_count, under_way = known && code % 2 == 1;
    if (under_way) snprintf(out, bytes, "%s", m->names[index]);
    else if (known) snprintf(out, bytes, "%s, after %s", what, m->names[index]);
    else snprintf(out, bytes, "%s", what);
    return under_way;
}
