// ranges.cpp - the ranges of profilers, written down instead of shown.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

static thread_local std::vector<std::string> open_ranges;

extern "C" int nvtxRangePushA(const char *message)
{
    open_ranges.push_back(message);
    const char *path = getenv("CONVOY_EMU_RANGES");
    FILE *file = path ? fopen(path, "a") : nullptr;
    if (file) {
        for (size_t i = 0; i < open_ranges.size(); i++)
            fprintf(file, "%s%s", i ? "/" : "", open_ranges[i].c_str());
        fprintf(file, "\n");
        fclose(file);
    }
    return int(open_ranges.size()) - 1;
}

extern "C" int nvtxRangePop(void)
{
    if (open_ranges.empty()) return -1;
    open_ranges.pop_back();
    return int(open_ranges.size());
}
