"""Checks of opts._Popart, made when a model is compiled: known keys and the kind of value each of them takes."""

import difflib

from .errors import createPoptorchError

_BOOL = """aliasZeroCopy automaticLossScalingSettings.enabled batchSerializationSettings.concatOnVirtualGraphChange
batchSerializationSettings.concatOnExecutionPhaseChange batchSerializationSettings.concatOnPipelineStageChange
compileEngine constantWeights decomposeGradSum delayVarUpdates disableGradAccumulationTensorStreams
disableOptimizerStateTensorStreams dotOpNames enableDistributedReplicatedGraphs enableEngineCaching enableExplicitIR
enableExplicitMainLoops enableFloatingPointChecks enableFullyConnectedPass enableGradientAccumulation
enableInplaceAmbiguityChecking enableLoadAndOffloadRNGState enableMergeExchange enableNonStableSoftmax enableOutlining
enableOutliningCopyCostPruning enablePipelining enablePrefetchDatastreams enableReplicatedGraphs
enableSerializedMatmuls enableStableNorm enableStochasticRounding enableSupportedDataTypeCasting
ensureFp32LossScaleTensor explicitRecomputation exportPoplarComputationGraph exportPoplarVertexGraph groupHostSync
groupNormStridedChannelGrouping instrumentWithHardwareCycleCounter opxAliasChecking opxModifyChecking
rearrangeAnchorsOnHost rearrangeStreamsOnHost replicatedCollectivesSettings.prepareScheduleForMergingCollectives
replicatedCollectivesSettings.mergeAllReduceCollectives scheduleNonWeightUpdateGradientConsumersEarly
separateCallOpPdfs strictOpVersions useHostCopyOps""".split()

_INT = """accumulationFactor automaticLossScalingSettings.updatePeriod batchSerializationSettings.factor
compilationProgressTotal defaultBufferingDepth defaultPrefetchBufferingDepth executionPhaseSettings.phases
executionPhaseSettings.stages finalDotOp firstDotOp globalReplicaOffset globalReplicationFactor looseThresholdAtPeak
mergeVarUpdateMemThreshold numIOTiles swapLimitScheduler transitiveClosureOptimizationThreshold
patterns_level""".split()

# Number of members of each enumeration; values are 0 .. n - 1.
_ENUM = {
    "autoRecomputation": 5,
    "syntheticDataMode": 4,
    "virtualGraphMode": 4,
    "subgraphCopyingStrategy": 2,
    "mergeVarUpdate": 4,
    "accumulateOuterFragmentSettings.schedule": 4,
    "batchSerializationSettings.transformContext": 3,
    "batchSerializationSettings.method": 3,
    "batchSerializationSettings.batchSchedule": 4,
    "autodiffSettings.stitchStrategy": 5,
    "automaticLossScalingSettings.gradientTensorTrackingMethod": 3,
    "accumulationAndReplicationReductionType": 3,
    "meanAccumulationAndReplicationReductionStrategy": 3,
}

_FLOAT = """outlineSequenceBreakCost outlineThreshold timeLimitScheduler
automaticLossScalingSettings.thresholdUpperCountProportion automaticLossScalingSettings.binEdgeLocation""".split()

_STR = """cachePath customCodeletCompileFlags kahnTieBreaker logDir partialsTypeMatMuls saveInitializersToFile
serializedPoprithmsShiftGraphsDir""".split()

_LIST = """accumulateOuterFragmentSettings.excludedVirtualGraphs customCodelets dotChecks hardwareInstrumentations
updatableNamedBuffers""".split()

_DICT = "engineOptions reportOptions convolutionOptions matmulOptions lstmOptions gclOptions patterns".split()


def _is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _is_strings(value):
    return isinstance(value, (list, tuple, set)) and all(isinstance(item, (str, int)) for item in value)


def _is_text_dict(value):
    return isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(item, (str, bool)) for key, item in value.items()
    )


_KINDS = [
    (_BOOL, "a bool", lambda value: isinstance(value, bool)),
    (_INT, "an int", _is_int),
    (_FLOAT, "a float", lambda value: _is_int(value) or isinstance(value, float)),
    (_STR, "a str", lambda value: isinstance(value, str)),
    (_LIST, "a list or set of str", _is_strings),
    (_DICT, "a dict of str", _is_text_dict),
]


def check(options):
    """options: the dictionary of opts._Popart. The first entry that is wrong is an Error."""
    for key, value in options.items():
        if key in _ENUM:
            if not _is_int(value) or not 0 <= value < _ENUM[key]:
                raise _wrong_value(key, value, f"an int from 0 to {_ENUM[key] - 1}")
            continue
        for keys, expected, accepts in _KINDS:
            if key in keys:
                if not accepts(value):
                    raise _wrong_value(key, value, expected)
                break
        else:
            raise _unknown(key)


def _wrong_value(key, value, expected):
    return createPoptorchError(f'[_Popart] option "{key}" has the value {value!r}; expected {expected}.')


def _unknown(key):
    known = [name for keys, _, _ in _KINDS for name in keys] + list(_ENUM)
    near = difflib.get_close_matches(key, known, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return createPoptorchError(f'[_Popart] unknown option "{key}".{hint}')
