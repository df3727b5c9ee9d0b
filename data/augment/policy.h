/* policy.h - what happens to a training image after crop and flip: colour jitter, an automatic
 * policy, erasing; drawn as a plan of ops, then applied.
 *
 * The policies, their tables and distributions are those of torchvision.transforms (ColorJitter,
 * RandAugment, AutoAugment, TrivialAugmentWide, AugMix, RandomErasing) on PIL images, and one of
 * timm's (policy_timm.h); the draws are
 * ours, addressed by (seed, epoch, sample, repeat). policy.c says in which order they are made. */
#ifndef CONVOY_DATA_AUGMENT_POLICY_H
#define CONVOY_DATA_AUGMENT_POLICY_H
#include "data/augment/augment.h"
#include "data/augment/image_op.h"

#define POLICY_PLAN_MAX_OPS    32
#define POLICY_PLAN_MAX_CHAINS 4
_Static_assert(4 + POLICY_MAX_OPS <= POLICY_PLAN_MAX_OPS, "jitter and RandAugment");
_Static_assert(4 + 3 * POLICY_PLAN_MAX_CHAINS <= POLICY_PLAN_MAX_OPS, "jitter and AugMix");

/* AugMix: a picture of its own, made from the one that the plan's ops left */
typedef struct PolicyChain {
    int first, count; /* in PolicyPlan.ops, behind op_count */
    float weight;
} PolicyChain;

typedef struct PolicyPlan {
    ImageOp ops[POLICY_PLAN_MAX_OPS];
    int op_count; /* one after the other */
    int chain_count;
    PolicyChain chains[POLICY_PLAN_MAX_CHAINS];
    float own_weight; /* of the picture that no chain changed; with chains only */
    uint32_t cubic;   /* bit i: ops[i] samples bicubically, whatever the style says */
} PolicyPlan;
_Static_assert(POLICY_PLAN_MAX_OPS <= 32, "a bit for each");

void policy_draw(const PolicyOptions *o, int width, int height, const AugmentDraw *draw,
                 PolicyPlan *out);
/* Where the normalised image is erased; height 0: nowhere. */
EraseBox policy_draw_erase(double probability, int width, int height, const AugmentDraw *draw);

typedef struct PolicyScratch { /* zero-initialise; one per thread */
    ImageOpScratch op;
    ByteBuf chain, sum;
} PolicyScratch;
Status policy_apply(const PolicyPlan *r, const ImageOpStyle *style, const Picture *p,
                    PolicyScratch *scratch);
void policy_scratch_free(PolicyScratch *scratch);

ImageOpStyle policy_style(const PolicyOptions *o);
/* Draws and applies: all that happens to a training picture behind crop and flip, but for
 * erasing. */
Status policy_augment(const PolicyOptions *o, const AugmentDraw *draw, const Picture *p,
                      PolicyScratch *scratch);

/* The magnitude of a bin as torchvision's table has it, without sign; false: the op has none.
 * Exposed for tests. */
bool policy_magnitude(AutoPolicy policy, ImageOpKind kind, int bin, int bins, int width, int height,
                      double *out);
/* Sub-policy `index` of AutoAugment: op, probability and bin (-1: none) of its step 0 or 1. Exposed
 * for tests. */
typedef struct SubPolicyStep {
    ImageOpKind kind;
    float probability;
    int bin;
} SubPolicyStep;
#define AUTOAUGMENT_SUB_POLICIES 25
const SubPolicyStep *policy_sub_policy(AutoAugmentTable table, int index, int step);
#endif
