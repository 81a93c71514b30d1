"""Says whether poptorch's results and gradients are those of eager PyTorch."""

import torch

from . import trial as trials

# How far results may lie apart: (relative, absolute). What is further apart may still be rounding: float64 decides, and
# for half eager PyTorch in half (trial.Halved), whose steps round as those of any device do.
TOLERANCE = {torch.float32: (1e-4, 1e-5), torch.float16: (5e-3, 5e-4)}
HALF_RUNS = 5
SEEDS = 32  # few windows of a pooling have few places
NARROW = {torch.int64: torch.int32, torch.float64: torch.float32}
# Their results are whatever the memory held.
UNINITIALISED = ("empty", "empty_like", "new_empty", "new_empty_strided", "resize_", "resize_as_")


def failure_of(trial, expected, results, parameters, in_float):
    """None, or the Outcome that says what is wrong. `parameters`: after a step, empty if there was none."""
    if len(results) != len(expected.results):
        return trials.Outcome(trials.WRONG_VALUE, f"{len(results)} results instead of {len(expected.results)}")
    random = is_random(trial)
    exact = None if random else Exact(trial)
    for index, (own, theirs) in enumerate(zip(results, expected.results)):
        if trial.operator.name in CUT_SHORT and own.dim() == theirs.dim() == 1:
            theirs = theirs[:len(own)]
        problem = difference(own, theirs, trial, in_float, random, lambda i=index: exact.result(i))
        if problem:
            return trials.Outcome(trials.WRONG_VALUE, f"result {index}: {problem}")
    if random or has_no_measure(trial):
        return None
    for index, after in enumerate(parameters):
        # What a parameter lost since the operator was done with it, known to its last digit.
        before, theirs = expected.parameters[index].detach(), expected.gradients[index]
        tolerance = TOLERANCE.get(trial.dtype, TOLERANCE[torch.float32])
        own, slack = before.float() - after.float(), 0
        shows = torch.isfinite(before)  # what is not a number stays so
        if own.numel() and not trial.has_offsets():
            finite = [values[torch.isfinite(values)] for values in (before, theirs)]
            slack = 4 * torch.finfo(torch.float32).eps * max(v.abs().max().item() if v.numel() else 0 for v in finite)
        problem = apart(own, theirs, (tolerance[0], tolerance[1] + slack), lambda i=index: exact.gradient(i), shows)
        if problem:
            return trials.Outcome(trials.WRONG_GRADIENT, f"gradient of operand {index}: {problem}")
    return None


# Where eager PyTorch's gradient is no measure: (operator, form and type or None for all, reason). Values are compared.
KNOWN = (
    ("logical_not", trials.IN_PLACE, None, "eager hands on the gradient of the value that was written over"),
    ("logical_and", trials.IN_PLACE, None, "the same"),
    ("logical_or", trials.IN_PLACE, None, "the same"),
    ("logical_xor", trials.IN_PLACE, None, "the same"),
    ("as_strided_scatter", trials.COMPUTED, None, "eager's gradient reads memory nobody wrote"),
    ("as_strided_scatter", trials.PARAMETER, None, "the same"),
    ("nn.functional.hardswish", trials.COMPUTED, torch.float16, "eager is of two minds about the slope at 3, which "
     "half meets: 1 in its vectorised loop, 1.5 for what is left over"),
)
# The length of the result depends on the values: minlength, which is the least one, is the length here.
CUT_SHORT = ("bincount",)


def has_no_measure(trial):
    return any(trial.operator.name == name and form in (None, trial.form) and dtype in (None, trial.dtype)
               for name, form, dtype, _ in KNOWN)


def is_random(trial):
    """Whether torch itself gives other numbers when asked again."""
    if trial.operator.name in UNINITIALISED:
        return True
    dtype = torch.float32 if trial.dtype == torch.float16 else None
    try:
        first = trials.Eager(trial, dtype)
        others = (trials.Eager(trial, dtype, seed) for seed in range(1, SEEDS if first.draws else 1))
        return any(isinstance(a, torch.Tensor) and a.layout == torch.strided and
                   not torch.equal(comparable(a), comparable(b))
                   for other in others for a, b in zip(other.results, first.results))
    except Exception:
        return False


def comparable(tensor):
    return tensor.nan_to_num() if tensor.is_floating_point() else tensor


