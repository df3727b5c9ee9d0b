/* layout.h - memory descriptors of oneDNN, as struct Layout. Every one that this backend uses
 * exists once and lives as long as the backend, so layouts are compared by pointer. A plain one is
 * interned too, but tensors carry NULL for it. */
#ifndef CONVOY_KERNELS_CPU_LAYOUT_H
#define CONVOY_KERNELS_CPU_LAYOUT_H
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dnnl_compat.h"

/* Conv weights with groups have one dim more here (G, K/G, C/G, R, S) than in their TensorDesc. */
#define LAYOUT_MAX_RANK 5
struct Layout {
    Layout *next;
    CompatDesc desc;
    size_t bytes;
    int rank;
    int64_t dims[LAYOUT_MAX_RANK];
    DType type; /* DTYPE_F32 or DTYPE_BF16; of window indices and oneDNN's scratchpads DTYPE_U8 */
    int64_t block; /* of an activation layout [N][C/b][H][W][b]; 0 where it is none */
    bool rows;     /* an activation layout [N][H][W][C] or [N][C] */
};

void cpu_layout_destroy_all(CpuBackend *b); /* and the names */
/* A copy of name that lives as long as the backend: oneDNN's own may lie inside the primitive. */
Status cpu_layout_keep_name(CpuBackend *b, const char **out, const char *name);
/* Interned layout of an f32, bf16 or u8 tensor; tag may be dnnl_format_tag_any. */
Status cpu_layout_make(CpuBackend *b, const Layout **out, DType type, int rank, const int64_t *dims,
                       dnnl_format_tag_t tag);
/* Row-major, f32. */
Status cpu_layout_plain(CpuBackend *b, const Layout **out, int rank, const int64_t *dims);
/* t, which has a layout, as hosts see it: row-major. */
Status cpu_layout_of_host(CpuBackend *b, const Layout **out, const OpTensor *t);
/* f32 in the order of rows. */
Status cpu_layout_widened(CpuBackend *b, const Layout **out, const Layout *rows);
Status cpu_layout_of_primitive(CpuBackend *b, const Layout **out, const_dnnl_primitive_desc_t pd,
                               dnnl_query_t what);
Status cpu_layout_submemory(CpuBackend *b, const Layout **out, const Layout *parent,
                            const int64_t *dims, const int64_t *offsets);
/* The activation layout of desc, or of bytes beside activations, and its physical size; NULL for
 * plain. */
const Layout *cpu_layout_of_activation(CpuBackend *b, const TensorDesc *desc, size_t *bytes);
uint32_t cpu_layout_key(const Layout *layout); /* BackendVTable */
/* The type of t's elements in memory. */
DType cpu_layout_type(const OpTensor *t);
/* What t has: its own layout, or the interned plain one. */
Status cpu_layout_of_tensor(CpuBackend *b, const Layout **out, const OpTensor *t);
/* As an OpTensor carries it: NULL for plain. */
Status cpu_layout_for_tensor(CpuBackend *b, const Layout **out, const Layout *layout);
#endif
