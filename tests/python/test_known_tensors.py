"""Loaders of a TensorDataset take rows of its tensors: the items, their order and the state of generators are those of
torch's loader."""

import multiprocessing

import numpy
import poptorch
import pytest
import torch
from support.loading import assert_like_torch, assert_same, is_known, loaders
from torch.utils.data import Subset, TensorDataset

ROWS = 37


def tensors(*parts):
    return TensorDataset(*(parts or (torch.randn(ROWS, 3, 5), torch.arange(ROWS))))


PARTS = {
    "numbers": lambda: torch.arange(ROWS),
    "rows": lambda: torch.randn(ROWS, 3, 5),
    "bytes": lambda: torch.randint(0, 256, (ROWS, 7), dtype=torch.uint8),
    "half": lambda: torch.randn(ROWS, 2).half(),
    "bools": lambda: torch.rand(ROWS, 2) > 0.5,
    "complex": lambda: torch.randn(ROWS, 2, dtype=torch.complex64),
    "columns": lambda: torch.randn(4, ROWS).t(),
    "turned": lambda: torch.randn(ROWS, 4, 3).transpose(1, 2),
    "every second": lambda: torch.randn(2 * ROWS, 3)[::2],
    "one row again and again": lambda: torch.randn(1, 3).expand(ROWS, 3),
    "of nothing": lambda: torch.randn(ROWS, 0),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_tensors(part, num_workers):
    dataset = tensors(PARTS[part](), torch.arange(ROWS))
    assert_like_torch(*loaders(dataset, shuffle=True, drop_last=False, num_workers=num_workers))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_parts_and_one_tensor_alone(num_workers):
    dataset = tensors(torch.randn(ROWS, 2))
    inner = Subset(dataset, range(9))
    for part in (dataset, Subset(dataset, [5, -1, 3, 8]), Subset(dataset, torch.arange(9)),
                 Subset(inner, numpy.array([8, 0, 4]))):
        assert_like_torch(*loaders(part, batch_size=2, shuffle=True, num_workers=num_workers))


def test_no_workers_are_started():
    loader = poptorch.DataLoader(poptorch.Options(), tensors(), batch_size=4, num_workers=3)
    assert len(list(loader)) == 9 and not multiprocessing.active_children()


@pytest.mark.parametrize("mode", [poptorch.DataLoaderMode.Async, poptorch.DataLoaderMode.AsyncRebatched])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_asynchronous_loaders(mode, num_workers):
    dataset = tensors()
    ours = poptorch.DataLoader(poptorch.Options(), dataset, batch_size=5, drop_last=False, mode=mode,
                               num_workers=num_workers,
                               async_options={"sharing_strategy": poptorch.SharingStrategy.Fork})
    _, theirs = loaders(dataset, batch_size=5, drop_last=False)
    for _ in range(2):
        assert_same([[part.clone() for part in item] for item in ours], list(theirs))
    ours.terminate()


def change_in_place(dataset):
    dataset.tensors[0][20:] = 3


def change_tensors(dataset):
    dataset.tensors = (dataset.tensors[0] + 1, dataset.tensors[1])


def change_shared(dataset):
    """Workers have a copy of what is not shared."""
    dataset.tensors[2][10:] = -1


@pytest.mark.parametrize("change", [change_in_place, change_tensors, change_shared])
@pytest.mark.parametrize("workers", [{"num_workers": 0}, {"num_workers": 1, "persistent_workers": False},
                                     {"num_workers": 1, "persistent_workers": True}])
def test_changes_are_seen_when_torch_sees_them(change, workers):
    rows, trails = torch.randn(60, 3), []
    for choose in (0, 1):
        dataset = TensorDataset(rows.clone(), torch.arange(60), torch.arange(60.0).share_memory_())
        loader = loaders(dataset, **workers)[choose]
        assert choose == 1 or is_known(loader)
        first = list(loader)
        change(dataset)
        trails.append(first + list(loader))
    assert_same(*trails)


class OwnTensors(TensorDataset):
    pass


@pytest.mark.parametrize("dataset", [
    OwnTensors(torch.randn(ROWS, 2)), tensors(torch.randn(ROWS, 2, requires_grad=True)),
    tensors(torch.nn.Parameter(torch.randn(ROWS, 2))), tensors(torch.randn(ROWS, 2).to_sparse())])
def test_what_is_not_known_is_left_to_torch(dataset):
    assert not is_known(poptorch.DataLoader(poptorch.Options(), dataset, batch_size=4))


def test_copies_are_bounded(monkeypatch):
    monkeypatch.setenv("ASPEN_LOADER_MEMORY", "1K")
    assert not is_known(poptorch.DataLoader(poptorch.Options(), tensors(), batch_size=4, num_workers=1))
    assert is_known(poptorch.DataLoader(poptorch.Options(), tensors(), batch_size=4))


def test_errors_are_those_of_the_data_set():
    ours, theirs = loaders(tensors(), sampler=[0, ROWS], batch_size=2)
    messages = []
    for loader in (ours, theirs):
        with pytest.raises(IndexError) as caught:
            list(loader)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
