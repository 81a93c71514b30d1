"""The bytes that a training touches on each device are those that the compiler has planned."""

import poptorch
import pytest
import torch

from test_many_devices import ACCUMULATION, CALLS, NETWORKS, one_device, pipelined_4, recomputed, sharded


@pytest.mark.parametrize("configure", [one_device, pipelined_4, recomputed, sharded])
@pytest.mark.parametrize("name", ["tutorial", "transformer", "resnet18"])
def test_measured_memory_is_what_was_planned(name, configure, monkeypatch):
    monkeypatch.setenv("ASPEN_MEASURE_MEMORY", "1")
    torch.manual_seed(3)
    model, inputs, labels = NETWORKS[name]()
    options = poptorch.Options().showCompilationProgressBar(False)
    options.Training.gradientAccumulation(ACCUMULATION)
    model.devices = configure(options)
    executor = poptorch.trainingModel(model, options, poptorch.optim.AdamW(model.parameters(), lr=0.01))
    inputs, labels = (tensor[: len(tensor) // CALLS] for tensor in (inputs, labels))
    executor.compile(inputs, labels)
    idle = executor._core.memory()
    executor(inputs, labels)
    busy = executor._core.memory()
    assert len(busy) == len(set(model.devices))
    for before, after in zip(idle, busy):
        parts = sum(after[part] for part in ("variables", "constants", "scratch", "slots"))
        assert after["planned"] == before["planned"] == parts
        # Nothing has been computed before the first call: scratch memory and slots are untouched.
        assert before["measured"] <= after["planned"] - after["scratch"] - after["slots"]
        assert abs(after["measured"] - after["planned"]) <= 0.02 * after["planned"]
        assert after["measured_host"] == after["planned_host"] == 0
    executor.destroy()
