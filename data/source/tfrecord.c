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
#include "data/index/index.h"
#include <string.h>

#define MAX_RECORD_BYTES ((uint64_t)2 * INDEX_MAX_SAMPLE_BYTES)

/* ---- records ---- */

uint32_t tfrecord_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static uint64_t little_endian(const uint8_t *p, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | p[i];
    return value;
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
    if (got < sizeof head) return damaged(start, "is cut short");
    uint64_t length = little_endian(head, 8);
    if (tfrecord_mask(crc32c_update(0, head, 8)) != (uint32_t)little_endian(head + 8, 4))
        return damaged(start,
                       "has a wrong checksum of its length: not a TFRecord file, or damaged");
    if (length > MAX_RECORD_BYTES) return damaged(start, "is larger than 128 MB");
    *offset = start + sizeof head;
    *bytes = (size_t)length;
    TRY(byte_buf_reserve(buf, *bytes + 4));
    TRY(byte_stream_read(s, buf->data, *bytes + 4, &got));
    if (got < *bytes + 4) return damaged(start, "is cut short");
    if (tfrecord_mask(crc32c_update(0, buf->data, *bytes)) !=
        (uint32_t)little_endian(buf->data + *bytes, 4))
        return damaged(start, "has a wrong checksum: the file is damaged");
    return OK;
}

/* ---- protocol buffers ---- */

typedef struct Reader {
    const uint8_t *p, *end;
} Reader;

typedef struct ProtoField {
    uint32_t number, type; /* wire type */
    uint64_t value;        /* of types 0, 1 and 5 */
    Reader inside;         /* of type 2 */
} ProtoField;

static bool read_varint(Reader *r, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (r->p == r->end) return false;
        uint8_t byte = *r->p++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

static bool read_fixed(Reader *r, int bytes, uint64_t *out)
{
    if (r->end - r->p < bytes) return false;
    *out = little_endian(r->p, bytes);
    r->p += bytes;
    return true;
}

/* The next field; false where the message is damaged. Asked only while there are bytes left. */
static bool read_field(Reader *r, ProtoField *f)
{
    uint64_t key = 0, length = 0;
    if (!read_varint(r, &key) || key >> 32 || key >> 3 == 0) return false;
    *f = (ProtoField){ .number = (uint32_t)(key >> 3), .type = (uint32_t)(key & 7) };
    switch (f->type) {
    case 0:
        return read_varint(r, &f->value);
    case 1:
        return read_fixed(r, 8, &f->value);
    case 5:
        return read_fixed(r, 4, &f->value);
    case 2:
        if (!read_varint(r, &length) || length > (uint64_t)(r->end - r->p)) return false;
        f->inside = (Reader){ r->p, r->p + length };
        r->p += length;
        return true;
    default: /* groups, which nobody has written for many years */
        return false;
    }
}

/* ---- tf.Example ---- */

enum { LIST_BYTES = 1, LIST_INT64 = 3 };

typedef struct Wanted {
    const char *key;
    int list;     /* which kind of list it must be */
    size_t place; /* of a Span in TfrecordExample; unused for labels */
    bool counts_from_1;
} Wanted;

#define SPAN(field) LIST_BYTES, offsetof(TfrecordExample, field), false

static const Wanted wanted[] = {
    { "image/encoded", SPAN(image) },           { "image", SPAN(image) },
    { "image/filename", SPAN(name) },           { "file_name", SPAN(name) },
    { "image/class/synset", SPAN(class_name) }, { "image/class/label", LIST_INT64, 0, true },
    { "label", LIST_INT64, 0, false },
};

/* The first value of a list of bytes. */
static bool take_bytes(Reader list, Span *out)
{
    ProtoField f;
    while (list.p < list.end) {
        if (!read_field(&list, &f)) return false;
        if (f.number != 1 || f.type != 2 || out->data) continue;
        *out = (Span){ f.inside.p, (size_t)(f.inside.end - f.inside.p) };
    }
    return true;
}

static bool take_int(Reader list, TfrecordExample *out)
{
    ProtoField f;
    while (list.p < list.end) {
        if (!read_field(&list, &f)) return false;
        if (f.number != 1 || out->has_label) continue;
        if (f.type == 2 && f.inside.p < f.inside.end && !read_varint(&f.inside, &f.value))
            return false;
        out->has_label = f.type == 0 || f.type == 2;
        out->label = (int64_t)f.value;
    }
    return true;
}

static bool take_feature(const Wanted *w, Reader feature, TfrecordExample *out)
{
    ProtoField f;
    while (feature.p < feature.end) {
        if (!read_field(&feature, &f)) return false;
        if (f.type != 2 || f.number != (uint32_t)w->list) continue;
        if (w->list == LIST_BYTES &&
            !take_bytes(f.inside, (Span *)(void *)((char *)out + w->place)))
            return false;
        if (w->list == LIST_INT64 && !take_int(f.inside, out)) return false;
        if (w->list == LIST_INT64) out->counts_from_1 = w->counts_from_1;
    }
    return true;
}

static bool take_entry(Reader entry, TfrecordExample *out)
{
    ProtoField f;
    Reader key = { NULL, NULL }, feature = { NULL, NULL };
    while (entry.p < entry.end) {
        if (!read_field(&entry, &f)) return false;
        if (f.type == 2 && f.number == 1) key = f.inside;
        if (f.type == 2 && f.number == 2) feature = f.inside;
    }
    size_t bytes = key.p ? (size_t)(key.end - key.p) : 0;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (strlen(wanted[i].key) != bytes || (bytes && memcmp(wanted[i].key, key.p, bytes) != 0))
            continue;
        return take_feature(&wanted[i], feature, out);
    }
    return true;
}

static bool take_features(Reader features, TfrecordExample *out)
{
    ProtoField f;
    while (features.p < features.end) {
        if (!read_field(&features, &f)) return false;
        if (f.type == 2 && f.number == 1 && !take_entry(f.inside, out)) return false;
    }
    return true;
}

Status tfrecord_parse_example(const uint8_t *data, size_t bytes, TfrecordExample *out)
{
    Reader r = { data, data + bytes };
    ProtoField f;
    *out = (TfrecordExample){ 0 };
    while (r.p < r.end) {
        if (!read_field(&r, &f) || (f.type == 2 && f.number == 1 && !take_features(f.inside, out)))
            return fail(ERR_DATA, "not a tf.Example");
    }
    /* The label counts from 1 where it comes from a converter that also writes the synset: in those
     * 0 is "background".
     */
    out->counts_from_1 = out->counts_from_1 && out->class_name.data;
    return OK;
}
