/* norm_choice.c - who normalises: our own kernels or cuDNN.
 *
 * Ours can do all that there is to do, and nothing has to be compiled for them. What decides is
 * CudaOptions.batchnorm:
 *   KERNELS_OWN    ours
 *   KERNELS_CUDNN  cuDNN, wherever is_cudnns() and it has an engine
 *   KERNELS_AUTO   of these, cuDNN where it was measured to be faster (decision.h)
 * Each shape of each pass is decided once.
 *
 * Where the passes of one layer are done by different hands, an element that lies within rounding
 * of zero before its ReLU may be on one side of it forward and on the other backward, which
 * kernels/op_norm.h excludes for one hand: then y is as small as that rounding. */
#include "kernels/cuda/batchnorm.h"
#include "kernels/cuda/batchnorm_cudnn.h"
#include "kernels/cuda/decision.h"

typedef struct Pass {
    const char *name; /* by which shapes are counted */
    int x;            /* its input slot */
    const OpImpl *own, *cudnn;
} Pass;
static const Pass forward = { "batchnorm", BN_IN_X, &batchnorm_own, &batchnorm_cudnn },
                  backward = { "batchnorm_bwd", BN_BWD_IN_X, &batchnorm_own_bwd,
                               &batchnorm_cudnn_bwd };

static bool has(const OpTensor *t)
{
    return t->desc.rank != 0;
}

/* Whether cuDNN's graphs do what kernels/op_norm.h says of this instance. */
static bool is_cudnns(const OpInstance *op, const Pass *pass)
{
    const BatchNormAttr *attr = op->attr;
    const TensorDesc *x = &op->in[pass->x].desc;
    /* they are for statistics of this batch */
    if (attr->mode != BN_TRAIN || attr->ranks > 0) return false;
    /* it has no operation for the one, and its ReLU no upper bound here */
    if (attr->act == ACT_HARD_SWISH || attr->act == ACT_RELU6) return false;
    /* rows between linear layers may be of several types */
    if (x->rank != 4) return false;
    /* ours says what is wrong with that */
    if (x->dims[0] * x->dims[2] * x->dims[3] < 2) return false;
    /* they would write to the padding */
    if (cuda_padded(cuda_backend(op), x->dims[1]) != x->dims[1]) return false;
    /* cuDNN 9.19 has no engine that adds a residual where no activation follows */
    if (pass == &forward) return !has(&op->in[BN_IN_RESIDUAL]) || attr->act != ACT_NONE;
    if (op->accumulate) return false; /* they overwrite dgamma and dbeta */
    /* dz that is not from x and dy alone is formed by a kernel of ours, and needs a place: the
     * residual's gradient. */
    return has(&op->out[BN_BWD_OUT_DRESIDUAL]) ||
           (!has(&op->in[BN_BWD_IN_DY2]) && !has(&op->in[BN_BWD_IN_Y]));
}

/* ---- deciding ---- */

static bool takes_cudnn(const OpInstance *op, const Pass *pass)
{
    const KernelMode mode = cuda_backend(op)->options.batchnorm;
    if (mode == KERNELS_OWN || !is_cudnns(op, pass)) return false;
    return cuda_decision_of_op(op, op->attr, pass->name, mode, true);
}

static Status prepare_norm(OpInstance *op)
{
    const Pass *pass = op->kind == OP_BATCHNORM ? &forward : &backward;
    const KernelTrial trial = cuda_backend(op)->on_trial;
    const bool cudnn = trial == TRIAL_NONE ? takes_cudnn(op, pass) : trial == TRIAL_CUDNN;
    op->no_alias = 0;
    return (cudnn ? pass->cudnn : pass->own)->prepare(op);
}

/* ---- handing on ---- */

static const OpImpl *implementation(const OpInstance *op)
{
    return ((const BnState *)op->state)->by;
}

static Status bind(OpInstance *op)
{
    return implementation(op)->bind(op);
}

static Status run_norm(OpInstance *op, Stream *stream)
{
    return implementation(op)->run(op, stream);
}

static void release_norm_way(OpInstance *op)
{
    if (op->state) implementation(op)->release(op);
}

const OpImpl cuda_batchnorm = { prepare_norm, bind, run_norm, release_norm_way };
const OpImpl cuda_batchnorm_bwd = { prepare_norm, bind, run_norm, release_norm_way };
