/* positions.h - learned positions of a sequence of patches, made to fit images of another size than
 * they were learned on, as the libraries do when they load weights. */
#ifndef CONVOY_MODELS_POSITIONS_H
#define CONVOY_MODELS_POSITIONS_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

/* What learned positions [1, extra + height * width, C] are of: tokens that have no place in the
 * image, then patches by rows. Without patches: of no image. */
typedef struct PositionGrid {
    int64_t extra, height, width;
} PositionGrid;

/* The side of the square of patches that so many positions are of beside g's extra tokens; 0 where
 * they are of no square. */
int64_t positions_side(const PositionGrid *g, int64_t length);
/* Fills to [extra + height * width, channels], g's, from those of a square: bicubic between the
 * corners, as torchvision's interpolate_embeddings; antialias: between the edges, over more patches
 * where there are fewer now, as timm's resample_abs_pos_embed. Extra tokens are copied. May fail
 * for memory. */
Status positions_resample(const PositionGrid *g, int64_t side, int64_t channels, bool antialias,
                          const float *from, float *to);
#endif
