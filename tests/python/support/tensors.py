"""Inputs for op tests: the same numbers in every run, away from the points where a function is not smooth."""

import torch

_GENERATOR = torch.Generator().manual_seed(17)


def normal(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=_GENERATOR).to(dtype)


def uniform(low, high, *shape, dtype=torch.float32):
    return (torch.rand(shape, generator=_GENERATOR) * (high - low) + low).to(dtype)


def positive(*shape):
    return uniform(0.2, 2.0, *shape)


def integers(low, high, *shape, dtype=torch.int64):
    return torch.randint(low, high, shape, generator=_GENERATOR).to(dtype)


def booleans(*shape):
    return torch.rand(shape, generator=_GENERATOR) < 0.5


def distinct(*shape):
    """Numbers at least 0.1 apart, in random order: maxima are unique."""
    count = torch.Size(shape).numel()
    return (torch.randperm(count, generator=_GENERATOR).float() * 0.1 - 0.05 * count).reshape(shape)
