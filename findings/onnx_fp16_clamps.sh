#!/usr/bin/env bash
# onnxconverter-common 1.16.0, convert_float_to_float16: weights above 10,000 become 10,000, though
# float16 goes to 65,504.
#
# A batch normalisation with mean and variance 20,000 (pictures that were never divided by 255) then
# subtracts half of the mean and divides by 0.7 of the deviation: at the mean it gives 100 instead
# of 0. Values nearer to zero than 1e-7 become 1e-7. Both come with a Python warning that calls it
# truncation, and are the defaults of max_finite_val and min_positive_val; with max_finite_val=65504
# the result is right.
source "$(dirname "$0")/common.sh"
packages onnxconverter-common==1.16.0 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6

cat > "$STATED" << 'END'
float32: scale 1, bias 3e-08, mean 20000, var 20000; at the mean 0.0
float16: scale 1, bias 1.19209e-07, mean 10000, var 10000; at the mean 100.0
float16, max_finite_val=65504: scale 1, bias 1.19209e-07, mean 20000, var 20000; at the mean 0.0
END
"$bin/python" > "$SEEN" << 'END'
import warnings

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxconverter_common import float16

warnings.simplefilter("ignore")
stored = {"scale": 1, "bias": 3e-8, "mean": 20000, "var": 20000}
shape = [1, 1, 1, 1]
graph = helper.make_graph(
    [helper.make_node("BatchNormalization", ["x", *stored], ["y"], epsilon=1e-5)], "g",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    [numpy_helper.from_array(np.array([v], np.float32), k) for k, v in stored.items()])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)


def tell(name, model, kind):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    y = session.run(None, {"x": np.full(shape, 20000, kind)})[0].item()
    values = ("%s %g" % (i.name, numpy_helper.to_array(i)[0]) for i in model.graph.initializer)
    print("%s: %s; at the mean %.1f" % (name, ", ".join(values), y + 0.0))


tell("float32", model, np.float32)
tell("float16", float16.convert_float_to_float16(model), np.float16)
tell("float16, max_finite_val=65504",
     float16.convert_float_to_float16(model, max_finite_val=65504), np.float16)
END
compare
