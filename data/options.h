/* options.h - the words in which the trainer tells data/ what it wants: types alone, so that every
 * room may include them. Each enum that a config key holds has its names here, in its order. */
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
    DATA_LIST,    /* a text file with each image's path and class */
    DATA_CIFAR,   /* the binary files of CIFAR-10 and CIFAR-100 */
    DATA_FAIRSEQ, /* sequences of tokens, as fairseq-preprocess writes them */
    DATA_SYNTHETIC,
    DATA_FORMAT_COUNT
} DataFormat;
extern const char *const data_format_names[DATA_FORMAT_COUNT + 1]; /* NULL at the end, as all */
/* Labels of an image: one, or any number of them, which may be 0. */
typedef enum LabelKind { LABELS_SINGLE, LABELS_MULTI, LABELS_COUNT } LabelKind;
extern const char *const label_kind_names[LABELS_COUNT + 1];
/* which of the files in a folder; augmentation on or off */
typedef enum DataRole { DATA_TRAIN, DATA_VAL, DATA_ROLE_COUNT } DataRole;
extern const char *const data_role_names[DATA_ROLE_COUNT + 1];
typedef enum Augment {
    /* train like eval: resize + centre crop (IDX and images already of image_size: as they are) */
    AUGMENT_NONE,
    AUGMENT_IMAGENET, /* RandomResizedCrop(min_crop_area to 1, ratio 3/4 to 4/3) + flip 0.5 */
    /* resize to image_size if needed, zero-pad image_size/8, random crop, flip 0.5 */
    AUGMENT_CIFAR,
    /* resize to image_size if needed, reflect 2 pixels beyond each edge, random crop; a flip drawn
     * once for each image, and the other way round in odd epochs (Keller Jordan's airbench) */
    AUGMENT_AIRBENCH,
    AUGMENT_COUNT
} Augment;
extern const char *const augment_names[AUGMENT_COUNT + 1];

/* RANDOM: training only; one of the other two, drawn for each view (timm's train_interpolation
 * "random"). */
typedef enum Interpolation {
    INTERPOLATION_BILINEAR,
    INTERPOLATION_BICUBIC,
    INTERPOLATION_RANDOM,
    INTERPOLATION_COUNT
} Interpolation;
extern const char *const interpolation_names[INTERPOLATION_COUNT + 1];
/* What happens to a training image after crop and flip (policy.h): torchvision's transforms of
 * these names, and one of timm's. */
typedef enum AutoPolicy {
    POLICY_NONE,
    POLICY_RANDAUGMENT,
    POLICY_AUTOAUGMENT,
    POLICY_TRIVIALAUGMENT,
    POLICY_AUGMIX,
    POLICY_RANDAUGMENT_TIMM, /* timm's, of increasing severity (policy_timm.h) */
    POLICY_COUNT
} AutoPolicy;
extern const char *const auto_policy_names[POLICY_COUNT + 1];
typedef enum AutoAugmentTable {
    AUTOAUGMENT_IMAGENET,
    AUTOAUGMENT_CIFAR10,
    AUTOAUGMENT_SVHN,
    AUTOAUGMENT_TABLE_COUNT
} AutoAugmentTable;
extern const char *const autoaugment_table_names[AUTOAUGMENT_TABLE_COUNT + 1];
/* How an image is sheared, moved and turned. RANDOM: bilinear or bicubic, drawn for each op. */
typedef enum Sampling {
    SAMPLING_BILINEAR,
    SAMPLING_NEAREST,
    SAMPLING_BICUBIC,
    SAMPLING_RANDOM,
    SAMPLING_COUNT
} Sampling;
extern const char *const sampling_names[SAMPLING_COUNT + 1];
#define POLICY_MAX_OPS 16
typedef struct PolicyOptions { /* zero: nothing happens */
    double jitter[4];          /* brightness, contrast, saturation, hue; 0: left alone */
    AutoPolicy policy;
    AutoAugmentTable table;
    int ops, magnitude, bins; /* RandAugment; bins: TrivialAugmentWide too */
    double deviation;         /* RandAugment of timm: of the magnitude */
    int severity;             /* AugMix */
    Sampling sampling;
    uint8_t fill[3]; /* what shear, translate and rotate bring in from outside */
    double erase;    /* probability of a box to erase */
} PolicyOptions;

/* A box of a normalised image that becomes zero or noise, and the noise's key; height 0: none. */
typedef struct EraseBox {
    int32_t top, left, height, width;
    uint32_t key[2];
} EraseBox;

/* How the normalised images of a micro-batch and their targets are mixed (mix.h). */
typedef struct MixValues {
    float lambda, rest; /* 1 - lambda */
    float box;          /* 0 or 1 */
    float top, left, bottom, right;
} MixValues;

