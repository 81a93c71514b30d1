"""Models of many kinds beside eager PyTorch: the outputs of inference, the losses and the update of training."""

import copy

import poptorch
import pytest
import torch
from torch import nn
from zoo import IMAGE_MODELS, ZOO, WithLoss

OUTPUT_TOLERANCE = 1e-3  # of the largest element
LOSS_TOLERANCE = 1e-4
UPDATE_TOLERANCE = 1e-3  # of the norm of a parameter's update
# Rounding decides a relu near zero, and one that flips changes the gradients of deep networks on small pictures by
# some percent: so far apart are float32 and float64 in eager PyTorch, too. A wrong gradient is further away.
FLIPPED_LOSS_TOLERANCE = 1e-2
FLIPPED_UPDATE_TOLERANCE = 1e-1

QUICK = [name for name in ZOO if name not in IMAGE_MODELS] + ["squeezenet1_1", "mobilenet_v3_small"]
CASES = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in ZOO]


def build(name):
    """The same model every time: some models (weight_norm) cannot be copied."""
    torch.manual_seed(1)
    return ZOO[name]()


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def tensors_of(result):
    return [result] if isinstance(result, torch.Tensor) else [t for part in result for t in tensors_of(part)]


def distance(a, b):
    a, b = a.double(), b.double()
    return float((a - b).abs().max() / b.abs().max())


def weights_of(model):
    return [parameter.detach().double() for parameter in model.parameters()]


def train_eagerly(model, inputs, rate, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(*inputs)[1]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train(model, inputs, rate, steps):
    trainer = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=rate))
    losses = [trainer(*inputs)[1].item() for _ in range(steps)]
    host_calls = trainer._core.host_calls()
    trainer.destroy()
    return losses, host_calls


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # by eager nn.Transformer
@pytest.mark.parametrize("name", CASES)
def test_infers_like_eager_pytorch(name):
    model, inputs = build(name)
    model.eval()
    with torch.no_grad():
        expected = tensors_of(model(*inputs))
    executor = poptorch.inferenceModel(model, quiet())
    outputs = tensors_of(executor(*inputs))
    assert len(outputs) == len(expected)
    for output, wanted in zip(outputs, expected):
        assert output.shape == wanted.shape and output.dtype == wanted.dtype
        assert distance(output, wanted) <= OUTPUT_TOLERANCE
    assert executor._core.host_calls() == []


@pytest.mark.parametrize("name", CASES)
def test_trains_like_eager_pytorch(name):
    flips = name in IMAGE_MODELS
    # Three small steps show the losses; one large step shows the gradients of all parameters.
    (model, inputs), (eager, _) = build(name), build(name)
    rate = 1e-6 if flips else 1e-2
    expected = train_eagerly(eager.train(), inputs, rate, 3)
    losses, host_calls = train(model.train(), inputs, rate, 3)
    assert losses[0] == pytest.approx(expected[0], rel=LOSS_TOLERANCE)
    assert losses == pytest.approx(expected, rel=FLIPPED_LOSS_TOLERANCE if flips else LOSS_TOLERANCE)
    assert host_calls == []
    counters = dict(model.named_buffers())
    for key, value in eager.named_buffers():
        if not value.is_floating_point():
            assert torch.equal(counters[key], value), key

    model, exact = build(name)[0].train(), build(name)[0].train().double()
    before = [weight.clone() for weight in weights_of(model)]
    train(model, inputs, 1.0, 1)
    train_eagerly(exact, [x.double() if x.is_floating_point() else x for x in inputs], 1.0, 1)
    ours, wanted = ([a - b for a, b in zip(weights_of(m), before)] for m in (model, exact))
    # Some updates are zero but for rounding: a bias in front of a batch norm.
    noise = 1e-3 * max(update.norm() for update in wanted)
    tolerance = FLIPPED_UPDATE_TOLERANCE if flips else UPDATE_TOLERANCE
    for (key, _), update, expected in zip(exact.named_parameters(), ours, wanted):
        assert (update - expected).norm() <= tolerance * (expected.norm() + noise), key


def small_cnn():
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                           nn.Conv2d(8, 16, 3, stride=2), nn.GroupNorm(4, 16), nn.GELU(), nn.AdaptiveAvgPool2d(2),
                           nn.Flatten(), nn.Linear(64, 10))
    return WithLoss(layers, nn.CrossEntropyLoss()), torch.randn(4, 3, 16, 16), torch.randint(10, (4,))


def mlp():
    layers = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.LayerNorm(32), nn.Linear(32, 32), nn.SiLU(),
                           nn.Linear(32, 10))
    return WithLoss(layers, nn.CrossEntropyLoss()), torch.randn(8, 20), torch.randint(10, (8,))


@pytest.mark.parametrize("make", [small_cnn, mlp])
def test_half_precision_stays_within_its_rounding(make):
    torch.manual_seed(1)
    model, x, target = make()
    # From weights and inputs that float16 can hold, float32 shows what a model without rounding would do.
    model, x = model.half(), x.half()
    eager = copy.deepcopy(model).float().train()
    expected = train_eagerly(eager, (x.float(), target), 0.05, 5)
    losses, host_calls = train(model.train(), (x, target), 0.05, 5)
    assert losses == pytest.approx(expected, rel=5e-3)
    assert host_calls == []
    executor = poptorch.inferenceModel(model.eval(), quiet())
    output = executor(x, target)
    assert output.dtype == torch.float16
    assert distance(output, eager.eval()(x.float(), target).detach()) <= 1e-2
