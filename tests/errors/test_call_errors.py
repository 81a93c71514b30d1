"""The smallest wrong call of a model, and the message it earns."""

import poptorch
import pytest
import torch


class Double(torch.nn.Module):
    def forward(self, x, scale=1.0):
        return 2 * x * scale


@pytest.fixture
def executor():
    wrapped = poptorch.inferenceModel(Double(), poptorch.Options().showCompilationProgressBar(False))
    wrapped(torch.zeros(4, 3))
    return wrapped


def message(error):
    return error.value.message


def test_wrong_shape_on_the_second_call(executor):
    with pytest.raises(poptorch.Error) as error:
        executor(torch.zeros(2, 3))
    assert message(error).startswith(
        '[model call] argument "x" is [2, 3] torch.float32, but the model was compiled for [4, 3] torch.float32.'
    )
    assert "drop_last=True" in message(error) and "destroy()" in message(error)
    assert executor(torch.ones(4, 3)).sum() == 24  # still usable


def test_wrong_dtype_on_the_second_call(executor):
    with pytest.raises(poptorch.Error) as error:
        executor(torch.zeros(4, 3, dtype=torch.float16))
    assert 'argument "x" is [4, 3] torch.float16, but the model was compiled for [4, 3] torch.float32' in message(error)


def test_something_else_than_a_tensor(executor):
    with pytest.raises(poptorch.Error) as error:
        executor([1.0])
    assert 'argument "x"' in message(error) and "list" in message(error)


def test_other_constant(executor):
    with pytest.raises(poptorch.Error) as error:
        executor(torch.zeros(4, 3), scale=2.0)
    assert '"scale" was 1.0 when the model was compiled and is 2.0 now' in message(error)


class Box:
    def __init__(self, tensor):
        self.tensor = tensor


def test_tensors_in_an_unknown_object(capfd):
    options = poptorch.Options().showCompilationProgressBar(False)

    class Boxes(torch.nn.Module):
        def forward(self, x, kind):
            return Box(x * 2) if kind == "Box" else {x * 2}

    class Opens(torch.nn.Module):
        def forward(self, x, box):
            return x + box.tensor

    for kind in ("Box", "set"):
        with pytest.raises(poptorch.Error) as error:
            poptorch.inferenceModel(Boxes(), options)(torch.zeros(3), kind)
        assert message(error).startswith(f'[model call] "output" is a {kind} with tensors in it')
        assert "registerCustomArgParser" in message(error)
    poptorch.inferenceModel(Opens(), options)(torch.zeros(3), Box(torch.ones(3)))
    assert 'Argument "box" is a Box with tensors in it' in capfd.readouterr().err


def test_zero_size_input():
    with pytest.raises(poptorch.Error) as error:
        poptorch.inferenceModel(Double())(torch.zeros(0, 3))
    assert message(error).startswith('[model call] argument "x" of shape [0, 3] has no elements;')


def test_sparse_input():
    with pytest.raises(poptorch.Error) as error:
        poptorch.inferenceModel(Double())(torch.eye(3).to_sparse())
    assert 'argument "x" is a Sparse tensor on cpu; inputs must be dense tensors on the CPU' in message(error)


def test_every_executor_warns_of_inputs_that_lose_their_gradient_or_are_copied(capfd):
    x = torch.zeros(3, 4, requires_grad=True).t()
    for _ in range(2):
        executor = poptorch.inferenceModel(Double(), poptorch.Options().showCompilationProgressBar(False))
        for _ in range(2):
            executor(x)
        log = capfd.readouterr().err
        assert log.count('Argument "x" requires a gradient: it is detached') == 1
        assert log.count('Argument "x" is not contiguous: it is copied at each call') == 1


def test_unsupported_type():
    with pytest.raises(poptorch.Error) as error:
        poptorch.inferenceModel(Double())(torch.zeros(2, dtype=torch.complex64))
    assert 'argument "x" has type torch.complex64; supported are float32' in message(error)


def test_not_a_module():
    for wrap, name in ((poptorch.trainingModel, "trainingModel"), (poptorch.inferenceModel, "inferenceModel")):
        with pytest.raises(poptorch.Error) as error:
            wrap(lambda x: x)
        assert message(error) == (
            f"[{name}] model is a function; expected a torch.nn.Module. "
            "Put the function into the forward of a module."
        )


def test_not_options():
    with pytest.raises(poptorch.Error) as error:
        poptorch.inferenceModel(Double(), {"deviceIterations": 2})
    assert message(error) == "[inferenceModel] options is a dict; expected poptorch.Options."


def test_gradient_accumulation_for_inference():
    opts = poptorch.Options()
    opts.Training.gradientAccumulation(4)
    with pytest.raises(poptorch.Error) as error:
        poptorch.inferenceModel(Double(), opts)
    assert "gradientAccumulation is 4" in message(error) and "deviceIterations" in message(error)
