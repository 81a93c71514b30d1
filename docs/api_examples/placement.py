"""Examples of docs/api.md: strategies, blocks and scopes."""
import torch

import poptorch

from .example import example, section

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


@example("AutoPipeline", "AutoPipeline.stage", "PoplarExecutor.stageBlocks")
def _(model, x, labels):
    options = poptorch.Options().setExecutionStrategy(poptorch.AutoPipeline(num_ipus=2))
    options.Training.gradientAccumulation(4)
    trainer = poptorch.trainingModel(model, options)
    trainer(x, labels)
    print(trainer.stageBlocks())  # poptorch.BeginBlock(model.layer2, ipu_id=1)


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
