"""The cache of compiled programs: options.enableExecutableCaching and POPTORCH_CACHE_DIR."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import poptorch
import pytest
import torch

from support.models import quiet

X, TARGET = torch.ones(4, 6), torch.zeros(4, 2)


class Net(torch.nn.Module):
    def __init__(self, constant=1.0, seed=3):
        super().__init__()
        torch.manual_seed(seed)
        self.first = torch.nn.Linear(6, 8)
        self.drop = torch.nn.Dropout(0.5)
        self.last = torch.nn.Linear(8, 2)
        self.constant = constant

    def forward(self, x, target=None):
        y = self.last(self.drop(torch.relu(self.first(x)))) * self.constant
        if target is None:
            return y
        return y, torch.nn.functional.mse_loss(y, target)


def options(folder, seed=7):
    return quiet().randomSeed(seed).enableExecutableCaching(str(folder))


def train(folder, model=None, opts=None, lr=0.1, x=X, steps=4):
    """The losses, and what the cache has said."""
    model = model or Net()
    trainer = poptorch.trainingModel(model, opts or options(folder), poptorch.optim.Adam(model.parameters(), lr=lr))
    target = torch.zeros(x.shape[0], 2)
    losses = [trainer(x, target)[1].tolist() for _ in range(steps)]
    return losses, {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.fixture(name="said")
def what_the_cache_says(capfd):
    """Lines of the log, each time it is called those that are new."""
    poptorch.setLogLevel("DEBUG")
    capfd.readouterr()

    def lines():
        out, err = capfd.readouterr()
        found = [line[line.index("[cache] ") + 8:] for line in (out + err).splitlines() if "[cache] " in line]
        return [line.split(":")[0] for line in found] if not lines.whole else found

    lines.whole = False
    yield lines
    poptorch.setLogLevel("WARN")


def entries(folder):
    return sorted(path.name for path in pathlib.Path(folder).iterdir())


# -- hits and misses --------------------------------------------------------------------------------------------------
def test_one_compilation_makes_the_directory_and_one_entry(tmp_path, said):
    folder = tmp_path / "made" / "for_it"
    train(folder)
    assert len(entries(folder)) == 1
    assert said() == ["miss", "kept"]


def test_a_hit_trains_bit_for_bit_like_the_first(tmp_path, said):
    losses, state = train(tmp_path)
    said()
    again, state_again = train(tmp_path)
    assert said() == ["hit"] and len(entries(tmp_path)) == 1
    assert again == losses
    assert all(torch.equal(tensor, state_again[name]) for name, tensor in state.items())


def test_weights_inputs_seed_and_numbers_of_the_optimiser_are_not_in_the_key(tmp_path, said):
    train(tmp_path)
    train(tmp_path, Net(seed=5), lr=0.3, x=torch.randn(4, 6), opts=options(tmp_path, seed=99))
    assert said() == ["miss", "kept", "hit"] and len(entries(tmp_path)) == 1
    plain, _ = train(None, Net(seed=5), opts=quiet().randomSeed(7), lr=0.3)
    assert train(tmp_path, Net(seed=5), lr=0.3)[0] == plain


def with_anchor(opts):
    opts.anchorTensor("l", "loss")
    return opts


@pytest.mark.parametrize("change", [
    lambda folder: train(folder, Net(constant=2.0)),
    lambda folder: train(folder, x=torch.ones(8, 6)),
    lambda folder: train(folder, opts=options(folder).replicationFactor(2), x=torch.ones(8, 6)),
    lambda folder: train(folder, opts=with_anchor(options(folder))),
    lambda folder: poptorch.inferenceModel(Net(), options(folder))(X),
    lambda folder: poptorch.trainingModel(Net(), options(folder))(X, TARGET),
])
def test_another_program_is_another_entry(tmp_path, said, change):
    train(tmp_path)
    said()
    change(tmp_path)
    assert said() == ["miss", "kept"] and len(entries(tmp_path)) == 2


def test_constants_are_in_the_key(tmp_path):
    class Shifted(torch.nn.Module):
        def __init__(self, numbers):
            super().__init__()
            self.numbers = numbers

        def forward(self, x):
            return x + torch.tensor(self.numbers)

    for numbers in ([1.0] * 6, [2.0] * 6, [1.0] * 6):
        assert torch.equal(poptorch.inferenceModel(Shifted(numbers), options(tmp_path))(X), X + numbers[0])
    assert len(entries(tmp_path)) == 2


def test_arguments_of_calls_on_the_host_are_in_the_key(tmp_path, said):
    class Filled(torch.nn.Module):
        def __init__(self, number):
            super().__init__()
            self.number = number

        def forward(self, x):
            return torch.nan_to_num(x, nan=self.number)

    x = torch.full((4, 6), float("nan"))
    poptorch.poptorch_core.remove_handler("aten::nan_to_num")
    try:
        for number in (0.25, 0.75, 0.25):
            executor = poptorch.inferenceModel(Filled(number), options(tmp_path))
            assert torch.equal(executor(x), torch.full((4, 6), number))
            assert executor._core.host_calls() == ["aten::nan_to_num"]
    finally:
        poptorch.poptorch_core.restore_handlers()
    assert said() == ["miss", "kept", "miss", "kept", "hit"]


class OwnGradient(torch.autograd.Function):
    factor = 1

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient * OwnGradient.factor


def test_what_only_this_process_knows_is_not_cached(tmp_path, said):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = poptorch.CPU(lambda x: x + 1, "plus_one")

        def forward(self, x):
            return self.layer(x)

    assert torch.equal(poptorch.inferenceModel(Layer(), options(tmp_path))(X), X + 1)
    assert said() == ["not used"] and entries(tmp_path) == []

    class Trained(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(6))

        def forward(self, x):
            return poptorch.identity_loss(OwnGradient.apply(self.weight * x).sum(), "none")

    for OwnGradient.factor, expected in ((1, -3.0), (2, -7.0)):
        model = Trained()
        poptorch.trainingModel(model, options(tmp_path), torch.optim.SGD(model.parameters(), lr=1.0))(X)
        assert torch.equal(model.weight, torch.full((6,), expected))
    assert entries(tmp_path) == []


def test_the_environment_names_a_directory(tmp_path, monkeypatch, said):
    monkeypatch.setenv("POPTORCH_CACHE_DIR", str(tmp_path / "cache"))
    train(None, opts=quiet().randomSeed(7))
    train(None, opts=quiet().randomSeed(7))
    assert said() == ["miss", "kept", "hit"] and len(entries(tmp_path / "cache")) == 1
    train(None, opts=quiet().randomSeed(7).enableExecutableCaching(None))
    assert said() == []


def test_a_model_of_the_ipu_is_not_cached(tmp_path, capfd):
    poptorch.inferenceModel(Net(), options(tmp_path / "cache").useIpuModel(True))(X)
    assert "are not cached" in capfd.readouterr().err and not (tmp_path / "cache").exists()


def test_a_cached_program_has_no_graph_to_show(tmp_path):
    for _ in range(2):
        executor = poptorch.inferenceModel(Net(), options(tmp_path))
        executor.compile(X)
    with pytest.raises(poptorch.Error, match="comes from a file or the cache"):
        executor._core.graph_text()


def test_who_wants_the_graph_gets_it(tmp_path, monkeypatch, said):
    poptorch.inferenceModel(Net(), options(tmp_path / "cache"))(X)
    said()
    monkeypatch.setenv("POPTORCH_EXPORT_PROTO_FILE", str(tmp_path / "graph.txt"))
    poptorch.inferenceModel(Net(), options(tmp_path / "cache"))(X)
    assert said() == ["not used"] and "dot" in (tmp_path / "graph.txt").read_text()


def test_a_model_from_the_cache_can_be_saved(tmp_path):
    losses = []
    for _ in range(2):
        model = Net()
        trainer = poptorch.trainingModel(model, options(tmp_path / "cache"), poptorch.optim.Adam(model.parameters()))
        trainer(X, TARGET)
        trainer.save(tmp_path / "model")
        losses.append([poptorch.load(tmp_path / "model")(X, TARGET)[1].item(), trainer(X, TARGET)[1].item()])
    assert len(set(losses[0] + losses[1])) == 1


# -- files that cannot be used ----------------------------------------------------------------------------------------
def newer(bytes_):
    return bytes_[:8] + (99).to_bytes(4, "little") + bytes_[12:]


@pytest.mark.parametrize("spoil", [
    newer,
    lambda bytes_: b"",
    lambda bytes_: bytes_[: len(bytes_) // 2],
    lambda bytes_: bytes_[:-100] + bytes([bytes_[-100] ^ 4]) + bytes_[-99:],
    lambda bytes_: b"something else",
])
def test_an_entry_that_cannot_be_used_is_replaced(tmp_path, said, spoil):
    losses, _ = train(tmp_path)
    (entry,) = tmp_path.iterdir()
    good = entry.read_bytes()
    entry.write_bytes(spoil(good))
    said.whole = True
    said()
    assert train(tmp_path)[0] == losses
    lines = said()
    assert "cannot be used and is replaced" in lines[0] and lines[1].startswith("kept")
    assert entry.read_bytes() == good and len(entries(tmp_path)) == 1


def test_the_program_of_another_model_is_replaced(tmp_path, said):
    train(tmp_path)
    (first,) = tmp_path.iterdir()
    other = first.read_bytes()
    first.unlink()
    poptorch.inferenceModel(Net(), options(tmp_path))(X)
    (second,) = tmp_path.iterdir()
    second.write_bytes(other)
    said()
    assert poptorch.inferenceModel(Net().eval(), options(tmp_path))(X).shape == (4, 2)
    poptorch.inferenceModel(Net(), options(tmp_path))(X)
    assert "miss" in said()
    assert second.read_bytes() != other


def test_other_instruction_sets_have_entries_of_their_own(tmp_path):
    here = run(tmp_path, ASPEN_CPU_ISA="baseline")
    assert here == run(tmp_path, ASPEN_CPU_ISA="baseline") and len(entries(tmp_path)) == 1
    run(tmp_path)
    assert len(entries(tmp_path)) == 2


# -- the directory ----------------------------------------------------------------------------------------------------
def test_what_was_used_longest_ago_goes_first(tmp_path, monkeypatch, said):
    names = []
    for constant in (1.0, 2.0, 3.0):
        train(tmp_path, Net(constant), steps=1)
        (new,) = set(entries(tmp_path)) - set(names)
        names.append(new)
        long_ago = time.time() - 1000 + 10 * constant
        os.utime(tmp_path / new, (long_ago, long_ago))
    train(tmp_path, Net(1.0), steps=1)  # used again
    size = (tmp_path / names[0]).stat().st_size
    monkeypatch.setenv("ASPEN_CACHE_LIMIT", str(int(3.5 * size)))
    said()
    train(tmp_path, Net(4.0), steps=1)
    assert said() == ["miss", "kept", "removed"]
    assert len(entries(tmp_path)) == 3 and names[1] not in entries(tmp_path) and names[0] in entries(tmp_path)
    monkeypatch.setenv("ASPEN_CACHE_LIMIT", "1K")
    train(tmp_path, Net(5.0), steps=1)
    assert len(entries(tmp_path)) == 1  # what is new stays


def test_a_limit_that_is_no_size_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("ASPEN_CACHE_LIMIT", "much")
    with pytest.raises(poptorch.Error, match='ASPEN_CACHE_LIMIT is "much"; expected a number of bytes'):
        train(tmp_path)


def test_files_of_others_stay(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "program.aspen").write_text("mine")
    monkeypatch.setenv("ASPEN_CACHE_LIMIT", "1K")
    train(tmp_path)
    assert {"notes.txt", "program.aspen"} < set(entries(tmp_path)) and len(entries(tmp_path)) == 3


def test_a_directory_that_cannot_be_written_is_a_warning(capfd):
    losses, _ = train("/proc/cache")
    assert "not kept in the cache" in capfd.readouterr().err
    assert losses == train(None, opts=quiet().randomSeed(7))[0]


# -- several processes ------------------------------------------------------------------------------------------------
PROGRAM = textwrap.dedent("""
    import sys
    sys.path.insert(0, sys.argv[2])
    from test_executable_cache import Net, train
    print(train(sys.argv[1])[0])
