"""Arithmetic, comparisons and bits of two operands: broadcasting, promotion and gradients as in eager PyTorch."""

import pytest
import torch
from support import compare
from support.compare import TRANSCENDENTAL, Case
from support.tensors import booleans, integers, normal, positive, uniform

nan, inf = float("nan"), float("inf")
A, B = normal(3, 4), normal(4)
I, J = integers(-6, 7, 3, 4), integers(1, 5, 4)
MIXED_SIGNS = torch.tensor([-7.0, -2.5, 2.5, 7.0])
DIVISORS = torch.tensor([2.0, -2.0, 2.0, -2.0])

CASES = [
    Case("add", lambda a, b: (a + b, torch.add(a, b, alpha=3), a + 2, 2.5 + a), [A, B]),
    Case("add.Scalar", lambda a: torch.ops.aten.add.Scalar(a, 2, 3), [A]),
    Case("add integers", lambda a, b: (a + b, torch.add(a, b, alpha=2), a + 2.5), [I, J]),
    Case("add bool", lambda a, b: (a + b, a * b, a + 1, a + 0.5), [booleans(6), booleans(6)]),
    Case("sub", lambda a, b: (a - b, torch.sub(a, b, alpha=0.5), 1 - a, torch.rsub(a, b), torch.rsub(a, b, alpha=2)),
        [A, B]),
    Case("sub.Scalar", lambda a: torch.ops.aten.sub.Scalar(a, 2, 3), [A]),
    Case("rsub.Scalar", lambda a: torch.ops.aten.rsub.Scalar(a, 2, 3), [A]),
    Case("mul", lambda a, b: (a * b, a * 3), [A, B]),
    Case("mul.Scalar", lambda a: torch.ops.aten.mul.Scalar(a, 2), [A]),
    Case("div", lambda a, b: (a / b, a / 3, 2 / b, torch.true_divide(a, b)), [A, positive(4)]),
    Case("div.Scalar", lambda a: (torch.ops.aten.div.Scalar(a, 3), torch.ops.aten.true_divide.Scalar(a, 2)), [A]),
    Case("div integers", lambda a, b: (a / b, a / 2), [I, J]),
    Case("div rounded", lambda a, b: (torch.div(a, b, rounding_mode="floor"), torch.div(a, b, rounding_mode="trunc"),
                                      torch.div(a, b, rounding_mode=None)), [MIXED_SIGNS, DIVISORS]),
    Case("div rounded integers", lambda a: (torch.div(a, -2, rounding_mode="floor"),
        torch.div(a, 2, rounding_mode="trunc")), [I]),
    Case("div.Scalar_mode", lambda a: torch.ops.aten.div.Scalar_mode(a, 2, rounding_mode="floor"), [MIXED_SIGNS]),
    Case("floor_divide", lambda a, b: (a // b, a // -2), [MIXED_SIGNS, DIVISORS], grad=False),
    Case("floor_divide integers", lambda a, b: (a // b, torch.ops.aten.floor_divide.Scalar(a, -2)), [I, J]),
    Case("remainder", lambda a, b: (a % b, a % 3, torch.fmod(a, b), torch.fmod(a, 3)), [MIXED_SIGNS, DIVISORS]),
    Case("remainder of a number", lambda b: torch.remainder(5, b), [DIVISORS], grad=False),
    Case("remainder integers", lambda a, b: (a % b, a % -3, torch.fmod(a, b), torch.fmod(a, -3),
        torch.remainder(7, b)), [I, J]),
    Case("pow", lambda a, b: a ** b, [positive(3, 4), normal(4)], tolerance=TRANSCENDENTAL),
    Case("pow of numbers", lambda a: (a ** 2, a ** 3, a ** 0, a ** 1, a ** -1, a ** 0.5, a ** -0.5, a ** 2.5, 2 ** a),
         [positive(5)], tolerance=TRANSCENDENTAL),
    Case("pow at zero", lambda a, b: a ** b, [torch.tensor([0.0, 0.0, 2.0]), torch.tensor([0.0, 2.0, 0.0])]),
    Case("pow negative base", lambda a: (a ** 2, a ** 3, a ** -1), [torch.tensor([-2.0, -0.5])]),
    Case("pow integers", lambda a, b: (a ** 2, a ** b, 2 ** b, a ** 0.5, torch.pow(3, b)), [integers(0, 5, 4), J]),
    Case("atan2", torch.atan2, [A, B], tolerance=TRANSCENDENTAL),
    Case("atan2 integers", torch.atan2, [I, J], tolerance=TRANSCENDENTAL),
    Case("hypot", torch.hypot, [A, B], tolerance=TRANSCENDENTAL),
    Case("hypot extremes", torch.hypot, [torch.tensor([3e30, 0.0, inf]), torch.tensor([4e30, 0.0, 1.0])], grad=False),
    Case("logaddexp", lambda a, b: (torch.logaddexp(a, b), torch.logaddexp2(a, b)), [A, B], tolerance=TRANSCENDENTAL),
    Case("logaddexp extremes", torch.logaddexp, [torch.tensor([1000.0, -inf, inf]), torch.tensor([1000.0, -inf, inf])],
        grad=False),
    Case("xlogy", lambda a, b: (torch.xlogy(a, b), torch.xlogy(a, 2.0), torch.xlogy(0.5, b)),
         [torch.tensor([0.5, 1.0, 2.0]), positive(3)], tolerance=TRANSCENDENTAL),
    Case("xlogy at zero", lambda a, b: torch.xlogy(a, b), [torch.tensor([0.0, 0.0]), torch.tensor([0.0, nan])],
        grad=False),
    Case("xlog1py", lambda a, b: (torch.special.xlog1py(a, b), torch.special.xlog1py(a, 2.0),
        torch.special.xlog1py(0.5, b)),
         [positive(3), positive(3)], tolerance=TRANSCENDENTAL),
    Case("maximum", lambda a, b: (torch.maximum(a, b), torch.minimum(a, b), torch.max(a, b), torch.min(a, b)),
         [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 2.0, 1.0])]),
    Case("maximum NaN", lambda a, b: (torch.maximum(a, b), torch.minimum(a, b)),
         [torch.tensor([nan, 2.0]), torch.tensor([2.0, nan])], grad=False),
    Case("maximum integers", lambda a, b: (torch.maximum(a, b), torch.minimum(a, b)), [I, J]),
    Case("fmax", lambda a, b: (torch.fmax(a, b), torch.fmin(a, b)),
         [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 2.0, 1.0])]),
    Case("fmax NaN", lambda a, b: (torch.fmax(a, b), torch.fmin(a, b)),
         [torch.tensor([nan, 2.0, nan]), torch.tensor([2.0, nan, nan])], grad=False),
    Case("lerp", lambda a, b, w: (torch.lerp(a, b, 0.3), torch.lerp(a, b, w)), [A, normal(3, 4), uniform(0, 1, 3, 4)]),
    Case("addcmul", lambda a, b, c: (torch.addcmul(a, b, c), torch.addcmul(a, b, c, value=0.5)), [A, B, normal(3, 1)]),
    Case("addcdiv", lambda a, b, c: (torch.addcdiv(a, b, c), torch.addcdiv(a, b, c, value=0.5)),
        [A, B, positive(3, 1)]),
    Case("copysign", lambda a, b: (torch.copysign(a, b), torch.copysign(a, -2.0)),
        [A, torch.tensor([1.0, -1.0, 2.0, -3.0])]),
    Case("heaviside", torch.heaviside, [torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([0.5, 0.5, 0.5])], grad=False),
    Case("in place keeps the type", lambda a, b: (a.clone().add_(b), a.clone().mul_(b), a.clone().div_(b)),
        [normal(3, 4), positive(4)]),
    Case("out=", lambda a, b: torch.add(a, b, out=torch.empty(3, 4)), [A, B], grad=False),
    Case("promotion", lambda a, i, b: (a + i, i + 1.5, b + i, b * 2, i * a), [B, integers(-3, 4, 4), booleans(4)]),
    Case("promotion of 0-dim", lambda a, s: (a.int() + s, a + s), [B, torch.tensor(2.5)]),
    Case("mixed integers", lambda a, b: a + b, [integers(0, 9, 5, dtype=torch.int16),
        integers(0, 9, 5, dtype=torch.int32)]),
]

