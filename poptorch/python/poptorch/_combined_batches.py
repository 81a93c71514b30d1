"""Batches of a batch sampler, put together to the items that one call of a model takes."""

import torch

from . import _impl
from .errors import createPoptorchError


def combined(batches, factor, drop_last):
    """Yields `factor` consecutive collated batches as one item. What is left over is dropped, or a short last item."""
    pending = []
    for batch in batches:
        pending.append(batch)
        if len(pending) == factor:
            yield concatenated(pending)
            pending = []
    if pending and not drop_last:
        yield concatenated(pending)


def concatenated(batches):
    """One batch with the rows of all. They are built alike; later ones take the types of the first."""
    first = batches[0]
    if len(batches) == 1:
        return first
    parser = _impl.custom_parser_for(first)
    if parser is not None:
        rows = zip(*(parser.yieldTensors(batch) for batch in batches))
        return parser.reconstruct(first, iter([_concatenated_tensors(tensors) for tensors in rows]))
    if isinstance(first, torch.Tensor):
        return _concatenated_tensors(batches)
    if isinstance(first, dict):
        return type(first)((key, concatenated([batch[key] for batch in batches])) for key in first)
    if isinstance(first, (list, tuple)):
        if not all(isinstance(part, (torch.Tensor, dict, list, tuple)) for part in first):
            return type(first)(element for batch in batches for element in batch)  # one per sample: strings, ...
        parts = [concatenated(list(parts)) for parts in zip(*batches)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    raise createPoptorchError(
        f"[DataLoader] collate_fn made a batch of a {type(first).__name__}, of which {len(batches)} cannot be put "
        "together to one item; expected tensors, and lists, tuples and dictionaries of them."
    )


def _concatenated_tensors(tensors):
    return torch.cat([tensor.to(tensors[0].dtype) for tensor in tensors])
