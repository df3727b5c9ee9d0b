#!/usr/bin/env python3
"""Holds convoy's weights against PyTorch and onnxruntime, there and back: each network is trained
for two steps on synthetic images and exported; PyTorch must take every name and shape (strict) and
find every bit of every tensor; onnx.checker must accept the ONNX file; onnxruntime and convoy must
find float64 PyTorch's logits; what PyTorch saves again, as safetensors and in both formats of
torch.save, must come back into a checkpoint bit for bit. What inspect model says of published
weights must be what torchvision and timm say. Prints a row of a table for each: network, names,
pixels, parameters of 1000 classes, tensors, and how far logits are from PyTorch's, relative to the
largest: convoy's, of ONNX, of ONNX for pictures.

Needs torch, torchvision, timm, safetensors, onnx and onnxruntime (pip); no part of build or tests.
Without a name: all networks that torchvision or timm have; without a size: that with which each was
published.

    python3 scripts/bench/check_export.py [MODEL...] [--size 64]
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import timm
import torch
import torchvision
from PIL import Image
from safetensors.torch import load_file, save_file

CLASSES = 10
OF_CONVOY, OF_ONNX, OF_PIXELS = 1e-4, 2e-5, 1e-4
MODELS = (["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d",
           "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2",
           "convnext_tiny", "convnext_small", "convnext_base", "convnext_large",
           "vit_b_16", "vit_b_32", "vit_l_16", "mobilenetv3_large_100", "mobilenetv3_small_100",
           "vit_small_patch14_dinov2", "vit_base_patch14_dinov2"]
          + [f"convnextv2_{size}" for size in ("atto", "nano", "tiny", "base")]
          + [f"deit_{size}_patch16_224" for size in ("tiny", "small", "base")]
          + [f"vit_{size}_patch16_224" for size in ("tiny", "small", "base", "large")]
          + [f"{family}_b{i}" for family in ("efficientnet", "tf_efficientnet") for i in range(8)]
          + [f"efficientnet_v2_{s}" for s in "sml"]
          + ["mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "seresnet50", "resnet50d"]
          + [f"regnet_{xy}_{size}" for xy in "xy"
             for size in ("400mf", "800mf", "1_6gf", "3_2gf", "8gf", "16gf", "32gf")])
# Batch norm's epsilon is 1e-3 in torchvision's, and so in ours;
# timm makes them with 1e-5 unless it is told otherwise.
TORCHVISION_EPS = ("efficientnet_b5", "efficientnet_b6", "efficientnet_b7")
# What timm calls networks that have another name here.
TIMMS = {"mobilenet_v2": "mobilenetv2_100", "vit_b_16": "vit_base_patch16_224",
         "vit_b_32": "vit_base_patch32_224", "vit_l_16": "vit_large_patch16_224",
         **{f"regnet_{xy}_{ours}": f"regnet{xy}_{theirs}" for xy in "xy" for ours, theirs in (
             ("400mf", "004"), ("800mf", "008"), ("1_6gf", "016"), ("3_2gf", "032"),
             ("8gf", "080"), ("16gf", "160"), ("32gf", "320"))},
         "regnet_x_400mf": "regnetx_004_tv", "regnet_y_800mf": "regnety_008_tv",
         "regnet_y_8gf": "regnety_080_tv"}


def convoy(binary, *arguments):
    done = subprocess.run([binary, *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"convoy {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def train(binary, model, run, size, settings):
    keys = {"model.name": model, "model.classes": CLASSES, "data.format": "synthetic",
            "data.image_size": size, "data.eval_resize": size, "train.batch_per_rank": 2,
            "train.eval_every": 0, "train.precision": "fp32", "run.dir": run,
            "device.backend": "cpu", **settings}
    empty = os.path.join(os.path.dirname(run), "empty.yaml")
    open(empty, "w").close()
    convoy(binary, "train", empty,
           *[part for key, value in keys.items() for part in ("--set", f"{key}={value}")])
    checkpoints = os.path.join(run, "checkpoints")
    return os.path.join(checkpoints, sorted(name for name in os.listdir(checkpoints)
                                            if name.startswith("step-"))[-1])


def bits(state):
    """How often each tensor occurs, by shape (without ones at its end, which libraries have or
    not) and bits; what counts batches is PyTorch's alone, optimizer state ours alone."""
    def plain(shape):
        shape = list(shape)
        while shape and shape[-1] == 1:
            shape.pop()
        return tuple(shape)
    return collections.Counter((plain(v.shape), v.numpy().tobytes())
                               for k, v in state.items() if not k.endswith("num_batches_tracked"))


