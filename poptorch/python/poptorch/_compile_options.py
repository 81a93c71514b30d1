"""From Options to what the compiler is told about devices: how they work together, what they keep and where."""

from .poptorch_core import ShardedExecution
from .enums import CommGroupType, Liveness, MeanReductionStrategy, ReductionType

_LIVENESS = {
    Liveness.AlwaysLive: "always",
    Liveness.OffChipAfterFwd: "off_device_after_forward",
    Liveness.OffChipAfterFwdNoOverlap: "off_device_after_forward",
    Liveness.OffChipAfterEachPhase: "off_device_after_each_phase",
}
# Values of the _Popart option autoRecomputation.
_NONE, _STANDARD, NORM_ONLY, _PIPELINE, _RECOMPUTE_ALL = range(5)


def compile_options(options, training, ipus):
    """The entries of Model.compile that follow from the options alone. ipus: the device of each block."""
    strategy = options._execution_strategy
    popart = options._Popart.options
    return {
        "gradient_accumulation": options.Training.gradient_accumulation if training else 1,
        "device_iterations": options.device_iterations,
        "mean_reduction": _reduction(options) == ReductionType.Mean,
        "running_mean": _mean_strategy(options) == MeanReductionStrategy.Running,
        "checks_floats": bool(popart.get("enableFloatingPointChecks", False)),
        "execution": _execution(strategy),
        "prefetch_depth": popart.get("defaultPrefetchBufferingDepth", 1),
        "recompute": _recompute(popart.get("autoRecomputation"), strategy, ipus),
        "replicas": options.replication_factor,
        "input_grouping": input_grouping(options),
        **_phases(strategy, options.TensorLocations),
        **_locations(strategy, options.TensorLocations),
    }


def _reduction(options):
    chosen = options.Training.accumulation_and_replication_reduction_type
    return options._Popart.options.get("accumulationAndReplicationReductionType", chosen)


def _mean_strategy(options):
    chosen = options.Training.meanAccumulationAndReplicationReductionStrategy
    return options._Popart.options.get("meanAccumulationAndReplicationReductionStrategy", chosen)


def input_grouping(options):
    """Kind of groups, replicas of a group, and False: the host gives one input per group."""
    if options.input_group_size == 1:
        return CommGroupType.NoGrouping.value, 1, False
    return CommGroupType(options.input_cgt).value, options.input_group_size, False


def _execution(strategy):
    if strategy._is_phased:
        return "phased"
    return "sharded" if isinstance(strategy, ShardedExecution) else "pipelined"


def _recompute(kind, strategy, ipus):
    """By default a pipeline computes the activations of its stages again; elsewhere that must be asked for."""
    is_pipeline = strategy._is_pipelined and len(set(ipus)) > 1
    if kind is None or kind == _PIPELINE or (kind == _STANDARD and is_pipeline):
        return "stages"
    return "all" if kind in (_STANDARD, _RECOMPUTE_ALL) else "nothing"


def _phases(strategy, locations):
    if not strategy._is_phased:
        return {}
    liveness = Liveness(strategy._liveness)
    on_chip = _setting(locations, "activation").get("onChip")
    if on_chip == 1:
        liveness = Liveness.AlwaysLive
    elif on_chip == 0 and liveness == Liveness.AlwaysLive:
        liveness = Liveness.OffChipAfterFwd
    return {"liveness": _LIVENESS[liveness], "separate_backward_phase": strategy._separate_backward_phase}


def _setting(locations, kind):
    return locations(f"location_{kind}") if locations.exists(f"location_{kind}") else {}


def _locations(strategy, locations):
    """What phases do not need is kept off the device between them, unless the options say otherwise."""
    phased = strategy._is_phased
    activations_off = phased and _phases(strategy, locations)["liveness"] != "always"
    return {
        "weights": _location(_setting(locations, "weight"), phased),
        "optimizer_state": _location(_setting(locations, "optimizer"), phased),
        "accumulators": _location(_setting(locations, "accumulator"), phased),
        "activations": _location(_setting(locations, "activation"), activations_off),
    }


def _location(setting, off_device):
    location = {
        "off_device": not setting["onChip"] if "onChip" in setting else off_device,
        "sharded": bool(setting.get("useReplicatedTensorSharding", 0)),
    }
    for key, name in (
        ("minElementsForOffChip", "min_elements"),
        ("minElementsForReplicatedTensorSharding", "min_shard_elements"),
    ):
        if key in setting:
            location[name] = setting[key]
    return location
