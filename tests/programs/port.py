"""An existing training script moved over: the network knows nothing of its loss, a wrapper adds it.

The same steps run in plain PyTorch, on the same batches. Prints both as one line of JSON.
"""
import copy
import json

import poptorch
import torch
from torch import nn

from pictures import CLASSES, Pictures

RATE, MOMENTUM, BATCH = 0.001, 0.9, 16


def network():
    # The logarithm of softmax runs over the batch, not the classes: an oversight to live with in what one ports.
    return nn.Sequential(nn.Conv2d(1, 5, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(5, 12, 5), nn.ReLU(),
                         nn.GroupNorm(3, 12), nn.Flatten(), nn.Linear(972, 100), nn.ReLU(), nn.Linear(100, CLASSES),
                         nn.LogSoftmax(dim=0))


class WithLoss(nn.Module):
    def __init__(self, inner, criterion):
        super().__init__()
        self.inner, self.criterion = inner, criterion

    def forward(self, pictures, labels=None):
        output = self.inner(pictures)
        if labels is None:
            return output
        return output, poptorch.identity_loss(self.criterion(output, labels), reduction="sum")


def train_on_device(inner, options, data):
    model = WithLoss(inner.train(), nn.NLLLoss())
    optimizer = poptorch.optim.SGD(inner.parameters(), lr=RATE, momentum=MOMENTUM)
    trainer = poptorch.trainingModel(model, options=options, optimizer=optimizer)
    losses = [trainer(*batch)[1].item() for batch in poptorch.DataLoader(options, data, batch_size=BATCH)]
    trainer.detachFromDevice()
    return losses, model


def train_in_torch(inner, data):
    optimizer = torch.optim.SGD(inner.train().parameters(), lr=RATE, momentum=MOMENTUM)
    losses = []
    for pictures, labels in torch.utils.data.DataLoader(data, batch_size=BATCH):
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(inner(pictures), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.manual_seed(3)
    start, options = network(), poptorch.Options()
    ours, theirs = copy.deepcopy(start), copy.deepcopy(start)
    data, test = Pictures(train=True, count=4800), Pictures(train=False, count=1600)
    losses, model = train_on_device(ours, options, data)
    expected = train_in_torch(theirs, data)

    inference = poptorch.inferenceModel(model.eval(), options=options)
    correct = correct_in_torch = 0
    for pictures, labels in poptorch.DataLoader(options, test, batch_size=BATCH):
        correct += int((inference(pictures).argmax(dim=1) == labels).sum())
        correct_in_torch += int((theirs.eval()(pictures).argmax(dim=1) == labels).sum())
    print(json.dumps({"losses": losses, "losses_in_torch": expected, "accuracy": correct / len(test),
                      "accuracy_in_torch": correct_in_torch / len(test)}))


if __name__ == "__main__":
    main()
