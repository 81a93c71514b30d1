"""Compares captured functions with eager PyTorch: values, types and gradients.

A case is a function of tensors. Its floating point inputs become parameters of a module, all other inputs are inputs
of the model. The module is run by an inference model, then trained for one step of SGD with learning rate 1 on a
weighted sum of its floating point results, so that a parameter's gradient is what it lost.
"""

import dataclasses
from typing import Callable, Sequence

import poptorch
import torch

# How far results may lie apart, by what produced them: (relative, absolute).
EXACT = (0.0, 0.0)
PLAIN = (1e-5, 1e-6)            # elementwise arithmetic and reductions
TRANSCENDENTAL = (1e-4, 1e-5)   # exp, log, sin and all built on them
PRODUCT = (1e-4, 1e-5)          # matrix products, convolutions, normalisation
HALF = (5e-3, 5e-4)


@dataclasses.dataclass
class Case:
    """One function and its inputs. `grad` may be switched off where torch has no gradient to compare with."""

    name: str
    function: Callable
    inputs: Sequence[torch.Tensor]
    grad: bool = True
    tolerance: tuple = PLAIN

    def __str__(self):
        return self.name


def is_float(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def flat(value):
    """The tensors of a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for entry in value for tensor in flat(entry)]
    raise TypeError(f"a case returned {type(value).__name__}; cases return tensors, lists and tuples of them")


def options():
    return poptorch.Options().showCompilationProgressBar(False)


class Wrapped(torch.nn.Module):
    """The function with its floating point inputs as parameters."""

    def __init__(self, case, training):
        super().__init__()
        self.function, self.training_step = case.function, training
        self.is_parameter = [is_float(value) for value in case.inputs]
        for index, value in enumerate(case.inputs):
            if is_float(value):
                self.register_parameter(f"x{index}", torch.nn.Parameter(value.clone(), requires_grad=case.grad))

    def call(self, others):
        others = iter(others)
        return self.function(*(getattr(self, f"x{index}") if own else next(others)
                               for index, own in enumerate(self.is_parameter)))

    def forward(self, _, *others):
        result = self.call(others)
        if not self.training_step:
            return tuple(flat(result))
        return poptorch.identity_loss(weighted_sum(result), "none")


def weighted_sum(result):
    """One number that every floating point element of a result moves by a different amount."""
    total = None
    for tensor in flat(result):
        if not tensor.is_floating_point() or tensor.numel() == 0:
            continue
        weights = torch.linspace(0.5, 1.5, max(tensor.numel(), 2))[:tensor.numel()].reshape(tensor.shape)
        term = (tensor.float() * weights).sum()
        total = term if total is None else total + term
    return total


# What PopTorch returns for the wide types.
NARROW = {torch.int64: torch.int32, torch.float64: torch.float32}


def check_close(actual, expected, tolerance, what, exact=None):
    """exact: computes the same in float64, which says whether a result that is further away is as right as eager's."""
    expected = expected.detach()
    expected = expected.to(NARROW.get(expected.dtype, expected.dtype))
    assert actual.dtype == expected.dtype, f"{what}: {actual.dtype} instead of {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: {list(actual.shape)} instead of {list(expected.shape)}"
    relative, absolute = tolerance if expected.is_floating_point() else EXACT
    try:
        torch.testing.assert_close(actual, expected, rtol=relative, atol=absolute, equal_nan=True,
                                   msg=lambda text: f"{what}: {text}")
    except AssertionError:
        if exact is None or expected.dtype != torch.float32 or not is_as_right(actual, expected, tolerance, exact()):
            raise


def is_as_right(actual, expected, tolerance, exact):
    """Whether no element is further from the exact result than a tolerance and eager's largest error: which of its
    elements has it is chance."""
    relative, absolute = tolerance
    error = (expected.double() - exact).abs().max()
    return bool(((actual.double() - exact).abs() <= absolute + relative * exact.abs() + error).all())


def non_parameters(case):
    return [value for value in case.inputs if not is_float(value)]


def no_host_calls(executor, what):
    calls = executor._core.host_calls()  # pylint: disable=protected-access
    assert not calls, f"{what}: {calls} ran on the host"


def check_values(case, allow_host_calls=False):
    expected = flat(case.function(*(value.clone() for value in case.inputs)))
    executor = poptorch.inferenceModel(Wrapped(case, False).eval(), options())
    actual = flat(executor(torch.zeros(1), *(value.clone() for value in non_parameters(case))))
    if not allow_host_calls:
        no_host_calls(executor, case.name)
    assert len(actual) == len(expected), f"{case.name}: {len(actual)} results instead of {len(expected)}"
    for index, (mine, theirs) in enumerate(zip(actual, expected)):
        check_close(mine, theirs, case.tolerance, f"{case.name}, result {index}", lambda i=index: in_double(case)[i])


def in_double(case):
    return flat(case.function(*(value.double() if is_float(value) else value.clone() for value in case.inputs)))


def check_gradients(case):
    reference = Wrapped(case, False)
    total = weighted_sum(reference.call([value.clone() for value in non_parameters(case)]))
    if total is None or not total.requires_grad:
        return  # integers and questions: torch has no gradient either
    total.backward()
    model = Wrapped(case, True).train()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    executor = poptorch.trainingModel(model, options(), optimizer=torch.optim.SGD(model.parameters(), lr=1.0))
    executor(torch.zeros(1), *(value.clone() for value in non_parameters(case)))
    executor.copyWeightsToHost()
    # What a parameter lost is known to the last digit of the parameter.
    relative, absolute = case.tolerance
    for name, parameter in model.named_parameters():
        theirs = dict(reference.named_parameters())[name].grad
        theirs = torch.zeros_like(before[name]) if theirs is None else theirs
        lost = before[name] - parameter.detach()
        slack = (2 * torch.finfo(lost.dtype).eps * max(before[name].abs().max().item(), theirs.abs().max().item())
                 if lost.numel() else 0)
        check_close(lost, theirs, (relative, absolute + slack), f"{case.name}, gradient of {name}")


def has_gradient(case):
    return case.grad and any(is_float(value) for value in case.inputs)


def check(case):
    torch.manual_seed(0)
    check_values(case)
    if has_gradient(case):
        check_gradients(case)
