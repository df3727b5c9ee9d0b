/* learnt.h - the classes that weights were trained on, and of text its words, as their file
 * says. */
#ifndef CONVOY_TRAINER_ENGINE_FILES_LEARNT_H
#define CONVOY_TRAINER_ENGINE_FILES_LEARNT_H
#include "data/data.h"
#include "trainer/engine/config/config.h"
#include "trainer/engine/files/safetensors.h"

typedef struct Learnt {
    ClassList list; /* count 0: not known. Its owner is the file */
    const char **names;
    char *text, *path;
    char *words; /* of a network that reads text, one a line; of another without meaning */
} Learnt;

/* Of a checkpoint, or of what convoy export wrote. ERR_MEMORY. */
Status learnt_open(Learnt *out, const SafeFile *file, const char *path);
/* A file that is no good knows none: it is refused where its weights are loaded. ERR_MEMORY. */
Status learnt_open_file(Learnt *out, const char *path);
/* Those that the run of c goes on with: of the newest checkpoint in its folder, or of the one that
 * it is to start from. ERR_MEMORY. */
Status learnt_open_run(Learnt *out, const Config *c);
/* Whether a set has the words that they were trained on, where both are known. ERR_DATA names the
 * first that is another. */
Status learnt_check_words(const Learnt *l, const Dataset *d);
void learnt_close(Learnt *l); /* {0} ok */
#endif
