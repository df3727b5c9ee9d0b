/* The per-thread sentence and the exit codes that scripts rely on. */
#include "base/thread.h"
#include "tests/test.h"
#include <string.h>

TEST(fail_records_and_returns)
{
    CHECK_STATUS(fail(ERR_DATA, "%s: not a %s", "a.jpg", "JPEG"), ERR_DATA);
    CHECK_STR(status_message(), "a.jpg: not a JPEG");
}

TEST(note_goes_in_front)
{
    fail(ERR_IO, "disk full");
    CHECK_STATUS(fail_note(ERR_IO, "checkpoint %d", 7), ERR_IO);
    CHECK_STR(status_message(), "checkpoint 7: disk full");
}

TEST(message_may_be_its_own_argument)
{
    fail(ERR_DATA, "inner");
    fail(ERR_DATA, "<%s>", status_message());
    CHECK_STR(status_message(), "<inner>");
    fail_note(ERR_DATA, "%s", status_message());
    CHECK_STR(status_message(), "<inner>: <inner>");
}

TEST(long_sentences_are_cut)
{
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    fail(ERR_DATA, "%s", text);
    CHECK_INT(strlen(status_message()), 1023);
    fail_note(ERR_DATA, "%s", "front");
    CHECK_INT(strlen(status_message()), 1023);
    CHECK(strncmp(status_message(), "front: xxx", 10) == 0);
    fail_note(ERR_DATA, "%s", text);
    CHECK_INT(strlen(status_message()), 1023);
}

static void *fail_elsewhere(void *arg)
{
    (void)arg;
    fail(ERR_PEER, "of the other thread");
    return NULL;
}

TEST(sentence_is_per_thread)
{
    pthread_t thread;
    fail(ERR_DATA, "mine");
    REQUIRE_OK(thread_start(&thread, "other", fail_elsewhere, NULL));
    pthread_join(thread, NULL);
    CHECK_STR(status_message(), "mine");
}

TEST(exit_codes_are_the_documented_ones)
{
    static const struct {
        Status status;
        int code;
        const char *name;
    } want[] = {
        { OK, 0, "ok" },
        { ERR_USAGE, 64, "usage" },
        { ERR_DATA, 65, "data" },
        { ERR_HEALTH, 69, "health" },
        { ERR_INTERNAL, 70, "internal" },
        { ERR_MEMORY, 70, "memory" },
        { ERR_IO, 74, "io" },
        { ERR_STOPPED, 75, "stopped" },
        { ERR_PEER, 76, "peer" },
        { ERR_ENV, 78, "environment" },
        { ERR_DIVERGED, 71, "diverged" },
    };
    for (int i = 0; i < (int)(sizeof want / sizeof want[0]); i++) {
        CHECK_INT(status_exit_code(want[i].status), want[i].code);
        CHECK_STR(status_name(want[i].status), want[i].name);
    }
}

static Status tries(Status inner)
{
    TRY(inner);
    return ERR_HEALTH; /* reached only after OK */
}

TEST(try_passes_errors_up)
{
    CHECK_STATUS(tries(ERR_IO), ERR_IO);
    CHECK_STATUS(tries(OK), ERR_HEALTH);
}
