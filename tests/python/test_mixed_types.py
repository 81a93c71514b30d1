"""Half and float side by side: what promotes, what keeps its type, where layers keep float inside a half model."""

import poptorch
import pytest
import torch

from support import compare
from support.models import FunctionModel, quiet
from support.tensors import normal

HALF, FLOAT = normal(4, 3).half(), normal(4, 3)


def infer(function, *inputs):
    return poptorch.inferenceModel(FunctionModel(lambda self, *x: function(*x)), quiet())(*inputs)


def close(actual, expected):
    torch.testing.assert_close(actual.float(), expected.float(), rtol=compare.HALF[0], atol=compare.HALF[1])


@pytest.mark.parametrize("function", [torch.add, torch.mul, torch.maximum, lambda a, b: torch.where(a > b, a, b),
                                      lambda a, b: torch.cat([a, b])], ids=["add", "mul", "maximum", "where", "cat"])
def test_mixed_operands_become_float(function):
    result = infer(function, HALF, FLOAT)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, function(HALF.float(), FLOAT))


def test_ops_in_place_keep_the_type_of_their_destination():
    def forward(a, b):
        a = a * 1
        a += b
        a.mul_(b)
        return a

    result = infer(forward, HALF, FLOAT)
    assert result.dtype == torch.float16
    close(result, (HALF.float() + FLOAT).half().float() * FLOAT)


def test_casts_are_those_of_torch():
    result = infer(lambda x: (x.half(), x.half().float(), x.to(torch.half) * 2, x.type(torch.float16)), FLOAT)
    assert [tensor.dtype for tensor in result] == [torch.half, torch.float, torch.half, torch.half]
    assert torch.equal(result[0], FLOAT.half()) and torch.equal(result[1], FLOAT.half().float())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.fc, self.norm = torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5)
        self.register_buffer("offset", torch.full((5,), 0.25))

    def forward(self, x):
        return self.norm(self.fc(x)) + self.offset


def test_a_half_model_has_half_weights_buffers_and_outputs():
    plain, model = Net().eval(), Net().eval().half()
    executor = poptorch.inferenceModel(model, quiet())
    result = executor(HALF)
    assert result.dtype == torch.float16
    close(result, plain(HALF.float()).detach())
    executor.copyWeightsToHost()
    assert all(tensor.dtype == torch.float16 for tensor in model.state_dict().values() if tensor.is_floating_point())


def test_statistics_of_batch_norm_may_stay_float_in_a_half_model():
    """In half, statistics that change by less than a thousandth would stand still."""
    model = Net().train().half()
    for name in ("running_mean", "running_var"):
        setattr(model.norm, name, getattr(model.norm, name).float())
    plain = Net().train()
    executor = poptorch.inferenceModel(model, quiet())
    for _ in range(3):
        result = executor(HALF)
        plain(HALF.float())
    assert result.dtype == torch.float16
    executor.copyWeightsToHost()
    for name in ("running_mean", "running_var"):
        ours, theirs = getattr(model.norm, name), getattr(plain.norm, name)
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=compare.HALF[0], atol=compare.HALF[1])
        assert not torch.equal(ours, ours.half().float())  # not rounded to half
