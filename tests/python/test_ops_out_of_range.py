"""Classes, indices and lengths out of range: an error that names the op, the number, what it must fit and the sample,
never a number."""

import poptorch
import pytest
import torch
import torch.nn.functional as F
from support import compare

N, C, T = 4, 5, 6
X = torch.randn(N, C)
TABLE = torch.randn(3, 2)
LOG_P = torch.randn(T, 2, C).log_softmax(2)
TARGETS = torch.tensor([[1, 2, 1], [3, 4, 2]])


def tensor(*values):
    return torch.tensor(values)


def run(function, *inputs):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()
    return poptorch.inferenceModel(model, compare.options())(*inputs)


def ctc(inputs=(T, T), targets=(3, 2), labels=TARGETS, **settings):
    """A function of log probabilities and the given tensors, with the lengths as inputs of the model."""
    return (lambda log_p, t, i, l: F.ctc_loss(log_p, t, i, l, **settings)), [LOG_P, labels, tensor(*inputs),
                                                                            tensor(*targets)]


BEYOND, NEGATIVE = tensor(0, 7, 1, 2), tensor(0, 1, -3, 2)
MAPS = torch.zeros(2, 3, dtype=torch.long).index_put((tensor(1), tensor(2)), tensor(9))

WRONG = {
    "nll": (F.nll_loss, [X, BEYOND], r"\[nll\] target 7 of sample 1 is out of range for 5 classes"),
    "nll negative": (F.nll_loss, [X, NEGATIVE], r"\[nll\] target -3 of sample 2"),
    "nll none": (lambda x, t: F.nll_loss(x, t, reduction="none"), [X, BEYOND], "target 7 of sample 1.*5 classes"),
    "nll sum": (lambda x, t: F.nll_loss(x, t, reduction="sum"), [X, BEYOND], "target 7 of sample 1.*5 classes"),
    "nll weighted": (lambda x, t: F.nll_loss(x, t, torch.ones(C)), [X, BEYOND], "target 7 of sample 1.*5 classes"),
    "nll of maps": (F.nll_loss, [torch.randn(2, C, 3), MAPS], r"target 9 of sample 1, position \[1, 2\].*5 classes"),
    "cross_entropy": (F.cross_entropy, [X, BEYOND], "target 7 of sample 1.*5 classes"),
    "cross_entropy smoothed": (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), [X, BEYOND],
                               "target 7 of sample 1.*5 classes"),
    "cross_entropy another ignore_index": (lambda x, t: F.cross_entropy(x, t, ignore_index=-1), [X, NEGATIVE],
                                           "target -3 of sample 2.*ignore_index -1"),
    "one_hot": (lambda t: F.one_hot(t, 3), [BEYOND], r"\[one_hot\] class 7 of sample 1 .* for 3 classes; .* 0 to 2"),
    "one_hot negative": (lambda t: F.one_hot(t, 8), [NEGATIVE], r"\[one_hot\] class -3 of sample 2 .* 8 classes"),
    "embedding": (lambda t: F.embedding(t, TABLE), [BEYOND], r"\[embedding\] index 7 of sample 1 .* 3 rows"),
    "embedding negative": (lambda t: F.embedding(t, TABLE), [NEGATIVE], r"\[embedding\] index -3 of sample 2"),
    "embedding matrix": (lambda t: F.embedding(t.view(2, 2), TABLE), [BEYOND],
                         r"\[embedding\] index 7 of sample 0, position \[0, 1\]"),
    "embedding_bag": (lambda t: F.embedding_bag(t, TABLE, tensor(0, 2)), [BEYOND],
                      r"\[embedding_bag\] index 7 of sample 1"),
    "embedding_bag offset": (lambda t, o: F.embedding_bag(t % 3, TABLE, o), [BEYOND, tensor(0, 9)],
                             r"\[embedding_bag\] offset 9 of sample 1 .* for 4 indices"),
    "embedding_bag first offset": (lambda t, o: F.embedding_bag(t % 3, TABLE, o), [BEYOND, tensor(1, 2)],
                                   r"\[embedding_bag\] offset 1 of sample 0 .* the first bag"),
    "multi_margin_loss": (F.multi_margin_loss, [X, BEYOND], r"\[multi_margin_loss\] target 7 of sample 1 .* 5 classes"),
    "multilabel_margin_loss": (F.multilabel_margin_loss, [X, tensor([0, 7, -1, 2, 1]).expand(N, C).contiguous()],
                               r"\[multilabel_margin_loss\] target 7 of sample 0, position \[0, 1\]"),
    "bincount": (lambda t: torch.bincount(t, minlength=3), [NEGATIVE], r"\[bincount\] number -3"),
    "ctc input length": (*ctc(inputs=(T, 9)), r"\[ctc_loss\] input length 9 of sample 1 .* 6 time steps"),
    "ctc negative input length": (*ctc(inputs=(-1, T)), r"\[ctc_loss\] input length -1 of sample 0"),
    "ctc target length": (*ctc(targets=(5, 2)), r"\[ctc_loss\] target length 5 of sample 0 .* shape \[2, 3\]"),
    "ctc label": (*ctc(labels=torch.tensor([[1, 2, 1], [3, 9, 2]])),
                  r"\[ctc_loss\] label 9 of sample 1, position \[1, 1\] .* 5 classes"),
    "ctc negative label": (*ctc(labels=torch.tensor([[1, -2, 1], [3, 1, 2]])), r"\[ctc_loss\] label -2 of sample 0"),
    "ctc blank": (*ctc(blank=7), r"\[ctc_loss\] blank 7 is out of range for 5 classes"),
    "ctc joined targets": (*ctc(labels=torch.tensor([1, 2, 1, 3]), targets=(2, 1)),
                           r"\[ctc_loss\] sum of target lengths 3 .* 4 labels"),
}


