/* whiten.h - filters that whiten patches of images: first values of a convolution that are made of
 * the data (INIT_WHITEN), as in Keller Jordan's airbench.
 *
 * Of all patches p of many images the second moments E[p p^T] are taken, the mean left in. Filter k
 * is their eigenvector k, of the largest eigenvalue first, divided by sqrt(eigenvalue + 5e-4); as
 * many filters follow with the opposite signs. */
#ifndef CONVOY_MODELS_WHITEN_H
#define CONVOY_MODELS_WHITEN_H
#include "base/status.h"
#include <stdint.h>

typedef struct Whiten Whiten;
/* For patches of channels x rows x columns. */
Status whiten_create(Whiten **out, int channels, int rows, int columns);
void whiten_destroy(Whiten *w); /* NULL ok */
/* Takes the patches of an image u8 [height, width, channels] in, normalised as OP_INPUT does. */
void whiten_add(Whiten *w, const uint8_t *image, int height, int width, const float *mean,
                const float *std);
/* out: [2 n, channels, rows, columns], n = channels * rows * columns. Of an eigenvector the largest
 * element is positive in its first filter. Takes the moments apart: once. ERR_DATA where there was
 * no patch. */
Status whiten_filters(Whiten *w, float *out);
#endif
