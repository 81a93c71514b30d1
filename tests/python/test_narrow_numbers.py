"""64-bit numbers on their way to the 32 bits of the device: none is changed in silence."""

import poptorch
import pytest
import torch

LARGE = 2**31


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def run(forward, *inputs):
    class Net(torch.nn.Module):
        def forward(self, *args):
            return forward(*args)

    return poptorch.inferenceModel(Net(), quiet())(*inputs)


@pytest.mark.parametrize("value", [LARGE, -LARGE - 1, 2**40, -(2**63)])
def test_integer_input_out_of_range_is_an_error_with_the_value(value):
    with pytest.raises(poptorch.Error, match=rf'input "x" holds {value}\b'):

        class Net(torch.nn.Module):
            def forward(self, x):
                return x + 1

        poptorch.inferenceModel(Net(), quiet())(torch.tensor([1, value, 2]))


def test_integer_inputs_up_to_the_limits_are_exact():
    x = torch.tensor([LARGE - 1, -LARGE, 0])
    assert run(lambda x: x * 1, x).tolist() == x.tolist()


def test_executor_goes_on_after_an_integer_out_of_range():
    class Net(torch.nn.Module):
        def forward(self, x):
            return x + 1

    executor = poptorch.inferenceModel(Net(), quiet())
    assert executor(torch.tensor([1])).item() == 2
    with pytest.raises(poptorch.Error, match=str(LARGE)):
        executor(torch.tensor([LARGE]))
    assert executor(torch.tensor([3])).item() == 4


def test_integer_constant_out_of_range_is_an_error_with_the_value():
    table = torch.tensor([1, 2**35])
    with pytest.raises(poptorch.Error, match=str(2**35)):
        run(lambda x: x + table, torch.tensor([1, 2]))


def test_integer_buffer_out_of_range_is_an_error_with_its_name_and_value():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("offset", torch.tensor([2**33]))

        def forward(self, x):
            return x + self.offset

    executor = poptorch.inferenceModel(Net(), quiet())
    with pytest.raises(poptorch.Error, match=rf'buffer "offset" holds {2**33}\b'):
        executor(torch.tensor([1]))
    executor.model.offset.fill_(5)
    assert executor(torch.tensor([1])).item() == 6  # the model can be used once it is right


NUMBERS = {
    "add": lambda x: x + 2**40,
    "compare": lambda x: x < 2**40,
    "masked_fill": lambda x: x.masked_fill(x > 1, 2**40),
    "full_like": lambda x: torch.full_like(x, 2**40),
    "full": lambda x: x + torch.full((2,), 2**40, device=x.device),
}


@pytest.mark.parametrize("function", NUMBERS.values(), ids=NUMBERS.keys())
def test_number_out_of_range_that_meets_integers_is_an_error_with_the_value(function):
    with pytest.raises(poptorch.Error, match=f"{2**40}(.|\n)*test_narrow_numbers.py"):
        run(function, torch.tensor([1, 2]))


def test_large_python_numbers_meet_floats_as_ever():
    x = torch.tensor([1.0, 2.0])
    assert torch.equal(run(lambda x: x * 2**40, x), x * 2**40)


def test_float64_input_is_warned_of_once(capfd):
    class Net(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    executor = poptorch.inferenceModel(Net(), quiet())
    x, y = torch.ones(2, dtype=torch.float64), torch.ones(2)
    for _ in range(3):
        executor(x, y)
    log = capfd.readouterr().err
    assert log.count('input "x" is float64') == 1
    assert '"y"' not in log


def test_float64_beyond_float32_is_warned_of_once_with_the_value(capfd):
    class Net(torch.nn.Module):
        def forward(self, x):
            return x * 1

    executor = poptorch.inferenceModel(Net(), quiet())
    executor(torch.tensor([1.0, float("inf"), float("nan")], dtype=torch.float64))
    assert "infinite" not in capfd.readouterr().err  # an infinity is what it was
    for _ in range(2):
        executor(torch.tensor([1.0, 1e300, float("nan")], dtype=torch.float64))
    log = capfd.readouterr().err
    assert log.count('input "x" holds 1e+300, which is infinite') == 1


def test_float64_weights_are_warned_of_with_a_summary(capfd):
    model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(5))).double()
    poptorch.inferenceModel(model, quiet())(torch.ones(1, 2, dtype=torch.float64))
    log = capfd.readouterr().err
    assert "0.weight, 0.bias, 1.weight and 7 more" in log


def test_float64_constant_beyond_float32_is_warned_of(capfd):
    table = torch.tensor([1.0, -1e200], dtype=torch.float64)
    run(lambda x: x + table, torch.ones(2, dtype=torch.float64))
    assert "a constant holds -1e+200" in capfd.readouterr().err
