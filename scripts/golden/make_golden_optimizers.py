#!/usr/bin/env python3
"""Golden file for tests/unit/trainer/engine/rules/test_optimizer_rules.c: LARS, LAMB, RMSProp-TF
and Lion in float64, by
timm and by the equations of MLPerf's reference, with a learning rate that changes in every step.

Values come from make_golden.py's counter formula, which the C test computes too. Run by hand in an
environment with torch, torchvision and timm, never by build or tests:

    python3 scripts/golden/make_golden_optimizers.py > tests/golden/optimizers.txt

small.CASE    three and two values: all of them after each of three steps, with a trust coefficient
              of .001
long.lion     values and state of a tensor after 10, 20 and 30 steps
random.CASE   100 tensors of 1 to 20,000 values: of each the first and the last value and the norm
              after four steps
resnet20.CASE losses of 30 steps on one batch; resnet20.CASE.float32: how far, relatively, the same
              steps of PyTorch in float32 are from them
narrow.CASE   the same of a ResNet-20 with half of the channels
"""
import copy
import sys

import numpy as np
import timm
import torch
from timm.optim import Lamb, Lars, Lion, RMSpropTF
from torch import nn

import make_golden
from make_golden import CifarResNet, images, labels, line, mix, rounded

SMALL = ([0.5, -1.0, 2.0], [1.0, -0.25])
SMALL_GRADIENTS = (([0.1, -0.2, 0.3], [3.0, 4.0]), ([-0.05, 0.4, 0.2], [0.0, 0.5]),
                   ([0.3, 0.1, -0.6], [-1.0, 2.0]))
TENSORS, LONGEST, LONG = 100, 20000, 100
FACTORS = (1.0, 2.0, 0.5, 0.25)  # of the learning rate, step by step
STEPS = 30


class MlperfLars(torch.optim.Optimizer):
    """Learning rate and ratio inside the momentum; a group that is skipped has neither ratio nor
    decay."""

    def __init__(self, params, momentum, trust_coeff, eps=1e-7, nesterov=False):
        super().__init__(params, dict(lr=0, momentum=momentum, weight_decay=0,
                                      trust_coeff=trust_coeff, eps=eps, nesterov=nesterov))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            mu, decay = group["momentum"], group["weight_decay"]
            for p in group["params"]:
                ratio, d = 1.0, p.grad
                if decay != 0:
                    w, g = p.norm(), p.grad.norm()
                    d = p.grad + decay * p
                    if w > 0 and g > 0:
                        ratio = group["trust_coeff"] * w / (g + decay * w + group["eps"])
                step = group["lr"] * ratio * d
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.mul_(mu).sub_(step)
                p.add_(mu * m - step if group["nesterov"] else m)


def of(rule, **options):
    return lambda groups: rule(groups, **options)


# name: optimizer, its first learning rate, weight decay
CASES = {
    "lars": (of(Lars, momentum=.9, trust_coeff=.05), 1.0, .01),
    "lars_nesterov": (of(Lars, momentum=.9, trust_coeff=.05, nesterov=True), 1.0, .01),
    "lars_plain": (of(Lars, momentum=0, trust_coeff=.05), 1.0, .01),
    "lars_clip": (of(Lars, momentum=.9, trust_coeff=.001, trust_clip=True), .002, .01),
    "lars_always": (of(Lars, momentum=.9, trust_coeff=.05, always_adapt=True), 1.0, .01),
    "lars_mlperf": (of(MlperfLars, momentum=.9, trust_coeff=.05), 1.0, .01),
    "lars_mlperf_nesterov": (of(MlperfLars, momentum=.9, trust_coeff=.05, nesterov=True), 1., .01),
    "lamb": (of(Lamb, max_grad_norm=1.0, foreach=False), .01, .02),
    "lamb_free": (of(Lamb, max_grad_norm=None, foreach=False), .01, .02),
    "lamb_clip": (of(Lamb, max_grad_norm=None, trust_clip=True, foreach=False), .01, .02),
    "lamb_always": (of(Lamb, max_grad_norm=None, always_adapt=True, foreach=False), .01, .02),
    "rmsprop_tf": (of(RMSpropTF, alpha=.9, momentum=.9, eps=.001, foreach=False), .1, .01),
    "rmsprop_tf_plain": (of(RMSpropTF, alpha=.9, momentum=0, eps=.001, foreach=False), .1, .01),
    "lion": (of(Lion, foreach=False), .01, 1.0),
}
# Of the network: losses fall in 30 steps, and rounding does not part trajectories.
NETWORK = {
    "lars": (of(Lars, momentum=.9, trust_coeff=.05), .003, .01),
    "lars_mlperf": (of(MlperfLars, momentum=.9, trust_coeff=.05), .003, .01),
    "lamb": (of(Lamb, max_grad_norm=1.0, foreach=False), 3e-4, .02),
    "rmsprop_tf": (of(RMSpropTF, alpha=.9, momentum=.9, eps=.001, foreach=False), 5e-4, .01),
    "lion": (of(Lion, foreach=False), 5e-5, 1.0),
}


