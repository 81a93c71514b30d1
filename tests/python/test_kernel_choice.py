"""Close kernels are timed where the answer can be kept, and then serve equal requests for good."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import poptorch
import pytest
import torch

from support.models import quiet

CHOICES = "choices"  # the folder of the table, beside that of the programs
X, LABELS = torch.linspace(-1, 1, 2 * 16 * 12 * 12).view(2, 16, 12, 12), torch.tensor([1, 0])


class Net(torch.nn.Module):
    """Convolutions of one pixel and a product of some size: each has several kernels."""

    def __init__(self, cuts=False):
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Conv2d(16, 24, 1)
        self.second = torch.nn.Conv2d(24, 32, 3)
        self.last = torch.nn.Linear(32 * 100, 10)
        self.cuts = cuts

    def forward(self, x, labels=None):
        x = torch.relu(self.first(x))
        if self.cuts:
            poptorch.Block.start("second", ipu_id=1)
        y = self.last(torch.relu(self.second(x)).flatten(1))
        if labels is None:
            return y
        return y, torch.nn.functional.cross_entropy(y, labels)


def options(folder):
    made = quiet().randomSeed(7)
    return made if folder is None else made.enableExecutableCaching(str(folder))


def train(folder, cuts=False, steps=3):
    """The bits that are learnt."""
    model, opts = Net(cuts), options(folder)
    if cuts:
        opts.setExecutionStrategy(poptorch.ShardedExecution())
    trainer = poptorch.trainingModel(model, opts, poptorch.optim.SGD(model.parameters(), lr=0.1))
    losses = [trainer(X, LABELS)[1].item() for _ in range(steps)]
    return losses, [tensor.clone() for tensor in model.state_dict().values()]


def same(a, b):
    return a[0] == b[0] and all(torch.equal(x, y) for x, y in zip(a[1], b[1]))


@pytest.fixture(autouse=True)
def time_enough(monkeypatch, tmp_path):
    monkeypatch.setenv("ASPEN_TUNING_SECONDS", "60")
    monkeypatch.setenv("ASPEN_CHOICES_DIR", str(tmp_path / CHOICES))


@pytest.fixture(name="said")
def what_the_choice_says(capfd):
    poptorch.setLogLevel("DEBUG")
    capfd.readouterr()

    def lines():
        out, err = capfd.readouterr()
        return [line[line.index("[kernels] ") + 10:] for line in (out + err).splitlines() if "[kernels] " in line]

    yield lines
    poptorch.setLogLevel("WARN")


def table_of(folder):
    (found,) = (pathlib.Path(folder) / CHOICES).glob("kernels-*.aspen")
    return found


def test_the_folder_of_programs_holds_programs_only(tmp_path, said):
    train(tmp_path / "programs")
    assert any(line.endswith(" is taken") for line in said())
    (entry,) = (tmp_path / "programs").iterdir()
    assert entry.suffix == ".aspen" and table_of(tmp_path).exists()


@pytest.mark.parametrize("variables, expected", [
    ({"XDG_CACHE_HOME": "{}/caches", "HOME": "{}/home"}, "caches/aspen"),
    ({"XDG_CACHE_HOME": "caches", "HOME": "{}/home"}, "home/.cache/aspen"),  # not absolute: as if it were not there
    ({"XDG_CACHE_HOME": "", "HOME": "{}/home"}, "home/.cache/aspen"),
    ({"XDG_CACHE_HOME": "", "HOME": ""}, None),
])
def test_choices_are_kept_with_the_caches_of_the_user(tmp_path, monkeypatch, said, variables, expected):
    monkeypatch.delenv("ASPEN_CHOICES_DIR")
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    train(tmp_path / "programs", steps=1)
    assert any(line.endswith(" is taken") for line in said()) == (expected is not None)
    assert [path.parent for path in tmp_path.rglob("kernels-*")] == ([tmp_path / expected] if expected else [])


def test_choices_and_their_reasons_are_logged(tmp_path, said, capfd):
    train(tmp_path / "programs")
    lines = said()
    timed = [line for line in lines if line.endswith(" is taken")]
    assert any(re.search(r"^conv\(.*: pointwise \d+\.\d us, onednn \d+\.\d us; (pointwise|onednn) is taken$", line)
               for line in timed), lines
    counted = re.fullmatch(r"(\d+) of (\d+) requests with close candidates were timed, 0 were known", lines[-1])
    assert counted[1] == counted[2] and int(counted[1]) >= len(timed)  # of some only one turned out to exist
    poptorch.setLogLevel("TRACE")
    poptorch.inferenceModel(Net(), options(None))(X)
    err = capfd.readouterr().err
    assert re.search(r"kernel of conv_affine\(f32\[2, 16, 12, 12\].*: pointwise by rule; pointwise: best, .*; "
                     r"depthwise: cannot, channels mix; .*; onednn: close, reorders its operands", err)


def test_without_a_cache_rules_decide(said):
    assert same(train(None), train(None))
    assert said() == []


def test_what_is_kept_is_not_timed_again(tmp_path, said):
    train(tmp_path / "programs")
    assert any(line.endswith(" is taken") for line in said())
    train(tmp_path / "programs", cuts=True)  # another program, with requests of the first
    assert not any("conv" in line for line in said())
    poptorch.inferenceModel(Net(), options(tmp_path / "programs"))(X)  # its weights stay, which makes other requests
    assert any("conv" in line and "stays" in line for line in said())


def test_placements_train_the_same_bits(tmp_path):
    assert same(train(tmp_path / "programs"), train(tmp_path / "programs", cuts=True))


def test_no_time_is_no_trial(tmp_path, monkeypatch, said):
    monkeypatch.setenv("ASPEN_TUNING_SECONDS", "0")
    assert same(train(tmp_path / "programs"), train(None))
    assert not any(line.endswith(" is taken") for line in said())
    assert not list(tmp_path.rglob("kernels-*"))
    monkeypatch.setenv("ASPEN_TUNING_SECONDS", "later")
    monkeypatch.setenv("ASPEN_CHOICES_DIR", str(tmp_path / "none"))
    with pytest.raises(poptorch.Error, match='ASPEN_TUNING_SECONDS is "later"; expected a number of seconds'):
        train(tmp_path / "other")


PROGRAM = textwrap.dedent("""
    import sys
    sys.path.insert(0, sys.argv[2])
    from test_kernel_choice import train
    losses, state = train(sys.argv[1], cuts=sys.argv[3] == "cut")
    print(losses, [float(tensor.double().sum()) for tensor in state])
