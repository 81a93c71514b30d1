"""Data sets of images whose samples need not be made one by one: sets of torchvision that hold all their images in
memory, with transforms that give the same result every time. Batches of them are made in C++, with the bits that the
samples have; what C++ does not know is made by the transforms once, and remembered. Whatever is not known for certain
is not known.
"""

import copy
import sys

import numpy
import torch
from torch.utils.data._utils import collate

from . import poptorch_core
from ._known_data import KnownData, is_own, require, require_plain, unwrapped
from ._remembered_rows import RememberedRows

_VALUES = 256  # of a byte


class _Set:
    """How a set of torchvision holds its samples, which its __getitem__ makes images of."""

    def __init__(self, module, base, layout, labels, are_converted):
        self.module = f"torchvision.datasets.{module}"
        self.base = base  # the class whose __getitem__ it has
        self.layout = layout  # of an image
        self.labels = labels  # the attribute that holds them
        self.are_converted = are_converted  # by int()


_MNIST = _Set("mnist", "MNIST", "HW", "targets", True)
_CIFAR = _Set("cifar", "CIFAR10", "HWC", "targets", False)
_SETS = {
    "MNIST": _MNIST, "FashionMNIST": _MNIST, "KMNIST": _MNIST, "EMNIST": _MNIST,
    "CIFAR10": _CIFAR, "CIFAR100": _CIFAR,
    "USPS": _Set("usps", "USPS", "HW", "targets", True),
    "SEMEION": _Set("semeion", "SEMEION", "HW", "labels", True),
    "SVHN": _Set("svhn", "SVHN", "CHW", "labels", True),
    "STL10": _Set("stl10", "STL10", "CHW", "labels", True),
}
_TO_PIXELS_LAST = {"HW": lambda images: images.unsqueeze(3), "HWC": lambda images: images,
                   "CHW": lambda images: images.permute(0, 2, 3, 1)}

# Transforms that translate each element by itself, those that only move pixels or put in constants, and those whose
# results are remembered.
_TO_TENSOR = ("ToTensor", "PILToTensor")
_TRANSLATE = (*_TO_TENSOR, "ConvertImageDtype", "Normalize")
_MOVE = ("CenterCrop", "Pad")
_MIX = ("Resize", "Grayscale")


# -- the data set ---------------------------------------------------------------------------------------------------
def _description_of(dataset):
    name = type(dataset).__name__
    known = _SETS.get(name)
    module = sys.modules.get("torchvision.datasets")
    require(known is not None and type(dataset) is getattr(module, name, None),
            f"{type(dataset).__module__}.{type(dataset).__qualname__} is no set of torchvision that holds its images "
            "in memory")
    require(is_own(type(dataset).__getitem__, known.module, f"{known.base}.__getitem__"),
            f"{name}.__getitem__ was replaced")
    require(not hasattr(dataset, "__getitems__"), f"the {name} has __getitems__")
    require(dataset.target_transform is None, "it has a target_transform")
    return known


def _shared(array):
    """The array as a tensor over the same memory."""
    if isinstance(array, numpy.ndarray):
        require(type(array) is numpy.ndarray and array.flags.writeable and all(stride >= 0 for stride in array.strides),
                "its data is not plain memory")
        return torch.from_numpy(array)
    require_plain(array)
    return array


def _images_of(dataset, known):
    """uint8, (N, height, width, channels)."""
    images = _shared(dataset.data)
    require(images.dtype == torch.uint8 and images.dim() == 1 + len(known.layout), "its images are not made of bytes")
    images = _TO_PIXELS_LAST[known.layout](images)
    require(images.shape[3] in (1, 3) and images.numel() > 0, "its images are neither grey nor RGB")
    return images


class _Labels:
    """What a default collation makes of the labels of some samples."""

    def __init__(self, dataset, known, copies):
        self._labels = getattr(dataset, known.labels)
        self._convert = int if known.are_converted else lambda label: label
        require(isinstance(self._labels, (list, numpy.ndarray, torch.Tensor)), "its labels are no list")
        self._row = None
        if known.are_converted and not isinstance(self._labels, list):
            row = _shared(self._labels)
            require(row.dim() == 1 and not row.is_floating_point(), "its labels are no row of whole numbers")
            if row.dtype == torch.int64 or copies:
                self._row = row.to(torch.int64, copy=copies)
        elif copies:
            require(all(type(label) is int for label in self._labels), "its labels are no whole numbers")
            self._row = torch.tensor(self._labels)
            require(self._row.dtype == torch.int64, "it has no labels")

    def of(self, indices):
        if self._row is not None:
            return poptorch_core.picked_rows(self._row, indices)
        return collate.default_collate([self._convert(self._labels[index]) for index in indices])


