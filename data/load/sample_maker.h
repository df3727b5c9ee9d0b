/* sample_maker.h - what turns tickets into the samples of a batch: one table of functions, one file
 * per kind of data. The loader knows which sample a ticket asks for, reads it and replaces bad
 * ones; what of it comes to lie in the slot is the maker's. */
#ifndef CONVOY_DATA_LOAD_SAMPLE_MAKER_H
#define CONVOY_DATA_LOAD_SAMPLE_MAKER_H
#include "data/augment/augment.h"
#include "data/load/loader.h"
#include "data/load/ring.h"
#include "data/source/source.h"

typedef struct SampleMaker SampleMaker; /* one thread's: its scratch and what it makes */

typedef struct SampleMakerKind {
    /* Borrows both until destroyed. The caller sets (*out)->kind. */
    Status (*create)(SampleMaker **out, const Source *source, const LoaderOptions *o);
    void (*destroy)(SampleMaker *m);
    ByteBuf *(*bytes)(SampleMaker *m); /* to read a sample into before it is made */
    /* Makes place index of the slot from sample draw->sample. Errors as Source.read. */
    Status (*make)(SampleMaker *m, const Sample *sample, const AugmentDraw *draw, RingSlot *slot,
                   int64_t index);
    /* What stands there for padding, and in evaluation for what could not be made. */
    void (*blank)(SampleMaker *m, RingSlot *slot, int64_t index);
} SampleMakerKind;

struct SampleMaker { /* first member of each kind's struct */
    const SampleMakerKind *kind;
};

extern const SampleMakerKind sample_images;
#endif
