/* outputs.h - files that a command is told to write must not take the place of what it reads, of
 * each other, or of what a run keeps of itself. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_OUTPUTS_H
#define CONVOY_TRAINER_ENGINE_FILES_OUTPUTS_H
#include "data/options.h"
#include "trainer/engine/config/config.h"

enum { OUTPUTS_MAX = 32 };
typedef struct Outputs { /* zeroed: none */
    struct {
        const char *key, *path; /* key: "log.file", "--out"; borrowed */
    } written[OUTPUTS_MAX], read[OUTPUTS_MAX];
    int written_count, read_count;
    const Config *config; /* whose data files to write lie apart from; borrowed, NULL: of none */
    const char *run_dir;  /* which may be no run yet; NULL: none but those that are there */
} Outputs;

/* NULL, "", -, a device, a pipe and what standard output goes to are no file: nothing is added. */
void outputs_add_written(Outputs *o, const char *key, const char *path);
void outputs_add_read(Outputs *o, const char *key, const char *path);
void outputs_add_config(Outputs *o, const Config *c); /* what its keys read */
/* Two paths are one file by any links. ERR_USAGE naming the key, and what is there. */
Status outputs_check(const Outputs *o);
/* A file or folder to be made must not become a class of a set of images, nor a file of one.
 * set_key: what names the set. ERR_USAGE; ERR_DATA where the set cannot be looked at. */
Status outputs_check_apart(const char *key, const char *path, const char *set_key,
                           const DatasetOptions *set);
/* The same of folders that commands make for c: run.dir, scale.dir, of the index, of the cache. */
Status outputs_check_folders(const Config *c);
#endif
