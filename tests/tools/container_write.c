/* container_write.c - see container_write.h. Written from the formats' descriptions, not from our
 * readers. */
#include "tests/tools/container_write.h"
#include "base/crc32c.h"
#include "base/fs.h"
#include "base/mem.h"
#include "tests/tools/data_tree.h"
#include <stdio.h>
#include <string.h>

/* ---- tar ---- */

static void pad(StrBuf *out)
{
    static const char zeros[512];
    size_t over = out->length % 512;
    if (over) str_add_n(out, zeros, 512 - over);
}

static void add_header(StrBuf *out, const char *path, char type, const char *link, uint64_t bytes)
{
    char h[512] = { 0 };
    unsigned sum = 0;
    const char *slash = strrchr(path, '/');
    if (strlen(path) > 100 && slash && slash - path <= 155) { /* ustar's prefix */
        memcpy(h + 345, path, (size_t)(slash - path));
        path = slash + 1;
    }
    snprintf(h, 101, "%s", path);
    memcpy(h + 100, "0000644\0000000000\0000000000\0", 24);
    snprintf(h + 124, 12, "%011llo", (unsigned long long)bytes);
    memcpy(h + 136, "00000000000\0        ", 20);
    h[156] = type;
    memcpy(h + 157, link, strlen(link) < 100 ? strlen(link) : 100);
    memcpy(h + 257, "ustar\00000", 8);
    for (int i = 0; i < 512; i++) sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    h[155] = ' ';
    str_add_n(out, h, sizeof h);
}

void tar_add_header(StrBuf *out, const char *path, char type, uint64_t bytes)
{
    add_header(out, path, type, "", bytes);
}

void tar_add_pax(StrBuf *out, const char *key, const char *value)
{
    StrBuf record = { 0 };
    size_t total = 0;
    do { /* until it is the length of all of the record, its own digits too */
        str_clear(&record);
        str_printf(&record, "%zu %s=%s\n", ++total, key, value);
    } while (record.length != total);
    tar_add_header(out, "PaxHeaders/x", 'x', record.length);
    str_add_n(out, record.text, record.length);
    pad(out);
    str_free(&record);
}

/* What has no room in a header, ahead of it. */
static void add_long(StrBuf *out, const char *text, const char *key, char type, TarNames names)
{
    if (strlen(text) > 100 && names == TAR_PAX) tar_add_pax(out, key, text);
    if (strlen(text) <= 100 || names != TAR_GNU) return;
    tar_add_header(out, "././@LongLink", type, strlen(text) + 1);
    str_add_n(out, text, strlen(text) + 1);
    pad(out);
}

void tar_add_link(StrBuf *out, const char *path, char type, const char *target, TarNames names)
{
    add_long(out, target, "linkpath", 'K', names);
    add_long(out, path, "path", 'L', names);
    add_header(out, path, type, target, 0);
}

void tar_add(StrBuf *out, const char *path, const void *data, size_t bytes, TarNames names)
{
    add_long(out, path, "path", 'L', names);
    tar_add_header(out, path, '0', bytes);
    str_add_n(out, data, bytes);
    pad(out);
}

void tar_end(StrBuf *out)
{
    static const char zeros[1024];
    str_add_n(out, zeros, sizeof zeros);
}

/* ---- TFRecord ---- */

static void add_little_endian(StrBuf *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        char byte = (char)(value >> (8 * i));
        str_add_n(out, &byte, 1);
    }
}

static void add_masked(StrBuf *out, const void *data, size_t bytes)
{
    uint32_t crc = crc32c_update_portable(0, data, bytes);
    add_little_endian(out, (uint32_t)(((crc >> 15) | (crc << 17)) + 0xa282ead8u), 4);
}

void tfrecord_add(StrBuf *out, const void *data, size_t bytes)
{
    StrBuf length = { 0 };
    add_little_endian(&length, bytes, 8);
    str_add_n(out, length.text, 8);
    add_masked(out, length.text, 8);
    str_add_n(out, data, bytes);
    add_masked(out, data, bytes);
    str_free(&length);
}

static void add_varint(StrBuf *out, uint64_t value)
{
    for (; value >= 128; value >>= 7) add_little_endian(out, (value & 127) | 128, 1);
    add_little_endian(out, value, 1);
}

static void add_message(StrBuf *out, int field, const void *data, size_t bytes)
{
    add_varint(out, (uint64_t)field << 3 | 2);
    add_varint(out, bytes);
    str_add_n(out, data, bytes);
}

static void add_feature(StrBuf *features, const char *key, int list_kind, const StrBuf *list)
{
    StrBuf entry = { 0 }, feature = { 0 };
    add_message(&feature, list_kind, list->text, list->length);
    add_message(&entry, 1, key, strlen(key));
    add_message(&entry, 2, feature.text, feature.length);
    add_message(features, 1, entry.text, entry.length);
    str_free(&entry);
    str_free(&feature);
}

