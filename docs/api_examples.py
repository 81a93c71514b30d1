"""The examples of docs/api.md. Each is the body of a function and runs as it stands; tests run them all.

An example may show several names that belong together. Its arguments are made afresh: `model`, `x` and `labels` as in
`fresh` below, and `folder`, an empty directory.
"""
import contextlib
import inspect
import io
import os
import pathlib
import textwrap

import torch

import poptorch

EXAMPLES = []  # (section, names, function)
_section = ""


def section(title):
    global _section
    _section = title


def example(*names):
    def keep(function):
        EXAMPLES.append((_section, names, function))
        return function

    return keep


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = torch.nn.Linear(4, 8)
        self.layer2 = torch.nn.Linear(8, 3)

    def forward(self, x, labels=None):
        x = self.layer2(self.layer1(x).relu())
        return x if labels is None else (x, torch.nn.functional.cross_entropy(x, labels))


def fresh():
    return {"model": Network(), "x": torch.randn(16, 4), "labels": torch.randint(0, 3, (16,))}


section("Models")


@example("trainingModel")
def _(model, x, labels):
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    trainer = poptorch.trainingModel(model, poptorch.Options(), optimizer)
    for _ in range(10):
        outputs, loss = trainer(x, labels)  # forward, backward and the update
    print(loss)


@example("inferenceModel")
def _(model, x):
    classifier = poptorch.inferenceModel(model)
    classes = classifier(x).argmax(1)
    assert torch.allclose(classifier(x), model(x), atol=1e-5)
    assert classes.shape == (16,)


@example("PoplarExecutor", "PoplarExecutor.model", "PoplarExecutor.options")
def _(model, x):
    classifier = poptorch.inferenceModel(model, poptorch.Options().deviceIterations(2))
    assert isinstance(classifier, poptorch.PoplarExecutor)
    assert classifier.options.device_iterations == 2
    assert classifier.layer1.in_features == 4  # attributes of the module


@example("PoplarExecutor.compile", "PoplarExecutor.isCompiled", "PoplarExecutor.compilationTime")
def _(model, x):
    classifier = poptorch.inferenceModel(model)
    classifier.compile(x)  # as the first call would
    assert classifier.isCompiled()
    print(classifier.compilationTime())


@example("PoplarExecutor.attachToDevice", "PoplarExecutor.detachFromDevice", "PoplarExecutor.isAttachedToDevice")
def _(model, x, labels):
    trainer = poptorch.trainingModel(model)
    trainer(x, labels)
    trainer.detachFromDevice()  # others may use it now
    assert not trainer.isAttachedToDevice()
    trainer.attachToDevice()
    trainer(x, labels)  # continues where it was


@example("PoplarExecutor.destroy")
def _(model, x):
    classifier = poptorch.inferenceModel(model)
    classifier(x)
    classifier.destroy()  # a program is for one shape of inputs ...
    assert classifier(x[:5]).shape == (5, 3)  # ... so this compiles another one


@example(
    "PoplarExecutor.copyWeightsToHost",
    "PoplarExecutor.copyWeightsToHostIfNeeded",
    "PoplarExecutor.copyWeightsToDevice",
    "PoplarExecutor.load_state_dict",
)
def _(model, x, labels):
    trainer = poptorch.trainingModel(model)
    trainer(x, labels)
    saved = {name: value.clone() for name, value in model.state_dict().items()}  # copied to the host by this look
    trainer(x, labels)
    assert trainer.copyWeightsToHostIfNeeded()  # rarely needed: a look at the module does the same
    trainer.load_state_dict(saved)  # into the module and to the device
    with torch.no_grad():
        model.layer2.bias.zero_()
    trainer.copyWeightsToDevice()  # after a change of the module's own tensors
    trainer.copyWeightsToHost()
    assert model.layer2.bias.abs().sum() == 0


@example("PoplarExecutor.copyNamedBuffersToDevice", "Options.updatableNamedBuffers")
def _():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(()))

        def forward(self, x):
            return x * self.scale

    scaled = Scaled()
    wrapped = poptorch.inferenceModel(scaled, poptorch.Options().updatableNamedBuffers(["scale"]))
    wrapped(torch.ones(2))
    wrapped.scale.fill_(3)
    wrapped.copyNamedBuffersToDevice()
    assert wrapped(torch.ones(2)).tolist() == [3, 3]


