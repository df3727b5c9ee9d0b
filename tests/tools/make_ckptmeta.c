/* make_ckptmeta.c - a checkpoint with another metadata entry, its checksums right:
 * make_ckptmeta FILE OUT KEY VALUE, without the entry where VALUE is "". KEY "bias" gives the first
 * element of the tensor VALUE, a short one, as NaN instead. For tests/e2e. */
#include "base/mem.h"
#include "trainer/engine/files/safetensors.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const keys[] = {
    "checkpoint_format",
    "step",
    "run_step",
    "images",
    "epoch",
    "seed",
    "global_batch",
    "dataset_images",
    "norm_images",
    "best_top1",
    "stale",
    "val_print",
    "eval_due",
    "lr_factor",
    "rollbacks",
    "diverged",
    "rolled_to",
    "named_classes",
    "teacher",
    "pairs",
    "lookahead_rest",
    "ema_rest",
    "ema_images",
    "class_names",
    "model",
    "lookahead_images",
    "config",
    "words",
    "spent",
    "convoy",
};
enum { KEYS = sizeof keys / sizeof keys[0] };

static Status rewrite(SafeFile *f, char **argv)
{
    SafePair pairs[KEYS];
    int count = 0;
    for (int i = 0; i < KEYS; i++) {
        const char *value = safetensors_metadata(f, keys[i]);
        const bool edited = strcmp(keys[i], argv[3]) == 0;
        if (edited) value = argv[4];
        if (value && (value[0] || !edited)) pairs[count++] = (SafePair){ keys[i], value };
    }
    SafeTensor *tensors = mem_calloc((size_t)safetensors_count(f), sizeof *tensors);
    if (!tensors) return ERR_MEMORY;
    float values[4096];
    for (int i = 0; i < safetensors_count(f); i++) {
        tensors[i] = *safetensors_at(f, i);
        const size_t bytes = tensor_plain_bytes(&tensors[i].desc);
        if (strcmp(argv[3], "bias") != 0 || strcmp(argv[4], tensors[i].name) != 0) continue;
        if (bytes > sizeof values) continue;
        memcpy(values, tensors[i].data, bytes);
        values[0] = NAN;
        tensors[i].data = values;
    }
    Status status = safetensors_write(argv[2], tensors, safetensors_count(f), pairs, count);
    mem_free(tensors);
    return status;
}

int main(int argc, char **argv)
{
    SafeFile *f = NULL;
    Status status = argc == 5 ? OK : fail(ERR_USAGE, "usage: make_ckptmeta FILE OUT KEY VALUE");
    if (status == OK) status = safetensors_open(&f, argv[1]);
    if (status == OK) status = rewrite(f, argv);
    if (status != OK) printf("%s\n", status_message());
    safetensors_close(f);
    return status != OK;
}
