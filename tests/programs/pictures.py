"""Fashion-MNIST from the Debian package dataset-fashion-mnist, for the programs beside this file."""
import gzip
import pathlib

import numpy
import torch
import torchvision

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")
CLASSES = 10


class Pictures(torch.utils.data.Dataset):
    """The first `count` pictures as (1, 28, 28) tensors around zero, with their class."""

    def __init__(self, train, count):
        name = "train" if train else "t10k"
        pixels = gzip.decompress((FOLDER / f"{name}-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress((FOLDER / f"{name}-labels-idx1-ubyte.gz").read_bytes())
        self.pictures = numpy.frombuffer(pixels, numpy.uint8, offset=16).reshape(-1, 28, 28)[:count].copy()
        self.labels = numpy.frombuffer(labels, numpy.uint8, offset=8)[:count].astype(numpy.int64)
        self.transform = torchvision.transforms.Compose(
            [torchvision.transforms.ToTensor(), torchvision.transforms.Normalize((0.5,), (0.5,))])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(self.pictures[index]), int(self.labels[index])
