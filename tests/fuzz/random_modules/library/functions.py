"""Functions with a backward of their own.

The text of this file is what reproduction scripts contain, one definition at a time: each stands on its own or names
others of this folder.
"""

import torch


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
