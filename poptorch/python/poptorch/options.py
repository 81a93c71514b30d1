"""poptorch.Options: everything a program may choose about how its models are compiled and run."""

import copy
import json
import os

import torch

from . import _options_text
from ._logging import logger
from ._option_groups import (
    TensorLocationSettings,
    _DistributedOptions,
    _JitOptions,
    _PopartOptions,
    _PrecisionOptions,
    _TensorLocationOptions,
    _TrainingOptions,
)
from ._options_dict import OptionsDict
from .poptorch_core import ExecutionStrategy, PipelinedExecution
from .enums import CommGroupType, ConnectionType, OutputMode, SyncPattern

__all__ = ["Options", "TensorLocationSettings"]

_PROFILING_OPTIONS = ("autoReport.all", "autoReport.directory", "debug.allowOutOfMemory")


class Options(OptionsDict):
    """Set through chained calls; read-only once a model or a data loader uses it. clone() gives a copy to change."""

    def __init__(self):
        super().__init__(
            replication_factor=1,
            input_group_size=1,
            input_cgt=CommGroupType.Consecutive,
            broadcast_buffers=True,
            device_iterations=1,
            log_dir=".",
            max_repeat_logs=4,
            auto_round_num_ipus=False,
            anchored_tensors={},
            output_mode=OutputMode.Default.value,
            output_return_period=1,
            connection_type=ConnectionType.Always.value,
            sync_pattern=SyncPattern.Full.value,
            available_memory_proportion={},
        )
        popart = _PopartOptions()
        self._init_attributes(
            _popart=popart,
            _distributed=_DistributedOptions(),
            _jit=_JitOptions(),
            _precision=_PrecisionOptions(popart),
            _tensor_locations=_TensorLocationOptions(),
            _training=_TrainingOptions(popart),
            _execution_strategy=PipelinedExecution(),
            _show_compilation_progress_bar=True,
            _module_namescope_enabled=True,
            _relax_optimizer_checks=False,
            _source_location_excludes=[os.path.dirname(torch.__file__), os.path.dirname(__file__)],
        )
        cache_dir = os.environ.get("POPTORCH_CACHE_DIR", "")
        if cache_dir:
            self.enableExecutableCaching(cache_dir)
        defaults = os.environ.get("POPTORCH_DEFAULT_OPTIONS", "")
        if defaults:
            self.from_json(defaults)

    # -- groups ---------------------------------------------------------------------------------------------------
    @property
    def Distributed(self):
        return self._distributed

    @property
    def Jit(self):
        return self._jit

    @property
    def Precision(self):
        return self._precision

    @property
    def TensorLocations(self):
        return self._tensor_locations

    @property
    def Training(self):
        return self._training

    @property
    def _Popart(self):
        return self._popart

    def _groups(self):
        return {
            "Distributed": self._distributed,
            "Jit": self._jit,
            "Precision": self._precision,
            "TensorLocations": self._tensor_locations,
            "Training": self._training,
            "_Popart": self._popart,
        }

    # -- batching and outputs -------------------------------------------------------------------------------------
    def deviceIterations(self, device_iterations):
        """Micro-batches (inference) or weight updates (training) that one call runs on the device."""
        return self.set(device_iterations=device_iterations)

    def replicationFactor(self, replication_factor):
        """Data-parallel copies of the model."""
        return self.set(replication_factor=replication_factor)

    def inputReplicaGrouping(self, input_group_size, input_group_type):
        """Replicas of one group receive the same input."""
        self._check_not_frozen()
        if input_group_type == CommGroupType.NoGrouping:
            input_group_size, input_group_type = 1, CommGroupType.Consecutive
        if input_group_type == CommGroupType.All:
            raise ValueError("Inputs cannot be grouped by CommGroupType.All; use Consecutive, Orthogonal or NoGrouping")
        replicas = self.replication_factor
        if input_group_size > replicas:
            raise ValueError(
                f"Input group size {input_group_size} exceeds the replication factor {replicas}; "
                "call replicationFactor first"
            )
        if replicas % input_group_size != 0:
            raise ValueError(f"Input group size {input_group_size} does not divide the replication factor {replicas}")
        return self.set(input_group_size=input_group_size, input_cgt=input_group_type)

    def broadcastBuffers(self, broadcast_buffers=True):
        return self.set(broadcast_buffers=broadcast_buffers)

    def outputMode(self, output_mode, output_return_period=None):
        """Which micro-batches of the outputs a call returns."""
        self._check_not_frozen()
        if not isinstance(output_mode, OutputMode):
            raise AssertionError(f"Expected a poptorch.OutputMode, not {output_mode!r}")
        if output_mode == OutputMode.EveryN:
            if not isinstance(output_return_period, int) or output_return_period <= 0:
                raise AssertionError(
                    f"OutputMode.EveryN needs a positive output_return_period, not {output_return_period!r}"
                )
        elif output_return_period is not None:
            logger.info("Ignoring output_return_period=%s: it only applies to OutputMode.EveryN", output_return_period)
            output_return_period = None
        return self.set(output_mode=output_mode.value, output_return_period=output_return_period or 1)

    def defaultOutputMode(self):
        return self.output_mode == OutputMode.Default

    def anchorTensor(self, short_name, long_name, output_mode=None, output_return_period=1):
        """Returns a tensor of the graph to the host after each call."""
        mode = None if output_mode is None else OutputMode(output_mode).value
        period = output_return_period if output_mode == OutputMode.EveryN else 1
        self.anchored_tensors[short_name] = [long_name, mode, period]

    # -- devices --------------------------------------------------------------------------------------------------
    def setExecutionStrategy(self, strategy):
        self._check_not_frozen()
        if not isinstance(strategy, ExecutionStrategy):
            raise AssertionError(f"Expected a strategy such as poptorch.PipelinedExecution(), not {strategy!r}")
        self._execution_strategy = strategy
        return self

    def setAvailableMemoryProportion(self, available_memory_proportion):
        self._check_not_frozen()
        proportions = {}
        for key, value in available_memory_proportion.items():
            if not isinstance(key, str) or not key.startswith("IPU") or not key[3:].isdigit():
                raise AssertionError(
                    f'Memory proportions are given per device as {{"IPU0": 0.2}}; {key!r} is not such a name'
                )
            proportions[int(key[3:])] = float(value)
        return self.set(available_memory_proportion=proportions)

    def autoRoundNumIPUs(self, auto_round_num_ipus=True):
        return self.set(auto_round_num_ipus=auto_round_num_ipus)

    def useIpuModel(self, use_model):
        return self.createOrSet(use_model=bool(use_model))

    def useIpuId(self, ipu_id):
        self._check_not_frozen()
        if not isinstance(ipu_id, int):
            raise AssertionError(f"useIpuId expects an int, not {ipu_id!r}")
        return self.createOrSet(ipu_id=ipu_id)

    def useOfflineIpuTarget(self, ipu_version=2):
        """Compiles without ever attaching to a device."""
        self.connectionType(ConnectionType.Never)
        return self.createOrSet(ipu_version=ipu_version)

    def connectionType(self, connection_type):
        self._check_not_frozen()
        if not isinstance(connection_type, ConnectionType):
            raise AssertionError(f"Expected a ConnectionType, not {connection_type!r}")
        return self.set(connection_type=connection_type.value)

    def syncPattern(self, sync_pattern):
        self._check_not_frozen()
        if not isinstance(sync_pattern, SyncPattern):
            raise AssertionError(f"Expected a SyncPattern, not {sync_pattern!r}")
        return self.set(sync_pattern=sync_pattern.value)

    # -- numbers --------------------------------------------------------------------------------------------------
    def randomSeed(self, random_seed):
        """Seeds the random ops of the device, and torch on the host."""
        self._check_not_frozen()
        if not isinstance(random_seed, int):
            raise AssertionError(f"randomSeed expects an int, not {random_seed!r}")
        torch.manual_seed(random_seed)
        return self.createOrSet(random_seed=random_seed)

    def enableStableNorm(self, enabled):
        return self._set_popart("enableStableNorm", bool(enabled))

    def enableSyntheticData(self, enabled):
        return self._set_popart("syntheticDataMode", 2 if enabled else 0)  # 2: random normal

    def _set_popart(self, key, value):
        self._popart.set(key, value)
        return self

    # -- caching, profiling, logs ---------------------------------------------------------------------------------
    def enableExecutableCaching(self, path):
        self._check_not_frozen()
        if path is None:
            self._popart.deleteIfExists("cachePath")
            return self._set_popart("enableEngineCaching", False)
        self._popart.set("cachePath", os.fspath(path))
        return self._set_popart("enableEngineCaching", True)

    def logCycleCount(self, log_cycle_count):
        return self._set_popart("instrumentWithHardwareCycleCounter", bool(log_cycle_count))

    def enableProfiling(self, profile_dir=None):
        self._check_not_frozen()
        wanted = dict(zip(_PROFILING_OPTIONS, ("true", profile_dir or ".", "true")))
        environment = json.loads(os.environ.get("POPLAR_ENGINE_OPTIONS") or "{}")
        for name in _PROFILING_OPTIONS:
            if name in environment:
                logger.warning(
                    "%s of POPLAR_ENGINE_OPTIONS overrides the value chosen by enableProfiling (%s)",
                    name,
                    wanted[name],
                )
        return self._set_popart("engineOptions", {**self._popart.options.get("engineOptions", {}), **wanted})

    def modelName(self, name):
        return self.createOrSet(model_name=name)

    def logDir(self, log_dir):
        return self.set(log_dir=log_dir)

    def maxRepeatLogs(self, max_lines):
        self._check_not_frozen()
        if max_lines is not None and not isinstance(max_lines, int):
            raise AssertionError(f"maxRepeatLogs expects an int or None: {max_lines!r}")
        self._values["max_repeat_logs"] = max_lines
        return self

    def showCompilationProgressBar(self, show=True):
        self._check_not_frozen()
        self._show_compilation_progress_bar = bool(show)
        return self

    def disableModuleNamescope(self):
        self._check_not_frozen()
        self._module_namescope_enabled = False
        return self

    def relaxOptimizerAttributesChecks(self, relax=True):
        self._check_not_frozen()
        self._relax_optimizer_checks = bool(relax)
        return self

    def updatableNamedBuffers(self, buffers):
        """Buffers that copyNamedBuffersToDevice may refresh."""
        return self._set_popart("updatableNamedBuffers", list(buffers))

    def sourceLocationExcludes(self, excludes):
        """Stack frames whose file contains one of these texts are not taken for user code."""
        self._check_not_frozen()
        self._source_location_excludes = list(excludes)
        return self

    def appendToLocationExcludes(self, *excludes):
        self._check_not_frozen()
        self._source_location_excludes = self._source_location_excludes + list(excludes)
        return self

    # -- text, copies ---------------------------------------------------------------------------------------------
    def loadFromFile(self, path):
        """Applies a file of statements, one per line, e.g. `Training.gradientAccumulation(8)`."""
        self._check_not_frozen()
        _options_text.load_file(self, path)
        return self

    def from_json(self, string):
        """Applies a JSON object that maps setters to their arguments."""
        self._check_not_frozen()
        _options_text.load_json(self, string)
        return self

    def clone(self):
        """A copy that is not frozen."""
        return copy.deepcopy(self)

    def toDict(self):
        """All settings in one flat dictionary. The output mode must have been chosen."""
        if self.defaultOutputMode():
            raise AssertionError("The output mode is still Default: it is chosen when a model is wrapped")
        flat = super().toDict()
        flat["execution_strategy"] = repr(self._execution_strategy)
        for name, group in self._groups().items():
            if name == "_Popart":
                flat.update({f"popart.{key}": value for key, value in group.toDict().items()})
            else:
                flat.update(group.toDict())
        return flat

    def __repr__(self):
        entries = self._entries()
        entries.append(f"execution_strategy={self._execution_strategy!r}")
        entries.append(f"show_compilation_progress_bar={self._show_compilation_progress_bar}")
        entries.append(f"module_namescope_enabled={self._module_namescope_enabled}")
        entries.append(f"relax_optimizer_checks={self._relax_optimizer_checks}")
        entries.append(f"source_location_excludes={self._source_location_excludes}")
        entries += [f"{name}={group!r}" for name, group in self._groups().items()]
        return "Options(\n  " + ",\n  ".join(entries) + "\n)"
