/* torch_names.h - the functions and classes that a pickle of weights may name. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_TORCH_NAMES_H
#define CONVOY_TRAINER_ENGINE_FILES_TORCH_NAMES_H
#include "trainer/engine/files/pickle.h"

typedef enum TorchKind {
    TORCH_TENSOR,    /* its arguments: storage, offset, sizes, strides */
    TORCH_PARAMETER, /* its first argument is a tensor */
    TORCH_TYPED,     /* its first argument makes a tensor of its third */
    TORCH_STORAGE,   /* a type of elements */
    TORCH_OTHER      /* beside the weights: of no interest */
} TorchKind;

typedef struct TorchName {
    const char *name;
    int made;  /* PICKLE_MAKES_DICT, PICKLE_MAKES_LIST, or a TorchKind */
    int dtype; /* TORCH_STORAGE: a DType, -1 where we have none such */
    int bytes; /* ... of an element */
} TorchName;

/* PickleSource.find: *out is a number for torch_names_at(). ERR_DATA with the whole name and the
 * way out for any other. */
Status torch_names_find(int *out, void *cookie, const char *name);
const TorchName *torch_names_at(int number);
#endif
