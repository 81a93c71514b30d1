"""Views and copies: shapes, aliasing through writes, and creation of tensors."""

import pytest
import torch
from support import compare
from support.compare import PLAIN, Case
from support.tensors import booleans, integers, normal

A = normal(2, 3, 4)


def on(x):
    """The device the model computes on: the host in eager PyTorch, the virtual one while capturing."""
    return (x * 1).device


def written(view):
    """Writes through a view and returns the whole."""
    def function(x):
        whole = x * 1
        view(whole).mul_(3.0)
        return whole
    return function


CASES = [Case(name, function, [A]) for name, function in {
    "view": lambda x: (x.view(6, 4), x.view(-1), x.view(2, -1, 2)),
    "reshape": lambda x: (x.reshape(4, 6), x.transpose(0, 2).reshape(-1, 3)),
    "view_as": lambda x: x.view_as(torch.empty(6, 4)),
    "flatten": lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1)),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "ravel": lambda x: x.ravel(),
    "_unsafe_view": lambda x: torch.ops.aten._unsafe_view(x, [6, 4]),
    "_reshape_alias": lambda x: torch.ops.aten._reshape_alias(x, [6, 4], [4, 1]),
    "squeeze": lambda x: (x[:, :1].squeeze(), x[:, :1].squeeze(1), x.squeeze(1)),
    "unsqueeze": lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(2)),
    "t": lambda x: (x[0].t(), x[0, 0].t(), x[0].T, x.mT),
    "transpose": lambda x: (x.transpose(0, 2), x.transpose(-1, 1), x.swapaxes(0, 1)),
    "permute": lambda x: (x.permute(2, 0, 1), x.permute(-1, -2, -3), x.movedim(0, 2)),
    "expand": lambda x: (x[:, :1].expand(2, 5, 4), x[0, 0].expand(3, 2, -1), x[:, :1].expand_as(x)),
    "broadcast": lambda x: (torch.broadcast_to(x[0], (5, 3, 4)), *torch.broadcast_tensors(x, x[0, 0])),
    "slice": lambda x: (x[:, 1:], x[..., ::2], x[:, -2:-1], x[1:100], x[:, 1:3, 1:4:2]),
    "narrow": lambda x: (x.narrow(1, 1, 2), x.narrow(2, -3, 2)),
    "select": lambda x: (x[1], x[:, -1], x.select(2, 3)),
    "diagonal": lambda x: (x[0].diagonal(), x.diagonal(1, 1, 2), x.diagonal(-1, 0, 2), x.diagonal(5)),
    "unbind": lambda x: (x.unbind(), x.unbind(-1)),
    "split": lambda x: (x.split(2, 1), x.split([1, 3], 2), torch.split_with_sizes(x, [1, 2], 1),
        torch.ops.aten.split.sizes(x, [1, 2], 1)),
    "unsafe_split": lambda x: (torch.unsafe_split(x, 2, 1), torch.unsafe_split_with_sizes(x, [1, 3], 2),
        torch.unsafe_chunk(x, 2, 2)),
    "chunk": lambda x: (x.chunk(2, 1), x.chunk(3, 2), torch.tensor_split(x, 3, 2)),
    "as_strided": lambda x: x.as_strided((3, 2), (4, 2), 1),
    "unfold": lambda x: (x.unfold(2, 3, 1), x.unfold(1, 2, 1)),
    "detach": lambda x: x.detach() * x,
    "alias": lambda x: torch.ops.aten.alias(x) * 2,
    "contiguous": lambda x: (x.transpose(0, 1).contiguous() * 2, torch.ops.aten.contiguous(x * 1) * 2),
    "clone": lambda x: (x.clone(), x.clone().zero_()),
    "write through a slice": written(lambda x: x[:, 1:, ::2]),
    "write through a row": written(lambda x: x[1, :, -1]),
    "write through a transpose": written(lambda x: x.transpose(0, 2)[1:]),
    "write through a diagonal": written(lambda x: x.diagonal(0, 1, 2)),
    "write through a reshape": written(lambda x: x.view(6, 4)[1::2]),
    "write through as_strided": written(lambda x: x.as_strided((3, 2), (4, 2), 1)),
}.items()]
CASES += [
    # torch's autograd forbids these two.
    Case("write through a piece", written(lambda x: x.split(2, 1)[1]), [A], grad=False),
    Case("write through unbind", written(lambda x: x.unbind(1)[2]), [A], grad=False),
    Case("transpose_", lambda x: (x * 1).transpose_(0, 1) * 2, [A]),
    Case("squeeze_", lambda x: (x * 1).unsqueeze_(0).squeeze_(0), [A]),
    Case("fill_", lambda x, v: ((x * 1).fill_(2.0), (x * 1).fill_(v)), [A, torch.tensor(3.0)]),
    Case("zero_", lambda x: (x * 1).zero_() + x, [A]),
    Case("fill a slice", lambda x: torch.zeros(2, 3, 4).add_(x)[:, 1].fill_(1.0), [A]),
    Case("copy_", lambda x, y: (x * 1).copy_(y), [A, normal(4)]),
    Case("copy_ casts", lambda x, y: torch.zeros(3, dtype=torch.int32).copy_(x) + y,
        [normal(3) * 5, integers(0, 3, 3, dtype=torch.int32)]),
    Case("to", lambda x: (x.to(torch.int32), x.int(), x.long(), x.bool(), x.to(torch.float32),
        x.to(torch.float16).float()), [A], tolerance=(1e-3, 1e-3)),
    Case("to of integers", lambda x: (x.float(), x.bool(), x.to(torch.int16), x.to(torch.uint8)), [integers(0, 5, 6)]),
    Case("to.other", lambda x, y: (x.to(y), x.type_as(y), torch.ops.aten.to.other(x * 1, y)), [A, integers(0, 3, 2)]),
    Case("to.device", lambda x: (x.to(on(x)), x.to(on(x), torch.int32)), [A]),
    Case("to of bool", lambda x: (x.float(), x.int()), [booleans(5)]),
    Case("_to_copy", lambda x: torch.ops.aten._to_copy(x, dtype=torch.float32) * 2, [A]),
    Case("lift_fresh", lambda x: x + torch.ops.aten.lift_fresh(x) + torch.ops.aten.lift_fresh_copy(x), [A], grad=False),
    Case("torch.tensor", lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0]), [A]),
    # Creation: the first operand makes the tensors part of the model.
    Case("zeros", lambda x: (x + torch.zeros(4, device=on(x)), torch.ones(3, 4, dtype=torch.int32, device=on(x))), [A]),
    Case("full", lambda x: (torch.full((2, 3), 2.5, device=on(x)), torch.full((2,), 3, device=on(x)),
                            torch.full((2,), True, device=on(x))), [A]),
    Case("empty", lambda x: (torch.empty(4, device=on(x)).fill_(1) + x,
                             torch.empty_strided((2, 2), (2, 1), device=on(x)).fill_(2)), [A]),
    Case("like", lambda x: (torch.zeros_like(x), torch.ones_like(x, dtype=torch.int32), torch.full_like(x, 7),
                            torch.empty_like(x).fill_(3)), [A]),
    Case("new", lambda x: (x.new_zeros(3), x.new_ones(2, 2), x.new_full((2,), 4), x.new_empty(2).fill_(1),
                           torch.ops.aten.new_empty_strided(x, [2, 2], [2, 1]).fill_(5)), [A]),
    Case("arange", lambda x: (torch.arange(5, device=on(x)), torch.arange(1, 9, 3, device=on(x)),
                              torch.arange(5, 0, -2, device=on(x)), torch.arange(0, 1, 0.3, device=on(x)),
                              torch.arange(2, 6, device=on(x))), [A]),
    Case("linspace", lambda x: (torch.linspace(-1, 2, 7, device=on(x)), torch.logspace(0, 2, 5, device=on(x)),
                                torch.linspace(0, 1, 1, device=on(x))), [A]),
    Case("eye", lambda x: (torch.eye(3, device=on(x)), torch.eye(2, 4, device=on(x))), [A]),
    Case("scalar_tensor", lambda x: torch.ops.aten.scalar_tensor(2.5, device=on(x)) * x, [A]),
    Case("triangle indices", lambda x: (torch.tril_indices(3, 4, 1, device=on(x)),
        torch.triu_indices(3, 4, -1, device=on(x))), [A]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_eager(case):
    compare.check(case)
