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
 * padded with label -1. A batch's pixels depend on (seed, epoch, sample id) only, never on threads,
 * ranks or timing.
 *
 * Nothing here knows devices: slot memory comes from an allocator that the caller gives (pinned
 * memory later). */
#ifndef CONVOY_DATA_DATA_H
#define CONVOY_DATA_DATA_H
#include "base/status.h"
#include "data/load/latency.h"
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

/* Mixup and cutmix of a micro-batch, drawn once for all of it: image n is mixed with its neighbour
 * n - 1 (0 with the last). x = lambda x + (1 - lambda) x' everywhere (mixup), or x' inside the box
 * (cutmix); the target is lambda of one's own and 1 - lambda of the neighbour's. lambda 1: nothing
 * is mixed. */
typedef struct MixDraw {
    double lambda;
    bool box; /* cutmix */
    int top, left, bottom, right;
} MixDraw;
/* alphas of the Beta distributions; 0: off. With both on, one is chosen each time. */
typedef struct MixOptions {
    double mixup, cutmix;
} MixOptions;
/* Draws at address RNG_MIX (step, first): the kind where both are on (below 2: 1 is cutmix),
 * lambda, then for cutmix the middle's column and row. first: index of the micro-batch's first
 * image in its global batch. Exposed for tests. */
MixDraw mix_draw(const MixOptions *o, uint64_t seed, int64_t step, int64_t first, int width,
                 int height);

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

typedef struct Dataset Dataset;
/* Opens the source by its index, which is loaded, or made by a scan and kept. ERR_DATA with one
 * line naming the folder or file: no such folder, no class folders, a class folder without images,
 * IDX magic or size wrong. */
Status dataset_open(Dataset **out, const DatasetOptions *o);
/* For the other ranks of a run. The index of d as bytes, borrowed; NULL and 0 for formats that have
 * none. */
const void *dataset_index(const Dataset *d, size_t *bytes);
/* Opens o->path by the index that another process has sent (copied), without a scan. ERR_DATA if
 * other data lies there.
 */
Status dataset_open_by_index(Dataset **out, const DatasetOptions *o, const void *index,
                             size_t bytes);
/* Scans again and compares with the kept index: OK if they are equal, ERR_DATA says what
 * differs. */
Status dataset_check_index(const DatasetOptions *o);
/* The file in which the index of o->path is (to be) kept; *out NULL if the format has none.
 * mem_free. */
Status dataset_index_file(char **out, const DatasetOptions *o);
void dataset_close(Dataset *d); /* NULL ok; no loader may still use it */
int64_t dataset_images(const Dataset *d);
int dataset_classes(const Dataset *d);
const char *dataset_class_name(const Dataset *d, int label); /* folder name, or the number */
int64_t dataset_class_images(const Dataset *d, int label);
int dataset_label(const Dataset *d, int64_t id);
bool dataset_named_classes(const Dataset *d);      /* the names are more than the numbers */
const char *dataset_format_name(const Dataset *d); /* "imagefolder", "idx", ... */
extern const char *const data_format_names[];      /* in the order of DataFormat, NULL at the end */
/* Where sample id comes from, for messages: a path, or "train-images-idx3-ubyte[17]". Written to
 * out. */
void dataset_describe_sample(const Dataset *d, int64_t id, char *out, size_t bytes);
/* Decodes a sample completely to channels x any size (for inspect dataset and tests): pixels NHWC,
 * mem_free. */
Status dataset_decode(const Dataset *d, int64_t id, int channels, uint8_t **pixels, int *width,
                      int *height);

/* Is reading a sample free of waiting for storage (IDX, synthetic)? */
bool dataset_in_memory(const Dataset *d);

/* What becomes of files once they were read. */
typedef enum DataCache {
    DATA_CACHE_PAGE, /* the kernel's page cache does what it does */
    DATA_CACHE_RAM,  /* kept in a SampleCache */
    DATA_CACHE_NONE  /* the page cache is asked to forget them */
} DataCache;
struct SampleCache;
/* From now on. RAM: the dataset's samples are entries first, first + 1, ... of cache, which is
 * borrowed. Before loaders are made. */
void dataset_use_cache(Dataset *d, DataCache kind, struct SampleCache *cache, int64_t first);
/* Asks the page cache to forget a sample. False where the source has no file for it, or it stays
 * there nevertheless. */
bool dataset_forget(const Dataset *d, int64_t id);

/* both run on the thread that creates or destroys the loader */
typedef struct SlotAllocator {
    void *(*alloc)(void *cookie, size_t bytes); /* 64-byte aligned; NULL = failure */
    void (*free)(void *cookie, void *p);
    void *cookie;
} SlotAllocator;

