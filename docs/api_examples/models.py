"""Examples of docs/api.md: wrapping a model and running it."""
import os

import torch

import poptorch

from .example import example, section

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


@example("PoplarExecutor.memoryFootprint")
def _(model, x, labels):
    trainer = poptorch.trainingModel(model, poptorch.Options())
    trainer.compile(x, labels)
    device = trainer.memoryFootprint()[0]
    assert device["total"] == sum(device["kinds"].values()) >= device["always_live"]
    largest = device["buffers"][0]
    print(device["kinds"]["weights"], largest["name"], largest["bytes"])


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


@example("PoplarExecutor.save", "load", "importPoptorchMetadataFromFile")
def _(model, x, folder):
    classifier = poptorch.inferenceModel(model)
    classes = classifier(x)
    classifier.save(f"{folder}/classifier.poptorch")
    loaded = poptorch.load(f"{folder}/classifier.poptorch")  # in any process; only files that you trust
    assert torch.equal(loaded(x), classes)
    print(poptorch.importPoptorchMetadataFromFile(f"{folder}/classifier.poptorch").executable_inputs)


@example("PoplarExecutor.compileAndExport", "PoplarExecutor.loadExecutable")
def _(model, x, folder):
    exporter = poptorch.inferenceModel(model, poptorch.Options().useOfflineIpuTarget())  # needs no device
    exporter.compileAndExport(f"{folder}/classifier.poptorch", x, export_model=False)
    classifier = poptorch.inferenceModel(model)
    classifier.loadExecutable(f"{folder}/classifier.poptorch")  # instead of compiling; weights are those of the model
    classifier(x)


@example("Options.enableExecutableCaching")
def _(model, x, folder):
    options = poptorch.Options().enableExecutableCaching(f"{folder}/programs")
    poptorch.inferenceModel(model, options)(x)  # compiles
    poptorch.inferenceModel(model, options)(x)  # finds the program, as another process would


@example("Options.enableProfiling")
def _(model, x, folder):
    classifier = poptorch.inferenceModel(model, poptorch.Options().enableProfiling(folder).modelName("classifier"))
    classifier(x)
    classifier.destroy()  # or the end of the program: the profile is complete
    assert os.path.exists(f"{folder}/classifier/profile.pop")  # and report.html, trace.json, profile.json


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
