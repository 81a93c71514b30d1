"""Parts of torch that behave differently while a model is captured."""

import poptorch
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Wrapped(nn.Module):
    """A linear layer and a function of it, for whatever forward should contain."""

    def __init__(self, function):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.function = function

    def forward(self, *inputs):
        return self.function(self, *inputs)


def infer(function, *inputs):
    options = poptorch.Options().showCompilationProgressBar(False)
    torch.manual_seed(0)
    return poptorch.inferenceModel(Wrapped(function), options)(*inputs)


def train_beside_torch(function, steps=4):
    """Losses of poptorch and of plain torch from the same weights and data."""
    torch.manual_seed(0)
    own, plain = Wrapped(function), Wrapped(function)
    plain.load_state_dict(own.state_dict())
    options = poptorch.Options().showCompilationProgressBar(False)
    model = poptorch.trainingModel(own, options, poptorch.optim.SGD(own.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(steps):
        x = torch.randn(4, 3)
        optimizer.zero_grad()
        wanted = plain(x)
        wanted.backward()
        optimizer.step()
        torch.testing.assert_close(model(x), wanted.detach())
    for (name, ours), theirs in zip(own.named_parameters(), plain.parameters()):
        torch.testing.assert_close(ours.detach(), theirs.detach(), msg=lambda text, name=name: f"{name}: {text}")


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


def mean_square(y):
    return nn.functional.mse_loss(y, torch.zeros_like(y))


def test_forward_of_an_autograd_function_is_differentiated():
    train_beside_torch(lambda m, x: mean_square(Square.apply(m.linear(x))))


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointed_function_is_differentiated(use_reentrant):
    train_beside_torch(
        lambda m, x: mean_square(checkpoint(torch.tanh, m.linear(x), use_reentrant=use_reentrant))
    )


def test_apply_is_torch_again_after_capture():
    infer(lambda m, x: Square.apply(x), torch.ones(2))
    x = torch.full((2,), 3.0, requires_grad=True)
    Square.apply(x).sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_parameters_are_on_the_device_of_the_model():
    def forward(m, x):
        assert m.linear.weight.device == x.device
        assert torch.ones(1, device="cpu").device.type == "cpu"
        moved = x.to(m.linear.weight.device).to(m.linear.weight)
        return m.linear(moved) + torch.arange(3, device=m.linear.weight.device)

    torch.manual_seed(0)
    reference = Wrapped(None).linear
    x = torch.randn(2, 3)
    torch.testing.assert_close(infer(forward, x), (reference(x) + torch.arange(3)).detach())
    assert reference.weight.device.type == "cpu"


def test_print_shows_shape_and_device(capsys):
    infer(lambda m, x: print(x) or x + 1, torch.ones(2, 3))
    assert "tensor(<unavailable>, shape=(2, 3), dtype=torch.float32, device='ipu:0')" in capsys.readouterr().out


def test_scripted_module_is_captured():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))

        def forward(self, x):
            return self.inner(x) * 2

    torch.manual_seed(0)
    model = Outer()
    x = torch.randn(2, 3)
    options = poptorch.Options().showCompilationProgressBar(False)
    torch.testing.assert_close(poptorch.inferenceModel(model, options)(x), model(x).detach())


FACTORIES = {
    "arange": lambda: torch.arange(3), "empty": lambda: torch.empty(2), "full": lambda: torch.full((2,), 3.0),
    "full_like": lambda: torch.full_like(torch.zeros(2), 1.0), "linspace": lambda: torch.linspace(0, 1, 3),
    "logspace": lambda: torch.logspace(0, 1, 3), "normal": lambda: torch.normal(0.0, 1.0, (2,)),
    "ones": lambda: torch.ones(2), "rand": lambda: torch.rand(2), "randint": lambda: torch.randint(0, 3, (2,)),
    "randn": lambda: torch.randn(2), "randperm": lambda: torch.randperm(4), "range": lambda: torch.range(0, 3),
    "tensor": lambda: torch.tensor([1.0]), "zeros": lambda: torch.zeros(2), "zeros_like": lambda: torch.zeros_like(
        torch.ones(2)),
}


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("name", FACTORIES)
def test_tensors_made_in_forward_are_on_the_device(name):
    seen = []

    class Model(torch.nn.Module):
        def forward(self, x):
            made = FACTORIES[name]()
            seen.append(made.device.type)
            return x + torch.zeros(1, device=made.device), made * 1

    poptorch.inferenceModel(Model(), poptorch.Options().showCompilationProgressBar(False))(torch.zeros(3))
    assert seen == ["ipu"]
    assert FACTORIES[name]().device.type == "cpu"
