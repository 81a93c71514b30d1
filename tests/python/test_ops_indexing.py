"""Indexing, gathering, scattering, masks, joining and embeddings against eager PyTorch."""

import pytest
import torch
import torch.nn.functional as F
from support import compare
from support.compare import TRANSCENDENTAL, Case
from support.tensors import booleans, integers, normal, positive

A = normal(4, 5, 3)
ROWS = torch.tensor([2, 0, -1, 2])
COLUMNS = torch.tensor([[0, 4], [1, -2]])
MASK = torch.tensor([True, False, True, False])
MASK2 = booleans(4, 5)
ORDER = torch.stack([torch.randperm(4, generator=torch.Generator().manual_seed(i)) for i in range(5)],
    1)  # (4, 5), unique per column
PLACES = torch.tensor([[0, 1, 1], [3, 0, 2]])


def put(index, accumulate=False):
    """x[index] = v or x[index] += v with duplicates added."""
    def function(x, v):
        y = x * 1
        return y.index_put_(index, v, accumulate=accumulate)
    return function


def assign(*index):
    def function(x, v):
        y = x * 1
        y[index] = v
        return y
    return function


CASES = [
    Case("index", lambda x, i, j: (x[i], x[:, j], x[i, :, 1], x[i[:2], j]), [A, ROWS, COLUMNS]),
    Case("index apart", lambda x, i: (x[i, :, i.clamp(0, 2)], x[i[:, None], :, i.clamp(0, 2)]), [A, ROWS]),
    Case("index by lists", lambda x: (x[[0, 2]], x[:, [1, 1], [0, 2]], x[..., [0]]), [A]),
    Case("masked_select by a constant mask", lambda x: (x.masked_select(torch.tensor([True, False, True])),
                                                        torch.masked_select(x[0, 0], torch.ones(2, 3) > 0),
                                                        x.masked_select(torch.zeros(3) > 0)), [A]),
    Case("combinations", lambda x: (torch.combinations(x[0, :, 0]), torch.combinations(x[0, :, 0], 3),
                                    torch.combinations(x[0, :, 0], 2, True)), [A]),
    Case("index by a constant mask", lambda x: (x[torch.tensor([True, False, True, True])],
        x[:, torch.tensor([False, True, True, False, False])]), [A]),
    Case("index of integers", lambda x, i: x[i], [integers(0, 9, 4, 2), ROWS]),
    Case("index_put", lambda x, i, v: (x * 1).index_put_((i,), v), [A, torch.tensor([2, 0]), normal(2, 5, 3)]),
    Case("index_put functional", lambda x, i, v: torch.index_put(x, (i,), v), [A, torch.tensor([2, 0]), normal(5, 3)]),
    Case("index_put accumulate", lambda x, i, v: (x * 1).index_put_((i,), v, accumulate=True),
        [A, ROWS, normal(4, 5, 3)]),
    Case("_index_put_impl_", lambda x, i, v: torch.ops.aten._index_put_impl_(x * 1, [i], v),
        [A, torch.tensor([2, 0]), normal(2, 5, 3)], grad=False),
    Case("assign pairs", lambda x, i, v: assign(i, slice(None), torch.tensor([0, 2]))(x, v),
        [A, torch.tensor([3, 1]), normal(2, 5)]),
    Case("assign a number", lambda x, i: assign(i)(x, 7.0), [A, ROWS]),
    Case("assign by mask", lambda x, m, v: assign(m)(x, v), [A, MASK, torch.tensor(2.0)]),
    Case("assign rows by mask", lambda x, m, v: assign(m)(x, v), [A, MASK, normal(5, 3)]),
    Case("assign by wide mask", lambda x, m, v: assign(m)(x, v), [A, MASK2, normal(3)]),
    Case("assign by inner mask", lambda x, m, v: assign(slice(None), m)(x, v), [A, booleans(5), torch.tensor(2.0)]),
    Case("assign one by one by mask", lambda x, m, v: assign(m)(x, v), [A, MASK, normal(2, 5, 3)]),
    Case("add by mask", lambda x, m, v: (x * 1).index_put_((m,), v, accumulate=True), [A, MASK, torch.tensor(2.0)]),
    Case("assign a slice", lambda x, v: assign(slice(1, 3))(x, v), [A, normal(2, 5, 3)]),
    Case("index_select", lambda x, i: (x.index_select(0, i), x.index_select(2, i[:1])),
        [A, torch.tensor([2, 0, 3, 2])]),
    Case("index_select 0-dim", lambda x, i: x.index_select(0, i), [torch.tensor(2.0), torch.tensor([0])]),
    Case("index_add", lambda x, i, v: (x.index_add(0, i, v), x.index_add(0, i, v, alpha=2)),
        [A, torch.tensor([2, 0, 2]), normal(3, 5, 3)]),
    Case("index_copy", lambda x, i, v: x.index_copy(1, i, v), [A, torch.tensor([3, 0]), normal(4, 2, 3)]),
    Case("index_fill", lambda x, i, v: (x.index_fill(1, i, 3.0), x.index_fill(1, i, v)),
        [A, torch.tensor([3, 1]), torch.tensor(2.0)]),
    Case("index_fill from the end", lambda x, i: x.index_fill(1, i, 3.0), [A, torch.tensor([3, -1])], grad=False),
    Case("gather", lambda x, i: (x[:, :, 0].gather(0, i), x[:, :, 1].gather(1, i)), [A, ORDER]),
    Case("gather smaller", lambda x, i: x[:, :, 0].gather(1, i), [A, PLACES]),
    Case("gather expanded", lambda x, i: x.gather(0, i.view(-1, 1, 1).expand(-1, 5, 3)),
        [A, torch.tensor([2, 0, 3, 2])]),
    Case("take_along_dim", lambda x, i: torch.take_along_dim(x[:, :, 0], i, 0), [A, ORDER]),
    Case("take", lambda x, i: torch.take(x, i), [A, torch.tensor([[5, -1], [0, 59]])]),
    Case("put_", lambda x, i, v: ((x * 1).put_(i, v), (x * 1).put_(i, v, accumulate=True)),
        [A, torch.tensor([5, -1, 7]), normal(3)]),
    Case("scatter", lambda x, i, v: (x.scatter(0, i, v), x.scatter(0, i, 2.0)), [normal(4, 5), ORDER, normal(4, 5)]),
    Case("scatter larger source", lambda x, i, v: x.scatter(1, i, v),
        [normal(4, 5), torch.tensor([[0, 1], [2, 3]]), normal(4, 5)], grad=False),
    Case("scatter_", lambda x, i: (x * 1).scatter_(1, i, 1.0), [normal(2, 5), torch.tensor([[1], [3]])]),
    Case("scatter reduce=", lambda x, i, v: (x.scatter(1, i, v, reduce="add"), x.scatter(1, i, v, reduce="multiply"),
                                             torch.ops.aten.scatter.value_reduce(x, 1, i, 2.0, reduce="multiply")),
         [positive(2, 4), PLACES, positive(2, 3)], grad=False),
    Case("scatter_add", lambda x, i, v: x.scatter_add(1, i, v), [normal(2, 4), PLACES, normal(2, 3)]),
    Case("scatter_add rows", lambda x, i, v: x.scatter_add(0, i.unsqueeze(1).expand(-1, 3), v),
        [normal(4, 3), torch.tensor([2, 0, 2]), normal(3, 3)]),
    Case("masked_fill", lambda x, m, v: (x.masked_fill(m, 2.0), x.masked_fill(m, v),
        x.masked_fill(m, float("-inf")).softmax(-1)),
         [normal(4, 5), MASK2, torch.tensor(3.0)], tolerance=TRANSCENDENTAL),
    Case("masked_scatter", lambda x, m, v: x.masked_scatter(m, v), [normal(4, 5), MASK2, normal(4, 5)]),
    Case("where", lambda m, x, y: (torch.where(m, x, y), torch.where(m, x, 2.0), torch.where(m, 2.0, y),
        torch.where(m, 1.0, 2.0)), [MASK2, normal(4, 5), normal(5)]),
    Case("where promotes", lambda m, x, y: (torch.where(m, x, y), torch.where(m, y, 1.5)),
        [MASK2, normal(4, 5), integers(0, 5, 5)]),
    Case("tril", lambda x: (x.tril(), x.tril(1), x.triu(), x.triu(-1)), [A]),
    Case("tril integers", lambda x: (x.tril(), x.triu(1)), [integers(1, 9, 3, 4)]),
    Case("diag", lambda x, v: (x.diag(), x.diag(1), v.diag(), v.diag(-1)), [normal(3, 4), normal(3)]),
    Case("diag_embed", lambda x: (torch.diag_embed(x), torch.diag_embed(x, 1), torch.diag_embed(x, -2, 0, 2)),
        [normal(2, 3)]),
    Case("slice_scatter", lambda x, v: torch.slice_scatter(x, v, 1, 1, 5, 2), [normal(3, 5), normal(3, 2)]),
    Case("select_scatter", lambda x, v: torch.select_scatter(x, v, 1, -2), [normal(3, 5), normal(3)]),
    Case("diagonal_scatter", lambda x, v: (torch.diagonal_scatter(x, v), torch.diagonal_scatter(x, v[:2], 2)),
        [normal(3, 4), normal(3)]),
    Case("searchsorted", lambda s, x: (torch.searchsorted(s, x), torch.searchsorted(s, x, right=True),
        torch.searchsorted(s, x, side="right", out_int32=True),
                                       torch.searchsorted(s, 0.5)),
                                           [torch.tensor([0.0, 0.5, 0.5, 1.0]),
                                           torch.tensor([[0.5, -1.0], [2.0, 0.7]])], grad=False),
    Case("searchsorted rows", lambda s, x: torch.searchsorted(s, x), [normal(3, 6).sort(1)[0], normal(3, 4)],
        grad=False),
    Case("searchsorted sorter", lambda s, x: torch.searchsorted(s, x, sorter=torch.tensor([2, 0, 1])),
        [torch.tensor([0.5, 1.0, 0.0]), normal(4)], grad=False),
    Case("bucketize", lambda x, s: (torch.bucketize(x, s), torch.bucketize(x, s, right=True), torch.bucketize(1.5, s)),
        [normal(5), torch.tensor([-1.0, 0.0, 1.5])], grad=False),
    Case("bucketize integers", lambda x: torch.bucketize(x, torch.tensor([1.5, 3.0])), [integers(0, 5, 6)]),
    Case("one_hot", lambda i: F.one_hot(i, 5), [integers(0, 5, 2, 3)]),
    Case("bincount", lambda i, w: (torch.bincount(i, minlength=6), torch.bincount(i, w, minlength=6)),
        [integers(0, 6, 10), positive(10)], grad=False),
    Case("embedding", lambda w, i: F.embedding(i, w), [normal(7, 3), integers(0, 7, 2, 4)]),
    Case("embedding padding", lambda w, i: F.embedding(i, w, padding_idx=2),
        [normal(7, 3), torch.tensor([[1, 2, 2], [5, 0, 1]])]),
    Case("embedding_renorm", lambda w, i: torch.ops.aten.embedding_renorm(w, i, 1.0, 2.0),
         [normal(7, 3), integers(0, 7, 2, 4)], grad=False),
    Case("embedding_renorm_ by another norm", lambda w, i: torch.embedding_renorm_(w * 1, i, 0.7, 1.5),
         [normal(7, 3), integers(0, 5, 6)], grad=False, tolerance=TRANSCENDENTAL),
    Case("embedding by frequency", lambda w, i: F.embedding(i, w, scale_grad_by_freq=True),
        [normal(7, 3), torch.tensor([[1, 2, 2], [5, 2, 1]])]),
    # Joining.
    Case("cat", lambda x, y: (torch.cat([x, y], 0), torch.cat([x, x], -1)), [normal(2, 3), normal(4, 3)]),
    Case("cat promotes", lambda x, y: torch.cat([x, y], 0), [normal(2, 3), integers(0, 5, 4, 3)]),
    Case("cat of nothing", lambda x: torch.cat([x, torch.empty(0)], 0), [normal(2, 3)]),
    Case("stack", lambda x, y: (torch.stack([x, y]), torch.stack([x, y], -1), torch.hstack([x, y]),
        torch.vstack([x, y])), [normal(2, 3), normal(2, 3)]),
    Case("repeat", lambda x: (x.repeat(2, 1, 3), x.repeat(1, 2), x.tile(2)), [normal(2, 3)]),
    Case("repeat_interleave", lambda x: (x.repeat_interleave(2), x.repeat_interleave(3, 1),
        x.repeat_interleave(torch.tensor([2, 0]), 0)), [normal(2, 3)]),
    Case("repeat_interleave output_size", lambda x, r: x.repeat_interleave(r, 0, output_size=5),
        [normal(3, 2), torch.tensor([2, 0, 3])]),
    Case("flip", lambda x: (x.flip(0), x.flip(-1, 1), x.fliplr()), [A]),
    Case("roll", lambda x: (x.roll(2), x.roll(-7, 1), x.roll((1, 2), (0, 2)), x.roll((1, 2, -2), (0, 2, 0))), [A]),
    Case("rot90", lambda x: (x.rot90(), x.rot90(2, [1, 2]), x.rot90(3, [0, 2]), x.rot90(4)), [A]),
    Case("meshgrid", lambda x, y: (*torch.meshgrid(x, y, indexing="ij"), *torch.meshgrid(x, y, indexing="xy")),
        [normal(3), normal(4)]),
    Case("block_diag", torch.block_diag, [normal(2, 3), normal(1, 2), normal(3)]),
    Case("cartesian_prod", torch.cartesian_prod, [normal(3), normal(2)]),
]
for reduce in ("sum", "prod", "mean", "amax", "amin"):
    for include in (True, False):
        CASES.append(Case(f"scatter_reduce {reduce} include_self={include}",
                          lambda x, i, v, r=reduce, s=include: x.scatter_reduce(1, i, v, r, include_self=s),
                          [positive(2, 4), PLACES, positive(2, 3)]))
        if reduce != "sum":
            CASES.append(Case(f"index_reduce {reduce} include_self={include}",
                              lambda x, i, v, r=reduce, s=include: x.index_reduce(0, i, v, r, include_self=s),
                              [positive(4, 3), torch.tensor([2, 0, 2]), positive(3, 3)]))
