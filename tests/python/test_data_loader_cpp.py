"""poptorch::DataLoader of C++ programs beside poptorch.DataLoader: the same seed and options give the same items."""

import pathlib
import subprocess

import poptorch
import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODES = {"sync": poptorch.DataLoaderMode.Sync, "async": poptorch.DataLoaderMode.Async,
         "rebatched": poptorch.DataLoaderMode.AsyncRebatched}
SIZE, SEED, EPOCHS = 333, 11, 3


class Plane(torch.utils.data.Dataset):
    """That of examples/cpp/own_dataset.cpp."""

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        x = torch.tensor([index, index * index % 97], dtype=torch.float) / torch.tensor([float(SIZE), 97.0])
        return x, 3 * x[0:1] - 2 * x[1:2] + 1


def items_of_the_example(tmp_path, **arguments):
    file = tmp_path / "items.pt"
    words = [word for name, value in arguments.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    result = subprocess.run([ROOT / "build/release/examples/own_dataset", "--seed", str(SEED), "--epochs", str(EPOCHS),
                             "--items", file, *words], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    return torch.load(file)


def items_of_python(mode, workers, shuffle, drop_last, process=None):
    options = poptorch.Options().deviceIterations(4).randomSeed(SEED)  # seeds torch, too
    if process is not None:
        options.Distributed.configureProcessId(*process)
    asynchronous = {"sharing_strategy": poptorch.SharingStrategy.Fork}
    loader = poptorch.DataLoader(options, Plane(), batch_size=5, shuffle=shuffle, drop_last=drop_last,
                                 num_workers=workers, mode=MODES[mode], async_options=asynchronous)
    items = [[tensor.clone() for tensor in item] for _ in range(EPOCHS) for item in loader]
    loader.terminate()
    return items


def word(flag):
    return "yes" if flag else "no"


@pytest.mark.parametrize("drop_last", [True, False], ids=["whole", "remainder"])
@pytest.mark.parametrize("shuffle", [True, False], ids=["shuffled", "in order"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", MODES)
def test_items_are_the_same(tmp_path, mode, workers, shuffle, drop_last):
    ours = items_of_the_example(tmp_path, mode=mode, workers=workers, shuffle=word(shuffle), drop_last=word(drop_last))
    theirs = items_of_python(mode, workers, shuffle, drop_last)
    assert len(ours) == EPOCHS * (SIZE // 20 + (0 if drop_last else 1))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("drop_last", [True, False], ids=["whole", "remainder"])
@pytest.mark.parametrize("shuffle", [True, False], ids=["shuffled", "in order"])
@pytest.mark.parametrize("process", [0, 2])
def test_shares_of_processes_are_the_same(tmp_path, process, shuffle, drop_last):
    ours = items_of_the_example(tmp_path, mode="async", workers=3, shuffle=word(shuffle), drop_last=word(drop_last),
                                process=f"{process}/3")
    torch.testing.assert_close(ours, items_of_python("sync", 0, shuffle, drop_last, (process, 3)), rtol=0, atol=0)


@pytest.mark.parametrize("options", [{}, {"mode": poptorch.DataLoaderMode.Async, "num_workers": 2}],
                         ids=["sync", "shared items"])
def test_batches_have_at_least_one_row(options):
    with pytest.raises(ValueError, match="batch_size is 0"):
        poptorch.DataLoader(poptorch.Options(), Plane(), batch_size=0, **options)
