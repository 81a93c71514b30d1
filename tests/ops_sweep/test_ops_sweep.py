"""A part of the sweep of torch's operator database (`sweep.py` runs the whole), and the sweep's own ability to fail."""

import signal

import pytest
import torch
from operator_sweep import check, database, judge, report, trial, workers

# One of each kind: elementwise, in place, reductions, views, indices, linear algebra on the host, random, images,
# complex numbers.
FIXED = ("add", "__rpow__", "aminmax", "clamp", "cumsum", "logcumsumexp", "sum", "std_mean", "amax", "as_strided",
         "unfold", "index_put", "scatter_reduce", "segment_reduce.lengths", "masked_fill", "mode", "sort",
         "tensor_split", "linalg.norm.subgradients_at_zero", "linalg.svdvals", "einsum", "fft.rfft",
         "nn.functional.pad.circular",
         "nn.functional.conv_transpose2d", "nn.functional.grid_sample", "nn.functional.dropout", "special.log_ndtr")
SAMPLES = 4


@pytest.fixture(scope="module")
def outcomes():
    found = {}
    workers.sweep([operator.key for operator in database.operators(FIXED)], SAMPLES, 1, found.__setitem__)
    return found


@pytest.mark.parametrize("name", FIXED)
def test_operators_of_the_database_are_those_of_eager(name, outcomes):
    for operator in database.operators([name]):
        assert outcomes[operator.key], "no check was made"
        assert not report.failures_of(operator.key, outcomes[operator.key])


def trial_of(name, form, dtype=torch.float32):
    operator, = database.operators([name])
    return trial.Trial(operator, operator.samples(dtype, 1)[0], dtype, form)


def test_a_wrong_value_is_found():
    one = trial_of("sin", trial.INPUT)
    right = trial.Eager(one).results
    assert judge.failure_of(one, trial.Eager(one), right, [], False) is None
    wrong = [right[0] + 1e-3]
    assert judge.failure_of(one, trial.Eager(one), wrong, [], False).status == trial.WRONG_VALUE


def test_a_wrong_gradient_is_found():
    one = trial_of("sin", trial.COMPUTED)
    eager = trial.Eager(one)
    after = [parameter.detach() - gradient for parameter, gradient in zip(eager.parameters, eager.gradients)]
    assert judge.failure_of(one, eager, eager.results, after, False) is None
    after[0] = after[0] + 1e-3
    assert judge.failure_of(one, eager, eager.results, after, False).status == trial.WRONG_GRADIENT


def test_half_is_held_to_the_rounding_of_its_steps():
    """Differences of large numbers, which half has lost; another result that far away is wrong."""
    one = trial_of("sub", trial.INPUT, torch.float16)
    one.function = lambda x, *_, **__: (x * 2000 + x) - x * 2000
    eager, halved = trial.Eager(one, torch.float32), trial.Eager(one, halved=0)
    error = (halved.results[0] - eager.results[0]).abs().max()
    assert error > 0.01
    assert judge.failure_of(one, eager, halved.results, [], True) is None
    off = [(eager.results[0] + 8 * error).half()]
    assert judge.failure_of(one, eager, off, [], True).status == trial.WRONG_VALUE


def test_a_wrong_type_is_found():
    one = trial_of("sin", trial.INPUT)
    assert "type" in judge.failure_of(one, trial.Eager(one), [trial.Eager(one).results[0].half()], [], False).details


def test_a_crash_is_a_failure_and_the_sweep_goes_on(tmp_path, monkeypatch):
    """The processes that check are made to die in their first check; the rest is left to the next."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'poptorch' and '--work' in sys.argv:\n"
        "            sys.meta_path.remove(self)\n"
        "            import operator_sweep.trial as trial\n"
        "            real, seen = trial.Eager, []\n"
        "            def dying(*arguments, **keywords):\n"
        "                seen.append(1)\n"
        "                if len(seen) == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "                return real(*arguments, **keywords)\n"
        "            trial.Eager = dying\n"
        "sys.meta_path.insert(0, Finder())\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = {}
    workers.sweep(["abs"], 1, 1, found.__setitem__)
    statuses = {outcome["status"] for outcome in found["abs"]}
    assert statuses == {trial.CRASH} and f"{-signal.SIGKILL}" in found["abs"][0]["details"]
    assert len(found["abs"]) > 1


def test_an_unknown_name_is_refused():
    with pytest.raises(SystemExit, match="no operator called nonsense"):
        database.operators(["nonsense"])


def test_what_has_no_measure_says_why():
    names = {operator.name for operator in database.operators()}
    assert all(name in names and reason for name, _, _, reason in judge.KNOWN)


def test_a_refusal_has_its_reason():
    outcome = check.run(trial_of("nonzero", trial.INPUT))
    assert outcome.status == trial.REFUSED and "depends on the values" in outcome.details
