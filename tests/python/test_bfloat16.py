"""bfloat16 as a type of the device: stored in two bytes, computed in float32, rounded once to the nearest even."""

import poptorch
import pytest
import torch
import torch.nn.functional as F

from support import compare
from support.models import FunctionModel, Layers, quiet, train, weights
from support.tensors import integers, normal
from test_ops_half import FUNCTIONS

BF16 = torch.bfloat16
EPS = 2.0**-7  # from 1 to its neighbour
PATTERNS = torch.arange(-2**15, 2**15, dtype=torch.int32).to(torch.int16).view(BF16)


def run(function, *inputs):
    executor = poptorch.inferenceModel(FunctionModel(lambda self, *args: function(*args)), compare.options())
    result = executor(*inputs)
    executor.destroy()
    return result


def on_one_device():
    return quiet().setExecutionStrategy(poptorch.ShardedExecution(poptorch.Stage("0", "1").ipu(0)))


def bits(tensor):
    return tensor.view(torch.int16)


def same_numbers(actual, expected):
    return torch.equal(actual.isnan(), expected.isnan()) and torch.equal(actual.nan_to_num(0), expected.nan_to_num(0))


# -- in and out ------------------------------------------------------------------------------------------------------
MOVES = {
    "as it is": lambda x: x, "turned": lambda x: x.view(256, 256).t().contiguous().t().reshape(-1),
    "cut and joined": lambda x: torch.cat([x[:1000], x[1000:]]), "reversed twice": lambda x: x.flip(0).flip(0),
    "picked": lambda x: x[torch.arange(2**16)], "chosen": lambda x: torch.where(x == x, x, x),
    "padded": lambda x: F.pad(x, (3, 2))[3:-2], "in float32 and back": lambda x: x.float().bfloat16(),
}


@pytest.mark.parametrize("name", MOVES)
def test_every_pattern_comes_back_bit_by_bit(name):
    result = run(MOVES[name], PATTERNS)
    assert result.dtype == BF16 and torch.equal(bits(result), bits(PATTERNS))


def test_every_pattern_is_kept_as_weight_buffer_and_constant():
    class Keeper(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(PATTERNS.clone())
            self.register_buffer("kept", PATTERNS.clone())
            self.constant = PATTERNS.clone()

        def forward(self, x):
            return self.weight.reshape(256, -1), self.kept.reshape(256, -1), self.constant.reshape(256, -1), x

    executor = poptorch.inferenceModel(Keeper(), compare.options())
    *kept, _ = executor(torch.zeros(1))
    executor.destroy()
    assert all(tensor.dtype == BF16 and torch.equal(bits(tensor).flatten(), bits(PATTERNS)) for tensor in kept)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int16, torch.int8, torch.uint8,
                                   torch.bool, torch.float64])
def test_casts_from_bfloat16_are_those_of_torch(dtype):
    x = PATTERNS if dtype.is_floating_point or dtype == torch.bool else PATTERNS[PATTERNS.float().abs() < 100]
    x = x if dtype != torch.uint8 else x[x >= 0]
    actual, expected = run(lambda value: value.to(dtype), x), x.to(dtype)
    assert actual.dtype == compare.NARROW.get(dtype, dtype) and same_numbers(actual.float(), expected.float())


def test_casts_to_bfloat16_are_those_of_torch():
    scaled = torch.cat([PATTERNS.float() * factor for factor in (1, 1 + EPS / 2, 1 - EPS / 2, 1.001, 0.7, 1e-3)])
    halves = torch.arange(-2**15, 2**15, dtype=torch.int32).to(torch.int16).view(torch.float16)
    for x in (scaled, halves, scaled.double(), torch.arange(-70000, 70000), torch.arange(-128, 128, dtype=torch.int8),
              torch.arange(256).to(torch.uint8), torch.tensor([True, False]),
              torch.arange(-2**15, 2**15, 7).to(torch.int16)):
        actual = run(lambda value: value.to(BF16), x)
        assert actual.dtype == BF16 and same_numbers(actual, x.to(BF16))


CREATED = {
    "zeros": lambda x: torch.zeros(3, 2, dtype=BF16), "full": lambda x: torch.full((4,), 1 / 3, dtype=BF16),
    "arange": lambda x: torch.arange(0, 300, dtype=BF16), "ones_like": lambda x: torch.ones_like(x, dtype=BF16),
    "tensor": lambda x: torch.tensor([0.1, 257.0, -3.3], dtype=BF16), "type": lambda x: x.type(BF16),
    "new_full": lambda x: x.bfloat16().new_full((2,), 0.7),
}


