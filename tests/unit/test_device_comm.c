/* test_device_comm.c - choice of a carrier, operations and their marks, and the watchdog, over a device that is this
 * process and a carrier that records what it is asked. NCCL itself: only that it says what is missing. Sums by NCCL:
 * make_commcheck device. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "tests/test.h"
#include "trainer/comm/device_carrier.h"
#include "trainer/comm/device_marks.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a device ---- */

enum { NO_SUCH_DEVICE = 1000 };
static char calls[512]; /* "allreduce bucket 0;cast to f32;" ... of device and carrier */
struct Stream {
    int copies;
};
struct Event {
    _Atomic bool done;
};

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
    memcpy(to, from, bytes);
    s->copies++;
    return OK;
}

static Status device_cast(Backend *b, const void *in, DType from, void *out, DType to, int64_t count, Stream *s)
{
    (void)b;
    (void)in;
    (void)out;
    (void)s;
    CHECK(count == 2 && (from == DTYPE_F32) != (to == DTYPE_F32));
    snprintf(calls + strlen(calls), sizeof calls - strlen(calls), "cast to %s;", dtype_name(to));
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
    return NO_SUCH_DEVICE;
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
static Backend played_device = { &backend_vtable };

/* ---- a carrier ---- */

struct DeviceCarrier {
    int unused;
};
static DeviceCarrier the_carrier;
static Status open_status, connect_status;
static _Atomic Status async_status; /* read by the watchdog */
static _Atomic int questions;       /* for errors */
static _Atomic bool inside;         /* a call of the carrier, NCCL's must come one at a time */
static double call_s;               /* how long one takes */

static Status called(const char *what, const char *name)
{
    size_t length = strlen(calls);
    snprintf(calls + length, sizeof calls - length, "%s%s%s;", what, name ? " " : "", name ? name : "");
    return OK;
}

static Status play_device_id(int index, char *out, size_t bytes)
{
    snprintf(out, bytes, "bus %d", index);
    return OK;
}

static void stay_inside(void)
{
    if (atomic_exchange(&inside, true)) fprintf(stderr, "two threads in the carrier\n");
    if (call_s > 0) clock_sleep_s(call_s);
    inside = false;
}

static Status play_open(DeviceCarrier **out, Comm *comm, int index, int max_ctas)
{
    char text[32];
    (void)comm;
    snprintf(text, sizeof text, "%d %d", index, max_ctas);
    *out = open_status == OK ? &the_carrier : NULL;
    called("open", text);
    return open_status == OK ? OK : fail(open_status, "no such library");
}

static Status play_make_id(DeviceCarrier *c, DeviceCarrierId *id)
{
    (void)c;
    memset(id->bytes, 'i', sizeof id->bytes);
    return called("id", NULL);
}

static Status play_connect(DeviceCarrier *c, const DeviceCarrierId *id)
{
    (void)c;
    CHECK(id->bytes[0] == 'i' && id->bytes[sizeof id->bytes - 1] == 'i');
    called("connect", NULL);
    return connect_status == OK ? OK : fail(connect_status, "no route");
}

static Status play_allreduce(DeviceCarrier *c, void *data, size_t count, DType type, void *stream, const char *name)
{
    (void)c;
    stay_inside();
    CHECK(data != NULL && stream != NULL && count > 0 && (type == DTYPE_F32 || type == DTYPE_BF16));
    return called(type == DTYPE_F32 ? "allreduce" : "short allreduce", name);
}

static Status play_broadcast(DeviceCarrier *c, void *data, size_t bytes, int root, void *stream, const char *name)
{
    (void)c;
    (void)root;
    stay_inside();
    CHECK(data != NULL && stream != NULL && bytes > 0);
    return called("broadcast", name);
}

static Status play_group_begin(DeviceCarrier *c)
{
    (void)c;
    stay_inside();
    return called("group", NULL);
}

static Status play_group_end(DeviceCarrier *c, const char *name)
{
    (void)c;
    stay_inside();
    return called("end", name);
}

static Status play_error(DeviceCarrier *c)
{
    (void)c;
    questions++;
    stay_inside();
    return async_status == OK ? OK : fail(async_status, "cable cut");
}

static void play_abort(DeviceCarrier *c)
{
    (void)c;
    called("abort", NULL);
    stay_inside();
    fprintf(stderr, "carrier aborted\n"); /* for the tests in which the process ends */
}

static void play_destroy(DeviceCarrier *c)
{
    CHECK(c == &the_carrier);
    called("destroy", NULL);
}

static const DeviceCarrierVTable played_carrier = { .device_id = play_device_id,
                                                    .open = play_open,
                                                    .make_id = play_make_id,
                                                    .connect = play_connect,
                                                    .allreduce = play_allreduce,
                                                    .broadcast = play_broadcast,
                                                    .group_begin = play_group_begin,
                                                    .group_end = play_group_end,
                                                    .error = play_error,
                                                    .abort = play_abort,
                                                    .destroy = play_destroy };

static Comm *make_self(void)
{
    Comm *c = NULL;
    CHECK_OK(comm_self_create(&c));
    return c;
}

/* ---- choice ---- */

/* A second rank that either uses the same device or another one. */
static bool peer_shares;

static void play_post(Comm *c, CommJob *job)
{
    (void)c;
    int64_t *data = job->data;
    if (job->kind == COMM_ALLGATHER) {
        CHECK(job->type == COMM_I64 && job->count == 1);
        data[1] = peer_shares ? data[0] : data[0] + 1;
    }
    job->done = 1;
}

static void play_wait(Comm *c, CommJob *job)
{
    (void)c;
    CHECK(job->done);
}

TEST(ranks_that_share_a_device_are_staged)
{
    static const CommVTable played = { .post = play_post, .wait = play_wait };
    Comm two = { .v = &played, .world = 2 }, one = { .v = &played, .world = 1 };
    DeviceCommCarrier carrier = DEVICE_COMM_CARRIER_COUNT;
    CHECK_OK(device_comm_choose_over(&carrier, &one, 0, &played_carrier));
    CHECK_INT(carrier, DEVICE_COMM_SELF);
    CHECK_OK(device_comm_choose_over(&carrier, &two, 0, &played_carrier));
    CHECK_INT(carrier, DEVICE_COMM_NCCL);
    peer_shares = true;
    CHECK_OK(device_comm_choose_over(&carrier, &two, 0, &played_carrier));
    CHECK_INT(carrier, DEVICE_COMM_STAGED);
    peer_shares = false;
    CHECK_OK(device_comm_choose_over(&carrier, &two, 0, NULL)); /* built without NCCL */
    CHECK_INT(carrier, DEVICE_COMM_STAGED);
    CHECK_STR(device_comm_carrier_name(DEVICE_COMM_NCCL), "nccl");
    CHECK_STR(device_comm_carrier_name(DEVICE_COMM_STAGED), "staged");
}

/* Schedulers that show each rank one device give all of them index 0; where it sits tells them apart. */
TEST(sharers_are_counted_by_where_the_device_sits)
{
    static const CommVTable played = { .post = play_post, .wait = play_wait };
    Comm two = { .v = &played, .world = 2, .local_world = 2 }, one = { .v = &played, .world = 1 };
    int sharers = 0;
    CHECK_OK(device_comm_sharers_over(&sharers, &two, 0, &played_carrier));
    CHECK_INT(sharers, 1);
    CHECK_OK(device_comm_sharers_over(&sharers, &two, -1, &played_carrier));
    CHECK_INT(sharers, 1);
    peer_shares = true;
    CHECK_OK(device_comm_sharers_over(&sharers, &two, 0, &played_carrier));
    CHECK_INT(sharers, 2);
    CHECK_OK(device_comm_sharers_over(&sharers, &one, 0, &played_carrier));
    CHECK_INT(sharers, 1);
    CHECK_OK(device_comm_sharers_over(&sharers, &two, 0, NULL));
    CHECK_INT(sharers, 1);
    peer_shares = false;
}

/* ---- operations ---- */

TEST(alone_nothing_is_enqueued)
{
    Comm *c = make_self();
    DeviceComm *d = NULL;
    Stream stream = { 0 };
    float x[2] = { 1, 2 };
    REQUIRE(c != NULL);
    REQUIRE_OK(device_comm_create_over(&d, c, &played_device, DEVICE_COMM_SELF, 4, &played_carrier));
    CHECK_INT(device_comm_carrier(d), DEVICE_COMM_SELF);
    CHECK_OK(device_comm_group_begin(d, &stream, "all"));
    CHECK_OK(device_comm_allreduce(d, x, 2, DTYPE_F32, &stream, "sum"));
    CHECK_OK(device_comm_broadcast(d, x, sizeof x, 0, &stream, "start"));
    CHECK_OK(device_comm_group_end(d, &stream));
    device_comm_destroy(d);
    CHECK_INT(stream.copies, 0);
    CHECK_STR(calls, "");
    CHECK(x[0] == 1 && x[1] == 2);
    comm_destroy(c);
}

TEST(operations_reach_the_carrier_in_order)
{
    Comm *c = make_self();
    DeviceComm *d = NULL;
    Stream stream = { 0 };
    float x[2] = { 1, 2 };
    REQUIRE(c != NULL);
    REQUIRE_OK(device_comm_create_over(&d, c, &played_device, DEVICE_COMM_NCCL, 4, &played_carrier));
    CHECK_OK(device_comm_broadcast(d, x, sizeof x, 0, &stream, "start"));
    CHECK_OK(device_comm_allreduce(d, x, 2, DTYPE_F32, &stream, "bucket 0"));
    CHECK_OK(device_comm_allreduce(d, x, 0, DTYPE_F32, &stream, "empty bucket"));
    CHECK_INT(stream.copies, 4); /* two marks each */
    CHECK_OK(device_comm_group_begin(d, &stream, "rest"));
    CHECK_OK(device_comm_allreduce(d, x, 1, DTYPE_F32, &stream, "statistics"));
    CHECK_OK(device_comm_allreduce(d, x, 1, DTYPE_F32, &stream, "metrics"));
    CHECK_OK(device_comm_group_end(d, &stream));
    CHECK_INT(stream.copies, 6);
    CHECK_OK(device_comm_allreduce_as(d, x, 2, DTYPE_BF16, x, &stream, "bucket 0"));
    CHECK_OK(device_comm_allreduce_as(d, x, 2, DTYPE_F32, NULL, &stream, "bucket 0"));
    CHECK_OK(device_comm_allreduce_as(d, x, 0, DTYPE_BF16, NULL, &stream, "empty bucket"));
    device_comm_abort(d);
    device_comm_destroy(d);
    CHECK_STR(calls, "open 1000 4;id;connect;broadcast start;allreduce bucket 0;group;allreduce statistics;"
                     "allreduce metrics;end rest;cast to bf16;short allreduce bucket 0;cast to f32;allreduce bucket "
                     "0;abort;destroy;");
    comm_destroy(c);
}

TEST(a_carrier_that_fails_leaves_nothing_behind)
{
    Comm *c = make_self();
    DeviceComm *d = NULL;
    REQUIRE(c != NULL);
    open_status = ERR_ENV;
    CHECK_STATUS(device_comm_create_over(&d, c, &played_device, DEVICE_COMM_NCCL, 0, &played_carrier), ERR_ENV);
    CHECK_STR(status_message(), "no such library");
    CHECK(d == NULL);
    CHECK_STR(calls, "open 1000 0;");
    open_status = OK;
    connect_status = ERR_PEER;
    calls[0] = '\0';
    CHECK_STATUS(device_comm_create_over(&d, c, &played_device, DEVICE_COMM_NCCL, 0, &played_carrier), ERR_PEER);
    CHECK_STR(status_message(), "no route");
    CHECK(d == NULL);
    CHECK_STR(calls, "open 1000 0;id;connect;abort;destroy;");
    device_comm_destroy(NULL);
    comm_destroy(c);
}

/* Whatever this build and machine have: the sentence says what is missing. */
TEST(nccl_says_what_is_missing)
{
    Comm *c = make_self();
    DeviceComm *d = NULL;
    char version[256] = "";
    REQUIRE(c != NULL);
    device_comm_version(version, sizeof version);
    CHECK_STATUS(device_comm_create(&d, c, &played_device, DEVICE_COMM_NCCL, 0), ERR_ENV);
    CHECK(d == NULL);
    if (!device_carrier_nccl) {
        CHECK_STR(version, "built without NCCL");
        CHECK_CONTAINS(status_message(), "built without NCCL");
    } else if (str_starts_with(version, "NCCL 2.")) {
        CHECK_CONTAINS(status_message(), "CUDA device 1000: ");
    } else {
        CHECK_STR(status_message(), version); /* the library is not here */
    }
    comm_destroy(c);
}

/* ---- marks ---- */

static void check_description(const DeviceMarks *m, bool under_way, const char *text)
{
    char out[64];
    CHECK(device_marks_describe(m, "step", out, sizeof out) == under_way);
    CHECK_STR(out, text);
}

TEST(marks_tell_what_is_under_way)
{
    DeviceMarks m;
    Stream stream = { 0 };
    char again[] = "bucket 0";
    REQUIRE_OK(device_marks_init(&m, &played_device));
    check_description(&m, false, "step");
    CHECK_OK(device_marks_begin(&m, &stream, "bucket 0"));
    check_description(&m, true, "bucket 0");
    CHECK_OK(device_marks_end(&m, &stream, "bucket 0"));
    check_description(&m, false, "step, after bucket 0");
    CHECK_OK(device_marks_begin(&m, &stream, "bucket 1"));
    check_description(&m, true, "bucket 1");
    CHECK_OK(device_marks_end(&m, &stream, "bucket 1"));
    CHECK_OK(device_marks_begin(&m, &stream, again)); /* the same operation, whatever the pointer */
    CHECK_INT(m.name_count, 2);
    check_description(&m, true, "bucket 0");
    device_marks_deinit(&m);
    device_marks_deinit(&m);
}

TEST(more_marks_than_names_share_the_last)
{
    static char names[DEVICE_MARKS_NAMES + 1][16];
    DeviceMarks m;
    Stream stream = { 0 };
    REQUIRE_OK(device_marks_init(&m, &played_device));
    for (int i = 0; i <= DEVICE_MARKS_NAMES; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        CHECK_OK(device_marks_begin(&m, &stream, names[i]));
        check_description(&m, true, i < DEVICE_MARKS_NAMES - 1 ? names[i] : "a later operation");
    }
    CHECK_OK(device_marks_end(&m, &stream, names[DEVICE_MARKS_NAMES]));
    check_description(&m, false, "step, after a later operation");
    CHECK_OK(device_marks_end(&m, &stream, names[DEVICE_MARKS_NAMES - 2]));
    check_description(&m, false, "step, after 998");
    device_marks_deinit(&m);
}

/* ---- watchdog ---- */

static void last_words(void *cookie, int exit_code, const char *reason)
{
    fprintf(stderr, "last words: %d, %s%s\n", exit_code, reason, cookie ? "" : "!");
}

/* What a scene of the watchdog has on its stage. */
typedef struct Scene {
    Comm *comm;
    DeviceComm *d;
    Stream stream;
    Event event;
    float x;
} Scene;

/* Plays in a process of its own, which leaves with 0 if the watchdog lets it live. Its stderr returns to caller. */
static int play_scene(DeviceCommCarrier carrier, void (*scene)(Scene *s), char *out, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/stderr", test_scratch());
    pid_t child = fork();
    if (child == 0) {
        Scene s = { 0 };
        int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(file, 2);
        if (comm_self_create(&s.comm) != OK) _exit(1);
        comm_set_timeout(s.comm, 0.3);
        comm_set_progress(s.comm, 41, "step");
        comm_set_last_words(s.comm, last_words, &s);
        if (device_comm_create_over(&s.d, s.comm, &played_device, carrier, 0, &played_carrier) != OK) _exit(2);
        scene(&s);
        device_comm_destroy(s.d);
        comm_destroy(s.comm);
        _exit(0);
    }
    int status = 0;
    uint8_t *text = NULL;
    size_t length = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_OK(fs_read_file(path, &text, &length));
    snprintf(out, bytes, "%s", text ? (const char *)text : "");
    mem_free(text);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A group that begins and never ends leaves the mark of an operation that is under way. */
static void hang_in_bucket(Scene *s)
{
    if (device_comm_allreduce(s->d, &s->x, 1, DTYPE_F32, &s->stream, "bucket 2") != OK) _exit(3);
    if (device_comm_group_begin(s->d, &s->stream, "bucket 3") != OK) _exit(4);
    device_comm_watch(s->d, &s->event, "step");
    clock_sleep_s(20);
}

static void hang_after_bucket(Scene *s)
{
    if (device_comm_allreduce(s->d, &s->x, 1, DTYPE_F32, &s->stream, "bucket 2") != OK) _exit(3);
    device_comm_watch(s->d, &s->event, "forward pass");
    clock_sleep_s(20);
}

static void hang_staged(Scene *s)
{
    device_comm_watch(s->d, &s->event, "evaluation");
    clock_sleep_s(20);
}

static void fail_behind_our_back(Scene *s)
{
    comm_set_timeout(s->comm, 0); /* for ever */
    device_comm_watch(s->d, &s->event, "step");
    clock_sleep_s(0.2);
    async_status = ERR_PEER;
    clock_sleep_s(20);
}

/* Calls that last longer than the watchdog sleeps; it asks between them. */
static void call_beside_the_watchdog(Scene *s)
{
    comm_set_timeout(s->comm, 0); /* for ever */
    call_s = 0.06;
    device_comm_watch(s->d, &s->event, "step");
    for (int i = 0; i < 2; i++) {
        if (device_comm_group_begin(s->d, &s->stream, "rest") != OK) _exit(3);
        if (device_comm_allreduce(s->d, &s->x, 1, DTYPE_F32, &s->stream, "bucket 2") != OK) _exit(4);
        if (device_comm_broadcast(s->d, &s->x, 1, 0, &s->stream, "start") != OK) _exit(5);
        if (device_comm_group_end(s->d, &s->stream) != OK) _exit(6);
        clock_sleep_s(0.1);
    }
    if (questions == 0) _exit(7);
    device_comm_watch(s->d, NULL, NULL);
}

static void abort_beside_the_watchdog(Scene *s)
{
    comm_set_timeout(s->comm, 0);
    call_s = 0.2;
    device_comm_watch(s->d, &s->event, "step");
    while (questions == 0) clock_sleep_s(0.005);
    device_comm_abort(s->d);
    device_comm_watch(s->d, NULL, NULL);
}

/* Distances are wide, so that a busy machine does not stretch them beyond the timeout. */
static void arrive_late(Scene *s)
{
    comm_set_timeout(s->comm, 1);
    device_comm_watch(s->d, &s->event, "step");
    clock_sleep_s(0.2);
    s->event.done = true;
    clock_sleep_s(0.3);
    s->event.done = false; /* recorded again, but nobody said that it is expected */
    clock_sleep_s(1.3);
    for (int i = 0; i < 6; i++) { /* each step in time, all together not */
        device_comm_watch(s->d, &s->event, "step");
        clock_sleep_s(0.25);
    }
    device_comm_watch(s->d, NULL, NULL);
    clock_sleep_s(1.3);
}

TEST(watchdog_names_the_operation_that_hangs)
{
    char out[1024];
    double begin_s = clock_s();
    CHECK_INT(play_scene(DEVICE_COMM_NCCL, hang_in_bucket, out, sizeof out), 76);
    CHECK(clock_s() - begin_s < 10);
    CHECK_CONTAINS(out, "rank 0 on ");
    CHECK_CONTAINS(out, ": no progress for 0.");
    CHECK_CONTAINS(out, " s in step 41 (step), operation bucket 3: a peer was lost or hangs");
    CHECK_CONTAINS(out, "last words: 76, a peer was lost or hangs");
    CHECK_CONTAINS(out, "carrier aborted");
}

TEST(watchdog_tells_a_device_that_hangs_from_a_peer)
{
    char out[1024];
    CHECK_INT(play_scene(DEVICE_COMM_NCCL, hang_after_bucket, out, sizeof out), 76);
    CHECK_CONTAINS(out, "in step 41 (step), operation forward pass, after bucket 2: the device hangs");
    CHECK_INT(play_scene(DEVICE_COMM_STAGED, hang_staged, out, sizeof out), 76);
    CHECK_CONTAINS(out, "in step 41 (step), operation evaluation: ");
    CHECK(strstr(out, "carrier aborted") == NULL);
}

TEST(watchdog_hears_of_errors_before_the_timeout)
{
    char out[1024];
    CHECK_INT(play_scene(DEVICE_COMM_NCCL, fail_behind_our_back, out, sizeof out), 76);
    CHECK_CONTAINS(out, ": failure in step 41 (step), operation step: cable cut");
    CHECK_CONTAINS(out, "last words: 76, cable cut");
}

TEST(watchdog_forgets_what_has_come)
{
    char out[1024];
    CHECK_INT(play_scene(DEVICE_COMM_NCCL, arrive_late, out, sizeof out), 0);
    CHECK_STR(out, "");
}

TEST(watchdog_is_never_in_the_carrier_beside_its_caller)
{
    char out[1024];
    CHECK_INT(play_scene(DEVICE_COMM_NCCL, call_beside_the_watchdog, out, sizeof out), 0);
    CHECK_STR(out, "");
    CHECK_INT(play_scene(DEVICE_COMM_NCCL, abort_beside_the_watchdog, out, sizeof out), 0);
    CHECK_STR(out, "carrier aborted\n");
}
