#!/usr/bin/env python3
"""Golden files for tests/unit/models/test_golden.c: logits,
loss and gradients of networks in PyTorch, float64.

Weights, images and labels come from a counter formula that the C test computes too, so only results
are stored, and of networks with gradients what golden_margins.py chose. Run by hand in an
environment with torch and torchvision, never by build or tests:

    python3 scripts/golden/make_golden.py tests/golden [NAME...]

Without names all files are written. Networks in TensorFlow's flavour come from timm, and those of
files timm_NAME, which have its names.

Each file is text: a line per record, "name value value ...",
with a manifest line of versions at the top.
"""
import hashlib
import sys

import numpy as np
import timm
import torch
import torchvision
from torch import nn

from golden_margins import Watch, least_margin, pool_margin, settle, shifted


def mix(stream, count):
    """uint32 per element: Murmur3's finaliser over stream * 2654435761 + index.
    In [0,1) after division by 2^32."""
    with np.errstate(over="ignore"):
        z = (np.arange(count, dtype=np.uint32) + np.uint32(stream * 2654435761 % 2**32))
        z ^= z >> np.uint32(16)
        z *= np.uint32(0x85EBCA6B)
        z ^= z >> np.uint32(13)
        z *= np.uint32(0xC2B2AE35)
        z ^= z >> np.uint32(16)
    return z.astype(np.float64) / 4294967296.0


def rounded(values):
    return values.astype(np.float32).astype(np.float64)


def stream_of(name):
    """FNV-1a of the tensor's name, 32 bits."""
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 % 2**32
    return h


# Factor of the norms' weights; halved for deep EfficientNets, whose residual sums would grow by a
# half with every block.
GAMMA = 1.0


@torch.no_grad()
def fill(model):
    """Parameters and buffers; the stream is a hash of the name, the range depends on what it is.
    model.shifts: digits of biases that are moved."""
    shifts = getattr(model, "shifts", {})
    for name, tensor in model.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        u = mix(stream_of(name), tensor.numel())
        if tensor.dim() == 4:
            v = (2 * u - 1) * np.sqrt(6.0 / (tensor.shape[1] * tensor.shape[2] * tensor.shape[3]))
        elif tensor.dim() == 2:
            v = (2 * u - 1) * np.sqrt(3.0 / tensor.shape[1])
        elif name.endswith("running_mean"):
            v = 0.2 * u - 0.1
        elif name.endswith("running_var"):
            v = 0.5 + u
        elif name.endswith("weight"):
            v = GAMMA * (0.5 + u)
        else:
            v = 0.2 * u - 0.1
        v = torch.from_numpy(rounded(v)).reshape(tensor.shape)
        tensor.copy_(shifted(v, shifts[name]) if name in shifts else v)


IMAGES = 1000003  # their stream


def images(batch, channels, size, mean, std, stream=IMAGES):
    """uint8 pixels N,H,W,C from the formula, normalised as the input op does, N,C,H,W."""
    u = mix(stream, batch * size * size * channels)
    pixels = torch.from_numpy(np.floor(u * 256).reshape(batch, size, size, channels))
    return ((pixels / 255.0 - mean) / std).permute(0, 3, 1, 2).contiguous()


def labels(batch, classes):
    return torch.tensor([(7 * i + 3) % classes for i in range(batch)])


class CifarBlock(nn.Module):
    """He et al. 2015, section 4.2, option A: the shortcut has no parameters;
    added channels are zero, at the end."""

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.stride, self.extra = stride, cout - cin

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        short = x if self.extra == 0 else nn.functional.pad(
            x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.extra))
        return torch.relu(y + short)