COMPARISONS = [torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge]
for compared in COMPARISONS:
    CASES += [
        Case(compared.__name__, lambda a, b, f=compared: (f(a, b), f(a, 0.5)),
             [torch.tensor([0.5, 1.0, nan, 2.0]), torch.tensor([0.5, 2.0, nan, 1.0])]),
        Case(f"{compared.__name__} integers", lambda a, b, f=compared: (f(a, b), f(a, 2), f(a, 1.5)), [I, J]),
    ]
for word in ("logical_and", "logical_or", "logical_xor"):
    CASES.append(Case(word, getattr(torch, word), [integers(0, 2, 8), booleans(8)]))
for word in ("and", "or", "xor"):
    plain, dunder = getattr(torch, f"bitwise_{word}"), getattr(torch.Tensor, f"__{word}__")
    CASES += [
        Case(f"bitwise_{word}", lambda a, b, f=plain: (f(a, b), f(a, 3), f(3, b)),
            [integers(-9, 9, 8), integers(0, 9, 8)]),
        Case(f"__{word}__", lambda a, b, f=dunder: (f(a, b), f(a, 3)), [integers(-9, 9, 8), integers(0, 9, 8)]),
        Case(f"bitwise_{word} bool", lambda a, b, f=plain: f(a, b), [booleans(8), booleans(8)]),
        Case(f"bitwise_{word} bytes", lambda a, b, f=plain: f(a, b),
             [integers(0, 99, 8, dtype=torch.uint8), integers(0, 99, 8, dtype=torch.uint8)]),
    ]
SHIFTS = integers(0, 4, 8)
CASES += [
    Case("shifts", lambda a, b: (a << b, a >> b, a << 2, a >> 1), [integers(-50, 50, 8), SHIFTS]),
    Case("named shifts", lambda a, b: (torch.bitwise_left_shift(a, b), torch.bitwise_right_shift(a, b),
                                       torch.bitwise_left_shift(a, 2), torch.bitwise_right_shift(a, 2),
                                       torch.bitwise_left_shift(3, b), torch.bitwise_right_shift(3, b)),
         [integers(0, 50, 8), SHIFTS]),
    Case("isclose", lambda a, b: (torch.isclose(a, b), torch.isclose(a, b, equal_nan=True)),
         [torch.tensor([1.0, 1.0, nan, inf, inf]), torch.tensor([1.000001, 1.1, nan, inf, 1.0])]),
    Case("isclose integers", lambda a, b: torch.isclose(a, b, rtol=0.5), [I, J]),
    Case("isin", lambda a, b: (torch.isin(a, b), torch.isin(a, b, invert=True), torch.isin(a, 2), torch.isin(2, b)),
        [I, J]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_eager(case):
    compare.check(case)