@example("PoplarExecutor.setOptimizer")
def _(model, x, labels):
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    trainer = poptorch.trainingModel(model, optimizer=optimizer)
    trainer(x, labels)
    optimizer.param_groups[0]["lr"] = 0.05
    trainer.setOptimizer(optimizer)  # from the next call on
    trainer(x, labels)


@example("PoplarExecutor.rng_state")
def _(x):
    dropout = poptorch.inferenceModel(torch.nn.Dropout(0.5).train())
    dropout(x)
    state = dropout.rng_state
    first = dropout(x)
    dropout.rng_state = state
    assert torch.equal(dropout(x), first)


@example("PoplarExecutor.getTensorNames", "PoplarExecutor.getAnchoredTensor", "Options.anchorTensor")
def _(model, x, labels):
    options = poptorch.Options()
    options.anchorTensor("gradient", "Gradient___layer1.weight")
    trainer = poptorch.trainingModel(model, options)
    trainer(x, labels)
    assert "Gradient___layer1.weight" in trainer.getTensorNames()
    assert trainer.getAnchoredTensor("gradient").shape == (8, 4)


@example("PoplarExecutor.getPerfCounters", "PoplarExecutor.getLatency", "PoplarExecutor.getHostIpuLatency",
         "PoplarExecutor.getComputeLatency", "PoplarExecutor.getIpuHostLatency")
def _(model, x):
    classifier = poptorch.inferenceModel(model, poptorch.Options().deviceIterations(4))
    classifier(x)
    counters = classifier.getPerfCounters()
    assert len(counters["input"][0]) == 4  # when each micro-batch was asked for
    smallest, largest, average = classifier.getLatency()
    assert 0 < smallest <= average <= largest
    print(classifier.getHostIpuLatency(), classifier.getComputeLatency(), classifier.getIpuHostLatency())


@example("PoplarExecutor.cycleCount", "Options.logCycleCount")
def _(model, x):
    classifier = poptorch.inferenceModel(model, poptorch.Options().logCycleCount(True))
    classifier(x)
    assert classifier.cycleCount() > 0


@example("Options.enableSyntheticData")
def _(model, x):
    classifier = poptorch.inferenceModel(model, poptorch.Options().enableSyntheticData(True))
    classifier(x)  # x gives shapes and types; nothing is transferred
    assert classifier.getLatency() == (0, 0, 0)


@example("PoplarExecutor.save", "PoplarExecutor.compileAndExport", "PoplarExecutor.loadExecutable", "load",
         "importPoptorchMetadataFromFile", "Options.enableExecutableCaching", "Options.enableProfiling")
def _(model, x, folder):
    classifier = poptorch.inferenceModel(model)
    classifier.compile(x)
    for refused in (
        lambda: classifier.save(f"{folder}/classifier.poptorch"),
        lambda: classifier.compileAndExport(f"{folder}/classifier.poptorch", x),
        lambda: classifier.loadExecutable(f"{folder}/classifier.poptorch"),
        lambda: poptorch.load(f"{folder}/classifier.poptorch"),
        lambda: poptorch.importPoptorchMetadataFromFile(f"{folder}/classifier.poptorch"),
        lambda: poptorch.inferenceModel(model, poptorch.Options().enableExecutableCaching(folder))(x),
        lambda: poptorch.inferenceModel(model, poptorch.Options().enableProfiling(folder))(x),
    ):
        try:
            refused()
        except poptorch.Error as error:
            print(error)  # says what to do meanwhile
        else:
            raise AssertionError("no longer refused: this example should use it")


@example("isRunningOnIpu")
def _(x):
    class Sees(torch.nn.Module):
        def forward(self, x):
            return x + 1 if poptorch.isRunningOnIpu() else x - 1

    assert torch.equal(poptorch.inferenceModel(Sees())(x), x + 1)
    assert torch.equal(Sees()(x), x - 1)


@example("ipuHardwareIsAvailable", "ipuHardwareVersion")
def _():
    if poptorch.ipuHardwareIsAvailable():
        print(poptorch.ipuHardwareVersion())


