"""poptorch.DataLoader and AsynchronousDataAccessor: what goes together, what is warned of, when data is read."""

import multiprocessing
import os
import signal
import time

import poptorch
import pytest
import torch

Mode = poptorch.DataLoaderMode
FAST = {"sharing_strategy": poptorch.SharingStrategy.Fork}  # starts without importing torch again


class Numbers(torch.utils.data.Dataset):
    """Element i is i. Counts how many were read, by any process."""

    def __init__(self, length):
        self.length = length
        self.read = multiprocessing.Value("i", 0)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        with self.read.get_lock():
            self.read.value += 1
        return torch.tensor(index)

    def reads(self, least=0, seconds=10.0):
        """How many elements were read once nothing more happens for a while, or at least so many."""
        deadline = time.monotonic() + seconds
        before = -1
        while time.monotonic() < deadline and (self.read.value != before or self.read.value < least):
            before = self.read.value
            time.sleep(0.3)
        return self.read.value


def options(device_iterations=1, gradient_accumulation=1):
    opts = poptorch.Options().deviceIterations(device_iterations)
    opts.Training.gradientAccumulation(gradient_accumulation)
    return opts


def values(loader):
    return [item.tolist() for item in loader]


# -- samplers of batches ----------------------------------------------------------------------------------------------
def sampler(length=8, batch_size=2):
    return torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(range(length)), batch_size, drop_last=False)


def test_a_sampler_of_batches_decides_size_order_and_share():
    for wrong in ({"batch_size": 2}, {"shuffle": True}):
        with pytest.raises(poptorch.Error, match="batch_sampler cannot be combined with batch_size"):
            poptorch.DataLoader(options(), Numbers(8), batch_sampler=sampler(), **wrong)
    distributed = options()
    distributed.Distributed.configureProcessId(0, 2)
    with pytest.raises(poptorch.Error, match="batch_sampler cannot be combined with automatic partitioning"):
        poptorch.DataLoader(distributed, Numbers(8), batch_sampler=sampler())
    loader = poptorch.DataLoader(distributed, Numbers(8), batch_sampler=sampler(), auto_distributed_partitioning=False)
    assert values(loader) == [[0, 1], [2, 3], [4, 5], [6, 7]]


class Endless:
    """Batches without a number of them."""

    def __iter__(self):
        return iter([[0, 1], [2, 3], [4, 5]])


def test_a_sampler_whose_batches_do_not_make_whole_items_is_warned_of(capfd):
    poptorch.DataLoader(options(2), Numbers(8), batch_sampler=sampler(), drop_last=False)
    assert capfd.readouterr().err == ""
    loader = poptorch.DataLoader(options(3), Numbers(8), batch_sampler=sampler(), drop_last=False)
    assert "drop_last=False" in capfd.readouterr().err
    assert values(loader) == [[0, 1, 2, 3, 4, 5], [6, 7]]
    loader = poptorch.DataLoader(options(2), Numbers(8), batch_sampler=Endless(), drop_last=False)
    assert "batch sampler has no length" in capfd.readouterr().err
    assert values(loader) == [[0, 1, 2, 3], [4, 5]]
    poptorch.DataLoader(options(2), Numbers(8), batch_sampler=Endless())
    assert capfd.readouterr().err == ""


# -- what is handed to torch ------------------------------------------------------------------------------------------
def test_arguments_of_torch_pass_through():
    order = [3, 1, 0, 2]
    loader = poptorch.DataLoader(options(), Numbers(4), batch_size=2, sampler=order,
                                 collate_fn=lambda rows: torch.stack(rows) * 10)
    assert values(loader) == [[30, 10], [0, 20]]


@pytest.mark.parametrize("workers, wanted, persistent", [(0, None, False), (1, None, True), (1, False, False)])
def test_workers_stay_unless_told_otherwise(workers, wanted, persistent):
    loader = poptorch.DataLoader(options(), Numbers(4), num_workers=workers, persistent_workers=wanted)
    assert loader.persistent_workers == persistent


def test_it_is_a_loader_of_torch_that_drops_the_last():
    loader = poptorch.DataLoader(options(), Numbers(5), batch_size=2)
    assert isinstance(loader, torch.utils.data.DataLoader) and loader.drop_last
    loader.terminate()  # nothing to end
    assert values(loader) == [[0, 1], [2, 3]]


