/* fuzz_util.c - the table of targets, and what they share. */
#include "tests/fuzz/fuzz.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FUZZ_ROW(name) { #name, fuzz_##name },
const FuzzTarget fuzz_targets[] = { FUZZ_TARGETS(FUZZ_ROW){ NULL, NULL } };
#undef FUZZ_ROW

#define FILES_MAX 8

static char folder[64], files[FILES_MAX][64];

static void remove_folder(void)
{
    char path[sizeof folder + sizeof files[0] + 1];
    for (int i = 0; i < FILES_MAX && files[i][0]; i++) {
        snprintf(path, sizeof path, "%s/%.63s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

const char *fuzz_folder(void)
{
    if (folder[0]) return folder;
    snprintf(folder, sizeof folder, "%s/convoy-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    ASSERT(mkdtemp(folder) != NULL);
    ASSERT(atexit(remove_folder) == 0);
    return folder;
}

static void remember(const char *name)
{
    int i = 0;
    while (i < FILES_MAX && files[i][0] && strcmp(files[i], name) != 0) i++;
    ASSERT(i < FILES_MAX && strlen(name) < sizeof files[0]);
    memcpy(files[i], name, strlen(name) + 1);
}

void fuzz_write(const char *name, const uint8_t *data, size_t size)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    remember(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ASSERT(fd >= 0);
    ASSERT(size == 0 || write(fd, data, size) == (ssize_t)size);
    close(fd);
}

void fuzz_only_shows(const char *text, const char *keep)
{
    uint32_t code = 0;
    for (int n; *text; text += n) {
        n = str_character(text, &code);
        ASSERT(n > 0 && (!str_steers(code) || strchr(keep, *text)));
    }
}

void fuzz_use(const uint8_t *data, size_t size)
{
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < size; i++) sum = (uint8_t)(sum ^ data[i]);
}
