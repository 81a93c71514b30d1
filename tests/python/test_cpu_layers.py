"""poptorch.CPU: layers that run on the host in the middle of a wrapped model, in training and inference."""

import copy

import poptorch
import pytest
import torch

from support.models import FunctionModel, quiet
from support.training import Function, random_batches, train_beside_eager


def infer(function, *inputs, options=None):
    return poptorch.inferenceModel(FunctionModel(lambda self, *x: function(*x)), options or quiet())(*inputs)


def test_runs_with_the_values_of_each_micro_batch():
    seen = []

    def layer(x):
        seen.append((x.clone(), poptorch.isRunningOnIpu(), x.device.type))
        return x * 2

    cpu = poptorch.CPU(layer, "doubler")
    x = torch.arange(12.0).reshape(6, 2)
    result = infer(lambda x: cpu(x + 1) - 1, x, options=quiet().deviceIterations(3))
    assert torch.equal(result, (x + 1) * 2 - 1)
    first, *others = seen
    assert torch.equal(first[0], torch.zeros(2, 2)), "captured with zeros"
    assert torch.equal(torch.cat([x for x, _, _ in others]), x + 1)
    assert all(not on_ipu and device == "cpu" for _, on_ipu, device in seen)


RESULTS = {
    "a tensor": lambda x: x.exp(),
    "a scalar": lambda x: x.sum(),
    "a tuple": lambda x: (x + 1, x.sum(), x > 0),
    "a tuple of one": lambda x: (x * 3,),
    "a list": lambda x: [x.argmax(1), x.half()],
    "its input": lambda x: x,
}


@pytest.mark.parametrize("name", RESULTS)
def test_returns_what_the_layer_returns(name):
    x = torch.randn(4, 3)
    cpu = poptorch.CPU(RESULTS[name], "results")
    result, expected = infer(cpu, x), RESULTS[name](x)
    assert type(result) is type(expected)
    for got, wanted in zip(*((r,) if isinstance(r, torch.Tensor) else r for r in (result, expected))):
        assert got.shape == wanted.shape
        torch.testing.assert_close(got.to(wanted.dtype), wanted)


def test_the_same_object_several_times_between_ops_of_the_device():
    cpu = poptorch.CPU(lambda a, b: (a @ b, a - b), "pair")

    def forward(x, y):
        product, difference = cpu(x, y)
        product = torch.relu(product) + 1
        product, _ = cpu(product, difference)
        return cpu(product * 2, x)[1]

    x, y = torch.randn(3, 3), torch.randn(3, 3)
    torch.testing.assert_close(infer(forward, x, y), forward(x, y))


def test_a_layer_without_inputs_runs_in_each_execution():
    values = iter(range(100))
    cpu = poptorch.CPU(lambda: torch.tensor([float(next(values))]), "source")
    executor = poptorch.inferenceModel(FunctionModel(lambda self, x: x + cpu()), quiet())
    assert [executor(torch.zeros(1)).item() for _ in range(3)] == [1, 2, 3]  # 0 was drawn by the capture


def test_what_the_layer_does_to_its_input_stays_there():
    def layer(x):
        x.mul_(100)
        return x.sum()

    cpu = poptorch.CPU(layer, "writes")
    x = torch.ones(4)
    kept, total = infer(lambda x: (lambda y: (cpu(y), y))(x + 1)[::-1], x)
    assert torch.equal(kept, x + 1) and total == 800


# -- modules and training ---------------------------------------------------------------------------------------------


