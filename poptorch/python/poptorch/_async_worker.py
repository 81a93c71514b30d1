"""The process behind an AsynchronousDataAccessor: fills a ring of shared-memory slots with the items of a data set."""

import contextlib
import io
import multiprocessing
import pickle
import sys
import time
import traceback

import torch
from torch.utils.data import default_collate

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

    def columns(self, samples):
        """Of samples that the default collation makes such an item of, the parts of all, None if one is of another
        kind."""
        types = set(map(type, samples))
        if self.kind == "tensor" and types == {torch.Tensor}:
            return [samples]
        if self.kind == "list" and types in ({list}, {tuple}) and len(set(map(len, samples))) == 1:
            return list(zip(*samples))
        if self.kind == "dict" and types == {dict} and all(sample.keys() == set(self.keys) for sample in samples):
            return [[sample[key] for sample in samples] for key in self.keys]
        return None

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


class _Stopped(Exception):
    """The consumer is gone or asked to stop."""


class _Ring:
    """The slots, as the worker sees them: it opens the next one, writes an item to it and publishes it."""

    def __init__(self, shared, settings):
        self._shared = shared
        self._settings = settings
        self.slots = None
        self.header = None  # per slot: kind, epoch, rows
        self._next = 0
        self._is_open = False

    def make(self, shapes_and_types):
        num_slots = self._settings["buffer_size"]
        self.slots = [
            [torch.empty(shape, dtype=dtype).share_memory_() for shape, dtype in shapes_and_types]
            for _ in range(num_slots)
        ]
        self.header = torch.zeros(num_slots, 3, dtype=torch.int64).share_memory_()

    def open(self):
        """The tensors of the next slot, once the consumer has let go of it."""
        if not self._is_open:
            self._wait_for_slot()
            self._is_open = True
        return self.slots[self._next]

    def publish(self, kind, epoch, rows=0):
        self.open()
        self.header[self._next] = torch.tensor([kind, epoch, rows])
        self._next = (self._next + 1) % len(self.slots)
        self._is_open = False
        self._shared.filled.release()

    # -- waiting --------------------------------------------------------------------------------------------------
    def wait(self, acquire):
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
            self.wait(lambda timeout: self._shared.free.acquire(timeout=timeout))
            return
        next_check = time.monotonic() + _PARENT_CHECK_SECONDS
        while not self._shared.free.acquire(block=False):
            if time.monotonic() > next_check:
                self._check_consumer()
                next_check = time.monotonic() + _PARENT_CHECK_SECONDS
        self._check_consumer()


