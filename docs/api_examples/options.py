"""Examples of docs/api.md: what a program chooses."""
import os
import pathlib

import torch

import poptorch

from .example import example, section

section("Options")


@example("Options")
def _(model):
    options = poptorch.Options()
    options.deviceIterations(10).randomSeed(42)  # setters return the options
    options.Training.gradientAccumulation(4)
    classifier = poptorch.inferenceModel(model, poptorch.Options().deviceIterations(10))
    assert classifier.options.device_iterations == options.device_iterations


@example("Options.deviceIterations")
def _(model, x):
    classifier = poptorch.inferenceModel(model, poptorch.Options().deviceIterations(4))
    assert classifier(x).shape == (16, 3)  # four micro-batches of 4 rows, in one call


@example("Options.replicationFactor", "Options.useIpuModel")
def _(model, x):
    options = poptorch.Options().replicationFactor(2).useIpuModel(True)
    assert poptorch.inferenceModel(model, options)(x).shape == (16, 3)  # 8 rows for each replica


@example("Options.inputReplicaGrouping", "CommGroupType")
def _(model, x):
    options = poptorch.Options().replicationFactor(4)
    options.inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)  # replicas 0 and 1 see the same input
    poptorch.inferenceModel(model, options)(x)  # 8 rows for each of the two groups


@example("Options.broadcastBuffers")
def _():
    options = poptorch.Options().replicationFactor(2)
    options.broadcastBuffers(False)  # each replica has buffers of its own, and may write them


@example("Options.outputMode", "Options.defaultOutputMode", "OutputMode")
def _(model, x):
    options = poptorch.Options().deviceIterations(4)
    assert options.defaultOutputMode()  # Final for training, All for inference
    options.outputMode(poptorch.OutputMode.EveryN, 2)
    assert poptorch.inferenceModel(model, options)(x).shape == (8, 3)  # of micro-batches 2 and 4


@example("Options.setAvailableMemoryProportion")
def _():
    poptorch.Options().setAvailableMemoryProportion({"IPU0": 0.2, "IPU1": 0.4})


@example("Options.setMemoryBudget")
def _(model, x, labels):
    options = poptorch.Options().setMemoryBudget("8K")  # ASPEN_MEMORY_BUDGET=8K does the same
    poptorch.trainingModel(model, options)(x, labels)
    tight = poptorch.Options().setMemoryBudget({"IPU0": 100})
    try:
        poptorch.trainingModel(model, tight).compile(x, labels)
    except poptorch.Error as error:
        print(error)  # a table of the memory, and what each remedy would save


@example("Options.autoRoundNumIPUs")
def _():
    poptorch.Options().autoRoundNumIPUs(True)  # a model on 3 devices takes 4


@example("Options.useIpuId", "Options.connectionType", "ConnectionType")
def _(model, x):
    options = poptorch.Options().useIpuId(1)
    options.connectionType(poptorch.ConnectionType.OnDemand)  # attach at the first call
    poptorch.inferenceModel(model, options)(x)


@example("Options.useOfflineIpuTarget")
def _(model, x):
    classifier = poptorch.inferenceModel(model, poptorch.Options().useOfflineIpuTarget())
    classifier.compile(x)  # but it cannot be called
    assert not classifier.isAttachedToDevice()


@example("Options.syncPattern", "SyncPattern")
def _():
    poptorch.Options().syncPattern(poptorch.SyncPattern.SinglePipeline)


@example("Options.randomSeed")
def _(x):
    options = poptorch.Options().randomSeed(42)
    results = [poptorch.inferenceModel(torch.nn.Dropout().train(), options)(x) for _ in range(2)]
    assert torch.equal(*results)


@example("Options.enableStableNorm")
def _():
    poptorch.Options().enableStableNorm(True)


@example("Options.logDir", "Options.maxRepeatLogs", "Options.modelName")
def _(folder):
    poptorch.Options().modelName("classifier").logDir(folder).maxRepeatLogs(3)


@example("Options.showCompilationProgressBar", "Options.disableModuleNamescope", "Options.relaxOptimizerAttributesChecks")
def _():
    poptorch.Options().showCompilationProgressBar(False).disableModuleNamescope().relaxOptimizerAttributesChecks()


@example("Options.sourceLocationExcludes", "Options.appendToLocationExcludes")
def _():
    options = poptorch.Options().sourceLocationExcludes(["site-packages"])
    options.appendToLocationExcludes("layers.py")  # the line of the caller is the more interesting one


@example("Options.setExecutionStrategy")
def _():
    poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())


@example("Options.loadFromFile", "ConfigFileError")
def _(folder):
    file = pathlib.Path(folder, "options.config")
    file.write_text("deviceIterations(5)\nTraining.gradientAccumulation(8)\n")
    options = poptorch.Options().loadFromFile(file)
    assert options.device_iterations == 5 and options.Training.gradient_accumulation == 8
    file.write_text("deviceIterations(5\n")
    try:
        poptorch.Options().loadFromFile(file)
    except poptorch.ConfigFileError as error:
        print(error)  # with file and line


@example("Options.from_json")
def _():
    options = poptorch.Options().from_json('{"deviceIterations": 5, "Training.gradientAccumulation": 8}')
    assert options.device_iterations == 5 and options.Training.gradient_accumulation == 8


@example("Options.clone", "Options.is_frozen")
def _(model):
    options = poptorch.Options()
    poptorch.inferenceModel(model, options)
    assert options.is_frozen  # the model is wrapped with these
    options.clone().deviceIterations(3)


