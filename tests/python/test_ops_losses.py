"""Every loss with every reduction: values and gradients against eager PyTorch."""

import poptorch
import pytest
import torch
import torch.nn.functional as F
from support import compare
from support.compare import TRANSCENDENTAL, Case
from support.tensors import booleans, distinct, integers, normal, positive, uniform

X, Y = normal(5, 4), normal(5, 4)
P, BITS = uniform(0.1, 0.9, 5, 4), booleans(5, 4).float()
CLASSES = integers(0, 4, 5)
IGNORING = torch.tensor([1, -100, 3, 0, -100])
PICTURE, PICTURE_CLASSES = normal(2, 4, 3, 2), integers(0, 4, 2, 3, 2)
VOCABULARY, WORDS = normal(6, 1500) * 3, torch.tensor([3, 7, -100, 1499, 0, 7])
SIGNS = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
WEIGHT = positive(4)

# name: (function of (reduction, tensors...), inputs)
LOSSES = {
    "l1": (lambda r, x, y: F.l1_loss(x, y, reduction=r), [X, Y]),
    "mse": (lambda r, x, y: F.mse_loss(x, y, reduction=r), [X, Y]),
    "smooth_l1": (lambda r, x, y: F.smooth_l1_loss(x, y, reduction=r, beta=0.7), [X, Y]),
    "smooth_l1 beta 0": (lambda r, x, y: F.smooth_l1_loss(x, y, reduction=r, beta=0.0), [X, Y]),
    "huber": (lambda r, x, y: F.huber_loss(x, y, reduction=r, delta=0.7), [X, Y]),
    "bce": (lambda r, x, y: F.binary_cross_entropy(x, y.detach(), reduction=r), [P, BITS]),
    "bce weight": (lambda r, x, y, w: F.binary_cross_entropy(x, y.detach(), w.detach(), reduction=r),
        [P, BITS, positive(5, 4)]),
    "bce at the ends": (lambda r, x, y: F.binary_cross_entropy(x, y.detach(), reduction=r),
        [torch.tensor([0.0, 1.0, 0.5]), torch.tensor([1.0, 1.0, 0.0])]),
    "bce logits": (lambda r, x, y: F.binary_cross_entropy_with_logits(x, y.detach(), reduction=r), [X * 40, BITS]),
    "bce logits weights": (lambda r, x, y, w, p: F.binary_cross_entropy_with_logits(x, y.detach(), w.detach(),
        reduction=r, pos_weight=p.detach()),
                           [X, BITS, positive(5, 4), positive(4)]),
    "kl_div": (lambda r, x, y: F.kl_div(x.log_softmax(1), y.softmax(1).detach(), reduction=r), [X, Y]),
    "kl_div log": (lambda r, x, y: F.kl_div(x.log_softmax(1), y.log_softmax(1), reduction=r, log_target=True), [X, Y]),
    "poisson": (lambda r, x, y: F.poisson_nll_loss(x, y.detach(), reduction=r), [X, positive(5, 4) * 2]),
    "poisson full": (lambda r, x, y: F.poisson_nll_loss(x, y.detach(), log_input=False, full=True, reduction=r),
        [positive(5, 4), positive(5, 4) * 2]),
    "soft_margin": (lambda r, x, y: F.soft_margin_loss(x, y.detach(), reduction=r), [X, BITS * 2 - 1]),
    "hinge_embedding": (lambda r, x, y: F.hinge_embedding_loss(x, y.detach(), 0.8, reduction=r), [X, BITS * 2 - 1]),
    "margin_ranking": (lambda r, x, y, s: F.margin_ranking_loss(x, y, s.detach(), 0.3, reduction=r),
        [normal(5), normal(5), SIGNS]),
    "cosine_embedding": (lambda r, x, y, s: F.cosine_embedding_loss(x, y, s.detach(), -0.5, reduction=r),
        [X, Y, SIGNS]),
    "triplet": (lambda r, a, p, n: F.triplet_margin_loss(a, p, n, reduction=r), [X, Y, normal(5, 4)]),
    "triplet swap": (lambda r, a, p, n: F.triplet_margin_loss(a, p, n, p=3, swap=True, reduction=r),
        [X, Y, normal(5, 4)]),
    "multi_margin": (lambda r, x, t: F.multi_margin_loss(x, t, reduction=r), [X, CLASSES]),
    "multi_margin squared": (lambda r, x, t, w: F.multi_margin_loss(x, t, p=2, margin=0.6, weight=w.detach(),
        reduction=r), [X, CLASSES, WEIGHT]),
    "multilabel_margin": (lambda r, x, t: F.multilabel_margin_loss(x, t, reduction=r),
        [X, torch.tensor([[0, 2, -1, 1], [3, -1, 0, 0], [1, 0, 2, 3], [-1, 0, 1, 2], [2, -1, 2, 2]])]),
    "nll": (lambda r, x, t: F.nll_loss(x.log_softmax(1), t, reduction=r), [X, CLASSES]),
    "nll weight": (lambda r, x, t, w: F.nll_loss(x.log_softmax(1), t, w.detach(), reduction=r), [X, CLASSES, WEIGHT]),
    "nll ignoring": (lambda r, x, t: F.nll_loss(x.log_softmax(1), t, reduction=r), [X, IGNORING]),
    "nll picture": (lambda r, x, t: F.nll_loss(x.log_softmax(1), t, ignore_index=1, reduction=r),
        [PICTURE, PICTURE_CLASSES]),
    "nll of one": (lambda r, x, t: F.nll_loss(x.log_softmax(0), t, reduction=r), [normal(4), torch.tensor(2)]),
    "cross_entropy": (lambda r, x, t: F.cross_entropy(x, t, reduction=r), [X, CLASSES]),
    "cross_entropy weight": (lambda r, x, t, w: F.cross_entropy(x, t, w.detach(), ignore_index=0, reduction=r),
        [X, CLASSES, WEIGHT]),
    "cross_entropy smoothing": (lambda r, x, t, w: F.cross_entropy(x, t, w.detach(), reduction=r, label_smoothing=0.2),
        [X, IGNORING, WEIGHT]),
    "cross_entropy smoothing only": (lambda r, x, t: F.cross_entropy(x, t, reduction=r, label_smoothing=1.0),
        [X, CLASSES]),
    "cross_entropy vocabulary": (lambda r, x, t: F.cross_entropy(x, t, reduction=r), [VOCABULARY, WORDS]),
    "cross_entropy vocabulary smoothing": (lambda r, x, t, w: F.cross_entropy(x, t, w.detach(), reduction=r,
        ignore_index=7, label_smoothing=0.1), [VOCABULARY, WORDS.abs(), positive(1500)]),
    "cross_entropy large": (lambda r, x, t: F.cross_entropy(x * 1000 + 1e4, t, reduction=r), [X, CLASSES]),
    "cross_entropy picture smoothing": (lambda r, x, t, w: F.cross_entropy(x, t, w.detach(), reduction=r,
        ignore_index=1, label_smoothing=0.3), [PICTURE, PICTURE_CLASSES, WEIGHT]),
    "cross_entropy picture": (lambda r, x, t: F.cross_entropy(x, t, reduction=r), [PICTURE, PICTURE_CLASSES]),
    "cross_entropy of one": (lambda r, x, t: F.cross_entropy(x, t, reduction=r), [normal(4), torch.tensor(2)]),
    "cross_entropy probabilities": (lambda r, x, y, w: F.cross_entropy(x, y.softmax(1), w.detach(), reduction=r,
        label_smoothing=0.1), [X, Y, WEIGHT]),
}
LOG_PROBS = normal(8, 3, 5)
TARGETS = torch.tensor([[1, 2, 2], [3, 1, 0], [4, 0, 0]])
INPUT_LENGTHS, TARGET_LENGTHS = torch.tensor([8, 6, 5]), torch.tensor([3, 2, 1])
LOSSES |= {
    "ctc": (lambda r, x, t, i, l: F.ctc_loss(x.log_softmax(2), t, i, l, reduction=r),
        [LOG_PROBS, TARGETS, INPUT_LENGTHS, TARGET_LENGTHS]),
    "ctc lists": (lambda r, x, t: F.ctc_loss(x.log_softmax(2), t, (8, 6, 5), (3, 2, 1), blank=4, reduction=r),
                  [LOG_PROBS, torch.tensor([[1, 2, 2], [3, 1, 0], [2, 0, 0]])]),
    "ctc joined": (lambda r, x, t: F.ctc_loss(x.log_softmax(2), t, INPUT_LENGTHS, TARGET_LENGTHS, reduction=r),
        [LOG_PROBS, torch.tensor([1, 2, 2, 3, 1, 4])]),
    "ctc impossible": (lambda r, x, t: F.ctc_loss(x.log_softmax(2), t, (2, 6, 5), (3, 2, 1), reduction=r,
        zero_infinity=True), [LOG_PROBS, TARGETS]),
    "ctc unnormalised": (lambda r, x, t: F.ctc_loss(x, t, (8, 6, 5), (3, 2, 1), reduction=r), [LOG_PROBS - 2, TARGETS]),
    "ctc of one": (lambda r, x, t: F.ctc_loss(x.log_softmax(1), t, (8,), (2,), reduction=r),
        [normal(8, 5), torch.tensor([1, 2])]),
}
CASES = [Case(f"{name}, {reduction}", lambda *xs, f=function, r=reduction: f(r, *xs), inputs, tolerance=TRANSCENDENTAL)
         for name, (function, inputs) in LOSSES.items() for reduction in ("none", "mean", "sum")]
