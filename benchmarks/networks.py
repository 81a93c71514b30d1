"""The networks the benchmarks measure."""
import torch
import torchvision
from torch import nn


class TutorialCnn(nn.Module):
    """The CNN of the basics tutorial: 28x28 grey images, 10 classes."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 5, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(5, 12, 5)
        self.norm = nn.GroupNorm(3, 12)
        self.fc1 = nn.Linear(972, 100)
        self.fc2 = nn.Linear(100, 10)
        self.loss = nn.NLLLoss()

    def forward(self, x, labels):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.norm(torch.relu(self.conv2(x)))
        x = torch.relu(self.fc1(torch.flatten(x, start_dim=1)))
        x = torch.log_softmax(self.fc2(x), dim=1)
        return x, self.loss(x, labels)


class WithLoss(nn.Module):
    """A classifier together with its cross entropy."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels):
        x = self.network(x)
        return x, self.loss(x, labels)


def resnet18():
    return WithLoss(torchvision.models.resnet18())
