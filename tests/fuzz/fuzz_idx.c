/* fuzz_idx.c - the pair of IDX files. The first two bytes tell how long the file of labels is,
 * which comes next; the rest is the file of images. Either may be gzip. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_dataset.h"

int fuzz_idx(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    size_t labels = data[0] | (size_t)data[1] << 8;
    if (labels > size - 2) labels = size - 2;
    fuzz_write("train-labels-idx1-ubyte", data + 2, labels);
    fuzz_write("train-images-idx3-ubyte", data + 2 + labels, size - 2 - labels);
    fuzz_dataset(DATA_IDX, size);
    return 0;
}
