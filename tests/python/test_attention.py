"""Attention as one op: layers as users write them beside eager PyTorch, and what of them runs fused."""

import copy
import math
import os
import re

import poptorch
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from support.models import FunctionModel, quiet, train
from support.tensors import normal

BLOCKED = torch.ones(7, 7, dtype=torch.bool).triu(1)
PADDED = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
LEFT = PADDED.flip(1)
BLIND = BLOCKED | LEFT[:, None, None, :]  # the first rows of the second sample see nothing


def final_graph(folder):
    """The graph after the last pass."""
    return max(folder.iterdir()).read_text()


def run(model, inputs, folder, monkeypatch):
    """The results of a model in inference and the graph it runs as."""
    monkeypatch.setenv("ASPEN_DUMP", str(folder))
    model.eval()
    wrapped = poptorch.inferenceModel(model, quiet())
    results = wrapped(*inputs)
    wrapped.destroy()
    return results, final_graph(folder)


def count(graph, op):
    return len(re.findall(rf" = {op}\(", graph))


class Heads(nn.Module):
    """Attention written by hand; `scale_scores`, `mask_scores`: what is done to the scores."""

    def __init__(self, width=24, heads=3, scale_first=False, mask_scores=None):
        super().__init__()
        torch.manual_seed(5)
        self.heads, self.scale_first, self.mask_scores = heads, scale_first, mask_scores
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def apart(self, x):
        return x.view(*x.shape[:2], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, memory, *mask):
        q, k, v = self.apart(self.query(x)), self.apart(self.key(memory)), self.apart(self.value(memory))
        scale = 1 / math.sqrt(q.size(-1))
        scores = (q * scale) @ k.transpose(-1, -2) if self.scale_first else q @ k.transpose(-1, -2) * scale
        if self.mask_scores is not None:
            scores = self.mask_scores(scores, *mask)
        return self.out((scores.softmax(-1) @ v).permute(0, 2, 1, 3).flatten(2))


class Layer(nn.Module):
    """torch's own."""

    def __init__(self, need_weights=False, **options):
        super().__init__()
        torch.manual_seed(5)
        self.layer = nn.MultiheadAttention(24, 3, **options)
        self.need_weights = need_weights

    def forward(self, x, memory, mask=None, padding=None):
        y, weights = self.layer(x, memory, memory, need_weights=self.need_weights, attn_mask=mask,
                                key_padding_mask=padding)
        return (y, weights) if self.need_weights else y


def added(scores, mask):
    return scores + mask


def hidden(scores, mask):
    return scores.masked_fill(mask, float("-inf"))


def chosen(scores, mask):
    return torch.where(mask, scores, torch.tensor(-1e4))


X, MEMORY = normal(2, 7, 24), normal(2, 9, 24)
FUSED = {
    "by hand": (Heads(), [X, X]),
    "across": (Heads(scale_first=True), [X, MEMORY]),
    "a mask for all": (Heads(mask_scores=added), [X, X, normal(7, 7)]),
    "a mask by key": (Heads(mask_scores=added), [X, X, normal(2, 1, 1, 7)]),
    "a mask by head": (Heads(mask_scores=added), [X, MEMORY, normal(3, 7, 9)]),
    "what came before": (Heads(mask_scores=hidden), [X, X, BLOCKED]),
    "padding": (Heads(mask_scores=hidden), [X, X, PADDED[:, None, None, :]]),
    "chosen": (Heads(mask_scores=chosen), [X, X, ~BLOCKED]),
    "one sample": (Heads(mask_scores=added), [X[:1], MEMORY[:1], normal(1, 1, 1, 9)]),
    "one query": (Heads(), [X[:, :1], MEMORY]),
    "one head": (Heads(heads=1), [X, MEMORY]),
    "layer": (Layer(), [X, X]),
    "layer, across": (Layer(), [X[:, :1], MEMORY[:, :1]]),
    "layer, batch first": (Layer(batch_first=True, dropout=0.1), [X, MEMORY]),
    "layer, one sample": (Layer(), [X[0], MEMORY[0]]),
    "layer, what came before": (Layer(batch_first=True), [X, X, BLOCKED]),
    "layer, a mask of numbers": (Layer(batch_first=True), [X, X, normal(7, 7)]),
    "layer, a mask by head": (Layer(batch_first=True), [X, X, normal(6, 7, 7)]),
    "layer, padding": (Layer(batch_first=True), [X, X, None, PADDED]),
    "layer, both": (Layer(batch_first=True), [X, X, BLOCKED, PADDED]),
    "function": (FunctionModel(lambda _, q, k, v: F._scaled_dot_product_attention(q, k, v, is_causal=True)[0]),
                 [normal(2, 3, 7, 8), normal(2, 3, 9, 8), normal(2, 3, 9, 5)]),
}


