"""Sequences of varying length whose lengths the model knows: packed, run through recurrent layers, padded again."""

import copy

import poptorch
import pytest
import torch
from support import compare
from torch.nn.utils import rnn

LENGTHS = [5, 3, 3, 1]


class Packed(torch.nn.Module):
    def __init__(self, layer, lengths=LENGTHS, enforce_sorted=True, total_length=None):
        super().__init__()
        self.layer, self.lengths, self.enforce_sorted, self.total_length = layer, lengths, enforce_sorted, total_length

    def forward(self, x):
        packed = rnn.pack_padded_sequence(x, self.lengths, self.layer.batch_first, self.enforce_sorted)
        packed, state = self.layer(packed)
        y, lengths = rnn.pad_packed_sequence(packed, self.layer.batch_first, 0.5, self.total_length)
        state = state[0] if isinstance(state, tuple) else state
        return y, state, lengths, poptorch.identity_loss((y * y).mean() + state.mean(), "none")


LAYERS = {
    "lstm": lambda: torch.nn.LSTM(3, 4, batch_first=True),
    "bidirectional lstm of two layers": lambda: torch.nn.LSTM(3, 4, 2, bidirectional=True),
    "gru": lambda: torch.nn.GRU(3, 4),
    "rnn": lambda: torch.nn.RNN(3, 4, batch_first=True),
}


def train_beside_eager(model, x):
    eager = copy.deepcopy(model)
    trainer = poptorch.trainingModel(model, compare.options(), torch.optim.SGD(model.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    for _ in range(3):
        results = trainer(x)
        optimizer.zero_grad()
        expected = eager(x)
        expected[-1].backward()
        optimizer.step()
        for mine, theirs in zip(results, expected):
            theirs = theirs.detach().to(mine.dtype)
            torch.testing.assert_close(mine.reshape(theirs.shape), theirs, rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(model.parameters(), eager.parameters()):
        torch.testing.assert_close(mine.detach(), theirs.detach(), rtol=1e-4, atol=1e-5)
    compare.no_host_calls(trainer, "packed sequence")


@pytest.mark.parametrize("name", LAYERS)
def test_layers_train_on_packed_sequences(name):
    torch.manual_seed(0)
    layer = LAYERS[name]()
    shape = (4, 5, 3) if layer.batch_first else (5, 4, 3)
    train_beside_eager(Packed(layer), torch.randn(shape))


def test_unsorted_lengths_and_a_total_length():
    torch.manual_seed(0)
    model = Packed(torch.nn.LSTM(3, 4, batch_first=True), [1, 4, 2, 4], False, 6)
    train_beside_eager(model, torch.randn(4, 5, 3))


def test_packing_alone():
    def function(x):
        packed = rnn.pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True)
        return packed.data, rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-2.0)[0]

    compare.check(compare.Case("packing", function, [torch.randn(4, 5, 2, 3)]))


def test_lengths_that_are_an_input_say_what_to_do():
    model = type("Model", (torch.nn.Module,),
                 {"forward": lambda self, x, n: rnn.pack_padded_sequence(x, n, batch_first=True).data})()
    with pytest.raises(poptorch.Error, match=r"(?s)\[pack_padded_sequence\] the lengths.*no input of the model.*mask"):
        poptorch.inferenceModel(model, compare.options())(torch.randn(2, 4, 3), torch.tensor([3, 2]))
