"""Captures forward of a module into a native model: module scopes, checks on buffers, the structure of the result."""

import contextlib
import keyword
import warnings

import torch

from . import _captured_torch, _impl, _structure, _weight_sync, poptorch_core
from ._module_attributes import ModuleAttributes
from .errors import createPoptorchError


def _written(module, path):
    """A sub-module as one writes it: "model.layer1[0].conv"."""
    text, parent = "model", module
    for name in path.split("."):
        if isinstance(parent, (torch.nn.Sequential, torch.nn.ModuleList)):
            text += f"[{name}]"
        elif isinstance(parent, torch.nn.ModuleDict):
            text += f"[{name!r}]"
        elif name.isidentifier() and not keyword.iskeyword(name):
            text += f".{name}"
        else:
            text += f".get_submodule({name!r})"
        parent = getattr(parent, name)
    return text


class _ModuleScopes:
    """While open, the ops of each sub-module are recorded under its path ("layer1/0"), if names_ops, and its calls are
    told to who finds stages, if tells_calls."""

    def __init__(self, module, names_ops, tells_calls):
        self._module = module
        self._names_ops = names_ops
        self._tells_calls = tells_calls
        self._handles = []
        self._active = []  # paths of the modules being executed

    def __enter__(self):
        for path, child in self._module.named_modules():
            if path and not isinstance(child, torch.jit.ScriptModule):  # those take no hooks
                if self._tells_calls:
                    self._handles.append(child.register_forward_pre_hook(self._tell(_written(self._module, path))))
                if self._names_ops:
                    self._handles.append(child.register_forward_pre_hook(self._enter(path.replace(".", "/"))))
                    self._handles.append(child.register_forward_hook(self._leave))
        return self

    @staticmethod
    def _tell(written):
        def hook(module, inputs):
            poptorch_core.enter_module(written)

        return hook

    def _enter(self, path):
        def hook(module, inputs):
            outer = f"{self._active[-1]}/" if self._active else ""
            # Scopes nest, so only what the enclosing module has not said yet is new.
            poptorch_core.push_scope(path[len(outer) :] if path.startswith(outer) else path)
            self._active.append(path)

        return hook

    def _leave(self, module, inputs, output):
        self._active.pop()
        poptorch_core.pop_scope()

    def __exit__(self, *exception):
        for handle in self._handles:
            handle.remove()


class _TensorsInPlace:
    """Parameters and buffers must be changed in place: a new tensor in their stead would not live on the device."""

    def __init__(self, module):
        # A scripted module does not let go of its tensors.
        modules = module.named_modules()
        self._owners = [(path, child) for path, child in modules if not isinstance(child, torch.jit.ScriptModule)]
        self._before = [(dict(child._parameters), dict(child._buffers)) for _, child in self._owners]

    def check(self):
        for (path, child), before in zip(self._owners, self._before):
            if isinstance(child, torch.nn.modules.batchnorm._NormBase):
                continue
            for kind, old, new in zip(("parameter", "buffer"), before, (child._parameters, child._buffers)):
                for name, tensor in old.items():
                    if new.get(name) is not tensor:
                        full_name = f"{path}.{name}" if path else name
                        what = "is assigned a new tensor" if name in new else "is deleted"
                        raise createPoptorchError(
                            f'[capture] {kind} "{full_name}" {what} in forward; on the device it would keep its old '
                            f"value. Change it in place, e.g. self.{name}.copy_(value)."
                        )

    def restore(self):
        for (_, child), (parameters, buffers) in zip(self._owners, self._before):
            child._parameters.clear()
            child._parameters.update(parameters)
            child._buffers.clear()
            child._buffers.update(buffers)


@contextlib.contextmanager
def _no_distribution_checks():
    """torch.distributions checks its arguments by looking at their values, of which there are none yet."""
    distribution = torch.distributions.Distribution
    before = distribution._validate_args
    distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        distribution.set_default_validate_args(before)


class Result:
    """What forward returned: rebuilt around the outputs of each run."""

    def __init__(self, node, entries):
        self._node = node
        self._entries = entries  # per tensor: index of a graph output, or a tensor that stays on the host
        self.num_outputs = sum(1 for entry in entries if isinstance(entry, int))

    def rebuild(self, outputs):
        for output in outputs:
            output.backward = backward_on_output
        return self._node.rebuild([outputs[e] if isinstance(e, int) else e for e in self._entries])


def backward_on_output(*args, **kwargs):
    """Takes the place of Tensor.backward on the outputs of a model."""
    raise createPoptorchError(
        "[backward] was called on an output of a wrapped model. A poptorch.trainingModel computes the gradients and "
        "updates the weights in each call; leave out backward() and optimizer.step()."
    )


def capture(core, module, plan, inputs, options, training):
    """Records forward of module for one micro-batch. Returns its Result and the devices of its blocks."""
    tensors = _TensorsInPlace(module)
    attributes = ModuleAttributes(module)
    returned = []

    def forward(*traced):
        args, kwargs = plan.rebuild(traced)
        result = module(*args, **kwargs)
        tensors.check()
        leaves = []
        returned.append(_structure.build(result, "output", leaves, []))
        return leaves

    scopes = _ModuleScopes(module, options._module_namescope_enabled, options._execution_strategy._auto_ipus > 0)
    poptorch_core.set_source_excludes(options._source_location_excludes)
    try:
        with _impl.compile_hooks(), _weight_sync.suspended(module), _no_distribution_checks(), torch.enable_grad():
            with scopes, _captured_torch.recorded():
                entries, ipus = core.capture(
                    forward, inputs, plan.names, options._store, options._execution_strategy, training
                )
    finally:
        tensors.restore()
        attributes.restore()
    return Result(returned[0], [_entry(entry) for entry in entries]), ipus


def _entry(entry):
    if entry[0] == "graph":
        return entry[1]
    warnings.warn(
        "Output expected to be on the IPU but is on the host: it is a constant, computed once when the model was "
        "compiled, and is returned as it is"
    )
    return entry[1]
