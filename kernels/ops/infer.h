/* infer.h - what the op rows share: checks that name the op, the slot and the shape, and the
 * filling in of outputs. */
#ifndef CONVOY_KERNELS_OPS_INFER_H
#define CONVOY_KERNELS_OPS_INFER_H
#include "kernels/op.h"

/* in[slot] must be there with this type and rank; rank 0 = any. */
Status infer_need(const OpSlots *s, int slot, DType dtype, int rank);
/* in[slot] must have exactly these dims, as f32. */
Status infer_need_dims(const OpSlots *s, int slot, int rank, const int64_t *dims);
/* in[slot] must have the shape of like, as f32. */
Status infer_need_like(const OpSlots *s, int slot, const TensorDesc *like);
/* Fills the output if it is wanted, or checks what the caller preset. */
Status infer_output(const OpSlots *s, int slot, DType dtype, int rank, const int64_t *dims);
Status infer_output_like(const OpSlots *s, int slot, const TensorDesc *like);
/* An output that only the caller can know (gradients of inputs): it must have been preset, as f32
 * of this rank; rank 0 = any. */
Status infer_preset(const OpSlots *s, int slot, int rank);
/* The activation must be one that a batch norm takes along, and with a residual whose gradient is
 * wanted one whose derivative follows from y. */
Status infer_normed_act(OpKind kind, ActKind act, bool residual);
Status infer_folded_act(OpKind kind, ActKind act);
/* (size + pad - window) / stride + 1, or 0 where the window does not fit. */
int64_t infer_output_size(int64_t size, int64_t pad, int64_t kernel_size, int64_t stride);

#define OP_LIST_ROW(kind, name, fused) extern const OpDef op_row_##name;
OP_LIST(OP_LIST_ROW)
#undef OP_LIST_ROW
#endif