CASES += [
    Case("kl_div batchmean", lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1).detach(), reduction="batchmean"),
        [X, Y], tolerance=TRANSCENDENTAL),
    Case("nll parts", lambda x, t, y, u: (*torch.ops.aten.nll_loss_forward(x, t, None, 1, -100),
        *torch.ops.aten.nll_loss2d_forward(y, u, None, 2, -100),
                                          torch.ops.aten.nll_loss(x, t), torch.ops.aten.nll_loss2d(y, u)),
         [X, CLASSES, PICTURE, PICTURE_CLASSES], grad=False, tolerance=TRANSCENDENTAL),
    Case("multilabel parts", lambda x, t: torch.ops.aten.multilabel_margin_loss_forward(x, t, 1),
        [X, torch.tensor([[0, 2, -1, 1]] * 5)], grad=False, tolerance=TRANSCENDENTAL),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_eager(case):
    compare.check(case)


def test_mean_over_ignored_labels_is_zero():
    case = Case("all ignored", lambda x, t: F.cross_entropy(x, t), [X, torch.full((5,), -100)])
    executor = poptorch.inferenceModel(compare.Wrapped(case, False), compare.options())
    assert executor(torch.zeros(1), case.inputs[1])[0] == 0


class Classifier(torch.nn.Module):
    def __init__(self, loss):
        super().__init__()
        torch.manual_seed(3)
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1500))
        self.loss = loss

    def forward(self, x, target):
        return self.loss(self.layers(x), target)


