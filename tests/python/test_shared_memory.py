"""Which results of torch's shape functions share memory with their argument, and which are copies."""

import poptorch
import pytest
import torch

X = torch.arange(24.0).reshape(2, 3, 4)


def _written(result):
    """Writes to a result in every place."""
    return result.mul_(-1).sub_(1)


CASES = {
    "reshape of a contiguous tensor": lambda x: _written(x.reshape(6, 4)),
    "reshape of a transposed tensor": lambda x: _written(x.transpose(1, 2).reshape(2, 12)),
    "reshape that splits a transposed tensor": lambda x: _written(x.transpose(0, 2).reshape(2, 2, 3, 2)),
    "reshape of rows": lambda x: _written(x[:, 1:].reshape(2, 8)),
    "reshape of columns": lambda x: _written(x[:, :, 1:].reshape(2, 9)),
    "reshape of every second row": lambda x: _written(x[:, ::2].reshape(4, 4)),
    "reshape of an expanded tensor": lambda x: _written(x[:, :1].expand(2, 3, 4).reshape(2, 12)),
    "reshape of a size 1 axis": lambda x: _written(x[:1].transpose(0, 1).reshape(12)),
    "flatten of a permuted tensor": lambda x: _written(x.permute(0, 2, 1).flatten(1)),
    "flatten of a part": lambda x: _written(x[1].flatten()),
    "view_as": lambda x: _written(x.view_as(torch.zeros(4, 6))),
    "contiguous of a contiguous tensor": lambda x: _written(x[1].contiguous()),
    "contiguous of a permuted tensor": lambda x: _written(x.permute(2, 0, 1).contiguous()),
    "contiguous of every second column": lambda x: _written(x[:, :, ::2].contiguous()),
    "channels last": lambda x: _written(x.unsqueeze(0).contiguous(memory_format=torch.channels_last)),
    "reshape after detach": lambda x: _written(x.detach().transpose(0, 1).reshape(-1)),
}


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, inner):
        if inner:
            x = x * 1
        return self.function(x), x * 2


@pytest.mark.parametrize("inner", [False, True], ids=["input", "intermediate"])
@pytest.mark.parametrize("name", CASES)
def test_writes_reach_what_they_reach_in_torch(name, inner):
    expected_input, actual_input = X.clone(), X.clone()
    expected = Model(CASES[name])(expected_input, inner)
    options = poptorch.Options().showCompilationProgressBar(False)
    actual = poptorch.inferenceModel(Model(CASES[name]), options)(actual_input, inner)
    for a, b in zip(actual, expected):
        torch.testing.assert_close(a, b.contiguous(), rtol=0, atol=0)
    assert torch.equal(actual_input, expected_input)
