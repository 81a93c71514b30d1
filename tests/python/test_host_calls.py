"""Ops without a lowering run on the host: models that use them train as in eager PyTorch."""

import copy

import poptorch
import pytest
import torch
from poptorch import poptorch_core


class Solve(torch.nn.Module):
    """Uses an op on a parameter, between two ops that are lowered."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.eye(4) + 0.1 * torch.randn(4, 4))
        self.loss = torch.nn.MSELoss()

    def forward(self, x, target):
        y = torch.tanh(x @ self.function(self.weight * 2))
        return y, self.loss(y, target)


@pytest.fixture
def without_nan_to_num():
    poptorch_core.remove_handler("aten::nan_to_num")
    yield
    poptorch_core.restore_handlers()


def _train_beside_eager(function):
    torch.manual_seed(0)
    model = Solve(function)
    eager = copy.deepcopy(model)
    options = poptorch.Options().showCompilationProgressBar(False)
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1, momentum=0.9)
    x, target = torch.randn(8, 4), torch.randn(8, 4)
    for _ in range(10):
        loss = trainer(x, target)[1]
        optimizer.zero_grad()
        expected = eager(x, target)[1]
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(model.weight.detach(), eager.weight.detach(), rtol=1e-4, atol=1e-5)
    return trainer._core.host_calls()


def test_inverse_of_a_matrix_trains():
    assert any("linalg_inv" in name for name in _train_beside_eager(torch.linalg.inv))


def test_op_whose_handler_was_removed_trains(without_nan_to_num):
    assert any("nan_to_num" in name for name in _train_beside_eager(torch.nan_to_num))


def test_op_with_its_handler_makes_no_host_call():
    assert not _train_beside_eager(torch.nan_to_num)
