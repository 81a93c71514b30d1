"""Whole programs as users write them, made small: a loop over a data loader, weights read back, inference afterwards."""
import pathlib
import subprocess
import sys

import poptorch
import pytest
import torch
from torch import nn

ROOT = pathlib.Path(__file__).parents[2]


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1, 1)
        self.loss = nn.MSELoss()

    def forward(self, x, target=None):
        y = self.linear(x)
        return (y, self.loss(y, target)) if self.training else y


def regression_data(samples):
    x = torch.rand(samples, 1, generator=torch.Generator().manual_seed(7))
    return torch.utils.data.TensorDataset(x, (x > 0.5).float() * 2 - 1)


def test_regression_with_adamw_follows_eager_loss_by_loss():
    torch.manual_seed(0)
    data = regression_data(3000)
    eager, model = Regression().train(), Regression().train()
    model.load_state_dict(eager.state_dict())

    optimizer = torch.optim.AdamW(eager.parameters(), lr=0.001)
    expected = []
    for x, target in torch.utils.data.DataLoader(data, batch_size=10):
        optimizer.zero_grad()
        _, loss = eager(x, target)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())

    options = poptorch.Options()
    trainer = poptorch.trainingModel(model, options, torch.optim.AdamW(model.parameters(), lr=0.001))
    losses = [float(trainer(x, target)[1]) for x, target in poptorch.DataLoader(options, data, batch_size=10)]

    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=1e-4, atol=1e-6)
    # Reading the weights of the user's own module fetches them from the device.
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=1e-4, atol=1e-5)


class SmallCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 5, 3), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Conv2d(5, 12, 5), nn.ReLU(),
                                    nn.GroupNorm(3, 12), nn.Flatten(), nn.Linear(972, 10), nn.LogSoftmax(dim=1))

    def forward(self, x):
        return self.layers(x)


class WithCriterion(nn.Module):
    """A loss added from outside, as in a port of an existing training script."""

    def __init__(self, model, criterion):
        super().__init__()
        self.model = model
        self.criterion = criterion

    def forward(self, x, labels=None):
        output = self.model(x)
        if labels is None:
            return output
        return output, poptorch.identity_loss(self.criterion(output, labels), reduction="sum")


def test_ported_script_trains_then_infers_with_the_trained_weights():
    torch.manual_seed(1)
    images, labels = torch.randn(96, 1, 28, 28), torch.randint(0, 10, (96,))
    data = torch.utils.data.TensorDataset(images, labels)
    options = poptorch.Options()
    model = WithCriterion(SmallCnn().train(), nn.NLLLoss())
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    trainer = poptorch.trainingModel(model, options, optimizer)
    losses = []
    for _ in range(8):
        for x, y in poptorch.DataLoader(options, data, batch_size=16, shuffle=True):
            losses.append(trainer(x, y)[1].mean().item())
    trainer.detachFromDevice()
    assert sum(losses[-6:]) < 0.5 * sum(losses[:6]), "the network did not learn its 96 images"

    model.eval()
    inference = poptorch.inferenceModel(model, options)
    loader = poptorch.DataLoader(options, data, batch_size=16)
    outputs = torch.cat([inference(x) for x, _ in loader])
    expected = model.model(images)
    torch.testing.assert_close(outputs, expected.detach(), rtol=1e-4, atol=1e-5)


def test_fashion_mnist_example_learns(tmp_path):
    if not pathlib.Path("/usr/share/datasets/fashion-mnist").exists():
        pytest.skip("needs the Debian package dataset-fashion-mnist")
    result = subprocess.run([sys.executable, ROOT / "examples/python/fashion_mnist.py", "--epochs", "1",
                             "--data", tmp_path / "data", "--output", tmp_path / "out",
                             "--profile", tmp_path / "profile"],
                            capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    accuracy = float(result.stdout.split("test accuracy:")[1].split()[0])
    assert accuracy > 75, result.stdout
    assert (tmp_path / "out" / "confusion_matrix.png").stat().st_size > 10_000
    report = tmp_path / "profile" / "training" / "report.html"
    assert str(report) in result.stdout
    assert report.stat().st_size > 10_000
