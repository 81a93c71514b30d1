"""What the engine does not do yet. Options may ask for anything; a model that needs one of these does not compile."""

import json
import os

from . import _popart_keys
from ._compile_options import NORM_ONLY
from ._logging import logger
from .enums import MeanReductionStrategy
from .errors import createPoptorchError

_MEASURE_CALLS = "measure the time of a call from Python"
_REPORT_KEYS = ("autoReport.all", "autoReport.outputExecutionProfile")


def _refuse(what, supported, where="compile"):
    raise createPoptorchError(f"[{where}] {what} is not supported yet; {supported}.")


def check_options(options):
    """Raises an Error for the first option that the engine cannot honour."""
    popart = options._Popart.options
    _popart_keys.check(popart)
    _check_at_least_one("deviceIterations", options.device_iterations)
    _check_at_least_one("Training.gradientAccumulation", options.Training.gradient_accumulation)
    _check_devices(options)
    _check_reduction(options)
    if options.anchored_tensors:
        _refuse(
            f"Returning inner tensors ({', '.join(options.anchored_tensors)}) with anchorTensor",
            "return the tensors from forward instead",
        )
    if popart.get("enableStochasticRounding"):
        _refuse("Precision.enableStochasticRounding(True)", "results are rounded to nearest even")
    if popart.get("automaticLossScalingSettings.enabled"):
        _refuse("Training.setAutomaticLossScaling(True)", "give the optimiser a fixed loss_scaling")
    if popart.get("syntheticDataMode"):
        _refuse("enableSyntheticData(True)", "inputs always come from the host")
    if popart.get("enableEngineCaching"):
        _refuse(
            f"Caching executables (enableExecutableCaching or POPTORCH_CACHE_DIR: {popart.get('cachePath')})",
            "compile without a cache",
        )
    if popart.get("saveInitializersToFile"):
        _refuse("_Popart option saveInitializersToFile", "save model.state_dict() instead")
    if popart.get("instrumentWithHardwareCycleCounter"):
        _refuse("logCycleCount(True)", "virtual IPUs have no cycle counter; measure the time of a call")
    if popart.get("partialsTypeMatMuls") == "half":
        logger.warning("Precision.setPartialsType(torch.half): matrix products still accumulate in float32")
    if popart.get("autoRecomputation") == NORM_ONLY:
        logger.warning(
            "_Popart option autoRecomputation: NormOnly keeps all activations, because normalisations alone are not "
            "computed again; Pipeline and RecomputeAll save memory. Results are the same"
        )
    _check_profiling(popart)


def _check_at_least_one(name, value):
    if value < 1:
        raise createPoptorchError(f"[compile] {name} is {value}; expected at least 1.")


def _check_devices(options):
    _check_at_least_one("replicationFactor", options.replication_factor)
    if options.replication_factor % options.input_group_size != 0:
        raise createPoptorchError(
            f"[compile] the input group size {options.input_group_size} does not divide the replication factor "
            f"{options.replication_factor}; call inputReplicaGrouping after replicationFactor."
        )
    if options.Distributed.numProcesses > 1:
        _refuse(
            f"Training in {options.Distributed.numProcesses} processes",
            "use one process, or Distributed.disable()",
        )
    is_offline = options.exists("ipu_version")
    if is_offline and options.exists("use_model") and options.use_model:
        raise createPoptorchError("[compile] useOfflineIpuTarget cannot be combined with useIpuModel(True).")
    if options.exists("ipu_id") and is_offline:
        raise createPoptorchError("[compile] useOfflineIpuTarget cannot be combined with useIpuId.")


def _check_reduction(options):
    steps = options.Training.gradient_accumulation
    if options._Popart.options.get("accumulationFactor", steps) != steps:
        raise createPoptorchError(
            f"[compile] _Popart option accumulationFactor is {options._Popart.options['accumulationFactor']}, but "
            f"Training.gradientAccumulation is {steps}; use the latter alone."
        )
    if options.Training.meanAccumulationAndReplicationReductionStrategy == MeanReductionStrategy.PostAndLoss:
        raise createPoptorchError(
            "[compile] MeanReductionStrategy.PostAndLoss is no longer available; use Running or Post."
        )


def _check_profiling(popart):
    engine = dict(popart.get("engineOptions", {}))
    engine.update(json.loads(os.environ.get("POPLAR_ENGINE_OPTIONS") or "{}"))
    asked = [key for key in _REPORT_KEYS if str(engine.get(key, "false")).lower() == "true"]
    if asked:
        _refuse(
            f"Profiling ({', '.join(asked)} of enableProfiling or POPLAR_ENGINE_OPTIONS)",
            _MEASURE_CALLS,
        )


class UnavailableMembers:
    """Members of an executor that need something the engine does not do yet."""

    def save(self, filename, export_model=True, save_rng_state=True):
        _refuse("Saving a compiled model", "save model.state_dict() and compile the model again", "save")

    def compileAndExport(self, filename, *args, export_model=True, **kwargs):
        _refuse("Saving a compiled model", "save model.state_dict() and compile the model again", "compileAndExport")

    def loadExecutable(self, filename):
        _refuse("Loading a compiled model", "call the model, which compiles it", "loadExecutable")

    def getAnchoredTensor(self, short_name):
        if short_name not in self.options.anchored_tensors:
            raise AssertionError(f'No tensor was anchored as "{short_name}" with options.anchorTensor')
        _refuse("Returning inner tensors", "return them from forward", "getAnchoredTensor")

    def cycleCount(self):
        _refuse("Counting cycles", "measure the time of a call", "cycleCount")

    def getPerfCounters(self):
        _refuse("Timing transfers", _MEASURE_CALLS, "getPerfCounters")

    def getLatency(self):
        _refuse("Timing transfers", _MEASURE_CALLS, "getLatency")

    def getHostIpuLatency(self):
        _refuse("Timing transfers", _MEASURE_CALLS, "getHostIpuLatency")

    def getComputeLatency(self):
        _refuse("Timing transfers", _MEASURE_CALLS, "getComputeLatency")

    def getIpuHostLatency(self):
        _refuse("Timing transfers", _MEASURE_CALLS, "getIpuHostLatency")


def load(filename, edit_opts_fn=None):
    """A model from a file written by save."""
    _refuse("Loading a compiled model", "wrap the model, load its state_dict() and call it", "load")
