"""How training speeds up with devices: a transformer on one device, pipelined over two, and in two replicas.
`./dev bench scale`

All run in one process and take turns, so that a busy machine slows them alike; the best turn of each counts. One device
has one thread; two devices and two replicas have one each. Samples per second are compared.

A pipeline fills and drains once per weight update. With stages that take t_1 .. t_n per micro-batch and G micro-batches,
an update takes at least T = t_1 + .. + t_n + (G - 1) max t, and device i waits for T - G t_i of it. That share is
printed beside the share the devices measured.
"""
import argparse
import os
import sys
import time

import torch
from torch import nn

import poptorch

LAYERS, WIDTH, HEADS, BATCH, LENGTH, ACCUMULATION, WORDS = 4, 256, 4, 8, 128, 16, 1000
TURNS = 5
TARGETS = {"two devices": 1.6, "two replicas": 1.7}


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cut", type=int, default=LAYERS // 2, help="first layer on the second device")
    cut = parser.parse_args().cut
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
    print("targets: " + ("reached" if not missed else "missed: " + "; ".join(missed)))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
