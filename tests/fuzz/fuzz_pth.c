/* fuzz_pth.c - files of PyTorch. First byte, modulo 3: a whole file; what follows the first three
 * pickles of the old format; the pickle in a zip archive with four storages of 64 bytes. Bit 7 also
 * looks for a network among the tensors. */
#include "base/mem.h"
#include "base/wire.h"
#include "models/models.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/engine/files/weights.h"
#include <stdio.h>
#include <string.h>

enum { WHOLE, LEGACY, ZIPPED, KINDS, STORAGES = 4, STORAGE_BYTES = 64, NETWORK = 0x80 };

static const char legacy_start[] =
    "\x80\2\x8a\n\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3."
    "\x80\2}q\0X\r\0\0\0little_endianq\1\x88s.";

/* A file's header, in the archive or in the directory. */
static void add_header(StrBuf *out, const char *name, size_t bytes, bool directory, size_t at)
{
    str_add_n(out, directory ? "PK\1\2\0\0" : "PK\3\4", directory ? 6 : 4);
    wire_put_number(out, 0, 8); /* version, flags, method, time */
    wire_put_number(out, 0, 6);
    wire_put_number(out, bytes, 4);
    wire_put_number(out, bytes, 4);
    wire_put_number(out, strlen(name), 4); /* no field */
    if (directory) wire_put_number(out, 0, 8);
    if (directory) wire_put_number(out, 0, 2);
    if (directory) wire_put_number(out, at, 4);
    str_add(out, name);
}

static void add_zip(StrBuf *out, const uint8_t *pickle, size_t size)
{
    static const char zeros[STORAGE_BYTES];
    StrBuf directory = { 0 };
    for (int i = 0; i <= STORAGES; i++) {
        char name[16];
        snprintf(name, sizeof name, i < STORAGES ? "a/data/%d" : "a/data.pkl", i);
        const size_t bytes = i < STORAGES ? STORAGE_BYTES : size;
        add_header(&directory, name, bytes, true, out->length);
        add_header(out, name, bytes, false, 0);
        str_add_n(out, i < STORAGES ? zeros : (const char *)pickle, bytes);
    }
    const size_t at = out->length;
    str_add_n(out, directory.text, directory.length);
    str_add_n(out, "PK\5\6\0\0\0\0", 8);
    wire_put_number(out, STORAGES + 1, 2);
    wire_put_number(out, STORAGES + 1, 2);
    wire_put_number(out, directory.length, 4);
    wire_put_number(out, at, 4);
    wire_put_number(out, 0, 2);
    str_free(&directory);
}

static Graph *network(void)
{
    static Graph *graph;
    ModelOptions o = { .width = 1 };
    o.graph = (GraphOptions){ .batch = 1, .channels = 3, .height = 4, .width = 4, .classes = 2 };
    for (int i = 0; i < 3; i++) o.graph.std[i] = 1;
    if (!graph) ASSERT(model_build(&graph, model_find("mlp"), &o) == OK);
    return graph;
}

int fuzz_pth(const uint8_t *data, size_t size)
{
    char path[160];
    StrBuf file = { 0 };
    SafeFile *f = NULL;
    int64_t classes;
    if (size < 1) return 0;
    const int kind = (data[0] & ~NETWORK) % KINDS;
    if (kind == LEGACY) str_add_n(&file, legacy_start, sizeof legacy_start - 1);
    if (kind == ZIPPED) add_zip(&file, data + 1, size - 1);
    else str_add_n(&file, (const char *)data + 1, size - 1);
    fuzz_write("x.pth", (const uint8_t *)file.text, file.length);
    str_free(&file);
    snprintf(path, sizeof path, "%s/x.pth", fuzz_folder());
    if (weights_open(&f, path) != OK) return 0;
    for (int i = 0; i < safetensors_count(f); i++) {
        const SafeTensor *t = safetensors_at(f, i);
        fuzz_use(t->data, tensor_plain_bytes(&t->desc));
        ASSERT(safetensors_find(f, t->name) == t);
    }
    const ModelDef *def = model_find("mlp");
    if ((data[0] & NETWORK) &&
        weights_narrow(f, network(), def, (WeightsChoice)(size % WEIGHTS_CHOICE_COUNT), path) == OK)
        (void)weights_classes(&classes, network(), def, f, path);
    safetensors_close(f);
    return 0;
}