# -- its transform --------------------------------------------------------------------------------------------------
def _steps_of(transform):
    """The names and objects of a chain of transforms."""
    require(transform is not None, "it has no transform")
    name = type(transform).__name__
    library = sys.modules.get("torchvision.transforms.transforms")
    is_known = type(transform) is getattr(library, name, None)
    if is_known and name == "Compose":
        return [step for inner in transform.transforms for step in _steps_of(inner)]
    require(is_known and name in _TRANSLATE + _MOVE + _MIX, f"nothing is known of the transform {name}")
    method = "__call__" if name in _TO_TENSOR else "forward"
    require(is_own(getattr(type(transform), method), library.__name__, f"{name}.{method}"), f"{name} was changed")
    if isinstance(transform, torch.nn.Module):
        changes = [transform._forward_pre_hooks, transform._forward_hooks, transform._backward_hooks]
        require(not any(changes) and "forward" not in vars(transform), f"{name} was changed")
    if name == "Normalize":
        require(all(torch.as_tensor(value).dim() <= 1 for value in (transform.mean, transform.std)),
                "Normalize has values for each pixel")
    return [(name, transform)]


def _parts_of(steps):
    """What must be remembered of a chain, and what C++ does afterwards. Bytes alone can be translated: if a tensor
    was made before, all is remembered."""
    names = [name for name, _ in steps]
    mixing = [position for position, name in enumerate(names) if name in _MIX]
    if not mixing:
        return [], steps
    end = mixing[-1] + 1
    return (steps, []) if any(name in _TO_TENSOR for name in names[:end]) else (steps[:end], steps[end:])


def _parameters_of(steps):
    """What tells a chain from others of the same transforms."""
    def plain(value):
        return value.tolist() if isinstance(value, (numpy.ndarray, torch.Tensor)) else value

    return [(name, {key: plain(value) for key, value in vars(step).items() if not key.startswith("_")})
            for name, step in steps]


def _watched_of(transform):
    """The objects that a chain consists of."""
    yield transform
    for key, value in getattr(transform, "__dict__", {}).items():
        if key[0] == "_":
            continue
        yield value
        if isinstance(value, list):
            for inner in value:
                yield from _watched_of(inner)


def _applied(steps, pixels):
    """What becomes of an image, (height, width, channels)."""
    from PIL import Image  # pylint: disable=import-outside-toplevel  # torchvision has it, we do not need it

    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    for _, step in steps:
        image = step(image)
    require(type(image) is torch.Tensor and image.dim() == 3 and not image.requires_grad,
            "the transform does not end with a tensor of an image")
    return image


def _filled(shape, value):
    return numpy.full(shape, value, numpy.uint8)


def _tables_of(steps, channels):
    """What becomes of each byte of each channel. Moves have no part in it."""
    side = int(_VALUES**0.5)
    ramp = numpy.arange(_VALUES, dtype=numpy.uint8).reshape(side, side, 1).repeat(channels, 2)
    tables = _applied([step for step in steps if step[0] in _TRANSLATE], ramp)
    require(tables.shape == (channels, side, side), "the transform changes the channels")
    return tables.reshape(channels, _VALUES).contiguous()