CASES.append(Case("scatter_reduce integers", lambda x, i, v: (x.scatter_reduce(1, i, v, "mean"),
    x.scatter_reduce(1, i, v, "amax", include_self=False)),
                  [integers(-5, 5, 2, 4), PLACES, integers(-5, 5, 2, 3)]))
BAG = torch.tensor([1, 2, 4, 5, 4, 3])
for mode in ("sum", "mean", "max"):
    CASES += [
        Case(f"embedding_bag {mode}", lambda w, i, o, m=mode: F.embedding_bag(i, w, o, mode=m),
            [normal(7, 3), BAG, torch.tensor([0, 2, 2])]),
        Case(f"embedding_bag {mode} 2-D", lambda w, i, m=mode: F.embedding_bag(i, w, mode=m, padding_idx=4),
            [normal(7, 3), BAG.view(2, 3)]),
    ]
CASES += [
    Case("embedding_bag weights", lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s,
        include_last_offset=True),
         [normal(7, 3), BAG, torch.tensor([0, 4, 6]), normal(6)]),
    Case("embedding_bag parts", lambda w, i, o: (torch.ops.aten.embedding_bag(w, i, o)[0],
        torch.ops.aten._embedding_bag(w, i, o)[0],
                                                 torch.ops.aten._embedding_bag_forward_only(w, i, o)[0]),
                                                     [normal(7, 3), BAG, torch.tensor([0, 2])], grad=False),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_eager(case):
    compare.check(case)
