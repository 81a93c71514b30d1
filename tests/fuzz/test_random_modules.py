"""Two thousand random modules train like eager PyTorch. `run.py` trains others and explains failures."""

import pytest
from run import Worker

MODULES, CHUNK = 2000, 250  # a chunk is a process: a crash is a failure, and torch is loaded once for many modules


@pytest.mark.parametrize("first", range(0, MODULES, CHUNK))
def test_random_modules_train_like_eager(first):
    results = list(Worker(range(first, first + CHUNK), shrink=3).results())
    assert [seed for seed, _ in results] == list(range(first, first + CHUNK))
    failures = [f"== module {seed}: {failure['details']}\n{failure['module']}" for seed, failure in results if failure]
    assert not failures, f"{len(failures)} of {CHUNK} modules; scripts in build/fuzz\n" + "\n".join(failures)
