"""A program being written. Every statement is executed in eager PyTorch as soon as it is added, so that the next one
can be chosen by looking at real tensors; one that fails, or makes values wild, is taken back."""

import re

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn

from . import library

LARGEST = 20.0  # values beyond make programs in which rounding grows


class Rejected(Exception):
    """The statement does not fit; try another one."""


def strict(text):
    """The statement with writes that autograd does not see made visible to it. A write through `.data` after a value
    was saved for the backward pass gives gradients that nobody means; eager PyTorch refuses the same through detach().
    """
    text = re.sub(r"\.data = (.*)", r".detach().copy_(\1)", text)
    return re.sub(r"\.data\b", ".detach()", text)


class Draft:
    def __init__(self, random, config):
        self.random = random
        self.config = config
        self.setup, self.forward = [], []
        self.hooked = {}  # variables with hooks -> how often they were written before
        self.count = 0
        self._restart()

    def _restart(self):
        torch.default_generator.manual_seed(1)
        self.names = {"torch": torch, "F": F, "nn": nn, **vars(library), "self": nn.Module()}
        for statement in self.setup:
            exec(statement, self.names)
        generator = torch.Generator().manual_seed(3)
        for index, (kind, shape) in enumerate(self.config["inputs"]):
            shape = (self.config["rows"], *shape)
            self.names[f"x{index}"] = (torch.randn(shape, generator=generator) if kind == "float"
                                       else torch.randint(0, int(kind), shape, generator=generator))
        for statement in self.forward:
            exec(strict(statement), self.names)

    @property
    def model(self):
        return self.names["self"]

    def add_setup(self, statement):
        """Into __init__; before the first statement of forward."""
        exec(statement, self.names)
        self.setup.append(statement)

    def add(self, statement, changes=False):
        """Into forward. `changes`: it writes into a tensor that existed before."""
        try:
            exec(strict(statement), self.names)
            self._check(changes)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
            self._restart()
            raise Rejected(f"{statement}: {error}") from error
        self.forward.append(statement)

    def _check(self, changes):
        tensors = [self.names[name] for name in self.variables()]
        if changes:
            tensors += [value.detach() for value in (*self.model.parameters(), *self.model.buffers())]
        for value in tensors:
            if value.is_floating_point() and not value.detach().abs().amax() <= LARGEST:  # also rejects NaN
                raise ValueError("values are wild")
        if changes:
            self._check_hooked()
            roots = [value for value in tensors if value.requires_grad]
            leaves = [value for value in self.model.parameters() if value.requires_grad]
            if roots and leaves:
                total = sum(value.sum() for value in roots)
                torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True)
            if any(value.requires_grad for value in self.model.buffers()):
                raise ValueError("a buffer became part of the gradient: the second step would fail")

    def _check_hooked(self):
        """Some ops of torch return a view of a tensor that nobody sees: linear of three axes with a bias. Writing it
        drops its hooks, which is not so where an op returns a tensor of its own."""
        for name, version in self.hooked.items():
            value = self.names[name]
            if value._is_view() and value._version != version:
                if not any(other is value._base for other in self.names.values()):
                    raise ValueError("a hidden view with hooks is written")

    def new_name(self, letter="v"):
        self.count += 1
        return f"{letter}{self.count}"

    def value(self, expression):
        """What an expression is now; it must not change anything."""
        return eval(expression, self.names)

    # Tensors by name.
    def variables(self):
        """Local tensors of forward, inputs included."""
        return [name for name, value in self.names.items() if isinstance(value, torch.Tensor) and name[0] in "kvx"]

    def floats(self):
        return [name for name in self.variables() if self.names[name].is_floating_point()]

    def parameters(self, trainable=True):
        return [f"self.{name}" for name, value in self.model.named_parameters()
                if (value.requires_grad or not trainable) and _plain(name)]

    def buffers(self):
        """Not batch norm's: eager PyTorch does not notice when they are written after being saved for backward."""
        return [f"self.{name}" for name, value in self.model.named_buffers() if value.is_floating_point()
                and _plain(name) and "running_" not in name]

    def modules(self, kind=nn.Module):
        return [name for name, value in self.model.named_children() if isinstance(value, kind)]

    # Choices.
    def pick(self, names):
        """One of the names, later ones more often: programs become deep rather than wide."""
        if not names:
            raise Rejected("nothing to choose from")
        return names[max(self.random.randrange(len(names)), self.random.randrange(len(names)))]

    def operand(self):
        """A float tensor to compute with: mostly a variable, sometimes a parameter or a buffer."""
        roll = self.random.random()
        if roll < 0.25 and self.parameters(False):
            return self.random.choice(self.parameters(False))
        if roll < 0.35 and self.buffers():
            return self.random.choice(self.buffers())
        return self.pick(self.floats())

    def small(self, name, largest=120):
        """The name, if its tensor is not so large that programs made of it become slow."""
        if self.value(name).numel() > largest:
            raise Rejected("large enough")
        return name

    def number(self, low=-1.0, high=1.0):
        return str(round(self.random.uniform(low, high), 2))

    def writable(self, expression):
        """The expression, if no two elements are one place in memory: eager PyTorch writes those in any order."""
        value = self.value(expression)
        places = torch.arange(value.storage().size()).as_strided(value.shape, value.stride())
        if places.unique().numel() != value.numel():
            raise Rejected("elements share memory")
        return expression

    def apart(self, source, target):
        """`source`, cloned where it shows other elements of the memory that `target` writes: eager PyTorch then reads
        some of them before and some after the write."""
        a, b = self.value(source), self.value(target)
        same = (a.shape, a.stride(), a.storage_offset()) == (b.shape, b.stride(), b.storage_offset())
        return source if same or a.storage().data_ptr() != b.storage().data_ptr() else f"{source}.clone()"

    def fitted(self, name, shape):
        """An expression made of tensor `name` that can be broadcast to `shape`."""
        value, shape = self.value(name), tuple(shape)
        try:
            if torch.broadcast_shapes(value.shape, shape) == torch.Size(shape):
                return name
        except RuntimeError:
            pass
        size = 1
        for length in shape:
            size *= length
        if value.numel() >= size and self.random.random() < 0.7:
            return f"{name}.reshape(-1)[:{size}].reshape({shape})" if shape else f"{name}.reshape(-1)[0]"
        if value.dim() and shape and value.shape[-1] >= shape[-1] and self.random.random() < 0.5:
            reduced = f"{name}.reshape(-1, {value.shape[-1]}).mean(0)"
            return reduced if value.shape[-1] == shape[-1] else f"{reduced}[:{shape[-1]}]"
        return f"{name}.mean()"


def _plain(name):
    """Names that can be written as they are; members of Sequential ("0.weight") cannot."""
    return not re.search(r"(^|\.)\d", name)
