"""gc-monitor and gc-info show which processes are attached to which devices, as they come and go."""

import json
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

APPS = pathlib.Path(poptorch.__file__).parents[2] / "apps"


@pytest.fixture(autouse=True)
def own_ipus(tmp_path, monkeypatch):
    """What this process and others attach from now on, and nothing else."""
    monkeypatch.setenv("ASPEN_IPU_LOCK", str(tmp_path / "ipus.lock"))


def report():
    run = subprocess.run([APPS / "gc-monitor", "--json"], check=True, capture_output=True, text=True, timeout=60)
    assert not run.stderr
    return json.loads(run.stdout)


def table():
    return subprocess.run([APPS / "gc-monitor"], check=True, capture_output=True, text=True, timeout=60).stdout


def pids():
    return [executor["pid"] for executor in report()["executors"]]


def options():
    return poptorch.Options().showCompilationProgressBar(False)


PROGRAM = """
    import sys, poptorch, torch
    options = poptorch.Options().showCompilationProgressBar(False).modelName("worker").deviceIterations(20)
    if sys.argv[1] != "any":
        options.useIpuId(int(sys.argv[1]))
    model = poptorch.inferenceModel(torch.nn.Linear(500, 500), options)
    x = torch.zeros(2000, 500)
    model(x)
    print("runs", flush=True)
    while sys.argv[2] == "forever":
        model(x)
    sys.stdin.readline()
"""


class Program:
    """A process with an attached model that runs without end, or once."""

    def __init__(self, device="any", runs="forever"):
        self.process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), str(device), runs],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def __enter__(self):
        assert self.process.stdout.readline() == "runs\n"
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=60)


def test_two_runs_are_shown_and_a_killed_one_is_not():
    with Program() as first, Program() as second:
        executors = report()["executors"]
        assert {executor["pid"] for executor in executors} == {first.pid, second.pid}
        assert sorted(executor["ipus"][0]["id"] for executor in executors) == [0, 1]
        for executor in executors:
            assert executor["model"] == "worker" and executor["device"] is None
            assert executor["command"].startswith(sys.executable) and "useIpuId" in executor["command"]
            assert executor["ipus"][0]["memory_bytes"] > 500 * 500 * 4
            assert executor["ipus"][0]["utilisation"] > 0.1
        text = table()
        assert all(f"| {pid} | python" in text for pid in (first.pid, second.pid)), text
        os.kill(first.pid, signal.SIGKILL)
        first.process.wait(timeout=60)
        assert pids() == [second.pid]
        assert str(first.pid) not in table()
    assert pids() == []


def test_a_stopped_watcher_and_a_process_that_ends_well(tmp_path):
    with Program(runs="once") as program:
        watch = subprocess.Popen([APPS / "gc-monitor", "--watch", "0.1", "--json"], stdout=subprocess.PIPE, text=True)
        assert [executor["pid"] for executor in json.loads(watch.stdout.readline())["executors"]] == [program.pid]
        program.process.communicate("\n", timeout=60)
        deadline = time.monotonic() + 60
        while json.loads(watch.stdout.readline())["executors"]:
            assert time.monotonic() < deadline
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=60)
    assert not list((tmp_path / "ipus.lock.attached").iterdir())


def test_devices_asked_for_by_id_are_shown_as_such():
    with Program(device=64 + 3) as program:
        (executor,) = report()["executors"]
        assert executor["device"] == 67
        assert [ipu["id"] for ipu in executor["ipus"]] == [6, 7]
        listed = subprocess.run([APPS / "gc-info", "-l"], check=True, capture_output=True, text=True, timeout=60).stdout
        assert f"Id: [ 67], type: [Multi IPU], IPUs: [6-7], state: [attached], processes: [{program.pid}]\n" in listed
        assert "Id: [  5], type: [Single IPU], IPUs: [5], state: [free]\n" in listed
        with Program() as other:  # which does not mind
            assert [e["ipus"][0]["id"] for e in report()["executors"] if e["pid"] == other.pid] == [0]


