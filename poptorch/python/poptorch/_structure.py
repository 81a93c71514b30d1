"""Nested values seen as a flat list of tensors: arguments and results of models.

build() describes a value once; the node it returns then takes tensors out of similar values (collect, which checks that
they are similar) and puts tensors back into place (rebuild).
"""

import copy

import torch

from . import _impl
from .errors import createPoptorchError


def _mismatch(path, text):
    return createPoptorchError(
        f'[model call] argument "{path}" {text}. A model is compiled for the arguments of its first call; '
        "call destroy() or wrap the model again to use others."
    )


class TensorNode:
    """A tensor. index: its place in the flat list."""

    def __init__(self, path, index):
        self.path = path
        self.index = index

    def collect(self, value, leaves):
        if not isinstance(value, torch.Tensor):
            raise _mismatch(self.path, f"was a tensor when the model was compiled and is a {type(value).__name__} now")
        leaves.append(value)

    def rebuild(self, tensors):
        return tensors[self.index]


class ConstantNode:
    """Anything that holds no tensor: part of the compiled model."""

    def __init__(self, path, value):
        self.path = path
        self.value = value

    def collect(self, value, leaves):
        if value is self.value:
            return
        if isinstance(value, torch.Tensor):
            raise _mismatch(self.path, f"was {self.value!r} when the model was compiled and is a tensor now")
        if type(value) is not type(self.value) or not _equal(value, self.value):
            raise _mismatch(self.path, f"was {self.value!r} when the model was compiled and is {value!r} now")

    def rebuild(self, tensors):
        return self.value


def _equal(a, b):
    try:
        same = a == b
        if hasattr(same, "all"):  # arrays compare element by element
            return a.shape == b.shape and bool(same.all())
        return bool(same) or (a != a and b != b)  # not a number stays not a number
    except Exception:  # pylint: disable=broad-except  # a type that cannot be compared is not equal
        return False


class SequenceNode:
    """A list, a tuple or a named tuple."""

    def __init__(self, path, kind, children):
        self.path = path
        self.kind = kind
        self.children = children

    def collect(self, value, leaves):
        if type(value) is not self.kind or len(value) != len(self.children):
            raise _mismatch(
                self.path,
                f"was a {self.kind.__name__} of {len(self.children)} when the model was compiled and is a "
                f"{type(value).__name__}{f' of {len(value)}' if hasattr(value, '__len__') else ''} now",
            )
        for child, item in zip(self.children, value):
            child.collect(item, leaves)

    def rebuild(self, tensors):
        items = [child.rebuild(tensors) for child in self.children]
        if self.kind is list:
            return items
        if hasattr(self.kind, "_fields"):
            return self.kind(*items)
        return self.kind(items)


class MappingNode:
    """A dict or a subclass of it; later values may have their keys in another order."""

    def __init__(self, path, template, children):
        self.path = path
        self.kind = type(template)
        self.children = children
        self.template = template  # a copy without tensors, for subclasses that are more than their items

    def collect(self, value, leaves):
        if type(value) is not self.kind or value.keys() != self.children.keys():
            now = f"keys {sorted(map(str, value))}" if isinstance(value, dict) else f"{type(value).__name__}"
            raise _mismatch(
                self.path,
                f"was a {self.kind.__name__} with keys {sorted(map(str, self.children))} when the model was compiled "
                f"and has {now} now",
            )
        for key, child in self.children.items():
            child.collect(value[key], leaves)

    def rebuild(self, tensors):
        result = {} if self.kind is dict else copy.copy(self.template)
        for key, child in self.children.items():
            result[key] = child.rebuild(tensors)
        return result


class CustomNode:
    """A type with a registered parser."""

    def __init__(self, path, value, first, count):
        self.path = path
        self.value = value
        self.first = first
        self.count = count

    def collect(self, value, leaves):
        parser = _impl.custom_parser_for(value)
        if parser is None or type(value) is not type(self.value):
            raise _mismatch(
                self.path,
                f"was a {type(self.value).__name__} when the model was compiled and is a {type(value).__name__} now",
            )
        tensors = list(parser.yieldTensors(value))
        if len(tensors) != self.count:
            raise _mismatch(
                self.path, f"had {self.count} tensors when the model was compiled and has {len(tensors)} now"
            )
        leaves.extend(tensors)

    def rebuild(self, tensors):
        parser = _impl.custom_parser_for(self.value)
        return parser.reconstruct(self.value, iter(tensors[self.first : self.first + self.count]))


def build(value, path, leaves, paths):
    """The node of a value; its tensors are appended to leaves, their names to paths."""
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        paths.append(path)
        return TensorNode(path, len(leaves) - 1)
    parser = _impl.custom_parser_for(value)
    if parser is not None:
        first = len(leaves)
        for tensor in parser.yieldTensors(value):
            paths.append(f"{path}.{len(leaves) - first}")
            leaves.append(tensor)
        return CustomNode(path, value, first, len(leaves) - first)
    if isinstance(value, (list, tuple)):
        children = [build(item, f"{path}[{i}]", leaves, paths) for i, item in enumerate(value)]
        return SequenceNode(path, type(value), children)
    if isinstance(value, dict):
        children = {key: build(item, f"{path}[{key!r}]", leaves, paths) for key, item in value.items()}
        template = None
        if type(value) is not dict:
            template = copy.copy(value)
            for key in children:
                template[key] = None
        return MappingNode(path, {} if template is None else template, children)
    _check_opaque(value, path)
    return ConstantNode(path, value)


def _check_opaque(value, path):
    """An object whose insides the engine does not know: tensors in it are neither inputs nor outputs."""
    parts = value if isinstance(value, (set, frozenset)) else getattr(value, "__dict__", {}).values()
    if isinstance(value, (type, torch.nn.Module)):
        return
    hidden = [part for part in parts if isinstance(part, torch.Tensor)]
    way_out = f"Use a tuple, list or dict, or register a parser for {type(value).__name__} with " \
              "poptorch.registerCustomArgParser"
    if any(tensor.device.type == "ipu" for tensor in hidden):
        raise createPoptorchError(
            f'[model call] "{path}" is a {type(value).__name__} with tensors in it, which cannot be returned from a '
            f"model: nothing would fill them in at each call. {way_out}."
        )
    if hidden:
        _impl.warn_once(
            f"opaque {path}",
            'Argument "%s" is a %s with tensors in it: they are constants of the model, fixed by the first call. %s',
            path, type(value).__name__, way_out,
        )
