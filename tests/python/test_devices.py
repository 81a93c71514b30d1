"""Several devices give bit for bit what one gives, whatever the strategy, recomputation and place of the tensors."""

import popart
import poptorch
import pytest
import torch

from support.models import FunctionModel, Layers, quiet, train

SIZES = [6, 9, 8, 7, 4]  # four layers, blocks "0" to "3"
D, G, B = 2, 9, 3
OFF = poptorch.TensorLocationSettings().useOnChipStorage(False)
ALL_BLOCKS = ("0", "1", "2", "3")


def batch(rows=D * G * B):
    torch.manual_seed(5)
    return torch.randn(rows, SIZES[0]), torch.randn(rows, SIZES[-1])


def accumulating(strategy, steps=G):
    options = quiet().deviceIterations(D).setExecutionStrategy(strategy).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(steps)
    return options


def learnt(options, inputs=None):
    model = Layers(SIZES)
    return train(model, options, inputs or batch(), optimizer=poptorch.optim.AdamW(model.parameters(), lr=0.01))


@pytest.fixture(scope="module")
def one_device():
    return learnt(accumulating(poptorch.ShardedExecution(poptorch.Stage(*ALL_BLOCKS).ipu(0))))


def check_same(result, expected):
    outputs, weights = result
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(outputs, expected[0]))
    for name, weight in expected[1].items():
        assert torch.equal(weights[name], weight), name


def stages(*ipus):
    return [poptorch.Stage(block).ipu(ipu) for block, ipu in zip(ALL_BLOCKS, ipus)]


def serial(liveness=poptorch.Liveness.AlwaysLive):
    return poptorch.SerialPhasedExecution(*ALL_BLOCKS).setTensorsLiveness(liveness)


def parallel():
    strategy = poptorch.ParallelPhasedExecution(*ALL_BLOCKS)
    for phase in range(4):
        strategy.phase(phase).ipus(phase % 2)
    return strategy


@pytest.mark.parametrize(
    "strategy",
    [
        poptorch.ShardedExecution(),
        poptorch.ShardedExecution(*stages(1, 0, 0, 1)),
        poptorch.PipelinedExecution(),
        poptorch.PipelinedExecution(*stages(0, 0, 1, 1)),
        poptorch.PipelinedExecution(*stages(0, 1, 0, 1)),
        poptorch.PipelinedExecution(poptorch.Stage("0", "1").ipu(0), poptorch.Stage("2", "3").ipu(1)),
        serial(),
        serial(poptorch.Liveness.OffChipAfterFwd),
        serial(poptorch.Liveness.OffChipAfterFwdNoOverlap),
        serial(poptorch.Liveness.OffChipAfterEachPhase).useSeparateBackwardPhase(),
        parallel(),
        parallel().sendTensorsOffChipAfterFwd(),
    ],
    ids=repr,
)
def test_strategies(strategy, one_device):
    check_same(learnt(accumulating(strategy)), one_device)


@pytest.mark.parametrize("kind", list(popart.RecomputationType))
@pytest.mark.parametrize("strategy", [poptorch.ShardedExecution, poptorch.PipelinedExecution])
def test_recomputation(kind, strategy, one_device):
    options = accumulating(strategy())
    options._Popart.set("autoRecomputation", int(kind))
    check_same(learnt(options), one_device)


@pytest.mark.parametrize("place", ["Activation", "Weight", "Optimizer", "Accumulator"])
@pytest.mark.parametrize("strategy", [poptorch.ShardedExecution, poptorch.PipelinedExecution])
def test_tensors_off_the_device(place, strategy, one_device):
    options = accumulating(strategy())
    getattr(options.TensorLocations, f"set{place}Location")(OFF)
    check_same(learnt(options), one_device)


def test_replicas_of_a_pipeline(one_device):
    """Nine steps of two replicas are eighteen steps of one."""
    inputs = batch(D * 18 * B)
    _, expected = learnt(accumulating(poptorch.ShardedExecution(), 18), inputs)
    _, weights = learnt(accumulating(poptorch.PipelinedExecution()).replicationFactor(2), inputs)
    for name, weight in expected.items():
        torch.testing.assert_close(weights[name], weight, rtol=1e-5, atol=1e-6)


