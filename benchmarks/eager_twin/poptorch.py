"""Stands in for poptorch in ../basics.py: the same names, in eager PyTorch with torch's own data loader."""
import torch
from torch import optim  # pylint: disable=unused-import  # poptorch.optim


class Options:
    """Takes every setting and ignores it."""

    def __getattr__(self, name):
        return lambda *values: self


class DataLoader(torch.utils.data.DataLoader):
    """With the defaults of poptorch."""

    def __init__(self, options, dataset, num_workers=0, drop_last=True, **settings):
        super().__init__(dataset, num_workers=num_workers, drop_last=drop_last, persistent_workers=num_workers > 0,
                         **settings)


class _Wrapped:
    def __init__(self, model):
        self.model = model

    def detachFromDevice(self):
        pass


class trainingModel(_Wrapped):
    def __init__(self, model, options=None, optimizer=None):
        super().__init__(model)
        self.optimizer = optimizer

    def __call__(self, *inputs):
        self.optimizer.zero_grad()
        output, loss = self.model(*inputs)
        loss.backward()
        self.optimizer.step()
        return output.detach(), loss.detach()


class inferenceModel(_Wrapped):
    def __init__(self, model, options=None):
        super().__init__(model.eval())

    def __call__(self, *inputs):
        with torch.no_grad():
            return self.model(*inputs)
