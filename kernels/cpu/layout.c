/* layout.c - how tensors lie in the CPU backend's memory: the interned layouts.
 *
 * Layouts are few (a network has some hundreds of shapes at most) and looked up in prepare() only,
 * so they are one linked list. */
#include "kernels/cpu/layout.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "kernels/cpu/dnnl.h"
#include <string.h>

typedef struct Name {
    struct Name *next;
    char text[];
} Name;

struct CpuLayouts {
    Layout *first;
    Name *names; /* of oneDNN's implementations: some ten */
};

void cpu_layout_destroy_all(CpuBackend *b)
{
    if (!b->layouts) return;
    for (Layout *l = b->layouts->first, *next; l; l = next) {
        next = l->next;
        dnnl_compat_desc_free(&l->desc);
        mem_free(l);
    }
    for (Name *name = b->layouts->names, *next; name; name = next) {
        next = name->next;
        mem_free(name);
    }
    mem_free(b->layouts);
    b->layouts = NULL;
}

static Status make_lists(CpuBackend *b)
{
    if (!b->layouts) b->layouts = mem_calloc(1, sizeof *b->layouts);
    return b->layouts ? OK : ERR_MEMORY;
}

Status cpu_layout_keep_name(CpuBackend *b, const char **out, const char *name)
{
    *out = NULL;
    TRY(make_lists(b));
    for (const Name *known = b->layouts->names; known; known = known->next) {
        if (strcmp(known->text, name)) continue;
        *out = known->text;
        return OK;
    }
    size_t bytes = strlen(name) + 1;
    Name *made = mem_alloc(sizeof *made + bytes);
    if (!made) return ERR_MEMORY;
    memcpy(made->text, name, bytes);
    made->next = b->layouts->names;
    b->layouts->names = made;
    *out = made->text;
    return OK;
}

static DType type_of(const CompatDesc *desc)
{
    const dnnl_data_type_t type = dnnl_compat_desc_type(desc);
    return type == dnnl_f32 ? DTYPE_F32 : type == dnnl_bf16 ? DTYPE_BF16 : DTYPE_U8;
}

/* Takes desc: the list owns it, or it is freed. */
static Status intern(CpuBackend *b, const Layout **out, CompatDesc *desc, int rank,
                     const int64_t *dims)
{
    *out = NULL;
    if (make_lists(b) != OK) {
        dnnl_compat_desc_free(desc);
        return ERR_MEMORY;
    }
    for (const Layout *l = b->layouts->first; l; l = l->next) {
        if (!dnnl_compat_desc_equal(&l->desc, desc)) continue;
        dnnl_compat_desc_free(desc);
        *out = l;
        return OK;
    }
    Layout *made = mem_calloc(1, sizeof *made);
    if (!made) {
        dnnl_compat_desc_free(desc);
        return ERR_MEMORY;
    }
    made->desc = *desc;
    made->rank = rank;
    memcpy(made->dims, dims, (size_t)rank * sizeof *dims);
    made->type = type_of(&made->desc);
    made->bytes = dnnl_compat_desc_bytes(&made->desc);
    made->next = b->layouts->first;
    b->layouts->first = made;
    *out = made;
    return OK;
}

static void copy_dims(dnnl_dims_t out, int rank, const int64_t *dims)
{
    ASSERT(rank >= 1 && rank <= LAYOUT_MAX_RANK);
    memset(out, 0, sizeof(dnnl_dims_t));
    memcpy(out, dims, (size_t)rank * sizeof *dims);
}

static dnnl_data_type_t vendor_type(DType type)
{
    ASSERT(type == DTYPE_F32 || type == DTYPE_BF16 || type == DTYPE_U8);
    return type == DTYPE_F32 ? dnnl_f32 : type == DTYPE_BF16 ? dnnl_bf16 : dnnl_u8;
}

Status cpu_layout_make(CpuBackend *b, const Layout **out, DType type, int rank, const int64_t *dims,
                       dnnl_format_tag_t tag)
{
    dnnl_dims_t d;
    CompatDesc desc;
    *out = NULL;
    copy_dims(d, rank, dims);
    TRY_DNNL(dnnl_compat_desc_make(&desc, vendor_type(type), rank, d, tag));
    return intern(b, out, &desc, rank, d);
}

static Status plain_layout(CpuBackend *b, const Layout **out, DType type, int rank,
                           const int64_t *dims)
{
    static const dnnl_format_tag_t plain[LAYOUT_MAX_RANK + 1] = {
        dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde
    };
    ASSERT(rank >= 1 && rank <= LAYOUT_MAX_RANK);
    return cpu_layout_make(b, out, type, rank, dims, plain[rank]);
}