class CifarResNet(nn.Module):
    def __init__(self, depth, classes, widths=(16, 32, 64)):
        super().__init__()
        n = (depth - 2) // 6
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        cin = widths[0]
        for i, w in enumerate(widths):
            blocks = [CifarBlock(cin if b == 0 else w, w, 2 if i > 0 and b == 0 else 1)
                      for b in range(n)]
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
            cin = w
        self.fc = nn.Linear(cin, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


class AirbenchGroup(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(cout, eps=1e-12, momentum=0.4)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(cout, eps=1e-12, momentum=0.4)

    def forward(self, x):
        x = nn.functional.gelu(self.norm1(nn.functional.max_pool2d(self.conv1(x), 2)))
        return nn.functional.gelu(self.norm2(self.conv2(x)))


class Airbench(nn.Module):
    """Keller Jordan's airbench94. The first convolution's bias is the shift of a norm by fixed
    statistics."""

    def __init__(self, classes, widths):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2, bias=False)
        self.whiten_bias = nn.BatchNorm2d(24, eps=1e-12)
        for i, (cin, cout) in enumerate(zip((24,) + widths, widths)):
            setattr(self, f"layer{i + 1}", AirbenchGroup(cin, cout))
        self.fc = nn.Linear(widths[-1], classes, bias=False)

    def train(self, mode=True):
        super().train(mode)
        self.whiten_bias.eval()
        return self

    def forward(self, x):
        x = nn.functional.gelu(self.whiten_bias(self.whiten(x)))
        x = nn.functional.max_pool2d(self.layer3(self.layer2(self.layer1(x))), 3)
        return self.fc(x.flatten(1)) / 9


def narrow_resnet18(classes, width):
    model = torchvision.models.resnet18(num_classes=classes)
    w = [max(8, int(c * width / 8 + 0.5) * 8) for c in (64, 128, 256, 512)]
    model.conv1 = nn.Conv2d(3, w[0], 7, 2, 3, bias=False)
    model.bn1 = nn.BatchNorm2d(w[0])
    cin = w[0]
    for i, c in enumerate(w):
        blocks = []
        for b in range(2):
            stride = 2 if i > 0 and b == 0 else 1
            down = None
            if b == 0 and (stride != 1 or cin != c):
                down = nn.Sequential(nn.Conv2d(cin, c, 1, stride, bias=False), nn.BatchNorm2d(c))
            blocks.append(torchvision.models.resnet.BasicBlock(cin, c, stride, down))
            cin = c
        setattr(model, f"layer{i + 1}", nn.Sequential(*blocks))
    model.fc = nn.Linear(cin, classes)
    return model


def narrow_convnext(classes, width):
    """ConvNeXt-T without stochastic depth, its channels as convoy scales them."""
    widths = [max(8, int(c * width / 8 + 0.5) * 8) for c in (96, 192, 384, 768)]
    config = torchvision.models.convnext.CNBlockConfig
    stages = [config(c, w, n) for c, w, n in zip(widths, widths[1:] + [None], (3, 3, 9, 3))]
    return torchvision.models.ConvNeXt(stages, num_classes=classes)


def narrow_convnext_v2(classes):
    """timm's atto, without stochastic depth."""
    from timm.models.convnext import ConvNeXt
    widths = [max(8, int(c / 64 + 0.5) * 8) for c in (40, 80, 160, 320)]
    return ConvNeXt(num_classes=classes, depths=(2, 2, 6, 2), dims=widths, use_grn=True,
                    ls_init_value=None, conv_mlp=True)


def narrow_vit(classes):
    """ViT-B/16 of 64 pixels, its heads of 8 channels."""
    return torchvision.models.VisionTransformer(
        image_size=64, patch_size=16, num_layers=12, num_heads=12, hidden_dim=96, mlp_dim=384,
        num_classes=classes)


def blurred(model, max_pool):
    """FFCV's and Composer's blurs, in front of each convolution of at least 16 channels that has a
    stride; max_pool: Composer's of the max pool too. Hooks, so that names stay."""
    def blur(x, stride):
        k = torch.tensor([[1.0, 2, 1], [2, 4, 2], [1, 2, 1]], dtype=x.dtype) / 16
        return nn.functional.conv2d(x, k.expand(x.shape[1], 1, 3, 3), stride=stride, padding=1,
                                    groups=x.shape[1])
    for m in model.modules():
        if isinstance(m, nn.Conv2d) and m.stride[0] > 1 and m.in_channels >= 16:
            m.register_forward_pre_hook(lambda _, x: (blur(x[0], 1),))
    if max_pool:
        model.maxpool.stride = 1
        model.maxpool.register_forward_hook(lambda _, x, y: blur(y, 2))
    return model


def line(out, name, values, digits=17):
    out.write(name + " " + " ".join(f"{float(v):.{digits}g}" for v in values) + "\n")


PICKS, PICKS_LARGE = 48, 16  # elements of a gradient that are stored; of networks with many tensors


def positions(size, picks):
    return [(i * 7919 + 13) % size for i in range(picks)]


def sample(grad, stream, picks):
    """A gradient in a few numbers: norm, the projection on a direction from the formula,
    some elements."""
    g = grad.reshape(-1).numpy()
    direction = 2 * mix(stream, g.size) - 1
    return ([np.linalg.norm(g), float(np.dot(g, direction))]
            + g[positions(g.size, picks)].tolist())


def backward(model, dtype, x, y, mkldnn=True, jitter=0):
    """Loss, gradients, and what came to activations; jitter: moves each weight by up to a rounding,
    which stands for orders of sums that PyTorch does not have."""
    m = model.to(dtype).train()
    fill(m)
    generator = torch.Generator().manual_seed(jitter)
    for p in m.parameters() if jitter else ():
        p.data *= 1 + (2 * torch.rand(p.shape, generator=generator) - 1) * 2.0**-23
    m.zero_grad()
    with torch.backends.mkldnn.flags(enabled=mkldnn):
        with Watch(m) as watch:
            logits = m(x.to(dtype))
        loss = nn.functional.cross_entropy(logits, y)
        loss.backward()
    return loss.item(), {name: p.grad.double().contiguous().clone()
                         for name, p in m.named_parameters()}, watch.sites


def float32_runs(model, x, y):
    """float32 PyTorch in several orders of summation:
    an error taken from one run alone is a draw of luck."""
    yield backward(model, torch.float32, x, y)
    yield backward(model, torch.float32, x, y, mkldnn=False)
    for jitter in range(1, 11):
        yield backward(model, torch.float32, x, y, jitter=jitter)


MARGIN = 5  # at least so many times float32's error away from every bend


def relative(got, want, picks, total):
    """Root mean square error of all elements or of those that are stored, over the gradient's own;
    of a gradient that is 0, such as of a shift in front of a batch norm, its share of all."""
    got, want = got.reshape(-1), want.reshape(-1)
    if want.norm() < 1e-9 * total:
        return (got.norm() / total).item()
    off = (got - want).square()
    mean = max(off.mean(), off[torch.tensor(positions(want.numel(), picks))].mean())
    return (mean / want.square().mean()).sqrt().item()


def gradients(out, model, x, y):
    """float64 gradients, and how far float32 PyTorch is from them: relative L2 error, the worst of
    its runs."""
    loss64, grads64, sites = backward(model, torch.float64, x, y)
    total = torch.stack([g.norm() for g in grads64.values()]).norm().item()
    off, margin, errors = 0, (np.inf, ""), {}
    for loss, grads, single in float32_runs(model, x, y):
        off, margin = max(off, abs(loss - loss64)), min(margin, least_margin(sites, single))
        for name, want in grads64.items():
            # in_proj: of values large, of queries and keys small: few are a draw of luck
            picks = PICKS if len(grads64) < 100 or "in_proj" in name else PICKS_LARGE
            error = relative(grads[name], want, picks, total)
            errors[name] = (max(error, errors.get(name, (0, 0))[0]), picks)
    print(f"    float32 is off by {max(e for e, _ in errors.values()):.2g} at most; "
          f"least margin {margin[0]:.3g} times its error, at {margin[1]}")
    assert margin[0] >= MARGIN
    line(out, "loss", [loss64, off, total])
    for name, (error, picks) in errors.items():
        line(out, f"grad.{name}", [float(f"{error:.3g}")]
             + sample(grads64[name], stream_of(name) + 1, picks), 10)


STEPS = 5


def train(model, x, y, optimizer, clip=float("inf")):
    """Losses of a few steps from the formula's weights, the statistics of the first batch norm
    after the first step, and the gradients' norms."""
    model = model.double().train()
    fill(model)
    values, norms, running = [], [], None
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), clip).item())
        optimizer.step()
        values.append(loss.item())
        if running is None:
            running = torch.cat([model.bn1.running_mean, model.bn1.running_var]).tolist()
    return values, running, norms