class Sandwich(torch.nn.Module):
    """A layer on the host between two that are trained on the device. kind: how the model holds the middle one."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(2)
        self.first, self.last = torch.nn.Linear(4, 6), torch.nn.Linear(6, 2)
        middle = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh())
        if kind == "child":
            self.middle = middle
            self.cpu = poptorch.CPU(self.middle, "middle")
        elif kind == "list":
            self.held = [middle]
            self.cpu = poptorch.CPU(self.held[0], "middle")
        else:
            self.held = [middle.requires_grad_(False)]
            self.cpu = poptorch.CPU(self.on_host, "middle")

    def on_host(self, x):
        return self.held[0](x)

    def forward(self, x, target):
        y = self.last(torch.relu(self.cpu(self.first(x))))
        return torch.nn.functional.mse_loss(y, target)


@pytest.mark.parametrize("kind", ["child", "list", "method"])
def test_trains_through_the_layer_like_eager(kind):
    model = Sandwich(kind)
    middle = model.middle if kind == "child" else model.held[0]
    before = copy.deepcopy(middle.state_dict())
    assert not any(parameter.requires_grad for parameter in middle.parameters())
    generator = torch.Generator().manual_seed(5)
    batches = [(torch.randn(8, 4, generator=generator), torch.randn(8, 2, generator=generator)) for _ in range(10)]
    train_beside_eager(model, lambda step: batches[step])
    assert all(torch.equal(value, before[name]) for name, value in middle.state_dict().items())
    assert not any(parameter.requires_grad for parameter in middle.parameters())


def test_trains_in_a_pipeline_with_replicas_and_accumulation():
    def model_loss(strategy, replicas):
        torch.manual_seed(3)
        first, last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        cpu = poptorch.CPU(torch.sin, "sine")

        def forward(self, x):
            with poptorch.Block("a", ipu_id=0):
                x = cpu(self.m0(x))
            with poptorch.Block("b", ipu_id=1):
                return poptorch.identity_loss(self.m1(x).square(), "mean")

        options = quiet().setExecutionStrategy(strategy).replicationFactor(replicas)
        options.Training.gradientAccumulation(8 // replicas)
        options.outputMode(poptorch.OutputMode.All)
        model = FunctionModel(forward, first, last)
        trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))
        for _ in range(4):
            losses = trainer(x)
        return losses.sort().values

    sharded = model_loss(poptorch.ShardedExecution(), 1)
    assert torch.equal(model_loss(poptorch.PipelinedExecution(), 1), sharded)
    torch.testing.assert_close(model_loss(poptorch.PipelinedExecution(), 2), sharded)


def test_a_layer_that_draws_random_numbers_cannot_be_differentiated():
    cpu = poptorch.CPU(lambda x: x * torch.rand_like(x), "noise")
    module = Function(lambda self, x: cpu(self.first(x)).sum())
    trainer = poptorch.trainingModel(module, quiet())
    with pytest.raises(poptorch.Error, match=r"\[CPU noise\].*draws random numbers"):
        trainer(*random_batches()(0))
    # Where no gradient passes it may.
    module = Function(lambda self, x: (cpu(x) @ self.scale).sum())
    assert poptorch.trainingModel(module, quiet())(*random_batches()(0)).isfinite()


# -- errors -----------------------------------------------------------------------------------------------------------


def test_two_layers_of_a_model_must_not_share_an_id():
    one, other = poptorch.CPU(torch.relu, "same"), poptorch.CPU(torch.tanh, "same")
    with pytest.raises(poptorch.Error, match=r'\[CPU same\] another layer of the model has the ID "same" already'):
        infer(lambda x: one(x) + other(x), torch.ones(2))
    assert torch.equal(infer(one, torch.ones(2)), torch.ones(2))  # another model may have it
    assert torch.equal(infer(other, torch.ones(2)), torch.tanh(torch.ones(2)))


def test_errors_of_the_layer_name_it_and_the_line():
    def layer(x):
        if x.any():
            raise ValueError("no ones, please")
        return x

    with pytest.raises(poptorch.Error, match=r"(?s)\[CPU picky\] ValueError: no ones, please \(.*test_cpu_layers.py:\d+"
                                             r", layer\).*captured at .*test_cpu_layers.py"):
        infer(poptorch.CPU(layer, "picky"), torch.ones(2))
    with pytest.raises(poptorch.Error, match=r"(?s)\[CPU never\] TypeError.*captured at .*test_cpu_layers.py"):
        infer(poptorch.CPU(lambda: None, "never"), torch.ones(2))


@pytest.mark.parametrize("result", [None, {"x": torch.ones(1)}, (), (torch.ones(1), 2)])
def test_results_must_be_tensors(result):
    with pytest.raises(poptorch.Error, match=r"\[CPU odd\] the layer"):
        infer(poptorch.CPU(lambda x: result, "odd"), torch.ones(2))


def test_results_must_keep_their_shape():
    cpu = poptorch.CPU(lambda x: x[x > 0] if x.any() else x, "shrinks")
    with pytest.raises(poptorch.Error, match=r"\[CPU shrinks\] a result has shape \[1\] where \[2\] was expected"):
        infer(cpu, torch.tensor([1.0, -1.0]))


def test_arguments_are_checked():
    with pytest.raises(poptorch.Error, match=r"\[CPU x\] expects a module or a function"):
        poptorch.CPU(3, "x")
    with pytest.raises(poptorch.Error, match="the ID must be a str, not 7"):
        poptorch.CPU(torch.relu, 7)
    with pytest.raises(poptorch.Error, match=r"\[CPU y\] expects a tensor, not a int"):
        infer(lambda x: poptorch.CPU(torch.add, "y")(x, 2), torch.ones(2))


def test_calls_the_layer_outside_a_wrapped_model():
    assert torch.equal(poptorch.CPU(torch.neg, "plain")(torch.ones(2)), -torch.ones(2))
