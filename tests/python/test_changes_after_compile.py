"""A compiled program does not follow changes of its module: the user is told."""

import poptorch
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        y = self.second(self.first(x)) * self.scale
        return y, poptorch.identity_loss(y.sum(), "sum")


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def trained():
    model = Net()
    executor = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.01))
    executor(torch.ones(1, 4))
    return model, executor


def test_nothing_is_said_while_nothing_changes(capfd):
    model, executor = trained()
    executor(torch.ones(1, 4))
    model.load_state_dict(model.state_dict())
    executor.copyWeightsToDevice()
    executor(torch.ones(1, 4))
    assert "destroy()" not in capfd.readouterr().err


def test_freezing_a_parameter_is_warned_of_once(capfd):
    model, executor = trained()
    model.first.weight.requires_grad_(False)
    before = model.first.weight.detach().clone()
    for _ in range(3):
        executor(torch.ones(1, 4))
    log = capfd.readouterr().err
    assert log.count("were frozen (requires_grad=False)") == log.count("follow: first.weight.") == 1
    assert "destroy()" in log
    assert not torch.equal(model.first.weight.detach(), before)  # it says what happens
    executor.destroy()
    before = model.first.weight.detach().clone()
    executor(torch.ones(1, 4))
    assert torch.equal(model.first.weight.detach(), before)


def test_unfreezing_a_layer_is_warned_of(capfd):
    model = Net()
    model.first.requires_grad_(False)
    executor = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.01))
    executor(torch.ones(1, 4))
    model.first.requires_grad_(True)
    executor(torch.ones(1, 4))
    log = capfd.readouterr().err
    assert log.count("were unfrozen") == 1 and "first.weight, first.bias" in log


def test_replacing_a_layer_is_warned_of_once(capfd):
    model, executor = trained()
    model.second[0] = torch.nn.Linear(4, 4)
    for _ in range(3):
        executor(torch.ones(1, 4))
    log = capfd.readouterr().err
    assert log.count("were replaced") == log.count("follow: second.0.") == 1
    assert "destroy()" in log


def test_replacing_a_parameter_or_buffer_is_warned_of(capfd):
    model = Net()
    executor = poptorch.inferenceModel(model, quiet())
    executor(torch.ones(1, 4))
    model.first.weight = torch.nn.Parameter(torch.zeros(4, 4))
    model.scale = torch.zeros(4)
    executor(torch.ones(1, 4))
    log = capfd.readouterr().err
    assert "were replaced" in log and "scale, first.weight" in log


def test_looking_for_changes_does_not_copy_weights(monkeypatch):
    model, executor = trained()
    copies = []
    original = executor.copyWeightsToHost
    monkeypatch.setattr(executor, "copyWeightsToHost", lambda: (copies.append(1), original()))
    for _ in range(3):
        executor(torch.ones(1, 4))
    assert not copies
    assert model.first.weight is not None
