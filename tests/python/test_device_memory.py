"""What options move or compute again changes the memory of each device by the bytes one can foretell from the sizes of
the tensors: in the plan, and in what a training then touches."""

import poptorch
import pytest
import torch

from support.models import Layers, quiet

SIZES = [32, 64, 48, 40, 16]  # four layers, blocks "0" to "3"
NUM_STAGES = len(SIZES) - 1
B, G = 5, 9  # rows of a micro-batch, micro-batches of an update
NO_RECOMPUTATION, NORM_ONLY, OFF = 0, 2, poptorch.TensorLocationSettings().useOnChipStorage(False)


def bytes_of(*shape):
    """Of a float tensor in a buffer of its own; buffers begin at multiples of 64 bytes."""
    elements = torch.Size(shape).numel()
    return (4 * elements + 63) // 64 * 64


# By layer: its parameters, and a micro-batch of what it receives and returns.
PARAMETERS = [[bytes_of(b, a), bytes_of(b)] for a, b in zip(SIZES, SIZES[1:])]
ROWS = [bytes_of(B, size) for size in SIZES]
# Micro-batches under way in a pipeline: from the first send to a stage to the end of its backward pass.
DEPTHS = [NUM_STAGES - stage + 1 for stage in range(NUM_STAGES)]


def on_one_device():
    return poptorch.ShardedExecution(poptorch.Stage("0", "1", "2", "3").ipu(0))


def pipelined():
    return poptorch.PipelinedExecution(*(poptorch.Stage(str(i)).ipu(i) for i in range(NUM_STAGES)))


def sharded():
    return poptorch.ShardedExecution(*(poptorch.Stage(str(i)).ipu(i) for i in range(NUM_STAGES)))


def memory(strategy, change=lambda options: None, recomputes=False):
    """The memory of each device of each replica after a step with Adam."""
    options = quiet().setExecutionStrategy(strategy())
    options.Training.gradientAccumulation(G)
    if not recomputes:
        options._Popart.set("autoRecomputation", NO_RECOMPUTATION)
    change(options)
    model = Layers(SIZES)
    executor = poptorch.trainingModel(model, options, poptorch.optim.Adam(model.parameters(), lr=0.01))
    rows = B * G * options.replication_factor
    executor(torch.randn(rows, SIZES[0]), torch.randn(rows, SIZES[-1]))
    result = executor._core.memory()
    executor.destroy()
    return result


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    monkeypatch.setenv("ASPEN_MEASURE_MEMORY", "1")


def off_device(kind):
    return lambda options: getattr(options.TensorLocations, f"set{kind}Location")(OFF)


def parameters_by_device(strategy):
    return [sum(PARAMETERS, [])] if strategy is on_one_device else PARAMETERS


def check_change(before, after, from_device, to_host):
    """Bytes that leave the device and that appear on the host, as planned and as measured."""
    for kind in ("planned", "measured"):
        assert before[kind] - after[kind] == from_device
        assert after[f"{kind}_host"] - before[f"{kind}_host"] == to_host


# -- variables off the device ---------------------------------------------------------------------------------------
STRATEGIES = pytest.mark.parametrize("strategy", [on_one_device, pipelined, sharded])


@STRATEGIES
def test_optimiser_state_leaves_the_device(strategy):
    whole, rest = memory(strategy), memory(strategy, off_device("Optimizer"))
    for before, after, parameters in zip(whole, rest, parameters_by_device(strategy), strict=True):
        moved = 2 * sum(parameters)  # two moments
        # An update holds the moments of one parameter at a time, and its gradient.
        staging = max(before["scratch"], 3 * max(parameters)) - before["scratch"]
        assert before["variables"] - after["variables"] == moved
        assert after["scratch"] - before["scratch"] == staging
        check_change(before, after, from_device=moved - staging, to_host=moved)


@STRATEGIES
@pytest.mark.parametrize("kind", ["Accumulator", "Weight"])
def test_accumulators_and_weights_leave_the_device(strategy, kind):
    whole, rest = memory(strategy), memory(strategy, off_device(kind))
    for before, after, parameters in zip(whole, rest, parameters_by_device(strategy), strict=True):
        moved = sum(parameters)
        staging = after["scratch"] - before["scratch"]
        assert before["variables"] - after["variables"] == moved
        assert 0 <= staging <= max(parameters)  # one at a time
        check_change(before, after, from_device=moved - staging, to_host=moved)


def test_small_tensors_stay():
    largest = SIZES[1] * SIZES[2]

    def only_the_largest(options):
        settings = poptorch.TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(largest)
        options.TensorLocations.setOptimizerLocation(settings)

    whole, rest = memory(pipelined), memory(pipelined, only_the_largest)
    moved = [after["host_variables"] for after in rest]
    assert moved == [0, 2 * 4 * largest, 0, 0]
    assert [before["variables"] - after["variables"] for before, after in zip(whole, rest)] == moved


