/* fuzz_main.c - the two ways in.
 *
 * With FUZZ_TARGET defined (make fuzz): what libFuzzer calls. Without: a program that runs single
 * inputs, for looking at a finding with any compiler and debugger, and that writes the seeds:
 *
 *   build/fuzz_replay NAME FILE...
 *   build/fuzz_replay --seeds FOLDER */
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include <stdio.h>
#include <string.h>

#ifdef FUZZ_TARGET
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return log_open(NULL, 0, LOG_ERROR) == OK ? 0 : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return FUZZ_TARGET(data, size);
}

#else

static int replay(const FuzzTarget *target, char *const *files, int count)
{
    for (int i = 0; i < count; i++) {
        uint8_t *data = NULL;
        size_t size = 0;
        if (fs_read_file(files[i], &data, &size) != OK) {
            fprintf(stderr, "fuzz_replay: %s\n", status_message());
            return 65;
        }
        /* without the byte that fs_read_file adds: one too far shall show */
        uint8_t *exact = mem_alloc(size);
        if (exact && size) memcpy(exact, data, size);
        mem_free(data);
        if (exact) target->run(exact, size);
        mem_free(exact);
        printf("%s: ok\n", files[i]);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
        fuzz_write_seeds(argv[2]);
        return 0;
    }
    for (const FuzzTarget *t = fuzz_targets; argc > 2 && t->name; t++)
        if (strcmp(t->name, argv[1]) == 0) return replay(t, argv + 2, argc - 2);
    fprintf(stderr, "usage: fuzz_replay NAME FILE...\n       fuzz_replay --seeds FOLDER\n");
    return 64;
}
#endif
