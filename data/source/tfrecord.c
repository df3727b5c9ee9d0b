/* tfrecord.c - see tfrecord.h.
 *
 * A record is: length, 8 bytes; masked CRC-32C of the length, 4; data; masked CRC-32C of the data,
 * 4; all little-endian. The data is a tf.Example in the protocol buffer encoding, of which the
 * little that is needed is read by hand: Example { 1: Features { 1: map entry { 1: key, 2: Feature
 * } } }, Feature { 1: BytesList | 2: FloatList | 3: Int64List }, each list { 1: values }, integers
 * packed or not. A reader of such a message is a pair of pointers that never passes its end;
 * unknown fields are skipped, as the encoding wants it. */
#include "data/source/tfrecord.h"
#include "base/crc32c.h"
#include "base/wire.h"
#include "data/index/index.h"
#include <string.h>

#define MAX_RECORD_BYTES ((uint64_t)2 * INDEX_MAX_SAMPLE_BYTES)

/* ---- records ---- */

uint32_t tfrecord_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static Status damaged(uint64_t at, const char *what)
{
    return fail(ERR_DATA, "the record at byte %llu %s", (unsigned long long)at, what);
}

Status tfrecord_next(ByteStream *s, ByteBuf *buf, size_t *bytes, uint64_t *offset, bool *more)
{
    uint8_t head[12];
    size_t got = 0;
    uint64_t start = byte_stream_offset(s);
    TRY(byte_stream_read(s, head, sizeof head, &got));
    *more = got > 0;
    if (got == 0) return OK;
    if (got < sizeof head) return damaged(start, "is truncated");
    uint64_t length = wire_load(head, 8);
    if (tfrecord_mask(crc32c_update(0, head, 8)) != (uint32_t)wire_load(head + 8, 4))
        return damaged(start,
                       "has a wrong checksum for its length: not a TFRecord file, or damaged");
    if (length > MAX_RECORD_BYTES) return damaged(start, "is larger than 128 MB");
    *offset = start + sizeof head;
    *bytes = (size_t)length;
    TRY(byte_buf_reserve(buf, *bytes + 4));
    TRY(byte_stream_read(s, buf->data, *bytes + 4, &got));
    if (got < *bytes + 4) return damaged(start, "is truncated");
    if (tfrecord_mask(crc32c_update(0, buf->data, *bytes)) !=
        (uint32_t)wire_load(buf->data + *bytes, 4))
        return damaged(start, "has a wrong checksum: the file is damaged");
    return OK;
}

/* ---- tf.Example ---- */

enum { LIST_BYTES = 1, LIST_INT64 = 3 };

typedef enum Key {
    KEY_ENCODED,
    KEY_IMAGE,
    KEY_FILENAME,
    KEY_FILE_NAME,
    KEY_SYNSET,
    KEY_TEXT,
    KEY_CLASS_LABEL,
    KEY_LABEL,
    KEYS
} Key;

static const struct {
    const char *key;
    int list; /* which kind of list it must be */
} wanted[KEYS] = {
    [KEY_ENCODED] = { "image/encoded", LIST_BYTES },
    [KEY_IMAGE] = { "image", LIST_BYTES },
    [KEY_FILENAME] = { "image/filename", LIST_BYTES },
    [KEY_FILE_NAME] = { "file_name", LIST_BYTES },
    [KEY_SYNSET] = { "image/class/synset", LIST_BYTES },
    [KEY_TEXT] = { "image/class/text", LIST_BYTES },
    [KEY_CLASS_LABEL] = { "image/class/label", LIST_INT64 },
    [KEY_LABEL] = { "label", LIST_INT64 },
};

typedef struct Value {
    Span bytes;
    int64_t number;
    bool has_number;
} Value;

/* The first value of a list of bytes. */
static bool take_bytes(WireReader list, Span *out)
{
    WireField f;
    while (list.p < list.end) {
        if (!wire_read_field(&list, &f)) return false;
        if (f.number != 1 || f.type != WIRE_BYTES || out->data) continue;
        *out = (Span){ f.inside.p, (size_t)(f.inside.end - f.inside.p) };
    }
    return true;
}

static bool take_int(WireReader list, Value *out)
{
    WireField f;
    while (list.p < list.end) {
        if (!wire_read_field(&list, &f)) return false;
        if (f.number != 1 || out->has_number) continue;
        if (f.type == WIRE_BYTES && f.inside.p < f.inside.end &&
            !wire_read_varint(&f.inside, &f.value))
            return false;
        out->has_number = f.type == WIRE_VARINT || f.type == WIRE_BYTES;
        out->number = (int64_t)f.value;
    }
    return true;
}

static bool take_feature(int list, WireReader feature, Value *out)
{
    WireField f;
    while (feature.p < feature.end) {
        if (!wire_read_field(&feature, &f)) return false;
        if (f.type != WIRE_BYTES || f.number != (uint32_t)list) continue;
        if (!(list == LIST_BYTES ? take_bytes(f.inside, &out->bytes) : take_int(f.inside, out)))
            return false;
    }
    return true;
}

static bool take_entry(WireReader entry, Value values[KEYS])
{
    WireField f;
    WireReader key = { NULL, NULL }, feature = { NULL, NULL };
    while (entry.p < entry.end) {
        if (!wire_read_field(&entry, &f)) return false;
        if (f.type == WIRE_BYTES && f.number == 1) key = f.inside;
        if (f.type == WIRE_BYTES && f.number == 2) feature = f.inside;
    }
    size_t bytes = key.p ? (size_t)(key.end - key.p) : 0;
    for (int k = 0; k < KEYS; k++)
        if (strlen(wanted[k].key) == bytes && bytes && memcmp(wanted[k].key, key.p, bytes) == 0)
            return take_feature(wanted[k].list, feature, &values[k]);
    return true;
}

static bool take_features(WireReader features, Value values[KEYS])
{
    WireField f;
    while (features.p < features.end) {
        if (!wire_read_field(&features, &f)) return false;
        if (f.type == WIRE_BYTES && f.number == 1 && !take_entry(f.inside, values)) return false;
    }
    return true;
}

static Span first_of(const Value *a, const Value *b)
{
    return a->bytes.data ? a->bytes : b->bytes;
}

Status tfrecord_parse_example(const uint8_t *data, size_t bytes, TfrecordExample *out)
{
    WireReader r = { data, data + bytes };
    WireField f;
    Value v[KEYS] = { 0 };
    while (r.p < r.end) {
        if (!wire_read_field(&r, &f) ||
            (f.type == WIRE_BYTES && f.number == 1 && !take_features(f.inside, v)))
            return fail(ERR_DATA, "not a tf.Example");
    }
    const Value *label = &v[v[KEY_CLASS_LABEL].has_number ? KEY_CLASS_LABEL : KEY_LABEL];
    *out = (TfrecordExample){ .image = first_of(&v[KEY_ENCODED], &v[KEY_IMAGE]),
                              .name = first_of(&v[KEY_FILENAME], &v[KEY_FILE_NAME]),
                              .synset = v[KEY_SYNSET].bytes,
                              .text = v[KEY_TEXT].bytes,
                              .label = label->number,
                              .has_label = label->has_number };
    return OK;
}
