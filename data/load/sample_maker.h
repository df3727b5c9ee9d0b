/* sample_maker.h - what turns tickets into the samples of a batch: one table of functions, one file
 * per kind of data. The loader knows which sample a ticket asks for, reads it and replaces bad
 * ones; what of it comes to lie in the batch is the maker's. */
#ifndef CONVOY_DATA_LOAD_SAMPLE_MAKER_H
#define CONVOY_DATA_LOAD_SAMPLE_MAKER_H
#include "data/load/loader.h"
#include "data/load/worker.h"

typedef struct SampleTask { /* of one thread */
    Worker *worker;
    const LoaderOptions *o;
    const Source *source;
    const BatchLayout *layout; /* what layout() said */
    void *block;
    int64_t index; /* of the sample in its batch */
    bool training;
    AugmentDraw draw;     /* evaluation: its sample alone */
    const Sample *sample; /* NULL: padding, and in evaluation what could not be made */
} SampleTask;

typedef struct SampleMaker {
    BatchLayout (*layout)(const LoaderOptions *o); /* the fields of a batch */
    Status (*make)(const SampleTask *t);           /* errors as Source.read */
    /* What belongs to no sample alone, by the thread that takes the batch. Training: first is the
     * index of its first sample in the global batch, which begins in that epoch; evaluation: epoch
     * is -1. Sets batch's counts of what it knows. */
    void (*finish)(const LoaderOptions *o, Batch *batch, int64_t first, int64_t epoch);
} SampleMaker;

extern const SampleMaker sample_images, sample_tokens;
#endif
