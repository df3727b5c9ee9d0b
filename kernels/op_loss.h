/* op_loss.h - a loss comes out. */
#ifndef CONVOY_KERNELS_OP_LOSS_H
#define CONVOY_KERNELS_OP_LOSS_H
#include "kernels/op_input.h"
#include "kernels/op_scalars.h"

/* OP_SOFTMAX_XENT: loss, accuracy counts and the gradient of the logits in one pass.
 *   cross entropy         sum of w t (log sum exp(z) - z) over the classes, as torch's
 *   binary cross entropy  sum, or mean, of w (log(1 + exp(z)) - t z), as timm's
 * with logits z, weights w (1 without class_weights f32 [classes]) and targets t = (1 - s) one_hot
 * + s / classes, of which a threshold makes 1 (above) and 0. labels i32 [N]; -1 = padding, counts
 * nowhere. dlogits = scalars[SCALAR_GRAD_SCALE] * d(sum of losses); may lie over logits. stats f64
 * [STATS_COUNT] is overwritten. Ties count against the image: it is in the top k if fewer than k
 * other logits are >= the label's. With mix the target is lambda of the image's own label and the
 * rest of its neighbour's, and the larger share's label is the one that counts (a neighbour without
 * label: the image's own is all of it). With targets u8 [N, (classes + 7) / 8], rows of bits
 * (both_bit), an image has any number of labels, for binary cross entropy alone: the bits are its
 * one_hot, s / 2 is what smoothing adds, labels say padding alone (-1, else 0), and nothing is in
 * the top k. With several views, rows n, n + N and so on
 * belong to one image; its logits are their weighted mean, and there are no dlogits. With logits of
 * a teacher the loss is (1 - a) of the above and a T^2 sum of q (log q - log p) over the classes, p
 * and q being the softmaxes of logits / T and of the teacher's / T (Hinton et al. 2015), without
 * gradient of the teacher's. */
enum {
    XENT_IN_LOGITS,
    XENT_IN_LABELS,
    XENT_IN_SCALARS,
    XENT_IN_LOSS_SCALE /*optional: dlogits times its scale*/,
    XENT_IN_MIX /*optional*/,
    XENT_IN_CLASS_WEIGHTS /*optional*/,
    XENT_IN_TARGETS /*optional*/,
    XENT_IN_TEACHER /*optional: as logits*/
};
enum { XENT_OUT_STATS, XENT_OUT_DLOGITS /*optional*/ };
enum { STATS_LOSS_SUM, STATS_TOP1, STATS_TOP5, STATS_IMAGES, STATS_COUNT };
typedef enum LossKind { LOSS_CROSS_ENTROPY, LOSS_BCE, LOSS_KIND_COUNT } LossKind;
typedef struct XentAttr {
    float label_smoothing; /* s */
    int views;             /* VIEWS_... */
    LossKind loss;
    float threshold;            /* LOSS_BCE; 0: targets stay as they are */
    int sum;                    /* LOSS_BCE: over classes; 0: their mean */
    float temperature, distill; /* with a teacher: T above 0, a from 0 to 1 */
} XentAttr;
#endif
