"""Runs a trial through poptorch and compares it with eager PyTorch."""

import warnings

import poptorch
import torch

from . import judge
from . import trial as trials


class Model(torch.nn.Module):
    """The trial as a module."""

    def __init__(self, trial, is_trained):
        super().__init__()
        self.trial, self.is_trained = trial, is_trained
        self.others = []  # results that are no tensors; not assigned to: a capture leaves attributes as they were
        for index, value in enumerate(trial.parameter_values()):
            if value is not None:
                self.register_parameter(f"x{index}", torch.nn.Parameter(value, requires_grad=is_trained))

    def is_input(self, index):
        trial, tensor = self.trial, self.trial.sample.tensors[index]
        if trial.form == trials.CONSTANT:
            return index == 0 or tensor.is_floating_point()
        return trial.has_offsets() or not trial.is_parameter[index]

    def inputs(self):
        return [tensor.clone() for index, tensor in enumerate(self.trial.sample.tensors) if self.is_input(index)]

    def forward(self, first, *inputs):
        inputs = iter(inputs)
        tensors = [next(inputs) if self.is_input(index) else tensor
                   for index, tensor in enumerate(self.trial.sample.tensors)]
        parameters = [getattr(self, f"x{index}") if own else None for index, own in enumerate(self.trial.is_parameter)]
        results, total = self.trial.compute(tensors, parameters, device=first.device)
        self.others[:] = [entry if not isinstance(entry, torch.Tensor) else None for entry in results]
        results = [entry for entry in results if isinstance(entry, torch.Tensor)]
        return (poptorch.identity_loss(total, "none"), *results) if self.is_trained else tuple(results)


def run_poptorch(trial, is_trained):
    """(results, parameters after a step, ops that ran on the host)."""
    torch.manual_seed(1)
    model = Model(trial, is_trained)
    options = poptorch.Options().showCompilationProgressBar(False)
    if is_trained:
        executor = poptorch.trainingModel(model.train(), options, torch.optim.SGD(model.parameters(), lr=1.0))
    else:
        executor = poptorch.inferenceModel(model.eval(), options)
    try:
        returned = executor(torch.zeros(1), *model.inputs())
        returned = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        tensors = iter(returned[1:] if is_trained else returned)
        results = [next(tensors) if other is None else other for other in model.others]
        if is_trained:
            executor.copyWeightsToHost()
        return results, [parameter.detach() for parameter in model.parameters()], executor._core.host_calls()
    finally:
        executor.destroy()


def is_internal(error):
    return not isinstance(error, poptorch.Error) or "internal error" in str(error)


def run(trial):
    """The outcome of one trial."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_float, torch_says = False, ""
        try:
            expected = trials.Eager(trial)
        except Exception as error:
            torch_says = str(error)
            if trial.dtype != torch.float16:
                return trials.Outcome(trials.INVALID, f"{type(error).__name__}: {error}")
            in_float = True  # torch computes little in half on the CPU
        try:
            expected = trials.Eager(trial, torch.float32) if in_float else expected
        except Exception as error:
            return trials.Outcome(trials.INVALID, f"{type(error).__name__}: {error}")
        has_layout = any(isinstance(entry, torch.Tensor) and entry.layout != torch.strided
                         for entry in expected.results)
        is_trained = expected.has_gradient and any(trial.is_parameter) and not has_layout
        try:
            results, parameters, host_calls = run_poptorch(trial, is_trained)
        except Exception as error:
            if torch_says and torch_says in str(error):
                return trials.Outcome(trials.INVALID, f"{type(error).__name__}: {error}")  # as in eager PyTorch
            return trials.Outcome(trials.INTERNAL if is_internal(error) else trials.REFUSED, f"{type(error).__name__}: {error}")
        failure = judge.failure_of(trial, expected, results, parameters if is_trained else [], in_float)
    if failure is not None:
        return failure
    return trials.Outcome(trials.HOST, ", ".join(host_calls)) if host_calls else trials.Outcome(trials.NATIVE)
