"""Replicas: which rows each one reads, how their outputs and gradients come together, weights of their own."""

import copy
import pickle

import poptorch
import pytest
import torch

from support.models import FunctionModel, Layers, quiet, train, weights

R = 4
ALL = poptorch.OutputMode.All


def rows(*counts):
    """Row numbers as a column, for this many rows."""
    total = torch.Size(counts).numel()
    return torch.arange(total, dtype=torch.float32).reshape(total, 1)


def twice(options, x):
    return poptorch.inferenceModel(FunctionModel(lambda self, x: x * 2), options)(x)


# -- outputs --------------------------------------------------------------------------------------------------------
def replicated(iterations=1, accumulation=1, replicas=R):
    options = quiet().deviceIterations(iterations).replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    return options


class Echo(torch.nn.Module):
    """Returns its input, a number made of it, and a loss."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x * 1, x.sum(), poptorch.identity_loss((x * self.w).mean(), "none")


@pytest.mark.parametrize(
    "mode,period,pick",
    [
        (poptorch.OutputMode.All, None, lambda x: x),
        (poptorch.OutputMode.Final, None, lambda x: x[-1:, -1:]),
        (poptorch.OutputMode.Sum, None, lambda x: x.sum((0, 1), keepdim=True)),
        (poptorch.OutputMode.EveryN, 2, lambda x: x[1::2]),
    ],
)
def test_outputs_of_a_training_model(mode, period, pick):
    D, G, B = 4, 3, 2
    x = rows(D, G, R, B)
    options = replicated(D, G).outputMode(mode, period)
    echo, number, _ = poptorch.trainingModel(Echo(), options)(x)
    blocks = pick(x.reshape(D, G, R, B, 1))
    torch.testing.assert_close(echo, blocks.reshape(-1, 1))
    torch.testing.assert_close(number, blocks.sum((3, 4)).reshape(-1))


def test_number_of_each_replica():
    model = FunctionModel(lambda self, x: x.sum())
    assert poptorch.inferenceModel(model, replicated(replicas=2))(rows(2)).shape == (2,)
    assert poptorch.inferenceModel(model, replicated(replicas=1))(rows(1)).shape == ()


def test_inputs_changed_in_place():
    model = FunctionModel(lambda self, x: x.add_(1))
    x = rows(2, R)
    poptorch.inferenceModel(model, replicated(2))(x)
    torch.testing.assert_close(x, rows(2, R) + 1)


# -- groups of inputs -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "kind,group_of",
    [(poptorch.CommGroupType.Consecutive, lambda r: r // 2), (poptorch.CommGroupType.Orthogonal, lambda r: r % 2)],
)
def test_replicas_of_a_group_read_the_same_rows(kind, group_of):
    D, B = 3, 2
    options = replicated(D).inputReplicaGrouping(2, kind)
    x = rows(D, 2, B)
    blocks = x.reshape(D, 2, B, 1)
    expected = torch.cat([2 * blocks[d, group_of(r)] for d in range(D) for r in range(R)])
    torch.testing.assert_close(twice(options, x), expected)
    poptorch.inferenceModel(FunctionModel(lambda self, x: x.add_(1)), options.clone())(x)
    torch.testing.assert_close(x, rows(D, 2, B) + 1)


# -- training -------------------------------------------------------------------------------------------------------
def batch(n):
    torch.manual_seed(3)
    return torch.randn(n, 5), torch.randn(n, 2)


class Plain(Layers):
    """All layers on one IPU."""

    def forward(self, x, target=None):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        x = self.layers[-1](x)
        return x if target is None else (x, torch.nn.functional.mse_loss(x, target))


def test_replicas_learn_what_one_learns_from_the_whole_batch():
    inputs = batch(16)
    _, expected = train(Plain([5, 7, 2]), quiet(), inputs, calls=10)
    _, learnt = train(Plain([5, 7, 2]), replicated(1), inputs, calls=10)
    for name, weight in expected.items():
        torch.testing.assert_close(learnt[name], weight, rtol=1e-5, atol=1e-6)
    _, learnt = train(Plain([5, 7, 2]), replicated(1, 2, 2), inputs, calls=10)
    for name, weight in expected.items():
        torch.testing.assert_close(learnt[name], weight, rtol=1e-5, atol=1e-6)


def test_sum_over_replicas():
    inputs = batch(16)
    options = replicated(1, 2, 2)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    model = Plain([5, 7, 2])
    _, learnt = train(model, options, inputs, calls=4, optimizer=torch.optim.SGD(model.parameters(), lr=0.01))
    model = Plain([5, 7, 2])
    _, expected = train(model, quiet(), inputs, calls=4, optimizer=torch.optim.SGD(model.parameters(), lr=0.04))
    for name, weight in expected.items():
        torch.testing.assert_close(learnt[name], weight, rtol=1e-5, atol=1e-6)


def test_runs_are_repeatable():
    inputs = batch(16)
    _, first = train(Plain([5, 7, 2]), replicated(2), inputs)
    _, second = train(Plain([5, 7, 2]), replicated(2), inputs)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_state_survives_a_detach():
    inputs = batch(8)
    model = Plain([5, 7, 2])
    executor = poptorch.trainingModel(model, replicated(), poptorch.optim.AdamW(model.parameters(), lr=0.01))
    executor(*inputs)
    executor.detachFromDevice()
    executor(*inputs)
    broken = weights(model)
    model = Plain([5, 7, 2])
    executor = poptorch.trainingModel(model, replicated(), poptorch.optim.AdamW(model.parameters(), lr=0.01))
    executor(*inputs)
    executor(*inputs)
    assert all(torch.equal(weight, broken[name]) for name, weight in weights(model).items())


def test_replicas_draw_different_numbers():
    def draw():
        model = FunctionModel(lambda self, x: torch.nn.functional.dropout(x, 0.5, training=True))
        return poptorch.inferenceModel(model, replicated(2).randomSeed(7))(torch.ones(2 * R, 64))

    rows_drawn = draw()
    assert len({tuple(row.tolist()) for row in rows_drawn}) == 2 * R
    assert torch.equal(draw(), rows_drawn)


# -- buffers --------------------------------------------------------------------------------------------------------
def test_each_replica_keeps_its_own_buffer():
    def forward(self, x):
        self.seen.add_(x.sum())
        return self.seen.clone()

    model = FunctionModel(forward)
    model.register_buffer("seen", torch.zeros(()))
    executor = poptorch.inferenceModel(model, replicated().broadcastBuffers(False))
    x = rows(R)
    torch.testing.assert_close(executor(x), x.flatten())
    torch.testing.assert_close(executor(x), 2 * x.flatten())
    executor.copyWeightsToHost()
    assert model.seen == 0  # of replica 0
    executor(x + 1)
    executor.copyWeightsToHost()
    assert model.seen == 1


# -- weights of groups ----------------------------------------------------------------------------------------------
ONE, EACH = poptorch.VariableRetrievalMode.OnePerGroup, poptorch.VariableRetrievalMode.AllReplicas
TYPE = poptorch.CommGroupType


class Scale(torch.nn.Module):
    def __init__(self, values):
        super().__init__()
        self.w = torch.nn.Parameter(values.clone())

    def forward(self, x):
        assert self.w.dim() == 1  # one value
        y = x * self.w
        return y, poptorch.identity_loss(y.sum(), "none")


def values(count):
    return torch.arange(1.0, count + 1).reshape(count, 1)


@pytest.mark.parametrize(
    "kind,size,mode,group_of",
    [
        (TYPE.Consecutive, 2, ONE, lambda r: r // 2),
        (TYPE.Orthogonal, 2, ONE, lambda r: r % 2),
        (TYPE.Consecutive, 2, EACH, lambda r: r // 2),
        (TYPE.NoGrouping, 1, ONE, lambda r: r),
        (TYPE.NoGrouping, 7, EACH, lambda r: r),
        (TYPE.Consecutive, 4, ONE, lambda r: 0),
    ],
)
def test_groups_of_weights(kind, size, mode, group_of):
    groups = len({group_of(r) for r in range(R)})
    host = values(groups) if mode == ONE else torch.stack([values(groups)[group_of(r)] for r in range(R)])
    model = Scale(host)
    options = replicated().outputMode(ALL)
    executor = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9))
    executor.w.replicaGrouping(kind, size, mode)
    x = rows(R) + 1
    y, _ = executor(x)
    torch.testing.assert_close(y.flatten(), torch.tensor([(r + 1) * (group_of(r) + 1.0) for r in range(R)]))
    # The gradient is the sum of x over the group, divided by all replicas.
    lost = torch.zeros(groups)
    for r in range(R):
        lost[group_of(r)] += (r + 1) / R * 0.5
    expected = values(groups).flatten() - lost
    if mode == EACH:
        expected = torch.stack([expected[group_of(r)] for r in range(R)])
    executor.copyWeightsToHost()
    torch.testing.assert_close(model.w.detach().flatten(), expected)
    state = executor._optimizer.optimizer.state_dict()["ipu_state"]
    assert all(tensor.shape == host.shape for name, tensor in state.items() if name.startswith("Acc"))
    assert state["Step___w"].shape == host.shape[:1]
    executor(x)  # the host's values go back and forth unchanged
    executor.copyWeightsToDevice()
    again = model.w.detach().clone()
    executor.copyWeightsToHost()
    assert torch.equal(again, model.w.detach())


class Grouped(torch.nn.Module):
    """Two stages: the first counts in a buffer, the weight of the second differs between groups of replicas."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Linear(4, 4)
        self.w = torch.nn.Parameter(torch.randn(2, 4, 3))
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x, target):
        poptorch.Block.start("first", ipu_id=0)
        x = torch.tanh(self.first(x))
        self.seen.add_(x.detach().mean(0))
        poptorch.Block.start("second", ipu_id=1)
        y = x @ self.w
        return y, poptorch.identity_loss((y - target).square().mean(), "none")


