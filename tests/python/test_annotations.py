"""Blocks and strategies: which device, stage and phase every op of a model gets."""

import contextlib
import copy
import os
import pickle
import re
import subprocess
import sys

import poptorch
import pytest
import torch
from poptorch import _capture, poptorch_core
from poptorch._args import ArgumentPlan, Signature

from support.models import FunctionModel, quiet

X = torch.randn(4, 3)
AUTO = poptorch.AutoStage.AutoIncrement


def places(model, strategy=None, inputs=(X,)):
    """(op, device, stage, phase) of each relu, tanh, sigmoid, exp, sin and assign that a model captures."""
    options = quiet() if strategy is None else quiet().setExecutionStrategy(strategy)
    core = poptorch_core.Model(False)
    for name, buffer in model.named_buffers():
        core.add_tensor(name, buffer, False)
    plan = ArgumentPlan(Signature(model.forward), inputs, {})
    _capture.capture(core, model, plan, plan.micro_batch(1, ""), options, False)
    found = []
    for line in core.graph_text().splitlines():
        op = re.search(r"(?:^ *|= )(relu|tanh|sigmoid|exp|sin|assign)\b", line)
        if op:
            place = [re.search(rf"\b{kind} (\d+)", line) for kind in ("device", "stage", "phase")]
            found.append((op[1], *(int(number[1]) if number else 0 for number in place)))
    return found


def function(forward, *layers):
    return FunctionModel(forward, *layers)


# -- blocks ---------------------------------------------------------------------------------------------------------
def test_block_places_its_ops():
    def forward(self, x):
        x = torch.relu(x)  # before the first block: IPU 0, stage 0
        with poptorch.Block("a", ipu_id=1):
            x = torch.tanh(x)
        with poptorch.Block("b", ipu_id=2):
            return torch.sigmoid(x)

    assert places(function(forward)) == [("relu", 0, 0, 0), ("tanh", 1, 1, 0), ("sigmoid", 2, 2, 0)]


def test_start_lasts_until_the_next_start():
    def forward(self, x):
        poptorch.Block.start("a", ipu_id=0)
        x = torch.relu(x)
        poptorch.Block.start("b", ipu_id=1)
        return torch.exp(torch.tanh(x))

    assert places(function(forward)) == [("relu", 0, 0, 0), ("tanh", 1, 1, 0), ("exp", 1, 1, 0)]


def test_begin_block_lasts_beyond_its_module():
    first, second = torch.nn.ReLU(), torch.nn.Tanh()
    assert poptorch.BeginBlock(second, ipu_id=1) is second
    model = function(lambda self, x: torch.exp(self.m1(self.m0(x))), first, second)
    assert places(model) == [("relu", 0, 0, 0), ("tanh", 1, 1, 0), ("exp", 1, 1, 0)]


def test_top_module_may_begin_a_block():
    model = poptorch.BeginBlock(torch.nn.Sequential(torch.nn.ReLU()), ipu_id=3)
    assert places(model) == [("relu", 3, 3, 0)]


def test_block_function():
    @poptorch.BlockFunction("a", ipu_id=1)
    def inner(x):
        """Documentation."""
        return torch.tanh(x)

    assert inner.__name__ == "inner" and inner.__doc__ == "Documentation."
    assert places(function(lambda self, x: inner(torch.relu(x)))) == [("relu", 0, 0, 0), ("tanh", 1, 1, 0)]


def test_same_name_is_the_same_block():
    def forward(self, x):
        with poptorch.Block("a"):
            x = torch.relu(x)
        with poptorch.Block("b"):
            x = torch.tanh(x)
        with poptorch.Block("a"):
            return torch.exp(x)

    expected = [("relu", 1, 1, 0), ("tanh", 2, 2, 0), ("exp", 1, 1, 0)]
    assert places(function(forward), poptorch.ShardedExecution(AUTO)) == expected


