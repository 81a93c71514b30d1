"""Wrapped models: arguments, results, batching, devices."""

import collections
import copy
import math
import pickle
import time

import numpy as np
import poptorch
import pytest
import torch
from support.executors import TARGET, X, function_model, model, quiet, trainer, updates  # noqa: F401

Pair = collections.namedtuple("Pair", "a b")


def inference(function, opts=None):
    return poptorch.inferenceModel(function_model(function), opts or quiet())


# -- arguments ------------------------------------------------------------------------------------------------------
def test_arguments_are_bound_to_the_signature():
    executor = inference(lambda self, a, b=None, *rest, scale=1, **more: a + (0 if b is None else b) * scale)
    a, b = torch.randn(3), torch.randn(3)
    torch.testing.assert_close(executor(a, b, scale=2), a + 2 * b)
    torch.testing.assert_close(executor(b, b=a, scale=2), b + 2 * a)


def test_variadic_arguments():
    executor = inference(lambda self, *args, **kwargs: sum(args) + kwargs["c"])
    a, b, c = torch.randn(3, 2)[:, :].unbind()
    torch.testing.assert_close(executor(a, b, c=c), a + b + c)


def test_wrong_calls_name_the_argument():
    add = lambda self, a, b: a + b  # noqa: E731
    a = torch.zeros(2)
    with pytest.raises(AssertionError, match="Too many arguments"):
        inference(add)(a, a, a)
    with pytest.raises(AssertionError, match='"c"'):
        inference(add)(a, a, c=a)
    with pytest.raises(AssertionError, match='"a" was given twice'):
        inference(add)(a, b=a, a=a)
    with pytest.raises(poptorch.Error, match='mandatory argument "b"'):
        inference(add)(a)


def test_nested_arguments():
    def forward(self, pair, items, table):
        return pair.a + items[0][1] * table["k"]

    executor = inference(forward)
    a, b, c, d = torch.randn(4, 3).unbind()
    torch.testing.assert_close(executor(Pair(a, b), [(b, c)], {"k": d, "z": a}), a + c * d)
    torch.testing.assert_close(executor(Pair(b, b), [(b, d)], {"z": a, "k": c}), b + d * c)
    with pytest.raises(poptorch.Error, match=r'"items\[0\]" was a tuple of 2'):
        executor(Pair(a, b), [(b, c, c)], {"k": d, "z": a})
    with pytest.raises(poptorch.Error, match='"table" was a dict with keys'):
        executor(Pair(a, b), [(b, c)], {"k": d})
    with pytest.raises(poptorch.Error, match='"pair" was a Pair of 2'):
        executor((a, b), [(b, c)], {"k": d, "z": a})


def test_constants_are_compiled_in():
    executor = inference(lambda self, x, power=2, flag=None: x**power if flag is None else -x)
    x = torch.rand(3)
    torch.testing.assert_close(executor(x), x**2)
    torch.testing.assert_close(executor(x, 2), x**2)
    with pytest.raises(poptorch.Error, match='"power" was 2 when the model was compiled and is 3 now'):
        executor(x, 3)
    with pytest.raises(poptorch.Error, match='"flag" was None'):
        executor(x, flag=x)


def test_constants_that_compare_strangely():
    executor = inference(lambda self, x, array, number: x + torch.from_numpy(array) + number)
    executor(X, np.ones(3, np.float32), math.nan)
    executor(X, np.ones(3, np.float32), float("nan"))
    with pytest.raises(poptorch.Error, match='argument "array" was'):
        executor(X, np.zeros(3, np.float32), math.nan)
    with pytest.raises(poptorch.Error, match='argument "number" was nan'):
        executor(X, np.ones(3, np.float32), 1.0)


def test_default_tensor_is_an_input():
    default = torch.ones(3)
    executor = inference(lambda self, x, y=default: x * y)
    x = torch.randn(3)
    torch.testing.assert_close(executor(x), x)
    torch.testing.assert_close(executor(x, x), x * x)


def test_types_and_layouts_of_inputs():
    executor = inference(lambda self, x: x + x)
    for dtype in (torch.float32, torch.float16, torch.int32, torch.float64, torch.int64):
        x = torch.arange(6).reshape(2, 3).to(dtype)
        result = inference(lambda self, x: x + x)(x)
        narrow = {torch.float64: torch.float32, torch.int64: torch.int32}.get(dtype, dtype)
        assert result.dtype == narrow and torch.equal(result, (x + x).to(narrow))
    transposed = torch.randn(3, 2).t()
    torch.testing.assert_close(executor(transposed), 2 * transposed)
    needs_grad = torch.randn(2, 3, requires_grad=True)
    assert not executor(needs_grad).requires_grad
    with pytest.raises(poptorch.Error, match="complex64"):
        inference(lambda self, x: x)(torch.zeros(2, dtype=torch.complex64))


