"""What cannot be lowered, or is wrong, is said while capturing: the op, the values and the way out."""

import poptorch
import pytest
import torch
import torch.nn.functional as F
from support import compare

X = torch.randn(4, 5)
I = torch.tensor([0, 3, 1, 2])


def compiled(function, *inputs):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()
    return poptorch.inferenceModel(model, compare.options())(*inputs)


WRONG = {
    "mask read": (lambda x: x[x > 0], [X], "shape.*depends on the values.*torch.where"),
    "masked_select": (lambda x: torch.masked_select(x, x > 0), [X], "masked_select.*depends on the values"),
    "nonzero": (lambda x: x.nonzero(), [X], "nonzero.*depends on the values"),
    "one_hot without classes": (lambda i: F.one_hot(i), [I], "one_hot.*num_classes"),
    "one_hot with no class": (lambda i: F.one_hot(i, 0), [I], "one_hot.*at least 1"),
    "allclose": (lambda x: x * torch.allclose(x, x + 1), [X], "allclose.*depends on the values.*isclose"),
    "unique": (lambda x: torch.unique(x), [X], "_unique2.*depends on the values.*torch.sort"),
    "lstsq": (lambda x: torch.linalg.lstsq(x, x).solution, [X], "linalg_lstsq.*pinv"),
    "tensor_split": (lambda x, i: torch.tensor_split(x, i), [X, I], "tensor_split.*list of numbers"),
    "istft by an input": (lambda x, w: torch.istft(torch.stft(x, 4, window=w, return_complex=True), 4, window=w),
        [torch.randn(20), torch.ones(4)], "istft.*window.*torch.hann_window"),
    "to_sparse": (lambda x: x.to_sparse(), [X], "to_sparse.*dense"),
    "bincount without length": (lambda i: torch.bincount(i), [I], "bincount.*minlength"),
    "repeat_interleave": (lambda x, i: x.repeat_interleave(i, 0), [X, I], "repeat_interleave.*output_size"),
    "expand": (lambda x: x.expand(3, 5), [X], r"expand.*axis 0 of shape \[4, 5\].*cannot become 3"),
    "view": (lambda x: x.view(3, 7), [X], r"shape \[3, 7\] does not fit a tensor of 20 elements"),
    "matmul": (lambda x: x @ x, [X], r"inner sizes differ: 5 in shape \[4, 5\] and 4"),
    "linear": (lambda x: F.linear(x, torch.ones(3, 4)), [X], r"\[4, 5\] does not fit a weight of shape \[3, 4\]"),
    "broadcasting": (lambda x: x + torch.ones(3), [X], r"\[4, 5\] and \[3\] do not broadcast"),
    "roll": (lambda x: x.roll((1, 2), 0), [X], "2 shifts for 1 axes"),
    "roll axis": (lambda x: x.roll(1, 2), [X], r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"),
    "glu": (lambda x: F.glu(x), [X], "odd size 5"),
    "bool subtraction": (lambda x: (x > 0) - (x > 1), [X], "sub.*bool"),
    "mean of integers": (lambda i: i.mean(), [I], "mean.*floating point.*dtype"),
    "sum over an axis twice": (lambda x: x.sum((0, -2)), [X], "axis 0 is named twice"),
    "conv channels": (lambda x: F.conv2d(x.view(1, 1, 4, 5), torch.ones(2, 3, 2, 2)), [X], "1 channels.*takes 3"),
    "nll target": (lambda x, i: F.nll_loss(x, i[:2]), [X, I], r"target of shape \[2\].*expected shape \[4\]"),
    "pad reflect": (lambda x: F.pad(x.view(1, 4, 5), (5, 0), "reflect"), [X], "axis 2 of size 5.*at most 4"),
    "topk": (lambda x: x.topk(6), [X], "k = 6 for axis 1 of size 5"),
    "einsum sizes": (lambda x: torch.einsum("ij,jk", x, x), [X], "one label has size 5"),
    "one value per channel": (lambda x: F.batch_norm(x[:1], None, None, training=True), [X],
        "Expected more than 1|one value per channel"),
    "step": (lambda x: torch.ops.aten.slice(x * 1, 0, 0, 4, 0), [X], "step 0 is not positive"),
}


@pytest.mark.parametrize("name", WRONG)
def test_says_what_is_wrong(name):
    function, inputs, message = WRONG[name]
    with pytest.raises((poptorch.Error, ValueError), match=f"(?s){message}"):
        compiled(function, *inputs)


@pytest.mark.parametrize("function", [lambda x, i: x[i], lambda x, i: x.index_select(0, i),
    lambda x, i: x.gather(0, i.view(-1, 1)),
                                      lambda x, i: F.embedding(i, x)],
                         ids=["index", "index_select", "gather", "embedding"])
def test_positions_out_of_range_end_in_an_error(function):
    with pytest.raises(poptorch.Error, match=r"(?s)4\b"):
        compiled(function, X, torch.tensor([0, 4]))


def test_empty_intermediates():
    case = compare.Case("empty", lambda x: (x[2:2].sum(0), x[:, :0].sum(), torch.cat([x[:0], x]), x[2:2] * 2), [X])
    compare.check(case)


def test_errors_of_torch_outside_of_models_stay_those_of_torch():
    with pytest.raises(RuntimeError, match="size mismatch|shapes cannot be multiplied|must be a matrix"):
        torch.ops.aten.mm(torch.zeros(2, 3), torch.zeros(2, 3))
