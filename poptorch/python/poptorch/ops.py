"""Functions to call in forward. Outside of a capture they have their ordinary meaning in PyTorch.

Most are those of the C++ library; here is what needs Python's nested values or Python's functions.
"""

import json

import torch

from . import _structure, poptorch_core
from .enums import OverlapMode
from .errors import createPoptorchError
from .poptorch_core import (  # pylint: disable=unused-import
    cond,
    ctc_beam_search_decoder,
    custom_op,
    dynamic_slice,
    dynamic_update,
    for_loop,
    fps,
    identity_loss,
    ipu_print_tensor,
    nearest,
    nop,
    recomputationCheckpoint,
    serializedMatMul,
    set_available_memory,
)


def set_overlap_for_input(input_tensors, mode):
    """The tensors themselves, transferred while the device computes. First thing in forward."""
    return _set_overlap("set_overlap_for_input", input_tensors, mode)


def set_overlap_for_output(output_tensors, mode):
    """The tensors themselves, transferred while the device computes. Last thing in forward."""
    return _set_overlap("set_overlap_for_output", output_tensors, mode)


def _set_overlap(op, tensors, mode):
    if not isinstance(mode, OverlapMode):
        raise createPoptorchError(f"[{op}] expects a poptorch.OverlapMode, not {mode!r}.")
    if mode is OverlapMode.NoOverlap or not poptorch_core.is_capturing():
        return tensors
    leaves = []
    node = _structure.build(tensors, op, leaves, [])
    return node.rebuild([getattr(poptorch_core, op)(tensor, mode) for tensor in leaves])


def accessAttributes(attributes_id):
    """The attributes that torch.ops.poptorch.custom_operation is given as text: a dict, None for no attributes."""
    if not isinstance(attributes_id, str):
        raise ValueError(f"Attributes are given as a str, not {attributes_id!r}")
    return json.loads(attributes_id) if attributes_id else None


class CPU:
    """A module or function that runs on the host in the middle of a model, with the values of each micro-batch.

    layer_to_call takes tensors and returns one, or a tuple or list of them. It is called once with zeros when the model
    is captured, to learn what it returns. Its weights stay on the host and are not trained. Where a gradient is wanted
    through it, the backward pass calls it once more and differentiates it by torch's autograd.
    ID: no other layer of a model may have the same.
    """

    def __init__(self, layer_to_call, ID):
        if not callable(layer_to_call):
            raise createPoptorchError(f"[CPU {ID}] expects a module or a function, not {layer_to_call!r}.")
        if not isinstance(ID, str):
            raise createPoptorchError(f"[CPU {ID}] the ID must be a str, not {ID!r}.")
        if isinstance(layer_to_call, torch.nn.Module):
            layer_to_call.requires_grad_(False)
        self._layer = layer_to_call
        self._id = ID

    def __call__(self, *inputs):
        if not poptorch_core.is_capturing():
            return self._layer(*inputs)
        return poptorch_core.call_on_host(self, self._layer, self._id, inputs)
