"""Says whether a program is fit to be trained, and whether poptorch trains it like eager PyTorch."""

import dataclasses
import warnings

import torch

from . import training

# poptorch.Errors that the documents announce: (start of the message, reason). None so far.
REFUSALS = ()


@dataclasses.dataclass
class Failure:
    kind: str     # what shrinking must keep: "mismatch", or the type of an exception and how its message begins
    details: str


def is_valid(program):
    """Whether eager PyTorch trains it, and rounding does not decide the result: the same in float64, from weights moved
    in the sixth digit, must be near."""
    try:
        plain = program.eager
        exact = training.train_eager(program.model_class, program.config, dtype=torch.float64, nudge=1e-6)
    except Exception:  # whatever a random program raises
        return False
    return all(training.distance(exact[name], plain[name]) < 0.5 for name in plain)


def failure_of(program):
    """None when poptorch and eager PyTorch agree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _train_both(program)


def _train_both(program):
    expected = program.eager
    try:
        actual = training.train_poptorch(program.model_class, program.config)
    except Exception as error:  # anything that is not a refusal is a failure
        message = str(error)
        if any(message.startswith(start) for start, _ in REFUSALS):
            return None
        return Failure(f"{type(error).__name__}: {message[:60]}", f"{type(error).__name__}: {message}")
    apart = training.differences(actual, expected)
    if not apart:
        return None
    exact = training.train_eager(program.model_class, program.config, dtype=torch.float64)
    apart = [(name, gap) for name, gap in apart if not _is_rounding(actual.get(name), expected[name], exact[name], gap)]
    if not apart:
        return None
    lines = [f"{name}: {gap:.3g} tolerances apart" for name, gap in apart]
    return Failure("mismatch", "\n".join(lines))


def _is_rounding(actual, expected, exact, gap):
    """Both lie around the exact result, poptorch not much further away than eager PyTorch."""
    return (actual is not None and gap < 100
            and training.distance(actual, exact) <= 1 + 2 * training.distance(expected, exact))
