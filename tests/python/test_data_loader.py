"""poptorch.DataLoader and AsynchronousDataAccessor: sizes, order, remainders, the other process."""

import collections
import multiprocessing

import poptorch
import pytest
import torch

FAST = {"sharing_strategy": poptorch.SharingStrategy.Fork}  # starts without importing torch again


class Numbers(torch.utils.data.Dataset):
    """Element i is (row of i, i)."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.full((2,), float(index)), index


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, length):
        super().__init__()
        self.length = length

    def __iter__(self):
        return iter(torch.arange(self.length))


class FailsLater(Numbers):
    def __getitem__(self, index):
        if index == 6:
            raise RuntimeError("element six is broken")
        return super().__getitem__(index)


def options(device_iterations=1, gradient_accumulation=1, replication_factor=1):
    opts = poptorch.Options().deviceIterations(device_iterations).replicationFactor(replication_factor)
    opts.Training.gradientAccumulation(gradient_accumulation)
    return opts


def labels_of(loader):
    """All labels in order; items are cloned because an asynchronous loader reuses their memory."""
    return [label for item in loader for label in item[1].tolist()]


# -- synchronous ----------------------------------------------------------------------------------------------------
def test_items_have_the_combined_batch_size():
    opts = options(3, 5, 2)
    loader = poptorch.DataLoader(opts, Numbers(130), batch_size=2)
    assert loader.combinedBatchSize == 60 and loader.options is opts
    items = list(loader)
    assert len(loader) == len(items) == 2
    assert items[0][0].shape == (60, 2) and labels_of(items) == list(range(120))


def test_input_groups_share_their_rows():
    opts = options(1, 1, 4).inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)
    assert poptorch.DataLoader(opts, Numbers(130), batch_size=3).combinedBatchSize == 6


def test_remainder_is_dropped_unless_asked_for(capfd):
    assert len(poptorch.DataLoader(options(), Numbers(10), batch_size=4)) == 2
    assert capfd.readouterr().err == ""
    loader = poptorch.DataLoader(options(), Numbers(10), batch_size=4, drop_last=False)
    assert "drop_last=False" in capfd.readouterr().err
    assert [item[1].numel() for item in loader] == [4, 4, 2]


def test_without_batching():
    loader = poptorch.DataLoader(options(), Numbers(3), batch_size=None)
    assert loader.combinedBatchSize is None
    assert [label for _, label in loader] == [0, 1, 2]
    with pytest.raises(AttributeError):
        loader.options


def test_shuffle_and_workers():
    loader = poptorch.DataLoader(options(2), Numbers(16), batch_size=2, shuffle=True, num_workers=2)
    assert loader.persistent_workers
    first, second = labels_of(loader), labels_of(loader)
    assert sorted(first) == sorted(second) == list(range(16)) and first != second


def test_iterable_dataset():
    loader = poptorch.DataLoader(options(2), Stream(11), batch_size=2)
    assert [item.tolist() for item in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(TypeError):
        len(loader)


def test_iterable_dataset_with_workers_warns(capfd):
    poptorch.DataLoader(options(), Stream(8), batch_size=2, num_workers=2)
    assert "worker_init_fn" in capfd.readouterr().err


def test_options_are_required():
    with pytest.raises(AssertionError):
        poptorch.DataLoader(None, Numbers(4))


def test_batch_sampler_batches_are_joined():
    sampler = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(range(10)), 2, drop_last=True)
    loader = poptorch.DataLoader(options(2), Numbers(10), batch_sampler=sampler)
    assert loader.combinedBatchSize == 4 and len(loader) == 2
    assert [item[1].tolist() for item in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    loader = poptorch.DataLoader(options(2), Numbers(10), batch_sampler=sampler, drop_last=False)
    assert [item[1].tolist() for item in loader][-1] == [8, 9]
    with pytest.raises(poptorch.Error, match="batch_size=2"):
        poptorch.DataLoader(options(2), Numbers(10), batch_size=2, batch_sampler=sampler)


# -- workers of an asynchronous loader --------------------------------------------------------------------------------
class StartMethod(Numbers):
    """Element i is (1 in a process that was forked, i)."""

    def __getitem__(self, index):
        return torch.tensor(int(multiprocessing.get_start_method() == "fork")), index


@pytest.mark.parametrize("workers,rows", [(2, 6), (3, 4), (5, 3), (7, 2), (16, 1)])
def test_workers_share_the_items_of_an_asynchronous_loader(workers, rows):
    loader = poptorch.DataLoader(options(2, 3), Numbers(40), batch_size=2, num_workers=workers, async_options=FAST,
                                 mode=poptorch.DataLoaderMode.Async)
    assert loader.batch_size == rows and loader.combinedBatchSize == 12 and len(loader) == 3
    for _ in range(2):
        assert labels_of(loader) == list(range(36))
    loader.terminate()


def collate(elements):
    return torch.tensor([label for _, label in elements]), torch.tensor([len(elements)])


def test_items_with_a_collation_of_their_own_are_made_whole():
    loader = poptorch.DataLoader(options(2, 3), Numbers(40), batch_size=2, num_workers=3, async_options=FAST,
                                 mode=poptorch.DataLoaderMode.Async, collate_fn=collate)
    assert [(item[0].tolist(), item[1].item()) for item in loader] == [
        (list(range(12 * i, 12 * i + 12)), 12) for i in range(3)]
    loader.terminate()


def test_workers_of_an_asynchronous_loader_are_forked():
    loader = poptorch.DataLoader(options(), StartMethod(4), batch_size=2, num_workers=2,
                                 mode=poptorch.DataLoaderMode.Async)
    assert [item[0].tolist() for item in loader] == [[1, 1], [1, 1]]
    loader.terminate()


# -- several processes ----------------------------------------------------------------------------------------------
def shares(num_processes, length, shuffle=False, drop_last=True, epochs=1):
    result = []
    for process in range(num_processes):
        opts = options(2).randomSeed(5)
        opts.Distributed.configureProcessId(process, num_processes)
        loader = poptorch.DataLoader(opts, Numbers(length), batch_size=2, shuffle=shuffle, drop_last=drop_last)
        result.append([labels_of(loader) for _ in range(epochs)])
    return result


def test_processes_get_contiguous_shares():
    assert shares(2, 19) == [[list(range(0, 8))], [list(range(8, 16))]]
    assert shares(3, 11, drop_last=False) == [[[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8, 9, 10]]]


def test_shuffled_shares_are_disjoint_and_change():
    first, second = shares(2, 19, shuffle=True, epochs=2)
    for epoch in range(2):
        assert len(set(first[epoch]) | set(second[epoch])) == 16
    assert first[0] != first[1]
    assert shares(2, 19, shuffle=True, epochs=2) == [first, second]


def test_process_shares_have_rules():
    opts = options()
    opts.Distributed.configureProcessId(0, 2)
    with pytest.raises(AssertionError, match="randomSeed"):
        poptorch.DataLoader(opts, Numbers(8), shuffle=True)
    with pytest.raises(AssertionError):
        poptorch.DataLoader(opts, Stream(8))
    with pytest.raises(AssertionError):
        poptorch.DataLoader(opts, Numbers(8), batch_size=None)
    poptorch.DataLoader(opts, Stream(8), auto_distributed_partitioning=False)


# -- asynchronous ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("strategy", list(poptorch.SharingStrategy))
def test_async_yields_what_sync_yields(strategy):
    mode = poptorch.DataLoaderMode.Async
    loader = poptorch.DataLoader(
        options(2), Numbers(21), batch_size=2, mode=mode, async_options={"sharing_strategy": strategy}
    )
    try:
        assert len(loader) == 5
        for _ in range(3):
            seen = []
            for data, labels in loader:
                assert torch.equal(data[:, 0], labels.float())
                seen += labels.tolist()
            assert seen == list(range(20))
    finally:
        loader.terminate()


@pytest.mark.parametrize("indefinitely", [True, False])
@pytest.mark.parametrize("early", [True, False])
def test_breaking_off_starts_over(indefinitely, early):
    accessor = poptorch.AsynchronousDataAccessor(
        poptorch.DataLoader(options(), Numbers(10), batch_size=2),
        load_indefinitely=indefinitely,
        early_preload=early,
        **FAST,
    )
    for stop_after in (1, 3, 5, 2):
        seen = []
        for count, (_, labels) in enumerate(accessor, start=1):
            seen += labels.tolist()
            if count == stop_after:
                break
        assert seen == list(range(2 * stop_after))
    assert labels_of(accessor) == list(range(10))
    with pytest.raises(StopIteration):
        next(accessor)
    accessor.terminate()


def test_spinning_worker():
    accessor = poptorch.AsynchronousDataAccessor(
        poptorch.DataLoader(options(), Numbers(20), batch_size=2), miss_sleep_time_in_ms=0, buffer_size=2, **FAST
    )
    assert labels_of(accessor) == list(range(20))
    accessor.terminate()


def test_rebatching_merges_the_leftovers_of_workers():
    loader = poptorch.DataLoader(
        options(3),
        Numbers(29),
        batch_size=3,
        num_workers=2,
        mode=poptorch.DataLoaderMode.AsyncRebatched,
        rebatched_worker_size=4,
        async_options=FAST,
    )
    assert len(loader) == 3 and labels_of(loader) == list(range(27))
    loader.terminate()
    with pytest.raises(AssertionError):
        poptorch.DataLoader(
            options(), Numbers(8), mode=poptorch.DataLoaderMode.AsyncRebatched, rebatched_worker_size=2
        )


def test_async_without_dropping_ends_with_a_short_item():
    loader = poptorch.DataLoader(
        options(2), Numbers(10), batch_size=2, drop_last=False, mode=poptorch.DataLoaderMode.Async, async_options=FAST
    )
    assert len(loader) == 3
    for _ in range(2):
        assert [item[1].tolist() for item in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    loader.terminate()


def test_item_structures():
    tensors = [torch.arange(4), torch.arange(4) + 10]

    def first(dataset):
        accessor = poptorch.AsynchronousDataAccessor(dataset, **FAST)
        item = next(iter(accessor))
        if isinstance(item, torch.Tensor):
            item = item.clone()
        accessor.terminate()
        return item

    assert torch.equal(first(tensors), tensors[0])
    assert isinstance(first([tuple(tensors)]), list)
    assert list(first([{"b": tensors[0], "a": tensors[1]}])) == ["b", "a"]


Pair = collections.namedtuple("Pair", "a b")


class PairParser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.a
        yield struct.b

    def reconstruct(self, original_structure, tensor_iterator):
        return Pair(next(tensor_iterator), next(tensor_iterator))


def test_custom_item_type():
    poptorch.registerCustomArgParser(Pair, PairParser())
    try:
        accessor = poptorch.AsynchronousDataAccessor([Pair(torch.ones(2), torch.zeros(2))])
        item = next(iter(accessor))
        assert isinstance(item, Pair) and item.a.sum() == 2
        accessor.terminate()
    finally:
        poptorch.registerCustomArgParser(Pair, None)
    with pytest.raises(poptorch.Error):
        poptorch.registerCustomArgParser(Pair, object())


def test_rebatched_accessor_length():
    accessor = poptorch.AsynchronousDataAccessor(
        poptorch.DataLoader(options(), Numbers(20), batch_size=2), rebatched_size=5, **FAST
    )
    assert len(accessor) == 4
    assert [labels.tolist() for _, labels in accessor][-1] == [15, 16, 17, 18, 19]
    accessor.terminate()


@pytest.mark.parametrize("dataset", [[], ["text"], [(torch.zeros(1), "text")]])
def test_failure_at_start_is_an_error(dataset):
    with pytest.raises(poptorch.Error, match="worker thread failed to start"):
        poptorch.AsynchronousDataAccessor(dataset, **FAST)


def test_failure_later_reaches_the_consumer():
    accessor = poptorch.AsynchronousDataAccessor(
        poptorch.DataLoader(options(), FailsLater(10), batch_size=1), buffer_size=1, **FAST
    )
    with pytest.raises(AssertionError, match="element six is broken"):
        list(accessor)
    accessor.terminate()


def test_accessor_checks_its_dataset():
    loader = poptorch.DataLoader(options(), Numbers(8), mode=poptorch.DataLoaderMode.Async, async_options=FAST)
    with pytest.raises(poptorch.Error, match="already loads asynchronously"):
        poptorch.AsynchronousDataAccessor(loader)
    loader.terminate()
    with pytest.raises(AssertionError):
        poptorch.AsynchronousDataAccessor(poptorch.DataLoader(options(), Numbers(9), batch_size=2, drop_last=False))
    with pytest.raises(AssertionError):
        poptorch.AsynchronousDataAccessor(Numbers(9), rebatched_size=1)