# -- what passes from the forward to the backward pass --------------------------------------------------------------
def kept_by_stage(stage):
    """Per micro-batch: what the stage receives, what it keeps for its own backward pass, and the gradient it gets. The
    first reads the memory of the host instead of receiving anything."""
    is_last = stage + 1 == NUM_STAGES
    received = 0 if stage == 0 else ROWS[stage]
    return received, 0 if is_last else ROWS[stage + 1], 0 if is_last else ROWS[stage + 1]


def test_a_pipeline_keeps_activations_per_micro_batch():
    for stage, device in enumerate(memory(pipelined)):
        assert device["slots"] == DEPTHS[stage] * sum(kept_by_stage(stage))


def test_recomputation_keeps_what_a_stage_receives():
    whole, rest = memory(pipelined), memory(pipelined, recomputes=True)
    for stage, (before, after) in enumerate(zip(whole, rest, strict=True)):
        received, own, gradient = kept_by_stage(stage)
        assert after["slots"] == DEPTHS[stage] * (received + gradient)
        assert (after["slots"] < before["slots"]) == (stage + 1 < NUM_STAGES)
        more_scratch = after["scratch"] - before["scratch"]
        assert 0 <= more_scratch <= own  # what is computed again lives there
        check_change(before, after, from_device=DEPTHS[stage] * own - more_scratch, to_host=0)


def test_activations_leave_the_device():
    whole, rest = memory(pipelined), memory(pipelined, off_device("Activation"))
    for stage, (before, after) in enumerate(zip(whole, rest, strict=True)):
        received, own, gradient = kept_by_stage(stage)
        if stage == 0:
            received_off, received_on = 0, received  # an input of the model comes from the host as it is
        else:
            received_off, received_on = received, 0
        # The last stage turns within one task; the error of its result waits off the device, too.
        turning = ROWS[-1] if stage + 1 == NUM_STAGES else 0
        assert after["slots"] == DEPTHS[stage] * (received_on + gradient)
        assert after["host_slots"] == DEPTHS[stage] * (received_off + own + turning)
        staging = after["scratch"] - before["scratch"]
        assert 0 <= staging <= received + own
        moved = DEPTHS[stage] * (received_off + own)
        check_change(before, after, from_device=moved - staging, to_host=after["host_slots"])


# -- normalisations -------------------------------------------------------------------------------------------------
class Normalised(torch.nn.Module):
    """Convolutions, each with a batch norm and a relu, then a layer norm and a gelu."""

    def __init__(self, channels=8, depth=4):
        super().__init__()
        torch.manual_seed(11)
        layers = []
        for _ in range(depth):
            layers += [torch.nn.Conv2d(channels, channels, 3, padding=1), torch.nn.BatchNorm2d(channels), torch.nn.ReLU()]
        self.layers = torch.nn.Sequential(*layers)
        self.head = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 8), torch.nn.GELU())

    def forward(self, x):
        return poptorch.identity_loss(self.head(self.layers(x)).square(), "mean")


def trained(recomputation, calls=3):
    """The losses of some calls, the weights after them, and the memory of the device."""
    options = quiet()
    options.Training.gradientAccumulation(2)
    options._Popart.set("autoRecomputation", recomputation)
    model = Normalised()
    executor = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
    generator = torch.Generator().manual_seed(12)
    losses = [executor(torch.randn(8, 8, 8, 8, generator=generator)) for _ in range(calls)]
    (device,) = executor._core.memory()
    return losses, [value.clone() for value in model.state_dict().values()], device


def test_normalisations_alone_are_computed_again():
    (losses, weights, before), (again, weights_again, after) = trained(NO_RECOMPUTATION), trained(NORM_ONLY)
    assert all(torch.equal(*pair) for pair in zip(losses + weights, again + weights_again, strict=True))
    # Of each layer the result of the convolution is kept, not those of the norm and of the relu: one in place of two.
    # Two layers are at work when most is kept.
    activation = 4 * 8 * 8 * 8 * 4
    assert before["scratch"] - after["scratch"] >= 2 * activation
    assert {kind: before[kind] for kind in ("variables", "slots")} == {kind: after[kind] for kind in ("variables", "slots")}


# -- phases ---------------------------------------------------------------------------------------------------------
def phased(liveness=poptorch.Liveness.AlwaysLive):
    phases = (poptorch.Phase(poptorch.Stage(str(i)).ipu(0)) for i in range(NUM_STAGES))
    return poptorch.SerialPhasedExecution(*phases).setTensorsLiveness(liveness)


