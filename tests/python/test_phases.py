"""Phased execution: what stages of a phase may do, beside the same model on one device."""

import copy

import poptorch
import pytest
import torch

from support.models import quiet


class BackAndForth(torch.nn.Module):
    """Two phases. In the first, data goes from stage "a" to stage "b" and back; "c" comes after."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(4))

    def forward(self, x, target):
        with poptorch.Block("a"):
            x = torch.tanh(self.layers[0](x))
        with poptorch.Block("b"):
            y = torch.tanh(self.layers[1](x))
        with poptorch.Block("a"):
            x = x + self.layers[2](y)
        with poptorch.Block("c"):
            return torch.nn.functional.mse_loss(self.layers[3](x), target)


def losses(strategy, model=BackAndForth, steps=4):
    made = model()
    options = quiet() if strategy is None else quiet().setExecutionStrategy(strategy)
    trainer = poptorch.trainingModel(made, options, torch.optim.SGD(made.parameters(), lr=0.1, momentum=0.9))
    generator = torch.Generator().manual_seed(2)
    x, target = torch.randn(6, 4, generator=generator), torch.randn(6, 4, generator=generator)
    return [trainer(x, target).item() for _ in range(steps)]


def eager_losses(model=BackAndForth, steps=4):
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


def parallel():
    first = poptorch.Phase(poptorch.Stage("a"), poptorch.Stage("b"))
    strategy = poptorch.ParallelPhasedExecution(first, poptorch.Phase(poptorch.Stage("c")))
    strategy.phase(0).ipus(0, 2)
    strategy.phase(1).ipus(1)
    return strategy


def test_stages_of_a_parallel_phase_exchange_data_in_both_directions():
    assert losses(parallel()) == pytest.approx(eager_losses(), rel=1e-5)


def test_phase_numbers_must_not_decrease():
    class Backwards(BackAndForth):
        def forward(self, x, target):
            with poptorch.Block("c"):
                x = self.layers[0](x)
            with poptorch.Block("a"):
                x = self.layers[1](x)
            with poptorch.Block("b"):
                return torch.nn.functional.mse_loss(x, target)

    with pytest.raises(poptorch.Error, match="phase"):
        losses(parallel(), Backwards)


class Again(BackAndForth):
    """One block, entered several times with different ipu_ids."""

    def forward(self, x, target):
        for layer, ipu in zip(self.layers, (0, 2, 0)):
            with poptorch.Block("a", ipu_id=ipu):
                x = torch.tanh(layer(x))
        with poptorch.Block("c", ipu_id=1):
            return torch.nn.functional.mse_loss(self.layers[3](x), target)


def test_a_block_may_be_entered_with_different_ipus():
    strategy = poptorch.ParallelPhasedExecution("a", "c")
    assert losses(strategy, Again) == pytest.approx(eager_losses(Again), rel=1e-5)


@pytest.mark.parametrize("liveness", list(poptorch.Liveness))
def test_every_liveness_trains_to_the_same_losses(liveness):
    strategy = poptorch.SerialPhasedExecution("a", "b", "a2", "c").setTensorsLiveness(liveness)

    class Serial(BackAndForth):
        def forward(self, x, target):
            for layer, name in zip(self.layers, ("a", "b", "a2")):
                with poptorch.Block(name):
                    x = torch.tanh(layer(x))
            with poptorch.Block("c"):
                return torch.nn.functional.mse_loss(self.layers[3](x), target)

    assert losses(strategy, Serial) == pytest.approx(eager_losses(Serial), rel=1e-5)
