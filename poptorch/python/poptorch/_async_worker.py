"""The process behind an AsynchronousDataAccessor: fills a ring of shared-memory slots with the items of a data set."""

import contextlib
import io
import multiprocessing
import pickle
import sys
import time
import traceback

import torch

from . import _impl

DATA, END_OF_EPOCH = 0, 1
_PARENT_CHECK_SECONDS = 2.0


class Shared:
    """What both processes see. Slots are used in turn: `free` counts those the worker may fill, `filled` those the
    consumer may read. `wanted_epoch` only grows: the consumer asks to start over by raising it."""

    def __init__(self, context, num_slots):
        self.free = context.Semaphore(num_slots)
        self.filled = context.Semaphore(0)
        self.started = context.Event()      # the consumer began to iterate
        self.new_epoch = context.Semaphore(0)
        self.wanted_epoch = context.Value("q", 0)
        self.stop = context.Value("b", 0)


class Layout:
    """Shape of an item: kind of container, types of its tensors. Sent to the consumer with the slots."""

    def __init__(self, item):
        self.keys = None
        self.structure = None
        parser = _impl.custom_parser_for(item)
        if parser is not None:
            self.kind, self.structure = "custom", item
        elif isinstance(item, torch.Tensor):
            self.kind = "tensor"
        elif isinstance(item, (list, tuple)):
            self.kind = "list"
        elif isinstance(item, dict):
            self.kind, self.keys = "dict", list(item)
        else:
            raise TypeError(f"an item is a {type(item).__name__}; expected a tensor, or a list, tuple or dict of them")

    def tensors(self, item):
        if self.kind == "custom":
            tensors = list(_impl.custom_parser_for(item).yieldTensors(item))
        elif self.kind == "tensor":
            tensors = [item]
        elif self.kind == "dict":
            if item.keys() != set(self.keys):
                raise TypeError(f"an item has keys {list(item)}; all items must have {self.keys}")
            tensors = [item[key] for key in self.keys]
        else:
            tensors = list(item)
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"an item contains a {type(tensor).__name__}; expected tensors only")
        return tensors

    def rebuild(self, tensors):
        if self.kind == "custom":
            return _impl.custom_parser_for(self.structure).reconstruct(self.structure, iter(tensors))
        if self.kind == "tensor":
            return tensors[0]
        if self.kind == "dict":
            return dict(zip(self.keys, tensors))
        return list(tensors)


def rebatch(items, size, drop_last):
    """Cuts and joins lists of tensors into lists with `size` rows each."""
    pending, rows = [], 0
    for tensors in items:
        while tensors[0].shape[0] > 0:
            take = min(size - rows, tensors[0].shape[0])
            pending.append([t[:take] for t in tensors])
            tensors = [t[take:] for t in tensors]
            rows += take
            if rows == size:
                yield _joined(pending)
                pending, rows = [], 0
    if pending and not drop_last:
        yield _joined(pending)


def _joined(parts):
    return parts[0] if len(parts) == 1 else [torch.cat(tensors) for tensors in zip(*parts)]


class _Stopped(Exception):
    """The consumer is gone or asked to stop."""