@pytest.mark.parametrize("name", CREATED)
def test_tensors_made_on_the_device_are_those_of_torch(name):
    x = normal(3, 4)
    actual = run(lambda value: CREATED[name](value) * 1, x)
    expected = CREATED[name](x)
    assert actual.dtype == BF16 and torch.equal(actual, expected)


@pytest.mark.parametrize("other,expected", [(torch.float32, torch.float32), (torch.float16, torch.float32),
                                            (torch.int32, BF16), (torch.bool, BF16), (BF16, BF16)], ids=str)
def test_promotion_is_that_of_torch(other, expected):
    x, y = normal(5).bfloat16(), integers(0, 2, 5).to(other)
    assert (x + y).dtype == expected
    actual = run(lambda a, b: a + b, x, y)
    assert actual.dtype == expected and torch.equal(actual, x + y)


def test_a_model_made_bfloat16_keeps_its_weights_in_two_bytes():
    def variables(dtype):
        model = Layers([32, 64, 32]).to(dtype)
        executor = poptorch.inferenceModel(model, on_one_device())
        result = executor(normal(4, 32).to(dtype))
        count = sum(device["variables"] for device in executor._core.memory())
        executor.destroy()
        return result.dtype, count, sum(p.numel() for p in model.parameters())

    dtype, whole, numel = variables(torch.float32)
    assert dtype == torch.float32 and whole == 4 * numel
    dtype, narrow, numel = variables(BF16)
    assert dtype == BF16 and narrow == 2 * numel


# -- ops -------------------------------------------------------------------------------------------------------------
def in_bfloat16(value):
    return value.bfloat16() if value.is_floating_point() else value


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ops_round_the_float32_result(name):
    """Where an op is several of ours each rounds once: two or three neighbours away at most."""
    function, inputs = FUNCTIONS[name]
    inputs = [in_bfloat16(value) for value in inputs]
    expected = function(*(value.float() if value.is_floating_point() else value for value in inputs)).bfloat16()
    actual = run(function, *inputs)
    assert actual.dtype == (torch.float32 if name == "half and float" else BF16)
    torch.testing.assert_close(actual.float(), expected.float(), rtol=1.5 * EPS, atol=EPS / 2)


EXACT = {
    "add": torch.add, "mul": torch.mul, "div": torch.div, "matmul": lambda x, y: x @ y.t(),
    "exp": lambda x, y: x.exp(), "sum": lambda x, y: x.sum(1), "max": lambda x, y: x.max(1).values,
    "softmax": lambda x, y: x.softmax(1), "conv": lambda x, y: F.conv1d(x[None], y.view(30, 40, 1)),
    "sort": lambda x, y: x.sort(1).values, "cumsum": lambda x, y: x.cumsum(1), "relu": lambda x, y: x.relu(),
    "index_add": lambda x, y: x.index_add(0, torch.zeros(40, dtype=torch.int64), y),
    "cat": lambda x, y: torch.cat([x, y]), "sqrt": lambda x, y: x.abs().sqrt(), "atan2": torch.atan2,
}


@pytest.mark.parametrize("name", EXACT)
def test_one_op_is_float64_rounded_once(name):
    """Exactly, but for results so near the middle of two neighbours that float32 falls on the other side."""
    x, y = normal(40, 30).bfloat16(), normal(40, 30).bfloat16()
    actual, expected = run(EXACT[name], x, y), EXACT[name](x.double(), y.double())
    assert actual.dtype == BF16
    rounded = expected.bfloat16()
    assert (actual == rounded).float().mean() > 0.995
    torch.testing.assert_close(actual.double(), expected, rtol=0.51 * EPS, atol=1e-30)


def test_sums_are_better_than_those_of_repeated_rounding():
    x = torch.full((4096,), 1 + 2.0**-7, dtype=BF16)
    assert run(lambda value: value.sum(), x) == (4096 * (1 + 2.0**-7))
    assert run(lambda value: value[None] @ torch.ones(4096, 1, dtype=BF16), x) == 4096 * (1 + 2.0**-7)


def test_random_numbers_are_below_one_and_cover_their_range():
    torch.manual_seed(0)
    for dtype, steps in ((BF16, 2**8), (torch.float16, 2**11)):
        x = run(lambda value: torch.rand(200000, dtype=dtype) + 0 * value.to(dtype), torch.zeros(1))
        assert x.dtype == dtype and x.min() == 0 and x.max() < 1
        scaled = x.double() * steps
        assert torch.equal(scaled, scaled.round()) and scaled.unique().numel() == steps
        assert abs(x.double().mean() - (0.5 - 0.5 / steps)) < 0.005
    normals = run(lambda value: torch.randn(200000, dtype=BF16) + 0 * value.bfloat16(), torch.zeros(1)).double()
    assert abs(normals.mean()) < 0.01 and abs(normals.std() - 1) < 0.01