def state_and_weights(options, inputs, state=None, kind="AdamW"):
    """Of an optimiser and its model after two calls, the second one after a detach."""
    model = Layers(SIZES)
    optimizer = getattr(poptorch.optim, kind)(model.parameters(), lr=0.01)
    if state is not None:
        optimizer.load_state_dict(state)
    executor = poptorch.trainingModel(model, options, optimizer)
    executor(*inputs)
    executor.detachFromDevice()
    executor(*inputs)
    executor.copyWeightsToHost()
    return optimizer.state_dict(), [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize("kind", ["AdamW", "LAMB"])
@pytest.mark.parametrize("location", ["Optimizer", "Weight"])
@pytest.mark.parametrize("off_device", [False, True])
def test_sharded_state_and_weights_of_replicas(off_device, location, kind):
    inputs = batch(D * 18 * B)
    whole = accumulating(poptorch.PipelinedExecution()).replicationFactor(2)
    sharded = whole.clone()
    settings = poptorch.TensorLocationSettings().useReplicatedTensorSharding().minElementsForReplicatedTensorSharding(2)
    getattr(sharded.TensorLocations, f"set{location}Location")(settings.useOnChipStorage(not off_device))
    state = None
    for _ in range(2):  # the second time it starts with the state of the first
        (state, weights), (other, expected) = (
            state_and_weights(o.clone(), inputs, state, kind) for o in (sharded, whole))
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(weights, expected))
        assert state["ipu_state"].keys() == other["ipu_state"].keys()
        for name, tensor in other["ipu_state"].items():
            assert torch.equal(state["ipu_state"][name], tensor), name  # whole tensors, in both


@pytest.mark.parametrize("kind", ["SGD", "AdamW", "LAMB"])
def test_sharded_sums_of_replicas(kind):
    """They are added up in another order, and in the same one in every run."""
    inputs = batch(D * 18 * B)
    whole = accumulating(poptorch.PipelinedExecution()).replicationFactor(2)
    sharded = whole.clone()
    settings = poptorch.TensorLocationSettings().useReplicatedTensorSharding().minElementsForReplicatedTensorSharding(2)
    sharded.TensorLocations.setAccumulatorLocation(settings)
    (_, expected), (state, weights), (_, again) = (
        state_and_weights(options.clone(), inputs, kind=kind) for options in (whole, sharded, sharded))
    for found, meant, repeated in zip(weights, expected, again, strict=True):
        torch.testing.assert_close(found, meant, rtol=1e-5, atol=1e-6)
        assert torch.equal(found, repeated)
    sums = {name: tensor.shape for name, tensor in state["ipu_state"].items() if name.startswith("Accum___")}
    assert sums == {f"Accum___{name}": p.shape for name, p in Layers(SIZES).named_parameters()}  # whole tensors


# -- inference ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("strategy", [poptorch.ShardedExecution, poptorch.PipelinedExecution])
def test_inference(strategy):
    model = Layers(SIZES)
    x, _ = batch(7 * B)
    expected = model(x).detach()
    result = poptorch.inferenceModel(model, quiet().deviceIterations(7).setExecutionStrategy(strategy()))(x)
    torch.testing.assert_close(result, expected)


# -- the rules of pipelines -----------------------------------------------------------------------------------------
def test_training_pipeline_needs_enough_steps():
    with pytest.raises(poptorch.Error, match=r"4 pipeline stages needs .* at least 7 .*; it is 6. Set Training.gradientA"):
        learnt(accumulating(poptorch.PipelinedExecution(), 6), batch(D * 6 * B))
    learnt(accumulating(poptorch.PipelinedExecution(), 7), batch(D * 7 * B))


def test_inference_pipeline_needs_enough_iterations():
    executor = poptorch.inferenceModel(Layers(SIZES), quiet().deviceIterations(3))
    with pytest.raises(poptorch.Error, match=r"4 pipeline stages needs .* at least 4 .*; it is 3. Set deviceIterations"):
        executor(batch(3 * B)[0])


