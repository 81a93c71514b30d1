"""Special and integer functions, grids, histograms, segments and real Fourier transforms against eager PyTorch."""

import poptorch
import pytest
import torch
import torch.nn.functional as F
from support import compare
from support.compare import EXACT, PRODUCT, TRANSCENDENTAL, Case
from support.tensors import booleans, distinct, integers, normal, positive, uniform

S = torch.special
X, POSITIVE = uniform(-4, 4, 3, 7), uniform(0.3, 6, 3, 7)
DEGREES = integers(0, 12, 7)

CASES = [
    *(Case(name, getattr(S, name), [X], tolerance=TRANSCENDENTAL) for name in ("i0", "i0e", "i1", "i1e")),
    Case("i0e far away", lambda x: (S.i0e(x), S.i1e(x)), [torch.tensor([-80.0, 31.0, 1000.0])],
        tolerance=TRANSCENDENTAL),
    Case("i1 at 0", lambda x: (S.i1(x), S.i1e(x)), [torch.zeros(2)], tolerance=TRANSCENDENTAL),
    Case("erfcx", S.erfcx, [uniform(-2, 40, 20)], tolerance=TRANSCENDENTAL),
    Case("ndtri", S.ndtri, [uniform(0.001, 0.999, 20)], tolerance=TRANSCENDENTAL),
    Case("ndtri at the ends", lambda x: S.ndtri(x), [torch.tensor([0.0, 1.0])], grad=False),
    Case("log_ndtr", S.log_ndtr, [torch.tensor([-30.0, -5.0, -1.5, -1.0, -0.5, 0.0, 2.0, 6.0])],
        tolerance=TRANSCENDENTAL),
    Case("entr", S.entr, [positive(5)], tolerance=TRANSCENDENTAL),
    Case("entr outside", lambda x: S.entr(x), [torch.tensor([0.0, -1.0, float("nan")])], grad=False),
    *(Case(name, getattr(S, name), [POSITIVE], grad=False, tolerance=TRANSCENDENTAL)
        for name in ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0", "modified_bessel_i1",
            "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
            "spherical_bessel_j0")),
    Case("modified_bessel_k far away", lambda x: (S.scaled_modified_bessel_k0(x), S.scaled_modified_bessel_k1(x)),
        [torch.tensor([29.0, 31.0, 500.0])], grad=False, tolerance=TRANSCENDENTAL),
    Case("bessel_j of negative numbers", lambda x: (S.bessel_j0(x), S.bessel_j1(x), S.airy_ai(x)), [X], grad=False,
        tolerance=TRANSCENDENTAL),
    Case("spherical_bessel_j0 at 0", lambda x: S.spherical_bessel_j0(x), [torch.zeros(1)], grad=False),
    *(Case(f"{name}", lambda x, n, f=getattr(S, name): (f(x, n), f(x, 3), f(0.4, n)),
        [uniform(-0.9, 0.9, 3, 7), DEGREES],
        grad=False, tolerance=TRANSCENDENTAL)
        for name in (f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw")),
    *(Case(f"{name}", lambda x, n, f=getattr(S, name): (f(x, n), f(x, 3), f(0.4, n)), [X, integers(0, 6, 7)],
        grad=False, tolerance=TRANSCENDENTAL)
        for name in ("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
            "legendre_polynomial_p")),
    Case("zeta", lambda x, q: (S.zeta(x.detach(), q), S.zeta(2.5, q), S.zeta(x.detach(), 1.5)),
        [uniform(1.5, 4, 3, 5), positive(5)], tolerance=TRANSCENDENTAL),
    *(Case(f"polygamma {n}", lambda x, n=n: torch.polygamma(n, x), [POSITIVE], tolerance=TRANSCENDENTAL)
        for n in (0, 1, 2, 3)),
    Case("polygamma_", lambda x: (x * 1).polygamma_(2), [POSITIVE], tolerance=TRANSCENDENTAL),
    Case("mvlgamma", lambda x: torch.mvlgamma(x, 3), [uniform(1.5, 5, 4)], tolerance=TRANSCENDENTAL),
    Case("igamma", lambda a, x: (torch.igamma(a.detach(), x), torch.igammac(a.detach(), x)),
        [uniform(0.2, 9, 3, 7), POSITIVE], tolerance=TRANSCENDENTAL),
    Case("igamma at the ends", lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)),
        [torch.tensor([0.0, 1.0, 2.0, -1.0, float("inf")]), torch.tensor([1.0, 0.0, float("inf"), 1.0, 2.0])],
            grad=False),
    Case("angle", torch.angle, [torch.tensor([-2.0, 0.0, 3.0])]),
    Case("angle of what is no number", torch.angle, [torch.tensor([float("nan"), -1.0])], grad=False),
    Case("angle of integers", torch.angle, [integers(-3, 4, 6)]),
    Case("isposinf", lambda x: (torch.isposinf(x), torch.isneginf(x)),
        [torch.tensor([float("inf"), -float("inf"), 1.0, float("nan")])], grad=False),
    Case("isposinf of integers", lambda x: (torch.isposinf(x), torch.isneginf(x)), [integers(0, 3, 4)]),
    Case("gcd", lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)), [integers(-40, 40, 5, 6), integers(-12, 12, 6)]),
    Case("gcd with 0", lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)), [torch.tensor([0, 0, 6]),
        torch.tensor([0, 4, 0])]),
    Case("nextafter", torch.nextafter, [torch.tensor([1.0, 0.0, -2.0]), torch.tensor([2.0, -1.0, -2.0])], grad=False,
        tolerance=EXACT),
]