@pytest.mark.parametrize("name", FUSED)
def test_it_is_one_op_and_matches_eager(name, tmp_path, monkeypatch):
    model, inputs = FUSED[name]
    result, graph = run(model, inputs, tmp_path, monkeypatch)
    torch.testing.assert_close(result, model(*inputs), rtol=1e-4, atol=1e-5)
    assert count(graph, "attention") == 1 and count(graph, "softmax") == 0


@pytest.mark.parametrize("name", [name for name in FUSED if "layer" not in name and name != "function"])
def test_heads_are_not_moved(name, tmp_path, monkeypatch):
    _, graph = run(*FUSED[name], tmp_path, monkeypatch)
    assert count(graph, "transpose") == 0


def test_a_row_without_keys_has_no_numbers(tmp_path, monkeypatch):
    mask = torch.zeros(7, 7, dtype=torch.bool)
    mask[2] = True
    model, inputs = Heads(mask_scores=hidden), [X, X, mask]
    result, graph = run(model, inputs, tmp_path, monkeypatch)
    torch.testing.assert_close(result, model(*inputs), rtol=1e-4, atol=1e-5, equal_nan=True)
    assert result[:, 2].isnan().all() and not result[:, 3:].isnan().any() and count(graph, "attention") == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("model,mask", [(Heads(), []), (Heads(mask_scores=added), [normal(2, 1, 1, 9)])])
def test_narrow_numbers_are_rounded_once(dtype, model, mask, tmp_path, monkeypatch):
    inputs = [value.to(dtype) for value in [X, MEMORY, *mask]]
    narrow = Heads(mask_scores=model.mask_scores).to(dtype)
    result, graph = run(narrow, inputs, tmp_path, monkeypatch)
    expected = narrow.float()(*(value.float() for value in inputs))
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(result.float(), expected, rtol=4 * step, atol=4 * step)
    assert result.dtype == dtype and count(graph, "attention") == 1


def test_weights_that_are_asked_for_stay(tmp_path, monkeypatch):
    model = Layer(need_weights=True)
    result, graph = run(model, [X, X], tmp_path, monkeypatch)
    for ours, expected in zip(result, model(X, X)):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
    assert count(graph, "attention") == 0


class Trained(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model.train()

    def forward(self, *inputs):
        y = self.model(*inputs)
        return y, poptorch.identity_loss(y.square().mean(), reduction="none")


def train_eager(model, inputs, steps):
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
    for _ in range(steps):
        optimizer.zero_grad()
        losses.append(model(*inputs)[1])
        losses[-1].backward()
        optimizer.step()
    return losses


def in_double(values):
    return [value.double() if value is not None and value.is_floating_point() else value for value in values]


def train_beside_eager(model, inputs, folder, monkeypatch, in_double_too=True):
    """Ten steps as one op, which match those of eager, in double, too, unless that is another result."""
    monkeypatch.setenv("ASPEN_DUMP", str(folder))
    model, eager, exact = (Trained(copy.deepcopy(model)) for _ in range(3))
    trainer = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.5))
    losses = [trainer(*inputs)[1] for _ in range(10)]
    trainer.copyWeightsToHost()
    trainer.destroy()
    expected = [(eager, train_eager(eager, inputs, 10))]
    if in_double_too:
        expected.append((exact, train_eager(exact.double(), in_double(inputs), 10)))
    for weights, wanted_losses in expected:
        for ours, wanted in zip(losses, wanted_losses):
            torch.testing.assert_close(ours, wanted.detach().float(), rtol=1e-5, atol=1e-6)
        for ours, wanted in zip(model.parameters(), weights.parameters()):
            torch.testing.assert_close(ours, wanted.float(), rtol=1e-4, atol=2e-6)
    graph = final_graph(folder)
    assert count(graph, "attention") == count(graph, "attention_grad") == 1 and count(graph, "softmax") == 0


