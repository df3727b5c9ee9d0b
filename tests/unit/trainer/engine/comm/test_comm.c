/* One process alone: every operation leaves the data as it is, agreement keeps the sentence. Ranks
 * that talk: tests/e2e/comm.sh. */
#include "base/status.h"
#include "tests/test.h"
#include "trainer/engine/comm/comm.h"
#include <string.h>

static Comm *make_self(void)
{
    Comm *c = NULL;
    CHECK_OK(comm_self_create(&c));
    return c;
}

TEST(self_is_a_world_of_one)
{
    Comm *c = make_self();
    REQUIRE(c != NULL);
    CHECK_INT(c->rank, 0);
    CHECK_INT(c->world, 1);
    CHECK_INT(c->local_rank, 0);
    CHECK_INT(c->local_world, 1);
    CHECK_STR(c->name, "self");
    comm_destroy(c);
}

TEST(operations_of_one_keep_the_data)
{
    Comm *c = make_self();
    REQUIRE(c != NULL);
    float x[3] = { 1, -2, 3.5F };
    double d = 0.1;
    char text[] = "kept";
    comm_allreduce(c, x, 3, COMM_F32, COMM_SUM, "sum");
    comm_allreduce(c, &d, 1, COMM_F64, COMM_MAX, "most");
    comm_broadcast(c, text, sizeof text, 0, "text");
    comm_barrier(c, "barrier");
    CHECK(x[0] == 1 && x[1] == -2 && x[2] == 3.5F);
    CHECK(d == 0.1);
    CHECK_STR(text, "kept");
    comm_destroy(c);
}

TEST(a_job_is_done_and_stamped)
{
    Comm *c = make_self();
    REQUIRE(c != NULL);
    float x = 4;
    CommJob job = {
        .kind = COMM_ALLREDUCE, .type = COMM_F32, .data = &x, .count = 1, .name = "job"
    };
    CHECK(job.done == 0);
    comm_post(c, &job);
    CHECK(job.done != 0);
    comm_wait(c, &job);
    CHECK(job.posted_s > 0 && job.posted_s <= job.started_s && job.started_s <= job.finished_s);
    comm_destroy(c);
}

TEST(agree_returns_the_own_error_unprefixed)
{
    Comm *c = make_self();
    REQUIRE(c != NULL);
    CHECK_OK(comm_agree(c, OK));
    CHECK_STATUS(comm_agree(c, fail(ERR_IO, "/full: no space")), ERR_IO);
    CHECK_STR(status_message(), "/full: no space");
    CHECK_STATUS(comm_agree(c, fail(ERR_ENV, "last in the list")), ERR_ENV);
    comm_destroy(c);
}

/* A transport that plays a second rank: rank 1 fails worse than rank 0, with a sentence of its
 * own. */
static void play_post(Comm *c, CommJob *job)
{
    (void)c;
    if (job->kind == COMM_ALLREDUCE) {
        int64_t *least = job->data;
        int64_t theirs = (int64_t)ERR_PEER * ((int64_t)1 << 32) + 1;
        CHECK(job->type == COMM_I64 && job->op == COMM_MIN && job->count == 2);
        if (theirs < least[0]) least[0] = theirs;
    } else {
        CHECK(job->kind == COMM_BROADCAST && job->root == 1);
        memcpy(job->data, "cable cut", sizeof "cable cut");
    }
    job->done = 1;
}

static void play_wait(Comm *c, CommJob *job)
{
    (void)c;
    CHECK(job->done);
}

TEST(agree_takes_the_worst_status_and_its_sentence)
{
    static const CommVTable played = { .post = play_post, .wait = play_wait };
    Comm c = { .v = &played, .world = 2 };
    CHECK_STATUS(comm_agree(&c, OK), ERR_PEER);
    CHECK_STR(status_message(), "rank 1: cable cut");
    CHECK_STATUS(comm_agree(&c, fail(ERR_DATA, "mine")), ERR_PEER);
    CHECK_STR(status_message(), "cable cut"); /* every rank failed */
}

TEST(progress_and_timeout_are_kept_for_the_watchdog)
{
    Comm *c = make_self();
    REQUIRE(c != NULL);
    comm_set_timeout(c, 12.5);
    comm_set_progress(c, 7, "backward");
    CHECK(c->timeout_s == 12.5);
    CHECK_INT(c->step, 7);
    CHECK_STR(c->phase, "backward");
    comm_destroy(c);
}

TEST(destroying_nothing_is_allowed)
{
    comm_destroy(NULL);
    Comm *c = NULL;
    CHECK_OK(comm_create(&c, 0, NULL)); /* unit tests run without a launcher */
    REQUIRE(c != NULL);
    CHECK_STR(c->name, "self");
    comm_destroy(c);
}
