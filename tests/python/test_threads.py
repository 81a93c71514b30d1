"""Executors used by several threads."""

import threading

import poptorch
import torch

X = torch.randn(4, 3)


def _in_threads(functions):
    errors = []

    def run(function):
        try:
            function()
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def _wrapped(model):
    return poptorch.inferenceModel(model, poptorch.Options().showCompilationProgressBar(False))


def test_models_compiled_by_several_threads_take_turns():
    # Many ops, so that captures would overlap.
    model = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(60)))
    executors = [_wrapped(model) for _ in range(6)]
    results = {}
    _in_threads([lambda i=i, e=e: results.__setitem__(i, e(X)) for i, e in enumerate(executors)])
    for result in results.values():
        torch.testing.assert_close(result, model(X).detach())
    assert len(results) == len(executors)


def test_one_executor_is_compiled_once(monkeypatch):
    model = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(60)))
    executor = _wrapped(model)
    compiled = []
    original = executor._compile_alone
    monkeypatch.setattr(executor, "_compile_alone", lambda *args: (compiled.append(1), original(*args)))
    start = threading.Barrier(4)
    _in_threads([lambda: (start.wait(), executor(X))] * 4)
    assert len(compiled) == 1
