"""Automatic loss scaling: the device finds the scale at which half gradients neither vanish nor overflow."""

import poptorch
import pytest
import torch

from support.models import Layers, quiet, weights

SMALL = 2.0**-22  # what a loss is multiplied with so that its gradients vanish in half


class Scaled(torch.nn.Module):
    """Linear regression in half, in two blocks. The loss is as small as `scale` makes it; a learning rate as large as
    1 / scale would make up for that, if gradients did not vanish."""

    def __init__(self, scale=1.0):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second, self.scale = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4), scale

    def forward(self, x, target):
        with poptorch.Block("0", ipu_id=0):
            x = torch.tanh(self.first(x))
        with poptorch.Block("1", ipu_id=1):
            error = torch.nn.functional.mse_loss(self.second(x), target, reduction="none").mean()
            return error, poptorch.identity_loss(error * self.scale, reduction="none")


def batch(rows=24):
    generator = torch.Generator().manual_seed(9)
    x = torch.randn(rows, 8, generator=generator)
    return x.half(), (x[:, :4] * 0.5 + x[:, 4:]).half()


def options(automatic, accumulation=1, strategy=None, replicas=1, **settings):
    made = quiet().setExecutionStrategy(
        strategy or poptorch.ShardedExecution(poptorch.Stage("0", "1").ipu(0))).replicationFactor(replicas)
    made.Training.setAutomaticLossScaling(automatic).gradientAccumulation(accumulation)
    made.outputMode(poptorch.OutputMode.All)
    for name, value in settings.items():
        made._Popart.set(f"automaticLossScalingSettings.{name}", value)
    return made


def factor_of(optimizer):
    factor = optimizer.state_dict()["ipu_state"]["lossScaleUpdateFactor"]
    assert factor.shape == () and factor.dtype == torch.float32
    return factor.item()


def train(opts, scale, make, calls=40):
    """Errors and factors call by call, and the weights at last."""
    model = Scaled(scale).half()
    optimizer = make(model.parameters())
    executor = poptorch.trainingModel(model, opts, optimizer)
    errors, factors = [], []
    for _ in range(calls):
        errors.append(executor(*batch())[0].float().mean().item())
        state = optimizer.state_dict()["ipu_state"]
        factors.append(state["lossScaleUpdateFactor"].item() if "lossScaleUpdateFactor" in state else None)
    executor.copyWeightsToHost()
    learnt = weights(model)
    executor.destroy()
    return errors, factors, learnt


def sgd(scale, loss_scaling=1.0):
    return lambda parameters: poptorch.optim.SGD(parameters, lr=0.25 / scale, loss_scaling=loss_scaling)


def test_a_model_whose_gradients_vanish_learns_with_automatic_scaling():
    start = weights(Scaled().half())
    errors, _, learnt = train(options(False), SMALL, sgd(SMALL))
    assert all(torch.equal(learnt[name], start[name]) for name in start) and errors[-1] == errors[0]
    errors, factors, _ = train(options(True), SMALL, sgd(SMALL))
    assert errors[-1] < 0.25 * errors[0]
    assert factors[:5] == [2, 4, 8, 16, 32] and max(factors) <= 65504
    plain, _, _ = train(options(False), 1.0, sgd(1.0), calls=40)  # gradients that half can hold
    assert errors[-1] < 1.5 * plain[0] and abs(errors[-1] - plain[-1]) < 0.25 * plain[0]


def test_a_model_whose_gradients_overflow_learns_with_automatic_scaling():
    too_much = 2.0**15
    scale = 64.0
    errors, _, learnt = train(options(False), scale, sgd(scale, too_much))
    assert not torch.isfinite(learnt["first.weight"]).all() and errors[-1] != errors[-1]
    errors, factors, learnt = train(options(True), scale, sgd(scale, too_much))
    assert all(torch.isfinite(weight).all() for weight in learnt.values())
    assert errors[-1] < 0.25 * errors[0]
    assert factors[0] == 0.5 and factors[1] <= 0.5


MAKERS = {
    "SGD": lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.9, loss_scaling=256.0),
    "Adam": lambda p: poptorch.optim.Adam(p, lr=0.02, loss_scaling=256.0),
    "AdamW": lambda p: poptorch.optim.AdamW(p, lr=0.02, loss_scaling=256.0, accum_type=torch.float16),
    "RMSprop": lambda p: poptorch.optim.RMSprop(p, lr=0.02, loss_scaling=256.0),
    "LAMB": lambda p: poptorch.optim.LAMB(p, lr=0.02, loss_scaling=256.0),
}


@pytest.mark.parametrize("name", MAKERS)
def test_every_optimiser_scales_automatically(name):
    errors, factors, _ = train(options(True), 1.0, MAKERS[name], calls=12)
    assert errors[-1] < 0.8 * errors[0]
    for before, after in zip([1.0] + factors, factors):
        assert after in (before / 2, before * 2) or (after == before and 2 * 256 * before > 65504)


