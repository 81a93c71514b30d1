"""Iterators over loaders of known data: they give what torch's give, in the same order, without making sample by sample
and without starting workers."""

import collections
import concurrent.futures
import sys

import torch
from torch.utils.data import dataloader as torch_loader
from torch.utils.data._utils import collate

from . import _async_worker, _known_tensors, poptorch_core
from ._known_data import NotKnown
from ._logging import logger

_COLLATE_FUNCTIONS = dict(collate.default_collate_fn_map)


def _has_room(loader):
    """Whether it collates as usual, to slots that an asynchronous loader has."""
    return type(loader.collate_fn) is _async_worker.SlotCollation


def _check_settings(loader):
    """What a user has a say in must be as it is by default."""
    refusals = [
        (not loader._auto_collation or loader._dataset_kind != torch_loader._DatasetKind.Map, "it makes no batches"),
        (loader.collate_fn is not collate.default_collate and not _has_room(loader), "it has a collate_fn"),
        (collate.default_collate_fn_map != _COLLATE_FUNCTIONS, "the default collation was changed"),
        (loader.worker_init_fn is not None, "it has a worker_init_fn"),
        (loader.multiprocessing_context is not None, "it has a multiprocessing_context"),
        (loader.pin_memory and torch.cuda.is_available(), "it pins memory"),
        (torch.utils.data.get_worker_info() is not None, "it runs in a worker"),
    ]
    for applies, reason in refusals:
        if applies:
            raise NotKnown(reason)


class _Memory:
    """What a loader remembers from one epoch to the next: the rows that one chain of transforms makes."""

    def __init__(self):
        self.parameters = None
        self.rows = None


def _kind_of(dataset):
    """The class that knows such a set."""
    if _known_tensors.is_known_kind(dataset):
        return _known_tensors.KnownTensors
    if "torchvision.datasets" not in sys.modules:
        raise NotKnown("the data set is no TensorDataset and none of torchvision")
    from . import _known_images  # pylint: disable=import-outside-toplevel  # only if needed

    _known_images.check_kind(dataset)
    return _known_images.KnownImages


def _known_data(loader):
    """None if the samples must be made by the data set. The log tells the way, and the reason if it is the long one."""
    limit = poptorch_core.loader_memory()
    try:
        if limit == 0:
            raise NotKnown("ASPEN_LOADER_MEMORY is 0")
        _check_settings(loader)
        if loader._memory is None:
            loader._memory = _Memory()
        known = _kind_of(loader.dataset)(loader.dataset, loader.num_workers > 0, limit, loader._memory)
        way = f"batches of {known.description}, without workers"
    except NotKnown as reason:
        known, way = None, f"samples are made one by one: {reason}"
    except Exception as error:  # pylint: disable=broad-except  # the usual way tells the user, if it is an error there
        known, way = None, f"samples are made one by one: {type(error).__name__}, {error}"
    if way != loader._logged_way:
        loader._logged_way = way
        logger.debug("DataLoader: %s", way)
    return known


def may_be_known(dataset):
    """Whether a set is of a known kind. What a loader does with it, and whether it can, comes later."""
    try:
        return _kind_of(dataset) is not None
    except Exception:  # pylint: disable=broad-except  # whatever it is, it is not known
        return False


def iterator_of(loader):
    """An iterator for a loader of known data, None for others."""
    known = _known_data(loader)
    if known is None:
        if _has_room(loader) and loader.num_workers > 0:
            loader.collate_fn = collate.default_collate  # workers do not see which slot is open
        return None
    return _CopiedDataIter(loader, known) if loader.num_workers > 0 else _DataIter(loader, known)


class _KnownDataIter(torch_loader._BaseDataLoaderIter):
    def __init__(self, loader, known):
        super().__init__(loader)
        self._known = known
        self._room = loader.collate_fn.room if _has_room(loader) else None

    def __next__(self):
        # Torch's notes a name for its profiler, which takes as long as a small batch.
        return super().__next__() if torch.autograd._profiler_enabled() else self._next_data()

    def _batch(self, indices):
        """As the data set itself makes it where an index is not one of its rows."""
        item = self._known.batch(indices, self._room) if self._known is not None else None
        return item if item is not None else collate.default_collate([self._dataset[index] for index in indices])


class _DataIter(_KnownDataIter):
    """In place of a loader without workers: sees changes of the data set at once."""

    def __init__(self, loader, known):
        super().__init__(loader, known)
        self._loader = loader

    def _next_data(self):
        indices = self._next_index()
        if self._known is not None and not self._known.is_unchanged():
            self._known = _known_data(self._loader)
        return self._batch(indices)


class _CopiedDataIter(_KnownDataIter):
    """In place of a loader with workers, which have the data set as it was when they started. Indices are drawn as far
    ahead as for workers: a user may see how far a generator or a sampler is. Large items are made ahead, too, one at a
    time by another thread; for small ones that would take longer than making them."""

    _LARGE = 1 << 18  # elements

    def __init__(self, loader, known):
        loader.check_worker_number_rationality()
        super().__init__(loader, known)
        self._ahead = collections.deque()
        self._thread = None
        self._made = None  # the next item, in the making or ready
        self._draw_first()

    def _reset(self, loader, first_iter=False):
        super()._reset(loader, first_iter)
        self._draw_first()

    def _draw_first(self):
        self._made = None
        self._ahead.clear()
        for _ in range(self._prefetch_factor * self._num_workers):
            self._draw()

    def _draw(self):
        indices = next(self._sampler_iter, None)
        if indices is not None:
            self._ahead.append(indices)

    def _next_data(self):
        if not self._ahead:
            raise StopIteration
        indices, made = self._ahead.popleft(), self._made
        item = self._batch(indices) if made is None else made.result()
        self._draw()
        self._make_ahead(item)
        return item

    def _make_ahead(self, item):
        """Starts to make the next item, if items are like this one."""
        self._made = None
        if not self._ahead or self._room is not None or item[0].numel() < self._LARGE:
            return
        if self._thread is None:
            self._thread = concurrent.futures.ThreadPoolExecutor(1, "poptorch.DataLoader")
        self._made = self._thread.submit(self._batch, self._ahead[0])

    def _shutdown_workers(self):
        """There are no processes; programs call it nevertheless."""
