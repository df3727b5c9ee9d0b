/* data.h - the public face of data/: a dataset on disk in, batches of uint8 images in memory out.
 *
 * A Dataset is an index over a source (ImageFolder tree, shards, tar or TFRecord files, IDX, CIFAR,
 * synthetic). A Loader turns a range of the endless training stream, or one pass of evaluation,
 * into batch slots: decode threads work ahead on step N+1 while the caller trains step N.
 *
 * THE STREAM. Training is the permutations of epoch 0, 1, 2, ... end to end. Global batch k is
 * positions kG .. (k+1)G of it for any world size; rank r takes the contiguous slice rG/W ..
 * (r+1)G/W, cut into micro-batches of batch images. Evaluation is positions 0 .. N-1 once, split
 * over ranks into contiguous slices; every rank makes the same number of batches and short ones are
 * padded with label -1. A training image's pixels depend on (seed, epoch, sample id) and on the
 * how many-th view of the sample it is, how a micro-batch is mixed on (seed, step, its place in the
 * global batch); nothing depends on threads, ranks or timing.
 *
 * Nothing here knows devices: slot memory comes from an allocator that the caller gives, which is
 * pinned where there is a device. */
#ifndef CONVOY_DATA_DATA_H
#define CONVOY_DATA_DATA_H
#include "data/decode/png_write.h"
#include "data/load/apart.h"
#include "data/load/dataset.h"
#include "data/load/loader.h"
#include "data/load/sampler.h"
#include "data/load/sequences.h"
#include "data/load/spread.h"
#include "data/load/view_file.h"
#include "data/source/other_format.h"
#include "data/tokens/mask.h"
#endif
