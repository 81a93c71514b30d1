"""Arguments and results of a wrapped model: their types, structures and what is said about them."""

import collections

import poptorch
import pytest
import torch
from poptorch import _impl

from support.models import quiet

X = torch.arange(6.0).reshape(2, 3)


def inference(function):
    """A wrapped model whose forward has the signature of the function."""
    return poptorch.inferenceModel(type("Model", (torch.nn.Module,), {"forward": function})(), quiet())


TYPES = {torch.float16: torch.float16, torch.float32: torch.float32, torch.int8: torch.int8, torch.uint8: torch.uint8,
         torch.int16: torch.int16, torch.int32: torch.int32, torch.bool: torch.bool, torch.int64: torch.int32,
         torch.float64: torch.float32}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_inputs_of_every_type_arrive_and_return(dtype):
    x = torch.tensor([[0, 1, 2], [3, 100, 127]]).to(dtype)
    seen = []

    def forward(self, x):
        seen.append(x.shape)
        return x.clone(), x.flip(0)

    whole, turned = inference(forward)(x)
    assert whole.dtype == turned.dtype == TYPES[dtype]
    assert torch.equal(whole, x.to(TYPES[dtype])) and torch.equal(turned, x.flip(0).to(TYPES[dtype]))


def test_other_types_are_refused_by_name():
    x = torch.quantize_per_tensor(X, 1.0, 0, torch.qint8)
    with pytest.raises(poptorch.Error, match='argument "x" has type QInt8; supported are float32'):
        inference(lambda self, x: x)(x)


def test_dictionaries_are_warned_of(capfd, monkeypatch):
    monkeypatch.setattr(_impl, "_warned", set())  # once in a process
    executor = inference(lambda self, table: table["a"] + table["b"])
    assert torch.equal(executor({"a": X, "b": X}), 2 * X)
    assert "Dictionary arguments are partially supported" in capfd.readouterr().err


def test_a_forward_without_a_signature_takes_anything():
    class Odd(torch.nn.Module):
        forward = staticmethod(torch.add)  # a builtin: inspect knows nothing of it

    torch.testing.assert_close(poptorch.inferenceModel(Odd(), quiet())(X, X), X + X)


def test_leaves_are_inputs_in_the_order_of_the_signature():
    def forward(self, first, second, third=X):
        return first["b"] + second[0][1] * third

    executor = inference(forward)
    executor({"b": X, "a": X}, [(X, X)])
    names = [name for name in executor.getTensorNames() if name.startswith("input")]
    assert len(names) == 5
    counters = executor.getPerfCounters()
    assert len(counters["input"]) == 5  # the default and what forward does not use, too


def test_later_calls_must_have_the_number_of_arguments_of_the_first():
    class Sums(torch.nn.Module):
        def forward(self, *xs):
            return sum(xs)

    executor = poptorch.inferenceModel(Sums(), quiet())
    executor(X, X)
    for others in ((X,), (X, X, X)):
        with pytest.raises(poptorch.Error, match='"xs" was a tuple of 2'):
            executor(*others)
    assert torch.equal(executor(X, X), 2 * X)


def test_the_same_argument_of_another_container_is_refused():
    executor = inference(lambda self, pair: pair[0] + pair[1])
    executor([X, X])
    with pytest.raises(poptorch.Error, match="list of 2"):
        executor((X, X))


# -- results ----------------------------------------------------------------------------------------------------------
class Table(dict):
    pass


Pair = collections.namedtuple("Pair", "left right")


def test_results_are_of_the_classes_that_forward_returned():
    result = inference(lambda self, x: Table(pair=Pair(x + 1, [x, {"deep": x - 1}]), text="text", number=4))(X)
    assert type(result) is Table and type(result["pair"]) is Pair and type(result["pair"].right) is list
    assert torch.equal(result["pair"].left, X + 1) and torch.equal(result["pair"].right[1]["deep"], X - 1)
    assert result["text"] == "text" and result["number"] == 4


def test_each_call_returns_tensors_of_its_own():
    executor = inference(lambda self, x: x * 2)
    first = executor(X)
    kept = first.clone()
    executor(X + 1)
    assert torch.equal(first, kept)
    first.zero_()
    assert torch.equal(executor(X), kept)


def test_a_result_may_be_returned_twice():
    def forward(self, x):
        y = x + 1
        return y, y, x

    one, two, same = inference(forward)(X)
    assert torch.equal(one, X + 1) and torch.equal(two, X + 1) and torch.equal(same, X)


def test_backward_is_an_error_on_outputs_of_inference_too():
    with pytest.raises(poptorch.Error, match=r"\[backward\]"):
        inference(lambda self, x: x.sum())(X).backward()


def test_a_model_without_ops_of_the_device_runs():
    class Constant(torch.nn.Module):
        def forward(self, x):
            return x, "text", None

    x, text, nothing = poptorch.inferenceModel(Constant(), quiet().deviceIterations(2))(X)
    assert torch.equal(x, X) and text == "text" and nothing is None
