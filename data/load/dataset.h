/* dataset.h - an index over a source: how many samples there are, their labels, and one of them by
 * itself. */
#ifndef CONVOY_DATA_LOAD_DATASET_H
#define CONVOY_DATA_LOAD_DATASET_H
#include "base/status.h"
#include "data/index/class_list.h"
#include "data/options.h"

typedef struct Dataset Dataset;
/* Opens the source by its index, which is loaded, or made by a scan and kept. ERR_DATA with one
 * line naming the folder or file: no such folder, no class folders, a class folder without images,
 * IDX magic or size wrong. */
Status dataset_open(Dataset **out, const DatasetOptions *o);
/* Whether dir holds tar, TFRecord, IDX or CIFAR files, whose names may tell two sets apart.
 * ERR_DATA if it is a dataset that only others read (other_format.h). */
Status dataset_holds_sets(const char *dir, bool *yes);
/* The folder in dir (mem_free) whose name says that set, in a word like valid or Train; one for
 * tests stands in for a validation set. *out NULL: there is none. */
Status dataset_find_set(char **out, const char *dir, DataRole role);
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
/* Whether folders at o->path are classes. */
Status dataset_is_folders(bool *out, const DatasetOptions *o);
void dataset_close(Dataset *d); /* NULL ok; no loader may still use it */
FREED_BY_POINTER(Dataset, dataset_close)
int64_t dataset_images(const Dataset *d);
int dataset_classes(const Dataset *d);
const char *dataset_class_name(const Dataset *d, int label); /* folder name, or the number */
int64_t dataset_class_images(const Dataset *d, int label);
int dataset_label(const Dataset *d, int64_t id);
/* The row of bits of a sample, one for each class (both_bit); NULL: samples have one label each. */
const uint8_t *dataset_labels(const Dataset *d, int64_t id);
/* "cat, dog" of a row of bits, or "no label". Written to out, shortened where it is too long. */
void dataset_describe_labels(const Dataset *d, const uint8_t *row, char *out, size_t bytes);
bool dataset_named_classes(const Dataset *d); /* the names are more than the numbers */
ClassList dataset_class_list(const Dataset *d, const char *owner); /* borrowed */
const char *dataset_format_name(const Dataset *d);                 /* "imagefolder", "idx", ... */
/* Where sample id comes from, for messages: a path, or "train-images-idx3-ubyte[17]". Written to
 * out. */
void dataset_describe_sample(const Dataset *d, int64_t id, char *out, size_t bytes);
/* Decodes a sample completely to channels x any size (for inspect dataset and tests): pixels NHWC,
 * mem_free. */
Status dataset_decode(const Dataset *d, int64_t id, int channels, uint8_t **pixels, int *width,
                      int *height);

/* Do other processes see the same data? DATASET_PRINTS samples (fewer: all), spread evenly over the
 * dataset, are read whole. ERR_DATA only where the file system fails: a sample that cannot be read
 * has bytes 0. */
#define DATASET_PRINTS 64
typedef struct SamplePrint {
    uint64_t bytes, crc; /* of the file or the pixels; CRC-32C */
} SamplePrint;
Status dataset_prints(const Dataset *d, SamplePrint out[DATASET_PRINTS]);
/* theirs: of rank 0. ERR_DATA names the first sample that differs, with both. */
Status dataset_compare_prints(const Dataset *d, const SamplePrint mine[DATASET_PRINTS],
                              const SamplePrint theirs[DATASET_PRINTS]);

/* Is reading a sample free of waiting for storage (IDX, synthetic)? */
bool dataset_in_memory(const Dataset *d);

struct SampleCache;
/* From now on. RAM and DISK: the dataset's samples are entries first, first + 1, ... of cache,
 * which is borrowed. Before loaders are made. */
void dataset_use_cache(Dataset *d, DataCache kind, struct SampleCache *cache, int64_t first);
/* Asks the page cache to forget a sample. False where the source has no file for it, or it stays
 * there nevertheless. */
bool dataset_forget(const Dataset *d, int64_t id);
#endif
