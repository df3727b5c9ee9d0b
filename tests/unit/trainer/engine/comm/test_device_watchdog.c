/* test_device_watchdog.c - who ends a process whose device or peers hang, and with which words;
 * over a played device and transport, in a process of its own each time. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "tests/tools/played_transport.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Plays in a process of its own, which leaves with 0 if the watchdog lets it live. Its stderr
 * returns to caller. */
static int play_scene(DeviceCommTransport transport, void (*scene)(Scene *s), char *out,
                      size_t bytes)
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
        if (device_transport_create_comm(&s.d, s.comm, &played_device, transport, 0,
                                         &played_transport) != OK)
            _exit(2);
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

static void hang_in_bucket(Scene *s)
{
    if (device_comm_allreduce(s->d, &s->x, 1, DTYPE_F32, &s->stream, "bucket 2") != OK) _exit(3);
    played.stick = true;
    if (device_comm_allreduce(s->d, &s->x, 1, DTYPE_F32, &s->stream, "bucket 3") != OK) _exit(4);
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
    played.async_status = ERR_PEER;
    clock_sleep_s(20);
}

/* Calls that last longer than the watchdog sleeps; it asks between them. */
static void call_beside_the_watchdog(Scene *s)
{
    comm_set_timeout(s->comm, 0); /* for ever */
    played.call_s = 0.06;
    device_comm_watch(s->d, &s->event, "step");
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 4; j++)
            if (device_comm_allreduce(s->d, &s->x, 1, DTYPE_F32, &s->stream, "bucket 2") != OK)
                _exit(3);
        clock_sleep_s(0.1);
    }
    if (played.questions == 0) _exit(4);
    device_comm_watch(s->d, NULL, NULL);
}

/* A call that comes while the watchdog asks waits for the answer. */
static void call_while_the_watchdog_asks(Scene *s)
{
    comm_set_timeout(s->comm, 0);
    played.call_s = 0.2;
    device_comm_watch(s->d, &s->event, "step");
    while (played.questions == 0) clock_sleep_s(0.005);
    if (device_comm_allreduce(s->d, &s->x, 1, DTYPE_F32, &s->stream, "bucket 2") != OK) _exit(3);
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
    CHECK_CONTAINS(out, "transport aborted");
}

TEST(watchdog_tells_a_device_that_hangs_from_a_peer)
{
    char out[1024];
    CHECK_INT(play_scene(DEVICE_COMM_NCCL, hang_after_bucket, out, sizeof out), 76);
    CHECK_CONTAINS(out,
                   "in step 41 (step), operation forward pass, after bucket 2: the device hangs");
    CHECK_INT(play_scene(DEVICE_COMM_STAGED, hang_staged, out, sizeof out), 76);
    CHECK_CONTAINS(out, "in step 41 (step), operation evaluation: ");
    CHECK(strstr(out, "transport aborted") == NULL);
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

TEST(watchdog_is_never_in_the_transport_beside_its_caller)
{
    char out[1024];
    CHECK_INT(play_scene(DEVICE_COMM_NCCL, call_beside_the_watchdog, out, sizeof out), 0);
    CHECK_STR(out, "");
    CHECK_INT(play_scene(DEVICE_COMM_NCCL, call_while_the_watchdog_asks, out, sizeof out), 0);
    CHECK_STR(out, "");
}
