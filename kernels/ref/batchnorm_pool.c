/* batchnorm_pool.c - a batch norm and the max pooling behind it: the two ops of batchnorm.c and
 * pool2d.c, one after the other. */
#include "base/mem.h"
#include "kernels/ref/ref.h"

/* A tensor as x lies, of its own memory. */
static Status make_between(OpTensor *t, const OpTensor *x)
{
    *t = *x;
    return (t->data = mem_alloc(t->bytes)) ? OK : ERR_MEMORY;
}

static Status run_forward(OpInstance *op, Stream *stream)
{
    const BnPoolAttr *a = op->attr;
    OpInstance bn = { .kind = OP_BATCHNORM, .backend = op->backend, .attr = &a->norm },
               pool = { .kind = OP_POOL2D, .backend = op->backend, .attr = &a->pool };
    for (int i = 0; i <= BN_IN_RUNNING_VAR; i++) bn.in[i] = op->in[i];
    TRY(make_between(&bn.out[BN_OUT_Y], &op->in[BN_IN_X]));
    bn.out[BN_OUT_SAVED] = op->out[BN_POOL_OUT_SAVED];
    pool.in[POOL_IN_X] = bn.out[BN_OUT_Y];
    pool.out[POOL_OUT_Y] = op->out[BN_POOL_OUT_Y];
    pool.out[POOL_OUT_INDEX] = op->out[BN_POOL_OUT_INDEX];
    Status st = ref_batchnorm.run(&bn, stream);
    if (st == OK) st = ref_pool2d.run(&pool, stream);
    mem_free(bn.out[BN_OUT_Y].data);
    return st;
}

static Status run_backward(OpInstance *op, Stream *stream)
{
    const BnPoolAttr *a = op->attr;
    OpInstance pool = { .kind = OP_POOL2D_BWD, .backend = op->backend, .attr = &a->pool }, bn = *op;
    OpTensor *dx = &pool.out[POOL_BWD_OUT_DX];
    pool.in[POOL_BWD_IN_DY] = op->in[BN_BWD_IN_DY];
    pool.in[POOL_BWD_IN_INDEX] = op->in[BN_POOL_BWD_IN_INDEX];
    TRY(make_between(dx, &op->in[BN_BWD_IN_X]));
    bn.kind = OP_BATCHNORM_BWD;
    bn.attr = &a->norm;
    bn.in[BN_BWD_IN_DY] = *dx;
    bn.in[BN_BWD_IN_Y] = (OpTensor){ .data = NULL };
    Status st = ref_pool2d_bwd.run(&pool, stream);
    if (st == OK) st = ref_batchnorm_bwd.run(&bn, stream);
    mem_free(dx->data);
    return st;
}

const OpImpl ref_bn_pool = { ref_prepare, ref_bind, run_forward, NULL };
const OpImpl ref_bn_pool_bwd = { ref_prepare, ref_bind, run_backward, NULL };
