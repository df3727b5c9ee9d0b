#!/usr/bin/env python3
"""check_onnx.py [NETWORK...] - exported ONNX files of networks as three importers compute them.

Trains each network for one step on generated images, exports it, and compares the logits of
OpenVINO and OpenCV with those of onnxruntime on the same input. Needs onnxruntime, openvino and
opencv-python-headless; run it in the folder of ./convoy. Without NETWORK, one of each family."""
import os
import subprocess
import sys
import tempfile

import cv2
import numpy
import onnxruntime
import openvino

FAMILIES = ("resnet18 resnext50_32x4d wide_resnet50_2 resnet20 airbench94 efficientnet_b0 "
            "efficientnet_v2_s mobilenet_v2 mobilenet_v3_small mobilenetv3_small_100 "
            "regnet_y_400mf convnext_tiny convnextv2_atto vit_b_16 deit_tiny_patch16_224 "
            "vit_small_patch14_dinov2 mlp").split()
SIZES = {"resnet20": 32, "airbench94": 32, "mlp": 28, "vit_small_patch14_dinov2": 56}
MOST = 1e-4  # of the largest logit


def logits(path, images):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    yield "onnxruntime", session.run(None, {"images": images})[0]
    core = openvino.Core()
    model = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    yield "openvino", model(images)[0]
    net = cv2.dnn.readNetFromONNX(path)
    net.setInput(images)
    yield "opencv", net.forward()


def check(name, folder):
    size = SIZES.get(name, 64)
    config, run, path = (os.path.join(folder, name + end) for end in (".yaml", "", ".onnx"))
    with open(config, "w") as file:
        file.write("data: {format: synthetic, image_size: %d, synthetic_images: 64}\n" % size)
    for words in (["train", config, "model.name=" + name, "model.classes=10", "train.max_steps=1",
                   "train.batch_per_rank=4", "train.eval_every=0", "schedule.warmup_epochs=0",
                   "run.dir=" + run],
                  ["export", run, path]):
        subprocess.run(["./convoy"] + words, check=True, stdout=subprocess.DEVNULL)
    images = numpy.random.default_rng(0).standard_normal((3, 3, size, size)).astype("f")
    first, worst = None, 0
    for importer, values in logits(path, images):
        first = values if first is None else first
        error = abs(values - first).max() / abs(first).max()
        worst = max(worst, error)
        print("%-26s %-12s %.1e" % (name, importer, error), flush=True)
    return worst <= MOST


def main():
    print("onnxruntime %s, openvino %s, opencv %s" % (
        onnxruntime.__version__, openvino.__version__, cv2.__version__))
    with tempfile.TemporaryDirectory() as folder:
        failed = [name for name in sys.argv[1:] or FAMILIES if not check(name, folder)]
    sys.exit("more than %g apart: %s" % (MOST, " ".join(failed)) if failed else 0)


main()
