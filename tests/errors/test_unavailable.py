"""What cannot be done yet is said by name, with what to do instead."""

import poptorch
import pytest
import torch


def _options():
    return poptorch.Options().showCompilationProgressBar(False)


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_wrapped_model_inside_another():
    inner = poptorch.inferenceModel(torch.nn.Linear(3, 3), _options())
    with pytest.raises(poptorch.Error, match="cannot be called inside the forward of another"):
        poptorch.inferenceModel(Calls(lambda x: inner(x)), _options())(torch.zeros(2, 3))


def test_accumulation_factor_that_contradicts():
    options = _options()
    options._Popart.set("accumulationFactor", 4)
    options.Training.gradientAccumulation(2)
    with pytest.raises(poptorch.Error, match="accumulationFactor is 4, but Training.gradientAccumulation is 2"):
        poptorch.trainingModel(torch.nn.Linear(3, 3), options)(torch.zeros(8, 3))