def test_dropout_scales_what_it_keeps():
    model = torch.nn.Dropout(0.25)
    executor = poptorch.inferenceModel(model.train(), compare.options())
    y = executor(torch.ones(10000, dtype=BF16))
    executor.destroy()
    assert y.dtype == BF16 and set(y.unique().tolist()) == {0.0, torch.tensor(4 / 3, dtype=BF16).item()}
    assert abs((y == 0).float().mean() - 0.25) < 0.02


def test_nan_to_num_knows_the_largest_number():
    x = torch.tensor([torch.inf, -torch.inf, torch.nan, 1.5], dtype=BF16)
    assert torch.equal(run(torch.nan_to_num, x), torch.nan_to_num(x))


def test_what_runs_on_the_host_runs_as_torch_does_or_in_float32():
    x = normal(5, 5).bfloat16()
    actual = run(lambda value: torch.histc(value, 4, -1, 1), x)
    assert actual.dtype == BF16 and torch.equal(actual, torch.histc(x, 4, -1, 1))
    x = x.abs() + 1.5
    with pytest.raises(RuntimeError):
        torch.special.zeta(x, x)
    actual = run(lambda value: torch.special.zeta(value, value), x)
    assert actual.dtype == BF16 and torch.equal(actual, torch.special.zeta(x.float(), x.float()).bfloat16())


def test_tensors_are_printed(capfd):
    run(lambda x: poptorch.ipu_print_tensor(x, "narrow") * 1, torch.tensor([0.5, -3.0], dtype=BF16))
    assert "0.5" in capfd.readouterr().err


def test_sums_of_outputs_add_up_in_float32():
    options = quiet().deviceIterations(300).outputMode(poptorch.OutputMode.Sum)
    executor = poptorch.inferenceModel(FunctionModel(lambda self, x: x), options)
    total = executor(torch.full((300, 2), 1.0, dtype=BF16))
    executor.destroy()
    assert total.dtype == BF16 and torch.equal(total.flatten(), torch.full((2,), 300.0, dtype=BF16))


# -- training --------------------------------------------------------------------------------------------------------
class Cnn(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 6, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(6, 8, 3),
            torch.nn.GroupNorm(2, 8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 9, 10))

    def forward(self, x, target):
        return F.cross_entropy(self.layers(x), target)

    @staticmethod
    def batch():
        generator = torch.Generator().manual_seed(8)
        target = torch.randint(0, 10, (32,), generator=generator)
        x = torch.randn(32, 1, 12, 12, generator=generator) * 0.3
        for row, label in enumerate(target):
            x[row, 0, label] += 2
        return x, target


class TransformerBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.embedding = torch.nn.Embedding(20, 32)
        self.block = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(32, 20)

    def forward(self, x, target):
        return F.cross_entropy(self.head(self.block(self.embedding(x))).flatten(0, 1), target.flatten())

    @staticmethod
    def batch():
        generator = torch.Generator().manual_seed(8)
        x = torch.randint(0, 20, (8, 10), generator=generator)
        return x, (x * 3 + 1) % 20


OPTIMIZERS = {
    "SGD": lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.9, use_combined_accum=False),
    "Adam": lambda p: poptorch.optim.Adam(p, lr=0.005), "AdamW": lambda p: poptorch.optim.AdamW(p, lr=0.005),
    "RMSprop": lambda p: poptorch.optim.RMSprop(p, lr=0.002), "LAMB": lambda p: poptorch.optim.LAMB(p, lr=0.02),
}


def losses(make_model, dtype, make_optimizer, steps=25, options=None):
    model = make_model().to(dtype)
    executor = poptorch.trainingModel(model, options or quiet(), make_optimizer(model.parameters()))
    batch = [value.to(dtype) if value.is_floating_point() else value for value in make_model.batch()]
    found = [executor(*batch).float().mean().item() for _ in range(steps)]
    executor.copyWeightsToHost()
    assert all(parameter.dtype == dtype for parameter in model.parameters())
    executor.destroy()
    return torch.tensor(found)


@torch.backends.mkldnn.flags(enabled=False)  # its bfloat16 may use instructions that a virtual machine lacks
def eager_losses(make_model, dtype, steps=25):
    model = make_model().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batch = [value.to(dtype) if value.is_floating_point() else value for value in make_model.batch()]
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        found.append(loss.float().item())
    return torch.tensor(found)


