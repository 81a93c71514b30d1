"""Counts the work of a model as eager PyTorch does it: multiplications and additions of products and convolutions."""
import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def product_flops(a, b):
    """Of a matrix product, or of a batch of them: (..., m, k) by (..., k, n)."""
    return 2.0 * a.numel() * (b.shape[-1] if b.dim() > 1 else 1)


def conv_flops(x_shape, weight, y_shape, is_transposed):
    """Every place of the output (of the input, if transposed) meets every weight."""
    places = x_shape if is_transposed else y_shape
    return 2.0 * places[0] * math.prod(places[2:]) * weight.numel()


class FlopCounter(TorchDispatchMode):
    """Adds up while it is active. Work that is neither product nor convolution moves bytes and is not counted."""

    def __init__(self):
        super().__init__()
        self.flops = 0.0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function._schema.name
        if name in ("aten::mm", "aten::bmm", "aten::mv", "aten::dot"):
            self.flops += product_flops(args[0], args[1])
        elif name in ("aten::addmm", "aten::baddbmm", "aten::addmv"):
            self.flops += product_flops(args[1], args[2])
        elif name in ("aten::convolution", "aten::_convolution", "aten::mkldnn_convolution"):
            is_transposed = name != "aten::mkldnn_convolution" and args[6]
            self.flops += conv_flops(args[0].shape, args[1], result.shape, is_transposed)
        elif name == "aten::convolution_backward":
            wanted = sum(args[10][:2])  # gradients of the input and of the weights
            self.flops += wanted * conv_flops(args[1].shape, args[2], args[0].shape, args[7])
        return result


def flops_of(run):
    with FlopCounter() as counter:
        run()
    return counter.flops


def bytes_of(value):
    """Of a tensor, or of all tensors in a list, a tuple or a module."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, torch.nn.Module):
        return bytes_of([*value.parameters(), *value.buffers()])
    return sum(map(bytes_of, value))
