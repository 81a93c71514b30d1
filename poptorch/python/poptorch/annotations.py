"""Annotations of a model: blocks, name scopes, attributes. On the host they do nothing."""

import functools

import torch

from . import _capture_context, poptorch_core
from .enums import MultiConvPlanType
from .errors import createPoptorchError


def _start_block(user_id, ipu_id):
    context = _capture_context.current()
    if context is not None:
        torch.ops.poptorch.begin_ipu_block(*context.place(user_id, ipu_id))


class Block(torch.nn.Module):
    """A scope whose ops belong together; a strategy gives each block its stage and device."""

    def __init__(self, user_id=None, ipu_id=None):
        super().__init__()
        self._user_id = user_id
        self._ipu_id = ipu_id

    def __enter__(self):
        _start_block(self._user_id, self._ipu_id)
        return self

    def __exit__(self, *exception):
        if _capture_context.current() is not None:
            torch.ops.poptorch.end_ipu_block()

    @staticmethod
    def start(user_id=None, ipu_id=None):
        """Starts a block that lasts until the next one starts."""
        _start_block(user_id, ipu_id)

    @staticmethod
    def useAutoId():
        """At the top of forward: blocks without an id are named "0", "1", ... from here."""
        context = _capture_context.current()
        if context is not None:
            context.next_auto_id = 0


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
        _start_block(self.user_id, self.ipu_id)

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

    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, *args, **kwargs):
        return self._function(*args, **kwargs)


def BeginBlock(layer_to_call, user_id=None, ipu_id=None):
    """From this module on, everything that runs belongs to a new block. Returns the same module."""
    if not isinstance(layer_to_call, torch.nn.Module):
        if not callable(layer_to_call):
            raise createPoptorchError(
                f"[BeginBlock] expects a torch.nn.Module or a function, not {type(layer_to_call).__name__}."
            )
        layer_to_call = _CallableBlock(layer_to_call)
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


class NameScope:
    """Prefixes the names of the ops in its scope."""

    def __init__(self, name):
        if not isinstance(name, str):
            raise AssertionError(f"NameScope expects a str, not {type(name).__name__}")
        self.name = name

    def __enter__(self):
        if poptorch_core.is_capturing():
            poptorch_core.push_scope(self.name)
        return self

    def __exit__(self, *exception):
        if poptorch_core.is_capturing():
            poptorch_core.pop_scope()


class Attribute:
    """Gives the ops in its scope attributes: groups of strings, hints to the compiler that change no result."""

    active = {}

    def __init__(self, **attributes):
        for group, entries in attributes.items():
            if not isinstance(entries, dict):
                raise AssertionError(f"The attributes of {group} must be a dict, not {entries!r}")
            for key, value in entries.items():
                if not isinstance(key, str) or not isinstance(value, str):
                    raise AssertionError(f"Attributes are strings with string names, not {key!r}: {value!r}")
        self._attributes = attributes
        self._previous = None

    def __enter__(self):
        self._previous = Attribute.active
        Attribute.active = {**Attribute.active, **self._attributes}
        return self

    def __exit__(self, *exception):
        Attribute.active = self._previous


class MultiConv:
    """Groups independent convolutions: a hint for their planning; results are those of separate convolutions."""

    def __init__(self):
        self._settings = {}

    def _store(self, name, value, convert):
        if value is None:
            self._settings.pop(name, None)
        else:
            values = list(value) if isinstance(value, (list, tuple)) else [value]
            self._settings[name] = [convert(item) for item in values]
        return self

    def availableMemoryProportions(self, value):
        def convert(item):
            if not isinstance(item, float):
                raise AssertionError(f"A memory proportion must be a float, not {item!r}")
            return item

        return self._store("availableMemoryProportions", value, convert)

    def partialsTypes(self, value):
        def convert(item):
            if item not in (torch.float32, torch.float16):
                raise ValueError(f"A partials type must be torch.float or torch.half, not {item!r}")
            return item

        return self._store("partialsTypes", value, convert)

    def enableConvDithering(self, value):
        def convert(item):
            if not isinstance(item, bool):
                raise ValueError(f"enableConvDithering expects bools, not {item!r}")
            return item

        return self._store("enableConvDithering", value, convert)

    def planType(self, value):
        if value is not None and not isinstance(value, MultiConvPlanType):
            raise AssertionError(f"Expected a MultiConvPlanType, not {value!r}")
        return self._store("planType", value, MultiConvPlanType)

    def perConvReservedTiles(self, value):
        if not isinstance(value, int):
            raise AssertionError(f"perConvReservedTiles expects an int, not {value!r}")
        return self._store("perConvReservedTiles", value, int)

    def cycleBackOff(self, value):
        if not isinstance(value, float):
            raise AssertionError(f"cycleBackOff expects a float, not {value!r}")
        return self._store("cycleBackOff", value, float)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None


def module_repr(module):
    """repr(module), with the blocks that its modules start."""
    lines = module.extra_repr().split("\n") if module.extra_repr() else []
    extra = list(lines)
    children = []
    for name, child in module.named_children():
        text = module_repr(child).replace("\n", "\n  ")
        children.append(f"({name}): {text}")
    body = extra + children
    text = f"{module._get_name()}("
    if body:
        text += body[0] if len(extra) == 1 and not children else "\n  " + "\n  ".join(body) + "\n"
    text += ")"
    hook = block_hook(module)
    return text if hook is None else f"{hook!r} {text}"
