"""Functions with a backward of their own and small modules: what generated programs may name.

The text of this file is what reproduction scripts contain, one definition at a time, so each stands on its own or
names others of this file.
"""

import torch
import torch.nn.functional as F
from torch import nn


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 4) / 4

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class ReverseGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.neg() * ctx.strength, None


class ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return ctx.factor * gradient, None


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 1.5 * x * gradient  # not what autograd would have made of forward


square = Square.apply


class ClampThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low, high=None):
        ctx.save_for_backward((x >= low) & (x <= high))
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx, gradient):
        (inside,) = ctx.saved_tensors
        return torch.where(inside, gradient, 0.1 * gradient), None, None


class SumAndDifference(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a + b, a - b

    @staticmethod
    def backward(ctx, sum_gradient, difference_gradient):
        a, b = ctx.saved_tensors
        return sum_gradient + 0.5 * difference_gradient, (sum_gradient - difference_gradient) * torch.cos(b)


class OwnLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight, bias)
        y = x.matmul(weight.t())
        return y if bias is None else y + bias

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias = ctx.saved_tensors
        x_gradient = weight_gradient = bias_gradient = None
        if ctx.needs_input_grad[0]:
            x_gradient = gradient.matmul(weight)
        if ctx.needs_input_grad[1]:
            rows = gradient.reshape(-1, gradient.shape[-1])
            weight_gradient = rows.t().matmul(x.reshape(-1, x.shape[-1]))
        if bias is not None and ctx.needs_input_grad[2]:
            bias_gradient = gradient.reshape(-1, gradient.shape[-1]).sum(0)
        return x_gradient, weight_gradient, bias_gradient


class ReluInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.clamp_(min=0)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * (y > 0) + 0.2 * gradient


class LargestWithPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, places = x.max(-1)
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        return values, places

    @staticmethod
    def backward(ctx, gradient, _):
        (places,) = ctx.saved_tensors
        result = torch.zeros(ctx.shape, dtype=gradient.dtype, device=gradient.device)
        return result.scatter(-1, places.unsqueeze(-1), gradient.unsqueeze(-1))


class MaybeUnused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.set_materialize_grads(False)
        ctx.factor = factor
        return x * factor, torch.sin(x)

    @staticmethod
    def backward(ctx, scaled_gradient, sine_gradient):
        if scaled_gradient is None and sine_gradient is None:
            return None, None
        if sine_gradient is None:
            return scaled_gradient * ctx.factor, None
        if scaled_gradient is None:
            return sine_gradient * 0.5, None
        return scaled_gradient * ctx.factor + sine_gradient, None


class FrozenSecond(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.b = b
        return a * b

    @staticmethod
    def backward(ctx, gradient):
        return (gradient * ctx.b).sum_to_size(ctx.b.shape), None


class Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, copies):
        ctx.copies = copies
        return torch.stack([x] * copies)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return gradient.mean(0), None


class ListOfParts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scale, *parts):
        ctx.scale = scale
        return tuple(part * scale for part in parts)

    @staticmethod
    def backward(ctx, *gradients):
        return (None, *(gradient * ctx.scale * (index + 1) for index, gradient in enumerate(gradients)))


class Nested(torch.autograd.Function):
    """Its backward names another function, and its forward differentiates nothing."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return ScaleGradient.apply(gradient, 2.0) * (1 - y * y)


class Passing(torch.autograd.Function):
    """Returns what it was given."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return 3 * gradient


class WithNumber(torch.autograd.Function):
    """Not all that it returns is a tensor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor, x.dim()

    @staticmethod
    def backward(ctx, gradient, _):
        return gradient * ctx.factor * 2, None


class Outer(torch.autograd.Function):
    """Another function in forward: its backward plays no part."""

    @staticmethod
    def forward(ctx, x):
        y = Square.apply(x)
        ctx.save_for_backward(x, y)
        return y.sin()

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * y.cos() * x


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
