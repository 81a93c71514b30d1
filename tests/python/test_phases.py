"""Phased execution beside eager PyTorch."""

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
    with pytest.raises(poptorch.Error, match="Phases and the stages in them must not decrease along the data flow"):
        losses(strategy)
