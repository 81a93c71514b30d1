"""poptorch.DataLoader: nothing is lost between workers, batches of a sampler stay whole, items are like the first."""

import subprocess
import sys
import textwrap

import poptorch
import pytest
import torch

FAST = {"sharing_strategy": poptorch.SharingStrategy.Fork}  # starts without importing torch again
MODES = list(poptorch.DataLoaderMode)


class Numbers(torch.utils.data.Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.full((2,), float(index)), index


class DividedStream(torch.utils.data.IterableDataset):
    """Each worker yields its part."""

    def __init__(self, length):
        super().__init__()
        self.length = length

    def __len__(self):
        return self.length

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.length, step))


def options(device_iterations=1, gradient_accumulation=1):
    opts = poptorch.Options().deviceIterations(device_iterations)
    opts.Training.gradientAccumulation(gradient_accumulation)
    return opts


def no_worker_init(_):
    """Says that the data set divides itself among the workers."""


@pytest.mark.parametrize("elements,workers,batch,items", [(100, 5, 4, 25), (101, 7, 4, 25), (10, 3, 4, 2)])
def test_rebatching_loses_nothing_of_iterable_data(elements, workers, batch, items):
    loader = poptorch.DataLoader(
        options(), DividedStream(elements), batch_size=batch, num_workers=workers, worker_init_fn=no_worker_init,
        mode=poptorch.DataLoaderMode.AsyncRebatched, async_options=FAST,
    )
    for _ in range(2):
        seen = [item.tolist() for item in loader]
        assert len(seen) == len(loader) == items
        assert all(len(item) == batch for item in seen)
        numbers = sorted(number for item in seen for number in item)
        assert len(set(numbers)) == items * batch
    loader.terminate()


def count_in_front(elements):
    """Says how many elements it was given."""
    labels = torch.tensor([label for _, label in elements])
    return {"count": torch.tensor([len(elements)]), "labels": labels}


def sampler_of(length, batch_size=2):
    return torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(range(length)), batch_size, drop_last=True)


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("mode", MODES, ids=[mode.name for mode in MODES])
def test_batches_of_a_sampler_are_collated_one_by_one(mode, workers):
    loader = poptorch.DataLoader(
        options(2, 2), Numbers(20), batch_sampler=sampler_of(20), collate_fn=count_in_front, num_workers=workers,
        mode=mode, async_options=FAST if mode else None,
    )
    assert len(loader) == 2 and loader.combinedBatchSize == 8
    for _ in range(2):
        items = [(item["count"].tolist(), item["labels"].tolist()) for item in loader]
        assert items == [([2] * 4, list(range(8))), ([2] * 4, list(range(8, 16)))]
    loader.terminate()


@pytest.mark.parametrize("mode", MODES, ids=[mode.name for mode in MODES])
def test_last_batches_of_a_sampler_make_a_short_item_if_asked_for(mode):
    loader = poptorch.DataLoader(
        options(3), Numbers(10), batch_sampler=sampler_of(10), drop_last=False, mode=mode,
        async_options=FAST if mode else None,
    )
    assert len(loader) == 2
    for _ in range(2):
        assert [item[1].tolist() for item in loader] == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]]
    loader.terminate()


@pytest.mark.parametrize("mode", MODES[1:], ids=[mode.name for mode in MODES[1:]])
def test_sampler_without_a_batch_size_loads_asynchronously(mode):
    loader = poptorch.DataLoader(
        options(2), Numbers(8), batch_sampler=[[0, 3], [1, 2], [4, 5], [7, 6]], mode=mode, async_options=FAST
    )
    assert loader.combinedBatchSize is None
    assert [item[1].tolist() for item in loader] == [[0, 3, 1, 2], [4, 5, 7, 6]]
    loader.terminate()


def test_collated_containers_are_put_together():
    def collate(elements):
        return [torch.stack([row for row, _ in elements]), {"names": [str(label) for _, label in elements]}]

    loader = poptorch.DataLoader(options(2), Numbers(4), batch_sampler=sampler_of(4), collate_fn=collate)
    ((rows, more),) = list(loader)
    assert rows[:, 0].tolist() == [0, 1, 2, 3] and more == {"names": ["0", "1", "2", "3"]}


# -- items like the first --------------------------------------------------------------------------------------------
def items_of(items, **kwargs):
    accessor = poptorch.AsynchronousDataAccessor(items, **FAST, **kwargs)
    result = [item.clone() for item in accessor]
    accessor.terminate()
    return result


def test_later_items_are_converted_to_the_types_of_the_first():
    items = items_of([torch.tensor([1.5]), torch.tensor([2], dtype=torch.int32), torch.tensor([3.0]).double()])
    assert [item.item() for item in items] == [1.5, 2, 3]
    assert all(item.dtype is torch.float32 for item in items)


