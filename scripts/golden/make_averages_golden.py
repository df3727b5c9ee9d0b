#!/usr/bin/env python3
"""Golden file of averaged weights for tests/unit/trainer/engine/plan/test_averaging.c, made by
timm's ModelEmaV3 and
Lookahead, torch's AveragedModel as torchvision's references use it, and airbench94's formula; all
in float64. Needs torch and timm.

    python3 scripts/golden/make_averages_golden.py > tests/golden/averages.txt

Weights move by a formula that the test has too. A line "name.weights" is "step w step w ...", w
what of the step's weights goes into the average; "name" is "step values step values ...". Steps
count from 1.
"""
import math

import timm
import torch
from timm.optim.lookahead import Lookahead
from timm.utils.model_ema import ModelEmaV3
from torch.optim.swa_utils import AveragedModel

torch.set_default_dtype(torch.float64)
SIZE = 5


def weight(i, step):
    """Of element i after update `step`."""
    return (i + 1) * math.cos(0.7 * i + 0.01 * step) / (1 + 0.05 * step) + 0.001 * step * (i - 2)


def gradient(i, step):
    return 0.3 * math.sin(1.3 * i + 0.9 * step) + 0.05 * (i - 1)


def rate(step):
    return 0.2 / (1 + 0.5 * (step - 1))


class Weights(torch.nn.Module):
    """A parameter and a buffer, of which both are averaged."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Parameter(torch.zeros(3))
        self.register_buffer("rest", torch.zeros(SIZE - 3))

    def move(self, step):
        values = torch.tensor([weight(i, step) for i in range(SIZE)])
        with torch.no_grad():
            self.first.copy_(values[:3])
            self.rest.copy_(values[3:])

    def values(self):
        return torch.cat([self.first.detach(), self.rest]).tolist()


def line(name, rows):
    print(name, " ".join("%d %s" % (step, " ".join("%.17g" % v for v in values))
                         for step, values in rows))


def timm_ema(name, decay, warmup, steps, shown):
    model = Weights()
    model.move(0)
    ema = ModelEmaV3(model, decay=decay, use_warmup=warmup)
    rows, weights = [], []
    for step in range(1, steps + 1):
        model.move(step)
        ema.update(model, step=step)
        if step in shown:
            rows.append((step, ema.module.values()))
            weights.append((step, [1 - ema.get_decay(step)]))
    line(name, rows)
    line(name + ".weights", weights)


def torchvision_ema(name, batch, images, epochs, every, decay, warmup, shown):
    """The loop of references/classification/train.py."""
    adjust = batch * every / epochs
    alpha = min(1.0, (1.0 - decay) * adjust)
    model = Weights()
    model.move(0)
    ema = AveragedModel(model, use_buffers=True,
                        avg_fn=lambda e, m, n: (1 - alpha) * e + alpha * m)
    rows, weights, step = [], [], 0
    for epoch in range(epochs):
        for i in range(math.ceil(images / batch)):
            step += 1
            model.move(step)
            w = -1
            if i % every == 0:
                w = 1 if int(ema.n_averaged) == 0 else alpha
                ema.update_parameters(model)
                if epoch < warmup:
                    ema.n_averaged.fill_(0)
            if step in shown:
                rows.append((step, ema.module.values()))
                weights.append((step, [w]))
    line(name, rows)
    line(name + ".weights", weights)


def timm_lookahead(name, alpha, k, steps):
    p = torch.nn.Parameter(torch.tensor([weight(i, 0) for i in range(SIZE)]))
    base = torch.optim.SGD([p], lr=1, momentum=0.9)
    optimizer = Lookahead(base, alpha=alpha, k=k)
    rows = []
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        p.grad = torch.tensor([gradient(i, step) for i in range(SIZE)])
        optimizer.step()
        rows.append((step, p.tolist()))
    line(name, rows)


def airbench_lookahead(name, k, steps):
    """Slow weights begin as the first ones; behind the last step they are taken as they are."""
    p = torch.tensor([weight(i, 0) for i in range(SIZE)])
    slow, momentum, rows = p.clone(), torch.zeros(SIZE), []
    for step in range(1, steps + 1):
        momentum = 0.9 * momentum + torch.tensor([gradient(i, step) for i in range(SIZE)])
        p = p - rate(step) * momentum
        decays = [0.95 ** k * (step / steps) ** 3] if step % k == 0 else []
        for decay in decays + ([1.0] if step == steps else []):
            slow = decay * slow + (1 - decay) * p
            p = slow.clone()
        rows.append((step, p.tolist()))
    line(name, rows)


print("torch", torch.__version__, "timm", timm.__version__)
LONG = {1, 2, 3, 10, 100, 1000, 3000}
timm_ema("timm", 0.99, False, 3000, LONG)
timm_ema("timm_warmup", 0.9998, True, 3000, LONG)
timm_ema("timm_low", 0.6, True, 10, set(range(1, 11)))
# 7 steps an epoch; what follows the warm-up copies once more
torchvision_ema("torchvision", 6, 42, 6, 3, 0.97, 2, set(range(1, 43)))
torchvision_ema("torchvision_every", 8, 40, 10, 1, 0.99, 0, set(range(1, 51)))
torchvision_ema("torchvision_all", 8, 40, 2, 4, 0.9, 0, set(range(1, 11)))
timm_lookahead("lookahead_timm", 0.5, 2, 12)
timm_lookahead("lookahead_timm_3", 0.8, 3, 12)
airbench_lookahead("lookahead_airbench", 5, 33)
airbench_lookahead("lookahead_airbench_even", 5, 30)