# -- shares of processes ----------------------------------------------------------------------------------------------
def test_what_one_epoch_drops_comes_in_the_next():
    """The window of the permutation begins at its start and after the leftover elements, in turns."""
    loaders = []
    for process in range(2):
        opts = options(2).randomSeed(5)
        opts.Distributed.configureProcessId(process, 2)
        loaders.append(poptorch.DataLoader(opts, Numbers(19), batch_size=2, shuffle=True))
    generator = torch.Generator().manual_seed(5)
    for epoch in range(3):
        permutation = torch.randperm(19, generator=generator).tolist()
        window = permutation[3:] if epoch % 2 else permutation[:16]
        assert [sum(values(loader), []) for loader in loaders] == [window[:8], window[8:]]


# -- the other process ------------------------------------------------------------------------------------------------
def test_items_are_views_of_a_ring():
    accessor = poptorch.AsynchronousDataAccessor(poptorch.DataLoader(options(), Numbers(9)), buffer_size=3, **FAST)
    places = [item.data_ptr() for item in accessor]
    assert len(set(places)) == 3 and places[:3] == places[3:6]
    accessor.terminate()


@pytest.mark.parametrize("early", [True, False])
def test_the_buffer_is_filled_before_the_first_iteration_only_if_asked_for(early):
    data = Numbers(20)
    accessor = poptorch.AsynchronousDataAccessor(poptorch.DataLoader(options(), data), buffer_size=4,
                                                 early_preload=early, **FAST)
    # Four items lie in the ring and one more is ready to follow them.
    assert data.reads(5 if early else 1, seconds=3.0) == (5 if early else 1)
    assert values(accessor) == [[i] for i in range(20)]
    accessor.terminate()


@pytest.mark.parametrize("indefinitely", [True, False])
def test_the_next_epoch_is_read_ahead_only_if_asked_for(indefinitely):
    data = Numbers(6)
    accessor = poptorch.AsynchronousDataAccessor(poptorch.DataLoader(options(), data), buffer_size=3,
                                                 load_indefinitely=indefinitely, **FAST)
    list(accessor)
    assert (data.reads(7 if indefinitely else 6, seconds=3.0) > 6) == indefinitely
    assert values(accessor) == [[i] for i in range(6)]
    accessor.terminate()


def test_an_accessor_that_was_terminated_yields_nothing_more():
    accessor = poptorch.AsynchronousDataAccessor(poptorch.DataLoader(options(), Numbers(50)), **FAST)
    iterator = iter(accessor)
    next(iterator)
    process = accessor._process
    accessor.terminate()
    assert not process.is_alive()
    with pytest.raises(AssertionError, match="terminated"):
        for _ in range(10):
            next(iterator)
    accessor.terminate()  # again: nothing to do


def test_a_worker_that_is_killed_is_an_error_at_the_next_item():
    accessor = poptorch.AsynchronousDataAccessor(poptorch.DataLoader(options(), Numbers(50)), buffer_size=2, **FAST)
    iterator = iter(accessor)
    next(iterator)
    os.kill(accessor._process.pid, signal.SIGKILL)
    with pytest.raises(AssertionError, match="died"):
        for _ in range(10):
            next(iterator)
    accessor.terminate()


def test_items_keep_their_keys_and_number_of_tensors():
    a, b = torch.zeros(2), torch.ones(2)
    for items in ([{"a": a, "b": b}, {"a": a}], [(a, b), (a,)], [{"a": a}, {"b": a}]):
        accessor = poptorch.AsynchronousDataAccessor(items, **FAST)
        with pytest.raises(AssertionError, match="died"):
            list(accessor)
        accessor.terminate()


def test_nested_items_are_refused():
    with pytest.raises(poptorch.Error, match="worker thread failed to start"):
        poptorch.AsynchronousDataAccessor([(torch.zeros(2), [torch.zeros(2)])], **FAST)


def test_any_iterable_can_be_read():
    accessor = poptorch.AsynchronousDataAccessor(torch.utils.data.DataLoader(Numbers(4), batch_size=2), **FAST)
    assert len(accessor) == 2 and values(accessor) == [[0, 1], [2, 3]]
    accessor.terminate()


def test_remainders_of_a_rebatched_accessor_are_dropped():
    accessor = poptorch.AsynchronousDataAccessor(poptorch.DataLoader(options(), Numbers(11), batch_size=2),
                                                 rebatched_size=3, **FAST)
    assert len(accessor) == 3 and values(accessor) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    accessor.terminate()
