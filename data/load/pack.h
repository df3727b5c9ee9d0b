/* pack.h - a dataset of files as a few large shards (shard.h): no file system round trip a sample,
 * same samples in the same order. */
#ifndef CONVOY_DATA_LOAD_PACK_H
#define CONVOY_DATA_LOAD_PACK_H
#include "data/load/dataset.h"

typedef struct PackOptions {
    const char *out;     /* folder of the shards; made if it is not there */
    int64_t shard_bytes; /* about so much a shard */
    int threads;
    /* store where each row of a JPEG file begins, so that a crop decodes only its rows */
    bool seek;
    bool baseline; /* recode progressive JPEG files without loss; only where the pixels are equal */
} PackOptions;

typedef struct PackReport {
    int64_t images, bytes; /* written now */
    int shards, kept;      /* all; those that an earlier call had finished */
    int64_t recoded;       /* to baseline */
    /* packed as empty samples, which training treats as it would the bad file */
    int64_t unreadable;
} PackReport;

/* Writes the shards that are not there yet, each under a temporary name until it is complete: after
 * a kill the same call goes on where it was. ERR_USAGE: the folder holds shards of other data or
 * options; ERR_DATA: formats that hold pixels, no files; ERR_IO: cannot write. */
Status pack_dataset(const Dataset *d, const PackOptions *o, PackReport *report);
/* Reads all shards back: checksums, labels, names and every byte against the dataset (recoded
 * files: every pixel). ERR_DATA names the first sample that differs. */
Status pack_verify(const Dataset *d, const PackOptions *o);
#endif