def predictions_differ(binary, model, checkpoint, scratch, size):
    """How far convoy's logits are from float64 PyTorch's, relative to the largest, both less their
    means, which no probability shows."""
    picture = os.path.join(scratch, "noise.png")
    pixels = np.random.default_rng(3).integers(0, 256, (size, size, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(picture)
    line = json.loads(convoy(binary, "predict", checkpoint, picture, "--json", "--top",
                             str(CLASSES)))
    found = np.zeros(CLASSES)
    for row in line["top"]:
        found[row["label"]] = np.log(row["probability"])
    mean, std = (torch.tensor(v).double() for v in ([.485, .456, .406], [.229, .224, .225]))
    with torch.no_grad():
        images = ((torch.from_numpy(pixels).double() / 255 - mean) / std).permute(2, 0, 1)
        want = model.eval().double()(images[None]).numpy()[0]
    return np.abs(found - found.mean() - want + want.mean()).max() / np.abs(want).max()


def logits_differ(model, path, size):
    """The largest difference of onnxruntime's logits from float64 PyTorch's, relative to the
    largest logit; at two batch sizes."""
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    model, worst = model.eval().double(), 0
    for batch in (1, 3):
        x = np.random.default_rng(1).standard_normal((batch, 3, size, size)).astype(np.float32)
        with torch.no_grad():
            want = model(torch.from_numpy(x).double()).numpy()
        worst = max(worst, np.abs(session.run(["logits"], {"images": x})[0] - want).max()
                    / np.abs(want).max())
    return worst


def pixels_differ(model, path, size):
    """As logits_differ, of pictures as they are decoded; of another size too where any will do."""
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    meta = session.get_modelmeta().custom_metadata_map
    mean, std = (torch.tensor(json.loads(meta[key])).double() for key in ("mean", "std"))
    free, worst = isinstance(session.get_inputs()[0].shape[1], str), 0
    for side in [size, size + 19] if free else [size]:
        x = np.random.default_rng(2).integers(0, 256, (2, side, side, 3)).astype(np.uint8)
        with torch.no_grad():
            images = (torch.from_numpy(x).double() / 255 - mean) / std
            want = model.eval().double()(images.permute(0, 3, 1, 2)).numpy()
        worst = max(worst, np.abs(session.run(["logits"], {"images": x})[0] - want).max()
                    / np.abs(want).max())
    return worst, free


def save_again(state, scratch):
    """Files of the same weights: bare, and as training programs wrap them."""
    paths = [os.path.join(scratch, name)
             for name in ("torch.safetensors", "bare.pth", "ddp.pth", "old.pth", "averaged.ckpt")]
    wrapped = {"_orig_mod.module." + k: v for k, v in state.items()}
    zeros = {"model." + k: torch.zeros_like(v) for k, v in state.items()}
    save_file(state, paths[0])
    torch.save(state, paths[1])
    torch.save({"model": wrapped, "args": argparse.Namespace(lr=0.1)}, paths[2])
    torch.save(state, paths[3], _use_new_zipfile_serialization=False)
    torch.save({"state_dict": {"model." + k: v for k, v in state.items()},
                "current_model_state": zeros}, paths[4])
    return paths


def published(shown, name):
    """Errors of what inspect model shows of published weights, as a list of words. timm's package
    does not know what they reach."""
    ours = {line for line in shown.splitlines() if line.startswith("weights IMAGENET")}
    theirs, errors, halved = set(), [], (0.5, 0.5, 0.5)
    for line in shown.splitlines():
        tag = re.match(r"weights (\w+): .*, (\d+) pixels cut from (\d+), (\w+)(, data.mean.*)?; "
                       r"model.safetensors of timm/(.*)", line)
        if not tag:
            continue
        cfg = timm.get_pretrained_cfg(tag[6])
        size = (cfg.test_input_size or cfg.input_size)[-1]
        resize = int(size / (cfg.test_crop_pct or cfg.crop_pct) + 1e-9)
        if (cfg.tag, cfg.hf_hub_id, size, resize, cfg.interpolation, cfg.crop_mode,
                tuple(cfg.mean) == halved) != (tag[1], f"timm/{tag[6]}", int(tag[2]), int(tag[3]),
                                               tag[4], "center", tag[5] is not None):
            errors.append(f"published: {line}")
    if name not in torchvision.models.list_models():
        return errors
    for weights in torchvision.models.get_model_weights(name):
        how, top1 = weights.transforms(), weights.meta["_metrics"]["ImageNet-1K"]["acc@1"]
        halves = ", data.mean=[0.5, 0.5, 0.5] data.std=[0.5, 0.5, 0.5]"
        theirs.add(f"weights {weights.name}: {top1:.3f} % top-1, {how.crop_size[0]} pixels cut "
                   f"from {how.resize_size[0]}, {how.interpolation.value}"
                   + (halves if how.mean == [0.5] * 3 else "")
                   + "; " + weights.url.rsplit("/", 1)[1])
    return errors + ([] if ours == theirs else [f"published: {ours ^ theirs}"])


def make(name, source, size, classes):
    if source == "timm":
        name = TIMMS.get(name, name)
        return timm.create_model(name, num_classes=classes,
                                 **({"bn_eps": 1e-3} if name in TORCHVISION_EPS else {}),
                                 **({"img_size": size} if "patch" in name else {}))
    return torchvision.models.get_model(
        name, num_classes=classes, **({"image_size": size} if name.startswith("vit_") else {}))


def check(args, name, source, scratch):
    """Errors, as a list of words, of one network under one library's names."""
    shown = convoy(args.convoy, "inspect", "model", name)
    size = args.size or int(re.search(r"; (\d+) x", shown)[1])
    checkpoint = train(args.convoy, name, os.path.join(scratch, "first"), size,
                       {"train.max_steps": 2})
    exported, graph = (os.path.join(scratch, file) for file in ("out.safetensors", "out.onnx"))
    convoy(args.convoy, "export", checkpoint, exported, "--names", source)
    convoy(args.convoy, "export", checkpoint, graph)
    model = make(name, source, size, CLASSES)
    parameters = sum(p.numel() for p in make(name, source, size, 1000).parameters())
    ours, state = bits(load_file(checkpoint)), load_file(exported)
    errors = published(shown, name)
    sized = convoy(args.convoy, "inspect", "model", name, "--image-size", str(size))
    if int(re.search(r"^parameters (\d+)", sized, re.M)[1]) != parameters:
        errors.append("another number of parameters")
    model.load_state_dict(state, strict=True)
    if bits(state) - ours:
        errors.append("tensors differ from the checkpoint's")
    saved = save_again({k: v.contiguous() for k, v in model.state_dict().items()}, scratch)
    worst = [(predictions_differ(args.convoy, model, checkpoint, scratch, size), OF_CONVOY),
             (logits_differ(model, graph, size), OF_ONNX)]
    convoy(args.convoy, "export", checkpoint, graph, "--with-input")
    of_pixels, free = pixels_differ(model, graph, size)
    worst.append((of_pixels, OF_PIXELS))
    errors += [f"logits differ by {got:.1e}" for got, limit in worst if not got <= limit]
    frozen = {"train.max_steps": 1, "optimizer.lr": 0, "optimizer.weight_decay": 0}
    if any(name.endswith("running_mean") for name in state):
        frozen["model.bn"] = "frozen"
    for path in saved:
        back = train(args.convoy, name, path + ".run", size, {"model.init": path, **frozen})
        if bits(state) - bits(load_file(back)):
            errors.append(f"tensors differ after the way back by {os.path.basename(path)}")
    print(f"| `{name}` | {source} | {size}{' and others' if free else ''} | {parameters:,} | "
          f"{bits(state).total()} | " + " | ".join(f"{got:.1e}" for got, _ in worst) + " |"
          + (" " + ", ".join(errors) if errors else ""), flush=True)
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=MODELS)
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--size", type=int)
    args = parser.parse_args()
    checked = failed = 0
    for name in args.models:
        sources = [source for source, known in (("torchvision", torchvision.models.list_models()),
                                                ("timm", timm.list_models()))
                   if (TIMMS.get(name, name) if source == "timm" else name) in known]
        if not sources:
            sys.exit(f"{name}: neither torchvision nor timm has it")
        for source in sources:
            with tempfile.TemporaryDirectory() as scratch:
                failed += bool(check(args, name, source, scratch))
                checked += 1
    print(f"{checked - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