def test_inputs_that_require_a_gradient_are_warned_of_once_for_every_executor(capfd):
    x = torch.randn(2, 3, requires_grad=True)
    for _ in range(2):
        executor = inference(lambda self, x: x + x)
        executor(x)
        executor(x)
        assert capfd.readouterr().err.count("requires a gradient: it is detached") == 1


class Wrapper:
    def __init__(self, a, b):
        self.a, self.b = a, b


class WrapperParser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.a
        yield struct.b

    def reconstruct(self, original_structure, tensor_iterator):
        return type(original_structure)(next(tensor_iterator), next(tensor_iterator))


def test_custom_types_in_and_out():
    poptorch.registerCustomArgParser(Wrapper, WrapperParser())
    try:
        executor = inference(lambda self, w: Wrapper(w.a + w.b, w.a - w.b))
        result = executor(Wrapper(torch.ones(2), torch.ones(2)))
        assert isinstance(result, Wrapper) and result.a.tolist() == [2, 2] and result.b.tolist() == [0, 0]
    finally:
        poptorch.registerCustomArgParser(Wrapper, None)


def test_input_modified_in_place():
    def forward(self, x):
        x += 1
        return x * 2

    executor = inference(forward)
    x = torch.zeros(3)
    assert executor(x).tolist() == [2, 2, 2] and x.tolist() == [1, 1, 1]
    columns = torch.zeros(3, 2).t()
    executor = inference(forward)
    executor(columns)
    assert columns.sum() == 6


# -- results --------------------------------------------------------------------------------------------------------
def test_results_keep_their_structure():
    def forward(self, x):
        return {"p": Pair(x + 1, [x * 2, None]), "n": 3, "t": (x - 1, "text")}

    x = torch.randn(2, 2)
    result = inference(forward)(x)
    assert list(result) == ["p", "n", "t"] and isinstance(result["p"], Pair)
    torch.testing.assert_close(result["p"].b[0], x * 2)
    assert result["p"].b[1] is None and result["n"] == 3 and result["t"][1] == "text"
    assert isinstance(inference(lambda self, x: collections.OrderedDict(a=x * 1))(x), collections.OrderedDict)


def test_none_and_unchanged_inputs_are_results():
    x = torch.randn(2)
    assert inference(lambda self, x: None)(x) is None
    torch.testing.assert_close(inference(lambda self, x: x)(x), x)


def test_host_constant_is_returned_with_a_warning():
    constant = torch.arange(3)
    executor = inference(lambda self, x: (x + 1, constant), quiet(2))
    with pytest.warns(UserWarning, match="Output expected to be on the IPU"):
        result = executor(torch.zeros(2, 1))
    assert torch.equal(result[1], constant) and result[0].shape == (2, 1)


def test_backward_on_an_output_is_an_error(trainer):
    with pytest.raises(poptorch.Error, match="leave out backward"):
        trainer(X, TARGET)[1].backward()


