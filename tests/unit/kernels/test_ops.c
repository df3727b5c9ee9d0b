/* The op table: rows are complete, shapes are inferred, and what does not fit is refused with op,
 * slot and shape named. */
#include "kernels/op.h"
#include "tests/test.h"
#include <string.h>

typedef struct Case { /* one call of infer */
    const void *attr;
    const TensorDesc *in[OP_MAX_INPUTS];
    bool wanted[OP_MAX_OUTPUTS];
    TensorDesc out[OP_MAX_OUTPUTS];
} Case;

static Status infer(OpKind kind, Case *c)
{
    return op_infer(kind, c->attr, c->in, c->wanted, c->out);
}

static TensorDesc f32x4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return tensor_desc(DTYPE_F32, 4, (int64_t[]){ a, b, c, d });
}
static TensorDesc f32x2(int64_t a, int64_t b)
{
    return tensor_desc(DTYPE_F32, 2, (int64_t[]){ a, b });
}
static TensorDesc f32x1(int64_t a)
{
    return tensor_desc(DTYPE_F32, 1, &a);
}

static void check_shape(const TensorDesc *got, const char *want)
{
    char text[96];
    tensor_format(got, text, sizeof text);
    CHECK_STR(text, want);
}

TEST(every_kind_has_a_complete_row)
{
    for (int k = 0; k < OP_COUNT; k++) {
        const OpDef *d = op_def((OpKind)k);
        CHECK(d->infer != NULL);
        CHECK(op_inputs(d) >= 1 && op_inputs(d) <= OP_MAX_INPUTS && op_outputs(d) >= 0 &&
              op_outputs(d) <= OP_MAX_OUTPUTS);
        for (int i = 0; i < OP_MAX_INPUTS; i++)
            CHECK((d->in_names[i] != NULL) == (i < op_inputs(d)));
        for (int i = 0; i < OP_MAX_OUTPUTS; i++) {
            CHECK((d->out_names[i] != NULL) == (i < op_outputs(d)));
            CHECK(d->in_place_of[i] >= 0 && d->in_place_of[i] <= op_inputs(d));
        }
    }
}

TEST(input_turns_nhwc_bytes_into_nchw)
{
    TensorDesc images = tensor_desc(DTYPE_U8, 4, (int64_t[]){ 8, 28, 30, 3 }),
               floats = f32x4(8, 28, 30, 3);
    TensorDesc many = tensor_desc(DTYPE_U8, 4, (int64_t[]){ 8, 28, 30, 17 });
    InputAttr attr = { .mean = { 0 } };
    Case c = { .attr = &attr, .in = { &images }, .wanted = { true } };
    CHECK_OK(infer(OP_INPUT, &c));
    check_shape(&c.out[0], "f32[8,3,28,30]");
    Case wrong = { .attr = &attr, .in = { &floats }, .wanted = { true } };
    CHECK_STATUS(infer(OP_INPUT, &wrong), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "input: images is f32[8,28,30,3], expected u8");
    Case wide = { .attr = &attr, .in = { &many }, .wanted = { true } };
    CHECK_STATUS(infer(OP_INPUT, &wide), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "17 channels");
}

TEST(input_of_treated_images)
{
    TensorDesc images = tensor_desc(DTYPE_U8, 4, (int64_t[]){ 8, 28, 30, 3 }),
               mix = f32x1(MIX_COUNT);
    TensorDesc boxes = tensor_desc(DTYPE_I32, 2, (int64_t[]){ 8, ERASE_COUNT }),
               short_mix = f32x1(2);
    InputAttr attr = { .mean = { 0 } }, twice = { .mean = { 0 }, .views = 2 };
    Case c = { .attr = &attr, .in = { &images, &boxes, &mix }, .wanted = { true } };
    CHECK_OK(infer(OP_INPUT, &c));
    check_shape(&c.out[0], "f32[8,3,28,30]");
    Case wrong = { .attr = &attr, .in = { &images, NULL, &short_mix }, .wanted = { true } };
    CHECK_STATUS(infer(OP_INPUT, &wrong), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "is f32[2], expected f32[7]");
    Case views = { .attr = &twice, .in = { &images }, .wanted = { true } };
    CHECK_OK(infer(OP_INPUT, &views));
    check_shape(&views.out[0], "f32[16,3,28,30]");
    Case both = { .attr = &twice, .in = { &images, &boxes }, .wanted = { true } };
    CHECK_STATUS(infer(OP_INPUT, &both), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "several views");
    TensorDesc column = tensor_desc(DTYPE_U8, 4, (int64_t[]){ 8, 28, 1, 3 });
    attr.views = VIEWS_SHIFTED;
    Case shifted = { .attr = &attr, .in = { &images }, .wanted = { true } };
    CHECK_OK(infer(OP_INPUT, &shifted));
    check_shape(&shifted.out[0], "f32[48,3,28,30]");
    shifted.in[0] = &column;
    CHECK_STATUS(infer(OP_INPUT, &shifted), ERR_INTERNAL);
}

