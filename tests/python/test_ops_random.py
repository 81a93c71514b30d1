"""Random numbers: distributions, ranges and types; dropout: its mask in the forward and the backward pass."""

import poptorch
import pytest
import torch
import torch.nn.functional as F
from support import compare

MANY = 20000


def on(x):
    return (x * 1).device


def sample(function, *inputs, dtype=None):
    """The result of a function of tensors in a captured model."""
    inputs = inputs or (torch.zeros(MANY, dtype=dtype or torch.float32),)
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()
    executor = poptorch.inferenceModel(model.train(), compare.options().randomSeed(7))
    result = executor(*inputs)
    again = executor(*inputs)
    compare.no_host_calls(executor, "random op")
    if result.numel() > 8:
        assert not torch.equal(result, again), "two runs drew the same numbers"
    return result


def check_moments(x, mean, deviation, slack=0.05):
    x = x.double()
    assert abs(x.mean() - mean) < slack * max(deviation, 1e-3) * 3
    assert abs(x.std() - deviation) < slack * max(deviation, 1e-3) * 3


UNIFORM = {
    "rand": lambda x: torch.rand(MANY, device=on(x)),
    "rand.generator": lambda x: torch.rand(MANY, generator=None, device=on(x)),
    "rand_like": torch.rand_like,
    "uniform_": lambda x: (x * 1).uniform_(),
}
NORMAL = {
    "randn": lambda x: torch.randn(MANY, device=on(x)),
    "randn.generator": lambda x: torch.ops.aten.randn.generator([MANY], generator=None, device=on(x)),
    "randn_like": torch.randn_like,
    "normal_": lambda x: (x * 1).normal_(),
    "normal.float_float": lambda x: torch.normal(0.0, 1.0, (MANY,), device=on(x)),
    "normal.Tensor_float": lambda x: torch.normal(x, 1.0),
    "normal.float_Tensor": lambda x: torch.normal(0.0, x + 1),
    "normal.Tensor_Tensor": lambda x: torch.normal(x, x + 1),
}


@pytest.mark.parametrize("name", UNIFORM)
def test_uniform(name):
    x = sample(UNIFORM[name])
    assert x.min() >= 0 and x.max() < 1
    check_moments(x, 0.5, 12 ** -0.5)


@pytest.mark.parametrize("name", NORMAL)
def test_normal(name):
    check_moments(sample(NORMAL[name]), 0, 1)


def test_rand_generator_overload():
    x = sample(lambda x: torch.ops.aten.rand.generator([MANY], generator=None, device=on(x)))
    check_moments(x, 0.5, 12 ** -0.5)


@pytest.mark.parametrize("function,low,high", [
    (lambda x: torch.randint(10, (MANY,), device=on(x)), 0, 10),
    (lambda x: torch.randint(-3, 4, (MANY,), device=on(x)), -3, 4),
    (lambda x: torch.ops.aten.randint.generator(10, [MANY], generator=None, device=on(x)), 0, 10),
    (lambda x: torch.ops.aten.randint.low_generator(5, 10, [MANY], generator=None, device=on(x)), 5, 10),
    (lambda x: torch.randint_like(x, 6), 0, 6),
    (lambda x: torch.randint_like(x, 2, 6), 2, 6),
    (lambda x: (x * 1).random_(5), 0, 5),
    (lambda x: (x * 1).random_(2, 5), 2, 5),
], ids=["randint", "randint.low", "randint.generator", "randint.low_generator", "randint_like",
    "randint_like.low_dtype",
        "random_.to", "random_.from"])
def test_integers_cover_their_range(function, low, high):
    x = sample(function).double()
    assert x.unique().tolist() == list(range(low, high))
    check_moments(x, (low + high - 1) / 2, ((high - low) ** 2 / 12 - 1 / 12) ** 0.5)


def test_wide_integers():
    x = sample(lambda x: torch.randint(10 ** 9, (MANY,), device=on(x))).double()
    assert x.min() >= 0 and x.max() < 10 ** 9 and x.unique().numel() > MANY * 0.99
    check_moments(x, 5e8, 10 ** 9 * 12 ** -0.5)


def test_random_without_bounds():
    x = sample(lambda x: (x * 1).random_(), torch.zeros(MANY, dtype=torch.int32))
    assert x.min() >= 0 and x.unique().numel() > MANY * 0.99