class _Worker:
    """Each item is written to its slot once: by the collation of a loader that has no workers of its own, or from what
    the data set gives, a part at a time if items are put together again."""

    def __init__(self, dataset, shared, settings):
        self._dataset = dataset
        self._shared = shared
        self._settings = settings
        self._ring = _Ring(shared, settings)
        self._layout = None
        self._expected = None  # of each tensor: the shape of its rows, its type
        if _collates_here(dataset) and settings["rebatched_size"] is None:
            dataset.collate_fn = SlotCollation(self)

    # -- reading --------------------------------------------------------------------------------------------------
    def _read(self):
        """What the data set gives, as lists of tensors, for one epoch."""
        for item in self._dataset:
            if self._layout is None:
                self._layout = Layout(item)
            yield self._like_the_first(self._layout.tensors(item))

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

    def collated(self, samples):
        """What the default collation gives, in the open slot where it fits."""
        columns = None if self._ring.slots is None else self._layout.columns(samples)
        if columns is None or len(columns) != len(self._ring.slots[0]):
            return default_collate(samples)
        return self._layout.rebuild([_stacked(column, target) for column, target in zip(columns, self._ring.open())])

    def room(self, part, shape, dtype):
        """A part of the open slot for so many rows of that shape and type, None if they do not fit."""
        if self._ring.slots is None or part >= len(self._ring.slots[0]):
            return None
        target = self._ring.open()[part]
        return target[: shape[0]] if target.dtype == dtype and _fit(shape, target) else None

    # -- writing --------------------------------------------------------------------------------------------------
    def _items(self):
        """Writes one item after the other to the open slot and yields the number of its rows, for one epoch."""
        size = self._settings["rebatched_size"]
        return self._whole_items() if size is None else self._rebatched_items(size)

    def _whole_items(self):
        for tensors in self._read():
            if self._ring.slots is None:
                self._ring.make([(tensor.shape, tensor.dtype) for tensor in tensors])
            for target, tensor in zip(self._ring.open(), tensors):
                short = self._settings["allows_short"] and tensor.shape[0] < target.shape[0]
                if not short and tensor.shape != target.shape:
                    raise TypeError(
                        f"an item has a tensor of shape {list(tensor.shape)}; all items must be like the first, which "
                        f"has {list(target.shape)}"
                    )
                if tensor.data_ptr() != target.data_ptr():  # of a tensor that was collated into the slot
                    (target[: tensor.shape[0]] if short else target).copy_(tensor.detach())
            yield tensors[-1].shape[0] if tensors and tensors[-1].dim() else 0

    def _rebatched_items(self, size):
        """Items of `size` rows, of what comes in any number of rows."""
        rows = 0
        for tensors in self._read():
            if self._ring.slots is None:
                self._ring.make([((size, *tensor.shape[1:]), tensor.dtype) for tensor in tensors])
            taken, count = 0, tensors[0].shape[0]
            if any(tensor.shape[0] != count for tensor in tensors):
                numbers = [tensor.shape[0] for tensor in tensors]
                raise TypeError(f"an item has tensors of {numbers} rows; expected the same number in each")
            while taken < count:
                step = min(size - rows, count - taken)
                for target, tensor in zip(self._ring.open(), tensors):
                    target[rows : rows + step].copy_(tensor[taken : taken + step].detach())
                rows, taken = rows + step, taken + step
                if rows == size:
                    yield rows
                    rows = 0
        if rows > 0 and not self._settings["drop_last"]:
            yield rows

    # -- all epochs -----------------------------------------------------------------------------------------------
    def prepare(self):
        """Loads the first item, after which the slots are made."""
        self._epoch_items = self._items()
        self._first_rows = next(self._epoch_items, None)
        if self._first_rows is None:
            raise ValueError("the data set is empty")
        return self._layout, self._ring.slots, self._ring.header

    def _run_epoch(self, items, epoch):
        for rows in items:
            if self._shared.wanted_epoch.value > epoch:
                return  # the consumer started over
            self._ring.publish(DATA, epoch, rows)
        self._ring.publish(END_OF_EPOCH, epoch)

    def run(self):
        epoch = 0
        self._ring.publish(DATA, epoch, self._first_rows)
        if not self._settings["early_preload"]:
            self._ring.wait(self._shared.started.wait)
        while True:
            self._run_epoch(self._epoch_items, epoch)
            if not self._settings["load_indefinitely"]:
                while self._shared.wanted_epoch.value <= epoch:
                    self._ring.wait(lambda timeout: self._shared.new_epoch.acquire(timeout=timeout))
            epoch = max(epoch + 1, self._shared.wanted_epoch.value)
            self._epoch_items = self._items()


class SlotCollation:
    """The default collation of a loader whose items go to slots."""

    def __init__(self, worker):
        self._worker = worker
        self.room = worker.room

    def __call__(self, samples):
        return self._worker.collated(samples)


def _collates_here(dataset):
    """Whether it is a loader that collates in this process, in the usual way, and gives what it collates. One of ours
    has workers collate as usual if it starts them."""
    if not isinstance(dataset, torch.utils.data.DataLoader) or getattr(dataset, "_batches_per_item", 1) > 1:
        return False
    is_here = dataset.num_workers == 0 or hasattr(dataset, "combinedBatchSize")
    return is_here and dataset.batch_sampler is not None and dataset.collate_fn is default_collate


def _fit(shape, target):
    return len(shape) == target.dim() and shape[1:] == target.shape[1:] and shape[0] <= target.shape[0]


def _stacked(column, target):
    """The elements of a column of samples as rows of the target, if they are like these, or collated as usual."""
    first = column[0]
    if type(first) is not torch.Tensor or not _fit((len(column), *first.shape), target) or not all(
        type(element) is torch.Tensor and element.shape == first.shape and element.dtype == target.dtype
        and element.device == target.device and element.layout == target.layout and not element.requires_grad
        for element in column
    ):
        return default_collate(list(column))
    return torch.stack(column, out=target[: len(column)])


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
