"""AutoPipeline: models without blocks over several devices, cut by the compiler. Losses are those of one device."""

import copy
import pathlib
import pickle
import random
import sys

import poptorch
import pytest
import torch
import torchvision
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "python"))

import uresnet  # noqa: E402


class WithLoss(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels):
        y = self.network(x)
        return y, self.loss(y, labels)


class Classifier(nn.Module):
    """A transformer with tied embeddings, dropout and a running mean."""

    def __init__(self, width=32, layers=4):
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        encoder = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(encoder, layers)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, tokens):
        x = self.norm(self.encoder(self.embedding(tokens)).mean(1))
        return x @ self.embedding.weight.t()


def transformer():
    torch.manual_seed(0)
    tokens = torch.randint(0, 50, (32, 12))
    return WithLoss(Classifier()), (tokens, torch.randint(0, 50, (32,)))


def resnet18():
    torch.manual_seed(0)
    network = torchvision.models.resnet18(num_classes=10)
    return WithLoss(network), (torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,)))


def planes():
    """Encoder and decoder are called for each of three planes."""
    torch.manual_seed(0)
    images, labels = uresnet.events(8, 16, torch.Generator().manual_seed(1))
    return uresnet.UResNet(channels=4, depth=2, devices=None), (images, uresnet.plane_loss, labels)


MODELS = [transformer, resnet18, planes]


def trainer_of(model, strategy, accumulation=8):
    options = poptorch.Options().randomSeed(5).showCompilationProgressBar(False)
    options.Training.gradientAccumulation(accumulation)
    options.outputMode(poptorch.OutputMode.All)
    options.setExecutionStrategy(strategy)
    return poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))


def losses_of(trainer, data, steps=3):
    return torch.stack([trainer(*data)[1] for _ in range(steps)])


def random_cut(begins, stages, generator):
    """First parts of stages, as AutoPipeline may choose them."""
    while True:
        chosen = sorted(generator.sample(begins, stages - 1))
        ends = [part for part, _, _ in chosen[1:]] + [1 << 60]
        if all(last < end for (_, _, last), end in zip(chosen, ends)):
            return [0] + [part for part, _, _ in chosen]


@pytest.mark.parametrize("build", MODELS)
@pytest.mark.parametrize("devices", [2, 4])
def test_losses_are_those_of_one_device_and_of_the_pasted_blocks(build, devices):
    model, data = build()
    expected = losses_of(trainer_of(copy.deepcopy(model), poptorch.PipelinedExecution()), data)

    trainer = trainer_of(copy.deepcopy(model), poptorch.AutoPipeline(num_ipus=devices))
    assert torch.equal(losses_of(trainer, data), expected)
    assert len(trainer.memoryFootprint()) == devices
    assert all(device["kinds"]["weights"] > 0 for device in trainer.memoryFootprint())

    text = trainer.stageBlocks()
    assert text.count("poptorch.BeginBlock(model.") == devices - 1
    pasted = copy.deepcopy(model)
    exec(text, {"poptorch": poptorch, "model": pasted})  # pylint: disable=exec-used
    by_hand = trainer_of(pasted, poptorch.PipelinedExecution())
    assert torch.equal(losses_of(by_hand, data), expected)
    assert by_hand.memoryFootprint() == trainer.memoryFootprint()
    assert tasks_of(by_hand) == tasks_of(trainer)


def tasks_of(trainer):
    return [(time["device"], [task["task"] for task in time["tasks"]]) for time in trainer._core.times()]


@pytest.mark.parametrize("build", MODELS)
@pytest.mark.parametrize("devices", [2, 4])
def test_no_random_partition_is_faster_by_the_cost_model(build, devices):
    model, data = build()
    trainer = trainer_of(model, poptorch.AutoPipeline(num_ipus=devices, measure=False))
    trainer.compile(*data)
    core = trainer._core
    begins = core.stage_begins()
    written = {module: part for part, module, _ in begins}
    lines = trainer.stageBlocks().splitlines()
    chosen = [0] + [written[line[len("poptorch.BeginBlock(") : line.rindex(", ipu_id=")]] for line in lines]
    slowest = max(core.stage_nanoseconds(chosen))
    generator = random.Random(2)
    best = min(max(core.stage_nanoseconds(random_cut(begins, devices, generator))) for _ in range(50))
    assert slowest <= 1.05 * best


def test_guesses_are_the_same_every_time():
    texts = set()
    for _ in range(2):
        model, data = resnet18()
        trainer = trainer_of(model, poptorch.AutoPipeline(4, measure=False))
        trainer.compile(*data)
        texts.add(trainer.stageBlocks())
    assert len(texts) == 1


def test_inference_is_cut_too():
    model, (x, _) = resnet18()
    model = model.network.eval()
    options = poptorch.Options().deviceIterations(4).showCompilationProgressBar(False)
    options.setExecutionStrategy(poptorch.AutoPipeline(num_ipus=2))
    inference = poptorch.inferenceModel(model, options)
    plain = poptorch.inferenceModel(model, poptorch.Options().deviceIterations(4).showCompilationProgressBar(False))
    assert torch.equal(inference(x), plain(x))
    assert len(inference.memoryFootprint()) == 2