@pytest.mark.parametrize("overload", ["randperm", "randperm.generator"])
def test_permutation(overload):
    function = {"randperm": lambda x: torch.randperm(100, device=on(x)),
                "randperm.generator": lambda x: torch.ops.aten.randperm.generator(100, generator=None,
                    device=on(x))}[overload]
    x = sample(function)
    assert x.dtype == torch.int32 and x.sort()[0].tolist() == list(range(100)) and x.tolist() != list(range(100))


def test_other_distributions():
    check_moments(sample(lambda x: (x * 1).exponential_(2.0)), 0.5, 0.5)
    check_moments(sample(lambda x: (x * 1).log_normal_(0.0, 0.25)), 1.0317, 0.2620, 0.1)
    x = sample(lambda x: (x * 1).geometric_(0.3))
    assert x.min() == 1 and (x == x.round()).all()
    check_moments(x, 1 / 0.3, 0.7 ** 0.5 / 0.3, 0.1)
    x = sample(lambda x: (x * 1).cauchy_(1.0, 2.0))
    assert abs(x.median() - 1) < 0.2 and abs(((x - 1).abs() < 2).float().mean() - 0.5) < 0.02


@pytest.mark.parametrize("name,function", [
    ("bernoulli", lambda p: torch.bernoulli(p)),
    ("bernoulli.p", lambda p: torch.bernoulli(p, 0.3)),
    ("bernoulli_.float", lambda p: (p * 1).bernoulli_(0.3)),
    ("bernoulli_.Tensor", lambda p: (p * 1).bernoulli_(p)),
    ("bernoulli.Tensor", lambda p: torch.ops.aten.bernoulli.Tensor(p, p)),
], ids=lambda value: value if isinstance(value, str) else "")
def test_bernoulli(name, function):
    x = sample(function, torch.full((MANY,), 0.3))
    assert set(x.unique().tolist()) == {0.0, 1.0}
    check_moments(x, 0.3, 0.21 ** 0.5)


def test_bernoulli_is_exact_at_the_ends():
    assert sample(lambda p: torch.bernoulli(p), torch.tensor([0.0, 1.0] * 4)).tolist() == [0.0, 1.0] * 4


class Dropped(torch.nn.Module):
    """Returns what became of ones; the gradient of its weight is the mask that was used on the way back."""

    def __init__(self, drop, shape):
        super().__init__()
        self.drop, self.weight = drop, torch.nn.Parameter(torch.zeros(shape))

    def forward(self, x):
        y = self.drop(x + self.weight)
        return y, poptorch.identity_loss(y.sum(), "none")


@pytest.mark.parametrize("name,drop,shape", [
    ("dropout", lambda x: F.dropout(x, 0.3), (100, 100)),
    ("dropout_", lambda x: F.dropout(x * 1, 0.3, inplace=True), (100, 100)),
    ("feature_dropout", lambda x: F.dropout2d(x, 0.3), (50, 40, 2, 2)),
    ("dropout1d", lambda x: F.dropout1d(x, 0.3), (50, 40, 3)),
], ids=lambda value: value if isinstance(value, str) else "")
def test_dropout_uses_one_mask_both_ways(name, drop, shape):
    model = Dropped(drop, shape).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    executor = poptorch.trainingModel(model, compare.options(), optimizer=optimizer)
    forward, _ = executor(torch.ones(shape))
    executor.copyWeightsToHost()
    mask = -model.weight.detach()
    torch.testing.assert_close(forward, mask)
    kept = mask != 0
    torch.testing.assert_close(mask[kept], torch.full_like(mask[kept], 1 / 0.7))
    assert abs(kept.float().mean() - 0.7) < 0.03
    if "feature" in name or "1d" in name:
        assert torch.equal(kept.flatten(2).all(2), kept.flatten(2).any(2)), "a channel was dropped in part"


@pytest.mark.parametrize("drop", [F.alpha_dropout, F.feature_alpha_dropout],
    ids=["alpha_dropout", "feature_alpha_dropout"])
def test_alpha_dropout_keeps_mean_and_deviation(drop):
    x = sample(lambda x: drop(x, 0.3, True), torch.randn(200, 100))
    check_moments(x, 0, 1, 0.1)


@pytest.mark.parametrize("p,training", [(0.0, True), (0.5, False), (1.0, True)])
def test_dropout_at_the_ends(p, training):
    x = torch.randn(5, 4, 3)
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: (
        F.dropout(x, p, training), F.dropout2d(x, p, training), F.alpha_dropout(x, p, training))})()
    expected = torch.zeros_like(x) if p == 1 else x
    for result in poptorch.inferenceModel(model, compare.options())(x):
        assert torch.equal(result, expected)
