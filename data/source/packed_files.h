/* packed_files.h - which files of a folder are containers, and what their classes are called. */
#ifndef CONVOY_DATA_SOURCE_PACKED_FILES_H
#define CONVOY_DATA_SOURCE_PACKED_FILES_H
#include "base/status.h"
#include "data/options.h"

#define CLASSES_FILE "classes.txt" /* in the folder of the containers: a class name a line */

/* The containers at a path that is a folder of them, or one of them. */
typedef struct PackedFiles {
    char **names; /* [count] sorted; relative to folder; in one block */
    int64_t count;
    char *folder; /* owned; what the names are relative to */
} PackedFiles;
/* Files whose names is_one accepts. Where some names speak of training ("train") and others of
 * validation ("val"), only those of the role. count 0 where there is none or no such path; never an
 * error but ERR_MEMORY. */
Status packed_files_list(PackedFiles *out, const char *path, DataRole role,
                         bool (*is_one)(const char *name));
void packed_files_free(PackedFiles *f);
/* is there any? */
Status packed_files_probe(const char *path, DataRole role, bool (*is_one)(const char *name),
                          bool *yes);
/* Where names say how many files there are (train-00003-of-00128), all must be there. ERR_DATA:
 * path, how many are missing, the first of them. */
Status packed_files_complete(const char *path, const char *const *names, int64_t count);
Status packed_files_none(const char *path,
                         const char *what); /* the error where the list is empty */

typedef struct PackedFilesNames {
    const char **names; /* [classes]; NULL where none is known yet */
    int classes;
    bool given;    /* all names come from CLASSES_FILE */
    char **file;   /* what CLASSES_FILE said */
    char *numbers; /* memory for the rest */
} PackedFilesNames;
/* Starts a table of at least so many classes, filled from folder/CLASSES_FILE if that is there.
 * ERR_DATA if it has fewer names than there are classes; path: for that sentence. */
Status packed_files_names(PackedFilesNames *out, const char *folder, int classes, const char *path);
void packed_files_number_rest(
    PackedFilesNames *n); /* classes without a name are called by their number */
void packed_files_names_free(PackedFilesNames *n);
#endif