void tfexample_add_bytes(StrBuf *features, const char *key, const void *data, size_t bytes)
{
    StrBuf list = { 0 };
    add_message(&list, 1, data, bytes);
    add_feature(features, key, 1, &list);
    str_free(&list);
}

void tfexample_add_int(StrBuf *features, const char *key, int64_t value, bool packed)
{
    StrBuf list = { 0 }, values = { 0 };
    add_varint(&values, (uint64_t)value);
    if (packed) {
        add_message(&list, 1, values.text, values.length);
    } else {
        add_varint(&list, 1 << 3 | 0);
        str_add_n(&list, values.text, values.length);
    }
    add_feature(features, key, 3, &list);
    str_free(&values);
    str_free(&list);
}

void tfexample_wrap(StrBuf *out, const StrBuf *features)
{
    add_message(out, 1, features->text, features->length);
}

/* ---- whole trees ---- */

typedef struct Writer {
    const char *tree, *out;
    int files, number; /* samples so far: they are dealt out to the files in turn */
    bool tfrecords, labels;
    StrBuf data[8];
} Writer;

static void add_sample(Writer *w, const char *class_name, int label, const char *path,
                       const uint8_t *bytes, size_t size)
{
    StrBuf *to = &w->data[w->number++ % w->files];
    const char *slash = strrchr(path, '/'), *name = slash + 1;
    if (w->tfrecords) {
        StrBuf features = { 0 }, example = { 0 };
        tfexample_add_bytes(&features, "image/encoded", bytes, size);
        tfexample_add_bytes(&features, "image/filename", name, strlen(name));
        tfexample_add_bytes(&features, "image/class/synset", class_name, strlen(class_name));
        tfexample_add_int(&features, "image/class/label", label + 1, w->number % 2);
        tfexample_wrap(&example, &features);
        tfrecord_add(to, example.text, example.length);
        str_free(&features);
        str_free(&example);
        return;
    }
    char other[1024], text[16];
    tar_add(to, path, bytes, size, w->number % 2 ? TAR_PAX : TAR_GNU);
    if (!w->labels) return;
    snprintf(other, sizeof other, "%.*s.cls", (int)(strchr(name, '.') - path), path);
    snprintf(text, sizeof text, "%d", label);
    tar_add(to, other, text, strlen(text), TAR_PAX);
}

static void add_class(Writer *w, const char *class_name, int label)
{
    char folder[2048], file[3072], path[1024];
    char **names = NULL;
    int64_t count = 0;
    snprintf(folder, sizeof folder, "%s/%s", w->tree, class_name);
    ASSERT(fs_list(folder, &names, &count) == OK);
    for (int64_t i = 0; i < count; i++) {
        uint8_t *bytes = NULL;
        size_t size = 0;
        snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        snprintf(path, sizeof path, "%s/%s", class_name, names[i]);
        ASSERT(fs_read_file(file, &bytes, &size) == OK);
        add_sample(w, class_name, label, path, bytes, size);
        mem_free(bytes);
    }
    mem_free(names);
}

static void write_tree(Writer *w, void (*name_file)(char *out, size_t bytes, int file, int files))
{
    char name[64];
    char **classes = NULL;
    int64_t count = 0;
    ASSERT(fs_list(w->tree, &classes, &count) == OK);
    /* not in the order of the classes */
    for (int64_t c = count - 1; c >= 0; c--) add_class(w, classes[c], (int)c);
    for (int f = 0; f < w->files; f++) {
        if (!w->tfrecords) tar_end(&w->data[f]);
        ASSERT(!w->data[f].failed);
        name_file(name, sizeof name, f, w->files);
        tree_write(w->out, name, w->data[f].text, w->data[f].length);
        str_free(&w->data[f]);
    }
    mem_free(classes);
}

static void name_tar(char *out, size_t bytes, int file, int files)
{
    (void)files;
    snprintf(out, bytes, "part-%04d.tar", file);
}

static void name_tfrecord(char *out, size_t bytes, int file, int files)
{
    snprintf(out, bytes, "train-%05d-of-%05d", file, files);
}

void container_write_tars(const char *tree, const char *out, int files, bool labels)
{
    Writer w = { .tree = tree, .out = out, .files = files, .labels = labels };
    ASSERT(files <= 8);
    write_tree(&w, name_tar);
}

void container_write_tfrecords(const char *tree, const char *out, int files)
{
    Writer w = { .tree = tree, .out = out, .files = files, .tfrecords = true };
    ASSERT(files <= 8);
    write_tree(&w, name_tfrecord);
}
