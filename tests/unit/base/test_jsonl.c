/* test_jsonl.c - how often a text stands in a file of records. */
#include "base/fs.h"
#include "base/jsonl.h"
#include "base/str.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

/* Files are read in blocks: at each place where a block may end one text lies across it. */
TEST(texts_are_counted_wherever_they_lie)
{
    static const char text[] = "\"needle\"";
    const char *dir = test_scratch();
    for (int from = 8191 - 2 * (int)sizeof text; from < 8191 + 4; from++) {
        StrBuf all = { 0 };
        Jsonl j = { .fd = -1 };
        char path[4096];
        while (all.length < (size_t)from) str_add(&all, ".");
        str_printf(&all, "%s.%s%s\n", text, text, text);
        REQUIRE(!all.failed);
        snprintf(path, sizeof path, "%s/count.jsonl", dir);
        REQUIRE_OK(fs_write_atomic(path, all.text, all.length));
        REQUIRE_OK(jsonl_open(&j, dir, "count.jsonl"));
        CHECK_INT(jsonl_count(&j, text, 100), 3);
        CHECK_INT(jsonl_count(&j, text, 2), 2);
        CHECK_INT(jsonl_count(&j, "\"other\"", 100), 0);
        jsonl_close(&j);
        str_free(&all);
    }
}
