"""Makes a failing program small: statements, loss terms and settings go while it still fails in the same way."""

import re

from . import judge


def shrink(program, kind):
    """The smallest program that fails as `kind` says; eager PyTorch must still train it."""
    changed = True
    while changed:
        changed = False
        for candidate in _smaller(program):
            if _still_fails(candidate, kind):
                program, changed = candidate, True
                break
    return program


def _still_fails(program, kind):
    try:
        failure = judge.failure_of(program, alone=True)
    except Exception:  # eager PyTorch or Python itself refuses what is left
        return False
    return failure is not None and failure.kind == kind


def _without(program, part, index):
    candidate = program.copy()
    del getattr(candidate, part)[index]
    return candidate


def _smaller(program):
    """Candidates, the largest steps first."""
    for part in ("forward", "setup", "losses", "results"):
        statements = getattr(program, part)
        for index in reversed(range(len(statements))):
            if part != "losses" or len(statements) > 1:
                yield _without(program, part, index)
    yield from _simpler_settings(program)
    for index, statement in enumerate(program.forward):
        for simpler in _simpler(statement):
            candidate = program.copy()
            candidate.forward[index] = simpler
            yield candidate
    for index, term in enumerate(program.losses):
        name = re.search(r"[a-z]+\d+|self\.\w+", term)
        if name and term != f"{name.group()}.sum()":
            candidate = program.copy()
            candidate.losses[index] = f"{name.group()}.sum()"
            yield candidate


def _simpler(statement):
    """The result of a statement replaced by one of its operands; one line of several left out."""
    lines = statement.split("\n")
    if len(lines) > 1:
        for index in range(len(lines)):
            yield "\n".join(lines[:index] + lines[index + 1:])
        return
    assignment = re.fullmatch(r"(v\d+) = (.*)", statement)
    if assignment:
        target, expression = assignment.groups()
        for operand in dict.fromkeys(re.findall(r"\b[vx]\d+\b|self\.w\d", expression)):
            for simple in (operand, f"{operand} * 1"):
                if expression not in (operand, f"{operand} * 1"):
                    yield f"{target} = {simple}"


def _simpler_settings(program):
    plain = {"steps": 1, "accumulation": 1, "optimizer": {"name": "SGD", "lr": 0.2}}
    for key, value in plain.items():
        if program.config[key] != value:
            candidate = program.copy()
            candidate.config[key] = value
            yield candidate
    mark = 'poptorch.identity_loss(loss, "sum")'
    if program.mark != mark:
        candidate = program.copy()
        candidate.mark = mark
        yield candidate
