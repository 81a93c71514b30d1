"""Ctrl-C in the middle of a call, on one device and on several."""

import signal
import threading
import time

import poptorch
import pytest
import torch

from support.models import Layers, quiet, weights


@pytest.fixture(autouse=True)
def handle_interrupts():
    """A process started in the background ignores Ctrl-C, and Python then leaves it at that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "strategy,replicas",
    [
        (poptorch.ShardedExecution(poptorch.Stage("0", "1").ipu(0)), 1),
        (poptorch.PipelinedExecution(), 1),
        (poptorch.PipelinedExecution(), 2),
        (poptorch.ShardedExecution(), 2),
    ],
    ids=["one device", "pipeline", "two pipelines", "shards and replicas"],
)
def test_interrupted_training_goes_on(strategy, replicas):
    iterations, accumulation = 3000, 4
    model = Layers([256, 256, 256])
    options = quiet().deviceIterations(iterations).replicationFactor(replicas).setExecutionStrategy(strategy)
    options.Training.gradientAccumulation(accumulation)
    executor = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.01))
    rows = iterations * accumulation * replicas
    inputs = torch.randn(rows, 256), torch.randn(rows, 256)
    executor.compile(*inputs)
    timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
    timer.start()
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        executor(*inputs)
        time.sleep(10)  # the call was faster than the signal
    assert time.perf_counter() - begin < 5
    timer.join()
    after = weights(model)
    assert all(torch.isfinite(weight).all() for weight in after.values())
    executor.detachFromDevice()
    executor.attachToDevice()
    assert all(torch.equal(after[name], weight) for name, weight in weights(model).items())
