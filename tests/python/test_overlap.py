"""Inputs and outputs that travel while the devices compute: no number changes, and others do the moving."""

import poptorch
import pytest
import torch

from support.models import Layers, quiet, train

SIZES = [6, 9, 8, 7, 4]
B, MODE = 3, poptorch.OverlapMode.OverlapDeviceIterationLoop
BLOCKS = ("0", "1", "2", "3")


class Overlapped(Layers):
    """Layers whose inputs and outputs are marked, with a buffer that counts if there is one replica to do so."""

    def __init__(self, mode, replicas=1):
        super().__init__(SIZES)
        self.mode, self.replicas = mode, replicas
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x, target=None):
        x = poptorch.set_overlap_for_input(x, self.mode)
        if target is None:
            return poptorch.set_overlap_for_output(super().forward(x), self.mode)
        target = poptorch.set_overlap_for_input(target, self.mode)
        if self.replicas == 1:
            self.count.add_(1)
        y, loss = super().forward(x, target)
        return poptorch.set_overlap_for_output({"y": y, "count": self.count}, self.mode), loss


def on_one_device():
    return poptorch.ShardedExecution(poptorch.Stage(*BLOCKS).ipu(0))


def sharded():
    return poptorch.ShardedExecution(*(poptorch.Stage(block).ipu(i % 2) for i, block in enumerate(BLOCKS)))


def phased():
    return poptorch.SerialPhasedExecution(*BLOCKS)


def options_for(strategy, iterations, depth, output_mode=poptorch.OutputMode.All):
    options = quiet().deviceIterations(iterations).setExecutionStrategy(strategy()).outputMode(output_mode)
    options.TensorLocations.numIOTiles(32)
    options._Popart.set("defaultPrefetchBufferingDepth", depth)
    return options


def equal(mine, theirs):
    if isinstance(theirs, dict):
        return all(equal(mine[key], theirs[key]) for key in theirs)
    return torch.equal(mine, theirs)


@pytest.mark.parametrize("strategy", [on_one_device, sharded, phased])
@pytest.mark.parametrize("depth,accumulation,replicas", [(1, 1, 1), (1, 4, 1), (3, 4, 1), (2, 2, 2)])
def test_training_learns_the_same(strategy, depth, accumulation, replicas):
    iterations = 3
    torch.manual_seed(2)
    rows = iterations * accumulation * replicas * B
    inputs = torch.randn(rows, SIZES[0]), torch.randn(rows, SIZES[-1])
    results = []
    for mode in (MODE, poptorch.OverlapMode.NoOverlap):
        options = options_for(strategy, iterations, depth)
        options.Training.gradientAccumulation(accumulation)
        options.replicationFactor(replicas)
        model = Overlapped(mode, replicas)
        results.append((*train(model, options, inputs), model.count))
    for mine, theirs in zip(*results):
        if isinstance(theirs, tuple):
            assert all(equal(a, b) for a, b in zip(mine, theirs))
        else:
            assert equal(mine, theirs)


@pytest.mark.parametrize("strategy", [on_one_device, sharded, phased])
@pytest.mark.parametrize("output_mode", [poptorch.OutputMode.All, poptorch.OutputMode.Sum])
def test_inference_gives_the_same(strategy, output_mode):
    x = torch.randn(7 * B, SIZES[0])
    mine, theirs = (
        poptorch.inferenceModel(Overlapped(mode), options_for(strategy, 7, 1, output_mode))(x)
        for mode in (MODE, poptorch.OverlapMode.NoOverlap)
    )
    assert torch.equal(mine, theirs)


def tasks_of(mode):
    executor = poptorch.inferenceModel(Overlapped(mode), options_for(on_one_device, 4, 1))
    executor(torch.randn(4 * B, SIZES[0]))
    return [[(task["task"], task["runs"]) for task in device["tasks"]] for device in executor._core.times()]


def test_devices_of_their_own_move_what_is_marked():
    assert tasks_of(MODE) == [[("step", 4)], [("inputs", 4)], [("outputs", 4)]]
    assert tasks_of(poptorch.OverlapMode.NoOverlap) == [[("step", 4)]]