# -- batching -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode,period", [("All", None), ("Final", None), ("Sum", None), ("EveryN", 2)])
def test_training_output_modes(model, mode, period):
    iterations, steps, rows = 4, 3, 2
    opts = quiet(iterations, steps).outputMode(poptorch.OutputMode[mode], period)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(iterations * steps * rows, 3, generator=generator)
    target = torch.randn(iterations * steps * rows, 2, generator=generator)
    reference = copy.deepcopy(model)
    pairs = list(zip(x.split(rows), target.split(rows)))
    outputs, losses = updates(reference, [pairs[i * steps : (i + 1) * steps] for i in range(iterations)])
    executor = poptorch.trainingModel(model, opts, torch.optim.SGD(model.parameters(), lr=0.1))
    y, loss = executor(x, target)
    if mode == "All":
        expected = torch.cat(outputs), torch.stack(losses)
    elif mode == "Final":
        expected = outputs[-1], losses[-1]
    elif mode == "Sum":
        expected = sum(outputs), sum(losses)
    else:
        kept = [i for i in range(iterations * steps) if (i // steps + 1) % period == 0]
        expected = torch.cat([outputs[i] for i in kept]), torch.stack([losses[i] for i in kept])
    torch.testing.assert_close(y, expected[0])
    torch.testing.assert_close(loss, expected[1])
    assert loss.shape == expected[1].shape
    torch.testing.assert_close(model.fc.weight.data, reference.fc.weight.data)
    assert model.count.item() == iterations * steps


def test_default_modes(model):
    executor = poptorch.inferenceModel(model, quiet(2))
    assert executor(X).shape == (4, 2)  # all
    executor = poptorch.trainingModel(model, quiet(2))
    assert executor(X, TARGET)[0].shape == (2, 2)  # final


def test_sum_reduction_of_gradients(model):
    reference = copy.deepcopy(model)
    opts = quiet(1, 2)
    opts.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    executor = poptorch.trainingModel(model, opts, torch.optim.SGD(model.parameters(), lr=0.1))
    executor(X, TARGET)
    updates(reference, [list(zip(X.split(2), TARGET.split(2)))], lr=0.2)
    torch.testing.assert_close(model.fc.weight.data, reference.fc.weight.data)


def test_batch_must_divide(model):
    with pytest.raises(AssertionError, match=r'"x" of shape \[4, 3\].*3 device iterations'):
        poptorch.inferenceModel(model, quiet(3))(X)
    with pytest.raises(AssertionError, match="single number"):
        inference(lambda self, x: x, quiet(2))(torch.tensor(1.0))


def test_period_must_divide(model):
    opts = quiet(4).outputMode(poptorch.OutputMode.EveryN, 3)
    with pytest.raises(poptorch.Error, match="output period 3"):
        poptorch.inferenceModel(model, opts)(X)


# -- the executor ---------------------------------------------------------------------------------------------------
def test_life_of_an_executor(model, trainer):
    assert not trainer.isCompiled() and not trainer.isAttachedToDevice()
    for method in (trainer.detachFromDevice, trainer.attachToDevice, trainer.copyWeightsToHost,
                   trainer.copyWeightsToDevice, trainer.compilationTime):
        with pytest.raises(poptorch.Error, match="not compiled"):
            method()
    trainer.destroy()  # nothing to do yet
    trainer.compile(X, TARGET)
    assert trainer.isCompiled() and trainer.isAttachedToDevice()
    with pytest.raises(poptorch.Error, match="already"):
        trainer.attachToDevice()
    trainer.detachFromDevice()
    with pytest.raises(poptorch.Error, match="not attached"):
        trainer.detachFromDevice()
    trainer(X, TARGET)
    assert trainer.isAttachedToDevice()
    trainer.destroy()
    assert not trainer.isCompiled()
    trainer(X[:2], TARGET[:2])  # compiled again, for another shape
    assert model.count.item() == 2


def test_compile_only(model):
    executor = poptorch.inferenceModel(model, quiet().useOfflineIpuTarget())
    executor.compile(X)
    assert executor.isCompiled() and not executor.isAttachedToDevice()
    with pytest.raises(AssertionError, match="ConnectionType.Never"):
        executor(X)


def test_attached_on_demand(model):
    executor = poptorch.inferenceModel(model, quiet().connectionType(poptorch.ConnectionType.OnDemand))
    executor.compile(X)
    assert executor.isCompiled() and not executor.isAttachedToDevice()
    executor(X)
    assert executor.isAttachedToDevice()


def test_progress_bar_and_compilation_time(model, capfd):
    executor = poptorch.inferenceModel(model)
    executor(X)
    shown = capfd.readouterr().err
    assert "Graph compilation: 100%" in shown and "100/100" in shown
    assert executor.compilationTime().total_seconds() > 0
    silent = poptorch.inferenceModel(model, quiet())
    silent(X)
    assert "Graph compilation" not in capfd.readouterr().err
    with pytest.raises(poptorch.Error, match="showCompilationProgressBar"):
        silent.compilationTime()


def test_compilation_time_covers_attaching_the_device(model, monkeypatch):
    executor = poptorch.inferenceModel(model)
    attach = executor.attachToDevice
    monkeypatch.setattr(executor, "attachToDevice", lambda: (time.sleep(0.2), attach()))
    executor.compile(X)
    assert executor.compilationTime().total_seconds() > 0.2


def test_other_attributes_come_from_the_module(model, trainer):
    assert trainer.fc is model.fc and trainer.model is model
    assert trainer.training is True
    trainer.eval()
    assert model.training is False
    assert dict(trainer.named_parameters()).keys() == dict(model.named_parameters()).keys()
    assert "Linear" in repr(trainer)
    with pytest.raises(AttributeError):
        trainer.no_such_thing


def test_flags_are_those_of_the_capture():
    model = function_model(lambda self, x: self.m0(x) + (1 if self.training else 0), torch.nn.Dropout(0.5))
    model.eval()
    executor = poptorch.inferenceModel(model, quiet())
    assert torch.equal(executor(X), X)


def test_options_are_copied(model):
    opts = quiet()
    executor = poptorch.inferenceModel(model, opts)
    assert executor.options is not opts and executor.options.output_mode == poptorch.OutputMode.All
    assert opts.defaultOutputMode()
    with pytest.raises(AttributeError):
        executor.options.deviceIterations(2)
    poptorch.trainingModel(model, opts)


def test_random_state(model):
    dropout = function_model(lambda self, x: self.m0(x), torch.nn.Dropout(0.5)).train()
    ones = torch.ones(64)

    def run(seed):
        executor = poptorch.inferenceModel(dropout, quiet().randomSeed(seed))
        return [executor(ones) for _ in range(3)]

    first, second, other = run(1), run(1), run(2)
    assert all(torch.equal(a, b) for a, b in zip(first, second))
    assert not torch.equal(first[0], other[0]) and not torch.equal(first[0], first[1])
    executor = poptorch.inferenceModel(dropout, quiet())
    with pytest.raises(poptorch.Error, match="rng_state"):
        executor.rng_state
    executor(ones)
    state = executor.rng_state
    expected = executor(ones)
    for wrong in ([], [1, 2, 3], ["seed"]):
        with pytest.raises(poptorch.Error, match="expected \\[seed\\] or \\[seed, step\\]"):
            executor.rng_state = wrong
    executor.rng_state = state
    assert torch.equal(executor(ones), expected)
    executor.rng_state = state
    executor.detachFromDevice()
    assert torch.equal(executor(ones), expected)


def test_negative_seeds():
    def drawn(seed):
        return inference(lambda self, x: torch.rand_like(x), quiet().randomSeed(seed))(X)

    assert torch.equal(drawn(-5), drawn(-5)) and not torch.equal(drawn(-5), drawn(5))


def test_tensor_names(model, trainer):
    with pytest.raises(AssertionError):
        trainer.getTensorNames()
    trainer.compile(X, TARGET)
    names = trainer.getTensorNames()
    assert {"fc.weight", "fc.bias", "input___x", "input___target"} <= set(names)


def test_executor_can_be_pickled(model, trainer):
    trainer(X, TARGET)
    other = pickle.loads(pickle.dumps(trainer))
    assert torch.equal(other.model.fc.weight, model.fc.weight)
    other(X, TARGET)


def test_is_running_on_ipu():
    seen = []

    def forward(self, x):
        seen.append(poptorch.isRunningOnIpu())
        return x + 1

    model = function_model(forward)
    model(X)
    executor = poptorch.inferenceModel(model, quiet())
    executor(X)
    executor(X)
    assert seen == [False, True] and not poptorch.isRunningOnIpu()


def test_compile_hooks(model):
    calls = []
    handles = [poptorch.registerPreCompileHook(lambda: calls.append("a")),
               poptorch.registerPreCompileHook(lambda: calls.append("b")),
               poptorch.registerPostCompileHook(lambda: calls.append("c"))]
    poptorch.inferenceModel(model, quiet())(X)
    for handle in handles:
        handle.remove()
    poptorch.inferenceModel(model, quiet())(X)
    assert calls == ["a", "b", "c"]
    with pytest.raises(RuntimeError):
        poptorch.registerPreCompileHook(3)


# -- options ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "change,message",
    [
        (lambda o: o.Distributed.configureProcessId(0, 2), "2 processes"),
        (lambda o: o._Popart.set("outlineTreshold", 1.0), 'unknown option "outlineTreshold".*outlineThreshold'),
        (lambda o: o._Popart.set("outlineThreshold", "1"), "expected a float"),
        (lambda o: o._Popart.set("autoRecomputation", 9), "from 0 to 4"),
    ],
)
def test_what_the_engine_does_not_do_is_said_at_compilation(model, change, message):
    opts = quiet()
    change(opts)
    with pytest.raises(poptorch.Error, match=message):
        poptorch.trainingModel(model, opts)(X, TARGET)


def test_hints_change_nothing(model):
    opts = quiet()
    opts.setAvailableMemoryProportion({"IPU0": 0.1}).enableStableNorm(True).autoRoundNumIPUs(True).useIpuModel(True)
    opts._Popart.set("autoRecomputation", 3).set("outlineThreshold", 10).setPatterns({"TiedGather": True})
    opts._Popart.set("saveInitializersToFile", "weights.onnx").set("logDir", "logs")
    opts.TensorLocations.setOptimizerLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))
    opts.syncPattern(poptorch.SyncPattern.SinglePipeline)
    torch.testing.assert_close(poptorch.inferenceModel(model, opts)(X), model(X).detach())
