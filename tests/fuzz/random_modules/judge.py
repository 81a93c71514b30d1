"""Says whether a program is fit to be trained, and whether poptorch trains it like eager PyTorch."""

import dataclasses
import os
import pickle
import signal
import warnings

import torch

from . import training

# poptorch.Errors that the documents announce: (start of the message, reason). None so far.
REFUSALS = ()


CHILD_SECONDS = 60  # a module takes milliseconds


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


def failure_of(program, alone=False):
    """None when poptorch and eager PyTorch agree. `alone`: poptorch runs in a process of its own, so that a crash is a
    failure like others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _train_both(program, _train_in_child if alone else training.train_poptorch)


class Crash(Exception):
    """A process ended, by a signal or because it took too long."""


def _train_in_child(cls, config):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(CHILD_SECONDS)
        try:
            answer = training.train_poptorch(cls, config)
        except Exception as error:
            answer = type(error).__name__, str(error)
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        raise Crash(f"by signal {status}")
    answer = pickle.loads(answer)
    if isinstance(answer, tuple):
        name, message = answer
        raise type(name, (Exception,), {})(message)
    return answer


def _train_both(program, train):
    expected = program.eager
    try:
        actual = train(program.model_class, program.config)
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
