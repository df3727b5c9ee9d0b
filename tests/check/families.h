/* families.h - the rows of the check, one file per group of ops, and what those files share. */
#ifndef CONVOY_TESTS_CHECK_FAMILIES_H
#define CONVOY_TESTS_CHECK_FAMILIES_H
#include "tests/check/check.h"

extern const Family family_input, family_conv2d, family_conv2d_bwd_data, family_conv2d_bwd_weights,
    family_batchnorm, family_batchnorm_bwd, family_activation, family_activation_bwd, family_add,
    family_pool2d, family_pool2d_bwd, family_global_avgpool, family_global_avgpool_bwd,
    family_subsample, family_subsample_bwd, family_linear, family_linear_bwd_data,
    family_linear_bwd_weights, family_softmax_xent, family_update, family_scale,
    family_finite_check, family_loss_scale, family_grad_squares, family_grad_norm, family_gate,
    family_gate_bwd, family_drop, family_drop_bwd, family_conv2d_stats, family_conv2d_bwd_data_norm,
    family_conv2d_bwd_weights_norm, family_bn_finalize, family_bn_apply, family_bn_bwd_apply,
    family_conv2d_bn;

int64_t draw_between(Rng *rng, int64_t low, int64_t high); /* both included */
/* below, at, above and between multiples of 8 and 16 */
int64_t draw_channels(Rng *rng);
bool draw_chance(Rng *rng, int one_in);
/* rank = how many are not 0, from the left */
TensorDesc desc_f32(int64_t a, int64_t b, int64_t c, int64_t d);
bool power_of_two(int64_t v);
#endif
