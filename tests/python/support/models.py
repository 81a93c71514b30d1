"""Small models for tests of devices and replicas, and what they learn."""

import poptorch
import torch


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


class FunctionModel(torch.nn.Module):
    """forward is a function of the module and its inputs; layers are m0, m1, ..."""

    def __init__(self, function, *layers):
        super().__init__()
        self._function = function
        for index, layer in enumerate(layers):
            self.add_module(f"m{index}", layer)

    def forward(self, *inputs):
        return self._function(self, *inputs)


class Layers(torch.nn.Module):
    """Linear layers, each in a block of its own ("0", "1", ...), and a loss in the block of the last."""

    def __init__(self, sizes, seed=1):
        super().__init__()
        torch.manual_seed(seed)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x, target=None):
        for index, layer in enumerate(self.layers):
            with poptorch.Block(str(index), ipu_id=index):
                x = layer(x)
                if index + 1 < len(self.layers):
                    x = torch.tanh(x)
                elif target is not None:
                    return x, torch.nn.functional.mse_loss(x, target)
        return x


def weights(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def train(model, options, inputs, calls=3, optimizer=None):
    """Outputs of the last call, and the weights after it."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    executor = poptorch.trainingModel(model, options, optimizer)
    for _ in range(calls):
        outputs = executor(*inputs)
    executor.copyWeightsToHost()
    learnt = weights(model)
    executor.destroy()
    return outputs, learnt