""")


def start(folder, **environment):
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "POPTORCH_LOG_LEVEL": "DEBUG", **environment}
    command = [sys.executable, "-c", PROGRAM, str(folder), os.path.dirname(__file__)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)


def run(folder, **environment):
    out, err = start(folder, **environment).communicate(timeout=120)
    assert out, err
    return out


def test_processes_share_a_directory(tmp_path):
    processes = [start(tmp_path) for _ in range(3)]
    finished = [process.communicate(timeout=120) for process in processes]
    assert len({out for out, _ in finished}) == 1 and finished[0][0]
    assert len(entries(tmp_path)) == 1
    said = sum((err.split() for _, err in finished), [])
    assert said.count("kept:") == 1 and said.count("hit:") == 2  # one compiled, the others waited for it


def test_a_process_that_is_killed_leaves_nothing_that_is_used(tmp_path):
    """Killed at any time, in the compilation and in the writing of the entry."""
    expected = run(tmp_path / "whole")
    folder = tmp_path / "killed"
    folder.mkdir()
    kills = 0
    for _ in range(12):
        for path in folder.glob("*.aspen"):
            path.unlink()
        process = start(folder)
        deadline = time.time() + 60
        while not entries(folder) and process.poll() is None and time.time() < deadline:
            time.sleep(0.0005)  # until it has its turn
        time.sleep(0.004 * kills)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        assert all(name.endswith(".unfinished") for name in entries(folder) if not name.endswith(".aspen"))
    assert run(folder) == expected
    assert len(entries(folder)) == 1 and entries(folder)[0].endswith(".aspen")
    assert run(folder) == expected


@pytest.fixture(name="small_disk")
def disk_of_4_kilobytes(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", folder], check=False, capture_output=True)
    if made.returncode != 0:
        pytest.skip("a small disk can only be made by root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_a_warning(small_disk, capfd):
    losses, _ = train(small_disk)
    assert "not kept in the cache" in capfd.readouterr().err
    assert entries(small_disk) == []
    assert train(small_disk)[0] == losses
    trainer = poptorch.inferenceModel(Net(), quiet())
    trainer.compile(X)
    with pytest.raises(poptorch.Error, match=r"\[save\] .*No space left on device"):
        trainer.save(small_disk / "model")
    assert entries(small_disk) == []


def test_a_disk_that_is_read_only_is_read(tmp_path, small_disk, capfd):
    train(tmp_path / "cache")
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    (entry,) = (tmp_path / "cache").iterdir()
    (small_disk / entry.name).write_bytes(entry.read_bytes())
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    poptorch.setLogLevel("DEBUG")
    capfd.readouterr()
    train(small_disk)
    assert "hit:" in capfd.readouterr().err
    train(small_disk, Net(2.0))
    poptorch.setLogLevel("WARN")
    assert "not kept in the cache" in capfd.readouterr().err
    assert entries(small_disk) == [entry.name]