def test_a_device_is_reserved_while_its_model_is_compiled():
    program = """
        import sys, poptorch, torch
        class Slow(torch.nn.Module):
            def forward(self, x):
                print("compiles", flush=True)
                sys.stdin.readline()
                return x + 1
        model = poptorch.inferenceModel(Slow(), poptorch.Options().showCompilationProgressBar(False).useIpuId(3))
        model(torch.zeros(1))
        print("runs", flush=True)
        sys.stdin.readline()
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "compiles\n"
        seen = report()
        assert not seen["executors"]
        assert [ipu["id"] for ipu in seen["ipus"] if ipu["state"] == "reserved"] == [3]
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "runs\n"
        assert report()["ipus"][3]["state"] == "attached"
        process.communicate("\n", timeout=60)


class Pipeline(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 64), torch.nn.Linear(64, 2)

    def forward(self, x, labels):
        with poptorch.Block("encoder", ipu_id=0):
            x = torch.relu(self.first(x))
        with poptorch.Block("decoder", ipu_id=1):
            y = self.last(x)
            return y, torch.nn.functional.cross_entropy(y, labels)


def test_a_pipeline_in_replicas_has_a_row_for_each_ipu():
    opts = options().replicationFactor(2)
    opts.setExecutionStrategy(poptorch.PipelinedExecution("encoder", "decoder"))
    opts.Training.gradientAccumulation(4)
    model = Pipeline()
    trainer = poptorch.trainingModel(model, opts, poptorch.optim.SGD(model.parameters(), lr=0.01))
    trainer(torch.randn(4 * 2 * 2, 4), torch.zeros(4 * 2 * 2, dtype=torch.long))
    tester = poptorch.inferenceModel(torch.nn.Linear(3, 2), options())
    tester(torch.zeros(1, 3))
    executors = report()["executors"]
    assert [[ipu["id"] for ipu in executor["ipus"]] for executor in executors] == [[0, 1, 2, 3], [4]]
    assert pids() == [os.getpid()] * 2
    trainer.detachFromDevice()
    assert [[ipu["id"] for ipu in executor["ipus"]] for executor in report()["executors"]] == [[4]]
    trainer.attachToDevice()
    assert len(report()["executors"]) == 2
    trainer.destroy()
    tester.destroy()
    assert pids() == []


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((3,), float(index)), os.getpid()


def test_workers_of_a_data_loader_are_not_attached():
    model = poptorch.inferenceModel(torch.nn.Linear(3, 2), options())
    model(torch.zeros(1, 3))
    loader = poptorch.DataLoader(options(), Numbers(), batch_size=1, num_workers=2, persistent_workers=True)
    workers = set()
    for x, worker in loader:
        model(x)
        workers.add(int(worker))
        if len(workers) == 2:
            break
    assert os.getpid() not in workers
    assert pids() == [os.getpid()]


def test_a_place_that_cannot_be_written_costs_one_line_of_the_log(monkeypatch):
    monkeypatch.setenv("ASPEN_IPU_LOCK", "/proc/no/such/place")
    monkeypatch.setenv("POPTORCH_LOG_LEVEL", "WARN")
    program = """
        import poptorch, torch
        options = poptorch.Options().showCompilationProgressBar(False)
        models = [poptorch.inferenceModel(torch.nn.Linear(3, 2), options) for _ in range(2)]
        print(sum(model(torch.zeros(1, 3)).shape[0] for model in models))
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, capture_output=True, text=True,
                         timeout=120)
    assert run.stdout == "2\n"
    assert run.stderr.count("gc-monitor will not show this process") == 1, run.stderr


def test_both_are_commands_of_the_python_package(tmp_path):
    """setup.py puts them where pip takes scripts from; the rest of the package is not built for that."""
    (tmp_path / "extra.cfg").write_text(f"[build_ext]\nbuild_temp = {APPS.parent}\n[build_scripts]\nbuild_dir = {tmp_path}\n")
    subprocess.run([sys.executable, "setup.py", "-q", "build_scripts"], cwd=pathlib.Path(__file__).parents[2], check=True,
                   env={**os.environ, "DIST_EXTRA_CONFIG": str(tmp_path / "extra.cfg")}, capture_output=True, timeout=60)
    for name in ("gc-monitor", "gc-info"):
        help_text = subprocess.run([tmp_path / name, "--help"], check=True, capture_output=True, text=True).stdout
        assert help_text.startswith(f"usage: {name}")
