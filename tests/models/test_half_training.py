"""Training with half weights and half optimiser state, loss scaling and stochastic rounding: the classifier of the
published basics tutorial on Fashion-MNIST, beside the same in float32."""

import pathlib
import sys

import poptorch
import pytest
import torch
from tutorial import TutorialCNN

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "programs"))
from pictures import FOLDER, Pictures  # noqa: E402

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the Debian package dataset-fashion-mnist is not there")
BATCH = 16


def pictures(train, count):
    """As the transform of the tutorial makes them, all at once."""
    data = Pictures(train, count)
    return torch.from_numpy(data.pictures).float().div(255).sub(0.5).div(0.5)[:, None], torch.from_numpy(data.labels)


def float32_optimizer(model):
    return poptorch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, use_combined_accum=False)


def half_optimizer(model):
    return poptorch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, use_combined_accum=False, loss_scaling=1024,
                              accum_type=torch.float16, velocity_accum_type=torch.float16)


def trained(dtype, count, epochs, calls_per_epoch):
    """The model, the mean loss of every call, and the planned bytes of weights and optimiser state."""
    torch.manual_seed(42)
    model = TutorialCNN().to(dtype).train()
    options = poptorch.Options().showCompilationProgressBar(False).deviceIterations(count // BATCH // calls_per_epoch)
    options.outputMode(poptorch.OutputMode.All).randomSeed(42)
    options.Precision.enableStochasticRounding(dtype == torch.float16)
    optimizer = half_optimizer(model) if dtype == torch.float16 else float32_optimizer(model)
    executor = poptorch.trainingModel(model, options, optimizer)
    x, labels = pictures(True, count)
    x, order = x.to(dtype), torch.Generator().manual_seed(42)
    losses = []
    for _ in range(epochs):
        for rows in torch.randperm(count, generator=order).chunk(calls_per_epoch):
            losses.append(executor(x[rows], labels[rows])[1].float().mean().item())
    bytes_ = sum(device["variables"] for device in executor._core.memory())
    executor.copyWeightsToHost()
    executor.destroy()
    return model.eval(), losses, bytes_


def accuracy(model, dtype):
    options = poptorch.Options().showCompilationProgressBar(False).deviceIterations(10)
    executor = poptorch.inferenceModel(model, options)
    x, labels = pictures(False, 10000)
    right = sum((executor(part.to(dtype)).max(dim=1).indices == truth).sum().item()
                for part, truth in zip(x.chunk(5), labels.chunk(5)))
    executor.destroy()
    return right / len(labels)


def test_bytes_halve_and_the_loss_falls_as_in_float32():
    _, whole_losses, whole = trained(torch.float32, 4000, epochs=2, calls_per_epoch=5)
    _, half_losses, half = trained(torch.float16, 4000, epochs=2, calls_per_epoch=5)
    numel = sum(parameter.numel() for parameter in TutorialCNN().parameters())
    weight_and_velocity = 2 * numel
    aside = 64 * 40  # cache lines that ten weights and velocities do not fill, those of ten steps, the settings
    assert 0 <= whole - 4 * weight_and_velocity < aside and 0 <= half - 2 * weight_and_velocity < aside
    assert whole_losses[-1] < 0.75 * whole_losses[0]
    for mine, theirs in zip(half_losses, whole_losses):
        assert abs(mine - theirs) < 0.02 * whole_losses[0]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_half_is_within_a_point_of_float32():
    """All pictures, five times, as published."""
    found = {}
    for dtype in (torch.float32, torch.float16):
        model, losses, _ = trained(dtype, 60000, epochs=5, calls_per_epoch=30)
        found[dtype] = accuracy(model, dtype)
        print(f"{dtype}: accuracy {found[dtype]:.4f}, last loss {losses[-1]:.4f}")
    assert found[torch.float32] > 0.85
    assert abs(found[torch.float16] - found[torch.float32]) < 0.01