def groups(params, lr, decay, decays):
    yes = [p for i, p in enumerate(params) if decays(i, p)]
    no = [p for i, p in enumerate(params) if not decays(i, p)]
    both = [{"params": yes, "lr": lr, "weight_decay": decay}]
    return both + [{"params": no, "lr": lr, "weight_decay": 0.0}] if no else both


def set_lr(optimizer, lr):
    for group in optimizer.param_groups:
        group["lr"] = lr


def small(out):
    for name, (make, lr, decay) in CASES.items():
        params = [nn.Parameter(torch.tensor(v, dtype=torch.float64)) for v in SMALL]
        optimizer = make(groups(params, lr, decay, lambda i, p: True))
        values = []
        for group in optimizer.param_groups:
            group["trust_coeff"] = .001
        for factor, gradients in zip(FACTORS, SMALL_GRADIENTS):
            set_lr(optimizer, lr * factor)
            for p, g in zip(params, gradients):
                p.grad = torch.tensor(g, dtype=torch.float64)
            optimizer.step()
            values += torch.cat([p.detach() for p in params]).tolist()
        line(out, f"small.{name}", values)


def length(k):
    return 1 + int(mix(7000, TENSORS)[k] * LONGEST)


def values_of(stream, k, scale):
    return torch.from_numpy(rounded((2 * mix(stream, length(k)) - 1) * scale))


def random(out):
    """Tensor 50 begins with zeros, tensor 60 has no gradients; every fourth does not decay."""
    for name, (make, lr, decay) in CASES.items():
        params = [nn.Parameter(values_of(8000 + k, k, 0.0 if k == 50 else 1.0))
                  for k in range(TENSORS)]
        optimizer = make(groups(params, lr, decay, lambda i, p: i % 4 != 3))
        for t, factor in enumerate(FACTORS):
            set_lr(optimizer, lr * factor)
            for k, p in enumerate(params):
                p.grad = values_of(9000 + 100 * t + k, k, 0.0 if k == 60 else 0.25)
            optimizer.step()
        out.write(f"random.{name}")
        for p in params:
            v = p.detach()
            out.write(f" {v[0].item():.10g} {v[-1].item():.10g} {v.norm().item():.10g}")
        out.write("\n")


def long(out):
    """Steps of the same length in float32 too: no sign may hang on rounding, but where the gradient
    was 0 in all steps so far, as it is of the first two values."""
    make, lr, decay = CASES["lion"]
    p = nn.Parameter(torch.from_numpy(rounded(2 * mix(6000, LONG) - 1)))
    optimizer, values, least = make(groups([p], lr, decay, lambda i, p: True)), [], 1.0
    for t in range(STEPS):
        set_lr(optimizer, lr * FACTORS[t % len(FACTORS)])
        p.grad = torch.from_numpy(rounded((2 * mix(6001 + t, LONG) - 1) * 0.25))
        p.grad[:2] = 0
        before = optimizer.state[p].get("exp_avg", torch.zeros_like(p))[2:] * 0.9
        added = p.grad[2:] * 0.1
        least = min(least, ((before + added).abs() / (before.abs() + added.abs())).min().item())
        optimizer.step()
        if t % 10 == 9:
            values += torch.cat([p.detach(), optimizer.state[p]["exp_avg"]]).tolist()
    assert least > 1e-5, least
    line(out, "long.lion", values)


def train(model, x, y, make, lr, decay):
    optimizer = make(groups(list(model.parameters()), lr, decay, lambda i, p: p.dim() > 1))
    losses = []
    for t in range(STEPS):
        set_lr(optimizer, lr * (1 - t / 60) * (1.5 if t % 2 else 1.0))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def network(out, network_name, widths):
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x, y = images(8, 3, 32, mean.double(), std.double()), labels(8, 10)
    make_golden.GAMMA = 0.5
    for name, case in NETWORK.items():
        model = CifarResNet(20, 10, widths).double().train()
        make_golden.fill(model)
        single = copy.deepcopy(model).float()
        want, near = train(model, x, y, *case), train(single, x.float(), y, *case)
        line(out, f"{network_name}.{name}", want)
        line(out, f"{network_name}.{name}.float32", [abs(a / b - 1) for a, b in zip(near, want)])


def main():
    torch.use_deterministic_algorithms(True)
    sys.stdout.write(f"# torch {torch.__version__} timm {timm.__version__} "
                     f"numpy {np.__version__}\n")
    small(sys.stdout)
    random(sys.stdout)
    long(sys.stdout)
    network(sys.stdout, "narrow", (8, 16, 32))
    network(sys.stdout, "resnet20", (16, 32, 64))


if __name__ == "__main__":
    main()
