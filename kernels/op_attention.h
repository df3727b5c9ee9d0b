/* op_attention.h - multi-head attention (Vaswani et al. 2017) between the positions of a sequence,
 * and what makes a sequence of an image. */
#ifndef CONVOY_KERNELS_OP_ATTENTION_H
#define CONVOY_KERNELS_OP_ATTENTION_H
#include "kernels/op_layer.h"

/* OP_ATTENTION: sequences are [N,C,H,W] of L = H W positions; those of no image have W = 1. qkv
 * [N,3E,H,W] has at each position the queries, keys and values of all heads, as one packed
 * projection gives them: channel (part heads + head) d + i, with d = E / heads. Of each image and
 * head, with q, k, v [L,d]:
 *     y = drop(softmax(q k^T / sqrt(d))) v
 * y [N,E,H,W]; lse [N,heads,L], which backward needs: the logarithm of the sum of exponentials that
 * a row of the softmax is divided by. drop: as OP_DROP, with DropAttr's per_image false; element
 * (head L + i) 4 ceil(L / 4) + j is of query i and key j. scalars: where the rate is above 0.
 *
 * With starts i32 [N+1], qkv is one image [1,3E,H,W] of T = H W positions, which holds N sequences
 * one behind the other: sequence n has positions starts[n] to starts[n+1] - 1, none or at most
 * `longest`, and attends within itself. lse is [1,T,heads] then; draws are addressed by n, with L =
 * longest. The positions from starts[N] on are nobody's: there y, lse and dqkv are 0.
 * OP_ATTENTION_BWD: dqkv, from y and lse as forward left them. */
enum { ATTENTION_IN_QKV, ATTENTION_IN_SCALARS /*optional*/, ATTENTION_IN_STARTS /*optional*/ };
enum { ATTENTION_OUT_Y, ATTENTION_OUT_LSE /*optional*/ };
enum {
    ATTENTION_BWD_IN_DY,
    ATTENTION_BWD_IN_QKV,
    ATTENTION_BWD_IN_Y,
    ATTENTION_BWD_IN_LSE,
    ATTENTION_BWD_IN_SCALARS /*optional*/,
    ATTENTION_BWD_IN_STARTS /*optional*/
};
enum { ATTENTION_BWD_OUT_DQKV };
#define ATTENTION_MAX_WIDTH 128 /* d, which is a multiple of 8 */
typedef struct AttentionAttr {
    int heads;
    int longest; /* of the sequences that starts tells apart; 0: there are no starts */
    DropAttr drop;
} AttentionAttr;

/* OP_TOKENS: a sequence of the pixels of x [N,C,H,W], behind the class token [1,1,C] where there is
 * one, each with its position [1,L,C] added: y [N,C,L,1].
 * OP_TOKENS_BWD: the gradients of all three. */
enum { TOKENS_IN_X, TOKENS_IN_POSITIONS, TOKENS_IN_CLASS /*optional*/ };
enum { TOKENS_OUT_Y };
enum { TOKENS_BWD_IN_DY };
enum { TOKENS_BWD_OUT_DX, TOKENS_BWD_OUT_DPOSITIONS, TOKENS_BWD_OUT_DCLASS /*optional*/ };
#endif
