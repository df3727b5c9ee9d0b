#!/usr/bin/env bash
# ONNX Softmax of opset 11 (axis 1) on N x C x H x W: onnxruntime 1.32.0 normalises over C, H and W
# together, as that opset says; OpenVINO 2026.4.1 and OpenCV 5.0.0.93 over C alone; the reference
# evaluator of onnx 1.23.2 over W alone.
#
# Up to opset 12 the dimensions from the axis on are taken as one; from 13 on only the axis counts.
# Nothing warns. After onnx.version_converter has made it opset 13 (it adds Flatten and Reshape) all
# four are right.
source "$(dirname "$0")/common.sh"
packages onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1 opencv-python-headless==5.0.0.93 \
    numpy==2.4.6

cat > "$STATED" << 'END'
opset 11, onnx reference: sums over W are 1
opset 11, onnxruntime: sums over C, H and W are 1
opset 11, openvino: sums over C are 1
opset 11, opencv: sums over C are 1
converted: Shape Flatten Softmax Reshape
opset 13, onnx reference: sums over C, H and W are 1
opset 13, onnxruntime: sums over C, H and W are 1
opset 13, openvino: sums over C, H and W are 1
opset 13, opencv: sums over C, H and W are 1
END
"$bin/python" > "$SEEN" << 'END'
import cv2
import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

x = (np.arange(24, dtype=np.float32) % 7 / 4).reshape(1, 2, 3, 4)


def opencv(model):
    net = cv2.dnn.readNetFromONNX(np.frombuffer(model, np.uint8))
    net.setInput(x)
    return net.forward()


tools = {
    "onnx reference": lambda m: ReferenceEvaluator(onnx.load_from_string(m)).run(None, {"x": x})[0],
    "onnxruntime": lambda m: onnxruntime.InferenceSession(m).run(None, {"x": x})[0],
    "openvino": lambda m: openvino.compile_model(openvino.Core().read_model(m), "CPU")([x])[0],
    "opencv": opencv,
}


def tell(model):
    opset = model.opset_import[0].version
    for name, run in tools.items():
        y = run(model.SerializeToString())
        for over, axes in (("C, H and W", (1, 2, 3)), ("C", 1), ("W", 3)):
            if np.allclose(y.sum(axes), 1, atol=1e-5):
                print("opset %d, %s: sums over %s are 1" % (opset, name, over))


shape = [1, 2, 3, 4]
graph = helper.make_graph(
    [helper.make_node("Softmax", ["x"], ["y"])], "g",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)])
old = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
onnx.checker.check_model(old)
tell(old)
new = onnx.version_converter.convert_version(old, 13)
print("converted: " + " ".join(node.op_type for node in new.graph.node))
tell(new)
END
compare
