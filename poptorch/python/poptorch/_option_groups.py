"""The groups of poptorch.Options: Training, Precision, TensorLocations, Distributed, Jit and _Popart."""

import os

import torch

from ._logging import logger
from ._options_dict import OptionsDict
from .enums import MeanReductionStrategy, ReductionType


class _PopartOptions(OptionsDict):
    """Settings passed to the compiler by name; they are checked when a model is compiled (_popart_keys.py)."""

    def __init__(self):
        super().__init__(instrumentWithHardwareCycleCounter=False, rearrangeAnchorsOnHost=False)

    @property
    def options(self):
        return self._values

    def set(self, key, value):  # pylint: disable=arguments-differ
        self._check_not_frozen()
        self._values[key] = value
        return self

    def _assign(self, name, value):
        raise AttributeError(f'_Popart has no attribute {name}; write _Popart.set("{name}", value)')

    def setEngineOptions(self, engine_options):
        return self.set("engineOptions", engine_options)

    def setPatterns(self, patterns, level=2):
        """Switches graph patterns on and off by name: a scheduling hint."""
        if not isinstance(patterns, dict):
            raise AssertionError(f"patterns must be a dict, not {type(patterns).__name__}")
        if not isinstance(level, int):
            raise AssertionError(f"level must be an int, not {type(level).__name__}")
        for name, enabled in patterns.items():
            if not isinstance(name, str):
                raise AssertionError(f"The name of a pattern must be a str, not {name!r}")
            if not isinstance(enabled, bool):
                raise AssertionError(f"The value of pattern {name} must be a bool, not {enabled!r}")
        self.set("patterns_level", level)
        return self.set("patterns", dict(patterns))

    def __repr__(self):
        return f"_Popart({', '.join(self._entries())})"


class _JitOptions(OptionsDict):
    """Only the deprecated choice of a front end."""

    def traceModel(self, trace_model):
        self._check_not_frozen()
        if trace_model:
            raise ValueError("Tracing models is not available: models are captured while they are dispatched")
        logger.warning("Jit.traceModel is deprecated: models are always captured while they are dispatched")
        return self


class _PrecisionOptions(OptionsDict):
    """Number formats and floating-point behaviour of the device."""

    def __init__(self, popart_options):
        super().__init__()
        self._init_attributes(_popart=popart_options)

    def enableFloatingPointExceptions(self, exceptions_on):
        self._check_not_frozen()
        if not isinstance(exceptions_on, bool):
            raise AssertionError(f"enableFloatingPointExceptions expects a bool, not {exceptions_on!r}")
        self._popart.set("enableFloatingPointChecks", exceptions_on)
        return self

    def enableStochasticRounding(self, use_stochastic_rounding):
        self._check_not_frozen()
        self._popart.set("enableStochasticRounding", bool(use_stochastic_rounding))
        return self

    def setPartialsType(self, dtype):
        """The type in which matrix products and convolutions accumulate."""
        self._check_not_frozen()
        if dtype not in (torch.float32, torch.float16):
            raise ValueError(f"The partials type must be torch.float or torch.half, not {dtype}")
        name = "half" if dtype is torch.float16 else "float"
        self._popart.set("partialsTypeMatMuls", name)
        self._popart.set("convolutionOptions", {"partialsType": name})
        return self

    def halfFloatCasting(self, half_float_casting):
        self._check_not_frozen()
        logger.warning(
            "Precision.halfFloatCasting(%s) is deprecated and changes nothing: types promote as in PyTorch",
            half_float_casting,
        )
        return self

    def runningStatisticsAlwaysFloat(self, value):
        self._check_not_frozen()
        if not isinstance(value, bool):
            raise ValueError(f"runningStatisticsAlwaysFloat expects a bool, not {value!r}")
        logger.warning(
            "Precision.runningStatisticsAlwaysFloat is deprecated and changes nothing: "
            "cast the running statistics of the layer instead"
        )
        return self