@example("registerPreCompileHook", "registerPostCompileHook")
def _(model, x):
    seen = []
    before = poptorch.registerPreCompileHook(lambda: seen.append("before"))
    after = poptorch.registerPostCompileHook(lambda: seen.append("after"))
    poptorch.inferenceModel(model)(x)
    before.remove()
    after.remove()
    assert seen == ["before", "after"]


@example("registerCustomArgParser", "ICustomArgParser", "ICustomArgParser.yieldTensors", "ICustomArgParser.reconstruct")
def _(x):
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    class PairParser(poptorch.ICustomArgParser):
        def yieldTensors(self, struct):
            yield struct.a
            yield struct.b

        def reconstruct(self, original_structure, tensor_iterator):
            return Pair(next(tensor_iterator), next(tensor_iterator))

    class Swap(torch.nn.Module):
        def forward(self, pair):
            return Pair(pair.b, pair.a + 1)

    poptorch.registerCustomArgParser(Pair, PairParser())
    result = poptorch.inferenceModel(Swap())(Pair(x, 2 * x))
    assert torch.equal(result.a, 2 * x) and torch.equal(result.b, x + 1)
    poptorch.registerCustomArgParser(Pair, None)


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


section("Strategies and placement")


class Blocks(torch.nn.Module):
    """Two layers, each in a block of its own."""

    def __init__(self):
        super().__init__()
        self.layer1 = poptorch.BeginBlock(torch.nn.Linear(4, 8), "first", ipu_id=0)
        self.layer2 = poptorch.BeginBlock(torch.nn.Linear(8, 3), "second", ipu_id=1)

    def forward(self, x, labels=None):
        x = self.layer2(self.layer1(x).relu())
        return x if labels is None else (x, torch.nn.functional.cross_entropy(x, labels))


@example("PipelinedExecution", "PipelinedExecution.stage", "AutoStage")
def _(x, labels):
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)  # at least the number of stages, twice for training
    options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
    poptorch.trainingModel(Blocks(), options)(x, labels)
    assert poptorch.PipelinedExecution("first", "second").stage("first").blocks == ["first"]


@example("ShardedExecution", "ShardedExecution.stage")
def _(x):
    options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())
    poptorch.inferenceModel(Blocks(), options)(x)  # one device after the other


@example("SerialPhasedExecution", "SerialPhasedExecution.phase", "SerialPhasedExecution.stage",
         "SerialPhasedExecution.setTensorsLiveness", "SerialPhasedExecution.useSeparateBackwardPhase", "Phase",
         "Phase.stage", "Phase.ipus", "Stage", "Stage.blocks", "Stage.ipu", "Liveness")
def _(x, labels):
    strategy = poptorch.SerialPhasedExecution(
        poptorch.Phase(poptorch.Stage("first")), poptorch.Phase(poptorch.Stage("second"))
    )
    strategy.phase(0).ipus(0)
    strategy.stage("second").ipu(0)
    strategy.setTensorsLiveness(poptorch.Liveness.OffChipAfterFwd)
    strategy.useSeparateBackwardPhase(True)
    assert strategy.phase(0).stage(0).blocks == ["first"]

    class Phased(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer1, self.layer2 = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)

        def forward(self, x, labels):
            with poptorch.Block("first"):
                x = self.layer1(x).relu()
            with poptorch.Block("second"):
                x = self.layer2(x)
                return x, torch.nn.functional.cross_entropy(x, labels)

    poptorch.trainingModel(Phased(), poptorch.Options().setExecutionStrategy(strategy))(x, labels)


@example("ParallelPhasedExecution", "ParallelPhasedExecution.phase", "ParallelPhasedExecution.stage",
         "ParallelPhasedExecution.sendTensorsOffChipAfterFwd", "ParallelPhasedExecution.useSeparateBackwardPhase")
def _():
    strategy = poptorch.ParallelPhasedExecution(
        poptorch.Phase(poptorch.Stage("a0"), poptorch.Stage("a1")),
        poptorch.Phase(poptorch.Stage("b0"), poptorch.Stage("b1")),
    )
    strategy.phase(0).ipus(0, 2)
    strategy.stage("b0").ipu(1)
    strategy.sendTensorsOffChipAfterFwd(True)
    strategy.useSeparateBackwardPhase(False)


