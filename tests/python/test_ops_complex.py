"""Complex tensors inside a model: pairs of real numbers in the graph, with gradients."""

import poptorch
import pytest
import torch
import torch.nn.functional as F
from support import compare
from support.compare import PRODUCT, Case
from support.tensors import normal, positive


def as_complex(pairs):
    return torch.view_as_complex(pairs)


def real(z):
    return torch.view_as_real(z.resolve_conj())


FILTER = torch.complex(normal(5), normal(5))

CASES = [
    Case("fft", lambda x: (real(torch.fft.fft(x)), real(torch.fft.ifft(x, 7))), [normal(3, 8)], tolerance=PRODUCT),
    Case("rfft and back", lambda x: torch.fft.irfft(torch.fft.rfft(x) * FILTER), [normal(3, 8)], tolerance=PRODUCT),
    Case("fft of two axes", lambda x: real(torch.fft.fft2(x)), [normal(2, 4, 6)], tolerance=PRODUCT),
    Case("spectrogram", lambda x: torch.stft(x, 8, window=torch.hann_window(8), return_complex=True).abs(),
        [normal(2, 40)], tolerance=PRODUCT),
    Case("stft and back", lambda x: torch.istft(torch.stft(x, 8, window=torch.ones(8), return_complex=True), 8,
        window=torch.ones(8)), [normal(2, 40)], tolerance=PRODUCT),
    Case("view_as_complex", lambda a, b: real(torch.view_as_complex(a) * torch.view_as_complex(b)),
        [normal(3, 2), normal(3, 2)], tolerance=PRODUCT),
    Case("complex, real and imag", lambda a, b: (torch.complex(a, b).exp().real, torch.complex(a, b).conj().imag),
        [normal(4), normal(4)], tolerance=PRODUCT),
    Case("polar", lambda r, t: real(torch.polar(r, t)), [positive(4), normal(4)], tolerance=PRODUCT),
    Case("abs and angle", lambda a: (torch.view_as_complex(a).abs(), torch.view_as_complex(a).angle()), [normal(5, 2)],
        tolerance=PRODUCT),
    Case("arithmetic", lambda a, b, c: [real(z) for z in (
        as_complex(a) + as_complex(b), as_complex(a) - 1.5, 2 - as_complex(a), as_complex(a) * (1 - 2j), c * as_complex(a),
        as_complex(a) / as_complex(b), as_complex(a) / c, 1 / as_complex(b), -as_complex(a), as_complex(a).sigmoid())],
        [normal(4, 2), normal(4, 2) + 3, positive(4)], tolerance=PRODUCT),
    Case("moves", lambda a: [real(z) for z in (
        as_complex(a).t(), as_complex(a).reshape(-1), as_complex(a)[1:, 0], as_complex(a).unsqueeze(1).expand(3, 2, 4),
        torch.cat([as_complex(a), as_complex(a).conj()]), torch.stack(as_complex(a).unbind(0)), as_complex(a).flip(0),
        F.pad(as_complex(a), (1, 0)), as_complex(a).roll(1, 0), as_complex(a).sum(0), as_complex(a).mean(),
        torch.where(a[..., 0] > 0, as_complex(a), as_complex(a) * 2), as_complex(a).index_select(0, torch.tensor([2, 0])))],
        [normal(3, 4, 2)], tolerance=PRODUCT),
    Case("products", lambda a, b: (real(as_complex(a) @ as_complex(b)), real(torch.outer(as_complex(a[0]), b[0, :, 0]))),
        [normal(3, 4, 2), normal(4, 5, 2)], tolerance=PRODUCT),
    Case("conversions", lambda a: (real(a.to(torch.complex64)), as_complex(a).real.half()), [normal(3, 2)],
        tolerance=PRODUCT),
    Case("eigvals", lambda a: torch.linalg.eigvals(a).abs().sum(), [normal(4, 4)], tolerance=PRODUCT),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_complex_numbers_match_eager(case):
    compare.check_values(case, allow_host_calls=case.name == "eigvals")
    compare.check_gradients(case)


def test_long_transforms_run_on_the_host():
    case = Case("long fft", lambda x: real(torch.fft.fft(x)), [normal(1500)], tolerance=(1e-4, 1e-3))
    compare.check_values(case, allow_host_calls=True)
    with pytest.raises(AssertionError, match="_fft_r2c.* ran on the host"):
        compare.check_values(case)


def compiled(function, *inputs):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, *args: function(*args)})()
    return poptorch.inferenceModel(model, compare.options())(*inputs)


def test_a_complex_result_is_refused():
    with pytest.raises(poptorch.Error, match="complex.*torch.view_as_real"):
        compiled(torch.fft.fft, torch.randn(4))


def test_a_complex_input_is_refused():
    with pytest.raises(poptorch.Error, match="(?s)complex64.*torch.view_as_real.*torch.view_as_complex"):
        compiled(lambda z: z.abs(), torch.ones(3, dtype=torch.complex64))


def test_a_complex_tensor_written_in_place_is_refused():
    with pytest.raises(poptorch.Error, match="aten::mul_.*in place.*returns a new one"):
        compiled(lambda x: real(torch.fft.fft(x).mul_(2)), torch.randn(4))
