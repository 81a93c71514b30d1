"""Data sets of images whose samples need not be made one by one: sets of torchvision that hold all their images in
memory, with transforms that give the same result every time. Batches of them are made in C++, with the bits that the
samples have. Whatever is not known for certain is not known.
"""

import sys

import numpy
import torch
from torch.utils.data._utils import collate

from . import poptorch_core
from ._image_loading import NotKnown

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

# Transforms that translate each element by itself, and those that only move pixels or put in constants.
_TRANSLATE = ("ToTensor", "PILToTensor", "ConvertImageDtype", "Normalize")
_MOVE = ("CenterCrop", "Pad")


def _require(condition, reason):
    if not condition:
        raise NotKnown(reason)


def _is_own(function, module, name):
    """Whether a method is the one its library defines."""
    code = getattr(function, "__code__", None)
    return (code is not None and function.__module__ == module and function.__qualname__ == name
            and code.co_filename == getattr(sys.modules[module], "__file__", None))


# -- the data set ---------------------------------------------------------------------------------------------------
def _unwrapped(dataset):
    """The set below those that choose from it, and the lists of what they choose, the outermost first."""
    chosen = []
    while type(dataset) is torch.utils.data.Subset:
        _require(_is_own(type(dataset).__getitem__, "torch.utils.data.dataset", "Subset.__getitem__"),
                 "Subset.__getitem__ was replaced")
        _require(not hasattr(dataset, "__getitems__"), "it has __getitems__")
        chosen.append(dataset.indices)
        dataset = dataset.dataset
    return dataset, chosen


def _description_of(dataset):
    name = type(dataset).__name__
    known = _SETS.get(name)
    module = sys.modules.get("torchvision.datasets")
    _require(known is not None and type(dataset) is getattr(module, name, None),
             f"{type(dataset).__module__}.{type(dataset).__qualname__} is no set of torchvision that holds its images "
             "in memory")
    _require(_is_own(type(dataset).__getitem__, known.module, f"{known.base}.__getitem__"),
             f"{name}.__getitem__ was replaced")
    _require(not hasattr(dataset, "__getitems__"), f"the {name} has __getitems__")
    _require(dataset.target_transform is None, "it has a target_transform")
    return known


def _shared(array):
    """The array as a tensor over the same memory."""
    if isinstance(array, numpy.ndarray):
        _require(array.flags.writeable and all(stride >= 0 for stride in array.strides), "its data is not plain memory")
        return torch.from_numpy(array)
    _require(type(array) is torch.Tensor and array.device.type == "cpu" and array.layout == torch.strided,
             "its data is no tensor of the host")
    return array.detach()


def _images_of(dataset, known):
    """uint8, (N, height, width, channels)."""
    images = _shared(dataset.data)
    _require(images.dtype == torch.uint8 and images.dim() == 1 + len(known.layout), "its images are not made of bytes")
    images = _TO_PIXELS_LAST[known.layout](images)
    _require(images.shape[3] in (1, 3) and images.numel() > 0, "its images are neither grey nor RGB")
    return images


class _Labels:
    """What a default collation makes of the labels of some samples."""

    def __init__(self, dataset, known, copies):
        self._labels = getattr(dataset, known.labels)
        self._convert = int if known.are_converted else lambda label: label
        _require(isinstance(self._labels, (list, numpy.ndarray, torch.Tensor)), "its labels are no list")
        self._row = None
        if known.are_converted and not isinstance(self._labels, list):
            row = _shared(self._labels)
            _require(row.dim() == 1 and not row.is_floating_point(), "its labels are no row of whole numbers")
            if row.dtype == torch.int64 or copies:
                self._row = row.to(torch.int64, copy=copies)
        elif copies:
            _require(all(type(label) is int for label in self._labels), "its labels are no whole numbers")
            self._row = torch.tensor(self._labels)
            _require(self._row.dtype == torch.int64, "it has no labels")

    def of(self, indices):
        if self._row is not None:
            return poptorch_core.picked_numbers(self._row, indices)
        return collate.default_collate([self._convert(self._labels[index]) for index in indices])


# -- its transform --------------------------------------------------------------------------------------------------
def _steps_of(transform):
    """The names and objects of a chain of transforms."""
    _require(transform is not None, "it has no transform")
    name = type(transform).__name__
    library = sys.modules.get("torchvision.transforms.transforms")
    is_known = type(transform) is getattr(library, name, None)
    if is_known and name == "Compose":
        return [step for inner in transform.transforms for step in _steps_of(inner)]
    _require(is_known and name in _TRANSLATE + _MOVE, f"nothing is known of the transform {name}")
    method = "__call__" if name in ("ToTensor", "PILToTensor") else "forward"
    _require(_is_own(getattr(type(transform), method), library.__name__, f"{name}.{method}"), f"{name} was changed")
    if isinstance(transform, torch.nn.Module):
        changes = [transform._forward_pre_hooks, transform._forward_hooks, transform._backward_hooks]
        _require(not any(changes) and "forward" not in vars(transform), f"{name} was changed")
    if name == "Normalize":
        _require(all(torch.as_tensor(value).dim() <= 1 for value in (transform.mean, transform.std)),
                 "Normalize has values for each pixel")
    return [(name, transform)]