@example("Block", "Block.start", "Block.useAutoId")
def _(x):
    class Sum(torch.nn.Module):
        def forward(self, x):
            with poptorch.Block("first", ipu_id=0):
                x = x + 1
            poptorch.Block.start("rest", ipu_id=1)  # up to the next block, or to the end
            return x * 2

    options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())
    assert torch.equal(poptorch.inferenceModel(Sum(), options)(x), (x + 1) * 2)
    poptorch.Block.useAutoId()  # blocks without a name are numbered from 0 again


@example("BeginBlock", "removeBlocks")
def _(model, x):
    poptorch.BeginBlock(model.layer2, "second", ipu_id=1)  # from this layer on
    options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())
    poptorch.inferenceModel(model, options)(x)
    poptorch.removeBlocks(model)


@example("BlockFunction")
def _(x):
    class Sum(torch.nn.Module):
        @poptorch.BlockFunction("sum", ipu_id=0)
        def forward(self, x):
            return x + 1

    assert torch.equal(poptorch.inferenceModel(Sum())(x), x + 1)


@example("BlockId")
def _():
    assert poptorch.BlockId is str  # what blocks are called by


@example("NameScope", "NameScope.name")
def _(x):
    class Named(torch.nn.Module):
        def forward(self, x):
            with poptorch.NameScope("shift") as scope:
                assert scope.name == "shift"
                return x + 1

    named = poptorch.inferenceModel(Named())
    named(x)


@example("Attribute", "Attribute.active")
def _(x):
    class Marked(torch.nn.Module):
        def forward(self, x):
            with poptorch.Attribute(__outline={"layer": "embedding"}):
                return x @ x.t()

    poptorch.inferenceModel(Marked())(x)


@example("MultiConv", "MultiConv.availableMemoryProportions", "MultiConv.partialsTypes", "MultiConv.planType",
         "MultiConv.perConvReservedTiles", "MultiConv.cycleBackOff", "MultiConv.enableConvDithering",
         "MultiConvPlanType")
def _():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Conv2d(1, 2, 3), torch.nn.Conv2d(1, 2, 3)

        def forward(self, x):
            together = poptorch.MultiConv().planType(poptorch.MultiConvPlanType.Parallel)
            together.availableMemoryProportions(0.2).partialsTypes(torch.float).perConvReservedTiles(100)
            together.cycleBackOff(0.3).enableConvDithering(True)
            with together:
                return self.a(x), self.b(x)

    poptorch.inferenceModel(Two())(torch.randn(1, 1, 8, 8))


@example("print", "module_repr")
def _():
    poptorch.print(Blocks())  # with the blocks
    assert "BeginBlock" in poptorch.module_repr(Blocks())


section("Ops")


@example("identity_loss")
def _(x):
    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))

        def forward(self, x):
            return poptorch.identity_loss((x * self.weight) ** 2, reduction="mean")  # any expression can be a loss

    poptorch.trainingModel(Loss())(x)


@example("ipu_print_tensor")
def _(x):
    class Shows(torch.nn.Module):
        def forward(self, x):
            y = poptorch.ipu_print_tensor(x[:2], "the first rows")
            return y + 1

    poptorch.inferenceModel(Shows())(x)


@example("nop", "recomputationCheckpoint", "set_available_memory", "serializedMatMul", "MatMulSerializationMode")
def _(x):
    class Hints(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 8))

        def forward(self, x):
            x = poptorch.recomputationCheckpoint(poptorch.nop(x))
            x = poptorch.set_available_memory(x @ self.weight, 0.1)
            mode = poptorch.MatMulSerializationMode.OutputChannels
            return poptorch.serializedMatMul(x, self.weight.t(), mode, factor=2)

    poptorch.inferenceModel(Hints())(x)


@example("for_loop")
def _(x):
    class Power(torch.nn.Module):
        def forward(self, x):
            return poptorch.for_loop(5, lambda y: [y * 1.5], [x])[0]

    torch.testing.assert_close(poptorch.inferenceModel(Power())(x), x * 1.5**5)


@example("cond")
def _(x):
    class Branch(torch.nn.Module):
        def forward(self, condition, x):
            return poptorch.cond(condition, lambda y: y + 1, [x], lambda y: y - 1, [x])[0]

    branch = poptorch.inferenceModel(Branch())
    assert torch.equal(branch(torch.tensor([False]), x), x - 1)


