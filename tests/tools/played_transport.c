/* played_transport.c - see played_transport.h. */
#include "tests/tools/played_transport.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

char played_calls[512];
Played played;

/* ---- the device ---- */

static Status device_alloc(Backend *b, size_t bytes, void **out)
{
    (void)b;
    return (*out = mem_calloc(1, bytes)) ? OK : ERR_MEMORY;
}

static void device_free(Backend *b, void *p)
{
    (void)b;
    mem_free(p);
}

static Status device_copy(Backend *b, void *to, const void *from, size_t bytes, Stream *s)
{
    (void)b;
    if (!s->stuck) memcpy(to, from, bytes);
    s->copies++;
    return OK;
}

static Status device_cast(Backend *b, const void *in, DType from, void *out, DType to,
                          int64_t count, Stream *s)
{
    (void)b;
    (void)in;
    (void)out;
    (void)s;
    CHECK(count == 2 && (from == DTYPE_F32) != (to == DTYPE_F32));
    snprintf(played_calls + strlen(played_calls), sizeof played_calls - strlen(played_calls),
             "cast to %s;", dtype_name(to));
    return OK;
}

static Status device_event_done(Backend *b, Event *e, bool *done)
{
    (void)b;
    *done = e->done;
    return OK;
}

static void *device_handle(const Stream *s)
{
    void *handle;
    memcpy(&handle, &s, sizeof handle);
    return handle;
}

static int device_index(const Backend *b)
{
    (void)b;
    return PLAYED_DEVICE;
}

static Status device_stream(Backend *b, Lane lane, Stream **out)
{
    (void)b;
    (void)lane;
    return (*out = mem_calloc(1, sizeof **out)) ? OK : ERR_MEMORY;
}

static void device_stream_destroy(Backend *b, Stream *s)
{
    (void)b;
    mem_free(s);
}

static Status device_wait(Backend *b, Stream *s)
{
    (void)b;
    (void)s;
    return OK;
}

static const DeviceVTable device = { .alloc_pinned = device_alloc,
                                     .free_pinned = device_free,
                                     .copy_in = device_copy,
                                     .copy_out = device_copy,
                                     .cast = device_cast,
                                     .event_done = device_event_done,
                                     .stream_handle = device_handle,
                                     .device_index = device_index };
static const BackendVTable backend_vtable = { .name = "played",
                                              .device = &device,
                                              .alloc = device_alloc,
                                              .free = device_free,
                                              .stream_create = device_stream,
                                              .stream_destroy = device_stream_destroy,
                                              .stream_wait = device_wait };
Backend played_device = { &backend_vtable };

/* ---- the transport ---- */

struct DeviceTransport {
    int unused;
};
static DeviceTransport the_transport, the_group; /* the_group: what split() gives */
static _Atomic bool inside; /* a call of the transport, NCCL's must come one at a time */

static Status called(const char *what, const char *name)
{
    size_t length = strlen(played_calls);
    snprintf(played_calls + length, sizeof played_calls - length, "%s%s%s;", what, name ? " " : "",
             name ? name : "");
    return OK;
}

static Status play_device_id(int index, char *out, size_t bytes)
{
    snprintf(out, bytes, "bus %d", index);
    return OK;
}

static void stay_inside(void)
{
    if (atomic_exchange(&inside, true)) fprintf(stderr, "two threads in the transport\n");
    if (played.call_s > 0) clock_sleep_s(played.call_s);
    inside = false;
}

static Status play_open(DeviceTransport **out, Comm *comm, int index, int max_ctas)
{
    char text[32];
    (void)comm;
    snprintf(text, sizeof text, "%d %d", index, max_ctas);
    *out = played.open_status == OK ? &the_transport : NULL;
    called("open", text);
    return played.open_status == OK ? OK : fail(played.open_status, "no such library");
}

static Status play_make_id(DeviceTransport *c, DeviceTransportId *id)
{
    (void)c;
    memset(id->bytes, 'i', sizeof id->bytes);
    return called("id", NULL);
}

static Status play_connect(DeviceTransport *c, const DeviceTransportId *id)
{
    (void)c;
    CHECK(id->bytes[0] == 'i' && id->bytes[sizeof id->bytes - 1] == 'i');
    called("connect", NULL);
    return played.connect_status == OK ? OK : fail(played.connect_status, "no route");
}

static Status play_split(DeviceTransport *c, int ranks, DeviceTransport **out)
{
    CHECK(c == &the_transport && ranks > 1);
    *out = &the_group;
    return called("split", NULL);
}

static Status play_allreduce(DeviceTransport *c, const void *from, void *data, size_t count,
                             DType type, void *stream, const char *name)
{
    stay_inside();
    if (c == &the_group) called("group", NULL);
    if (played.stick) ((Stream *)stream)->stuck = true;
    if (from != data) called("apart", NULL);
    CHECK(data != NULL && stream != NULL && count > 0);
    CHECK(type == DTYPE_F32 || type == DTYPE_BF16 || (type == DTYPE_F64 && c == &the_group));
    return called(type == DTYPE_BF16 ? "short allreduce" : "allreduce", name);
}

static Status play_alloc(DeviceTransport *c, size_t bytes, void **out)
{
    char text[32];
    static float memory[16];
    CHECK(c == &the_transport && bytes <= sizeof memory);
    snprintf(text, sizeof text, "%zu", bytes);
    *out = memory;
    stay_inside();
    return called("alloc", text);
}

static Status play_error(DeviceTransport *c)
{
    (void)c;
    played.questions++;
    stay_inside();
    return played.async_status == OK ? OK : fail(played.async_status, "cable cut");
}

static void play_abort(DeviceTransport *c)
{
    (void)c;
    called("abort", NULL);
    stay_inside();
    fprintf(stderr, "transport aborted\n"); /* for the tests in which the process ends */
}

static void play_destroy(DeviceTransport *c)
{
    CHECK(c == &the_transport || c == &the_group);
    called("destroy", NULL);
}

const DeviceTransportVTable played_transport = { .device_id = play_device_id,
                                                 .open = play_open,
                                                 .make_id = play_make_id,
                                                 .connect = play_connect,
                                                 .split = play_split,
                                                 .alloc = play_alloc,
                                                 .allreduce = play_allreduce,
                                                 .error = play_error,
                                                 .abort = play_abort,
                                                 .destroy = play_destroy };
