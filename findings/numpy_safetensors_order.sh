#!/usr/bin/env bash
# safetensors 0.8.0 with NumPy 2.4.6: an array that is not in C order is written wrong, silently.
#
# safetensors.numpy stores the array's memory as it lies, with the array's logical shape. After a
# transposition, which is how weights of Keras and Flax (HWIO) become PyTorch's (OIHW), and for
# Fortran order and views with a stride, that memory is in another order or holds other elements.
# The file is well formed; nothing is raised or printed. Of a 3 x 3 x 4 x 8 kernel, transposed, 2
# values in 288 come back where they were. "Contiguous and dense" is asked for in the function's
# description, and not checked. Copies by np.ascontiguousarray are right.
source "$(dirname "$0")/common.sh"
packages safetensors==0.8.0 numpy==2.4.6

cat > "$STATED" << 'END'
C order: 288 of 288 values come back
transposed, HWIO to OIHW: 2 of 288 values come back
the same, np.ascontiguousarray: 288 of 288 values come back
Fortran order: 2 of 288 values come back
every second value: 1 of 144 values come back
warnings: 0
END
"$bin/python" > "$SEEN" << 'END'
import warnings

import numpy as np
from safetensors.numpy import load_file, save_file

kernel = np.arange(288, dtype=np.float32).reshape(3, 3, 4, 8)
oihw = kernel.transpose(3, 2, 0, 1)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for name, array in (
        ("C order", kernel),
        ("transposed, HWIO to OIHW", oihw),
        ("the same, np.ascontiguousarray", np.ascontiguousarray(oihw)),
        ("Fortran order", np.asfortranarray(kernel)),
        ("every second value", kernel.reshape(288)[::2]),
    ):
        save_file({"weight": array}, "weights.safetensors")
        back = load_file("weights.safetensors")["weight"]
        assert back.shape == array.shape
        print("%s: %d of %d values come back" % (name, (back == array).sum(), array.size))
print("warnings: %d" % len(said))
END
compare
