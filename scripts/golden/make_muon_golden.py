#!/usr/bin/env python3
"""Golden file for tests/unit/trainer/engine/rules/test_muon.c: timm's Muon in float64, its
iteration too, which timm has in bfloat16 otherwise. Made with torch 2.15.0 and timm 1.0.31.

Values come from make_golden.py's counter formula, which the C test computes too. Run by hand in an
environment with these, never by build or tests:

    python3 scripts/golden/make_muon_golden.py > tests/golden/muon.txt

tensors.CASE  SHAPES after four steps, with a learning rate that changes in each: of every tensor
              the first, the middle and the last value and the norm
taken         which of SHAPES timm has for Muon; the others are for AdamW or NAdamW
network.CASE  losses of 12 steps of a narrow ConvNeXt-T on one batch; network.CASE.float32: how far,
              relatively, the same steps of PyTorch in float32 are from them. (With batch norms they
              part at once: the iteration makes as much of a gradient's rounding as of the rest.)
"""
import copy
import functools
import sys

import torch
import timm
from timm.optim import create_optimizer_v2, muon
from torch import nn

import make_golden
from make_golden import images, labels, line, mix, narrow_convnext, rounded

# convolutions of 3x3, 1x1, 3x3 depthwise and in groups, linear layers, a position embedding; then
# too few rows, columns 128 and more than 128 times as many as rows, and a norm and a bias
SHAPES = ((16, 8, 3, 3), (64, 16, 1, 1), (8, 16, 1, 1), (16, 1, 3, 3), (16, 4, 3, 3), (10, 64),
          (300, 32), (1, 9, 8), (3, 40), (4, 512), (4, 513), (700, 30, 3, 3), (16,), (10,))
FACTORS = (1.0, 2.0, 0.5, 0.25)  # of the learning rate, step by step
STEPS = 12
# timm's name, learning rate, weight decay, and what differs from its defaults
CASES = {
    "muon": ("muon", .02, .1, {}),
    "muon_nesterov": ("nmuon", .02, .1, {"momentum": .95}),
    "muon_plain": ("muon", .02, 0.0, {"momentum": 0.0, "betas": (.8, .9), "eps": 1e-3}),
}
NETWORK = {"muon": ("muon", .002, .05, {}), "muon_nesterov": ("nmuon", .002, .05, {})}


def iterate_in(dtype):
    muon.zeropower_via_newtonschulz = functools.partial(ITERATION, dtype=dtype)


ITERATION = muon.zeropower_via_newtonschulz


def set_lr(optimizer, lr):
    for group in optimizer.param_groups:
        group["lr"] = lr


def values_of(stream, shape, scale):
    count = torch.Size(shape).numel()
    return torch.from_numpy(rounded((2 * mix(stream, count) - 1) * scale)).view(shape)


def tensors(out, name, case):
    """Tensor 5, of a linear layer, has no gradient in the first step."""
    kind, lr, decay, options = case
    model = nn.Module()
    for k, shape in enumerate(SHAPES):
        model.register_parameter(f"p{k}", nn.Parameter(values_of(8000 + k, shape, 1.0)))
    optimizer = create_optimizer_v2(model, kind, lr=lr, weight_decay=decay, **options)
    for t, factor in enumerate(FACTORS):
        set_lr(optimizer, lr * factor)
        for k, p in enumerate(model.parameters()):
            p.grad = values_of(9000 + 100 * t + k, p.shape, 0.0 if k == 5 and t == 0 else 0.25)
        optimizer.step()
    values = []
    for p in model.parameters():
        v = p.detach().flatten()
        values += [v[0].item(), v[len(v) // 2].item(), v[-1].item(), v.norm().item()]
    line(out, f"tensors.{name}", values)
    return [float(optimizer.state[p]["use_muon"]) for p in model.parameters()]


def train(model, x, y, kind, lr, decay, options):
    optimizer, losses = create_optimizer_v2(model, kind, lr=lr, weight_decay=decay, **options), []
    for t in range(STEPS):
        set_lr(optimizer, lr * (1 - t / 60) * (1.5 if t % 2 else 1.0))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def network(out):
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x, y = images(8, 3, 64, mean.double(), std.double()), labels(8, 10)
    for name, case in NETWORK.items():
        model = narrow_convnext(10, 0.125).double().train()
        make_golden.fill(model)
        # one value for each channel, which in timm's own network has one dimension
        scales = {n for n, _ in model.named_parameters() if n.endswith("layer_scale")}
        model.no_weight_decay = lambda scales=scales: scales
        single = copy.deepcopy(model).float()
        iterate_in(torch.float64)
        want = train(model, x, y, *case)
        iterate_in(torch.float32)
        near = train(single, x.float(), y, *case)
        line(out, f"network.{name}", want)
        line(out, f"network.{name}.float32", [abs(a / b - 1) for a, b in zip(near, want)])


def main():
    torch.use_deterministic_algorithms(True)
    sys.stdout.write(f"# torch {torch.__version__} timm {timm.__version__}\n")
    iterate_in(torch.float64)
    for name, case in CASES.items():
        taken = tensors(sys.stdout, name, case)
    line(sys.stdout, "taken", taken)
    network(sys.stdout)


if __name__ == "__main__":
    main()