def _places_of(steps, shape, tables):
    """Where each element of a result comes from, and the constants: found out with images whose bytes tell where they
    are, a digit at a time."""
    height, width, channels = shape
    darkest, brightest = (_applied(steps, _filled(shape, value)) for value in (0, _VALUES - 1))
    require(darkest.dtype == tables.dtype and darkest.shape[0] == channels, "the transform changes the channels")
    pixels = numpy.arange(height * width)
    if not any(name in _MOVE for name, _ in steps):
        require(darkest.shape == (channels, height, width), "the transform changes the size")
        return torch.from_numpy(pixels).reshape(1, height, width).repeat(channels, 1, 1), darkest
    places = torch.zeros(darkest.shape, dtype=torch.int64)
    for digit in range((max(len(pixels) - 1, 1).bit_length() + 7) // 8):
        code = (pixels >> 8 * digit).astype(numpy.uint8).reshape(height, width, 1).repeat(channels, 2)
        places += _bytes_behind(_applied(steps, code), tables) << 8 * digit
    is_constant = darkest == brightest
    require(bool((places[~is_constant] < len(pixels)).all()), "the transform moves pixels in a way of its own")
    return torch.where(is_constant, torch.tensor(-1), places), darkest


def _bytes_behind(results, tables):
    """The byte that a channel's table translates to each element; any one for those that it does not contain."""
    found = torch.zeros(results.shape, dtype=torch.int64)
    for channel, table in enumerate(tables):
        ordered, order = table.sort()
        require(bool((ordered[1:] != ordered[:-1]).all()), "the transform makes different bytes equal")
        at = torch.searchsorted(ordered, results[channel].contiguous()).clamp(max=_VALUES - 1)
        found[channel] = order[at]
    return found


def check_kind(dataset):
    """As far as its class and the names of its transforms tell."""
    base, _ = unwrapped(dataset)
    _description_of(base)
    _steps_of(base.transform)


# -- both -----------------------------------------------------------------------------------------------------------
def _copied(data):
    if isinstance(data, numpy.ndarray):
        return data.copy()
    return data if data.is_shared() else data.clone()  # shared memory is that of workers, too


class KnownImages(KnownData):
    def __init__(self, dataset, copies, limit, memory):
        base, _ = unwrapped(dataset)
        known = _description_of(base)
        super().__init__(dataset, copies, limit, ("data", known.labels, "transform", "target_transform"))
        steps = _steps_of(base.transform)
        self._images = images = _images_of(base, known)
        self._source = copy.copy(base)
        if copies:
            self._hold(images.numel(), "a copy of its images")
            self._source.data = _copied(base.data)
            self._images = images = _images_of(self._source, known)
        self._rows = self._batches = None
        remembered, made = _parts_of(steps)
        if remembered:
            self._remember(remembered, memory)
            images = self._rows.rows
        if made:
            tables = _tables_of(made, images.shape[3])
            places, constants = _places_of(made, images.shape[1:], tables)
            self._batches = poptorch_core.ImageBatches(images, tables, places, constants)
        self._labels = _Labels(base, known, copies)
        self._check_samples(len(images))
        self.description = self._describe(remembered, made)

    def _state(self):
        return [*super()._state(), *_watched_of(self._dataset.transform)]

    def _remember(self, steps, memory):
        self._source.transform = sys.modules["torchvision.transforms"].Compose([step for _, step in steps])
        row = self._row(0)
        self._hold(RememberedRows.size(self._images, row), "rows to remember")
        parameters = (torch.get_default_dtype(), _parameters_of(steps))
        if memory.rows is None or memory.parameters != parameters or not memory.rows.fits(self._images, row):
            memory.parameters, memory.rows = parameters, RememberedRows(self._images, row)
        self._rows = memory.rows

    def _row(self, index):
        """What is remembered of an image: (height, width, channels) of bytes, or the tensor of a whole chain."""
        result = self._source[index][0]
        if type(result) is torch.Tensor:
            return result
        require(result.mode in ("L", "RGB"), f"the transform makes images of mode {result.mode}")
        return torch.from_numpy(numpy.array(result)).reshape(result.height, result.width, -1)

    def _describe(self, remembered, made):
        text = f"{type(self._dataset).__name__} of {len(self._images)} images are made in C++"
        if made:
            text += f" by {', '.join(name for name, _ in made)}"
        return text + (f" of remembered results of {', '.join(name for name, _ in remembered)}" if remembered else "")

    def _samples(self, indices, room):
        if self._rows is not None and not self._rows.provide(self._images, indices, self._row):
            return None
        if self._batches is None:
            images = poptorch_core.picked_rows(self._rows.rows, indices)
        else:
            rows = None if room is None else room(0, (len(indices), *self._batches.row_shape), self._batches.dtype)
            images = self._batches.make(indices, rows)
        labels = None if images is None else self._labels.of(indices)
        return None if labels is None else [images, labels]
