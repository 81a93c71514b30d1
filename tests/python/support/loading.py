"""Compares data loaders with torch's."""

import random

import numpy
import poptorch
import torch

TORCH_LOADER = "torch.utils.data.dataloader"


def is_known(loader):
    """Whether its batches are made in C++."""
    module = type(iter(loader)).__module__
    assert module in ("poptorch._known_loading", TORCH_LOADER)
    return module != TORCH_LOADER


def loaders(dataset, options=None, batch_size=4, drop_last=True, num_workers=0, **settings):
    """Ours, and torch's for the same items."""
    ours = poptorch.DataLoader(options or poptorch.Options(), dataset, batch_size=batch_size, drop_last=drop_last,
                               num_workers=num_workers, **settings)
    settings.setdefault("persistent_workers", num_workers > 0)
    size = ours.combinedBatchSize
    return ours, torch.utils.data.DataLoader(dataset, batch_size=size, drop_last=drop_last, num_workers=num_workers,
                                             **settings)


def states(generator):
    given = torch.empty(0) if generator is None else generator.get_state()
    others = torch.tensor([hash(random.getstate()), hash(numpy.random.get_state()[1].tobytes())])
    return [torch.get_rng_state(), given, others]


def trail(loader, epochs=2, generator=None):
    """Everything that a program sees: items, and the states of generators at each step."""
    torch.manual_seed(7)
    if generator is not None:
        generator.manual_seed(11)
    seen = []
    for _ in range(epochs):
        iterator = iter(loader)
        seen.append(states(generator))
        for item in iterator:
            assert type(item) is list
            seen.append([*item, *states(generator)])
        seen.append(states(generator))
    return seen


def assert_same(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs):
            assert mine.dtype == other.dtype and mine.shape == other.shape and mine.stride() == other.stride()
            assert mine.numpy().tobytes() == other.numpy().tobytes()


def assert_like_torch(ours, theirs, **settings):
    assert is_known(ours)
    assert_same(trail(fresh(ours), **settings), trail(theirs, **settings))


def fresh(loader):
    """As if nobody had iterated over it."""
    loader._iterator = None
    return loader
