"""How training speeds up with devices: a transformer on one device, pipelined over two, and in two replicas. And what
devices cost that cannot speed anything up: sixteen that take turns, and two tiny stages of a pipeline on a busy machine.
`./dev bench scale`

All run in one process and take turns, so that a busy machine slows them alike; the best turn of each counts. One device
has one thread; two devices and two replicas have one each. Samples per second are compared.

A pipeline fills and drains once per weight update. With stages that take t_1 .. t_n per micro-batch and G micro-batches,
an update takes at least T = t_1 + .. + t_n + (G - 1) max t, and device i waits for T - G t_i of it. That share is
printed beside the share the devices measured.

The small models are chains of layers. Their ratios are times over the time of one device, the median of many turns: the
load of a machine comes and goes.
"""
import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time

import torch
from torch import nn

import poptorch

LAYERS, WIDTH, HEADS, BATCH, LENGTH, ACCUMULATION, WORDS = 4, 256, 4, 8, 128, 16, 1000
TURNS = 5
TARGETS = {"two devices": 1.6, "two replicas": 1.7}
SMALL_TURNS, SMALL_CALLS = 31, 20
TURN_DEVICES, TURN_LIMIT = 16, 1.2  # time of devices that take turns over that of one device
TINY_LIMIT, BUSY_PROCESSES = 1.5, 2  # the same of a pipeline of two tiny stages, while others are busy


class Transformer(nn.Module):
    """Four layers over word embeddings; predicts a word at every place. `cut`: the first layer on device 1."""

    def __init__(self, cut):
        super().__init__()
        self.cut = cut
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(LAYERS)
        )
        self.head = nn.Linear(WIDTH, WORDS)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels):
        poptorch.Block.start("first", ipu_id=0)
        x = self.words(x) + self.places
        for number, layer in enumerate(self.layers):
            if number == self.cut:
                poptorch.Block.start("second", ipu_id=1)
            x = layer(x)
        return self.loss(self.head(x).flatten(0, 1), labels.flatten())


class Contender:
    """A trainer with its options and its best time per sample so far."""

    def __init__(self, threads, cut=LAYERS, replicas=1, recompute=False):
        torch.manual_seed(0)
        model = Transformer(cut)
        options = poptorch.Options().showCompilationProgressBar(False).replicationFactor(replicas)
        options.Training.gradientAccumulation(ACCUMULATION)
        if not recompute:
            options._Popart.set("autoRecomputation", 0)
        self.samples = ACCUMULATION * replicas * BATCH
        words = torch.randint(0, WORDS, (self.samples, LENGTH))
        self.batch = (words, words.roll(1, dims=1))
        self.trainer = poptorch.trainingModel(model, options, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.01))
        os.environ["ASPEN_NUM_THREADS"] = str(threads)
        self.trainer.compile(*self.batch)
        self.trainer(*self.batch)
        self.rate, self.times = 0.0, None

    def turn(self):
        begin = time.perf_counter()
        self.trainer(*self.batch)
        rate = self.samples / (time.perf_counter() - begin)
        if rate > self.rate:
            self.rate, self.times = rate, self.trainer._core.times()


class Chain(nn.Module):
    """Layers of one width, the same number of them on every device."""

    def __init__(self, layers, width, devices):
        super().__init__()
        self.per_device = layers // devices
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x, target):
        for number, layer in enumerate(self.layers):
            if number % self.per_device == 0:
                poptorch.Block.start(f"block {number}", ipu_id=number // self.per_device)
            x = torch.relu(layer(x))
        return x, nn.functional.mse_loss(x, target)


class SmallContender:
    """Trains a chain and keeps the time of every turn."""

    def __init__(self, layers, width, batch, devices, strategy):
        torch.manual_seed(0)
        model = Chain(layers, width, devices)
        options = poptorch.Options().showCompilationProgressBar(False).setExecutionStrategy(strategy)
        options.Training.gradientAccumulation(ACCUMULATION)
        options._Popart.set("autoRecomputation", 0)
        self.batch = (torch.randn(ACCUMULATION * batch, width), torch.randn(ACCUMULATION * batch, width))
        self.trainer = poptorch.trainingModel(model, options, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.01))
        self.trainer(*self.batch)
        self.times = []

    def turn(self):
        begin = time.perf_counter()
        for _ in range(SMALL_CALLS):
            self.trainer(*self.batch)
        self.times.append((time.perf_counter() - begin) / SMALL_CALLS)

    @property
    def median(self):
        return statistics.median(self.times)


