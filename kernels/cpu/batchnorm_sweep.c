/* batchnorm_sweep.c - two passes over channel blocks, shared out over the team; see batchnorm.h for
 * what it promises.
 *
 * Every thread gets the same number of whole blocks, and goes through them in groups: blocks of one
 * image are neighbours in memory, so small planes are taken several at a time, which gives the
 * prefetcher runs worth following. The blocks that are left over when the number of threads does
 * not divide theirs (all of them, where channels are few) are split by image instead.
 *
 * Rows are dealt out in parts, more of them than there are threads. */
#include "kernels/cpu/batchnorm.h"
#include "kernels/cpu/layout.h"
#include <omp.h>
#include <string.h>

/* of one tensor; two or three of them fit in a second-level cache */
enum { MAX_GROUP = 16, GROUP_BYTES = 128 * 1024 };
/* of rows: elements; a narrower step would wait for its own sums */
enum { MAX_PARTS = 256, PART_ELEMENTS = 64 * 1024, MIN_WIDTH = 64 };

/* ---- operands ---- */

static size_t copy_bytes(const OpTensor *t, const OpTensor *x)
{
    enum { ALIGNMENT = 64 };
    if (t->desc.rank == 0 || cpu_layout_type(t) == cpu_layout_type(x)) return 0;
    return (x->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

Status batchnorm_decide_operand(OpInstance *op, OpTensor *t, const OpTensor *x)
{
    if (t->desc.rank == 0) return OK;
    TRY(cpu_decide_beside(t, x, op));
    op->workspace_bytes += copy_bytes(t, x);
    return OK;
}

const void *batchnorm_read_operand(const OpTensor *t, const OpTensor *x, void **workspace)
{
    const size_t bytes = copy_bytes(t, x);
    const int64_t count = tensor_elements(&t->desc);
    void *copy = *workspace;
    if (bytes == 0) return t->data;
    if (cpu_layout_type(x) == DTYPE_F32) cpu_lanes_widen(copy, t->data, count);
    else cpu_lanes_narrow(copy, t->data, count);
    *workspace = (char *)copy + bytes;
    return copy;
}

/* ---- the sweep ---- */

/* Lanes of a wide step: whole rows. */
static int64_t width_of_rows(const CpuView *v)
{
    int64_t width = v->c;
    while (width < MIN_WIDTH || width % BN_LANES != 0) width += v->c;
    return width;
}

static int64_t parts_of_rows(const CpuView *v)
{
    int64_t parts = v->n * v->image / PART_ELEMENTS;
    return parts < 1 ? 1 : parts > MAX_PARTS ? MAX_PARTS : parts;
}

static int64_t tables_of(const CpuView *v)
{
    return v->rows ? width_of_rows(v) / BN_LANES : v->cb;
}

/* BnSums of a wide step */
static int64_t sums_of_rows(const CpuView *v)
{
    return width_of_rows(v) / CPU_LANES;
}

size_t batchnorm_once_workspace(const CpuView *v)
{
    return (size_t)tables_of(v) * sizeof(BnLanes);
}

size_t batchnorm_sweep_workspace(const CpuView *v, int threads)
{
    if (v->rows)
        return batchnorm_once_workspace(v) +
               (size_t)(parts_of_rows(v) * sums_of_rows(v)) * sizeof(BnSums);
    /* The remainder of dealing blocks out: below the size of the team, also of a smaller one. */
    const int64_t most = threads - 1 < v->cb ? threads - 1 : v->cb;
    return (size_t)most * (sizeof(BnLanes) + (size_t)v->n * sizeof(BnSums));
}

static void add_partial(BnSums *total, const BnSums *partial)
{
    for (int l = 0; l < CPU_LANES; l++) {
        total->first[l] += partial->first[l];
        total->second[l] += partial->second[l];
    }
}

static BnSpan span_of_plane(const CpuView *v, int64_t plane)
{
    const int64_t count = v->hw * v->b;
    return (BnSpan){ plane * count, count / CPU_LANES, count % CPU_LANES, 1 };
}

static BnSpan span_of_part(const CpuView *v, int64_t part)
{
    const int64_t width = width_of_rows(v), count = v->n * v->image, parts = parts_of_rows(v);
    int64_t first, last;
    cpu_share(count / width, (int)part, (int)parts, &first, &last);
    return (BnSpan){ .at = first * width,
                     .steps = last - first,
                     .rest = part == parts - 1 ? count % width : 0,
                     .tables = width / BN_LANES };
}

/* The same of both passes, so that the second finds in a thread's own cache what its first left
 * there last. */
typedef struct Share {
    int64_t first, end;
} Share;

static Share share_of_thread(int64_t count)
{
    Share s;
    cpu_share(count, omp_get_thread_num(), omp_get_num_threads(), &s.first, &s.end);
    return s;
}

static void sum_plane(const BnSweep *s, int64_t plane, const BnLanes *lanes, BnSums *partial)
{
    const BnSpan span = span_of_plane(&s->view, plane);
    s->sum(s->ctx, &span, lanes, partial);
}

static void apply_plane(const BnSweep *s, int64_t plane, const BnLanes *lanes)
{
    const BnSpan span = span_of_plane(&s->view, plane);
    s->apply(s->ctx, &span, lanes);
}

static void apply_part(const BnSweep *s, int64_t part, const BnLanes *tables)
{
    const BnSpan span = span_of_part(&s->view, part);
    s->apply(s->ctx, &span, tables);
}

/* Blocks [first, first + count) by one thread. */
static void sweep_group(const BnSweep *s, int64_t first, int64_t count)
{
    BnLanes lanes[MAX_GROUP];
    BnSums totals[MAX_GROUP], partial;
    memset(totals, 0, sizeof totals);
    for (int64_t j = 0; j < count; j++) s->begin(s->ctx, first + j, &lanes[j]);
    for (int64_t n = 0; n < s->view.n; n++)
        for (int64_t j = 0; j < count; j++) {
            sum_plane(s, n * s->view.cb + first + j, &lanes[j], &partial);
            add_partial(&totals[j], &partial);
        }
    for (int64_t j = 0; j < count; j++) s->finish(s->ctx, first + j, &totals[j], &lanes[j]);
    for (int64_t n = s->apply ? s->view.n - 1 : -1; n >= 0; n--)
        for (int64_t j = 0; j < count; j++) apply_plane(s, n * s->view.cb + first + j, &lanes[j]);
}

static int64_t group_blocks(const CpuView *v)
{
    int64_t block_bytes = v->n * v->hw * v->b * (int64_t)sizeof(float),
            count = GROUP_BYTES / block_bytes;
    return count < 1 ? 1 : count > MAX_GROUP ? MAX_GROUP : count;
}

/* Called by the whole team: the last `count` blocks, image by image. */
static void sweep_shared(const BnSweep *s, int64_t count, void *workspace)
{
    BnLanes *lanes = workspace;                           /* [count], then the partials */
    BnSums *partials = (BnSums *)(void *)(lanes + count); /* [count][n] */
    int64_t first = s->view.cb - count, images = s->view.n;
    const Share mine = share_of_thread(count * images);
#pragma omp for schedule(static)
    for (int64_t j = 0; j < count; j++) s->begin(s->ctx, first + j, &lanes[j]);
    for (int64_t i = mine.first; i < mine.end; i++) {
        int64_t j = i / images, n = i % images;
        sum_plane(s, n * s->view.cb + first + j, &lanes[j], &partials[i]);
    }
#pragma omp barrier
#pragma omp for schedule(static)
    for (int64_t j = 0; j < count; j++) {
        BnSums total = { { 0 }, { 0 } };
        for (int64_t n = 0; n < images; n++) add_partial(&total, &partials[j * images + n]);
        s->finish(s->ctx, first + j, &total, &lanes[j]);
    }
    if (!s->apply) return;
    for (int64_t i = mine.end - 1; i >= mine.first; i--) {
        int64_t j = i / images, n = i % images;
        apply_plane(s, n * s->view.cb + first + j, &lanes[j]);
    }
}

/* Lanes [from, from + count) of tables to those from `to` on, one by one. */
static void copy_lanes(BnLanes *tables, int64_t to, const BnLanes *sources, int64_t from,
                       int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        BnLanes *t = &tables[(to + i) / BN_LANES];
        const BnLanes *s = &sources[(from + i) / BN_LANES];
        const int64_t l = (to + i) % BN_LANES, k = (from + i) % BN_LANES;
        t->mean[l] = s->mean[k];
        t->scale[l] = s->scale[k];
        t->shift[l] = s->shift[k];
        t->mean_dz[l] = s->mean_dz[k];
        t->slope[l] = s->slope[k];
    }
}

/* The first C lanes of the tables are known; the other rows of a wide step have the same. */
static void repeat_rows(const CpuView *v, BnLanes *tables)
{
    copy_lanes(tables, v->c, tables, 0, width_of_rows(v) - v->c);
}

static void begin_rows(const BnSweep *s, int64_t block, BnLanes *tables)
{
    BnLanes lanes;
    s->begin(s->ctx, block, &lanes);
    copy_lanes(tables, block * CPU_LANES, &lanes, 0, cpu_view_channels(&s->view, block));
}

/* The sums of a block's channels, over all parts. */
static BnSums total_of_rows(const CpuView *v, const BnSums *partials, int64_t block)
{
    const int64_t width = width_of_rows(v), parts = parts_of_rows(v), sums = sums_of_rows(v);
    BnSums total = { { 0 }, { 0 } };
    for (int64_t p = 0; p < parts; p++)
        for (int64_t c = 0; c < cpu_view_channels(v, block); c++)
            for (int64_t l = block * CPU_LANES + c; l < width; l += v->c) {
                const BnSums *partial = &partials[p * sums + l / CPU_LANES];
                total.first[c] += partial->first[l % CPU_LANES];
                total.second[c] += partial->second[l % CPU_LANES];
            }
    return total;
}

static void finish_rows(const BnSweep *s, int64_t block, const BnSums *partials, BnLanes *tables)
{
    const BnSums total = total_of_rows(&s->view, partials, block);
    const int64_t channels = cpu_view_channels(&s->view, block);
    BnLanes lanes;
    copy_lanes(&lanes, 0, tables, block * CPU_LANES, channels);
    s->finish(s->ctx, block, &total, &lanes);
    copy_lanes(tables, block * CPU_LANES, &lanes, 0, channels);
}

/* Called by the whole team. */
static void sweep_rows(const BnSweep *s, void *workspace)
{
    const CpuView *v = &s->view;
    const int64_t parts = parts_of_rows(v), sums = sums_of_rows(v);
    BnLanes *tables = workspace;                                  /* then the partials */
    BnSums *partials = (BnSums *)(void *)(tables + tables_of(v)); /* [parts][sums] */
    const Share mine = share_of_thread(parts);
#pragma omp for schedule(static)
    for (int64_t block = 0; block < v->cb; block++) begin_rows(s, block, tables);
#pragma omp single
    repeat_rows(v, tables);
    for (int64_t p = mine.first; p < mine.end; p++) {
        const BnSpan span = span_of_part(v, p);
        s->sum(s->ctx, &span, tables, &partials[p * sums]);
    }
#pragma omp barrier
#pragma omp for schedule(static)
    for (int64_t block = 0; block < v->cb; block++) finish_rows(s, block, partials, tables);
    if (!s->apply) return;
#pragma omp single
    repeat_rows(v, tables);
    for (int64_t p = mine.end - 1; p >= mine.first; p--) apply_part(s, p, tables);
}

/* Called by the whole team. */
static void sweep_blocks(const BnSweep *s, void *workspace)
{
    const int64_t group = group_blocks(&s->view), team = omp_get_num_threads(),
                  each = s->view.cb / team, shared = s->view.cb % team,
                  first = each * omp_get_thread_num(), last = first + each;
    for (int64_t block = first; block < last; block += group)
        sweep_group(s, block, last - block < group ? last - block : group);
    if (shared > 0) sweep_shared(s, shared, workspace);
}

void batchnorm_sweep(const BnSweep *s, void *workspace)
{
#pragma omp parallel num_threads(s->threads)
    {
        if (s->view.rows) sweep_rows(s, workspace);
        else sweep_blocks(s, workspace);
    }
}

void batchnorm_once(const BnSweep *s, void *workspace)
{
    const CpuView *v = &s->view;
    BnLanes *tables = workspace;
    const int64_t pieces = v->rows ? parts_of_rows(v) : v->n * v->cb;
    for (int64_t block = 0; block < v->cb; block++) {
        if (v->rows) begin_rows(s, block, tables);
        else s->begin(s->ctx, block, &tables[block]);
    }
    if (v->rows) repeat_rows(v, tables);
#pragma omp parallel for schedule(static) num_threads(s->threads)
    for (int64_t i = 0; i < pieces; i++) {
        if (v->rows) apply_part(s, i, tables);
        else apply_plane(s, i, &tables[i % v->cb]);
    }
}
