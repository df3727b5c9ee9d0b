/* Replays the corpora of tests/fuzz: inputs that once failed or reach far must stay harmless. Runs
 * from the root of the repository. */
#include "base/fs.h"
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

static void replay(const FuzzTarget *t)
{
    char folder[64];
    char **names = NULL;
    int64_t count = 0;
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", t->name);
    REQUIRE_OK(fs_list(folder, &names, &count));
    CHECK(count > 0);
    for (int64_t i = 0; i < count; i++) {
        uint8_t *data = NULL;
        size_t size = 0;
        char *path = fs_join(folder, names[i]);
        printf("  %s\n", path ? path : "");
        REQUIRE_OK(fs_read_file(path, &data, &size));
        uint8_t *exact = mem_alloc(size); /* without the byte that fs_read_file adds */
        REQUIRE(exact != NULL);
        memcpy(exact, data, size);
        CHECK_INT(t->run(exact, size), 0);
        mem_free(exact);
        mem_free(data);
        mem_free(path);
    }
    mem_free(names);
}

#define REPLAY(name)                                                                               \
    TEST(name)                                                                                     \
    {                                                                                              \
        replay(&(FuzzTarget){ #name, fuzz_##name });                                               \
    }
FUZZ_TARGETS(REPLAY)