@pytest.mark.parametrize("ipus, stages", [((1, 2), 3), ((0, 0, 1, 1), 2), ((0, 1, 0, 1), 4), ((1, 1), 1)])
def test_stages_are_counted_from_ipu_0(ipus, stages):
    def forward(self, x):
        for ipu in ipus:
            poptorch.Block.start(ipu_id=ipu)
            x = torch.tanh(x + 1)
        return x

    def run(iterations):
        options = quiet().deviceIterations(iterations).autoRoundNumIPUs(True).setExecutionStrategy(
            poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
        return poptorch.inferenceModel(FunctionModel(forward), options)(torch.ones(iterations, 2))

    if stages > 1:
        with pytest.raises(poptorch.Error, match=f"{stages} pipeline stages.* at least {stages} .*; it is {stages - 1}"):
            run(stages - 1)
    run(stages)


def test_stages_of_a_pipeline_must_not_decrease():
    def forward(self, x):
        for ipu in (0, 1, 0):
            with poptorch.Block(ipu_id=ipu):
                x = torch.relu(x + 1)
        return x

    with pytest.raises(poptorch.Error, match="Stage ids must not decrease along the data flow.*AutoIncrement"):
        poptorch.inferenceModel(FunctionModel(forward), quiet().deviceIterations(8))(torch.ones(8, 2))
    options = quiet().deviceIterations(8).setExecutionStrategy(
        poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
    assert poptorch.inferenceModel(FunctionModel(forward), options)(torch.ones(8, 2)).eq(4).all()


# -- errors while running -------------------------------------------------------------------------------------------
def test_floating_point_exceptions_name_device_and_place():
    def forward(self, x):
        with poptorch.Block("a", ipu_id=0):
            x = x + 1
        with poptorch.Block("b", ipu_id=1):
            return 1 / x

    options = quiet().deviceIterations(4)
    options.Precision.enableFloatingPointExceptions(True)
    executor = poptorch.inferenceModel(FunctionModel(forward), options)
    x = torch.ones(4, 2)
    x[2, 1] = -1
    for _ in range(2):
        with pytest.raises(poptorch.Error) as error:
            executor(x)
        assert error.value.message.startswith("floating point exception: element 1 of output 0 (f32[1, 2]) is infinity")
        assert "test_devices.py" in error.value.location
        assert error.value.location.endswith("on device 1, stage 1, micro-batch 2")
        torch.testing.assert_close(executor(torch.ones(4, 2)), torch.full((4, 2), 0.5))  # still usable


@pytest.mark.parametrize("function, x, text", [
    (lambda x: x * 0, torch.inf, "is NaN, although no input is NaN"),
    (lambda x: x - x.flip(0), torch.inf, "is NaN, although no input is NaN"),
    (lambda x: x / x.flip(0), torch.inf, "is NaN, although no input is NaN"),
    (lambda x: (x > 1).float(), torch.nan, "of an ordered comparison is NaN"),
    (lambda x: (x <= 1).float(), torch.nan, "of an ordered comparison is NaN"),
    (lambda x: x * 2, torch.inf, None),
    (lambda x: x + 1, torch.nan, None),
    (lambda x: (x == 1).float(), torch.nan, None),
])
def test_floating_point_exceptions_for_invalid_operations(function, x, text):
    options = quiet()
    options.Precision.enableFloatingPointExceptions(True)
    executor = poptorch.inferenceModel(FunctionModel(lambda self, x: function(x)), options)
    given = torch.full((2, 2), x)
    if text is None:
        assert torch.equal(torch.nan_to_num(executor(given)), torch.nan_to_num(function(given)))
    else:
        with pytest.raises(poptorch.Error, match=f"(?s)floating point exception.*{text}.*test_devices.py"):
            executor(given)


# -- time -----------------------------------------------------------------------------------------------------------
def test_times_of_the_devices():
    model = Layers(SIZES)
    options = accumulating(poptorch.PipelinedExecution())
    executor = poptorch.trainingModel(model, options, poptorch.optim.AdamW(model.parameters(), lr=0.01))
    executor(*batch())
    times = executor._core.times()
    assert [(time["replica"], time["device"]) for time in times] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    for time in times:
        assert 0 <= time["waiting"] <= time["total"]
        assert sum(task["seconds"] for task in time["tasks"]) <= time["total"]
        assert time["tasks"][0]["runs"] == D * G
