"""The bytes that a training touches on each device are those that the compiler has planned."""

import poptorch
import pytest
import torch

from test_many_devices import ACCUMULATION, CALLS, NETWORKS, one_device, pipelined_4, recomputed, sharded

PARTS = "variables", "constants", "scratch", "packed", "slots"


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
        parts = sum(after[part] for part in PARTS)
        assert after["planned"] == before["planned"] == parts
        # Nothing has been computed before the first call: scratch memory and slots are untouched.
        assert before["measured"] <= after["planned"] - after["scratch"] - after["slots"]
        assert abs(after["measured"] - after["planned"]) <= 0.02 * after["planned"]
        assert after["measured_host"] == after["planned_host"] == 0
        assert after["packed"] == 0  # weights do not stay as they are
    executor.destroy()


def test_weights_packed_for_inference_are_planned(monkeypatch):
    monkeypatch.setenv("ASPEN_MEASURE_MEMORY", "1")
    torch.manual_seed(3)
    model = torch.nn.Conv2d(64, 96, 3, padding=1).eval()
    options = poptorch.Options().showCompilationProgressBar(False)
    executor = poptorch.inferenceModel(model, options)
    x = torch.randn(4, 64, 7, 7)
    assert torch.allclose(executor(x), model(x), atol=1e-5)
    (memory,) = executor._core.memory()
    assert memory["planned"] == sum(memory[part] for part in PARTS)
    assert memory["packed"] <= memory["measured"] <= memory["planned"]
    assert memory["packed"] >= model.weight.numel() * model.weight.element_size()
    executor.destroy()