def _applied(steps, pixels):
    """What becomes of an image, (height, width, channels)."""
    from PIL import Image  # pylint: disable=import-outside-toplevel  # torchvision has it, we do not need it

    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    for _, step in steps:
        image = step(image)
    _require(type(image) is torch.Tensor and image.dim() == 3 and not image.requires_grad,
             "the transform does not end with a tensor of an image")
    return image


def _filled(shape, value):
    return numpy.full(shape, value, numpy.uint8)


def _tables_of(steps, channels):
    """What becomes of each byte of each channel. Moves have no part in it."""
    side = int(_VALUES**0.5)
    ramp = numpy.arange(_VALUES, dtype=numpy.uint8).reshape(side, side, 1).repeat(channels, 2)
    tables = _applied([step for step in steps if step[0] in _TRANSLATE], ramp)
    _require(tables.shape == (channels, side, side), "the transform changes the channels")
    return tables.reshape(channels, _VALUES).contiguous()


def _places_of(steps, shape, tables):
    """Where each element of a result comes from, and the constants: found out with images whose bytes tell where they
    are, a digit at a time."""
    height, width, channels = shape
    darkest, brightest = (_applied(steps, _filled(shape, value)) for value in (0, _VALUES - 1))
    _require(darkest.dtype == tables.dtype and darkest.shape[0] == channels, "the transform changes the channels")
    pixels = numpy.arange(height * width)
    if not any(name in _MOVE for name, _ in steps):
        _require(darkest.shape == (channels, height, width), "the transform changes the size")
        return torch.from_numpy(pixels).reshape(1, height, width).repeat(channels, 1, 1), darkest
    places = torch.zeros(darkest.shape, dtype=torch.int64)
    for digit in range((max(len(pixels) - 1, 1).bit_length() + 7) // 8):
        code = (pixels >> 8 * digit).astype(numpy.uint8).reshape(height, width, 1).repeat(channels, 2)
        places += _bytes_behind(_applied(steps, code), tables) << 8 * digit
    is_constant = darkest == brightest
    _require(bool((places[~is_constant] < len(pixels)).all()), "the transform moves pixels in a way of its own")
    return torch.where(is_constant, torch.tensor(-1), places), darkest


def _bytes_behind(results, tables):
    """The byte that a channel's table translates to each element; any one for those that it does not contain."""
    found = torch.zeros(results.shape, dtype=torch.int64)
    for channel, table in enumerate(tables):
        ordered, order = table.sort()
        _require(bool((ordered[1:] != ordered[:-1]).all()), "the transform makes different bytes equal")
        at = torch.searchsorted(ordered, results[channel].contiguous()).clamp(max=_VALUES - 1)
        found[channel] = order[at]
    return found


# -- both -----------------------------------------------------------------------------------------------------------
class KnownImages:
    """Makes batches of a known set: of a copy of its data, such as workers would have, if there is a limit to the bytes
    that this may take, or of the data as it is whenever a batch is made."""

    def __init__(self, dataset, limit):
        self._dataset, self._chosen = _unwrapped(dataset)
        known = _description_of(self._dataset)
        self._attributes = ("data", known.labels, "transform", "target_transform")
        steps = _steps_of(self._dataset.transform)
        images = _images_of(self._dataset, known)
        self._watched = self._state()
        if limit is not None:
            _require(images.numel() <= limit, f"a copy of its images takes {images.numel()} bytes, which is more than "
                     f"the {limit} that ASPEN_LOADER_MEMORY allows")
            images = images.clone()
            self._chosen = [list(chosen) for chosen in self._chosen]
        tables = _tables_of(steps, images.shape[3])
        places, constants = _places_of(steps, images.shape[1:], tables)
        self._images = poptorch_core.ImageBatches(images, tables, places, constants)
        self._labels = _Labels(self._dataset, known, limit is not None)
        self._check_samples(len(images))
        self.description = (f"{type(self._dataset).__name__} of {len(images)} images with "
                            f"{', '.join(name for name, _ in steps)}")

    def _state(self):
        values = vars(self._dataset)
        return [type(self._dataset).__getitem__, torch.get_default_dtype(),
                *(values.get(name) for name in self._attributes)]

    def is_unchanged(self):
        """Whether the data set is still what it was, as far as that does not take long to see."""
        return all(now is then for now, then in zip(self._state(), self._watched))

    def _check_samples(self, count):
        """Some samples of the set itself must have the bits of ours."""
        indices = sorted({0, count // 2, count - 1})
        expected = collate.default_collate([self._dataset[index] for index in indices])
        found = [self._images.make(indices), self._labels.of(indices)]
        _require(type(expected) is list and all(
            type(theirs) is torch.Tensor and theirs.dtype == ours.dtype and torch.equal(theirs, ours)
            for theirs, ours in zip(expected, found)), "its samples are not what its class and transform tell")

    def batch(self, indices):
        """What a default collation makes of the samples; None if the set has not all of them."""
        for chosen in self._chosen:
            indices = [chosen[index] for index in indices]
        images = self._images.make(indices)
        labels = None if images is None else self._labels.of(indices)
        return None if labels is None else [images, labels]
