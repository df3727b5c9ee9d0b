/* data_tree.c - see data_tree.h. */
#include "tests/tools/data_tree.h"
#include "base/fs.h"
#include "base/mem.h"
#include "tests/tools/image_write.h"
#include "tests/tools/shapes.h"
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define PATH_BYTES 4096
#define SHAPE_SEED 11

static void full_path(const char *root, const char *path, char out[PATH_BYTES])
{
    ASSERT(snprintf(out, PATH_BYTES, "%s/%s", root, path) < PATH_BYTES);
    char *slash = strrchr(out, '/');
    *slash = '\0';
    ASSERT(fs_make_dirs(out) == OK);
    *slash = '/';
}

void tree_write(const char *root, const char *path, const void *data, size_t bytes)
{
    char full[PATH_BYTES];
    full_path(root, path, full);
    FILE *file = fopen(full, "wb");
    ASSERT(file != NULL);
    ASSERT(bytes == 0 || fwrite(data, 1, bytes, file) == bytes);
    ASSERT(fclose(file) == 0);
}

void tree_write_shape(const char *root, const char *path, int label, uint32_t number, int size)
{
    JpegSettings settings = { .channels = 3, .quality = 92 };
    uint8_t *pixels = mem_alloc((size_t)size * (size_t)size * 3), *bytes = NULL;
    size_t length = 0;
    ASSERT(pixels != NULL);
    shapes_draw(SHAPE_SEED, label % SHAPES_CLASSES, number, size, size, pixels);
    ASSERT(image_encode_jpeg(pixels, size, size, &settings, &bytes, &length) == OK);
    tree_write(root, path, bytes, length);
    mem_free(bytes);
    mem_free(pixels);
}

void tree_write_shapes(const char *root, int classes, int per_class, int size)
{
    char path[64];
    for (int c = 0; c < classes; c++) {
        for (int i = 0; i < per_class; i++) {
            snprintf(path, sizeof path, "class%d/%03d.jpg", c, i);
            tree_write_shape(root, path, c, (uint32_t)i, size);
        }
    }
}

static void write_idx_file(const char *root, const char *name, int gz, const uint8_t *data,
                           size_t bytes)
{
    char full[PATH_BYTES];
    full_path(root, name, full);
    gzFile file = gzopen(full, gz ? "wb" : "wbT"); /* T: no compression, a plain file */
    ASSERT(file != NULL);
    ASSERT(gzwrite(file, data, (unsigned)bytes) == (int)bytes);
    ASSERT(gzclose(file) == Z_OK);
}

static void put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

void tree_write_idx(const char *root, const char *role, int images, int side, int classes, int gz)
{
    size_t area = (size_t)side * (size_t)side, n = (size_t)images;
    uint8_t *data = mem_alloc(16 + n * area);
    char name[64];
    ASSERT(data != NULL);
    put_u32(data, 0x803);
    put_u32(data + 4, (uint32_t)images);
    put_u32(data + 8, (uint32_t)side);
    put_u32(data + 12, (uint32_t)side);
    for (size_t i = 0; i < n * area; i++) data[16 + i] = (uint8_t)(i / area * 7 + i % area);
    snprintf(name, sizeof name, "%s-images-idx3-ubyte%s", role, gz ? ".gz" : "");
    write_idx_file(root, name, gz, data, 16 + n * area);
    put_u32(data, 0x801);
    for (size_t i = 0; i < n; i++) data[8 + i] = (uint8_t)((int)i % classes);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte%s", role, gz ? ".gz" : "");
    write_idx_file(root, name, gz, data, 8 + n);
    mem_free(data);
}
