"""The models that `./dev bench models` measures."""
from dataclasses import dataclass
from typing import Callable

import networks
import torch
import torchvision
from torch import nn


@dataclass
class ModelCase:
    name: str
    network: Callable  # () -> what is run in inference
    inputs: Callable  # batch -> its inputs, without labels
    labels: Callable  # batch -> its labels
    batch: int  # of training
    optimizer: str = "SGD"  # with momentum 0.9; or "AdamW"
    with_loss: Callable = networks.WithLoss  # network -> what is trained
    is_sparse: bool = False  # reads few of its parameters


def images(channels, size):
    return lambda batch: [torch.randn(batch, channels, size, size)]


def classes(count):
    return lambda batch: torch.randint(0, count, (batch,))


def sequences(length, width):
    return lambda batch: [torch.randn(batch, length, width)]


def same_as(inputs):
    return lambda batch: inputs(batch)[0]


def mean_square(network):
    return networks.WithLoss(network, nn.MSELoss())


def binary(network):
    return networks.WithLoss(network, nn.BCEWithLogitsLoss())


def recommendation(batch):
    return [torch.randn(batch, 13), torch.randint(0, 20000, (batch, 8))]


TOKENS_512, TOKENS_768, STEPS = sequences(128, 512), sequences(128, 768), sequences(64, 256)

CASES = [
    ModelCase("A: tutorial CNN", networks.TutorialCnn, images(1, 28), classes(10), 16,
              with_loss=lambda network: network),
    ModelCase("B: pipelining CNN", networks.PipeliningCnn, images(1, 28), classes(10), 40, "AdamW"),
    ModelCase("MLP", networks.Mlp, lambda batch: [torch.randn(batch, 784)], classes(10), 64),
    ModelCase("resnet18, 64", torchvision.models.resnet18, images(3, 64), classes(1000), 8),
    ModelCase("resnet18, 224", torchvision.models.resnet18, images(3, 224), classes(1000), 8),
    ModelCase("resnet50, 224", torchvision.models.resnet50, images(3, 224), classes(1000), 4),
    ModelCase("mobilenet_v2, 224", torchvision.models.mobilenet_v2, images(3, 224), classes(1000), 8),
    ModelCase("transformer block", lambda: networks.encoder(1, 512, 8, 2048), TOKENS_512, same_as(TOKENS_512), 8,
              "AdamW", mean_square),
    ModelCase("4 layers of BERT-base", lambda: networks.encoder(4, 768, 12, 3072), TOKENS_768, same_as(TOKENS_768), 4,
              "AdamW", mean_square),
    ModelCase("LSTM", lambda: networks.Lstm(256), STEPS, same_as(STEPS), 16, with_loss=mean_square),
    ModelCase("DLRM", networks.Dlrm, recommendation, lambda batch: torch.rand(batch), 128, with_loss=binary,
              is_sparse=True),
]