def decayed(model, weight_decay):
    """Weight decay on weights only; a new list each time, since optimizers write into it."""
    return [{"params": [p for p in model.parameters() if p.dim() > 1],
             "weight_decay": weight_decay},
            {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0}]


def losses(out, model, x, y):
    """Small learning rates: with larger ones trajectories part at the first ReLU that rounding
    turns (seen between AVX2 and AVX-512). Large weight decay (on weights of dimension > 1),
    so that it shows beside them."""
    values, running, _ = train(model, x, y, torch.optim.SGD(decayed(model, 0.5), lr=0.003,
                                                            momentum=0.9, nesterov=True))
    line(out, "sgd.losses", values)
    line(out, "running.bn1", running)
    line(out, "adam.losses", train(model, x, y, torch.optim.Adam(model.parameters(), lr=1e-4))[0])
    line(out, "adamw.losses",
         train(model, x, y, torch.optim.AdamW(decayed(model, 10.0), lr=1e-4))[0])
    values, _, norms = train(
        model, x, y, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5), clip=0.5)
    line(out, "clip.losses", values)
    line(out, "clip.norms", norms)


def widest(model, batch, size, mean, std):
    """Stream of the images for which max pools choose most clearly."""
    def margin(stream):
        return pool_margin(model, images(batch, 3, size, mean, std, stream))
    return IMAGES if margin(IMAGES) == np.inf else max(range(IMAGES, IMAGES + 40), key=margin)