@example("Options.set", "Options.createOrSet", "Options.exists", "Options.deleteIfExists", "Options.toDict")
def _():
    options = poptorch.Options()
    options.set(device_iterations=3)
    options.createOrSet(random_seed=1)
    assert options.exists("random_seed")
    options.deleteIfExists("random_seed")
    options.outputMode(poptorch.OutputMode.All)
    assert options.toDict()["device_iterations"] == 3


@example(
    "Options.Training",
    "Options.Training.gradientAccumulation",
    "Options.Training.accumulationAndReplicationReductionType",
    "Options.Training.setMeanAccumulationAndReplicationReductionStrategy",
    "ReductionType",
    "MeanReductionStrategy",
)
def _(model, x, labels):
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Mean)
    options.Training.setMeanAccumulationAndReplicationReductionStrategy(poptorch.MeanReductionStrategy.Running)
    trainer = poptorch.trainingModel(model, options)
    trainer(x, labels)  # four micro-batches, one update


@example("Options.Precision.enableBFloat16Products")
def _(model, x, labels):
    options = poptorch.Options()
    options.Precision.enableBFloat16Products(True)
    trainer = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.01))
    print(trainer(x, labels)[1])


@example("Options.Training.setAutomaticLossScaling", "Options.Precision.enableStochasticRounding",
         "Options.Precision.setPartialsType")
def _(model, x, labels):
    options = poptorch.Options()
    options.Training.setAutomaticLossScaling(True)
    options.Precision.enableStochasticRounding(True)
    options.Precision.setPartialsType(torch.half)
    optimizer = poptorch.optim.AdamW(model.half().parameters(), lr=1e-3, loss_scaling=128, accum_type=torch.float16)
    trainer = poptorch.trainingModel(model, options, optimizer)
    trainer(x.half(), labels)
    print(optimizer.state_dict()["ipu_state"]["lossScaleUpdateFactor"])


@example("Options.Training.setConvolutionDithering")
def _():
    poptorch.Options().Training.setConvolutionDithering(True)


@example("Options.Precision", "Options.Precision.enableFloatingPointExceptions")
def _(x):
    class Logarithm(torch.nn.Module):
        def forward(self, x):
            return x.abs().log()

    options = poptorch.Options()
    options.Precision.enableFloatingPointExceptions(True)
    logarithm = poptorch.inferenceModel(Logarithm(), options)
    logarithm(x)
    try:
        logarithm(torch.zeros_like(x))
    except poptorch.Error as error:
        print(error)  # with the op and its line


@example("Options.TensorLocations", "TensorLocationSettings", "Options.TensorLocations.setOptimizerLocation",
         "TensorLocationSettings.useOnChipStorage")
def _(model, x, labels):
    options = poptorch.Options()
    off_chip = poptorch.TensorLocationSettings().useOnChipStorage(False)
    options.TensorLocations.setOptimizerLocation(off_chip)
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=1e-3)
    poptorch.trainingModel(model, options, optimizer)(x, labels)  # moments come to the device for the update only


@example(
    "Options.TensorLocations.setWeightLocation",
    "Options.TensorLocations.setAccumulatorLocation",
    "Options.TensorLocations.setActivationLocation",
    "TensorLocationSettings.minElementsForOffChip",
    "TensorLocationSettings.useReplicatedTensorSharding",
    "TensorLocationSettings.minElementsForReplicatedTensorSharding",
)
def _():
    locations = poptorch.Options().TensorLocations
    locations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(100))
    locations.setActivationLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))
    sharded = poptorch.TensorLocationSettings().useReplicatedTensorSharding(True)
    locations.setAccumulatorLocation(sharded.minElementsForReplicatedTensorSharding(1000))


@example("Options.TensorLocations.numIOTiles", "TensorLocationSettings.useIOTilesToLoad",
         "TensorLocationSettings.useIOTilesToStore")
def _():
    options = poptorch.Options()
    options.TensorLocations.numIOTiles(64)
    poptorch.TensorLocationSettings().useIOTilesToLoad(True).useIOTilesToStore(True)


@example("Options.Distributed", "Options.Distributed.configureProcessId", "Options.Distributed.numProcesses",
         "Options.Distributed.processId", "Options.Distributed.disable")
def _():
    options = poptorch.Options()
    options.Distributed.configureProcessId(1, 4)  # a DataLoader reads the second quarter
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (1, 4)
    options.Distributed.disable()


@example("Options.Distributed.setEnvVarNames")
def _():
    os.environ.update(MY_COUNT="2", MY_RANK="1")
    options = poptorch.Options()
    options.Distributed.setEnvVarNames("MY_COUNT", "MY_RANK")
    assert options.Distributed.processId == 1


@example("Options._Popart", "Options._Popart.set", "Options._Popart.options", "Options._Popart.setPatterns",
         "Options._Popart.setEngineOptions")
def _():
    options = poptorch.Options()
    options._Popart.set("enableStableNorm", True)
    options._Popart.setPatterns({"OpToIdentity": True})
    options._Popart.setEngineOptions({"debug.allowOutOfMemory": "true"})
    assert options._Popart.options["enableStableNorm"]


@example("Options.Jit", "Options.Jit.traceModel", "Options.Precision.halfFloatCasting", "HalfFloatCastingBehavior",
         "Options.Precision.runningStatisticsAlwaysFloat")
def _():
    options = poptorch.Options()  # kept for old programs: each warns and changes nothing
    options.Jit.traceModel(False)
    options.Precision.halfFloatCasting(poptorch.HalfFloatCastingBehavior.HalfUpcastToFloat)
    options.Precision.runningStatisticsAlwaysFloat(True)
