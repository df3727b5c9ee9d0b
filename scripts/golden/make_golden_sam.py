#!/usr/bin/env python3
"""Golden file for tests/unit/trainer/engine/rules/test_sharpness.c: sharpness-aware minimisation
(Foret et al. 2021) over torch.optim.SGD, float64.

Run by hand in an environment with torch and torchvision, never by build or tests:

    python3 scripts/golden/make_golden_sam.py tests/golden

The network is a ResNet-20 of half its width; weights, images and labels are those of
make_golden.py.
"""
import sys

import torch
from torch import nn

from make_golden import CifarResNet, fill, images, labels, line

STEPS, BATCH, SIZE, CLASSES, RHO = 20, 8, 32, 10, 0.05


def quadratic(rates):
    """Weights after each step on p' A p / 2 + b' p."""
    a, b, p = (torch.tensor(v, dtype=torch.float64)
               for v in ([1, 4, 0.25], [0.1, -0.2, 0.3], [0.5, -1, 2]))
    p.requires_grad_()
    optimizer = torch.optim.SGD([p], lr=1, momentum=0.9)
    values = []
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        with torch.no_grad():
            g = a * p + b
            p.grad = a * (p + RHO * g / (g.norm() + 1e-12)) + b
        optimizer.step()
        values += p.tolist()
    return values


def gradients(model, x, y):
    model.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    return loss.item()


@torch.no_grad()
def move(model, rho):
    """Kept weights and statistics; weights go along the gradient."""
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    for p in model.parameters():
        p += rho * p.grad / (norm + 1e-12)
    return kept


def rate_of(step):
    return 0.001 * (1 - step / 40)


def train(dtype, rho, interval=1, first=0, memory_format=torch.contiguous_format):
    """Losses of the first passes, norms of the gradients that update, statistics at the end; the
    images in the order that begins with first."""
    torch.manual_seed(0)
    model = CifarResNet(20, CLASSES, (8, 16, 32)).to(dtype).train()
    fill(model)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x = images(BATCH, 3, SIZE, mean.float().double(), std.float().double()).to(dtype)
    y = labels(BATCH, CLASSES)
    order = torch.roll(torch.arange(BATCH), first)
    x, y = x[order].to(memory_format=memory_format), y[order]
    model = model.to(memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=1, momentum=0.9)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = rate_of(step)
        losses.append(gradients(model, x, y))
        if rho > 0 and step % interval == 0:
            kept = move(model, rho)
            gradients(model, x, y)
            model.load_state_dict(kept)
        norms.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())
        optimizer.step()
    last = model.layer3[2].bn2
    statistics = [torch.cat([bn.running_mean, bn.running_var]).tolist() for bn in (model.bn1, last)]
    return losses, norms, statistics


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    with open(f"{sys.argv[1]}/sam.txt", "w") as out:
        out.write(f"# torch {torch.__version__}\n")
        line(out, "shape", [BATCH, 3, SIZE, SIZE, CLASSES])
        line(out, "rates", [rate_of(step) for step in range(STEPS)])
        line(out, "quadratic", quadratic([0.1, 0.1, 0.1]))
        line(out, "quadratic.rates", quadratic([0.1, 0.2, 0.05]))
        for name, rho, interval in (("sam", RHO, 1), ("interval", RHO, 3), ("sgd", 0, 1)):
            losses, norms, statistics = train(torch.float64, rho, interval)
            line(out, f"{name}.losses", losses)
            line(out, f"{name}.norms", norms)
            line(out, f"{name}.bn1", statistics[0])
            line(out, f"{name}.layer3.2.bn2", statistics[1])
            singles = [train(torch.float32, rho, interval, first, memory_format)
                       for first in range(BATCH)
                       for memory_format in (torch.contiguous_format, torch.channels_last)]
            off = [max(abs(a / b - 1) for single in singles for a, b in zip(single[k], want))
                   for k, want in enumerate((losses, norms))]
            moved = max(abs(a - b) / (0.1 + abs(b)) for single in singles
                        for got, want in zip(single[2], statistics) for a, b in zip(got, want))
            print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}, float32 within {off[0]:.2g}, "
                  f"norms {off[1]:.2g}, statistics {moved:.2g}")


if __name__ == "__main__":
    main()
