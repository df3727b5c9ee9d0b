/* conv_graph.c - see conv_graph.h.
 *
 * Sums are f32. Engines that are not reproducible, that sum in a smaller type or that do not simply
 * sum (Winograd, FFT) are avoided; and for strict f32 those that round their inputs. Where inputs
 * may be rounded, engines on tensor cores come first: now and then the heuristics begin with one
 * that is not and copies whole activations through its workspace. */
#include "kernels/cuda/cudnn/conv_graph.h"
#include "kernels/cuda/cudnn/cudnn_write.h"
#include <stdio.h>

const ConvGraphPass conv_graph_passes[CONV_PASS_COUNT] = {
    [CONV_FORWARD] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                       { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y },
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
    [CONV_BWD_DATA] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                        { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY },
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
    [CONV_BWD_WEIGHTS] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                           { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY },
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
};

void conv_graph_dims(const ConvShape *s, int which, int64_t dims[4])
{
    const int64_t all[CONV_GRAPH_TENSORS][4] = {
        [CONV_GRAPH_X] = { s->n, s->c, s->h, s->w },
        [CONV_GRAPH_W] = { s->k, s->c / s->attr.groups, s->r, s->s },
        [CONV_GRAPH_Y] = { s->n, s->k, s->p, s->q },
    };
    for (int i = 0; i < 4; i++) dims[i] = all[which][i];
}

Status conv_graph_descriptor(const CudnnApi *api, const Conv2dAttr *a,
                             cudnnBackendDescriptor_t *out)
{
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t axes = 2, dilation[2] = { 1, 1 }, stride[2] = { a->stride_h, a->stride_w };
    const int64_t before[2] = { a->pad_top, a->pad_left },
                  after[2] = { a->pad_bottom, a->pad_right };
    const CudnnAttribute attributes[] = {
        { CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums },
        { CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode },
        { CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes },
        { CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation },
        { CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride },
        { CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before },
        { CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after },
    };
    return cudnn_api_make(api, out, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, attributes, 7,
                          "convolution descriptor");
}

void conv_graph_key(const char *pass, const ConvShape *s, size_t limit, char *out, size_t bytes)
{
    const Conv2dAttr *a = &s->attr;
    snprintf(out, bytes,
             "conv %s %s%s n%lld c%lld h%lld w%lld k%lld r%lld s%lld p%lld q%lld stride %d,%d pad "
             "%d,%d,%d,%d groups %d limit %zu",
             pass, dtype_name(s->io), s->tf32 ? " tf32" : "", (long long)s->n, (long long)s->c,
             (long long)s->h, (long long)s->w, (long long)s->k, (long long)s->r, (long long)s->s,
             (long long)s->p, (long long)s->q, a->stride_h, a->stride_w, a->pad_top, a->pad_bottom,
             a->pad_left, a->pad_right, a->groups, limit);
}

#define NOTE(name) (1u << CUDNN_NUMERICAL_NOTE_##name)

static bool is_strict(const ConvShape *s)
{
    return s->io == DTYPE_F32 && !s->tf32;
}

unsigned conv_graph_notes_to_prefer(const ConvShape *s)
{
    return is_strict(s) ? 0 : NOTE(TENSOR_CORE);
}

unsigned conv_graph_notes_to_avoid(const ConvShape *s)
{
    const unsigned always = NOTE(NONDETERMINISTIC) | NOTE(REDUCED_PRECISION_REDUCTION) | NOTE(FFT) |
                            NOTE(WINOGRAD) | NOTE(WINOGRAD_TILE_4x4) | NOTE(WINOGRAD_TILE_6x6) |
                            NOTE(WINOGRAD_TILE_13x13);
    return is_strict(s) ? always | NOTE(TENSOR_CORE) | NOTE(DOWN_CONVERT_INPUTS) : always;
}
