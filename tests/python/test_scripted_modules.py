"""Modules of torch.jit, wrapped as they are."""

import poptorch
import pytest
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 6)
        self.norm = torch.nn.BatchNorm1d(6)
        self.second = torch.nn.Linear(6, 3)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x)))) * self.scale


class WithLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        y = torch.tanh(self.layer(x))
        return y, torch.nn.functional.mse_loss(y, torch.zeros_like(y))


class Branches(torch.nn.Module):
    def forward(self, x, twice: bool = False):
        if twice:
            return x * 2
        return x + 1


X = torch.randn(5, 4, generator=torch.Generator().manual_seed(2))
MAKE = {"script": torch.jit.script, "trace": lambda module: torch.jit.trace(module, X)}
parametrized = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


@parametrized
def test_inference_of_a_jit_module(make):
    torch.manual_seed(0)
    module = make(Net().eval())
    executor = poptorch.inferenceModel(module, quiet())
    wanted = module(X).detach()
    for _ in range(2):
        torch.testing.assert_close(executor(X), wanted)
    executor.detachFromDevice()
    torch.testing.assert_close(executor(X), wanted)


@parametrized
def test_weights_of_a_jit_module_are_uploaded_again(make):
    module = make(Net().eval())
    executor = poptorch.inferenceModel(module, quiet())
    executor(X)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(0.5)
    executor.copyWeightsToDevice()
    torch.testing.assert_close(executor(X), module(X).detach())


@parametrized
def test_statistics_of_a_jit_module_come_back(make):
    torch.manual_seed(0)
    plain = Net().train()
    module = make(plain)
    reference = Net().train()
    reference.load_state_dict(module.state_dict())
    executor = poptorch.inferenceModel(module, quiet())
    torch.testing.assert_close(executor(X), reference(X).detach())
    executor.detachFromDevice()
    torch.testing.assert_close(dict(module.named_buffers())["norm.running_mean"], reference.norm.running_mean)


@parametrized
def test_training_of_a_jit_module(make):
    torch.manual_seed(0)
    module, reference = make(WithLoss()), WithLoss()
    kind = type(module)
    reference.load_state_dict(module.state_dict())
    executor = poptorch.trainingModel(module, quiet(), poptorch.optim.SGD(module.parameters(), lr=0.5))
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        y, loss = reference(X)
        loss.backward()
        optimizer.step()
        for result, expected in zip(executor(X), (y, loss)):
            torch.testing.assert_close(result, expected.detach())
    torch.testing.assert_close(module.layer.weight.detach(), reference.layer.weight.detach())
    torch.testing.assert_close(module(X)[0].detach(), reference(X)[0].detach())
    executor.destroy()
    assert type(module) is kind


def test_a_scripted_branch_is_taken_at_capture():
    executor = poptorch.inferenceModel(torch.jit.script(Branches()), quiet())
    assert torch.equal(executor(X, True), X * 2)


def test_a_part_of_a_model_may_be_scripted():
    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.jit.script(Net().eval())

        def forward(self, x):
            return self.inner(x) + 1

    model = Outer().eval()
    torch.testing.assert_close(poptorch.inferenceModel(model, quiet())(X), model(X).detach())
