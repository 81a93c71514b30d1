"""opts._Popart: settings of the compiler by name. Every key that programs use is known, with the kind of its value."""

import popart
import poptorch
import pytest
import torch
from poptorch import poptorch_core

from support.models import quiet

KEYS = {
    "bool": """aliasZeroCopy automaticLossScalingSettings.enabled batchSerializationSettings.concatOnVirtualGraphChange
        batchSerializationSettings.concatOnExecutionPhaseChange batchSerializationSettings.concatOnPipelineStageChange
        compileEngine constantWeights decomposeGradSum delayVarUpdates disableGradAccumulationTensorStreams
        disableOptimizerStateTensorStreams dotOpNames enableDistributedReplicatedGraphs enableEngineCaching
        enableExplicitIR enableExplicitMainLoops enableFloatingPointChecks enableFullyConnectedPass
        enableGradientAccumulation enableInplaceAmbiguityChecking enableLoadAndOffloadRNGState enableMergeExchange
        enableNonStableSoftmax enableOutlining enableOutliningCopyCostPruning enablePipelining
        enablePrefetchDatastreams enableReplicatedGraphs enableSerializedMatmuls enableStableNorm
        enableStochasticRounding enableSupportedDataTypeCasting ensureFp32LossScaleTensor explicitRecomputation
        exportPoplarComputationGraph exportPoplarVertexGraph groupHostSync groupNormStridedChannelGrouping
        instrumentWithHardwareCycleCounter opxAliasChecking opxModifyChecking rearrangeAnchorsOnHost
        rearrangeStreamsOnHost replicatedCollectivesSettings.prepareScheduleForMergingCollectives
        replicatedCollectivesSettings.mergeAllReduceCollectives scheduleNonWeightUpdateGradientConsumersEarly
        separateCallOpPdfs strictOpVersions useHostCopyOps""",
    "int": """accumulationFactor automaticLossScalingSettings.updatePeriod batchSerializationSettings.factor
        compilationProgressTotal defaultBufferingDepth defaultPrefetchBufferingDepth executionPhaseSettings.phases
        executionPhaseSettings.stages finalDotOp firstDotOp globalReplicaOffset globalReplicationFactor
        looseThresholdAtPeak mergeVarUpdateMemThreshold numIOTiles swapLimitScheduler
        transitiveClosureOptimizationThreshold""",
    "float": """outlineSequenceBreakCost outlineThreshold timeLimitScheduler
        automaticLossScalingSettings.thresholdUpperCountProportion automaticLossScalingSettings.binEdgeLocation""",
    "str": """cachePath customCodeletCompileFlags kahnTieBreaker logDir partialsTypeMatMuls saveInitializersToFile
        serializedPoprithmsShiftGraphsDir""",
    "list": """accumulateOuterFragmentSettings.excludedVirtualGraphs customCodelets dotChecks hardwareInstrumentations
        updatableNamedBuffers""",
    "dict": "engineOptions reportOptions convolutionOptions matmulOptions lstmOptions gclOptions",
}
# Values of each kind: that fit, that do not.
VALUES = {
    "bool": ([False], [1, "True", None]),
    "int": ([3], [1.5, "3", True]),
    "float": ([0.5, 1], ["0.5", [0.5]]),
    "str": (["text"], [3, ["text"]]),
    "list": ([["0", "1"], {"0"}], ["0", {"a": "b"}]),
    "dict": ([{"a": "b"}, {}], [["a"], "a", {"a": 3}, {1: "b"}]),
}
ENUMERATIONS = {
    "autoRecomputation": 5, "syntheticDataMode": 4, "virtualGraphMode": 4, "subgraphCopyingStrategy": 2,
    "mergeVarUpdate": 4, "accumulateOuterFragmentSettings.schedule": 4, "batchSerializationSettings.batchSchedule": 4,
    "accumulationAndReplicationReductionType": 3, "meanAccumulationAndReplicationReductionStrategy": 2,
}


def check(key, value):
    options = quiet()
    options._Popart.set(key, value)
    poptorch_core.check_options(options._store)  # what a compilation begins with


@pytest.mark.parametrize("kind", KEYS)
def test_every_key_takes_values_of_its_kind_and_no_others(kind):
    fitting, others = VALUES[kind]
    for key in KEYS[kind].split():
        for value in fitting:
            check(key, value)
        for value in others:
            with pytest.raises(poptorch.Error, match=f'option "{key}" has the value .*; expected '):
                check(key, value)