# Of those with weights and without dropout.
TRAINED = [name for name in FUSED if name not in ("layer, batch first", "function")]


@pytest.mark.parametrize("name", TRAINED)
def test_ten_steps_of_training_match_eager_in_float_and_double(name, tmp_path, monkeypatch):
    train_beside_eager(*FUSED[name], tmp_path, monkeypatch)


FILLS = [-1e4, -1e9, torch.finfo(torch.float32).min]


@pytest.mark.parametrize("fill", FILLS)
def test_rows_that_see_nothing_are_trained_as_in_eager(fill, tmp_path, monkeypatch):
    model = Heads(mask_scores=lambda scores, mask: scores.masked_fill(mask, fill))
    train_beside_eager(model, [X, X, BLIND], tmp_path, monkeypatch)


# Beside a mask that is added float rounds scores away, where double does not.
@pytest.mark.parametrize("fill", FILLS)
def test_rows_that_see_nothing_because_of_a_sum_are_trained_as_in_eager(fill, tmp_path, monkeypatch):
    model, mask = Heads(mask_scores=added), BLIND * torch.tensor(fill)
    train_beside_eager(model, [X, X, mask], tmp_path, monkeypatch, in_double_too=fill == FILLS[-1])


def test_a_layer_that_sees_neither_padding_nor_what_comes_is_trained_as_in_eager(tmp_path, monkeypatch):
    mask = torch.full((7, 7), -1e9).triu(1)
    train_beside_eager(Layer(batch_first=True), [X, X, mask, LEFT], tmp_path, monkeypatch, in_double_too=False)


def all_but_one(fill):
    return torch.where(torch.arange(9) == 4, torch.tensor(0.0), torch.tensor(fill))


# Of one key that has all the weight.
ONE_KEY = {
    "alone": (Heads(), [X, MEMORY[:, :1]]),
    "alone, for one query": (Heads(), [X[:, :1], MEMORY[:, :1]]),
    "filled": (Heads(mask_scores=lambda scores, mask: scores.masked_fill(mask, -1e9)), [X, MEMORY, all_but_one(1) > 0]),
    "filled with infinity": (Heads(mask_scores=hidden), [X, MEMORY, all_but_one(1) > 0]),
    "added": (Heads(mask_scores=added), [X, MEMORY, all_but_one(-1e9)]),
    "saturated": (Heads(mask_scores=added), [X, MEMORY, all_but_one(-1e3)]),
}


@pytest.mark.parametrize("name", ONE_KEY)
def test_weights_that_have_no_gradient_stay_where_adam_finds_them(name, tmp_path, monkeypatch):
    monkeypatch.setenv("ASPEN_DUMP", str(tmp_path))
    model, inputs = Trained(copy.deepcopy(ONE_KEY[name][0])), ONE_KEY[name][1]
    before = copy.deepcopy(model.model)
    trainer = poptorch.trainingModel(model, quiet(), poptorch.optim.Adam(model.parameters(), lr=0.01))
    for _ in range(10):
        trainer(*inputs)
    trainer.copyWeightsToHost()
    trainer.destroy()
    for layer in ("query", "key"):
        for ours, wanted in zip(getattr(model.model, layer).parameters(), getattr(before, layer).parameters()):
            assert torch.equal(ours, wanted), layer
    assert not torch.equal(model.model.value.weight, before.value.weight)
    assert count(final_graph(tmp_path), "attention_grad") == 1


