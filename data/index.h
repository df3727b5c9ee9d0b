/* index.h - the list of an ImageFolder's samples as flat arrays: one string table, offsets into it, class boundaries.
 *
 * Samples are ordered class by class, so a label is found from class_start and is not stored. A million images cost
 * about 8 bytes each plus their path; nothing is allocated per image. */
#ifndef CONVOY_DATA_INDEX_H
#define CONVOY_DATA_INDEX_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct Index {
    int64_t images;
    int classes;
    int64_t *class_start; /* [classes + 1]; samples of class c are class_start[c] .. class_start[c + 1] */
    size_t *class_at;     /* [classes] offset of the class's name in text */
    size_t *path_at;      /* [images] offset of "class/.../file" in text */
    char *text;
    size_t text_bytes;
    size_t text_capacity, path_capacity, class_capacity; /* of the arrays while they grow */
} Index;

Status index_create(Index **out);
void index_destroy(Index *index); /* NULL ok */
/* Opens the next class; samples added afterwards are its own. */
Status index_add_class(Index *index, const char *name);
/* Adds the sample folder/file to the class opened last; copies both strings. */
Status index_add_sample(Index *index, const char *folder, const char *file);

int index_label(const Index *index, int64_t id);
const char *index_path(const Index *index, int64_t id);      /* borrowed; relative to the root that was scanned */
const char *index_class_name(const Index *index, int label); /* borrowed */
int64_t index_class_images(const Index *index, int label);

/* Scans root as torchvision's ImageFolder does (order, extensions, symlinks: see scan.c). ERR_DATA names the folder at
 * fault. */
Status index_scan(Index **out, const char *root);
#endif