def test_activations_of_phases_leave_the_device_by_default():
    (left,) = memory(phased)
    on_chip = poptorch.TensorLocationSettings().useOnChipStorage(True)
    (kept,) = memory(phased, lambda options: options.TensorLocations.setActivationLocation(on_chip))
    assert kept["host_slots"] == 0
    # Of every phase but the last: what it has made, which is all that its gradients and those of the next phase need.
    assert left["host_slots"] == sum(ROWS[1:-1])
    assert left["slots"] < kept["slots"]


def test_loads_that_overlap_are_in_slots_and_the_others_in_scratch_memory():
    beside = memory(lambda: phased(poptorch.Liveness.OffChipAfterFwd))
    (before,) = memory(lambda: phased(poptorch.Liveness.OffChipAfterFwdNoOverlap))
    computing, loading = beside  # a device that loads while the other one computes
    assert loading["planned"] == loading["planned_host"] == 0
    assert computing["planned_host"] == before["planned_host"]
    # While a phase computes, what it loads and what the next one loads is there.
    loads = [sum(parameters) for parameters in PARAMETERS]
    assert computing["slots"] - before["slots"] >= max(a + b for a, b in zip(loads, loads[1:]))
    assert computing["planned"] > before["planned"]


# -- replicas -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("replicas", [2, 4])
def test_replicas_share_the_optimiser_state(replicas):
    least = 100  # fewer elements stay whole: the biases

    def share(options):
        settings = poptorch.TensorLocationSettings().useReplicatedTensorSharding()
        options.TensorLocations.setOptimizerLocation(settings.minElementsForReplicatedTensorSharding(least))
        options.replicationFactor(replicas)

    whole = memory(on_one_device, lambda options: options.replicationFactor(replicas))
    rest = memory(on_one_device, share)
    weights = [a * b for a, b in zip(SIZES, SIZES[1:])]
    state = 2 * sum(bytes_of(weight) for weight in weights)
    state_of_a_replica = 2 * sum(bytes_of(-(-weight // replicas)) for weight in weights)
    assert len(whole) == len(rest) == replicas
    for before, after in zip(whole, rest):
        assert before["variables"] - after["variables"] == state - state_of_a_replica
        more_scratch = after["scratch"] - before["scratch"]
        assert 0 <= more_scratch <= bytes_of(max(weights))  # shards of one weight and of its gradient at a time
        check_change(before, after, from_device=state - state_of_a_replica - more_scratch, to_host=0)


@pytest.mark.parametrize("replicas", [2, 4])
def test_replicas_share_the_weights(replicas):
    least = 100  # fewer elements stay whole: the biases

    def share(options):
        settings = poptorch.TensorLocationSettings().useReplicatedTensorSharding()
        options.TensorLocations.setWeightLocation(settings.minElementsForReplicatedTensorSharding(least))
        options.replicationFactor(replicas)

    whole = memory(on_one_device, lambda options: options.replicationFactor(replicas))
    rest = memory(on_one_device, share)
    weights = [a * b for a, b in zip(SIZES, SIZES[1:])]
    kept = 3 * sum(bytes_of(weight) for weight in weights)  # with two moments
    kept_by_a_replica = 3 * sum(bytes_of(-(-weight // replicas)) for weight in weights)
    assert len(whole) == len(rest) == replicas
    for before, after in zip(whole, rest):
        assert before["variables"] - after["variables"] == kept - kept_by_a_replica
        assert after["planned"] < before["planned"]  # what is gathered of a weight is there while it is in use


@pytest.mark.parametrize("replicas", [2, 4])
def test_replicas_share_the_sums_of_gradients(replicas):
    least = 100  # fewer elements stay whole: the biases

    def share(options):
        settings = poptorch.TensorLocationSettings().useReplicatedTensorSharding()
        options.TensorLocations.setAccumulatorLocation(settings.minElementsForReplicatedTensorSharding(least))
        options.replicationFactor(replicas)

    whole = memory(on_one_device, lambda options: options.replicationFactor(replicas))
    rest = memory(on_one_device, share)
    weights = [a * b for a, b in zip(SIZES, SIZES[1:])]
    kept = 3 * sum(bytes_of(weight) for weight in weights)  # with two moments
    kept_by_a_replica = 3 * sum(bytes_of(-(-weight // replicas)) for weight in weights)
    for before, after in zip(whole, rest, strict=True):
        assert before["variables"] - after["variables"] == kept - kept_by_a_replica


# -- constants ------------------------------------------------------------------------------------------------------
def test_accumulators_are_cleared_without_a_copy_of_zeros():
    smallest_weight = min(weight for weight, _ in PARAMETERS)
    assert all(device["constants"] < smallest_weight for device in memory(pipelined))
