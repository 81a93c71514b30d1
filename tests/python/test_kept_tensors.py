"""Tensors of a capture that the model keeps: attributes are put back, everything else is an error that says so."""

import poptorch
import pytest
import torch
from torch import nn

from tests.python.support.training import options


class Mask(nn.Module):
    """Makes its mask once, as positional caches do."""

    def __init__(self):
        super().__init__()
        self.mask = None

    def forward(self, x):
        if self.mask is None:
            self.mask = torch.arange(x.shape[-1]).to(x.device) % 2
        return x * self.mask


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)
        self.masked = Mask()

    def forward(self, x):
        return self.masked(self.linear(x))


def test_mask_kept_by_a_child_is_made_anew_in_each_capture():
    model = Model()
    x = torch.randn(2, 4)
    wanted = (model.linear(x) * torch.tensor([0, 1, 0, 1])).detach()
    first = poptorch.inferenceModel(model, options())
    torch.testing.assert_close(first(x), wanted)
    assert model.masked.mask is None
    second = poptorch.inferenceModel(model, options())
    torch.testing.assert_close(second(x), wanted)
    first.destroy()
    torch.testing.assert_close(first(x), wanted)
    torch.testing.assert_close(model(x).detach(), wanted)  # on the host


def test_attributes_are_put_back_after_a_failed_forward():
    class Fails(Model):
        def forward(self, x):
            y = super().forward(x)
            self.last = y
            raise ValueError("on purpose")

    model = Fails()
    with pytest.raises(ValueError, match="on purpose"):
        poptorch.inferenceModel(model, options())(torch.randn(2, 4))
    assert model.masked.mask is None and not hasattr(model, "last")


def test_containers_and_objects_are_put_back():
    class Cache:
        def __init__(self):
            self.entries = {"kept": 1}

    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.states, self.cache, self.calls = [], Cache(), 0
            self.by_name = {"last": None}

        def forward(self, x):
            y = self.linear(x)
            self.calls += 1
            self.states.append(y)
            self.cache.entries["y"] = (y, 2)
            self.by_name["last"] = {"deep": [y]}
            return y + len(self.states)

    model = Keeps()
    x = torch.randn(2, 4)
    wanted = (model.linear(x) + 1).detach()
    for _ in range(2):
        torch.testing.assert_close(poptorch.inferenceModel(nn.Sequential(model), options())(x), wanted)
        assert model.states == [] and model.cache.entries == {"kept": 1} and model.by_name == {"last": None}
    assert model.calls == 2  # what is no tensor stays


def test_tensor_kept_elsewhere_is_refused_in_another_capture():
    kept = []

    class Leaks(Model):
        def forward(self, x):
            y = self.linear(x)
            kept.append(y)
            return y + kept[0]

    model = Leaks()
    x = torch.randn(2, 4)
    poptorch.inferenceModel(model, options())(x)
    with pytest.raises(poptorch.Error, match=r"captured before, and was kept.*\n.*captured at"):
        poptorch.inferenceModel(model, options())(x)


def test_tensor_kept_elsewhere_is_refused_outside_a_capture():
    kept = []

    class Leaks(Model):
        def forward(self, x):
            kept.append(self.linear(x))
            return kept[-1]

    poptorch.inferenceModel(Leaks(), options())(torch.randn(2, 4))
    with pytest.raises(RuntimeError, match="only inside the forward"):
        kept[0] + 1
