/* test_library.c - libraries opened at run time: candidates, folders, symbols, and what is said where one is
 * missing. */
#include "base/fs.h"
#include "base/library.h"
#include "base/mem.h"
#include "tests/test.h"
#include <dlfcn.h>
#include <stdio.h>

static struct {
    double (*cosine)(double);
    double (*none)(double);
} found;
static const LibrarySymbol symbols[] = { { "cos", &found.cosine, false }, { "no_such_function", &found.none, true } };
static const LibrarySymbol impossible[] = { { "cos", &found.cosine, false },
                                            { "no_such_function", &found.none, false } };

static LibrarySpec spec_of(const char *const *file_names, const char *folders)
{
    return (LibrarySpec){ "the library", file_names, folders, symbols, 2 };
}

TEST(first_candidate_that_opens_is_taken)
{
    static const char *const names[] = { "libconvoy_has_no_such_thing.so.7", "libm.so.6", NULL };
    LibrarySpec spec = spec_of(names, NULL);
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
    LibrarySpec spec = spec_of(names, "/nonexistent:/tmp");
    void *handle = &spec;
    CHECK_STATUS(library_open(&handle, &spec), ERR_ENV);
    CHECK(handle == NULL && found.cosine == NULL);
    CHECK_CONTAINS(status_message(), "the library cannot be opened");
    CHECK_CONTAINS(status_message(), "libconvoy_has_no_such_thing.so.7");
}

TEST(missing_function_is_named)
{
    static const char *const names[] = { "libm.so.6", NULL };
    LibrarySpec spec = spec_of(names, NULL);
    void *handle = &spec;
    spec.symbols = impossible;
    CHECK_STATUS(library_open(&handle, &spec), ERR_ENV);
    CHECK(handle == NULL && found.cosine == NULL);
    CHECK_CONTAINS(status_message(), "no_such_function");
    library_close(NULL);
}

/* A copy of the C library's maths under a name that the loader does not know. */
static bool copy_library(const char *folder)
{
    union {
        double (*function)(double);
        void *address;
    } cosine;
    static const char *const names[] = { "libm.so.6", NULL };
    LibrarySpec spec = spec_of(names, NULL);
    void *handle;
    Dl_info info;
    uint8_t *bytes;
    size_t count;
    char *path = fs_join(folder, "libconvoy_test.so.1");
    CHECK_OK(library_open(&handle, &spec));
    cosine.function = found.cosine;
    bool good = path && dladdr(cosine.address, &info) && fs_read_file(info.dli_fname, &bytes, &count) == OK;
    if (good) {
        good = fs_write_atomic(path, bytes, count) == OK;
        mem_free(bytes);
    }
    mem_free(path);
    library_close(handle);
    return good;
}

TEST(folders_are_searched_after_the_plain_name)
{
    static const char *const names[] = { "libconvoy_test.so.1", NULL };
    char folders[4200];
    void *handle;
    const char *scratch = test_scratch();
    REQUIRE(copy_library(scratch));
    snprintf(folders, sizeof folders, "/nonexistent::%s:/tmp", scratch);
    LibrarySpec spec = spec_of(names, folders);
    REQUIRE_OK(library_open(&handle, &spec));
    CHECK(found.cosine != NULL);
    library_close(handle);
}

/* A file that is there but cannot be used says more than the names at which there is nothing. */
TEST(the_telling_reason_is_given)
{
    static const char *const names[] = { "libconvoy_broken.so.1", NULL };
    void *handle;
    char *path = fs_join(test_scratch(), names[0]);
    REQUIRE(path != NULL);
    CHECK_OK(fs_write_atomic(path, "not a library", 13));
    mem_free(path);
    LibrarySpec spec = spec_of(names, test_scratch());
    CHECK_STATUS(library_open(&handle, &spec), ERR_ENV);
    CHECK_CONTAINS(status_message(), test_scratch());
}
