"""One sample of one operator in one form, and what eager PyTorch makes of it."""

import contextlib
import dataclasses

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

# How operands reach the operator.
INPUT = "inputs"          # inference; tensors are inputs of the model
CONSTANT = "constants"    # inference; integers and booleans after the first operand are known while capturing
PARAMETER = "parameters"  # floating point tensors are parameters; trained where torch has a gradient
COMPUTED = "computed"     # the operator meets sums of inputs and parameters, which are 0
IN_PLACE = "in place"     # the same, and the operator writes its first operand

NATIVE, HOST, REFUSED, INVALID = "native", "host", "refused", "invalid"
WRONG_VALUE, WRONG_GRADIENT, INTERNAL = "wrong value", "wrong gradient", "internal error"
CRASH, TIME_OUT = "crash", "time-out"
FAILURES = (WRONG_VALUE, WRONG_GRADIENT, INTERNAL, CRASH, TIME_OUT)


@dataclasses.dataclass
class Outcome:
    status: str
    details: str = ""


def forms_of(operator, dtype):
    """The forms an operator is checked in."""
    forms = [INPUT]
    if dtype.is_floating_point:
        forms += [COMPUTED] if dtype == torch.float16 else [PARAMETER, COMPUTED]
    if operator.info.get_inplace() is not None and dtype != torch.float16:
        forms.append(IN_PLACE)
    return forms


def flat(result):
    """The tensors of a result, and what is not one, in order."""
    if isinstance(result, (list, tuple)):
        return [entry for part in result for entry in flat(part)]
    return [result]


def as_real(entry):
    """Complex tensors leave a model as pairs of real numbers."""
    is_complex = isinstance(entry, torch.Tensor) and entry.is_complex()
    return torch.view_as_real(entry.resolve_conj()) if is_complex else entry


class Trial:
    """What is computed, for eager PyTorch and for a model alike."""

    def __init__(self, operator, sample, dtype, form):
        self.operator, self.sample, self.dtype, self.form = operator, sample, dtype, form
        self.function = operator.info.get_inplace() if form == IN_PLACE else operator.function
        self.is_parameter = [form not in (INPUT, CONSTANT) and tensor.is_floating_point()
                             for tensor in sample.tensors]

    def is_possible(self):
        if self.form == CONSTANT:
            return any(not tensor.is_floating_point() for tensor in self.sample.tensors[1:])
        if self.form == IN_PLACE:
            return self.sample.first_is_tensor() and not self.sample.broadcasts
        return self.form == INPUT or any(self.is_parameter)

    def has_offsets(self):
        """Gradients are those of parameters that are added to the operands, as 0: they show them to the last digit."""
        return self.form in (COMPUTED, IN_PLACE)

    def parameter_values(self):
        """What the parameters start from, None for operands that are none."""
        return [None if not own else torch.zeros(tensor.shape) if self.has_offsets() else tensor.clone()
                for tensor, own in zip(self.sample.tensors, self.is_parameter)]

    def compute(self, tensors, parameters, device=None, dtype=None):
        """The flat results, and the number whose gradient is compared. `tensors` are the operands that are no
        parameters (None for those that are), and those that parameters are added to."""
        operands = []
        for tensor, parameter in zip(tensors, parameters):
            if parameter is not None and self.has_offsets():
                operands.append((tensor + parameter).to(dtype or self.dtype))
            elif parameter is not None:
                operands.append(parameter)
            else:
                operands.append(tensor.clone() if self.form == IN_PLACE else tensor)
        result = self.sample.call(self.function, operands, device)
        processed = self.sample.process(result) if self.sample.process is not None else result
        return [as_real(entry) for entry in flat(result)], weighted_sum(processed)


def weighted_sum(result):
    """One number that every floating point element of a result moves by a different amount."""
    total = None
    for tensor in flat(result):
        if not isinstance(tensor, torch.Tensor) or tensor.numel() == 0:
            continue
        tensor = as_real(tensor)
        if not tensor.is_floating_point():
            continue
        weights = torch.linspace(0.5, 1.5, max(tensor.numel(), 2))[:tensor.numel()].reshape(tensor.shape)
        term = ((tensor if tensor.dtype == torch.float64 else tensor.float()) * weights).sum()
        total = term if total is None else total + term
    return total


class Halved(TorchDispatchMode):
    """Eager PyTorch in half, as on a device that has it all: each operator is computed in float32 and its results are
    rounded: to the nearest number (seed 0), or to one of the two nearest at random. Several runs show how far rounding
    reaches."""

    def __init__(self, seed):
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed) if seed else None

    def _rounded(self, value):
        nearest = value.half()
        if self._generator is None:
            return nearest
        noise = (torch.rand(value.shape, generator=self._generator) - 0.5) * 2.0**-10
        return torch.where(nearest.float() == value, nearest, (value * (1 + noise)).half())

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs, copies = kwargs or {}, {}
        schema = function._schema
        is_view = any(returned.alias_info is not None for returned in schema.returns)

        def wide(value):
            if not isinstance(value, torch.Tensor) or value.dtype != torch.float16:
                return torch.float32 if value is torch.float16 and not is_view else value
            return copies.setdefault(id(value), (value, value.float()))[1]

        if is_view and not schema.is_mutable:
            return function(*args, **kwargs)
        result = function(*_pytree.tree_map(wide, args), **_pytree.tree_map(wide, kwargs))
        if schema.is_mutable:
            for original, copy in copies.values():
                original.copy_(self._rounded(copy))

        def narrow(value):
            is_new = isinstance(value, torch.Tensor) and value.dtype == torch.float32
            own = next((original for original, copy in copies.values() if copy is value), None)
            return own if own is not None else self._rounded(value) if is_new else value

        to_half = kwargs.get("dtype") is torch.float16  # from another type
        is_half = to_half or (copies and kwargs.get("dtype") is None)
        return _pytree.tree_map(narrow, result) if is_half else result


class Eager:
    """What eager PyTorch makes of a trial. `dtype`: computed in that type instead of the sample's own; `halved`: in half,
    step by step, rounded with that seed."""

    def __init__(self, trial, dtype=None, seed=0, halved=None):
        def typed(tensor):
            return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor

        tensors = [typed(tensor.clone()) for tensor in trial.sample.tensors]
        self.parameters = [None if value is None else typed(value).requires_grad_()
                           for value in trial.parameter_values()]
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype if dtype == torch.float64 else before)
        try:
            with random_numbers(seed) as seeds, Halved(halved) if halved is not None else contextlib.nullcontext():
                state = torch.get_rng_state()
                results, total = trial.compute(tensors, self.parameters, dtype=dtype)
                self.draws = bool(seeds) or not torch.equal(state, torch.get_rng_state())
                self.has_gradient = total is not None and total.requires_grad
                if self.has_gradient:
                    total.backward()
        finally:
            torch.set_default_dtype(before)
        self.results = [entry.detach() if isinstance(entry, torch.Tensor) else entry for entry in results]
        self.parameters = [parameter for parameter in self.parameters if parameter is not None]
        self.gradients = [torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.to_dense()
                          if parameter.grad.is_sparse else parameter.grad for parameter in self.parameters]


@contextlib.contextmanager
def random_numbers(seed):
    """Those of another seed. Some operators of the database set one themselves: then theirs is another, too."""
    real, seeds = torch.manual_seed, []

    def other(given):
        seeds.append(given)
        return real(given + seed)

    torch.manual_seed = other
    try:
        real(1 + seed)
        yield seeds
    finally:
        torch.manual_seed = real
