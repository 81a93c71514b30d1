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
