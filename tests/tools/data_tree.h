/* data_tree.h - puts small image files and IDX files into a test's scratch folder. Errors end the
 * test by abort: they are the test's. */
#ifndef CONVOY_TESTS_TOOLS_DATA_TREE_H
#define CONVOY_TESTS_TOOLS_DATA_TREE_H
#include <stddef.h>
#include <stdint.h>

/* Writes root/path, making folders as needed. */
void tree_write(const char *root, const char *path, const void *data, size_t bytes);
/* A plain JPEG of one picture of shapes.c; label and number choose it. */
void tree_write_shape(const char *root, const char *path, int label, uint32_t number, int size);
/* ImageFolder of classes x per_class shapes as classK/NNN.jpg below root. */
void tree_write_shapes(const char *root, int classes, int per_class, int size);
/* IDX pair ("train" or "t10k"): pixel i of image n is (n * 7 + i) % 256, label n % classes; gz
 * compresses. */
void tree_write_idx(const char *root, const char *role, int images, int side, int classes, int gz);
#endif
