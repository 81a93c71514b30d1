"""Items of an asynchronous loader are collated straight into its ring, and are what the default collation makes."""

import collections

import poptorch
import pytest
import torch
import torchvision
from poptorch import _async_worker
from torch.utils.data import default_collate

Pair = collections.namedtuple("Pair", "a b")
LENGTH = 12


class Samples(torch.utils.data.Dataset):
    def __init__(self, make):
        self.make = make

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return self.make(index)


def row(index, size=3, dtype=torch.float32):
    return torch.full((size,), index, dtype=dtype)


KINDS = {
    "tensor": row,
    "tuple": lambda index: (row(index), index),
    "list": lambda index: [row(index), row(-index, 2), float(index)],
    "dict": lambda index: {"x": row(index), "n": index},
    "named": lambda index: Pair(row(index), index),
    "types that change": lambda index: (row(index, dtype=torch.float32 if index < 6 else torch.float64), index),
    "numbers": lambda index: (index, 0.5 * index),
    "with gradient": lambda index: row(index).requires_grad_(index % 8 > 5),
    "not contiguous": lambda index: torch.full((3, 4), float(index)).t(),
    "containers that change": lambda index: (row(index), index) if index < 6 else [row(index), index],
}


def accessor_of(loader, **settings):
    return poptorch.AsynchronousDataAccessor(loader, sharing_strategy=poptorch.SharingStrategy.Fork, **settings)


def values(item):
    """Without the containers, which an accessor makes lists of."""
    parts = list(item.values()) if isinstance(item, dict) else [item] if isinstance(item, torch.Tensor) else item
    return [part.detach().float().tolist() for part in parts]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 4])
def test_items_are_those_of_the_default_collation(kind, batch):
    dataset = Samples(KINDS[kind])
    accessor = accessor_of(poptorch.DataLoader(poptorch.Options(), dataset, batch_size=batch))
    expected = [values(default_collate([dataset[i] for i in range(first, first + batch)]))
                for first in range(0, LENGTH, batch)]
    for _ in range(3):
        assert [values(item) for item in accessor] == expected
    accessor.terminate()


@pytest.mark.parametrize("make,message", [
    (lambda index: row(index, 3 if index < 8 else 4), "like the first"),
    (lambda index: row(index, 3 if index != 9 else 4), "equal size"),
    (lambda index: (row(index),) * (2 if index < 8 else 3), "3 tensors"),
    (lambda index: (row(index),) * (2 if index != 9 else 3), "equal size"),
    (lambda index: {"x": row(index)} if index < 8 else {"y": row(index)}, "keys"),
])
def test_samples_unlike_the_first_are_errors(make, message):
    accessor = accessor_of(poptorch.DataLoader(poptorch.Options(), Samples(make), batch_size=4))
    with pytest.raises(AssertionError, match=message):
        list(accessor)
    accessor.terminate()


def worker_of(loader, **settings):
    """The worker of an accessor, in this process."""
    defaults = {"buffer_size": 2, "miss_sleep_time_in_ms": 0.1, "rebatched_size": None, "drop_last": True,
                "allows_short": False}
    context = torch.multiprocessing.get_context("fork")
    worker = _async_worker._Worker(loader, _async_worker.Shared(context, 2), {**defaults, **settings})
    worker.prepare()
    return worker


def test_rows_are_written_once():
    worker = worker_of(poptorch.DataLoader(poptorch.Options(), Samples(KINDS["tuple"]), batch_size=4))
    slot = worker._ring.open()
    tensors = next(worker._read())
    assert tensors[0].data_ptr() == slot[0].data_ptr()
    assert torch.equal(slot[0], torch.stack([row(index) for index in range(4)]))


def test_known_images_are_written_once():
    digits = torchvision.datasets.MNIST.__new__(torchvision.datasets.MNIST)
    digits.data, digits.targets = torch.arange(LENGTH * 6).to(torch.uint8).reshape(LENGTH, 2, 3), torch.arange(LENGTH)
    digits.transform, digits.target_transform = torchvision.transforms.ToTensor(), None
    worker = worker_of(poptorch.DataLoader(poptorch.Options(), digits, batch_size=4))
    slot = worker._ring.open()
    tensors = next(worker._read())
    assert tensors[0].data_ptr() == slot[0].data_ptr()
    assert torch.equal(slot[0], torch.stack([digits[index][0] for index in range(4)]))


def test_collate_functions_of_the_user_are_called():
    loader = poptorch.DataLoader(poptorch.Options(), Samples(row), batch_size=4,
                                 collate_fn=lambda rows: torch.stack(rows) + 1)
    accessor = accessor_of(loader)
    assert [item[0, 0].item() for item in accessor] == [1, 5, 9]
    accessor.terminate()


@pytest.mark.parametrize("size", [3, 5, 7, 12])
@pytest.mark.parametrize("drop_last", [False, True])
def test_rebatched_items_are_written_part_by_part(size, drop_last):
    loader = poptorch.DataLoader(poptorch.Options(), Samples(KINDS["tuple"]), batch_size=4, drop_last=drop_last)
    accessor = accessor_of(loader, rebatched_size=size)
    seen = list(range(LENGTH - LENGTH % size if drop_last else LENGTH))
    expected = [seen[first : first + size] for first in range(0, len(seen), size)]
    for _ in range(2):
        assert [[int(number) for number in data[:, 0]] for data, _ in accessor] == expected
    accessor.terminate()
