"""A network on four devices: blocks, a pipeline, gradients of many batches in one update, batches fetched ahead.

Trains, then tests with options made from those of the training. Plain PyTorch makes the first updates too. Prints what
it found as one line of JSON.
"""
import copy
import json

import poptorch
import torch
from torch import nn

from pictures import CLASSES, Pictures

RATE, BATCH, ACCUMULATED, UPDATES_PER_CALL, COMPARED_CALLS = 0.002, 15, 8, 5, 2


def layer(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 5), nn.MaxPool2d(2), nn.ReLU())


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.near, self.far = layer(1, 10), layer(10, 20)
        self.hidden, self.scores = nn.Linear(320, 128), nn.Linear(128, CLASSES)

    def forward(self, x):
        with poptorch.Block("near"):
            x = self.near(x)
        with poptorch.Block("far"):
            x = self.far(x)
        with poptorch.Block("hidden"):
            x = self.hidden(x.view(-1, 320)).relu()
        with poptorch.Block("scores"):
            return self.scores(x)


class WithLoss(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network, self.loss = network, nn.CrossEntropyLoss()

    def forward(self, pictures, labels):
        scores = self.network(pictures)
        with poptorch.Block("scores"):
            return scores, self.loss(scores, labels)


def training_options():
    options = poptorch.Options()
    options.setExecutionStrategy(poptorch.PipelinedExecution("near", "far", "hidden", "scores"))
    options.deviceIterations(UPDATES_PER_CALL)
    options.Training.gradientAccumulation(ACCUMULATED)
    options.TensorLocations.setOptimizerLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))
    options.outputMode(poptorch.OutputMode.All)
    return options


def losses_in_torch(network, data):
    """Of every batch of the first calls: an update takes the mean gradient of ACCUMULATED batches."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE)
    losses = []
    for index, (pictures, labels) in enumerate(torch.utils.data.DataLoader(data, batch_size=BATCH)):
        if index == COMPARED_CALLS * UPDATES_PER_CALL * ACCUMULATED:
            break
        loss = nn.functional.cross_entropy(network(pictures), labels)
        losses.append(loss.item())
        (loss / ACCUMULATED).backward()
        if (index + 1) % ACCUMULATED == 0:
            optimizer.step()
            optimizer.zero_grad()
    return losses


def main():
    torch.manual_seed(5)
    network, options = Network(), training_options()
    untouched = copy.deepcopy(network)
    data = Pictures(train=True, count=12000)
    loader = poptorch.DataLoader(options, data, batch_size=BATCH, num_workers=2, mode=poptorch.DataLoaderMode.Async)
    trainer = poptorch.trainingModel(WithLoss(network), options,
                                     optimizer=poptorch.optim.AdamW(network.parameters(), lr=RATE))
    losses = []
    for _ in range(2):
        for pictures, labels in loader:
            _, of_call = trainer(pictures, labels)
            losses += of_call.tolist()
    trainer.detachFromDevice()

    inference_options = options.clone()
    inference_options.Training.gradientAccumulation(1)
    inference_options.deviceIterations(10)
    inference = poptorch.inferenceModel(network, inference_options)
    test = poptorch.DataLoader(inference_options, Pictures(train=False, count=2000), batch_size=10, shuffle=True,
                               drop_last=True)
    correct = sum(int((inference(pictures).argmax(dim=1) == labels).sum()) for pictures, labels in test)
    expected = losses_in_torch(untouched, data)
    print(json.dumps({"losses": losses, "losses_in_torch": expected, "accuracy": correct / 2000}))


if __name__ == "__main__":
    main()
