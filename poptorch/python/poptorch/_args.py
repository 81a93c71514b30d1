"""Arguments of a model: bound to the signature of forward, flattened to tensors, checked against the first call."""

import inspect

import torch

from . import _impl, _structure, _weight_sync, poptorch_core
from .errors import createPoptorchError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Signature:
    """The parameters of forward."""

    def __init__(self, forward):
        try:
            self.parameters = list(inspect.signature(forward).parameters.values())
        except (TypeError, ValueError):  # no signature: anything goes
            self.parameters = list(inspect.signature(lambda *args, **kwargs: None).parameters.values())
        self._positional = [p for p in self.parameters if p.kind in _POSITIONAL]
        self._has_var_positional = any(p.kind is p.VAR_POSITIONAL for p in self.parameters)
        self._has_var_keyword = any(p.kind is p.VAR_KEYWORD for p in self.parameters)

    def bind(self, args, kwargs):
        """The value of each parameter, in the order of the signature, defaults filled in."""
        names = [p.name for p in self.parameters]
        if not self._has_var_positional and len(args) > len(self._positional):
            raise AssertionError(
                f"Too many arguments: forward takes {len(self._positional)} positional arguments "
                f"({', '.join(p.name for p in self._positional)}), but {len(args)} were given"
            )
        given = {p.name: value for p, value in zip(self._positional, args)}
        extra = {}
        for name, value in kwargs.items():
            if name in given:
                raise AssertionError(f'Argument "{name}" was given twice: by position and by name')
            if name in names and not self._is_variadic(name):
                given[name] = value
            else:
                if not self._has_var_keyword:
                    raise AssertionError(
                        f'Unexpected argument "{name}"; forward takes {", ".join(names) or "no arguments"}'
                    )
                extra[name] = value
        return [self._value(p, given, args, extra) for p in self.parameters]

    def _is_variadic(self, name):
        kind = next(p.kind for p in self.parameters if p.name == name)
        return kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

    def _value(self, parameter, given, args, extra):
        if parameter.kind is parameter.VAR_POSITIONAL:
            return tuple(args[len(self._positional) :])
        if parameter.kind is parameter.VAR_KEYWORD:
            return extra
        if parameter.name in given:
            return given[parameter.name]
        if parameter.default is parameter.empty:
            raise createPoptorchError(
                f'[model call] mandatory argument "{parameter.name}" of forward is missing; forward takes '
                f"{', '.join(str(p) for p in self.parameters)}."
            )
        return parameter.default

    def call_arguments(self, values):
        """args and kwargs that pass the values on to forward."""
        args, kwargs = [], {}
        for parameter, value in zip(self.parameters, values):
            if parameter.kind is parameter.VAR_POSITIONAL:
                args.extend(value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                kwargs.update(value)
            elif parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        return args, kwargs


class ArgumentPlan:
    """Made from the arguments of the first call; finds the inputs of the program in those of later calls."""

    def __init__(self, signature, args, kwargs):
        values = signature.bind(args, kwargs)
        self._signature = signature
        self.names = []
        leaves = []
        self._nodes = [
            _structure.build(value, parameter.name, leaves, self.names)
            for parameter, value in zip(signature.parameters, values)
        ]
        if any(isinstance(node, _structure.MappingNode) for node in self._nodes if not self._is_var_keyword(node)):
            _impl.warn_once(
                "dict", "Dictionary arguments are partially supported: their keys are fixed by the first call"
            )
        self.leaves = leaves
        self._inputs = poptorch_core.CallInputs(self.names, leaves)
        # Calls by position with nothing but tensors need no binding: f(x, labels), by far the most common.
        self._num_simple = len(args) if self._is_simple(args, kwargs) else -1

    # -- on disk --------------------------------------------------------------------------------------------------
    def stored(self):
        """What makes the plan again, given the signature: of tensors, shapes and types."""
        leaves = [(tuple(leaf.shape), leaf.dtype) for leaf in self.leaves]
        return {"names": self.names, "nodes": self._nodes, "leaves": leaves, "num_simple": self._num_simple}

    @classmethod
    def restored(cls, signature, stored):
        plan = cls.__new__(cls)
        plan._signature = signature
        plan.names, plan._nodes, plan._num_simple = stored["names"], stored["nodes"], stored["num_simple"]
        if len(plan._nodes) != len(signature.parameters):
            raise createPoptorchError(
                f"[loadExecutable] the file has arguments for {len(plan._nodes)} parameters of forward, and forward of "
                f"this model takes {', '.join(str(p) for p in signature.parameters) or 'none'}."
            )
        plan.leaves = [torch.zeros(shape, dtype=dtype) for shape, dtype in stored["leaves"]]
        plan._inputs = poptorch_core.CallInputs(plan.names, plan.leaves)
        return plan

    def _is_var_keyword(self, node):
        return any(p.kind is p.VAR_KEYWORD and p.name == node.path for p in self._signature.parameters)

    def _is_simple(self, args, kwargs):
        plain = all(isinstance(arg, torch.Tensor) for arg in args) and not kwargs
        return plain and len(self.leaves) == len(args) and all(a is b for a, b in zip(args, self.leaves))

    def rebuild(self, tensors):
        """args and kwargs for forward, with these tensors in place of the ones of the first call."""
        return self._signature.call_arguments([node.rebuild(tensors) for node in self._nodes])

    def micro_batch(self, num_micro_batches, rule):
        """The first micro-batch of each tensor: what the model is captured with."""
        named = zip(self.names, self.leaves)
        return [poptorch_core.first_micro_batch(path, t, num_micro_batches, rule) for path, t in named]

    def inputs(self, args, kwargs):
        """The tensors of a later call, checked."""
        if not kwargs and len(args) == self._num_simple:
            leaves = args
        else:
            leaves = []
            for node, value in zip(self._nodes, self._signature.bind(args, kwargs)):
                node.collect(value, leaves)
        for index, tensor in enumerate(leaves):
            if not isinstance(tensor, torch.Tensor):
                self._inputs.raise_mismatch(index, f"a {type(tensor).__name__}")
            _weight_sync.sync(tensor)
        self._inputs.check(leaves)
        return leaves
