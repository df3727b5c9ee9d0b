/* torch_names.c - see torch_names.h. The list is what torch.load(weights_only=True) takes, without
 * quantised, sparse and nested tensors, and what timm's, torchvision's and Lightning's checkpoints
 * have beside the weights. */
#include "trainer/engine/files/torch_names.h"
#include "base/str.h"
#include "kernels/dtype.h"
#include <string.h>

enum { NAME_BYTES = 300 };

#define STORAGE(name, dtype, bytes)                                                                \
    {                                                                                              \
        "torch." name "Storage", TORCH_STORAGE, dtype, bytes                                       \
    }

static const TorchName names[] = {
    { "collections.OrderedDict", PICKLE_MAKES_DICT, 0, 0 },
    { "collections.defaultdict", PICKLE_MAKES_DICT, 0, 0 },
    { "collections.Counter", PICKLE_MAKES_DICT, 0, 0 },
    { "builtins.dict", PICKLE_MAKES_DICT, 0, 0 },
    { "builtins.list", PICKLE_MAKES_LIST, 0, 0 },
    { "builtins.set", PICKLE_MAKES_LIST, 0, 0 },
    { "builtins.frozenset", PICKLE_MAKES_LIST, 0, 0 },
    { "torch._utils._rebuild_tensor_v2", TORCH_TENSOR, 0, 0 },
    { "torch._utils._rebuild_tensor", TORCH_TENSOR, 0, 0 },
    { "torch._utils._rebuild_parameter", TORCH_PARAMETER, 0, 0 },
    { "torch._utils._rebuild_parameter_with_state", TORCH_PARAMETER, 0, 0 },
    { "torch.nn.parameter.Parameter", TORCH_PARAMETER, 0, 0 },
    { "torch.nn.parameter.Buffer", TORCH_PARAMETER, 0, 0 },
    { "torch._tensor._rebuild_from_type_v2", TORCH_TYPED, 0, 0 },
    STORAGE("Float", DTYPE_F32, 4),
    STORAGE("Double", DTYPE_F64, 8),
    STORAGE("Half", DTYPE_F16, 2),
    STORAGE("BFloat16", DTYPE_BF16, 2),
    STORAGE("Long", DTYPE_I64, 8),
    STORAGE("Int", DTYPE_I32, 4),
    STORAGE("Short", -1, 2),
    STORAGE("Char", -1, 1),
    STORAGE("Byte", DTYPE_U8, 1),
    STORAGE("Bool", DTYPE_U8, 1),
    STORAGE("ComplexFloat", -1, 8),
    STORAGE("ComplexDouble", -1, 16),
    STORAGE("Untyped", DTYPE_U8, 1),
    STORAGE("storage.Untyped", DTYPE_U8, 1),
    STORAGE("storage.Typed", -1, 1),
    /* a tensor of another class: its name comes next, and is refused */
    { "torch._utils._rebuild_wrapper_subclass", TORCH_OTHER, 0, 0 },
};

/* Values beside the weights. */
static const char *const others[] = {
    "torch.Size",
    "torch.Tensor",
    "torch.device",
    "torch.serialization._get_layout",
    "torch.float32",
    "torch.float64",
    "torch.float16",
    "torch.bfloat16",
    "torch.int64",
    "torch.int32",
    "torch.int16",
    "torch.int8",
    "torch.uint8",
    "torch.bool",
    "argparse.Namespace",
    "builtins.bool",
    "builtins.bytearray",
    "builtins.complex",
    "builtins.float",
    "builtins.int",
    "builtins.str",
    "builtins.tuple",
    "_codecs.encode",
    "numpy.dtype",
    "numpy.ndarray",
    "numpy.core.multiarray.scalar",
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "numpy._core.multiarray._reconstruct",
};
enum { NAMES = sizeof names / sizeof *names, OTHERS = sizeof others / sizeof *others };

static Status refuse(const char *name)
{
    char shown[NAME_BYTES];
    str_visible(shown, sizeof shown, name);
    if (str_starts_with(name, "torch.distributed."))
        return fail(ERR_DATA,
                    "holds sharded tensors (%s), as FSDP saves them; save whole "
                    "ones: get_model_state_dict(model, options=StateDictOptions("
                    "full_state_dict=True)) of torch.distributed.checkpoint.state_dict",
                    shown);
    return fail(ERR_DATA,
                "holds %s, which is not part of weights and could run code; save only weights: "
                "torch.save(model.state_dict(), FILE)",
                shown);
}

Status torch_names_find(int *out, void *cookie, const char *name)
{
    static const char python2[] = "__builtin__.", python3[] = "builtins.";
    char modern[NAME_BYTES];
    const bool old = str_starts_with(name, python2);
    (void)cookie;
    str_visible(modern, sizeof modern, old ? name + sizeof python2 - 1 : name);
    for (int i = 0; i < NAMES + OTHERS; i++) {
        const char *known = i < NAMES ? names[i].name : others[i - NAMES];
        if (old && !str_starts_with(known, python3)) continue;
        if (strcmp(old ? known + sizeof python3 - 1 : known, modern) != 0) continue;
        *out = i < NAMES && names[i].made < 0 ? names[i].made : i;
        return OK;
    }
    return refuse(name);
}

const TorchName *torch_names_at(int number)
{
    static const TorchName other = { "", TORCH_OTHER, 0, 0 };
    ASSERT(number >= 0);
    return number < NAMES ? &names[number] : &other;
}
