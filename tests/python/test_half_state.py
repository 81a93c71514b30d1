"""Accumulators, optimiser state and partial sums in half: stored in two bytes, as the memory plan shows, and close to
what float32 learns."""

import itertools

import poptorch
import pytest
import torch

from support.models import Layers, quiet, weights

SIZES = [32, 64, 32]  # so that every tensor fills whole cache lines, in half too
B, G = 4, 3
HALF = torch.float16
ORDERS = dict(first_order_momentum_accum_type=HALF, second_order_momentum_accum_type=HALF)

# By optimiser: how to make it, its types of state, and how many tensors of each it keeps per parameter.
OPTIMIZERS = {
    "SGD": (lambda p, **types: poptorch.optim.SGD(p, lr=0.1, momentum=0.9, **types),
            {"accum_type": 1, "velocity_accum_type": 1}),
    "Adam": (lambda p, **types: poptorch.optim.Adam(p, lr=0.01, **types),
             {"accum_type": 1, **dict.fromkeys(ORDERS, 1)}),
    "AdamW": (lambda p, **types: poptorch.optim.AdamW(p, lr=0.01, **types),
              {"accum_type": 1, **dict.fromkeys(ORDERS, 1)}),
    "RMSprop": (lambda p, **types: poptorch.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True, **types),
                {"accum_type": 1, "first_order_momentum_accum_type": 2, "second_order_momentum_accum_type": 1}),
    "LAMB": (lambda p, **types: poptorch.optim.LAMB(p, lr=0.01, **types),
             {"accum_type": 1, **dict.fromkeys(ORDERS, 1)}),
}


def batches(dtype=torch.float32, rows=B * G, scale=300):
    """scale: of the targets, and so of the gradients. Half holds the squares of those of the default."""
    generator = torch.Generator().manual_seed(5)
    x, target = (torch.randn(rows, size, generator=generator) for size in (SIZES[0], SIZES[-1]))
    return x.to(dtype), (scale * target).to(dtype)


def trained(make, types, dtype=torch.float32, calls=3, options=None, loss_scaling=1.0, scale=300):
    """The executor after some calls, its optimiser and model. The executor is to be destroyed."""
    model = Layers(SIZES).to(dtype)
    options = options or quiet().setExecutionStrategy(poptorch.ShardedExecution(poptorch.Stage("0", "1").ipu(0)))
    options.Training.gradientAccumulation(G)
    optimizer = make(model.parameters(), loss_scaling=loss_scaling, **types)
    executor = poptorch.trainingModel(model, options, optimizer)
    for _ in range(calls):
        outputs = executor(*batches(dtype, scale=scale))
    assert all(torch.isfinite(output).all() for output in outputs)
    return executor, optimizer, model


def variable_bytes(make, types, dtype=torch.float32):
    executor = trained(make, types, dtype, calls=1, scale=1)[0]
    bytes_ = sum(device["variables"] for device in executor._core.memory())
    executor.destroy()
    return bytes_


NUMEL = sum(p.numel() for p in Layers(SIZES).parameters())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_type_saves_its_bytes_in_the_plan(name):
    make, kinds = OPTIMIZERS[name]
    whole = variable_bytes(make, {})
    for kind, tensors in kinds.items():
        assert whole - variable_bytes(make, {kind: HALF}) == 2 * tensors * NUMEL
    assert whole - variable_bytes(make, dict.fromkeys(kinds, HALF)) == 2 * sum(kinds.values()) * NUMEL


def test_weights_and_state_halve_in_a_half_model():
    make, kinds = OPTIMIZERS["Adam"]
    whole, half = variable_bytes(make, {}), variable_bytes(make, dict.fromkeys(kinds, HALF), HALF)
    tensors = 1 + sum(kinds.values())
    rest = whole - 4 * tensors * NUMEL  # steps and settings
    assert half - rest == (whole - rest) / 2 == 2 * tensors * NUMEL


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_is_half_and_trains_like_float(name):
    make, kinds = OPTIMIZERS[name]
    learnt = {}
    for types in ({}, dict.fromkeys(kinds, HALF)):
        executor, optimizer, model = trained(make, types, loss_scaling=128.0)
        state = optimizer.state_dict()["ipu_state"]
        kept = {entry.dtype for entry_name, entry in state.items() if not entry_name.startswith("Step___")}
        assert kept == {HALF if types else torch.float32}
        executor.copyWeightsToHost()
        learnt[bool(types)] = weights(model)
        executor.destroy()
    start = weights(Layers(SIZES))
    bound = 0.1 if name == "RMSprop" else 0.02  # centred, it divides by the small difference of two means
    for parameter in start:
        moved = learnt[False][parameter] - start[parameter]
        difference = learnt[True][parameter] - learnt[False][parameter]
        assert 0 < difference.norm() < bound * moved.norm()


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "LAMB"])
def test_squares_too_small_for_half_make_steps_shorter_not_endless(name):
    start, moved = weights(Layers(SIZES)), {}
    make, own = getattr(poptorch.optim, name), dict(lr=0.01)
    if name == "RMSprop":
        own = dict(lr=1e-4, alpha=0.999)
    for second in (torch.float32, HALF):
        executor, optimizer, model = trained(
            lambda p, **types: make(p, **own, **types), {"second_order_momentum_accum_type": second}, scale=0.1)
        state = "Accl1" if name == "RMSprop" else "Accl2"
        squares = optimizer.state_dict()["ipu_state"][f"{state}___layers.0.weight"]
        assert squares.dtype == second and squares.float().median() < 2e-7
        executor.copyWeightsToHost()
        moved[second] = torch.cat([(weights(model)[name] - start[name]).flatten() for name in start])
        executor.destroy()
    assert 0.01 * moved[torch.float32].norm() < moved[HALF].norm() < 1.1 * moved[torch.float32].norm()


