"""Half precision: results are those of float32, rounded once."""

import poptorch
import pytest
import torch
import torch.nn.functional as F
from support import compare
from support.tensors import integers, normal, positive

X = normal(4, 6).half()
IMAGE = normal(2, 3, 6, 6).half()
FUNCTIONS = {
    "add": (lambda x: x + x * 2.5, [X]), "exp": (torch.exp, [X]), "sum": (lambda x: x.sum(1), [X]),
        "mean": (lambda x: x.mean(), [X * 100]),
    "sum beyond the range": (lambda x: (x.abs() * 100).sum(), [normal(4000).half()]),
    "softmax": (lambda x: F.softmax(x, 1), [X]), "log_softmax": (lambda x: F.log_softmax(x, 1), [X]),
    "layer_norm": (lambda x: F.layer_norm(x, (6,)), [X]), "group_norm": (lambda x: F.group_norm(x, 3), [IMAGE]),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), [IMAGE]),
    "gelu": (F.gelu, [X]), "mish": (F.mish, [X]), "hardswish": (F.hardswish, [X]), "elu": (F.elu, [X]),
    "matmul": (lambda x: x @ x.t(), [X]), "linear": (lambda x, w, b: F.linear(x, w, b),
        [X, normal(5, 6).half(), normal(5).half()]),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding=1), [IMAGE, (normal(4, 3, 3, 3) * 0.3).half()]),
    "max_pool": (lambda x: F.max_pool2d(x, 2), [IMAGE]), "avg_pool": (lambda x: F.avg_pool2d(x, 2), [IMAGE]),
    "std": (lambda x: x.std(1), [X]), "norm": (lambda x: x.norm(2, 1), [X]),
        "logsumexp": (lambda x: x.logsumexp(1), [X]),
    "mse": (lambda x: F.mse_loss(x, x * 0.5), [X]), "cumsum": (lambda x: x.cumsum(1), [X]),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t), [X, integers(0, 6, 4)]),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), [IMAGE]),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), [X]), "half and float": (lambda x: x + x.float(), [X]),
    "half and a number": (lambda x: x * 0.1 + 2, [X]), "half and 0-dim": (lambda x: x * torch.tensor(0.5), [X]),
}


def as_float(value):
    return value.float() if value.is_floating_point() else value


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rounds_the_float_result(name):
    function, inputs = FUNCTIONS[name]
    expected = function(*(as_float(value) for value in inputs))
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()
    actual = poptorch.inferenceModel(model, compare.options())(*inputs)
    assert actual.dtype == (torch.float32 if name == "half and float" else torch.float16)
    torch.testing.assert_close(actual.float(), expected.half().float(), rtol=compare.HALF[0], atol=compare.HALF[1])


@pytest.mark.parametrize("make", [lambda: torch.nn.Linear(6, 5), lambda: torch.nn.LayerNorm(6)],
    ids=["Linear", "LayerNorm"])
def test_parameters_follow_the_activation(make):
    """Native torch refuses to mix; the model computes in the activation's type."""
    layer = make()
    actual = poptorch.inferenceModel(layer, compare.options())(X)
    assert actual.dtype == torch.float16
    torch.testing.assert_close(actual.float(), layer(X.float()).half().float(), rtol=compare.HALF[0],
        atol=compare.HALF[1])


def test_convolution_parameters_follow_the_activation():
    layer = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).eval()
    actual = poptorch.inferenceModel(layer, compare.options())(IMAGE)
    assert actual.dtype == torch.float16
    torch.testing.assert_close(actual.float(), layer(IMAGE.float()).half().float(), rtol=1e-2, atol=2e-3)
