"""Trains a small convolutional network on Fashion-MNIST, then shows how well it does.

    ./dev demo                                  # finds the data and starts this file
    python examples/python/fashion_mnist.py --epochs 2 --output /tmp/fashion

Prints the accuracy on the test images and the training throughput, and draws the confusion matrix into
OUTPUT/confusion_matrix.png.
"""
import argparse
import gzip
import pathlib
import time

import matplotlib

matplotlib.use("Agg")  # draws into files; needs no display

import poptorch
import torch
import torchvision
from sklearn.metrics import ConfusionMatrixDisplay
from torch import nn
from tqdm import tqdm

CLASSES = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
DEBIAN_FILES = pathlib.Path("/usr/share/datasets/fashion-mnist")  # package dataset-fashion-mnist


class Classifier(nn.Module):
    """Two convolutions, two linear layers. In training it returns the loss too: the device needs it to learn."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 5, 3), nn.ReLU(), nn.MaxPool2d(2),  # (B, 5, 13, 13)
            nn.Conv2d(5, 12, 5), nn.ReLU(), nn.GroupNorm(3, 12),  # (B, 12, 9, 9)
            nn.Flatten())
        self.head = nn.Sequential(nn.Linear(972, 100), nn.ReLU(), nn.Linear(100, 10), nn.LogSoftmax(dim=1))
        self.loss = nn.NLLLoss()

    def forward(self, images, labels=None):
        log_probabilities = self.head(self.features(images))
        if labels is None:
            return log_probabilities
        return log_probabilities, self.loss(log_probabilities, labels)


def unpack(folder):
    """Puts the files of the Debian package where torchvision looks for them."""
    raw = folder / "FashionMNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for archive in DEBIAN_FILES.glob("*-ubyte.gz"):
        target = raw / archive.stem
        if not target.exists():
            target.write_bytes(gzip.decompress(archive.read_bytes()))


def load(folder, train):
    """The images as (N, 1, 28, 28) in [-1, 1] and their labels."""
    data = torchvision.datasets.FashionMNIST(str(folder), train=train, download=False)
    return torch.utils.data.TensorDataset(data.data.unsqueeze(1).float() / 127.5 - 1, data.targets)


def train(model, dataset, arguments):
    """Trains in place; returns images per second, not counting the compilation."""
    # One call to the model runs this many weight updates on the device before it returns to Python.
    options = poptorch.Options().deviceIterations(arguments.device_iterations)
    if arguments.profile:
        options.enableProfiling(str(arguments.profile))
    loader = poptorch.DataLoader(options, dataset, batch_size=arguments.batch_size, shuffle=True, drop_last=True)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=arguments.learning_rate, momentum=0.9)
    trainer = poptorch.trainingModel(model.train(), options, optimizer)
    trainer.compile(*next(iter(loader)))
    start, images = time.perf_counter(), 0
    for epoch in range(arguments.epochs):
        with tqdm(loader, desc=f"epoch {epoch + 1}/{arguments.epochs}", unit="call") as bar:
            for data, labels in bar:
                _, loss = trainer(data, labels)
                images += len(data)
                bar.set_postfix(loss=f"{loss.mean().item():.3f}")
    elapsed = time.perf_counter() - start
    trainer.detachFromDevice()
    return images / elapsed


def evaluate(model, dataset):
    """Predicted and true classes of every image."""
    options = poptorch.Options().deviceIterations(20)
    loader = poptorch.DataLoader(options, dataset, batch_size=50)
    inference = poptorch.inferenceModel(model.eval(), options)
    predictions, truths = [], []
    for data, labels in tqdm(loader, desc="test", unit="call"):
        predictions.append(inference(data).argmax(dim=1))
        truths.append(labels)
    inference.detachFromDevice()
    return torch.cat(predictions), torch.cat(truths)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("build/datasets"))
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/demo"))
    parser.add_argument("--profile", type=pathlib.Path, help="folder for a report of where time and memory went")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--device-iterations", type=int, default=25)
    parser.add_argument("--learning-rate", type=float, default=0.001)
    arguments = parser.parse_args()

    torch.manual_seed(42)
    unpack(arguments.data)
    model = Classifier()
    throughput = train(model, load(arguments.data, train=True), arguments)
    predictions, truths = evaluate(model, load(arguments.data, train=False))

    arguments.output.mkdir(parents=True, exist_ok=True)
    picture = arguments.output / "confusion_matrix.png"
    display = ConfusionMatrixDisplay.from_predictions(truths.numpy(), predictions.numpy(), display_labels=CLASSES,
                                                      xticks_rotation="vertical", colorbar=False)
    display.figure_.set_size_inches(8, 8)
    display.figure_.tight_layout()
    display.figure_.savefig(picture)
    torch.save(model.state_dict(), arguments.output / "classifier.pth")
    print(f"test accuracy:    {100 * (predictions == truths).float().mean().item():.2f} %")
    print(f"throughput:       {throughput:,.0f} images/s in training")
    print(f"confusion matrix: {picture}")
    if arguments.profile:
        print(f"report:           {arguments.profile / 'training' / 'report.html'}")


if __name__ == "__main__":
    main()
