"""Matrix products, einsum, distances, convolutions and recurrent layers against eager PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from support import compare
from support.compare import PRODUCT, Case
from support.tensors import booleans, integers, normal, positive


def product(name, function, *inputs, **more):
    return Case(name, function, inputs, tolerance=PRODUCT, **more)


CASES = [
    product("linear", F.linear, normal(5, 4), normal(3, 4), normal(3)),
    product("linear without bias", F.linear, normal(2, 5, 4), normal(3, 4)),
    product("linear of a vector", F.linear, normal(4), normal(3, 4), normal(3)),
    product("linear of many axes", F.linear, normal(2, 3, 2, 4), normal(3, 4), normal(3)),
    product("mm", torch.mm, normal(3, 4), normal(4, 5)),
    product("bmm", torch.bmm, normal(2, 3, 4), normal(2, 4, 5)),
    product("mv", torch.mv, normal(3, 4), normal(4)),
    product("dot", torch.dot, normal(4), normal(4)),
    product("vdot", torch.vdot, normal(4), normal(4)),
    product("outer", torch.outer, normal(4), normal(3)),
    product("ger", torch.ger, normal(4), normal(3)),
    product("addmm", lambda s, a, b: (torch.addmm(s, a, b), torch.addmm(s, a, b, beta=0.5, alpha=2)), normal(5),
        normal(3, 4), normal(4, 5)),
    product("addmm ignores NaN", lambda s, a, b: torch.addmm(s, a, b, beta=0), torch.full((5,), float("nan")),
        normal(3, 4), normal(4, 5), grad=False),
    product("addmv", lambda s, a, b: torch.addmv(s, a, b, beta=2), normal(3), normal(3, 4), normal(4)),
    product("baddbmm", lambda s, a, b: torch.baddbmm(s, a, b, beta=0.5, alpha=2), normal(2, 3, 5), normal(2, 3, 4),
        normal(2, 4, 5)),
    product("addbmm", lambda s, a, b: torch.addbmm(s, a, b, beta=0.5, alpha=2), normal(3, 5), normal(2, 3, 4),
        normal(2, 4, 5)),
    product("addr", lambda s, a, b: torch.addr(s, a, b, beta=0.5, alpha=2), normal(3, 4), normal(3), normal(4)),
    product("bilinear", F.bilinear, normal(2, 5, 3), normal(2, 5, 4), normal(6, 3, 4), normal(6)),
    product("integer matmul", torch.matmul, integers(-5, 5, 3, 4), integers(-5, 5, 4, 2)),
    product("integer addmm", torch.addmm, integers(0, 5, 2), integers(-5, 5, 3, 4), integers(-5, 5, 4, 2)),
    product("integer linear", F.linear, integers(-5, 5, 3, 4), integers(-5, 5, 2, 4)),
    product("outer of bool", torch.outer, booleans(3), booleans(4)),
    product("tensordot", lambda a, b: torch.tensordot(a, b, 2), normal(2, 3, 4), normal(3, 4, 5)),
    product("kron", torch.kron, normal(2, 3), normal(3, 2)),
    product("chain", lambda a, b, c: torch.linalg.multi_dot([a, b, c]), normal(2, 3), normal(3, 4), normal(4, 5)),
    product("linalg.cross", lambda a, b: (torch.linalg.cross(a, b), torch.cross(a, b)), normal(4, 3), normal(4, 3)),
    product("cdist", lambda a, b: (torch.cdist(a, b), torch.cdist(a, b, 1.0), torch.cdist(a, b, 3.0)), normal(2, 5, 3),
        normal(2, 4, 3)),
    product("cdist many rows", torch.cdist, normal(30, 8), normal(28, 8)),
    product("cdist at zero", lambda a: torch.cdist(a, a), normal(4, 3)),
    product("cdist parts", lambda a, b: (torch.ops.aten._cdist_forward(a, b, 2.0, None),
        torch.ops.aten._euclidean_dist(a, b)), normal(5, 3), normal(4, 3), grad=False),
    product("pairwise_distance", F.pairwise_distance, normal(4, 3), normal(4, 3)),
    product("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=0), normal(4, 3), normal(4, 3)),
    product("normalize", F.normalize, normal(4, 3)),
]
MATMUL_SHAPES = [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (4,)),
                 ((4,), (2, 4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 5)),
                     ((1, 3, 4), (6, 4, 2))]
CASES += [product(f"matmul {a} {b}", torch.matmul, normal(*a), normal(*b)) for a, b in MATMUL_SHAPES]
EQUATIONS = {
    "ij,jk->ik": ((2, 3), (3, 4)), "ij,kj->ik": ((2, 3), (4, 3)), "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "bhid,bhjd->bhij": ((2, 3, 4, 5), (2, 3, 6, 5)), "bhij,bhjd->bhid": ((2, 3, 4, 6), (2, 3, 6, 5)),
        "i,j": ((3,), (4,)),
    "ij->ji": ((2, 3),), "ij->": ((2, 3),), "ii->i": ((3, 3),), "ii": ((3, 3),), "bii->b": ((2, 3, 3),),
    "...ij,...jk->...ik": ((2, 3, 4), (2, 4, 5)), "...ij,jk": ((2, 3, 4), (4, 5)),
        "ij,jk,kl->il": ((2, 3), (3, 4), (4, 5)),
    "ij,ij->ij": ((2, 3), (2, 3)), "ij,ij->i": ((2, 3), (2, 3)), "i,ij->": ((2,), (2, 3)),
        "ki,kj->ij": ((4, 2), (4, 3)),
    "bi,bj,bk->ijk": ((5, 2), (5, 3), (5, 2)), "ij,k->kji": ((2, 3), (4,)), "b...,b...->b...": ((2, 3, 4), (2, 3, 4)),
    "ba, ca -> bc": ((2, 3), (4, 3)), "ij,jk->ki": ((1, 3), (3, 4)),
}
CASES += [product(f"einsum {equation}", lambda *xs, e=equation: torch.einsum(e, *xs),
    *(normal(*shape) for shape in shapes))
          for equation, shapes in EQUATIONS.items()]
CASES += [product("einsum integers", lambda a, b: torch.einsum("ij,jk->ik", a, b), integers(-3, 3, 2, 3),
    integers(-3, 3, 3, 4))]

CONV_OPTIONS = [{}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"stride": 2, "padding": 2, "dilation": 2},
                {"padding": "same"}, {"padding": "valid"}]
for axes, conv, extent in ((1, F.conv1d, (9,)), (2, F.conv2d, (7, 8)), (3, F.conv3d, (5, 6, 5))):
    x, w, b = normal(2, 4, *extent), normal(6, 4, *[3] * axes) * 0.3, normal(6)
    CASES += [product(f"conv{axes}d {options}", lambda x, w, b, f=conv, o=options: f(x, w, b, **o), x, w,
        b) for options in CONV_OPTIONS]
    CASES += [
        product(f"conv{axes}d groups", lambda x, w, f=conv: f(x, w, groups=2, padding=1), x, normal(6, 2, *[3] * axes)),
        product(f"conv{axes}d depthwise", lambda x, w, f=conv: f(x, w, groups=4), x, normal(8, 1, *[3] * axes)),
        product(f"conv{axes}d unbatched", lambda x, w, f=conv: f(x, w), normal(4, *extent), w),
        product(f"conv{axes}d same, even kernel", lambda x, w, f=conv: f(x, w, padding="same"), x,
            normal(2, 4, *[2] * axes)),
    ]
TRANSPOSED_OPTIONS = [{}, {"stride": 2}, {"stride": 2, "padding": 1, "output_padding": 1}, {"dilation": 2},
    {"groups": 2}]
for axes, conv, extent in ((1, F.conv_transpose1d, (6,)), (2, F.conv_transpose2d, (4, 5)),
    (3, F.conv_transpose3d, (3, 4, 3))):
    x = normal(2, 4, *extent)
    for options in TRANSPOSED_OPTIONS:
        groups = options.get("groups", 1)
        CASES.append(product(f"conv_transpose{axes}d {options}", lambda x, w, b, f=conv, o=options: f(x, w, b, **o), x,
                             normal(4, 3, *[3] * axes) * 0.3, normal(3 * groups)))
CASES += [
    product("convolution", lambda x, w: (torch.ops.aten.convolution(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0],
        1),
                                         torch.ops.aten.convolution(x, w, None, [2, 2], [0, 0], [1, 1], True, [1, 1],
                                             1)),
            normal(2, 4, 5, 5), normal(4, 4, 3, 3)),
    product("_convolution", lambda x, w, b: (
        torch.ops.aten._convolution(x, w, b, [2, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, True, True),
        torch.ops.aten._convolution(x, w, None, [2, 2], [0, 0], [1, 1], True, [1, 1], 1, False, False, True, True),
        torch.ops.aten._convolution.deprecated(x, w, b, [1, 1], [0, 1], [1, 1], False, [0, 0], 1, False, False, True),
        torch.ops.aten._convolution_mode(x, w, b, [1, 1], "same", [1, 1], 1)),
            normal(2, 4, 5, 6), normal(4, 4, 3, 3), normal(4)),
    product("asymmetric conv", lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(0, 2), dilation=(1, 2)),
        normal(2, 3, 7, 9), normal(4, 3, 3, 2)),
]


def recurrent(kind, **options):
    """A recurrent module as a case: its weights are the parameters that are compared."""
    torch.manual_seed(3)
    module = getattr(torch.nn, kind)(4, 5, **options)
    batch_first, both = options.get("batch_first", False), 1 + options.get("bidirectional", False)
    layers, out = options.get("num_layers", 1), options.get("proj_size", 0) or 5
    x = normal(3, 6, 4) if batch_first else normal(6, 3, 4)
    states = [normal(layers * both, 3, out)] + ([normal(layers * both, 3, 5)] if kind == "LSTM" else [])

    def function(x, *rest):
        hx, weights = rest[:len(states)], list(rest[len(states):])
        arguments = (weights, options.get("bias", True), layers, 0.0, False, both == 2, batch_first)
        if kind == "LSTM":
            return torch.lstm(x, list(hx), *arguments)
        if kind == "GRU":
            return torch.gru(x, hx[0], *arguments)
        return (torch.rnn_tanh if options.get("nonlinearity", "tanh") == "tanh" else torch.rnn_relu)(x, hx[0],
            *arguments)

    label = ", ".join(f"{key}={value}" for key, value in options.items())
    return product(f"{kind} {label}", function, x, *states, *(parameter.detach() for parameter in module.parameters()))


for kind in ("LSTM", "GRU", "RNN"):
    CASES += [recurrent(kind), recurrent(kind, bias=False), recurrent(kind, num_layers=2, bidirectional=True),
              recurrent(kind, batch_first=True)]
CASES += [recurrent("RNN", nonlinearity="relu"), recurrent("LSTM", proj_size=3),
    recurrent("LSTM", proj_size=3, bidirectional=True, bias=False)]
CELL = (normal(3, 4), normal(3, 5))
CASES += [
    product("lstm_cell", lambda x, h, c, a, b, d, e: torch.lstm_cell(x, (h, c), a, b, d, e), *CELL, normal(3, 5),
        normal(20, 4), normal(20, 5), normal(20), normal(20)),
    product("gru_cell", torch.gru_cell, *CELL, normal(15, 4), normal(15, 5), normal(15), normal(15)),
    product("rnn_tanh_cell", torch.rnn_tanh_cell, *CELL, normal(5, 4), normal(5, 5), normal(5), normal(5)),
    product("rnn_relu_cell", torch.rnn_relu_cell, *CELL, normal(5, 4), normal(5, 5), normal(5), normal(5)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_eager(case):
    compare.check(case)
