"""poptorch's own functions: their plain meaning on the host, and the same numbers in a captured model."""

import poptorch
import poptorch.testing
import pytest
import torch

from support.training import train_beside_eager


def on_both(function, *inputs):
    """The results on the host and in a captured model, which must agree."""
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()
    expected = model(*inputs)
    options = poptorch.Options().showCompilationProgressBar(False)
    result = poptorch.inferenceModel(model, options)(*inputs)
    assert poptorch.testing.allclose(expected, result, rtol=1e-5, atol=1e-6)
    return result


A, B = torch.randn(4, 6), torch.randn(6, 8)


@pytest.mark.parametrize("reduction,expected", [("sum", A.sum()), ("mean", A.mean()), ("none", A)])
def test_identity_loss(reduction, expected):
    result = on_both(lambda a: poptorch.identity_loss(a, reduction), A)
    torch.testing.assert_close(result, expected)


def test_identity_loss_needs_a_reduction():
    with pytest.raises(AssertionError, match="median"):
        poptorch.identity_loss(A, "median")


def test_identities():
    assert torch.equal(on_both(poptorch.nop, A), A)
    torch.testing.assert_close(on_both(lambda a: poptorch.set_available_memory(a @ a.t(), 0.3), A), A @ A.t())
    pair = on_both(lambda a: poptorch.recomputationCheckpoint(a + 1, a - 1), A)
    assert isinstance(pair, tuple) and torch.equal(pair[1], A - 1)
    assert isinstance(on_both(lambda a: poptorch.recomputationCheckpoint([a, a]), A), list)
    for function in (poptorch.nop, poptorch.ipu_print_tensor, lambda x: poptorch.set_available_memory(x, 0.1)):
        with pytest.raises(poptorch.Error, match="expects a tensor"):
            function(3)
    with pytest.raises(ValueError):
        poptorch.recomputationCheckpoint(A, 3)


def test_print_tensor(capfd):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: poptorch.ipu_print_tensor(x, "mine") * 1})()
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    model(x)
    assert "mine" not in capfd.readouterr().err
    executor = poptorch.inferenceModel(model, poptorch.Options().showCompilationProgressBar(False))
    assert torch.equal(executor(x), x)
    assert capfd.readouterr().err == "mine: (\n (1.000, 2.000)\n (3.000, 4.000)\n)\n"
    with pytest.raises(KeyError):
        poptorch.ipu_print_tensor(x, float_format="roman")


MODES = poptorch.MatMulSerializationMode


@pytest.mark.parametrize("mode,factor", [(MODES.InputChannels, 2), (MODES.ReducingDim, 3), (MODES.OutputChannels, 4),
                                         (MODES.Disabled, 0)])
def test_serialized_matmul(mode, factor):
    torch.testing.assert_close(on_both(lambda a, b: poptorch.serializedMatMul(a, b, mode, factor), A, B), A @ B)


def test_serialized_matmul_checks_its_arguments():
    with pytest.raises(AssertionError, match="factor 5 does not divide the size 4"):
        poptorch.serializedMatMul(A, B, MODES.InputChannels, 5)
    with pytest.raises(AssertionError):
        poptorch.serializedMatMul(A, B, "input_channels", 2)


def test_dynamic_slice_and_update():
    for start in (0, 2, 5):
        sliced = on_both(lambda a, s: poptorch.dynamic_slice(a, 1, s, 4, 2), A, torch.tensor([start], dtype=torch.int32))
        torch.testing.assert_close(sliced, A[:, [start % 6, (start + 2) % 6]])
    source = torch.zeros(4, 2)
    updated = on_both(lambda a, b, s: poptorch.dynamic_update(a, b, 1, s, 2), A, source, torch.tensor([3]))
    expected = A.clone()
    expected[:, 3:5] = 0
    torch.testing.assert_close(updated, expected)
    with pytest.raises(poptorch.Error, match="start"):
        poptorch.dynamic_slice(A, 0, 1, 2, 1)
    with pytest.raises(poptorch.Error, match="size 9"):
        poptorch.dynamic_slice(A, 0, torch.tensor(1), 9, 1)
    with pytest.raises(poptorch.Error, match="same number of dimensions"):
        poptorch.dynamic_update(A, source[0], 1, torch.tensor(1), 2)


