/* fuzz_dataset.c - see fuzz_dataset.h. What opens must hold together: labels in range, names that
 * end, samples that can be read or are refused. */
#include "tests/fuzz/fuzz_dataset.h"
#include "data/load/dataset_internal.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>

#define MAX_SAMPLES 1000

static void read_sample(const Dataset *d, int64_t id, ByteBuf *buf, size_t most)
{
    const Source *s = dataset_source(d);
    Sample sample;
    char text[300];
    int label = dataset_label(d, id);
    ASSERT(label >= 0 && label < dataset_classes(d));
    dataset_describe_sample(d, id, text, sizeof text);
    ASSERT(strlen(text) < sizeof text);
    if (source_read(s, id, 8, buf, &sample) != OK) return;
    ASSERT(!sample.file.bytes || sample.file.size <= most);
    if (sample.file.bytes) fuzz_use(sample.file.bytes, sample.file.size);
    else fuzz_use(sample.image.pixels, image_bytes(&sample.image));
}

void fuzz_dataset(DataFormat format, size_t most)
{
    Dataset *d = NULL;
    DatasetOptions o = { .path = fuzz_folder(), .format = format, .scan_threads = 1 };
    ByteBuf buf = { 0 };
    if (dataset_open(&d, &o) != OK) return;
    int64_t images = dataset_images(d), in_classes = 0;
    for (int64_t i = 0; i < images && i < MAX_SAMPLES; i++) read_sample(d, i, &buf, most);
    for (int c = 0; c < dataset_classes(d); c++) {
        in_classes += dataset_class_images(d, c);
        ASSERT(strlen(dataset_class_name(d, c)) < most + 16);
    }
    ASSERT(in_classes == images);
    byte_buf_free(&buf);
    dataset_close(d);
}
