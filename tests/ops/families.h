/* families.h - the rows of the check, one file per group of ops, and what those files share. */
#ifndef CONVOY_TESTS_OPS_FAMILIES_H
#define CONVOY_TESTS_OPS_FAMILIES_H
#include "tests/ops/check.h"

#define FAMILY(kind, name, fused) extern const Family family_##name;
OP_LIST(FAMILY)
#undef FAMILY

/* For GRN too, whose slots are the same. */
void families_layernorm_build(const int64_t *p, Problem *out);
int64_t draw_between(Rng *rng, int64_t low, int64_t high); /* both included */
/* below, at, above and between multiples of 8 and 16 */
int64_t draw_channels(Rng *rng);
int64_t draw_normed_act(Rng *rng); /* one that a batch norm takes along */
int64_t draw_folded_act(Rng *rng); /* and a convolution with it */
bool draw_chance(Rng *rng, int one_in);
/* rank = how many are not 0, from the left */
TensorDesc desc_f32(int64_t a, int64_t b, int64_t c, int64_t d);
bool power_of_two(int64_t v);
#endif
