"""A device that useIpuId names belongs to one executor at a time, in this process and in others."""

import subprocess
import sys
import textwrap
import threading
import time

import poptorch
import pytest
import torch

# Ids that no other test takes, which may run at the same time.
DEVICE, PAIR, FIRST_OF_PAIR = 37, 64 + 20, 40
X = torch.zeros(2, 3)


def executor(device=DEVICE, connection=poptorch.ConnectionType.Always):
    opts = poptorch.Options().showCompilationProgressBar(False).useIpuId(device).connectionType(connection)
    return poptorch.inferenceModel(torch.nn.Linear(3, 2), opts)


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.delenv("POPTORCH_WAIT_FOR_IPU", raising=False)


def test_a_second_compile_is_refused_and_may_be_repeated(monkeypatch):
    first, second = executor(), executor()
    first(X)
    for patience in (None, "0"):
        if patience is not None:
            monkeypatch.setenv("POPTORCH_WAIT_FOR_IPU", patience)
        with pytest.raises(poptorch.Error, match=f"Failed to acquire device {DEVICE}"):
            second.compile(X)
        assert not second.isCompiled()
    with pytest.raises(poptorch.Error, match="Failed to acquire"):
        second(X)
    executor(DEVICE + 1)(X)  # another device is another matter
    first.detachFromDevice()
    second.compile(X)
    assert second.isAttachedToDevice()
    with pytest.raises(poptorch.Error, match="Failed to acquire"):
        first(X)
    second.destroy()
    first(X)
    assert first.isAttachedToDevice()


def test_an_executor_that_goes_lets_go():
    first = executor()
    first(X)
    del first
    executor()(X)


def test_a_failed_compilation_lets_go():
    class Fails(torch.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    opts = poptorch.Options().showCompilationProgressBar(False).useIpuId(DEVICE)
    failing = poptorch.inferenceModel(Fails(), opts)
    with pytest.raises(ValueError):
        failing.compile(X)
    executor()(X)


def test_devices_of_several_ipus_overlap():
    pair = executor(PAIR)
    pair(X)
    for single in (FIRST_OF_PAIR, FIRST_OF_PAIR + 1):
        with pytest.raises(poptorch.Error, match=f"Failed to acquire device {single}"):
            executor(single)(X)
    executor(FIRST_OF_PAIR + 2)(X)
    pair.detachFromDevice()
    single = executor(FIRST_OF_PAIR + 1)
    single(X)
    with pytest.raises(poptorch.Error, match="IPUs 40 to 41"):
        pair(X)


def test_on_demand_attaches_at_the_first_call():
    first, second = (executor(connection=poptorch.ConnectionType.OnDemand) for _ in range(2))
    for each in (first, second):
        each.compile(X)
        assert each.isCompiled() and not each.isAttachedToDevice()
    first(X)
    assert first.isAttachedToDevice()
    with pytest.raises(poptorch.Error, match="Failed to acquire"):
        second(X)
    assert second.isCompiled() and not second.isAttachedToDevice()
    first.detachFromDevice()
    second(X)
    assert second.isAttachedToDevice()


def test_waits_as_long_as_it_is_told(monkeypatch):
    first, second = executor(), executor()
    first(X)
    monkeypatch.setenv("POPTORCH_WAIT_FOR_IPU", "0.3")
    begin = time.perf_counter()
    with pytest.raises(poptorch.Error, match="Failed to acquire"):
        second.compile(X)
    assert 0.3 <= time.perf_counter() - begin < 5
    monkeypatch.setenv("POPTORCH_WAIT_FOR_IPU", "60")
    timer = threading.Timer(0.3, first.detachFromDevice)
    timer.start()
    second.compile(X)
    assert second.isAttachedToDevice()
    timer.join()
    monkeypatch.setenv("POPTORCH_WAIT_FOR_IPU", "soon")
    with pytest.raises(poptorch.Error, match='POPTORCH_WAIT_FOR_IPU is "soon"'):
        first(X)


def test_another_process_is_kept_out():
    program = textwrap.dedent(f"""
        import poptorch, sys, torch
        model = poptorch.inferenceModel(torch.nn.Linear(3, 2),
                                        poptorch.Options().showCompilationProgressBar(False).useIpuId({DEVICE}))
        try:
            model.compile(torch.zeros(2, 3))
        except poptorch.Error as error:
            print(error)
        else:
            print("attached", flush=True)
            sys.stdin.readline()
    """)

    def start():
        return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    first = executor()
    first(X)
    other = start()
    assert "Failed to acquire" in other.communicate(timeout=120)[0]
    first.detachFromDevice()
    other = start()
    assert other.stdout.readline() == "attached\n"
    with pytest.raises(poptorch.Error, match="Failed to acquire"):
        first(X)
    other.kill()  # a process that ends, however it does, lets go
    other.wait(timeout=60)
    first(X)
    assert first.isAttachedToDevice()


def test_detach_when_not_attached():
    model = executor()
    model.compile(X)
    model.detachFromDevice()
    with pytest.raises(poptorch.Error, match="Device is not attached"):
        model.detachFromDevice()


def test_executors_without_an_id_do_not_mind():
    quiet = poptorch.Options().showCompilationProgressBar(False)
    models = [poptorch.inferenceModel(torch.nn.Linear(3, 2), quiet) for _ in range(3)]
    for model in models:
        model(X)
    assert all(model.isAttachedToDevice() for model in models)
