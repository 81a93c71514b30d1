"""Blocks as parts of Python modules and functions. On the host they do nothing."""

import functools

import torch

from . import poptorch_core
from .errors import createPoptorchError


class Block(torch.nn.Module):
    """A scope whose ops belong together; a strategy gives each block its stage and device."""

    def __init__(self, user_id=None, ipu_id=None):
        super().__init__()
        self._user_id = user_id
        self._ipu_id = ipu_id

    def __enter__(self):
        poptorch_core.start_block(self._user_id, self._ipu_id)
        return self

    def __exit__(self, *exception):
        poptorch_core.end_block()

    @staticmethod
    def start(user_id=None, ipu_id=None):
        """Starts a block that lasts until the next one starts."""
        poptorch_core.start_block(user_id, ipu_id)

    @staticmethod
    def useAutoId():
        """At the top of forward: blocks without an id are named "0", "1", ... from here."""
        poptorch_core.use_auto_id()


class _BlockHook:
    """The forward pre-hook of BeginBlock; an object, so that annotated modules can be pickled."""

    def __init__(self, user_id, ipu_id):
        self.user_id = user_id
        self.ipu_id = ipu_id
        self.key = -1  # among the hooks of its module

    def __setstate__(self, state):
        # Another process numbers its hooks from 0 again: it must not give out the number of this one.
        self.__dict__.update(state)
        handle = torch.utils.hooks.RemovableHandle
        handle.next_id = max(handle.next_id, self.key + 1)

    def __call__(self, module, inputs):
        poptorch_core.start_block(self.user_id, self.ipu_id)

    def __repr__(self):
        return f"BeginBlock(user_id={self.user_id}, ipu_id={self.ipu_id})"


def block_hook(module):
    """The BeginBlock hook of a module, or None."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, _BlockHook):
            return hook
    return None


class _CallableBlock(torch.nn.Module):
    """Lets BeginBlock annotate a plain function."""

    def __init__(self, function, user_id, ipu_id):
        super().__init__()
        self._function = function
        self._user_id = user_id
        self._ipu_id = ipu_id

    def forward(self, *args, **kwargs):
        return self._function(*args, **kwargs)


def BeginBlock(layer_to_call, user_id=None, ipu_id=None):
    """From this module on, everything that runs belongs to a new block. Returns the same module."""
    if not isinstance(layer_to_call, torch.nn.Module):
        if not callable(layer_to_call):
            raise createPoptorchError(
                f"[BeginBlock] expects a torch.nn.Module or a function, not {type(layer_to_call).__name__}."
            )
        layer_to_call = _CallableBlock(layer_to_call, user_id, ipu_id)
    existing = block_hook(layer_to_call)
    if existing is not None:
        raise createPoptorchError(
            f"[BeginBlock] {type(layer_to_call).__name__} already starts a block: {existing!r}. "
            "A module starts at most one block; poptorch.removeBlocks takes annotations off again."
        )
    hook = _BlockHook(user_id, ipu_id)
    hook.key = layer_to_call.register_forward_pre_hook(hook).id
    return layer_to_call


def BlockFunction(user_id=None, ipu_id=None):
    """Decorator: the body of the function is a block."""

    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with Block(user_id, ipu_id):
                return function(*args, **kwargs)

        return wrapper

    return decorator


def removeBlocks(module):
    """Takes all BeginBlock annotations off a module and its children."""
    if not isinstance(module, torch.nn.Module):
        raise AssertionError(f"removeBlocks expects a torch.nn.Module, not {type(module).__name__}")
    for child in module.modules():
        for key in [k for k, hook in child._forward_pre_hooks.items() if isinstance(hook, _BlockHook)]:
            del child._forward_pre_hooks[key]


def module_repr(module):
    """repr(module), with the blocks that its modules start."""
    lines = module.extra_repr().split("\n") if module.extra_repr() else []
    children = [f"({name}): " + module_repr(child).replace("\n", "\n  ") for name, child in module.named_children()]
    body = lines + children
    if len(lines) == 1 and not children:
        text = f"{module._get_name()}({body[0]})"
    else:
        text = f"{module._get_name()}(" + ("\n  " + "\n  ".join(body) + "\n" if body else "") + ")"
    hook = block_hook(module)
    return text if hook is None else f"{hook!r} {text}"
