"""poptorch.DataLoader: torch's data loader, with items of the size one call of a model takes."""

import torch

from . import profiling
from ._async_data_accessor import AsynchronousDataAccessor
from ._combined_batches import combined
from ._logging import logger
from ._samplers import ProcessShareSampler
from .enums import DataLoaderMode
from .errors import createPoptorchError
from .options import Options


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
        self._options = options
        factor = _micro_batches_per_item(options)
        num_processes = options.Distributed.numProcesses
        partition = auto_distributed_partitioning and num_processes > 1
        is_iterable = isinstance(dataset, torch.utils.data.IterableDataset)
        self._check_batch_sampler(batch_sampler, batch_size, shuffle, partition)
        if batch_sampler is not None:
            batch_size = getattr(batch_sampler, "batch_size", None)
        else:
            if batch_size is None and partition:
                raise AssertionError("batch_size=None cannot be combined with automatic partitioning among processes")
        self._combined_batch_size = None if batch_size is None else batch_size * factor
        self._drop_last_item = drop_last
        self._batches_per_item = 1 if batch_sampler is None else factor

        if persistent_workers is None:
            persistent_workers = num_workers > 0
        mode = self._resolved_mode(mode, drop_last) if batch_sampler is None else DataLoaderMode(mode)
        torch_batch_size = self._combined_batch_size
        self._rebatched = False
        if batch_sampler is not None:
            self._warn_about_sampler_remainder(batch_sampler, factor, drop_last)
            kwargs["batch_sampler"] = batch_sampler
        else:
            if mode == DataLoaderMode.AsyncRebatched:
                torch_batch_size = self._worker_batch_size(rebatched_worker_size)
            elif mode == DataLoaderMode.Async and not is_iterable:
                torch_batch_size = self._piece_size(num_workers, kwargs.get("collate_fn"))
            self._rebatched = mode == DataLoaderMode.AsyncRebatched or torch_batch_size != self._combined_batch_size
            if is_iterable:
                self._check_iterable(partition, num_workers, kwargs)
            elif partition:
                if kwargs.get("sampler") is not None:
                    raise AssertionError(
                        "A sampler of your own cannot be combined with automatic partitioning among processes; "
                        "give auto_distributed_partitioning=False"
                    )
                kwargs["sampler"] = self._share_sampler(dataset, shuffle, drop_last)
                shuffle = None
            kwargs["batch_size"] = torch_batch_size
            if torch_batch_size is not None:
                # When batches are put together again only the remainder of the whole data set is lost: torch would
                # drop what each worker has left.
                kwargs["drop_last"] = drop_last and not self._rebatched
            if shuffle is not None:
                kwargs["shuffle"] = shuffle
        super().__init__(dataset, num_workers=num_workers, persistent_workers=persistent_workers, **kwargs)
        self._warn_about_remainder(batch_sampler, drop_last)
        profiling.Channel("poptorch.DataLoader").instrument(self, "__iter__")
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

    def _resolved_mode(self, mode, drop_last):
        mode = DataLoaderMode(mode)
        if mode == DataLoaderMode.Async and not drop_last and (self._combined_batch_size or 1) > 1:
            return DataLoaderMode.AsyncRebatched  # items of a ring buffer have one size; rebatching knows a short one
        return mode

    def _worker_batch_size(self, worker_size):
        if self._combined_batch_size is None:
            raise AssertionError("AsyncRebatched needs a batch_size")
        worker_size = self._combined_batch_size if worker_size is None else worker_size
        if worker_size > self._combined_batch_size:
            raise AssertionError(
                f"rebatched_worker_size {worker_size} exceeds the combined batch size {self._combined_batch_size}"
            )
        return worker_size

    def _piece_size(self, num_workers, collate_fn):
        """Rows that a worker fetches at a time. If each made whole items, the first one would be ready when all of
        them are: workers that share the cores share each item instead. Only the usual collation can be cut."""
        combined = self._combined_batch_size
        if combined is None or num_workers < 2 or collate_fn not in (None, torch.utils.data.default_collate):
            return combined
        return next(size for size in range(-(-combined // num_workers), combined + 1) if combined % size == 0)

    def _share_sampler(self, dataset, shuffle, drop_last):
        seed = None
        if shuffle:
            if not self._options.exists("random_seed"):
                raise AssertionError(
                    "shuffle=True among several processes needs the same seed in each of them: call "
                    "options.randomSeed(seed)"
                )
            seed = self._options.random_seed
        distributed = self._options.Distributed
        return ProcessShareSampler(
            len(dataset), self._combined_batch_size, distributed.numProcesses, distributed.processId, drop_last, seed
        )

    @staticmethod
    def _warn_about_sampler_remainder(batch_sampler, factor, drop_last):
        if factor == 1:
            return
        try:
            length = len(batch_sampler)
        except TypeError:
            if not drop_last:
                logger.warning("DataLoader: the batch sampler has no length, so the last item may be smaller")
            return
        if drop_last and length < factor:
            logger.warning(
                "DataLoader: the sampler has %d batches, fewer than the %d that make an item; with drop_last=True "
                "there is no item at all",
                length,
                factor,
            )
        if not drop_last and length % factor != 0:
            logger.warning(
                "DataLoader: %d batches of the sampler are no multiple of the %d that make an item, so the last item "
                "is smaller",
                length,
                factor,
            )

    def _warn_about_remainder(self, batch_sampler, drop_last):
        if batch_sampler is not None or self._combined_batch_size is None:
            return
        try:
            num_elements = len(self.sampler) if not self._is_iterable() else len(self.dataset)
        except TypeError:
            return
        if drop_last and num_elements < self._combined_batch_size:
            logger.warning(
                "DataLoader: %d elements are fewer than the combined batch size %d; with drop_last=True there is no "
                "item at all",
                num_elements,
                self._combined_batch_size,
            )
        remainder = num_elements % self._combined_batch_size
        if remainder and not drop_last:
            logger.warning(
                "DataLoader: %d elements are no multiple of the combined batch size %d; with drop_last=False the last "
                "item has %d rows, which a model compiled for %d rejects",
                num_elements,
                self._combined_batch_size,
                remainder,
                self._combined_batch_size,
            )

    def _is_iterable(self):
        return isinstance(self.dataset, torch.utils.data.IterableDataset)

    # -- public ---------------------------------------------------------------------------------------------------
    @property
    def combinedBatchSize(self):
        """Rows of each item, None if batch_size is None."""
        return self._combined_batch_size

    @property
    def options(self):
        if self._combined_batch_size is None:
            raise AttributeError("A DataLoader with batch_size=None has no options")
        return self._options

    def __len__(self):
        if self._batches_per_item > 1:
            whole, rest = divmod(len(self.batch_sampler), self._batches_per_item)
            return whole + (1 if rest and not self._drop_last_item else 0)
        if not self._rebatched:
            return super().__len__()
        num_elements = len(self.dataset) if self._is_iterable() else len(self.sampler)
        whole, rest = divmod(num_elements, self._combined_batch_size)
        return whole + (1 if rest and not self._drop_last_item else 0)

    def __iter__(self):
        if self._accessor is not None:
            return iter(self._accessor)
        if self._batches_per_item > 1:
            return combined(super().__iter__(), self._batches_per_item, self._drop_last_item)
        return super().__iter__()

    def terminate(self):
        """Ends the process of an asynchronous loader."""
        if self._accessor is not None:
            self._accessor.terminate()

    def __del__(self):
        if getattr(self, "_accessor", None) is not None:
            self._accessor.terminate()


def _micro_batches_per_item(options):
    groups = options.replication_factor // options.input_group_size
    return options.device_iterations * groups * options.Training.gradient_accumulation
