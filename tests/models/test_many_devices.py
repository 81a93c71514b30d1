"""Networks trained in every way of using several devices: the weights are bit for bit those of one device."""

import functools
import os

import poptorch
import pytest
import torch
import torchvision
from torch import nn

CALLS, ACCUMULATION = 10, 8


class InParts(nn.Module):
    """A network cut into four parts, each a block of its own; `devices` says on which device each part runs."""

    def __init__(self, parts, loss):
        super().__init__()
        assert len(parts) == 4
        self.parts = nn.ModuleList(parts)
        self.loss = loss
        self.devices = (0, 0, 0, 0)

    def forward(self, x, labels):
        for number, (part, device) in enumerate(zip(self.parts, self.devices)):
            poptorch.Block.start(f"part{number}", ipu_id=device)
            x = part(x)
        return x, self.loss(x, labels)


class Flatten(nn.Module):
    def forward(self, x):
        return torch.flatten(x, start_dim=1)


class TransformerEmbedding(nn.Module):
    def __init__(self, words, width, length):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))

    def forward(self, x):
        return self.words(x) + self.places


class LstmLayer(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


class LastStep(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.classes = nn.Linear(width, classes)

    def forward(self, x):
        return self.classes(x[:, -1])


def tutorial_network():
    """The network of the pipelining tutorial: two convolutions and two linear layers."""
    parts = [
        nn.Sequential(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU()),
        nn.Sequential(nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU()),
        nn.Sequential(Flatten(), nn.Linear(320, 256), nn.ReLU()),
        nn.Linear(256, 10),
    ]
    images = torch.randn(2 * CALLS * ACCUMULATION, 1, 28, 28)
    return InParts(parts, nn.CrossEntropyLoss()), images, torch.randint(0, 10, (2 * CALLS * ACCUMULATION,))


def resnet18(batch=2, size=32):
    net = torchvision.models.resnet18(num_classes=10)
    parts = [
        nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool, net.layer1),
        net.layer2,
        net.layer3,
        nn.Sequential(net.layer4, net.avgpool, Flatten(), net.fc),
    ]
    images = torch.randn(batch * CALLS * ACCUMULATION, 3, size, size)
    return InParts(parts, nn.CrossEntropyLoss()), images, torch.randint(0, 10, (batch * CALLS * ACCUMULATION,))


def transformer():
    """Four layers with dropout: random numbers must not depend on the device either."""

    def layer():
        return nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)

    parts = [
        nn.Sequential(TransformerEmbedding(40, 32, 12), layer()),
        layer(),
        layer(),
        nn.Sequential(layer(), LastStep(32, 7)),
    ]
    words = torch.randint(0, 40, (3 * CALLS * ACCUMULATION, 12))
    return InParts(parts, nn.CrossEntropyLoss()), words, torch.randint(0, 7, (3 * CALLS * ACCUMULATION,))


def lstm():
    parts = [nn.Embedding(30, 16), LstmLayer(16, 20), LstmLayer(20, 20), LastStep(20, 5)]
    words = torch.randint(0, 30, (3 * CALLS * ACCUMULATION, 7))
    return InParts(parts, nn.CrossEntropyLoss()), words, torch.randint(0, 5, (3 * CALLS * ACCUMULATION,))


def steady_resnet18():
    """On more and larger pictures: of 32x32 the last layers see one pixel, and batch norm over two numbers makes any
    rounding decide between -1 and 1."""
    return resnet18(batch=8, size=64)


NETWORKS = {"tutorial": tutorial_network, "resnet18": resnet18, "transformer": transformer, "lstm": lstm}
PLAIN_NETWORKS = {**NETWORKS, "resnet18": steady_resnet18}
RATES = {"tutorial": 0.02, "resnet18": 0.0001, "transformer": 0.02, "lstm": 0.1}  # of plain training
BLOCKS = [f"part{number}" for number in range(4)]


def one_device(options):
    options.setExecutionStrategy(poptorch.ShardedExecution())
    return (0, 0, 0, 0)


def sharded(options):
    options.setExecutionStrategy(poptorch.ShardedExecution(*BLOCKS))
    return (0, 1, 2, 3)


def pipelined_2(options):
    options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.SameAsIpu))
    options._Popart.set("autoRecomputation", 0)
    return (0, 0, 1, 1)


def pipelined_4(options):
    options.setExecutionStrategy(poptorch.PipelinedExecution(*BLOCKS))
    options._Popart.set("autoRecomputation", 0)
    return (0, 1, 2, 3)


def revisiting(options):
    options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
    return (0, 1, 0, 1)


def recomputed(options):
    options.setExecutionStrategy(poptorch.PipelinedExecution(*BLOCKS))
    return (0, 1, 2, 3)


def recomputed_on_one_device(options):
    options._Popart.set("autoRecomputation", 4)
    return (0, 0, 0, 0)