@pytest.mark.parametrize("key", ENUMERATIONS)
def test_enumerations_are_given_as_the_number_of_a_member(key):
    for member in range(ENUMERATIONS[key]):
        check(key, member)
    for wrong in (-1, 5, "0", 0.5):
        with pytest.raises(poptorch.Error, match=key):
            check(key, wrong)


MEMBERS = {
    "RecomputationType": (0, 1, 2, 3, 4), "SyntheticDataMode": (0, 1, 2, 3), "VirtualGraphMode": (0, 1, 2, 3),
    "SubgraphCopyingStrategy": (0, 1), "MergeVarUpdateType": (0, 1, 2, 3), "AccumulateOuterFragmentSchedule": (0, 1, 2, 3),
    "BatchSerializationBatchSchedule": (0, 1, 2, 3),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_enumerations_of_popart_have_the_numbers_of_the_keys(name):
    assert tuple(int(member) for member in getattr(popart, name)) == MEMBERS[name]


def test_names_that_programs_take_from_popart():
    assert popart.AccumulateOuterFragmentSchedule.OverlapMemoryOptimized == 3
    assert popart.SubgraphCopyingStrategy.JustInTime == 1
    assert popart.SyntheticDataMode.RandomNormal == 2
    assert popart.RecomputationType.RecomputeAll == 4 and popart.RecomputationType.Pipeline == 3


def test_unknown_keys_and_kinds_are_refused_when_a_model_is_compiled():
    options = quiet()
    options._Popart.set("enableOutlinig", True)  # nothing is said here
    executor = poptorch.inferenceModel(torch.nn.Linear(2, 2), options)
    with pytest.raises(poptorch.Error, match='unknown option "enableOutlinig"; close matches: "enableOutlining"'):
        executor(torch.zeros(1, 2))
    with pytest.raises(poptorch.Error, match="enableOutlining"):
        check("enableOutlining", object())


def test_the_dictionary_begins_with_two_settings():
    assert dict(poptorch.Options()._Popart.options) == {
        "instrumentWithHardwareCycleCounter": False, "rearrangeAnchorsOnHost": False}
    options = poptorch.Options()
    assert options._popart is options._Popart


def test_patterns_and_engine_options_are_stored():
    options = poptorch.Options()
    options._Popart.setPatterns({"TiedGather": True})
    assert options._Popart.options["patterns"] == {"TiedGather": True}
    assert options._Popart.options["patterns_level"] == 2
    options._Popart.setPatterns({}, level=0).setEngineOptions({"opt.useAutoloader": "true"})
    assert options._Popart.options["patterns_level"] == 0
    assert options._Popart.options["engineOptions"] == {"opt.useAutoloader": "true"}
    with pytest.raises(AssertionError):
        options._Popart.setPatterns({"TiedGather": True}, level="2")


# Those keys that mean something for results; the others are hints, of which tests/python/test_executor.py has some.
def test_the_accumulation_factor_through_popart():
    """accumulationFactor really accumulates: the rows of a call are two micro-batches."""
    options = quiet().outputMode(poptorch.OutputMode.All)
    options._Popart.set("accumulationFactor", 2)
    model = torch.nn.Linear(2, 2)
    seen = []

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = model

        def forward(self, x):
            seen.append(x.shape)
            return poptorch.identity_loss(self.fc(x), "mean")

    losses = poptorch.trainingModel(Net(), options)(torch.ones(6, 2))
    assert seen == [torch.Size([3, 2])] and losses.shape == (2,)


def test_checks_of_floats_through_popart():
    options = quiet()
    options._Popart.set("enableFloatingPointChecks", True)

    class Divides(torch.nn.Module):
        def forward(self, x):
            return 1 / x

    with pytest.raises(poptorch.Error, match="floating point exception"):
        poptorch.inferenceModel(Divides(), options)(torch.zeros(2))


def test_buffers_to_refresh_through_popart():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(1))

        def forward(self, x):
            return x * self.scale

    options = quiet()
    options._Popart.set("updatableNamedBuffers", ["scale"])
    model = Scaled()
    executor = poptorch.inferenceModel(model, options)
    executor(torch.ones(1))
    model.scale.fill_(5)
    executor.copyNamedBuffersToDevice()
    assert executor(torch.ones(1)).item() == 5
