"""Networks of golden files whose gradients do not turn on rounding; for make_golden.py.

A ReLU whose input is within rounding of zero passes its gradient in one order of sums and not in
another, and so it is where other activations bend and where two values of a max pool's window are
nearly equal. Then the gradients of float32 differ by some percent, all of them right. So each bias
of a norm or gate in front of a bend moves by one of STEPS shifts, channel by channel: by that for
which the float64 run keeps its inputs farthest away. Images are those of several streams for which
the windows' largest values are farthest from the second. All elements still lie on both sides.
"""
import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

STEPS = 16  # a shift is (digit - STEPS / 2) / STEPS

aten = torch.ops.aten
BENDS = {aten.relu: (0.0,), aten.relu_: (0.0,), aten.hardtanh: (0.0, 6.0),
         aten.hardtanh_: (0.0, 6.0), aten.hardswish: (-3.0, 3.0), aten.hardswish_: (-3.0, 3.0),
         aten.hardsigmoid: (-3.0, 3.0), aten.hardsigmoid_: (-3.0, 3.0)}


def shifted(bias, digits):
    """As float32 has it."""
    moved = bias.double().cpu().numpy() + (np.asarray(digits) - STEPS // 2) / STEPS
    return torch.from_numpy(moved.astype(np.float32).astype(np.float64))


def distance(values, bends):
    return torch.stack([(values - bend).abs() for bend in bends]).amin(0)


def window_gaps(x, kernel, stride=(), padding=(0, 0)):
    """Of a max pool; zeros that a ReLU made pass no gradient, so that they may be equal."""
    high, low = padding[0], padding[-1]
    x = nn.functional.pad(x, (low, low, high, high), value=-np.inf)
    stride = stride or kernel
    windows = x.unfold(2, kernel[0], stride[0]).unfold(3, kernel[-1], stride[-1]).flatten(4)
    first, second = windows.topk(2, -1).values.unbind(-1)
    return torch.where((first == 0) & (second == 0), np.inf, first - second)


class Watch(TorchDispatchMode):
    """What comes to each bend and pool of a forward pass. sites: (name of the bias in front,
    inputs, function that says how far each is from the bend). settle: moves those biases, once, and
    goes on with what comes of it; shifts: the digits of each."""

    def __init__(self, model, settle=False):
        super().__init__()
        self.settle, self.sites, self.shifts = settle, [], {}
        self.names = {id(p): name for name, p in model.named_parameters()}
        self.bias = self.sigmoid_input = self.gated = self.gate = None
        self.hooks = []
        for m in model.modules():
            if isinstance(getattr(m, "bias", None), nn.Parameter):
                self.hooks.append(m.register_forward_hook(self.keep_bias))
            if type(m).__name__ == "SEModule":
                self.hooks.append(m.register_forward_pre_hook(self.before_gate))
                self.hooks.append(m.register_forward_hook(self.after_gate))

    def __exit__(self, *error):
        for hook in self.hooks:
            hook.remove()
        return super().__exit__(*error)

    def keep_bias(self, module, inputs, output):
        self.bias = module.bias

    def before_gate(self, module, inputs):
        """What a gate multiplies: where the shortcut is 0, its sign is that of the sum. Behind
        a ReLU it is one, and needs nothing."""
        if self.bias.numel() != inputs[0].shape[1] or (inputs[0] >= 0).all():
            return
        self.come_to(inputs[0], (0.0,))
        self.gated = inputs[0]

    def after_gate(self, module, inputs, output):
        if self.gated is not None:
            self.gate = (self.bias, self.gated.clone(), self.sigmoid_input)
            self.gated = None

    def change(self, x, digits):
        """What shifts by these digits add to x, the input of a bend."""
        by = (shifted(self.bias, digits) - self.bias).reshape(1, -1, *[1] * (x.dim() - 2))
        if self.gate is None or self.gate[0] is not self.bias:
            return by
        _, values, gate = self.gate
        return values * (torch.sigmoid(gate + by) - torch.sigmoid(gate))

    @torch.no_grad()
    def move(self, x, bends):
        channels = self.bias.numel()
        margins = torch.stack([
            distance(x + self.change(x, [digit] * channels), bends).transpose(0, 1).reshape(
                channels, -1).amin(1) for digit in range(STEPS)])
        digits = margins.argmax(0).tolist()
        x += self.change(x, digits)
        assert self.names[id(self.bias)] not in self.shifts
        self.shifts[self.names[id(self.bias)]] = digits
        self.bias.copy_(shifted(self.bias, digits))

    def come_to(self, x, bends):
        """Changes x in place, where that is to settle."""
        if self.settle:
            self.move(x, bends)
        self.sites.append((self.names[id(self.bias)], x.clone(), lambda v: distance(v, bends)))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        op = func.overloadpacket
        if op in BENDS:
            self.come_to(args[0], BENDS[op])
            self.gate = None
        elif op in (aten.sigmoid, aten.sigmoid_):
            self.sigmoid_input = args[0].clone()
        elif op == aten.max_pool2d_with_indices:
            self.sites.append(("max pool", args[0].clone(), lambda v: window_gaps(v, *args[1:])))
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def settle(model, x):
    """{name of a bias: its digits}; the model keeps its biases moved."""
    with Watch(model, settle=True) as watch:
        model(x)
    return watch.shifts


@torch.no_grad()
def pool_margin(model, x):
    """Least gap of a max pool's windows; infinite without one."""
    with Watch(model) as watch:
        model(x)
    return min((gaps(values).amin().item() for name, values, gaps in watch.sites
                if name == "max pool"), default=np.inf)


def least_margin(exact, single):
    """Of two runs' sites: how many times the largest error of float32's inputs of a bend float64's
    nearest keeps away from it, and where that is least."""
    worst = (np.inf, "")
    for (name, want, far), (_, got, _) in zip(exact, single):
        error = (want - got.double()).abs().amax().item()
        worst = min(worst, (far(want).amin().item() / max(error, 1e-30), name))
    return worst
