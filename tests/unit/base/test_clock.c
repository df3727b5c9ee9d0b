/* Time goes forward, sleeps last, dates have the form that metrics.jsonl shows. */
#include "base/clock.h"
#include "tests/test.h"
#include <string.h>

TEST(sleep_lasts)
{
    double start = clock_s();
    clock_sleep_s(0.02);
    double slept = clock_s() - start;
    CHECK(slept >= 0.02 && slept < 10);
    clock_sleep_s(0);
    clock_sleep_s(-1);
}

TEST(calendar_time)
{
    char text[21];
    CHECK(clock_unix_s() > 1.6e9); /* after 2020 */
    clock_format_utc(text, sizeof text);
    CHECK_INT(strlen(text), 20);
    CHECK(text[4] == '-' && text[7] == '-' && text[10] == 'T' && text[13] == ':' &&
          text[19] == 'Z');
}
