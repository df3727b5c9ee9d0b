/* make_containers.c - an ImageFolder tree as other loaders keep it: make_containers TREE OUT writes
 * OUT/tars (WebDataset with .cls files), OUT/tree.tar (the tree packed whole) and OUT/records
 * (TFRecord as ImageNet's converters). For tests/e2e. */
#include "base/fs.h"
#include "tests/tools/container_write.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    char path[3][4096], name[4200];
    static const char *const names[3] = { "tars", "whole", "records" };
    if (argc != 3) {
        fprintf(stderr, "usage: make_containers TREE OUT\n");
        return 64;
    }
    for (int i = 0; i < 3; i++) snprintf(path[i], sizeof path[i], "%s/%s", argv[2], names[i]);
    container_write_tars(argv[1], path[0], 3, true);
    container_write_tars(argv[1], path[1], 1, false);
    container_write_tfrecords(argv[1], path[2], 4);
    snprintf(name, sizeof name, "%s/tree.tar", argv[2]);
    char *from = fs_join(path[1], "part-0000.tar");
    if (!from || rename(from, name) != 0 || remove(path[1]) != 0) {
        perror(name);
        return 74;
    }
    return 0;
}
