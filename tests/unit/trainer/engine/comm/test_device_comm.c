/* test_device_comm.c - choice of a transport, operations and their marks, over a played device and
 * transport. NCCL itself: only that it says what is missing. Sums by NCCL: make_commcheck device.
 * The watchdog: test_device_watchdog.c. */
#include "base/str.h"
#include "tests/test.h"
#include "tests/tools/played_transport.h"
#include "trainer/engine/comm/device_marks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Comm *make_self(void)
{
    Comm *c = NULL;
    CHECK_OK(comm_self_create(&c));
    return c;
}

/* ---- choice ---- */

/* A second rank that either uses the same device or another one, or says always the same of it. */
static bool peer_shares;
static int64_t peer_says, said, said_before; /* peer_says: 0: as peer_shares tells */

static void play_post(Comm *c, CommJob *job)
{
    (void)c;
    int64_t *data = job->data;
    if (job->kind == COMM_ALLGATHER) {
        CHECK(job->type == COMM_BYTES && job->count == sizeof(int64_t));
        said_before = said;
        said = data[0];
        data[1] = peer_says ? peer_says : peer_shares ? data[0] : data[0] + 1;
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
    static const CommVTable peers = { .post = play_post, .wait = play_wait };
    Comm two = { .v = &peers, .world = 2 }, one = { .v = &peers, .world = 1 };
    DeviceCommTransport transport = DEVICE_COMM_STAGED;
    CHECK_OK(device_transport_choose(&transport, &one, 0, &played_transport));
    CHECK_INT(transport, DEVICE_COMM_SELF);
    CHECK_OK(device_transport_choose(&transport, &two, 0, &played_transport));
    CHECK_INT(transport, DEVICE_COMM_NCCL);
    peer_shares = true;
    CHECK_OK(device_transport_choose(&transport, &two, 0, &played_transport));
    CHECK_INT(transport, DEVICE_COMM_STAGED);
    peer_shares = false;
    CHECK_OK(device_transport_choose(&transport, &two, 0, NULL)); /* built without NCCL */
    CHECK_INT(transport, DEVICE_COMM_STAGED);
}

/* The peer is told no name of its host, or the same as this rank. */
TEST(nccl_is_tried_where_it_takes_ranks_for_hosts)
{
    static const CommVTable peers = { .post = play_post, .wait = play_wait };
    Comm two = { .v = &peers, .world = 2, .local_world = 2 };
    DeviceCommTransport transport = DEVICE_COMM_STAGED;
    int sharers = 0;
    CHECK_OK(device_transport_sharers(&sharers, &two, 0, &played_transport));
    peer_says = said;
    CHECK_OK(device_transport_choose(&transport, &two, 0, &played_transport));
    CHECK_INT(transport, DEVICE_COMM_STAGED);
    setenv("NCCL_HOSTID", "one", 1);
    CHECK_OK(device_transport_choose(&transport, &two, 0, &played_transport));
    CHECK_INT(transport, DEVICE_COMM_NCCL);
    CHECK_OK(device_transport_sharers(&sharers, &two, 0, &played_transport));
    CHECK_INT(sharers, 2); /* of its memory */
    peer_says = 0;
    peer_shares = true;
    CHECK_OK(device_transport_choose(&transport, &two, 0, &played_transport));
    CHECK_INT(transport, DEVICE_COMM_STAGED);
    peer_says = said_before; /* a device of its own, on a host of the same name: NCCL will tell */
    CHECK_OK(device_transport_choose(&transport, &two, 0, &played_transport));
    CHECK_INT(transport, DEVICE_COMM_NCCL);
    peer_says = 0;
    peer_shares = false;
    unsetenv("NCCL_HOSTID");
}

/* Schedulers that show each rank one device give all of them index 0; where it sits tells them
 * apart. */
TEST(sharers_are_counted_by_where_the_device_sits)
{
    static const CommVTable peers = { .post = play_post, .wait = play_wait };
    Comm two = { .v = &peers, .world = 2, .local_world = 2 }, one = { .v = &peers, .world = 1 };
    int sharers = 0;
    CHECK_OK(device_transport_sharers(&sharers, &two, 0, &played_transport));
    CHECK_INT(sharers, 1);
    CHECK_OK(device_transport_sharers(&sharers, &two, -1, &played_transport));
    CHECK_INT(sharers, 1);
    peer_shares = true;
    CHECK_OK(device_transport_sharers(&sharers, &two, 0, &played_transport));
    CHECK_INT(sharers, 2);
    CHECK_OK(device_transport_sharers(&sharers, &one, 0, &played_transport));
    CHECK_INT(sharers, 1);
    CHECK_OK(device_transport_sharers(&sharers, &two, 0, NULL));
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
    REQUIRE_OK(device_transport_create_comm(&d, c, &played_device, DEVICE_COMM_SELF, 4,
                                            &played_transport));
    CHECK_INT(device_comm_transport(d), DEVICE_COMM_SELF);
    CHECK_OK(device_comm_allreduce(d, x, 2, DTYPE_F32, &stream, "sum"));
    CHECK_OK(device_comm_allreduce_as(d, x, 2, DTYPE_BF16, NULL, &stream, "sum as bf16"));
    device_comm_destroy(d);
    CHECK_INT(stream.copies, 0);
    CHECK_STR(played_calls, "");
    CHECK(x[0] == 1 && x[1] == 2);
    comm_destroy(c);
}

TEST(operations_reach_the_transport_in_order)
{
    Comm *c = make_self();
    DeviceComm *d = NULL;
    Stream stream = { 0 };
    float x[2] = { 1, 2 };
    REQUIRE(c != NULL);
    REQUIRE_OK(device_transport_create_comm(&d, c, &played_device, DEVICE_COMM_NCCL, 4,
                                            &played_transport));
    CHECK_OK(device_comm_allreduce(d, x, 1, DTYPE_F32, &stream, "statistics"));
    CHECK_OK(device_comm_allreduce(d, x, 2, DTYPE_F32, &stream, "bucket 0"));
    CHECK_OK(device_comm_allreduce(d, x, 0, DTYPE_F32, &stream, "empty bucket"));
    CHECK_INT(stream.copies, 4); /* two marks each */
    CHECK_OK(device_comm_allreduce_as(d, x, 2, DTYPE_BF16, x, &stream, "bucket 0"));
    CHECK_INT(stream.copies, 6);
    CHECK_OK(device_comm_allreduce_as(d, x, 2, DTYPE_F32, NULL, &stream, "bucket 0"));
    CHECK_OK(device_comm_allreduce_as(d, x, 0, DTYPE_BF16, NULL, &stream, "empty bucket"));
    device_comm_destroy(d);
    CHECK_STR(played_calls,
              "open 1000 4;id;connect;allreduce statistics;allreduce bucket 0;cast to bf16;short "
              "allreduce bucket 0;cast to f32;allreduce bucket 0;destroy;");
    comm_destroy(c);
}

TEST(groups_have_a_transport_of_their_own)
{
    Comm *c = make_self();
    DeviceComm *d = NULL;
    Stream stream = { 0 };
    double x[2] = { 1, 2 };
    REQUIRE(c != NULL);
    REQUIRE_OK(device_transport_create_comm(&d, c, &played_device, DEVICE_COMM_NCCL, 0,
                                            &played_transport));
    CHECK_OK(device_comm_group(d, 2));
    CHECK_OK(device_comm_allreduce_group(d, x, 2, DTYPE_F64, true, &stream, "sums of norms"));
    CHECK_OK(device_comm_allreduce(d, x, 2, DTYPE_F32, &stream, "bucket 0"));
    CHECK_OK(device_comm_allreduce_from(d, x, x + 1, 1, DTYPE_F32, &stream, "bench"));
    device_comm_destroy(d);
    CHECK_STR(played_calls, "open 1000 0;id;connect;split;group;allreduce sums of norms;allreduce "
                            "bucket 0;apart;allreduce bench;destroy;destroy;");
    comm_destroy(c);
}

TEST(memory_for_sums_is_the_transports)
{
    Comm *c = make_self();
    DeviceComm *d = NULL;
    Stream stream = { 0 };
    void *x = NULL;
    REQUIRE(c != NULL);
    REQUIRE_OK(device_transport_create_comm(&d, c, &played_device, DEVICE_COMM_NCCL, 0,
                                            &played_transport));
    CHECK_OK(device_comm_alloc(d, 64, &x));
    REQUIRE(x != NULL);
    CHECK_OK(device_comm_allreduce(d, x, 2, DTYPE_F32, &stream, "bucket 0"));
    device_comm_destroy(d);
    CHECK_STR(played_calls, "open 1000 0;id;connect;alloc 64;allreduce bucket 0;destroy;");
    comm_destroy(c);
}

TEST(a_transport_that_fails_leaves_nothing_behind)
{
    Comm *c = make_self();
    DeviceComm *d = NULL;
    REQUIRE(c != NULL);
    played.open_status = ERR_ENV;
    CHECK_STATUS(
        device_transport_create_comm(&d, c, &played_device, DEVICE_COMM_NCCL, 0, &played_transport),
        ERR_ENV);
    CHECK_STR(status_message(), "no such library");
    CHECK(d == NULL);
    CHECK_STR(played_calls, "open 1000 0;");
    played.open_status = OK;
    played.connect_status = ERR_PEER;
    played_calls[0] = '\0';
    CHECK_STATUS(
        device_transport_create_comm(&d, c, &played_device, DEVICE_COMM_NCCL, 0, &played_transport),
        ERR_PEER);
    CHECK_STR(status_message(), "no route");
    CHECK(d == NULL);
    CHECK_STR(played_calls, "open 1000 0;id;connect;abort;destroy;");
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
    if (!device_transport_nccl) {
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
