/* test_library.c - libraries opened at run time: candidates, symbols, and what is said where one is
 * missing. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/process/library.h"
#include "tests/test.h"
#include <string.h>

static struct {
    double (*cosine)(double);
    double (*none)(double);
} found;
static const LibrarySymbol symbols[] = { { "cos", &found.cosine, false },
                                         { "no_such_function", &found.none, true } };
static const LibrarySymbol impossible[] = { { "cos", &found.cosine, false },
                                            { "no_such_function", &found.none, false } };

static LibrarySpec spec_of(const char *const *file_names)
{
    return (LibrarySpec){
        .title = "the library", .file_names = file_names, .symbols = symbols, .symbol_count = 2
    };
}

TEST(first_candidate_that_opens_is_taken)
{
    static const char *const names[] = { "libconvoy_has_no_such_thing.so.7", "libm.so.6", NULL };
    LibrarySpec spec = spec_of(names);
    void *handle;
    found.none = found.cosine;
    REQUIRE_OK(library_open(&handle, &spec));
    REQUIRE(found.cosine != NULL);
    CHECK_NEAR(found.cosine(0.0), 1.0, 0);
    CHECK(found.none == NULL); /* optional */
    library_close(handle);
}

TEST(missing_library_is_named)
{
    static const char *const names[] = { "libconvoy_has_no_such_thing.so.7", NULL };
    LibrarySpec spec = spec_of(names);
    void *handle = &spec;
    CHECK_STATUS(library_open(&handle, &spec), ERR_ENV);
    CHECK(handle == NULL && found.cosine == NULL);
    CHECK_CONTAINS(status_message(), "the library cannot be opened");
    CHECK_CONTAINS(status_message(), "libconvoy_has_no_such_thing.so.7");
}

TEST(missing_function_is_named)
{
    static const char *const names[] = { "libm.so.6", NULL };
    LibrarySpec spec = spec_of(names);
    void *handle = &spec;
    spec.symbols = impossible;
    CHECK_STATUS(library_open(&handle, &spec), ERR_ENV);
    CHECK(handle == NULL && found.cosine == NULL);
    CHECK_CONTAINS(status_message(), "no_such_function");
    library_close(NULL);
}

TEST(a_library_that_is_there_has_a_path)
{
    static const char *const missing[] = { "libconvoy_has_no_such_thing.so.7", NULL };
    static const char *const names[] = { "libconvoy_has_no_such_thing.so.7", "libm.so.6", NULL };
    LibrarySpec spec = spec_of(names);
    void *handle;
    char path[512], cut[4];
    CHECK(library_exists(names));
    CHECK(!library_exists(missing));
    REQUIRE_OK(library_open(&handle, &spec));
    library_path(handle, path, sizeof path);
    CHECK(path[0] == '/' && strstr(path, "/libm.so.6"));
    library_path(handle, cut, sizeof cut);
    CHECK(strncmp(cut, path, 3) == 0 && cut[3] == '\0');
    library_close(handle);
}

/* A file that is there but cannot be used says more than the names at which there is nothing. */
TEST(the_telling_reason_is_given)
{
    void *handle;
    char *path = fs_join(test_scratch(), "libconvoy_broken.so.1");
    REQUIRE(path != NULL);
    const char *const names[] = { "libconvoy_has_no_such_thing.so.7", path,
                                  "libconvoy_has_no_such_thing.so.6", NULL };
    CHECK_OK(fs_write_atomic(path, "not a library", 13));
    LibrarySpec spec = spec_of(names);
    CHECK_STATUS(library_open(&handle, &spec), ERR_ENV);
    CHECK_CONTAINS(status_message(), path);
    CHECK(library_exists(names));
    mem_free(path);
}
