"""Linear algebra on the device: factors, solutions, determinants, values; each beside eager PyTorch, with gradients."""

import poptorch
import pytest
import torch
from support import compare
from support.compare import PRODUCT, Case
from support.tensors import normal

linalg = torch.linalg
ONE = torch.eye(4)


def well(*shape):
    """Matrices far from singular."""
    return normal(*shape) + 4 * torch.eye(shape[-2], shape[-1])


def definite(x):
    return x @ x.mT + torch.eye(x.shape[-1])


def lower(x):
    """A factor as cholesky gives it."""
    return x.tril(-1) * 0.3 + torch.diag_embed(x.diagonal(dim1=-2, dim2=-1).abs() + 1)


BATCH = normal(2, 3, 4, 4)
CASES = [
    Case("cholesky", lambda x: linalg.cholesky(definite(x)), [BATCH], tolerance=PRODUCT),
    Case("cholesky upper", lambda x: linalg.cholesky(definite(x), upper=True), [normal(4, 4)], tolerance=PRODUCT),
    Case("cholesky of one triangle", lambda x: (linalg.cholesky(x), linalg.cholesky(x, upper=True)),
         [5 * ONE + normal(4, 4).tril() * 0.5], tolerance=PRODUCT),
    Case("cholesky_ex", lambda x: tuple(linalg.cholesky_ex(definite(x))), [BATCH], tolerance=PRODUCT),
    Case("the old cholesky", lambda x: torch.cholesky(definite(x)), [normal(3, 3)], tolerance=PRODUCT),
    Case("cholesky_solve", lambda b, x: (torch.cholesky_solve(b, lower(x)), torch.cholesky_solve(b, lower(x).mT, True)),
         [normal(3, 4, 2), normal(3, 4, 4)], tolerance=PRODUCT),
    Case("cholesky_inverse", lambda x: (torch.cholesky_inverse(lower(x)), torch.cholesky_inverse(lower(x).mT, True)),
         [normal(3, 4, 4)], tolerance=PRODUCT),
    Case("solve_triangular", lambda a, b: (linalg.solve_triangular(a, b, upper=True),
         linalg.solve_triangular(a, b, upper=False), linalg.solve_triangular(a, b.mT, upper=True, left=False),
         linalg.solve_triangular(a, b, upper=False, unitriangular=True)), [well(2, 1, 4, 4), normal(3, 4, 2)],
         tolerance=PRODUCT),
    Case("triangular_solve", lambda b, a: (*torch.triangular_solve(b, a), torch.triangular_solve(b, a, False, True)[0],
         torch.triangular_solve(b, a, True, False, True)[0]), [normal(2, 4, 3), well(2, 4, 4)], tolerance=PRODUCT),
    Case("inv", lambda x: (linalg.inv(x), *linalg.inv_ex(x), torch.inverse(x * 2)), [well(2, 3, 4, 4)],
         tolerance=PRODUCT),
    Case("solve", lambda a, b: (linalg.solve(a, b), *linalg.solve_ex(a, b), linalg.solve(a, b.mT, left=False)),
         [well(2, 4, 4), normal(2, 4, 3)], tolerance=PRODUCT),
    Case("solve for vectors", lambda a, b: (linalg.solve(a, b), linalg.solve(a, b[0])), [well(2, 4, 4), normal(2, 4)],
         tolerance=PRODUCT),
    Case("solve with batches that broadcast", linalg.solve, [well(3, 1, 4, 4), normal(2, 4, 3)], tolerance=PRODUCT),
    Case("det", lambda x: (linalg.det(x), torch.det(x[0, 0])), [BATCH], tolerance=PRODUCT),
    Case("det of singular matrices", lambda x: linalg.det(x[..., :1] * x[..., :1].mT), [normal(2, 3, 3)],
         tolerance=PRODUCT),
    Case("slogdet", lambda x: (*linalg.slogdet(x), torch.logdet(definite(x))), [well(2, 4, 4)], tolerance=PRODUCT),
    Case("lu_factor", lambda x: tuple(linalg.lu_factor(x)), [BATCH], tolerance=PRODUCT),
    Case("lu_factor tall and wide", lambda x: (linalg.lu_factor(x)[0], linalg.lu_factor(x.mT)[0]), [normal(2, 5, 3)],
         tolerance=PRODUCT),
    Case("lu", lambda x: (*linalg.lu(x), *linalg.lu(x[..., :2]), *linalg.lu(x[..., :2, :])), [BATCH],
         tolerance=PRODUCT),
    Case("lu_unpack", lambda x: torch.lu_unpack(*linalg.lu_factor(x)), [normal(2, 4, 3)], tolerance=PRODUCT),
    Case("lu_solve", lambda x, b: (linalg.lu_solve(*linalg.lu_factor(x), b),
         linalg.lu_solve(*linalg.lu_factor(x), b, adjoint=True),
         linalg.lu_solve(*linalg.lu_factor(x), b.mT, left=False)), [well(2, 4, 4), normal(2, 4, 3)], tolerance=PRODUCT),
    Case("matrix_power", lambda x: (linalg.matrix_power(x, -2), linalg.matrix_power(x, 3)), [well(2, 4, 4)],
         tolerance=PRODUCT),
    Case("tensorinv", lambda x: linalg.tensorinv(x, ind=1), [normal(6, 2, 3)], tolerance=PRODUCT),
    Case("tensorsolve", linalg.tensorsolve, [normal(2, 3, 6), normal(2, 3)], tolerance=PRODUCT),
    Case("qr", lambda x: (*linalg.qr(x), *linalg.qr(x.mT)), [normal(2, 5, 3)], tolerance=PRODUCT),
    Case("qr complete", lambda x: linalg.qr(x, mode="complete"), [normal(2, 5, 3)], grad=False, tolerance=PRODUCT),
    Case("geqrf and ormqr", lambda x, y: (*torch.geqrf(x), torch.ormqr(*torch.geqrf(x), y),
         torch.ormqr(*torch.geqrf(x), y, transpose=True), torch.ormqr(*torch.geqrf(x), y.mT, left=False)),
         [normal(2, 5, 3), normal(2, 5, 2)], grad=False, tolerance=PRODUCT),
    Case("householder_product", linalg.householder_product, [normal(2, 5, 3) * 0.5, normal(2, 3)], tolerance=PRODUCT),
    Case("eigvalsh", lambda x: (linalg.eigvalsh(x), linalg.eigvalsh(x, UPLO="U")), [BATCH], tolerance=PRODUCT),
    Case("svdvals", lambda x: (linalg.svdvals(x), linalg.svdvals(x.mT), linalg.svdvals(x * 2)), [normal(2, 5, 3)],
         tolerance=PRODUCT),
    Case("norms by singular values", lambda x: (torch.norm(x, "nuc"), linalg.matrix_norm(x, 2),
         linalg.matrix_norm(x, -2), linalg.cond(x)), [well(4, 4)], tolerance=PRODUCT),
    Case("matrix_rank", lambda x: (linalg.matrix_rank(x), linalg.matrix_rank(x @ x.mT, hermitian=True)),
         [normal(2, 5, 3)]),
    Case("pinv", lambda x: (linalg.pinv(x), linalg.pinv(x.mT), torch.pinverse(x * 1)), [normal(2, 5, 3)],
         tolerance=PRODUCT),
    Case("pinv of what has no full rank", lambda x: linalg.pinv(x @ x.mT, rtol=1e-3), [normal(4, 2)],
         tolerance=(1e-3, 1e-4)),
    Case("pinv hermitian", lambda x: linalg.pinv(x + x.mT, hermitian=True), [well(4, 4)], tolerance=PRODUCT),
    Case("matrix_exp", lambda x: (torch.matrix_exp(x), linalg.matrix_exp(x * 4), linalg.matrix_exp(x * 0)),
         [normal(2, 4, 4) * 0.5], tolerance=PRODUCT),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_linear_algebra_is_that_of_eager(case):
    compare.check(case)


def compiled(function, *inputs):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()
    return poptorch.inferenceModel(model, compare.options())(*inputs)


def test_a_singular_matrix_is_an_error_that_names_it():
    singular = torch.stack([ONE, torch.zeros(4, 4)])
    with pytest.raises(poptorch.Error, match=r"linalg.inv: \(Batch element 1\): .*singular"):
        compiled(linalg.inv, singular)
    with pytest.raises(poptorch.Error, match=r"linalg.solve.*singular"):
        compiled(linalg.solve, singular, torch.ones(2, 4, 1))


def test_a_matrix_that_is_not_positive_definite_is_an_error():
    with pytest.raises(poptorch.Error, match=r"linalg.cholesky: .*not positive-definite.*order 2"):
        compiled(linalg.cholesky, torch.tensor([[1.0, 2.0], [2.0, 1.0]]))


def test_half_matrices_are_computed_in_float():
    a, b = well(4, 4).half(), normal(4, 2).half()
    for function, inputs in ((linalg.inv, (a,)), (linalg.solve, (a, b)), (linalg.svdvals, (a,)), (linalg.det, (a,))):
        own, theirs = compiled(function, *inputs), function(*(x.float() for x in inputs))
        assert own.dtype == torch.float16
        torch.testing.assert_close(own.float(), theirs, rtol=5e-3, atol=5e-4)
