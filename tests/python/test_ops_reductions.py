"""Reductions, deviations, norms, sorting and running totals against eager PyTorch."""

import pytest
import torch
from support import compare
from support.compare import TRANSCENDENTAL, Case
from support.tensors import booleans, distinct, integers, normal, positive

nan, inf = float("nan"), float("inf")
A = normal(3, 4, 5)
D = distinct(3, 4, 5)
TIES = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
NANS = torch.tensor([[1.0, nan, 3.0, 2.0], [nan, nan, nan, nan], [4.0, 1.0, 2.0, 3.0]])
I = integers(-5, 6, 3, 4)

CASES = [
    Case("sum", lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True), x.sum(-1), x.sum([])), [A]),
    Case("sum integers", lambda x: (x.sum(), x.sum(1), x.sum(dtype=torch.float32)), [I]),
    Case("sum bool", lambda x: (x.sum(), x.sum(0)), [booleans(3, 4)]),
    Case("mean", lambda x: (x.mean(), x.mean(1), x.mean((0, 2), keepdim=True)), [A]),
    Case("mean of integers", lambda x: x.mean(dtype=torch.float32), [I]),
    Case("nansum", lambda x, m: (torch.where(m, nan, x).nansum(), torch.where(m, nan, x).nansum(1)),
        [normal(3, 4), NANS.isnan()]),
    Case("nanmean", lambda x, m: torch.where(m, nan, x).nanmean(0), [normal(3, 4), NANS.isnan()]),
    Case("prod", lambda x: (x.prod(), x.prod(1), x.prod(2, keepdim=True)), [A], tolerance=TRANSCENDENTAL),
    Case("prod with zeros", lambda x: x.prod(1), [torch.tensor([[0.0, 2.0, 3.0], [0.0, 0.0, 2.0], [1.0, 2.0, 3.0]])]),
    Case("prod integers", lambda x: (x.prod(), x.prod(0)), [I]),
    Case("max", lambda x: (x.max(), x.min()), [D]),
    Case("max ties", lambda x: (x.max(), x.amax(1), x.amin(0), x.amax()), [TIES]),
    Case("max.dim", lambda x: (*x.max(1), *x.min(-1, keepdim=True), *x.max(0)), [D]),
    Case("max.dim ties", lambda x: (*x.max(1), *x.min(1)), [TIES]),
    Case("max.dim NaN", lambda x: (*x.max(1), *x.min(1)), [NANS], grad=False),
    Case("max 0-dim", lambda x: (*x.max(0), x.argmax()), [torch.tensor(2.0)]),
    Case("max integers", lambda x: (x.max(), *x.max(1), x.amin(0)), [I]),
    Case("max bool", lambda x: (x.max(), x.min(), *x.max(1)), [booleans(3, 4)]),
    Case("amax", lambda x: (x.amax(1), x.amin((0, 2), keepdim=True), x.amax()), [D]),
    Case("aminmax", lambda x: (*torch.aminmax(x), *torch.aminmax(x, dim=1, keepdim=True)), [D], grad=False),
    Case("argmax", lambda x: (x.argmax(), x.argmax(1), x.argmin(-1, keepdim=True), x.argmin(), x.argmax(keepdim=True)),
        [TIES]),
    Case("all", lambda x: (x.all(), x.all(1), x.any(), x.any(0, keepdim=True)), [booleans(3, 4)]),
    Case("all of numbers", lambda x, y: (x.all(), x.any(1), y.any(), y.all(0)), [A, I]),
    Case("all of bytes", lambda x: (x.all(), x.any(0)), [integers(0, 2, 3, 4, dtype=torch.uint8)]),
    Case("count_nonzero", lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, 1),
        torch.count_nonzero(x, (0, 1))), [I]),
    Case("logsumexp", lambda x: (x.logsumexp(1), x.logsumexp((0, 2), keepdim=True)), [A], tolerance=TRANSCENDENTAL),
    Case("logsumexp extremes", lambda x: x.logsumexp(1), [torch.tensor([[-inf, -inf], [1000.0, 1000.0], [inf, 0.0]])],
        grad=False),
    Case("trace", lambda x: (x[0].trace(), x[0].t().trace()), [A]),
    Case("trace integers", torch.trace, [I]),
    # Deviations and norms.
    Case("var", lambda x: (x.var(), x.var(1), x.var((0, 2), unbiased=False, keepdim=True),
        torch.var(x, 1, correction=2)), [A], tolerance=TRANSCENDENTAL),
    Case("std", lambda x: (x.std(), x.std(1), x.std((0, 2), unbiased=False), torch.std(x, 1, correction=0)), [A],
        tolerance=TRANSCENDENTAL),
    Case("var_mean", lambda x: (*torch.var_mean(x), *torch.std_mean(x), *torch.var_mean(x, 1),
        *torch.std_mean(x, 1, keepdim=True),
                                *torch.var_mean(x, 1, correction=0), *torch.std_mean(x, 1, correction=0)), [A],
                                    tolerance=TRANSCENDENTAL),
    Case("var.default", lambda x: (torch.ops.aten.var(x), torch.ops.aten.std(x, False), *torch.ops.aten.var_mean(x),
        *torch.ops.aten.std_mean(x)), [A], tolerance=TRANSCENDENTAL),
    Case("std of one", lambda x: x.std(), [torch.tensor([2.0])], grad=False),
    Case("norm", lambda x: (x.norm(), x.norm(1), x.norm(3, dim=1), x.norm(inf, 2), x.norm(-inf, (0, 1), keepdim=True),
        x.norm(0, 1)), [D + 0.02], tolerance=TRANSCENDENTAL),
    Case("norm dtype", lambda x: (x.norm(2, 1, dtype=torch.float32), torch.ops.aten.norm.Scalar(x, 3),
        torch.ops.aten.norm.ScalarOpt_dtype(x, 2, dtype=torch.float32)), [A], tolerance=TRANSCENDENTAL),
    Case("norm at zero", lambda x: (x.norm(2, 1), x.norm(1, 1), x.norm(3, 1)),
        [torch.tensor([[0.0, 0.0], [3.0, 4.0]])], tolerance=TRANSCENDENTAL),
    Case("norm half power", lambda x: x.norm(0.5, 1), [positive(3, 4)], tolerance=TRANSCENDENTAL),
    Case("vector_norm", lambda x: (torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, 1, dim=2)), [A],
        tolerance=TRANSCENDENTAL),
    Case("matrix_norm", lambda x: (torch.linalg.matrix_norm(x), torch.linalg.matrix_norm(x, 1),
        torch.linalg.norm(x[0], inf), torch.linalg.norm(x[0])), [D + 0.02], tolerance=TRANSCENDENTAL),
    Case("dist", lambda x, y: (torch.dist(x, y), torch.dist(x, y, 1)), [A, normal(4, 5)], tolerance=TRANSCENDENTAL),
    # Order.
    Case("sort", lambda x: (*x.sort(), *x.sort(0, descending=True), *torch.sort(x, dim=1, stable=True)), [D]),
    Case("sort ties", lambda x: (*torch.sort(x, stable=True, dim=1),
        *torch.sort(x, stable=True, dim=1, descending=True)), [integers(0, 3, 4, 9)]),
    Case("sort NaN", lambda x: x.sort(1)[0], [NANS], grad=False),
    Case("argsort", lambda x: (x.argsort(1), x.argsort(0, descending=True), torch.argsort(x, dim=1, stable=True)), [D]),
    Case("msort", torch.msort, [D]),
    Case("topk", lambda x: (*x.topk(2), *x.topk(3, 1, largest=False), *x.topk(2, 0)), [D]),
    Case("kthvalue", lambda x: (*x.kthvalue(2), *x.kthvalue(1, 1, keepdim=True)), [D]),
    Case("median", lambda x: (x.median(), *x.median(1), *x.median(2, keepdim=True), x.nanmedian(), *x.nanmedian(1)),
        [D]),
    Case("median NaN", lambda x: (x.median(1)[0], x.nanmedian(1)[0], x.median(), x.nanmedian()), [NANS], grad=False),
    Case("median integers", lambda x: (x.median(), x.median(1)[0]), [I]),
    Case("quantile", lambda x: (x.quantile(0.3, 1), x.quantile(0.5)), [D], tolerance=TRANSCENDENTAL),
    Case("cumsum", lambda x: (x.cumsum(0), x.cumsum(-1)), [A]),
    Case("cumsum integers", lambda x: (x.cumsum(0), x.cumprod(1), x.cumsum(0, dtype=torch.float32)), [I]),
    Case("cumprod", lambda x: (x.cumprod(0), x.cumprod(-1)), [A], tolerance=TRANSCENDENTAL),
    Case("cumprod with zeros", lambda x: x.cumprod(1), [torch.tensor([[2.0, 0.0, 3.0, 4.0], [0.0, 1.0, 0.0, 2.0]])]),
    Case("cumsum 0-dim", lambda x: x.cumsum(0), [torch.tensor(2.0)]),
    Case("cummax", lambda x: (*x.cummax(1), *x.cummin(2)), [A]),
    Case("cummax ties", lambda x: (*x.cummax(1), *x.cummin(1)), [integers(0, 3, 4, 9)]),
    Case("cummax NaN", lambda x: (*x.cummax(1), *x.cummin(1)), [NANS], grad=False),
    Case("logcumsumexp", lambda x: (x.logcumsumexp(1), x.logcumsumexp(-1)), [A], tolerance=TRANSCENDENTAL),
    Case("diff", lambda x: (x.diff(), x.diff(dim=0)), [A]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_eager(case):
    compare.check(case)