@pytest.mark.parametrize("function", [
    lambda w: poptorch.identity_loss(w, "none"),
    lambda w: poptorch.nop(w) * 1,
    lambda w: poptorch.dynamic_slice(w, 0, torch.tensor(0), 3, 1),
    lambda w: poptorch.serializedMatMul(w, torch.eye(3), MODES.OutputChannels, 3),
    lambda w: poptorch.for_loop(1, lambda x: x * 1, [w])[0],
])
def test_functions_on_the_host_see_what_the_device_has_learnt(function):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: poptorch.identity_loss(self.w * x, "sum")})()
    model.w = torch.nn.Parameter(torch.ones(3, 3))
    options = poptorch.Options().showCompilationProgressBar(False)
    poptorch_model = poptorch.trainingModel(model, options, poptorch.optim.SGD([model.w], lr=3.0))
    poptorch_model(torch.ones(3, 3))
    with torch.no_grad():
        assert torch.equal(function(model.w).detach(), torch.full((3, 3), -2.0))


def test_allclose():
    assert poptorch.testing.allclose((A, [B, 3]), (A.clone(), [B.clone(), 3]))
    assert not poptorch.testing.allclose((A,), (A, B))
    assert not poptorch.testing.allclose(A, A + 1)


def test_profiling_channel_changes_nothing():
    channel = poptorch.profiling.Channel("mine")
    model = torch.nn.Linear(2, 2)
    assert channel.instrument(model, "forward") is model
    with channel.tracepoint("point"):
        pass


def test_for_loop():
    result = on_both(lambda a: poptorch.for_loop(3, lambda x, y: (x + y, y * 2), [a, a]), A)
    torch.testing.assert_close(result, [A * 8, A * 8])
    with pytest.raises(ValueError, match="list of tensors"):
        poptorch.for_loop(3, lambda x: x, A)
    with pytest.raises(poptorch.Error, match="like those it takes"):
        poptorch.for_loop(3, lambda x: x[:2], [A])


def test_loops_of_the_body_keep_the_tensors_of_the_caller():
    def forward(a, outer):
        result = poptorch.for_loop(2, lambda x: x.add_(outer), [a])[0]  # outer is not an input of the body
        return result, a

    result, kept = on_both(forward, A, A * 0.5)
    torch.testing.assert_close(result, A * 2)
    assert torch.equal(kept, A)


class Controlled(torch.nn.Module):
    """Two layers, and control flow between them."""

    def __init__(self, control):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second, self.control = torch.nn.Linear(6, 4), torch.nn.Linear(4, 4), control

    def forward(self, x, flag):
        return poptorch.identity_loss(self.control(self, self.first(x), flag), "mean")


def choice(self, x, flag):
    inner = poptorch.cond(x.sum() > 0, lambda y: y * 2, [x], lambda y: y - 1, [x])[0]
    return poptorch.cond(flag, lambda y: self.second(y), [inner], lambda y: y.square(), [inner])[0].square()


CONTROLS = {
    "loop": lambda self, x, flag: poptorch.for_loop(3, lambda y: torch.tanh(self.second(y)), [x])[0],
    "loop that does not turn": lambda self, x, flag: self.second(poptorch.for_loop(0, lambda y: y * 2, [x])[0]),
    "choice": choice,
    # Where the other body is chosen, the infinite derivative of this root is not met.
    "root": lambda self, x, flag: self.second(
        poptorch.cond(flag, lambda y: y * 2, [x], lambda y: (y - y.detach()).sqrt() + y.detach(), [x])[0]),
}


@pytest.mark.parametrize("name, flag", [("loop", True), ("loop that does not turn", True), ("choice", True),
                                        ("choice", False), ("root", True)])
def test_loops_and_choices_train_like_eager(name, flag):
    def batches(step):
        return torch.randn(5, 6, generator=torch.Generator().manual_seed(step)), torch.tensor([flag])

    # A parameter of the other body has a gradient of zeros here and none in eager: without decay that is the same.
    train_beside_eager(Controlled(CONTROLS[name]), batches, steps=4, weight_decay=0)


def test_cond():
    def choose(a, flag):
        kept = a * 2
        return poptorch.cond(flag, lambda x: (x.add_(1), kept), [kept], lambda x, y: [x - y, y], [a, a])

    for flag in (True, False):
        result = on_both(choose, A, torch.tensor([flag]))
        torch.testing.assert_close(result, [A * 2 + 1, A * 2] if flag else [A * 0, A])
    with pytest.raises(ValueError, match="then_inps of cond must be a list of tensors"):
        poptorch.cond(torch.tensor(True), lambda x: x, A, lambda x: x, [A])
    with pytest.raises(poptorch.Error, match="bool tensor of one element"):
        poptorch.cond(A > 0, lambda x: x, [A], lambda x: x, [A])

    def wrong(self, a):
        return poptorch.cond(a.sum() > 0, lambda x: x, [a], lambda x: x[:2], [a])

    options = poptorch.Options().showCompilationProgressBar(False)
    with pytest.raises(poptorch.Error, match="both must return tensors of the same"):
        poptorch.inferenceModel(type("Model", (torch.nn.Module,), {"forward": wrong})(), options)(A)
