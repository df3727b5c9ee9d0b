/* progressive.c - see progressive.h. */
#include "trainer/engine/plan/progressive.h"

int progressive_stage_count(const Config *c)
{
    return c->data.progressive_sizes.count + 1;
}

int64_t progressive_image_size(const Config *c, int stage)
{
    const ConfigList *sizes = &c->data.progressive_sizes;
    if (stage < sizes->count) return (int64_t)sizes->values[stage];
    return c->data.train_size > 0 ? c->data.train_size : c->data.image_size;
}

int64_t progressive_largest_size(const Config *c)
{
    int64_t largest = 0;
    for (int i = 0; i < progressive_stage_count(c); i++)
        if (progressive_image_size(c, i) > largest) largest = progressive_image_size(c, i);
    return largest;
}

int progressive_stage_at(const Config *c, const TrainPlan *p, int64_t step)
{
    int stage = 0;
    while (stage + 1 < progressive_stage_count(c) && step >= progressive_stage_end(c, p, stage))
        stage++;
    return stage;
}

int64_t progressive_stage_end(const Config *c, const TrainPlan *p, int stage)
{
    if (stage + 1 >= progressive_stage_count(c)) return p->total_steps;
    int64_t images = (int64_t)c->data.progressive_until.values[stage] * p->images;
    int64_t end = train_plan_step_at(p, images);
    return end < p->total_steps ? end : p->total_steps;
}
