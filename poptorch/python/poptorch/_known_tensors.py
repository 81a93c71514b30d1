"""torch.utils.data.TensorDataset: a batch consists of rows of its tensors."""

import torch

from . import poptorch_core
from ._known_data import KnownData, is_own, require, require_plain, unwrapped


def _tensors_of(dataset):
    require(is_own(type(dataset).__getitem__, "torch.utils.data.dataset", "TensorDataset.__getitem__"),
            "TensorDataset.__getitem__ was replaced")
    require(not hasattr(dataset, "__getitems__"), "the TensorDataset has __getitems__")
    tensors = dataset.tensors
    require(type(tensors) is tuple and len(tensors) > 0, "it has no tuple of tensors")
    for tensor in tensors:
        require_plain(tensor)
        require(tensor.dim() > 0 and len(tensor) == len(tensors[0]) > 0, "its tensors do not have the same rows")
    return tensors


def is_known_kind(dataset):
    return type(unwrapped(dataset)[0]) is torch.utils.data.TensorDataset


class KnownTensors(KnownData):
    def __init__(self, dataset, copies, limit, memory):
        del memory  # nothing is remembered
        super().__init__(dataset, copies, limit, ("tensors",))
        self._tensors = _tensors_of(self._dataset)
        if copies:
            # Tensors in shared memory are those of workers, too.
            self._hold(sum(tensor.numel() * tensor.element_size() for tensor in self._tensors), "a copy of its tensors")
            self._tensors = [tensor if tensor.is_shared() else tensor.clone() for tensor in self._tensors]
        self._check_samples(len(self._tensors[0]))
        self.description = f"TensorDataset of {len(self._tensors[0])} rows are put together in C++"

    def _samples(self, indices, room):
        parts = []
        for position, tensor in enumerate(self._tensors):
            rows = None if room is None else room(position, (len(indices), *tensor.shape[1:]), tensor.dtype)
            parts.append(poptorch_core.picked_rows(tensor, indices, rows))
        return None if any(part is None for part in parts) else parts
