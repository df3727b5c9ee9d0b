/* test_prefetch.c - batches arrive where the program reads them, in order and whole: in host
 * memory, and in the memory of a CUDA device where this build and machine have one (make EMU=1: the
 * emulated one). */
#include "base/mem.h"
#include "kernels/backend_cuda.h"
#include "models/models.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include "trainer/engine/session/prefetch.h"
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

static LoaderOptions loader_options(bool augmented)
{
    return (LoaderOptions){ .view.image_size = SIZE,
                            .view.channels = 3,
                            .view.augment = AUGMENT_CIFAR,
                            .view.policy = { .erase = augmented ? 0.5 : 0 },
                            .mix = { .mixup = augmented, .cutmix = augmented },
                            .seed = 5,
                            .threads = 2,
                            .slots = 3,
                            .batch = BATCH,
                            .world = 1,
                            .global_batch = BATCH,
                            .last_step = BATCHES,
                            .max_bad_fraction = 0.1 };
}

static Status set_up(Fixture *f, bool cuda, bool augmented)
{
    const DatasetOptions data = { .format = DATA_SYNTHETIC,
                                  .synthetic_images = 256,
                                  .synthetic_classes = 10 };
    const CudaOptions options = { .precision = PRECISION_FP32 };
    const LoaderOptions o = loader_options(augmented);
    *f = (Fixture){ 0 };
    TRY(cuda ? backend_cuda_create(&f->backend, &options)
             : backend_cpu_create(&f->backend, &(CpuOptions){ .threads = 1 }));
    TRY(dataset_open(&f->data, &data));
    TRY(executor_create(&f->executor, f->backend));
    TRY(add_mlp(f, augmented));
    TRY(executor_commit(f->executor));
    return prefetch_create(&f->prefetch, f->executor, loader_layout(&o).bytes);
}

static void tear_down(Fixture *f)
{
    prefetch_destroy(f->prefetch);
    executor_destroy(f->executor);
    backend_destroy(f->backend);
    dataset_close(f->data);
}

/* A field as the program reads it. */
static Status read_back(const Fixture *f, const PrefetchInput *in, const BatchField *field,
                        void *out)
{
    const int64_t bytes = (int64_t)field->bytes;
    const char *data = (const char *)in->block + field->offset;
    OpTensor t = { .desc = tensor_desc(DTYPE_U8, 1, &bytes), .bytes = field->bytes };
    memcpy(&t.data, &data, sizeof data); /* only read */
    if (f->backend->v->device) return f->backend->v->export_tensor(f->backend, &t, out);
    memcpy(out, data, field->bytes);
    return OK;
}

/* What is to be erased and mixed lies beside the images, or nowhere. */
static void compare_fields(const Fixture *f, const PrefetchInput *in, const Batch *want,
                           bool augmented)
{
    static uint8_t got[BATCH * IMAGE_BYTES];
    CHECK_INT(in->layout->count, augmented ? 4 : 2);
    CHECK_INT(in->layout->count, want->layout->count);
    for (int i = 0; i < in->layout->count; i++) {
        const BatchField *field = &in->layout->fields[i];
        REQUIRE(field->bytes <= sizeof got && loader_field(want, field->name));
        REQUIRE_OK(read_back(f, in, field, got));
        CHECK(memcmp(got, loader_field(want, field->name), field->bytes) == 0);
    }
}

/* The loader's values are where the operation looks for them. */
static void check_mix(const LoaderOptions *o, const Batch *b)
{
    const float *mix = loader_field(b, "mix");
    const MixDraw want = mix_draw(&o->mix, o->seed, b->step, 0, SIZE, SIZE);
    REQUIRE(mix != NULL);
    CHECK(mix[MIX_LAMBDA] == (float)want.lambda && mix[MIX_REST] == (float)(1 - want.lambda));
    CHECK(mix[MIX_BOX] == (want.box ? 1.0F : 0.0F));
    CHECK(mix[MIX_TOP] == (float)want.top && mix[MIX_BOTTOM] == (float)want.bottom);
    CHECK(mix[MIX_LEFT] == (float)want.left && mix[MIX_RIGHT] == (float)want.right);
}

/* One loader's batches through the prefetch, another's of the same options directly. */
static void compare_stream(Fixture *f, bool augmented)
{
    LoaderOptions o = loader_options(augmented), plain = o;
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
        REQUIRE_OK(
            executor_run(f->executor, f->program,
                         &(RunOptions){ .slot = in.slot, .layout = in.layout, .block = in.block }));
        compare_fields(f, &in, &want, augmented);
        if (augmented) check_mix(&plain, &want);
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
    CHECK(a.slot == 0 && b.slot == 1 && a.block != b.block && a.block && b.block);
    CHECK(c.slot == a.slot && c.block == a.block);
    tear_down(&f);
}
