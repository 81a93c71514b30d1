"""poptorch.DataLoader: torch's data loader, with items of the size one call of a model takes."""

import torch

from . import poptorch_core, profiling
from ._async_data_accessor import AsynchronousDataAccessor
from ._combined_batches import combined
from ._known_loading import iterator_of, may_be_known
from ._logging import logger
from .enums import DataLoaderMode
from .errors import createPoptorchError
from .options import Options

_CHANNEL = profiling.Channel("poptorch.DataLoader")
_END = object()


def _traced(items):
    """The same items; each wait for one is a trace point."""
    while True:
        with _CHANNEL.tracepoint("__next__"):
            item = next(items, _END)
        if item is _END:
            return
        yield item


class DataLoader(torch.utils.data.DataLoader):
    """batch_size is the size of a micro-batch. Each item has batch_size x device iterations x gradient accumulation x
    input groups rows, which is what a model wrapped with the same options expects."""

    def __init__(
        self,
        options,
        dataset,
        batch_size=1,
        shuffle=None,
        num_workers=0,
        drop_last=True,
        persistent_workers=None,
        auto_distributed_partitioning=True,
        mode=DataLoaderMode.Sync,
        async_options=None,
        rebatched_worker_size=None,
        batch_sampler=None,
        **kwargs,
    ):
        if not isinstance(options, Options):
            raise AssertionError(f"DataLoader expects poptorch.Options first, not {type(options).__name__}")
        options._freeze()
        self._accessor = None
        self._memory = None  # of known data, and what the log has told of it
        self._logged_way = None
        self._options = options
        factor, _ = poptorch_core.micro_batches(options._store, True)
        partition = auto_distributed_partitioning and options.Distributed.numProcesses > 1
        self._is_iterable = isinstance(dataset, torch.utils.data.IterableDataset)
        self._check_batch_sampler(batch_sampler, batch_size, shuffle, partition)
        if batch_sampler is not None:
            batch_size = getattr(batch_sampler, "batch_size", None)
        elif batch_size is None and partition:
            raise AssertionError("batch_size=None cannot be combined with automatic partitioning among processes")
        self._combined_batch_size = (
            None if batch_size is None else poptorch_core.combined_batch_size(batch_size, factor)
        )
        self._drop_last_item = drop_last
        self._batches_per_item = 1 if batch_sampler is None else factor

        if persistent_workers is None:
            persistent_workers = num_workers > 0
        mode = DataLoaderMode(mode)
        self._rebatched = False
        if batch_sampler is not None:
            kwargs["batch_sampler"] = batch_sampler
        else:
            resolved = poptorch_core.resolved_loader_mode(mode.value, drop_last, self._combined_batch_size or 1)
            mode = DataLoaderMode(resolved)
            piece_size = self._piece_size(dataset, mode, num_workers, rebatched_worker_size, kwargs.get("collate_fn"))
            self._rebatched = mode == DataLoaderMode.AsyncRebatched or piece_size != self._combined_batch_size
            if self._is_iterable:
                self._check_iterable(partition, num_workers, kwargs)
            elif partition:
                if kwargs.get("sampler") is not None:
                    raise AssertionError(
                        "A sampler of your own cannot be combined with automatic partitioning among processes; "
                        "give auto_distributed_partitioning=False"
                    )
                kwargs["sampler"] = self._share_sampler(dataset, shuffle, drop_last)
                shuffle = None
            kwargs["batch_size"] = piece_size
            if piece_size is not None:
                # When batches are put together again only the remainder of the whole data set is lost: torch would
                # drop what each worker has left.
                kwargs["drop_last"] = drop_last and not self._rebatched
            if shuffle is not None:
                kwargs["shuffle"] = shuffle
        super().__init__(dataset, num_workers=num_workers, persistent_workers=persistent_workers, **kwargs)
        self._warn_about_remainder(batch_sampler)
        if mode != DataLoaderMode.Sync:
            rebatched = {"rebatched_size": self._combined_batch_size} if self._rebatched else {}
            self._accessor = AsynchronousDataAccessor(self, **rebatched, **(async_options or {}))

    # -- checks ---------------------------------------------------------------------------------------------------
    @staticmethod
    def _check_batch_sampler(batch_sampler, batch_size, shuffle, partition):
        if batch_sampler is None:
            return
        if batch_size != 1 or shuffle:
            raise createPoptorchError(
                f"[DataLoader] batch_sampler cannot be combined with batch_size={batch_size} or shuffle={shuffle}: "
                "the sampler decides both."
            )
        if partition:
            raise createPoptorchError(
                "[DataLoader] batch_sampler cannot be combined with automatic partitioning among processes; "
                "give auto_distributed_partitioning=False and let the sampler choose the share of this process."
            )

    @staticmethod
    def _check_iterable(partition, num_workers, kwargs):
        if partition:
            raise AssertionError(
                "An iterable data set cannot be partitioned automatically among processes; give "
                "auto_distributed_partitioning=False and let the data set yield the share of this process"
            )
        if num_workers > 1 and kwargs.get("worker_init_fn") is None:
            logger.warning(
                "DataLoader: an iterable data set with num_workers=%d and no worker_init_fn yields every element %d "
                "times; give a worker_init_fn that divides the data among the workers",
                num_workers,
                num_workers,
            )

    def _piece_size(self, dataset, mode, num_workers, worker_size, collate_fn):
        """Elements that torch's loader fetches at a time. Only the usual collation can be cut, and where no workers are
        started there is nothing to gain."""
        if mode == DataLoaderMode.AsyncRebatched:
            if self._combined_batch_size is None:
                raise AssertionError("AsyncRebatched needs a batch_size")
            return poptorch_core.worker_batch_size(self._combined_batch_size, worker_size)
        if mode == DataLoaderMode.Sync or self._combined_batch_size is None or self._is_iterable:
            return self._combined_batch_size
        if collate_fn not in (None, torch.utils.data.default_collate) or may_be_known(dataset):
            return self._combined_batch_size
        return poptorch_core.piece_size(self._combined_batch_size, num_workers)

    def _share_sampler(self, dataset, shuffle, drop_last):
        distributed = self._options.Distributed
        seed = self._options.random_seed if self._options.exists("random_seed") else None
        return poptorch_core.ProcessShareSampler(
            len(dataset), self._combined_batch_size, distributed.numProcesses, distributed.processId, drop_last,
            bool(shuffle), seed,
        )

    def _warn_about_remainder(self, batch_sampler):
        """Of elements, or of the batches of a sampler."""
        try:
            if batch_sampler is None:
                what, count, per_item = "elements", self._num_elements(), self._combined_batch_size
            else:
                what, count, per_item = "batches of the sampler", len(batch_sampler), self._batches_per_item
        except TypeError:  # no length
            if self._batches_per_item > 1 and not self._drop_last_item:
                logger.warning("DataLoader: the batch sampler has no length, so the last item may be smaller")
            return
        if per_item is not None:
            poptorch_core.warn_about_remainder(what, count, per_item, self._drop_last_item)

    def _num_elements(self):
        return len(self.dataset) if self._is_iterable else len(self.sampler)

    # -- public ---------------------------------------------------------------------------------------------------
    @property
    def combinedBatchSize(self):
        """Rows of each item, None if batch_size is None."""
        return self._combined_batch_size

    @property
    def options(self):
        """The options it was made with."""
        if self._combined_batch_size is None:
            raise AttributeError("A DataLoader with batch_size=None has no options")
        return self._options

    def __len__(self):
        if self._batches_per_item > 1:
            return poptorch_core.num_items(len(self.batch_sampler), self._batches_per_item, self._drop_last_item)
        if not self._rebatched:
            return super().__len__()
        return poptorch_core.num_items(self._num_elements(), self._combined_batch_size, self._drop_last_item)

    def __iter__(self):
        with _CHANNEL.tracepoint("__iter__"):
            if self._accessor is not None:
                items = iter(self._accessor)
            elif self._batches_per_item > 1:
                items = combined(super().__iter__(), self._batches_per_item, self._drop_last_item)
            else:
                items = super().__iter__()
        is_traced = poptorch_core.is_tracing() or poptorch_core.is_profiled(self._options._store)
        return _traced(items) if is_traced else items

    def _get_iterator(self):
        """Of torch's interface: called for each epoch, or for all of them if workers persist."""
        iterator = iterator_of(self)
        return super()._get_iterator() if iterator is None else iterator

    def terminate(self):
        """Ends the process of an asynchronous loader."""
        if self._accessor is not None:
            self._accessor.terminate()

    def __del__(self):
        if getattr(self, "_accessor", None) is not None:
            self._accessor.terminate()