def with_log_probabilities(x, target):
    log_p = x.log_softmax(1)
    return F.nll_loss(log_p, target), log_p


TRAINED = {
    "cross_entropy": (F.cross_entropy, {"cross_entropy", "cross_entropy_grad"}),
    "smoothing": (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), {"cross_entropy", "cross_entropy_grad"}),
    "nll of log_softmax": (lambda x, t: F.nll_loss(x.log_softmax(-1), t), {"cross_entropy", "cross_entropy_grad"}),
    "log probabilities": (with_log_probabilities, {"log_softmax", "nll", "cross_entropy_grad"}),
}


@pytest.mark.parametrize("name", TRAINED)
def test_ten_steps_of_training_match_eager(name, tmp_path, monkeypatch):
    """And nothing but these ops is there for the loss."""
    loss, ops = TRAINED[name]
    monkeypatch.setenv("ASPEN_DUMP", str(tmp_path))
    model, eager = Classifier(loss), Classifier(loss)
    trainer = poptorch.trainingModel(model, compare.options(), poptorch.optim.SGD(model.parameters(), lr=0.5))
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.5)
    x, target = normal(6, 6), WORDS
    for _ in range(10):
        results, expected = trainer(x, target), eager(x, target)
        results, expected = ((r if isinstance(r, tuple) else (r,)) for r in (results, expected))
        optimizer.zero_grad()
        expected[0].backward()
        optimizer.step()
        for result, wanted in zip(results, expected):
            torch.testing.assert_close(result, wanted.detach(), rtol=1e-5, atol=1e-5)
    trainer.copyWeightsToHost()
    for ours, wanted in zip(model.parameters(), eager.parameters()):
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-5)
    trainer.destroy()
    graph = max(tmp_path.iterdir()).read_text()
    there = {op for op in ("log_softmax", "log_softmax_grad", "nll", "nll_grad", "cross_entropy", "cross_entropy_grad")
             if f" = {op}(" in graph}
    assert there == ops
