"""torch.autograd.Function inside a captured model: the ops of its forward are recorded and differentiated like others.

Torch runs such a forward with gradients switched off, because it brings its own backward. The engine derives the
backward pass itself, so while a model is captured forward is called directly, with gradients left as they are.
"""

import contextlib

import torch
import torch.utils.checkpoint


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
    if cls is torch.utils.checkpoint.CheckpointFunction:
        # Recomputation is the compiler's decision; the function is all that matters here.
        function, _, *function_args = args
        return function(*function_args)
    context = _Context()
    context.needs_input_grad = tuple(isinstance(a, torch.Tensor) and a.is_floating_point() for a in args)
    return cls.forward(context, *args)


@contextlib.contextmanager
def recorded():
    """While open, Function.apply records forward."""
    function = torch.autograd.Function
    own = function.__dict__.get("apply")  # inherited from torch's C++ base class unless somebody set it
    function.apply = classmethod(_apply)
    try:
        yield
    finally:
        if own is None:
            del function.apply
        else:
            function.apply = own
