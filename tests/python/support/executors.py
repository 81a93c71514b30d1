"""A small model, wrapped: what the tests of executors share. model and trainer are fixtures."""

import poptorch
import pytest
import torch


def quiet(device_iterations=1, gradient_accumulation=1):
    opts = poptorch.Options().showCompilationProgressBar(False).deviceIterations(device_iterations)
    opts.Training.gradientAccumulation(gradient_accumulation)
    return opts


def function_model(function, *modules):
    """A module around a function of (self, ...)."""
    cls = type("FunctionModel", (torch.nn.Module,), {"forward": function})
    model = cls()
    for index, module in enumerate(modules):
        model.add_module(f"m{index}", module)
    return model


class Trained(torch.nn.Module):
    """A linear layer, and a buffer that counts the micro-batches."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x, target=None):
        y = self.fc(x)
        if target is None:
            return y
        self.count.add_(1)
        return y, torch.nn.functional.mse_loss(y, target)


X, TARGET = torch.randn(4, 3), torch.randn(4, 2)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return Trained()


@pytest.fixture
def trainer(model):
    return poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))


def updates(model, batches, lr=0.1):
    """Plain SGD by hand; returns outputs and losses before each update."""
    outputs, losses = [], []
    for micro_batches in batches:
        grads = [torch.zeros_like(p) for p in model.parameters()]
        for x, target in micro_batches:
            y, loss = model(x, target)
            outputs.append(y.detach())
            losses.append(loss.detach())
            for total, grad in zip(grads, torch.autograd.grad(loss, list(model.parameters()))):
                total += grad / len(micro_batches)
        with torch.no_grad():
            for p, grad in zip(model.parameters(), grads):
                p -= lr * grad
    return outputs, losses
