"""Trains a classifier that computes its own loss, saves it, tests it, and loads it again for one picture.

Data come from worker processes and training runs one batch per call: the way a first program is written. Prints what it
found as one line of JSON.
"""
import json
import pathlib
import sys

import poptorch
import torch
from torch import nn

from pictures import CLASSES, Pictures


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 6, 3)
        self.halve = nn.MaxPool2d(2, 2)
        self.second = nn.Conv2d(6, 12, 5)
        self.norm = nn.GroupNorm(3, 12)
        self.hidden = nn.Linear(12 * 9 * 9, 64)
        self.scores = nn.Linear(64, CLASSES)
        self.loss = nn.NLLLoss()

    def forward(self, pictures, labels=None):
        x = self.halve(self.first(pictures).relu())
        x = self.norm(self.second(x).relu())
        x = self.hidden(torch.flatten(x, start_dim=1)).relu()
        x = torch.log_softmax(self.scores(x), dim=1)
        return (x, self.loss(x, labels)) if self.training else x


def train(model, options):
    loader = poptorch.DataLoader(options, Pictures(train=True, count=8000), batch_size=16, shuffle=True, num_workers=3)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    trainer = poptorch.trainingModel(model, options=options, optimizer=optimizer)
    means = []
    for _ in range(2):
        total = 0.0
        for pictures, labels in loader:
            _, loss = trainer(pictures, labels)
            total += loss
        means.append(float(total) / len(loader))
    trainer.detachFromDevice()
    return means


def accuracy(model, options):
    inference = poptorch.inferenceModel(model, options=options)
    predictions, truths = [], []
    data = Pictures(train=False, count=2000)
    for pictures, labels in poptorch.DataLoader(options, data, batch_size=40, num_workers=2):
        predictions += inference(pictures).max(dim=1).indices
        truths += labels
    inference.detachFromDevice()
    return sum(int(p == t) for p, t in zip(predictions, truths)) / len(truths)


def main(file):
    torch.manual_seed(42)
    model = Classifier().train()
    options = poptorch.Options()
    losses = train(model, options)
    torch.save(model.state_dict(), file)
    result = {"losses": losses, "accuracy": accuracy(model.eval(), options)}

    loaded = Classifier()
    loaded.load_state_dict(torch.load(file))
    loaded.eval()
    picture, label = Pictures(train=False, count=1)[0]
    on_device = poptorch.inferenceModel(loaded, options=poptorch.Options())(picture.unsqueeze(0))
    result["label"], result["predicted"] = label, int(on_device.argmax())
    result["difference_from_torch"] = float((on_device - loaded(picture.unsqueeze(0))).abs().max())
    # Options are set in a chain as well.
    poptorch.Options().deviceIterations(20).replicationFactor(2).randomSeed(123).useIpuModel(True)
    print(json.dumps(result))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) / "classifier.pt")
