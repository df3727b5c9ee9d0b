/* fuse_choice.h - which fusions a backend takes, in words (device.fuse). */
#ifndef CONVOY_KERNELS_FUSE_CHOICE_H
#define CONVOY_KERNELS_FUSE_CHOICE_H
#include "kernels/backend.h"

typedef struct FuseChoice {
    FuseMode mode;
    unsigned only; /* bits of the fusions that are taken; 0: any */
} FuseChoice;

/* "auto", "none", "all", or names of fusions between commas, blanks being underscores: these
 * wherever the backend can, no others. ERR_USAGE with a sentence that goes on from the name of the
 * key. */
Status fuse_choice_parse(FuseChoice *out, const char *text);
/* That of a Fusion's name; 0 if there is none so named. */
unsigned fuse_choice_bit(const char *name);
#endif
