/* packed_files.h - which files of a folder are containers, and what their classes are called. */
#ifndef CONVOY_DATA_SOURCE_PACKED_FILES_H
#define CONVOY_DATA_SOURCE_PACKED_FILES_H
#include "base/status.h"
#include "data/options.h"

/* beside the containers: a class name a line; ours, and what TensorFlow Datasets writes */
#define PACKED_FILES_CLASSES "classes.txt"
#define PACKED_FILES_LABELS  "label.labels.txt"

/* The containers at a path that is a folder of them, or one of them. */
typedef struct PackedFiles {
    char **names; /* [count] sorted; relative to folder; in one block */
    int64_t count;
    char *folder;        /* owned; what the names are relative to */
    bool by_role;        /* the names tell sets apart, and these are the role's */
    int64_t others;      /* then: how many are of no set that a run has */
    const char *other;   /* the first of them */
    const char *unclear; /* says its set, but unnamed does not */
    const char *unnamed;
} PackedFiles;
/* Files whose names is_one accepts. Where names speak of several sets, only those of the role, and
 * of test files where there are none for validation. count 0 where there is none or no such path;
 * never an error but ERR_MEMORY. */
Status packed_files_list(PackedFiles *out, const char *path, DataRole role,
                         bool (*is_one)(const char *name));
void packed_files_free(PackedFiles *f);
/* is there any? */
Status packed_files_probe(const char *path, DataRole role, bool (*is_one)(const char *name),
                          bool *yes);
/* A checksum of what is listed, and of the files with class names beside it: whether a scan would
 * see other files. */
Status packed_files_print(uint32_t *out, const char *path, DataRole role,
                          bool (*is_one)(const char *name));
/* The set that a word means, in any case: 1 training, 2 validation, 3 test, 0 none. */
int packed_files_set(const char *word, size_t bytes);
/* Where names say how many files there are (train-00003-of-00128), all must be there. ERR_DATA:
 * path, how many are missing, the first of them. */
Status packed_files_complete(const char *path, const char *const *names, int64_t count);
/* ERR_DATA where the list is empty, or its names leave open what is whose. what: in words */
Status packed_files_check(const PackedFiles *f, const char *path, const char *what);

typedef struct PackedFilesNames {
    char **names; /* [classes] in one block, mem_free */
    int classes;
    bool given; /* by the file; else they are numbers */
} PackedFilesNames;
/* Names of at least so many classes: those of folder/file if that is there. ERR_DATA if it has
 * fewer names than there are classes; path: for that sentence. */
Status packed_files_names(PackedFilesNames *out, const char *folder, const char *file, int classes,
                          const char *path);
#endif
