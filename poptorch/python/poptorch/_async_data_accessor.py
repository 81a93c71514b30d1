"""AsynchronousDataAccessor: reads a data set in another process, ahead of its consumer."""

import atexit
import copyreg
import os
import pickle
import signal
import sys
import tempfile
import types
import weakref

import torch
import torch.multiprocessing

from . import _async_worker, _impl
from ._logging import logger
from .enums import SharingStrategy
from .errors import createPoptorchError



def _restored_generator(device, state):
    generator = torch.Generator(device)
    generator.set_state(state)
    return generator


# Loaders are sent to the other process with their samplers, and torch cannot pickle the generators these may have.
copyreg.pickle(torch.Generator, lambda generator: (_restored_generator, (generator.device, generator.get_state())))

_START_METHODS = {
    SharingStrategy.SharedMemory: "spawn",
    SharingStrategy.FileSystem: "spawn",
    SharingStrategy.Fork: "fork",
    SharingStrategy.ForkServer: "forkserver",
}
_GRACE_SECONDS = 10
_INTERACTIVE_RULE = (
    "the data set uses classes or functions of an interactive session, such as a notebook, which a process started "
    "afresh does not know. Put them into a module, or give sharing_strategy=poptorch.SharingStrategy.Fork (a "
    'DataLoader takes it in async_options: {"sharing_strategy": poptorch.SharingStrategy.Fork}).'
)


def _is_interactive():
    """Whether there is no file that another process could read the main program from."""
    return not os.path.exists(getattr(sys.modules["__main__"], "__file__", None) or "")


def _combines_batches(dataset):
    return getattr(dataset, "_batches_per_item", 1) > 1


class _WithoutMain:
    """Starts a process that does not run the main program again, which only those need that use its classes.

    Programs without an `if __name__ == "__main__"` guard can then load data asynchronously, too.
    """

    def __enter__(self):
        self._main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")

    def __exit__(self, *exception):
        sys.modules["__main__"] = self._main


