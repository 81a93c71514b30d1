"""What data sets have in common whose samples need not be made one by one, because it is known what they are. Whatever
is not known for certain is not known."""

import operator
import sys

import torch
from torch.utils.data._utils import collate


class NotKnown(Exception):
    """The reason why samples must be made by the data set itself."""


def require(condition, reason):
    if not condition:
        raise NotKnown(reason)


def is_own(function, module, name):
    """Whether a method is the one its library defines."""
    code = getattr(function, "__code__", None)
    return (code is not None and function.__module__ == module and function.__qualname__ == name
            and code.co_filename == getattr(sys.modules[module], "__file__", None))


def unwrapped(dataset):
    """The set below those that choose from it, and the lists of what they choose, the outermost first."""
    chosen = []
    while type(dataset) is torch.utils.data.Subset:
        require(is_own(type(dataset).__getitem__, "torch.utils.data.dataset", "Subset.__getitem__"),
                "Subset.__getitem__ was replaced")
        require(not hasattr(dataset, "__getitems__"), "it has __getitems__")
        chosen.append(dataset.indices)
        dataset = dataset.dataset
    return dataset, chosen


def require_plain(tensor):
    require(type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.layout == torch.strided
            and not tensor.requires_grad and not tensor.is_conj() and not tensor.is_neg(),
            "its data is no plain tensor of the host")


class KnownData:
    """Makes batches of a known set: of a copy of its data, such as workers would have, or of the data as it is whenever
    a batch is made. What it holds of the set has at most `limit` bytes."""

    def __init__(self, dataset, copies, limit, attributes):
        self._dataset, self._chosen = unwrapped(dataset)
        self._copies = copies
        self._limit = limit
        self._held = 0
        self._attributes = attributes
        self._watched = self._state()
        if copies:
            self._chosen = [list(chosen) for chosen in self._chosen]

    def _hold(self, num_bytes, what):
        self._held += num_bytes
        require(self._held <= self._limit, f"with {what} it would hold {self._held} bytes, which is more than the "
                f"{self._limit} that ASPEN_LOADER_MEMORY allows")

    def _state(self):
        values = vars(self._dataset)
        return [type(self._dataset).__getitem__, torch.get_default_dtype(),
                *(values.get(name) for name in self._attributes)]

    def is_unchanged(self):
        """Whether the data set is still what it was, as far as that does not take long to see."""
        state = self._state()
        return len(state) == len(self._watched) and all(map(operator.is_, state, self._watched))

    def _check_samples(self, count):
        """Some samples of the set itself must have the bits of ours."""
        indices = sorted({0, count // 2, count - 1})
        expected = collate.default_collate([self._dataset[index] for index in indices])
        found = self._samples(indices, None)
        require(type(expected) is list and found is not None and len(expected) == len(found) and all(
            type(theirs) is torch.Tensor and theirs.dtype == ours.dtype and torch.equal(theirs, ours)
            for theirs, ours in zip(expected, found)), "its samples are not what its class tells")

    def batch(self, indices, room=None):
        """What a default collation makes of the samples; None if the set has not all of them. Part i of it is written
        to room(i, shape, dtype), if there is any."""
        for chosen in self._chosen:
            indices = [chosen[index] for index in indices]
        return self._samples(indices, room)
