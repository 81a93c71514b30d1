"""Converts a UResNet that labels every pixel of three wire planes, and trains it beside native PyTorch.

The network is that of particle tagging in liquid argon detectors: three planes share one set of weights, an encoder of
residual blocks halves the picture level by level, all planes meet at the bottom, and a decoder brings them back up with
a connection from each level of the encoder. To run it with poptorch, two things change: the loss is computed inside
`forward` and closed with `identity_loss`, and, to spread it over four devices, blocks are marked.

    uresnet.py --device one|pipeline --precision float|half --steps 10
"""

import argparse
import copy
import time

import torch
from torch import nn

import poptorch

PLANES, CLASSES = 3, 3


class ResidualBlock(nn.Module):
    """x + two convolutions of x."""

    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.first_norm = nn.GroupNorm(4, channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.second_norm = nn.GroupNorm(4, channels)

    def forward(self, x):
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(x + self.second_norm(self.second(y)))


class UResNet(nn.Module):
    """Three planes in, three maps of class scores out. `devices` spreads the levels over that many devices; with None
    no blocks are marked, as AutoPipeline wants it."""

    def __init__(self, channels=8, depth=3, devices=1):
        super().__init__()
        widths = [channels * 2**level for level in range(depth + 1)]
        self.devices = devices
        self.initial = nn.Conv2d(1, channels, 5, padding=2)
        self.encoder = nn.ModuleList(ResidualBlock(width) for width in widths[:-1])
        self.down = nn.ModuleList(nn.Conv2d(a, b, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.bottom = ResidualBlock(PLANES * widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.merge = nn.ModuleList(nn.Conv2d(2 * width, width, 1) for width in widths[:-1])
        self.decoder = nn.ModuleList(ResidualBlock(width) for width in widths[:-1])
        self.final = nn.Conv2d(channels, CLASSES, 1)

    def block(self, number):
        """Begins one of the four parts of the network, on its device."""
        if self.devices is not None:
            poptorch.Block.start(f"part{number}", ipu_id=number * self.devices // 4)

    def forward(self, images, loss_calculator=None, labels=None):
        self.block(0)
        planes = [self.initial(plane) for plane in torch.chunk(images, PLANES, dim=1)]
        skipped = []
        for level, (encode, down) in enumerate(zip(self.encoder, self.down)):
            if level == 1:
                self.block(1)
            planes = [encode(plane) for plane in planes]
            skipped.append(planes)
            planes = [down(plane) for plane in planes]
        self.block(2)
        planes = torch.chunk(self.bottom(torch.cat(planes, dim=1)), PLANES, dim=1)
        for level in reversed(range(len(self.up))):
            if level == 0:
                self.block(3)
            raised = [self.up[level](plane) for plane in planes]
            joined = [torch.cat(pair, dim=1) for pair in zip(raised, skipped[level])]
            planes = [self.decoder[level](self.merge[level](plane)) for plane in joined]
        scores = [self.final(plane) for plane in planes]
        if loss_calculator is None:
            return scores
        targets = [plane.squeeze(1) for plane in torch.chunk(labels.long(), PLANES, dim=1)]
        loss = poptorch.identity_loss(loss_calculator(targets, scores), reduction="mean")
        return scores, loss


def plane_loss(targets, scores):
    """Cross entropy over the pixels, mean of the planes."""
    losses = [nn.functional.cross_entropy(score.float(), target) for score, target in zip(scores, targets)]
    return sum(losses) / len(losses)


def events(count, size, generator):
    """Pictures with a few tracks (class 1) and showers (class 2) on an empty background, and their sparse labels."""
    images = torch.zeros(count, PLANES, size, size)
    labels = torch.zeros(count, PLANES, size, size, dtype=torch.int32)
    steps = torch.arange(size)
    for image, label in zip(images.view(-1, size, size), labels.view(-1, size, size)):
        for kind in (1, 2):
            row, slope = torch.rand(2, generator=generator)
            rows = ((row * size + (slope - 0.5) * steps).long() % size).tolist()
            for column, place in enumerate(rows):
                image[place, column] = kind + 0.2 * torch.randn((), generator=generator)
                label[place, column] = kind
    return images, labels


def options_for(devices, accumulation):
    options = poptorch.Options().showCompilationProgressBar(False)
    options.outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    if devices > 1:
        options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.SameAsIpu))
    return options


def train_native(model, batches, accumulation, rate):
    """Losses of plain PyTorch: one update per `accumulation` pictures."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        parts = []
        for image, label in zip(images.split(1), labels.split(1)):
            _, loss = model(image, plane_loss, label)
            (loss / accumulation).backward()
            parts.append(loss.item())
        optimizer.step()
        losses.append(sum(parts) / len(parts))
    return losses


def train_converted(model, batches, devices, accumulation, rate):
    """Losses of the same training with poptorch, and the seconds that compiling and the first call took."""
    optimizer = poptorch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    trainer = poptorch.trainingModel(model, options_for(devices, accumulation), optimizer=optimizer)
    dtype = model.final.weight.dtype
    images, labels = batches[0]
    begin = time.perf_counter()
    trainer.compile(images.to(dtype), plane_loss, labels)
    compiled = time.perf_counter()
    losses = []
    first = None
    for images, labels in batches:
        _, loss = trainer(images.to(dtype), plane_loss, labels)
        first = first or time.perf_counter()
        losses.append(loss.float().mean().item())
    trainer.destroy()
    return losses, compiled - begin, first - compiled


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("one", "pipeline"), default="pipeline")
    parser.add_argument("--precision", choices=("float", "half"), default="float")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--size", type=int, default=64)
    arguments = parser.parse_args()
    devices = 4 if arguments.device == "pipeline" else 1
    accumulation, rate = 8, 0.01
    torch.manual_seed(0)
    native = UResNet()
    model = copy.deepcopy(native)
    model.devices = devices
    if arguments.precision == "half":
        model.half()
    generator = torch.Generator().manual_seed(1)
    batches = [events(accumulation, arguments.size, generator) for _ in range(arguments.steps)]
    expected = train_native(native, batches, accumulation, rate)
    losses, compile_seconds, first_seconds = train_converted(model, batches, devices, accumulation, rate)
    print(f"compiled in {compile_seconds:.2f} s; first call {first_seconds:.3f} s")
    print(f"{'update':>6}{'native':>12}{'poptorch':>12}")
    for step, (theirs, ours) in enumerate(zip(expected, losses)):
        print(f"{step:6}{theirs:12.6f}{ours:12.6f}")


if __name__ == "__main__":
    main()
