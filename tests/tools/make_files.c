/* make_files.c - many small files in the form of ImageNet: make_files DIR CLASSES PER_CLASS. For
 * scripts/bench/bench_index.sh. */
#include "base/fs.h"
#include "base/str.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int64_t classes, per_class;
    char path[4096];
    if (argc != 4 || !str_to_i64(argv[2], &classes) || !str_to_i64(argv[3], &per_class)) {
        fprintf(stderr, "usage: make_files DIR CLASSES PER_CLASS\n");
        return 64;
    }
    for (int64_t c = 0; c < classes; c++) {
        snprintf(path, sizeof path, "%s/n%08lld", argv[1], (long long)c);
        if (fs_make_dirs(path) != OK) {
            fprintf(stderr, "%s\n", status_message());
            return 74;
        }
        int folder = open(path, O_RDONLY | O_DIRECTORY);
        for (int64_t i = 0; i < per_class; i++) {
            char name[64];
            snprintf(name, sizeof name, "n%08lld_%lld.JPEG", (long long)c,
                     (long long)(i * 7919 % 100003));
            int fd = openat(folder, name, O_WRONLY | O_CREAT, 0666);
            if (fd < 0 || write(fd, "x", 1) != 1) {
                perror(name);
                return 74;
            }
            close(fd);
        }
        close(folder);
    }
    return 0;
}
