/* dnnl_compat.h - oneDNN 2 and oneDNN 3 behind one face.
 *
 * What differs between the two C interfaces is here and in dnnl_compat.c, and nowhere else: memory
 * descriptors (a struct by value in 2, an opaque pointer with an owner in 3), how a convolution's
 * primitive descriptor is made (operation descriptors in 2, one call in 3), and how its
 * implementations are walked. Functions return oneDNN's own status; dnnl.c translates it into
 * ours. */
#ifndef CONVOY_KERNELS_CPU_DNNL_COMPAT_H
#define CONVOY_KERNELS_CPU_DNNL_COMPAT_H
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if DNNL_VERSION_MAJOR < 2
#error "oneDNN 2 or newer is needed"
#elif DNNL_VERSION_MAJOR == 2
typedef const dnnl_memory_desc_t *CompatDescRef; /* how oneDNN's functions take a descriptor */
#else
typedef const_dnnl_memory_desc_t CompatDescRef;
#endif

/* An owned descriptor: dnnl_compat_desc_free() it once. */
typedef struct CompatDesc {
    dnnl_memory_desc_t handle;
} CompatDesc;

CompatDescRef dnnl_compat_desc_ref(const CompatDesc *d);
dnnl_status_t dnnl_compat_desc_make(CompatDesc *out, dnnl_data_type_t type, int rank,
                                    const int64_t *dims, dnnl_format_tag_t tag);
/* How a tensor lies: cells of equal, contiguous tiles. The innermost block of a tile is the
 * last. */
typedef struct CompatTiles {
    int rank, blocks;
    /* of each dimension: how many tiles, and from one to the next */
    dnnl_dims_t cells, strides;
    /* of each block of a tile: its size, and the dimension that it divides */
    dnnl_dims_t block_size, block_of;
} CompatTiles;
/* dnnl_unimplemented: it is no such layout */
dnnl_status_t dnnl_compat_desc_tiles(const CompatDesc *d, CompatTiles *out);
/* The window of parent that starts at offsets, in parent's memory. */
dnnl_status_t dnnl_compat_desc_submemory(CompatDesc *out, const CompatDesc *parent,
                                         const int64_t *dims, const int64_t *offsets);
dnnl_status_t dnnl_compat_desc_query(CompatDesc *out, const_dnnl_primitive_desc_t pd,
                                     dnnl_query_t what); /* a copy; what = dnnl_query_*_md */
void dnnl_compat_desc_free(CompatDesc *d);
bool dnnl_compat_desc_equal(const CompatDesc *a, const CompatDesc *b);
size_t dnnl_compat_desc_bytes(const CompatDesc *d);
void dnnl_compat_desc_dims(const CompatDesc *d, int *rank, dnnl_dims_t dims);
dnnl_data_type_t dnnl_compat_desc_type(const CompatDesc *d);

typedef enum ConvDirection {
    CONV_FORWARD,
    CONV_BWD_DATA,
    CONV_BWD_WEIGHTS,
    CONV_DIRECTION_COUNT
} ConvDirection;

typedef struct CompatConv {
    ConvDirection direction;
    const CompatDesc *x, *w, *y;               /* or their gradients */
    dnnl_dims_t stride, pad_before, pad_after; /* two used */
    /* Of a forward that is never followed by backward: y = eltwise(sum + bias, or with add what y
     * held, too). */
    const CompatDesc *bias; /* NULL: none of these */
    bool add;
    dnnl_alg_kind_t eltwise; /* dnnl_alg_kind_undef: none */
    float alpha, beta;       /* of eltwise */
} CompatConv;

bool dnnl_compat_accept_any(const char *info); /* for the next two: true */
/* The first implementation for which accept(info string) holds. Not found: dnnl_unimplemented.
 * Caller destroys *out. Scratchpad in user mode, direct algorithm, training where forward without
 * bias. */
dnnl_status_t dnnl_compat_conv_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                      const CompatConv *conv, bool (*accept)(const char *info));
/* out = left right, of rank 2. dnnl_unimplemented where accept refuses the first implementation.
 * Otherwise as above. */
dnnl_status_t dnnl_compat_matmul_create(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                        const CompatDesc *left, const CompatDesc *right,
                                        const CompatDesc *out, bool (*accept)(const char *info));
#endif