# Where images are read: inside, on the edges and outside.
IMAGE, VOLUME = distinct(2, 3, 4, 5) / 8, distinct(2, 2, 3, 4, 3) / 8
GRID, GRID_3D = uniform(-1.5, 1.5, 2, 3, 4, 2), uniform(-1.5, 1.5, 2, 2, 3, 2, 3)
for mode in ("bilinear", "nearest", "bicubic"):
    for padding in ("zeros", "border", "reflection"):
        for corners in (False, True):
            CASES.append(Case(f"grid_sample {mode} {padding} {corners}",
                lambda x, g, m=mode, p=padding, c=corners: F.grid_sample(x, g, m, p, c), [IMAGE, GRID],
                    tolerance=PRODUCT))
            if mode != "bicubic":
                CASES.append(Case(f"grid_sample of volumes {mode} {padding} {corners}",
                    lambda x, g, m=mode, p=padding, c=corners: F.grid_sample(x, g, m, p, c), [VOLUME, GRID_3D],
                    tolerance=PRODUCT))

SEGMENTS = torch.tensor([2, 0, 3, 1])
CASES += [
    Case("affine_grid", lambda t: (F.affine_grid(t, (2, 3, 4, 5), False), F.affine_grid(t, (2, 3, 4, 5), True)),
        [normal(2, 2, 3)], tolerance=PRODUCT),
    Case("affine_grid of volumes", lambda t: F.affine_grid(t, (2, 1, 3, 4, 1), False), [normal(2, 3, 4)],
        tolerance=PRODUCT),
    *(Case(f"interpolate antialiased {mode} {size} {corners}",
        lambda x, m=mode, s=size, c=corners: F.interpolate(x, size=s, mode=m, align_corners=c, antialias=True),
        [normal(2, 2, 9, 7)], tolerance=PRODUCT)
        for mode in ("bilinear", "bicubic") for size in ((4, 3), (12, 10), (1, 7)) for corners in (False, True)),
    Case("interpolate antialiased by a factor",
        lambda x: F.interpolate(x, scale_factor=0.4, mode="bilinear", antialias=True), [normal(2, 2, 9, 7)],
        tolerance=PRODUCT),
    Case("antialiased, low level", lambda x: (torch.ops.aten._upsample_bilinear2d_aa(x, [4, 3], False),
        torch.ops.aten._upsample_bicubic2d_aa(x, [4, 3], False)), [normal(2, 2, 9, 7)], tolerance=PRODUCT),
    Case("mode", lambda x: (*torch.mode(x), *torch.mode(x, 0, True)), [integers(0, 3, 4, 6).float()]),
    Case("mode of integers", lambda x: torch.mode(x, 1), [integers(0, 3, 4, 6)]),
    Case("mode of bool and of one number", lambda x, y: (torch.mode(x, 0).values, *torch.mode(y)),
        [booleans(5, 4), torch.tensor(2)]),
    Case("renorm", lambda x: (torch.renorm(x, 2, 0, 1.0), torch.renorm(x, 1, 2, 3.0)), [normal(4, 3, 5)],
        tolerance=PRODUCT),
    Case("pdist", lambda x: (F.pdist(x), F.pdist(x, 1.0), F.pdist(x, 3.0)), [normal(5, 4)], tolerance=PRODUCT),
    Case("_pdist_forward", lambda x: torch.ops.aten._pdist_forward(x, 2.0), [normal(5, 4)], tolerance=PRODUCT),
    Case("cov", lambda x: (torch.cov(x), torch.cov(x, correction=0), torch.cov(x[0])), [normal(3, 6)],
        tolerance=PRODUCT),
    Case("cov with weights", lambda x, f, a: (torch.cov(x, fweights=f), torch.cov(x, aweights=a.detach()),
        torch.cov(x, correction=2, fweights=f, aweights=a.detach())), [normal(3, 6), integers(1, 4, 6), positive(6)],
        tolerance=PRODUCT),
    Case("histc", lambda x: (torch.histc(x, 5, -2, 2), torch.histc(x, 7)), [normal(40)], grad=False),
    Case("histc of equal numbers", lambda x: torch.histc(x, 4), [torch.ones(3)], grad=False),
    Case("histogram", lambda x: (*torch.histogram(x, 5), *torch.histogram(x, 6, range=(-1.0, 1.0)),
        *torch.histogram(x, 4, density=True)), [normal(40)], grad=False),
    Case("histogram by edges", lambda x, e, w: (*torch.histogram(x, e), *torch.histogram(x, e, weight=w)),
        [normal(40), torch.tensor([-1.0, -0.5, 0.25, 2.0]), positive(40)], grad=False),
    *(Case(f"segment_reduce {reduce} {initial}", lambda x, n, r=reduce, i=initial:
        torch.segment_reduce(x, r, lengths=n, initial=i, unsafe=True), [distinct(6, 2), SEGMENTS])
        for reduce in ("sum", "mean", "max", "min") for initial in (None, 1.0)),
    Case("segment_reduce prod", lambda x, n: torch.segment_reduce(x, "prod", lengths=n, unsafe=True),
        [positive(6, 2), SEGMENTS]),
    Case("segment_reduce of rows", lambda x, n: torch.segment_reduce(x, "sum", lengths=n, axis=1, unsafe=True),
        [distinct(2, 5, 3), torch.tensor([[2, 3], [1, 4]])]),
    Case("segment_reduce by offsets", lambda x, o: torch.segment_reduce(x, "sum", offsets=o, unsafe=True),
        [distinct(6, 2), torch.tensor([0, 2, 2, 6])]),
    Case("as_strided_scatter", lambda x, y: torch.as_strided_scatter(x, y, (2, 2), (3, 1), 2),
        [normal(4, 4), normal(2, 2)], grad=False),
    Case("narrow_copy", lambda x: torch.narrow_copy(x, 1, 1, 2), [normal(3, 4)], grad=False),
    Case("conv_tbc", lambda x, w, b: torch.conv_tbc(x, w, b, 1), [normal(6, 2, 3), normal(3, 3, 4), normal(4)],
        tolerance=PRODUCT),
    *(Case(f"fft {name} {norm}", lambda x, f=getattr(torch.fft, name), n=norm: f(x, norm=n), [normal(3, 4, 5)],
        tolerance=PRODUCT)
        for name in ("irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn") for norm in ("backward", "ortho",
            "forward")),
    Case("fft irfft of given sizes", lambda x: (torch.fft.irfft(x, 7, 1), torch.fft.hfft(x, 3),
        torch.fft.irfft2(x, (3, 9)),
        torch.fft.hfftn(x, (2, 6), (0, 2))), [normal(3, 4, 5)], tolerance=PRODUCT),
    # What was wrong.
    Case("pad circular crops first", lambda x: F.pad(x, (-1, 1, -2, 1), "circular"), [normal(1, 3, 4, 4)]),
    Case("pad circular around and inside", lambda x: F.pad(x, (2, -1), "circular"), [normal(1, 3, 5)]),
    Case("aminmax of a number", lambda x: (*torch.aminmax(x, dim=0, keepdim=True), *torch.aminmax(x)),
        [torch.tensor(2.0)],
        grad=False),
    Case("norm of a negative order at 0", lambda x: (torch.linalg.vector_norm(x, -1),
        torch.linalg.vector_norm(x, -0.5, 1),
        torch.linalg.vector_norm(x, -2, 0)), [torch.tensor([[0.0, 1.0, -2.0], [3.0, 0.5, 1.0]])], tolerance=PRODUCT),
    Case("cosine_similarity of numbers", lambda x, y: F.cosine_similarity(x, y, dim=0),
        [torch.tensor(2.0), torch.tensor(-3.0)]),
    Case("sum as bool", lambda x, b: (x.sum(dtype=torch.bool), x.sum(1, dtype=torch.bool), b.prod(0, dtype=torch.bool)),
        [integers(0, 2, 3, 4), booleans(3, 4)]),
    Case("addr where alpha is 0", lambda x, a, b: torch.addr(x, a, b, beta=0, alpha=0),
        [torch.tensor([[float("nan")]]), torch.tensor([float("nan")]), torch.tensor([1.0])], grad=False),
    Case("addr of bool", lambda x, a, b: (torch.addr(x, a, b), torch.addr(x, a, b, beta=False)),
        [booleans(3, 4), booleans(3), booleans(4)]),
    Case("conv_transpose with output padding beyond the stride", lambda x, w, b: (
        F.conv_transpose1d(x, w, b, stride=1, padding=1, output_padding=2, dilation=3),
        F.conv_transpose1d(x, w, b, stride=2, padding=3, output_padding=2, dilation=4)),
        [normal(2, 3, 5), normal(3, 2, 3), normal(2)], tolerance=PRODUCT),
    Case("max_pool whose window passes the padding", lambda x: F.max_pool1d(x, 3, 3, dilation=2, ceil_mode=True),
        [distinct(1, 2, 4)]),
    Case("tensor_split by a known tensor", lambda x: torch.tensor_split(x, torch.tensor([1, 3])), [normal(5, 2)]),
    Case("gaussian_nll_loss", lambda x, y, v: (F.gaussian_nll_loss(x, y, v), F.gaussian_nll_loss(x, y, v, full=True),
        F.gaussian_nll_loss(x, y, v, reduction="none"), F.gaussian_nll_loss(x, y, v[:, :1], reduction="sum")),
        [normal(3, 4), normal(3, 4), torch.cat([torch.zeros(3, 1), positive(3, 3)], 1) + 1e-3], tolerance=PRODUCT),
    Case("polynomials of degrees between -1 and 1", lambda x: (
        torch.special.chebyshev_polynomial_t(x, torch.tensor([-0.5, -1.5, 0.5, 3.7])),
        torch.special.hermite_polynomial_h(x, torch.tensor([-0.5, -1.5, 0.5, 3.7]))), [normal(4)], grad=False),
    Case("polygamma", lambda x: (torch.polygamma(1, x), torch.polygamma(2, x), torch.polygamma(1, -x - 0.3)),
         [positive(5) + 0.1], tolerance=TRANSCENDENTAL),
    Case("narrow from a computed place", lambda x, i: (torch.narrow(x, 1, i, 2), torch.narrow(x, 0, i - 3, 1)),
         [normal(3, 4), torch.tensor(2)]),
    Case("convolutions of integers", lambda x, w: (F.conv1d(x, w, stride=2, padding=1),
         F.conv_transpose1d(x, w.transpose(0, 1), stride=2, dilation=2)), [integers(-5, 6, 2, 3, 7), integers(-5, 6, 2, 3, 3)]),
    Case("extremes of int64 in torch.masked", lambda x, m: (torch.masked.amax(x, -1, mask=m),
         torch.masked.amin(x, 0, mask=m)), [integers(-5, 6, 3, 4), torch.ones(3, 4, dtype=torch.bool)]),
    Case("fractional_max_pool2d", lambda x, i: F.fractional_max_pool2d(x, (2, 3), output_size=(4, 3), return_indices=True,
        _random_samples=i / 100), [distinct(2, 3, 9, 8), integers(0, 100, 2, 3, 2)]),
    Case("fractional_max_pool3d", lambda x, i: F.fractional_max_pool3d(x, 2, output_size=(3, 4, 1), return_indices=True,
        _random_samples=i / 100), [distinct(2, 3, 6, 7, 5), integers(0, 100, 2, 3, 3)]),
    Case("attention", lambda q, k, v: (F._scaled_dot_product_attention(q, k, v, is_causal=True)[0],
        *F._scaled_dot_product_attention(q, k, v, need_attn_weights=True)),
        [normal(2, 2, 4, 6), normal(2, 2, 3, 6), normal(2, 2, 3, 6)], tolerance=PRODUCT),
]
for start, end, step in ((0.5, 3.7, 1), (0, 5.5, 2), (1.9, 7.9, 1.5), (5, -0.5, -1.2)):
    CASES += [Case(f"arange {start} {end} {step} {dtype}", lambda x, a=start, b=end, c=step, t=dtype:
        torch.arange(a, b, c, dtype=t, device=x.device), [normal(1)], grad=False) for dtype in (torch.int32,
            torch.int64)]
