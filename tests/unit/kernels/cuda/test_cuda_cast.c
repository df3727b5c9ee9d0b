/* test_cuda_cast.c - flat conversions on the device against float_math.h: every pair of types,
 * counts that are no whole vectors, arrays that are not aligned, and the numbers at which rounding,
 * overflow and subnormals begin. Runs on the test double (EMU=1) and on a GPU. */
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/backend_cuda.h"
#include "kernels/cuda/cast.h"
#include "kernels/float_math.h"
#include "tests/test.h"
#include "tests/tools/cuda_there.h"
#include <math.h>
#include <string.h>

enum { COUNT = 5003, SLACK = 8 };

typedef struct Rig {
    Backend *backend;
    Stream *stream;
    char *in, *out; /* on the device, room for COUNT + SLACK elements of any type */
} Rig;

static bool open_rig(Rig *r)
{
    void *in = NULL, *out = NULL;
    *r = (Rig){ 0 };
    if (!cuda_is_there()) return false;
    CHECK_OK(backend_cuda_create(&r->backend, &(CudaOptions){ .precision = PRECISION_FP32 }));
    if (!r->backend) return false;
    CHECK_OK(r->backend->v->stream_create(r->backend, LANE_COMPUTE, &r->stream));
    CHECK_OK(r->backend->v->alloc(r->backend, (COUNT + SLACK) * sizeof(float), &in));
    CHECK_OK(r->backend->v->alloc(r->backend, (COUNT + SLACK) * sizeof(float), &out));
    r->in = in;
    r->out = out;
    return in && out && r->stream;
}

static void close_rig(Rig *r)
{
    const BackendVTable *v = r->backend->v;
    v->free(r->backend, r->in);
    v->free(r->backend, r->out);
    v->stream_destroy(r->backend, r->stream);
    backend_destroy(r->backend);
}

static OpTensor bytes_at(void *data, size_t bytes)
{
    return (OpTensor){ .desc = tensor_desc(DTYPE_U8, 1, (int64_t[]){ (int64_t)bytes }),
                       .bytes = bytes,
                       .data = data };
}

static void write_bytes(const Rig *r, void *to, const void *from, size_t bytes)
{
    OpTensor t = bytes_at(to, bytes);
    CHECK_OK(r->backend->v->import_tensor(r->backend, &t, from));
}

static void read_bytes(const Rig *r, void *to, void *from, size_t bytes)
{
    OpTensor t = bytes_at(from, bytes);
    CHECK_OK(r->backend->v->export_tensor(r->backend, &t, to));
}

/* Around every power of two that matters: itself, its neighbours, ties between 16-bit numbers and
 * their neighbours. */
static float interesting(Rng *rng, int i)
{
    static const uint32_t fractions[] = { 0,         1,         0x7fffffu, 0x1000u,  0x0fffu,
                                          0x1001u,   0x3000u,   0x2fffu,   0x3001u,  0x8000u,
                                          0x7fffu,   0x8001u,   0x18000u,  0x17fffu, 0x18001u,
                                          0x7fe000u, 0x7ff000u, 0x7fefffu };
    const int kinds = (int)(sizeof fractions / sizeof fractions[0]);
    uint32_t exponent = (uint32_t)(i / kinds % 255), sign = (uint32_t)(rng_below(rng, 2) << 31);
    if (i == 0) return INFINITY;
    if (i == 1) return -INFINITY;
    return float_from_bits(sign | exponent << 23 | fractions[i % kinds]);
}

static void store(DType type, void *array, int64_t i, float v)
{
    uint16_t half = type == DTYPE_BF16 ? float_to_bf16(v) : float_to_f16(v);
    if (type == DTYPE_F32) memcpy((char *)array + i * 4, &v, 4);
    else memcpy((char *)array + i * 2, &half, 2);
}

static float load(DType type, const void *array, int64_t i)
{
    float v;
    uint16_t half;
    memcpy(&half, (const char *)array + i * 2, 2);
    if (type == DTYPE_BF16) return float_from_bf16(half);
    if (type == DTYPE_F16) return float_from_f16(half);
    memcpy(&v, (const char *)array + i * 4, 4);
    return v;
}

typedef struct Pass {
    DType from, to;
    int64_t count;
    int skip; /* elements before the first: arrays are then not aligned */
    bool add;
} Pass;

static void fill(const Pass *p, char *in, char *out)
{
    Rng rng = rng_at(1, RNG_TEST, (uint32_t)p->from, (uint32_t)p->to);
    for (int i = 0; i < COUNT + SLACK; i++) {
        float v = interesting(&rng, i);
        /* sums of small numbers, so that their order cannot matter */
        store(p->from, in, i, p->add ? (float)(i % 17) - 8 : v);
        store(p->to, out, i, p->add ? (float)(i % 5) : 77);
    }
}

static void check_pass(const Rig *r, const Pass *p)
{
    static char in[(COUNT + SLACK) * 4], before[sizeof in], after[sizeof in], want[sizeof in];
    size_t from_bytes = dtype_bytes(p->from), to_bytes = dtype_bytes(p->to);
    char *device_in = r->in + (size_t)p->skip * from_bytes,
         *device_out = r->out + (size_t)p->skip * to_bytes;
    fill(p, in, before);
    write_bytes(r, r->in, in, sizeof in);
    write_bytes(r, r->out, before, sizeof before);
    cudaStream_t stream = r->backend->v->device->stream_handle(r->stream);
    if (p->add) {
        union {
            char *bytes;
            float *floats;
        } out = { .bytes = device_out };
        CHECK_INT(cuda_launch_cast_add(device_in, p->from, out.floats, p->count, stream),
                  cudaSuccess);
    } else {
        CHECK_INT(cuda_launch_cast(device_in, p->from, device_out, p->to, p->count, stream),
                  cudaSuccess);
    }
    CHECK_OK(r->backend->v->stream_wait(r->backend, r->stream));
    read_bytes(r, after, r->out, sizeof after);
    memcpy(want, before, sizeof want);
    for (int64_t i = p->skip; i < p->skip + p->count; i++) {
        float v = load(p->from, in, i);
        store(p->to, want, i, p->add ? v + load(p->to, before, i) : v);
    }
    CHECK_INT(memcmp(after, want, sizeof want), 0);
}

TEST(casts_round_as_the_host_does)
{
    static const DType types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
    static const int64_t counts[] = { 0, 1, 7, 8, 9, 1000, 4096, COUNT };
    Rig r;
    if (!open_rig(&r)) return;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
                for (int skip = 0; skip < 2; skip++)
                    check_pass(&r, &(Pass){ types[a], types[b], counts[c], skip, false });
    close_rig(&r);
}

TEST(casts_add)
{
    static const DType types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
    Rig r;
    if (!open_rig(&r)) return;
    for (int a = 0; a < 3; a++)
        for (int skip = 0; skip < 2; skip++)
            check_pass(&r, &(Pass){ types[a], DTYPE_F32, COUNT, skip, true });
    close_rig(&r);
}
