"""Elementwise functions of one tensor, and clamping, against eager PyTorch."""

import pytest
import torch
from support import compare
from support.compare import TRANSCENDENTAL, Case
from support.tensors import booleans, integers, normal, positive, uniform

inf, nan = float("inf"), float("nan")
ANYWHERE = uniform(-3, 3, 3, 5)
INSIDE = uniform(-0.9, 0.9, 3, 5)

SMOOTH = {
    "acos": INSIDE, "acosh": uniform(1.2, 4, 7), "asin": INSIDE, "asinh": ANYWHERE, "atan": ANYWHERE,
    "atanh": INSIDE, "cos": ANYWHERE, "cosh": ANYWHERE, "digamma": positive(7), "erf": ANYWHERE, "erfc": ANYWHERE,
    "erfinv": INSIDE, "exp": ANYWHERE, "exp2": ANYWHERE, "expm1": ANYWHERE, "lgamma": positive(7), "log": positive(7),
    "log10": positive(7), "log1p": positive(7), "log2": positive(7), "reciprocal": positive(7),
    "rsqrt": positive(7), "sigmoid": ANYWHERE, "sin": ANYWHERE, "sinh": ANYWHERE, "sqrt": positive(7),
    "square": ANYWHERE, "tan": uniform(-1, 1, 7), "tanh": ANYWHERE, "deg2rad": ANYWHERE, "rad2deg": ANYWHERE,
    "frac": ANYWHERE, "neg": ANYWHERE, "positive": ANYWHERE, "sinc": torch.tensor([0.0, 0.3, -1.7, 2.0]),
    "abs": torch.tensor([-2.0, 0.0, 3.5]), "logit": uniform(0.1, 0.9, 7),
}
STEPS = ["ceil", "floor", "round", "trunc", "sign", "sgn"]
HALVES = torch.tensor([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 0.3, -7.7])
ODD = torch.tensor([1.0, -0.0, 0.0, inf, -inf, nan, -3.0])

CASES = [Case(name, getattr(torch, name), [x], tolerance=TRANSCENDENTAL) for name, x in SMOOTH.items()]
CASES += [Case(f"{name} of integers", getattr(torch, name), [integers(1, 5, 6)], tolerance=TRANSCENDENTAL)
          for name in SMOOTH if name not in ("frac", "acos", "asin", "atanh", "erfinv", "logit")]
CASES += [Case(name, getattr(torch, name), [HALVES]) for name in STEPS]
CASES += [Case(f"{name} of integers", getattr(torch, name), [integers(-5, 5, 6)]) for name in STEPS]
CASES += [Case(name, getattr(torch, name), [ODD]) for name in ("isnan", "isinf", "isfinite", "signbit", "logical_not")]
CASES += [Case(f"{name} of integers", getattr(torch, name), [integers(-2, 3, 6)])
          for name in ("isnan", "isinf", "isfinite", "signbit", "logical_not", "bitwise_not")]
CASES += [
    Case("bitwise_not of bool", torch.bitwise_not, [booleans(7)]),
    Case("sign of bool", torch.sign, [booleans(7)]),
    Case("out of domain", lambda x: (torch.log(x), torch.sqrt(x), torch.acosh(x)), [torch.tensor([-1.0, 0.0, 0.5])],
        grad=False),
    Case("round.decimals", lambda x: (torch.round(x, decimals=1), torch.round(x, decimals=-1)), [normal(9) * 20]),
    Case("logit eps", lambda x: torch.logit(x, eps=0.2), [torch.tensor([0.1, 0.3, 0.5, 0.9])],
        tolerance=TRANSCENDENTAL),
    Case("nan_to_num", torch.nan_to_num, [ODD], grad=False),
    Case("nan_to_num values", lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0), [ODD], grad=False),
    Case("nan_to_num gradient", torch.nan_to_num, [normal(5)]),
    Case("in place", lambda x: (x * 2).exp_().clone().add_(2).sqrt_(), [ANYWHERE], tolerance=TRANSCENDENTAL),
    Case("clamp", lambda x: torch.clamp(x, -1.0, 1.0), [torch.tensor([-2.0, -1.0, 0.3, 1.0, 1.5])]),
    Case("clamp NaN", lambda x: torch.clamp(x, -1.0, 1.0), [torch.tensor([nan, inf])], grad=False),
    Case("clamp one bound", lambda x: (torch.clamp(x, min=0.5), torch.clamp(x, max=0.5)), [ANYWHERE]),
    Case("clamp crossed", lambda x: torch.clamp(x, 1.0, -1.0), [ANYWHERE], grad=False),
    Case("clamp integers", lambda x: (torch.clamp(x, -1, 1), torch.clamp(x, min=0), torch.clamp(x, -0.5, 1.5)),
        [integers(-4, 4, 9)]),
    Case("clamp_min, clamp_max", lambda x: (torch.clamp_min(x, 0.1), torch.clamp_max(x, 0.1)), [ANYWHERE]),
    Case("clip", lambda x: torch.clip(x, -1, 1), [ANYWHERE]),
    Case("clamp.Tensor", torch.clamp, [normal(4, 3), normal(3) - 1, normal(3) + 1]),
    Case("clip.Tensor", torch.clip, [normal(4, 3), normal(3) - 1, normal(3) + 1]),
    Case("clamp_min.Tensor", torch.clamp_min, [normal(4, 3), normal(3)]),
    Case("clamp_max.Tensor", torch.clamp_max, [normal(4, 3), normal(3)]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_eager(case):
    compare.check(case)