@contextlib.contextmanager
def busy_machine(processes):
    """Others that want the cpus all the time."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def cost_of_devices(title, alone, many, limit):
    """Compares two contenders turn by turn. Returns what was missed."""
    for _ in range(SMALL_TURNS):
        alone.turn()
        many.turn()
    ratio = many.median / alone.median
    verdict = "PASS" if ratio <= limit else "FAIL"
    print(f"{title}: {1e6 * many.median:.0f} us per call, one device {1e6 * alone.median:.0f} us: ratio {ratio:.2f}, "
          f"at most {limit}: {verdict}")
    return [] if ratio <= limit else [f"{title}: {ratio:.2f} of {limit}"]


def small_models():
    """What devices cost where they gain nothing."""
    os.environ.pop("ASPEN_NUM_THREADS", None)
    sharded, pipelined = poptorch.ShardedExecution, poptorch.PipelinedExecution
    one, many = (SmallContender(TURN_DEVICES, 64, 16, devices, sharded()) for devices in (1, TURN_DEVICES))
    missed = cost_of_devices(f"{TURN_DEVICES} devices taking turns", one, many, TURN_LIMIT)
    one, many = (SmallContender(2, 16, 4, devices, pipelined()) for devices in (1, 2))
    with busy_machine(BUSY_PROCESSES):
        missed += cost_of_devices(f"two tiny stages beside {BUSY_PROCESSES} busy processes", one, many, TINY_LIMIT)
    return missed


def print_waits(times):
    """Share of time each device of a pipeline waited, beside what filling and draining predict. Returns how far the
    share of all devices together is off, relative to the prediction."""
    stage = [sum(task["seconds"] / task["runs"] for task in device["tasks"] if task["runs"] >= ACCUMULATION)
             for device in times]
    total = sum(stage) + (ACCUMULATION - 1) * max(stage)
    predicted = [1 - ACCUMULATION * seconds / total for seconds in stage]
    measured = [device["waiting"] / device["total"] for device in times]
    for device, seconds, found, expected in zip(times, stage, measured, predicted):
        print(f"    device {device['device']}: {1000 * seconds:6.2f} ms per micro-batch, waits {100 * found:5.1f} %"
              f" of the time; filling and draining predict {100 * expected:5.1f} %")
    return abs(sum(measured) / sum(predicted) - 1)


def large_model(cut):
    """What devices gain. Returns what was missed."""
    contenders = {
        "one device, one thread": Contender(threads=1),
        "two devices": Contender(threads=2, cut=cut),
        "two devices, recomputing": Contender(threads=2, cut=cut, recompute=True),
        "two replicas": Contender(threads=2, replicas=2),
        "one device, two threads": Contender(threads=2),
    }
    for _ in range(TURNS):
        for contender in contenders.values():
            contender.turn()
    alone = contenders["one device, one thread"].rate
    print(f"{LAYERS}-layer transformer, width {WIDTH}, batch {BATCH}, sequence {LENGTH}, accumulation {ACCUMULATION}, "
          f"best of {TURNS} turns")
    missed = []
    for title, contender in contenders.items():
        ratio = contender.rate / alone
        print(f"{title:28}{contender.rate:9.1f} samples/s{ratio:8.2f}")
        if ratio < TARGETS.get(title, 0):
            missed.append(f"{title}: {ratio:.2f} of {TARGETS[title]}")
        if title == "two devices" and (off := print_waits(contender.times)) > 0.1:
            missed.append(f"the time spent waiting is {100 * off:.0f} % off the arithmetic of filling and draining")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cut", type=int, default=LAYERS // 2, help="first layer on the second device")
    parser.add_argument("--small", action="store_true", help="only the small models")
    arguments = parser.parse_args()
    missed = small_models()
    if not arguments.small:
        missed += large_model(arguments.cut)
    print("targets: " + ("reached" if not missed else "missed: " + "; ".join(missed)))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
