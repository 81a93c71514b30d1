"""What torch itself does differently while a model is captured.

The ops of a model are recorded below Python. A few functions of torch look at things the recorder cannot change: whether
gradients are on inside torch.autograd.Function, the device of a parameter, the values print() shows. They are replaced
for the time of a capture.
"""

import contextlib

import torch
import torch.utils.checkpoint

from . import poptorch_core

_IPU = torch.device("ipu", 0)


class _Context:
    """Stands in for ctx: takes what forward saves, which nobody will read."""

    saved_tensors = ()
    needs_input_grad = ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors):
        pass

    def mark_dirty(self, *tensors):
        pass

    def mark_non_differentiable(self, *tensors):
        pass

    def set_materialize_grads(self, value):
        pass


def _apply(cls, *args):
    """Function.apply. Torch switches gradients off for forward, because a function brings its own backward; the engine
    differentiates the ops of forward like all others, so gradients stay as they are."""
    if cls is torch.utils.checkpoint.CheckpointFunction:
        # Recomputation is the compiler's decision; the function is all that matters here.
        function, _, *function_args = args
        return function(*function_args)
    context = _Context()
    context.needs_input_grad = tuple(isinstance(a, torch.Tensor) and a.is_floating_point() for a in args)
    return cls.forward(context, *args)


_own_device = torch._C._TensorBase.device
_own_to = torch._C._TensorBase.to
_own_repr = torch.Tensor.__repr__


def _device(tensor):
    """Parameters and buffers are CPU tensors that the recorder recognises; to the model they are on the device, so that
    x.to(self.weight.device) and zeros(3, device=self.weight.device) mean what they say."""
    return _IPU if poptorch_core.is_traced(tensor) else _own_device.__get__(tensor)


def _to(tensor, *args, **kwargs):
    other = args[0] if args else kwargs.get("other")
    if isinstance(other, torch.Tensor):
        kwargs = {key: value for key, value in kwargs.items() if key != "other"}
        args = (_device(other), other.dtype, *args[1:])
    return _own_to(tensor, *args, **kwargs)


def _repr(tensor, *, tensor_contents=None):
    if not poptorch_core.is_traced(tensor):
        return _own_repr(tensor, tensor_contents=tensor_contents)
    return f"tensor(<unavailable>, shape={tuple(tensor.shape)}, dtype={tensor.dtype}, device='{_IPU}')"


@contextlib.contextmanager
def _replaced(cls, name, value):
    own = cls.__dict__.get(name)  # None: inherited
    setattr(cls, name, value)
    try:
        yield
    finally:
        if own is None:
            delattr(cls, name)
        else:
            setattr(cls, name, own)


@contextlib.contextmanager
def recorded():
    """The time of a capture."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_replaced(torch.autograd.Function, "apply", classmethod(_apply)))
        stack.enter_context(_replaced(torch.Tensor, "device", property(_device)))
        stack.enter_context(_replaced(torch.Tensor, "to", _to))
        stack.enter_context(_replaced(torch.Tensor, "__repr__", _repr))
        yield
