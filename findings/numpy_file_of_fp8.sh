#!/usr/bin/env bash
# NumPy 2.4.6 with ml_dtypes 0.6.0: np.save writes an array of float8_e5m2 without complaint, as
# type "<f1", and np.load refuses the file, since there is no such type.
#
# The other small types come back as raw bytes: bfloat16 as two (V2), float8_e4m3fn and its like and
# the 4-bit types as one (V1). .view(type) repairs them for those who know which type it was; the
# file does not say.
source "$(dirname "$0")/common.sh"
packages ml_dtypes==0.6.0 numpy==2.4.6

cat > "$STATED" << 'END'
bfloat16: written as <V2; read as |V2, right as bfloat16
float8_e4m3fn: written as <V1; read as |V1, right as float8_e4m3fn
float8_e4m3b11fnuz: written as <V1; read as |V1, right as float8_e4m3b11fnuz
float8_e5m2: written as <f1; ValueError: descr is not a valid dtype descriptor: '<f1'
float8_e5m2fnuz: written as <V1; read as |V1, right as float8_e5m2fnuz
float8_e8m0fnu: written as <V1; read as |V1, right as float8_e8m0fnu
float4_e2m1fn: written as <V1; read as |V1, right as float4_e2m1fn
int4: written as <V1; read as |V1, right as int4
uint4: written as <V1; read as |V1, right as uint4
END
"$bin/python" > "$SEEN" << 'END'
import io

import ml_dtypes
import numpy as np

for name in ("bfloat16", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz",
             "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4"):
    kind = np.dtype(getattr(ml_dtypes, name))
    array = np.array([1, 2, 4], kind)
    f = io.BytesIO()
    np.save(f, array)
    descr = f.getvalue()[10:].split(b"'")[3].decode()
    f.seek(0)
    try:
        back = np.load(f)
        same = (back.view(kind) == array).all()
        said = "read as %s, %s as %s" % (back.dtype, "right" if same else "wrong", name)
    except Exception as e:
        said = "%s: %s" % (type(e).__name__, e)
    print("%s: written as %s; %s" % (name, descr, said))
END
compare