TEST(conv2d_shapes)
{
    static const struct {
        Conv2dAttr attr;
        int64_t x[4], w[4];
        const char *y;
    } rows[] = {
        { { 2, 2, 3, 3, 3, 3, 1 }, { 32, 3, 224, 224 }, { 64, 3, 7, 7 }, "f32[32,64,112,112]" },
        { { 1, 1, 1, 1, 1, 1, 1 }, { 2, 8, 1, 1 }, { 16, 8, 3, 3 }, "f32[2,16,1,1]" },
        { { 2, 2, 0, 0, 0, 0, 1 }, { 2, 8, 7, 7 }, { 16, 8, 1, 1 }, "f32[2,16,4,4]" },
        { { 2, 2, 0, 1, 0, 1, 1 }, { 2, 8, 7, 8 }, { 16, 8, 3, 3 }, "f32[2,16,3,4]" },
        { { 1, 2, 1, 1, 1, 1, 4 }, { 2, 8, 5, 6 }, { 12, 2, 3, 3 }, "f32[2,12,5,3]" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        TensorDesc x = tensor_desc(DTYPE_F32, 4, rows[i].x),
                   w = tensor_desc(DTYPE_F32, 4, rows[i].w);
        Case c = { .attr = &rows[i].attr, .in = { &x, &w }, .wanted = { true } };
        CHECK_OK(infer(OP_CONV2D, &c));
        check_shape(&c.out[0], rows[i].y);
        Case data = {
            .attr = &rows[i].attr, .in = { &c.out[0], &w }, .wanted = { true }, .out = { x }
        };
        CHECK_OK(infer(OP_CONV2D_BWD_DATA, &data));
        Case weights = {
            .attr = &rows[i].attr, .in = { &x, &c.out[0] }, .wanted = { true }, .out = { w }
        };
        CHECK_OK(infer(OP_CONV2D_BWD_WEIGHTS, &weights));
    }
}

TEST(conv2d_refuses_what_does_not_fit)
{
    Conv2dAttr attr = { 1, 1, 1, 1, 1, 1, 1 }, no_pad = { 1, 1, 0, 0, 0, 0, 1 },
               bad = { 0, 1, 0, 0, 0, 0, 1 };
    TensorDesc x = f32x4(2, 8, 2, 2), w = f32x4(16, 4, 3, 3), good = f32x4(16, 8, 3, 3),
               y = f32x4(2, 16, 3, 3);
    Case channels = { .attr = &attr, .in = { &x, &w }, .wanted = { true } };
    CHECK_STATUS(infer(OP_CONV2D, &channels), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "conv2d: weights f32[16,4,3,3] do not fit x f32[2,8,2,2]");
    Case window = { .attr = &no_pad, .in = { &x, &good }, .wanted = { true } };
    CHECK_STATUS(infer(OP_CONV2D, &window), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "window");
    Case stride = { .attr = &bad, .in = { &x, &good }, .wanted = { true } };
    CHECK_STATUS(infer(OP_CONV2D, &stride), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "stride 0x1");
    Case missing = { .attr = &attr, .in = { &x, NULL }, .wanted = { true } };
    CHECK_STATUS(infer(OP_CONV2D, &missing), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "input w is missing");
    Case preset = { .attr = &attr, .in = { &x, &good }, .wanted = { true }, .out = { y } };
    CHECK_STATUS(infer(OP_CONV2D, &preset), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "y is f32[2,16,3,3], expected f32[2,16,2,2]");
    Case open = { .attr = &attr, .in = { &y, &good }, .wanted = { true } };
    CHECK_STATUS(infer(OP_CONV2D_BWD_DATA, &open), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "dx must be given");
    Case grad = { .attr = &attr, .in = { &y, &good }, .wanted = { true }, .out = { x } };
    CHECK_STATUS(infer(OP_CONV2D_BWD_DATA, &grad), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "conv2d_bwd_data: dy is");
}

TEST(conv2d_counts_flops_in_all_directions)
{
    Conv2dAttr attr = { 2, 2, 3, 3, 3, 3, 1 };
    TensorDesc x = f32x4(1, 3, 224, 224), w = f32x4(64, 3, 7, 7), y = f32x4(1, 64, 112, 112);
    const double want = 2.0 * 64 * 112 * 112 * 3 * 7 * 7;
    CHECK_NEAR(op_flops(OP_CONV2D, &attr, (const TensorDesc *[]){ &x, &w }, &y), want, 0);
    CHECK_NEAR(op_flops(OP_CONV2D_BWD_DATA, &attr, (const TensorDesc *[]){ &y, &w }, &x), want, 0);
    CHECK_NEAR(op_flops(OP_CONV2D_BWD_WEIGHTS, &attr, (const TensorDesc *[]){ &x, &y }, &w), want,
               0);
}

TEST(batchnorm_shapes_and_residual_rule)
{
    BatchNormAttr attr = { 1e-5F, 0.1F, BN_TRAIN, ACT_RELU, 0 };
    TensorDesc x = f32x4(2, 8, 4, 4), v = f32x1(8), short_v = f32x1(7), saved = f32x2(2, 8);
    Case c = { .attr = &attr, .in = { &x, &v, &v, &v, &v, &x }, .wanted = { true, true } };
    CHECK_OK(infer(OP_BATCHNORM, &c));
    check_shape(&c.out[BN_OUT_Y], "f32[2,8,4,4]");
    check_shape(&c.out[BN_OUT_SAVED], "f32[2,8]");
    Case eval = { .attr = &attr, .in = { &x, &v, &v, &v, &v }, .wanted = { true, false } };
    CHECK_OK(infer(OP_BATCHNORM, &eval));
    CHECK_INT(eval.out[BN_OUT_SAVED].rank, 0);
    Case gamma = { .attr = &attr, .in = { &x, &short_v, &v, &v, &v }, .wanted = { true } };
    CHECK_STATUS(infer(OP_BATCHNORM, &gamma), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "batchnorm: gamma is f32[7], expected f32[8]");

    Case bwd = { .attr = &attr,
                 .in = { &x, NULL, &x, NULL, &v, &v, &saved },
                 .wanted = { true, true, true, false } };
    CHECK_OK(infer(OP_BATCHNORM_BWD, &bwd));
    check_shape(&bwd.out[BN_BWD_OUT_DGAMMA], "f32[8]");
    CHECK_INT(bwd.out[BN_BWD_OUT_DRESIDUAL].rank, 0);
    Case residual = { .attr = &attr,
                      .in = { &x, NULL, &x, NULL, &v, &v, &saved },
                      .wanted = { true, true, true, true } };
    CHECK_STATUS(infer(OP_BATCHNORM_BWD, &residual), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "y is required");
    Case with_y = { .attr = &attr,
                    .in = { &x, &x, &x, &x, &v, &v, &saved },
                    .wanted = { true, true, true, true } };
    CHECK_OK(infer(OP_BATCHNORM_BWD, &with_y));
    check_shape(&with_y.out[BN_BWD_OUT_DRESIDUAL], "f32[2,8,4,4]");
}

TEST(pool2d_shapes_and_index)
{
    Pool2dAttr max = { POOL_MAX, 3, 3, 2, 2, 1, 1 }, avg = { POOL_AVG, 2, 2, 2, 2, 0, 0 },
               padded = { POOL_MAX, 2, 2, 2, 2, 2, 2 };
    TensorDesc x = f32x4(2, 64, 112, 112), y = f32x4(2, 64, 56, 56),
               index = tensor_desc(DTYPE_U8, 4, y.dims);
    Case c = { .attr = &max, .in = { &x }, .wanted = { true, true } };
    CHECK_OK(infer(OP_POOL2D, &c));
    check_shape(&c.out[POOL_OUT_Y], "f32[2,64,56,56]");
    check_shape(&c.out[POOL_OUT_INDEX], "u8[2,64,56,56]");
    Case no_index = { .attr = &avg, .in = { &x }, .wanted = { true, true } };
    CHECK_STATUS(infer(OP_POOL2D, &no_index), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "only max pooling");
    Case pad = { .attr = &padded, .in = { &x }, .wanted = { true } };
    CHECK_STATUS(infer(OP_POOL2D, &pad), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "pad 2x2");
    Case bwd = { .attr = &max, .in = { &y, &index }, .wanted = { true }, .out = { x } };
    CHECK_OK(infer(OP_POOL2D_BWD, &bwd));
    Case lost = { .attr = &max, .in = { &y, NULL }, .wanted = { true }, .out = { x } };
    CHECK_STATUS(infer(OP_POOL2D_BWD, &lost), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "index");
}

TEST(subsample_and_global_avgpool_shapes)
{
    SubsampleAttr attr = { 2, 32 }, fewer = { 2, 8 };
    TensorDesc x = f32x4(4, 16, 33, 32), y = f32x4(4, 32, 17, 16), pooled = f32x2(4, 16);
    Case c = { .attr = &attr, .in = { &x }, .wanted = { true } };
    CHECK_OK(infer(OP_SUBSAMPLE, &c));
    check_shape(&c.out[0], "f32[4,32,17,16]");
    Case less = { .attr = &fewer, .in = { &x }, .wanted = { true } };
    CHECK_STATUS(infer(OP_SUBSAMPLE, &less), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "from 16 to 8 channels");
    Case bwd = { .attr = &attr, .in = { &y }, .wanted = { true }, .out = { x } };
    CHECK_OK(infer(OP_SUBSAMPLE_BWD, &bwd));
    Case pool = { .in = { &x }, .wanted = { true } };
    CHECK_OK(infer(OP_GLOBAL_AVGPOOL, &pool));
    check_shape(&pool.out[0], "f32[4,16]");
    Case pool_bwd = { .in = { &pooled }, .wanted = { true }, .out = { x } };
    CHECK_OK(infer(OP_GLOBAL_AVGPOOL_BWD, &pool_bwd));
    Case pool_wrong = { .in = { &pooled }, .wanted = { true }, .out = { y } };
    CHECK_STATUS(infer(OP_GLOBAL_AVGPOOL_BWD, &pool_wrong), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "expected f32[4,32]");
}

TEST(linear_flattens_images)
{
    TensorDesc x = f32x4(4, 1, 28, 28), w = f32x2(10, 784), b = f32x1(10), dy = f32x2(4, 10),
               bad = f32x2(10, 783);
    Case c = { .in = { &x, &w, &b }, .wanted = { true } };
    CHECK_OK(infer(OP_LINEAR, &c));
    check_shape(&c.out[0], "f32[4,10]");
    Case wrong = { .in = { &x, &bad, &b }, .wanted = { true } };
    CHECK_STATUS(infer(OP_LINEAR, &wrong), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "linear: weights f32[10,783] do not fit x f32[4,1,28,28]");
    Case data = { .in = { &dy, &w }, .wanted = { true }, .out = { x } };
    CHECK_OK(infer(OP_LINEAR_BWD_DATA, &data));
    Case weights = { .in = { &x, &dy }, .wanted = { true, true }, .out = { w } };
    CHECK_OK(infer(OP_LINEAR_BWD_WEIGHTS, &weights));
    check_shape(&weights.out[LINEAR_BWD_WEIGHTS_OUT_DB], "f32[10]");
}

TEST(softmax_xent_needs_labels_of_the_batch)
{
    XentAttr attr = { .label_smoothing = 0.1F }, bad = { .label_smoothing = 1.5F };
    TensorDesc logits = f32x2(4, 10), scalars = f32x1(SCALAR_COUNT);
    TensorDesc labels = tensor_desc(DTYPE_I32, 1, (int64_t[]){ 4 }),
               few = tensor_desc(DTYPE_I32, 1, (int64_t[]){ 3 });
    Case c = { .attr = &attr, .in = { &logits, &labels, &scalars }, .wanted = { true, true } };
    CHECK_OK(infer(OP_SOFTMAX_XENT, &c));
    check_shape(&c.out[XENT_OUT_STATS], "f64[4]");
    check_shape(&c.out[XENT_OUT_DLOGITS], "f32[4,10]");
    Case short_batch = { .attr = &attr, .in = { &logits, &few, &scalars }, .wanted = { true } };
    CHECK_STATUS(infer(OP_SOFTMAX_XENT, &short_batch), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "labels is i32[3], expected i32[4]");
    Case smoothing = { .attr = &bad, .in = { &logits, &labels, &scalars }, .wanted = { true } };
    CHECK_STATUS(infer(OP_SOFTMAX_XENT, &smoothing), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "1.5");
    XentAttr twice = { .views = 2 };
    TensorDesc half = tensor_desc(DTYPE_I32, 1, (int64_t[]){ 2 });
    Case views = { .attr = &twice, .in = { &logits, &half, &scalars }, .wanted = { true } };
    CHECK_OK(infer(OP_SOFTMAX_XENT, &views));
    views.wanted[XENT_OUT_DLOGITS] = true;
    CHECK_STATUS(infer(OP_SOFTMAX_XENT, &views), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "2 views");
}

TEST(update_needs_its_states_and_sorted_segments)
{
    static const UpdateSegment good[] = { { 0, 4, 0.1F, 1, false }, { 6, 4, 0.0F, 1, false } },
                               overlap[] = { { 0, 4, 0.1F, 1, false }, { 3, 2, 0.0F, 1, false } },
                               beyond[] = { { 8, 4, 0.0F, 1, false } };
    UpdateAttr plain = { .kind = UPDATE_SGD, .segment_count = 2, .segments = good },
               momentum = plain, adam = plain, bad = plain, far = plain;
    momentum.momentum = 0.9F;
    adam.kind = UPDATE_ADAM;
    bad.segments = overlap;
    far.segments = beyond;
    far.segment_count = 1;
    TensorDesc p = f32x1(10), s = f32x1(SCALAR_COUNT);
    Case sgd = { .attr = &plain, .in = { &p, &p, NULL, NULL, &s } };
    CHECK_OK(infer(OP_UPDATE, &sgd));
    Case no_state = { .attr = &momentum, .in = { &p, &p, NULL, NULL, &s } };
    CHECK_STATUS(infer(OP_UPDATE, &no_state), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "state0");
    Case one_moment = { .attr = &adam, .in = { &p, &p, &p, NULL, &s } };
    CHECK_STATUS(infer(OP_UPDATE, &one_moment), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "state1");
    Case two = { .attr = &adam, .in = { &p, &p, &p, &p, &s } };
    CHECK_OK(infer(OP_UPDATE, &two));
    Case over = { .attr = &bad, .in = { &p, &p, NULL, NULL, &s } };
    CHECK_STATUS(infer(OP_UPDATE, &over), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "segment 1 (3+2)");
    Case out = { .attr = &far, .in = { &p, &p, NULL, NULL, &s } };
    CHECK_STATUS(infer(OP_UPDATE, &out), ERR_INTERNAL);
}

TEST(loss_scale_has_a_state_of_its_own)
{
    LossScaleAttr rule = { .growth = 2, .backoff = 0.5F, .max = 65536, .interval = 100 },
                  shrinking = rule, never = rule;
    shrinking.growth = 0.5F;
    never.interval = 0;
    TensorDesc state = f32x1(LOSS_SCALE_COUNT), other = f32x1(LOSS_SCALE_COUNT + 1),
               x = f32x1(1000);
    Case moves = { .attr = &rule, .in = { &state } };
    CHECK_OK(infer(OP_LOSS_SCALE, &moves));
    Case wrong_state = { .attr = &rule, .in = { &other } };
    CHECK_STATUS(infer(OP_LOSS_SCALE, &wrong_state), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "state is f32[5], expected f32[4]");
    Case shrinks = { .attr = &shrinking, .in = { &state } },
         waits = { .attr = &never, .in = { &state } };
    CHECK_STATUS(infer(OP_LOSS_SCALE, &shrinks), ERR_INTERNAL);
    CHECK_STATUS(infer(OP_LOSS_SCALE, &waits), ERR_INTERNAL);
    Case check = { .in = { &x, &state } };
    CHECK_OK(infer(OP_FINITE_CHECK, &check));
    Case stateless = { .in = { &x } };
    CHECK_STATUS(infer(OP_FINITE_CHECK, &stateless), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "loss_scale is missing");
}

TEST(loss_and_update_may_have_a_loss_scale)
{
    static const UpdateSegment all[] = { { 0, 10, 0.0F, 1, false } };
    XentAttr attr = { 0 };
    UpdateAttr sgd = { .kind = UPDATE_SGD, .segment_count = 1, .segments = all };
    TensorDesc logits = f32x2(4, 10), labels = tensor_desc(DTYPE_I32, 1, (int64_t[]){ 4 }),
               p = f32x1(10);
    TensorDesc scalars = f32x1(SCALAR_COUNT), state = f32x1(LOSS_SCALE_COUNT), bad = f32x1(1);
    Case loss = { .attr = &attr,
                  .in = { &logits, &labels, &scalars, &state },
                  .wanted = { true, true } };
    CHECK_OK(infer(OP_SOFTMAX_XENT, &loss));
    loss.in[XENT_IN_LOSS_SCALE] = &bad;
    CHECK_STATUS(infer(OP_SOFTMAX_XENT, &loss), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "loss_scale");
    Case update = { .attr = &sgd, .in = { &p, &p, NULL, NULL, &scalars, &state } };
    CHECK_OK(infer(OP_UPDATE, &update));
    update.in[UPDATE_IN_LOSS_SCALE] = &bad;
    CHECK_STATUS(infer(OP_UPDATE, &update), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "loss_scale");
}

TEST(the_norm_is_made_of_chunks)
{
    static const UpdateSegment all[] = { { 0, 10, 0.0F, 1, false } };
    GradNormAttr rule = { .max_norm = 1 }, negative = { .max_norm = -1 };
    UpdateAttr sgd = { .kind = UPDATE_SGD, .segment_count = 1, .segments = all };
    TensorDesc x = f32x1(2 * GRAD_SQUARES_CHUNK + 1),
               sums = tensor_desc(DTYPE_F64, 1, (int64_t[]){ 3 });
    TensorDesc p = f32x1(10), scalars = f32x1(SCALAR_COUNT), state = f32x1(LOSS_SCALE_COUNT),
               bad = f32x1(5);
    Case squares = { .in = { &x }, .wanted = { true } };
    CHECK_OK(infer(OP_GRAD_SQUARES, &squares));
    CHECK(squares.out[GRAD_SQUARES_OUT_SUMS].dtype == DTYPE_F64 &&
          squares.out[GRAD_SQUARES_OUT_SUMS].dims[0] == 3);
    Case norm = { .attr = &rule, .in = { &sums, &state }, .wanted = { true } };
    CHECK_OK(infer(OP_GRAD_NORM, &norm));
    CHECK_INT(norm.out[GRAD_NORM_OUT_CLIP].dims[0], CLIP_COUNT);
    Case single = { .attr = &rule, .in = { &x }, .wanted = { true } };
    CHECK_STATUS(infer(OP_GRAD_NORM, &single), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "sums is f32");
    Case below = { .attr = &negative, .in = { &sums }, .wanted = { true } };
    CHECK_STATUS(infer(OP_GRAD_NORM, &below), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "-1 is not a valid maximum norm");
    Case update = { .attr = &sgd,
                    .in = { &p, &p, NULL, NULL, &scalars, NULL, &norm.out[GRAD_NORM_OUT_CLIP] } };
    CHECK_OK(infer(OP_UPDATE, &update));
    update.in[UPDATE_IN_CLIP] = &bad;
    CHECK_STATUS(infer(OP_UPDATE, &update), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "clip");
}

TEST(trust_ratios_are_of_kinds_that_have_them)
{
    static const UpdateSegment both[] = { { 0, 2 * TRUST_CHUNK + 1, 0.1F, 1, true },
                                          { 2 * TRUST_CHUNK + 1, 9, 0.0F, 1, false } };
    UpdateAttr rule = { .kind = UPDATE_LARS, .segment_count = 2, .segments = both }, sgd = rule,
               still = { .kind = UPDATE_LAMB, .segment_count = 1, .segments = both + 1 };
    TensorDesc p = f32x1(2 * TRUST_CHUNK + 10), scalars = f32x1(SCALAR_COUNT), bad = f32x1(3);
    sgd.kind = UPDATE_SGD;
    Case ratio = { .attr = &rule, .in = { &p, &p, &p, &p, &scalars }, .wanted = { true, true } };
    CHECK_OK(infer(OP_TRUST_RATIO, &ratio));
    CHECK_INT(ratio.out[TRUST_RATIO_OUT_SUMS].dims[0], 3);
    CHECK_INT(ratio.out[TRUST_RATIO_OUT_RATIOS].dims[0], 2);
    ratio.attr = &sgd;
    CHECK_STATUS(infer(OP_TRUST_RATIO, &ratio), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "sgd has no trust ratios here");
    ratio.attr = &still;
    CHECK_STATUS(infer(OP_TRUST_RATIO, &ratio), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "lamb has no trust ratios here");
    Case update = { .attr = &rule, .in = { &p, &p, NULL, NULL, &scalars, NULL, NULL, &bad } };
    CHECK_STATUS(infer(OP_UPDATE, &update), ERR_INTERNAL);
    CHECK_CONTAINS(status_message(), "ratio");
}

TEST(attributes_are_printed)
{
    char text[64];
    Conv2dAttr conv = { 2, 2, 1, 1, 1, 1, 1 }, odd = { 1, 2, 0, 1, 0, 1, 4 };
    op_def(OP_CONV2D)->print(&conv, text, sizeof text);
    CHECK_STR(text, "/2 pad 1");
    op_def(OP_CONV2D)->print(&odd, text, sizeof text);
    CHECK_STR(text, "/1x2 pad 0,1,0,1 groups 4");
    BatchNormAttr bn = { 1e-5F, 0.1F, BN_FROZEN, ACT_RELU, 0 };
    op_def(OP_BATCHNORM)->print(&bn, text, sizeof text);
    CHECK_STR(text, "frozen relu");
    Pool2dAttr pool = { POOL_MAX, 3, 3, 2, 2, 1, 1 };
    op_def(OP_POOL2D)->print(&pool, text, sizeof text);
    CHECK_STR(text, "max 3x3/2x2 pad 1x1");
}

/* A residual and the second share of dy come together; the residual's vectors and what dz does to
 * its norm, all or none of them. */
TEST(gradients_at_block_ends_are_whole_or_refused)
{
    const Conv2dAttr attr = { 1, 1, 0, 0, 0, 0, 1 };
    const TensorDesc dy = f32x4(2, 8, 6, 6), w = f32x4(8, 4, 1, 1), x = f32x4(2, 4, 6, 6),
                     other = f32x4(2, 4, 6, 5), vector = f32x1(4), saved = f32x2(2, 4);
    const struct {
        const TensorDesc *dy2, *residual, *gamma, *saved;
        bool results;
        Status status;
    } rows[] = { { NULL, NULL, NULL, NULL, false, OK },
                 { &x, &x, NULL, NULL, false, OK },
                 { &x, &x, &vector, &saved, true, OK },
                 { &x, NULL, NULL, NULL, false, ERR_INTERNAL },
                 { NULL, &x, NULL, NULL, false, ERR_INTERNAL },
                 { NULL, NULL, &vector, &saved, true, ERR_INTERNAL },
                 { &x, &x, NULL, NULL, true, ERR_INTERNAL },
                 { &x, &x, &vector, &saved, false, ERR_INTERNAL },
                 { &x, &x, &vector, NULL, true, ERR_INTERNAL },
                 { &other, &x, NULL, NULL, false, ERR_INTERNAL },
                 { &x, &other, NULL, NULL, false, ERR_INTERNAL } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bool results = rows[i].results;
        Case c = { .attr = &attr,
                   .in = { &dy, &w, &x, &vector, &vector, &saved, rows[i].dy2, rows[i].residual,
                           rows[i].gamma, rows[i].gamma, rows[i].saved },
                   .wanted = { true, true, true, true, results, results, results } };
        CHECK_STATUS(infer(OP_CONV2D_BWD_DATA_NORM, &c), rows[i].status);
        if (rows[i].status != OK) continue;
        check_shape(&c.out[CONV_BWD_DATA_NORM_OUT_DZ], "f32[2,4,6,6]");
        check_shape(&c.out[CONV_BWD_DATA_NORM_OUT_COEFFICIENTS], "f32[3,4]");
        CHECK_INT(c.out[CONV_BWD_DATA_NORM_OUT_RESIDUAL_COEFFICIENTS].rank, results ? 2 : 0);
    }
}
