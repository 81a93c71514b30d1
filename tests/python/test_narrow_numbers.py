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


class Rows(torch.nn.Module):
    """A table in one stage and a classifier in another, both of which read integers; the first ones are returned."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.table = torch.nn.Embedding(5, 4)
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, ids, labels):
        with poptorch.Block("0", ipu_id=0):
            x = self.table(ids)
        with poptorch.Block("1", ipu_id=1):
            y = self.fc(x + ids.unsqueeze(1))
            return y, ids, labels + ids, torch.nn.functional.cross_entropy(y, labels)


def trainer(iterations=1, accumulation=1, replicas=1):
    options = quiet().deviceIterations(iterations).replicationFactor(replicas).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    model = Rows()
    return model, poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.1))


def integers(rows, below):
    return torch.arange(rows) * 7 % below


@pytest.mark.parametrize("iterations,accumulation,replicas", [(1, 3, 1), (2, 4, 1), (2, 3, 2)])
def test_int64_and_int32_inputs_give_the_same_bits_in_pipelines_and_replicas(iterations, accumulation, replicas):
    rows = 2 * iterations * accumulation * replicas
    ids, labels = integers(rows, 5), integers(rows, 3)
    results = []
    for wide in (False, True):
        model, executor = trainer(iterations, accumulation, replicas)
        given = ids if wide else ids.int()
        results.append(executor(given, labels))
        results[-1] += tuple(p.detach().clone() for p in model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert torch.equal(results[1][1], ids) and results[1][1].dtype == torch.int32


@pytest.mark.parametrize("accumulation,replicas", [(3, 1), (5, 1), (3, 2)])
@pytest.mark.parametrize("name", ["ids", "labels"])
def test_integer_out_of_range_in_a_stage_or_replica_is_an_error_and_the_executor_goes_on(accumulation, replicas, name):
    rows = 2 * accumulation * replicas
    inputs = {"ids": integers(rows, 5), "labels": integers(rows, 3)}
    _, executor = trainer(1, accumulation, replicas)
    executor(**inputs)
    wrong = dict(inputs, **{name: inputs[name].index_fill(0, torch.tensor(rows - 1), 2**40)})
    with pytest.raises(poptorch.Error, match=rf'input "{name}" holds {2**40} among its integers, which have 32 bits'):
        executor(**wrong)
    assert torch.isfinite(executor(**inputs)[-1]).all()


def test_integer_out_of_range_is_an_error_of_the_line_that_reads_it():
    with pytest.raises(poptorch.Error, match=rf"holds {2**40}(.|\n)*test_narrow_numbers.py:\d+"):
        run(lambda x: x + 1, torch.full((5000,), 2**40))


def test_int64_inputs_may_lie_anywhere():
    x = torch.arange(24).reshape(4, 6)
    memory = torch.zeros(8 * 24 + 3, dtype=torch.uint8)
    odd = torch.frombuffer(memory.numpy(), dtype=torch.int64, count=24, offset=3).reshape(4, 6)
    odd.copy_(x)
    for given in (x, x.t().contiguous().t(), odd, torch.arange(25)[1:].reshape(4, 6) - 1):
        assert torch.equal(run(lambda x: x * 2 - x, given), x)
    assert run(lambda x: x + 1, torch.tensor(4)) == 5


def test_int64_inputs_are_written_in_place_and_read_in_loops():
    def forward(x):
        y = poptorch.for_loop(3, lambda y: (y + x,), [x * 1])[0]
        x.add_(10)
        return y, x * 1

    x = torch.tensor([1, -2, 3])
    y, after = run(forward, x)
    assert y.tolist() == [4, -8, 12]
    assert after.tolist() == x.tolist() == [11, 8, 13]


def test_int64_inputs_are_anchored_in_32_bits():
    options = quiet()
    options.anchorTensor("ids", "input___x")

    class Net(torch.nn.Module):
        def forward(self, x):
            return x.float() * 2

    executor = poptorch.inferenceModel(Net(), options)
    x = torch.tensor([5, 6, -7])
    assert executor(x).tolist() == [10, 12, -14]
    anchored = executor.getAnchoredTensor("ids")
    assert anchored.tolist() == x.tolist() and anchored.dtype == torch.int32


def test_saved_programs_read_int64_inputs(tmp_path):
    class Net(torch.nn.Module):
        def forward(self, x):
            return x + 1

    executor = poptorch.inferenceModel(Net(), quiet())
    executor.compileAndExport(str(tmp_path / "program"), torch.tensor([1, 2]), export_model=False)
    loaded = poptorch.inferenceModel(Net(), quiet())
    loaded.loadExecutable(str(tmp_path / "program"))
    assert loaded(torch.tensor([5, -6])).tolist() == [6, -5]
    with pytest.raises(poptorch.Error, match=f'input "x" holds {LARGE}'):
        loaded(torch.tensor([5, LARGE]))


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
