"""The measure of the op tests itself: float64 decides whether a result is rounding or wrong."""

import pytest
import torch
from support import compare

EXACT = torch.tensor([1.0, 1e-3], dtype=torch.float64)
EAGER = torch.tensor([1.0, 1e-3 + 3e-5])  # as far away as steps on the way may take it


def test_a_result_as_near_to_float64_as_eager_is_right():
    compare.check_close(torch.tensor([1.0, 1e-3 - 2e-5]), EAGER, compare.PRODUCT, "x", lambda: EXACT)


@pytest.mark.parametrize("wrong", [[1.0, 1e-3 - 5e-5], [1.0 + 2e-4, 1e-3]])
def test_a_result_further_away_is_wrong(wrong):
    with pytest.raises(AssertionError, match="x: Tensor-likes are not close"):
        compare.check_close(torch.tensor(wrong), EAGER, compare.PRODUCT, "x", lambda: EXACT)


def test_without_float64_eager_alone_counts():
    with pytest.raises(AssertionError):
        compare.check_close(torch.tensor([1.0, 1e-3 - 2e-5]), EAGER, compare.PRODUCT, "x")
