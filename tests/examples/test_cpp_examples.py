"""The C++ examples beside the same programs in Python: from the same weights and data they give the same bits."""
import gzip
import math
import pathlib
import subprocess

import numpy
import pytest
import torch

import poptorch

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "build" / "release" / "examples"
PICTURES = pathlib.Path("/usr/share/datasets/fashion-mnist")


def run(name, *arguments):
    """What the example prints."""
    command = [EXAMPLES / name, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert result.returncode == 0, result.stderr
    return result.stdout


def save_for_cpp(module, path):
    """torch::load of C++ reads scripted modules; only the tensors matter."""

    def tensors_alone(original):
        made = torch.nn.Module()
        for name, parameter in original._parameters.items():
            made.register_parameter(name, parameter)
        for name, child in original._modules.items():
            made.add_module(name, tensors_alone(child))
        return made

    torch.jit.script(tensors_alone(module)).save(str(path))


def assert_same_weights(module, path):
    saved = dict(torch.jit.load(str(path)).named_parameters())
    assert saved.keys() == dict(module.named_parameters()).keys()
    for name, parameter in module.named_parameters():
        assert torch.equal(saved[name], parameter), name


# -- a network for pictures, one device -----------------------------------------------------------------------------
class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 5, 3)
        self.conv2 = torch.nn.Conv2d(5, 12, 5)
        self.norm = torch.nn.GroupNorm(3, 12)
        self.fc1 = torch.nn.Linear(972, 100)
        self.fc2 = torch.nn.Linear(100, 10)

    def forward(self, x, labels=None):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = self.norm(torch.relu(self.conv2(x))).flatten(1)
        y = torch.log_softmax(self.fc2(torch.relu(self.fc1(x))), 1)
        return y if labels is None else (y, torch.nn.functional.nll_loss(y, labels))


def pictures(part, count):
    images = numpy.frombuffer(gzip.open(PICTURES / f"{part}-images-idx3-ubyte.gz").read(), numpy.uint8, offset=16)
    labels = numpy.frombuffer(gzip.open(PICTURES / f"{part}-labels-idx1-ubyte.gz").read(), numpy.uint8, offset=8)
    images = torch.tensor(images.reshape(-1, 1, 28, 28)[:count]).float() / 127.5 - 1
    return images, torch.tensor(labels[:count]).long()


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def test_fashion_mnist(tmp_path):
    torch.manual_seed(3)
    model = Classifier()
    save_for_cpp(model, tmp_path / "before.pt")
    run("fashion_mnist", "--epochs", 2, "--images", 2000, "--load", tmp_path / "before.pt", "--save", tmp_path / "after.pt")
    images, labels = pictures("train", 2000)
    options = quiet().deviceIterations(25).outputMode(poptorch.OutputMode.Sum)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    trainer = poptorch.trainingModel(model, options, optimizer)
    torch.manual_seed(7)
    for _ in range(2):
        for chosen in torch.randperm(2000).split(400):
            trainer(images[chosen], labels[chosen])
    assert_same_weights(model, tmp_path / "after.pt")


# -- training and evaluation share the weights ----------------------------------------------------------------------
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "resumed"])
def test_train_and_evaluate(tmp_path, at_once):
    for epochs in ([2] if at_once else [1, 2]):
        printed = run("train_and_evaluate", "--epochs", epochs, "--images", 2000, "--checkpoint", tmp_path / "kept")
    torch.manual_seed(42)
    model = Classifier()
    images, labels = pictures("train", 2000)
    test_images, test_labels = pictures("t10k", 10000)
    options = quiet().deviceIterations(25).outputMode(poptorch.OutputMode.Sum)
    trainer = poptorch.trainingModel(model, options, poptorch.optim.AdamW(model.parameters(), lr=1e-3))
    classifier = poptorch.inferenceModel(model, quiet().deviceIterations(25))
    for epoch in (1, 2):
        torch.manual_seed(epoch)
        for chosen in torch.randperm(2000).split(400):
            trainer(images[chosen], labels[chosen])
        rows = range(0, 10000, 1250)
        guesses = torch.cat([classifier(test_images[row : row + 1250]).argmax(1) for row in rows])
        accuracy = 100 * guesses.eq(test_labels).float().mean().item()
    assert printed.split("\n")[-2] == f"epoch 2: {accuracy:.2f}%"
    assert_same_weights(model, tmp_path / "kept" / "weights.pt")


