"""nn.Embedding(max_norm=...): the rows that are used are shortened in place, as in eager PyTorch."""

import copy

import poptorch
import torch
from support import compare


def table(**settings):
    torch.manual_seed(0)
    layer = torch.nn.Embedding(6, 3, max_norm=1.0, **settings)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(6, 3) * 2)
    return layer


def test_inference_shortens_the_rows_it_reads():
    layer = table()
    eager = copy.deepcopy(layer)
    index = torch.tensor([[1, 4], [4, 2]])
    executor = poptorch.inferenceModel(layer, compare.options())
    torch.testing.assert_close(executor(index), eager(index).detach())
    compare.no_host_calls(executor, "embedding")
    executor.copyWeightsToHost()
    torch.testing.assert_close(layer.weight.detach(), eager.weight.detach())


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = table()
        self.loss = torch.nn.MSELoss()

    def forward(self, index, target):
        y = self.table(index).sum(1)
        return y, self.loss(y, target)


def test_training_keeps_the_gradient_of_the_table():
    model = Classifier()
    eager = copy.deepcopy(model)
    index, target = torch.tensor([[1, 4], [4, 2], [0, 1]]), torch.randn(3, 3) * 3
    trainer = poptorch.trainingModel(model, compare.options(), torch.optim.SGD(model.parameters(), lr=0.5))
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.5)
    for _ in range(4):
        y, loss = trainer(index, target)
        optimizer.zero_grad()
        expected, expected_loss = eager(index, target)
        expected_loss.backward()
        optimizer.step()
        torch.testing.assert_close(y, expected.detach())
        torch.testing.assert_close(loss, expected_loss.detach())
    torch.testing.assert_close(model.table.weight.detach(), eager.table.weight.detach())
    compare.no_host_calls(trainer, "embedding")
