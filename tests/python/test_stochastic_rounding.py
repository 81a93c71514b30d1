"""Half results rounded at random: right on average, the same with the same seed wherever a model runs."""

import poptorch
import pytest
import torch

from support.models import FunctionModel, Layers, quiet, weights

MANY = 1 << 17
ULP = 2.0**-10  # of half between 1 and 2


def rounding(seed=7):
    options = quiet().randomSeed(seed)
    options.Precision.enableStochasticRounding(True)
    return options


def to_half(x, options=None, calls=1):
    executor = poptorch.inferenceModel(FunctionModel(lambda _, x: x.half()), options or rounding())
    results = [executor(x) for _ in range(calls)]
    executor.destroy()
    return results if calls > 1 else results[0]


@pytest.mark.parametrize("value", [
    1 + ULP / 3, -(1 + ULP / 7), 1 + ULP * 0.999, 3.14159265, 1e-3, 40000.7, -65503.0,
    2.0**-14 - 2.0**-26, 1.3 * 2.0**-24, -0.25 * 2.0**-24, 5.6e-6,
])
def test_the_mean_of_many_roundings_is_the_number_itself(value):
    value = torch.tensor(value).item()  # as float32
    y = to_half(torch.full((MANY,), value)).double()
    neighbours = y.unique()
    assert len(neighbours) == 2 and neighbours[0] < value < neighbours[1]
    gap = (neighbours[1] - neighbours[0]).item()
    up = (value - neighbours[0].item()) / gap
    sigma = gap * (up * (1 - up) / MANY) ** 0.5
    assert abs(y.mean().item() - value) <= 3 * sigma


def test_what_half_holds_stays_as_it_is():
    x = torch.cat([torch.randn(5000), torch.tensor([0.0, -0.0, 65504.0, 2.0**-24, torch.inf, -torch.inf])]).half()
    y = to_half(x.float())
    assert torch.equal(y, x) and torch.equal(torch.signbit(y), torch.signbit(x))
    assert to_half(torch.full((3,), torch.nan)).isnan().all()
    beyond, nearest = torch.tensor([65519.0, 1e6, -1e6]), torch.tensor([65504.0, torch.inf, -torch.inf]).half()
    assert torch.equal(to_half(beyond), nearest)


def test_off_means_the_nearest():
    x = torch.linspace(1, 1.01, 999)
    assert torch.equal(to_half(x, quiet()), x.half())


def test_the_same_seed_gives_the_same_results_call_by_call():
    x = torch.rand(1000) + 1
    first, second = to_half(x, calls=3), to_half(x, calls=3)
    assert all(torch.equal(a, b) for a, b in zip(first, second))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], to_half(x, rounding(seed=8)))


def test_replicas_draw_numbers_of_their_own():
    y = to_half(torch.full((2000,), 1 + ULP / 2), rounding().replicationFactor(2))
    assert not torch.equal(y[:1000], y[1000:])


def test_popart_key_and_every_op():
    """Not only casts: sums, products and convolutions of half draw too."""
    options = quiet().randomSeed(1)
    options._Popart.set("enableStochasticRounding", True)
    x = torch.full((64, 64), 1 + 4 * ULP).half()
    for function in (lambda x: x * x, lambda x: x @ x, lambda x: x.log_softmax(-1), lambda x: torch.exp(x),
                     lambda x: torch.nn.functional.conv1d(x[None], x[:, :, None])):
        y = poptorch.inferenceModel(FunctionModel(lambda _, x: function(x)), options.clone())(x)
        assert len(y.float().unique()) == 2


class OneWeight(torch.nn.Module):
    def __init__(self, numel):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(numel, dtype=torch.float16))

    def forward(self, x):
        return poptorch.identity_loss((self.weight * x).float().sum(), reduction="none")


@pytest.mark.parametrize("stochastic", [False, True])
def test_updates_too_small_for_half_add_up_on_average(stochastic):
    numel, steps, step = 4096, 64, ULP / 64
    model = OneWeight(numel)
    options = rounding()
    options.Precision.enableStochasticRounding(stochastic)
    executor = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=step))
    for _ in range(steps):
        executor(-torch.ones(numel, dtype=torch.float16))
    executor.copyWeightsToHost()
    mean = model.weight.detach().double().mean().item()
    executor.destroy()
    sigma = ULP * (steps * (step / ULP) / numel) ** 0.5
    assert abs(mean - (1 + steps * step)) <= 3 * sigma if stochastic else mean == 1


SIZES = [16, 32, 8]
HALF = torch.float16


def learnt(options, accumulation, make=None, replicas=1):
    options.replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation // replicas)
    model = Layers(SIZES).half()
    make = make or (lambda p: poptorch.optim.AdamW(
        p, lr=0.01, loss_scaling=64.0, accum_type=HALF, first_order_momentum_accum_type=HALF))
    executor = poptorch.trainingModel(model, options, make(model.parameters()))
    generator = torch.Generator().manual_seed(2)
    x, target = (torch.randn(4 * accumulation, size, generator=generator).half() for size in (SIZES[0], SIZES[-1]))
    for _ in range(3):
        executor(x, target)
    executor.copyWeightsToHost()
    found = weights(model)
    executor.destroy()
    return found


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("accumulation", [1, 6])
def test_the_same_on_every_placement(accumulation):
    stages = [poptorch.Stage("0").ipu(0), poptorch.Stage("1").ipu(1)]
    one = poptorch.ShardedExecution(poptorch.Stage("0", "1").ipu(0))
    expected = learnt(rounding().setExecutionStrategy(one), accumulation)
    assert not same(expected, learnt(quiet().randomSeed(7).setExecutionStrategy(one), accumulation))
    placements = [poptorch.ShardedExecution(*stages)]
    if accumulation > 1:
        placements.append(poptorch.PipelinedExecution(*stages))  # computes activations again
    for strategy in placements:
        assert same(learnt(rounding().setExecutionStrategy(strategy), accumulation), expected)
    recomputing = rounding().setExecutionStrategy(one)
    recomputing._Popart.set("autoRecomputation", 4)
    assert same(learnt(recomputing, accumulation), expected)


class ShownWeight(OneWeight):
    """Shows its weight without rounding it: products in float32."""

    def forward(self, x):
        return self.weight.float() * x, super().forward(x.half())


def test_replicas_share_their_weights_as_ever():
    """Gradients are rounded by each replica for itself, the weights by all alike."""
    numel = 512
    model = ShownWeight(numel)
    options = rounding().replicationFactor(2).outputMode(poptorch.OutputMode.All)
    executor = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=ULP / 3))
    x = torch.rand(numel) + 1
    shown = [executor(x.repeat(2))[0].reshape(2, numel) for _ in range(4)]
    executor.destroy()
    assert all(torch.equal(first, second) for first, second in shown)
    assert len((shown[-1][0] / x).unique()) > 2  # they have moved, at random


def test_sharded_state_rounds_like_whole_state():
    one = poptorch.ShardedExecution(poptorch.Stage("0", "1").ipu(0))
    found = []
    for sharded in (False, True):
        options = rounding().setExecutionStrategy(one)
        settings = poptorch.TensorLocationSettings().useReplicatedTensorSharding(sharded)
        settings.minElementsForReplicatedTensorSharding(2)
        options.TensorLocations.setOptimizerLocation(settings)
        found.append(learnt(options, 6, replicas=2))
    assert same(*found)
