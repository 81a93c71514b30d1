"""Executors used by several threads."""

import signal
import threading
import time

import poptorch
import pytest
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
    original = executor._build_alone
    monkeypatch.setattr(executor, "_build_alone", lambda *args: (compiled.append(1), original(*args)))
    start = threading.Barrier(4)
    _in_threads([lambda: (start.wait(), executor(X))] * 4)
    assert len(compiled) == 1


# -- one executor, many threads ---------------------------------------------------------------------------------------
class Sum(torch.nn.Module):
    """Trains towards what it adds up in a buffer: the order of calls does not matter, their number does."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.weight = torch.nn.Parameter(torch.zeros(3))

    def forward(self, x):
        self.calls += 1
        return x * 2, poptorch.identity_loss((self.weight * x.detach().sign()).sum(), "sum")


def _numbered(count):
    return [torch.full((4, 3), float(i + 1)) for i in range(count)]


def test_threads_that_share_an_inference_executor_get_their_own_results():
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(10)))
    executor = _wrapped(model)
    inputs = _numbered(8)
    wanted = [executor(x).clone() for x in inputs]
    end = time.monotonic() + 3

    def work(i):
        calls = 0
        while time.monotonic() < end or calls == 0:
            assert torch.equal(executor(inputs[i]), wanted[i])
            calls += 1

    _in_threads([lambda i=i: work(i) for i in range(8)])


def test_threads_that_share_a_training_executor_take_turns():
    model = Sum()
    executor = poptorch.trainingModel(
        model, poptorch.Options().showCompilationProgressBar(False), poptorch.optim.SGD(model.parameters(), lr=0.25)
    )
    inputs = _numbered(8)
    rounds = 100

    def work(i):
        for _ in range(rounds):
            assert torch.equal(executor(inputs[i])[0], 2 * inputs[i])

    _in_threads([lambda i=i: work(i) for i in range(8)])
    assert model.calls == 8 * rounds
    # Four rows each time, whose signs are all positive.
    assert torch.equal(model.weight.detach(), torch.full((3,), -0.25 * 4 * 8 * rounds))


def _model(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def _trained(model, steps=40):
    wrapped = Loss(model)
    trainer = poptorch.trainingModel(
        wrapped, poptorch.Options().showCompilationProgressBar(False), poptorch.optim.Adam(model.parameters(), lr=0.01)
    )
    infer = _wrapped(model)
    results = []
    for step in range(steps):
        trainer(torch.full((4, 3), float(step % 5)))
        if step % 8 == 0:
            results.append(infer(X).clone())
        if step % 16 == 5:
            trainer.detachFromDevice()
    results += [p.detach().clone() for p in model.parameters()]
    return results


class Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return poptorch.identity_loss((self.model(x) - x).pow(2).mean(), "sum")


def test_executors_of_several_threads_compute_as_on_their_own():
    wanted = [_trained(_model(seed)) for seed in range(8)]
    models = [_model(seed) for seed in range(8)]  # here: the seed is one for all threads
    found = {}
    _in_threads([lambda i=i, m=m: found.__setitem__(i, _trained(m)) for i, m in enumerate(models)])
    for seed in range(8):
        for value, expected in zip(found[seed], wanted[seed]):
            assert torch.equal(value, expected)


def test_weights_are_read_between_calls_of_another_thread():
    model = Sum()
    executor = poptorch.trainingModel(
        model,
        poptorch.Options().showCompilationProgressBar(False).deviceIterations(50),
        poptorch.optim.SGD(model.parameters(), lr=0.25),
    )
    x = torch.ones(200, 3)
    stop = threading.Event()

    def train():
        for _ in range(100):
            executor(x)
        stop.set()

    def read():
        while not stop.is_set():
            weight = model.weight.detach().clone()
            calls = round(weight[0].item() / -50)  # of 50 updates by one each
            assert torch.equal(weight, torch.full((3,), -50.0 * calls))

    _in_threads([train, read, read])
    assert torch.equal(model.weight.detach(), torch.full((3,), -5000.0))


def test_other_threads_may_release_the_device_between_calls():
    model = Sum()
    executor = poptorch.trainingModel(
        model, poptorch.Options().showCompilationProgressBar(False), poptorch.optim.SGD(model.parameters(), lr=0.25)
    )
    x = torch.ones(4, 3)
    stop = threading.Event()

    def train():
        for _ in range(150):
            executor(x)

    def train_all():
        try:
            _in_threads([train, train])
        finally:
            stop.set()

    def release():
        turn = 0
        while not stop.is_set():
            turn += 1
            if turn % 10 == 0:
                executor.destroy()
            elif executor.isAttachedToDevice():
                try:
                    executor.detachFromDevice()
                except poptorch.Error as error:  # the other thread that releases was first
                    assert "not attached" in str(error) or "not compiled" in str(error)
            time.sleep(0.002)

    _in_threads([train_all, release, release])
    assert model.calls == 300
    assert torch.equal(model.weight.detach(), torch.full((3,), -300.0))


def test_trainers_that_share_weights_do_not_wait_for_each_other_forever():
    shared = torch.nn.Linear(3, 3)
    trainers = []
    for _ in range(2):
        model = Loss(torch.nn.Sequential(shared))
        trainers.append(
            poptorch.trainingModel(
                model, poptorch.Options().showCompilationProgressBar(False),
                poptorch.optim.SGD(model.parameters(), lr=0.01),
            )
        )

    def work(trainer):
        for _ in range(40):
            trainer(X)
            trainer.copyWeightsToDevice()
            assert torch.isfinite(shared.weight).all()

    _in_threads([lambda t=t: work(t) for t in trainers])


def test_state_of_the_optimizer_is_read_between_calls_of_another_thread():
    torch.manual_seed(1)
    model = Loss(torch.nn.Linear(3, 3))
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.01)
    executor = poptorch.trainingModel(model, poptorch.Options().showCompilationProgressBar(False), optimizer)
    executor(X)
    stop = threading.Event()

    def train():
        for _ in range(200):
            executor(X)
        stop.set()

    def read():
        while not stop.is_set():
            steps = {v.item() for k, v in optimizer.state_dict()["ipu_state"].items() if k.startswith("Step___")}
            assert len(steps) == 1

    _in_threads([train, read])


def test_interrupt_reaches_a_thread_that_waits_for_its_turn():
    model = Sum()
    iterations = 200000
    executor = poptorch.trainingModel(
        model,
        poptorch.Options().showCompilationProgressBar(False).deviceIterations(iterations),
        poptorch.optim.SGD(model.parameters(), lr=0.25),
    )
    x = torch.ones(4 * iterations, 3)
    executor.compile(x)
    running = threading.Event()
    worker = threading.Thread(target=lambda: (running.set(), executor(x)))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        worker.start()
        running.wait()
        while executor._runner is None and worker.is_alive():
            time.sleep(0.001)
        timer = threading.Timer(0.02, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            executor(x)
            time.sleep(10)  # the calls were faster than the signal
        timer.join()
    finally:
        worker.join()
        signal.signal(signal.SIGINT, before)
    assert model.calls in (iterations, *range(iterations, 2 * iterations))


# -- captures leave other threads alone -------------------------------------------------------------------------------
def test_other_threads_do_not_run_on_the_device_during_a_capture():
    inside, outside = [], []
    captured, looked = threading.Event(), threading.Event()

    class Net(torch.nn.Module):
        def forward(self, x):
            inside.append(poptorch.isRunningOnIpu())
            captured.set()
            looked.wait(10)
            with poptorch.Block("a", ipu_id=0):
                return x + 1

    def look():
        captured.wait(10)
        outside.append(poptorch.isRunningOnIpu())
        with poptorch.Block("b", ipu_id=3), poptorch.NameScope("other"):
            pass
        outside.append(poptorch.identity_loss(torch.ones(3), "sum").item())
        outside.append(poptorch.nop(torch.ones(2)).tolist())
        looked.set()

    executor = _wrapped(Net())
    _in_threads([lambda: executor(X), look])
    assert inside == [True] and outside == [False, 3.0, [1.0, 1.0]]
    assert not any("other" in name for name in executor.getTensorNames())
    assert not poptorch.isRunningOnIpu()


def test_weights_are_read_while_another_thread_runs():
    # A run asks the interpreter for signals every 20 ms; who waits for it must not hold the interpreter.
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8)))
    options = poptorch.Options().showCompilationProgressBar(False).deviceIterations(300)
    executor = poptorch.inferenceModel(model, options)
    x = torch.randn(300, 256)
    executor.compile(x)
    core, running = executor._core, threading.Event()

    def run():
        running.set()
        executor(x)

    def read():
        running.wait()
        for _ in range(20):
            executor.copyWeightsToHost()
            core.random_state()
            core.times()

    _in_threads([run, read, read])
