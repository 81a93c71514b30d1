"""What the compiler is told: from Options to the settings of Model.compile."""

import popart
import poptorch
import pytest
import torch
import torch.nn.functional as F
from poptorch import poptorch_core

from support.models import quiet, train

OFF = poptorch.TensorLocationSettings().useOnChipStorage(False)
ON = poptorch.TensorLocationSettings().useOnChipStorage(True)


def told(change=lambda options: None, strategy=None, ipus=(0,), training=True):
    options = quiet() if strategy is None else quiet().setExecutionStrategy(strategy)
    change(options)
    return poptorch_core.compile_options(options._store, options._execution_strategy, training, set(ipus))


def off_device(entries):
    kinds = ("weights", "optimizer_state", "accumulators", "activations")
    return {kind for kind in kinds if entries[kind]["off_device"]}


def test_defaults():
    entries = told()
    assert entries["execution"] == "pipelined" and entries["recompute"] == "stages" and entries["replicas"] == 1
    assert entries["mean_reduction"] and not entries["running_mean"] and not entries["checks_floats"]
    assert off_device(entries) == set() and "liveness" not in entries


def test_numbers():
    def change(options):
        options.deviceIterations(3).replicationFactor(4)
        options.Training.gradientAccumulation(5)
        options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
        options.Training.setMeanAccumulationAndReplicationReductionStrategy(poptorch.MeanReductionStrategy.Running)
        options.Precision.enableFloatingPointExceptions(True)

    entries = told(change)
    assert (entries["device_iterations"], entries["gradient_accumulation"], entries["replicas"]) == (3, 5, 4)
    assert not entries["mean_reduction"] and entries["running_mean"] and entries["checks_floats"]
    assert told(change, training=False)["gradient_accumulation"] == 1


def test_reduction_through_popart():
    entries = told(lambda o: o._Popart.set("accumulationAndReplicationReductionType", int(popart.ReductionType.Sum)))
    assert not entries["mean_reduction"]
    entries = told(lambda o: o._Popart.set(
        "meanAccumulationAndReplicationReductionStrategy", int(popart.MeanReductionStrategy.Running)))
    assert entries["running_mean"]


@pytest.mark.parametrize(
    "kind,size,expected",
    [
        (poptorch.CommGroupType.Consecutive, 2, (1, 2, False)),
        (poptorch.CommGroupType.Orthogonal, 4, (2, 4, False)),
        (poptorch.CommGroupType.NoGrouping, 2, (3, 1, False)),
        (poptorch.CommGroupType.Consecutive, 1, (3, 1, False)),
    ],
)
def test_input_groups(kind, size, expected):
    entries = told(lambda o: o.replicationFactor(4).inputReplicaGrouping(size, kind))
    assert entries["input_grouping"] == expected


@pytest.mark.parametrize(
    "kind,one_ipu,pipeline",
    [
        (None, "stages", "stages"),
        (popart.RecomputationType.NoRecompute, "nothing", "nothing"),
        (popart.RecomputationType.Standard, "all", "stages"),
        (popart.RecomputationType.NormOnly, "norms", "norms"),
        (popart.RecomputationType.Pipeline, "stages", "stages"),
        (popart.RecomputationType.RecomputeAll, "all", "all"),
    ],
)
def test_recomputation(kind, one_ipu, pipeline):
    def change(options):
        if kind is not None:
            options._Popart.set("autoRecomputation", int(kind))

    assert told(change)["recompute"] == one_ipu
    assert told(change, ipus=(0, 1))["recompute"] == pipeline


def test_locations():
    settings = poptorch.TensorLocationSettings().useOnChipStorage(False).useReplicatedTensorSharding()
    settings.minElementsForOffChip(7).minElementsForReplicatedTensorSharding(9)
    entries = told(lambda o: o.TensorLocations.setOptimizerLocation(settings).setActivationLocation(OFF))
    assert entries["optimizer_state"] == {
        "off_device": True, "sharded": True, "min_elements": 7, "min_shard_elements": 9}
    assert off_device(entries) == {"optimizer_state", "activations"} and not entries["weights"]["sharded"]


def test_small_tensors_stay_whole_and_on_the_device_unless_told_otherwise():
    entries = told(lambda o: o.TensorLocations.setWeightLocation(OFF))
    assert entries["weights"] == {"off_device": True, "sharded": False, "min_elements": 2, "min_shard_elements": 8192}