def test_parts_of_rebatched_items_are_converted_to_the_types_of_the_first():
    items = items_of([torch.tensor([1.0]), torch.tensor([2.0]).double(), torch.tensor([3]), torch.tensor([4.0])],
                     rebatched_size=2)
    assert [item.tolist() for item in items] == [[1, 2], [3, 4]]
    assert all(item.dtype is torch.float32 for item in items)


@pytest.mark.parametrize("rebatched", [{}, {"rebatched_size": 2}], ids=["whole", "rebatched"])
def test_item_of_another_shape_is_an_error(rebatched):
    with pytest.raises(AssertionError, match="shape"):
        items_of([torch.zeros(2, 3), torch.zeros(2, 1)], **rebatched)


# -- several processes -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", MODES[1:], ids=[mode.name for mode in MODES[1:]])
def test_shuffled_shares_load_asynchronously_as_synchronously(mode):
    def labels(mode, async_options):
        opts = options(2).randomSeed(5)
        opts.Distributed.configureProcessId(1, 3)
        loader = poptorch.DataLoader(opts, Numbers(50), batch_size=2, shuffle=True, mode=mode,
                                     async_options=async_options)
        seen = [[item[1].tolist() for item in loader] for _ in range(3)]
        loader.terminate()
        return seen

    wanted = labels(poptorch.DataLoaderMode.Sync, None)
    assert wanted[0] != wanted[1]
    assert labels(mode, {}) == wanted  # sends the loader to a new process


def test_loader_with_a_generator_loads_asynchronously():
    generator = torch.Generator().manual_seed(7)
    loader = poptorch.DataLoader(options(), Numbers(8), batch_size=8, shuffle=True, generator=generator,
                                 mode=poptorch.DataLoaderMode.Async)
    (item,) = [item[1].tolist() for item in loader]
    loader.terminate()
    assert sorted(item) == list(range(8)) and item != list(range(8))


# -- what goes wrong -------------------------------------------------------------------------------------------------
class FailsLater(Numbers):
    def __getitem__(self, index):
        if index == 6:
            raise RuntimeError("element six is broken")
        return super().__getitem__(index)


def test_traceback_of_a_failed_worker_goes_to_stderr(capfd):
    loader = poptorch.DataLoader(options(), FailsLater(8), mode=poptorch.DataLoaderMode.Async, async_options=FAST)
    with pytest.raises(AssertionError):
        list(loader)
    loader.terminate()
    log = capfd.readouterr().err
    assert "Traceback" in log and "element six is broken" in log


def test_worker_process_is_logged_at_debug(capfd):
    poptorch.setLogLevel("DEBUG")
    try:
        loader = poptorch.DataLoader(options(), Numbers(8), mode=poptorch.DataLoaderMode.Async, async_options=FAST)
    finally:
        poptorch.setLogLevel("WARN")
    pid = loader._accessor._process.pid
    loader.terminate()
    assert f"AsynchronousDataAccessor worker process: {pid}" in capfd.readouterr().err


@pytest.mark.parametrize("how", [{"batch_size": 3}, {"batch_sampler": sampler_of(4)}], ids=["elements", "batches"])
def test_data_set_smaller_than_a_batch_is_warned_of(capfd, how):
    loader = poptorch.DataLoader(options(4), Numbers(4), **how)
    assert list(loader) == [] and len(loader) == 0
    assert "fewer than" in capfd.readouterr().err


@pytest.mark.parametrize("from_stdin", [True, False], ids=["stdin", "no file"])
def test_interactive_session_is_told_of_the_fork_strategy(from_stdin):
    program = textwrap.dedent("""
        import poptorch, torch
        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return torch.ones(2)
        for strategy in (poptorch.SharingStrategy.ForkServer, poptorch.SharingStrategy.SharedMemory):
            try:
                poptorch.DataLoader(poptorch.Options(), Rows(), mode=poptorch.DataLoaderMode.Async,
                                    async_options={"sharing_strategy": strategy})
            except poptorch.Error as error:
                print("told" if "SharingStrategy.Fork" in str(error) else error)
        loader = poptorch.DataLoader(poptorch.Options(), Rows(), mode=poptorch.DataLoaderMode.Async,
                                     async_options={"sharing_strategy": poptorch.SharingStrategy.Fork})
        print("items", len(list(loader)))
        loader.terminate()
    """)
    arguments = ["-"] if from_stdin else ["-c", program]
    result = subprocess.run([sys.executable, *arguments], input=program, capture_output=True, text=True, check=False,
                            timeout=120)
    assert result.stdout.split("\n") == ["told", "told", "items 4", ""], result.stderr
