"""Results are the caller's own; the memory of those that are dropped serves later calls."""
import gc
import threading

import poptorch
import pytest
import torch

from support.models import quiet

X = torch.arange(2 ** 16, dtype=torch.float32).view(4, -1)  # 256 KB


class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1, x.sum(), x * 2


@pytest.fixture(name="model")
def wrapped():
    return poptorch.inferenceModel(Net(), quiet())


def check(result, x):
    for mine, expected in zip(result, (x + 1, x.sum(), x * 2)):
        assert torch.equal(mine, expected)


def test_results_that_are_held_stay_as_they_are(model):
    held = [(X + n, model(X + n)) for n in range(6)]
    assert len({result[0].data_ptr() for _, result in held}) == 6
    for x, result in held:
        check(result, x)


def test_memory_of_dropped_results_serves_again(model):
    addresses = set()
    for n in range(20):
        result = model(X + n)
        check(result, X + n)
        addresses |= {result[0].data_ptr(), result[2].data_ptr()}
    assert len(addresses) <= 4


def test_a_view_keeps_its_memory(model):
    view = model(X)[0][1:3, ::2]
    expected = view.clone()
    for n in range(5):
        model(X + n)
    assert torch.equal(view, expected)


def test_results_are_tensors_like_any_other(model):
    result, total, doubled = model(X)
    assert result.is_contiguous() and not result.requires_grad and result.device.type == "cpu"
    result.requires_grad_()
    (result * 3).sum().backward()
    assert torch.equal(result.grad, torch.full_like(X, 3))
    doubled.resize_(8, *X.shape)  # larger: memory of its own
    assert doubled.shape == (8, *X.shape) and torch.equal(doubled[0], X * 2)
    doubled.resize_(3)
    assert torch.equal(doubled, (X * 2).flatten()[:3])
    assert total.item() == X.sum().item()
    result.detach().numpy()[0, 0] = 7
    assert result[0, 0] == 7


def test_results_outlive_their_model(model):
    result = model(X)
    model.destroy()
    del model
    gc.collect()
    check(result, X)


def test_results_may_be_dropped_by_other_threads(model):
    failures = []

    def drop(results):
        try:
            while results:
                n, result = results.pop()
                check(result, X + n)
        except AssertionError as error:
            failures.append(error)

    for _ in range(5):
        results = [(n, model(X + n)) for n in range(8)]
        threads = [threading.Thread(target=drop, args=(results[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        results.clear()
        for n in range(4):
            check(model(X - n), X - n)
        for thread in threads:
            thread.join()
    assert not failures