class Exact:
    """The same in float64, and in half for what is checked in half, computed when it is asked for."""

    def __init__(self, trial):
        self._trial, self._found = trial, {}

    def _compute(self, kind, make):
        if kind not in self._found:
            try:
                self._found[kind] = make()
            except Exception:
                self._found[kind] = None
        return self._found[kind]

    def _pair(self, read):
        """(in float64 or None, in half several times)"""
        exact = self._compute("exact", lambda: trials.Eager(self._trial, torch.float64))
        seeds = range(HALF_RUNS) if self._trial.dtype == torch.float16 else ()
        halved = [self._compute(seed, lambda s=seed: trials.Eager(self._trial, halved=s)) for seed in seeds]
        return exact and read(exact), [read(run) for run in halved if run is not None]

    def result(self, index):
        return self._pair(lambda eager: eager.results[index])

    def gradient(self, index):
        return self._pair(lambda eager: eager.gradients[index])


def difference(own, theirs, trial, in_float, random, exact):
    """None, or what is different."""
    if not isinstance(theirs, torch.Tensor):
        return None if own == theirs else f"{own!r} instead of {theirs!r}"
    if theirs.layout != torch.strided:
        return f"a tensor of layout {theirs.layout}"
    if own.shape != theirs.shape:
        return f"shape {list(own.shape)} instead of {list(theirs.shape)}"
    if theirs.dtype == torch.int64 and theirs.numel() and not random:
        beyond = (theirs < -2**31) | (theirs > 2**31 - 1)
        if beyond.any():  # the device has 32 bits
            own, theirs = own[~beyond], theirs[~beyond]
    wanted = NARROW.get(theirs.dtype, theirs.dtype)
    if in_float and wanted == torch.float32:
        wanted = own.dtype if own.dtype in (torch.float16, torch.float32) else wanted
    made_on_host = not trial.sample.tensors  # a constant of the host keeps its type
    if own.dtype != wanted and not (made_on_host and own.dtype == theirs.dtype):
        return f"type {own.dtype} instead of {wanted}"
    if random:
        return None
    tolerance = (0, 0)
    if wanted.is_floating_point:
        tolerance = TOLERANCE[torch.float16 if torch.float16 in (trial.dtype, wanted) else torch.float32]
    return apart(own, theirs.to(own.dtype), tolerance, exact)


def apart(own, theirs, tolerance, exact, where=True):
    """None, or how far two tensors are apart where rounding does not explain it."""
    if own.numel() == 0:
        return None
    if not own.is_floating_point():
        wrong = own != theirs
        return None if not wrong.any() else first_of(wrong, own, theirs)
    wrong = (gap(own, theirs) > bound(theirs, tolerance)) & torch.as_tensor(where)
    if not wrong.any():
        return None
    value, halved = exact()
    if value is not None and value.shape == theirs.shape:
        # Rounding: nearer to the exact result than a tolerance, or not much further away than eager PyTorch is.
        value = value.double()
        wrong &= gap(own, value) > bound(value, tolerance) + 2 * gap(theirs, value).nan_to_num(posinf=0)
        halved = [run for run in halved if run.shape == theirs.shape]
        if halved:
            error = max(error_of(run, value) for run in halved)
            wrong &= gap(own, value) > bound(value, tolerance) + error
        for run in halved:
            wrong &= torch.isfinite(run) | ~torch.isfinite(theirs)  # a step on the way may be infinite in half
    return None if not wrong.any() else first_of(wrong, own, theirs)


def error_of(halved, value):
    """The largest error of a result computed in half: which of its elements has it is chance."""
    errors = gap(halved, value)
    finite = errors[torch.isfinite(errors)]
    return finite.max() if finite.numel() else torch.zeros(())


def gap(a, b):
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    return torch.where(same, 0.0, (a - b).abs().nan_to_num(nan=float("inf"), posinf=float("inf")))


def bound(values, tolerance):
    relative, absolute = tolerance
    return absolute + relative * values.double().abs().nan_to_num(nan=0, posinf=0, neginf=0)


def first_of(wrong, own, theirs):
    place = wrong.nonzero()[0].tolist()
    return (f"{own[tuple(place)].item()} instead of {theirs[tuple(place)].item()} at {place}, "
            f"{int(wrong.sum())} of {wrong.numel()} elements")