for start, end, steps in ((2, 1.2, 2), (0.9, 3.9, 4), (-1.5, 2.5, 3), (1.7, 9.0, 1)):
    CASES += [Case(f"linspace {start} {end} {steps}", lambda x, a=start, b=end, n=steps:
        (torch.linspace(a, b, n, dtype=torch.int64, device=x.device),
            torch.logspace(a, b, n, dtype=torch.int64, device=x.device)), [normal(1)], grad=False)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_op_matches_torch(case):
    compare.check(case)


# Eager's own gradient is no measure for these two: it reads memory nobody wrote, and divides by the frequency of
# another row. Other ops of eager PyTorch say the same.
BY_OTHER_OPS = [
    ("as_strided_scatter", lambda x, y: torch.as_strided_scatter(x, y, (2, 2), (3, 1), 2),
     lambda x, y: x.flatten().scatter(0, torch.tensor([2, 3, 5, 6]), y.flatten()).view(4, 4),
     [normal(4, 4), normal(2, 2)]),
    ("embedding_bag by frequency",
     lambda w, i: F.embedding_bag(i, w, torch.tensor([0, 2]), scale_grad_by_freq=True, mode="sum"),
     lambda w, i: torch.stack([part.sum(0) for part in F.embedding(i, w, scale_grad_by_freq=True).split([2, 3])]),
     [normal(5, 3), torch.tensor([1, 1, 2, 4, 1])]),
]


@pytest.mark.parametrize("name, function, other, inputs", BY_OTHER_OPS, ids=[row[0] for row in BY_OTHER_OPS])
def test_op_matches_another_way_to_write_it(name, function, other, inputs):
    torch.manual_seed(0)
    compare.check_values(Case(name, function, inputs))
    # While a model is captured it calls the op, in eager PyTorch the other way to write it.
    compare.check_gradients(Case(name, lambda *args: (function if poptorch.isRunningOnIpu() else other)(*args), inputs))


def test_entropy_has_the_slopes_of_eager_outside_of_its_domain():
    """Infinite at 0, NaN below: a parameter's loss cannot be compared, its gradient can."""
    x = torch.tensor([0.5, 0.0, -1.0])

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.x = torch.nn.Parameter(x.clone())

        def forward(self, _):
            return poptorch.identity_loss(torch.special.entr(self.x).sum(), "none")

    model = Model()
    executor = poptorch.trainingModel(model, compare.options(), torch.optim.SGD(model.parameters(), lr=1.0))
    executor(torch.zeros(1))
    executor.copyWeightsToHost()
    eager = x.clone().requires_grad_()
    torch.special.entr(eager).sum().backward()
    torch.testing.assert_close(model.x.detach(), x - eager.grad, equal_nan=True)