@example("dynamic_slice", "dynamic_update")
def _():
    class Window(torch.nn.Module):
        def forward(self, x, start):
            part = poptorch.dynamic_slice(x, 0, start, size=2, step=1)
            return poptorch.dynamic_update(x, part * 10, 0, start, size=2)

    result = poptorch.inferenceModel(Window())(torch.arange(5.0), torch.tensor([2]))
    assert result.tolist() == [0, 1, 20, 30, 4]


@example("set_overlap_for_input", "set_overlap_for_output", "OverlapMode")
def _(x):
    class Overlapped(torch.nn.Module):
        def forward(self, x):
            x = poptorch.set_overlap_for_input(x, poptorch.OverlapMode.OverlapAccumulationLoop)
            return poptorch.set_overlap_for_output(x + 1, poptorch.OverlapMode.OverlapAccumulationLoop)

    options = poptorch.Options().deviceIterations(4)
    options.TensorLocations.numIOTiles(32)
    options.setExecutionStrategy(poptorch.ShardedExecution())
    assert torch.equal(poptorch.inferenceModel(Overlapped(), options)(x), x + 1)


@example("CPU")
def _(x):
    class WithHost(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.sort = poptorch.CPU(lambda y: torch.sort(y, 0)[0], "sort")

        def forward(self, x):
            return self.sort(x + 1) * 2  # sorted by torch, in each micro-batch

    assert torch.equal(poptorch.inferenceModel(WithHost())(x), torch.sort(x + 1, 0)[0] * 2)


@example("custom_op", "accessAttributes")
def _(x):
    class Cubed(torch.nn.Module):
        def forward(self, x):
            return poptorch.custom_op([x], "Cube", "example.ops", 1, example_outputs=[x])[0]

    try:
        poptorch.inferenceModel(Cubed())(x)
    except poptorch.Error as error:  # torch.ops.load_library brings operators of one's own: see custom-ops.md
        print(error)
    assert poptorch.accessAttributes('{"alpha": 0.5}') == {"alpha": 0.5}


@example("ctc_beam_search_decoder")
def _():
    class Decoder(torch.nn.Module):
        def forward(self, log_probs, lengths):
            return poptorch.ctc_beam_search_decoder(log_probs, lengths, beam_width=4, top_paths=2)

    log_probs = torch.randn(6, 1, 3).log_softmax(-1)  # time, batch, classes
    scores, lengths, paths = poptorch.inferenceModel(Decoder())(log_probs, torch.tensor([6]))
    assert scores.shape == lengths.shape == (1, 2) and paths.shape == (1, 2, 6)


@example("fps", "nearest")
def _():
    class Sampled(torch.nn.Module):
        def forward(self, points):
            chosen = points[poptorch.fps(points, [0, 16], ratio=0.25)]  # 4 points far apart
            return poptorch.nearest(points, chosen)  # the one each point is closest to

    assert poptorch.inferenceModel(Sampled())(torch.randn(16, 3)).shape == (16,)


@example("getIpuTensorId")
def _(x):
    class Asks(torch.nn.Module):
        def forward(self, x):
            assert poptorch.getIpuTensorId(x) != poptorch.getIpuTensorId(x + 1)
            return x + 1

    poptorch.inferenceModel(Asks())(x)


section("Optimisers")


@example("optim.SGD")
def _(model, x, labels):
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, loss_scaling=128)
    poptorch.trainingModel(model, optimizer=optimizer)(x, labels)


@example("optim.Adam", "optim.AdamW", "optim.AdamW.step", "optim.RMSprop", "optim.LAMB", "optim.LAMB.step")
def _(x, labels):
    for kind in (poptorch.optim.Adam, poptorch.optim.AdamW, poptorch.optim.RMSprop, poptorch.optim.LAMB):
        model = Network()
        optimizer = kind(model.parameters(), lr=1e-3)
        poptorch.trainingModel(model, optimizer=optimizer)(x, labels)


@example("optim.Optimizer", "optim.Optimizer.state_dict", "optim.Optimizer.load_state_dict",
         "optim.Optimizer.ipu_state", "optim.Optimizer.ipu_param", "optim.Optimizer.has_state_to_upload")