def learnt_in_groups(strategy, weight_kind, input_kind, off_device):
    options = replicated(2, 3).broadcastBuffers(False).outputMode(ALL).setExecutionStrategy(strategy)
    if input_kind is not None:
        options.inputReplicaGrouping(2, input_kind)
    if off_device:
        place = poptorch.TensorLocationSettings().useOnChipStorage(False).useReplicatedTensorSharding()
        for kind in ("Weight", "Optimizer", "Activation"):
            getattr(options.TensorLocations, f"set{kind}Location")(place.minElementsForReplicatedTensorSharding(2))
        # Not sharded: that adds up the gradients of replicas in another order.
        options.TensorLocations.setAccumulatorLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))
    model = Grouped()
    executor = poptorch.trainingModel(model, options, poptorch.optim.AdamW(model.parameters(), lr=0.01))
    executor.w.replicaGrouping(weight_kind, 2, ONE)
    torch.manual_seed(4)
    count = 2 * 3 * (R if input_kind is None else R // 2)
    outputs = [executor(torch.randn(count, 4), torch.randn(count, 3))[0] for _ in range(2)]
    executor.copyWeightsToHost()
    return [*outputs, *(tensor.clone() for tensor in model.state_dict().values())]


@pytest.mark.parametrize("off_device", [False, True])
@pytest.mark.parametrize("weight_kind, input_kind", [
    (TYPE.Consecutive, None), (TYPE.Consecutive, TYPE.Orthogonal), (TYPE.Orthogonal, TYPE.Consecutive)])
def test_groups_in_a_pipeline(weight_kind, input_kind, off_device):
    alone = poptorch.ShardedExecution(poptorch.Stage("first", "second").ipu(0))
    expected = learnt_in_groups(alone, weight_kind, input_kind, False)
    for strategy in (poptorch.ShardedExecution(), poptorch.PipelinedExecution()):
        for a, b in zip(learnt_in_groups(strategy, weight_kind, input_kind, off_device), expected):
            assert torch.equal(a, b)


def test_grouping_by_all_has_no_effect():
    executor = poptorch.inferenceModel(Scale(torch.full((1,), 3.0)), replicated())
    executor.w.replicaGrouping(TYPE.Consecutive, 2, ONE)
    executor.w.replicaGrouping(TYPE.All, 1, ONE)
    torch.testing.assert_close(executor(rows(R))[0], 3 * rows(R))


def test_parameter_of_an_executor():
    model = Scale(values(1))
    executor = poptorch.inferenceModel(model, quiet())
    assert isinstance(executor.w, torch.nn.Parameter) and "Parameter" in repr(executor.w)
    assert torch.equal(executor.w, model.w) and type(executor.w + 1) is torch.Tensor
    with torch.no_grad():
        executor.w.fill_(5)
    executor.w.requires_grad = False
    assert model.w.item() == 5 and not model.w.requires_grad
    executor.w.data = torch.full((1, 1), 6.0)
    assert model.w.item() == 6 and executor.w.item() == 6
    copied = copy.deepcopy(executor.w)
    assert type(copied) is torch.nn.Parameter and torch.equal(copied, model.w)
    nested = poptorch.inferenceModel(torch.nn.Sequential(torch.nn.Linear(2, 2)), quiet())
    assert isinstance(getattr(nested, "0").weight, torch.nn.Parameter)


def test_copies_of_an_executor_keep_the_groups():
    executor = poptorch.inferenceModel(Scale(values(2)), replicated())
    executor.w.replicaGrouping(TYPE.Consecutive, 2, ONE)
    for restored in (copy.deepcopy(executor), pickle.loads(pickle.dumps(executor))):
        torch.testing.assert_close(restored(rows(R))[0].flatten(), torch.tensor([0.0, 1, 4, 6]))
