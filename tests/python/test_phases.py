"""Phased execution beside eager PyTorch."""

import contextlib
import copy

import poptorch
import pytest
import torch

from support.models import quiet


class Four(torch.nn.Module):
    """A layer in each of four blocks."""

    def __init__(self, names=("a", "b", "c", "d")):
        super().__init__()
        torch.manual_seed(1)
        self.names = names
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(4))

    def forward(self, x, target):
        for layer, name in zip(self.layers, self.names):
            with poptorch.Block(name):
                x = torch.tanh(layer(x))
                if name == self.names[-1]:
                    return torch.nn.functional.mse_loss(x, target)


def losses(strategy, model=Four, steps=4):
    made = model()
    options = quiet().setExecutionStrategy(strategy).autoRoundNumIPUs(True)
    trainer = poptorch.trainingModel(made, options, torch.optim.SGD(made.parameters(), lr=0.1, momentum=0.9))
    generator = torch.Generator().manual_seed(2)
    x, target = torch.randn(6, 4, generator=generator), torch.randn(6, 4, generator=generator)
    return [trainer(x, target).item() for _ in range(steps)]


def eager_losses(model=Four, steps=4):
    made = copy.deepcopy(model())
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(2)
    x, target = torch.randn(6, 4, generator=generator), torch.randn(6, 4, generator=generator)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = made(x, target)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("liveness", list(poptorch.Liveness))
def test_every_liveness_trains_to_the_losses_of_eager(liveness):
    strategy = poptorch.SerialPhasedExecution("a", "b", "c", "d").setTensorsLiveness(liveness)
    assert losses(strategy) == pytest.approx(eager_losses(), rel=1e-5)


def test_parallel_phases_train_to_the_losses_of_eager():
    strategy = poptorch.ParallelPhasedExecution("a", "b", "c", "d")
    for phase in range(4):
        strategy.phase(phase).ipus(phase % 2)
    assert losses(strategy) == pytest.approx(eager_losses(), rel=1e-5)


def test_phase_numbers_must_not_decrease():
    strategy = poptorch.SerialPhasedExecution("d", "b", "c", "a")
    with pytest.raises(poptorch.Error, match="Phase numbers must not decrease along the data flow"):
        losses(strategy)


class ToAndFro(torch.nn.Module):
    """Two stages that need results of each other, twice; the places are those of `blocks`, (name, ipu_id) in order."""

    def __init__(self, blocks=None):
        super().__init__()
        torch.manual_seed(3)
        self.blocks = blocks
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(6))
        self.dropout = torch.nn.Dropout(0.25)

    def forward(self, x, target):
        left, right = x, -x
        for number, layer in enumerate(self.layers):
            with self.place(number):
                left, right = torch.tanh(layer(right)) + left, self.dropout(left)
                if number == 5:
                    return left, torch.nn.functional.mse_loss(left * right, target)

    def place(self, number):
        return contextlib.nullcontext() if self.blocks is None else poptorch.Block(*self.blocks[number])


EXCHANGING = [("a", None), ("b", None), ("a", None), ("c", None), ("d", None), ("c", None)]
MOVING = [("a", 0), ("a", 1), ("a", 0), ("b", 1), ("b", 0), ("b", 1)]


def two_parallel_phases():
    strategy = poptorch.ParallelPhasedExecution([poptorch.Stage("a"), poptorch.Stage("b")],
                                                [poptorch.Stage("c"), poptorch.Stage("d")])
    strategy.phase(0).ipus(0, 2)
    strategy.phase(1).ipus(1, 3)
    return strategy


WAYS = {
    "parallel": (EXCHANGING, two_parallel_phases),
    "parallel_off_chip": (EXCHANGING, lambda: two_parallel_phases().sendTensorsOffChipAfterFwd()),
    "parallel_separate": (EXCHANGING, lambda: two_parallel_phases().useSeparateBackwardPhase()),
}
WAYS |= {
    f"moving_{liveness.name}": (MOVING, lambda liveness=liveness: poptorch.SerialPhasedExecution("a", "b").
                                setTensorsLiveness(liveness))
    for liveness in poptorch.Liveness
}


def trained(blocks, strategy, accumulation, replicas):
    """All that two calls of two weight updates leave: outputs, losses and weights."""
    model = ToAndFro(blocks)
    options = quiet().deviceIterations(2).randomSeed(7).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    options.replicationFactor(replicas).autoRoundNumIPUs(True)
    if strategy is not None:
        options.setExecutionStrategy(strategy)
    trainer = poptorch.trainingModel(model, options, poptorch.optim.AdamW(model.parameters(), lr=0.05))
    generator = torch.Generator().manual_seed(4)
    found = []
    for _ in range(2):
        x, target = (torch.randn(2 * accumulation * replicas * 3, 4, generator=generator) for _ in range(2))
        found += trainer(x, target)
    return found + [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("accumulation,replicas", [(1, 1), (3, 1), (2, 2)])
@pytest.mark.parametrize("way", WAYS)
def test_devices_of_a_phase_exchange_data_to_the_bits_of_one_device(way, accumulation, replicas):
    blocks, strategy = WAYS[way]
    expected = trained(None, None, accumulation, replicas)
    for found, meant in zip(trained(blocks, strategy(), accumulation, replicas), expected, strict=True):
        assert torch.equal(found, meant)


@pytest.mark.parametrize("way", WAYS)
def test_inference_in_phases_that_exchange_data_gives_the_bits_of_one_device(way):
    blocks, strategy = WAYS[way]
    x, target = torch.randn(6, 4), torch.randn(6, 4)
    options = quiet().deviceIterations(2).setExecutionStrategy(strategy()).autoRoundNumIPUs(True)
    expected = poptorch.inferenceModel(ToAndFro().eval(), quiet().deviceIterations(2))(x, target)
    found = poptorch.inferenceModel(ToAndFro(blocks).eval(), options)(x, target)
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