def _(model, x, labels, folder):
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=1e-3)
    trainer = poptorch.trainingModel(model, optimizer=optimizer)
    trainer(x, labels)
    torch.save(optimizer.state_dict(), f"{folder}/optimizer.pt")  # the moments of the device, too
    assert isinstance(optimizer, poptorch.optim.Optimizer) and optimizer.ipu_param
    optimizer.load_state_dict(torch.load(f"{folder}/optimizer.pt"))
    assert optimizer.has_state_to_upload  # at the next call
    trainer(x, labels)


@example("optim.VariableAttributes", "optim.VariableAttributes.markAsConstant", "optim.VariableAttributes.markAsVariable",
         "optim.VariableAttributes.isConstant")
def _(model):
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01)
    optimizer.variable_attrs.markAsConstant("weight_decay")  # a part of the program
    assert optimizer.variable_attrs.isConstant("weight_decay")
    optimizer.variable_attrs.markAsVariable("momentum")


section("Data")


@example("DataLoader", "DataLoader.combinedBatchSize", "DataLoader.options")
def _(model):
    dataset = torch.utils.data.TensorDataset(torch.randn(100, 4), torch.randint(0, 3, (100,)))
    options = poptorch.Options().deviceIterations(5)
    loader = poptorch.DataLoader(options, dataset, batch_size=4, shuffle=True)
    assert loader.combinedBatchSize == 20  # what a call of the model takes
    trainer = poptorch.trainingModel(model, options)
    for x, labels in loader:
        trainer(x, labels)


@example("DataLoaderMode", "SharingStrategy", "DataLoader.terminate")
def _():
    dataset = torch.utils.data.TensorDataset(torch.arange(101))
    loader = poptorch.DataLoader(
        poptorch.Options(), dataset, batch_size=4, num_workers=2, mode=poptorch.DataLoaderMode.AsyncRebatched,
        async_options={"sharing_strategy": poptorch.SharingStrategy.Fork, "early_preload": True},
    )
    assert len(list(loader)) == 25
    loader.terminate()


@example("AsynchronousDataAccessor", "AsynchronousDataAccessor.terminate")
def _():
    dataset = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
    loader = poptorch.DataLoader(poptorch.Options(), dataset, batch_size=4)
    ahead = poptorch.AsynchronousDataAccessor(loader, sharing_strategy=poptorch.SharingStrategy.Fork)
    assert [item[0].sum().item() for item in ahead] == [6, 22]
    ahead.terminate()


section("Replicas, errors, the log")


@example("VariableRetrievalMode")
def _(x):
    class Shifted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = torch.nn.Parameter(torch.tensor([[0.0] * 4, [1.0] * 4]))  # one value for each replica

        def forward(self, x):
            return x + self.shift

    shifted = poptorch.inferenceModel(Shifted(), poptorch.Options().replicationFactor(2).useIpuModel(True))
    shifted.shift.replicaGrouping(poptorch.CommGroupType.NoGrouping, 0, poptorch.VariableRetrievalMode.OnePerGroup)
    assert torch.equal(shifted(x), torch.cat([x[:8], x[8:] + 1]))


@example("Error", "RecoverableError", "UnrecoverableError", "createPoptorchError")
def _(model, x):
    classifier = poptorch.inferenceModel(model)
    classifier(x)
    try:
        classifier(x[:3])
    except poptorch.Error as error:  # RecoverableError and UnrecoverableError are two of them: a device failed
        print(error.message, error.type, error.location)
    assert isinstance(poptorch.createPoptorchError("text"), poptorch.Error)


@example("setLogLevel")
def _():
    poptorch.setLogLevel("WARN")  # as POPTORCH_LOG_LEVEL does


@example("profiling.Channel", "profiling.Channel.tracepoint", "profiling.Channel.instrument")
def _():
    class Worker:
        def work(self):
            return 3

    channel = poptorch.profiling.Channel("program")
    worker = Worker()
    channel.instrument(worker, "work")
    with channel.tracepoint("all of it"):
        assert worker.work() == 3


def body_of(function):
    """The lines of an example."""
    lines = inspect.getsource(function).split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("def "))
    return textwrap.dedent("\n".join(lines[start + 1 :])).strip("\n")


def run(function, folder):
    given = {**fresh(), "folder": str(folder)}
    with contextlib.redirect_stdout(io.StringIO()):
        function(**{name: given[name] for name in inspect.signature(function).parameters})
