/* softmax_xent.cu - cross entropy, binary cross entropy with label smoothing, mixed targets and
 * class weights, a teacher's part, accuracy counts and the gradient of the logits: a warp per
 * image, or of many classes a block, then one block that adds the images' numbers up in a fixed
 * order.
 *
 * Of a group of GROUP lanes, a warp or a block, each takes every GROUP-th logit. dlogits may lie
 * over logits of its own type: a lane overwrites only what it alone still had to read. A row that
 * holds a NaN has loss NaN and counts as wrong; so has one whose label is no class. */
#include "kernels/cuda/softmax_xent.h"
#include "kernels/cuda/softmax_xent_math.h"
#include "kernels/cuda/vector.cuh"

namespace {

constexpr int WARP = 32, BLOCK = 128, WIDE_BLOCK = 256, SUM_BLOCK = 256;
constexpr int WIDE_CLASSES = 4096; /* from here on a block takes a row */
constexpr unsigned ALL = 0xffffffffu;

/* The logits of an image: a row, or the mean of those of its views. */
template <typename L> struct Logits {
    const L *first;
    int64_t stride; /* from view to view */
    int views;

    __device__ __forceinline__ float at(int k) const
    {
        float mean = vector_load_element(first + k) * op_input_view_weight(views, 0);
        for (int v = 1; v < views; v++)
            mean += op_input_view_weight(views, v) * vector_load_element(first + v * stride + k);
        return mean;
    }
};

struct Add {
    template <typename V> __device__ __forceinline__ V operator()(V a, V b) const
    {
        return a + b;
    }
};
struct Most { /* b, where it is a number */
    __device__ __forceinline__ float operator()(float a, float b) const
    {
        return b > a ? b : a;
    }
};

/* Of all lanes, to all of them, in a fixed order. */
template <int GROUP, typename V, typename F> __device__ __forceinline__ V reduce(V v, F f)
{
    for (int o = WARP / 2; o > 0; o >>= 1) v = f(v, __shfl_xor_sync(ALL, v, o));
    if (GROUP == WARP) return v;
    __shared__ V part[GROUP / WARP];
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = v;
    __syncthreads();
    v = part[0];
    for (int i = 1; i < GROUP / WARP; i++) v = f(v, part[i]);
    __syncthreads(); /* before the next one overwrites them */
    return v;
}

/* What others read ends here: shuffles alone order no memory. */
template <int GROUP> __device__ __forceinline__ void sync_group()
{
    if (GROUP == WARP) __syncwarp();
    else __syncthreads();
}

template <int GROUP, typename L>
__device__ __forceinline__ XentRow survey(const Logits<L> &logits, int c, int label, int lane)
{
    const float label_logit = logits.at(label);
    XentRow row = { -INFINITY, 0.0, 0.0, 0, 0 };
    for (int k = lane; k < c; k += GROUP) {
        float z = logits.at(k);
        row.max = z > row.max ? z : row.max;
        row.logits += (double)z;
        row.not_below += k != label && z >= label_logit;
        row.is_nan += z != z;
    }
    row.max = reduce<GROUP>(row.max, Most());
    row.logits = reduce<GROUP>(row.logits, Add());
    row.not_below = reduce<GROUP>(row.not_below, Add());
    row.is_nan = reduce<GROUP>(row.is_nan, Add());
    for (int k = lane; k < c; k += GROUP)
        row.sum += (double)softmax_xent_exp(logits.at(k), row.max);
    row.sum = reduce<GROUP>(row.sum, Add());
    return row;
}

template <int GROUP, typename D>
__device__ __forceinline__ void zero_row(D *gradient, int cp, int lane)
{
    for (int k = lane; k < cp; k += GROUP) vector_store_element(gradient + k, 0.0f);
}

/* One lane each writes one number. */
__device__ __forceinline__ void write_stats(double *stats, int lane, double loss, bool top1,
                                            bool top5, double images)
{
    double v = lane == STATS_LOSS_SUM ? loss
               : lane == STATS_TOP1   ? top1
               : lane == STATS_TOP5   ? top5
                                      : images;
    if (lane < STATS_COUNT) stats[lane] = v;
}

__device__ __forceinline__ double gradient_scale(const XentPass &pass)
{
    const double scale = (double)pass.scalars[SCALAR_GRAD_SCALE];
    return pass.loss_scale ? scale * (double)pass.loss_scale[LOSS_SCALE_SCALE] : scale;
}

template <int GROUP, typename L, typename D>
__device__ __forceinline__ void write_gradient(const XentPass &pass, const XentRow &row,
                                               const Logits<L> &logits, D *gradient,
                                               const LossTarget &target, int lane)
{
    const double scale = gradient_scale(pass), inverse = 1.0 / row.sum;
    for (int k = lane; k < pass.cp; k += GROUP) {
        float value = 0.0f;
        if (k < pass.c)
            value = softmax_xent_gradient(
                softmax_xent_exp(logits.at(k), row.max), inverse, pass.even,
                (1.0 - (double)pass.smoothing) * loss_math_share(&target, k), scale);
        vector_store_element(gradient + k, value);
    }
}

__device__ __forceinline__ double weight_of(const XentPass &pass, int k)
{
    return pass.class_weights ? (double)pass.class_weights[k] : 1.0;
}

__device__ __forceinline__ double target_at(const XentPass &pass, const LossTarget &target, int k)
{
    return loss_math_smoothed(&pass.attr, &target, k, pass.c);
}

__device__ __forceinline__ float teacher_at(const XentPass &pass, int64_t n, int k)
{
    const int64_t at = n * pass.teacher_cp + k;
    return pass.teacher_type == DTYPE_BF16
               ? vector_load_element(static_cast<const Bf16 *>(pass.teacher) + at)
           : pass.teacher_type == DTYPE_F16
               ? vector_load_element(static_cast<const F16 *>(pass.teacher) + at)
               : vector_load_element(static_cast<const float *>(pass.teacher) + at);
}

template <int GROUP, typename L>
__device__ LossSoft soft_of(const XentPass &pass, const Logits<L> &logits, int64_t n, int lane)
{
    float most[2] = { -INFINITY, -INFINITY };
    LossSums sums = { 0.0, 0.0, 0.0 };
    for (int k = lane; k < pass.c; k += GROUP) {
        most[0] = Most()(most[0], logits.at(k));
        most[1] = Most()(most[1], teacher_at(pass, n, k));
    }
    for (int i = 0; i < 2; i++) most[i] = reduce<GROUP>(most[i], Most());
    for (int k = lane; k < pass.c; k += GROUP) {
        const float both[2] = { logits.at(k), teacher_at(pass, n, k) };
        loss_math_add(&sums, pass.attr.temperature, both, most);
    }
    sums.student = reduce<GROUP>(sums.student, Add());
    sums.teacher = reduce<GROUP>(sums.teacher, Add());
    sums.apart = reduce<GROUP>(sums.apart, Add());
    return loss_math_soft(&sums, pass.attr.temperature, most);
}

/* Of an image, where losses of single classes are summed. */
struct Image {
    int64_t n;
    LossTarget target;
    LossSoft soft; /* where there is a teacher */
};

/* hard: the gradient of the labels' loss at class k, already scaled. */
__device__ __forceinline__ float gradient_at(const XentPass &pass, const Image &image, int k,
                                             float logit, double hard)
{
    const double a = (double)pass.attr.distill;
    if (!pass.teacher) return (float)hard;
    const double soft = loss_math_soft_slope(&image.soft, logit, teacher_at(pass, image.n, k));
    return (float)((1.0 - a) * hard + gradient_scale(pass) * a * soft);
}

/* Losses in which each class counts by itself; returns the row's. */
template <int GROUP, typename L, typename D>
__device__ double run_binary(const XentPass &pass, const Logits<L> &logits, D *gradient,
                             const Image &image, int lane)
{
    const double factor = pass.attr.sum ? 1.0 : 1.0 / pass.c, scale = gradient_scale(pass);
    double loss = 0.0, slope;
    for (int k = lane; k < pass.c; k += GROUP) {
        const double each = factor * weight_of(pass, k);
        const float z = logits.at(k);
        loss += each * loss_math_bce(z, target_at(pass, image.target, k), &slope);
        if (gradient)
            vector_store_element(gradient + k,
                                 gradient_at(pass, image, k, z, scale * each * slope));
    }
    return reduce<GROUP>(loss, Add());
}

template <int GROUP, typename L, typename D>
__device__ double run_weighted(const XentPass &pass, const XentRow &row, const Logits<L> &logits,
                               D *gradient, const Image &image, int lane)
{
    const double log_sum = (double)row.max + log(row.sum), scale = gradient_scale(pass);
    double loss = 0.0, targets = 0.0;
    for (int k = lane; k < pass.c; k += GROUP) {
        const double wanted = weight_of(pass, k) * target_at(pass, image.target, k);
        targets += wanted;
        loss += wanted * (log_sum - (double)logits.at(k));
    }
    targets = reduce<GROUP>(targets, Add());
    for (int k = lane; gradient && k < pass.c; k += GROUP) {
        const float z = logits.at(k);
        const double p = (double)softmax_xent_exp(z, row.max) / row.sum;
        const double wanted = weight_of(pass, k) * target_at(pass, image.target, k);
        vector_store_element(gradient + k,
                             gradient_at(pass, image, k, z, scale * (p * targets - wanted)));
    }
    return reduce<GROUP>(loss, Add());
}

template <int GROUP, typename L, typename D>
__device__ double run_classes(const XentPass &pass, const XentRow &row, const Logits<L> &logits,
                              D *gradient, int64_t n, const LossTarget &target, int lane)
{
    Image image = { n, target, { 0.0, 0.0, 0.0, 0.0 } };
    if (pass.teacher) image.soft = soft_of<GROUP>(pass, logits, n, lane);
    for (int k = pass.c + lane; gradient && k < pass.cp; k += GROUP)
        vector_store_element(gradient + k, 0.0f);
    const double hard = pass.attr.loss == LOSS_BCE
                            ? run_binary<GROUP>(pass, logits, gradient, image, lane)
                            : run_weighted<GROUP>(pass, row, logits, gradient, image, lane);
    const double a = (double)pass.attr.distill;
    return pass.teacher ? (1.0 - a) * hard + a * image.soft.loss : hard;
}

/* PLAIN: cross entropy of logits and labels alone, in fewer registers. Two blocks a multiprocessor:
 * else registers are spilled to fit three. */
template <int THREADS, int GROUP, bool PLAIN, typename L, typename D>
__global__ void __launch_bounds__(THREADS, 2) rows_kernel(const XentPass pass)
{
    const int64_t n = (int64_t)blockIdx.x * (THREADS / GROUP) + threadIdx.x / GROUP;
    const int lane = (int)threadIdx.x % GROUP;
    if (n >= pass.rows) return; /* the whole group leaves */
    const Logits<L> logits = { static_cast<const L *>(pass.logits) + n * pass.cp,
                               pass.rows * pass.cp, pass.views };
    D *gradient = pass.dlogits ? static_cast<D *>(pass.dlogits) + n * pass.cp : nullptr;
    double *stats = pass.row_stats + n * STATS_COUNT;
    const int label = pass.labels[n];
    if (label < 0 || label >= pass.c) {
        bool padding = label == -1;
        write_stats(stats, lane, padding ? 0.0 : (double)NAN, false, false, padding ? 0.0 : 1.0);
        if (gradient) zero_row<GROUP>(gradient, pass.cp, lane);
        return;
    }
    const LossTarget target =
        loss_math_target(pass.labels, pass.targets, pass.mix, n, pass.rows, pass.c);
    const float label_logits[2] = { logits.at(target.labels[0]), logits.at(target.labels[1]) };
    const XentRow row = survey<GROUP>(logits, pass.c, softmax_xent_counted_label(&target), lane);
    sync_group<GROUP>();
    const bool valid = row.is_nan == 0;
    double loss;
    if constexpr (PLAIN)
        loss = softmax_xent_loss(&row, &target, label_logits, (double)pass.smoothing, pass.c);
    else loss = run_classes<GROUP>(pass, row, logits, gradient, n, target, lane);
    const bool ranked = valid && !target.bits[0];
    write_stats(stats, lane, valid ? loss : (double)NAN, ranked && row.not_below < 1,
                ranked && row.not_below < 5, 1.0);
    if constexpr (PLAIN)
        if (gradient) write_gradient<GROUP>(pass, row, logits, gradient, target, lane);
}

/* Thread t adds rows t, t + SUM_BLOCK, ...; then neighbours add to each other, halving. */
__global__ void __launch_bounds__(SUM_BLOCK) stats_kernel(const XentPass pass)
{
    __shared__ double part[STATS_COUNT][SUM_BLOCK];
    const int t = (int)threadIdx.x;
    double sum[STATS_COUNT] = { 0, 0, 0, 0 };
    for (int64_t n = t; n < pass.rows; n += SUM_BLOCK)
#pragma unroll
        for (int i = 0; i < STATS_COUNT; i++) sum[i] += pass.row_stats[n * STATS_COUNT + i];
#pragma unroll
    for (int i = 0; i < STATS_COUNT; i++) part[i][t] = sum[i];
    for (int half = SUM_BLOCK / 2; half > 0; half >>= 1) {
        __syncthreads();
        if (t >= half) continue;
#pragma unroll
        for (int i = 0; i < STATS_COUNT; i++) part[i][t] += part[i][t + half];
    }
    __syncthreads();
    if (t < STATS_COUNT) pass.stats[t] = part[t][0];
}

template <bool PLAIN, typename L, typename D>
cudaError_t launch_rows_of(const XentPass *p, cudaStream_t stream)
{
    if (p->c >= WIDE_CLASSES)
        return CUDA_LAUNCH((rows_kernel<WIDE_BLOCK, WIDE_BLOCK, PLAIN, L, D>),
                           launch_blocks(p->rows, 1), WIDE_BLOCK, stream, *p);
    return CUDA_LAUNCH((rows_kernel<BLOCK, WARP, PLAIN, L, D>),
                       launch_blocks(p->rows, BLOCK / WARP), BLOCK, stream, *p);
}

template <typename L, typename D> cudaError_t launch_rows(const XentPass *p, cudaStream_t stream)
{
    const bool plain = p->attr.loss == LOSS_CROSS_ENTROPY && !p->class_weights && !p->teacher;
    return plain ? launch_rows_of<true, L, D>(p, stream) : launch_rows_of<false, L, D>(p, stream);
}

template <typename D> cudaError_t launch_rows_to(const XentPass *p, cudaStream_t stream)
{
    return p->logits_type == DTYPE_F32    ? launch_rows<float, D>(p, stream)
           : p->logits_type == DTYPE_BF16 ? launch_rows<Bf16, D>(p, stream)
           : p->logits_type == DTYPE_F16  ? launch_rows<F16, D>(p, stream)
                                          : cudaErrorInvalidValue;
}

} // namespace

cudaError_t cuda_launch_softmax_xent(const XentPass *p, cudaStream_t stream)
{
    cudaError_t error = LAUNCH_BY_TYPE(p->dlogits_type, launch_rows_to, p, stream);
    return error == cudaSuccess ? CUDA_LAUNCH(stats_kernel, 1, SUM_BLOCK, stream, *p) : error;
}
