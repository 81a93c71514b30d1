"""Draws from distributions whose parameters are tensors: moments, reproducibility, replicas and gradients."""

import poptorch
import pytest
import torch
from poptorch import poptorch_core
from support import compare

D = torch.distributions
MANY = 20000


def options(seed=7):
    return compare.options().randomSeed(seed)


def module(function):
    return type("Model", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()


def sample(function, *inputs, seed=7):
    """What a function draws in a captured model, never on the host, and anew in every run."""
    executor = poptorch.inferenceModel(module(function), options(seed))
    result, again = executor(*inputs), executor(*inputs)
    compare.no_host_calls(executor, "random op")
    assert not torch.equal(result, again), "two runs drew the same numbers"
    return result


def check_mean(x, mean, deviation, dim=None):
    """Within five standard errors of what it should be."""
    x = x.double()
    count = x.numel() if dim is None else x.shape[dim]
    found = x.mean() if dim is None else x.mean(dim)
    mean, deviation = torch.as_tensor(mean).double(), torch.as_tensor(deviation).double()
    assert ((found - mean).abs() <= 5 * deviation / count**0.5 + 1e-6).all(), f"{found} instead of {mean}"


def full(*values):
    return torch.tensor(values).expand(MANY, len(values)).contiguous()


A, B = 0.6, 4.0
COUNT, P = 9.0, 0.35
WEIGHTS = torch.tensor([1.0, 0.0, 5.0, 2.0])
SHARES = WEIGHTS / WEIGHTS.sum()

# name: (function of tensors, inputs, mean and deviation along axis 0)
DRAWS = {
    "_standard_gamma": (torch._standard_gamma, [full(A, B)], [A, B], [A**0.5, B**0.5]),
    "poisson": (torch.poisson, [full(A, 40.0)], [A, 40.0], [A**0.5, 40.0**0.5]),
    "binomial": (torch.binomial, [full(COUNT, 200.0), full(P, 0.5)], [COUNT * P, 100.0],
                 [(COUNT * P * (1 - P))**0.5, 50**0.5]),
    "_sample_dirichlet": (torch._sample_dirichlet, [full(A, B)], [A / (A + B), B / (A + B)],
                          [(A * B / (A + B)**2 / (A + B + 1))**0.5] * 2),
    "multinomial": (lambda w: torch.nn.functional.one_hot(torch.multinomial(w, 1)[:, 0], 4),
                    [WEIGHTS.expand(MANY, 4).contiguous()], SHARES, (SHARES * (1 - SHARES)).sqrt()),
    "multinomial with replacement": (lambda w: torch.nn.functional.one_hot(torch.multinomial(w, MANY, True), 4),
                                     [WEIGHTS], SHARES, (SHARES * (1 - SHARES)).sqrt()),
    "Gamma": (lambda a: D.Gamma(a, 2.0).rsample(), [full(A, B)], [A / 2, B / 2],
              [A**0.5 / 2, B**0.5 / 2]),
    "Beta": (lambda a: D.Beta(a, 3.0).rsample(), [full(A, B)], [A / (A + 3), B / (B + 3)],
             [(3 * a / (a + 3)**2 / (a + 4))**0.5 for a in (A, B)]),
    "Dirichlet": (lambda a: D.Dirichlet(a).rsample(), [full(A, B)],
                  [A / (A + B), B / (A + B)], [(A * B / (A + B)**2 / (A + B + 1))**0.5] * 2),
    "Categorical": (lambda w: torch.nn.functional.one_hot(D.Categorical(w).sample(), 4),
                    [WEIGHTS.expand(MANY, 4).contiguous()], SHARES, (SHARES * (1 - SHARES)).sqrt()),
    "Poisson": (lambda r: D.Poisson(r).sample(), [full(A, B)], [A, B], [A**0.5, B**0.5]),
    "Binomial": (lambda p: D.Binomial(torch.tensor(COUNT), p).sample(), [full(P, 0.8)],
                 [COUNT * P, COUNT * 0.8], [(COUNT * P * (1 - P))**0.5, (COUNT * 0.16)**0.5]),
    "Multinomial": (lambda w: D.Multinomial(6, w).sample(),
                    [WEIGHTS.expand(MANY, 4).contiguous()], 6 * SHARES, (6 * SHARES * (1 - SHARES)).sqrt()),
}


@pytest.mark.parametrize("name", DRAWS)
def test_mean(name):
    function, inputs, mean, deviation = DRAWS[name]
    check_mean(sample(function, *inputs), mean, deviation, 0)


@pytest.mark.parametrize("name", ["_standard_gamma", "poisson", "binomial", "_sample_dirichlet", "multinomial"])
def test_the_seed_decides(name):
    function, inputs = DRAWS[name][:2]
    first = sample(function, *inputs)
    assert torch.equal(first, sample(function, *inputs))
    assert not torch.equal(first, sample(function, *inputs, seed=8))


@pytest.mark.parametrize("name", ["_standard_gamma", "poisson", "binomial", "_sample_dirichlet", "multinomial"])
def test_torch_generator_is_left_alone(name):
    function, inputs = DRAWS[name][:2]
    executor = poptorch.inferenceModel(module(function), options())
    torch.manual_seed(0)
    expected = torch.rand(4)
    torch.manual_seed(0)
    executor(*inputs)
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("name", ["_standard_gamma", "poisson", "_sample_dirichlet"])
def test_replicas_draw_different_numbers(name):
    function, inputs = DRAWS[name][:2]
    x = inputs[0][:64]
    executor = poptorch.inferenceModel(module(function), options().replicationFactor(2))
    first, second = executor(torch.cat([x, x])).chunk(2)
    assert not torch.equal(first, second)


def test_the_random_state_continues():
    def trained(state=None):
        executor = poptorch.inferenceModel(module(torch.poisson), options())
        x = torch.full((64,), 5.0)
        executor.compile(x)
        if state is not None:
            executor.rng_state = state
        return executor, executor(x)

    executor, _ = trained()
    state = executor.rng_state
    following = executor(torch.full((64,), 5.0))
    assert torch.equal(trained(state)[1], following)


def test_multinomial_without_replacement_draws_no_class_twice():
    y = sample(lambda w: torch.multinomial(w, 3), torch.rand(500, 5) + 0.1)
    assert y.dtype == torch.int32 and (y.sort(1)[0].diff(dim=1) > 0).all()


def test_poisson_in_half():
    y = sample(torch.poisson, torch.full((MANY,), 3.0).half())
    assert y.dtype == torch.half
    check_mean(y, 3.0, 3**0.5)


class Drawn(torch.nn.Module):
    """Returns what was drawn; its parameter loses the gradient of a weighted sum of it."""

    def __init__(self, draw, start):
        super().__init__()
        self.draw, self.parameter = draw, torch.nn.Parameter(start.clone())

    def forward(self, weights):
        y = self.draw(self.parameter)
        return y, poptorch.identity_loss((y * weights).sum(), "none")


def gradient_of(draw, start, weights):
    model = Drawn(draw, start).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    executor = poptorch.trainingModel(model, options(), optimizer=optimizer)
    y, _ = executor(weights)
    executor.copyWeightsToHost()
    compare.no_host_calls(executor, "random op")
    return y, start - model.parameter.detach()


def spread(low, high, *shape):
    count = torch.Size(shape).numel()
    return (torch.linspace(low, high, count).exp() - 1)[torch.randperm(count)].reshape(shape)


def test_gamma_gradient_is_that_of_the_value_drawn():
    torch.manual_seed(1)
    alpha, weights = spread(0.05, 4.0, 400), torch.randn(400)
    y, gradient = gradient_of(torch._standard_gamma, alpha, weights)
    expected = torch._standard_gamma_grad(alpha.double(), y.double()) * weights
    # Torch's own formula is an approximation of about 1e-3.
    torch.testing.assert_close(gradient.double(), expected.double(), rtol=2e-3, atol=1e-5)


def test_dirichlet_gradient_is_that_of_the_value_drawn():
    torch.manual_seed(1)
    alpha, weights = spread(0.05, 3.0, 100, 5), torch.randn(100, 5)
    y, gradient = gradient_of(torch._sample_dirichlet, alpha, weights)
    torch.testing.assert_close(y.sum(-1), torch.ones(100))
    expected = D.dirichlet._Dirichlet_backward(y.double(), alpha.double(), weights.double())
    torch.testing.assert_close(gradient.double(), expected, rtol=5e-3, atol=1e-4)


def test_beta_reparameterises():
    torch.manual_seed(1)
    alpha, weights = spread(0.2, 3.0, 300), torch.randn(300)
    y, gradient = gradient_of(lambda a: D.Beta(a, torch.tensor(2.0)).rsample(), alpha, weights)
    expected = torch._dirichlet_grad(y.double(), alpha.double(), alpha.double() + 2) * (1 - y.double()) * weights
    torch.testing.assert_close(gradient.double(), expected, rtol=5e-3, atol=1e-4)


def test_gamma_reparameterises():
    torch.manual_seed(1)
    alpha, weights = spread(0.2, 3.0, 300), torch.randn(300)
    y, gradient = gradient_of(lambda a: D.Gamma(a, torch.tensor(2.0)).rsample(), alpha, weights)
    expected = torch._standard_gamma_grad(alpha.double(), 2 * y.double()) / 2 * weights
    torch.testing.assert_close(gradient.double(), expected, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("draw", [torch.poisson, lambda p: torch.binomial(torch.full_like(p, 9.0), p)],
                         ids=["poisson", "binomial"])
def test_counts_have_a_gradient_of_zero(draw):
    _, gradient = gradient_of(draw, torch.full((50,), 0.5), torch.ones(50))
    assert torch.equal(gradient, torch.zeros(50))


def test_weights_of_classes_train_through_log_prob():
    """The score function estimator: the drawn class is a constant, its logarithm carries the gradient."""
    torch.manual_seed(0)
    start = torch.randn(200, 4)

    def score(logits):
        distribution = D.Categorical(logits=logits)
        action = distribution.sample()
        return torch.stack([action.float(), distribution.log_prob(action)])

    weights = torch.stack([torch.zeros(200), torch.ones(200)])
    y, gradient = gradient_of(score, start, weights)
    logits = start.clone().requires_grad_(True)
    D.Categorical(logits=logits).log_prob(y[0]).sum().backward()
    torch.testing.assert_close(gradient, logits.grad, rtol=1e-4, atol=1e-6)


def test_native_dropout_gives_its_mask():
    y, gradient = gradient_of(lambda x: torch.native_dropout(x, 0.3, True)[0], torch.ones(5000), torch.ones(5000))
    torch.testing.assert_close(y, gradient)
    kept = y != 0
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 1 / 0.7))
    check_mean(kept.float(), 0.7, 0.21**0.5)
    both = sample(lambda x: torch.cat([part.float() for part in torch.native_dropout(x, 0.3, True)]), torch.ones(5000))
    assert torch.equal(both[:5000] != 0, both[5000:] != 0)
    model = module(lambda x: torch.native_dropout(x, 0.3, False))
    x = torch.randn(20)
    y, mask = poptorch.inferenceModel(model, options())(x)
    assert torch.equal(y, x) and mask.all()


