"""trainingModel and inferenceModel: the two ways to wrap a module."""

import torch

from . import _weight_sync, optim, poptorch_core
from ._poplar_executor import PoplarExecutor
from .errors import createPoptorchError
from .options import Options


def _module_of(model, function):
    """The module to wrap: of an executor, its own."""
    if isinstance(model, PoplarExecutor):
        return model.model
    if not isinstance(model, torch.nn.Module):
        raise createPoptorchError(
            f"[{function}] model is a {type(model).__name__}; expected a torch.nn.Module. "
            "Put the function into the forward of a module."
        )
    return model


def trainingModel(model, options=None, optimizer=None):
    """A training step of the model, run by calling the result: it returns what forward returns, the loss included."""
    module = _module_of(model, "trainingModel")
    if _weight_sync.is_wrapped(module):
        raise RuntimeError(
            f"{type(module).__name__} is wrapped by a training executor already: call destroy() on that executor "
            "before wrapping the model again"
        )
    if optimizer is None:
        optimizer = optim.SGD(module.parameters(), lr=0.01)
    return PoplarExecutor(module, options, training=True, optimizer=optimizer)


def inferenceModel(model, options=None):
    """The model, run by calling the result; it shares the weights of a training executor around the same module."""
    executor_module = _module_of(model, "inferenceModel")
    if isinstance(options, Options):
        poptorch_core.check_inference(options._store, options._execution_strategy)
    return PoplarExecutor(executor_module, options, training=False)