# -- a pipelined, replicated transformer in half --------------------------------------------------------------------
TOKENS, LENGTH, WIDTH, HEADS = 16, 8, 32, 4
BATCH, ACCUMULATION, REPLICAS = 4, 4, 2


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def attention(self, x):
        parts = self.qkv(x).view(x.shape[0], LENGTH, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        mixed = torch.softmax(scores, -1) @ parts[2]
        return self.out(mixed.transpose(1, 2).reshape(x.shape[0], LENGTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(TOKENS, WIDTH)
        self.places = torch.nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.layer1, self.layer2 = Layer(), Layer()
        self.head = torch.nn.Linear(WIDTH, TOKENS)

    def forward(self, x, wanted):
        with poptorch.Block("first", ipu_id=0):
            x = self.layer1(self.tokens(x) + self.places)
        with poptorch.Block("second", ipu_id=1):
            scores = self.head(self.layer2(x))
            loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1).float(), wanted.flatten())
        return scores, loss


def test_transformer(tmp_path):
    torch.manual_seed(5)
    model = Transformer()
    save_for_cpp(model, tmp_path / "before.pt")
    printed = run("transformer", "--steps", 20, "--load", tmp_path / "before.pt", "--save", tmp_path / "after.pt")
    model.half()
    options = quiet().replicationFactor(REPLICAS).outputMode(poptorch.OutputMode.Sum)
    options.setExecutionStrategy(poptorch.PipelinedExecution("first", "second"))
    options.Training.gradientAccumulation(ACCUMULATION)
    options.TensorLocations.setOptimizerLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=2e-3, eps=1e-6, loss_scaling=128)
    trainer = poptorch.trainingModel(model, options, optimizer)
    torch.manual_seed(2)
    losses = []
    for _ in range(20):
        x = torch.randint(0, TOKENS, (BATCH * ACCUMULATION * REPLICAS, LENGTH))
        _, loss = trainer(x, x.flip(1))
        losses.append(loss.sum().item() / (ACCUMULATION * REPLICAS))
    assert printed.split() == [f"{loss:.9g}" for loss in losses]
    assert_same_weights(model, tmp_path / "after.pt")
    assert losses[-1] < losses[0]


# -- a data set of one's own ----------------------------------------------------------------------------------------
class Plane(torch.utils.data.Dataset):
    def __len__(self):
        return 333

    def __getitem__(self, index):
        x = torch.tensor([index, index * index % 97], dtype=torch.float) / torch.tensor([333.0, 97.0])
        return x, 3 * x[0:1] - 2 * x[1:2] + 1


class Regression(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 1)

    def forward(self, x, y):
        guess = self.linear(x)
        return guess, torch.nn.functional.mse_loss(guess, y)


@pytest.mark.parametrize("mode", [poptorch.DataLoaderMode.Sync, poptorch.DataLoaderMode.AsyncRebatched])
def test_own_dataset(tmp_path, mode):
    torch.manual_seed(9)
    model = Regression()
    save_for_cpp(model, tmp_path / "before.pt")
    word = {poptorch.DataLoaderMode.Sync: "sync", poptorch.DataLoaderMode.AsyncRebatched: "rebatched"}[mode]
    printed = run("own_dataset", "--epochs", 4, "--seed", 6, "--mode", word, "--load", tmp_path / "before.pt",
                  "--save", tmp_path / "after.pt")
    options = quiet().deviceIterations(4).randomSeed(6)
    loader = poptorch.DataLoader(options, Plane(), batch_size=5, shuffle=True, num_workers=2, mode=mode,
                                 async_options={"sharing_strategy": poptorch.SharingStrategy.Fork})
    trainer = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(4):
        for x, y in loader:
            loss = trainer(x, y)[1].mean().item()
    loader.terminate()
    assert printed.split("\n")[-2] == f"epoch 4: 16 items, loss {loss:.6f}"
    assert_same_weights(model, tmp_path / "after.pt")
