"""A program reads inputs where they lie and writes outputs where they go: what a caller may rely on all the same."""

import poptorch
import pytest
import torch

from support.models import FunctionModel, quiet


def infer(function, options=None):
    return poptorch.inferenceModel(FunctionModel(lambda self, *inputs: function(*inputs)), options or quiet())


def mixture(x):
    y = torch.relu(x @ x.transpose(0, 1)).softmax(-1)
    return y, y.sum(0), x.exp()


def test_inputs_may_begin_anywhere():
    executor = infer(mixture)
    memory = torch.randn(3 * 17 * 5)
    values = memory[:85].view(17, 5).clone()
    expected = executor(values)
    for start in range(1, 20):
        x = memory[start : start + 85].view(17, 5).copy_(values)
        for result, wanted in zip(executor(x), expected, strict=True):
            assert torch.equal(result, wanted)


def test_inputs_may_begin_within_an_element():
    executor = infer(mixture)
    values = torch.randn(17, 5)
    x = torch.frombuffer(bytearray(1) + bytearray(values.numpy().tobytes()), dtype=torch.float32, offset=1)
    for result, wanted in zip(executor(x.view(17, 5)), executor(values), strict=True):
        assert torch.equal(result, wanted)


def test_inputs_may_have_any_strides():
    executor = infer(mixture)
    values = torch.randn(34, 10)[::2, ::2]
    for result, wanted in zip(executor(values), executor(values.contiguous()), strict=True):
        assert torch.equal(result, wanted)


def test_an_input_that_is_returned_is_a_copy():
    x = torch.ones(4)
    same, twice = infer(lambda x: (x, x * 2))(x)
    same.zero_()
    assert torch.equal(x, torch.ones(4)) and torch.equal(twice, torch.full((4,), 2.0))


def test_what_is_made_of_an_input_in_place_leaves_it_alone():
    x = torch.ones(4)
    result = infer(lambda x: x.clone().mul_(3).add_(1).neg_())(x)
    assert torch.equal(result, torch.full((4,), -4.0)) and torch.equal(x, torch.ones(4))


def test_results_of_earlier_calls_stay():
    executor = infer(lambda x: (x + 1, (x + 1).view(2, 2)))
    results = [executor(torch.full((4,), float(i))) for i in range(4)]
    for i, (first, second) in enumerate(results):
        assert torch.equal(first, torch.full((4,), i + 1.0)) and torch.equal(second, torch.full((2, 2), i + 1.0))
    results[0][0].zero_()
    assert torch.equal(results[0][1], torch.ones(2, 2))


@pytest.mark.parametrize("mode", ["All", "Final", "EveryN", "Sum"])
def test_outputs_that_are_read_again(mode):
    options = quiet().deviceIterations(6)
    options.outputMode(getattr(poptorch.OutputMode, mode), **({"output_return_period": 3} if mode == "EveryN" else {}))
    x = torch.arange(12.0).view(12, 1)  # six micro-batches of two
    first, second = infer(lambda x: (lambda y: (y, y * y))(x + 1), options)(x)
    y = (x + 1).view(6, 2, 1)
    wanted = {"All": y, "Final": y[-1:], "EveryN": y[2::3], "Sum": y}[mode]
    if mode == "Sum":
        assert torch.equal(first, y.sum(0)) and torch.equal(second, (y * y).sum(0))
    else:
        assert torch.equal(first, wanted.reshape(-1, 1)) and torch.equal(second, (wanted * wanted).reshape(-1, 1))