def test_the_final_scale_is_the_initial_one_times_the_factor_before_the_call():
    opts = options(True)
    opts.anchorTensor("scale", "finalLossScale")
    model = Scaled().half()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, loss_scaling=16.0)
    executor = poptorch.trainingModel(model, opts, optimizer)
    factor = 1.0
    for _ in range(4):
        executor(*batch())
        assert executor.getAnchoredTensor("scale").item() == 16.0 * factor
        assert factor_of(optimizer) != factor  # it is adjusted after use
        factor = factor_of(optimizer)
    assert "finalLossScale" in executor.getTensorNames()
    executor.destroy()


def test_overflowing_updates_leave_weights_and_state_alone():
    """Far too large a scale: every gradient overflows in the first call."""
    model = Scaled(1024.0).half()
    start = weights(model)
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.01, loss_scaling=65504.0)
    executor = poptorch.trainingModel(model, options(True), optimizer)
    executor(*batch())
    executor.copyWeightsToHost()
    state = optimizer.state_dict()["ipu_state"]
    assert factor_of(optimizer) == 0.5
    for name, weight in weights(model).items():
        assert torch.equal(weight, start[name])
        assert not state[f"Accl1___{name}"].any() and not state[f"Accl2___{name}"].any()
        assert state[f"Step___{name}"].item() == 0
    executor.destroy()


def test_the_scale_is_the_same_wherever_the_model_runs():
    stages = [poptorch.Stage("0").ipu(0), poptorch.Stage("1").ipu(1)]
    make = lambda p: poptorch.optim.SGD(p, lr=0.1, loss_scaling=8192.0)  # noqa: E731
    expected = train(options(True, accumulation=6), 1.0, make, calls=8)
    assert len(set(expected[1])) > 1
    for strategy in (poptorch.PipelinedExecution(*stages), poptorch.ShardedExecution(*stages)):
        found = train(options(True, accumulation=6, strategy=strategy), 1.0, make, calls=8)
        assert found[1] == expected[1]
        assert all(torch.equal(found[2][name], expected[2][name]) for name in found[2])
    replicated = train(options(True, accumulation=3, replicas=2), 1.0, make, calls=8)
    assert replicated[1] == expected[1]


def test_the_factor_changes_once_per_period():
    _, factors, _ = train(options(True, updatePeriod=3), SMALL, sgd(SMALL), calls=7)
    assert factors == [1, 1, 2, 2, 2, 4, 4]


def test_edge_and_threshold_of_the_upper_bin():
    make = lambda p: poptorch.optim.SGD(p, lr=0.01, loss_scaling=64.0)  # noqa: E731
    _, factors, _ = train(options(True, binEdgeLocation=1e-7), 1.0, make, calls=3)
    assert factors == [0.5, 0.25, 0.125]  # nearly all gradients are above the edge
    most = dict(binEdgeLocation=1e-7, thresholdUpperCountProportion=0.999999)
    _, factors, _ = train(options(True, **most), 1.0, make, calls=3)
    assert factors == [2, 4, 8]
    for name, value in (("binEdgeLocation", 0.0), ("thresholdUpperCountProportion", 1.5), ("updatePeriod", 0)):
        with pytest.raises(poptorch.Error, match=f'automaticLossScalingSettings.{name}" is .*; expected '):
            train(options(True, **{name: value}), 1.0, make, calls=1)


def test_the_factor_is_saved_and_loaded_with_the_state():
    model = Scaled(SMALL).half()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, loss_scaling=4.0)
    executor = poptorch.trainingModel(model, options(True), optimizer)
    for _ in range(3):
        executor(*batch())
    state = optimizer.state_dict()
    assert state["ipu_state"]["lossScaleUpdateFactor"].item() == 8
    executor.destroy()
    again = poptorch.optim.SGD(model.parameters(), lr=0.1, loss_scaling=4.0)
    again.load_state_dict(state)
    executor = poptorch.trainingModel(model, options(True), again)
    executor(*batch())
    assert factor_of(again) == 16
    executor.destroy()


def test_the_scaling_it_starts_from_is_variable():
    model = Scaled().half()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    executor = poptorch.trainingModel(model, options(True), optimizer)
    executor(*batch())
    optimizer.loss_scaling = 4.0
    executor.setOptimizer(optimizer)
    assert optimizer.state_dict()["ipu_param"]["lossScaling_FLOAT"].item() == 4
    executor.destroy()


def test_a_float32_model_is_scaled_too():
    """There is nothing to gain, but nothing to lose: the result is that of a fixed scale."""
    learnt = []
    for automatic in (False, True):
        torch.manual_seed(1)
        model = Layers([8, 16, 4])
        made = quiet().setExecutionStrategy(poptorch.ShardedExecution(poptorch.Stage("0", "1").ipu(0)))
        made.Training.setAutomaticLossScaling(automatic)
        optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
        executor = poptorch.trainingModel(model, made, optimizer)
        for _ in range(4):
            executor(*(tensor.float() for tensor in batch()))
        if automatic:
            assert factor_of(optimizer) == 16
        executor.copyWeightsToHost()
        learnt.append(weights(model))
        executor.destroy()
    for name in learnt[0]:
        torch.testing.assert_close(learnt[0][name], learnt[1][name], rtol=1e-6, atol=1e-7)
