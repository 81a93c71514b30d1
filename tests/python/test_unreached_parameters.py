"""Parameters that are to be trained, and that the loss does not depend on."""

import poptorch
import torch


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def log_of_training(model, capfd):
    executor = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.1))
    executor(torch.ones(2, 3))
    executor(torch.ones(2, 3))
    return capfd.readouterr().err


class Heads(torch.nn.Module):
    """Trains the first of several heads."""

    def __init__(self, count, uses_all=False):
        super().__init__()
        self.heads = torch.nn.ModuleList(torch.nn.Linear(3, 2) for _ in range(count))
        self._uses_all = uses_all

    def forward(self, x):
        results = [head(x) for head in (self.heads if self._uses_all else self.heads[:1])]
        return results, poptorch.identity_loss(results[0].sum(), "sum")


def test_unused_parameters_are_named_once(capfd):
    log = log_of_training(Heads(2), capfd)
    assert log.count("no gradient reaches") == 1
    assert "heads.1.weight, heads.1.bias" in log


def test_parameters_that_only_outputs_use_are_named(capfd):
    log = log_of_training(Heads(2, uses_all=True), capfd)
    assert log.count("no gradient reaches") == 1
    assert "heads.1.weight, heads.1.bias" in log


def test_many_are_summarised(capfd):
    assert "heads.1.weight, heads.1.bias, heads.2.weight and 19 more" in log_of_training(Heads(12), capfd)


def test_frozen_and_tied_parameters_are_no_reason_to_warn(capfd):
    model = Heads(3)
    model.heads[1].requires_grad_(False)
    model.heads[2].weight = model.heads[0].weight
    model.heads[2].bias = model.heads[0].bias
    assert "no gradient reaches" not in log_of_training(model, capfd)


def test_parameters_without_an_optimizer_group_are_no_reason_to_warn_twice(capfd):
    model = Heads(2)
    executor = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.heads[0].parameters(), lr=0.1))
    executor(torch.ones(2, 3))
    assert "no gradient reaches" not in capfd.readouterr().err


def test_replicas_and_accumulation_change_nothing(capfd):
    options = quiet().replicationFactor(2)
    options.Training.gradientAccumulation(2)
    model = Heads(2)
    poptorch.trainingModel(model, options, poptorch.optim.Adam(model.parameters()))(torch.ones(8, 3))
    log = capfd.readouterr().err
    assert log.count("no gradient reaches") == 1
    assert "which keep their values: heads.1.weight, heads.1.bias." in log
