"""Synthetic data: nothing is transferred between host and device."""

import poptorch
import pytest
import torch

KEYS = ("input", "input_complete", "output", "output_complete")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.embedding = torch.nn.Embedding(4, 3)
        self.fc = torch.nn.Linear(3, 2)
        self.register_buffer("x", torch.zeros(5, 3))
        self.register_buffer("tokens", torch.zeros(5, dtype=torch.int32))
        self.register_buffer("flags", torch.zeros(5, dtype=torch.bool))
        self.register_buffer("runs", torch.zeros(()))

    def forward(self, x, tokens, flags, labels):
        self.x.copy_(x)
        self.tokens.copy_(tokens)
        self.flags.copy_(flags)
        self.runs.add_(1)
        y = self.fc(self.embedding(tokens) + x + flags.float().unsqueeze(1))
        return y, torch.nn.functional.cross_entropy(y, labels)


def options(iterations=1, mode=None, seed=None):
    made = poptorch.Options().showCompilationProgressBar(False).deviceIterations(iterations)
    if mode is None:
        made.enableSyntheticData(True)
    else:
        made._Popart.set("syntheticDataMode", mode)
    return made if seed is None else made.randomSeed(seed)


def batch(rows):
    return (torch.full((rows, 3), 100.0), torch.full((rows,), 3), torch.zeros(rows, dtype=torch.bool),
            torch.ones(rows, dtype=torch.long))


def test_inputs_are_made_on_the_device_once():
    model = Net()
    executor = poptorch.inferenceModel(model, options(2, seed=7))
    executor(*batch(10))
    executor.copyWeightsToHost()
    seen = [model.x.clone(), model.tokens.clone(), model.flags.clone()]
    assert seen[0].abs().max() < 6 and 0.3 < seen[0].std() < 3  # normal numbers, not the host's
    assert set(seen[1].tolist()) == {0, 1} and set(seen[2].tolist()) == {False, True}
    assert model.runs == 2
    executor(*batch(10))
    executor.copyWeightsToHost()
    assert model.runs == 4
    assert torch.equal(model.x, seen[0]) and torch.equal(model.tokens, seen[1])
    executor.detachFromDevice()
    executor(*batch(10))
    executor.copyWeightsToHost()
    assert model.runs == 6 and torch.equal(model.x, seen[0])


@pytest.mark.parametrize("mode, check", [
    (1, lambda x: (x == 0).all()),
    (2, lambda x: (x < 0).any() and x.unique().numel() > 5),
    (3, lambda x: (x >= 0).all() and (x < 1).all() and x.unique().numel() > 5),
])
def test_modes_of_popart(mode, check):
    model = Net()
    executor = poptorch.inferenceModel(model, options(mode=mode))
    executor(*batch(5))
    executor.copyWeightsToHost()
    assert check(model.x)


def test_training_runs_on_it():
    model = Net()
    before = model.fc.weight.detach().clone()
    opts = options(3)
    opts.Training.gradientAccumulation(2)
    executor = poptorch.trainingModel(model, opts, poptorch.optim.Adam(model.parameters(), lr=0.1))
    y, loss = executor(*batch(30))
    assert y.shape == (5, 2) and loss.shape == ()
    assert not torch.equal(model.fc.weight, before) and model.fc.weight.isfinite().all()
    assert model.runs == 6
    assert not any("synthetic" in name for name in executor._optimizer.optimizer.state_dict()["ipu_state"])


def test_in_a_pipeline():
    class Halves(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 2)

        def forward(self, x, labels):
            with poptorch.Block("0", ipu_id=0):
                y = self.a(x)
            with poptorch.Block("1", ipu_id=1):
                y = self.b(y + x)
                return y, torch.nn.functional.cross_entropy(y, labels)

    model = Halves()
    opts = options()
    opts.Training.gradientAccumulation(4)
    executor = poptorch.trainingModel(model, opts)
    before = model.b.weight.detach().clone()
    executor(torch.zeros(8, 3), torch.ones(8, dtype=torch.long))
    assert not torch.equal(model.b.weight, before)


def test_nothing_is_transferred():
    executor = poptorch.inferenceModel(Net(), options(4))
    x, *others = batch(20)
    y, loss = executor(x, *others)
    assert y.shape == (20, 2) and loss.shape == (4,)
    counters = executor.getPerfCounters()
    assert {key: counters[key] for key in KEYS[:2]} == {key: [[]] * 4 for key in KEYS[:2]}
    assert {key: counters[key] for key in KEYS[2:]} == {key: [[]] * 2 for key in KEYS[2:]}
    for latency in (executor.getLatency, executor.getHostIpuLatency, executor.getComputeLatency,
                    executor.getIpuHostLatency):
        assert latency() == (0.0, 0.0, 0.0)
    assert (x == 100).all()


def test_shapes_of_arguments_are_still_checked():
    executor = poptorch.inferenceModel(Net(), options())
    executor(*batch(5))
    with pytest.raises(poptorch.Error, match="compiled"):
        executor(*batch(6))


def test_off_means_off():
    for opts in (options(mode=0), options().enableSyntheticData(False)):
        model = Net()
        poptorch.inferenceModel(model, opts)(*batch(5))
        executor = poptorch.inferenceModel(model, opts)
        executor(*batch(5))
        executor.copyWeightsToHost()
        assert (model.x == 100).all()
