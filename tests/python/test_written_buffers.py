"""Buffers that forward writes: they belong to the model, whether a device holds them or the host."""

import gc

import poptorch
import pytest
import torch


class Counter(torch.nn.Module):
    """Adds up its inputs in a buffer; counts its calls in another one, of a type only the host has."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.total += x.sum(0)
        self.calls += 1
        return self.total * 1.0


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


X = torch.arange(6.0).reshape(2, 3)
RELEASE = {"detach": lambda e: e.detachFromDevice(), "destroy": lambda e: e.destroy()}


@pytest.mark.parametrize("release", RELEASE.values(), ids=RELEASE.keys())
def test_inference_continues_with_its_buffers_after_the_device_was_released(release):
    model = Counter()
    executor = poptorch.inferenceModel(model, quiet())
    executor(X)
    executor(X)
    release(executor)
    assert torch.equal(executor(X), 3 * X.sum(0))
    executor.copyWeightsToHost()
    assert model.calls == 3


@pytest.mark.parametrize("release", RELEASE.values(), ids=RELEASE.keys())
def test_released_inference_leaves_its_buffers_in_the_module(release):
    model = Counter()
    executor = poptorch.inferenceModel(model, quiet())
    executor(X)
    executor(X)
    release(executor)
    assert torch.equal(model.total, 2 * X.sum(0))
    assert model.calls == 2 and model.calls.dtype is torch.int64


def test_inference_that_nobody_holds_leaves_its_buffers_in_the_module():
    model = Counter()
    executor = poptorch.inferenceModel(model, quiet())
    executor(X)
    del executor
    gc.collect()
    assert torch.equal(model.total, X.sum(0))


def test_release_without_a_call_keeps_what_the_host_has_set():
    model = Counter()
    executor = poptorch.inferenceModel(model, quiet())
    executor.compile(X)
    model.total.fill_(7)
    executor.detachFromDevice()
    assert torch.equal(model.total, torch.full((3,), 7.0))
    assert torch.equal(executor(X), X.sum(0) + 7)  # uploaded again when the device was attached


def test_release_leaves_weights_alone_that_the_host_has_changed():
    class Net(Counter):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            return super().forward(x) * self.weight

    model = Net()
    executor = poptorch.inferenceModel(model, quiet())
    executor(X)
    with torch.no_grad():
        model.weight.fill_(2)
    executor.detachFromDevice()
    assert torch.equal(model.weight.detach(), torch.full((3,), 2.0))
    assert torch.equal(executor(X).detach(), 4 * X.sum(0))


def test_replicas_continue_with_their_own_buffers_after_detach():
    model = Counter()
    options = quiet().replicationFactor(2).broadcastBuffers(False)
    executor = poptorch.inferenceModel(model, options)
    x = torch.cat([X, 10 * X])
    sums = torch.cat([X.sum(0), 10 * X.sum(0)])
    assert torch.equal(executor(x), sums)
    executor.detachFromDevice()
    assert torch.equal(model.total, X.sum(0))  # the host shows those of the first replica
    assert torch.equal(executor(x), 2 * sums)
    executor.detachFromDevice()
    assert torch.equal(executor(x), 3 * sums)


def test_batch_norm_of_replicas_continues_with_its_own_statistics_after_detach():
    torch.manual_seed(3)
    x = torch.cat([torch.randn(4, 3), 5 + 2 * torch.randn(4, 3)])

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)

        def forward(self, x):
            return self.norm(x), self.norm.running_mean * 1.0

    def statistics(detaches):
        executor = poptorch.inferenceModel(Net().train(), quiet().replicationFactor(2).broadcastBuffers(False))
        for _ in range(3):
            result = executor(x)[1]
            if detaches:
                executor.detachFromDevice()
        return result

    continued = statistics(detaches=True)
    assert torch.equal(continued, statistics(detaches=False))
    assert not torch.allclose(continued[:3], continued[3:], atol=0.1)


def test_training_replicas_continue_with_their_own_buffers_after_detach():
    class Net(Counter):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            total = super().forward(x)
            return total, poptorch.identity_loss((x * self.weight).sum(), "sum")

    executor = poptorch.trainingModel(Net(), quiet().replicationFactor(2).broadcastBuffers(False))
    x = torch.cat([X, 10 * X])
    sums = torch.cat([X.sum(0), 10 * X.sum(0)])
    executor(x)
    executor.detachFromDevice()
    assert torch.equal(executor(x)[0], 2 * sums)


def test_buffer_changed_on_the_host_replaces_those_of_all_replicas():
    model = Counter()
    executor = poptorch.inferenceModel(model, quiet().replicationFactor(2).broadcastBuffers(False))
    x = torch.cat([X, 10 * X])
    executor(x)
    executor.detachFromDevice()
    model.total.zero_()
    assert torch.equal(executor(x), torch.cat([X.sum(0), 10 * X.sum(0)]))
    model.total.zero_()
    executor.copyWeightsToDevice()
    assert torch.equal(executor(x), torch.cat([X.sum(0), 10 * X.sum(0)]))


def test_named_buffer_of_replicas_is_refreshed_in_all_of_them():
    model = Counter()
    options = quiet().replicationFactor(2).broadcastBuffers(False).updatableNamedBuffers(["total"])
    executor = poptorch.inferenceModel(model, options)
    x = torch.cat([X, 10 * X])
    executor(x)
    model.total.fill_(1)
    executor.copyNamedBuffersToDevice()
    assert torch.equal(executor(x), torch.cat([X.sum(0), 10 * X.sum(0)]) + 1)


class Expanded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("row", torch.arange(5.0).expand(4, 5))
        self.register_buffer("column", torch.arange(8.0)[::2].reshape(4, 1).expand(4, 5))

    def forward(self, x):
        return x * self.row + self.column, self.row[1], self.column[:, :4].t() + self.row[:, :4]


def test_expanded_buffers_are_legal():
    model = Expanded()
    x = torch.randn(4, 5)
    wanted = model(x)
    executor = poptorch.inferenceModel(model, quiet())
    for result, expected in zip(executor(x), wanted):
        torch.testing.assert_close(result, expected)
    executor.copyWeightsToHost()
    executor.detachFromDevice()
    model.row[0].mul_(2)  # of all rows: they are one
    for result, expected in zip(executor(x), model(x)):
        torch.testing.assert_close(result, expected)
    assert torch.equal(model.row, 2 * torch.arange(5.0).expand(4, 5))


def test_expanded_buffers_in_training():
    class Net(Expanded):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(5))

        def forward(self, x):
            return poptorch.identity_loss((x * self.row * self.weight + self.column).sum(), "sum")

    model = Net()
    executor = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.1))
    x = torch.randn(4, 5)
    executor(x)
    torch.testing.assert_close(model.weight.detach(), 1 - 0.1 * (x * torch.arange(5.0)).sum(0))
    assert torch.equal(model.row, torch.arange(5.0).expand(4, 5))
