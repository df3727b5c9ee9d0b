/* test_prefetch.c - batches arrive where the program reads them, in order and whole: in host
 * memory, and in the memory of a CUDA device where this build and machine have one (make EMU=1: the
 * emulated one). */
#include "base/mem.h"
#include "kernels/backend_cuda.h"
#include "models/models.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include "trainer/session/prefetch.h"
#include <string.h>

enum { BATCH = 4, SIZE = 8, BATCHES = 9, IMAGE_BYTES = SIZE * SIZE * 3 };

typedef struct Fixture {
    Backend *backend;
    Executor *executor;
    Program *program;
    Dataset *data;
    Prefetch *prefetch;
} Fixture;

/* augmented: a training program that erases and mixes. */
static Status add_mlp(Fixture *f, bool augmented)
{
    ModelOptions o = {
        .width = 1,
        .graph = { .batch = BATCH, .channels = 3, .height = SIZE, .width = SIZE, .classes = 10 }
    };
    o.graph.training = o.graph.erase = o.graph.mix = augmented;
    Graph *g = NULL;
    for (int c = 0; c < 3; c++) o.graph.std[c] = 1;
    TRY(model_build(&g, model_find("mlp"), &o));
    return executor_add(f->executor, g, false, &f->program);
}

static Status set_up(Fixture *f, bool cuda, bool augmented)
{
    const DatasetOptions data = { .format = DATA_SYNTHETIC,
                                  .synthetic_images = 256,
                                  .synthetic_classes = 10 };
    const CudaOptions options = { .precision = PRECISION_FP32 };
    *f = (Fixture){ 0 };
    TRY(cuda ? backend_cuda_create(&f->backend, &options)
             : backend_cpu_create(&f->backend, &(CpuOptions){ .threads = 1 }));
    TRY(dataset_open(&f->data, &data));
    TRY(executor_create(&f->executor, f->backend));
    TRY(add_mlp(f, augmented));
    TRY(executor_commit(f->executor));
    return prefetch_create(&f->prefetch, f->executor, BATCH, IMAGE_BYTES, augmented);
}

static void tear_down(Fixture *f)
{
    prefetch_destroy(f->prefetch);
    executor_destroy(f->executor);
    backend_destroy(f->backend);
    dataset_close(f->data);
}

static LoaderOptions loader_options(void)
{
    return (LoaderOptions){ .view.image_size = SIZE,
                            .view.channels = 3,
                            .view.augment = AUGMENT_CIFAR,
                            .view.policy = { .erase = 0.5 },
                            .mix = { .mixup = 1, .cutmix = 1 },
                            .seed = 5,
                            .threads = 2,
                            .slots = 3,
                            .batch = BATCH,
                            .world = 1,
                            .global_batch = BATCH,
                            .last_step = BATCHES,
                            .max_bad_fraction = 0.1 };
}

/* What lies at data, whose memory it may be. */
static Status read_back(const Fixture *f, const void *data, DType type, int64_t count, void *out)
{
    OpTensor t = { .desc = tensor_desc(type, 1, &count) };
    t.bytes = tensor_plain_bytes(&t.desc);
    memcpy(&t.data, &data, sizeof data); /* only read */
    if (f->backend->v->device) return f->backend->v->export_tensor(f->backend, &t, out);
    memcpy(out, data, t.bytes);
    return OK;
}

/* What is to be erased and mixed lies beside the images, or nowhere. */
static void compare_augment_data(const Fixture *f, const PrefetchInput *in, const Batch *want,
                                 bool augmented)
{
    EraseBox boxes[BATCH];
    float mix[MIX_COUNT];
    CHECK((in->erase != NULL) == augmented && (in->mix != NULL) == augmented);
    if (!in->erase || !in->mix) return;
    REQUIRE_OK(read_back(f, in->erase, DTYPE_I32, BATCH * ERASE_COUNT, boxes));
    REQUIRE_OK(read_back(f, in->mix, DTYPE_F32, MIX_COUNT, mix));
    CHECK(memcmp(boxes, want->erase, sizeof boxes) == 0);
    CHECK(mix[MIX_LAMBDA] == (float)want->mix.lambda &&
          mix[MIX_REST] == (float)(1 - want->mix.lambda));
    CHECK(mix[MIX_BOX] == (want->mix.box ? 1.0F : 0.0F));
    CHECK(mix[MIX_TOP] == (float)want->mix.top && mix[MIX_BOTTOM] == (float)want->mix.bottom);
    CHECK(mix[MIX_LEFT] == (float)want->mix.left && mix[MIX_RIGHT] == (float)want->mix.right);
}

