/* How a run is asked to stop by who knows its folder alone: the request is seen, renamed and
 * removed; one that was left before is not heard. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "tests/test.h"
#include "trainer/engine/guard/presence.h"
#include "trainer/engine/guard/signals.h"

TEST(a_request_is_heard_once_and_removed)
{
    char *request = fs_join(test_scratch(), PRESENCE_RUN),
         *seen = fs_join(test_scratch(), PRESENCE_RUN PRESENCE_SEEN);
    Presence *p = NULL;
    REQUIRE_OK(fs_write_atomic(request, "", 0)); /* of a run that was killed */
    REQUIRE_OK(presence_begin(&p, test_scratch(), PRESENCE_RUN));
    REQUIRE(p != NULL);
    CHECK(!fs_exists(request));
    CHECK(!signals_stop_requested());
    REQUIRE_OK(fs_write_atomic(request, "", 0));
    for (double end = clock_s() + 20; clock_s() < end && !fs_exists(seen);) clock_sleep_s(0.01);
    CHECK(fs_exists(seen) && !fs_exists(request));
    for (double end = clock_s() + 20; clock_s() < end && !signals_stop_requested();)
        clock_sleep_s(0.01);
    CHECK(signals_stop_requested());
    presence_end(p);
    CHECK(!fs_exists(seen) && !fs_exists(request));
    mem_free(seen);
    mem_free(request);
}
