"""Training in half whose gradients overflow: one warning that names the first op that did, where it was written, and
the way out. Nothing is said where nothing overflows, or where it does no harm."""

import re

import poptorch
import pytest
import torch
import torch.nn.functional as F

from support.models import quiet

FACTOR = 8192.0


def line_with(mark):
    with open(__file__, encoding="utf-8") as source:
        return next(number for number, text in enumerate(source, 1) if text.rstrip().endswith("# " + mark))


class Model(torch.nn.Module):
    """Its results fit half; gradients of a loss scaled by 1024 overflow where they are multiplied with FACTOR."""

    def __init__(self, width=8, factor=FACTOR):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second, self.factor = torch.nn.Linear(8, width), torch.nn.Linear(width, 4), factor

    def forward(self, x, target):
        with poptorch.Block("0", ipu_id=0):
            x = torch.tanh(self.first(x))
        with poptorch.Block("1", ipu_id=1):
            y = self.second(x)
            y = y * self.factor  # overflows backward
            return y, F.l1_loss(y, target)


class Forward(Model):
    def forward(self, x, target):
        x = torch.tanh(self.first(x))
        x = x * 1e4 * 1e4  # overflows forward
        return F.l1_loss(self.second(x), target)


class Harmless(Model):
    """What overflows is cut off again, and no gradient passes."""

    def forward(self, x, target):
        x = torch.tanh(self.first(x)) + (x * 1e4 * 1e4).clamp(-1, 1).detach().mean()
        return F.l1_loss(self.second(x), target)


def batch(dtype=torch.float16, rows=24):
    generator = torch.Generator().manual_seed(9)
    return torch.randn(rows, 8, generator=generator).to(dtype), torch.randn(rows, 4, generator=generator).to(dtype)


def on_one(options):
    return options.setExecutionStrategy(poptorch.ShardedExecution(poptorch.Stage("0", "1").ipu(0)))


def warnings_of(capfd, model, options=None, loss_scaling=1024.0, inputs=None, calls=4, optimizer=poptorch.optim.SGD):
    executor = poptorch.trainingModel(model.half() if inputs is None else model, options or on_one(quiet()),
                                      optimizer(model.parameters(), lr=1e-4, loss_scaling=loss_scaling))
    capfd.readouterr()
    for _ in range(calls):
        executor(*(inputs or batch()))
    executor.destroy()
    return re.findall(r"training in half: .*", capfd.readouterr().err)


def test_the_first_op_that_overflowed_is_named_once(capfd):
    (warning,) = warnings_of(capfd, Model())
    assert "op mul in the backward pass of micro-batch 0, captured at " in warning
    assert f"test_half_overflow.py:{line_with('overflows backward')}" in warning
    assert "beyond 65504 in f16[24, 4]" in warning
    assert "loss_scaling" in warning and "Training.setAutomaticLossScaling" in warning


def test_an_overflow_of_the_forward_pass_is_named(capfd):
    (warning,) = warnings_of(capfd, Forward(), loss_scaling=1.0)
    assert "op mul in the forward pass of micro-batch 0" in warning
    assert f"test_half_overflow.py:{line_with('overflows forward')}" in warning


def test_what_stays_in_range_is_not_warned_of(capfd):
    assert warnings_of(capfd, Model(), loss_scaling=8.0) == []
    assert warnings_of(capfd, Model(factor=1.0)) == []


def test_an_overflow_that_reaches_no_weight_is_not_warned_of(capfd):
    assert warnings_of(capfd, Harmless(), loss_scaling=1.0) == []


def test_numbers_that_came_in_bad_are_not_blamed_on_an_op(capfd):
    x, target = batch()
    x[3, 2] = torch.nan
    assert warnings_of(capfd, Model(factor=1.0).half(), inputs=(x, target)) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_other_types_have_the_range(capfd, dtype):
    assert warnings_of(capfd, Model().to(dtype), inputs=batch(dtype)) == []


def test_automatic_loss_scaling_needs_no_advice(capfd):
    options = on_one(quiet())
    options.Training.setAutomaticLossScaling(True)
    assert warnings_of(capfd, Model(), options) == []


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "LAMB"])
def test_every_optimiser_is_watched(capfd, name):
    (warning,) = warnings_of(capfd, Model(), optimizer=getattr(poptorch.optim, name))
    assert "op mul in the backward pass of micro-batch 0" in warning


def strategies():
    stages = [poptorch.Stage("0").ipu(0), poptorch.Stage("1").ipu(1)]
    return {"pipelined": poptorch.PipelinedExecution(*stages), "sharded": poptorch.ShardedExecution(*stages)}


@pytest.mark.parametrize("strategy", strategies())
def test_the_same_op_is_named_wherever_the_model_runs(capfd, strategy):
    options = quiet().setExecutionStrategy(strategies()[strategy]).replicationFactor(2)
    options.Training.gradientAccumulation(6)
    (warning,) = warnings_of(capfd, Model(), options, loss_scaling=2.0**14, inputs=None)
    assert "op mul in the backward pass of micro-batch 0, captured at " in warning
    assert f"test_half_overflow.py:{line_with('overflows backward')}, Model.forward, replica 0" in warning


def test_a_later_update_is_found_too(capfd):
    """The learning rate carries the weights away after some updates, in the middle of a call of many."""
    x, target = batch(rows=24 * 30)
    options = on_one(quiet()).deviceIterations(30)
    model = Model(factor=1.0).half()
    executor = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=3e4))
    executor(x, target)
    executor.destroy()
    (warning,) = re.findall(r"training in half: .*", capfd.readouterr().err)
    number = int(re.search(r"of micro-batch (\d+)", warning).group(1))
    assert 0 < number < 30 and "test_half_overflow.py:" in warning


def test_an_overflow_on_another_thread_is_seen(capfd):
    """Large enough to be shared between threads, with the one number that overflows at the end."""
    x, target = torch.zeros(40000, 8), torch.zeros(40000, 4)
    x[-1] = 1e3
    model = Forward(width=64).half()
    with torch.no_grad():
        model.first.bias.zero_()
    (warning,) = warnings_of(capfd, model, loss_scaling=1.0, inputs=(x.half(), target.half()), calls=1)
    assert "op mul in the forward pass of micro-batch 0" in warning
