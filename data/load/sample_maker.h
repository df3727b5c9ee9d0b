/* sample_maker.h - what turns tickets into the samples of a batch: one table of functions, one file
 * per kind of data. The loader knows which sample a ticket asks for, reads it and replaces bad
 * ones; what of it comes to lie in the slot is the maker's. */
#ifndef CONVOY_DATA_LOAD_SAMPLE_MAKER_H
#define CONVOY_DATA_LOAD_SAMPLE_MAKER_H
#include "data/augment/augment.h"
#include "data/load/loader.h"
#include "data/source/source.h"

typedef struct BatchPlace {    /* of a micro-batch in training */
    int64_t step, first;       /* its first sample, in the global batch */
    int64_t position, samples; /* of the step's first in the stream; of an epoch */
} BatchPlace;

/* maker: one thread's own, what create() gave */
typedef struct SampleMaker {
    /* The fields of a batch, in an empty layout. */
    void (*layout)(const LoaderOptions *o, BatchLayout *out);
    /* Borrows all until destroyed; layout: what layout() said. */
    Status (*create)(void **out, const Source *source, const LoaderOptions *o,
                     const BatchLayout *layout);
    void (*destroy)(void *maker);   /* NULL ok */
    ByteBuf *(*bytes)(void *maker); /* to read a sample into before it is made */
    /* Makes place index of the batch in block from sample draw->sample. Errors as Source.read. */
    Status (*make)(void *maker, const Sample *sample, const AugmentDraw *draw, void *block,
                   int64_t index);
    /* What stands there for padding, and in evaluation for what could not be made. */
    void (*blank)(void *maker, void *block, int64_t index);
    /* What belongs to no sample alone, once all are made; by the thread that takes the batch. */
    void (*finish)(const LoaderOptions *o, const BatchLayout *layout, const BatchPlace *place,
                   void *block);
} SampleMaker;

extern const SampleMaker sample_images;
#endif