def test_the_cut_is_logged(capfd):
    model, data = resnet18()
    poptorch.setLogLevel("INFO")
    try:
        trainer = trainer_of(model, poptorch.AutoPipeline(2))
        trainer.compile(*data)
    finally:
        poptorch.setLogLevel("WARN")
    log = "".join(capfd.readouterr())
    assert "[AutoPipeline] IPU 1: " in log and trainer.stageBlocks().strip() in log


def test_a_memory_budget_moves_the_cut():
    """Most of the time goes into the first half and all large weights are in the second."""

    def model():
        torch.manual_seed(0)
        light = [nn.Conv2d(4, 4, 3, padding=1) for _ in range(8)]
        heavy = [nn.Linear(400, 400) for _ in range(6)]
        return WithLoss(nn.Sequential(*light, nn.AvgPool2d(4), nn.Flatten(), *heavy, nn.Linear(400, 10)))

    data = (torch.randn(32, 4, 40, 40), torch.randint(0, 10, (32,)))
    free = trainer_of(model(), poptorch.AutoPipeline(2, measure=False))
    free.compile(*data)
    totals = [device["total"] for device in free.memoryFootprint()]
    options = poptorch.Options().showCompilationProgressBar(False)
    options.Training.gradientAccumulation(8)
    options.setExecutionStrategy(poptorch.AutoPipeline(2, measure=False)).setMemoryBudget(int(0.8 * max(totals)))
    bounded = poptorch.trainingModel(
        (network := model()), options, poptorch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    )
    bounded.compile(*data)
    assert max(device["total"] for device in bounded.memoryFootprint()) <= 0.8 * max(totals)


def test_names_are_written_as_python():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict({"in put": nn.Linear(4, 4), "last": nn.Linear(4, 4)})
            self.add_module("class", nn.Linear(4, 4))
            self.rows = nn.ModuleList([nn.Linear(4, 4)])

        def forward(self, x):
            x = self.parts["last"](self.parts["in put"](x))
            x = self.rows[0](getattr(self, "class")(x))
            return x, poptorch.identity_loss(x.square(), "mean")

    trainer = trainer_of(Named(), poptorch.AutoPipeline(4, measure=False))
    trainer.compile(torch.randn(8, 4))
    assert trainer.stageBlocks().splitlines() == [
        "poptorch.BeginBlock(model.parts['last'], ipu_id=1)",
        "poptorch.BeginBlock(model.get_submodule('class'), ipu_id=2)",
        "poptorch.BeginBlock(model.rows[0], ipu_id=3)",
    ]


def test_stored_models_know_their_cut(tmp_path):
    model, data = resnet18()
    trainer = trainer_of(model, poptorch.AutoPipeline(2))
    trainer.compileAndExport(tmp_path / "model", *data)
    loaded = poptorch.load(tmp_path / "model")
    assert loaded.stageBlocks() == trainer.stageBlocks()
    assert torch.equal(losses_of(loaded, data), losses_of(trainer, data))


# -- errors -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("number", [0, -1, 65])
def test_numbers_of_devices_that_there_are_not(number):
    with pytest.raises(poptorch.Error, match=rf"\[AutoPipeline\] num_ipus is {number}; expected 1 <= num_ipus <= 64"):
        poptorch.AutoPipeline(num_ipus=number)


@pytest.mark.parametrize("wrong", [2.0, "2", None])
def test_numbers_that_are_none(wrong):
    with pytest.raises(AssertionError, match="num_ipus expects an int"):
        poptorch.AutoPipeline(num_ipus=wrong)


def test_blocks_of_the_user():
    model, data = resnet18()
    poptorch.BeginBlock(model.network.layer3, "deep", ipu_id=1)
    trainer = trainer_of(model, poptorch.AutoPipeline(2))
    with pytest.raises(poptorch.Error, match=r'begins block "deep", but AutoPipeline places .*poptorch.removeBlocks'):
        trainer.compile(*data)


def test_more_devices_than_modules():
    model = WithLoss(nn.Sequential(nn.Flatten(), nn.Linear(8, 8), nn.Linear(8, 4)))
    trainer = trainer_of(model, poptorch.AutoPipeline(8), accumulation=16)
    with pytest.raises(poptorch.Error, match="cannot be cut into 8 stages, at most into 3.*Use at most 3 IPUs"):
        trainer.compile(torch.randn(16, 8), torch.randint(0, 4, (16,)))


def test_too_few_micro_batches():
    model, data = resnet18()
    trainer = trainer_of(model, poptorch.AutoPipeline(2), accumulation=2)
    with pytest.raises(poptorch.Error, match="needs gradient accumulation of at least 3"):
        trainer.compile(*data)


def test_a_model_without_a_cut_has_no_blocks():
    model, data = resnet18()
    trainer = trainer_of(model, poptorch.PipelinedExecution())
    with pytest.raises(poptorch.Error, match="not compiled"):
        trainer.stageBlocks()
    trainer.compile(*data)
    with pytest.raises(poptorch.Error, match=r"\[stageBlocks\] the model was not cut into stages"):
        trainer.stageBlocks()


def test_copies_and_text():
    strategy = pickle.loads(pickle.dumps(poptorch.AutoPipeline(4, measure=False)))
    assert repr(strategy) == "AutoPipeline(num_ipus=4, measure=False)"
    assert repr(poptorch.AutoPipeline(num_ipus=2)) == "AutoPipeline(num_ipus=2)"
