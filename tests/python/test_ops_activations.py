"""Activations: values, and gradients also at the points where the slope jumps."""

import pytest
import torch
import torch.nn.functional as F
from support import compare
from support.compare import TRANSCENDENTAL, Case
from support.tensors import integers, normal, positive

X = torch.cat([normal(11) * 2, torch.tensor([0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 0.5, -0.5, 50.0, -50.0])])
GRID = normal(2, 4, 3)

CASES = [Case(name, function, [X], tolerance=TRANSCENDENTAL) for name, function in {
    "relu": F.relu, "relu6": F.relu6, "silu": F.silu, "gelu": F.gelu,
        "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus, "softplus beta": lambda x: F.softplus(x, 2, 5), "hardtanh": F.hardtanh,
    "hardtanh range": lambda x: F.hardtanh(x, -0.5, 3.0), "hardsigmoid": F.hardsigmoid,
    "mish": F.mish, "logsigmoid": F.logsigmoid, "leaky_relu": lambda x: F.leaky_relu(x, 0.2), "elu": F.elu,
    "elu alpha": lambda x: F.elu(x, 0.7), "selu": F.selu, "celu": lambda x: F.celu(x, 1.5), "hardshrink": F.hardshrink,
    "softshrink": F.softshrink, "threshold": lambda x: F.threshold(x, 0.5, 20.0), "softsign": F.softsign,
    "tanhshrink": F.tanhshrink, "rrelu eval": lambda x: F.rrelu(x, training=False),
    "log_sigmoid_forward": lambda x: torch.ops.aten.log_sigmoid_forward(x)[0],
}.items()]
CASES += [
    # At 3 torch's vectorised and plain loops disagree with each other.
    Case("hardswish", F.hardswish, [X[X.abs() != 3]], tolerance=TRANSCENDENTAL),
    Case("relu integers", F.relu, [integers(-4, 4, 6)]),
    Case("relu_", lambda x: F.relu_(x * 1), [X]),
    Case("hardtanh NaN", F.hardtanh, [torch.tensor([float("nan"), 2.0])], grad=False),
    Case("prelu one", F.prelu, [GRID, torch.tensor([0.25])]),
    Case("prelu channels", F.prelu, [GRID, positive(4)]),
    Case("glu", lambda x: (F.glu(x, 1), F.glu(x[..., :2])), [GRID], tolerance=TRANSCENDENTAL),
    Case("softmax", lambda x: (F.softmax(x, 1), F.softmax(x, -1), F.softmin(x, 0)), [GRID], tolerance=TRANSCENDENTAL),
    Case("softmax large", lambda x: F.softmax(x * 1000, -1), [GRID], grad=False),
    Case("softmax 0-dim", lambda x: F.softmax(x, 0), [torch.tensor(2.0)]),
    Case("log_softmax", lambda x: (F.log_softmax(x, 1), F.log_softmax(x, -1)), [GRID], tolerance=TRANSCENDENTAL),
    Case("_softmax", lambda x: (torch.ops.aten._softmax(x, 1, False), torch.ops.aten._log_softmax(x, 0, False)), [GRID],
         tolerance=TRANSCENDENTAL),
    Case("softmax dtype", lambda x: F.softmax(x, 0, dtype=torch.float32), [integers(-3, 3, 5)],
        tolerance=TRANSCENDENTAL),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_eager(case):
    compare.check(case)


def test_rrelu_slopes_lie_in_their_range():
    x = -torch.ones(1000)
    module = torch.nn.RReLU(0.1, 0.3).train()
    slopes = -poptorch_training_forward(module, x)
    assert 0.1 <= slopes.min() < 0.12 and 0.28 < slopes.max() <= 0.3


def poptorch_training_forward(module, x):
    """The forward result of a module in training mode."""
    import poptorch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module, self.weight = module, torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            y = self.module(x)
            return y, poptorch.identity_loss(y.sum() * self.weight, "sum")

    model = Model().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    return poptorch.trainingModel(model, compare.options(), optimizer=optimizer)(x)[0]