/* Who reads a JPEG's Huffman codes: ours where it can, or always libjpeg; same pixels. */
typedef enum HuffmanDecoder { HUFFMAN_FAST, HUFFMAN_STOCK, HUFFMAN_DECODER_COUNT } HuffmanDecoder;
extern const char *const huffman_decoder_names[HUFFMAN_DECODER_COUNT + 1];
/* Whether seek indices are used; same pixels. */
typedef enum SeekUse { SEEK_AUTO, SEEK_OFF, SEEK_USE_COUNT } SeekUse;
extern const char *const seek_use_names[SEEK_USE_COUNT + 1];

/* What the network is to see of a sample. */
typedef struct ViewOptions {
    /* eval_resize: shorter side before the centre crop; 0 = image_size */
    int image_size, eval_resize;
    int channels; /* 1 or 3 */
    Augment augment;
    double min_crop_area; /* AUGMENT_IMAGENET: of the image's area; 0: 0.08 */
    Interpolation interpolation;
    PolicyOptions policy; /* training; its box to erase is left to who normalises */
    HuffmanDecoder decoder;
    SeekUse seek_index;
} ViewOptions;

/* How text is cut into sequences of at most `tokens` tokens (tokens/blocks.h), as fairseq's
 * --sample-break-mode. */
typedef enum TokenBreak {
    BREAK_NONE,         /* cut after every `tokens` tokens, within sentences too */
    BREAK_COMPLETE,     /* as many whole sentences as fit */
    BREAK_COMPLETE_DOC, /* the same, but documents end at empty sentences */
    BREAK_EOS,          /* each sentence */
    BREAK_COUNT
} TokenBreak;
extern const char *const token_break_names[BREAK_COUNT + 1];

/* Of sequences of tokens. */
typedef struct TokenOptions {
    int64_t tokens; /* of the longest sequence, <s> included; 0: 512 */
    TokenBreak break_mode;
    /* of a sequence's tokens, the share to be found again; of those, the shares that are seen as
     * they are, and as a random word: the others are seen as <mask> */
    double mask, mask_keep, mask_random;
    /* </s> between the texts of a pair: once, in the first segment (BERT), or twice (RoBERTa) */
    bool one_separator;
    /* DATA_SYNTHETIC: words of the dictionary, with <mask>; 0: images are generated. Sequences have
     * labels where classes are asked for */
    int words;
} TokenOptions;

/* What becomes of files once they were read. */
typedef enum DataCache {
    DATA_CACHE_PAGE, /* the kernel's page cache does what it does */
    DATA_CACHE_RAM,  /* kept in a SampleCache */
    DATA_CACHE_DISK, /* kept in a SampleCache's file */
    DATA_CACHE_NONE, /* the page cache is asked to forget them */
    DATA_CACHE_COUNT
} DataCache;
extern const char *const data_cache_names[DATA_CACHE_COUNT + 1];

typedef struct DatasetOptions {
    const char *path; /* folder; ignored by DATA_SYNTHETIC */
    DataFormat format;
    DataRole role;
    LabelKind labels; /* MULTI: of lists and generated images alone */
    /* 0; or the share of each class that is held out (index_split.h): of the training set at path,
     * DATA_VAL is those samples and DATA_TRAIN the others. Generated images are not divided */
    double val_split;
    uint64_t val_split_seed;
    /* NULL or "": the set's own classes; else a file that lists them (index_classes.h). Generated
     * images keep theirs */
    const char *class_map;
    /* NULL; or classes whose places are to be the labels (class_list.h): an error of formats
     * without an index, where the own ones are not right. Generated images keep theirs */
    const struct ClassList *like;
    int64_t synthetic_images; /* DATA_SYNTHETIC: how many */
    int synthetic_classes;    /* of text 0: words are to be found */
    /* training: most memory for seek indices (seek_index.h) made while files are read first; 0:
     * none */
    size_t seek_bytes;
    /* Where the index is kept between runs: a folder, or a file that ends in .index; NULL or "" =
     * nowhere */
    const char *index;
    bool must_keep; /* the index: ERR_IO where it cannot be kept, not a warning */
    /* folders without an image are classes too, in a tar as well; class_map: lines without one */
    bool allow_empty;
    int scan_threads;  /* 0 = enough to keep a network file system busy */
    TokenOptions text; /* DATA_FAIRSEQ, DATA_SYNTHETIC */
} DatasetOptions;

/* What follows what in the training stream. */
typedef enum SampleOrder {
    ORDER_SHUFFLE,  /* permutations of the set, one an epoch (sampler.h) */
    ORDER_BALANCED, /* all classes equally often (balance.h) */
    ORDER_COUNT
} SampleOrder;
extern const char *const sample_order_names[ORDER_COUNT + 1];

/* Where batches lie; both run on the thread that creates or destroys the loader */
typedef struct SlotAllocator {
    void *(*alloc)(void *cookie, size_t bytes); /* 64-byte aligned; NULL = failure */
    void (*free)(void *cookie, void *p);
    void *cookie;
} SlotAllocator;
#endif
