/* stages.c - see stages.h. */
#include "trainer/config/stages.h"

int stages_count(const Config *c)
{
    return c->data.progressive_sizes.count + 1;
}

int64_t stages_image_size(const Config *c, int stage)
{
    const ConfigList *sizes = &c->data.progressive_sizes;
    return stage < sizes->count ? (int64_t)sizes->values[stage] : c->data.image_size;
}

int64_t stages_largest(const Config *c)
{
    int64_t largest = 0;
    for (int i = 0; i < stages_count(c); i++)
        if (stages_image_size(c, i) > largest) largest = stages_image_size(c, i);
    return largest;
}

int stages_at(const Config *c, const RunPlan *p, int64_t step)
{
    int stage = 0;
    while (stage + 1 < stages_count(c) && step >= stages_end(c, p, stage)) stage++;
    return stage;
}

int64_t stages_end(const Config *c, const RunPlan *p, int stage)
{
    if (stage + 1 >= stages_count(c)) return p->total_steps;
    int64_t images = (int64_t)c->data.progressive_until.values[stage] * p->images;
    int64_t end = (images + p->global_batch - 1) / p->global_batch;
    return end < p->total_steps ? end : p->total_steps;
}