@pytest.mark.parametrize("name", WRONG)
def test_is_an_error(name):
    function, inputs, message = WRONG[name]
    with pytest.raises(poptorch.Error, match=f"(?s){message}.*captured at test_ops_out_of_range.py"):
        run(function, *inputs)


@pytest.mark.parametrize("name", ["nll", "cross_entropy smoothed", "embedding", "ctc label"])
def test_is_an_error_in_training(name):
    function, inputs, message = WRONG[name]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, *args):
            args = [value * self.scale if value.is_floating_point() else value for value in args]
            result = function(*args) * self.scale
            return poptorch.identity_loss(result.sum(), "none")

    model = Model()
    executor = poptorch.trainingModel(model, compare.options(), torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(poptorch.Error, match=f"(?s){message}"):
        executor(*inputs)


def check(function, *inputs):
    compare.check(compare.Case("", function, list(inputs), tolerance=compare.TRANSCENDENTAL))


def test_ignored_classes_are_right():
    targets = tensor(0, -100, 4, 7)
    for reduction in ("mean", "sum", "none"):
        for weight in (None, torch.rand(C)):
            check(lambda x, t: F.cross_entropy(x, t, weight, ignore_index=7, reduction=reduction), X,
                  tensor(0, 7, 4, 7))
    check(lambda x, t: F.nll_loss(x, t), X, targets.clamp(max=4))


def test_labels_beyond_the_end_of_a_target_do_not_matter():
    labels = torch.tensor([[1, 2, 1], [3, 4, -1]])
    check(lambda p, t: F.ctc_loss(p, t, tensor(T, T), tensor(3, 2)), LOG_P, labels)
    check(lambda p, t: F.ctc_loss(p, t, tensor(T, T), tensor(3, 2)), LOG_P, torch.tensor([[1, 2, 1], [3, 4, 99]]))


def test_joined_targets_are_right():
    check(lambda p, t: F.ctc_loss(p, t, tensor(T, 5), tensor(3, 2), reduction="sum"), LOG_P, tensor(1, 2, 1, 3, 4))


def test_a_sequence_without_steps():
    function, inputs = ctc(inputs=(T, 0), targets=(3, 0), reduction="none")
    assert run(function, *inputs)[1] == 0
    function, inputs = ctc(inputs=(T, 0), targets=(3, 2), reduction="none")
    assert run(function, *inputs)[1] == float("inf")