def test_fused_dropout_takes_the_probability_of_keeping():
    y = sample(lambda x: torch.ops.aten._fused_dropout(x, 0.7)[0], torch.ones(5000))
    check_mean((y != 0).float(), 0.7, 0.21**0.5)


@pytest.mark.parametrize("in_place", [False, True], ids=["rrelu_with_noise", "rrelu_with_noise_"])
def test_rrelu_with_noise_leaves_the_slopes(in_place):
    def function(x):
        noise = torch.zeros_like(x)
        x = x * 1
        if in_place:
            y = torch.ops.aten.rrelu_with_noise_(x, noise, 0.1, 0.3, True)
        else:
            y = torch.ops.aten.rrelu_with_noise(x, noise, 0.1, 0.3, True)
        return torch.stack([y, noise])

    x = torch.randn(4000)
    y, noise = sample(function, x)
    torch.testing.assert_close(y, x * noise)
    assert (noise[x > 0] == 1).all()
    below = noise[x <= 0]
    assert below.min() >= 0.1 and below.max() <= 0.3
    check_mean(below, 0.2, 0.2 / 12**0.5)


def test_normal_functional():
    y = sample(lambda x: torch.ops.aten.normal_functional(x, 2.0, 3.0), torch.zeros(MANY))
    check_mean(y, 2.0, 3.0)


