#!/usr/bin/env python3
"""Holds what convoy export wrote against PyTorch and onnxruntime: names, every bit of the tensors, logits.

Needs torch, torchvision, safetensors, onnx, onnxruntime (and timm for --timm). Run by hand:

    ./convoy export CHECKPOINT OUT.safetensors; ./convoy export CHECKPOINT OUT.onnx
    python3 scripts/check_export.py MODEL CHECKPOINT OUT.safetensors [OUT.onnx] [--timm] [--size 64]

Then saves the tensors as PyTorch has them to OUT.safetensors.torch.safetensors, for convoy eval to read back.
"""
import argparse

import numpy as np
import torch
import torchvision
from safetensors.torch import load_file, save_file


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    a.add_argument("checkpoint")
    a.add_argument("weights")
    a.add_argument("onnx", nargs="?")
    a.add_argument("--timm", action="store_true")
    a.add_argument("--size", type=int, default=64)
    a = a.parse_args()
    ours, state = load_file(a.checkpoint), load_file(a.weights)
    classes = [v for k, v in state.items() if k in ("fc.weight", "classifier.1.weight", "classifier.weight")][0].shape[0]
    if a.timm:
        import timm
        model = timm.create_model(a.model, num_classes=classes)
    else:
        model = getattr(torchvision.models, a.model)(num_classes=classes)
    print("strict:", model.load_state_dict(state, strict=True))
    tensors = [k for k in state if not k.endswith("num_batches_tracked")]
    have = {(tuple(v.shape), v.numpy().tobytes()) for k, v in ours.items()}
    print("tensors", len(tensors), "bit-identical", sum((tuple(state[k].shape), state[k].numpy().tobytes()) in have for k in tensors))
    save_file(model.state_dict(), a.weights + ".torch.safetensors")
    if not a.onnx:
        return
    import onnx
    import onnxruntime
    onnx.checker.check_model(onnx.load(a.onnx), full_check=True)
    session = onnxruntime.InferenceSession(a.onnx, providers=["CPUExecutionProvider"])
    model = model.eval().double()
    for batch in (1, 3):
        x = np.random.default_rng(1).standard_normal((batch, 3, a.size, a.size)).astype(np.float32)
        with torch.no_grad():
            want = model(torch.from_numpy(x).double()).numpy()
        got = session.run(["logits"], {"images": x})[0]
        print(f"batch {batch}: largest logit {np.abs(want).max():.4g}, difference relative to it {np.abs(got - want).max() / np.abs(want).max():.3g}")


if __name__ == "__main__":
    main()
