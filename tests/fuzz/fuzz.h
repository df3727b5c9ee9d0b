/* fuzz.h - the targets: functions that take any bytes and must neither crash nor leak nor hang.
 *
 * fuzz_NAME in fuzz_NAME.c takes one input and always returns 0. It is called by libFuzzer (make
 * fuzz, clang), and with every file in corpus/NAME by the unit test fuzz_corpus (gcc, also under
 * the sanitizers). To add one: a line in FUZZ_TARGETS, fuzz_NAME.c, seeds in seeds.c, then
 * build/fuzz_replay --seeds tests/fuzz/corpus. */
#ifndef CONVOY_TESTS_FUZZ_FUZZ_H
#define CONVOY_TESTS_FUZZ_FUZZ_H
#include "base/str.h"

#define FUZZ_TARGETS(X)                                                                            \
    X(png)                                                                                         \
    X(tar)                                                                                         \
    X(tfrecord)                                                                                    \
    X(idx)                                                                                         \
    X(dictionary)                                                                                  \
    X(tokens)                                                                                      \
    X(index)                                                                                       \
    X(shard)                                                                                       \
    X(huffman)                                                                                     \
    X(config)                                                                                      \
    X(stored)                                                                                      \
    X(checkpoint)                                                                                  \
    X(pth)                                                                                         \
    X(metrics)                                                                                     \
    X(rows)                                                                                        \
    X(names)                                                                                       \
    X(hosts)

#define FUZZ_DECLARE(name) int fuzz_##name(const uint8_t *data, size_t size);
FUZZ_TARGETS(FUZZ_DECLARE)
#undef FUZZ_DECLARE

typedef struct FuzzTarget {
    const char *name;
    int (*run)(const uint8_t *data, size_t size);
} FuzzTarget;
extern const FuzzTarget fuzz_targets[]; /* name NULL at the end */

/* For parsers that read files: a folder of this process, in memory where the system has such a
 * place. Removed at the end. */
const char *fuzz_folder(void);
void fuzz_write(const char *name, const uint8_t *data, size_t size); /* a file in it, replaced */
/* looks at every byte, so that a wrong range shows */
void fuzz_use(const uint8_t *data, size_t size);
/* Text of others as it goes out: UTF-8, and nothing that steers a terminal but what is in keep. */
void fuzz_only_shows(const char *text, const char *keep);

/* Writes the seeds of all targets below folder. */
void fuzz_write_seeds(const char *folder);
#endif