@pytest.mark.parametrize(
    "liveness,expected",
    [
        (poptorch.Liveness.AlwaysLive, "always"),
        (poptorch.Liveness.OffChipAfterFwd, "off_device_after_forward"),
        (poptorch.Liveness.OffChipAfterFwdNoOverlap, "off_device_after_forward_no_overlap"),
        (poptorch.Liveness.OffChipAfterEachPhase, "off_device_after_each_phase"),
    ],
)
def test_serial_phases_keep_what_they_do_not_need_off_the_device(liveness, expected):
    strategy = poptorch.SerialPhasedExecution("a", "b").setTensorsLiveness(liveness).useSeparateBackwardPhase()
    entries = told(strategy=strategy)
    assert entries["execution"] == "phased" and entries["separate_backward_phase"]
    assert entries["liveness"] == expected
    assert off_device(entries) == {"weights", "optimizer_state", "accumulators", "activations"}


def test_parallel_phases():
    assert told(strategy=poptorch.ParallelPhasedExecution("a"))["liveness"] == "always"
    strategy = poptorch.ParallelPhasedExecution("a").sendTensorsOffChipAfterFwd()
    assert told(strategy=strategy)["liveness"] == "off_device_after_forward"


def test_locations_of_the_options_win_over_the_phases():
    strategy = poptorch.SerialPhasedExecution("a").setTensorsLiveness(poptorch.Liveness.OffChipAfterEachPhase)
    entries = told(lambda o: o.TensorLocations.setActivationLocation(ON).setWeightLocation(ON), strategy)
    assert entries["liveness"] == "always" and off_device(entries) == {"optimizer_state", "accumulators"}
    entries = told(lambda o: o.TensorLocations.setActivationLocation(OFF), poptorch.SerialPhasedExecution("a"))
    assert entries == told(strategy=poptorch.SerialPhasedExecution("a"))  # where they are anyway


def test_sharded():
    assert told(strategy=poptorch.ShardedExecution())["execution"] == "sharded"


def test_accumulation_factor_is_gradient_accumulation():
    assert told(lambda o: o._Popart.set("accumulationFactor", 4))["gradient_accumulation"] == 4


class AllSorts(torch.nn.Module):
    """Something for each optional pass: few channels, batch normalisation, attention, a large weight, a loss."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.conv, self.norm = torch.nn.Conv2d(1, 5, 3), torch.nn.BatchNorm2d(5)
        self.attention = torch.nn.MultiheadAttention(36, 4, batch_first=True)
        self.wide, self.last = torch.nn.Linear(5 * 36, 400), torch.nn.Linear(400, 10)

    def forward(self, x, labels):
        y = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2).flatten(2)
        y = y + self.attention(y, y, y, need_weights=False)[0]
        y = self.last(F.gelu(self.wide(y.flatten(1)) * 0.5 + 0.1))
        return y, F.cross_entropy(y, labels)


def images():
    torch.manual_seed(1)
    return torch.randn(16, 1, 14, 14), torch.arange(16) % 10


def trained(skipped, monkeypatch, folder):
    """Loss, weights, and the passes that ran."""
    monkeypatch.setenv("ASPEN_SKIP_PASSES", skipped)
    monkeypatch.setenv("ASPEN_DUMP", str(folder))
    (_, loss), learnt = train(AllSorts(), quiet(), images(), calls=5)
    return loss, learnt, {file.name.split(".")[-2] for file in folder.iterdir()}


def test_programs_compute_the_same_without_optional_passes(monkeypatch, tmp_path):
    with pytest.raises(poptorch.Error, match='"differentiate" is no pass that can be left out; those that can: ') as error:
        trained("differentiate", monkeypatch, tmp_path / "refused")
    names = str(error.value).split("those that can: ")[1].split(".")[0].split(", ")
    assert {"fuse_attention", "put_batch_last", "group_elementwise"} <= set(names)
    model = AllSorts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(5):
        optimizer.zero_grad()
        _, expected = model(*images())
        expected.backward()
        optimizer.step()
    for number, left_out in enumerate([[], names, *([name] for name in names)]):
        skipped = ",".join(left_out)
        loss, learnt, passes = trained(skipped, monkeypatch, tmp_path / str(number))
        assert passes & set(names) == set(names) - set(left_out)
        torch.testing.assert_close(loss, expected.detach(), msg=lambda text: f"without {skipped}: {text}")
        for name, weight in model.named_parameters():
            torch.testing.assert_close(learnt[name], weight.detach(), rtol=1e-4, atol=1e-5,
                                       msg=lambda text: f"{name} without {skipped}: {text}")
