"""Functions to call in forward. Outside of a capture they have their ordinary meaning in PyTorch."""

import torch

from . import _capture_context, _structure, poptorch_core
from ._strategies import PipelinedExecution
from .enums import MatMulSerializationMode, OutputMode, OverlapMode
from .errors import createPoptorchError

_REDUCTIONS = {"sum": 0, "mean": 1, "none": 2}
_FLOAT_FORMATS = {name: name for name in ("auto", "fixed", "scientific", "none")}


def _check_tensor(op, value):
    if not isinstance(value, torch.Tensor):
        raise createPoptorchError(f"[{op}] expects a tensor, not a {type(value).__name__}.")


def identity_loss(x, reduction):
    """Marks a value as the loss to train on, after reducing it by "sum", "mean" or "none"."""
    if reduction not in _REDUCTIONS:
        raise AssertionError(f'The reduction of identity_loss must be "sum", "mean" or "none", not {reduction!r}')
    if poptorch_core.is_capturing():
        return torch.ops.poptorch.identity_loss(x, _REDUCTIONS[reduction])
    if reduction == "sum":
        return torch.sum(x)
    return torch.mean(x) if reduction == "mean" else x.clone()


def nop(tensor):
    """The tensor itself, through an op that is never optimised away."""
    _check_tensor("nop", tensor)
    return torch.ops.poptorch.nop(tensor) if poptorch_core.is_capturing() else tensor


def ipu_print_tensor(
    tensor,
    title="",
    print_gradient=True,
    summarise_threshold=1000,
    edge_items=3,
    max_line_width=80,
    digits=4,
    float_format="auto",
    separator=", ",
    open_bracket="(",
    close_bracket=")",
):
    """The tensor itself; each time it is computed it is printed to stderr, and so is its gradient."""
    _check_tensor("ipu_print_tensor", tensor)
    float_format = _FLOAT_FORMATS[float_format]
    if not poptorch_core.is_capturing():
        return tensor
    return torch.ops.poptorch.ipu_print_tensor(
        tensor, title, print_gradient, summarise_threshold, edge_items, max_line_width, digits, float_format,
        separator, open_bracket, close_bracket,
    )