def offloaded(options):
    off_chip = poptorch.TensorLocationSettings().useOnChipStorage(False)
    options.setExecutionStrategy(poptorch.PipelinedExecution(*BLOCKS))
    options.TensorLocations.setOptimizerLocation(off_chip)
    return (0, 1, 2, 3)


def all_offloaded(options):
    off_chip = poptorch.TensorLocationSettings().useOnChipStorage(False)
    for place in (options.TensorLocations.setOptimizerLocation, options.TensorLocations.setWeightLocation,
                  options.TensorLocations.setAccumulatorLocation, options.TensorLocations.setActivationLocation):
        place(off_chip)
    return pipelined_2(options)


def serial_phases(liveness):
    def configure(options):
        strategy = poptorch.SerialPhasedExecution(*BLOCKS).setTensorsLiveness(liveness)
        for number in range(4):
            strategy.phase(number).ipus(0)
        options.setExecutionStrategy(strategy)
        return (0, 0, 0, 0)

    return configure


def parallel_phases(options):
    strategy = poptorch.ParallelPhasedExecution(*BLOCKS)
    for number in range(4):
        strategy.phase(number).ipus(number % 2)
    options.setExecutionStrategy(strategy)
    return (0, 1, 0, 1)


WAYS = {
    "sharded": sharded,
    "pipelined_2": pipelined_2,
    "pipelined_4": pipelined_4,
    "revisiting": revisiting,
    "recomputed": recomputed,
    "recomputed_on_one_device": recomputed_on_one_device,
    "offloaded": offloaded,
    "all_offloaded": all_offloaded,
    "phased_always_live": serial_phases(poptorch.Liveness.AlwaysLive),
    "phased_off_chip": serial_phases(poptorch.Liveness.OffChipAfterEachPhase),
    "phased_in_parallel": parallel_phases,
}


def flat(tensors):
    return torch.cat([tensor.detach().double().flatten() for tensor in tensors])


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0


def build(name, plain=False):
    torch.manual_seed(3)
    return (PLAIN_NETWORKS if plain else NETWORKS)[name]()


def train(name, configure, replicas=1, accumulation=ACCUMULATION, plain=False):
    """Parameters and buffers after CALLS calls, as one vector each, and the losses. A plain training has no dropout and
    uses SGD, which does not blow up differences as small as rounding."""
    model, inputs, labels = build(name, plain)
    if plain:
        without_dropout(model)
    options = poptorch.Options().showCompilationProgressBar(False).randomSeed(5)
    options.replicationFactor(replicas)
    options.outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    model.devices = configure(options)
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.002)
    if plain:
        optimizer = poptorch.optim.SGD(model.parameters(), lr=RATES[name])
    trainer = poptorch.trainingModel(model.train(), options, optimizer=optimizer)
    losses = []
    for x, y in zip(inputs.chunk(CALLS), labels.chunk(CALLS)):
        losses.append(trainer(x, y)[1])
    trainer.destroy()
    buffers = [*model.buffers(), torch.zeros(1)]
    return flat(model.parameters()), flat(buffers), torch.cat(losses)


@pytest.fixture(scope="module", name="reference")
def train_on_one_device():
    """What each network gives on one device."""
    return functools.lru_cache(maxsize=None)(lambda name: train(name, one_device))


@pytest.fixture(params=[1, 2], name="cores")
def limit_cores(request):
    """Runs the test on that many cores."""
    available = os.sched_getaffinity(0)
    if len(available) < request.param:
        pytest.skip(f"needs {request.param} cores")
    os.sched_setaffinity(0, sorted(available)[: request.param])
    yield request.param
    os.sched_setaffinity(0, available)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_way_gives_the_bits_of_one_device(reference, name, way):
    for result, expected in zip(train(name, WAYS[way]), reference(name)):
        assert torch.equal(result, expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_number_of_cores_does_not_show(reference, name, cores):
    for configure in (one_device, pipelined_2, recomputed):
        assert torch.equal(train(name, configure)[0], reference(name)[0]), (configure.__name__, cores)


@pytest.mark.parametrize("name", NETWORKS)
def test_repeated_runs_give_the_same_bits(reference, name):
    for _ in range(5):
        assert torch.equal(train(name, pipelined_4)[0], reference(name)[0])


@pytest.mark.parametrize("configure", [one_device, pipelined_2], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", NETWORKS)
def test_replicas_equal_one_device_with_the_same_total_batch(name, configure):
    """A call of 2 replicas with half the accumulation sees the same samples as one call of one device."""
    expected, _, losses = train(name, one_device, plain=True)
    untrained = flat(build(name, plain=True)[0].parameters())
    assert (expected - untrained).abs().max() > 1e-4  # ten times the tolerance
    weights, _, replica_losses = train(name, configure, replicas=2, accumulation=ACCUMULATION // 2, plain=True)
    torch.testing.assert_close(weights, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(replica_losses, losses, rtol=1e-5, atol=1e-5)