class _TrainingOptions(OptionsDict):
    """How gradients are accumulated and reduced."""

    def __init__(self, popart_options):
        super().__init__(
            gradient_accumulation=1,
            accumulation_and_replication_reduction_type=ReductionType.Mean,
            meanAccumulationAndReplicationReductionStrategy=MeanReductionStrategy.Post,
        )
        self._init_attributes(_popart=popart_options)

    def gradientAccumulation(self, gradient_accumulation):
        self.set(gradient_accumulation=gradient_accumulation)
        return self

    def accumulationAndReplicationReductionType(self, reduction_type):
        self._check_not_frozen()
        if reduction_type not in (ReductionType.Sum, ReductionType.Mean) or not isinstance(
            reduction_type, ReductionType
        ):
            raise ValueError(
                f"The reduction of gradients must be ReductionType.Mean or ReductionType.Sum, not {reduction_type!r}"
            )
        return self.set(accumulation_and_replication_reduction_type=reduction_type)

    def setMeanAccumulationAndReplicationReductionStrategy(self, mean_reduction_strategy):
        self._check_not_frozen()
        if not isinstance(mean_reduction_strategy, MeanReductionStrategy):
            raise ValueError(f"Expected a MeanReductionStrategy, not {mean_reduction_strategy!r}")
        return self.set(meanAccumulationAndReplicationReductionStrategy=mean_reduction_strategy)

    def setAutomaticLossScaling(self, enabled):
        self._check_not_frozen()
        self._popart.set("automaticLossScalingSettings.enabled", bool(enabled))
        return self

    def setConvolutionDithering(self, enabled):
        self._check_not_frozen()
        if not isinstance(enabled, bool):
            raise AssertionError(f"setConvolutionDithering expects a bool, not {enabled!r}")
        self._popart.set("convolutionOptions", {"enableConvDithering": enabled})
        return self


class TensorLocationSettings(OptionsDict):
    """Where one kind of tensors is kept: given to the setters of opts.TensorLocations."""

    def useOnChipStorage(self, use_on_chip_storage=True):
        if use_on_chip_storage is None:
            return self.deleteIfExists("onChip")
        if not isinstance(use_on_chip_storage, bool):
            raise AssertionError(f"useOnChipStorage expects a bool, not {use_on_chip_storage!r}")
        return self.createOrSet(onChip=int(use_on_chip_storage))

    def _flag(self, name, value):
        if not isinstance(value, bool):
            raise AssertionError(f"{name} expects a bool, not {value!r}")
        return self.createOrSet(**{name: int(value)})

    def _minimum(self, name, value):
        if not isinstance(value, int):
            raise AssertionError(f"{name} expects an int, not {value!r}")
        return self.createOrSet(**{name: value})

    def useReplicatedTensorSharding(self, use_rts=True):
        return self._flag("useReplicatedTensorSharding", use_rts)

    def useIOTilesToLoad(self, use_io_tiles=True):
        return self._flag("useIOTilesToLoad", use_io_tiles)

    def useIOTilesToStore(self, use_io_tiles=True):
        return self._flag("useIOTilesToStore", use_io_tiles)

    def minElementsForOffChip(self, min_elements):
        return self._minimum("minElementsForOffChip", min_elements)

    def minElementsForReplicatedTensorSharding(self, min_elements):
        return self._minimum("minElementsForReplicatedTensorSharding", min_elements)


class _TensorLocationOptions(OptionsDict):
    """Where activations, weights, optimiser state and accumulators are kept."""

    def numIOTiles(self, num_tiles):
        if not isinstance(num_tiles, int):
            raise AssertionError(f"numIOTiles expects an int, not {num_tiles!r}")
        if num_tiles % 2 != 0 or not 32 <= num_tiles <= 192:
            raise AssertionError(f"numIOTiles must be an even number from 32 to 192, not {num_tiles}")
        return self.createOrSet(numIOTiles=num_tiles)

    def _location(self, kind, location):
        if not isinstance(location, TensorLocationSettings):
            raise AssertionError(
                f"The location of {kind} tensors must be a poptorch.TensorLocationSettings, not {location!r}"
            )
        return self.createOrSet(**{f"location_{kind}": location.toDict()})

    def setActivationLocation(self, location):
        return self._location("activation", location)

    def setWeightLocation(self, location):
        return self._location("weight", location)

    def setOptimizerLocation(self, location):
        return self._location("optimizer", location)

    def setAccumulatorLocation(self, location):
        return self._location("accumulator", location)


class _DistributedOptions(OptionsDict):
    """Which of several processes this one is."""

    def __init__(self):
        super().__init__(num_distributed_processes=1, distributed_process_id=0, ipuof_configs={})
        self.setEnvVarNames("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")

    def disable(self):
        return self.configureProcessId(0, 1)

    def setEnvVarNames(self, var_num_processes, var_process_id):
        """Reads the two variables now; a variable that is not set means one process, number 0."""
        return self.configureProcessId(
            int(os.environ.get(var_process_id, "0")), int(os.environ.get(var_num_processes, "1"))
        )

    def configureProcessId(self, process_id, num_processes):
        return self.set(distributed_process_id=process_id, num_distributed_processes=num_processes)

    @property
    def processId(self):
        return self.distributed_process_id

    @property
    def numProcesses(self):
        return self.num_distributed_processes