def recomputationCheckpoint(*tensors):
    """Marks tensors to be kept for the backward pass rather than computed again."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return type(tensors[0])(_checkpoint(tensor) for tensor in tensors[0])
    if len(tensors) == 1:
        return _checkpoint(tensors[0])
    return tuple(_checkpoint(tensor) for tensor in tensors)


def _checkpoint(tensor):
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"recomputationCheckpoint expects tensors, not a {type(tensor).__name__}")
    return torch.ops.poptorch.recomputation_checkpoint(tensor) if poptorch_core.is_capturing() else tensor


def set_available_memory(tensor, available_memory_proportion):
    """How much memory the op that made the tensor may use for itself: a hint that changes no result."""
    _check_tensor("set_available_memory", tensor)
    if not isinstance(available_memory_proportion, (int, float)):
        raise createPoptorchError(
            f"[set_available_memory] the proportion must be a number, not {available_memory_proportion!r}."
        )
    return tensor


def serializedMatMul(lhs, rhs, mode, factor=0, keep_precision=False):
    """torch.matmul in `factor` parts, so that less memory is needed at a time."""
    if not isinstance(lhs, torch.Tensor) or not isinstance(rhs, torch.Tensor):
        raise AssertionError("serializedMatMul multiplies two tensors")
    if not isinstance(mode, MatMulSerializationMode):
        raise AssertionError(f"Expected a MatMulSerializationMode, not {mode!r}")
    if not isinstance(factor, int):
        raise AssertionError(f"factor must be an int, not {factor!r}")
    if not isinstance(keep_precision, bool):
        raise AssertionError(f"keep_precision must be a bool, not {keep_precision!r}")
    if mode == MatMulSerializationMode.Disabled or factor in (0, 1):
        return torch.matmul(lhs, rhs)
    if mode == MatMulSerializationMode.InputChannels:
        parts = _parts(lhs, -2, factor, mode)
        return torch.cat([torch.matmul(part, rhs) for part in parts], dim=-2)
    if mode == MatMulSerializationMode.OutputChannels:
        parts = _parts(rhs, -1, factor, mode)
        return torch.cat([torch.matmul(lhs, part) for part in parts], dim=-1)
    result = None
    for left, right in zip(_parts(lhs, -1, factor, mode), _parts(rhs, -2, factor, mode)):
        product = torch.matmul(left, right)
        if keep_precision:
            product = product.float()
        result = product if result is None else result + product
    return result.to(lhs.dtype)


def _parts(tensor, dim, factor, mode):
    if tensor.dim() < 2:
        raise AssertionError(f"serializedMatMul with {mode} needs matrices, not a tensor of {tensor.dim()} dimensions")
    size = tensor.shape[dim]
    if size % factor != 0:
        raise AssertionError(f"factor {factor} does not divide the size {size} of the dimension that {mode} splits")
    return torch.split(tensor, size // factor, dim=dim)


def _window(op, tensor, dim, start, size, step):
    """Indices start, start + step, ... within start + size; beyond the end they wrap."""
    _check_tensor(op, tensor)
    if not isinstance(start, torch.Tensor) or start.is_floating_point() or start.numel() != 1:
        raise createPoptorchError(f"[{op}] start must be an integer tensor of one element, not {start!r}.")
    for name, value in (("dim", dim), ("size", size), ("step", step)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise createPoptorchError(f"[{op}] {name} must be an int, not {value!r}.")
    if size < 1 or step < 1 or size > tensor.shape[dim]:
        raise createPoptorchError(
            f"[{op}] size {size} and step {step} do not fit dimension {dim} of {list(tensor.shape)}; expected "
            f"1 <= size <= {tensor.shape[dim]} and step >= 1."
        )
    offsets = torch.arange(0, size, step, dtype=start.dtype, device=tensor.device)
    return torch.remainder(start.reshape(1) + offsets, tensor.shape[dim])


def dynamic_slice(tensor, dim, start, size, step):
    """tensor[start : start + size : step] along dim, with a start that is known only when the model runs."""
    return torch.index_select(tensor, dim, _window("dynamic_slice", tensor, dim, start, size, step))


def dynamic_update(input, src, dim, start, size):  # pylint: disable=redefined-builtin
    """A copy of input whose window [start, start + size) along dim is src."""
    indices = _window("dynamic_update", input, dim, start, size, 1)
    _check_tensor("dynamic_update", src)
    if src.dim() != input.dim() or src.dtype != input.dtype:
        raise createPoptorchError(
            f"[dynamic_update] src is {list(src.shape)} {src.dtype} and input {list(input.shape)} {input.dtype}; "
            "expected the same number of dimensions and the same type."
        )
    return torch.index_copy(input, dim, indices.long(), src)


def for_loop(count, body, inputs):
    """Calls body `count` times, each time on the tensors the previous call returned. For inference.

    The body is recorded once for each turn, so the number of turns is part of the compiled model.
    """
    if not isinstance(inputs, list) or not all(isinstance(tensor, torch.Tensor) for tensor in inputs):
        raise ValueError(f"The inputs of for_loop must be a list of tensors, not {inputs!r}")
    context = _capture_context.current()
    if context is not None and context.training:
        raise createPoptorchError("[for_loop] is for inference only; in a training model write a Python loop.")
    values = [tensor.clone() for tensor in inputs]  # the caller's tensors stay as they are
    for _ in range(count):
        results = body(*values)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        _check_loop_results(values, results)
        values = results
    return values


def _check_loop_results(values, results):
    before = [(tuple(t.shape), t.dtype) for t in values]
    after = [(tuple(t.shape), t.dtype) for t in results]
    if before != after:
        raise createPoptorchError(
            f"[for_loop] the body takes {before} and returns {after}; it must return tensors like those it takes."
        )


def cond(condition, then_body, then_inps, else_body, else_inps):
    """What then_body(*then_inps) returns if the condition holds, else what else_body(*else_inps) does. For inference.

    On the device both are computed and the results chosen between.
    """
    for name, inputs in (("then_inps", then_inps), ("else_inps", else_inps)):
        if not isinstance(inputs, list) or not all(isinstance(tensor, torch.Tensor) for tensor in inputs):
            raise ValueError(f"{name} of cond must be a list of tensors, not {inputs!r}")
    if not isinstance(condition, torch.Tensor) or condition.dtype is not torch.bool or condition.numel() != 1:
        raise createPoptorchError("[cond] the condition must be a bool tensor of one element.")
    if not poptorch_core.is_capturing():
        return _branch(then_body, then_inps) if condition else _branch(else_body, else_inps)
    if _capture_context.current().training:
        raise createPoptorchError("[cond] is for inference only; in a training model use torch.where.")
    yes, no = _branch(then_body, then_inps), _branch(else_body, else_inps)
    kinds = [[(tuple(t.shape), t.dtype) for t in results] for results in (yes, no)]
    if kinds[0] != kinds[1]:
        raise createPoptorchError(
            f"[cond] then_body returns {kinds[0]} and else_body {kinds[1]}; both must return tensors of the same "
            "shapes and types."
        )
    chosen = condition.reshape(())
    return [torch.where(chosen, a, b) for a, b in zip(yes, no)]


def _branch(body, inputs):
    results = body(*(tensor.clone() for tensor in inputs))  # the caller's tensors stay as they are
    return list(results) if isinstance(results, (list, tuple)) else [results]


# -- overlapped transfers ---------------------------------------------------------------------------------------------
def set_overlap_for_input(input_tensors, mode):
    """The tensors themselves, transferred while the device computes. First thing in forward."""
    return _set_overlap("set_overlap_for_input", input_tensors, mode, is_input=True)


def set_overlap_for_output(output_tensors, mode):
    """The tensors themselves, transferred while the device computes. Last thing in forward."""
    return _set_overlap("set_overlap_for_output", output_tensors, mode, is_input=False)


def _set_overlap(op, tensors, mode, is_input):
    if not isinstance(mode, OverlapMode):
        raise createPoptorchError(f"[{op}] expects a poptorch.OverlapMode, not {mode!r}.")
    context = _capture_context.current()
    if mode is OverlapMode.NoOverlap or context is None:
        return tensors
    _check_overlap_options(op, context.options)
    leaves = []
    node = _structure.build(tensors, op, leaves, [])
    return node.rebuild([poptorch_core.mark_overlap(tensor, is_input) for tensor in leaves])


def _check_overlap_options(op, options):
    if isinstance(options._execution_strategy, PipelinedExecution):
        raise createPoptorchError(
            f"[{op}] transfers cannot overlap with a pipeline; use poptorch.ShardedExecution or a phased strategy, "
            "also for a model on one IPU."
        )
    if not options.TensorLocations.exists("numIOTiles") and "numIOTiles" not in options._Popart.options:
        raise createPoptorchError(f"[{op}] needs IO tiles; set options.TensorLocations.numIOTiles(32) or more.")
    if options.output_mode not in (OutputMode.All, OutputMode.Sum):
        raise createPoptorchError(
            f"[{op}] the output mode is {OutputMode(options.output_mode).name}; overlapped transfers need "
            "OutputMode.All or OutputMode.Sum."
        )


# -- ops that exist on the host only ----------------------------------------------------------------------------------
def _refuse_in_model(op, instead):
    if poptorch_core.is_capturing():
        raise createPoptorchError(f"[{op}] is not supported yet in a wrapped model; {instead}.")


class CPU:
    """A module or function that runs on the host in the middle of a model."""

    def __init__(self, layer_to_call, ID):
        self._layer = layer_to_call
        self._id = ID

    def __call__(self, *inputs):
        _refuse_in_model(f"CPU {self._id}", "call the layer before or after the model")
        return self._layer(*inputs)


def custom_op(inputs, name, domain, domain_version, example_outputs, attributes=None):
    """An op that was registered by the user. On the host: zeros like the example outputs."""
    _refuse_in_model(f"custom_op {domain}.{name} version {domain_version}", "express it with torch functions")
    return [torch.zeros_like(tensor) for tensor in example_outputs]


def ctc_beam_search_decoder(probs, lengths, blank=0, beam_width=100, top_paths=1):
    """The likeliest label sequences: their probabilities, lengths and labels. On the host: zeros."""
    _check_tensor("ctc_beam_search_decoder", probs)
    _check_tensor("ctc_beam_search_decoder", lengths)
    _refuse_in_model("ctc_beam_search_decoder", "return the probabilities and decode them on the host")
    time, batch, _ = probs.shape
    integers = {"dtype": lengths.dtype}
    return (
        torch.zeros(batch, top_paths), torch.zeros(batch, top_paths, **integers),
        torch.zeros(batch, top_paths, time, **integers),
    )


def fps(src, ptr, ratio=0.5, random_start=False):
    """Farthest-point sampling."""
    raise createPoptorchError("[fps] is not supported yet; sample before the model is called.")


def nearest(x, y, batch_x=None, batch_y=None):
    """For each row of x the index of the nearest row of y."""
    raise createPoptorchError("[nearest] is not supported yet; use torch.cdist(x, y).argmin(1).")
