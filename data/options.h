/* options.h - the words in which the trainer tells data/ what it wants: types alone, so that every
 * room may include them. */
#ifndef CONVOY_DATA_OPTIONS_H
#define CONVOY_DATA_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum DataFormat {
    DATA_AUTO,
    DATA_IMAGEFOLDER,
    DATA_IDX,
    DATA_SHARDS,     /* what convoy pack writes */
    DATA_WEBDATASET, /* tar files */
    DATA_TFRECORD,
    DATA_CIFAR, /* the binary files of CIFAR-10 and CIFAR-100 */
    DATA_SYNTHETIC,
    DATA_FORMAT_COUNT
} DataFormat;
/* which of the files in a folder; augmentation on or off */
typedef enum DataRole { DATA_TRAIN, DATA_VAL } DataRole;
typedef enum Augment {
    /* train like eval: resize + centre crop (IDX and images already of image_size: as they are) */
    AUGMENT_NONE,
    AUGMENT_IMAGENET, /* RandomResizedCrop(scale .08-1, ratio 3/4-4/3, bilinear) + flip 0.5 */
    /* resize to image_size if needed, zero-pad image_size/8, random crop, flip 0.5 */
    AUGMENT_CIFAR,
    AUGMENT_COUNT
} Augment;

/* RANDOM: training only; one of the other two, drawn for each view (timm's train_interpolation
 * "random"). */
typedef enum Interpolation {
    INTERPOLATION_BILINEAR,
    INTERPOLATION_BICUBIC,
    INTERPOLATION_RANDOM
} Interpolation;
/* What happens to a training image after crop and flip (policy.h): torchvision's transforms of
 * these names. */
typedef enum AutoPolicy {
    POLICY_NONE,
    POLICY_RANDAUGMENT,
    POLICY_AUTOAUGMENT,
    POLICY_TRIVIALAUGMENT,
    POLICY_AUGMIX,
    POLICY_COUNT
} AutoPolicy;
typedef enum AutoAugmentTable {
    AUTOAUGMENT_IMAGENET,
    AUTOAUGMENT_CIFAR10,
    AUTOAUGMENT_SVHN,
    AUTOAUGMENT_TABLE_COUNT
} AutoAugmentTable;
#define POLICY_MAX_OPS 16
typedef struct PolicyOptions { /* zero: nothing happens */
    double jitter[4];          /* brightness, contrast, saturation, hue; 0: left alone */
    AutoPolicy policy;
    AutoAugmentTable table;
    int ops, magnitude, bins; /* RandAugment; bins: TrivialAugmentWide too */
    int severity;             /* AugMix */
    /* shear, translate and rotate take the nearest pixel, else they interpolate */
    bool nearest;
    uint8_t fill[3]; /* and bring this in from outside */
    double erase;    /* probability of a box that becomes the mean colour */
} PolicyOptions;

/* A box of a normalised image that becomes zero; height 0: none. */
typedef struct EraseBox {
    int32_t top, left, height, width;
} EraseBox;

/* What the network is to see of a sample. */
typedef struct ViewOptions {
    /* eval_resize: shorter side before the centre crop; 0 = image_size */
    int image_size, eval_resize;
    int channels; /* 1 or 3 */
    Augment augment;
    Interpolation interpolation;
    PolicyOptions policy; /* training; its box to erase is left to who normalises */
    bool training;        /* a loader sets this and seeks by its dataset */
    bool stock_decoder;   /* leave Huffman decoding to libjpeg; same pixels */
    bool ignore_seek;     /* use no seek indices; same pixels */
    /* for files that bring no seek index: found there, or made and put there; NULL: neither */
    struct SeekStore *seeks;
} ViewOptions;

/* What becomes of files once they were read. */
typedef enum DataCache {
    DATA_CACHE_PAGE, /* the kernel's page cache does what it does */
    DATA_CACHE_RAM,  /* kept in a SampleCache */
    DATA_CACHE_NONE  /* the page cache is asked to forget them */
} DataCache;

typedef struct DatasetOptions {
    const char *path; /* folder; ignored by DATA_SYNTHETIC */
    DataFormat format;
    DataRole role;
    int64_t synthetic_images; /* DATA_SYNTHETIC: how many */
    int synthetic_classes;
    /* training: most memory for seek indices (seek_index.h) made while files are read first; 0:
     * none */
    size_t seek_bytes;
    /* Where the index is kept between runs: a folder, or a file that ends in .index; NULL or "" =
     * nowhere */
    const char *index;
    int scan_threads; /* 0 = so many that a network file system is kept busy */
} DatasetOptions;

/* Where batches lie; both run on the thread that creates or destroys the loader */
typedef struct SlotAllocator {
    void *(*alloc)(void *cookie, size_t bytes); /* 64-byte aligned; NULL = failure */
    void (*free)(void *cookie, void *p);
    void *cookie;
} SlotAllocator;
#endif