""")


def run(folder, placement="whole", **environment):
    """What another process learns, and what it says."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "POPTORCH_LOG_LEVEL": "DEBUG",
                 "ASPEN_CHOICES_DIR": str(folder / CHOICES), **environment}
    command = [sys.executable, "-c", PROGRAM, str(folder / "programs"), os.path.dirname(__file__), placement]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=120, check=True)
    return done.stdout, done.stderr


def only_table(folder, to):
    (to / CHOICES).mkdir(parents=True)
    (to / CHOICES / table_of(folder).name).write_bytes(table_of(folder).read_bytes())
    return to


def test_another_process_makes_the_same_choice(tmp_path):
    learnt, log = run(tmp_path / "first")
    assert " is taken" in log
    again, log = run(tmp_path / "first")
    assert again == learnt and "hit:" in log and "[kernels]" not in log
    # Without the program, in another placement and with another number of threads.
    for number, (placement, threads) in enumerate([("whole", "1"), ("cut", "2")]):
        folder = only_table(tmp_path / "first", tmp_path / str(number))
        again, log = run(folder, placement, ASPEN_NUM_THREADS=threads)
        assert again == learnt and " is taken" not in log


@pytest.mark.parametrize("spoil", [
    lambda bytes_: bytes_[:8] + (99).to_bytes(4, "little") + bytes_[12:],
    lambda bytes_: bytes_[: len(bytes_) // 2],
    lambda bytes_: bytes_[:-100] + bytes([bytes_[-100] ^ 4]) + bytes_[-99:],
    lambda bytes_: b"",
])
def test_a_table_that_cannot_be_used_is_made_anew(tmp_path, spoil):
    run(tmp_path / "first")
    folder = only_table(tmp_path / "first", tmp_path / "second")
    table_of(folder).write_bytes(spoil(table_of(folder).read_bytes()))
    _, log = run(folder)
    assert "cannot be used and are made anew" in log and " is taken" in log
    _, log = run(only_table(folder, tmp_path / "third"))
    assert "cannot be used" not in log and " is taken" not in log


def test_a_folder_that_cannot_be_written_leaves_it_to_the_rule(tmp_path, monkeypatch, said):
    monkeypatch.setenv("ASPEN_CHOICES_DIR", "/proc/choices")
    assert same(train(tmp_path / "programs"), train(None))
    assert not any(line.endswith(" is taken") for line in said())


def test_an_exported_program_keeps_its_kernels(tmp_path):
    """In a process that has neither the cache nor time for trials."""
    trainer = poptorch.inferenceModel(Net(), options(tmp_path / "cache"))
    expected = trainer(X)
    trainer.save(tmp_path / "model.poptorch")
    program = f"import poptorch, torch; torch.save(poptorch.load({str(tmp_path / 'model.poptorch')!r})" \
              f"(torch.load({str(tmp_path / 'x')!r})), {str(tmp_path / 'y')!r})"
    torch.save(X, tmp_path / "x")
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, os.path.dirname(__file__)]),
                 "POPTORCH_LOG_LEVEL": "TRACE"}
    program = "import test_kernel_choice\n" + program
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=variables, timeout=120,
                          check=True)
    assert torch.equal(torch.load(tmp_path / "y"), expected)
    assert "as it was chosen" in done.stderr
