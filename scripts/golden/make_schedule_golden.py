#!/usr/bin/env python3
"""Golden file of learning rates for tests/unit/trainer/engine/plan/test_schedule_golden.c, from the
formulas that
published trainers use, in fractions; only the cosine is of floats.

    python3 scripts/golden/make_schedule_golden.py > tests/golden/schedules.txt

A line is "name step rate step rate ...". Steps count from 0, the first update.
"""
import math
from fractions import Fraction as F

IMAGES = 1281167

# Reference convergence points of MLPerf's ResNet-50 (mlcommons/logging, training_4.0.0):
# batch, rate, epochs of warm-up, decay steps
MLPERF = [(1632, "7.4", 2, 27476), (3264, "10.5", 2, 14523), (4096, "10", 5, 13137),
          (8192, "17", 5, 6095), (13056, "12.8", 9, 4710), (32768, "21.2", 16, 2267),
          (49152, "19.405", 24, 1846), (58880, "23.246", 29, 1785), (65536, "24.699", 31, 1133),
          (67840, "24.699", 31, 1133)]


def steps_of(epochs, batch):
    return epochs * math.ceil(IMAGES / batch)


def mlperf(step, base, warmup, decay, end=F(1, 10000)):
    """lars_util.PolynomialDecayWithWarmup of the TensorFlow 2 reference."""
    if step <= warmup:
        return base * step / warmup
    return (base - end) * (1 - F(min(step - warmup, decay), decay)) ** 2 + end


def tf_efficientnet(step, base=F(256, 1000), per_epoch=313):
    """utils.build_learning_rate: 0.97 every 2.4 epochs, 5 epochs of warm-up."""
    if step < 5 * per_epoch:
        return base * step / (5 * per_epoch)
    return base * F(97, 100) ** math.floor(step / (F(24, 10) * per_epoch))


def timm_cosine(step, base=5e-3, start=1e-4, end=1e-6, per_epoch=100):
    """CosineLRScheduler, 300 epochs of which 5 warm up, at the beginnings of epochs."""
    epoch = F(step, per_epoch)
    if epoch < 5:
        return start + (base - start) * float(epoch) / 5
    return end + 0.5 * (base - end) * (1 + math.cos(math.pi * float(epoch) / 300))


def timm_prefix(step, base=5e-3, start=1e-4, end=1e-6, per_epoch=100):
    """The same with warmup_prefix: 305 epochs, of which the first 5 are not the cosine's."""
    if step < 5 * per_epoch:
        return timm_cosine(step, base, start, end, per_epoch)
    epoch = F(step, per_epoch) - 5
    return end + 0.5 * (base - end) * (1 + math.cos(math.pi * float(epoch) / 300))


def triangle(step, start, peak, end, top, total):
    """FFCV's np.interp over epochs and airbench's triangle() over steps."""
    if step < top:
        return start + (peak - start) * F(step, top)
    return peak + (end - peak) * F(step - top, total - top)


def fairseq(step, base=F(6, 10000), warmup=24000, total=500000):
    """PolynomialDecayLRSchedule of power 1, whose step_update(0) comes before the first update."""
    if step <= warmup:
        return base * F(step, warmup)
    return base * (1 - F(step - warmup, total - warmup))


def line(name, rate, steps):
    print(name, *(f"{s} {float(rate(s)):.17g}" for s in steps))


print("# learning rates step by step; made by scripts/golden/make_schedule_golden.py")
for batch, base, epochs, decay in MLPERF:
    w = steps_of(epochs, batch)
    line(f"mlperf_{batch}", lambda s: mlperf(s, F(base), w, decay),
         (0, 1, w // 2, w, w + 1, w + decay // 2, w + decay))
W = steps_of(2, 3264)
line("mlperf_formula", lambda s: mlperf(s, F("10.5"), W, 37 * W // 2 - W + 1),
     (0, 1, 393, 786, 787, 7663, 14540))
line("tf_efficientnet", tf_efficientnet,
     [313 * e for e in (0, 1, 5, 6, 10, 100, 349)] + [3755, 3756])
line("timm_cosine", timm_cosine, [100 * e for e in (0, 1, 4, 5, 150, 299)])
line("timm_prefix", timm_prefix, [100 * e for e in (0, 1, 4, 5, 6, 155, 304)])
line("ffcv_16", lambda s: triangle(s, F("0.00017"), F("1.7"), 0, 2 * 312, 16 * 312),
     (0, 1, 312, 624, 625, 2808, 4991))
line("airbench94", lambda s: triangle(s, F("0.2"), 1, F("0.07"), 109, 476),
     (0, 1, 50, 109, 110, 300, 475))
line("fairseq", fairseq, (0, 1, 250, 499, 24000, 24001, 262000, 500000))