def test_half_state_continues_where_it_was_saved():
    make, kinds = OPTIMIZERS["AdamW"]
    types = dict.fromkeys(kinds, HALF)
    executor, optimizer, model = trained(make, types)
    state, saved = optimizer.state_dict(), weights(model)
    executor(*batches())
    executor.copyWeightsToHost()
    expected = weights(model)
    executor.destroy()
    model.load_state_dict(saved)
    again = make(model.parameters(), loss_scaling=1.0, **types)
    again.load_state_dict(state)
    executor = poptorch.trainingModel(model, executor.options.clone(), again)
    executor(*batches())
    executor.copyWeightsToHost()
    assert all(torch.equal(parameter, expected[name]) for name, parameter in model.named_parameters())
    executor.destroy()


@pytest.mark.parametrize("accumulation", [1, G])
def test_half_accumulators_are_the_same_on_one_device_and_two(accumulation):
    learnt = []
    for ids in ((0, 0), (0, 1)):
        options = quiet().setExecutionStrategy(
            poptorch.ShardedExecution(*(poptorch.Stage(str(i)).ipu(ipu) for i, ipu in enumerate(ids))))
        options.Training.gradientAccumulation(accumulation)
        model = Layers(SIZES)
        executor = poptorch.trainingModel(
            model, options, poptorch.optim.SGD(model.parameters(), lr=0.1, accum_type=HALF, loss_scaling=64.0))
        for _ in range(3):
            executor(*batches(rows=B * accumulation))
        executor.copyWeightsToHost()
        learnt.append(weights(model))
        executor.destroy()
    assert all(torch.equal(learnt[0][name], learnt[1][name]) for name in learnt[0])


def test_the_type_of_state_is_fixed_at_compilation():
    make, _ = OPTIMIZERS["Adam"]
    executor, _, model = trained(make, {"second_order_momentum_accum_type": HALF}, calls=1)
    change = "second_order_momentum_accum_type changed from Half to Float, which is fixed"
    with pytest.raises(poptorch.Error, match=change):
        executor.setOptimizer(make(model.parameters(), loss_scaling=1.0))
    executor.destroy()


# -- partial sums ---------------------------------------------------------------------------------------------------
class Sums(torch.nn.Module):
    """A matrix product and a convolution, each over 16 * 256 products: one of 4096 and fifteen of 1, far apart. Sums in
    half lose each 1 behind the 4096, because numbers of that size are 4 apart."""

    def __init__(self):
        super().__init__()
        self.product = torch.nn.Linear(4096, 2, bias=False)
        self.convolution = torch.nn.Conv1d(4096, 2, 1)
        for layer in self.children():
            torch.nn.init.ones_(layer.weight)
        torch.nn.init.zeros_(self.convolution.bias)

    def forward(self, x):
        return self.product(x), self.convolution(x.unsqueeze(-1)).squeeze(-1)


def sums(change):
    x = torch.zeros(3, 4096, dtype=HALF)
    x[:, ::256] = 1
    x[:, 0] = 4096
    options = quiet()
    change(options)
    executor = poptorch.inferenceModel(Sums().half().eval(), options)
    results = [output.float().unique().tolist() for output in executor(x)]
    scratch = executor._core.memory()[0]["scratch"]
    executor.destroy()
    return results, scratch


def test_half_partials_round_after_each_piece_of_the_sum():
    exact, lost = [4112], [4096]  # 4111 is no half
    half, plain = torch.half, torch.float
    assert sums(lambda options: None)[0] == [exact, exact]
    assert sums(lambda options: options.Precision.setPartialsType(plain))[0] == [exact, exact]
    assert sums(lambda options: options.Precision.setPartialsType(half))[0] == [lost, lost]
    assert sums(lambda options: options._Popart.set("partialsTypeMatMuls", "half"))[0] == [lost, exact]
    only_convolutions = {"partialsType": "half"}
    assert sums(lambda options: options._Popart.set("convolutionOptions", only_convolutions))[0] == [exact, lost]