def write(folder, name, model, batch, size, classes, train, steps=False):
    mean, std = (torch.tensor(v).double() for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    script = hashlib.sha256(open(__file__, "rb").read()).hexdigest()[:16]
    model = model.double().train(train)
    fill(model)
    stream = widest(model, batch, size, mean, std) if train else IMAGES
    x = images(batch, 3, size, mean, std, stream)
    y = labels(batch, classes)
    model.shifts = settle(model, x) if train else {}
    fill(model)
    with open(f"{folder}/{name}.txt", "w") as out:
        library = torchvision if not name.startswith("timm_") else timm
        out.write(f"# torch {torch.__version__} {library.__name__} {library.__version__} "
                  f"script {script}\n")
        line(out, "shape", [batch, 3, size, size, classes])
        if train:
            line(out, "images", [stream])
        for bias, digits in model.shifts.items():
            line(out, f"shift.{bias}", digits)
        with torch.no_grad():
            line(out, "logits", model.eval()(x).reshape(-1))
        if train:
            gradients(out, model, x, y)
        if steps:
            losses(out, model, x, y)


def vision(name):
    return lambda classes: getattr(torchvision.models, name)(num_classes=classes)


def quiet(name):
    """An EfficientNet without dropout and stochastic depth."""
    return lambda classes: getattr(torchvision.models, name)(
        num_classes=classes, dropout=0.0, stochastic_depth_prob=0.0)


def narrow_efficientnet_v2_s(classes):
    """torchvision's has no factor of width; this is half of it, rounded to eights."""
    from torchvision.models.efficientnet import EfficientNet, FusedMBConvConfig, MBConvConfig
    stages = [(FusedMBConvConfig, 1, 1, 16, 2), (FusedMBConvConfig, 4, 2, 24, 4),
              (FusedMBConvConfig, 4, 2, 32, 4), (MBConvConfig, 4, 2, 64, 6),
              (MBConvConfig, 6, 1, 80, 9), (MBConvConfig, 6, 2, 128, 15)]
    settings, width = [], 16
    for config, expand, stride, channels, blocks in stages:
        settings.append(config(expand, 3, stride, width, channels, blocks))
        width = channels
    return EfficientNet(settings, dropout=0.0, stochastic_depth_prob=0.0, num_classes=classes,
                        last_channel=640,
                        norm_layer=lambda channels: nn.BatchNorm2d(channels, eps=1e-3))


def narrow_mobilenet_v2(classes):
    """A quarter of torchvision's, its last convolution too, which torchvision's factor leaves."""
    from torchvision.ops.misc import Conv2dNormActivation
    model = torchvision.models.MobileNetV2(classes, width_mult=0.25, dropout=0.0)
    model.features[18] = Conv2dNormActivation(80, 320, 1, activation_layer=nn.ReLU6)
    model.classifier[1] = nn.Linear(320, classes)
    return model


def narrow_resnet50d(classes):
    from timm.models.resnet import Bottleneck, ResNet
    return ResNet(Bottleneck, [3, 4, 6, 3], num_classes=classes, stem_width=8, stem_type="deep",
                  avg_down=True, channels=(16, 32, 64, 128))


def narrow_resnet50(classes, **block_args):
    """A quarter of timm's, whose names and strides are torchvision's; its first convolution too,
    which timm's ResNet has with 64 channels whatever the others are."""
    from timm.models.resnet import Bottleneck, ResNet
    model = ResNet(Bottleneck, [3, 4, 6, 3], num_classes=classes, channels=(16, 32, 64, 128),
                   block_args=block_args)
    model.conv1, model.bn1 = nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16)
    first = model.layer1[0]
    first.conv1 = nn.Conv2d(16, 16, 1, bias=False)
    first.downsample = nn.Sequential(nn.Conv2d(16, 64, 1, bias=False), nn.BatchNorm2d(64))
    return model


