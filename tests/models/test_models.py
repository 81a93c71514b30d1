"""Small models trained 20 steps beside eager PyTorch, from the same weights and batches."""

import copy

import poptorch
import pytest
import torch
import torchvision
from torch import nn
from tutorial import TutorialCNN

STEPS = 20
LOSS_TOLERANCE = 1e-4  # relative: rounding of sums in another order, grown over the steps
PARAMETER_TOLERANCE = 1e-3


class ClassifierWithLoss(nn.Module):
    """Any classifier of pictures, with cross entropy."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels):
        logits = self.model(x)
        return logits, self.loss(logits, labels)


class Tagger(nn.Module):
    """Words to tags: embedding, bidirectional LSTM, linear."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 24, num_layers=2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(48, 7)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, words, tags):
        hidden, _ = self.lstm(self.embedding(words))
        logits = self.tags(hidden)
        return logits, self.loss(logits.reshape(-1, 7), tags.reshape(-1))


class Encoder(nn.Module):
    """A transformer encoder of two layers over token embeddings, classifying the mean."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 32)
        layer = nn.TransformerEncoderLayer(32, nhead=4, dim_feedforward=64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.classes = nn.Linear(32, 5)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, tokens, labels):
        logits = self.classes(self.encoder(self.embedding(tokens)).mean(dim=1))
        return logits, self.loss(logits, labels)


def pictures(channels, size, classes, batch):
    return lambda g: (torch.randn(batch, channels, size, size, generator=g), torch.randint(classes, (batch,), generator=g))


def tokens(vocabulary, length, labels, label_shape, batch):
    return lambda g: (
        torch.randint(vocabulary, (batch, length), generator=g),
        torch.randint(labels, (batch, *label_shape), generator=g),
    )


CASES = {
    "tutorial_cnn": (TutorialCNN, pictures(1, 28, 10, 16), lambda p: torch.optim.SGD(p, lr=0.001, momentum=0.9)),
    "lstm_tagger": (Tagger, tokens(50, 9, 7, (9,), 6), lambda p: torch.optim.Adam(p, lr=0.001)),
    "transformer": (Encoder, tokens(40, 11, 5, (), 6), lambda p: torch.optim.AdamW(p, lr=0.001)),
}


def batches_of(make_batch, steps=STEPS):
    generator = torch.Generator().manual_seed(11)
    return [make_batch(generator) for _ in range(steps)]


def train_eagerly(model, optimizer, batches):
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = model(*batch)[1]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", CASES)
def test_trains_like_eager_pytorch(name):
    make_model, make_batch, make_optimizer = CASES[name]
    torch.manual_seed(7)
    model = make_model().train()
    reference = copy.deepcopy(model)
    batches = batches_of(make_batch)
    expected = train_eagerly(reference, make_optimizer(reference.parameters()), batches)
    options = poptorch.Options().showCompilationProgressBar(False)
    executor = poptorch.trainingModel(model, options, make_optimizer(model.parameters()))
    losses = [executor(*batch)[1].item() for batch in batches]
    for step, (loss, wanted) in enumerate(zip(losses, expected)):
        assert abs(loss - wanted) <= LOSS_TOLERANCE * abs(wanted), f"step {step}: loss {loss}, eager {wanted}"
    trained, wanted = model.state_dict(), reference.state_dict()
    assert trained.keys() == wanted.keys()
    for key, value in wanted.items():
        torch.testing.assert_close(
            trained[key], value, rtol=PARAMETER_TOLERANCE, atol=PARAMETER_TOLERANCE, msg=lambda t, k=key: f"{k}: {t}"
        )


def flat(tensors):
    return torch.cat([tensor.detach().double().flatten() for tensor in tensors])


def errors_of_resnet18(seed):
    """How far 3 updates leave our parameters and those of eager float32 from eager float64, and how far they moved."""
    torch.manual_seed(seed)
    model = ClassifierWithLoss(torchvision.models.resnet18(num_classes=10)).train()
    single, double = copy.deepcopy(model), copy.deepcopy(model).double()
    start = flat(double.parameters())
    batches = batches_of(pictures(3, 64, 10, 8), steps=3)

    def optimizer_of(trained):
        return torch.optim.SGD(trained.parameters(), lr=0.001, momentum=0.9)

    train_eagerly(single, optimizer_of(single), batches)
    train_eagerly(double, optimizer_of(double), [(x.double(), y) for x, y in batches])
    executor = poptorch.trainingModel(model, poptorch.Options().showCompilationProgressBar(False), optimizer_of(model))
    for batch in batches:
        executor(*batch)
    exact = flat(double.parameters())
    ours, eager = ((flat(trained.parameters()) - exact).norm().item() for trained in (model, single))
    return ours, eager, (exact - start).norm().item()


def test_resnet18_is_as_right_as_eager_pytorch():
    """At a real rate this network blows up rounding: one relu that flips changes the gradient of a layer by 1 %. So eager
    float32 is no measure of us; both are held against float64. Most runs meet a flip, ours or eager's as chance will have
    it, and errors spread over three powers of ten: it takes several of them to tell."""
    runs = [errors_of_resnet18(seed) for seed in range(7, 19)]
    assert all(moved > 10 * ours for ours, _, moved in runs), runs  # flip or not, it trains the same network
    assert sum(ours <= 2 * eager for ours, eager, _ in runs) >= 8, runs
    ours, eager, _ = torch.tensor(runs, dtype=torch.float64).log().mean(0).exp()
    assert ours <= 2 * eager, runs


def losses_of_resnet18(seed):
    """20 steps at a real rate: our losses, those of eager float32 and of eager float64."""
    torch.manual_seed(seed)
    model = ClassifierWithLoss(torchvision.models.resnet18(num_classes=10)).train()
    single, double = copy.deepcopy(model), copy.deepcopy(model).double()
    batches = batches_of(pictures(3, 48, 10, 8))

    def optimizer_of(trained):
        return torch.optim.SGD(trained.parameters(), lr=0.01, momentum=0.9)

    executor = poptorch.trainingModel(model, poptorch.Options().showCompilationProgressBar(False), optimizer_of(model))
    ours = [executor(*batch)[1].item() for batch in batches]
    eager = train_eagerly(single, optimizer_of(single), batches)
    exact = train_eagerly(double, optimizer_of(double), [(x.double(), y) for x, y in batches])
    return ours, eager, exact


def test_resnet18_drifts_from_float64_no_faster_than_eager_pytorch():
    """Rounding grows tenfold a step until it is as large as the differences between batches. A relu that flips sets that
    clock forward, for us or for eager as chance will have it: up to 3 steps are granted at each step, none over a whole
    run. Of 40 runs all hold that, and so does eager beside itself with the batch in another order; with its other
    convolutions it does in 38."""
    errors = torch.tensor([losses_of_resnet18(seed) for seed in (0, 1)], dtype=torch.float64)
    ours, eager = ((errors[:, which] - errors[:, 2]).pow(2) for which in (0, 1))
    assert (ours.mean(1).sqrt() <= 2 * eager.mean(1).sqrt()).all(), (ours, eager)
    # Root mean square over the runs and all steps so far.
    ours, eager = (squares.mean(0).cumsum(0).div(torch.arange(1, STEPS + 1)).sqrt() for squares in (ours, eager))
    for step in range(STEPS):
        assert ours[step] <= 2 * eager[min(step + 3, STEPS - 1)], (step, ours, eager)
    assert ours[0] <= 1e-6 and errors[:, 2].std(1).min() > 0.1  # it begins at rounding, and the network moves