/* One loader's batches through the prefetch, another's of the same options directly. */
static void compare_stream(Fixture *f, bool augmented)
{
    static uint8_t images[BATCH * IMAGE_BYTES];
    int32_t labels[BATCH];
    LoaderOptions o = loader_options(), plain = loader_options();
    Loader *through = NULL, *direct = NULL;
    bool more = true;
    int batches = 0, slots[2] = { 0 };
    prefetch_loader_options(f->prefetch, &o);
    REQUIRE_OK(loader_create(&through, f->data, &o));
    REQUIRE_OK(loader_create(&direct, f->data, &plain));
    REQUIRE_OK(prefetch_attach(f->prefetch, through));
    for (;; batches++) {
        PrefetchInput in;
        Event *end;
        Batch want;
        double wait_s = 0;
        bool expected = false;
        REQUIRE_OK(prefetch_next(f->prefetch, &in, &more, &wait_s));
        REQUIRE_OK(loader_next(direct, &want, &expected, &wait_s));
        CHECK(more == expected);
        if (!more) break;
        REQUIRE_OK(executor_run(f->executor, f->program,
                                &(RunOptions){ .slot = in.slot,
                                               .images = in.images,
                                               .labels = in.labels,
                                               .erase = in.erase,
                                               .mix = in.mix }));
        REQUIRE_OK(read_back(f, in.images, DTYPE_U8, sizeof images, images));
        REQUIRE_OK(read_back(f, in.labels, DTYPE_I32, BATCH, labels));
        CHECK(memcmp(images, want.images, sizeof images) == 0 &&
              memcmp(labels, want.labels, sizeof labels) == 0);
        compare_augment_data(f, &in, &want, augmented);
        REQUIRE_OK(prefetch_done(f->prefetch));
        REQUIRE_OK(prefetch_mark(f->prefetch, &end));
        CHECK((end != NULL) == (f->backend->v->device != NULL));
        REQUIRE_OK(prefetch_wait(f->prefetch));
        loader_release(direct, &want);
        slots[in.slot]++;
    }
    CHECK_INT(batches, BATCHES);
    if (f->backend->v->device) CHECK(slots[0] - slots[1] <= 1 && slots[1] - slots[0] <= 1);
    CHECK_OK(prefetch_attach(f->prefetch, NULL));
    loader_destroy(through);
    loader_destroy(direct);
}

/* A second loader takes up the pinned memory of the first. */
static void check_backend(bool cuda)
{
    for (int augmented = 0; augmented < 2; augmented++) {
        Fixture f;
        REQUIRE_OK(set_up(&f, cuda, augmented != 0));
        compare_stream(&f, augmented != 0);
        compare_stream(&f, augmented != 0);
        tear_down(&f);
    }
}

TEST(batches_arrive_in_host_memory)
{
    check_backend(false);
}

TEST(batches_arrive_on_a_cuda_device)
{
    if (cuda_is_there()) check_backend(true);
}

/* A run that has to take part without a batch gets the addresses of the slot that was its turn. */
TEST(slots_of_cuda_take_turns)
{
    Fixture f;
    if (!cuda_is_there()) return; /* host memory has no slots */
    REQUIRE_OK(set_up(&f, true, false));
    PrefetchInput a = prefetch_slot(f.prefetch, 0), b = prefetch_slot(f.prefetch, 1),
                  c = prefetch_slot(f.prefetch, 2);
    CHECK(a.slot == 0 && b.slot == 1 && a.images != b.images && a.labels != b.labels && a.images &&
          b.labels);
    CHECK(c.slot == a.slot && c.images == a.images && c.labels == a.labels);
    tear_down(&f);
}
