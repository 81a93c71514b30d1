"""Two thousand random modules train like eager PyTorch. `run.py` trains others and explains failures."""

import pytest
import torch
from run import check

MODULES, CHUNK = 2000, 100


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("first", range(0, MODULES, CHUNK))
def test_random_modules_train_like_eager(first):
    failures = {}
    for seed in range(first, first + CHUNK):
        failure = check(seed, shrunk=len(failures) < 3)  # making it small takes seconds
        if failure:
            failures[seed] = failure
    report = "\n".join(f"== module {seed}: {failure['details']}\n{failure['module']}"
                       for seed, failure in failures.items())
    assert not failures, f"{len(failures)} of {CHUNK} modules; scripts in build/fuzz\n{report}"
