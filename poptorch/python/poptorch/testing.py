"""Helpers for tests of models."""

import torch


def allclose(ref, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """torch.allclose over nested tuples and lists of tensors; their structure must be the same."""
    if isinstance(ref, torch.Tensor):
        return isinstance(other, torch.Tensor) and ref.shape == other.shape and torch.allclose(
            ref, other, rtol=rtol, atol=atol, equal_nan=equal_nan
        )
    if isinstance(ref, (tuple, list)):
        return (
            isinstance(other, (tuple, list))
            and len(ref) == len(other)
            and all(allclose(a, b, rtol, atol, equal_nan) for a, b in zip(ref, other))
        )
    return ref == other