def test_blocks_without_a_name_are_numbered():
    def forward(self, x):
        poptorch.Block.useAutoId()
        with poptorch.Block():
            x = torch.relu(x)
        with poptorch.Block("named"):
            x = torch.tanh(x)
        with poptorch.Block():
            x = torch.exp(x)
        poptorch.Block.useAutoId()
        with poptorch.Block():  # "0" again
            return torch.sin(x)

    strategy = poptorch.ShardedExecution("0", "named", "1")
    assert places(function(forward), strategy) == [
        ("relu", 0, 0, 0), ("tanh", 1, 1, 0), ("exp", 2, 2, 0), ("sin", 0, 0, 0)]


def test_block_is_a_module():
    model = function(None)
    model.block = poptorch.Block("a", ipu_id=2)

    def forward(self, x):
        with self.block:
            return torch.relu(x)

    model._function = forward
    assert isinstance(model.block, torch.nn.Module) and places(model) == [("relu", 2, 2, 0)]


def test_written_buffer_stays_where_it_is_written():
    def forward(self, x):
        with poptorch.Block("a", ipu_id=1):
            self.seen.add_(x.sum())
            x = torch.relu(x)
        with poptorch.Block("b", ipu_id=2):
            return torch.tanh(x)

    model = function(forward)
    model.register_buffer("seen", torch.zeros(()))
    assert ("assign", 1, 1, 0) in places(model)


def test_annotations_do_nothing_on_the_host():
    def forward(self, x):
        poptorch.Block.useAutoId()
        poptorch.Block.start(ipu_id=3)
        with poptorch.Block("a", ipu_id=7):
            x = self.m0(x)
        return poptorch.BlockFunction()(torch.tanh)(x)

    layer = torch.nn.Linear(3, 3)
    annotated = function(forward, poptorch.BeginBlock(layer, "b"))
    torch.testing.assert_close(annotated(X), torch.tanh(layer(X)))


# -- BeginBlock and its module --------------------------------------------------------------------------------------
def test_begin_block_leaves_names_alone():
    plain, annotated = torch.nn.Linear(3, 2), poptorch.BeginBlock(torch.nn.Linear(3, 2), ipu_id=1)
    assert list(plain.state_dict()) == list(annotated.state_dict())
    annotated.load_state_dict(plain.state_dict())
    assert [name for name, _ in annotated.named_parameters()] == ["weight", "bias"]
    assert "BeginBlock(user_id=None, ipu_id=1) Linear" in poptorch.module_repr(annotated)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_keep_their_blocks(copied):
    model = torch.nn.Sequential(torch.nn.ReLU(), poptorch.BeginBlock(torch.nn.Tanh(), "a", ipu_id=1))
    assert places(copied(model)) == [("relu", 0, 0, 0), ("tanh", 1, 1, 0)]


def test_a_pickled_block_keeps_its_place_among_new_hooks(tmp_path):
    """A fresh process numbers hooks from 0: those it adds must not replace the hook of the block."""
    torch.save(torch.nn.Sequential(poptorch.BeginBlock(torch.nn.Tanh(), ipu_id=1)), tmp_path / "model.pt")
    program = (
        "import torch, poptorch; m = torch.load('model.pt');"
        "[m[0].register_forward_pre_hook(lambda m, x: None) for _ in range(100)];"
        "print(repr(poptorch.module_repr(m)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    text = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True,
                          env=environment)
    assert "BeginBlock(user_id=None, ipu_id=1) Tanh" in text.stdout


def test_hooks_run_in_the_order_of_registration():
    layer = torch.nn.Tanh()
    layer.register_forward_pre_hook(lambda module, inputs: (torch.relu(inputs[0]),))
    poptorch.BeginBlock(layer, ipu_id=1)
    layer.register_forward_pre_hook(lambda module, inputs: (torch.exp(inputs[0]),))
    assert places(torch.nn.Sequential(layer)) == [("relu", 0, 0, 0), ("exp", 1, 1, 0), ("tanh", 1, 1, 0)]


def test_begin_block_of_a_function():
    wrapped = poptorch.BeginBlock(torch.tanh, ipu_id=1)
    assert isinstance(wrapped, torch.nn.Module)
    assert places(torch.nn.Sequential(torch.nn.ReLU(), wrapped)) == [("relu", 0, 0, 0), ("tanh", 1, 1, 0)]


