"""Small modules, and hooks that programs hang on modules.

The text of this file is what reproduction scripts contain, one definition at a time: each stands on its own or names
others of this folder.
"""

import torch
import torch.nn.functional as F
from torch import nn

from .functions import StraightThrough


def halve_inputs(module, grad_input, grad_output):
    return tuple(None if gradient is None else 0.5 * gradient for gradient in grad_input)


def from_output(module, grad_input, grad_output):
    return tuple(None if gradient is None else gradient + 0.01 * grad_output[0].mean() for gradient in grad_input)


def watch(module, grad_input, grad_output):
    return None


def double_output(module, inputs, output):
    return 2 * output


def keep_output(module, inputs, output):
    module.kept = output


def shrink_input(module, inputs):
    return (0.5 * inputs[0],)


class RunningMean(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        before = self.mean.clone()
        with torch.no_grad():
            self.mean.mul_(0.9).add_(0.1 * x.reshape(-1, x.shape[-1]).mean(0))
            self.count += 1
        return x - before


class DetachedStatistics(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("largest", torch.ones(width))
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        self.largest.copy_(torch.maximum(0.5 * self.largest, rows.detach().abs().amax(0)))
        return x / (1 + self.largest.clone()) * self.gain


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, x):
        self.last = x.detach()
        return torch.tanh(x + self.last.mean())


class Clipped(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(0.5 * torch.randn(width, width))

    def forward(self, x):
        self.weight.data.clamp_(-0.4, 0.4)
        return F.linear(x, self.weight)


class UnitRows(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))

    def forward(self, x):
        with torch.no_grad():
            self.weight.div_(0.5 + self.weight.norm(dim=1, keepdim=True))
        return F.linear(x, self.weight)


class Quantised(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(0.5 * torch.randn(width, width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return F.linear(x, StraightThrough.apply(self.weight), self.bias)


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Parameter(torch.linspace(-1, 1, width))

    def forward(self, x):
        y = x * torch.sigmoid(self.gate)
        y[..., 0] += self.gate[-1]
        y[..., 1:].mul_(0.5)
        return y


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.scale = nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        y = self.inner(x)
        y = y * self.scale if y.shape == x.shape else y.sum() * self.scale
        return x + y


class Autoencoder(nn.Module):
    """The decoder's weight is a view of the encoder's."""

    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Linear(width, 2)
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return F.linear(torch.tanh(self.encoder(x)), self.encoder.weight.t(), self.shift)


class SmoothedTarget(nn.Module):
    """A slow copy of a weight, kept beside it without gradients."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(0.5 * torch.randn(width, width))
        self.register_buffer("slow", torch.zeros(width, width))

    @torch.no_grad()
    def follow(self):
        self.slow.lerp_(self.weight, 0.2)

    def forward(self, x):
        self.follow()
        return F.linear(x, self.weight) - 0.5 * F.linear(x.detach(), self.slow.clone())


class TwoHeads(nn.Module):
    """Only one of its results is used by most programs."""

    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width, bias=False)

    def forward(self, x):
        y, z = self.first(x), self.second(x)
        self.other = z
        return torch.where(y > 0, y, 0.2 * y.detach())


class ScaledInside(nn.Module):
    """Hangs a hook on an activation wherever there is a gradient."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.register_buffer("factor", torch.tensor(0.5))

    def forward(self, x):
        y = self.layer(x)
        if y.requires_grad:
            y.register_hook(lambda grad: grad * self.factor)
        if x.requires_grad:
            x.register_hook(lambda grad: grad.clamp(-0.1, 0.1))
        return torch.tanh(y)