@pytest.fixture
def without_poisson():
    poptorch_core.remove_handler("aten::poisson")
    yield
    poptorch_core.restore_handlers()


def test_no_random_op_reaches_the_host(without_poisson):
    with pytest.raises(poptorch.Error, match=r"(?s)\[aten::poisson\] draws random numbers.*torch.rand.*test_ops_dist"):
        poptorch.inferenceModel(module(torch.poisson), options())(torch.ones(3))


@pytest.mark.parametrize("name,function,inputs,message", [
    ("poisson", torch.poisson, [torch.tensor([1.0, -2.0])], "rate -2 of element 1"),
    ("gamma", torch._standard_gamma, [torch.tensor([-1.0])], "shape parameter -1"),
    ("multinomial", lambda w: torch.multinomial(w, 1), [torch.tensor([0.5, -1.0])], "weight -1"),
    ("multinomial zero", lambda w: torch.multinomial(w, 1), [torch.zeros(2, 3)], "all zero"),
    ("multinomial count", lambda w: torch.multinomial(w, 4), [torch.ones(3)], "4 samples from 3 classes"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_parameters_of_no_distribution(name, function, inputs, message):
    with pytest.raises(poptorch.Error, match=message):
        poptorch.inferenceModel(module(function), options())(*inputs)


CASES = [
    compare.Case("_standard_gamma_grad", lambda a, z: torch._standard_gamma_grad(a, z),
                 [torch.linspace(0.3, 4, 30), torch.linspace(0.2, 5, 30).flip(0)], grad=False, tolerance=(1e-3, 1e-5)),
    compare.Case("_dirichlet_grad", lambda x, a, t: torch._dirichlet_grad(x, a, t),
                 [torch.linspace(0.05, 0.95, 30), torch.linspace(0.3, 4, 30), torch.linspace(0.9, 9, 30)], grad=False,
                 tolerance=(5e-3, 1e-4)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient_formulas(case):
    compare.check(case)
