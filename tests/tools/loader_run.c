/* loader_run.c - see loader_run.h. */
#include "tests/tools/loader_run.h"
#include "tests/test.h"

Dataset *loader_open_data(const char *path, DataRole role)
{
    Dataset *d = NULL;
    DatasetOptions o = { .path = path, .format = DATA_AUTO, .role = role };
    CHECK_STATUS(dataset_open(&d, &o), OK);
    return d;
}

LoaderOptions loader_options(int64_t batch, int threads)
{
    return (LoaderOptions){ .view.image_size = 24,
                            .view.channels = 3,
                            .view.augment = AUGMENT_IMAGENET,
                            .seed = 42,
                            .threads = threads,
                            .slots = 3,
                            .batch = batch,
                            .world = 1,
                            .global_batch = batch,
                            .last_step = -1 };
}

Status loader_run(const Dataset *d, const LoaderOptions *o, int steps)
{
    Loader *l = NULL;
    Batch b;
    bool more = true;
    Status status = loader_create(&l, d, o);
    for (int i = 0; i < steps && status == OK; i++) {
        status = loader_next(l, &b, &more, NULL);
        if (status == OK && more) loader_release(l, &b);
    }
    loader_destroy(l);
    return status;
}