def narrow_resnetblur18(classes):
    from timm.layers import BlurPool2d
    from timm.models.resnet import BasicBlock, ResNet
    model = ResNet(BasicBlock, [2, 2, 2, 2], num_classes=classes, channels=(8, 16, 32, 64),
                   aa_layer=BlurPool2d)
    model.conv1, model.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
    model.maxpool[1] = BlurPool2d(8)
    model.layer1[0].conv1 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
    model.layer1[0].downsample = None
    return model


def undropped(name, **arguments):
    return lambda classes: getattr(torchvision.models, name)(num_classes=classes, **arguments)


def timm_model(name, **arguments):
    return lambda classes: timm.create_model(name, num_classes=classes, **arguments)


TIMM = ["convnext_tiny", "mobilenetv2_100", "mobilenetv3_large_100", "mobilenetv3_small_100",
        "regnetx_004_tv", "regnety_004", "efficientnet_b0", "resnet18",
        *(f"convnextv2_{size}" for size in ("atto", "nano", "tiny", "base"))]
TIMM_VITS = ([f"vit_{size}_patch16_224" for size in ("tiny", "small", "base", "large")]
             + ["vit_base_patch32_224", "vit_small_patch14_dinov2", "vit_base_patch14_dinov2"])


# name: network, batch, size, classes, gradients, losses. Logits are at the size that a network was
# published with, and once at an odd one: there "same" padding has another side to add to.
FILES = {
    "resnet18": (vision("resnet18"), 2, 224, 1000, False, False),
    "resnet50": (vision("resnet50"), 2, 224, 1000, False, False),
    "resnet18_narrow": (lambda classes: narrow_resnet18(classes, 0.125), 8, 32, 10, True, True),
    "resnet20": (lambda classes: CifarResNet(20, classes), 8, 32, 10, True, True),
    "resnet18_narrow_ffcv": (lambda classes: blurred(narrow_resnet18(classes, 0.125), False), 8, 32,
                             10, True, False),
    "resnet18_narrow_composer": (lambda classes: blurred(narrow_resnet18(classes, 0.125), True), 8,
                                 32, 10, True, False),
    "resnet18_narrow_timm": (narrow_resnetblur18, 8, 48, 10, True, False),
    "resnet50_timm": (lambda classes: timm_model("resnetblur50")(classes), 2, 97, 20, False, False),
    "airbench94_narrow": (lambda classes: Airbench(classes, (16, 64, 64)), 8, 32, 10, True, False),
    "resnet50_narrow": (narrow_resnet50, 8, 64, 10, True, False),
    "convnext_tiny_narrow": (lambda classes: narrow_convnext(classes, 0.125), 8, 64, 10, True,
                             False),
    "convnextv2_atto_narrow": (narrow_convnext_v2, 8, 64, 10, True, False),
    "vit_b_16_narrow": (narrow_vit, 8, 64, 10, True, False),
    **{name: (lambda classes, name=name: timm_model(name)(classes), 1, 224, 20, False, False)
       for name in ("deit_tiny_patch16_224", "deit_small_patch16_224")},
    "efficientnet_b0_64": (quiet("efficientnet_b0"), 8, 64, 10, True, False),
    "efficientnet_b0_97": (vision("efficientnet_b0"), 1, 97, 20, False, False),
    "tf_efficientnet_b0_97": (lambda classes: timm_model("tf_efficientnet_b0")(classes), 1, 97, 20,
                              False, False),
    "efficientnet_v2_s_narrow": (narrow_efficientnet_v2_s, 8, 64, 10, True, False),
    "mobilenet_v2_narrow": (narrow_mobilenet_v2, 8, 96, 10, True, False),
    "mobilenet_v3_small_96": (undropped("mobilenet_v3_small", dropout=0.0), 8, 96, 10, True, False),
    "regnet_y_400mf_64": (vision("regnet_y_400mf"), 8, 64, 10, True, False),
    "seresnet50": (lambda classes: timm_model("seresnet50")(classes), 1, 224, 20, False, False),
    "seresnet50_narrow": (lambda classes: narrow_resnet50(classes, attn_layer="se"), 8, 64, 10,
                          True, False),
    "resnet50d": (lambda classes: timm_model("resnet50d")(classes), 1, 224, 20, False, False),
    "resnet50d_narrow": (narrow_resnet50d, 8, 72, 10, True, False),
    **{f"efficientnet_v2_{s}": (vision(f"efficientnet_v2_{s}"), 1, size, 20, False, False)
       for s, size in (("s", 384), ("m", 480))},
    **{name: (vision(name), 1, 224, 20, False, False) for name in
       ["mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small"]
       + [f"regnet_{xy}_{size}" for xy in "xy"
          for size in ("400mf", "800mf", "1_6gf", "3_2gf", "8gf")]},
    **{name: (vision(name), 1, 224, 20, False, False) for name in
       ("resnet34", "resnet101", "resnet152", "resnext50_32x4d", "resnext101_32x8d",
        "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2", "convnext_tiny",
        "convnext_small", "convnext_base", "convnext_large", "vit_b_16", "vit_b_32", "vit_l_16")},
    **{f"timm_{name}": (timm_model(name), 1, 64, 20, False, False) for name in TIMM},
    **{f"timm_{name}": (timm_model(name, img_size=side), 1, side, 20, False, False)
       for name in TIMM_VITS for side in [70 if "patch14" in name else 64]},
    **{f"efficientnet_b{i}": (vision(f"efficientnet_b{i}"), 1, size, 20, False, False)
       for i, size in enumerate((224, 240, 288, 300, 380, 456, 528, 600))},
    **{f"tf_efficientnet_b{i}": (lambda classes, i=i: timm_model(f"tf_efficientnet_b{i}")(classes),
                                 1, size, 20, False, False)
       for i, size in enumerate((224, 240, 260, 300, 380, 456, 528, 600))},
}


def main():
    folder, names = sys.argv[1], sys.argv[2:] or list(FILES)
    torch.use_deterministic_algorithms(True)
    for name in names:
        global GAMMA
        deep = ("b2", "b3", "b4", "b5", "b6", "b7", "v2_s", "v2_m",
                "seresnet50", "regnety_004", "y_400mf", "y_800mf", "y_1_6gf", "y_3_2gf", "y_8gf")
        GAMMA = 0.5 if name.endswith(deep) else 1.0
        network, batch, size, classes, train, steps = FILES[name]
        write(folder, name, network(classes), batch, size, classes, train, steps)


if __name__ == "__main__":
    main()
