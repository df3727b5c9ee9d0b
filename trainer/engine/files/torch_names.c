/* torch_names.c - see torch_names.h. The list is what torch.load(weights_only=True) takes, without
 * quantised, sparse and nested tensors, and what timm's, torchvision's and Lightning's checkpoints
 * have beside the weights. */
#include "trainer/engine/files/torch_names.h"
#include "base/str.h"
#include "kernels/dtype.h"
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 300 };

/* clang-format off */
static const TorchName names[] = {
    { "torch._utils._rebuild_tensor_v2", TORCH_TENSOR, 0, 0 },
    { "torch._utils._rebuild_tensor", TORCH_TENSOR, 0, 0 },
    { "torch._utils._rebuild_parameter", TORCH_PARAMETER, 0, 0 },
    { "torch._utils._rebuild_parameter_with_state", TORCH_PARAMETER, 0, 0 },
    { "torch.nn.parameter.Parameter", TORCH_PARAMETER, 0, 0 },
    { "torch.nn.parameter.Buffer", TORCH_PARAMETER, 0, 0 },
    { "torch._tensor._rebuild_from_type_v2", TORCH_TYPED, 0, 0 },
    { "torch.FloatStorage", TORCH_STORAGE, DTYPE_F32, 4 },
    { "torch.DoubleStorage", TORCH_STORAGE, DTYPE_F64, 8 },
    { "torch.HalfStorage", TORCH_STORAGE, DTYPE_F16, 2 },
    { "torch.BFloat16Storage", TORCH_STORAGE, DTYPE_BF16, 2 },
    { "torch.LongStorage", TORCH_STORAGE, DTYPE_I64, 8 },
    { "torch.IntStorage", TORCH_STORAGE, DTYPE_I32, 4 },
    { "torch.ShortStorage", TORCH_STORAGE, -1, 2 },
    { "torch.CharStorage", TORCH_STORAGE, -1, 1 },
    { "torch.ByteStorage", TORCH_STORAGE, DTYPE_U8, 1 },
    { "torch.BoolStorage", TORCH_STORAGE, DTYPE_U8, 1 },
    { "torch.ComplexFloatStorage", TORCH_STORAGE, -1, 8 },
    { "torch.ComplexDoubleStorage", TORCH_STORAGE, -1, 16 },
    { "torch.storage.UntypedStorage", TORCH_STORAGE, DTYPE_U8, 1 },
    { "torch.storage.TypedStorage", TORCH_STORAGE, -1, 1 },
    { "collections.OrderedDict", PICKLE_MAKES_DICT, 0, 0 },
    { "collections.defaultdict", PICKLE_MAKES_DICT, 0, 0 },
    { "collections.Counter", PICKLE_MAKES_DICT, 0, 0 },
    { "builtins.dict", PICKLE_MAKES_DICT, 0, 0 },
    { "builtins.list", PICKLE_MAKES_LIST, 0, 0 },
    { "builtins.set", PICKLE_MAKES_LIST, 0, 0 },
    { "builtins.frozenset", PICKLE_MAKES_LIST, 0, 0 },
};

/* Values beside the weights; a wrapper subclass is named behind its function, and refused there. */
static const char *const others[] = {
    "torch.Size", "torch.Tensor", "torch.device", "torch.serialization._get_layout",
    "torch.float32", "torch.float64", "torch.float16", "torch.bfloat16", "torch.int64",
    "torch.int32", "torch.int16", "torch.int8", "torch.uint8", "torch.bool",
    "torch._utils._rebuild_wrapper_subclass", "argparse.Namespace", "builtins.bool",
    "builtins.bytearray", "builtins.complex", "builtins.float", "builtins.int", "builtins.str",
    "builtins.tuple", "_codecs.encode", "numpy.dtype", "numpy.ndarray",
    "numpy.core.multiarray.scalar", "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar", "numpy._core.multiarray._reconstruct",
};
/* clang-format on */
enum { NAMES = sizeof names / sizeof *names, OTHERS = sizeof others / sizeof *others };

static Status refuse(const char *name)
{
    char shown[NAME_BYTES];
    str_visible(shown, sizeof shown, name);
    if (str_starts_with(name, "torch.distributed."))
        return fail(ERR_DATA,
                    "holds sharded tensors (%s), as FSDP saves them; save whole ones: "
                    "get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)) "
                    "of torch.distributed.checkpoint.state_dict",
                    shown);
    return fail(ERR_DATA,
                "holds %s, which is not part of weights and could run code; save only weights: "
                "torch.save(model.state_dict(), FILE)",
                shown);
}

Status torch_names_find(int *out, void *cookie, const char *name)
{
    static const char python2[] = "__builtin__.";
    char modern[NAME_BYTES];
    const bool old = str_starts_with(name, python2);
    (void)cookie;
    snprintf(modern, sizeof modern, "%s%s", old ? "builtins." : "",
             old ? name + sizeof python2 - 1 : name);
    for (int i = 0; i < NAMES + OTHERS; i++) {
        if (strcmp(i < NAMES ? names[i].name : others[i - NAMES], modern) != 0) continue;
        *out = i < NAMES && names[i].made < 0 ? names[i].made : i;
        return OK;
    }
    return refuse(name);
}

const TorchName *torch_names_at(int number)
{
    static const TorchName other = { "", TORCH_OTHER, 0, 0 };
    return number < NAMES ? &names[number] : &other;
}