Status cpu_layout_plain(CpuBackend *b, const Layout **out, int rank, const int64_t *dims)
{
    return plain_layout(b, out, DTYPE_F32, rank, dims);
}

Status cpu_layout_of_host(CpuBackend *b, const Layout **out, const OpTensor *t)
{
    return plain_layout(b, out, t->desc.dtype, t->layout->rank, t->layout->dims);
}

static dnnl_format_tag_t tag_of_rows(int rank)
{
    return rank == 4 ? dnnl_nhwc : dnnl_nc;
}

Status cpu_layout_widened(CpuBackend *b, const Layout **out, const Layout *rows)
{
    ASSERT(rows->rows);
    return cpu_layout_make(b, out, DTYPE_F32, rows->rank, rows->dims, tag_of_rows(rows->rank));
}

Status cpu_layout_of_primitive(CpuBackend *b, const Layout **out, const_dnnl_primitive_desc_t pd,
                               dnnl_query_t what)
{
    CompatDesc desc;
    dnnl_dims_t dims;
    int rank = 0;
    *out = NULL;
    TRY_DNNL(dnnl_compat_desc_query(&desc, pd, what));
    dnnl_compat_desc_dims(&desc, &rank, dims);
    return intern(b, out, &desc, rank, dims);
}

Status cpu_layout_submemory(CpuBackend *b, const Layout **out, const Layout *parent,
                            const int64_t *dims, const int64_t *offsets)
{
    dnnl_dims_t d, o;
    CompatDesc desc;
    *out = NULL;
    copy_dims(d, parent->rank, dims);
    copy_dims(o, parent->rank, offsets);
    TRY_DNNL(dnnl_compat_desc_submemory(&desc, &parent->desc, d, o));
    return intern(b, out, &desc, parent->rank, d);
}

uint32_t cpu_layout_key(const Layout *layout)
{
    CompatTiles tiles = { .rank = 0 };
    if (!layout || dnnl_compat_desc_tiles(&layout->desc, &tiles) != dnnl_success)
        return layout ? (uint32_t)layout->bytes : 0;
    uint32_t key = crc32c_update(layout->type, tiles.cells, sizeof(int64_t) * (size_t)tiles.rank);
    key = crc32c_update(key, tiles.strides, sizeof(int64_t) * (size_t)tiles.rank);
    key = crc32c_update(key, tiles.block_size, sizeof(int64_t) * (size_t)tiles.blocks);
    return crc32c_update(key, tiles.block_of, sizeof(int64_t) * (size_t)tiles.blocks);
}

DType cpu_layout_type(const OpTensor *t)
{
    return t->layout ? t->layout->type : t->desc.dtype;
}

Status cpu_layout_of_tensor(CpuBackend *b, const Layout **out, const OpTensor *t)
{
    *out = t->layout;
    return t->layout ? OK : cpu_layout_plain(b, out, t->desc.rank, t->desc.dims);
}

Status cpu_layout_for_tensor(CpuBackend *b, const Layout **out, const Layout *layout)
{
    const Layout *plain;
    *out = NULL;
    TRY(cpu_layout_plain(b, &plain, layout->rank, layout->dims));
    *out = layout == plain ? NULL : layout;
    return OK;
}

const Layout *cpu_layout_of_activation(CpuBackend *b, const TensorDesc *desc, size_t *bytes)
{
    const bool half = b->compute == DTYPE_BF16;
    const Layout *found = NULL;
    Status st;
    *bytes = tensor_plain_bytes(desc);
    const DType type = desc->dtype == DTYPE_F32 ? b->compute : desc->dtype;
    if (desc->dtype != DTYPE_F32 && desc->dtype != DTYPE_U8) return NULL;
    if (desc->rank != 4 && !(half && desc->rank == 2)) return NULL;
    if (!half && desc->dims[1] < b->block) return NULL;
    if (half)
        st = cpu_layout_make(b, &found, type, desc->rank, desc->dims, tag_of_rows(desc->rank));
    else
        st = cpu_layout_make(b, &found, type, 4, desc->dims,
                             b->block == 16 ? dnnl_nChw16c : dnnl_nChw8c);
    ASSERT(st == OK);
    /* The list's entry is ours and const only to others; an activation layout is marked the first
     * time it is asked for. */
    for (Layout *l = b->layouts->first; l; l = l->next) {
        if (l != found) continue;
        l->rows = half;
        l->block = half ? 0 : b->block;
    }
    *bytes = found->bytes;
    return found;
}