@pytest.mark.parametrize("make_model", [Cnn, TransformerBlock])
def test_models_train_beside_eager_bfloat16_and_float32(make_model):
    actual = losses(make_model, BF16, OPTIMIZERS["SGD"])
    whole, eager = eager_losses(make_model, torch.float32), eager_losses(make_model, BF16)
    assert abs(actual[0] - whole[0]) < EPS * whole[0]
    assert actual[-1] < 0.6 * actual[0]
    # A loss has 8 bits, and what was rounded off earlier steps shows in later ones.
    allowed = 0.05 * whole[0]
    assert (actual - whole).abs().max() < allowed and (actual - eager).abs().max() < allowed
    # No worse than eager, which also rounds the velocity.
    assert (actual - whole).abs().mean() < 1.5 * (eager - whole).abs().mean() + EPS * whole[0]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimiser_trains_bfloat16_with_state_in_float32(name):
    model = Cnn().bfloat16()
    optimizer = OPTIMIZERS[name](model.parameters())
    executor = poptorch.trainingModel(model, quiet(), optimizer)
    x, target = Cnn.batch()
    found = [executor(x.bfloat16(), target).item() for _ in range(25)]
    state = optimizer.state_dict()["ipu_state"]
    kept = {entry.dtype for entry_name, entry in state.items() if not entry_name.startswith("Step___")}
    assert kept == {torch.float32}
    executor.destroy()
    whole = losses(Cnn, torch.float32, OPTIMIZERS[name])
    assert found[-1] < 0.7 * found[0] and abs(found[-1] - whole[-1]) < 0.1 * whole[0]


def test_gradients_are_accumulated_in_float32():
    """A contribution of 256 and 257 of 1: bfloat16 would stop at 256."""
    model = FunctionModel(lambda self, x: poptorch.identity_loss(self.m0(x), "sum"),
                          torch.nn.Linear(1, 1, bias=False).bfloat16())
    with torch.no_grad():
        model.m0.weight.zero_()
    options = quiet()
    options.Training.gradientAccumulation(258).accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=1.0, use_combined_accum=False)
    executor = poptorch.trainingModel(model, options, optimizer)
    executor(torch.tensor([256.0] + [1.0] * 257).reshape(-1, 1).bfloat16())
    executor.copyWeightsToHost()
    assert model.m0.weight.item() == -512  # 513, rounded once
    executor.destroy()


def test_placement_and_replicas_change_nothing_but_rounding():
    x, target = normal(12, 8).bfloat16(), normal(12, 4).bfloat16()
    stages = [poptorch.Stage("0").ipu(0), poptorch.Stage("1").ipu(1)]

    def learnt(strategy, accumulation=6, replicas=1):
        model = Layers([8, 16, 4]).bfloat16()
        options = quiet().setExecutionStrategy(strategy).replicationFactor(replicas)
        options.Training.gradientAccumulation(accumulation)
        return train(model, options, [x, target],
                     optimizer=poptorch.optim.AdamW(model.parameters(), lr=0.01, loss_scaling=64.0))[1]

    one = poptorch.ShardedExecution(poptorch.Stage("0", "1").ipu(0))
    expected = learnt(one)
    for strategy in (poptorch.PipelinedExecution(*stages), poptorch.ShardedExecution(*stages)):
        found = learnt(strategy)
        assert all(found[name].dtype == BF16 and torch.equal(found[name], expected[name]) for name in expected)
    replicated = learnt(one, accumulation=3, replicas=2)
    for name in expected:
        torch.testing.assert_close(replicated[name], expected[name], rtol=EPS, atol=EPS / 16)


def test_stochastic_rounding_is_for_half_alone():
    results = []
    for stochastic in (False, True):
        options = quiet()
        options.Precision.enableStochasticRounding(stochastic)
        results.append(losses(Cnn, BF16, OPTIMIZERS["SGD"], steps=5, options=options))
    assert torch.equal(*results)


def test_automatic_loss_scaling_trains_bfloat16():
    options = quiet()
    options.Training.setAutomaticLossScaling(True)
    found = losses(Cnn, BF16, lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.9, loss_scaling=8.0), options=options)
    assert found[-1] < 0.6 * found[0]


@pytest.mark.parametrize("argument", ["accum_type", "velocity_accum_type"])
def test_state_in_bfloat16_is_refused_by_name(argument):
    with pytest.raises(AssertionError, match=f"{argument} must be float16 or float32"):
        poptorch.optim.SGD(Cnn().parameters(), lr=0.1, momentum=0.9, use_combined_accum=False, **{argument: BF16})


def test_weights_are_written_back_and_saved_in_bfloat16(tmp_path):
    model = Layers([8, 16, 4]).bfloat16()
    before = weights(model)
    _, learnt = train(model, on_one_device(), [normal(4, 8).bfloat16(), normal(4, 4).bfloat16()])
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    loaded = torch.load(tmp_path / "weights.pt")
    for name, value in learnt.items():
        assert value.dtype == BF16 and torch.equal(loaded[name], value) and not torch.equal(value, before[name])