def test_begin_block_of_a_function_keeps_its_label():
    wrapped = pickle.loads(pickle.dumps(poptorch.BeginBlock(torch.tanh, 1, 2)))
    assert (wrapped._user_id, wrapped._ipu_id) == (1, 2)
    assert places(torch.nn.Sequential(torch.nn.ReLU(), wrapped), poptorch.ShardedExecution()) == [
        ("relu", 0, 0, 0), ("tanh", 2, 2, 0)]


def test_remove_blocks():
    inner = torch.nn.Sequential(poptorch.BeginBlock(torch.nn.Tanh(), ipu_id=1))
    model = torch.nn.Sequential(torch.nn.ReLU(), inner)
    calls = []
    inner[0].register_forward_pre_hook(lambda module, inputs: calls.append(1))
    poptorch.removeBlocks(model)
    assert places(model) == [("relu", 0, 0, 0), ("tanh", 0, 0, 0)] and calls
    poptorch.BeginBlock(inner[0], ipu_id=2)  # may be annotated again
    assert places(model)[1] == ("tanh", 2, 2, 0)


# -- strategies -----------------------------------------------------------------------------------------------------
def three_blocks(*ipu_ids):
    def forward(self, x):
        for name, op, ipu in zip("abc", (torch.relu, torch.tanh, torch.exp), ipu_ids):
            with poptorch.Block(name, ipu_id=ipu):
                x = op(x)
        return x

    return function(forward)


@pytest.mark.parametrize(
    "strategy,ipu_ids,expected",
    [
        (poptorch.PipelinedExecution(), (0, 1, 2), [(0, 0), (1, 1), (2, 2)]),
        (poptorch.ShardedExecution(), (2, 0, 1), [(2, 2), (0, 0), (1, 1)]),
        (poptorch.PipelinedExecution(AUTO), (None,) * 3, [(1, 1), (2, 2), (3, 3)]),
        (poptorch.PipelinedExecution(AUTO), (0, 1, 0), [(0, 1), (1, 2), (0, 3)]),
        (poptorch.PipelinedExecution("a", "b", "c"), (None,) * 3, [(0, 0), (1, 1), (2, 2)]),
        (poptorch.PipelinedExecution("a", "b", "c"), (5, None, 4), [(5, 0), (1, 1), (4, 2)]),
        (poptorch.PipelinedExecution(["a", "b"], "c"), (None,) * 3, [(0, 0), (0, 0), (1, 1)]),
        (poptorch.ShardedExecution(poptorch.Stage("a", "c").ipu(1), poptorch.Stage("b").ipu(0)), (7, 7, 7),
         [(1, 0), (0, 1), (1, 0)]),
    ],
)
def test_stages(strategy, ipu_ids, expected):
    found = places(three_blocks(*ipu_ids), strategy)
    assert [place[1:3] for place in found] == expected
    assert places(three_blocks(*ipu_ids), strategy) == found  # a strategy may be used again


def test_phases():
    serial = poptorch.SerialPhasedExecution("a", poptorch.Phase(poptorch.Stage("b"), poptorch.Stage("c")))
    assert [place[1:] for place in places(three_blocks(None, None, None), serial)] == [(0, 0, 0), (0, 0, 1), (1, 1, 1)]
    parallel = poptorch.ParallelPhasedExecution(["a"], [poptorch.Stage("b")], "c")
    parallel.phase(1).ipus(1)
    parallel.phase(2).ipus(2)
    assert [place[1:] for place in places(three_blocks(None, None, None), parallel)] == [
        (0, 0, 0), (1, 0, 1), (2, 0, 2)]
    listed = poptorch.SerialPhasedExecution([poptorch.Phase("a"), poptorch.Phase("b", "c")])
    assert [place[3] for place in places(three_blocks(None, None, None), listed)] == [0, 1, 1]


def test_stages_may_be_changed_after_they_were_listed():
    stage = poptorch.Stage("b", "c")
    strategy = poptorch.ShardedExecution("a", stage)
    stage.ipu(3)
    assert strategy.stage("c") is stage
    assert [place[1] for place in places(three_blocks(None, None, None), strategy)] == [0, 3, 3]


