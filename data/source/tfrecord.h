/* tfrecord.h - the records of a TFRecord file, and the fields of a tf.Example that an image
 * classifier needs. */
#ifndef CONVOY_DATA_SOURCE_TFRECORD_H
#define CONVOY_DATA_SOURCE_TFRECORD_H
#include "base/byte_buf.h"
#include "data/source/byte_stream.h"
#include <stdbool.h>

/* Reads the next record into buf; *offset is where its data lies in the file. *more is false at the
 * end. Both checksums are verified. ERR_DATA with the reason and the offset, not naming the
 * file. */
Status tfrecord_next(ByteStream *s, ByteBuf *buf, size_t *bytes, uint64_t *offset, bool *more);
uint32_t tfrecord_mask(uint32_t crc); /* how TFRecord stores a CRC-32C */

typedef struct Span {    /* of the record */
    const uint8_t *data; /* NULL: the record has no such field */
    size_t bytes;
} Span;

typedef struct TfrecordExample {
    Span image;        /* the encoded file */
    Span name;         /* its file name */
    Span synset, text; /* the name of its class, in one or the other way */
    int64_t label;     /* as it is written */
    bool has_label;
} TfrecordExample;

/* Finds the fields under the names that ImageNet's converters (image/encoded, image/class/label,
 * image/class/synset, image/class/text, image/filename) and TensorFlow Datasets (image, label,
 * file_name) use; where a record has both, the first of these. ERR_DATA with the reason if this is
 * no tf.Example; missing fields are the caller's to judge. */
Status tfrecord_parse_example(const uint8_t *data, size_t bytes, TfrecordExample *out);
#endif
