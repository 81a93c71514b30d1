"""How good the cuts of AutoPipeline are: beside the best of random hand partitions, which begin at the same modules.
`./dev bench auto_pipeline`

A transformer, resnet18 and the UResNet of examples/python train over two and four devices. All partitions are compared
by the cost model that made the cut, with kernels timed on this machine; those over two devices also by the time of a
step, where each has a cpu of its own: every partition is trained for a few steps, then the cut of AutoPipeline and the
best ones take turns, so that a busy machine slows them alike, and the best turn of each counts.
"""
import argparse
import copy
import pathlib
import random
import sys
import time

import torch
import torchvision
from torch import nn

import networks
import poptorch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples" / "python"))

import uresnet  # noqa: E402

ACCUMULATION, LIMIT = 16, 1.05
FINALISTS, TURNS, CALLS = 4, 9, 2


class WithLoss(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels):
        return self.loss(self.network(x), labels)


class Classifier(nn.Module):
    """Six layers, and a head that is as long as two of them."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(2000, 192)
        self.layers = nn.ModuleList(networks.EncoderLayer(192, 4, 768) for _ in range(6))
        self.head = nn.Linear(192, 2000)

    def forward(self, x):
        x = self.words(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x).flatten(0, 1)


class Words(WithLoss):
    def forward(self, x, labels):
        return self.loss(self.network(x), labels.flatten())


def transformer():
    words = torch.randint(0, 2000, (ACCUMULATION * 2, 64))
    return Words(Classifier()), (words, words.roll(1, dims=1))


def resnet18():
    network = torchvision.models.resnet18(num_classes=100)
    return WithLoss(network), (torch.randn(ACCUMULATION * 4, 3, 64, 64), torch.randint(0, 100, (ACCUMULATION * 4,)))


def planes():
    images, labels = uresnet.events(ACCUMULATION, 64, torch.Generator().manual_seed(1))
    return uresnet.UResNet(devices=None), (images, uresnet.plane_loss, labels)


MODELS = {"transformer": transformer, "resnet18": resnet18, "uresnet": planes}


def trainer_of(model, strategy):
    options = poptorch.Options().showCompilationProgressBar(False).setExecutionStrategy(strategy)
    options.Training.gradientAccumulation(ACCUMULATION)
    return poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=1e-3))


def random_cut(begins, stages, generator):
    """The parts, with their modules, with which all stages but the first begin: where AutoPipeline could have cut."""
    while True:
        chosen = sorted(generator.sample(begins, stages - 1))
        ends = [part for part, _, _ in chosen[1:]] + [1 << 60]
        if all(last < end for (_, _, last), end in zip(chosen, ends)):
            return tuple(chosen)


def slowest(core, cut):
    return max(core.stage_nanoseconds([0] + [part for part, _, _ in cut]))


def cut_of(trainer):
    known = {module: (part, module, last) for part, module, last in trainer._core.stage_begins()}
    lines = trainer.stageBlocks().splitlines()
    return tuple(known[line[len("poptorch.BeginBlock(") : line.rindex(", ipu_id=")]] for line in lines)


def trainer_by_hand(model, cut):
    model = copy.deepcopy(model)
    for ipu, (_, module, _) in enumerate(cut, start=1):
        poptorch.BeginBlock(eval(module, {"model": model}), ipu_id=ipu)  # pylint: disable=eval-used
    return trainer_of(model, poptorch.PipelinedExecution())


def seconds_of(trainer, data, calls=CALLS):
    begin = time.perf_counter()
    for _ in range(calls):
        trainer(*data)
    return (time.perf_counter() - begin) / calls


def times_of_random(model, data, cuts):
    """The cuts by the time of a step, the fastest first."""
    found = []
    for cut in cuts:
        trainer = trainer_by_hand(model, cut)
        trainer(*data)
        found.append((min(seconds_of(trainer, data, 1) for _ in range(3)), cut))
        trainer.destroy()
    return [cut for _, cut in sorted(found)]


def compare(name, build, devices, partitions):
    """Prints both comparisons. Returns what was missed."""
    torch.manual_seed(0)
    model, data = build()
    auto = trainer_of(copy.deepcopy(model), poptorch.AutoPipeline(num_ipus=devices))
    auto.compile(*data)
    core, generator = auto._core, random.Random(7)
    begins = core.stage_begins()
    cuts = list(dict.fromkeys(random_cut(begins, devices, generator) for _ in range(partitions)))
    costs = sorted(slowest(core, cut) for cut in cuts)
    own = slowest(core, cut_of(auto))
    lines = [("by the cost model", own, costs[0], costs[len(costs) // 2], 1e-6)]
    if devices == 2:
        finalists = [trainer_by_hand(model, cut) for cut in times_of_random(model, data, cuts)[:FINALISTS]]
        best = [float("inf")] * (1 + len(finalists))
        for _ in range(TURNS):
            for i, trainer in enumerate([auto, *finalists]):
                trainer(*data)
                best[i] = min(best[i], seconds_of(trainer, data))
        lines.append(("by the time of a step", best[0], min(best[1:]), None, 1e3))
    missed = []
    for title, own, hand, median, unit in lines:
        middle = "" if median is None else f", median {median * unit:8.3f}"
        print(f"{name:12} {devices} devices {title:22} {own * unit:8.3f} ms, best of {len(cuts)} by hand "
              f"{hand * unit:8.3f}{middle}: ratio {own / hand:.3f}, at most {LIMIT}")
        if own > LIMIT * hand:
            missed.append(f"{name}, {devices} devices, {title}: {own / hand:.3f}")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=50, help="random ones for each model and number of devices")
    parser.add_argument("--devices", type=lambda text: [int(number) for number in text.split(",")], default=[2, 4],
                        help="numbers of them, such as 2,4")
    parser.add_argument("models", nargs="*", help=", ".join(MODELS))
    arguments = parser.parse_args()
    missed = []
    for name in arguments.models or MODELS:
        for devices in arguments.devices:
            missed += compare(name, MODELS[name], devices, arguments.partitions)
    print("targets: " + ("reached" if not missed else "missed: " + "; ".join(missed)))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
