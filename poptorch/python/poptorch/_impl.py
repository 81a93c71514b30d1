"""Registries shared by the executor and the data accessor, and access to the hooks on wrapped modules."""

import abc

import torch

from . import _weight_sync
from ._logging import logger
from .errors import createPoptorchError


class ICustomArgParser(abc.ABC):
    """Teaches poptorch to find the tensors in a type of yours, and to build one from other tensors."""

    @abc.abstractmethod
    def yieldTensors(self, struct):
        """Yields every tensor of struct, always in the same order."""

    @abc.abstractmethod
    def reconstruct(self, original_structure, tensor_iterator):
        """Builds an object like original_structure from the next tensors of the iterator, in the same order."""


custom_arg_parsers = {}


def registerCustomArgParser(arg_type, parser):
    """Uses parser for arguments, results and data of this type; None removes an earlier one."""
    if parser is None:
        custom_arg_parsers.pop(arg_type, None)
    elif isinstance(parser, ICustomArgParser):
        custom_arg_parsers[arg_type] = parser
    else:
        raise createPoptorchError(
            f"[registerCustomArgParser] the parser of {arg_type.__name__} is a {type(parser).__name__}; "
            "expected an instance of a subclass of poptorch.ICustomArgParser."
        )


def custom_parser_for(value):
    """The parser of the exact type of value, else of the first registered base class; None if there is none."""
    if not custom_arg_parsers:
        return None
    parser = custom_arg_parsers.get(type(value))
    if parser is None:
        parser = next((p for arg_type, p in custom_arg_parsers.items() if isinstance(value, arg_type)), None)
    return parser


# RemovableHandle keeps a weak reference to the dictionary, which a plain dict does not allow.
class _Hooks(dict):
    pass


_pre_compile_hooks = _Hooks()
_post_compile_hooks = _Hooks()


def _register(hooks, hook):
    if not callable(hook):
        raise RuntimeError(f"A compile hook must be callable, not {hook!r}")
    handle = torch.utils.hooks.RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def registerPreCompileHook(hook):
    """Runs hook before each capture of a model; the handle returned removes it."""
    return _register(_pre_compile_hooks, hook)


def registerPostCompileHook(hook):
    """Runs hook after each capture of a model, also when it failed; the handle returned removes it."""
    return _register(_post_compile_hooks, hook)


class compile_hooks:
    """Context of a capture: runs the registered hooks around it."""

    def __enter__(self):
        for hook in list(_pre_compile_hooks.values()):
            hook()

    def __exit__(self, *exception):
        for hook in list(_post_compile_hooks.values()):
            hook()


def unwrapModelIfNecessary(model):
    """Takes the hooks that follow the weights off a wrapped module; rewrapModelIfNecessary puts them back."""
    _weight_sync.unwrap(model)


def rewrapModelIfNecessary(model):
    _weight_sync.rewrap(model)


_warned = set()


def warn_once(key, text, *args):
    """Warns once per process about a habit, not about each of its occurrences."""
    if key not in _warned:
        _warned.add(key)
        logger.warning(text, *args)
