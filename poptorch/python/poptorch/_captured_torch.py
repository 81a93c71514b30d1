"""What torch itself does differently while a model is captured.

The ops of a model are recorded below Python. A few functions of torch look at things the recorder cannot change: the
device of a parameter, the values print() shows, the engine that runs backward passes. They are replaced for the time of
a capture, and behave as ever on all other threads.
"""

import contextlib
import functools
import math
import weakref

import torch
import torch.utils.checkpoint

from . import poptorch_core
from ._logging import logger
from .errors import createPoptorchError

_IPU = torch.device("ipu", 0)

_own_device = torch._C._TensorBase.device
_own_to = torch._C._TensorBase.to
_own_repr = torch.Tensor.__repr__


# What factory functions made during a capture without saying for which device, by id. No WeakSet: that compares its
# elements, and == of tensors has no truth.
_made = {}


def _note(tensor):
    key = id(tensor)
    _made[key] = weakref.ref(tensor, lambda _: _made.pop(key, None))


def _was_made(tensor):
    reference = _made.get(id(tensor))
    return reference is not None and reference() is tensor


def _device(tensor):
    """Parameters and buffers are CPU tensors that the recorder recognises; to the model they are on the device, so that
    x.to(self.weight.device) and zeros(3, device=self.weight.device) mean what they say. So are constants, which become
    part of the model when they meet it."""
    if poptorch_core.is_traced(tensor) or (poptorch_core.is_capturing() and _was_made(tensor)):
        return _IPU
    return _own_device.__get__(tensor)


def _factory(own, warned):
    """torch.zeros and the like: in a model, tensors are made on its device unless the call names another.

    warned: names of functions that the user was told of in this capture.
    """

    @functools.wraps(own)
    def make(*args, **kwargs):
        if not poptorch_core.is_capturing() or kwargs.get("device") is not None or kwargs.get("out") is not None:
            return own(*args, **kwargs)
        if own.__name__ in _RANDOM:
            made = own(*args, **{**kwargs, "device": _IPU})
        else:
            made = own(*args, **kwargs)
            if poptorch_core.is_traced(made):
                return made  # like another tensor, and where that is
            _note(made)
        if own.__name__ not in warned:
            warned.add(own.__name__)
            logger.warning("torch.%s in forward names no device: its tensor is made on that of the model", own.__name__)
        return made

    return make


_RANDOM = ("rand", "randint", "randn", "randperm")  # drawn anew in each run, by the device
_FACTORIES = ("arange", "empty", "full", "full_like", "linspace", "logspace", "normal", "ones", "range", "tensor", "zeros",
              "zeros_like", *_RANDOM)


def _to(tensor, *args, **kwargs):
    other = args[0] if args else kwargs.get("other")
    if poptorch_core.is_capturing() and isinstance(other, torch.Tensor):
        kwargs = {key: value for key, value in kwargs.items() if key != "other"}
        args = (_device(other), other.dtype, *args[1:])
    return _own_to(tensor, *args, **kwargs)


def _repr(tensor, *, tensor_contents=None):
    if not poptorch_core.is_traced(tensor):
        return _own_repr(tensor, tensor_contents=tensor_contents)
    return f"tensor(<unavailable>, shape={tuple(tensor.shape)}, dtype={tensor.dtype}, device='{_IPU}')"


def _checkpoint(own):
    """CheckpointFunction.apply. Recomputation is the compiler's decision; the function is all that matters here."""

    def apply(function, preserve_rng_state, *args):
        if not poptorch_core.is_capturing():
            return own(function, preserve_rng_state, *args)
        return function(*args)

    return staticmethod(apply)


def _refused(own):
    """torch.autograd.grad and backward: torch has no graph to go back through."""

    def differentiate(*args, **kwargs):
        if not poptorch_core.is_capturing():
            return own(*args, **kwargs)
        raise createPoptorchError(
            f"[{own.__name__}] gradients were asked for in the middle of the model. While a model is captured there is "
            "nothing to differentiate yet; a trainingModel computes the gradients of its loss after forward. Compute "
            "such a gradient in closed form, or in the backward of a torch.autograd.Function."
        )

    return differentiate


def _gaussian_nll_loss(own):
    """torch.nn.functional.gaussian_nll_loss asks in Python whether a variance is negative; here the loss is NaN then."""

    def loss(input, target, var, full=False, eps=1e-6, reduction="mean"):  # pylint: disable=redefined-builtin
        if not poptorch_core.is_capturing():
            return own(input, target, var, full=full, eps=eps, reduction=reduction)
        if var.size() != input.size():
            if input.size()[:-1] == var.size():
                var = torch.unsqueeze(var, -1)
            elif input.size()[:-1] != var.size()[:-1] or var.size(-1) != 1:
                raise ValueError("var is of incorrect size")
        if reduction not in ("none", "mean", "sum"):
            raise ValueError(reduction + " is not valid")
        used = var.detach().clamp(min=eps) + (var - var.detach())  # the bound does not stop the gradient
        used = torch.where(var < 0, torch.full_like(var, math.nan), used)
        value = 0.5 * (torch.log(used) + (input - target) ** 2 / used)
        if full:
            value = value + 0.5 * math.log(2 * math.pi)
        return value.mean() if reduction == "mean" else value.sum() if reduction == "sum" else value

    return loss


@contextlib.contextmanager
def _replaced(owner, name, value):
    own = owner.__dict__.get(name)  # None: inherited
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


@contextlib.contextmanager
def recorded():
    """The time of a capture."""
    checkpoint, functional = torch.utils.checkpoint.CheckpointFunction, torch.nn.functional
    warned = set()
    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (torch.Tensor, "device", property(_device)),
            (torch.Tensor, "to", _to),
            (torch.Tensor, "__repr__", _repr),
            (checkpoint, "apply", _checkpoint(checkpoint.apply)),
            (torch.autograd, "grad", _refused(torch.autograd.grad)),
            (torch.autograd, "backward", _refused(torch.autograd.backward)),
            (functional, "gaussian_nll_loss", _gaussian_nll_loss(functional.gaussian_nll_loss)),
            *((torch, name, _factory(getattr(torch, name), warned)) for name in _FACTORIES),
        ):
            stack.enter_context(_replaced(owner, name, value))
        yield
