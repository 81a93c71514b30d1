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

    def forward(self, x, labels=None):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.norm(torch.relu(self.conv2(x)))
        x = torch.relu(self.fc1(torch.flatten(x, start_dim=1)))
        x = torch.log_softmax(self.fc2(x), dim=1)
        return x if labels is None else (x, self.loss(x, labels))


class PipeliningCnn(nn.Sequential):
    """The CNN of the pipelining tutorial: 28x28 grey images, 10 classes."""

    def __init__(self):
        super().__init__(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2),
                         nn.ReLU(), nn.Flatten(), nn.Linear(320, 256), nn.ReLU(), nn.Linear(256, 10))


class Mlp(nn.Sequential):
    """Three linear layers over 784 features."""

    def __init__(self, width=1024):
        super().__init__(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


class WithLoss(nn.Module):
    """A network together with its loss: the cross entropy, unless told otherwise."""

    def __init__(self, network, loss=None):
        super().__init__()
        self.network = network
        self.loss = loss or nn.CrossEntropyLoss()

    def forward(self, *arguments):
        *inputs, labels = arguments
        x = self.network(*inputs)
        return x, self.loss(x, labels)


def resnet18():
    return WithLoss(torchvision.models.resnet18())


def resnet50():
    return WithLoss(torchvision.models.resnet50())


class GptLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, mask):
        batch, time, width = x.shape
        q, k, v = (part.view(batch, time, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        weights = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.drop(self.projection((weights @ v).transpose(1, 2).reshape(batch, time, width)))
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.norm2(x)))))


class Gpt(nn.Module):
    """A decoder of transformer layers with its loss over the next tokens."""

    def __init__(self, layers=12, width=768, heads=12, tokens=4096, length=64):
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(GptLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).triu(1))
        self.register_buffer("order", torch.arange(length))

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.places(self.order)
        for layer in self.layers:
            x = layer(x, self.mask)
        logits = self.norm(x) @ self.tokens.weight.t()
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class EncoderLayer(nn.Module):
    """A transformer encoder's layer as BERT has it: attention over all tokens, then two linear layers."""

    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.projection = (nn.Linear(width, width) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (part(x).view(batch, time, self.heads, width // self.heads).transpose(1, 2)
                   for part in (self.query, self.key, self.value))
        weights = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(-1)
        x = self.norm1(x + self.projection((weights @ v).transpose(1, 2).reshape(batch, time, width)))
        return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))


def encoder(layers, width, heads, inner):
    return nn.Sequential(*(EncoderLayer(width, heads, inner) for _ in range(layers)))


class Lstm(nn.Module):
    """One layer over sequences, batch first."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.LSTM(width, width, batch_first=True)

    def forward(self, x):
        return self.layer(x)[0]


class Dlrm(nn.Module):
    """A recommender: features from tables and from an MLP meet in dot products, another MLP makes a logit of them."""

    def __init__(self, tables=8, rows=20000, width=32, dense=13):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(dense, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear((tables + 1) ** 2 + width, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(),
                                 nn.Linear(64, 1))

    def forward(self, x, indices):
        x = self.bottom(x)
        features = torch.stack([x] + [table(indices[:, n]) for n, table in enumerate(self.tables)], 1)
        products = features @ features.transpose(1, 2)
        return self.top(torch.cat((x, products.flatten(1)), 1)).squeeze(1)


class ManyOps(nn.Module):
    """A chain of distinct ops, 2 for each number."""

    def __init__(self, count):
        super().__init__()
        self.count = count
        self.weight = nn.Parameter(torch.ones(16))

    def forward(self, x):
        x = x * self.weight
        for i in range(self.count // 2):
            x = torch.sin(x * (1 + i / self.count))
        return x.mean()


class ManyConstants(nn.Module):
    """A chain of ops that each have a constant of their own, all of one type."""

    def __init__(self, count):
        super().__init__()
        self.count = count
        self.weight = nn.Parameter(torch.ones(256))

    def forward(self, x):
        x = x * self.weight
        generator = torch.Generator().manual_seed(0)
        for _ in range(self.count):
            x = x + torch.rand(256, generator=generator)  # lies where the one before it lay
        return x.mean()


class Recurrent(nn.Module):
    """One of torch's recurrent layers over 32 features."""

    def __init__(self, kind, **settings):
        super().__init__()
        self.layer = getattr(nn, kind)(32, 32, **settings)

    def forward(self, x):
        return self.layer(x)[0].square().mean()


class Ctc(nn.Module):
    """A layer and the CTC loss over its 20 classes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 20)

    def forward(self, x, targets, lengths, target_lengths):
        return nn.functional.ctc_loss(self.layer(x).log_softmax(-1), targets, lengths, target_lengths)