typedef struct LoaderOptions {
    /* eval_resize: shorter side before the centre crop; 0 = image_size */
    int image_size, eval_resize;
    int channels; /* 1 or 3 */
    Augment augment;
    Interpolation interpolation;
    bool stock_decoder;   /* leave Huffman decoding to libjpeg; same pixels */
    bool ignore_seek;     /* use no seek indices; same pixels */
    PolicyOptions policy; /* training; needs channels 1 or 3 */
    /* training: how often a sample comes in a global batch; 0 and 1 are once */
    int repeats;
    MixOptions mix; /* training */
    uint64_t seed;
    int threads;             /* decode threads, >= 1 */
    int readers;             /* threads that read ahead of them; 0: as many as it takes */
    size_t read_ahead_bytes; /* how far; 0 = 64 MiB */
    int slots;               /* batches in flight, >= 3 */
    int64_t batch;           /* images per slot (micro-batch of this rank) */
    int rank, world;
    int64_t global_batch;    /* training: G; must be batch * world * k for a whole k */
    int64_t first_step;      /* training: global step to start at (resume) */
    int64_t last_step;       /* training: stop after this many global steps in all; -1 = endless */
    double max_bad_fraction; /* training: more bad samples than max(10, this * N) is ERR_DATA */
    SlotAllocator allocator; /* zero: plain memory */
    /* where decode and read threads tell what they do; NULL: nowhere; borrowed */
    struct Trace *trace;
} LoaderOptions;

typedef struct Batch {
    /* [batch, image_size, image_size, channels], borrowed until loader_release */
    const uint8_t *images;
    const int32_t *labels; /* [batch]; -1 = padding, or bad in evaluation */
    const EraseBox *erase; /* [batch]; what becomes zero once normalised */
    MixDraw mix;           /* training: how the normalised images and their targets are mixed */
    /* [batch]; the sample asked for (not its replacement); -1 = padding */
    const int64_t *sample_ids;
    int64_t count; /* images that are not padding and could be decoded */
    /* evaluation: images that could not be decoded (label -1 here): they count as wrong; training:
     * samples replaced */
    int64_t bad;
    /* global step and micro-batch within it; evaluation: batch number, 0 */
    int64_t step, micro;
    int slot;
} Batch;

typedef struct Loader Loader;
Status loader_create(Loader **out, const Dataset *d,
                     const LoaderOptions *o); /* borrows d until destroyed; starts the threads */
void loader_destroy(Loader *l);               /* stops threads wherever they are; NULL ok */
/* Waits for the next batch in order. *out is false at the end of evaluation or after last_step.
 * wait_s: time spent waiting (added to). */
Status loader_next(Loader *l, Batch *batch, bool *more, double *wait_s);
void loader_release(Loader *l, const Batch *batch); /* the slot may be refilled */
/* evaluation: how many batches every rank makes */
int64_t loader_batches(const Loader *l);

/* Counters since creation, for logs and bench. Two of them, taken at different times, may be
 * subtracted. */
typedef struct LoaderStats {
    int64_t images, bytes_read, bad, replaced;
    int64_t cache_hits;              /* reads that the cache answered */
    int64_t batches, batches_waited; /* handed out; of these, not ready when asked for */
    /* that were ready when one was asked for, summed over batches */
    int64_t ready_batches;
    double wait_s;    /* the caller's, for batches */
    double starved_s; /* decode threads' time without bytes to decode, summed */
    /* per image; decode includes reading where sources are in memory */
    LatencyCounts decode, read;
    int decode_threads, readers; /* now */
    /* decode threads lack bytes, and more readers brought nothing; now */
    bool storage_limit;
} LoaderStats;
void loader_stats(Loader *l, LoaderStats *out);
void loader_stats_subtract(LoaderStats *s, const LoaderStats *earlier);
int loader_ready_batches(Loader *l); /* cheap: for polling */

/* The permutation of an epoch: sample id at a position of the stream. Exposed for tests and for
 * inspect. */
int64_t sampler_id(uint64_t seed, int64_t images, int64_t position);

/* view_file.c: reads the JPEG or PNG at path and writes the view that evaluation with these options
 * has of it to out, [image_size, image_size, channels]. ERR_DATA naming the file. */
Status view_file_make(const char *path, const LoaderOptions *o, uint8_t *out);

/* library_versions.c: "libjpeg-turbo 2.1.5, libspng 0.7.3", for convoy --version. Static. */
const char *library_versions(void);
#endif