class AsynchronousDataAccessor:
    """Iterates over a data set or loader whose items are prepared in another process.

    The tensors it yields are views of a ring buffer, valid until the next item is asked for: clone them to keep them.
    """

    def __init__(
        self,
        dataset,
        buffer_size=3,
        miss_sleep_time_in_ms=0.1,
        load_indefinitely=True,
        early_preload=False,
        sharing_strategy=SharingStrategy.ForkServer,
        rebatched_size=None,
    ):
        self._process = None
        self._dataset = dataset
        self._rebatched_size = rebatched_size
        drop_last = self._check_dataset(dataset, rebatched_size)
        # A loader that puts the batches of a sampler together makes the short last item itself.
        self._allows_short = rebatched_size is not None or (_combines_batches(dataset) and not drop_last)
        strategy = SharingStrategy(sharing_strategy)
        settings = {
            "buffer_size": buffer_size,
            "miss_sleep_time_in_ms": miss_sleep_time_in_ms,
            "load_indefinitely": load_indefinitely,
            "early_preload": early_preload,
            "rebatched_size": rebatched_size,
            "drop_last": drop_last,
            "allows_short": self._allows_short,
            "seed": int(torch.empty((), dtype=torch.int64).random_().item()),
            "start_method": torch.multiprocessing.get_start_method(),
        }
        context = torch.multiprocessing.get_context(_START_METHODS[strategy])
        if strategy == SharingStrategy.ForkServer:
            context.set_forkserver_preload(["poptorch"])
        self._shared = _async_worker.Shared(context, buffer_size)
        self._epoch = -1
        self._finished = True  # the current epoch was read to its end
        self._next = 0
        self._holds_slot = False
        self._start(context, strategy, settings)

    @staticmethod
    def _check_dataset(dataset, rebatched_size):
        """Whether the remainder of the data is dropped."""
        from ._data_loader import DataLoader  # pylint: disable=import-outside-toplevel  # it uses this class

        if isinstance(dataset, DataLoader) and dataset._accessor is not None:
            raise createPoptorchError(
                "[AsynchronousDataAccessor] the DataLoader already loads asynchronously; use it directly, or create "
                "it with mode=poptorch.DataLoaderMode.Sync."
            )
        drop_last = True
        if isinstance(dataset, DataLoader):
            drop_last = dataset._drop_last_item
            combined = dataset.combinedBatchSize or 1
            if not drop_last and combined != 1 and rebatched_size is None and not _combines_batches(dataset):
                raise AssertionError(
                    "A DataLoader with drop_last=False ends with a smaller item, which needs rebatched_size "
                    "or mode=poptorch.DataLoaderMode.AsyncRebatched"
                )
        if rebatched_size is not None and rebatched_size <= 1:
            raise AssertionError(f"rebatched_size must exceed 1, not {rebatched_size}")
        return drop_last

    # -- the worker -----------------------------------------------------------------------------------------------
    def _start(self, context, strategy, settings):
        content = (self._dataset, dict(_impl.custom_arg_parsers))
        file_name = None
        without_main = False
        if strategy == SharingStrategy.Fork:
            payload = ("object", content)
        elif strategy == SharingStrategy.SharedMemory:
            payload = ("object", content)  # tensors of the data set move to shared memory
        else:
            data = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
            without_main = b"__main__" not in data
            if not without_main and _is_interactive():
                raise createPoptorchError(f"[AsynchronousDataAccessor] {_INTERACTIVE_RULE}")
            payload = ("bytes", data)
            if strategy == SharingStrategy.FileSystem:
                with tempfile.NamedTemporaryFile(suffix=".poptorch", delete=False) as file:
                    file.write(data)
                file_name = file.name
                payload = ("file", file_name)
        self._connection, other_end = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_async_worker.main, args=(payload, self._shared, settings, other_end), daemon=False
        )
        try:
            if without_main:
                with _WithoutMain():
                    self._process.start()
            else:
                self._process.start()
            atexit.register(_terminate, weakref.ref(self))
            logger.debug("AsynchronousDataAccessor worker process: %d", self._process.pid)
            other_end.close()
            self._layout, self._slots, self._header = self._receive_slots(strategy)
        finally:
            if file_name is not None:
                os.remove(file_name)

    def _receive_slots(self, strategy):
        try:
            state, content = self._connection.recv()
        except EOFError:
            state, content = "failed", "its process ended"
            if _is_interactive() and strategy != SharingStrategy.Fork:
                content += f"; {_INTERACTIVE_RULE}"
        if state != "ready":
            self.terminate()
            raise createPoptorchError(f"[AsynchronousDataAccessor] worker thread failed to start: {content}")
        return content

    def terminate(self):
        """Ends the worker: by asking it, then by SIGINT, then by SIGTERM."""
        process, self._process = self._process, None
        if process is None:
            return
        self._shared.stop.value = 1
        for semaphore in (self._shared.free, self._shared.new_epoch):
            semaphore.release()
        self._shared.started.set()
        for signal_number in (None, signal.SIGINT, signal.SIGTERM):
            if signal_number is not None and process.is_alive():
                os.kill(process.pid, signal_number)
            process.join(_GRACE_SECONDS)
            if not process.is_alive():
                break
        else:
            logger.warning("The worker of an AsynchronousDataAccessor does not end (process %d)", process.pid)
        self._connection.close()

    def __del__(self):
        self.terminate()

    # -- iteration ------------------------------------------------------------------------------------------------
    def __len__(self):
        if self._rebatched_size is None or getattr(self._dataset, "_rebatched", False):
            return len(self._dataset)
        batch_size = getattr(self._dataset, "combinedBatchSize", None) or getattr(self._dataset, "batch_size", 1)
        return len(self._dataset) * batch_size // self._rebatched_size

    def __iter__(self):
        self._release_slot()
        self._epoch += 1
        with self._shared.wanted_epoch.get_lock():
            self._shared.wanted_epoch.value = self._epoch
        self._shared.new_epoch.release()
        self._shared.started.set()
        self._finished = False
        return self

    def _release_slot(self):
        if self._holds_slot:
            self._holds_slot = False
            self._shared.free.release()

    def _wait_for_item(self):
        while not self._shared.filled.acquire(timeout=1.0):
            if self._process is None:
                raise AssertionError("The AsynchronousDataAccessor was terminated")
            if not self._process.is_alive():
                raise AssertionError(f"The worker of the AsynchronousDataAccessor died{self._reason()}")
        if self._process is None:
            raise AssertionError("The AsynchronousDataAccessor was terminated")

    def _reason(self):
        try:
            return f": {self._connection.recv()[1]}" if self._connection.poll() else ""
        except (EOFError, OSError):
            return ""

    def __next__(self):
        if self._finished:
            raise StopIteration
        while True:
            self._release_slot()
            self._wait_for_item()
            slot = self._next
            kind, epoch, rows = self._header[slot].tolist()
            if self._connection.poll():
                raise AssertionError(f"The worker of the AsynchronousDataAccessor died{self._reason()}")
            self._next = (slot + 1) % len(self._slots)
            self._holds_slot = True
            if epoch < self._epoch:
                continue  # left over from an iteration that was broken off
            if kind == _async_worker.END_OF_EPOCH:
                self._release_slot()
                self._finished = True
                raise StopIteration
            tensors = self._slots[slot]
            if self._allows_short and rows < tensors[0].shape[0]:
                tensors = [t[:rows] for t in tensors]
            return self._layout.rebuild(tensors)


def _terminate(accessor):
    accessor = accessor()
    if accessor is not None:
        accessor.terminate()