def test_half_partials_save_memory_in_the_plan():
    whole = sums(lambda options: None)[1]
    half = sums(lambda options: options.Precision.setPartialsType(torch.half))[1]
    operands = 4 * 4096 * (3 + 2)  # in float: whole, or a sixteenth at a time
    assert whole - half >= operands * 3 // 4


def test_unknown_partials_are_refused():
    options = quiet()
    options._Popart.set("partialsTypeMatMuls", "int")
    with pytest.raises(poptorch.Error, match='partialsTypeMatMuls is .*int.*; expected "half" or "float"'):
        poptorch.inferenceModel(torch.nn.Linear(3, 2), options)(torch.zeros(2, 3))


def test_a_half_model_trains_with_half_partials():
    """Gradients go the same way: products and convolutions, by their inputs and by their weights."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.convolution = torch.nn.Conv2d(8, 300, 3)
            self.product = torch.nn.Linear(300, 5)

        def forward(self, x, labels):
            scores = self.product(torch.relu(self.convolution(x)).mean((2, 3)))
            return torch.nn.functional.cross_entropy(scores.float(), labels)

    generator = torch.Generator().manual_seed(1)
    x, labels = torch.randn(300, 8, 6, 6, generator=generator), torch.randint(0, 5, (300,), generator=generator)
    losses = {}
    for partials, dtype in itertools.product((torch.float, torch.half), (torch.float32, HALF)):
        options = quiet()
        options.Precision.setPartialsType(partials)
        model = Model().to(dtype)
        executor = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.5))
        losses[partials, dtype] = torch.stack([executor(x.to(dtype), labels) for _ in range(5)])
        executor.destroy()
    exact = losses[torch.float, torch.float32]
    assert torch.equal(losses[torch.half, torch.float32], exact)  # no half, no half partials
    assert exact[-1] < exact[0]
    assert not torch.equal(losses[torch.half, HALF], losses[torch.float, HALF])
    torch.testing.assert_close(losses[torch.half, HALF], exact, rtol=5e-3, atol=5e-3)


# -- combined accumulators ------------------------------------------------------------------------------------------
class Weighted(torch.nn.Module):
    """The gradient by w is x."""

    def __init__(self, dtype, numel=64):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(numel, dtype=dtype))

    def forward(self, x):
        return poptorch.identity_loss((self.w * x).float(), "sum")


def combined(dtype, calls, **types):
    """Losses and weights of some calls with momentum, the types of the state, and the bytes of all variables."""
    model = Weighted(dtype)
    options = quiet().outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(3)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=2.0**-10, momentum=0.5, **types)
    executor = poptorch.trainingModel(model, options, optimizer)
    losses = [executor(x.to(dtype).flatten()) for x in calls]
    state = optimizer.state_dict()["ipu_state"]
    bytes_ = sum(device["variables"] for device in executor._core.memory())
    executor.destroy()
    return losses, model.w.detach(), {entry.dtype for name, entry in state.items() if "Step" not in name}, bytes_


def emulated(calls):
    """The same in PyTorch, where sums and velocities are rounded to half after every step."""
    w, velocity, losses = torch.zeros(64), None, []
    for x in calls:
        losses.append(torch.stack([(w * row).half().float().sum() for row in x]))
        total = torch.zeros(64)
        for row in x:
            total = (total + row).half().float()
        gradient = (total / 3).half().float()
        unrounded = gradient if velocity is None else gradient + velocity * 0.5
        w, velocity = (w - unrounded * 2.0**-10).half().float(), unrounded.half().float()
    return losses, w.half()


def test_a_combined_accumulator_has_the_type_of_its_parameter():
    generator = torch.Generator().manual_seed(6)
    # In half 2048 + 1 is 2048: what float32 would have kept is lost.
    calls = [torch.stack([2048.0 * torch.ones(64), torch.ones(64), torch.randint(1, 9, (64,), generator=generator)])
             for _ in range(3)]
    losses, w, kept, half_bytes = combined(HALF, calls, use_combined_accum=True)
    expected, expected_w = emulated(calls)
    assert kept == {HALF} and torch.equal(w, expected_w)
    for found, meant in zip(losses, expected, strict=True):
        torch.testing.assert_close(found, meant, rtol=1e-6, atol=0)
    separate, _, kept, float_bytes = combined(HALF, calls)
    assert kept == {torch.float32} and not torch.equal(separate[-1], losses[-1])
    assert float_bytes - half_bytes == 2 * 2 * 64  # sum and velocity, two bytes less for each number


def test_a_combined_accumulator_ignores_the_types_of_separate_ones():
    calls = [torch.randn(3, 64, generator=torch.Generator().manual_seed(7))]
    plain = combined(torch.float32, calls, use_combined_accum=True)
    typed = combined(torch.float32, calls, use_combined_accum=True, accum_type=HALF, velocity_accum_type=HALF)
    assert plain[2] == typed[2] == {torch.float32} and plain[3] == typed[3] and torch.equal(plain[1], typed[1])
