/* The name of this build: a release, and a commit where there is one. */
#include "base/version.h"
#include "tests/test.h"
#include <string.h>

TEST(a_commit_is_told_where_there_is_one)
{
    const char *text = version_text();
    size_t release = strlen(CONVOY_VERSION);
    REQUIRE(strncmp(text, CONVOY_VERSION, release) == 0);
    if (!text[release]) return;
    CHECK(text[release] == '+');
    CHECK_INT(strspn(text + release + 1, "0123456789abcdef"), strcspn(text + release + 1, "."));
    CHECK(text[release + 1] != '\0');
}