STRATEGIES = [
    (poptorch.PipelinedExecution(), "PipelinedExecution(AutoStage.SameAsIpu)"),
    (poptorch.ShardedExecution(AUTO), "ShardedExecution(AutoStage.AutoIncrement)"),
    (poptorch.PipelinedExecution("a", ["b", "it's"], poptorch.Stage("d").ipu(2)),
     """PipelinedExecution(Stage('a'), Stage('b', "it's"), Stage('d').ipu(2))"""),
    (poptorch.SerialPhasedExecution("a", ["b", "c"]).setTensorsLiveness(poptorch.Liveness.OffChipAfterFwd),
     "SerialPhasedExecution(Phase(Stage('a')), Phase(Stage('b', 'c')), separate_backward_phase=False, "
     "liveness=OffChipAfterFwd)"),
    (poptorch.ParallelPhasedExecution(poptorch.Phase(poptorch.Stage("a"))).sendTensorsOffChipAfterFwd()
     .useSeparateBackwardPhase(),
     "ParallelPhasedExecution(Phase(Stage('a')), separate_backward_phase=True, off_chip_after_fwd=True)"),
]


@pytest.mark.parametrize("strategy,text", STRATEGIES, ids=lambda item: type(item).__name__)
def test_strategies_have_a_text_and_copies_of_their_own(strategy, text):
    assert repr(strategy) == text
    for copied in (copy.deepcopy(strategy), copy.copy(strategy), pickle.loads(pickle.dumps(strategy))):
        assert type(copied) is type(strategy) and repr(copied) == text
    if "'a'" in text:
        copied.stage("a").ipu(7)
        assert repr(strategy) == text and "Stage('a').ipu(7)" in repr(copied)


# -- other scopes ---------------------------------------------------------------------------------------------------
def test_name_scopes_and_attributes():
    def forward(self, x):
        with poptorch.NameScope("outer"), poptorch.Attribute(__outline={"k": "v"}) as attribute:
            assert attribute.active == {"__outline": {"k": "v"}}
            return torch.relu(x)

    assert poptorch.Attribute.active == {} and places(function(forward)) == [("relu", 0, 0, 0)]
    with pytest.raises(AssertionError, match="NameScope expects a str, not int"):
        poptorch.NameScope(3)
    with pytest.raises(AssertionError, match="must be a dict"):
        poptorch.Attribute(__outline="k")
    with pytest.raises(AssertionError, match="strings with string names, not 'k': 3"):
        poptorch.Attribute(__outline={"k": 3})


def test_multi_conv():
    x = torch.randn(1, 1, 5, 5)

    def convs(settings, inner=contextlib.nullcontext(), count=2):
        def forward(self, x):
            with settings, inner:
                return sum(torch.nn.functional.conv2d(x, torch.ones(1, 1, 3, 3)) for _ in range(count)) + x.sum()

        return lambda: places(function(forward), inputs=(x,))

    def plain():
        return poptorch.MultiConv()

    convs(plain().availableMemoryProportions([0.1, 0.2]).partialsTypes(torch.half).planType(None))()
    convs(plain().availableMemoryProportions([0.1]).enableConvDithering((True, False)).perConvReservedTiles(3))()
    for wrong, message in (
        (convs(plain().availableMemoryProportions([0.1, 0.2, 0.3])), "has 3 values and the scope 2 convolutions"),
        (convs(plain(), count=0), "no convolution in the scope"),
        (convs(plain(), plain()), "do not nest"),
    ):
        with pytest.raises(poptorch.Error, match=message):
            wrong()
    for error, wrong in (
        (AssertionError, lambda: plain().availableMemoryProportions(1)),
        (ValueError, lambda: plain().partialsTypes(torch.int32)),
        (ValueError, lambda: plain().partialsTypes("half")),
        (ValueError, lambda: plain().enableConvDithering([1])),
        (AssertionError, lambda: plain().planType(1)),
        (AssertionError, lambda: plain().perConvReservedTiles(1.5)),
        (AssertionError, lambda: plain().cycleBackOff(1)),
    ):
        with pytest.raises(error):
            wrong()
