/* bench.c - what the benchmarks share. */
#include "trainer/app/cmd/bench/bench.h"
#include "data/data.h"
#include "trainer/app/cmd/command_run.h"

Config bench_config(const Config *c)
{
    Config local = *c;
    if (!c->data.train || c->data.train[0] == '\0') command_run_generate_images(&local);
    local.data.val = NULL;
    local.data.val_split = 0;
    return local;
}
