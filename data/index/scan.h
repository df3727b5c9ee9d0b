/* scan.h - what a scan is asked for, and the scans of an ImageFolder tree and of a list. */
#ifndef CONVOY_DATA_INDEX_SCAN_H
#define CONVOY_DATA_INDEX_SCAN_H
#include "data/index/index_build.h"
#include "data/options.h"

typedef struct ScanOptions { /* of SourceKind.scan */
    const char *path;        /* as the user wrote it, for messages */
    const char *root;        /* the same, absolute: kept in the index */
    const char *format;      /* kept in the index */
    DataRole role;
    bool allow_empty; /* folders without an image are classes too */
    bool multi;       /* lists: any number of labels for an image */
    bool must_keep;   /* an index that cannot be kept in its file is an error */
    int threads;
} ScanOptions;

/* Scans the tree as torchvision's ImageFolder does (order, extensions, symlinks: see scan.c).
 * ERR_DATA names the folder at fault. */
Status scan_imagefolder(Index **out, const ScanOptions *o);
/* Of a text file with a path and a class in each line: see scan_list.c. ERR_DATA names file and
 * line at fault. */
Status scan_list(Index **out, const ScanOptions *o);
bool scan_is_list(const char *name); /* by its ending */
/* By the ending of its name, as a tree's files are told. */
bool scan_is_picture(const char *name);
#define SCAN_PICTURES ".jpg, .jpeg, .jpe, .jfif or .png" /* those endings, in words */
int scan_picture_ending(const char *name);               /* its place among them; -1: another */
/* ERR_DATA naming the classes that have no images. */
Status scan_check_empty(const char *path, const IndexParts *parts);
#endif