class Biased(nn.Module):
    """A mask that is trained."""

    def __init__(self):
        super().__init__()
        self.heads = Heads(mask_scores=added)
        self.bias = nn.Parameter(normal(3, 7, 7))

    def forward(self, x, memory):
        return self.heads(x, memory, self.bias)


def test_a_mask_that_is_trained_leaves_the_ops_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("ASPEN_DUMP", str(tmp_path))
    model = Trained(Biased())
    eager = copy.deepcopy(model)
    trainer = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.5))
    for wanted in train_eager(eager, [X, X], 3):
        torch.testing.assert_close(trainer(X, X)[1], wanted.detach(), rtol=1e-4, atol=1e-5)
    trainer.destroy()
    assert count(final_graph(tmp_path), "attention") == 0


class Hooked(nn.Module):
    """Hooks on the gradients of what stands between the weights and the products, one of them of all three operands."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.query, self.shared = nn.Parameter(normal(2, 7, 24)), nn.Parameter(normal(2, 7, 3, 8))

    def forward(self, x):
        q = self.query.view(2, 7, 3, 8).permute(0, 2, 1, 3)
        q.register_hook(lambda gradient: gradient * 0.5)
        q = q * 0.7
        q.register_hook(lambda gradient: gradient + 0.25)
        shared = self.shared.permute(0, 2, 1, 3)
        shared.register_hook(lambda gradient: gradient * 0.3)
        y = (q @ shared.mT).softmax(-1) @ shared
        z = (shared @ shared.mT).softmax(-1) @ shared
        y.register_hook(lambda gradient: gradient * 2)
        return y * x + z


def test_hooks_on_the_way_to_attention_are_called_with_all_of_their_gradients(tmp_path, monkeypatch):
    monkeypatch.setenv("ASPEN_DUMP", str(tmp_path))
    model, x = Trained(Hooked()), normal(8)
    eager = copy.deepcopy(model)
    trainer = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.5))
    for wanted in train_eager(eager, [x], 10):
        torch.testing.assert_close(trainer(x)[1], wanted.detach(), rtol=1e-5, atol=1e-6)
    trainer.copyWeightsToHost()
    trainer.destroy()
    for ours, wanted in zip(model.parameters(), eager.parameters()):
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=2e-6)
    assert count(final_graph(tmp_path), "attention") == 2


def dropping(q, k, v):
    return F.dropout((q @ k.transpose(-1, -2)).softmax(-1), 0.5) @ v


def test_weights_that_drop_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("ASPEN_DUMP", str(tmp_path))
    model = Trained(FunctionModel(lambda self, x: dropping(self.m0(x), x, x), nn.Linear(24, 24)))
    trainer = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.5))
    trainer(X)
    trainer.destroy()
    assert count(final_graph(tmp_path), "attention") == 0


def test_scores_that_are_anchored_are_there_in_training():
    model = Trained(Heads())
    trainer = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.0))
    trainer.compile(X, X)
    name = next(name for name in trainer.getTensorNames() if "softmax" in name)
    trainer.destroy()
    options = quiet()
    options.anchorTensor("weights", name)
    trainer = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.0))
    trainer(X, X)
    weights = trainer.getAnchoredTensor("weights")
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 7))
    trainer.destroy()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two threads need two cpus")
def test_the_bits_do_not_depend_on_threads(monkeypatch):
    x = normal(4, 130, 48)
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("ASPEN_NUM_THREADS", threads)
        model = poptorch.inferenceModel(Heads(48, 4, mask_scores=hidden).eval(), quiet())
        results.append(model(x, x, torch.ones(130, 130, dtype=torch.bool).triu(1)))
        model.destroy()
    assert torch.equal(*results)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two threads need two cpus")
def test_the_bits_of_training_do_not_depend_on_threads(monkeypatch):
    x, mask = normal(4, 200, 48), torch.ones(200, 200, dtype=torch.bool).triu(1)
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("ASPEN_NUM_THREADS", threads)
        model = Trained(Heads(48, 3, mask_scores=hidden))
        results.append(train(model, quiet(), (x, x, mask))[1])
    for name, weight in results[0].items():
        assert torch.equal(weight, results[1][name]), name
