#!/usr/bin/env bash
# OpenVINO 2026.4.1, MaxPool with ceil_mode=1: where the last window would begin behind the picture,
# the output has one more row and column, of the lowest float.
#
# onnxruntime 1.32.0 and the reference evaluator of onnx 1.23.2 leave such a window out, as PyTorch
# does. With kernel 1 and stride 2 (how some networks thin out a shortcut) 2 x 2 becomes 2 x 2
# instead of 1 x 1. AveragePool leaves it out in all three; but with count_include_pad=1 OpenVINO
# divides by all cells of a window, the others by those inside the padded picture.
source "$(dirname "$0")/common.sh"
packages onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1 numpy==2.4.6

cat > "$STATED" << 'END'
MaxPool of 2 x 2, kernel 1, stride 2, pad 0
  reference: 1.000
  onnxruntime: 1.000
  openvino: 1.000 -huge / -huge -huge
MaxPool of 4 x 4, kernel 2, stride 3, pad 1
  reference: 1.000 4.000 / 1.000 4.000
  onnxruntime: 1.000 4.000 / 1.000 4.000
  openvino: 1.000 4.000 -huge / 1.000 4.000 -huge / -huge -huge -huge
AveragePool of 2 x 2, kernel 1, stride 2, pad 0
  reference: 1.000
  onnxruntime: 1.000
  openvino: 1.000
AveragePool of 4 x 4, kernel 3, stride 2, pad 1
  reference: 0.667 2.000 1.333 / 1.000 3.000 2.000 / 0.500 1.500 1.000
  onnxruntime: 0.667 2.000 1.333 / 1.000 3.000 2.000 / 0.500 1.500 1.000
  openvino: 0.667 2.000 0.889 / 1.000 3.000 1.333 / 0.333 1.000 0.444
END
"$bin/python" > "$SEEN" << 'END'
import numpy as np
import onnxruntime
import openvino
from onnx import TensorProto, checker, helper
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(3)


def tell(op, size, kernel, stride, pad, **more):
    x = np.tile(np.arange(1, size + 1, dtype=np.float32), (1, 1, size, 1))
    node = helper.make_node(op, ["x"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                            pads=[pad] * 4, ceil_mode=1, **more)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, "h", "w"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    checker.check_model(model)
    raw = model.SerializeToString()
    print("%s of %d x %d, kernel %d, stride %d, pad %d" % (op, size, size, kernel, stride, pad))
    for name, y in (
        ("reference", ReferenceEvaluator(model).run(None, {"x": x})[0]),
        ("onnxruntime", onnxruntime.InferenceSession(raw).run(None, {"x": x})[0]),
        ("openvino", openvino.compile_model(openvino.Core().read_model(raw), "CPU")([x])[0]),
    ):
        rows = (" ".join("%.3f" % v if v > -1e38 else "-huge" for v in row) for row in y[0, 0])
        print("  %s: %s" % (name, " / ".join(rows)))


tell("MaxPool", 2, 1, 2, 0)
tell("MaxPool", 4, 2, 3, 1)
tell("AveragePool", 2, 1, 2, 0)
tell("AveragePool", 4, 3, 2, 1, count_include_pad=1)
END
compare