class _Worker:
    def __init__(self, dataset, shared, settings):
        self._dataset = dataset
        self._shared = shared
        self._settings = settings
        self._layout = None
        self._expected = None  # of each tensor: the shape of its rows, its type
        self._slots = None
        self._header = None  # per slot: kind, epoch, rows
        self._next = 0

    def _items(self):
        """Lists of tensors, for one epoch."""

        def tensors():
            for item in self._dataset:
                if self._layout is None:
                    self._layout = Layout(item)
                yield self._like_the_first(self._layout.tensors(item))

        size = self._settings["rebatched_size"]
        return tensors() if size is None else rebatch(tensors(), size, self._settings["drop_last"])

    def _like_the_first(self, tensors):
        """Later items take the types of the first one, and must have its shape but for the number of rows."""
        if self._expected is None:
            self._expected = [(tensor.shape[1:], tensor.dtype) for tensor in tensors]
            return tensors
        if len(tensors) != len(self._expected):
            raise TypeError(f"an item has {len(tensors)} tensors; all items must be like the first, which has "
                            f"{len(self._expected)}")
        for tensor, (row_shape, _) in zip(tensors, self._expected):
            if tensor.shape[1:] != row_shape:
                raise TypeError(
                    f"an item has a tensor of shape {list(tensor.shape)}; all items must be like the first, whose rows "
                    f"have shape {list(row_shape)}"
                )
        return [tensor.to(dtype) for tensor, (_, dtype) in zip(tensors, self._expected)]

    def prepare(self):
        """Loads the first item and makes the slots after it."""
        self._epoch_items = self._items()
        first = next(self._epoch_items, None)
        if first is None:
            raise ValueError("the data set is empty")
        num_slots = self._settings["buffer_size"]
        self._slots = [
            [torch.empty(t.shape, dtype=t.dtype).share_memory_() for t in first] for _ in range(num_slots)
        ]
        self._header = torch.zeros(num_slots, 3, dtype=torch.int64).share_memory_()
        self._first = first
        return self._layout, self._slots, self._header

    # -- waiting --------------------------------------------------------------------------------------------------
    def _wait(self, acquire):
        """Blocks until acquire(timeout) succeeds, the consumer asks to stop, or its process is gone."""
        while not acquire(_PARENT_CHECK_SECONDS):
            self._check_consumer()
        if self._shared.stop.value:
            raise _Stopped

    def _check_consumer(self):
        if self._shared.stop.value or not multiprocessing.parent_process().is_alive():
            raise _Stopped

    def _wait_for_slot(self):
        if self._settings["miss_sleep_time_in_ms"] > 0:
            self._wait(lambda timeout: self._shared.free.acquire(timeout=timeout))
            return
        next_check = time.monotonic() + _PARENT_CHECK_SECONDS
        while not self._shared.free.acquire(block=False):
            if time.monotonic() > next_check:
                self._check_consumer()
                next_check = time.monotonic() + _PARENT_CHECK_SECONDS
        self._check_consumer()

    # -- producing ------------------------------------------------------------------------------------------------
    def _publish(self, kind, epoch, tensors=()):
        self._wait_for_slot()
        rows = 0
        slot = self._slots[self._next]
        for target, tensor in zip(slot, tensors):
            rows = tensor.shape[0] if tensor.dim() else 0
            short = self._settings["allows_short"] and tensor.shape[0] < target.shape[0]
            if not short and tensor.shape != target.shape:
                raise TypeError(
                    f"an item has a tensor of shape {list(tensor.shape)}; all items must be like the first, which has "
                    f"{list(target.shape)}"
                )
            (target[:rows] if short else target).copy_(tensor)
        self._header[self._next] = torch.tensor([kind, epoch, rows])
        self._next = (self._next + 1) % len(self._slots)
        self._shared.filled.release()

    def _run_epoch(self, items, epoch):
        for tensors in items:
            if self._shared.wanted_epoch.value > epoch:
                return  # the consumer started over
            self._publish(DATA, epoch, tensors)
        self._publish(END_OF_EPOCH, epoch)

    def run(self):
        epoch = 0
        self._publish(DATA, epoch, self._first)
        del self._first
        if not self._settings["early_preload"]:
            self._wait(self._shared.started.wait)
        while True:
            self._run_epoch(self._epoch_items, epoch)
            if not self._settings["load_indefinitely"]:
                while self._shared.wanted_epoch.value <= epoch:
                    self._wait(lambda timeout: self._shared.new_epoch.acquire(timeout=timeout))
            epoch = max(epoch + 1, self._shared.wanted_epoch.value)
            self._epoch_items = self._items()


def load_payload(payload):
    """The data set, and the parsers registered in the consumer."""
    kind, content = payload
    if kind == "object":
        return content
    if kind == "file":
        with open(content, "rb") as file:
            return pickle.load(file)
    return pickle.loads(content)


def main(payload, shared, settings, connection):
    """Entry point of the process."""
    with contextlib.suppress(KeyboardInterrupt):
        try:
            torch.manual_seed(settings["seed"])
            torch.set_num_threads(1)
            # A torch loader in here starts its workers as it would in the program: by default it forks them. A process
            # made by a fork server would have each of them import torch again.
            multiprocessing.set_start_method(settings["start_method"], force=True)
            dataset, parsers = load_payload(payload)
            _impl.custom_arg_parsers.update(parsers)
            worker = _Worker(dataset, shared, settings)
            connection.send(("ready", worker.prepare()))
        except Exception as error:  # pylint: disable=broad-except  # the consumer raises it
            _report(error, connection)
            return
        try:
            worker.run()
        except _Stopped:
            pass
        except Exception as error:  # pylint: disable=broad-except
            _report(error, connection)
            shared.filled.release()  # wakes a consumer that waits


def _report(error, connection):
    """To stderr, also for those who do not ask for the next item any more, and to the consumer."""
    text = io.StringIO()
    traceback.print_exception(type(error), error, error.__traceback__, file=text)
    print(text.getvalue(), file=sys.stderr, flush=True)
    connection.send(("failed", f"{error}\n{text.getvalue()}"))
