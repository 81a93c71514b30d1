"""What modules keep of a capture in their attributes is put back when it ends.

A module may keep tensors of its forward: a mask made once, a cache of positions, the last hidden state. While a model is
captured those tensors stand for values of its graph and mean nothing afterwards, so that the module has to make them anew
in the next capture, or with real values when it is called on the host.
"""

import collections
import types

import torch

from . import poptorch_core

_CONTAINERS = (list, dict, set, collections.deque)
_MISSING = object()
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))  # tables of hooks and the like, for the most part empty


def _has_own_attributes(value):
    """An object of a class of the user's: what it keeps is part of the module that holds it."""
    opaque = (type, types.ModuleType, types.FunctionType, types.MethodType, torch.Tensor, torch.nn.Module)
    return not isinstance(value, opaque) and isinstance(getattr(value, "__dict__", None), dict)


def _parts(value):
    """What to look at inside value."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        return list(value)
    return list(vars(value).values()) if _has_own_attributes(value) else []


def _is_kept(value, seen=None):
    """Whether value is, or holds, a tensor of a capture."""
    if isinstance(value, torch.Tensor):
        return poptorch_core.is_of_a_capture(value)
    seen = set() if seen is None else seen
    if id(value) in seen:
        return False
    seen.add(id(value))
    return any(_is_kept(part, seen) for part in _parts(value))


def _contents(value):
    return dict(value) if isinstance(value, dict) else list(value)


def _refill(container, contents):
    container.clear()
    (container.extend if isinstance(container, (list, collections.deque)) else container.update)(contents)


class ModuleAttributes:
    """Remembers the attributes of a module and all below it, and what the containers and objects among them hold."""

    def __init__(self, module):
        self._attributes = []  # (dictionary of attributes, copy of it)
        self._containers = []  # (container, copy of its contents)
        seen = set()
        for child in module.modules():
            self._remember_attributes(child, seen)

    def _remember_attributes(self, owner, seen):
        attributes = vars(owner)
        self._attributes.append((attributes, dict(attributes)))
        for name, value in attributes.items():
            # Torch's own dictionaries of parameters, buffers and sub-modules are checked elsewhere.
            is_torchs = isinstance(owner, torch.nn.Module) and name in _OF_EVERY_MODULE
            if not (is_torchs and (not value or name in ("_parameters", "_buffers", "_modules"))):
                self._remember(value, seen)

    def _remember(self, value, seen):
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, _CONTAINERS):
            self._containers.append((value, _contents(value)))
        elif _has_own_attributes(value):
            self._remember_attributes(value, seen)
            return
        for part in _parts(value):
            self._remember(part, seen)

    def restore(self):
        """Takes out what the capture has left, and nothing else: a counter goes on counting."""
        for container, contents in self._containers:
            if _is_kept(container):
                _refill(container, contents)
        for attributes, before in self._attributes:
            for name, value in list(attributes.items()):
                if value is before.get(name, _MISSING) or not _is_kept(value):
                    continue
                if name in before:
                    attributes[name] = before[name]
                else:
                    del attributes[name]
