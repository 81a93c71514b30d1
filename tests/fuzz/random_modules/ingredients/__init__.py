"""The kinds of statements. Each is a function of a Draft that adds one, or raises Rejected."""

from . import compute, functions, hooks, inplace, layers, state, views

# How often each kind is chosen.
FORWARD = {
    compute.unary: 6,
    compute.binary: 8,
    compute.product: 5,
    compute.reduction: 2,
    compute.joined: 3,
    compute.selected: 3,
    compute.indexed: 3,
    compute.by_shape: 1,
    compute.by_gradient: 1,
    compute.checkpointed: 1,
    views.kept_view: 7,
    views.parts: 3,
    views.list_of_tensors: 2,
    views.detached: 3,
    views.strided: 1,
    inplace.whole: 6,
    inplace.through_view: 7,
    inplace.assigned: 6,
    inplace.by_index: 2,
    inplace.overwritten: 2,
    inplace.reshaped: 1,
    inplace.input_changed: 1,
    state.no_grad_value: 3,
    state.no_grad_change: 4,
    state.parameter_change: 6,
    state.data_change: 4,
    state.data_replaced: 2,
    state.buffer_change: 5,
    state.buffer_read: 2,
    state.cached: 2,
    functions.applied: 11,
    hooks.on_activation: 7,
    layers.called: 7,
    layers.called_twice: 2,
}

# What programs begin with: parameters meet inputs.
OPENING = (layers.called, layers.called, compute.product, compute.with_parameter, compute.with_parameter,
           compute.indexed)
