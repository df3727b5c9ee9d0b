/* rig_memory.c - see rig.h. */
#include "tests/ops/rig.h"

#include <string.h>

#define GUARD_BYTES 256 /* keeps the alignment of any backend */
#define GUARD_VALUE 0xA5

bool rig_is_reference(const Backend *b)
{
    return strcmp(b->v->name, "ref") == 0;
}

size_t rig_plain_bytes(const Backend *b, const TensorDesc *d)
{
    size_t element =
        d->dtype == DTYPE_F32 && rig_is_reference(b) ? sizeof(double) : dtype_bytes(d->dtype);
    return (size_t)tensor_elements(d) * element;
}

static OpTensor byte_tensor(void *data, size_t bytes)
{
    const int64_t count = (int64_t)bytes;
    return (OpTensor){ .desc = tensor_desc(DTYPE_U8, 1, &count), .bytes = bytes, .data = data };
}

Status rig_write(Backend *b, void *to, size_t bytes, const void *from)
{
    OpTensor t = byte_tensor(to, bytes);
    return bytes ? b->v->import_tensor(b, &t, from) : OK;
}

Status rig_read(Backend *b, const void *from, size_t bytes, void *to)
{
    OpTensor t = byte_tensor(NULL, bytes);
    memcpy(&t.data, &from, sizeof t.data); /* an export only reads */
    return bytes ? b->v->export_tensor(b, &t, to) : OK;
}

/* The type's own representation on the host. */
static void store(DType dtype, void *array, int64_t i, double v)
{
    if (dtype == DTYPE_F32) ((float *)array)[i] = (float)v;
    if (dtype == DTYPE_F64) ((double *)array)[i] = v;
    if (dtype == DTYPE_U8) ((uint8_t *)array)[i] = (uint8_t)v;
    if (dtype == DTYPE_I32) ((int32_t *)array)[i] = (int32_t)v;
}

static double load(DType dtype, const void *array, int64_t i)
{
    if (dtype == DTYPE_F32) return (double)((const float *)array)[i];
    if (dtype == DTYPE_U8) return ((const uint8_t *)array)[i];
    if (dtype == DTYPE_I32) return ((const int32_t *)array)[i];
    return ((const double *)array)[i];
}

Status rig_import(Backend *b, Arena *arena, const OpTensor *t, const Host *from)
{
    int64_t count = tensor_elements(&t->desc);
    if (rig_is_reference(b) && t->desc.dtype == DTYPE_F32)
        return rig_write(b, t->data, t->bytes, from->v);
    void *plain = arena_alloc(arena, tensor_plain_bytes(&t->desc));
    if (!plain) return ERR_MEMORY;
    for (int64_t i = 0; i < count; i++) store(t->desc.dtype, plain, i, from->v[i]);
    return b->v->import_tensor(b, t, plain);
}

Status rig_export(Backend *b, Arena *arena, const OpTensor *t, Host *to)
{
    int64_t count = tensor_elements(&t->desc);
    TRY(host_make(arena, to, &t->desc));
    if (rig_is_reference(b) && t->desc.dtype == DTYPE_F32)
        return rig_read(b, t->data, t->bytes, to->v);
    void *plain = arena_alloc(arena, tensor_plain_bytes(&t->desc));
    if (!plain) return ERR_MEMORY;
    TRY(b->v->export_tensor(b, t, plain));
    for (int64_t i = 0; i < count; i++) to->v[i] = load(t->desc.dtype, plain, i);
    return OK;
}

Status guarded_alloc(Backend *b, Arena *arena, size_t bytes, Guarded *out)
{
    *out = (Guarded){ NULL, NULL, bytes };
    void *base;
    size_t total = bytes + 2 * GUARD_BYTES;
    unsigned char *image = arena_alloc(arena, total);
    if (!image) return ERR_MEMORY;
    memset(image, GUARD_VALUE, total);
    memset(image + GUARD_BYTES, 0xFF, bytes);
    TRY(b->v->alloc(b, total, &base));
    out->base = base;
    out->data = out->base + GUARD_BYTES;
    return rig_write(b, out->base, total, image);
}

Status guarded_check(Backend *b, Arena *arena, const Guarded *g, const char *what)
{
    unsigned char *guard = arena_alloc(arena, GUARD_BYTES);
    if (!guard) return ERR_MEMORY;
    for (int side = 0; side < 2; side++) {
        TRY(rig_read(b, side ? g->data + g->bytes : g->base, GUARD_BYTES, guard));
        for (int i = 0; i < GUARD_BYTES; i++)
            if (guard[i] != GUARD_VALUE)
                return fail(ERR_HEALTH, "wrote %s %s (%d bytes away)", side ? "behind" : "before",
                            what, side ? i : GUARD_BYTES - i);
    }
    return OK;
}

void guarded_free(Backend *b, Guarded *g)
{
    if (g->base) b->v->free(b, g->base);
    *g = (Guarded){ NULL, NULL, 0 };
}
