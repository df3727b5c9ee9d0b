/* test_library.c - libraries opened at run time: candidates, symbols, and what is said where one is
 * missing. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/process/library.h"
#include "tests/test.h"

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
    return (LibrarySpec){ "the library", file_names, symbols, 2 };
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
    mem_free(path);
}
