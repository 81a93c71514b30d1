"""Trains a module beside eager PyTorch and compares every step."""

import copy

import poptorch
import torch


def options():
    return poptorch.Options().showCompilationProgressBar(False)


def train_beside_eager(module, batches, steps=10, lr=0.1, momentum=0.9, weight_decay=0.01, make_options=options):
    """Losses at each step, parameters and buffers after the last must be those of eager PyTorch.

    forward of module returns the loss alone. batches(step) gives the arguments of a step.
    """
    plain = copy.deepcopy(module)
    settings = dict(lr=lr, momentum=momentum, weight_decay=weight_decay)
    own = poptorch.trainingModel(module, make_options(), poptorch.optim.SGD(module.parameters(), **settings))
    optimizer = torch.optim.SGD(plain.parameters(), **settings)
    for step in range(steps):
        arguments = batches(step)
        optimizer.zero_grad()
        wanted = plain(*[a.clone() for a in arguments])
        wanted.backward()
        optimizer.step()
        got = own(*arguments)
        torch.testing.assert_close(
            got, wanted.detach(), rtol=1e-5, atol=1e-6, msg=lambda text, step=step: f"loss of step {step}: {text}"
        )
    theirs = dict(plain.state_dict())
    for name, ours in module.state_dict().items():
        torch.testing.assert_close(
            ours.detach(), theirs[name], rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
    return own


class Function(torch.nn.Module):
    """Two linear layers and whatever forward a test is about."""

    def __init__(self, function, width=4):
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Linear(width, width)
        self.second = torch.nn.Linear(width, width)
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 1.5, width))
        self.register_buffer("memory", torch.zeros(width))
        self.function = function

    def forward(self, *inputs):
        return poptorch.identity_loss(self.function(self, *inputs), reduction="none")


def random_batches(*shape, seed=11):
    def batches(step):
        generator = torch.Generator().manual_seed(seed + step)
        return (torch.randn(*(shape or (3, 4)), generator=generator),)

    return batches


def check(function, steps=10, width=4, **settings):
    """Trains Function(function) for `steps` steps beside eager PyTorch."""
    module = Function(function, width)
    return module, train_beside_eager(module, random_batches(3, width), steps, **settings)
